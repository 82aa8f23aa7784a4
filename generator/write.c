#include "write.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "file.h"
#include "folder.h"
#include "stamp.h"

/* A file whose text differs from what is there. */
typedef struct change {
    const char *path, *text;
    size_t size;
} change;

/* Paths are relative to `dir`. */
struct update {
    arena *memory;
    const char *folder; /* where `dir` is; not `name` where that is fresh */
    const char *name;   /* as asked for */
    bool fresh;         /* there was none: files go to their places, and the whole is renamed */
    int dir, lock;
    stamp *old, *work;   /* of the last run, and of one that was killed */
    struct stat stamped; /* of the stamp; zero: none */
    bool killed;         /* the last run left its list behind, maybe half of it */
    bool doubtful;       /* a file looks changed after the stamp, and is not */
    dict *paths;         /* of all files added */
    int count;
    LIST(change) changed;
    const char *last; /* of the files that were written */
    LIST(const char *) dropped;
    buffer stamp, staging; /* the new stamp, and the lines of what is staged */
};

/* ---- what is there -------------------------------------------------------------------------- */

static bool
is_before(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec != b->tv_sec ? a->tv_sec < b->tv_sec : a->tv_nsec < b->tv_nsec;
}

/* Whether the file is as the stamp says, by its size and by not having changed since. */
static bool
is_untouched(int dir, const stamp_entry *e, const struct stat *stamped)
{
    struct stat s;
    return fstatat(dir, e->path, &s, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(s.st_mode) &&
           s.st_size == e->size && is_before(&s.st_ctim, &stamped->st_ctim);
}

bool
write_is_current(const char *folder, const digest *input)
{
    struct stat stamped, working;
    int dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0) {
        return false;
    }
    arena *a = arena_create();
    const char *path = arena_print(a, "%s/%s", folder, STAMP_NAME);
    bool current = stamp_is_of(path, input) && fstatat(dir, STAMP_NAME, &stamped, 0) == 0 &&
                   fstatat(dir, STAMP_WORK, &working, 0) != 0;
    const stamp *s = current ? stamp_read(a, path) : NULL;
    for (int i = 0; current && i < s->entries.count; i++) {
        current = is_untouched(dir, &s->entries.items[i], &stamped);
    }
    arena_destroy(a);
    close(dir);
    return current;
}

