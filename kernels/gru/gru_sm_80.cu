// gru, all steps in one launch (see persistent.cuh); where the device has no
// room for that, step by step.
#define AICF_OP gru

#include <aicf_ops/gru.h>

#include "../recurrent/persistent.cuh"

#define LAUNCHER(T, suffix)                                                                       \
    aicf_status aicf_cuda_gru_persistent_##suffix(                                                \
        const T *x, const T *h0, const T *w_ih, const T *w_hh, const T *b_ih, const T *b_hh,      \
        T *out, T *hn, T *gates, int64_t S, int64_t N, int64_t D, int64_t H, bool reverse,        \
        void *workspace, aicf_stream stream)                                                      \
    {                                                                                             \
        using namespace aicf;                                                                     \
        aicf_status status = aicf_ok();                                                           \
        if (AICF_OP::launch_persistent<device_t<T>, AICF_OP::cell::gru>(                          \
                {S, N, D, H, reverse, device(x), device(h0), nullptr, device(w_ih), device(w_hh), \
                 device(b_ih), device(b_hh), device(out), device(hn), nullptr, device(gates),     \
                 nullptr},                                                                        \
                workspace, stream, status)) {                                                     \
            return status;                                                                        \
        }                                                                                         \
        return aicf_cuda_gru_steps_##suffix(                                                      \
            x, h0, w_ih, w_hh, b_ih, b_hh, out, hn, gates, S, N, D, H, reverse, workspace,        \
            stream);                                                                              \
    }

LAUNCHER(float, f32)
LAUNCHER(aicf_f16, f16)
LAUNCHER(aicf_bf16, bf16)
