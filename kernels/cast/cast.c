/* cast on the CPU: out = x in another dtype, over joint views. An element is read as one of four
   wide types (f32, f64, i32, i64) and written from it, block by block, so that ten dtypes by ten
   need some forty loops and not a hundred. What becomes of what the other dtype does not have is
   said in cast.cu. Bound by bytes. */
#include <aicf_ops/cast.h>

#include <aicf/cpu/convert.h>
#include <aicf/cpu/lines.h>
#include <aicf/cpu/math.h>

#include "dtypes.h"

#undef bool /* stdbool.h's, which would not reach names as what it is called here */

enum {
    GRAIN = 32768, /* elements a part: long beside the cost of waking a thread */
    BLOCK = 512    /* elements that lie wide in the first cache */
};

typedef enum wide { WIDE_F32, WIDE_F64, WIDE_I32, WIDE_I64, WIDES } wide;

typedef struct source {
    int64_t item;
    wide wide;
    _Bool plain;        /* it is its own wide type: read where it lies, if side by side */
    aicf_load_fn *load; /* n elements, step apart, to n wide ones */
} source;

/* n wide elements, at most BLOCK, to n others, all side by side. */
typedef void store_fn(const void *from, int64_t n, void *to);

typedef struct target {
    int64_t item;
    store_fn *store[WIDES];
} target;

/* ---- reading -------------------------------------------------------------------------------- */

#define LOAD(T, s, WIDE, value)                                               \
    static void load_##s(const void *from, int64_t step, int64_t n, void *to) \
    {                                                                         \
        const T *x = (const T *)from;                                         \
        WIDE *out = (WIDE *)to;                                               \
        if (step == 1) {                                                      \
            AICF_INDEPENDENT                                                  \
            for (int64_t i = 0; i < n; i++) {                                 \
                out[i] = (WIDE)(x[i] value);                                  \
            }                                                                 \
            return;                                                           \
        }                                                                     \
        for (int64_t i = 0; i < n; i++) {                                     \
            out[i] = (WIDE)(x[i * step] value);                               \
        }                                                                     \
    }

LOAD(aicf_bool, bool, int32_t, .byte != 0)
LOAD(int8_t, i8, int32_t, )
LOAD(uint8_t, u8, int32_t, )
LOAD(int16_t, i16, int32_t, )
LOAD(int32_t, i32, int32_t, )
LOAD(int64_t, i64, int64_t, )

/* The libaicf has those of floats. */
#define LOAD_REAL(s)                                                          \
    static void load_##s(const void *from, int64_t step, int64_t n, void *to) \
    {                                                                         \
        aicf_converter_##s.load(from, step, n, to);                           \
    }

LOAD_REAL(f32)
LOAD_REAL(f16)
LOAD_REAL(bf16)
LOAD_REAL(f64)

/* ---- writing -------------------------------------------------------------------------------- */

/* Integers from reals: cut towards 0; what is beyond the range becomes the end of it, NaN 0. */
#define CUT(name, real, T, least, most)                                     \
    AICF_INLINE T name(real x)                                              \
    {                                                                       \
        const real number = aicf_select(x == x, x, (real)0);                \
        return (T)(int32_t)aicf_clamp(number, (real)(least), (real)(most)); \
    }

CUT(i8_of_f32, float, int8_t, INT8_MIN, INT8_MAX)
CUT(u8_of_f32, float, uint8_t, 0, UINT8_MAX)
CUT(i16_of_f32, float, int16_t, INT16_MIN, INT16_MAX)
CUT(i8_of_f64, double, int8_t, INT8_MIN, INT8_MAX)
CUT(u8_of_f64, double, uint8_t, 0, UINT8_MAX)
CUT(i16_of_f64, double, int16_t, INT16_MIN, INT16_MAX)
CUT(i32_of_f64, double, int32_t, INT32_MIN, INT32_MAX)

