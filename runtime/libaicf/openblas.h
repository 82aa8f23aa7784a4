/* OpenBLAS, as libaicf lets kernels call it. */
#ifndef AICF_OPENBLAS_H
#define AICF_OPENBLAS_H

#include <stdbool.h>

#pragma GCC visibility push(hidden)

/* Whether a library that was opened as OpenBLAS is one that can be called as
   <aicf/cpu/openblas.h> says. Once a process. */
bool openblas_adopt(void *handle);

#pragma GCC visibility pop

#endif
