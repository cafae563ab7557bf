// Sums over the buckets of G1 in affine coordinates: 5 multiplications and a squaring for an addition instead of the 8 and 2
// of XYZZ coordinates. Each addition needs the inverse of a difference of two x; many additions that do not depend on each
// other share one inversion (Montgomery's trick).

#include "affine.cuh"
#include "async.cuh"
#include "msm.cuh"

// Set in an entry: the first of its bucket.
static const uint32_t FIRST = 0x40000000;

// Of a block. The more there are, the more share an inversion, and the more wait for it.
static const uint32_t WARPS = 4;

using shared_t = per_thread_t<WARPS>;

// A run's sum so far and what else is kept of it. The words of a warp's 32 runs of the same number lie side by side.
struct runs_t {
    uint4* sums;       // 6 for each run: x and y
    uint4* products;   // 3 for each run
    uint32_t* buckets; // the bucket of its next entry; CONTINUED if that began in an earlier run

    __device__ __forceinline__ uint4* x(uint32_t run) const
    {   return sums + 6 * (size_t)run - 5 * (threadIdx.x % 32);   }
    __device__ __forceinline__ uint4* y(uint32_t run) const
    {   return x(run) + 3 * 32;   }
    __device__ __forceinline__ uint4* product(uint32_t run) const
    {   return products + 3 * (size_t)run - 2 * (threadIdx.x % 32);   }
};

static const uint32_t CONTINUED = 0x80000000;

// Set in the last word of a run's product, where a field element has no bit: the run's next addition may be no CHORD.
static const uint32_t RARE = 0x80000000;
static const uint32_t LAST_WORD = sizeof(fp_t) / 4 - 1;

static __device__ __forceinline__ fp_t x_of_entry(const uint4* points, uint32_t entry)
{   return x_of(points, entry & (FIRST - 1));   }

static __device__ __forceinline__ fp_t y_of_entry(const uint4* points, uint32_t entry)
{   return y_of(points, entry & (FIRST - 1), entry >> 31);   }

// How two points are added.
enum addition_t { CHORD, TANGENT, OPPOSITE, LEFT_IS_INFINITE, RIGHT_IS_INFINITE, NOTHING };

static __device__ __forceinline__ bool has_slope(addition_t addition)
{   return addition <= TANGENT;   }

static __device__ __noinline__ addition_t rare_addition(const fp_t& x, const fp_t& y, const uint4* points, uint32_t entry)
{
    const affine_point_t right = {x_of_entry(points, entry), y_of_entry(points, entry)};
    if (right.is_inf())
        return RIGHT_IS_INFINITE;
    if (x.is_zero() && y.is_zero())
        return LEFT_IS_INFINITE;
    if (!(x - right.x).is_zero())
        return CHORD;
    return (y - right.y).is_zero() ? TANGENT : OPPOSITE;
}

// What the slope of an addition is divided by; one where it has no slope.
static __device__ __forceinline__ fp_t divisor_of(addition_t addition, const fp_t& difference, const fp_t& y)
{
    switch (addition) {
    case CHORD:
        return difference;
    case TANGENT:
        // Not 0: the curve has no point of order 2.
        return y + y;
    default:
        return fp_t::one();
    }
}

// What the slope of a tangent has above the line.
static __device__ __noinline__ void tangent_dividend(fp_t& dividend, const fp_t& x)
{
    const fp_t square = x * x;
    dividend = square + square + square;
}

