/*
 * append.c - appending on PostgreSQL.
 *
 *   I1  The check of the expected version and the insert are one statement; (stream, version) is
 *       the guard.  A statement that inserts nothing has found an expectation unmet.
 *   I2  Up to CHUNK events are one statement that commits by itself: one round trip.  More, or a
 *       mark, or standing in line, are a transaction whose statements travel in one pipeline.
 *   I3  On the caller's connection, inside the caller's transaction, everything happens inside a
 *       savepoint: whatever is refused leaves that transaction as it was.
 *   I4  A client without rights on the table calls append_arrays(), which does all of this, and
 *       recognises repeated ids, inside the server.
 *   I5  A lost race is worth another attempt only where the next statement sees more: inside a
 *       transaction above READ COMMITTED it is a serialization failure, the caller's to repeat.
 *   I6  An exact version that the session knows to be stored (known_versions.c) is not looked up
 *       again by the statement; the unique key still says whether the next one is free.
 *   I7  A number that an event has already is not a lost race: the sequence lags behind the log,
 *       as in a copy of the tables without it.  Another attempt would draw the next number, until
 *       one lands below what subscriptions have done.
 *   I8  A correction always goes through append_correction(): it locks what it corrects, which not
 *       everybody who may append has the right to, and other appends are not slowed by it.
 */
#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "engine/batch.h"
#include "store/pg/pg.h"

/* One statement carries at most so many events, and about so many bytes; then the next begins. */
#define CHUNK 1000
#define CHUNK_BYTES ((size_t)8 * 1024 * 1024)
#define FUNCTION_ATTEMPTS 10

/* -------------------------------------------------------------- one event */

/* $1 to $12 of the statements for one event; with a content type the payload is bytes. */
static void params_of_event(hw_pg_call *call, const howdah_event *e)
{
    bool json = !e->content_type.s;

    hw_pg_param_uuid(call, true, &e->id);
    hw_pg_param_str(call, e->stream);
    hw_pg_param_str(call, e->type);
    hw_pg_param_str(call, json ? e->data : HW_STR_NULL);
    hw_pg_param_str(call, e->headers);
    hw_pg_param_str(call, e->correlation_id);
    hw_pg_param_uuid(call, e->has_causation, &e->causation_id);
    hw_pg_param_str(call, e->actor);
    hw_pg_param_time(call, e->valid_time_us);
    hw_pg_param_int4(call, e->schema_version);
    hw_pg_param_str(call, json ? HW_STR_NULL : e->data);
    hw_pg_param_str(call, e->content_type);
}

/* The bell's mark as the append saw it; NULL, and here 0: nobody ever slept (bell.c). */
static int64_t get_mark(const PGresult *result)
{
    return PQgetisnull(result, 0, 3) ? 0 : hw_pg_get_int8(result, 0, 3);
}

static void fill_position(const PGresult *result, int row, howdah_position *p)
{
    p->global_sequence = hw_pg_get_int8(result, row, 0);
    p->version = hw_pg_get_int8(result, row, 1);
    p->recorded_at_us = hw_pg_get_int8(result, row, 2) + HW_PG_EPOCH_US;
    p->revision = 1;
    p->already_stored = 0;
}

/* The server ended our transaction because of another one: nothing is stored, try again. */
static bool is_serialization_failure(const howdah_error *err)
{
    return strcmp(err->sqlstate, "40P01") == 0 || strcmp(err->sqlstate, "40001") == 0;
}

/* I7.  The caller must not try again: the sequence has to be raised first. */
static int number_taken(const howdah_error *err, howdah_error *reterr)
{
    int s = hw_fail(reterr, HOWDAH_SCHEMA,
                    "the log's sequence is lower than the numbers in use: it gave out one that an "
                    "event already has");

    if (reterr)
        (void)snprintf(reterr->sqlstate, sizeof reterr->sqlstate, "%s", err->sqlstate);
    return hw_advise(reterr, s, "nothing was stored; run: howdah migrate up");
}

/*
 * Turns what the server said into an outcome (ARCHITECTURE, 2).  A unique key that was met is
 * an outcome, not an error.  So is a deadlock, because nothing is stored and another attempt is
 * worth it, unless the transaction is the caller's: only the caller can repeat that one.
 */
static int judge(const hw_pg *pg, int s, const howdah_error *err, hw_append_report *report,
                 howdah_error *reterr)
{
    if (s < 0 && !pg->caller_owned && is_serialization_failure(err)) {
        report->outcome = HW_APPEND_VERSION_TAKEN;
        return HOWDAH_OK;
    }
    if (s < 0 && strcmp(err->sqlstate, "23505") == 0 && strcmp(pg->constraint, "events_pkey") == 0)
        return number_taken(err, reterr);
    if (s < 0 && strcmp(err->sqlstate, "23505") == 0) {
        report->outcome = strcmp(pg->constraint, "events_id_key") == 0 ? HW_APPEND_ID_TAKEN
                                                                       : HW_APPEND_VERSION_TAKEN;
        return HOWDAH_OK;
    }
    if (s < 0)
        hw_error_copy(reterr, err);
    return s;
}

