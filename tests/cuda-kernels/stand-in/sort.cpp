#include "cuda.hpp"

#include <sort.cu>

static uint32_t blocks_of(uint32_t items, uint32_t each)
{   return (items + each - 1) / each;   }

extern "C" void test_count_digits(uint32_t* counts, const digits_t* digits)
{   launch(blocks_of(digits->points, 256), 256, [&] { count_digits(counts, *digits); });   }

extern "C" void test_place_digits(uint32_t* entries, uint32_t* counts, const uint32_t* starts, const digits_t* digits)
{   launch(blocks_of(digits->points, 256), 256, [&] { place_digits(entries, counts, starts, *digits); });   }

// Where buckets start.
extern "C" void test_sum_counts(uint32_t* starts, uint32_t* totals, const uint32_t* counts, uint32_t buckets)
{
    const uint32_t blocks = blocks_of(buckets, 256 * SUM_RUN);
    launch(blocks, 256, [&] { sum_blocks(starts, totals, counts, buckets); });
    launch(1, 256, [&] { sum_totals(totals, blocks); });
    launch(blocks_of(buckets + 1, 256), 256, [&] { add_totals(starts, totals, buckets, blocks); });
}
