#include "names.h"

#include <stdlib.h>
#include <string.h>

#include "text.h"

/* Sorted. Macros of the standard headers and of gcc's own, CUDA's built-in variables and the
   integer types of launchers count as keywords: as a parameter's name they do not compile. */
typedef struct keyword {
    const char *name, *language;
} keyword;

/* clang-format off */
static const keyword keywords[] = {
    {"EOF", "C"}, {"FALSE", "C"}, {"False", "Python"}, {"HUGE_VAL", "C"}, {"INFINITY", "C"},
    {"NAN", "C"}, {"NDEBUG", "C"}, {"NULL", "C"}, {"None", "Python"}, {"TRUE", "C"},
    {"True", "Python"}, {"alignas", "C"}, {"alignof", "C"}, {"and", "C++"}, {"and_eq", "C++"},
    {"as", "Python"}, {"asm", "C"}, {"assert", "Python"}, {"async", "Python"}, {"auto", "C"},
    {"await", "Python"}, {"bitand", "C++"}, {"bitor", "C++"}, {"blockDim", "CUDA"},
    {"blockIdx", "CUDA"}, {"bool", "C"}, {"break", "C"}, {"case", "C"}, {"catch", "C++"},
    {"char", "C"}, {"char16_t", "C++"}, {"char32_t", "C++"}, {"char8_t", "C++"}, {"class", "C++"},
    {"co_await", "C++"}, {"co_return", "C++"}, {"co_yield", "C++"}, {"compl", "C++"},
    {"concept", "C++"}, {"const", "C"}, {"const_cast", "C++"}, {"consteval", "C++"},
    {"constexpr", "C"}, {"constinit", "C++"}, {"continue", "C"}, {"decltype", "C++"},
    {"def", "Python"}, {"default", "C"}, {"del", "Python"}, {"delete", "C++"}, {"do", "C"},
    {"double", "C"}, {"dynamic_cast", "C++"}, {"elif", "Python"}, {"else", "C"}, {"enum", "C"},
    {"errno", "C"}, {"except", "Python"}, {"explicit", "C++"}, {"export", "C++"}, {"extern", "C"},
    {"false", "C"}, {"finally", "Python"}, {"float", "C"}, {"for", "C"}, {"friend", "C++"},
    {"from", "Python"}, {"global", "Python"}, {"goto", "C"}, {"gridDim", "CUDA"}, {"i386", "C"},
    {"if", "C"}, {"import", "Python"}, {"in", "Python"}, {"inline", "C"}, {"int", "C"},
    {"int16_t", "C"}, {"int32_t", "C"}, {"int64_t", "C"}, {"int8_t", "C"}, {"is", "Python"},
    {"lambda", "Python"}, {"linux", "C"}, {"long", "C"}, {"match", "Python"}, {"mutable", "C++"},
    {"namespace", "C++"}, {"new", "C++"}, {"noexcept", "C++"}, {"nonlocal", "Python"},
    {"noreturn", "C"}, {"not", "C++"}, {"not_eq", "C++"}, {"nullptr", "C"}, {"operator", "C++"},
    {"or", "C++"}, {"or_eq", "C++"}, {"pass", "Python"}, {"private", "C++"}, {"protected", "C++"},
    {"public", "C++"}, {"raise", "Python"}, {"register", "C"}, {"reinterpret_cast", "C++"},
    {"requires", "C++"}, {"restrict", "C"}, {"return", "C"}, {"short", "C"}, {"signed", "C"},
    {"size_t", "C"}, {"sizeof", "C"}, {"static", "C"}, {"static_assert", "C"},
    {"static_cast", "C++"}, {"stderr", "C"}, {"stdin", "C"}, {"stdout", "C"}, {"struct", "C"},
    {"switch", "C"}, {"template", "C++"}, {"this", "C++"}, {"threadIdx", "CUDA"},
    {"thread_local", "C"}, {"throw", "C++"}, {"true", "C"}, {"try", "C++"}, {"type", "Python"},
    {"typedef", "C"}, {"typeid", "C++"}, {"typename", "C++"}, {"typeof", "C"},
    {"typeof_unqual", "C"}, {"uint16_t", "C"}, {"uint32_t", "C"}, {"uint64_t", "C"},
    {"uint8_t", "C"}, {"union", "C"}, {"unix", "C"}, {"unsigned", "C"}, {"using", "C++"},
    {"virtual", "C++"}, {"void", "C"}, {"volatile", "C"}, {"warpSize", "CUDA"}, {"wchar_t", "C++"},
    {"while", "C"}, {"with", "Python"}, {"xor", "C++"}, {"xor_eq", "C++"}, {"yield", "Python"},
};
/* clang-format on */

static int
keyword_compare(const void *name, const void *item)
{
    return strcmp(name, ((const keyword *)item)->name);
}

const char *
name_keyword_of(const char *name)
{
    const keyword *found = bsearch(
        name, keywords, sizeof keywords / sizeof *keywords, sizeof *keywords, keyword_compare);
    return found ? found->language : NULL;
}

const char *const name_fixed_functions[] = {
    "t", "reshape", "sum_to", "unreduce", "split", "inverse", NULL,
};

