/* rmsprop, with momentum or, where there is no buf, without. */
#define STATES 2
#define OPTIONAL_STATES 1
#define STATE_LISTS aicf_list v, aicf_list buf
#define STATE_NAMES v, buf
#define OWN double alpha, double eps, double momentum
#define OWN_NAMES alpha, eps, momentum
#define STEP NULL

#include "decay.h"

typedef struct rule {
    REAL decay, rest, eps, momentum; /* rest: 1 - alpha, rounded once */
} rule;

static inline rule
rule_of(double weight_decay, OWN)
{
    const rule r = {(REAL)weight_decay, (REAL)(1 - alpha), (REAL)eps, (REAL)momentum};
    return r;
}

#include "scalars.h"

RULE_INLINE void
update(const rule *r, const factors *f, REAL *p, REAL g, REAL *s)
{
    g = decayed(f->scale * g, r->decay, *p);
    s[0] += r->rest * (g * g - s[0]);
    s[1] = r->momentum * s[1] + g / (RULE_SQRT(s[0]) + r->eps);
    *p -= f->lr * s[1];
}