// inverses = 1 / values. A warp of the block, another one each time, does the only inversion for the lanes of the same
// number in all warps. Multiplications are 440 instructions each: loops that hold one are not unrolled.
static __device__ __noinline__ void invert(shared_t& inverses, shared_t& values, uint32_t turn)
{
    const uint32_t lane = threadIdx.x % 32;
    __syncthreads();
    if (threadIdx.x / 32 == turn % WARPS) {
        fp_t product = values.of(0, lane);
        #pragma unroll 1
        for (uint32_t i = 1; i < WARPS; i++) {
            inverses.of(i, lane) = product;
            product *= values.of(i, lane);
        }
        product = product.reciprocal();
        #pragma unroll 1
        for (uint32_t i = 2 * (WARPS - 1); i > 0; i--) {
            const uint32_t warp = (i + 1) / 2;
            if (i % 2 == 0)
                inverses.of(warp, lane) *= product;
            else
                product *= values.of(warp, lane);
        }
        inverses.of(0, lane) = product;
    }
    __syncthreads();
}

// Where sums of buckets go.
struct buckets_t {
    fp_t* sums;             // X, Y, ZZZ, ZZ
    fp_t* parts;            // of buckets that began in an earlier run: x, y
    const uint32_t* starts;

    // Hands over the sum of a run's bucket, which has ended, or the run has.
    __device__ __forceinline__ void take(uint32_t bucket, size_t run, const fp_t& x, const fp_t& y) const
    {
        if (bucket & CONTINUED) {
            parts[2 * run] = x, parts[2 * run + 1] = y;
        } else {
            fp_t* to = sums + 4 * (size_t)bucket;
            fp_t z = fp_t::one(x.is_zero() && y.is_zero());
            to[0] = x, to[1] = y, to[2] = z, to[3] = z;
        }
    }

    // The bucket of an entry that is a later one's first.
    __device__ __forceinline__ uint32_t after(uint32_t bucket, uint32_t entry) const
    {
        bucket &= ~CONTINUED;
        do {
            bucket++;
        } while (starts[bucket + 1] <= entry);
        return bucket;
    }
};

// The multiplications of an addition, in their order. There is one in the code, and one square: all six inline are more
// than the instruction cache holds, and warps would wait for instructions most of all.
//
// What an addition reads comes to shared memory while a multiplication goes on, and is used after it: the run's sum and the
// point's y during INVERSE, the point's x during SLOPE, the x of the run's next point during the three after that, the next run's
// product during PRODUCT.
enum step_t {
    INVERSE,      // of the divisor: that of all divisors up to this one, times the product of those before it
    SLOPE,
    NEXT_INVERSE, // of the divisors before this one
    SQUARE,       // of the slope
    ORDINATE,     // of the sum
    PRODUCT,      // of the next additions' divisors
};

