// Where the largest stands, the first of equals, NaN above all, of packs that a thread takes one
// behind the other: values are compared as they lie in memory, and what is noted is the number of a
// pack, not a place an element. Zeros are made one, and NaN is one, so that what is bit for bit the
// same is no larger.
#ifndef AICF_CUDA_REDUCE_PLACES_CUH
#define AICF_CUDA_REDUCE_PLACES_CUH

#include <aicf/cuda/lanes.cuh>
#include <aicf/cuda/ptx.cuh>

namespace aicf::reduce {

// ---- words of one f32 or two 16-bit lanes -------------------------------------------------------

__device__ inline __half2
pair_of(uint32_t word, __half)
{
    return *reinterpret_cast<const __half2 *>(&word);
}

__device__ inline __nv_bfloat162
pair_of(uint32_t word, __nv_bfloat16)
{
    return *reinterpret_cast<const __nv_bfloat162 *>(&word);
}

template <typename Pair>
__device__ inline uint32_t
word_of(const Pair &pair)
{
    return *reinterpret_cast<const uint32_t *>(&pair);
}

// Lane by lane the larger; NaN, one NaN, wins.
template <typename T>
__device__ inline uint32_t
larger(uint32_t a, uint32_t b, T)
{
    return word_of(__hmax2_nan(pair_of(a, T{}), pair_of(b, T{})));
}

__device__ inline uint32_t
larger(uint32_t a, uint32_t b, float)
{
    return __float_as_uint(ptx::max_nan(__uint_as_float(a), __uint_as_float(b)));
}

// The same values without a -0.
template <typename T>
__device__ inline uint32_t
comparable(uint32_t x, T)
{
    return word_of(__hadd2(pair_of(x, T{}), pair_of(0, T{})));
}

__device__ inline uint32_t
comparable(uint32_t x, float)
{
    return __float_as_uint(__uint_as_float(x) + 0.0f);
}

// The largest of the lanes, in each lane.
template <typename T>
__device__ inline uint32_t
largest_lane(uint32_t x, T)
{
    return larger(x, __byte_perm(x, x, 0x1032), T{});
}

__device__ inline uint32_t
largest_lane(uint32_t x, float)
{
    return x;
}

// Which lanes of a are above b's: none that is NaN, nor one beside NaN.
template <typename T>
__device__ inline void
above(uint32_t a, uint32_t b, bool (&lanes)[2], T)
{
    uint32_t low, high;
    ptx::above(a, b, low, high, T{});
    lanes[0] = low;
    lanes[1] = high;
}

__device__ inline void
above(uint32_t a, uint32_t b, bool (&lanes)[1], float)
{
    lanes[0] = __uint_as_float(a) > __uint_as_float(b);
}

// The value of a lane of a word.
template <typename T>
__device__ inline float
lane_value(uint32_t word, int lane)
{
    float x[kPackSize<T> / 4];
    unpack_word(word, x, T{});
    return x[lane];
}

// ---- ranks --------------------------------------------------------------------------------------

// Values in the order of unsigned integers: of -0 that of 0, of each NaN one above all. None has 0.
__device__ inline uint32_t
rank_of(float x)
{
    uint32_t bits = __float_as_uint(x + 0.0f);
    uint32_t rank = bits ^ (static_cast<uint32_t>(static_cast<int32_t>(bits) >> 31) | 0x80000000);
    return x == x ? rank : 0xffffffff;
}

__device__ inline float
ranked(uint32_t rank)
{
    return __uint_as_float(rank ^ (rank >> 31 ? 0x80000000 : 0xffffffff));
}

// A value and its place in one number, the larger the better: the place, below 2^32, upside down.
__device__ inline uint64_t
rank_of(float x, uint32_t at)
{
    return uint64_t{rank_of(x)} << 32 | ~at;
}

// The best of a warp, in all lanes.
__device__ inline uint64_t
best_rank(uint64_t mine)
{
    uint32_t high = static_cast<uint32_t>(mine >> 32), low = static_cast<uint32_t>(mine);
    uint32_t top = __reduce_max_sync(0xffffffff, high);
    return uint64_t{top} << 32 | __reduce_max_sync(0xffffffff, high == top ? low : 0);
}

// ---- one value of packs -------------------------------------------------------------------------

// Of all lanes of packs, which are numbered from 0 on: less than 2^32 of them.
template <typename T> struct leader {
    words held;      // the pack that has it
    uint32_t at = 0; // its number
    uint32_t top;    // the value, in each lane

    __device__ leader() : top(lowest_word(T{}))
    {
#pragma unroll
        for (uint32_t &word : held.word) {
            word = top;
        }
    }

    __device__ void take(const words &x, uint32_t number)
    {
        uint32_t most = larger(larger(x.word[0], x.word[1], T{}), x.word[2], T{});
        most = largest_lane(larger(most, x.word[3], T{}), T{});
        most = larger(top, comparable(most, T{}), T{});
        bool ahead = most != top;
        top = most;
        at = ahead ? number : at;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            held.word[i] = ahead ? x.word[i] : held.word[i];
        }
    }

    __device__ float key() const
    {
        return lane_value<T>(top, 0);
    }

    // In the pack: the first lane that is as large, or NaN.
    __device__ int lane() const
    {
        float x[kPackSize<T>], most = key();
        aicf::unpack(held, x, T{});
        int first = 0;
#pragma unroll
        for (int lane = kPackSize<T> - 1; lane >= 0; lane--) {
            first = x[lane] == most || x[lane] != x[lane] ? lane : first;
        }
        return first;
    }
};

// ---- a value a lane of packs --------------------------------------------------------------------

// Where the value is NaN, `at` says nothing.
template <typename T> struct leaders {
    static constexpr int kLanes = kPackSize<T> / 4; // of a word
    uint32_t top[4], at[kPackSize<T>];

    __device__ leaders()
    {
#pragma unroll
        for (int i = 0; i < kPackSize<T>; i++) {
            top[i / kLanes] = lowest_word(T{});
            at[i] = 0;
        }
    }

    __device__ void take(const words &x, uint32_t number)
    {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            bool ahead[kLanes];
            above(x.word[i], top[i], ahead, T{});
            top[i] = larger(top[i], x.word[i], T{});
#pragma unroll
            for (int lane = 0; lane < kLanes; lane++) {
                at[i * kLanes + lane] = ahead[lane] ? number : at[i * kLanes + lane];
            }
        }
    }

    __device__ float key(int lane) const
    {
        return lane_value<T>(top[lane / kLanes], lane % kLanes);
    }
};

} // namespace aicf::reduce

#endif
