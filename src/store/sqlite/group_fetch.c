/*
 * group_fetch.c - a member takes its next batch; see group.h.
 *
 *   I1  Who finds nothing to do in a look without the write lock does not stand in line for it.
 *   I2  Events are read in the transaction that leases them: a batch has all the events that its
 *       lease is about, and a batch that would be too large by bytes is leased shorter.
 *   I3  A stream that is stuck is asked for after its lot was chosen, under the same lock.
 *   I4  A first retry goes before lots.  Later ones do every second time, by the toss of a coin:
 *       a few streams that fail again and again would have all members to themselves.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/mem.h"
#include "base/random.h"
#include "store/sqlite/group.h"

/* Lots are mostly not longer than a batch, and not too short to be worth a write. */
#define PER_LANE_MIN 225
#define PER_LANE_MAX 1000
#define WAKE_MAX 100

#define EVENT_SQL                                                                                  \
    "SELECT " HW_SQLITE_EVENT_COLUMNS " FROM main.howdah_events WHERE global_sequence = ?1"

/* The first lot that is free: of each lane only the first one, unless there is no order. */
#define FREE_LOT                                                                                   \
    "f.until <= ?2 AND NOT EXISTS (SELECT 1 FROM main.howdah_group_lots q WHERE"                   \
    " q.group_id = f.group_id AND q.lane = f.lane AND q.lot < f.lot) ORDER BY f.lot LIMIT 1"
#define FREE_LOT_IN_NO_ORDER "f.until <= ?2 ORDER BY f.lot LIMIT 1"
#define IS_TOO_EARLY                                                                               \
    "EXISTS (SELECT 1 FROM main.howdah_group_lots p WHERE p.group_id = k.group_id"                 \
    " AND p.lot = k.prior_lot AND p.at < k.prior)"
#define IS_DUE "k.due <= ?2 AND k.until <= ?2 AND NOT " IS_TOO_EARLY
#define DUE_RETRY IS_DUE " ORDER BY k.due LIMIT 1"
#define DUE_FIRST_RETRY IS_DUE " AND k.attempts < 2 ORDER BY k.due LIMIT 1"

/* What is to be given out. */
typedef struct taking {
    hw_sqlite_group *g;
    const hw_group_take *take;
    hw_sqlite_page *page;
    char token[HW_BATCH_TOKEN_SIZE];
    int64_t attempt;
} taking;

/* ------------------------------------------------------------------- events */

/* ret_full: it is there, but the page has bytes enough. */
int hw_sqlite_page_event(hw_sqlite_group *g, hw_sqlite_page *page, int64_t sequence, bool *ret_full,
                         howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_stmt(g->store, HW_SLOT_GROUP_EVENT, EVENT_SQL, &stmt, reterr);

    *ret_full = false;
    if (s < 0)
        return s;
    (void)sqlite3_bind_int64(stmt, 1, sequence);
    s = hw_sqlite_step(g->store, stmt, "read", reterr);
    if (s == HOWDAH_OK) {
        s = hw_sqlite_page_take(page, stmt, HW_PAYLOAD_HERE, reterr);
        *ret_full = s == HOWDAH_END;
    }
    (void)sqlite3_reset(stmt);
    return s;
}

/* How many of the n numbers are dealt with: read, or gone.  At least one. */
static int read_events(taking *t, const int64_t *numbers, int64_t n, int64_t *ret_done,
                       howdah_error *reterr)
{
    bool full = false;
    int s = HOWDAH_OK;

    hw_sqlite_page_clear(t->page);
    for (*ret_done = 0; s >= 0 && *ret_done < n; (*ret_done)++) {
        s = hw_sqlite_page_event(t->g, t->page, numbers[*ret_done], &full, reterr);
        if (full)
            break;
    }
    return s < 0 ? s : HOWDAH_OK;
}

/* ------------------------------------------------------------------ retries */

