// layer_norm and rms_norm (cuda) where a row fits into a block, and streamed where it fits nowhere:
// see row_norm.cuh.
#include "row_norm.cuh"

namespace aicf::AICF_OP {

AICF_ROWS_ALL_KERNELS(operands, kMostPacks)

// ---- rows that fill their blocks ----------------------------------------------------------------

template <typename T>
__global__ void
__launch_bounds__(rows::kBlockPacks / kMostPacks, rows::kThreads *kMostPacks / rows::kBlockPacks)
    whole_block(const operands<T> p)
{
    whole_block_team team;
    rows::begin();
    body<kMostPacks, 1>(p, team);
}

// ---- rows of any length -------------------------------------------------------------------------

constexpr int kStreamBlock = 512;
constexpr int kAhead = 4;

// Calls f(i, x) for what this thread has of a row of N elements.
template <typename T, typename Function>
__device__ inline void
pass(const T *row, int64_t N, Function f)
{
    const T *const from[1] = {row};
    rows::stream<kAhead>(
        from, 0, N, static_cast<int>(threadIdx.x), kStreamBlock,
        [&](int64_t i, const auto &x) { f(i, x[0]); });
}

// A block a row.
template <typename T>
__global__ void
__launch_bounds__(kStreamBlock) stream(const operands<T> p, int64_t N)
{
    const T *row = p.x + blockIdx.x * N;
    T *out = p.out + blockIdx.x * N;
    rows::block_team team;
    terms t[1];
    bool moved = false;

    if (kCentred && N > 0) {
        float seen[1][1] = {{to_f32(look(row, N))}};
        begin_near<T>(seen, t);
    }
    do {
        float sums[1][2] = {};
        pass(row, N, [&](int64_t, const auto &x) {
            for (float v : x) {
                float d = kCentred ? t[0].deviation(v) : v * t[0].scale;
                sums[0][0] += d;
                sums[0][1] += d * d;
            }
        });
        team.reduce(sums, rows::add{});
        t[0].template settle<T>(sums[0], p.share, p.eps);
    } while (t[0].again(moved));

    bool packed = rows::same_phase(row, static_cast<const T *>(out));
    pass(row, N, [&](int64_t i, const auto &x) {
        float y[sizeof(x) / sizeof(float)];
        normalise(t[0], x, y);
        weigh(p, i, N, y);
        rows::store_values(out + i, packed, y);
    });
    if (threadIdx.x == 0) {
        t[0].save(p, blockIdx.x);
    }
}

template <typename T>
aicf_status
run_stream(operands<T> p, int64_t L, int64_t N, aicf_stream stream)
{
    if (L == 0) {
        return aicf_ok();
    }
    if (L > kMostBlocks) {
        return status_of(cudaErrorInvalidConfiguration);
    }
    return aicf::launch(
        AICF_OP::stream<T>, static_cast<unsigned>(L), kStreamBlock, 0, stream, p, N);
}

template <typename T>
aicf_status
run_held(operands<T> p, int64_t L, int64_t N, aicf_stream stream)
{
    if (N == 0) { // statistics of nothing, NaN, where they are asked for
        return run_stream(p, L, N, stream);
    }
    int64_t packs = N / kPackSize<T>, threads = packs / kMostPacks;
    bool whole = filled(p, N);
    if constexpr (sizeof(T) == 2) { // f32 has the time for branches, and keeps more on its way
        if (whole && threads >= rows::kWarp && packs % (kMostPacks * rows::kWarp) == 0 &&
            L <= kMostBlocks) {
            return launch_waiting(
                whole_block<T>, static_cast<unsigned>(L), static_cast<unsigned>(threads), 0, stream,
                p);
        }
    }
    return rows::launch(all_kernels_of<T>(), p, stream, whole);
}

} // namespace aicf::AICF_OP

AICF_ROW_NORM_LAUNCHERS(held, aicf::AICF_OP::run_held)
AICF_ROW_NORM_LAUNCHERS(stream, aicf::AICF_OP::run_stream)
