// Gradients of recurrent layers by one launch for all steps, as persistent.cuh has it: from step to
// step go the gradients of the gates, and a block keeps the columns of w_hh that belong to its
// units, out of a turned copy. Bound by the L2, out of which a block reads all of a step's
// gradients.
#ifndef AICF_RECURRENT_PERSISTENT_BWD_CUH
#define AICF_RECURRENT_PERSISTENT_BWD_CUH

#include "persistent.cuh"

namespace aicf::AICF_OP {

template <typename T> struct persistent_slopes {
    int64_t S, N, H;
    bool reverse;
    const T *w_turned, *h0, *c0, *fwd, *gates, *cells, *g_out, *g_hn, *g_cn;
    T *dx, *dw, *gh0, *gc0;
    int unit_blocks, chunks, buffers, first_group;
};

template <typename T, int kUnits, int kTiles>
using backward_shape = std::conditional_t<
    sizeof(T) == 4, f32_shape<1, kUnits, kTiles>,
    block_shape<1, kUnits, kTiles, 12 / kTiles, false>>;

// What a unit's step has for its gradient, as it lies in memory: it is asked for long before it is
// used.
template <typename T> struct raw_record {
    T kept[kKept], h, c_before, c_after, g_out;
};

template <typename T, cell kCell>
__device__ inline void
ask_record(
    const persistent_slopes<T> &p, int64_t at, int64_t place, int64_t kept_place, raw_record<T> &r)
{
    int64_t state = p.N * p.H, time = time_of(p, at), before = time_of(p, at - 1);
    if (p.g_out) {
        r.g_out = p.g_out[time * state + place];
    }
    if constexpr (kCell == cell::tanh) {
        r.h = p.fwd[time * state + place];
    } else {
#pragma unroll
        for (int g = 0; g < kKept; g++) {
            r.kept[g] = p.gates[time * state * kKept + kept_place + g * p.H];
        }
    }
    if constexpr (kCell == cell::gru) {
        r.h = at > 0 ? p.fwd[before * state + place] : p.h0[place];
    } else if constexpr (kCell == cell::lstm) {
        r.c_after = p.cells[time * state + place];
        r.c_before = at > 0 ? p.cells[before * state + place] : p.c0[place];
    }
}

template <typename T, cell kCell>
__device__ inline record
record_of(const raw_record<T> &raw)
{
    record r = {};
    if constexpr (kCell != cell::tanh) {
#pragma unroll
        for (int g = 0; g < kKept; g++) {
            r.kept[g] = to_f32(raw.kept[g]);
        }
    }
    if constexpr (kCell == cell::lstm) {
        r.c_before = to_f32(raw.c_before);
        r.c_after = to_f32(raw.c_after);
    } else {
        r.h = to_f32(raw.h);
    }
    return r;
}

template <typename T, cell kCell, int kUnits, int kTiles>
__global__ void
    __launch_bounds__(256, 1) backward_persistent(const __grid_constant__ persistent_slopes<T> p)
{
    using B = backward_shape<T, kUnits, kTiles>;
    constexpr int kG = kGates<kCell>;
    extern __shared__ __align__(128) uint8_t shared[];
    float *sums = reinterpret_cast<float *>(shared);
    int block = static_cast<int>(blockIdx.x) % p.unit_blocks;
    int group = static_cast<int>(blockIdx.x) / p.unit_blocks + p.first_group;
    int64_t first_unit = static_cast<int64_t>(block) * kUnits, wide = kG * p.H;
    int64_t first_row = static_cast<int64_t>(group) * B::kM, state = p.N * p.H;
    int count = static_cast<int>(p.N - first_row < B::kM ? p.N - first_row : B::kM);
    share_of_depth<B> mine(p.chunks);
    weights_of<B> weights(
        weight_lines<B, T>{p.w_turned, p.H, wide, first_unit}, p.chunks, mine,
        reinterpret_cast<uint4 *>(shared + p.buffers * B::kSumBytes));

    // This thread's cells: where they lie in a state, in what is kept and in the gates.
    int64_t place[B::kCells], kept_place[B::kCells], gate_place[B::kCells]; // place -1: none
    float dh[B::kCells] = {}, carry[B::kCells] = {};
#pragma unroll
    for (int c = 0; c < B::kCells; c++) {
        int i = static_cast<int>(threadIdx.x) + c * B::kThreads, row = i / kUnits;
        int64_t unit = first_unit + i % kUnits;
        place[c] = row < count && unit < p.H ? (first_row + row) * p.H + unit : -1;
        kept_place[c] = (first_row + row) * kKept * p.H + unit;
        gate_place[c] = (first_row + row) * wide + unit;
        if (place[c] >= 0) {
            dh[c] = p.g_hn ? to_f32(p.g_hn[place[c]]) : 0.0f;
            carry[c] = p.g_cn ? to_f32(p.g_cn[place[c]]) : 0.0f;
        }
    }
    __syncthreads(); // the weights are there

    // Step -1 is what is before the first: the gradient of h0.
    int64_t last = p.gh0 ? -1 : 0;
    for (int64_t at = p.S - 1; at >= last; at--) {
        raw_record<T> raw[B::kCells] = {};
#pragma unroll
        for (int c = 0; c < B::kCells; c++) {
            if (at >= 0 && place[c] >= 0) {
                ask_record<T, kCell>(p, at, place[c], kept_place[c], raw[c]);
            }
        }
        float *meeting = sums + (p.buffers > 1 ? (at & 1) : 0) * (B::kSumBytes / 4);
        if (at + 1 < p.S) {
            const T *next = p.dw + (time_of(p, at + 1) * p.N + first_row) * wide;
            multiply_rows<T, B>(next, count, static_cast<int>(wide), weights, mine, true, meeting);
        }
        __syncthreads();

#pragma unroll
        for (int c = 0; c < B::kCells; c++) {
            int i = static_cast<int>(threadIdx.x) + c * B::kThreads;
            if (i >= B::kM * kUnits) { // whole warps
                break;
            }
            if (at + 1 < p.S) {
                dh[c] = sum_of_warps<B>(meeting, i / kUnits, i % kUnits);
                dh[c] += kCell == cell::gru ? carry[c] : 0.0f;
            }
            if (at < 0) {
                continue;
            }
            float dx[kG], dn = 0.0f;
            float all = p.g_out ? dh[c] + to_f32(raw[c].g_out) : dh[c];
            backward_cell<kCell, kQuick<T>>(record_of<T, kCell>(raw[c]), all, carry[c], dx, dn);
            int64_t to = time_of(p, at) * p.N * wide + gate_place[c];
#pragma unroll
            for (int g = 0; g < kG; g++) {
                bool is_n = kCell == cell::gru && g == 2;
                store_pair(p.dw + to + g * p.H, of_f32<T>(is_n ? dn : dx[g]), place[c] >= 0);
                if (place[c] >= 0 && at >= kFetched) {
                    int64_t later = time_of(p, at - kFetched) * p.N * wide + gate_place[c];
                    ptx::prefetch_l2(p.dw + later + g * p.H);
                }
            }
            if (kCell == cell::gru && place[c] >= 0) {
#pragma unroll
                for (int g = 0; g < kG; g++) {
                    p.dx[to + g * p.H] = of_f32<T>(dx[g]);
                }
            }
        }
        if (p.buffers == 1) {
            __syncthreads(); // the sums are read
        }
    }
#pragma unroll
    for (int c = 0; c < B::kCells; c++) {
        if (p.gh0 && place[c] >= 0) {
            p.gh0[place[c]] = of_f32<T>(dh[c]);
        }
        if (p.gc0 && place[c] >= 0) {
            p.gc0[place[c]] = of_f32<T>(carry[c]);
        }
    }
}

template <typename T, cell kCell, int kUnits, int kTiles>
bool
launch_backward_units(const persistent_slopes<T> &p, aicf_stream stream, aicf_status &status)
{
    return launch_groups<backward_shape<T, kUnits, kTiles>>(
        backward_persistent<T, kCell, kUnits, kTiles>, p, kGates<kCell> * p.H, stream, status);
}

template <typename T, cell kCell, int kTiles>
bool
launch_backward_tiles(const persistent_slopes<T> &p, aicf_stream stream, aicf_status &status)
{
    if (launch_backward_units<T, kCell, 8, kTiles>(p, stream, status)) {
        return true;
    }
    if constexpr (sizeof(T) == 2) {
        return launch_backward_units<T, kCell, 16, kTiles>(p, stream, status);
    }
    return false;
}

template <typename T>
aicf_status
multiply_on_units(const product<T, T> &p, aicf_stream stream)
{
    if constexpr (sizeof(T) == 4) {
        return multiply_any(p, stream);
    } else {
        return p.a.k_step == 1 ? multiply_along<T, T, true, false>(p, stream)
                               : multiply_along<T, T, false, false>(p, stream);
    }
}

// False, with no step made, where it does not fit on the device. Requires no size to be 0.
template <typename T, cell kCell>
bool
launch_backward_persistent(
    const slopes<T> &p, void *workspace, aicf_stream stream, aicf_status &status)
{
    backward_room<T, kCell> left(p, workspace);
    status = launch_turn(p.w_hh, kGates<kCell> * p.H, p.H, left.w_turned, stream);
    if (status.kind) {
        return true;
    }
    persistent_slopes<T> all = {};
    all.S = p.S;
    all.N = p.N;
    all.H = p.H;
    all.reverse = p.reverse;
    all.w_turned = left.w_turned;
    all.h0 = p.h0;
    all.c0 = p.c0;
    all.fwd = p.fwd;
    all.gates = p.gates;
    all.cells = p.cells;
    all.g_out = p.g_out;
    all.g_hn = p.g_hn;
    all.g_cn = p.g_cn;
    all.dx = left.to.dx;
    all.dw = left.to.dw;
    all.gh0 = p.gh0;
    all.gc0 = p.gc0;
    status = mark_unwritten(left.to.dw, p.S * p.N * p.H * kGates<kCell>, stream);
    if (status.kind) {
        return true;
    }
    bool fits = (p.N > 16 && launch_backward_tiles<T, kCell, 2>(all, stream, status)) ||
                launch_backward_tiles<T, kCell, 1>(all, stream, status);
    if (fits && !status.kind) {
        status = launch_weights<T, kCell>(p, left.to, multiply_on_units<T>, stream);
    }
    return fits;
}

} // namespace aicf::AICF_OP

#endif
