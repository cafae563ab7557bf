#include "cuda.hpp"

#include <batched.cu>

// The kernels of `batched.cu`, one after the other. `late` says when what is requested comes: at once, or when it is awaited.
extern "C" void test_sum_batched(bool late, uint32_t blocks, fp_t* sums, fp_t* parts, uint32_t* part_buckets, fp_t* next_parts,
                                 uint32_t* next_buckets, const uint32_t* entries, const uint32_t* starts, uint32_t buckets,
                                 const uint4* points, uint4* run_sums, uint4* run_products, uint32_t* run_buckets,
                                 uint32_t batch)
{
    copies_are_late = late;
    launch(blocks, 32 * WARPS, [&] {
        accumulate_batched(sums, parts, part_buckets, entries, starts, buckets, points, run_sums, run_products,
                           run_buckets, batch);
    });
    if (copies_are_left())
        abort();
    using point_t = xyzz_t<fp_t>;
    const uint32_t count = blocks * 32 * WARPS * batch, threads = (count + MERGE_RUN - 1) / MERGE_RUN;
    launch((threads + 127) / 128, 128, [&] {
        merge_runs(reinterpret_cast<point_t*>(sums), reinterpret_cast<point_t*>(next_parts), next_buckets,
                   reinterpret_cast<const point_t::affine_t*>(parts), part_buckets, count);
    });
}
