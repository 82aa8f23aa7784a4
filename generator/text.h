/* Whether two texts are the same: most that are compared differ in their first character. */
#ifndef OPGEN_TEXT_H
#define OPGEN_TEXT_H

#include <stdbool.h>
#include <string.h>

static inline bool
text_same(const char *one, const char *other)
{
    return *one == *other && strcmp(one, other) == 0;
}

#endif
