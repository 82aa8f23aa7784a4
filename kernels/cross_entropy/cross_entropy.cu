// Cross entropy of logits [N, C, R] and targets [N, R] (cuda): logits dense, f32, f16 and bf16,
// computed in f32 and rounded once; targets i64 or i32. `lse` and `divisor`, f32, are written where
// they are not NULL. Logits are read once. Bound by bytes.
//
//   lanes_per_row  R = 1 and few classes: a row in the registers of up to a warp
//   stay           R = 1 and many: a warp or a block goes from row to row with running totals,
//                  the next packs always on their way to shared memory
//   columns        R > 1: threads side by side along R and, in turns, along C
//
// Where there is one result, each block of these sums its lines in a fixed order into the
// workspace, a pair (losses, weights) a block, and `combine` sums the pairs.
#include <aicf_ops/cross_entropy.h>

#include "cross_entropy.cuh"

namespace aicf::cross_entropy {

constexpr int kBlock = 256;
// Packs of a thread in a stage, and stages on their way, beside the one that is taken: 64 KiB of a
// multiprocessor that holds kBlocks blocks of `stay`. With twice that the first ones come later.
constexpr int kAhead = 4, kStages = 1;
constexpr int kBlocks = 4;
constexpr int64_t kEnoughWarps = 32;    // of a multiprocessor: as many as it has room for
constexpr int64_t kMostInRow = 1 << 30; // classes that are counted in 32 bits
constexpr int kLanesPacks = 4;          // of a row, that a lane holds at most
constexpr int kCombine = 512;           // threads of `combine`
constexpr int64_t kMostParts = 8192;    // said in the row's workspaces too

template <typename T> struct operands {
    const T *logits;
    T *out;         // of `none`, else NULL
    float *lse;     // or NULL
    float *divisor; // of `none`, or NULL
    float *parts;   // [blocks, 2], NULL of `none`
    rules<T> rule;
    int64_t lines, R;
    int team;      // of lanes, or threads along R: a power of two
    int64_t tiles; // of columns, along R
    int64_t jobs;  // blocks that there would be if each did its part of the work once
    // Of `stay`: whether rows begin at several phases of a line, whether all are whole packs dealt
    // from the first one on, and stages of a row.
    bool phased, even;
    int stages;
};

// Of a line, for label smoothing: (sum of w (x - shift), sum of w). The shift, an element of the
// line, keeps the digits of logits that are large and near each other.
template <typename T>
__device__ inline float
shift_of(const operands<T> &p, const T *line)
{
    float x = p.rule.smoothing > 0 ? to_f32(*line) : 0.0f;
    return isfinite(x) ? x : 0.0f;
}

template <typename T>
__device__ inline void
smooth(const operands<T> &p, float (&v)[2], int64_t i, float x, float shift)
{
    float w = p.rule.weight_of(i);
    v[0] += w * (x - shift);
    v[1] += w;
}

// Writes what there is of a line, adds its (loss, weight) to `sums`. `x` is the logit at its target
// `t`, if that is a class.
template <typename T>
__device__ inline void
finish(
    const operands<T> &p, int64_t line, int64_t t, float x, const float (&total)[2],
    const float (&smoothed)[2], float shift, float (&sums)[2])
{
    float log_sum = soft::log_sum(total[0], total[1]);
    float weight = p.rule.weight_of_target(t);
    float loss = weight; // 0 or NaN

    if (t != p.rule.ignore_index && p.rule.is_class(t)) {
        loss = weight * ((total[0] - x) + log_sum);
        if (p.rule.smoothing > 0) {
            float all = smoothed[1] * ((total[0] - shift) + log_sum) - smoothed[0];
            float share = p.rule.smoothing / static_cast<float>(p.rule.C);
            loss = (1.0f - p.rule.smoothing) * loss + share * all;
        }
    }
    if (p.lse) {
        p.lse[line] = total[0] + log_sum;
    }
    if (p.out) {
        p.out[line] = of_f32<T>(loss);
    }
    sums[0] += loss;
    sums[1] += weight;
}

// The logit of a line at its target, of which `first` is its first one.
template <typename T>
__device__ inline float
logit_at(const operands<T> &p, const T *first, int64_t t)
{
    return p.rule.is_class(t) ? to_f32(first[t * p.R]) : 0.0f;
}

// What a block leaves: the sums of its threads.
template <typename T>
__device__ inline void
leave(const operands<T> &p, float (&sums)[2])
{
    if (p.parts) {
        float v[1][2] = {{sums[0], sums[1]}};
        rows::block_team team;
        team.reduce(v, rows::add{});
        if (threadIdx.x == 0) {
            reinterpret_cast<float2 *>(p.parts)[blockIdx.x] = {v[0][0], v[0][1]};
        }
    } else if (p.divisor && blockIdx.x == 0 && threadIdx.x == 0) {
        *p.divisor = 1.0f;
    }
}

// ---- lanes --------------------------------------------------------------------------------------

template <int kPacks, typename T>
__device__ inline void
lanes_rows(const operands<T> &p, rows::lanes_team team, float (&sums)[2])
{
    constexpr int kRows = rows::kRowsOf<kPacks>;
    rows::shape shape = {p.lines, static_cast<int>(p.rule.C), p.team};
    rows::held<T, kPacks> x[kRows];
    rows::span at[kRows];
    float top[kRows][1], sum[kRows][1], smoothed[kRows][2] = {}, shift[kRows] = {},
                                        at_target[kRows];
    int64_t target[kRows];
#pragma unroll
    for (int r = 0; r < kRows; r++) {
        int64_t row = team.row(r, kRows);
        at[r] = team.span_of(p.logits, shape, row);
        rows::load(x[r], p.logits + row * shape.n, at[r]);
        target[r] = row < p.lines ? p.rule.target_of(row) : -1;
        sum[r][0] = 0.0f;
    }

#pragma unroll
    for (int r = 0; r < kRows; r++) {
        at_target[r] = logit_at(p, p.logits + team.row(r, kRows) * shape.n, target[r]);
        top[r][0] = rows::largest(at[r], x[r]);
    }
    team.lanes(top, soft::largest{});
#pragma unroll
    for (int r = 0; r < kRows; r++) {
        soft::scale power(soft::base_of(top[r][0]));
        rows::each(at[r], [&](float v) { sum[r][0] += power(v); }, x[r]);
    }
    team.lanes(sum, rows::add{});
    if (p.rule.smoothing > 0) {
#pragma unroll
        for (int r = 0; r < kRows; r++) {
            int64_t row = team.row(r, kRows);
            shift[r] = row < p.lines ? shift_of(p, p.logits + row * shape.n) : 0.0f;
            auto take = [&](int i, float v) { smooth(p, smoothed[r], i, v, shift[r]); };
            rows::each_at(at[r], take, x[r]);
        }
        team.lanes(smoothed, rows::add{});
    }

    // Lane r of a team finishes its row r, all of them at once.
    int lane = static_cast<int>(threadIdx.x) % p.team;
    int64_t line = team.row(lane, kRows), t = target[0];
    float total[2] = {top[0][0], sum[0][0]}, x_t = at_target[0], by = shift[0];
#pragma unroll
    for (int r = 1; r < kRows; r++) {
        if (lane == r) {
            total[0] = top[r][0];
            total[1] = sum[r][0];
            smoothed[0][0] = smoothed[r][0];
            smoothed[0][1] = smoothed[r][1];
            t = target[r];
            x_t = at_target[r];
            by = shift[r];
        }
    }
    if (lane < kRows && line < p.lines) {
        finish(p, line, t, x_t, total, smoothed[0], by, sums);
    }
}

template <typename T, int kPacks>
__global__ void
__launch_bounds__(rows::kLanesBlock) lanes_per_row(const operands<T> p)
{
    float sums[2] = {};
    rows::begin();
    for (int64_t i = blockIdx.x; i < p.jobs; i += gridDim.x) {
        lanes_rows<kPacks>(p, rows::lanes_team(p.team, i), sums);
    }
    leave(p, sums);
}

// ---- rows that are streamed ---------------------------------------------------------------------

// A thread's totals become its warp's, in all lanes: by the warp's largest, which costs one power.
__device__ inline void
reduce_total(float (&total)[2])
{
    rows::warps_team warp;
    float top[1][1] = {{total[0]}};
    warp.lanes(top, soft::largest{});
    soft::scale power(soft::base_of(top[0][0]));
    float sum[1][1] = {{soft::total::moved(total[0], total[1], power)}};
    warp.lanes(sum, rows::add{});
    total[0] = top[0][0];
    total[1] = sum[0][0];
}

// The totals of a block's warps become those of its first warp. `turn` is one row's 0, the next
// one's 1.
__device__ inline void
gather_totals(float (&total)[2], int turn)
{
    __shared__ float2 warps[2][kBlock / rows::kWarp];
    int lane = static_cast<int>(threadIdx.x) % rows::kWarp;
    if (lane == 0) {
        warps[turn][threadIdx.x / rows::kWarp] = {total[0], total[1]};
    }
    __syncthreads();
    if (threadIdx.x < rows::kWarp) {
        bool mine = lane < static_cast<int>(blockDim.x) / rows::kWarp;
        float2 held = mine ? warps[turn][lane] : float2{-INFINITY, 0.0f};
        total[0] = held.x;
        total[1] = held.y;
        reduce_total(total);
    }
}

// Takes what is held and one element more into a total, which is rescaled once for all of it.
template <typename T, int kPacks>
__device__ inline void
take(float (&total)[2], rows::held<T, kPacks> &x, float one)
{
    constexpr rows::whole_span all = {0, 0, true};
    float top = fmaxf(fmaxf(total[0], one), rows::largest(all, x));
    soft::scale power(soft::base_of(top));
    float sum = soft::total::moved(total[0], total[1], power) + power(one);
    rows::forget(x);
    rows::each(all, [&](float v) { sum += power(v); }, x);
    total[0] = top;
    total[1] = sum;
}

// Of the rows that a warp has reduced, lane i has the i-th until they are finished together.
struct reduced {
    float total[2], smoothed[2], at_target, shift;
};

// kWarps: a row belongs to a warp, not to the block.
template <typename T, bool kSmooth, bool kWarps>
__global__ void
__launch_bounds__(kBlock, kSmooth ? 2 : kBlocks) stay(const operands<T> p)
{
    extern __shared__ words slots[];
    int rank = static_cast<int>(kWarps ? threadIdx.x % rows::kWarp : threadIdx.x);
    int threads = static_cast<int>(kWarps ? rows::kWarp : blockDim.x);
    int teams = static_cast<int>(blockDim.x) / threads, step = static_cast<int>(gridDim.x) * teams;
    int row = static_cast<int>(blockIdx.x) * teams + static_cast<int>(threadIdx.x) / threads;
    int lines = static_cast<int>(p.lines), C = static_cast<int>(p.rule.C);
    int asked = row - step, to_ask = 0; // a row, and what is left of its stages
    rows::feed<T, kAhead, kStages> feed(slots);
    rows::block_team block;
    float sums[2] = {};

    auto cut_of = [&](const T *line) {
        return p.even ? rows::cut(C / kPackSize<T>) : rows::cut(line, C, p.phased);
    };
    auto ask = [&] {
        if (to_ask == 0) {
            asked += step;
            to_ask = p.stages;
            if (asked < lines) {
                const T *line = p.logits + asked * p.rule.C;
                feed.start(line, cut_of(line), rank, threads);
            }
        }
        feed.ask(threads);
        to_ask--;
    };
    rows::begin();
#pragma unroll 1
    for (int i = 0; i < kStages; i++) {
        ask();
    }
    int64_t target = row < lines ? p.rule.target_of(row) : 0;

    reduced kept = {};
    int count = 0; // of rows that are kept
#pragma unroll 1
    for (; row < lines; row += step) {
        const T *line = p.logits + row * p.rule.C;
        rows::cut cut = cut_of(line);
        int edge = p.even ? -1 : cut.edge<T>(rank);
        float at_edge = edge >= 0 ? to_f32(line[edge]) : -INFINITY;
        float shift = kSmooth ? shift_of(p, line) : 0.0f;
        if (rank == count) {
            kept.at_target = logit_at(p, line, target);
            kept.shift = shift;
        }
        target = row + step < lines ? p.rule.target_of(row + step) : 0;
        float total[2] = {-INFINITY, 0.0f}, smoothed[1][2] = {};
        if (kSmooth && edge >= 0) {
            smooth(p, smoothed[0], edge, at_edge, shift);
        }
        int packs = cut.packs - feed.first_of(cut, rank, threads);
        int end = cut.head + cut.packs * kPackSize<T>;
#pragma unroll 1
        for (int i = 0; i < p.stages; i++) {
            rows::held<T, kAhead> x;
            ask();
            feed.take(x, packs, threads);
            take(total, x, i + 1 < p.stages ? -INFINITY : at_edge);
            if constexpr (kSmooth) {
                auto add = [&](int c, float v) { smooth(p, smoothed[0], c, v, shift); };
                int first = cut.head + (cut.packs - packs) * kPackSize<T>;
                rows::each_at(rows::span{first, threads * kPackSize<T>, end, -1}, add, x);
            }
            packs -= kAhead * threads;
        }
        reduce_total(total);
        if constexpr (!kWarps) {
            gather_totals(total, count & 1);
        }
        if constexpr (kSmooth) {
            rows::reduce_lanes(smoothed, rows::kWarp, rows::add{});
            if constexpr (!kWarps) {
                block.across(smoothed, rows::add{});
            }
        }
        if (rank == count) {
            kept.total[0] = total[0];
            kept.total[1] = total[1];
            kept.smoothed[0] = smoothed[0][0];
            kept.smoothed[1] = smoothed[0][1];
        }
        count++;
        if (count == rows::kWarp || lines - row <= step) {
            if (rank < count) {
                int mine = row - (count - 1 - rank) * step;
                finish(
                    p, mine, p.rule.target_of(mine), kept.at_target, kept.total, kept.smoothed,
                    kept.shift, sums);
            }
            count = 0;
        }
    }
    leave(p, sums);
}

// ---- columns ------------------------------------------------------------------------------------

template <typename T>
__global__ void
__launch_bounds__(kBlock, kBlocks) columns(const operands<T> p)
{
    int column = static_cast<int>(threadIdx.x) % p.team;
    int turn = static_cast<int>(threadIdx.x) / p.team, turns = kBlock / p.team;
    float sums[2] = {};
    rows::begin();
    for (int64_t i = blockIdx.x; i < p.jobs; i += gridDim.x) {
        int64_t n = i / p.tiles, r = i % p.tiles * p.team + column;
        bool mine = r < p.R;
        const T *in[1] = {p.logits + n * p.rule.C * p.R + r};
        float shift = mine ? shift_of(p, in[0]) : 0.0f;
        float total[2] = {-INFINITY, 0.0f}, smoothed[2] = {};
        int64_t end = mine ? p.rule.C : 0;
        passes::for_column(in, p.R, turn, end, turns, [&](int64_t c, const auto &x) {
            soft::take(total, x[0]);
            if (p.rule.smoothing > 0) {
#pragma unroll
                for (int k = 0; k < static_cast<int>(sizeof(x[0]) / sizeof(float)); k++) {
                    smooth(p, smoothed, c + k * turns, x[0][k], shift);
                }
            }
        });
        passes::reduce_column<soft::total>(total, p.team);
        if (p.rule.smoothing > 0) {
            passes::reduce_column<rows::add>(smoothed, p.team);
        }
        if (mine && turn == 0) {
            int64_t line = n * p.R + r, t = p.rule.target_of(line);
            finish(p, line, t, logit_at(p, in[0], t), total, smoothed, shift, sums);
        }
    }
    leave(p, sums);
}

// ---- combine ------------------------------------------------------------------------------------

template <typename T>
__global__ void
__launch_bounds__(kCombine)
    combine(const float *parts, int count, bool mean, T *out, float *divisor)
{
    float v[1][2] = {};
    rows::begin();
#pragma unroll 8
    for (int i = static_cast<int>(threadIdx.x); i < count; i += kCombine) {
        float2 pair = reinterpret_cast<const float2 *>(parts)[i];
        v[0][0] += pair.x;
        v[0][1] += pair.y;
    }
    rows::block_team team;
    team.reduce(v, rows::add{});
    if (threadIdx.x == 0) {
        float by = mean ? v[0][1] : 1.0f;
        *out = of_f32<T>(v[0][0] / by);
        if (divisor) {
            *divisor = by;
        }
    }
}

// ---- launches -----------------------------------------------------------------------------------

// Asks for as much shared memory as there is. A kernel that is better off with less waits until a
// multiprocessor is idle and can be divided anew.
template <typename... P>
aicf_status
prefer_shared(void (*kernel)(P...))
{
    cudaError_t error = cudaFuncSetAttribute(
        reinterpret_cast<const void *>(kernel), cudaFuncAttributePreferredSharedMemoryCarveout,
        cudaSharedmemCarveoutMaxShared);
    if (error != cudaSuccess) {
        cudaGetLastError();
    }
    return status_of(error);
}

template <typename T>
aicf_status
launch_lines(
    const operands<T> &p, int64_t blocks, int block, void (*kernel)(operands<T>),
    aicf_cross_entropy_reduction reduction, T *out, float *divisor, void *workspace,
    aicf_stream stream, size_t shared = 0)
{
    operands<T> q = p;
    q.jobs = blocks;
    blocks = blocks < kMostParts ? blocks : kMostParts;
    bool none = reduction == AICF_CROSS_ENTROPY_REDUCTION_NONE;
    q.out = none ? out : nullptr;
    q.divisor = none ? divisor : nullptr;
    q.parts = none ? nullptr : static_cast<float *>(workspace);
    // Of nothing a sum is 0 and a mean NaN; `none` still has a divisor.
    aicf_status status = aicf_ok();
    if (blocks > 0 || (none && divisor)) {
        unsigned grid = static_cast<unsigned>(blocks > 0 ? blocks : 1);
        status = launch_waiting(kernel, grid, static_cast<unsigned>(block), shared, stream, q);
    }
    if (status.kind || none) {
        return status;
    }
    status = shared > 0 ? prefer_shared(combine<T>) : status;
    if (status.kind) {
        return status;
    }
    return launch_waiting(
        combine<T>, 1, kCombine, 0, stream, q.parts, static_cast<int>(blocks),
        reduction == AICF_CROSS_ENTROPY_REDUCTION_MEAN, out, divisor);
}

template <typename T>
aicf_status
launch_columns(
    operands<T> p, aicf_cross_entropy_reduction reduction, T *out, float *divisor, void *workspace,
    aicf_stream stream)
{
    p.team = passes::width_for(p.rule.C, p.R);
    p.tiles = ceil_div(p.R, p.team);
    int64_t blocks = p.R == 0 ? 0 : p.lines / p.R * p.tiles;
    return launch_lines(p, blocks, kBlock, columns<T>, reduction, out, divisor, workspace, stream);
}

template <typename T>
aicf_status
launch_stay(
    operands<T> p, int64_t packs, aicf_cross_entropy_reduction reduction, T *out, float *divisor,
    void *workspace, aicf_stream stream)
{
    if (p.lines > INT32_MAX - (1 << 20)) { // more than any memory holds
        return status_of(cudaErrorInvalidConfiguration);
    }
    // A row costs each of its warps some hundred instructions: few warps, where rows are many.
    int64_t warps = ceil_div(packs, rows::kWarp * kAhead * 4);
    if (p.lines * warps < kEnoughWarps * rows::multiprocessors()) {
        warps = ceil_div(packs, rows::kWarp * kAhead * 2);
    }
    constexpr int64_t kMost = kBlock / rows::kWarp;
    warps = warps < kMost ? warps : kMost;
    p.phased = p.rule.C * static_cast<int64_t>(sizeof(T)) % rows::kLineBytes != 0;
    p.even = !p.phased && phase_of(p.logits) == 0;
    packs += p.phased ? rows::kLinePacks - 1 : 0;
    p.stages = static_cast<int>(ceil_div(packs, warps * rows::kWarp * kAhead));

    constexpr int kSlots = kAhead * (kStages + 1);
    bool smooth = p.rule.smoothing > 0;
    void (*const kernels[2][2])(operands<T>) = {
        {stay<T, false, false>, stay<T, false, true>}, {stay<T, true, false>, stay<T, true, true>}};
    int64_t teams = warps == 1 ? kMost : 1;
    int64_t block = teams * warps * rows::kWarp,
            most = rows::multiprocessors() * kBlocks * kBlock / block;
    int64_t blocks = ceil_div(p.lines, teams);
    void (*kernel)(operands<T>) = kernels[smooth][warps == 1];
    aicf_status status = allow_shared(kernel, rows::ahead_bytes(kSlots, kBlock));
    status = status.kind ? status : prefer_shared(kernel);
    if (status.kind) {
        return status;
    }
    return launch_lines(
        p, blocks < most ? blocks : most, static_cast<int>(block), kernel, reduction, out, divisor,
        workspace, stream, rows::ahead_bytes(kSlots, block));
}

template <typename T>
aicf_status
launch_rows(
    operands<T> p, aicf_cross_entropy_reduction reduction, T *out, float *divisor, void *workspace,
    aicf_stream stream)
{
    void (*const kernels[])(operands<T>) = {
        lanes_per_row<T, 1>, lanes_per_row<T, 2>, lanes_per_row<T, kLanesPacks>};
    int64_t packs = p.rule.C / kPackSize<T>;
    if (p.rule.C > kMostInRow) {
        return launch_columns(p, reduction, out, divisor, workspace, stream);
    }
    if (packs >= rows::kWarp * kLanesPacks) {
        return launch_stay(p, packs, reduction, out, divisor, workspace, stream);
    }
    int power = rows::power_for(packs);
    p.team = rows::team_for(packs);
    int64_t threads = ceil_div(p.lines, power == 0 ? rows::kRowsOf<1> : 1) * p.team;
    int block = rows::lanes_block(threads);
    return launch_lines(
        p, ceil_div(threads, block), block, kernels[power], reduction, out, divisor, workspace,
        stream);
}

} // namespace aicf::cross_entropy

