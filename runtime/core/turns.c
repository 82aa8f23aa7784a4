#include "turns.h"

int
turns_init(turns *t)
{
    t->lock = PyThread_allocate_lock();
    if (!t->lock) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

void
turns_finish(turns *t)
{
    if (t->lock) {
        PyThread_free_lock(t->lock);
    }
}

bool
turns_are_mine(const turns *t)
{
    return __atomic_load_n(&t->depth, __ATOMIC_RELAXED) &&
           __atomic_load_n(&t->owner, __ATOMIC_RELAXED) == PyThread_get_thread_ident();
}

static int
wait_for(turns *t)
{
    PyLockStatus got = PY_LOCK_INTR;
    while (got == PY_LOCK_INTR) {
        Py_BEGIN_ALLOW_THREADS;
        got = PyThread_acquire_lock_timed(t->lock, -1, 1);
        Py_END_ALLOW_THREADS;
        if (got == PY_LOCK_INTR && PyErr_CheckSignals() < 0) {
            return -1;
        }
    }
    return 0;
}

int
turns_take(turns *t)
{
    bool mine = turns_are_mine(t);
    if (!mine && !PyThread_acquire_lock(t->lock, NOWAIT_LOCK) && wait_for(t) < 0) {
        return -1;
    }
    __atomic_store_n(&t->owner, PyThread_get_thread_ident(), __ATOMIC_RELAXED);
    __atomic_store_n(&t->depth, t->depth + 1, __ATOMIC_RELAXED);
    return 0;
}

void
turns_give(turns *t)
{
    int depth = t->depth - 1;
    __atomic_store_n(&t->depth, depth, __ATOMIC_RELAXED);
    if (!depth) {
        PyThread_release_lock(t->lock);
    }
}
