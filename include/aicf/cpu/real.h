/* Floats of the table as CPU kernels compute with them: f16 and bf16 in f32, f64 in f64. */
#ifndef AICF_CPU_REAL_H
#define AICF_CPU_REAL_H

#include <aicf/half.h>
#include <aicf/kernel.h>

/* Expands X(C type, suffix) for each float dtype. */
#define AICF_REALS(X)  \
    X(float, f32)      \
    X(aicf_f16, f16)   \
    X(aicf_bf16, bf16) \
    X(double, f64)

typedef float aicf_acc_f32;
typedef float aicf_acc_f16;
typedef float aicf_acc_bf16;
typedef double aicf_acc_f64;

/* name_s, for headers that are included once a dtype. */
#define AICF_JOIN(name, s) AICF_JOIN_TOKENS(name, s)
#define AICF_JOIN_TOKENS(name, s) name##_##s

/* Inlined into every clone of its caller, whatever that is compiled for. */
#define AICF_INLINE static inline __attribute__((always_inline))

/* For what is done once a call and not once a line: one copy a module, not one for each dtype. */
#define AICF_ONCE static __attribute__((noinline, unused))

/* Before a loop of which no iteration reads what another one writes: an out is exactly an input or
   apart from it. */
#if defined(__clang__)
#define AICF_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define AICF_INDEPENDENT _Pragma("GCC ivdep")
#endif

AICF_INLINE float
aicf_load_f32(const float *p)
{
    return *p;
}

AICF_INLINE float
aicf_load_f16(const aicf_f16 *p)
{
    return aicf_f16_to_f32(*p);
}

AICF_INLINE float
aicf_load_bf16(const aicf_bf16 *p)
{
    return aicf_bf16_to_f32(*p);
}

AICF_INLINE double
aicf_load_f64(const double *p)
{
    return *p;
}

AICF_INLINE void
aicf_store_f32(float *p, float x)
{
    *p = x;
}

AICF_INLINE void
aicf_store_f16(aicf_f16 *p, float x)
{
    *p = aicf_f16_of_f32(x);
}

AICF_INLINE void
aicf_store_bf16(aicf_bf16 *p, float x)
{
    *p = aicf_bf16_of_f32(x);
}

AICF_INLINE void
aicf_store_f64(double *p, double x)
{
    *p = x;
}

/* The value of a scalar argument, which on this backend is in memory that the host reads. */
AICF_INLINE double
aicf_scalar_real(const aicf_scalar *scalar)
{
    if (!scalar->data) {
        return scalar->host.real;
    }
    switch (scalar->dtype) {
    case AICF_F16: return aicf_load_f16((const aicf_f16 *)scalar->data);
    case AICF_BF16: return aicf_load_bf16((const aicf_bf16 *)scalar->data);
    case AICF_F32: return *(const float *)scalar->data;
    default: return *(const double *)scalar->data;
    }
}

#endif
