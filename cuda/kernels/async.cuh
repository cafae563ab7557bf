// Copies from global to shared memory that go on while the thread does something else.
#pragma once

#include "field.cuh"

// Asks for a coordinate that the thread needs later: three words of 16 bytes, `stride` apart. It comes to `to`, in shared
// memory, with no register held for it.
static __device__ __forceinline__ void request(fp_t& to, const uint4* from, size_t stride = 1)
{
    const uint32_t address = (uint32_t)__cvta_generic_to_shared(&to);
    #pragma unroll
    for (uint32_t i = 0; i < 3; i++)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                     :: "r"(address + 16 * i), "l"(from + i * stride) : "memory");
}

// Waits for all that the thread has asked for.
static __device__ __forceinline__ void await_requests()
{   asm volatile("cp.async.wait_all;" ::: "memory");   }
