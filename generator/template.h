/* A template: a file with tags, compiled to a flat list of steps with every name resolved.
   templates/README.md is the language. */
#ifndef OPGEN_TEMPLATE_H
#define OPGEN_TEMPLATE_H

#include "encode.h"
#include "value.h"

enum {
    TEMPLATE_SLOTS = 16, /* variables in sight at once; 0 is `table`, 1 is `op` */
    TEMPLATE_PAD = 32
};

typedef enum step_kind {
    STEP_TEXT,  /* text, size */
    STEP_VALUE, /* field of slot, through encoder */
    STEP_FOR,   /* field of slot: its elements into `into`, text between them; body up to end */
    STEP_IF,    /* field of slot (negated): on to the next step, else on at `end` */
    STEP_GO,    /* on at `end`: over what an @{else} has */
    STEP_QUOTE, /* body up to end, through encoder as a whole */
    STEP_FILL   /* body up to end, its line broken if it is too long */
} step_kind;

typedef struct step {
    step_kind kind;
    bool negated;
    int slot, into;
    int end;          /* an index of a step */
    int indent;       /* of a value: of the line it stands on */
    const char *text; /* of a value or an @{if}: what stands before it; TEMPLATE_PAD bytes behind
                         it can be read */
    size_t size;
    const field *field;
    const encoder *encoder;
} step;

typedef struct template_file {
    const char *name; /* of the file, without its folder */
    bool per_op;
    const char *path; /* of the output, with {op}, {package}, {namespace} */
    LIST(step) steps;
} template_file;

/* NULL after a fault. `text` must outlive it. */
template_file *template_parse(arena *a, faults *f, const char *name, const char *text, size_t size);

/* Appends what the template says at `where`, the cursor of the table or of an op. */
void template_write(const template_file *t, const cursor *where, buffer *out);

/* The path of its output there. */
const char *template_path(arena *a, const template_file *t, const cursor *where);

#endif
