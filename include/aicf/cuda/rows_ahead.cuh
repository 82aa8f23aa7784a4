// Part of rows.cuh: what a thread has asked for of a row while it is busy with another one.
#ifndef AICF_CUDA_ROWS_AHEAD_CUH
#define AICF_CUDA_ROWS_AHEAD_CUH

#include <aicf/cuda/rows_held.cuh>

namespace aicf::rows {

constexpr int64_t kMachine = 132; // multiprocessors of the largest machines

// Packs on their way to shared memory, kPacks of each thread of the block: registers are for the
// row that is computed with. A thread reads what itself has asked for, so that nobody waits for
// another.
template <typename T, int kPacks> struct ahead {
    static constexpr int kStride = kWarp * kPackBytes; // from a pack of a thread to its next one

    uint32_t slots; // address of the thread's first
    span at;
    T edge;

    __device__ explicit ahead(words *shared) : at(nothing())
    {
        int lane = static_cast<int>(threadIdx.x) % kWarp;
        int warp = static_cast<int>(threadIdx.x) / kWarp;
        slots = ptx::shared_address(shared) + warp * kPacks * kStride + lane * kPackBytes;
        ptx::opaque(slots); // kept: else it is made anew for each pack
    }

    // What the thread has of `row` by `s`.
    __device__ void ask(const T *row, const span &s)
    {
        at = s;
        const T *from = row + at.first;
#pragma unroll
        for (int k = 0; k < kPacks; k++) {
            if (at.has(k)) {
                ptx::copy_async_16(slots + k * kStride, from);
            }
            from += at.step;
        }
        ptx::copy_async_commit();
        if (at.edge >= 0) {
            edge = row[at.edge];
        }
    }

    // Waits for it. Of packs that the thread has not, h has anything.
    __device__ span take(held<T, kPacks> &h)
    {
        ptx::copy_async_wait<0>();
#pragma unroll
        for (int k = 0; k < kPacks; k++) {
            ptx::load_shared(slots + k * kStride, h.pack[k].word);
        }
        h.edge = edge;
        return at;
    }
};

// Bytes of shared memory of so many threads' slots.
constexpr int
ahead_bytes(int packs, int64_t threads)
{
    return static_cast<int>(threads * packs * kPackBytes);
}

} // namespace aicf::rows

#endif
