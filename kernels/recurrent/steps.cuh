// Recurrent layers on CUDA as one launch a step, on any arch: any sizes at any address, f32 sums.
//
// A warp takes one unit and 8 rows of the batch: its lanes share the depth of the products with the
// weights and add up what they have, each sum in the same order at every run. Then 8 lanes make the
// cell's values of the 8 rows. Bound by what launches cost, then by the L2.
#ifndef AICF_RECURRENT_STEPS_CUH
#define AICF_RECURRENT_STEPS_CUH

#include "cells.cuh"
#include "product.cuh"

namespace aicf::AICF_OP {

constexpr int kRows = 8;  // of the batch, a warp
constexpr int kWarps = 8; // a block, one unit each

// ---- sums ---------------------------------------------------------------------------------------

// sums[g * kRows + b] += weights[g] @ rows[b], of this lane's share. Rows beyond `count` are the
// last one again.
template <int kLines, typename T>
__device__ inline void
add_products(
    const T *weights, int64_t weights_step, const T *rows, int64_t depth, int count,
    float (&sums)[kLines * kRows])
{
    int64_t at[kRows];
#pragma unroll
    for (int b = 0; b < kRows; b++) {
        at[b] = (b < count ? b : count - 1) * depth;
    }
#pragma unroll 2
    for (int64_t k = threadIdx.x % 32; k < depth; k += 32) {
        float w[kLines];
#pragma unroll
        for (int g = 0; g < kLines; g++) {
            w[g] = to_f32(weights[g * weights_step + k]);
        }
#pragma unroll
        for (int b = 0; b < kRows; b++) {
            float y = to_f32(rows[at[b] + k]);
#pragma unroll
            for (int g = 0; g < kLines; g++) {
                sums[g * kRows + b] += w[g] * y;
            }
        }
    }
}

// The sums over the lanes: sum i in each lane with i = lane % kCount. Each exchange halves what a
// lane still adds up, once that is more than the lanes it is shared by.
template <int kCount>
__device__ inline float
fold(float (&sums)[kCount])
{
    static_assert(kCount == 8 || kCount == 32, "a power of two up to the lanes");
    int lane = static_cast<int>(threadIdx.x) % 32, have = kCount;
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
        if (have <= offset) {
#pragma unroll
            for (int i = 0; i < kCount; i++) {
                if (i < have) {
                    sums[i] += __shfl_xor_sync(0xffffffff, sums[i], offset);
                }
            }
            continue;
        }
        have /= 2;
#pragma unroll
        for (int i = 0; i < kCount / 2; i++) {
            if (i < have) {
                float mine = lane & offset ? sums[i + have] : sums[i];
                float theirs = lane & offset ? sums[i] : sums[i + have];
                sums[i] = mine + __shfl_xor_sync(0xffffffff, theirs, offset);
            }
        }
    }
    return sums[0];
}

// ---- forward ------------------------------------------------------------------------------------

template <typename T> struct forward_step {
    int64_t N, H;
    unsigned unit_blocks;
    const T *h, *w_hh, *b_n; // h: before the step
    const float *in;         // [N, gates H]
    const T *c0;             // at the first step, else NULL
    float *c;
    T *out, *hn, *cn, *gates, *cells; // hn and cn at the last step, else NULL
};

template <typename T, cell kCell>
__global__ void
__launch_bounds__(kWarps * 32) forward(const __grid_constant__ forward_step<T> p)
{
    constexpr int kG = kGates<kCell>, kSums = kG == 1 ? kRows : 32;
    int lane = static_cast<int>(threadIdx.x) % 32;
    int64_t unit = static_cast<int64_t>(blockIdx.x % p.unit_blocks) * kWarps + threadIdx.x / 32;
    int64_t first = static_cast<int64_t>(blockIdx.x / p.unit_blocks) * kRows;
    if (unit >= p.H) {
        return;
    }
    int count = static_cast<int>(p.N - first < kRows ? p.N - first : kRows);
    float sums[kG * kRows] = {}, all[kSums] = {};
    add_products<kG>(p.w_hh + unit * p.H, p.H * p.H, p.h + first * p.H, p.H, count, sums);
#pragma unroll
    for (int i = 0; i < kG * kRows; i++) {
        all[i] = sums[i];
    }
    float sum = fold(all), hidden[kG];
#pragma unroll
    for (int g = 0; g < kG; g++) {
        hidden[g] = __shfl_sync(0xffffffff, sum, g * kRows + lane % kRows);
    }
    if (lane >= count) {
        return;
    }

    int64_t row = first + lane, at = row * p.H + unit;
    float in[kG], kept[kKept] = {}, carry = 0.0f;
#pragma unroll
    for (int g = 0; g < kG; g++) {
        in[g] = p.in[(row * kG + g) * p.H + unit];
    }
    if constexpr (kCell == cell::gru) {
        carry = to_f32(p.h[at]);
    } else if constexpr (kCell == cell::lstm) {
        carry = p.c0 ? to_f32(p.c0[at]) : p.c[at];
    }
    float b_n = p.b_n ? to_f32(p.b_n[unit]) : 0.0f;
    T h = of_f32<T>(forward_cell<kCell, kQuick<T>>(in, hidden, b_n, carry, kept));
    p.out[at] = h;
    if (p.hn) {
        p.hn[at] = h;
    }
    if constexpr (kCell == cell::lstm) {
        p.c[at] = carry;
        if (p.cells) {
            p.cells[at] = of_f32<T>(carry);
        }
        if (p.cn) {
            p.cn[at] = of_f32<T>(carry);
        }
    }
    if (kCell != cell::tanh && p.gates) {
#pragma unroll
        for (int g = 0; g < kKept; g++) {
            p.gates[(row * kKept + g) * p.H + unit] = of_f32<T>(kept[g]);
        }
    }
}

