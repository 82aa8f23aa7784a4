/* layer_norm_bwd and rms_norm_bwd on the CPU: dense rows, f16 and bf16 computed in f32. With
   h = (x - mean) * rstd and q = gy * weight,

       gx = rstd * (q - mean of q over the row - h * mean of q * h over the row)
       gw = gy * h, gb = gy, summed over rows

   of which rms_norm has neither mean. gx may be exactly gy. Rows are cut into parts whose gw and gb
   go to the workspace, one part after the other, and are summed there. Bound by bytes. */
#define HEADER(op) <aicf_ops/op.h>
#include HEADER(AICF_OP)

#include <aicf/cpu/moments.h>

enum { layer_norm_bwd_centred = 1, rms_norm_bwd_centred = 0 };
#define CENTRED AICF_JOIN(AICF_OP, centred)

enum { LEAST_ROWS = 16 }; /* of a part: the row's workspace expression says the same */

typedef struct row_norm_bwd {
    const aicf_converter *dtype;
    const char *gy, *x, *weight; /* weight may be NULL */
    const void *mean, *rstd;     /* what is computed in; of rms_norm no mean */
    char *gx, *gw, *gb;          /* each may be NULL */
    void *partial;               /* gw, gb of each part: parts x 2 x N */
    int64_t L, N;
    aicf_parts parts;
} row_norm_bwd;

#define S f32
#define REAL float
#include "row_norm_bwd_of.h"
#undef REAL
#undef S

#define S f64
#define REAL double
#include "row_norm_bwd_of.h"
#undef REAL
#undef S

#define RUN(s, acc, p)                        \
    (p).dtype = &aicf_converter_##s;          \
    (p).parts = moments_parts(L, LEAST_ROWS); \
    row_norm_bwd_run_##acc(&(p));             \
    return aicf_ok()

#define layer_norm_bwd_launcher(T, A, s, acc)                                                 \
    aicf_status aicf_cpu_layer_norm_bwd_loop_##s(                                             \
        const T *gy, const T *x, const A *mean, const A *rstd, const T *weight, T *gx, T *gw, \
        T *gb, int64_t L, int64_t N, void *workspace, aicf_stream stream)                     \
    {                                                                                         \
        row_norm_bwd p = {                                                                    \
            NULL,                                                                             \
            (const char *)gy,                                                                 \
            (const char *)x,                                                                  \
            (const char *)weight,                                                             \
            mean,                                                                             \
            rstd,                                                                             \
            (char *)gx,                                                                       \
            (char *)gw,                                                                       \
            (char *)gb,                                                                       \
            workspace,                                                                        \
            L,                                                                                \
            N,                                                                                \
            {0, 0}};                                                                          \
        (void)stream;                                                                         \
        RUN(s, acc, p);                                                                       \
    }

#define rms_norm_bwd_launcher(T, A, s, acc)                                               \
    aicf_status aicf_cpu_rms_norm_bwd_loop_##s(                                           \
        const T *gy, const T *x, const A *rstd, const T *weight, T *gx, T *gw, int64_t L, \
        int64_t N, void *workspace, aicf_stream stream)                                   \
    {                                                                                     \
        row_norm_bwd p = {                                                                \
            NULL,                                                                         \
            (const char *)gy,                                                             \
            (const char *)x,                                                              \
            (const char *)weight,                                                         \
            NULL,                                                                         \
            rstd,                                                                         \
            (char *)gx,                                                                   \
            (char *)gw,                                                                   \
            NULL,                                                                         \
            workspace,                                                                    \
            L,                                                                            \
            N,                                                                            \
            {0, 0}};                                                                      \
        (void)stream;                                                                     \
        RUN(s, acc, p);                                                                   \
    }

AICF_JOIN(AICF_OP, launcher)(float, float, f32, f32)
    AICF_JOIN(AICF_OP, launcher)(aicf_f16, float, f16, f32)
        AICF_JOIN(AICF_OP, launcher)(aicf_bf16, float, bf16, f32)
            AICF_JOIN(AICF_OP, launcher)(double, double, f64, f64)
