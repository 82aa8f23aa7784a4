/* A backend as data: what the launch path needs of it. Nothing outside a backend's own files asks
   for a device type; a device type in no table is refused. */
#ifndef AICF_BACKEND_H
#define AICF_BACKEND_H

#include <aicf/tensor.h>

#define AICF_BACKEND_VERSION 5

typedef struct aicf_stream_s *aicf_stream; /* the backend's own handle, never looked into */

typedef struct aicf_event_s *aicf_event; /* likewise: a moment in a stream's work */

typedef struct aicf_graph_s *aicf_graph; /* likewise: work that was queued once and runs as one */

typedef struct aicf_node_s *aicf_node; /* likewise: a piece of that, while it is queued */

struct aicf_call; /* aicf/call.h */

/* Functions that may be NULL say so; then the backend has no such notion. `status.backend` is
   filled in by the caller. None of them leaves an error behind that it did not report, nor takes
   one that it did not cause. */
typedef struct aicf_backend {
    uint32_t size;
    uint32_t version;
    const char *name;
    bool host; /* launches run to their end in the calling thread, on memory that the host reads */

    /* NULL if it can be used; else why not, in words for a person ("no CUDA driver: ..."). */
    const char *(*unusable)(void);
    /* Ten times the compute capability of the device, -1 if unknown. NULL: kernels have no arch. */
    int (*arch)(aicf_device device);
    /* Makes the device current for this thread and says which was, which leave puts back. NULL:
       none. */
    aicf_status (*enter)(aicf_device device, int32_t *previous);
    void (*leave)(int32_t previous);
    /* Memory that is ordered by the stream, from the first use after to the last use before. */
    aicf_status (*allocate)(aicf_device device, aicf_stream stream, int64_t bytes, void **memory);
    aicf_status (*release)(aicf_device device, aicf_stream stream, void *memory);
    /* Work queued on `stream` from now on runs after what is queued on `other` now. NULL: none. */
    aicf_status (*wait)(aicf_device device, aicf_stream stream, aicf_stream other);
    aicf_status (*synchronize)(aicf_device device, aicf_stream stream);
    /* The name of a native error, what it means, what helps; at most `size` bytes with the NUL. */
    void (*error_text)(int32_t native, char *text, size_t size);
    /* The device that memory of unknown origin is on. NULL: nobody knows. */
    aicf_status (*locate)(const void *memory, aicf_device *device);
    /* Enters the call's device, launches, leaves: what these three do, where one function does it
       faster. Requires call->launch. NULL: they are called one after the other. */
    aicf_status (*launch)(const struct aicf_call *call);
    /* While it is on, nothing happens on this thread but launches by `launch`, one after the other:
       what one has found out holds for the next. NULL: nothing is kept. */
    void (*series)(bool on);

    /* What programs above the ops ask for; none of it is part of a call. */

    /* Copies within the device's memory, or between it and the host's, in the order of the stream.
       Host memory is in use until the stream is synchronised. NULL: nothing is copied. */
    aicf_status (*copy)(
        aicf_device device, aicf_stream stream, void *to, const void *from, int64_t bytes);
    /* A stream that waits for no other and that no other waits for. It is never destroyed: memory
       is given back in the order of the stream that it was taken on. NULL: there are no streams. */
    aicf_status (*create_stream)(aicf_device device, aicf_stream *stream);
    /* Events that know when they came. `elapsed` waits for both to come. NULL: nothing is timed. */
    aicf_status (*create_event)(aicf_device device, aicf_event *event);
    aicf_status (*record_event)(aicf_device device, aicf_stream stream, aicf_event event);
    aicf_status (*elapsed)(aicf_device device, aicf_event from, aicf_event to, double *seconds);
    aicf_status (*destroy_event)(aicf_device device, aicf_event event);
    /* Graphs: all five, or NULL where there are none. From here on what this thread queues on
       `stream`, which is one of create_stream's, is kept and does not run; only launches and copies
       are queued there. Other threads and other streams go on as they would, but that a wait for
       the whole device may be refused. */
    aicf_status (*begin_graph)(aicf_device device, aicf_stream stream);
    /* Ends that in any case, and makes a graph of what was kept. *graph is NULL or one that was
       made before: with `change` that one is changed to launch what was kept, if it can be, and
       else another is made, which *changed says; a launch that is under way goes on with what was.
       On failure *graph is as it was. NULL `graph`: what was kept is thrown away. */
    aicf_status (*end_graph)(
        aicf_device device, aicf_stream stream, aicf_graph *graph, bool change, bool *changed,
        int64_t *nodes);
    /* Whether one that failed with that error was spoiled by what another thread did meanwhile, so
       that the next may succeed. */
    bool (*spoiled_graph)(int32_t native);
    /* Behind what is queued on the stream, and behind the graph's launches before. One thread at a
       time calls it for one graph. */
    aicf_status (*launch_graph)(aicf_device device, aicf_stream stream, aicf_graph graph);
    /* Also while it runs: it then runs to its end. */
    aicf_status (*destroy_graph)(aicf_device device, aicf_graph graph);
    /* Orders other than that of a stream, between begin_graph and end_graph; both NULL: there are
       none. What would be queued next follows *count pieces, of which the first `room` are put into
       `leaves`. */
    aicf_status (*graph_leaves)(
        aicf_device device, aicf_stream stream, aicf_node *leaves, int64_t room, int64_t *count);
    /* It follows those instead, and nothing else. Without `early` it starts when all of them have
       ended, whatever it says of itself. */
    aicf_status (*graph_after)(
        aicf_device device, aicf_stream stream, const aicf_node *after, int64_t count, bool early);

    /* Writes bytes of the host to the device's memory, in the order of the stream. They are taken
       at the call: the host's memory is free when it returns. AICF_UNSUPPORTED: so many, or these
       places, are only copied, and nothing was done. NULL: all are. */
    aicf_status (*write)(
        aicf_device device, aicf_stream stream, void *to, const void *from, int64_t bytes);
    /* As allocate, for memory that is written to; `release` takes it back. AICF_UNSUPPORTED: there
       is none of so many bytes. NULL: any memory will do. */
    aicf_status (*allocate_written)(
        aicf_device device, aicf_stream stream, int64_t bytes, void **memory);
} aicf_backend;

#endif
