/* Sums of a view over some of its dims: sum_run_<s>(x, over, out) for each float dtype s,
   accumulated in f32, f64 in f64. */
#ifndef AICF_CPU_SUM_H
#define AICF_CPU_SUM_H

#include <aicf/cpu/reduce.h>

#define REDUCE(a, b) ((a) + (b))
#define REDUCE_IDENTITY(s) 0
#define REDUCE_FINISH(x, count) ((void)(count), (x))

#define S f32
#define REAL float
#include <aicf/cpu/reduce_of.h>
#undef REAL
#undef S

#define S f64
#define REAL double
#include <aicf/cpu/reduce_of.h>
#undef REAL
#undef S

/* out, dense, = the sums of x over the dims whose bits are set in `over`. */
#define SUM_RUN(T, s, acc)                                                    \
    static inline void sum_run_##s(const aicf_view *x, uint32_t over, T *out) \
    {                                                                         \
        const aicf_converter *dtype = &aicf_converter_##s;                    \
        reduce_run(&reduce_kind_of_##acc, dtype, dtype, x, over, out, NULL);  \
    }

SUM_RUN(float, f32, f32)
SUM_RUN(aicf_f16, f16, f32)
SUM_RUN(aicf_bf16, bf16, f32)
SUM_RUN(double, f64, f64)

#endif
