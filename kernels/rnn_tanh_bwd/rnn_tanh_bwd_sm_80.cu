// Gradients of rnn_tanh, all steps in one launch (see persistent_bwd.cuh);
// where the device has no room for that, step by step.
#define AICF_OP rnn_tanh_bwd

#include <aicf_ops/rnn_tanh_bwd.h>

#include "../recurrent/persistent_bwd.cuh"

#define LAUNCHER(T, suffix)                                                                       \
    aicf_status aicf_cuda_rnn_tanh_bwd_persistent_##suffix(                                       \
        const T *x, const T *h0, const T *w_ih, const T *w_hh, const T *fwd, const T *g_out,      \
        const T *g_hn, T *gx, T *gh0, T *gw_ih, T *gw_hh, T *gb, int64_t S, int64_t N, int64_t D, \
        int64_t H, bool reverse, void *workspace, aicf_stream stream)                             \
    {                                                                                             \
        using namespace aicf;                                                                     \
        aicf_status status = aicf_ok();                                                           \
        if (AICF_OP::launch_backward_persistent<device_t<T>, AICF_OP::cell::tanh>(                \
                {S,                                                                               \
                 N,                                                                               \
                 D,                                                                               \
                 H,                                                                               \
                 reverse,                                                                         \
                 device(x),                                                                       \
                 device(h0),                                                                      \
                 nullptr,                                                                         \
                 device(w_ih),                                                                    \
                 device(w_hh),                                                                    \
                 device(fwd),                                                                     \
                 nullptr,                                                                         \
                 nullptr,                                                                         \
                 device(g_out),                                                                   \
                 device(g_hn),                                                                    \
                 nullptr,                                                                         \
                 device(gx),                                                                      \
                 device(gh0),                                                                     \
                 nullptr,                                                                         \
                 device(gw_ih),                                                                   \
                 device(gw_hh),                                                                   \
                 device(gb),                                                                      \
                 nullptr},                                                                        \
                workspace, stream, status)) {                                                     \
            return status;                                                                        \
        }                                                                                         \
        return aicf_cuda_rnn_tanh_bwd_steps_##suffix(                                             \
            x, h0, w_ih, w_hh, fwd, g_out, g_hn, gx, gh0, gw_ih, gw_hh, gb, S, N, D, H, reverse,  \
            workspace, stream);                                                                   \
    }

LAUNCHER(float, f32)
LAUNCHER(aicf_f16, f16)
LAUNCHER(aicf_bf16, bf16)
