// Sorts the digits of many scalars into buckets that all windows share, in two steps, so that few counters are in global memory
// and hardly a write there is scattered. Buckets whose numbers have the same high bits are a group, one of 512; the low bits
// say which member of its group a bucket is, one of up to 1024: with digits of 20 bits there are 2^19 buckets.
//
// 1. Entries go to their groups. `count_groups` counts those of each; `begin_groups` gives each group a run of the scratch. A
//    block of `split_digits` takes a point a thread, 13 entries each with 20 bits. It ranks them by group in shared memory, takes
//    its share of each group's run with one atomic, and puts them in order in shared memory before it copies them there:
//    26 neighbours to a run, if they are spread evenly over 512 groups. The number of its member goes with an entry.
// 2. Entries go to their buckets. The runs are cut into chunks of 8192 entries, a block each. `count_members` counts a chunk's
//    entries of each member, and adds the counts to those of buckets, whose sums are made as in `sort.cu`. `place_members` does
//    with a chunk's members what `split_digits` did with groups: 8 neighbours to a bucket, and the 1024 buckets side by side.
//
// No block has more to do where scalars are of few kinds: a full group has more chunks, an empty one has none, and no group
// has more than one that is not full. What may be fought over is a counter in shared memory, to which a warp whose keys are all
// the same adds once, and a counter in global memory, to which a block adds once for each group or member that it has entries of.

#include "digits.cuh"

// The most windows that are split at a time.
static const uint32_t MOST_SPLIT = 16;

// Runs of groups begin at a multiple of this: entries and members are read four at a time.
static const uint32_t QUAD = 4;

// Groups of buckets. There are as many buckets at least.
static const uint32_t GROUPS = 512;

// The most members of a group.
static const uint32_t MEMBERS = 1024;

// Threads of a block of all kernels but `split_digits`.
static const uint32_t THREADS = 512;

// Points that a thread of `count_groups` takes.
static const uint32_t COUNT_POINTS = 8;

// Entries of a chunk that a thread takes, and those of a chunk.
static const uint32_t CHUNK_RUN = 16, CHUNK = CHUNK_RUN * THREADS;

// No entry, among members and ranks.
static const uint32_t NO_PLACE = 0xffffffff;

// Of an entry whose digit is negative.
static const uint32_t SIGN = 0x80000000;

struct split_t {
    uint32_t* entries; // the scratch: entries,
    uint16_t* members; // and the members they belong to
    uint32_t* counts;  // of each group; zero before `count_groups`, and after `begin_groups`
    uint32_t* begins;  // of each group's run,
    uint32_t* ends;    // as far as it is filled
    uint32_t* chunks;  // of each group the number of its first chunk, and the number of all
    uint32_t member_bits;

    __device__ __forceinline__ uint32_t group_of(uint32_t bucket) const
    {   return bucket >> member_bits;   }
    __device__ __forceinline__ uint32_t member_of(uint32_t bucket) const
    {   return bucket & ((1u << member_bits) - 1);   }
};

// Adds one to a counter in shared memory for each lane of the warp with a key; says how many came before it. A warp whose keys
// are all the same adds once.
__device__ __forceinline__ uint32_t take_rank(uint32_t* counters, uint32_t key)
{
    if (__all_sync(0xffffffff, key == __shfl_sync(0xffffffff, key, 0))) {
        uint32_t lane = threadIdx.x % 32, before = 0;
        if (lane == 0 && key != NO_KEY)
            before = atomicAdd(&counters[key], 32);
        return __shfl_sync(0xffffffff, before, 0) + lane;
    }
    return key != NO_KEY ? atomicAdd(&counters[key], 1) : 0;
}

// The digit's bucket, with the sign in the top bit; NO_KEY for a zero.
__device__ __forceinline__ uint32_t signed_bucket(const digits_t& d, uint32_t window, digit_stream_t& stream)
{
    int32_t digit = stream.next(d.bits);
    return digit != 0 ? bucket_of(d, window, digit) | ((uint32_t)digit & SIGN) : NO_KEY;
}

template<uint32_t COUNT>
__device__ __forceinline__ void clear(uint32_t (&counters)[COUNT])
{
    for (uint32_t i = threadIdx.x; i < COUNT; i += blockDim.x)
        counters[i] = 0;
}

// Exclusive sums of the counters, in place, by THREADS threads. `share` is called for each counter with its number, the count and
// the sum. Returns the sum of all.
template<uint32_t THREADS, uint32_t COUNT, class share_t>
__device__ __forceinline__ uint32_t sum_counters(uint32_t (&counters)[COUNT], share_t share)
{
    static const uint32_t RUN = (COUNT + THREADS - 1) / THREADS;
    const uint32_t first = threadIdx.x * RUN;
    uint32_t sum = 0, total;
    for (uint32_t i = 0; i < RUN; i++)
        sum += first + i < COUNT ? counters[first + i] : 0;
    sum = block_exclusive_sum<THREADS>(sum, total);
    for (uint32_t i = 0; i < RUN && first + i < COUNT; i++) {
        const uint32_t count = counters[first + i];
        counters[first + i] = sum;
        share(first + i, count, sum);
        sum += count;
    }
    return total;
}

