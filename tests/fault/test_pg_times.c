/*
 * test_pg_times.c - two times in the PostgreSQL store: corrections, also in the caller's
 * transaction; pages of queries in every order; what an answer is worth while others write;
 * what a purge leaves of copies that are stored behind it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "engine/batch.h"
#include "engine/pattern.h"
#include "store/pg/pg.h"
#include "test_pg_help.h"

#define S(text) hw_str_of(text)

static howdah_event correction(const howdah_event *old, int no, const char *json)
{
    howdah_event e;

    hw_event_init(&e);
    e.id = old->id;
    e.id.b[1] = (unsigned char)no;
    e.stream = old->stream;
    e.type = old->type;
    e.data = S(json);
    e.valid_time_us = old->valid_time_us;
    e.has_corrects = true;
    e.corrects = old->id;
    e.has_family = true;
    e.family = old->has_family ? old->family : old->id;
    e.revision = old->revision + 1;
    e.reason = S("typing error");
    return e;
}

static hw_append_outcome try_append(hw_store *store, const howdah_event *event,
                                    howdah_position *position)
{
    hw_append_report report = {0};
    hw_batch batch;

    pgt_ok(hw_batch_init(&batch, &event, 1, HOWDAH_EXPECT_ANY, &pgt_error));
    pgt_ok(store->ops->append(store, &batch, NULL, position, &report, &pgt_error));
    hw_batch_done(&batch);
    return report.outcome;
}

/* The event with this sequence, as the store reads it; freed with hw_event_free(). */
static howdah_event *read_event(hw_store *store, int64_t sequence)
{
    const hw_query query = {.from = sequence, .to = sequence};
    hw_cursor *cursor = NULL;
    const howdah_event *events = NULL;
    howdah_event *copy = NULL;
    size_t n = 0;

    pgt_ok(store->ops->read_open(store, &query, &cursor, &pgt_error));
    pgt_ok(store->ops->read_next(cursor, &events, &n, &pgt_error));
    assert_int_equal(n, 1);
    pgt_ok(hw_event_clone(events, &copy, &pgt_error));
    store->ops->read_close(cursor);
    return copy;
}

/* ---- corrections */

static void a_correction_is_the_next_revision_or_nothing(void **state)
{
    pgt *t = *state;
    hw_store *store = pgt_store(t, NULL);
    howdah_position p = pgt_append(t->bus, "s");
    howdah_event *first = read_event(store, p.global_sequence);
    howdah_event e = correction(first, 1, "{\"n\":2}");
    howdah_event other = correction(first, 2, "{\"n\":3}");
    howdah_event *stored;

    pgt_run(t, t->admin, "%s",
            "SELECT setval(b.oid::regclass, 1) FROM pg_class AS b WHERE b.relname = 'bell'"
            " AND b.relnamespace = (SELECT c.relnamespace FROM pg_class AS c"
            "  WHERE c.oid = (SELECT e.tableoid FROM {events} AS e LIMIT 1))");
    assert_int_equal(try_append(store, &e, &p), HW_APPEND_STORED);
    pgt_wait_for(t, t->admin, 0, "SELECT last_value FROM {bell}"); /* the sleepers are woken */
    assert_int_equal(p.revision, 2);
    assert_int_equal(p.version, 2);
    assert_int_equal(p.already_stored, 0);
    assert_true(p.recorded_at_us > first->recorded_at_us);
    /* It is not the newest any more. */
    assert_int_equal(try_append(store, &other, &p), HW_APPEND_REVISION_TAKEN);
    /* The same again, and another one of the same id. */
    assert_int_equal(try_append(store, &e, &p), HW_APPEND_ID_TAKEN);
    e.data = S("{\"n\":4}");
    assert_int_equal(try_append(store, &e, &p), HW_APPEND_ID_TAKEN);

    stored = read_event(store, p.global_sequence);
    assert_true(stored->has_corrects && stored->has_family && !stored->retracts);
    assert_memory_equal(stored->corrects.b, first->id.b, sizeof first->id.b);
    assert_true(hw_str_equal(stored->reason, S("typing error")));
    other = correction(stored, 3, "null");
    other.retracts = true;
    assert_int_equal(try_append(store, &other, &p), HW_APPEND_STORED);
    assert_int_equal(p.revision, 3);
    hw_event_free(stored);
    stored = read_event(store, p.global_sequence);
    assert_true(stored->retracts && !stored->purged);
    hw_event_free(stored);
    hw_event_free(first);
    pgt_store_close(store);
}

