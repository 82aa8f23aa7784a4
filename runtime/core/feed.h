/* What a graph is fed before each launch: bytes of the host, as they are at that moment. */
#ifndef AICF_CORE_FEED_H
#define AICF_CORE_FEED_H

#include "block.h"

enum { FEED_BYTES = 64 * 1024 }; /* a copy of more may wait for the device */

/* A backend that takes the bytes at the call needs no more. Where they are copied, host memory may
   be in use until the stream has come to its copy: so each launch has a slot of its own, and a slot
   is not written again before the device is past it. */
typedef struct ring ring;

typedef struct feed {
    PyObject *pair; /* as it was given, NULL: there is no feed */
    block *copy;    /* its tensors */
    int64_t bytes;
    bool writes; /* nothing was ever copied */
    ring *slots; /* of copies; NULL: none was made yet */
} feed;

/* Of a pair (host, out) for a graph on that device; fills `f`, which is all 0. -1 with an
   exception, and then holds nothing. */
int feed_init(
    feed *f, const core_state *core, const aicf_backend *backend, aicf_device device,
    PyObject *pair);
/* Whether the next launch may have to wait for the device. */
bool feed_waits(const feed *f);
/* Takes the bytes and queues their way to the device. Needs no GIL. */
aicf_status
feed_queue(feed *f, const aicf_backend *backend, aicf_device device, aicf_stream stream);
/* After the launch, on the same stream. Launches on others have to come after it. */
aicf_status feed_mark(feed *f, const aicf_backend *backend, aicf_device device, aicf_stream stream);
/* `last`: where the last launch is, NULL: there was none. Waits for nothing. */
void feed_finish(feed *f, const aicf_backend *backend, aicf_stream last);

#endif
