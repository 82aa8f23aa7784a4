#include "block.h"

#include <stdlib.h>
#include <string.h>

static void
kept_drop(kept *k)
{
    if (k && __atomic_sub_fetch(&k->references, 1, __ATOMIC_ACQ_REL) == 0) {
        tensor_release(&k->t);
        Py_XDECREF(k->object);
        PyMem_Free(k);
    }
}

void
block_drop(block *b)
{
    if (!b || __atomic_sub_fetch(&b->references, 1, __ATOMIC_ACQ_REL) > 0) {
        return;
    }
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    for (int i = 0; i < b->count; i++) {
        kept_drop(b->tensors[i]);
    }
    handle_close(b->handle);
    free(b->call);
    free(b->options);
    PyMem_Free(b);
    PyErr_Restore(type, value, trace);
}

/* Calls are 16-byte aligned. */
static aicf_call *
call_copy(const aicf_call *call, size_t bytes)
{
    aicf_call *copy = malloc(bytes);
    if (copy) {
        memcpy(copy, call, bytes);
    }
    return copy;
}

block *
block_create(const frame *f)
{
    block *b = PyMem_Calloc(1, sizeof *b + sizeof(kept *) * (size_t)f->count);
    if (b) {
        b->references = 1;
        b->handle = handle_share(f->handle);
        b->count = f->count;
        b->given = f->given;
        b->options = call_copy(f->call, f->op->call_size);
        b->call = malloc(aicf_call_bytes(f->op, f->count));
    }
    if (b && (!b->options || !b->call)) {
        block_drop(b);
        b = NULL;
    }
    if (!b) {
        PyErr_NoMemory();
    }
    return b;
}

/* ---- tensors that may move ------------------------------------------------------------------- */

static int
param_of_tensor(const aicf_call *call, int tensor)
{
    int param = 0;
    while (param + 1 < call->op->params && aicf_call_start(call, param + 1) <= tensor) {
        param++;
    }
    return param;
}

/* Of tensor `i`, by what alias_moved or alias_look answered. */
static int
refuse_moved(const core_state *core, const aicf_call *options, int i, int moved)
{
    char text[256];
    const aicf_op *op = options->op;
    const char *name = op->params_of[param_of_tensor(options, i)].name;
    if (!moved) {
        return 0;
    }
    PyErr_Clear();
    PyOS_snprintf(
        text, sizeof text, "%s: %s: its memory was resized after it was bound: set() it again",
        op->name, name);
    PyObject *values[] = {PyUnicode_FromString(op->name), PyUnicode_FromString(name)};
    raise_with(core->unsupported, text, (const char *const[]){"op", "arg", NULL}, values);
    return -1;
}

/* -1 with an exception where a tensor is not where it was. */
static int
block_check(const block *b)
{
    for (int i = 0; i < b->count; i++) {
        const aicf_tensor *t = &b->tensors[i]->t;
        int moved = alias_object(t) ? alias_moved(t) : 0;
        if (moved) {
            return refuse_moved(b->handle->core, b->options, i, moved);
        }
    }
    return 0;
}

/* Takes over the tensors that the frame owns. */
static int
block_keep(block *b, frame *f)
{
    for (int i = 0; i < f->count; i++) {
        if (b->tensors[i]) { /* shared with the block before */
            b->watches |= alias_object(&b->tensors[i]->t) != NULL;
            continue;
        }
        kept *k = PyMem_Calloc(1, sizeof *k);
        if (!k) {
            PyErr_NoMemory();
            return -1;
        }
        k->references = 1;
        k->t = f->t[i];
        b->watches |= alias_object(&k->t) != NULL;
        k->object = f->t[i].absent ? NULL : Py_NewRef(f->objects[i]);
        f->t[i].release = NULL;
        f->seen[i] = 0;
        b->tensors[i] = k;
    }
    return 0;
}

