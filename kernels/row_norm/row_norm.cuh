// layer_norm and rms_norm over the rows of a dense matrix (cuda), f32, f16 and bf16, computed in
// f32: out = (x - mean) * rstd * weight + bias, of rms_norm without mean and bias. out may be
// exactly x; any addresses. Bound by bytes: x is read once while a row fits into the registers of a
// block (aicf/cuda/rows.cuh) or the shared memory of a cluster (aicf/cuda/steady.cuh), else it is
// streamed twice.
//
// The sums of x - k and of its square are taken about a k near the mean: that of 16 elements from
// all over the row, of 16 bits of 4. Where the mean is further from k than the standard deviation,
// of 16 bits than two of them, which would cost the variance digits, they are taken again about the
// mean that was found; where squares overflow, of the row scaled down, which is exact.
#ifndef AICF_KERNELS_ROW_NORM_CUH
#define AICF_KERNELS_ROW_NORM_CUH

#include "row_norm_terms.cuh"

#include <aicf/cuda/coefficients.cuh>
#include <aicf/cuda/rows.cuh>

namespace aicf::AICF_OP {

constexpr int kMostPacks = 8;

// ---- out ----------------------------------------------------------------------------------------

// Whether all that weighs is there, in the phase of the row.
template <typename T>
__device__ inline bool
weighed(const operands<T> &p, const T *row)
{
    return p.weight && rows::same_phase(row, p.weight) &&
           (!kCentred || (p.bias && rows::same_phase(row, p.bias)));
}

// (x * scale - near - shift) * factor; kNear: t.is_near_zero().
template <bool kNear = false, int kSize>
__device__ inline void
normalise(const terms &t, const float (&x)[kSize], float (&y)[kSize])
{
    float gain = t.scale * t.factor, less = -(kNear ? t.near + t.shift : t.shift) * t.factor;
#pragma unroll
    for (int lane = 0; lane < kSize; lane++) {
        float d = kNear ? x[lane] : t.deviation(x[lane]);
        y[lane] = kCentred ? fmaf(d, t.factor, less) : x[lane] * gain;
    }
}

// Packs of them.
template <typename T> struct weights {
    words weight, bias;

    __device__ void load(const operands<T> &p, int i)
    {
        weight = coefficients::load_pack(p.weight + i);
        if (kCentred) {
            bias = coefficients::load_pack(p.bias + i);
        }
    }

    // Of any phase; what is not there weighs nothing.
    __device__ void load_anywhere(const operands<T> &p, int i)
    {
        float one[kPackSize<T>];
#pragma unroll
        for (float &w : one) {
            w = 1.0f;
        }
        const T *w = p.weight, *b = p.bias;
        weight = w ? coefficients::load(w + i, w, w + p.shape.n) : repack(one, T{});
        if (kCentred) {
            bias = b ? coefficients::load(b + i, b, b + p.shape.n) : words{};
        }
    }

    // Lets nothing that was computed of them be kept from one row to the next: twice the registers.
    __device__ void forget()
    {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            ptx::opaque(weight.word[i]);
            if (kCentred) {
                ptx::opaque(bias.word[i]);
            }
        }
    }

    __device__ void apply(float (&y)[kPackSize<T>]) const
    {
        float w[kPackSize<T>], b[kPackSize<T>];
        unpack(weight, w, T{});
        if (kCentred) {
            unpack(bias, b, T{});
        }
#pragma unroll
        for (int lane = 0; lane < kPackSize<T>; lane++) {
            y[lane] = kCentred ? fmaf(y[lane], w[lane], b[lane]) : y[lane] * w[lane];
        }
    }
};

// y, of the elements from i on of N, by what p has of weights and biases, of any phase.
template <typename T>
__device__ inline void
weigh(const operands<T> &p, int64_t i, int64_t N, float (&y)[kPackSize<T>])
{
    float c[kPackSize<T>];
    if (p.weight) {
        unpack(coefficients::load(p.weight + i, p.weight, p.weight + N), c, T{});
#pragma unroll
        for (int lane = 0; lane < kPackSize<T>; lane++) {
            y[lane] *= c[lane];
        }
    }
    if (kCentred && p.bias) {
        unpack(coefficients::load(p.bias + i, p.bias, p.bias + N), c, T{});
#pragma unroll
        for (int lane = 0; lane < kPackSize<T>; lane++) {
            y[lane] += c[lane];
        }
    }
}

