// What CUDA gives a kernel, on the processor. The threads of a block take turns on one thread of the system: each goes on until it
// has to wait for others. Blocks come one after the other.
#pragma once

// Threads of a block jump between their stacks, which a checked longjmp takes for an error.
#undef _FORTIFY_SOURCE

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <setjmp.h>
#include <ucontext.h>
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

// Of the thread that has its turn.
inline dim_t threadIdx, blockIdx, blockDim, gridDim;

// Those that have to wait for each other.
struct meeting_t {
    uint32_t size, here = 0, times = 0;
};

struct block_t {
    struct lane_t {
        std::unique_ptr<char[]> stack;
        jmp_buf place;
        bool begun = false, done = false;
    };

    std::vector<lane_t> lanes;
    std::vector<meeting_t> warps; // of each warp; the block's is the last
    std::vector<uint32_t> words;  // that lanes show to their warps, in two halves
    std::function<void()> kernel;
    jmp_buf back;

    void run();
    void pass_on();
    void meet(meeting_t& meeting);
    [[noreturn]] void go_on(uint32_t lane);
};

inline block_t* block;

// A thread begins on a stack of its own. Later it is jumped to, also for the blocks that follow, which takes no system call.
[[noreturn]] inline void block_t::go_on(uint32_t lane)
{
    threadIdx.x = lane;
    lane_t& next = lanes[lane];
    if (next.begun)
        _longjmp(next.place, 1);
    next.begun = true;
    static const size_t STACK = 64 << 10;
    if (!next.stack)
        next.stack.reset(new char[STACK]);
    ucontext_t context;
    getcontext(&context);
    context.uc_stack.ss_sp = next.stack.get();
    context.uc_stack.ss_size = STACK;
    context.uc_link = nullptr;
    makecontext(&context, +[] {
        for (;;) {
            block->kernel();
            block->lanes[threadIdx.x].done = true;
            block->pass_on();
        }
    }, 0);
    setcontext(&context);
    abort();
}

// The next thread that is not done has its turn.
inline void block_t::pass_on()
{
    const uint32_t self = threadIdx.x, count = (uint32_t)lanes.size();
    for (uint32_t i = 1; i <= count; i++) {
        const uint32_t next = (self + i) % count;
        if (lanes[next].done)
            continue;
        if (next != self && _setjmp(lanes[self].place) == 0)
            go_on(next);
        return;
    }
    if (_setjmp(lanes[self].place) == 0)
        _longjmp(back, 1);
}

inline void block_t::meet(meeting_t& meeting)
{
    const uint32_t times = meeting.times;
    if (++meeting.here == meeting.size) {
        meeting.here = 0;
        meeting.times++;
        return;
    }
    for (uint32_t idle = 0; meeting.times == times; idle++) {
        // Others have ended, or wait elsewhere.
        if (idle > 100000)
            abort();
        pass_on();
    }
}

inline void block_t::run()
{
    for (lane_t& lane : lanes)
        lane.done = false;
    if (_setjmp(back) == 0)
        go_on(0);
}

template<class kernel_t>
static void launch(uint32_t blocks, uint32_t threads, kernel_t kernel)
{
    block_t all;
    all.lanes.resize(threads);
    all.warps.resize((threads + 31) / 32, meeting_t{32});
    all.warps.push_back(meeting_t{threads});
    all.words.resize(2 * threads);
    all.kernel = kernel;
    block = &all;
    blockDim = {threads}, gridDim = {blocks};
    for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++)
        all.run();
}

static inline void __syncthreads()
{   block->meet(block->warps.back());   }

// For what is compiled, but not run.
int __syncthreads_or(int);

// What all lanes of a warp have, each in its turn.
struct warp_t {
    uint32_t words[32];
    uint32_t lane = threadIdx.x % 32;

    explicit warp_t(uint32_t word)
    {
        meeting_t& meeting = block->warps[threadIdx.x / 32];
        // Who is ahead by then writes to the other half.
        const uint32_t half = meeting.times % 2 * blockDim.x;
        block->words[half + threadIdx.x] = word;
        block->meet(meeting);
        for (uint32_t i = 0; i < 32; i++)
            words[i] = block->words[half + threadIdx.x / 32 * 32 + i];
    }
};

static inline uint32_t __shfl_sync(uint32_t, uint32_t word, uint32_t from)
{   return warp_t(word).words[from % 32];   }

static inline uint32_t __shfl_up_sync(uint32_t, uint32_t word, uint32_t by)
{
    const warp_t warp(word);
    return warp.lane >= by ? warp.words[warp.lane - by] : word;
}

static inline uint32_t __match_any_sync(uint32_t, uint32_t word)
{
    const warp_t warp(word);
    uint32_t same = 0;
    for (uint32_t i = 0; i < 32; i++)
        same |= (uint32_t)(warp.words[i] == word) << i;
    return same;
}

static inline uint32_t __ballot_sync(uint32_t, bool vote)
{
    const warp_t warp(vote);
    uint32_t votes = 0;
    for (uint32_t i = 0; i < 32; i++)
        votes |= warp.words[i] << i;
    return votes;
}

static inline bool __any_sync(uint32_t mask, bool vote)
{   return __ballot_sync(mask, vote) != 0;   }

static inline bool __all_sync(uint32_t mask, bool vote)
{   return __ballot_sync(mask, vote) == 0xffffffff;   }

// Nobody else has a turn meanwhile.
static inline uint32_t atomicAdd(uint32_t* to, uint32_t value)
{
    const uint32_t before = *to;
    *to += value;
    return before;
}

static inline uint32_t atomicSub(uint32_t* from, uint32_t value)
{   return atomicAdd(from, 0 - value);   }

struct alignas(16) uint4 { uint32_t x, y, z, w; };
struct alignas(8) uint2 { uint32_t x, y; };
struct alignas(8) ushort4 { uint16_t x, y, z, w; };

static inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w)
{   return {x, y, z, w};   }
static inline uint2 make_uint2(uint32_t x, uint32_t y)
{   return {x, y};   }
static inline ushort4 make_ushort4(uint16_t x, uint16_t y, uint16_t z, uint16_t w)
{   return {x, y, z, w};   }

template<class T> static inline T min(T a, T b) { return a < b ? a : b; }
template<class T> static inline T max(T a, T b) { return a < b ? b : a; }

static inline uint32_t __popc(uint32_t value)
{   return (uint32_t)__builtin_popcount(value);   }
static inline int __ffs(uint32_t value)
{   return __builtin_ffs((int)value);   }
static inline uint32_t __funnelshift_r(uint32_t low, uint32_t high, uint32_t by)
{   return (uint32_t)(((uint64_t)high << 32 | low) >> by % 32);   }

static inline uint32_t __brev(uint32_t value)
{
    uint32_t reversed = 0;
    for (int i = 0; i < 32; i++)
        reversed |= (value >> i & 1) << (31 - i);
    return reversed;
}
