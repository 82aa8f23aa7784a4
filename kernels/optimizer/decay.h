/* Part of the rules whose weight decay is added to the gradient. */

/* g + decay * p; without decay an infinite p is no matter. */
RULE_INLINE REAL
decayed(REAL g, REAL decay, REAL p)
{
    return decay != 0 ? g + decay * p : g;
}
