#include "expression_token.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

typedef struct lexer {
    arena *a;
    faults *f;
    context of;
    loc where; /* of `at` */
    const char *at;
    LIST(token) tokens;
} lexer;

/* Longer ones first: the first that matches is taken. */
static const char *const signs[] = {"//", "<=", ">=", "==", "!=", "..", "+", "-", "*", "/", "%",
                                    "<",  ">",  "(",  ")",  "[",  "]",  ",", ".", "@", "=", NULL};

static bool
is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool
is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/* A line break counts as one column: where the next line begins in the file is not known here. */
static bool
skip_space(lexer *l)
{
    const char *start = l->at;
    l->at += strspn(l->at, " \t\r\n");
    l->where.column += (int)(l->at - start);
    return l->at != start;
}

/* `text`: what the token is, NULL: as it is written. */
static token *
take_as(lexer *l, token_kind kind, const char *text, size_t size)
{
    token *t = list_push(l->a, &l->tokens);
    *t = (token){.kind = kind, .text = text ? text : arena_copy(l->a, l->at, size)};
    t->where = l->where;
    l->at += size;
    l->where.column += (int)size;
    return t;
}

static token *
take(lexer *l, token_kind kind, size_t size)
{
    return take_as(l, kind, NULL, size);
}

static size_t
digits(const char *text)
{
    return strspn(text, "0123456789");
}

/* Bytes of a number that has a point or an exponent; 0: it has neither. */
static size_t
real_size(const char *text)
{
    size_t whole = digits(text), size = whole;
    if (text[size] == '.' && is_digit(text[size + 1])) {
        size += 1 + digits(text + size + 1);
    }
    if (text[size] == 'e' || text[size] == 'E') {
        size_t sign = text[size + 1] == '+' || text[size + 1] == '-';
        size_t exponent = digits(text + size + 1 + sign);
        size += exponent ? 1 + sign + exponent : 0;
    }
    return size == whole ? 0 : size;
}

static bool
read_real(lexer *l, size_t size)
{
    token *t = take(l, TOKEN_REAL, size);
    t->real = strtod(t->text, NULL);
    if (!isfinite(t->real)) {
        return fault(
            l->f, "expression-number", t->where, l->of, "`%s` is beyond a 64-bit float", t->text);
    }
    return true;
}

static bool
read_integer(lexer *l)
{
    bool hex = l->at[0] == '0' && (l->at[1] == 'x' || l->at[1] == 'X');
    size_t size = hex ? 2 + strspn(l->at + 2, "0123456789abcdefABCDEF") : digits(l->at);
    token *t = take(l, TOKEN_INT, size);
    if (hex && size == 2) {
        return fault(l->f, "expression-number", t->where, l->of, "`%s` has no digits", t->text);
    }
    if (!hex && size > 1 && t->text[0] == '0') {
        return fault(
            l->f, "expression-number", t->where, l->of,
            "`%s`: a decimal number does not begin with 0", t->text);
    }
    errno = 0;
    t->integer = strtoull(t->text, NULL, hex ? 16 : 10);
    if (errno || t->integer > (uint64_t)INT64_MAX + 1) {
        return fault(l->f, "expression-number", t->where, l->of, "`%s` is beyond 64 bits", t->text);
    }
    return true;
}

static bool
read_number(lexer *l)
{
    size_t size = real_size(l->at);
    if (!(size ? read_real(l, size) : read_integer(l))) {
        return false;
    }
    if (is_letter(*l->at) || is_digit(*l->at)) {
        return fault(
            l->f, "expression-number", l->where, l->of, "`%c` follows a number: is a `*` missing?",
            *l->at);
    }
    return true;
}

static bool
read_word(lexer *l)
{
    char quote[3] = {*l->at, '\\', 0};
    size_t size = strcspn(l->at + 1, quote);
    if (l->at[1 + size] != quote[0]) {
        return fault(
            l->f, "expression-syntax", l->where, l->of,
            "a quoted value begins here and does not end");
    }
    token *t = take(l, TOKEN_WORD, size + 2);
    t->text = arena_copy(l->a, t->text + 1, size);
    return true;
}

static bool
read_sign(lexer *l)
{
    for (int i = 0; signs[i]; i++) {
        size_t size = signs[i][1] ? 2 : 1;
        if (l->at[0] == signs[i][0] && (size == 1 || l->at[1] == signs[i][1])) {
            return take_as(l, TOKEN_SIGN, signs[i], size);
        }
    }
    if (*l->at > ' ' && *l->at < 0x7f) {
        return fault(l->f, "expression-syntax", l->where, l->of, "`%c` means nothing here", *l->at);
    }
    return fault(
        l->f, "expression-syntax", l->where, l->of, "only plain ASCII means anything here");
}

static bool
read_token(lexer *l)
{
    if (is_letter(*l->at)) {
        size_t size = 1;
        while (is_letter(l->at[size]) || is_digit(l->at[size])) {
            size++;
        }
        return take(l, TOKEN_NAME, size);
    }
    if (is_digit(*l->at)) {
        return read_number(l);
    }
    return *l->at == '\'' || *l->at == '"' ? read_word(l) : read_sign(l);
}

token *
tokens_read(arena *a, faults *f, context of, loc where, const char *text, token few[TOKENS_FEW])
{
    lexer l = {.a = a, .f = f, .of = of, .where = where, .at = text};
    l.tokens.items = few;
    l.tokens.room = TOKENS_FEW;
    bool spaced = skip_space(&l);
    while (*l.at) {
        int index = l.tokens.count;
        if (!read_token(&l)) {
            return NULL;
        }
        l.tokens.items[index].spaced = spaced;
        spaced = skip_space(&l);
    }
    take_as(&l, TOKEN_END, "", 0)->spaced = spaced;
    return l.tokens.items;
}

bool
token_is(const token *t, const char *text)
{
    return (t->kind == TOKEN_NAME || t->kind == TOKEN_SIGN) && text_same(t->text, text);
}

const char *
token_describe(arena *a, const token *t)
{
    return t->kind == TOKEN_END ? "the end" : arena_print(a, "`%s`", t->text);
}