/* The numbers of the stream from the retry's own on, at most max, and not past where it is held. */
static int waiting_events(hw_sqlite_group *g, const hw_sqlite_retry *r, int64_t max,
                          int64_t *numbers, int64_t *ret_n, howdah_error *reterr)
{
    hw_sqlite_next next = {.sequence = r->sequence};
    int s = HOWDAH_OK;

    for (*ret_n = 0; s >= 0 && next.sequence > 0 && next.dead_letter == 0 && *ret_n < max;) {
        numbers[(*ret_n)++] = next.sequence;
        s = hw_sqlite_next_of_stream(g, r->stream, next.sequence, r->upto, &next, reterr);
    }
    return s;
}

/* What was never tried, and was not out when a lease ran out, goes several at a time. */
static int64_t most_of_retry(const hw_sqlite_retry *r, int64_t max)
{
    return r->attempts == 0 && r->taken == 0 && r->dead_letter == 0 ? max : 1;
}

static int lease_retry(taking *t, hw_sqlite_retry *r, const int64_t *numbers, int64_t n,
                       howdah_error *reterr)
{
    r->attempts++;
    r->token = hw_sqlite_new_fence();
    r->until_us = hw_sqlite_later_us(t->g->now_us, t->take->lease_ms);
    r->taken = n;
    r->last = numbers[n - 1];
    hw_sqlite_put_token(t->token, 'r', r->retry, r->token);
    t->attempt = r->attempts;
    return hw_sqlite_store_retry(t->g, r, t->take->member.s ? t->take->member : HW_STR_LIT(""),
                                 HW_STR_NULL, reterr);
}

static hw_str why_spent(int64_t tries, char text[64])
{
    (void)snprintf(text, 64, "the lease ran out, after %lld tries", (long long)tries);
    return hw_str_of(text);
}

/* The last try has ended with its member. */
static int spend_retry(hw_sqlite_group *g, hw_sqlite_retry *r, howdah_error *reterr)
{
    char why[64];
    hw_group_fate fate;
    hw_sqlite_failure f = {.sequence = r->sequence,
                           .stream = r->stream,
                           .upto = r->upto,
                           .tries = r->attempts,
                           .after_ms = -1};

    f.error = why_spent(r->attempts, why);
    return hw_sqlite_group_fail(g, &f, r, &fate, reterr);
}

/* HOWDAH_END: another try of a dead letter is not to be given out.  A person who wanted it does not
   any more, or each member that tried it has lost its lease: then a person is asked again. */
static int judge_redrive(hw_sqlite_group *g, hw_sqlite_retry *r, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    bool spent = false;
    int s = hw_sqlite_prepare(g->store,
                              "SELECT state = 'redrive' AND ?2 > retry_count"
                              " FROM main.howdah_dead_letters WHERE id = ?1"
                              " AND state IN ('dead', 'redrive')",
                              &stmt, reterr);

    if (s < 0)
        return s;
    (void)sqlite3_bind_int64(stmt, 1, r->dead_letter);
    (void)sqlite3_bind_int64(stmt, 2, r->attempts - g->rules.max_retries);
    s = hw_sqlite_step(g->store, stmt, "look at a dead letter", reterr);
    if (s == HOWDAH_OK)
        spent = r->taken > 0 && sqlite3_column_int(stmt, 0) != 0;
    (void)sqlite3_finalize(stmt);
    if (s == HOWDAH_END) {
        s = hw_sqlite_retry_on(g, r, r->sequence, reterr);
    } else if (spent) {
        char why[64];
        hw_group_fate fate;

        s = hw_sqlite_redrive_failed(g, r, why_spent(r->attempts, why), &fate, reterr);
    } else {
        return s;
    }
    return s < 0 ? s : HOWDAH_END;
}

