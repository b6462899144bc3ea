/*
 * groups.c - members of groups on PostgreSQL.
 *
 *   I1  A batch is leased by one statement and read by a second one, which sees everything that the
 *       first one has dealt.  Both go out in one trip: the number in the token is drawn here, and
 *       the second statement knows the batch by it.  Behind a pooler they are one transaction, in
 *       several trips: the places of rows that a lease names mean something only on the server that
 *       gave them.  A small batch is leased and read by one statement.  If not all events are there
 *       (some are younger than the statement, or a row is not where its lot says), the batch is
 *       given back, and taken in two trips.
 *   I2  A batch is bounded in bytes as a page is (read.c I2): of each row the server is told how
 *       large it may be.  What comes without its payload ends the batch before it, and the lease is
 *       shortened accordingly; if it is the first, it is read alone.
 *   I3  Events point into the batch's own PGresult.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/random.h"
#include "store/pg/columns.h"
#include "store/pg/pg.h"

#define BATCH_BYTES ((size_t)8 * 1024 * 1024)
/* With more, what one statement costs for each row is more than the second trip. */
#define SMALL_BATCH 20

static int group_release(hw_store *store, const hw_batch_ref *batch, howdah_error *reterr);

/* What a batch owns (I3). */
typedef struct memory {
    PGresult *rows;
    hw_cursor *alone; /* I2: of a large event */
    howdah_event *events;
    size_t n; /* of them */
} memory;

static void memory_free(memory *m)
{
    if (!m)
        return;
    PQclear(m->rows);
    if (m->alone)
        hw_pg_read_close(m->alone);
    hw_free(m->events);
    hw_free(m);
}

static void batch_done(hw_group_batch *batch)
{
    memory_free(batch->memory);
    *batch = (hw_group_batch){.n = 0};
}

/* A statement whose only answer is one value. */
static int ask(hw_pg *pg, hw_pg_call *call, PGresult **ret_result, howdah_error *reterr)
{
    int s = hw_pg_ready(pg, reterr);

    return s < 0 ? s : hw_pg_exec(pg, call, ret_result, reterr);
}

/* ------------------------------------------------------------------ reading */

int32_t hw_pg_batch_cap(int64_t n)
{
    return n <= 1 ? INT32_MAX : (int32_t)(BATCH_BYTES / (size_t)n);
}

static int by_number(const void *a, const void *b)
{
    int64_t x = ((const howdah_event *)a)->global_sequence;
    int64_t y = ((const howdah_event *)b)->global_sequence;

    return (x > y) - (x < y);
}

/* They come in the order of their rows' places, which is nearly that of their numbers. */
static void sort(howdah_event *events, size_t n)
{
    for (size_t i = 1; i < n; i++)
        if (events[i].global_sequence < events[i - 1].global_sequence) {
            qsort(events, n, sizeof *events, by_number);
            return;
        }
}

/* The rows become events, in order.  Where one was purged and moved, another may have its place:
   what is not from lo to hi is none of the batch. */
static int decode(memory *m, int column, int64_t lo, int64_t hi, howdah_error *reterr)
{
    int n = PQntuples(m->rows);

    if (n > 0 && PQgetisnull(m->rows, 0, column))
        n = 0; /* a lease whose events are not there (lease_small()) */
    m->events = hw_alloc(((size_t)n + 1) * sizeof *m->events);
    if (!m->events)
        return hw_fail_no_memory(reterr);
    m->n = 0;
    for (int i = 0; i < n; i++) {
        howdah_event *event = &m->events[m->n];

        hw_pg_decode_event(m->rows, i, column, event);
        if (event->global_sequence >= lo && event->global_sequence <= hi)
            m->n++;
    }
    sort(m->events, m->n);
    return HOWDAH_OK;
}

/* Those up to the first one that is too large.  An event without any payload (from somebody's own
   INSERT) looks like one. */
static void hand_out(const memory *m, hw_group_batch *batch)
{
    batch->events = m->events;
    for (batch->n = 0; batch->n < m->n && !m->events[batch->n].broken; batch->n++)
        continue;
}

