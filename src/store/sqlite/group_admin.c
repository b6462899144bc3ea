/* group_admin.c - groups as operators see them: made, looked at, given up; see group.h. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "store/sqlite/group.h"

static const char *const on_fail_names[] = {"open", "closed", "hold"};

/* ----------------------------------------------------------------- creating */

static int insert_group(hw_sqlite *store, const howdah_member_options *o, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_prepare(
        store,
        "INSERT INTO main.howdah_groups (subscriber_id, lanes, by_stream, max_retries,"
        " retry_delay_ms, max_retry_delay_ms, on_fail, token, high, deal, boot, created_at)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, -1, 0, 0, ?8, ?9)",
        &stmt, reterr);

    if (s < 0)
        return s;
    assert((size_t)o->on_fail < sizeof on_fail_names / sizeof *on_fail_names);
    hw_sqlite_bind_str(stmt, 1, hw_str_of(o->subscriber_id));
    (void)sqlite3_bind_int64(stmt, 2, o->lanes);
    (void)sqlite3_bind_int(stmt, 3, o->key == HOWDAH_ORDER_BY_STREAM);
    (void)sqlite3_bind_int64(stmt, 4, o->max_retries);
    (void)sqlite3_bind_int64(stmt, 5, o->retry_delay_ms);
    (void)sqlite3_bind_int64(stmt, 6, o->max_retry_delay_ms);
    hw_sqlite_bind_str(stmt, 7, hw_str_of(on_fail_names[o->on_fail]));
    hw_sqlite_bind_str(stmt, 8, hw_sqlite_boot(store));
    (void)sqlite3_bind_int64(stmt, 9, hw_clock_wall_us());
    return hw_sqlite_finish(store, stmt, "make a group", reterr);
}

/* The subscription that becomes shared: a new one, or one that nobody runs.  Its token grows, so
   that an owner whose lease ran out does not go on beside the members. */
static int make_row(hw_sqlite *store, const howdah_member_options *o, bool there,
                    howdah_error *reterr)
{
    const hw_filter filter = {hw_str_of(o->pattern), hw_str_of(o->stream), o->originals_only};
    int64_t high = o->start;
    int64_t head = 0;
    int s = HOWDAH_OK;

    if (there) {
        sqlite3_stmt *stmt = NULL;

        s = hw_sqlite_prepare(
            store,
            "UPDATE main.howdah_subscriptions SET token = token + 1, owner = NULL,"
            " lease_until = NULL, lease_boot = NULL WHERE subscriber_id = ?1",
            &stmt, reterr);
        if (s < 0)
            return s;
        hw_sqlite_bind_str(stmt, 1, hw_str_of(o->subscriber_id));
        return hw_sqlite_finish(store, stmt, "share a subscription", reterr);
    }
    if (o->start != HOWDAH_FROM_START)
        s = hw_sqlite_read_head(store, &head, reterr);
    if (s >= 0 && o->start == HOWDAH_FROM_END)
        high = head;
    if (s >= 0 && high > head)
        s = hw_fail_field(reterr, HOWDAH_INVALID, "start", "is beyond the log's head, %lld",
                          (long long)head);
    return s < 0 ? s
                 : hw_sqlite_insert_sub(store, hw_str_of(o->subscriber_id), &filter, high, NULL, 0,
                                        reterr);
}

static int make_group(hw_sqlite *store, const howdah_member_options *o, bool *ret_created,
                      howdah_error *reterr)
{
    hw_str name = hw_str_of(o->subscriber_id);
    hw_sqlite_sub_look l;
    int s = hw_sqlite_look_at_sub(store, name, NULL, &l, reterr);

    if (s < 0 || l.shared)
        return s;
    if (l.there && l.leased && l.lease_left_us > 0) {
        s = hw_fail(reterr, HOWDAH_CONFLICT, "a process runs the subscription %s",
                    o->subscriber_id);
        return hw_advise(reterr, s, "stop it first: only one that nobody runs can be shared");
    }
    *ret_created = true;
    s = make_row(store, o, l.there, reterr);
    return s < 0 ? s : insert_group(store, o, reterr);
}

