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

/* Up to the end of the file, or false with EFBIG beyond `most` bytes. */
static bool
read_all(int fd, buffer *into, size_t most)
{
    char block[1 << 16];
    for (;;) {
        ssize_t size = read(fd, block, sizeof block);
        if (size == 0) {
            return true;
        }
        if (size < 0 && errno != EINTR) {
            return false;
        }
        if (size > 0) {
            buffer_add(into, block, (size_t)size);
        }
        if (into->size > most) {
            errno = EFBIG;
            return false;
        }
    }
}

static bool
read_and_close(int fd, buffer *into, size_t most)
{
    bool good = read_all(fd, into, most);
    int error = errno;
    close(fd);
    errno = error;
    return good;
}

bool
file_read_open(int fd, buffer *into)
{
    return read_and_close(fd, into, SIZE_MAX);
}

bool
file_read(const char *path, buffer *into)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd >= 0 && file_read_open(fd, into);
}

char *
file_load(arena *a, const char *path, size_t *size)
{
    buffer content = {0};
    char *copy = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && read_and_close(fd, &content, LOAD_MOST)) {
        copy = arena_copy(a, content.data, content.size);
        *size = content.size;
    } else {
        file_complain(path, "cannot be read");
    }
    buffer_finish(&content);
    return copy;
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