#define LAUNCHER(kernel, T, I, suffix)                                                         \
    aicf_status aicf_cuda_cross_entropy_##kernel##_##suffix(                                   \
        const T *logits, const I *target, const T *weight, T *out, float *lse, float *divisor, \
        int64_t N, int64_t C, int64_t R, aicf_cross_entropy_reduction reduction,               \
        int64_t ignore_index, double label_smoothing, void *workspace, aicf_stream stream)     \
    {                                                                                          \
        using D = aicf::device_t<T>;                                                           \
        aicf::cross_entropy::operands<D> p = {};                                               \
        p.logits = aicf::device(logits);                                                       \
        p.lse = lse;                                                                           \
        p.rule = {target, sizeof(I) == 8, aicf::device(weight),                                \
                  C,      ignore_index,   static_cast<float>(label_smoothing)};                \
        p.lines = N * R;                                                                       \
        p.R = R;                                                                               \
        return aicf::cross_entropy::launch_##kernel(                                           \
            p, reduction, aicf::device(out), divisor, workspace, stream);                      \
    }

#define LAUNCHERS(T, suffix)                    \
    LAUNCHER(rows, T, int64_t, suffix##_i64)    \
    LAUNCHER(rows, T, int32_t, suffix##_i32)    \
    LAUNCHER(columns, T, int64_t, suffix##_i64) \
    LAUNCHER(columns, T, int32_t, suffix##_i32)

LAUNCHERS(float, f32)
LAUNCHERS(aicf_f16, f16)
LAUNCHERS(aicf_bf16, bf16)
