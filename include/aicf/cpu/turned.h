/* A copy from a view of any strides to another of the same shape, by the size of an element. Where
   the two run through memory along different dims, tile by tile, so that whole cache lines are read
   and written; else line by line. */
#ifndef AICF_CPU_TURNED_H
#define AICF_CPU_TURNED_H

#include <aicf/cpu/lines.h>

enum {
    AICF_TURNED_GRAIN = 32768, /* elements a part: long beside the cost of waking a thread */
    AICF_TURNED_SIDE = 32,     /* of a tile: one or more cache lines for all but single bytes */
    AICF_TURNED_TILES = AICF_TURNED_GRAIN / AICF_TURNED_SIDE / AICF_TURNED_SIDE /* a part */
};

/* x runs along the last dim but one, out along the last. */
typedef struct aicf_turned {
    aicf_lines w;
    int64_t rows, columns; /* of tiles in the last two dims */
    int64_t tiles;         /* in all */
} aicf_turned;

/* False where both run along the same dim, or one is too short for tiles. */
static inline bool
aicf_turned_plan(aicf_turned *t, const aicf_view *x, const aicf_view *out, int64_t item)
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
    if (along == last || w->dims[last].step[1] != 1 || w->dims[along].size < AICF_TURNED_SIDE / 4 ||
        w->dims[last].size < AICF_TURNED_SIDE / 4) {
        return false;
    }
    const aicf_lines_dim dim = w->dims[along];
    for (; along < last - 1; along++) {
        w->dims[along] = w->dims[along + 1];
    }
    w->dims[along] = dim;
    t->rows = (dim.size + AICF_TURNED_SIDE - 1) / AICF_TURNED_SIDE;
    t->columns = (w->dims[last].size + AICF_TURNED_SIDE - 1) / AICF_TURNED_SIDE;
    t->tiles = t->rows * t->columns;
    for (int d = 0; d < along; d++) {
        t->tiles *= w->dims[d].size;
    }
    return true;
}

typedef struct aicf_tile {
    char *x, *out;
    int64_t rows, columns;
    int64_t x_step, out_step; /* from column to column of x, from row to row of out */
} aicf_tile;

static inline aicf_tile
aicf_tile_at(const aicf_turned *t, int64_t index)
{
    const aicf_lines *w = &t->w;
    const aicf_lines_dim *row = &w->dims[w->rank - 2], *column = &w->dims[w->rank - 1];
    const int64_t j = index % t->columns * AICF_TURNED_SIDE,
                  i = index / t->columns % t->rows * AICF_TURNED_SIDE;
    int64_t x = i + j * column->step[0], out = i * row->step[1] + j;
    int64_t outer = index / t->columns / t->rows;
    for (int d = w->rank - 3; d >= 0; d--) {
        const int64_t digit = outer % w->dims[d].size;
        outer /= w->dims[d].size;
        x += digit * w->dims[d].step[0];
        out += digit * w->dims[d].step[1];
    }
    const int64_t rows = row->size - i, columns = column->size - j;
    return (aicf_tile){w->data[0] + x * w->item[0],
                       w->data[1] + out * w->item[1],
                       rows < AICF_TURNED_SIDE ? rows : AICF_TURNED_SIDE,
                       columns < AICF_TURNED_SIDE ? columns : AICF_TURNED_SIDE,
                       column->step[0],
                       row->step[1]};
}

#define AICF_SAME(x) (x)
#define AICF_TRUTH(x) ((x) != 0)

/* Defines copy_<name>(x, out), out = FORMULA(x): lines, and tiles by way of a square of our own,
   whose short columns stay in the cache. */
#define AICF_TURNED_COPY(WORD, name, FORMULA)                                                     \
    AICF_INLINE void copy_steps_##name(                                                           \
        const WORD *x, WORD *out, int64_t n, int64_t dx, int64_t dout)                            \
    {                                                                                             \
        AICF_INDEPENDENT                                                                          \
        for (int64_t i = 0; i < n; i++) {                                                         \
            out[i * dout] = FORMULA(x[i * dx]);                                                   \
        }                                                                                         \
    }                                                                                             \
                                                                                                  \
    AICF_CLONES static void copy_line_##name(                                                     \
        char *const *at, const int64_t *step, int64_t n, const void *context)                     \
    {                                                                                             \
        const WORD *x = (const WORD *)at[0];                                                      \
        WORD *out = (WORD *)at[1];                                                                \
        (void)context;                                                                            \
        if (step[0] == 1 && step[1] == 1) {                                                       \
            copy_steps_##name(x, out, n, 1, 1);                                                   \
        } else if (step[0] == 0 && step[1] == 1) {                                                \
            copy_steps_##name(x, out, n, 0, 1);                                                   \
        } else {                                                                                  \
            copy_steps_##name(x, out, n, step[0], step[1]);                                       \
        }                                                                                         \
    }                                                                                             \
                                                                                                  \
    AICF_CLONES static void copy_tile_##name(const aicf_tile *t)                                  \
    {                                                                                             \
        WORD square[AICF_TURNED_SIDE][AICF_TURNED_SIDE];                                          \
        for (int64_t j = 0; j < t->columns; j++) {                                                \
            const WORD *x = (const WORD *)t->x + j * t->x_step;                                   \
            memcpy(square[j], x, sizeof(WORD) * (size_t)t->rows);                                 \
        }                                                                                         \
        for (int64_t i = 0; i < t->rows; i++) {                                                   \
            WORD *out = (WORD *)t->out + i * t->out_step;                                         \
            for (int64_t j = 0; j < t->columns; j++) {                                            \
                out[j] = FORMULA(square[j][i]);                                                   \
            }                                                                                     \
        }                                                                                         \
    }                                                                                             \
                                                                                                  \
    static void copy_tiles_##name(void *context, int64_t begin, int64_t end)                      \
    {                                                                                             \
        for (int64_t i = begin; i < end; i++) {                                                   \
            const aicf_tile t = aicf_tile_at((const aicf_turned *)context, i);                    \
            copy_tile_##name(&t);                                                                 \
        }                                                                                         \
    }                                                                                             \
                                                                                                  \
    static aicf_status copy_##name(const aicf_view *x, const aicf_view *out)                      \
    {                                                                                             \
        const aicf_view *const views[] = {x, out};                                                \
        aicf_turned t;                                                                            \
        if (out->rank > 1 && aicf_lines_numel(out) > 0 &&                                         \
            aicf_turned_plan(&t, x, out, sizeof(WORD))) {                                         \
            aicf_parallel_for(t.tiles, AICF_TURNED_TILES, copy_tiles_##name, &t);                 \
            return aicf_ok();                                                                     \
        }                                                                                         \
        return aicf_lines_run(views, 2, sizeof(WORD), AICF_TURNED_GRAIN, copy_line_##name, NULL); \
    }

#endif
