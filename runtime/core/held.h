/* What a run was given that may be done again, and what it comes to. */
#ifndef AICF_CORE_HELD_H
#define AICF_CORE_HELD_H

#include "number.h"

enum { NUMBERS_MOST = 16 };

/* Where a tensor was. */
typedef struct layout {
    int64_t words[LAYOUT_WORDS];
    int count;
} layout;

/* What came by name. */
typedef struct given {
    PyObject *name; /* borrowed of `named` */
    PyObject *last;
    const number *number; /* NULL: it may not be another */
    bool written;         /* `named` and `kept` have not been told of it */
} given;

typedef struct held {
    Py_buffer cells;       /* obj NULL: there are none */
    PyObject *spec, *kept; /* of the numbers, as they were given, and a dict of the last */
    number numbers[NUMBERS_MOST];
    int number_count;
    PyObject *inputs, *named; /* NULL: nothing is held */
    given *by_name;
    Py_ssize_t name_count;
    PyObject *watched, *asked; /* tuples: tensors; pairs of what is called and what it answers */
    layout *layouts;
    PyObject *work, *result;
} held;

/* By the arguments of Again.hold, in the place of what was held. -1 with an exception, and then
   nothing is; so too where a layout is not read without Python. */
int held_take(held *h, core_state *core, PyObject *args);
/* `named` and `kept` of the numbers that were written. -1 with an exception. */
int held_tell(held *h);
/* But for the numbers' places, which the next is likely to have too. */
void held_forget(held *h);
void held_finish(held *h);
int held_traverse(held *h, visitproc visit, void *arg);
/* 1: a run that is given that is this one again, with its numbers written. -1 with an exception.
   Runs Python. */
int held_again(held *h, core_state *core, PyObject *inputs, PyObject *named);

#endif
