// gemm in f32 by multiply-adds in tiles of 128 x 64 (see gemm.cuh for the operands), for sm_80 and
// later, where addresses, pitches and batch strides of a and b are on 16 bytes and sizes are below
// 2^31. A block of 128 threads has 64 sums each, and operands lie in shared memory as lines.cuh has
// it. Bound by multiply-adds.
#ifndef AICF_GEMM_WIDE_CUH
#define AICF_GEMM_WIDE_CUH

#include "lines.cuh"

namespace aicf::gemm {

constexpr int kWideThreads = 128;
constexpr int kWideM = 128, kWideN = 64, kWideDepth = 16;
constexpr int kWideStages = 4;
constexpr int kWideSums = 8; // each way, of a lane; 2 x 2 warps of 8 x 4 lanes

// Where a lane's sums lie in the tile.
template <bool kAAlongK, bool kBAlongK> struct wide_place {
    int m, n, lane_m, lane_n; // m and n: the warp's first row and column

    __device__ wide_place() : lane_m(place_of_lane(8)), lane_n(place_of_lane(4))
    {
        int warp = static_cast<int>(threadIdx.x) / 32;
        m = warp / 2 * 64;
        n = warp % 2 * 32;
    }

    __device__ int row(int i) const
    {
        return m + (kAAlongK ? i * 8 + lane_m : i / kQuad * 32 + lane_m * kQuad + i % kQuad);
    }

    // The first of each four.
    __device__ int column(int quad) const
    {
        return n + (kBAlongK ? lane_n * 8 + quad * kQuad : quad * 16 + lane_n * kQuad);
    }
};

// The products of four k, from the k-th of the slab on.
template <typename A, typename B, bool kAAlongK, bool kBAlongK>
__device__ inline void
multiply_wide(
    const float *a, const float *b, int k, const wide_place<kAAlongK, kBAlongK> &at,
    float (&sums)[kWideSums][kWideSums])
{
    pack<float, kQuad> x[kWideSums], y[kWideSums];
#pragma unroll
    for (int i = 0; i < kWideSums; i++) {
        x[i] = load_pack<float, kQuad>(
            a + (kAAlongK ? at.row(i) * A::kPitch + k
                          : (k + i / 2) * A::kPitch + at.row(i % 2 * kQuad)));
        y[i] = load_pack<float, kQuad>(
            b + (kBAlongK ? (at.n + i * 4 + at.lane_n) * B::kPitch + k
                          : (k + i / 2) * B::kPitch + at.column(i % 2)));
    }
#pragma unroll
    for (int step = 0; step < kQuad; step++) {
#pragma unroll
        for (int i = 0; i < kWideSums; i++) {
#pragma unroll
            for (int j = 0; j < kWideSums; j++) {
                sums[i][j] +=
                    (kAAlongK ? x[i].lane[step] : x[step * 2 + i / kQuad].lane[i % kQuad]) *
                    (kBAlongK ? y[j].lane[step] : y[step * 2 + j / kQuad].lane[j % kQuad]);
            }
        }
    }
}

template <bool kAAlongK, bool kBAlongK>
__device__ inline void
store_wide(
    const problem<float> &p, const job<float> &j, const wide_place<kAAlongK, kBAlongK> &at,
    const float (&sums)[kWideSums][kWideSums])
{
    bool packed =
        (reinterpret_cast<uintptr_t>(j.out) | static_cast<uint64_t>(p.out_pitch) * 4) % 16 == 0;
#pragma unroll
    for (int quad = 0; quad < 2; quad++) {
        int64_t n = j.n + at.column(quad);
        float bias[kQuad];
#pragma unroll
        for (int lane = 0; lane < kQuad; lane++) {
            bias[lane] = p.bias && n + lane < p.N ? p.bias[n + lane] : 0.0f;
        }
#pragma unroll
        for (int i = 0; i < kWideSums; i++) {
            int64_t m = j.m + at.row(i);
            if (m >= p.M) {
                continue;
            }
            const float *c = row_of_c(p, j, m);
            float *out = j.out + m * p.out_pitch + n;
            pack<float, kQuad> x;
#pragma unroll
            for (int lane = 0; lane < kQuad; lane++) {
                if (n + lane < p.N) {
                    x.lane[lane] = finish(p, sums[i][quad * kQuad + lane], c, n + lane, bias[lane]);
                }
            }
            if (packed && n + kQuad <= p.N) {
                store_pack(out, x);
                continue;
            }
#pragma unroll
            for (int lane = 0; lane < kQuad; lane++) {
                if (n + lane < p.N) {
                    out[lane] = x.lane[lane];
                }
            }
        }
    }
}

template <bool kAAlongK, bool kBAlongK>
__global__ void
__launch_bounds__(kWideThreads, 3) wide(const __grid_constant__ problem<float> p)
{
    using lines_a = lines<kWideM, kWideDepth, kAAlongK, kQuad, kWideThreads>;
    using lines_b = lines<kWideN, kWideDepth, kBAlongK, kQuad, kWideThreads, true>;
    constexpr int kStageBytes = lines_a::kBytes + lines_b::kBytes;
    extern __shared__ __align__(128) uint8_t shared[];
    uint32_t base = ptx::shared_address(shared);
    ptx::let_next_launch_begin();
    job<float> j = job_of<kWideM, kWideN>(p);
    lines_a a(j.a, p.a_pitch, j.m, 0, p.M - j.m);
    lines_b b(j.b, p.b_pitch, j.n, 0, p.N - j.n);
    int ahead = static_cast<int>(p.K); // k that is not asked for yet
    auto ask = [&](int to) {
        if (ahead > 0) {
            uint32_t at = base + static_cast<uint32_t>(to) * kStageBytes;
            a.copy(at, ahead, j.a);
            b.copy(at + lines_a::kBytes, ahead, j.a);
        }
        ahead -= kWideDepth;
        ptx::copy_async_commit(); // an empty group too: waiting counts groups
    };
    for (int i = 0; i < kWideStages - 1; i++) {
        ask(i);
    }

    wide_place<kAAlongK, kBAlongK> at;
    float sums[kWideSums][kWideSums] = {};
    int now = 0, next = kWideStages - 1;
#pragma unroll 1
    for (int left = static_cast<int>(p.K); left > 0; left -= kWideDepth) {
        ptx::copy_async_wait<kWideStages - 2>();
        __syncthreads(); // the slab has come for all, and all have read the one before
        ask(next);
        const float *slab_a = reinterpret_cast<const float *>(shared + now * kStageBytes);
        const float *slab_b = slab_a + lines_a::kBytes / 4;
#pragma unroll
        for (int k = 0; k < kWideDepth; k += kQuad) {
            multiply_wide<lines_a, lines_b>(slab_a, slab_b, k, at, sums);
        }
        next = now;
        now = now + 1 == kWideStages ? 0 : now + 1;
    }
    store_wide(p, j, at, sums);
}

inline bool
takes_wide(const problem<float> &p)
{
    return p.M < kMostBlocks && p.N < kMostBlocks && p.K < kMostBlocks &&
           aligned(p.a, p.a_pitch, p.a_batch, p.batch_rank, kQuad) &&
           aligned(p.b, p.b_pitch, p.b_batch, p.batch_rank, kQuad);
}

template <bool kAAlongK, bool kBAlongK>
aicf_status
launch_wide_kernel(const problem<float> &p, aicf_stream stream)
{
    constexpr int kShared =
        kWideStages * (lines<kWideM, kWideDepth, kAAlongK, kQuad, kWideThreads>::kBytes +
                       lines<kWideN, kWideDepth, kBAlongK, kQuad, kWideThreads, true>::kBytes);
    aicf_status status = allow_shared(wide<kAAlongK, kBAlongK>, kShared);
    return status.kind
               ? status
               : launch_tiles(
                     wide<kAAlongK, kBAlongK>, p, kWideM, kWideN, kWideThreads, kShared, stream);
}

inline aicf_status
launch_wide(const problem<float> &p, aicf_stream stream)
{
    if (p.a_along_k) {
        return p.b_along_k ? launch_wide_kernel<true, true>(p, stream)
                           : launch_wide_kernel<true, false>(p, stream);
    }
    return p.b_along_k ? launch_wide_kernel<false, true>(p, stream)
                       : launch_wide_kernel<false, false>(p, stream);
}

} // namespace aicf::gemm

#endif
