#include "python.h"

#include "encode.h"
#include "python_line.h"

bool
python_emit_attributes(buffer *out, const op *row, bool scalars)
{
    static const char *const types[] = {
        [ATTR_BOOL] = "bool",    [ATTR_INT] = "int",      [ATTR_FLOAT] = "float",
        [ATTR_ENUM] = "str",     [ATTR_INTS] = "_e.Ints", [ATTR_AXIS] = "int",
        [ATTR_AXES] = "_e.Axes", [ATTR_SCALAR] = "Any",
    };
    bool first = true;
    for (int i = 0; i < row->attrs.count; i++) {
        const attr *a = &row->attrs.items[i];
        if (scalars || a->kind != ATTR_SCALAR) {
            buffer_puts3(out, first ? ", *, " : ", ", a->name, ": ");
            buffer_puts(out, types[a->kind]);
            first = false;
        }
    }
    return !first;
}

void
python_emit_string(buffer *out, const char *text)
{
    encoder_find("py_string", strlen("py_string"))->write(out, text);
}

void
python_emit_fold(buffer *out, const op *row, const attr *a, bool tensors)
{
    if (a->kind != ATTR_AXIS && a->kind != ATTR_AXES) {
        return;
    }
    const param *of = &row->params.items[a->of];
    const char *function = a->kind == ATTR_AXIS ? "axis" : "axes";
    const char *shape = tensors ? "_e.shape(%s)" : of->list >= 0 ? "_e.first(%s)" : "%s";
    size_t start = python_line_begin(out, PYTHON_INDENT);
    buffer_print(out, "%s = _e.%s(\"%s\", %s, ", a->name, function, a->name, a->name);
    shape = tensors && of->list < 0 && !of->optional ? "%s.shape" : shape;
    buffer_print(out, shape, of->name);
    buffer_putc(out, ')');
    python_line_end(out, start);
}
