// layer_norm_bwd and rms_norm_bwd over the rows of a dense matrix (cuda), f32, f16 and bf16,
// computed in f32. With h = (x - mean) * rstd and q = gy * weight,
//
//     gx = rstd * (q - mean of q over the row - h * mean of q * h over the row)
//     gw = gy * h, gb = gy, summed over rows
//
// of which rms_norm has neither mean nor gb. gx may be exactly gy; any addresses. Only what is
// wanted is computed. Bound by bytes: gy and x are read once.
//
// A team (lanes, a block, a cluster: aicf/cuda/rows.cuh) goes over every so-many-th row and holds
// one, the next one being on its way. Each thread has the same columns of all rows, and keeps their
// gw and gb in registers; what teams have of them goes to the workspace and is summed there by a
// second launch, in a fixed order: the same bits at every run.
#ifndef AICF_KERNELS_ROW_NORM_BWD_CUH
#define AICF_KERNELS_ROW_NORM_BWD_CUH

#define AICF_HEADER(op) <aicf_ops/op.h>
#include AICF_HEADER(AICF_OP)

#include <aicf/cuda/columns.cuh>

namespace aicf::AICF_OP {

using columns::place;

enum { layer_norm_bwd_centred = 1, rms_norm_bwd_centred = 0 };
#define AICF_CENTRED_OF(op) op##_centred
#define AICF_CENTRED(op) AICF_CENTRED_OF(op)
constexpr bool kCentred = AICF_CENTRED(AICF_OP);
constexpr int kKinds = kCentred ? 2 : 1; // of sums over rows: gw, gb

using columns::kMachine;
using columns::kMostThreads;             // at 128 registers each
constexpr int kColumns = columns::kMine; // 32 registers of sums
// Blocks of kMostThreads that fill the largest machines; what they hold of columns bounds the
// workspace, and so do its rows, of which a team has four at least. The rows' workspace expressions
// say the same.
constexpr int64_t kMostSums = kMachine * kMostThreads * kColumns;
constexpr int64_t kMostTeams = 1056;
constexpr int64_t kLeastRows = 4;

template <typename T> struct operands {
    const T *gy, *x, *weight; // weight may be NULL
    const float *mean, *rstd; // mean: of layer_norm alone
    T *gx;                    // may be NULL
    float *partial;           // [teams, kKinds, N], NULL: neither gw nor gb is wanted
    int64_t L;
    int64_t N;
    int width; // lanes of a row, of teams of lanes
};

// ---- rows ---------------------------------------------------------------------------------------

// A row, as far as a thread has it: the units rank, rank + size, ... below N / kSize.
template <typename T, int kSize, int kUnits> struct row {
    columns::unit<T, kSize> gy[kUnits], x[kUnits];
    float mean, rstd;

    __device__ void load(const operands<T> &p, const place &at, int64_t r)
    {
        int units = static_cast<int>(p.N / kSize);
        mean = kCentred ? p.mean[r] : 0.0f;
        rstd = p.rstd[r];
#pragma unroll
        for (int k = 0; k < kUnits; k++) {
            int u = at.rank + k * at.size;
            if (u < units) {
                gy[k].load(p.gy + r * p.N + int64_t{u} * kSize);
                x[k].load(p.x + r * p.N + int64_t{u} * kSize);
            }
        }
    }
};

// q and h of unit k; gy too.
template <typename T, int kSize, int kUnits>
__device__ inline void
values(
    const operands<T> &p, row<T, kSize, kUnits> &r, int k, int u, float (&gy)[kSize],
    float (&q)[kSize], float (&h)[kSize])
{
    float w[kSize];
    if (p.weight) {
        columns::coefficients(p.weight + int64_t{u} * kSize, true, w);
    }
    r.gy[k].unpack(gy);
    r.x[k].unpack(h);
#pragma unroll
    for (int lane = 0; lane < kSize; lane++) {
        q[lane] = p.weight ? gy[lane] * w[lane] : gy[lane];
        h[lane] = (h[lane] - r.mean) * r.rstd;
    }
}

template <int kSize, int kUnits> struct sums {
    float gw[kUnits][kSize] = {}, gb[kUnits][kSize] = {};
};

template <int kSize, int kUnits, typename T, typename Team>
__device__ inline void
over_rows(const operands<T> &p, Team &team, const place &at, sums<kSize, kUnits> &s)
{
    int units = static_cast<int>(p.N / kSize);
    float share = 1.0f / static_cast<float>(p.N);
    float gy[kSize], q[kSize], h[kSize];
    row<T, kSize, kUnits> now, next;

    if (at.team < p.L) {
        next.load(p, at, at.team);
    }
#pragma unroll 1
    for (int64_t base = 0; base < p.L; base += at.teams) {
        int64_t r = base + at.team;
        now = next;
        if (r + at.teams < p.L) {
            next.load(p, at, r + at.teams);
        }

        float sum[1][2] = {};
#pragma unroll
        for (int k = 0; k < kUnits; k++) {
            int u = at.rank + k * at.size;
            if (r < p.L && u < units) {
                values(p, now, k, u, gy, q, h);
#pragma unroll
                for (int lane = 0; lane < kSize; lane++) {
                    sum[0][0] += q[lane];
                    sum[0][1] += q[lane] * h[lane];
                    s.gw[k][lane] += gy[lane] * h[lane];
                    s.gb[k][lane] += gy[lane];
                }
            }
        }
        team.reduce(sum, rows::add{});

        float first = kCentred ? sum[0][0] * share : 0.0f, second = sum[0][1] * share;
#pragma unroll
        for (int k = 0; k < kUnits; k++) {
            int u = at.rank + k * at.size;
            if (p.gx && r < p.L && u < units) {
                values(p, now, k, u, gy, q, h);
#pragma unroll
                for (int lane = 0; lane < kSize; lane++) {
                    q[lane] = now.rstd * (q[lane] - first - h[lane] * second);
                }
                rows::store_values(p.gx + r * p.N + int64_t{u} * kSize, true, q);
            }
        }
    }
}

// To an address on a boundary of as many bytes, at most 16 at once: element by element, a warp's
// stores were 32 sectors each.
template <int kSize>
__device__ inline void
store_sums(float *to, const float (&sum)[kSize])
{
    if constexpr (kSize == 1) {
        *to = sum[0];
    } else {
#pragma unroll
        for (int lane = 0; lane < kSize; lane += 4) {
            *reinterpret_cast<float4 *>(to + lane) =
                make_float4(sum[lane], sum[lane + 1], sum[lane + 2], sum[lane + 3]);
        }
    }
}

// The body of teams of a block or more: what a team has goes to the workspace.
template <int kSize, int kUnits, typename T, typename Team>
__device__ inline void
body(const operands<T> &p, Team &team)
{
    place at = columns::place_in(team);
    sums<kSize, kUnits> s;
    over_rows(p, team, at, s);
    if (!p.partial) {
        return;
    }
    float *gw = p.partial + at.team * kKinds * p.N, *gb = gw + p.N;
#pragma unroll
    for (int k = 0; k < kUnits; k++) {
        int64_t u = at.rank + k * at.size;
        if (u < p.N / kSize) {
            store_sums(gw + u * kSize, s.gw[k]);
            if (kCentred) {
                store_sums(gb + u * kSize, s.gb[k]);
            }
        }
    }
}

// ---- sums of the teams --------------------------------------------------------------------------

constexpr int kAcross = 32, kDown = 32; // threads of a block along columns and along teams

// gw = the sum of partial[teams, 0, N], gb that of partial[teams, 1, N].
template <typename T>
__global__ void
__launch_bounds__(kAcross *kDown)
    combine(const float *partial, T *gw, T *gb, int64_t teams, int64_t N)
{
    __shared__ float room[kDown][kAcross + 1];
    int across = static_cast<int>(threadIdx.x) % kAcross;
    int down = static_cast<int>(threadIdx.x) / kAcross;
    int64_t column = blockIdx.x * int64_t{kAcross} + across;
    int64_t pitch = kKinds * N;

    rows::begin();
    float sum = 0.0f;
    if (column < pitch) {
#pragma unroll 4
        for (int64_t team = down; team < teams; team += kDown) {
            sum += partial[team * pitch + column];
        }
    }
    room[down][across] = sum;
    __syncthreads();
    float v[1][1] = {{room[across][down]}}; // a warp has one column now
    rows::reduce_lanes(v, kDown, rows::add{});
    column = blockIdx.x * int64_t{kAcross} + down;
    T *out = column < N ? gw : gb;
    if (across == 0 && column < pitch && out) {
        out[column % N] = of_f32<T>(v[0][0]);
    }
}

template <typename T>
aicf_status
launch_combine(const float *partial, T *gw, T *gb, int64_t teams, int64_t N, aicf_stream stream)
{
    unsigned blocks = static_cast<unsigned>(ceil_div(kKinds * N, kAcross));
    return launch_waiting(
        combine<T>, blocks, kAcross * kDown, 0, stream, partial, gw, gb, teams, N);
}

// ---- launches -----------------------------------------------------------------------------------

// How many teams the workspace has room for; that of `cluster` for so many times the columns.
constexpr int64_t kClusterSums = 2;

inline int64_t
most_teams(int64_t L, int64_t N, int64_t sums = 1)
{
    int64_t most = ceil_div(L, kLeastRows), room = sums * kMostSums / N;
    most = most < kMostTeams ? most : kMostTeams;
    most = most < room ? most : room;
    return most < 1 ? 1 : most;
}

// Whether each row of all tensors starts on a 16-byte boundary.
template <typename T>
bool
packed(const operands<T> &p)
{
    return p.N % kPackSize<T> == 0 && phase_of(p.gy) == 0 && phase_of(p.x) == 0 &&
           phase_of(p.gx) == 0 && phase_of(p.weight) == 0;
}

// What a launcher is given beside the operands.
template <typename T> struct wanted {
    T *gw, *gb; // each may be NULL
};

template <typename T>
operands<device_t<T>>
operands_of(
    const T *gy, const T *x, const float *mean, const float *rstd, const T *weight, T *gx,
    bool summed, int64_t L, int64_t N, void *workspace)
{
    float *partial = summed ? static_cast<float *>(workspace) : nullptr;
    return {device(gy), device(x), device(weight), mean, rstd, device(gx), partial, L, N, 0};
}

// The rows in `teams` teams by run(), then, where gw or gb is wanted, their sums.
template <typename T, typename Run>
aicf_status
launch_both(const operands<T> &p, const wanted<T> &out, int64_t teams, aicf_stream stream, Run run)
{
    aicf_status status = run();
    if (status.kind || !p.partial) {
        return status;
    }
    return launch_combine(p.partial, out.gw, out.gb, teams, p.N, stream);
}

} // namespace aicf::AICF_OP

