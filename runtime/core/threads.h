/* What threads share, where the GIL does not keep them apart: items of containers that others may
   change, and objects that are made once. With the GIL it is what one would write without all this.

   The rules of _core: what threads share never changes once it is published (records of types,
   blocks of bound calls, handles), or is a word that is read and written whole (__atomic_*); a
   count is atomic; of a container that others may change, items are held, never borrowed. */
#ifndef AICF_CORE_THREADS_H
#define AICF_CORE_THREADS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>

/* No two threads of ours are between the two for one object. They are of one block, as braces are.
 */
#ifdef Py_GIL_DISABLED
#define OBJECT_LOCK(object) Py_BEGIN_CRITICAL_SECTION(object)
#define OBJECT_UNLOCK() Py_END_CRITICAL_SECTION()
#else
#define OBJECT_LOCK(object) {
#define OBJECT_UNLOCK() }
#endif

/* A new reference; NULL without an exception: there is no such item. */
static inline PyObject *
dict_item(PyObject *dict, PyObject *key)
{
#ifdef Py_GIL_DISABLED
    PyObject *value;
    (void)PyDict_GetItemRef(dict, key, &value);
    return value;
#else
    return Py_XNewRef(PyDict_GetItemWithError(dict, key));
#endif
}

/* A new reference; NULL with an exception. */
static inline PyObject *
list_item(PyObject *list, Py_ssize_t index)
{
#ifdef Py_GIL_DISABLED
    return PyList_GetItemRef(list, index);
#else
    return Py_XNewRef(PyList_GetItem(list, index));
#endif
}

/* What stands under the key: `value`, unless another thread was faster. A new reference; NULL with
   an exception. */
static inline PyObject *
dict_settle(PyObject *dict, PyObject *key, PyObject *value)
{
    PyObject *stands = NULL;
#ifdef Py_GIL_DISABLED
    (void)PyDict_SetDefaultRef(dict, key, value, &stands);
#else
    stands = Py_XNewRef(PyDict_GetItemWithError(dict, key));
    if (!stands && !PyErr_Occurred() && PyDict_SetItem(dict, key, value) == 0) {
        stands = Py_NewRef(value);
    }
#endif
    return stands;
}

/* A module that somebody imported, perhaps not to its end: a new reference, NULL without an
   exception where nobody did. */
static inline PyObject *
module_known(const char *name)
{
    PyObject *key = PyUnicode_FromString(name);
    PyObject *module = key ? dict_item(PyImport_GetModuleDict(), key) : NULL;
    Py_XDECREF(key);
    PyErr_Clear();
    return module;
}

/* ---- made once ------------------------------------------------------------------------------- */

/* What stands in `slot`, borrowed: NULL until it was made, and from then on the same. */
static inline PyObject *
once_known(PyObject *const *slot)
{
    return __atomic_load_n(slot, __ATOMIC_ACQUIRE);
}

/* Puts `made` there, unless another thread was faster; steals it. What stands there then, borrowed;
   NULL with an exception where `made` is NULL. */
static inline PyObject *
once_settle(PyObject **slot, PyObject *made)
{
    PyObject *stands = NULL;
    if (!made || __atomic_compare_exchange_n(
                     slot, &stands, made, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        return made;
    }
    Py_DECREF(made);
    return stands;
}

#endif