static int
frame_share(frame *f, int i, const aicf_tensor *kept)
{
    if (alias_object(kept)) {
        return refuse_moved(f->core, f->call, i, alias_look(kept, &f->t[i]));
    }
    f->t[i] = *kept;
    f->t[i].release = NULL;
    return 0;
}

/* Owns what is not shared with the block before. */
static int
frame_own(frame *f, kept *const *shared)
{
    memset(f->seen, 0, (size_t)f->count);
    f->holds = true;
    for (int i = 0; i < f->count; i++) {
        bool absent = !f->objects[i] || f->objects[i] == Py_None;
        if (shared[i]) {
            if (frame_share(f, i, &shared[i]->t) < 0) {
                return -1;
            }
        } else if (absent) {
            const aicf_param *param = &f->op->params_of[frame_param(f, i)];
            if (!param->optional && param->role != AICF_SCALAR) {
                return raise_misuse(f->op, param->name, f->objects[i] ? "is None" : "is missing");
            }
            f->t[i] = (aicf_tensor){.absent = true, .dense = true};
        } else if (frame_own_one(f, i) < 0) {
            return -1;
        }
    }
    return 0;
}

int
block_prepare(block *b, frame *f)
{
    if (frame_own(f, b->tensors) < 0) {
        return -1;
    }
    variant_choose(f);
    aicf_status status = f->status;
    if (status.kind == AICF_OK) {
        status = f->op->prepare(f->t, f->call);
    }
    if (status.kind) {
        raise_status(f->handle, f->call, f->t, status);
        return -1;
    }
    memcpy(b->call, f->call, aicf_call_bytes(f->op, f->count));
    if (b->call->launch && !backend_of_call(b->call)->host) {
        b->lead = stream_lead(f->t, f->count);
        status = frame_order(f, backend_of_call(b->call));
    }
    if (status.kind) {
        raise_status(f->handle, f->call, f->t, status);
        return -1;
    }
    return block_keep(b, f);
}

/* ---- launching ------------------------------------------------------------------------------- */

/* A launch that sets anything sets it in a copy. */
static aicf_status
block_launch_copy(block *b)
{
    aicf_call *copy = call_copy(b->call, aicf_call_bytes(b->call->op, b->count));
    if (!copy) {
        return (aicf_status){.kind = AICF_NO_MEMORY};
    }
    aicf_status status = launch(b->handle, copy, b->lead);
    free(copy);
    return status;
}

int
block_launch(block *b)
{
    aicf_call *call = b->call;
    aicf_status status = aicf_ok();
    if (b->watches && block_check(b) < 0) {
        return -1;
    }
    if (call->launch) {
        bool as_is = !call->workspace_size && (call->stream_given || backend_of_call(call)->host);
        status = as_is ? launch(b->handle, call, b->lead) : block_launch_copy(b);
    }
    if (status.kind) {
        raise_status(b->handle, call, NULL, status);
        return -1;
    }
    return 0;
}

void
block_inherit(block *b, const frame *f, const block *before, uint64_t same)
{
    for (int p = 0; p < f->op->params; p++) {
        int from = aicf_call_start(before->options, p), to = aicf_call_start(f->call, p);
        int count = aicf_call_count(f->call, p);
        if (!(same >> p & 1) || count != aicf_call_count(before->options, p)) {
            continue;
        }
        for (int i = 0; i < count; i++) {
            b->tensors[to + i] = before->tensors[from + i];
            __atomic_add_fetch(&b->tensors[to + i]->references, 1, __ATOMIC_RELAXED);
        }
    }
}

int
block_traverse(const block *b, visitproc visit, void *arg)
{
    for (int i = 0; i < b->count; i++) {
        if (b->tensors[i]) {
            Py_VISIT(b->tensors[i]->object);
            Py_VISIT(buffer_exporter(&b->tensors[i]->t));
            Py_VISIT(alias_object(&b->tensors[i]->t));
        }
    }
    return 0;
}
