#include "model.h"

#include <string.h>

#include "dict.h"
#include "text.h"

/* In DLPack's codes 0 and 1 are the integers, 2 and 4 the floats, 6 bool. */
const dtype_info dtypes_of[DTYPE_COUNT] = {
#define MODEL_DTYPE_INFO(id, name, code, bits, ctype, numpy, typestr, format) \
    {#name, "AICF_" #id, #ctype, bits, (code) == 2 || (code) == 4, (code) < 2},
    AICF_DTYPES(MODEL_DTYPE_INFO)
#undef MODEL_DTYPE_INFO
};

int
dtype_find(const char *name)
{
    for (int i = 0; i < DTYPE_COUNT; i++) {
        if (text_same(dtypes_of[i].name, name)) {
            return i;
        }
    }
    return -1;
}

int
op_find(const table *t, const char *name)
{
    return dict_find(t->ops_by_name, name);
}
