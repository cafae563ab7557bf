// The digits of scalars, and the buckets of their entries.
//
// A scalar s is written in signed digits of c bits, s = sum d_w 2^(c w), -2^(c-1) <= d_w < 2^(c-1). Adding
// the constant sum 2^(c-1) 2^(c w) first makes every digit the plain c-bit field of the sum less
// 2^(c-1): no carry runs from window to window. A zero digit makes no entry, so that a scalar 0
// costs nothing and a scalar 1 one addition.

#pragma once

#include "field.cuh"

struct digits_t {
    const uint32_t* scalars;   // canonical, 8 limbs each
    const uint32_t* variables; // scalar of each point, or null
    uint32_t first;            // with no variables: point i has scalar first + i,
    uint32_t reversed_bits;    // or, when this is not 0, the bit reversal of that
    uint32_t points;
    uint32_t stride;           // points of a table of multiples, one for each window; 0 when there are none
    uint32_t bits;             // c
    uint32_t first_window, windows;
    uint32_t first_mark;       // is set in an entry that is the first of its bucket
    uint32_t first_bucket;     // `place_digits` takes entries of buckets from here
    uint32_t end_bucket;       // to here
    uint32_t offset[9];        // the constant above
};

static const uint32_t NO_KEY = 0xffffffff;

// The bucket of a digit that is not 0. With multiples at hand, all windows share their buckets.
__device__ __forceinline__ uint32_t bucket_of(const digits_t& d, uint32_t window, int32_t digit)
{   return (d.stride != 0 ? 0 : window << (d.bits - 1)) + abs(digit) - 1;   }

// The scalar of one point plus the constant, shifted so that the next window is at the bottom.
struct digit_stream_t {
    uint32_t limbs[9];
    bool narrow; // the scalar is 0 or 1

    __device__ __forceinline__ digit_stream_t() : narrow(true) {}

    // The windows in which a lane of this warp can have a digit other than 0: a scalar 0 or 1 only has one in
    // window 0.
    __device__ __forceinline__ uint32_t windows(const digits_t& d) const
    {
        if (__any_sync(0xffffffff, !narrow))
            return d.windows;
        return d.first_window == 0 ? 1 : 0;
    }

    __device__ __forceinline__ void shift_right(uint32_t bits)
    {
        for (int i = 0; i < 8; i++)
            limbs[i] = __funnelshift_r(limbs[i], limbs[i + 1], bits);
        limbs[8] >>= bits;
    }
    __device__ __forceinline__ void load(const digits_t& d, uint32_t point)
    {
        uint32_t index = d.variables != nullptr ? d.variables[point]
                       : d.reversed_bits != 0 ? reverse_bits(d.first + point, d.reversed_bits)
                       : d.first + point;
        const uint4* scalar = reinterpret_cast<const uint4*>(d.scalars) + 2 * (size_t)index;
        uint4 low = scalar[0], high = scalar[1];
        uint32_t value[9] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w, 0};
        narrow = (low.y | low.z | low.w | high.x | high.y | high.z | high.w) == 0 && low.x <= 1;
        uint64_t carry = 0;
        for (int i = 0; i < 9; i++) {
            carry += (uint64_t)value[i] + d.offset[i];
            limbs[i] = (uint32_t)carry;
            carry >>= 32;
        }
        uint32_t skip = d.bits * d.first_window;
        for (; skip >= 32; skip -= 32) {
            for (int i = 0; i < 8; i++)
                limbs[i] = limbs[i + 1];
            limbs[8] = 0;
        }
        shift_right(skip);
    }
    __device__ __forceinline__ int32_t next(uint32_t bits)
    {
        int32_t digit = (int32_t)(limbs[0] & ((1u << bits) - 1)) - (int32_t)(1u << (bits - 1));
        shift_right(bits);
        return digit;
    }
};

// Lanes with the same key act as one, so that a bucket that takes half of all points (the ones of a
// witness of bits) is no queue of atomics.
struct same_key_t {
    uint32_t count, rank;
    int leader;

    __device__ __forceinline__ same_key_t(uint32_t key)
    {
        uint32_t lane = threadIdx.x % 32;
        uint32_t peers = __match_any_sync(0xffffffff, key);
        count = __popc(peers);
        rank = __popc(peers & ((1u << lane) - 1));
        leader = __ffs(peers) - 1;
    }
};

__device__ __forceinline__ uint32_t warp_inclusive_sum(uint32_t value)
{
    for (uint32_t step = 1; step < 32; step *= 2) {
        uint32_t below = __shfl_up_sync(0xffffffff, value, step);
        if (threadIdx.x % 32 >= step)
            value += below;
    }
    return value;
}

// Exclusive sum over one block of so many threads; `total` is the sum of all.
template<uint32_t THREADS>
__device__ __forceinline__ uint32_t block_exclusive_sum(uint32_t value, uint32_t& total)
{
    __shared__ uint32_t warps[THREADS / 32];
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, sum = warp_inclusive_sum(value);
    __syncthreads();
    if (lane == 31)
        warps[warp] = sum;
    __syncthreads();
    const uint32_t to_here = warp_inclusive_sum(lane < THREADS / 32 ? warps[lane] : 0);
    total = __shfl_sync(0xffffffff, to_here, 31);
    return __shfl_sync(0xffffffff, to_here, warp) - warps[warp] + sum - value;
}
