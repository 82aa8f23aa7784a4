// Convolutions over taps (see conv.cuh) of groups of so few channels that no tile of matrices
// fills, depthwise ones above all: a thread an out, any strides; accumulated in f32. Bound by reads
// from the L1, one a tap.
#ifndef AICF_CUDA_CONV_DIRECT_CUH
#define AICF_CUDA_CONV_DIRECT_CUH

#include <aicf/cuda/conv.cuh>

namespace aicf::conv {

constexpr int kDirectThreads = 256;

template <typename T> struct direct_problem {
    const T *field, *factor, *bias; // bias may be NULL
    T *out;
    digits outputs, columns, rows; // of the out
    int64_t count;
    int64_t m; // outputs of a group
    digits by_m;
    int64_t field_strides[4], factor_strides[4], out_strides[4];
    int64_t field_group, factor_group;
    int64_t channels;
    int first[2], step[2], taps[2], tap_step[2], size[2];
};

// Neighbouring threads take neighbouring columns, or outputs where those lie side by side.
template <bool kOutputsInside, typename T>
__global__ void
__launch_bounds__(kDirectThreads) direct(const __grid_constant__ direct_problem<T> p)
{
    int64_t i = static_cast<int64_t>(blockIdx.x) * kDirectThreads + threadIdx.x;
    if (i >= p.count) {
        return;
    }
    int64_t output = kOutputsInside ? p.outputs.take(i) : 0;
    int64_t column = p.columns.take(i), row = p.rows.take(i);
    output = kOutputsInside ? output : p.outputs.take(i);
    int64_t group = p.by_m.quotient(output), m = output - group * p.m;
    int y0 = p.first[0] + static_cast<int>(row) * p.step[0];
    int x0 = p.first[1] + static_cast<int>(column) * p.step[1];
    const T *field = p.field + i * p.field_strides[0] + group * p.field_group;
    const T *factor = p.factor + group * p.factor_group + m * p.factor_strides[0];

    float sum = 0.0f;
    for (int64_t c = 0; c < p.channels; c++) {
        for (int ty = 0; ty < p.taps[0]; ty++) {
            int y = y0 + ty * p.tap_step[0];
            if (static_cast<unsigned>(y) >= static_cast<unsigned>(p.size[0])) {
                continue;
            }
            const T *line = field + y * p.field_strides[2];
            const T *weights = factor + ty * p.factor_strides[2];
            for (int tx = 0; tx < p.taps[1]; tx++) {
                int x = x0 + tx * p.tap_step[1];
                if (static_cast<unsigned>(x) < static_cast<unsigned>(p.size[1])) {
                    sum += to_f32(line[x * p.field_strides[3]]) *
                           to_f32(weights[tx * p.factor_strides[3]]);
                }
            }
        }
        field += p.field_strides[1];
        factor += p.factor_strides[1];
    }
    sum += p.bias ? to_f32(p.bias[output]) : 0.0f;
    p.out
        [i * p.out_strides[0] + output * p.out_strides[1] + row * p.out_strides[2] +
         column * p.out_strides[3]] = of_f32<T>(sum);
}

template <typename T>
direct_problem<T>
direct_problem_of(const aicf_conv &c)
{
    direct_problem<T> p = {};
    p.field = reinterpret_cast<const T *>(c.field);
    p.factor = reinterpret_cast<const T *>(c.factor);
    p.bias = static_cast<const T *>(c.bias);
    p.out = reinterpret_cast<T *>(c.out);
    p.m = c.m;
    p.channels = c.channels;
    p.field_group = c.channels * c.field_strides[1];
    p.factor_group = c.factor_group;
    for (int d = 0; d < 4; d++) {
        p.field_strides[d] = c.field_strides[d];
        p.factor_strides[d] = c.factor_strides[d];
        p.out_strides[d] = c.out_strides[d];
    }
    const aicf_conv_axis *axes[2] = {&c.y, &c.x};
    for (int d = 0; d < 2; d++) {
        const aicf_conv_axis &a = *axes[d];
        p.first[d] = static_cast<int>(a.first);
        p.step[d] = static_cast<int>(a.places > 1 ? a.step : 0);
        p.taps[d] = static_cast<int>(a.taps);
        p.tap_step[d] = static_cast<int>(a.taps > 1 ? a.tap_step : 0);
        p.size[d] = static_cast<int>(a.size);
    }
    int64_t outputs = c.m * c.groups;
    p.count = c.images * outputs * c.y.places * c.x.places;
    if (p.count > 0) {
        p.outputs = digits_of(outputs, p.count);
        p.by_m = digits_of(c.m, p.count);
        p.columns = digits_of(c.x.places, p.count);
        p.rows = digits_of(c.y.places, p.count);
    }
    return p;
}

template <typename T>
aicf_status
launch_direct(const aicf_conv &c, aicf_stream stream)
{
    direct_problem<T> p = direct_problem_of<T>(c);
    if (p.count == 0) {
        return aicf_ok();
    }
    auto kernel = c.out_strides[1] == 1 ? direct<true, T> : direct<false, T>;
    return aicf::launch(
        kernel, static_cast<unsigned>(ceil_div(p.count, kDirectThreads)), kDirectThreads, 0, stream,
        p);
}

} // namespace aicf::conv

#endif
