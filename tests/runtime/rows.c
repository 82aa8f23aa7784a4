#include "rows.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <aicf/expression.h>
#include <aicf/plain.h>

/* ---- backends and launches ------------------------------------------------------------------ */

struct device_notes device_notes = {0, 0, 0, 90, false};
aicf_status launch_answer;
const aicf_call *launched;

static int
device_arch(aicf_device device)
{
    (void)device;
    return device_notes.arch;
}

static aicf_status
device_enter(aicf_device device, int32_t *previous)
{
    if (device_notes.fails) {
        return (aicf_status){AICF_BACKEND_ERROR, 0, 0, 0, 77};
    }
    *previous = device_notes.current;
    device_notes.current = device.index;
    device_notes.entered++;
    return aicf_ok();
}

static void
device_leave(int32_t previous)
{
    device_notes.current = previous;
    device_notes.left++;
}

static void
device_text(int32_t native, char *text, size_t size)
{
    snprintf(text, size, "deviceError%d", native);
}

const aicf_backend device_backend = {
    .size = sizeof(aicf_backend),
    .version = AICF_BACKEND_VERSION,
    .name = "device",
    .arch = device_arch,
    .enter = device_enter,
    .leave = device_leave,
    .error_text = device_text,
};

static aicf_status
launch(const aicf_call *call)
{
    launched = call;
    return launch_answer;
}

static void
built(void)
{
}

#define LAUNCH {launch, built}
#define NOT_BUILT {launch, NULL}
#define NOT_FOR {NULL, NULL}

/* out = a + b over joint views, any rank. */
static aicf_status
launch_add(const aicf_call *call)
{
    const aicf_view *a = aicf_call_views(call), *b = a + 1, *out = a + 2;
    int64_t total = 1, at[AICF_MAX_RANK] = {0};
    launched = call;
    for (int64_t i = 0; i < out->rank; i++) {
        total *= out->sizes[i];
    }
    for (int64_t n = 0; n < total; n++) {
        int64_t rest = n, to = 0, from_a = 0, from_b = 0;
        for (int64_t i = out->rank - 1; i >= 0; i--) {
            at[i] = rest % out->sizes[i];
            rest /= out->sizes[i];
            to += at[i] * out->strides[i];
            from_a += at[i] * a->strides[i];
            from_b += at[i] * b->strides[i];
        }
        ((float *)out->data)[to] =
            ((const float *)a->data)[from_a] + ((const float *)b->data)[from_b];
    }
    return launch_answer;
}

/* ---- words of descriptors ------------------------------------------------------------------- */

#define PARAM_IN(n) {.name = n, .role = AICF_IN, .list = -1, .order = -1}
#define PARAM_OPTIONAL(n) {.name = n, .role = AICF_IN, .optional = true, .list = -1, .order = -1}
#define PARAM_OUT(n, bits) {.name = n, .role = AICF_OUT, .list = -1, .order = -1, .exact = bits}
#define PARAM_SCALAR(n) {.name = n, .role = AICF_SCALAR, .list = -1, .order = -1}

#define DIM(d) {.kind = AICF_ITEM_DIM, .dim = d, .axis = -1, .keep = -1}
#define PACK(d) {.kind = AICF_ITEM_PACK, .dim = d, .axis = -1, .keep = -1}
#define AXIS(d, a) {.kind = AICF_ITEM_AXIS, .dim = d, .axis = a, .keep = -1}
#define VALUE(f) {.kind = AICF_ITEM_VALUE, .dim = -1, .axis = -1, .keep = -1, .value = f}
#define BROADCAST(...)            \
    {.kind = AICF_ITEM_BROADCAST, \
     .dim = -1,                   \
     .axis = -1,                  \
     .keep = -1,                  \
     .packs = (const int16_t[]){__VA_ARGS__, -1}}
