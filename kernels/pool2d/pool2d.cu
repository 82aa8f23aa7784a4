// max_pool2d and avg_pool2d (cuda), f32, f16 and bf16, computed in f32 and rounded once.
//   planes   dense NCHW. `pairs`: windows of 2 or 3 at every second element, rows of whole packs: a
//            thread loads a pack of each of some rows, and takes what its windows need beside it
//            from the lane to the left; `element`, any other: a thread an out.
//   nhwc     channels last: a thread makes a pack of channels, of one out or, of windows of 2 or 3
//            at every second row, of the outs of neighbouring rows, which share what is loaded.
// Of a largest element NaN wins. Its index is that of the first of equals, of the last NaN:
// elements are met row by row. Bound by bytes.
#define HEADER_OF(op) <aicf_ops/op.h>
#define HEADER(op) HEADER_OF(op)
#include HEADER(AICF_OP)

#include <type_traits>

#define LARGEST_max_pool2d 1
#define LARGEST_avg_pool2d 0
#define LARGEST_OF(op) LARGEST_##op
#define LARGEST_IN(op) LARGEST_OF(op)
#define LARGEST LARGEST_IN(AICF_OP)

#include "pixels.cuh"

namespace aicf::AICF_OP {

// Outs of channels last, below which a thread each is faster than a thread a pack: there are then
// no more blocks than multiprocessors.
constexpr int64_t kFew = 1 << 18;

// How windows are reduced, and how many elements a thread loads at once: two indices of a row are
// one access, and four are two.
template <typename T, bool kIndices> struct kinds {
#if LARGEST
    using narrow = std::conditional_t<kIndices, largest_at<int>, largest>;
    using wide = std::conditional_t<kIndices, largest_at<int64_t>, largest>;
#else
    using narrow = total;
    using wide = total;
#endif
    static constexpr int kSize = kIndices ? 4 : kPackSize<T>;
};

template <typename T> struct tensors {
    const T *x;
    T *out;
    int64_t *indices; // NULL: not asked for

    // x and out where accesses of so many elements are aligned.
    bool aligned_for(int of_x, int of_out) const
    {
        int64_t size = static_cast<int64_t>(sizeof(T));
        return aligned(x, size * of_x) && aligned(out, size * of_out) && aligned(indices, 16);
    }

    tensors from(int64_t x_elements, int64_t outs) const
    {
        return {x + x_elements, out + outs, indices ? indices + outs : nullptr};
    }
};

template <typename T, bool kIndices, int kWindow>
aicf_status
launch_pairs(const problem &p, const tensors<T> &t, aicf_stream stream)
{
    constexpr int kSize = kinds<T, kIndices>::kSize;
    int64_t packs = p.x.size / kSize, bands = ceil_div(p.y.outs, kBands);
    return in_parts(p.images * p.channels, packs * bands, [&](int64_t first, int64_t count) {
        tensors<T> part = t.from(first * p.y.size * p.x.size, first * p.y.outs * p.x.outs);
        int64_t threads = count * packs * bands;
        plane_operands<T> o = {
            part.x,
            part.out,
            part.indices,
            axis_of<int>(p.y),
            axis_of<int>(p.x),
            p.include_pad,
            divider_of(packs),
            divider_of(bands),
            static_cast<uint32_t>(threads)};
        return launch(
            pairs<typename kinds<T, kIndices>::narrow, T, kWindow, kSize>, blocks_of(threads),
            kBlock, 0, stream, o);
    });
}

template <typename Reduce, typename T, typename Index, int kWindow>
aicf_status
launch_elements(const problem &p, const tensors<T> &t, aicf_stream stream)
{
    int64_t threads = p.images * p.channels * p.y.outs * p.x.outs;
    any_operands<T, Index> o = {
        t.x,
        t.out,
        t.indices,
        axis_of<Index>(p.y),
        axis_of<Index>(p.x),
        p.include_pad,
        {},
        digits_of(p.x.outs, threads),
        digits_of(p.y.outs, threads),
        threads};
    return launch(element<Reduce, T, Index, kWindow>, blocks_of(threads), kBlock, 0, stream, o);
}

template <typename T, bool kIndices>
aicf_status
launch_planes(const problem &p, const tensors<T> &t, aicf_stream stream)
{
    constexpr int kSize = kinds<T, kIndices>::kSize;
    if (in_pairs(p) && is_narrow(p, 1) && p.x.size % kSize == 0 && p.x.outs == p.x.size / 2 &&
        t.aligned_for(kSize, kSize / 2)) {
        return p.x.window == 2 ? launch_pairs<T, kIndices, 2>(p, t, stream)
                               : launch_pairs<T, kIndices, 3>(p, t, stream);
    }
    bool narrow = is_narrow(p, 1);
    if (narrow && p.y.window <= 3 && p.x.window <= 3) {
        return launch_elements<typename kinds<T, kIndices>::narrow, T, int, 3>(p, t, stream);
    }
    return narrow ? launch_elements<typename kinds<T, kIndices>::narrow, T, int, 0>(p, t, stream)
                  : launch_elements<typename kinds<T, kIndices>::wide, T, int64_t, 0>(p, t, stream);
}

template <typename T, bool kIndices, int kWindow>
aicf_status
launch_pixels(const problem &p, const tensors<T> &t, aicf_stream stream)
{
    constexpr int kSize = kinds<T, kIndices>::kSize;
    int64_t packs = p.channels / kSize, bands = ceil_div(p.y.outs, kBands);
    return in_parts(p.images, packs * p.x.outs * bands, [&](int64_t first, int64_t count) {
        tensors<T> part = t.from(
            first * p.channels * p.y.size * p.x.size, first * p.channels * p.y.outs * p.x.outs);
        int64_t threads = count * packs * p.x.outs * bands;
        pixel_operands<T> o = {
            part.x,
            part.out,
            part.indices,
            axis_of<int>(p.y),
            axis_of<int>(p.x),
            p.include_pad,
            divider_of(packs),
            divider_of(p.x.outs),
            divider_of(bands),
            static_cast<uint32_t>(threads)};
        return launch(
            pixels<typename kinds<T, kIndices>::narrow, T, kWindow, kSize>, blocks_of(threads),
            kBlock, 0, stream, o);
    });
}

template <typename T, bool kIndices, int kSize>
aicf_status
launch_any_pixels(const problem &p, const tensors<T> &t, aicf_stream stream)
{
    int64_t packs = p.channels / kSize;
    int64_t threads = p.images * p.y.outs * p.x.outs * packs;
    any_operands<T, int64_t> o = {
        t.x,
        t.out,
        t.indices,
        p.y,
        p.x,
        p.include_pad,
        digits_of(packs, threads),
        digits_of(p.x.outs, threads),
        digits_of(p.y.outs, threads),
        threads};
    return launch(
        any_pixels<typename kinds<T, kIndices>::wide, T, kSize>, blocks_of(threads), kBlock, 0,
        stream, o);
}

template <typename T, bool kIndices>
aicf_status
launch_nhwc(const problem &p, const tensors<T> &t, aicf_stream stream)
{
    constexpr int kSize = kinds<T, kIndices>::kSize;
    if (p.channels % kSize != 0 || !t.aligned_for(kSize, kSize)) {
        return launch_any_pixels<T, kIndices, 1>(p, t, stream);
    }
    bool pairs =
        p.y.window == p.x.window && p.y.stride == 2 && p.x.stride == 2 && is_narrow(p, p.channels);
    if (pairs && p.x.window == 2) {
        return launch_pixels<T, kIndices, 2>(p, t, stream);
    }
    if (pairs && p.x.window == 3) {
        return launch_pixels<T, kIndices, 3>(p, t, stream);
    }
    return p.images * p.y.outs * p.x.outs * p.channels < kFew
               ? launch_any_pixels<T, kIndices, 1>(p, t, stream)
               : launch_any_pixels<T, kIndices, kSize>(p, t, stream);
}

} // namespace aicf::AICF_OP

