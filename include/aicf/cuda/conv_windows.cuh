// The copy engine of sm_90a on windows: maps of a field N H W C, of which one instruction brings
// eights of channels at one tap of the windows at as many places as a tile has rows, wherever rows
// and images end among them. What is outside of the field comes as zeros.
#ifndef AICF_CUDA_CONV_WINDOWS_CUH
#define AICF_CUDA_CONV_WINDOWS_CUH

#include <aicf/conv.h>

#include <aicf/cuda/copy_engine.cuh>
#include <aicf/cuda/ptx_sm_90a.cuh>

namespace aicf::conv {

using window_encoder = decltype(&cuTensorMapEncodeIm2col);

// NULL where the driver has none.
inline window_encoder
encoder_of_windows()
{
    static void *known = nullptr;
    return reinterpret_cast<window_encoder>(driver_entry("cuTensorMapEncodeIm2col", &known));
}

// A map of the dense field of c, channels innermost, that is read in boxes of 128 bytes of channels
// at `places` places, swizzled as encode_map's. A box's corner is the element of its first place at
// the first tap; other taps are offsets from there. Requires of each axis a step of at most 8, all
// taps within 128 elements, less than 128 zeros before and behind the field, as many if it steps by
// more than 1.
inline aicf_status
encode_windows(CUtensorMap *map, const aicf_conv &c, CUtensorMapDataType type, int places)
{
    window_encoder encode = encoder_of_windows();
    if (!encode) {
        return status_of(cudaErrorNotSupported);
    }
    const int64_t channels = c.channels * c.groups;
    const cuuint64_t sizes[4] = {
        static_cast<cuuint64_t>(channels), static_cast<cuuint64_t>(c.x.size),
        static_cast<cuuint64_t>(c.y.size), static_cast<cuuint64_t>(c.images)};
    const cuuint64_t column = sizes[0] * static_cast<cuuint64_t>(c.item), row = column * sizes[1];
    const cuuint64_t pitches[3] = {column, row, row * sizes[2]};
    // Where the first tap of a window may lie: from here, to as far from the field's end.
    const aicf_conv_axis *axes[2] = {&c.x, &c.y};
    int lower[2], upper[2];
    cuuint32_t every[4] = {1, 1, 1, 1};
    for (int i = 0; i < 2; i++) {
        const aicf_conv_axis &a = *axes[i];
        lower[i] = static_cast<int>(a.first);
        upper[i] = static_cast<int>(
            a.step == 1 ? a.first + a.places - a.size : -a.first - (a.taps - 1) * a.tap_step);
        every[1 + i] = static_cast<cuuint32_t>(a.step);
    }
    CUresult result = encode(
        map, type, 4, c.field, sizes, pitches, lower, upper,
        static_cast<cuuint32_t>(kLineBytes / c.item), static_cast<cuuint32_t>(places), every,
        CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
        CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return status_of(result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue);
}

// A map of the outs of c, outputs innermost, for stores of 128 bytes of outputs at `places` places,
// wherever each place lies.
inline aicf_status
encode_places(CUtensorMap *map, const aicf_conv &c, CUtensorMapDataType type, int places)
{
    window_encoder encode = encoder_of_windows();
    if (!encode) {
        return status_of(cudaErrorNotSupported);
    }
    const cuuint64_t sizes[4] = {
        static_cast<cuuint64_t>(c.m * c.groups), static_cast<cuuint64_t>(c.x.places),
        static_cast<cuuint64_t>(c.y.places), static_cast<cuuint64_t>(c.images)};
    // The distance of one place only is any.
    const int64_t column = c.x.places > 1 ? c.out_strides[3] : c.m * c.groups;
    const int64_t row = c.y.places > 1 ? c.out_strides[2] : column;
    const int64_t image = c.images > 1 ? c.out_strides[0] : row;
    const cuuint64_t pitches[3] = {
        static_cast<cuuint64_t>(column * c.item), static_cast<cuuint64_t>(row * c.item),
        static_cast<cuuint64_t>(image * c.item)};
    const int none[2] = {0, 0};
    const cuuint32_t every[4] = {1, 1, 1, 1};
    CUresult result = encode(
        map, type, 4, c.out, sizes, pitches, none, none,
        static_cast<cuuint32_t>(kLineBytes / c.item), static_cast<cuuint32_t>(places), every,
        CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
        CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return status_of(result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue);
}

} // namespace aicf::conv

namespace aicf::ptx {

// Channels from `channel` on of the places from that whose first tap is at (x, y, image) on, at the
// tap (tap_x, tap_y) elements from there; the bytes count towards `barrier`.
__device__ inline void
windows_load(
    uint32_t to, const CUtensorMap *map, int channel, int x, int y, int image, uint16_t tap_x,
    uint16_t tap_y, uint32_t barrier)
{
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.im2col"
        ".mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8};" ::"r"(to),
        "l"(map), "r"(barrier), "r"(channel), "r"(x), "r"(y), "r"(image), "h"(tap_x), "h"(tap_y)
        : "memory");
}

// Channels from `channel` on of the places from (x, y, image) on, from shared memory.
__device__ inline void
places_store(const CUtensorMap *map, int channel, int x, int y, int image, uint32_t from)
{
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.im2col_no_offs.bulk_group"
                 " [%0, {%1, %2, %3, %4}], [%5];" ::"l"(map),
                 "r"(channel), "r"(x), "r"(y), "r"(image), "r"(from)
                 : "memory");
}

} // namespace aicf::ptx

#endif