#define REDUCED(d, a, k) {.kind = AICF_ITEM_REDUCED, .dim = d, .axis = a, .keep = k}
#define PERMUTED(d, a) {.kind = AICF_ITEM_PERMUTED, .dim = d, .axis = a, .keep = -1}
#define SHAPE(words, ...)                                                   \
    {.items = (const aicf_item[]){__VA_ARGS__},                             \
     .count = sizeof((const aicf_item[]){__VA_ARGS__}) / sizeof(aicf_item), \
     .text = words}

#define BYTES(...)    \
    (const uint8_t[]) \
    {                 \
        __VA_ARGS__   \
    }
#define COUNT(array) ((int16_t)(sizeof(array) / sizeof *(array)))

#define ROW(which, ins, outputs, scalar_count)                                                    \
    .size = sizeof(aicf_op), .version = AICF_CALL_VERSION, .name = #which, .package = "rows",     \
    .row = "{}", .hash = "", .call_size = (sizeof(row_call) + 15) / 16 * 16,                      \
    .dims_offset = offsetof(row_call, dims), .inputs = ins, .outs = outputs,                      \
    .scalars = scalar_count, .params = (ins) + (outputs) + (scalar_count),                        \
    .params_of = which##_params, .dims = which##_dims, .dim_count = COUNT(which##_dims),          \
    .shapes = which##_shapes, .kernels = which##_kernels, .kernel_count = COUNT(which##_kernels), \
    .infer = aicf_op_infer, .prepare = aicf_op_prepare

static const char *const one_suffix[] = {"f32"};
static const aicf_entry one_entry[] = {LAUNCH};

#define ONE_VARIANT(...) \
    .variants = 1, .dtypes = (const aicf_dtype[]){__VA_ARGS__}, .suffixes = one_suffix

static const aicf_op_backend host_only[] = {
    {&aicf_backend_cpu, (const int32_t[]){1, 0}, 0, 1},
};
#define HOST .backends = host_only, .backend_count = 1

/* A kernel of the host that takes everything dense, by pointers. */
#define DENSE_KERNEL                              \
    {.id = "loop",                                \
     .model = -1,                                 \
     .layouts = BYTES(1, 1, 1, 1, 1, 1, 1, 1, 1), \
     .places = BYTES(0, 0, 0, 0, 0, 0, 0, 0, 0),  \
     .layout_text = "layout dense",               \
     .entries = one_entry}

/* ---- add: broadcast, several backends ------------------------------------------------------- */

static const aicf_param add_params[] = {
    PARAM_IN("a"),
    PARAM_IN("b"),
    {.name = "out", .role = AICF_OUT, .list = -1, .order = 0, .exact = 3},
};
static const aicf_dim add_dims[] = {{"A", AICF_DIM_PACK, 0, 0}, {"B", AICF_DIM_PACK, 0, 0}};
static const aicf_shape add_shapes[] = {
    SHAPE("A..", PACK(0)),
    SHAPE("B..", PACK(1)),
    SHAPE("broadcast(A, B)", BROADCAST(0, 1)),
};

static int
add_vec_guard(const aicf_scope *scope)
{
    return aicf_scope_same_shape(scope, (const int16_t[]){0, 1, -1}) ? -1 : 0;
}

static int
add_wide_guard(const aicf_scope *scope)
{
    const row_call *call = (const row_call *)scope->call;
    return call->dims[0] % 8                                                ? 0
           : !aicf_scope_aligned(scope, 16, (const int16_t[]){0, 1, 2, -1}) ? 1
                                                                            : -1;
}

/* Larger than any size where b is a vector of 7. */
static bool
add_wide_workspace(const aicf_scope *scope, int64_t *bytes)
{
    const row_call *call = (const row_call *)scope->call;
    *bytes = 4 * call->dims[0];
    return call->dims[1] != 7;
}

