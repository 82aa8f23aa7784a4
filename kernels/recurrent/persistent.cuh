// Recurrent layers on sm_80 and later, f16 and bf16 on the matrix units, f32 by multiply-adds: one
// launch for all steps, in which a block owns some units and keeps their rows of w_hh in shared
// memory. Requires D and H in eights, addresses on multiples of 16 bytes, and all blocks of a group
// of rows of the batch on the device at once (a cooperative launch).
//
// In a step a warp takes a share of the depth, reads the hidden states that it is of from the out,
// where the step before leaves them, and multiplies. Sums meet in shared memory, and threads make
// cells of them. No flag says that a state is there: before the launch the out is filled with words
// that no state is (kUnwritten), and a warp reads again as long as it meets one. So a state is on
// its way between multiprocessors but once, and the order of stores does not matter. Groups have
// nothing to do with each other. Bound by that way.
#ifndef AICF_RECURRENT_PERSISTENT_CUH
#define AICF_RECURRENT_PERSISTENT_CUH

#include "blocks_f32.cuh"
#include "steps.cuh"

namespace aicf::AICF_OP {

template <typename T> struct persistent {
    int64_t S, N, H;
    bool reverse;
    const T *h0, *c0, *w_hh, *b_n;
    const float *in;
    T *out, *hn, *cn, *gates, *cells;
    int unit_blocks, chunks, buffers, first_group; // buffers: places where sums meet, in turns
};

template <typename T, cell kCell, int kUnits, int kTiles>
using forward_shape = std::conditional_t<
    sizeof(T) == 4, f32_shape<kGates<kCell>, kUnits, kTiles>,
    block_shape<kGates<kCell>, kUnits, kTiles, 4, kUnits == 8>>;

template <typename T, cell kCell, int kUnits, int kTiles>
__global__ void
    __launch_bounds__(256, 1) forward_persistent(const __grid_constant__ persistent<T> p)
{
    using B = forward_shape<T, kCell, kUnits, kTiles>;
    constexpr int kG = kGates<kCell>;
    extern __shared__ __align__(128) uint8_t shared[];
    float *sums = reinterpret_cast<float *>(shared);
    int block = static_cast<int>(blockIdx.x) % p.unit_blocks;
    int group = static_cast<int>(blockIdx.x) / p.unit_blocks + p.first_group;
    int64_t first_unit = static_cast<int64_t>(block) * kUnits;
    int64_t first_row = static_cast<int64_t>(group) * B::kM;
    int count = static_cast<int>(p.N - first_row < B::kM ? p.N - first_row : B::kM);
    share_of_depth<B> mine(p.chunks);
    weights_of<B> weights(
        weight_lines<B, T>{p.w_hh, p.H, p.H, first_unit}, p.chunks, mine,
        reinterpret_cast<uint4 *>(shared + p.buffers * B::kSumBytes));

    // This thread's cells.
    int64_t place[B::kCells];                           // in a state; -1: none
    int64_t in_place[B::kCells], kept_place[B::kCells]; // of its first gate
    float carry[B::kCells] = {}, b_n[B::kCells] = {};
#pragma unroll
    for (int c = 0; c < B::kCells; c++) {
        int i = static_cast<int>(threadIdx.x) + c * B::kThreads, row = i / kUnits;
        int64_t unit = first_unit + i % kUnits;
        place[c] = row < count && unit < p.H ? (first_row + row) * p.H + unit : -1;
        in_place[c] = (first_row + row) * kG * p.H + unit;
        kept_place[c] = (first_row + row) * kKept * p.H + unit;
        if (place[c] >= 0) {
            b_n[c] = p.b_n ? to_f32(p.b_n[unit]) : 0.0f;
            if constexpr (kCell != cell::tanh) {
                carry[c] = to_f32((kCell == cell::gru ? p.h0 : p.c0)[place[c]]);
            }
        }
    }
    __syncthreads(); // the weights are there

    const T *before = p.h0;
    int64_t state = p.N * p.H;
    for (int64_t at = 0; at < p.S; at++) {
        int64_t time = time_of(p, at);
        float in[B::kCells][kG]; // asked for long before they are used
#pragma unroll
        for (int c = 0; c < B::kCells; c++) {
#pragma unroll
            for (int g = 0; g < kG; g++) {
                in[c][g] = place[c] >= 0 ? p.in[time * state * kG + in_place[c] + g * p.H] : 0.0f;
            }
        }

        float *meeting = sums + (p.buffers > 1 ? at % 2 : 0) * (B::kSumBytes / 4);
        multiply_rows<T, B>(
            before + first_row * p.H, count, static_cast<int>(p.H), weights, mine, at > 0, meeting);
        __syncthreads();

        float kept[B::kCells][kKept] = {};
#pragma unroll
        for (int c = 0; c < B::kCells; c++) {
            int i = static_cast<int>(threadIdx.x) + c * B::kThreads;
            if (i >= B::kM * kUnits) { // whole warps
                break;
            }
            float hidden[kG];
#pragma unroll
            for (int g = 0; g < kG; g++) {
                hidden[g] = sum_of_warps<B>(meeting, i / kUnits, g * kUnits + i % kUnits);
            }
            T h =
                of_f32<T>(forward_cell<kCell, kQuick<T>>(in[c], hidden, b_n[c], carry[c], kept[c]));
            store_pair(p.out + time * state + place[c], h, place[c] >= 0);
            if (place[c] >= 0 && at + kFetched < p.S) {
                ptx::prefetch_l2(p.out + time_of(p, at + kFetched) * state + place[c]);
            }
            if constexpr (kCell == cell::gru) {
                carry[c] = to_f32(h);
            }
            if (at + 1 == p.S && place[c] >= 0) {
                p.hn[place[c]] = h;
            }
        }
        if (p.buffers == 1) {
            __syncthreads(); // the sums are read; of two places, the next step's barrier says so
        }

        // What the gradient needs, while others go on.
        before = p.out + time * state;
#pragma unroll
        for (int c = 0; c < B::kCells; c++) {
            if (kCell != cell::tanh && p.gates && place[c] >= 0) {
#pragma unroll
                for (int g = 0; g < kKept; g++) {
                    p.gates[time * state * kKept + kept_place[c] + g * p.H] = of_f32<T>(kept[c][g]);
                }
            }
            if (kCell == cell::lstm && p.cells && place[c] >= 0) {
                p.cells[time * state + place[c]] = of_f32<T>(carry[c]);
            }
        }
    }
    if constexpr (kCell == cell::lstm) {
#pragma unroll
        for (int c = 0; c < B::kCells; c++) {
            if (place[c] >= 0) {
                p.cn[place[c]] = of_f32<T>(carry[c]);
            }
        }
    }
}

// ---- launches -----------------------------------------------------------------------------------

template <typename T, cell kCell, int kUnits, int kTiles>
bool
launch_forward_units(const persistent<T> &p, aicf_stream stream, aicf_status &status)
{
    return launch_groups<forward_shape<T, kCell, kUnits, kTiles>>(
        forward_persistent<T, kCell, kUnits, kTiles>, p, p.H, stream, status);
}

// Few units a block spread the weights over more multiprocessors, if there are as many.
template <typename T, cell kCell, int kTiles>
bool
launch_forward_tiles(const persistent<T> &p, aicf_stream stream, aicf_status &status)
{
    if (launch_forward_units<T, kCell, 8, kTiles>(p, stream, status)) {
        return true;
    }
    if constexpr (sizeof(T) == 2) {
        return launch_forward_units<T, kCell, 16, kTiles>(p, stream, status);
    }
    return false;
}

// False, with no step made, where it does not fit on the device. Requires no size to be 0.
template <typename T, cell kCell>
bool
launch_persistent(const layer<T> &p, void *workspace, aicf_stream stream, aicf_status &status)
{
    room left = {static_cast<char *>(workspace)};
    float *in = left.take<float>(p.S * p.N * p.H * kGates<kCell>);
    persistent<T> all = {};
    all.S = p.S;
    all.N = p.N;
    all.H = p.H;
    all.reverse = p.reverse;
    all.h0 = p.h0;
    all.c0 = p.c0;
    all.w_hh = p.w_hh;
    all.b_n = bias_of_n<T, kCell>(p);
    all.in = in;
    all.out = p.out;
    all.hn = p.hn;
    all.cn = p.cn;
    all.gates = p.gates;
    all.cells = p.cells;
    if constexpr (sizeof(T) == 2) {
        status = multiply_along<T, float, true, true>(inputs_of<T, kCell>(p, in), stream);
    } else {
        status = multiply_any(inputs_of<T, kCell>(p, in), stream);
    }
    if (!status.kind) {
        status = mark_unwritten(p.out, p.S * p.N * p.H, stream);
    }
    if (status.kind) {
        return true;
    }
    return (p.N > 16 && launch_forward_tiles<T, kCell, 2>(all, stream, status)) ||
           launch_forward_tiles<T, kCell, 1>(all, stream, status);
}

} // namespace aicf::AICF_OP

#endif
