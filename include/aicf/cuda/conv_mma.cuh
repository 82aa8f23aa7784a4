// Convolutions on the matrix units of sm_80 and later (see conv.cuh, and mma.cuh for the tiles):
// f16 and bf16, f32 sums, all tensors dense with the channels innermost. Requires channels and
// outputs of a group in eights, and addresses on multiples of 16 bytes.
//
// A block makes a tile of the out from k-slabs in shared memory, which asynchronous copies bring
// from where they lie: 16 bytes are eight channels of one element of the field. Bound by the matrix
// units where tiles are full and deep, by bytes where windows are of one element.
#ifndef AICF_CUDA_CONV_MMA_CUH
#define AICF_CUDA_CONV_MMA_CUH

#include <aicf/cuda/conv.cuh>
#include <aicf/cuda/mma.cuh>

namespace aicf::AICF_OP {

using units::kChunk;
using units::kWarp;

// ---- walks in chunks ----------------------------------------------------------------------------

// conv.cuh's walks with distances in chunks of eight elements, so that 32 bits hold them. Indices
// are below 2^31.
struct chunk_spot {
    int at, y, x;
};
constexpr chunk_spot kOutside = {0, kNowhere, 0};

struct place_walk {
    divider columns, rows;
    int at, field[3], other[3]; // column, row, image
    int y, x, step_y, step_x;

    __device__ chunk_spot in_field(int64_t i) const
    {
        uint32_t rest = static_cast<uint32_t>(i);
        int column = static_cast<int>(take_digit(rest, columns));
        int row = static_cast<int>(take_digit(rest, rows)), image = static_cast<int>(rest);
        return {
            at + column * field[0] + row * field[1] + image * field[2], y + row * step_y,
            x + column * step_x};
    }

    __device__ int in_out(int64_t i) const
    {
        uint32_t rest = static_cast<uint32_t>(i);
        int column = static_cast<int>(take_digit(rest, columns));
        int row = static_cast<int>(take_digit(rest, rows)), image = static_cast<int>(rest);
        return column * other[0] + row * other[1] + image * other[2];
    }
};

struct tap_walk {
    divider channels, columns;
    int field[2], other[3]; // column, row; channel, column, row
    int taps_x, taps_y, step_y, step_x;

    __device__ chunk_spot in_field(int channel, int tap_x, int tap_y) const
    {
        return {
            channel / kChunk + tap_x * field[0] + tap_y * field[1], tap_y * step_y, tap_x * step_x};
    }

    // Of the chunk that begins at index i.
    __device__ chunk_spot in_field(int64_t i) const
    {
        uint32_t rest = static_cast<uint32_t>(i);
        int channel = static_cast<int>(take_digit(rest, channels));
        int tap_x = static_cast<int>(take_digit(rest, columns));
        return in_field(channel, tap_x, static_cast<int>(rest));
    }

