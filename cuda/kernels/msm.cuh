// Sums over buckets (Pippenger), for points over any field: G1 takes one lane for each point, G2 two
// (sppark's `fp2_t` keeps one coefficient in each of two neighbouring lanes).
#pragma once

#include "field.cuh"
#include <ec/xyzz_t.hpp>

static const uint32_t NO_BUCKET = 0xffffffff;

// The fewest entries worth a thread of their own.
static const uint32_t LEAST_RUN = 8;

// Parts that one thread of `merge` takes.
static const uint32_t MERGE_RUN = 4;

template<class point_t>
struct msm_t {
    using affine_t = typename point_t::affine_t;
    using point_m = typename point_t::mem_t;
    using affine_m = typename affine_t::mem_t;

    static __device__ __forceinline__ uint32_t thread()
    {   return (blockIdx.x * blockDim.x + threadIdx.x) / point_t::degree;   }
    static __device__ __forceinline__ uint32_t threads()
    {   return gridDim.x * blockDim.x / point_t::degree;   }

    // The last bucket that starts at or before `entry` and is not empty there.
    static __device__ __forceinline__ uint32_t bucket_of(uint32_t entry, const uint32_t* starts, uint32_t buckets)
    {
        uint32_t low = 0, high = buckets;
        while (high - low > 1) {
            uint32_t middle = low + (high - low) / 2;
            if (starts[middle] <= entry)
                low = middle;
            else
                high = middle;
        }
        return low;
    }

    // Adds up the points of all buckets. Every thread takes a run of the same length of the sorted
    // entries, however they are spread over the buckets. The thread that holds a bucket's
    // first entry writes the bucket; what a run holds of a bucket that began earlier goes to `parts`.
    // Unless `fresh`, the buckets hold sums already, which are added to.
    static __device__ void accumulate(point_m* sums, point_m* parts, uint32_t* part_buckets,
                                      const uint32_t* entries, const uint32_t* starts, uint32_t buckets,
                                      const affine_m* points, uint32_t fresh)
    {
        const uint32_t total = starts[buckets];
        const uint32_t run = max((total + threads() - 1) / threads(), LEAST_RUN);
        const uint32_t self = thread();
        const uint32_t begin = (uint32_t)min((uint64_t)self * run, (uint64_t)total);
        const uint32_t end = min(begin + run, total);
        if (begin == end) {
            part_buckets[self] = NO_BUCKET;
            return;
        }
        uint32_t bucket = bucket_of(begin, starts, buckets);
        uint32_t next = starts[bucket + 1];
        bool continued = starts[bucket] < begin;
        part_buckets[self] = continued ? bucket : NO_BUCKET;

        point_t sum;
        if (continued || fresh)
            sum.inf();
        else
            sum = sums[bucket];
        for (uint32_t entry = begin; entry < end; entry++) {
            if (entry == next) {
                (continued ? parts[self] : sums[bucket]) = sum;
                continued = false;
                do {
                    next = starts[++bucket + 1];
                } while (next <= entry);
                if (fresh)
                    sum.inf();
                else
                    sum = sums[bucket];
            }
            uint32_t index = entries[entry];
            affine_t point = points[index & 0x7fffffff];
            sum.add(point, index >> 31);
        }
        (continued ? parts[self] : sums[bucket]) = sum;
    }

    // The kernels below have one place each where points are added: the code for it is long, and takes long to
    // compile.

    // Adds up neighbouring parts of the same bucket. A bucket's first thread adds to the bucket, the
    // others pass their part on to the next level.
    static __device__ void merge(point_m* sums, point_m* next_parts, uint32_t* next_buckets,
                                 const point_m* parts, const uint32_t* part_buckets, uint32_t count)
    {
        const uint32_t self = thread();
        const uint32_t begin = self * MERGE_RUN;
        if (begin >= count)
            return;
        const uint32_t end = min(begin + MERGE_RUN, count);
        uint32_t bucket = NO_BUCKET, passed_on = NO_BUCKET;
        bool owner = false;
        point_t sum;
        sum.inf();
        #pragma unroll 1
        for (uint32_t i = begin; i <= end; i++) {
            uint32_t here = i < end ? part_buckets[i] : NO_BUCKET;
            if (here != bucket) {
                if (bucket != NO_BUCKET) {
                    (owner ? sums[bucket] : next_parts[self]) = sum;
                    if (!owner)
                        passed_on = bucket;
                }
                bucket = here;
                owner = i != begin || i == 0 || part_buckets[i - 1] != here;
                if (here != NO_BUCKET && owner)
                    sum = sums[bucket];
                else
                    sum.inf();
            }
            if (here != NO_BUCKET) {
                point_t part = parts[i];
                sum.add(part);
            }
        }
        next_buckets[self] = passed_on;
    }

