/*
 * checkpoint.c - moving subscriptions.
 *
 *   I1  A checkpoint and a renewal need not wait for the disk (conn.c, I5): they follow what they
 *       speak of in the same log.
 *   I2  poll() writes only when a lease has used up a quarter of its time.  So owners that wake one
 *       another by writing come to rest.
 *   I3  A place is stored only in the log it was learnt from, and only when the event it stands on
 *       is there: looked up under the write lock as well, as the token is (subscriptions.c, I1).
 */
#include <assert.h>
#include <inttypes.h>

#include "base/clock.h"
#include "store/sqlite/sqlite.h"

/* Without a lease there is none to renew, and ?7 is NULL when none is to be. */
#define CHECKPOINT_SQL                                                                             \
    "UPDATE main.howdah_subscriptions SET high = ?2, outstanding = ?3, anchor_sequence = ?4,"      \
    " anchor_id = ?5, updated_at = ?6,"                                                            \
    " lease_until = CASE WHEN lease_until IS NULL THEN NULL ELSE coalesce(?7, lease_until) END,"   \
    " lease_boot = CASE WHEN lease_until IS NULL THEN NULL ELSE coalesce(?8, lease_boot) END,"     \
    " timeline = ?9, moves = moves + 1 WHERE subscriber_id = ?1"
#define RENEW_SQL                                                                                  \
    "UPDATE main.howdah_subscriptions SET lease_until = ?2, lease_boot = ?3"                       \
    " WHERE subscriber_id = ?1 AND lease_until IS NOT NULL"

/* lease_ms 0: the lease stays as it is. */
static int update_checkpoint(hw_sqlite *store, const hw_checkpoint *c, int64_t lease_ms,
                             howdah_error *reterr)
{
    hw_buf text = HW_BUF_INIT(HW_OUTSTANDING_BYTES_MAX);
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_stmt(store, HW_SLOT_SUB_CHECKPOINT, CHECKPOINT_SQL, &stmt, reterr);

    if (s < 0)
        return s;
    assert(c->high >= 0 && lease_ms >= 0);
    assert(store->log[0]); /* hw_sqlite_look_at_sub() has asked for it */
    hw_sqlite_bind_str(stmt, 1, c->subscriber_id);
    (void)sqlite3_bind_int64(stmt, 2, c->high);
    (void)sqlite3_bind_int64(stmt, 4, c->anchor.sequence);
    if (c->anchor.sequence > 0)
        hw_sqlite_bind_uuid(stmt, 5, &c->anchor.id);
    (void)sqlite3_bind_int64(stmt, 6, hw_clock_wall_us());
    if (lease_ms > 0) {
        (void)sqlite3_bind_int64(stmt, 7, hw_sqlite_lease_until_us(lease_ms));
        hw_sqlite_bind_str(stmt, 8, hw_sqlite_boot(store));
    }
    hw_sqlite_bind_str(stmt, 9, hw_str_of(store->log));
    s = hw_sqlite_bind_outstanding(stmt, 3, &text, c->outstanding, c->outstanding_n, reterr);
    if (s >= 0)
        s = hw_sqlite_step(store, stmt, "store a checkpoint", reterr);
    (void)sqlite3_clear_bindings(stmt);
    hw_buf_done(&text);
    return s < 0 ? s : HOWDAH_OK;
}

/* I3: LOST when this is not the log that the checkpoint stands in. */
static int check_place(hw_sqlite *store, const hw_sqlite_sub_look *l, const hw_checkpoint *c,
                       howdah_error *reterr)
{
    int s = hw_sqlite_is_log(store, c->log, reterr);

    if (s >= 0 && c->follows > 0 && c->follows != l->moves + 1)
        return hw_fail(
            reterr, HOWDAH_LOST,
            "%s: the stored place of subscription %.*s is not the one that this one follows",
            store->name, (int)c->subscriber_id.len, c->subscriber_id.s);

    if (s >= 0)
        s = hw_sqlite_stands_on(store, &c->anchor, reterr);
    if (s == HOWDAH_NOT_FOUND && reterr)
        reterr->status = HOWDAH_LOST;
    return s == HOWDAH_NOT_FOUND ? HOWDAH_LOST : s;
}

/* In another log the numbers mean other events: there is no back. */
static bool goes_back(const hw_sqlite_sub_look *l, const hw_checkpoint *c)
{
    return c->high < l->high && l->same_log;
}

/*
 * For who stores it with something else, a dead letter or a page of jobs: there a checkpoint that
 * comes late is an error.
 */
int hw_sqlite_put_checkpoint(hw_sqlite *store, const hw_checkpoint *checkpoint,
                             howdah_error *reterr)
{
    hw_sqlite_sub_look l;
    int s = hw_sqlite_look_at_sub(store, checkpoint->subscriber_id, NULL, &l, reterr);

    if (s >= 0 && (!l.there || l.token != checkpoint->token))
        s = hw_sqlite_fail_lost(checkpoint->subscriber_id, checkpoint->token, reterr);
    if (s >= 0)
        s = check_place(store, &l, checkpoint, reterr);
    if (s < 0)
        return s;
    if (goes_back(&l, checkpoint))
        return hw_fail(reterr, HOWDAH_FAILED,
                       "subscription %.*s: a checkpoint at %" PRId64
                       " is lower than the stored one at %" PRId64,
                       (int)checkpoint->subscriber_id.len, checkpoint->subscriber_id.s,
                       checkpoint->high, l.high);
    return update_checkpoint(store, checkpoint, 0, reterr);
}

