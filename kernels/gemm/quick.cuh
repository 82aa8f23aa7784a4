// gemm where M or N is 1 and the matrix is small (see gemm.cuh for the operands): any layout and
// alignment, f32 sums. Bound by latency: many blocks of few threads, each of which asks for all of
// its elements at once.
#ifndef AICF_GEMM_QUICK_CUH
#define AICF_GEMM_QUICK_CUH

#include "small.cuh"

namespace aicf::gemm {

constexpr int64_t kQuickBytes = 4 << 20; // of the matrix
constexpr int kQuickLoads = 8;           // of it, a thread, on their way at once
constexpr int kQuickBlocks = 264;        // two a multiprocessor of a large machine

// The matrix times the vector, as one problem: element (x, k) of the matrix is (x, k) of a or (k,
// x) of b, of the vector k.
template <typename T> struct quick {
    small_problem<T> p;
    const T *matrix, *vector;
    int size, pitch, step; // of x; pitch is along the dim without unit stride
};

template <typename T>
__device__ inline addend
addend_of(const quick<T> &q, int x)
{
    return q.p.N == 1 ? addend_at(q.p, x, 0) : addend_at(q.p, 0, x);
}

template <typename T>
__device__ inline void
store_quick(const quick<T> &q, int x, float sum, const addend &more)
{
    T *to = q.p.N == 1 ? at(q.p.out, x, q.p.out_m) : q.p.out + x;
    *to = of_f32<T>(finish_small(q.p, sum, more));
}

// kVector elements that lie together, as they are in memory.
template <typename T, int kVector> struct lane_words {
    words held;

    __device__ void load(const T *from)
    {
        held = load_words(from);
    }

    __device__ void get(float (&x)[kVector]) const
    {
        unpack(held, x, T{});
    }
};

template <typename T> struct lane_words<T, 1> {
    T held;

    __device__ void load(const T *from)
    {
        held = *from;
    }

    __device__ void get(float (&x)[1]) const
    {
        x[0] = to_f32(held);
    }
};

// ---- x lies together ----------------------------------------------------------------------------

constexpr int kColumnsThreads = 256;

// A block makes kAcross * kVector elements: kAcross lanes read that much of a k, the others read
// other k.
template <typename T, int kVector, int kAcross>
__global__ void
__launch_bounds__(kColumnsThreads) quick_columns(const __grid_constant__ quick<T> q)
{
    constexpr int kColumns = kAcross * kVector, kRows = kColumnsThreads / kAcross;
    constexpr int kWarps = kColumnsThreads / kLanes;
    __shared__ __align__(16) float sums[kColumns][kWarps];
    int thread = static_cast<int>(threadIdx.x), row = thread / kAcross;
    int first = static_cast<int>(blockIdx.x) * kColumns, x = first + thread % kAcross * kVector;
    const T *from = at(q.matrix + x, row, q.pitch);
    int64_t pitch = static_cast<int64_t>(kRows) * q.pitch;
    int factor = row * q.step;
    ptx::let_next_launch_begin();
    ptx::wait_for_launch_before();

    bool ends = thread < kColumns && first + thread < q.size;
    addend more = {};
    if (ends) {
        more = addend_of(q, first + thread);
    }
    float sum[kVector] = {};
    // Of the k of this thread, how many are left.
    int left = x < q.size && row < q.p.K ? (q.p.K - row - 1) / kRows + 1 : 0;
    for (; left > 0; left -= kQuickLoads) {
        lane_words<T, kVector> came[kQuickLoads];
        T y[kQuickLoads];
#pragma unroll
        for (int u = 0; u < kQuickLoads; u++) {
            if (u < left) {
                came[u].load(from + u * pitch);
                y[u] = q.vector[factor + u * kRows * q.step];
            }
        }
#pragma unroll
        for (int u = 0; u < kQuickLoads; u++) {
            if (u < left) {
                float lanes[kVector];
                came[u].get(lanes);
#pragma unroll
                for (int i = 0; i < kVector; i++) {
                    sum[i] += lanes[i] * to_f32(y[u]);
                }
            }
        }
        from += kQuickLoads * pitch;
        factor += kQuickLoads * kRows * q.step;
    }

    fold<kAcross>(sum);
    folded<kVector, kAcross> mine;
#pragma unroll
    for (int i = 0; i < mine.kHeld; i++) {
        if (mine.first + i < mine.end) {
            sums[thread % kAcross * kVector + mine.first + i][thread / kLanes] = sum[i];
        }
    }
    __syncthreads();
    if (ends) {
        float all = 0.0f;
#pragma unroll
        for (int warp = 0; warp < kWarps; warp++) {
            all += sums[thread][warp];
        }
        store_quick(q, first + thread, all, more);
    }
}

// ---- k lies together ----------------------------------------------------------------------------

constexpr int kRowsThreads = 128;

// kOfRow lanes make an element. Vectors of more than one require all of both to lie on their size,
// and the vector's elements to be neighbours.
template <typename T, int kVector, int kOfRow>
__global__ void
__launch_bounds__(kRowsThreads) quick_rows(const __grid_constant__ quick<T> q)
{
    constexpr int kStep = kOfRow * kVector;
    int thread = static_cast<int>(threadIdx.x), k = thread % kOfRow * kVector;
    int x = static_cast<int>(blockIdx.x) * (kRowsThreads / kOfRow) + thread / kOfRow;
    const T *from = at(q.matrix, x, q.pitch) + k;
    int step = kVector > 1 ? 1 : q.step, factor = k * step;
    ptx::let_next_launch_begin();
    ptx::wait_for_launch_before();

    bool ends = thread % kOfRow == 0 && x < q.size;
    addend more = {};
    if (ends) {
        more = addend_of(q, x);
    }
    float sum[1] = {};
    int left = x < q.size && k < q.p.K ? (q.p.K - k - 1) / kStep + 1 : 0;
    for (; left > 0; left -= kQuickLoads) {
        lane_words<T, kVector> came[kQuickLoads], y[kQuickLoads];
#pragma unroll
        for (int u = 0; u < kQuickLoads; u++) {
            if (u < left) {
                came[u].load(from + u * kStep);
                y[u].load(q.vector + factor + u * kStep * step);
            }
        }
#pragma unroll
        for (int u = 0; u < kQuickLoads; u++) {
            if (u < left) {
                float lanes[kVector], factors[kVector];
                came[u].get(lanes);
                y[u].get(factors);
#pragma unroll
                for (int i = 0; i < kVector; i++) {
                    sum[0] += lanes[i] * factors[i];
                }
            }
        }
        from += kQuickLoads * kStep;
        factor += kQuickLoads * kStep * step;
    }
#pragma unroll
    for (int distance = kOfRow / 2; distance > 0; distance /= 2) {
        sum[0] += __shfl_xor_sync(0xffffffff, sum[0], distance);
    }
    if (ends) {
        store_quick(q, x, sum[0], more);
    }
}

// ---- launches -----------------------------------------------------------------------------------

template <typename T>
bool
takes_quick(const problem<T> &p)
{
    int64_t most = kQuickBytes / static_cast<int64_t>(sizeof(T));
    int64_t size = p.N == 1 ? p.M : p.N;
    if (!is_small(p) || size > most || p.K > most || size * p.K > most) {
        return false;
    }
    // Places in the vector are of 32 bits, with what a thread asks for behind its end too.
    small_problem<T> s = small_of(p);
    int64_t step = p.N == 1 ? s.b_k : s.a_k;
    return fits_32_bits((p.K + kQuickLoads * kColumnsThreads) * step) &&
           fits_32_bits((p.K + kQuickLoads * kColumnsThreads) * -step);
}

template <typename T>
aicf_status
launch_quick(const problem<T> &p, aicf_stream stream)
{
    constexpr int kPack = kPackSize<T>;
    bool of_a = p.N == 1, along_k = of_a ? p.a_along_k : p.b_along_k;
    quick<T> q = {small_of(p)};
    q.matrix = of_a ? p.a : p.b;
    q.vector = of_a ? p.b : p.a;
    q.size = of_a ? q.p.M : q.p.N;
    q.pitch = static_cast<int>(of_a ? p.a_pitch : p.b_pitch);
    q.step = of_a ? q.p.b_k : q.p.a_k;
    bool packs = reinterpret_cast<uintptr_t>(q.matrix) % kPackBytes == 0 && q.pitch % kPack == 0;
    auto blocks = [&](int each) { return static_cast<unsigned>(ceil_div(q.size, each)); };
    if (along_k) {
        packs = packs && q.p.K % kPack == 0 && q.step == 1 &&
                reinterpret_cast<uintptr_t>(q.vector) % kPackBytes == 0;
        auto launch_rows = [&](void (*kernel)(quick<T>), int lanes) {
            return launch_waiting(kernel, blocks(kRowsThreads / lanes), kRowsThreads, 0, stream, q);
        };
        return packs         ? launch_rows(quick_rows<T, kPack, 32>, 32)
               : q.p.K <= 64 ? launch_rows(quick_rows<T, 1, 8>, 8)
                             : launch_rows(quick_rows<T, 1, 32>, 32);
    }
    auto launch_columns = [&](void (*kernel)(quick<T>), int each) {
        return launch_waiting(kernel, blocks(each), kColumnsThreads, 0, stream, q);
    };
    if (packs && q.size % kPack == 0) {
        return launch_columns(quick_columns<T, kPack, 2>, 2 * kPack);
    }
    return blocks(1) <= kQuickBlocks ? launch_columns(quick_columns<T, 1, 1>, 1)
                                     : launch_columns(quick_columns<T, 1, 4>, 4);
}

} // namespace aicf::gemm

#endif
