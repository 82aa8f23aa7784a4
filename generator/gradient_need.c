/* What a gradient needs and why: a value, an intermediate or an out of it is needed where it stands
   in the tree of an entry that is, under the conditions on the way to it. */
#include "gradient_python.h"

#include <string.h>

#include "expression_parse.h"
#include "python_line.h"

/* A condition on the way to a place in a tree. */
typedef struct branch {
    const expr *test;
    bool holds;
} branch;

/* Why something is needed: one text a reason, each a conjunction; together they are an "or". */
typedef struct reasons {
    buffer text; /* each ended by a NUL */
    int count;
} reasons;

/* Whether this node of a tree, which stands for a shape alone if `like`, is what is searched. */
static bool
is_target(const gradient_writer *w, const grad *g, const gradient_target *of, bool like)
{
    if (g->kind == GRAD_PARAM) {
        return g->index == of->param && !like;
    }
    bool out = g->kind == GRAD_OUT_OF && g->args[0]->kind == GRAD_NAME;
    const grad *name = out ? g->args[0] : g;
    if (name->kind != GRAD_NAME || of->entry < 0 || gradient_root_of(w, name->index) != of->entry) {
        return false;
    }
    const op *callee = gradient_outs_of(w, of->entry);
    int wanted = out ? g->index - callee->inputs : callee ? gradient_only_out(callee) : 0;
    return of->out < 0 || of->out == wanted;
}

void
gradient_emit_need(gradient_writer *w, buffer *out, int entry)
{
    w->asked[entry] = true;
    buffer_puts3(out, "_need_", gradient_entry_at(w, entry)->name, "");
}

void
gradient_emit_test(const gradient_writer *w, buffer *out, const expr *test, int binding)
{
    expr_emit_python_as(out, w->row, test, EXPR_OF_GRADIENTS, binding);
}

static bool
has_reason(const reasons *r, const char *text)
{
    const char *at = r->text.data;
    for (int i = 0; i < r->count; i++, at += strlen(at) + 1) {
        if (strcmp(at, text) == 0) {
            return true;
        }
    }
    return false;
}

/* Whether the test compares an attribute with a word. */
static bool
says_word(const expr *test)
{
    return test->kind == EXPR_EQ && test->args[0]->kind == EXPR_ATTR &&
           test->args[1]->kind == EXPR_WORD;
}

/* That an attribute is not one word need not be said where it is another. */
static bool
is_said(const branch *path, int depth, int at)
{
    for (int i = 0; !path[at].holds && says_word(path[at].test) && i < depth; i++) {
        if (path[i].holds && says_word(path[i].test) &&
            path[i].test->args[0]->index == path[at].test->args[0]->index) {
            return true;
        }
    }
    return false;
}

static void
emit_branch(const gradient_writer *w, buffer *out, branch at)
{
    expr equal = *at.test;
    equal.kind = equal.kind == EXPR_EQ ? EXPR_NE : EXPR_EQ;
    bool compares = at.test->kind == EXPR_EQ || at.test->kind == EXPR_NE;
    const expr negated = {.kind = EXPR_NOT, .type = TYPE_BOOL, .args = (expr *[]){&equal}};
    equal.kind = compares ? equal.kind : at.test->kind;
    gradient_emit_test(
        w, out,
        at.holds   ? at.test
        : compares ? &equal
                   : &negated,
        expr_binding(EXPR_NOT));
}

static void
reason_add(gradient_writer *w, reasons *r, int entry, const branch *path, int depth)
{
    buffer one = {0};
    gradient_emit_need(w, &one, entry);
    for (int i = 0; i < depth; i++) {
        if (!is_said(path, depth, i)) {
            buffer_puts(&one, " and ");
            emit_branch(w, &one, path[i]);
        }
    }
    if (!has_reason(r, buffer_text(&one))) {
        buffer_add(&r->text, buffer_text(&one), one.size + 1);
        r->count++;
    }
    buffer_finish(&one);
}

