/* Calls of C++ functions from C. */
#ifndef AICF_CORE_GUARDED_H
#define AICF_CORE_GUARDED_H

#include <stdbool.h>

typedef void guarded_function(const void *first, void *second);

/* What catches is found: requires that a library of C++ is loaded. False: it is not, or nobody has
   written it for this processor. */
bool guarded_open(void);

/* 0, or -1 where the function threw: then the exception is gone. Requires guarded_open. */
int guarded_call(guarded_function *function, const void *first, void *second);

#endif
