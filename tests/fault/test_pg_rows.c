/*
 * test_pg_rows.c - events out of rows: every mixture of what an event can have and lack, read
 * tersely and column by column, and records that no server sends.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "store/pg/columns.h"
#include "store/pg/pg.h"
#include "test_pg_help.h"

/* What the event with number 1 + n has: a bit of n each. */
enum has {
    BYTES = 1,
    CONTENT_TYPE = 2,
    ACTOR = 4,
    VALID_TIME = 8,
    FAMILY = 16,
    REVISION = 32,
    CORRECTS = 64,
    REASON = 128,
    SCHEMA_VERSION = 256,
    RETRACTS = 512,
    PURGED = 1024,
    NO_DATA = 2048,
    MIXTURES = 4096
};

/* Past the library: some of them no writer of ours makes. */
static void fill(const pgt *t)
{
    pgt_run(t, t->admin,
            "INSERT INTO {events} (global_sequence, stream, version, type, recorded_at, bytes,"
            " content_type, actor, valid_time, family, revision, corrects, reason, schema_version,"
            " retracts, purge, data, headers, correlation_id, causation_id)"
            " SELECT n + 1, 's', n + 1, 't', '2021-01-01Z',"
            " CASE WHEN n & 1 > 0 THEN convert_to('b-' || n, 'UTF8') END,"
            " CASE WHEN n & 2 > 0 THEN 'c-' || n END, CASE WHEN n & 4 > 0 THEN 'a-' || n END,"
            " CASE WHEN n & 8 > 0 THEN '1999-12-31T00:00Z'::timestamptz END,"
            " CASE WHEN n & 16 > 0 THEN lpad(n::text, 32, 'f')::uuid END,"
            " CASE WHEN n & 32 > 0 THEN n ELSE 1 END,"
            " CASE WHEN n & 64 > 0 THEN lpad(n::text, 32, 'c')::uuid END,"
            " CASE WHEN n & 128 > 0 THEN 'r-' || n END, CASE WHEN n & 256 > 0 THEN n ELSE 1 END,"
            " CASE WHEN n & 512 > 0 THEN true END, CASE WHEN n & 1024 > 0 THEN 7 END,"
            " CASE WHEN n & 2048 = 0 THEN to_json(n) END, '{\"h\":\"v\"}', 'k',"
            " lpad('', 32, 'd')::uuid"
            " FROM generate_series(0, %d) AS n",
            MIXTURES - 1);
}

static void check_text(hw_str text, bool there, const char *prefix, int n)
{
    char wanted[32];

    (void)snprintf(wanted, sizeof wanted, "%s%d", prefix, n);
    if (!there) {
        assert_null(text.s);
        return;
    }
    assert_int_equal(text.len, strlen(wanted));
    assert_string_equal(text.s, wanted); /* it ends with a NUL */
}

static void check_uuid(bool is, const hw_uuid *uuid, bool there, char padding, int n)
{
    char digits[33];
    char text[HW_UUID_TEXT + 1];
    size_t at = 0;
    char number[12];

    assert_int_equal(is, there);
    if (!there)
        return;
    (void)snprintf(number, sizeof number, "%d", n);
    memset(digits, padding, 32);
    memcpy(digits + 32 - strlen(number), number, strlen(number));
    hw_uuid_format(uuid, text);
    for (const char *c = text; *c; c++)
        if (*c != '-')
            assert_int_equal(*c, digits[at++]);
    assert_int_equal(at, 32);
}

static void check_event(const howdah_event *e, int n)
{
    int64_t recorded_us = INT64_C(1609459200000000);
    bool payload = n & CONTENT_TYPE ? n & BYTES : !(n & NO_DATA);

    assert_int_equal(e->global_sequence, n + 1);
    assert_int_equal(e->version, n + 1);
    check_text(e->content_type, n & CONTENT_TYPE, "c-", n);
    if (payload)
        check_text(e->data, true, n & CONTENT_TYPE ? "b-" : "", n);
    else
        assert_string_equal(e->data.s, n & CONTENT_TYPE ? "" : "null");
    assert_int_equal(e->broken, (n & NO_DATA) && !(n & BYTES));
    check_text(e->actor, n & ACTOR, "a-", n);
    assert_int_equal(e->recorded_at_us, recorded_us);
    assert_int_equal(e->valid_time_us, n & VALID_TIME ? INT64_C(946598400000000) : recorded_us);
    check_uuid(e->has_family, &e->family, n & FAMILY, 'f', n);
    assert_int_equal(e->revision, n & REVISION ? n : 1);
    check_uuid(e->has_corrects, &e->corrects, n & CORRECTS, 'c', n);
    check_text(e->reason, n & REASON, "r-", n);
    assert_int_equal(e->schema_version, n & SCHEMA_VERSION ? n : 1);
    assert_int_equal(e->retracts, (n & RETRACTS) != 0);
    assert_int_equal(e->purged, (n & PURGED) != 0);
    assert_string_equal(e->headers.s, "{\"h\":\"v\"}");
    assert_string_equal(e->correlation_id.s, "k");
    assert_true(e->has_causation);
    assert_false(e->no_payload);
}

