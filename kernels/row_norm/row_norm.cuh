// layer_norm and rms_norm over the rows of a dense matrix (cuda), f32, f16 and bf16, computed in
// f32: out = (x - mean) * rstd * weight + bias, of rms_norm without mean and bias. out may be
// exactly x; any addresses. Bound by bytes: x is read once while a row fits into the registers of
// a cluster (aicf/cuda/rows.cuh), else it is streamed three times.
//
// The variance is that of the deviations from the mean, and the mean is corrected by their sum, so
// that a row far from 0 keeps its digits. Where squares overflow, the row is taken again scaled
// down, which is exact.
#ifndef AICF_KERNELS_ROW_NORM_CUH
#define AICF_KERNELS_ROW_NORM_CUH

#define AICF_HEADER(op) <aicf_ops/op.h>
#include AICF_HEADER(AICF_OP)

#include <cfloat>

#include <aicf/cuda/columns.cuh>

namespace aicf::AICF_OP {

enum { layer_norm_centred = 1, rms_norm_centred = 0 };
#define AICF_CENTRED_OF(op) op##_centred
#define AICF_CENTRED(op) AICF_CENTRED_OF(op)
constexpr bool kCentred = AICF_CENTRED(AICF_OP);

constexpr int kMostPacks = 4;
constexpr float kSmall = 0x1p-96f; // squares of what was scaled by it are finite, sums of them too

template <typename T> struct operands {
    const T *x, *weight, *bias; // weight and bias may be NULL
    T *out;
    float *mean, *rstd; // may be NULL
    float eps;
    rows::shape shape;
};

// ---- a row's terms ------------------------------------------------------------------------------

// Element x becomes (x * scale - mean - shift) * factor: `mean` is an f32, `shift` what it lacks.
struct terms {
    float scale = 1.0f, mean = 0.0f, shift = 0.0f, factor = 0.0f;
    float squares = 0.0f; // the sum of the squared deviations

    __device__ float deviation(float x) const
    {
        return kCentred ? fmaf(x, scale, -mean) : x * scale;
    }

    __device__ float operator()(float x) const
    {
        return kCentred ? (deviation(x) - shift) * factor : deviation(x) * factor;
    }

    // Of the sums of the deviations and of their squares.
    __device__ void settle(const float (&sum)[2], float count, float eps)
    {
        shift = kCentred ? sum[0] / count : 0.0f;
        squares = sum[1];
        float square = sum[1] / count; // NaN of no elements
        float var = fmaxf(square - shift * shift, 0.0f);
        if (scale == 1.0f) {
            factor = 1.0f / sqrtf(var + eps);
        } else {
            // eps is nothing beside such a variance, but where it is 0.
            factor = var > 0.0f ? 1.0f / sqrtf(var) : 1.0f / (sqrtf(eps) * kSmall);
        }
        factor = isnan(square) ? square : factor; // which fmaxf dropped
    }

    // Whether the row is to be taken again; then it is scaled down.
    __device__ bool overflowed()
    {
        if (scale < 1.0f || squares <= FLT_MAX) {
            return false;
        }
        scale = kSmall;
        return true;
    }