/*
 * I1, I6: a statement for each expectation: its plan is fixed, the common case looks nothing
 * up.
 */
static hw_pg_statement statement_for(hw_pg *pg, const hw_batch_stream *stream)
{
    switch (stream->expected) {
    case HOWDAH_EXPECT_ANY:
        return HW_PG_APPEND_ANY;
    case HOWDAH_EXPECT_EXISTS:
        return HW_PG_APPEND_EXISTS;
    case HOWDAH_EXPECT_NONE:
        return HW_PG_APPEND_NONE;
    default:
        return hw_pg_is_known(pg, stream->name, stream->expected) ? HW_PG_APPEND_NEXT
                                                                  : HW_PG_APPEND_EXACT;
    }
}

/* I2: the usual append, in one round trip.  No row: the expectation is unmet. */
static int append_one(hw_pg *pg, const hw_batch *batch, howdah_position *position,
                      hw_append_report *report, howdah_error *reterr)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    const hw_batch_stream *stream = &batch->streams[0];
    hw_pg_call call = {.statement = (int)statement_for(pg, stream), .writes = true};
    PGresult *result = NULL;
    int s;

    assert(batch->n == 1 && batch->streams_n == 1);
    params_of_event(&call, batch->events[0]);
    if (stream->expected > 0)
        hw_pg_param_int8(&call, stream->expected);
    s = hw_pg_exec(pg, &call, &result, &err);
    if (s >= 0) {
        report->outcome = PQntuples(result) == 1 ? HW_APPEND_STORED : HW_APPEND_UNEXPECTED;
        report->stream_no = SIZE_MAX;
        if (report->outcome == HW_APPEND_STORED) {
            fill_position(result, 0, position);
            hw_pg_know(pg, stream->name, position->version);
            hw_pg_bell_after(pg, get_mark(result), batch->events, 1);
        }
    }
    PQclear(result);
    return judge(pg, s, &err, report, reterr);
}

/* ------------------------------------------------------------ many events */

/* A run of the batch that one statement carries. */
typedef struct chunk {
    size_t first;
    size_t n;
} chunk;

/* Where each array of a call starts in the scratch buffer; SIZE_MAX: a NULL parameter. */
typedef struct arrays {
    hw_buf *out;
    size_t start[HW_PG_PARAMS_MAX];
    size_t end[HW_PG_PARAMS_MAX];
    int n;
} arrays;

static void begin_array(arrays *a, Oid element, size_t n, hw_pg_array *array)
{
    assert(a->n < HW_PG_PARAMS_MAX);
    hw_pg_array_begin(a->out, element, n, array);
    a->start[a->n] = array->start;
}

static void end_array(arrays *a)
{
    a->end[a->n] = a->out->len;
    a->n++;
}

/* What put_strings() takes out of each event. */
typedef hw_str (*str_of)(const howdah_event *e);

static hw_str stream_of(const howdah_event *e)
{
    return e->stream;
}
static hw_str type_of(const howdah_event *e)
{
    return e->type;
}
static hw_str json_of(const howdah_event *e)
{
    return e->content_type.s ? HW_STR_NULL : e->data;
}
static hw_str bytes_of(const howdah_event *e)
{
    return e->content_type.s ? e->data : HW_STR_NULL;
}
static hw_str headers_of(const howdah_event *e)
{
    return e->headers;
}
static hw_str correlation_of(const howdah_event *e)
{
    return e->correlation_id;
}
static hw_str actor_of(const howdah_event *e)
{
    return e->actor;
}
static hw_str content_type_of(const howdah_event *e)
{
    return e->content_type;
}

/*
 * A column that no event of the chunk has travels as one NULL: unnest() fills it up with NULLs,
 * and most batches have no headers, actors or bytes.
 */
static void put_strings(arrays *a, Oid element, const howdah_event *const *events, size_t n,
                        str_of get)
{
    hw_pg_array array;
    bool any = false;

    for (size_t i = 0; i < n && !any; i++)
        any = get(events[i]).s != NULL;
    if (!any) {
        a->start[a->n++] = SIZE_MAX;
        return;
    }
    begin_array(a, element, n, &array);
    for (size_t i = 0; i < n; i++) {
        hw_str value = get(events[i]);

        if (value.s)
            hw_pg_array_put(a->out, value.s, value.len);
        else
            hw_pg_array_put_null(a->out, &array);
    }
    end_array(a);
}

static void put_ids(arrays *a, const howdah_event *const *events, size_t n)
{
    hw_pg_array array;

    begin_array(a, HW_OID_UUID, n, &array);
    for (size_t i = 0; i < n; i++)
        hw_pg_array_put(a->out, events[i]->id.b, sizeof events[i]->id.b);
    end_array(a);
}

