// softmax and log_softmax (cuda) where a row fits into the registers of a cluster: see softmax.cuh.
#include "softmax.cuh"

namespace aicf::AICF_OP {

AICF_ROWS_STAY_KERNEL(operands)

template <typename T>
__global__ void
__launch_bounds__(rows::kBlockPacks / kMostPacks, rows::kThreads *kMostPacks / rows::kBlockPacks)
    cluster(const operands<T> p)
{
    rows::cluster_team team;
    rows::begin_cluster(p.x, p.shape);
    body<kMostPacks, 1>(p, team);
}

// Of blocks of seven warps, as a row of 50257 has four: one more on a multiprocessor, so that as
// much is on its way as of eight warps.
constexpr int kNarrow = 7 * rows::kWarp, kNarrowBlocks = 5;

template <typename T>
__global__ void
__launch_bounds__(kNarrow, kNarrowBlocks) narrow_cluster(const operands<T> p)
{
    rows::cluster_team team;
    rows::begin_cluster(p.x, p.shape);
    body<kMostPacks, 1>(p, team);
}

template <typename T>
aicf_status
launch(const operands<T> &p, aicf_stream stream)
{
    constexpr int kItem = static_cast<int>(sizeof(T));
    if constexpr (kItem == 2) {
        if (rows::may_stay(p.shape, kItem)) {
            return rows::launch_stay<operands<T>>({stay<T, 8>, stay<T, 7>}, kItem, p, stream);
        }
        return rows::launch_cluster(
            cluster<T>, kItem, kMostPacks, p, stream, {narrow_cluster<T>, kNarrow, kNarrowBlocks});
    }
    return rows::launch_cluster(cluster<T>, kItem, kMostPacks, p, stream);
}

} // namespace aicf::AICF_OP

#define LAUNCHER(T, suffix)                                                             \
    aicf_status AICF_LAUNCHER_OF(AICF_OP, cluster, suffix)(                             \
        const T *x, T *out, int64_t L, int64_t N, int64_t, int64_t, aicf_stream stream) \
    {                                                                                   \
        return aicf::AICF_OP::launch(aicf::AICF_OP::operands_of(x, out, L, N), stream); \
    }

LAUNCHER(float, f32)
LAUNCHER(aicf_f16, f16)
LAUNCHER(aicf_bf16, bf16)