/* HOWDAH_END: this one is not to be given out; look for the next. */
static int take_one_retry(taking *t, hw_sqlite_retry *r, int64_t *numbers, howdah_error *reterr)
{
    int64_t n = 0;
    int64_t done = 0;
    int s = r->dead_letter > 0 ? judge_redrive(t->g, r, reterr) : HOWDAH_OK;

    if (s != HOWDAH_OK)
        return s;
    if (r->taken > 0 && r->dead_letter == 0 && r->attempts > t->g->rules.max_retries) {
        s = spend_retry(t->g, r, reterr);
        return s < 0 ? s : HOWDAH_END;
    }
    s = waiting_events(t->g, r, most_of_retry(r, t->take->max_events), numbers, &n, reterr);
    if (s >= 0)
        s = read_events(t, numbers, n, &done, reterr);
    if (s >= 0 && t->page->n == 0) { /* it was removed */
        s = hw_sqlite_retry_on(t->g, r, r->sequence, reterr);
        return s < 0 ? s : HOWDAH_END;
    }
    return s < 0 ? s : lease_retry(t, r, numbers, done, reterr);
}

/* due: which ones.  HOWDAH_END: there is none. */
static int take_retry(taking *t, const char *due, howdah_error *reterr)
{
    const hw_sqlite_value now = {.number = t->g->now_us};
    int64_t *numbers;
    int s = HOWDAH_END;

    if (!t->g->retries)
        return HOWDAH_END;
    numbers = hw_alloc((size_t)t->take->max_events * sizeof *numbers);
    if (!numbers)
        return hw_fail_no_memory(reterr);
    for (bool found = true; found && s == HOWDAH_END && t->g->status == HW_SUB_ACTIVE;) {
        hw_sqlite_retry r;

        s = hw_sqlite_load_retry(t->g, due, &now, &r, reterr);
        found = s == HOWDAH_OK;
        if (found)
            s = take_one_retry(t, &r, numbers, reterr);
        hw_sqlite_retry_done(&r);
    }
    hw_free(numbers);
    return s;
}

/* --------------------------------------------------------------------- lots */

/* The row of retries that an event, or its stream, has; HOWDAH_END: none. */
static int find_retry(hw_sqlite_group *g, const howdah_event *event, hw_sqlite_retry *ret_retry,
                      howdah_error *reterr)
{
    bool by_stream = g->rules.by_stream;
    const hw_sqlite_value what = {.bytes = by_stream ? event->stream : HW_STR_NULL,
                                  .number = event->global_sequence};

    return hw_sqlite_load_retry(
        g, by_stream ? "k.stream = ?2" : "k.stream IS NULL AND k.sequence = ?2", &what, ret_retry,
        reterr);
}

/* HOWDAH_OK: the event waits from now on.  HOWDAH_END: it does not; what comes before the event
   that is tried next is not concerned. */
static int wait_behind(hw_sqlite_group *g, const howdah_event *event, howdah_error *reterr)
{
    hw_sqlite_retry r;
    int s = find_retry(g, event, &r, reterr);

    if (s == HOWDAH_OK && event->global_sequence < r.sequence)
        s = HOWDAH_END;
    if (s == HOWDAH_OK && r.upto < event->global_sequence) {
        const int64_t numbers[] = {r.retry, event->global_sequence};

        s = hw_sqlite_once(g->store,
                           "UPDATE main.howdah_group_retries SET upto = ?2 WHERE retry = ?1",
                           numbers, 2, reterr);
    }
    hw_sqlite_retry_done(&r);
    return s;
}

static void take_out(const hw_sqlite_group *g, hw_lot *lot, int64_t sequence)
{
    for (int64_t i = 0; i < lot->taken; i++)
        if (lot->events[lot->pos + i] == sequence) {
            hw_lot_take_out(lot, &g->rules, i);
            return;
        }
}

/* I3: takes events of stuck streams out of the page, and out of the lot: else they would come once
   more if this member died. */
