// The parts of a number-theoretic transform: what one block does with a tile in registers and shared memory.
//
// A pass transforms the `bits` index bits above the lowest `low_bits`. Positions are (top, middle, low). A block
// holds all 2^bits middles for 2^log_columns neighbours, so that each access to memory is of whole sectors in
// a row: neighbours in `low`, or in `top` when there are no low bits.
//
// A thread has one column and four middles in registers, and does two stages with them before the threads exchange
// their elements in shared memory. Multiplications by one are left out: in a tile of b bits there are b/2 - 1 for
// each element. With one more that links a pass to the next, they are as many as in one pass over all bits.
#pragma once

#include "field.cuh"

struct ntt_pass_t {
    power_table_t roots; // of the 2^log_n-th root of unity
    uint32_t log_n, low_bits, bits, log_columns;
};

// Elements in shared memory, in two halves of 16 bytes: neighbours are in different banks. So are those at distances
// of a power of two, as far as the lowest bits of a number depend on all of them.
struct ntt_tile_t {
    uint4* halves;
    uint32_t size;

    static __device__ __forceinline__ uint32_t spread(uint32_t slot)
    {
        uint32_t high = slot >> 3;
        return slot ^ ((__popc(high) & 1) << 2) ^ ((__popc(high & 0x55555555) & 1) << 1);
    }
    __device__ __forceinline__ fr_t get(uint32_t slot) const
    {
        uint4 low = halves[slot], high = halves[slot + size];
        fr_t value;
        value[0] = low.x, value[1] = low.y, value[2] = low.z, value[3] = low.w;
        value[4] = high.x, value[5] = high.y, value[6] = high.z, value[7] = high.w;
        return value;
    }
    __device__ __forceinline__ void put(uint32_t slot, fr_t value) const
    {
        halves[slot] = make_uint4(value[0], value[1], value[2], value[3]);
        halves[slot + size] = make_uint4(value[4], value[5], value[6], value[7]);
    }
};

// The four elements of a thread: their middles differ in the bits `stage` and `stage + 1`, `below` is what they have
// below. With fewer than two bits there are fewer elements, and the others are zeros.
struct ntt_quad_t {
    fr_t x[4];
    uint32_t stage, below, middle;

    // Both stages, from the upper one down or from the lower one up, but for the factors that depend on `below`.
    __device__ __forceinline__ void stages_down(bool both, const fr_t& quarter)
    {
        if (both) {
            fr_t t = x[0] - x[2];
            x[0] += x[2], x[2] = t;
            t = x[1] - x[3];
            x[1] += x[3], x[3] = t * quarter;
        }
        lower_stage();
    }
    __device__ __forceinline__ void stages_up(bool both, const fr_t& quarter)
    {
        lower_stage();
        if (both) {
            fr_t t = x[0] - x[2];
            x[0] += x[2], x[2] = t;
            t = x[3] * quarter;
            x[3] = x[1] - t, x[1] += t;
        }
    }

private:
    __device__ __forceinline__ void lower_stage()
    {
        fr_t t = x[0] - x[1];
        x[0] += x[1], x[1] = t;
        t = x[2] - x[3];
        x[2] += x[3], x[3] = t;
    }
};

struct ntt_block_t {
    const ntt_pass_t& pass;
    ntt_tile_t roots, tile;
    uint32_t base, first_low, column, rest;

    // Fetches the roots of the tile too.
    __device__ __forceinline__ ntt_block_t(const ntt_pass_t& pass, uint4* shared) : pass(pass)
    {
        roots = {shared, 1u << pass.bits};
        tile = {shared + (2u << pass.bits), 1u << (pass.bits + pass.log_columns)};
        column = threadIdx.x & ((1u << pass.log_columns) - 1);
        rest = threadIdx.x >> pass.log_columns;
        if (pass.low_bits == 0) {
            base = blockIdx.x << (pass.bits + pass.log_columns);
            first_low = 0;
        } else {
            uint32_t blocks = pass.low_bits - pass.log_columns;
            first_low = (blockIdx.x & ((1u << blocks) - 1)) << pass.log_columns;
            base = ((blockIdx.x >> blocks) << (pass.low_bits + pass.bits)) + first_low;
        }
        for (uint32_t i = threadIdx.x; i < roots.size; i += blockDim.x)
            roots.put(i, pass.roots.at(i << (pass.log_n - pass.bits)));
        __syncthreads();
    }
    __device__ __forceinline__ bool has(uint32_t j) const
    {   return pass.bits >= 2 || j < 1u << pass.bits;   }