int hw_pg_batch_of(PGresult *rows, hw_group_batch *ret_batch, howdah_error *reterr)
{
    hw_group_batch batch = {.memory = hw_calloc(1, sizeof(memory)), .done = batch_done};
    memory *m = batch.memory;
    int s;

    if (!m) {
        PQclear(rows);
        return hw_fail_no_memory(reterr);
    }
    m->rows = rows;
    s = decode(m, 0, 0, INT64_MAX, reterr);
    if (s >= 0)
        hand_out(m, &batch);
    if (s >= 0 && batch.n < m->n)
        s = HOWDAH_END;
    if (s == HOWDAH_OK)
        *ret_batch = batch;
    else
        batch_done(&batch);
    return s;
}

/* I2: the first event, whatever its size. */
static int read_alone(hw_pg *pg, memory *m, hw_group_batch *batch, howdah_error *reterr)
{
    hw_query query = {.ids_n = 1, .batch = 1};
    int s;

    query.ids = &m->events[0].id;
    s = hw_pg_read_open(&pg->base, &query, &m->alone, reterr);
    if (s >= 0)
        s = hw_pg_read_next(m->alone, &batch->events, &batch->n, reterr);
    return s;
}

static int shorten(hw_pg *pg, const hw_group_take *take, const hw_group_batch *batch,
                   howdah_error *reterr)
{
    hw_pg_call call = {.statement = HW_PG_GROUP_SHORTEN, .writes = true};
    PGresult *result = NULL;
    int s;

    hw_pg_param_str(&call, take->subscriber_id);
    hw_pg_param_str(&call, hw_str_of(batch->token));
    hw_pg_param_int8(&call, batch->events[batch->n - 1].global_sequence);
    s = ask(pg, &call, &result, reterr);
    PQclear(result);
    return s;
}

/* The rows of a batch are there.  HOWDAH_END: all of its events were removed meanwhile. */
static int fill(hw_pg *pg, const hw_group_take *take, memory *m, hw_group_batch *batch,
                howdah_error *reterr)
{
    int s = HOWDAH_OK;

    if (m->n == 0)
        return HOWDAH_END;
    hand_out(m, batch);
    if (batch->n == 0)
        s = read_alone(pg, m, batch, reterr);
    if (s == HOWDAH_OK && batch->n < m->n)
        s = shorten(pg, take, batch, reterr);
    return s;
}

/* ----------------------------------------------------------------- fetching */

/* What HW_PG_GROUP_FETCH gives. */
enum { LEASED_TOKEN, LEASED_ATTEMPT, LEASED_TIDS, LEASED_LO, LEASED_HI, LEASED_N };

static void call_of_fetch(hw_pg_call *call, const hw_group_take *take)
{
    hw_pg_param_str(call, take->subscriber_id);
    hw_pg_param_int4(call, (int32_t)take->max_events);
    hw_pg_param_str(call, take->member);
    hw_pg_param_int8(call, take->lease_ms);
    hw_pg_param_str(call, take->acked);
    hw_pg_param_int8(call, take->process);
}

static int take_token(hw_str token, int64_t attempt, hw_group_batch *batch, howdah_error *reterr)
{
    if (token.len >= sizeof batch->token)
        return hw_fail(reterr, HOWDAH_SCHEMA, "fetch() gives a token of %zu bytes", token.len);
    memcpy(batch->token, token.s, token.len);
    batch->token[token.len] = '\0';
    batch->attempt = attempt;
    return HOWDAH_OK;
}

/* The second statement: what the lease is about. */
static int read_rows(hw_pg *pg, const PGresult *leased, int64_t max, memory *m,
                     howdah_error *reterr)
{
    hw_pg_call call = {.statement = HW_PG_GROUP_READ};
    int s;

    hw_pg_param_bin(&call, PQgetvalue(leased, 0, LEASED_TIDS),
                    (size_t)PQgetlength(leased, 0, LEASED_TIDS));
    hw_pg_param_int4(&call, hw_pg_batch_cap(max));
    s = hw_pg_exec(pg, &call, &m->rows, reterr);
    return s < 0 ? s
                 : decode(m, 0, hw_pg_get_int8(leased, 0, LEASED_LO),
                          hw_pg_get_int8(leased, 0, LEASED_HI), reterr);
}

/* Some rows were not where they should be: purged in between, and moved by that; or others are
   there; or they were removed. */
