// layer_norm and rms_norm (cuda) where a row fits into the registers of a cluster: see
// row_norm.cuh.
#include "row_norm.cuh"

namespace aicf::AICF_OP {

template <typename T, int kSize>
__global__ void
__launch_bounds__(columns::kMostThreads, 1) cluster(const operands<T> p)
{
    columns::mail_team team;
    stay_body<kSize>(p, team);
}

template <typename T, int kSize>
aicf_status
launch_rows(const operands<T> &p, int64_t N, aicf_stream stream)
{
    constexpr int64_t kMine = kSize * kStayUnits<T, kSize>;
    int parts = 2;
    while (parts < rows::kClusterBlocks && N > int64_t{parts} * columns::kMostThreads * kMine) {
        parts *= 2;
    }
    int64_t threads = ceil_div(ceil_div(N, parts * kMine), rows::kWarp) * rows::kWarp;
    // Four times what runs at once: a team more than fits would else double the time.
    int64_t teams = 4 * columns::clusters(parts) * (columns::kMostThreads / threads);
    teams = teams < p.shape.count ? teams : p.shape.count;
    return aicf::launch_cluster(
        cluster<T, kSize>, static_cast<unsigned>(teams * parts), static_cast<unsigned>(threads),
        static_cast<unsigned>(parts), stream, p);
}

template <typename T>
aicf_status
run_cluster(const operands<T> &p, int64_t L, int64_t N, aicf_stream stream)
{
    if (L == 0 || N == 0) {
        return aicf_ok();
    }
    return packed(p) ? launch_rows<T, kPackSize<T>>(p, N, stream) : launch_rows<T, 1>(p, N, stream);
}

} // namespace aicf::AICF_OP

AICF_ROW_NORM_LAUNCHERS(cluster, aicf::AICF_OP::run_cluster)
