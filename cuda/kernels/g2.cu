#include "msm.cuh"

MSM_KERNELS(xyzz_t<fp2_t>)

extern "C" __global__ void __launch_bounds__(128, 3)
accumulate(msm::point_m* sums, msm::point_m* parts, uint32_t* part_buckets, const uint32_t* entries,
           const uint32_t* starts, uint32_t buckets, const msm::affine_m* points, uint32_t fresh)
{   msm::accumulate(sums, parts, part_buckets, entries, starts, buckets, points, fresh);   }
