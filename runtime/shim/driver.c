/* The calls of the driver that libaicf and kernels ask for by name: about contexts, which here are
   devices, maps of tensors, and launches, which are in kernels.c. */
#include "shim.h"

#include <stdint.h>
#include <string.h>

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "graphs.h"
#include "kernels.h"

#define NOTE(error, name) ((CUresult)shim_note(error, name, "%s", ""))

static CUresult
device_get(CUdevice *device, int ordinal)
{
    int error = shim_enter("cuDeviceGet");
    if (!error && (ordinal < 0 || ordinal >= shim_now().devices)) {
        error = CUDA_ERROR_INVALID_DEVICE;
    }
    *device = ordinal;
    return NOTE(error, "cuDeviceGet");
}

static CUresult
get_state(CUdevice device, unsigned *flags, int *active)
{
    int error = shim_enter("cuDevicePrimaryCtxGetState");
    *flags = 0;
    *active = (int)(shim_started() >> device & 1);
    return NOTE(error, "cuDevicePrimaryCtxGetState");
}

static CUresult
retain(CUcontext *context, CUdevice device)
{
    int error = shim_enter("cuDevicePrimaryCtxRetain");
    if (!error) {
        shim_start(shim_started() | 1U << device);
    }
    *context = (CUcontext)(uintptr_t)(device + 1);
    return NOTE(error, "cuDevicePrimaryCtxRetain");
}

static CUresult
release(CUdevice device)
{
    (void)device;
    return NOTE(shim_enter("cuDevicePrimaryCtxRelease"), "cuDevicePrimaryCtxRelease");
}

static CUresult
push(CUcontext context)
{
    int error = shim_enter("cuCtxPushCurrent");
    if (!error && !shim_push((int)(uintptr_t)context - 1)) {
        error = CUDA_ERROR_UNKNOWN;
    }
    return NOTE(error, "cuCtxPushCurrent");
}

static CUresult
pop(CUcontext *context)
{
    int error = shim_enter("cuCtxPopCurrent");
    *context = NULL;
    if (!error && !shim_pop()) {
        error = CUDA_ERROR_INVALID_CONTEXT;
    }
    return NOTE(error, "cuCtxPopCurrent");
}

/* It fails where cudaGetDevice would. */
static CUresult
current(CUdevice *device)
{
    int error = shim_enter("cuCtxGetDevice");
    if (!error && (!shim_bound() || shim_now().driver == 0 || shim_now().devices == 0 ||
                   shim_waits("cudaGetDevice"))) {
        error = CUDA_ERROR_INVALID_CONTEXT;
    }
    *device = error ? *device : shim_device();
    return NOTE(error, "cuCtxGetDevice");
}

static CUresult
context_id(CUcontext context, unsigned long long *id)
{
    int error = shim_enter("cuCtxGetId");
    if (!error && (context || !shim_bound() || shim_now().driver == 0 || shim_now().devices == 0 ||
                   shim_waits("cudaGetDevice"))) {
        error = CUDA_ERROR_INVALID_CONTEXT;
    }
    *id = error ? *id : shim_context();
    return NOTE(error, "cuCtxGetId");
}

/* Values for words of memory: written at once, in what was allocated here; not in a pool's, as seen
   with drivers of CUDA 13. */
static int
write_word(const CUstreamBatchMemOpParams *one)
{
    bool wide = one->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
    size_t bytes = wide ? 8 : 4;
    void *to = (void *)(uintptr_t)one->writeValue.address;
    if (shim_pooled(to) || (!wide && one->operation != CU_STREAM_MEM_OP_WRITE_VALUE_32) ||
        (uintptr_t)to % bytes) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (shim_owns(to, bytes)) {
        memcpy(to, wide ? (const void *)&one->writeValue.value64 : &one->writeValue.value, bytes);
    }
    return 0;
}

static CUresult
write_words(CUstream stream, unsigned count, CUstreamBatchMemOpParams *values, unsigned flags)
{
    int error = shim_enter("cuStreamBatchMemOp");
    error = error                                  ? error
            : !shim_bound()                        ? (int)CUDA_ERROR_INVALID_CONTEXT
            : count == 0 || count >= 256           ? (int)CUDA_ERROR_INVALID_VALUE
            : shim_capturing((cudaStream_t)stream) ? (int)CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
                                                   : 0;
    for (unsigned i = 0; i < count && !error; i++) {
        error = write_word(&values[i]);
    }
    return (CUresult)shim_note(
        error, "cuStreamBatchMemOp", "count=%u stream=%p flags=%u", count, (void *)stream, flags);
}

