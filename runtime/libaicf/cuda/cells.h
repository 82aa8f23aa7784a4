/* Small memory that bytes can be written to. */
#ifndef AICF_CUDA_CELLS_H
#define AICF_CUDA_CELLS_H

#include <aicf/backend.h>

#pragma GCC visibility push(hidden)

aicf_status
cuda_allocate_cell(aicf_device device, aicf_stream stream, int64_t bytes, void **memory);
/* Whether it is in a cell. Takes no lock. */
bool cells_have(const void *memory);
aicf_status cells_release(aicf_device device, aicf_stream stream, void *memory);

#pragma GCC visibility pop

#endif
