// What the cells of recurrent layers compute for one unit of one row, in f32; and a call of a layer
// on CUDA, forward and backward. All tensors are dense. Kernels lie in the namespace of the op that
// they are compiled for, which its source defines as AICF_OP before it includes this.
#ifndef AICF_RECURRENT_CELLS_CUH
#define AICF_RECURRENT_CELLS_CUH

#include <aicf/cuda/activation.cuh>
#include <aicf/cuda/launch.cuh>
#include <aicf/cuda/numeric.cuh>

namespace aicf::AICF_OP {

enum class cell { tanh, gru, lstm };

// Of w_ih and w_hh, in units: gru's are r, z, n, lstm's i, f, g, o.
template <cell kCell> constexpr int kGates = kCell == cell::tanh ? 1 : kCell == cell::gru ? 3 : 4;

constexpr int kKept = 4; // values of a unit that a step keeps for the gradient, where it keeps any

// A call; what it does not have is NULL.
template <typename T> struct layer {
    int64_t S, N, D, H;
    bool reverse;
    const T *x, *h0, *c0, *w_ih, *w_hh, *b_ih, *b_hh;
    T *out, *hn, *cn, *gates, *cells;
};

template <typename T> struct slopes {
    int64_t S, N, D, H;
    bool reverse;
    const T *x, *h0, *c0, *w_ih, *w_hh, *fwd, *gates, *cells, *g_out, *g_hn, *g_cn;
    T *gx, *gh0, *gc0, *gw_ih, *gw_hh, *gb_ih, *gb_hh;
};

// The index along the sequence of step `at`.
template <typename P>
__host__ __device__ inline int64_t
time_of(const P &p, int64_t at)
{
    return p.reverse ? p.S - 1 - at : at;
}

// The workspace, part after part on boundaries of 256 bytes.
struct room {
    char *next;

    template <typename T> T *take(int64_t count)
    {
        T *found = reinterpret_cast<T *>(next);
        next += ceil_div(count * static_cast<int64_t>(sizeof(T)), 256) * 256;
        return found;
    }
};

// Functions of 16-bit floats may be quick ones.
template <typename T> constexpr bool kQuick = sizeof(T) == 2;

// h after a step: `in` is what the inputs and the biases give to the gates, `hidden` what the
// hidden state does. `carry` is gru's h or lstm's c before the step; the latter becomes the one
// after it. b_n: the bias of gru's n that r scales too.
template <cell kCell, bool kIsQuick>
__device__ inline float
forward_cell(
    const float (&in)[kGates<kCell>], const float (&hidden)[kGates<kCell>], float b_n, float &carry,
    float (&kept)[kKept])
{
    if constexpr (kCell == cell::tanh) {
        return tanh_of<kIsQuick>(in[0] + hidden[0]);
    } else if constexpr (kCell == cell::gru) {
        kept[0] = sigmoid_of<kIsQuick>(in[0] + hidden[0]);
        kept[1] = sigmoid_of<kIsQuick>(in[1] + hidden[1]);
        kept[3] = hidden[2] + b_n;
        kept[2] = tanh_of<kIsQuick>(in[2] + kept[0] * kept[3]);
        return (1.0f - kept[1]) * kept[2] + kept[1] * carry;
    } else {
        kept[0] = sigmoid_of<kIsQuick>(in[0] + hidden[0]);
        kept[1] = sigmoid_of<kIsQuick>(in[1] + hidden[1]);
        kept[2] = tanh_of<kIsQuick>(in[2] + hidden[2]);
        kept[3] = sigmoid_of<kIsQuick>(in[3] + hidden[3]);
        carry = kept[1] * carry + kept[0] * kept[2];
        return kept[3] * tanh_of<kIsQuick>(carry);
    }
}

// What a unit's step has for its gradient: h is tanh's after it or gru's before it.
struct record {
    float kept[kKept];
    float h, c_before, c_after;
};

// The gradients of the gates from that of h after the step: dx, and of gru's n as the hidden state
// sees it dn. `carry`: for lstm the gradient of c after the step, which becomes that of c before
// it; for gru it becomes what of dh goes to h before the step past the gates.
template <cell kCell, bool kIsQuick>
__device__ inline void
backward_cell(const record &r, float dh, float &carry, float (&dx)[kGates<kCell>], float &dn)
{
    const float(&k)[kKept] = r.kept;
    if constexpr (kCell == cell::tanh) {
        dx[0] = dh * (1.0f - r.h * r.h);
    } else if constexpr (kCell == cell::gru) {
        dx[2] = dh * (1.0f - k[1]) * (1.0f - k[2] * k[2]);
        dx[0] = dx[2] * k[3] * k[0] * (1.0f - k[0]);
        dx[1] = dh * (r.h - k[2]) * k[1] * (1.0f - k[1]);
        dn = dx[2] * k[0];
        carry = dh * k[1];
    } else {
        float squashed = tanh_of<kIsQuick>(r.c_after);
        float dc = carry + dh * k[3] * (1.0f - squashed * squashed);
        dx[0] = dc * k[2] * k[0] * (1.0f - k[0]);
        dx[1] = dc * r.c_before * k[1] * (1.0f - k[1]);
        dx[2] = dc * k[0] * (1.0f - k[2] * k[2]);
        dx[3] = dh * squashed * k[3] * (1.0f - k[3]);
        carry = dc * k[1];
    }
}

} // namespace aicf::AICF_OP

#endif
