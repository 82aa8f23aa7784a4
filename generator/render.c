#include "render.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "file.h"

static const template_file *
read_template(arena *a, const char *path, const char *name, digest *seen)
{
    size_t size;
    const char *content = file_load(a, path, &size);
    if (!content) {
        return NULL;
    }
    digest_add(seen, name, strlen(name));
    digest_add(seen, content, size);
    faults *f = faults_create(a, path, content, size);
    const template_file *t = template_parse(a, f, name, content, size);
    faults_print(f);
    return t;
}

const templates *
templates_read(arena *a, const char *folder)
{
    file_names names = {0};
    templates *all = arena_alloc(a, sizeof *all);
    bool good = file_list(a, folder, ".tpl", &names);
    for (int i = 0; i < names.count; i++) {
        const char *path = arena_print(a, "%s/%s", folder, names.items[i]);
        const template_file *t = read_template(a, path, names.items[i], &all->digest);
        *list_push(a, &all->files) = t;
        *list_push(a, &all->paths) = path;
        good = good && t;
    }
    if (good && names.count == 0) {
        fprintf(stderr, "opgen: %s: no templates in it (*.tpl)\n", folder);
        good = false;
    }
    return good ? all : NULL;
}

static void
render_at(arena *a, const templates *from, const cursor *where, outputs *out)
{
    for (int i = 0; i < from->files.count; i++) {
        const template_file *t = from->files.items[i];
        if (t->per_op == (where->op != NULL)) {
            size_t at = out->text.size;
            template_write(t, where, &out->text);
            *list_push(a, &out->files) =
                (output){template_path(a, t, where), at, out->text.size - at};
        }
    }
}

static int
by_path(const void *a, const void *b)
{
    return strcmp((*(const output *const *)a)->path, (*(const output *const *)b)->path);
}

static bool
paths_differ(arena *a, const outputs *out)
{
    size_t count = (size_t)out->files.count;
    const output **sorted = arena_alloc(a, count * sizeof *sorted);
    for (size_t i = 0; i < count; i++) {
        sorted[i] = &out->files.items[i];
    }
    qsort(sorted, count, sizeof *sorted, by_path);
    for (size_t i = 1; i < count; i++) {
        if (!strcmp(sorted[i - 1]->path, sorted[i]->path)) {
            fprintf(stderr, "opgen: two templates or ops write %s\n", sorted[i]->path);
            return false;
        }
    }
    return true;
}

bool
render(arena *a, const table *t, const templates *from, outputs *out)
{
    const plan **plans = arena_alloc(a, (size_t)(t->ops.count + 1) * sizeof *plans);
    cursor where = {.table = t, .plans = plans};
    for (int i = 0; i < t->ops.count; i++) {
        plans[i] = plan_create(a, t, &t->ops.items[i]);
    }
    for (int i = 0; i < t->ops.count; i++) {
        where.op = &t->ops.items[i];
        where.plan = plans[i];
        where.thing = where.op;
        render_at(a, from, &where, out);
    }
    render_at(a, from, &(cursor){.table = t, .plans = plans}, out);
    return paths_differ(a, out);
}
