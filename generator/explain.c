#include <stdio.h>
#include <string.h>

#include "commands.h"

static void
print_tensors(buffer *out, const op *o)
{
    static const char *const roles[] = {"in", "out", "in and out", "scalar"};
    for (int i = 0; i < o->params.count; i++) {
        const param *p = &o->params.items[i];
        buffer_print(out, "  %-12s %s%s", p->name, p->optional ? "optional " : "", roles[p->role]);
        if (p->list >= 0) {
            buffer_print(out, ", a list of %s", o->dims.items[p->list].name);
        }
        buffer_print(out, ", %s", p->dtype.text);
        if (p->role != ROLE_SCALAR) {
            buffer_print(out, ", shape %s", p->shape.text);
        }
        if (p->order >= 0) {
            buffer_print(out, ", in the order of %s", o->params.items[p->order].name);
        }
        buffer_putc(out, '\n');
    }
}

static void
print_attributes(buffer *out, const op *o)
{
    for (int i = 0; i < o->attrs.count; i++) {
        const attr *a = &o->attrs.items[i];
        if (a->kind != ATTR_SCALAR) {
            buffer_print(
                out, "  %-12s attribute%s%s\n", a->name, a->has_default ? ", default " : "",
                a->has_default ? a->default_text : "");
        }
    }
    for (int i = 0; i < o->dims.count; i++) {
        const dim *d = &o->dims.items[i];
        if (d->kind == DIM_LET) {
            buffer_print(out, "  %-12s = ", d->name);
            expr_emit_text(out, d->value);
            buffer_putc(out, '\n');
        }
    }
    for (int i = 0; i < o->wheres.count; i++) {
        buffer_print(
            out, "  where        %s: %s\n", o->wheres.items[i].text, o->wheres.items[i].message);
    }
}

static void
print_kernel(buffer *out, const table *t, const op *o, const kernel *k)
{
    const char *backend = t->backends.items[k->backend].name;
    buffer_print(out, "  %s %s: %s", backend, k->id, k->layout_text);
    for (int i = 0; i < k->guards.count; i++) {
        buffer_print(out, "; %s", k->guards.items[i].text);
    }
    if (k->arch) {
        buffer_print(out, "; %s%s", k->arch, k->arch_exact ? " alone" : "");
    }
    if (k->workspace) {
        buffer_puts(out, "; workspace ");
        expr_emit_text(out, k->workspace);
    }
    buffer_print(out, "\n    %s\n", k->src);
    for (int i = 0; i < o->variants.count; i++) {
        const char *suffix = o->variants.items[i].suffix;
        if (k->variants[i]) {
            buffer_print(
                out, "    %s_%s_%s_%s%s%s\n", t->symbol, backend, o->name, k->id,
                *suffix ? "_" : "", suffix);
        }
    }
}

static void
print_row(buffer *out, const table *t, const op *o)
{
    buffer_print(out, "%s", o->name);
    if (o->family) {
        buffer_print(out, " of the family %s", o->family);
    }
    buffer_print(out, ", row %.16s\n  %s\n", o->hash, o->doc.data);
    if (o->aten.data) {
        buffer_print(out, "  in ATen: %s\n", o->aten.data);
    }
    buffer_puts(out, "\narguments and outs\n");
    print_tensors(out, o);
    print_attributes(out, o);
    buffer_puts(out, "\nkernels, in the order tried\n");
    for (int i = 0; i < o->kernels.count; i++) {
        print_kernel(out, t, o, &o->kernels.items[i]);
    }
    buffer_puts(out, o->has_grad ? "\ngradients\n" : "\nno gradients\n");
    for (int i = 0; i < o->grads.count; i++) {
        buffer_print(out, "  %-12s %s\n", o->grads.items[i].name, o->grads.items[i].text);
    }
}

bool
explain_print(const table *t, const char *name)
{
    int i = op_find(t, name);
    if (i < 0) {
        fprintf(stderr, "opgen: the table has no op `%s`; opgen --list says which it has\n", name);
        return false;
    }
    buffer out = {0};
    print_row(&out, t, &t->ops.items[i]);
    fwrite(out.data, 1, out.size, stdout);
    buffer_finish(&out);
    return true;
}
