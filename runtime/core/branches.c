#include "branches.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGNED = 256 };

/* Of workspaces: what is taken beyond the one that a chain takes is no more than this. */
static const int64_t ROOM_MOST = (int64_t)64 << 20;

/* A place for workspaces. Its users follow each other. */
typedef struct slot {
    int64_t bytes, offset;
    int64_t last;
} slot;

/* What the blocks use, one after the other. */
typedef struct uses {
    extent *of;
    int64_t *ends; /* of a block's, which begin where those before it end */
    int64_t count;
} uses;

typedef struct maker {
    const recording *r;
    branches *b;
    uses tensors, given; /* `given`: workspaces, where callers gave them */
    int64_t lanes[BRANCHES_MOST];
    int most, used;
    slot slots[BRANCHES_MOST];
    int slot_count;
    int64_t bytes; /* of all slots */
} maker;

/* ---- what a block reads and writes ----------------------------------------------------------- */

/* What a library does beside its operands is its own: nothing runs beside it. */
static void
add_tensors(uses *u, const block *b)
{
    const aicf_call *call = b->call;
    if (call->op->kernels[call->kernel].libs) {
        u->of[u->count++] = HAZARDS_ALL;
        return;
    }
    for (int p = 0; p < call->op->params; p++) {
        int role = call->op->params_of[p].role;
        int start = aicf_call_start(call, p), end = start + aicf_call_count(call, p);
        for (int i = start; i < end; i++) {
            const aicf_tensor *t = &b->tensors[i]->t;
            if (!t->absent && t->first != t->end) {
                bool written = role == AICF_OUT || role == AICF_INOUT;
                u->of[u->count++] = (extent){t->first, t->end, written};
            }
        }
    }
}

static void
add_given(uses *u, const block *b)
{
    uintptr_t first = (uintptr_t)b->call->workspace;
    if (first && b->call->workspace_size) {
        u->of[u->count++] = (extent){first, first + (uintptr_t)b->call->workspace_size, true};
    }
}

/* Both share one array, `given` behind `tensors`. */
static bool
find_uses(maker *m)
{
    const recording *r = m->r;
    size_t items = (size_t)r->count + 1, most = items;
    for (Py_ssize_t i = 0; i < r->count; i++) {
        most += (size_t)r->blocks[i]->count + 1;
    }
    m->tensors = (uses){malloc(most * sizeof(extent)), calloc(items, sizeof(int64_t)), 0};
    m->given = (uses){NULL, calloc(items, sizeof(int64_t)), 0};
    if (!m->tensors.of || !m->tensors.ends || !m->given.ends) {
        return false;
    }
    for (Py_ssize_t i = 0; i < r->count; i++) {
        if (r->blocks[i]->call->launch) {
            add_tensors(&m->tensors, r->blocks[i]);
        }
        m->tensors.ends[i] = m->tensors.count;
    }
    m->given.of = m->tensors.of + m->tensors.count;
    for (Py_ssize_t i = 0; i < r->count; i++) {
        if (r->blocks[i]->call->launch) {
            add_given(&m->given, r->blocks[i]);
        }
        m->given.ends[i] = m->given.count;
    }
    return true;
}

static bool
use(maker *m, const uses *u, int64_t now)
{
    int64_t begin = now ? u->ends[now - 1] : 0;
    return hazards_uses(m->b->order, u->of + begin, u->ends[now] - begin);
}

/* ---- lanes ----------------------------------------------------------------------------------- */

/* The lane that item `now` goes on in: of one that it follows at once, else of one that is done,
   else a new one, else it waits for one. Of several, that of the latest. */
static int
lane_of(const maker *m, int64_t now)
{
    int64_t count, best = -1;
    int found = -1;
    const int32_t *after = hazards_of(m->b->order, now, &count);
    for (int64_t i = 0; i < count && found < 0; i++) {
        for (int lane = 0; lane < m->used; lane++) {
            found = m->lanes[lane] == after[i] ? lane : found;
        }
    }
    for (int pass = 0; pass < 2 && found < 0; pass++) {
        if (pass == 1 && m->used < m->most) {
            return m->used;
        }
        for (int lane = 0; lane < m->used; lane++) {
            bool done = pass == 1 || hazards_is_past(m->b->order, m->lanes[lane]);
            if (done && m->lanes[lane] > best) {
                best = m->lanes[lane];
                found = lane;
            }
        }
    }
    return found < 0 ? m->used : found;
}

