/*
 * test_sqlite_read.c - reads against a model of the log, batches of bounded size, trees with
 * circles, and every allocation failing in turn.
 */
#include "engine/pattern.h"
#include "sqlite_help.h"

/* --------------------------------------------------------------- the model */

#define EVENTS 400
#define QUERIES 1500

static const char *const streams[] = {"a", "b", "c", "a much longer name of a stream"};
static const char *const types[] = {"order.created", "order.paid", "mail.sent", "order.line.added"};
static const char *const correlations[] = {NULL, "x", "y"};
static const char *const patterns[] = {"order.*", "*.created", "order.>", "*.*",
                                       "*.*.*",   "mail.sent", "none.*"};

typedef struct model_event {
    int64_t sequence;
    int64_t version;
    const char *stream;
    const char *type;
    const char *correlation;
} model_event;

typedef struct model {
    model_event events[EVENTS];
} model;

/* A small generator of our own: the same numbers everywhere. */
static uint32_t pick(uint32_t *seed, uint32_t n)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % n;
}

static void fill_model(howdah_bus *bus, model *m)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_builder *b = NULL;
    uint32_t seed = 7;

    must(howdah_builder_new(&b, &err), &err);
    for (size_t i = 0; i < EVENTS; i += 20) {
        howdah_event *batch[20];
        howdah_position positions[20] = {HOWDAH_POSITION_INIT};

        for (size_t k = 0; k < 20; k++) {
            model_event *e = &m->events[i + k];

            e->stream = streams[pick(&seed, 4)];
            e->type = types[pick(&seed, 4)];
            e->correlation = correlations[pick(&seed, 3)];
            howdah_builder_reset(b);
            howdah_builder_set_stream(b, e->stream);
            howdah_builder_set_type(b, e->type);
            howdah_builder_set_correlation(b, e->correlation);
            must(howdah_builder_build(b, &batch[k], &err), &err);
        }
        must(
            howdah_append_batch(bus, (const howdah_event *const *)batch, 20, NULL, positions, &err),
            &err);
        for (size_t k = 0; k < 20; k++) {
            m->events[i + k].sequence = positions[k].global_sequence;
            m->events[i + k].version = positions[k].version;
            howdah_event_free(batch[k]);
        }
    }
    howdah_builder_free(b);
}

static bool wanted(const model_event *e, const howdah_reader_options *o)
{
    int64_t at = o->stream ? e->version : e->sequence;

    return (!o->stream || strcmp(o->stream, e->stream) == 0) &&
           (!o->type || strcmp(o->type, e->type) == 0) &&
           (!o->pattern || hw_pattern_matches(hw_str_of(o->pattern), hw_str_of(e->type))) &&
           (!o->correlation_id ||
            (e->correlation && strcmp(o->correlation_id, e->correlation) == 0)) &&
           (o->from == 0 || at >= o->from) && (o->to == 0 || at <= o->to);
}

static void compare(howdah_bus *bus, const model *m, const howdah_reader_options *o)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_reader *reader = NULL;
    const howdah_event *event = NULL;
    int64_t seen = 0;
    int s;

    must(howdah_reader_open(bus, o, &reader, &err), &err);
    for (size_t i = 0; i < EVENTS && (o->limit == 0 || seen < o->limit); i++) {
        const model_event *e = &m->events[o->backward ? EVENTS - 1 - i : i];

        if (!wanted(e, o))
            continue;
        assert_status(howdah_reader_next(reader, &event, &err), HOWDAH_OK);
        assert_i64_equal(howdah_event_global_sequence(event), e->sequence);
        assert_i64_equal(howdah_event_version(event), e->version);
        assert_string_equal(howdah_event_stream(event), e->stream);
        assert_string_equal(howdah_event_type(event), e->type);
        seen++;
    }
    s = howdah_reader_next(reader, &event, &err);
    assert_int_equal(s, HOWDAH_END);
    howdah_reader_close(reader);
}

