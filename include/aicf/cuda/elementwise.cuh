// Elementwise work: out[i] = f(in[0][i], ..., in[kIn - 1][i]), computed in f32. An op's file
// defines its kernels with the bodies of here, so that profilers show the op's own names.
//
//   vec      all tensors without gaps, in one order, at any address. Where all addresses have one
//            phase, 16-byte accesses between a peeled head and tail; else element by element.
//   strided  views of one shape, up to rank 8, any strides; a stride of 0 broadcasts. Launched in
//            parts of less than 2^31 elements, so that indexes are divided in 32 bits; offsets
//            are 64.
//
// An out may be exactly one of the inputs (so no pointer is __restrict__): each element is read by
// the thread that writes it, before it does. Bound by bytes.
#ifndef AICF_CUDA_ELEMENTWISE_CUH
#define AICF_CUDA_ELEMENTWISE_CUH

#include <aicf/cuda/launch.cuh>
#include <aicf/cuda/numeric.cuh>

namespace aicf::elementwise {

constexpr int kBlock = 256;
// Elements of a thread that goes element by element: that many loads are on their way at once.
// Where a thread moves packs it moves one: more blocks then share the tail (H200, relu of 256
// MiB: 1.00 of the copy rate with one pack a thread, 0.96 with two, 0.93 with four).
constexpr int kUnroll = 4;

template <typename T, int kIn> struct operands {
    const T *in[kIn];
    T *out;
};

// f32 in, f32 out: `Function` is a functor with operator()(float) or (float, float).
template <typename Function, typename T>
__device__ inline T
apply(const Function &f, const T (&x)[1])
{
    return of_f32<T>(f(to_f32(x[0])));
}

template <typename Function, typename T>
__device__ inline T
apply(const Function &f, const T (&x)[2])
{
    return of_f32<T>(f(to_f32(x[0]), to_f32(x[1])));
}

template <typename Function>
__device__ inline float
apply_f32(const Function &f, const float (&x)[1])
{
    return f(x[0]);
}

template <typename Function>
__device__ inline float
apply_f32(const Function &f, const float (&x)[2])
{
    return f(x[0], x[1]);
}

template <typename Function, typename T, int kIn>
__device__ inline words
apply_words(const Function &f, const words (&x)[kIn], T type)
{
    constexpr int kSize = kPackSize<T>;
    float in[kIn][kSize], out[kSize];
#pragma unroll
    for (int j = 0; j < kIn; j++) {
        unpack(x[j], in[j], type);
    }
#pragma unroll
    for (int lane = 0; lane < kSize; lane++) {
        float one[kIn];
#pragma unroll
        for (int j = 0; j < kIn; j++) {
            one[j] = in[j][lane];
        }
        out[lane] = apply_f32(f, one);
    }
    return repack(out, type);
}

template <typename Function, typename T, int kIn>
__device__ inline void
at(const Function &f, const operands<T, kIn> &p, int64_t i)
{
    T x[kIn];
#pragma unroll
    for (int j = 0; j < kIn; j++) {
        x[j] = p.in[j][i];
    }
    p.out[i] = apply(f, x);
}

// ---- vec ----------------------------------------------------------------------------------------

// Requires p.in[j] + head and p.out + head on 16-byte boundaries. Block 0 does the head and the
// tail.
template <typename Function, typename T, int kIn>
__device__ inline void
vec_body(const Function &f, const operands<T, kIn> &p, int64_t head, int64_t n)
{
    constexpr int kSize = kPackSize<T>;
    int64_t packs = (n - head) / kSize;
    int64_t i = blockIdx.x * int64_t{kBlock} + threadIdx.x;

    if (i < packs) {
        words x[kIn];
#pragma unroll
        for (int j = 0; j < kIn; j++) {
            x[j] = load_words(p.in[j] + head + i * kSize);
        }
        store_words(p.out + head + i * kSize, apply_words(f, x, T{}));
    }

    if (blockIdx.x == 0) {
        int64_t tail = head + packs * kSize + threadIdx.x;
        if (threadIdx.x < head) {
            at(f, p, threadIdx.x);
        }
        if (tail < n) {
            at(f, p, tail);
        }
    }
}

// The addresses have different phases: element by element.
template <typename Function, typename T, int kIn>
__device__ inline void
scalar_body(const Function &f, const operands<T, kIn> &p, int64_t n)
{
    int64_t first = blockIdx.x * int64_t{kBlock * kUnroll} + threadIdx.x;

    T x[kUnroll][kIn];
#pragma unroll
    for (int u = 0; u < kUnroll; u++) {
#pragma unroll
        for (int j = 0; j < kIn; j++) {
            if (first + u * kBlock < n) {
                x[u][j] = p.in[j][first + u * kBlock];
            }
        }
    }

#pragma unroll
    for (int u = 0; u < kUnroll; u++) {
        if (first + u * kBlock < n) {
            p.out[first + u * kBlock] = apply(f, x[u]);
        }
    }
}

// Runs `vec` or, where phases differ, `scalar`: kernels made of the bodies above.
template <typename Function, typename T, int kIn>
aicf_status
launch_vec(
    void (*vec)(Function, operands<T, kIn>, int64_t, int64_t),
    void (*scalar)(Function, operands<T, kIn>, int64_t), Function f, operands<T, kIn> p, int64_t n,
    aicf_stream stream)
{
    if (n == 0) {
        return aicf_ok();
    }
    bool together = true;
    for (int j = 0; j < kIn; j++) {
        together = together && phase_of(p.in[j]) == phase_of(p.out);
    }
    if (together) {
        unsigned blocks = static_cast<unsigned>(ceil_div(n / kPackSize<T> + 1, kBlock));
        return aicf::launch(vec, blocks, kBlock, 0, stream, f, p, head_of(p.out, n), n);
    }
    unsigned blocks = static_cast<unsigned>(ceil_div(n, kBlock * kUnroll));
    return aicf::launch(scalar, blocks, kBlock, 0, stream, f, p, n);
}

// ---- strided ------------------------------------------------------------------------------------

// Tensor 0 is the out. `dividers` and `strides` start with the innermost dim.
template <typename T, int kIn> struct strided_operands {
    const T *in[kIn];
    T *out;
    uint32_t n;
    int rank;
    divider dividers[AICF_MAX_RANK];
    int64_t strides[AICF_MAX_RANK][kIn + 1];
};

// The offsets of element i in every tensor.
template <typename T, int kIn>
__device__ inline void
locate(const strided_operands<T, kIn> &p, uint32_t i, int64_t (&offset)[kIn + 1])
{
#pragma unroll
    for (int j = 0; j <= kIn; j++) {
        offset[j] = 0;
    }
#pragma unroll
    for (int dim = 0; dim < AICF_MAX_RANK; dim++) {
        if (dim == p.rank) {
            break;
        }
        uint32_t next = divide(i, p.dividers[dim]);
        uint32_t digit = i - next * p.dividers[dim].divisor;
        i = next;
#pragma unroll
        for (int j = 0; j <= kIn; j++) {
            offset[j] += digit * p.strides[dim][j];
        }
    }
}

template <typename Function, typename T, int kIn>
__device__ inline void
strided_body(const Function &f, const strided_operands<T, kIn> &p)
{
    uint32_t first = blockIdx.x * uint32_t{kBlock * kUnroll} + threadIdx.x;
    int64_t offset[kUnroll][kIn + 1];
    T x[kUnroll][kIn];

#pragma unroll
    for (int u = 0; u < kUnroll; u++) {
        if (first + u * kBlock < p.n) {
            locate(p, first + u * kBlock, offset[u]);
#pragma unroll
            for (int j = 0; j < kIn; j++) {
                x[u][j] = p.in[j][offset[u][j + 1]];
            }
        }
    }

#pragma unroll
    for (int u = 0; u < kUnroll; u++) {
        if (first + u * kBlock < p.n) {
            p.out[offset[u][0]] = apply(f, x[u]);
        }
    }
}

// Runs `strided` on views of one shape; `views[0]` is the out. Halves the longest dim until a part
// has less than 2^31 elements: each is one launch.
template <typename Function, typename T, int kIn>
aicf_status
launch_strided(
    void (*strided)(Function, strided_operands<T, kIn>), Function f,
    const aicf_view (&views)[kIn + 1], aicf_stream stream)
{
    constexpr int64_t kMost = (int64_t{1} << 31) - 1;
    const aicf_view &out = views[0];
    int64_t n = numel(&out);

    if (n == 0) {
        return aicf_ok();
    }
    if (n > kMost) {
        int longest = 0;
        for (int dim = 1; dim < out.rank; dim++) {
            longest = out.sizes[dim] > out.sizes[longest] ? dim : longest;
        }
        aicf_view low[kIn + 1], high[kIn + 1];
        int64_t middle = out.sizes[longest] / 2;
        for (int j = 0; j <= kIn; j++) {
            low[j] = high[j] = views[j];
            low[j].sizes[longest] = middle;
            high[j].sizes[longest] = out.sizes[longest] - middle;
            high[j].data = static_cast<T *>(views[j].data) + middle * views[j].strides[longest];
        }
        aicf_status status = launch_strided(strided, f, low, stream);
        return status.kind ? status : launch_strided(strided, f, high, stream);
    }

    strided_operands<T, kIn> p = {};
    p.out = static_cast<T *>(out.data);
    for (int j = 0; j < kIn; j++) {
        p.in[j] = static_cast<const T *>(views[j + 1].data);
    }
    p.n = static_cast<uint32_t>(n);
    p.rank = static_cast<int>(out.rank);
    for (int dim = 0; dim < p.rank; dim++) {
        int from = p.rank - 1 - dim;
        p.dividers[dim] = divider_of(out.sizes[from]);
        for (int j = 0; j <= kIn; j++) {
            p.strides[dim][j] = views[j].strides[from];
        }
    }
    unsigned blocks = static_cast<unsigned>(ceil_div(n, kBlock * kUnroll));
    return aicf::launch(strided, blocks, kBlock, 0, stream, f, p);
}

} // namespace aicf::elementwise

// The three kernels of an elementwise op, in the op's own namespace.
#define AICF_ELEMENTWISE_KERNELS(function, inputs)                                              \
    template <typename T>                                                                       \
    __global__ void __launch_bounds__(elementwise::kBlock)                                      \
        vec(function f, elementwise::operands<T, inputs> p, int64_t head, int64_t n)            \
    {                                                                                           \
        elementwise::vec_body(f, p, head, n);                                                   \
    }                                                                                           \
    template <typename T>                                                                       \
    __global__ void __launch_bounds__(elementwise::kBlock)                                      \
        scalar(function f, elementwise::operands<T, inputs> p, int64_t n)                       \
    {                                                                                           \
        elementwise::scalar_body(f, p, n);                                                      \
    }                                                                                           \
    template <typename T>                                                                       \
    __global__ void __launch_bounds__(elementwise::kBlock)                                      \
        strided(function f, const __grid_constant__ elementwise::strided_operands<T, inputs> p) \
    {                                                                                           \
        elementwise::strided_body(f, p);                                                        \
    }

#endif
