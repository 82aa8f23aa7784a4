/* The words of the small languages: expressions, shapes and gradients share one lexer. */
#ifndef OPGEN_EXPRESSION_TOKEN_H
#define OPGEN_EXPRESSION_TOKEN_H

#include <stdbool.h>
#include <stdint.h>

#include "arena.h"
#include "fault.h"

typedef enum token_kind {
    TOKEN_END,
    TOKEN_NAME,
    TOKEN_INT,  /* `integer`, at most 2**63 */
    TOKEN_REAL, /* `real`, finite */
    TOKEN_WORD, /* quoted; `text` is what stands between the quotes */
    TOKEN_SIGN  /* `text` is it */
} token_kind;

typedef struct token {
    token_kind kind;
    const char *text;
    uint64_t integer;
    double real;
    bool spaced; /* white space stands before it */
    loc where;
} token;

/* What holds the tokens of most texts; those of a longer one lie in the arena. */
enum { TOKENS_FEW = 24 };

/* All of `text`, ended by TOKEN_END; its first character stands at `where`. They are in `few` where
   they fit, their texts outlive it. NULL after a fault. */
token *
tokens_read(arena *a, faults *f, context of, loc where, const char *text, token few[TOKENS_FEW]);

bool token_is(const token *t, const char *text); /* a name or sign, not a quoted word */
const char *token_describe(arena *a, const token *t);

#endif
