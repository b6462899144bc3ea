/*
 * test_pg_ranges.c - reads of ranges, by type, by pattern, sparse or not, whole or bare: each is
 * compared with a walk through the whole log.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/pattern.h"
#include "store/pg/pg.h"
#include "test_pg_help.h"

#define EVENTS 3000
#define FOUND_MAX (EVENTS + 1)

static const char *const types[] = {"a",        "a.b",      "a.b.c",     "a.c",   "aa.b",  "b",
                                    "rare.one", "rare.two", "rare.a.b.", "z.z.z", "common"};
#define TYPES (sizeof types / sizeof types[0])

typedef struct found {
    int64_t sequence[FOUND_MAX];
    bool no_payload[FOUND_MAX];
    size_t n;
} found;

static char *type_at[EVENTS + 2]; /* by number; NULL: none */

static void fill(const pgt *t)
{
    pgt_run(t, t->admin,
            "INSERT INTO {events} (global_sequence, stream, version, type, data, headers)"
            " SELECT n, 's', n, CASE WHEN n %% 500 = 3 THEN 'rare.one' WHEN n %% 700 = 5 THEN"
            "  'rare.two' ELSE (ARRAY['a', 'a.b', 'a.b.c', 'a.c', 'aa.b', 'b', 'z.z.z', 'common',"
            "  'common', 'common'])[1 + n * 7919 %% 10] END, to_json(n), '{\"h\":\"v\"}'"
            " FROM generate_series(1, %d) AS n WHERE n %% 37 <> 0",
            EVENTS);
}

static void learn(const pgt *t)
{
    PGresult *r = pgt_result(t, t->admin, "SELECT global_sequence, type FROM {events}");

    for (int i = 0; i < PQntuples(r); i++)
        type_at[strtol(PQgetvalue(r, i, 0), NULL, 10)] = strdup(PQgetvalue(r, i, 1));
    PQclear(r);
}

static void forget(void)
{
    for (int i = 0; i <= EVENTS; i++) {
        free(type_at[i]);
        type_at[i] = NULL;
    }
}

static bool in_ranges(const hw_query *q, int64_t n)
{
    for (size_t i = 0; i < q->ranges_n; i++)
        if (n >= q->ranges[i].first && n <= q->ranges[i].last)
            return true;
    return !q->ranges && n >= q->from && (q->to == 0 || n <= q->to);
}

static bool is_whole(const hw_query *q, hw_str type)
{
    for (size_t i = 0; i < q->payload_of_n; i++)
        if (hw_pattern_matches(q->payload_of[i], type))
            return true;
    return !q->ranges || q->payload_of_n == 0;
}

static void expect(const hw_query *q, found *f)
{
    f->n = 0;
    for (int64_t k = 0; k <= EVENTS; k++) {
        int64_t i = q->backward ? EVENTS - k : k;
        hw_str type = hw_str_of(type_at[i]);

        if (!type.s || !in_ranges(q, i) || (q->type.s && !hw_str_equal(q->type, type)) ||
            !hw_pattern_matches(q->pattern, type) || (q->limit > 0 && (int64_t)f->n == q->limit))
            continue;
        f->sequence[f->n] = i;
        f->no_payload[f->n++] = !is_whole(q, type);
    }
}

static void check_event(const howdah_event *e)
{
    char data[24];

    (void)snprintf(data, sizeof data, "%lld", (long long)e->global_sequence);
    assert_false(e->broken);
    assert_string_equal(e->type.s, type_at[e->global_sequence]);
    if (e->no_payload) {
        assert_null(e->data.s);
        assert_null(e->headers.s);
    } else {
        assert_string_equal(e->data.s, data);
        assert_string_equal(e->headers.s, "{\"h\":\"v\"}");
    }
}

static void ask(hw_store *store, const hw_query *q, found *f)
{
    hw_cursor *cursor = NULL;
    const howdah_event *events = NULL;
    size_t n = 0;
    int s;

    f->n = 0;
    pgt_ok(store->ops->read_open(store, q, &cursor, &pgt_error));
    while ((s = store->ops->read_next(cursor, &events, &n, &pgt_error)) == HOWDAH_OK) {
        for (size_t i = 0; i < n; i++) {
            assert_true(f->n < FOUND_MAX);
            f->sequence[f->n] = events[i].global_sequence;
            f->no_payload[f->n++] = events[i].no_payload;
            check_event(&events[i]);
        }
    }
    pgt_ok(s);
    store->ops->read_close(cursor);
}

static void compare(hw_store *store, const hw_query *q)
{
    static found wanted;
    static found got;
    hw_query asked = *q;

    hw_pattern_to_type(&asked.type, &asked.pattern);
    expect(q, &wanted);
    ask(store, &asked, &got);
    if (wanted.n != got.n)
        fail_msg("%zu instead of %zu events of type %s, pattern %s, %s", got.n, wanted.n,
                 q->type.s ? q->type.s : "any", q->pattern.s ? q->pattern.s : "any",
                 q->sparse ? "sparse" : "dense");
    for (size_t i = 0; i < got.n; i++) {
        assert_int_equal(got.sequence[i], wanted.sequence[i]);
        assert_int_equal(got.no_payload[i], wanted.no_payload[i]);
    }
}

