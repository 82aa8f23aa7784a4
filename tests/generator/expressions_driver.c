/* The small languages from a shell: reads a row and questions, one a line, fields parted by tabs,
   and answers each question.

       type    T  f32 f16
       attr    act  enum  none relu           (bool int float axis axes scalar, ints 2)
       arg     x  T  -  A.. N                 (- or flags: optional inout list=n)
       let     P  (N - 1) // 2
       out     out  T  -  A.. P
       shapes                                 dims and shapes, or the faults; nothing after a fault
       expr    int  all  N * 2                C, Python and text, or the faults; `attributes` for
   `all`

   Faults are printed as opgen prints them, on stdout, and "." ends each answer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "expression_parse.h"
#include "shape.h"

typedef struct driver {
    arena *a;
    op row;
    const char *lists[64]; /* by param: the name of its length, NULL */
    const char *line;      /* as it was read, for the source lines of faults */
    const char *fields;    /* its copy, whose tabs are ends of fields: the same columns */
    int number;
    bool whole;  /* lists are dims already */
    bool faulty; /* a line of the row had a fault */
} driver;

static const char *const attr_kinds[] = {"bool", "int",  "float", "enum",
                                         "ints", "axis", "axes",  "scalar"};
static const char *const types[] = {"none", "bool", "int", "real", "word", "ints", "tensor"};

static int
find(const char *const *words, int count, const char *word)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(words[i], word) == 0) {
            return i;
        }
    }
    fprintf(stderr, "no such word: %s\n", word);
    exit(2);
}

static loc
here(const driver *d, const char *field)
{
    return (loc){d->number, (int)(field - d->fields) + 1};
}

static faults *
faults_of(const driver *d)
{
    /* Empty lines before it, so that the line has its own number. */
    char *input = arena_alloc(d->a, (size_t)d->number + strlen(d->line) + 1);
    memset(input, '\n', (size_t)d->number - 1);
    strcat(input + d->number - 1, d->line);
    return faults_create(d->a, "row", input, strlen(input));
}

static void
answer(const faults *f)
{
    fflush(stdout);
    if (faults_count(f)) {
        faults_print(f);
    }
}

static void
read_type(driver *d, char **field)
{
    typevar *v = list_push(d->a, &d->row.types);
    *v = (typevar){.name = field[1], .bound_by = -1, .where = here(d, field[1])};
    for (char *word = strtok(field[2], " "); word; word = strtok(NULL, " ")) {
        v->values[v->count++] = (dtype_id)dtype_find(word);
    }
}

static void
read_attr(driver *d, char **field)
{
    attr *x = list_push(d->a, &d->row.attrs);
    *x = (attr){.name = field[1], .of = -1, .where = here(d, field[1])};
    x->kind = (attr_kind)find(attr_kinds, 8, field[2]);
    x->size = x->kind == ATTR_INTS ? atoi(field[3]) : 0;
    for (char *word = x->kind == ATTR_ENUM ? strtok(field[3], " ") : NULL; word;
         word = strtok(NULL, " ")) {
        *list_push(d->a, &x->values) = word;
    }
}

/* After the arguments: what counts their lists becomes dims. */
static void
settle_lists(driver *d)
{
    for (int i = 0; !d->whole && i < d->row.params.count; i++) {
        const char *name = d->lists[i];
        param *p = &d->row.params.items[i];
        p->list = name ? row_find_dim(&d->row, name) : -1;
        if (name && p->list < 0) {
            p->list = d->row.dims.count;
            *list_push(d->a, &d->row.dims) =
                (dim){.name = name, .kind = DIM_LIST, .bound_by = i, .where = p->where};
        }
    }
    d->whole = true;
}

static void
read_param(driver *d, char **field, role is)
{
    if (is == ROLE_OUT) {
        settle_lists(d);
    }
    int index = d->row.params.count;
    param *p = list_push(d->a, &d->row.params);
    *p = (param){.name = field[1], .role = is, .list = -1, .where = here(d, field[1])};
    int var = row_find_type(&d->row, field[2]);
    p->dtype = (dtype_rule){.kind = var < 0 ? DTYPE_FIXED : DTYPE_VAR, .var = var};
    p->dtype.fixed = var < 0 ? (dtype_id)dtype_find(field[2]) : DTYPE_BOOL;
    p->optional = strstr(field[3], "optional") != NULL;
    p->role = strstr(field[3], "inout") ? ROLE_INOUT : is;
    const char *list = strstr(field[3], "list=");
    d->lists[index] = list ? arena_copy(d->a, list + 5, strcspn(list + 5, " ")) : NULL;
    d->row.inputs += is == ROLE_IN;
    d->row.outs += is == ROLE_OUT;
    faults *f = faults_of(d);
    shape found = {0};
    context of = {"row", p->name};
    shape_parse(d->a, f, of, &d->row, here(d, field[4]), field[4], index, &found);
    d->row.params.items[index].shape = found;
    d->faulty |= faults_count(f) != 0;
    answer(f);
}

