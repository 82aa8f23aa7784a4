// Steps of optimizers (cuda): for all tensors of lists, new parameters and states of old ones and
// gradients, in place. The formula is the op's own (sgd.h, adam.h, ...); p and the gradients are
// f32, f16 or bf16, all else f32. Tensors without gaps, those at one index in one order, at any
// addresses. The scalars may lie on the device, and are read there by every thread: so a captured
// launch follows them. Every element is read by the thread that writes it. Bound by bytes.
#include "rule.h"

#define STRING(op) #op
#define OPS_HEADER(op) <aicf_ops/op.h>
#define RULE_HEADER(op) STRING(op.h)
#define LAUNCHER(op, s) LAUNCHER_OF(op, s)
#define LAUNCHER_OF(op, s) aicf_cuda_##op##_multi_##s

#include OPS_HEADER(AICF_OP)

#include <aicf/cuda/lists.cuh>

namespace aicf::AICF_OP {

#define S f32
#define REAL float
#include RULE_HEADER(AICF_OP)

constexpr int kBlock = lists::kBlock;
constexpr int kLeastStates = STATES - OPTIONAL_STATES;

// ---- operands -----------------------------------------------------------------------------------

template <typename V> struct scalar {
    const V *device; // NULL: `host`
    V host;

    __device__ V value() const
    {
        return device ? *device : host;
    }
};

// All that is the same for every element. A rule that does not count steps has none on the device.
struct common {
    rule fixed;
    scalar<float> lr, grad_scale;
    scalar<int64_t> step;
};

__device__ inline factors
factors_now(const common &c)
{
    return factors_of(
        &c.fixed, c.lr.value(), c.grad_scale.value(), static_cast<double>(c.step.value()));
}

// One tensor of each list.
template <typename T, int kStates> struct tensors {
    T *p;
    const T *g;
    float *state[kStates > 0 ? kStates : 1];
    uint32_t n;
};

// ---- elements -----------------------------------------------------------------------------------

template <typename T, int kStates>
__device__ inline void
one(const rule &fixed, const factors &f, const tensors<T, kStates> &t, uint32_t i)
{
    float p = to_f32(t.p[i]), g = to_f32(t.g[i]), held[STATES] = {};
#pragma unroll
    for (int k = 0; k < kStates; k++) {
        held[k] = t.state[k][i];
    }
    update(&fixed, &f, &p, g, held);
#pragma unroll
    for (int k = 0; k < kStates; k++) {
        t.state[k][i] = held[k];
    }
    t.p[i] = of_f32<T>(p);
}

// kPackSize<T> elements from i on, all addresses on 16-byte boundaries. The loads are issued before
// anything is computed.
template <typename T, int kStates>
__device__ inline void
pack_of(const common &c, const tensors<T, kStates> &t, uint32_t i)
{
    constexpr int kSize = kPackSize<T>, kFloats = kPackSize<float>, kWords = kSize / kFloats;
    words p_words = load_words(t.p + i), g_words = load_words(t.g + i);
    words state_words[kStates > 0 ? kStates : 1][kWords];
#pragma unroll
    for (int k = 0; k < kStates; k++) {
#pragma unroll
        for (int w = 0; w < kWords; w++) {
            state_words[k][w] = load_words(t.state[k] + i + w * kFloats);
        }
    }

    factors f = factors_now(c);
    float p[kSize], g[kSize];
    unpack(p_words, p, T{});
    unpack(g_words, g, T{});
#pragma unroll
    for (int lane = 0; lane < kSize; lane++) {
        float held[STATES] = {};
#pragma unroll
        for (int k = 0; k < kStates; k++) {
            held[k] = __uint_as_float(state_words[k][lane / kFloats].word[lane % kFloats]);
        }
        update(&c.fixed, &f, &p[lane], g[lane], held);
#pragma unroll
        for (int k = 0; k < kStates; k++) {
            state_words[k][lane / kFloats].word[lane % kFloats] = __float_as_uint(held[k]);
        }
    }

    store_words(t.p + i, repack(p, T{}));
#pragma unroll
    for (int k = 0; k < kStates; k++) {
#pragma unroll
        for (int w = 0; w < kWords; w++) {
            store_words(t.state[k] + i + w * kFloats, state_words[k][w]);
        }
    }
}

// ---- kernel -------------------------------------------------------------------------------------

__device__ inline uint32_t
phase(const void *p)
{
    return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(p)) % kPackBytes;
}

// Whether all addresses are on 16-byte boundaries `head` elements on.
template <typename T, int kStates>
__device__ inline bool
together(const tensors<T, kStates> &t, uint32_t head)
{
    bool aligned = phase(t.p + head) == 0 && phase(t.g + head) == 0;
#pragma unroll
    for (int k = 0; k < kStates; k++) {
        aligned = aligned && phase(t.state[k] + head) == 0;
    }
    return aligned;
}

