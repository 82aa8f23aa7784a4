// Asynchronous copies of f32 operands to slabs that have k outermost (see gemm.cuh for the
// operands): of 16 bytes where neighbours along m or n lie on them; else of 4, which turn an
// operand whose k lies together.
#ifndef AICF_GEMM_COPIES_CUH
#define AICF_GEMM_COPIES_CUH

#include "tiles.cuh"

#include <aicf/cuda/ptx.cuh>
#include <aicf/cuda/ptx_copies.cuh>

namespace aicf::gemm {

// How an operand is copied.
enum class copying {
    along_k, // an element at a time, turned
    single,  // an element at a time
    quads    // 16 bytes at a time
};

inline copying
copying_of(
    const problem<float> &p, const float *data, bool along_k, int64_t pitch, const int64_t *batch)
{
    return along_k                                            ? copying::along_k
           : aligned(data, pitch, batch, p.batch_rank, kQuad) ? copying::quads
                                                              : copying::single;
}

// The copies that one of kBlock threads makes of a slab of kTile (m or n) by kDepth (k), whose rows
// are kPad longer: the same place in every kStride-th line along the unit-stride dim. Turned, a
// warp's are kTurned k of 32 / kTurned lines.
template <int kTile, int kDepth, int kBlock, copying kHow, int kTurned = 16> struct copier {
    static constexpr bool kAlongK = kHow == copying::along_k;
    static constexpr int kVector = kHow == copying::quads ? kQuad : 1;
    static constexpr int kAcross = kAlongK ? kTurned : kTile / kVector; // threads on a line
    static constexpr int kStride = kBlock / kAcross;
    static constexpr int kLines = (kAlongK ? kTile : kDepth) / kStride; // of a thread
    static constexpr int kEach = kAlongK ? kDepth / kAcross : 1;        // copies of a line
    static constexpr int kPitch = kTile + kPad;
    static constexpr uint32_t kNextLine = (kAlongK ? kStride : kStride * kPitch) * 4; // in the slab
    static constexpr uint32_t kNext = kAcross * kPitch * 4;
    static_assert(kStride * kAcross == kBlock, "every thread has its place");
    static_assert(kLines * kStride == (kAlongK ? kTile : kDepth), "whole");

    const float *from; // of the next line
    int64_t step, slab_step;
    int x, k, size; // size: how many x there are from the slab's first on
    uint32_t to;    // in a slab

    __device__ copier(const float *first, int64_t pitch, int64_t size)
        : size(size < kTile ? static_cast<int>(size) : kTile)
    {
        int along = static_cast<int>(threadIdx.x) % kAcross * kVector;
        int line = static_cast<int>(threadIdx.x) / kAcross;
        x = kAlongK ? line : along;
        k = kAlongK ? along : line;
        from = first + line * pitch + along;
        step = kStride * pitch;
        slab_step = (kAlongK ? kDepth : kDepth * pitch) - kLines * step; // after the last line
        to = static_cast<uint32_t>(k * kPitch + x) * 4;
    }

    __device__ bool whole(int64_t depth) const
    {
        return depth >= kDepth && size >= kTile;
    }

    // The lines of a slab in order, each copied if it is whole, else passed.
    __device__ void copy_line(uint32_t slab, int line, bool yes)
    {
        uint32_t at = slab + to + line * kNextLine;
#pragma unroll
        for (int i = 0; i < kEach; i++) {
            if constexpr (kVector == kQuad) {
                ptx::copy_async_16_if(yes, at + i * kNext, from + i * kAcross);
            } else {
                ptx::copy_async_4_if(yes, at + i * kNext, from + i * kAcross);
            }
        }
        from += line == kLines - 1 ? step + slab_step : step;
    }

    // A slab of which `depth` k are left, before its lines are passed: zeros are what is outside.
    // Nothing is read where all is zeros, but the address has to be a valid one.
    __device__ void copy_cut(uint32_t slab, int64_t depth, const float *valid) const
    {
        const float *next = from;
#pragma unroll 1
        for (int line = 0; line < kLines; line++, next += step) {
#pragma unroll 1
            for (int i = 0; i < kEach; i++) {
                uint32_t at = slab + to + line * kNextLine + i * kNext;
                int at_x = x + (kAlongK ? line * kStride : 0);
                int at_k = k + (kAlongK ? i * kAcross : line * kStride);
                int left = at_k < depth ? size - at_x : 0;
                left = left < 0 ? 0 : left > kVector ? kVector : left;
                const float *p = left ? next + i * kAcross : valid;
                if constexpr (kVector == kQuad) {
                    ptx::copy_async_16(at, p, left * 4);
                } else {
                    ptx::copy_async_4(at, p, left * 4);
                }
            }
        }
    }

    __device__ void copy(uint32_t slab, int64_t depth, const float *valid)
    {
        bool yes = whole(depth);
        if (!yes) {
            copy_cut(slab, depth, valid);
        }
#pragma unroll
        for (int line = 0; line < kLines; line++) {
            copy_line(slab, line, yes);
        }
    }
};

} // namespace aicf::gemm

#endif
