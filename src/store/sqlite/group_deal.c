/*
 * group_deal.c - the next events of the log into lots.
 *
 *   I1  Dealing goes on while a lane waits: a member that is slow holds up its own lane only.  What
 *       such a lane gets meanwhile does not grow with the log: its last lot gets a higher end, and
 *       its list is made when it is its turn.
 *   I2  A short lot that nobody has touched grows, so that a lane has few of them.
 *   I3  A deal looks at a bounded number of rows, also when few of them match.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "engine/pattern.h"
#include "store/sqlite/group.h"

#define SHORT_LOT 250    /* I2 */
#define LOTS_OF_A_LANE 4 /* I1 */
#define LOOK_ROWS 50000  /* I3 */
#define LIST_MAX 10000   /* events of a list that is made later */

/* The list of a lane, while it grows. */
typedef struct hand {
    int64_t *events;
    int64_t n;
    int64_t room;
} hand;

typedef struct dealing {
    hw_sqlite_group *g;
    hand *hands; /* one for each lane */
    int64_t dealt;
    int64_t most;
    int64_t looked_at;
    int64_t top; /* the last row that was looked at */
} dealing;

static int put(hand *h, int64_t sequence, howdah_error *reterr)
{
    if (h->n == h->room) {
        int64_t room = h->room > 0 ? 2 * h->room : 64;
        int64_t *events = hw_realloc(h->events, (size_t)room * sizeof *events);

        if (!events)
            return hw_fail_no_memory(reterr);
        h->events = events;
        h->room = room;
    }
    h->events[h->n++] = sequence;
    return HOWDAH_OK;
}

/* Whether the row (global_sequence, stream, type, revision) concerns the group. */
static bool concerns(const hw_sqlite_group *g, sqlite3_stmt *stmt)
{
    const howdah_event event = {.stream = hw_sqlite_borrow(stmt, 1),
                                .type = hw_sqlite_borrow(stmt, 2),
                                .revision = sqlite3_column_int(stmt, 3)};

    return hw_filter_lets(&g->filter, &event);
}

static int64_t lane_of(const hw_sqlite_group *g, sqlite3_stmt *stmt)
{
    return hw_group_lane(hw_sqlite_borrow(stmt, 1), g->lanes);
}

/* ?1 after, ?2 up to, ?3 at most, ?4 type */
#define NEXT_COLUMNS "SELECT global_sequence, stream, type, revision FROM main.howdah_events"
#define NEXT_SQL                                                                                   \
    NEXT_COLUMNS " WHERE global_sequence > ?1 AND global_sequence <= ?2"                           \
                 " ORDER BY global_sequence LIMIT ?3"
#define NEXT_OF_TYPE_SQL                                                                           \
    NEXT_COLUMNS " INDEXED BY howdah_events_by_type WHERE type = ?4 AND global_sequence > ?1"      \
                 " AND global_sequence <= ?2 ORDER BY global_sequence LIMIT ?3"

static bool is_of_one_type(const hw_sqlite_group *g)
{
    return g->filter.pattern.s && hw_pattern_is_exact(g->filter.pattern);
}

/* Calls fn for each row after one number and up to another, at most limit. */
static int walk(hw_sqlite_group *g, int64_t after, int64_t upto, int64_t limit,
                int (*fn)(void *ctx, sqlite3_stmt *stmt, howdah_error *reterr), void *ctx,
                howdah_error *reterr)
{
    bool typed = is_of_one_type(g);
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_stmt(g->store, typed ? HW_SLOT_GROUP_NEXT_OF_TYPE : HW_SLOT_GROUP_NEXT,
                           typed ? NEXT_OF_TYPE_SQL : NEXT_SQL, &stmt, reterr);

    if (s < 0)
        return s;
    (void)sqlite3_bind_int64(stmt, 1, after);
    (void)sqlite3_bind_int64(stmt, 2, upto);
    (void)sqlite3_bind_int64(stmt, 3, limit);
    if (typed)
        hw_sqlite_bind_str(stmt, 4, g->filter.pattern);
    while ((s = hw_sqlite_step(g->store, stmt, "deal", reterr)) == HOWDAH_OK) {
        s = fn(ctx, stmt, reterr);
        if (s != HOWDAH_OK)
            break;
    }
    (void)sqlite3_reset(stmt);
    (void)sqlite3_clear_bindings(stmt);
    return s < 0 ? s : HOWDAH_OK;
}

/* HOWDAH_END: enough. */
static int deal_row(void *ctx, sqlite3_stmt *stmt, howdah_error *reterr)
{
    dealing *d = ctx;
    int s = HOWDAH_OK;

    d->looked_at++;
    d->top = sqlite3_column_int64(stmt, 0);
    if (concerns(d->g, stmt)) {
        s = put(&d->hands[lane_of(d->g, stmt)], d->top, reterr);
        d->dealt++;
    }
    return s < 0 ? s : d->dealt < d->most ? HOWDAH_OK : HOWDAH_END;
}

