/*
 * group_fetch.c - a member takes its next batch, on PostgreSQL.
 *
 *   I1  A batch is leased by one statement and read by a second one, which sees everything that the
 *       first one has dealt.  Both go out in one trip: the number in the token is drawn here, and
 *       the second statement knows the batch by it.  Behind a pooler they are one transaction, in
 *       several trips: the places of rows that a lease names mean something only on the server that
 *       gave them.  A small batch that comes alone is leased and read by one statement, and so is
 *       what somebody gets who had nothing to do.  If not all events are there (some are younger
 *       than the statement, or a row is not where its lot says), the batch is given back, and taken
 *       in two trips.
 *   I2  A batch is bounded in bytes as a page is (read.c I2): of each row the server is told how
 *       large it may be.  What comes without its payload ends the batch before it, and the lease is
 *       shortened accordingly; if it is the first, it is read alone.
 *   I3  Events point into a PGresult, which lives as long as a batch needs it.
 *   I4  Members that take small batches one after the other mostly get the next one of the same
 *       lot.  Its events were read with those of the first one, and leased later, each in its turn:
 *       only the lease tells whose they are.  What was read ahead is used if the server says that
 *       the batch follows the acked one in an untouched lot, the numbers fit, the session is the
 *       same, and not for long: somebody may have purged an event since.
 */
#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/random.h"
#include "store/pg/columns.h"
#include "store/pg/pg.h"

#define BATCH_BYTES ((size_t)8 * 1024 * 1024)
/* With more, what one statement costs for each row is more than a second one. */
#define SMALL_BATCH 20
/* Where events come often, one of them is mostly younger than the statement, and that costs more
   trips than are saved. */
#define IDLE_FETCHES 2
/* I4 */
#define AHEAD_ROWS 1000
#define AHEAD_BYTES ((int64_t)1024 * 1024)
#define AHEAD_MS 1000

/* Rows that were read by one statement, for one batch or for several (I4). */
typedef struct pile {
    atomic_int refs;
    PGresult *rows;
    howdah_event *events; /* by number */
    size_t n;
    const hw_pg *pg; /* by whom it was read, and in which session */
    uint64_t session;
    int64_t read_ms;
} pile;

/* What a batch owns (I3). */
typedef struct memory {
    pile *pile;
    size_t next;      /* of the pile's events: the first one after the batch */
    hw_cursor *alone; /* I2: of a large event */
} memory;

static void pile_drop(pile *p)
{
    if (!p || atomic_fetch_sub(&p->refs, 1) > 1)
        return;
    PQclear(p->rows);
    hw_free(p->events);
    hw_free(p);
}

static void batch_done(hw_group_batch *batch)
{
    memory *m = batch->memory;

    if (m) {
        pile_drop(m->pile);
        if (m->alone)
            hw_pg_read_close(m->alone);
        hw_free(m);
    }
    *batch = (hw_group_batch){.n = 0};
}

