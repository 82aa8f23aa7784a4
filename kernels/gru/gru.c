/* gru on the CPU (see recurrent.h); `blas` multiplies by OpenBLAS. */
#include <aicf_ops/gru.h>

#define CELL CELL_GRU
#include "../recurrent/recurrent.h"

#define LAUNCHER(T, s, id, acc, with_blas)                                                        \
    aicf_status aicf_cpu_gru_##id##_##s(                                                          \
        const T *x, const T *h0, const T *w_ih, const T *w_hh, const T *b_ih, const T *b_hh,      \
        T *out, T *hn, T *gates, int64_t S, int64_t N, int64_t D, int64_t H, bool reverse,        \
        void *workspace, aicf_stream stream)                                                      \
    {                                                                                             \
        recurrent r = {RECURRENT(s, with_blas), .b_ih = b_ih, .b_hh = b_hh, .out = out, .hn = hn, \
                       .gates = gates};                                                           \
        LAUNCH(forward, acc);                                                                     \
    }

LAUNCHERS
