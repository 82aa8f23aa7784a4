/* What the files of _core share: the module's state, an op's handle, and the frame of one call.

   The order of a call, in every form: frame_begin sorts the arguments, frame_read (or frame_own)
   turns them into tensors, the form asks the op, frame_end gives everything back. */
#ifndef AICF_CORE_H
#define AICF_CORE_H

#include <aicf/module.h>

#include "dlpack.h"
#include "dtype.h"
#include "threads.h"

/* ---- the module's state ---------------------------------------------------------------------- */

/* Names that are looked up in a call, interned once. */
#define CORE_NAMES(X)            \
    X(__dlpack__)                \
    X(__dlpack_device__)         \
    X(__cuda_array_interface__)  \
    X(__cuda_stream__)           \
    X(__dlpack_c_exchange_api__) \
    X(__torch_dispatch__)        \
    X(max_version)               \
    X(stream)                    \
    X(copy)                      \
    X(requires_grad)             \
    X(is_neg)                    \
    X(detach)                    \
    X(untyped_storage)           \
    X(_cdata)                    \
    X(shape)                     \
    X(typestr)                   \
    X(data)                      \
    X(strides)                   \
    X(mask)                      \
    X(_current_level)            \
    X(base)                      \
    X(obj)                       \
    X(version)                   \
    X(dtype)                     \
    X(device)

typedef enum core_name {
#define CORE_NAME_ENUM(name) NAME_##name,
    CORE_NAMES(CORE_NAME_ENUM)
#undef CORE_NAME_ENUM
        NAME_COUNT
} core_name;

enum { SOURCE_BUCKETS = 64, TORCH_DEVICES = 8 };

typedef struct source source;

typedef struct core_state {
    PyObject *unsupported;   /* aicf_rt.Unsupported */
    PyObject *backend_error; /* aicf_rt.CudaError */
    PyObject *backend_lost;  /* aicf_rt.CudaLost */
    PyTypeObject *call_type;
    PyTypeObject *tensor_type;
    PyTypeObject *spec_type;
    PyTypeObject *stream_type;
    PyTypeObject *event_type;
    PyTypeObject *graph_type;
    PyTypeObject *again_type;
    PyObject *names[NAME_COUNT];
    PyObject *forward_ad;        /* torch.autograd.forward_ad, made once */
    PyObject *increment_version; /* torch.autograd.graph's, made once */
    PyObject *storage_type;      /* torch.UntypedStorage, made once */
    PyObject *numpy_empty;       /* numpy's, made once, as are its dtypes by dtype_index */
    PyObject *numpy_dtypes[DTYPES];
    PyObject *torch_type, *torch_empty, *torch_empty_like; /* Tensor, empty_strided; made once */
    PyObject *torch_options[DTYPES][TORCH_DEVICES];        /* dtype= and device= of a new tensor */
    struct aicf_handle *copies; /* copy()'s own, made once; NULL: not yet */
    PyThread_type_lock lock;    /* of `sources`; no Python runs under it */
    source *sources[SOURCE_BUCKETS];
    int jax_skips_buffers; /* the last array of jax's was one that shows none */
    int numpy_layout;      /* of numpy's structure: 0 not looked at, 1 proved, -1 other than ours */
    int torch_direct;      /* direct.c: 0 not looked at, 1 proved, -1 other than ours */
    int storage_words;     /* words of torch's storages for alias.c: 0 not looked, -1 none */
    bool sync;             /* AICF_DEBUG=sync */
} core_state;

/* Of aicf_rt._core as it is imported now; NULL with an exception set. A new reference to the module
   comes with it. */
core_state *core_import(PyObject **module);

/* ---- type records (source.c) ----------------------------------------------------------------- */

typedef enum framework {
    FRAMEWORK_NONE,
    FRAMEWORK_OWN, /* aicf_rt.Tensor */
    FRAMEWORK_TORCH,
    FRAMEWORK_NUMPY,
    FRAMEWORK_JAX,
    FRAMEWORK_CUPY,
    FRAMEWORK_TVM
} framework;

#define FRAMEWORK_BIT(framework) (1U << (framework))

/* Writes the head of an aicf_tensor; not 0: it refuses, with an exception. */
typedef int reader(void *object, void *tensor);

