#include "cuda.hpp"

// What a launch gives a block of shared memory.
uint2 ordered[16 * 1024];
uint32_t ordered_entries[8192 * 3 / 2];

#include <split.cu>

static_assert(sizeof(ordered) == sizeof(uint2) * MOST_SPLIT * 1024 && sizeof(ordered_entries) == 6 * CHUNK);

// Entries of some windows, by group.
extern "C" void test_split_windows(uint32_t threads, const split_t* split, const digits_t* digits)
{
    const auto blocks_of = [&](uint32_t each) { return (digits->points + each - 1) / each; };
    launch(blocks_of(COUNT_POINTS * THREADS), THREADS, [&] { count_groups(*split, *digits); });
    launch(1, GROUPS, [&] { begin_groups(*split); });
    if (threads == 1024)
        launch(blocks_of(1024), 1024, [&] { split_digits_1024(*split, *digits); });
    else
        launch(blocks_of(512), 512, [&] { split_digits_512(*split, *digits); });
}

extern "C" void test_count_members(uint32_t blocks, uint32_t* counts, const split_t* split)
{   launch(blocks, THREADS, [&] { count_members(counts, *split); });   }

extern "C" void test_place_members(uint32_t blocks, uint32_t* entries, uint32_t* counts, const uint32_t* starts,
                                   const split_t* split, uint32_t first_mark)
{   launch(blocks, THREADS, [&] { place_members(entries, counts, starts, *split, first_mark); });   }