static void any_combination_of_filters_gives_what_the_model_gives(void **state)
{
    static const char *const batches[] = {"1", "3", "1000"};
    const place *p = *state;
    model m;
    howdah_bus *buses[3];
    uint32_t seed = 1;

    buses[0] = open_migrated(p->url);
    fill_model(buses[0], &m);
    howdah_close(buses[0]);
    for (size_t i = 0; i < 3; i++)
        buses[i] = open_with(p->url, "read_batch", batches[i]);
    for (size_t i = 0; i < QUERIES; i++) {
        howdah_reader_options o = HOWDAH_READER_OPTIONS_INIT;

        o.stream = pick(&seed, 2) ? streams[pick(&seed, 4)] : NULL;
        o.type = pick(&seed, 4) ? NULL : types[pick(&seed, 4)];
        o.pattern = pick(&seed, 3) ? NULL : patterns[pick(&seed, 7)];
        o.correlation_id = pick(&seed, 3) ? NULL : correlations[1 + pick(&seed, 2)];
        o.from = pick(&seed, 2) ? pick(&seed, EVENTS) : 0;
        o.to = pick(&seed, 2) ? pick(&seed, EVENTS) : 0;
        o.limit = pick(&seed, 2) ? pick(&seed, 20) : 0;
        o.backward = pick(&seed, 2) != 0;
        compare(buses[i % 3], &m, &o);
    }
    for (size_t i = 0; i < 3; i++)
        howdah_close(buses[i]);
}

static void a_range_may_end_at_the_largest_number(void **state)
{
    const place *p = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_reader_options o = HOWDAH_READER_OPTIONS_INIT;
    howdah_bus *bus = open_migrated(p->url);

    raw_exec(p->file, "INSERT INTO howdah_events (global_sequence, stream, version, type, data)"
                      " VALUES (9223372036854775807, 's', 9223372036854775807, 'a.b', '1')");
    assert_i64_equal(count_read(bus, &o), 1);
    o.from = INT64_MAX;
    assert_i64_equal(count_read(bus, &o), 1);
    o.backward = true;
    assert_i64_equal(count_read(bus, &o), 1);
    o.stream = "s";
    assert_i64_equal(count_read(bus, &o), 1);
    /* There is no number behind it: an error, and nothing wraps around. */
    assert_true(append_one(bus, "t", &err) < 0);
    assert_true(append_one(bus, "s", &err) < 0);
    assert_i64_equal(count_read(bus, NULL), 1);
    howdah_close(bus);
}

/* ----------------------------------------------------------------- batches */

static void payloads_larger_than_a_batch_come_back_whole(void **state)
{
    enum { N = 12 };
    const place *p = *state;
    size_t sizes[N] = {10,      5000000, 3, 100000, 4000000, 4000000,
                       1000000, 9000000, 2, 2,      4194304, 30};
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *bus;
    char *json = malloc(9000001);
    howdah_reader *reader = NULL;
    const howdah_event *event = NULL;

    howdah_close(open_migrated(p->url));
    bus = open_with(p->url, "payload_bytes_max", "16MiB");
    assert_non_null(json);
    for (size_t i = 0; i < N; i++) {
        howdah_event *e;

        (void)memset(json, (int)('a' + i), sizes[i]);
        json[0] = json[sizes[i] - 1] = '"';
        json[sizes[i]] = '\0';
        e = make_event("s", "a.b", json);
        must(howdah_append(bus, e, NULL, NULL, &err), &err);
        howdah_event_free(e);
    }
    free(json);
    must(howdah_reader_open(bus, NULL, &reader, &err), &err);
    for (size_t i = 0; i < N; i++) {
        size_t len = 0;
        const char *data;

        must(howdah_reader_next(reader, &event, &err), &err);
        data = howdah_event_data(event, &len);
        assert_int_equal(len, sizes[i]);
        assert_int_equal(data[len], '\0');
        for (size_t k = 1; k + 1 < len; k++)
            if (data[k] != (char)('a' + i))
                fail_msg("event %zu, byte %zu", i, k);
    }
    assert_int_equal(howdah_reader_next(reader, &event, &err), HOWDAH_END);
    howdah_reader_close(reader);
    howdah_close(bus);
}

