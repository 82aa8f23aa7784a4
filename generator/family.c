/* Families: near-equal rows said once, spread into plain ones. */
#include "checker.h"

static bool
member_args_append(checker *c, row *member, const node *family_args, const node *own_args)
{
    if (!family_args || !own_args) {
        member->fields[ROW_ARGS] = NULL;
        return false;
    }
    node *all = arena_alloc(c->memory, sizeof *all);
    all->kind = NODE_LIST;
    all->where = family_args->where;
    for (int i = 0; i < family_args->items.count; i++) {
        *list_push(c->memory, &all->items) = family_args->items.items[i];
    }
    for (int i = 0; i < own_args->items.count; i++) {
        *list_push(c->memory, &all->items) = own_args->items.items[i];
    }
    member->fields[ROW_ARGS] = all;
    return true;
}

/* Whether `key` is said in both the family and its member, and where. */
static void
said_twice(checker *c, context of, const node *family, const node *member, const char *key)
{
    const pair *first = node_find(family, key), *second = node_find(member, key);
    if (first && second) {
        fault(
            c->faults, "family-override", second->where, of,
            "`%s` stands in the family and in its member: a key belongs to one of them", key);
        fault_also(c->faults, first->where, "the family's is here");
    }
}

/* Presence is asked of the maps: a faulty value is NULL in the fields. */
static void
member_merge(
    checker *c, row *member, context of, const node *family_map, node *const *family,
    const node *map, node *const *own)
{
    for (int i = MEMBER_FIRST; i < ROW_COUNT; i++) {
        const char *key = row_fields.items[i].key;
        node *mine = own[i - MEMBER_FIRST];
        bool here = node_find(map, key) != NULL, there = node_find(family_map, key) != NULL;
        member->fields[i] = here ? mine : family[i];
        member->faulty[i] = (here || there) && !member->fields[i];
        if (i == ROW_ARGS && here && there) {
            bool good = member_args_append(c, member, family[i], mine);
            member->faulty[i] = !good;
            member->whole &= good;
        } else if (here && there) {
            said_twice(c, of, family_map, map, key);
            member->whole = false;
        } else if (!here && !there && row_fields.items[i].required) {
            member->whole = fault(
                c->faults, "missing-key", member->name_where, of,
                "neither the member nor its family has the key `%s`", key);
        }
    }
}

static void
family_spread(checker *c, const node *map, node **got, bool whole, row_list *out)
{
    const node *name = got[ROW_FAMILY], *members = got[ROW_OPS];
    for (int i = 0; members && i < members->pairs.count; i++) {
        const pair *p = &members->pairs.items[i];
        context of = {p->key, NULL};
        node *own[ROW_COUNT - MEMBER_FIRST];
        row *member = list_push(c->memory, &out->all);
        member->name = p->key;
        member->family = name ? name->text : NULL;
        member->where = member->name_where = p->where;
        member->whole = whole && name;
        member->whole &= fields_read(c->faults, of, p->value, &member_fields, true, own);
        member_merge(c, member, of, map, got, p->value, own);
    }
}

/* A row says `op`, or `family` and `ops`. */
static bool
row_head_check(checker *c, context of, const node *map)
{
    const pair *op_key = node_find(map, "op"), *family = node_find(map, "family");
    const pair *ops = node_find(map, "ops");
    if (op_key && (family || ops)) {
        fault(
            c->faults, "op-or-family", family ? family->where : ops->where, of,
            "a row has `op`, or `family` and `ops`, not both");
        fault_also(c->faults, op_key->where, "`op` is here");
        return false;
    }
    if (!op_key && !(family && ops)) {
        return fault(
            c->faults, "op-or-family", map->where, of, "a row needs `op`, or `family` and `ops`%s",
            family || ops ? ": one of the two is missing" : "");
    }
    return true;
}

static void
row_collect(checker *c, const node *map, row_list *out)
{
    const pair *head = node_find(map, "op");
    if (!head) {
        head = node_find(map, "family");
    }
    context of = {head && head->value->kind == NODE_SCALAR ? head->value->text : NULL, NULL};
    node *got[ROW_COUNT];
    bool family = node_find(map, "family") || node_find(map, "ops");
    bool whole = fields_read(c->faults, of, map, &row_fields, family, got);
    whole &= row_head_check(c, of, map);
    if (family) {
        family_spread(c, map, got, whole, out);
        return;
    }
    row *r = list_push(c->memory, &out->all);
    r->name = got[ROW_OP] ? got[ROW_OP]->text : NULL;
    r->where = map->where;
    r->name_where = got[ROW_OP] ? got[ROW_OP]->where : map->where;
    for (int i = 0; i < ROW_COUNT; i++) {
        r->fields[i] = got[i];
        r->faulty[i] = !got[i] && node_find(map, row_fields.items[i].key);
    }
    r->whole = whole;
}

static void
family_names_check(checker *c, const node *ops)
{
    dict *seen = dict_create(c->memory);
    for (int i = 0; i < ops->items.count; i++) {
        const node *map = ops->items.items[i];
        const pair *p = node_find(map, "family");
        if (!p || p->value->kind != NODE_SCALAR) {
            continue;
        }
        context of = {p->value->text, NULL};
        name_check(c->faults, of, p->value->where, p->value->text, NAME_OP);
        int first = dict_add(seen, p->value->text, i);
        if (first >= 0) {
            fault(
                c->faults, "duplicate-family", p->value->where, of,
                "family `%s` is here a second time", p->value->text);
            fault_also(
                c->faults, node_find(ops->items.items[first], "family")->value->where,
                "the first one is here");
        }
    }
}

static void
op_names_check(checker *c, const row_list *rows)
{
    dict *seen = dict_create(c->memory);
    for (int i = 0; i < rows->all.count; i++) {
        row *r = &rows->all.items[i];
        if (!r->name) {
            continue;
        }
        context of = {r->name, NULL};
        r->whole &= name_check(c->faults, of, r->name_where, r->name, NAME_OP);
        int first = dict_add(seen, r->name, i);
        if (first >= 0) {
            r->whole = fault(
                c->faults, "duplicate-op", r->name_where, of, "op `%s` is here a second time",
                r->name);
            fault_also(c->faults, rows->all.items[first].name_where, "the first one is here");
        }
    }
}

void
rows_collect(checker *c, const node *ops, row_list *out)
{
    list_reserve(c->memory, &out->all, ops->items.count);
    for (int i = 0; i < ops->items.count && !faults_full(c->faults); i++) {
        row_collect(c, ops->items.items[i], out);
    }
    family_names_check(c, ops);
    op_names_check(c, out);
}