    // totals[t] = the sum of (j + 1) * sums[j] over `run` buckets j of one window, j counted in the window.
    // With `starts`, a bucket without entries counts as empty whatever is in its place.
    //
    // With `first` the window's number of the run's first bucket, S the sum of the run's buckets and W the sum
    // of their sums from the top: totals = W + first * S, the product by doubling and adding.
    static __device__ void weigh(point_m* totals, const point_m* sums, const uint32_t* starts,
                                 uint32_t window_buckets, uint32_t run, uint32_t buckets)
    {
        enum { BUCKET, SUM, WEIGHED, PRODUCT };
        const uint32_t self = thread();
        if (self >= buckets / run)
            return;
        const uint32_t first = self * run, factor = first & (window_buckets - 1);
        const uint32_t bits = factor == 0 ? 0 : 32 - __clz(factor);
        point_t points[4];
        for (uint32_t i = 0; i < 4; i++)
            points[i].inf();
        const uint32_t summed = 2 * run, multiplied = summed + 2 * bits;
        #pragma unroll 1
        for (uint32_t step = 0; step <= multiplied; step++) {
            uint32_t to, from;
            if (step < summed) {
                uint32_t bucket = first + run - 1 - step / 2;
                to = step % 2 == 0 ? SUM : WEIGHED;
                from = step % 2 == 0 ? BUCKET : SUM;
                if (step % 2 == 0) {
                    if (starts != nullptr && starts[bucket] == starts[bucket + 1])
                        continue;
                    points[BUCKET] = sums[bucket];
                }
            } else if (step < multiplied) {
                uint32_t bit = bits - 1 - (step - summed) / 2;
                to = PRODUCT;
                from = step % 2 == 0 ? PRODUCT : SUM;
                if (step % 2 == 1 && ((factor >> bit) & 1) == 0)
                    continue;
            } else {
                to = WEIGHED;
                from = PRODUCT;
            }
            point_t left = points[to], right = points[from];
            left.add(right);
            points[to] = left;
        }
        totals[self] = points[WEIGHED];
    }

    // results[block] = the sum of `count` totals. Blocks have a power of two of threads.
    static __device__ void sum(point_m* results, const point_m* totals, uint32_t count)
    {
        extern __shared__ __align__(16) unsigned char shared[];
        point_m* tile = reinterpret_cast<point_m*>(shared);
        const uint32_t self = threadIdx.x / point_t::degree, width = blockDim.x / point_t::degree;
        const point_m* mine = totals + (size_t)blockIdx.x * count;
        point_t sum;
        sum.inf();
        uint32_t i = self, half = width;
        #pragma unroll 1
        while (true) {
            point_t next;
            next.inf();
            if (i - self < count) { // the same for all threads
                if (i < count)
                    next = mine[i];
                i += width;
            } else if (half > 1) {
                tile[self] = sum;
                __syncthreads();
                half /= 2;
                if (self < half)
                    next = tile[self + half];
                __syncthreads();
            } else {
                break;
            }
            sum.add(next);
        }
        if (self == 0)
            results[blockIdx.x] = sum;
    }
};

// The entry points for one kind of point. Blocks have 128 lanes.
#define MSM_KERNELS(point_t)                                                                                 \
    using msm = msm_t<point_t>;                                                                              \
    extern "C" __global__ void __launch_bounds__(128, 3)                                                     \
    accumulate(msm::point_m* sums, msm::point_m* parts, uint32_t* part_buckets, const uint32_t* entries,      \
               const uint32_t* starts, uint32_t buckets, const msm::affine_m* points, uint32_t fresh)         \
    {   msm::accumulate(sums, parts, part_buckets, entries, starts, buckets, points, fresh);   }              \
    extern "C" __global__ void __launch_bounds__(128)                                                        \
    merge(msm::point_m* sums, msm::point_m* next_parts, uint32_t* next_buckets, const msm::point_m* parts,    \
          const uint32_t* part_buckets, uint32_t count)                                                      \
    {   msm::merge(sums, next_parts, next_buckets, parts, part_buckets, count);   }                          \
    extern "C" __global__ void __launch_bounds__(128)                                                        \
    weigh(msm::point_m* totals, const msm::point_m* sums, const uint32_t* starts, uint32_t window_buckets,    \
          uint32_t run, uint32_t buckets)                                                                    \
    {   msm::weigh(totals, sums, starts, window_buckets, run, buckets);   }                                  \
    extern "C" __global__ void __launch_bounds__(128)                                                        \
    sum(msm::point_m* results, const msm::point_m* totals, uint32_t count)                                   \
    {   msm::sum(results, totals, count);   }
