/* What the formulas of losses are written in: mse.h and its neighbours, here and in loss_bwd/, for
   the CPU and for CUDA. A formula's header says

     REDUCTION(word)   the op's name for NONE, MEAN or SUM
     OWN               the op's own attribute as a parameter of a launcher, with a comma behind it;
                       OWN_VALUE its value, or 0

   and, in numbers of the type REAL, whose suffix is S, the function `formula` of one element. It
   may be included for several suffixes; the functions exp_S and log1p_S must be there. */
#ifndef AICF_LOSS_FORMULA_H
#define AICF_LOSS_FORMULA_H

#define NAME(name) NAME_OF(name, S)
#define NAME_OF(name, s) NAME_TOKENS(name, s)
#define NAME_TOKENS(name, s) name##_##s

#define STRING(op) #op
#define OPS_HEADER(op) <aicf_ops/op.h>
#define FORMULA_HEADER(op) STRING(op.h)
#define LAUNCHER(backend, op, kernel, s) LAUNCHER_OF(backend, op, kernel, s)
#define LAUNCHER_OF(backend, op, kernel, s) aicf_##backend##_##op##_##kernel##_##s
#define REDUCTION_TYPE(op) REDUCTION_TYPE_OF(op)
#define REDUCTION_TYPE_OF(op) aicf_##op##_reduction

#define formula NAME(formula)
#define exp_of NAME(exp_of)
#define log1p_of NAME(log1p_of)

#ifdef __CUDACC__
#define FORMULA_INLINE static __device__ __forceinline__
#else
#define FORMULA_INLINE static inline __attribute__((always_inline))
#endif
#define FORMULA FORMULA_INLINE REAL

/* 2 atanh s, which for s = x / (2 + x) is ln(1 + x), for 0 <= x <= 1: 2 (s + s^3 P(s^2)) with P
   fitted at Chebyshev's points; within 3 units of the last place of f32. */
FORMULA_INLINE float
log1p_of_quotient(float s)
{
    const float z = s * s, twice = s + s;
    const float p = ((0.134337738f * z + 0.141169786f) * z + 0.200038359f) * z + 0.333333194f;
    return twice + twice * (z * p);
}

#endif
