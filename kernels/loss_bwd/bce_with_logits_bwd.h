/* bce_with_logits_bwd: the slope of bce_with_logits at x, with s = 1 / (1 + e**-x): (1 - target) *
   s
   - pos_weight * target * (1 - s). s and 1 - s are both of e**-|x|, so that neither loses its small
   values. */
#define REDUCTION(word) AICF_BCE_WITH_LOGITS_BWD_REDUCTION_##word
#define OWN double pos_weight,
#define OWN_VALUE pos_weight

FORMULA
formula(REAL x, REAL target, REAL pos_weight)
{
    const REAL e = exp_of(x < 0 ? x : -x), near = 1 / (1 + e), far = e * near;
    const REAL s = x < 0 ? far : near, rest = x < 0 ? near : far;
    return (1 - target) * s - pos_weight * target * rest;
}
