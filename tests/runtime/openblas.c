/* Stands in for OpenBLAS in test_fork.py: slow products, and it aborts the process where the real
   one would hang or crash: at a fork or at the end with somebody inside, and when it is called on
   more than one thread or after the end. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#ifndef PARALLEL
#define PARALLEL 1 /* threads of its own */
#endif

static _Atomic int threads = 8, inside, most_inside, calls, ended;

static void
require(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "%s\n", what);
        _Exit(99);
    }
}

int
openblas_get_parallel(void)
{
    return PARALLEL;
}

int
openblas_get_num_threads(void)
{
    return threads;
}

void
openblas_set_num_threads(int number)
{
    threads = number;
}

int
fake_most_inside(void)
{
    return most_inside;
}

int
fake_inside(void)
{
    return inside;
}

/* A child that ends at once, made without the GIL: in it no Python may run, since a thread that is
   not there may hold the lock. */
int
fake_fork(void)
{
    int child = fork();
    if (child == 0) {
        _exit(0);
    }
    return child;
}

int
fake_calls(void)
{
    return calls;
}

/* Row-major, nothing transposed, beta 0: what the tests ask for. */
void
cblas_sgemm(
    int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float *a, int lda,
    const float *b, int ldb, float beta, float *c, int ldc)
{
    struct timespec rest = {0, 20000000};
    int now = ++inside;
    for (int most = most_inside;
         now > most && !atomic_compare_exchange_weak(&most_inside, &most, now);) {
    }
    calls++;
    require(!ended, "called after the end");
    require(threads == 1, "called on several threads");
    require(order == 101 && trans_a == 111 && trans_b == 111 && beta == 0, "called otherwise");
    nanosleep(&rest, NULL);
    for (int i = 0; i < m; i++) {
        for (int j = 0; j < n; j++) {
            float sum = 0;
            for (int l = 0; l < k; l++) {
                sum += a[i * lda + l] * b[l * ldb + j];
            }
            c[i * ldc + j] = alpha * sum;
        }
    }
    inside--;
}

static void
before_fork(void)
{
    require(inside == 0, "forked while inside");
}

__attribute__((constructor)) static void
begin(void)
{
    pthread_atfork(before_fork, NULL, NULL);
}

__attribute__((destructor)) static void
end(void)
{
    require(inside == 0, "ended while inside");
    require(threads == 8, "another number of threads was left");
    ended = 1;
}
