/* recurrent.h in f32 or f64: S the one and REAL its type. */

#define reals_left NAME(reals_left)
#define reals_of NAME(reals_of)
#define add_product NAME(add_product)
#define sum_lines NAME(sum_lines)
#define cell_step NAME(cell_step)
#define cell_lines NAME(cell_lines)
#define cell_part NAME(cell_part)
#define recurrent_forward NAME(recurrent_forward)
#define slope_step NAME(slope_step)
#define slope_lines NAME(slope_lines)
#define slope_part NAME(slope_part)
#define slopes_of_steps NAME(slopes_of_steps)
#define slopes_of_weights NAME(slopes_of_weights)
#define out_reals NAME(out_reals)
#define put_reals NAME(put_reals)
#define recurrent_backward NAME(recurrent_backward)

/* ---- memory and products ----------------------------------------------------------------------
 */

static REAL *
reals_left(recurrent *r, int64_t count)
{
    REAL *found = (REAL *)r->workspace;
    r->workspace += (size_t)count * sizeof(REAL);
    return found;
}

/* A tensor as it is computed with; NULL of NULL. */
static const REAL *
reals_of(recurrent *r, const void *from, int64_t count)
{
    if (!from || r->dtype->plain) {
        return (const REAL *)from;
    }
    REAL *to = reals_left(r, count);
    r->dtype->load(from, 1, count, to);
    return to;
}

/* out[m, n] = a @ b, and what was there where `add`; elements lie at row * strides[0] + column *
   strides[1], those of out side by side. */
static void
add_product(
    const recurrent *r, const REAL *a, int64_t a_row, int64_t a_column, const REAL *b,
    int64_t b_row, int64_t b_column, REAL *to, int64_t pitch, int64_t m, int64_t n, int64_t k,
    bool add)
{
    const aicf_view left = {(void *)(uintptr_t)a, 2, {m, k}, {a_row, a_column}};
    const aicf_view right = {(void *)(uintptr_t)b, 2, {k, n}, {b_row, b_column}};
    const aicf_view sum = {to, 2, {m, n}, {pitch, 1}};
    const aicf_product p = {
        .dtype = &NAME(aicf_converter),
        .a = &left,
        .b = &right,
        .c = add ? &sum : NULL,
        .out = &sum,
        .m = m,
        .n = n,
        .k = k,
        .alpha = 1,
        .beta = add ? 1 : 0};
    NAME(aicf_product)(p, r->blas);
}

/* The sums over `count` lines of `width`. */
AICF_CLONES static void
sum_lines(const REAL *lines, int64_t count, int64_t width, REAL *sums)
{
    memset(sums, 0, sizeof(REAL) * (size_t)width);
    for (int64_t i = 0; i < count; i++) {
        for (int64_t j = 0; j < width; j++) {
            sums[j] += lines[i * width + j];
        }
    }
}

/* ---- forward ----------------------------------------------------------------------------------
 */

/* One step: `gates` holds what the inputs give and takes what is kept, `hidden` what the hidden
   state gives, h and c the states, which are changed. */
typedef struct cell_step {
    const recurrent *r;
    REAL *gates, *h, *c;
    const REAL *hidden, *bias, *bias_n;
} cell_step;

AICF_CLONES static void
cell_lines(const cell_step *t, int64_t row)
{
    const int64_t units = t->r->units;
    REAL *gates = t->gates + row * KEPT * units, *h = t->h + row * units;
    const REAL *hidden = t->hidden + row * GATES * units, *bias = t->bias;
    if (CELL == CELL_TANH) {
        AICF_INDEPENDENT
        for (int64_t j = 0; j < units; j++) {
            h[j] = aicf_tanh(gates[j] + bias[j] + hidden[j]);
        }
    } else if (CELL == CELL_GRU) {
        AICF_INDEPENDENT
        for (int64_t j = 0; j < units; j++) {
            const int64_t z = units + j, n = 2 * units + j;
            const REAL reset = aicf_sigmoid(gates[j] + bias[j] + hidden[j]);
            const REAL keep = aicf_sigmoid(gates[z] + bias[z] + hidden[z]);
            const REAL sum = hidden[n] + t->bias_n[j];
            const REAL fresh = aicf_tanh(gates[n] + bias[n] + reset * sum);
            gates[j] = reset;
            gates[z] = keep;
            gates[n] = fresh;
            gates[3 * units + j] = sum;
            h[j] = (1 - keep) * fresh + keep * h[j];
        }
    } else {
        REAL *c = t->c + row * units;
        AICF_INDEPENDENT
        for (int64_t j = 0; j < units; j++) {
            const int64_t f = units + j, g = 2 * units + j, o = 3 * units + j;
            gates[j] = aicf_sigmoid(gates[j] + bias[j] + hidden[j]);
            gates[f] = aicf_sigmoid(gates[f] + bias[f] + hidden[f]);
            gates[g] = aicf_tanh(gates[g] + bias[g] + hidden[g]);
            gates[o] = aicf_sigmoid(gates[o] + bias[o] + hidden[o]);
            c[j] = gates[f] * c[j] + gates[j] * gates[g];
            h[j] = gates[o] * aicf_tanh(c[j]);
        }
    }
}

