/* Calls of OpenBLAS, whose symbols aicf_lib_symbol finds. Between aicf_openblas_enter and
   aicf_openblas_leave it works on the thread that calls it and on no other; any number of threads
   may be inside. A fork waits until all have left, and holds off those who come: stay for one part
   of the work, not for all of it.

   False: the process ends, and OpenBLAS is not to be called, nor left. */
#ifndef AICF_CPU_OPENBLAS_H
#define AICF_CPU_OPENBLAS_H

#include <stdbool.h>

bool aicf_openblas_enter(void);
void aicf_openblas_leave(void);

#endif