static void a_correction_belongs_to_the_caller_s_transaction(void **state)
{
    pgt *t = *state;
    hw_store *own = pgt_store(t, NULL);
    PGconn *conn = pgt_session(t->url);
    hw_store *store = NULL;
    howdah_position p = pgt_append(t->bus, "s");
    howdah_event *first = read_event(own, p.global_sequence);
    howdah_event e = correction(first, 1, "{}");
    howdah_event bad = correction(first, 2, "{}");

    pgt_run(t, conn, "BEGIN");
    pgt_ok(hw_pg_wrap(conn, t->schema, &store, &pgt_error));
    assert_int_equal(try_append(store, &e, &p), HW_APPEND_STORED);
    assert_int_equal(try_append(store, &bad, &p), HW_APPEND_REVISION_TAKEN);
    e.data = S("1");
    assert_int_equal(try_append(store, &e, &p), HW_APPEND_ID_TAKEN);
    assert_int_equal(PQtransactionStatus(conn), PQTRANS_INTRANS);
    assert_int_equal(pgt_count(t), 1);
    pgt_run(t, conn, "ROLLBACK");
    assert_int_equal(pgt_count(t), 1);

    pgt_run(t, conn, "BEGIN");
    assert_int_equal(try_append(store, &bad, &p), HW_APPEND_STORED);
    assert_int_equal(p.revision, 2);
    pgt_run(t, conn, "COMMIT");
    assert_int_equal(pgt_count(t), 2);
    pgt_store_close(store);
    PQfinish(conn);
    hw_event_free(first);
    pgt_store_close(own);
}

/* ---- queries */

/* Sequences as the cursor gives them, joined by commas; n 0: only counted. */
static char *sequences(hw_store *store, const hw_times_query *query, size_t *ret_n)
{
    char *text = calloc(1, 1 << 20);
    hw_cursor *cursor = NULL;
    const howdah_event *events = NULL;
    size_t len = 0;
    size_t n = 0;
    int s;

    *ret_n = 0;
    pgt_ok(store->ops->times->query_open(store, query, &cursor, &pgt_error));
    while ((s = store->ops->read_next(cursor, &events, &n, &pgt_error)) == HOWDAH_OK) {
        for (size_t i = 0; i < n && len < (1 << 20) - 32; i++)
            len += (size_t)sprintf(text + len, "%s%lld", len > 0 ? "," : "",
                                   (long long)events[i].global_sequence);
        *ret_n += n;
    }
    pgt_ok(s);
    store->ops->read_close(cursor);
    return text;
}

static void same(const pgt *t, hw_store *store, const hw_times_query *query, const char *truth)
{
    size_t n = 0;
    int64_t count = 0;
    char *found = sequences(store, query, &n);
    PGresult *r = pgt_result(t, t->admin,
                             "SELECT coalesce(string_agg(s::text, ',' ORDER BY n), '')"
                             " FROM (SELECT global_sequence, row_number() OVER () FROM (%s) AS x)"
                             " AS y(s, n)",
                             truth);

    assert_string_equal(PQresultErrorMessage(r), "");
    assert_string_equal(found, PQgetvalue(r, 0, 0));
    PQclear(r);
    free(found);
    if (query->limit == 0) {
        pgt_ok(store->ops->times->count(store, query, &count, &pgt_error));
        assert_int_equal(count, n);
    }
}

#define CURRENT                                                                                    \
    "NOT EXISTS (SELECT FROM {events} AS n WHERE n.family = e.family"                              \
    " AND n.revision = e.revision + 1)"

static void fill(const pgt *t, int events)
{
    pgt_run(t, t->admin,
            "INSERT INTO {events} (stream, version, type, data, valid_time, correlation_id)"
            " SELECT 's' || i %% 3, 1 + i / 3, 'a.t' || i %% 5, '{}',"
            "  CASE WHEN i %% 2 = 0 THEN '2020-01-01'::timestamptz + i * 7919 %% 1000"
            "   * interval '1 minute' END, 'c' FROM generate_series(0, %d) AS i",
            events - 1);
    pgt_run(t, t->admin,
            "INSERT INTO {events} (stream, version, type, data, valid_time, correlation_id, family,"
            "  corrects, revision, reason, retracts)"
            " SELECT e.stream, 1000000 + e.version, e.type, 'null', e.recorded_at, 'c', e.id, e.id,"
            "  2, 'r', CASE WHEN e.global_sequence %% 14 = 0 THEN true END"
            " FROM {events} AS e WHERE e.global_sequence %% 7 = 0 ORDER BY e.global_sequence");
}