static int group_create(hw_store *base, const howdah_member_options *options, bool *ret_created,
                        void (*fn)(void *ctx, const hw_filter *filter), void *ctx,
                        howdah_error *reterr)
{
    hw_sqlite *store = (hw_sqlite *)base;
    hw_sqlite_sub_look l = {.there = false};
    hw_sqlite_group g;
    int s = hw_sqlite_ready_to_read(store, reterr);

    *ret_created = false;
    if (s >= 0)
        s = hw_sqlite_look_at_sub(store, hw_str_of(options->subscriber_id), NULL, &l, reterr);
    if (s >= 0 && !l.shared) {
        s = hw_sqlite_enter(store, true, reterr);
        if (s < 0)
            return s;
        s = hw_sqlite_leave(store, make_group(store, options, ret_created, reterr), reterr);
    }
    if (s < 0)
        return s;
    s = hw_sqlite_group_load(&g, store, hw_str_of(options->subscriber_id), reterr);
    if (s >= 0)
        fn(ctx, &g.filter);
    hw_sqlite_group_done(&g);
    return s;
}

/* ------------------------------------------------------------------ members */

/* ?1 group, ?2 now, ?3 after whom, ?4 limit */
#define MEMBERS_SQL                                                                                \
    "SELECT x.name, count(*), sum(x.taken), max(?2 - x.taken_at) FROM ("                           \
    " SELECT coalesce(member, '') AS name, taken, taken_at FROM main.howdah_group_lots"            \
    "  WHERE group_id = ?1 AND until > ?2 UNION ALL"                                               \
    " SELECT coalesce(member, ''), taken, taken_at FROM main.howdah_group_retries"                 \
    "  WHERE group_id = ?1 AND until > ?2) AS x GROUP BY x.name ORDER BY x.name"

/* There are as many as lanes at most: read at once, and then handed over. */
static int group_members(hw_store *base, hw_str subscriber_id, hw_member_fn fn, void *ctx,
                         howdah_error *reterr)
{
    hw_sqlite *store = (hw_sqlite *)base;
    hw_sqlite_held held = {.whole = true};
    sqlite3_stmt *stmt = NULL;
    sqlite3_stmt *row = NULL;
    hw_sqlite_group g;
    int s = hw_sqlite_ready_to_read(store, reterr);

    if (s < 0)
        return s;
    s = hw_sqlite_group_load(&g, store, subscriber_id, reterr);
    if (s >= 0 && !g.in_place) { /* it was reset: the batches are lost */
        hw_sqlite_group_done(&g);
        return HOWDAH_OK;
    }
    if (s >= 0)
        s = hw_sqlite_prepare(store, MEMBERS_SQL, &stmt, reterr);
    if (s >= 0) {
        (void)sqlite3_bind_int64(stmt, 1, g.id);
        (void)sqlite3_bind_int64(stmt, 2, g.now_us);
        s = hw_sqlite_hold(&held, store, stmt, "look at members", reterr);
    }
    (void)sqlite3_finalize(stmt);
    while (s >= 0 && (s = hw_sqlite_held_next(&held, store, &row, reterr)) == HOWDAH_OK) {
        howdah_member_info info = HOWDAH_MEMBER_INFO_INIT;

        info.member = hw_sqlite_text(row, 0);
        info.batches = sqlite3_column_int64(row, 1);
        info.events = sqlite3_column_int64(row, 2);
        info.oldest_age_ms = sqlite3_column_int64(row, 3) / 1000;
        if (fn(ctx, &info) != 0)
            break;
    }
    hw_sqlite_held_done(&held);
    hw_sqlite_group_done(&g);
    return s < 0 ? s : HOWDAH_OK;
}

