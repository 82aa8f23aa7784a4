// gemm_i8 by warpgroups of sm_90a (see warpgroups_i8.cuh, gemm_i8.cuh). Any M, N and K above 0; M
// and N below 2^31 - 256. wgmma takes bytes that lie along k alone: a of columns, or b of rows,
// comes by way of a turned copy in the workspace. Bound by the matrix units; where K is small, of
// 32-bit outs, by their bytes; where M is small by the bytes of b.
#include "gemm_i8.cuh"
#include "warpgroups_i8.cuh"

#include <algorithm>

namespace aicf::gemm_i8 {

using namespace i8;

template <class S, typename Pair>
__global__ void
__launch_bounds__(S::kThreads, 1) warpgroups(
    const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
    const __grid_constant__ gemm::plan p, const __grid_constant__ outs to)
{
    extern __shared__ __align__(kSwizzleBytes) uint8_t bytes[];
    gemm::shared_memory<S> shared = {ptx::shared_address(bytes)};
    int rank = S::kCluster > 1 ? static_cast<int>(ptx::cluster_rank()) : 0;
    if (threadIdx.x == 0) {
        ptx::map_prefetch(&a);
        ptx::map_prefetch(&b);
        shared.barriers().init(S::kConsumers * (kWarpgroup / 32) * S::kShare);
        ptx::barrier_init_fence();
    }
    __syncthreads();
    if constexpr (S::kCluster > 1) { // a peer's barriers exist before anything arrives there
        ptx::cluster_arrive();
        ptx::cluster_wait();
    }
    ptx::let_next_launch_begin();
    ptx::wait_for_launch_before(); // nothing above reads or writes what another launch may

    // 128 sums and what finishes them are more than an even share of the registers.
    constexpr bool kMoveRegisters = S::kCols == 256;
    int warpgroup = static_cast<int>(threadIdx.x) / kWarpgroup;
    if (warpgroup == 0) {
        if constexpr (kMoveRegisters) {
            ptx::registers_give<40>();
        }
        if (threadIdx.x == 0) {
            gemm::produce<S, false, false>(shared, &a, &b, nullptr, p, rank);
        }
        __syncwarp();
    } else {
        if constexpr (kMoveRegisters) {
            ptx::registers_take<232>();
        }
        consume<S, Pair>(shared, bytes, p, to, warpgroup - 1, rank);
        __syncwarp();
    }
    if constexpr (S::kShare > 1) { // while the peer may still write or arrive here, stay
        ptx::cluster_arrive();
        ptx::cluster_wait();
    }
}

// ---- shapes -------------------------------------------------------------------------------------

// A shape of tiles as the host sees it, and its kernels, by whether a has a sign.
struct shape_of_tiles {
    int rows, cols, a_rows, share, threads, shared;
    void (*kernels[2])(CUtensorMap, CUtensorMap, gemm::plan, outs);
};

template <class S>
constexpr shape_of_tiles kTiles = {
    S::kRows,
    S::kCols,
    S::kARows,
    S::kShare,
    S::kThreads,
    S::kShared,
    {&warpgroups<S, pair_u8>, &warpgroups<S, pair_i8>}};

// gemm's shapes, for its reasons.
constexpr auto &kWide = kTiles<gemm::tile_shape<2, 256, 4, 1, 1, 128, 2>>;
constexpr auto &kSquare = kTiles<gemm::tile_shape<2, 128, 6, 1, 1, 128, 2>>;
constexpr auto &kLow = kTiles<gemm::tile_shape<1, 128, 8, 1>>;
constexpr auto &kSmall = kTiles<gemm::tile_shape<1, 64, 12, 1>>;
constexpr auto &kFew = kTiles<gemm::tile_shape<1, 64, 20, 1, 1, 16>>;

// Clocks of a shape: waves of clusters over the processors, each its slabs and a fixed part, in
// which the outs are stored.
inline int64_t
clocks(const product &p, const shape_of_tiles &s, int processors, int slab_clocks)
{
    int fixed = 1500 + s.cols * 8;
    int64_t clusters = ceil_div(p.a.lines, s.rows * s.share) * ceil_div(p.b.lines, s.cols);
    return ceil_div(clusters, processors / s.share) *
           (ceil_div(p.a.depth, kLineBytes) * slab_clocks + fixed);
}

inline const shape_of_tiles &
choose(const product &p, int processors)
{
    if (p.a.lines <= kFew.a_rows) {
        return kFew;
    }
    const struct {
        const shape_of_tiles *shape;
        int64_t clocks;
    } bids[] = {
        {&kWide, clocks(p, kWide, processors, 1060)},
        {&kSquare, clocks(p, kSquare, processors, 545)},
        {&kLow, clocks(p, kLow, processors, 400)},
        {&kSmall, clocks(p, kSmall, processors, 330)}};
    int best = 0;
    for (int i = 1; i < 4; i++) {
        best = bids[i].clocks < bids[best].clocks ? i : best;
    }
    return *bids[best].shape;
}

// ---- launching ----------------------------------------------------------------------------------

// As pairs.
inline matrices
pairs_of(const operand &x)
{
    return {x.data, x.depth / 2, x.lines, 1, x.pitch / 2, 0, 2, CU_TENSOR_MAP_DATA_TYPE_UINT16};
}

inline aicf_status
launch_warpgroups(const product &p, aicf_stream stream)
{
    int processors = 0;
    aicf_status status = count_processors(&processors);
    if (status.kind) {
        return status;
    }
    const shape_of_tiles &s = choose(p, processors);
    int a_rows = static_cast<int>(std::min<int64_t>(s.a_rows, ceil_div(p.a.lines, 8) * 8));
    CUtensorMap a, b;
    status = encode_map(&a, pairs_of(p.a), a_rows);
    status = status.kind ? status : encode_map(&b, pairs_of(p.b), s.cols / s.share);
    if (status.kind) {
        return status;
    }
    gemm::plan how = {};
    how.m = static_cast<int>(p.a.lines);
    how.n = static_cast<int>(p.b.lines);
    how.slabs = static_cast<int>(ceil_div(p.a.depth, kLineBytes));
    how.m_groups = static_cast<int>(ceil_div(p.a.lines, s.rows * s.share));
    how.n_tiles = static_cast<int>(ceil_div(p.b.lines, s.cols));
    how.tiles = how.m_groups * how.n_tiles;
    how.a_bytes = a_rows * kRowBytes;
    outs to = outs_of(p.out, p.out_pitch, p.b.lines, p.shifts, p.requant);
    int clusters = std::min(how.tiles, processors / s.share);
    return launch_clusters(
        s.kernels[p.requant.signed_in], static_cast<unsigned>(clusters * s.share),
        static_cast<unsigned>(s.threads), s.shared, static_cast<unsigned>(s.share), stream, a, b,
        how, to);
}

inline aicf_status
run_wgmma(
    const aicf_view *a, const aicf_view *b, const aicf_view *out, int64_t M, int64_t K, int64_t N,
    const aicf_requant &r, void *workspace, aicf_stream stream)
{
    product p;
    aicf_status status = product_of<90>(a, b, out, M, K, N, r, workspace, stream, &p);
    return status.kind || M * N == 0 ? status : launch_warpgroups(p, stream);
}

} // namespace aicf::gemm_i8

#define LAUNCHER(...) AICF_GEMM_I8_LAUNCHER(wgmma, aicf::gemm_i8::run_wgmma, __VA_ARGS__)

AICF_REQUANTS(LAUNCHER)
