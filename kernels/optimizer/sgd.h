/* sgd, with momentum and with Nesterov's. Of no momentum nothing is left: without buf a step is one
   whose buf was 0. */
#define STATES 1
#define OPTIONAL_STATES 1
#define STATE_LISTS aicf_list buf
#define STATE_NAMES buf
#define OWN double momentum, bool nesterov
#define OWN_NAMES momentum, nesterov
#define STEP NULL

#include "decay.h"

typedef struct rule {
    REAL decay, momentum;
    bool nesterov;
} rule;

static inline rule
rule_of(double weight_decay, OWN)
{
    const rule r = {(REAL)weight_decay, (REAL)momentum, nesterov};
    return r;
}

#include "scalars.h"

RULE_INLINE void
update(const rule *r, const factors *f, REAL *p, REAL g, REAL *s)
{
    g = decayed(f->scale * g, r->decay, *p);
    s[0] = r->momentum * s[0] + g;
    *p -= f->lr * (r->nesterov ? g + r->momentum * s[0] : s[0]);
}
