/* The entries of a row's gradients, and the outs of the ops that they call. */
#include "gradient_python.h"

#include "grad_parse.h"

const grad_entry *
gradient_entry_at(const gradient_writer *w, int index)
{
    return &w->row->grads.items[index];
}

/* The op whose outs an entry has, NULL: it is a tensor. */
const op *
gradient_outs_of(const gradient_writer *w, int entry)
{
    const grad *g = gradient_entry_at(w, entry)->value;
    return g->kind == GRAD_CALL && gradient_entry_at(w, entry)->param < 0
               ? &w->t->ops.items[g->op_index]
               : NULL;
}

/* An intermediate that is but another name of one before it stands for that. */
int
gradient_root_of(const gradient_writer *w, int entry)
{
    while (gradient_entry_at(w, entry)->param < 0 &&
           gradient_entry_at(w, entry)->value->kind == GRAD_NAME) {
        entry = gradient_entry_at(w, entry)->value->index;
    }
    return entry;
}

/* The out that a call stands for where one tensor is wanted: its only one, its required one. */
int
gradient_only_out(const op *callee)
{
    for (int i = 0; i < callee->outs; i++) {
        if (callee->outs == 1 || !callee->params.items[callee->inputs + i].optional) {
            return i;
        }
    }
    return 0;
}

int
gradient_required_outs(const op *row)
{
    int count = 0;
    for (int i = 0; i < row->outs; i++) {
        count += !row->params.items[row->inputs + i].optional;
    }
    return count;
}

bool
gradient_is_like(const grad *g, int operand)
{
    const grad_fixed *f = g->kind == GRAD_FIXED && operand > 0 ? grad_fixed_find(g->name) : NULL;
    return f && (f->takes[operand] == 'l' || f->takes[operand] == 'L');
}

int
gradient_entry_of(const gradient_writer *w, int param)
{
    for (int i = 0; i < w->row->grads.count; i++) {
        if (gradient_entry_at(w, i)->param == param) {
            return i;
        }
    }
    return -1;
}
