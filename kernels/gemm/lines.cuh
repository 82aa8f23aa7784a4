// Slabs of f32 operands in shared memory that lie there as in global memory: what lies together
// along k is read along k, four at once, so that every copy is of 16 bytes where addresses allow.
#ifndef AICF_GEMM_LINES_CUH
#define AICF_GEMM_LINES_CUH

#include "tiles.cuh"

#include <aicf/cuda/ptx.cuh>

namespace aicf::gemm {

// An operand's slab of kTile (m or n) by kDepth (k), and what one of kBlock threads copies of it:
// the same place in every kStride-th line.
template <int kTile, int kDepth, bool kAlongK, int kVector, int kBlock> struct lines {
    static constexpr int kLength = kAlongK ? kDepth : kTile, kCount = kAlongK ? kTile : kDepth;
    // Of lines along k, eight neighbours lie in all banks.
    static constexpr int kPitch = kAlongK ? kDepth + kQuad : kTile;
    static constexpr int kBytes = kCount * kPitch * 4;
    static constexpr int kAcross = kLength / kVector; // threads on a line
    static constexpr int kStride = kBlock / kAcross;
    static constexpr int kCopies = kCount / kStride;
    static constexpr uint32_t kNext = kStride * kPitch * 4; // in the slab
    static_assert(kStride * kAcross == kBlock && kCopies * kStride == kCount, "whole");

    const float *from; // of the thread's first copy in the next slab
    int64_t step;      // to its next one
    int64_t slab_step;
    int along, line, size; // size: how many x there are from the tile's first on
    uint32_t to;           // in a slab

    __device__ lines(const float *data, int64_t pitch, int64_t x, int64_t k, int64_t size)
        : size(size < kTile ? static_cast<int>(size) : kTile)
    {
        along = static_cast<int>(threadIdx.x) % kAcross * kVector;
        line = static_cast<int>(threadIdx.x) / kAcross;
        from = data + along + (kAlongK ? k + (x + line) * pitch : x + (k + line) * pitch);
        step = kStride * pitch;
        slab_step = kAlongK ? kDepth : kDepth * pitch;
        to = static_cast<uint32_t>(line * kPitch + along) * 4;
    }

    template <typename... Bytes>
    __device__ static void one(uint32_t to, const float *from, Bytes... bytes)
    {
        if constexpr (kVector == kQuad) {
            ptx::copy_async_16(to, from, bytes...);
        } else {
            ptx::copy_async_4(to, from, bytes...);
        }
    }

    // `depth` k are left; zeros are what is outside. Nothing is read where all is zeros, but the
    // address has to be a valid one.
    __device__ void copy(uint32_t slab, int depth, const float *valid)
    {
        if (depth >= kDepth && size >= kTile) {
#pragma unroll
            for (int i = 0; i < kCopies; i++) {
                one(slab + to + i * kNext, from + i * step);
            }
        } else {
            int lines_inside = kAlongK ? size : depth, inside = (kAlongK ? depth : size) - along;
            inside = inside < 0 ? 0 : inside > kVector ? kVector : inside;
#pragma unroll 2
            for (int i = 0; i < kCopies; i++) {
                int left = line + i * kStride < lines_inside ? inside : 0;
                one(slab + to + i * kNext, left ? from + i * step : valid, left * 4);
            }
        }
        from += slab_step;
    }
};

} // namespace aicf::gemm

#endif
