/* A prepared call that never changes and is counted: what a bound call launches. It owns the memory
   of its tensors, not only the objects: one that is re-seated leaves it on the old memory, alive.
   Torch may still move a storage that all its users share: then launches are refused.

   All of it is used with the GIL; where there is none, counts are atomic. */
#ifndef AICF_CORE_BLOCK_H
#define AICF_CORE_BLOCK_H

#include "core.h"

#include <aicf/repeat.h>

/* A tensor that blocks share. Counted; the last one releases it. */
typedef struct kept {
    int64_t references;
    PyObject *object; /* NULL: absent */
    PyObject *guard;  /* a weak reference to the array that owns the memory, or NULL */
    aicf_tensor t;
} kept;

/* What a launch reads stands first, what one that is repeated reads before all. In one piece of
   memory with its calls and `words`. */
typedef struct block {
    aicf_repeat *repeat; /* what `swift` launched, NULL: it is not known, or cannot be repeated */
    const aicf_repeats *repeats; /* of the backend, NULL: it has none */
    aicf_stream stream;          /* of all launches, NULL: it is to be asked for */
    stream_fn *ask;              /* how, NULL: it takes Python, or `stream` says it */
    aicf_device device;
    const watched *words; /* of the tensors that may move */
    int watches;          /* how many words there are */
    int count;
    aicf_launch_fn *brief; /* launches `call` as it is; NULL: `swift`, or block_launch knows how */
    aicf_launch_fn *swift; /* launches it once its stream is set and its kernel is warm, or NULL */
    aicf_call *call;       /* prepared */
    int64_t references;
    bool asks;          /* of some tensor only torch itself knows whether it moved */
    uint8_t launches;   /* by `swift`, until its repeat was asked for */
    aicf_call *options; /* as the call was before prepare, for the next one */
    aicf_handle *handle;
    const source *lead; /* of the stream, NULL: none */
    uint64_t given;
    bool joins;      /* frameworks other than the lead's have streams of their own */
    kept *workspace; /* what the caller gave for one; NULL: nothing */
    kept *tensors[];
} block;

/* Takes over a tensor that the frame owns. NULL with an exception, and the frame still owns it. */
kept *kept_create(frame *f, int i);
/* NULL is fine. Runs Python. */
void kept_drop(kept *k);

/* A block for the frame's call, whose tensors are still to come. NULL with an exception. */
block *block_create(const frame *f);
/* Shares what `before` has of the parameters in the mask `same`. */
void block_inherit(block *b, const frame *f, const block *before, uint64_t same);
/* Reads the other tensors and prepares the call; the block then owns them. -1 with an exception. */
int block_prepare(block *b, frame *f);
/* Launches a block that the caller holds: what a launch sets, it sets in a copy. May let other
   threads run. -1 with an exception. */
int block_launch(block *b);
/* On that stream by `swift`, keeping what it launches where that is worth it. Requires
   block_is_swift. */
aicf_status block_launch_swiftly(block *b, aicf_stream stream);
/* -1 with an exception where a tensor is not where it was bound. */
int block_check(const block *b);
/* `ours`, the stream of a launch, waits for what frameworks other than the lead's have queued. */
aicf_status block_join(const block *b, aicf_stream ours);
/* workspace.c: reads what the frame was given for a workspace, where the block has it not yet. -1
   with an exception. Runs Python. */
int workspace_own(block *b, const frame *f);
/* The prepared call of the block works in it, or it is refused: -1 with an exception. */
int workspace_settle(block *b, const frame *f);

/* For block_drop. Runs Python, but keeps a pending exception. */
void block_free(block *b);
int block_traverse(const block *b, visitproc visit, void *arg);

/* copy.c: a copy as a block, its tensors checked. NULL with an exception. */
block *copy_bind(PyObject *source, PyObject *out);
/* Whether one side of it is the host's and the other a device's. */
bool copy_crosses(const block *b);
/* Whether it goes from the host's memory to a device's. */
bool copy_goes_up(const block *b);

static inline void
count_up(int64_t *references)
{
#ifdef Py_GIL_DISABLED
    __atomic_add_fetch(references, 1, __ATOMIC_RELAXED);
#else
    ++*references;
#endif
}

/* NULL is fine. */
static inline kept *
kept_share(kept *k)
{
    if (k) {
        count_up(&k->references);
    }
    return k;
}

/* True: that was the last one. */
static inline bool
count_down(int64_t *references)
{
#ifdef Py_GIL_DISABLED
    return __atomic_sub_fetch(references, 1, __ATOMIC_ACQ_REL) == 0;
#else
    return --*references == 0;
#endif
}

/* May run Python, but keeps a pending exception. NULL is fine. */
static inline void
block_drop(block *b)
{
    if (b && count_down(&b->references)) {
        block_free(b);
    }
}

/* False: some memory moved, or is not known to be where it was. */
static inline bool
block_stays(const block *b)
{
    bool stays = true;
    for (int i = 0; i < b->watches; i++) {
        stays &= watched_stays(&b->words[i]);
    }
    return stays;
}

/* Whether `swift` may be called as soon as the call has its stream. Requires block_stays. */
static inline bool
block_is_swift(const block *b)
{
    return b->swift &&
           __atomic_load_n(&b->handle->warm, __ATOMIC_RELAXED) & launch_bit(b->handle, b->call);
}

/* The stream of a launch; false: Python has to be asked. */
static inline bool
block_find_stream(const block *b, aicf_stream *stream)
{
    *stream = b->stream;
    return b->stream || (b->ask && stream_ask(b->ask, b->device, stream));
}

/* Launches once more what the block launched before; false: nothing was launched. `place` is of
   aicf_repeats. Requires block_stays and b->repeat. */
static inline bool
block_repeat(const block *b, aicf_stream stream, uint64_t *place)
{
    return b->repeats->launch(b->repeat, stream, place);
}

#endif
