// The host's side of the copy engine (TMA) of sm_90a: maps of tensors, which a driver's function
// encodes, and launches of the kernels that take them.
#ifndef AICF_CUDA_COPY_ENGINE_CUH
#define AICF_CUDA_COPY_ENGINE_CUH

#include <cstdint>

#include <cuda.h>

#include <aicf/cuda/launch.cuh>

namespace aicf {

constexpr int kLineBytes = 128;  // of the L2, and the longest row of a swizzled box
constexpr int kEngineBytes = 16; // addresses and pitches of what the copy engine takes

// ---- the driver ---------------------------------------------------------------------------------

// The function of the driver with this name, as it was in version 12.0, asked of the runtime, so
// that nothing links against libcuda; NULL where the driver has none. One for the whole process:
// `known`, a static of the caller's, keeps it. Two threads that ask get one answer.
inline void *
driver_entry(const char *name, void **known)
{
    void *function = __atomic_load_n(known, __ATOMIC_RELAXED);
    if (function) {
        return function;
    }
    cudaDriverEntryPointQueryResult found;
#if CUDART_VERSION >= 12050
    cudaError_t error =
        cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &found);
#else
    cudaError_t error = cudaGetDriverEntryPoint(name, &function, cudaEnableDefault, &found);
#endif
    if (error != cudaSuccess) {
        cudaGetLastError();
        return nullptr;
    }
    function = found == cudaDriverEntryPointSuccess ? function : nullptr;
    __atomic_store_n(known, function, __ATOMIC_RELAXED);
    return function;
}

// ---- maps ---------------------------------------------------------------------------------------

// `count` matrices of `lines` lines of `length` neighbours of a type of `size` bytes; pitch and
// step are the distances of lines and of matrices, in elements. Requires an address, a pitch where
// there are several lines and a step where there are several matrices that are multiples of 16
// bytes and above 0.
struct matrices {
    const void *data;
    int64_t length, lines, count;
    int64_t pitch, step;
    int size;
    CUtensorMapDataType type;
};

// Whether all lines begin where a line of the L2 does, if the first does.
inline bool
on_lines(const matrices &m)
{
    return m.lines == 1 || m.pitch * m.size % kLineBytes == 0;
}

// A map of matrices that are moved in boxes of `lines` times `bytes`: 128, whose 16-byte chunks lie
// swizzled in shared memory, chunk c of line l at chunk c ^ (l % 8); or 16, one after the other.
// The L2 fetches 256 bytes at a time, or 128: where lines straddle its own (there 256 is a fifth
// slower on an H200), and where not `pairs`, of lines.
inline aicf_status
encode_map(
    CUtensorMap *map, const matrices &m, int lines, int bytes = kLineBytes, bool pairs = true)
{
    static void *known = nullptr;
    auto encode = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(
        driver_entry("cuTensorMapEncodeTiled", &known));
    if (!encode) {
        return status_of(cudaErrorNotSupported);
    }
    int64_t unit = kEngineBytes / m.size;
    int64_t pitch = m.lines > 1 ? m.pitch : ceil_div(m.length, unit) * unit;
    int64_t step = m.count > 1 ? m.step : pitch;
    const cuuint64_t sizes[3] = {
        static_cast<cuuint64_t>(m.length), static_cast<cuuint64_t>(m.lines),
        static_cast<cuuint64_t>(m.count)};
    const cuuint64_t pitches[2] = {
        static_cast<cuuint64_t>(pitch * m.size), static_cast<cuuint64_t>(step * m.size)};
    const cuuint32_t box[3] = {
        static_cast<cuuint32_t>(bytes / m.size), static_cast<cuuint32_t>(lines), 1};
    const cuuint32_t every[3] = {1, 1, 1};
    CUresult result = encode(
        map, m.type, 3, const_cast<void *>(m.data), sizes, pitches, box, every,
        CU_TENSOR_MAP_INTERLEAVE_NONE,
        bytes == kLineBytes ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_NONE,
        pairs && on_lines(m) ? CU_TENSOR_MAP_L2_PROMOTION_L2_256B
                             : CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return status_of(result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue);
}

// ---- launches -----------------------------------------------------------------------------------

// Launches `kernel`, which waits for the launch before it (ptx.cuh), in clusters of `size` blocks,
// which divides `blocks`, with `shared` bytes of dynamic shared memory, the one value the kernel is
// ever launched with.
template <typename... P>
aicf_status
launch_clusters(
    void (*kernel)(P...), unsigned blocks, unsigned block, int shared, unsigned size,
    aicf_stream stream, typename exactly<P>::type... args)
{
    aicf_status status = allow_shared(kernel, shared);
    if (status.kind) {
        return status;
    }
    void *pointers[] = {const_cast<void *>(static_cast<const void *>(&args))...};
    cudaLaunchAttribute attributes[2] = {};
    unsigned count = 0;
    if (size > 1) {
        attributes[count].id = cudaLaunchAttributeClusterDimension;
        attributes[count++].val.clusterDim = {size, 1, 1};
    }
    if (launches_overlap()) {
        attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attributes[count++].val.programmaticStreamSerializationAllowed = 1;
    }
    cudaLaunchConfig_t how = {};
    how.gridDim = dim3(blocks);
    how.blockDim = dim3(block);
    how.dynamicSmemBytes = static_cast<size_t>(shared);
    how.stream = reinterpret_cast<cudaStream_t>(stream);
    how.attrs = attributes;
    how.numAttrs = count;
    cudaError_t error = cudaLaunchKernelExC(&how, reinterpret_cast<const void *>(kernel), pointers);
    if (error != cudaSuccess) {
        cudaGetLastError();
    }
    return status_of(error);
}

} // namespace aicf

#endif