static void pages_come_in_every_order(void **state)
{
    pgt *t = *state;
    hw_store *store = pgt_store(t, NULL);
    static const char *const order[] = {"global_sequence",
                                        "valid_time, global_sequence",
                                        "recorded_at, global_sequence",
                                        "global_sequence DESC",
                                        "valid_time DESC, global_sequence DESC",
                                        "recorded_at DESC, global_sequence DESC"};
    static const struct {
        const char *stream;
        const char *type;
        const char *pattern;
        const char *where;
    } filters[] = {{NULL, NULL, NULL, "true"},
                   {"s1", NULL, NULL, "stream = 's1'"},
                   {NULL, "a.t2", NULL, "type = 'a.t2'"},
                   {NULL, NULL, "a.t3", "type = 'a.t3'"},
                   {"s2", NULL, "a.*", "stream = 's2'"}};

    fill(t, 600);
    for (int i = 0; i < 3 * 2 * 5; i++) {
        hw_times_query q = HW_TIMES_QUERY_INIT;
        char truth[1024];

        q.view = HOWDAH_VIEW_AS_OF;
        q.order = (howdah_order)(i % 3);
        q.backward = i / 3 % 2 == 1;
        q.batch = 17;
        q.limit = i % 4 == 0 ? 50 : 0;
        if (filters[i / 6].stream)
            q.stream = S(filters[i / 6].stream);
        if (filters[i / 6].type)
            q.type = S(filters[i / 6].type);
        if (filters[i / 6].pattern)
            q.pattern = S(filters[i / 6].pattern);
        hw_pattern_to_type(&q.type, &q.pattern);
        (void)snprintf(truth, sizeof truth,
                       "SELECT global_sequence FROM {all_events} AS e WHERE " CURRENT
                       " AND NOT retracts AND %s ORDER BY %s LIMIT %s",
                       filters[i / 6].where, order[i % 6], q.limit > 0 ? "50" : "NULL");
        same(t, store, &q, truth);
    }
    pgt_store_close(store);
}

static void filters_of_every_kind_are_joined(void **state)
{
    pgt *t = *state;
    hw_store *store = pgt_store(t, NULL);
    hw_times_query q = HW_TIMES_QUERY_INIT;
    hw_uuid families[2];
    const hw_header_is headers[] = {{S("a"), S("1")}, {S("b"), S("x")}};

    fill(t, 100);
    pgt_run(
        t, t->admin,
        "UPDATE {events} SET headers = '{\"b\":\"x\",\"a\":\"1\"}' WHERE global_sequence %% 4 = 0;"
        "UPDATE {events} SET causation_id = '00000000-0000-7000-8000-000000000001'"
        " WHERE global_sequence %% 3 = 0");
    q.batch = 10;
    q.headers = headers;
    q.headers_n = 2;
    same(t, store, &q, "SELECT * FROM {events} WHERE global_sequence % 4 = 0 ORDER BY 1");
    q.has_causation = true;
    assert_true(hw_uuid_parse("00000000-0000-7000-8000-000000000001", 36, &q.causation_id));
    q.correlation_id = S("c");
    same(t, store, &q, "SELECT * FROM {events} WHERE global_sequence % 12 = 0 ORDER BY 1");
    q = (hw_times_query)HW_TIMES_QUERY_INIT;
    q.view = HOWDAH_VIEW_ORIGINALS;
    q.valid.from = INT64_C(1577836800000000); /* 2020-01-01 */
    q.valid.before = q.valid.from + INT64_C(300) * 60 * 1000000;
    same(t, store, &q,
         "SELECT * FROM {events} WHERE revision = 1 AND valid_time >= '2020-01-01Z'"
         " AND valid_time < '2020-01-01T05:00Z' ORDER BY 1");
    q = (hw_times_query)HW_TIMES_QUERY_INIT;
    q.families = families;
    q.families_n = 2;
    assert_true(
        hw_uuid_parse(pgt_text(t, t->admin, "SELECT id FROM {events} WHERE global_sequence = 7"),
                      36, &families[0]));
    assert_true(
        hw_uuid_parse(pgt_text(t, t->admin, "SELECT id FROM {events} WHERE global_sequence = 8"),
                      36, &families[1]));
    q.backward = true;
    same(t, store, &q,
         "SELECT * FROM {all_events} WHERE family IN (SELECT id FROM {events} WHERE global_sequence"
         " IN (7, 8)) ORDER BY global_sequence DESC");
    q.view = HOWDAH_VIEW_AS_OF;
    q.retractions = true;
    q.order = HOWDAH_ORDER_VALID;
    same(t, store, &q,
         "SELECT * FROM {all_events} AS e WHERE " CURRENT " AND family IN (SELECT id FROM {events}"
         " WHERE global_sequence IN (7, 8)) ORDER BY valid_time DESC, global_sequence DESC");
    pgt_store_close(store);
}

