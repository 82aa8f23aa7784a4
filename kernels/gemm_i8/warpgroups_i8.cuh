// What gemm_i8 and conv2d_i8 share by warpgroups of sm_90a: gemm's stages and producer
// (../gemm/warpgroups.cuh), which see 128 bytes of k as 64 pairs, and consumers that multiply bytes
// and requantise (aicf/requant.h).
//
// A consumer stores its sums from registers: the two neighbours that a thread holds of a row, and
// with its quad whole sectors of 32-bit outs. Consumers wait for stages alone, not for each other,
// so that one's stores run under another's products.
#ifndef AICF_GEMM_I8_WARPGROUPS_CUH
#define AICF_GEMM_I8_WARPGROUPS_CUH

#include <aicf/cuda/ptx_i8_sm_90a.cuh>
#include <aicf/cuda/requant.cuh>

#include "../gemm/warpgroups.cuh"

namespace aicf::i8 {

using namespace aicf::wgmma;

// Where outs go: rows of `n` columns. A row of the product is a row of them.
struct outs {
    void *data;
    int64_t pitch;
    bool pairs;        // columns 2 i and 2 i + 1 are aligned as one word of their bytes
    bool eights;       // columns 8 i to 8 i + 7 are, and are bytes
    bool plain;        // the sums are the outs
    const int *shifts; // NULL: none
    aicf_requant requant;
};

inline outs
outs_of(void *data, int64_t pitch, int64_t columns, const int *shifts, const aicf_requant &r)
{
    unsigned bytes = static_cast<unsigned>(bytes_of(r.kind));
    uint64_t places = reinterpret_cast<uintptr_t>(data) | static_cast<uint64_t>(pitch) * bytes;
    bool pairs = columns % 2 == 0 && places % (2 * bytes) == 0;
    bool eights = bytes == 1 && columns % 8 == 0 && places % 8 == 0;
    return {data, pitch, pairs, eights, !shifts && aicf_requant_plain(&r), shifts, r};
}

constexpr int kMostQuickZero = 1 << 20;

// ---- products -----------------------------------------------------------------------------------

// As multiply_slab of wgmma.cuh.
template <typename Pair, int kSums>
__device__ inline void
multiply_slab(int (&sums)[kSums], uint32_t a, uint32_t b, bool first)
{
    uint64_t from_a = descriptor_of(a), from_b = descriptor_of(b);
    ptx::wgmma_fence();
#pragma unroll
    for (int k = 0; k < kDepth / kStepK; k++) {
        ptx::wgmma(
            sums, from_a + k * kNext16<false>, from_b + k * kNext16<false>, !first || k > 0,
            Pair{});
    }
    ptx::wgmma_commit();
}

// As multiply of ../gemm/warpgroups.cuh.
template <class S, typename Pair>
__device__ inline void
multiply(
    int (&sums)[S::kSums], const gemm::shared_memory<S> &shared, ring<S::kStages> &place,
    int consumer, int slabs)
{
    uint32_t before = 0;
    for (int slab = 0; slab < slabs; slab++, place.next()) {
        ptx::barrier_wait(shared.barriers().full(place.stage), place.parity);
        multiply_slab<Pair>(
            sums, shared.a(place.stage) + consumer * kPanelBytes, shared.b(place.stage), slab == 0);
        ptx::wgmma_wait<1>();
        if (slab > 0) {
            release_stage<S::kShare>(before);
        }
        before = shared.barriers().empty(place.stage);
    }
    ptx::wgmma_wait<0>();
    release_stage<S::kShare>(before);
}

// ---- outs ---------------------------------------------------------------------------------------

// The tile's columns in shared memory. `quick` is what store_bytes needs of one.
struct alignas(16) held_column {
    column of;
};
struct alignas(8) quick_column {
    int offset;
    float scale;
};

// A consumer's own, in the room of its out panel.
template <class S> struct held_columns {
    held_column held[S::kCols];
    quick_column quick[S::kCols];
};

template <class S>
__device__ inline held_columns<S> &
columns_of(uint8_t *shared, int consumer)
{
    static_assert(sizeof(held_columns<S>) <= S::kOutPanels * kPanelBytes, "room");
    return *reinterpret_cast<held_columns<S> *>(
        shared + S::kOutAt + consumer * S::kOutPanels * kPanelBytes);
}

// Whether no step of a byte out's way saturates in 32 bits or is NaN, in any column of this
// thread's: a sum of `slabs` and its bias do not, the zero is small and the scale finite.
template <class S>
__device__ inline bool
load_columns(held_columns<S> &columns, const outs &to, int first, int n, int slabs)
{
    constexpr int64_t kLargest = 255 * 128;
    const aicf_requant &r = to.requant;
    int64_t room = INT32_MAX - slabs * kLineBytes * kLargest;
    int zero = r.out_zero ? *r.out_zero : 0;
    bool quick = r.kind == AICF_I8 || r.kind == AICF_U8;
    quick = quick && to.eights && zero >= -kMostQuickZero && zero <= kMostQuickZero &&
            (r.field_scale || r.factor_scale || r.out_scale);
    for (int i = static_cast<int>(threadIdx.x) % kWarpgroup; i < S::kCols; i += kWarpgroup) {
        if (first + i < n) {
            column c = column_of(r, first + i, to.shifts ? to.shifts[first + i] : 0);
            columns.held[i].of = c;
            columns.quick[i] = {subtract_wrapping(c.bias, c.shift), c.scale};
            int64_t bias = c.bias;
            quick = quick && (bias < 0 ? -bias : bias) <= room && isfinite(c.scale);
        }
    }
    return quick;
}

// Two neighbours at `at`, of which `inside` exist.
__device__ inline void
store_pair(const outs &to, int64_t at, int inside, word x, word y)
{
    aicf_dtype kind = to.requant.kind;
    if (!to.pairs || inside < 2) {
        if (inside > 0) {
            store(kind, to.data, at, x);
        }
        if (inside > 1) {
            store(kind, to.data, at + 1, y);
        }
        return;
    }
    switch (kind) {
    case AICF_I8:
    case AICF_U8:
        *reinterpret_cast<uint16_t *>(static_cast<uint8_t *>(to.data) + at) =
            static_cast<uint16_t>(__byte_perm(x, y, 0x0040));
        break;
    case AICF_F16:
        *reinterpret_cast<uint32_t *>(static_cast<uint16_t *>(to.data) + at) =
            pair_of(__uint_as_float(x), __uint_as_float(y), __half{});
        break;
    case AICF_BF16:
        *reinterpret_cast<uint32_t *>(static_cast<uint16_t *>(to.data) + at) =
            pair_of(__uint_as_float(x), __uint_as_float(y), __nv_bfloat16{});
        break;
    default:
        *reinterpret_cast<uint2 *>(static_cast<uint32_t *>(to.data) + at) = make_uint2(x, y);
        break;
    }
}

// The sums as they are, into rows from `m` on.
template <class S>
__device__ inline void
store_sums(const int (&sums)[S::kSums], const outs &to, int m, int n, int rows, int columns)
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        if (m + 8 * half >= rows) {
            continue;
        }
        uint32_t *out = static_cast<uint32_t *>(to.data) + (m + 8 * half) * to.pitch + n;
#pragma unroll
        for (int block = 0; block < S::kCols / 8; block++) {
            int x = sums[4 * block + 2 * half], y = sums[4 * block + 2 * half + 1];
            int inside = columns - n - 8 * block;
            if (to.pairs && inside > 0) {
                *reinterpret_cast<int2 *>(out + 8 * block) = make_int2(x, y);
                continue;
            }
            if (inside > 0) {
                out[8 * block] = static_cast<uint32_t>(x);
            }
            if (inside > 1) {
                out[8 * block + 1] = static_cast<uint32_t>(y);
            }
        }
    }
}