/* What the driver asks of any map: an address and strides in 16 bytes. */
static int
refuse_map(unsigned rank, const void *address, const cuuint64_t *strides)
{
    bool whole = rank >= 1 && rank <= 5 && (uintptr_t)address % 16 == 0;
    for (unsigned d = 0; whole && d + 1 < rank; d++) {
        whole = strides[d] % 16 == 0;
    }
    return whole ? 0 : CUDA_ERROR_INVALID_VALUE;
}

static CUresult
map_tiles(
    CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
    const cuuint64_t *sizes, const cuuint64_t *strides, const cuuint32_t *box,
    const cuuint32_t *steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
    CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill)
{
    int error = shim_enter("cuTensorMapEncodeTiled");
    (void)type, (void)sizes, (void)steps, (void)interleave, (void)swizzle, (void)promotion;
    (void)fill;
    error = error ? error : refuse_map(rank, address, strides);
    for (unsigned d = 0; d < rank && !error; d++) {
        error = box[d] >= 1 && box[d] <= 256 ? 0 : CUDA_ERROR_INVALID_VALUE;
    }
    memset(map, 0, sizeof *map);
    return NOTE(error, "cuTensorMapEncodeTiled");
}

static CUresult
map_windows(
    CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
    const cuuint64_t *sizes, const cuuint64_t *strides, const int *lower, const int *upper,
    cuuint32_t channels, cuuint32_t pixels, const cuuint32_t *steps,
    CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
    CUtensorMapFloatOOBfill fill)
{
    int error = shim_enter("cuTensorMapEncodeIm2col");
    (void)type, (void)sizes, (void)lower, (void)upper, (void)steps, (void)interleave;
    (void)swizzle, (void)promotion, (void)fill;
    error = error ? error : refuse_map(rank, address, strides);
    if (!error && (channels < 1 || channels > 256 || pixels > 1024)) {
        error = CUDA_ERROR_INVALID_VALUE;
    }
    memset(map, 0, sizeof *map);
    return NOTE(error, "cuTensorMapEncodeIm2col");
}

#define CALL(name, function) {name, (void (*)(void))function}

static const struct {
    const char *name;
    void (*function)(void);
} calls[] = {
    CALL("cuDeviceGet", device_get),
    CALL("cuDevicePrimaryCtxGetState", get_state),
    CALL("cuDevicePrimaryCtxRetain", retain),
    CALL("cuDevicePrimaryCtxRelease", release),
    CALL("cuCtxPushCurrent", push),
    CALL("cuCtxPopCurrent", pop),
    CALL("cuCtxGetDevice", current),
    CALL("cuLaunchKernel", shim_launch),
    CALL("cuGraphLaunch", shim_launch_graph),
    CALL("cuStreamBatchMemOp", write_words),
    CALL("cuCtxGetId", context_id),
    CALL("cuKernelGetFunction", shim_function),
    CALL("cuLaunchKernelEx", shim_launch_with),
    CALL("cuFuncGetParamInfo", shim_parameter),
    CALL("cuTensorMapEncodeTiled", map_tiles),
    CALL("cuTensorMapEncodeIm2col", map_windows),
};

cudaError_t
cudaGetDriverEntryPointByVersion(
    const char *symbol, void **function, unsigned version, unsigned long long flags,
    enum cudaDriverEntryPointQueryResult *result)
{
    int error = shim_enter(__func__);
    error = error || shim_now().driver ? error : (int)cudaErrorInsufficientDriver;
    *function = NULL;
    for (size_t i = 0; i < sizeof calls / sizeof *calls && !error; i++) {
        if (!strcmp(calls[i].name, symbol)) {
            memcpy(function, &calls[i].function, sizeof *function);
        }
    }
    if (result) {
        *result = *function ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    }
    return (cudaError_t)shim_leave(
        error, __func__, "symbol=%s version=%u flags=%llu", symbol, version, flags);
}
