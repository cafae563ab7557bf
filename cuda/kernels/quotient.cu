// The quotient polynomial: sparse products, number-theoretic transforms, pointwise steps.

#include "field.cuh"

// out[i] = scale * base^(i * 2^log_step). `base` and `scale` are one element each.
extern "C" __global__ void
powers(fr_t* out, uint32_t count, uint32_t log_step, const fr_t* base, const fr_t* scale)
{
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        fr_t power = *scale, square = *base;
        for (uint64_t exponent = (uint64_t)i << log_step; exponent != 0; exponent >>= 1) {
            if (exponent & 1)
                power *= square;
            square *= square;
        }
        out[i] = power;
    }
}

struct csr_t {
    const uint32_t* row_starts;
    const uint32_t* columns;
    const uint32_t* coefficients;
};

// The part of an assignment that is on the device: `z[column]` for the columns from `first` to `end`.
struct columns_t {
    const fr_t* z;
    uint32_t first, end;
};

// What becomes of a row's product.
enum store_t : uint32_t { SET, ADD, MULTIPLY };

__device__ __forceinline__ void
store(vector_t& out, uint32_t row, fr_t value, uint32_t how)
{
    if (how == ADD)
        value += out[row];
    else if (how == MULTIPLY)
        value *= out[row];
    out[row] = value;
}

// One product of a row; coefficients 0 and 1 are one and minus one by the circuit's convention.
__device__ __forceinline__ void
add_term(fr_t& sum, const csr_t& matrix, uint32_t entry, const fr_t* table, const columns_t& columns)
{
    uint32_t column = matrix.columns[entry];
    if (column < columns.first || column >= columns.end)
        return;
    fr_t value = columns.z[column];
    uint32_t coefficient = matrix.coefficients[entry];
    if (coefficient == 0) {
        sum += value;
    } else if (coefficient == 1) {
        sum -= value;
    } else {
        value *= table[coefficient];
        sum += value;
    }
}

// `rows` rows of `matrix * z` from `first_row` on, where the matrix's rows start; one thread each. Rows with more
// than `long_row` entries are left to `spmv_long`.
extern "C" __global__ void
spmv(vector_t out, uint32_t first_row, uint32_t rows, uint32_t long_row, uint32_t how, csr_t matrix,
     const fr_t* table, columns_t columns)
{
    uint32_t row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    uint32_t start = matrix.row_starts[row], end = matrix.row_starts[row + 1];
    if (end - start > long_row)
        return;
    fr_t sum;
    sum.zero();
    for (uint32_t entry = start; entry < end; entry++)
        add_term(sum, matrix, entry, table, columns);
    store(out, first_row + row, sum, how);
}

// The rows that `spmv` left out, one block of 256 threads each.
extern "C" __global__ void __launch_bounds__(256)
spmv_long(vector_t out, const uint32_t* long_rows, uint32_t first_row, uint32_t how, csr_t matrix,
          const fr_t* table, columns_t columns)
{
    extern __shared__ __align__(32) unsigned char shared[];
    fr_t* sums = reinterpret_cast<fr_t*>(shared);
    uint32_t row = long_rows[blockIdx.x], end = matrix.row_starts[row - first_row + 1];
    fr_t sum;
    sum.zero();
    for (uint32_t entry = matrix.row_starts[row - first_row] + threadIdx.x; entry < end; entry += blockDim.x)
        add_term(sum, matrix, entry, table, columns);
    sums[threadIdx.x] = sum;
    for (uint32_t half = blockDim.x / 2; half != 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half)
            sums[threadIdx.x] += sums[threadIdx.x + half];
    }
    if (threadIdx.x == 0)
        store(out, row, sums[0], how);
}

// What comes below the matrix's rows: `inputs` rows that copy the first variables, then zeros.
extern "C" __global__ void
fill_below(vector_t out, uint32_t domain, uint32_t rows, uint32_t inputs, uint32_t how, const fr_t* z)
{
    uint32_t below = blockIdx.x * blockDim.x + threadIdx.x;
    if (below >= domain - rows)
        return;
    fr_t value;
    if (below < inputs)
        value = z[below];
    else
        value.zero();
    store(out, rows + below, value, how);
}

