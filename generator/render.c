#include "render.h"

#include <stdio.h>
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

static bool
render_at(
    arena *a, const templates *from, const cursor *where, buffer *scratch, render_sink *sink,
    void *to)
{
    for (int i = 0; i < from->files.count; i++) {
        const template_file *t = from->files.items[i];
        if (t->per_op != (where->op != NULL)) {
            continue;
        }
        scratch->size = 0;
        template_write(t, where, scratch);
        if (!sink(to, template_path(a, t, where), scratch->data, scratch->size)) {
            return false;
        }
    }
    return true;
}

bool
render(arena *a, const table *t, const templates *from, render_sink *sink, void *to)
{
    const plan **plans = arena_alloc(a, (size_t)(t->ops.count + 1) * sizeof *plans);
    cursor where = {.table = t, .plans = plans};
    buffer scratch = {0};
    bool good = true;
    for (int i = 0; i < t->ops.count; i++) {
        plans[i] = plan_create(a, t, &t->ops.items[i]);
    }
    for (int i = 0; good && i < t->ops.count; i++) {
        where.op = &t->ops.items[i];
        where.plan = plans[i];
        where.thing = where.op;
        good = render_at(a, from, &where, &scratch, sink, to);
    }
    where = (cursor){.table = t, .plans = plans};
    good = good && render_at(a, from, &where, &scratch, sink, to);
    buffer_finish(&scratch);
    return good;
}
