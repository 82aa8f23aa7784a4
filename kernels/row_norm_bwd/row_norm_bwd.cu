// layer_norm_bwd and rms_norm_bwd (cuda) where a row fits into a block, and streamed where it fits
// nowhere: see row_norm_bwd.cuh.
#include "row_norm_bwd.cuh"

namespace aicf::AICF_OP {

// As rows::begin(), and has what a team reads first come to the L2 meanwhile.
template <typename T>
__device__ inline void
begin(const operands<T> &p, const place &at)
{
    ptx::let_next_launch_begin();
    if (at.rank == 0 && at.team < p.L) {
        early::ask(p.gy + at.team * p.N, p.N);
        early::ask(p.x + at.team * p.N, p.N);
    }
    ptx::wait_for_launch_before();
}

// ---- rows of lanes ------------------------------------------------------------------------------

constexpr int kLanesBlock = 256;

// The teams of a block add up what they have; the block is one row of the workspace.
template <typename T, int kSize, int kUnits>
__global__ void
__launch_bounds__(kLanesBlock, kSize *kUnits <= kColumns ? 2 : 1) lanes(const operands<T> p)
{
    constexpr int kPitch = kLanesBlock + rows::kWarp / kSize; // columns side by side: no conflicts
    __shared__ float room[kSize * kUnits * kPitch];
    rows::lanes_team team = {p.width};
    place at = columns::place_in(team);
    sums<kSize, kUnits> s;
    begin(p, at);
    over_rows(p, team, at, s);
    if (!p.partial) {
        return;
    }
    int shift = p.width == rows::kWarp ? 5 : 4;
    for (int kind = 0; kind < kKinds; kind++) {
        __syncthreads();
#pragma unroll
        for (int i = 0; i < kSize * kUnits; i++) {
            const auto &sum = kind == 0 ? s.gw : s.gb;
            room[i * kPitch + static_cast<int>(threadIdx.x)] = sum[i / kSize][i % kSize];
        }
        __syncthreads();
        float *to = p.partial + (blockIdx.x * int64_t{kKinds} + kind) * p.N;
        for (int column = static_cast<int>(threadIdx.x); column < p.N; column += kLanesBlock) {
            int u = column / kSize, i = (u >> shift) * kSize + column % kSize;
            float sum = 0.0f;
            for (int from = u & (p.width - 1); from < kLanesBlock; from += p.width) {
                sum += room[i * kPitch + from];
            }
            to[column] = sum;
        }
    }
}

template <typename T, int kSize, int kUnits>
aicf_status
launch_lanes(operands<T> p, const wanted<T> &out, aicf_stream stream)
{
    p.width = p.N <= kSize * kUnits * rows::kWarp / 2 ? rows::kWarp / 2 : rows::kWarp;
    int64_t blocks = ceil_div(p.L, kLanesBlock / p.width), most = most_teams(p.L, p.N);
    blocks = blocks < most ? blocks : most;
    most = 2 * columns::multiprocessors();
    blocks = blocks < most ? blocks : most;
    blocks = blocks < 1 ? 1 : blocks;
    return launch_both(p, out, blocks, stream, [&] {
        return launch_waiting(
            lanes<T, kSize, kUnits>, static_cast<unsigned>(blocks), kLanesBlock, 0, stream, p);
    });
}

// ---- rows of a block ----------------------------------------------------------------------------

template <typename T, int kSize>
__global__ void
__launch_bounds__(kMostThreads, 1) block(const operands<T> p)
{
    rows::block_team team;
    begin(p, columns::place_in(team));
    body<kSize, kColumns / kSize>(p, team);
}

template <typename T, int kSize>
aicf_status
launch_block(operands<T> p, const wanted<T> &out, aicf_stream stream)
{
    int threads = static_cast<int>(ceil_div(ceil_div(p.N, kColumns), rows::kWarp)) * rows::kWarp;
    int64_t most = most_teams(p.L, p.N);
    int64_t blocks = columns::multiprocessors() * (kMostThreads / threads);
    blocks = blocks < most ? blocks : most;
    return launch_both(p, out, blocks, stream, [&] {
        return launch_waiting(
            block<T, kSize>, static_cast<unsigned>(blocks), static_cast<unsigned>(threads), 0,
            stream, p);
    });
}

template <typename T>
aicf_status
run_held(const operands<T> &p, const wanted<T> &out, aicf_stream stream)
{
    constexpr int kSize = kPackSize<T>, kWide = 32 / kSize;
    if (packed(p)) {
        int64_t units = ceil_div(p.N, kSize * rows::kWarp);
        if (units <= 1) {
            return launch_lanes<T, kSize, 1>(p, out, stream);
        }
        if (units <= 2) {
            return launch_lanes<T, kSize, 2>(p, out, stream);
        }
        if (units <= kWide && p.L <= 2 * columns::multiprocessors() * (kLanesBlock / rows::kWarp)) {
            return launch_lanes<T, kSize, kWide>(p, out, stream);
        }
        return launch_block<T, kSize>(p, out, stream);
    }
    if (p.N <= 4 * rows::kWarp) {
        return launch_lanes<T, 1, 4>(p, out, stream);
    }
    return launch_block<T, 1>(p, out, stream);
}

// ---- rows of any length -------------------------------------------------------------------------

constexpr int kStreamBlock = 512;
constexpr int kAhead = 4;

// gx alone, a block a row.
template <typename T>
__global__ void
__launch_bounds__(kStreamBlock) stream_rows(const operands<T> p)
{
    const T *gy = p.gy + blockIdx.x * p.N, *x = p.x + blockIdx.x * p.N;
    T *gx = p.gx + blockIdx.x * p.N;
    const T *const from[2] = {gy, x};
    float mean = kCentred ? p.mean[blockIdx.x] : 0.0f, rstd = p.rstd[blockIdx.x];
    int rank = static_cast<int>(threadIdx.x);
    auto weight = [&](int64_t i) { return p.weight ? to_f32(p.weight[i]) : 1.0f; };

    float sum[1][2] = {};
    rows::stream<kAhead>(from, 0, p.N, rank, kStreamBlock, [&](int64_t i, const auto &v) {
        constexpr int kSize = static_cast<int>(sizeof(v[0]) / sizeof(float));
#pragma unroll
        for (int lane = 0; lane < kSize; lane++) {
            float q = v[0][lane] * weight(i + lane);
            sum[0][0] += q;
            sum[0][1] += q * ((v[1][lane] - mean) * rstd);
        }
    });
    rows::block_team team;
    team.reduce(sum, rows::add{});

    float share = 1.0f / static_cast<float>(p.N);
    float first = kCentred ? sum[0][0] * share : 0.0f, second = sum[0][1] * share;
    bool even = rows::same_phase(gy, static_cast<const T *>(gx));
    rows::stream<kAhead>(from, 0, p.N, rank, kStreamBlock, [&](int64_t i, const auto &v) {
        constexpr int kSize = static_cast<int>(sizeof(v[0]) / sizeof(float));
        float y[kSize];
#pragma unroll
        for (int lane = 0; lane < kSize; lane++) {
            float h = (v[1][lane] - mean) * rstd;
            y[lane] = rstd * (v[0][lane] * weight(i + lane) - first - h * second);
        }
        rows::store_values(gx + i, even, y);
    });
}

// gw and gb: a thread a column, over every teams-th row.
template <typename T>
__global__ void
__launch_bounds__(kStreamBlock) stream_columns(const operands<T> p, int64_t teams)
{
    int64_t tiles = (p.N + kStreamBlock - 1) / kStreamBlock;
    int64_t column = blockIdx.x % tiles * kStreamBlock + threadIdx.x;
    int64_t team = blockIdx.x / tiles;
    float gw = 0.0f, gb = 0.0f;
    if (column >= p.N) {
        return;
    }
#pragma unroll 4
    for (int64_t r = team; r < p.L; r += teams) {
        float mean = kCentred ? p.mean[r] : 0.0f;
        float gy = to_f32(p.gy[r * p.N + column]), x = to_f32(p.x[r * p.N + column]);
        gw += gy * ((x - mean) * p.rstd[r]);
        gb += gy;
    }
    p.partial[team * kKinds * p.N + column] = gw;
    if (kCentred) {
        p.partial[(team * kKinds + 1) * p.N + column] = gb;
    }
}

// gw and gb first: gx may be gy.
template <typename T>
aicf_status
run_stream(const operands<T> &p, const wanted<T> &out, aicf_stream stream)
{
    int64_t teams = most_teams(p.L, p.N), blocks = teams * ceil_div(p.N, kStreamBlock);
    aicf_status status = aicf_ok();
    if (blocks > kMostBlocks || p.L > kMostBlocks) {
        return status_of(cudaErrorInvalidConfiguration);
    }
    if (p.partial) {
        status = launch_both(p, out, teams, stream, [&] {
            return aicf::launch(
                stream_columns<T>, static_cast<unsigned>(blocks), kStreamBlock, 0, stream, p,
                teams);
        });
    }
    if (status.kind || !p.gx || p.L == 0) {
        return status;
    }
    return aicf::launch(stream_rows<T>, static_cast<unsigned>(p.L), kStreamBlock, 0, stream, p);
}

} // namespace aicf::AICF_OP

AICF_ROW_NORM_BWD_LAUNCHERS(held, aicf::AICF_OP::run_held)
AICF_ROW_NORM_BWD_LAUNCHERS(stream, aicf::AICF_OP::run_stream)