/* How tensors of one type are read, and whose they are. Learned once; does not change while the
   type lives, and is not freed while the state lives: whoever holds an object of the type may use
   it. It holds its type weakly, and serves another type when that one is gone. */
struct source {
    PyTypeObject *type;          /* NULL: gone; read by source_is */
    reader *read;                /* runs no Python; NULL: ask the protocols */
    const dl_exchange *exchange; /* NULL: none, or not to be trusted */
    uint8_t framework;
    uint8_t bit;     /* FRAMEWORK_BIT of that */
    uint8_t refused; /* aicf_check: no tensor of the type is taken */
    bool linked;     /* into its bucket */
    int references;  /* the table's, and one of what `weak` calls */
    source *next;
    PyObject *weak;
};

/* Whether the record is of that type now. One that is, of an object that the caller holds, stays.
 */
static inline bool
source_is(const source *s, const PyTypeObject *type)
{
#ifdef Py_GIL_DISABLED
    return __atomic_load_n(&s->type, __ATOMIC_ACQUIRE) == type;
#else
    return s->type == type;
#endif
}

/* NULL with an exception set. May run Python. */
const source *source_find(core_state *core, PyObject *object);
/* The record of a type that was met before, or NULL without an exception. */
const source *source_known(core_state *core, const PyTypeObject *type);
/* Whether `type` is a class of a module, or derives from it; not so where nobody imported that. */
bool type_is(PyTypeObject *type, const char *module_name, const char *class_name);
/* A type's exchange API of our version, NULL: none that can be used; *failed with an exception. */
const dl_exchange *exchange_find(const core_state *core, PyTypeObject *type, bool *failed);
void sources_finish(core_state *core);
int sources_traverse(core_state *core, visitproc visit, void *arg);

/* ---- an op opened by a module (handle.c) ----------------------------------------------------- */

struct aicf_handle {
    int64_t references; /* the module's, and one a bound call */
    const aicf_op *op;
    PyObject *module; /* _core: keeps `core` */
    core_state *core;
    PyObject **names;       /* of parameters, of attributes, of options; interned */
    PyObject *index;        /* a dict of the same: which one a name is */
    const source **sources; /* [params]: the type seen there last */
    char *images;           /* [variants]: a call before prepare, op->call_size bytes each; NULL:
                               a call of the op is never of one tensor a parameter alone */
    size_t tensors;         /* where they lie in a frame's room */
    PyObject *result;       /* the NamedTuple of several outs, made once */
    size_t room;            /* bytes of a frame's arrays where there are no lists */
    Py_ssize_t alone;       /* params, -1 where `images` is NULL */
    int64_t brief_work; /* what a launch that is soon over has less of, and the kernels that run */
    uint64_t brief;     /*    on the host with nothing to set, of the first 64 */
    uint64_t warm;      /* kernels that were launched before, by kernel and variant */
    int16_t free_type;  /* which part of a suffix `dtype=` says, -1: none */
    bool plain_call;    /* nothing but tensors is asked for: they may stand as they came */
    bool optional_outs; /* every out is optional */
    bool lone_out;      /* one out, the only thing written; `images` and op->plain are there */
};

/* The options of every call, after the op's own names. */
enum { OPTION_STREAM, OPTION_KERNEL, OPTION_DTYPE, OPTION_WORKSPACE, OPTIONS };

aicf_handle *handle_open(PyObject *module, const aicf_op *op);
/* Of an op without kernels, whose tensors are read and never launched. */
aicf_handle *handle_of_reader(const aicf_op *op);
void handle_close(aicf_handle *handle);
aicf_handle *handle_share(aicf_handle *handle);

/* ---- the frame of one call (frame.c) --------------------------------------------------------- */

typedef enum form {
    FORM_TYPED,   /* outs positional, all there */
    FORM_BIND,    /* as typed, and a workspace may be given */
    FORM_COMPUTE, /* outs by name: a tensor, True to ask for it, or left out */
    FORM_INFER,   /* as compute, and nothing is made: Specs may stand for tensors */
    FORM_EXPLAIN, /* as typed, but outs may be left out; Specs may stand for tensors */
    FORM_SET      /* all by name, any of them; a workspace too */
} form;

