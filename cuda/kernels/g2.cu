#include "msm.cuh"

MSM_KERNELS(xyzz_t<fp2_t>)
MSM_ACCUMULATE(xyzz_t<fp2_t>)
