/* prepare: what it accepts, what it refuses, and whom it blames. */
#include "check.h"
#include "rows.h"

#include <math.h>
#include <stdio.h>

#include <aicf/explain.h>

static float data[4096];
static frame f;

static void
refused(aicf_status status, int check, int arg, int native)
{
    CHECK_INT(status.kind, AICF_UNSUPPORTED);
    CHECK_INT(status.check, check);
    CHECK_INT(status.arg, arg);
    CHECK_INT(status.native, native);
}

static void
accepted(aicf_status status)
{
    if (status.kind) {
        CHECK_TEXT(frame_text(&f, status), "it was to be accepted");
    }
}

static aicf_status
add(aicf_tensor a, aicf_tensor b, aicf_tensor out)
{
    frame_begin(&f, &add_row);
    f.t[0] = a;
    f.t[1] = b;
    f.t[2] = out;
    return frame_prepare(&f, 3);
}

static aicf_tensor
on(int type, int index, aicf_tensor t)
{
    t.device = (aicf_device){type, index};
    return t;
}

TEST(add_plain, "")
{
    for (int i = 0; i < 12; i++) {
        data[i] = (float)i;
        data[100 + i] = 1;
    }
    accepted(add(F32(data, 3, 4), F32(data + 100, 3, 4), F32(data + 200, 3, 4)));
    CHECK(f.call.head.plain);
    CHECK_INT(f.call.head.variant, 0);
    CHECK_INT(f.call.head.kernel, 5);
    CHECK_INT(f.call.head.work, 3 * 48);
    CHECK_INT(f.call.dims[0], 12);
    CHECK_INT(frame_view(&f, 0)->rank, 1);
    CHECK_INT(frame_view(&f, 0)->sizes[0], 12);
    CHECK_INT(frame_view(&f, 0)->strides[0], 1);
    CHECK_INT(aicf_call_launch(&f.call.head).kind, AICF_OK);
    CHECK(data[200] == 1 && data[211] == 12);
}

TEST(add_broadcast, "T2")
{
    accepted(add(F32(data, 2, 1, 4), F32(data + 100, 3, 1), F32(data + 200, 2, 3, 4)));
    CHECK(!f.call.head.plain);
    CHECK_INT(frame_view(&f, 2)->rank, 3);
    CHECK_INT(frame_view(&f, 0)->strides[0], 4);
    CHECK_INT(frame_view(&f, 0)->strides[1], 0);
    CHECK_INT(f.call.dims[0], 8);
    CHECK_INT(f.call.dims[1], 3);
    accepted(
        add(F32(data, 2, 3, 4), tensor_of(AICF_F32, data + 100, 0, NULL, NULL),
            F32(data + 200, 2, 3, 4)));
    CHECK_INT(frame_view(&f, 2)->rank, 1);
    CHECK_INT(frame_view(&f, 2)->sizes[0], 24);
    CHECK_INT(frame_view(&f, 1)->strides[0], 0);
    refused(
        add(F32(data, 2, 3), F32(data + 100, 4), F32(data + 200, 2, 4)), AICF_CHECK_SHAPE, 2, 0);
    refused(add(F32(data, 3), F32(data + 100, 3), F32(data + 200, 1, 3)), AICF_CHECK_SHAPE, 2, 0);
}

TEST(add_one_element, "T4")
{
    accepted(add(F32(data, 1, 1), F32(data + 100, 1, 1), F32(data + 200, 1, 1)));
    CHECK_INT(frame_view(&f, 0)->rank, 1);
    CHECK_INT(frame_view(&f, 0)->strides[0], 0);
    accepted(add(F32(data, 1, 1), F32(data + 100, 1), F32(data + 200, 1, 1)));
    CHECK_INT(frame_view(&f, 0)->rank, 1);
    CHECK_INT(frame_view(&f, 0)->strides[0], 0);
}

TEST(add_dtypes, "FAULT-14 D4")
{
    aicf_tensor half = tensor_of(AICF_F16, data, SIZES(4), NULL);
    aicf_tensor whole = tensor_of(AICF_I64, data, SIZES(4), NULL);
    refused(add(F32(data, 4), half, F32(data + 100, 4)), AICF_CHECK_DTYPE, 1, 0);
    CHECK_TEXT(frame_text(&f, aicf_unsupported(AICF_CHECK_DTYPE, 1, 0)), "add: b: its dtype");
    CHECK_TEXT(
        frame_text(&f, aicf_unsupported(AICF_CHECK_DTYPE, 1, 0)),
        "with a f32; got f16 (4,) on cpu");
    refused(add(half, half, F32(data + 100, 4)), AICF_CHECK_DTYPE, 2, 0);
    refused(add(whole, whole, whole), AICF_CHECK_DTYPE, 0, 0);
    CHECK_TEXT(
        frame_text(&f, aicf_unsupported(AICF_CHECK_DTYPE, 0, 0)),
        "allowed: f32, f16, f64; got i64 (4,) on cpu");
    frame_begin(&f, &add_row);
    f.call.head.variant = 1;
    f.t[0] = f.t[1] = f.t[2] = F32(data, 4);
    refused(frame_prepare(&f, 3), AICF_CHECK_DTYPE, 0, 0);
    CHECK_TEXT(frame_text(&f, aicf_unsupported(AICF_CHECK_DTYPE, 0, 0)), "allowed: f16; got f32");
}

TEST(two_variables, "FAULT-14")
{
    frame_begin(&f, &pair_row);
    f.t[0] = tensor_of(AICF_F16, data, SIZES(4), NULL);
    f.t[1] = tensor_of(AICF_I64, data + 100, SIZES(4), NULL);
    f.t[2] = tensor_of(AICF_F16, data + 200, SIZES(4), NULL);
    accepted(frame_prepare(&f, 3));
    CHECK_INT(f.call.head.variant, 3);
    frame_begin(&f, &pair_row);
    f.t[0] = tensor_of(AICF_F16, data, SIZES(4), NULL);
    f.t[1] = tensor_of(AICF_U8, data + 100, SIZES(4), NULL);
    f.t[2] = tensor_of(AICF_F16, data + 200, SIZES(4), NULL);
    refused(frame_prepare(&f, 3), AICF_CHECK_DTYPE, 1, 0);
}

