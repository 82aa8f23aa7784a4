/* mse: the square of the difference. */
#define REDUCTION(word) AICF_MSE_REDUCTION_##word
#define OWN
#define OWN_VALUE 0

FORMULA
formula(REAL x, REAL target, REAL own)
{
    const REAL d = x - target;
    (void)own;
    return d * d;
}
