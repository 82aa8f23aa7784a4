/* Part of the rules that take the scalars as they come. */

typedef struct factors {
    REAL lr, scale;
} factors;

RULE_INLINE factors
factors_of(const rule *r, REAL lr, REAL scale, double step)
{
    const factors f = {lr, scale};
    (void)r, (void)step;
    return f;
}
