/* What a graph launches: bound calls and copies as they were when it was captured. Never changes,
   and is counted: a launch holds it, update() makes another and swaps. */
#ifndef AICF_CORE_RECORDING_H
#define AICF_CORE_RECORDING_H

#include "bound.h"

typedef struct branches branches;

typedef struct recording {
    int64_t references;
    PyObject *calls; /* the tuple of them, as they were given */
    Py_ssize_t count;
    block **blocks;              /* [count], held */
    const aicf_backend *backend; /* NULL: there is nothing to launch */
    aicf_device device;
    aicf_stream stream; /* that the calls name, NULL: none */
    const source *lead; /* of the stream otherwise, NULL: none */
    branches *branches; /* NULL: they run one after the other */
    int64_t workspace;  /* bytes that those need which were given none */
    uint64_t topology;  /* a number of which kernels they are, in their order */
    watched *words;     /* of the tensors that may move, each once */
    Py_ssize_t watches;
    bool asks;  /* of some tensor only torch itself knows whether it moved */
    bool joins; /* of some call, frameworks other than the lead's have streams of their own */
} recording;

/* NULL with an exception. Runs Python where there are pairs of tensors. */
recording *recording_create(const core_state *core, PyObject *calls);
/* Before it is captured: at most `most` of them run at once. Too many of them stay a chain. -1 with
   an exception. */
int recording_branch(recording *r, int most);
/* Queues all of it, one behind the other, on a stream that is being captured. What it launches has
   its workspace in `workspace`. On failure *item is the call's index. Needs no GIL. */
aicf_status
recording_queue(const recording *r, aicf_stream stream, void *workspace, Py_ssize_t *item);
/* One of them. It has its workspace in `workspace`; NULL: where it was bound to. */
aicf_status recording_queue_one(const block *b, aicf_stream stream, void *workspace);
/* -1 with an exception where a tensor is not where it was. Runs Python if it asks. */
int recording_check(const recording *r);
/* NULL is fine. */
void recording_drop(recording *r);

static inline bool
recording_stays(const recording *r)
{
    bool stays = true;
    for (Py_ssize_t i = 0; i < r->watches; i++) {
        stays &= watched_stays(&r->words[i]);
    }
    return stays;
}

#endif
