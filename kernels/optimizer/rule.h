/* What the rules of optimizers are written in: sgd.h and its neighbours, each the formula of one
   op, for the CPU and for CUDA. A rule's header says

     STATES           how many lists of state there are; the last OPTIONAL_STATES may be absent
     STATE_LISTS      those as parameters of a launcher, and STATE_NAMES their names
     OWN, OWN_NAMES   the op's own attributes and scalars, likewise
     STEP             which of those counts the steps, or NULL

   and, in numbers of the type REAL, whose suffix is S,

     rule, rule_of    what an update needs of the attributes
     factors, factors_of   what it needs of the scalars
     update           new p and states of one element; a state that is absent comes as 0

   It may be included for several types: all it defines has the suffix. */
#ifndef AICF_OPTIMIZER_RULE_H
#define AICF_OPTIMIZER_RULE_H

#include <math.h>

#define NAME(name) NAME_OF(name, S)
#define NAME_OF(name, s) NAME_TOKENS(name, s)
#define NAME_TOKENS(name, s) name##_##s

#define rule NAME(rule)
#define rule_of NAME(rule_of)
#define factors NAME(factors)
#define factors_of NAME(factors_of)
#define update NAME(update)
#define decayed NAME(decayed)
#define bias NAME(bias)

#ifdef __CUDACC__
#define RULE_INLINE static __device__ __forceinline__
#define RULE_SQRT(x) ::sqrtf(x)
#define RULE_EXPM1(x) ::expm1f(x)
#else
#define RULE_INLINE static inline __attribute__((always_inline))
#define RULE_SQRT(x) _Generic((x), float: sqrtf, double: sqrt)(x)
#define RULE_EXPM1(x) _Generic((x), float: expm1f, double: expm1)(x)
#endif

#endif