    __device__ int in_factor(int64_t i) const
    {
        uint32_t rest = static_cast<uint32_t>(i);
        int channel = static_cast<int>(take_digit(rest, channels));
        int tap_x = static_cast<int>(take_digit(rest, columns)), tap_y = static_cast<int>(rest);
        return channel * other[0] + tap_x * other[1] + tap_y * other[2];
    }
};

struct walks {
    place_walk places;
    tap_walk taps;
};

template <typename T>
walks
walks_of(const problem<T> &p)
{
    const walk &m = p.over_places ? p.k : p.m, &k = p.over_places ? p.m : p.k;
    walks w = {};
    w.places.columns = m.inner.by;
    w.places.rows = m.middle.by;
    w.places.at = static_cast<int>(m.at / kChunk);
    w.taps.channels = k.inner.by;
    w.taps.columns = k.middle.by;
    for (int d = 0; d < 3; d++) {
        w.places.field[d] = static_cast<int>(m.field[d] / kChunk);
        w.places.other[d] = static_cast<int>(m.other[d] / kChunk);
        w.taps.other[d] = static_cast<int>(k.other[d] / kChunk);
    }
    w.taps.field[0] = static_cast<int>(k.field[1] / kChunk);
    w.taps.field[1] = static_cast<int>(k.field[2] / kChunk);
    w.places.y = m.y;
    w.places.x = m.x;
    w.places.step_y = m.step_y[1];
    w.places.step_x = m.step_x[0];
    w.taps.step_y = k.step_y[2];
    w.taps.step_x = k.step_x[1];
    w.taps.taps_y = p.taps_y;
    w.taps.taps_x = static_cast<int>(k.middle.size);
    return w;
}

// ---- copies -------------------------------------------------------------------------------------

__device__ inline bool
is_inside(int y, int x, int rows, int columns)
{
    return static_cast<unsigned>(y) < static_cast<unsigned>(rows) &&
           static_cast<unsigned>(x) < static_cast<unsigned>(columns);
}

// As unsigned: two that are nowhere are there neither.
__device__ inline int
add_rows(int a, int b)
{
    return static_cast<int>(static_cast<unsigned>(a) + static_cast<unsigned>(b));
}

// Nothing is read of what is not there, but its address has to be a valid one.
template <typename T>
__device__ inline void
copy_chunk(uint32_t to, const T *base, int at, bool there)
{
    ptx::copy_async_16(
        to, base + static_cast<int64_t>(there ? at : 0) * kChunk, there ? units::kChunkBytes : 0);
}

// One thread's copies of a slab of kRows rows of kChunks chunks: always the same chunk of every
// kStride-th row.
template <int kRows, int kChunks_, int kThreads> struct share_of_slab {
    static constexpr int kChunks = kChunks_, kStride = kThreads / kChunks;
    static constexpr int kCount = kRows / kStride;
    static_assert(kThreads % kChunks == 0 && kRows % kStride == 0, "whole rows");

    __device__ static int chunk()
    {
        return static_cast<int>(threadIdx.x) % kChunks;
    }

    __device__ static int row(int i)
    {
        return static_cast<int>(threadIdx.x) / kChunks + i * kStride;
    }

    __device__ static uint32_t offset(int i)
    {
        return units::chunk_offset<kChunks>(row(i), chunk());
    }
};

// ---- slabs of the field -------------------------------------------------------------------------

// Over taps: rows of the slab are places, their chunks are channels at one tap. Taps follow each
// other as the slabs do.
template <typename T, typename S> struct gathered_rows {
    using mine = share_of_slab<S::kTileM, S::kSlab / kChunk, S::kThreads>;
    static constexpr int kCount = mine::kCount;

    const problem<T> &p;
    const tap_walk &taps;
    const T *field;
    chunk_spot place[kCount], tap;
    int channel, tap_y, tap_x; // of the chunk

    __device__ gathered_rows(const problem<T> &p, const walks &w, const job &j)
        : p(p), taps(w.taps), field(p.field + j.group * p.field_group)
    {
#pragma unroll
        for (int i = 0; i < kCount; i++) {
            int64_t m = j.m + mine::row(i);
            place[i] = m < p.M ? w.places.in_field(m) : kOutside;
        }
        channel = mine::chunk() * kChunk;
        tap_y = tap_x = 0;
        find_tap();
    }

    __device__ void find_tap()
    {
        int channels = static_cast<int>(taps.channels.divisor);
        while (channel >= channels && tap_y < taps.taps_y) {
            channel -= channels;
            if (++tap_x == taps.taps_x) {
                tap_x = 0;
                tap_y++;
            }
        }
        tap = taps.in_field(channel, tap_x, tap_y);
        tap.y = tap_y < taps.taps_y ? tap.y : kNowhere;
    }

    __device__ void copy(int i, uint32_t to) const
    {
        copy_chunk(
            to + mine::offset(i), field, place[i].at + tap.at,
            is_inside(add_rows(place[i].y, tap.y), place[i].x + tap.x, p.rows, p.columns));
    }

    __device__ void advance()
    {
        channel += S::kSlab;
        find_tap();
    }
};

// Over places: rows of the slab are places, their chunks are channels at a tap of their own.
template <typename T, typename S> struct gathered_columns {
    using mine = share_of_slab<S::kSlab, S::kTileN / kChunk, S::kThreads>;
    static constexpr int kCount = mine::kCount;

    const problem<T> &p;
    const place_walk &places;
    const T *field;
    chunk_spot tap;
    int64_t k, end;

    __device__ gathered_columns(const problem<T> &p, const walks &w, const job &j)
        : p(p), places(w.places), field(p.field + j.group * p.field_group), k(j.k), end(j.end)
    {
        int64_t m = j.m + mine::chunk() * kChunk;
        tap = m < p.M ? w.taps.in_field(m) : kOutside;
    }

    __device__ void copy(int i, uint32_t to) const
    {
        int64_t at = k + mine::row(i);
        chunk_spot s = at < end ? places.in_field(at) : kOutside;
        copy_chunk(
            to + mine::offset(i), field, s.at + tap.at,
            is_inside(add_rows(s.y, tap.y), s.x + tap.x, p.rows, p.columns));
    }

    __device__ void advance()
    {
        k += S::kSlab;
    }
};

// ---- slabs of the dense matrix ------------------------------------------------------------------

// conv2d's weights: rows are outputs, along k all their numbers.
template <typename T, typename S> struct dense_rows {
    using mine = share_of_slab<S::kTileN, S::kSlab / kChunk, S::kThreads>;
    static constexpr int kCount = mine::kCount;

    const T *dense;
    int at, step, left, k, end; // left: rows from the thread's first one on

    __device__ dense_rows(const problem<T> &p, const walks &, const job &j)
        : dense(p.dense + j.group * p.dense_group), k(mine::chunk() * kChunk),
          end(static_cast<int>(p.K))
    {
        int pitch = static_cast<int>(p.dense_n / kChunk), row = mine::row(0);
        left = static_cast<int>(p.N - j.n) - row;
        at = (static_cast<int>(j.n) + row) * pitch + mine::chunk();
        step = mine::kStride * pitch;
    }

    __device__ void copy(int i, uint32_t to) const
    {
        copy_chunk(to + mine::offset(i), dense, at + i * step, i * mine::kStride < left && k < end);
    }

    __device__ void advance()
    {
        at += S::kSlab / kChunk;
        k += S::kSlab;
    }
};

// Rows are along k, wherever each lies; their chunks are n.
template <typename T, typename S, int kTile, bool kOverPlaces> struct dense_columns {
    using mine = share_of_slab<S::kSlab, kTile / kChunk, S::kThreads>;
    static constexpr int kCount = mine::kCount;

    const walks &w;
    const T *dense;
    int64_t k, end;

    __device__ dense_columns(const problem<T> &p, const walks &w, const job &j)
        : w(w), dense(p.dense + j.group * p.dense_group), k(j.k)
    {
        int64_t n = j.n + mine::chunk() * kChunk;
        end = n < p.N ? j.end : 0;
        dense += n < p.N ? n : 0;
    }

    __device__ void copy(int i, uint32_t to) const
    {
        int64_t row = k + mine::row(i);
        bool there = row < end;
        int at = !there ? 0 : kOverPlaces ? w.places.in_out(row) : w.taps.in_factor(row);
        copy_chunk(to + mine::offset(i), dense, at, there);
    }

    __device__ void advance()
    {
        k += S::kSlab;
    }
};

// Both on their way into the stages.
template <typename S, typename A, typename B> struct feed {
    A a;
    B b;
    uint32_t into, base;

    template <typename T>
    __device__ feed(const problem<T> &p, const walks &w, const job &j, uint32_t shared)
        : a(p, w, j), b(p, w, j), into(shared), base(shared)
    {
    }

    template <int kPart, int kParts> __device__ void copy() const
    {
#pragma unroll
        for (int i = kPart * A::kCount / kParts; i < (kPart + 1) * A::kCount / kParts; i++) {
            a.copy(i, into);
        }
#pragma unroll
        for (int i = kPart * B::kCount / kParts; i < (kPart + 1) * B::kCount / kParts; i++) {
            b.copy(i, into + S::kBytesA);
        }
    }

    __device__ void close()
    {
        ptx::copy_async_commit();
        a.advance();
        b.advance();
        into += S::kStageBytes;
        into = into == base + S::kStages * S::kStageBytes ? base : into;
    }
};

// ---- the three ops ------------------------------------------------------------------------------

// Which of the tile's sides is which, and how slabs come. Over places the rows of a tile are
// outputs, since the gradient of a weight has channels innermost.
template <typename T, typename S> struct forward_op {
    using slabs = feed<S, gathered_rows<T, S>, dense_rows<T, S>>;
    static constexpr bool kAAlongK = true, kBAlongK = true, kOverPlaces = false;
};
template <typename T, typename S> struct input_op {
    using slabs = feed<S, gathered_rows<T, S>, dense_columns<T, S, S::kTileN, false>>;
    static constexpr bool kAAlongK = true, kBAlongK = false, kOverPlaces = false;
};
template <typename T, typename S> struct weight_op {
    using slabs = feed<S, dense_columns<T, S, S::kTileM, true>, gathered_columns<T, S>>;
    static constexpr bool kAAlongK = false, kBAlongK = false, kOverPlaces = true;
};

// Eight columns of a row of sums.
struct eight {
    float x[kChunk];