static int without_stuck(taking *t, hw_lot *lot, howdah_error *reterr)
{
    size_t kept = 0;
    int s = HOWDAH_OK;

    for (size_t i = 0; t->g->retries && s >= 0 && i < t->page->n; i++) {
        s = wait_behind(t->g, &t->page->events[i], reterr);
        if (s == HOWDAH_END)
            t->page->events[kept++] = t->page->events[i];
        else if (s >= 0)
            take_out(t->g, lot, t->page->events[i].global_sequence);
    }
    if (t->g->retries && s >= 0)
        t->page->n = kept;
    return s < 0 ? s : HOWDAH_OK;
}

/* An event has ended the lease of each member that had it: it fails for good, unless its stream is
   stuck before it: then it waits as others do, and has its tries when it is its turn. */
static int spend_event(hw_sqlite_group *g, const howdah_event *event, int64_t tries,
                       howdah_error *reterr)
{
    char why[64];
    hw_group_fate fate;
    hw_sqlite_retry r;
    hw_sqlite_failure f = {.sequence = event->global_sequence,
                           .stream = g->rules.by_stream ? event->stream : HW_STR_NULL,
                           .upto = event->global_sequence,
                           .tries = tries,
                           .after_ms = -1};
    int s = find_retry(g, event, &r, reterr);

    f.error = why_spent(tries, why);
    if (s == HOWDAH_END)
        s = hw_sqlite_group_fail(g, &f, NULL, &fate, reterr);
    else if (s == HOWDAH_OK && f.sequence < r.sequence)
        s = hw_sqlite_group_fail(g, &f, &r, &fate, reterr);
    else if (s == HOWDAH_OK)
        s = wait_behind(g, event, reterr);
    hw_sqlite_retry_done(&r);
    return s;
}

static int spend_lot(hw_sqlite_group *g, hw_lot *lot, howdah_error *reterr)
{
    hw_sqlite_page page = {.store = g->store, .most = 1};
    bool full = false;
    int s = hw_sqlite_page_event(g, &page, lot->events[lot->pos], &full, reterr);

    if (s == HOWDAH_OK)
        s = spend_event(g, &page.events[0], lot->attempts - 1, reterr);
    hw_sqlite_page_done(&page);
    return s < 0 ? s : hw_sqlite_lot_ack(g, lot, lot->last, reterr);
}

/* Of a lot that is free.  HOWDAH_END: nothing of it is to be given out; look for the next. */
static int take_of_lot(taking *t, hw_lot *lot, howdah_error *reterr)
{
    int64_t done = 0;
    int64_t before = lot->n;
    int s;

    if (lot->n == lot->pos) { /* its list is through, or empty */
        s = hw_lot_needs_list(lot) ? hw_sqlite_list_more(t->g, lot, reterr)
                                   : hw_sqlite_delete_lot(t->g, lot->number, reterr);
        return s < 0 ? s : HOWDAH_END;
    }
    hw_lot_lease(lot, &t->g->rules, t->take->max_events, hw_sqlite_new_fence(),
                 hw_sqlite_later_us(t->g->now_us, t->take->lease_ms));
    if (hw_lot_is_spent(lot, &t->g->rules)) {
        s = spend_lot(t->g, lot, reterr);
        return s < 0 ? s : HOWDAH_END;
    }
    s = read_events(t, lot->events + lot->pos, lot->taken, &done, reterr);
    if (s >= 0)
        hw_lot_shorten(lot, done);
    if (s >= 0)
        s = without_stuck(t, lot, reterr);
    if (s < 0)
        return s;
    if (t->page->n == 0) {
        if (lot->n < before)
            s = hw_sqlite_store_lot(t->g, lot, HW_STR_NULL, true, reterr);
        if (s >= 0)
            s = hw_sqlite_lot_ack(t->g, lot, lot->last, reterr);
        return s < 0 ? s : HOWDAH_END;
    }
    hw_sqlite_put_token(t->token, 'l', lot->number, lot->token);
    t->attempt = lot->attempts;
    return hw_sqlite_store_lot(t->g, lot, t->take->member.s ? t->take->member : HW_STR_LIT(""),
                               lot->n < before, reterr);
}