// One pass of a transform of size 2^log_n: the `bits` index bits above the lowest `low_bits`.
//
// Positions are (top, middle, low). A block holds all 2^bits middles for 2^log_columns
// neighbours, so that each access to memory is of whole 128-byte lines: neighbours in `low`, or
// in `top` when there are no low bits.
struct ntt_pass_t {
    power_table_t roots; // of the 2^log_n-th root of unity
    uint32_t log_n, low_bits, bits, log_columns;
    uint32_t inverse; // 1: powers of the inverse root

    __device__ __forceinline__ fr_t root(uint32_t exponent) const
    {
        if (inverse)
            exponent = ((1u << log_n) - exponent) & ((1u << log_n) - 1);
        return roots.at(exponent);
    }
};

struct ntt_tile_t {
    uint32_t base, first_low;
    const ntt_pass_t& pass;

    __device__ __forceinline__ ntt_tile_t(const ntt_pass_t& pass) : pass(pass)
    {
        if (pass.low_bits == 0) {
            base = blockIdx.x << (pass.bits + pass.log_columns);
            first_low = 0;
        } else {
            uint32_t blocks = pass.low_bits - pass.log_columns;
            first_low = (blockIdx.x & ((1u << blocks) - 1)) << pass.log_columns;
            base = ((blockIdx.x >> blocks) << (pass.low_bits + pass.bits)) + first_low;
        }
    }
    __device__ __forceinline__ uint32_t address(uint32_t slot) const
    {
        if (pass.low_bits == 0)
            return base + slot;
        uint32_t column = slot & ((1u << pass.log_columns) - 1);
        return base + ((slot >> pass.log_columns) << pass.low_bits) + column;
    }
    // What links this pass to the one below: w^(frequency * low) of the sub-transform's root.
    __device__ __forceinline__ fr_t link(uint32_t slot) const
    {
        uint32_t low = first_low + (slot & ((1u << pass.log_columns) - 1));
        uint32_t frequency = reverse_bits(slot >> pass.log_columns, pass.bits);
        return pass.root((frequency * low) << (pass.log_n - pass.low_bits - pass.bits));
    }
    // Slots of the butterfly number `index` at distance 2^stage, and its root's index.
    __device__ __forceinline__ void butterfly(uint32_t index, uint32_t stage, uint32_t& first,
                                              uint32_t& second, uint32_t& root) const
    {
        bool lows = pass.low_bits != 0;
        uint32_t shift = lows ? pass.log_columns : pass.bits - 1;
        uint32_t inner = index & ((1u << shift) - 1), outer = index >> shift;
        uint32_t pair = lows ? outer : inner, column = lows ? inner : outer;
        uint32_t below = pair & ((1u << stage) - 1);
        uint32_t middle = ((pair >> stage) << (stage + 1)) | below;
        first = lows ? (middle << pass.log_columns) | column : (column << pass.bits) | middle;
        second = first + (lows ? 1u << (stage + pass.log_columns) : 1u << stage);
        root = below << (pass.bits - 1 - stage);
    }
};

// Decimation in frequency (Gentleman-Sande): natural order in, bit-reversed order out, passes from
// the highest bits to the lowest.
extern "C" __global__ void __launch_bounds__(256)
ntt_natural_to_reversed(vector_t x, ntt_pass_t pass)
{
    extern __shared__ __align__(32) unsigned char shared[];
    fr_t* roots = reinterpret_cast<fr_t*>(shared);
    fr_t* tile = roots + (1u << (pass.bits - 1));
    const ntt_tile_t at(pass);
    const uint32_t slots = 1u << (pass.bits + pass.log_columns);

    for (uint32_t i = threadIdx.x; i < 1u << (pass.bits - 1); i += blockDim.x)
        roots[i] = pass.root(i << (pass.log_n - pass.bits));
    for (uint32_t slot = threadIdx.x; slot < slots; slot += blockDim.x)
        tile[slot] = x[at.address(slot)];
    for (uint32_t stage = pass.bits; stage-- != 0;) {
        __syncthreads();
        for (uint32_t i = threadIdx.x; i < slots / 2; i += blockDim.x) {
            uint32_t first, second, root;
            at.butterfly(i, stage, first, second, root);
            fr_t u = tile[first], v = tile[second];
            tile[first] = u + v;
            u -= v;
            tile[second] = u * roots[root];
        }
    }
    __syncthreads();
    for (uint32_t slot = threadIdx.x; slot < slots; slot += blockDim.x) {
        fr_t value = tile[slot];
        if (pass.low_bits != 0)
            value *= at.link(slot);
        x[at.address(slot)] = value;
    }
}

