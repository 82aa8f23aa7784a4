// gemm by warpgroups on sm_90a (see gemm.cuh for the operands): f16 and bf16, f32 sums. Requires N
// a multiple of 8 and K above 0; a, b and out with addresses, pitches and batch strides on
// multiples of 16 bytes, c on multiples of 4; pitches above 0; M, N and K below 2^31 - 256. M and K
// are free else. Bound by the matrix units; where M is small by the bytes of b.
//
// `padded` takes any operands of the same sizes, through copies in its workspace (padded.cuh).
//
// This file picks a shape of tiles for the problem, and says to the copy engine where the operands
// lie. Its maps have one batch dim: what remains of several, launches follow each other for.
#include "padded.cuh"
#include "warpgroups.cuh"

#include <algorithm>
#include <utility>

namespace aicf::gemm {

// ---- shapes -------------------------------------------------------------------------------------

using wide = tile_shape<2, 256, 4, 2, 1, 128, 2>;     // the least traffic with the L2 a product
using square = tile_shape<2, 128, 6, 2, 1, 128, 2>;   // where wide's last wave is thin
using low = tile_shape<1, 128, 8, 1>;                 // more blocks for small outs
using low_share = tile_shape<1, 128, 8, 1, 1, 64, 2>; // the same for pitches off the L2's lines
using narrow = tile_shape<2, 64, 8, 1>; // for few rows: b is read half as often as by `small`
using small = tile_shape<1, 64, 12, 1>;
using quartered = tile_shape<2, 256, 4, 1, 4>;     // few large tiles: four blocks each
using halved = tile_shape<1, 64, 10, 1, 2>;        // M <= 64 and few columns: two blocks a tile
using few = tile_shape<1, 64, 20, 1, 1, 16>;       // M <= 16: b streams through 200 KB
using few_halved = tile_shape<1, 64, 8, 1, 2, 16>; // M <= 16 and few columns

// ---- batches ------------------------------------------------------------------------------------

// Batch dim `from` of p as dim `to`.
template <typename T>
void
move_batch(problem<T> &p, int from, int to)
{
    p.batch_sizes[to] = p.batch_sizes[from];
    p.a_batch[to] = p.a_batch[from];
    p.b_batch[to] = p.b_batch[from];
    p.c_batch[to] = p.c_batch[from];
    p.out_batch[to] = p.out_batch[from];
}

template <typename T>
bool
continues(const problem<T> &p, int inner, int outer)
{
    int64_t size = p.batch_sizes[inner];
    return p.a_batch[outer] == p.a_batch[inner] * size &&
           p.b_batch[outer] == p.b_batch[inner] * size &&
           p.c_batch[outer] == p.c_batch[inner] * size &&
           p.out_batch[outer] == p.out_batch[inner] * size;
}

// Dims of one matrix go; neighbours that all operands walk as one dim become one.
template <typename T>
void
merge_batches(problem<T> &p)
{
    int rank = 0;
    for (int dim = 0; dim < p.batch_rank; dim++) {
        if (p.batch_sizes[dim] == 1) {
            continue;
        }
        move_batch(p, dim, rank);
        if (rank > 0 && continues(p, rank - 1, rank)) {
            p.batch_sizes[rank - 1] *= p.batch_sizes[rank];
        } else {
            rank++;
        }
    }
    p.batch_rank = rank;
}

// The dim that the maps have is dim 0 after this: the longest that no operand walks backwards.
template <typename T>
void
choose_mapped(problem<T> &p)
{
    int best = -1;
    for (int dim = 0; dim < p.batch_rank; dim++) {
        bool forwards = p.a_batch[dim] >= 0 && p.b_batch[dim] >= 0 && p.out_batch[dim] > 0;
        if (forwards && (best < 0 || p.batch_sizes[dim] > p.batch_sizes[best])) {
            best = dim;
        }
    }
    if (best < 0) { // a dim of one matrix, before the others
        for (int dim = p.batch_rank++; dim > 0; dim--) {
            move_batch(p, dim - 1, dim);
        }
        p.batch_sizes[0] = 1;
        p.a_batch[0] = p.b_batch[0] = p.c_batch[0] = p.out_batch[0] = 0;
        return;
    }
    std::swap(p.batch_sizes[0], p.batch_sizes[best]);
    std::swap(p.a_batch[0], p.a_batch[best]);
    std::swap(p.b_batch[0], p.b_batch[best]);
    std::swap(p.c_batch[0], p.c_batch[best]);
    std::swap(p.out_batch[0], p.out_batch[best]);
}

// ---- one launch ---------------------------------------------------------------------------------

// An operand as the copy engine sees it; `rows` along dim -2, `columns` along dim -1.
template <typename T>
matrices<T>
operand(
    const T *data, bool columns_lie, int64_t rows, int64_t columns, int64_t pitch, int64_t count,
    int64_t step)
{
    return {
        data, columns_lie ? columns : rows, columns_lie ? rows : columns, step ? count : 1, pitch,
        step};
}

// Batch dim 0 of p alone, `count` matrices of it.
template <class S, typename T, bool kATurned, bool kBTurned>
aicf_status
launch_one(const problem<T> &p, int64_t count, int processors, aicf_stream stream)
{
    static_assert(!kATurned || S::kARows == S::kRows, "turned panels are whole");
    int a_rows = static_cast<int>(std::min<int64_t>(S::kARows, ceil_div(p.M, 8) * 8));
    CUtensorMap a, b, out;
    aicf_status status = encode_map(
        &a, operand(p.a, !kATurned, p.M, p.K, p.a_pitch, count, p.a_batch[0]),
        kATurned ? kDepth : a_rows);
    if (!status.kind) {
        status = encode_map(
            &b, operand(p.b, kBTurned, p.K, p.N, p.b_pitch, count, p.b_batch[0]),
            kBTurned ? kDepth : S::kCols / S::kShare);
    }
    if (!status.kind) {
        status = encode_map(
            &out,
            operand(
                static_cast<const T *>(p.out), true, p.M, p.N, p.out_pitch, count, p.out_batch[0]),
            kConsumerRows);
    }
    if (status.kind) {
        return status;
    }

    plan<T> how = {};
    how.m = static_cast<int>(p.M);
    how.n = static_cast<int>(p.N);
    how.slabs = static_cast<int>(ceil_div(p.K, kDepth));
    how.m_groups = static_cast<int>(ceil_div(p.M, S::kRows * S::kShare));
    how.n_tiles = static_cast<int>(ceil_div(p.N, S::kCols));
    how.tiles = static_cast<int>(count * how.m_groups * how.n_tiles);
    how.a_bytes = kATurned ? S::kABytes : a_rows * kRowBytes;
    how.a_step = p.a_batch[0] != 0;
    how.b_step = p.b_batch[0] != 0;
    how.bias = p.bias;
    how.c = p.c;
    how.c_pitch = p.c_pitch;
    how.c_step = p.c_batch[0];
    how.c_pairs = p.N % 2 == 0 && reinterpret_cast<uintptr_t>(p.c) % 4 == 0 && p.c_pitch % 2 == 0 &&
                  p.c_batch[0] % 2 == 0;
    how.alpha = p.alpha;
    how.beta = p.beta;
    how.act = p.act;
    // A block of a split gathers once, so it has one tile.
    int clusters = S::kSplit > 1 ? how.tiles : std::min(how.tiles, processors / S::kCluster);
    return launch_clusters(
        warpgroups<S, T, kATurned, kBTurned>, static_cast<unsigned>(clusters * S::kCluster),
        S::kThreads, S::kShared, S::kCluster, stream, a, b, out, how);
}

// All batches: one launch a matrix of the dims that the maps do not have, and more where the tiles
// of one would be too many to count.
template <class S, typename T, bool kATurned, bool kBTurned>
aicf_status
launch_shape(const problem<T> &p, int processors, aicf_stream stream)
{
    constexpr int64_t kMostTiles = 1 << 30;
    int64_t tiles = ceil_div(p.M, S::kRows * S::kShare) * ceil_div(p.N, S::kCols);
    int64_t at_once = std::max<int64_t>(kMostTiles / tiles, 1), launches = 1;
    for (int dim = 1; dim < p.batch_rank; dim++) {
        launches *= p.batch_sizes[dim];
    }
    for (int64_t i = 0; i < launches; i++) {
        problem<T> now = p;
        int64_t rest = i;
        for (int dim = 1; dim < p.batch_rank; dim++) {
            int64_t digit = rest % p.batch_sizes[dim];
            rest /= p.batch_sizes[dim];
            now.a += digit * p.a_batch[dim];
            now.b += digit * p.b_batch[dim];
            now.c += p.c ? digit * p.c_batch[dim] : 0;
            now.out += digit * p.out_batch[dim];
        }
        for (int64_t first = 0; first < p.batch_sizes[0]; first += at_once) {
            aicf_status status = launch_one<S, T, kATurned, kBTurned>(
                now, std::min(at_once, p.batch_sizes[0] - first), processors, stream);
            if (status.kind) {
                return status;
            }
            now.a += at_once * p.a_batch[0];
            now.b += at_once * p.b_batch[0];
            now.c += p.c ? at_once * p.c_batch[0] : 0;
            now.out += at_once * p.out_batch[0];
        }
    }
    return aicf_ok();
}

// ---- the choice ---------------------------------------------------------------------------------

// Clocks of a shape: waves of clusters over the processors, each its slabs and a fixed part. A
// slab's were measured on an H200: the larger of its products and its bytes from the L2 at some 64
// each.
template <class S, typename T>
int64_t
clocks(const problem<T> &p, int processors, int slab_clocks)
{
    int fixed = S::kCluster > 1 ? 2400 : 1500; // a cluster starts and ends together
    int64_t clusters =
        ceil_div(p.M, S::kRows * S::kShare) * ceil_div(p.N, S::kCols) * p.batch_sizes[0];
    return ceil_div(clusters, processors / S::kCluster) *
           (ceil_div(p.K, kDepth) * slab_clocks + fixed);
}

constexpr int64_t kScatterClocks = 6000; // what a cluster of four costs besides its slabs

// Whether lines of such a pitch begin where those of the L2 do.
inline bool
pitch_on_lines(int64_t pitch)
{
    return pitch * 2 % kLineBytes == 0;
}

template <typename T, bool kATurned, bool kBTurned>
aicf_status
launch_fitting(const problem<T> &p, int processors, aicf_stream stream)
{
    int64_t halves = 2 * ceil_div(p.N, halved::kCols) * p.batch_sizes[0];
    bool split = halves <= processors && p.K > 4 * kDepth;
    if constexpr (!kATurned) {
        if (p.M <= few::kARows) {
            return split ? launch_shape<few_halved, T, false, kBTurned>(p, processors, stream)
                         : launch_shape<few, T, false, kBTurned>(p, processors, stream);
        }
    }
    if (p.M <= halved::kRows && split) {
        return launch_shape<halved, T, kATurned, kBTurned>(p, processors, stream);
    }
    // Of clusters of four a machine holds fewer than its processors would, some 32 of 132.
    int64_t quarters =
        ceil_div(p.M, quartered::kRows) * ceil_div(p.N, quartered::kCols) * p.batch_sizes[0];
    if (p.M > halved::kRows && quarters <= processors / 16 * 4 && p.K >= 16 * kDepth) {
        int64_t for_quartered =
            ceil_div(ceil_div(p.K, kDepth), quartered::kSplit) * 1060 + kScatterClocks;
        int64_t others = std::min(
            {clocks<low>(p, processors, 400), clocks<narrow>(p, processors, 390),
             clocks<small>(p, processors, 330), clocks<square>(p, processors, 545)});
        if (for_quartered < others) {
            return launch_shape<quartered, T, kATurned, kBTurned>(p, processors, stream);
        }
    }
    int64_t for_wide = clocks<wide>(p, processors, 1060);
    int64_t for_square = clocks<square>(p, processors, pitch_on_lines(p.a_pitch) ? 545 : 780);
    int64_t for_low = clocks<low>(p, processors, 400);
    int64_t for_narrow = clocks<narrow>(p, processors, p.M <= 512 ? 390 : 420);
    int64_t for_small = clocks<small>(p, processors, 330);
    int64_t best = std::min({for_wide, for_square, for_low, for_narrow, for_small});
    if (best == for_wide) {
        return launch_shape<wide, T, kATurned, kBTurned>(p, processors, stream);
    }
    if (best == for_square) {
        return launch_shape<square, T, kATurned, kBTurned>(p, processors, stream);
    }
    if (best == for_low) {
        return pitch_on_lines(p.a_pitch) && pitch_on_lines(p.b_pitch)
                   ? launch_shape<low, T, kATurned, kBTurned>(p, processors, stream)
                   : launch_shape<low_share, T, kATurned, kBTurned>(p, processors, stream);
    }
    return best == for_narrow ? launch_shape<narrow, T, kATurned, kBTurned>(p, processors, stream)
                              : launch_shape<small, T, kATurned, kBTurned>(p, processors, stream);
}

template <typename T>
aicf_status
launch_wgmma(problem<T> p, aicf_stream stream)
{
    int processors = 0;
    aicf_status status = count_processors(&processors);
    if (status.kind) {
        return status;
    }
    merge_batches(p);
    choose_mapped(p);
    if (p.a_along_k) {
        return p.b_along_k ? launch_fitting<T, false, false>(p, processors, stream)
                           : launch_fitting<T, false, true>(p, processors, stream);
    }
    return p.b_along_k ? launch_fitting<T, true, false>(p, processors, stream)
                       : launch_fitting<T, true, true>(p, processors, stream);
}

// Operands that the copy engine does not take are copied to the workspace first, on the L2's lines;
// the out, and one of an odd N, is made there and copied back. N columns of it alone exist: the
// engine may write up to 7 more, which are in the workspace too.
template <typename T>
aicf_status
launch_padded(problem<T> p, void *workspace, aicf_stream stream)
{
    merge_batches(p);
    room left = {static_cast<char *>(workspace)};
    placed<T> a = {p.a, p.a_along_k ? p.K : p.M, p.a_along_k ? p.M : p.K, p.a_pitch, p.a_batch};
    placed<T> b = {p.b, p.b_along_k ? p.K : p.N, p.b_along_k ? p.N : p.K, p.b_pitch, p.b_batch};
    placed<T> out = {p.out, p.N, p.M, p.out_pitch, p.out_batch};

    line_copies in = {}, back = {};
    if (!engine_takes(p, a)) {
        in.copy[0] = move_to(left, p, a, false);
    }
    if (!engine_takes(p, b)) {
        in.copy[1] = move_to(left, p, b, false);
    }
    if (!engine_takes(p, out) || p.N % kChunkLanes) {
        back.copy[0] = move_to(left, p, out, true);
    }
    p.a = a.data;
    p.a_pitch = a.pitch;
    p.b = b.data;
    p.b_pitch = b.pitch;
    p.out = const_cast<T *>(out.data);
    p.out_pitch = out.pitch;

    aicf_status status = launch_lines(in, stream);
    status = status.kind ? status : launch_wgmma(p, stream);
    return status.kind ? status : launch_lines(back, stream);
}

} // namespace aicf::gemm