static void
cell_part(void *context, int64_t begin, int64_t end)
{
    for (int64_t row = begin; row < end; row++) {
        cell_lines((const cell_step *)context, row);
    }
}

/* Called by the sources of one direction. */
AICF_ONCE void
recurrent_forward(recurrent *r)
{
    const int64_t wide = GATES * r->units, kept = KEPT * r->units;
    const int64_t lines = r->steps * r->batch, state = r->batch * r->units;
    const aicf_converter *dtype = r->dtype;
    REAL *hidden = reals_left(r, r->batch * wide);
    REAL *h = reals_left(r, state), *c = CELL == CELL_LSTM ? reals_left(r, state) : NULL;
    REAL *bias = reals_left(r, wide), *other = reals_left(r, wide);
    REAL *gates = r->gates && dtype->plain ? (REAL *)r->gates : reals_left(r, lines * kept);
    const REAL *x = reals_of(r, r->x, lines * r->inputs);
    const REAL *w_ih = reals_of(r, r->w_ih, wide * r->inputs);
    const REAL *w_hh = reals_of(r, r->w_hh, wide * r->units);

    memset(bias, 0, sizeof(REAL) * (size_t)wide);
    memset(other, 0, sizeof(REAL) * (size_t)wide);
    if (r->b_ih) {
        dtype->load(r->b_ih, 1, wide, bias);
    }
    if (r->b_hh) {
        dtype->load(r->b_hh, 1, wide, other);
        for (int64_t j = 0; j < (CELL == CELL_GRU ? 2 * r->units : wide); j++) {
            bias[j] += other[j];
        }
    }
    dtype->load(r->h0, 1, state, h);
    if (c) {
        dtype->load(r->c0, 1, state, c);
    }

    add_product(r, x, r->inputs, 1, w_ih, 1, r->inputs, gates, kept, lines, wide, r->inputs, false);
    cell_step step = {r, NULL, h, c, hidden, bias, other + 2 * r->units};
    step.bias_n = CELL == CELL_GRU ? other + 2 * r->units : NULL;
    for (int64_t at = 0; at < r->steps; at++) {
        const int64_t time = time_of(r, at);
        char *out = (char *)r->out + time * state * dtype->item;
        step.gates = gates + time * r->batch * kept;
        add_product(
            r, h, r->units, 1, w_hh, 1, r->units, hidden, wide, r->batch, wide, r->units, false);
        aicf_parallel_for(r->batch, rows_in_task(r), cell_part, &step);
        dtype->store(h, state, out, 1);
        if (!dtype->plain) {
            dtype->load(out, 1, state, h);
        }
        if (r->cells) {
            dtype->store(c, state, (char *)r->cells + time * state * dtype->item, 1);
        }
    }
    if (r->gates && !dtype->plain) {
        dtype->store(gates, lines * kept, r->gates, 1);
    }
    dtype->store(h, state, r->hn, 1);
    if (r->cn) {
        dtype->store(c, state, r->cn, 1);
    }
}

/* ---- backward ---------------------------------------------------------------------------------
 */

/* One step: h, c: before it; next_c: after it. dh comes as the gradient of h after the step and
   leaves as what of it goes past the product with w_hh; dc likewise. dx and dw: the gradients of
   the gates, as the inputs and as the hidden state see them. */
typedef struct slope_step {
    const recurrent *r;
    const void *g_out; /* NULL: zeros */
    const REAL *gates, *out, *h, *c, *next_c;
    REAL *dh, *dc, *dx, *dw;
} slope_step;