    __device__ explicit eight(const float *staged)
    {
        pack<float, 4> low = load_pack<float, 4>(staged), high = load_pack<float, 4>(staged + 4);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            x[i] = low.lane[i];
            x[i + 4] = high.lane[i];
        }
    }
};

// `m` and `n` are the part's first row and column of the out.
template <typename S, typename T>
__device__ inline void
store_places(
    const problem<T> &p, const place_walk &places, const job &j, int64_t m, int64_t n,
    const float *staged)
{
    constexpr int kChunks = S::kN / kChunk, kRows = kWarp / kChunks;
    static_assert(kWarp % kChunks == 0 && S::kM % kRows == 0, "a lane's columns stay");
    int lane = static_cast<int>(threadIdx.x) % kWarp;
    int column = lane % kChunks * kChunk;
    if (n + column >= p.N) {
        return;
    }
    float bias[kChunk] = {};
    if (p.bias) {
#pragma unroll
        for (int i = 0; i < kChunk; i++) {
            bias[i] = to_f32(p.bias[j.group * p.N + n + column + i]);
        }
    }
    T *out = p.out + j.group * p.out_group + n + column;
    int rows = p.M - m < S::kM ? static_cast<int>(p.M - m) : S::kM;
#pragma unroll 2
    for (int row = lane / kChunks; row < rows; row += kRows) {
        eight sums(staged + row * S::kPitchOut + column);
#pragma unroll
        for (int i = 0; i < kChunk; i++) {
            sums.x[i] += bias[i];
        }
        int64_t where = static_cast<int64_t>(places.in_out(m + row)) * kChunk;
        store_words(out + where, repack(sums.x, T{}));
    }
}