static void
read_let(driver *d, char **field)
{
    settle_lists(d);
    faults *f = faults_of(d);
    dim *x = list_push(d->a, &d->row.dims);
    *x = (dim){.name = field[1], .kind = DIM_LET, .bound_by = -1, .where = here(d, field[1])};
    x->value = expr_parse(d->a, f, (context){"row", "let"}, here(d, field[2]), field[2]);
    d->faulty |= !x->value;
    answer(f);
}

static void
answer_shapes(driver *d)
{
    settle_lists(d);
    faults *f = faults_of(d);
    if (d->faulty) {
        return;
    }
    if (!shape_check(d->a, f, &d->row)) {
        answer(f);
        return;
    }
    for (int i = 0; i < d->row.dims.count; i++) {
        const dim *x = &d->row.dims.items[i];
        printf(
            "dim %s%s%s\n", x->name, x->kind == DIM_PACK ? ".." : "", x->varies ? " varies" : "");
    }
    for (int i = 0; i < d->row.params.count; i++) {
        buffer b = {0};
        shape_emit_text(&b, &d->row, &d->row.params.items[i].shape);
        printf("shape %s\n", buffer_text(&b));
        buffer_finish(&b);
    }
}

static void
print(const char *what, buffer *b)
{
    printf("%s %s\n", what, buffer_text(b));
    buffer_finish(b);
}

static bool
same(const expr *x, const expr *y)
{
    bool ok = x->kind == y->kind && x->type == y->type && x->count == y->count &&
              x->index == y->index && x->integer == y->integer && x->function == y->function &&
              memcmp(&x->real, &y->real, sizeof x->real) == 0;
    for (int i = 0; ok && i < x->count; i++) {
        ok = same(x->args[i], y->args[i]);
    }
    return ok;
}

/* The text form must parse back to the same tree. */
static bool
survives(driver *d, faults *f, const expr *e, expr_type type, bool attributes)
{
    buffer b = {0};
    expr_emit_text(&b, e);
    const char *source = arena_copy(d->a, b.data, b.size);
    buffer_finish(&b);
    expr *again = expr_parse(d->a, f, (context){0}, e->where, source);
    return again && expr_check(d->a, f, (context){0}, &d->row, again, type, attributes) &&
           same(e, again);
}

static void
answer_expr(driver *d, char **field)
{
    settle_lists(d);
    faults *f = faults_of(d);
    expr_type type = (expr_type)find(types, 7, field[1]);
    bool attributes = strcmp(field[2], "attributes") == 0;
    context of = {"row", "expr"};
    expr *e = expr_parse(d->a, f, of, here(d, field[3]), field[3]);
    if (!e || !expr_check(d->a, f, of, &d->row, e, type, attributes)) {
        answer(f);
        return;
    }
    buffer b = {0};
    expr_emit_c(&b, &d->row, e);
    print("c", &b);
    expr_emit_python(&b, &d->row, e);
    print("python", &b);
    expr_emit_text(&b, e);
    print("text", &b);
    expr_uses uses = expr_uses_of(&d->row, e);
    printf(
        "uses%s%s%s\n", uses.scope ? " scope" : "", uses.call ? " call" : "",
        uses.bad ? " bad" : "");
    if (!survives(d, f, e, type, attributes)) {
        printf("the text form is another tree\n");
        answer(f);
    }
}

static void
obey(driver *d, char **field)
{
    static const char *const verbs[] = {"type", "attr", "arg", "out", "let", "shapes", "expr"};
    switch (find(verbs, 7, field[0])) {
    case 0: read_type(d, field); break;
    case 1: read_attr(d, field); break;
    case 2: read_param(d, field, ROLE_IN); break;
    case 3: read_param(d, field, ROLE_OUT); break;
    case 4: read_let(d, field); break;
    case 5: answer_shapes(d); break;
    default: answer_expr(d, field); break;
    }
    fflush(stderr);
    printf(".\n");
}

int
main(void)
{
    driver d = {.a = arena_create(), .row = {.name = "row", .symbol = "ns"}};
    static char line[1 << 20];
    dup2(STDOUT_FILENO, STDERR_FILENO);
    while (fgets(line, sizeof line, stdin)) {
        size_t size = strcspn(line, "\n");
        char *copy = arena_copy(d.a, line, size), *fields[5];
        d.line = arena_copy(d.a, line, size);
        d.fields = copy;
        d.number++;
        for (int i = 0; i < 5; i++) {
            fields[i] = copy;
            copy += strcspn(copy, "\t");
            copy += *copy ? (*copy = 0, 1) : 0;
        }
        obey(&d, fields);
    }
    arena_destroy(d.a);
    return 0;
}
