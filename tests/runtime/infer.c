/* infer: the outs that follow from the arguments. */
#include "check.h"
#include "rows.h"

static float data[1024];
static frame f;
static aicf_inferred outs[4];

static aicf_status
infer(const aicf_op *op, int count, const aicf_tensor *t)
{
    aicf_call_init(&f.call.head, op, -1);
    for (int i = 0; i < count; i++) {
        f.t[i] = t[i];
        aicf_tensor_settle(&f.t[i]);
    }
    memset(outs, 0xa5, sizeof outs);
    return op->infer(f.t, &f.call.head, outs);
}

static void
sizes_are(const aicf_inferred *out, int rank, const int64_t *sizes)
{
    CHECK_INT(out->rank, rank);
    for (int i = 0; i < rank; i++) {
        CHECK_INT(out->sizes[i], sizes[i]);
    }
}

TEST(infer_broadcast, "")
{
    const aicf_tensor t[] = {F32(data, 2, 1, 4), F32(data, 3, 1)};
    CHECK_INT(infer(&add_row, 2, t).kind, AICF_OK);
    sizes_are(outs, SIZES(2, 3, 4));
    CHECK_INT(outs->dtype, AICF_F32);
    CHECK_INT(outs->device.type, 1);
    CHECK(!outs->ordered);
    const aicf_tensor bad[] = {F32(data, 2, 3), F32(data, 4)};
    CHECK_INT(infer(&add_row, 2, bad).check, AICF_CHECK_SHAPE);
}

TEST(infer_order, "")
{
    const aicf_tensor t[] = {
        tensor_of(AICF_F32, data, SIZES(2, 3, 1), STRIDES(1, 2, 99)), F32(data, 3, 1)};
    CHECK_INT(infer(&add_row, 2, t).kind, AICF_OK);
    CHECK(outs->ordered);
    CHECK_INT(outs->strides[0], 1);
    CHECK_INT(outs->strides[1], 2);
    const aicf_tensor gaps[] = {
        tensor_of(AICF_F32, data, SIZES(2, 3), STRIDES(1, 4)), F32(data, 3)};
    CHECK_INT(infer(&add_row, 2, gaps).kind, AICF_OK);
    CHECK(!outs->ordered);
}

/* An order is that of dims: also where one is longer in the out. */
TEST(infer_order_of_broadcast, "")
{
    const aicf_tensor t[] = {
        tensor_of(AICF_F32, data, SIZES(1, 3, 2), STRIDES(99, 1, 3)), F32(data, 4, 3, 2)};
    CHECK_INT(infer(&add_row, 2, t).kind, AICF_OK);
    CHECK(outs->ordered);
    CHECK_INT(outs->strides[0], 6);
    CHECK_INT(outs->strides[1], 1);
    CHECK_INT(outs->strides[2], 3);
}

/* What is malformed is refused before anything is made of it. */
TEST(infer_checks_first, "FAULT-2")
{
    int64_t ones[70];
    for (int i = 0; i < 70; i++) {
        ones[i] = 1;
    }
    const aicf_tensor deep[] = {tensor_of(AICF_F32, data, 70, ones, NULL), F32(data, 3)};
    CHECK_INT(infer(&add_row, 2, deep).check, AICF_CHECK_RANK);
    const aicf_tensor wide[] = {tensor_of(AICF_F32, data, 64, ones, NULL), F32(data, 3)};
    CHECK_INT(infer(&add_row, 2, wide).kind, AICF_OK);
    CHECK_INT(outs->rank, 64);
    aicf_tensor mixed[] = {F32(data, 3), F32(data, 3)};
    mixed[1].device.type = 2;
    CHECK_INT(infer(&add_row, 2, mixed).check, AICF_CHECK_DEVICE);
    mixed[1] = tensor_of(AICF_I64, data, SIZES(3), NULL);
    CHECK_INT(infer(&add_row, 2, mixed).check, AICF_CHECK_DTYPE);
}

TEST(infer_too_large, "A2")
{
    const int64_t big = INT64_C(1) << 33;
    const aicf_tensor t[] = {
        tensor_of(AICF_F32, data, SIZES(big, 1), STRIDES(0, 0)),
        tensor_of(AICF_F32, data, SIZES(1, big), STRIDES(0, 0))};
    aicf_status status = infer(&add_row, 2, t);
    CHECK_INT(status.check, AICF_CHECK_RANGE);
    CHECK_INT(status.arg, 2);
}

TEST(infer_rows, "")
{
    const aicf_tensor gemm[] = {
        F32(data, 6, 1, 5, 3), F32(data, 2, 3, 4), absent_tensor(), absent_tensor()};
    CHECK_INT(infer(&gemm_row, 4, gemm).kind, AICF_OK);
    sizes_are(outs, SIZES(6, 2, 5, 4));

    const aicf_tensor x[] = {F32(data, 2, 3, 4), absent_tensor()};
    CHECK_INT(infer(&sum_row, 1, x).kind, AICF_OK);
    CHECK_INT(outs->rank, 0);
    CHECK_INT(f.call.axes.count, 3);

    CHECK_INT(infer(&norm_row, 2, x).kind, AICF_OK);
    sizes_are(&outs[0], SIZES(2, 3, 4));
    sizes_are(&outs[1], SIZES(2, 3));

    const aicf_tensor conv[] = {F32(data, 2, 9), F32(data, 6, 3)};
    CHECK_INT(infer(&conv_row, 2, conv).check, AICF_CHECK_EXPRESSION);
    aicf_call_init(&f.call.head, &conv_row, -1);
    f.call.pair[1] = 2;
    CHECK_INT(conv_row.infer(f.t, &f.call.head, outs).kind, AICF_OK);
    sizes_are(outs, SIZES(2, 4));
    /* A kernel larger than what it slides over: no out of a negative size. */
    f.t[1] = F32(data, 26, 13);
    aicf_tensor_settle(&f.t[1]);
    aicf_call_init(&f.call.head, &conv_row, -1);
    f.call.pair[1] = 1;
    CHECK_INT(conv_row.infer(f.t, &f.call.head, outs).check, AICF_CHECK_SHAPE);
}

TEST(infer_list, "")
{
    aicf_call_init(&f.call.head, &concat_row, -1);
    f.call.axis = -1;
    f.call.dims[0] = 3;
    f.t[0] = F32(data, 2, 3);
    f.t[1] = F32(data, 2, 1);
    f.t[2] = F32(data, 2, 4);
    for (int i = 0; i < 3; i++) {
        aicf_tensor_settle(&f.t[i]);
    }
    CHECK_INT(concat_row.infer(f.t, &f.call.head, outs).kind, AICF_OK);
    sizes_are(outs, SIZES(2, 8));
}
