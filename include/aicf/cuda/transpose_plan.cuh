// What the kernels of aicf/cuda/transpose.cuh share: elements as they are written, and the dims of
// the two views, merged and widened.
#ifndef AICF_CUDA_TRANSPOSE_PLAN_CUH
#define AICF_CUDA_TRANSPOSE_PLAN_CUH

#include <type_traits>

#include <aicf/cuda/launch.cuh>
#include <aicf/cuda/numeric.cuh>

namespace aicf::transpose {

constexpr int kBlock = 256;

// ---- elements -----------------------------------------------------------------------------------

__device__ inline unsigned
least(int64_t left, unsigned most)
{
    return left < most ? static_cast<unsigned>(left) : most;
}

__device__ inline uint32_t
as_truth(uint32_t word)
{
    return __vsetne4(word, 0); // 1 in each byte that is not 0
}

template <typename T>
__device__ inline T
as_written(T x, bool truth)
{
    if (truth) {
        if constexpr (std::is_same_v<T, words>) {
#pragma unroll
            for (uint32_t &word : x.word) {
                word = as_truth(word);
            }
        } else if constexpr (sizeof(T) == 8) {
            return static_cast<uint64_t>(as_truth(static_cast<uint32_t>(x >> 32))) << 32 |
                   as_truth(static_cast<uint32_t>(x));
        } else {
            return static_cast<T>(as_truth(x));
        }
    }
    return x;
}

// ---- plan ---------------------------------------------------------------------------------------

struct dim {
    int64_t size, x, out; // strides in elements
};

// Innermost dim of out first; sizes above 1.
struct plan {
    const char *x;
    char *out;
    int item; // bytes of an element
    bool truth;
    int rank;
    dim dims[AICF_MAX_RANK];
};

inline int64_t
magnitude(int64_t stride)
{
    return stride < 0 ? -stride : stride;
}

inline void
merge(plan *p)
{
    int last = 0;
    for (int i = 1; i < p->rank; i++) {
        dim &inner = p->dims[last];
        const dim &outer = p->dims[i];
        if (outer.x == inner.x * inner.size && outer.out == inner.out * inner.size) {
            inner.size *= outer.size;
        } else {
            p->dims[++last] = outer;
        }
    }
    p->rank = p->rank == 0 ? 0 : last + 1;
}

inline bool
widens(const plan &p)
{
    if (p.rank == 0 || p.item == kPackBytes || p.dims[0].x != 1 || p.dims[0].out != 1) {
        return false;
    }
    uint64_t all = reinterpret_cast<uintptr_t>(p.x) | reinterpret_cast<uintptr_t>(p.out);
    bool even = all % (2 * p.item) == 0 && p.dims[0].size % 2 == 0;
    for (int i = 1; i < p.rank; i++) {
        even = even && p.dims[i].x % 2 == 0 && p.dims[i].out % 2 == 0;
    }
    return even;
}

inline void
widen(plan *p)
{
    while (widens(*p)) {
        p->item *= 2;
        p->dims[0].size /= 2;
        for (int i = 1; i < p->rank; i++) {
            p->dims[i].x /= 2;
            p->dims[i].out /= 2;
        }
        if (p->dims[0].size == 1) {
            p->rank--;
            for (int i = 0; i < p->rank; i++) {
                p->dims[i] = p->dims[i + 1];
            }
        }
    }
}

// `truth`: the elements are bools.
inline plan
plan_of(const aicf_view &x, const aicf_view &out, int item, bool truth)
{
    plan p = {static_cast<const char *>(x.data), static_cast<char *>(out.data), item, truth, 0, {}};
    for (int64_t i = out.rank - 1; i >= 0; i--) {
        dim d = {out.sizes[i], x.strides[i], out.strides[i]};
        if (d.size == 1) {
            continue;
        }
        int at = p.rank++;
        for (; at > 0 && magnitude(p.dims[at - 1].out) > magnitude(d.out); at--) {
            p.dims[at] = p.dims[at - 1];
        }
        p.dims[at] = d;
    }
    merge(&p);
    widen(&p);
    return p;
}

} // namespace aicf::transpose

#endif
