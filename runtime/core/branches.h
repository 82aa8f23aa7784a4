/* The order of a recording's items where it is no chain: what has nothing to do with each other may
   run at once. */
#ifndef AICF_CORE_BRANCHES_H
#define AICF_CORE_BRANCHES_H

#include "hazards.h"
#include "recording.h"

enum { BRANCHES_MOST = 64 };

/* Items are the recording's blocks. */
struct branches {
    hazards *order;
    int64_t count;
    bool *early;     /* may start before the one that it follows has ended, if its kernel can */
    int64_t *places; /* of its workspace in the graph's; -1: it has none there */
    int64_t room;    /* bytes of all of them */
};

/* Sees to it that at most `most` run at once. NULL: no memory. */
branches *branches_create(const recording *r, int most);
void branches_free(branches *b);
/* As recording_queue. All of it is behind what is on the stream already. */
aicf_status
branches_queue(const recording *r, aicf_stream stream, void *workspace, Py_ssize_t *item);

#endif
