// Part of rows.cuh: a pass over a row of any length, which nobody holds.
#ifndef AICF_CUDA_ROWS_STREAM_CUH
#define AICF_CUDA_ROWS_STREAM_CUH

#include <aicf/cuda/rows_held.cuh>

namespace aicf::rows {

// Calls f(i, x) for the elements [begin, end) of kIn rows, those that are thread `rank`'s of
// `team`: x[j] is an array of row j, of the pack that starts at element i or of one element. kAhead
// packs of a row are loaded before the first of them is used, from the boundary of a line on.
template <int kAhead, int kIn, typename T, typename Function>
__device__ inline void
stream(const T *const (&row)[kIn], int64_t begin, int64_t end, int rank, int team, Function f)
{
    constexpr int kSize = kPackSize<T>;
    uintptr_t address = reinterpret_cast<uintptr_t>(row[0] + begin);
    int64_t past = static_cast<int64_t>(address % kPackBytes / sizeof(T));
    int64_t head = past == 0 ? begin : begin + kSize - past;
    head = head < end ? head : end;
    int64_t tail = head + (end - head) / kSize * kSize;
    int step = team * kSize;

    int64_t edge = begin + rank < head ? begin + rank : -1;
    if (rank >= kSize && rank < kSize + end - tail) {
        edge = tail + rank - kSize;
    }
    T single[kIn];
#pragma unroll
    for (int j = 0; j < kIn && edge >= 0; j++) {
        single[j] = row[j][edge];
    }

    address = reinterpret_cast<uintptr_t>(row[0] + head);
    int64_t lead = static_cast<int64_t>(address % kLineBytes / kPackBytes);
    int64_t i = head + (rank - lead + (rank < lead ? team : 0)) * kSize;
#pragma unroll 1
    for (; i < tail; i += kAhead * step) {
        words held[kAhead][kIn];
        int room = tail - i < kAhead * step ? static_cast<int>(tail - i) : kAhead * step;
#pragma unroll
        for (int j = 0; j < kIn; j++) {
            const T *from = row[j] + i;
            bool packed = j == 0 || same_phase(row[0], row[j]);
#pragma unroll
            for (int k = 0; k < kAhead; k++) {
                if (k * step < room) {
                    held[k][j] = packed ? load_words(from + k * step) : gather(from + k * step);
                }
            }
        }
#pragma unroll
        for (int k = 0; k < kAhead; k++) {
            if (k * step < room) {
                float x[kIn][kSize];
#pragma unroll
                for (int j = 0; j < kIn; j++) {
                    unpack(held[k][j], x[j], T{});
                }
                f(i + k * step, x);
            }
        }
    }
    if (edge >= 0) {
        float x[kIn][1];
#pragma unroll
        for (int j = 0; j < kIn; j++) {
            x[j][0] = to_f32(single[j]);
        }
        f(edge, x);
    }
}

} // namespace aicf::rows

#endif
