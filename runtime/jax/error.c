#include "ffi.h"

#include <stdarg.h>
#include <stdio.h>

XLA_FFI_Error *
error_create(const XLA_FFI_CallFrame *frame, XLA_FFI_Error_Code code, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    XLA_FFI_Error_Create_Args args = {
        .struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE, .message = text, .errc = code};
    return frame->api->XLA_FFI_Error_Create(&args);
}

XLA_FFI_Error *
error_of_status(const request *r, aicf_status status)
{
    char text[1024];
    switch ((aicf_kind)status.kind) {
    case AICF_UNSUPPORTED:
    case AICF_BACKEND_ERROR:
        aicf_status_describe(status, r->call, r->t, text, sizeof text);
        return error_create(
            r->frame,
            status.kind == AICF_UNSUPPORTED ? XLA_FFI_Error_Code_INVALID_ARGUMENT
                                            : XLA_FFI_Error_Code_INTERNAL,
            "%s", text);
    case AICF_NO_MEMORY:
        return error_create(
            r->frame, XLA_FFI_Error_Code_RESOURCE_EXHAUSTED, "%s: no memory for %lld bytes",
            r->op->name, (long long)r->call->workspace_size);
    case AICF_INTERNAL:
    case AICF_OK: break;
    }
    return error_create(
        r->frame, XLA_FFI_Error_Code_INTERNAL, "%s: an internal fault, check %d of argument %d",
        r->op->name, (int)status.check, (int)status.arg);
}