/* Goes through the tree of an entry. Places behind a condition count only if `forked`. */
static void
search(
    gradient_writer *w, reasons *r, const gradient_target *of, int entry, const grad *g, bool like,
    branch *path, int depth, bool forked)
{
    if (is_target(w, g, of, like)) {
        if (forked == (depth > 0)) {
            reason_add(w, r, entry, path, depth);
        }
        return;
    }
    if (g->kind == GRAD_OUT_OF && g->args[0]->kind == GRAD_NAME) {
        return;
    }
    for (int i = 0; i < g->count; i++) {
        int deep = depth;
        if (g->kind == GRAD_IF && depth < GRADIENT_MOST) {
            path[deep++] = (branch){g->test, i == 0};
        }
        if (g->args[i]) {
            search(w, r, of, entry, g->args[i], gradient_is_like(g, i), path, deep, forked);
        }
    }
    for (int i = 0; i < g->attr_count; i++) {
        if (g->attrs[i]) {
            search(w, r, of, entry, g->attrs[i], false, path, depth, forked);
        }
    }
}

static reasons
reasons_of(gradient_writer *w, gradient_target of)
{
    reasons r = {0};
    for (int forked = 0; forked < 2; forked++) {
        for (int i = 0; i < w->row->grads.count; i++) {
            branch path[GRADIENT_MOST];
            if (gradient_root_of(w, i) == i && i != of.entry) {
                search(w, &r, &of, i, gradient_entry_at(w, i)->value, false, path, 0, forked == 1);
            }
        }
    }
    return r;
}

void
gradient_emit_reasons(gradient_writer *w, buffer *out, gradient_target of, bool inside)
{
    reasons r = reasons_of(w, of);
    const char *at = r.text.data;
    buffer_puts(out, r.count ? "" : "False");
    buffer_puts(out, inside && r.count > 1 ? "(" : "");
    for (int i = 0; i < r.count; i++, at += strlen(at) + 1) {
        bool both = r.count > 1 && strstr(at, " and ");
        buffer_print(out, "%s%s%s%s", i ? " or " : "", both ? "(" : "", at, both ? ")" : "");
    }
    buffer_puts(out, inside && r.count > 1 ? ")" : "");
    buffer_finish(&r.text);
}

/* ---- the lines ------------------------------------------------------------------------------- */

/* "_need_a, _need_b = _e.needs(_need, a, b)" */
static void
emit_unpacked(gradient_writer *w)
{
    size_t start = python_line_begin(w->out, PYTHON_INDENT);
    bool one = w->row->inputs == 1;
    buffer_puts(w->out, one ? "(" : "");
    for (int i = 0; i < w->row->inputs; i++) {
        int entry = gradient_entry_of(w, i);
        bool used = entry >= 0 && w->asked[entry];
        const char *name = used ? w->row->params.items[i].name : "";
        buffer_puts3(w->out, i ? ", " : "", used ? "_need_" : "_", name);
    }
    buffer_puts(w->out, one ? ",) = _e.needs(_need" : " = _e.needs(_need");
    for (int i = 0; i < w->row->inputs; i++) {
        buffer_puts3(w->out, ", ", w->row->params.items[i].name, "");
    }
    buffer_putc(w->out, ')');
    python_line_end(w->out, start);
}

static bool
is_asked_step(const gradient_writer *w, int entry)
{
    return w->asked[entry] && gradient_entry_at(w, entry)->param < 0;
}

/* Of intermediates too, the last first: those before it are needed for it. */
void
gradient_emit_needs(gradient_writer *w)
{
    int count = w->row->grads.count;
    for (int i = 0; i < count; i++) { /* who needs it is asked for too */
        if (is_asked_step(w, i)) {
            reasons r = reasons_of(w, (gradient_target){-1, i, -1});
            buffer_finish(&r.text);
        }
    }
    emit_unpacked(w);
    for (int i = count - 1; i >= 0; i--) {
        if (is_asked_step(w, i)) {
            size_t start = python_line_begin(w->out, PYTHON_INDENT);
            buffer_print(w->out, "_need_%s = ", gradient_entry_at(w, i)->name);
            gradient_emit_reasons(w, w->out, (gradient_target){-1, i, -1}, false);
            python_line_end(w->out, start);
        }
    }
}