/* CONFLICT while a batch is out. */
static int check_idle(hw_sqlite_group *g, howdah_error *reterr)
{
    hw_lot lot;
    hw_sqlite_retry r;
    const hw_sqlite_value now = {.number = g->now_us};
    int s = hw_sqlite_load_lot(g, "f.until > ?2 LIMIT 1", g->now_us, &lot, reterr);

    hw_sqlite_lot_done(&lot);
    if (s == HOWDAH_END) {
        s = hw_sqlite_load_retry(g, "k.until > ?2 LIMIT 1", &now, &r, reterr);
        hw_sqlite_retry_done(&r);
    }
    if (s != HOWDAH_OK)
        return s < 0 ? s : HOWDAH_OK;
    s = hw_fail(reterr, HOWDAH_CONFLICT, "members have batches of the subscription %.*s",
                (int)g->subscriber_id.len, g->subscriber_id.s);
    return hw_advise(reterr, s, "stop them, or wait until their leases end");
}

/* -------------------------------------------------------------- outstanding */

/* Numbers one by one, in any order, become ranges. */
static int by_first(const void *a, const void *b)
{
    const hw_range *x = a;
    const hw_range *y = b;

    return x->first < y->first ? -1 : x->first > y->first;
}

typedef struct numbers {
    hw_range *items;
    size_t n;
    size_t room;
} numbers;

static int add(numbers *list, int64_t first, int64_t last, howdah_error *reterr)
{
    if (list->n == list->room) {
        size_t room = list->room > 0 ? 2 * list->room : 64;
        hw_range *items = hw_realloc(list->items, room * sizeof *items);

        if (!items)
            return hw_fail_no_memory(reterr);
        list->items = items;
        list->room = room;
    }
    list->items[list->n++] = (hw_range){first, last};
    return HOWDAH_OK;
}

static void merge(numbers *list)
{
    size_t kept = 0;

    if (list->n > 0)
        qsort(list->items, list->n, sizeof *list->items, by_first);
    for (size_t i = 0; i < list->n; i++) {
        if (kept > 0 && list->items[i].first <= list->items[kept - 1].last + 1) {
            if (list->items[i].last > list->items[kept - 1].last)
                list->items[kept - 1].last = list->items[i].last;
        } else {
            list->items[kept++] = list->items[i];
        }
    }
    list->n = kept;
}

/* Of a lot whose list is not whole, all numbers after it: some of them are of other lanes, and come
   again. */
static int add_lot(hw_sqlite_group *g, int64_t number, numbers *list, howdah_error *reterr)
{
    hw_lot lot;
    int s = hw_sqlite_load_lot(g, "lot = ?2", number, &lot, reterr);

    for (int64_t i = lot.pos; s == HOWDAH_OK && i < lot.n; i++)
        s = add(list, lot.events[i], lot.events[i], reterr);
    if (s == HOWDAH_OK && lot.upto < lot.hi)
        s = add(list, lot.upto + 1, lot.hi, reterr);
    hw_sqlite_lot_done(&lot);
    return s < 0 ? s : HOWDAH_OK;
}

static int add_retry(hw_sqlite_group *g, hw_sqlite_retry *r, numbers *list, howdah_error *reterr)
{
    hw_sqlite_next next = {.sequence = r->sequence, .dead_letter = r->dead_letter};
    int s = HOWDAH_OK;

    while (s >= 0 && next.sequence > 0) {
        if (next.dead_letter == 0) /* else it is over; only what waits is left */
            s = add(list, next.sequence, next.sequence, reterr);
        if (s >= 0)
            s = hw_sqlite_next_of_stream(g, r->stream, next.sequence, r->upto, &next, reterr);
    }
    return s;
}

