#include <aicf/repeat.h>

#include <aicf/backend/cuda.h>

const aicf_repeats *
aicf_repeats_of(const aicf_backend *backend)
{
    return backend == &aicf_backend_cuda ? aicf_cuda_repeats : NULL;
}