    // The highest stage at which a quad can be.
    __device__ __forceinline__ uint32_t top_stage() const
    {   return pass.bits < 2 ? 0 : pass.bits - 2;   }

    __device__ __forceinline__ void move(ntt_quad_t& quad, uint32_t stage) const
    {
        uint32_t outer_bits = top_stage() - stage;
        quad.stage = stage;
        quad.below = rest >> outer_bits;
        quad.middle = ((rest & ((1u << outer_bits) - 1)) << (stage + 2)) | quad.below;
    }
    // Where an element is in the whole vector.
    __device__ __forceinline__ uint32_t address(const ntt_quad_t& quad, uint32_t j) const
    {
        uint32_t middle = quad.middle | j << quad.stage;
        return pass.low_bits == 0 ? base + (column << pass.bits) + middle
                                  : base + (middle << pass.low_bits) + column;
    }
    __device__ __forceinline__ uint32_t slot(const ntt_quad_t& quad, uint32_t j) const
    {   return ntt_tile_t::spread((quad.middle | j << quad.stage) << pass.log_columns | column);   }

    // The tile's root to a power.
    __device__ __forceinline__ fr_t root(uint32_t exponent, bool inverse) const
    {   return roots.get((inverse ? 0 - exponent : exponent) & (roots.size - 1));   }

    __device__ __forceinline__ fr_t quarter(bool inverse) const
    {   return root(roots.size >> 2, inverse);   }

    __device__ __forceinline__ fr_t twiddle(const ntt_quad_t& quad, uint32_t j, bool inverse) const
    {   return root(reverse_bits(j, 2) * quad.below << (top_stage() - quad.stage), inverse);   }

    // What links this pass to the one below: w^(frequency * low) of the sub-transform's root.
    __device__ __forceinline__ fr_t link(const ntt_quad_t& quad, uint32_t j, bool inverse) const
    {
        uint32_t low = first_low + column, frequency = reverse_bits(quad.middle | j << quad.stage, pass.bits);
        uint32_t exponent = (frequency * low) << (pass.log_n - pass.low_bits - pass.bits);
        if (inverse)
            exponent = (0 - exponent) & ((1u << pass.log_n) - 1);
        return pass.roots.at(exponent);
    }

    // Decimation in frequency (Gentleman-Sande) with inverse roots: from the highest stage, where the quad has its
    // elements, to the lowest.
    __device__ __forceinline__ void down(ntt_quad_t& quad) const
    {
        uint32_t left = pass.bits;
        while (left != 0) {
            bool both = left >= 2;
            quad.stages_down(both, quarter(true));
            left -= both ? 2 : 1;
            if (left == 0)
                break;
            #pragma unroll
            for (uint32_t j = 0; j < 4; j++) {
                if (j != 0 && quad.below != 0)
                    quad.x[j] *= twiddle(quad, j, true);
                tile.put(slot(quad, j), quad.x[j]);
            }
            __syncthreads();
            move(quad, left >= 2 ? left - 2 : 0);
            #pragma unroll
            for (uint32_t j = 0; j < 4; j++)
                quad.x[j] = tile.get(slot(quad, j));
        }
    }

    // Decimation in time (Cooley-Tukey), the transpose of the above with the root itself: from the lowest stage to the
    // highest.
    __device__ __forceinline__ void up(ntt_quad_t& quad) const
    {
        uint32_t done = 0;
        while (done != pass.bits) {
            bool both = done != 0 || pass.bits % 2 == 0;
            quad.stages_up(both, quarter(false));
            done += both ? 2 : 1;
            if (done == pass.bits)
                break;
            #pragma unroll
            for (uint32_t j = 0; j < 4; j++)
                tile.put(slot(quad, j), quad.x[j]);
            __syncthreads();
            move(quad, done);
            #pragma unroll
            for (uint32_t j = 0; j < 4; j++) {
                quad.x[j] = tile.get(slot(quad, j));
                if (j != 0 && quad.below != 0)
                    quad.x[j] *= twiddle(quad, j, false);
            }
        }
    }

    // The elements as they are in memory.
    __device__ __forceinline__ void load(ntt_quad_t& quad, const vector_t& x) const
    {
        #pragma unroll
        for (uint32_t j = 0; j < 4; j++) {
            if (has(j))
                quad.x[j] = x[address(quad, j)];
            else
                quad.x[j].zero();
        }
    }
};
