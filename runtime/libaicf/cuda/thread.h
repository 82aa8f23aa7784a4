/* What is kept of each thread, in one place: to find it is a call. The runtime beside us keeps
   pages a thread, so that no loader has room for ours at a fixed distance. */
#ifndef AICF_CUDA_THREAD_H
#define AICF_CUDA_THREAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda_runtime_api.h>

#pragma GCC visibility push(hidden)

/* What failed last, beyond its error's number. */
typedef struct failure {
    int32_t before;
    int32_t error; /* 0: nothing failed */
    bool launched;
    dim3 grid, block;
    size_t shared;
} failure;

typedef struct thread {
    /* The number of the current context, set while a launch of ours runs, and in a series until the
       next; 0: not known. Nobody else's code runs while it is set but launchers. */
    uint64_t context;
    bool series; /* launches follow each other, and nothing else happens on the thread */
    bool late;   /* order_is_late may say so */
    struct learning *learning; /* what the launcher that runs has launched; NULL: nobody asks */
    failure failed;
} thread;

extern _Thread_local thread here;

/* Its address, found once where a compiler that knows what it is would find it at each use. */
static inline thread *
thread_here(void)
{
    thread *t = &here;
    __asm__("" : "+r"(t));
    return t;
}

#pragma GCC visibility pop

#endif
