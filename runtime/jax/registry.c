#include "ffi.h"

#include <stdlib.h>
#include <string.h>

/* Chains that only grow, at their heads: read without a lock. */
typedef struct entry {
    const aicf_op *op;
    size_t length; /* of the name */
    struct entry *next;
    char name[]; /* "package.op" */
} entry;

enum { BUCKETS = 256 };

static entry *buckets[BUCKETS];

static entry **
bucket_of(const char *name, size_t length)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < length; i++) {
        hash = (hash ^ (unsigned char)name[i]) * 16777619u;
    }
    return &buckets[(hash ^ hash >> 16) % BUCKETS];
}

const aicf_op *
registry_find(const char *name, size_t length)
{
    entry *e = __atomic_load_n(bucket_of(name, length), __ATOMIC_ACQUIRE);
    while (e && (e->length != length || memcmp(e->name, name, length) != 0)) {
        e = e->next;
    }
    return e ? e->op : NULL;
}

bool
registry_add(const aicf_op *op)
{
    size_t package = strlen(op->package), own = strlen(op->name);
    size_t length = package + 1 + own;
    entry *e = malloc(sizeof *e + length);
    if (!e) {
        return false;
    }
    e->op = op;
    e->length = length;
    memcpy(e->name, op->package, package);
    e->name[package] = '.';
    memcpy(e->name + package + 1, op->name, own);
    if (registry_find(e->name, length) == op) {
        free(e);
        return true;
    }
    entry **bucket = bucket_of(e->name, length);
    e->next = __atomic_load_n(bucket, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(
        bucket, &e->next, e, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
    }
    return true;
}