    template <typename T> __device__ void save(const operands<T> &p, int64_t row) const
    {
        if (p.mean) {
            p.mean[row] = (mean + shift) / scale;
        }
        if (p.rstd) {
            p.rstd[row] = factor * scale;
        }
    }
};

// ---- weights ------------------------------------------------------------------------------------

// out[0 ..] = x, normalised and weighed by w and b, which are what p has of them.
template <typename T, int kSize>
__device__ inline void
write_weighed(
    const operands<T> &p, T *out, bool packed, const terms &t, const float (&x)[kSize],
    const float (&w)[kSize], const float (&b)[kSize])
{
    float y[kSize];
#pragma unroll
    for (int lane = 0; lane < kSize; lane++) {
        y[lane] = t(x[lane]);
        y[lane] = p.weight ? y[lane] * w[lane] : y[lane];
        y[lane] = kCentred && p.bias ? y[lane] + b[lane] : y[lane];
    }
    rows::store_values(out, packed, y);
}

// out[i ..] = x, normalised and weighed. `even`: weight and bias have the phase of the row.
template <typename T, int kSize>
__device__ inline void
write(
    const operands<T> &p, T *out, int64_t i, bool packed, bool even, const terms &t,
    const float (&x)[kSize])
{
    float w[kSize], b[kSize];
    if (p.weight) {
        columns::coefficients(p.weight + i, even, w);
    }
    if (kCentred && p.bias) {
        columns::coefficients(p.bias + i, even, b);
    }
    write_weighed(p, out + i, packed, t, x, w, b);
}

template <typename T>
__device__ inline bool
even_with(const operands<T> &p, const T *row)
{
    return (!p.weight || rows::same_phase(row, p.weight)) &&
           (!kCentred || !p.bias || rows::same_phase(row, p.bias));
}

// ---- rows that are held -------------------------------------------------------------------------

__device__ inline bool
leads(const rows::lanes_team &team)
{
    return static_cast<int>(threadIdx.x) % team.width == 0;
}

__device__ inline bool
leads(const rows::block_team &)
{
    return threadIdx.x == 0;
}

#if __CUDA_ARCH__ >= 900 || !defined(__CUDA_ARCH__)
__device__ inline bool
leads(const rows::cluster_team &)
{
    return threadIdx.x == 0 && ptx::cluster_rank() == 0;
}
#endif

// Lets nothing that was computed of x outlive this point: 16-bit packs would be kept as f32, in
// twice the registers, rather than unpacked anew.
template <int kPacks, int kRows, typename T>
__device__ inline void
forget(rows::held<T, kPacks> (&x)[kRows])
{
#pragma unroll
    for (int r = 0; r < kRows; r++) {
#pragma unroll
        for (int k = 0; k < kPacks; k++) {
            for (uint32_t &word : x[r].pack[k].word) {
                ptx::opaque(word);
            }
        }
    }
}

constexpr int kChains = 4; // sums of a thread side by side: none waits for the one before it

// Calls f(chain, x) for each element that a thread has of a row.
template <int kPacks, typename T, typename Function>
__device__ inline void
each_chain(const rows::span &s, const rows::held<T, kPacks> &h, Function f)
{
#pragma unroll
    for (int k = 0; k < kPacks; k++) {
        if (s.first + k * s.step < s.end) {
            rows::values<T> v = rows::values_of(h, k);
#pragma unroll
            for (int lane = 0; lane < kPackSize<T>; lane++) {
                f(lane % kChains, v.x[lane]);
            }
        }
    }
    if (s.edge >= 0) {
        f(0, to_f32(h.edge));
    }
}

template <int kPacks, int kRows, typename T, typename Team>
__device__ inline void
settle(
    const operands<T> &p, Team &team, rows::held<T, kPacks> (&x)[kRows],
    const rows::span (&at)[kRows], terms (&t)[kRows])
{
    float count = static_cast<float>(p.shape.n);
    bool again = true;
#pragma unroll 1
    while (again) {
        if (kCentred) {
            float sum[kRows][1];
#pragma unroll
            for (int r = 0; r < kRows; r++) {
                float chains[kChains] = {};
                each_chain(
                    at[r], x[r], [&](int chain, float v) { chains[chain] += v * t[r].scale; });
                sum[r][0] = (chains[0] + chains[1]) + (chains[2] + chains[3]);
            }
            team.reduce(sum, rows::add{});
#pragma unroll
            for (int r = 0; r < kRows; r++) {
                t[r].mean = sum[r][0] / count;
            }
            forget(x);
        }
        float sums[kRows][2];
#pragma unroll
        for (int r = 0; r < kRows; r++) {
            float chains[2][kChains] = {};
            each_chain(at[r], x[r], [&](int chain, float v) {
                float d = t[r].deviation(v);
                chains[0][chain] += d;
                chains[1][chain] += d * d;
            });
#pragma unroll
            for (int i = 0; i < 2; i++) {
                sums[r][i] = (chains[i][0] + chains[i][1]) + (chains[i][2] + chains[i][3]);
            }
        }
        team.reduce(sums, rows::add{});
        forget(x);
        again = false;
#pragma unroll
        for (int r = 0; r < kRows; r++) {
            t[r].settle(sums[r], count, p.eps);
            again = t[r].overflowed() || again;
        }
        again = __any_sync(0xffffffff, again); // teams of lanes share a warp
    }
}

// What lanes hold of weight and bias, on their way beside the row: they have the registers, and
// short rows no time to wait for it later.
template <typename T, int kPacks> struct early {
    words weight[kPacks], bias[kPacks];

    __device__ void load(const operands<T> &p, const rows::span &s)
    {
#pragma unroll
        for (int k = 0; k < kPacks; k++) {
            int i = s.first + k * s.step;
            if (i < s.end && p.weight) {
                weight[k] = load_words(p.weight + i);
            }
            if (kCentred && i < s.end && p.bias) {
                bias[k] = load_words(p.bias + i);
            }
        }
    }
};

template <typename Team> constexpr bool kEarly = false;
template <> constexpr bool kEarly<rows::lanes_team> = true;

template <int kPacks, int kRows, typename T, typename Team>
__device__ inline void
body(const operands<T> &p, Team &team)
{
    constexpr int kSize = kPackSize<T>;
    rows::held<T, kPacks> x[kRows];
    early<T, kPacks> ahead[kRows];
    rows::span at[kRows];
    bool even[kRows];
#pragma unroll
    for (int r = 0; r < kRows; r++) {
        int64_t row = team.row(r, kRows);
        at[r] = team.span_of(p.x, p.shape, row);
        rows::load(x[r], p.x + row * p.shape.n, at[r]);
        even[r] = even_with(p, p.x + row * p.shape.n);
        if (kEarly<Team> && even[r]) {
            ahead[r].load(p, at[r]);
        }
    }

    terms t[kRows];
    settle(p, team, x, at, t);

    bool packed = rows::same_phase(p.x, static_cast<const T *>(p.out));
#pragma unroll
    for (int r = 0; r < kRows; r++) {
        int64_t row = team.row(r, kRows);
        T *out = p.out + row * p.shape.n;
#pragma unroll
        for (int k = 0; k < kPacks; k++) {
            int i = at[r].first + k * at[r].step;
            if (i < at[r].end && kEarly<Team> && even[r]) {
                float w[kSize], b[kSize];
                unpack(ahead[r].weight[k], w, T{});
                unpack(ahead[r].bias[k], b, T{});
                write_weighed(p, out + i, packed, t[r], rows::values_of(x[r], k).x, w, b);
            } else if (i < at[r].end) {
                write(p, out, i, packed, even[r], t[r], rows::values_of(x[r], k).x);
            }
        }
        if (at[r].edge >= 0) {
            float edge[1] = {to_f32(x[r].edge)};
            write(p, out, at[r].edge, false, false, t[r], edge);
        }
        if (row < p.shape.count && leads(team)) {
            t[r].save(p, row);
        }
    }
}

// ---- rows of teams that stay --------------------------------------------------------------------

constexpr int kStayPacks = 4;     // of a thread
constexpr int kStayThreads = 608; // of a multiprocessor, at 104 registers each

// What a thread has of a row: the packs rank, rank + size, ... of rows that all start on 16-byte
// boundaries. each() calls f(index of the first, elements).
template <typename T> struct even_row {
    static constexpr bool kPhased = false;

    columns::unit<T, kPackSize<T>> x[kStayPacks];

    __device__ void load(const operands<T> &p, const columns::place &at, int64_t r)
    {
#pragma unroll
        for (int k = 0; k < kStayPacks; k++) {
            int i = (at.rank + k * at.size) * kPackSize<T>;
            if (i < p.shape.n) {
                x[k].load(p.x + r * p.shape.n + i);
            }
        }
    }

    template <typename Function>
    __device__ void each(const operands<T> &p, const columns::place &at, Function f)
    {
#pragma unroll
        for (int k = 0; k < kStayPacks; k++) {
            int i = (at.rank + k * at.size) * kPackSize<T>;
            if (i < p.shape.n) {
                float v[kPackSize<T>];
                x[k].unpack(v);
                f(i, v);
            }
        }
    }
};

// The same of rows that start anywhere: whole packs, and the elements before and behind them.
template <typename T> struct phased_row {
    static constexpr bool kPhased = true;

    rows::held<T, kStayPacks> x;
    rows::span span;

    __device__ void load(const operands<T> &p, const columns::place &at, int64_t r)
    {
        const T *row = p.x + r * p.shape.n;
        int rank = static_cast<int>(threadIdx.x), team = static_cast<int>(blockDim.x);
        span = rows::span_of(row, p.shape, rank, team, at.rank / team);
        rows::load(x, row, span);
    }

    template <typename Function>
    __device__ void each(const operands<T> &, const columns::place &, Function f)
    {
#pragma unroll
        for (int k = 0; k < kStayPacks; k++) {
            int i = span.first + k * span.step;
            if (i < span.end) {
                for (uint32_t &word : x.pack[k].word) {
                    ptx::opaque(word); // as in columns::unit
                }
                f(i, rows::values_of(x, k).x);
            }
        }
        if (span.edge >= 0) {
            float edge[1] = {to_f32(x.edge)};
            f(span.edge, edge);
        }
    }
};

template <typename Row, typename T>
__device__ inline float
count_in_warp(const operands<T> &p, const columns::place &at, Row &row)
{
    float count[1][1] = {};
    row.each(p, at, [&](int, const auto &x) {
        count[0][0] += static_cast<float>(sizeof(x) / sizeof(float));
    });
    rows::reduce_lanes(count, rows::kWarp, rows::add{});
    return count[0][0];
}

// A warp sums its elements and then their deviations from its own mean; the team's warps exchange
// that once, and join it about the mean of all.
template <typename Row, typename T, typename Team>
__device__ inline void
settle_staying(
    const operands<T> &p, Team &team, const columns::place &at, float warp_count, Row &row,
    terms &t)
{
    float mean[1][1] = {}, sums[1][2] = {};
    if (kCentred) {
        row.each(p, at, [&](int, const auto &x) {
            for (float v : x) {
                mean[0][0] += v * t.scale;
            }
        });
        rows::reduce_lanes(mean, rows::kWarp, rows::add{});
        mean[0][0] = warp_count > 0.0f ? mean[0][0] / warp_count : 0.0f;
        t.mean = mean[0][0];
    }
    row.each(p, at, [&](int, const auto &x) {
        for (float v : x) {
            float d = t.deviation(v);
            sums[0][0] += d;
            sums[0][1] += d * d;
        }
    });
    rows::reduce_lanes(sums, rows::kWarp, rows::add{});

    float whole = static_cast<float>(p.shape.n);
    if (at.size > rows::kWarp) {
        float mine[4] = {warp_count, mean[0][0], sums[0][0], sums[0][1]};
        int count = team.exchange(mine);
        int lane = static_cast<int>(threadIdx.x) % rows::kWarp;
        if (kCentred) {
            mean[0][0] = 0.0f;
            for (int from = lane; from < count; from += rows::kWarp) {
                mean[0][0] += team.entry(0, from) * team.entry(1, from);
            }
            rows::reduce_lanes(mean, rows::kWarp, rows::add{});
            t.mean = mean[0][0] / whole;
        }
        sums[0][0] = sums[0][1] = 0.0f;
        for (int from = lane; from < count; from += rows::kWarp) {
            float apart = kCentred ? team.entry(1, from) - t.mean : 0.0f;
            float first = team.entry(2, from), moved = team.entry(0, from) * apart;
            sums[0][0] += first + moved;
            sums[0][1] += team.entry(3, from) + apart * (2.0f * first + moved);
        }
        team.next();
        rows::reduce_lanes(sums, rows::kWarp, rows::add{});
    }
    t.settle(sums[0], whole, p.eps);
}

template <typename Row, typename T, typename Team>
__device__ inline void
stay_body(const operands<T> &p, Team &team)
{
    columns::place at = columns::place_in(team);
    Row now, next;

    next.load(p, at, at.team);
    float warp_count = kCentred ? count_in_warp(p, at, next) : 0.0f;
#pragma unroll 1
    for (int64_t r = at.team; r < p.shape.count; r += at.teams) {
        now = next;
        if (r + at.teams < p.shape.count) {
            next.load(p, at, r + at.teams);
        }
        if (kCentred && Row::kPhased) {
            warp_count = count_in_warp(p, at, now);
        }
        terms t;
        settle_staying(p, team, at, warp_count, now, t);
        if (t.overflowed()) { // the whole team alike
            settle_staying(p, team, at, warp_count, now, t);
        }
        const T *row = p.x + r * p.shape.n;
        T *out = p.out + r * p.shape.n;
        bool packed = !Row::kPhased || rows::same_phase(row, static_cast<const T *>(out));
        bool even = !Row::kPhased || even_with(p, row);
        now.each(p, at, [&](int i, const auto &x) { write(p, out, i, packed, even, t, x); });
        if (at.rank == 0) {
            t.save(p, r);
        }
    }
}

// Whether each row of all tensors starts on a 16-byte boundary.
template <typename T>
bool
packed(const operands<T> &p)
{
    return p.shape.n % kPackSize<T> == 0 && phase_of(p.x) == 0 && phase_of(p.out) == 0 &&
           phase_of(p.weight) == 0 && phase_of(p.bias) == 0;
}

template <typename T>
operands<device_t<T>>
operands_of(
    const T *x, const T *weight, const T *bias, T *out, float *mean, float *rstd, int64_t L,
    int64_t N, double eps)
{
    return {
        device(x),
        device(weight),
        device(bias),
        device(out),
        mean,
        rstd,
        static_cast<float>(eps),
        {L, static_cast<int>(N), 0}};
}

} // namespace aicf::AICF_OP