extern "C" __global__ void __launch_bounds__(THREADS)
count_groups(split_t s, digits_t d)
{
    __shared__ uint32_t counts[GROUPS];
    clear(counts);
    __syncthreads();
    #pragma unroll 1
    for (uint32_t i = 0; i < COUNT_POINTS; i++) {
        const uint32_t point = (blockIdx.x * COUNT_POINTS + i) * THREADS + threadIdx.x;
        digit_stream_t stream;
        if (point < d.points)
            stream.load(d, point);
        const uint32_t windows = stream.windows(d);
        for (uint32_t window = 0; window < windows; window++) {
            const uint32_t bucket = point < d.points ? signed_bucket(d, window, stream) : NO_KEY;
            take_rank(counts, bucket != NO_KEY ? s.group_of(bucket & ~SIGN) : NO_KEY);
        }
    }
    __syncthreads();
    for (uint32_t group = threadIdx.x; group < GROUPS; group += THREADS)
        if (counts[group] != 0)
            atomicAdd(&s.counts[group], counts[group]);
}

// One block.
extern "C" __global__ void __launch_bounds__(GROUPS)
begin_groups(split_t s)
{
    const uint32_t group = threadIdx.x, count = s.counts[group];
    uint32_t total;
    const uint32_t begin = block_exclusive_sum<GROUPS>((count + QUAD - 1) / QUAD * QUAD, total);
    s.counts[group] = 0;
    s.begins[group] = begin;
    s.ends[group] = begin;
    const uint32_t chunks = block_exclusive_sum<GROUPS>((count + CHUNK - 1) / CHUNK, total);
    s.chunks[group] = chunks;
    if (group == 0)
        s.chunks[GROUPS] = total;
}

// Shared memory holds two words for each window and thread.
template<uint32_t THREADS>
__device__ __forceinline__ void split_digits(const split_t& s, const digits_t& d)
{
    extern __shared__ uint2 ordered[]; // entry, bucket
    __shared__ uint32_t offsets[GROUPS], shifts[GROUPS];
    clear(offsets);
    __syncthreads();
    const uint32_t point = blockIdx.x * THREADS + threadIdx.x;
    digit_stream_t stream;
    if (point < d.points)
        stream.load(d, point);
    const uint32_t windows = stream.windows(d);
    uint32_t buckets[MOST_SPLIT], ranks[MOST_SPLIT / 2]; // two ranks in a word
    #pragma unroll
    for (uint32_t window = 0; window < MOST_SPLIT; window++) {
        buckets[window] = NO_KEY;
        if (window % 2 == 0)
            ranks[window / 2] = 0;
        if (window < windows) {
            if (point < d.points)
                buckets[window] = signed_bucket(d, window, stream);
            const uint32_t bucket = buckets[window];
            const uint32_t rank = take_rank(offsets, bucket != NO_KEY ? s.group_of(bucket & ~SIGN) : NO_KEY);
            ranks[window / 2] |= rank << 16 * (window % 2);
        }
    }
    __syncthreads();
    const uint32_t total = sum_counters<THREADS>(offsets, [&](uint32_t group, uint32_t count, uint32_t offset) {
        shifts[group] = count != 0 ? atomicAdd(&s.ends[group], count) - offset : 0;
    });
    __syncthreads();
    #pragma unroll
    for (uint32_t window = 0; window < MOST_SPLIT; window++) {
        if (buckets[window] == NO_KEY)
            continue;
        const uint32_t bucket = buckets[window] & ~SIGN, sign = buckets[window] & SIGN;
        const uint32_t rank = ranks[window / 2] >> 16 * (window % 2) & 0xffff;
        const uint32_t entry = (d.first_window + window) * d.stride + point;
        ordered[offsets[s.group_of(bucket)] + rank] = make_uint2(entry | sign, bucket);
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < total; i += THREADS) {
        const uint2 entry = ordered[i];
        const uint32_t place = i + shifts[s.group_of(entry.y)];
        s.entries[place] = entry.x;
        s.members[place] = (uint16_t)s.member_of(entry.y);
    }
}

// More threads write longer runs, but not every card has shared memory for them.
extern "C" __global__ void __launch_bounds__(1024)
split_digits_1024(split_t s, digits_t d)
{   split_digits<1024>(s, d);   }

extern "C" __global__ void __launch_bounds__(512, 3)
split_digits_512(split_t s, digits_t d)
{   split_digits<512>(s, d);   }

// A part of a group's run. One block takes it.
struct chunk_t {
    uint32_t group, begin, end;