/* A batch that has nothing yet. */
static int batch_new(hw_group_batch *ret_batch, howdah_error *reterr)
{
    *ret_batch = (hw_group_batch){.memory = hw_calloc(1, sizeof(memory)), .done = batch_done};
    return ret_batch->memory ? HOWDAH_OK : hw_fail_no_memory(reterr);
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

/* The rows, whose columns of events begin with this one, become events, in order.  They are the
   pile's from now on, or freed. */
static int pile_of(const hw_pg *pg, PGresult *rows, int column, pile **ret_pile,
                   howdah_error *reterr)
{
    size_t n = (size_t)PQntuples(rows);
    pile *p = hw_calloc(1, sizeof *p);

    if (n > 0 && PQgetisnull(rows, 0, column))
        n = 0; /* a lease whose events are not there (lease_small()) */
    if (p)
        p->events = hw_alloc((n + 1) * sizeof *p->events);
    if (!p || !p->events) {
        hw_free(p);
        PQclear(rows);
        return hw_fail_no_memory(reterr);
    }
    atomic_init(&p->refs, 1);
    p->rows = rows;
    p->n = n;
    p->pg = pg;
    p->session = pg ? pg->session : 0;
    p->read_ms = hw_clock_mono_ms();
    for (size_t i = 0; i < n; i++)
        hw_pg_decode_event(rows, (int)i, column, &p->events[i]);
    sort(p->events, n);
    *ret_pile = p;
    return HOWDAH_OK;
}

/* The pile's events with numbers from lo to hi become the batch's; of others, where one was purged
   and moved, another may have its place.  They are sorted, so it is one stretch. */
static void hand_out(pile *p, size_t from, int64_t lo, int64_t hi, hw_group_batch *batch)
{
    memory *m = batch->memory;
    size_t end;

    while (from < p->n && p->events[from].global_sequence < lo)
        from++;
    for (end = from; end < p->n && p->events[end].global_sequence <= hi; end++)
        continue;
    m->pile = p;
    m->next = end;
    batch->events = p->events + from;
    batch->n = end - from;
}

/* How many of the batch came with their payload, up to the first one that did not.  An event
   without any payload (from somebody's own INSERT) looks like one that is too large. */
static size_t whole(const hw_group_batch *batch)
{
    size_t n = 0;

    while (n < batch->n && !batch->events[n].broken)
        n++;
    return n;
}

int hw_pg_batch_of(PGresult *rows, hw_group_batch *ret_batch, howdah_error *reterr)
{
    hw_group_batch batch = {.n = 0};
    pile *p = NULL;
    int s = pile_of(NULL, rows, 0, &p, reterr);

    if (s < 0)
        return s;
    s = batch_new(&batch, reterr);
    if (s < 0) {
        pile_drop(p);
        return s;
    }
    hand_out(p, 0, 0, INT64_MAX, &batch);
    if (whole(&batch) < batch.n) {
        batch_done(&batch);
        return HOWDAH_END;
    }
    *ret_batch = batch;
    return HOWDAH_OK;
}

/* I2: the first event, whatever its size. */
static int read_alone(hw_pg *pg, hw_group_batch *batch, howdah_error *reterr)
{
    memory *m = batch->memory;
    hw_query query = {.ids = &batch->events[0].id, .ids_n = 1, .batch = 1};
    int s = hw_pg_read_open(&pg->base, &query, &m->alone, reterr);

    m->next = m->pile->n; /* what comes after it is not looked at */
    return s < 0 ? s : hw_pg_read_next(m->alone, &batch->events, &batch->n, reterr);
}

static int shorten(hw_pg *pg, const hw_group_take *take, const hw_group_batch *batch,
                   howdah_error *reterr)
{
    hw_pg_call call = {.statement = HW_PG_GROUP_SHORTEN, .writes = true};
    PGresult *result = NULL;
    int s = hw_pg_ready(pg, reterr);

    hw_pg_param_str(&call, take->subscriber_id);
    hw_pg_param_str(&call, hw_str_of(batch->token));
    hw_pg_param_int8(&call, batch->events[batch->n - 1].global_sequence);
    if (s >= 0)
        s = hw_pg_exec(pg, &call, &result, reterr);
    PQclear(result);
    return s;
}

/* The events are there.  HOWDAH_END: all of them were removed meanwhile. */
static int bound(hw_pg *pg, const hw_group_take *take, hw_group_batch *batch, howdah_error *reterr)
{
    memory *m = batch->memory;
    size_t n = batch->n;
    size_t fit = whole(batch);
    int s = HOWDAH_OK;

    if (n == 0)
        return HOWDAH_END;
    if (fit == n)
        return HOWDAH_OK;
    if (fit == 0) {
        s = read_alone(pg, batch, reterr);
    } else {
        m->next -= n - fit;
        batch->n = fit;
    }
    return s == HOWDAH_OK && batch->n < n ? shorten(pg, take, batch, reterr) : s;
}

/* ----------------------------------------------------------------- fetching */

/* What HW_PG_GROUP_FETCH gives. */
enum { LEASED_TOKEN, LEASED_ATTEMPT, LEASED_TIDS, LEASED_LO, LEASED_HI, LEASED_N, LEASED_FOLLOWS };

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

/* HOWDAH_END: nothing was leased. */
static int take_lease(const PGresult *leased, hw_group_batch *batch, howdah_error *reterr)
{
    if (PQgetisnull(leased, 0, LEASED_TOKEN))
        return HOWDAH_END;
    return take_token(hw_pg_get_str(leased, 0, LEASED_TOKEN),
                      hw_pg_get_int4(leased, 0, LEASED_ATTEMPT), batch, reterr);
}

/* The rows that a lease is about, or more.  They are freed, or the batch's. */
static int take_rows(const hw_pg *pg, const PGresult *leased, PGresult *rows, hw_group_batch *batch,
                     howdah_error *reterr)
{
    pile *p = NULL;
    int s = pile_of(pg, rows, 0, &p, reterr);

    if (s >= 0)
        hand_out(p, 0, hw_pg_get_int8(leased, 0, LEASED_LO), hw_pg_get_int8(leased, 0, LEASED_HI),
                 batch);
    return s;
}

static bool has_all(const PGresult *leased, const hw_group_batch *batch)
{
    return (int64_t)batch->n == hw_pg_get_int4(leased, 0, LEASED_N);
}

/* The second statement, by the places that the first one has named. */
static int read_places(hw_pg *pg, const PGresult *leased, int64_t max, hw_group_batch *batch,
                       howdah_error *reterr)
{
    hw_pg_call call = {.statement = HW_PG_GROUP_READ};
    PGresult *rows = NULL;
    int s;

    hw_pg_param_str(&call, hw_pg_get_str(leased, 0, LEASED_TIDS));
    hw_pg_param_int4(&call, hw_pg_batch_cap(max));
    s = hw_pg_exec(pg, &call, &rows, reterr);
    return s < 0 ? s : take_rows(pg, leased, rows, batch, reterr);
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
    hw_pg_param_str(&call, hw_pg_get_str(leased, 0, LEASED_TIDS)); /* their bytes */
    hw_pg_param_int8(&call, hw_pg_get_int8(leased, 0, LEASED_LO));
    hw_pg_param_int8(&call, hw_pg_get_int8(leased, 0, LEASED_HI));
    s = hw_pg_exec(pg, &call, &result, reterr);
    if (s >= 0)
        *ret_moved = hw_pg_get_bool(result, 0, 0);
    PQclear(result);
    return s;
}

/* As if it had not been taken.  If its lease is over, there is nothing to give back. */
static int give_back(hw_pg *pg, const hw_group_take *take, const hw_group_batch *batch,
                     howdah_error *reterr)
{
    const hw_batch_ref ref = {take->subscriber_id, hw_str_of(batch->token), 0};
    howdah_error err = HOWDAH_ERROR_INIT;
    int s = hw_pg_group_release(&pg->base, &ref, &err);

    if (s == HOWDAH_LOST)
        return HOWDAH_OK;
    if (s < 0)
        hw_error_copy(reterr, &err);
    return s;
}

static int lease_and_read(hw_pg *pg, const hw_group_take *take, hw_group_batch *batch,
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
        s = read_places(pg, leased, take->max_events, batch, reterr);
    if (s == HOWDAH_OK && !has_all(leased, batch))
        s = ask_moved(pg, take, leased, ret_moved, reterr);
    PQclear(leased);
    return s;
}

static int lease_in_two(hw_pg *pg, const hw_group_take *take, hw_group_batch *batch,
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
    found = s = lease_and_read(pg, take, batch, &moved, reterr);
    if (together && s >= 0)
        s = hw_pg_exec(pg, &commit, &committed, reterr);
    else if (together && pg->conn)
        (void)hw_pg_command(pg, "ROLLBACK", NULL);
    PQclear(committed);
    if (s < 0 || found == HOWDAH_END)
        return s < 0 ? s : HOWDAH_END;
    if (moved) { /* the next lease has their new places */
        s = give_back(pg, take, batch, reterr);
        if (s >= 0)
            s = hw_fail(reterr, HOWDAH_UNAVAILABLE,
                        "events of the batch were purged while it was taken");
        hw_error_flag(reterr, HOWDAH_RETRYABLE);
        return s;
    }
    return bound(pg, take, batch, reterr);
}

/* What HW_PG_GROUP_FETCH_SMALL gives, in each row. */
enum { SMALL_TOKEN, SMALL_ATTEMPT, SMALL_N, SMALL_LO, SMALL_HI, SMALL_EVENT };

static int lease_small(hw_pg *pg, const hw_group_take *take, hw_group_batch *batch, bool *ret_all,
                       howdah_error *reterr)
{
    hw_pg_call call = {.statement = HW_PG_GROUP_FETCH_SMALL, .writes = true};
    PGresult *r = NULL;
    pile *p = NULL;
    int s;

    call_of_fetch(&call, take);
    hw_pg_param_int4(&call, hw_pg_batch_cap(take->max_events));
    s = hw_pg_exec(pg, &call, &r, reterr);
    if (s >= 0 && PQgetisnull(r, 0, SMALL_TOKEN))
        s = HOWDAH_END;
    if (s == HOWDAH_OK)
        s = take_token(hw_pg_get_str(r, 0, SMALL_TOKEN), hw_pg_get_int4(r, 0, SMALL_ATTEMPT), batch,
                       reterr);
    if (s != HOWDAH_OK) {
        PQclear(r);
        return s;
    }
    s = pile_of(pg, r, SMALL_EVENT, &p, reterr);
    if (s < 0)
        return s;
    hand_out(p, 0, hw_pg_get_int8(r, 0, SMALL_LO), hw_pg_get_int8(r, 0, SMALL_HI), batch);
    *ret_all = (int64_t)batch->n == hw_pg_get_int4(r, 0, SMALL_N);
    return HOWDAH_OK;
}

/* ---- directly: both statements in one trip, and ahead (I4) */

/* At random: see I3 of 0007_groups. */
static int draw_fence(int64_t *ret_fence, howdah_error *reterr)
{
    uint64_t random = 0;

    if (!hw_random_bytes(&random, sizeof random))
        return hw_fail(reterr, HOWDAH_FAILED, "the system has no random numbers for a token");
    *ret_fence = (int64_t)(random >> 16) + 1;
    return HOWDAH_OK;
}

/* How many rows to read: more than the batch may have when others will follow it, and rows are not
   too large for that. */
static int64_t rows_wanted(const hw_pg *pg, const hw_group_take *take)
{
    int64_t rows = pg->event_bytes > 0 ? AHEAD_BYTES / pg->event_bytes : AHEAD_ROWS;

    rows = rows < AHEAD_ROWS ? rows : AHEAD_ROWS;
    return take->acked.s && rows > take->max_events ? rows : take->max_events;
}

static void learn_size(hw_pg *pg, const pile *p)
{
    bool large = false;

    for (size_t i = 0; i < p->n; i++)
        large = large || p->events[i].broken;
    if (p->n > 0)
        pg->event_bytes = large ? AHEAD_BYTES : (int64_t)(PQresultMemorySize(p->rows) / p->n) + 1;
}

/* What was read ahead with the batch that is acked; NULL: nothing that can be used. */
static pile *read_ahead(const hw_pg *pg, const hw_group_take *take)
{
    const memory *m = take->prior ? take->prior->memory : NULL;

    if (!m || m->next >= m->pile->n || m->pile->pg != pg || m->pile->session != pg->session ||
        hw_clock_mono_ms() - m->pile->read_ms > AHEAD_MS)
        return NULL;
    return m->pile;
}

/* The batch that was leased follows the acked one.  False: what was read ahead is something else.
 */
static bool take_ahead(const hw_group_take *take, pile *p, const PGresult *leased,
                       hw_group_batch *batch)
{
    const memory *before = take->prior->memory;

    if (!hw_pg_get_bool(leased, 0, LEASED_FOLLOWS))
        return false;
    hand_out(p, before->next, hw_pg_get_int8(leased, 0, LEASED_LO),
             hw_pg_get_int8(leased, 0, LEASED_HI), batch);
    if (has_all(leased, batch) && whole(batch) == batch->n) {
        atomic_fetch_add(&p->refs, 1);
        return true;
    }
    ((memory *)batch->memory)->pile = NULL;
    batch->n = 0;
    return false;
}

static void call_of_read(hw_pg_call *call, const hw_group_take *take, int64_t fence, int64_t rows)
{
    *call = (hw_pg_call){.statement = HW_PG_GROUP_READ_LOT};
    hw_pg_param_str(call, take->subscriber_id);
    hw_pg_param_int8(call, fence);
    hw_pg_param_int4(call, (int32_t)rows);
    hw_pg_param_int4(call, hw_pg_batch_cap(rows));
}

/* The rows of a lot's batch, which the pair has brought (*rows, taken over) or which are read
   now. */
static int read_lot(hw_pg *pg, const hw_group_take *take, int64_t fence, const PGresult *leased,
                    PGresult **rows, hw_group_batch *batch, howdah_error *reterr)
{
    memory *m = batch->memory;
    int64_t wanted = rows_wanted(pg, take);
    hw_pg_call call;
    PGresult *read = *rows;
    int s = HOWDAH_OK;

    *rows = NULL;
    for (;;) {
        if (!read) {
            call_of_read(&call, take, fence, wanted);
            s = hw_pg_exec(pg, &call, &read, reterr);
        }
        if (s >= 0)
            s = take_rows(pg, leased, read, batch, reterr);
        if (s < 0)
            return s;
        learn_size(pg, m->pile);
        if (wanted <= take->max_events || whole(batch) == batch->n)
            return HOWDAH_OK;
        /* Larger than what may be read ahead: the batch alone. */
        pile_drop(m->pile);
        m->pile = NULL;
        batch->n = 0;
        read = NULL;
        wanted = take->max_events;
    }
}

/* What became of the lease.  Events of a stuck stream are no lot's: they are read apart. */
static int take_direct(hw_pg *pg, const hw_group_take *take, int64_t fence, PGresult *results[2],
                       hw_group_batch *batch, bool *ret_all, howdah_error *reterr)
{
    const PGresult *leased = results[0];
    pile *ahead = read_ahead(pg, take);
    int s = take_lease(leased, batch, reterr);

    if (s != HOWDAH_OK)
        return s;
    if (!PQgetisnull(leased, 0, LEASED_TIDS))
        s = read_places(pg, leased, take->max_events, batch, reterr);
    else if (!ahead || !take_ahead(take, ahead, leased, batch))
        s = read_lot(pg, take, fence, leased, &results[1], batch, reterr);
    *ret_all = s == HOWDAH_OK && has_all(leased, batch);
    return s;
}

/* *ret_leased: the first statement was carried out, whatever became of the second. */
static int lease_direct(hw_pg *pg, const hw_group_take *take, hw_group_batch *batch, bool *ret_all,
                        bool *ret_leased, howdah_error *reterr)
{
    hw_pg_call calls[2] = {{.statement = HW_PG_GROUP_FETCH, .writes = true}};
    PGresult *results[2] = {NULL, NULL};
    int64_t fence = 0;
    int s = draw_fence(&fence, reterr);

    if (s < 0)
        return s;
    call_of_fetch(&calls[0], take);
    hw_pg_param_int8(&calls[0], fence);
    if (read_ahead(pg, take)) {
        s = hw_pg_exec(pg, &calls[0], &results[0], reterr);
    } else {
        call_of_read(&calls[1], take, fence, rows_wanted(pg, take));
        s = hw_pg_pair(pg, calls, results, reterr);
    }
    *ret_leased = results[0] != NULL;
    if (s >= 0)
        s = take_direct(pg, take, fence, results, batch, ret_all, reterr);
    else if (results[0] && pg->conn && take_lease(results[0], batch, NULL) == HOWDAH_OK)
        (void)give_back(pg, take, batch, NULL); /* else it comes when the lease ends */
    PQclear(results[0]);
    PQclear(results[1]);
    return s;
}

/* I1.  Where nothing was found again and again, the bell has rung for a few events. */
static bool is_small(const hw_pg *pg, const hw_group_take *take)
{
    if (take->acked.s)
        return take->max_events <= SMALL_BATCH && (pg->pooled || pg->caller_owned);
    return take->max_events <= SMALL_BATCH || pg->found_nothing >= IDLE_FETCHES;
}

static int lease(hw_pg *pg, const hw_group_take *take, hw_group_batch *batch, bool *ret_leased,
                 howdah_error *reterr)
{
    hw_group_take again = *take;
    hw_group_take few = *take;
    memory *m = batch->memory;
    bool all = false;
    int s;

    if (few.max_events > SMALL_BATCH)
        few.max_events = SMALL_BATCH;
    if (is_small(pg, take))
        s = lease_small(pg, &few, batch, &all, reterr);
    else if (!pg->pooled && !pg->caller_owned)
        s = lease_direct(pg, take, batch, &all, ret_leased, reterr);
    else
        return lease_in_two(pg, take, batch, reterr);
    if (s != HOWDAH_OK || all)
        return s == HOWDAH_OK ? bound(pg, take, batch, reterr) : s;
    pile_drop(m->pile);
    *m = (memory){.pile = NULL};
    *ret_leased = true;
    s = give_back(pg, take, batch, reterr);
    again.acked = HW_STR_NULL; /* that has happened */
    again.prior = NULL;
    return s < 0 ? s : lease_in_two(pg, &again, batch, reterr);
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
        *ret_outlook =
            (hw_group_outlook){.status = hw_pg_sub_status_of(hw_pg_get_str(result, 0, 0)),
                               .due_ms = hw_pg_get_int8_or(result, 0, 1, -1)};
    PQclear(result);
    return s;
}

int hw_pg_group_fetch(hw_store *store, const hw_group_take *take, hw_group_batch *ret_batch,
                      hw_group_outlook *ret_outlook, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_group_batch batch = {.n = 0};
    bool leased = false;
    int s = batch_new(&batch, reterr);

    assert(take->max_events >= 1 && take->max_events <= HOWDAH_BATCH_MAX && take->lease_ms > 0);
    if (s >= 0)
        s = hw_pg_ready(pg, reterr);
    if (s >= 0)
        s = lease(pg, take, &batch, &leased, reterr);
    ret_outlook->acked = leased && take->acked.s;
    if (s == HOWDAH_OK) {
        *ret_batch = batch;
        pg->found_nothing = 0;
        return HOWDAH_OK;
    }
    batch_done(&batch);
    if (s < 0)
        return s;
    pg->found_nothing++;
    s = ask_outlook(pg, take->subscriber_id, ret_outlook, reterr);
    ret_outlook->acked = take->acked.s != NULL;
    return s < 0 ? s : HOWDAH_END;
}