static const aicf_entry add_no_f64[] = {LAUNCH, LAUNCH, NOT_FOR};
static const aicf_entry add_not_built[] = {NOT_BUILT, NOT_BUILT, NOT_BUILT};
static const aicf_entry add_all[] = {{launch_add, built}, LAUNCH, LAUNCH};

static const aicf_kernel add_kernels[] = {
    {.id = "tma",
     .arch = 90,
     .arch_exact = true,
     .model = -1,
     .layouts = BYTES(2, 2, 2),
     .places = BYTES(0, 0, 0),
     .layout_text = "layout flat",
     .plain = true,
     .entries = add_not_built},
    {.id = "wide",
     .arch = 80,
     .model = -1,
     .layouts = BYTES(1, 1, 1),
     .places = BYTES(0, 0, 0),
     .layout_text = "layout dense",
     .plain = true,
     .asks = true,
     .entries = add_no_f64,
     .guards = (const char *const[]){"A % 8 == 0", "aligned(16, a, b, out)", NULL},
     .guard = add_wide_guard,
     .workspace = add_wide_workspace},
    {.id = "vec",
     .model = -1,
     .layouts = BYTES(2, 2, 2),
     .places = BYTES(0, 0, 0),
     .layout_text = "layout flat",
     .plain = true,
     .entries = add_no_f64,
     .guards = (const char *const[]){"same_shape(a, b)", NULL},
     .guard = add_vec_guard},
    {.id = "strided",
     .model = 2,
     .layouts = BYTES(32, 32, 32),
     .places = BYTES(2, 2, 2),
     .layout_text = "layout strided",
     .lines = 7,
     .plain = true,
     .entries = add_no_f64},
    {.id = "library",
     .backend = 1,
     .model = 2,
     .layouts = BYTES(32, 32, 32),
     .places = BYTES(2, 2, 2),
     .layout_text = "layout strided",
     .lines = 7,
     .plain = true,
     .entries = add_all,
     .asks = true,
     .libs = (const char *const[]){"nowhere_at_all", NULL}},
    {.id = "loop",
     .backend = 1,
     .model = 2,
     .layouts = BYTES(32, 32, 32),
     .places = BYTES(2, 2, 2),
     .layout_text = "layout strided",
     .lines = 7,
     .plain = true,
     .entries = add_all},
};
static const aicf_op_backend add_backends[] = {
    {&device_backend, (const int32_t[]){2, 13, 0}, 0, 4},
    {&aicf_backend_cpu, (const int32_t[]){1, 0}, 4, 6},
};
static bool
add_plain(aicf_tensor *t, aicf_call *call, const aicf_call *begun)
{
    return aicf_plain_prepare(begun ? begun->op : call->op, t, call, begun);
}

const aicf_op add_row = {
    ROW(add, 2, 1, 0),
    .elementwise = true,
    .written = 4,
    .binders = (const uint64_t[]){1, 2},
    .plain = add_plain,
    .variants = 3,
    .dtypes = (const aicf_dtype[]){AICF_F32, AICF_F32, AICF_F32, AICF_F16, AICF_F16, AICF_F16,
                                   AICF_F64, AICF_F64, AICF_F64},
    .suffixes = (const char *const[]){"f32", "f16", "f64"},
    .backends = add_backends,
    .backend_count = 2,
};

/* ---- bias: an axis -------------------------------------------------------------------------- */

static const aicf_param bias_params[] = {PARAM_IN("x"), PARAM_IN("bias"), PARAM_OUT("out", 1)};
static const aicf_dim bias_dims[] = {
    {"L", AICF_DIM_PACK, 0, 0}, {"N", AICF_DIM, 0, 0}, {"R", AICF_DIM_PACK, 0, 0}};
