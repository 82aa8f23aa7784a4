/* A prepared call that never changes and is counted: what a bound call launches. It owns the memory
   of its tensors, not only the objects: one that is re-seated leaves it on the old memory, alive.
   Torch may still move a storage that all its users share: then launches are refused. */
#ifndef AICF_CORE_BLOCK_H
#define AICF_CORE_BLOCK_H

#include "core.h"

/* A tensor that blocks share. Counted; the last one releases it. */
typedef struct kept {
    int64_t references;
    PyObject *object; /* NULL: absent */
    aicf_tensor t;
} kept;

typedef struct block {
    int64_t references;
    aicf_handle *handle;
    aicf_call *call;    /* prepared */
    aicf_call *options; /* as it was before prepare, for the next one */
    const source *lead; /* of the stream, NULL: none */
    uint64_t given;
    bool watches; /* some tensor may move */
    int count;
    kept *tensors[];
} block;

/* A block for the frame's call, whose tensors are still to come. NULL with an exception. */
block *block_create(const frame *f);
/* Shares what `before` has of the parameters in the mask `same`. */
void block_inherit(block *b, const frame *f, const block *before, uint64_t same);
/* Reads the other tensors and prepares the call; the block then owns them. -1 with an exception. */
int block_prepare(block *b, frame *f);
/* What a launch sets, it sets in a copy. -1 with an exception. */
int block_launch(block *b);
/* Requires the GIL; keeps a pending exception. NULL is fine. */
void block_drop(block *b);
int block_traverse(const block *b, visitproc visit, void *arg);

#endif
