// gemm by warpgroups on sm_90a (see gemm.cuh for the operands): f16 and bf16, f32 sums. Requires N
// a multiple of 8 and K above 0; a, b and out with addresses, pitches and batch strides on
// multiples of 16 bytes; pitches above 0; M, N and K below 2^31 - 256. M and K are free else. Bound
// by the matrix units; where M is small by the bytes of b.
//
// `padded` takes any operands of the same sizes, through copies in its workspace (padded.cuh).
//
// This file picks a shape of tiles for the problem, and says to the copy engine where the operands
// lie. Its maps have one batch dim: what remains of several, launches follow each other for.
#include "fringe.cuh"
#include "padded.cuh"

#include <algorithm>

namespace aicf::gemm {

// ---- shapes -------------------------------------------------------------------------------------

// A shape of tiles as the host sees it, and its kernels by dtype (bf16, f16), by whether m lies
// together in a, and n in b.
struct shape_of_tiles {
    int rows, cols, a_rows, split, share, threads, shared;
    void (*kernels[2][2][2])(CUtensorMap, CUtensorMap, CUtensorMap, CUtensorMap, plan);

    constexpr int cluster() const
    {
        return split * share;
    }
};

// A stage that keeps fewer rows of a than the tile has cannot have them turned.
template <class S, typename T, bool kATurned, bool kBTurned>
constexpr auto
kernel_of()
{
    if constexpr (kATurned && S::kARows != S::kRows) {
        return static_cast<void (*)(CUtensorMap, CUtensorMap, CUtensorMap, CUtensorMap, plan)>(
            nullptr);
    } else {
        return &warpgroups<S, T, kATurned, kBTurned>;
    }
}

template <class S>
constexpr shape_of_tiles kTiles = {
    S::kRows,
    S::kCols,
    S::kARows,
    S::kSplit,
    S::kShare,
    S::kThreads,
    S::kShared,
    {{{kernel_of<S, __nv_bfloat16, false, false>(), kernel_of<S, __nv_bfloat16, false, true>()},
      {kernel_of<S, __nv_bfloat16, true, false>(), kernel_of<S, __nv_bfloat16, true, true>()}},
     {{kernel_of<S, __half, false, false>(), kernel_of<S, __half, false, true>()},
      {kernel_of<S, __half, true, false>(), kernel_of<S, __half, true, true>()}}}};

// The least traffic with the L2 a product.
constexpr auto &kWide = kTiles<tile_shape<2, 256, 4, 2, 1, 128, 2>>;
// Where wide's last wave is thin.
constexpr auto &kSquare = kTiles<tile_shape<2, 128, 6, 2, 1, 128, 2>>;
// More blocks for small outs; by two that share b, for pitches off the L2's lines.
constexpr auto &kLow = kTiles<tile_shape<1, 128, 8, 1>>;
constexpr auto &kLowShare = kTiles<tile_shape<1, 128, 8, 1, 1, 64, 2>>;
// Few rows: b is read half as often as by kSmall.
constexpr auto &kNarrow = kTiles<tile_shape<2, 64, 8, 1>>;
constexpr auto &kSmall = kTiles<tile_shape<1, 64, 12, 1>>;
// Few large tiles, or M <= 64 and few columns: two blocks each. Four, of 128 x 256, measured half
// as fast: a machine of 132 processors has no room for 32 such clusters at once.
constexpr auto &kPaired = kTiles<tile_shape<2, 128, 5, 1, 2>>;
constexpr auto &kHalved = kTiles<tile_shape<1, 64, 10, 1, 2>>;
// M <= 16: b streams through 200 KB; and by two blocks a tile, where columns are few.
constexpr auto &kFew = kTiles<tile_shape<1, 64, 20, 1, 1, 16>>;
constexpr auto &kFewHalved = kTiles<tile_shape<1, 64, 8, 1, 2, 16>>;

// ---- one launch ---------------------------------------------------------------------------------

// An operand as the copy engine sees it; `columns_lie`: dim -1 has unit stride, and not dim -2.
inline matrices
operand(
    const uint16_t *data, bool columns_lie, int64_t rows, int64_t columns, int64_t pitch,
    int64_t count, int64_t step, bool f16)
{
    return {
        data,
        columns_lie ? columns : rows,
        columns_lie ? rows : columns,
        step ? count : 1,
        pitch,
        step,
        2,
        f16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16};
}

inline plan
plan_of(const halves &p, const shape_of_tiles &s, int64_t count, int a_bytes)
{
    plan how = {};
    how.m = static_cast<int>(p.M);
    how.n = static_cast<int>(p.N);
    how.slabs = static_cast<int>(ceil_div(p.K, kDepth));
    how.m_groups = static_cast<int>(ceil_div(p.M, s.rows * s.share));
    how.n_tiles = static_cast<int>(ceil_div(p.N, s.cols));
    how.tiles = static_cast<int>(count * how.m_groups * how.n_tiles);
    how.a_bytes = a_bytes;
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
    return how;
}

// Where a launch happens, in which of the two dtypes, and whether beside the one before it.
struct place_of_launch {
    aicf_stream stream;
    int processors;
    bool f16, beside;
};

// Whether sums may begin with the bias: it is where the copy engine takes it, alpha is not for it,
// and a tile's sums are one block's.
inline bool
begins_with_bias(const halves &p, const shape_of_tiles &s)
{
    return p.bias && reinterpret_cast<uintptr_t>(p.bias) % kEngineBytes == 0 && p.alpha == 1.0f &&
           s.split == 1;
}

struct maps {
    CUtensorMap a, b, out, bias;
};

// What the copy engine is told of the operands; `a_rows`: of a box, where k lies together. Blocks
// that split k are few tiles, whose bytes count: what the L2 fetches beside theirs is the next
// tile's, which asks for it itself (H200, 64 rows: 4% slower, 256: 2%).
inline aicf_status
encode_maps(maps *m, const halves &p, const shape_of_tiles &s, int64_t count, int a_rows, bool f16)
{
    bool a_turned = !p.a_along_k, b_turned = !p.b_along_k, pairs = s.split == 1;
    aicf_status status = encode_map(
        &m->a, operand(p.a, !a_turned, p.M, p.K, p.a_pitch, count, p.a_batch[0], f16),
        a_turned ? kDepth : a_rows, kLineBytes, pairs);
    if (!status.kind) {
        status = encode_map(
            &m->b, operand(p.b, b_turned, p.K, p.N, p.b_pitch, count, p.b_batch[0], f16),
            b_turned ? kDepth : s.cols / s.share, kLineBytes, pairs);
    }
    if (!status.kind) {
        status = encode_map(
            &m->out, operand(p.out, true, p.M, p.N, p.out_pitch, count, p.out_batch[0], f16),
            kConsumerRows);
    }
    if (!status.kind && begins_with_bias(p, s)) {
        status = encode_map(&m->bias, operand(p.bias, true, 1, p.N, 0, 1, 0, f16), kStepK);
    }
    return status;
}

// Batch dim 0 of p alone, `count` matrices of it.
inline aicf_status
launch_one(const halves &p, const shape_of_tiles &s, int64_t count, const place_of_launch &place)
{
    bool a_turned = !p.a_along_k, b_turned = !p.b_along_k;
    int a_rows = static_cast<int>(std::min<int64_t>(s.a_rows, ceil_div(p.M, 8) * 8));
    maps m = {};
    aicf_status status = encode_maps(&m, p, s, count, a_rows, place.f16);
    if (status.kind) {
        return status;
    }
    plan how = plan_of(p, s, count, (a_turned ? s.a_rows : a_rows) * kRowBytes);
    how.bias_row = begins_with_bias(p, s);
    how.beside = place.beside;
    // Blocks that split a tile gather once, so they have one.
    int clusters = s.split > 1 ? how.tiles : std::min(how.tiles, place.processors / s.cluster());
    return launch_clusters(
        s.kernels[place.f16][a_turned][b_turned], static_cast<unsigned>(clusters * s.cluster()),
        static_cast<unsigned>(s.threads), s.shared, static_cast<unsigned>(s.cluster()),
        place.stream, m.a, m.b, m.out, m.bias, how);
}

// All batches: one launch a matrix of the dims that the maps do not have, and more where the tiles
// of one would be too many to count.
inline aicf_status
launch_all(const halves &p, const shape_of_tiles &s, const place_of_launch &place)
{
    constexpr int64_t kMostTiles = 1 << 30;
    int64_t tiles = ceil_div(p.M, s.rows * s.share) * ceil_div(p.N, s.cols);
    int64_t at_once = std::max<int64_t>(kMostTiles / tiles, 1), launches = 1;
    for (int dim = 1; dim < p.batch_rank; dim++) {
        launches *= p.batch_sizes[dim];
    }
    for (int64_t i = 0; i < launches; i++) {
        halves now = p;
        int64_t rest = i;
        for (int dim = 1; dim < p.batch_rank; dim++) {
            advance(now, dim, rest % p.batch_sizes[dim]);
            rest /= p.batch_sizes[dim];
        }
        for (int64_t first = 0; first < p.batch_sizes[0]; first += at_once) {
            aicf_status status =
                launch_one(now, s, std::min(at_once, p.batch_sizes[0] - first), place);
            if (status.kind) {
                return status;
            }
            advance(now, 0, at_once);
        }
    }
    return aicf_ok();
}

// ---- the choice ---------------------------------------------------------------------------------

// Clocks of a shape: waves of clusters over the processors, each its slabs and a fixed part. A
// slab's were measured on an H200: the larger of its products and its bytes from the L2 at some 64
// each.
inline int64_t
clocks(const halves &p, const shape_of_tiles &s, int processors, int slab_clocks)
{
    int fixed = s.cluster() > 1 ? 2400 : 1500; // a cluster starts and ends together
    int64_t clusters = ceil_div(p.M, s.rows * s.share) * ceil_div(p.N, s.cols) * p.batch_sizes[0];
    return ceil_div(clusters * s.cluster(), processors) *
           (ceil_div(p.K, kDepth) * slab_clocks + fixed);
}

// Whether lines of such a pitch begin where those of the L2 do.
inline bool
pitch_on_lines(int64_t pitch)
{
    return pitch * 2 % kLineBytes == 0;
}

struct bid {
    const shape_of_tiles *shape;
    int64_t clocks;
};

// Of tiles that blocks make alone or in pairs along m.
inline bid
best_whole(const halves &p, int processors)
{
    bool lines = pitch_on_lines(p.a_pitch), all_lines = lines && pitch_on_lines(p.b_pitch);
    const bid bids[] = {
        {&kWide, clocks(p, kWide, processors, 1060)},
        {&kSquare, clocks(p, kSquare, processors, lines ? 545 : 780)},
        {all_lines ? &kLow : &kLowShare, clocks(p, kLow, processors, 400)},
        {&kNarrow, clocks(p, kNarrow, processors, p.M <= 512 ? 390 : 420)},
        {&kSmall, clocks(p, kSmall, processors, 330)}};
    bid best = bids[0];
    for (const bid &b : bids) {
        best = b.clocks < best.clocks ? b : best;
    }
    return best;
}

// A shape, and the clocks that it is thought to take.
inline bid
choose(const halves &p, int processors)
{
    int64_t two = 2 * ceil_div(p.N, kHalved.cols) * p.batch_sizes[0];
    bool split = two <= processors && p.K > 4 * kDepth;
    if (p.a_along_k && p.M <= kFew.a_rows) {
        return {split ? &kFewHalved : &kFew, ceil_div(p.K, kDepth) * 300};
    }
    if (p.M <= kHalved.rows && split) {
        return {&kHalved, ceil_div(p.K, kDepth) * 300};
    }
    bid best = best_whole(p, processors);
    int64_t tiles = ceil_div(p.M, kPaired.rows) * ceil_div(p.N, kPaired.cols) * p.batch_sizes[0];
    int64_t slabs = ceil_div(ceil_div(p.K, kDepth), kPaired.split);
    constexpr int64_t kExchangeClocks = 4000; // what two blocks a tile cost besides their slabs
    bool pairs = p.M > kHalved.rows && kPaired.split * tiles <= processors && slabs >= 4 &&
                 slabs * 545 + kExchangeClocks < best.clocks;
    best = pairs ? bid{&kPaired, slabs * 545 + kExchangeClocks} : best;
    // Two blocks a small tile, where there are few of those.
    int64_t smalls = ceil_div(p.M, kHalved.rows) * ceil_div(p.N, kHalved.cols) * p.batch_sizes[0];
    int64_t for_halved = ceil_div(ceil_div(p.K, kDepth), kHalved.split) * 330 + kExchangeClocks;
    bool halve = kHalved.split * smalls <= processors && slabs >= 4 && for_halved < best.clocks;
    return halve ? bid{&kHalved, for_halved} : best;
}

// ---- the fringe ---------------------------------------------------------------------------------

using fringed_shape = tile_shape<2, 256, 4, 1, 1, 128, 2, true>; // kWide with room for it
constexpr shape_of_tiles kFringed = {
    fringed_shape::kRows,  fringed_shape::kCols,    fringed_shape::kARows,  fringed_shape::kSplit,
    fringed_shape::kShare, fringed_shape::kThreads, fringed_shape::kShared, {},
};

using fringed_kernel = void (*)(
    CUtensorMap, CUtensorMap, CUtensorMap, CUtensorMap, CUtensorMap, CUtensorMap, fringe_plan);

template <typename T>
constexpr fringed_kernel kFringedKernels[2][2] = {
    {&fringed<fringed_shape, T, false, false>, &fringed<fringed_shape, T, false, true>},
    {&fringed<fringed_shape, T, true, false>, &fringed<fringed_shape, T, true, true>}};

// Clocks of whole tiles that bring the fringe along, by some 350 a slab; none, below 0, where there
// is no fringe or more than that.
inline int64_t
fringed_clocks(const halves &p, int processors)
{
    int64_t group = kFringed.rows * kFringed.share, groups = p.M / group;
    int64_t columns = p.N / kFringed.cols, below = p.M % group, beside = p.N % kFringed.cols;
    if (p.batch_sizes[0] != 1 || groups == 0 || columns == 0 || below > kFringe ||
        beside > kFringe || below + beside == 0) {
        return -1;
    }
    int64_t tiles = groups * columns;
    int64_t clusters = std::min<int64_t>(tiles, processors / kFringed.cluster());
    int64_t each = tiles / clusters, longer = tiles % clusters;
    int64_t spare = longer ? (clusters - longer) * each : 0; // tiles of clusters that have time
    int64_t more = std::max(groups, columns) > spare ? 350 : 0;
    return ((each + (longer > 0)) * 1060 + more) * ceil_div(p.K, kDepth) + 2400 * (each + 1);
}

inline aicf_status
launch_fringed(const halves &p, const place_of_launch &place)
{
    bool a_turned = !p.a_along_k, b_turned = !p.b_along_k;
    maps m = {};
    CUtensorMap a_rows = {}, b_columns = {};
    aicf_status status = encode_maps(&m, p, kFringed, 1, kFringed.rows, place.f16);
    if (!status.kind) {
        status = encode_map(
            &a_rows, operand(p.a, !a_turned, p.M, p.K, p.a_pitch, 1, 0, place.f16),
            a_turned ? kDepth : kFringe, a_turned ? kEngineBytes : kLineBytes);
    }
    if (!status.kind) {
        status = encode_map(
            &b_columns, operand(p.b, b_turned, p.K, p.N, p.b_pitch, 1, 0, place.f16),
            b_turned ? kDepth : kFringe, b_turned ? kEngineBytes : kLineBytes);
    }
    if (status.kind) {
        return status;
    }
    fringe_plan how = {plan_of(p, kFringed, 1, kFringed.rows * kRowBytes)};
    how.bias_row = begins_with_bias(p, kFringed);
    how.m_groups = static_cast<int>(p.M / (kFringed.rows * kFringed.share));
    how.n_tiles = static_cast<int>(p.N / kFringed.cols);
    how.tiles = how.m_groups * how.n_tiles;
    how.a = p.a;
    how.b = p.b;
    how.out = p.out;
    how.a_along_m = a_turned ? 1 : p.a_pitch;
    how.a_along_k = a_turned ? p.a_pitch : 1;
    how.b_along_n = b_turned ? 1 : p.b_pitch;
    how.b_along_k = b_turned ? p.b_pitch : 1;
    how.out_pitch = p.out_pitch;
    how.k = static_cast<int>(p.K);
    int clusters = std::min(how.tiles, place.processors / kFringed.cluster());
    const auto &kernels = place.f16 ? kFringedKernels<__half> : kFringedKernels<__nv_bfloat16>;
    return launch_clusters(
        kernels[a_turned][b_turned], static_cast<unsigned>(clusters * kFringed.cluster()),
        static_cast<unsigned>(kFringed.threads), kFringed.shared,
        static_cast<unsigned>(kFringed.cluster()), place.stream, m.a, m.b, m.out, m.bias, a_rows,
        b_columns, how);
}

// ---- parts --------------------------------------------------------------------------------------

// Rows from `first` on, `count` of them; columns likewise.
inline halves
rows_of(halves p, int64_t first, int64_t count)
{
    p.a += first * (p.a_along_k ? p.a_pitch : 1);
    p.c += p.c ? first * p.c_pitch : 0;
    p.out += first * p.out_pitch;
    p.M = count;
    return p;
}

inline halves
columns_of(halves p, int64_t first, int64_t count)
{
    p.b += first * (p.b_along_k ? p.b_pitch : 1);
    p.bias += p.bias ? first : 0;
    p.c += p.c ? first : 0;
    p.out += first;
    p.N = count;
    return p;
}

// In one launch or, where rows and columns past whole tiles would cost a wave of large ones, those
// in launches of their own, which begin where the last wave leaves processors idle.
inline aicf_status
launch_parts(const halves &p, const place_of_launch &place)
{
    constexpr int64_t kWhole = 256; // rows and columns of two of the largest tiles
    bid all = choose(p, place.processors);
    int64_t with_fringe = fringed_clocks(p, place.processors);
    if (with_fringe >= 0 && with_fringe < all.clocks) {
        return launch_fringed(p, place);
    }
    int64_t rows = p.M / kWhole * kWhole, columns = p.N / kWhole * kWhole;
    if (rows < 4 * kWhole || columns < 4 * kWhole || p.batch_sizes[0] != 1) {
        return launch_all(p, *all.shape, place);
    }
    halves low = rows_of(p, rows, p.M - rows), high = rows_of(p, 0, rows);
    halves right = columns_of(high, columns, p.N - columns), main = columns_of(high, 0, columns);
    bid for_main = choose(main, place.processors), none = {nullptr, 0};
    bid for_low = low.M > 0 ? choose(low, place.processors) : none;
    bid for_right = right.N > 0 ? choose(right, place.processors) : none;
    constexpr int64_t kLaunchClocks = 3000;
    int64_t parts = for_main.clocks + for_low.clocks + for_right.clocks +
                    ((low.M > 0) + (right.N > 0)) * kLaunchClocks;
    if (parts >= all.clocks) {
        return launch_all(p, *all.shape, place);
    }
    aicf_status status = launch_all(main, *for_main.shape, place);
    place_of_launch besides = place;
    besides.beside = true;
    if (!status.kind && right.N > 0) { // by few processors: what counts is the sum of their clocks
        status = launch_all(right, *best_whole(right, 1).shape, besides);
    }
    if (!status.kind && low.M > 0) {
        status = launch_all(low, *for_low.shape, besides);
    }
    return status;
}

inline aicf_status
launch_wgmma(halves p, bool f16, aicf_stream stream)
{
    place_of_launch place = {stream, 0, f16, false};
    aicf_status status = count_processors(&place.processors);
    if (status.kind) {
        return status;
    }
    merge_batches(p);
    choose_mapped(p);
    return launch_parts(p, place);
}

// Operands that the copy engine does not take are copied to the workspace first, on the L2's lines;
// the out, and one of an odd N, is made there and copied back. N columns of it alone exist: the
// engine may write up to 7 more, which are in the workspace too.
inline aicf_status
launch_padded(halves p, bool f16, void *workspace, aicf_stream stream)
{
    merge_batches(p);
    room left = {static_cast<char *>(workspace)};
    placed a = {p.a, p.a_along_k ? p.K : p.M, p.a_along_k ? p.M : p.K, p.a_pitch, p.a_batch};
    placed b = {p.b, p.b_along_k ? p.K : p.N, p.b_along_k ? p.N : p.K, p.b_pitch, p.b_batch};
    placed out = {p.out, p.N, p.M, p.out_pitch, p.out_batch};

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
    p.out = const_cast<uint16_t *>(out.data);
    p.out_pitch = out.pitch;

    aicf_status status = launch_lines(in, stream);
    status = status.kind ? status : launch_wgmma(p, f16, stream);
    return status.kind ? status : launch_lines(back, stream);
}

} // namespace aicf::gemm

