/* The command line. */
#ifndef OPGEN_OPTIONS_H
#define OPGEN_OPTIONS_H

#include <stdbool.h>

#define OPGEN_VERSION "1.0"

typedef enum action {
    ACTION_WRITE,
    ACTION_CHECK,
    ACTION_LIST,
    ACTION_EXPLAIN,
    ACTION_SCHEMA,
    ACTION_DEPS,
    ACTION_VERSION,
    ACTION_HELP,
    ACTION_FAULT_IDS
} action;

typedef struct options {
    action action;
    const char *table;     /* the file; NULL where the action needs none */
    const char *out;       /* the folder, "generated" if not said */
    const char *templates; /* NULL: the ones that opgen was built with */
    const char *op;        /* of --explain */
    bool json;
} options;

/* False after the misuse was printed. */
bool options_read(int argc, char **argv, options *o);

void options_help(void);

#endif
