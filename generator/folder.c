#define _XOPEN_SOURCE 700 /* nftw */
#include "folder.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file.h"

/* `path` up to the slash at `end`, or "." before the first. */
static char *
path_before(arena *a, const char *path, const char *end)
{
    return end && end > path ? arena_copy(a, path, (size_t)(end - path))
                             : arena_copy(a, end ? "/" : ".", 1);
}

static int
lock_nearest(arena *a, const char **place)
{
    int fd;
    while ((fd = open(*place, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0 && errno == ENOENT &&
           strcmp(*place, ".") && strcmp(*place, "/")) {
        *place = path_before(a, *place, strrchr(*place, '/'));
    }
    while (fd >= 0 && flock(fd, LOCK_EX) != 0 && errno == EINTR) {
    }
    return fd;
}

int
folder_lock(arena *a, const char *path)
{
    for (;;) {
        const char *place = path;
        int fd = lock_nearest(a, &place);
        if (fd < 0 || place == path || access(path, F_OK) != 0) {
            return fd;
        }
        close(fd); /* it was made while this waited: that is what others lock now */
    }
}

int
folder_create(const char *path)
{
    char part[4096];
    size_t size = strlen(path);
    if (size >= sizeof part) {
        errno = ENAMETOOLONG;
        return -1;
    }
    for (size_t i = 1; i <= size; i++) {
        if (path[i] != '/' && path[i] != '\0') {
            continue;
        }
        memcpy(part, path, i);
        part[i] = '\0';
        if (mkdir(part, 0777) != 0 && errno != EEXIST) {
            return -1;
        }
    }
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int
remove_one(const char *path, const struct stat *s, int kind, struct FTW *where)
{
    (void)s;
    (void)kind;
    (void)where;
    return remove(path);
}

void
folder_remove(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

bool
folder_make_parents(int dir, const char *path)
{
    char part[4096];
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        size_t size = (size_t)(slash - path);
        if (size >= sizeof part) {
            errno = ENAMETOOLONG;
            return false;
        }
        memcpy(part, path, size);
        part[size] = '\0';
        if (mkdirat(dir, part, 0777) != 0 && errno != EEXIST) {
            return false;
        }
    }
    return true;
}

void
folder_drop_parents(int dir, const char *path)
{
    char part[4096];
    snprintf(part, sizeof part, "%s", path);
    for (char *slash; (slash = strrchr(part, '/'));) {
        *slash = '\0';
        if (unlinkat(dir, part, AT_REMOVEDIR) != 0) {
            return;
        }
    }
}

char *
folder_read(arena *a, int dir, const char *path, size_t *size)
{
    int fd = openat(dir, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    return fd >= 0 ? file_read_open(a, fd, size) : NULL;
}

static bool
write_all(int fd, const char *content, size_t size)
{
    while (size > 0) {
        ssize_t done = write(fd, content, size);
        if (done < 0 && errno != EINTR) {
            return false;
        }
        if (done > 0) {
            content += done;
            size -= (size_t)done;
        }
    }
    return true;
}

static int
open_new(int dir, const char *path)
{
    return openat(dir, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
}

bool
folder_write(int dir, const char *path, const char *content, size_t size)
{
    int fd = open_new(dir, path);
    if (fd < 0 && errno == EEXIST) {
        unlinkat(dir, path, 0);
        fd = open_new(dir, path);
    } else if (fd < 0 && errno == ENOENT && folder_make_parents(dir, path)) {
        fd = open_new(dir, path);
    }
    if (fd < 0) {
        return false;
    }
    bool good = write_all(fd, content, size);
    int error = errno;
    if (close(fd) != 0 && good) {
        good = false;
        error = errno;
    }
    if (!good) {
        unlinkat(dir, path, 0);
        errno = error;
    }
    return good;
}