#define LAUNCHERS(T, suffix, f16)                                                                 \
    aicf_status aicf_cuda_gemm_wgmma_##suffix(                                                    \
        const aicf_view *a, const aicf_view *b, const T *bias, const aicf_view *c,                \
        const aicf_view *out, int64_t, int64_t M, int64_t K, int64_t, int64_t N, double alpha,    \
        double beta, aicf_gemm_act act, aicf_gemm_precision, aicf_stream stream)                  \
    {                                                                                             \
        return aicf::gemm::launch_wgmma(                                                          \
            aicf::gemm::halves_of(a, b, bias, c, out, M, K, N, alpha, beta, act), f16, stream);   \
    }                                                                                             \
    aicf_status aicf_cuda_gemm_padded_##suffix(                                                   \
        const aicf_view *a, const aicf_view *b, const T *bias, const aicf_view *c,                \
        const aicf_view *out, int64_t, int64_t M, int64_t K, int64_t, int64_t N, double alpha,    \
        double beta, aicf_gemm_act act, aicf_gemm_precision, void *workspace, aicf_stream stream) \
    {                                                                                             \
        return aicf::gemm::launch_padded(                                                         \
            aicf::gemm::halves_of(a, b, bias, c, out, M, K, N, alpha, beta, act), f16, workspace, \
            stream);                                                                              \
    }

LAUNCHERS(aicf_bf16, bf16, false)
LAUNCHERS(aicf_f16, f16, true)
