/* What opgen does beside writing. */
#ifndef OPGEN_COMMANDS_H
#define OPGEN_COMMANDS_H

#include "model.h"

/* Prints one op a line, or all as a JSON list. */
void list_print(const table *t, bool json);

/* Prints what opgen knows of a row. False if there is no such row; that was printed. */
bool explain_print(const table *t, const char *name);

/* Prints the JSON schema of a table. */
void schema_print(void);

#endif