/* Where the real has not the end of the range: `most` is the largest that is within, and what is at
   `past` or more becomes the end. */
#define CUT_WIDE(name, real, T, least, most, past, end)                   \
    AICF_INLINE T name(real x)                                            \
    {                                                                     \
        const real number = x == x ? x : 0;                               \
        const real low = number < (real)(least) ? (real)(least) : number; \
        const T within = (T)(low > (real)(most) ? (real)(most) : low);    \
        return x >= (real)(past) ? (T)(end) : within;                     \
    }

CUT_WIDE(i64_of_f32, float, int64_t, INT64_MIN, 0x1.fffffep62, 0x1p63, INT64_MAX)
CUT_WIDE(i64_of_f64, double, int64_t, INT64_MIN, 0x1.fffffffffffffp62, 0x1p63, INT64_MAX)

/* The same without branches, since x86-64 has this conversion for vectors. */
AICF_INLINE int32_t
i32_of_f32(float x)
{
    const float number = aicf_select(x == x, x, 0.0f);
    const int32_t within = (int32_t)aicf_clamp(number, (float)INT32_MIN, 0x1.fffffep30f);
    return (int32_t)aicf_bits_select(x >= 0x1p31f, INT32_MAX, (uint32_t)within);
}

#define TRUTH(x) ((aicf_bool){(x) != 0})

/* Integers from f32 take several steps each: worth clones. */
#define STORE(w, WIDE, T, s, VALUE) STORE_AS(static, w, WIDE, T, s, VALUE)
#define STORE_CUT(w, WIDE, T, s, VALUE) STORE_AS(AICF_CLONES static, w, WIDE, T, s, VALUE)

#define STORE_AS(as, w, WIDE, T, s, VALUE)                         \
    as void store_##w##_##s(const void *from, int64_t n, void *to) \
    {                                                              \
        const WIDE *x = (const WIDE *)from;                        \
        T *out = (T *)to;                                          \
        AICF_INDEPENDENT                                           \
        for (int64_t i = 0; i < n; i++) {                          \
            out[i] = VALUE(x[i]);                                  \
        }                                                          \
    }

#define STORES(CUT, w, WIDE, I8, U8, I16) \
    CUT(w, WIDE, int8_t, i8, I8)          \
    CUT(w, WIDE, uint8_t, u8, U8)         \
    CUT(w, WIDE, int16_t, i16, I16)

#define STORES_WIDE(CUT, w, WIDE, I32, I64) \
    STORE(w, WIDE, aicf_bool, bool, TRUTH)  \
    CUT(w, WIDE, int32_t, i32, I32)         \
    STORE(w, WIDE, int64_t, i64, I64)       \
    STORE(w, WIDE, float, f32, (float))     \
    STORE(w, WIDE, double, f64, (double))

STORES(STORE_CUT, f32, float, i8_of_f32, u8_of_f32, i16_of_f32)
STORES(STORE, f64, double, i8_of_f64, u8_of_f64, i16_of_f64)
STORES(STORE, i32, int32_t, (int8_t), (uint8_t), (int16_t))
STORES_WIDE(STORE_CUT, f32, float, i32_of_f32, i64_of_f32)
STORES_WIDE(STORE, f64, double, i32_of_f64, i64_of_f64)
STORES_WIDE(STORE, i32, int32_t, (int32_t), (int64_t))
STORES_WIDE(STORE, i64, int64_t, (int32_t), (int64_t))

/* What is the same by way of another wide type: 16-bit reals are rounded from f32, and integers of
   other widths lose their upper bits. */
#define STORE_BY(w, WIDE, by, s)                                       \
    static void store_##w##_##s(const void *from, int64_t n, void *to) \
    {                                                                  \
        WIDE line[BLOCK];                                              \
        store_##w##_##by(from, n, line);                               \
        store_##by##_##s(line, n, to);                                 \
    }

