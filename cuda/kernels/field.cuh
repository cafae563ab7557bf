// Field types and index helpers that all kernels share.
#pragma once

#define FEATURE_BLS12_381
#include <ff/bls12-381-fp2.hpp>

#include <cstdint>

// Reverses the lowest `bits` bits of `value`; no bits give 0.
__device__ __forceinline__ uint32_t reverse_bits(uint32_t value, uint32_t bits)
{   return bits == 0 ? 0 : __brev(value) >> (32 - bits);   }

// Powers of one base in two tables: `base^e = high[e >> split] * low[e & (2^split - 1)]`.
// `high` may carry a constant factor.
struct power_table_t {
    const fr_t* high;
    const fr_t* low;
    uint32_t split;

    __device__ __forceinline__ fr_t at(uint32_t exponent) const
    {
        fr_t power = high[exponent >> split];
        uint32_t rest = exponent & ((1u << split) - 1);
        if (rest != 0)
            power *= low[rest];
        return power;
    }
};

// A vector in one or two pieces: the elements before `split` are at `low`, the others at `high`.
struct vector_t {
    fr_t* low;
    fr_t* high;
    uint32_t split;

    __device__ __forceinline__ fr_t& operator[](uint32_t i) const
    {   return i < split ? low[i] : high[i - split];   }
};

// What becomes of a value and an element.
enum store_t : uint32_t { SET, ADD, MULTIPLY, SUBTRACT };

__device__ __forceinline__ void
store(const vector_t& out, uint32_t i, fr_t value, uint32_t how)
{
    if (how == ADD) {
        value += out[i];
    } else if (how == MULTIPLY) {
        value *= out[i];
    } else if (how == SUBTRACT) {
        fr_t from = out[i];
        value = from - value;
    }
    out[i] = value;
}