// Decimation in time (Cooley-Tukey): the transpose of the above. Bit-reversed order in, natural order
// out, passes from the lowest bits to the highest.
extern "C" __global__ void __launch_bounds__(256)
ntt_reversed_to_natural(vector_t x, ntt_pass_t pass)
{
    extern __shared__ __align__(32) unsigned char shared[];
    fr_t* roots = reinterpret_cast<fr_t*>(shared);
    fr_t* tile = roots + (1u << (pass.bits - 1));
    const ntt_tile_t at(pass);
    const uint32_t slots = 1u << (pass.bits + pass.log_columns);

    for (uint32_t i = threadIdx.x; i < 1u << (pass.bits - 1); i += blockDim.x)
        roots[i] = pass.root(i << (pass.log_n - pass.bits));
    for (uint32_t slot = threadIdx.x; slot < slots; slot += blockDim.x) {
        fr_t value = x[at.address(slot)];
        if (pass.low_bits != 0)
            value *= at.link(slot);
        tile[slot] = value;
    }
    for (uint32_t stage = 0; stage < pass.bits; stage++) {
        __syncthreads();
        for (uint32_t i = threadIdx.x; i < slots / 2; i += blockDim.x) {
            uint32_t first, second, root;
            at.butterfly(i, stage, first, second, root);
            fr_t u = tile[first], v = tile[second];
            v *= roots[root];
            tile[first] = u + v;
            tile[second] = u - v;
        }
    }
    __syncthreads();
    for (uint32_t slot = threadIdx.x; slot < slots; slot += blockDim.x)
        x[at.address(slot)] = tile[slot];
}

// x[p] *= shift^reverse(p): coefficients in bit-reversed order, moved to a coset.
extern "C" __global__ void
scale_reversed(vector_t x, uint32_t log_n, power_table_t shift)
{
    uint32_t p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p < 1u << log_n)
        x[p] *= shift.at(reverse_bits(p, log_n));
}

// a[i] *= b[i]
extern "C" __global__ void
multiply(vector_t a, vector_t b, uint32_t n)
{
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        a[i] *= b[i];
}

// a[i] -= c[i]
extern "C" __global__ void
subtract(vector_t a, vector_t c, uint32_t n)
{
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        a[i] -= c[i];
}

// ab[p] = ab[p] * unshift^reverse(p) - c[p] * factor: the quotient's coefficients, from the transform of
// a b on the coset and that of c on the domain. The table carries the same constant factor.
extern "C" __global__ void
quotient_coefficients(vector_t ab, vector_t c, uint32_t log_n, power_table_t unshift, const fr_t* factor)
{
    uint32_t p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= 1u << log_n)
        return;
    fr_t value = ab[p];
    value *= unshift.at(reverse_bits(p, log_n));
    fr_t other = c[p];
    value -= other * *factor;
    ab[p] = value;
}

// Out of Montgomery form, in place. Adds to `*wide` the number of scalars that are neither 0 nor 1.
extern "C" __global__ void
to_canonical(fr_t* x, uint32_t n, uint32_t* wide)
{
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    bool is_wide = false;
    if (i < n) {
        fr_t value = x[i];
        value.from();
        uint32_t high = 0;
        for (uint32_t limb = 1; limb < 8; limb++)
            high |= value[limb];
        is_wide = high != 0 || value[0] > 1;
        x[i] = value;
    }
    uint32_t count = __popc(__ballot_sync(0xffffffff, is_wide));
    if (threadIdx.x % 32 == 0 && count != 0)
        atomicAdd(wide, count);
}
