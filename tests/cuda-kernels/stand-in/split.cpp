#include "sort.hpp"

// What a launch gives a block of shared memory.
uint2 ordered[16 * 1024];
uint32_t ordered_entries[8192 * 3 / 2];

#include <split.cu>

static_assert(sizeof(ordered) == sizeof(uint2) * MOST_SPLIT * 1024 && sizeof(ordered_entries) == 6 * CHUNK);

// Entries of some windows, by group.
static void split_windows(uint32_t threads, const split_t& split, digits_t digits, uint32_t first, uint32_t windows)
{
    digits.first_window = first;
    digits.windows = min(windows, digits.windows - first);
    launch(blocks_of(digits.points, COUNT_POINTS * THREADS), THREADS, [&] { count_groups(split, digits); });
    launch(1, GROUPS, [&] { begin_groups(split); });
    launch(blocks_of(digits.points, threads), threads, [&] {
        threads == 1024 ? split_digits_1024(split, digits) : split_digits_512(split, digits);
    });
}

// By groups of buckets, then within each; so many windows at a time. False when a counter is not back at 0.
extern "C" bool test_sort_in_two_steps(const uint32_t* scalars, uint32_t points, uint32_t reversed_bits, uint32_t bits,
                                       uint32_t first_mark, uint32_t windows, uint32_t threads, uint32_t* entries,
                                       uint32_t* starts)
{
    const digits_t digits = digits_of(scalars, points, reversed_bits, bits, first_mark);
    const uint32_t room = windows * points + QUAD * GROUPS, last = (digits.windows - 1) / windows * windows;
    std::vector<uint4> quads(blocks_of(room, 4)), members(blocks_of(room, 8));
    std::vector<uint32_t> group_counts(GROUPS), begins(GROUPS), ends(GROUPS), chunks(GROUPS + 1);
    const split_t split = {
        reinterpret_cast<uint32_t*>(quads.data()), reinterpret_cast<uint16_t*>(members.data()),
        group_counts.data(), begins.data(), ends.data(), chunks.data(),
        bits - 1 - (uint32_t)__builtin_ctz(GROUPS),
    };
    std::vector<uint32_t> counts(digits.end_bucket);
    // A card has a block for each chunk that there may be; those without one do nothing.
    const auto chunk_blocks = [&] { return chunks[GROUPS] + 2; };
    for (uint32_t first = 0; first <= last; first += windows) {
        split_windows(threads, split, digits, first, windows);
        launch(chunk_blocks(), THREADS, [&] { count_members(counts.data(), split); });
    }
    sum_counts(starts, counts);
    // The last windows to be counted are there already.
    for (uint32_t first = last;; first -= windows) {
        if (first != last)
            split_windows(threads, split, digits, first, windows);
        launch(chunk_blocks(), THREADS, [&] { place_members(entries, counts.data(), starts, split, first_mark); });
        if (first == 0)
            return all_placed(counts);
    }
}
