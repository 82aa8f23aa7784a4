// gemm on CUDA without matrix units (see gemm.cuh for the operands): f32, and f16 and bf16 at any
// alignment and on any arch; accumulated in f32 by multiply-adds. Any M, N and K, 0 included.
//
// A block makes a tile of the out from k-slabs of a and b that lie in shared memory as f32, k
// outermost: the next slab is on its way to registers while the present one is multiplied. Bound by
// multiply-adds where M and N fill tiles.
#include "gemm.cuh"
#include "thin.cuh"

namespace aicf::gemm {

constexpr int kThreads = 256;
constexpr int kSlab = 16; // k
constexpr int kQuad = 4;  // elements that a thread reads from shared memory at once
// Two float4 more than a row would leave the columns that a k-contiguous operand stores into in the
// same banks; one quad keeps rows on 16 bytes and halves the conflicts.
constexpr int kPad = 4;

// Threads of a block over the tile: 2 x 4 warps of 8 x 4 lanes; each makes quads x quads of 4 x 4.
constexpr int kWarpsM = 2, kWarpsN = 4, kLanesM = 8, kLanesN = 4;
static_assert(kWarpsM * kWarpsN * kLanesM * kLanesN == kThreads, "every thread has its place");

template <int kTile> struct slab {
    float rows[kSlab][kTile + kPad];
};

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

// A thread's share of the tile: sums[i][j] is at row(i), column(j) of it.
template <int kTileM, int kTileN> struct share {
    static constexpr int kM = kTileM / (kWarpsM * kLanesM), kN = kTileN / (kWarpsN * kLanesN);
    static_assert(kM % kQuad == 0 && kN % kQuad == 0, "whole quads");

    __device__ static int row(int i)
    {
        int warp = threadIdx.x / 32 / kWarpsN, lane = threadIdx.x % 32 / kLanesN;
        return warp * (kTileM / kWarpsM) + i / kQuad * (kLanesM * kQuad) + lane * kQuad + i % kQuad;
    }

    __device__ static int column(int j)
    {
        int warp = threadIdx.x / 32 % kWarpsN, lane = threadIdx.x % kLanesN;
        return warp * (kTileN / kWarpsN) + j / kQuad * (kLanesN * kQuad) + lane * kQuad + j % kQuad;
    }
};

template <int kTileM, int kTileN, int kM, int kN>
__device__ inline void
multiply(const slab<kTileM> &a, const slab<kTileN> &b, float (&sums)[kM][kN])
{
    using mine = share<kTileM, kTileN>;
#pragma unroll
    for (int k = 0; k < kSlab; k++) {
        pack<float, kQuad> x[kM / kQuad], y[kN / kQuad];
#pragma unroll
        for (int i = 0; i < kM; i += kQuad) {
            x[i / kQuad] = load_pack<float, kQuad>(&a.rows[k][mine::row(i)]);
        }
#pragma unroll
        for (int j = 0; j < kN; j += kQuad) {
            y[j / kQuad] = load_pack<float, kQuad>(&b.rows[k][mine::column(j)]);
        }
#pragma unroll
        for (int i = 0; i < kM; i++) {
#pragma unroll
            for (int j = 0; j < kN; j++) {
                sums[i][j] += x[i / kQuad].lane[i % kQuad] * y[j / kQuad].lane[j % kQuad];
            }
        }
    }
}

template <int kTileM, int kTileN, typename T, int kM, int kN>
__device__ inline void
store(const problem<T> &p, const job<T> &j, const float (&sums)[kM][kN])
{
    using mine = share<kTileM, kTileN>;
    bool packed =
        (reinterpret_cast<uintptr_t>(j.out) | static_cast<uint64_t>(p.out_pitch) * sizeof(T)) %
            (kQuad * sizeof(T)) ==
        0;
#pragma unroll
    for (int i = 0; i < kM; i++) {
        int64_t m = j.m + mine::row(i);
        if (m >= p.M) {
            continue;
        }
        const T *c = row_of_c(p, j, m);
        T *out = j.out + m * p.out_pitch;
#pragma unroll
        for (int quad = 0; quad < kN; quad += kQuad) {
            int64_t n = j.n + mine::column(quad);
            pack<T, kQuad> x;
#pragma unroll
            for (int lane = 0; lane < kQuad; lane++) {
                if (n + lane < p.N) {
                    x.lane[lane] = of_f32<T>(finish(p, sums[i][quad + lane], c, n + lane));
                }
            }
            if (packed && n + kQuad <= p.N) {
                store_pack(out + n, x);
                continue;
            }
#pragma unroll
            for (int lane = 0; lane < kQuad; lane++) {
                if (n + lane < p.N) {
                    out[n + lane] = x.lane[lane];
                }
            }
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

// Whether all vectors of an operand lie on multiples of their size: the base, and every stride.
template <typename T>
bool
aligned(const T *data, int64_t pitch, const int64_t *batch, int rank, int vector)
{
    bool whole =
        reinterpret_cast<uintptr_t>(data) % (vector * sizeof(T)) == 0 && pitch % vector == 0;
    for (int dim = 0; dim < rank; dim++) {
        whole = whole && batch[dim] % vector == 0;
    }
    return whole;
}

template <typename T, int kTile, int kVector>
aicf_status
launch_tile(const problem<T> &p, aicf_stream stream)
{
    return launch_tiles(simt<T, kTile, kTile, kVector>, p, kTile, kTile, kThreads, 0, stream);
}

// Large tiles once they give every multiprocessor of a large machine about one.
template <typename T>
bool
fills_large_tiles(const problem<T> &p)
{
    return ceil_div(p.M, 128) * ceil_div(p.N, 128) * p.batches >= 128 && p.M > 64 && p.N > 64;
}

template <typename T>
aicf_status
launch_simt(const problem<T> &p, aicf_stream stream)
{
    if (is_thin(p)) {
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
        double beta, aicf_gemm_act act, aicf_stream stream)                                      \
    {                                                                                            \
        return aicf::gemm::launch_simt(                                                          \
            aicf::gemm::problem_of(a, b, aicf::device(bias), c, out, M, K, N, alpha, beta, act), \
            stream);                                                                             \
    }

LAUNCHER(float, f32)
LAUNCHER(aicf_f16, f16)
LAUNCHER(aicf_bf16, bf16)
