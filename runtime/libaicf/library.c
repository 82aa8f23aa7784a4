/* Libraries that rows name in `libs`: never linked, opened when a kernel that needs one is first
   considered, and kept. */
#include <ctype.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "openblas.h"
#include "select.h"

/* What was looked for, found or not; never changed once it is in the list, and never freed. */
typedef struct library {
    struct library *next;
    void *handle;
    char name[64];
} library;

static _Atomic(library *) libraries;
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Sonames by which distributions know them, the one to prefer first; `lib<name>.so` comes last for
   all. */
static const struct {
    const char *name;
    const char *sonames[5];
} usual[] = {
    {"openblas", {"libopenblas.so.0", "libopenblasp.so.0"}},
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

/* A fork in the middle of an opening would leave the loader locked in the child for ever. */
static void
before_fork(void)
{
    pthread_mutex_lock(&opening);
}

static void
after_fork(void)
{
    pthread_mutex_unlock(&opening);
}

static void
watch_forks(void)
{
    pthread_atfork(before_fork, after_fork, after_fork);
}

/* NULL where the file is not there, or is one that cannot be used as what it is named; it then
   stays, since it may have started threads. */
static void *
open_file(const char *name, const char *file)
{
    void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    return handle && !strcmp(name, "openblas") && !openblas_adopt(handle) ? NULL : handle;
}

static void *
open_usual(const char *name)
{
    char plain[80];
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
        const char *const *soname = usual[i].sonames;
        for (; !strcmp(usual[i].name, name) && *soname; soname++) {
            void *handle = open_file(name, *soname);
            if (handle) {
                return handle;
            }
        }
    }
    snprintf(plain, sizeof plain, "lib%s.so", name);
    return open_file(name, plain);
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
    l->handle = place && *place ? open_file(name, place) : open_usual(name);
    l->next = atomic_load_explicit(&libraries, memory_order_relaxed);
    atomic_store_explicit(&libraries, l, memory_order_release);
    return l;
}

void *
library_open(const char *name)
{
    library *l = find(name);
    if (!l && strlen(name) < sizeof l->name) {
        pthread_once(&once, watch_forks);
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
