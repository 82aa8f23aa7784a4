// conv2d on the matrix units of sm_80 and later (see aicf/cuda/conv_mma.cuh). `padded` brings
// channels that are not in eights by way of copies in the workspace, with zeros for those missing.
#define AICF_OP conv2d

#include <aicf_ops/conv2d.h>

#include <aicf/cuda/conv_mma.cuh>

namespace aicf::conv2d {

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

// Where a window steps over two columns of at most four channels, a pair of columns is one of eight
// channels, at which it steps by one: half as many products as columns of eight would be. Lines of
// `columns` columns as lines of pairs, a thread a pair, the first of which begins `lead` columns
// before the line.
template <typename T>
__global__ void
__launch_bounds__(kPadThreads) pair_columns(
    const T *__restrict__ x, T *__restrict__ y, int64_t count, int64_t columns, int channels,
    int lead, digits pairs)
{
    int64_t i = static_cast<int64_t>(blockIdx.x) * kPadThreads + threadIdx.x;
    if (i >= count) {
        return;
    }
    int64_t line = i;
    int64_t first = pairs.take(line) * 2 - lead;
    pack<T, kChunk> lanes;
#pragma unroll
    for (int lane = 0; lane < kChunk; lane++) {
        int64_t column = first + lane / 4;
        bool there = column >= 0 && column < columns && lane % 4 < channels;
        lanes.lane[lane] =
            there ? x[(line * columns + column) * channels + lane % 4] : of_f32<T>(0.0f);
    }
    store_pack(y + i * kChunk, lanes);
}

template <typename T>
aicf_status
launch_pair(
    const char *x, T *y, int64_t lines, int64_t columns, int64_t channels, int64_t lead,
    int64_t pairs, aicf_stream stream)
{
    int64_t count = lines * pairs;
    return aicf::launch(
        pair_columns<T>, static_cast<unsigned>(ceil_div(count, kPadThreads)), kPadThreads, 0,
        stream, reinterpret_cast<const T *>(x), y, count, columns, static_cast<int>(channels),
        static_cast<int>(lead), digits_of(pairs, count));
}

inline bool
takes_pairs(const aicf_conv &c)
{
    return c.channels <= 4 && c.x.step == 2 && (c.x.taps == 1 || c.x.tap_step == 1) && c.x.size > 1;
}

// c of pairs in the workspace.
template <typename T>
aicf_status
pair(aicf_conv &c, T *field, aicf_stream stream)
{
    int64_t lead = c.x.first & 1, lines = c.images * c.y.size, weights = c.m * c.y.taps;
    int64_t pairs = ceil_div(c.x.size + lead, 2), taps = ceil_div(c.x.taps, 2);
    T *factor = field + lines * pairs * kChunk;
    aicf_status status =
        launch_pair(c.field, field, lines, c.x.size, c.channels, lead, pairs, stream);
    if (!status.kind) {
        status = launch_pair(c.factor, factor, weights, c.x.taps, c.channels, 0, taps, stream);
    }
    c.x.first = (c.x.first + lead) / 2;
    c.x.step = c.x.tap_step = 1;
    c.x.size = pairs;
    c.x.taps = taps;
    c.field = reinterpret_cast<char *>(field);
    c.factor = reinterpret_cast<char *>(factor);
    return status;
}

// c of columns of whole chunks in the workspace.
template <typename T>
aicf_status
pad(aicf_conv &c, T *field, aicf_stream stream)
{
    int64_t pixels = c.images * c.y.size * c.x.size, weights = c.m * c.y.taps * c.x.taps;
    T *factor = field + pixels * ceil_div(c.channels, kChunk) * kChunk;
    aicf_status status =
        launch_pad(reinterpret_cast<const T *>(c.field), field, pixels, c.channels, stream);
    if (!status.kind) {
        status =
            launch_pad(reinterpret_cast<const T *>(c.factor), factor, weights, c.channels, stream);
    }
    c.field = reinterpret_cast<char *>(field);
    c.factor = reinterpret_cast<char *>(factor);
    return status;
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
    T *field = static_cast<T *>(workspace);
    aicf_status status = takes_pairs(c) ? pair(c, field, stream) : pad(c, field, stream);
    if (status.kind) {
        return status;
    }
    c.channels = ceil_div(c.channels, kChunk) * kChunk;
    aicf_view x = aicf_conv_channels_last(c.field, c.images, c.channels, c.y.size, c.x.size);
    aicf_view w = aicf_conv_channels_last(c.factor, c.m, c.channels, c.y.taps, c.x.taps);
    for (int d = 0; d < 4; d++) {
        c.field_strides[d] = x.strides[d];
        c.factor_strides[d] = w.strides[d];
    }
    return launch_mma<forward_op>(problem_of<T>(c, false), stream);
}

} // namespace aicf::conv2d

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
        return aicf::conv2d::run_##id<aicf::device_t<T>>(c, extra, stream);                        \
    }
#define WORKSPACE , void *workspace
#define NOTHING

LAUNCHER(igemm_nhwc, aicf_f16, f16, NOTHING, nullptr)
LAUNCHER(igemm_nhwc, aicf_bf16, bf16, NOTHING, nullptr)
LAUNCHER(padded, aicf_f16, f16, WORKSPACE, workspace)
LAUNCHER(padded, aicf_bf16, bf16, WORKSPACE, workspace)
