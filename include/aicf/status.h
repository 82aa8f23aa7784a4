/* How a step ended: 64 bits, returned by value, free to make on the path where nothing failed. Text
   is made only when somebody asks for it. */
#ifndef AICF_STATUS_H
#define AICF_STATUS_H

#include <stdint.h>

typedef enum aicf_kind {
    AICF_OK,
    AICF_UNSUPPORTED,   /* outside the capability: nothing was written, nothing launched */
    AICF_BACKEND_ERROR, /* `native` is the backend's own code */
    AICF_NO_MEMORY,     /* host memory; a device's is the backend's error */
    AICF_INTERNAL       /* a fault of ours */
} aicf_kind;

/* What an unsupported call failed at. `arg` is the parameter it is about; `native` adds what the
   comment says, else which tensor of a list it is. */
typedef enum aicf_check {
    AICF_CHECK_NONE,
    AICF_CHECK_DTYPE,        /* of no dtype that the parameter takes here */
    AICF_CHECK_RANK,         /* rank or sizes out of range */
    AICF_CHECK_SHAPE,        /* not the shape that follows from the row */
    AICF_CHECK_DEVICE,       /* not the device of the others; `native`: the parameter that has it */
    AICF_CHECK_BACKEND,      /* a device that no backend of the table serves */
    AICF_CHECK_READ_ONLY,    /* an out or inout that must not be written */
    AICF_CHECK_OVERLAP,      /* `native`: the parameter it overlaps */
    AICF_CHECK_SELF_OVERLAP, /* elements of an out share memory */
    AICF_CHECK_BYTE_ORDER,
    AICF_CHECK_ALIGNMENT, /* address or stride is no multiple of the item size */
    AICF_CHECK_MEMORY, /* elements but no address: fake, meta tensors; or it is required and absent
                        */
    AICF_CHECK_RANGE,  /* address range, span or element count overflows */
    AICF_CHECK_NEGATIVE,   /* torch's lazy negative bit */
    AICF_CHECK_CONJUGATE,  /* torch's lazy conjugate bit */
    AICF_CHECK_GRADIENT,   /* requires_grad, on a form that records nothing */
    AICF_CHECK_TANGENT,    /* a forward-mode dual */
    AICF_CHECK_MASKED,     /* numpy's masked arrays: the mask would be ignored */
    AICF_CHECK_VALUE,      /* `native`: the attribute that is out of its bounds */
    AICF_CHECK_SCALAR,     /* a scalar tensor of not one element, or of another dtype or device */
    AICF_CHECK_LIST,       /* lists of one `n` with different lengths */
    AICF_CHECK_WHERE,      /* `native`: the row's condition */
    AICF_CHECK_EXPRESSION, /* `native`: the dim whose expression overflows or divides by zero */
    AICF_CHECK_KERNEL      /* no kernel fits; `native`: the one demanded, or -1 */
} aicf_check;

typedef struct aicf_status {
    uint8_t kind;    /* aicf_kind */
    uint8_t backend; /* index into op->backends, of a backend error */
    uint8_t check;   /* aicf_check */
    uint8_t arg;     /* index of the parameter it is about */
    int32_t native;
} aicf_status;

/* Inlined however small a caller shall be: it is a constant. */
static inline __attribute__((always_inline)) aicf_status
aicf_ok(void)
{
    aicf_status status = {0, 0, 0, 0, 0};
    return status;
}

static inline aicf_status
aicf_unsupported(aicf_check check, int arg, int native)
{
    aicf_status status = {AICF_UNSUPPORTED, 0, (uint8_t)check, (uint8_t)arg, native};
    return status;
}

#endif