static int ask_moved(hw_pg *pg, const hw_group_take *take, const PGresult *leased, bool *ret_moved,
                     howdah_error *reterr)
{
    hw_pg_call call = {.statement = HW_PG_GROUP_MOVED, .writes = !pg->pooled};
    PGresult *result = NULL;
    int s;

    hw_pg_param_str(&call, take->subscriber_id);
    hw_pg_param_str(&call, hw_pg_get_str(leased, 0, LEASED_TOKEN));
    hw_pg_param_str(&call, hw_pg_get_str(leased, 0, LEASED_TIDS)); /* their bytes, or NULL */
    hw_pg_param_int8(&call, hw_pg_get_int8(leased, 0, LEASED_LO));
    hw_pg_param_int8(&call, hw_pg_get_int8(leased, 0, LEASED_HI));
    s = hw_pg_exec(pg, &call, &result, reterr);
    if (s >= 0)
        *ret_moved = hw_pg_get_bool(result, 0, 0);
    PQclear(result);
    return s;
}

/* HOWDAH_END: nothing was leased. */
static int take_lease(const PGresult *leased, hw_group_batch *batch, howdah_error *reterr)
{
    if (PQgetisnull(leased, 0, LEASED_TOKEN))
        return HOWDAH_END;
    return take_token(hw_pg_get_str(leased, 0, LEASED_TOKEN),
                      hw_pg_get_int4(leased, 0, LEASED_ATTEMPT), batch, reterr);
}

static int lease_and_read(hw_pg *pg, const hw_group_take *take, memory *m, hw_group_batch *batch,
                          bool *ret_moved, howdah_error *reterr)
{
    hw_pg_call call = {.statement = HW_PG_GROUP_FETCH, .writes = !pg->pooled};
    PGresult *leased = NULL;
    int s;

    call_of_fetch(&call, take);
    hw_pg_param_int8(&call, 0);
    s = hw_pg_exec(pg, &call, &leased, reterr);
    if (s >= 0)
        s = take_lease(leased, batch, reterr);
    if (s == HOWDAH_OK)
        s = read_rows(pg, leased, take->max_events, m, reterr);
    if (s == HOWDAH_OK && (int64_t)m->n < hw_pg_get_int4(leased, 0, LEASED_N))
        s = ask_moved(pg, take, leased, ret_moved, reterr);
    PQclear(leased);
    return s;
}

static int lease_in_two(hw_pg *pg, const hw_group_take *take, memory *m, hw_group_batch *batch,
                        howdah_error *reterr)
{
    bool together = pg->pooled && !pg->caller_owned;
    hw_pg_call commit = {.statement = -1, .sql = "COMMIT", .writes = true};
    PGresult *committed = NULL;
    bool moved = false;
    int s = together ? hw_pg_command(pg, "BEGIN", reterr) : HOWDAH_OK;
    int found;

    if (s < 0)
        return s;
    found = s = lease_and_read(pg, take, m, batch, &moved, reterr);
    if (together && s >= 0)
        s = hw_pg_exec(pg, &commit, &committed, reterr);
    else if (together && pg->conn)
        (void)hw_pg_command(pg, "ROLLBACK", NULL);
    PQclear(committed);
    if (s < 0 || found == HOWDAH_END)
        return s < 0 ? s : HOWDAH_END;
    if (moved) { /* the next lease has their new places */
        const hw_batch_ref ref = {take->subscriber_id, hw_str_of(batch->token), 0};

        s = group_release(&pg->base, &ref, reterr);
        if (s >= 0)
            s = hw_fail(reterr, HOWDAH_UNAVAILABLE,
                        "events of the batch were purged while it was taken");
        hw_error_flag(reterr, HOWDAH_RETRYABLE);
        return s;
    }
    return fill(pg, take, m, batch, reterr);
}

/* What HW_PG_GROUP_FETCH_SMALL gives, in each row. */
enum { SMALL_TOKEN, SMALL_ATTEMPT, SMALL_N, SMALL_LO, SMALL_HI, SMALL_EVENT };

