// max_pool2d_bwd and avg_pool2d_bwd (cuda), f32, f16 and bf16: each element of gx gathers from the
// windows that hold it, row by row, summed in f32 and rounded once; so bits do not depend on who
// comes first. An index that names no element of its window is met by none.
//   planes   dense NCHW. `pairs`: windows of 2 or 3 at every second element, rows of whole packs: a
//            thread loads the windows of a pack, and takes the one to the right from the next lane;
//            `element`, any other: a thread an element.
//   nhwc     channels last: a thread makes a pack of channels, of one element or, of windows of 2
//   or
//            3 at every second element, of the four that share the same windows.
// Bound by bytes.
#define HEADER_OF(op) <aicf_ops/op.h>
#define HEADER(op) HEADER_OF(op)
#include HEADER(AICF_OP)

#define LARGEST_max_pool2d_bwd 1
#define LARGEST_avg_pool2d_bwd 0
#define LARGEST_OF(op) LARGEST_##op
#define LARGEST_IN(op) LARGEST_OF(op)
#define LARGEST LARGEST_IN(AICF_OP)

#include "pixels.cuh"

namespace aicf::AICF_OP {

template <typename T> struct tensors {
    const T *gy;
    const int64_t *indices; // NULL: of a mean
    T *gx;

    // gy and gx where accesses of so many elements are aligned.
    bool aligned_for(int of_gy, int of_gx) const
    {
        int64_t size = static_cast<int64_t>(sizeof(T));
        return aligned(gy, size * of_gy) && aligned(gx, size * of_gx) && aligned(indices, 16);
    }

    tensors from(int64_t outs, int64_t elements) const
    {
        return {gy + outs, indices ? indices + outs : nullptr, gx + elements};
    }
};

template <typename Index, typename T>
any_operands<T, Index>
any_of(const problem &p, const tensors<T> &t, int64_t packs, int64_t threads)
{
    axis<Index> y = axis_of<Index>(p.y), x = axis_of<Index>(p.x);
    int64_t rows = p.y.size + p.y.pad, columns = p.x.size + p.x.pad;
    return {
        t.gy,
        t.indices,
        t.gx,
        y,
        x,
        p.include_pad,
        digits_of(packs, threads),
        digits_of(p.x.size, threads),
        digits_of(p.y.size, threads),
        digits_of(y.stride, rows),
        digits_of(x.stride, columns),
        threads};
}

template <typename T, typename Index, int kMost>
aicf_status
launch_elements(const problem &p, const tensors<T> &t, aicf_stream stream)
{
    int64_t threads = p.images * p.channels * p.y.size * p.x.size;
    return launch(
        element<T, Index, kMost>, blocks_of(threads), kBlock, 0, stream,
        any_of<Index>(p, t, 1, threads));
}

template <typename T, int kWindow>
aicf_status
launch_pairs(const problem &p, const tensors<T> &t, aicf_stream stream)
{
    int64_t packs = p.x.size / kSize<T>, bands = ceil_div(p.y.size, 2 * kBands);
    return in_parts(p.images * p.channels, packs * bands, [&](int64_t first, int64_t count) {
        tensors<T> part = t.from(first * p.y.outs * p.x.outs, first * p.y.size * p.x.size);
        int64_t threads = count * packs * bands;
        plane_operands<T> o = {
            part.gy,           part.indices,      part.gx,
            axis_of<int>(p.y), axis_of<int>(p.x), p.include_pad,
            divider_of(packs), divider_of(bands), static_cast<uint32_t>(threads)};
        return launch(pairs<T, kWindow>, blocks_of(threads), kBlock, 0, stream, o);
    });
}

template <typename T>
aicf_status
launch_planes(const problem &p, const tensors<T> &t, aicf_stream stream)
{
    if (in_pairs(p) && is_narrow(p, 1) && p.x.size % kSize<T> == 0 && p.x.outs == p.x.size / 2 &&
        t.aligned_for(kSize<T> / 2, kSize<T>)) {
        return p.x.window == 2 ? launch_pairs<T, 2>(p, t, stream)
                               : launch_pairs<T, 3>(p, t, stream);
    }
    if (!is_narrow(p, 1)) {
        return launch_elements<T, int64_t, 0>(p, t, stream);
    }
    bool few = ceil_div(p.y.window, p.y.stride) <= 3 && ceil_div(p.x.window, p.x.stride) <= 3;
    return few ? launch_elements<T, int, 3>(p, t, stream)
               : launch_elements<T, int, 0>(p, t, stream);
}

template <typename T, int kWindow>
aicf_status
launch_pixels(const problem &p, const tensors<T> &t, aicf_stream stream)
{
    int64_t packs = p.channels / kSize<T>;
    int64_t columns = ceil_div(p.x.size, 2), rows = ceil_div(p.y.size, 2);
    return in_parts(p.images, packs * columns * rows, [&](int64_t first, int64_t count) {
        tensors<T> part = t.from(
            first * p.channels * p.y.outs * p.x.outs, first * p.channels * p.y.size * p.x.size);
        int64_t threads = count * packs * columns * rows;
        pixel_operands<T> o = {part.gy,           part.indices,
                               part.gx,           axis_of<int>(p.y),
                               axis_of<int>(p.x), p.include_pad,
                               divider_of(packs), divider_of(columns),
                               divider_of(rows),  static_cast<uint32_t>(threads)};
        return launch(pixels<T, kWindow>, blocks_of(threads), kBlock, 0, stream, o);
    });
}

template <typename T, int kEach>
aicf_status
launch_any_pixels(const problem &p, const tensors<T> &t, aicf_stream stream)
{
    int64_t packs = p.channels / kEach;
    int64_t threads = p.images * p.y.size * p.x.size * packs;
    return launch(
        any_pixels<T, kEach>, blocks_of(threads), kBlock, 0, stream,
        any_of<int64_t>(p, t, packs, threads));
}

template <typename T>
aicf_status
launch_nhwc(const problem &p, const tensors<T> &t, aicf_stream stream)
{
    if (p.channels % kSize<T> != 0 || !t.aligned_for(kSize<T>, kSize<T>)) {
        return launch_any_pixels<T, 1>(p, t, stream);
    }
    if (in_pairs(p) && is_narrow(p, p.channels)) {
        return p.x.window == 2 ? launch_pixels<T, 2>(p, t, stream)
                               : launch_pixels<T, 3>(p, t, stream);
    }
    return launch_any_pixels<T, kSize<T>>(p, t, stream);
}

} // namespace aicf::AICF_OP