// And requantised; `held` are the columns from `n` on.
template <class S>
__device__ inline void
store_requantised(
    const int (&sums)[S::kSums], const held_column *held, const outs &to, int m, int n, int rows,
    int columns)
{
    epilogue e(to.requant);
    int64_t at = m * to.pitch + n;
#pragma unroll
    for (int block = 0; block < S::kCols / 8; block++) {
        held_column low = held[8 * block], high = held[8 * block + 1];
        int inside = columns - n - 8 * block;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            word x = finish(e, low.of, sums[4 * block + 2 * half]);
            word y = finish(e, high.of, sums[4 * block + 2 * half + 1]);
            if (m + 8 * half < rows) {
                store_pair(to, at + 8 * half * to.pitch + 8 * block, inside, x, y);
            }
        }
    }
}

// Thread t of a quad has two neighbours of each of four blocks, a half of a word each, and gets the
// eight neighbours of block t.
__device__ inline uint2
turn_quad(uint32_t low, uint32_t high)
{
    bool odd = threadIdx.x & 1, upper = threadIdx.x & 2;
    uint32_t keep = upper ? high : low;
    uint32_t given = __shfl_xor_sync(0xffffffff, upper ? low : high, 2);
    uint32_t mine = __byte_perm(keep, given, odd ? 0x7632 : 0x5410);
    uint32_t other = __byte_perm(keep, given, odd ? 0x5410 : 0x7632);
    given = __shfl_xor_sync(0xffffffff, other, 1);
    uint32_t nearer = odd ? 0x1054 : 0x5410, further = odd ? 0x3276 : 0x7632;
    return {
        __byte_perm(mine, given, upper ? further : nearer),
        __byte_perm(mine, given, upper ? nearer : further)};
}

