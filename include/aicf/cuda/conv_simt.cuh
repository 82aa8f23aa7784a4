// Convolutions without matrix units (see conv.cuh): f32, f16 and bf16, any strides and alignment;
// accumulated in f32 by multiply-adds.
//
// A block makes a tile of the out from k-slabs of both matrices that lie in shared memory as f32, k
// outermost: the next slab is on its way to registers while the present one is multiplied. What the
// tile's m and the slab's k add to places in the field is found once and lies in shared memory too.
// Bound by multiply-adds where M and N fill tiles.
#ifndef AICF_CUDA_CONV_SIMT_CUH
#define AICF_CUDA_CONV_SIMT_CUH

#include <algorithm>

#include <aicf/cuda/conv.cuh>

namespace aicf::AICF_OP {

constexpr int kThreads = 256;
constexpr int kSlab = 16;  // k
constexpr int kSpots = 32; // k whose spots are found at once, by as many threads
constexpr int kQuad = 4;   // elements that a thread reads from shared memory at once
// One quad more than a row keeps rows on 16 bytes and halves the conflicts of stores along k.
constexpr int kPad = 4;
// Lanes of a warp over its part of the tile; each makes quads x quads of 4 x 4.
constexpr int kLanesM = 8, kLanesN = 4;

template <int kTile> struct slab {
    float rows[kSlab][kTile + kPad];
};

// What an index k adds in the field, and in the dense matrix.
struct alignas(16) depth_spot {
    spot in_field;
    int64_t in_dense;
};

template <int kTileM, int kTileN> struct room {
    slab<kTileM> field[2];
    slab<kTileN> dense[2];
    spot m[kTileM]; // at last, `at` is the place in the out
    depth_spot k[2][kSpots];

    // Those of a slab: two halves take turns.
    __device__ const depth_spot *spots(int slab) const
    {
        constexpr int kSlabs = kSpots / kSlab;
        return k[slab / kSlabs % 2] + slab % kSlabs * kSlab;
    }
};

// How a matrix is read: which index neighbouring threads take.
struct ways {
    bool field_along_k, dense_along_k;
    int quads; // of the out: along m or n, or kNone
};
enum { kNone, kAlongM, kAlongN };

template <typename T, int kTile, int kVector> struct carried {
    static constexpr int kCount = kTile * kSlab / kThreads / kVector;
    static_assert(kCount * kVector * kThreads == kTile * kSlab, "a slab is carried whole");
    pack<T, kVector> held[kCount];
};

struct place {
    int x, k; // x: m or n
};

template <int kTile, int kVector>
__device__ inline place
place_of(int vector, bool along_k)
{
    if (along_k) {
        return {vector / (kSlab / kVector), vector % (kSlab / kVector) * kVector};
    }
    return {vector % kTile, vector / kTile};
}

template <typename T, int kVector>
__device__ inline pack<T, kVector>
zeros()
{
    pack<T, kVector> z;
#pragma unroll
    for (int lane = 0; lane < kVector; lane++) {
        z.lane[lane] = of_f32<T>(0.0f);
    }
    return z;
}

template <typename T, int kTile, int kVector>
__device__ inline void
fetch_field(
    const problem<T> &p, const T *field, const spot *m, const depth_spot *k, bool along_k,
    carried<T, kTile, kVector> &c)
{
#pragma unroll
    for (int i = 0; i < c.kCount; i++) {
        place at = place_of<kTile, kVector>(threadIdx.x + i * kThreads, along_k);
        spot a = m[at.x], b = k[at.k].in_field;
        bool inside = static_cast<unsigned>(a.y + b.y) < static_cast<unsigned>(p.rows) &&
                      static_cast<unsigned>(a.x + b.x) < static_cast<unsigned>(p.columns);
        c.held[i] = inside ? load_pack<T, kVector>(field + a.at + b.at) : zeros<T, kVector>();
    }
}

template <typename T, int kTile, int kVector>
__device__ inline void
fetch_dense(
    const problem<T> &p, const T *dense, int64_t n, const depth_spot *k, bool along_k,
    carried<T, kTile, kVector> &c)
{
#pragma unroll
    for (int i = 0; i < c.kCount; i++) {
        place at = place_of<kTile, kVector>(threadIdx.x + i * kThreads, along_k);
        bool inside = n + at.x < p.N && k[at.k].in_field.y != kNowhere;
        c.held[i] = inside ? load_pack<T, kVector>(dense + at.x * p.dense_n + k[at.k].in_dense)
                           : zeros<T, kVector>();
    }
}

template <typename T, int kTile, int kVector>
__device__ inline void
put(const carried<T, kTile, kVector> &c, bool along_k, slab<kTile> &to)
{
#pragma unroll
    for (int i = 0; i < c.kCount; i++) {
        place at = place_of<kTile, kVector>(threadIdx.x + i * kThreads, along_k);
#pragma unroll
        for (int lane = 0; lane < kVector; lane++) {
            to.rows[at.k + lane][at.x] = to_f32(c.held[i].lane[lane]);
        }
    }
}

// A thread's share of the tile: sums[i][j] is at row(i), column(j) of it.
template <int kTileM, int kTileN> struct share {
    static constexpr int kWarpsM = kTileM > 128 ? 4 : 2, kWarpsN = kThreads / 32 / kWarpsM;
    static constexpr int kM = kTileM / (kWarpsM * kLanesM), kN = kTileN / (kWarpsN * kLanesN);
    static_assert(kM % kQuad == 0 && kN % kQuad == 0, "whole quads");

    __device__ static int row(int i)
    {
        int warp = threadIdx.x / 32 / kWarpsN, lane = threadIdx.x % 32 % kLanesM;
        return warp * (kTileM / kWarpsM) + i / kQuad * (kLanesM * kQuad) + lane * kQuad + i % kQuad;
    }

    __device__ static int column(int j)
    {
        int warp = threadIdx.x / 32 % kWarpsN, lane = threadIdx.x % 32 / kLanesM;
        return warp * (kTileN / kWarpsN) + j / kQuad * (kLanesN * kQuad) + lane * kQuad + j % kQuad;
    }
};

template <int kTileM, int kTileN, int kM, int kN>
__device__ inline void
multiply(const slab<kTileM> &a, const slab<kTileN> &b, float (&sums)[kM][kN])
{
    using mine = share<kTileM, kTileN>;
#pragma unroll
    for (int k = 0; k < kSlab; k++) {
        pack<float, kQuad> x[kM / kQuad], y[kN / kQuad];
#pragma unroll
        for (int i = 0; i < kM; i += kQuad) {
            x[i / kQuad] = load_pack<float, kQuad>(&a.rows[k][mine::row(i)]);
        }
#pragma unroll
        for (int j = 0; j < kN; j += kQuad) {
            y[j / kQuad] = load_pack<float, kQuad>(&b.rows[k][mine::column(j)]);
        }
#pragma unroll
        for (int i = 0; i < kM; i++) {
#pragma unroll
            for (int j = 0; j < kN; j++) {
                sums[i][j] += x[i / kQuad].lane[i % kQuad] * y[j / kQuad].lane[j % kQuad];
            }
        }
    }
}

// ---- store --------------------------------------------------------------------------------------

// A quad of the out, `step` elements apart, of which `inside` exist.
template <typename T>
__device__ inline void
store_quad(T *out, int64_t step, const float (&x)[kQuad], int64_t inside, bool whole)
{
    if (whole && inside >= kQuad) {
        pack<T, kQuad> q;
#pragma unroll
        for (int lane = 0; lane < kQuad; lane++) {
            q.lane[lane] = of_f32<T>(x[lane]);
        }
        store_pack(out, q);
        return;
    }
#pragma unroll
    for (int lane = 0; lane < kQuad; lane++) {
        if (lane < inside) {
            out[lane * step] = of_f32<T>(x[lane]);
        }
    }
}

template <int kTileM, int kTileN, typename T, int kM, int kN>
__device__ inline void
store_parts(const problem<T> &p, const job &j, const float (&sums)[kM][kN])
{
    using mine = share<kTileM, kTileN>;
    float *parts = p.parts + ((j.split * p.groups + j.group) * p.N + j.n) * p.M + j.m;
#pragma unroll
    for (int n = 0; n < kN; n++) {
#pragma unroll
        for (int m = 0; m < kM; m += kQuad) {
            int row = mine::row(m), column = mine::column(n);
            if (j.n + column < p.N) {
                float x[kQuad] = {sums[m][n], sums[m + 1][n], sums[m + 2][n], sums[m + 3][n]};
                store_quad(parts + column * p.M + row, 1, x, p.M - j.m - row, p.M % kQuad == 0);
            }
        }
    }
}

template <int kTileM, int kTileN, typename T, int kM, int kN>
__device__ inline void
store(const problem<T> &p, const job &j, const spot *where, int quads, float (&sums)[kM][kN])
{
    using mine = share<kTileM, kTileN>;
    T *out = p.out + j.group * p.out_group + j.n * p.out_n;
    if (p.bias) {
#pragma unroll
        for (int n = 0; n < kN; n++) {
            int64_t at = j.n + mine::column(n);
            float bias = at < p.N ? to_f32(p.bias[j.group * p.N + at]) : 0.0f;
#pragma unroll
            for (int m = 0; m < kM; m++) {
                sums[m][n] += bias;
            }
        }
    }
    if (quads == kAlongM) {
#pragma unroll
        for (int n = 0; n < kN; n++) {
#pragma unroll
            for (int m = 0; m < kM; m += kQuad) {
                int row = mine::row(m), column = mine::column(n);
                if (j.n + column < p.N && j.m + row < p.M) { // M is of whole quads
                    float x[kQuad] = {sums[m][n], sums[m + 1][n], sums[m + 2][n], sums[m + 3][n]};
                    store_quad(out + where[row].at + column * p.out_n, 1, x, kQuad, true);
                }
            }
        }
        return;
    }
#pragma unroll
    for (int m = 0; m < kM; m++) {
#pragma unroll
        for (int n = 0; n < kN; n += kQuad) {
            int row = mine::row(m), column = mine::column(n);
            if (j.m + row < p.M) {
                float x[kQuad] = {sums[m][n], sums[m][n + 1], sums[m][n + 2], sums[m][n + 3]};
                store_quad(
                    out + where[row].at + column * p.out_n, p.out_n, x, p.N - j.n - column,
                    quads == kAlongN);
            }
        }
    }
}

// ---- the kernel ---------------------------------------------------------------------------------

// Threads find what kSpots k add, from k on.
template <typename T>
__device__ inline void
find_depth(const problem<T> &p, const job &j, int64_t k, depth_spot *to)
{
    int lane = static_cast<int>(threadIdx.x);
    if (lane < kSpots) {
        depth_spot s = {{0, kNowhere, 0}, 0};
        if (k + lane < j.end) {
            s.in_field = p.k.find(k + lane, s.in_dense);
        }
        to[lane] = s;
    }
}

// A thread finds what its m adds in the field, or where it is in the out.
template <typename T, int kTileM>
__device__ inline void
find_rows(const problem<T> &p, const job &j, bool in_out, spot (&to)[kTileM])
{
    static_assert(kTileM <= kThreads, "a thread a row");
    if (threadIdx.x < kTileM) {
        spot s = {0, kNowhere, 0};
        if (j.m + threadIdx.x < p.M) {
            int64_t where;
            s = p.m.find(j.m + threadIdx.x, where);
            s.at = in_out ? where : s.at;
        }
        to[threadIdx.x] = s;
    }
}

// kVector > 1: both matrices are read along k, whose indices come in whole vectors of neighbours.
// kBlocks on a multiprocessor: two hide more latency than is lost by what they spill; one where the
// tiles are too few for two.
template <typename T, int kTileM, int kTileN, int kVector, int kBlocks>
__global__ void
__launch_bounds__(kThreads, kBlocks) simt(const __grid_constant__ problem<T> p, ways w)
{
    using mine = share<kTileM, kTileN>;
    __shared__ room<kTileM, kTileN> in;
    job j = job_of<kTileM, kTileN>(p);
    const T *field = p.field + j.group * p.field_group;
    const T *dense = p.dense + j.group * p.dense_group + j.n * p.dense_n;
    bool field_along = kVector > 1 || w.field_along_k, dense_along = kVector > 1 || w.dense_along_k;
    find_rows(p, j, false, in.m);
    find_depth(p, j, j.k, in.k[0]);
    __syncthreads();

    float sums[mine::kM][mine::kN] = {};
    carried<T, kTileM, kVector> next_field;
    carried<T, kTileN, kVector> next_dense;
    if (j.k < j.end) {
        fetch_field(p, field, in.m, in.spots(0), field_along, next_field);
        fetch_dense(p, dense, j.n, in.spots(0), dense_along, next_dense);
        put(next_field, field_along, in.field[0]);
        put(next_dense, dense_along, in.dense[0]);
    }
    __syncthreads();

    int slab = 0;
    for (int64_t k = j.k; k < j.end; k += kSlab, slab++) {
        int now = slab % 2;
        bool more = k + kSlab < j.end;
        if (more) {
            fetch_field(p, field, in.m, in.spots(slab + 1), field_along, next_field);
            fetch_dense(p, dense, j.n, in.spots(slab + 1), dense_along, next_dense);
        }
        if (slab % (kSpots / kSlab) == 0) { // nobody reads the other half any more
            find_depth(p, j, k + kSpots, in.k[slab / (kSpots / kSlab) % 2 ^ 1]);
        }
        multiply<kTileM, kTileN>(in.field[now], in.dense[now], sums);
        if (more) {
            put(next_field, field_along, in.field[now ^ 1]);
            put(next_dense, dense_along, in.dense[now ^ 1]);
        }
        __syncthreads();
    }
    if (p.parts) {
        store_parts<kTileM, kTileN>(p, j, sums);
        return;
    }
    find_rows(p, j, true, in.m);
    __syncthreads();
    store<kTileM, kTileN>(p, j, in.m, w.quads, sums);
}

// ---- launching ----------------------------------------------------------------------------------

template <typename T>
bool
is_aligned(const T *p, int count)
{
    return reinterpret_cast<uintptr_t>(p) % (count * sizeof(T)) == 0;
}

// Whether indices come in whole quads: whose first digit lies side by side, with all else at
// multiples of four.
inline bool
in_quads(const walk &w, const int64_t *strides)
{
    return w.inner.size % kQuad == 0 && strides[0] == 1 && strides[1] % kQuad == 0 &&
           strides[2] % kQuad == 0;
}

// Rows of the out that follow each other are one row.
inline bool
places_in_quads(const walk &w)
{
    int64_t row = w.inner.size, image = row * w.middle.size;
    bool flat = w.other[0] == 1 && w.other[1] == row && image % kQuad == 0;
    return flat && (w.count == image || w.other[2] % kQuad == 0);
}

template <typename T>
ways
ways_of(const problem<T> &p)
{
    ways w = {};
    w.field_along_k = p.channels_inside != p.over_places;
    w.dense_along_k = p.dense_n != 1;
    bool along_n = p.out_n == 1 && p.N % kQuad == 0 && p.m.other[0] % kQuad == 0 &&
                   p.m.other[1] % kQuad == 0 && p.m.other[2] % kQuad == 0;
    bool along_m = (in_quads(p.m, p.m.other) || places_in_quads(p.m)) && p.out_n % kQuad == 0 &&
                   p.out_group % kQuad == 0;
    if (is_aligned(p.out, kQuad)) {
        w.quads = along_n && p.out_group % kQuad == 0 ? kAlongN : along_m ? kAlongM : kNone;
    }
    return w;
}

template <typename T>
bool
reads_quads(const problem<T> &p, const ways &w)
{
    const walk &m = p.m;
    bool places = m.field[0] % kQuad == 0 && m.field[1] % kQuad == 0 && m.field[2] % kQuad == 0 &&
                  m.at % kQuad == 0;
    return w.field_along_k && w.dense_along_k && in_quads(p.k, p.k.field) &&
           in_quads(p.k, p.k.other) && places && p.k.at % kQuad == 0 && p.dense_n % kQuad == 0 &&
           p.field_group % kQuad == 0 && p.dense_group % kQuad == 0 && p.depth % kQuad == 0 &&
           is_aligned(p.field, kQuad) && is_aligned(p.dense, kQuad);
}

template <typename T, int kTileM, int kTileN, int kVector, int kBlocks>
aicf_status
launch_simt_tile(const problem<T> &p, const ways &w, aicf_stream stream)
{
    return launch_tiles(
        simt<T, kTileM, kTileN, kVector, kBlocks>, p, kTileM, kTileN, kThreads, 0, stream, w);
}

template <int kTileM, int kTileN, typename T>
int64_t
count_tiles(const problem<T> &p)
{
    return ceil_div(p.M, kTileM) * ceil_div(p.N, kTileN) * p.groups * p.splits;
}

template <typename T, int kTileM, int kTileN>
aicf_status
launch_simt_shape(const problem<T> &p, const ways &w, int processors, aicf_stream stream)
{
    if (reads_quads(p, w)) {
        return launch_simt_tile<T, kTileM, kTileN, kQuad, 2>(p, w, stream);
    }
    if constexpr (kTileM * kTileN > 8192) {
        if (count_tiles<kTileM, kTileN>(p) <= processors) {
            return launch_simt_tile<T, kTileM, kTileN, 1, 1>(p, w, stream);
        }
    }
    return launch_simt_tile<T, kTileM, kTileN, 1, 2>(p, w, stream);
}

// What tiles cost: as many as the fullest of the multiprocessors has, by their size
// and by what a product of theirs costs beside the larger ones', in eighths.
template <int kTileM, int kTileN, typename T>
int64_t
cost_of(const problem<T> &p, int processors, int64_t eighths)
{
    return ceil_div(count_tiles<kTileM, kTileN>(p), processors) * kTileM * kTileN * eighths;
}

template <typename T>
aicf_status
launch_simt(const problem<T> &p, aicf_stream stream)
{
    ways w = ways_of(p);
    int processors = 0;
    aicf_status status = count_processors(&processors);
    if (status.kind) {
        return status;
    }
    int64_t square = cost_of<128, 128>(p, processors, 8), tall = cost_of<256, 64>(p, processors, 8);
    int64_t low = cost_of<128, 64>(p, processors, 11), small = cost_of<64, 64>(p, processors, 14);
    int64_t least = std::min({square, tall, low, small});
    status = least == square ? launch_simt_shape<T, 128, 128>(p, w, processors, stream)
             : least == tall ? launch_simt_shape<T, 256, 64>(p, w, processors, stream)
             : least == low  ? launch_simt_shape<T, 128, 64>(p, w, processors, stream)
                             : launch_simt_shape<T, 64, 64>(p, w, processors, stream);
    return status.kind || !p.parts ? status : launch_sum_parts(p, stream);
}

} // namespace aicf::AICF_OP

#endif
