/*
 * subscriptions.c - the rows of subscriptions on PostgreSQL: who owns one, and how far it has come.
 *
 *   I1  A session's advisory lock elects the owner (COORDINATED); the token protects, whatever
 *       became of the lock.  Locks count how often they were taken, so the names of those that
 *       this session holds are kept, and none is ever taken twice.
 *   I2  Behind a pooler a session's lock may end up with somebody else: there a lease takes its
 *       place.
 *   I3  The lock is given up after the row: the next one to get the lock finds no owner there.
 *   I4  What was read is checked before it is believed: outstanding must be ascending ranges that
 *       are not above high.
 */
#include <assert.h>
#include <string.h>

#include "base/log_hook.h"
#include "base/mem.h"
#include "store/pg/pg.h"

/* -------------------------------------------------------------------- outstanding */

/*
 * I4.  Neighbouring ranges must not touch either: they would be one.  The array becomes the
 * caller's, and is never NULL.
 */
int hw_pg_get_ranges(const PGresult *r, int row, int column, int64_t upto, hw_range **ret_ranges,
                     size_t *ret_n, howdah_error *reterr)
{
    const char *array = NULL;
    size_t n = 0;
    bool sound = hw_pg_get_int8s(r, row, column, &array, &n) && n % 2 == 0;
    hw_range *outstanding = hw_calloc(n / 2 + 1, sizeof *outstanding);

    if (!outstanding)
        return hw_fail_no_memory(reterr);
    for (size_t i = 0; sound && i < n / 2; i++) {
        outstanding[i] = (hw_range){hw_pg_int8_at(array, 2 * i), hw_pg_int8_at(array, 2 * i + 1)};
        sound = outstanding[i].first <= outstanding[i].last && outstanding[i].last <= upto &&
                outstanding[i].first > (i > 0 ? outstanding[i - 1].last + 1 : 0);
    }
    if (!sound) {
        hw_free(outstanding);
        return hw_fail(reterr, HOWDAH_CORRUPT,
                       "the stored numbers are not ascending ranges up to %lld", (long long)upto);
    }
    *ret_ranges = outstanding;
    *ret_n = n / 2;
    return HOWDAH_OK;
}

/* --------------------------------------------------------------------- rows */

/* The columns of ROW in sql_subscriptions.c. */
enum column {
    SUBSCRIBER_ID,
    PATTERN,
    HIGH,
    OUTSTANDING,
    ANCHOR_SEQUENCE,
    ANCHOR_ID,
    TIMELINE,
    TOKEN,
    OWNER,
    HELD,
    STATUS,
    REASON,
    SUSPECT_SEQUENCE,
    SUSPECT_ATTEMPTS,
    CREATED_AT,
    UPDATED_AT,
    DEAD_LETTERS,
    SKIPS,
    FILTER_STREAM,
    ORIGINALS,
    STILL,
    MOVES,
    SHARED,
    LAG_AGE_MS /* only of those that are listed */
};

/* first: the column that the row starts with.  ret_stop: what fn said. */
static int hand_row(const PGresult *r, int row, int first, hw_str log, hw_sub_row_fn fn, void *ctx,
                    int *ret_stop, howdah_error *reterr)
{
    hw_range *outstanding = NULL;
    hw_range *still = NULL;
    hw_sub_row sub = {
        .subscriber_id = hw_pg_get_str(r, row, first + SUBSCRIBER_ID),
        .filter = {.pattern = hw_pg_get_str(r, row, first + PATTERN),
                   .stream = hw_pg_get_str(r, row, first + FILTER_STREAM),
                   .originals = hw_pg_get_bool(r, row, first + ORIGINALS)},
        .high = hw_pg_get_int8(r, row, first + HIGH),
        .anchor = {.sequence = hw_pg_get_int8(r, row, first + ANCHOR_SEQUENCE)},
        .timeline = hw_pg_get_str(r, row, first + TIMELINE),
        .log = log,
        .token = hw_pg_get_int8(r, row, first + TOKEN),
        .owner = hw_pg_get_str(r, row, first + OWNER),
        .held = hw_pg_get_bool(r, row, first + HELD),
        .status = hw_pg_sub_status_of(hw_pg_get_str(r, row, first + STATUS)),
        .reason = hw_pg_get_str(r, row, first + REASON),
        .suspect_sequence = hw_pg_get_int8(r, row, first + SUSPECT_SEQUENCE),
        .suspect_attempts = hw_pg_get_int8(r, row, first + SUSPECT_ATTEMPTS),
        .created_at_us = hw_pg_get_time(r, row, first + CREATED_AT),
        .updated_at_us = hw_pg_get_time(r, row, first + UPDATED_AT),
        .moves = hw_pg_get_int8(r, row, first + MOVES),
        .dead_letters = hw_pg_get_int8(r, row, first + DEAD_LETTERS),
        .skips = hw_pg_get_int8(r, row, first + SKIPS),
        .shared = hw_pg_get_bool(r, row, first + SHARED),
        .lag_age_ms = hw_pg_get_int8_or(r, row, first + LAG_AGE_MS, HOWDAH_ABSENT),
    };
    int s;

    (void)hw_pg_get_uuid(r, row, first + ANCHOR_ID, &sub.anchor.id);
    s = hw_pg_get_ranges(r, row, first + OUTSTANDING, sub.high, &outstanding, &sub.outstanding_n,
                         reterr);
    if (s >= 0)
        s = hw_pg_get_ranges(r, row, first + STILL, INT64_MAX, &still, &sub.still_n, reterr);
    if (s >= 0) {
        sub.outstanding = outstanding;
        sub.still = still;
        *ret_stop = fn(ctx, &sub);
    }
    hw_free(outstanding);
    hw_free(still);
    return s;
}