static int take_lot(taking *t, howdah_error *reterr)
{
    const char *where = t->g->rules.by_stream ? FREE_LOT : FREE_LOT_IN_NO_ORDER;
    int s = HOWDAH_END;

    for (bool found = true; found && s == HOWDAH_END && t->g->status == HW_SUB_ACTIVE;) {
        hw_lot lot;

        s = hw_sqlite_load_lot(t->g, where, t->g->now_us, &lot, reterr);
        found = s == HOWDAH_OK;
        if (found)
            s = take_of_lot(t, &lot, reterr);
        hw_sqlite_lot_done(&lot);
    }
    return s;
}

/* ----------------------------------------------------------- dead letters */

/* Streams that wait for a dead letter go on when a person has resolved it, or are tried again. */
static int wake_held(hw_sqlite_group *g, howdah_error *reterr)
{
    const hw_sqlite_value never = {.number = HW_NEVER_US};
    int s = HOWDAH_OK;

    for (int i = 0; s == HOWDAH_OK && i < WAKE_MAX; i++) {
        const int64_t now[] = {g->id, g->now_us, HW_NEVER_US};
        hw_sqlite_retry r;

        /* Those that a person wants to have tried again are due. */
        s = hw_sqlite_once(g->store,
                           "UPDATE main.howdah_group_retries SET due = ?2 WHERE group_id = ?1"
                           " AND due = ?3 AND EXISTS (SELECT 1 FROM main.howdah_dead_letters d"
                           " WHERE d.id = dead_letter AND d.state = 'redrive')",
                           now, 3, reterr);
        if (s < 0)
            return s;
        s = hw_sqlite_load_retry(g,
                                 "k.due = ?2 AND NOT EXISTS (SELECT 1 FROM"
                                 " main.howdah_dead_letters d WHERE d.id = k.dead_letter"
                                 " AND d.state = 'dead') ORDER BY k.retry LIMIT 1",
                                 &never, &r, reterr);
        if (s == HOWDAH_OK)
            s = hw_sqlite_retry_on(g, &r, r.sequence, reterr);
        hw_sqlite_retry_done(&r);
    }
    return s < 0 ? s : HOWDAH_OK;
}

/* Dead letters for which no stream waits, nor will when it comes to them, and which a person wants
   to have tried again. */
static int wake_dead_letters(hw_sqlite_group *g, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = g->retries ? wake_held(g, reterr) : HOWDAH_OK;

    if (s >= 0)
        s = hw_sqlite_prepare(
            g->store,
            "INSERT INTO main.howdah_group_retries (group_id, sequence, upto, attempts, due,"
            " dead_letter) SELECT ?1, d.global_sequence, d.global_sequence, d.retry_count, ?2, d.id"
            " FROM main.howdah_dead_letters d WHERE d.subscriber_id = ?3 AND d.state = 'redrive'"
            " AND d.resolved_at IS NULL AND NOT EXISTS (SELECT 1 FROM main.howdah_group_retries k"
            " WHERE k.group_id = ?1 AND k.dead_letter = d.id) AND NOT (?5 AND EXISTS (SELECT 1"
            " FROM main.howdah_group_retries k WHERE k.group_id = ?1 AND k.stream = d.stream"
            " AND d.global_sequence BETWEEN k.sequence AND k.upto)) ORDER BY d.id LIMIT ?4"
            " ON CONFLICT DO NOTHING",
            &stmt, reterr);
    if (s < 0)
        return s;
    (void)sqlite3_bind_int64(stmt, 1, g->id);
    (void)sqlite3_bind_int64(stmt, 2, g->now_us);
    hw_sqlite_bind_str(stmt, 3, g->subscriber_id);
    (void)sqlite3_bind_int(stmt, 4, WAKE_MAX);
    (void)sqlite3_bind_int(stmt, 5, g->rules.on_fail == HOWDAH_FAIL_HOLD);
    s = hw_sqlite_finish(g->store, stmt, "look for dead letters", reterr);
    g->retries = g->retries || sqlite3_changes(g->store->db) > 0;
    return s;
}

