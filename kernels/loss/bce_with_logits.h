/* bce_with_logits: with l(x) = ln(1 + e**x), (1 - target) * l(x) + pos_weight * target * l(-x).
   Both are l(-|x|) or that and |x|: nothing overflows, and nothing cancels for a target in [0, 1].
   At -inf it is NaN for every target, as torch's is. */
#define REDUCTION(word) AICF_BCE_WITH_LOGITS_REDUCTION_##word
#define OWN double pos_weight,
#define OWN_VALUE pos_weight

FORMULA
formula(REAL x, REAL target, REAL pos_weight)
{
    const REAL size = x < 0 ? -x : x, below = x < 0 ? -x : 0, above = x + below;
    const REAL least = log1p_of(exp_of(-size)); /* NaN of NaN */
    return (1 - target) * (above + least) + pos_weight * target * (below + least);
}