static void put_causations(arrays *a, const howdah_event *const *events, size_t n)
{
    hw_pg_array array;
    bool any = false;

    for (size_t i = 0; i < n && !any; i++)
        any = events[i]->has_causation;
    if (!any) {
        a->start[a->n++] = SIZE_MAX;
        return;
    }
    begin_array(a, HW_OID_UUID, n, &array);
    for (size_t i = 0; i < n; i++) {
        if (events[i]->has_causation)
            hw_pg_array_put(a->out, events[i]->causation_id.b, sizeof events[i]->causation_id.b);
        else
            hw_pg_array_put_null(a->out, &array);
    }
    end_array(a);
}

static void put_valid_times(arrays *a, const howdah_event *const *events, size_t n)
{
    hw_pg_array array;
    bool any = false;

    for (size_t i = 0; i < n && !any; i++)
        any = events[i]->valid_time_us != HW_TIME_ABSENT;
    if (!any) {
        a->start[a->n++] = SIZE_MAX;
        return;
    }
    begin_array(a, HW_OID_TIMESTAMPTZ, n, &array);
    for (size_t i = 0; i < n; i++) {
        if (events[i]->valid_time_us != HW_TIME_ABSENT)
            hw_pg_array_put_int8(a->out, events[i]->valid_time_us - HW_PG_EPOCH_US);
        else
            hw_pg_array_put_null(a->out, &array);
    }
    end_array(a);
}

static void put_schema_versions(arrays *a, const howdah_event *const *events, size_t n)
{
    hw_pg_array array;

    begin_array(a, HW_OID_INT4, n, &array);
    for (size_t i = 0; i < n; i++)
        hw_pg_array_put_int4(a->out, events[i]->schema_version);
    end_array(a);
}

/* $1..$12 of both batch statements. */
static void put_events(arrays *a, const howdah_event *const *events, size_t n)
{
    put_ids(a, events, n);
    put_strings(a, HW_OID_TEXT, events, n, stream_of);
    put_strings(a, HW_OID_TEXT, events, n, type_of);
    put_strings(a, HW_OID_JSON, events, n, json_of);
    put_strings(a, HW_OID_JSON, events, n, headers_of);
    put_strings(a, HW_OID_TEXT, events, n, correlation_of);
    put_causations(a, events, n);
    put_strings(a, HW_OID_TEXT, events, n, actor_of);
    put_valid_times(a, events, n);
    put_schema_versions(a, events, n);
    put_strings(a, HW_OID_BYTEA, events, n, bytes_of);
    put_strings(a, HW_OID_TEXT, events, n, content_type_of);
}

/* The buffer may have moved while it grew: addresses are taken at the end. */
static void params_of_arrays(hw_pg_call *call, const arrays *a)
{
    for (int i = 0; i < a->n; i++) {
        if (a->start[i] == SIZE_MAX)
            hw_pg_param_null(call);
        else
            hw_pg_param_bin(call, a->out->data + a->start[i], a->end[i] - a->start[i]);
    }
}

/* What the statements of one append share: which chunk is next, what went before. */
typedef struct plan {
    hw_pg *pg;
    const hw_batch *batch;
    const hw_import_place *mark;
    chunk *chunks;
    size_t chunks_n;
    uint32_t *sent;  /* per stream: events in the chunks before */
    uint32_t *local; /* per stream: its number (from 1) in this chunk, valid if stamp fits */
    size_t *stamp;   /* per stream: the chunk (from 1) that local belongs to */
    uint32_t *order; /* the streams of this chunk */
    hw_buf locks;
    bool begin;
    int64_t mark_seen; /* the bell's, by the last chunk */
} plan;

/*
 * $13..$16 of APPEND_BATCH: of each event its stream's number in the chunk and its place among
 * that stream's events there, then the names and expectations of these streams.  The statement
 * adds the place to the stream's last version, so it must be counted within the chunk: chunks
 * before this one have moved that version already.
 */