/* What it was in its lane behind, -1: it is the first there. */
static int64_t
take_lane(maker *m, int64_t now)
{
    int lane = lane_of(m, now);
    int64_t before = lane < m->used ? m->lanes[lane] : -1;
    if (before >= 0) {
        hazards_follow(m->b->order, before);
    }
    m->used = lane < m->used ? m->used : lane + 1;
    m->lanes[lane] = now;
    return before;
}

/* ---- workspaces ------------------------------------------------------------------------------ */

static int64_t
growth_of(const slot *s, int64_t bytes)
{
    return bytes > s->bytes ? bytes - s->bytes : 0;
}

/* The slot whose last user is done, or any, that has to grow least; of those the one that was used
   least lately. -1: none. */
static int
find_slot(const maker *m, int64_t bytes, bool done)
{
    int found = -1;
    for (int i = 0; i < m->slot_count; i++) {
        const slot *s = &m->slots[i], *best = &m->slots[found < 0 ? i : found];
        if (done && !hazards_is_past(m->b->order, s->last)) {
            continue;
        }
        int64_t more = growth_of(s, bytes) - growth_of(best, bytes);
        if (found < 0 || more < 0 || (more == 0 && s->last < best->last)) {
            found = i;
        }
    }
    return found;
}

/* A workspace that the caller gave is left for one that nobody waits for, while these take little.
   Without one, and where they would take much, it waits for another's. */
static bool
take_workspace(maker *m, const block *b, int64_t now)
{
    const aicf_call *call = b->call;
    int64_t bytes = (call->workspace_size + ALIGNED - 1) / ALIGNED * ALIGNED;
    int at = find_slot(m, bytes, true);
    int64_t more = at < 0 ? bytes : growth_of(&m->slots[at], bytes);
    bool opens = at < 0 && m->slot_count < BRANCHES_MOST;
    bool fits = (at >= 0 || opens) && (more == 0 || m->bytes + more <= ROOM_MOST);
    if (!fits && call->workspace) {
        return use(m, &m->given, now);
    }
    if (!fits && m->slot_count) {
        at = find_slot(m, bytes, false);
        hazards_follow(m->b->order, m->slots[at].last);
    }
    if (at < 0) {
        at = m->slot_count++;
        m->slots[at] = (slot){0, 0, now};
    }
    slot *s = &m->slots[at];
    m->bytes += growth_of(s, bytes);
    s->bytes += growth_of(s, bytes);
    s->last = now;
    m->b->places[now] = at;
    return true;
}

/* From slots to offsets. */
static void
lay_slots(maker *m)
{
    branches *b = m->b;
    for (int i = 0; i < m->slot_count; i++) {
        m->slots[i].offset = b->room;
        b->room += m->slots[i].bytes;
    }
    for (int64_t i = 0; i < b->count; i++) {
        b->places[i] = b->places[i] < 0 ? -1 : m->slots[b->places[i]].offset;
    }
}

/* ---- all of them ----------------------------------------------------------------------------- */

static bool
take_item(maker *m, int64_t now)
{
    hazards *order = m->b->order;
    const block *b = m->r->blocks[now];
    bool made = hazards_begin(order) && use(m, &m->tensors, now);
    if (made && b->call->launch) {
        int64_t before = take_lane(m, now), count;
        made = !b->call->workspace_size || take_workspace(m, b, now);
        const int32_t *after = hazards_of(order, now, &count);
        m->b->early[now] = count == 1 && *after == before;
    }
    hazards_end(order);
    return made;
}

static bool
make_all(maker *m)
{
    branches *b = m->b;
    bool made = true;
    b->order = hazards_create(b->count, m->tensors.of, m->tensors.count + m->given.count);
    b->early = calloc((size_t)b->count, sizeof *b->early);
    b->places = malloc((size_t)b->count * sizeof *b->places);
    if (!b->order || !b->early || !b->places) {
        return false;
    }
    memset(b->places, -1, (size_t)b->count * sizeof *b->places);
    for (int64_t i = 0; i < b->count && made; i++) {
        made = take_item(m, i);
    }
    if (made) {
        lay_slots(m);
    }
    return made;
}

branches *
branches_create(const recording *r, int most)
{
    maker m = {.r = r, .most = most, .b = calloc(1, sizeof(branches))};
    if (!m.b) {
        return NULL;
    }
    m.b->count = r->count;
    bool made = find_uses(&m) && make_all(&m);
    free(m.tensors.of);
    free(m.tensors.ends);
    free(m.given.ends);
    if (!made) {
        branches_free(m.b);
        return NULL;
    }
    return m.b;
}

void
branches_free(branches *b)
{
    if (b) {
        hazards_free(b->order);
        free(b->early);
        free(b->places);
        free(b);
    }
}

