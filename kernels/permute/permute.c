/* permute on the CPU: out = x with its axes in another order, dense; x of any strides. By the size
   of the elements; a bool becomes 0 or 1. Bound by bytes. */
#include <aicf_ops/permute.h>

#include <aicf/cpu/turned.h>

AICF_TURNED_COPY(uint8_t, 8, AICF_SAME)
AICF_TURNED_COPY(uint16_t, 16, AICF_SAME)
AICF_TURNED_COPY(uint32_t, 32, AICF_SAME)
AICF_TURNED_COPY(uint64_t, 64, AICF_SAME)
AICF_TURNED_COPY(uint8_t, bool, AICF_TRUTH)

static aicf_view
turned_of(const aicf_view *x, const aicf_ints *perm)
{
    aicf_view view = {x->data, x->rank, {0}, {0}};
    for (int64_t i = 0; i < x->rank; i++) {
        view.sizes[i] = x->sizes[perm->values[i]];
        view.strides[i] = x->strides[perm->values[i]];
    }
    return view;
}

static aicf_view
dense_as(const aicf_view *shape, void *data)
{
    aicf_view view = *shape;
    int64_t stride = 1;
    view.data = data;
    for (int64_t i = view.rank - 1; i >= 0; i--) {
        view.strides[i] = stride;
        stride *= view.sizes[i];
    }
    return view;
}

#define PERMUTE(T, s, name)                                                               \
    aicf_status aicf_cpu_permute_loop_##s(                                                \
        const aicf_view *x, T *out, int64_t A, const aicf_ints *perm, aicf_stream stream) \
    {                                                                                     \
        const aicf_view turned = turned_of(x, perm), dense = dense_as(&turned, out);      \
        (void)A, (void)stream;                                                            \
        return copy_##name(&turned, &dense);                                              \
    }

PERMUTE(float, f32, 32)
PERMUTE(aicf_f16, f16, 16)
PERMUTE(aicf_bf16, bf16, 16)
PERMUTE(double, f64, 64)
PERMUTE(int8_t, i8, 8)
PERMUTE(uint8_t, u8, 8)
PERMUTE(int16_t, i16, 16)
PERMUTE(int32_t, i32, 32)
PERMUTE(int64_t, i64, 64)
PERMUTE(aicf_bool, bool, bool)
