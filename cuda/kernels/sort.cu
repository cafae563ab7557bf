// Sorts the digits of scalars into buckets: a counting sort over (window, bucket).

#include "digits.cuh"

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
    uint32_t before = block_exclusive_sum<256>(sum, total);
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
        uint32_t sum = block_exclusive_sum<256>(i < n ? totals[i] : 0, total);
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
