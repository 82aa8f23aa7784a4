// Gradients of softmax and log_softmax (cuda) where a row fits into a block, and in two passes
// where it fits nowhere or is a column: see softmax_bwd.cuh.
#include "softmax_bwd.cuh"

namespace aicf::AICF_OP {

AICF_ROWS_ALL_KERNELS(operands, kMostPacks)
AICF_PASSES_KERNELS

} // namespace aicf::AICF_OP

#define LAUNCHERS(T, suffix)                                                                      \
    aicf_status AICF_LAUNCHER_OF(AICF_OP, held, suffix)(                                          \
        const T *gy, const T *fwd, T *gx, int64_t L, int64_t N, int64_t, int64_t,                 \
        aicf_stream stream)                                                                       \
    {                                                                                             \
        using D = aicf::device_t<T>;                                                              \
        return aicf::rows::launch(                                                                \
            aicf::AICF_OP::all_kernels_of<D>(), aicf::AICF_OP::operands_of(gy, fwd, gx, L, N),    \
            stream);                                                                              \
    }                                                                                             \
    aicf_status AICF_LAUNCHER_OF(AICF_OP, passes, suffix)(                                        \
        const T *gy, const T *fwd, T *gx, int64_t L, int64_t N, int64_t R, int64_t,               \
        void *workspace, aicf_stream stream)                                                      \
    {                                                                                             \
        using D = aicf::device_t<T>;                                                              \
        aicf::passes::operands<D, 2> p = {                                                        \
            {aicf::device(gy), aicf::device(fwd)}, aicf::device(gx), nullptr, {}};                \
        return aicf::passes::launch(                                                              \
            aicf::AICF_OP::row_passes<D>, aicf::AICF_OP::column_passes<D>, p, L, N, R, workspace, \
            stream);                                                                              \
    }

LAUNCHERS(float, f32)
LAUNCHERS(aicf_f16, f16)
LAUNCHERS(aicf_bf16, bf16)