enum { SEEN_FAST = 1, SEEN_SLOW = 2, SEEN_ASKED = 4, SEEN_ASKING = 8 };

typedef struct frame {
    aicf_handle *handle;
    const aicf_op *op;
    core_state *core;
    aicf_call *call;
    PyObject **slots;         /* one a parameter, borrowed; NULL: not given */
    PyObject *const *objects; /* one a tensor, borrowed; NULL or None: absent */
    aicf_tensor *t;
    uint8_t *seen;       /* how a tensor was read, while `holds` */
    int16_t *param_of;   /* NULL: tensor i is of parameter i */
    int count;           /* tensors */
    PyObject *workspace; /* as it was given, borrowed; NULL: it was not */
    PyObject *lists;     /* tuples of the list arguments, owned; NULL: none */
    void *heap;          /* of the arrays, where there are lists */
    PyObject **made;     /* outs that were allocated, owned, [outs]; NULL: none */
    uint64_t given;      /* attributes */
    uint64_t wanted;     /* outs that were asked for or given */
    bool holds;          /* tensors may own something */
    bool computes;       /* outs that are missing are not misuse */
    bool infers;         /* outs that are missing are described, not made */
    bool describes;      /* Specs are taken for tensors */
    uintptr_t spec_end;  /* where the last Spec would end; 0: none was met */
    int16_t dtype_part;  /* a variant whose free type is the one that dtype= says */
    bool asked_forward;  /* `forward` holds: torch's forward-mode differentiation is on */
    bool forward;
    bool stream_found;  /* `call->stream` holds */
    aicf_stream stream; /* where the producers' work was ordered to */
    aicf_stream after;  /* a stream that the launch waits for */
    bool waits;
    aicf_status ordered; /* of waits that were queued before the launch */
    aicf_status status;  /* of the arguments themselves: lists of different lengths */
} frame;

static inline int
frame_param(const frame *f, int tensor)
{
    return f->param_of ? f->param_of[tensor] : tensor;
}

static inline const source *
tensor_source(const aicf_tensor *t)
{
    return (const source *)t->source;
}

/* An empty frame in `room`, which has handle->room bytes aligned to 16: its call is not set. */
void frame_init(frame *f, aicf_handle *handle, void *room, form kind);
/* Takes the lists in the slots apart. The arrays are of the heap then; the options sorted so far
   move there. */
int frame_grow(frame *f);
/* Sorts the arguments. 0, or -1 with an exception set and nothing held. */
int frame_begin(
    frame *f, aicf_handle *handle, void *room, int variant, form kind, PyObject *const *args,
    Py_ssize_t nargs, PyObject *kwnames);
/* Turns all objects into tensors: borrowed where the type allows it, valid until Python runs again.
   On -1 nothing of the tensors is held. */
int frame_read(frame *f, bool refuse_gradients);
/* Reads one tensor so that it owns its memory. Requires seen[i] = 0. */
int frame_own_one(frame *f, int tensor);
/* Gives back what the tensors own; they are absent then. */
void frame_drop(frame *f);
void frame_end(frame *f);
/* variant.c: the variant, where dtype= or a given out says it, and f->status where a tensor was
   refused by its reader. Requires the tensors. */
void variant_choose(frame *f);
/* forms.c: chooses the variant and makes the outs that are wanted and not given, or describes them:
   where the form infers, or Specs stand among the arguments. Requires f->made. */
int frame_complete(frame *f);
const char *suffix_part(const char *suffix, int part, size_t *length);

/* What stands behind so many bytes is aligned to 16. */
static inline size_t
rounded(size_t bytes)
{
    return (bytes + 15) & ~(size_t)15;
}

#define FRAME_ROOM(handle) _Alignas(16) char room[(handle)->room]

/* ---- arguments ------------------------------------------------------------------------------- */

