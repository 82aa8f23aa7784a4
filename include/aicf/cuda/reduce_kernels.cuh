// The device's part of aicf/cuda/reduce.cuh, which says what there is and when.
#ifndef AICF_CUDA_REDUCE_KERNELS_CUH
#define AICF_CUDA_REDUCE_KERNELS_CUH

#include <aicf/cuda/launch.cuh>
#include <aicf/cuda/numeric.cuh>

namespace aicf::reduce {

constexpr int kBlock = 256;
constexpr int kWarp = 32;
constexpr int kUnroll = 4; // independent loads of a thread before the first sum

// Innermost dim first; sizes above 1; rank 0 is one element.
struct dims {
    int rank;
    int64_t sizes[AICF_MAX_RANK];
    int64_t strides[AICF_MAX_RANK];
};

// ---- indexes ------------------------------------------------------------------------------------

// A dims in units of a pack of elements of its innermost dim, for the device. Where all indexes are
// below 2^31, dividers are used; else the 64-bit sizes.
struct walk {
    int rank;
    bool narrow;
    divider dividers[AICF_MAX_RANK];
    int64_t sizes[AICF_MAX_RANK];
    int64_t strides[AICF_MAX_RANK]; // in elements of x
};

inline walk
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
    int64_t stride;

    __device__ int64_t operator()(int64_t i) const
    {
        return i * stride;
    }
};

struct narrow_walk {
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

// ---- kernels' parts -----------------------------------------------------------------------------

// Where the sum of out `o` and of split `s` goes: to the workspace, or, of the only split, to out.
struct destination {
    void *out;
    float *partial; // NULL: to out
    int64_t outs;

