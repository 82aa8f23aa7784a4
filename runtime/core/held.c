#include "held.h"

#include <string.h>

/* ---- whether it is given again ------------------------------------------------------------------
 */

static bool
tensors_stay(const held *h, core_state *core)
{
    int64_t words[LAYOUT_WORDS];
    bool stay = true;
    for (Py_ssize_t i = 0, count = PyTuple_Size(h->watched); i < count && stay; i++) {
        int found = layout_read(core, PyTuple_GetItem(h->watched, i), words);
        const layout *l = &h->layouts[i]; /* where nothing was found, Python may have run */
        stay = found && found == l->count &&
               memcmp(words, l->words, (size_t)found * sizeof *words) == 0;
    }
    return stay;
}

/* 1: all answer what they did. Runs Python. */
static int
answers_stay(PyObject *asked)
{
    int same = 1;
    for (Py_ssize_t i = 0, count = PyTuple_Size(asked); i < count && same == 1; i++) {
        PyObject *pair = PyTuple_GetItem(asked, i);
        PyObject *answer = PyObject_CallNoArgs(PyTuple_GetItem(pair, 0));
        same = answer ? PyObject_RichCompareBool(answer, PyTuple_GetItem(pair, 1), Py_EQ) : -1;
        Py_XDECREF(answer);
    }
    return same;
}

static bool
same_inputs(const held *h, PyObject *inputs)
{
    Py_ssize_t count = PyTuple_Size(inputs);
    bool same = count == PyTuple_Size(h->inputs);
    for (Py_ssize_t i = 0; i < count && same; i++) {
        same = PyTuple_GetItem(inputs, i) == PyTuple_GetItem(h->inputs, i);
    }
    return same;
}

/* Whether all is as it was, or was put in its place; -1 with an exception. */
static int
same_named(held *h, PyObject *named)
{
    if (PyDict_Size(named) != h->name_count) {
        return 0;
    }
    for (Py_ssize_t i = 0; i < h->name_count; i++) {
        given *g = &h->by_name[i];
        PyObject *x = PyDict_GetItemWithError(named, g->name);
        if (x == g->last) {
            continue;
        }
        if (!x || !g->number || !number_write(g->number, x)) {
            return PyErr_Occurred() ? -1 : 0;
        }
        PyObject *before = g->last;
        g->last = Py_NewRef(x);
        g->written = true;
        Py_DECREF(before); /* a number: no Python runs */
    }
    return 1;
}

/* What is asked may run anything: what is looked at after it is looked at as it is then. */
int
held_again(held *h, core_state *core, PyObject *inputs, PyObject *named)
{
    int same = h->inputs != NULL;
    if (same && PyTuple_Size(h->asked)) {
        PyObject *asked = Py_NewRef(h->asked);
        same = answers_stay(asked);
        same = same == 1 ? asked == h->asked : same;
        Py_DECREF(asked);
    }
    if (same == 1) {
        same = same_inputs(h, inputs) && tensors_stay(h, core);
    }
    return same == 1 ? same_named(h, named) : same;
}

/* ---- holding it -------------------------------------------------------------------------------
 */

void
held_forget(held *h)
{
    for (Py_ssize_t i = 0; i < h->name_count; i++) {
        Py_DECREF(h->by_name[i].last);
    }
    PyMem_Free(h->by_name);
    PyMem_Free(h->layouts);
    h->by_name = NULL;
    h->layouts = NULL;
    h->name_count = 0;
    Py_CLEAR(h->inputs);
    Py_CLEAR(h->named);
    Py_CLEAR(h->watched);
    Py_CLEAR(h->asked);
    Py_CLEAR(h->work);
    Py_CLEAR(h->result);
}

/* The numbers that were written since then. */
int
held_tell(held *h)
{
    for (Py_ssize_t i = 0; i < h->name_count; i++) {
        given *g = &h->by_name[i];
        if (g->written && (PyDict_SetItem(h->named, g->name, g->last) < 0 ||
                           PyDict_SetItem(h->kept, g->number->key, g->last) < 0)) {
            return -1;
        }
        g->written = false;
    }
    return 0;
}

static void
forget_numbers(held *h)
{
    h->number_count = 0;
    Py_CLEAR(h->spec);
    Py_CLEAR(h->kept);
    if (h->cells.obj) {
        PyBuffer_Release(&h->cells);
    }
}

