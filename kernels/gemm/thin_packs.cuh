// gemm of f32 where M or N is 1, for sm_80 and later: as thin.cuh, but a matrix that is not along k
// and lies on 16 bytes comes by asynchronous copies, which are many without a register each. Bound
// by the bytes of the matrix.
#ifndef AICF_GEMM_THIN_PACKS_CUH
#define AICF_GEMM_THIN_PACKS_CUH

#include "quick.cuh"
#include "thin.cuh"

#include <aicf/cuda/ptx.cuh>

namespace aicf::gemm {

constexpr int kThinPack = 4;    // f32 of 16 bytes
constexpr int kThinStages = 10; // copies of a thread on their way: 160 KiB a multiprocessor

// A stage, whose every place one thread writes and reads: nobody waits for another.
struct thin_stage {
    pack<float, kThinPack> row[kThinSide * kThinSide];
    float factor[kThinSide * kThinSide];
};

// A block makes 32 elements. A warp reads 4 rows of them at once, a pack a lane; a lane's sums are
// of every 128th k.
template <typename T>
__global__ void
__launch_bounds__(kThinSide *kThinSide) thin_packs(const __grid_constant__ problem<T> p)
{
    constexpr int kAcross = kThinSide / kThinPack, kRows = kThinSide / kAcross; // of a warp
    constexpr int kStep = kRows * kThinSide;                                    // k of a block
    extern __shared__ __align__(128) uint8_t bytes[];
    thin_stage *stages = reinterpret_cast<thin_stage *>(bytes);
    job<T> j = job_of<1, 1>(p); // m and n count tiles
    thin_operands<T> o = thin_operands_of(p, j);
    int lane = static_cast<int>(threadIdx.x) % kThinSide;
    int warp = static_cast<int>(threadIdx.x) / kThinSide;
    int64_t first = (p.N == 1 ? j.m : j.n) * kThinSide;
    int64_t x = first + lane % kAcross * kThinPack, k = warp * kRows + lane / kAcross;

    int64_t ahead = x < o.size && k < p.K ? (p.K - k + kStep - 1) / kStep : 0, left = ahead;
    const T *row = o.matrix + x + k * o.pitch, *factor = o.vector + k * o.step;
    auto ask = [&](int stage) {
        if (ahead > 0) {
            thin_stage &to = stages[stage];
            ptx::copy_async_16(ptx::shared_address(&to.row[threadIdx.x]), row);
            ptx::copy_async_4(ptx::shared_address(&to.factor[threadIdx.x]), factor);
        }
        ptx::copy_async_commit(); // an empty group too: waiting counts groups
        row += kStep * o.pitch;
        factor += kStep * o.step;
        ahead--;
    };
    for (int stage = 0; stage < kThinStages; stage++) {
        ask(stage);
    }

    float sum[kThinPack] = {};
    for (int stage = 0; left > 0; left--) {
        ptx::copy_async_wait<kThinStages - 1>();
        pack<float, kThinPack> came = stages[stage].row[threadIdx.x];
        float y = stages[stage].factor[threadIdx.x];
#pragma unroll
        for (int i = 0; i < kThinPack; i++) {
            sum[i] += came.lane[i] * y;
        }
        ask(stage);
        stage = stage + 1 == kThinStages ? 0 : stage + 1;
    }
    ptx::copy_async_wait<0>();
    __syncthreads(); // what follows writes over the stages

    // The lanes of a warp that have the same columns, then the warps.
    float(*sums)[kThinSide + 1] = reinterpret_cast<float(*)[kThinSide + 1]>(bytes);
#pragma unroll
    for (int i = 0; i < kThinPack; i++) {
#pragma unroll
        for (int distance = kAcross; distance < kThinSide; distance *= 2) {
            sum[i] += __shfl_xor_sync(0xffffffff, sum[i], distance);
        }
        if (lane < kAcross) {
            sums[warp][lane * kThinPack + i] = sum[i];
        }
    }
    __syncthreads();
    store_thin(p, j, first, o.size, sums[lane][warp]);
}

inline bool
takes_packs(const problem<float> &p)
{
    bool of_a = p.N == 1;
    int64_t size = of_a ? p.M : p.N, pitch = of_a ? p.a_pitch : p.b_pitch;
    const int64_t *batch = of_a ? p.a_batch : p.b_batch;
    bool packs = !(of_a ? p.a_along_k : p.b_along_k) && size % kThinPack == 0 &&
                 pitch % kThinPack == 0 &&
                 reinterpret_cast<uintptr_t>(of_a ? p.a : p.b) % (kThinPack * 4) == 0;
    for (int dim = 0; dim < p.batch_rank; dim++) {
        packs = packs && batch[dim] % kThinPack == 0;
    }
    return packs;
}

inline aicf_status
launch_thin_packs(const problem<float> &p, aicf_stream stream)
{
    if (takes_quick(p)) {
        return launch_quick(p, stream);
    }
    if (!takes_packs(p)) {
        return launch_thin(p, stream);
    }
    constexpr int kShared = kThinStages * static_cast<int>(sizeof(thin_stage));
    aicf_status status = allow_shared(thin_packs<float>, kShared);
    return status.kind ? status
                       : launch_tiles(
                             thin_packs<float>, p, p.N == 1 ? kThinSide : 1,
                             p.N == 1 ? 1 : kThinSide, kThinSide * kThinSide, kShared, stream);
}

} // namespace aicf::gemm

#endif
