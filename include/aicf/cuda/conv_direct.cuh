// Convolutions over taps (see conv.cuh) of groups of so few channels that no tile of matrices
// fills, depthwise ones above all: a thread an out, any strides; accumulated in f32. Bound by reads
// from the L1, one a tap.
#ifndef AICF_CUDA_CONV_DIRECT_CUH
#define AICF_CUDA_CONV_DIRECT_CUH

#include <aicf/cuda/conv_strip_sums.cuh>

namespace aicf::AICF_OP {

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
    const int64_t step = p.tap_step[1] * p.field_strides[3];
    for (int64_t c = 0; c < p.channels; c++) {
        for (int ty = 0; ty < p.taps[0]; ty++) {
            int y = y0 + ty * p.tap_step[0];
            if (static_cast<unsigned>(y) >= static_cast<unsigned>(p.size[0])) {
                continue;
            }
            const T *at = field + y * p.field_strides[2] + x0 * p.field_strides[3];
            const T *weight = factor + ty * p.factor_strides[2];
            for (int tx = 0, x = x0; tx < p.taps[1]; tx++, x += p.tap_step[1]) {
                if (static_cast<unsigned>(x) < static_cast<unsigned>(p.size[1])) {
                    sum += to_f32(*at) * to_f32(*weight);
                }
                at += step;
                weight += p.factor_strides[3];
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

// ---- depthwise, channels innermost --------------------------------------------------------------

constexpr int kPackTaps = 32;  // of a window, at most
constexpr int kPackPlaces = 8; // that a thread makes
constexpr int kFour = 4;

// A pack of channels of kPackPlaces places a thread, where each output has one channel: a pack of
// the field is read at once, and the block's weights lie in shared memory as f32, in fours, so that
// neighbouring threads' follow each other there.
template <typename T, int kPacks>
__global__ void
__launch_bounds__(kDirectThreads)
    direct_packs(const __grid_constant__ direct_problem<T> p, int64_t places, digits packs)
{
    constexpr int kSize = kPackSize<T>, kRows = kDirectThreads / kPacks;
    __shared__ float4 weights[kSize / kFour][kPackTaps][kPacks];
    int lane = static_cast<int>(threadIdx.x) % kPacks, row = static_cast<int>(threadIdx.x) / kPacks;
    int64_t block = blockIdx.x, outputs = p.outputs.size;
    int64_t first = packs.take(block) * kPacks * kSize; // of the block's outputs
    int taps = p.taps[0] * p.taps[1];
    for (int i = static_cast<int>(threadIdx.x); i < taps * kPacks * kSize; i += kDirectThreads) {
        int output = i / taps, tap = i % taps;
        int ty = tap / p.taps[1], tx = tap % p.taps[1];
        float weight = 0.0f;
        if (first + output < outputs) {
            weight = to_f32(p.factor
                                [(first + output) * p.factor_group + ty * p.factor_strides[2] +
                                 tx * p.factor_strides[3]]);
        }
        float4 &four = weights[output % kSize / kFour][tap][output / kSize];
        reinterpret_cast<float *>(&four)[output % kFour] = weight;
    }
    __syncthreads();
    int64_t output = first + lane * kSize;
    if (output >= outputs) {
        return;
    }
    float bias[kSize] = {};
    if (p.bias) {
#pragma unroll
        for (int c = 0; c < kSize; c++) {
            bias[c] = to_f32(p.bias[output + c]);
        }
    }

#pragma unroll 1
    for (int i = 0; i < kPackPlaces; i++) {
        int64_t place = (block * kPackPlaces + i) * kRows + row, image = place;
        if (place >= places) {
            return;
        }
        int column = static_cast<int>(p.columns.take(image));
        int line = static_cast<int>(p.rows.take(image));
        int y0 = p.first[0] + line * p.step[0], x0 = p.first[1] + column * p.step[1];
        const T *field = p.field + image * p.field_strides[0] + output;
        float sums[kSize];
#pragma unroll
        for (int c = 0; c < kSize; c++) {
            sums[c] = bias[c];
        }
        for (int ty = 0, tap = 0; ty < p.taps[0]; ty++) {
            int y = y0 + ty * p.tap_step[0];
            bool there = static_cast<unsigned>(y) < static_cast<unsigned>(p.size[0]);
            const T *at = field + y * p.field_strides[2] + x0 * p.field_strides[3];
            for (int tx = 0, x = x0; tx < p.taps[1]; tx++, tap++, x += p.tap_step[1]) {
                if (there && static_cast<unsigned>(x) < static_cast<unsigned>(p.size[1])) {
                    float values[kSize];
                    unpack(load_words(at + (x - x0) * p.field_strides[3]), values, T{});
#pragma unroll
                    for (int c = 0; c < kSize; c += kFour) {
                        float4 w = weights[c / kFour][tap][lane];
                        sums[c] += values[c] * w.x;
                        sums[c + 1] += values[c + 1] * w.y;
                        sums[c + 2] += values[c + 2] * w.z;
                        sums[c + 3] += values[c + 3] * w.w;
                    }
                }
            }
        }
        T *out = p.out + image * p.out_strides[0] + line * p.out_strides[2] +
                 column * p.out_strides[3] + output;
        store_words(out, repack(sums, T{}));
    }
}

// Whether packs of channels lie on multiples of their size, in both tensors.
template <typename T>
bool
takes_packs(const aicf_conv &c)
{
    constexpr int64_t kSize = kPackSize<T>;
    bool whole = c.m == 1 && c.channels == 1 && c.groups % kSize == 0 &&
                 c.y.taps * c.x.taps <= kPackTaps && c.field_strides[1] == 1 &&
                 c.out_strides[1] == 1 && reinterpret_cast<uintptr_t>(c.field) % kPackBytes == 0 &&
                 reinterpret_cast<uintptr_t>(c.out) % kPackBytes == 0;
    for (int d = 0; d < 4; d++) {
        whole =
            whole && (d == 1 || (c.field_strides[d] % kSize == 0 && c.out_strides[d] % kSize == 0));
    }
    return whole;
}

template <typename T, int kPacks>
aicf_status
launch_direct_packs(const aicf_conv &c, const direct_problem<T> &p, aicf_stream stream)
{
    constexpr int64_t kPlaces = kDirectThreads / kPacks * kPackPlaces;
    int64_t places = c.images * c.y.places * c.x.places;
    int64_t packs = ceil_div(c.groups, kPackSize<T> * kPacks);
    int64_t blocks = ceil_div(places, kPlaces) * packs;
    return aicf::launch(
        direct_packs<T, kPacks>, static_cast<unsigned>(blocks), kDirectThreads, 0, stream, p,
        places, digits_of(packs, blocks));
}

template <typename T>
aicf_status
launch_direct(const aicf_conv &c, aicf_stream stream)
{
    direct_problem<T> p = direct_problem_of<T>(c);
    if (p.count == 0) {
        return aicf_ok();
    }
    const aicf_conv along = forwards(c);
    strip_way way = strip_way_of(along);
    if (way.step != 0) {
        return way.packs ? launch_strips_of_packs<T>(along, way, stream)
                         : launch_strips_of_columns<T>(along, way, stream);
    }
    if (takes_packs<T>(c)) {
        return c.groups > kPackSize<T> * 16 ? launch_direct_packs<T, 32>(c, p, stream)
                                            : launch_direct_packs<T, 16>(c, p, stream);
    }
    auto kernel = c.out_strides[1] == 1 ? direct<true, T> : direct<false, T>;
    return aicf::launch(
        kernel, static_cast<unsigned>(ceil_div(p.count, kDirectThreads)), kDirectThreads, 0, stream,
        p);
}

// ---- over places --------------------------------------------------------------------------------

constexpr int kDirectTaps = 9; // that a block sums at once: those of a window of 3 x 3
constexpr int kLanes = 32;
constexpr int kDirectRows = kDirectThreads / kLanes;

// The sum of a block's threads or, kColumns, of those of each lane, in a fixed order: thread 0, or
// the first warp's lanes, have it.
template <bool kColumns>
__device__ inline float
sum_of_block(float x, float (&room)[kDirectRows][kLanes])
{
    int lane = static_cast<int>(threadIdx.x) % kLanes, row = static_cast<int>(threadIdx.x) / kLanes;
    if constexpr (!kColumns) {
#pragma unroll
        for (int apart = kLanes / 2; apart > 0; apart /= 2) {
            x += __shfl_xor_sync(0xffffffff, x, apart);
        }
    }
    room[row][lane] = x;
    __syncthreads();
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kDirectRows; i++) {
        sum += room[i][lane];
    }
    __syncthreads();
    return sum;
}

// Requires channels of 1. Blocks: taps by kDirectTaps, outputs (by kLanes), splits, the first
// fastest; each split has its part.
template <bool kOutputsInside, typename T>
__global__ void
__launch_bounds__(kDirectThreads)
    direct_places(const __grid_constant__ problem<T> p, digits by_taps, digits by_outputs)
{
    __shared__ float room[kDirectRows][kLanes];
    __shared__ spot taps[kDirectTaps];
    int thread = static_cast<int>(threadIdx.x);
    int64_t split = blockIdx.x, outputs = p.N * p.groups;
    int64_t first = by_taps.take(split) * kDirectTaps;
    int64_t output = by_outputs.take(split) * (kOutputsInside ? kLanes : 1);
    output += kOutputsInside ? thread % kLanes : 0;
    if (thread < kDirectTaps) {
        int64_t where;
        taps[thread] =
            first + thread < p.M ? p.m.find(first + thread, where) : spot{0, kNowhere, 0};
    }
    __syncthreads();

    bool there = output < outputs;
    int64_t group = there ? output / p.N : 0;
    const T *field = p.field + group * p.field_group;
    const T *dense = p.dense + (there ? output : 0) * p.dense_n;
    int64_t begin = split * p.depth, end = p.K - begin < p.depth ? p.K : begin + p.depth;
    float sums[kDirectTaps] = {};
    constexpr int kStep = kOutputsInside ? kDirectRows : kDirectThreads;
    for (int64_t k = begin + (kOutputsInside ? thread / kLanes : thread); k < end; k += kStep) {
        int64_t where;
        spot s = p.k.find(k, where);
        float g = to_f32(dense[where]);
#pragma unroll
        for (int t = 0; t < kDirectTaps; t++) {
            int y = s.y + taps[t].y, x = s.x + taps[t].x;
            if (static_cast<unsigned>(y) < static_cast<unsigned>(p.rows) &&
                static_cast<unsigned>(x) < static_cast<unsigned>(p.columns)) {
                sums[t] += g * to_f32(field[s.at + taps[t].at]);
            }
        }
    }
#pragma unroll
    for (int t = 0; t < kDirectTaps; t++) {
        float sum = sum_of_block<kOutputsInside>(sums[t], room);
        bool mine = kOutputsInside ? thread < kLanes : thread == 0;
        if (mine && there && first + t < p.M) {
            p.parts[(split * outputs + output) * p.M + first + t] = sum;
        }
    }
}

// `workspace`: 4 bytes for each number of the gradient and split, of which there are as many as the
// table says.
template <typename T>
aicf_status
launch_direct_places(const aicf_conv &c, void *workspace, aicf_stream stream)
{
    constexpr int64_t kLeast = 4096, kMost = 64, kLeastOfStrips = 256, kPartsOfStrips = 1048576;
    problem<T> p = problem_of<T>(c, true);
    int64_t outputs = p.N * p.groups, count = outputs * p.M;
    if (count == 0) {
        return aicf_ok();
    }
    const strip_way way = strip_way_of(c);
    if (way.step != 0 && p.K > 0) {
        int64_t most = ceil_div(p.K, kLeastOfStrips), filling = kPartsOfStrips / count, parts = 0;
        filling = filling > kMost ? filling : kMost;
        most = most < filling ? most : filling;
        p.parts = static_cast<float *>(workspace);
        aicf_status status = launch_strip_sums<T>(c, way, p.parts, most, parts, stream);
        p.splits = static_cast<int>(parts);
        return status.kind ? status : launch_sum_parts(p, stream);
    }
    int64_t splits = ceil_div(p.K, kLeast) < kMost ? ceil_div(p.K, kLeast) : kMost;
    p.splits = static_cast<int>(splits);
    p.depth = splits > 0 ? ceil_div(p.K, splits) : 0;
    p.parts = static_cast<float *>(workspace);
    bool inside = c.out_strides[1] == 1 && c.field_strides[1] == 1;
    int64_t by_taps = ceil_div(p.M, kDirectTaps);
    int64_t by_outputs = inside ? ceil_div(outputs, kLanes) : outputs;
    int64_t blocks = by_taps * by_outputs * splits;
    if (blocks > 0) {
        aicf_status status = aicf::launch(
            inside ? direct_places<true, T> : direct_places<false, T>,
            static_cast<unsigned>(blocks), kDirectThreads, 0, stream, p, digits_of(by_taps, blocks),
            digits_of(by_outputs, blocks));
        if (status.kind) {
            return status;
        }
    }
    return launch_sum_parts(p, stream);
}

} // namespace aicf::AICF_OP

#endif
