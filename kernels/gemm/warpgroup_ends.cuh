// What follows the products of a tile made by warpgroups (warpgroups.cuh): alpha, c, the bias, the
// activation, and the way of the results to the out.
#ifndef AICF_GEMM_WARPGROUP_ENDS_CUH
#define AICF_GEMM_WARPGROUP_ENDS_CUH

#include "warpgroup_tiles.cuh"

#include <aicf/cuda/activation.cuh>

namespace aicf::gemm {

// The bias of a tile's columns, spread over each warp: word i of lane l has columns 64 i + 2 l and
// the next. Asked for before the tile's products, and where pairs lie on 4 bytes as the words they
// are: nothing waits for it until the products are over.
template <class S, typename T> struct bias_words {
    uint32_t word[S::kPanels];

    __device__ void load(const plan &p, int column)
    {
        const T *bias = static_cast<const T *>(p.bias);
        bool pairs = reinterpret_cast<uintptr_t>(bias) % 4 == 0 && p.n % 2 == 0;
#pragma unroll
        for (int i = 0; i < S::kPanels; i++) {
            int n = column + i * kPanel + static_cast<int>(threadIdx.x) % 32 * 2;
            word[i] = 0;
            if (pairs && n < p.n) {
                word[i] = *reinterpret_cast<const uint32_t *>(bias + n);
            } else if (n < p.n) {
                word[i] = pair_of(to_f32(bias[n]), n + 1 < p.n ? to_f32(bias[n + 1]) : 0.0f, T{});
            }
        }
    }

    // The two columns of this thread's sums in the 8 columns of `block`.
    __device__ float2 of(int block) const
    {
        int lane = block % 8 * 4 + static_cast<int>(threadIdx.x) % 4;
        return of_pair(__shfl_sync(0xffffffff, word[block / 8], lane), T{});
    }
};

// Two neighbours of c, of which `inside` exist.
template <typename T>
__device__ inline float2
load_c(const T *c, int inside, bool pairs)
{
    if (pairs) { // on 4 bytes, and of an even N
        return of_pair(inside > 0 ? *reinterpret_cast<const uint32_t *>(c) : 0, T{});
    }
    return {inside > 0 ? to_f32(c[0]) : 0.0f, inside > 1 ? to_f32(c[1]) : 0.0f};
}

// sums += beta * c.
template <class S, typename T>
__device__ inline void
add_c(float (&sums)[S::kSums], const plan &p, const corner &at, int consumer)
{
    int m = at.m + consumer * kConsumerRows + row_of_sums(), n = at.n + column_of_sums();
    const T *c = static_cast<const T *>(p.c) + at.matrix * p.c_step + m * p.c_pitch + n;
#pragma unroll
    for (int half = 0; half < 2; half++, c += 8 * p.c_pitch) {
        int inside = m + 8 * half < p.m ? p.n - n : 0;
#pragma unroll
        for (int block = 0; block < S::kCols / 8; block++) {
            float2 x = load_c(c + 8 * block, inside - 8 * block, p.c_pairs);
            sums[4 * block + 2 * half] += p.beta * x.x;
            sums[4 * block + 2 * half + 1] += p.beta * x.y;
        }
    }
}

// All that follows the products but relu, and rounding: packed[i] holds sums[2 i] and sums[2 i +
// 1], neighbours in a row.
template <class S, typename T>
__device__ inline void
finish(
    uint32_t (&packed)[S::kSums / 2], float (&sums)[S::kSums], const bias_words<S, T> &bias,
    const plan &p, const corner &at, int consumer)
{
    if (p.alpha != 1.0f) {
#pragma unroll
        for (int i = 0; i < S::kSums; i++) {
            sums[i] *= p.alpha;
        }
    }
    if (p.c) {
        add_c<S, T>(sums, p, at, consumer);
    }
    if (p.bias && !p.bias_row) {
#pragma unroll
        for (int block = 0; block < S::kCols / 8; block++) {
            float2 x = bias.of(block);
            sums[block * 4] += x.x;
            sums[block * 4 + 1] += x.y;
            sums[block * 4 + 2] += x.x;
            sums[block * 4 + 3] += x.y;
        }
    }
    if (p.act == AICF_GEMM_ACT_GELU) {
#pragma unroll
        for (int i = 0; i < S::kSums; i++) {
            sums[i] = gelu_of<kQuick<T>>(sums[i]);
        }
    }
#pragma unroll
    for (int i = 0; i < S::kSums / 2; i++) {
        packed[i] = pair_of(sums[2 * i], sums[2 * i + 1], T{});
    }
}

// The relu of a panel's words, of rounded values, which is the same: where it hides behind
// products.
template <typename T>
__device__ inline void
relu_words(uint32_t *packed)
{
#pragma unroll
    for (int i = 0; i < kPanel / 4; i++) {
        packed[i] = relu_pair(packed[i], T{});
    }
}

// The tile before the present one, on its way out: panels from `next` on are not stored yet.
template <class S, typename T> struct late_store {
    uint32_t packed[S::kSums / 2];
    corner at = {};
    int next = S::kPanels;

    __device__ void
    store_next(const shared_memory<S> &shared, const CUtensorMap *out, const plan &p, int consumer)
    {
#pragma unroll
        for (int panel = 0; panel < S::kPanels; panel++) { // so that `packed` stays in registers
            if (panel == next) {
                if (p.act == AICF_GEMM_ACT_RELU) {
                    relu_words<T>(packed + panel * (kPanel / 4));
                }
                store_panel<S::kOutPanels - 1>(
                    packed + panel * (kPanel / 4), shared.out(consumer, panel), out,
                    at.n + panel * kPanel, at.m + consumer * kConsumerRows, at.matrix,
                    1 + consumer);
            }
        }
        next++;
    }
};

} // namespace aicf::gemm

#endif