static void check_read(hw_store *store, const hw_query *q)
{
    hw_cursor *cursor = NULL;
    const howdah_event *events = NULL;
    size_t n = 0;
    int total = 0;
    int s;

    pgt_ok(store->ops->read_open(store, q, &cursor, &pgt_error));
    while ((s = store->ops->read_next(cursor, &events, &n, &pgt_error)) == HOWDAH_OK)
        for (size_t i = 0; i < n; i++)
            check_event(&events[i], total++);
    pgt_ok(s);
    assert_int_equal(total, MIXTURES);
    store->ops->read_close(cursor);
}

static void every_mixture_of_columns_is_read_as_it_was_written(void **state)
{
    static const hw_range all = {1, INT64_MAX};
    pgt *t = *state;
    hw_store *store = pgt_store(t, NULL);

    fill(t);
    check_read(store, &(hw_query){.batch = 1000});
    check_read(store, &(hw_query){.batch = 100, .stream = HW_STR_LIT("s")});
    check_read(store, &(hw_query){.batch = 100, .correlation_id = HW_STR_LIT("k")});
    check_read(store, &(hw_query){.ranges = &all, .ranges_n = 1}); /* column by column */
    pgt_store_close(store);
}

/* ---- records that no server sends */

/* A terse row with this record, and a payload. */
static PGresult *row_with(char *record, size_t len)
{
    PGresult *r = PQmakeEmptyPGresult(NULL, PGRES_TUPLES_OK);
    PGresAttDesc columns[HW_PG_TERSE_RECORDED_AT + 1] = {{.name = NULL}};
    char number[8] = {0, 0, 0, 0, 0, 0, 0, 9};
    char name[] = "c";
    char data[] = "{}";

    assert_non_null(r);
    for (int i = 0; i <= HW_PG_TERSE_RECORDED_AT; i++)
        columns[i] = (PGresAttDesc){.name = name, .format = 1, .typid = HW_OID_TEXT};
    columns[HW_PG_TERSE_REST].typid = 2249;
    assert_true(PQsetResultAttrs(r, HW_PG_TERSE_RECORDED_AT + 1, columns));
    for (int i = 0; i <= HW_PG_TERSE_RECORDED_AT; i++)
        assert_true(PQsetvalue(r, 0, i, NULL, -1));
    assert_true(PQsetvalue(r, 0, HW_PG_EVENT_GLOBAL_SEQUENCE, number, sizeof number));
    assert_true(PQsetvalue(r, 0, HW_PG_EVENT_VERSION, number, sizeof number));
    assert_true(PQsetvalue(r, 0, HW_PG_EVENT_DATA, data, 2));
    assert_true(PQsetvalue(r, 0, HW_PG_TERSE_REST, record, record ? (int)len : -1));
    return r;
}

static bool is_broken(char *record, size_t len)
{
    PGresult *r = row_with(record, len);
    howdah_event e;

    hw_pg_decode_event(r, 0, 0, &e);
    assert_int_equal(e.global_sequence, 9);
    assert_string_equal(e.data.s, e.broken ? "null" : "{}");
    PQclear(r);
    return e.broken;
}

static void a_record_of_another_shape_is_a_broken_event(void **state)
{
    pgt *t = *state;
    PGconn *conn = pgt_session(t->url);
    PGresult *r =
        PQexecParams(conn,
                     "SELECT ROW('x'::bytea, NULL::text, 'actor'::text, now(), NULL::uuid,"
                     " 2, NULL::uuid, 'why'::text, 1, false, false)",
                     0, NULL, NULL, NULL, NULL, 1);
    size_t len = (size_t)PQgetlength(r, 0, 0);
    char record[512];

    assert_int_equal(PQresultStatus(r), PGRES_TUPLES_OK);
    assert_true(len > 80 && len < sizeof record - 1);
    memcpy(record, PQgetvalue(r, 0, 0), len);
    assert_false(is_broken(NULL, 0));
    assert_false(is_broken(record, len));
    for (size_t cut = 0; cut < len; cut++)
        assert_true(is_broken(record, cut));
    record[len] = '\0';
    assert_true(is_broken(record, len + 1));
    record[3]++; /* the number of its cells */
    assert_true(is_broken(record, len));
    record[3]--;
    record[7]++; /* the type of the first one */
    assert_true(is_broken(record, len));
    record[7]--;
    memset(record + 8, 0x7f, 4); /* its length */
    assert_true(is_broken(record, len));
    PQclear(r);
    PQfinish(conn);
}

static const struct CMUnitTest tests[] = {
    PGT_TEST(every_mixture_of_columns_is_read_as_it_was_written),
    PGT_TEST(a_record_of_another_shape_is_a_broken_event),
};

PGT_MAIN("pg rows", tests)
