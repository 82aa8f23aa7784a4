// blocks.cuh for f32, by multiply-adds.
#ifndef AICF_RECURRENT_BLOCKS_F32_CUH
#define AICF_RECURRENT_BLOCKS_F32_CUH

#include "blocks.cuh"

namespace aicf::AICF_OP {

// block_shape, where a lane has a column and every kGroups-th row. A warp brings
// kDepth * kAhead of k to its own part of the shared memory and, while it multiplies, has the next
// ones on their way.
template <int kLines_, int kUnits_, int kTiles_> struct f32_shape {
    static constexpr bool kHeld = false, kIsF32 = true;
    static constexpr int kUnits = kUnits_, kTiles = kTiles_, kAhead = 2;
    static constexpr int kThreads = 256, kWarps = kThreads / kWarp;
    static constexpr int kM = 16 * kTiles, kColumns = kLines_ * kUnits;
    static constexpr int kGroups = kColumns <= 8 ? 4 : 1, kLaneRows = kM / kGroups;
    static constexpr int kPitch = kColumns % 16 == 8 ? kColumns : kColumns + 8;
    static constexpr int kSumBytes = kWarps * kM * kPitch * 4;
    static constexpr int kChunkBytes = kDepth * kColumns * 4;
    static constexpr int kMostChunks = 1 << 16;
    static constexpr int kSpan = kDepth * kAhead, kQuads = kSpan / 4; // k at once
    static constexpr int kStagePitch = kSpan + 4; // the rows of groups lie in different banks
    static constexpr int kStageBytes = kWarps * kM * kStagePitch * 4;
    static constexpr int kReads = kM * kQuads / kWarp; // of 16 bytes, a lane
    static constexpr int kCells = (kM * kUnits + kThreads - 1) / kThreads;
    static_assert(kColumns <= kWarp && kReads * kWarp == kM * kQuads, "every lane has its place");
};

// Four neighbours along k of a column side by side, column after column.
template <typename B> struct weights_of<B, true> {
    const float4 *quads;
    float *stage; // of this warp

    __device__
    weights_of(const weight_lines<B, float> &from, int chunks, const share_of_depth<B> &, uint4 *to)
        : quads(reinterpret_cast<const float4 *>(to)),
          stage(
              reinterpret_cast<float *>(to) + chunks * (B::kChunkBytes / 4) +
              static_cast<int>(threadIdx.x) / kWarp * (B::kM * B::kStagePitch))
    {
        int count = chunks * (kDepth / 4) * B::kColumns;
        for (int i = static_cast<int>(threadIdx.x); i < count; i += B::kThreads) {
            int column = i % B::kColumns;
            int64_t k = i / B::kColumns * 4, unit = from.first_unit + column % B::kUnits;
            uint4 w = {};
            if (unit < from.units && k < from.depth) {
                int64_t row = column / B::kUnits * from.units + unit;
                w = *reinterpret_cast<const uint4 *>(from.data + row * from.depth + k);
            }
            to[i] = w;
        }
    }
};

// 16 bytes a read of kSpan of k from `first` on, of rows that are there; zeros beyond `end`.
template <typename B> struct f32_span {
    uint32_t word[B::kReads][4];

    __device__ void ask(const float *from, int count, int64_t depth, int first, int end)
    {
        int lane = static_cast<int>(threadIdx.x) % kWarp, k = first + lane % B::kQuads * 4;
#pragma unroll
        for (int i = 0; i < B::kReads; i++) {
            int row = lane / B::kQuads + i * (kWarp / B::kQuads);
            row = row < count ? row : count - 1;
            ptx::load_shared_by_grid(from + row * depth + (k < end ? k : first), word[i]);
        }
    }

    __device__ void await(const float *from, int count, int64_t depth, int first, int end)
    {
        for (uint32_t polls = 0;; polls++) {
            bool missing = false;
#pragma unroll
            for (int i = 0; i < B::kReads * 4; i++) {
                missing |= word[i / 4][i % 4] == kUnwritten;
            }
            if (!__any_sync(0xffffffff, missing)) {
                return;
            }
            if (polls == kMostPolls) {
                __trap();
            }
            ask(from, count, depth, first, end);
        }
    }

    __device__ void put(float *stage, int first, int end) const
    {
        int lane = static_cast<int>(threadIdx.x) % kWarp, k = lane % B::kQuads * 4;
        bool inside = first + k < end;
#pragma unroll
        for (int i = 0; i < B::kReads; i++) {
            int row = lane / B::kQuads + i * (kWarp / B::kQuads);
            uint4 x = {word[i][0], word[i][1], word[i][2], word[i][3]};
            *reinterpret_cast<uint4 *>(stage + row * B::kStagePitch + k) = inside ? x : uint4{};
        }
    }
};

template <typename T, typename B, std::enable_if_t<B::kIsF32, int> = 0>
__device__ inline void
multiply_rows(
    const T *from, int count, int depth, const weights_of<B> &weights,
    const share_of_depth<B> &share, bool awaited, float *meeting)
{
    int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
    int column = lane % (kWarp / B::kGroups), group = lane / (kWarp / B::kGroups);
    int mine = column < B::kColumns ? column : 0; // lanes without a column do as if
    int end = share.end * kDepth < depth ? share.end * kDepth : depth;
    float sums[B::kLaneRows] = {};
    f32_span<B> span;
    if (awaited) {
        await_share(from, share, depth);
    }
    if (share.begin * kDepth < end) {
        span.ask(from, count, depth, share.begin * kDepth, end);
    }
    for (int first = share.begin * kDepth; first < end; first += B::kSpan) {
        if (awaited) {
            span.await(from, count, depth, first, end);
        }
        __syncwarp(); // all have read the span before
        span.put(weights.stage, first, end);
        __syncwarp();
        if (first + B::kSpan < end) {
            span.ask(from, count, depth, first + B::kSpan, end);
        }
        int quads = (end - first + 3) / 4 < B::kQuads ? (end - first + 3) / 4 : B::kQuads;
#pragma unroll 2
        for (int q = 0; q < quads; q++) {
            float4 w = weights.quads[(first / 4 + q) * B::kColumns + mine];
#pragma unroll
            for (int r = 0; r < B::kLaneRows; r++) {
                float4 x = *reinterpret_cast<const float4 *>(
                    weights.stage + (group + r * B::kGroups) * B::kStagePitch + q * 4);
                sums[r] += x.x * w.x;
                sums[r] += x.y * w.y;
                sums[r] += x.z * w.z;
                sums[r] += x.w * w.w;
            }
        }
    }
    if (column < B::kColumns) {
#pragma unroll
        for (int r = 0; r < B::kLaneRows; r++) {
            meeting[(warp * B::kM + group + r * B::kGroups) * B::kPitch + column] = sums[r];
        }
    }
}

} // namespace aicf::AICF_OP

#endif
