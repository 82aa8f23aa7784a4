// out = x (cuda), any dtype: only the size of an element matters, so kernels are one a size, and
// one for bool, of which any byte but 0 is true and is written as 1.
//   flat: one order without gaps: bytes, 16 at a time between a peeled head and tail where both
//     addresses have one phase, else element by element
//   strided: any views of one shape: by index, in parts of less than 2^31 elements
//   transpose: its fast path, where x and out have unit stride along two different dims: square
//     tiles through shared memory, so that both sides are read and written along their rows
// x and out are apart (the row has no overlap). Bound by bytes.
#include <aicf_ops/copy.h>

#include <type_traits>

#include <aicf/cuda/elementwise.cuh>

namespace aicf::copy {

using elementwise::kBlock;

struct truth {
    uint8_t byte;
};

template <typename T>
__device__ inline T
as_written(T x)
{
    return x;
}

__device__ inline truth
as_written(truth x)
{
    return {static_cast<uint8_t>(x.byte != 0)};
}

template <typename T>
__device__ inline words
as_written(words w, T)
{
    return w;
}

__device__ inline words
as_written(words w, truth)
{
#pragma unroll
    for (uint32_t &word : w.word) {
        word = __vsetne4(word, 0); // 1 in each byte that is not 0
    }
    return w;
}

template <int kBytes> struct element_type;
template <> struct element_type<1> {
    using type = uint8_t;
};
template <> struct element_type<2> {
    using type = uint16_t;
};
template <> struct element_type<4> {
    using type = uint32_t;
};
template <> struct element_type<8> {
    using type = uint64_t;
};
template <typename T> struct element_of : element_type<static_cast<int>(sizeof(T))> {};
template <> struct element_of<aicf_bool> {
    using type = truth;
};
template <typename T> using element_t = typename element_of<T>::type;

// ---- flat ---------------------------------------------------------------------------------------

// T is a byte, or a truth. Requires x + head and out + head on 16-byte boundaries. Block 0 does the
// head and the tail.
template <typename T>
__global__ void
__launch_bounds__(kBlock)
    flat(const T *__restrict__ x, T *__restrict__ out, int64_t head, int64_t n)
{
    static_assert(sizeof(T) == 1, "counted in bytes");
    int64_t packs = (n - head) / kPackBytes;
    int64_t i = blockIdx.x * int64_t{kBlock} + threadIdx.x;
    if (i < packs) {
        words held = load_words(x + head + i * kPackBytes);
        store_words(out + head + i * kPackBytes, as_written(held, T{}));
    }

    if (blockIdx.x == 0) {
        int64_t tail = head + packs * kPackBytes + threadIdx.x;
        if (threadIdx.x < head) {
            out[threadIdx.x] = as_written(x[threadIdx.x]);
        }
        if (tail < n) {
            out[tail] = as_written(x[tail]);
        }
    }
}

// ---- by element ---------------------------------------------------------------------------------

template <typename T>
__global__ void
__launch_bounds__(kBlock) scalar(const T *__restrict__ x, T *__restrict__ out, int64_t n)
{
    constexpr int kUnroll = 8;
    int64_t first = blockIdx.x * int64_t{kBlock * kUnroll} + threadIdx.x;

    T held[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; u++) {
        if (first + u * kBlock < n) {
            held[u] = x[first + u * kBlock];
        }
    }
#pragma unroll
    for (int u = 0; u < kUnroll; u++) {
        if (first + u * kBlock < n) {
            out[first + u * kBlock] = as_written(held[u]);
        }
    }
}

struct same {};

template <typename T>
__device__ inline T
apply(same, const T (&x)[1])
{
    return as_written(x[0]);
}

template <typename T>
__global__ void
__launch_bounds__(kBlock)
    strided(same f, const __grid_constant__ elementwise::strided_operands<T, 1> p)
{
    elementwise::strided_body(f, p);
}

// ---- transpose ----------------------------------------------------------------------------------

// The side of a tile: a row of it is two 32-byte sectors or more, and a thread has 8 loads and more
// on their way.
template <typename T> constexpr int kTile = sizeof(T) <= 4 ? 64 : 32;
// Rows that a block moves at once.
template <typename T> constexpr int kTileRows = kBlock / kTile<T>;

// Dim `across` has unit stride in x, dim `along` in out; `pitch` is the stride of the other one of
// the two. The rest of the dims, innermost first, count the tiles' slices.
template <typename T> struct tiles {
    const T *x;
    T *out;
    int64_t size_across, size_along;
    int64_t x_pitch, out_pitch;
    divider tiles_across, tiles_along;
    int rank;
    divider sizes[AICF_MAX_RANK];
    int64_t x_strides[AICF_MAX_RANK], out_strides[AICF_MAX_RANK];
    int64_t count; // tiles over all slices; below 2^31
};

template <typename T>
__global__ void
__launch_bounds__(kBlock) transpose(const __grid_constant__ tiles<T> p)
{
    static_assert(kBlock % kTile<T> == 0 && kTile<T> % kTileRows<T> == 0, "whole rows");
    // A bank (4 bytes) more than the tile is wide: a column's elements then lie in different banks.
    constexpr int kPad = sizeof(T) < 4 ? 4 / static_cast<int>(sizeof(T)) : 1;
    __shared__ T tile[kTile<T>][kTile<T> + kPad];
    uint32_t rows = divide(blockIdx.x, p.tiles_across);
    int64_t across = int64_t{blockIdx.x - rows * p.tiles_across.divisor} * kTile<T>;
    uint32_t slice = divide(rows, p.tiles_along);
    int64_t along = int64_t{rows - slice * p.tiles_along.divisor} * kTile<T>;

    const T *x = p.x + across + along * p.x_pitch;
    T *out = p.out + along + across * p.out_pitch;
    for (int dim = 0; dim < p.rank; dim++) {
        uint32_t next = divide(slice, p.sizes[dim]);
        uint32_t digit = slice - next * p.sizes[dim].divisor;
        slice = next;
        x += digit * p.x_strides[dim];
        out += digit * p.out_strides[dim];
    }

    int column = threadIdx.x % kTile<T>, row = threadIdx.x / kTile<T>;
#pragma unroll
    for (int r = row; r < kTile<T>; r += kTileRows<T>) {
        if (across + column < p.size_across && along + r < p.size_along) {
            tile[r][column] = x[column + r * p.x_pitch];
        }
    }
    __syncthreads();
#pragma unroll
    for (int r = row; r < kTile<T>; r += kTileRows<T>) {
        if (along + column < p.size_along && across + r < p.size_across) {
            out[column + r * p.out_pitch] = as_written(tile[column][r]);
        }
    }
}

// The dim with unit stride, the longest if there are several; -1: none.
static int
unit_dim(const aicf_view &view)
{
    int found = -1;
    for (int dim = 0; dim < view.rank; dim++) {
        if (view.strides[dim] == 1 && (found < 0 || view.sizes[dim] > view.sizes[found])) {
            found = dim;
        }
    }
    return found;
}

// Fills `p` if transposing tiles are worth it: both rows at least half a tile long.
template <typename T>
bool
tiles_of(const aicf_view &x, const aicf_view &out, tiles<T> *p)
{
    int across = unit_dim(x), along = unit_dim(out);
    if (across < 0 || along < 0 || across == along || x.sizes[across] < kTile<T> / 2 ||
        x.sizes[along] < kTile<T> / 2) {
        return false;
    }
    int64_t tiles_across = ceil_div(x.sizes[across], kTile<T>);
    int64_t tiles_along = ceil_div(x.sizes[along], kTile<T>);
    int64_t count = tiles_across * tiles_along;
    for (int dim = 0; dim < x.rank; dim++) {
        count *= dim == across || dim == along ? 1 : x.sizes[dim];
    }
    if (count > kMostBlocks) {
        return false;
    }
    *p = {};
    p->x = static_cast<const T *>(x.data);
    p->out = static_cast<T *>(out.data);
    p->size_across = x.sizes[across];
    p->size_along = x.sizes[along];
    p->x_pitch = x.strides[along];
    p->out_pitch = out.strides[across];
    p->tiles_across = divider_of(tiles_across);
    p->tiles_along = divider_of(tiles_along);
    p->count = count;
    for (int dim = static_cast<int>(x.rank) - 1; dim >= 0; dim--) {
        if (dim != across && dim != along) {
            p->sizes[p->rank] = divider_of(x.sizes[dim]);
            p->x_strides[p->rank] = x.strides[dim];
            p->out_strides[p->rank] = out.strides[dim];
            p->rank++;
        }
    }
    return true;
}

// ---- launches -----------------------------------------------------------------------------------

template <typename T>
aicf_status
launch_flat(const void *x, void *out, int64_t n, aicf_stream stream)
{
    if (n == 0) {
        return aicf_ok();
    }
    if (phase_of(x) != phase_of(out)) {
        return aicf::launch(
            scalar<T>, static_cast<unsigned>(ceil_div(n, kBlock * 8)), kBlock, 0, stream,
            static_cast<const T *>(x), static_cast<T *>(out), n);
    }
    using byte = std::conditional_t<std::is_same_v<T, truth>, truth, uint8_t>;
    int64_t bytes = n * static_cast<int64_t>(sizeof(T));
    return aicf::launch(
        flat<byte>, static_cast<unsigned>(ceil_div(bytes / kPackBytes + 1, kBlock)), kBlock, 0,
        stream, static_cast<const byte *>(x), static_cast<byte *>(out),
        head_of(static_cast<const uint8_t *>(x), bytes), bytes);
}

template <typename T>
aicf_status
launch_strided(const aicf_view &x, const aicf_view &out, aicf_stream stream)
{
    tiles<T> p;
    if (numel(&out) != 0 && tiles_of(x, out, &p)) {
        return aicf::launch(transpose<T>, static_cast<unsigned>(p.count), kBlock, 0, stream, p);
    }
    return elementwise::launch_strided(strided<T>, same{}, {out, x}, stream);
}

} // namespace aicf::copy

#define LAUNCHERS(T, suffix)                                                                    \
    aicf_status aicf_cuda_copy_flat_##suffix(const T *x, T *out, int64_t A, aicf_stream stream) \
    {                                                                                           \
        return aicf::copy::launch_flat<aicf::copy::element_t<T>>(x, out, A, stream);            \
    }                                                                                           \
    aicf_status aicf_cuda_copy_strided_##suffix(                                                \
        const aicf_view *x, const aicf_view *out, int64_t, aicf_stream stream)                  \
    {                                                                                           \
        return aicf::copy::launch_strided<aicf::copy::element_t<T>>(*x, *out, stream);          \
    }

LAUNCHERS(float, f32)
LAUNCHERS(aicf_f16, f16)
LAUNCHERS(aicf_bf16, bf16)
LAUNCHERS(double, f64)
LAUNCHERS(int8_t, i8)
LAUNCHERS(uint8_t, u8)
LAUNCHERS(int16_t, i16)
LAUNCHERS(int32_t, i32)
LAUNCHERS(int64_t, i64)
LAUNCHERS(aicf_bool, bool)
