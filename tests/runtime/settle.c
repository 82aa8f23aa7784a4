/* aicf_tensor_settle: every field that a producer may set, set wrongly. */
#include "check.h"
#include "rows.h"

static float data[64];

static int
refused(aicf_tensor t)
{
    aicf_tensor_settle(&t);
    return t.refused;
}

static aicf_tensor
settled(aicf_tensor t)
{
    aicf_tensor_settle(&t);
    CHECK_INT(t.refused, AICF_CHECK_NONE);
    return t;
}

TEST(settle_dense, "T2")
{
    aicf_tensor t = settled(F32(data, 2, 3, 4));
    CHECK_INT(t.numel, 24);
    CHECK(t.dense);
    CHECK(t.first == (uintptr_t)data && t.end == (uintptr_t)(data + 24));
    /* Strides of dims of size 1 say nothing. */
    CHECK(settled(tensor_of(AICF_F32, data, SIZES(1, 3, 1, 4), STRIDES(77, 4, -5, 1))).dense);
    CHECK(!settled(tensor_of(AICF_F32, data, SIZES(2, 3), STRIDES(1, 2))).dense);
}

TEST(settle_byte_offset, "T1")
{
    aicf_tensor t = F32(data, 4);
    t.byte_offset = 8 * sizeof(float);
    t = settled(t);
    CHECK(t.data == data + 8 && t.byte_offset == 0 && t.first == (uintptr_t)(data + 8));
    t = F32(data, 4);
    t.byte_offset = UINT64_MAX - 3;
    CHECK_INT(refused(t), AICF_CHECK_RANGE);
    t = F32(NULL, 4);
    t.byte_offset = 64;
    CHECK_INT(refused(t), AICF_CHECK_MEMORY);
}

TEST(settle_empty, "T3")
{
    for (int code = 0; code < 27; code++) {
        int64_t sizes[] = {code % 3, code / 3 % 3, code / 9};
        int64_t strides[] = {9, -7, 5};
        bool empty = !sizes[0] || !sizes[1] || !sizes[2];
        aicf_tensor t = tensor_of(AICF_F32, empty ? NULL : data + 32, 3, sizes, strides);
        t = settled(t);
        CHECK_INT(t.numel, sizes[0] * sizes[1] * sizes[2]);
        CHECK(!empty || (t.dense && t.first == t.end));
    }
}

TEST(settle_no_strides, "T4")
{
    static const int64_t sizes[] = {1, 2, 1, 2, 1, 2, 1, 2};
    for (int rank = 0; rank <= 8; rank++) {
        aicf_tensor t = settled(tensor_of(AICF_F32, data, rank, sizes, NULL));
        CHECK_INT(t.numel, 1 << rank / 2);
        CHECK(t.dense);
    }
}

/* The shape pointer of a tensor without dims is never read. */
TEST(settle_rank, "T4 FAULT-8")
{
    const int64_t *wild = (const int64_t *)(uintptr_t)8;
    CHECK_INT(settled(tensor_of(AICF_F32, data, 0, wild, wild)).numel, 1);
    CHECK_INT(refused(tensor_of(AICF_F32, data, -1, wild, wild)), AICF_CHECK_RANK);
    CHECK_INT(refused(tensor_of(AICF_F32, data, 65, wild, wild)), AICF_CHECK_RANK);
    CHECK_INT(refused(tensor_of(AICF_F32, data, INT32_MAX, wild, wild)), AICF_CHECK_RANK);
    CHECK_INT(refused(tensor_of(AICF_F32, data, 1, NULL, NULL)), AICF_CHECK_RANK);
    CHECK_INT(refused(F32(data, -1)), AICF_CHECK_RANK);
    CHECK_INT(refused(F32(NULL, 3)), AICF_CHECK_MEMORY);
    int64_t ones[64];
    for (int i = 0; i < 64; i++) {
        ones[i] = 1;
    }
    CHECK_INT(settled(tensor_of(AICF_F32, data, 64, ones, ones)).numel, 1);
}