AICF_CLONES static void
slope_lines(const slope_step *t, int64_t row)
{
    const int64_t units = t->r->units;
    const REAL *gates = t->gates ? t->gates + row * 4 * units : NULL;
    REAL *dh = t->dh + row * units, *dx = t->dx + row * GATES * units;
    if (CELL == CELL_TANH) {
        const REAL *out = t->out + row * units;
        AICF_INDEPENDENT
        for (int64_t j = 0; j < units; j++) {
            dx[j] = dh[j] * (1 - out[j] * out[j]);
            dh[j] = 0;
        }
    } else if (CELL == CELL_GRU) {
        const REAL *h = t->h + row * units;
        REAL *dw = t->dw + row * 3 * units;
        AICF_INDEPENDENT
        for (int64_t j = 0; j < units; j++) {
            const int64_t z = units + j, n = 2 * units + j;
            const REAL reset = gates[j], keep = gates[z], fresh = gates[n];
            const REAL dn = dh[j] * (1 - keep) * (1 - fresh * fresh);
            dx[j] = dw[j] = dn * gates[3 * units + j] * reset * (1 - reset);
            dx[z] = dw[z] = dh[j] * (h[j] - fresh) * keep * (1 - keep);
            dx[n] = dn;
            dw[n] = dn * reset;
            dh[j] = dh[j] * keep;
        }
    } else {
        const REAL *c = t->c + row * units, *next_c = t->next_c + row * units;
        REAL *dc = t->dc + row * units;
        AICF_INDEPENDENT
        for (int64_t j = 0; j < units; j++) {
            const int64_t f = units + j, g = 2 * units + j, o = 3 * units + j;
            const REAL squashed = aicf_tanh(next_c[j]);
            const REAL d = dc[j] + dh[j] * gates[o] * (1 - squashed * squashed);
            dx[j] = d * gates[g] * gates[j] * (1 - gates[j]);
            dx[f] = d * c[j] * gates[f] * (1 - gates[f]);
            dx[g] = d * gates[j] * (1 - gates[g] * gates[g]);
            dx[o] = dh[j] * squashed * gates[o] * (1 - gates[o]);
            dc[j] = d * gates[f];
            dh[j] = 0;
        }
    }
}

static void
slope_part(void *context, int64_t begin, int64_t end)
{
    const slope_step *t = (const slope_step *)context;
    for (int64_t row = begin; row < end; row++) {
        slope_lines(t, row);
    }
}

typedef struct NAME(slopes) {
    const REAL *x, *h0, *c0, *w_ih, *w_hh, *fwd, *gates, *cells, *g_out;
    REAL *dh, *dc, *dx, *dw;
} NAME(slopes);

/* From the last step to the first. */
static void
slopes_of_steps(const recurrent *r, const NAME(slopes) * s)
{
    const int64_t wide = GATES * r->units, state = r->batch * r->units;
    const REAL *gates = s->gates, *cells = s->cells;
    for (int64_t at = r->steps - 1; at >= 0; at--) {
        const int64_t time = time_of(r, at), before = time_of(r, at - 1);
        slope_step step = {.r = r, .dh = s->dh, .dc = s->dc};
        step.gates = gates ? gates + time * state * 4 : NULL;
        step.out = s->fwd + time * state;
        step.h = at > 0 ? s->fwd + before * state : s->h0;
        step.dx = s->dx + time * r->batch * wide;
        step.dw = s->dw + time * r->batch * wide;
        if (cells) {
            step.next_c = cells + time * state;
            step.c = at > 0 ? cells + before * state : s->c0;
        }
        for (int64_t i = 0; s->g_out && i < state; i++) {
            s->dh[i] += s->g_out[time * state + i];
        }
        aicf_parallel_for(r->batch, rows_in_task(r), slope_part, &step);
        add_product(
            r, step.dw, wide, 1, s->w_hh, r->units, 1, s->dh, r->units, r->batch, r->units, wide,
            true);
    }
}

static REAL *
out_reals(recurrent *r, void *out, int64_t count)
{
    return r->dtype->plain ? (REAL *)out : reals_left(r, count);
}

static void
put_reals(const recurrent *r, const REAL *from, int64_t count, void *out)
{
    if (!r->dtype->plain) {
        r->dtype->store(from, count, out, 1);
    }
}

