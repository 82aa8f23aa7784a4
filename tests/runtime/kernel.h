/* What kernel.cu has for tests in C and Python. */
#ifndef KERNEL_H
#define KERNEL_H

#include <aicf/call.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/* x[i] += i on one row of blocks, or on more, which is only for their number's sake. */
aicf_status test_count_up(float *x, int64_t count, int rows, aicf_stream stream);
/* A launch that fails, and nobody looks. */
void test_leave_error(void);
int test_last_error(void);
int test_get_device(void);
int test_is_captured(aicf_stream stream);
int test_copy(void *to, const void *from, size_t bytes);
/* Captures the first launch of the process into a graph, and replays it. The errors, or-ed. */
int test_graph(float *x, int64_t count, int times);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
