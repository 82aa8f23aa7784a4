/* A few bytes of the host in the order of a stream, as words in the commands themselves: no copy
   that would have to be staged, and nothing of the host's that has to stay. */
#include <stdint.h>
#include <string.h>

#include "attempt.h"
#include "device.h"
#include "driver.h"

enum { WORDS = 64 };

typedef struct words {
    unsigned count;
    CUstreamBatchMemOpParams of[WORDS];
} words;

static void
add_word(words *w, const char *to, const char *from, size_t size)
{
    struct CUstreamMemOpWriteValueParams_st *one = &w->of[w->count++].writeValue;
    *one = (struct CUstreamMemOpWriteValueParams_st){
        .operation = size == 8 ? CU_STREAM_MEM_OP_WRITE_VALUE_64 : CU_STREAM_MEM_OP_WRITE_VALUE_32,
        .address = (CUdeviceptr)(uintptr_t)to};
    if (size == 8) {
        memcpy(&one->value64, from, sizeof one->value64);
    } else {
        memcpy(&one->value, from, sizeof one->value);
    }
}

/* False: they are no whole words, or too many. */
static bool
split(words *w, const char *to, const char *from, int64_t bytes)
{
    w->count = 0;
    if ((uintptr_t)to % 4 || bytes % 4 || bytes <= 0 || bytes > WORDS * 4) {
        return false;
    }
    while (bytes) {
        size_t size = (uintptr_t)to % 8 == 0 && bytes >= 8 ? 8 : 4;
        add_word(w, to, from, size);
        to += size;
        from += size;
        bytes -= (int64_t)size;
    }
    return true;
}

static const aicf_status unsupported = {.kind = AICF_UNSUPPORTED};

/* What the driver has no such commands for, as they are refused for memory of pools, is no failure.
   The thread may have no context yet. The driver's errors have the runtime's numbers. */
static __attribute__((noinline, cold)) aicf_status
write_slowly(aicf_device device, aicf_stream stream, words *w)
{
    int32_t previous;
    cudaError_t before = attempt_begin();
    cudaError_t error = attempt_enter(device.index, &previous);
    error = error ? error : cudaSetDevice(device.index);
    const driver *d = error == cudaSuccess ? driver_open() : NULL;
    bool none = error == cudaSuccess && (!d || !d->write);
    if (error == cudaSuccess && !none) {
        driver_start();
        device_learn(device.index);
        error = (cudaError_t)d->write(native(stream), w->count, w->of, 0);
        none = error == cudaErrorNotSupported || error == cudaErrorInvalidValue;
    }
    aicf_status status = none ? unsupported : attempt_end(before, error);
    device_leave(previous);
    return status;
}

aicf_status
cuda_write(aicf_device device, aicf_stream stream, void *to, const void *from, int64_t bytes)
{
    words w;
    thread *t = thread_here();
    const driver *d = driver_fast();
    if (!split(&w, to, from, bytes)) {
        return unsupported;
    }
    if (d && d->write && device_is_current(t, d, device.index)) {
        t->context = 0;
        if (d->write(native(stream), w.count, w.of, 0) == CUDA_SUCCESS) {
            return aicf_ok();
        }
    }
    return write_slowly(device, stream, &w);
}