/* 0: some tensor's layout is not read here; -1 with an exception. */
static int
watch_all(held *h, core_state *core)
{
    Py_ssize_t count = PyTuple_Size(h->watched);
    bool seen = true;
    h->layouts = PyMem_Malloc((size_t)(count + 1) * sizeof *h->layouts);
    if (!h->layouts) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < count && seen; i++) {
        layout *l = &h->layouts[i];
        l->count = layout_read(core, PyTuple_GetItem(h->watched, i), l->words);
        seen = l->count > 0;
    }
    return seen;
}

static const number *
number_named(const held *h, PyObject *name)
{
    for (int i = 0; i < h->number_count; i++) {
        if (PyUnicode_Compare(h->numbers[i].name, name) == 0) {
            return &h->numbers[i];
        }
    }
    return NULL;
}

static int
sort_named(held *h)
{
    Py_ssize_t at = 0;
    PyObject *name, *x;
    h->by_name = PyMem_Malloc((size_t)(PyDict_Size(h->named) + 1) * sizeof(given));
    if (!h->by_name) {
        PyErr_NoMemory();
        return -1;
    }
    while (PyDict_Next(h->named, &at, &name, &x)) {
        h->by_name[h->name_count++] = (given){name, Py_NewRef(x), number_named(h, name), false};
    }
    return 0;
}

static bool
are_pairs(PyObject *asked)
{
    bool pairs = true;
    for (Py_ssize_t i = 0; i < PyTuple_Size(asked) && pairs; i++) {
        PyObject *pair = PyTuple_GetItem(asked, i);
        pairs = PyTuple_Check(pair) && PyTuple_Size(pair) == 2;
    }
    return pairs;
}

static int
numbers_read(held *h, PyObject *cells, PyObject *spec, PyObject *kept)
{
    if (spec == h->spec && kept == h->kept) {
        return 0;
    }
    forget_numbers(h);
    Py_ssize_t count = PyTuple_Size(spec);
    if (count > NUMBERS_MOST) { /* those behind are looked at in full */
        count = NUMBERS_MOST;
    }
    if (count && PyObject_GetBuffer(cells, &h->cells, PyBUF_WRITABLE) < 0) {
        return -1;
    }
    h->spec = Py_NewRef(spec);
    h->kept = Py_NewRef(kept);
    for (Py_ssize_t i = 0; i < count; i++) {
        number *n = &h->numbers[h->number_count++];
        if (number_read(n, PyTuple_GetItem(spec, i), &h->cells) < 0) {
            forget_numbers(h);
            return -1;
        }
    }
    return 0;
}

int
held_take(held *h, core_state *core, PyObject *args)
{
    PyObject *inputs, *named, *watched, *asked, *work, *result, *cells, *spec, *kept;
    if (!PyArg_ParseTuple(
            args, "O!O!O!O!OOOO!O!:hold", &PyTuple_Type, &inputs, &PyDict_Type, &named,
            &PyTuple_Type, &watched, &PyTuple_Type, &asked, &work, &result, &cells, &PyTuple_Type,
            &spec, &PyDict_Type, &kept)) {
        return -1;
    }
    if (!are_pairs(asked)) {
        PyErr_SetString(PyExc_TypeError, "hold: what is asked is a pair with its answer");
        return -1;
    }
    held_forget(h);
    if (numbers_read(h, cells, spec, kept) < 0) {
        return -1;
    }
    h->inputs = Py_NewRef(inputs);
    h->named = Py_NewRef(named);
    h->watched = Py_NewRef(watched);
    h->asked = Py_NewRef(asked);
    h->work = Py_NewRef(work);
    h->result = Py_NewRef(result);
    int seen = sort_named(h);
    seen = seen < 0 ? -1 : watch_all(h, core);
    if (seen != 1) {
        held_forget(h);
    }
    return seen < 0 ? -1 : 0;
}

void
held_finish(held *h)
{
    held_forget(h);
    forget_numbers(h);
}

int
held_traverse(held *h, visitproc visit, void *arg)
{
    for (Py_ssize_t i = 0; i < h->name_count; i++) {
        Py_VISIT(h->by_name[i].last);
    }
    Py_VISIT(h->cells.obj);
    Py_VISIT(h->spec);
    Py_VISIT(h->kept);
    Py_VISIT(h->inputs);
    Py_VISIT(h->named);
    Py_VISIT(h->watched);
    Py_VISIT(h->asked);
    Py_VISIT(h->work);
    Py_VISIT(h->result);
    return 0;
}
