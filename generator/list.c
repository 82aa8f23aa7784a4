#include "commands.h"
#include "json.h"

#include <stdio.h>

static void
list_row(buffer *out, const op *o)
{
    buffer_print(out, "%s(", o->name);
    for (int i = 0; i < o->inputs; i++) {
        buffer_print(out, "%s%s", i ? ", " : "", o->params.items[i].name);
    }
    buffer_puts(out, ") ->");
    for (int i = 0; i < o->outs; i++) {
        buffer_print(out, "%s %s", i ? "," : "", o->params.items[o->inputs + i].name);
    }
    buffer_print(out, "  [%d dtypes, %d kernels]\n", o->variants.count, o->kernels.count);
}

void
list_print(const table *t, bool json)
{
    buffer out = {0};
    for (int i = 0; i < t->ops.count; i++) {
        if (json) {
            buffer_print(&out, "%s\n  %s", i ? "," : "[", t->ops.items[i].json);
        } else {
            list_row(&out, &t->ops.items[i]);
        }
    }
    if (json) {
        buffer_puts(&out, t->ops.count ? "\n]\n" : "[]\n");
    }
    fwrite(out.data, 1, out.size, stdout);
    buffer_finish(&out);
}
