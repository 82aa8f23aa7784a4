// softmax and log_softmax (cuda) where a row fits into the registers of a cluster: see softmax.cuh.
#include "softmax.cuh"

namespace aicf::AICF_OP {

AICF_ROWS_CLUSTER_KERNEL(operands, kMostPacks)

} // namespace aicf::AICF_OP

#define LAUNCHER(T, suffix)                                                                  \
    aicf_status AICF_LAUNCHER_OF(AICF_OP, cluster, suffix)(                                  \
        const T *x, T *out, int64_t L, int64_t N, int64_t, int64_t, aicf_stream stream)      \
    {                                                                                        \
        return aicf::rows::launch_cluster(                                                   \
            aicf::AICF_OP::cluster<aicf::device_t<T>>, sizeof(T), aicf::AICF_OP::kMostPacks, \
            aicf::AICF_OP::operands_of(x, out, L, N), stream);                               \
    }

LAUNCHER(float, f32)
LAUNCHER(aicf_f16, f16)
LAUNCHER(aicf_bf16, bf16)
