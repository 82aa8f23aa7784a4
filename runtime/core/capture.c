#include "capture.h"

#include "branches.h"

enum { TRIES = 4 };

/* On a stream of its own, which is not captured yet. */
static aicf_status
room_make(const recording *r, aicf_stream stream, workspace *room)
{
    room->bytes = r->workspace;
    aicf_status status = r->backend->allocate(r->device, stream, room->bytes, &room->memory);
    return status.kind ? status : r->backend->synchronize(r->device, stream);
}

/* What was begun is ended, whatever came between. */
static void
capture_on(capture *c, aicf_stream stream, void *memory)
{
    const recording *r = c->recorded;
    c->status = r->backend->begin_graph(r->device, stream);
    if (c->status.kind) {
        return;
    }
    c->status = r->branches ? branches_queue(r, stream, memory, &c->item)
                            : recording_queue(r, stream, memory, &c->item);
    bool queued = c->status.kind == AICF_OK;
    aicf_status ended = r->backend->end_graph(
        r->device, stream, queued ? &c->graph : NULL, c->change, &c->changed, &c->nodes);
    if (queued) {
        c->item = -1;
        c->status = ended;
    }
}

/* Others may spoil it, a few times. */
static void
capture_again(capture *c, aicf_stream stream, void *memory)
{
    bool spoiled = true;
    for (int i = 0; i < TRIES && spoiled; i++) {
        capture_on(c, stream, memory);
        spoiled = c->status.kind == AICF_BACKEND_ERROR &&
                  c->recorded->backend->spoiled_graph(c->status.native);
        c->item = spoiled ? -1 : c->item; /* no call is to blame */
    }
}

void
capture_run(capture *c, const workspace *room)
{
    const recording *r = c->recorded;
    aicf_stream stream;
    c->status = stream_take(r->backend, r->device, &stream);
    if (c->status.kind) {
        return;
    }
    if (r->workspace > room->bytes) {
        c->status = room_make(r, stream, &c->room);
    }
    if (c->status.kind == AICF_OK) {
        capture_again(c, stream, c->room.memory ? c->room.memory : room->memory);
    }
    if (c->status.kind && c->room.memory) {
        r->backend->release(r->device, stream, c->room.memory);
        c->room = (workspace){NULL, 0};
    }
    stream_give(r->device, stream);
}

int
capture_raise(const capture *c, const core_state *core)
{
    const recording *r = c->recorded;
    if (c->item < 0) {
        return raise_unless("capture", core, r->backend, c->status);
    }
    const block *b = r->blocks[c->item];
    raise_status(b->handle, b->call, NULL, c->status);
    raise_item("capture", c->item, r->count, "nothing was launched");
    return -1;
}
