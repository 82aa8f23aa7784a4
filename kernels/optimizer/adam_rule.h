/* Part of adam.h and adamw.h, which say where the weight decay goes: DECOUPLED or not. */
#define STATES 2
#define OPTIONAL_STATES 0
#define STATE_LISTS aicf_list m, aicf_list v
#define STATE_NAMES m, v
#define OWN const aicf_scalar *step, double beta1, double beta2, double eps
#define OWN_NAMES step, beta1, beta2, eps
#define STEP step

#include "decay.h"

typedef struct rule {
    REAL decay, rest1, rest2, eps; /* 1 - beta, rounded once */
    double log1, log2;             /* of beta1 and beta2 */
} rule;

static inline rule
rule_of(double weight_decay, OWN)
{
    const rule r = {(REAL)weight_decay, (REAL)(1 - beta1), (REAL)(1 - beta2),
                    (REAL)eps,          log(beta1),        log(beta2)};
    (void)step;
    return r;
}

typedef struct factors {
    REAL scale;  /* of the gradient */
    REAL shrink; /* of p */
    REAL rate;   /* of m */
    REAL root;   /* of sqrt(v) */
} factors;

/* 1 - beta**step to the last bits, for the first step and for the millionth: the difference of the
   two would lose them where beta is near 1. */
RULE_INLINE REAL
bias(double log_beta, double step)
{
    return -RULE_EXPM1((REAL)(step * log_beta));
}

RULE_INLINE factors
factors_of(const rule *r, REAL lr, REAL scale, double step)
{
    const factors f = {
        scale, DECOUPLED ? 1 - lr * r->decay : 1, lr / bias(r->log1, step),
        1 / RULE_SQRT(bias(r->log2, step))};
    return f;
}

RULE_INLINE void
update(const rule *r, const factors *f, REAL *p, REAL g, REAL *s)
{
    g = DECOUPLED ? f->scale * g : decayed(f->scale * g, r->decay, *p);
    s[0] += r->rest1 * (g - s[0]);
    s[1] += r->rest2 * (g * g - s[1]);
    *p = f->shrink * *p - f->rate * s[0] / (RULE_SQRT(s[1]) * f->root + r->eps);
}
