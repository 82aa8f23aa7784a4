// Gradients of lstm, all steps in one launch (see persistent_bwd.cuh); where
// the device has no room for that, step by step.
#define AICF_OP lstm_bwd

#include <aicf_ops/lstm_bwd.h>

#include "../recurrent/persistent_bwd.cuh"

#define LAUNCHER(T, suffix)                                                                    \
    aicf_status aicf_cuda_lstm_bwd_persistent_##suffix(                                        \
        const T *x, const T *h0, const T *c0, const T *w_ih, const T *w_hh, const T *fwd,      \
        const T *gates, const T *cells, const T *g_out, const T *g_hn, const T *g_cn, T *gx,   \
        T *gh0, T *gc0, T *gw_ih, T *gw_hh, T *gb, int64_t S, int64_t N, int64_t D, int64_t H, \
        bool reverse, void *workspace, aicf_stream stream)                                     \
    {                                                                                          \
        using namespace aicf;                                                                  \
        aicf_status status = aicf_ok();                                                        \
        if (AICF_OP::launch_backward_persistent<device_t<T>, AICF_OP::cell::lstm>(             \
                {S,                                                                            \
                 N,                                                                            \
                 D,                                                                            \
                 H,                                                                            \
                 reverse,                                                                      \
                 device(x),                                                                    \
                 device(h0),                                                                   \
                 device(c0),                                                                   \
                 device(w_ih),                                                                 \
                 device(w_hh),                                                                 \
                 device(fwd),                                                                  \
                 device(gates),                                                                \
                 device(cells),                                                                \
                 device(g_out),                                                                \
                 device(g_hn),                                                                 \
                 device(g_cn),                                                                 \
                 device(gx),                                                                   \
                 device(gh0),                                                                  \
                 device(gc0),                                                                  \
                 device(gw_ih),                                                                \
                 device(gw_hh),                                                                \
                 device(gb),                                                                   \
                 nullptr},                                                                     \
                workspace, stream, status)) {                                                  \
            return status;                                                                     \
        }                                                                                      \
        return aicf_cuda_lstm_bwd_steps_##suffix(                                              \
            x, h0, c0, w_ih, w_hh, fwd, gates, cells, g_out, g_hn, g_cn, gx, gh0, gc0, gw_ih,  \
            gw_hh, gb, S, N, D, H, reverse, workspace, stream);                                \
    }

LAUNCHER(float, f32)
LAUNCHER(aicf_f16, f16)
LAUNCHER(aicf_bf16, bf16)
