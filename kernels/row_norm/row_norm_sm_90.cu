// layer_norm and rms_norm (cuda) where a row fits into the registers of a cluster: see
// row_norm.cuh.
#include "row_norm.cuh"

namespace aicf::AICF_OP {

AICF_ROWS_CLUSTER_KERNEL(operands, kMostPacks)

template <typename T>
aicf_status
run_cluster(const operands<T> &p, int64_t, int64_t, aicf_stream stream)
{
    return rows::launch_cluster(cluster<T>, sizeof(T), kMostPacks, p, stream);
}

} // namespace aicf::AICF_OP

AICF_ROW_NORM_LAUNCHERS(cluster, aicf::AICF_OP::run_cluster)