static void put_versions(arrays *a, plan *p, size_t chunk_no)
{
    const chunk *c = &p->chunks[chunk_no];
    const hw_batch *b = p->batch;
    hw_pg_array array;
    uint32_t streams = 0;

    for (size_t i = c->first; i < c->first + c->n; i++) {
        uint32_t stream = b->stream_no[i];

        if (p->stamp[stream] != chunk_no + 1) {
            p->stamp[stream] = chunk_no + 1;
            p->sent[stream] = b->nth[i] - 1;
            p->order[streams++] = stream;
            p->local[stream] = streams;
        }
    }
    assert(streams > 0 && streams <= b->streams_n);
    begin_array(a, HW_OID_INT4, c->n, &array);
    for (size_t i = c->first; i < c->first + c->n; i++)
        hw_pg_array_put_int4(a->out, (int32_t)p->local[b->stream_no[i]]);
    end_array(a);
    begin_array(a, HW_OID_INT4, c->n, &array);
    for (size_t i = c->first; i < c->first + c->n; i++)
        hw_pg_array_put_int4(a->out, (int32_t)(b->nth[i] - p->sent[b->stream_no[i]]));
    end_array(a);
    begin_array(a, HW_OID_TEXT, streams, &array);
    for (uint32_t i = 0; i < streams; i++)
        hw_pg_array_put(a->out, b->streams[p->order[i]].name.s, b->streams[p->order[i]].name.len);
    end_array(a);
    /* A stream's expectation is about what was before the batch: only its first chunk asks. */
    begin_array(a, HW_OID_INT8, streams, &array);
    for (uint32_t i = 0; i < streams; i++)
        hw_pg_array_put_int8(a->out, p->sent[p->order[i]] == 0 ? b->streams[p->order[i]].expected
                                                               : HOWDAH_EXPECT_ANY);
    end_array(a);
}

/* The arrays lie in a scratch buffer; libpq has copied them when the next chunk overwrites it. */
static int call_of_chunk(plan *p, size_t chunk_no, hw_pg_call *call)
{
    const chunk *c = &p->chunks[chunk_no];
    arrays a = {.out = &p->pg->params};

    assert(chunk_no < p->chunks_n && c->n > 0);
    hw_buf_clear(a.out);
    put_events(&a, p->batch->events + c->first, c->n);
    put_versions(&a, p, chunk_no);
    if (a.out->broken)
        return HOWDAH_NO_MEMORY;
    call->statement = HW_PG_APPEND_BATCH;
    params_of_arrays(call, &a);
    return HOWDAH_OK;
}

/*
 * Cuts the batch into chunks.  chunk_max is enough: a chunk is closed when it has CHUNK events
 * or CHUNK_BYTES, and batch->bytes counts the same payloads and headers.  plan_done() is safe
 * on failure.
 */
static int plan_init(plan *p, hw_pg *pg, const hw_batch *batch, const hw_import_place *mark,
                     howdah_error *reterr)
{
    size_t chunk_max = batch->n / CHUNK + batch->bytes / CHUNK_BYTES + 2;
    size_t bytes = 0;

    *p = (plan){.pg = pg, .batch = batch, .mark = mark};
    p->locks = (hw_buf)HW_BUF_INIT((size_t)64 * 1024 * 1024);
    p->chunks = hw_calloc(chunk_max, sizeof *p->chunks);
    p->sent = hw_calloc(batch->streams_n, sizeof *p->sent);
    p->local = hw_calloc(batch->streams_n, sizeof *p->local);
    p->stamp = hw_calloc(batch->streams_n, sizeof *p->stamp);
    p->order = hw_calloc(batch->streams_n, sizeof *p->order);
    if (!p->chunks || !p->sent || !p->local || !p->stamp || !p->order)
        return hw_fail_no_memory(reterr);
    for (size_t i = 0; i < batch->n; i++) {
        chunk *c = p->chunks_n ? &p->chunks[p->chunks_n - 1] : NULL;

        if (!c || c->n == CHUNK || bytes >= CHUNK_BYTES) {
            assert(p->chunks_n < chunk_max);
            c = &p->chunks[p->chunks_n++];
            c->first = i;
            bytes = 0;
        }
        c->n++;
        bytes += batch->events[i]->data.len + batch->events[i]->headers.len;
    }
    return HOWDAH_OK;
}

static void plan_done(plan *p)
{
    hw_free(p->chunks);
    hw_free(p->sent);
    hw_free(p->local);
    hw_free(p->stamp);
    hw_free(p->order);
    hw_buf_done(&p->locks);
}

/* Zero rows: an expectation is unmet.  Otherwise one row per event, in order. */
static bool take_positions(const PGresult *result, size_t n, howdah_position *positions)
{
    if ((size_t)PQntuples(result) != n)
        return false;
    for (size_t i = 0; i < n; i++)
        fill_position(result, (int)i, &positions[i]);
    return true;
}

/* I2: a batch of one chunk is one statement that commits by itself. */
static int append_chunk(hw_pg *pg, plan *p, howdah_position *positions, hw_append_report *report,
                        howdah_error *reterr)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    hw_pg_call call = {.writes = true};
    PGresult *result = NULL;
    int s = call_of_chunk(p, 0, &call);

    assert(p->chunks_n == 1 && !p->mark);
    if (s < 0)
        return hw_fail_no_memory(reterr);
    s = hw_pg_exec(pg, &call, &result, &err);
    if (s >= 0) {
        report->stream_no = SIZE_MAX;
        report->outcome = take_positions(result, p->batch->n, positions) ? HW_APPEND_STORED
                                                                         : HW_APPEND_UNEXPECTED;
        if (report->outcome == HW_APPEND_STORED)
            hw_pg_bell_after(pg, get_mark(result), p->batch->events, p->batch->n);
    }
    PQclear(result);
    return judge(pg, s, &err, report, reterr);
}