/* The last lot of a lane, and how many the lane has; HOWDAH_END: none. */
static int last_lot(hw_sqlite_group *g, int64_t lane, hw_lot *ret_lot, int64_t *ret_n,
                    howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int64_t last = 0;
    int s = hw_sqlite_stmt(g->store, HW_SLOT_LOT_LAST,
                           "SELECT count(*), max(lot) FROM main.howdah_group_lots"
                           " WHERE group_id = ?1 AND lane = ?2",
                           &stmt, reterr);

    if (s < 0)
        return s;
    (void)sqlite3_bind_int64(stmt, 1, g->id);
    (void)sqlite3_bind_int64(stmt, 2, lane);
    s = hw_sqlite_step(g->store, stmt, "deal", reterr);
    if (s == HOWDAH_OK) {
        *ret_n = sqlite3_column_int64(stmt, 0);
        last = sqlite3_column_int64(stmt, 1);
    }
    (void)sqlite3_reset(stmt);
    if (s < 0 || *ret_n == 0)
        return s < 0 ? s : HOWDAH_END;
    return hw_sqlite_load_lot(g, "lot = ?2", last, ret_lot, reterr);
}

/* I1, I2. */
static bool is_for_the_last(const hw_lot *lot, int64_t lots, const hand *h)
{
    bool untouched = lot->attempts == 0 && lot->pos == 0 && lot->token == 0;

    return lot->upto < lot->hi || (lots >= LOTS_OF_A_LANE && untouched) ||
           (untouched && lot->n + h->n <= SHORT_LOT);
}

static int grow_lot(hw_sqlite_group *g, hw_lot *lot, int64_t lots, const hand *h,
                    howdah_error *reterr)
{
    bool whole = lot->upto == lot->hi && lots < LOTS_OF_A_LANE;
    int64_t *events;

    lot->hi = h->events[h->n - 1];
    if (!whole)
        return hw_sqlite_store_lot(g, lot, HW_STR_NULL, false, reterr);
    events = hw_realloc(lot->events, (size_t)(lot->n + h->n) * sizeof *events);
    if (!events)
        return hw_fail_no_memory(reterr);
    memcpy(events + lot->n, h->events, (size_t)h->n * sizeof *events);
    lot->events = events;
    lot->n += h->n;
    lot->upto = lot->hi;
    return hw_sqlite_store_lot(g, lot, HW_STR_NULL, true, reterr);
}

/* What the lane was dealt becomes a lot, or a part of its last one. */
static int store_hand(hw_sqlite_group *g, int64_t lane, const hand *h, howdah_error *reterr)
{
    hw_lot lot = {.events = NULL};
    int64_t lots = 0;
    int s = last_lot(g, lane, &lot, &lots, reterr);

    if (s == HOWDAH_OK && is_for_the_last(&lot, lots, h)) {
        s = grow_lot(g, &lot, lots, h, reterr);
    } else if (s >= 0) {
        const hw_lot made = {.number = g->deal * g->lanes + lane,
                             .lo = h->events[0],
                             .hi = h->events[h->n - 1],
                             .upto = h->events[h->n - 1],
                             .events = h->events,
                             .n = h->n};

        s = hw_sqlite_insert_lot(g, &made, reterr);
    }
    hw_sqlite_lot_done(&lot);
    return s;
}

static int store_place(hw_sqlite_group *g, howdah_error *reterr)
{
    const int64_t numbers[] = {g->id, g->high, g->deal};

    return hw_sqlite_run_numbers(g->store, HW_SLOT_GROUP_PLACE,
                                 "UPDATE main.howdah_groups SET high = ?2, deal = ?3"
                                 " WHERE group_id = ?1",
                                 numbers, 3, reterr);
}

static int store_hands(dealing *d, howdah_error *reterr)
{
    int s = HOWDAH_OK;

    d->g->deal++;
    for (int64_t lane = 0; s >= 0 && lane < d->g->lanes; lane++)
        if (d->hands[lane].n > 0)
            s = store_hand(d->g, lane, &d->hands[lane], reterr);
    return s < 0 ? s : store_place(d->g, reterr);
}

static int new_dealing(dealing *d, hw_sqlite_group *g, howdah_error *reterr)
{
    *d = (dealing){.g = g, .most = INT64_MAX};
    d->hands = hw_calloc((size_t)g->lanes, sizeof *d->hands);
    return d->hands ? HOWDAH_OK : hw_fail_no_memory(reterr);
}

