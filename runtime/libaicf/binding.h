/* The dims and packs of one call: bound by the shapes of the arguments, checked against all. */
#ifndef AICF_BINDING_H
#define AICF_BINDING_H

#include <aicf/call.h>

#pragma GCC visibility push(hidden)

enum { BINDING_DIMS = 64 }; /* of a row, lets and list lengths included */

/* Dim d is bound where bit d is set; what is not bound is 0, a pack of rank -1. `dims` are the
   call's own, or a copy where the call must not change. */
typedef struct binding {
    aicf_scope scope;
    int64_t *dims;
    uint64_t bound;
    uint64_t whole; /* bit p: all that the shape of argument p says was compared when it bound */
    aicf_pack packs[BINDING_DIMS];
} binding;

/* Nothing bound but the lengths of lists. Requires op->dim_count <= BINDING_DIMS. */
void binding_begin(binding *b, const aicf_call *call, const aicf_tensor *t, int64_t *dims);

/* Everything bound as in the scope, but what varies over lists; `dims` are its dims. */
void binding_resume(binding *b, const aicf_scope *scope, int64_t *dims);

/* Binds from the arguments, then computes the lets: every dim has its value. */
aicf_status binding_arguments(binding *b);

/* The same where op->elementwise and call->plain hold: no shape needs to be looked at. */
aicf_status binding_plain(binding *b);

/* Checks all that the shapes of the first `params` parameters say, where they are present. */
aicf_status binding_check(binding *b, int params);

/* The shape of an out, as the row gives it. */
aicf_status binding_out(binding *b, int param, aicf_inferred *out);

/* Binds what one list's tensors at `index` bind. False: they do not agree. */
bool binding_list(binding *b, int list, int index, int before);

/* Forgets the dims that vary over lists. */
void binding_forget(binding *b);

/* Whether parameter `param` has dim `dim` among the items of its shape. */
bool binding_mentions(const binding *b, int param, int dim);

/* The sizes that packs broadcast to, ended by -1; absent ones are left out. The rank, or -1. */
int binding_broadcast(const aicf_pack *of, const int16_t *packs, int64_t sizes[AICF_MAX_DIMS]);

#pragma GCC visibility pop

#endif
