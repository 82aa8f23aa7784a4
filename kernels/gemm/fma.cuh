// gemm in f32 by multiply-adds, for sm_80 and later (see gemm.cuh for the operands, tiles.cuh for
// the tiles): any M, N and K, 0 included, at any address. Asynchronous copies keep slabs ahead of
// the products, of 16 bytes where neighbours along m or n lie on them; else of 4, which turn an
// operand whose k lies together. Bound by multiply-adds.
#ifndef AICF_GEMM_FMA_CUH
#define AICF_GEMM_FMA_CUH

#include "thin.cuh"
#include "tiles.cuh"

#include <aicf/cuda/ptx.cuh>

namespace aicf::gemm {

// How an operand is copied.
enum class copying {
    along_k, // an element at a time, turned
    single,  // an element at a time
    quads    // 16 bytes at a time
};

// One thread's copies of a slab of kTile (m or n) by kSlab (k): the same place in the unit-stride
// dim of every kStride-th line along the other.
template <int kTile, copying kHow> struct copier {
    static constexpr bool kAlongK = kHow == copying::along_k;
    static constexpr int kVector = kHow == copying::quads ? kQuad : 1;
    static constexpr int kAcross = (kAlongK ? kSlab : kTile) / kVector; // threads on a line
    static constexpr int kStride = kThreads / kAcross;
    static constexpr int kCount = (kAlongK ? kTile : kSlab) / kStride;
    static constexpr int kPitch = kTile + kPad;
    static constexpr uint32_t kNext = (kAlongK ? kStride : kStride * kPitch) * 4; // in the slab
    static_assert(
        kThreads % kAcross == 0 && kCount * kStride == (kAlongK ? kTile : kSlab), "whole");

    const float *from; // of the thread's first copy in the next slab
    int64_t step;      // to its next one
    int64_t slab_step;
    int x, k;
    uint32_t to;  // in a slab
    int64_t size; // how many x there are from the tile's first on

    __device__ copier(const float *first, int64_t pitch, int64_t size) : size(size)
    {
        int along = static_cast<int>(threadIdx.x) % kAcross * kVector;
        int line = static_cast<int>(threadIdx.x) / kAcross;
        x = kAlongK ? line : along;
        k = kAlongK ? along : line;
        from = first + line * pitch + along;
        step = kStride * pitch;
        slab_step = kAlongK ? kSlab : kSlab * pitch;
        to = static_cast<uint32_t>(k * kPitch + x) * 4;
    }

    __device__ void copy_inside(uint32_t slab) const
    {
#pragma unroll
        for (int i = 0; i < kCount; i++) {
            if constexpr (kVector == kQuad) {
                ptx::copy_async_16(slab + to + i * kNext, from + i * step);
            } else {
                ptx::copy_async_4(slab + to + i * kNext, from + i * step);
            }
        }
    }

    // Of a slab that is not whole, of which `depth` k are left: zeros are what is outside.
    __device__ void copy_edge(uint32_t slab, int64_t depth, const float *valid) const
    {
#pragma unroll 1
        for (int i = 0; i < kCount; i++) {
            int64_t at_x = x + (kAlongK ? i * kStride : 0), at_k = k + (kAlongK ? 0 : i * kStride);
            int64_t left = at_k < depth ? size - at_x : 0;
            left = left < 0 ? 0 : left > kVector ? kVector : left;
            // Nothing is read where all is zeros, but the address has to be a valid one.
            const float *p = left ? from + i * step : valid;
            if constexpr (kVector == kQuad) {
                ptx::copy_async_16(slab + to + i * kNext, p, static_cast<int>(left) * 4);
            } else {
                ptx::copy_async_4(slab + to + i * kNext, p, static_cast<int>(left) * 4);
            }
        }
    }

    __device__ void copy(uint32_t slab, int64_t depth, const float *valid)
    {
        if (depth >= kSlab && size >= kTile) {
            copy_inside(slab);
        } else {
            copy_edge(slab, depth, valid);
        }
        from += slab_step;
    }
};

constexpr int kStagesFma = 4;

template <int kTile> struct stage {
    slab<kTile> a, b;
};

// 128 registers a thread: two blocks a multiprocessor.
template <int kTile, copying kA, copying kB>
__global__ void
__launch_bounds__(kThreads, 2) fma(const __grid_constant__ problem<float> p)
{
    using mine = share<kTile, kTile>;
    using stage_t = stage<kTile>;
    extern __shared__ __align__(128) uint8_t shared[];
    const stage_t *stages = reinterpret_cast<const stage_t *>(shared);
    uint32_t base = ptx::shared_address(shared);
    job<float> j = job_of<kTile, kTile>(p);
    copier<kTile, kA> a(j.a + j.m * (kA == copying::along_k ? p.a_pitch : 1), p.a_pitch, p.M - j.m);
    copier<kTile, kB> b(j.b + j.n * (kB == copying::along_k ? p.b_pitch : 1), p.b_pitch, p.N - j.n);

    int64_t ahead = p.K; // k that is not asked for yet
    auto ask = [&](int to) {
        if (ahead > 0) {
            uint32_t at = base + static_cast<uint32_t>(to) * sizeof(stage_t);
            a.copy(at, ahead, j.a);
            b.copy(at + sizeof(slab<kTile>), ahead, j.b);
        }
        ahead -= kSlab;
        ptx::copy_async_commit(); // an empty group too: waiting counts groups
    };
    for (int i = 0; i < kStagesFma - 1; i++) {
        ask(i);
    }

    float sums[mine::kM][mine::kN] = {};
    int now = 0, next = kStagesFma - 1;
    for (int64_t k = 0; k < p.K; k += kSlab) {
        ptx::copy_async_wait<kStagesFma - 2>();
        __syncthreads(); // the slab has come for all, and all have read the one before
        ask(next);
        multiply<kTile, kTile>(stages[now].a, stages[now].b, sums);
        next = now;
        now = now + 1 == kStagesFma ? 0 : now + 1;
    }
    store<kTile, kTile>(p, j, sums);
}

template <int kTile, copying kA, copying kB>
aicf_status
launch_fma_kernel(const problem<float> &p, aicf_stream stream)
{
    constexpr int kShared = kStagesFma * static_cast<int>(sizeof(stage<kTile>));
    aicf_status status = allow_shared(fma<kTile, kA, kB>, kShared);
    return status.kind
               ? status
               : launch_tiles(fma<kTile, kA, kB>, p, kTile, kTile, kThreads, kShared, stream);
}

template <int kTile, copying kA>
aicf_status
launch_fma_by_b(const problem<float> &p, copying b, aicf_stream stream)
{
    switch (b) {
    case copying::along_k: return launch_fma_kernel<kTile, kA, copying::along_k>(p, stream);
    case copying::single: return launch_fma_kernel<kTile, kA, copying::single>(p, stream);
    case copying::quads: break;
    }
    return launch_fma_kernel<kTile, kA, copying::quads>(p, stream);
}

template <int kTile>
aicf_status
launch_fma_by_a(const problem<float> &p, copying a, copying b, aicf_stream stream)
{
    switch (a) {
    case copying::along_k: return launch_fma_by_b<kTile, copying::along_k>(p, b, stream);
    case copying::single: return launch_fma_by_b<kTile, copying::single>(p, b, stream);
    case copying::quads: break;
    }
    return launch_fma_by_b<kTile, copying::quads>(p, b, stream);
}

inline copying
copying_of(
    const problem<float> &p, const float *data, bool along_k, int64_t pitch, const int64_t *batch)
{
    return along_k                                            ? copying::along_k
           : aligned(data, pitch, batch, p.batch_rank, kQuad) ? copying::quads
                                                              : copying::single;
}

inline aicf_status
launch_fma(const problem<float> &p, aicf_stream stream)
{
    if (is_thin(p)) {
        return launch_thin(p, stream);
    }
    copying a = copying_of(p, p.a, p.a_along_k, p.a_pitch, p.a_batch);
    copying b = copying_of(p, p.b, p.b_along_k, p.b_pitch, p.b_batch);
    return fills_large_tiles(p) ? launch_fma_by_a<128>(p, a, b, stream)
                                : launch_fma_by_a<64>(p, a, b, stream);
}

} // namespace aicf::gemm

#endif
