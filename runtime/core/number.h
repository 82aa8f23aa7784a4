/* Numbers of Python's on their way into bytes that a program reads. */
#ifndef AICF_CORE_NUMBER_H
#define AICF_CORE_NUMBER_H

#include "core.h"

typedef struct number {
    PyObject *name, *key; /* by which it comes, and under which the last is kept; borrowed */
    char *cell;
    char format; /* as of struct */
    size_t size;
    double low, high;      /* of floats */
    long long least, most; /* of all others */
} number;

/* Of a tuple (name, key, offset, format, low, high), which it borrows from. -1 with an exception.
 */
int number_read(number *n, PyObject *spec, const Py_buffer *cells);
/* False: it is of another kind, or not in the range that all who read it take. */
bool number_write(const number *n, PyObject *x);

#endif
