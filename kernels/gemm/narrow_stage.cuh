// How the columns of b come to shared memory where they are few (narrow.cuh), by asynchronous
// copies.
#ifndef AICF_GEMM_NARROW_STAGE_CUH
#define AICF_GEMM_NARROW_STAGE_CUH

#include "small.cuh"

namespace aicf::gemm {

constexpr int kMostNarrow = 16;   // columns
constexpr int kUsualColumns = 10; // of classifiers
constexpr int kNarrowThreads = 256;
constexpr int kNarrowWarps = kNarrowThreads / kLanes;

// Has k from `first` to `end` of b come to shared memory, column n of k to n * n_step + (k - first)
// * k_step, as one group of this thread's copies.
__device__ inline void
stage_b(const small_problem<float> &p, int first, int end, float *to, int n_step, int k_step)
{
    int thread = static_cast<int>(threadIdx.x);
    uint32_t shared = ptx::shared_address(to);
    if (p.b_k == 1) { // k lies together
        for (int n = 0; n < p.N; n++) {
            const float *from = at(p.b, n, p.b_n);
            for (int k = first + thread; k < end; k += kNarrowThreads) {
                ptx::copy_async_4(shared + (n * n_step + (k - first) * k_step) * 4, from + k);
            }
        }
    } else {
        constexpr int kStep = kNarrowThreads / kMostNarrow;
        int n = thread % kMostNarrow, line = first + thread / kMostNarrow;
        const float *from = at(p.b + n, line, p.b_k);
        uint32_t here = shared + (n * n_step + (line - first) * k_step) * 4;
        int lines = n < p.N ? end : 0;
#pragma unroll 4
        for (int k = line; k < lines; k += kStep) {
            ptx::copy_async_4(here, from);
            from = at(from, kStep, p.b_k);
            here += kStep * k_step * 4;
        }
    }
    ptx::copy_async_commit();
}

// The same of a b that is one line, by 16 bytes: `count` quads from `from` on. In shared memory
// kGap quads are left out after each kGroup.
template <int kGroup, int kGap>
__device__ inline void
stage_line(const float *from, int count, float *to)
{
    uint32_t shared = ptx::shared_address(to);
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.x); i < count; i += kNarrowThreads) {
        ptx::copy_async_16(shared + (i + i / kGroup * kGap) * 16, from + i * 4);
    }
    ptx::copy_async_commit();
}

// Whether b is one line of kN columns, in quads.
inline bool
is_line(const small_problem<float> &p, int columns)
{
    return p.N == columns && p.b_n == 1 && p.b_k == columns && p.K % 4 == 0 &&
           reinterpret_cast<uintptr_t>(p.b) % kPackBytes == 0;
}

} // namespace aicf::gemm

#endif
