// What batch norms do with channels (cuda): sums over all but them, and a formula whose
// coefficients go by channel, computed in f32. x is N x C x R, or N x R x C where channels lie
// last, which for R = 1 is the same. Any addresses; bound by bytes.
//
//   planes   a block sums a part of one channel, by packs where planes allow it
//   last     a thread sums a pack of channels, or one, over every so-many-th row
//   settle   adds the parts of each channel up, in a fixed order, and makes its coefficients of
//            them: the same bits at every run
//   apply    maps all elements, in the opposite order: what the sums read last is in the L2 yet
//
// Sums, and what settles them, are in aicf/cuda/channel_sums.cuh, the map is in channel_maps.cuh;
// here is what both know. An op's file makes kernels of the bodies in its own namespace.
#ifndef AICF_CUDA_CHANNELS_CUH
#define AICF_CUDA_CHANNELS_CUH

#include <aicf/cuda/rows.cuh>

namespace aicf::channels {

constexpr int kBlock = 256;
constexpr int kUnroll = 4; // loads of a thread on their way, of each tensor

// Parts of a channel: at least so many elements each, at most so many; the rows' workspace
// expressions say the same. Blocks: four a multiprocessor of the largest machines, twice.
constexpr int64_t kLeastPart = 256;
constexpr int64_t kMostParts = 512;
constexpr int64_t kEnoughBlocks = 1056;

// ---- the workspace, and sizes
// --------------------------------------------------------------------

// In the workspace: coefficients of each channel, its base, then `pairs`, two floats of each
// channel for each part: the last two of what is summed.
struct room {
    float4 *coefficients;
    float *base;
    float2 *pairs;
};

inline room
room_of(void *workspace, int64_t C)
{
    float *at = static_cast<float *>(workspace);
    return {reinterpret_cast<float4 *>(at), at + 4 * C, reinterpret_cast<float2 *>(at + 6 * C)};
}

struct extent {
    int64_t N, C, R;
    int64_t parts, share; // a part has `share` elements of a channel, the last one maybe fewer
    int64_t tiles;        // of channels, where they lie last
    int width;            // threads side by side along channels, where they lie last
    bool wide;            // 2^31 units or more: divided in 64 bits
    divider plane;        // units of a plane
};

inline int64_t
least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

inline int
width_for(int64_t units)
{
    int width = 1;
    while (width < units && width < rows::kWarp) {
        width *= 2;
    }
    return width;
}

} // namespace aicf::channels

#endif
