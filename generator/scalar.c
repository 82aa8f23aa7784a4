#include "scalar.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char digits[] = "0123456789";

/* ---- grammars -------------------------------------------------------------------------------- */

bool
scalar_looks_int(const char *text)
{
    text += *text == '-';
    if (text[0] == '0' && text[1] == 'x') {
        text += 2;
        return *text && text[strspn(text, "0123456789abcdefABCDEF")] == '\0';
    }
    size_t count = strspn(text, digits);
    return count > 0 && text[count] == '\0' && (*text != '0' || count == 1);
}

bool
scalar_looks_real(const char *text)
{
    text += *text == '-';
    size_t count = strspn(text, digits);
    if (count == 0 || (*text == '0' && count > 1)) {
        return false;
    }
    text += count;
    if (*text == '.') {
        count = strspn(++text, digits);
        if (count == 0) {
            return false;
        }
        text += count;
    }
    if (*text == 'e' || *text == 'E') {
        text++;
        text += *text == '-' || *text == '+';
        count = strspn(text, digits);
        if (count == 0) {
            return false;
        }
        text += count;
    }
    return *text == '\0';
}

static bool
is_word(const char *text, const char *const *words)
{
    for (; *words; words++) {
        if ((*text | 0x20) == (**words | 0x20) && strcasecmp(text, *words) == 0) {
            return true;
        }
    }
    return false;
}

static bool
looks_base_60(const char *text)
{
    text += *text == '-' || *text == '+';
    size_t first = strspn(text, "0123456789_");
    const char *rest = text + first;
    if (first == 0 || *rest != ':') {
        return false;
    }
    while (*rest == ':') {
        size_t count = strspn(++rest, digits);
        if (count == 0 || count > 2) {
            return false;
        }
        rest += count;
    }
    return *rest == '\0' || (*rest == '.' && rest[1 + strspn(rest + 1, "0123456789_")] == '\0');
}

static bool
looks_date(const char *text)
{
    size_t year = strspn(text, digits);
    if (year != 4 || text[4] != '-') {
        return false;
    }
    size_t month = strspn(text + 5, digits);
    return (month == 1 || month == 2) && text[5 + month] == '-' &&
           strspn(text + 6 + month, digits) >= 1;
}

const char *
scalar_other_reading(const char *text, bool numbers)
{
    static const char *const bools[] = {"yes", "no", "on", "off", "true", "false", NULL};
    static const char *const nulls[] = {"null", "~", NULL};
    static const char *const reals[] = {".inf", "-.inf", "+.inf", ".nan", NULL};
    const char *bare = text + (*text == '-' || *text == '+');
    if (!strchr("yYnNoOtTfF~.+-0123456789=<", *text)) { /* how all of them begin */
        return NULL;
    }
    if (strcmp(text, "=") == 0 || strcmp(text, "<<") == 0) {
        return "an instruction";
    }
    if (is_word(text, bools)) {
        return "a bool";
    }
    if (is_word(text, nulls)) {
        return "nothing";
    }
    if (bare[0] == '0' && bare[1] && bare[strspn(bare, "0123456789_")] == '\0') {
        return "an octal number";
    }
    if (looks_base_60(text)) {
        return "a number to base 60";
    }
    if (looks_date(text)) {
        return "a date";
    }
    if (bare[0] == '0' && bare[1] == 'b' && bare[2] && bare[2 + strspn(bare + 2, "01_")] == '\0') {
        return "a binary number";
    }
    bool underscores = strchr(bare, '_') && bare[0] >= '0' && bare[0] <= '9' &&
                       bare[strspn(bare, "0123456789_.")] == '\0';
    if (underscores || is_word(text, reals) || (*text == '+' && scalar_looks_real(bare))) {
        return "a number";
    }
    return numbers && (scalar_looks_int(text) || scalar_looks_real(text)) ? "a number" : NULL;
}

