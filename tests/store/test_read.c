/* test_read.c - ranges, patterns, bare rows and sparse reads give what a plain read gives. */
#include <inttypes.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/random.h"
#include "engine/pattern.h"
#include "suite.h"

/* ---- randomness that can be repeated */

static uint64_t seed;

static uint32_t pick(uint32_t below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % below;
}

static void choose_seed(void)
{
    const char *text = getenv("HOWDAH_SEED");

    seed = text ? strtoull(text, NULL, 10) : hw_random_u32();
    print_message("# HOWDAH_SEED=%" PRIu64 "\n", seed);
}

/* ---- a log */

static const char *const types[] = {"order.created", "order.paid",       "order.item.added",
                                    "order",         "orders.created",   "invoice.created",
                                    "invoice.sent",  "a.b.c.d",          "a.x.c.d",
                                    "Order.created", "order.item.taken", "z"};
enum { TYPES = sizeof types / sizeof types[0] };

static const char *const patterns[] = {"order.*",       "order.>", "*.created", "*.*.*.d",
                                       "order.created", "*",       ">",         "none.*",
                                       "nowhere",       "a.>",     "order.*.*"};
enum { PATTERNS = sizeof patterns / sizeof patterns[0] };

static void append_some(hw_store *store, int n)
{
    static char json[9000];

    for (int i = 0; i < n; i++) {
        char stream[16];
        int fill = pick(10) == 0 ? (int)pick(8000) : (int)pick(50);

        (void)snprintf(stream, sizeof stream, "s-%u", pick(7));
        (void)snprintf(json, sizeof json, "{\"n\":%d,\"x\":\"%0*d\"}", i, fill + 1, 0);
        hw_event_free(ss_append(store, stream, types[pick(TYPES)], json));
    }
}

/* ---- reading it */

typedef struct rows {
    howdah_event **events;
    size_t n;
} rows;

static void free_rows(rows *r)
{
    for (size_t i = 0; i < r->n; i++)
        hw_event_free(r->events[i]);
    free(r->events);
}

static rows read_all(hw_store *store, const hw_query *query)
{
    rows r = {NULL, 0};
    const howdah_event *events = NULL;
    hw_cursor *cursor = NULL;
    size_t n = 0;
    int s;

    ok(store->ops->read_open(store, query, &cursor, &ss_error));
    while ((s = store->ops->read_next(cursor, &events, &n, &ss_error)) == HOWDAH_OK) {
        assert_true(n > 0);
        assert_true(query->batch == 0 || n <= query->batch);
        r.events = realloc(r.events, (r.n + n) * sizeof *r.events);
        assert_non_null(r.events);
        for (size_t i = 0; i < n; i++)
            ok(hw_event_clone(&events[i], &r.events[r.n++], &ss_error));
    }
    expect(s, HOWDAH_END);
    store->ops->read_close(cursor);
    return r;
}

static bool in_ranges(const hw_query *q, int64_t sequence)
{
    for (size_t i = 0; i < q->ranges_n; i++)
        if (sequence >= q->ranges[i].first && sequence <= q->ranges[i].last)
            return true;
    return !q->ranges;
}

static bool wanted(const hw_query *q, const howdah_event *e)
{
    return in_ranges(q, e->global_sequence) && (!q->type.s || hw_str_equal(q->type, e->type)) &&
           hw_pattern_matches(q->pattern, e->type) &&
           (!q->only_stream.s ||
            (hw_str_equal(q->only_stream, e->stream) && e->version >= q->only_from));
}

static bool whole(const hw_query *q, const howdah_event *e)
{
    for (size_t i = 0; i < q->payload_of_n; i++)
        if (hw_pattern_matches(q->payload_of[i], e->type))
            return true;
    return q->payload_of_n == 0;
}

static void same_row(const hw_query *q, const howdah_event *plain, const howdah_event *got)
{
    assert_true(plain->global_sequence == got->global_sequence);
    assert_memory_equal(plain->id.b, got->id.b, sizeof plain->id.b);
    assert_string_equal(plain->stream.s, got->stream.s);
    assert_string_equal(plain->type.s, got->type.s);
    assert_true(plain->version == got->version);
    assert_true(plain->recorded_at_us == got->recorded_at_us);
    assert_false(got->broken);
    assert_int_equal(got->no_payload, !whole(q, plain));
    if (got->no_payload) {
        assert_null(got->data.s);
        assert_null(got->headers.s);
    } else {
        assert_true(hw_str_equal(plain->data, got->data));
    }
}

/* The query's answer is the plain log, filtered by hand. */
static void compare(hw_store *store, const rows *plain, const hw_query *q)
{
    hw_query asked = *q;
    rows got;
    size_t at = 0;

    hw_pattern_to_type(&asked.type, &asked.pattern);
    got = read_all(store, &asked);
    for (size_t i = 0; i < plain->n && (q->limit == 0 || at < (size_t)q->limit); i++) {
        if (!wanted(q, plain->events[i]))
            continue;
        if (at == got.n)
            fail_msg("event %" PRId64 " is missing", plain->events[i]->global_sequence);
        same_row(q, plain->events[i], got.events[at++]);
    }
    assert_int_equal(got.n, at);
    free_rows(&got);
}