/* What the owner is told, whether or not its checkpoint is stored. */
static hw_sub_news news_of(const hw_sqlite_sub_look *l, int64_t token)
{
    return (hw_sub_news){!l->there || l->token != token, l->status, l->redrives};
}

/* One that is lost does not keep the others back. */
static int store_checkpoints(hw_sqlite *store, const hw_checkpoint *checkpoints, size_t n,
                             int64_t lease_ms, hw_sub_news *ret_news, size_t *ret_stored,
                             howdah_error *reterr)
{
    *ret_stored = 0;
    for (size_t i = 0; i < n; i++) {
        const hw_checkpoint *c = &checkpoints[i];
        hw_sqlite_sub_look l;
        int s = hw_sqlite_look_at_sub(store, c->subscriber_id, NULL, &l, reterr);

        if (s < 0)
            return s;
        ret_news[i] = news_of(&l, c->token);
        if (!ret_news[i].lost)
            s = check_place(store, &l, c, reterr);
        if (s < 0 && s != HOWDAH_LOST)
            return s;
        ret_news[i].lost = ret_news[i].lost || s == HOWDAH_LOST;
        /* One that would go back says nothing new: an earlier one, come late. */
        if (ret_news[i].lost || goes_back(&l, c))
            continue;
        s = update_checkpoint(store, c, lease_ms, reterr);
        if (s < 0)
            return s;
        (*ret_stored)++;
    }
    return HOWDAH_OK;
}

/* Nothing stored is nothing to commit: no other process is woken. */
int hw_sqlite_checkpoint(hw_store *base, const hw_checkpoint *checkpoints, size_t n,
                         int64_t lease_ms, hw_sub_news *ret_news, howdah_error *reterr)
{
    hw_sqlite *store = (hw_sqlite *)base;
    size_t stored = 0;
    int s = hw_sqlite_enter(store, false, reterr);

    if (s < 0)
        return s;
    s = store_checkpoints(store, checkpoints, n, lease_ms, ret_news, &stored, reterr);
    if (s < 0 || stored > 0)
        return hw_sqlite_leave(store, s, reterr);
    hw_sqlite_rollback(store);
    return HOWDAH_OK;
}

/* I2. */
static bool is_due(const hw_sqlite_sub_look *l, int64_t lease_ms)
{
    return lease_ms > 0 && l->leased && l->lease_left_us < lease_ms * 1000 / 4 * 3;
}

/* Only the lease: the place stays. */
static int renew(hw_sqlite *store, hw_str subscriber_id, int64_t lease_ms, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_stmt(store, HW_SLOT_SUB_RENEW, RENEW_SQL, &stmt, reterr);

    if (s < 0)
        return s;
    hw_sqlite_bind_str(stmt, 1, subscriber_id);
    (void)sqlite3_bind_int64(stmt, 2, hw_sqlite_lease_until_us(lease_ms));
    hw_sqlite_bind_str(stmt, 3, hw_sqlite_boot(store));
    s = hw_sqlite_step(store, stmt, "renew a lease", reterr);
    (void)sqlite3_clear_bindings(stmt);
    return s < 0 ? s : HOWDAH_OK;
}

/* Looks at all of them; renews those that are due, or only counts them. */
static int poll_all(hw_sqlite *store, const hw_checkpoint *subs, size_t n, int64_t lease_ms,
                    bool renews, hw_sub_news *ret_news, size_t *ret_due, howdah_error *reterr)
{
    *ret_due = 0;
    for (size_t i = 0; i < n; i++) {
        hw_sqlite_sub_look l;
        int s = hw_sqlite_look_at_sub(store, subs[i].subscriber_id, NULL, &l, reterr);

        if (s < 0)
            return s;
        ret_news[i] = news_of(&l, subs[i].token);
        if (!ret_news[i].lost)
            ret_news[i].lost = hw_sqlite_is_log(store, subs[i].log, NULL) < 0;
        if (ret_news[i].lost || !is_due(&l, lease_ms))
            continue;
        (*ret_due)++;
        s = renews ? renew(store, subs[i].subscriber_id, lease_ms, reterr) : HOWDAH_OK;
        if (s < 0)
            return s;
    }
    return HOWDAH_OK;
}

/* Without the write lock first (I2); under it everything is looked at anew. */
int hw_sqlite_poll(hw_store *base, const hw_checkpoint *subs, size_t n, int64_t lease_ms,
                   hw_sub_news *ret_news, howdah_error *reterr)
{
    hw_sqlite *store = (hw_sqlite *)base;
    size_t due = 0;
    int s = hw_sqlite_ready_to_read(store, reterr);

    if (s >= 0)
        s = poll_all(store, subs, n, lease_ms, false, ret_news, &due, reterr);
    if (s < 0 || due == 0)
        return s;
    s = hw_sqlite_enter(store, false, reterr);
    if (s < 0)
        return s;
    s = poll_all(store, subs, n, lease_ms, true, ret_news, &due, reterr);
    return hw_sqlite_leave(store, s, reterr);
}