static void a_reader_goes_on_while_others_append_and_the_log_is_emptied(void **state)
{
    const place *p = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_reader *reader = NULL;
    const howdah_event *event = NULL;
    howdah_bus *writer = open_migrated(p->url);
    howdah_bus *bus = open_with(p->url, "read_batch", "1");
    int64_t seen = 0;
    int s;

    must(append_one(writer, "s", &err), &err);
    must(howdah_reader_open(bus, NULL, &reader, &err), &err);
    while ((s = howdah_reader_next(reader, &event, &err)) == HOWDAH_OK) {
        assert_i64_equal(howdah_event_version(event), ++seen);
        if (seen < 20) {
            must(append_one(seen % 2 ? writer : bus, "s", &err), &err);
            /* An open reader is in nobody's way. */
            raw_exec(p->file, "PRAGMA wal_checkpoint(TRUNCATE)");
            assert_i64_equal(file_size(p->file, "-wal"), 0);
        }
    }
    must(s, &err);
    assert_i64_equal(seen, 20);
    howdah_reader_close(reader);
    howdah_close(bus);
    howdah_close(writer);
}

static void bytes_come_back_as_they_were(void **state)
{
    const place *p = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *bus = open_migrated(p->url);
    howdah_builder *b = NULL;
    howdah_event *event = NULL;
    char id[HOWDAH_UUID_SIZE];
    uint8_t all[256];
    size_t len = 1;

    for (size_t i = 0; i < sizeof all; i++)
        all[i] = (uint8_t)i;
    must(howdah_builder_new(&b, &err), &err);
    for (size_t n = 0; n <= sizeof all; n += sizeof all) {
        howdah_builder_reset(b);
        howdah_builder_set_stream(b, "s");
        howdah_builder_set_type(b, "a.b");
        howdah_builder_set_bytes(b, all, n, "application/octet-stream");
        must(howdah_builder_build(b, &event, &err), &err);
        howdah_event_id(event, id);
        must(howdah_append(bus, event, NULL, NULL, &err), &err);
        howdah_event_free(event);
        must(howdah_event_get(bus, id, &event, &err), &err);
        assert_string_equal(howdah_event_content_type(event), "application/octet-stream");
        assert_memory_equal(howdah_event_data(event, &len), all, n);
        assert_int_equal(len, n);
        howdah_event_free(event);
    }
    howdah_builder_free(b);
    howdah_close(bus);
}

/* ------------------------------------------------------------------- trees */

/* Events are named by letters: the id ends with it. */
static void id_of(char name, char id[HOWDAH_UUID_SIZE])
{
    (void)snprintf(id, HOWDAH_UUID_SIZE, "0198a1b2-0000-7000-8000-0000000000%02x", name);
}

static void append_caused(howdah_bus *bus, char name, char cause)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_builder *b = NULL;
    howdah_event *event = NULL;
    char id[HOWDAH_UUID_SIZE];

    must(howdah_builder_new(&b, &err), &err);
    howdah_builder_set_stream(b, "s");
    howdah_builder_set_type(b, "a.b");
    id_of(name, id);
    howdah_builder_set_id(b, id);
    if (cause) {
        id_of(cause, id);
        howdah_builder_set_causation(b, id);
    }
    must(howdah_builder_build(b, &event, &err), &err);
    must(howdah_append(bus, event, NULL, NULL, &err), &err);
    howdah_event_free(event);
    howdah_builder_free(b);
}

static int write_tree(void *ctx, int depth, const howdah_event *event)
{
    char id[HOWDAH_UUID_SIZE];
    char *text = ctx;

    howdah_event_id(event, id);
    (void)sprintf(text + strlen(text), "%c%d ", (char)strtol(id + 34, NULL, 16), depth);
    return 0;
}

