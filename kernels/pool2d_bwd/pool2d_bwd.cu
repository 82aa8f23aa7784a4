// max_pool2d_bwd and avg_pool2d_bwd (cuda), f32, f16 and bf16: each element of gx gathers from the
// windows that hold it, row by row, summed in f32 and rounded once; so bits do not depend on who
// comes first. An index that names no element of its window is met by none.
//   planes   dense NCHW. `pairs`: windows of 2 or 3 at every second element, rows of whole packs
//            or twos: a thread loads the windows of one, and takes the one to the right from the
//            next lane;
//            `element`, any other: a thread an element.
//   nhwc     channels last: a thread makes a pack of channels, of one element or, of windows of 2
//            or 3 at every second element, of the four that share the same windows.
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

// ---- kernels ------------------------------------------------------------------------------------

// The kernels of one dtype. What plans their launches knows that by the bytes of an element alone,
// and so is compiled once for all.
struct kernels {
    int item, size;                    // bytes of an element, elements that a thread stores at once
    void (*pairs[2])(plane_operands);  // of windows of 2, of 3
    void (*twos[2])(plane_operands);   // the same where a row is of twos alone
    void (*few)(any_operands<int>);    // of elements in up to 3 x 3 windows
    void (*narrow)(any_operands<int>); // of any, in 32 bits
    void (*wide)(any_operands<int64_t>); // of any
    void (*pixels[2])(pixel_operands);
    void (*any_pixels[2])(any_operands<int64_t>); // by channels, by packs of them
};

template <typename T>
kernels
kernels_of()
{
    return {
        sizeof(T),
        kSize<T>,
        {pairs<T, 2, kSize<T>>, pairs<T, 3, kSize<T>>},
        {pairs<T, 2, 2>, pairs<T, 3, 2>},
        element<T, int, 3>,
        element<T, int, 0>,
        element<T, int64_t, 0>,
        {pixels<T, 2>, pixels<T, 3>},
        {any_pixels<T, 1>, any_pixels<T, kSize<T>>}};
}

// What one call is about.
struct job {
    const kernels &k;
    problem p;
    const void *gy;
    const int64_t *indices; // NULL: of a mean
    void *gx;
    aicf_stream stream;

    // Whether accesses of so many elements of gy and of gx are aligned.
    bool aligned_for(int of_gy, int of_gx) const
    {
        return aligned(gy, k.item * of_gy) && aligned(gx, k.item * of_gx) && aligned(indices, 16);
    }

    // The same from so many windows and elements on.
    template <typename Operands> void place(Operands *o, int64_t windows, int64_t elements) const
    {
        o->gy = static_cast<const char *>(gy) + windows * k.item;
        o->indices = indices ? indices + windows : nullptr;
        o->gx = static_cast<char *>(gx) + elements * k.item;
        o->include_pad = p.include_pad;
    }
};

// ---- launches -----------------------------------------------------------------------------------

// `packs`: of channels, where those lie last, else 1.
template <typename Index>
aicf_status
launch_any(const job &j, void (*kernel)(any_operands<Index>), int64_t packs, int64_t threads)
{
    const problem &p = j.p;
    any_operands<Index> o = {};
    j.place(&o, 0, 0);
    o.y = axis_of<Index>(p.y);
    o.z = axis_of<Index>(p.x);
    o.packs = digits_of(packs, threads);
    o.columns = digits_of(p.x.size, threads);
    o.rows = digits_of(p.y.size, threads);
    o.y_stride = digits_of(o.y.stride, p.y.size + p.y.pad);
    o.z_stride = digits_of(o.z.stride, p.x.size + p.x.pad);
    o.threads = threads;
    return launch(kernel, blocks_of(threads), kBlock, 0, j.stream, o);
}

// `each`: elements that a thread stores at once.
inline aicf_status
launch_pairs(const job &j, int each, void (*kernel)(plane_operands))
{
    const problem &p = j.p;
    int64_t packs = p.x.size / each, bands = ceil_div(p.y.size, 2 * kBands);
    return in_parts(p.images * p.channels, packs * bands, [&](int64_t first, int64_t count) {
        int64_t threads = count * packs * bands;
        plane_operands o = {};
        j.place(&o, first * p.y.outs * p.x.outs, first * p.y.size * p.x.size);
        o.y = axis_of<int>(p.y);
        o.z = axis_of<int>(p.x);
        o.packs = divider_of(packs);
        o.bands = divider_of(bands);
        o.threads = static_cast<uint32_t>(threads);
        return launch(kernel, blocks_of(threads), kBlock, 0, j.stream, o);
    });
}

