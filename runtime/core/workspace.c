/* The memory that a caller gives a bound call for its kernel to work in. It is read like a tensor,
   held like one, and the kernel may write all of it at each launch. */
#include "block.h"

#include <string.h>

static const aicf_param params[] = {
    {.name = "workspace", .role = AICF_OUT, .list = -1, .order = -1}};
static const aicf_dtype any_dtype[1];
static const char *const suffixes[] = {"any"};
static const aicf_op reader_op = {
    .size = sizeof reader_op,
    .version = AICF_CALL_VERSION,
    .name = "bind",
    .package = "aicf_rt",
    .call_size = (sizeof(aicf_call) + 15) / 16 * 16,
    .dims_offset = (sizeof(aicf_call) + 15) / 16 * 16,
    .outs = 1,
    .params = 1,
    .variants = 1,
    .params_of = params,
    .dtypes = any_dtype,
    .suffixes = suffixes,
};

/* As backends' own memory begins, and so as kernels were tried. */
enum { ALIGNED_HOST = 64, ALIGNED_DEVICE = 256 };

/* ---- reading --------------------------------------------------------------------------------- */

static kept *
kept_read(frame *f)
{
    memset(f->seen, 0, (size_t)f->count);
    if (frame_own_one(f, 0) < 0) {
        return NULL;
    }
    kept *k = NULL;
    if (f->t[0].refused) {
        aicf_status refused = aicf_unsupported((aicf_check)f->t[0].refused, 0, 0);
        raise_status(f->handle, f->call, f->t, refused);
    } else {
        k = kept_create(f, 0);
    }
    if (!k) {
        tensor_release(&f->t[0]);
    }
    return k;
}

int
workspace_own(block *b, const frame *f)
{
    if (!f->workspace || f->workspace == Py_None || b->workspace) {
        return 0;
    }
    aicf_handle *handle = handle_of_reader(&reader_op);
    if (!handle) {
        return -1;
    }
    FRAME_ROOM(handle);
    frame reader;
    if (frame_begin(&reader, handle, room, 0, FORM_TYPED, &f->workspace, 1, NULL) == 0) {
        b->workspace = kept_read(&reader);
        frame_end(&reader);
    }
    handle_close(handle);
    return b->workspace ? 0 : -1;
}

/* ---- what it must be ------------------------------------------------------------------------- */

/* The tensor that shares memory with it, -1: none. */
static int
shared_with(const aicf_tensor *room, const frame *f)
{
    for (int i = 0; i < f->count; i++) {
        const aicf_tensor *t = &f->t[i];
        if (!t->absent && t->first < room->end && room->first < t->end) {
            return i;
        }
    }
    return -1;
}

/* What is wrong with it, in words; false: nothing. */
static bool
find_fault(const aicf_tensor *room, const aicf_call *call, const frame *f, char *text, size_t size)
{
    const char *kernel = call->op->kernels[call->kernel].id;
    bool host = backend_of_call(call)->host;
    unsigned aligned = host ? ALIGNED_HOST : ALIGNED_DEVICE;
    long long bytes = (long long)(room->end - room->first);
    int other = shared_with(room, f);
    if (!aicf_device_same(room->device, call->device)) {
        PyOS_snprintf(
            text, size, "it lies on device %d of type %d, the call's tensors on %d of type %d",
            (int)room->device.index, (int)room->device.type, (int)call->device.index,
            (int)call->device.type);
    } else if (room->read_only) {
        PyOS_snprintf(text, size, "it is read-only");
    } else if (!room->dense) {
        PyOS_snprintf(text, size, "it has gaps");
    } else if (bytes < call->workspace_size) {
        PyOS_snprintf(
            text, size, "kernel %s needs %lld bytes, it has %lld", kernel,
            (long long)call->workspace_size, bytes);
    } else if (room->first % aligned) {
        PyOS_snprintf(text, size, "its address is no multiple of %u", aligned);
    } else if (other >= 0) {
        const char *name = f->op->params_of[frame_param(f, other)].name;
        PyOS_snprintf(text, size, "it shares memory with %s", name);
    } else {
        return false;
    }
    return true;
}

int
workspace_settle(block *b, const frame *f)
{
    aicf_call *call = b->call;
    char text[512], fault[384];
    if (!b->workspace || !call->launch || !call->workspace_size) {
        return 0;
    }
    const aicf_tensor *room = &b->workspace->t;
    if (!find_fault(room, call, f, fault, sizeof fault)) {
        call->workspace = (void *)room->first;
        return 0;
    }
    PyOS_snprintf(text, sizeof text, "%s: workspace: %s", f->op->name, fault);
    PyObject *values[] = {PyUnicode_FromString(f->op->name), PyUnicode_FromString("workspace")};
    raise_with(f->core->unsupported, text, (const char *const[]){"op", "arg", NULL}, values);
    return -1;
}
