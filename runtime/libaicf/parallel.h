/* The threads of CPU kernels. */
#ifndef AICF_PARALLEL_H
#define AICF_PARALLEL_H

#pragma GCC visibility push(hidden)

/* How many run at once: AICF_THREADS, else the first number of OMP_NUM_THREADS, else the processors
   that this process may use. The same for the life of the process. */
int parallel_threads(void);

#pragma GCC visibility pop

#endif
