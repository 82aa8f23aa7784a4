/* A pool of threads that sleeps between jobs. One job runs at a time; whoever finds the pool busy,
   or calls from inside a job, does its own work alone. */
#define _GNU_SOURCE
#include "parallel.h"

#include <aicf/call.h>

#include <fenv.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

/* More parts than this only cost; fewer would leave many processors idle. */
enum { MAX_PARTS = 256, MAX_THREADS = 256 };

typedef struct job {
    void (*body)(void *context, int64_t begin, int64_t end);
    void *context;
    int64_t count, part, parts;
    fenv_t environment; /* rounding and flushing of the caller: part of the result's bits */
    _Atomic int64_t next;
} job;

/* `lock` guards all but `busy`, which the caller of a job holds from its begin to its end. */
static struct {
    pthread_mutex_t busy, lock;
    pthread_cond_t wake, done;
    job *job;            /* NULL: nothing to do */
    uint64_t generation; /* of jobs, so that no worker takes one twice */
    int wanted, active;  /* workers that may still join, and those inside */
    int workers;         /* running in this process */
} pool = {
    .busy = PTHREAD_MUTEX_INITIALIZER,
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .wake = PTHREAD_COND_INITIALIZER,
    .done = PTHREAD_COND_INITIALIZER,
};

static _Thread_local bool inside;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int limit;

static int
number_in(const char *variable)
{
    const char *text = getenv(variable);
    long number = text ? strtol(text, NULL, 10) : 0;
    return number < 1 ? 0 : number > MAX_THREADS ? MAX_THREADS : (int)number;
}

static int
processors(void)
{
    cpu_set_t set;
    int count = sched_getaffinity(0, sizeof set, &set) ? 0 : CPU_COUNT(&set);
    if (count < 1) {
        long online = sysconf(_SC_NPROCESSORS_ONLN);
        count = online < 1 ? 1 : online > MAX_THREADS ? MAX_THREADS : (int)online;
    }
    return count > MAX_THREADS ? MAX_THREADS : count;
}

/* A child has none of the threads, and may have been forked in the middle of a job: it starts with
   an empty pool. */
static void
begin_again(void)
{
    pthread_mutex_init(&pool.busy, NULL);
    pthread_mutex_init(&pool.lock, NULL);
    pthread_cond_init(&pool.wake, NULL);
    pthread_cond_init(&pool.done, NULL);
    pool.job = NULL;
    pool.wanted = pool.active = pool.workers = 0;
}

static void
find_limit(void)
{
    limit = number_in("AICF_THREADS");
    limit = limit ? limit : number_in("OMP_NUM_THREADS");
    limit = limit ? limit : processors();
    pthread_atfork(NULL, NULL, begin_again);
}

int
parallel_threads(void)
{
    pthread_once(&once, find_limit);
    return limit;
}

static void
work(job *j)
{
    for (;;) {
        int64_t part = atomic_fetch_add_explicit(&j->next, 1, memory_order_relaxed);
        if (part >= j->parts) {
            return;
        }
        int64_t begin = part * j->part;
        int64_t rest = j->count - begin;
        j->body(j->context, begin, begin + (rest < j->part ? rest : j->part));
    }
}

static void *
run_worker(void *unused)
{
    uint64_t seen = 0;
    (void)unused;
    inside = true;
    pthread_mutex_lock(&pool.lock);
    for (;;) {
        while (!pool.job || pool.generation == seen || !pool.wanted) {
            pthread_cond_wait(&pool.wake, &pool.lock);
        }
        job *j = pool.job;
        seen = pool.generation;
        pool.wanted--;
        pool.active++;
        pthread_mutex_unlock(&pool.lock);
        fesetenv(&j->environment);
        work(j);
        pthread_mutex_lock(&pool.lock);
        if (--pool.active == 0) {
            pthread_cond_signal(&pool.done);
        }
    }
    return NULL;
}

/* Signals belong to the threads of the program. Requires the lock. */
static void
start_workers(int wanted)
{
    sigset_t all, kept;
    pthread_attr_t attributes;

    if (pool.workers >= wanted) {
        return;
    }
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &kept);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    while (pool.workers < wanted) {
        pthread_t thread;
        if (pthread_create(&thread, &attributes, run_worker, NULL)) {
            break;
        }
        pool.workers++;
    }
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &kept, NULL);
}

static void
run_together(job *j, int extra)
{
    pthread_mutex_lock(&pool.lock);
    start_workers(extra);
    pool.job = j;
    pool.generation++;
    pool.wanted = extra;
    pthread_cond_broadcast(&pool.wake);
    pthread_mutex_unlock(&pool.lock);

    inside = true;
    work(j);
    inside = false;

    pthread_mutex_lock(&pool.lock);
    pool.job = NULL;
    while (pool.active) {
        pthread_cond_wait(&pool.done, &pool.lock);
    }
    pthread_mutex_unlock(&pool.lock);
}

void
aicf_parallel_for(
    int64_t count, int64_t grain, void (*body)(void *context, int64_t begin, int64_t end),
    void *context)
{
    if (count <= 0) {
        return;
    }
    grain = grain < 1 ? 1 : grain;
    int64_t grains = count / grain + (count % grain != 0);
    int64_t per_part = grains / MAX_PARTS + (grains % MAX_PARTS != 0);
    job j = {.body = body, .context = context, .count = count};
    j.part = per_part * grain;
    j.parts = count / j.part + (count % j.part != 0);

    int threads = parallel_threads();
    int64_t extra = (j.parts < threads ? j.parts : threads) - 1;
    if (extra < 1 || inside || pthread_mutex_trylock(&pool.busy)) {
        work(&j);
        return;
    }
    fegetenv(&j.environment);
    run_together(&j, (int)extra);
    pthread_mutex_unlock(&pool.busy);
}