    template <typename T> __device__ void store(int64_t split, int64_t o, float sum) const
    {
        if (partial) {
            partial[split * outs + o] = sum;
        } else {
            static_cast<T *>(out)[o] = of_f32<T>(sum);
        }
    }
};

// Split s of n units is [s * share, min(n, (s + 1) * share)).
struct cut {
    int64_t splits, share;
};

// A multiple of `grain` units a split; fewer splits if that leaves some empty.
inline cut
cut_of(int64_t units, int64_t splits, int64_t grain)
{
    int64_t share = units == 0 ? grain : ceil_div(ceil_div(units, splits), grain) * grain;
    return {units == 0 ? 1 : ceil_div(units, share), share};
}

// What a thread holds of a unit between its load and its use: 16 bytes, or one element.
template <typename T, int kSize> struct unit {
    static_assert(kSize == kPackSize<T>, "a pack or an element");
    words held;

    __device__ void load(const T *p)
    {
        held = load_words(p);
    }

    __device__ void unpack(float (&x)[kSize]) const
    {
        aicf::unpack(held, x, T{});
    }
};

template <typename T> struct unit<T, 1> {
    T held;

    __device__ void load(const T *p)
    {
        held = *p;
    }

    __device__ void unpack(float (&x)[1]) const
    {
        x[0] = to_f32(held);
    }
};

// Calls add(i, floats of unit i) for i from `begin` on, every `step`-th up to `end`, kUnroll loads
// ahead.
template <typename T, int kSize, typename Offsets, typename Add>
__device__ inline void
for_units(const T *x, Offsets offsets, int64_t begin, int64_t end, int step, Add add)
{
    int64_t i = begin;
    float y[kSize];
    for (; i + (kUnroll - 1) * step < end; i += int64_t{kUnroll} * step) {
        unit<T, kSize> held[kUnroll];
#pragma unroll
        for (int u = 0; u < kUnroll; u++) {
            held[u].load(x + offsets(i + u * step));
        }
#pragma unroll
        for (int u = 0; u < kUnroll; u++) {
            held[u].unpack(y);
            add(u, y);
        }
    }
#pragma unroll 1
    for (; i < end; i += step) {
        unit<T, kSize> held;
        held.load(x + offsets(i));
        held.unpack(y);
        add(0, y);
    }
}

// Sum over groups of `width` neighbouring lanes, a power of two; every lane of a group has it.
__device__ inline float
lanes_sum(float x, int width)
{
    for (int distance = width / 2; distance > 0; distance /= 2) {
        x += __shfl_xor_sync(0xffffffff, x, distance);
    }
    return x;
}

// Sum over the block; thread 0 has it.
__device__ inline float
block_sum(float x)
{
    __shared__ float warps[kBlock / kWarp];
    x = lanes_sum(x, kWarp);
    if (threadIdx.x % kWarp == 0) {
        warps[threadIdx.x / kWarp] = x;
    }
    __syncthreads();
    if (threadIdx.x < kWarp) {
        x = threadIdx.x < kBlock / kWarp ? warps[threadIdx.x] : 0.0f;
        x = lanes_sum(x, kBlock / kWarp);
    }
    return x;
}

// ---- rows ---------------------------------------------------------------------------------------

struct row_operands {
    const void *x;
    destination to;
    walk kept, reduced; // reduced in units of packs
    cut split;
    int64_t units; // packs a sum
    int64_t work;  // outs * splits
    int team;      // threads a sum: a power of two up to a warp, or the block
    bool peel;     // one reduced dim of unit stride at any address: units are elements
};

template <int kSize>
__device__ inline float
lanes_of(const float (&x)[kSize])
{
    float sum = x[0];
#pragma unroll
    for (int lane = 1; lane < kSize; lane++) {
        sum += x[lane];
    }
    return sum;
}

// The units [begin, end) of one row, every `team`-th from `begin + rank` on.
template <int kSize, typename T, typename Offsets>
__device__ inline float
units_sum(const T *row, Offsets offsets, int64_t begin, int64_t end, int rank, int team)
{
    float sum[kUnroll] = {};
    for_units<T, kSize>(row, offsets, begin + rank, end, team, [&](int u, const float(&x)[kSize]) {
        sum[u] += lanes_of(x);
    });
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

// The elements [begin, end) of one row of unit stride: packs between a peeled head and tail.
template <typename T>
__device__ inline float
peeled_sum(const T *row, int64_t begin, int64_t end, int rank, int team)
{
    constexpr int kSize = kPackSize<T>;
    const T *p = row + begin;
    int64_t n = end - begin;
    int64_t past = static_cast<int64_t>(reinterpret_cast<uintptr_t>(p) % kPackBytes);
    int64_t head = past == 0 ? 0 : (kPackBytes - past) / static_cast<int64_t>(sizeof(T));
    head = head < n ? head : n;
    int64_t packs = (n - head) / kSize;
    int64_t tail = head + packs * kSize;

    float sum = units_sum<kSize>(p + head, straight{kSize}, 0, packs, rank, team);
    for (int64_t i = rank; i < head; i += team) {
        sum += to_f32(p[i]);
    }
    for (int64_t i = tail + rank; i < n; i += team) {
        sum += to_f32(p[i]);
    }
    return sum;
}

template <typename T, int kSize>
__device__ inline void
rows_body(const row_operands &p)
{
    int64_t teams = kBlock / p.team;
    int64_t job = blockIdx.x * teams + threadIdx.x / p.team;
    int rank = static_cast<int>(threadIdx.x) % p.team;
    bool mine = job < p.work; // lanes without a job take part in the shuffles
    int64_t split = mine ? job % p.split.splits : 0;
    int64_t o = mine ? job / p.split.splits : 0;

    const T *row = static_cast<const T *>(p.x) + offset_of(p.kept, o);
    int64_t begin = split * p.split.share;
    int64_t end = begin + p.split.share < p.units ? begin + p.split.share : p.units;
    end = mine ? end : begin;

    float sum = 0.0f;
    bool peel = false;
    if constexpr (kSize == 1) {
        peel = p.peel;
        if (peel) {
            sum = peeled_sum(row, begin, end, rank, p.team);
        }
    }
    if (!peel) {
        with_offsets(p.reduced, [&](auto offsets) {
            sum = units_sum<kSize>(row, offsets, begin, end, rank, p.team);
        });
    }

    sum = p.team == kBlock ? block_sum(sum) : lanes_sum(sum, p.team);
    if (mine && rank == 0) {
        p.to.store<T>(split, o, sum);
    }
}

// ---- columns ------------------------------------------------------------------------------------

struct column_operands {
    const void *x;
    destination to;
    walk kept, reduced; // kept in units of packs
    cut split;
    int64_t units;  // packs over all outs
    int64_t length; // reduced elements
    int64_t column_blocks;
    int width; // threads along the kept units, a power of two up to a warp; the rest take turns
};

template <typename X, typename T, int kSize>
__device__ inline void
columns_body(const column_operands &p)
{
    __shared__ float sums[kBlock * kSize];
    int height = kBlock / p.width;
    int column = static_cast<int>(threadIdx.x) % p.width;
    int row = static_cast<int>(threadIdx.x) / p.width;
    int64_t mine = blockIdx.x % p.column_blocks * p.width + column;
    int64_t split = blockIdx.x / p.column_blocks;
    int64_t end = (split + 1) * p.split.share < p.length ? (split + 1) * p.split.share : p.length;

    float sum[kSize] = {};
    if (mine < p.units) {
        const X *x = static_cast<const X *>(p.x) + offset_of(p.kept, mine);
        with_offsets(p.reduced, [&](auto offsets) {
            for_units<X, kSize>(
                x, offsets, split * p.split.share + row, end, height,
                [&](int, const float(&y)[kSize]) {
#pragma unroll
                    for (int lane = 0; lane < kSize; lane++) {
                        sum[lane] += y[lane];
                    }
                });
        });
    }

    // Lane l of thread t lies at l * kBlock + t: neighbours in different banks.
#pragma unroll
    for (int lane = 0; lane < kSize; lane++) {
        sums[lane * kBlock + threadIdx.x] = sum[lane];
    }
    for (int half = height / 2; half > 0; half /= 2) {
        __syncthreads();
        if (row < half) {
#pragma unroll
            for (int lane = 0; lane < kSize; lane++) {
                int at = lane * kBlock + static_cast<int>(threadIdx.x);
                sums[at] += sums[at + half * p.width];
            }
        }
    }
    if (row == 0 && mine < p.units) {
#pragma unroll
        for (int lane = 0; lane < kSize; lane++) {
            p.to.store<T>(split, mine * kSize + lane, sums[lane * kBlock + threadIdx.x]);
        }
    }
}

} // namespace aicf::reduce

#endif
