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

// ---- kernels ------------------------------------------------------------------------------------

// The kernels of one dtype, with indices or without. What plans their launches knows that by the
// bytes of an element alone, and so is compiled once for all.
struct kernels {
    int item, size;                    // bytes of an element, elements that a thread loads at once
    void (*pairs[2])(plane_operands);  // of windows of 2, of 3
    void (*few)(any_operands<int>);    // of windows of up to 3 x 3
    void (*narrow)(any_operands<int>); // of any, in 32 bits
    void (*wide)(any_operands<int64_t>); // of any
    void (*pixels[2])(pixel_operands);
    void (*any_pixels[2])(any_operands<int64_t>); // by channels, by packs of them
};

// How windows are reduced. Two indices of a row are one access, and four are two.
template <typename T, bool kIndices>
kernels
kernels_of()
{
#if LARGEST
    using narrow = std::conditional_t<kIndices, largest_at<int>, largest>;
    using wide = std::conditional_t<kIndices, largest_at<int64_t>, largest>;
#else
    using narrow = total;
    using wide = total;
#endif
    constexpr int kSize = kIndices ? 4 : kPackSize<T>;
    return {
        sizeof(T),
        kSize,
        {pairs<narrow, T, 2, kSize>, pairs<narrow, T, 3, kSize>},
        element<narrow, T, int, 3>,
        element<narrow, T, int, 0>,
        element<wide, T, int64_t, 0>,
        {pixels<narrow, T, 2, kSize>, pixels<narrow, T, 3, kSize>},
        {any_pixels<wide, T, 1>, any_pixels<wide, T, kSize>}};
}

// What one call is about.
struct job {
    const kernels &k;
    problem p;
    const void *x;
    void *out;
    int64_t *indices; // NULL: not asked for
    aicf_stream stream;

    // Whether accesses of so many elements of x and of out are aligned.
    bool aligned_for(int of_x, int of_out) const
    {
        return aligned(x, k.item * of_x) && aligned(out, k.item * of_out) && aligned(indices, 16);
    }

    // The same from so many elements and outs on.
    template <typename Operands> void place(Operands *o, int64_t elements, int64_t outs) const
    {
        o->x = static_cast<const char *>(x) + elements * k.item;
        o->out = static_cast<char *>(out) + outs * k.item;
        o->indices = indices ? indices + outs : nullptr;
        o->include_pad = p.include_pad;
    }
};

// ---- launches -----------------------------------------------------------------------------------

inline aicf_status
launch_pairs(const job &j)
{
    const problem &p = j.p;
    int64_t packs = p.x.size / j.k.size, bands = ceil_div(p.y.outs, kBands);
    return in_parts(p.images * p.channels, packs * bands, [&](int64_t first, int64_t count) {
        int64_t threads = count * packs * bands;
        plane_operands o = {};
        j.place(&o, first * p.y.size * p.x.size, first * p.y.outs * p.x.outs);
        o.y = axis_of<int>(p.y);
        o.z = axis_of<int>(p.x);
        o.packs = divider_of(packs);
        o.bands = divider_of(bands);
        o.threads = static_cast<uint32_t>(threads);
        return launch(j.k.pairs[p.x.window - 2], blocks_of(threads), kBlock, 0, j.stream, o);
    });
}

// `packs`: of channels, where those lie last.
template <typename Index>
aicf_status
launch_any(const job &j, void (*kernel)(any_operands<Index>), int64_t packs, int64_t threads)
{
    const problem &p = j.p;
    any_operands<Index> o = {};
    j.place(&o, 0, 0);
    o.y = axis_of<Index>(p.y);
    o.z = axis_of<Index>(p.x);
    o.packs = packs ? digits_of(packs, threads) : digits{};
    o.columns = digits_of(p.x.outs, threads);
    o.rows = digits_of(p.y.outs, threads);
    o.threads = threads;
    return launch(kernel, blocks_of(threads), kBlock, 0, j.stream, o);
}

inline aicf_status
launch_planes(const job &j)
{
    const problem &p = j.p;
    if (in_pairs(p) && is_narrow(p, 1) && p.x.size % j.k.size == 0 && p.x.outs == p.x.size / 2 &&
        j.aligned_for(j.k.size, j.k.size / 2)) {
        return launch_pairs(j);
    }
    int64_t threads = p.images * p.channels * p.y.outs * p.x.outs;
    if (!is_narrow(p, 1)) {
        return launch_any(j, j.k.wide, 0, threads);
    }
    return launch_any(j, p.y.window <= 3 && p.x.window <= 3 ? j.k.few : j.k.narrow, 0, threads);
}

inline aicf_status
launch_pixels(const job &j)
{
    const problem &p = j.p;
    int64_t packs = p.channels / j.k.size, bands = ceil_div(p.y.outs, kBands);
    return in_parts(p.images, packs * p.x.outs * bands, [&](int64_t first, int64_t count) {
        int64_t threads = count * packs * p.x.outs * bands, images = first * p.channels;
        pixel_operands o = {};
        j.place(&o, images * p.y.size * p.x.size, images * p.y.outs * p.x.outs);
        o.y = axis_of<int>(p.y);
        o.z = axis_of<int>(p.x);
        o.packs = divider_of(packs);
        o.columns = divider_of(p.x.outs);
        o.bands = divider_of(bands);
        o.threads = static_cast<uint32_t>(threads);
        return launch(j.k.pixels[p.x.window - 2], blocks_of(threads), kBlock, 0, j.stream, o);
    });
}

inline aicf_status
launch_nhwc(const job &j)
{
    const problem &p = j.p;
    int64_t outs = p.images * p.y.outs * p.x.outs;
    bool packed = p.channels % j.k.size == 0 && j.aligned_for(j.k.size, j.k.size);
    bool pairs = (p.x.window == 2 || p.x.window == 3) && p.y.window == p.x.window &&
                 p.y.stride == 2 && p.x.stride == 2;
    if (packed && pairs && is_narrow(p, p.channels)) {
        return launch_pixels(j);
    }
    packed = packed && outs * p.channels >= kFew;
    int64_t packs = packed ? p.channels / j.k.size : p.channels;
    return launch_any(j, j.k.any_pixels[packed], packs, outs * packs);
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
        kernels k = indices ? kernels_of<D, true>() : kernels_of<D, false>();                      \
        problem p = problem_of(N, C, {H, W}, {P, Q}, window, stride, pad, false);                  \
        return launch_##kernel({k, p, x, out, indices, stream});                                   \
    }
#else
#define LAUNCH(T, s, kernel)                                                                  \
    aicf_status LAUNCHER(AICF_OP, kernel, s)(                                                 \
        const T *x, T *out, int64_t N, int64_t C, int64_t H, int64_t W, int64_t, int64_t,     \
        int64_t P, int64_t Q, const int64_t window[2], const int64_t stride[2],               \
        const int64_t pad[2], bool, bool count_include_pad, aicf_stream stream)               \
    {                                                                                         \
        using namespace aicf::AICF_OP;                                                        \
        kernels k = kernels_of<aicf::device_t<T>, false>();                                   \
        problem p = problem_of(N, C, {H, W}, {P, Q}, window, stride, pad, count_include_pad); \
        return launch_##kernel({k, p, x, out, nullptr, stream});                              \
    }
#endif

#define LAUNCHERS(T, s)  \
    LAUNCH(T, s, planes) \
    LAUNCH(T, s, nhwc)

LAUNCHERS(float, f32)
LAUNCHERS(aicf_f16, f16)
LAUNCHERS(aicf_bf16, bf16)
