// Number-theoretic transforms: values in natural order, coefficients in bit-reversed order. From values to coefficients
// passes go from the highest bits to the lowest, and back from the lowest to the highest.

#include "ntt.cuh"

__device__ __forceinline__ void
store_quad(const ntt_block_t& block, ntt_quad_t& quad, const vector_t& out, uint32_t how)
{
    #pragma unroll
    for (uint32_t j = 0; j < 4; j++) {
        if (block.has(j))
            store(out, block.address(quad, j), quad.x[j], how);
    }
}

// A pass from values to coefficients.
extern "C" __global__ void __launch_bounds__(256, 3)
ntt_down(vector_t x, ntt_pass_t pass)
{
    extern __shared__ __align__(32) uint4 shared[];
    const ntt_block_t block(pass, shared);
    ntt_quad_t quad;
    block.move(quad, block.top_stage());
    block.load(quad, x);
    block.down(quad);
    #pragma unroll
    for (uint32_t j = 0; j < 4; j++) {
        if (!block.has(j))
            continue;
        if (pass.low_bits != 0)
            quad.x[j] *= block.link(quad, j, true);
        x[block.address(quad, j)] = quad.x[j];
    }
}

// The last pass to coefficients and the first one back, from which values on a coset come: both are of the same tiles.
// `shift` has the powers of the coset's shift, each over the domain's size.
extern "C" __global__ void __launch_bounds__(256, 3)
ntt_turn(vector_t x, ntt_pass_t pass, power_table_t shift, vector_t out, uint32_t how)
{
    extern __shared__ __align__(32) uint4 shared[];
    const ntt_block_t block(pass, shared);
    ntt_quad_t quad;
    block.move(quad, block.top_stage());
    block.load(quad, x);
    block.down(quad);
    #pragma unroll
    for (uint32_t j = 0; j < 4; j++) {
        if (block.has(j))
            quad.x[j] *= shift.at(reverse_bits(block.address(quad, j), pass.log_n));
    }
    block.up(quad);
    store_quad(block, quad, out, how);
}

// A pass from coefficients to values, but for the first.
extern "C" __global__ void __launch_bounds__(256, 3)
ntt_up(vector_t x, ntt_pass_t pass, vector_t out, uint32_t how)
{
    extern __shared__ __align__(32) uint4 shared[];
    const ntt_block_t block(pass, shared);
    ntt_quad_t quad;
    block.move(quad, 0);
    block.load(quad, x);
    #pragma unroll
    for (uint32_t j = 0; j < 4; j++)
        quad.x[j] *= block.link(quad, j, false);
    block.up(quad);
    store_quad(block, quad, out, how);
}

// The last pass to the coefficients of a b on the coset, and from there to those of the quotient, out of Montgomery form:
// (ab[p] * unshift^reverse(p) - c[p]) * factor. `factor` is not in Montgomery form, so that a product with it is not
// either.
extern "C" __global__ void __launch_bounds__(256, 3)
ntt_quotient(vector_t ab, ntt_pass_t pass, vector_t c, power_table_t unshift, const fr_t* factor)
{
    extern __shared__ __align__(32) uint4 shared[];
    const ntt_block_t block(pass, shared);
    ntt_quad_t quad;
    block.move(quad, block.top_stage());
    block.load(quad, ab);
    block.down(quad);
    #pragma unroll
    for (uint32_t j = 0; j < 4; j++) {
        if (!block.has(j))
            continue;
        uint32_t address = block.address(quad, j);
        fr_t value = quad.x[j];
        value *= unshift.at(reverse_bits(address, pass.log_n));
        value -= c[address];
        value *= *factor;
        ab[address] = value;
    }
}
