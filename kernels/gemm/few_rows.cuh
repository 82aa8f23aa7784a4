// gemm in f32 by multiply-adds where M is at most 16, for sm_80 and later (see gemm.cuh for the
// operands, tiles.cuh for the tiles): any N and K, 0 included, at any address. Asynchronous copies
// keep slabs ahead of the products. Bound by the bytes of b.
#ifndef AICF_GEMM_FEW_ROWS_CUH
#define AICF_GEMM_FEW_ROWS_CUH

#include "copies.cuh"
#include "parts.cuh"

namespace aicf::gemm {

constexpr int kFewRows = 16, kFewColumns = 256; // a tile
constexpr int kStagesFew = 4;

struct few_stage {
    slab<kFewRows> a;
    slab<kFewColumns> b;
};

// 128 registers a thread: two blocks a multiprocessor.
template <copying kA, copying kB>
__global__ void
__launch_bounds__(kThreads, 2) few_rows(const __grid_constant__ parted p)
{
    using mine = share<kFewRows, kFewColumns>;
    extern __shared__ __align__(128) uint8_t shared[];
    const few_stage *stages = reinterpret_cast<const few_stage *>(shared);
    uint32_t base = ptx::shared_address(shared);
    ptx::let_next_launch_begin();
    job<float> j = job_of<kFewRows, kFewColumns>(p);
    int64_t K = p.first + blockIdx.x < p.last ? p.K : p.last_K;
    copier<kFewRows, kSlab, kThreads, kA> a(
        j.a + j.m * (kA == copying::along_k ? p.a_pitch : 1), p.a_pitch, p.M - j.m);
    copier<kFewColumns, kSlab, kThreads, kB> b(
        j.b + j.n * (kB == copying::along_k ? p.b_pitch : 1), p.b_pitch, p.N - j.n);

    int64_t ahead = K; // k that is not asked for yet
    auto ask = [&](int to) {
        if (ahead > 0) {
            uint32_t at = base + static_cast<uint32_t>(to) * sizeof(few_stage);
            a.copy(at, ahead, j.a);
            b.copy(at + sizeof(slab<kFewRows>), ahead, j.b);
        }
        ahead -= kSlab;
        ptx::copy_async_commit(); // an empty group too: waiting counts groups
    };
    ptx::wait_for_launch_before();
    for (int i = 0; i < kStagesFew - 1; i++) {
        ask(i);
    }

    float sums[mine::kM][mine::kN] = {};
    int now = 0, next = kStagesFew - 1;
    for (int64_t k = 0; k < K; k += kSlab) {
        ptx::copy_async_wait<kStagesFew - 2>();
        __syncthreads(); // the slab has come for all, and all have read the one before
        ask(next);
        multiply<kFewRows, kFewColumns>(stages[now].a, stages[now].b, sums);
        next = now;
        now = now + 1 == kStagesFew ? 0 : now + 1;
    }
    store<kFewRows, kFewColumns>(p, j, sums);
}

template <copying kA, copying kB>
aicf_status
launch_few_rows_kernel(const parted &p, aicf_stream stream)
{
    return launch_parted(
        few_rows<kA, kB>, p, kFewRows, kFewColumns, kThreads, kStagesFew * sizeof(few_stage),
        stream);
}

// Few rows are too few for quads of them: a, the lesser operand here, is copied one by one.
template <copying kB>
aicf_status
launch_few_rows_by_a(const parted &p, aicf_stream stream)
{
    return p.a_along_k ? launch_few_rows_kernel<copying::along_k, kB>(p, stream)
                       : launch_few_rows_kernel<copying::single, kB>(p, stream);
}

inline aicf_status
launch_few_rows(const parted &p, aicf_stream stream)
{
    switch (copying_of(p, p.b, p.b_along_k, p.b_pitch, p.b_batch)) {
    case copying::along_k: return launch_few_rows_by_a<copying::along_k>(p, stream);
    case copying::single: return launch_few_rows_by_a<copying::single>(p, stream);
    case copying::quads: break;
    }
    return launch_few_rows_by_a<copying::quads>(p, stream);
}

// The most parts of k that run at once.
inline int64_t
parts_of_few(const problem<float> &p, int processors)
{
    int64_t tiles = ceil_div(p.M, kFewRows) * ceil_div(p.N, kFewColumns) * p.batches, most = 1;
    for (int64_t count = 2; takes_parts(p, count); count++) {
        most = count * tiles <= 2 * processors ? count : most;
    }
    return most;
}

} // namespace aicf::gemm

#endif
