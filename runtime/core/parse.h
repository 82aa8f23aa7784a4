/* What a tensor is described by, in people's words. */
#ifndef AICF_CORE_PARSE_H
#define AICF_CORE_PARSE_H

#include "core.h"

/* "cpu", "cuda", "cuda:1", or whatever prints so, torch.device among it. -1 with an exception. */
int device_parse(const char *who, PyObject *value, aicf_device *device);
/* The same word; a new reference. */
PyObject *device_text(aicf_device device);
/* A dtype of the table, 0 with an exception. */
aicf_dtype dtype_parse(const char *who, PyObject *value);
/* How many numbers an int or a sequence of ints has, or -1 with an exception. */
int
numbers_parse(const char *who, const char *what, PyObject *value, int64_t numbers[AICF_MAX_DIMS]);
/* The same for sizes, none of which is negative. */
int sizes_parse(const char *who, PyObject *value, int64_t sizes[AICF_MAX_DIMS]);

#endif
