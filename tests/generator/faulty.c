/* Preloaded into opgen by test_write.py: the FAULTY_AT-th call that changes files is the last one
   (FAULTY_ERROR unset: the process is killed before it) or fails with that errno. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static int calls;

/* True: this call is to fail, with errno set. */
static int
strikes(const char *name)
{
    const char *at = getenv("FAULTY_AT"), *error = getenv("FAULTY_ERROR"),
               *only = getenv("FAULTY_CALL");
    if (!at || (only && strcmp(only, name))) {
        return 0;
    }
    if (++calls != atoi(at)) {
        return 0;
    }
    if (!error) {
        raise(SIGKILL);
    }
    errno = atoi(error);
    return 1;
}

#define REAL(name) ((__typeof__(name) *)dlsym(RTLD_NEXT, #name))

int
openat(int dir, const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
    va_end(args);
    if (flags & O_CREAT && strikes("openat")) {
        return -1;
    }
    return REAL(openat)(dir, path, flags, mode);
}

ssize_t
write(int fd, const void *data, size_t size)
{
    if (strikes("write")) {
        return -1;
    }
    /* Half of it, so that a process can be killed within a file. */
    static int half;
    half = !half;
    return REAL(write)(fd, data, fd > 2 && size > 1 && half ? size / 2 : size);
}

int
close(int fd)
{
    int failed = strikes("close"), error = errno, done = REAL(close)(fd);
    errno = failed ? error : errno;
    return failed ? -1 : done;
}

int
renameat(int from_dir, const char *from, int to_dir, const char *to)
{
    return strikes("renameat") ? -1 : REAL(renameat)(from_dir, from, to_dir, to);
}

int
rename(const char *from, const char *to)
{
    return strikes("rename") ? -1 : REAL(rename)(from, to);
}

int
mkdirat(int dir, const char *path, mode_t mode)
{
    return strikes("mkdirat") ? -1 : REAL(mkdirat)(dir, path, mode);
}

int
mkdir(const char *path, mode_t mode)
{
    return strikes("mkdir") ? -1 : REAL(mkdir)(path, mode);
}

int
unlinkat(int dir, const char *path, int flags)
{
    return strikes("unlinkat") ? -1 : REAL(unlinkat)(dir, path, flags);
}