static const aicf_shape bias_shapes[] = {
    SHAPE("L.. N@axis R..", PACK(0), AXIS(1, 0), PACK(2)),
    SHAPE("N", DIM(1)),
    SHAPE("L.. N R..", PACK(0), DIM(1), PACK(2)),
};
static const aicf_kernel bias_kernels[] = {DENSE_KERNEL};
static const aicf_attr axis_attr[] = {
    {.name = "axis", .kind = AICF_ATTR_AXIS, .of = 0, .offset = offsetof(row_call, axis)},
};

static void
axis_one(aicf_call *call)
{
    ((row_call *)call)->axis = 1;
}

const aicf_op bias_row = {
    ROW(bias, 2, 1, 0),
    ONE_VARIANT(AICF_F32, AICF_F32, AICF_F32),
    HOST,
    .attrs = axis_attr,
    .attr_count = 1,
    .defaults = axis_one,
};

/* ---- gemm: matrices, optional arguments, a where -------------------------------------------- */

static const aicf_param gemm_params[] = {
    PARAM_IN("a"), PARAM_IN("b"), PARAM_OPTIONAL("bias"), PARAM_OPTIONAL("c"), PARAM_OUT("out", 8)};
enum { G_A, G_B, G_M, G_N, G_K };
static const aicf_dim gemm_dims[] = {
    {"A", AICF_DIM_PACK, 0, 0},
    {"B", AICF_DIM_PACK, 0, 0},
    {"M", AICF_DIM, 0, 0},
    {"N", AICF_DIM, 0, 0},
    {"K", AICF_DIM, 0, 0}};
static const aicf_shape gemm_shapes[] = {
    SHAPE("A.. M K", PACK(G_A), DIM(G_M), DIM(G_K)),
    SHAPE("B.. K N", PACK(G_B), DIM(G_K), DIM(G_N)),
    SHAPE("N", DIM(G_N)),
    SHAPE("broadcast(A, B) M N", BROADCAST(G_A, G_B), DIM(G_M), DIM(G_N)),
    SHAPE("broadcast(A, B) M N", BROADCAST(G_A, G_B), DIM(G_M), DIM(G_N)),
};

static bool
gemm_where(const aicf_scope *scope)
{
    return aicf_scope_present(scope, 3) || ((const row_call *)scope->call)->real == 0;
}

static int
gemm_guard(const aicf_scope *scope)
{
    return aicf_scope_batches(scope, 0) <= 1 ? -1 : 0;
}

static const aicf_kernel gemm_kernels[] = {
    {.id = "batch",
     .model = 4,
     .layouts = BYTES(24, 24, 1, 8, 8),
     .places = BYTES(3, 3, 0, 3, 3),
     .layout_text = "layout a: row or col",
     .entries = one_entry,
     .guards = (const char *const[]){"batches(a) <= 1", NULL},
     .guard = gemm_guard},
    {.id = "loop",
     .model = 4,
     .layouts = BYTES(24, 24, 1, 8, 8),
     .places = BYTES(3, 3, 0, 3, 3),
     .layout_text = "layout a: row or col",
     .entries = one_entry},
};
static const aicf_op_backend gemm_backends[] = {
    {&aicf_backend_cpu, (const int32_t[]){1, 0}, 0, 2},
};
static const aicf_attr gemm_attrs[] = {
    {.name = "beta",
     .kind = AICF_ATTR_FLOAT,
     .of = -1,
     .offset = offsetof(row_call, real),
     .bounded_below = true,
     .least.real = -8,
     .bounded_above = true,
     .most.real = 8},
    {.name = "act",
     .kind = AICF_ATTR_ENUM,
     .of = -1,
     .offset = offsetof(row_call, word),
     .values = (const char *const[]){"none", "relu", NULL}},
};
const aicf_op gemm_row = {
    ROW(gemm, 4, 1, 0),
    ONE_VARIANT(AICF_F32, AICF_F32, AICF_F32, AICF_F32, AICF_F32),
    .backends = gemm_backends,
    .backend_count = 1,
    .attrs = gemm_attrs,
    .attr_count = 2,
    .wheres = (const aicf_condition[]){{gemm_where, "present(c) or beta == 0", "beta needs c"}},
    .where_count = 1,
};