/* ---- readings -------------------------------------------------------------------------------- */

static bool
wants(faults *f, const char *id, context of, const node *n, const char *what, const char *wanted)
{
    if (n->kind == NODE_BAD) {
        return false;
    }
    if (n->kind != NODE_SCALAR || node_is_null(n)) {
        return fault(
            f, id, n->where, of, "`%s` must be %s, this is %s", what, wanted, node_describe(n));
    }
    const char *quoted = n->quoted ? ", and unquoted" : "";
    return fault(f, id, n->where, of, "`%s` must be %s%s, not `%s`", what, wanted, quoted, n->text);
}

bool
scalar_int(
    faults *f, context of, const node *n, const char *what, int64_t least, int64_t most,
    int64_t *value)
{
    if (n->kind != NODE_SCALAR || n->quoted || !scalar_looks_int(n->text)) {
        return wants(f, "not-an-int", of, n, what, "a whole number (12, -3, 0x1f; no leading 0)");
    }
    errno = 0;
    long long read = strtoll(n->text, NULL, strpbrk(n->text, "xX") ? 16 : 10);
    if (errno == ERANGE || read < least || read > most) {
        return fault(
            f, "number-range", n->where, of, "`%s` must be within %lld and %lld, not %s", what,
            (long long)least, (long long)most, n->text);
    }
    *value = read;
    return true;
}

bool
scalar_real(faults *f, context of, const node *n, const char *what, double *value)
{
    static const char *const endless[] = {".inf", "-.inf",    "+.inf",     ".nan", "inf",  "-inf",
                                          "+inf", "infinity", "-infinity", "nan",  "-nan", NULL};
    if (n->kind == NODE_SCALAR && !n->quoted && is_word(n->text, endless)) {
        return fault(f, "not-finite", n->where, of, "`%s` must be finite, not %s", what, n->text);
    }
    if (n->kind != NODE_SCALAR || n->quoted || !scalar_looks_real(n->text)) {
        return wants(f, "not-a-number", of, n, what, "a number (1, -0.5, 1e-5)");
    }
    double read = strtod(n->text, NULL);
    if (!isfinite(read)) {
        return fault(
            f, "not-finite", n->where, of, "`%s` is too large for a double: %s", what, n->text);
    }
    *value = read;
    return true;
}

bool
scalar_bool(faults *f, context of, const node *n, const char *what, bool *value)
{
    bool yes = n->kind == NODE_SCALAR && !n->quoted && strcmp(n->text, "true") == 0;
    bool no = n->kind == NODE_SCALAR && !n->quoted && strcmp(n->text, "false") == 0;
    if (!yes && !no) {
        return wants(f, "not-a-bool", of, n, what, "true or false");
    }
    *value = yes;
    return true;
}

bool
scalar_text(faults *f, context of, const node *n, const char *what, bool numbers)
{
    if (n->kind == NODE_BAD) {
        return false;
    }
    if (n->kind != NODE_SCALAR) {
        return fault(
            f, "wrong-kind", n->where, of, "`%s` must be text, this is %s", what, node_describe(n));
    }
    if (n->size == 0) {
        return fault(f, "empty-value", n->where, of, "`%s` has no value", what);
    }
    const char *other = n->quoted ? NULL : scalar_other_reading(n->text, numbers);
    if (other) {
        return fault(
            f, "ambiguous", n->where, of, "`%s` reads as %s in YAML 1.1: quote it", n->text, other);
    }
    return true;
}

bool
scalar_key(faults *f, context of, const pair *p)
{
    const char *other = p->quoted ? NULL : scalar_other_reading(p->key, true);
    if (*p->key == '\0') {
        return fault(f, "empty-value", p->where, of, "a key has no text");
    }
    if (other) {
        return fault(
            f, "ambiguous", p->where, of, "key `%s` reads as %s in YAML 1.1: quote it", p->key,
            other);
    }
    return true;
}
