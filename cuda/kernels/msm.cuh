// Sums over buckets (Pippenger), for points over any field: G1 takes one lane for each point, G2 two
// (sppark's `fp2_t` keeps one coefficient in each of two neighbouring lanes).
#pragma once

#include "field.cuh"
#include <ec/xyzz_t.hpp>

static const uint32_t NO_BUCKET = 0xffffffff;

// The fewest entries worth a thread of their own: what it has to merge costs as much as six of them.
static const uint32_t LEAST_RUN = 16;

// Runs of buckets that one thread of `weigh` takes.
static const uint32_t WEIGH_RUN = 8;

// The sorted entries that one thread adds up: all threads get the same number.
struct run_t {
    uint32_t begin, end;

    __device__ __forceinline__ run_t(uint32_t total, uint32_t self, uint32_t threads)
    {
        const uint32_t length = max((total + threads - 1) / threads, LEAST_RUN);
        begin = (uint32_t)min((uint64_t)self * length, (uint64_t)total);
        end = min(begin + length, total);
    }
};

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
        const uint32_t self = thread();
        const run_t run(starts[buckets], self, threads());
        if (run.begin == run.end) {
            part_buckets[self] = NO_BUCKET;
            return;
        }
        uint32_t bucket = bucket_of(run.begin, starts, buckets);
        uint32_t next = starts[bucket + 1];
        bool continued = starts[bucket] < run.begin;
        part_buckets[self] = continued ? bucket : NO_BUCKET;

        point_t sum;
        if (continued || fresh)
            sum.inf();
        else
            sum = sums[bucket];
        for (uint32_t entry = run.begin; entry < run.end; entry++) {
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
    // compile. Blocks have 128 lanes, and room in shared memory for a point of each.

    static __device__ __forceinline__ point_m* tile()
    {
        extern __shared__ __align__(16) unsigned char shared[];
        return reinterpret_cast<point_m*>(shared);
    }

    // Adds up neighbouring parts of the same bucket, a block of parts at a time. A bucket's first part is
    // added to the bucket; what a block holds of a bucket whose first part comes in an earlier block is passed on to
    // the next level.
    static __device__ void merge(point_m* sums, point_m* next_parts, uint32_t* next_buckets,
                                 const point_m* parts, const uint32_t* part_buckets, uint32_t count)
    {
        __shared__ uint32_t buckets[128], begins[128], lengths[128];
        const uint32_t self = threadIdx.x / point_t::degree, width = blockDim.x / point_t::degree;
        const uint32_t i = blockIdx.x * width + self;
        const uint32_t bucket = i < count ? part_buckets[i] : NO_BUCKET;
        buckets[self] = bucket;
        __syncthreads();
        const bool first = bucket != NO_BUCKET && (self == 0 || buckets[self - 1] != bucket);
        const bool last = bucket != NO_BUCKET && (self + 1 == width || buckets[self + 1] != bucket);
        const bool passed_on = first && self == 0 && i != 0 && part_buckets[i - 1] == bucket;
        // Where this bucket's parts begin in the block.
        uint32_t begin = first ? self : 0;
        for (uint32_t distance = 1; distance < width; distance *= 2) {
            begins[self] = begin;
            __syncthreads();
            if (self >= distance)
                begin = max(begin, begins[self - distance]);
            __syncthreads();
        }
        const uint32_t place = self - begin;
        if (last)
            lengths[begin] = place + 1;
        __syncthreads();
        uint32_t length = bucket != NO_BUCKET ? lengths[begin] : 0;
        point_t sum;
        if (bucket != NO_BUCKET)
            sum = parts[i];
        else
            sum.inf();
        // The second half of a bucket's parts is added to the first, until one is left: lanes with nothing left to do are
        // neighbours, and make whole warps if the bucket has many parts.
        bool done = false;
        #pragma unroll 1
        while (!done) {
            tile()[self] = sum;
            const uint32_t half = (length + 1) / 2;
            const bool more = place + half < length;
            length = half;
            done = !__syncthreads_or(more);
            point_t next;
            next.inf();
            if (more)
                next = tile()[self + half];
            else if (done && first && !passed_on)
                next = sums[bucket];
            sum.add(next);
            __syncthreads();
        }
        if (passed_on)
            next_parts[blockIdx.x] = sum;
        else if (first)
            sums[bucket] = sum;
        if (self == 0)
            next_buckets[blockIdx.x] = passed_on ? bucket : NO_BUCKET;
    }

    // The sum of a block's points, in its first one. Threads give what `take(i)` returns for i = 0, 1, ... below
    // `count`, and then what the others gave.
    template<class take_t>
    static __device__ point_t block_sum(uint32_t count, take_t take)
    {
        const uint32_t self = threadIdx.x / point_t::degree;
        point_t sum;
        sum.inf();
        uint32_t i = 0, half = blockDim.x / point_t::degree;
        #pragma unroll 1
        while (true) {
            point_t next;
            next.inf();
            if (i < count) { // the same for all threads
                take(i++, next);
            } else if (half > 1) {
                tile()[self] = sum;
                __syncthreads();
                half /= 2;
                if (self < half)
                    next = tile()[self + half];
                __syncthreads();
            } else {
                break;
            }
            sum.add(next);
        }
        return sum;
    }

    // Buckets have weights 1, 2, ... in each set of 2^m. They are taken in runs of 2^log_run; for each run, `plain` gets
    // the sum of its buckets, `weighed` that of its buckets times 1, 2, .... The weighted sum of a set is that of the
    // `weighed`, and of the `plain` times 0, 1, ... 2^log_run each. With `starts`, a bucket without entries counts as empty
    // whatever is in its place.
    static __device__ void weigh_runs(point_m* plain, point_m* weighed, const point_m* sums,
                                      const uint32_t* starts, uint32_t runs, uint32_t log_run)
    {
        // Lanes work in pairs over Fp2: those past the end do the last run's work.
        const uint32_t run = min(thread(), runs - 1);
        point_t sum, weighed_sum;
        sum.inf();
        weighed_sum.inf();
        // From the last bucket down: bucket j is part of the sum when that is added to the weighed one j + 1 times.
        #pragma unroll 1
        for (uint32_t i = 0; i < 2u << log_run; i++) {
            const bool weigh = i % 2 != 0;
            point_t left = weigh ? weighed_sum : sum, right = sum;
            if (!weigh) {
                const uint32_t bucket = ((run + 1) << log_run) - 1 - i / 2;
                right.inf();
                if (starts == nullptr || starts[bucket] != starts[bucket + 1])
                    right = sums[bucket];
            }
            left.add(right);
            if (weigh)
                weighed_sum = left;
            else
                sum = left;
        }
        if (thread() < runs) {
            plain[run] = sum;
            weighed[run] = weighed_sum;
        }
    }

    // For each set of 2^log_runs runs, cut into `slices`: for each bit of a run's number the sum of the `plain` whose
    // number has the bit, and then the sum of all `weighed`.
    static __device__ void weigh(point_m* sums_of_bits, const point_m* plain, const point_m* weighed,
                                 uint32_t log_runs, uint32_t slices)
    {
        const uint32_t self = threadIdx.x / point_t::degree, width = blockDim.x / point_t::degree;
        const uint32_t slice = blockIdx.x % slices, bit = blockIdx.x / slices % (log_runs + 1);
        const uint32_t first_run = blockIdx.x / slices / (log_runs + 1) << log_runs;
        // All runs are twice as many as those with a bit.
        const bool all = bit == log_runs;
        const uint32_t count = all ? 1u << log_runs : 1u << (log_runs - 1);
        const uint32_t each = all ? 2 * WEIGH_RUN : WEIGH_RUN;
        point_t sum = block_sum(each, [&](uint32_t i, point_t& next) {
            uint32_t rest = (slice * each + i) * width + self;
            if (rest >= count)
                return;
            if (all)
                next = weighed[first_run + rest];
            else
                next = plain[first_run + ((rest >> bit << (bit + 1)) | 1u << bit | (rest & ((1u << bit) - 1)))];
        });
        if (self == 0)
            sums_of_bits[blockIdx.x] = sum;
    }

    // The sum of each block's `count` points, which are the slices that `weigh` makes, to where the host looks for
    // it: `results` has `bits` points for each set, which are to be multiplied by 1, 2, 4, ....
    static __device__ void sum(point_m* results, const point_m* points, uint32_t count, uint32_t bits,
                               uint32_t log_run, uint32_t log_runs)
    {
        const uint32_t self = threadIdx.x / point_t::degree, width = blockDim.x / point_t::degree;
        const point_m* mine = points + (size_t)blockIdx.x * count;
        point_t sum = block_sum((count + width - 1) / width, [&](uint32_t i, point_t& next) {
            uint32_t index = i * width + self;
            if (index < count)
                next = mine[index];
        });
        const uint32_t set = blockIdx.x / (log_runs + 1), bit = blockIdx.x % (log_runs + 1);
        // A run's number counts whole runs.
        if (self == 0)
            results[set * bits + (bit == log_runs ? 0 : log_run + bit)] = sum;
    }
};

