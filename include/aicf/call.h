/* An op without Python: what it takes, which kernels it has, and a call made ready to launch.

   From C: aicf_call_init, set attributes by name in the op's own structure, `op->prepare`, take
   `workspace_size` bytes if there are any, `aicf_call_launch`. */
#ifndef AICF_CALL_H
#define AICF_CALL_H

#include <aicf/backend.h>

#define AICF_CALL_VERSION 2

typedef struct aicf_op aicf_op;
typedef struct aicf_call aicf_call;
typedef aicf_status aicf_launch_fn(const aicf_call *call);

/* Head of each op's own call structure `aicf_<op>_call`: after it come the attributes and scalars,
   then the dims, and behind the structure, at op->call_size, one view a tensor. A call holds no
   pointer into itself: it may be copied as bytes, aicf_call_bytes of them. */
struct aicf_call {
    uint32_t size; /* op->call_size */
    uint32_t version;
    const aicf_op *op;
    aicf_launch_fn *launch; /* set by prepare; NULL: every out is empty, nothing to do */
    aicf_stream stream;
    aicf_device device;
    int32_t count;     /* tensors over all parameters; more than op->params only with lists */
    int16_t variant;   /* in: which dtypes; -1: find out. out: which */
    int16_t demanded;  /* in: index of the one kernel that may run; -1: any */
    int16_t kernel;    /* out: index of the kernel taken */
    int16_t refused;   /* in: 1 + the attribute whose value is out of its bounds; 0: none */
    bool stream_given; /* else the tensors' framework is asked at each launch */
    bool plain;        /* out: all tensors present are dense and of one shape */
    int64_t work;      /* out: bytes read and written; tells long calls from short ones */
    int64_t workspace_size;
    void *workspace; /* set by the caller between prepare and launch */
};

/* ---- parameters: all that may be a tensor --------------------------------------------------- */

typedef enum aicf_role { AICF_IN, AICF_OUT, AICF_INOUT, AICF_SCALAR } aicf_role;

/* Parameters stand in this order: tensor arguments as in the row, outs, scalars. Parameter i is
   tensor i of a call, unless there are lists: then a list takes as many tensors as its count says
   (aicf_call_start). What is absent still takes its place, marked so. */
typedef struct aicf_param {
    const char *name;
    uint8_t role; /* aicf_role */
    bool optional;
    int16_t list;  /* index of the dim that counts its tensors; -1: not a list */
    int16_t order; /* of an out: the parameter whose memory order an omitted one takes; -1: dense */
    uint64_t exact; /* of an out: bit p: it may be exactly parameter p; else they must be apart */
} aicf_param;

/* ---- dims and shapes ------------------------------------------------------------------------ */

/* A pack's part of the tensor that bound it. */
typedef struct aicf_pack {
    const int64_t *sizes;
    int32_t rank; /* -1: not bound (absent), or not a pack */
} aicf_pack;

/* What the row's expressions are evaluated in. `packs` has one entry a dim. */
typedef struct aicf_scope {
    const aicf_call *call;
    const aicf_tensor *t;
    const aicf_pack *packs;
} aicf_scope;

/* False: overflow or a division by zero. */
typedef bool aicf_value_fn(const aicf_scope *scope, int64_t *value);
/* False also where the value cannot be computed. */
typedef bool aicf_test_fn(const aicf_scope *scope);

typedef enum aicf_dim_kind {
    AICF_DIM,      /* bound by a shape */
    AICF_DIM_PACK, /* a pack: its value is the product of its sizes */
    AICF_DIM_LIST, /* the length of lists: set by the caller before prepare */
    AICF_DIM_LET   /* computed by `value` */
} aicf_dim_kind;

typedef struct aicf_dim {
    const char *name;
    uint8_t kind;
    bool varies; /* differs from one index of a list to the next: has no value in the call */
    aicf_value_fn *value;
} aicf_dim;

typedef enum aicf_item_kind {
    AICF_ITEM_DIM,       /* `dim` */
    AICF_ITEM_PACK,      /* `dim`, any number of dims */
    AICF_ITEM_AXIS,      /* `dim`, standing at the index that attribute `axis` says */
    AICF_ITEM_VALUE,     /* `value`, never binding */
    AICF_ITEM_BROADCAST, /* of `packs`, ended by -1; those that are absent are left out */
    AICF_ITEM_REDUCED,   /* of pack `dim` over the axes of attribute `axis`; `keep`: the bool
                            attribute that keeps them as 1, or -1 */
    AICF_ITEM_PERMUTED   /* of pack `dim` by attribute `axis` */
} aicf_item_kind;

