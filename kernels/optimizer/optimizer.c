/* Steps of optimizers on the CPU: for all tensors of lists, new parameters and states of old ones
   and gradients. The formula is the op's own (sgd.h, adam.h, ...); f16 and bf16 are computed in
   f32, their states are f32. Tensors without gaps, those at one index in one order. Bound by bytes.
 */
#include "rule.h"

#define STRING(op) #op
#define OPS_HEADER(op) <aicf_ops/op.h>
#define RULE_HEADER(op) STRING(op.h)
#define LAUNCHER(op, s) LAUNCHER_OF(op, s)
#define LAUNCHER_OF(op, s) aicf_cpu_##op##_loop_##s

#include OPS_HEADER(AICF_OP)

#include <aicf/cpu/convert.h>

#define S f32
#define REAL float
#include RULE_HEADER(AICF_OP)
#undef REAL
#undef S

#define S f64
#define REAL double
#include RULE_HEADER(AICF_OP)
#undef REAL
#undef S

enum {
    LISTS = 2 + STATES,
    ROOM = 1024,  /* elements that are converted at a time */
    GRAIN = 16384 /* elements a part: long beside the cost of waking a thread */
};

typedef struct work work;

/* Elements [begin, end) of the tensors at `index`. */
typedef void span_fn(const work *w, int64_t index, int64_t begin, int64_t end);

struct work {
    const aicf_list *lists; /* p, gradients, states */
    int states;             /* that are there */
    const aicf_converter *dtype;
    span_fn *span;
    const void *rule, *factors;
};

/* ---- all tensors ----------------------------------------------------------------------------- */

static int64_t
view_numel(const aicf_view *view)
{
    int64_t numel = 1;
    for (int64_t d = 0; d < view->rank; d++) {
        numel *= view->sizes[d];
    }
    return numel;
}

static inline int64_t
at_most(int64_t x, int64_t most)
{
    return x < most ? x : most;
}

/* Elements [begin, end) of all tensors, counted through. */
static void
part(void *context, int64_t begin, int64_t end)
{
    const work *w = (const work *)context;
    int64_t first = 0;
    for (int64_t i = 0; first < end; i++) {
        const int64_t numel = view_numel(&w->lists[0].views[i]);
        const int64_t from = begin > first ? begin - first : 0;
        const int64_t to = at_most(end - first, numel);
        if (from < to) {
            w->span(w, i, from, to);
        }
        first += numel;
    }
}

AICF_ONCE aicf_status
run(work *w)
{
    int64_t numel = 0;
    for (int64_t i = 0; i < w->lists[0].count; i++) {
        numel += view_numel(&w->lists[0].views[i]);
    }
    if (numel > 0) {
        w->states = STATES - (OPTIONAL_STATES && !w->lists[LISTS - 1].views[0].data);
        aicf_parallel_for(numel, GRAIN, part, w);
    }
    return aicf_ok();
}

static inline char *
address(const work *w, int list, int64_t index, int64_t element, int64_t item)
{
    return (char *)w->lists[list].views[index].data + element * item;
}

/* The number of a step, from 1 on; 0 of a rule that does not count them. */
static inline double
step_of(const aicf_scalar *step)
{
    const int64_t *at = step ? (const int64_t *)step->data : NULL;
    return !step ? 0 : (double)(at ? *at : step->host.integer);
}

/* ---- elements -------------------------------------------------------------------------------- */

/* n elements whose p and gradients are of the type that is computed in. */
#define ELEMENTS(real, s)                                                                 \
    AICF_INLINE void loop_##s(                                                            \
        const work *w, real *p, const real *g, real *const *state, int states, int64_t n) \
    {                                                                                     \
        const rule_##s r = *(const rule_##s *)w->rule;                                    \
        const factors_##s f = *(const factors_##s *)w->factors;                           \
        AICF_INDEPENDENT                                                                  \
        for (int64_t i = 0; i < n; i++) {                                                 \
            real x = p[i], held[STATES] = {0};                                            \
            for (int k = 0; k < states; k++) {                                            \
                held[k] = state[k][i];                                                    \
            }                                                                             \
            update_##s(&r, &f, &x, g[i], held);                                           \
            for (int k = 0; k < states; k++) {                                            \
                state[k][i] = held[k];                                                    \
            }                                                                             \
            p[i] = x;                                                                     \
        }                                                                                 \
    }                                                                                     \
                                                                                          \
    AICF_CLONES static void elements_##s(                                                 \
        const work *w, real *p, const real *g, real *const *state, int64_t n)             \
    {                                                                                     \
        if (w->states == STATES) {                                                        \
            loop_##s(w, p, g, state, STATES, n);                                          \
        } else {                                                                          \
            loop_##s(w, p, g, state, STATES - OPTIONAL_STATES, n);                        \
        }                                                                                 \
    }                                                                                     \
                                                                                          \
    static void span_##s(const work *w, int64_t index, int64_t begin, int64_t end)        \
    {                                                                                     \
        const aicf_converter *dtype = w->dtype;                                           \
        real p_room[ROOM], g_room[ROOM], *state[STATES] = {0};                            \
        while (begin < end) {                                                             \
            char *p = address(w, 0, index, begin, dtype->item);                           \
            char *g = address(w, 1, index, begin, dtype->item);                           \
            const int64_t n = dtype->plain ? end - begin : at_most(end - begin, ROOM);    \
            for (int k = 0; k < w->states; k++) {                                         \
                state[k] = (real *)address(w, 2 + k, index, begin, sizeof(real));         \
            }                                                                             \
            if (dtype->plain) {                                                           \
                elements_##s(w, (real *)p, (const real *)g, state, n);                    \
            } else {                                                                      \
                dtype->load(p, 1, n, p_room);                                             \
                dtype->load(g, 1, n, g_room);                                             \
                elements_##s(w, p_room, g_room, state, n);                                \
                dtype->store(p_room, n, p, 1);                                            \
            }                                                                             \
            begin += n;                                                                   \
        }                                                                                 \
    }

ELEMENTS(float, f32)
ELEMENTS(double, f64)

/* ---- launchers ------------------------------------------------------------------------------- */

/* Of dtype s, which is computed in `acc`. */
#define OPTIMIZER(T, s, acc)                                                                    \
    aicf_status LAUNCHER(AICF_OP, s)(                                                           \
        aicf_list p, aicf_list grads, STATE_LISTS, const aicf_scalar *lr,                       \
        const aicf_scalar *grad_scale, double weight_decay, OWN, aicf_stream stream)            \
    {                                                                                           \
        const aicf_list lists[] = {p, grads, STATE_NAMES};                                      \
        const rule_##acc r = rule_of_##acc(weight_decay, OWN_NAMES);                            \
        const factors_##acc f = factors_of_##acc(                                               \
            &r, (aicf_acc_##s)aicf_scalar_real(lr), (aicf_acc_##s)aicf_scalar_real(grad_scale), \
            step_of(STEP));                                                                     \
        work w = {lists, 0, &aicf_converter_##s, span_##acc, &r, &f};                           \
        (void)stream;                                                                           \
        return run(&w);                                                                         \
    }

OPTIMIZER(float, f32, f32)
OPTIMIZER(aicf_f16, f16, f32)
OPTIMIZER(aicf_bf16, bf16, f32)
OPTIMIZER(double, f64, f64)
