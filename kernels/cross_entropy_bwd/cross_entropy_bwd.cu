// Gradient of cross entropy by its logits [N, C, R] (cuda), f32, f16 and bf16, computed in f32 from
// lse and divisor as cross_entropy gives them; targets i64 or i32. gx may be exactly logits. Bound
// by bytes.
//
//   lanes_per_row  R = 1 and few classes: a row in the registers of up to a warp
//   parts_of_rows  R = 1 and many: a block has a part of a row
//   columns        R > 1: threads side by side along R and, in turns, along a part of C
//
// Where there are label smoothing and weights, `weigh` sums the weights into the workspace first.
#include <aicf_ops/cross_entropy_bwd.h>

#include "../cross_entropy/cross_entropy.cuh"

namespace aicf::cross_entropy_bwd {

using cross_entropy::rules;

constexpr int kBlock = 256;
constexpr int kLanesPacks = 4;          // of a row, that a lane holds at most
constexpr int kPartPacks = 4;           // of a part of a row, that a thread of its block holds
constexpr int64_t kPart = 8192;         // classes of a column that a block does
constexpr int64_t kMostInRow = 1 << 30; // classes that are counted in 32 bits

template <typename T> struct operands {
    const T *logits, *gy;
    T *gx;
    const float *lse, *divisor;
    const float *weights; // their sum, or NULL: it is C
    rules<T> rule;
    int64_t lines, R;
    bool each;             // gy has a value a line
    bool divided;          // by the divisor
    int team;              // of lanes, or threads along R: a power of two
    int64_t tiles;         // of columns along R
    int64_t splits, share; // parts of a line, and classes, of `parts_of_rows` packs, of each
    bool phased;           // whether rows begin at several phases of a line of memory
};

// The gradient of one line: p is its softmax,
//     gx = g ((1 - s) w[t] (p - (c == t)) + s / C (p sum(w) - w[c])), s the smoothing.
// kSmooth: s may be above 0.
template <typename T, bool kSmooth = true> struct slope {
    const rules<T> &rule;
    float lse, at_target, by_p, by_weight;
    int64_t target;
    bool ignored;

    __device__ slope(const operands<T> &p, int64_t line) : rule(p.rule)
    {
        target = rule.target_of(line);
        ignored = target == rule.ignore_index;
        lse = p.lse[line];
        float g = to_f32(p.gy[p.each ? line : 0]);
        g = p.divided ? g / *p.divisor : g;
        float all = p.weights ? *p.weights : static_cast<float>(rule.C);
        at_target = g * (1.0f - rule.smoothing) * rule.weight_of_target(target);
        by_weight = g * rule.smoothing / static_cast<float>(rule.C);
        by_p = at_target + by_weight * all;
    }

    // Of a target that is no class all is NaN or 0, so that it may lose bits.
    template <typename Index> __device__ float operator()(Index c, float x) const
    {
        float hot = c == static_cast<Index>(target) ? at_target : 0.0f;
        float y = soft::exp(x - lse) * by_p - hot;
        if (kSmooth && rule.smoothing > 0) {
            y -= by_weight * rule.weight_of(c);
        }
        return ignored ? 0.0f : y;
    }
};

// ---- rows ---------------------------------------------------------------------------------------

template <typename T, int kPacks>
__global__ void
__launch_bounds__(rows::kLanesBlock) lanes_per_row(const operands<T> p)
{
    constexpr int kRows = rows::kRowsOf<kPacks>;
    rows::begin();
    rows::lanes_team team(p.team);
    rows::shape shape = {p.lines, static_cast<int>(p.rule.C), p.team};
    rows::held<T, kPacks> x[kRows];
    rows::span at[kRows];
#pragma unroll
    for (int r = 0; r < kRows; r++) {
        int64_t row = team.row(r, kRows);
        at[r] = team.span_of(p.logits, shape, row);
        rows::load(x[r], p.logits + row * shape.n, at[r]);
    }

    bool packed = rows::same_phase(p.logits, static_cast<const T *>(p.gx));
#pragma unroll
    for (int r = 0; r < kRows; r++) {
        int64_t row = team.row(r, kRows);
        if (row < p.lines) {
            slope<T> f(p, row);
            rows::store_at(p.gx + row * shape.n, at[r], packed, f, x[r]);
        }
    }
}

template <typename T, bool kSmooth>
__global__ void
__launch_bounds__(kBlock) parts_of_rows(const operands<T> p)
{
    rows::begin();
    int64_t row = blockIdx.x / p.splits;
    int rank = static_cast<int>(threadIdx.x), team = static_cast<int>(blockDim.x);
    rows::shape shape = {
        p.lines, static_cast<int>(p.rule.C), 0, p.phased, static_cast<int>(p.share)};
    const T *line = p.logits + row * p.rule.C;
    rows::span at = rows::span_of(line, shape, rank, team, static_cast<int>(blockIdx.x % p.splits));
    rows::held<T, kPartPacks> x;
    rows::load(x, line, at);
    slope<T, kSmooth> f(p, row); // behind the loads, which do not wait for it
    bool packed = rows::same_phase(p.logits, static_cast<const T *>(p.gx));
    rows::store_at(p.gx + row * p.rule.C, at, packed, f, x);
}

// ---- columns ------------------------------------------------------------------------------------

template <typename T>
__global__ void
__launch_bounds__(kBlock) columns(const operands<T> p)
{
    rows::begin();
    int64_t tile = blockIdx.x % p.tiles, part = blockIdx.x / p.tiles;
    int64_t n = part / p.splits, begin = part % p.splits * p.share;
    int64_t end = begin + p.share < p.rule.C ? begin + p.share : p.rule.C;
    int64_t r = tile * p.team + static_cast<int>(threadIdx.x) % p.team;
    int turn = static_cast<int>(threadIdx.x) / p.team, turns = kBlock / p.team;
    if (r >= p.R) {
        return;
    }
    const T *in[1] = {p.logits + n * p.rule.C * p.R + r};
    T *gx = p.gx + n * p.rule.C * p.R + r;
    slope<T> f(p, n * p.R + r);
    passes::for_column(in, p.R, begin + turn, end, turns, [&](int64_t c, const auto &x) {
#pragma unroll
        for (int k = 0; k < static_cast<int>(sizeof(x[0]) / sizeof(float)); k++) {
            gx[(c + k * turns) * p.R] = of_f32<T>(f(c + k * turns, x[0][k]));
        }
    });
}

// ---- weights ------------------------------------------------------------------------------------

template <typename T>
__global__ void
__launch_bounds__(kBlock) weigh(const T *weight, int64_t C, float *sum)
{
    float v[1][1] = {};
    rows::begin();
    for (int64_t c = threadIdx.x; c < C; c += kBlock) {
        v[0][0] += to_f32(weight[c]);
    }
    rows::block_team team;
    team.reduce(v, rows::add{});
    if (threadIdx.x == 0) {
        *sum = v[0][0];
    }
}

// ---- launches -----------------------------------------------------------------------------------

// Fills in `weights`.
template <typename T>
aicf_status
sum_weights(operands<T> *p, void *workspace, aicf_stream stream)
{
    if (!p->rule.weight || !(p->rule.smoothing > 0)) {
        return aicf_ok();
    }
    float *sum = static_cast<float *>(workspace);
    p->weights = sum;
    return launch_waiting(weigh<T>, 1, kBlock, 0, stream, p->rule.weight, p->rule.C, sum);
}

template <typename T>
aicf_status
launch_columns(operands<T> p, void *workspace, aicf_stream stream)
{
    aicf_status status = sum_weights(&p, workspace, stream);
    if (status.kind) {
        return status;
    }
    p.splits = ceil_div(p.rule.C, kPart);
    p.share = ceil_div(p.rule.C, p.splits);
    p.team = passes::width_for(p.rule.C, p.R);
    p.tiles = ceil_div(p.R, p.team);
    int64_t blocks = p.lines / p.R * p.splits * p.tiles;
    if (blocks > kMostBlocks) {
        return status_of(cudaErrorInvalidConfiguration);
    }
    return launch_waiting(columns<T>, static_cast<unsigned>(blocks), kBlock, 0, stream, p);
}

// Cuts rows into as many packs as a block holds, at the boundaries of lines of memory.
template <typename T>
void
split_rows(operands<T> *p, int64_t packs)
{
    constexpr int64_t kMost = kBlock * kPartPacks;
    p->phased = p->rule.C * static_cast<int64_t>(sizeof(T)) % rows::kLineBytes != 0;
    packs += p->phased ? rows::kLinePacks - 1 : 0;
    p->splits = ceil_div(packs, kMost);
    p->share = ceil_div(ceil_div(packs, p->splits), rows::kLinePacks) * rows::kLinePacks;
}

template <typename T>
aicf_status
launch_rows(operands<T> p, void *workspace, aicf_stream stream)
{
    if (p.rule.C > kMostInRow) {
        return launch_columns(p, workspace, stream);
    }
    void (*const kernels[])(operands<T>) = {
        lanes_per_row<T, 1>, lanes_per_row<T, 2>, lanes_per_row<T, kLanesPacks>};
    int64_t packs = p.rule.C / kPackSize<T>, blocks;
    aicf_status status = sum_weights(&p, workspace, stream);
    if (status.kind) {
        return status;
    }
    void (*kernel)(operands<T>);
    unsigned block;
    if (packs > rows::kWarp * kLanesPacks) {
        split_rows(&p, packs);
        kernel = p.rule.smoothing > 0 ? parts_of_rows<T, true> : parts_of_rows<T, false>;
        blocks = p.lines * p.splits;
        block = rows::threads_for(p.share, kPartPacks);
    } else {
        int power = rows::power_for(packs);
        kernel = kernels[power];
        p.team = rows::team_for(packs);
        int64_t threads = ceil_div(p.lines, power == 0 ? rows::kRowsOf<1> : 1) * p.team;
        block = static_cast<unsigned>(rows::lanes_block(threads));
        blocks = ceil_div(threads, block);
    }
    if (blocks > kMostBlocks) {
        return status_of(cudaErrorInvalidConfiguration);
    }
    if (packs <= rows::kWarp * kLanesPacks) { // early, they were slower (H200: 5.0 for 4.3 us)
        return aicf::launch(kernel, static_cast<unsigned>(blocks), block, 0, stream, p);
    }
    return launch_waiting(kernel, static_cast<unsigned>(blocks), block, 0, stream, p);
}

} // namespace aicf::cross_entropy_bwd