inline aicf_status
copy(void *to, const void *from, int64_t bytes, aicf_stream stream)
{
    return !to || bytes == 0 ? aicf_ok()
                             : status_of(cudaMemcpyAsync(
                                   to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice,
                                   reinterpret_cast<cudaStream_t>(stream)));
}

// What the inputs and the biases give to the gates of all steps.
template <typename T, cell kCell>
product<T, float>
inputs_of(const layer<T> &p, float *out)
{
    constexpr int kG = kGates<kCell>;
    product<T, float> all = {};
    all.a = {p.x, p.D, 1};
    all.b = {p.w_ih, p.D, 1};
    all.M = p.S * p.N;
    all.N = kG * p.H;
    all.K = p.D;
    all.out = out;
    all.bias = p.b_ih;
    all.other = p.b_hh;
    all.others = kCell == cell::gru ? 2 * p.H : all.N; // gru's n has its own inside of the cell
    return all;
}

template <typename T, cell kCell>
const T *
bias_of_n(const layer<T> &p)
{
    return kCell == cell::gru && p.b_hh ? p.b_hh + 2 * p.H : nullptr;
}

// Where there are no steps the states stay.
template <typename T>
aicf_status
copy_states(const layer<T> &p, aicf_stream stream)
{
    int64_t bytes = p.N * p.H * static_cast<int64_t>(sizeof(T));
    aicf_status status = copy(p.hn, p.h0, bytes, stream);
    return status.kind ? status : copy(p.cn, p.c0, bytes, stream);
}

template <typename T, cell kCell>
aicf_status
launch_forward(const layer<T> &p, void *workspace, aicf_stream stream)
{
    constexpr int kG = kGates<kCell>;
    int64_t state = p.N * p.H;
    if (state == 0 || p.S == 0) {
        return copy_states(p, stream);
    }
    room left = {static_cast<char *>(workspace)};
    float *in = left.take<float>(p.S * state * kG), *c = left.take<float>(state);
    aicf_status status = multiply_any(inputs_of<T, kCell>(p, in), stream);

    forward_step<T> step = {};
    step.N = p.N;
    step.H = p.H;
    step.unit_blocks = static_cast<unsigned>(ceil_div(p.H, kWarps));
    step.w_hh = p.w_hh;
    step.b_n = bias_of_n<T, kCell>(p);
    step.h = p.h0;
    step.c0 = p.c0;
    step.c = c;
    unsigned blocks = step.unit_blocks * static_cast<unsigned>(ceil_div(p.N, kRows));
    for (int64_t at = 0; at < p.S && !status.kind; at++) {
        int64_t time = time_of(p, at);
        step.in = in + time * state * kG;
        step.out = p.out + time * state;
        step.gates = p.gates ? p.gates + time * state * kKept : nullptr;
        step.cells = p.cells ? p.cells + time * state : nullptr;
        step.hn = at + 1 == p.S ? p.hn : nullptr;
        step.cn = at + 1 == p.S ? p.cn : nullptr;
        status = launch(forward<T, kCell>, blocks, kWarps * 32, 0, stream, step);
        step.h = step.out;
        step.c0 = nullptr;
    }
    return status;
}

// ---- backward -----------------------------------------------------------------------------------

