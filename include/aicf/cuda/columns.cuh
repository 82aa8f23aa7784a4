// Teams that go over the rows of a dense matrix, each thread with the same columns of all: so what
// goes by column, weights and sums, stays in registers, and the next row is on its way while one is
// reduced. For rows that start on 16-byte boundaries, or element by element.
#ifndef AICF_CUDA_COLUMNS_CUH
#define AICF_CUDA_COLUMNS_CUH

#include <cstring>

#include <aicf/cuda/rows.cuh>

namespace aicf::columns {

constexpr int kMine = 16;         // columns of a thread at most
constexpr int kMostThreads = 512; // of a block
constexpr int64_t kMachine = 132; // multiprocessors of the machines that workspaces are made for

using rows::multiprocessors;

// ---- units --------------------------------------------------------------------------------------

// 16 bytes, or one element, as they lie in memory.
template <typename T, int kSize> struct unit {
    static_assert(kSize == kPackSize<T>, "a pack or an element");
    words held;

    __device__ void load(const T *p)
    {
        held = load_words(p);
    }

    __device__ void unpack(float (&x)[kSize])
    {
        for (uint32_t &word : held.word) {
            ptx::opaque(word); // else f32 of it are kept from one use to the next
        }
        aicf::unpack(held, x, T{});
    }
};

template <typename T> struct unit<T, 1> {
    T held;

    __device__ void load(const T *p)
    {
        held = *p;
    }

    __device__ void unpack(float (&x)[1])
    {
        x[0] = to_f32(held);
    }
};

// kSize elements that a kernel never writes, so that their loads may go ahead of its stores; by one
// access if `packed`. Not __ldg of a __half: that is an asm without effects, which compilers take
// out of the condition that its address hangs on.
template <typename T, int kSize>
__device__ inline void
coefficients(const T *from, bool packed, float (&c)[kSize])
{
    if constexpr (kSize == kPackSize<T>) {
        if (packed) {
            uint4 w = __ldg(reinterpret_cast<const uint4 *>(from));
            aicf::unpack(words{{w.x, w.y, w.z, w.w}}, c, T{});
            return;
        }
    }
#pragma unroll
    for (int lane = 0; lane < kSize; lane++) {
        T value;
        if constexpr (sizeof(T) == sizeof(unsigned short)) {
            unsigned short bits = __ldg(reinterpret_cast<const unsigned short *>(from + lane));
            memcpy(&value, &bits, sizeof(T));
        } else {
            value = __ldg(from + lane);
        }
        c[lane] = to_f32(value);
    }
}

// ---- places -------------------------------------------------------------------------------------

// Which team of how many this thread is in, and which thread of how many in it.
struct place {
    int64_t team, teams;
    int rank, size;
};

__device__ inline place
place_in(const rows::lanes_team &team)
{
    int64_t thread = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
    int64_t threads = gridDim.x * int64_t{blockDim.x};
    return {
        thread / team.width, threads / team.width, static_cast<int>(threadIdx.x) % team.width,
        team.width};
}

__device__ inline place
place_in(const rows::block_team &)
{
    return {blockIdx.x, gridDim.x, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x)};
}

} // namespace aicf::columns

#endif