// Rows are outputs, columns channels and taps, as they lie in the gradient.
template <typename S, typename T>
__device__ inline void
store_taps(const problem<T> &p, const job &j, int64_t m, int64_t n, const float *staged)
{
    constexpr int kChunks = S::kN / kChunk, kRows = kWarp / kChunks;
    int lane = static_cast<int>(threadIdx.x) % kWarp;
    int column = lane % kChunks * kChunk;
    if (n + column >= p.M) {
        return;
    }
    int64_t first = ((j.split * p.groups + j.group) * p.N + m) * p.M + n + column;
    int rows = p.N - m < S::kM ? static_cast<int>(p.N - m) : S::kM;
#pragma unroll 2
    for (int row = lane / kChunks; row < rows; row += kRows) {
        eight sums(staged + row * S::kPitchOut + column);
        if (p.parts) {
            float *part = p.parts + first + row * p.M;
            store_pack(part, pack<float, 4>{{sums.x[0], sums.x[1], sums.x[2], sums.x[3]}});
            store_pack(part + 4, pack<float, 4>{{sums.x[4], sums.x[5], sums.x[6], sums.x[7]}});
        } else {
            store_words(p.out + first + row * p.M, repack(sums.x, T{}));
        }
    }
}

template <typename T, typename S, template <typename, typename> class Op>
__global__ void
__launch_bounds__(S::kThreads, S::kBlocks)
    mma(const __grid_constant__ problem<T> p, const __grid_constant__ walks w)
{
    using op = Op<T, S>;
    extern __shared__ __align__(128) uint8_t shared[];
    constexpr int kPlaces = op::kOverPlaces ? S::kTileN : S::kTileM;
    constexpr int kOutputs = op::kOverPlaces ? S::kTileM : S::kTileN;
    job j = job_of<kPlaces, kOutputs>(p);
    int warp = static_cast<int>(threadIdx.x) / kWarp;
    int m = warp / S::kWarpsN * S::kM, n = warp % S::kWarpsN * S::kN;
    float sums[S::kM / 16][S::kN / 8][4] = {};

    uint32_t stages = ptx::shared_address(shared);
    typename op::slabs in(p, w, j, stages);
    int64_t slabs = (j.end - j.k + S::kSlab - 1) / S::kSlab;
    units::sum_slabs<T, S, op::kAAlongK, op::kBAlongK>(in, slabs, stages, m, n, sums);

    float *staged = reinterpret_cast<float *>(shared) + warp * S::kM * S::kPitchOut;
    units::stage_sums<S>(sums, staged);
    __syncwarp();
    if constexpr (op::kOverPlaces) {
        store_taps<S>(p, j, j.n + m, j.m + n, staged);
    } else {
        store_places<S>(p, w.places, j, j.m + m, j.n + n, staged);
    }
}

