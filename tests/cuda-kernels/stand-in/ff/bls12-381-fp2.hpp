// In place of sppark's fields: the same names and the same words in memory, on blst.
#pragma once

#include "../cuda.hpp"

extern "C" {
struct blst_fp { uint64_t l[6]; };
struct blst_fr { uint64_t l[4]; };
void blst_fp_add(blst_fp*, const blst_fp*, const blst_fp*);
void blst_fp_sub(blst_fp*, const blst_fp*, const blst_fp*);
void blst_fp_mul(blst_fp*, const blst_fp*, const blst_fp*);
void blst_fp_sqr(blst_fp*, const blst_fp*);
void blst_fp_cneg(blst_fp*, const blst_fp*, bool);
void blst_fp_inverse(blst_fp*, const blst_fp*);
void blst_fp_from_uint64(blst_fp*, const uint64_t[6]);
void blst_fr_add(blst_fr*, const blst_fr*, const blst_fr*);
void blst_fr_sub(blst_fr*, const blst_fr*, const blst_fr*);
void blst_fr_mul(blst_fr*, const blst_fr*, const blst_fr*);
}

class alignas(16) fp_t {
    blst_fp value;

public:
    static const uint32_t degree = 1;
    using mem_t = fp_t;

    uint32_t& operator[](size_t i)             { return reinterpret_cast<uint32_t*>(&value)[i]; }
    uint32_t operator[](size_t i) const        { return reinterpret_cast<const uint32_t*>(&value)[i]; }
    fp_t& operator+=(const fp_t& other)        { blst_fp_add(&value, &value, &other.value); return *this; }
    fp_t& operator-=(const fp_t& other)        { blst_fp_sub(&value, &value, &other.value); return *this; }
    fp_t& operator*=(const fp_t& other)        { blst_fp_mul(&value, &value, &other.value); return *this; }
    friend fp_t operator+(fp_t a, const fp_t& b) { return a += b; }
    friend fp_t operator-(fp_t a, const fp_t& b) { return a -= b; }
    friend fp_t operator*(fp_t a, const fp_t& b) { return a *= b; }
    fp_t& sqr()                                { blst_fp_sqr(&value, &value); return *this; }
    fp_t& cneg(bool negate)                    { blst_fp_cneg(&value, &value, negate); return *this; }
    void zero()                                { value = {}; }
    fp_t reciprocal() const                    { fp_t it; blst_fp_inverse(&it.value, &value); return it; }

    bool is_zero() const
    {
        uint64_t bits = 0;
        for (uint64_t limb : value.l)
            bits |= limb;
        return bits == 0;
    }

    static fp_t one(int or_zero = 0)
    {
        const uint64_t plain[6] = {or_zero == 0};
        fp_t it;
        blst_fp_from_uint64(&it.value, plain);
        return it;
    }
};

class alignas(32) fr_t {
    blst_fr value;

public:
    uint32_t& operator[](size_t i)        { return reinterpret_cast<uint32_t*>(&value)[i]; }
    uint32_t operator[](size_t i) const   { return reinterpret_cast<const uint32_t*>(&value)[i]; }
    fr_t& operator+=(const fr_t& other)   { blst_fr_add(&value, &value, &other.value); return *this; }
    fr_t& operator-=(const fr_t& other)   { blst_fr_sub(&value, &value, &other.value); return *this; }
    fr_t& operator*=(const fr_t& other)   { blst_fr_mul(&value, &value, &other.value); return *this; }
    friend fr_t operator-(fr_t a, const fr_t& b) { return a -= b; }
    friend fr_t operator*(fr_t a, const fr_t& b) { return a *= b; }
    void zero()                           { value = {}; }
};
