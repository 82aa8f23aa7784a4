// Convolutions of 8-bit integers as the matrix units take them: channels innermost, in 16s, and
// nothing outside of the field where its zero is not 0 (zeros are what the copies of the units
// bring from there). Fields and factors that are otherwise are copied so to a workspace. Bound by
// bytes.
#ifndef AICF_CUDA_FIELDS_I8_CUH
#define AICF_CUDA_FIELDS_I8_CUH

#include <aicf/conv.h>

#include <aicf/cuda/digits.cuh>
#include <aicf/cuda/lines_i8.cuh>

namespace aicf::AICF_OP {

using namespace i8;

constexpr int kUnit = 16; // channels

// `images` of `rows` x `columns` pixels of `channels`, moved into the middle of larger ones.
struct framing {
    const uint8_t *from;
    uint8_t *to;
    int rows, columns, channels; // of the source
    int top, left;               // what the target has more, above and before
    digits chunks, to_columns, to_rows;
    int64_t count; // chunks of the target
};

// A thread 16 channels. Around a source is the field's zero, behind its channels are zeros.
template <int kArch>
__global__ void
__launch_bounds__(kLineThreads)
    frame(const __grid_constant__ framing f, const __grid_constant__ aicf_requant r)
{
    int64_t i = static_cast<int64_t>(blockIdx.x) * kLineThreads + threadIdx.x;
    if (i >= f.count) {
        return;
    }
    int64_t image = i;
    int first = static_cast<int>(f.chunks.take(image)) * kUnit;
    int x = static_cast<int>(f.to_columns.take(image)) - f.left;
    int y = static_cast<int>(f.to_rows.take(image)) - f.top;
    bool there = static_cast<unsigned>(x) < static_cast<unsigned>(f.columns) &&
                 static_cast<unsigned>(y) < static_cast<unsigned>(f.rows);
    const uint8_t *from = f.from + ((image * f.rows + y) * f.columns + x) * f.channels + first;
    uint32_t zero = static_cast<uint32_t>(zero_of(r)) & 0xff;
    words w;
    if (there && f.channels % kUnit == 0) {
        w = load_words(from);
    } else {
#pragma unroll
        for (int j = 0; j < 4; j++) {
            w.word[j] = 0;
#pragma unroll
            for (int byte = 0; byte < 4; byte++) {
                int channel = first + 4 * j + byte;
                uint32_t value = there && channel < f.channels ? from[4 * j + byte] : zero;
                w.word[j] |= (channel < f.channels ? value : 0u) << 8 * byte;
            }
        }
    }
    store_words(f.to + i * kUnit, w);
}

// Pixels with as many more rows and columns on each side, and channels in 16s, at `*room`.
template <int kArch>
aicf_status
launch_frame(
    const void *from, int64_t images, int64_t rows, int64_t columns, int64_t channels, int64_t top,
    int64_t left, const aicf_requant &r, uint8_t **room, aicf_stream stream)
{
    int64_t chunks = ceil_div(channels, kUnit);
    int64_t to_rows = rows + 2 * top, to_columns = columns + 2 * left;
    framing f = {};
    f.from = static_cast<const uint8_t *>(from);
    f.to = *room;
    f.rows = static_cast<int>(rows);
    f.columns = static_cast<int>(columns);
    f.channels = static_cast<int>(channels);
    f.top = static_cast<int>(top);
    f.left = static_cast<int>(left);
    f.count = images * to_rows * to_columns * chunks;
    f.chunks = digits_of(chunks, f.count);
    f.to_columns = digits_of(to_columns, f.count);
    f.to_rows = digits_of(to_rows, f.count);
    *room += f.count * kUnit;
    return launch(
        frame<kArch>, static_cast<unsigned>(ceil_div(f.count, kLineThreads)), kLineThreads, 0,
        stream, f, r);
}

// A convolution of dense tensors, channels innermost, made one that the units take, and counted in
// pairs of channels but for the outs. `shifts`: what comes off each output's sums, or NULL. Not of
// channels that are not in 16s in several groups.
template <int kArch>
aicf_status
take_field(
    aicf_conv &c, const aicf_requant &r, void *workspace, const int **shifts, aicf_stream stream)
{
    uint8_t *room = static_cast<uint8_t *>(workspace);
    int64_t outputs = c.m * c.groups, taps = c.y.taps * c.x.taps;
    bool pads = r.field_zero && (c.y.first < 0 || c.x.first < 0), widens = c.channels % kUnit != 0;
    aicf_status status = aicf_ok();
    if (pads || widens) {
        int64_t top = pads ? -c.y.first : 0, left = pads ? -c.x.first : 0;
        uint8_t *field = room;
        status = launch_frame<kArch>(
            c.field, c.images, c.y.size, c.x.size, c.channels * c.groups, top, left, r, &room,
            stream);
        c.field = reinterpret_cast<char *>(field);
        c.y.first += top;
        c.x.first += left;
        c.y.size += 2 * top;
        c.x.size += 2 * left;
    }
    if (widens && !status.kind) {
        aicf_requant none = {};
        uint8_t *factor = room;
        status = launch_frame<kArch>(
            c.factor, outputs, c.y.taps, c.x.taps, c.channels, 0, 0, none, &room, stream);
        c.factor = reinterpret_cast<char *>(factor);
        c.channels = ceil_div(c.channels, kUnit) * kUnit;
    }
    if (status.kind) {
        return status;
    }
    operand factor = {
        reinterpret_cast<const uint8_t *>(c.factor), outputs, taps * c.channels, taps * c.channels,
        1};
    status = shift_lines<kArch>(factor, r, &room, shifts, stream);

    c.item = 2;
    c.channels /= 2;
    int64_t all = c.channels * c.groups;
    aicf_view x = aicf_conv_channels_last(c.field, c.images, all, c.y.size, c.x.size);
    aicf_view w = aicf_conv_channels_last(c.factor, outputs, c.channels, c.y.taps, c.x.taps);
    for (int d = 0; d < 4; d++) {
        c.field_strides[d] = x.strides[d];
        c.factor_strides[d] = w.strides[d];
    }
    c.factor_group = c.m * c.factor_strides[0];
    return status;
}

// Of dense tensors, channels innermost, with outs of one unit. Once, and not in each launcher.
__attribute__((noinline)) inline aicf_conv
dense_conv(
    const void *x, const void *w, const void *out, const int64_t (&sizes)[9],
    const int64_t stride[2], const int64_t pad[2], const int64_t dilation[2], int64_t groups)
{
    const auto &[N, C, H, W, O, R, S, P, Q] = sizes;
    const aicf_view views[3] = {
        aicf_conv_channels_last(x, N, C, H, W), aicf_conv_channels_last(w, O, C / groups, R, S),
        aicf_conv_channels_last(out, N, O, P, Q)};
    return aicf_conv_of(1, &views[0], &views[1], &views[2], stride, pad, dilation, groups);
}

} // namespace aicf::AICF_OP

