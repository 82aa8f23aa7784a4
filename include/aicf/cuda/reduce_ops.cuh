// What a reduction computes: a struct for each, over the element type T.
//   input    what an element is computed as: f32 of floats, i32 or i64 of integers
//   value    what is carried, whole 32-bit words
//   result   what is written
//   context  what an out brings along; `beside` says where from
//   of       the value of an element, which stands at `place` among those of its out
//   moved    a value whose places were counted from `by`
//   finish   the result of `count` elements
//   then     of an ordered op: `combine` of values where one's elements are behind the other's
//   settled  what `then` made of elements of which the first stands at `first`
//   best     of an ordered op of floats: that of a warp
//   by_pack, by_lane   of an ordered op: how packs of floats are taken
//   (aicf/cuda/reduce_places.cuh)
// `combine` is commutative and, up to rounding, associative, with `identity` as its neutral value.
#ifndef AICF_CUDA_REDUCE_OPS_CUH
#define AICF_CUDA_REDUCE_OPS_CUH

#include <limits>
#include <type_traits>

#include <aicf/cuda/block_reduce.cuh>
#include <aicf/cuda/numeric.cuh>
#include <aicf/cuda/reduce_places.cuh>

namespace aicf::reduce {

// ---- elements -----------------------------------------------------------------------------------

template <typename T> struct input_type {
    using type = std::conditional_t<
        std::is_integral_v<T>, std::conditional_t<sizeof(T) == 8, int64_t, int32_t>, float>;
};
template <> struct input_type<aicf_bool> {
    using type = int32_t;
};
template <typename T> using input_t = typename input_type<T>::type;

template <typename T> constexpr bool kIsFloat = std::is_same_v<input_t<T>, float>;

template <typename T>
__device__ inline input_t<T>
input_of(T x)
{
    if constexpr (std::is_same_v<T, aicf_bool>) {
        return x.byte != 0;
    } else if constexpr (kIsFloat<T>) {
        return to_f32(x);
    } else {
        return x;
    }
}

template <typename T, typename Input>
__device__ inline T
output_of(Input x)
{
    if constexpr (kIsFloat<T>) {
        return of_f32<T>(x);
    } else {
        return static_cast<T>(x);
    }
}

// Tensors of the outs' shape, dense: NULL but where an op says what they are.
struct beside {
    const void *first, *second;
};

// An op without context, whose values do not know places.
template <typename Value> struct plain {
    using value = Value;
    static constexpr bool kOrdered = false; // places are those of x's own order
    struct context {};

    static __device__ context context_of(const beside &, int64_t)
    {
        return {};
    }

    static __device__ value moved(value v, int64_t)
    {
        return v;
    }
};

// ---- sum, mean ----------------------------------------------------------------------------------

// Integers and bools are summed in i64, floats in f32.
template <typename T> using total_t = std::conditional_t<kIsFloat<T>, float, int64_t>;

template <typename T> struct sum_of : plain<total_t<T>> {
    using element = T;
    using value = total_t<T>;
    using result = std::conditional_t<kIsFloat<T>, T, int64_t>;
    using typename plain<value>::context;

    static __device__ value identity()
    {
        return 0;
    }

    static __device__ value of(input_t<T> x, int64_t, context)
    {
        return x;
    }

    static __device__ value combine(value a, value b)
    {
        return a + b;
    }

    static __device__ result finish(value v, int64_t, const beside &, int64_t)
    {
        return output_of<result>(v);
    }
};

// Of nothing it is 0 / 0, NaN.
template <typename T> struct mean_of : sum_of<T> {
    static __device__ T finish(float v, int64_t count, const beside &, int64_t)
    {
        return of_f32<T>(v / static_cast<float>(count));
    }
};

// ---- max, min -----------------------------------------------------------------------------------

// No number is outside of these; of floats, infinities.
template <typename V>
constexpr V kAboveAll = std::numeric_limits<V>::has_infinity ? std::numeric_limits<V>::infinity()
                                                             : std::numeric_limits<V>::max();
template <typename V>
constexpr V kBelowAll =
    std::numeric_limits<V>::has_infinity ? -kAboveAll<V> : std::numeric_limits<V>::lowest();

// kSign 1: the largest; -1: the smallest. NaN wins.
template <typename T, int kSign> struct extremum_of : plain<input_t<T>> {
    using element = T;
    using value = input_t<T>;
    using result = T;
    using typename plain<value>::context;

    static __device__ value identity()
    {
        return kSign > 0 ? kBelowAll<value> : kAboveAll<value>;
    }

    static __device__ value of(value x, int64_t, context)
    {
        return x;
    }

    static __device__ value combine(value a, value b)
    {
        if constexpr (kIsFloat<T>) {
            return kSign > 0 ? ptx::max_nan(a, b) : ptx::min_nan(a, b);
        } else {
            return (kSign > 0 ? b > a : b < a) ? b : a;
        }
    }

    static __device__ T finish(value v, int64_t, const beside &, int64_t)
    {
        return output_of<T>(v);
    }
};

template <typename T> using max_of = extremum_of<T, 1>;
template <typename T> using min_of = extremum_of<T, -1>;

// ---- argmax -------------------------------------------------------------------------------------

template <typename Key> struct placed {
    Key key;
    int64_t at;
};

// The place of the largest, the first of equals; NaN wins, the first one.
template <typename T> struct argmax_of : plain<placed<input_t<T>>> {
    using element = T;
    using key = input_t<T>;
    using value = placed<key>;
    using result = int64_t;
    using typename plain<value>::context;
    static constexpr bool kOrdered = true;
    using by_pack = leader<T>; // of floats
    using by_lane = leaders<T>;

    // Loses against every element, as that of equals that stands behind all.
    static __device__ value identity()
    {
        return {kBelowAll<key>, kAboveAll<int64_t>};
    }

    static __device__ value of(key x, int64_t place, context)
    {
        return {x, place};
    }

    static __device__ value moved(value v, int64_t by)
    {
        v.at += by;
        return v;
    }

    // NaN is above all and not above NaN.
    static __device__ bool above(key a, key b)
    {
        return !(a <= b) && b == b;
    }

    static __device__ value combine(const value &a, const value &b)
    {
        bool second = above(b.key, a.key) || (!above(a.key, b.key) && b.at < a.at);
        return second ? b : a;
    }

    // The same where b stands behind a: half the instructions. Of elements that are all the lowest,
    // the identity stays: `settled` then says where the first one was.
    static __device__ value then(const value &a, const value &b)
    {
        return above(b.key, a.key) ? b : a;
    }

    // Of floats: the best of a warp, in all lanes, without its 5 steps.
    static __device__ value best(const value &v)
    {
        uint32_t rank = rank_of(v.key), top = __reduce_max_sync(0xffffffff, rank);
        uint64_t at = rank == top ? static_cast<uint64_t>(v.at) : ~uint64_t{0};
        uint32_t high = static_cast<uint32_t>(at >> 32), low = static_cast<uint32_t>(at);
        uint32_t first = __reduce_min_sync(0xffffffff, high);
        low = __reduce_min_sync(0xffffffff, high == first ? low : 0xffffffff);
        return {ranked(top), static_cast<int64_t>(uint64_t{first} << 32 | low)};
    }

    static __device__ value settled(value v, int64_t first)
    {
        v.at = v.at == kAboveAll<int64_t> ? first : v.at;
        return v;
    }

    static __device__ int64_t finish(value v, int64_t, const beside &, int64_t)
    {
        return v.at;
    }
};

} // namespace aicf::reduce

#endif
