/* Launches of a call past its launcher: what that launched the last time, once more. For calls that
   are launched often and never change, as bound ones. */
#ifndef AICF_REPEAT_H
#define AICF_REPEAT_H

#include <aicf/call.h>

/* What a call launched: a kernel, how, and with which arguments; on whatever stream. Good as long
   as the call would do the same, which is as long as nothing in it changes but its stream. */
typedef struct aicf_repeat aicf_repeat;

typedef struct aicf_repeats {
    /* As backend->launch. Where the launcher launched one kernel and queued nothing else, *repeat
       is that, to be destroyed; else, and where that is not known, NULL. */
    aicf_status (*learn)(const aicf_call *call, aicf_repeat **repeat);
    /* The same launch on `stream`. False: nothing was launched, and the call's own launch does it,
       or says why not. *place is 0, or what the launch before left there, if nothing but such
       launches happened on this thread since. One thread at a time calls it for one repeat. */
    bool (*launch)(aicf_repeat *repeat, aicf_stream stream, uint64_t *place);
    /* NULL is fine. */
    void (*destroy)(aicf_repeat *repeat);
} aicf_repeats;

/* NULL: the backend has none. */
const aicf_repeats *aicf_repeats_of(const aicf_backend *backend);

#endif
