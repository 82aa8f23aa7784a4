/* The reductions on the CPU, compiled once an op: sum, mean, max, min, argmax over axes, x with any
   strides, out dense. f16 and bf16 are computed in f32 and rounded once, integers in i64; of
   nothing a sum is 0 and a mean NaN. Bound by bytes. */
#define HEADER(op) <aicf_ops/op.h>
#include HEADER(AICF_OP)

#include <math.h>

#include <aicf/cpu/reduce.h>

#define sum_is 1
#define mean_is 2
#define max_is 3
#define min_is 4
#define argmax_is 5
#define JOIN(a, b, c) a##b##c
#define KIND(op) JOIN(, op, _is)

#define IS_NAN(x) AICF_JOIN(is_nan, S)(x)
#define is_nan_f32(x) ((x) != (x))
#define is_nan_f64(x) ((x) != (x))
#define is_nan_i64(x) ((void)(x), 0)

#define LEAST(s) AICF_JOIN(least, s)
#define MOST(s) AICF_JOIN(most, s)
#define least_f32 (-INFINITY)
#define least_f64 (-(double)INFINITY)
#define least_i64 INT64_MIN
#define most_f32 INFINITY
#define most_f64 ((double)INFINITY)
#define most_i64 INT64_MAX

/* What combines two values, of nothing is, and is written. NaN wins. */
#define REDUCE_FINISH(x, count) ((void)(count), (x))
#if KIND(AICF_OP) == max_is
#define REDUCE(a, b) (((b) > (a)) | IS_NAN(b) ? (b) : (a))
#define REDUCE_IDENTITY LEAST
#elif KIND(AICF_OP) == min_is
#define REDUCE(a, b) (((b) < (a)) | IS_NAN(b) ? (b) : (a))
#define REDUCE_IDENTITY MOST
#else
#define REDUCE(a, b) ((a) + (b))
#define REDUCE_IDENTITY(s) 0
#endif
#if KIND(AICF_OP) == mean_is
#undef REDUCE_FINISH
#define REDUCE_FINISH(x, count) ((x) / (count))
#endif

#if KIND(AICF_OP) == argmax_is
#define SKELETON <aicf/cpu/reduce_place.h>
#define LOWEST LEAST(S)
#define NOWHERE INT64_MAX
#else
#define SKELETON <aicf/cpu/reduce_of.h>
#endif

#define S f32
#define REAL float
#include SKELETON
#undef REAL
#undef S

#define S f64
#define REAL double
#include SKELETON
#undef REAL
#undef S

#if KIND(AICF_OP) != mean_is
#define S i64
#define REAL int64_t
#include SKELETON
#undef REAL
#undef S
#endif

/* ---- launchers ----------------------------------------------------------------------------------
 */

#define NAME(op, loop) JOIN(aicf_cpu_, op, loop)

/* `from` and `to` are the converters of x and out, `acc` what is computed in. */
#define LAUNCHER(T, Out, loop, from, to, acc)                                           \
    aicf_status NAME(AICF_OP, loop)(                                                    \
        const aicf_view *x, Out *out, int64_t A, const aicf_ints *axes, bool keepdim,   \
        aicf_stream stream)                                                             \
    {                                                                                   \
        (void)A, (void)keepdim, (void)stream;                                           \
        reduce_run(&reduce_kind_of_##acc, &from, &to, x, reduce_bits(axes), out, NULL); \
        return aicf_ok();                                                               \
    }

/* T and what is written of it; suffixes are pasted at once, since `bool` is a macro. */
#define SAME(T, s, acc) LAUNCHER(T, T, _loop_##s, aicf_converter_##s, aicf_converter_##s, acc)
#define WHOLE(T, s, acc) \
    LAUNCHER(T, int64_t, _loop_##s, aicf_converter_##s, aicf_converter_i64, acc)

#if KIND(AICF_OP) == argmax_is
WHOLE(float, f32, f32)
WHOLE(aicf_f16, f16, f32)
WHOLE(aicf_bf16, bf16, f32)
WHOLE(double, f64, f64)
#else
SAME(float, f32, f32)
SAME(aicf_f16, f16, f32)
SAME(aicf_bf16, bf16, f32)
SAME(double, f64, f64)
#endif

#if KIND(AICF_OP) == max_is || KIND(AICF_OP) == min_is
SAME(int8_t, i8, i64)
SAME(uint8_t, u8, i64)
SAME(int16_t, i16, i64)
SAME(int32_t, i32, i64)
SAME(int64_t, i64, i64)
#elif KIND(AICF_OP) != mean_is
WHOLE(int8_t, i8, i64)
WHOLE(uint8_t, u8, i64)
WHOLE(int16_t, i16, i64)
WHOLE(int32_t, i32, i64)
WHOLE(int64_t, i64, i64)
#endif
#if KIND(AICF_OP) == sum_is
WHOLE(aicf_bool, bool, i64)
#endif