/* ---- sum: axes; late: a reduced shape before the pack it reduces ---------------------------- */

static const aicf_attr sum_attrs[] = {
    {.name = "axes", .kind = AICF_ATTR_AXES, .of = 0, .offset = offsetof(row_call, axes)},
    {.name = "keepdim", .kind = AICF_ATTR_BOOL, .of = -1, .offset = offsetof(row_call, flag)},
};

static void
all_axes(aicf_call *call)
{
    ((row_call *)call)->axes.count = -1;
}

static const aicf_param sum_params[] = {PARAM_IN("x"), PARAM_OUT("out", 0)};
static const aicf_dim sum_dims[] = {{"A", AICF_DIM_PACK, 0, 0}};
static const aicf_shape sum_shapes[] = {
    SHAPE("A..", PACK(0)), SHAPE("reduced(A, axes, keepdim)", REDUCED(0, 0, 1))};
static const aicf_kernel sum_kernels[] = {
    {.id = "loop",
     .model = -1,
     .layouts = BYTES(32, 1),
     .places = BYTES(1, 0),
     .layout_text = "layout x: strided",
     .entries = one_entry},
};
const aicf_op sum_row = {
    ROW(sum, 1, 1, 0),
    ONE_VARIANT(AICF_F32, AICF_F32),
    HOST,
    .attrs = sum_attrs,
    .attr_count = 2,
    .defaults = all_axes,
};

static const aicf_attr late_attrs[] = {
    {.name = "axes", .kind = AICF_ATTR_AXES, .of = 1, .offset = offsetof(row_call, axes)},
    {.name = "keepdim", .kind = AICF_ATTR_BOOL, .of = -1, .offset = offsetof(row_call, flag)},
};
static const aicf_param late_params[] = {PARAM_IN("gy"), PARAM_IN("x"), PARAM_OUT("gx", 0)};
static const aicf_dim late_dims[] = {{"A", AICF_DIM_PACK, 0, 0}};
static const aicf_shape late_shapes[] = {
    SHAPE("reduced(A, axes, keepdim)", REDUCED(0, 0, 1)), SHAPE("A..", PACK(0)),
    SHAPE("A..", PACK(0))};
static const aicf_kernel late_kernels[] = {DENSE_KERNEL};
const aicf_op late_row = {
    ROW(late, 2, 1, 0),
    ONE_VARIANT(AICF_F32, AICF_F32, AICF_F32),
    HOST,
    .attrs = late_attrs,
    .attr_count = 2,
    .defaults = all_axes,
};

static const aicf_param permute_params[] = {PARAM_IN("x"), PARAM_OUT("out", 0)};
static const aicf_dim permute_dims[] = {{"A", AICF_DIM_PACK, 0, 0}};
static const aicf_shape permute_shapes[] = {
    SHAPE("A..", PACK(0)), SHAPE("permuted(A, axes)", PERMUTED(0, 0))};
static const aicf_kernel permute_kernels[] = {
    {.id = "nhwc",
     .model = -1,
     .layouts = BYTES(4, 1),
     .places = BYTES(0, 0),
     .layout_text = "layout x: nhwc",
     .entries = one_entry},
};
const aicf_op permute_row = {
    ROW(permute, 1, 1, 0),
    ONE_VARIANT(AICF_F32, AICF_F32),
    HOST,
    .attrs = sum_attrs,
    .attr_count = 1,
    .defaults = all_axes,
};

/* ---- concat: a list whose N varies; adam: lists that agree index by index ------------------- */

static const aicf_param concat_params[] = {
    {.name = "xs", .role = AICF_IN, .list = 0, .order = -1}, PARAM_OUT("out", 0)};
