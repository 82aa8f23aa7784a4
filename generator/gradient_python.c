/* A row's gradients as two functions of Python: which values they read, and their computation. Each
   step of it is a line, under the condition that something asked for needs it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "expression_parse.h"
#include "grad_parse.h"
#include "names.h"
#include "python.h"
#include "python_line.h"

enum { MOST = 64 }; /* entries, parameters, attributes, nested conditions */

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

typedef struct writer {
    buffer *out;
    const table *t;
    const op *row;
    bool *asked; /* by entry: some text names its need */
    int steps;   /* unnamed results so far */
} writer;

/* ---- the entries ---------------------------------------------------------------------------- */

static const grad_entry *
entry_at(const writer *w, int index)
{
    return &w->row->grads.items[index];
}

/* The op whose outs an entry has, NULL: it is a tensor. */
static const op *
outs_of(const writer *w, int entry)
{
    const grad *g = entry_at(w, entry)->value;
    return g->kind == GRAD_CALL && entry_at(w, entry)->param < 0 ? &w->t->ops.items[g->op_index]
                                                                 : NULL;
}

/* An intermediate that is but another name of one before it stands for that. */
static int
root_of(const writer *w, int entry)
{
    while (entry_at(w, entry)->param < 0 && entry_at(w, entry)->value->kind == GRAD_NAME) {
        entry = entry_at(w, entry)->value->index;
    }
    return entry;
}

/* The out that a call stands for where one tensor is wanted: its only one, its required one. */
static int
only_out(const op *callee)
{
    for (int i = 0; i < callee->outs; i++) {
        if (callee->outs == 1 || !callee->params.items[callee->inputs + i].optional) {
            return i;
        }
    }
    return 0;
}

static int
required_outs(const op *row)
{
    int count = 0;
    for (int i = 0; i < row->outs; i++) {
        count += !row->params.items[row->inputs + i].optional;
    }
    return count;
}

static bool
is_like(const grad *g, int operand)
{
    const grad_fixed *f = g->kind == GRAD_FIXED && operand > 0 ? grad_fixed_find(g->name) : NULL;
    return f && (f->takes[operand] == 'l' || f->takes[operand] == 'L');
}

/* ---- what is needed, and why ----------------------------------------------------------------- */

/* What a tree is searched for: the value of a parameter; an intermediate, or one out of it. */
typedef struct target {
    int param, entry, out; /* -1: not asked for */
} target;

/* Whether this node of a tree, which stands for a shape alone if `like`, is what is searched. */
static bool
is_target(const writer *w, const grad *g, const target *of, bool like)
{
    if (g->kind == GRAD_PARAM) {
        return g->index == of->param && !like;
    }
    bool out = g->kind == GRAD_OUT_OF && g->args[0]->kind == GRAD_NAME;
    const grad *name = out ? g->args[0] : g;
    if (name->kind != GRAD_NAME || of->entry < 0 || root_of(w, name->index) != of->entry) {
        return false;
    }
    const op *callee = outs_of(w, of->entry);
    int wanted = out ? g->index - callee->inputs : callee ? only_out(callee) : 0;
    return of->out < 0 || of->out == wanted;
}

static void
emit_need(writer *w, buffer *out, int entry)
{
    w->asked[entry] = true;
    buffer_puts3(out, "_need_", entry_at(w, entry)->name, "");
}

static void
emit_test(const writer *w, buffer *out, const expr *test, int binding)
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
emit_branch(const writer *w, buffer *out, branch at)
{
    expr equal = *at.test;
    equal.kind = equal.kind == EXPR_EQ ? EXPR_NE : EXPR_EQ;
    bool compares = at.test->kind == EXPR_EQ || at.test->kind == EXPR_NE;
    const expr negated = {.kind = EXPR_NOT, .type = TYPE_BOOL, .args = (expr *[]){&equal}};
    equal.kind = compares ? equal.kind : at.test->kind;
    emit_test(w, out, at.holds ? at.test : compares ? &equal : &negated, expr_binding(EXPR_NOT));
}

