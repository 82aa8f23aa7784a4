// conv2d_i8 on the matrix units of sm_80 and later, by mma.sync m16n8k32: dense tensors, channels
// innermost, outputs of a group in eights (see aicf/cuda/fields_i8.cuh and conv_mma.cuh, whose
// slabs of pairs of channels these are). Bound by the matrix units, where windows are of one
// element by bytes.

// Before conv_mma.cuh, whose products find their instruction by the type of the elements.
#include <aicf/cuda/ptx_i8.cuh>

#define AICF_OP conv2d_i8
#include <aicf_ops/conv2d_i8.h>

#include <aicf/cuda/conv_mma.cuh>
#include <aicf/cuda/fields_i8.cuh>

namespace aicf::conv2d_i8 {

using namespace i8;

// Where outs go, and what becomes of them.
struct destination {
    void *data;
    const int *shifts; // NULL: none
    aicf_requant requant;
};

// `m` and `n` are the part's first place and output in the group.
template <typename S, typename Pair>
__device__ inline void
store_requantised(
    const problem<Pair> &p, const place_walk &places, const job &j, int64_t m, int64_t n,
    const float *staged, const destination &to)
{
    constexpr int kChunks = S::kN / kChunk, kRows = kWarp / kChunks;
    static_assert(kWarp % kChunks == 0 && S::kM % kRows == 0, "a lane's columns stay");
    int lane = static_cast<int>(threadIdx.x) % kWarp;
    int at = lane % kChunks * kChunk;
    if (n + at >= p.N) {
        return;
    }
    int64_t output = j.group * p.N + n + at;
    column columns[kChunk];
#pragma unroll
    for (int i = 0; i < kChunk; i++) {
        columns[i] = column_of(to.requant, output + i, to.shifts ? to.shifts[output + i] : 0);
    }
    epilogue e(to.requant);
    int rows = p.M - m < S::kM ? static_cast<int>(p.M - m) : S::kM;
#pragma unroll 1
    for (int row = lane / kChunks; row < rows; row += kRows) {
        const int *sums = reinterpret_cast<const int *>(staged) + row * S::kPitchOut + at;
        pack<int, 4> low = load_pack<int, 4>(sums), high = load_pack<int, 4>(sums + 4);
        word x[kChunk];
#pragma unroll
        for (int i = 0; i < kChunk; i++) {
            x[i] = finish(e, columns[i], i < 4 ? low.lane[i % 4] : high.lane[i % 4]);
        }
        int64_t where = static_cast<int64_t>(places.in_out(m + row)) * kChunk;
        store_eight(to.requant.kind, to.data, where + output, x);
    }
}

template <typename Pair, typename S>
__global__ void
__launch_bounds__(S::kThreads, S::kBlocks) products(
    const __grid_constant__ problem<Pair> p, const __grid_constant__ walks w,
    const __grid_constant__ destination to)
{
    using op = forward_op<Pair, S>;
    extern __shared__ __align__(128) uint8_t shared[];
    job j = job_of<S::kTileM, S::kTileN>(p);
    int warp = static_cast<int>(threadIdx.x) / kWarp;
    int m = warp / S::kWarpsN * S::kM, n = warp % S::kWarpsN * S::kN;
    float sums[S::kM / 16][S::kN / 8][4] = {}; // the bits of integers

    uint32_t stages = ptx::shared_address(shared);
    typename op::slabs in(p, w, j, stages);
    units::sum_slabs<Pair, S, true, true>(
        in, (j.end - j.k + S::kSlab - 1) / S::kSlab, stages, m, n, sums);

    float *staged = reinterpret_cast<float *>(shared) + warp * S::kM * S::kPitchOut;
    units::stage_sums<S>(sums, staged);
    __syncwarp();
    store_requantised<S>(p, w.places, j, j.m + m, j.n + n, staged, to);
}

template <typename S, typename Pair>
aicf_status
launch_shape(const problem<Pair> &p, const destination &to, aicf_stream stream)
{
    aicf_status status = allow_shared(products<Pair, S>, S::kShared);
    return status.kind ? status
                       : launch_tiles(
                             products<Pair, S>, p, S::kTileM, S::kTileN, S::kThreads, S::kShared,
                             stream, walks_of(p), to);
}

// The shapes of conv_mma.cuh, chosen as there.
template <typename Pair>
aicf_status
launch_pairs(const aicf_conv &c, const destination &to, aicf_stream stream)
{
    problem<Pair> p = problem_of<Pair>(c, false);
    auto tiles = [&](int64_t places, int64_t outputs) {
        return ceil_div(p.M, places) * ceil_div(p.N, outputs) * p.groups;
    };
    constexpr int64_t kFull = 128;
    if (p.N > 64 && p.M > 64 && tiles(128, 128) >= kFull) {
        return launch_shape<square>(p, to, stream);
    }
    if (p.M > 128 && tiles(256, 64) >= kFull) {
        return launch_shape<tall>(p, to, stream);
    }
    return launch_shape<small>(p, to, stream);
}

inline aicf_status
run_igemm(aicf_conv c, const aicf_requant &r, void *workspace, aicf_stream stream)
{
    destination to = {c.out, nullptr, r};
    aicf_status status = take_field<80>(c, r, workspace, &to.shifts, stream);
    if (status.kind) {
        return status;
    }
    return r.signed_in ? launch_pairs<pair_i8>(c, to, stream)
                       : launch_pairs<pair_u8>(c, to, stream);
}

} // namespace aicf::conv2d_i8

#define LAUNCHER(...) AICF_CONV2D_I8_LAUNCHER(igemm, aicf::conv2d_i8::run_igemm, __VA_ARGS__)

AICF_REQUANTS(LAUNCHER)
