// one_hot (cuda): a row of out is 0 but 1 at idx, dense; all 0 for an index outside of the row.
// Only the bits of a 1 tell the dtypes apart, so kernels are one a size. A thread makes a pack of
// 16 bytes, which may belong to several rows; block 0 also the elements before the first whole pack
// and after the last. Bound by bytes.
#include <aicf_ops/one_hot.h>

#include <aicf/cuda/digits.cuh>
#include <aicf/cuda/launch.cuh>

namespace aicf::one_hot {

constexpr int kBlock = 256;
// Packs of a thread, whose indices are on their way together.
template <typename Element> constexpr int kUnroll = sizeof(Element) == 8 ? 8 : 4;

template <typename Element, typename I> struct operands {
    const I *idx;
    Element *out;
    Element one;
    digits row;
    int64_t head, n; // elements before the first pack, in all
};

// kSize elements from `at` on.
template <int kSize, typename Element, typename I>
__device__ inline pack<Element, kSize>
elements(const operands<Element, I> &p, int64_t at)
{
    pack<Element, kSize> made;
    int64_t row = at, column = p.row.take(row), hot = p.idx[row];
#pragma unroll
    for (int i = 0; i < kSize; i++) {
        if (column == p.row.size) {
            hot = p.idx[++row];
            column = 0;
        }
        made.lane[i] = column++ == hot ? p.one : Element{0};
    }
    return made;
}

template <typename Element, typename I>
__global__ void
__launch_bounds__(kBlock) rows(const __grid_constant__ operands<Element, I> p)
{
    constexpr int kSize = kPackSize<Element>;
    int64_t packs = (p.n - p.head) / kSize;
    int64_t first = blockIdx.x * int64_t{kBlock * kUnroll<Element>} + threadIdx.x;
    pack<Element, kSize> made[kUnroll<Element>];
#pragma unroll
    for (int u = 0; u < kUnroll<Element>; u++) {
        int64_t i = first + u * kBlock;
        if (i < packs) {
            made[u] = elements<kSize>(p, p.head + i * kSize);
        }
    }
#pragma unroll
    for (int u = 0; u < kUnroll<Element>; u++) {
        int64_t i = first + u * kBlock;
        if (i < packs) {
            store_pack(p.out + p.head + i * kSize, made[u]);
        }
    }

    if (blockIdx.x == 0) {
        int64_t tail = p.head + packs * kSize + threadIdx.x;
        if (threadIdx.x < p.head) {
            store_pack(p.out + threadIdx.x, elements<1>(p, threadIdx.x));
        }
        if (tail < p.n) {
            store_pack(p.out + tail, elements<1>(p, tail));
        }
    }
}

template <typename Element, typename I>
aicf_status
launch(const I *idx, void *out, Element one, int64_t A, int64_t classes, aicf_stream stream)
{
    int64_t n = A * classes;
    Element *to = static_cast<Element *>(out);
    operands<Element, I> p = {idx, to, one, digits_of(classes, n), head_of(to, n), n};
    return aicf::launch(
        rows<Element, I>,
        static_cast<unsigned>(ceil_div(n / kPackSize<Element> + 1, kBlock * kUnroll<Element>)),
        kBlock, 0, stream, p);
}

} // namespace aicf::one_hot

#define LAUNCHER(T, s, Element, one, I, i)                                        \
    aicf_status aicf_cuda_one_hot_vec_##i##_##s(                                  \
        const I *idx, T *out, int64_t A, int64_t classes, aicf_stream stream)     \
    {                                                                             \
        return aicf::one_hot::launch<Element>(idx, out, one, A, classes, stream); \
    }

#define LAUNCHERS(T, s, Element, one)          \
    LAUNCHER(T, s, Element, one, int64_t, i64) \
    LAUNCHER(T, s, Element, one, int32_t, i32)

LAUNCHERS(int64_t, i64, uint64_t, 1)
LAUNCHERS(float, f32, uint32_t, 0x3f800000)
LAUNCHERS(aicf_f16, f16, uint16_t, 0x3c00)
LAUNCHERS(aicf_bf16, bf16, uint16_t, 0x3f80)
