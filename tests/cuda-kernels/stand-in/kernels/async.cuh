// In place of copies that go on beside the thread: they are made at once, or as late as can be.
#pragma once

#include "field.cuh"

#include <map>
#include <vector>

inline bool copies_are_late = false;

struct copy_t { fp_t* to; const uint4* from; size_t stride; };

// Of each thread of the block.
inline std::map<uint32_t, std::vector<copy_t>> copies;

static inline void make(const copy_t& copy)
{
    uint4* to = reinterpret_cast<uint4*>(copy.to);
    for (size_t i = 0; i < 3; i++)
        to[i] = copy.from[i * copy.stride];
}

static inline void request(fp_t& to, const uint4* from, size_t stride = 1)
{
    const copy_t copy = {&to, from, stride};
    if (copies_are_late)
        copies[threadIdx.x].push_back(copy);
    else
        make(copy);
}

static inline void await_requests()
{
    for (const copy_t& copy : copies[threadIdx.x])
        make(copy);
    copies[threadIdx.x].clear();
}

// Whether somebody has asked for something and never waited for it.
static inline bool copies_are_left()
{
    for (const auto& [thread, left] : copies)
        if (!left.empty())
            return true;
    return false;
}
