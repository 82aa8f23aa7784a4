#include <string.h>

#include "expression_parse.h"
#include "model.h"

int
row_find_dim(const op *row, const char *name)
{
    for (int i = 0; i < row->dims.count; i++) {
        if (strcmp(row->dims.items[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}

int
row_find_attr(const op *row, const char *name)
{
    for (int i = 0; i < row->attrs.count; i++) {
        if (strcmp(row->attrs.items[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}

int
row_find_tensor(const op *row, const char *name)
{
    for (int i = 0; i < row->params.count; i++) {
        const param *p = &row->params.items[i];
        if (p->role != ROLE_SCALAR && strcmp(p->name, name) == 0) {
            return i;
        }
    }
    return -1;
}

int
row_find_type(const op *row, const char *name)
{
    for (int i = 0; i < row->types.count; i++) {
        if (strcmp(row->types.items[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}
