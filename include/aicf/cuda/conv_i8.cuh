// Convolutions of 8-bit integers, and products of matrices as such (see aicf/product.h), without
// matrix units and of any strides; exact. See conv.cuh for the two matrices and requant.h for what
// becomes of their sums.
//
// A block makes a tile of the out from slabs of 64 k in shared memory, as words of four k, k
// outermost. Outside of the field is its zero, so that each column owes the same: that zero times
// the sum of its factors, which are added up on the way. Bound by dp4a where lines lie along k.
#ifndef AICF_CUDA_CONV_I8_CUH
#define AICF_CUDA_CONV_I8_CUH

#include <aicf/cuda/conv.cuh>
#include <aicf/cuda/ptx_i8.cuh>
#include <aicf/cuda/requant.cuh>

namespace aicf::AICF_OP {

using namespace i8;
using namespace conv;

constexpr int kThreads = 256;
constexpr int kTile = 64;  // rows, and columns
constexpr int kWords = 16; // of four k, in a slab
constexpr int kSlab = 4 * kWords;
constexpr int kShare = 4; // rows, and columns, of a thread
constexpr int kPad = 4;   // words: rows stay on 16 bytes, and fewer of them start in one bank
constexpr int kLoads = kTile * kWords / kThreads;
static_assert(kTile / kShare * (kTile / kShare) == kThreads, "every thread has its outs");

using places = problem<int8_t>; // of either sign

// Where an index of k is, in the field and in the factor.
struct tap {
    int64_t field, factor;
    int y, x; // y: kNowhere beyond the last k
};

struct slabs {
    uint32_t field[kWords][kTile + kPad], factor[kWords][kTile + kPad];
    tap taps[kSlab];
};

// How four neighbours along k are read: by one word where `*_words`, else byte by byte.
// `*_along_k`: the threads of a warp follow k, else rows or columns.
struct reading {
    bool field_words, factor_words, field_along_k, factor_along_k;
};

struct spot_in_tile {
    int line, group;
};

__device__ inline spot_in_tile
spot_of(int load, bool along_k)
{
    int i = static_cast<int>(threadIdx.x) + load * kThreads;
    return along_k ? spot_in_tile{i / kWords, i % kWords} : spot_in_tile{i % kTile, i / kTile};
}

__device__ inline void
find_taps(const places &p, int64_t k, slabs &s)
{
    int i = static_cast<int>(threadIdx.x);
    if (i < kSlab) {
        tap t = {0, 0, kNowhere, 0};
        if (k + i < p.K) {
            spot at = p.k.find(k + i, t.factor);
            t.field = at.at;
            t.y = at.y;
            t.x = at.x;
        }
        s.taps[i] = t;
    }
}

__device__ inline bool
is_there(const places &p, const spot &m, const tap &k)
{
    int y = static_cast<int>(static_cast<unsigned>(m.y) + static_cast<unsigned>(k.y));
    return static_cast<unsigned>(y) < static_cast<unsigned>(p.rows) &&
           static_cast<unsigned>(m.x + k.x) < static_cast<unsigned>(p.columns);
}

// Four k of one place.
__device__ inline uint32_t
field_word(
    const places &p, const uint8_t *field, const spot &m, const tap *k, bool words, uint32_t zeros)
{
    if (words) {
        return is_there(p, m, *k) ? *reinterpret_cast<const uint32_t *>(field + m.at + k->field)
                                  : zeros;
    }
    uint32_t word = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        uint32_t byte = is_there(p, m, k[i]) ? field[m.at + k[i].field] : zeros & 0xff;
        word |= byte << 8 * i;
    }
    return word;
}

// Four k of one output: zeros beyond the last.
__device__ inline uint32_t
factor_word(const uint8_t *line, const tap *k, bool words)
{
    if (words) {
        return k->y == kNowhere ? 0 : *reinterpret_cast<const uint32_t *>(line + k->factor);
    }
    uint32_t word = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        word |= (k[i].y == kNowhere ? 0u : line[k[i].factor]) << 8 * i;
    }
    return word;
}

template <typename Q>
__device__ inline void
multiply(const slabs &s, int m, int n, bool shifted, int (&sums)[kShare][kShare], int (&of)[kShare])
{
#pragma unroll
    for (int w = 0; w < kWords; w++) {
        pack<uint32_t, kShare> a = load_pack<uint32_t, kShare>(&s.field[w][m]);
        pack<uint32_t, kShare> b = load_pack<uint32_t, kShare>(&s.factor[w][n]);
#pragma unroll
        for (int i = 0; i < kShare; i++) {
#pragma unroll
            for (int j = 0; j < kShare; j++) {
                sums[i][j] = ptx::dp4a(a.lane[i], b.lane[j], sums[i][j], Q{});
            }
        }
        if (shifted) {
#pragma unroll
            for (int j = 0; j < kShare; j++) {
                of[j] = ptx::dp4a(0x01010101, b.lane[j], of[j], Q{});
            }
        }
    }
}

