/* huber: quadratic up to delta, linear beyond; NaN stays. */
#define REDUCTION(word) AICF_HUBER_REDUCTION_##word
#define OWN double delta,
#define OWN_VALUE delta

FORMULA
formula(REAL x, REAL target, REAL delta)
{
    const REAL d = x < target ? target - x : x - target, half = (REAL)0.5;
    return d <= delta ? half * d * d : delta * (d - half * delta);
}