TEST(devices, "A4 FAULT-6 T16")
{
    aicf_tensor a = F32(data, 8), b = F32(data + 100, 8), out = F32(data + 200, 8);
    refused(add(on(2, 0, a), on(2, 1, b), on(2, 0, out)), AICF_CHECK_DEVICE, 1, 0);
    CHECK_TEXT(
        frame_text(&f, aicf_unsupported(AICF_CHECK_DEVICE, 1, 0)),
        "add: b: all tensors must be on one device; a is on cuda:0; got f32 (8,) on cuda:1");
    refused(add(a, on(2, 0, b), out), AICF_CHECK_DEVICE, 1, 0);
    for (int type = 0; type <= 18; type++) {
        aicf_status status = add(on(type, 1, a), on(type, 1, b), on(type, 1, out));
        bool served = type == 1 || type == 2 || type == 13;
        CHECK_INT(status.check, served ? AICF_CHECK_NONE : AICF_CHECK_BACKEND);
        if (!served) {
            CHECK_TEXT(frame_text(&f, status), "no backend of rows serves its device");
        }
    }
    CHECK_TEXT(frame_text(&f, add(on(10, 0, a), on(10, 0, b), on(10, 0, out))), "on rocm:0");
    CHECK_TEXT(frame_text(&f, add(on(-4, 0, a), on(-4, 0, b), on(-4, 0, out))), "unknown type -4");
}

TEST(launch_device, "A4")
{
    aicf_tensor a = F32(data, 8), b = F32(data + 100, 8), out = F32(data + 200, 8);
    device_notes.current = 5;
    accepted(add(on(2, 1, a), on(2, 1, b), on(2, 1, out)));
    CHECK_INT(device_notes.entered, 0);
    CHECK_INT(f.call.head.kernel, 1);
    CHECK_INT(f.call.head.workspace_size, 32);
    CHECK_INT(aicf_call_launch(&f.call.head).kind, AICF_INTERNAL); /* nobody gave the workspace */
    f.call.head.workspace = data + 300;
    CHECK_INT(aicf_call_launch(&f.call.head).kind, AICF_OK);
    CHECK_INT(device_notes.entered, 1);
    CHECK_INT(device_notes.left, 1);
    CHECK_INT(device_notes.current, 5);
    launch_answer = (aicf_status){AICF_BACKEND_ERROR, 9, 0, 0, 4};
    aicf_status status = aicf_call_launch(&f.call.head);
    CHECK_INT(status.backend, 0);
    CHECK_INT(device_notes.left, 2);
    CHECK_TEXT(frame_text(&f, status), "add: kernel wide failed: deviceError4 (on cuda:1)");
    launched = NULL;
    device_notes.fails = true;
    CHECK_INT(aicf_call_launch(&f.call.head).native, 77);
    CHECK(!launched);
    CHECK_INT(device_notes.left, 2);
}

TEST(selection, "FAULT-16 FAULT-17")
{
    aicf_tensor a = on(2, 0, F32(data, 8)), out = on(2, 0, F32(data + 200, 8));
    /* `wide` sizes its workspace, then fails: nothing of it is left to the next. */
    accepted(
        add(on(2, 0, F32(data, 7, 8)), on(2, 0, F32(data + 100, 7, 1)),
            on(2, 0, F32(data + 200, 7, 8))));
    CHECK_INT(f.call.head.kernel, 3);
    CHECK_INT(f.call.head.workspace_size, 0);
    CHECK_TEXT(frame_explain(&f, 0), "tma: not built for this arch");
    CHECK_TEXT(frame_explain(&f, 1), "wide: its workspace is too large to count");
    CHECK_TEXT(frame_explain(&f, 2), "vec: same_shape(a, b): a = f32 (7, 8) on cuda:0");
    CHECK_TEXT(frame_explain(&f, 3), "strided: fits");
    CHECK_TEXT(frame_explain(&f, 4), "library: for cpu, the tensors are on cuda:0");
    accepted(add(
        on(2, 0, F32(data + 1, 3)), on(2, 0, F32(data + 100, 3)), on(2, 0, F32(data + 200, 3))));
    CHECK_INT(f.call.head.kernel, 2);
    CHECK_TEXT(frame_explain(&f, 1), "wide: A % 8 == 0: A = 3");
    device_notes.arch = 75;
    accepted(add(a, on(2, 0, F32(data + 100, 8)), out));
    CHECK_INT(f.call.head.kernel, 2);
    CHECK_TEXT(frame_explain(&f, 1), "wide: needs sm_80 or later, cuda:0 is sm_75");
    device_notes.arch = -1;
    CHECK_TEXT(frame_explain(&f, 1), "cuda:0 is unknown");
    accepted(add(F32(data, 8), F32(data + 100, 8), F32(data + 200, 8)));
    CHECK_TEXT(frame_explain(&f, 4), "library: library nowhere_at_all was not found");
    CHECK_TEXT(frame_explain(&f, 5), "loop: fits");
    CHECK_TEXT(frame_explain(&f, 2), "vec: for device, the tensors are on cpu");
}

static char demand_text[512];

static aicf_status
demand(int kernel)
{
    frame_begin(&f, &add_row);
    f.call.head.demanded = (int16_t)kernel;
    f.t[0] = on(2, 0, F32(data, 8, 7));
    f.t[1] = on(2, 0, F32(data + 100, 7));
    f.t[2] = on(2, 0, F32(data + 200, 8, 7));
    aicf_status status = frame_prepare(&f, 3);
    aicf_status_describe(status, &f.call.head, f.t, demand_text, sizeof demand_text);
    return status;
}

