/* Recurrent layers on the CPU, forward and backward: one product for what the inputs give to all
   steps, then step after step a product of the hidden state and what the cell makes of it.

   All tensors are dense; lines of 16-bit floats are computed in f32, from copies of the operands in
   the workspace, and the hidden state is rounded to the dtype between steps, as out is. The bits
   depend on sizes alone. Bound by the weights, which are read at each step. */
#ifndef AICF_RECURRENT_H
#define AICF_RECURRENT_H

#include <aicf/cpu/product.h>

/* A multiplication and its addition may be one instruction, as in products. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("fp-contract=fast")
#endif

#include <aicf/cpu/math.h>

/* A source says first which one its layers have: `#define CELL CELL_LSTM`. */
enum { CELL_TANH, CELL_GRU, CELL_LSTM };

/* Of w_ih and w_hh, in units; and of what is kept of a step, for each unit. */
enum { GATES = CELL == CELL_LSTM ? 4 : CELL == CELL_GRU ? 3 : 1, KEPT = CELL == CELL_TANH ? 1 : 4 };

/* A call, forward or backward; what it does not have is NULL. */
typedef struct recurrent {
    const aicf_converter *dtype;
    bool blas, reverse;
    int64_t steps, batch, inputs, units;
    const void *x, *h0, *c0, *w_ih, *w_hh, *b_ih, *b_hh;
    void *out, *hn, *cn, *gates, *cells;
    const void *fwd, *gates_in, *cells_in, *g_out, *g_hn, *g_cn;
    void *gx, *gh0, *gc0, *gw_ih, *gw_hh, *gb_ih, *gb_hh;
    char *workspace; /* what is left of it */
} recurrent;

/* The index of step `at` along the sequence. */
static inline int64_t
time_of(const recurrent *r, int64_t at)
{
    return r->reverse ? r->steps - 1 - at : at;
}

enum { LANES_IN_TASK = 1 << 14 };

/* Rows of a step in one task. */
static inline int64_t
rows_in_task(const recurrent *r)
{
    return 1 + LANES_IN_TASK / (r->units + 1);
}

#define NAME(name) AICF_JOIN(name, S)

#define S f32
#define REAL float
#include "recurrent_of.h"
#undef REAL
#undef S

#define S f64
#define REAL double
#include "recurrent_of.h"
#undef REAL
#undef S

/* What each launcher hands on of the parameters that all of them have, and launches. */
#define RECURRENT(s, with_blas)                                                          \
    &aicf_converter_##s, with_blas, reverse, S, N, D, H, .x = x, .h0 = h0, .w_ih = w_ih, \
        .w_hh = w_hh, .workspace = (char *)workspace
#define LAUNCH(direction, acc)         \
    (void)stream;                      \
    recurrent_##direction##_##acc(&r); \
    return aicf_ok()

/* A source's launchers, by its LAUNCHER. */
#define LAUNCHERS                               \
    LAUNCHER(float, f32, blas, f32, true)       \
    LAUNCHER(double, f64, blas, f64, true)      \
    LAUNCHER(float, f32, loop, f32, false)      \
    LAUNCHER(aicf_f16, f16, loop, f32, false)   \
    LAUNCHER(aicf_bf16, bf16, loop, f32, false) \
    LAUNCHER(double, f64, loop, f64, false)

#endif