/*
 * Rows from..to by name, both included; to absent: all.  ret_n: how many there were, for
 * NOT_FOUND.
 */
static int walk(hw_pg *pg, hw_str from, hw_str to, int64_t limit, hw_sub_row_fn fn, void *ctx,
                int *ret_n, howdah_error *reterr)
{
    hw_pg_call call = {.statement = HW_PG_SUB_LIST};
    PGresult *result = NULL;
    int stop = 0;
    int s = hw_pg_ready(pg, reterr);

    if (s < 0)
        return s;
    hw_pg_param_str(&call, from);
    hw_pg_param_str(&call, to);
    hw_pg_param_int8(&call, limit);
    s = hw_pg_query(pg, &call, &result, reterr);
    *ret_n = s < 0 ? 0 : PQntuples(result);
    for (int i = 0; s >= 0 && !stop && i < *ret_n; i++)
        s = hand_row(result, i, 0, HW_STR_NULL, fn, ctx, &stop, reterr);
    PQclear(result);
    return s;
}

static int not_found(hw_str subscriber_id, howdah_error *reterr)
{
    return hw_fail(reterr, HOWDAH_NOT_FOUND, "there is no subscription %.*s",
                   (int)subscriber_id.len, subscriber_id.s);
}

static int load(hw_store *store, hw_str subscriber_id, hw_sub_row_fn fn, void *ctx,
                howdah_error *reterr)
{
    int n = 0;
    int s = walk((hw_pg *)store, subscriber_id, subscriber_id, 1, fn, ctx, &n, reterr);

    return s >= 0 && n == 0 ? not_found(subscriber_id, reterr) : s;
}

static int list(hw_store *store, hw_sub_row_fn fn, void *ctx, howdah_error *reterr)
{
    int n = 0;

    return walk((hw_pg *)store, HW_STR_LIT(""), HW_STR_NULL, INT64_MAX, fn, ctx, &n, reterr);
}

/* An existing row only gets its filter renewed: its place is that of its owner. */
static int create(hw_store *store, hw_str subscriber_id, const hw_filter *filter, int64_t high,
                  const hw_range *outstanding, size_t outstanding_n, bool *ret_created,
                  howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_pg_call call = {.statement = HW_PG_SUB_CREATE, .writes = true};
    PGresult *result = NULL;
    int s = hw_pg_ready(pg, reterr);

    if (s < 0)
        return s;
    hw_buf_clear(&pg->params);
    hw_pg_put_outstanding(&pg->params, outstanding, outstanding_n);
    s = hw_buf_check(&pg->params, reterr);
    if (s < 0)
        return s;
    hw_pg_param_str(&call, subscriber_id);
    hw_pg_param_str(&call, filter->pattern);
    hw_pg_param_int8(&call, high);
    hw_pg_param_bin(&call, pg->params.data, pg->params.len);
    hw_pg_param_str(&call, filter->stream);
    hw_pg_param_bool(&call, filter->originals);
    s = hw_pg_exec(pg, &call, &result, reterr);
    if (s >= 0 && ret_created)
        *ret_created = hw_pg_get_bool(result, 0, 0);
    PQclear(result);
    return s;
}