/* ------------------------------------------------------- as a transaction */

/* Statements of the pipeline, in order: BEGIN, locks, chunks, mark; absent ones are skipped. */
static size_t pipeline_length(const plan *p)
{
    return (size_t)p->begin + (size_t)p->batch->queue_up + p->chunks_n + (p->mark ? 1u : 0u);
}

/*
 * For batches that have lost races: they stand in line for their streams.  The statement sorts
 * the locks, so that two batches cannot wait for each other.
 */
static int call_of_locks(plan *p, hw_pg_call *call)
{
    hw_pg_array array;

    hw_buf_clear(&p->locks);
    hw_pg_array_begin(&p->locks, HW_OID_TEXT, p->batch->streams_n, &array);
    for (size_t i = 0; i < p->batch->streams_n; i++)
        hw_pg_array_put(&p->locks, p->batch->streams[i].name.s, p->batch->streams[i].name.len);
    if (p->locks.broken)
        return HOWDAH_NO_MEMORY;
    call->statement = HW_PG_LOCK_STREAMS;
    hw_pg_param_bin(call, p->locks.data, p->locks.len);
    return HOWDAH_OK;
}

/* The i-th statement of the pipeline: see pipeline_length(). */
static int make_call(void *ctx, size_t i, hw_pg_call *call)
{
    plan *p = ctx;

    if (p->begin && i-- == 0) {
        call->sql = "BEGIN ISOLATION LEVEL READ COMMITTED"; /* I5, also on the caller's session */
        return HOWDAH_OK;
    }
    if (p->batch->queue_up && i-- == 0)
        return call_of_locks(p, call);
    if (i < p->chunks_n)
        return call_of_chunk(p, i, call);
    assert(p->mark && i == p->chunks_n);
    call->statement = HW_PG_IMPORT_PLACE;
    hw_pg_param_str(call, p->mark->source);
    hw_pg_param_str(call, p->mark->created_at);
    hw_pg_param_str(call, p->mark->id);
    hw_pg_param_int8(call, p->mark->rows);
    hw_pg_param_int8(call, p->mark->before);
    return HOWDAH_OK;
}

/* False: a chunk stored nothing, because an expectation is unmet. */
static bool collect_positions(plan *p, PGresult *const *results, howdah_position *positions)
{
    size_t skip = (size_t)p->begin + (size_t)p->batch->queue_up;

    for (size_t i = 0; i < p->chunks_n; i++) {
        const chunk *c = &p->chunks[i];

        if (!results[skip + i] || !take_positions(results[skip + i], c->n, positions + c->first))
            return false;
        p->mark_seen = get_mark(results[skip + i]);
    }
    return true;
}

/* hw_pg_prepare() waits for its answer, which cannot be done inside a pipeline. */
static int prepare_all(hw_pg *pg, const plan *p, howdah_error *reterr)
{
    int s = hw_pg_prepare(pg, HW_PG_APPEND_BATCH, reterr);

    if (s >= 0 && p->batch->queue_up)
        s = hw_pg_prepare(pg, HW_PG_LOCK_STREAMS, reterr);
    if (s >= 0 && p->mark)
        s = hw_pg_prepare(pg, HW_PG_IMPORT_PLACE, reterr);
    return s;
}

/*
 * The only statement of the transaction with an unknown outcome (exec.c I2).  COMMIT answers
 * ROLLBACK when the transaction had failed.
 */
static int commit(hw_pg *pg, howdah_error *reterr)
{
    hw_pg_call call = {.statement = -1, .sql = "COMMIT", .writes = true};
    PGresult *result = NULL;
    int s = hw_pg_exec(pg, &call, &result, reterr);

    if (s >= 0 && strcmp(PQcmdStatus(result), "COMMIT") != 0)
        s = hw_fail(reterr, HOWDAH_UNAVAILABLE, "PostgreSQL rolled the transaction back");
    PQclear(result);
    return s;
}

/*
 * The place is not stored when the batches before this one are not there: the server was replaced
 * by one that lacks the last of them.  Behind a pooler, or after a reconnect, nobody has told us.
 */
static int check_mark(const plan *p, PGresult *const *results, howdah_error *reterr)
{
    int s;

    if (!p->mark || strcmp(PQcmdTuples(results[pipeline_length(p) - 1]), "0") != 0)
        return HOWDAH_OK;
    s = hw_fail(
        reterr, HOWDAH_FAILED,
        "the store does not have the %lld rows that were imported before: it is another one "
        "now, or was restored to an earlier state",
        (long long)p->mark->before);
    return hw_advise(reterr, s, "import again: it continues after the last row that is stored");
}

