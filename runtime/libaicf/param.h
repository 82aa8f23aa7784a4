/* Parameters and their tensors, inline: a call without lists has one tensor a parameter. */
#ifndef AICF_PARAM_H
#define AICF_PARAM_H

#include <aicf/call.h>

static inline int
param_count(const aicf_call *call, int param)
{
    int list = call->op->has_lists ? call->op->params_of[param].list : -1;
    return list < 0 ? 1 : (int)aicf_call_dims(call)[list];
}

static inline int
param_start(const aicf_call *call, int param)
{
    int start = param;
    if (call->op->has_lists) {
        start = 0;
        for (int p = 0; p < param; p++) {
            start += param_count(call, p);
        }
    }
    return start;
}

/* The tensors of a parameter. */
typedef struct span {
    const aicf_tensor *t;
    int count;
} span;

static inline span
span_of(const aicf_tensor *t, const aicf_call *call, int param)
{
    return (span){t + param_start(call, param), param_count(call, param)};
}

static inline bool
param_is_written(const aicf_param *param)
{
    return (param->role == AICF_OUT) | (param->role == AICF_INOUT);
}

/* Sizes are few: a loop beats memcmp. */
static inline bool
sizes_equal(const int64_t *a, const int64_t *b, int count)
{
    for (int i = 0; i < count; i++) {
        if (a[i] != b[i]) {
            return false;
        }
    }
    return true;
}

#endif