static int lease_small(hw_pg *pg, const hw_group_take *take, memory *m, hw_group_batch *batch,
                       bool *ret_all, howdah_error *reterr)
{
    hw_pg_call call = {.statement = HW_PG_GROUP_FETCH_SMALL, .writes = true};
    const PGresult *r;
    int s;

    call_of_fetch(&call, take);
    hw_pg_param_int4(&call, hw_pg_batch_cap(take->max_events));
    s = hw_pg_exec(pg, &call, &m->rows, reterr);
    r = m->rows;
    if (s >= 0 && PQgetisnull(r, 0, SMALL_TOKEN))
        s = HOWDAH_END;
    if (s == HOWDAH_OK)
        s = take_token(hw_pg_get_str(r, 0, SMALL_TOKEN), hw_pg_get_int4(r, 0, SMALL_ATTEMPT), batch,
                       reterr);
    if (s == HOWDAH_OK)
        s = decode(m, SMALL_EVENT, hw_pg_get_int8(r, 0, SMALL_LO), hw_pg_get_int8(r, 0, SMALL_HI),
                   reterr);
    *ret_all = s == HOWDAH_OK && (int64_t)m->n == hw_pg_get_int4(r, 0, SMALL_N);
    return s;
}

/* At random: see I3 of 0007_groups. */
static int draw_fence(int64_t *ret_fence, howdah_error *reterr)
{
    uint64_t random = 0;

    if (!hw_random_bytes(&random, sizeof random))
        return hw_fail(reterr, HOWDAH_FAILED, "the system has no random numbers for a token");
    *ret_fence = (int64_t)(random >> 16) + 1;
    return HOWDAH_OK;
}

/* What a pair has brought.  Events of a stuck stream are no lot's: they are read apart. */
static int take_pair(hw_pg *pg, const hw_group_take *take, PGresult *results[2], memory *m,
                     hw_group_batch *batch, bool *ret_all, howdah_error *reterr)
{
    const PGresult *leased = results[0];
    int s = take_lease(leased, batch, reterr);
    bool moved = false;

    if (s != HOWDAH_OK)
        return s;
    if (!PQgetisnull(leased, 0, LEASED_TIDS)) {
        s = read_rows(pg, leased, take->max_events, m, reterr);
    } else {
        m->rows = results[1];
        results[1] = NULL;
        s = decode(m, 0, hw_pg_get_int8(leased, 0, LEASED_LO), hw_pg_get_int8(leased, 0, LEASED_HI),
                   reterr);
    }
    *ret_all = s == HOWDAH_OK && (int64_t)m->n == hw_pg_get_int4(leased, 0, LEASED_N);
    if (s == HOWDAH_OK && !*ret_all)
        s = ask_moved(pg, take, leased, &moved, reterr);
    return s;
}

static int lease_pair(hw_pg *pg, const hw_group_take *take, memory *m, hw_group_batch *batch,
                      bool *ret_all, howdah_error *reterr)
{
    hw_pg_call calls[2] = {{.statement = HW_PG_GROUP_FETCH, .writes = true},
                           {.statement = HW_PG_GROUP_READ_LOT}};
    PGresult *results[2] = {NULL, NULL};
    int64_t fence = 0;
    int s = draw_fence(&fence, reterr);

    if (s < 0)
        return s;
    call_of_fetch(&calls[0], take);
    hw_pg_param_int8(&calls[0], fence);
    hw_pg_param_str(&calls[1], take->subscriber_id);
    hw_pg_param_int8(&calls[1], fence);
    hw_pg_param_int4(&calls[1], hw_pg_batch_cap(take->max_events));
    s = hw_pg_pair(pg, calls, results, reterr);
    if (s >= 0)
        s = take_pair(pg, take, results, m, batch, ret_all, reterr);
    PQclear(results[0]);
    PQclear(results[1]);
    return s;
}

/* I1. */
static int lease(hw_pg *pg, const hw_group_take *take, memory *m, hw_group_batch *batch,
                 howdah_error *reterr)
{
    hw_group_take again = *take;
    hw_batch_ref ref = {.subscriber_id = take->subscriber_id};
    bool all = false;
    int s;

    if (take->max_events <= SMALL_BATCH)
        s = lease_small(pg, take, m, batch, &all, reterr);
    else if (!pg->pooled && !pg->caller_owned)
        s = lease_pair(pg, take, m, batch, &all, reterr);
    else
        return lease_in_two(pg, take, m, batch, reterr);
    if (s != HOWDAH_OK || all)
        return s == HOWDAH_OK ? fill(pg, take, m, batch, reterr) : s;
    PQclear(m->rows);
    hw_free(m->events);
    *m = (memory){.rows = NULL};
    ref.token = hw_str_of(batch->token);
    s = group_release(&pg->base, &ref, reterr);
    again.acked = HW_STR_NULL; /* that has happened */
    return s < 0 ? s : lease_in_two(pg, &again, m, batch, reterr);
}

