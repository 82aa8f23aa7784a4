/* aicf_parallel_for, and the libraries of rows. */
#define _GNU_SOURCE
#include "check.h"

#include <aicf/call.h>

#include <fenv.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 300 };

/* The parts in the order of their beginnings. */
typedef struct parts {
    _Atomic int count;
    int64_t begin[MOST], end[MOST];
} parts;

static void
note(void *context, int64_t begin, int64_t end)
{
    parts *p = context;
    int i = atomic_fetch_add(&p->count, 1);
    CHECK(i < MOST);
    p->begin[i] = begin;
    p->end[i] = end;
}

static int
by_begin(const void *a, const void *b)
{
    int64_t p = *(const int64_t *)a, q = *(const int64_t *)b;
    return (p > q) - (p < q);
}

static void
run(int64_t count, int64_t grain, parts *p)
{
    memset(p, 0, sizeof *p);
    aicf_parallel_for(count, grain, note, p);
    int n = atomic_load(&p->count);
    qsort(p->begin, (size_t)n, sizeof *p->begin, by_begin);
    qsort(p->end, (size_t)n, sizeof *p->end, by_begin);
}

TEST(parallel_covers, "")
{
    static const int64_t counts[] = {0, 1, 2, 7, 255, 256, 257, 100000, INT64_MAX};
    static const int64_t grains[] = {0, 1, 3, 64, 4096, INT64_MAX / 2 + 1};
    static parts p;
    for (int i = 0; i < 9; i++) {
        for (int j = 0; j < 6; j++) {
            run(counts[i], grains[j], &p);
            int64_t at = 0, grain = grains[j] ? grains[j] : 1;
            for (int k = 0; k < atomic_load(&p.count); k++) {
                CHECK_INT(p.begin[k], at);
                CHECK(p.end[k] > at);
                CHECK((p.end[k] - at) % grain == 0 || p.end[k] == counts[i]);
                at = p.end[k];
            }
            CHECK_INT(at, counts[i]);
        }
    }
}

/* Prints the parts: the same whatever the number of threads. */
TEST(parallel_parts, "")
{
    static parts p;
    run(100000, 7, &p);
    uint64_t hash = 0;
    for (int k = 0; k < atomic_load(&p.count); k++) {
        hash = hash * 31 + (uint64_t)p.begin[k] * 17 + (uint64_t)p.end[k];
    }
    printf("%d %llu\n", atomic_load(&p.count), (unsigned long long)hash);
}

typedef struct meeting {
    pthread_mutex_t lock;
    pthread_t threads[64];
    int count;
} meeting;

static void
meet(void *context, int64_t begin, int64_t end)
{
    meeting *m = context;
    struct timespec rest = {0, 2000000};
    (void)begin;
    (void)end;
    nanosleep(&rest, NULL);
    pthread_mutex_lock(&m->lock);
    bool seen = false;
    for (int i = 0; i < m->count; i++) {
        seen |= pthread_equal(m->threads[i], pthread_self()) != 0;
    }
    if (!seen) {
        m->threads[m->count++] = pthread_self();
    }
    pthread_mutex_unlock(&m->lock);
}

static int
threads_met(int64_t count)
{
    meeting m = {.lock = PTHREAD_MUTEX_INITIALIZER};
    aicf_parallel_for(count, 1, meet, &m);
    return m.count;
}

/* Prints how many threads took part. */
TEST(parallel_threads, "")
{
    printf("%d\n", threads_met(64));
    CHECK_INT(threads_met(1), 1);
}

static void
nested_inner(void *context, int64_t begin, int64_t end)
{
    atomic_fetch_add((_Atomic int64_t *)context, end - begin);
}

static void
nested_outer(void *context, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++) {
        aicf_parallel_for(1000, 10, nested_inner, context);
    }
}

TEST(parallel_nested, "")
{
    _Atomic int64_t sum = 0;
    aicf_parallel_for(50, 1, nested_outer, &sum);
    CHECK_INT(atomic_load(&sum), 50000);
}

static void *
call_often(void *sum)
{
    for (int i = 0; i < 300; i++) {
        aicf_parallel_for(1000, 10, nested_inner, sum);
    }
    return NULL;
}

TEST(parallel_many_callers, "S10")
{
    _Atomic int64_t sum = 0;
    pthread_t threads[8];
    for (int i = 0; i < 8; i++) {
        pthread_create(&threads[i], NULL, call_often, &sum);
    }
    for (int i = 0; i < 8; i++) {
        pthread_join(threads[i], NULL);
    }
    CHECK_INT(atomic_load(&sum), 8 * 300 * 1000);
}

/* Children of a process whose pool runs, even of one that another thread is using. */
TEST(parallel_fork, "S9")
{
    _Atomic int64_t sum = 0;
    pthread_t busy;
    aicf_parallel_for(1000, 10, nested_inner, &sum);
    pthread_create(&busy, NULL, call_often, &sum);
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(120);
            int met = threads_met(32);
            _Exit(met >= 1 && threads_met(1) == 1 ? 0 : 1);
        }
        int status;
        waitpid(child, &status, 0);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    pthread_join(busy, NULL);
}

/* The caller's rounding is every part's. */
static void
see_rounding(void *context, int64_t begin, int64_t end)
{
    (void)begin;
    (void)end;
    struct timespec rest = {0, 1000000};
    nanosleep(&rest, NULL);
    atomic_fetch_add((_Atomic int *)context, fegetround() == FE_UPWARD);
}

TEST(parallel_rounding, "")
{
    _Atomic int upward = 0;
    threads_met(32);
    fesetround(FE_UPWARD);
    aicf_parallel_for(64, 1, see_rounding, &upward);
    CHECK_INT(atomic_load(&upward), 64);
    CHECK_INT(fegetround(), FE_UPWARD);
}

TEST(library_absent, "")
{
    CHECK(!aicf_lib_symbol("nowhere_at_all", "anything"));
    char name[200];
    memset(name, 'x', sizeof name - 1);
    name[199] = '\0';
    CHECK(!aicf_lib_symbol(name, "anything"));
}

/* The environment says where: here, the C library under another name. */
TEST(library_by_environment, "")
{
    setenv("AICF_LIB_OTHER", "libc.so.6", 1);
    CHECK(aicf_lib_symbol("other", "strlen"));
    CHECK(!aicf_lib_symbol("other", "no_such_symbol_at_all"));
    setenv("AICF_LIB_GONE", "/nonexistent/libgone.so", 1);
    CHECK(!aicf_lib_symbol("gone", "strlen"));
}
