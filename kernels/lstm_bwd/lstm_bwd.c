/* Gradients of lstm on the CPU (see recurrent.h); `blas` multiplies by OpenBLAS. */
#include <aicf_ops/lstm_bwd.h>

#define CELL CELL_LSTM
#include "../recurrent/recurrent.h"

#define LAUNCHER(T, s, id, acc, with_blas)                                                     \
    aicf_status aicf_cpu_lstm_bwd_##id##_##s(                                                  \
        const T *x, const T *h0, const T *c0, const T *w_ih, const T *w_hh, const T *fwd,      \
        const T *gates, const T *cells, const T *g_out, const T *g_hn, const T *g_cn, T *gx,   \
        T *gh0, T *gc0, T *gw_ih, T *gw_hh, T *gb, int64_t S, int64_t N, int64_t D, int64_t H, \
        bool reverse, void *workspace, aicf_stream stream)                                     \
    {                                                                                          \
        recurrent r = {                                                                        \
            RECURRENT(s, with_blas),                                                           \
            .fwd = fwd,                                                                        \
            .g_out = g_out,                                                                    \
            .g_hn = g_hn,                                                                      \
            .gx = gx,                                                                          \
            .gh0 = gh0,                                                                        \
            .gw_ih = gw_ih,                                                                    \
            .gw_hh = gw_hh,                                                                    \
            .gb_ih = gb,                                                                       \
            .gates_in = gates,                                                                 \
            .c0 = c0,                                                                          \
            .cells_in = cells,                                                                 \
            .g_cn = g_cn,                                                                      \
            .gc0 = gc0};                                                                       \
        LAUNCH(backward, acc);                                                                 \
    }

LAUNCHERS