typedef struct aicf_item {
    uint8_t kind;
    int16_t dim, axis, keep;
    aicf_value_fn *value;
    const int16_t *packs;
} aicf_item;

/* The shape of one parameter. With `test`, `items` where it holds and `other` where not. The first
   present parameter in order whose shape mentions a dim or pack binds it; all later ones must
   agree. */
typedef struct aicf_shape {
    const aicf_item *items;
    const aicf_item *other;
    aicf_test_fn *test;
    int16_t count, other_count;
    const char *text; /* as in the row */
} aicf_shape;

/* ---- attributes ----------------------------------------------------------------------------- */

typedef enum aicf_attr_kind {
    AICF_ATTR_BOOL,  /* bool */
    AICF_ATTR_INT,   /* int64_t */
    AICF_ATTR_FLOAT, /* double */
    AICF_ATTR_ENUM,  /* int: the index into `values` */
    AICF_ATTR_INTS,  /* int64_t[size]; one number stands for all */
    AICF_ATTR_AXIS,  /* int64_t, folded by prepare against the rank of parameter `of` */
    AICF_ATTR_AXES,  /* aicf_ints, folded likewise */
    AICF_ATTR_SCALAR /* aicf_scalar; `of` is its own parameter */
} aicf_attr_kind;

/* An attribute or scalar: where its value lies in the op's call structure, and what it may be. */
typedef struct aicf_attr {
    const char *name;
    uint8_t kind;
    uint8_t size;
    bool required; /* has no default */
    bool bounded_below, bounded_above;
    int16_t of;
    uint32_t offset;
    union {
        int64_t integer;
        double real;
    } least, most; /* the member that the kind uses: integer for BOOL, INT, INTS, AXIS, AXES and an
                      integer scalar, real for FLOAT and a float scalar */
    const char *const *values; /* of ENUM, NULL at the end */
} aicf_attr;

/* ---- kernels -------------------------------------------------------------------------------- */

/* A set of layouts that a kernel takes for a parameter. */
enum {
    AICF_LAYOUT_DENSE = 1,   /* row-major without gaps */
    AICF_LAYOUT_FLAT = 2,    /* all flat ones of the kernel without gaps, in one same order */
    AICF_LAYOUT_NHWC = 4,    /* rank 4, channels last without gaps */
    AICF_LAYOUT_ROW = 8,     /* last dim has unit stride; any pitch and batch strides */
    AICF_LAYOUT_COL = 16,    /* last dim but one has unit stride; likewise */
    AICF_LAYOUT_STRIDED = 32 /* anything */
};

/* How a parameter reaches the launcher. */
typedef enum aicf_place {
    AICF_PLACE_POINTER, /* view.data alone is set */
    AICF_PLACE_OWN,     /* its own dims, unmerged, at most AICF_MAX_RANK */
    AICF_PLACE_JOINT,   /* broadcast to the shape of `model`, dims of size 1 dropped and neighbours
                           merged where all joint parameters allow; rank at least 1 */
    AICF_PLACE_MATRIX   /* the last two dims as they are; those before broadcast to the model's and
                           merged as in JOINT, rank at least 2 and the same for all */
} aicf_place;

/* A kernel for one variant. `launcher` is NULL where it was not built. */
typedef struct aicf_entry {
    aicf_launch_fn *launch;
    void (*launcher)(void);
} aicf_entry;

