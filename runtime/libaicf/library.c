/* Libraries that rows name in `libs`: never linked, opened when a kernel that needs one is first
   considered, and kept. */
#include <ctype.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "parallel.h"
#include "select.h"

/* What was looked for, found or not; never changed once it is in the list, and never freed. */
typedef struct library {
    struct library *next;
    void *handle;
    char name[64];
} library;

static _Atomic(library *) libraries;
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

/* Sonames by which distributions know them, the newest first; `lib<name>.so` comes last for all. */
static const struct {
    const char *name;
    const char *sonames[5];
} usual[] = {
    {"openblas", {"libopenblas.so.0"}},
    {"cublas", {"libcublas.so.13", "libcublas.so.12"}},
    {"cublasLt", {"libcublasLt.so.13", "libcublasLt.so.12"}},
    {"cudnn", {"libcudnn.so.9"}},
};

static library *
find(const char *name)
{
    for (library *l = atomic_load_explicit(&libraries, memory_order_acquire); l; l = l->next) {
        if (!strcmp(l->name, name)) {
            return l;
        }
    }
    return NULL;
}

/* AICF_LIB_OPENBLAS for openblas. */
static const char *
place_in_environment(const char *name)
{
    char variable[80];
    int length = snprintf(variable, sizeof variable, "AICF_LIB_%s", name);
    for (int i = 0; i < length && i < (int)sizeof variable; i++) {
        variable[i] = (char)toupper((unsigned char)variable[i]);
    }
    return getenv(variable);
}

static void *
open_usual(const char *name)
{
    char plain[80];
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
        const char *const *soname = usual[i].sonames;
        for (; !strcmp(usual[i].name, name) && *soname; soname++) {
            void *handle = dlopen(*soname, RTLD_NOW | RTLD_LOCAL);
            if (handle) {
                return handle;
            }
        }
    }
    snprintf(plain, sizeof plain, "lib%s.so", name);
    return dlopen(plain, RTLD_NOW | RTLD_LOCAL);
}

/* OpenBLAS starts as many threads as it sees processors, whatever ours are told. */
static void
agree_on_threads(void *handle)
{
    void (*set_threads)(int);
    void *symbol = dlsym(handle, "openblas_set_num_threads");
    memcpy(&set_threads, &symbol, sizeof set_threads);
    if (set_threads) {
        set_threads(parallel_threads());
    }
}

static library *
open_now(const char *name)
{
    library *l = calloc(1, sizeof *l);
    if (!l) {
        return NULL;
    }
    const char *place = place_in_environment(name);
    snprintf(l->name, sizeof l->name, "%s", name);
    l->handle = place && *place ? dlopen(place, RTLD_NOW | RTLD_LOCAL) : open_usual(name);
    if (l->handle) {
        agree_on_threads(l->handle);
    }
    l->next = atomic_load_explicit(&libraries, memory_order_relaxed);
    atomic_store_explicit(&libraries, l, memory_order_release);
    return l;
}

void *
library_open(const char *name)
{
    library *l = find(name);
    if (!l && strlen(name) < sizeof l->name) {
        pthread_mutex_lock(&opening);
        l = find(name);
        l = l ? l : open_now(name);
        pthread_mutex_unlock(&opening);
    }
    return l ? l->handle : NULL;
}

void *
aicf_lib_symbol(const char *lib, const char *symbol)
{
    void *handle = library_open(lib);
    return handle ? dlsym(handle, symbol) : NULL;
}
