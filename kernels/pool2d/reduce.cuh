// What a window becomes: the largest of its elements, with or without the index of that one, or
// their sum, which is then made a mean.
#ifndef POOL2D_REDUCE_CUH
#define POOL2D_REDUCE_CUH

#include <aicf/cuda/window.cuh>

namespace aicf::AICF_OP {

using namespace window;

// `start(at)`: of no element yet; `at` is the index of the first one there is. `only`: of one.
// `take`: one element more. `merge`: the elements of `other`, all of which come later. `padding`:
// words whose lanes change nothing.
struct largest {
    using state = float;
    static constexpr bool kIndices = false, kMean = false;

    template <typename T> __device__ static uint32_t padding()
    {
        return lowest_word(T{});
    }

    __device__ static state start(int64_t)
    {
        return -INFINITY;
    }

    template <typename Index> __device__ static state only(float x, Index)
    {
        return x;
    }

    template <typename Index> __device__ static void take(state &s, float x, Index)
    {
        s = ptx::max_nan(s, x);
    }

    __device__ static void merge(state &s, state other)
    {
        s = ptx::max_nan(s, other);
    }

    __device__ static float value(state s)
    {
        return s;
    }
};

template <typename Index> struct largest_at {
    struct state {
        float value;
        Index at;
    };
    static constexpr bool kIndices = true, kMean = false;

    template <typename T> __device__ static uint32_t padding()
    {
        return lowest_word(T{});
    }

    __device__ static state start(Index at)
    {
        return {-INFINITY, at};
    }

    __device__ static state only(float x, Index at)
    {
        return {x, at};
    }

    __device__ static void take(state &s, float x, Index at)
    {
        bool wins = x > s.value || x != x;
        s.value = wins ? x : s.value;
        s.at = wins ? at : s.at;
    }

    __device__ static void merge(state &s, state other)
    {
        take(s, other.value, other.at);
    }

    __device__ static float value(state s)
    {
        return s.value;
    }
};

struct total {
    using state = float;
    static constexpr bool kIndices = false, kMean = true;

    template <typename T> __device__ static uint32_t padding()
    {
        return 0;
    }

    __device__ static state start(int64_t)
    {
        return 0.0f;
    }

    template <typename Index> __device__ static state only(float x, Index)
    {
        return x;
    }

    template <typename Index> __device__ static void take(state &s, float x, Index)
    {
        s += x;
    }

    __device__ static void merge(state &s, state other)
    {
        s += other;
    }

    __device__ static float value(state s)
    {
        return s;
    }
};

// A sum becomes a mean.
template <typename Reduce, typename T>
__device__ inline void
finish(typename Reduce::state &s, const share &count)
{
    if constexpr (Reduce::kMean) {
        s = count.template of<T>(s);
    }
}

// Stores kSize outs, and their indices.
template <typename Reduce, typename T, int kSize>
__device__ inline void
store_outs(T *out, int64_t *indices, const typename Reduce::state (&s)[kSize])
{
    float value[kSize];
#pragma unroll
    for (int i = 0; i < kSize; i++) {
        value[i] = Reduce::value(s[i]);
    }
    store_lanes(out, value);
    if constexpr (Reduce::kIndices) {
        int64_t at[kSize];
#pragma unroll
        for (int i = 0; i < kSize; i++) {
            at[i] = s[i].at;
        }
        store_indices(indices, at);
    }
}

} // namespace aicf::AICF_OP

#endif
