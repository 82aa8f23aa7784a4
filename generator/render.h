/* Model and templates to texts, all of them in memory before any is written. */
#ifndef OPGEN_RENDER_H
#define OPGEN_RENDER_H

#include "digest.h"
#include "template.h"

typedef struct templates {
    LIST(const template_file *) files;
    LIST(const char *) paths; /* as read, for --deps */
    digest digest;            /* of their names and texts */
} templates;

/* Reads and compiles the *.tpl of a folder. NULL after the faults were printed. */
const templates *templates_read(arena *a, const char *folder);

typedef struct output {
    const char *path; /* relative to the output folder */
    size_t at, size;  /* in outputs.text */
} output;

typedef struct outputs {
    buffer text;
    LIST(output) files; /* by op, then those of the table */
} outputs;

/* False if two outputs have one path; that was printed. */
bool render(arena *a, const table *t, const templates *from, outputs *out);

#endif
