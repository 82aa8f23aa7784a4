/* The order of a recording's items where it is no chain: what has nothing to do with each other may
   run at once. */
#ifndef AICF_CORE_BRANCHES_H
#define AICF_CORE_BRANCHES_H

#include "hazards.h"
#include "recording.h"

enum { BRANCHES_MOST = 64 };

/* Item 0 is what feeds the graph, if anything does; item i + 1 is the recording's block i. */
struct branches {
    hazards *order;
    int64_t count;
    bool *early;     /* may start before the one that it follows has ended, if its kernel can */
    int64_t *places; /* of its workspace in the graph's; -1: it has none there */
    int64_t room;    /* bytes of all of them */
};

/* Sees to it that at most `most` run at once, item 0 not counted, which writes `fed`; NULL: there
   is no such item. NULL: no memory. */
branches *branches_create(const recording *r, int most, const aicf_tensor *fed);
void branches_free(branches *b);
/* As recording_queue; what is on the stream already is item 0. */
aicf_status
branches_queue(const recording *r, aicf_stream stream, void *workspace, Py_ssize_t *item);

#endif