template <typename T> struct backward_step {
    int64_t N, H;
    unsigned unit_blocks;
    const T *next, *w_turned; // the gates' gradients of the step after; NULL at the last step
    const T *g_out, *g_hn, *g_cn;
    float *carry;
    const T *gates, *h, *c_before, *c_after;
    T *dx, *dw;     // dw: gru's, as the hidden state sees them
    bool is_before; // no step, but what is before the first: gh0 and gc0
    T *gh0, *gc0;
};

// The record of a unit's step; `at` is its place in a state.
template <typename T, cell kCell>
__device__ inline record
record_of(const backward_step<T> &p, int64_t row, int64_t unit)
{
    int64_t at = row * p.H + unit;
    record r = {};
    if constexpr (kCell != cell::lstm) {
        r.h = to_f32(p.h[at]);
    } else {
        r.c_before = to_f32(p.c_before[at]);
        r.c_after = to_f32(p.c_after[at]);
    }
    if constexpr (kCell != cell::tanh) {
#pragma unroll
        for (int g = 0; g < kKept; g++) {
            r.kept[g] = to_f32(p.gates[(row * kKept + g) * p.H + unit]);
        }
    }
    return r;
}

template <typename T, cell kCell>
__global__ void
__launch_bounds__(kWarps * 32) backward(const __grid_constant__ backward_step<T> p)
{
    constexpr int kG = kGates<kCell>;
    int lane = static_cast<int>(threadIdx.x) % 32;
    int64_t unit = static_cast<int64_t>(blockIdx.x % p.unit_blocks) * kWarps + threadIdx.x / 32;
    int64_t first = static_cast<int64_t>(blockIdx.x / p.unit_blocks) * kRows, wide = p.H * kG;
    if (unit >= p.H) {
        return;
    }
    int count = static_cast<int>(p.N - first < kRows ? p.N - first : kRows);
    float sums[kRows] = {};
    if (p.next) {
        add_products<1>(p.w_turned + unit * wide, 0, p.next + first * wide, wide, count, sums);
    }
    float dh = fold(sums);
    if (lane >= count) {
        return;
    }

    int64_t row = first + lane, at = row * p.H + unit;
    float carry = 0.0f;
    if (p.next) {
        carry = kCell == cell::tanh ? 0.0f : p.carry[at];
        dh += kCell == cell::gru ? carry : 0.0f;
    } else {
        dh = p.g_hn ? to_f32(p.g_hn[at]) : 0.0f;
        carry = p.g_cn ? to_f32(p.g_cn[at]) : 0.0f;
    }
    if (p.is_before) {
        if (p.gh0) {
            p.gh0[at] = of_f32<T>(dh);
        }
        if (p.gc0) {
            p.gc0[at] = of_f32<T>(carry);
        }
        return;
    }
    dh += p.g_out ? to_f32(p.g_out[at]) : 0.0f;
    float dx[kG], dn = 0.0f;
    backward_cell<kCell, kQuick<T>>(record_of<T, kCell>(p, row, unit), dh, carry, dx, dn);
#pragma unroll
    for (int g = 0; g < kG; g++) {
        p.dx[row * wide + g * p.H + unit] = of_f32<T>(dx[g]);
        if (kCell == cell::gru) {
            p.dw[row * wide + g * p.H + unit] = of_f32<T>(g == 2 ? dn : dx[g]);
        }
    }
    if (kCell != cell::tanh) {
        p.carry[at] = carry;
    }
}

// What the steps hand to the products after them.
template <typename T> struct gate_slopes {
    T *dx, *dw, *before; // before: the hidden states that the steps saw, [S, N, H]
};

template <typename T, cell kCell>
aicf_status
launch_backward_steps(
    const slopes<T> &p, const gate_slopes<T> &to, T *w_turned, float *carry, aicf_stream stream)
{
    constexpr int kG = kGates<kCell>;
    int64_t state = p.N * p.H;
    aicf_status status = launch_turn(p.w_hh, kG * p.H, p.H, w_turned, stream);
    backward_step<T> step = {};
    step.N = p.N;
    step.H = p.H;
    step.unit_blocks = static_cast<unsigned>(ceil_div(p.H, kWarps));
    step.w_turned = w_turned;
    step.g_hn = p.g_hn;
    step.g_cn = p.g_cn;
    step.carry = carry;
    unsigned blocks = step.unit_blocks * static_cast<unsigned>(ceil_div(p.N, kRows));
    for (int64_t at = p.S - 1; at >= 0 && !status.kind; at--) {
        int64_t time = time_of(p, at), before = time_of(p, at - 1);
        step.g_out = p.g_out ? p.g_out + time * state : nullptr;
        step.gates = p.gates ? p.gates + time * state * kKept : nullptr;
        step.h = kCell == cell::tanh ? p.fwd + time * state
                 : at > 0            ? p.fwd + before * state
                                     : p.h0;
        step.c_after = p.cells ? p.cells + time * state : nullptr;
        step.c_before = at > 0 && p.cells ? p.cells + before * state : p.c0;
        step.dx = to.dx + time * state * kG;
        step.dw = to.dw + time * state * kG;
        status = launch(backward<T, kCell>, blocks, kWarps * 32, 0, stream, step);
        step.next = step.dw;
    }
    if (!status.kind && (p.gh0 || p.gc0)) {
        step.is_before = true;
        step.gh0 = p.gh0;
        step.gc0 = p.gc0;
        status = launch(backward<T, kCell>, blocks, kWarps * 32, 0, stream, step);
    }
    return status;
}