/* More than one statement of keys. */
static void many_rows_come_in_the_order_of_a_time(void **state)
{
    pgt *t = *state;
    hw_store *store = pgt_store(t, NULL);
    hw_times_query q = HW_TIMES_QUERY_INIT;
    const howdah_event *events = NULL;
    hw_cursor *cursor = NULL;
    int64_t at = INT64_MIN;
    int64_t sequence = 0;
    size_t total = 0;
    size_t n = 0;
    int s;

    fill(t, 60000);
    q.order = HOWDAH_ORDER_VALID;
    q.batch = 5000;
    pgt_ok(store->ops->times->query_open(store, &q, &cursor, &pgt_error));
    while ((s = store->ops->read_next(cursor, &events, &n, &pgt_error)) == HOWDAH_OK)
        for (size_t i = 0; i < n; i++, total++) {
            assert_true(events[i].valid_time_us > at ||
                        (events[i].valid_time_us == at && events[i].global_sequence > sequence));
            at = events[i].valid_time_us;
            sequence = events[i].global_sequence;
        }
    pgt_ok(s);
    assert_int_equal(total, 60000 + 60000 / 7);
    store->ops->read_close(cursor);
    pgt_store_close(store);
}

typedef struct walk {
    char text[512];
    int stop_after;
} walk;

static int keep_type(void *ctx, const howdah_type_stats *stats)
{
    walk *w = ctx;
    size_t len = strlen(w->text);

    (void)snprintf(w->text + len, sizeof w->text - len, "%s:%lld/%lld/%lld/%lld ", stats->type,
                   (long long)stats->events, (long long)stats->corrections,
                   (long long)stats->retractions, (long long)stats->streams);
    assert_true(stats->first_valid_us <= stats->last_valid_us);
    assert_true(stats->first_recorded_us <= stats->last_recorded_us);
    return --w->stop_after == 0;
}

static int keep_stream(void *ctx, hw_str stream)
{
    walk *w = ctx;
    size_t len = strlen(w->text);

    (void)snprintf(w->text + len, sizeof w->text - len, "%.*s ", (int)stream.len, stream.s);
    return --w->stop_after == 0;
}

static void types_and_streams_are_counted(void **state)
{
    pgt *t = *state;
    hw_store *store = pgt_store(t, NULL);
    const hw_times_ops *ops = store->ops->times;
    hw_times_query q = HW_TIMES_QUERY_INIT;
    walk w = {.stop_after = 0};

    pgt_run(t, t->admin,
            "SELECT {append}('x', 'b.c'), {append}('x', 'a.b'), {append}('y', 'a.b');"
            "SELECT {correct}(id, '1', reason => 'r') FROM {events} WHERE stream = 'y';"
            "SELECT {retract}(id, 'r') FROM {events} WHERE stream = 'x' AND type = 'b.c'");
    pgt_ok(ops->types(store, &q, keep_type, &w, &pgt_error));
    assert_string_equal(w.text, "a.b:3/1/0/2 b.c:2/1/1/1 ");
    w = (walk){.stop_after = 1};
    q.view = HOWDAH_VIEW_AS_OF;
    pgt_ok(ops->types(store, &q, keep_type, &w, &pgt_error));
    assert_string_equal(w.text, "a.b:2/1/0/2 ");
    w = (walk){.stop_after = 0};
    pgt_ok(ops->streams(store, &q, HW_STR_NULL, 10, keep_stream, &w, &pgt_error));
    assert_string_equal(w.text, "x y ");
    w = (walk){.stop_after = 0};
    pgt_ok(ops->streams(store, &q, S("x"), 10, keep_stream, &w, &pgt_error));
    assert_string_equal(w.text, "y ");
    q.type = S("b.c");
    w = (walk){.stop_after = 0};
    pgt_ok(ops->streams(store, &q, HW_STR_NULL, 10, keep_stream, &w, &pgt_error));
    assert_string_equal(w.text, "");
    q.view = HOWDAH_VIEW_LOG;
    pgt_ok(ops->streams(store, &q, HW_STR_NULL, 1, keep_stream, &w, &pgt_error));
    assert_string_equal(w.text, "x ");
    pgt_store_close(store);
}

