// Sorts the digits of scalars into buckets: a counting sort over (window, bucket).
//
// A scalar s is written in signed digits of c bits, s = sum d_w 2^(c w), -2^(c-1) <= d_w < 2^(c-1). Adding
// the constant sum 2^(c-1) 2^(c w) first makes every digit the plain c-bit field of the sum less
// 2^(c-1): no carry runs from window to window. A zero digit makes no entry, so that a scalar 0
// costs nothing and a scalar 1 one addition.

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

// counts[window * buckets + bucket] += 1 for each entry.
extern "C" __global__ void __launch_bounds__(256)
count_digits(uint32_t* counts, digits_t d)
{
    uint32_t point = blockIdx.x * blockDim.x + threadIdx.x;
    digit_stream_t stream;
    if (point < d.points)
        stream.load(d, point);
    const uint32_t windows = stream.windows(d);
    for (uint32_t window = 0; window < windows; window++) {
        uint32_t key = NO_KEY;
        if (point < d.points) {
            int32_t digit = stream.next(d.bits);
            if (digit != 0)
                key = bucket_of(d, window, digit);
        }
        same_key_t same(key);
        if (same.rank == 0 && key != NO_KEY)
            atomicAdd(&counts[key], same.count);
    }
}

// Puts each entry (point number, sign in the top bit, and the mark if it is the first) in its bucket's run of `entries`. Counts
// `counts` down to zero; which entry comes first in a bucket is not determined, and no matter. Launched for a range of
// buckets at a time, so that the runs written to stay in the L2 cache while they are filled.
extern "C" __global__ void __launch_bounds__(256)
place_digits(uint32_t* entries, uint32_t* counts, const uint32_t* starts, digits_t d)
{
    uint32_t point = blockIdx.x * blockDim.x + threadIdx.x;
    digit_stream_t stream;
    if (point < d.points)
        stream.load(d, point);
    const uint32_t windows = stream.windows(d);
    for (uint32_t window = 0; window < windows; window++) {
        uint32_t key = NO_KEY, sign = 0;
        if (point < d.points) {
            int32_t digit = stream.next(d.bits);
            if (digit != 0) {
                uint32_t bucket = bucket_of(d, window, digit);
                key = d.first_bucket <= bucket && bucket < d.end_bucket ? bucket : NO_KEY;
                sign = digit < 0 ? 0x80000000 : 0;
            }
        }
        if (!__any_sync(0xffffffff, key != NO_KEY))
            continue;
        same_key_t same(key);
        uint32_t position = 0;
        if (same.rank == 0 && key != NO_KEY)
            position = starts[key] + atomicSub(&counts[key], same.count) - same.count;
        position = __shfl_sync(0xffffffff, position, same.leader);
        if (key != NO_KEY) {
            position += same.rank;
            const uint32_t mark = d.first_mark != 0 && position == starts[key] ? d.first_mark : 0;
            entries[position] = ((d.first_window + window) * d.stride + point) | mark | sign;
        }
    }
}

// Exclusive sum over one block of 256 threads; `total` is the sum of all.
__device__ __forceinline__ uint32_t block_exclusive_sum(uint32_t value, uint32_t& total)
{
    __shared__ uint32_t warps[8];
    uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, sum = value;
    for (uint32_t step = 1; step < 32; step *= 2) {
        uint32_t below = __shfl_up_sync(0xffffffff, sum, step);
        if (lane >= step)
            sum += below;
    }
    __syncthreads();
    if (lane == 31)
        warps[warp] = sum;
    __syncthreads();
    uint32_t before = 0;
    total = 0;
    for (uint32_t i = 0; i < 8; i++) {
        if (i < warp)
            before += warps[i];
        total += warps[i];
    }
    return before + sum - value;
}

// Entries that one thread of `sum_blocks` takes.
static const uint32_t SUM_RUN = 8;

// Exclusive sums within each block of 256 * SUM_RUN counts; `totals` gets one sum a block.
extern "C" __global__ void __launch_bounds__(256)
sum_blocks(uint32_t* sums, uint32_t* totals, const uint32_t* counts, uint32_t n)
{
    uint32_t first = (blockIdx.x * blockDim.x + threadIdx.x) * SUM_RUN;
    uint32_t run[SUM_RUN], sum = 0, total;
    for (uint32_t i = 0; i < SUM_RUN; i++) {
        run[i] = sum;
        sum += first + i < n ? counts[first + i] : 0;
    }
    uint32_t before = block_exclusive_sum(sum, total);
    for (uint32_t i = 0; i < SUM_RUN; i++)
        if (first + i < n)
            sums[first + i] = before + run[i];
    if (threadIdx.x == 0)
        totals[blockIdx.x] = total;
}

// Exclusive sums of the totals, in place; `totals[n]` becomes the sum of all. One block.
extern "C" __global__ void __launch_bounds__(256)
sum_totals(uint32_t* totals, uint32_t n)
{
    uint32_t before = 0;
    for (uint32_t first = 0; first < n; first += blockDim.x) {
        uint32_t i = first + threadIdx.x, total;
        uint32_t sum = block_exclusive_sum(i < n ? totals[i] : 0, total);
        if (i < n)
            totals[i] = before + sum;
        before += total;
    }
    if (threadIdx.x == 0)
        totals[n] = before;
}

// Adds to each sum what comes before its block; `sums[n]` becomes the sum of all.
extern "C" __global__ void
add_totals(uint32_t* sums, const uint32_t* totals, uint32_t n, uint32_t blocks)
{
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        sums[i] += totals[i / (256 * SUM_RUN)];
    else if (i == n)
        sums[n] = totals[blocks];
}