// Adds up the points of all buckets, which hold nothing before. As `accumulate` of msm.cuh, but each thread has
// `batch` runs, whose next additions share an inversion. Runs k * threads + i are those of thread i. `points` are pairs x, y;
// entries have FIRST set where a bucket begins, and there are fewer than 2^30.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 20 / WARPS)
accumulate_batched(fp_t* sums, fp_t* parts, uint32_t* part_buckets, const uint32_t* entries, const uint32_t* starts,
                   uint32_t buckets, const uint4* points, uint4* run_sums, uint4* run_products, uint32_t* run_buckets,
                   uint32_t batch)
{
    const uint32_t threads = gridDim.x * blockDim.x, self = blockIdx.x * blockDim.x + threadIdx.x;
    const runs_t runs = {run_sums, run_products, run_buckets};
    const buckets_t to = {sums, parts, starts};
    const uint32_t total = starts[buckets];
    const uint32_t length = max((total + threads * batch - 1) / (threads * batch), 1u);
    // Run k's entries begin at begin + k * stride: below 2^31, as there are fewer than 2^30 entries.
    const uint32_t begin = self * length, stride = threads * length;
    // Those of this thread's runs that have entry i of `length` are the first ones.
    auto runs_with = [&](uint32_t i) -> uint32_t {
        const uint32_t first = begin + i;
        return i >= length || first >= total ? 0 : min(batch, (total - first + stride - 1) / stride);
    };

    __shared__ __align__(16) shared_t products, inverses, xs, ys, slopes, slots;
    fp_t& product = products.mine();
    fp_t& inverse = inverses.mine();
    fp_t& x = xs.mine(); // of the sum of the run that has its turn
    fp_t& y = ys.mine();
    fp_t& slope = slopes.mine();
    fp_t& requested = slots.mine();
    auto run_of = [&](uint32_t k) -> uint32_t { return k * threads + self; };
    auto x_at = [&](uint32_t entry) -> const uint4* { return points + 6 * (size_t)(entry & (FIRST - 1)); };

    // A run's next entry, as far as that goes without a multiplication: what its addition divides by, or one. Its x has been
    // requested.
    auto prepare = [&](uint32_t run, uint32_t place, uint32_t entry) -> fp_t {
        await_requests();
        if (entry & FIRST) {
            uint32_t& bucket = runs.buckets[run];
            to.take(bucket, run, x, y);
            bucket = to.after(bucket, place);
            x = requested;
            y = y_of_entry(points, entry);
            return fp_t::one();
        }
        fp_t divisor = requested, before = product;
        const bool zero = divisor.is_zero() || x.is_zero();
        divisor -= x;
        if (zero || divisor.is_zero()) {
            divisor = divisor_of(rare_addition(x, y, points, entry), divisor, y);
            before[LAST_WORD] |= RARE;
        }
        store(runs.product(run), before, 32);
        return divisor;
    };

    uint32_t next_count = runs_with(1);
    product = fp_t::one();
    #pragma unroll 1
    for (uint32_t k = 0; k < batch; k++) {
        const uint32_t run = run_of(k), place = begin + k * stride;
        part_buckets[run] = NO_BUCKET;
        if (k >= runs_with(0))
            continue;
        uint32_t bucket = msm_t<xyzz_t<fp_t>>::bucket_of(place, starts, buckets);
        if (starts[bucket] < place) {
            part_buckets[run] = bucket;
            bucket |= CONTINUED;
        }
        runs.buckets[run] = bucket;
        x = x_of_entry(points, entries[place]);
        y = y_of_entry(points, entries[place]);
        if (k < next_count) {
            const uint32_t entry = entries[place + 1];
            request(requested, x_at(entry));
            product *= prepare(run, place + 1, entry);
        }
        store(runs.x(run), x, 32);
        store(runs.y(run), y, 32);
    }
    // The last divisor that went into a product is the first that comes out of its inverse: runs take turns
    // from the first to the last and back.
    int32_t direction = -1;
    #pragma unroll 1
    for (uint32_t i = 1; i < length; i++, direction = -direction) {
        const uint32_t count = next_count;
        next_count = runs_with(i + 1);
        invert(inverses, products, blockIdx.x + i);
        if (count == 0)
            continue;
        product = fp_t::one();
        uint32_t k = direction < 0 ? count - 1 : 0;
        const uint32_t end = direction < 0 ? ~0u : count;
        uint32_t entry = entries[begin + i + k * stride];
        request(requested, runs.product(run_of(k)), 32);
        #pragma unroll 1
        do {
            await_requests();
            fp_t left = inverse, right = requested;
            request(x, runs.x(run_of(k)), 32);
            request(y, runs.y(run_of(k)), 32);
            request(requested, x_at(entry) + 3); // its y
            // An entry that is its bucket's first is the sum already: of it there is no product, and whatever is read makes a slope
            // that is not used.
            addition_t addition = entry & FIRST ? NOTHING : CHORD;
            if (addition == CHORD && right[LAST_WORD] & RARE) {
                await_requests();
                addition = rare_addition(x, y, points, entry);
            }
            right[LAST_WORD] &= ~RARE;
            uint32_t following = 0; // the run's next entry
            #pragma unroll 1
            for (uint32_t step = INVERSE;; step++) {
                if (step == SQUARE)
                    left.sqr();
                else
                    left *= right;
                if (step == INVERSE) {
                    await_requests();
                    if (addition == TANGENT) {
                        tangent_dividend(slope, x);
                        right = slope;
                    } else {
                        right = requested;
                        right.cneg(entry >> 31);
                        right -= y;
                    }
                    request(requested, x_at(entry));
                    if (k < next_count)
                        following = entries[begin + i + 1 + k * stride];
                } else if (step == SLOPE) {
                    slope = left;
                    await_requests();
                    if (addition == CHORD) {
                        right = requested;
                        right -= x;
                    } else {
                        right = divisor_of(addition, left, y);
                    }
                    if (k < next_count)
                        request(requested, x_at(following));
                    left = inverse;
                } else if (step == NEXT_INVERSE) {
                    inverse = left;
                    left = slope;
                } else if (step == SQUARE) {
                    // Less the x of both, of which the second is the first and the divisor.
                    left -= x;
                    left -= x;
                    if (addition == CHORD)
                        left -= right;
                    right = x;
                    right -= left;
                    if (has_slope(addition))
                        x = left;
                    left = slope;
                } else if (step == ORDINATE) {
                    if (has_slope(addition)) {
                        left -= y;
                        y = left;
                    } else if (addition == LEFT_IS_INFINITE) {
                        x = x_of_entry(points, entry);
                        y = y_of_entry(points, entry);
                    } else if (addition == OPPOSITE) {
                        x.zero(), y.zero();
                    }
                    const bool goes_on = k < next_count;
                    if (goes_on) {
                        right = prepare(run_of(k), begin + i + 1 + k * stride, following);
                        left = product;
                    }
                    store(runs.x(run_of(k)), x, 32);
                    store(runs.y(run_of(k)), y, 32);
                    k += direction;
                    if (k != end) {
                        entry = entries[begin + i + k * stride];
                        request(requested, runs.product(run_of(k)), 32);
                    }
                    if (!goes_on)
                        break;
                } else {
                    product = left;
                    break;
                }
            }
        } while (k != end);
    }
    for (uint32_t k = 0; k < runs_with(0); k++) {
        const uint32_t run = run_of(k);
        to.take(runs.buckets[run], run, load(runs.x(run), 32), load(runs.y(run), 32));
    }
}

