// The products of product.cuh on the matrix units of sm_80 and later, of f16 and bf16 with f32
// sums. Requires addresses and pitches on multiples of 16 bytes, and a width of the out in eights.
#ifndef AICF_RECURRENT_MATRIX_CUH
#define AICF_RECURRENT_MATRIX_CUH

#include "product.cuh"

#include <aicf/cuda/mma_slabs.cuh>

namespace aicf::AICF_OP {

using units::kChunk;
using units::kWarp;

__device__ inline void
store_eight(float *to, const float (&x)[kChunk])
{
    store_pack(to, pack<float, 4>{{x[0], x[1], x[2], x[3]}});
    store_pack(to + 4, pack<float, 4>{{x[4], x[5], x[6], x[7]}});
}

template <typename T>
__device__ inline void
store_eight(T *to, const float (&x)[kChunk])
{
    store_words(to, repack(x, T{}));
}

// A warp's part of the tile, with m and n its first row and column; a lane keeps to its columns.
template <typename S, typename T, typename O>
__device__ inline void
store_part(const product<T, O> &p, int64_t m, int64_t n, const float *staged)
{
    constexpr int kChunks = S::kN / kChunk;
    constexpr int kRowsAtOnce = kWarp / kChunks;
    static_assert(kWarp % kChunks == 0 && S::kM % kRowsAtOnce == 0, "a lane's columns stay");
    int lane = static_cast<int>(threadIdx.x) % kWarp, column = lane % kChunks * kChunk;
    if (n + column >= p.N) {
        return;
    }
    float bias[kChunk];
#pragma unroll
    for (int i = 0; i < kChunk; i++) {
        bias[i] = bias_of(p, n + column + i);
    }
    for (int row = lane / kChunks; row < S::kM && m + row < p.M; row += kRowsAtOnce) {
        float x[kChunk];
#pragma unroll
        for (int i = 0; i < kChunk; i += 4) {
            pack<float, 4> four = load_pack<float, 4>(staged + row * S::kPitchOut + column + i);
#pragma unroll
            for (int j = 0; j < 4; j++) {
                x[i + j] = four.lane[j] + bias[i + j];
            }
        }
        store_eight(p.out + (m + row) * p.N + n + column, x);
    }
}

template <typename T, typename O, typename S, bool kAAlongK, bool kBAlongK>
__global__ void
__launch_bounds__(S::kThreads, S::kBlocks)
    multiply_units(const __grid_constant__ product<T, O> p, int64_t tiles_m)
{
    extern __shared__ __align__(128) uint8_t shared[];
    int64_t tile_m = blockIdx.x % tiles_m * S::kTileM, tile_n = blockIdx.x / tiles_m * S::kTileN;
    int warp = static_cast<int>(threadIdx.x) / kWarp;
    int m = warp / S::kWarpsN * S::kM, n = warp % S::kWarpsN * S::kN;
    float sums[S::kM / 16][S::kN / 8][4] = {};
    if (p.K > 0) {
        units::source<T> a = {
            p.a.data + tile_m * p.a.x_step, kAAlongK ? p.a.x_step : p.a.k_step, p.M - tile_m, p.K};
        units::source<T> b = {
            p.b.data + tile_n * p.b.x_step, kBAlongK ? p.b.x_step : p.b.k_step, p.N - tile_n, p.K};
        uint32_t stages = ptx::shared_address(shared);
        units::tile_feed<T, S, kAAlongK, kBAlongK> in(a, b, stages);
        units::sum_slabs<T, S, kAAlongK, kBAlongK>(
            in, (p.K + S::kSlab - 1) / S::kSlab, stages, m, n, sums);
    }
    float *staged = reinterpret_cast<float *>(shared) + warp * S::kM * S::kPitchOut;
    units::stage_sums<S>(sums, staged);
    __syncwarp();
    store_part<S>(p, tile_m + m, tile_n + n, staged);
}

template <typename T, typename O, typename S, bool kAAlongK, bool kBAlongK>
aicf_status
launch_units(const product<T, O> &p, aicf_stream stream)
{
    int64_t tiles_m = ceil_div(p.M, S::kTileM), tiles = tiles_m * ceil_div(p.N, S::kTileN);
    aicf_status status = allow_shared(multiply_units<T, O, S, kAAlongK, kBAlongK>, S::kShared);
    return status.kind || tiles == 0
               ? status
               : launch(
                     multiply_units<T, O, S, kAAlongK, kBAlongK>, static_cast<unsigned>(tiles),
                     S::kThreads, S::kShared, stream, p, tiles_m);
}

// gemm's shapes of tiles: the small ones where the large would leave half of the machine idle.
using large_tiles = units::shape<128, 256, 32, 4, 2, 4>;
using small_tiles = units::shape<64, 64, 64, 6, 2, 2>;

template <typename T, typename O, bool kAAlongK, bool kBAlongK>
aicf_status
multiply_along(const product<T, O> &p, aicf_stream stream)
{
    bool fills = ceil_div(p.M, large_tiles::kTileM) * ceil_div(p.N, large_tiles::kTileN) >= 64;
    return fills ? launch_units<T, O, large_tiles, kAAlongK, kBAlongK>(p, stream)
                 : launch_units<T, O, small_tiles, kAAlongK, kBAlongK>(p, stream);
}

} // namespace aicf::AICF_OP

#endif
