/* The object aicf_rt.Call, and how its block is launched. */
#ifndef AICF_CORE_BOUND_H
#define AICF_CORE_BOUND_H

#include "block.h"

/* From 3.12 on the stable interface has the names; the bits are those of 3.11. */
#ifndef Py_TPFLAGS_HAVE_VECTORCALL
#define Py_TPFLAGS_HAVE_VECTORCALL (1UL << 11)
#endif
#ifndef PY_VECTORCALL_ARGUMENTS_OFFSET
#define PY_VECTORCALL_ARGUMENTS_OFFSET ((size_t)1 << (8 * sizeof(size_t) - 1))
#endif

typedef PyObject *vectorcall_fn(PyObject *, PyObject *const *, size_t, PyObject *);

typedef struct bound {
    PyObject_HEAD vectorcall_fn *vectorcall;
    block *block; /* NULL: the garbage collection took it */
    PyObject *weak;
#ifdef Py_GIL_DISABLED
    PyMutex lock; /* of `block`, the pointer */
#endif
} bound;

#ifdef Py_GIL_DISABLED
#define BLOCK_LOCK(self) PyMutex_Lock(&(self)->lock)
#define BLOCK_UNLOCK(self) PyMutex_Unlock(&(self)->lock)
#else /* the GIL is that lock */
#define BLOCK_LOCK(self) ((void)0)
#define BLOCK_UNLOCK(self) ((void)0)
#endif

/* The block as it is now, held; NULL: the garbage collection took it. */
static inline block *
bound_hold(bound *self)
{
    BLOCK_LOCK(self);
    block *b = self->block;
    if (b) {
        count_up(&b->references);
    }
    BLOCK_UNLOCK(self);
    return b;
}

/* The same with an exception. */
block *bound_block(bound *self);

/* Launches a block that the caller holds. */
static inline int
launch_held(block *b)
{
    if (b->brief && block_stays(b)) {
        aicf_status status = b->brief(b->call);
        if (status.kind == AICF_OK) {
            return 0;
        }
        raise_status(b->handle, b->call, NULL, status);
        return -1;
    }
    return block_launch(b);
}

/* run.c: adds to the exception that is set which item of a list it is about. */
void raise_item(const char *who, Py_ssize_t item, Py_ssize_t count, const char *rest);

/* portrait.c: what people see of a call. */
PyObject *bound_repr(PyObject *object);
extern PyGetSetDef bound_attributes[];

#endif