static void logins_without_rights_on_tables_ask_through_functions(void **state)
{
    pgt *t = *state;
    hw_store *own = pgt_store(t, NULL);
    hw_store *store;
    hw_times_query q = HW_TIMES_QUERY_INIT;
    howdah_position p = pgt_append(t->bus, "x");
    howdah_event *first = read_event(own, p.global_sequence);
    howdah_event e = correction(first, 1, "{}");
    howdah_snapshot s = {
        .stream = "x", .version = 1, .data = "1", .data_len = 1, .schema_version = 1};
    hw_purge purge = {.stream = S("x"), .reason = S("law")};
    howdah_knowledge k = HOWDAH_KNOWLEDGE_INIT;
    howdah_purge_record record = HOWDAH_PURGE_RECORD_INIT;
    char login[64];
    char url[1024];

    fill(t, 100);
    (void)snprintf(login, sizeof login, "times_%d", (int)getpid());
    pgt_run(t, t->admin, "CREATE ROLE %s LOGIN", login);
    pgt_run(t, t->admin, "GRANT {_publish}, {_read} TO %s", login);
    (void)snprintf(url, sizeof url, "postgres://%s@/%s?host=%s&port=%s", login, PQdb(t->admin),
                   PQhost(t->admin), PQport(t->admin));
    store = pgt_store(t, url);
    assert_int_equal(try_append(store, &e, &p), HW_APPEND_STORED);
    assert_int_equal(p.revision, 2);
    assert_int_equal(try_append(store, &e, &p), HW_APPEND_ID_TAKEN);
    q.view = HOWDAH_VIEW_AS_OF;
    q.batch = 7;
    same(t, store, &q,
         "SELECT * FROM {all_events} AS e WHERE " CURRENT " AND NOT retracts ORDER BY 1");
    q.order = HOWDAH_ORDER_VALID;
    same(t, store, &q,
         "SELECT * FROM {all_events} AS e WHERE " CURRENT
         " AND NOT retracts ORDER BY valid_time, global_sequence");
    pgt_ok(store->ops->times->knowledge(store, first->recorded_at_us, &k, &pgt_error));
    assert_true(k.final);
    pgt_ok(store->ops->times->snapshot_put(store, &s, 0, &pgt_error));
    assert_int_equal(store->ops->times->purge(store, &purge, &record, &pgt_error), HOWDAH_DENIED);
    pgt_store_close(store);
    pgt_run(t, t->admin, "DROP OWNED BY %s", login);
    pgt_run(t, t->admin, "DROP ROLE %s", login);
    hw_event_free(first);
    pgt_store_close(own);
}

/* ---- what an answer is worth */

static howdah_knowledge ask(hw_store *store, int64_t known_at)
{
    howdah_knowledge k = HOWDAH_KNOWLEDGE_INIT;

    pgt_ok(store->ops->times->knowledge(store, known_at, &k, &pgt_error));
    assert_true(k.known_at_us == known_at);
    return k;
}

static void an_answer_is_final_when_slow_writers_are_gone(void **state)
{
    pgt *t = *state;
    hw_store *store = pgt_store(t, NULL);
    PGconn *writer = pgt_session(t->url);
    hw_times_query q = HW_TIMES_QUERY_INIT;
    static const char *const begin[] = {"BEGIN", "BEGIN; SAVEPOINT a", "BEGIN"};
    static const char *const then[] = {"COMMIT", "RELEASE SAVEPOINT a; COMMIT",
                                       "PREPARE TRANSACTION 'slow'"};
    howdah_knowledge k = ask(store, HW_TIME_ABSENT);

    assert_false(k.final);
    assert_true(k.asked_at_us > 0);
    assert_false(ask(store, k.asked_at_us + INT64_C(3600000000)).final);
    q.view = HOWDAH_VIEW_AS_OF;
    for (int i = 0; i < 3; i++) {
        size_t n = 0;

        pgt_run(t, writer, "%s", begin[i]);
        pgt_run(t, writer, "SELECT {append}('slow', 't')");
        q.known_at = ask(store, HW_TIME_ABSENT).asked_at_us;
        k = ask(store, q.known_at);
        assert_false(k.final);
        assert_non_null(strstr(k.waits_for, "pid "));
        free(sequences(store, &q, &n));
        assert_int_equal(n, i);
        pgt_run(t, writer, "%s", then[i]);
        if (i == 2) {
            k = ask(store, q.known_at);
            assert_false(k.final);
            assert_non_null(strstr(k.waits_for, "prepared slow"));
            pgt_run(t, writer, "COMMIT PREPARED 'slow'");
        }
        k = ask(store, q.known_at);
        assert_true(k.final);
        assert_string_equal(k.waits_for, "");
        free(sequences(store, &q, &n));
        assert_int_equal(n, i + 1);
    }
    PQfinish(writer);
    pgt_store_close(store);
}

