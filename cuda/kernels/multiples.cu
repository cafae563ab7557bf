// Multiples of points by powers of two, so that all windows of a sum can share one set of buckets.

#include "field.cuh"

// table[w * count + i] = 2^(bits w) * table[i] for w = 1 .. windows - 1; points of G1, x and y.
extern "C" __global__ void __launch_bounds__(128)
multiples(fp_t* table, uint32_t count, uint32_t bits, uint32_t windows)
{
    const uint32_t self = blockIdx.x * blockDim.x + threadIdx.x;
    // Lanes invert in pairs: the ones past the end do the last point's work.
    const uint32_t point = min(self, count - 1);
    fp_t x = table[2 * point], y = table[2 * point + 1];
    for (uint32_t window = 1; window < windows; window++) {
        // XYZZ coordinates, "dbl-2008-s-1": https://hyperelliptic.org/EFD/g1p/auto-shortw-xyzz.html
        fp_t zz = fp_t::one(), zzz = zz;
        #pragma unroll 1
        for (uint32_t bit = 0; bit < bits; bit++) {
            fp_t u = y + y;
            fp_t v = u * u;
            fp_t w = u * v;
            fp_t s = x * v;
            fp_t m = x * x;
            m = m + m + m;
            x = m * m - s - s;
            y = m * (s - x) - w * y;
            zz *= v;
            zzz *= w;
        }
        // Infinity is all zero, and so is its inverse here.
        fp_t inverse = zzz.reciprocal();
        fp_t z = inverse * zz;
        x *= z * z;
        y *= inverse;
        if (self < count) {
            table[2 * ((size_t)window * count + point)] = x;
            table[2 * ((size_t)window * count + point) + 1] = y;
        }
    }
}
