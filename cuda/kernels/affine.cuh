// Points of G1 in affine coordinates, as keys have them: x, then y, 6 words of 16 bytes.
#pragma once

#include "field.cuh"

struct affine_point_t {
    fp_t x, y;

    // The encoding that keys have: no point of the curve has both coordinates 0.
    __device__ __forceinline__ bool is_inf() const
    {   return x.is_zero() && y.is_zero();   }
};

// A coordinate from three words `stride` apart.
static __device__ __forceinline__ fp_t load(const uint4* from, size_t stride = 1)
{
    fp_t value;
    #pragma unroll
    for (uint32_t i = 0; i < 3; i++) {
        uint4 part = from[i * stride];
        value[4 * i] = part.x, value[4 * i + 1] = part.y, value[4 * i + 2] = part.z, value[4 * i + 3] = part.w;
    }
    return value;
}

static __device__ __forceinline__ void store(uint4* to, const fp_t& value, size_t stride = 1)
{
    #pragma unroll
    for (uint32_t i = 0; i < 3; i++)
        to[i * stride] = make_uint4(value[4 * i], value[4 * i + 1], value[4 * i + 2], value[4 * i + 3]);
}

static __device__ __forceinline__ fp_t x_of(const uint4* points, uint32_t index)
{   return load(points + 6 * (size_t)index);   }

static __device__ __forceinline__ fp_t y_of(const uint4* points, uint32_t index, bool negated)
{
    fp_t y = load(points + 6 * (size_t)index + 3);
    y.cneg(negated);
    return y;
}

// A field element for each thread of a block, in shared memory: what a thread needs seldom is kept out of registers there, so
// that more warps fit.
template<uint32_t warps>
struct per_thread_t {
    uint32_t words[warps][32][sizeof(fp_t) / 4];

    __device__ __forceinline__ fp_t& of(uint32_t warp, uint32_t lane)
    {   return *reinterpret_cast<fp_t*>(words[warp][lane]);   }
    __device__ __forceinline__ fp_t& mine()
    {   return of(threadIdx.x / 32, threadIdx.x % 32);   }
};
