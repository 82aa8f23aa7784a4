/* The one launcher that our module, every peer and the C loop call: out = a + b, n elements. 0: it
 * ran. */
#ifndef AICF_BENCH_LAUNCHER_H
#define AICF_BENCH_LAUNCHER_H

#include <stdint.h>

typedef int bench_launcher(const float *a, const float *b, float *out, int64_t n, void *stream);

#endif
