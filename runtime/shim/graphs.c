/* Captures of streams, and graphs: what was captured is a list of what would be recorded, and is
   recorded when the graph is launched, in the order of the capture. Copies in memory that was
   allocated here are done then. Which nodes one follows is in its line. */
#include "graphs.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../libaicf/cuda/edges.h"
#include "shim.h"

enum { DETAILS = 512, CAPTURES = 16 };

/* A node follows those whose bits are set: 1 << i of word i / 64. */
enum { WORDS = 16, NODES = 64 * WORDS };

typedef struct set {
    uint64_t words[WORDS];
} set;

typedef struct node {
    char call[64];
    set after;
    char details[DETAILS];
    const void *what; /* the kernel, NULL: a copy */
    void *to;
    const void *from;
    size_t bytes;
} node;

/* Of a capture, and of what was made of one. */
typedef struct nodes {
    node *of;
    size_t count, room;
} nodes;

typedef struct capture {
    cudaStream_t stream;
    pthread_t thread;
    enum cudaStreamCaptureMode mode;
    int device;
    unsigned long long id;
    bool on, invalid;
    nodes kept;
    set next;                       /* what the next node follows */
    cudaGraphNode_t told[NODES];    /* the same, for who asks */
    cudaGraphEdgeData edges[NODES]; /* all plain */
} capture;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static capture captures[CAPTURES];
static unsigned long long begun; /* captures, each of which has its number */

/* Requires the lock. NULL: the stream is not captured. */
static capture *
capture_of(cudaStream_t stream)
{
    for (int i = 0; i < CAPTURES; i++) {
        if (captures[i].on && captures[i].stream == stream) {
            return &captures[i];
        }
    }
    return NULL;
}

static void
set_add(set *s, size_t i)
{
    s->words[i / 64] |= UINT64_C(1) << (i % 64);
}

static bool
set_has(const set *s, size_t i)
{
    return s->words[i / 64] >> (i % 64) & 1;
}

static void
nodes_free(nodes *n)
{
    if (n) {
        free(n->of);
        free(n);
    }
}

static nodes *
nodes_copy(const nodes *n)
{
    nodes *copy = calloc(1, sizeof *copy);
    if (copy) {
        *copy = (nodes){malloc((n->count + 1) * sizeof *n->of), n->count, n->count + 1};
        memcpy(copy->of, n->of, n->count * sizeof *n->of);
    }
    return copy;
}

/* ---- for the calls --------------------------------------------------------------------------- */

int
shim_forbidden(void)
{
    bool forbidden = false;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < CAPTURES; i++) {
        capture *c = &captures[i];
        bool mine = c->mode == cudaStreamCaptureModeGlobal ||
                    (c->mode == cudaStreamCaptureModeThreadLocal &&
                     pthread_equal(c->thread, pthread_self()));
        if (c->on && mine) {
            c->invalid = forbidden = true;
        }
    }
    pthread_mutex_unlock(&lock);
    return forbidden ? cudaErrorStreamCaptureUnsupported : 0;
}

int
shim_forbidden_device(void)
{
    bool forbidden = false;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < CAPTURES; i++) {
        capture *c = &captures[i];
        if (c->on && c->device == shim_device()) {
            c->invalid = forbidden = true;
        }
    }
    pthread_mutex_unlock(&lock);
    return forbidden ? cudaErrorStreamCaptureUnsupported : 0;
}

bool
shim_capturing(cudaStream_t stream)
{
    pthread_mutex_lock(&lock);
    bool on = capture_of(stream) != NULL;
    pthread_mutex_unlock(&lock);
    return on;
}

int
shim_follows(cudaStream_t stream)
{
    int count = 0;
    pthread_mutex_lock(&lock);
    const capture *c = capture_of(stream);
    for (int w = 0; c && w < WORDS; w++) {
        count += __builtin_popcountll(c->next.words[w]);
    }
    pthread_mutex_unlock(&lock);
    return count;
}

int
shim_keep(
    cudaStream_t stream, const void *what, void *to, const void *from, size_t bytes,
    const char *call, const char *details)
{
    int error = 0;
    pthread_mutex_lock(&lock);
    capture *c = capture_of(stream);
    if (c && c->kept.count == c->kept.room) {
        c->kept.room = 2 * c->kept.room + 16;
        c->kept.of = realloc(c->kept.of, c->kept.room * sizeof *c->kept.of);
    }
    if (c && c->invalid) {
        error = cudaErrorStreamCaptureInvalidated;
    } else if (c && c->kept.count == NODES) {
        error = cudaErrorMemoryAllocation;
    } else if (c) {
        node *n = &c->kept.of[c->kept.count++];
        *n = (node){.what = what, .to = to, .from = from, .bytes = bytes, .after = c->next};
        c->next = (set){{0}};
        set_add(&c->next, c->kept.count - 1);
        snprintf(n->call, sizeof n->call, "%s", call);
        snprintf(n->details, sizeof n->details, "%s", details);
    }
    pthread_mutex_unlock(&lock);
    return error;
}