enum { C_n, C_L, C_N, C_R };
static const aicf_dim concat_dims[] = {
    {"n", AICF_DIM_LIST, 0, 0},
    {"L", AICF_DIM_PACK, 0, 0},
    {"N", AICF_DIM, true, 0},
    {"R", AICF_DIM_PACK, 0, 0}};

static bool
concat_sum(const aicf_scope *scope, int64_t *value)
{
    return aicf_scope_sum(scope, C_N, value);
}

static const aicf_shape concat_shapes[] = {
    SHAPE("L.. N@axis R..", PACK(C_L), AXIS(C_N, 0), PACK(C_R)),
    SHAPE("L.. sum(N) R..", PACK(C_L), VALUE(concat_sum), PACK(C_R)),
};
static const aicf_kernel concat_kernels[] = {
    {.id = "loop",
     .model = -1,
     .layouts = BYTES(32, 1),
     .places = BYTES(1, 0),
     .layout_text = "layout xs: strided",
     .entries = one_entry},
};
const aicf_op concat_row = {
    ROW(concat, 1, 1, 0),
    ONE_VARIANT(AICF_F32, AICF_F32),
    HOST,
    .has_lists = true,
    .attrs = axis_attr,
    .attr_count = 1,
};

static const aicf_param adam_params[] = {
    {.name = "ps", .role = AICF_INOUT, .list = 0, .order = -1, .exact = 2},
    {.name = "gs", .role = AICF_IN, .list = 0, .order = -1},
    PARAM_SCALAR("lr"),
};
static const aicf_dim adam_dims[] = {{"n", AICF_DIM_LIST, 0, 0}, {"A", AICF_DIM_PACK, true, 0}};
static const aicf_shape adam_shapes[] = {SHAPE("A..", PACK(1)), SHAPE("A..", PACK(1))};
static const aicf_kernel adam_kernels[] = {DENSE_KERNEL};
static const aicf_attr lr_attr[] = {
    {.name = "lr",
     .kind = AICF_ATTR_SCALAR,
     .of = 2,
     .required = true,
     .offset = offsetof(row_call, scalar),
     .bounded_below = true,
     .least.real = 0},
};
const aicf_op adam_row = {
    ROW(adam, 2, 0, 1),
    ONE_VARIANT(AICF_F32, AICF_F32, AICF_F32),
    HOST,
    .has_lists = true,
    .attrs = lr_attr,
    .attr_count = 1,
};

/* ---- conv: a let; loss: two shapes ---------------------------------------------------------- */

static const aicf_param conv_params[] = {PARAM_IN("x"), PARAM_IN("w"), PARAM_OUT("out", 0)};
enum { V_N, V_H, V_R, V_P };

static bool
conv_let(const aicf_scope *scope, int64_t *value)
{
    const row_call *call = (const row_call *)scope->call;
    bool bad = false;
    int64_t padded = aicf_int_add(&bad, call->dims[V_H], aicf_int_mul(&bad, 2, call->pair[0]));
    *value = aicf_int_add(
        &bad, aicf_int_floordiv(&bad, aicf_int_sub(&bad, padded, call->dims[V_R]), call->pair[1]),
        1);
    return !bad;
}

static const aicf_dim conv_dims[] = {
    {"N", AICF_DIM, 0, 0},
    {"H", AICF_DIM, 0, 0},
    {"R", AICF_DIM, 0, 0},
    {"P", AICF_DIM_LET, 0, conv_let}};

static bool
conv_twice(const aicf_scope *scope, int64_t *value)
{
    bool bad = false;
    *value = aicf_int_mul(&bad, 2, ((const row_call *)scope->call)->dims[V_R]);
    return !bad;
}