#define LAUNCHERS(T, suffix)                                                                     \
    aicf_status aicf_cuda_gemm_wgmma_##suffix(                                                   \
        const aicf_view *a, const aicf_view *b, const T *bias, const aicf_view *c,               \
        const aicf_view *out, int64_t, int64_t M, int64_t K, int64_t, int64_t N, double alpha,   \
        double beta, aicf_gemm_act act, aicf_stream stream)                                      \
    {                                                                                            \
        return aicf::gemm::launch_wgmma(                                                         \
            aicf::gemm::problem_of(a, b, aicf::device(bias), c, out, M, K, N, alpha, beta, act), \
            stream);                                                                             \
    }                                                                                            \
    aicf_status aicf_cuda_gemm_padded_##suffix(                                                  \
        const aicf_view *a, const aicf_view *b, const T *bias, const aicf_view *c,               \
        const aicf_view *out, int64_t, int64_t M, int64_t K, int64_t, int64_t N, double alpha,   \
        double beta, aicf_gemm_act act, void *workspace, aicf_stream stream)                     \
    {                                                                                            \
        return aicf::gemm::launch_padded(                                                        \
            aicf::gemm::problem_of(a, b, aicf::device(bias), c, out, M, K, N, alpha, beta, act), \
            workspace, stream);                                                                  \
    }

LAUNCHERS(aicf_f16, f16)
LAUNCHERS(aicf_bf16, bf16)