/* ---- queueing -------------------------------------------------------------------------------- */

/* The nodes that items left, by which those behind them follow; first those that were there. */
typedef struct leaves {
    int64_t *ends; /* of those that were there, then of each item's */
    aicf_node *nodes;
    int64_t room;
    aicf_node *after; /* of those that one follows */
    int64_t after_room;
} leaves;

static bool
reserve(aicf_node **nodes, int64_t *room, int64_t wanted)
{
    if (wanted <= *room) {
        return true;
    }
    int64_t more = 2 * wanted + 64;
    aicf_node *grown = realloc(*nodes, (size_t)more * sizeof *grown);
    *nodes = grown ? grown : *nodes;
    *room = grown ? more : *room;
    return grown;
}

static const aicf_status no_memory = {.kind = AICF_NO_MEMORY};

/* What the stream has now are those of item i; -1: they were there. */
static aicf_status
leave(const recording *r, aicf_stream stream, leaves *l, int64_t i)
{
    int64_t begin = i < 0 ? 0 : l->ends[i], count = 0, room = l->room;
    aicf_status status;
    do {
        if (!reserve(&l->nodes, &l->room, begin + count)) {
            return no_memory;
        }
        room = l->room - begin;
        status = r->backend->graph_leaves(r->device, stream, l->nodes + begin, room, &count);
    } while (status.kind == AICF_OK && count > room);
    l->ends[i + 1] = begin + count;
    return status;
}

static bool
add_after(leaves *l, int64_t *count, int64_t from, int64_t end)
{
    bool kept = reserve(&l->after, &l->after_room, *count + end - from);
    for (int64_t at = from; at < end && kept; at++) {
        l->after[(*count)++] = l->nodes[at];
    }
    return kept;
}

/* What is queued next follows those items; without any, what was there. */
static aicf_status
follow(
    const recording *r, aicf_stream stream, leaves *l, const int32_t *items, int64_t number,
    bool early)
{
    int64_t count = 0;
    bool kept = number || add_after(l, &count, 0, l->ends[0]);
    for (int64_t k = 0; k < number && kept; k++) {
        kept = add_after(l, &count, l->ends[items[k]], l->ends[items[k] + 1]);
    }
    if (!kept) {
        return no_memory;
    }
    return r->backend->graph_after(r->device, stream, l->after, count, early);
}

static aicf_status
queue_item(const recording *r, aicf_stream stream, void *workspace, leaves *l, Py_ssize_t i)
{
    const branches *b = r->branches;
    const block *queued = r->blocks[i];
    int64_t count;
    l->ends[i + 1] = l->ends[i];
    if (!queued->call->launch) {
        return aicf_ok();
    }
    const int32_t *after = hazards_of(b->order, i, &count);
    aicf_status status = follow(r, stream, l, after, count, b->early[i]);
    void *own = b->places[i] < 0 ? NULL : (char *)workspace + b->places[i];
    status = status.kind ? status : recording_queue_one(queued, stream, own);
    return status.kind ? status : leave(r, stream, l, i);
}

/* The graph ends with all that nothing follows. */
static aicf_status
join(const recording *r, aicf_stream stream, leaves *l)
{
    const branches *b = r->branches;
    int32_t *ends = malloc((size_t)b->count * sizeof *ends);
    bool *followed = calloc((size_t)b->count, sizeof *followed);
    int64_t count, number = 0;
    aicf_status status = no_memory;
    if (ends && followed) {
        for (int64_t i = 0; i < b->count; i++) {
            const int32_t *after = hazards_of(b->order, i, &count);
            for (int64_t k = 0; k < count; k++) {
                followed[after[k]] = true;
            }
        }
        for (int64_t i = 0; i < b->count; i++) {
            if (!followed[i]) {
                ends[number++] = (int32_t)i;
            }
        }
        status = follow(r, stream, l, ends, number, true);
    }
    free(ends);
    free(followed);
    return status;
}

aicf_status
branches_queue(const recording *r, aicf_stream stream, void *workspace, Py_ssize_t *item)
{
    leaves l = {.ends = calloc((size_t)r->branches->count + 1, sizeof *l.ends)};
    aicf_status status = l.ends ? leave(r, stream, &l, -1) : no_memory;
    for (Py_ssize_t i = 0; i < r->count && status.kind == AICF_OK; i++) {
        *item = i;
        status = queue_item(r, stream, workspace, &l, i);
    }
    if (status.kind == AICF_OK) {
        *item = -1;
        status = join(r, stream, &l);
    }
    free(l.ends);
    free(l.nodes);
    free(l.after);
    return status;
}
