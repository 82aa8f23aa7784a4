// gemm_i8 on the matrix units of sm_80 and later, by mma.sync m16n8k32 (see gemm_i8.cuh). Any M, N
// and K above 0.
//
// Tiles of mma.cuh of pairs of bytes: k is counted in pairs. Bound by the matrix
// units, of which mma.sync reaches about two thirds on sm_90.

// Before mma.cuh, whose products find their instruction by the type of the elements.
#include <aicf/cuda/ptx_i8.cuh>

#include "gemm_i8.cuh"

#include "../gemm/gemm.cuh"

#include <aicf/cuda/mma_slabs.cuh>

namespace aicf::gemm_i8 {

using namespace i8;
using namespace units;

// The eight columns of the out that a lane finishes.
struct eight_columns {
    column of[kChunk];
    int64_t n, inside; // the first one, and how many there are from it on

    __device__ eight_columns(const product &p, int64_t n) : of(), n(n), inside(p.b.lines - n)
    {
#pragma unroll
        for (int i = 0; i < kChunk; i++) {
            if (i < inside) {
                of[i] = column_of(p.requant, n + i, p.shifts ? p.shifts[n + i] : 0);
            }
        }
    }
};

// `m` and `n` are the part's first row and column of the out.
template <typename S>
__device__ inline void
store_sums(const product &p, int64_t m, int64_t n, const float *staged)
{
    constexpr int kChunks = S::kN / kChunk;
    constexpr int kRows = kWarp / kChunks; // that a warp stores at once
    static_assert(kWarp % kChunks == 0 && S::kM % kRows == 0, "a lane's columns stay");
    int lane = static_cast<int>(threadIdx.x) % kWarp;
    int at = lane % kChunks * kChunk;
    int rows = p.a.lines - m < S::kM ? static_cast<int>(p.a.lines - m) : S::kM;
    if (n + at >= p.b.lines) {
        return;
    }
    eight_columns mine(p, n + at);
    epilogue e(p.requant);
#pragma unroll 1
    for (int row = lane / kChunks; row < rows; row += kRows) {
        pack<int, 4> low, high;
        low = load_pack<int, 4>(reinterpret_cast<const int *>(staged) + row * S::kPitchOut + at);
        high =
            load_pack<int, 4>(reinterpret_cast<const int *>(staged) + row * S::kPitchOut + at + 4);
        word x[kChunk];
#pragma unroll
        for (int i = 0; i < kChunk; i++) {
            x[i] = finish(e, mine.of[i], i < 4 ? low.lane[i % 4] : high.lane[i % 4]);
        }
        int64_t out = (m + row) * p.out_pitch + n + at;
        if (p.vectors) {
            store_eight(p.requant.kind, p.out, out, x);
            continue;
        }
#pragma unroll
        for (int i = 0; i < kChunk; i++) {
            if (i < mine.inside) {
                store(p.requant.kind, p.out, out + i, x[i]);
            }
        }
    }
}

// Pair: of a; pairs of b have the same bits as any.
template <typename Pair, typename S>
__global__ void
__launch_bounds__(S::kThreads, S::kBlocks)
    mma(const __grid_constant__ gemm::problem<Pair> p, const __grid_constant__ product to)
{
    extern __shared__ __align__(128) uint8_t shared[];
    gemm::job<Pair> j = gemm::job_of<S::kTileM, S::kTileN>(p);
    int warp = static_cast<int>(threadIdx.x) / kWarp;
    int m = warp / S::kWarpsN * S::kM, n = warp % S::kWarpsN * S::kN;
    float sums[S::kM / 16][S::kN / 8][4] = {}; // the bits of integers

    source<Pair> a = {j.a + j.m * p.a_pitch, p.a_pitch, p.M - j.m, p.K};
    source<Pair> b = {j.b + j.n * p.b_pitch, p.b_pitch, p.N - j.n, p.K};
    uint32_t stages = ptx::shared_address(shared);
    tile_feed<Pair, S, true, true> in(a, b, stages);
    sum_slabs<Pair, S, true, true>(in, (p.K + S::kSlab - 1) / S::kSlab, stages, m, n, sums);

    float *staged = reinterpret_cast<float *>(shared) + warp * S::kM * S::kPitchOut;
    stage_sums<S>(sums, staged);
    __syncwarp();
    store_sums<S>(to, j.m + m, j.n + n, staged);
}

template <typename Pair, typename S>
aicf_status
launch_shape(const product &to, aicf_stream stream)
{
    gemm::problem<Pair> p = {};
    p.a = reinterpret_cast<const Pair *>(to.a.data);
    p.b = reinterpret_cast<const Pair *>(to.b.data);
    p.M = to.a.lines;
    p.N = to.b.lines;
    p.K = to.a.depth / 2;
    p.a_pitch = to.a.pitch / 2;
    p.b_pitch = to.b.pitch / 2;
    p.a_along_k = p.b_along_k = true;
    p.batches = 1;
    p.tiles_m = ceil_div(p.M, S::kTileM);
    p.tiles_n = ceil_div(p.N, S::kTileN);
    p.narrow = true; // of outs that memory holds there are fewer than 2^31 tiles
    aicf_status status = allow_shared(mma<Pair, S>, S::kShared);
    return status.kind ? status
                       : launch(
                             mma<Pair, S>, static_cast<unsigned>(p.tiles_m * p.tiles_n),
                             S::kThreads, S::kShared, stream, p, to);
}

// As gemm's: large tiles unless those would leave half of the machine idle.
using large = shape<128, 256, 32, 4, 2, 4>;
using small = shape<64, 64, 64, 6, 2, 2>;

template <typename Pair>
aicf_status
launch_pairs(const product &p, aicf_stream stream)
{
    bool fills = ceil_div(p.a.lines, large::kTileM) * ceil_div(p.b.lines, large::kTileN) >= 64;
    return fills ? launch_shape<Pair, large>(p, stream) : launch_shape<Pair, small>(p, stream);
}

inline aicf_status
run_mma(
    const aicf_view *a, const aicf_view *b, const aicf_view *out, int64_t M, int64_t K, int64_t N,
    const aicf_requant &r, void *workspace, aicf_stream stream)
{
    product p;
    aicf_status status = product_of<80>(a, b, out, M, K, N, r, workspace, stream, &p);
    if (status.kind) {
        return status;
    }
    return r.signed_in ? launch_pairs<pair_i8>(p, stream) : launch_pairs<pair_u8>(p, stream);
}

} // namespace aicf::gemm_i8

#define LAUNCHER(...) AICF_GEMM_I8_LAUNCHER(mma, aicf::gemm_i8::run_mma, __VA_ARGS__)

AICF_REQUANTS(LAUNCHER)
