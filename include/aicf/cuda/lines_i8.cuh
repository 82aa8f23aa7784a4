// Operands of 8-bit integers as the matrix units take them: lines along k, on 16 bytes, of whole 16
// k. What lies otherwise is copied so to a workspace. And the sums of their lines. Bound by bytes.
// Kernels, and what launches them, lie in the namespace of AICF_OP, as those of conv.cuh do.
#ifndef AICF_CUDA_LINES_I8_CUH
#define AICF_CUDA_LINES_I8_CUH

#include <aicf/cuda/launch.cuh>
#include <aicf/cuda/requant.cuh>

namespace aicf::AICF_OP {

using namespace i8;

// Kernels and what launches them have a kArch, that of the source: its code is for that alone.

constexpr int kLineThreads = 256;
constexpr int64_t kLineUnit = 128; // what pitches of copies are multiples of: a line of the L2
constexpr int kTurned = 128;       // lines, and k, of a tile that is turned

// `lines` lines of `depth` bytes.
struct operand {
    const uint8_t *data;
    int64_t lines, depth;
    int64_t pitch, step; // from a line to the next, from a byte of it to the next
};

inline bool
is_laid(const operand &x)
{
    return x.depth % 16 == 0 && x.step == 1 && reinterpret_cast<uintptr_t>(x.data) % 16 == 0 &&
           x.pitch % 16 == 0 && (x.lines == 1 || x.pitch > 0);
}

// ---- copies -------------------------------------------------------------------------------------

// Element j of each of four words of elements i: a square of bytes, turned.
__device__ inline void
turn_square(uint32_t (&w)[4])
{
    uint32_t low = __byte_perm(w[0], w[1], 0x5140), high = __byte_perm(w[0], w[1], 0x7362);
    uint32_t low2 = __byte_perm(w[2], w[3], 0x5140), high2 = __byte_perm(w[2], w[3], 0x7362);
    w[0] = __byte_perm(low, low2, 0x5410);
    w[1] = __byte_perm(low, low2, 0x7632);
    w[2] = __byte_perm(high, high2, 0x5410);
    w[3] = __byte_perm(high, high2, 0x7632);
}

// Four bytes of neighbouring lines at one k; zeros where there are none.
__device__ inline uint32_t
across_lines(const operand &x, int64_t line, int64_t k, bool words)
{
    const uint8_t *from = x.data + line * x.pitch + k * x.step;
    if (k >= x.depth) {
        return 0;
    }
    if (words && line + 4 <= x.lines) {
        return *reinterpret_cast<const uint32_t *>(from);
    }
    uint32_t word = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        word |= (line + i < x.lines ? static_cast<uint32_t>(from[i]) : 0u) << 8 * i;
    }
    return word;
}

// From lines that lie side by side (pitch 1). Warps read along them and write along k; a square in
// shared memory is swizzled, so that neither meets a bank twice. `words`: four lines are a word.
template <int kArch>
__global__ void
__launch_bounds__(kLineThreads)
    turn_lines(const __grid_constant__ operand x, uint8_t *to, int64_t to_pitch, bool words)
{
    constexpr int kWords = kTurned / 4, kWarps = kLineThreads / 32;
    __shared__ uint32_t square[kTurned][kWords];
    int64_t squares = to_pitch / kTurned;
    int64_t line = static_cast<int64_t>(blockIdx.x) / squares * kTurned;
    int64_t k = static_cast<int64_t>(blockIdx.x) % squares * kTurned;
    int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll
    for (int group = warp; group < kWords; group += kWarps) {
        uint32_t w[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            w[i] = across_lines(x, line + 4 * lane, k + 4 * group + i, words);
        }
        turn_square(w);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            square[4 * lane + i][group ^ lane] = w[i];
        }
    }
    __syncthreads();
    for (int row = warp; row < kTurned && line + row < x.lines; row += kWarps) {
        uint32_t *out = reinterpret_cast<uint32_t *>(to + (line + row) * to_pitch + k);
        out[lane] = square[row][lane ^ row / 4];
    }
}