/* arguments.c: fills f->slots and the options of f->call. */
int arguments_sort(frame *f, form kind, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
/* attribute.c: a value into its place in the call. */
int attribute_set(aicf_call *call, const aicf_attr *attr, PyObject *value);
/* A number for a scalar. 1: set, 0: it is a tensor, -1 with an exception. Of an array of numpy's of
   no dims both: its number is set, if it is one, and it is a tensor. */
int scalar_set(aicf_call *call, const aicf_attr *attr, PyObject *value);
/* scalar.c: such an array is a tensor no more where the row takes only its number. Requires the
   tensors. */
void scalars_settle(frame *f);
/* options.c: stream=, kernel=, dtype= */
/* A stream as callers name one, of `who` in the texts of errors. -1 with an exception. */
int stream_named(const core_state *core, const char *who, PyObject *value, aicf_stream *stream);
int option_stream(frame *f, PyObject *value);
int option_kernel(frame *f, PyObject *value);
int option_dtype(frame *f, PyObject *value);

/* ---- readers --------------------------------------------------------------------------------- */

/* What a protocol answered. */
typedef enum answer {
    ANSWER_FAILED = -1, /* an exception that is the caller's */
    ANSWER_TAKEN,
    ANSWER_NONE,   /* the object does not speak it */
    ANSWER_REFUSED /* an exception that lets the next protocol try */
} answer;

/* protocol.c: asks one protocol after the other; the tensor owns what it shows. On -1 nothing is
   held. Runs Python. */
int protocol_read(frame *f, int tensor);
/* As reading, and the memory lives until release, whatever becomes of the object. Runs Python. */
int protocol_own(frame *f, int tensor);
/* The current exception, which is a producer's, as it was raised and with a note on which argument
   it is about; always -1. Runs Python. */
int argument_note(const frame *f, int tensor);
/* alias.c: makes `t` a tensor that holds the object's storage. False: it cannot be, and nothing is
   held. Runs Python. */
bool alias_hold(core_state *core, PyObject *object, aicf_tensor *t);
/* The same by an alias, of which torch has to be asked whether it moved. -1, perhaps with an
   exception. Runs Python. */
int alias_own(core_state *core, PyObject *alias, aicf_tensor *t);
/* The storage or the alias that an owned tensor of torch's holds; NULL: none. Borrowed. */
PyObject *alias_object(const aicf_tensor *t);
/* The two words of a storage of torch's that are others once its memory is. */
typedef struct watched {
    void *const *address;
    const size_t *bytes;
    void *address_before;
    size_t bytes_before;
} watched;

static inline bool
watched_stays(const watched *w)
{
    return *w->address == w->address_before && *w->bytes == w->bytes_before;
}

/* Of the storage that the tensor holds; NULL: it holds none, or torch has to be asked. */
const watched *alias_words(const aicf_tensor *t);
/* Whether the memory of such a tensor is another than it was; -1: not known any more. No Python
   runs. */
int alias_moved(const aicf_tensor *t);
/* The same, and where it did not, the tensor as it is now. */
int alias_look(const aicf_tensor *t, aicf_tensor *now);
/* dlpack.c. Of the exception that is set: AttributeError of a look-up is cleared and means that
   there is none; BufferError and TypeError of a call refuse the protocol; all else is raised. */
bool attribute_missing(void);
answer call_refused(void);
answer dlpack_read(frame *f, int tensor);
/* What a framework handed over is the tensor's from now on, also where it is refused. */
answer dlpack_take(const frame *f, int tensor, dl_managed *managed);
/* interface.c: __cuda_array_interface__ */
answer interface_read(frame *f, int tensor);
/* buffer.c */
answer buffer_read(PyObject *object, aicf_tensor *t);
/* Whom a tensor holds through its buffer, for garbage collection; NULL: nobody. Borrowed. */
PyObject *buffer_exporter(const aicf_tensor *t);
/* ml_dtypes.c: arrays of numpy's whose dtype is a package's own. */
enum { NUMPY_REGISTERED = 256 }; /* numpy's numbers of dtypes from there on are of others */
answer ml_dtypes_read(frame *f, int tensor);
/* The dtype by its number, once one was read; 0: not known. Runs no Python. */
aicf_dtype ml_dtypes_known(int number);
/* Of ml_dtypes: the class of the dtype, NULL without an exception where that is not installed. */
PyObject *ml_dtypes_class(aicf_dtype dtype);
/* numpy.c */
bool numpy_proved(core_state *core, PyObject *numpy);
/* A new array, row-major; NULL without an exception: numpy has no such dtype. Runs Python. */
PyObject *numpy_new(core_state *core, aicf_dtype dtype, int rank, const int64_t *sizes);
int numpy_read(void *object, void *tensor);

/* direct.c: what reads tensors of torch's of a type that has this exchange API, and shows what that
   shows. Runs Python. */
reader *torch_reader(core_state *core, const dl_exchange *exchange);

/* torch.c: what torch keeps beside the memory. Runs Python. */
bool torch_may_be_negative(const aicf_tensor *t);
int torch_ask_negative(const core_state *core, PyObject *object, aicf_tensor *t);
/* Whether forward-mode differentiation is on. */
bool torch_ask_forward(core_state *core);
/* Sets *refused where autograd would miss what is done to the tensor; `forward`: that mode is on */
int torch_ask_gradient(const core_state *core, PyObject *object, bool forward, uint8_t *refused);
int torch_written(core_state *core, PyObject *object);
/* New tensors of torch's own; they run Python. Row-major unless the out is ordered. */
PyObject *torch_new(core_state *core, const aicf_inferred *out);
/* As `object`, one of torch's that is dense and row-major; NULL without an exception: it is of a
   subclass, which may answer otherwise. */
PyObject *torch_new_like(core_state *core, PyObject *object);

/* An empty aicf_tensor that only says why it is refused. */
void tensor_refuse(aicf_tensor *t, aicf_check check);
static inline void
tensor_release(aicf_tensor *t)
{
    if (t->release) {
        void (*release)(void *) = t->release;
        t->release = NULL;
        release(t->owner);
    }
}

/* Borrows what an object shows, by its type's own reader. False: there is none, or it refuses; then
   the object is to be asked again in full, and raises again. Runs no Python but where it refuses */
static inline bool
tensor_borrow(const source *s, PyObject *object, aicf_tensor *t)
{
    if (!s || !s->read) {
        return false;
    }
    t->source = s;
    t->dense = false;
    t->read_only = false;
    t->absent = false;
    t->refused = 0;
    t->release = NULL;
    if (s->read(object, t) != 0) {
        PyErr_Clear();
        return false;
    }
    return true;
}

/* ---- outs (allocate.c) ----------------------------------------------------------------------- */

/* A new object for an out, by the framework of `like` (NULL: none). */
PyObject *allocate_out(frame *f, const source *like, aicf_inferred *out);
/* Memory for an out, by the exchange API of `like`, which has an allocator and wraps. `asked`: the
   framework's code ran, and may have run Python. NULL with an exception. */
dl_managed *allocate_managed(const source *like, const aicf_inferred *out, bool *asked);
/* The same as an object; steals `managed`. Runs Python. */
PyObject *allocate_wrap(const source *like, dl_managed *managed);
/* Gives it back; NULL is fine. */
void managed_drop(dl_managed *managed);
/* What the caller gets for it once it is written: arrays of jax and tvm-ffi are made then. Steals
   `object`. */
PyObject *allocate_finish(const source *like, PyObject *object);

/* ---- the launch (launch.c) ------------------------------------------------------------------- */

/* The legacy default stream, as producers know it. */
#define STREAM_DEFAULT ((aicf_stream)(uintptr_t)1)
/* Of each thread another, and so nobody else's to wait for. */
#define STREAM_OF_THREAD ((aicf_stream)(uintptr_t)2)

/* Launches a call that is nobody else's: its stream and workspace are set. `lead`: whose framework
   says which stream is current and gives the workspace, NULL: nobody's. */
aicf_status launch(aicf_handle *handle, aicf_call *call, const source *lead);
/* The same for the call of a frame, after what its producers have queued. */
aicf_status frame_launch(frame *f);
static inline const aicf_backend *
backend_of_call(const aicf_call *call)
{
    const aicf_op *op = call->op;
    return op->backends[op->kernels[call->kernel].backend].backend;
}

/* Whether a launch has to take memory for the kernel: it needs some, and nobody gave it. */
static inline bool
call_lacks_memory(const aicf_call *call)
{
    return call->workspace_size && !call->workspace;
}

/* What takes 50 us lets others run: the slowest elementwise kernel moves this many bytes in that
   time, others compute more a byte (docs/measurements/gil.json). */
enum { LONG_BYTES = 64 * 1024, LONG_BYTES_COMPUTED = 32 * 1024 };

/* Whether a prepared call may be launched by its function alone: on the host, soon over, nothing to
   set and nothing to wait for. */
static inline bool
launch_is_brief(const aicf_handle *handle, const aicf_call *call)
{
    return call->work < handle->brief_work && call->kernel < 64 &&
           handle->brief >> call->kernel & 1 && !call_lacks_memory(call);
}

/* A bit for each kernel and dtype, of handle->warm. */
static inline uint64_t
launch_bit(const aicf_handle *handle, const aicf_call *call)
{
    return UINT64_C(1) << ((call->kernel * handle->op->variants + call->variant) % 64);
}

/* Whether a prepared call on a device lacks but its stream: then backend->launch does all of it,
   and does not take long. A kernel's first launch may. */
static inline bool
launch_is_swift(const aicf_handle *handle, const aicf_call *call, const aicf_backend *backend)
{
    return backend->launch && !call_lacks_memory(call) && !handle->core->sync &&
           __atomic_load_n(&handle->warm, __ATOMIC_RELAXED) & launch_bit(handle, call);
}

/* By that function, answering as aicf_call_launch does. */
static inline aicf_status
launch_swiftly(aicf_launch_fn *function, const aicf_call *call)
{
    aicf_status status = function(call);
    if (status.kind == AICF_BACKEND_ERROR) {
        status.backend = call->op->kernels[call->kernel].backend;
    }
    return status;
}

const aicf_backend *backend_of_device(const aicf_op *op, int32_t type);

/* The current stream, by the function of an exchange API. False: it does not say. */
static inline bool
stream_ask(stream_fn *ask, aicf_device device, aicf_stream *stream)
{
    void *found = NULL;
    if (ask(device.type, device.index, &found) != 0) {
        PyErr_Clear();
        return false;
    }
    *stream = found ? found : STREAM_DEFAULT;
    return true;
}

/* The current stream of the framework, where that is asked without Python; false: it is not. Of
   tensors of ours that no stream of their own is behind, the default one. */
static inline bool
stream_at_once(const source *lead, aicf_device device, aicf_stream *stream)
{
    if (!lead->exchange || !lead->exchange->stream) {
        *stream = STREAM_DEFAULT;
        return lead->framework == FRAMEWORK_OWN;
    }
    return stream_ask(lead->exchange->stream, device, stream);
}

/* stream.c: the first tensor whose framework has streams, NULL: none. */
const source *stream_lead(const aicf_tensor *t, int count);

/* stream.c: the framework's current stream on the device, or the default where nobody says. */
aicf_stream stream_current(const source *lead, aicf_device device);
/* The frame's stream waits for what its producers have queued on others. */
aicf_status frame_order(frame *f, const aicf_backend *backend);
/* The same for one producer, whose work on the device is queued on `theirs`. */
void frame_behind(frame *f, aicf_device device, aicf_stream theirs);
/* Whether frameworks other than the lead's say which of their streams is current. */
bool streams_differ(const aicf_tensor *t, int count, const source *lead);
/* `ours` waits for the current stream of the tensor's framework, unless that is the lead's. */
aicf_status stream_join(
    const aicf_tensor *t, const source *lead, const aicf_backend *backend, aicf_device device,
    aicf_stream ours);
/* The stream that producers order their work to; found once a frame. */
aicf_stream frame_stream(frame *f, aicf_device device);

/* ---- refusals (raise.c) ---------------------------------------------------------------------- */

/* A str of a text of ours. */
PyObject *text_decoded(const char *text);
/* An instance of `class` with the text and the attributes that `names` lists, set as the error.
   Steals the values; a NULL among them is the error that is set. */
void
raise_with(PyObject *class, const char *text, const char *const *names, PyObject *const *values);
/* aicf_rt.CudaError for a backend's own error, 0 where it could not even be asked. `op` and
   `kernel` may be NULL. */
void raise_failed(
    const core_state *core, const aicf_backend *backend, int32_t code, const char *op,
    const char *kernel, const char *text);
/* The exception of a status that is not ok; always NULL. `t` may be NULL for backend errors. */
PyObject *
raise_status(aicf_handle *handle, const aicf_call *call, const aicf_tensor *t, aicf_status status);
/* The same of a frame's call, whose objects can say more. */
PyObject *raise_refusal(const frame *f, aicf_status status);
/* "add: b: ..." as a TypeError; -1. */
int raise_misuse(const aicf_op *op, const char *name, const char *format, ...);

/* Tensor i is None or missing, and must not be: a TypeError, which says where in a list. -1. */
int raise_absent(const frame *f, int i);
/* Adds a word to a list of str, unless it is there. Steals the list; NULL with an exception. */
PyObject *word_add(PyObject *words, const char *word, size_t length);
/* "add: kernel takes one of 'vec', 'loop', not 'fast'" as a TypeError; -1. Steals the list; NULL is
   the error that is set. */
int raise_word(const aicf_op *op, const char *name, PyObject *words, PyObject *value);

/* __reduce_ex__ of types that stand for memory: always a TypeError. */
PyObject *refuse_reduce(PyObject *self, PyObject *protocol);

/* ---- forms (forms.c, bound.c, tensor.c) ------------------------------------------------------ */

/* The typed form: in attempt.c where tensors alone were given that can all be borrowed, else by a
   frame. */
PyObject *form_attempt(
    aicf_handle *handle, int variant, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
PyObject *attempt_framed(
    aicf_handle *handle, int variant, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
/* compute.c: the generic form of tensors that can all be borrowed, with the out by name or without.
   NULL without an exception: it is no such call, and nothing happened. Requires handle->lone_out,
   and the inputs by position. */
PyObject *
compute_borrowed(aicf_handle *handle, PyObject *const *args, PyObject *kwnames, bool asks);
PyObject *
form_compute(aicf_handle *handle, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
/* The same for callers who know that no gradient is wanted and no tangent is there. */
PyObject *
form_unasked(aicf_handle *handle, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
PyObject *
form_explain(aicf_handle *handle, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
PyObject *
form_infer(aicf_handle *handle, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
PyObject *
form_bind(aicf_handle *handle, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
PyObject *bound_run(PyObject *module, PyObject *calls);
extern PyType_Spec bound_spec;
/* graph.c */
PyObject *graph_capture(PyObject *module, PyObject *args, PyObject *kwargs);
extern PyType_Spec graph_spec;
/* layouts.c: where the memory of an object lies, of what and how large: what its owner may change
   in place, as words. The count of them; 0: it has no reader of its own, or more dims. Runs no
   Python but where the reader refuses. */
enum { LAYOUT_DIMS = 8, LAYOUT_WORDS = 4 + 2 * LAYOUT_DIMS };
int layout_read(core_state *core, PyObject *object, int64_t *words);
PyObject *layouts_of(PyObject *module, PyObject *objects);
/* again.c: aicf_rt.Again, which does a run of a prepared program again. */
extern PyType_Spec again_spec;

extern PyType_Spec tensor_spec;
PyObject *tensor_empty(PyObject *module, PyObject *args, PyObject *kwargs);
/* view.c, copy.c */
PyObject *tensor_view(PyObject *module, PyObject *args, PyObject *kwargs);
PyObject *tensor_copy(PyObject *module, PyObject *args, PyObject *kwargs);
/* work.c */
extern PyType_Spec stream_spec, event_spec;
/* Of an aicf_rt.Stream. */
aicf_stream stream_own(PyObject *object);
/* A stream that nobody but graphs ever has, nor anyone else until it is given back. Need no GIL. */
aicf_status stream_take(const aicf_backend *backend, aicf_device device, aicf_stream *stream);
void stream_give(aicf_device device, aicf_stream stream);
/* -1 with an exception of `who`, where the status is none of success. */
int raise_unless(
    const char *who, const core_state *core, const aicf_backend *backend, aicf_status status);
PyObject *work_synchronize(PyObject *module, PyObject *args, PyObject *kwargs);
PyObject *tensor_new(
    core_state *core, aicf_dtype dtype, aicf_device device, aicf_stream stream, int rank,
    const int64_t *sizes, const int64_t *strides);
int tensor_read(void *object, void *tensor);

/* spec.c */
extern PyType_Spec spec_spec;
bool spec_is(PyObject *object);
PyObject *spec_of_inferred(core_state *core, const aicf_inferred *out);
/* Reads the Spec that tensor i is, as a tensor that lies where nothing else does. */
void spec_place(frame *f, int i);

#endif