static bool
is_one_of(const char *name, const char *const *names)
{
    for (; *names; names++) {
        if (text_same(*names, name)) {
            return true;
        }
    }
    return false;
}

bool
name_is_fixed_function(const char *name)
{
    return is_one_of(name, name_fixed_functions);
}

/* ---- reserved names -------------------------------------------------------------------------- */

/* `run` and three more are of the package, `bind` and three more of each module, `index` is the
   page of all ops; aicf_f16 and atomic_bool are types of C, which a module's typed function would
   be named like; the rest are fixed functions of gradients. */
static const char *const reserved_ops[] = {
    "run",  "torch",  "jax", "core",    "bind",   "explain",  "infer", "capability", "index",
    "aicf", "atomic", "t",   "reshape", "sum_to", "unreduce", "split", "inverse",    NULL,
};
/* Keywords of the Python functions, of torch's and of those that gradients call too, a launcher's
   own parameters, and the gradient's `g`. */
static const char *const reserved_args[] = {
    "stream", "kernel", "dtype", "want", "g", "out", "workspace", NULL,
};
static const char *const reserved_outs[] = {
    "stream", "kernel", "dtype", "want", "g", "workspace", NULL,
};
static const char *const reserved_dims[] = {"stream", "workspace", "out", NULL};
static const char *const reserved_grads[] = {"g", "none", "dtype", NULL};
static const char *const reserved_classes[] = {"same", NULL};
static const char *const reserved_none[] = {NULL};
/* The runtime's own package, and operator namespaces that torch has already. */
static const char *const reserved_packages[] = {"aicf_rt", "aten", "prim", "prims", NULL};

/* Functions and constants of expressions: a dim of this name could not be told from them. */
static const char *const expression_words[] = {
    "len",     "prod",      "sum",     "min",        "max",     "ceil_div",
    "numel",   "sizeof",    "present", "same_shape", "aligned", "stride",
    "batches", "broadcast", "reduced", "permuted",   "none",    NULL,
};

typedef struct rule {
    const char *what;
    const char *const *reserved;
    bool capitals, keywords;
    const char *const *words;
} rule;

static const rule rules[] = {
    [NAME_OP] = {"an op", reserved_ops, false, true, NULL},
    [NAME_ARG] = {"an argument", reserved_args, false, true, NULL},
    [NAME_SIZE] = {"an argument", reserved_args, true, true, NULL},
    [NAME_OUT] = {"an out", reserved_outs, false, true, NULL},
    [NAME_DIM] = {"a dim", reserved_dims, true, true, expression_words},
    [NAME_TYPE] = {"a type variable", reserved_none, true, true, NULL},
    [NAME_KERNEL] = {"a kernel", reserved_none, false, false, NULL},
    [NAME_BACKEND] = {"a backend", reserved_none, false, true, NULL},
    [NAME_CLASS] = {"a class of dtypes", reserved_classes, false, false, NULL},
    [NAME_WORD] = {"a value", reserved_none, false, false, NULL},
    [NAME_PACKAGE] = {"a package", reserved_packages, false, true, NULL},
    [NAME_GRAD] = {"an intermediate", reserved_grads, false, true, NULL},
};

static bool
matches(const char *name, bool capitals)
{
    for (const char *c = name; *c; c++) {
        bool letter = (*c >= 'a' && *c <= 'z') || (capitals && *c >= 'A' && *c <= 'Z');
        bool other = c > name && ((*c >= '0' && *c <= '9') || *c == '_');
        if (!letter && !other) {
            return false;
        }
    }
    return *name != '\0';
}

/* Names are short, and all of them are asked. */
static bool
has_two_underscores(const char *name)
{
    for (const char *c = name; *c; c++) {
        if (c[0] == '_' && c[1] == '_') {
            return true;
        }
    }
    return false;
}

bool
name_check(faults *f, context of, loc where, const char *name, name_kind kind)
{
    const rule *r = &rules[kind];
    if (!matches(name, r->capitals)) {
        return fault(
            f, "name-grammar", where, of, "`%s` is no name of %s: it must match [%s][%s0-9_]*",
            name, r->what, r->capitals ? "A-Za-z" : "a-z", r->capitals ? "A-Za-z" : "a-z");
    }
    if (strlen(name) > NAME_LENGTH) {
        return fault(
            f, "name-length", where, of, "`%s` has %zu characters, a name at most %d", name,
            strlen(name), NAME_LENGTH);
    }
    if (has_two_underscores(name)) {
        return fault(
            f, "name-underscores", where, of, "`%s` has two underscores in a row, which C++ keeps",
            name);
    }
    if (r->keywords && name_keyword_of(name)) {
        return fault(
            f, "name-keyword", where, of, "`%s` is a keyword of %s", name, name_keyword_of(name));
    }
    if (is_one_of(name, r->reserved) || (r->words && is_one_of(name, r->words)) ||
        (r->keywords && kind != NAME_PACKAGE && strncmp(name, "aicf_", 5) == 0)) {
        return fault(
            f, "name-reserved", where, of, "`%s` is reserved and cannot be %s", name, r->what);
    }
    return true;
}
