/* huber_bwd: the slope of huber at x; NaN stays. */
#define REDUCTION(word) AICF_HUBER_BWD_REDUCTION_##word
#define OWN double delta,
#define OWN_VALUE delta

FORMULA
formula(REAL x, REAL target, REAL delta)
{
    const REAL d = x - target;
    return d < -delta ? -delta : d > delta ? delta : d;
}
