// layer_norm_bwd and rms_norm_bwd (cuda) where a row fits into a cluster: see row_norm_bwd.cuh.
#include "row_norm_bwd.cuh"

namespace aicf::AICF_OP {

template <typename T, int kSize>
__global__ void
__launch_bounds__(kMostThreads, 1) cluster(const operands<T> p)
{
    rows::cluster_team team;
    body<kSize, kColumns / kSize>(p, team);
}

// Clusters of 2, 4 or 8 blocks.
template <typename T, int kSize>
aicf_status
launch_rows(const operands<T> &p, const wanted<T> &out, aicf_stream stream)
{
    int parts = 2;
    while (parts < rows::kClusterBlocks && p.N > int64_t{parts} * kMostThreads * kColumns) {
        parts *= 2;
    }
    int64_t columns = ceil_div(p.N, int64_t{parts} * kColumns);
    int threads = static_cast<int>(ceil_div(columns, rows::kWarp)) * rows::kWarp;
    int64_t teams = columns::clusters(parts), most = most_teams(p.L, p.N);
    teams = teams < most ? teams : most;
    return launch_both(p, out, teams, stream, [&] {
        return aicf::launch_cluster(
            cluster<T, kSize>, static_cast<unsigned>(teams * parts), static_cast<unsigned>(threads),
            static_cast<unsigned>(parts), stream, p);
    });
}

template <typename T>
aicf_status
run_cluster(const operands<T> &p, const wanted<T> &out, aicf_stream stream)
{
    return packed(p) ? launch_rows<T, kPackSize<T>>(p, out, stream)
                     : launch_rows<T, 1>(p, out, stream);
}

} // namespace aicf::AICF_OP

AICF_ROW_NORM_BWD_LAUNCHERS(cluster, aicf::AICF_OP::run_cluster)