/* The statements in one pipeline; the transaction around them is the caller's business. */
static int run_pipeline(hw_pg *pg, plan *p, howdah_position *positions, hw_append_report *report,
                        howdah_error *reterr)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    size_t n = pipeline_length(p);
    PGresult **results = hw_calloc(n, sizeof *results);
    int s;

    if (!results)
        return hw_fail_no_memory(reterr);
    s = hw_pg_pipeline(pg, make_call, p, n, results, &err);
    if (s >= 0) {
        report->stream_no = SIZE_MAX;
        report->outcome =
            collect_positions(p, results, positions) ? HW_APPEND_STORED : HW_APPEND_UNEXPECTED;
        s = check_mark(p, results, &err);
    }
    for (size_t i = 0; i < n; i++)
        PQclear(results[i]);
    hw_free(results);
    return judge(pg, s, &err, report, reterr);
}

/*
 * The pipeline brings BEGIN along; COMMIT is a round trip of its own, because it must not be
 * sent before all chunks are known to be stored.  Whatever fails ends in a ROLLBACK, or in a
 * new session.
 */
static int try_transaction(hw_pg *pg, plan *p, howdah_position *positions, hw_append_report *report,
                           howdah_error *reterr)
{
    int s = prepare_all(pg, p, reterr);

    if (s < 0)
        return s;
    p->begin = true;
    s = run_pipeline(pg, p, positions, report, reterr);
    if (s >= 0 && report->outcome == HW_APPEND_STORED)
        s = commit(pg, reterr);
    else if (pg->conn)
        (void)hw_pg_command(pg, "ROLLBACK", NULL);
    hw_pg_abandon(pg);
    if (s >= 0 && report->outcome == HW_APPEND_STORED)
        hw_pg_bell_after(pg, p->mark_seen, p->batch->events, p->batch->n);
    return s;
}

/*
 * Repeats once when a pooler turned out not to keep prepared statements: the transaction was
 * rolled back, and the plan starts anew.
 */
static int append_transaction(hw_pg *pg, plan *p, howdah_position *positions,
                              hw_append_report *report, howdah_error *reterr)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    int s = try_transaction(pg, p, positions, report, &err);

    if (s < 0 && pg->conn && hw_pg_go_unprepared(pg, &err)) {
        memset(p->stamp, 0, p->batch->streams_n * sizeof *p->stamp);
        s = try_transaction(pg, p, positions, report, &err);
    }
    if (s < 0)
        hw_error_copy(reterr, &err);
    return s;
}

/* ----------------------------------------------- in the caller's transaction */

/* Whether this transaction's snapshot shows any of the batch's ids. */
static int is_any_visible(hw_pg *pg, const hw_batch *batch, bool *ret_visible, howdah_error *reterr)
{
    hw_pg_call call = {.statement = HW_PG_READ_IDS};
    arrays a = {.out = &pg->params};
    PGresult *result = NULL;
    int s;

    hw_buf_clear(a.out);
    put_ids(&a, batch->events, batch->n);
    s = hw_buf_check(a.out, reterr);
    if (s < 0)
        return s;
    params_of_arrays(&call, &a);
    hw_pg_param_int4(&call, 0); /* whether it is there, not what it says */
    s = hw_pg_exec(pg, &call, &result, reterr);
    if (s >= 0)
        *ret_visible = PQntuples(result) > 0;
    PQclear(result);
    return s;
}

/*
 * I5: whether looking again can help.  Above READ COMMITTED the event that took our version, or
 * our id, stays invisible for this transaction: that is a serialization failure, and the
 * caller's to repeat.  An id that is visible is an ordinary repeat.
 */
static int check_snapshot(hw_pg *pg, const hw_batch *batch, const hw_append_report *report,
                          howdah_error *reterr)
{
    hw_pg_call call = {.statement = -1, .sql = "SHOW transaction_isolation"};
    PGresult *result = NULL;
    bool visible = false;
    int s = hw_pg_exec(pg, &call, &result, reterr);

    if (s >= 0)
        visible = strncmp(PQgetvalue(result, 0, 0), "read ", 5) == 0;
    PQclear(result);
    if (s >= 0 && !visible && report->outcome == HW_APPEND_ID_TAKEN)
        s = is_any_visible(pg, batch, &visible, reterr);
    if (s < 0 || visible)
        return s;
    s = hw_fail(reterr, HOWDAH_UNAVAILABLE,
                "another transaction has appended these events, or to their stream, since this "
                "one began");
    if (reterr)
        (void)strcpy(reterr->sqlstate, "40001");
    return hw_advise(reterr, s, "roll back and repeat the transaction, or use READ COMMITTED");
}

/*
 * Keeps what was done since the savepoint, or undoes it.  The first failure is the one
 * reported; when the connection is gone, so is the savepoint.
 */
