/* What the other calls ask about captures. */
#ifndef AICF_SHIM_GRAPHS_H
#define AICF_SHIM_GRAPHS_H

#include <stdbool.h>
#include <stddef.h>

#include <cuda.h>
#include <cuda_runtime_api.h>

#pragma GCC visibility push(hidden)

/* The error of a call that captures forbid, 0 if none does: those of this thread, and those that
   are of all threads. They are not valid from then on. */
int shim_forbidden(void);
/* The same of a wait for the current device, which every capture there forbids to all threads. */
int shim_forbidden_device(void);
bool shim_capturing(cudaStream_t stream);
/* How many nodes the next one on the stream would follow; 0 where it is not captured. Nobody knows
   what a start before all of several have ended means: such a launch is refused here. */
int shim_follows(cudaStream_t stream);
/* Keeps a call for later, where its stream is captured: a launch of `what`, or a copy. An error of
   the capture's. */
int shim_keep(
    cudaStream_t stream, const void *what, void *to, const void *from, size_t bytes,
    const char *call, const char *details);

/* cuGraphLaunch. */
CUresult shim_launch_graph(CUgraphExec made, CUstream stream);

#pragma GCC visibility pop

#endif
