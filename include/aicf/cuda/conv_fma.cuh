// Convolutions in f32 by multiply-adds (see conv_simt.cuh, whose tiles these are) where the dense
// matrix is read along k: asynchronous copies keep two slabs ahead of the products, so that no
// register carries them. Before sm_80 copies are loads and stores.
#ifndef AICF_CUDA_CONV_FMA_CUH
#define AICF_CUDA_CONV_FMA_CUH

#include <aicf/cuda/conv_simt.cuh>
#include <aicf/cuda/ptx.cuh>

namespace aicf::AICF_OP {

constexpr int kStages = 3;
constexpr int kChunkSlabs = 4; // whose spots are found at once
constexpr int kChunkSpots = kChunkSlabs * kSlab;

template <int kTileM, int kTileN> struct stages {
    slab<kTileM> field[kStages];
    slab<kTileN> dense[kStages];
    spot m[kTileM];               // at last, `at` is the place in the out
    depth_spot k[2][kChunkSpots]; // two chunks take turns
};

// ---- copies -------------------------------------------------------------------------------------

// Of an element, or a zero where it is not there; `from` is then any address.
__device__ inline void
copy_word(float &to, const float *from, bool there)
{
#if __CUDA_ARCH__ >= 800
    ptx::copy_async_4(ptx::shared_address(&to), from, there ? 4 : 0);
#else
    to = there ? *from : 0.0f;
#endif
}

__device__ inline void
close_copies()
{
#if __CUDA_ARCH__ >= 800
    ptx::copy_async_commit();
#endif
}

// All but the last group have arrived.
__device__ inline void
wait_for_copies()
{
#if __CUDA_ARCH__ >= 800
    ptx::copy_async_wait<1>();
#endif
}

// By one instruction; else its parts are read as they are used.
__device__ inline spot
read_spot(const spot &s)
{
    const words w = load_words(&s);
    return {
        static_cast<int64_t>(static_cast<uint64_t>(w.word[1]) << 32 | w.word[0]),
        static_cast<int>(w.word[2]), static_cast<int>(w.word[3])};
}

__device__ inline bool
both_inside(const problem<float> &p, const spot &a, const spot &b)
{
    return static_cast<unsigned>(a.y + b.y) < static_cast<unsigned>(p.rows) &&
           static_cast<unsigned>(a.x + b.x) < static_cast<unsigned>(p.columns);
}

// A thread's copies of a slab of the field. Along m it has one m, and each kStep-th k; along k one
// k, and each kStep-th m.
template <int kTile, bool kAlongK> struct field_copies {
    static constexpr int kAcross = kAlongK ? kSlab : kTile, kStep = kThreads / kAcross;
    static constexpr int kCount = (kAlongK ? kTile : kSlab) / kStep;
    static_assert(kThreads % kAcross == 0 && kCount * kStep * kAcross == kTile * kSlab, "whole");

    __device__ static void copy(
        const problem<float> &p, const float *field, const spot *m, const depth_spot *k,
        slab<kTile> &to)
    {
        int across = static_cast<int>(threadIdx.x) % kAcross;
        int first = static_cast<int>(threadIdx.x) / kAcross;
        spot own = read_spot(kAlongK ? k[across].in_field : m[across]);
#pragma unroll
        for (int i = 0; i < kCount; i++) {
            int other = first + i * kStep;
            spot its = read_spot(kAlongK ? m[other] : k[other].in_field);
            bool there = both_inside(p, own, its);
            float &word = kAlongK ? to.rows[across][other] : to.rows[other][across];
            copy_word(word, field + (there ? own.at + its.at : 0), there);
        }
    }
};

// Of the dense matrix, along k.
template <int kTile>
__device__ inline void
copy_dense(
    const problem<float> &p, const float *dense, int64_t n, const depth_spot *k, slab<kTile> &to)
{
    constexpr int kStep = kThreads / kSlab;
    int along = static_cast<int>(threadIdx.x) % kSlab,
        first = static_cast<int>(threadIdx.x) / kSlab;
    bool there = k[along].in_field.y != kNowhere;
    const float *from = dense + k[along].in_dense + first * p.dense_n;
#pragma unroll
    for (int i = 0; i < kTile / kStep; i++, from += kStep * p.dense_n) {
        bool inside = there && n + first + i * kStep < p.N;
        copy_word(to.rows[along][first + i * kStep], inside ? from : dense, inside);
    }
}

// ---- the kernel ---------------------------------------------------------------------------------

// Threads find what a chunk of k adds, from k on.
__device__ inline void
find_chunk(const problem<float> &p, const job &j, int64_t k, depth_spot *to)
{
    int lane = static_cast<int>(threadIdx.x);
    if (lane < kChunkSpots) {
        depth_spot s = {{0, kNowhere, 0}, 0};
        if (k + lane < j.end) {
            s.in_field = p.k.find(k + lane, s.in_dense);
        }
        to[lane] = s;
    }
}

template <int kTileM, int kTileN, bool kFieldAlongK>
__global__ void
__launch_bounds__(kThreads, 2) fma(const __grid_constant__ problem<float> p, int quads)
{
    using mine = share<kTileM, kTileN>;
    extern __shared__ __align__(kPackBytes) unsigned char bytes[];
    stages<kTileM, kTileN> &in = *reinterpret_cast<stages<kTileM, kTileN> *>(bytes);
    job j = job_of<kTileM, kTileN>(p);
    const float *dense = p.dense + j.group * p.dense_group + j.n * p.dense_n;
    find_rows(p, j, false, in.m);
    find_chunk(p, j, j.k, in.k[0]);
    __syncthreads();

    const float *field = p.field + j.group * p.field_group;
    const int64_t slabs = (j.end - j.k + kSlab - 1) / kSlab;
    int64_t asked = 0;
    int to = 0; // the stage of the next one that is asked for
    auto ask = [&] {
        if (asked < slabs) {
            int chunk = static_cast<int>(asked / kChunkSlabs % 2);
            const depth_spot *k = in.k[chunk] + asked % kChunkSlabs * kSlab;
            field_copies<kTileM, kFieldAlongK>::copy(p, field, in.m, k, in.field[to]);
            copy_dense(p, dense, j.n, k, in.dense[to]);
        }
        close_copies();
        asked++;
        to = to + 1 == kStages ? 0 : to + 1;
    };
    ask();
    ask();

    float sums[mine::kM][mine::kN] = {};
    int now = 0;
    for (int64_t s = 0; s < slabs; s++) {
        wait_for_copies();
        __syncthreads(); // slab s is there, and nobody reads the stage that is asked for next
        ask();
        if (s % kChunkSlabs == 0) { // the chunk before the present one is all asked for
            int64_t next = s / kChunkSlabs + 1;
            find_chunk(p, j, j.k + next * kChunkSpots, in.k[next % 2]);
        }
        multiply<kTileM, kTileN>(in.field[now], in.dense[now], sums);
        now = now + 1 == kStages ? 0 : now + 1;
    }
    if (p.parts) {
        store_parts<kTileM, kTileN>(p, j, sums);
        return;
    }
    __syncthreads();
    find_rows(p, j, true, in.m);
    __syncthreads();
    store<kTileM, kTileN>(p, j, in.m, quads, sums);
}

// ---- launching ----------------------------------------------------------------------------------

template <int kTileM, int kTileN>
aicf_status
launch_fma_shape(const problem<float> &p, const ways &w, aicf_stream stream)
{
    constexpr int kBytes = static_cast<int>(sizeof(stages<kTileM, kTileN>));
    auto kernel = w.field_along_k ? fma<kTileM, kTileN, true> : fma<kTileM, kTileN, false>;
    aicf_status status = allow_shared(kernel, kBytes);
    return status.kind ? status
                       : launch_tiles(kernel, p, kTileM, kTileN, kThreads, kBytes, stream, w.quads);
}

inline aicf_status
launch_fma(const problem<float> &p, const ways &w, aicf_stream stream)
{
    int processors = 0;
    aicf_status status = count_processors(&processors);
    if (status.kind) {
        return status;
    }
    int64_t square = cost_of<128, 128>(p, processors, 8), tall = cost_of<256, 64>(p, processors, 8);
    int64_t low = cost_of<128, 64>(p, processors, 11), small = cost_of<64, 64>(p, processors, 14);
    int64_t least = std::min({square, tall, low, small});
    return least == square ? launch_fma_shape<128, 128>(p, w, stream)
           : least == tall ? launch_fma_shape<256, 64>(p, w, stream)
           : least == low  ? launch_fma_shape<128, 64>(p, w, stream)
                           : launch_fma_shape<64, 64>(p, w, stream);
}

// By whichever of both.
template <typename T>
aicf_status
launch_multiplied(const problem<T> &p, aicf_stream stream)
{
    if constexpr (std::is_same_v<T, float>) {
        ways w = ways_of(p);
        if (w.dense_along_k && !reads_quads(p, w)) {
            aicf_status status = launch_fma(p, w, stream);
            return status.kind || !p.parts ? status : launch_sum_parts(p, stream);
        }
    }
    return launch_simt(p, stream);
}

} // namespace aicf::AICF_OP

#endif