static void assert_tree(howdah_bus *bus, char name, const char *expected)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    char id[HOWDAH_UUID_SIZE];
    char text[512] = "";

    id_of(name, id);
    must(howdah_causation_walk(bus, id, write_tree, text, &err), &err);
    assert_string_equal(text, expected);
}

static void a_tree_shows_causes_root_first_and_effects_behind_their_cause(void **state)
{
    const place *p = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *bus = open_migrated(p->url);
    char id[HOWDAH_UUID_SIZE];
    char text[64] = "";

    append_caused(bus, 'a', '\0');
    append_caused(bus, 'b', 'a');
    append_caused(bus, 'c', 'b');
    append_caused(bus, 'd', 'a');
    append_caused(bus, 'e', 'c');
    append_caused(bus, 'f', 'b');
    append_caused(bus, 'g', 'c');
    append_caused(bus, 'z', 'q'); /* its cause is not stored */
    assert_tree(bus, 'a', "a0 b1 c2 e3 g3 f2 d1 ");
    assert_tree(bus, 'c', "a-2 b-1 c0 e1 g1 ");
    assert_tree(bus, 'g', "a-3 b-2 c-1 g0 ");
    assert_tree(bus, 'z', "z0 ");
    id_of('q', id);
    assert_status(howdah_causation_walk(bus, id, write_tree, text, &err), HOWDAH_NOT_FOUND);
    howdah_close(bus);
}

static void a_circle_ends_the_walk_and_shows_each_event_once(void **state)
{
    const place *p = *state;
    howdah_bus *bus = open_migrated(p->url);

    append_caused(bus, 'a', 'c');
    append_caused(bus, 'b', 'a');
    append_caused(bus, 'c', 'b');
    append_caused(bus, 'd', 'b');
    append_caused(bus, 's', 's');
    assert_tree(bus, 'a', "b-2 c-1 a0 d2 ");
    assert_tree(bus, 'd', "c-3 a-2 b-1 d0 ");
    assert_tree(bus, 's', "s0 ");
    howdah_close(bus);
}

static int count_tree(void *ctx, int depth, const howdah_event *event)
{
    (void)event;
    ++*(int64_t *)ctx;
    return depth > 20000;
}

static void a_tree_has_a_largest_size(void **state)
{
    const place *p = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *bus = open_migrated(p->url);
    char id[HOWDAH_UUID_SIZE];
    int64_t n = 0;

    /* A chain of 11,000, and 11,000 effects of its last one. */
    raw_exec(p->file,
             "WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 22000)"
             " INSERT INTO howdah_events (id, stream, version, type, data, causation_id)"
             " SELECT CAST(printf('%016d', i) AS BLOB), 's', i, 'a.b', '1',"
             " CASE WHEN i > 1 THEN CAST(printf('%016d', min(i - 1, 11000)) AS BLOB) END FROM n");
    (void)snprintf(id, sizeof id, "30303030-3030-3030-3030-303030303031");
    must(howdah_causation_walk(bus, id, count_tree, &n, &err), &err);
    assert_i64_equal(n, HOWDAH_CAUSATION_MAX);
    n = 0;
    (void)snprintf(id, sizeof id, "30303030-3030-3030-3030-303131303030"); /* 11000 */
    must(howdah_causation_walk(bus, id, count_tree, &n, &err), &err);
    assert_i64_equal(n, HOWDAH_CAUSATION_MAX);
    howdah_close(bus);
}

/* ------------------------------------------------------------------ memory */

typedef struct scarce {
    unsigned fail_at;
    unsigned asked;
    long alive;
} scarce;

static void *scarce_alloc(void *ctx, size_t bytes)
{
    scarce *m = ctx;
    void *block = ++m->asked == m->fail_at ? NULL : malloc(bytes);

    m->alive += block != NULL;
    return block;
}

static void *scarce_realloc(void *ctx, void *block, size_t bytes)
{
    scarce *m = ctx;
    void *moved = ++m->asked == m->fail_at ? NULL : realloc(block, bytes);

    m->alive += !block && moved;
    return moved;
}