/* What was dealt and is not handled. */
static int outstanding(hw_sqlite_group *g, numbers *list, howdah_error *reterr)
{
    int64_t after = -1;
    int s;

    do {
        hw_lot lot;

        s = hw_sqlite_load_lot(g, "f.lot > ?2 ORDER BY f.lot LIMIT 1", after, &lot, reterr);
        after = lot.number;
        hw_sqlite_lot_done(&lot);
        if (s == HOWDAH_OK)
            s = add_lot(g, after, list, reterr);
    } while (s == HOWDAH_OK);
    for (after = 0; s >= 0;) {
        const hw_sqlite_value last = {.number = after};
        hw_sqlite_retry r;

        s = hw_sqlite_load_retry(g, "k.retry > ?2 ORDER BY k.retry LIMIT 1", &last, &r, reterr);
        after = r.retry;
        if (s == HOWDAH_OK)
            s = add_retry(g, &r, list, reterr);
        hw_sqlite_retry_done(&r);
        if (after == 0)
            break;
    }
    merge(list);
    return s < 0 ? s : HOWDAH_OK;
}

/* -------------------------------------------------------------------- ending */

static int drop_group(hw_sqlite_group *g, howdah_error *reterr)
{
    static const char *const steps[] = {"DELETE FROM main.howdah_group_lots WHERE group_id = ?1",
                                        "DELETE FROM main.howdah_group_retries WHERE group_id = ?1",
                                        "DELETE FROM main.howdah_groups WHERE group_id = ?1"};
    int s = HOWDAH_OK;

    for (size_t i = 0; s >= 0 && i < sizeof steps / sizeof *steps; i++)
        s = hw_sqlite_once(g->store, steps[i], &g->id, 1, reterr);
    return s;
}

static int group_unshare(hw_store *base, hw_str subscriber_id, howdah_error *reterr)
{
    numbers list = {.items = NULL};
    hw_sqlite_group g;
    int s = hw_sqlite_group_enter(&g, (hw_sqlite *)base, subscriber_id, true, reterr);

    if (s < 0)
        return s;
    s = check_idle(&g, reterr);
    if (s >= 0)
        s = outstanding(&g, &list, reterr);
    if (s >= 0)
        s = hw_sqlite_reset_sub(g.store, subscriber_id, g.high, list.items, list.n, reterr);
    if (s >= 0)
        s = drop_group(&g, reterr);
    s = hw_sqlite_group_leave(&g, s, reterr);
    hw_free(list.items);
    return s < 0 ? s : hw_sqlite_ring(base, NULL, 0, reterr);
}

static int group_remove(hw_store *base, hw_str subscriber_id, howdah_error *reterr)
{
    hw_sqlite_group g;
    int s = hw_sqlite_group_enter(&g, (hw_sqlite *)base, subscriber_id, true, reterr);

    if (s < 0)
        return s;
    s = check_idle(&g, reterr);
    if (s >= 0)
        s = drop_group(&g, reterr);
    if (s >= 0)
        s = hw_sqlite_drop_sub(g.store, subscriber_id, reterr);
    return hw_sqlite_group_leave(&g, s, reterr);
}

/* See sqlite.h. */
int hw_sqlite_group_place_of(hw_sqlite *store, hw_str subscriber_id, int64_t *ret_high,
                             hw_range **ret_outstanding, size_t *ret_n, howdah_error *reterr)
{
    numbers list = {.items = NULL};
    hw_sqlite_group g;
    int s = hw_sqlite_group_load(&g, store, subscriber_id, reterr);

    if (s >= 0)
        s = outstanding(&g, &list, reterr);
    if (s >= 0 && g.in_place) {
        hw_free(*ret_outstanding);
        *ret_high = g.high;
        *ret_outstanding = list.items;
        *ret_n = list.n;
    } else {
        hw_free(list.items);
    }
    hw_sqlite_group_done(&g);
    return s;
}

const hw_group_ops hw_sqlite_group_ops = {
    .create = group_create,
    .fetch = hw_sqlite_group_fetch,
    .ack = hw_sqlite_group_ack,
    .nack = hw_sqlite_group_nack,
    .extend = hw_sqlite_group_extend,
    .release = hw_sqlite_group_release,
    .commit = hw_sqlite_group_commit,
    .members = group_members,
    .unshare = group_unshare,
    .remove = group_remove,
};
