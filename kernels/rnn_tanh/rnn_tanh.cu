// rnn_tanh on CUDA as one launch a step (see steps.cuh).
#define AICF_OP rnn_tanh

#include <aicf_ops/rnn_tanh.h>

#include "../recurrent/steps.cuh"

#define LAUNCHER(T, suffix)                                                                       \
    aicf_status aicf_cuda_rnn_tanh_steps_##suffix(                                                \
        const T *x, const T *h0, const T *w_ih, const T *w_hh, const T *b_ih, const T *b_hh,      \
        T *out, T *hn, int64_t S, int64_t N, int64_t D, int64_t H, bool reverse, void *workspace, \
        aicf_stream stream)                                                                       \
    {                                                                                             \
        using namespace aicf;                                                                     \
        return AICF_OP::launch_forward<device_t<T>, AICF_OP::cell::tanh>(                         \
            {S, N, D, H, reverse, device(x), device(h0), nullptr, device(w_ih), device(w_hh),     \
             device(b_ih), device(b_hh), device(out), device(hn), nullptr, nullptr, nullptr},     \
            workspace, stream);                                                                   \
    }

LAUNCHER(float, f32)
LAUNCHER(aicf_f16, f16)
LAUNCHER(aicf_bf16, bf16)
