// In place of sppark's points in XYZZ coordinates: the same four words, but added as affine points are, one inversion each.
#pragma once

#include <ff/bls12-381-fp2.hpp>

template<class field_t>
struct xyzz_t {
    using mem_t = xyzz_t;

    // Infinity has both coordinates 0.
    struct affine_t {
        using mem_t = affine_t;
        field_t X, Y;
    };

    static const uint32_t degree = field_t::degree;
    field_t X, Y, ZZZ, ZZ;

    void inf()
    {   X.zero(), Y.zero(), ZZZ.zero(), ZZ.zero();   }

    void add(const affine_t& other)
    {
        if (other.X.is_zero() && other.Y.is_zero())
            return;
        if (ZZ.is_zero()) {
            set(other.X, other.Y);
            return;
        }
        const field_t x = X * ZZ.reciprocal(), y = Y * ZZZ.reciprocal();
        field_t run = other.X - x, rise = other.Y - y;
        if (run.is_zero()) {
            if (!rise.is_zero()) {
                inf();
                return;
            }
            run = y + y;
            rise = x * x + x * x + x * x;
        }
        const field_t slope = rise * run.reciprocal();
        const field_t sum = slope * slope - x - other.X;
        set(sum, slope * (x - sum) - y);
    }

private:
    void set(const field_t& x, const field_t& y)
    {   X = x, Y = y, ZZZ = ZZ = field_t::one();   }
};