static void
reason_add(writer *w, reasons *r, int entry, const branch *path, int depth)
{
    buffer one = {0};
    emit_need(w, &one, entry);
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
    writer *w, reasons *r, const target *of, int entry, const grad *g, bool like, branch *path,
    int depth, bool forked)
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
        if (g->kind == GRAD_IF && depth < MOST) {
            path[deep++] = (branch){g->test, i == 0};
        }
        if (g->args[i]) {
            search(w, r, of, entry, g->args[i], is_like(g, i), path, deep, forked);
        }
    }
    for (int i = 0; i < g->attr_count; i++) {
        if (g->attrs[i]) {
            search(w, r, of, entry, g->attrs[i], false, path, depth, forked);
        }
    }
}

static bool *
asked_create(const op *row)
{
    buffer flags = {0};
    buffer_reserve(&flags, (size_t)row->grads.count + 1);
    memset(flags.data, 0, (size_t)row->grads.count + 1);
    return (bool *)flags.data;
}

static reasons
reasons_of(writer *w, target of)
{
    reasons r = {0};
    for (int forked = 0; forked < 2; forked++) {
        for (int i = 0; i < w->row->grads.count; i++) {
            branch path[MOST];
            if (root_of(w, i) == i && i != of.entry) {
                search(w, &r, &of, i, entry_at(w, i)->value, false, path, 0, forked == 1);
            }
        }
    }
    return r;
}

/* "_need_a or (_need_gz and act == "gelu")"; "False" without a reason. `inside`: a conjunction. */
static void
emit_reasons(buffer *out, const reasons *r, bool inside)
{
    const char *at = r->text.data;
    buffer_puts(out, r->count ? "" : "False");
    buffer_puts(out, inside && r->count > 1 ? "(" : "");
    for (int i = 0; i < r->count; i++, at += strlen(at) + 1) {
        bool both = r->count > 1 && strstr(at, " and ");
        buffer_print(out, "%s%s%s%s", i ? " or " : "", both ? "(" : "", at, both ? ")" : "");
    }
    buffer_puts(out, inside && r->count > 1 ? ")" : "");
}

/* ---- the lines about needs ------------------------------------------------------------------- */

static int
entry_of_param(const writer *w, int param)
{
    for (int i = 0; i < w->row->grads.count; i++) {
        if (entry_at(w, i)->param == param) {
            return i;
        }
    }
    return -1;
}

