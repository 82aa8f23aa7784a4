// Products over all steps of recurrent layers at once, by multiply-adds of f32 and on any arch:
// what the inputs give to the gates, and the gradients of inputs, weights and biases. Any sizes, 0
// included, at any address. Bound by multiply-adds.
#ifndef AICF_RECURRENT_PRODUCT_CUH
#define AICF_RECURRENT_PRODUCT_CUH

#include "../gemm/tiles.cuh"

namespace aicf::AICF_OP {

using gemm::kSlab;
using gemm::kThreads;

// Element (x, k), x along m or n, lies at x * x_step + k * k_step; one of the two is 1.
template <typename T> struct factor {
    const T *data;
    int64_t x_step, k_step;
};

// out[m, n] = the sum over k of a(m, k) * b(n, k), + bias[n], + other[n] for n below `others`.
template <typename T, typename O> struct product {
    factor<T> a, b;
    int64_t M, N, K;
    O *out; // dense
    const T *bias, *other;
    int64_t others;
};

template <typename T, typename O>
__device__ inline float
bias_of(const product<T, O> &p, int64_t n)
{
    float sum = p.bias ? to_f32(p.bias[n]) : 0.0f;
    return p.other && n < p.others ? sum + to_f32(p.other[n]) : sum;
}

// A thread's share of a slab on its way: neighbours of the unit-stride dim to neighbouring threads.
template <typename T, int kTile> struct fetched {
    static constexpr int kCount = kTile * kSlab / kThreads;
    float held[kCount];

    __device__ static int x_of(bool along_k, int i)
    {
        int thread = static_cast<int>(threadIdx.x);
        return along_k ? thread / kSlab + i * (kThreads / kSlab) : thread % kTile;
    }

    __device__ static int k_of(bool along_k, int i)
    {
        int thread = static_cast<int>(threadIdx.x);
        return along_k ? thread % kSlab : thread / kTile + i * (kThreads / kTile);
    }

    // Elements outside are zeros.
    __device__ void fetch(const factor<T> &f, int64_t first, int64_t size, int64_t k, int64_t depth)
    {
        bool along_k = f.k_step == 1;
#pragma unroll
        for (int i = 0; i < kCount; i++) {
            int64_t x = first + x_of(along_k, i), at = k + k_of(along_k, i);
            held[i] = x < size && at < depth ? to_f32(f.data[x * f.x_step + at * f.k_step]) : 0.0f;
        }
    }

    __device__ void put(const factor<T> &f, gemm::slab<kTile> &to) const
    {
        bool along_k = f.k_step == 1;
#pragma unroll
        for (int i = 0; i < kCount; i++) {
            to.rows[k_of(along_k, i)][x_of(along_k, i)] = held[i];
        }
    }
};

template <typename T, typename O, int kTile>
__global__ void
__launch_bounds__(kThreads) multiply_add(const __grid_constant__ product<T, O> p, int64_t tiles_m)
{
    using mine = gemm::share<kTile, kTile>;
    __shared__ gemm::slab<kTile> a[2];
    __shared__ gemm::slab<kTile> b[2];
    int64_t m = blockIdx.x % tiles_m * kTile, n = blockIdx.x / tiles_m * kTile;
    float sums[mine::kM][mine::kN] = {};
    fetched<T, kTile> next_a, next_b;
    next_a.fetch(p.a, m, p.M, 0, p.K);
    next_b.fetch(p.b, n, p.N, 0, p.K);
    int now = 0;
    for (int64_t k = 0; k < p.K; k += kSlab, now ^= 1) {
        next_a.put(p.a, a[now]);
        next_b.put(p.b, b[now]);
        __syncthreads(); // two slabs: who writes one has seen all done with it two rounds ago
        next_a.fetch(p.a, m, p.M, k + kSlab, p.K);
        next_b.fetch(p.b, n, p.N, k + kSlab, p.K);
        gemm::multiply<kTile, kTile>(a[now], b[now], sums);
    }

#pragma unroll
    for (int j = 0; j < mine::kN; j++) {
        int64_t column = n + mine::column(j);
        float bias = column < p.N ? bias_of(p, column) : 0.0f;
#pragma unroll
        for (int i = 0; i < mine::kM; i++) {
            int64_t row = m + mine::row(i);
            if (row < p.M && column < p.N) {
                p.out[row * p.N + column] = of_f32<O>(sums[i][j] + bias);
            }
        }
    }
}

template <typename T, typename O, int kTile>
aicf_status
launch_tiles_of(const product<T, O> &p, aicf_stream stream)
{
    int64_t tiles_m = ceil_div(p.M, kTile), tiles = tiles_m * ceil_div(p.N, kTile);
    return tiles == 0 ? aicf_ok()
                      : launch(
                            multiply_add<T, O, kTile>, static_cast<unsigned>(tiles), kThreads, 0,
                            stream, p, tiles_m);
}

template <typename T, typename O>
aicf_status
multiply_any(const product<T, O> &p, aicf_stream stream)
{
    bool fills = ceil_div(p.M, 128) * ceil_div(p.N, 128) >= 128;
    return fills ? launch_tiles_of<T, O, 128>(p, stream) : launch_tiles_of<T, O, 64>(p, stream);
}

// ---- sums over rows -----------------------------------------------------------------------------

constexpr int kLanes = 32;

// out[w] = the sum of rows[.., w]: a column a lane, every 32nd row a warp, added in order.
template <typename T>
__global__ void
__launch_bounds__(kLanes *kLanes) sum_columns(const T *rows, int64_t count, int64_t width, T *out)
{
    __shared__ float parts[kLanes][kLanes];
    int lane = static_cast<int>(threadIdx.x) % kLanes,
        warp = static_cast<int>(threadIdx.x) / kLanes;
    int64_t column = static_cast<int64_t>(blockIdx.x) * kLanes + lane;
    float sum = 0.0f;
    if (column < width) {
#pragma unroll 8
        for (int64_t row = warp; row < count; row += kLanes) {
            sum += to_f32(rows[row * width + column]);
        }
    }
    parts[warp][lane] = sum;
    __syncthreads();
    if (warp == 0 && column < width) {
        sum = 0.0f;
        for (int i = 0; i < kLanes; i++) {
            sum += parts[i][lane];
        }
        out[column] = of_f32<T>(sum);
    }
}

template <typename T>
aicf_status
launch_sum_columns(const T *rows, int64_t count, int64_t width, T *out, aicf_stream stream)
{
    return !out || width == 0 ? aicf_ok()
                              : launch(
                                    sum_columns<T>, static_cast<unsigned>(ceil_div(width, kLanes)),
                                    kLanes * kLanes, 0, stream, rows, count, width, out);
}

// ---- turned weights -----------------------------------------------------------------------------

// to[c, r] = from[r, c], by tiles of 32 x 32.
template <typename T>
__global__ void
__launch_bounds__(kLanes *kLanes) turn(const T *from, int64_t rows, int64_t columns, T *to)
{
    __shared__ T tile[kLanes][kLanes + 1];
    int lane = static_cast<int>(threadIdx.x) % kLanes,
        line = static_cast<int>(threadIdx.x) / kLanes;
    int64_t across = (columns + kLanes - 1) / kLanes;
    int64_t row = blockIdx.x / across * kLanes, column = blockIdx.x % across * kLanes;
    if (row + line < rows && column + lane < columns) {
        tile[line][lane] = from[(row + line) * columns + column + lane];
    }
    __syncthreads();
    if (column + line < columns && row + lane < rows) {
        to[(column + line) * rows + row + lane] = tile[lane][line];
    }
}

template <typename T>
aicf_status
launch_turn(const T *from, int64_t rows, int64_t columns, T *to, aicf_stream stream)
{
    int64_t tiles = ceil_div(rows, kLanes) * ceil_div(columns, kLanes);
    return tiles == 0 ? aicf_ok()
                      : launch(
                            turn<T>, static_cast<unsigned>(tiles), kLanes * kLanes, 0, stream, from,
                            rows, columns, to);
}

} // namespace aicf::AICF_OP

#endif
