/* Which names the table may use. All of them end up in C, C++, CUDA and Python. */
#ifndef OPGEN_NAMES_H
#define OPGEN_NAMES_H

#include "fault.h"

enum { NAME_LENGTH = 40 };

typedef enum name_kind {
    NAME_OP,      /* an op, a family */
    NAME_ARG,     /* an argument, an attribute, a scalar */
    NAME_OUT,     /* an out */
    NAME_SIZE,    /* an int attribute, which may be used as a dim: may have capitals */
    NAME_DIM,     /* a dim, a pack, a let, a list's length: may have capitals */
    NAME_TYPE,    /* a type variable: may have capitals */
    NAME_KERNEL,  /* a kernel's id: part of symbols and texts, so keywords are fine */
    NAME_BACKEND, /* a backend */
    NAME_CLASS,   /* a class or function of dtypes: likewise */
    NAME_WORD,    /* a value of an enum: likewise */
    NAME_PACKAGE, /* the package, the namespace */
    NAME_GRAD     /* an intermediate of a gradient */
} name_kind;

/* Records what is wrong with it; true if nothing is. */
bool name_check(faults *f, context of, loc where, const char *name, name_kind kind);

/* The functions of gradients that are no rows: t, reshape, ...; NULL at the end. */
extern const char *const name_fixed_functions[];
bool name_is_fixed_function(const char *name);

/* Whether C, C++, CUDA or Python gives it a meaning of their own; then in which. */
const char *name_keyword_of(const char *name);

#endif
