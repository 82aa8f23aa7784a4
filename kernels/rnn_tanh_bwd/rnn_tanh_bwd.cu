// Gradients of rnn_tanh on CUDA, one launch a step (see steps.cuh).
#define AICF_OP rnn_tanh_bwd

#include <aicf_ops/rnn_tanh_bwd.h>

#include "../recurrent/steps.cuh"

#define LAUNCHER(T, suffix)                                                                       \
    aicf_status aicf_cuda_rnn_tanh_bwd_steps_##suffix(                                            \
        const T *x, const T *h0, const T *w_ih, const T *w_hh, const T *fwd, const T *g_out,      \
        const T *g_hn, T *gx, T *gh0, T *gw_ih, T *gw_hh, T *gb, int64_t S, int64_t N, int64_t D, \
        int64_t H, bool reverse, void *workspace, aicf_stream stream)                             \
    {                                                                                             \
        using namespace aicf;                                                                     \
        return AICF_OP::launch_backward<device_t<T>, AICF_OP::cell::tanh>(                        \
            {S,                                                                                   \
             N,                                                                                   \
             D,                                                                                   \
             H,                                                                                   \
             reverse,                                                                             \
             device(x),                                                                           \
             device(h0),                                                                          \
             nullptr,                                                                             \
             device(w_ih),                                                                        \
             device(w_hh),                                                                        \
             device(fwd),                                                                         \
             nullptr,                                                                             \
             nullptr,                                                                             \
             device(g_out),                                                                       \
             device(g_hn),                                                                        \
             nullptr,                                                                             \
             device(gx),                                                                          \
             device(gh0),                                                                         \
             nullptr,                                                                             \
             device(gw_ih),                                                                       \
             device(gw_hh),                                                                       \
             device(gb),                                                                          \
             nullptr},                                                                            \
            workspace, stream);                                                                   \
    }

LAUNCHER(float, f32)
LAUNCHER(aicf_f16, f16)
LAUNCHER(aicf_bf16, bf16)