/* Whether the file holds just this. */
static bool
holds(update *u, const char *path, const char *content, size_t size)
{
    struct stat s;
    if (fstatat(u->dir, path, &s, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(s.st_mode) ||
        (size_t)s.st_size != size) {
        return false;
    }
    size_t found;
    arena_mark mark = arena_save(u->memory);
    const char *there = folder_read(u->memory, u->dir, path, &found);
    bool same = there && found == size && !memcmp(there, content, size);
    arena_restore(u->memory, mark);
    return same;
}

static bool
complain(const update *u, const char *path, const char *doing)
{
    char full[4096];
    snprintf(full, sizeof full, "%s/%s", u->folder, path);
    return file_complain(full, doing);
}

/* Texts are kept only where they differ: of a large table that is little. In a fresh folder they
   are written at once. */
static bool
compare(update *u, const char *path, const char *content, size_t size)
{
    digest d = {0};
    char hex[DIGEST_LENGTH + 1];
    digest_add(&d, content, size);
    digest_print(&d, hex);
    stamp_print_entry(&u->stamp, hex, size, path);

    if (u->fresh) {
        u->last = path;
        return folder_write(u->dir, path, content, size) || complain(u, path, "cannot be written");
    }
    const stamp_entry *e = u->killed ? NULL : stamp_find(u->memory, u->old, path);
    if (e && !strcmp(e->digest, hex) && is_untouched(u->dir, e, &u->stamped)) {
        return true;
    }
    if (holds(u, path, content, size)) {
        u->doubtful = true;
        return true;
    }
    u->last = path;
    *list_push(u->memory, &u->changed) = (change){path, arena_copy(u->memory, content, size), size};
    stamp_print_entry(&u->staging, hex, size, path);
    return true;
}

bool
write_add(void *to, const char *path, const char *text, size_t size)
{
    update *u = to;
    if (dict_add(u->paths, path, u->count++) >= 0) {
        fprintf(stderr, "opgen: two templates or ops write %s\n", path);
        return false;
    }
    return compare(u, path, text, size);
}

/* A file of the stamp that is no output any more goes, if it is still what opgen wrote. */
static void
find_dropped(update *u, const stamp *s)
{
    for (int i = 0; i < s->entries.count; i++) {
        const stamp_entry *e = &s->entries.items[i];
        size_t size;
        digest d = {0};
        char hex[DIGEST_LENGTH + 1];
        const char *there = dict_find(u->paths, e->path) < 0
                                ? folder_read(u->memory, u->dir, e->path, &size)
                                : NULL;
        if (!there) {
            continue;
        }
        digest_add(&d, there, size);
        digest_print(&d, hex);
        if (!strcmp(hex, e->digest)) {
            *list_push(u->memory, &u->dropped) = e->path;
        } else if (stamp_find(u->memory, s == u->old ? u->work : u->old, e->path) == NULL) {
            fprintf(
                stderr, "opgen: %s/%s: kept, though its op is gone: it was edited\n", u->folder,
                e->path);
        }
    }
}

/* ---- staging and renaming ------------------------------------------------------------------- */

static const char *
stage_of(update *u, const char *path)
{
    return arena_print(u->memory, "%s.opgen-new", path);
}

static void
remove_stages(update *u, const stamp *of)
{
    for (int i = 0; i < of->entries.count; i++) {
        unlinkat(u->dir, stage_of(u, of->entries.items[i].path), 0);
    }
}

/* A folder in the place of a file would stop the renames half way: it is found before. */
static bool
stage(update *u, const change *o)
{
    struct stat s;
    const char *path = stage_of(u, o->path);
    if (fstatat(u->dir, o->path, &s, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(s.st_mode)) {
        errno = EISDIR;
        return complain(u, o->path, "cannot be written");
    }
    if (!folder_write(u->dir, path, o->text, o->size)) {
        return complain(u, o->path, "cannot be written");
    }
    return true;
}

static bool
stage_stamp(update *u)
{
    return folder_write(u->dir, STAMP_NAME ".new", u->stamp.data, u->stamp.size) ||
           complain(u, STAMP_NAME, "cannot be written");
}

static bool
stage_all(update *u)
{
    if (!folder_write(u->dir, STAMP_WORK, u->staging.data, u->staging.size)) {
        return complain(u, STAMP_WORK, "cannot be written");
    }
    for (int i = 0; i < u->changed.count; i++) {
        if (!stage(u, &u->changed.items[i])) {
            return false;
        }
    }
    return stage_stamp(u);
}

static void
unstage_all(update *u)
{
    for (int i = 0; i < u->changed.count; i++) {
        unlinkat(u->dir, stage_of(u, u->changed.items[i].path), 0);
        folder_drop_parents(u->dir, u->changed.items[i].path);
    }
    unlinkat(u->dir, STAMP_NAME ".new", 0);
    unlinkat(u->dir, STAMP_WORK, 0);
}

/* A file is trusted to be unchanged if it is older than the stamp: so the clock must have moved on
   since the last of them. */
static void
wait_for_clock(update *u, const char *last)
{
    struct stat before, now;
    if (fstatat(u->dir, last, &before, AT_SYMLINK_NOFOLLOW) != 0) {
        return;
    }
    for (int i = 0; i < 50; i++) {
        utimensat(u->dir, STAMP_NAME ".new", NULL, 0);
        if (fstatat(u->dir, STAMP_NAME ".new", &now, 0) != 0 ||
            is_before(&before.st_ctim, &now.st_ctim)) {
            return;
        }
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
}

static bool
publish(update *u)
{
    for (int i = 0; i < u->changed.count; i++) {
        const char *path = u->changed.items[i].path;
        if (renameat(u->dir, stage_of(u, path), u->dir, path) != 0) {
            return complain(u, path, "cannot be replaced");
        }
    }
    for (int i = 0; i < u->dropped.count; i++) {
        if (unlinkat(u->dir, u->dropped.items[i], 0) != 0 && errno != ENOENT) {
            return complain(u, u->dropped.items[i], "cannot be removed");
        }
        folder_drop_parents(u->dir, u->dropped.items[i]);
    }
    if (u->last) {
        wait_for_clock(u, u->last);
    }
    if (renameat(u->dir, STAMP_NAME ".new", u->dir, STAMP_NAME) != 0) {
        return complain(u, STAMP_NAME, "cannot be replaced");
    }
    unlinkat(u->dir, STAMP_WORK, 0);
    return true;
}

/* ---- an update ------------------------------------------------------------------------------ */

/* A folder that is not there is written under another name and renamed once. */
static bool
open_folder(update *u)
{
    u->dir = open(u->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (u->dir < 0 && errno == ENOENT) {
        u->folder = arena_print(u->memory, "%s.opgen-new", u->name);
        folder_remove(u->folder);
        u->dir = folder_create(u->folder);
        u->fresh = u->dir >= 0;
    }
    return u->dir >= 0 || file_complain(u->name, "cannot be opened");
}

update *
write_begin(arena *a, const char *folder, const digest *input)
{
    struct stat working;
    update *u = arena_alloc(a, sizeof *u);
    size_t size = strlen(folder);
    while (size > 1 && folder[size - 1] == '/') {
        size--;
    }
    u->memory = a;
    u->name = u->folder = arena_copy(a, folder, size);
    u->lock = folder_lock(a, u->name);
    if (!open_folder(u)) {
        write_end(u, false);
        return NULL;
    }
    u->paths = dict_create(a);
    u->old = stamp_read(a, arena_print(a, "%s/%s", u->folder, STAMP_NAME));
    u->work = stamp_read(a, arena_print(a, "%s/%s", u->folder, STAMP_WORK));
    dict_reserve(u->paths, u->old->entries.count);
    u->killed = fstatat(u->dir, STAMP_WORK, &working, 0) == 0;
    if (fstatat(u->dir, STAMP_NAME, &u->stamped, 0) != 0) {
        memset(&u->stamped, 0, sizeof u->stamped);
    }
    stamp_print_head(&u->stamp, input);
    stamp_print_head(&u->staging, input);
    return u;
}

static bool
update_folder(update *u)
{
    if (u->fresh) {
        return stage_stamp(u) && publish(u);
    }
    remove_stages(u, u->work);
    find_dropped(u, u->old);
    find_dropped(u, u->work);
    if (!u->changed.count && !u->dropped.count && !u->doubtful && !u->killed &&
        holds(u, STAMP_NAME, u->stamp.data, u->stamp.size)) {
        return true;
    }
    if (!stage_all(u)) {
        unstage_all(u);
        return false;
    }
    return publish(u);
}

bool
write_end(update *u, bool good)
{
    good = good && update_folder(u);
    if (good && u->fresh && rename(u->folder, u->name) != 0) {
        good = file_complain(u->name, "cannot be made");
    }
    if (!good && u->fresh) {
        folder_remove(u->folder);
    }
    if (u->dir >= 0) {
        close(u->dir);
    }
    if (u->lock >= 0) {
        close(u->lock);
    }
    buffer_finish(&u->stamp);
    buffer_finish(&u->staging);
    return good;
}
