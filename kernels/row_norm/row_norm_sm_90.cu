// layer_norm and rms_norm (cuda) where a row fits into the registers of a cluster: see
// row_norm.cuh.
#include "row_norm.cuh"

namespace aicf::AICF_OP {

template <typename T, typename Row>
__global__ void
__launch_bounds__(columns::kMostThreads, 1) cluster(const operands<T> p)
{
    columns::mail_team team;
    stay_body<Row>(p, team);
}

template <typename Row, typename T>
aicf_status
launch_rows(operands<T> p, int64_t N, aicf_stream stream)
{
    constexpr int64_t kMost = int64_t{columns::kMostThreads} * kStayPacks; // packs of a block
    int64_t packs = ceil_div(N, kPackSize<T>), lead = rows::kLinePacks - 1, parts = 2;
    p.shape.lines = Row::kPhased && packs + lead <= rows::kClusterBlocks * kMost;
    packs += p.shape.lines ? lead : 0;
    while (parts < rows::kClusterBlocks && packs > parts * kMost) {
        parts *= 2;
    }
    int64_t share = ceil_div(ceil_div(packs, parts), rows::kLinePacks) * rows::kLinePacks;
    share = share < kMost ? share : kMost;
    p.shape.share = static_cast<int>(share);
    int64_t threads = ceil_div(ceil_div(share, kStayPacks), rows::kWarp) * rows::kWarp;

    // Four times what runs at once: a team more than fits would else double the time.
    int64_t teams =
        4 * columns::clusters(static_cast<int>(parts)) * (columns::kMostThreads / threads);
    teams = teams < p.shape.count ? teams : p.shape.count;
    return aicf::launch_cluster(
        cluster<T, Row>, static_cast<unsigned>(teams * parts), static_cast<unsigned>(threads),
        static_cast<unsigned>(parts), stream, p);
}

template <typename T>
aicf_status
run_cluster(const operands<T> &p, int64_t L, int64_t N, aicf_stream stream)
{
    if (L == 0 || N == 0) {
        return aicf_ok();
    }
    return packed(p) ? launch_rows<even_row<T>>(p, N, stream)
                     : launch_rows<phased_row<T>>(p, N, stream);
}

} // namespace aicf::AICF_OP

AICF_ROW_NORM_LAUNCHERS(cluster, aicf::AICF_OP::run_cluster)
