/* Names of errors, as the runtime has them for those that tests use. */
#include <stddef.h>

#include <cuda_runtime_api.h>

#define NAMED(error, meaning) {error, #error, meaning}

static const struct {
    cudaError_t error;
    const char *name, *meaning;
} names[] = {
    NAMED(cudaSuccess, "no error"),
    NAMED(cudaErrorInvalidValue, "invalid argument"),
    NAMED(cudaErrorMemoryAllocation, "out of memory"),
    NAMED(cudaErrorInitializationError, "initialization error"),
    NAMED(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    NAMED(cudaErrorInsufficientDriver, "CUDA driver version is insufficient"),
    NAMED(cudaErrorMissingConfiguration, "missing configuration"),
    NAMED(cudaErrorInvalidDeviceFunction, "invalid device function"),
    NAMED(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    NAMED(cudaErrorInvalidDevice, "invalid device ordinal"),
    NAMED(cudaErrorNoKernelImageForDevice, "no kernel image is available"),
    NAMED(cudaErrorECCUncorrectable, "uncorrectable ECC error encountered"),
    NAMED(cudaErrorUnsupportedPtxVersion, "the PTX was compiled with an unsupported toolchain"),
    NAMED(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    NAMED(cudaErrorLaunchOutOfResources, "too many resources requested for launch"),
    NAMED(cudaErrorAssert, "device-side assert triggered"),
    NAMED(cudaErrorIllegalInstruction, "an illegal instruction was encountered"),
    NAMED(cudaErrorMisalignedAddress, "misaligned address"),
    NAMED(cudaErrorLaunchFailure, "unspecified launch failure"),
    NAMED(cudaErrorNotPermitted, "operation not permitted"),
    NAMED(cudaErrorNotSupported, "operation not supported"),
    NAMED(cudaErrorSystemNotReady, "system not yet initialized"),
    NAMED(cudaErrorSystemDriverMismatch, "system has unsupported display driver / cuda driver"),
    NAMED(cudaErrorCompatNotSupportedOnDevice, "forward compatibility was attempted"),
    NAMED(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"),
    NAMED(
        cudaErrorStreamCaptureInvalidated,
        "operation failed due to a previous error during capture"),
    NAMED(cudaErrorStreamCaptureWrongThread, "a capture is ended by the thread that began it"),
    NAMED(cudaErrorIllegalState, "the operation cannot be performed in the present state"),
    NAMED(cudaErrorGraphExecUpdateFailure, "the graph update was not performed"),
    NAMED(cudaErrorUnknown, "unknown error"),
};

const char *
cudaGetErrorName(cudaError_t error)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (names[i].error == error) {
            return names[i].name;
        }
    }
    return "cudaErrorOfNoName";
}

const char *
cudaGetErrorString(cudaError_t error)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (names[i].error == error) {
            return names[i].meaning;
        }
    }
    return "an error that has no name here";
}