TEST(demanded, "FAULT-16")
{
    aicf_status status = demand(2);
    refused(status, AICF_CHECK_KERNEL, 0, 2);
    CHECK_TEXT(demand_text, "add: no kernel fits: vec: same_shape(a, b): a = f32 (8, 7)");
    refused(demand(5), AICF_CHECK_KERNEL, 0, 5);
    CHECK_TEXT(demand_text, "loop: for cpu");
    accepted(demand(3));
    CHECK_INT(f.call.head.kernel, 3);
    refused(demand(99), AICF_CHECK_KERNEL, 0, 99);
}

/* An f64 on the device: no kernel has it, and the text says so for each. */
TEST(no_kernel, "D4")
{
    aicf_tensor t = on(2, 0, tensor_of(AICF_F64, data, SIZES(4), NULL));
    aicf_tensor u = on(2, 0, tensor_of(AICF_F64, data + 100, SIZES(4), NULL));
    aicf_status status = add(t, t, u);
    refused(status, AICF_CHECK_KERNEL, 0, -1);
    CHECK_TEXT(frame_text(&f, status), "tma: not built for this arch; wide: not for f64");
}

TEST(outs, "A9")
{
    aicf_tensor out = F32(data + 200, 8);
    out.read_only = true;
    refused(add(F32(data, 8), F32(data, 8), out), AICF_CHECK_READ_ONLY, 2, 0);
    aicf_tensor in = F32(data, 8);
    in.read_only = true;
    accepted(add(in, in, F32(data + 200, 8)));
    refused(add(in, F32(data, 8), absent_tensor()), AICF_CHECK_MEMORY, 2, 0);
    CHECK_TEXT(
        frame_text(&f, aicf_unsupported(AICF_CHECK_MEMORY, 2, 0)), "add: out: it is required");
    accepted(add(F32(data, 8), F32(data + 100, 8), F32(data, 8)));
    refused(add(F32(data, 8), F32(data + 100, 8), F32(data + 4, 8)), AICF_CHECK_OVERLAP, 2, 0);
    CHECK_TEXT(
        frame_text(&f, aicf_unsupported(AICF_CHECK_OVERLAP, 2, 0)),
        "add: out: it is written, and shares memory with a");
    refused(add(F32(data, 8), F32(data + 204, 8), F32(data + 200, 8)), AICF_CHECK_OVERLAP, 2, 1);
    refused(
        add(F32(data, 4, 4), F32(data, 4, 4),
            tensor_of(AICF_F32, data + 200, SIZES(4, 4), STRIDES(0, 1))),
        AICF_CHECK_SELF_OVERLAP, 2, 0);
    accepted(add(F32(data, 4), F32(data + 100, 1, 4), F32(data, 1, 4)));
}

TEST(empty_outs, "T3 C1")
{
    accepted(add(F32(NULL, 0, 5), F32(data, 1, 5), F32(NULL, 0, 5)));
    CHECK(!f.call.head.launch);
    CHECK_INT(aicf_call_launch(&f.call.head).kind, AICF_OK);
    refused(add(F32(NULL, 0, 5), F32(data, 4), F32(NULL, 0, 5)), AICF_CHECK_SHAPE, 2, 0);
    /* gemm with K = 0 writes the identity: launched, and its empty arguments are no absent ones. */
    frame_begin(&f, &gemm_row);
    f.t[0] = F32(NULL, 3, 0);
    f.t[1] = F32(NULL, 0, 4);
    f.t[2] = f.t[3] = absent_tensor();
    f.t[4] = F32(data, 3, 4);
    accepted(frame_prepare(&f, 5));
    CHECK(f.call.head.launch);
    CHECK(frame_view(&f, 0)->data);
    CHECK(!frame_view(&f, 2)->data);
    CHECK_INT(f.call.dims[4], 0);
}

TEST(ranks_beyond_a_view, "FAULT-2")
{
    int64_t sizes[12], strides[12], many[64];
    for (int i = 0; i < 12; i++) {
        sizes[i] = 2;
        strides[i] = 1 << i;
    }
    for (int i = 0; i < 64; i++) {
        many[i] = 1;
    }
    aicf_tensor t = tensor_of(AICF_F32, data, 12, sizes, strides);
    aicf_status status = add(t, t, tensor_of(AICF_F32, data, 12, sizes, strides));
    refused(status, AICF_CHECK_KERNEL, 0, -1);
    CHECK_TEXT(frame_text(&f, status), "loop: more dims than a view holds");
    accepted(
        add(tensor_of(AICF_F32, data, 64, many, NULL), tensor_of(AICF_F32, data, 1, many, NULL),
            tensor_of(AICF_F32, data + 100, 64, many, NULL)));
    refused(
        add(tensor_of(AICF_F32, data, 65, many, NULL), F32(data, 4), F32(data, 4)), AICF_CHECK_RANK,
        0, 0);
    CHECK_TEXT(frame_text(&f, aicf_unsupported(AICF_CHECK_RANK, 0, 0)), "got f32 of 65 dims");
}

TEST(over_two_to_the_31, "A2")
{
    const int64_t big = (INT64_C(1) << 31) + 512;
    char *at = (char *)(uintptr_t)(INT64_C(1) << 44);
    accepted(
        add(on(2, 0, F32(at, big)), on(2, 0, F32(at + (big << 3), big)),
            on(2, 0, F32(at + (big << 4), big))));
    CHECK_INT(f.call.dims[0], big);
    CHECK_INT(f.call.head.work, 12 * big);
    refused(add(F32(at, big << 30, 8), F32(at, 1), F32(at, big << 30, 8)), AICF_CHECK_RANGE, 0, 0);
}

static aicf_status
bias(int64_t axis, aicf_tensor x, aicf_tensor b, aicf_tensor out)
{
    frame_begin(&f, &bias_row);
    f.call.axis = axis;
    f.t[0] = x;
    f.t[1] = b;
    f.t[2] = out;
    return frame_prepare(&f, 3);
}