inline aicf_status
launch_planes(const job &j)
{
    const problem &p = j.p;
    if (in_pairs(p) && is_narrow(p, 1) && p.x.size % 2 == 0 && p.x.outs == p.x.size / 2) {
        if (p.x.size % j.k.size == 0 && j.aligned_for(j.k.size / 2, j.k.size)) {
            return launch_pairs(j, j.k.size, j.k.pairs[p.x.window - 2]);
        }
        if (j.aligned_for(1, 2)) {
            return launch_pairs(j, 2, j.k.twos[p.x.window - 2]);
        }
    }
    int64_t threads = p.images * p.channels * p.y.size * p.x.size;
    if (!is_narrow(p, 1)) {
        return launch_any(j, j.k.wide, 1, threads);
    }
    bool few = ceil_div(p.y.window, p.y.stride) <= 3 && ceil_div(p.x.window, p.x.stride) <= 3;
    return launch_any(j, few ? j.k.few : j.k.narrow, 1, threads);
}

inline aicf_status
launch_pixels(const job &j)
{
    const problem &p = j.p;
    int64_t packs = p.channels / j.k.size;
    int64_t columns = ceil_div(p.x.size, 2), rows = ceil_div(p.y.size, 2);
    return in_parts(p.images, packs * columns * rows, [&](int64_t first, int64_t count) {
        int64_t threads = count * packs * columns * rows, images = first * p.channels;
        pixel_operands o = {};
        j.place(&o, images * p.y.outs * p.x.outs, images * p.y.size * p.x.size);
        o.y = axis_of<int>(p.y);
        o.z = axis_of<int>(p.x);
        o.packs = divider_of(packs);
        o.columns = divider_of(columns);
        o.rows = divider_of(rows);
        o.threads = static_cast<uint32_t>(threads);
        return launch(j.k.pixels[p.x.window - 2], blocks_of(threads), kBlock, 0, j.stream, o);
    });
}

inline aicf_status
launch_nhwc(const job &j)
{
    const problem &p = j.p;
    bool packed = p.channels % j.k.size == 0 && j.aligned_for(j.k.size, j.k.size);
    if (packed && in_pairs(p) && is_narrow(p, p.channels)) {
        return launch_pixels(j);
    }
    int64_t packs = packed ? p.channels / j.k.size : p.channels;
    return launch_any(j, j.k.any_pixels[packed], packs, p.images * p.y.size * p.x.size * packs);
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
        kernels k = kernels_of<aicf::device_t<T>>();                                              \
        problem p = problem_of(N, C, {H, W}, {P, Q}, window, stride, pad, false);                 \
        return launch_##kernel({k, p, gy, indices, gx, stream});                                  \
    }
#else
#define LAUNCH(T, s, kernel)                                                                  \
    aicf_status LAUNCHER(AICF_OP, kernel, s)(                                                 \
        const T *gy, T *gx, int64_t N, int64_t C, int64_t P, int64_t Q, int64_t, int64_t,     \
        int64_t H, int64_t W, const int64_t window[2], const int64_t stride[2],               \
        const int64_t pad[2], bool count_include_pad, aicf_stream stream)                     \
    {                                                                                         \
        using namespace aicf::AICF_OP;                                                        \
        kernels k = kernels_of<aicf::device_t<T>>();                                          \
        problem p = problem_of(N, C, {H, W}, {P, Q}, window, stride, pad, count_include_pad); \
        return launch_##kernel({k, p, gy, nullptr, gx, stream});                              \
    }
#endif

#define LAUNCHERS(T, s)  \
    LAUNCH(T, s, planes) \
    LAUNCH(T, s, nhwc)

LAUNCHERS(float, f32)
LAUNCHERS(aicf_f16, f16)
LAUNCHERS(aicf_bf16, bf16)
