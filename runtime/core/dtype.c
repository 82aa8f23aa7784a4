#include "dtype.h"

#include <stdbool.h>
#include <string.h>

#define WORDS(id, name, code, bits, ctype, numpy, typestr, format) \
    {AICF_DTYPE(code, bits), #name, typestr, format},
static const dtype_words table[] = {AICF_DTYPES(WORDS)};
#undef WORDS

enum { COUNT = sizeof table / sizeof *table };
_Static_assert((int)COUNT == (int)DTYPES, "all of them");

int
dtype_index(const dtype_words *words)
{
    return (int)(words - table);
}

const dtype_words *
dtype_words_of(aicf_dtype dtype)
{
    for (int i = 0; i < COUNT; i++) {
        if (table[i].dtype == dtype) {
            return &table[i];
        }
    }
    return NULL;
}

const dtype_words *
dtype_by_typestr(const char *typestr)
{
    for (int i = 0; i < COUNT; i++) {
        if (*typestr && strcmp(table[i].typestr, typestr) == 0) {
            return &table[i];
        }
    }
    return NULL;
}

/* Frameworks spell the kind out: float32, bfloat16, uint8. What the letters of a name stand for,
   and how many they are. */
static const char *
kind_spelled(const char *name, size_t *letters)
{
    static const struct {
        const char *kind, *spelled;
    } kinds[] = {{"bf", "bfloat"}, {"f", "float"}, {"i", "int"}, {"u", "uint"}, {"bool", "bool"}};
    *letters = strcspn(name, "0123456789");
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        if (strlen(kinds[k].kind) == *letters && strncmp(kinds[k].kind, name, *letters) == 0) {
            return kinds[k].spelled;
        }
    }
    return "";
}

static bool
is_spelled(const char *word, const char *name)
{
    size_t letters;
    const char *kind = kind_spelled(name, &letters);
    size_t length = strlen(kind);
    return strncmp(word, kind, length) == 0 && strcmp(word + length, name + letters) == 0;
}

PyObject *
dtype_spelling(const dtype_words *words)
{
    size_t letters;
    const char *kind = kind_spelled(words->name, &letters);
    return PyUnicode_FromFormat("%s%s", kind, words->name + letters);
}

static const dtype_words *
by_word(const char *word)
{
    for (int i = 0; i < COUNT; i++) {
        if (strcmp(word, table[i].name) == 0 || is_spelled(word, table[i].name)) {
            return &table[i];
        }
    }
    return NULL;
}

const dtype_words *
dtype_by_object(PyObject *value)
{
    PyObject *text = PyUnicode_Check(value) ? Py_NewRef(value)
                     : PyType_Check(value)  ? PyType_GetName((PyTypeObject *)value)
                                            : PyObject_Str(value);
    const char *word = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    const char *dot = word ? strrchr(word, '.') : NULL;
    const dtype_words *found = word ? by_word(dot ? dot + 1 : word) : NULL;
    if (text && !word) {
        PyErr_Clear(); /* no UTF-8: none of ours */
    }
    Py_XDECREF(text);
    return found;
}