TEST(axis, "A6")
{
    for (int64_t axis = -3; axis < 3; axis++) {
        int64_t at = axis < 0 ? axis + 3 : axis;
        const int64_t sizes[] = {2, 3, 4};
        accepted(
            bias(axis, F32(data, 2, 3, 4), F32(data + 100, sizes[at]), F32(data + 200, 2, 3, 4)));
        CHECK_INT(f.call.axis, at);
        CHECK_INT(f.call.dims[0] * f.call.dims[1] * f.call.dims[2], 24);
        CHECK_INT(f.call.dims[1], sizes[at]);
        refused(
            bias(axis, F32(data, 2, 3, 4), F32(data + 100, sizes[at] + 1), F32(data, 2, 3, 4)),
            AICF_CHECK_SHAPE, 1, 0);
    }
    refused(bias(3, F32(data, 2, 3, 4), F32(data, 2), F32(data, 2, 3, 4)), AICF_CHECK_VALUE, 0, 0);
    CHECK_TEXT(
        frame_text(&f, aicf_unsupported(AICF_CHECK_VALUE, 0, 0)),
        "axis = 3 is out of range; x has 3 dims");
    refused(bias(-4, F32(data, 2, 3, 4), F32(data, 2), F32(data, 2, 3, 4)), AICF_CHECK_VALUE, 0, 0);
    CHECK_TEXT(
        frame_text(&f, aicf_unsupported(AICF_CHECK_VALUE, 0, 0)), "axis = -4 is out of range");
    refused(
        bias(0, tensor_of(AICF_F32, data, 0, NULL, NULL), F32(data, 2), F32(data, 2)),
        AICF_CHECK_VALUE, 0, 0);
    aicf_status status = bias(1, F32(data, 2, 3), F32(data, 4), F32(data, 2, 3));
    CHECK_TEXT(
        frame_text(&f, status), "bias: bias: its shape must be N, with x: L.. N@axis R.. = (2, 3)");
    CHECK_TEXT(frame_text(&f, status), "got f32 (4,) on cpu");
}

static aicf_status
gemm(aicf_tensor a, aicf_tensor b, aicf_tensor bias_of, aicf_tensor c, aicf_tensor out)
{
    frame_begin(&f, &gemm_row);
    f.t[0] = a;
    f.t[1] = b;
    f.t[2] = bias_of;
    f.t[3] = c;
    f.t[4] = out;
    return frame_prepare(&f, 5);
}

TEST(matrices, "A6")
{
    aicf_tensor no = absent_tensor();
    accepted(gemm(F32(data, 5, 3), F32(data, 3, 4), no, no, F32(data + 500, 5, 4)));
    CHECK_INT(f.call.head.kernel, 0);
    CHECK_INT(frame_view(&f, 0)->rank, 2);
    CHECK_INT(f.call.dims[2], 5);
    CHECK_INT(f.call.dims[3], 4);
    CHECK_INT(f.call.dims[4], 3);
    /* Batches broadcast: (6, 2) and (2,) keep two strides, so the kernel for one does not fit. */
    accepted(gemm(F32(data, 6, 2, 5, 3), F32(data, 2, 3, 4), no, no, F32(data + 1000, 6, 2, 5, 4)));
    CHECK_INT(f.call.head.kernel, 1);
    CHECK_INT(frame_view(&f, 1)->rank, 4);
    CHECK_INT(frame_view(&f, 1)->strides[0], 0);
    CHECK_INT(frame_view(&f, 1)->strides[1], 12);
    CHECK_INT(frame_view(&f, 0)->strides[2], 3);
    accepted(gemm(F32(data, 6, 2, 5, 3), F32(data, 3, 4), no, no, F32(data + 1000, 6, 2, 5, 4)));
    CHECK_INT(f.call.head.kernel, 0);
    CHECK_INT(frame_view(&f, 0)->rank, 3);
    CHECK_INT(frame_view(&f, 0)->sizes[0], 12);
    accepted(gemm(
        tensor_of(AICF_F32, data, SIZES(5, 3), STRIDES(1, 5)), F32(data, 3, 4), no, no,
        F32(data + 500, 5, 4)));
    refused(
        gemm(
            tensor_of(AICF_F32, data, SIZES(5, 3), STRIDES(6, 2)), F32(data, 3, 4), no, no,
            F32(data + 500, 5, 4)),
        AICF_CHECK_KERNEL, 0, -1);
    CHECK_TEXT(
        frame_text(&f, aicf_unsupported(AICF_CHECK_KERNEL, 0, -1)),
        "layout a: row or col: a = f32 (5, 3) strides (6, 2) on cpu");
    /* The matrix itself is not broadcast: a shape relation says M, whatever a model would allow. */
    refused(
        gemm(F32(data, 1, 3), F32(data, 3, 4), no, no, F32(data + 500, 5, 4)), AICF_CHECK_SHAPE, 4,
        0);
    refused(
        gemm(F32(data, 5, 3), F32(data, 2, 4), no, no, F32(data + 500, 5, 4)), AICF_CHECK_SHAPE, 1,
        0);
    refused(
        gemm(F32(data, 3), F32(data, 3, 4), no, no, F32(data + 500, 4)), AICF_CHECK_SHAPE, 0, 0);
    refused(
        gemm(F32(data, 5, 3), F32(data, 3, 4), F32(data, 5), no, F32(data + 500, 5, 4)),
        AICF_CHECK_SHAPE, 2, 0);
}