/* ------------------------------------------------------------------- owners */

/* locks_n: this session does not hold it. */
static size_t lock_index(const hw_pg *pg, hw_str subscriber_id)
{
    size_t i = 0;

    while (i < pg->locks_n && !hw_str_equal(hw_str_of(pg->locks[i]), subscriber_id))
        i++;
    return i;
}

static bool has_lock(const hw_pg *pg, hw_str subscriber_id)
{
    return lock_index(pg, subscriber_id) < pg->locks_n;
}

/* I1.  Before the lock is asked for: once we hold it, remembering it must not fail. */
static int make_lock_room(hw_pg *pg, hw_str subscriber_id, char **ret_name, howdah_error *reterr)
{
    assert(!has_lock(pg, subscriber_id));
    *ret_name = hw_strndup(subscriber_id.s, subscriber_id.len);
    if (*ret_name && pg->locks_n == pg->locks_room) {
        size_t room = pg->locks_room ? 2 * pg->locks_room : 16;
        char **locks = hw_realloc(pg->locks, room * sizeof *locks);

        if (locks) {
            pg->locks = locks;
            pg->locks_room = room;
        }
    }
    if (*ret_name && pg->locks_n < pg->locks_room)
        return HOWDAH_OK;
    hw_free(*ret_name);
    return hw_fail_no_memory(reterr);
}

/* Nothing to do for an owner with a lease, or when the connection was lost since. */
static int unlock(hw_pg *pg, hw_str subscriber_id, howdah_error *reterr)
{
    hw_pg_call call = {.statement = HW_PG_SUB_UNLOCK};
    size_t i = lock_index(pg, subscriber_id);
    PGresult *result = NULL;
    int s;

    if (i == pg->locks_n)
        return HOWDAH_OK;
    hw_pg_param_str(&call, subscriber_id);
    s = hw_pg_exec(pg, &call, &result, reterr);
    PQclear(result);
    /* Without an answer the session is gone, and all its locks with it. */
    if (s >= 0) {
        assert(i < pg->locks_n);
        hw_free(pg->locks[i]);
        pg->locks[i] = pg->locks[--pg->locks_n];
    }
    return s;
}

/*
 * I1: the lock is asked for by the statement that takes the row, unless this session holds it
 * already.  The lock stays when only the row was not to be had; not_taken() sees to it.
 */
static int take_as(hw_pg *pg, const hw_take *take, howdah_instance instance, PGresult **ret_result,
                   howdah_error *reterr)
{
    hw_pg_call call = {.statement = HW_PG_SUB_TAKE, .writes = true};
    bool locks = instance == HOWDAH_INSTANCE_COORDINATED && !has_lock(pg, take->subscriber_id);
    char *name = NULL;
    int s = locks ? make_lock_room(pg, take->subscriber_id, &name, reterr) : HOWDAH_OK;

    if (s < 0)
        return s;
    hw_pg_param_str(&call, take->subscriber_id);
    hw_pg_param_str(&call, take->owner);
    hw_pg_param_int4(&call, instance == HOWDAH_INSTANCE_COORDINATED ? 0
                            : instance == HOWDAH_INSTANCE_SINGLE    ? 1
                                                                    : 2);
    hw_pg_param_int8(&call, take->lease_ms);
    hw_pg_param_bool(&call, !locks);
    s = hw_pg_exec(pg, &call, ret_result, reterr);
    assert(!locks || s < 0 || pg->locks_n < pg->locks_room);
    if (s >= 0 && locks && hw_pg_get_bool(*ret_result, 0, 0))
        pg->locks[pg->locks_n++] = name;
    else
        hw_free(name);
    return s;
}

/* The columns of SUB_TAKE; ROW is the first of the row's. */
enum taken { GOT, THERE, PID, LOG, ROW };

/*
 * I2: the statement ran in another backend than the one this session began with.  A pooler that
 * we had not noticed has our lock now, and may keep it: from here on leases are used.
 */
static bool is_passed_around(hw_pg *pg, const PGresult *result)
{
    if (pg->pooled || hw_pg_get_int4(result, 0, PID) == pg->backend_pid)
        return false;
    hw_log(HOWDAH_LOG_WARN, "a pooler changes the server session: using leases instead of locks");
    pg->pooled = true;
    pg->unprepared = true;
    return true;
}

