// The runs of concat.cu, which says when they are taken.
#ifndef AICF_CONCAT_RUNS_CUH
#define AICF_CONCAT_RUNS_CUH

#include "rows.cuh"

namespace aicf::concat {

constexpr int kRun = 2048; // bytes that a warp reads at once
constexpr int kRuns = 4;   // of a warp
constexpr int64_t kMostRuns = (int64_t{1} << 31) - kWarps * kRuns * kRun; // bytes of a tensor

// Bytes of a tensor, counted from the boundary before its first on, in a warp's shared memory and
// on their way there.
template <typename T> struct run {
    static constexpr int kPacks = kRun / kPackBytes / kWarp;

    char *memory;
    const char *x; // the boundary
    int begin, end;

    words held[kPacks];

    // Of pack u of this lane.
    __device__ int offset(int first, int u) const
    {
        return first + (u * kWarp + static_cast<int>(threadIdx.x) % kWarp) * kPackBytes;
    }

    __device__ bool whole(int at) const
    {
        return at >= begin && at + kPackBytes <= end;
    }

    __device__ void load(int first)
    {
#pragma unroll
        for (int u = 0; u < kPacks; u++) {
            int at = offset(first, u);
            if (whole(at)) {
                held[u] = load_words(x + at);
            }
        }
    }

    // Also what a tensor begins or ends with, which is no whole pack.
    __device__ void put(int first)
    {
#pragma unroll
        for (int u = 0; u < kPacks; u++) {
            int at = offset(first, u);
            if (whole(at)) {
                *reinterpret_cast<words *>(memory + at - first) = held[u];
                continue;
            }
#pragma unroll 1
            for (int i = 0; i < kPackBytes; i += static_cast<int>(sizeof(T))) {
                if (at + i >= begin && at + i < end) {
                    *reinterpret_cast<T *>(memory + at - first + i) =
                        *reinterpret_cast<const T *>(x + at + i);
                }
            }
        }
    }
};

// Writes at most `n` bytes by a warp, up to four lines from a sector of out on; returns how many.
template <typename T>
__device__ inline int
write_some(char *to, const char *from, int n, bool truth)
{
    constexpr int kItem = sizeof(T), kLines = 4;
    int before = static_cast<int>(reinterpret_cast<uintptr_t>(to) % kSector);
    n = min(n, kLines * kWarp * kItem - before);
    int at = static_cast<int>(threadIdx.x % kWarp) - before / kItem, left = n / kItem - at;
    T *out = reinterpret_cast<T *>(to) + at;
    const T *x = reinterpret_cast<const T *>(from) + at;
    T held[kLines];
#pragma unroll
    for (int i = 0; i < kLines; i++) {
        if (left > i * kWarp && (i > 0 || at >= 0)) {
            held[i] = x[i * kWarp];
        }
    }
#pragma unroll
    for (int i = 0; i < kLines; i++) {
        if (left > i * kWarp && (i > 0 || at >= 0)) {
            out[i * kWarp] = truth ? static_cast<T>(held[i] != 0) : held[i];
        }
    }
    return n;
}

// kRuns neighbouring runs a warp.
template <typename T>
__device__ inline void
copy_runs(words *memory, const source &s, const place &p, uint32_t block, bool truth = false)
{
    int warp = static_cast<int>(threadIdx.x) / kWarp, width = static_cast<int>(s.width);
    int phase = static_cast<int>(reinterpret_cast<uintptr_t>(s.x) % kPackBytes);
    int end = phase + static_cast<int>(s.rows) * width;
    int first = (static_cast<int>(block) * kWarps + warp) * (kRuns * kRun);
    if (first >= end) {
        return;
    }
    run<T> r = {reinterpret_cast<char *>(memory) + warp * kRun, s.x - phase, phase, end, {}};
    r.load(first);

    int at = first > phase ? first - phase : 0; // in the tensor
    int row = at / width, column = at - row * width;
    int in_run = at + phase - first;
    char *to = p.out + row * p.pitch;
#pragma unroll 1
    for (int turn = 0; turn < kRuns && first < end; turn++, first += kRun) {
        __syncwarp(); // the run before is written
        r.put(first);
        __syncwarp();
        if (turn + 1 < kRuns) {
            r.load(first + kRun);
        }
        int there = end - first < kRun ? end - first : kRun;
#pragma unroll 1
        while (in_run < there) {
            int n = min(width - column, there - in_run);
            n = write_some<T>(to + column, r.memory + in_run, n, truth);
            in_run += n;
            column += n;
            bool ends = column == width;
            column = ends ? 0 : column;
            to += ends ? p.pitch : 0;
        }
        in_run = 0;
    }
}

} // namespace aicf::concat

#endif
