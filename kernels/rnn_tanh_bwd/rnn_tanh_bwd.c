/* Gradients of rnn_tanh on the CPU (see recurrent.h); `blas` multiplies by OpenBLAS. */
#include <aicf_ops/rnn_tanh_bwd.h>

#define CELL CELL_TANH
#include "../recurrent/recurrent.h"

#define LAUNCHER(T, s, id, acc, with_blas)                                                        \
    aicf_status aicf_cpu_rnn_tanh_bwd_##id##_##s(                                                 \
        const T *x, const T *h0, const T *w_ih, const T *w_hh, const T *fwd, const T *g_out,      \
        const T *g_hn, T *gx, T *gh0, T *gw_ih, T *gw_hh, T *gb, int64_t S, int64_t N, int64_t D, \
        int64_t H, bool reverse, void *workspace, aicf_stream stream)                             \
    {                                                                                             \
        recurrent r = {RECURRENT(s, with_blas),                                                   \
                       .fwd = fwd,                                                                \
                       .g_out = g_out,                                                            \
                       .g_hn = g_hn,                                                              \
                       .gx = gx,                                                                  \
                       .gh0 = gh0,                                                                \
                       .gw_ih = gw_ih,                                                            \
                       .gw_hh = gw_hh,                                                            \
                       .gb_ih = gb};                                                              \
        LAUNCH(backward, acc);                                                                    \
    }

LAUNCHERS
