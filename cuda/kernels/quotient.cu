// The quotient polynomial, but for its transforms: sparse products, tables of powers, scalars.

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

// Out of Montgomery form, in place. Adds to `*wide` the number of scalars that are neither 0 nor 1, unless `wide` is null.
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
    if (threadIdx.x % 32 == 0 && count != 0 && wide != nullptr)
        atomicAdd(wide, count);
}
