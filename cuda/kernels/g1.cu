#include "affine.cuh"
#include "msm.cuh"

MSM_KERNELS(xyzz_t<fp_t>)

// What a thread of `accumulate` adds up, in shared memory: a sum in XYZZ coordinates, and what an addition makes on its way.
static const uint32_t WARPS = 4;

struct xyzz_sum_t {
    fp_t &x, &y, &zzz, &zz;

    __device__ __forceinline__ void set_infinite() const
    {   x.zero(), y.zero(), zzz.zero(), zz.zero();   }
    __device__ __forceinline__ void set(const fp_t& affine_x, const fp_t& affine_y) const
    {   x = affine_x, y = affine_y, zzz = fp_t::one(), zz = fp_t::one();   }
    __device__ __forceinline__ void take(const fp_t* from) const
    {   x = from[0], y = from[1], zzz = from[2], zz = from[3];   }
    __device__ __forceinline__ void put(fp_t* to) const
    {   to[0] = x, to[1] = y, to[2] = zzz, to[3] = zz;   }
};

// Twice an affine point, "mdbl-2008-s-1": https://hyperelliptic.org/EFD/g1p/auto-shortw-xyzz.html
static __device__ __noinline__ void set_to_double(xyzz_sum_t sum, const uint4* points, uint32_t index, bool negated)
{
    fp_t x = x_of(points, index), y = y_of(points, index, negated);
    fp_t u = y + y;
    sum.zz = u * u;
    sum.zzz = u * sum.zz;
    fp_t s = x * sum.zz;
    fp_t m = x * x;
    m = m + m + m;
    x = m * m - s - s;
    sum.x = x;
    y = sum.zzz * y;
    sum.y = m * (s - x) - y;
}

// The multiplications of an addition, "madd-2008-s" of the same page, in their order. As in `accumulate_batched` there is one
// in the code, and one square.
enum step_t { ABSCISSA, ORDINATE, DIFFERENCE_SQUARED, CUBED, ZZZ, Y_CUBED, ZZ, X_SQUARED, SLOPE_SQUARED, LAST };

// As `accumulate` of msm.cuh, with the sum in shared memory, so that more warps fit.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 20 / WARPS)
accumulate(fp_t* sums, fp_t* parts, uint32_t* part_buckets, const uint32_t* entries, const uint32_t* starts,
           uint32_t buckets, const uint4* points, uint32_t fresh)
{
    const uint32_t self = msm::thread();
    const run_t run(starts[buckets], self, msm::threads());
    if (run.begin == run.end) {
        part_buckets[self] = NO_BUCKET;
        return;
    }
    __shared__ __align__(16) per_thread_t<WARPS> slots[7];
    const xyzz_sum_t sum = {slots[0].mine(), slots[1].mine(), slots[2].mine(), slots[3].mine()};
    // X2 ZZ1 - X1, then its cube; Y2 ZZZ1 - Y1; the square of the first, then X1 times that.
    fp_t &p = slots[4].mine(), &r = slots[5].mine(), &q = slots[6].mine();

    uint32_t bucket = msm::bucket_of(run.begin, starts, buckets);
    uint32_t next = starts[bucket + 1];
    bool continued = starts[bucket] < run.begin;
    part_buckets[self] = continued ? bucket : NO_BUCKET;
    if (continued || fresh)
        sum.set_infinite();
    else
        sum.take(sums + 4 * (size_t)bucket);
    #pragma unroll 1
    for (uint32_t entry = run.begin; entry < run.end; entry++) {
        if (entry == next) {
            sum.put(continued ? parts + 4 * (size_t)self : sums + 4 * (size_t)bucket);
            continued = false;
            do {
                next = starts[++bucket + 1];
            } while (next <= entry);
            if (fresh)
                sum.set_infinite();
            else
                sum.take(sums + 4 * (size_t)bucket);
        }
        const uint32_t index = entries[entry] & 0x7fffffff;
        const bool negated = entries[entry] >> 31;
        fp_t left = x_of(points, index), right = y_of(points, index, negated);
        if (left.is_zero() && right.is_zero())
            continue;
        if (sum.zz.is_zero()) {
            sum.set(left, right);
            continue;
        }
        right = sum.zz;
        #pragma unroll 1
        for (uint32_t step = ABSCISSA;; step++) {
            if (step == DIFFERENCE_SQUARED || step == SLOPE_SQUARED)
                left.sqr();
            else
                left *= right;
            if (step == ABSCISSA) {
                left -= sum.x;
                p = left;
                left = y_of(points, index, negated);
                right = sum.zzz;
            } else if (step == ORDINATE) {
                left -= sum.y;
                r = left;
                if (p.is_zero()) {
                    if (left.is_zero())
                        set_to_double(sum, points, index, negated);
                    else
                        sum.set_infinite();
                    break;
                }
                left = p;
            } else if (step == DIFFERENCE_SQUARED) {
                q = left;
                right = p;
            } else if (step == CUBED) {
                p = left;
                right = sum.zzz;
            } else if (step == ZZZ) {
                sum.zzz = left;
                left = p, right = sum.y;
            } else if (step == Y_CUBED) {
                sum.y = left;
                left = q, right = sum.zz;
            } else if (step == ZZ) {
                sum.zz = left;
                left = q, right = sum.x;
            } else if (step == X_SQUARED) {
                q = left;
                left = r;
            } else if (step == SLOPE_SQUARED) {
                left -= p;
                right = q;
                left -= right;
                left -= right;
                sum.x = left;
                right -= left;
                left = r;
            } else {
                left -= sum.y;
                sum.y = left;
                break;
            }
        }
    }
    sum.put(continued ? parts + 4 * (size_t)self : sums + 4 * (size_t)bucket);
}
