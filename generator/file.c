#include "file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Of a table or a template: five times what ten thousand rows take. What is read of it takes
   seventy times its size. */
enum { LOAD_MOST = 32 << 20 };

bool
file_complain(const char *path, const char *doing)
{
    fprintf(stderr, "opgen: %s: %s: %s\n", path, doing, strerror(errno));
    return false;
}

/* What is no file but can be named like one, for people; NULL: a file, or a folder, which read()
   complains of. */
static const char *
odd_kind(mode_t mode)
{
    return S_ISREG(mode) || S_ISDIR(mode) ? NULL
           : S_ISFIFO(mode)               ? "a named pipe"
           : S_ISSOCK(mode)               ? "a socket"
                                          : "a device";
}

/* The standard input and the others that are open already may be pipes. */
static bool
is_open_already(const char *path)
{
    return !strcmp(path, "/dev/stdin") || !strncmp(path, "/dev/fd/", strlen("/dev/fd/")) ||
           !strncmp(path, "/proc/self/fd/", strlen("/proc/self/fd/"));
}

/* Waits for nobody, even where the name is given to a pipe meanwhile. -1: `odd` says what it is
   instead of a file, or errno why it cannot be opened. */
static int
open_file(const char *path, struct stat *s, const char **odd)
{
    *odd = NULL;
    if (is_open_already(path)) {
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        return fd >= 0 && fstat(fd, s) == 0 ? fd : -1;
    }
    if (stat(path, s) != 0 || (*odd = odd_kind(s->st_mode))) {
        return -1;
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0 && (fstat(fd, s) != 0 || (*odd = odd_kind(s->st_mode)))) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Appends up to `most` bytes; fewer at the end of the file. -1 with errno set. */
static ssize_t
read_part(int fd, char *to, size_t most)
{
    size_t done = 0;
    while (done < most) {
        ssize_t size = read(fd, to + done, most - done);
        if (size == 0) {
            break;
        }
        if (size < 0 && errno != EINTR) {
            return -1;
        }
        done += size > 0 ? (size_t)size : 0;
    }
    return (ssize_t)done;
}

/* Up to the end of the file, a NUL behind it; NULL with errno set, with EFBIG beyond `most` bytes.
   `room` is what it is thought to have. */
static char *
read_all(arena *a, int fd, size_t room, size_t most, size_t *size)
{
    char *text = NULL;
    for (*size = 0;; room *= 2) {
        char *more = arena_alloc(a, room + 2);
        if (*size) {
            memcpy(more, text, *size);
        }
        text = more;
        ssize_t part = read_part(fd, text + *size, room + 1 - *size);
        *size += part > 0 ? (size_t)part : 0;
        if (*size > most) {
            errno = EFBIG;
        }
        if (part < 0 || *size > most) {
            return NULL;
        }
        if (*size <= room) {
            return text;
        }
    }
}

/* Closes `fd`. */
static char *
read_whole(arena *a, int fd, const struct stat *s, size_t most, size_t *size)
{
    enum { GUESS = 1 << 16 };
    bool known = S_ISREG(s->st_mode) && s->st_size > 0;
    if (known && (uintmax_t)s->st_size > most) {
        close(fd);
        errno = EFBIG;
        return NULL;
    }
    char *text = read_all(a, fd, known ? (size_t)s->st_size : GUESS, most, size);
    int error = errno;
    close(fd);
    errno = error;
    return text;
}

char *
file_read_open(arena *a, int fd, size_t *size)
{
    struct stat s;
    if (fstat(fd, &s) != 0 || !S_ISREG(s.st_mode)) {
        close(fd);
        return NULL;
    }
    return read_whole(a, fd, &s, SIZE_MAX / 2, size);
}

char *
file_read(arena *a, const char *path, size_t *size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    return fd >= 0 ? file_read_open(a, fd, size) : NULL;
}

char *
file_load(arena *a, const char *path, size_t *size)
{
    struct stat s;
    const char *odd;
    int fd = open_file(path, &s, &odd);
    char *text = fd >= 0 ? read_whole(a, fd, &s, LOAD_MOST, size) : NULL;
    if (odd) {
        fprintf(stderr, "opgen: %s: cannot be read: it is %s, not a file\n", path, odd);
    } else if (!text) {
        file_complain(path, "cannot be read");
    }
    return text;
}

bool
file_digest(const char *path, digest *d)
{
    char part[1 << 16];
    ssize_t size = -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    while (fd >= 0 && (size = read_part(fd, part, sizeof part)) > 0) {
        digest_add(d, part, (size_t)size);
    }
    if (fd >= 0) {
        close(fd);
    }
    return size == 0;
}

static int
by_bytes(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

bool
file_list(arena *a, const char *folder, const char *suffix, file_names *names)
{
    DIR *dir = opendir(folder);
    if (!dir) {
        return file_complain(folder, "cannot be read");
    }
    const struct dirent *entry;
    while ((entry = readdir(dir))) {
        size_t length = strlen(entry->d_name), end = strlen(suffix);
        if (length > end && !strcmp(entry->d_name + length - end, suffix)) {
            *list_push(a, names) = arena_copy(a, entry->d_name, length);
        }
    }
    closedir(dir);
    if (names->count) {
        qsort(names->items, (size_t)names->count, sizeof *names->items, by_bytes);
    }
    return true;
}