TEST(wheres_and_values, "A7 FAULT-18")
{
    aicf_tensor no = absent_tensor();
    static const double good[] = {0, -0.0}, bad[] = {NAN, INFINITY, -INFINITY, 8.5, -9};
    accepted(gemm(F32(data, 5, 3), F32(data, 3, 4), no, no, F32(data + 500, 5, 4)));
    for (int i = 0; i < 2; i++) {
        f.call.real = good[i];
        accepted(frame_prepare(&f, 5));
    }
    for (int i = 0; i < 5; i++) {
        f.call.real = bad[i];
        refused(frame_prepare(&f, 5), AICF_CHECK_VALUE, 0, 0);
    }
    CHECK_TEXT(
        frame_text(&f, aicf_unsupported(AICF_CHECK_VALUE, 0, 0)),
        "gemm: beta = -9 is out of range; allowed: at least -8, at most 8");
    f.call.real = 1;
    aicf_status status = frame_prepare(&f, 5);
    refused(status, AICF_CHECK_WHERE, 0, 0);
    CHECK_TEXT(
        frame_text(&f, status),
        "gemm: beta needs c (present(c) or beta == 0: c = absent, beta = 1)");
    f.t[3] = F32(data + 500, 5, 4);
    accepted(frame_prepare(&f, 5)); /* out is exactly c */
    f.call.word = 2;
    refused(frame_prepare(&f, 5), AICF_CHECK_VALUE, 0, 1);
    f.call.word = 0;
    f.call.head.refused = 2;
    refused(frame_prepare(&f, 5), AICF_CHECK_VALUE, 0, 1);
}

static aicf_status
sum(const aicf_op *op, int first, aicf_ints axes, bool keep, aicf_tensor a, aicf_tensor b,
    aicf_tensor c)
{
    frame_begin(&f, op);
    f.call.axes = axes;
    f.call.flag = keep;
    f.t[0] = a;
    f.t[1] = b;
    f.t[2] = c;
    return frame_prepare(&f, first);
}

TEST(reductions, "A6 T3")
{
    aicf_tensor x = F32(data, 2, 3, 4), no = absent_tensor();
    aicf_tensor all = tensor_of(AICF_F32, data + 500, 0, NULL, NULL);
    accepted(sum(&sum_row, 2, (aicf_ints){-1, {0}}, false, x, all, no));
    CHECK_INT(f.call.axes.count, 3);
    accepted(sum(&sum_row, 2, (aicf_ints){1, {-1}}, false, x, F32(data + 500, 2, 3), no));
    CHECK_INT(f.call.axes.values[0], 2);
    accepted(sum(&sum_row, 2, (aicf_ints){2, {0, -1}}, true, x, F32(data + 500, 1, 3, 1), no));
    accepted(sum(&sum_row, 2, (aicf_ints){0, {0}}, false, x, F32(data + 500, 2, 3, 4), no));
    refused(sum(&sum_row, 2, (aicf_ints){2, {0, -3}}, false, x, all, no), AICF_CHECK_VALUE, 0, 0);
    refused(sum(&sum_row, 2, (aicf_ints){1, {3}}, false, x, all, no), AICF_CHECK_VALUE, 0, 0);
    refused(sum(&sum_row, 2, (aicf_ints){65, {0}}, false, x, all, no), AICF_CHECK_VALUE, 0, 0);
    refused(
        sum(&sum_row, 2, (aicf_ints){1, {0}}, false, x, F32(data + 500, 2, 3), no),
        AICF_CHECK_SHAPE, 1, 0);
    /* Over an empty axis: something is written. */
    accepted(sum(&sum_row, 2, (aicf_ints){1, {1}}, false, F32(NULL, 2, 0), F32(data + 500, 2), no));
    CHECK(f.call.head.launch);
    /* A shape that only a later argument explains. */
    accepted(
        sum(&late_row, 3, (aicf_ints){1, {1}}, false, F32(data + 100, 2, 4), x,
            F32(data + 500, 2, 3, 4)));
    refused(
        sum(&late_row, 3, (aicf_ints){1, {1}}, false, F32(data + 100, 2, 3), x,
            F32(data + 500, 2, 3, 4)),
        AICF_CHECK_SHAPE, 0, 0);
}

TEST(permutations, "")
{
    aicf_tensor x = tensor_of(AICF_F32, data, SIZES(2, 3, 4, 5), STRIDES(60, 1, 15, 3));
    aicf_ints order = {4, {0, 2, 3, 1}};
    accepted(sum(&permute_row, 2, order, false, x, F32(data + 500, 2, 4, 5, 3), absent_tensor()));
    refused(
        sum(&permute_row, 2, order, false, x, F32(data + 500, 2, 3, 4, 5), absent_tensor()),
        AICF_CHECK_SHAPE, 1, 0);
    order.count = 3;
    refused(
        sum(&permute_row, 2, order, false, x, F32(data + 500, 2, 4, 5), absent_tensor()),
        AICF_CHECK_SHAPE, 1, 0);
    order.count = -1;
    refused(
        sum(&permute_row, 2, order, false, F32(data, 2, 3, 4, 5), F32(data + 500, 2, 3, 4, 5),
            absent_tensor()),
        AICF_CHECK_KERNEL, 0, -1); /* x is not nhwc */
    accepted(
        sum(&permute_row, 2, order, false, F32(data, 2, 1, 4, 5), F32(data + 500, 2, 1, 4, 5),
            absent_tensor()));
}

static aicf_status
concat(int n, int64_t axis, const aicf_tensor *t)
{
    frame_begin(&f, &concat_row);
    f.call.axis = axis;
    f.call.dims[0] = n;
    for (int i = 0; i <= n; i++) {
        f.t[i] = t[i];
    }
    return frame_prepare(&f, n < 0 ? 0 : n + 1);
}

TEST(lists, "")
{
    aicf_tensor t[] = {
        F32(data, 2, 3), F32(data + 50, 2, 1), F32(data + 100, 2, 4), F32(data + 200, 2, 8)};
    accepted(concat(3, 1, t));
    CHECK_INT(f.call.head.count, 4);
    CHECK_INT(f.call.dims[1], 2);
    aicf_list list = aicf_call_list(&f.call.head, 0);
    CHECK_INT(list.count, 3);
    CHECK_INT(list.views[2].sizes[1], 4);
    CHECK_INT(list.views[1].rank, 2);
    t[1] = F32(data + 50, 3, 1);
    refused(concat(3, -1, t), AICF_CHECK_SHAPE, 0, 1);
    CHECK_TEXT(
        frame_text(&f, aicf_unsupported(AICF_CHECK_SHAPE, 0, 1)), "concat: xs[1]: its shape");
    t[1] = F32(data + 50, 2, 2);
    refused(concat(3, 1, t), AICF_CHECK_SHAPE, 1, 0);
    t[2] = F32(data + 202, 2, 3);
    refused(concat(3, 1, t), AICF_CHECK_OVERLAP, 1, 0);
    t[1] = tensor_of(AICF_F16, data, SIZES(2, 2), NULL);
    refused(concat(3, 1, t), AICF_CHECK_DTYPE, 0, 1);
    refused(concat(-1, 1, t), AICF_CHECK_LIST, 0, -1);
    t[0] = F32(data, 0);
    accepted(concat(0, 0, t)); /* of nothing to nothing */
    CHECK(!f.call.head.launch);
}