static void scarce_free(void *ctx, void *block)
{
    scarce *m = ctx;

    m->alive -= block != NULL;
    free(block);
}

static int use_everything(const char *url, const howdah_event *const *events, howdah_error *err)
{
    static const char *const map[] = {"id=id", "stream=stream", "type=type", "data=data",
                                      "created_at=created_at"};
    howdah_import_options import = HOWDAH_IMPORT_OPTIONS_INIT;
    howdah_bus *bus = NULL;
    howdah_reader *reader = NULL;
    const howdah_event *event = NULL;
    char id[HOWDAH_UUID_SIZE];
    char text[512] = "";
    int s = howdah_open(url, NULL, &bus, err);

    import.table = "old";
    import.map = map;
    import.map_n = 5;
    if (s >= 0)
        s = howdah_migrate(bus, NULL, err);
    if (s >= 0)
        s = howdah_append_batch(bus, events, 2, NULL, NULL, err);
    if (s >= 0)
        s = howdah_append_batch(bus, events, 3, NULL, NULL, err);
    if (s >= 0)
        s = howdah_import(bus, &import, NULL, err);
    if (s >= 0)
        s = howdah_reader_open(bus, NULL, &reader, err);
    while (s == HOWDAH_OK)
        s = howdah_reader_next(reader, &event, err);
    howdah_reader_close(reader);
    howdah_event_id(events[0], id);
    if (s >= 0)
        s = howdah_causation_walk(bus, id, write_tree, text, err);
    howdah_close(bus);
    return s;
}

static void each_allocation_may_fail_and_nothing_leaks_or_breaks(void **state)
{
    const place *p = *state;
    const howdah_event *events[3];
    unsigned n = 1;
    int s;

    raw_exec(p->file, "CREATE TABLE old (id, stream, type, data, created_at);"
                      "INSERT INTO old VALUES"
                      " ('0198a1b2-0000-7000-8000-000000000001', 's', 'a.b', '1', 1),"
                      " (randomblob(16), 's', 'a.b', '2', 2)");
    for (size_t i = 0; i < 3; i++)
        events[i] = make_event(i == 1 ? "t" : "s", "a.b", "{}");
    do {
        scarce m = {n, 0, 0};
        howdah_allocator hooks = {sizeof hooks, scarce_alloc, scarce_realloc, scarce_free, &m};
        howdah_error err = HOWDAH_ERROR_INIT;

        assert_int_equal(howdah_allocator_set(&hooks), HOWDAH_OK);
        s = use_everything(p->url, events, &err);
        assert_int_equal(howdah_allocator_set(NULL), HOWDAH_OK);
        if (m.alive != 0)
            fail_msg("allocation %u fails: %ld blocks are left", n, m.alive);
        if (s < 0 && s != HOWDAH_NO_MEMORY)
            fail_msg("allocation %u fails: %s: %s", n, howdah_status_name(s), err.message);
        if (m.asked < n)
            break;
        n++;
    } while (n < 2000);
    must(s, &(howdah_error)HOWDAH_ERROR_INIT);
    assert_true(n > 20 && n < 2000);
    for (size_t i = 0; i < 3; i++)
        howdah_event_free((howdah_event *)(uintptr_t)events[i]);
    assert_i64_equal(raw_number(p->file, "SELECT count(*) FROM howdah_events"), 5);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(any_combination_of_filters_gives_what_the_model_gives),
        TEST(a_range_may_end_at_the_largest_number),
        TEST(payloads_larger_than_a_batch_come_back_whole),
        TEST(a_reader_goes_on_while_others_append_and_the_log_is_emptied),
        TEST(bytes_come_back_as_they_were),
        TEST(a_tree_shows_causes_root_first_and_effects_behind_their_cause),
        TEST(a_circle_ends_the_walk_and_shows_each_event_once),
        TEST(a_tree_has_a_largest_size),
        TEST(each_allocation_may_fail_and_nothing_leaks_or_breaks),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests_name("sqlite read", tests, NULL, NULL);
}
