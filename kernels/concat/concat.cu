// out = xs side by side along one axis (cuda), any dtype: all dense. To bytes it is rows, [L, N *
// R] elements of each tensor, copied behind each other, in pieces of the widest of 16, 8, 4, 2 and
// 1 bytes that a tensor's address, its rows and where they go in out are all multiples of.
// Addresses and places of up to kMost tensors travel in the launch's parameters: one launch for all
// of them. A bool becomes 0 or 1. Bound by bytes.
#include <aicf_ops/concat.h>

#include <aicf/cuda/launch.cuh>
#include <aicf/cuda/numeric.cuh>

namespace aicf::concat {

constexpr int kBlock = 256;
constexpr int kUnroll = 4;                  // pieces of a thread on their way at once
constexpr int kShare = kBlock * kUnroll;    // pieces of a block
constexpr int kFew = 32, kMost = 1024;      // tensors of a launch
constexpr int64_t kWord = int64_t{1} << 31; // indexes below it are divided in 32 bits

// Tensor i has the blocks [first[i], first[i + 1]), and bytes [start[i], start[i + 1]) of a row.
template <int kTensors> struct operands {
    char *out;
    int64_t pitch, rows;
    int count;
    bool truth;
    uint32_t first[kTensors + 1];
    int64_t start[kTensors + 1];
    const char *x[kTensors];
};
static_assert(sizeof(operands<kMost>) < 32 * 1024 - 4, "what a launch's parameters hold");

// The tensor whose blocks have this one.
template <int kTensors>
__device__ inline int
tensor_of(const operands<kTensors> &p, uint32_t block)
{
    int low = 0, high = p.count;
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (p.first[middle] <= block) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

__device__ inline words
as_truth(words x)
{
#pragma unroll
    for (uint32_t &word : x.word) {
        word = __vsetne4(word, 0); // 1 in each byte that is not 0
    }
    return x;
}

__device__ inline uint64_t
as_truth(uint64_t x)
{
    uint64_t high = __vsetne4(static_cast<uint32_t>(x >> 32), 0);
    return high << 32 | __vsetne4(static_cast<uint32_t>(x), 0);
}

template <typename T>
__device__ inline T
as_truth(T x)
{
    return static_cast<T>(__vsetne4(x, 0));
}

// Pieces of `block`, counted within the tensor: n of them, `width` a row, all side by side in x;
// a row of out is `pitch` pieces.
template <typename T>
__device__ inline void
copy_rows(const T *x, T *out, uint32_t block, int64_t n, int64_t width, int64_t pitch, bool truth)
{
    int64_t first = block * int64_t{kShare} + threadIdx.x;
    int64_t row = block * int64_t{kShare} / width; // of the block's first piece
    int64_t begin = row * width;

    T held[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; u++) {
        if (first + u * kBlock < n) {
            held[u] = x[first + u * kBlock];
        }
    }
#pragma unroll
    for (int u = 0; u < kUnroll; u++) {
        int64_t i = first + u * kBlock;
        if (i < n) {
            int64_t column = i - begin, down = 0; // from the start of the block's first row
            if (column >= width) {
                down = column < kWord ? static_cast<uint32_t>(column) / static_cast<uint32_t>(width)
                                      : column / width;
                column -= down * width;
            }
            out[(row + down) * pitch + column] = truth ? as_truth(held[u]) : held[u];
        }
    }
}

template <int kTensors>
__global__ void
__launch_bounds__(kBlock) multi(const __grid_constant__ operands<kTensors> p)
{
    int i = tensor_of(p, blockIdx.x);
    uint32_t block = blockIdx.x - p.first[i];
    int64_t width = p.start[i + 1] - p.start[i];
    int64_t bytes = p.rows * width;
    const char *x = p.x[i];
    char *out = p.out + p.start[i];

    uint64_t together = reinterpret_cast<uintptr_t>(x) | reinterpret_cast<uintptr_t>(out) | width |
                        (p.rows == 1 ? 0 : p.pitch);
    auto copy = [&](auto piece) {
        using T = decltype(piece);
        constexpr int64_t kSize = sizeof(T);
        copy_rows(
            reinterpret_cast<const T *>(x), reinterpret_cast<T *>(out), block, bytes / kSize,
            width / kSize, p.pitch / kSize, p.truth);
    };
    if (together % 16 == 0) {
        copy(words{});
    } else if (together % 8 == 0) {
        copy(uint64_t{});
    } else if (together % 4 == 0) {
        copy(uint32_t{});
    } else if (together % 2 == 0) {
        copy(uint16_t{});
    } else {
        copy(uint8_t{});
    }
}

// ---- launches -----------------------------------------------------------------------------------

struct source {
    const char *x;
    int64_t start, width; // bytes of a row of out
};

// The widest piece, as the kernel finds it.
static int64_t
piece_of(const source &s, const char *out, int64_t pitch, int64_t rows)
{
    uint64_t together =
        reinterpret_cast<uintptr_t>(s.x) | reinterpret_cast<uintptr_t>(out + s.start) |
        static_cast<uint64_t>(s.width) | static_cast<uint64_t>(rows == 1 ? 0 : pitch);
    int64_t piece = kPackBytes;
    while (together % static_cast<uint64_t>(piece) != 0) {
        piece /= 2;
    }
    return piece;
}

// Takes tensors off the list from `from` on, as many as one launch has room for; empty ones take
// none.
template <int kTensors>
aicf_status
launch_some(
    aicf_list xs, int64_t axis, int64_t unit, operands<kTensors> &p, int64_t *from, int64_t *start,
    aicf_stream stream)
{
    int64_t blocks = 0;
    p.count = 0;
    for (; *from < xs.count && p.count < kTensors; ++*from) {
        const aicf_view &x = xs.views[*from];
        source s = {static_cast<const char *>(x.data), *start, x.sizes[axis] * unit};
        if (s.width == 0) {
            continue;
        }
        int64_t pieces = p.rows * s.width / piece_of(s, p.out, p.pitch, p.rows);
        if (blocks + ceil_div(pieces, kShare) > kMostBlocks) {
            break;
        }
        p.x[p.count] = s.x;
        p.start[p.count] = s.start;
        p.first[p.count] = static_cast<uint32_t>(blocks);
        blocks += ceil_div(pieces, kShare);
        *start += s.width;
        p.start[++p.count] = *start;
    }
    p.first[p.count] = static_cast<uint32_t>(blocks);
    if (blocks == 0) {
        return *from < xs.count ? status_of(cudaErrorInvalidConfiguration) : aicf_ok();
    }
    return aicf::launch(multi<kTensors>, static_cast<unsigned>(blocks), kBlock, 0, stream, p);
}

template <int kTensors>
aicf_status
launch_all(
    aicf_list xs, void *out, int64_t pitch, int64_t rows, int64_t axis, int64_t unit, bool truth,
    aicf_stream stream)
{
    operands<kTensors> p;
    p.out = static_cast<char *>(out);
    p.pitch = pitch;
    p.rows = rows;
    p.truth = truth;
    int64_t start = 0;
    for (int64_t from = 0; from < xs.count;) {
        aicf_status status = launch_some(xs, axis, unit, p, &from, &start, stream);
        if (status.kind) {
            return status;
        }
    }
    return aicf_ok();
}

static aicf_status
launch(
    aicf_list xs, void *out, int64_t L, int64_t axis, int64_t unit, bool truth, aicf_stream stream)
{
    int64_t pitch = 0;
    for (int64_t i = 0; i < xs.count; i++) {
        pitch += xs.views[i].sizes[axis] * unit;
    }
    if (L * pitch == 0) {
        return aicf_ok();
    }
    return xs.count <= kFew ? launch_all<kFew>(xs, out, pitch, L, axis, unit, truth, stream)
                            : launch_all<kMost>(xs, out, pitch, L, axis, unit, truth, stream);
}

} // namespace aicf::concat

#define LAUNCHER_OF(T, suffix, truth)                                                 \
    aicf_status aicf_cuda_concat_multi_##suffix(                                      \
        aicf_list xs, T *out, int64_t L, int64_t R, int64_t axis, aicf_stream stream) \
    {                                                                                 \
        int64_t unit = R * static_cast<int64_t>(sizeof(T));                           \
        return aicf::concat::launch(xs, out, L, axis, unit, truth, stream);           \
    }
#define LAUNCHER(T, suffix) LAUNCHER_OF(T, suffix, false)

LAUNCHER(float, f32)
LAUNCHER(aicf_f16, f16)
LAUNCHER(aicf_bf16, bf16)
LAUNCHER(double, f64)
LAUNCHER(int8_t, i8)
LAUNCHER(uint8_t, u8)
LAUNCHER(int16_t, i16)
LAUNCHER(int32_t, i32)
LAUNCHER(int64_t, i64)
LAUNCHER_OF(aicf_bool, bool, true)
