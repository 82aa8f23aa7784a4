/* Overlap against the truth: all addresses of random tensors. A "no" must be right; an exact match
   and the usual ways to cut one buffer must be seen. */
#include "check.h"
#include "rows.h"

#include <stdio.h>
#include <stdlib.h>

enum { SPAN = 4096, MIDDLE = 2048, BASE = 1 << 20 };

static uint64_t seed = 88172645463325252u;

static int
below(int n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (int)(seed >> 33) % n;
}

typedef struct random_tensor {
    aicf_tensor t;
    int64_t sizes[4], strides[4];
} random_tensor;

static void
make_random(random_tensor *r, int base)
{
    static const aicf_dtype dtypes[] = {AICF_U8, AICF_F16, AICF_F32};
    aicf_dtype dtype = dtypes[below(3)];
    int item = aicf_dtype_size(dtype);
    int rank = below(5);
    for (int i = 0; i < rank; i++) {
        r->sizes[i] = below(8) ? 1 + below(4) : 0;
        r->strides[i] = below(25) - 12;
    }
    void *data = (void *)(uintptr_t)(BASE + MIDDLE + (base + below(64)) / item * item);
    r->t = tensor_of(dtype, data, rank, r->sizes, below(8) ? r->strides : NULL);
    aicf_tensor_settle(&r->t);
    CHECK_INT(r->t.refused, 0);
}

/* How often each byte belongs to an element. */
static void
cover(const aicf_tensor *t, uint8_t bytes[SPAN])
{
    int item = aicf_dtype_size(t->dtype);
    memset(bytes, 0, SPAN);
    for (int64_t n = 0; n < t->numel; n++) {
        int64_t rest = n, at = 0, below_it = 1;
        for (int i = t->rank - 1; i >= 0; i--) {
            at += rest % t->sizes[i] * (t->strides ? t->strides[i] : below_it);
            rest /= t->sizes[i];
            below_it *= t->sizes[i];
        }
        int64_t from = (int64_t)((uintptr_t)t->data - BASE) + at * item;
        CHECK(from >= 0 && from + item <= SPAN);
        for (int i = 0; i < item; i++) {
            bytes[from + i] += bytes[from + i] < 2;
        }
    }
}

TEST(overlap_is_sound, "FAULT-2")
{
    static uint8_t in_a[SPAN], in_b[SPAN];
    int said_no = 0, ranges_met = 0;
    for (int round = 0; round < 60000; round++) {
        random_tensor a, b;
        make_random(&a, 0);
        make_random(&b, 0);
        cover(&a.t, in_a);
        cover(&b.t, in_b);
        bool shared = false, itself = false;
        for (int i = 0; i < SPAN; i++) {
            shared |= in_a[i] && in_b[i];
            itself |= in_a[i] > 1;
        }
        bool said = aicf_tensors_overlap(&a.t, &b.t, false);
        CHECK(said || !shared);
        CHECK(aicf_tensors_overlap(&b.t, &a.t, false) == said);
        CHECK(aicf_tensor_overlaps_itself(&a.t) || !itself);
        if (a.t.first < b.t.end && b.t.first < a.t.end) {
            ranges_met++;
            said_no += !said;
        }
    }
    printf("%d of %d that met in range told apart\n", said_no, ranges_met);
    CHECK(said_no > ranges_met / 50);
}

/* With `exact`, a "no" is the same elements in the same order, or none shared. */
TEST(overlap_exact_is_sound, "")
{
    for (int round = 0; round < 60000; round++) {
        random_tensor a, b;
        make_random(&a, 0);
        make_random(&b, 0);
        if (below(2)) {
            b = a;
            b.t.sizes = b.sizes;
            b.t.strides = a.t.strides ? b.strides : NULL;
            int dim = b.t.rank ? below(b.t.rank) : 0;
            if (below(2) && b.t.rank && b.t.strides) {
                b.strides[dim] += below(3) - 1;
            }
            aicf_tensor_settle(&b.t);
        }
        if (!aicf_tensors_overlap(&a.t, &b.t, true) && aicf_tensors_overlap(&a.t, &b.t, false)) {
            CHECK(a.t.data == b.t.data && a.t.numel == b.t.numel && a.t.dtype == b.t.dtype);
            static uint8_t in_a[SPAN], in_b[SPAN];
            cover(&a.t, in_a);
            cover(&b.t, in_b);
            CHECK(!memcmp(in_a, in_b, SPAN));
        }
    }
}

static float buffer[4096];

static aicf_tensor
cut(int offset, int rank, const int64_t *sizes, const int64_t *strides)
{
    aicf_tensor t = tensor_of(AICF_F32, buffer + offset, rank, sizes, strides);
    aicf_tensor_settle(&t);
    return t;
}

static bool
share(aicf_tensor a, aicf_tensor b)
{
    return aicf_tensors_overlap(&a, &b, false);
}

TEST(overlap_usual_cuts, "")
{
    /* two columns, two halves of the columns, even and odd rows, two heads of (batch, head, row) */
    CHECK(!share(cut(0, SIZES(8), STRIDES(16)), cut(1, SIZES(8), STRIDES(16))));
    CHECK(!share(cut(0, SIZES(8, 8), STRIDES(16, 1)), cut(8, SIZES(8, 8), STRIDES(16, 1))));
    CHECK(share(cut(0, SIZES(8, 9), STRIDES(16, 1)), cut(8, SIZES(8, 8), STRIDES(16, 1))));
    CHECK(share(cut(0, SIZES(8, 8), STRIDES(16, 1)), cut(9, SIZES(8, 8), STRIDES(16, 1))));
    CHECK(!share(cut(0, SIZES(4, 16), STRIDES(32, 1)), cut(16, SIZES(4, 16), STRIDES(32, 1))));
    CHECK(!share(
        cut(0, SIZES(4, 3, 8), STRIDES(192, 64, 1)), cut(8, SIZES(4, 3, 8), STRIDES(192, 64, 1))));
    CHECK(!share(cut(7, SIZES(8, 8), STRIDES(16, -1)), cut(8, SIZES(8, 8), STRIDES(16, 1))));
}

TEST(overlap_exact_shapes, "FAULT-23")
{
    aicf_tensor in = cut(0, SIZES(4), NULL);
    aicf_tensor out = cut(0, SIZES(1, 4), NULL), turned = cut(0, SIZES(2, 2), STRIDES(1, 2));
    aicf_tensor square = cut(0, SIZES(2, 2), NULL);
    CHECK(!aicf_tensors_overlap(&out, &in, true));
    CHECK(aicf_tensors_overlap(&out, &in, false));
    CHECK(aicf_tensors_overlap(&turned, &square, true));
    CHECK(aicf_tensors_overlap(&square, &in, true));
    aicf_tensor half = in;
    half.dtype = AICF_I32;
    CHECK(aicf_tensors_overlap(&half, &in, true));
}

TEST(overlap_itself, "")
{
    aicf_tensor t = cut(0, SIZES(4, 4), STRIDES(0, 1));
    CHECK(aicf_tensor_overlaps_itself(&t));
    t = cut(0, SIZES(4, 4), STRIDES(3, 1));
    CHECK(aicf_tensor_overlaps_itself(&t));
    t = cut(0, SIZES(4, 4), STRIDES(1, 4));
    CHECK(!aicf_tensor_overlaps_itself(&t));
    t = cut(40, SIZES(4, 4), STRIDES(-8, 2));
    CHECK(!aicf_tensor_overlaps_itself(&t));
    t = cut(0, SIZES(1, 4), STRIDES(0, 1));
    CHECK(!aicf_tensor_overlaps_itself(&t));
}