TEST(settle_overflow, "A2 FAULT-8")
{
    const int64_t big = INT64_C(1) << 40;
    CHECK_INT(refused(F32(data, big, big)), AICF_CHECK_RANGE);
    CHECK_INT(refused(F32(data, INT64_C(1) << 61)), AICF_CHECK_RANGE);
    CHECK_INT(refused(F32(data, INT64_C(1) << 62, 2)), AICF_CHECK_RANGE);
    CHECK_INT(refused(F32(NULL, big, big, 0)), AICF_CHECK_RANGE);
    aicf_dtype f = AICF_F32;
    CHECK_INT(refused(tensor_of(f, data, SIZES(2), STRIDES(INT64_MIN))), AICF_CHECK_RANGE);
    CHECK_INT(refused(tensor_of(f, data, SIZES(2), STRIDES(INT64_MAX))), AICF_CHECK_RANGE);
    CHECK_INT(refused(tensor_of(f, data, SIZES(3), STRIDES(INT64_MAX / 2))), AICF_CHECK_RANGE);
    CHECK_INT(
        refused(tensor_of(f, data, SIZES(2, 2, 2), STRIDES(big << 20, big << 20, big << 20))),
        AICF_CHECK_RANGE);
    CHECK_INT(refused(tensor_of(f, data, SIZES(2), STRIDES(-(big << 10)))), AICF_CHECK_RANGE);
    /* A dim of size 1 has no reach. */
    CHECK_INT(refused(tensor_of(f, data, SIZES(1), STRIDES(INT64_MIN))), AICF_CHECK_NONE);
    /* More than 2**31 elements are fine, where there is room for them. */
    aicf_tensor t = settled(F32((void *)(uintptr_t)0x10000, (INT64_C(1) << 33) + 1));
    CHECK_INT(t.numel, (INT64_C(1) << 33) + 1);
    CHECK_INT(t.end - t.first, 4 * t.numel);
    CHECK_INT(refused(F32((void *)(UINTPTR_MAX - 3), 2)), AICF_CHECK_RANGE);
}

TEST(settle_negative_strides, "")
{
    aicf_tensor t = settled(tensor_of(AICF_F32, data + 9, SIZES(10), STRIDES(-1)));
    CHECK(t.first == (uintptr_t)data && t.end == (uintptr_t)(data + 10) && !t.dense);
}

TEST(settle_alignment, "FAULT-12 T18")
{
    char *bytes = (char *)data;
    static const aicf_dtype dtypes[] = {AICF_U8, AICF_F16, AICF_F32, AICF_F64};
    for (int d = 0; d < 4; d++) {
        for (int shift = 0; shift < 16; shift++) {
            bool aligned = shift % aicf_dtype_size(dtypes[d]) == 0;
            int want = aligned ? AICF_CHECK_NONE : AICF_CHECK_ALIGNMENT;
            CHECK_INT(refused(tensor_of(dtypes[d], bytes + shift, SIZES(2), NULL)), want);
        }
    }
    CHECK_INT(refused(tensor_of(AICF_F32, bytes + 1, SIZES(0), NULL)), AICF_CHECK_NONE);
}

/* Lanes, single bits, and a dtype of nothing at all. */
TEST(settle_dtype, "T11")
{
    CHECK_INT(refused(tensor_of(AICF_F32 + (1U << 16), data, SIZES(2), NULL)), AICF_CHECK_DTYPE);
    CHECK_INT(refused(tensor_of(AICF_DTYPE(1, 1), data, SIZES(2), NULL)), AICF_CHECK_DTYPE);
    CHECK_INT(refused(tensor_of(0, data, SIZES(2), NULL)), AICF_CHECK_DTYPE);
    CHECK_INT(refused(tensor_of(AICF_DTYPE(5, 128), data, SIZES(2), NULL)), AICF_CHECK_NONE);
}

/* What the reader refused stays refused, and nothing of it is read. */
TEST(settle_keeps_refusals, "")
{
    aicf_tensor t = tensor_of(AICF_F32, data, 3, (const int64_t *)(uintptr_t)8, NULL);
    t.refused = AICF_CHECK_NEGATIVE;
    CHECK_INT(refused(t), AICF_CHECK_NEGATIVE);
    t.absent = true;
    aicf_tensor_settle(&t);
    CHECK_INT(t.numel, 0);
}