/* ---- captures -------------------------------------------------------------------------------- */

/* The default streams are not captured. */
static int
begin(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    int error = cudaErrorInvalidValue;
    if ((uintptr_t)stream <= 2) {
        return cudaErrorStreamCaptureUnsupported;
    }
    pthread_mutex_lock(&lock);
    for (int i = 0; i < CAPTURES && error && !capture_of(stream); i++) {
        if (!captures[i].on) {
            captures[i] = (capture){.stream = stream,
                                    .thread = pthread_self(),
                                    .mode = mode,
                                    .device = shim_device(),
                                    .id = ++begun,
                                    .on = true};
            error = 0;
        }
    }
    pthread_mutex_unlock(&lock);
    return error;
}

cudaError_t
cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    int error = shim_enter(__func__);
    error = error ? error : begin(stream, mode);
    if (!error) {
        shim_bind();
    }
    return (cudaError_t)shim_leave(error, __func__, "stream=%p mode=%d", (void *)stream, (int)mode);
}

static int
end(cudaStream_t stream, cudaGraph_t *graph)
{
    int error = 0;
    pthread_mutex_lock(&lock);
    capture *c = capture_of(stream);
    if (!c) {
        error = cudaErrorIllegalState;
    } else if (!pthread_equal(c->thread, pthread_self())) {
        error = cudaErrorStreamCaptureWrongThread;
    } else {
        error = c->invalid ? cudaErrorStreamCaptureInvalidated : 0;
        *graph = error ? NULL : (cudaGraph_t)(void *)nodes_copy(&c->kept);
        free(c->kept.of);
        memset(c, 0, sizeof *c);
    }
    pthread_mutex_unlock(&lock);
    return error;
}

/* Ended it is in any case, as by the driver where a capture is not valid any more. */
cudaError_t
cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    int error = shim_enter(__func__);
    *graph = NULL;
    int ended = end(stream, graph);
    if (error && *graph) {
        nodes_free((nodes *)(void *)*graph);
        *graph = NULL;
    }
    return (cudaError_t)shim_leave(error ? error : ended, __func__, "stream=%p", (void *)stream);
}

/* A node's handle is its number, and one. */
static int
tell(
    cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id,
    const cudaGraphNode_t **nodes, const cudaGraphEdgeData **edges, size_t *count)
{
    pthread_mutex_lock(&lock);
    capture *c = capture_of(stream);
    *status = !c           ? cudaStreamCaptureStatusNone
              : c->invalid ? cudaStreamCaptureStatusInvalidated
                           : cudaStreamCaptureStatusActive;
    if (c && id) {
        *id = c->id;
    }
    if (c && nodes) {
        *count = 0;
        for (size_t i = 0; i < c->kept.count; i++) {
            if (set_has(&c->next, i)) {
                c->told[(*count)++] = (cudaGraphNode_t)(i + 1);
            }
        }
        *nodes = c->told;
        *edges = c->edges;
    }
    pthread_mutex_unlock(&lock);
    return 0;
}

cudaError_t
CAPTURE_INFO(
    cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id,
    cudaGraph_t *graph, const cudaGraphNode_t **nodes, const cudaGraphEdgeData **edges,
    size_t *count)
{
    int error = shim_enter("cudaStreamGetCaptureInfo");
    (void)graph;
    error = error ? error : tell(stream, status, id, nodes, edges, count);
    return (cudaError_t)shim_leave(error, "cudaStreamGetCaptureInfo", "stream=%p", (void *)stream);
}

static int
follow(cudaStream_t stream, const cudaGraphNode_t *nodes, size_t count, unsigned flags)
{
    int error = 0;
    pthread_mutex_lock(&lock);
    capture *c = capture_of(stream);
    error = !c ? cudaErrorIllegalState : c->invalid ? cudaErrorStreamCaptureInvalidated : 0;
    for (size_t i = 0; i < count && !error; i++) {
        size_t at = (size_t)(uintptr_t)nodes[i] - 1;
        error = at < c->kept.count ? 0 : cudaErrorInvalidValue;
    }
    if (!error && flags == cudaStreamSetCaptureDependencies) {
        c->next = (set){{0}};
    }
    for (size_t i = 0; i < count && !error; i++) {
        set_add(&c->next, (size_t)(uintptr_t)nodes[i] - 1);
    }
    pthread_mutex_unlock(&lock);
    return error;
}

cudaError_t
CAPTURE_UPDATE(
    cudaStream_t stream, cudaGraphNode_t *nodes, const cudaGraphEdgeData *edges, size_t count,
    unsigned flags)
{
    int error = shim_enter("cudaStreamUpdateCaptureDependencies");
    error = error   ? error
            : edges ? (int)cudaErrorInvalidValue
                    : follow(stream, nodes, count, flags);
    return (cudaError_t)shim_leave(
        error, "cudaStreamUpdateCaptureDependencies", "stream=%p count=%zu flags=%u",
        (void *)stream, count, flags);
}

