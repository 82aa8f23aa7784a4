/* Tensors as every producer describes them, and views as kernels take them. */
#ifndef AICF_TENSOR_H
#define AICF_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <aicf/dtype.h>
#include <aicf/status.h>

enum {
    AICF_MAX_DIMS = 64, /* of a tensor */
    AICF_MAX_RANK = 8   /* of a view, after merging where its placement merges */
};

/* Type and index as in DLPack: 1 is the CPU, 2 CUDA, 3 pinned host memory, 13 CUDA managed. */
typedef struct aicf_device {
    int32_t type;
    int32_t index;
} aicf_device;

/* The first seven members lie as in DLPack's DLTensor, so that a producer writes here directly. The
   rest is filled by whoever reads the producer, and by aicf_tensor_settle, which every path ends
   with. No PyObject is in here; `source` and `owner` belong to whoever filled them. */
typedef struct aicf_tensor {
    void *data;
    aicf_device device;
    int32_t rank;
    aicf_dtype dtype;
    const int64_t *sizes;
    const int64_t *strides; /* in elements; NULL: row-major */
    uint64_t byte_offset;   /* 0 once settled */

    int64_t numel;
    uintptr_t first, end; /* the addresses that the elements lie in; equal if there are none */
    bool dense;           /* row-major without gaps; an empty tensor is */
    bool read_only;
    bool absent;        /* an optional parameter that was not given, a scalar given as a number */
    uint8_t refused;    /* aicf_check: the reader saw what no kernel takes; 0: fine */
    const void *source; /* how it was read: an immutable record of the reader's */
    void *owner;        /* released by `release`; both NULL for a borrowed tensor */
    void (*release)(void *owner);
    int64_t local[2 * AICF_MAX_RANK]; /* for readers without arrays in elements; else untouched */
} aicf_tensor;

/* What a kernel takes where its layout is not one pointer. Strides are in elements, 0 where the
   tensor is broadcast along that dim; strides of dims of size 1 are 0 as well. */
typedef struct aicf_view {
    void *data;
    int64_t rank;
    int64_t sizes[AICF_MAX_RANK];
    int64_t strides[AICF_MAX_RANK];
} aicf_view;

/* A list parameter: `count` views, one a tensor. */
typedef struct aicf_list {
    int64_t count;
    const aicf_view *views;
} aicf_list;

/* An `axes` attribute. */
typedef struct aicf_ints {
    int64_t count; /* -1 before folding: all axes */
    int64_t values[AICF_MAX_DIMS];
} aicf_ints;

/* A scalar: `data` is the address of its one element on the op's device, or NULL: then the value is
   in `host`. `dtype` is the row's, of the address too. Before prepare it says instead which member
   of `host` is set: any float dtype, any other, or 0 where that is as in the row; prepare converts,
   and refuses a number that an integer dtype does not hold. */
typedef struct aicf_scalar {
    const void *data;
    aicf_dtype dtype;
    union {
        double real;     /* of a float dtype */
        int64_t integer; /* of an integer dtype or bool */
    } host;
} aicf_scalar;

static inline bool
aicf_device_same(aicf_device a, aicf_device b)
{
    return a.type == b.type && a.index == b.index;
}

/* Finds what the reader left open: adds byte_offset to data, counts the elements, finds the address
   range and whether it is dense. Sets `refused` where sizes, strides or the range are malformed or
   overflow, where there are elements but no address, and where the address is no multiple of the
   item size. Requires the DLTensor part, `read_only`, `absent` and `refused`. Reads sizes and
   strides only for 0 < rank <= AICF_MAX_DIMS. */
void aicf_tensor_settle(aicf_tensor *t);

/* True if all the tensors present have the same sizes. */
bool aicf_tensors_same_shape(const aicf_tensor *const *t, int count);

/* True if two elements of `t` may share memory: an out must not. */
bool aicf_tensor_overlaps_itself(const aicf_tensor *t);

/* True if writing `out` may change `in`. With `exact`, the very same elements in the same order do
   not count. Ranges first, then the lattice of the strides; errs towards true. */
bool aicf_tensors_overlap(const aicf_tensor *out, const aicf_tensor *in, bool exact);

#endif
