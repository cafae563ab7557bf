#include "sort.hpp"

#include <sort.cu>

void sum_counts(uint32_t* starts, const std::vector<uint32_t>& counts)
{
    const uint32_t buckets = (uint32_t)counts.size(), blocks = blocks_of(buckets, 256 * SUM_RUN);
    std::vector<uint32_t> totals(blocks + 1);
    launch(blocks, 256, [&] { sum_blocks(starts, totals.data(), counts.data(), buckets); });
    launch(1, 256, [&] { sum_totals(totals.data(), blocks); });
    launch(blocks_of(buckets + 1, 256), 256, [&] { add_totals(starts, totals.data(), buckets, blocks); });
}

// Counted, then placed, for so many ranges of buckets one after the other. False when a counter is not back at 0.
extern "C" bool test_sort_in_one_step(const uint32_t* scalars, uint32_t points, uint32_t reversed_bits, uint32_t bits,
                                      uint32_t first_mark, uint32_t ranges, uint32_t* entries, uint32_t* starts)
{
    digits_t digits = digits_of(scalars, points, reversed_bits, bits, first_mark);
    const uint32_t buckets = digits.end_bucket, blocks = blocks_of(points, 256);
    std::vector<uint32_t> counts(buckets);
    launch(blocks, 256, [&] { count_digits(counts.data(), digits); });
    sum_counts(starts, counts);
    for (uint32_t range = 0; range < ranges; range++) {
        digits.first_bucket = (uint64_t)buckets * range / ranges;
        digits.end_bucket = (uint64_t)buckets * (range + 1) / ranges;
        launch(blocks, 256, [&] { place_digits(entries, counts.data(), starts, digits); });
    }
    return all_placed(counts);
}
