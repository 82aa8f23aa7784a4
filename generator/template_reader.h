/* The words of a template: what template.c is made of. */
#ifndef OPGEN_TEMPLATE_READER_H
#define OPGEN_TEMPLATE_READER_H

#include "template.h"

/* A cursor over the text of one template, and the variables in sight there. */
typedef struct reader {
    arena *memory;
    faults *faults;
    const char *text, *end, *at;
    template_file *out;
    struct {
        const char *name;
        size_t size;
        const thing *is;
    } slots[TEMPLATE_SLOTS];
    int slot_count;
    int target;  /* the last step that another goes on at: no text before it may join it */
    bool quoted; /* inside @{quote} */
    bool filled; /* inside @{fill}: line breaks count for nothing */
} reader;

typedef struct word {
    const char *text;
    size_t size;
} word;

loc reader_loc(const reader *r, const char *at);

/* Records a fault at a place of the text; false. */
#define reader_fault(r, at, ...) \
    fault((r)->faults, "template", reader_loc((r), (at)), (context){NULL, NULL}, __VA_ARGS__)

bool reader_is_word_char(char c);
bool word_is(word w, const char *text);

/* What stands at the reader, behind any spaces. The word is empty if there is none; the others
   record a fault and return false or NULL. */
void reader_skip_spaces(reader *r);
word reader_word(reader *r);
bool reader_char(reader *r, char c);
bool reader_string(reader *r, word *out);        /* "..." with \n, \" and \\ */
const field *reader_field(reader *r, int *slot); /* variable.field */
const encoder *reader_encoder(reader *r);

#endif
