/* What templates may say: kinds of things of the model, the fields of each, and how a field is
   found. Nothing is built for them: a cursor says where in the table the template stands, and a
   field reads the model there. */
#ifndef OPGEN_VALUE_H
#define OPGEN_VALUE_H

#include "buffer.h"
#include "model.h"

/* What is derived of one row before any template is written. */
typedef struct plan plan;

const plan *plan_create(arena *a, const table *t, const op *row);

/* Each loop copies the cursor of what it walks and moves it on, so that an element knows what it is
   part of: a parameter reached through a variant of a kernel knows both. */
typedef struct cursor {
    const table *table;
    const plan *const *plans; /* one a row */
    const op *op;
    const plan *plan; /* of op */
    const kernel *kernel;
    const variant *variant;
    const void *thing; /* what the kind of the variable says: a param, an attr, a text, ... */
    int index;         /* among its kind where that has a number of its own, else in the loop */
    bool first;
} cursor;

typedef enum field_kind {
    FIELD_NAME,   /* an identifier */
    FIELD_NUMBER, /* a literal, the same in C, Python and JSON */
    FIELD_TEXT,   /* anything */
    FIELD_C,
    FIELD_PYTHON,
    FIELD_JSON,
    FIELD_FLAG,
    FIELD_LIST
} field_kind;

typedef struct thing thing;

/* A text, from the model or from `scratch`, which is empty before. NULL: absent. */
typedef const char *value_text(const cursor *c, buffer *scratch);
typedef bool value_flag(const cursor *c);
/* Moves `item`, a copy of `c`, to the first element at or after position `at`, and returns the
   position after that one. -1: there is none. */
typedef int value_next(const cursor *c, int at, cursor *item);

typedef struct field {
    const char *name;
    field_kind kind;
    const thing *of; /* of a list: its elements */
    value_text *text;
    value_flag *flag;
    value_next *next;
} field;

struct thing {
    const char *name;
    const field *fields; /* ended by a NULL name */
};

/* The two kinds that templates start from; all others are reached from them. */
extern const thing thing_table, thing_op;

#endif
