// Sums over the buckets of G1 in affine coordinates: 6 multiplications for an addition instead of the 10 of XYZZ
// coordinates. Each addition needs the inverse of a difference of two x; many additions that do not depend on each other share
// one inversion (Montgomery's trick).

#include "msm.cuh"

// Set in an entry: the first of its bucket.
static const uint32_t FIRST = 0x40000000;

// No entry: its number would be too high, for a table of as many points.
static const uint32_t NO_ENTRY = 0xffffffff;

struct affine_point_t {
    fp_t x, y;

    // The encoding that keys have: no point of the curve has both coordinates 0.
    __device__ __forceinline__ bool is_inf() const
    {   return x.is_zero() && y.is_zero();   }
};

// Of a block. The more there are, the more share an inversion, and the more wait for it.
static const uint32_t WARPS = 2;

// A run's sum so far and what else is kept of it. Neighbouring lanes' parts lie next to each other.
struct runs_t {
    uint4* sums;       // 6 for each run: x and y
    uint4* products;   // 3 for each run
    uint32_t* buckets; // the bucket of its next entry; CONTINUED if that began in an earlier run
    uint32_t threads;

    static __device__ __forceinline__ fp_t load(const uint4* from, size_t stride)
    {
        fp_t value;
        #pragma unroll
        for (uint32_t i = 0; i < 3; i++) {
            uint4 part = from[i * stride];
            value[4 * i] = part.x, value[4 * i + 1] = part.y, value[4 * i + 2] = part.z, value[4 * i + 3] = part.w;
        }
        return value;
    }
    static __device__ __forceinline__ void store(uint4* to, size_t stride, const fp_t& value)
    {
        #pragma unroll
        for (uint32_t i = 0; i < 3; i++)
            to[i * stride] = make_uint4(value[4 * i], value[4 * i + 1], value[4 * i + 2], value[4 * i + 3]);
    }

    __device__ __forceinline__ uint4* place(uint32_t k, uint32_t self) const
    {   return sums + (size_t)k * 6 * threads + self;   }
    __device__ __forceinline__ fp_t x(uint32_t k, uint32_t self) const
    {   return load(place(k, self), threads);   }
    __device__ __forceinline__ fp_t y(uint32_t k, uint32_t self) const
    {   return load(place(k, self) + 3 * (size_t)threads, threads);   }
    __device__ __forceinline__ void set(uint32_t k, uint32_t self, const affine_point_t& sum) const
    {
        store(place(k, self), threads, sum.x);
        store(place(k, self) + 3 * (size_t)threads, threads, sum.y);
    }
    __device__ __forceinline__ uint4* product(uint32_t k, uint32_t self) const
    {   return products + (size_t)k * 3 * threads + self;   }
    __device__ __forceinline__ uint32_t& bucket(uint32_t k, uint32_t self) const
    {   return buckets[(size_t)k * threads + self];   }
};

static const uint32_t CONTINUED = 0x80000000;

static __device__ __forceinline__ const uint4* place(const uint4* points, uint32_t entry)
{   return points + 6 * (size_t)(entry & (FIRST - 1));   }

static __device__ __forceinline__ fp_t x_of(const uint4* points, uint32_t entry)
{   return runs_t::load(place(points, entry), 1);   }

static __device__ __forceinline__ fp_t y_of(const uint4* points, uint32_t entry)
{
    fp_t y = runs_t::load(place(points, entry) + 3, 1);
    y.cneg(entry >> 31);
    return y;
}

static __device__ __forceinline__ affine_point_t point_of(const uint4* points, uint32_t entry)
{   return {x_of(points, entry), y_of(points, entry)};   }

// How two points are added.
enum addition_t { CHORD, TANGENT, OPPOSITE, LEFT_IS_INFINITE, RIGHT_IS_INFINITE, NOTHING };

