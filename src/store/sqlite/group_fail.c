/* group_fail.c - events that failed: retries, dead letters, streams that wait; see group.h. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/random.h"
#include "store/sqlite/group.h"

#define REASON_MAX 255

/* ?1 stream, ?2 after, ?3 up to, ?4 subscriber, ?5 streams are held.  In a stream, versions and
   numbers grow together.  A dead letter counts when it is about this pass over the log: the event
   has failed for good, or was tried again, since the group was put at its place (created_at, see
   begin_pass()), or a person wants it to be. */
#define NEXT_OF_STREAM_SQL                                                                         \
    "SELECT e.global_sequence, e.stream, e.type, e.revision, d.id, d.state = 'redrive',"           \
    " d.retry_count FROM main.howdah_events e INDEXED BY howdah_events_by_stream"                  \
    " LEFT JOIN main.howdah_dead_letters d ON d.subscriber_id = ?4 AND d.event_id = e.id"          \
    " AND (d.state = 'redrive' OR coalesce(d.last_retry_at, d.created_at) >= (SELECT p.created_at" \
    "  FROM main.howdah_groups p WHERE p.subscriber_id = ?4))"                                     \
    " WHERE e.stream = ?1 AND e.version > coalesce((SELECT v.version FROM main.howdah_events v"    \
    "  WHERE v.global_sequence = ?2 AND v.stream = ?1), 0)"                                        \
    " AND e.global_sequence > ?2 AND e.global_sequence <= ?3"                                      \
    " AND (d.id IS NULL OR (?5 AND d.resolved_at IS NULL)) ORDER BY e.version"

int hw_sqlite_next_of_stream(hw_sqlite_group *g, hw_str stream, int64_t after, int64_t upto,
                             hw_sqlite_next *ret_next, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s;

    *ret_next = (hw_sqlite_next){.sequence = 0};
    if (!stream.s || after >= upto)
        return HOWDAH_OK;
    s = hw_sqlite_prepare(g->store, NEXT_OF_STREAM_SQL, &stmt, reterr);
    if (s < 0)
        return s;
    hw_sqlite_bind_str(stmt, 1, stream);
    (void)sqlite3_bind_int64(stmt, 2, after);
    (void)sqlite3_bind_int64(stmt, 3, upto);
    hw_sqlite_bind_str(stmt, 4, g->subscriber_id);
    (void)sqlite3_bind_int(stmt, 5, g->rules.on_fail == HOWDAH_FAIL_HOLD);
    while (ret_next->sequence == 0 &&
           (s = hw_sqlite_step(g->store, stmt, "look at a stream", reterr)) == HOWDAH_OK) {
        const howdah_event event = {.stream = hw_sqlite_borrow(stmt, 1),
                                    .type = hw_sqlite_borrow(stmt, 2),
                                    .revision = sqlite3_column_int(stmt, 3)};

        if (hw_filter_lets(&g->filter, &event))
            *ret_next = (hw_sqlite_next){.sequence = sqlite3_column_int64(stmt, 0),
                                         .dead_letter = sqlite3_column_int64(stmt, 4),
                                         .redrive = sqlite3_column_int(stmt, 5) != 0,
                                         .tries = sqlite3_column_int64(stmt, 6)};
    }
    (void)sqlite3_finalize(stmt);
    return s < 0 ? s : HOWDAH_OK;
}

int hw_sqlite_retry_on(hw_sqlite_group *g, hw_sqlite_retry *r, int64_t after, howdah_error *reterr)
{
    hw_sqlite_next next;
    int s = hw_sqlite_next_of_stream(g, r->stream, after, r->upto, &next, reterr);

    if (s < 0)
        return s;
    if (next.sequence == 0)
        return hw_sqlite_delete_retry(g, r->retry, reterr);
    r->sequence = next.sequence;
    r->dead_letter = next.dead_letter;
    r->attempts = next.tries;
    r->last = r->taken = r->token = r->until_us = 0;
    r->due_us = next.dead_letter > 0 && !next.redrive ? HW_NEVER_US : g->now_us;
    return hw_sqlite_store_retry(g, r, HW_STR_NULL, HW_STR_LIT(""), reterr);
}

/* ------------------------------------------------------------- what follows */