static void dealing_done(dealing *d)
{
    for (int64_t lane = 0; d->hands && lane < d->g->lanes; lane++)
        hw_free(d->hands[lane].events);
    hw_free(d->hands);
}

int hw_sqlite_group_deal(hw_sqlite_group *g, int64_t per_lane, howdah_error *reterr)
{
    dealing d;
    int64_t head = 0;
    int s = new_dealing(&d, g, reterr);

    /* The whole transaction sees one log, so a number up to head that has no row never gets one. */
    if (s >= 0)
        s = hw_sqlite_read_head(g->store, &head, reterr);
    d.most = per_lane * g->lanes;
    if (s >= 0 && head > g->high) {
        s = walk(g, g->high, head, LOOK_ROWS, deal_row, &d, reterr);
        g->high = d.dealt >= d.most || d.looked_at >= LOOK_ROWS ? d.top : head;
        if (s >= 0)
            s = store_hands(&d, reterr);
    }
    dealing_done(&d);
    return s;
}

/* ----------------------------------------------------------------- a place */

static int forget(hw_sqlite_group *g, howdah_error *reterr)
{
    int s = hw_sqlite_once(g->store, "DELETE FROM main.howdah_group_lots WHERE group_id = ?1",
                           &g->id, 1, reterr);

    g->retries = false;
    return s < 0 ? s
                 : hw_sqlite_once(g->store,
                                  "DELETE FROM main.howdah_group_retries WHERE group_id = ?1",
                                  &g->id, 1, reterr);
}

/* Dead letters stay, and say nothing of the pass that begins: it is the later one, whatever the
   clock says. */
static int begin_pass(hw_sqlite_group *g, howdah_error *reterr)
{
    const int64_t numbers[] = {g->id, hw_clock_wall_us()};

    return hw_sqlite_once(
        g->store,
        "UPDATE main.howdah_groups SET created_at = max(?2, coalesce((SELECT 1 +"
        " max(coalesce(d.last_retry_at, d.created_at)) FROM main.howdah_dead_letters d"
        " WHERE d.subscriber_id = howdah_groups.subscriber_id), 0)) WHERE group_id = ?1",
        numbers, 2, reterr);
}

/* Numbers of deals go on, so that no lot has the name of another one. */
int hw_sqlite_group_place(hw_sqlite_group *g, int64_t high, const hw_range *outstanding, size_t n,
                          howdah_error *reterr)
{
    dealing d;
    int s = new_dealing(&d, g, reterr);

    if (s >= 0)
        s = forget(g, reterr);
    if (s >= 0)
        s = begin_pass(g, reterr);
    for (size_t i = 0; s >= 0 && i < n; i++)
        s = walk(g, outstanding[i].first - 1, outstanding[i].last, INT64_MAX, deal_row, &d, reterr);
    g->high = high;
    if (s >= 0)
        s = store_hands(&d, reterr);
    dealing_done(&d);
    return s;
}

/* ------------------------------------------------------- a list, made later */

typedef struct listing {
    const hw_sqlite_group *g;
    int64_t lane;
    hand hand;
    int64_t looked_at;
    int64_t top;
} listing;

static int list_row(void *ctx, sqlite3_stmt *stmt, howdah_error *reterr)
{
    listing *l = ctx;
    int s = HOWDAH_OK;

    l->looked_at++;
    l->top = sqlite3_column_int64(stmt, 0);
    if (lane_of(l->g, stmt) == l->lane && concerns(l->g, stmt))
        s = put(&l->hand, l->top, reterr);
    return s < 0 ? s : l->hand.n < LIST_MAX ? HOWDAH_OK : HOWDAH_END;
}

/* Where no row of the lane is found among those that it may look at, the list is empty, and its
   end is further on. */
int hw_sqlite_list_more(hw_sqlite_group *g, hw_lot *lot, howdah_error *reterr)
{
    listing l = {.g = g, .lane = lot->number % g->lanes};
    int s;

    assert(hw_lot_needs_list(lot));
    s = walk(g, lot->upto, lot->hi, LOOK_ROWS, list_row, &l, reterr);
    if (s < 0) {
        hw_free(l.hand.events);
        return s;
    }
    lot->upto = l.hand.n >= LIST_MAX || l.looked_at >= LOOK_ROWS ? l.top : lot->hi;
    hw_free(lot->events);
    lot->events = l.hand.events ? l.hand.events : hw_alloc(sizeof *lot->events);
    lot->n = l.hand.n;
    lot->pos = 0;
    lot->careful = 0;
    if (!lot->events)
        return hw_fail_no_memory(reterr);
    return hw_sqlite_store_lot(g, lot, HW_STR_NULL, true, reterr);
}
