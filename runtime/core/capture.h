/* One capture of a recording, and the graph that it leads to. */
#ifndef AICF_CORE_CAPTURE_H
#define AICF_CORE_CAPTURE_H

#include "recording.h"

/* Memory that all calls of a graph have their workspaces in. */
typedef struct workspace {
    void *memory;
    int64_t bytes;
} workspace;

typedef struct capture {
    const recording *recorded;
    aicf_graph graph; /* before it, and after */
    workspace room;   /* made for it; no memory: what there is will do */
    bool change;      /* the graph before it may be changed */
    bool changed;
    int64_t nodes;
    Py_ssize_t item; /* where it stopped, -1: at none of them */
    aicf_status status;
} capture;

/* `room`: what there is. On failure all is as it was. Needs no GIL. */
void capture_run(capture *c, const workspace *room);
/* -1 with the exception of one that failed. */
int capture_raise(const capture *c, const core_state *core);

#endif
