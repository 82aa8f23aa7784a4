// Problems on the host: their batch dims, merged and ordered for maps that have one.
#ifndef AICF_GEMM_BATCHES_CUH
#define AICF_GEMM_BATCHES_CUH

#include "gemm.cuh"

#include <utility>

namespace aicf::gemm {

using halves = problem<uint16_t>; // bits: the host plans once for f16 and bf16

inline halves
halves_of(
    const aicf_view *a, const aicf_view *b, const void *bias, const aicf_view *c,
    const aicf_view *out, int64_t M, int64_t K, int64_t N, double alpha, double beta,
    aicf_gemm_act act)
{
    return problem_of(a, b, static_cast<const uint16_t *>(bias), c, out, M, K, N, alpha, beta, act);
}

// `by` matrices further along a batch dim.
template <typename T>
void
advance(problem<T> &p, int dim, int64_t by)
{
    p.a += by * p.a_batch[dim];
    p.b += by * p.b_batch[dim];
    p.c += p.c ? by * p.c_batch[dim] : 0;
    p.out += by * p.out_batch[dim];
}

// Batch dim `from` of p as dim `to`.
template <typename T>
void
move_batch(problem<T> &p, int from, int to)
{
    p.batch_sizes[to] = p.batch_sizes[from];
    p.a_batch[to] = p.a_batch[from];
    p.b_batch[to] = p.b_batch[from];
    p.c_batch[to] = p.c_batch[from];
    p.out_batch[to] = p.out_batch[from];
}

template <typename T>
bool
continues(const problem<T> &p, int inner, int outer)
{
    int64_t size = p.batch_sizes[inner];
    return p.a_batch[outer] == p.a_batch[inner] * size &&
           p.b_batch[outer] == p.b_batch[inner] * size &&
           p.c_batch[outer] == p.c_batch[inner] * size &&
           p.out_batch[outer] == p.out_batch[inner] * size;
}

// Dims of one matrix go; neighbours that all operands walk as one dim become one.
template <typename T>
void
merge_batches(problem<T> &p)
{
    int rank = 0;
    for (int dim = 0; dim < p.batch_rank; dim++) {
        if (p.batch_sizes[dim] == 1) {
            continue;
        }
        move_batch(p, dim, rank);
        if (rank > 0 && continues(p, rank - 1, rank)) {
            p.batch_sizes[rank - 1] *= p.batch_sizes[rank];
        } else {
            rank++;
        }
    }
    p.batch_rank = rank;
}

// The dim that the maps have is dim 0 after this: the longest that no operand walks backwards.
template <typename T>
void
choose_mapped(problem<T> &p)
{
    int best = -1;
    for (int dim = 0; dim < p.batch_rank; dim++) {
        bool forwards = p.a_batch[dim] >= 0 && p.b_batch[dim] >= 0 && p.out_batch[dim] > 0;
        if (forwards && (best < 0 || p.batch_sizes[dim] > p.batch_sizes[best])) {
            best = dim;
        }
    }
    if (best < 0) { // a dim of one matrix, before the others
        for (int dim = p.batch_rank++; dim > 0; dim--) {
            move_batch(p, dim - 1, dim);
        }
        p.batch_sizes[0] = 1;
        p.a_batch[0] = p.b_batch[0] = p.c_batch[0] = p.out_batch[0] = 0;
        return;
    }
    std::swap(p.batch_sizes[0], p.batch_sizes[best]);
    std::swap(p.a_batch[0], p.a_batch[best]);
    std::swap(p.b_batch[0], p.b_batch[best]);
    std::swap(p.c_batch[0], p.c_batch[best]);
    std::swap(p.out_batch[0], p.out_batch[best]);
}

} // namespace aicf::gemm

#endif