/* -------------------------------------------------------------------- fetch */

static int take_any(taking *t, const char *retries, howdah_error *reterr)
{
    int s = take_retry(t, retries, reterr);

    return s == HOWDAH_END ? take_lot(t, reterr) : s;
}

static int64_t per_lane(int64_t max_events)
{
    int64_t n = max_events * 9 / 10;

    return n < PER_LANE_MIN ? PER_LANE_MIN : n > PER_LANE_MAX ? PER_LANE_MAX : n;
}

/* All that happens inside the transaction.  HOWDAH_END: there is nothing to give out. */
static int take_batch(taking *t, howdah_error *reterr)
{
    const char *retries = DUE_RETRY;
    int s = HOWDAH_OK;

    if (t->take->acked.s)
        s = hw_sqlite_token_ack(t->g, t->take->acked, 0, INT64_MAX, reterr);
    if (t->g->retries && hw_random_u32() % 2 == 0) /* I4 */
        retries = DUE_FIRST_RETRY;
    if (s >= 0)
        s = take_any(t, retries, reterr);
    if (s != HOWDAH_END || t->g->status != HW_SUB_ACTIVE)
        return s;
    s = wake_dead_letters(t->g, reterr);
    if (s >= 0)
        s = hw_sqlite_group_deal(t->g, per_lane(t->take->max_events), reterr);
    if (s >= 0)
        s = take_any(t, retries, reterr);
    return s == HOWDAH_END ? take_retry(t, DUE_RETRY, reterr) : s;
}

/* ?1 group, ?2 now, ?3 never, ?4 subscriber: whether there is anything to do, and when there is. */
#define OUTLOOK_SQL                                                                                \
    "SELECT EXISTS (SELECT 1 FROM main.howdah_group_lots f WHERE f.group_id = ?1 AND"              \
    "  f.until <= ?2 AND NOT EXISTS (SELECT 1 FROM main.howdah_group_lots q WHERE"                 \
    "  q.group_id = f.group_id AND q.lane = f.lane AND q.lot < f.lot))"                            \
    " OR EXISTS (SELECT 1 FROM main.howdah_group_retries k WHERE k.group_id = ?1 AND k.due <= ?2"  \
    "  AND k.until <= ?2 AND NOT " IS_TOO_EARLY ")"                                                \
    " OR EXISTS (SELECT 1 FROM main.howdah_dead_letters d WHERE d.subscriber_id = ?4"              \
    "  AND d.state = 'redrive' AND d.resolved_at IS NULL)"                                         \
    " OR EXISTS (SELECT 1 FROM main.howdah_group_retries k WHERE k.group_id = ?1 AND k.due = ?3"   \
    "  AND NOT EXISTS (SELECT 1 FROM main.howdah_dead_letters d WHERE d.id = k.dead_letter"        \
    "  AND d.state = 'dead')),"                                                                    \
    " min(coalesce((SELECT min(until) FROM main.howdah_group_lots WHERE group_id = ?1"             \
    "  AND until > ?2), ?3), coalesce((SELECT min(max(due, until)) FROM"                           \
    "  main.howdah_group_retries WHERE group_id = ?1 AND max(due, until) > ?2), ?3))"