template <typename T>
aicf_status
copy_before(const slopes<T> &p, T *before, aicf_stream stream)
{
    int64_t state = p.N * p.H, rest = (p.S - 1) * state;
    const int64_t size = sizeof(T);
    aicf_status status = copy(before + (p.reverse ? rest : 0), p.h0, state * size, stream);
    return status.kind ? status
                       : copy(
                             before + (p.reverse ? 0 : state), p.fwd + (p.reverse ? state : 0),
                             rest * size, stream);
}

// gx, gw_ih and gw_hh as products.
template <typename T, cell kCell>
product<T, T>
slope_of_x(const slopes<T> &p, const gate_slopes<T> &from)
{
    int64_t wide = kGates<kCell> * p.H;
    product<T, T> all = {};
    all.a = {from.dx, wide, 1};
    all.b = {p.w_ih, 1, p.D};
    all.M = p.S * p.N;
    all.N = p.D;
    all.K = wide;
    all.out = p.gx;
    return all;
}

template <typename T, cell kCell>
product<T, T>
slope_of_w(const slopes<T> &p, const T *dx, const T *x, int64_t width, T *out)
{
    int64_t wide = kGates<kCell> * p.H;
    product<T, T> all = {};
    all.a = {dx, 1, wide};
    all.b = {x, 1, width};
    all.M = wide;
    all.N = width;
    all.K = p.S * p.N;
    all.out = out;
    return all;
}

// `multiply`: how products are made.
template <typename T, cell kCell, typename Multiply>
aicf_status
launch_weights(
    const slopes<T> &p, const gate_slopes<T> &from, Multiply multiply, aicf_stream stream)
{
    aicf_status status = aicf_ok();
    if (p.gx) {
        status = multiply(slope_of_x<T, kCell>(p, from), stream);
    }
    if (!status.kind && p.gw_ih) {
        status = multiply(slope_of_w<T, kCell>(p, from.dx, p.x, p.D, p.gw_ih), stream);
    }
    if (!status.kind && p.gw_hh) {
        status = p.S > 0 ? copy_before(p, from.before, stream) : status;
        if (!status.kind) {
            status = multiply(slope_of_w<T, kCell>(p, from.dw, from.before, p.H, p.gw_hh), stream);
        }
    }
    int64_t wide = kGates<kCell> * p.H;
    if (!status.kind) {
        status = launch_sum_columns(from.dx, p.S * p.N, wide, p.gb_ih, stream);
    }
    return status.kind ? status : launch_sum_columns(from.dw, p.S * p.N, wide, p.gb_hh, stream);
}

// The parts of the workspace.
template <typename T, cell kCell> struct backward_room {
    gate_slopes<T> to;
    T *w_turned;
    float *carry;

    backward_room(const slopes<T> &p, void *workspace)
    {
        room left = {static_cast<char *>(workspace)};
        int64_t state = p.N * p.H, wide = kGates<kCell> * p.H;
        to.dx = left.take<T>(p.S * p.N * wide);
        to.dw = kCell == cell::gru ? left.take<T>(p.S * p.N * wide) : to.dx;
        to.before = left.take<T>(p.S * state);
        w_turned = left.take<T>(wide * p.H);
        carry = left.take<float>(state);
    }
};

template <typename T, cell kCell>
aicf_status
launch_backward(const slopes<T> &p, void *workspace, aicf_stream stream)
{
    backward_room<T, kCell> left(p, workspace);
    aicf_status status = aicf_ok();
    if (p.N * p.H > 0) {
        status = launch_backward_steps<T, kCell>(p, left.to, left.w_turned, left.carry, stream);
    }
    return status.kind ? status : launch_weights<T, kCell>(p, left.to, multiply_any<T, T>, stream);
}

} // namespace aicf::AICF_OP

#endif
