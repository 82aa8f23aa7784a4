#include "ffi.h"

#include <string.h>

int64_t
attributes_find(const XLA_FFI_Attrs *attrs, const char *name)
{
    size_t length = strlen(name);
    for (int64_t i = 0; i < attrs->size; i++) {
        const XLA_FFI_ByteSpan *span = attrs->names[i];
        if (span->len == length && memcmp(span->ptr, name, length) == 0) {
            return i;
        }
    }
    return -1;
}

const XLA_FFI_ByteSpan *
attributes_text(const XLA_FFI_Attrs *attrs, int64_t index)
{
    bool text = index >= 0 && attrs->types[index] == XLA_FFI_AttrType_STRING;
    return text ? attrs->attrs[index] : NULL;
}

const int64_t *
attributes_integers(const XLA_FFI_Attrs *attrs, int64_t index, size_t *count)
{
    static const int64_t none[1];
    if (index < 0 || attrs->types[index] != XLA_FFI_AttrType_ARRAY) {
        return NULL;
    }
    const XLA_FFI_Array *array = attrs->attrs[index];
    *count = array->size;
    return array->dtype != XLA_FFI_DataType_S64 ? NULL : array->size ? array->data : none;
}

static const void *
scalar(const XLA_FFI_Attrs *attrs, int64_t index, XLA_FFI_DataType dtype)
{
    if (attrs->types[index] != XLA_FFI_AttrType_SCALAR) {
        return NULL;
    }
    const XLA_FFI_Scalar *s = attrs->attrs[index];
    return s->dtype == dtype ? s->value : NULL;
}

static bool
copy_scalar(
    void *to, const XLA_FFI_Attrs *attrs, int64_t index, XLA_FFI_DataType dtype, size_t size)
{
    const void *from = scalar(attrs, index, dtype);
    if (from) {
        memcpy(to, from, size);
    }
    return from != NULL;
}

static bool
set_enum(int *to, const aicf_attr *attr, const XLA_FFI_ByteSpan *word)
{
    for (int i = 0; word && attr->values[i]; i++) {
        if (strlen(attr->values[i]) == word->len &&
            memcmp(attr->values[i], word->ptr, word->len) == 0) {
            *to = i;
            return true;
        }
    }
    return false;
}

static bool
set_axes(aicf_ints *to, const XLA_FFI_Attrs *attrs, int64_t index)
{
    size_t count;
    const int64_t *values = attributes_integers(attrs, index, &count);
    const XLA_FFI_ByteSpan *word = attributes_text(attrs, index);
    if (word) {
        to->count = -1;
        return word->len == 3 && memcmp(word->ptr, "all", 3) == 0;
    }
    if (!values || count > AICF_MAX_DIMS) {
        return false;
    }
    to->count = (int64_t)count;
    memcpy(to->values, values, count * sizeof *values);
    return true;
}

static bool
set_ints(int64_t *to, const aicf_attr *attr, const XLA_FFI_Attrs *attrs, int64_t index)
{
    size_t count;
    const int64_t *values = attributes_integers(attrs, index, &count);
    if (!values || count != attr->size) {
        return false;
    }
    memcpy(to, values, count * sizeof *values);
    return true;
}

bool
attributes_set(aicf_call *call, const aicf_attr *attr, const XLA_FFI_Attrs *attrs, int64_t index)
{
    void *to = (char *)call + attr->offset;
    switch ((aicf_attr_kind)attr->kind) {
    case AICF_ATTR_BOOL: return copy_scalar(to, attrs, index, XLA_FFI_DataType_PRED, sizeof(bool));
    case AICF_ATTR_INT:
    case AICF_ATTR_AXIS:
        return copy_scalar(to, attrs, index, XLA_FFI_DataType_S64, sizeof(int64_t));
    case AICF_ATTR_FLOAT:
        return copy_scalar(to, attrs, index, XLA_FFI_DataType_F64, sizeof(double));
    case AICF_ATTR_ENUM: return set_enum(to, attr, attributes_text(attrs, index));
    case AICF_ATTR_INTS: return set_ints(to, attr, attrs, index);
    case AICF_ATTR_AXES: return set_axes(to, attrs, index);
    case AICF_ATTR_SCALAR: return false;
    }
    return false;
}