static int ask_outlook(hw_sqlite_group *g, hw_group_outlook *ret_outlook, bool *ret_more,
                       howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int64_t due_us;
    int s = hw_sqlite_stmt(g->store, HW_SLOT_GROUP_OUTLOOK, OUTLOOK_SQL, &stmt, reterr);

    if (s < 0)
        return s;
    (void)sqlite3_bind_int64(stmt, 1, g->id);
    (void)sqlite3_bind_int64(stmt, 2, g->now_us);
    (void)sqlite3_bind_int64(stmt, 3, HW_NEVER_US);
    hw_sqlite_bind_str(stmt, 4, g->subscriber_id);
    s = hw_sqlite_step(g->store, stmt, "look at a group", reterr);
    if (s >= 0) {
        *ret_more = sqlite3_column_int(stmt, 0) != 0;
        due_us = sqlite3_column_int64(stmt, 1);
        *ret_outlook = (hw_group_outlook){
            .status = g->status,
            .due_ms = due_us == HW_NEVER_US ? -1 : (due_us - g->now_us - 1) / 1000 + 1};
    }
    (void)sqlite3_reset(stmt);
    (void)sqlite3_clear_bindings(stmt);
    return s < 0 ? s : HOWDAH_OK;
}

/* I1.  HOWDAH_END: there is nothing to do. */
static int look_first(hw_sqlite *store, const hw_group_take *take, hw_group_outlook *ret_outlook,
                      howdah_error *reterr)
{
    bool more = false;
    int64_t head = 0;
    hw_sqlite_group g;
    int s = hw_sqlite_ready_to_read(store, reterr);

    if (s < 0)
        return s;
    s = hw_sqlite_group_peek(&g, store, take->subscriber_id, &more, reterr);
    if (s >= 0 && !more)
        s = hw_sqlite_read_head(store, &head, reterr);
    if (s >= 0 && !more) {
        s = ask_outlook(&g, ret_outlook, &more, reterr);
        more = g.status == HW_SUB_ACTIVE && (more || head > g.high);
    }
    hw_sqlite_group_done(&g);
    return s < 0 || more ? s : HOWDAH_END;
}

static int fetch_locked(taking *t, hw_sqlite *store, hw_group_outlook *ret_outlook,
                        howdah_error *reterr)
{
    hw_sqlite_group g;
    bool more = false;
    int s = hw_sqlite_group_enter(&g, store, t->take->subscriber_id, false, reterr);
    bool found;

    if (s < 0)
        return s;
    t->g = &g;
    s = take_batch(t, reterr);
    found = s == HOWDAH_OK;
    if (s == HOWDAH_END)
        s = ask_outlook(&g, ret_outlook, &more, reterr);
    HW_FAULT_POINT("sqlite.group_before_commit");
    s = hw_sqlite_group_leave(&g, s, reterr);
    t->g = NULL;
    return s < 0 ? s : found ? HOWDAH_OK : HOWDAH_END;
}

static void batch_done(hw_group_batch *batch)
{
    if (batch->memory)
        hw_sqlite_page_done(batch->memory);
    hw_free(batch->memory);
    *batch = (hw_group_batch){.n = 0};
}

int hw_sqlite_group_fetch(hw_store *base, const hw_group_take *take, hw_group_batch *ret_batch,
                          hw_group_outlook *ret_outlook, howdah_error *reterr)
{
    hw_sqlite *store = (hw_sqlite *)base;
    taking t = {.take = take};
    int s = take->acked.s ? HOWDAH_OK : look_first(store, take, ret_outlook, reterr);

    assert(take->max_events >= 1 && take->max_events <= HOWDAH_BATCH_MAX && take->lease_ms > 0);
    if (s != HOWDAH_OK)
        return s;
    t.page = hw_calloc(1, sizeof *t.page);
    if (!t.page)
        return hw_fail_no_memory(reterr);
    *t.page = (hw_sqlite_page){.store = store, .most = (size_t)take->max_events};
    s = fetch_locked(&t, store, ret_outlook, reterr);
    *ret_batch = (hw_group_batch){.attempt = t.attempt,
                                  .events = t.page->events,
                                  .n = t.page->n,
                                  .memory = t.page,
                                  .done = batch_done};
    memcpy(ret_batch->token, t.token, sizeof t.token);
    if (s != HOWDAH_OK)
        batch_done(ret_batch);
    return s;
}
