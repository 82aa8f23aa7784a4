// out = x (cuda), any dtype: only the size of an element matters, so kernels are one a size, and
// one for bool, of which any byte but 0 is true and is written as 1.
//   vec, rows, strided: described in aicf/cuda/elementwise.cuh
//   transpose: where x and out have unit stride along two different dims: square tiles through
//     shared memory, so that both sides are read and written along their rows
// x and out are apart (the row has no overlap). Bound by bytes.
#include <aicf_ops/copy.h>

#include <aicf/cuda/elementwise.cuh>

namespace aicf::copy {

using elementwise::kBlock;

// Of a float too: its bits are no number to round here.
template <int kBytes> struct bits;
template <> struct bits<1> {
    using type = uint8_t;
};
template <> struct bits<2> {
    using type = uint16_t;
};
template <> struct bits<4> {
    using type = uint32_t;
};
template <> struct bits<8> {
    using type = uint64_t;
};
template <typename T> struct element_of : bits<static_cast<int>(sizeof(T))> {};
template <> struct element_of<aicf_bool> {
    using type = aicf_bool;
};
template <typename T> using element_t = typename element_of<T>::type;

struct same {
    template <typename V> __device__ V operator()(V x) const
    {
        return x;
    }
};

AICF_ELEMENTWISE_KERNELS

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
            out[column + r * p.out_pitch] = of_value<T>(to_value(tile[column][r]));
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
run(const aicf_view &x, const aicf_view &out, aicf_stream stream)
{
    tiles<T> p;
    if (numel(&out) != 0 && tiles_of(x, out, &p)) {
        return aicf::launch(transpose<T>, static_cast<unsigned>(p.count), kBlock, 0, stream, p);
    }
    return run_views(same{}, of<T, T>{}, {out, x}, stream);
}

} // namespace aicf::copy

#define LAUNCHERS(T, suffix)                                                                    \
    aicf_status aicf_cuda_copy_flat_##suffix(const T *x, T *out, int64_t A, aicf_stream stream) \
    {                                                                                           \
        using namespace aicf::copy;                                                             \
        using D = element_t<T>;                                                                 \
        return run_vec(same{}, of<D, D>{}, operands_of(out, x), A, stream);                     \
    }                                                                                           \
    aicf_status aicf_cuda_copy_strided_##suffix(                                                \
        const aicf_view *x, const aicf_view *out, int64_t, aicf_stream stream)                  \
    {                                                                                           \
        return aicf::copy::run<aicf::copy::element_t<T>>(*x, *out, stream);                     \
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