static int ask_outlook(hw_pg *pg, hw_str subscriber_id, hw_group_outlook *ret_outlook,
                       howdah_error *reterr)
{
    hw_pg_call call = {.statement = HW_PG_GROUP_OUTLOOK};
    PGresult *result = NULL;
    int s;

    hw_pg_param_str(&call, subscriber_id);
    s = hw_pg_query(pg, &call, &result, reterr);
    if (s >= 0)
        *ret_outlook = (hw_group_outlook){hw_pg_sub_status_of(hw_pg_get_str(result, 0, 0)),
                                          hw_pg_get_int8_or(result, 0, 1, -1)};
    PQclear(result);
    return s;
}

static int group_fetch(hw_store *store, const hw_group_take *take, hw_group_batch *ret_batch,
                       hw_group_outlook *ret_outlook, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_group_batch batch = {.memory = hw_calloc(1, sizeof(memory)), .done = batch_done};
    int s = batch.memory ? hw_pg_ready(pg, reterr) : hw_fail_no_memory(reterr);

    assert(take->max_events >= 1 && take->max_events <= HOWDAH_BATCH_MAX && take->lease_ms > 0);
    if (s >= 0)
        s = lease(pg, take, batch.memory, &batch, reterr);
    if (s == HOWDAH_OK) {
        *ret_batch = batch;
        return HOWDAH_OK;
    }
    batch_done(&batch);
    if (s < 0)
        return s;
    s = ask_outlook(pg, take->subscriber_id, ret_outlook, reterr);
    return s < 0 ? s : HOWDAH_END;
}

/* ------------------------------------------------------- what became of them */

static int fail_stale(hw_str subscriber_id, howdah_error *reterr)
{
    return hw_fail(
        reterr, HOWDAH_LOST,
        "subscription %.*s: the lease of the batch is lost, another member has its events",
        (int)subscriber_id.len, subscriber_id.s);
}

static void call_of_batch(hw_pg_call *call, const hw_batch_ref *batch, int64_t number)
{
    hw_pg_param_str(call, batch->subscriber_id);
    hw_pg_param_str(call, batch->token);
    hw_pg_param_int8(call, number);
}

/* Functions that answer whether the token was good. */
static int check_answer(hw_pg *pg, const hw_pg_call *call, hw_str subscriber_id,
                        howdah_error *reterr)
{
    PGresult *result = NULL;
    int s = hw_pg_exec(pg, call, &result, reterr);

    if (s >= 0 && !hw_pg_get_bool(result, 0, 0))
        s = fail_stale(subscriber_id, reterr);
    PQclear(result);
    return s;
}

/* In a transaction that is not ours the commit is not ours, either; what is refused leaves it as it
   was. */
static int group_ack(hw_store *store, const hw_batch_ref *batch, int64_t upto, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_pg_call call = {.statement = HW_PG_GROUP_ACK, .writes = !pg->caller_owned};
    int s = hw_pg_ready(pg, reterr);
    bool inside = s >= 0 && pg->caller_owned && PQtransactionStatus(pg->conn) == PQTRANS_INTRANS;

    if (inside)
        s = hw_pg_command(pg, "SAVEPOINT howdah_ack", reterr);
    if (s < 0)
        return s;
    call_of_batch(&call, batch, upto);
    hw_pg_param_int8(&call, batch->acked);
    hw_pg_param_bool(&call, !pg->caller_owned);
    s = check_answer(pg, &call, batch->subscriber_id, reterr);
    if (inside && pg->conn)
        (void)hw_pg_command(pg,
                            s >= 0 ? "RELEASE SAVEPOINT howdah_ack"
                                   : "ROLLBACK TO SAVEPOINT howdah_ack;"
                                     "RELEASE SAVEPOINT howdah_ack",
                            NULL);
    return s;
}

