// gemm in f32 by multiply-adds, 8 x 16 sums a lane, for sm_80 and later (see gemm.cuh for the
// operands): any M, N and K, 0 included, at any address. Eight warps a multiprocessor, of one block
// or two. Bound by the instructions: of 100, 91 are multiply-adds, and some of those wait for a
// register, since two that lie in one bank are read one after the other.
//
// A warp makes 64 x 64 of the tile. Where the tile has places for fewer than four, the warps of one
// place have each a part of every slab's k, and their sums meet in shared memory, in a fixed order.
#ifndef AICF_GEMM_BROAD_CUH
#define AICF_GEMM_BROAD_CUH

#include "copies.cuh"
#include "parts.cuh"

namespace aicf::gemm {

constexpr int kBroadWarps = 8;           // of a multiprocessor: 255 registers a thread
constexpr int kBroadM = 8, kBroadN = 16; // sums of a lane
constexpr int kBroadSide = 64;           // of a warp's part: 8 x 4 lanes

// kT: threads; kD: k of a slab; kS: stages; kTu: see copies.cuh; kA: in how many parts a slab is
// copied. ptxas gives sums to banks as it pleases: with other values, half of some kernels'
// products read two registers of one. With these it does so where one slice copies single elements,
// which that shape is not compiled for.
template <int kM, int kN, int kT, int kD, int kS, int kTu, int kA> struct broad_shape {
    static constexpr int kTileM = kM, kTileN = kN, kThreads = kT;
    static constexpr int kDepth = kD, kStages = kS, kTurned = kTu, kAsks = kA;
    static constexpr int kBlocks = kBroadWarps * 32 / kThreads; // of a multiprocessor
    static constexpr int kWarpsM = kM / kBroadSide, kWarpsN = kN / kBroadSide;
    static constexpr int kSlices = kThreads / 32 / (kWarpsM * kWarpsN); // warps of a place
    static constexpr int kPlaces = kThreads / kSlices; // threads that make the tile
    static constexpr int kPart = kDepth / kSlices;     // k of a slice in a slab
    static constexpr int kRows = kBroadM / kSlices;    // of the sums, that a lane finishes
    static constexpr int kPitchA = kM + kPad, kPitchB = kN + kPad;
    static constexpr int kBytesA = kDepth * kPitchA * 4;
    static constexpr int kStageBytes = kBytesA + kDepth * kPitchB * 4;
    static constexpr int kShared = kStages * kStageBytes;
    // Of the sums that are for other slices to finish.
    static constexpr int kRoomBytes = (kSlices - 1) * kPlaces * kBroadM * kBroadN * 4;
    static_assert(kSlices * kPlaces == kThreads && kPart % (2 * kAsks) == 0, "whole");
    static_assert(kShared >= kRoomBytes, "room");
};

// Sums (i, quad q) of a lane are of row(i) and the four columns from column(q) on.
template <typename S> struct broad_place {
    int slice, m, n; // m and n: of the lane's first sum

    __device__ broad_place()
    {
        int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
        slice = warp / (S::kWarpsM * S::kWarpsN);
        m = warp / S::kWarpsN % S::kWarpsM * kBroadSide + lane / 4 * kQuad;
        n = warp % S::kWarpsN * kBroadSide + lane % 4 * kQuad;
    }

    __device__ int row(int i) const
    {
        return m + i / kQuad * (8 * kQuad) + i % kQuad;
    }

    __device__ int column(int quad) const
    {
        return n + quad * (4 * kQuad);
    }
};

// Where a tile's slabs start: of one that sticks out, earlier, so that they are whole, where the
// operand has as many lines and copies allow. What they have twice is the tile's before to store.
template <int kTile, copying kHow>
__device__ inline int64_t
start_of(int64_t x, int64_t size)
{
    bool may = size >= kTile && (kHow != copying::quads || size % kQuad == 0);
    return may && x > size - kTile ? size - kTile : x;
}

// ---- the way out --------------------------------------------------------------------------------

// `m0` and `n0` are where the slabs start. Gelu, whose error function is long, goes over what this
// thread has stored.
template <typename S>
__device__ inline void
store_broad(
    const problem<float> &p, const job<float> &j, const broad_place<S> &at, int64_t m0, int64_t n0,
    const float (&sums)[S::kRows][kBroadN])
{
    bool packed =
        (reinterpret_cast<uintptr_t>(j.out + n0) | static_cast<uint64_t>(p.out_pitch) * 4) % 16 ==
        0;
    int first = at.slice * S::kRows;
    auto mine = [&](int64_t m, int64_t n) { return m >= j.m && m < p.M && n >= j.n && n < p.N; };
    float bias[kBroadN];
#pragma unroll
    for (int i = 0; i < kBroadN; i++) {
        int64_t n = n0 + at.column(i / kQuad) + i % kQuad;
        bias[i] = p.bias && n < p.N ? p.bias[n] : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < S::kRows; i++) {
        int64_t m = m0 + at.row(first + i);
        float *out = j.out + m * p.out_pitch;
#pragma unroll
        for (int quad = 0; quad < kBroadN / kQuad; quad++) {
            int64_t n = n0 + at.column(quad);
            float x[kQuad];
#pragma unroll
            for (int lane = 0; lane < kQuad; lane++) {
                x[lane] = sums[i][quad * kQuad + lane];
            }
            if (m < j.m || m >= p.M) {
                continue;
            }
            finish_quad<false>(p, row_of_c(p, j, m), n, p.N - n, bias + quad * kQuad, x);
            if (packed && mine(m, n) && n + kQuad <= p.N) {
                store_pack(out + n, pack<float, kQuad>{{x[0], x[1], x[2], x[3]}});
                continue;
            }
#pragma unroll
            for (int lane = 0; lane < kQuad; lane++) {
                if (mine(m, n + lane)) {
                    out[n + lane] = x[lane];
                }
            }
        }
    }
    if (p.act == AICF_GEMM_ACT_GELU) {
#pragma unroll 1
        for (int i = 0; i < S::kRows; i++) {
            int64_t m = m0 + at.row(first + i);
            float *out = j.out + m * p.out_pitch + n0;
            float x[kBroadN];
#pragma unroll
            for (int k = 0; k < kBroadN; k++) {
                int n = at.column(k / kQuad) + k % kQuad;
                x[k] = mine(m, n0 + n) ? out[n] : 0.0f;
            }
#pragma unroll
            for (int k = 0; k < kBroadN; k++) {
                int n = at.column(k / kQuad) + k % kQuad;
                x[k] = activate(x[k], AICF_GEMM_ACT_GELU);
                if (mine(m, n0 + n)) {
                    out[n] = x[k];
                }
            }
        }
    }
}

// The rows of all sums that this thread's slice finishes, of all slices: its own, then the others'
// in order. They meet in `room`: [who finishes][who sends][sum][place].
template <typename S>
__device__ inline void
sum_slices(
    const broad_place<S> &at, float *room, const float (&sums)[kBroadM][kBroadN],
    float (&all)[S::kRows][kBroadN])
{
    constexpr int kCount = S::kRows * kBroadN;
    room += static_cast<int>(threadIdx.x) % S::kPlaces;
#pragma unroll
    for (int owner = 0; owner < S::kSlices; owner++) {
        const float(&rows)[kBroadM][kBroadN] = sums;
        int sender = at.slice - (at.slice > owner);
        float *to = room + (owner * (S::kSlices - 1) + sender) * (kCount * S::kPlaces);
#pragma unroll
        for (int i = 0; i < kCount; i++) {
            float x = rows[owner * S::kRows + i / kBroadN][i % kBroadN];
            if (owner == at.slice) {
                all[i / kBroadN][i % kBroadN] = x;
            } else {
                to[i * S::kPlaces] = x;
            }
        }
    }
    __syncthreads();
#pragma unroll
    for (int sender = 0; sender < S::kSlices - 1; sender++) {
        const float *from = room + (at.slice * (S::kSlices - 1) + sender) * (kCount * S::kPlaces);
#pragma unroll
        for (int i = 0; i < kCount; i++) {
            all[i / kBroadN][i % kBroadN] += from[i * S::kPlaces];
        }
    }
}

// ---- the kernel ---------------------------------------------------------------------------------

template <int kStep, int kCount>
__device__ inline void
read_quads(const float *from, float (&x)[kCount])
{
#pragma unroll
    for (int i = 0; i < kCount; i += kQuad) {
        pack<float, kQuad> four = load_pack<float, kQuad>(from + i / kQuad * kStep);
#pragma unroll
        for (int lane = 0; lane < kQuad; lane++) {
            x[i + lane] = four.lane[lane];
        }
    }
}

// What a lane multiplies at one k. Two are in turns: the next one's is read before this one's
// products, across slabs too.
struct factors {
    float x[kBroadM], y[kBroadN];

