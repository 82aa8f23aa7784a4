// conv2d on the matrix units of sm_80 and later (see aicf/cuda/conv_mma.cuh). `padded` brings
// channels that are not in eights by way of copies in the workspace, with zeros for those missing.
#include <aicf_ops/conv2d.h>

#include <aicf/cuda/conv_mma.cuh>

namespace aicf::conv {

constexpr int kPadThreads = 256;

// Pixels of `from` channels as pixels of `chunks` chunks, a thread a chunk.
template <typename T>
__global__ void
__launch_bounds__(kPadThreads)
    pad_channels(const T *__restrict__ x, T *__restrict__ y, int64_t count, int from, digits chunks)
{
    int64_t i = static_cast<int64_t>(blockIdx.x) * kPadThreads + threadIdx.x;
    if (i >= count) {
        return;
    }
    int64_t pixel = i;
    int first = static_cast<int>(chunks.take(pixel)) * kChunk;
    const T *channel = x + pixel * from + first;
    pack<T, kChunk> lanes;
#pragma unroll
    for (int lane = 0; lane < kChunk; lane++) {
        lanes.lane[lane] = first + lane < from ? channel[lane] : of_f32<T>(0.0f);
    }
    store_pack(y + i * kChunk, lanes);
}

template <typename T>
aicf_status
launch_pad(const T *x, T *y, int64_t pixels, int64_t channels, aicf_stream stream)
{
    int64_t chunks = ceil_div(channels, kChunk), count = pixels * chunks;
    return aicf::launch(
        pad_channels<T>, static_cast<unsigned>(ceil_div(count, kPadThreads)), kPadThreads, 0,
        stream, x, y, count, static_cast<int>(channels), digits_of(chunks, count));
}

template <typename T>
aicf_status
run_igemm_nhwc(const aicf_conv &c, void *, aicf_stream stream)
{
    return launch_mma<forward_op>(problem_of<T>(c, false), stream);
}

template <typename T>
aicf_status
run_padded(aicf_conv c, void *workspace, aicf_stream stream)
{
    int64_t channels = ceil_div(c.channels, kChunk) * kChunk;
    int64_t pixels = c.images * c.y.size * c.x.size, weights = c.m * c.y.taps * c.x.taps;
    T *field = static_cast<T *>(workspace), *factor = field + pixels * channels;
    aicf_status status =
        launch_pad(reinterpret_cast<const T *>(c.field), field, pixels, c.channels, stream);
    if (!status.kind) {
        status =
            launch_pad(reinterpret_cast<const T *>(c.factor), factor, weights, c.channels, stream);
    }
    if (status.kind) {
        return status;
    }
    aicf_view x = aicf_conv_channels_last(field, c.images, channels, c.y.size, c.x.size);
    aicf_view w = aicf_conv_channels_last(factor, c.m, channels, c.y.taps, c.x.taps);
    c.channels = channels;
    c.field = static_cast<char *>(x.data);
    c.factor = static_cast<char *>(w.data);
    for (int d = 0; d < 4; d++) {
        c.field_strides[d] = x.strides[d];
        c.factor_strides[d] = w.strides[d];
    }
    return launch_mma<forward_op>(problem_of<T>(c, false), stream);
}

} // namespace aicf::conv

// `extra`: the workspace, if there is one.
#define LAUNCHER(id, T, suffix, parameter, extra)                                                  \
    aicf_status aicf_cuda_conv2d_##id##_##suffix(                                                  \
        const T *x, const T *w, const T *bias, T *out, int64_t N, int64_t C, int64_t H, int64_t W, \
        int64_t O, int64_t D, int64_t R, int64_t S, int64_t P, int64_t Q, const int64_t stride[2], \
        const int64_t pad[2], const int64_t dilation[2], int64_t groups parameter,                 \
        aicf_stream stream)                                                                        \
    {                                                                                              \
        const aicf_view views[3] = {                                                               \
            aicf_conv_channels_last(x, N, C, H, W), aicf_conv_channels_last(w, O, D, R, S),        \
            aicf_conv_channels_last(out, N, O, P, Q)};                                             \
        aicf_conv c = aicf_conv_of(                                                                \
            sizeof(T), &views[0], &views[1], &views[2], stride, pad, dilation, groups);            \
        c.bias = bias;                                                                             \
        return aicf::conv::run_##id<aicf::device_t<T>>(c, extra, stream);                          \
    }
#define WORKSPACE , void *workspace
#define NOTHING

LAUNCHER(igemm_nhwc, aicf_f16, f16, NOTHING, nullptr)
LAUNCHER(igemm_nhwc, aicf_bf16, bf16, NOTHING, nullptr)
LAUNCHER(padded, aicf_f16, f16, WORKSPACE, workspace)
LAUNCHER(padded, aicf_bf16, bf16, WORKSPACE, workspace)
