/* The dtypes of the table in everybody's words. */
#ifndef AICF_CORE_DTYPE_H
#define AICF_CORE_DTYPE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <aicf/dtype.h>

typedef struct dtype_words {
    aicf_dtype dtype;
    const char *name, *typestr, *format; /* the last two are empty where there is no word */
} dtype_words;

enum {
#define DTYPE_ONE(...) +1
    DTYPES = AICF_DTYPES(DTYPE_ONE)
#undef DTYPE_ONE
};

/* NULL: the table has no such dtype. */
const dtype_words *dtype_words_of(aicf_dtype dtype);
/* Its place in the table: below DTYPES. */
int dtype_index(const dtype_words *words);
/* By the array interface's word without its byte order: "f4". */
const dtype_words *dtype_by_typestr(const char *typestr);
/* "f32", "float32", torch.float32, numpy.float32, numpy.dtype("float32"). NULL without an exception
   where it is none. */
const dtype_words *dtype_by_object(PyObject *value);
/* As frameworks spell it: "float32". A new reference. */
PyObject *dtype_spelling(const dtype_words *words);

#endif
