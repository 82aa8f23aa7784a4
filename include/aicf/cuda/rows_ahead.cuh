// Part of rows.cuh: what a thread has asked for of a row while it is busy with another one.
#ifndef AICF_CUDA_ROWS_AHEAD_CUH
#define AICF_CUDA_ROWS_AHEAD_CUH

#include <aicf/cuda/lanes.cuh>
#include <aicf/cuda/rows_held.cuh>

namespace aicf::rows {

// Packs of kRows rows on their way to shared memory, kPacks of each thread of the block: registers
// are for the row that is computed with. A thread reads what itself has asked for, so that nobody
// waits for another.
template <typename T, int kPacks, int kRows> struct ahead {
    static constexpr int kStride = kWarp * kPackBytes; // from a pack of a thread to its next one

    uint32_t slots; // address of the thread's first
    int turn = 0;   // offset of the row that is next

    __device__ explicit ahead(words *shared)
    {
        int lane = static_cast<int>(threadIdx.x) % kWarp;
        int warp = static_cast<int>(threadIdx.x) / kWarp;
        slots = ptx::shared_address(shared) + warp * kRows * kPacks * kStride + lane * kPackBytes;
        ptx::opaque(slots); // kept: else it is made anew for each pack
    }

    // Asks for the packs that the thread has of `row` by `at`; nothing() closes a group too.
    __device__ void ask(const T *row, const span &at)
    {
        const T *from = row + at.first;
#pragma unroll
        for (int k = 0; k < kPacks; k++) {
            if (at.has(k)) {
                ptx::copy_async_16(slots + turn + k * kStride, from);
            }
            from += at.step;
        }
        ptx::copy_async_commit();
        turn = kRows > 1 && turn == 0 ? kPacks * kStride : 0;
    }

    // Waits for the oldest row, when kRows were asked for. Of packs that the thread has not, h has
    // anything.
    __device__ void take(held<T, kPacks> &h)
    {
        ptx::copy_async_wait<kRows - 1>();
#pragma unroll
        for (int k = 0; k < kPacks; k++) {
            ptx::load_shared(slots + turn + k * kStride, h.pack[k].word);
        }
    }
};

// A team's rows one after the other, in stages of kPacks packs of a thread, kStages of them on
// their way: each is asked for in the place of the one that was taken last. A row has as many
// stages for all threads.
template <typename T, int kPacks, int kStages> struct feed {
    static constexpr int kStride = kWarp * kPackBytes, kStage = kPacks * kStride;

    uint32_t slots;           // address of the thread's first
    int asked = 0, taken = 0; // offsets of the stages that are next
    const T *from = nullptr;  // the next pack to ask for
    int left = 0;             // packs of its row from that one on, other threads' too

    __device__ explicit feed(words *shared)
    {
        int lane = static_cast<int>(threadIdx.x) % kWarp;
        int warp = static_cast<int>(threadIdx.x) / kWarp;
        slots = ptx::shared_address(shared) + warp * (kStages + 1) * kStage + lane * kPackBytes;
        ptx::opaque(slots); // kept: else it is made anew for each pack
    }

    __device__ static void turn(int &stage)
    {
        stage = stage == kStages * kStage ? 0 : stage + kStage;
    }

    // The first pack of thread `rank` of `team`, counted from the row's first.
    __device__ static int first_of(const cut &c, int rank, int team)
    {
        return rank - c.lead + (rank < c.lead ? team : 0);
    }

    // What is asked for from now on is of this row.
    __device__ void start(const T *row, const cut &c, int rank, int team)
    {
        int first = first_of(c, rank, team);
        from = row + c.head + first * kPackSize<T>;
        left = c.packs - first;
    }

    __device__ void ask(int team)
    {
#pragma unroll
        for (int k = 0; k < kPacks; k++) {
            if (left > 0) {
                ptx::copy_async_16(slots + asked + k * kStride, from);
            }
            from += team * kPackSize<T>;
            left -= team;
        }
        ptx::copy_async_commit();
        turn(asked);
    }

    // Waits for the oldest stage, when kStages more were asked for. `packs`: of its row from this
    // thread's first one on. What there is not is -inf.
    __device__ void take(held<T, kPacks> &h, int packs, int team)
    {
        ptx::copy_async_wait<kStages>();
#pragma unroll
        for (int k = 0; k < kPacks; k++) {
            ptx::load_shared(slots + taken + k * kStride, h.pack[k].word);
        }
        if (packs <= (kPacks - 1) * team) {
#pragma unroll
            for (int k = 0; k < kPacks; k++) {
                for (uint32_t &word : h.pack[k].word) {
                    word = packs > k * team ? word : lowest_word(T{});
                }
            }
        }
        turn(taken);
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
