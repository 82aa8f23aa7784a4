/* Texts to integers. Keys are not copied: they must outlive it. It lives in an arena. */
#ifndef OPGEN_DICT_H
#define OPGEN_DICT_H

#include "arena.h"

typedef struct dict dict;

dict *dict_create(arena *a);
void dict_reserve(dict *d, int count);            /* grows for so many at once; it is empty */
void dict_clear(dict *d);                         /* and small again */
int dict_find(const dict *d, const char *key);    /* -1: none */
void dict_expect(const dict *d, const char *key); /* soon: fetches where it is looked for first */
/* The value that `key` had before, which then stays; -1: none, it is `value` now. */
int dict_add(dict *d, const char *key, int value);

#endif
