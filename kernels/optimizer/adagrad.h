/* adagrad (Duchi, Hazan and Singer, 2011), with a decaying rate. */
#define STATES 1
#define OPTIONAL_STATES 0
#define STATE_LISTS aicf_list s
#define STATE_NAMES s
#define OWN const aicf_scalar *step, double lr_decay, double eps
#define OWN_NAMES step, lr_decay, eps
#define STEP step

#include "decay.h"

typedef struct rule {
    REAL decay, eps;
    double lr_decay;
} rule;

static inline rule
rule_of(double weight_decay, OWN)
{
    const rule r = {(REAL)weight_decay, (REAL)eps, lr_decay};
    (void)step;
    return r;
}

typedef struct factors {
    REAL scale, rate;
} factors;

RULE_INLINE factors
factors_of(const rule *r, REAL lr, REAL scale, double step)
{
    const factors f = {scale, lr / (REAL)(1 + (step - 1) * r->lr_decay)};
    return f;
}

RULE_INLINE void
update(const rule *r, const factors *f, REAL *p, REAL g, REAL *s)
{
    g = decayed(f->scale * g, r->decay, *p);
    s[0] += g * g;
    *p -= f->rate * g / (RULE_SQRT(s[0]) + r->eps);
}