static int group_extend(hw_store *store, const hw_batch_ref *batch, int64_t lease_ms,
                        howdah_error *reterr)
{
    hw_pg_call call = {.statement = HW_PG_GROUP_EXTEND, .writes = true};
    int s = hw_pg_ready((hw_pg *)store, reterr);

    if (s < 0)
        return s;
    call_of_batch(&call, batch, lease_ms);
    return check_answer((hw_pg *)store, &call, batch->subscriber_id, reterr);
}

static int group_release(hw_store *store, const hw_batch_ref *batch, howdah_error *reterr)
{
    hw_pg_call call = {.statement = HW_PG_GROUP_RELEASE, .writes = true};
    int s = hw_pg_ready((hw_pg *)store, reterr);

    if (s < 0)
        return s;
    call_of_batch(&call, batch, 0);
    return check_answer((hw_pg *)store, &call, batch->subscriber_id, reterr);
}

/* False: a word that we do not know. */
static bool fate_of(hw_str word, hw_group_fate *ret_fate)
{
    static const char *const words[] = {"retry", "dead", "held", "halted", "waits"};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (hw_str_equal(word, hw_str_of(words[i]))) {
            *ret_fate = (hw_group_fate)i;
            return true;
        }
    return false;
}

static int group_nack(hw_store *store, const hw_batch_ref *batch, int64_t sequence, hw_str error,
                      int64_t after_ms, hw_group_fate *ret_fate, howdah_error *reterr)
{
    hw_pg_call call = {.statement = HW_PG_GROUP_NACK, .writes = true};
    PGresult *result = NULL;
    int s;

    call_of_batch(&call, batch, sequence);
    hw_pg_param_str(&call, error);
    if (after_ms >= 0)
        hw_pg_param_int8(&call, after_ms);
    else
        hw_pg_param_null(&call);
    hw_pg_param_int8(&call, batch->acked);
    s = ask((hw_pg *)store, &call, &result, reterr);
    if (s >= 0 && !fate_of(hw_pg_get_str(result, 0, 0), ret_fate))
        s = fail_stale(batch->subscriber_id, reterr);
    PQclear(result);
    return s;
}

/* As handler_tx.c: the ack goes in last, inside the transaction that begin() has begun. */
static int group_commit(hw_store *store, const hw_batch_ref *batch, int64_t upto,
                        howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_pg_call call = {.statement = HW_PG_GROUP_COMMIT};
    PGresult *result = NULL;
    int s = hw_pg_tx_check(pg, reterr);

    hw_pg_tx_leave(pg);
    call_of_batch(&call, batch, upto);
    hw_pg_param_int8(&call, batch->acked);
    if (s >= 0)
        s = hw_pg_exec(pg, &call, &result, reterr);
    if (s >= 0 && !hw_pg_get_bool(result, 0, 0))
        s = fail_stale(batch->subscriber_id, reterr);
    else if (s >= 0 && strcmp(PQgetvalue(result, 0, 1), "on") != 0) /* handler_tx.c I5 */
        s = hw_fail(reterr, HOWDAH_MISUSE,
                    "the handler has ended the transaction and begun another");
    PQclear(result);
    return hw_pg_tx_end(pg, s, reterr);
}

/* ------------------------------------------------------------- looking after */

static hw_str start_text(int64_t start, char room[24])
{
    if (start == HOWDAH_FROM_START || start == HOWDAH_FROM_END)
        return start == HOWDAH_FROM_START ? HW_STR_LIT("start") : HW_STR_LIT("end");
    (void)snprintf(room, 24, "%lld", (long long)start);
    return hw_str_of(room);
}