#define AICF_LAUNCHER_NAME(op, kernel, suffix) aicf_cuda_##op##_##kernel##_##suffix
#define AICF_LAUNCHER_OF(op, kernel, suffix) AICF_LAUNCHER_NAME(op, kernel, suffix)

// Defines the launchers of a kernel by RUN(T, operands, L, N, stream).
#define AICF_layer_norm_LAUNCHER(kernel, T, suffix, RUN)                                         \
    aicf_status AICF_LAUNCHER_OF(AICF_OP, kernel, suffix)(                                       \
        const T *x, const T *weight, const T *bias, T *out, float *mean, float *rstd, int64_t L, \
        int64_t N, double eps, aicf_stream stream)                                               \
    {                                                                                            \
        return RUN(                                                                              \
            aicf::AICF_OP::operands_of(x, weight, bias, out, mean, rstd, L, N, eps), L, N,       \
            stream);                                                                             \
    }
#define AICF_rms_norm_LAUNCHER(kernel, T, suffix, RUN)                                           \
    aicf_status AICF_LAUNCHER_OF(AICF_OP, kernel, suffix)(                                       \
        const T *x, const T *weight, T *out, float *rstd, int64_t L, int64_t N, double eps,      \
        aicf_stream stream)                                                                      \
    {                                                                                            \
        return RUN(                                                                              \
            aicf::AICF_OP::operands_of<T>(x, weight, nullptr, out, nullptr, rstd, L, N, eps), L, \
            N, stream);                                                                          \
    }
#define AICF_LAUNCHER_FOR(op) AICF_##op##_LAUNCHER
#define AICF_LAUNCHER_BY(op) AICF_LAUNCHER_FOR(op)
#define AICF_ROW_NORM_LAUNCHERS(kernel, RUN)                  \
    AICF_LAUNCHER_BY(AICF_OP)(kernel, float, f32, RUN)        \
        AICF_LAUNCHER_BY(AICF_OP)(kernel, aicf_f16, f16, RUN) \
            AICF_LAUNCHER_BY(AICF_OP)(kernel, aicf_bf16, bf16, RUN)

#endif