// From lines of any pitch and step, a thread 16 bytes.
template <int kArch>
__global__ void
__launch_bounds__(kLineThreads)
    copy_lines(const __grid_constant__ operand x, uint8_t *to, int64_t to_pitch)
{
    int64_t i = static_cast<int64_t>(blockIdx.x) * kLineThreads + threadIdx.x;
    int64_t chunks = to_pitch / 16, line = i / chunks, k = i % chunks * 16;
    if (line >= x.lines) {
        return;
    }
    const uint8_t *from = x.data + line * x.pitch + k * x.step;
    words w;
#pragma unroll
    for (int j = 0; j < 4; j++) {
        w.word[j] = 0;
#pragma unroll
        for (int byte = 0; byte < 4; byte++) {
            int at = 4 * j + byte;
            uint32_t x_at = k + at < x.depth ? from[at * x.step] : 0u;
            w.word[j] |= x_at << 8 * byte;
        }
    }
    store_words(to + i * 16, w);
}

// x as it lies or, where that will not do, a copy of it at `*room`, which moves on behind it. With
// zeros behind each line of a copy, to its pitch.
template <int kArch>
aicf_status
lay(operand &x, uint8_t **room, aicf_stream stream)
{
    if (is_laid(x) || x.lines * x.depth == 0) {
        return aicf_ok();
    }
    uint8_t *to = *room;
    int64_t pitch = ceil_div(x.depth, kLineUnit) * kLineUnit;
    *room += x.lines * pitch;
    aicf_status status;
    if (x.pitch == 1 && x.lines > 1) {
        bool words = reinterpret_cast<uintptr_t>(x.data) % 4 == 0 && x.step % 4 == 0;
        int64_t blocks = ceil_div(x.lines, kTurned) * (pitch / kTurned);
        status = launch(
            turn_lines<kArch>, static_cast<unsigned>(blocks), kLineThreads, 0, stream, x, to, pitch,
            words);
    } else {
        int64_t blocks = ceil_div(x.lines * (pitch / 16), kLineThreads);
        status = launch(
            copy_lines<kArch>, static_cast<unsigned>(blocks), kLineThreads, 0, stream, x, to,
            pitch);
    }
    x.data = to;
    x.depth = ceil_div(x.depth, 16) * 16;
    x.pitch = pitch;
    x.step = 1;
    return status;
}

// ---- sums ---------------------------------------------------------------------------------------

// shifts[line] = the field's zero times the sum of the line, a warp a line, of a laid operand.
template <int kArch>
__global__ void
__launch_bounds__(kLineThreads) sum_lines(
    const __grid_constant__ operand x, const __grid_constant__ aicf_requant r, int *shifts)
{
    constexpr int kWarps = kLineThreads / 32;
    int64_t line = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
    if (line >= x.lines) {
        return;
    }
    int lane = static_cast<int>(threadIdx.x) % 32, sum = 0;
    const uint8_t *from = x.data + line * x.pitch;
    for (int64_t k = lane * 16; k < x.depth; k += 32 * 16) {
        words w = load_words(from + k);
#pragma unroll
        for (uint32_t word : w.word) {
            sum = __dp4a(0x01010101, static_cast<int>(word), sum);
        }
    }
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
        sum += __shfl_xor_sync(0xffffffff, sum, offset);
    }
    if (lane == 0) {
        shifts[line] = zero_of(r) * sum;
    }
}

// What comes off the sums of the columns that x has the factors of, at `*room`; NULL: nothing.
template <int kArch>
aicf_status
shift_lines(
    const operand &x, const aicf_requant &r, uint8_t **room, const int **shifts, aicf_stream stream)
{
    *shifts = nullptr;
    if (!r.field_zero || x.lines == 0) {
        return aicf_ok();
    }
    int *to = reinterpret_cast<int *>(*room);
    *room += x.lines * 4;
    *shifts = to;
    constexpr int kWarps = kLineThreads / 32;
    return launch(
        sum_lines<kArch>, static_cast<unsigned>(ceil_div(x.lines, kWarps)), kLineThreads, 0, stream,
        x, r, to);
}

} // namespace aicf::AICF_OP

#endif
