// What both ways to sort have in common.
#pragma once

#include "cuda.hpp"

#include <digits.cuh>

#include <algorithm>
#include <vector>

static inline uint32_t blocks_of(uint32_t items, uint32_t each)
{   return (items + each - 1) / each;   }

static inline uint32_t windows_of(uint32_t bits)
{   return blocks_of(256, bits);   }

// All digits of scalars whose windows share their buckets.
static inline digits_t digits_of(const uint32_t* scalars, uint32_t points, uint32_t reversed_bits, uint32_t bits,
                                 uint32_t first_mark)
{
    digits_t digits = {};
    digits.scalars = scalars;
    digits.reversed_bits = reversed_bits;
    digits.points = digits.stride = points;
    digits.bits = bits;
    digits.windows = windows_of(bits);
    digits.first_mark = first_mark;
    digits.end_bucket = 1u << (bits - 1);
    for (uint32_t window = 0; window < digits.windows; window++) {
        const uint32_t position = window * bits + bits - 1;
        digits.offset[position / 32] |= 1u << position % 32;
    }
    return digits;
}

// Where buckets start, from their counts.
void sum_counts(uint32_t* starts, const std::vector<uint32_t>& counts);

// Whether all that was counted is placed.
static inline bool all_placed(const std::vector<uint32_t>& counts)
{   return std::all_of(counts.begin(), counts.end(), [](uint32_t count) { return count == 0; });   }