/* w is 2*R R: the item that binds nothing comes before the one that binds. */
static const aicf_shape conv_shapes[] = {
    SHAPE("N H", DIM(V_N), DIM(V_H)),
    SHAPE("2*R R", VALUE(conv_twice), DIM(V_R)),
    SHAPE("N P", DIM(V_N), DIM(V_P)),
};
static const aicf_kernel conv_kernels[] = {DENSE_KERNEL};
static const aicf_attr conv_attrs[] = {
    {.name = "pad_stride",
     .kind = AICF_ATTR_INTS,
     .size = 2,
     .of = -1,
     .offset = offsetof(row_call, pair)},
};
const aicf_op conv_row = {
    ROW(conv, 2, 1, 0), ONE_VARIANT(AICF_F32, AICF_F32, AICF_F32), HOST, .attrs = conv_attrs,
    .attr_count = 1,
};

static bool
loss_test(const aicf_scope *scope)
{
    return ((const row_call *)scope->call)->word == 0;
}

static const aicf_param loss_params[] = {PARAM_IN("x"), PARAM_OUT("out", 0)};
static const aicf_dim loss_dims[] = {{"A", AICF_DIM_PACK, 0, 0}};
static const aicf_item loss_none[] = {PACK(0)};
static const aicf_shape loss_shapes[] = {
    SHAPE("A..", PACK(0)),
    {.items = loss_none,
     .count = 1,
     .other = loss_none,
     .other_count = 0,
     .test = loss_test,
     .text = "A.. if reduction == 'none' else ()"},
};
static const aicf_kernel loss_kernels[] = {DENSE_KERNEL};
const aicf_op loss_row = {ROW(loss, 1, 1, 0), ONE_VARIANT(AICF_F32, AICF_F32), HOST};

/* ---- scale, fill: scalars; norm: optional outs; pair: a free dtype -------------------------- */

static const aicf_param scale_params[] = {
    PARAM_IN("x"), PARAM_OUT("out", 1), PARAM_SCALAR("factor")};
static const aicf_dim scale_dims[] = {{"A", AICF_DIM_PACK, 0, 0}};
static const aicf_shape scale_shapes[] = {SHAPE("A..", PACK(0)), SHAPE("A..", PACK(0))};
static const aicf_kernel scale_kernels[] = {
    {.id = "loop",
     .model = 1,
     .layouts = BYTES(32, 32, 0),
     .places = BYTES(2, 2, 0),
     .layout_text = "layout strided",
     .entries = one_entry},
};
static const aicf_attr scale_attrs[] = {
    {.name = "factor",
     .kind = AICF_ATTR_SCALAR,
     .of = 2,
     .offset = offsetof(row_call, scalar),
     .bounded_above = true,
     .most.real = 100},
};
const aicf_op scale_row = {
    ROW(scale, 1, 1, 1),
    ONE_VARIANT(AICF_F32, AICF_F32, AICF_F32),
    HOST,
    .elementwise = true,
    .attrs = scale_attrs,
    .attr_count = 1,
};

static const aicf_param fill_params[] = {
    {.name = "x", .role = AICF_INOUT, .list = -1, .order = -1}, PARAM_SCALAR("value")};
static const aicf_dim fill_dims[] = {{"A", AICF_DIM_PACK, 0, 0}};
static const aicf_shape fill_shapes[] = {SHAPE("A..", PACK(0))};
static const aicf_entry fill_entries[] = {LAUNCH, LAUNCH, LAUNCH, LAUNCH};
static const aicf_kernel fill_kernels[] = {
    {.id = "loop",
     .model = 0,
     .layouts = BYTES(32, 0),
     .places = BYTES(2, 0),
     .layout_text = "layout strided",
     .entries = fill_entries},
};
static const aicf_attr fill_attrs[] = {
    {.name = "value", .kind = AICF_ATTR_SCALAR, .of = 1, .offset = offsetof(row_call, scalar)},
};
const aicf_op fill_row = {
    ROW(fill, 1, 0, 1),
    .variants = 4,
    .dtypes = (const aicf_dtype[]){AICF_F32, AICF_F32, AICF_I8, AICF_I8, AICF_U8, AICF_U8,
                                   AICF_BOOL, AICF_BOOL},
    .suffixes = (const char *const[]){"f32", "i8", "u8", "bool"},
    HOST,
    .elementwise = true,
    .attrs = fill_attrs,
    .attr_count = 1,
};

