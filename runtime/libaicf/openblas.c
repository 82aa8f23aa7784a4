/* OpenBLAS on the thread that calls it, alone.

   Its own threads are not for us. How many there are is one number for the whole process, the bits
   of a product depend on that number, and a fork waits for ever if one of them is at work: the
   handler that ends them before the fork writes "end" where a thread that is busy then writes
   "done" over it. So the number is 1 while any call of ours is inside, and what it was before when
   the last one left; a fork waits for those inside, and so does the end of the process, after which
   OpenBLAS has given its buffers back and nobody may enter any more. */
#include "openblas.h"

#include <aicf/cpu/openblas.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* What openblas_get_parallel answers for a build that starts threads by itself. A sequential build
   may not be entered by two threads at once; one with OpenMP keeps the number of threads
   elsewhere, and OpenMP does not survive a fork. */
enum { THREADS_OF_ITS_OWN = 1 };

typedef enum gate {
    GATE_OPEN,
    GATE_SHUT, /* a fork waits for those inside */
    GATE_GONE  /* the process ends */
} gate;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t moved; /* the gate, or the last of those inside */
    gate gate;
    int inside;
    int others; /* the number of threads that is put back; 0: it was 1 */
    int (*get_threads)(void);
    void (*set_threads)(int);
} state = {.lock = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER};

bool
aicf_openblas_enter(void)
{
    pthread_mutex_lock(&state.lock);
    while (state.gate == GATE_SHUT) {
        pthread_cond_wait(&state.moved, &state.lock);
    }
    bool open = state.gate == GATE_OPEN;
    if (open && state.inside++ == 0 && state.set_threads) {
        int threads = state.get_threads();
        state.others = threads == 1 ? 0 : threads;
        if (state.others) {
            state.set_threads(1);
        }
    }
    pthread_mutex_unlock(&state.lock);
    return open;
}

void
aicf_openblas_leave(void)
{
    pthread_mutex_lock(&state.lock);
    if (--state.inside == 0) {
        /* unless somebody else has said another number meanwhile */
        if (state.others && state.get_threads() == 1) {
            state.set_threads(state.others);
        }
        if (state.gate != GATE_OPEN) {
            pthread_cond_broadcast(&state.moved);
        }
    }
    pthread_mutex_unlock(&state.lock);
}

/* Keeps the lock. */
static void
shut(gate how)
{
    pthread_mutex_lock(&state.lock);
    while (state.inside) {
        state.gate = state.gate == GATE_OPEN ? how : state.gate;
        pthread_cond_wait(&state.moved, &state.lock);
    }
}

static void
before_fork(void)
{
    shut(GATE_SHUT);
}

static void
after_fork(void)
{
    if (state.gate == GATE_SHUT) {
        state.gate = GATE_OPEN;
    }
    pthread_cond_broadcast(&state.moved);
    pthread_mutex_unlock(&state.lock);
}

/* Those who waited at the gate are not in the child. */
static void
begin_again(void)
{
    pthread_mutex_init(&state.lock, NULL);
    pthread_cond_init(&state.moved, NULL);
    if (state.gate == GATE_SHUT) {
        state.gate = GATE_OPEN;
    }
}

static void
at_exit(void)
{
    shut(GATE_GONE);
    state.gate = GATE_GONE;
    pthread_cond_broadcast(&state.moved);
    pthread_mutex_unlock(&state.lock);
}

static void
find(void *handle, const char *name, void *function)
{
    void *symbol = dlsym(handle, name);
    memcpy(function, &symbol, sizeof symbol);
}

bool
openblas_adopt(void *handle)
{
    int (*parallel)(void), (*get_threads)(void);
    void (*set_threads)(int);

    find(handle, "openblas_get_parallel", &parallel);
    find(handle, "openblas_get_num_threads", &get_threads);
    find(handle, "openblas_set_num_threads", &set_threads);
    if (!parallel || !get_threads || !set_threads || parallel() != THREADS_OF_ITS_OWN) {
        return false;
    }
    state.get_threads = get_threads;
    state.set_threads = set_threads;
    /* After its own were: ours run before its own then. */
    pthread_atfork(before_fork, after_fork, begin_again);
    atexit(at_exit);
    return true;
}
