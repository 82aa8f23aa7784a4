// Gradients of recurrent layers by one launch for all steps, as persistent.cuh has it: from step to
// step go the gradients of the gates, and a block keeps the columns of w_hh that belong to its
// units, out of a turned copy. Bound by the L2, out of which each block reads all of a step's
// gradients.
#ifndef AICF_RECURRENT_PERSISTENT_BWD_CUH
#define AICF_RECURRENT_PERSISTENT_BWD_CUH

#include "persistent.cuh"

namespace aicf::recurrent {

template <typename T> struct persistent_slopes {
    int64_t S, N, H;
    bool reverse;
    const T *w_turned, *h0, *c0, *fwd, *gates, *cells, *g_out, *g_hn, *g_cn;
    T *dx, *dw, *gh0, *gc0;
    uint32_t *done; // steps, a block
    int unit_blocks, chunks, buffers, first_group;
};

template <int kUnits, int kTiles>
using backward_shape = block_shape<1, kUnits, kTiles, 12 / kTiles, false>;

// Until `count` blocks from `done` on have done `steps` steps.
__device__ inline void
wait_for_blocks(const uint32_t *done, int count, uint32_t steps)
{
    for (int i = static_cast<int>(threadIdx.x) % kWarp; i < count; i += kWarp) {
        for (uint32_t polls = 0; ptx::load_acquire(done + i) < steps; polls++) {
            if (polls == kMostPolls) {
                __trap();
            }
        }
    }
    __syncwarp();
}

// The blocks that make a share of the depth, which are gates of units: one or two runs of them.
template <typename B> struct makers {
    int from[2] = {}, count[2] = {};

    __device__ makers(const share_of_depth<B> &share, int units, int gates, int blocks)
    {
        if (share.begin == share.end) {
            return;
        }
        int first = share.begin * kDepth, last = share.end * kDepth - 1;
        last = last < units * gates ? last : units * gates - 1;
        int first_block = first % units / B::kUnits, last_block = last % units / B::kUnits;
        int turns = last / units - first / units;
        if (turns == 0) {
            from[0] = first_block;
            count[0] = last_block - first_block + 1;
        } else if (turns > 1 || last_block >= first_block) {
            count[0] = blocks;
        } else {
            from[0] = first_block;
            count[0] = blocks - first_block;
            count[1] = last_block + 1;
        }
    }

    __device__ void wait(const uint32_t *done, uint32_t steps) const
    {
        wait_for_blocks(done + from[0], count[0], steps);
        wait_for_blocks(done + from[1], count[1], steps);
    }
};

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
    using B = backward_shape<kUnits, kTiles>;
    constexpr int kG = kGates<kCell>;
    extern __shared__ __align__(128) uint8_t shared[];
    float *meeting = reinterpret_cast<float *>(shared);
    int block = static_cast<int>(blockIdx.x) % p.unit_blocks;
    int group = static_cast<int>(blockIdx.x) / p.unit_blocks + p.first_group;
    int64_t first_unit = static_cast<int64_t>(block) * kUnits, wide = kG * p.H;
    int64_t first_row = static_cast<int64_t>(group) * B::kM, state = p.N * p.H;
    int count = static_cast<int>(p.N - first_row < B::kM ? p.N - first_row : B::kM);
    uint32_t *done = p.done + static_cast<int64_t>(group) * p.unit_blocks;
    share_of_depth<B> mine(p.chunks);
    weights_of<B> weights(
        weight_lines<B, T>{p.w_turned, p.H, wide, first_unit}, p.chunks, mine,
        reinterpret_cast<uint4 *>(shared + p.buffers * B::kSumBytes));
    makers<B> others(mine, static_cast<int>(p.H), kG, p.unit_blocks);

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
        if (at + 1 < p.S) {
            others.wait(done, static_cast<uint32_t>(p.S - 1 - at));
            const T *next = p.dw + (time_of(p, at + 1) * p.N + first_row) * wide;
            multiply_rows<T, B>(next, count, static_cast<int>(wide), weights, mine, false, meeting);
        }
        __syncthreads();

#pragma unroll
        for (int c = 0; c < B::kCells; c++) {
            if (place[c] < 0) {
                continue;
            }
            if (at + 1 < p.S) {
                int i = static_cast<int>(threadIdx.x) + c * B::kThreads;
                dh[c] = sum_of_warps<B>(meeting, i / kUnits, i % kUnits);
                dh[c] += kCell == cell::gru ? carry[c] : 0.0f;
            }
            if (at < 0) {
                continue;
            }
            float dx[kG], dn = 0.0f;
            float all = p.g_out ? dh[c] + to_f32(raw[c].g_out) : dh[c];
            backward_cell<kCell, true>(record_of<T, kCell>(raw[c]), all, carry[c], dx, dn);
            int64_t to = time_of(p, at) * p.N * wide + gate_place[c];
#pragma unroll
            for (int g = 0; g < kG; g++) {
                p.dx[to + g * p.H] = of_f32<T>(dx[g]);
                if (kCell == cell::gru) {
                    p.dw[to + g * p.H] = of_f32<T>(g == 2 ? dn : dx[g]);
                }
            }
        }
        __syncthreads(); // the block's gradients are written, and its sums are read
        if (threadIdx.x == 0) {
            ptx::store_release(done + block, static_cast<uint32_t>(p.S - at));
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
    return launch_groups<backward_shape<kUnits, kTiles>>(
        backward_persistent<T, kCell, kUnits, kTiles>, p, kGates<kCell> * p.H, stream, status);
}

template <typename T, cell kCell, int kTiles>
bool
launch_backward_tiles(const persistent_slopes<T> &p, aicf_stream stream, aicf_status &status)
{
    return launch_backward_units<T, kCell, 8, kTiles>(p, stream, status) ||
           launch_backward_units<T, kCell, 16, kTiles>(p, stream, status);
}

template <typename T>
aicf_status
multiply_on_units(const product<T, T> &p, aicf_stream stream)
{
    return p.a.k_step == 1 ? multiply_along<T, T, true, false>(p, stream)
                           : multiply_along<T, T, false, false>(p, stream);
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
    all.done = reinterpret_cast<uint32_t *>(left.carry);
    status = status_of(cudaMemsetAsync(
        all.done, 0, static_cast<size_t>(ceil_div(p.N, 16) * ceil_div(p.H, 8)) * sizeof(uint32_t),
        reinterpret_cast<cudaStream_t>(stream)));
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

} // namespace aicf::recurrent

#endif