/* libaicf has those from f32. */
#define STORE_REAL(s)                                                \
    static void store_f32_##s(const void *from, int64_t n, void *to) \
    {                                                                \
        aicf_converter_##s.store(from, n, to, 1);                    \
    }                                                                \
    STORE_BY(f64, float, f32, s)                                     \
    STORE_BY(i32, float, f32, s)                                     \
    STORE_BY(i64, float, f32, s)

STORE_REAL(f16)
STORE_REAL(bf16)
STORE_BY(i64, int32_t, i32, i8)
STORE_BY(i64, int32_t, i32, u8)
STORE_BY(i64, int32_t, i32, i16)

/* ---- the walk -------------------------------------------------------------------------------- */

typedef struct pair {
    const source *from;
    const target *to;
} pair;

#define SPREAD(T)                                                   \
    for (int64_t i = 0; i < n; i++) {                               \
        memcpy((T *)to + i * step, (const T *)from + i, sizeof(T)); \
    }

/* Elements of `item` bytes to their places. */
static void
spread(const void *from, int64_t item, int64_t n, void *to, int64_t step)
{
    switch (item) {
    case 1: SPREAD(uint8_t) break;
    case 2: SPREAD(uint16_t) break;
    case 4: SPREAD(uint32_t) break;
    default: SPREAD(uint64_t) break;
    }
}

static void
cast_line(char *const *at, const int64_t *step, int64_t n, const void *context)
{
    const pair *p = (const pair *)context;
    double room[BLOCK], line[BLOCK]; /* of any type */
    for (int64_t i = 0; i < n; i += BLOCK) {
        const int64_t count = n - i < BLOCK ? n - i : BLOCK;
        const void *x = at[0] + i * step[0] * p->from->item;
        void *out = at[1] + i * step[1] * p->to->item;
        if (!p->from->plain || step[0] != 1) {
            p->from->load(x, step[0], count, room);
            x = room;
        }
        p->to->store[p->from->wide](x, count, step[1] == 1 ? out : line);
        if (step[1] != 1) {
            spread(line, p->to->item, count, out, step[1]);
        }
    }
}

static aicf_status
cast_run(const aicf_view *x, const aicf_view *out, const source *from, const target *to)
{
    const aicf_view *const views[] = {x, out};
    const int64_t items[] = {from->item, to->item};
    const pair p = {from, to};
    return aicf_lines_run_items(views, 2, items, GRAIN, cast_line, &p);
}

#define SOURCE(T, s, wide, plain) static const source from_##s = {sizeof(T), wide, plain, load_##s};
#define TARGET(T, s)               \
    static const target to_##s = { \
        sizeof(T), {store_f32_##s, store_f64_##s, store_i32_##s, store_i64_##s}};

SOURCE(aicf_bool, bool, WIDE_I32, false)
SOURCE(int8_t, i8, WIDE_I32, false)
SOURCE(uint8_t, u8, WIDE_I32, false)
SOURCE(int16_t, i16, WIDE_I32, false)
SOURCE(int32_t, i32, WIDE_I32, true)
SOURCE(int64_t, i64, WIDE_I64, true)
SOURCE(float, f32, WIDE_F32, true)
SOURCE(aicf_f16, f16, WIDE_F32, false)
SOURCE(aicf_bf16, bf16, WIDE_F32, false)
SOURCE(double, f64, WIDE_F64, true)

AICF_CAST_FROM(TARGET)
TARGET(double, f64)

#define CAST(T, s, U, u)                                                         \
    aicf_status aicf_cpu_cast_loop_##s##_##u(                                    \
        const aicf_view *x, const aicf_view *out, int64_t A, aicf_stream stream) \
    {                                                                            \
        (void)A, (void)stream;                                                   \
        return cast_run(x, out, &from_##s, &to_##u);                             \
    }
#define CASTS(T, s) AICF_CAST_TO(CAST, T, s) CAST(T, s, double, f64)

AICF_CAST_FROM(CASTS)
CASTS(double, f64)