/* ---- pages, and a correction that is committed between two of them */

/* The sequences of a query's rows; "meanwhile" runs behind the first page. */
static char *sequences_while(const pgt *t, hw_store *store, const hw_times_query *query,
                             PGconn *writer, const char *meanwhile)
{
    char *text = calloc(1, 4096);
    hw_cursor *cursor = NULL;
    const howdah_event *events = NULL;
    size_t len = 0;
    size_t n = 0;
    int pages = 0;
    int s;

    pgt_ok(store->ops->times->query_open(store, query, &cursor, &pgt_error));
    while ((s = store->ops->read_next(cursor, &events, &n, &pgt_error)) == HOWDAH_OK) {
        for (size_t i = 0; i < n && len < 4000; i++)
            len += (size_t)sprintf(text + len, "%s%lld", len > 0 ? "," : "",
                                   (long long)events[i].global_sequence);
        if (pages++ == 0)
            pgt_run(t, writer, "%s", meanwhile);
    }
    pgt_ok(s);
    assert_true(pages > 1);
    store->ops->read_close(cursor);
    return text;
}

static const struct {
    const char *begin;
    const char *then;
    const char *end;
} slow_ways[] = {
    {"BEGIN", "SELECT 1", "COMMIT"},
    {"BEGIN; SAVEPOINT a", "RELEASE SAVEPOINT a", "COMMIT"},
    {"BEGIN", "PREPARE TRANSACTION 'late'", "COMMIT PREPARED 'late'"},
};

/* Facts of a stream, the first one about to be corrected; then a number above the correction's. */
static void correct_slowly(const pgt *t, PGconn *writer, int no)
{
    pgt_run(t, t->admin, "SELECT {append}('s%d', 't%d') FROM generate_series(1, 8)", no, no);
    if (no % 2 == 0) /* a subscription has proved it */
        pgt_run(t, t->admin,
                "UPDATE {proven} SET upto = (SELECT max(global_sequence) FROM {events})");
    pgt_run(t, writer, "%s", slow_ways[no % 3].begin);
    pgt_run(t, writer,
            "SELECT {correct}((SELECT id FROM {events} WHERE stream = 's%d' AND version = 1), '2',"
            " reason => 'late')",
            no);
    pgt_run(t, writer, "%s", slow_ways[no % 3].then);
    pgt_run(t, t->admin, "SELECT {append}('o%d', 't%d')", no, no);
}

static void a_correction_under_way_when_a_walk_begins_changes_nothing_of_it(void **state)
{
    pgt *t = *state;
    hw_store *store = pgt_store(t, NULL);
    PGconn *writer = pgt_session(t->url);

    for (int i = 0; i < 3 * 3 * 2 * 2; i++) {
        hw_times_query q = HW_TIMES_QUERY_INIT;
        char name[16];
        char where[64] = "true";
        char *wanted;
        char *found;

        correct_slowly(t, writer, i);
        (void)snprintf(name, sizeof name, i / 3 % 3 == 1 ? "s%d" : "t%d", i);
        if (i / 3 % 3 == 1)
            q.stream = S(name);
        else if (i / 3 % 3 == 2)
            q.type = S(name);
        if (i / 3 % 3 > 0)
            (void)snprintf(where, sizeof where, "'%s' IN (stream, type)", name);
        q.view = HOWDAH_VIEW_AS_OF;
        q.backward = i / 9 % 2 == 1;
        q.batch = 3;
        /* As we know now, or as we knew at a time to which the correction may still add. */
        if (i / 18 == 1)
            q.known_at = ask(store, HW_TIME_ABSENT).asked_at_us;
        wanted =
            strdup(pgt_text(t, t->admin,
                            "SELECT string_agg(global_sequence::text, ',' ORDER BY"
                            " global_sequence%s) FROM {all_events} AS e WHERE " CURRENT " AND %s",
                            q.backward ? " DESC" : "", where));
        found = sequences_while(t, store, &q, writer, slow_ways[i % 3].end);
        assert_string_equal(found, wanted);
        free(found);
        free(wanted);
    }
    PQfinish(writer);
    pgt_store_close(store);
}