/*
 * Nothing was taken.  If we got the lock, it goes back: the row is missing, a lease on it has
 * not run out, or somebody is just changing it (SKIP LOCKED).
 */
static int not_taken(hw_pg *pg, const hw_take *take, bool got, bool there, howdah_error *reterr)
{
    int s = got ? unlock(pg, take->subscriber_id, reterr) : HOWDAH_OK;

    if (s < 0)
        return s;
    return there ? HOWDAH_END : not_found(take->subscriber_id, reterr);
}

/*
 * Never waits for an owner: HOWDAH_END, and the caller comes back when it is called, or after a
 * while.
 */
static int take(hw_store *store, const hw_take *take, hw_sub_row_fn fn, void *ctx,
                howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    howdah_instance instance = take->instance;
    PGresult *result = NULL;
    int stop = 0;
    int s = hw_pg_ready_to_move(pg, reterr);

    if (s < 0)
        return s;
    if (pg->recovery) { /* it may have been promoted since, or a pooler leads elsewhere again */
        char log[HW_TIMELINE_SIZE];

        s = hw_pg_timeline(store, log, reterr);
        if (s < 0)
            return s;
    }
    if (pg->recovery) {
        s = hw_fail(reterr, HOWDAH_READ_ONLY,
                    "this server is in recovery (a standby): nobody can own a subscription");
        if (reterr && pg->pooled && !pg->read_only)
            reterr->flags |= HOWDAH_RETRYABLE;
        return s;
    }
    if (instance == HOWDAH_INSTANCE_COORDINATED && pg->pooled)
        instance = HOWDAH_INSTANCE_LEASE;
    s = take_as(pg, take, instance, &result, reterr);
    if (s >= 0 && instance == HOWDAH_INSTANCE_COORDINATED && is_passed_around(pg, result)) {
        PQclear(result);
        result = NULL;
        s = take_as(pg, take, HOWDAH_INSTANCE_LEASE, &result, reterr);
    }
    if (s < 0)
        return s;
    hw_pg_meet(pg, hw_pg_get_str(result, 0, LOG), pg->drawn);
    if (PQgetisnull(result, 0, ROW))
        s = not_taken(pg, take, hw_pg_get_bool(result, 0, GOT), hw_pg_get_bool(result, 0, THERE),
                      reterr);
    else
        s = hand_row(result, 0, ROW, hw_pg_get_str(result, 0, LOG), fn, ctx, &stop, reterr);
    PQclear(result);
    return s;
}

/* I3.  Standbys are called last, when the lock is free to be taken. */
static int release(hw_store *store, const hw_hold *hold, howdah_instance instance,
                   howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_pg_call call = {.statement = HW_PG_SUB_RELEASE, .writes = true};
    PGresult *result = NULL;
    int s = hw_pg_ready(pg, reterr);

    (void)instance;
    if (s < 0)
        return s;
    hw_pg_param_hold(&call, hold);
    s = hw_pg_exec(pg, &call, &result, reterr);
    PQclear(result);
    if (s >= 0)
        s = unlock(pg, hold->subscriber_id, reterr);
    if (s >= 0)
        s = hw_pg_bell_call(pg, reterr);
    return s;
}

/* ------------------------------------------------------------------ changes */

/*
 * A statement that answers with a row when it has changed something.  otherwise: what no row
 * means, LOST for an owner and NOT_FOUND for an operator.
 */
static int change(hw_pg *pg, const hw_pg_call *call, hw_str subscriber_id, int otherwise,
                  howdah_error *reterr)
{
    PGresult *result = NULL;
    int s = hw_pg_exec(pg, call, &result, reterr);

    assert(otherwise == HOWDAH_LOST || otherwise == HOWDAH_NOT_FOUND);
    if (s >= 0 && PQntuples(result) == 0)
        s = otherwise == HOWDAH_LOST
                ? hw_fail(
                      reterr, HOWDAH_LOST,
                      "the subscription has another owner or was removed, or this is another log")
                : not_found(subscriber_id, reterr);
    PQclear(result);
    return s;
}

/*
 * Stored before the handler runs: if the process dies of the event, the next owner knows which
 * it was.
 */
static int suspect(hw_store *store, const hw_hold *hold, int64_t sequence, int64_t attempts,
                   howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_pg_call call = {.statement = HW_PG_SUB_SUSPECT, .writes = true};
    int s = hw_pg_ready(pg, reterr);

    if (s < 0)
        return s;
    hw_pg_param_hold(&call, hold);
    hw_pg_param_int8(&call, sequence);
    hw_pg_param_int8(&call, attempts);
    return change(pg, &call, hold->subscriber_id, HOWDAH_LOST, reterr);
}

