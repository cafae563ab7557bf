#include "msm.cuh"

MSM_KERNELS(xyzz_t<fp2_t>)
