/* What failed last on this thread, beyond its error's number: for the error's text alone. */
#ifndef AICF_CUDA_FAILURE_H
#define AICF_CUDA_FAILURE_H

#include <stddef.h>
#include <stdint.h>

#include <cuda_runtime_api.h>

#include "thread.h"

#pragma GCC visibility push(hidden)

/* A call of the thread `t` begins, while the error `before` stands there, 0 if none or not known:
   what failed earlier is none of its failures. */
static inline void
failure_begin(thread *t, int32_t before)
{
    t->failed.before = before;
    t->failed.error = 0;
    t->failed.launched = false;
}

/* A step of that call failed; a launch that failed before it stays the one to tell of. */
void failure_note(int32_t error);

/* A launch failed, and `before` it that error stood on the thread. */
void failure_note_launch(int32_t before, int32_t error, dim3 grid, dim3 block, size_t shared);

/* ". Launched with grid ..." and what stood there before, if `native` is what failed
   last; else an empty text. */
void failure_text(int32_t native, char *text, size_t size);

#pragma GCC visibility pop

#endif
