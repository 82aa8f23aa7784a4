#include "match.h"

#include "attribute.h"
#include "param.h"

enum { UNKNOWN = -1 };

typedef struct items {
    const aicf_item *at;
    int count;
} items;

/* Which of the row's two shapes holds, where it has two. */
static items
items_of(const binding *b, int param)
{
    const aicf_shape *shape = &b->scope.call->op->shapes[param];
    if (shape->test && !shape->test(&b->scope)) {
        return (items){shape->other, shape->other_count};
    }
    return (items){shape->items, shape->count};
}

static inline bool
is_bound(const binding *b, int dim)
{
    return b->bound >> dim & 1;
}

static int
reduced_rank(const binding *b, const aicf_item *item)
{
    int rank = b->packs[item->dim].rank;
    bool keep = item->keep >= 0 && attribute_bool(b->scope.call, item->keep);
    int left = keep ? rank : rank - attribute_axes(b->scope.call, item->axis, NULL);
    return left < 0 ? 0 : left;
}

/* How many dims the item stands for, UNKNOWN while its packs are not bound. */
static int
item_rank(const binding *b, const aicf_item *item)
{
    int rank = 0;
    switch ((aicf_item_kind)item->kind) {
    case AICF_ITEM_DIM:
    case AICF_ITEM_AXIS:
    case AICF_ITEM_VALUE: return 1;
    case AICF_ITEM_PACK:
    case AICF_ITEM_PERMUTED: return b->packs[item->dim].rank;
    case AICF_ITEM_REDUCED: return b->packs[item->dim].rank < 0 ? UNKNOWN : reduced_rank(b, item);
    case AICF_ITEM_BROADCAST:
        for (const int16_t *p = item->packs; *p >= 0; p++) {
            rank = b->packs[*p].rank > rank ? b->packs[*p].rank : rank;
        }
        return rank;
    }
    return UNKNOWN;
}

/* A broadcast is known only when all its packs are: one that is absent stays unbound. */
static bool
is_open(const binding *b, const aicf_item *item)
{
    if (item->kind == AICF_ITEM_BROADCAST) {
        for (const int16_t *p = item->packs; *p >= 0; p++) {
            if (!is_bound(b, *p)) {
                return true;
            }
        }
        return false;
    }
    return item_rank(b, item) == UNKNOWN;
}

/* The same as item_rank where the item is not open, else UNKNOWN; dims and packs, which most items
   are, at once. */
static inline int
known_rank(const binding *b, const aicf_item *item)
{
    return item->kind == AICF_ITEM_DIM    ? 1
           : item->kind == AICF_ITEM_PACK ? b->packs[item->dim].rank
           : is_open(b, item)             ? UNKNOWN
                                          : item_rank(b, item);
}

/* Gives the one open item of [from, to) the dims that the others leave of `room`. */
static match
locate_part(const binding *b, items all, int from, int to, int room, int ranks[])
{
    int open = -1, rest = room;
    for (int i = from; i < to; i++) {
        int known = known_rank(b, &all.at[i]);
        if (known >= 0) {
            ranks[i] = known;
            rest -= known;
        } else if (open >= 0) {
            return MATCH_LATER;
        } else {
            open = i;
        }
    }
    if (rest < 0 || (open < 0 && rest != 0)) {
        return MATCH_NO;
    }
    if (open >= 0) {
        ranks[open] = rest;
    }
    return MATCH_YES;
}

enum { MAX_ITEMS = 64 };

/* How many dims of `t` each item stands for. An axis says where its item stands, and so parts the
   shape in two that are located by themselves. */
static match
locate(const binding *b, items all, const aicf_tensor *t, int ranks[MAX_ITEMS])
{
    for (int i = 0; i < all.count; i++) {
        if (all.at[i].kind == AICF_ITEM_AXIS) {
            int64_t axis = attribute_axis(b->scope.call, all.at[i].axis);
            if (axis < 0 || axis >= t->rank) {
                return MATCH_NO;
            }
            ranks[i] = 1;
            match left = locate_part(b, all, 0, i, (int)axis, ranks);
            match right = locate_part(b, all, i + 1, all.count, t->rank - (int)axis - 1, ranks);
            return left == MATCH_NO || right == MATCH_NO ? MATCH_NO
                   : left == MATCH_LATER                 ? left
                                                         : right;
        }
    }
    return locate_part(b, all, 0, all.count, t->rank, ranks);
}

/* A let is compared when it is computed. */
static bool
bind_dim(binding *b, int dim, int64_t size, bool *all_bind)
{
    if (is_bound(b, dim)) {
        return b->dims[dim] == size;
    }
    if (b->scope.call->op->dims[dim].kind == AICF_DIM_LET) {
        *all_bind = false;
        return true;
    }
    b->dims[dim] = size;
    b->bound |= UINT64_C(1) << dim;
    return true;
}