/* ---- snapshots and purges */

static int keep_snapshot(void *ctx, const howdah_snapshot *s)
{
    walk *w = ctx;
    size_t len = strlen(w->text);

    (void)snprintf(w->text + len, sizeof w->text - len, "%s/%lld:%s:%zu:%s:%lld ", s->stream,
                   (long long)s->version, s->data ? s->data : "-", s->data_len,
                   s->content_type ? s->content_type : "-", (long long)s->schema_version);
    assert_true(s->taken_at_us > 0);
    return --w->stop_after == 0;
}

static void snapshots_are_kept_and_found(void **state)
{
    pgt *t = *state;
    hw_store *store = pgt_store(t, NULL);
    const hw_times_ops *ops = store->ops->times;
    howdah_snapshot s = {
        .stream = "s", .version = 1, .data = "{\"a\":1}", .data_len = 7, .schema_version = 2};
    walk w = {.stop_after = 0};
    int64_t removed = 0;

    assert_int_equal(ops->snapshot_put(store, &s, 0, &pgt_error), HOWDAH_NOT_FOUND);
    for (int i = 0; i < 3; i++)
        (void)pgt_append(t->bus, "s");
    pgt_ok(ops->snapshot_put(store, &s, 0, &pgt_error));
    s.version = 3;
    s.data = "abc";
    s.data_len = 3;
    s.content_type = "a/b";
    pgt_ok(ops->snapshot_put(store, &s, 5, &pgt_error));
    pgt_ok(ops->snapshot_get(store, S("s"), 2, keep_snapshot, &w, &pgt_error));
    assert_string_equal(w.text, "s/1:{\"a\":1}:7:-:2 ");
    w = (walk){.stop_after = 0};
    pgt_ok(ops->snapshot_get(store, S("s"), 0, keep_snapshot, &w, &pgt_error));
    assert_string_equal(w.text, "s/3:abc:3:a/b:2 ");
    assert_int_equal(ops->snapshot_get(store, S("x"), 0, keep_snapshot, &w, &pgt_error),
                     HOWDAH_END);
    w = (walk){.stop_after = 0};
    pgt_ok(ops->snapshot_list(store, HW_STR_NULL, keep_snapshot, &w, &pgt_error));
    assert_string_equal(w.text, "s/1:-:7:-:2 s/3:-:3:a/b:2 ");
    w = (walk){.stop_after = 1};
    pgt_ok(ops->snapshot_list(store, S("s"), keep_snapshot, &w, &pgt_error));
    assert_string_equal(w.text, "s/1:-:7:-:2 ");
    pgt_ok(ops->snapshot_remove(store, S("s"), 2, &removed, &pgt_error));
    assert_int_equal(removed, 1);
    s.version = 2;
    pgt_ok(ops->snapshot_put(store, &s, 1, &pgt_error));
    pgt_ok(ops->snapshot_remove(store, S("s"), 0, &removed, &pgt_error));
    assert_int_equal(removed, 1);
    pgt_store_close(store);
}

static int keep_purge(void *ctx, const howdah_purge_record *r)
{
    walk *w = ctx;
    size_t len = strlen(w->text);

    (void)snprintf(w->text + len, sizeof w->text - len, "%lld %s %s %s %lld %lld %lld %lld %lld;",
                   (long long)r->id, r->actor, r->reason, r->stream ? r->stream : "-",
                   (long long)r->events, (long long)r->dead_letters, (long long)r->snapshots,
                   (long long)r->jobs, (long long)r->left);
    assert_true(r->purged_at_us > 0);
    return --w->stop_after == 0;
}

