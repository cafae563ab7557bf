#include "msm.cuh"

MSM_KERNELS(xyzz_t<fp_t>)

// `merge` for parts in affine coordinates.
extern "C" __global__ void __launch_bounds__(128)
merge_affine(msm::point_m* sums, msm::point_m* next_parts, uint32_t* next_buckets, const msm::affine_m* parts,
             const uint32_t* part_buckets, uint32_t count)
{   msm::merge(sums, next_parts, next_buckets, parts, part_buckets, count);   }
