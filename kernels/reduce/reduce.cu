// The reductions (cuda), compiled once an op: sum, mean, max, min, argmax over axes: x a view of
// any strides, out dense. f32, f16 and bf16 are computed in f32, integers in i64 where they are
// summed; a sum of nothing is 0, a mean NaN. What is launched is described in aicf/cuda/reduce.cuh,
// what each op computes in aicf/cuda/reduce_ops.cuh; `workspace` holds the first stage's values.
#define HEADER(op) <aicf_ops/op.h>
#include HEADER(AICF_OP)

#include <aicf/cuda/reduce.cuh>

#define JOIN(a, b, c) a##b##c
#define OF(op) JOIN(, op, _of)
#define NAME(op, suffix) JOIN(aicf_cuda_, op, _two_stage_##suffix)

namespace aicf::AICF_OP {

template <typename T> using op_of = reduce::OF(AICF_OP)<T>;

AICF_REDUCE_KERNELS(op_of)

// `axes` is folded: indexes of dims of x, each at most once.
template <typename T>
aicf_status
launch(const aicf_view *x, void *out, const aicf_ints *axes, void *workspace, aicf_stream stream)
{
    uint32_t bits = 0;
    for (int64_t i = 0; i < axes->count; i++) {
        bits |= uint32_t{1} << axes->values[i];
    }
    return reduce::launch(kernels_of<device_t<T>>(), *x, bits, out, {}, workspace, stream);
}

} // namespace aicf::AICF_OP

#define LAUNCHER(T, Out, suffix)                                                             \
    aicf_status NAME(AICF_OP, suffix)(                                                       \
        const aicf_view *x, Out *out, int64_t, const aicf_ints *axes, bool, void *workspace, \
        aicf_stream stream)                                                                  \
    {                                                                                        \
        return aicf::AICF_OP::launch<T>(x, out, axes, workspace, stream);                    \
    }

// What each op takes, and what it writes of floats and of integers.
#define sum_is 1
#define mean_is 2
#define max_is 3
#define min_is 3
#define argmax_is 4
#define KIND(op) JOIN(, op, _is)

#if KIND(AICF_OP) == sum_is
#define OUT(T) int64_t
#define FLOAT_OUT(T) T
#elif KIND(AICF_OP) == argmax_is
#define OUT(T) int64_t
#define FLOAT_OUT(T) int64_t
#else
#define OUT(T) T
#define FLOAT_OUT(T) T
#endif

LAUNCHER(float, FLOAT_OUT(float), f32)
LAUNCHER(aicf_f16, FLOAT_OUT(aicf_f16), f16)
LAUNCHER(aicf_bf16, FLOAT_OUT(aicf_bf16), bf16)
#if KIND(AICF_OP) != mean_is
LAUNCHER(int8_t, OUT(int8_t), i8)
LAUNCHER(uint8_t, OUT(uint8_t), u8)
LAUNCHER(int16_t, OUT(int16_t), i16)
LAUNCHER(int32_t, OUT(int32_t), i32)
LAUNCHER(int64_t, OUT(int64_t), i64)
#endif
#if KIND(AICF_OP) == sum_is
LAUNCHER(aicf_bool, OUT(aicf_bool), bool)
#endif