/* ---- graphs ---------------------------------------------------------------------------------- */

cudaError_t
cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *found, size_t *count)
{
    int error = shim_enter(__func__);
    (void)found;
    *count = error ? 0 : ((nodes *)(void *)graph)->count;
    return (cudaError_t)shim_leave(error, __func__, "graph=%p", (void *)graph);
}

cudaError_t
cudaGraphDestroy(cudaGraph_t graph)
{
    int error = shim_enter(__func__);
    nodes_free((nodes *)(void *)graph);
    return (cudaError_t)shim_leave(error, __func__, "graph=%p", (void *)graph);
}

cudaError_t
cudaGraphInstantiate(cudaGraphExec_t *made, cudaGraph_t graph, unsigned long long flags)
{
    int error = shim_enter(__func__);
    error = error ? error : shim_forbidden();
    *made = error ? NULL : (cudaGraphExec_t)(void *)nodes_copy((nodes *)(void *)graph);
    return (cudaError_t)shim_leave(
        error, __func__, "graph=%p flags=%llu made=%p", (void *)graph, flags, (void *)*made);
}

cudaError_t
cudaGraphExecDestroy(cudaGraphExec_t made)
{
    int error = shim_enter(__func__);
    if (!error) {
        nodes_free((nodes *)(void *)made);
    }
    return (cudaError_t)shim_leave(error, __func__, "made=%p", (void *)made);
}

/* Kernels may be others, but no copy becomes one, there are as many, and they follow the same. */
static bool
is_alike(const nodes *a, const nodes *b)
{
    bool alike = a->count == b->count;
    for (size_t i = 0; alike && i < a->count; i++) {
        alike = !a->of[i].what == !b->of[i].what &&
                !memcmp(&a->of[i].after, &b->of[i].after, sizeof a->of[i].after);
    }
    return alike;
}

cudaError_t
cudaGraphExecUpdate(cudaGraphExec_t made, cudaGraph_t graph, cudaGraphExecUpdateResultInfo *told)
{
    int error = shim_enter(__func__);
    nodes *old = (nodes *)(void *)made, *now = (nodes *)(void *)graph;
    memset(told, 0, sizeof *told);
    error = error ? error : is_alike(old, now) ? 0 : cudaErrorGraphExecUpdateFailure;
    if (!error) {
        memcpy(old->of, now->of, now->count * sizeof *now->of);
    }
    return (cudaError_t)shim_leave(
        error, __func__, "made=%p graph=%p", (void *)made, (void *)graph);
}

/* As numbers, with commas between; "-" for none. */
static const char *
text_of(const set *after, char *text, size_t size)
{
    size_t used = 0;
    snprintf(text, size, "-");
    for (size_t i = 0; i < NODES && used + 8 < size; i++) {
        if (set_has(after, i)) {
            used += (size_t)snprintf(text + used, size - used, "%s%zu", used ? "," : "", i);
        }
    }
    return text;
}

static void
play(const nodes *n, cudaStream_t stream)
{
    for (size_t i = 0; i < n->count; i++) {
        const node *one = &n->of[i];
        if (!one->what && shim_owns(one->from, one->bytes) && shim_owns(one->to, one->bytes)) {
            memmove(one->to, one->from, one->bytes);
        }
        char after[DETAILS];
        shim_note(
            0, one->call, "%s node=%zu after=%s on=%p", one->details, i,
            text_of(&one->after, after, sizeof after), (void *)stream);
    }
}

static int
launch(cudaGraphExec_t made, cudaStream_t stream)
{
    if (shim_capturing(stream)) {
        return cudaErrorStreamCaptureUnsupported;
    }
    shim_bind();
    play((nodes *)(void *)made, stream);
    return 0;
}

cudaError_t
cudaGraphLaunch(cudaGraphExec_t made, cudaStream_t stream)
{
    int error = shim_enter(__func__);
    error = error ? error : launch(made, stream);
    return (cudaError_t)shim_leave(
        error, __func__, "made=%p stream=%p", (void *)made, (void *)stream);
}

/* The driver's. */
CUresult
shim_launch_graph(CUgraphExec made, CUstream stream)
{
    int error = shim_enter("cuGraphLaunch");
    error = error                           ? error
            : !shim_bound()                 ? (int)CUDA_ERROR_INVALID_CONTEXT
            : shim_waits("cudaGraphLaunch") ? (int)CUDA_ERROR_UNKNOWN
                                            : launch(made, stream);
    return (CUresult)shim_note(
        error, error ? "cuGraphLaunch" : "cudaGraphLaunch", "made=%p stream=%p by=driver",
        (void *)made, (void *)stream);
}