static const hw_range ranges[] = {{1, 1}, {3, 40}, {100, 99 + 5}, {500, 504}, {1000, INT64_MAX}};

static const char *const patterns[] = {NULL,  "a", "a.*",   "a.>",       "*",   "rare.*",
                                       "*.b", ">", "z.*.z", "nothing.>", "*.*", "rare.>"};
#define PATTERNS (sizeof patterns / sizeof patterns[0])

static void every_read_of_ranges_finds_what_a_walk_finds(void **state)
{
    pgt *t = *state;
    hw_store *store = pgt_store(t, NULL);
    const hw_str whole[] = {HW_STR_LIT("a.*"), HW_STR_LIT("common"), HW_STR_LIT("rare.>")};

    fill(t);
    learn(t);
    for (size_t p = 0; p < PATTERNS; p++) {
        for (int kind = 0; kind < 12; kind++) {
            hw_query q = {.pattern = hw_str_of(patterns[p]),
                          .sparse = kind & 1,
                          .ranges = ranges,
                          .ranges_n = sizeof ranges / sizeof ranges[0],
                          .payload_of = whole,
                          .payload_of_n = kind & 2 ? 3 : 0,
                          .limit = (int64_t[]){0, 1, 40}[kind / 4]};

            compare(store, &q);
        }
    }
    for (size_t i = 0; i < TYPES; i++) {
        hw_query q = {.type = hw_str_of(types[i]),
                      .ranges = ranges,
                      .ranges_n = sizeof ranges / sizeof ranges[0],
                      .payload_of = whole,
                      .payload_of_n = 2};

        compare(store, &q);
        q.limit = 3;
        compare(store, &q);
    }
    pgt_store_close(store);
    forget();
}

static void every_sparse_read_finds_what_a_walk_finds(void **state)
{
    pgt *t = *state;
    hw_store *store = pgt_store(t, NULL);

    fill(t);
    learn(t);
    for (size_t p = 0; p < PATTERNS; p++) {
        for (int kind = 0; kind < 8; kind++) {
            hw_query q = {.pattern = hw_str_of(patterns[p]),
                          .sparse = true,
                          .backward = kind & 1,
                          .from = kind & 2 ? 300 : 0,
                          .to = kind & 2 ? 2100 : 0,
                          .batch = kind & 4 ? 7 : 1000,
                          .limit = kind & 4 ? 50 : 0};

            compare(store, &q);
        }
    }
    pgt_store_close(store);
    forget();
}

/* The same for a login that only has the functions: everything comes whole there. */
static void the_functions_read_ranges_by_type_and_pattern(void **state)
{
    pgt *t = *state;
    char url[1200];
    hw_store *store;

    fill(t);
    learn(t);
    pgt_run(t, t->admin, "CREATE ROLE range_reader LOGIN; GRANT {_read} TO range_reader");
    (void)snprintf(url, sizeof url, "postgres://range_reader@/%s?host=%s&port=%s", PQdb(t->admin),
                   PQhost(t->admin), PQport(t->admin));
    store = pgt_store(t, url);
    assert_false(((hw_pg *)store)->direct_read);
    for (size_t p = 0; p < PATTERNS; p++) {
        hw_query q = {.pattern = hw_str_of(patterns[p]),
                      .ranges = ranges,
                      .ranges_n = sizeof ranges / sizeof ranges[0],
                      .sparse = true,
                      .limit = 40};

        compare(store, &q);
        q.type = HW_STR_LIT("a.b");
        compare(store, &q);
    }
    pgt_store_close(store);
    pgt_run(t, t->admin, "DROP ROLE range_reader");
    forget();
}

static void a_row_without_a_payload_is_broken_not_bare(void **state)
{
    pgt *t = *state;
    hw_store *store = pgt_store(t, NULL);
    const hw_str whole = HW_STR_LIT("a");
    const hw_range all = {1, INT64_MAX};
    hw_query q = {.ranges = &all, .ranges_n = 1, .payload_of = &whole, .payload_of_n = 1};
    hw_cursor *cursor = NULL;
    const howdah_event *events = NULL;
    size_t n = 0;

    pgt_run(t, t->admin,
            "INSERT INTO {events} (stream, version, type) VALUES ('s', 1, 'a'),"
            " ('s', 2, 'b')");
    pgt_ok(store->ops->read_open(store, &q, &cursor, &pgt_error));
    pgt_ok(store->ops->read_next(cursor, &events, &n, &pgt_error));
    assert_int_equal(n, 2);
    assert_true(events[0].broken);
    assert_false(events[0].no_payload);
    assert_true(events[1].no_payload);
    assert_false(events[1].broken);
    store->ops->read_close(cursor);
    pgt_store_close(store);
}

static const struct CMUnitTest tests[] = {
    PGT_TEST(every_read_of_ranges_finds_what_a_walk_finds),
    PGT_TEST(every_sparse_read_finds_what_a_walk_finds),
    PGT_TEST(the_functions_read_ranges_by_type_and_pattern),
    PGT_TEST(a_row_without_a_payload_is_broken_not_bare),
};

PGT_MAIN("pg ranges", tests)
