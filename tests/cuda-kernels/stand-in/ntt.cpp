#include "cuda.hpp"

// What a launch gives a block of shared memory: a tile and its roots.
alignas(32) uint4 shared[4096];

#include <ntt.cu>

static void launch_pass(const ntt_pass_t& pass, const std::function<void()>& kernel)
{
    const uint32_t log_tile = pass.bits + pass.log_columns;
    if (sizeof(fr_t) * ((1u << pass.bits) + (1u << log_tile)) > sizeof(shared))
        abort();
    const uint32_t threads = 1u << (pass.log_columns + (pass.bits < 2 ? 0 : pass.bits - 2));
    launch(1u << (pass.log_n - log_tile), threads, kernel);
}

extern "C" void test_ntt_down(const vector_t* x, const ntt_pass_t* pass)
{   launch_pass(*pass, [&] { ntt_down(*x, *pass); });   }

extern "C" void test_ntt_turn(const vector_t* x, const ntt_pass_t* pass, const power_table_t* shift, const vector_t* out,
                              uint32_t how)
{   launch_pass(*pass, [&] { ntt_turn(*x, *pass, *shift, *out, how); });   }

extern "C" void test_ntt_up(const vector_t* x, const ntt_pass_t* pass, const vector_t* out, uint32_t how)
{   launch_pass(*pass, [&] { ntt_up(*x, *pass, *out, how); });   }

extern "C" void test_ntt_quotient(const vector_t* ab, const ntt_pass_t* pass, const vector_t* c, const power_table_t* unshift,
                                  const fr_t* factor)
{   launch_pass(*pass, [&] { ntt_quotient(*ab, *pass, *c, *unshift, factor); });   }