/* token 0 is an operator, whose word counts no matter who owns the row. */
static int set_status(hw_store *store, const hw_hold *hold, hw_sub_status status, hw_str reason,
                      howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_pg_call call = {.statement = HW_PG_SUB_STATUS, .writes = true};
    int s = hw_pg_ready(pg, reterr);

    if (s < 0)
        return s;
    hw_pg_param_hold(&call, hold);
    hw_pg_param_str(&call, hw_pg_sub_status_name(status));
    hw_pg_param_str(&call, reason);
    return change(pg, &call, hold->subscriber_id, hold->token > 0 ? HOWDAH_LOST : HOWDAH_NOT_FOUND,
                  reterr);
}

/* The new token takes the subscription away from its owner, who hears LOST and starts anew. */
static int reset(hw_store *store, hw_str subscriber_id, int64_t high, const hw_range *outstanding,
                 size_t outstanding_n, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_pg_call call = {.statement = HW_PG_SUB_RESET, .writes = true};
    int s = hw_pg_ready(pg, reterr);

    if (s < 0)
        return s;
    hw_buf_clear(&pg->params);
    hw_pg_put_outstanding(&pg->params, outstanding, outstanding_n);
    s = hw_buf_check(&pg->params, reterr);
    if (s < 0)
        return s;
    hw_pg_param_str(&call, subscriber_id);
    hw_pg_param_int8(&call, high);
    hw_pg_param_bin(&call, pg->params.data, pg->params.len);
    return change(pg, &call, subscriber_id, HOWDAH_NOT_FOUND, reterr);
}

/*
 * The statement tries the lock and compares the lease, so an owner that is alive keeps its row.
 * An owner in SINGLE mode holds neither.
 */
static int remove_row(hw_store *store, hw_str subscriber_id, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_pg_call call = {.statement = HW_PG_SUB_REMOVE, .writes = true};
    PGresult *result = NULL;
    bool removed = false;
    bool there = false;
    int s = hw_pg_ready(pg, reterr);

    if (s < 0)
        return s;
    hw_pg_param_str(&call, subscriber_id);
    /* Our own lock would not stand in the statement's way. */
    if (has_lock(pg, subscriber_id)) {
        there = true;
    } else {
        s = hw_pg_exec(pg, &call, &result, reterr);
        if (s >= 0) {
            removed = hw_pg_get_bool(result, 0, 0);
            there = hw_pg_get_bool(result, 0, 1);
        }
        PQclear(result);
    }
    if (s < 0 || removed)
        return s;
    if (!there)
        return not_found(subscriber_id, reterr);
    return hw_advise(reterr, hw_fail(reterr, HOWDAH_CONFLICT, "somebody owns the subscription"),
                     "stop its program first, or wait until its lease has run out");
}

const hw_sub_ops hw_pg_sub_ops = {
    .holders = hw_pg_holders,
    .proven = hw_pg_proven,
    .store_proven = hw_pg_store_proven,
    .gaps = hw_pg_gaps,
    .blockers = hw_pg_blockers,
    .timeline = hw_pg_timeline,
    .verify = hw_pg_verify,
    .create = create,
    .load = load,
    .list = list,
    .take = take,
    .release = release,
    .checkpoint = hw_pg_checkpoint,
    .poll = hw_pg_poll,
    .suspect = suspect,
    .set_status = set_status,
    .reset = reset,
    .remove = remove_row,
    .dead_letter = hw_pg_dead_letter,
    .dead_letters = hw_pg_dead_letters,
    .dead_letters_set_state = hw_pg_dead_letters_set_state,
    .redrive_end = hw_pg_redrive_end,
    .skip = hw_pg_skip,
    .skips = hw_pg_skips,
    .skip_resolve = hw_pg_skip_resolve,
    .begin = hw_pg_begin,
    .handle = hw_pg_handle,
    .commit = hw_pg_commit,
    .rollback = hw_pg_rollback,
    .session = hw_pg_session_number,
    .confirm = hw_pg_confirm,
    .listen = hw_pg_listen,
    .arm = hw_pg_arm,
    .ring = hw_pg_ring,
    .wait = hw_pg_wait,
    .fd = hw_pg_fd,
};