#define LAUNCHER(kernel, T, I, suffix)                                                            \
    aicf_status aicf_cuda_cross_entropy_bwd_##kernel##_##suffix(                                  \
        const T *gy, const T *logits, const I *target, const float *lse, const float *divisor,    \
        const T *weight, T *gx, int64_t N, int64_t R, int64_t C,                                  \
        aicf_cross_entropy_bwd_reduction reduction, int64_t ignore_index, double label_smoothing, \
        void *workspace, aicf_stream stream)                                                      \
    {                                                                                             \
        aicf::cross_entropy_bwd::operands<aicf::device_t<T>> p = {};                              \
        p.logits = aicf::device(logits);                                                          \
        p.gy = aicf::device(gy);                                                                  \
        p.gx = aicf::device(gx);                                                                  \
        p.lse = lse;                                                                              \
        p.divisor = divisor;                                                                      \
        p.rule = {target, sizeof(I) == 8, aicf::device(weight),                                   \
                  C,      ignore_index,   static_cast<float>(label_smoothing)};                   \
        p.lines = N * R;                                                                          \
        p.R = R;                                                                                  \
        p.each = reduction == AICF_CROSS_ENTROPY_BWD_REDUCTION_NONE;                              \
        p.divided = reduction == AICF_CROSS_ENTROPY_BWD_REDUCTION_MEAN;                           \
        return aicf::cross_entropy_bwd::launch_##kernel(p, workspace, stream);                    \
    }

#define LAUNCHERS(T, suffix)                    \
    LAUNCHER(rows, T, int64_t, suffix##_i64)    \
    LAUNCHER(rows, T, int32_t, suffix##_i32)    \
    LAUNCHER(columns, T, int64_t, suffix##_i64) \
    LAUNCHER(columns, T, int32_t, suffix##_i32)

LAUNCHERS(float, f32)
LAUNCHERS(aicf_f16, f16)
LAUNCHERS(aicf_bf16, bf16)
