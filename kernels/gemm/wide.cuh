// gemm in f32 by multiply-adds in tiles of 128 x 64 (see gemm.cuh for the operands), for
// sm_80 and later, where addresses, pitches and batch strides of a and b are on 16 bytes and sizes
// are below 2^31. A warp makes 64 x 32 of it, 8 x 8 a lane, of an equal part of each slab's k; what
// the warps of the same place have meets in shared memory, in order. Operands lie there as
// lines.cuh has it. Bound by multiply-adds and what shared memory gives: as many clocks of each.
#ifndef AICF_GEMM_WIDE_CUH
#define AICF_GEMM_WIDE_CUH

#include "lines.cuh"

namespace aicf::gemm {

constexpr int kWideM = 128, kWideN = 64; // a tile
constexpr int kWideDepth = 32;           // k of a slab
constexpr int kWideSums = 8;             // each way, of a lane; 8 x 4 lanes
constexpr int kPair = 2;                 // k that a lane reads at once

template <bool kAAlongK, bool kBAlongK> struct wide_tile {
    static constexpr int kStages = 3;
    static constexpr int kPlaces = kWideM / 64 * 2 * 32;     // threads that make the tile
    static constexpr int kSlices = kThreads / kPlaces;       // of such threads
    static constexpr int kPart = kWideDepth / kSlices;       // k of a slice in a slab
    static constexpr int kRows = kWideSums / kSlices;        // that a thread finishes
    static constexpr int kQuads = kRows * kWideSums / kQuad; // the same in fours
    using lines_a = lines<kWideM, kWideDepth, kAAlongK, kQuad, kThreads>;
    using lines_b = lines<kWideN, kWideDepth, kBAlongK, kQuad, kThreads, true>;
    static constexpr int kStageBytes = lines_a::kBytes + lines_b::kBytes;
    static constexpr int kShared = kStages * kStageBytes;
    static constexpr int kRoomBytes = kThreads * kWideSums * kWideSums * 4; // of all sums
    static_assert(kShared >= kRoomBytes, "room");

    int slice, place;         // place: among the threads that make the tile
    int m, n, lane_m, lane_n; // m and n: the warp's first row and column

    __device__ wide_tile() : lane_m(place_of_lane(8)), lane_n(place_of_lane(4))
    {
        slice = static_cast<int>(threadIdx.x) / kPlaces;
        place = static_cast<int>(threadIdx.x) % kPlaces;
        m = place / 64 * 64;
        n = place / 32 % 2 * 32;
    }

    __device__ int row(int i) const
    {
        return m + (kAAlongK ? i * 8 + lane_m : i / kQuad * 32 + lane_m * kQuad + i % kQuad);
    }

    // The first of each four.
    __device__ int column(int quad) const
    {
        return n + (kBAlongK ? lane_n * 8 + quad * kQuad : quad * 16 + lane_n * kQuad);
    }

    // x[k][i] of a pair of k: along k by pairs, else by fours.
    template <typename Lines, bool kAlongK, typename First>
    __device__ static void read(const float *slab, int k, First first, float (&x)[kPair][kWideSums])
    {
        if constexpr (kAlongK) {
#pragma unroll
            for (int i = 0; i < kWideSums; i++) {
                pack<float, kPair> two =
                    load_pack<float, kPair>(slab + first(i) * Lines::kPitch + k);
                x[0][i] = two.lane[0];
                x[1][i] = two.lane[1];
            }
        } else {
#pragma unroll
            for (int step = 0; step < kPair; step++) {
#pragma unroll
                for (int i = 0; i < kWideSums; i += kQuad) {
                    pack<float, kQuad> four =
                        load_pack<float, kQuad>(slab + (k + step) * Lines::kPitch + first(i));
#pragma unroll
                    for (int lane = 0; lane < kQuad; lane++) {
                        x[step][i + lane] = four.lane[lane];
                    }
                }
            }
        }
    }

    __device__ void
    multiply(const float *a, const float *b, float (&sums)[kWideSums][kWideSums]) const
    {
#pragma unroll
        for (int k = 0; k < kPart; k += kPair) {
            float x[kPair][kWideSums], y[kPair][kWideSums];
            read<lines_a, kAAlongK>(a, slice * kPart + k, [&](int i) { return row(i); }, x);
            read<lines_b, kBAlongK>(
                b, slice * kPart + k,
                [&](int j) { return kBAlongK ? n + j * 4 + lane_n : column(j / kQuad); }, y);
#pragma unroll
            for (int step = 0; step < kPair; step++) {
#pragma unroll
                for (int i = 0; i < kWideSums; i++) {
#pragma unroll
                    for (int j = 0; j < kWideSums; j++) {
                        sums[i][j] += x[step][i] * y[step][j];
                    }
                }
            }
        }
    }

    // Has the sums over `depth` k from `first` on lie in shared memory: [slice][i][j][place].
    __device__ void
    sum(const problem<float> &p, const job<float> &j, int first, int depth, uint8_t *shared) const
    {
        uint32_t base = ptx::shared_address(shared);
        lines_a a(j.a, p.a_pitch, j.m, first, p.M - j.m);
        lines_b b(j.b, p.b_pitch, j.n, first, p.N - j.n);
        int ahead = depth; // k that is not asked for yet
        auto ask = [&](int to) {
            if (ahead > 0) {
                uint32_t into = base + static_cast<uint32_t>(to) * kStageBytes;
                a.copy(into, ahead, j.a);
                b.copy(into + lines_a::kBytes, ahead, j.a);
            }
            ahead -= kWideDepth;
            ptx::copy_async_commit(); // an empty group too: waiting counts groups
        };
        for (int i = 0; i < kStages - 1; i++) {
            ask(i);
        }

        float sums[kWideSums][kWideSums] = {};
        int now = 0, next = kStages - 1;
#pragma unroll 1
        for (int left = depth; left > 0; left -= kWideDepth) {
            ptx::copy_async_wait<kStages - 2>();
            __syncthreads(); // the slab has come for all, and all have read the one before
            ask(next);
            const float *slab = reinterpret_cast<const float *>(shared + now * kStageBytes);
            multiply(slab, slab + lines_a::kBytes / 4, sums);
            next = now;
            now = now + 1 == kStages ? 0 : now + 1;
        }
        __syncthreads(); // what follows writes over the stages
        float *room =
            reinterpret_cast<float *>(shared) + slice * (kWideSums * kWideSums * kPlaces) + place;
#pragma unroll
        for (int i = 0; i < kWideSums * kWideSums; i++) {
            room[i * kPlaces] = sums[i / kWideSums][i % kWideSums];
        }
        __syncthreads();
    }

    // Of this thread's fours, the one of this number.
    __device__ void sum_of(const uint8_t *shared, int number, float (&x)[kQuad]) const
    {
        const float *room = reinterpret_cast<const float *>(shared) + place +
                            (slice * kQuads + number) * kQuad * kPlaces;
#pragma unroll
        for (int lane = 0; lane < kQuad; lane++) {
            x[lane] = room[lane * kPlaces];
#pragma unroll
            for (int i = 1; i < kSlices; i++) {
                x[lane] += room[(i * kWideSums * kWideSums + lane) * kPlaces];
            }
        }
    }

    __device__ void
    store(const problem<float> &p, const job<float> &j, int number, float (&x)[kQuad]) const
    {
        int64_t m = j.m + row(slice * kRows + number / 2), n = j.n + column(number % 2);
        int64_t inside = p.N - n;
        if (m >= p.M || inside <= 0) {
            return;
        }
        float bias[kQuad];
#pragma unroll
        for (int lane = 0; lane < kQuad; lane++) {
            bias[lane] = p.bias && lane < inside ? p.bias[n + lane] : 0.0f;
        }
        finish_quad<true>(p, row_of_c(p, j, m), n, inside, bias, x);
        float *out = j.out + m * p.out_pitch + n;
        if (inside >= kQuad && reinterpret_cast<uintptr_t>(out) % 16 == 0) {
            store_pack(out, pack<float, kQuad>{{x[0], x[1], x[2], x[3]}});
            return;
        }
#pragma unroll
        for (int lane = 0; lane < kQuad; lane++) {
            if (lane < inside) {
                out[lane] = x[lane];
            }
        }
    }

    __device__ void store_all(const problem<float> &p, const job<float> &j, uint8_t *shared) const
    {
#pragma unroll 2
        for (int number = 0; number < kQuads; number++) {
            float x[kQuad];
            sum_of(shared, number, x);
            store(p, j, number, x);
        }
    }
};

template <bool kAAlongK, bool kBAlongK>
__global__ void
__launch_bounds__(kThreads, 2) wide(const __grid_constant__ problem<float> p)
{
    extern __shared__ __align__(128) uint8_t shared[];
    ptx::let_next_launch_begin();
    job<float> j = job_of<kWideM, kWideN>(p);
    wide_tile<kAAlongK, kBAlongK> t;
    t.sum(p, j, 0, static_cast<int>(p.K), shared);
    t.store_all(p, j, shared);
}

inline bool
takes_wide(const problem<float> &p)
{
    return p.M < kMostBlocks && p.N < kMostBlocks && p.K < kMostBlocks &&
           aligned(p.a, p.a_pitch, p.a_batch, p.batch_rank, kQuad) &&
           aligned(p.b, p.b_pitch, p.b_batch, p.batch_rank, kQuad);
}

template <bool kAAlongK, bool kBAlongK>
aicf_status
launch_wide_kernel(const problem<float> &p, aicf_stream stream)
{
    constexpr int kShared = wide_tile<kAAlongK, kBAlongK>::kShared;
    aicf_status status = allow_shared(wide<kAAlongK, kBAlongK>, kShared);
    return status.kind
               ? status
               : launch_tiles(
                     wide<kAAlongK, kBAlongK>, p, kWideM, kWideN, kThreads, kShared, stream);
}

inline aicf_status
launch_wide(const problem<float> &p, aicf_stream stream)
{
    if (p.a_along_k) {
        return p.b_along_k ? launch_wide_kernel<true, true>(p, stream)
                           : launch_wide_kernel<true, false>(p, stream);
    }
    return p.b_along_k ? launch_wide_kernel<false, true>(p, stream)
                       : launch_wide_kernel<false, false>(p, stream);
}

} // namespace aicf::gemm

#endif