static aicf_status
adam(int n, const aicf_tensor *t)
{
    frame_begin(&f, &adam_row);
    f.call.dims[0] = n;
    f.call.scalar.dtype = AICF_F64;
    f.call.scalar.host.real = 0.5;
    for (int i = 0; i <= 2 * n; i++) {
        f.t[i] = t[i];
    }
    return frame_prepare(&f, 2 * n + 1);
}

TEST(lists_that_agree, "")
{
    aicf_tensor t[] = {
        F32(data, 2, 3), F32(data + 50, 5), F32(data + 100, 2, 3), F32(data + 150, 5),
        absent_tensor()};
    accepted(adam(2, t));
    CHECK_INT(f.call.scalar.dtype, AICF_F32);
    CHECK(!f.call.scalar.data && f.call.scalar.host.real == 0.5);
    t[3] = F32(data + 150, 6);
    refused(adam(2, t), AICF_CHECK_SHAPE, 1, 1);
    t[3] = F32(data + 150, 5);
    t[1] = F32(data + 4, 5);
    refused(adam(2, t), AICF_CHECK_OVERLAP, 0, 0);
    t[1] = tensor_of(AICF_F32, data + 50, SIZES(5), STRIDES(0));
    refused(adam(2, t), AICF_CHECK_SELF_OVERLAP, 0, 1);
    t[1] = F32(data + 50, 5);
    t[1].read_only = true;
    refused(adam(2, t), AICF_CHECK_READ_ONLY, 0, 1);
    t[4] = F32(data + 300, 1);
    t[1].read_only = false;
    accepted(adam(2, t));
    CHECK(f.call.scalar.data == data + 300);
    /* `ps` may be exactly `gs`, tensor by tensor. */
    aicf_tensor same[] = {
        F32(data, 5), F32(data + 50, 5), F32(data, 5), F32(data + 50, 5), absent_tensor()};
    accepted(adam(2, same));
    same[2] = F32(data + 50, 5);
    same[3] = F32(data + 100, 5);
    refused(adam(2, same), AICF_CHECK_OVERLAP, 0, 1);
    t[0] = absent_tensor();
    accepted(adam(0, t));
    CHECK(!f.call.head.launch);
}

static aicf_status
conv(int64_t pad, int64_t stride, aicf_tensor x, aicf_tensor w, aicf_tensor out)
{
    frame_begin(&f, &conv_row);
    f.call.pair[0] = pad;
    f.call.pair[1] = stride;
    f.t[0] = x;
    f.t[1] = w;
    f.t[2] = out;
    return frame_prepare(&f, 3);
}

TEST(lets, "A6")
{
    accepted(conv(1, 2, F32(data, 2, 9), F32(data + 50, 6, 3), F32(data + 100, 2, 5)));
    CHECK_INT(f.call.dims[3], 5);
    refused(
        conv(1, 2, F32(data, 2, 9), F32(data + 50, 6, 3), F32(data + 100, 2, 4)), AICF_CHECK_SHAPE,
        2, 0);
    refused(
        conv(1, 2, F32(data, 2, 9), F32(data + 50, 5, 3), F32(data + 100, 2, 5)), AICF_CHECK_SHAPE,
        1, 0);
    aicf_status status = conv(1, 0, F32(data, 2, 9), F32(data + 50, 6, 3), F32(data + 100, 2, 5));
    refused(status, AICF_CHECK_EXPRESSION, 0, 3);
    CHECK_TEXT(frame_text(&f, status), "conv: P cannot be computed");
    refused(
        conv(INT64_MAX, 1, F32(data, 2, 9), F32(data + 50, 6, 3), F32(data + 100, 2, 5)),
        AICF_CHECK_EXPRESSION, 0, 3);
}

TEST(two_shapes, "")
{
    for (int word = 0; word < 2; word++) {
        frame_begin(&f, &loss_row);
        f.call.word = word;
        f.t[0] = F32(data, 3, 4);
        f.t[1] = word ? tensor_of(AICF_F32, data + 100, 0, NULL, NULL) : F32(data + 100, 3, 4);
        accepted(frame_prepare(&f, 2));
        f.call.word = !word;
        refused(frame_prepare(&f, 2), AICF_CHECK_SHAPE, 1, 0);
    }
}

static aicf_status
fill(aicf_dtype dtype, aicf_scalar value)
{
    frame_begin(&f, &fill_row);
    f.call.scalar = value;
    f.t[0] = tensor_of(dtype, data, SIZES(8), NULL);
    f.t[1] = absent_tensor();
    return frame_prepare(&f, 2);
}