// Parts that one thread of `merge_runs` takes.
static const uint32_t MERGE_RUN = 8;

// Adds the parts that runs left to their buckets, as `accumulate` does points, 8 a thread. What a thread has of a bucket
// whose first part is another thread's is passed on, one part for each thread, for `merge`.
extern "C" __global__ void __launch_bounds__(128, 3)
merge_runs(xyzz_t<fp_t>::mem_t* sums, xyzz_t<fp_t>::mem_t* next_parts, uint32_t* next_buckets,
           const xyzz_t<fp_t>::affine_t::mem_t* parts, const uint32_t* part_buckets, uint32_t count)
{
    const uint32_t self = blockIdx.x * blockDim.x + threadIdx.x;
    const uint32_t begin = self * MERGE_RUN, end = min(begin + MERGE_RUN, count);
    if (begin >= count)
        return;
    xyzz_t<fp_t> sum;
    uint32_t bucket = NO_BUCKET;
    bool passed_on = false;
    auto put = [&]() {
        if (passed_on)
            next_parts[self] = sum;
        else if (bucket != NO_BUCKET)
            sums[bucket] = sum;
    };
    next_buckets[self] = NO_BUCKET;
    #pragma unroll 1
    for (uint32_t i = begin; i < end; i++) {
        const uint32_t its = part_buckets[i];
        if (its == NO_BUCKET)
            continue;
        if (its != bucket) {
            put();
            bucket = its;
            passed_on = i == begin && i != 0 && part_buckets[i - 1] == its;
            if (passed_on) {
                next_buckets[self] = bucket;
                sum.inf();
            } else {
                sum = sums[bucket];
            }
        }
        xyzz_t<fp_t>::affine_t point = parts[i];
        sum.add(point);
    }
    put();
}
