// gemm of f32 operands in tf32 by warpgroups on sm_90a, where the caller allows it (see gemm.cuh
// for the operands): `wgmma_tf32` takes a and b of one of which k lies together, with addresses,
// pitches and batch strides on multiples of 16 bytes, M, N and K above 1 and below 2^31 - 256; c
// and the out may lie anywhere. The copy engine rounds operands to 11 bits, sums are f32. Bound by
// the matrix units.
//
// `turned_tf32` takes any operands of such sizes, through copies in its workspace (turned.cuh).
#include "tf32_warpgroups.cuh"
#include "turned.cuh"

#include <algorithm>

namespace aicf::gemm {

// A shape of tiles as the host sees it, and its kernels by way.
struct tf32_tiles {
    int rows, cols, share, threads, shared;
    void (*kernels[kWays])(CUtensorMap, CUtensorMap, tf32_plan);
};

template <class S>
constexpr tf32_tiles kTf32Tiles = {
    S::kRows,
    S::kCols,
    S::kShare,
    S::kThreads,
    S::kShared,
    {&tf32_warpgroups<S, way::direct>, &tf32_warpgroups<S, way::held>,
     &tf32_warpgroups<S, way::crossed>}};

// By two blocks that share b, which costs the L2 least; smaller ones where large ones would leave
// processors idle.
constexpr auto &kWideTf32 = kTf32Tiles<tile_shape<2, 256, 4, 0, 1, 128, 2>>;
constexpr auto &kSquareTf32 = kTf32Tiles<tile_shape<2, 128, 7, 0, 1, 128, 2>>;
constexpr auto &kLowTf32 = kTf32Tiles<tile_shape<1, 128, 9, 0>>;
constexpr auto &kSmallTf32 = kTf32Tiles<tile_shape<1, 64, 13, 0>>;

// As of 16 bits (gemm_sm_90a.cu): a slab has half of the products, at half of the rate, and as many
// bytes.
inline const tf32_tiles &
choose(const problem<float> &p, int processors)
{
    const struct {
        const tf32_tiles *tiles;
        int slab_clocks, fixed;
    } bids[] = {
        {&kWideTf32, 1060, 4000},
        {&kSquareTf32, 620, 2400},
        {&kLowTf32, 400, 1500},
        {&kSmallTf32, 330, 1500}};
    const tf32_tiles *best = nullptr;
    int64_t least = 0;
    for (const auto &bid : bids) {
        const tf32_tiles &s = *bid.tiles;
        int64_t groups = ceil_div(p.M, s.rows * s.share) * ceil_div(p.N, s.cols) * p.batch_sizes[0];
        int64_t clocks = ceil_div(groups, std::max(processors / s.share, 1)) *
                         (ceil_div(p.K, kDepthTf32) * bid.slab_clocks + bid.fixed);
        if (!best || clocks < least) {
            best = &s;
            least = clocks;
        }
    }
    return *best;
}

// An operand as the copy engine sees it: `sides` of m or n by k, `count` matrices of them.
inline matrices
operand(
    const float *data, bool along_k, int64_t sides, int64_t K, int64_t pitch, int64_t count,
    int64_t step)
{
    return {
        data,
        along_k ? K : sides,
        along_k ? sides : K,
        step ? count : 1,
        pitch,
        step,
        4,
        CU_TENSOR_MAP_DATA_TYPE_TFLOAT32};
}

inline tf32_plan
plan_of(const problem<float> &p, const tf32_tiles &s, int64_t count, way made)
{
    int64_t columns = made == way::crossed ? p.M : p.N; // of the out
    tf32_plan how = {};
    how.m = static_cast<int>(p.M);
    how.n = static_cast<int>(p.N);
    how.slabs = static_cast<int>(ceil_div(p.K, kDepthTf32));
    how.m_groups = static_cast<int>(ceil_div(p.M, s.rows * s.share));
    how.n_tiles = static_cast<int>(ceil_div(p.N, s.cols));
    how.tiles = static_cast<int>(count * how.m_groups * how.n_tiles);
    how.a_bytes = s.rows * kRowBytes;
    how.a_step = p.a_batch[0] != 0;
    how.b_step = p.b_batch[0] != 0;
    how.bias = p.bias;
    how.c = p.c;
    how.c_pitch = p.c_pitch;
    how.c_step = p.c_batch[0];
    how.alpha = p.alpha;
    how.beta = p.beta;
    how.act = p.act;
    how.out = p.out;
    how.out_pitch = p.out_pitch;
    how.out_step = p.out_batch[0];
    auto in_pairs = [&](const float *data, int64_t pitch, int64_t step) {
        return columns % 2 == 0 && reinterpret_cast<uintptr_t>(data) % 8 == 0 && pitch % 2 == 0 &&
               step % 2 == 0;
    };
    how.c_pairs = in_pairs(p.c, p.c_pitch, p.c_batch[0]);
    how.out_pairs = in_pairs(p.out, p.out_pitch, p.out_batch[0]);
    return how;
}

// Batch dim 0 of p alone, `count` matrices of it. p as the tiles see it: crossed, its operands and
// its M and N have changed places.
inline aicf_status
launch_one(
    const problem<float> &p, const tf32_tiles &s, int64_t count, int processors, way made,
    aicf_stream stream)
{
    bool a_along_k = made == way::direct;
    CUtensorMap a, b;
    aicf_status status = encode_map(
        &a, operand(p.a, a_along_k, p.M, p.K, p.a_pitch, count, p.a_batch[0]),
        a_along_k ? s.rows : kDepthTf32);
    if (!status.kind) {
        status = encode_map(
            &b, operand(p.b, true, p.N, p.K, p.b_pitch, count, p.b_batch[0]), s.cols / s.share);
    }
    if (status.kind) {
        return status;
    }
    tf32_plan how = plan_of(p, s, count, made);
    int clusters = std::min(how.tiles, std::max(processors / s.share, 1));
    return launch_clusters(
        s.kernels[static_cast<int>(made)], static_cast<unsigned>(clusters * s.share),
        static_cast<unsigned>(s.threads), s.shared, static_cast<unsigned>(s.share), stream, a, b,
        how);
}

// All batches: one launch a matrix of the dims that the maps do not have, and more where the tiles
// of one would be too many to count.
inline aicf_status
launch_all(
    const problem<float> &p, const tf32_tiles &s, int processors, way made, aicf_stream stream)
{
    constexpr int64_t kMostTiles = 1 << 30;
    int64_t tiles = ceil_div(p.M, s.rows * s.share) * ceil_div(p.N, s.cols);
    int64_t at_once = std::max<int64_t>(kMostTiles / tiles, 1), launches = 1;
    for (int dim = 1; dim < p.batch_rank; dim++) {
        launches *= p.batch_sizes[dim];
    }
    for (int64_t i = 0; i < launches; i++) {
        problem<float> now = p;
        int64_t rest = i;
        for (int dim = 1; dim < p.batch_rank; dim++) {
            advance(now, dim, rest % p.batch_sizes[dim]);
            rest /= p.batch_sizes[dim];
        }
        for (int64_t first = 0; first < p.batch_sizes[0]; first += at_once) {
            int64_t count = std::min(at_once, p.batch_sizes[0] - first);
            aicf_status status = launch_one(now, s, count, processors, made, stream);
            if (status.kind) {
                return status;
            }
            advance(now, 0, at_once);
        }
    }
    return aicf_ok();
}

// k lies together in one of the operands.
inline aicf_status
launch_wgmma_tf32(problem<float> p, aicf_stream stream)
{
    int processors = 0;
    aicf_status status = count_processors(&processors);
    if (status.kind) {
        return status;
    }
    merge_batches(p);
    choose_mapped(p);
    way made = !p.a_along_k ? way::held : p.b_along_k ? way::direct : way::crossed;
    if (made == way::crossed) {
        std::swap(p.a, p.b);
        std::swap(p.a_pitch, p.b_pitch);
        std::swap(p.a_batch, p.b_batch);
        std::swap(p.M, p.N);
    }
    return launch_all(p, choose(p, processors), processors, made, stream);
}

// What the copy engine does not take is copied to the workspace first, and one of two operands
// whose k does not lie together: the smaller.
inline aicf_status
launch_turned_tf32(problem<float> p, void *workspace, aicf_stream stream)
{
    merge_batches(p);
    float *room = static_cast<float *>(workspace);
    turned_operand a = {p.a, p.M, p.a_pitch, p.a_along_k, p.a_batch};
    turned_operand b = {p.b, p.N, p.b_pitch, p.b_along_k, p.b_batch};
    bool copy_a = !engine_takes(p, a), copy_b = !engine_takes(p, b);
    if (!copy_a && !copy_b && !a.along_k && !b.along_k) {
        copy_a = a.sides <= b.sides;
        copy_b = !copy_a;
    }
    turned_copies copies = {};
    if (copy_a) {
        copies.copy[0] = turn_to(room, p, a);
    }
    if (copy_b) {
        copies.copy[1] = turn_to(room, p, b);
    }
    p.a = a.data;
    p.a_pitch = a.pitch;
    p.a_along_k = a.along_k;
    p.b = b.data;
    p.b_pitch = b.pitch;
    p.b_along_k = b.along_k;
    aicf_status status = launch_turned(copies, stream);
    return status.kind ? status : launch_wgmma_tf32(p, stream);
}

} // namespace aicf::gemm

aicf_status
aicf_cuda_gemm_wgmma_tf32_f32(
    const aicf_view *a, const aicf_view *b, const float *bias, const aicf_view *c,
    const aicf_view *out, int64_t, int64_t M, int64_t K, int64_t, int64_t N, double alpha,
    double beta, aicf_gemm_act act, aicf_gemm_precision, aicf_stream stream)
{
    return aicf::gemm::launch_wgmma_tf32(
        aicf::gemm::problem_of(a, b, bias, c, out, M, K, N, alpha, beta, act), stream);
}

aicf_status
aicf_cuda_gemm_turned_tf32_f32(
    const aicf_view *a, const aicf_view *b, const float *bias, const aicf_view *c,
    const aicf_view *out, int64_t, int64_t M, int64_t K, int64_t, int64_t N, double alpha,
    double beta, aicf_gemm_act act, aicf_gemm_precision, void *workspace, aicf_stream stream)
{
    return aicf::gemm::launch_turned_tf32(
        aicf::gemm::problem_of(a, b, bias, c, out, M, K, N, alpha, beta, act), workspace, stream);
}