static int leave_savepoint(hw_pg *pg, int s, bool keep, howdah_error *reterr)
{
    int left;

    if (PQtransactionStatus(pg->conn) == PQTRANS_UNKNOWN)
        return s;
    left = hw_pg_command(pg,
                         keep ? "RELEASE SAVEPOINT howdah_append"
                              : "ROLLBACK TO SAVEPOINT howdah_append;"
                                "RELEASE SAVEPOINT howdah_append",
                         s < 0 ? NULL : reterr);
    return s < 0 ? s : left < 0 ? left : s;
}

/* I3: inside the caller's transaction, whose isolation level counts (I5). */
static int append_in_savepoint(hw_pg *pg, plan *p, howdah_position *positions,
                               hw_append_report *report, howdah_error *reterr)
{
    int s = hw_pg_command(pg, "SAVEPOINT howdah_append", reterr);

    assert(pg->caller_owned && !p->begin);
    if (s < 0)
        return s;
    s = run_pipeline(pg, p, positions, report, reterr);
    s = leave_savepoint(pg, s, s >= 0 && report->outcome == HW_APPEND_STORED, reterr);
    if (s >= 0 &&
        (report->outcome == HW_APPEND_ID_TAKEN || report->outcome == HW_APPEND_VERSION_TAKEN))
        s = check_snapshot(pg, p->batch, report, reterr);
    if (s >= 0 && report->outcome == HW_APPEND_STORED)
        hw_pg_bell_after(pg, p->mark_seen, p->batch->events, p->batch->n);
    return s;
}

/* ---------------------------------------------------- without table rights */

/*
 * A lost race is repeated in here: a role that may only publish could not look up what
 * happened.  In the caller's transaction the error has to be undone first, and the caller
 * decides whether to repeat.
 */
static int call_append_function(hw_pg *pg, const hw_pg_call *call, PGresult **ret_result,
                                howdah_error *reterr)
{
    for (int attempt = 1;; attempt++) {
        howdah_error err = HOWDAH_ERROR_INIT;
        int s = hw_pg_exec(pg, call, ret_result, &err);

        if (s >= 0 || pg->caller_owned || !is_serialization_failure(&err) ||
            attempt == FUNCTION_ATTEMPTS) {
            if (s < 0)
                hw_error_copy(reterr, &err);
            return s;
        }
    }
}

/*
 * I4: the function judges expectations and repeated ids itself, so its outcome is STORED or an
 * error.  A stream's expectation goes with its first event only.
 */
static int append_by_function(hw_pg *pg, const hw_batch *batch, bool inside,
                              howdah_position *positions, hw_append_report *report,
                              howdah_error *reterr)
{
    arrays a = {.out = &pg->params};
    hw_pg_call call = {.statement = HW_PG_APPEND_FUNCTION, .writes = !inside};
    hw_pg_array array;
    PGresult *result = NULL;
    int s;

    hw_buf_clear(a.out);
    put_events(&a, batch->events, batch->n);
    begin_array(&a, HW_OID_INT8, batch->n, &array);
    for (size_t i = 0; i < batch->n; i++)
        hw_pg_array_put_int8(a.out, batch->nth[i] == 1
                                        ? batch->streams[batch->stream_no[i]].expected
                                        : HOWDAH_EXPECT_ANY);
    end_array(&a);
    s = hw_buf_check(a.out, reterr);
    if (s < 0)
        return s;
    params_of_arrays(&call, &a);
    s = inside ? hw_pg_command(pg, "SAVEPOINT howdah_append", reterr) : HOWDAH_OK;
    if (s < 0)
        return s;
    s = call_append_function(pg, &call, &result, reterr);
    if (inside)
        s = leave_savepoint(pg, s, s >= 0, reterr);
    if (s >= 0) {
        report->outcome = HW_APPEND_STORED;
        if (!take_positions(result, batch->n, positions))
            s = hw_fail(reterr, HOWDAH_FAILED, "append_arrays() answered %d rows for %zu events",
                        PQntuples(result), batch->n);
        for (size_t i = 0; s >= 0 && i < batch->n; i++)
            positions[i].already_stored = *PQgetvalue(result, (int)i, 3) != 0;
    }
    PQclear(result);
    return s;
}

/* ------------------------------------------------------------ a correction */

/* $1 to $12 of append_correction(); the rest comes from the event that is corrected. */
static void params_of_correction(hw_pg_call *call, const howdah_event *e)
{
    bool json = !e->content_type.s;

    hw_pg_param_uuid(call, true, &e->corrects);
    hw_pg_param_uuid(call, true, &e->id);
    hw_pg_param_str(call, json ? e->data : HW_STR_NULL);
    hw_pg_param_str(call, e->headers);
    hw_pg_param_str(call, e->actor);
    hw_pg_param_time(call, e->valid_time_us);
    hw_pg_param_int4(call, e->schema_version);
    hw_pg_param_str(call, json ? HW_STR_NULL : e->data);
    hw_pg_param_str(call, e->content_type);
    hw_pg_param_str(call, e->reason);
    hw_pg_param_bool(call, e->retracts);
    hw_pg_param_bool(call, e->purged);
}

