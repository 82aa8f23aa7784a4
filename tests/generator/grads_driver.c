/* What opgen reads in the gradients of a table: for each row its entries as they are written back,
   and what they save. Faults go to stderr, as opgen prints them. */
#include <stdio.h>
#include <stdlib.h>

#include "check.h"
#include "grad.h"
#include "yaml_read.h"

static void
print_row(const table *t, const op *row)
{
    for (int i = 0; i < row->grads.count; i++) {
        buffer b = {0};
        grad_emit_text(&b, t, row, row->grads.items[i].value);
        printf("%s.%s = %s\n", row->name, row->grads.items[i].name, buffer_text(&b));
        buffer_finish(&b);
    }
    printf("%s saves", row->name);
    for (int i = 0; i < row->params.count; i++) {
        if (row->saves >> i & 1) {
            printf(" %s", row->params.items[i].name);
        }
    }
    printf("\n");
}

int
main(int argc, char **argv)
{
    static char text[1 << 20];
    FILE *file = argc == 2 ? fopen(argv[1], "rb") : NULL;
    if (!file) {
        fprintf(stderr, "grads_driver TABLE\n");
        return 2;
    }
    size_t size = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    arena *a = arena_create();
    faults *f = faults_create(a, argv[1], text, size);
    node *root = yaml_read(a, f, text, size);
    table *t = root ? check_table(a, f, root) : NULL;
    if (faults_count(f)) {
        faults_print(f);
    }
    for (int i = 0; t && i < t->ops.count; i++) {
        print_row(t, &t->ops.items[i]);
    }
    arena_destroy(a);
    return t ? 0 : 1;
}
