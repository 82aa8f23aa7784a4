/* Gradients of gru on the CPU (see recurrent.h); `blas` multiplies by OpenBLAS. */
#include <aicf_ops/gru_bwd.h>

#define CELL CELL_GRU
#include "../recurrent/recurrent.h"

#define LAUNCHER(T, s, id, acc, with_blas)                                                    \
    aicf_status aicf_cpu_gru_bwd_##id##_##s(                                                  \
        const T *x, const T *h0, const T *w_ih, const T *w_hh, const T *fwd, const T *gates,  \
        const T *g_out, const T *g_hn, T *gx, T *gh0, T *gw_ih, T *gw_hh, T *gb_ih, T *gb_hh, \
        int64_t S, int64_t N, int64_t D, int64_t H, bool reverse, void *workspace,            \
        aicf_stream stream)                                                                   \
    {                                                                                         \
        recurrent r = {                                                                       \
            RECURRENT(s, with_blas),                                                          \
            .fwd = fwd,                                                                       \
            .g_out = g_out,                                                                   \
            .g_hn = g_hn,                                                                     \
            .gx = gx,                                                                         \
            .gh0 = gh0,                                                                       \
            .gw_ih = gw_ih,                                                                   \
            .gw_hh = gw_hh,                                                                   \
            .gb_ih = gb_ih,                                                                   \
            .gb_hh = gb_hh,                                                                   \
            .gates_in = gates};                                                               \
        LAUNCH(backward, acc);                                                                \
    }

LAUNCHERS