/* Sorted and disjoint; sometimes open at the end. */
static size_t random_ranges(hw_range *ranges, size_t room, int64_t head)
{
    size_t n = 0;
    int64_t at = 1 + pick(20);

    while (n < room && at <= head && (n == 0 || pick(4) > 0)) {
        int64_t len = pick(3) == 0 ? 1 + pick(3000) : 1 + pick(12);

        ranges[n++] = (hw_range){at, at + len - 1};
        at += len + 1 + pick(40);
    }
    if (n == 0 || pick(2) == 0) {
        n -= n == room;
        ranges[n++] = (hw_range){at, INT64_MAX};
    }
    return n;
}

static void a_random_query(hw_store *store, const rows *plain)
{
    hw_range ranges[8];
    hw_str payload_of[3];
    hw_query q = {.batch = 1 + pick(200), .sparse = pick(2) == 0};

    q.ranges = ranges;
    q.ranges_n = random_ranges(ranges, 8, plain->events[plain->n - 1]->global_sequence);
    if (pick(4) == 0)
        q.ranges_n = 0;
    if (q.ranges_n == 0) {
        q.ranges = NULL;
    } else {
        q.payload_of = payload_of;
        q.payload_of_n = pick(4);
        for (size_t i = 0; i < q.payload_of_n; i++)
            payload_of[i] = S(patterns[pick(PATTERNS)]);
        if (pick(3) == 0) {
            q.only_stream = plain->events[pick((uint32_t)plain->n)]->stream;
            q.only_from = 1 + pick(40);
        }
    }
    if (pick(3) > 0)
        q.pattern = S(patterns[pick(PATTERNS)]);
    if (pick(5) == 0)
        q.type = S(types[pick(TYPES)]);
    if (pick(3) == 0)
        q.limit = 1 + pick(100);
    compare(store, plain, &q);
}

static void every_query_is_the_plain_log_filtered_by_hand(void **state)
{
    enum { QUERIES = 300 };
    ss *t = *state;
    rows plain;

    choose_seed();
    append_some(t->store, 60);
    ss_append_many(t->store, "filler.one", 1500);
    append_some(t->store, 60);
    ss_append_many(t->store, "filler.two", 1500);
    append_some(t->store, 60);
    ss_sql(t, "DELETE FROM {events} WHERE global_sequence % 17 = 3");
    plain = read_all(t->store, &(hw_query){.batch = 1000});
    assert_true(plain.n > 2500);
    for (int i = 0; i < QUERIES; i++)
        a_random_query(t->store, &plain);
    free_rows(&plain);
}

/* More types than a sparse read looks at: it walks the log, and misses nothing. */
static void a_sparse_read_over_very_many_types_is_still_complete(void **state)
{
    enum { MANY = 5000 };
    ss *t = *state;
    hw_str pattern = S("t.*.even");
    rows r;

    ss_sql(t,
           ss_is_pg()
               ? "INSERT INTO {events} (stream, version, type, data)"
                 " SELECT 's', n, 't.' || n || CASE WHEN n % 2 = 0 THEN '.even' ELSE '.odd' END,"
                 " '{}' FROM generate_series(1, 5000) AS n"
               : "WITH RECURSIVE g (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM g WHERE n < 5000)"
                 " INSERT INTO {events} (stream, version, type, data)"
                 " SELECT 's', n, 't.' || n || CASE WHEN n % 2 = 0 THEN '.even' ELSE '.odd' END,"
                 " '{}' FROM g");
    r = read_all(t->store, &(hw_query){.pattern = pattern, .sparse = true, .batch = 100});
    assert_int_equal(r.n, MANY / 2);
    free_rows(&r);
}

/* What no writer of ours makes. */
static void a_row_without_payload_comes_broken(void **state)
{
    ss *t = *state;
    hw_range all = {1, INT64_MAX};
    rows r;

    ss_append_many(t->store, "a.b", 3);
    ss_sql(t, ss_is_pg() ? "UPDATE {events} SET data = NULL WHERE global_sequence = 2"
                         : "PRAGMA ignore_check_constraints = 1;"
                           " UPDATE {events} SET data = NULL WHERE global_sequence = 2");
    r = read_all(t->store, &(hw_query){.ranges = &all, .ranges_n = 1});
    assert_int_equal(r.n, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(r.events[i]->broken, i == 1);
        assert_false(r.events[i]->no_payload);
        assert_string_equal(r.events[i]->data.s, i == 1 ? "null" : "{}");
    }
    free_rows(&r);
    r = read_all(t->store, &(hw_query){.ranges = &all,
                                       .ranges_n = 1,
                                       .payload_of = (hw_str[]){S("a.*")},
                                       .payload_of_n = 1});
    assert_int_equal(r.n, 3);
    assert_true(r.events[1]->broken);
    free_rows(&r);
}

ss_group ss_read_tests(void)
{
    static const struct CMUnitTest tests[] = {
        SS_TEST(every_query_is_the_plain_log_filtered_by_hand),
        SS_TEST(a_sparse_read_over_very_many_types_is_still_complete),
        SS_TEST(a_row_without_payload_comes_broken),
    };
    return SS_GROUP(tests);
}
