// Walks over some dims of a strided tensor: the host sorts and merges them, the device turns the
// index of a unit, one element or a pack, into its offset.
#ifndef AICF_CUDA_WALK_CUH
#define AICF_CUDA_WALK_CUH

#include <aicf/cuda/numeric.cuh>

namespace aicf::reduce {

// Innermost dim first; sizes above 1; rank 0 is one element.
struct dims {
    int rank;
    int64_t sizes[AICF_MAX_RANK];
    int64_t strides[AICF_MAX_RANK];
};

// ---- on the device ------------------------------------------------------------------------------

// A dims in units of a pack of elements of its innermost dim, for the device. Where all indexes are
// below 2^31, dividers are used; else the 64-bit sizes.
struct walk {
    int rank;
    bool narrow;
    divider dividers[AICF_MAX_RANK];
    int64_t sizes[AICF_MAX_RANK];
    int64_t strides[AICF_MAX_RANK]; // in elements of x
};

__attribute__((noinline)) inline walk // once a module
walk_of(const dims &d, int unit)
{
    walk w = {};
    int64_t count = 1;
    w.rank = d.rank;
    for (int dim = 0; dim < d.rank; dim++) {
        w.sizes[dim] = dim == 0 ? d.sizes[0] / unit : d.sizes[dim];
        w.strides[dim] = dim == 0 ? d.strides[0] * unit : d.strides[dim];
        count *= w.sizes[dim];
    }
    w.narrow = count < int64_t{1} << 31;
    for (int dim = 0; dim < d.rank && w.narrow; dim++) {
        w.dividers[dim] = divider_of(w.sizes[dim] > 0 ? w.sizes[dim] : 1);
    }
    return w;
}

// Offsets of units, one functor for each way to find them, so that loops hold one alone.
struct straight {
    static constexpr bool kCheap = true; // enough to have several loads on their way
    int64_t stride;

    __device__ int64_t operator()(int64_t i) const
    {
        return i * stride;
    }
};

struct narrow_walk {
    static constexpr bool kCheap = true;
    const walk &w;

    __device__ int64_t operator()(int64_t i) const
    {
        int64_t offset = 0;
        uint32_t rest = static_cast<uint32_t>(i);
        for (int dim = 0; dim < w.rank - 1; dim++) {
            uint32_t next = divide(rest, w.dividers[dim]);
            offset += (rest - next * w.dividers[dim].divisor) * w.strides[dim];
            rest = next;
        }
        return offset + rest * w.strides[w.rank - 1];
    }
};

struct wide_walk {
    static constexpr bool kCheap = false;
    const walk &w;

    __device__ int64_t operator()(int64_t i) const
    {
        int64_t offset = 0;
#pragma unroll 1
        for (int dim = 0; dim < w.rank - 1; dim++) {
            int64_t next = i / w.sizes[dim];
            offset += (i - next * w.sizes[dim]) * w.strides[dim];
            i = next;
        }
        return offset + i * w.strides[w.rank - 1];
    }
};

// body(offsets of w)
template <typename Body>
__device__ inline void
with_offsets(const walk &w, Body body)
{
    if (w.rank <= 1) {
        body(straight{w.strides[0]});
    } else if (w.narrow) {
        body(narrow_walk{w});
    } else {
        body(wide_walk{w});
    }
}

__device__ inline int64_t
offset_of(const walk &w, int64_t i)
{
    int64_t offset;
    with_offsets(w, [&](auto offsets) { offset = offsets(i); });
    return offset;
}

// ---- problem ------------------------------------------------------------------------------------

// `kept` in the order of the out, which is dense; `reduced` by stride, the smallest innermost, or,
// where places count, in the order of x.
struct problem {
    dims kept, reduced;
    int64_t outs, length; // products of the sizes
};

inline void
dims_append(dims *d, int64_t size, int64_t stride)
{
    if (size == 1) {
        return;
    }
    int last = d->rank - 1;
    if (last >= 0 && stride == d->strides[last] * d->sizes[last]) {
        d->sizes[last] *= size;
        return;
    }
    d->sizes[d->rank] = size;
    d->strides[d->rank] = stride;
    d->rank++;
}

inline int64_t
magnitude(int64_t stride)
{
    return stride < 0 ? -stride : stride;
}

// Merges the dims of `x` whose bit in `axes` is `reduced`, sorted by stride first where asked.
__attribute__((noinline)) inline dims
dims_of(const aicf_view &x, uint32_t axes, bool reduced, bool sorted)
{
    int order[AICF_MAX_RANK], count = 0;
    for (int dim = static_cast<int>(x.rank) - 1; dim >= 0; dim--) {
        if ((axes >> dim & 1) != static_cast<uint32_t>(reduced)) {
            continue;
        }
        int at = count++;
        while (sorted && at > 0 &&
               magnitude(x.strides[order[at - 1]]) > magnitude(x.strides[dim])) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = dim;
    }
    dims d = {};
    for (int i = 0; i < count; i++) {
        dims_append(&d, x.sizes[order[i]], x.strides[order[i]]);
    }
    return d;
}

// `axes`: a bit for each reduced dim of x.
inline problem
problem_of(const aicf_view &x, uint32_t axes, bool ordered)
{
    problem p = {dims_of(x, axes, false, false), dims_of(x, axes, true, !ordered), 1, 1};
    for (int64_t dim = 0; dim < x.rank; dim++) {
        (axes >> dim & 1 ? p.length : p.outs) *= x.sizes[dim];
    }
    return p;
}

// ---- x beside its outs --------------------------------------------------------------------------

// Dims of x, and of the outs that they lead to, merged where both can be: innermost first.
struct joint {
    reduce::dims x, outs;
};

inline joint
joint_of(const aicf_view &x, uint32_t axes)
{
    joint d = {};
    int64_t outs = 1;
    for (int dim = static_cast<int>(x.rank) - 1; dim >= 0; dim--) {
        int64_t size = x.sizes[dim], step = axes >> dim & 1 ? 0 : outs;
        outs *= axes >> dim & 1 ? 1 : size;
        if (size == 1) {
            continue;
        }
        int last = d.x.rank - 1;
        if (last >= 0 && x.strides[dim] == d.x.strides[last] * d.x.sizes[last] &&
            step == d.outs.strides[last] * d.outs.sizes[last]) {
            d.x.sizes[last] = d.outs.sizes[last] = d.x.sizes[last] * size;
            continue;
        }
        last++;
        d.x.sizes[last] = d.outs.sizes[last] = size;
        d.x.strides[last] = x.strides[dim];
        d.outs.strides[last] = step;
        d.x.rank = d.outs.rank = last + 1;
    }
    return d;
}

} // namespace aicf::reduce

#endif
