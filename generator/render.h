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

/* Takes one file, whole; `text` lasts as long as the call. False ends the rendering. */
typedef bool render_sink(void *to, const char *path, const char *text, size_t size);

/* All files, those of the ops first. False if the sink said so. */
bool render(arena *a, const table *t, const templates *from, render_sink *sink, void *to);

#endif
