/* CUDA's errors in words. */
#ifndef AICF_CUDA_ERROR_H
#define AICF_CUDA_ERROR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

/* "cudaErrorX (35): what it means. What helps." and, of a launch, how it was launched. Calls
   nothing that sets an error. */
void cuda_error_text(int32_t native, char *text, size_t size);

/* This process is the child of one that had used CUDA. */
bool cuda_is_forked(void);

#pragma GCC visibility pop

#endif
