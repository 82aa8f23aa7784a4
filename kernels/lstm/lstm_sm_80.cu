// lstm, all steps in one launch (see persistent.cuh); where the device has no
// room for that, step by step.
#define AICF_OP lstm

#include <aicf_ops/lstm.h>

#include "../recurrent/persistent.cuh"

#define LAUNCHER(T, suffix)                                                                       \
    aicf_status aicf_cuda_lstm_persistent_##suffix(                                               \
        const T *x, const T *h0, const T *c0, const T *w_ih, const T *w_hh, const T *b_ih,        \
        const T *b_hh, T *out, T *hn, T *cn, T *gates, T *cells, int64_t S, int64_t N, int64_t D, \
        int64_t H, bool reverse, void *workspace, aicf_stream stream)                             \
    {                                                                                             \
        using namespace aicf;                                                                     \
        aicf_status status = aicf_ok();                                                           \
        if (AICF_OP::launch_persistent<device_t<T>, AICF_OP::cell::lstm>(                         \
                {S, N, D, H, reverse, device(x), device(h0), device(c0), device(w_ih),            \
                 device(w_hh), device(b_ih), device(b_hh), device(out), device(hn), device(cn),   \
                 device(gates), device(cells)},                                                   \
                workspace, stream, status)) {                                                     \
            return status;                                                                        \
        }                                                                                         \
        return aicf_cuda_lstm_steps_##suffix(                                                     \
            x, h0, c0, w_ih, w_hh, b_ih, b_hh, out, hn, cn, gates, cells, S, N, D, H, reverse,    \
            workspace, stream);                                                                   \
    }

LAUNCHER(float, f32)
LAUNCHER(aicf_f16, f16)
LAUNCHER(aicf_bf16, bf16)
