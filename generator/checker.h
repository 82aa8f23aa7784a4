/* What the files of the check share. Nothing outside of it includes this. */
#ifndef OPGEN_CHECKER_H
#define OPGEN_CHECKER_H

#include "check.h"
#include "dict.h"
#include "fields.h"
#include "names.h"
#include "scalar.h"

/* A list of dtypes in order, each once. */
typedef struct dtype_set {
    dtype_id values[DTYPE_COUNT];
    int count;
} dtype_set;

/* A function of dtypes: -1 where it is undefined. */
typedef struct dtype_function {
    const char *name;
    int map[DTYPE_COUNT];
    loc where;
} dtype_function;

/* Who has a C symbol. */
typedef struct owner {
    const op *op; /* NULL: the runtime */
    enum { OWNER_OP, OWNER_PARAM, OWNER_ATTR, OWNER_KERNEL } kind;
    int index; /* among those of the op */
} owner;

typedef struct claim {
    const char *symbol;
    owner of;
} claim;

typedef struct checker {
    arena *memory;
    faults *faults;
    table *table;
    LIST(dtype_function) functions;
    dict *kinds; /* names under `dtypes`: index into table->classes, or minus 2 minus that of
                    functions */
    bool classes_faulty; /* then an unknown name of a class is no news */
    const node *classes; /* the map, for classes that name later ones */
    bool *classes_open;  /* being resolved: meeting one again is a cycle */
    dict *names;         /* of a row: arguments, outs, type variables; shape_check looks at dims */
    dict *kernel_ids;    /* of a row */
    dict *symbols;       /* final C symbols, to indexes into owners */
    LIST(owner) owners;
    LIST(claim) claims; /* of a row, before they are compared with those of others */
} checker;

/* A row before the check, families spread. */
typedef struct row {
    const char *name, *family;
    loc where, name_where;
    node *fields[ROW_COUNT];
    bool faulty[ROW_COUNT]; /* written, but wrong: what builds on it is not looked at */
    bool whole;             /* no fault so far */
} row;

typedef struct row_list {
    LIST(row) all;
} row_list;

/* An argument or out as it stands in the row. */
typedef struct source {
    node *fields[ARG_COUNT]; /* OUT_COUNT of an out */
    const char *name;
    context of;
    loc where;
    int param, attr; /* what it became, -1 */
} source;

typedef struct row_check {
    checker *checker;
    const row *row;
    op *op;
    LIST(source) args;
    LIST(source) outs;
    LIST(loc) name_places;
    bool sound; /* what expressions refer to is known: checking them gives no follow-on faults */
} row_check;

/* family.c */
void rows_collect(checker *c, const node *ops, row_list *out);

/* dtypes.c */
void classes_read(checker *c, const node *map);
/* Of a name or a list of names of dtypes and classes. */
bool dtypes_read(checker *c, context of, const node *n, dtype_set *out);
bool typevars_read(row_check *r);
bool dtype_rule_read(row_check *r, context of, const node *n, dtype_rule *out);
/* By the dtypes of the row's variables. */
dtype_id dtype_rule_apply(const dtype_rule *rule, const dtype_id *vars);
bool tolerances_read(checker *c, context of, const node *map, tolerance_list *out); /* NULL: none */

/* row.c */
bool row_check_all(checker *c, const row *from, op *to);
bool name_take(row_check *r, context of, loc where, const char *name);

/* args.c */
bool args_read(row_check *r, bool typed);      /* typed: the type variables are known */
int param_find(const op *o, const char *name); /* -1: none */
int attr_find(const op *o, const char *name);
int dim_find(const op *o, const char *name);

/* attrs.c */
bool attr_read(row_check *r, source *s, attr *out);
bool scalar_attr_read(row_check *r, const source *s, const param *p, attr *out);
bool attr_of_resolve(row_check *r, const source *s, attr *out);

/* variants.c */
bool variants_make(row_check *r);

/* layout.c */
bool layout_read(checker *c, context of, const node *n, unsigned *out);
bool kernel_layouts_read(row_check *r, context of, const node *n, kernel *k);
void kernel_places(checker *c, const op *o, kernel *k);
bool kernel_takes_dense(const op *o, const kernel *k);
bool kernel_layouts_cover(const op *o, const kernel *wide, const kernel *narrow);
bool shape_is_packs(const shape *s);

/* kernels.c */
bool kernels_read(row_check *r);

/* literal.c */
bool aten_check(row_check *r, const node *n);
bool case_check(row_check *r, context of, const node *n);

/* symbols.c */
void symbols_check(checker *c, const row_list *rows);

/* row_json.c */
const char *row_json(arena *a, const row *r);
const char *table_json_head(arena *a, node *const *fields);

#endif