// ---- launching ----------------------------------------------------------------------------------

template <typename S, template <typename, typename> class Op, typename T>
aicf_status
launch_mma_shape(const problem<T> &p, aicf_stream stream)
{
    constexpr bool kOverPlaces = Op<T, S>::kOverPlaces;
    aicf_status status = allow_shared(mma<T, S, Op>, S::kShared);
    return status.kind ? status
                       : launch_tiles(
                             mma<T, S, Op>, p, kOverPlaces ? S::kTileN : S::kTileM,
                             kOverPlaces ? S::kTileM : S::kTileN, S::kThreads, S::kShared, stream,
                             walks_of(p));
}

// Tall tiles for few outputs, square ones where they still give every multiprocessor of a large
// machine one, else small ones.
using tall = units::shape<256, 64, 32, 4, 4, 1>;
using square = units::shape<128, 128, 32, 4, 2, 2>;
using small = units::shape<64, 64, 64, 6, 2, 2>;

template <template <typename, typename> class Op, typename T>
aicf_status
launch_mma(const problem<T> &p, aicf_stream stream)
{
    auto tiles = [&](int64_t places, int64_t outputs) {
        return ceil_div(p.M, places) * ceil_div(p.N, outputs) * p.groups * p.splits;
    };
    constexpr int64_t kFull = 128;
    if (p.N > 64 && p.M > 64 && tiles(128, 128) >= kFull) {
        return launch_mma_shape<square, Op>(p, stream);
    }
    if constexpr (!Op<T, tall>::kOverPlaces) {
        if (p.M > 128 && tiles(256, 64) >= kFull) {
            return launch_mma_shape<tall, Op>(p, stream);
        }
    }
    return launch_mma_shape<small, Op>(p, stream);
}

} // namespace aicf::AICF_OP

#endif
