#include <string.h>

#include "scope.h"

static void
group_kernels(arena *a, plan *p, const table *t, const op *row)
{
    int count = 0;
    p->kernels = arena_alloc(a, (size_t)row->kernels.count * sizeof *p->kernels);
    for (int b = 0; b < t->backends.count; b++) {
        int first = count;
        for (int i = 0; i < row->kernels.count; i++) {
            if (row->kernels.items[i].backend == b) {
                p->kernels[count++] = &row->kernels.items[i];
            }
        }
        if (count > first) {
            *list_push(a, &p->parts) = (part){b, first, count};
        }
    }
}

static bool
same_text(const char *a, const char *b)
{
    return a == b || (a && b && !strcmp(a, b));
}

static void
add_source(arena *a, plan *p, const kernel *k)
{
    for (int i = 0; i < p->sources.count; i++) {
        const source *s = &p->sources.items[i];
        if (s->backend == k->backend && !strcmp(s->path, k->src) && same_text(s->arch, k->arch)) {
            return;
        }
    }
    *list_push(a, &p->sources) = (source){k->src, k->arch, k->backend, k};
}

static void
add_libs(arena *a, plan *p, const kernel *k)
{
    for (int i = 0; i < k->libs.count; i++) {
        int j = 0;
        while (j < p->libs.count && strcmp(p->libs.items[j], k->libs.items[i])) {
            j++;
        }
        if (j == p->libs.count) {
            *list_push(a, &p->libs) = k->libs.items[i];
        }
    }
}

static void
add_items(arena *a, plan *p, const char *kind, const param *of, const item *items, int count)
{
    for (int i = 0; i < count; i++) {
        if (items[i].kind == ITEM_VALUE) {
            const char *name = arena_print(a, "%s_%s_%d", kind, of->name, i);
            *list_push(a, &p->values) = (function){name, items[i].value};
        }
    }
}

static void
add_kernel(arena *a, plan *p, const kernel *k, const char *backend)
{
    for (int i = 0; i < k->guards.count; i++) {
        const char *name = arena_print(a, "guard_%s__%s_%d", backend, k->id, i);
        *list_push(a, &p->tests) = (function){name, k->guards.items[i].test};
    }
    if (k->workspace) {
        const char *name = arena_print(a, "workspace_%s__%s", backend, k->id);
        *list_push(a, &p->values) = (function){name, k->workspace};
    }
}

static void
add_functions(arena *a, plan *p, const table *t, const op *row)
{
    for (int i = 0; i < row->dims.count; i++) {
        const dim *d = &row->dims.items[i];
        if (d->kind == DIM_LET) {
            const char *name = arena_print(a, "let_%s", d->name);
            *list_push(a, &p->values) = (function){name, d->value};
        }
    }
    for (int i = 0; i < row->inputs + row->outs; i++) {
        const param *of = &row->params.items[i];
        add_items(a, p, "size", of, of->shape.items.items, of->shape.items.count);
        add_items(a, p, "other", of, of->shape.other.items, of->shape.other.count);
        if (of->shape.test) {
            const char *name = arena_print(a, "test_%s", of->name);
            *list_push(a, &p->tests) = (function){name, of->shape.test};
        }
    }
    for (int i = 0; i < row->wheres.count; i++) {
        const condition *w = &row->wheres.items[i];
        *list_push(a, &p->tests) = (function){arena_print(a, "where_%d", i), w->test};
    }
    for (int i = 0; i < row->kernels.count; i++) {
        add_kernel(a, p, p->kernels[i], t->backends.items[p->kernels[i]->backend].name);
    }
}

static void
add_names(arena *a, plan *p, const op *row)
{
    p->symbol = arena_print(a, "%s_%s", row->symbol, row->name);
    p->tails = arena_alloc(a, (size_t)row->variants.count * sizeof *p->tails);
    p->functions = arena_alloc(a, (size_t)row->variants.count * sizeof *p->functions);
    for (int i = 0; i < row->variants.count; i++) {
        const char *suffix = row->variants.items[i].suffix;
        p->tails[i] = *suffix ? arena_join(a, "_", suffix, "") : "";
        p->functions[i] = arena_join(a, row->name, p->tails[i], "");
    }
}

/* Of each kernel and variant its launcher, and the launch function of the op that calls it. */
static void
add_launches(arena *a, plan *p, const table *t, const op *row)
{
    int variants = row->variants.count;
    p->launches = arena_alloc(a, (size_t)(row->kernels.count * variants) * sizeof *p->launches);
    for (int i = 0; i < row->kernels.count; i++) {
        const kernel *k = &row->kernels.items[i];
        const char *backend = t->backends.items[k->backend].name;
        const char *of = arena_join(a, arena_join(a, t->symbol, "_", backend), "_", row->name);
        const char *launcher = arena_join(a, of, "_", k->id);
        const char *launch = arena_join(a, arena_join(a, "launch_", backend, "__"), k->id, "");
        for (int v = 0; v < variants; v++) {
            if (k->variants[v]) {
                p->launches[i * variants + v].launcher = arena_join(a, launcher, p->tails[v], "");
                p->launches[i * variants + v].launch = arena_join(a, launch, p->tails[v], "");
            }
        }
    }
}

const plan *
plan_create(arena *a, const table *t, const op *row)
{
    plan *p = arena_alloc(a, sizeof *p);
    add_names(a, p, row);
    group_kernels(a, p, t, row);
    add_launches(a, p, t, row);
    for (int i = 0; i < row->kernels.count; i++) {
        add_source(a, p, p->kernels[i]);
        add_libs(a, p, p->kernels[i]);
    }
    add_functions(a, p, t, row);
    return p;
}