// store_requantised of bytes where load_columns says so: a few instructions an out, and words of
// eight. To what lies between -2^22 and 2^22, 1.5 * 2^23 is added: the sum rounds to a whole
// number, half to even, whose lowest byte is the float's. Bounds are whole, so clamping comes
// first.
template <class S>
__device__ inline void
store_bytes(
    const int (&sums)[S::kSums], const quick_column *quick, const outs &to, int m, int n, int rows,
    int columns)
{
    constexpr float kWhole = 12582912.0f;
    epilogue e(to.requant);
    float low = static_cast<float>(e.low - e.zero), high = static_cast<float>(e.high - e.zero);
    low = e.relu ? fmaxf(low, 0.0f) : low;
    int quad = static_cast<int>(threadIdx.x) % 4;
    uint8_t *out = static_cast<uint8_t *>(to.data) + m * to.pitch + n + 8 * quad;
    auto byte_of = [&](int sum, const quick_column &c) {
        int q = static_cast<int>(static_cast<uint32_t>(sum) + static_cast<uint32_t>(c.offset));
        float y = fminf(fmaxf(__fmul_rn(static_cast<float>(q), c.scale), low), high);
        return __float_as_uint(__fadd_rn(y, kWhole)) + static_cast<uint32_t>(e.zero);
    };
#pragma unroll
    for (int group = 0; group < S::kCols / 32; group++) {
        uint32_t pairs[2][4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int block = 4 * group + i;
            int4 two = *reinterpret_cast<const int4 *>(quick + 8 * block + 2 * quad);
            quick_column left = {two.x, __int_as_float(two.y)};
            quick_column right = {two.z, __int_as_float(two.w)};
#pragma unroll
            for (int half = 0; half < 2; half++) {
                pairs[half][i] = __byte_perm(
                    byte_of(sums[4 * block + 2 * half], left),
                    byte_of(sums[4 * block + 2 * half + 1], right), 0x0040);
            }
        }
#pragma unroll
        for (int half = 0; half < 2; half++) {
            uint2 eight = turn_quad(
                __byte_perm(pairs[half][0], pairs[half][1], 0x5410),
                __byte_perm(pairs[half][2], pairs[half][3], 0x5410));
            if (m + 8 * half < rows && n + 32 * group + 8 * quad < columns) {
                *reinterpret_cast<uint2 *>(out + 8 * half * to.pitch + 32 * group) = eight;
            }
        }
    }
}

// One warpgroup: 64 rows of all of this block's tiles.
template <class S, typename Pair>
__device__ inline void
consume(
    const gemm::shared_memory<S> &shared, uint8_t *bytes, const gemm::plan &p, const outs &to,
    int consumer, int rank)
{
    held_columns<S> &columns = columns_of<S>(bytes, consumer);
    ring<S::kStages> place;
    int clusters = static_cast<int>(gridDim.x) / S::kCluster;
    for (int i = static_cast<int>(blockIdx.x) / S::kCluster; i < p.tiles; i += clusters) {
        gemm::corner at = gemm::corner_of<S>(p, i, rank);
        int m = at.m + consumer * kConsumerRows + row_of_sums(), n = at.n + column_of_sums();
        bool quick = !to.plain && load_columns(columns, to, at.n, p.n, p.slabs);
        int sums[S::kSums];
        multiply<S, Pair>(sums, shared, place, consumer, p.slabs);
        if (to.plain) {
            store_sums<S>(sums, to, m, n, p.m, p.n);
            continue;
        }
        if (ptx::threads_agree(1 + consumer, kWarpgroup, quick)) { // the columns are there
            store_bytes<S>(sums, columns.quick, to, m, at.n, p.m, p.n);
        } else {
            store_requantised<S>(sums, columns.held + column_of_sums(), to, m, n, p.m, p.n);
        }
        ptx::threads_meet(1 + consumer, kWarpgroup); // and the next tile's may come
    }
}

} // namespace aicf::i8

#endif