/*
 * No row: what it corrects is not the newest of its family.  A row that was there before is a
 * repeated id, which the bus compares field by field.
 */
static void take_correction(hw_pg *pg, const PGresult *result, const hw_batch *batch,
                            howdah_position *position, hw_append_report *report)
{
    report->stream_no = SIZE_MAX;
    report->outcome = PQntuples(result) == 1 ? HW_APPEND_STORED : HW_APPEND_REVISION_TAKEN;
    if (report->outcome != HW_APPEND_STORED)
        return;
    fill_position(result, 0, position);
    position->revision = hw_pg_get_int4(result, 0, 4);
    if (hw_pg_get_bool(result, 0, 5)) {
        report->outcome = HW_APPEND_ID_TAKEN;
        return;
    }
    hw_pg_know(pg, batch->streams[0].name, position->version);
    hw_pg_bell_after(pg, get_mark(result), batch->events, 1);
}

/* I8.  The function raises ID_REUSED for an id that belongs to another event. */
static int append_correction(hw_pg *pg, const hw_batch *batch, bool inside,
                             howdah_position *position, hw_append_report *report,
                             howdah_error *reterr)
{
    hw_pg_call call = {.statement = HW_PG_APPEND_CORRECTION, .writes = !inside};
    howdah_error err = HOWDAH_ERROR_INIT;
    PGresult *result = NULL;
    int s = inside ? hw_pg_command(pg, "SAVEPOINT howdah_append", reterr) : HOWDAH_OK;

    assert(batch->n == 1 && batch->events[0]->has_corrects);
    if (s < 0)
        return s;
    params_of_correction(&call, batch->events[0]);
    s = call_append_function(pg, &call, &result, &err);
    if (inside)
        s = leave_savepoint(pg, s, s >= 0, &err);
    if (s >= 0) {
        take_correction(pg, result, batch, position, report);
    } else if (s == HOWDAH_ID_REUSED) {
        report->outcome = HW_APPEND_ID_TAKEN; /* whether it is the same is the caller's to say */
        s = HOWDAH_OK;
    } else {
        hw_error_copy(reterr, &err);
    }
    PQclear(result);
    return s;
}

/*
 * Chooses the cheapest way that is allowed: one statement, one chunk, or a transaction (I2).
 * An import needs the place in its own transaction, so it goes by the table even without
 * direct_append, and is refused by the server there.
 */
static int append_now(hw_pg *pg, const hw_batch *batch, const hw_import_place *mark,
                      howdah_position *ret_positions, hw_append_report *report,
                      howdah_error *reterr)
{
    bool inside = pg->caller_owned && PQtransactionStatus(pg->conn) == PQTRANS_INTRANS;
    plan p;
    int s = hw_pg_ready(pg, reterr);

    if (s >= 0)
        s = hw_pg_check_sequence(pg, reterr);
    if (s < 0)
        return s;
    if (batch->n == 1 && batch->events[0]->has_corrects)
        return append_correction(pg, batch, inside, ret_positions, report, reterr);
    if (!pg->direct_append && batch->combined) { /* I4: it recognises ids and forgives by batch */
        report->outcome = HW_APPEND_NOT_COMBINED;
        return HOWDAH_OK;
    }
    if (!pg->direct_append && !mark)
        return append_by_function(pg, batch, inside, ret_positions, report, reterr);
    if (batch->n == 1 && !mark && !batch->queue_up && !inside)
        return append_one(pg, batch, ret_positions, report, reterr);
    s = plan_init(&p, pg, batch, mark, reterr);
    if (s >= 0 && inside)
        s = append_in_savepoint(pg, &p, ret_positions, report, reterr);
    else if (s >= 0 && p.chunks_n == 1 && !mark && !batch->queue_up)
        s = append_chunk(pg, &p, ret_positions, report, reterr);
    else if (s >= 0)
        s = append_transaction(pg, &p, ret_positions, report, reterr);
    plan_done(&p);
    return s;
}

/*
 * A server that takes no writes has stored nothing, and its connection was dropped: the second
 * attempt connects anew and waits for one that does.
 */
int hw_pg_append(hw_store *store, const hw_batch *batch, const hw_import_place *mark,
                 howdah_position *ret_positions, hw_append_report *report, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    howdah_error err = HOWDAH_ERROR_INIT;
    bool there = pg->conn != NULL;
    int s = append_now(pg, batch, mark, ret_positions, report, &err);

    if (s == HOWDAH_READ_ONLY && there && !pg->conn)
        s = append_now(pg, batch, mark, ret_positions, report, &err);
    if (s < 0)
        hw_error_copy(reterr, &err);
    return s;
}
