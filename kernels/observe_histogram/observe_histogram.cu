// hist[bin of x] += 1 (cuda): x without gaps in any order, f32, f16 and bf16, the bin computed in
// f32; lo and hi are host numbers or the f32 at device addresses. What lies outside goes to the end
// bins, NaN to none. Counts are integers, so that their order does not matter.
//   shared: a block counts in shared memory, where there is room in several copies, so that lanes
//     of a warp that meet in one bin do not wait for each other; then adds to hist what is not 0
//   global: more bins than that: straight into hist
// Bound by bytes or, of few bins or 16-bit x, by the additions in shared memory.
#include <aicf_ops/observe_histogram.h>

#include <aicf/cuda/launch.cuh>
#include <aicf/cuda/numeric.cuh>

namespace aicf::observe_histogram {

constexpr int kBlock = 512;
constexpr int kUnroll = 4;             // packs of a thread on their way at once
constexpr int kCounters = 8192;        // of 32 bits in a block's shared memory; the row says so too
constexpr int kMostCopies = 32;        // one a lane
constexpr int64_t kEnoughBlocks = 528; // fill the largest machines at 4 a multiprocessor
constexpr int64_t kMostShare = 1 << 30; // elements a block, which 32 bits count

struct end {
    const float *device; // NULL: `host`
    float host;

    __device__ float value() const
    {
        return device ? *device : host;
    }
};

template <typename T> struct operands {
    const T *x;
    unsigned long long *hist;
    int64_t head, n, share; // share: packs a block
    int bins, shift;        // 2^shift copies of each counter
    end lo, hi;
};

// Both ends are halved, so that a range of all finite numbers has a width.
struct scale {
    float low, step, top;

    __device__ scale(const end &lo, const end &hi, int bins)
    {
        low = 0.5f * lo.value();
        top = static_cast<float>(bins);
        step = top / (0.5f * hi.value() - low);
    }

    // The whole part of this is the bin; NaN has one behind the others, which is not read.
    __device__ float place(float x) const
    {
        float at = fminf(fmaxf((0.5f * x - low) * step, 0.0f), top - 1.0f);
        return isnan(x) ? top : at;
    }
};

// ---- counters -----------------------------------------------------------------------------------

// Copy c of a bin is counter (bin << shift) + c.
struct in_block {
    unsigned *counters; // of the thread's copy
    int shift;

    // Adding 2^23 leaves the whole part in the lower bits, faster than a conversion.
    __device__ void add(float place) const
    {
        unsigned bin = __float_as_uint(__fadd_rz(place, 8388608.0f)) & 0x7fffff;
        atomicAdd(counters + (bin << shift), 1U);
    }
};

struct in_hist {
    unsigned long long *hist;
    int bins;

