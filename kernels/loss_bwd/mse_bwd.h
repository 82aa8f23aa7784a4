/* mse_bwd: the slope of mse at x. */
#define REDUCTION(word) AICF_MSE_BWD_REDUCTION_##word
#define OWN
#define OWN_VALUE 0

FORMULA
formula(REAL x, REAL target, REAL own)
{
    (void)own;
    return 2 * (x - target);
}