// The entry points for one kind of point but `accumulate`. Blocks have 128 lanes.
#define MSM_KERNELS(point_t)                                                                                 \
    using msm = msm_t<point_t>;                                                                              \
    extern "C" __global__ void __launch_bounds__(128)                                                        \
    merge(msm::point_m* sums, msm::point_m* next_parts, uint32_t* next_buckets, const msm::point_m* parts,    \
          const uint32_t* part_buckets, uint32_t count)                                                      \
    {   msm::merge(sums, next_parts, next_buckets, parts, part_buckets, count);   }                          \
    extern "C" __global__ void __launch_bounds__(128)                                                        \
    weigh_runs(msm::point_m* plain, msm::point_m* weighed, const msm::point_m* sums, const uint32_t* starts,  \
               uint32_t runs, uint32_t log_run)                                                              \
    {   msm::weigh_runs(plain, weighed, sums, starts, runs, log_run);   }                                    \
    extern "C" __global__ void __launch_bounds__(128)                                                        \
    weigh(msm::point_m* sums_of_bits, const msm::point_m* plain, const msm::point_m* weighed,                 \
          uint32_t log_runs, uint32_t slices)                                                                \
    {   msm::weigh(sums_of_bits, plain, weighed, log_runs, slices);   }                                      \
    extern "C" __global__ void __launch_bounds__(128)                                                        \
    sum(msm::point_m* results, const msm::point_m* points, uint32_t count, uint32_t bits, uint32_t log_run,   \
        uint32_t log_runs)                                                                                   \
    {   msm::sum(results, points, count, bits, log_run, log_runs);   }
