/* A lock that a thread may take again while it has it, as threading.RLock. */
#ifndef AICF_CORE_TURNS_H
#define AICF_CORE_TURNS_H

#include "threads.h"

typedef struct turns {
    PyThread_type_lock lock;
    unsigned long owner; /* the thread that has it */
    int depth;           /* how often; 0: nobody has it */
} turns;

/* -1 with an exception. */
int turns_init(turns *t);
void turns_finish(turns *t);
/* Whether this thread has it. */
bool turns_are_mine(const turns *t);
/* Other threads run meanwhile, and so do handlers of signals: -1 with the exception of one. */
int turns_take(turns *t);
void turns_give(turns *t);

#endif
