/* Part of moments.h, included once for what floats are computed in: S is f32 or f64, REAL its
   type. */

#define NAME(name) AICF_JOIN(name, S)
#define moments_line NAME(moments_line)
#define moments_halve NAME(moments_halve)
#define moments_of_block NAME(moments_of_block)
#define moments_products NAME(moments_products)

/* n elements as values side by side: in place where they are, else in `room`. */
static inline const REAL *
moments_line(const aicf_converter *dtype, const char *x, int64_t n, REAL *room)
{
    if (dtype->plain) {
        return (const REAL *)x;
    }
    dtype->load(x, 1, n, room);
    return room;
}

AICF_INLINE aicf_sums
moments_halve(REAL *first, REAL *second)
{
    for (int half = MOMENTS_LANES / 2; half > 0; half /= 2) {
        for (int lane = 0; lane < half; lane++) {
            first[lane] += first[lane + half];
            second[lane] += second[lane + half];
        }
    }
    return (aicf_sums){(double)first[0], (double)second[0]};
}

/* The sums of d and of d * d, where d = x * scale - mean. */
MOMENTS_SUMS
moments_of_block(const REAL *x, int64_t n, REAL scale, REAL mean)
{
    REAL first[MOMENTS_LANES] = {0}, second[MOMENTS_LANES] = {0};
    int64_t whole = n - n % MOMENTS_LANES;
    for (int64_t i = 0; i < whole; i += MOMENTS_LANES) {
        for (int lane = 0; lane < MOMENTS_LANES; lane++) {
            const REAL d = x[i + lane] * scale - mean;
            first[lane] += d;
            second[lane] += d * d;
        }
    }
    for (int64_t i = whole; i < n; i++) {
        const REAL d = x[i] * scale - mean;
        first[i - whole] += d;
        second[i - whole] += d * d;
    }
    return moments_halve(first, second);
}

/* The sums of g and of g * (x - mean). */
MOMENTS_SUMS
moments_products(const REAL *g, const REAL *x, int64_t n, REAL mean)
{
    REAL first[MOMENTS_LANES] = {0}, second[MOMENTS_LANES] = {0};
    int64_t whole = n - n % MOMENTS_LANES;
    for (int64_t i = 0; i < whole; i += MOMENTS_LANES) {
        for (int lane = 0; lane < MOMENTS_LANES; lane++) {
            first[lane] += g[i + lane];
            second[lane] += g[i + lane] * (x[i + lane] - mean);
        }
    }
    for (int64_t i = whole; i < n; i++) {
        first[i - whole] += g[i];
        second[i - whole] += g[i] * (x[i] - mean);
    }
    return moments_halve(first, second);
}

#undef NAME
#undef moments_line
#undef moments_halve
#undef moments_of_block
#undef moments_products