    // All threads call this; false where there are fewer chunks.
    __device__ __forceinline__ bool find(const split_t& s)
    {
        __shared__ uint32_t found;
        const uint32_t chunk = blockIdx.x;
        if (chunk >= s.chunks[GROUPS])
            return false;
        for (uint32_t i = threadIdx.x; i < GROUPS; i += blockDim.x)
            if (s.chunks[i] <= chunk && chunk < s.chunks[i + 1])
                found = i;
        __syncthreads();
        group = found;
        begin = s.begins[group] + (chunk - s.chunks[group]) * CHUNK;
        end = min(begin + CHUNK, s.ends[group]);
        return true;
    }
};

extern "C" __global__ void __launch_bounds__(THREADS)
count_members(uint32_t* counts, split_t s)
{
    __shared__ uint32_t members[MEMBERS];
    chunk_t chunk;
    clear(members);
    if (!chunk.find(s))
        return;
    #pragma unroll
    for (uint32_t i = 0; i < CHUNK_RUN; i += QUAD) {
        const uint32_t first = chunk.begin + i * THREADS + threadIdx.x * QUAD;
        ushort4 quad = make_ushort4(0, 0, 0, 0);
        if (first < chunk.end)
            quad = *reinterpret_cast<const ushort4*>(s.members + first);
        const uint32_t keys[QUAD] = {quad.x, quad.y, quad.z, quad.w};
        #pragma unroll
        for (uint32_t k = 0; k < QUAD; k++)
            take_rank(members, first + k < chunk.end ? keys[k] : NO_KEY);
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < MEMBERS; i += THREADS)
        if (members[i] != 0)
            atomicAdd(&counts[(chunk.group << s.member_bits) + i], members[i]);
}

// Counts `counts` down to zero. Shared memory holds a chunk's entries (4 bytes each), then the members they belong to (2 bytes
// each).
extern "C" __global__ void __launch_bounds__(THREADS, 3)
place_members(uint32_t* entries, uint32_t* counts, const uint32_t* starts, split_t s, uint32_t first_mark)
{
    extern __shared__ uint32_t ordered_entries[];
    uint16_t* ordered_members = reinterpret_cast<uint16_t*>(ordered_entries + CHUNK);
    // Where each member's entries begin in the chunk, and how far from there their place is.
    __shared__ uint32_t offsets[MEMBERS], shifts[MEMBERS];
    chunk_t chunk;
    clear(offsets);
    if (!chunk.find(s))
        return;
    uint32_t places[CHUNK_RUN]; // rank, member
    #pragma unroll
    for (uint32_t i = 0; i < CHUNK_RUN; i += QUAD) {
        const uint32_t first = chunk.begin + i * THREADS + threadIdx.x * QUAD;
        ushort4 quad = make_ushort4(0, 0, 0, 0);
        if (first < chunk.end)
            quad = *reinterpret_cast<const ushort4*>(s.members + first);
        const uint32_t keys[QUAD] = {quad.x, quad.y, quad.z, quad.w};
        #pragma unroll
        for (uint32_t k = 0; k < QUAD; k++) {
            const bool there = first + k < chunk.end;
            const uint32_t rank = take_rank(offsets, there ? keys[k] : NO_KEY);
            places[i + k] = there ? rank << 16 | keys[k] : NO_PLACE;
        }
    }
    __syncthreads();
    // Of the members that this thread sums, those whose bucket begins in this chunk.
    uint32_t begin_here = 0, turn = 0;
    sum_counters<THREADS>(offsets, [&](uint32_t member, uint32_t count, uint32_t offset) {
        const uint32_t bucket = (chunk.group << s.member_bits) + member;
        if (count != 0) {
            const uint32_t before = atomicSub(&counts[bucket], count) - count;
            shifts[member] = starts[bucket] + before - offset;
            if (before == 0)
                begin_here |= 1u << turn;
        }
        turn++;
    });
    __syncthreads();
    #pragma unroll
    for (uint32_t i = 0; i < CHUNK_RUN; i += QUAD) {
        const uint32_t first = chunk.begin + i * THREADS + threadIdx.x * QUAD;
        uint4 quad = make_uint4(0, 0, 0, 0);
        if (first < chunk.end)
            quad = *reinterpret_cast<const uint4*>(s.entries + first);
        const uint32_t values[QUAD] = {quad.x, quad.y, quad.z, quad.w};
        #pragma unroll
        for (uint32_t k = 0; k < QUAD; k++) {
            if (places[i + k] == NO_PLACE)
                continue;
            const uint32_t member = places[i + k] & 0xffff, rank = places[i + k] >> 16;
            const uint32_t place = offsets[member] + rank;
            ordered_entries[place] = values[k];
            ordered_members[place] = (uint16_t)member;
        }
    }
    __syncthreads();
    for (turn = 0; begin_here >> turn != 0; turn++)
        if (begin_here >> turn & 1)
            ordered_entries[offsets[threadIdx.x * ((MEMBERS + THREADS - 1) / THREADS) + turn]] |= first_mark;
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < chunk.end - chunk.begin; i += THREADS)
        entries[i + shifts[ordered_members[i]]] = ordered_entries[i];
}
