/* All ids of faults, sorted. A test finds that the sources use exactly these, and that its cases
   meet them all. */
#include "fault.h"

/* clang-format off */
const char *const fault_ids[] = {
    "alias", "ambiguous", "anchor", "arch", "arg-kind", "aten", "aten-name", "bad-character",
    "bad-utf8", "bounds-crossed", "class-cycle", "complex-key", "default-range", "default-size",
    "device-taken", "directive", "duplicate-axis", "duplicate-dtype", "duplicate-family",
    "duplicate-kernel", "duplicate-key", "duplicate-layout", "duplicate-op", "duplicate-overlap",
    "duplicate-word", "empty-document", "empty-list", "empty-map", "empty-value",
    "expression-arity", "expression-attributes-only", "expression-constant", "expression-function",
    "expression-index", "expression-name", "expression-number", "expression-scalar",
    "expression-size", "expression-syntax", "expression-type", "expression-varies",
    "expression-word", "family-override", "file-collision", "grad-absent", "grad-argument",
    "grad-call", "grad-dtype", "grad-inout", "grad-key", "grad-list", "grad-missing", "grad-name",
    "grad-order", "grad-outs", "grad-shape", "grad-unused", "grad-value", "kernel-without-dtypes",
    "key-misfit", "layout-rank", "let-order", "lib", "merge-key", "missing-key", "name-grammar",
    "name-keyword", "name-length", "name-reserved", "name-taken", "name-underscores", "no-inputs",
    "no-outs", "not-a-bool", "not-a-number", "not-an-int", "not-finite", "nul", "number-range",
    "op-or-family", "optional-order", "order-list", "overlap-dtype", "path", "scalar-range",
    "schema-version", "second-document", "shadowed-kernel", "shape-attribute", "shape-axis",
    "shape-clash", "shape-name", "shape-packs", "shape-syntax", "shape-unbound", "shape-value",
    "src-clash", "suffix", "symbol-collision", "tag", "template", "test-case", "tolerance",
    "too-deep", "too-many-attrs", "too-many-dims", "too-many-params", "too-many-values", "too-many-variants",
    "too-many-words", "type-outside", "unbound-types", "uncovered", "undefined-function",
    "unknown-arg", "unknown-backend", "unknown-device", "unknown-dtype", "unknown-key",
    "unknown-layout", "unknown-type", "unknown-word", "unused-type", "wrong-kind", "yaml-syntax",
    NULL,
};
/* clang-format on */