static __device__ __noinline__ addition_t rare_addition(const affine_point_t& left, const affine_point_t& right)
{
    if (right.is_inf())
        return RIGHT_IS_INFINITE;
    if (left.is_inf())
        return LEFT_IS_INFINITE;
    if (!(left.x - right.x).is_zero())
        return CHORD;
    return (left.y - right.y).is_zero() ? TANGENT : OPPOSITE;
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

// A field element for each thread of a block.
struct shared_t {
    uint32_t words[WARPS][32][sizeof(fp_t) / 4];

    __device__ __forceinline__ fp_t& of(uint32_t warp, uint32_t lane)
    {   return *reinterpret_cast<fp_t*>(words[warp][lane]);   }
    __device__ __forceinline__ fp_t& mine()
    {   return of(threadIdx.x / 32, threadIdx.x % 32);   }
};

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
    __device__ __forceinline__ void take(uint32_t bucket, size_t run, const affine_point_t& sum) const
    {
        if (bucket & CONTINUED) {
            parts[2 * run] = sum.x, parts[2 * run + 1] = sum.y;
        } else {
            fp_t* to = sums + 4 * (size_t)bucket;
            fp_t z = fp_t::one(sum.is_inf());
            to[0] = sum.x, to[1] = sum.y, to[2] = z, to[3] = z;
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

// Adds up the points of all buckets, which hold nothing before. As `accumulate` of msm.cuh, but each thread has
// `batch` runs, whose next additions share an inversion. Run k * threads + i is the one of thread i. `points` are pairs x, y;
// entries have FIRST set where a bucket begins, and there are fewer than 2^30.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 16 / WARPS)
accumulate_batched(fp_t* sums, fp_t* parts, uint32_t* part_buckets, const uint32_t* entries, const uint32_t* starts,
                   uint32_t buckets, const uint4* points, uint4* run_sums, uint4* run_products, uint32_t* run_buckets,
                   uint32_t batch)
{
    const uint32_t threads = gridDim.x * blockDim.x, self = blockIdx.x * blockDim.x + threadIdx.x;
    const runs_t runs = {run_sums, run_products, run_buckets, threads};
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

    // What is seldom needed is kept out of registers, so that more warps fit.
    __shared__ __align__(16) shared_t products, inverses, xs, ys;
    fp_t& product = products.mine();
    fp_t& inverse = inverses.mine();
    fp_t& x = xs.mine(); // of the sum of the run that has its turn
    fp_t& y = ys.mine();

    // A run's next entry, as far as that goes without a multiplication: what its addition divides by, or one.
    auto prepare = [&](uint32_t k, uint32_t entry, uint32_t place) -> fp_t {
        if (entry & FIRST) {
            uint32_t& bucket = runs.bucket(k, self);
            to.take(bucket, (size_t)k * threads + self, {x, y});
            bucket = to.after(bucket, place);
            x = x_of(points, entry);
            y = y_of(points, entry);
            return fp_t::one();
        }
        const fp_t next_x = x_of(points, entry), left = x;
        fp_t divisor = next_x - left;
        if (divisor.is_zero() || left.is_zero() || next_x.is_zero())
            divisor = divisor_of(rare_addition({x, y}, point_of(points, entry)), divisor, y);
        runs_t::store(runs.product(k, self), threads, product);
        return divisor;
    };

    uint32_t count = runs_with(0), next_count = runs_with(1);
    product = fp_t::one();
    #pragma unroll 1
    for (uint32_t k = 0; k < batch; k++) {
        uint32_t& part_bucket = part_buckets[(size_t)k * threads + self];
        part_bucket = NO_BUCKET;
        if (k >= count)
            continue;
        const uint32_t place = begin + k * stride;
        uint32_t bucket = msm_t<xyzz_t<fp_t>>::bucket_of(place, starts, buckets);
        if (starts[bucket] < place) {
            part_bucket = bucket;
            bucket |= CONTINUED;
        }
        runs.bucket(k, self) = bucket;
        x = x_of(points, entries[place]);
        y = y_of(points, entries[place]);
        if (k < next_count)
            product *= prepare(k, entries[place + 1], place + 1);
        runs.set(k, self, {x, y});
    }
    // The last divisor that went into a product is the first that comes out of its inverse: runs take turns
    // from the first to the last and back.
    bool up = false;
    #pragma unroll 1
    for (uint32_t i = 1; i < length; i++, up = !up) {
        invert(inverses, products, blockIdx.x + i);
        product = fp_t::one();
        count = next_count;
        next_count = runs_with(i + 1);
        #pragma unroll 1
        for (uint32_t turn = 0; turn < count; turn++) {
            const uint32_t k = up ? turn : count - 1 - turn;
            const uint32_t place = begin + i + k * stride;
            const uint32_t entry = entries[place], next = k < next_count ? entries[place + 1] : NO_ENTRY;
            fp_t left = x = runs.x(k, self), slope = y = runs.y(k, self);
            const fp_t point_x = x_of(points, entry);
            fp_t divisor = point_x - left;
            // An entry that is its bucket's first is the sum already.
            addition_t addition = entry & FIRST ? NOTHING : CHORD;
            slope = y_of(points, entry) - slope;
            if (addition != NOTHING && (divisor.is_zero() || left.is_zero() || point_x.is_zero())) {
                addition = rare_addition({x, y}, point_of(points, entry));
                if (addition == TANGENT) {
                    slope = left * left;
                    slope = slope + slope + slope;
                }
                divisor = divisor_of(addition, divisor, y);
            }
            if (addition == NOTHING)
                divisor = fp_t::one();
            // One multiplication in the code, one after another in time: six of them inline are more than the instruction
            // cache holds, and warps would wait for instructions most of all.
            left = inverse;
            fp_t right = runs_t::load(runs.product(k, self), threads);
            #pragma unroll 1
            for (uint32_t step = 0;; step++) {
                left *= right;
                if (step == 0) {            // 1 / divisor
                    right = slope;
                } else if (step == 1) {     // the slope
                    slope = left;
                    left = inverse, right = divisor;
                } else if (step == 2) {     // the inverse of the divisors before this one
                    inverse = left;
                    left = slope, right = slope;
                } else if (step == 3) {
                    divisor = left - x - point_x; // the x of the sum of both
                    left = slope, right = x - divisor;
                } else if (step == 4) {
                    if (addition == CHORD || addition == TANGENT) {
                        x = divisor;
                        y = left - y;
                    } else if (addition == LEFT_IS_INFINITE) {
                        x = point_x;
                        y = y_of(points, entry);
                    } else if (addition == OPPOSITE) {
                        x.zero(), y.zero();
                    }
                    if (next == NO_ENTRY)
                        break;
                    right = prepare(k, next, place + 1);
                    left = product;
                } else {
                    product = left;
                    break;
                }
            }
            runs.set(k, self, {x, y});
        }
    }
    for (uint32_t k = 0; k < runs_with(0); k++)
        to.take(runs.bucket(k, self), (size_t)k * threads + self, {runs.x(k, self), runs.y(k, self)});
}