template <typename T>
__device__ inline void
weigh(const operands<T> &p, int64_t i, int64_t, float (&y)[1])
{
    y[0] *= p.weight ? coefficients::load_one(p.weight + i) : 1.0f;
    y[0] += kCentred && p.bias ? coefficients::load_one(p.bias + i) : 0.0f;
}

// ---- rows that are held -------------------------------------------------------------------------

__device__ inline bool
leads(const rows::lanes_team &team)
{
    return static_cast<int>(threadIdx.x) % team.width == 0;
}

template <int kWidth>
__device__ inline bool
leads(const rows::whole_lanes_team<kWidth> &)
{
    return threadIdx.x % kWidth == 0;
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

// A block a row that fills it.
struct whole_block_team : rows::block_team {
    using place = rows::whole_span;

    template <typename T> __device__ place span_of(const T *, const rows::shape &, int64_t) const
    {
        constexpr int kSize = kPackSize<T>;
        return {static_cast<int>(threadIdx.x) * kSize, static_cast<int>(blockDim.x) * kSize, true};
    }
};

// The same where rows are so wide that the weights of two fill the L1.
struct wide_block_team : whole_block_team {};

// Has what weighs a block's row come to the L1 while the row is on its way: all sectors, each by a
// lane.
template <int kPacks, typename T>
__device__ inline void
prefetch_weights(const operands<T> &p, const rows::whole_span &s)
{
    int lane = static_cast<int>(threadIdx.x) % rows::kWarp, half = lane % (rows::kWarp / 2);
    const T *from = kCentred && lane != half ? p.bias : p.weight;
    from += s.first + (2 * half - lane) * kPackSize<T>;
#pragma unroll
    for (int k = 0; k < kPacks; k++) {
        ptx::prefetch(from + k * s.step);
    }
}

template <int kPacks, typename T, typename Span>
__device__ inline void
load_row(rows::held<T, kPacks> &h, const T *row, const Span &s)
{
#pragma unroll
    for (int k = 0; k < kPacks; k++) {
        if (s.moves(k)) {
            ptx::load_once(row + s.first + k * s.step, h.pack[k].word);
        }
    }
    if (Span::kEdges && s.edge >= 0) {
        h.edge = row[s.edge];
    }
}

constexpr int kChains = 2; // sums of a thread side by side: none waits for the one before it

// Calls f(chain, x) for each element that a thread has of a row.
template <int kPacks, typename T, typename Span, typename Function>
__device__ inline void
each_chain(const Span &s, const rows::held<T, kPacks> &h, Function f)
{
#pragma unroll
    for (int k = 0; k < kPacks; k++) {
        if (s.has(k)) {
            rows::values<T> v = rows::values_of(h, k);
#pragma unroll
            for (int lane = 0; lane < kPackSize<T>; lane++) {
                f(lane % kChains, v.x[lane]);
            }
        }
    }
    if (Span::kEdges && s.edge >= 0) {
        f(0, to_f32(h.edge));
    }
}

// The terms of rows by the sums over them; where kScaled is false, t.scale is 1. Whether any of a
// warp's rows, and so of a team's, is to be taken again.
template <bool kScaled, int kPacks, int kRows, typename T, typename Team>
__device__ inline bool
take(
    const operands<T> &p, Team &team, rows::held<T, kPacks> (&x)[kRows],
    const typename Team::place (&at)[kRows], terms (&t)[kRows], bool (&moved)[kRows])
{
    float sums[kRows][2];
#pragma unroll
    for (int r = 0; r < kRows; r++) {
        float chains[2][kChains] = {};
        each_chain(at[r], x[r], [&](int chain, float v) {
            float d = kCentred ? t[r].deviation(v) : kScaled ? v * t[r].scale : v;
            chains[0][chain] += kCentred ? d : 0.0f;
            chains[1][chain] = fmaf(d, d, chains[1][chain]);
        });
#pragma unroll
        for (int i = 0; i < 2; i++) {
            sums[r][i] = chains[i][0] + chains[i][1];
        }
        rows::forget(x[r]);
    }
    team.reduce(sums, rows::add{});
    bool again = false;
#pragma unroll
    for (int r = 0; r < kRows; r++) {
        t[r].template settle<T>(sums[r], p.share, p.eps);
        again = t[r].again(moved[r]) || again;
    }
    return __any_sync(0xffffffff, again); // teams of lanes share a warp
}

// Whether weights are on their way beside the row: lanes have the registers, and short rows no time
// to wait for them later.
template <int kPacks, typename Team>
constexpr bool kEarly = kPacks <= (kCentred ? 2 : 4) && !std::is_base_of_v<rows::block_team, Team>;

// Writes a row's packs. kWeighed: all that weighs is there, in the phase of the row; kNear as in
// normalise.
template <bool kWeighed, bool kNear, int kPacks, typename T, typename Span>
__device__ inline void
write(
    const operands<T> &p, T *out, bool packed, const Span &s, const terms &t,
    const rows::held<T, kPacks> &x, weights<T> (&early)[kPacks], bool loaded)
{
#pragma unroll
    for (int k = 0; k < kPacks; k++) {
        int i = s.first + k * s.step;
        if (s.moves(k)) {
            float y[kPackSize<T>];
            if (kWeighed && !loaded) {
                early[k].load(p, i);
            }
            normalise<kNear>(t, rows::values_of(x, k).x, y);
            if (kWeighed) {
                early[k].apply(y);
            } else {
                weigh(p, i, p.shape.n, y);
            }
            rows::store_values(out + i, packed || !Span::kEdges, y);
        }
    }
}

// Rows that fill their teams have all that weighs, and packs alone.
template <int kPacks, int kRows, typename T, typename Team>
__device__ inline void
body(const operands<T> &p, Team &team)
{
    using place = typename Team::place;
    constexpr bool kAhead = kEarly<kPacks, Team>;
    rows::held<T, kPacks> x[kRows];
    weights<T> early[kRows][kPacks];
    place at[kRows];
    bool moved[kRows] = {};
    terms t[kRows];
    float seen[kRows][1] = {};
#pragma unroll
    for (int r = 0; r < kRows; r++) {
        int64_t row = team.row(r, kRows);
        at[r] = team.span_of(p.x, p.shape, row);
        load_row(x[r], p.x + row * p.shape.n, at[r]);
        if (kAhead && (!place::kEdges || weighed(p, p.x + row * p.shape.n))) {
#pragma unroll
            for (int k = 0; k < kPacks; k++) {
                if (at[r].has(k)) {
                    early[r][k].load(p, at[r].first + k * at[r].step);
                }
            }
        }
    }

    if constexpr (std::is_base_of_v<wide_block_team, Team>) {
        prefetch_weights<kPacks>(p, at[0]);
    }
    if (kCentred) {
        __syncwarp(); // else some of the loads are put behind the wait for this one
#pragma unroll
        for (int r = 0; r < kRows; r++) {
            int64_t row = team.row(r, kRows);
            seen[r][0] =
                row < p.shape.count ? to_f32(look(p.x + row * p.shape.n, p.shape.n)) : 0.0f;
        }
        begin_near<T>(seen, t);
    }
    if (take<false>(p, team, x, at, t, moved)) {
#pragma unroll 1
        while (take<true>(p, team, x, at, t, moved)) {
        }
    }

    bool packed = rows::same_phase(p.x, static_cast<const T *>(p.out));
#pragma unroll
    for (int r = 0; r < kRows; r++) {
        int64_t row = team.row(r, kRows);
        T *out = p.out + row * p.shape.n;
        if (place::kEdges && at[r].edge >= 0) {
            float v[1] = {to_f32(x[r].edge)}, edge[1];
            normalise(t[r], v, edge);
            weigh(p, at[r].edge, p.shape.n, edge);
            rows::store_values(out + at[r].edge, false, edge);
        }
        if (place::kEdges && !weighed(p, p.x + row * p.shape.n)) {
            write<false, false>(p, out, packed, at[r], t[r], x[r], early[r], kAhead);
        } else if (kPacks == kMostPacks && t[r].template is_near_zero<T>()) {
            rows::forget(x[r]);
            write<true, true>(p, out, packed, at[r], t[r], x[r], early[r], kAhead);
        } else {
            rows::forget(x[r]);
            write<true, false>(p, out, packed, at[r], t[r], x[r], early[r], kAhead);
        }
        if (row < p.shape.count && leads(team)) {
            t[r].save(p, row);
        }
    }
}

// Whether rows are packs alone, on 16-byte boundaries, and all that weighs them is there.
template <typename T>
bool
filled(const operands<T> &p, int64_t N)
{
    return rows::all_aligned(p.x, p.out, p.weight, p.bias) && N % kPackSize<T> == 0 && p.weight &&
           (p.bias || !kCentred);
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
        1.0f / static_cast<float>(N),
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
