// What CUDA gives a kernel, on the processor: a block is as many threads as it has, one block after another.
#pragma once

#include <barrier>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#define __device__
#define __global__
#define __host__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __shared__ static

struct dim_t { uint32_t x; };

inline thread_local dim_t threadIdx, blockIdx, blockDim, gridDim;
inline thread_local std::barrier<>* block_barrier;

static inline void __syncthreads()
{   block_barrier->arrive_and_wait();   }

// For what is compiled, but not run.
int __syncthreads_or(int);

struct alignas(16) uint4 { uint32_t x, y, z, w; };

static inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w)
{   return {x, y, z, w};   }

template<class T> static inline T min(T a, T b) { return a < b ? a : b; }
template<class T> static inline T max(T a, T b) { return a < b ? b : a; }

static inline uint32_t __brev(uint32_t value)
{
    uint32_t reversed = 0;
    for (int i = 0; i < 32; i++)
        reversed |= (value >> i & 1) << (31 - i);
    return reversed;
}

template<class kernel_t>
static void launch(uint32_t blocks, uint32_t threads, kernel_t kernel)
{
    for (uint32_t block = 0; block < blocks; block++) {
        std::barrier<> barrier(threads);
        std::vector<std::thread> lanes;
        for (uint32_t lane = 0; lane < threads; lane++)
            lanes.emplace_back([&, lane] {
                threadIdx = {lane}, blockIdx = {block}, blockDim = {threads}, gridDim = {blocks};
                block_barrier = &barrier;
                kernel();
            });
        for (std::thread& lane : lanes)
            lane.join();
    }
}