#define LAUNCHER_OF(op, kernel, s) aicf_cuda_##op##_##kernel##_##s
#define LAUNCHER(op, kernel, s) LAUNCHER_OF(op, kernel, s)

#if LARGEST
#define LAUNCH(T, s, kernel)                                                                      \
    aicf_status LAUNCHER(AICF_OP, kernel, s)(                                                     \
        const T *gy, const int64_t *indices, T *gx, int64_t N, int64_t C, int64_t P, int64_t Q,   \
        int64_t, int64_t, int64_t H, int64_t W, const int64_t window[2], const int64_t stride[2], \
        const int64_t pad[2], aicf_stream stream)                                                 \
    {                                                                                             \
        using namespace aicf::AICF_OP;                                                            \
        using D = aicf::device_t<T>;                                                              \
        problem p = problem_of(N, C, {H, W}, {P, Q}, window, stride, pad, false);                 \
        tensors<D> t = {aicf::device(gy), indices, aicf::device(gx)};                             \
        return launch_##kernel<D>(p, t, stream);                                                  \
    }
#else
#define LAUNCH(T, s, kernel)                                                                  \
    aicf_status LAUNCHER(AICF_OP, kernel, s)(                                                 \
        const T *gy, T *gx, int64_t N, int64_t C, int64_t P, int64_t Q, int64_t, int64_t,     \
        int64_t H, int64_t W, const int64_t window[2], const int64_t stride[2],               \
        const int64_t pad[2], bool count_include_pad, aicf_stream stream)                     \
    {                                                                                         \
        using namespace aicf::AICF_OP;                                                        \
        using D = aicf::device_t<T>;                                                          \
        problem p = problem_of(N, C, {H, W}, {P, Q}, window, stride, pad, count_include_pad); \
        tensors<D> t = {aicf::device(gy), nullptr, aicf::device(gx)};                         \
        return launch_##kernel<D>(p, t, stream);                                              \
    }
#endif

#define LAUNCHERS(T, s)  \
    LAUNCH(T, s, planes) \
    LAUNCH(T, s, nhwc)

LAUNCHERS(float, f32)
LAUNCHERS(aicf_f16, f16)
LAUNCHERS(aicf_bf16, bf16)