typedef struct aicf_kernel {
    const char *id;
    uint8_t backend; /* index into op->backends */
    bool bitwise;    /* the same bits at every run */
    bool arch_exact; /* sm_90a: that arch alone; else that one or later */
    int16_t arch;    /* 80, 90, ...; 0: any */
    int16_t model;   /* the parameter whose shape JOINT and MATRIX are broadcast to; -1: none */
    const uint8_t *layouts;  /* one a parameter */
    const uint8_t *places;   /* one a parameter: aicf_place */
    const char *layout_text; /* as in the row, for explain: "layout flat" */
    uint64_t lines;          /* bit p: a view of parameter p is one dim where all are plain */
    bool plain;              /* it takes plain tensors whatever their rank, as pointers and lines */
    bool asks;               /* then too it has guards, a workspace or libraries to look at */
    const aicf_entry *entries;             /* one a variant; `launch` NULL: not for these dtypes */
    const char *const *guards;             /* texts, NULL at the end; NULL: none */
    int (*guard)(const aicf_scope *scope); /* the first guard that fails, or -1; NULL: none */
    aicf_value_fn *workspace;              /* bytes; NULL: none */
    const char *const *libs; /* opened at first selection, NULL at the end; NULL: none */
} aicf_kernel;

typedef struct aicf_op_backend {
    const aicf_backend *backend;
    const int32_t *devices; /* DLPack device types that it serves, 0 at the end */
    int16_t first, end;     /* its kernels */
} aicf_op_backend;

/* ---- the op --------------------------------------------------------------------------------- */

typedef struct aicf_condition {
    aicf_test_fn *test;
    const char *text;    /* as in the row */
    const char *message; /* what must hold, for people */
} aicf_condition;

/* An out as the row's relations give it. */
typedef struct aicf_inferred {
    aicf_dtype dtype;
    aicf_device device;
    int32_t rank;
    bool ordered; /* strides are set; else row-major */
    int64_t sizes[AICF_MAX_DIMS];
    int64_t strides[AICF_MAX_DIMS];
} aicf_inferred;

struct aicf_op {
    uint32_t size;
    uint32_t version; /* AICF_CALL_VERSION */
    const char *name;
    const char *package;
    const char *row;                       /* the row as JSON */
    const char *hash;                      /* of the row */
    uint32_t call_size;                    /* of aicf_<op>_call, a multiple of 16 */
    uint32_t dims_offset;                  /* of the first dim in it */
    int16_t inputs, outs, scalars, params; /* params is the sum of the three */
    int16_t variants;
    int16_t dim_count, attr_count, where_count, kernel_count, backend_count;
    bool has_lists;
    bool elementwise; /* every shape is one pack, or a broadcast of packs: `plain` answers it */
    uint64_t written; /* bit p: parameter p is an out or inout; of the first 64 */
    const uint64_t *binders; /* [dim_count]: bit p: argument p binds the pack; NULL: no `plain` */
    const aicf_param *params_of; /* [params] */
    const aicf_dtype *dtypes;    /* [variants][params]; 0: any */
    const char *const *suffixes; /* [variants] */
    const aicf_dim *dims;
    const aicf_shape *shapes; /* [inputs + outs] */
    const aicf_attr *attrs;   /* attributes and scalars as in the row */
    const aicf_condition *wheres;
    const aicf_kernel *kernels; /* grouped by backend, in the row's order within each */
    const aicf_op_backend *backends;
    void (*defaults)(aicf_call *call); /* NULL: no attributes */
    /* Dtypes, shapes and memory order of all outs from the arguments; requires the inputs' tensors
       and attributes, and a call that may be written to as prepare does. */
    aicf_status (*infer)(const aicf_tensor *t, aicf_call *call, aicf_inferred *outs);
    /* Checks everything, unifies the dims, picks the kernel, places its views and sizes the
       workspace. On a status other than ok the call is as good as uninitialised. Folds axes in
       place: prepare a copy if the same attributes shall be prepared again. */
    aicf_status (*prepare)(const aicf_tensor *t, aicf_call *call);
    /* The short way of prepare, for the call that is made most: a known variant, and tensors that
       are plain: dense, of one shape and on one device. They need not be settled, and are where
       this is true. False: it is another call, or something is wrong with it; settle the tensors
       and prepare then says which. What this takes, prepare takes too, with the same result. The
       call is first made a copy of `begun`, if that is not NULL. NULL:
       the row has other than elementwise shapes. */
    bool (*plain)(aicf_tensor *t, aicf_call *call, const aicf_call *begun);
    const char *code; /* aicf_op_code */
};

/* What device code is linked into the module: "sm_80 sm_90 compute_90", the last of them PTX. From
   the build; its address is NULL where there is none. */
extern const char aicf_op_code[] __attribute__((weak, visibility("hidden")));