// Q: int8_t or uint8_t, the field's.
template <typename Q>
__global__ void
__launch_bounds__(kThreads) dp4a(
    const __grid_constant__ places p, const __grid_constant__ aicf_requant r,
    const __grid_constant__ reading how)
{
    __shared__ slabs s;
    job j = job_of<kTile, kTile>(p);
    int zero = zero_of(r);
    uint32_t zeros = static_cast<uint32_t>(zero & 0xff) * 0x01010101u;
    const uint8_t *field = reinterpret_cast<const uint8_t *>(p.field) + j.group * p.field_group;
    const uint8_t *factor = reinterpret_cast<const uint8_t *>(p.dense) + j.group * p.dense_group;

    spot place[kLoads];
    const uint8_t *line[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; i++) {
        int64_t m = j.m + spot_of(i, how.field_along_k).line, where;
        int64_t n = j.n + spot_of(i, how.factor_along_k).line;
        place[i] = {0, kNowhere, 0};
        if (m < p.M) {
            place[i] = p.m.find(m, where);
        }
        line[i] = n < p.N ? factor + n * p.dense_n : nullptr;
    }

    int m = static_cast<int>(threadIdx.x) / (kTile / kShare) * kShare;
    int n = static_cast<int>(threadIdx.x) % (kTile / kShare) * kShare;
    int sums[kShare][kShare] = {}, of_factors[kShare] = {};
    for (int64_t k = 0; k < p.K; k += kSlab) {
        find_taps(p, k, s);
        __syncthreads(); // the taps are there, and the slab before has been multiplied
#pragma unroll
        for (int i = 0; i < kLoads; i++) {
            spot_in_tile a = spot_of(i, how.field_along_k), b = spot_of(i, how.factor_along_k);
            s.field[a.group][a.line] =
                field_word(p, field, place[i], s.taps + 4 * a.group, how.field_words, zeros);
            s.factor[b.group][b.line] =
                line[i] ? factor_word(line[i], s.taps + 4 * b.group, how.factor_words) : 0;
        }
        __syncthreads();
        multiply<Q>(s, m, n, r.field_zero != nullptr, sums, of_factors);
    }

    epilogue e(r);
    column columns[kShare];
#pragma unroll
    for (int i = 0; i < kShare; i++) {
        int64_t output = j.group * p.N + j.n + n + i;
        columns[i] = j.n + n + i < p.N ? column_of(r, output, zero * of_factors[i]) : column{};
    }
#pragma unroll
    for (int i = 0; i < kShare; i++) {
        if (j.m + m + i >= p.M) {
            break;
        }
        int64_t where;
        p.m.find(j.m + m + i, where);
        where += j.group * p.out_group + (j.n + n) * p.out_n;
#pragma unroll
        for (int c = 0; c < kShare; c++) {
            if (j.n + n + c < p.N) {
                store(r.kind, p.out, where + c * p.out_n, finish(e, columns[c], sums[i][c]));
            }
        }
    }
}

// Whether four k from a multiple of four on are one aligned word: channels innermost, in fours.
inline bool
takes_words(const void *data, int64_t channel, int64_t channels, const int64_t *others, int count)
{
    bool whole = channel == 1 && channels % 4 == 0 && reinterpret_cast<uintptr_t>(data) % 4 == 0;
    for (int i = 0; i < count; i++) {
        whole = whole && others[i] % 4 == 0;
    }
    return whole;
}

inline aicf_status
launch_dp4a(const aicf_conv &c, const aicf_requant &r, aicf_stream stream)
{
    places p = problem_of<int8_t>(c, false);
    const int64_t of_field[] = {
        c.field_strides[0], c.field_strides[2], c.field_strides[3], p.field_group};
    const int64_t of_factor[] = {
        c.factor_strides[0], c.factor_strides[2], c.factor_strides[3], p.dense_group};
    reading how = {};
    how.field_words = takes_words(c.field, c.field_strides[1], c.channels, of_field, 4);
    how.factor_words =
        p.channels_inside && takes_words(c.factor, c.factor_strides[1], c.channels, of_factor, 4);
    how.field_along_k = p.k.field[0] == 1;
    how.factor_along_k = p.k.other[0] == 1;
    return launch_tiles(
        r.signed_in ? dp4a<int8_t> : dp4a<uint8_t>, p, kTile, kTile, kThreads, 0, stream, r, how);
}

} // namespace aicf::AICF_OP

#endif