TEST(scalars, "A7 FAULT-18")
{
    accepted(fill(AICF_F32, (aicf_scalar){.dtype = AICF_I64, .host.integer = 7}));
    CHECK(f.call.scalar.host.real == 7 && f.call.scalar.dtype == AICF_F32);
    static const struct {
        aicf_dtype dtype;
        int64_t least, most;
    } ranges[] = {{AICF_I8, -128, 127}, {AICF_U8, 0, 255}, {AICF_BOOL, 0, 1}};
    for (int i = 0; i < 3; i++) {
        aicf_scalar s = {.dtype = AICF_I64, .host.integer = ranges[i].least};
        accepted(fill(ranges[i].dtype, s));
        s.host.integer = ranges[i].most;
        accepted(fill(ranges[i].dtype, s));
        CHECK_INT(f.call.scalar.host.integer, ranges[i].most);
        s.host.integer++;
        refused(fill(ranges[i].dtype, s), AICF_CHECK_VALUE, 1, 0);
        s.host.integer = ranges[i].least - 1;
        refused(fill(ranges[i].dtype, s), AICF_CHECK_VALUE, 1, 0);
        s = (aicf_scalar){.dtype = AICF_F64, .host.real = 1.0};
        accepted(fill(ranges[i].dtype, s));
        CHECK_INT(f.call.scalar.host.integer, 1);
    }
    refused(
        fill(AICF_I8, (aicf_scalar){.dtype = AICF_F64, .host.real = 0.5}), AICF_CHECK_VALUE, 1, 0);
    refused(
        fill(AICF_I8, (aicf_scalar){.dtype = AICF_F64, .host.real = NAN}), AICF_CHECK_VALUE, 1, 0);
    refused(
        fill(AICF_I8, (aicf_scalar){.dtype = AICF_F64, .host.real = 1e300}), AICF_CHECK_VALUE, 1,
        0);

    frame_begin(&f, &scale_row);
    f.t[0] = F32(data, 8);
    f.t[1] = F32(data + 100, 8);
    f.t[2] = tensor_of(AICF_F32, data + 200, 0, NULL, NULL);
    accepted(frame_prepare(&f, 3));
    CHECK(f.call.head.plain && f.call.scalar.data == data + 200);
    f.t[2] = F32(data + 200, 2);
    refused(frame_prepare(&f, 3), AICF_CHECK_SCALAR, 2, 0);
    CHECK_TEXT(
        frame_text(&f, aicf_unsupported(AICF_CHECK_SCALAR, 2, 0)),
        "a scalar is a number or one element of f32 on cpu; got f32 (2,) on cpu");
    f.t[2] = tensor_of(AICF_F64, data + 200, SIZES(1), NULL);
    refused(frame_prepare(&f, 3), AICF_CHECK_SCALAR, 2, 0);
    f.t[2] = on(2, 0, F32(data + 200, 1));
    refused(frame_prepare(&f, 3), AICF_CHECK_SCALAR, 2, 0);
    f.t[2] = F32(data + 103, 1);
    refused(frame_prepare(&f, 3), AICF_CHECK_OVERLAP, 1, 2);
    f.t[2] = absent_tensor();
    f.call.scalar = (aicf_scalar){.dtype = AICF_F64, .host.real = 101};
    refused(frame_prepare(&f, 3), AICF_CHECK_VALUE, 2, 0);
}

TEST(optional_outs, "")
{
    frame_begin(&f, &norm_row);
    f.t[0] = F32(data, 2, 3);
    f.t[1] = absent_tensor();
    f.t[2] = F32(data + 100, 2, 3);
    f.t[3] = absent_tensor();
    accepted(frame_prepare(&f, 4));
    CHECK(!frame_view(&f, 3)->data);
    f.t[3] = F32(data + 200, 2);
    accepted(frame_prepare(&f, 4));
    CHECK(frame_view(&f, 3)->data == data + 200);
    f.t[3] = F32(data + 104, 2);
    refused(frame_prepare(&f, 4), AICF_CHECK_OVERLAP, 3, 2);
    f.t[3] = F32(data + 200, 3);
    refused(frame_prepare(&f, 4), AICF_CHECK_SHAPE, 3, 0);
}

/* Every text is cut where its buffer ends, whatever the buffer. */
TEST(texts_fit, "D4")
{
    aicf_status status = add(F32(data, 2, 3), F32(data, 4), F32(data + 200, 2, 4));
    char text[256];
    for (size_t size = 0; size < sizeof text; size++) {
        memset(text, 'x', sizeof text);
        aicf_status_describe(status, &f.call.head, f.t, text, size);
        CHECK(size == 0 || memchr(text, '\0', size));
        for (size_t i = size; i < sizeof text; i++) {
            CHECK(text[i] == 'x');
        }
    }
    for (int kind = 0; kind <= AICF_INTERNAL; kind++) {
        for (int check = 0; check <= AICF_CHECK_KERNEL; check++) {
            for (int native = -1; native < 8; native += 4) {
                aicf_status any = {(uint8_t)kind, 7, (uint8_t)check, 2, native};
                aicf_status_describe(any, &f.call.head, f.t, text, sizeof text);
                CHECK(strlen(text) > 4);
            }
        }
    }
}

/* Of a kernel among all: the line that it had alone. */
static int
is_said_alone(void *context, int index, bool fits, const char *line)
{
    char(*alone)[512] = context;
    CHECK(!strcmp(alone[index], line));
    CHECK(fits == (strstr(line, ": fits") != NULL));
    return 0;
}

/* explain never disagrees: over many calls, the first kernel that it says fits is the one taken. */
TEST(explain_agrees, "FAULT-16")
{
    static const int64_t shapes[][2] = {{8, 8}, {8, 7}, {1, 7}, {3, 1}, {0, 8}, {2, 64}};
    char text[512], alone[8][512];
    CHECK(add_row.kernel_count <= 8);
    for (int code = 0; code < 6 * 6 * 2 * 3; code++) {
        int s = code % 6, u = code / 6 % 6, type = code / 36 % 2 + 1, shift = code / 72;
        aicf_tensor a = on(type, 0, tensor_of(AICF_F32, data + shift, 2, shapes[s], NULL));
        aicf_tensor b = on(type, 0, tensor_of(AICF_F32, data + 600, 2, shapes[u], NULL));
        frame_begin(&f, &add_row);
        f.t[0] = a;
        f.t[1] = b;
        aicf_inferred out;
        aicf_tensor_settle(&f.t[0]);
        aicf_tensor_settle(&f.t[1]);
        if (aicf_op_infer(f.t, &f.call.head, &out).kind) {
            continue;
        }
        aicf_call_init(&f.call.head, &add_row, -1);
        f.t[2] = on(type, 0, tensor_of(AICF_F32, data + 1200, out.rank, out.sizes, NULL));
        aicf_status status = frame_prepare(&f, 3);
        int first = -1;
        for (int k = 0; k < add_row.kernel_count; k++) {
            bool fits = aicf_call_explain(f.t, &f.call.head, k, text, sizeof text);
            CHECK(fits == (strstr(text, ": fits") != NULL));
            snprintf(alone[k], sizeof alone[k], "%s", text);
            first = fits && first < 0 ? k : first;
        }
        CHECK_INT(first, status.kind ? -1 : f.call.head.kernel);
        CHECK_INT(aicf_call_explain_each(f.t, &f.call.head, is_said_alone, alone), 0);
    }
}