/* The bytes of a call of `count` tensors, its views included. */
static inline size_t
aicf_call_bytes(const aicf_op *op, int count)
{
    return op->call_size + (size_t)count * sizeof(aicf_view);
}

static inline aicf_view *
aicf_call_views(const aicf_call *call)
{
    return (aicf_view *)((char *)call + call->size);
}

static inline int64_t *
aicf_call_dims(const aicf_call *call)
{
    return (int64_t *)((char *)call + call->op->dims_offset);
}

/* An empty call of one variant, or of any (-1): attributes at their defaults, lists empty. */
void aicf_call_init(aicf_call *call, const aicf_op *op, int variant);

/* The first tensor of parameter `param`, and how many it has. */
int aicf_call_start(const aicf_call *call, int param);
int aicf_call_count(const aicf_call *call, int param);

/* The views of a list parameter, for launch functions. */
aicf_list aicf_call_list(const aicf_call *call, int param);

/* op->infer and op->prepare of every op; a row could have its own. */
aicf_status aicf_op_infer(const aicf_tensor *t, aicf_call *call, aicf_inferred *outs);
aicf_status aicf_op_prepare(const aicf_tensor *t, aicf_call *call);

/* What op->plain asks of the runtime: whether the call's device is one that the kernel is for; its
   guards hold, its workspace has a size, which the call then has, and its libraries are there;
   every attribute is within its bounds. */
bool aicf_call_arch_fits(const aicf_call *call, const aicf_kernel *kernel);
bool aicf_call_holds(aicf_call *call, const aicf_kernel *kernel, const aicf_scope *scope);
bool aicf_call_attributes_hold(aicf_call *call, const aicf_tensor *t);

/* Runs the kernel on call->stream with the call's device current, and puts the caller's back. */
aicf_status aicf_call_launch(const aicf_call *call);

/* One line on kernel `index` of a call, prepared or not: "vec: fits", "vec: K % 8 == 0: K = 30",
   "wgmma: not built for this arch"; of a CPU kernel that fits also the build that the loader took:
   "loop: fits (x86-64-v3)". Returns whether it fits. */
bool
aicf_call_explain(const aicf_tensor *t, const aicf_call *call, int index, char *text, size_t size);

/* The text of an unsupported status or a backend error: names op and argument, what came, what is
   allowed. At most `size` bytes with the NUL. */
void aicf_status_describe(
    aicf_status status, const aicf_call *call, const aicf_tensor *t, char *text, size_t size);

/* ---- what expressions may ask --------------------------------------------------------------- */

int64_t aicf_scope_numel(const aicf_scope *scope, int param);
bool aicf_scope_present(const aicf_scope *scope, int param);
bool aicf_scope_same_shape(const aicf_scope *scope, const int16_t *params); /* -1 at the end */
bool aicf_scope_aligned(const aicf_scope *scope, int64_t bytes, const int16_t *params);
bool aicf_scope_stride(const aicf_scope *scope, int param, int64_t index, int64_t *stride);
int64_t aicf_scope_batches(const aicf_scope *scope, int param);
/* Over the indices of the list that binds the varying dim. */
bool aicf_scope_sum(const aicf_scope *scope, int dim, int64_t *sum);
bool aicf_scope_broadcast_numel(const aicf_scope *scope, const int16_t *packs, int64_t *numel);

/* ---- libraries that kernels open ------------------------------------------------------------ */

/* A symbol of a library named in a row's `libs`, opened at first use: by AICF_LIB_<NAME> if set,
   else by its usual sonames. NULL if there is none. */
#ifdef __cplusplus
extern "C" {
#endif
void *aicf_lib_symbol(const char *lib, const char *symbol);
#ifdef __cplusplus
}
#endif

/* ---- threads of CPU kernels ----------------------------------------------------------------- */

/* Calls body(context, begin, end) for parts of [0, count), at most AICF_THREADS or OMP_NUM_THREADS
   or the processors of this process at once, each part a multiple of `grain` but the last. Which
   parts there are depends on `count` and `grain` alone, never on the number of threads. */
void aicf_parallel_for(
    int64_t count, int64_t grain, void (*body)(void *context, int64_t begin, int64_t end),
    void *context);

#endif