static int subscribe(hw_pg *pg, const howdah_member_options *o, bool *ret_created,
                     howdah_error *reterr)
{
    static const char *const on_fail[] = {"open", "closed", "hold"};
    hw_pg_call call = {.statement = HW_PG_GROUP_CREATE, .writes = true};
    PGresult *result = NULL;
    char room[24];
    int s;

    assert((size_t)o->on_fail < sizeof on_fail / sizeof *on_fail);
    hw_pg_param_str(&call, hw_str_of(o->subscriber_id));
    hw_pg_param_str(&call, hw_str_of(o->pattern));
    hw_pg_param_str(&call, hw_str_of(o->stream));
    hw_pg_param_str(&call, start_text(o->start, room));
    hw_pg_param_bool(&call, o->originals_only);
    hw_pg_param_str(&call, hw_str_of(o->key == HOWDAH_ORDER_BY_STREAM ? "stream" : "none"));
    hw_pg_param_str(&call, hw_str_of(on_fail[o->on_fail]));
    hw_pg_param_int4(&call, (int32_t)o->max_retries);
    hw_pg_param_int8(&call, o->retry_delay_ms);
    hw_pg_param_int8(&call, o->max_retry_delay_ms);
    hw_pg_param_str(&call, hw_str_of(o->ordering == HOWDAH_ORDERING_STRICT ? "strict" : "ahead"));
    hw_pg_param_str(&call, hw_str_of(o->gap_policy == HOWDAH_GAP_TIMEOUT ? "timeout" : "proof"));
    hw_pg_param_int8(&call, o->gap_timeout_ms);
    hw_pg_param_int4(&call, (int32_t)o->lanes);
    s = ask(pg, &call, &result, reterr);
    if (s >= 0)
        *ret_created = hw_pg_get_bool(result, 0, 0);
    PQclear(result);
    return s;
}

static int group_create(hw_store *store, const howdah_member_options *options, bool *ret_created,
                        void (*fn)(void *ctx, const hw_filter *filter), void *ctx,
                        howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_pg_call call = {.statement = HW_PG_GROUP_FILTER};
    PGresult *result = NULL;
    int s = subscribe(pg, options, ret_created, reterr);

    if (s < 0)
        return s;
    hw_pg_param_str(&call, hw_str_of(options->subscriber_id));
    s = hw_pg_query(pg, &call, &result, reterr);
    if (s >= 0 && PQntuples(result) == 1) {
        const hw_filter filter = {hw_pg_get_str(result, 0, 0), hw_pg_get_str(result, 0, 1),
                                  hw_pg_get_bool(result, 0, 2)};

        fn(ctx, &filter);
    }
    PQclear(result);
    return s;
}

static int group_members(hw_store *store, hw_str subscriber_id, hw_member_fn fn, void *ctx,
                         howdah_error *reterr)
{
    hw_pg_call call = {.statement = HW_PG_GROUP_MEMBERS};
    PGresult *result = NULL;
    int s = hw_pg_ready((hw_pg *)store, reterr);

    if (s < 0)
        return s;
    hw_pg_param_str(&call, subscriber_id);
    s = hw_pg_query((hw_pg *)store, &call, &result, reterr);
    for (int i = 0; s >= 0 && i < PQntuples(result); i++) {
        howdah_member_info info = HOWDAH_MEMBER_INFO_INIT;

        info.member = hw_pg_text(result, i, 0);
        info.batches = hw_pg_get_int8(result, i, 1);
        info.events = hw_pg_get_int8(result, i, 2);
        info.oldest_age_ms = hw_pg_get_int8(result, i, 3);
        if (fn(ctx, &info) != 0)
            break;
    }
    PQclear(result);
    return s;
}

static int run_about(hw_store *store, hw_pg_statement statement, hw_str subscriber_id,
                     howdah_error *reterr)
{
    hw_pg_call call = {.statement = (int)statement, .writes = true};
    PGresult *result = NULL;
    int s;

    hw_pg_param_str(&call, subscriber_id);
    s = ask((hw_pg *)store, &call, &result, reterr);
    PQclear(result);
    return s;
}

static int group_unshare(hw_store *store, hw_str subscriber_id, howdah_error *reterr)
{
    return run_about(store, HW_PG_GROUP_UNSHARE, subscriber_id, reterr);
}

static int group_remove(hw_store *store, hw_str subscriber_id, howdah_error *reterr)
{
    return run_about(store, HW_PG_GROUP_REMOVE, subscriber_id, reterr);
}

const hw_group_ops hw_pg_group_ops = {
    .create = group_create,
    .fetch = group_fetch,
    .ack = group_ack,
    .nack = group_nack,
    .extend = group_extend,
    .release = group_release,
    .commit = group_commit,
    .members = group_members,
    .reservations = &hw_pg_reserve_ops,
    .unshare = group_unshare,
    .remove = group_remove,
};