static void purges_are_recorded(void **state)
{
    pgt *t = *state;
    hw_store *store = pgt_store(t, NULL);
    const hw_times_ops *ops = store->ops->times;
    howdah_position p = pgt_append(t->bus, "s");
    howdah_event *first = read_event(store, p.global_sequence);
    howdah_event e = correction(first, 1, "{}");
    hw_purge purge = {.ids = &first->id, .ids_n = 1, .reason = S("law"), .actor = S("ann")};
    howdah_purge_record record = HOWDAH_PURGE_RECORD_INIT;
    howdah_event *stored;
    walk w = {.stop_after = 0};

    assert_int_equal(try_append(store, &e, &p), HW_APPEND_STORED);
    pgt_ok(ops->purge(store, &purge, &record, &pgt_error));
    assert_int_equal(record.events, 1);
    assert_int_equal(record.left, 1);
    stored = read_event(store, first->global_sequence);
    assert_true(stored->purged && !stored->broken && !stored->headers.s);
    assert_true(hw_str_equal(stored->data, S("null")));
    hw_event_free(stored);
    pgt_ok(ops->purge(store, &purge, &record, &pgt_error));
    assert_int_equal(record.id, 0);
    purge = (hw_purge){.stream = S("s"), .reason = S("all")};
    pgt_ok(ops->purge(store, &purge, &record, &pgt_error));
    assert_int_equal(record.events, 1);
    purge.stream = S("nobody");
    assert_int_equal(ops->purge(store, &purge, &record, &pgt_error), HOWDAH_NOT_FOUND);
    pgt_ok(ops->purges(store, keep_purge, &w, &pgt_error));
    assert_non_null(strstr(w.text, " ann law - 1 0 0 0 1;"));
    assert_non_null(strstr(w.text, " postgres all s 1 0 0 0 0;"));
    w = (walk){.stop_after = 1};
    pgt_ok(ops->purges(store, keep_purge, &w, &pgt_error));
    assert_null(strstr(w.text, "all"));
    hw_event_free(first);
    pgt_store_close(store);
}

/* Somebody has read an event, and fails with it when it is purged already. */
static int keep_dead_letter(void *ctx, const howdah_dead_letter *dead_letter)
{
    walk *w = ctx;

    assert_int_equal(dead_letter->event->purged, true);
    (void)snprintf(w->text, sizeof w->text, "%s %s %s", dead_letter->event->data.s,
                   dead_letter->event->headers.s ? "headers" : "-",
                   dead_letter->error[0] ? dead_letter->error : "-");
    return 0;
}

static void a_dead_letter_of_a_purged_event_keeps_nothing_of_it(void **state)
{
    pgt *t = *state;
    hw_store *store = pgt_store(t, NULL);
    howdah_position p = pgt_append(t->bus, "s");
    howdah_event *read = read_event(store, p.global_sequence);
    hw_purge purge = {.stream = S("s"), .reason = S("law")};
    const hw_dead_letter_query all = {.resolved = true};
    hw_checkpoint checkpoint = {.subscriber_id = S("x"), .token = 7, .high = p.global_sequence};
    howdah_purge_record record = HOWDAH_PURGE_RECORD_INIT;
    walk w = {.stop_after = 0};

    pgt_run(t, t->admin,
            "INSERT INTO {subscriptions} (subscriber_id, high, token) VALUES ('x', 0, 7)");
    pgt_ok(store->ops->times->purge(store, &purge, &record, &pgt_error));
    pgt_ok(store->ops->subs->dead_letter(store, &checkpoint, read, S("it says secret"), 1, NULL,
                                         &pgt_error));
    pgt_ok(store->ops->subs->dead_letters(store, &all, keep_dead_letter, &w, &pgt_error));
    assert_string_equal(w.text, "null - -");
    /* Who knew that it was purged has nothing to tell. */
    read->purged = true;
    pgt_ok(
        store->ops->subs->dead_letter(store, &checkpoint, read, S("no data"), 1, NULL, &pgt_error));
    pgt_ok(store->ops->subs->dead_letters(store, &all, keep_dead_letter, &w, &pgt_error));
    assert_string_equal(w.text, "null - no data");
    hw_event_free(read);
    pgt_store_close(store);
}

static const struct CMUnitTest tests[] = {
    PGT_TEST(a_correction_is_the_next_revision_or_nothing),
    PGT_TEST(a_correction_belongs_to_the_caller_s_transaction),
    PGT_TEST(pages_come_in_every_order),
    PGT_TEST(filters_of_every_kind_are_joined),
    PGT_TEST(many_rows_come_in_the_order_of_a_time),
    PGT_TEST(types_and_streams_are_counted),
    PGT_TEST(logins_without_rights_on_tables_ask_through_functions),
    PGT_TEST(an_answer_is_final_when_slow_writers_are_gone),
    PGT_TEST(a_correction_under_way_when_a_walk_begins_changes_nothing_of_it),
    PGT_TEST(snapshots_are_kept_and_found),
    PGT_TEST(purges_are_recorded),
    PGT_TEST(a_dead_letter_of_a_purged_event_keeps_nothing_of_it),
};

PGT_MAIN("pg times", tests)
