/* Ops that take each element for itself, in f32 and f64. */
#include <math.h>

#include "aicf_ops/cast.h"
#include "aicf_ops/cube.h"
#include "aicf_ops/drop.h"
#include "aicf_ops/running.h"
#include "aicf_ops/shift.h"
#include "aicf_ops/sincos.h"
#include "aicf_ops/sincos_bwd.h"
#include "aicf_ops/square.h"
#include "aicf_ops/square_bwd.h"
#include "aicf_ops/turn.h"

#define EACH(statement)               \
    (void)stream;                     \
    for (int64_t i = 0; i < A; i++) { \
        statement;                    \
    }                                 \
    return aicf_ok();

static int64_t
integer_of(const aicf_scalar *s)
{
    return s->data ? *(const int64_t *)s->data : s->host.integer;
}

/* A number in [0, 1) that depends on nothing but these. */
static double
hashed(int64_t seed, int64_t place)
{
    uint64_t x = (uint64_t)seed * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)place;
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (double)((x ^ (x >> 31)) >> 11) / 9007199254740992.0;
}

#define REALS(T, S)                                                                              \
    aicf_status kinds_cpu_square_loop_##S(const T *x, T *out, int64_t A, aicf_stream stream){    \
        EACH(out[i] = x[i] * x[i])} aicf_status                                                  \
        kinds_cpu_square_bwd_loop_##S(                                                           \
            const T *gy, const T *x, T *gx, int64_t A,                                           \
            aicf_stream stream){EACH(gx[i] = 2 * gy[i] * x[i])} aicf_status                      \
            kinds_cpu_cube_loop_##S(const T *x, T *out, int64_t A, aicf_stream stream){          \
                EACH(out[i] = x[i] * x[i] * x[i])} aicf_status                                   \
                kinds_cpu_sincos_loop_##S(const T *x, T *s, T *c, int64_t A, aicf_stream stream) \
    {                                                                                            \
        EACH(s[i] = (T)sin((double)x[i]); c[i] = (T)cos((double)x[i]))                           \
    }                                                                                            \
    aicf_status kinds_cpu_sincos_bwd_loop_##S(                                                   \
        const T *gs, const T *gc, const T *x, T *gx, int64_t A, aicf_stream stream){EACH(        \
        gx[i] = (T)((double)gs[i] * cos((double)x[i]) -                                          \
                    (double)gc[i] * sin((double)x[i])))} aicf_status                             \
        kinds_cpu_running_loop_##S(                                                              \
            T *m, const T *x, T *out, int64_t A, double keep, aicf_stream stream)                \
    {                                                                                            \
        EACH(m[i] = (T)(keep * (double)m[i] + (1 - keep) * (double)x[i]); out[i] = x[i] - m[i])  \
    }                                                                                            \
    aicf_status kinds_cpu_drop_loop_##S(                                                         \
        const T *x, T *out, int64_t A, const aicf_scalar *seed, const aicf_scalar *offset,       \
        double p, aicf_stream stream)                                                            \
    {                                                                                            \
        int64_t from = integer_of(offset), of = integer_of(seed);                                \
        EACH(out[i] = hashed(of, from + i) < p ? 0 : (T)((double)x[i] / (1 - p)))                \
    }                                                                                            \
    aicf_status kinds_cpu_turn_loop_##S(                                                         \
        const T *x, T *out, int64_t A, kinds_turn_how how, aicf_stream stream)                   \
    {                                                                                            \
        T by = how == KINDS_TURN_HOW_KEEP ? 1 : how == KINDS_TURN_HOW_NEGATE ? -1 : 2;           \
        EACH(out[i] = by * x[i])                                                                 \
    }
REALS(float, f32)
REALS(double, f64)

#define SHIFT(T, S, member)                                                       \
    aicf_status kinds_cpu_shift_loop_##S(                                         \
        const T *x, T *out, int64_t A, const aicf_scalar *by, aicf_stream stream) \
    {                                                                             \
        T b = by->data ? *(const T *)by->data : (T)by->host.member;               \
        EACH(out[i] = x[i] + b)                                                   \
    }
SHIFT(float, f32, real)
SHIFT(double, f64, real)
SHIFT(int32_t, i32, integer)

#define CAST(T, S, U, V)                                                                         \
    aicf_status kinds_cpu_cast_loop_##S##_##V(const T *x, U *out, int64_t A, aicf_stream stream) \
    {                                                                                            \
        EACH(out[i] = (U)x[i])                                                                   \
    }
CAST(float, f32, float, f32)
CAST(float, f32, double, f64)
CAST(double, f64, float, f32)
CAST(double, f64, double, f64)