/* Of weights, biases and inputs, over all steps at once. */
static void
slopes_of_weights(recurrent *r, const NAME(slopes) * s)
{
    const int64_t wide = GATES * r->units, lines = r->steps * r->batch, units = r->units;
    if (r->gx) {
        REAL *gx = out_reals(r, r->gx, lines * r->inputs);
        add_product(
            r, s->dx, wide, 1, s->w_ih, r->inputs, 1, gx, r->inputs, lines, r->inputs, wide, false);
        put_reals(r, gx, lines * r->inputs, r->gx);
    }
    if (r->gw_ih) {
        REAL *gw = out_reals(r, r->gw_ih, wide * r->inputs);
        add_product(
            r, s->dx, 1, wide, s->x, r->inputs, 1, gw, r->inputs, wide, r->inputs, lines, false);
        put_reals(r, gw, wide * r->inputs, r->gw_ih);
    }
    if (r->gw_hh) {
        /* The first step saw h0, each other one the out before it. */
        REAL *gw = out_reals(r, r->gw_hh, wide * units);
        const int64_t first = r->steps > 0 ? time_of(r, 0) * r->batch : 0;
        const int64_t rest = r->steps > 0 ? lines - r->batch : 0, turned = r->reverse ? 1 : 0;
        const REAL *dw = s->dw + (turned ? 0 : lines - rest) * wide;
        const REAL *h = s->fwd + (turned ? lines - rest : 0) * units;
        add_product(
            r, s->dw + first * wide, 1, wide, s->h0, units, 1, gw, units, wide, units,
            r->steps > 0 ? r->batch : 0, false);
        add_product(r, dw, 1, wide, h, units, 1, gw, units, wide, units, rest, true);
        put_reals(r, gw, wide * units, r->gw_hh);
    }
    REAL *sums = reals_left(r, wide);
    if (r->gb_ih) {
        sum_lines(s->dx, lines, wide, sums);
        r->dtype->store(sums, wide, r->gb_ih, 1);
    }
    if (r->gb_hh) {
        sum_lines(s->dw, lines, wide, sums);
        r->dtype->store(sums, wide, r->gb_hh, 1);
    }
}

/* Called by the sources of one direction. */
AICF_ONCE void
recurrent_backward(recurrent *r)
{
    const int64_t wide = GATES * r->units, lines = r->steps * r->batch;
    const int64_t state = r->batch * r->units;
    NAME(slopes) s = {.x = reals_of(r, r->x, lines * r->inputs)};
    s.h0 = reals_of(r, r->h0, state);
    s.c0 = reals_of(r, r->c0, state);
    s.w_ih = reals_of(r, r->w_ih, wide * r->inputs);
    s.w_hh = reals_of(r, r->w_hh, wide * r->units);
    s.fwd = reals_of(r, r->fwd, lines * r->units);
    s.gates = reals_of(r, r->gates_in, lines * KEPT * r->units);
    s.cells = reals_of(r, r->cells_in, lines * r->units);
    s.g_out = reals_of(r, r->g_out, lines * r->units);
    s.dh = reals_left(r, state);
    s.dc = reals_left(r, state);
    s.dx = reals_left(r, lines * wide);
    s.dw = CELL == CELL_GRU ? reals_left(r, lines * wide) : s.dx;
    memset(s.dh, 0, sizeof(REAL) * (size_t)state);
    memset(s.dc, 0, sizeof(REAL) * (size_t)state);
    if (r->g_hn) {
        r->dtype->load(r->g_hn, 1, state, s.dh);
    }
    if (r->g_cn) {
        r->dtype->load(r->g_cn, 1, state, s.dc);
    }
    slopes_of_steps(r, &s);
    if (r->gh0) {
        r->dtype->store(s.dh, state, r->gh0, 1);
    }
    if (r->gc0) {
        r->dtype->store(s.dc, state, r->gc0, 1);
    }
    slopes_of_weights(r, &s);
}

#undef reals_left
#undef reals_of
#undef add_product
#undef sum_lines
#undef cell_step
#undef cell_lines
#undef cell_part
#undef recurrent_forward
#undef slope_step
#undef slope_lines
#undef slope_part
#undef slopes_of_steps
#undef slopes_of_weights
#undef out_reals
#undef put_reals
#undef recurrent_backward
