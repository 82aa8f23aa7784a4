// What the kernels of gemm_i8 on matrix units share: a product of lines along k, out[m, n] = sum
// over k of a[m, k] * b[n, k], and the epilogue of aicf/requant.h.
#ifndef AICF_GEMM_I8_CUH
#define AICF_GEMM_I8_CUH

#ifndef AICF_OP
#define AICF_OP gemm_i8
#endif

#include <aicf_ops/gemm_i8.h>

#include <aicf/cuda/lines_i8.cuh>

namespace aicf::gemm_i8 {

using namespace i8;

// Operands that are laid (lines_i8.cuh), and where outs go.
struct product {
    operand a, b;
    void *out;
    int64_t out_pitch;
    bool vectors; // eight outs from a multiple of eight on are aligned for store_eight
    const int *shifts;
    aicf_requant requant;
};

inline bool
takes_eights(const void *out, int64_t pitch, int64_t columns, int bytes)
{
    uint64_t places = reinterpret_cast<uintptr_t>(out) | static_cast<uint64_t>(pitch * bytes);
    return columns % 8 == 0 && places % (bytes == 1 ? 8 : 16) == 0;
}

// The operands of a call, laid, with the help of the workspace.
template <int kArch>
aicf_status
product_of(
    const aicf_view *a, const aicf_view *b, const aicf_view *out, int64_t M, int64_t K, int64_t N,
    const aicf_requant &r, void *workspace, aicf_stream stream, product *p)
{
    *p = {};
    p->a = {static_cast<const uint8_t *>(a->data), M, K, a->strides[0], a->strides[1]};
    p->b = {static_cast<const uint8_t *>(b->data), N, K, b->strides[1], b->strides[0]};
    p->out = out->data;
    p->out_pitch = out->strides[0];
    p->vectors = takes_eights(out->data, out->strides[0], N, bytes_of(r.kind));
    p->requant = r;
    uint8_t *room = static_cast<uint8_t *>(workspace);
    aicf_status status = lay<kArch>(p->a, &room, stream);
    status = status.kind ? status : lay<kArch>(p->b, &room, stream);
    return status.kind ? status : shift_lines<kArch>(p->b, r, &room, &p->shifts, stream);
}

} // namespace aicf::gemm_i8

// Defines the launchers of a kernel, which `run`(product, stream) launches.
#define AICF_GEMM_I8_LAUNCHER(id, run, q, Q, is_signed, u, U, KIND)                                \
    aicf_status aicf_cuda_gemm_i8_##id##_##q##_##u(                                                \
        const aicf_view *a, const aicf_view *b, const float *a_scale, const float *b_scale,        \
        const int32_t *a_zero, const int32_t *bias, const float *out_scale,                        \
        const int32_t *out_zero, const aicf_view *out, int64_t M, int64_t K, int64_t N, int64_t S, \
        aicf_gemm_i8_act act, void *workspace, aicf_stream stream)                                 \
    {                                                                                              \
        const aicf_requant r = {a_scale,   b_scale,  out_scale, a_zero,                            \
                                bias,      out_zero, S,         act == AICF_GEMM_I8_ACT_RELU,      \
                                is_signed, KIND};                                                  \
        return run(a, b, out, M, K, N, r, workspace, stream);                                      \
    }

#endif
