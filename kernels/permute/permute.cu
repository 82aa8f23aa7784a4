// out = x with its axes in another order, dense (cuda): any dtype, x of any strides. The kernels,
// by the size of an element, and which of them runs, are described in aicf/cuda/transpose.cuh.
// Bound by bytes.
#include <aicf_ops/permute.h>

#include <aicf/cuda/transpose.cuh>

namespace aicf::permute {

AICF_TRANSPOSE_KERNELS

static aicf_status
launch(
    const aicf_view &x, void *out, const aicf_ints *perm, int item, bool truth, aicf_stream stream)
{
    aicf_view turned = {x.data, x.rank, {}, {}}, dense = {out, x.rank, {}, {}};
    int64_t stride = 1;
    for (int64_t i = x.rank - 1; i >= 0; i--) {
        turned.sizes[i] = dense.sizes[i] = x.sizes[perm->values[i]];
        turned.strides[i] = x.strides[perm->values[i]];
        dense.strides[i] = stride;
        stride *= dense.sizes[i];
    }
    return transpose::launch(table, turned, dense, item, truth, stream);
}

} // namespace aicf::permute

#define LAUNCHER_OF(T, suffix, truth)                                                            \
    aicf_status aicf_cuda_permute_tiled_##suffix(                                                \
        const aicf_view *x, T *out, int64_t, const aicf_ints *perm, aicf_stream stream)          \
    {                                                                                            \
        return aicf::permute::launch(*x, out, perm, static_cast<int>(sizeof(T)), truth, stream); \
    }
#define LAUNCHER(T, suffix) LAUNCHER_OF(T, suffix, false)

LAUNCHER(float, f32)
LAUNCHER(aicf_f16, f16)
LAUNCHER(aicf_bf16, bf16)
LAUNCHER(double, f64)
LAUNCHER(int8_t, i8)
LAUNCHER(uint8_t, u8)
LAUNCHER(int16_t, i16)
LAUNCHER(int32_t, i32)
LAUNCHER(int64_t, i64)
LAUNCHER_OF(aicf_bool, bool, true)
