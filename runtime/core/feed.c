#include "feed.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 32, HALF = SLOTS / 2, PLACE = 256 };

/* An event stands for all slots of a half: it is recorded behind the launch of the last of them,
   and waited for before the first is written again. */
struct ring {
    ring *next;
    aicf_device device;
    int64_t room; /* bytes of a slot */
    int at;       /* the slot of the next launch */
    aicf_event events[2];
    bool recorded[2];
    char slots[];
};

/* ---- rings ----------------------------------------------------------------------------------- */

/* Rings that no feed has any more. What was queued last may still read them: their events say when
   it has, and they are waited for by who takes the ring. So they are not freed. */
static pthread_mutex_t idle_lock = PTHREAD_MUTEX_INITIALIZER;
static ring *idle;

static ring *
ring_find(aicf_device device, int64_t bytes)
{
    pthread_mutex_lock(&idle_lock);
    ring **at = &idle;
    while (*at && !(aicf_device_same((*at)->device, device) && (*at)->room >= bytes)) {
        at = &(*at)->next;
    }
    ring *found = *at;
    if (found) {
        *at = found->next;
    }
    pthread_mutex_unlock(&idle_lock);
    return found;
}

static void
ring_free(ring *r, const aicf_backend *backend)
{
    for (int i = 0; i < 2; i++) {
        if (r->events[i]) {
            backend->destroy_event(r->device, r->events[i]);
        }
    }
    free(r);
}

static aicf_status
ring_make(ring **made, const aicf_backend *backend, aicf_device device, int64_t bytes)
{
    int64_t room = (bytes + PLACE - 1) / PLACE * PLACE;
    ring *r = calloc(1, sizeof *r + (size_t)(SLOTS * room));
    aicf_status status = {.kind = r ? AICF_OK : AICF_NO_MEMORY};
    for (int i = 0; i < 2 && status.kind == AICF_OK; i++) {
        r->device = device;
        r->room = room;
        status = backend->create_event(device, &r->events[i]);
    }
    if (status.kind && r) {
        ring_free(r, backend);
        r = NULL;
    }
    *made = r;
    return status;
}

static aicf_status
ring_take(feed *f, const aicf_backend *backend, aicf_device device)
{
    f->slots = ring_find(device, f->bytes);
    return f->slots ? aicf_ok() : ring_make(&f->slots, backend, device, f->bytes);
}

/* ---- feeds ----------------------------------------------------------------------------------- */

static int
refuse(const core_state *core, const char *what)
{
    char text[200];
    PyOS_snprintf(text, sizeof text, "capture: feed: %s", what);
    PyObject *values[] = {Py_NewRef(Py_None), PyUnicode_FromString("feed")};
    raise_with(core->unsupported, text, (const char *const[]){"op", "arg", NULL}, values);
    return -1;
}

static int
feed_check(feed *f, const core_state *core, const aicf_backend *backend, aicf_device device)
{
    f->bytes = f->copy->call->work;
    return !copy_goes_up(f->copy)
               ? refuse(core, "it is a pair (host, out), of the host's memory and of the device's")
           : !aicf_device_same(f->copy->call->device, device)
               ? refuse(core, "out is on another device than the calls")
           : f->bytes > FEED_BYTES ? refuse(core, "it is of 64 KiB at most")
           : !backend->copy || !backend->create_event
               ? refuse(core, "the backend has no copies or no events")
               : 0;
}

int
feed_init(
    feed *f, const core_state *core, const aicf_backend *backend, aicf_device device,
    PyObject *pair)
{
    if (!PyTuple_Check(pair) || PyTuple_Size(pair) != 2) {
        PyErr_SetString(PyExc_TypeError, "capture: feed is a tuple (host, out)");
        return -1;
    }
    f->copy = copy_bind(PyTuple_GetItem(pair, 0), PyTuple_GetItem(pair, 1));
    if (!f->copy) {
        return -1;
    }
    f->pair = Py_NewRef(pair);
    if (feed_check(f, core, backend, device) == 0) {
        f->writes = backend->write != NULL;
        aicf_status status = f->writes ? aicf_ok() : ring_take(f, backend, device);
        if (raise_unless("capture", core, backend, status) == 0) {
            return 0;
        }
    }
    feed_finish(f, backend, NULL);
    return -1;
}

bool
feed_waits(const feed *f)
{
    const ring *r = f->slots;
    return r && r->at % HALF == 0 && r->recorded[r->at / HALF];
}

static aicf_status
copy_queue(feed *f, const aicf_backend *backend, aicf_device device, aicf_stream stream)
{
    double none;
    ring *r = f->slots;
    char *slot = r->slots + r->at * r->room;
    if (feed_waits(f)) {
        aicf_event event = r->events[r->at / HALF];
        aicf_status status = backend->elapsed(device, event, event, &none);
        if (status.kind) {
            return status;
        }
        r->recorded[r->at / HALF] = false;
    }
    memcpy(slot, f->copy->tensors[0]->t.data, (size_t)f->bytes);
    return backend->copy(device, stream, f->copy->tensors[1]->t.data, slot, f->bytes);
}

/* What is not written is copied, from then on. */
aicf_status
feed_queue(feed *f, const aicf_backend *backend, aicf_device device, aicf_stream stream)
{
    aicf_status status = {.kind = AICF_UNSUPPORTED};
    if (f->writes) {
        status = backend->write(
            device, stream, f->copy->tensors[1]->t.data, f->copy->tensors[0]->t.data, f->bytes);
        f->writes = status.kind != AICF_UNSUPPORTED;
    }
    if (status.kind == AICF_UNSUPPORTED) {
        status = f->slots ? aicf_ok() : ring_take(f, backend, device);
        status = status.kind ? status : copy_queue(f, backend, device, stream);
    }
    return status;
}

aicf_status
feed_mark(feed *f, const aicf_backend *backend, aicf_device device, aicf_stream stream)
{
    ring *r = f->slots;
    int half = r ? r->at / HALF : 0;
    aicf_status status = aicf_ok();
    if (!r) {
        return status;
    }
    if (r->at % HALF == HALF - 1) {
        status = backend->record_event(device, stream, r->events[half]);
        r->recorded[half] = status.kind == AICF_OK;
    }
    r->at = (r->at + 1) % SLOTS;
    return status;
}

/* A ring whose events do not say when it is free is lost, and harms nobody. */
static void
ring_give(ring *r, const aicf_backend *backend, aicf_stream last)
{
    for (int i = 0; i < 2 && last; i++) {
        if (backend->record_event(r->device, last, r->events[i]).kind) {
            return;
        }
        r->recorded[i] = true;
    }
    r->at = 0;
    pthread_mutex_lock(&idle_lock);
    r->next = idle;
    idle = r;
    pthread_mutex_unlock(&idle_lock);
}

void
feed_finish(feed *f, const aicf_backend *backend, aicf_stream last)
{
    if (f->slots) {
        ring_give(f->slots, backend, last);
    }
    block_drop(f->copy);
    Py_XDECREF(f->pair);
    *f = (feed){NULL, NULL, 0, false, NULL};
}
