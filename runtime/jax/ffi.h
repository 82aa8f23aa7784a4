/* Ops as XLA calls them: a custom call of one of our handlers says by its attributes which op it
   is, and the handler takes prepare and launch of libaicf. No Python, no GIL.

   A call frame has, beside the row's attributes under their own names, which hold no dot:
     aicf.op      "package.op", as registered
     aicf.counts  one integer a parameter: how many buffers it has; 0 where it is absent
     aicf.kernel  the one kernel that may run; left out: any
   Operands are the tensor arguments in the row's order, then the scalars; results are the new
   values of the arguments that are written in place, each in its operand's memory, then the outs.
 */
#ifndef AICF_JAX_FFI_H
#define AICF_JAX_FFI_H

#include <aicf/call.h>
#include <xla/ffi/api/c_api.h>

/* ---- registry.c: ops by name. Entries stay, so that a found op may be used for ever. ------------
 */

/* The op answers to its name from now on, also where another one did. False: no memory. */
bool registry_add(const aicf_op *op);
/* NULL: nobody registered it. Any thread. */
const aicf_op *registry_find(const char *name, size_t length);

/* ---- frame.c: what a call frame asks for ------------------------------------------------------
 */

typedef struct request {
    XLA_FFI_CallFrame *frame;
    const aicf_op *op;
    aicf_call *call;
    aicf_tensor *t;
    void *heap; /* of both, where they do not fit `room` */
    _Alignas(16) char room[12 << 10];
} request;

/* Fills all but `frame`, which is set, and `call->stream`: the tensors, on `device`, and the
   attributes, ready for prepare. NULL, or XLA's error. request_end follows either. */
XLA_FFI_Error *request_begin(request *r, aicf_device device);
void request_end(request *r);

/* ---- attributes.c: the row's attributes from the frame's ---------------------------------------
 */

/* The index of an attribute of the frame, -1: it has none of that name. */
int64_t attributes_find(const XLA_FFI_Attrs *attrs, const char *name);
/* NULL where that is no text, or no array of integers. */
const XLA_FFI_ByteSpan *attributes_text(const XLA_FFI_Attrs *attrs, int64_t index);
const int64_t *attributes_integers(const XLA_FFI_Attrs *attrs, int64_t index, size_t *count);
/* Puts the frame's value of an attribute into the call; false: it is of another kind. */
bool
attributes_set(aicf_call *call, const aicf_attr *attr, const XLA_FFI_Attrs *attrs, int64_t index);

/* ---- error.c
 * ------------------------------------------------------------------------------------- */

XLA_FFI_Error *
error_create(const XLA_FFI_CallFrame *frame, XLA_FFI_Error_Code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The error of a status other than ok, in the words of the exceptions that other callers get. */
XLA_FFI_Error *error_of_status(const request *r, aicf_status status);

/* ---- handler.c: one for each platform ---------------------------------------------------------
 */

XLA_FFI_Error *handler_host(XLA_FFI_CallFrame *frame);
XLA_FFI_Error *handler_cuda(XLA_FFI_CallFrame *frame);
/* Of ops without a workspace: it may be captured in a graph and replayed. */
XLA_FFI_Error *handler_cuda_capturable(XLA_FFI_CallFrame *frame);

#endif
