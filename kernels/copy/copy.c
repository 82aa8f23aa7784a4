/* copy on the CPU: out = x over joint views, by the size of the elements; a bool becomes 0 or 1.
   Where the two run through memory along different dims, tile by tile, so that whole cache lines
   are read and written. Bound by bytes. */
#include <aicf_ops/copy.h>

#include <aicf/cpu/lines.h>

enum {
    GRAIN = 32768,              /* elements a part: long beside the cost of waking a thread */
    SIDE = 32,                  /* of a tile: one or more cache lines for all but single bytes */
    TILES = GRAIN / SIDE / SIDE /* a part */
};

/* x runs along the last dim but one, out along the last. */
typedef struct turned {
    aicf_lines w;
    int64_t rows, columns; /* of tiles in the last two dims */
    int64_t tiles;         /* in all */
} turned;

/* False where both run along the same dim, or one is too short for tiles. */
static bool
turned_plan(turned *t, const aicf_view *x, const aicf_view *out, int64_t item)
{
    const aicf_view *const views[] = {x, out};
    aicf_lines *w = &t->w;
    aicf_lines_plan(w, views, 2);
    w->item[0] = w->item[1] = item;
    const int last = w->rank - 1;
    int along = 0;
    while (along < last && w->dims[along].step[0] != 1) {
        along++;
    }
    if (along == last || w->dims[last].step[1] != 1 || w->dims[along].size < SIDE / 4 ||
        w->dims[last].size < SIDE / 4) {
        return false;
    }
    const aicf_lines_dim dim = w->dims[along];
    for (; along < last - 1; along++) {
        w->dims[along] = w->dims[along + 1];
    }
    w->dims[along] = dim;
    t->rows = (dim.size + SIDE - 1) / SIDE;
    t->columns = (w->dims[last].size + SIDE - 1) / SIDE;
    t->tiles = t->rows * t->columns;
    for (int d = 0; d < along; d++) {
        t->tiles *= w->dims[d].size;
    }
    return true;
}

typedef struct tile {
    char *x, *out;
    int64_t rows, columns;
    int64_t x_step, out_step; /* from column to column of x, from row to row of out */
} tile;

static tile
tile_at(const turned *t, int64_t index)
{
    const aicf_lines *w = &t->w;
    const aicf_lines_dim *row = &w->dims[w->rank - 2], *column = &w->dims[w->rank - 1];
    const int64_t j = index % t->columns * SIDE, i = index / t->columns % t->rows * SIDE;
    int64_t x = i + j * column->step[0], out = i * row->step[1] + j;
    int64_t outer = index / t->columns / t->rows;
    for (int d = w->rank - 3; d >= 0; d--) {
        const int64_t digit = outer % w->dims[d].size;
        outer /= w->dims[d].size;
        x += digit * w->dims[d].step[0];
        out += digit * w->dims[d].step[1];
    }
    const int64_t rows = row->size - i, columns = column->size - j;
    return (tile){w->data[0] + x * w->item[0],
                  w->data[1] + out * w->item[1],
                  rows < SIDE ? rows : SIDE,
                  columns < SIDE ? columns : SIDE,
                  column->step[0],
                  row->step[1]};
}

#define SAME(x) (x)
#define TRUTH(x) ((x) != 0)

/* Lines, and tiles by way of a square of our own: its short columns stay in the cache. */
#define COPY_WORD(WORD, name, FORMULA)                                                             \
    AICF_INLINE void copy_steps_##name(                                                            \
        const WORD *x, WORD *out, int64_t n, int64_t dx, int64_t dout)                             \
    {                                                                                              \
        AICF_INDEPENDENT                                                                           \
        for (int64_t i = 0; i < n; i++) {                                                          \
            out[i * dout] = FORMULA(x[i * dx]);                                                    \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    AICF_CLONES static void copy_line_##name(                                                      \
        char *const *at, const int64_t *step, int64_t n, const void *context)                      \
    {                                                                                              \
        const WORD *x = (const WORD *)at[0];                                                       \
        WORD *out = (WORD *)at[1];                                                                 \
        (void)context;                                                                             \
        if (step[0] == 1 && step[1] == 1) {                                                        \
            copy_steps_##name(x, out, n, 1, 1);                                                    \
        } else if (step[0] == 0 && step[1] == 1) {                                                 \
            copy_steps_##name(x, out, n, 0, 1);                                                    \
        } else {                                                                                   \
            copy_steps_##name(x, out, n, step[0], step[1]);                                        \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    AICF_CLONES static void copy_tile_##name(const tile *t)                                        \
    {                                                                                              \
        WORD square[SIDE][SIDE];                                                                   \
        for (int64_t j = 0; j < t->columns; j++) {                                                 \
            const WORD *x = (const WORD *)t->x + j * t->x_step;                                    \
            memcpy(square[j], x, sizeof(WORD) * (size_t)t->rows);                                  \
        }                                                                                          \
        for (int64_t i = 0; i < t->rows; i++) {                                                    \
            WORD *out = (WORD *)t->out + i * t->out_step;                                          \
            for (int64_t j = 0; j < t->columns; j++) {                                             \
                out[j] = FORMULA(square[j][i]);                                                    \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static void copy_tiles_##name(void *context, int64_t begin, int64_t end)                       \
    {                                                                                              \
        for (int64_t i = begin; i < end; i++) {                                                    \
            const tile t = tile_at((const turned *)context, i);                                    \
            copy_tile_##name(&t);                                                                  \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static aicf_status copy_##name(const aicf_view *x, const aicf_view *out)                       \
    {                                                                                              \
        const aicf_view *const views[] = {x, out};                                                 \
        turned t;                                                                                  \
        if (out->rank > 1 && aicf_lines_numel(out) > 0 && turned_plan(&t, x, out, sizeof(WORD))) { \
            aicf_parallel_for(t.tiles, TILES, copy_tiles_##name, &t);                              \
            return aicf_ok();                                                                      \
        }                                                                                          \
        return aicf_lines_run(views, 2, sizeof(WORD), GRAIN, copy_line_##name, NULL);              \
    }

COPY_WORD(uint8_t, 8, SAME)
COPY_WORD(uint16_t, 16, SAME)
COPY_WORD(uint32_t, 32, SAME)
COPY_WORD(uint64_t, 64, SAME)
COPY_WORD(uint8_t, bool, TRUTH)

#define COPY(s, name)                                                            \
    aicf_status aicf_cpu_copy_loop_##s(                                          \
        const aicf_view *x, const aicf_view *out, int64_t A, aicf_stream stream) \
    {                                                                            \
        (void)A, (void)stream;                                                   \
        return copy_##name(x, out);                                              \
    }

COPY(f32, 32)
COPY(f16, 16)
COPY(bf16, 16)
COPY(f64, 64)
COPY(i8, 8)
COPY(u8, 8)
COPY(i16, 16)
COPY(i32, 32)
COPY(i64, 64)
COPY(bool, bool)