static const aicf_param norm_params[] = {
    PARAM_IN("x"),
    PARAM_OPTIONAL("weight"),
    PARAM_OUT("out", 1),
    {.name = "mean", .role = AICF_OUT, .optional = true, .list = -1, .order = -1}};
static const aicf_dim norm_dims[] = {{"L", AICF_DIM_PACK, 0, 0}, {"N", AICF_DIM, 0, 0}};
static const aicf_shape norm_shapes[] = {
    SHAPE("L.. N", PACK(0), DIM(1)), SHAPE("N", DIM(1)), SHAPE("L.. N", PACK(0), DIM(1)),
    SHAPE("L..", PACK(0))};
static const aicf_kernel norm_kernels[] = {DENSE_KERNEL};
const aicf_op norm_row = {
    ROW(norm, 2, 2, 0), ONE_VARIANT(AICF_F32, AICF_F32, AICF_F32, AICF_F32), HOST};

static const aicf_param pair_params[] = {PARAM_IN("x"), PARAM_IN("index"), PARAM_OUT("out", 0)};
static const aicf_dim pair_dims[] = {{"A", AICF_DIM_PACK, 0, 0}};
static const aicf_shape pair_shapes[] = {
    SHAPE("A..", PACK(0)), SHAPE("A..", PACK(0)), SHAPE("A..", PACK(0))};
static const aicf_entry pair_entries[] = {LAUNCH, LAUNCH, LAUNCH, LAUNCH};
static const aicf_kernel pair_kernels[] = {
    {.id = "loop",
     .model = -1,
     .layouts = BYTES(2, 2, 2),
     .places = BYTES(0, 0, 0),
     .layout_text = "layout flat",
     .entries = pair_entries},
};
const aicf_op pair_row = {
    ROW(pair, 2, 1, 0),
    .variants = 4,
    .dtypes = (const aicf_dtype[]){AICF_F32, AICF_I32, AICF_F32, AICF_F32, AICF_I64, AICF_F32,
                                   AICF_F16, AICF_I32, AICF_F16, AICF_F16, AICF_I64, AICF_F16},
    .suffixes = (const char *const[]){"f32_i32", "f32_i64", "f16_i32", "f16_i64"},
    HOST,
};

/* ---- frames
 * -------------------------------------------------------------------------------------------------------------
 */

aicf_tensor
tensor_of(aicf_dtype dtype, void *data, int rank, const int64_t *sizes, const int64_t *strides)
{
    return (aicf_tensor){.data = data,
                         .device = {1, 0},
                         .rank = rank,
                         .dtype = dtype,
                         .sizes = sizes,
                         .strides = strides};
}

aicf_tensor
absent_tensor(void)
{
    return (aicf_tensor){.absent = true};
}

void
frame_begin(frame *f, const aicf_op *op)
{
    memset(f, 0xa5, sizeof *f);
    aicf_call_init(&f->call.head, op, -1);
}

aicf_status
frame_prepare(frame *f, int count)
{
    for (int i = 0; i < count; i++) {
        aicf_tensor_settle(&f->t[i]);
    }
    return f->call.head.op->prepare(f->t, &f->call.head);
}

const char *
frame_text(frame *f, aicf_status status)
{
    static char text[1024];
    aicf_status_describe(status, &f->call.head, f->t, text, sizeof text);
    return text;
}

const char *
frame_explain(frame *f, int kernel)
{
    static char text[1024];
    aicf_call_explain(f->t, &f->call.head, kernel, text, sizeof text);
    return text;
}

aicf_view *
frame_view(frame *f, int tensor)
{
    return &aicf_call_views(&f->call.head)[tensor];
}
