// layer_norm and rms_norm (cuda) where a row fits into a block, and streamed where it fits nowhere:
// see row_norm.cuh.
#include "row_norm.cuh"

namespace aicf::AICF_OP {

AICF_ROWS_KERNELS(operands, kMostPacks)

// ---- rows of blocks that stay -------------------------------------------------------------------

// Twice the elements in the same bytes, with two reductions a row: there loads that run ahead pay
// (H200, 65536 x 1024: 0.73 of the copy rate without, in f32 0.98), where blocks have several rows.
constexpr int64_t kLeastStaying = 4096;

template <typename T>
__global__ void
__launch_bounds__(columns::kMostThreads, 1) stay(const operands<T> p)
{
    columns::block_team team;
    stay_body<even_row<T>>(p, team);
}

template <typename T>
aicf_status
launch_stay(const operands<T> &p, aicf_stream stream)
{
    int64_t threads = ceil_div(p.shape.n, kPackSize<T> * kStayPacks);
    threads = ceil_div(threads, rows::kWarp) * rows::kWarp;
    int64_t blocks = columns::kMachine * (threads > kStayThreads / 2 ? 1 : kStayThreads / threads);
    blocks = blocks < p.shape.count ? blocks : p.shape.count;
    return aicf::launch(
        stay<T>, static_cast<unsigned>(blocks), static_cast<unsigned>(threads), 0, stream, p);
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
    terms t;
    float sums[1][2];

    do {
        if (kCentred) {
            float sum[1][1] = {};
            pass(row, N, [&](int64_t, const auto &x) {
                for (float v : x) {
                    sum[0][0] += v * t.scale;
                }
            });
            team.reduce(sum, rows::add{});
            t.mean = sum[0][0] / static_cast<float>(N);
        }
        sums[0][0] = sums[0][1] = 0.0f;
        pass(row, N, [&](int64_t, const auto &x) {
            for (float v : x) {
                float d = t.deviation(v);
                sums[0][0] += d;
                sums[0][1] += d * d;
            }
        });
        team.reduce(sums, rows::add{});
        t.settle(sums[0], static_cast<float>(N), p.eps);
    } while (t.overflowed());

    bool packed = rows::same_phase(row, static_cast<const T *>(out)), even = even_with(p, row);
    pass(row, N, [&](int64_t i, const auto &x) { write(p, out, i, packed, even, t, x); });
    if (threadIdx.x == 0) {
        t.save(p, blockIdx.x);
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
    if constexpr (kCentred && sizeof(T) == 2) {
        if (packed(p) && N > kPackSize<T> * rows::kWarp && L >= kLeastStaying) {
            return launch_stay(p, stream);
        }
    }
    return rows::launch(kernels_of<T>(), p, stream);
}

} // namespace aicf::AICF_OP

AICF_ROW_NORM_LAUNCHERS(held, aicf::AICF_OP::run_held)
AICF_ROW_NORM_LAUNCHERS(stream, aicf::AICF_OP::run_stream)