// Defines the launchers of a kernel of dense tensors, channels innermost, which `run`(conv,
// requant, workspace, stream) launches.
#define AICF_CONV2D_I8_LAUNCHER(id, run, q, T, is_signed, u, U, KIND)                              \
    aicf_status aicf_cuda_conv2d_i8_##id##_##q##_##u(                                              \
        const T *x, const int8_t *w, const float *x_scale, const float *w_scale,                   \
        const int32_t *x_zero, const int32_t *bias, const float *out_scale,                        \
        const int32_t *out_zero, U *out, int64_t N, int64_t C, int64_t H, int64_t W, int64_t O,    \
        int64_t D, int64_t R, int64_t S, int64_t Z, int64_t P, int64_t Q2, aicf_conv2d_i8_act act, \
        const int64_t stride[2], const int64_t pad[2], const int64_t dilation[2], int64_t groups,  \
        void *workspace, aicf_stream stream)                                                       \
    {                                                                                              \
        (void)D;                                                                                   \
        const int64_t sizes[9] = {N, C, H, W, O, R, S, P, Q2};                                     \
        const aicf_conv c =                                                                        \
            aicf::AICF_OP::dense_conv(x, w, out, sizes, stride, pad, dilation, groups);            \
        const aicf_requant r = {x_scale,   w_scale,  out_scale, x_zero,                            \
                                bias,      out_zero, Z,         act == AICF_CONV2D_I8_ACT_RELU,    \
                                is_signed, KIND};                                                  \
        return run(c, r, workspace, stream);                                                       \
    }

#endif