/* "_need_a, _need_b = _e.needs(_need, a, b)" */
static void
emit_unpacked(writer *w)
{
    size_t start = python_line_begin(w->out, PYTHON_INDENT);
    bool one = w->row->inputs == 1;
    buffer_puts(w->out, one ? "(" : "");
    for (int i = 0; i < w->row->inputs; i++) {
        int entry = entry_of_param(w, i);
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
is_asked_step(const writer *w, int entry)
{
    return w->asked[entry] && entry_at(w, entry)->param < 0;
}

/* Of intermediates too, the last first: those before it are needed for it. */
static void
emit_needs(writer *w)
{
    int count = w->row->grads.count;
    for (int i = 0; i < count; i++) { /* who needs it is asked for too */
        if (is_asked_step(w, i)) {
            reasons r = reasons_of(w, (target){-1, i, -1});
            buffer_finish(&r.text);
        }
    }
    emit_unpacked(w);
    for (int i = count - 1; i >= 0; i--) {
        if (is_asked_step(w, i)) {
            reasons r = reasons_of(w, (target){-1, i, -1});
            size_t start = python_line_begin(w->out, PYTHON_INDENT);
            buffer_print(w->out, "_need_%s = ", entry_at(w, i)->name);
            emit_reasons(w->out, &r, false);
            python_line_end(w->out, start);
            buffer_finish(&r.text);
        }
    }
}

/* ---- what is saved --------------------------------------------------------------------------- */

static bool
saves_tensors(const op *row)
{
    bool any = false;
    for (int i = 0; i < row->inputs + row->outs; i++) {
        any = any || row->saves >> i & 1;
    }
    return any;
}

void
gradient_emit_saved_body(buffer *out, const table *t, const op *row)
{
    if (!saves_tensors(row)) {
        buffer_puts(out, "    return ()\n");
        return;
    }
    buffer body = {0};
    writer w = {.out = out, .t = t, .row = row, .asked = asked_create(row)};
    bool first = true;
    size_t start = python_line_begin(&body, PYTHON_INDENT);
    buffer_puts(&body, "return _e.names(");
    for (int i = 0; i < row->inputs + row->outs; i++) {
        const param *p = &row->params.items[i];
        if (!(row->saves >> i & 1)) {
            continue;
        }
        reasons r = reasons_of(&w, (target){i, -1, -1});
        bool absent = p->optional && p->role != ROLE_OUT;
        buffer_print(&body, "%s%s=", first ? "" : ", ", p->name);
        buffer_puts(&body, absent ? p->name : "");
        buffer_puts(&body, absent ? " is not None and " : "");
        emit_reasons(&body, &r, absent);
        buffer_finish(&r.text);
        first = false;
    }
    buffer_putc(&body, ')');
    python_line_end(&body, start);
    emit_needs(&w);
    buffer_add(out, body.data, body.size);
    buffer_finish(&body);
    free(w.asked);
}

/* ---- dims and axes, of tensors that have a shape at least ------------------------------------ */

/* What the expressions of a row's gradients name, a bit each. */
typedef struct facts {
    uint64_t dims, attrs, types;
} facts;

static void
find_in_expr(facts *f, const expr *e)
{
    uint64_t bit = e->index >= 0 && e->index < MOST ? UINT64_C(1) << e->index : 0;
    f->dims |= e->kind == EXPR_DIM || e->kind == EXPR_PACK ? bit : 0;
    f->attrs |= e->kind == EXPR_ATTR ? bit : 0;
    f->types |= e->kind == EXPR_TYPEVAR ? bit : 0;
    for (int i = 0; i < e->count; i++) {
        find_in_expr(f, e->args[i]);
    }
}

static void
find_in_grad(facts *f, const grad *g)
{
    if (g->value) {
        find_in_expr(f, g->value);
    }
    if (g->test) {
        find_in_expr(f, g->test);
    }
    if (g->dtype && g->dtype->kind == DTYPE_VAR) {
        f->types |= UINT64_C(1) << g->dtype->var;
    }
    for (int i = 0; i < g->count; i++) {
        if (g->args[i]) {
            find_in_grad(f, g->args[i]);
        }
    }
    for (int i = 0; i < g->attr_count; i++) {
        if (g->attrs[i]) {
            find_in_grad(f, g->attrs[i]);
        }
    }
}

static void
find_in_shape(facts *f, const shape *s)
{
    for (int i = 0; i < s->items.count; i++) {
        const item *it = &s->items.items[i];
        f->attrs |= it->kind == ITEM_AXIS ? UINT64_C(1) << it->axis : 0;
    }
}

/* What a let has which is named is named, and the axes of shapes that dims are taken from. */
static facts
facts_of(const op *row)
{
    facts f = {0};
    for (int i = 0; i < row->grads.count; i++) {
        find_in_grad(&f, row->grads.items[i].value);
    }
    for (int d = row->dims.count - 1; d >= 0; d--) {
        if (f.dims >> d & 1 && row->dims.items[d].value) {
            find_in_expr(&f, row->dims.items[d].value);
        }
    }
    for (int i = 0; f.dims && i < row->inputs; i++) {
        find_in_shape(&f, &row->params.items[i].shape);
    }
    return f;
}

/* Where an item of an argument begins or ends among its dims: so many after the front, after an
   axis, or before the end. */
typedef struct spot {
    enum { FROM_FRONT, FROM_AXIS, FROM_END } from;
    int axis; /* attribute */
    int steps;
    bool told;
} spot;

/* Going left from item `i`: over items of one dim each to the front or an axis. */
static spot
spot_from_left(const shape *s, int i)
{
    spot p = {.from = FROM_FRONT, .told = true};
    for (int k = i - 1; k >= 0; k--) {
        const item *it = &s->items.items[k];
        p.steps++;
        if (it->kind == ITEM_AXIS) {
            return (spot){FROM_AXIS, it->axis, p.steps, true};
        }
        if (it->kind != ITEM_DIM && it->kind != ITEM_VALUE) {
            return (spot){0};
        }
    }
    return p;
}

/* Going right likewise, to the end or an axis; the spot behind item `i`. */
static spot
spot_from_right(const shape *s, int i)
{
    spot p = {.from = FROM_END, .told = true};
    for (int k = i + 1; k < s->items.count; k++) {
        const item *it = &s->items.items[k];
        if (it->kind == ITEM_AXIS) {
            return (spot){FROM_AXIS, it->axis, p.steps, true};
        }
        p.steps--;
        if (it->kind != ITEM_DIM && it->kind != ITEM_VALUE) {
            return (spot){0};
        }
    }
    return p;
}

static void
emit_spot(buffer *out, const op *row, spot p)
{
    if (p.from != FROM_AXIS) {
        buffer_print(out, "%d", p.steps);
        return;
    }
    buffer_puts(out, row->attrs.items[p.axis].name);
    if (p.steps) {
        buffer_print(out, " %c %d", p.steps < 0 ? '-' : '+', p.steps < 0 ? -p.steps : p.steps);
    }
}

/* What selects the dim among those of an argument: "2", "axis", ":-2"; false if nothing does. */
static bool
emit_selection(buffer *out, const op *row, const shape *s, int dim)
{
    for (int i = 0; i < s->items.count; i++) {
        const item *it = &s->items.items[i];
        bool binds = it->kind == ITEM_DIM || it->kind == ITEM_PACK || it->kind == ITEM_AXIS;
        if (!binds || it->dim != dim) {
            continue;
        }
        spot left = spot_from_left(s, i), right = spot_from_right(s, i);
        if (it->kind == ITEM_AXIS) {
            buffer_puts(out, row->attrs.items[it->axis].name);
            return true;
        }
        if (it->kind == ITEM_DIM && (left.told || right.told)) {
            right.steps--;
            emit_spot(out, row, left.told ? left : right);
            return true;
        }
        if (it->kind == ITEM_PACK && left.told && right.told) {
            bool spaced =
                (left.from == FROM_AXIS && left.steps) || (right.from == FROM_AXIS && right.steps);
            if (left.from != FROM_FRONT || left.steps) {
                emit_spot(out, row, left);
            }
            buffer_puts(out, spaced && left.from != FROM_FRONT ? " :" : ":");
            if (right.from != FROM_END || right.steps) {
                buffer_puts(out, spaced ? " " : "");
                emit_spot(out, row, right);
            }
            return true;
        }
    }
    return false;
}

/* The dim as one argument has it, after the condition that it has; false if it has not. */
static bool
emit_source(buffer *out, const op *row, int dim, int argument, bool *always)
{
    const param *p = &row->params.items[argument];
    buffer selection = {0};
    bool found = emit_selection(&selection, row, &p->shape, dim);
    *always = found && !p->optional && !p->shape.test && p->list < 0;
    if (found && row->dims.items[dim].varies) {
        *always = !p->optional;
        buffer_print(out, "[_x.shape[%s] for _x in %s]", buffer_text(&selection), p->name);
    } else if (found) {
        const char *of = p->list >= 0 ? "[0]" : "";
        buffer_print(out, "%s%s.shape[%s]", p->name, of, buffer_text(&selection));
    }
    if (found && !*always) {
        bool list = p->list >= 0 && !row->dims.items[dim].varies;
        buffer_print(out, list ? " if %s" : " if %s is not None", p->name);
        if (p->shape.test) {
            buffer_puts(out, " and ");
            expr_emit_python_as(out, row, p->shape.test, EXPR_OF_GRADIENTS, 4);
        }
        buffer_puts(out, " else ");
    }
    buffer_finish(&selection);
    return found;
}

static void
emit_dim(writer *w, int dim)
{
    const struct dim *d = &w->row->dims.items[dim];
    size_t start = python_line_begin(w->out, PYTHON_INDENT);
    buffer_print(w->out, "%s = ", d->name);
    size_t value = w->out->size;
    bool always = false;
    for (int i = 0; i < w->row->inputs && !always; i++) { /* one that is always there */
        w->out->size = value;
        always = emit_source(w->out, w->row, dim, i, &always) && always;
    }
    for (int i = 0; i < w->row->inputs && !always; i++) {
        w->out->size = i ? w->out->size : value;
        emit_source(w->out, w->row, dim, i, &always);
    }
    if (!always) {
        buffer_puts(w->out, d->varies ? "()" : d->kind == DIM_PACK ? "None" : "0");
    }
    python_line_end(w->out, start);
}

/* Of a list's length any list of it that is there. */
static void
emit_length(writer *w, int dim)
{
    size_t start = python_line_begin(w->out, PYTHON_INDENT);
    const char *name = w->row->dims.items[dim].name;
    buffer_print(w->out, "%s = _e.count(\"%s\"", name, name);
    for (int i = 0; i < w->row->inputs; i++) {
        if (w->row->params.items[i].list == dim) {
            buffer_print(w->out, ", %s", w->row->params.items[i].name);
        }
    }
    buffer_putc(w->out, ')');
    python_line_end(w->out, start);
}

static void
emit_facts(writer *w)
{
    const op *row = w->row;
    const facts f = facts_of(row);
    for (int i = 0; f.attrs && i < row->attrs.count; i++) {
        if (f.attrs >> i & 1) {
            python_emit_fold(w->out, row, &row->attrs.items[i], true);
        }
    }
    for (int d = 0; f.dims && d < row->dims.count; d++) {
        const struct dim *of = &row->dims.items[d];
        bool used = f.dims >> d & 1;
        if (used && of->kind == DIM_LIST) {
            emit_length(w, d);
        } else if (used && of->kind == DIM_LET) {
            size_t start = python_line_begin(w->out, PYTHON_INDENT);
            buffer_print(w->out, "%s = ", of->name);
            expr_emit_python_as(w->out, row, of->value, EXPR_OF_GRADIENTS, 1);
            python_line_end(w->out, start);
        } else if (used) {
            emit_dim(w, d);
        }
    }
}

/* ---- steps ----------------------------------------------------------------------------------- */

static void assign(writer *w, const char *to, const grad *g, int indent);

/* The gradient that came for an out; where one of several may be absent and is needed, zeros. */
static void
emit_incoming(const writer *w, buffer *out, const grad *g, bool optional)
{
    const char *name = w->row->params.items[g->index].name;
    if (required_outs(w->row) == 1) {
        buffer_puts(out, "_g");
    } else if (optional) {
        buffer_print(out, "_g_%s", name);
    } else {
        buffer_print(out, "_f.zeros(%s) if _g_%s is None else _g_%s", name, name, name);
    }
}

static void
emit_name(const writer *w, buffer *out, int entry, int of_out)
{
    int root = root_of(w, entry);
    const op *callee = outs_of(w, root);
    buffer_puts(out, entry_at(w, root)->name);
    if (callee && callee->outs > 1) {
        buffer_print(out, "[%d]", of_out >= 0 ? of_out : only_out(callee));
    }
}

/* What needs no step of its own; false if it does. */
static bool
emit_simple(const writer *w, buffer *out, const grad *g, bool optional)
{
    switch (g->kind) {
    case GRAD_NONE: buffer_puts(out, "None"); return true;
    case GRAD_PARAM: buffer_puts(out, g->name); return true;
    case GRAD_G: emit_incoming(w, out, g, optional); return true;
    case GRAD_NAME: emit_name(w, out, g->index, -1); return true;
    case GRAD_VALUE: expr_emit_python_as(out, w->row, g->value, EXPR_OF_GRADIENTS, 1); return true;
    case GRAD_OUT_OF:
        if (g->args[0]->kind != GRAD_NAME) {
            return false;
        }
        emit_name(w, out, g->args[0]->index, g->index - w->t->ops.items[g->op_index].inputs);
        return true;
    case GRAD_FIXED:
        if (strcmp(g->name, "inverse") == 0) {
            buffer_puts(out, "_e.inverse(");
            emit_simple(w, out, g->args[0], false);
            buffer_putc(out, ')');
            return true;
        }
        return false;
    case GRAD_CALL:
    case GRAD_IF: return false;
    }
    return false;
}

static bool
is_turned(const grad *g)
{
    return g->kind == GRAD_FIXED && g->name[0] == 't'; /* no other function begins so */
}

/* Whether it is written where it is used: a name, or t() of one. */
static bool
is_simple(const grad *g)
{
    bool call = g->kind == GRAD_CALL || g->kind == GRAD_IF;
    bool turned = is_turned(g) && is_simple(g->args[0]);
    bool inverse = g->kind == GRAD_FIXED && g->name[0] == 'i';
    bool out = g->kind == GRAD_OUT_OF && g->args[0]->kind == GRAD_CALL;
    return !call && !out && (g->kind != GRAD_FIXED || turned || inverse);
}

/* What is no name is computed before. `first`: the number of the first such step; the operand that
   comes next is the next one. */
static int
emit_steps(writer *w, const grad *g, int count, int indent)
{
    int first = w->steps + 1;
    for (int i = 0; i < count; i++) {
        w->steps += g->args[i] && !is_simple(g->args[i]);
    }
    for (int i = 0, step = first; i < count; i++) {
        if (g->args[i] && !is_simple(g->args[i])) {
            char name[16] = "_";
            snprintf(name + 1, sizeof name - 1, "%d", step++);
            assign(w, name, g->args[i], indent);
        }
    }
    return first;
}

static void
emit_operand(writer *w, const grad *g, bool optional, int *step)
{
    if (!is_simple(g)) {
        buffer_print(w->out, "_%d", (*step)++);
    } else if (is_turned(g)) {
        buffer_puts(w->out, "_f.t(");
        emit_operand(w, g->args[0], false, step);
        buffer_putc(w->out, ')');
    } else {
        emit_simple(w, w->out, g, optional);
    }
}

/* Of a call of an op with several outs which of them are wanted; -1: those that others need. */
static void
emit_wanted(writer *w, const op *callee, int entry, int only)
{
    buffer_puts(w->out, ", want=(");
    for (int i = 0; i < callee->outs; i++) {
        buffer_puts(w->out, i ? ", " : "");
        if (only >= 0) {
            buffer_puts(w->out, i == only ? "True" : "False");
        } else {
            reasons r = reasons_of(w, (target){-1, entry, i});
            emit_reasons(w->out, &r, false);
            buffer_finish(&r.text);
        }
    }
    buffer_putc(w->out, ')');
}

/* A call of a row. `entry`: it is this intermediate; -1: its out `only` is the value. */
static void
emit_call(writer *w, const grad *g, int entry, int only, int step)
{
    const op *callee = &w->t->ops.items[g->op_index];
    buffer_puts3(w->out, "_f.", callee->name, "(");
    for (int i = 0; i < callee->inputs; i++) {
        buffer_puts(w->out, i ? ", " : "");
        if (g->args[i]) {
            emit_operand(w, g->args[i], callee->params.items[i].optional, &step);
        } else {
            buffer_puts(w->out, "None");
        }
    }
    for (int i = 0; i < g->attr_count; i++) {
        if (g->attrs[i]) {
            buffer_puts3(w->out, ", ", callee->attrs.items[i].name, "=");
            emit_simple(w, w->out, g->attrs[i], false);
        }
    }
    if (g->dtype) {
        const char *quote = g->dtype->kind == DTYPE_FIXED ? "\"" : "";
        buffer_print(w->out, ", dtype=%s%s%s", quote, g->dtype->text, quote);
    }
    if (callee->outs > 1) {
        emit_wanted(w, callee, entry, entry >= 0 ? -1 : only);
    }
    buffer_putc(w->out, ')');
    if (callee->outs > 1 && entry < 0) {
        buffer_print(w->out, "[%d]", only);
    }
}

static void
emit_fixed(writer *w, const grad *g, int step)
{
    buffer_puts3(w->out, "_f.", g->name, "(");
    for (int i = 0; i < g->count; i++) {
        buffer_puts(w->out, i ? ", " : "");
        emit_operand(w, g->args[i], is_like(g, i), &step);
    }
    buffer_putc(w->out, ')');
}

/* One value, after the steps to it. */
static void
assign_step(writer *w, const char *to, const grad *g, int entry, int indent)
{
    bool out = g->kind == GRAD_OUT_OF && g->args[0]->kind == GRAD_CALL;
    const grad *call = out ? g->args[0] : g;
    const op *callee = call->kind == GRAD_CALL ? &w->t->ops.items[call->op_index] : NULL;
    int only = out ? g->index - callee->inputs : callee ? only_out(callee) : 0;
    int step = is_simple(g) ? 0 : emit_steps(w, call, callee ? callee->inputs : g->count, indent);
    size_t start = python_line_begin(w->out, indent);
    buffer_puts3(w->out, to, " = ", "");
    if (callee) {
        emit_call(w, call, entry, only, step);
    } else if (g->kind == GRAD_FIXED && !is_simple(g)) {
        emit_fixed(w, g, step);
    } else {
        emit_operand(w, g, entry < 0, &step);
    }
    python_line_end(w->out, start);
}

static void
emit_fork(writer *w, const char *word, const expr *test, int indent)
{
    size_t start = python_line_begin(w->out, indent);
    buffer_print(w->out, "%s ", word);
    emit_test(w, w->out, test, 1);
    buffer_putc(w->out, ':');
    python_line_end(w->out, start);
}

static void
assign(writer *w, const char *to, const grad *g, int indent)
{
    const char *word = "if";
    for (; g->kind == GRAD_IF; g = g->args[1], word = "elif") {
        emit_fork(w, word, g->test, indent);
        assign(w, to, g->args[0], indent + PYTHON_INDENT);
    }
    if (*word == 'e') {
        python_line(w->out, indent, "else:");
        indent += PYTHON_INDENT;
    }
    assign_step(w, to, g, -1, indent);
}

/* Whether it is more than one call of what has a name. */
static bool
takes_steps(const grad *g)
{
    bool several = g->kind == GRAD_IF;
    for (int i = 0; !several && i < g->count; i++) {
        several = g->args[i] && !is_simple(g->args[i]);
    }
    return several;
}

/* What takes several steps stands above them as the row says it. */
static void
emit_comment(writer *w, const grad_entry *e)
{
    size_t start = python_line_begin(w->out, PYTHON_INDENT);
    buffer_print(w->out, "# %s: ", e->name);
    grad_emit_text(w->out, w->t, w->row, e->value);
    if (w->out->size - start > PYTHON_COLUMNS) {
        w->out->size = start;
    } else {
        buffer_putc(w->out, '\n');
    }
}

/* An entry: an intermediate by its name, the gradient of `a` as `_da`. */
static void
emit_entry(writer *w, int index)
{
    const grad_entry *e = entry_at(w, index);
    if (!w->asked[index]) {
        return;
    }
    if (takes_steps(e->value)) {
        emit_comment(w, e);
    }
    size_t start = python_line_begin(w->out, PYTHON_INDENT);
    buffer_puts(w->out, "if ");
    emit_need(w, w->out, index);
    buffer_putc(w->out, ':');
    python_line_end(w->out, start);
    if (outs_of(w, index)) {
        assign_step(w, e->name, e->value, index, 2 * PYTHON_INDENT);
        return;
    }
    char name[NAME_LENGTH + 4];
    snprintf(name, sizeof name, "%s%s", e->param < 0 ? "" : "_d", e->name);
    assign(w, name, e->value, 2 * PYTHON_INDENT);
}

/* ---- the function ---------------------------------------------------------------------------- */

static bool
has_gradient(const writer *w, int param)
{
    int entry = entry_of_param(w, param);
    return entry >= 0 && entry_at(w, entry)->value->kind != GRAD_NONE;
}

/* "_g_out, _g_hn = _g" */
static void
emit_incoming_all(writer *w)
{
    const param *outs = w->row->params.items + w->row->inputs;
    if (required_outs(w->row) < 2) {
        return;
    }
    bool first = true;
    size_t start = python_line_begin(w->out, PYTHON_INDENT);
    for (int i = 0; i < w->row->outs; i++) {
        if (!outs[i].optional) {
            buffer_print(w->out, "%s_g_%s", first ? "" : ", ", outs[i].name);
            first = false;
        }
    }
    buffer_puts(w->out, " = _g");
    python_line_end(w->out, start);
}

static void
emit_results(writer *w, bool start_them)
{
    size_t start = python_line_begin(w->out, PYTHON_INDENT);
    bool any = false;
    buffer_puts(w->out, start_them ? "" : "return (");
    for (int i = 0; i < w->row->inputs; i++) {
        bool has = has_gradient(w, i);
        const char *name = w->row->params.items[i].name;
        any = any || has;
        if (start_them) {
            buffer_puts3(w->out, has ? "_d" : "", has ? name : "", has ? " = " : "");
        } else {
            buffer_puts3(w->out, i ? ", " : "", has ? "_d" : "None", has ? name : "");
        }
    }
    if (start_them && !any) {
        w->out->size = start;
        return;
    }
    buffer_puts(w->out, start_them ? "None" : w->row->inputs == 1 ? ",)" : ")");
    python_line_end(w->out, start);
}

void
gradient_emit_backward_body(buffer *out, const table *t, const op *row)
{
    writer w = {.out = out, .t = t, .row = row, .asked = asked_create(row)};
    bool any = false;
    for (int i = 0; i < row->grads.count; i++) {
        const grad_entry *e = &row->grads.items[i];
        w.asked[i] = root_of(&w, i) == i && e->value->kind != GRAD_NONE;
        any = any || (w.asked[i] && e->param >= 0);
    }
    if (any) {
        emit_needs(&w);
        emit_incoming_all(&w);
        emit_facts(&w);
        emit_results(&w, true);
        for (int i = 0; i < row->grads.count; i++) {
            emit_entry(&w, i);
        }
    }
    emit_results(&w, false);
    free(w.asked);
}

void
gradient_emit_saved_signature(buffer *out, const op *row)
{
    size_t start = out->size;
    buffer_puts3(out, "def _", row->name, "_saved(_need: _e.Needs");
    for (int i = 0; i < row->inputs; i++) {
        buffer_puts3(out, ", ", row->params.items[i].name, ": Any");
    }
    python_emit_attributes(out, row, false);
    buffer_puts(out, ") -> _e.Names:");
    python_line_end(out, start);
}

/* Scalars come with the attributes, in their order; then the type variables that a call names. */
void
gradient_emit_backward_signature(buffer *out, const op *row)
{
    size_t start = out->size;
    buffer_puts3(out, "def _", row->name, "_backward(_f: Any, _need: _e.Needs, _g: Any");
    for (int i = 0; i < row->inputs + row->outs; i++) {
        buffer_puts3(out, ", ", row->params.items[i].name, ": Any");
    }
    bool keywords = python_emit_attributes(out, row, true);
    const facts f = facts_of(row);
    for (int i = 0; f.types && i < row->types.count; i++) {
        if (f.types >> i & 1) {
            buffer_print(out, "%s%s: str", keywords ? ", " : ", *, ", row->types.items[i].name);
            keywords = true;
        }
    }
    buffer_puts(out, ") -> _e.Gradients:");
    python_line_end(out, start);
}