/* 0: there is no such event any more. */
static int store_dead_letter(hw_sqlite_group *g, const hw_sqlite_failure *f, int64_t *ret_id,
                             howdah_error *reterr)
{
    hw_sqlite_page page = {.store = g->store, .most = 1};
    bool full = false;
    int s = hw_sqlite_page_event(g, &page, f->sequence, &full, reterr);

    *ret_id = 0;
    if (s == HOWDAH_OK)
        s = hw_sqlite_insert_dead_letter(g->store, g->subscriber_id, &page.events[0], f->error,
                                         f->tries, ret_id, reterr);
    hw_sqlite_page_done(&page);
    return s < 0 ? s : HOWDAH_OK;
}

static int halt(hw_sqlite_group *g, const hw_sqlite_failure *f, howdah_error *reterr)
{
    char reason[REASON_MAX + 1];

    (void)snprintf(reason, sizeof reason, "event %lld failed %lld %s: %.*s", (long long)f->sequence,
                   (long long)f->tries, f->tries == 1 ? "time" : "times", (int)f->error.len,
                   f->error.s ? f->error.s : "");
    g->status = HW_SUB_HALTED;
    return hw_sqlite_update_status(g->store, g->subscriber_id, HW_SUB_HALTED, hw_str_of(reason),
                                   reterr);
}

static int64_t due_us(const hw_sqlite_group *g, const hw_sqlite_failure *f, hw_group_fate fate)
{
    int64_t ms =
        f->after_ms >= 0 ? f->after_ms : hw_group_delay_ms(&g->rules, f->tries, hw_random_u32());

    if (fate == HW_FATE_HELD)
        return HW_NEVER_US;
    return fate == HW_FATE_RETRY ? hw_sqlite_later_us(g->now_us, ms) : g->now_us;
}

/* It has a row already: the same stream goes on waiting, or is past it. */
static int fail_again(hw_sqlite_group *g, const hw_sqlite_failure *f, hw_sqlite_retry *r,
                      hw_group_fate fate, int64_t dead_letter, howdah_error *reterr)
{
    if (fate == HW_FATE_DEAD)
        return hw_sqlite_retry_on(g, r, f->sequence, reterr);
    r->sequence = f->sequence;
    r->attempts = fate == HW_FATE_HALTED ? 0 : f->tries;
    r->due_us = due_us(g, f, fate);
    r->dead_letter = dead_letter;
    r->token = r->until_us = r->last = r->taken = 0;
    return hw_sqlite_store_retry(g, r, HW_STR_NULL, f->error, reterr);
}

/* A dead letter is over; only what would have waited for it in this batch has to come again. */
static int fail_first(hw_sqlite_group *g, const hw_sqlite_failure *f, hw_group_fate fate,
                      int64_t dead_letter, howdah_error *reterr)
{
    hw_sqlite_retry made = {.stream = f->stream,
                            .sequence = f->sequence,
                            .upto = f->upto > f->sequence ? f->upto : f->sequence,
                            .attempts = fate == HW_FATE_HALTED ? 0 : f->tries,
                            .dead_letter = dead_letter,
                            .due_us = due_us(g, f, fate)};
    hw_str error = f->error;
    int s = HOWDAH_OK;

    if (fate == HW_FATE_DEAD) {
        hw_sqlite_next next;

        s = hw_sqlite_next_of_stream(g, f->stream, f->sequence, f->upto, &next, reterr);
        made.sequence = next.sequence;
        made.attempts = made.dead_letter = 0;
        error = HW_STR_NULL;
    }
    return s < 0 || made.sequence == 0 ? s : hw_sqlite_insert_retry(g, &made, error, reterr);
}

int hw_sqlite_group_fail(hw_sqlite_group *g, const hw_sqlite_failure *f, hw_sqlite_retry *r,
                         hw_group_fate *ret_fate, howdah_error *reterr)
{
    hw_group_fate fate = hw_group_fate_of(&g->rules, f->tries, f->stream.s != NULL);
    int64_t dead_letter = 0;
    int s = HOWDAH_OK;

    if (fate == HW_FATE_DEAD || fate == HW_FATE_HELD)
        s = store_dead_letter(g, f, &dead_letter, reterr);
    else if (fate == HW_FATE_HALTED)
        s = halt(g, f, reterr);
    if (s >= 0)
        s = r ? fail_again(g, f, r, fate, dead_letter, reterr)
              : fail_first(g, f, fate, dead_letter, reterr);
    *ret_fate = fate;
    return s;
}