    __device__ void read(const float *a, const float *b)
    {
        read_quads<8 * kQuad>(a, x);
        read_quads<4 * kQuad>(b, y);
    }

    // One factor stays for eight products, and the other is where the next ones begin: an operand
    // that an instruction shares with the one before is not read again. Of many orders tried, in
    // this one ptxas lets the fewest instructions read two registers of a bank.
    __device__ void multiply(float (&sums)[kBroadM][kBroadN]) const
    {
#pragma unroll
        for (int j = 0; j < kBroadN; j++) {
#pragma unroll
            for (int turn = 0; turn < kBroadM; turn++) {
                int at = j % 2 ? kBroadM - 1 - turn : turn;
                int i = at / 2 + at % 2 * kQuad;
                sums[i][j] += x[i] * y[j];
            }
        }
    }
};

template <typename S, copying kA, copying kB>
__global__ void
__launch_bounds__(S::kThreads, S::kBlocks) broad(const __grid_constant__ parted p)
{
    extern __shared__ __align__(128) uint8_t shared[];
    uint32_t base = ptx::shared_address(shared);
    ptx::let_next_launch_begin();
    job<float> j = job_of<S::kTileM, S::kTileN>(p);
    int64_t K = p.first + blockIdx.x < p.last ? p.K : p.last_K;
    int64_t m0 = start_of<S::kTileM, kA>(j.m, p.M), n0 = start_of<S::kTileN, kB>(j.n, p.N);
    copier<S::kTileM, S::kDepth, S::kThreads, kA, S::kTurned> a(
        j.a + m0 * (kA == copying::along_k ? p.a_pitch : 1), p.a_pitch, p.M - m0);
    copier<S::kTileN, S::kDepth, S::kThreads, kB, S::kTurned> b(
        j.b + n0 * (kB == copying::along_k ? p.b_pitch : 1), p.b_pitch, p.N - n0);

    ptx::wait_for_launch_before();
    int64_t ahead = K; // k that is not asked for yet
    uint32_t into = base;
    for (int i = 0; i < S::kStages - 1; i++, into += S::kStageBytes, ahead -= S::kDepth) {
        if (ahead > 0) {
            a.copy(into, ahead, j.a);
            b.copy(into + S::kBytesA, ahead, j.b);
        }
        ptx::copy_async_commit(); // an empty group too: waiting counts groups
    }

    broad_place<S> at;
    const float *from_a =
        reinterpret_cast<const float *>(shared) + at.slice * S::kPart * S::kPitchA + at.m;
    const float *from_b = reinterpret_cast<const float *>(shared + S::kBytesA) +
                          at.slice * S::kPart * S::kPitchB + at.n;
    float sums[kBroadM][kBroadN] = {};
    factors f[2];
    int now = 0;
    ptx::copy_async_wait<S::kStages - 2>();
    __syncthreads();
    f[0].read(from_a, from_b);
#pragma unroll 1
    for (int64_t left = K; left > 0; left -= S::kDepth) {
        bool whole = a.whole(ahead) && b.whole(ahead);
        if (!whole && ahead > 0) {
            a.copy_cut(into, ahead, j.a);
            b.copy_cut(into + S::kBytesA, ahead, j.b);
        }
#pragma unroll
        for (int k = 0; k < S::kPart; k++) {
            if (k + 1 < S::kPart) {
                f[(k + 1) % 2].read(from_a + (k + 1) * S::kPitchA, from_b + (k + 1) * S::kPitchB);
#pragma unroll
                for (int line = 0; line < a.kLines; line++) {
                    if (k == line * S::kAsks / a.kLines * (S::kPart / S::kAsks)) {
                        a.copy_line(into, line, whole);
                    }
                }
#pragma unroll
                for (int line = 0; line < b.kLines; line++) {
                    if (k == line * S::kAsks / b.kLines * (S::kPart / S::kAsks)) {
                        b.copy_line(into + S::kBytesA, line, whole);
                    }
                }
            } else {
                ptx::copy_async_commit();
                ahead -= S::kDepth;
                into = base + static_cast<uint32_t>(now) * S::kStageBytes;
                now = now + 1 == S::kStages ? 0 : now + 1;
                int step = (now == 0 ? 1 - S::kStages : 1) * (S::kStageBytes / 4);
                from_a += step;
                from_b += step;
                ptx::copy_async_wait<S::kStages - 2>();
                __syncthreads(); // the slab has come for all, and all have read this one
                f[0].read(from_a, from_b);
            }
            f[k % 2].multiply(sums);
        }
    }

    if constexpr (S::kSlices == 1) {
        store_broad<S>(p, j, at, m0, n0, sums);
    } else {
        float all[S::kRows][kBroadN];
        __syncthreads(); // the sums meet where slabs were
        sum_slices<S>(at, reinterpret_cast<float *>(shared), sums, all);
        store_broad<S>(p, j, at, m0, n0, all);
    }
}

// ---- launches -----------------------------------------------------------------------------------

template <typename S, copying kA, copying kB>
aicf_status
launch_broad_kernel(const parted &p, aicf_stream stream)
{
    return launch_parted(
        broad<S, kA, kB>, p, S::kTileM, S::kTileN, S::kThreads, S::kShared, stream);
}

// Where neither is turned, both are copied by 16 bytes or neither.
template <typename S>
aicf_status
launch_broad(const parted &p, aicf_stream stream)
{
    copying a = copying_of(p, p.a, p.a_along_k, p.a_pitch, p.a_batch);
    copying b = copying_of(p, p.b, p.b_along_k, p.b_pitch, p.b_batch);
    constexpr copying kTurned = copying::along_k, kSingle = copying::single,
                      kQuads = copying::quads;
    if constexpr (S::kSlices > 1) {
        if (a == kSingle || b == kSingle) {
            return a == kTurned   ? launch_broad_kernel<S, kTurned, kSingle>(p, stream)
                   : b == kTurned ? launch_broad_kernel<S, kSingle, kTurned>(p, stream)
                                  : launch_broad_kernel<S, kSingle, kSingle>(p, stream);
        }
    }
    if (a == kTurned) {
        return b == kTurned ? launch_broad_kernel<S, kTurned, kTurned>(p, stream)
                            : launch_broad_kernel<S, kTurned, kQuads>(p, stream);
    }
    return b == kTurned ? launch_broad_kernel<S, kQuads, kTurned>(p, stream)
                        : launch_broad_kernel<S, kQuads, kQuads>(p, stream);
}

// Whether an operand is copied by single elements.
inline bool
has_singles(const problem<float> &p)
{
    return copying_of(p, p.a, p.a_along_k, p.a_pitch, p.a_batch) == copying::single ||
           copying_of(p, p.b, p.b_along_k, p.b_pitch, p.b_batch) == copying::single;
}

struct broad_plan {
    int tile_m, tile_n, slab, blocks; // blocks: that share a multiprocessor
    bool singles;                     // whether it takes operands of single elements
    int clocks_of_128;                // that 128 multiply-adds of each lane's place take
    aicf_status (*launch)(const parted &, aicf_stream);
    int64_t parts, clocks;
};

template <typename S>
constexpr broad_plan
broad_tile(int clocks_of_128)
{
    return {S::kTileM,     S::kTileN,       S::kDepth, S::kBlocks, S::kSlices > 1,
            clocks_of_128, launch_broad<S>, 1,         0};
}

// Clocks that the product takes, about. Of two blocks that share a multiprocessor each hides what
// the other waits for; parts are written, waited for and read.
inline int64_t
clocks_of(const problem<float> &p, const broad_plan &s, int processors)
{
    int64_t tiles = ceil_div(p.M, s.tile_m) * ceil_div(p.N, s.tile_n) * p.batches;
    int64_t depth = s.parts == 1 ? p.K : part_of(p, s.parts, s.slab);
    int64_t count = s.parts == 1 ? 1 : ceil_div(p.K, depth);
    int64_t most = ceil_div(tiles * count, processors); // of one multiprocessor
    int64_t of_k = int64_t{s.tile_m} * s.tile_n / 128 * s.clocks_of_128 / 128;
    of_k += p.M < s.tile_m || p.N < s.tile_n ? of_k / 2 : 0; // all slabs are cut
    int64_t alone = s.blocks == 1 ? 0 : most % 2 * of_k / 4;
    int64_t sums = p.M * p.N * p.batches * (count + 1);
    return (most * of_k + alone) * depth + ceil_div(most, s.blocks) * 6000 +
           (count > 1 ? 5000 + sums * 4 / (10 * processors) : 0);
}

inline broad_plan
plan_broad(const problem<float> &p, int processors)
{
    constexpr broad_plan kTiles[] = {
        broad_tile<broad_shape<128, 128, 128, 16, 3, 8, 8>>(154),
        broad_tile<broad_shape<128, 128, 256, 16, 4, 16, 2>>(156),
        broad_tile<broad_shape<64, 128, 128, 16, 4, 8, 2>>(157),
        broad_tile<broad_shape<64, 64, 128, 32, 3, 8, 2>>(162),
    };
    bool singles = has_singles(p);
    broad_plan best = {};
    for (broad_plan s : kTiles) {
        for (s.parts = 1; (s.singles || !singles) && takes_parts(p, s.parts); s.parts++) {
            s.clocks = clocks_of(p, s, processors);
            best = !best.launch || s.clocks < best.clocks ? s : best;
        }
    }
    return best;
}

} // namespace aicf::gemm

#endif