    __device__ void add(float place) const
    {
        int bin = static_cast<int>(place);
        if (bin < bins) {
            atomicAdd(hist + bin, 1ULL);
        }
    }
};

template <typename T, typename Counters>
__device__ inline void
count_words(const scale &s, const Counters &to, const words &held, T type)
{
    float x[kPackSize<T>];
    unpack(held, x, type);
#pragma unroll
    for (int lane = 0; lane < kPackSize<T>; lane++) {
        to.add(s.place(x[lane]));
    }
}

// The block's share of the packs; block 0 does the head and the tail.
template <typename T, typename Counters>
__device__ inline void
count(const operands<T> &p, const Counters &to)
{
    constexpr int kSize = kPackSize<T>;
    scale s(p.lo, p.hi, p.bins);
    int64_t packs = (p.n - p.head) / kSize;
    int64_t first = blockIdx.x * p.share;
    int64_t end = first + p.share < packs ? first + p.share : packs;
    const T *x = p.x + p.head;

    int64_t i = first + threadIdx.x;
    for (; i + (kUnroll - 1) * kBlock < end; i += kUnroll * kBlock) {
        words held[kUnroll];
#pragma unroll
        for (int u = 0; u < kUnroll; u++) {
            held[u] = load_words(x + (i + u * kBlock) * kSize);
        }
#pragma unroll
        for (int u = 0; u < kUnroll; u++) {
            count_words(s, to, held[u], T{});
        }
    }
    for (; i < end; i += kBlock) {
        count_words(s, to, load_words(x + i * kSize), T{});
    }

    if (blockIdx.x == 0) {
        int64_t tail = p.head + packs * kSize + threadIdx.x;
        if (threadIdx.x < p.head) {
            to.add(s.place(to_f32(p.x[threadIdx.x])));
        }
        if (tail < p.n) {
            to.add(s.place(to_f32(p.x[tail])));
        }
    }
}

// ---- kernels ------------------------------------------------------------------------------------

template <typename T>
__global__ void
__launch_bounds__(kBlock) shared(operands<T> p)
{
    __shared__ unsigned counters[kCounters + kMostCopies]; // with those of NaN
    int copies = 1 << p.shift;
    for (int i = threadIdx.x; i < p.bins * copies; i += kBlock) {
        counters[i] = 0;
    }
    __syncthreads();

    count(p, in_block{counters + (threadIdx.x & (copies - 1)), p.shift});
    __syncthreads();

    for (int bin = threadIdx.x; bin < p.bins; bin += kBlock) {
        unsigned long long sum = 0;
        for (int copy = 0; copy < copies; copy++) {
            // From a copy of the thread's own on, so that a warp's reads are of different banks.
            sum += counters[(bin << p.shift) + ((copy + threadIdx.x) & (copies - 1))];
        }
        if (sum != 0) {
            atomicAdd(p.hist + bin, sum);
        }
    }
}

template <typename T>
__global__ void
__launch_bounds__(kBlock) global(operands<T> p)
{
    count(p, in_hist{p.hist, p.bins});
}

template <typename T>
aicf_status
launch(
    void (*kernel)(operands<T>), const T *x, int64_t *hist, int64_t n, int64_t bins,
    const aicf_scalar *lo, const aicf_scalar *hi, aicf_stream stream)
{
    if (n == 0) {
        return aicf_ok();
    }
    operands<T> p = {};
    p.x = x;
    p.hist = reinterpret_cast<unsigned long long *>(hist);
    p.head = head_of(x, n);
    p.n = n;
    p.bins = static_cast<int>(bins);
    while (1 << p.shift < kMostCopies && (bins << (p.shift + 1)) <= kCounters) {
        p.shift++;
    }
    p.lo = {static_cast<const float *>(lo->data), static_cast<float>(lo->host.real)};
    p.hi = {static_cast<const float *>(hi->data), static_cast<float>(hi->host.real)};

    int64_t packs = n / kPackSize<T> + 1;
    int64_t most = ceil_div(packs, kBlock * kUnroll);
    int64_t least = ceil_div(n, kMostShare);
    int64_t blocks = most < kEnoughBlocks ? most : kEnoughBlocks;
    blocks = blocks > least ? blocks : least;
    p.share = ceil_div(packs, blocks);
    return aicf::launch(kernel, static_cast<unsigned>(blocks), kBlock, 0, stream, p);
}

} // namespace aicf::observe_histogram

#define LAUNCHER(kind, T, suffix)                                                                 \
    aicf_status aicf_cuda_observe_histogram_##kind##_##suffix(                                    \
        const T *x, int64_t *hist, int64_t A, int64_t Bins, const aicf_scalar *lo,                \
        const aicf_scalar *hi, aicf_stream stream)                                                \
    {                                                                                             \
        return aicf::observe_histogram::launch(                                                   \
            aicf::observe_histogram::kind<aicf::device_t<T>>, aicf::device(x), hist, A, Bins, lo, \
            hi, stream);                                                                          \
    }

#define LAUNCHERS(T, suffix)    \
    LAUNCHER(shared, T, suffix) \
    LAUNCHER(global, T, suffix)

LAUNCHERS(float, f32)
LAUNCHERS(aicf_f16, f16)
LAUNCHERS(aicf_bf16, bf16)
