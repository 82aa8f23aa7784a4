/* What is wrong with the input. The user's mistakes are collected and printed together, in the
   order of the file; ours end the program at once. */
#ifndef OPGEN_FAULT_H
#define OPGEN_FAULT_H

#include <stdbool.h>
#include <stddef.h>

typedef struct arena arena;

/* A place in the input, 1-based, in bytes; columns are counted in characters when printed. */
typedef struct loc {
    int line, column;
} loc;

/* Where in the table, for people: row and argument. Either may be NULL. */
typedef struct context {
    const char *op;
    const char *part; /* "arg b", "kernel vec", "grad x" */
} context;

typedef struct faults faults;

/* `text` is the whole input, for the source lines. */
faults *faults_create(arena *a, const char *file, const char *text, size_t size);
int faults_count(const faults *f);
/* So many that no more are kept: whoever looks for more can stop. */
bool faults_full(const faults *f);
const char *faults_file(const faults *f);

/* Records a fault. `id` is a stable word ("duplicate-key"): the list of all ids is in fault_ids,
   and a test asserts that its cases meet exactly those. Returns false, so that a check can return
   it. */
bool fault(faults *f, const char *id, loc where, context of, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* The other place where two clash, added to the last fault. */
void
fault_also(faults *f, loc where, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The nearest of `count` known names to `name`, added to the last fault if it is near enough. */
void fault_suggest(faults *f, const char *name, const char *const *known, int count);

extern const char *const fault_ids[]; /* NULL at the end */

/* The first thousand, sorted by place, each with its source line and a caret, as
       ops.yaml:41:17: error: unknown key `strem` [unknown-key]
          41 |       - {name: a, strem: 1}
             |                   ^
             = row gemm, arg b
             = did you mean `stream`?
             = ops.yaml:12:3: the first one is here */
void faults_print(const faults *f);

/* Ours, not the user's: a broken invariant. Prints where and aborts. */
_Noreturn void
die_at(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));
#define die(...) die_at(__FILE__, __LINE__, __VA_ARGS__)

#endif
