#include "text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

text
text_begin(char *buffer, size_t size)
{
    static _Thread_local char none[1];
    if (size == 0) {
        return (text){none, 1};
    }
    *buffer = '\0';
    return (text){buffer, size};
}

static void
add_bytes(text *out, const char *what, size_t length)
{
    size_t used = length < out->left ? length : out->left - 1;
    memcpy(out->at, what, used);
    out->at += used;
    out->left -= used;
    *out->at = '\0';
}

void
text_add(text *out, const char *what)
{
    add_bytes(out, what, strlen(what));
}

static void
add_number(text *out, bool negative, uint64_t magnitude)
{
    char digits[24], *at = digits + sizeof digits;
    do {
        *--at = (char)('0' + magnitude % 10);
    } while (magnitude /= 10);
    if (negative) {
        *--at = '-';
    }
    add_bytes(out, at, (size_t)(digits + sizeof digits - at));
}

static void
add_signed(text *out, int64_t value)
{
    add_number(out, value < 0, value < 0 ? -(uint64_t)value : (uint64_t)value);
}

/* The next of what texts are mostly made of: the format behind it, or NULL where it is not one. */
static const char *
put_plain(text *out, const char *format, va_list *args)
{
    static const char wide[] = "%" PRId64;
    const char *percent = strchr(format, '%');
    if (percent != format) {
        size_t length = percent ? (size_t)(percent - format) : strlen(format);
        add_bytes(out, format, length);
        return format + length;
    }
    if (strncmp(format, wide, sizeof wide - 1) == 0) {
        add_signed(out, va_arg(*args, int64_t));
        return format + sizeof wide - 1;
    }
    switch (format[1]) {
    case 's': text_add(out, va_arg(*args, const char *)); return format + 2;
    case 'd': add_signed(out, va_arg(*args, int)); return format + 2;
    case 'u': add_number(out, false, va_arg(*args, unsigned)); return format + 2;
    }
    return NULL;
}

void
text_put(text *out, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    while (*format) {
        const char *behind = put_plain(out, format, &args);
        if (!behind) { /* the rest by printf */
            int n = vsnprintf(out->at, out->left, format, args);
            size_t used = n < 0 ? 0 : (size_t)n < out->left ? (size_t)n : out->left - 1;
            out->at += used;
            out->left -= used;
            break;
        }
        format = behind;
    }
    va_end(args);
}

void
text_dtype(text *out, aicf_dtype dtype)
{
    static const struct {
        aicf_dtype dtype;
        const char *name;
    } names[] = {
#define NAME(id, name, code, bits, ctype, numpy, typestr, format) {AICF_##id, #name},
        AICF_DTYPES(NAME)
#undef NAME
    };
    static const char *const codes[] = {"i", "u", "f", "opaque", "bf", "c", "bool"};
    unsigned code = dtype & 0xff, bits = dtype >> 8 & 0xff, lanes = dtype >> 16;

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (names[i].dtype == dtype) {
            text_put(out, "%s", names[i].name);
            return;
        }
    }
    if (!dtype) {
        text_put(out, "an unknown dtype");
        return;
    }
    if (code < sizeof codes / sizeof *codes) {
        text_put(out, "%s%u", codes[code], bits);
    } else {
        text_put(out, "DLPack dtype %u of %u bits", code, bits);
    }
    if (lanes != 1) {
        text_put(out, " x %u", lanes);
    }
}

void
text_device(text *out, aicf_device device)
{
    /* DLPack's numbers; those without a name here are unassigned. */
    static const char *const names[] = {
        [1] = "cpu",        [2] = "cuda",     [3] = "cuda_host",     [4] = "opencl",
        [7] = "vulkan",     [8] = "metal",    [9] = "vpi",           [10] = "rocm",
        [11] = "rocm_host", [12] = "ext_dev", [13] = "cuda_managed", [14] = "oneapi",
        [15] = "webgpu",    [16] = "hexagon", [17] = "maia",         [18] = "trainium",
    };
    bool known = device.type > 0 && (size_t)device.type < sizeof names / sizeof *names;
    if (!known || !names[device.type]) {
        text_put(out, "a device of unknown type %d", device.type);
    } else if (device.type == 1 && device.index == 0) {
        text_add(out, "cpu");
    } else {
        text_put(out, "%s:%d", names[device.type], device.index);
    }
}

void
text_sizes(text *out, const int64_t *sizes, int64_t count)
{
    text_put(out, "(");
    for (int64_t i = 0; i < count; i++) {
        text_put(out, i ? ", %" PRId64 : "%" PRId64, sizes[i]);
    }
    text_put(out, count == 1 ? ",)" : ")");
}

void
text_tensor(text *out, const aicf_tensor *t)
{
    if (t->absent) {
        text_put(out, "absent");
        return;
    }
    text_dtype(out, t->dtype);
    text_put(out, " ");
    if (t->rank < 0 || t->rank > AICF_MAX_DIMS || (t->rank && !t->sizes)) {
        text_put(out, "of %d dims%s", t->rank, t->rank && !t->sizes ? " without sizes" : "");
    } else {
        text_sizes(out, t->sizes, t->rank);
        if (t->strides && !t->dense) {
            text_put(out, " strides ");
            text_sizes(out, t->strides, t->rank);
        }
    }
    text_put(out, " on ");
    text_device(out, t->device);
}
