#include "ffi.h"

#include <string.h>

/* ---- what XLA asks before any call ----------------------------------------------------------- */

/* Whether the frame asks what the handler is; then it has been told. */
static bool
tell_metadata(XLA_FFI_CallFrame *frame, XLA_FFI_Handler_Traits traits)
{
    /* The type of extension_start has another name from version 0.4 of the interface on. */
    XLA_FFI_Metadata_Extension *extension = (XLA_FFI_Metadata_Extension *)frame->extension_start;
    if (!extension || extension->extension_base.type != XLA_FFI_Extension_Metadata) {
        return false;
    }
    XLA_FFI_Metadata *metadata = extension->metadata;
    metadata->api_version = (XLA_FFI_Api_Version){
        .struct_size = XLA_FFI_Api_Version_STRUCT_SIZE,
        .major_version = XLA_FFI_API_MAJOR,
        .minor_version = XLA_FFI_API_MINOR,
    };
    metadata->traits = traits;
    return true;
}

/* ---- on the host ----------------------------------------------------------------------------- */

static aicf_status
launch_host(aicf_call *call)
{
    const aicf_op *op = call->op;
    const aicf_backend *backend = op->backends[op->kernels[call->kernel].backend].backend;
    if (!call->workspace_size) {
        return aicf_call_launch(call);
    }
    aicf_status status =
        backend->allocate(call->device, NULL, call->workspace_size, &call->workspace);
    if (status.kind == AICF_OK) {
        status = aicf_call_launch(call);
        backend->release(call->device, NULL, call->workspace);
    }
    return status;
}

XLA_FFI_Error *
handler_host(XLA_FFI_CallFrame *frame)
{
    if (tell_metadata(frame, 0)) {
        return NULL;
    }
    request r;
    r.frame = frame;
    XLA_FFI_Error *error = request_begin(&r, (aicf_device){1, 0});
    if (!error) {
        aicf_status status = r.op->prepare(r.t, r.call);
        if (status.kind == AICF_OK && r.call->launch) {
            status = launch_host(r.call);
        }
        error = status.kind ? error_of_status(&r, status) : NULL;
    }
    request_end(&r);
    return error;
}

/* ---- on CUDA --------------------------------------------------------------------------------- */

static XLA_FFI_Error *
find_device(const XLA_FFI_CallFrame *frame, aicf_device *device)
{
    XLA_FFI_DeviceOrdinal_Get_Args args = {
        .struct_size = XLA_FFI_DeviceOrdinal_Get_Args_STRUCT_SIZE, .ctx = frame->ctx};
    XLA_FFI_Error *error = frame->api->XLA_FFI_DeviceOrdinal_Get(&args);
    *device = (aicf_device){2, args.device_ordinal};
    return error;
}

static XLA_FFI_Error *
find_stream(const XLA_FFI_CallFrame *frame, aicf_stream *stream)
{
    XLA_FFI_Stream_Get_Args args = {
        .struct_size = XLA_FFI_Stream_Get_Args_STRUCT_SIZE, .ctx = frame->ctx};
    XLA_FFI_Error *error = frame->api->XLA_FFI_Stream_Get(&args);
    *stream = args.stream;
    return error;
}

static XLA_FFI_Error *
launch(const request *r)
{
    aicf_status status = aicf_call_launch(r->call);
    return status.kind ? error_of_status(r, status) : NULL;
}

/* XLA's allocator gives memory in the order of the stream, so it may go back once the launch is
   queued. Its blocks are aligned to 256 bytes; it does not take a demand beyond 16. */
static XLA_FFI_Error *
launch_with_memory(request *r)
{
    const XLA_FFI_CallFrame *frame = r->frame;
    XLA_FFI_DeviceMemory_Allocate_Args taken = {
        .struct_size = XLA_FFI_DeviceMemory_Allocate_Args_STRUCT_SIZE,
        .ctx = frame->ctx,
        .size = (size_t)r->call->workspace_size,
        .alignment = 16,
    };
    XLA_FFI_Error *error = frame->api->XLA_FFI_DeviceMemory_Allocate(&taken);
    if (error) {
        return error;
    }
    r->call->workspace = taken.data;
    error = launch(r);
    XLA_FFI_DeviceMemory_Free_Args given = {
        .struct_size = XLA_FFI_DeviceMemory_Free_Args_STRUCT_SIZE,
        .ctx = frame->ctx,
        .size = taken.size,
        .data = taken.data,
    };
    XLA_FFI_Error *late = frame->api->XLA_FFI_DeviceMemory_Free(&given);
    return error ? error : late;
}

static XLA_FFI_Error *
run_cuda(request *r)
{
    aicf_device device;
    XLA_FFI_Error *error = find_device(r->frame, &device);
    r->heap = NULL;
    error = error ? error : request_begin(r, device);
    error = error ? error : find_stream(r->frame, &r->call->stream);
    if (error) {
        return error;
    }
    r->call->stream_given = true;
    aicf_status status = r->op->prepare(r->t, r->call);
    if (status.kind || !r->call->launch) {
        return status.kind ? error_of_status(r, status) : NULL;
    }
    return r->call->workspace_size ? launch_with_memory(r) : launch(r);
}

XLA_FFI_Error *
handler_cuda(XLA_FFI_CallFrame *frame)
{
    if (tell_metadata(frame, 0)) {
        return NULL;
    }
    request r;
    r.frame = frame;
    XLA_FFI_Error *error = run_cuda(&r);
    request_end(&r);
    return error;
}

XLA_FFI_Error *
handler_cuda_capturable(XLA_FFI_CallFrame *frame)
{
    if (tell_metadata(frame, XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE)) {
        return NULL;
    }
    return handler_cuda(frame);
}