/* ---- the short way of prepare ---------------------------------------------------------------- */

/* The short way took the call in `f`; the long way takes the settled copy in `g` too, and leaves
   the same call, tensors and views behind. */
static void
both_agree(frame *g, const aicf_kernel *kernels)
{
    accepted(frame_prepare(g, 3));
    CHECK(!memcmp(&f.call, &g->call, sizeof f.call));
    for (int i = 0; i < 3; i++) {
        aicf_view *a = frame_view(&f, i), *b = frame_view(g, i);
        bool view = kernels[f.call.head.kernel].places[i] != AICF_PLACE_POINTER;
        CHECK(a->data == b->data);
        CHECK(
            !view ||
            (a->rank == b->rank && a->sizes[0] == b->sizes[0] && a->strides[0] == b->strides[0]));
        CHECK(!memcmp(&f.t[i], &g->t[i], sizeof f.t[i]));
    }
}

/* Over dense tensors that share memory, are read-only, refused, on other devices, or of a row whose
   kernels take them otherwise, or want room for a library that is not there. */
TEST(short_way_agrees, "FAULT-16")
{
    static frame g;
    static const int64_t shapes[][2] = {{8, 8}, {1, 8}, {0, 8}, {1, 1}, {3, 5}};
    static const uint8_t own[] = {1, 1, 1}, nhwc[] = {4, 4, 4};
    aicf_kernel kernels[6];
    aicf_op op = add_row;
    int taken = 0;

    memcpy(kernels, add_row.kernels, sizeof kernels);
    op.kernels = kernels;
    for (int code = 0; code < 5 * 4 * 2 * 8 * 4; code++) {
        int s = code % 5, type = code / 20 % 2 + 1, flags = code / 40 % 8, change = code / 320;
        kernels[3].places = change == 1 ? own : add_row.kernels[3].places;
        kernels[3].plain = change != 1;
        kernels[2].layouts = change == 2 ? nhwc : add_row.kernels[2].layouts;
        kernels[2].plain = change != 2;
        kernels[4].workspace = change == 3 ? add_row.kernels[1].workspace : NULL;
        frame_begin(&f, &op);
        for (int i = 0; i < 3; i++) {
            float *at = data + 64 * i * (code / 5 % 4 != i) + (flags & 1);
            f.t[i] = on(type, 0, tensor_of(AICF_F32, at, 2, shapes[s], NULL));
            f.t[i].read_only = flags >> 1 & 1 && i < 2;
        }
        f.t[1].refused = flags >> 2 & 1 ? AICF_CHECK_GRADIENT : 0;
        f.call.head.variant = 0;
        g = f;
        f.call.head.variant = -1; /* the copy of `begun` says it */
        if (op.plain(f.t, &f.call.head, &g.call.head)) {
            taken++;
            both_agree(&g, kernels);
        }
    }
    CHECK(taken > 200);
}

/* What the long way refuses the short way never takes: one member at a time is made wrong, or odd
   but right. */
TEST(short_way_refuses, "FAULT-16")
{
    static frame g;
    static const int64_t square[] = {4, 8}, other[] = {8, 4}, ones[] = {1, 8}, bad[] = {-4, 8},
                         huge[] = {INT64_MAX / 8, 8}, dense[] = {8, 1}, odd[] = {77, 1},
                         turned[] = {1, 4}, both[] = {4, 4}, sparse[] = {9, 1};
    static const struct {
        const int64_t *sizes, *strides;
        int rank;
        bool taken;
    } forms[] = {
        {square, NULL, 2, true},    {square, dense, 2, true},   {other, NULL, 2, false},
        {square, turned, 2, false}, {square, sparse, 2, false}, {ones, NULL, 2, false},
        {square, dense, -1, false}, {square, dense, 65, false}, {square, dense, 1, false},
        {bad, NULL, 2, false},      {huge, NULL, 2, false},     {NULL, NULL, 2, false},
        {both, NULL, 2, false},     {square, NULL, 0, false},
    };
    for (int code = 0; code < 14 * 3 * 7; code++) {
        int which = code / 14 % 3, change = code / 42, form = code % 14;
        frame_begin(&f, &add_row);
        for (int i = 0; i < 3; i++) {
            f.t[i] = tensor_of(AICF_F32, data + 64 * i, 2, square, dense);
        }
        aicf_tensor *t = &f.t[which];
        t->sizes = forms[form].sizes;
        t->strides = forms[form].strides;
        t->rank = forms[form].rank;
        t->byte_offset = change == 1 ? 8 : change == 2 ? 2 : change == 3 ? UINT64_MAX - 8 : 0;
        t->data = change == 4 ? NULL : t->data;
        t->dtype = change == 5 ? AICF_F16 : t->dtype;
        t->device.index = change == 6;
        f.call.head.variant = 0;
        g = f;
        bool taken = add_row.plain(f.t, &f.call.head, NULL);
        CHECK_INT(taken, forms[form].taken && change < 2);
        if (taken) {
            both_agree(&g, add_row.kernels);
        }
    }
    /* Rows of one element, and dims of one, may have any stride. */
    for (int i = 0; i < 3; i++) {
        f.t[i] = tensor_of(AICF_F32, data + 64 * i, 2, ones, odd);
    }
    aicf_call_init(&f.call.head, &add_row, 0);
    CHECK(add_row.plain(f.t, &f.call.head, NULL));
}