#define AICF_LAUNCHER_NAME(op, kernel, suffix) aicf_cuda_##op##_##kernel##_##suffix
#define AICF_LAUNCHER_OF(op, kernel, suffix) AICF_LAUNCHER_NAME(op, kernel, suffix)

// Defines the launchers of a kernel by RUN(operands, wanted, stream).
#define AICF_layer_norm_bwd_LAUNCHER(kernel, T, suffix, RUN)                                      \
    aicf_status AICF_LAUNCHER_OF(AICF_OP, kernel, suffix)(                                        \
        const T *gy, const T *x, const float *mean, const float *rstd, const T *weight, T *gx,    \
        T *gw, T *gb, int64_t L, int64_t N, void *workspace, aicf_stream stream)                  \
    {                                                                                             \
        using D = aicf::device_t<T>;                                                              \
        aicf::AICF_OP::operands<D> p =                                                            \
            aicf::AICF_OP::operands_of(gy, x, mean, rstd, weight, gx, gw || gb, L, N, workspace); \
        return RUN(p, aicf::AICF_OP::wanted<D>{aicf::device(gw), aicf::device(gb)}, stream);      \
    }
#define AICF_rms_norm_bwd_LAUNCHER(kernel, T, suffix, RUN)                                        \
    aicf_status AICF_LAUNCHER_OF(AICF_OP, kernel, suffix)(                                        \
        const T *gy, const T *x, const float *rstd, const T *weight, T *gx, T *gw, int64_t L,     \
        int64_t N, void *workspace, aicf_stream stream)                                           \
    {                                                                                             \
        using D = aicf::device_t<T>;                                                              \
        aicf::AICF_OP::operands<D> p =                                                            \
            aicf::AICF_OP::operands_of<T>(gy, x, nullptr, rstd, weight, gx, gw, L, N, workspace); \
        return RUN(p, aicf::AICF_OP::wanted<D>{aicf::device(gw), nullptr}, stream);               \
    }
#define AICF_LAUNCHER_FOR(op) AICF_##op##_LAUNCHER
#define AICF_LAUNCHER_BY(op) AICF_LAUNCHER_FOR(op)
#define AICF_ROW_NORM_BWD_LAUNCHERS(kernel, RUN)              \
    AICF_LAUNCHER_BY(AICF_OP)(kernel, float, f32, RUN)        \
        AICF_LAUNCHER_BY(AICF_OP)(kernel, aicf_f16, f16, RUN) \
            AICF_LAUNCHER_BY(AICF_OP)(kernel, aicf_bf16, bf16, RUN)

#endif