#define LAUNCHER_OF(op, kernel, s) aicf_cuda_##op##_##kernel##_##s
#define LAUNCHER(op, kernel, s) LAUNCHER_OF(op, kernel, s)

#if LARGEST
#define LAUNCH(T, s, kernel)                                                                       \
    aicf_status LAUNCHER(AICF_OP, kernel, s)(                                                      \
        const T *x, T *out, int64_t *indices, int64_t N, int64_t C, int64_t H, int64_t W, int64_t, \
        int64_t, int64_t P, int64_t Q, const int64_t window[2], const int64_t stride[2],           \
        const int64_t pad[2], bool, aicf_stream stream)                                            \
    {                                                                                              \
        using namespace aicf::AICF_OP;                                                             \
        using D = aicf::device_t<T>;                                                               \
        problem p = problem_of(N, C, {H, W}, {P, Q}, window, stride, pad, false);                  \
        tensors<D> t = {aicf::device(x), aicf::device(out), indices};                              \
        return indices ? launch_##kernel<D, true>(p, t, stream)                                    \
                       : launch_##kernel<D, false>(p, t, stream);                                  \
    }
#else
#define LAUNCH(T, s, kernel)                                                                  \
    aicf_status LAUNCHER(AICF_OP, kernel, s)(                                                 \
        const T *x, T *out, int64_t N, int64_t C, int64_t H, int64_t W, int64_t, int64_t,     \
        int64_t P, int64_t Q, const int64_t window[2], const int64_t stride[2],               \
        const int64_t pad[2], bool, bool count_include_pad, aicf_stream stream)               \
    {                                                                                         \
        using namespace aicf::AICF_OP;                                                        \
        using D = aicf::device_t<T>;                                                          \
        problem p = problem_of(N, C, {H, W}, {P, Q}, window, stride, pad, count_include_pad); \
        tensors<D> t = {aicf::device(x), aicf::device(out), nullptr};                         \
        return launch_##kernel<D, false>(p, t, stream);                                       \
    }
#endif

#define LAUNCHERS(T, s)  \
    LAUNCH(T, s, planes) \
    LAUNCH(T, s, nhwc)

LAUNCHERS(float, f32)
LAUNCHERS(aicf_f16, f16)
LAUNCHERS(aicf_bf16, bf16)
