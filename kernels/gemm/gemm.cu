// gemm on CUDA without matrix units (see gemm.cuh for the operands): f32, and f16 and bf16 at any
// alignment and on any arch; accumulated in f32 by multiply-adds. Any M, N and K, 0 included.
//
// A block makes a tile of the out from k-slabs of a and b that lie in shared memory as f32, k
// outermost: the next slab is on its way to registers while the present one is multiplied. Bound by
// multiply-adds where M and N fill tiles.
#include "quick.cuh"
#include "thin.cuh"
#include "tiles.cuh"

namespace aicf::gemm {

// An operand seen from one tile: element (x, k), x along m or n, lies at x + k * pitch or, along_k,
// at x * pitch + k.
template <typename T> struct source {
    const T *data;
    int64_t pitch, size, depth; // size: how many x there are from the tile's first on
    bool along_k;
};

// The part of a slab that one thread carries from global to shared memory, kVector elements of the
// unit-stride dim at a time.
template <typename T, int kTile, int kVector> struct carried {
    static constexpr int kCount = kTile * kSlab / kThreads / kVector;
    static_assert(kCount * kVector * kThreads == kTile * kSlab, "a slab is carried whole");
    pack<T, kVector> held[kCount];
};

struct place {
    int x, k;
};

template <int kTile, int kVector>
__device__ inline place
place_of(int vector, bool along_k)
{
    if (along_k) {
        return {vector / (kSlab / kVector), vector % (kSlab / kVector) * kVector};
    }
    return {vector % (kTile / kVector) * kVector, vector / (kTile / kVector)};
}

// Elements outside the operand are zeros.
template <typename T, int kTile, int kVector>
__device__ inline void
fetch(const source<T> &s, int64_t k0, carried<T, kTile, kVector> &c)
{
#pragma unroll
    for (int i = 0; i < c.kCount; i++) {
        place at = place_of<kTile, kVector>(threadIdx.x + i * kThreads, s.along_k);
        int64_t k = k0 + at.k;
        const T *p = s.data + (s.along_k ? at.x * s.pitch + k : at.x + k * s.pitch);
        int64_t inside =
            s.along_k ? (at.x < s.size ? s.depth - k : 0) : (k < s.depth ? s.size - at.x : 0);
        if (inside >= kVector) {
            c.held[i] = load_pack<T, kVector>(p);
            continue;
        }
#pragma unroll
        for (int lane = 0; lane < kVector; lane++) {
            c.held[i].lane[lane] = lane < inside ? p[lane] : of_f32<T>(0.0f);
        }
    }
}

template <typename T, int kTile, int kVector>
__device__ inline void
put(const carried<T, kTile, kVector> &c, bool along_k, slab<kTile> &to)
{
#pragma unroll
    for (int i = 0; i < c.kCount; i++) {
        place at = place_of<kTile, kVector>(threadIdx.x + i * kThreads, along_k);
        if (along_k) {
#pragma unroll
            for (int lane = 0; lane < kVector; lane++) {
                to.rows[at.k + lane][at.x] = to_f32(c.held[i].lane[lane]);
            }
        } else {
            pack<float, kVector> x;
#pragma unroll
            for (int lane = 0; lane < kVector; lane++) {
                x.lane[lane] = to_f32(c.held[i].lane[lane]);
            }
            store_pack(&to.rows[at.k][at.x], x);
        }
    }
}

// kVector > 1 requires every vector of a and b to lie on its own size: `aligned` says so. Two
// blocks a multiprocessor where 128 registers a thread do; the addresses of single elements need
// more (H200, 4095^3 in f32: 5.0 ms with one block, 9.1 ms with two that spill).
template <typename T, int kTileM, int kTileN, int kVector>
__global__ void
__launch_bounds__(kThreads, kVector > 1 ? 2 : 1) simt(const __grid_constant__ problem<T> p)
{
    using mine = share<kTileM, kTileN>;
    __shared__ slab<kTileM> a[2];
    __shared__ slab<kTileN> b[2];
    job<T> j = job_of<kTileM, kTileN>(p);
    source<T> from_a = {
        j.a + j.m * (p.a_along_k ? p.a_pitch : 1), p.a_pitch, p.M - j.m, p.K, p.a_along_k};
    source<T> from_b = {
        j.b + j.n * (p.b_along_k ? p.b_pitch : 1), p.b_pitch, p.N - j.n, p.K, p.b_along_k};

    float sums[mine::kM][mine::kN] = {};
    carried<T, kTileM, kVector> next_a;
    carried<T, kTileN, kVector> next_b;
    if (p.K > 0) {
        fetch(from_a, 0, next_a);
        fetch(from_b, 0, next_b);
        put(next_a, p.a_along_k, a[0]);
        put(next_b, p.b_along_k, b[0]);
    }
    __syncthreads();

    int now = 0;
    for (int64_t k = 0; k < p.K; k += kSlab) {
        bool more = k + kSlab < p.K;
        if (more) {
            fetch(from_a, k + kSlab, next_a);
            fetch(from_b, k + kSlab, next_b);
        }
        multiply<kTileM, kTileN>(a[now], b[now], sums);
        if (more) {
            put(next_a, p.a_along_k, a[now ^ 1]);
            put(next_b, p.b_along_k, b[now ^ 1]);
        }
        __syncthreads();
        now ^= 1;
    }
    store<kTileM, kTileN>(p, j, sums);
}

template <typename T, int kTile, int kVector>
aicf_status
launch_tile(const problem<T> &p, aicf_stream stream)
{
    return launch_tiles(simt<T, kTile, kTile, kVector>, p, kTile, kTile, kThreads, 0, stream);
}

template <typename T>
aicf_status
launch_simt(const problem<T> &p, aicf_stream stream)
{
    if (is_thin(p)) {
        if constexpr (sizeof(T) == 2) { // f32 has the same in fma.cuh
            if (takes_quick(p)) {
                return launch_quick(p, stream);
            }
        }
        return launch_thin(p, stream);
    }
    // Aligned 16-bit operands take the matrix units on every arch that has them: no vectors here.
    if constexpr (sizeof(T) == 4) {
        if (aligned(p.a, p.a_pitch, p.a_batch, p.batch_rank, kQuad) &&
            aligned(p.b, p.b_pitch, p.b_batch, p.batch_rank, kQuad)) {
            return fills_large_tiles(p) ? launch_tile<T, 128, kQuad>(p, stream)
                                        : launch_tile<T, 64, kQuad>(p, stream);
        }
    }
    return fills_large_tiles(p) ? launch_tile<T, 128, 1>(p, stream)
                                : launch_tile<T, 64, 1>(p, stream);
}

} // namespace aicf::gemm

#define LAUNCHER(T, suffix)                                                                      \
    aicf_status aicf_cuda_gemm_simt_##suffix(                                                    \
        const aicf_view *a, const aicf_view *b, const T *bias, const aicf_view *c,               \
        const aicf_view *out, int64_t, int64_t M, int64_t K, int64_t, int64_t N, double alpha,   \
        double beta, aicf_gemm_act act, aicf_gemm_precision, aicf_stream stream)                 \
    {                                                                                            \
        return aicf::gemm::launch_simt(                                                          \
            aicf::gemm::problem_of(a, b, aicf::device(bias), c, out, M, K, N, alpha, beta, act), \
            stream);                                                                             \
    }

LAUNCHER(float, f32)
LAUNCHER(aicf_f16, f16)
LAUNCHER(aicf_bf16, bf16)
