/* The choice of the kernel. */
#ifndef AICF_SELECT_H
#define AICF_SELECT_H

#include "binding.h"

#pragma GCC visibility push(hidden)

/* What a kernel failed at, in the order in which it is asked. */
typedef enum fit {
    FIT_YES,
    FIT_BACKEND,   /* not the backend of the tensors */
    FIT_DTYPE,     /* no entry for these dtypes */
    FIT_BUILT,     /* its objects are not linked */
    FIT_ARCH,      /* not for this device */
    FIT_LAYOUT,    /* detail: the parameter */
    FIT_RANK,      /* more dims than a view holds; detail: the parameter */
    FIT_GUARD,     /* detail: the guard */
    FIT_WORKSPACE, /* its size is no number */
    FIT_LIB        /* detail: the library */
} fit;

/* Whether kernel `index` takes the call, whose views and workspace size it then has. The binding is
   that of the same call, with all dims bound. */
fit select_try(const binding *b, aicf_call *call, int backend, int index, int *detail);

/* The first kernel that fits, of those of the backend, or the one that is demanded. */
aicf_status select_kernel(const binding *b, aicf_call *call, int backend);

/* What dense tensors of one shape satisfy; for all layouts but these they must be looked at. */
enum {
    LAYOUT_PLAIN = AICF_LAYOUT_DENSE | AICF_LAYOUT_FLAT | AICF_LAYOUT_ROW | AICF_LAYOUT_STRIDED
};

/* Whether the tensor of parameter `param` lies as kernel wants it, by itself or with the others. */
bool
layout_fits(const aicf_kernel *kernel, const aicf_call *call, const aicf_tensor *t, int *param);

/* Fills the call's views. False: *param has too many dims. */
bool
place_views(const aicf_kernel *kernel, const aicf_call *call, const aicf_tensor *t, int *param);

/* How many batch dims of `t` are left after merging. */
int64_t place_batches(const aicf_tensor *t);

/* The handle of a library of a row's `libs`, opened at most once; NULL: there is none. */
void *library_open(const char *name);

#pragma GCC visibility pop

#endif