// A block takes kBlock packs of one tensor, the tensor's first one the head before the packs and
// the tail behind them as well. Where no head brings all addresses to a boundary, it takes the same
// number of elements one by one.
template <typename T, int kStates, typename Table>
__global__ void
__launch_bounds__(kBlock)
    multi(const __grid_constant__ Table table, const __grid_constant__ common c)
{
    constexpr uint32_t kSize = kPackSize<T>;
    int which = lists::tensor_of(table, blockIdx.x);
    uint32_t part = blockIdx.x - table.first[which];
    tensors<T, kStates> t = {
        static_cast<T *>(table.data[0][which]), static_cast<const T *>(table.data[1][which])};
#pragma unroll
    for (int k = 0; k < kStates; k++) {
        t.state[k] = static_cast<float *>(table.data[2 + k][which]);
    }
    t.n = table.numel[which];

    uint32_t past = phase(t.p) / static_cast<uint32_t>(sizeof(T));
    uint32_t head = past == 0 ? 0 : kSize - past;
    if (!together(t, head)) {
        factors f = factors_now(c);
        uint32_t i = part * (kBlock * kSize) + threadIdx.x;
#pragma unroll 1
        for (uint32_t u = 0; u < kSize && i < t.n; u++, i += kBlock) {
            one(c.fixed, f, t, i);
        }
        return;
    }

    head = head < t.n ? head : t.n;
    uint32_t packs = (t.n - head) / kSize, i = part * kBlock + threadIdx.x;
    if (i < packs) {
        pack_of(c, t, head + i * kSize);
    }
    if (part == 0) {
        uint32_t rest = t.n - packs * kSize; // the head's elements and the tail's
        if (threadIdx.x < rest) {
            uint32_t at = threadIdx.x < head ? threadIdx.x : packs * kSize + threadIdx.x;
            one(c.fixed, factors_now(c), t, at);
        }
    }
}

// ---- launches -----------------------------------------------------------------------------------

template <typename T, int kStates>
lists::kernels<2 + kStates, common>
kernels_of()
{
    return {
        multi<T, kStates, lists::few<2 + kStates>>, multi<T, kStates, lists::many<2 + kStates>>,
        kPackSize<T>};
}

template <int kStates>
aicf_status
launch_with(
    const lists::kernels<2 + kStates, common> &k, const common &c, const aicf_list *lists,
    int64_t item, aicf_stream stream)
{
    aicf_list present[2 + kStates];
    int64_t items[2 + kStates];
    for (int list = 0; list < 2 + kStates; list++) {
        present[list] = lists[list];
        items[list] = list < 2 ? item : static_cast<int64_t>(sizeof(float));
    }
    return lists::launch(k, c, present, items, stream);
}

// `lists`: p, gradients, states, of which the last may be absent.
template <typename T>
aicf_status
launch(const common &c, const aicf_list (&lists)[2 + STATES], aicf_stream stream)
{
    const aicf_list &last = lists[1 + STATES];
    if (OPTIONAL_STATES && last.count > 0 && !last.views[0].data) {
        return launch_with<kLeastStates>(
            kernels_of<T, kLeastStates>(), c, lists, sizeof(T), stream);
    }
    return launch_with<STATES>(kernels_of<T, STATES>(), c, lists, sizeof(T), stream);
}

inline common
common_of(
    const rule &fixed, const aicf_scalar *lr, const aicf_scalar *grad_scale,
    const aicf_scalar *step)
{
    common c = {fixed, {}, {}, {}};
    c.lr = {static_cast<const float *>(lr->data), static_cast<float>(lr->host.real)};
    c.grad_scale = {
        static_cast<const float *>(grad_scale->data), static_cast<float>(grad_scale->host.real)};
    if (step) {
        c.step = {static_cast<const int64_t *>(step->data), step->host.integer};
    }
    return c;
}

} // namespace aicf::AICF_OP

#define OPTIMIZER(T, s)                                                               \
    aicf_status LAUNCHER(AICF_OP, s)(                                                 \
        aicf_list p, aicf_list grads, STATE_LISTS, const aicf_scalar *lr,             \
        const aicf_scalar *grad_scale, double weight_decay, OWN, aicf_stream stream)  \
    {                                                                                 \
        using namespace aicf::AICF_OP;                                                \
        common c = common_of(rule_of(weight_decay, OWN_NAMES), lr, grad_scale, STEP); \
        return launch<aicf::device_t<T>>(c, {p, grads, STATE_NAMES}, stream);         \
    }

OPTIMIZER(float, f32)
OPTIMIZER(aicf_f16, f16)
OPTIMIZER(aicf_bf16, bf16)