static bool
bind_pack(binding *b, int dim, const int64_t *sizes, int rank)
{
    aicf_pack *pack = &b->packs[dim];
    if (is_bound(b, dim)) {
        return pack->rank == rank && sizes_equal(pack->sizes, sizes, rank);
    }
    pack->sizes = sizes;
    pack->rank = rank;
    b->dims[dim] = 1;
    for (int i = 0; i < rank; i++) {
        b->dims[dim] *= sizes[i];
    }
    b->bound |= UINT64_C(1) << dim;
    return true;
}

match
match_bind(binding *b, int param, const aicf_tensor *t)
{
    if (t->absent) { /* a tensor of an optional list */
        return MATCH_YES;
    }
    items all = items_of(b, param);
    if (all.count == 1 && all.at->kind == AICF_ITEM_PACK) {
        b->whole |= param < 64 ? UINT64_C(1) << param : 0;
        return bind_pack(b, all.at->dim, t->sizes, t->rank) ? MATCH_YES : MATCH_NO;
    }
    int ranks[MAX_ITEMS];
    match found = all.count > MAX_ITEMS ? MATCH_NO : locate(b, all, t, ranks);
    if (found != MATCH_YES) {
        return found;
    }
    bool agree = true, all_bind = true;
    int at = 0;
    for (int i = 0; agree && i < all.count; i++) {
        const aicf_item *item = &all.at[i];
        if (item->kind == AICF_ITEM_PACK) {
            agree = bind_pack(b, item->dim, t->sizes + at, ranks[i]);
        } else if (item->kind == AICF_ITEM_DIM || item->kind == AICF_ITEM_AXIS) {
            agree = bind_dim(b, item->dim, t->sizes[at], &all_bind);
        } else {
            all_bind = false;
        }
        at += ranks[i];
    }
    if (all_bind && param < 64) {
        b->whole |= UINT64_C(1) << param;
    }
    return agree ? MATCH_YES : MATCH_NO;
}

static int
reduced_sizes(const binding *b, const aicf_item *item, int64_t sizes[])
{
    const aicf_pack *pack = &b->packs[item->dim];
    bool keep = item->keep >= 0 && attribute_bool(b->scope.call, item->keep);
    uint64_t axes = 0;
    int rank = 0;

    attribute_axes(b->scope.call, item->axis, &axes);
    for (int i = 0; i < pack->rank; i++) {
        bool gone = axes >> i & 1;
        if (!gone || keep) {
            sizes[rank++] = gone ? 1 : pack->sizes[i];
        }
    }
    return rank;
}

static int
permuted_sizes(const binding *b, const aicf_item *item, int64_t sizes[])
{
    const aicf_pack *pack = &b->packs[item->dim];
    const aicf_ints *order = attribute_at(b->scope.call, item->axis);

    if (order->count != pack->rank) {
        return -1;
    }
    for (int i = 0; i < pack->rank; i++) {
        int64_t from = order->values[i];
        if (from < 0 || from >= pack->rank) {
            return -1;
        }
        sizes[i] = pack->sizes[from];
    }
    return pack->rank;
}

/* The sizes of one item, all being bound. How many, or -1. */
static int
item_sizes(const binding *b, const aicf_item *item, int64_t sizes[AICF_MAX_DIMS])
{
    const aicf_pack *pack = item->dim >= 0 ? &b->packs[item->dim] : NULL;
    switch ((aicf_item_kind)item->kind) {
    case AICF_ITEM_DIM:
    case AICF_ITEM_AXIS: sizes[0] = b->dims[item->dim]; return 1;
    case AICF_ITEM_VALUE: return item->value(&b->scope, &sizes[0]) ? 1 : -1;
    case AICF_ITEM_PACK:
        for (int i = 0; i < pack->rank; i++) {
            sizes[i] = pack->sizes[i];
        }
        return pack->rank < 0 ? 0 : pack->rank;
    case AICF_ITEM_BROADCAST: return binding_broadcast(b->packs, item->packs, sizes);
    case AICF_ITEM_REDUCED: return reduced_sizes(b, item, sizes);
    case AICF_ITEM_PERMUTED: return permuted_sizes(b, item, sizes);
    }
    return -1;
}

int
match_sizes(const binding *b, int param, int64_t sizes[AICF_MAX_DIMS])
{
    items all = items_of(b, param);
    int64_t part[AICF_MAX_DIMS];
    int rank = 0;

    if (all.count == 1) {
        return item_sizes(b, all.at, sizes);
    }
    for (int i = 0; i < all.count; i++) {
        int count = item_sizes(b, &all.at[i], part);
        if (count < 0 || rank + count > AICF_MAX_DIMS) {
            return -1;
        }
        for (int k = 0; k < count; k++) {
            sizes[rank++] = part[k];
        }
    }
    return rank;
}

aicf_status
match_check(binding *b, int param, const aicf_tensor *t)
{
    if (t->absent) {
        return aicf_ok();
    }
    int64_t sizes[AICF_MAX_DIMS];
    int rank = match_sizes(b, param, sizes);
    bool same = rank == t->rank && sizes_equal(sizes, t->sizes, rank);
    return same ? aicf_ok() : aicf_unsupported(AICF_CHECK_SHAPE, param, 0);
}
