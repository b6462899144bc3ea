/*
 * test_sqlite_walks.c - walks over what is stored (src/store/sqlite/buffered_rows.c): who is called
 * may take as long as it likes, and nobody pays for it.
 */
#include <howdah/howdah_queue.h>
#include <howdah/howdah_times.h>

#include "sqlite_help.h"

#define MANY 600 /* more than two pages */

typedef struct look {
    const place *p;
    int64_t seen;
    int64_t last;     /* the key of the last row */
    int64_t step;     /* 1: keys are to grow, -1: to fall, 0: not looked at */
    int64_t stop_at;  /* 0: never */
    bool log_emptied; /* a row was looked at, and the write-ahead log could be emptied */
    bool held_back;   /* it could not: somebody has a snapshot open */
} look;

/* Writes something, so that an open snapshot is an old one, and empties the log. */
static void try_to_empty(look *l)
{
    raw_exec(l->p->file, "PRAGMA wal_autocheckpoint = 0; CREATE TABLE IF NOT EXISTS mine (n);"
                         "INSERT INTO mine VALUES (1)");
    if (raw_number(l->p->file, "PRAGMA wal_checkpoint(TRUNCATE)") == 0)
        l->log_emptied = true;
    else
        l->held_back = true;
}

static int on_row(look *l, int64_t key)
{
    if (l->seen++ == 0)
        try_to_empty(l);
    if (l->step != 0 && l->seen > 1)
        assert_i64_equal(key, l->last + l->step);
    l->last = key;
    return l->seen == l->stop_at;
}

static int on_job(void *ctx, const howdah_job *job)
{
    return on_row(ctx, howdah_job_position(job));
}

static int on_dead_letter(void *ctx, const howdah_dead_letter *dead_letter)
{
    return on_row(ctx, dead_letter->id);
}

static int on_queue(void *ctx, const howdah_queue_info *info)
{
    (void)info;
    return on_row(ctx, 0);
}

static int on_subscription(void *ctx, const howdah_subscription_info *info)
{
    (void)info;
    return on_row(ctx, 0);
}

static int on_skip(void *ctx, const howdah_skip *skip)
{
    return on_row(ctx, skip->id);
}

static int on_binding(void *ctx, const howdah_binding_info *info)
{
    (void)info;
    return on_row(ctx, 0);
}

static int on_stream(void *ctx, const char *stream)
{
    (void)stream;
    return on_row(ctx, 0);
}

static int on_type(void *ctx, const howdah_type_stats *stats)
{
    (void)stats;
    return on_row(ctx, 0);
}

static void check(const look *l, int64_t rows)
{
    assert_i64_equal(l->seen, rows);
    assert_true(l->log_emptied);
    assert_false(l->held_back);
}

/* MANY jobs that are over, past the library: as many commits would take their time. */
static void fill_history(howdah_bus *bus, const place *p)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_new_job job = HOWDAH_NEW_JOB_INIT;
    const howdah_new_job *jobs[MANY];

    for (int i = 0; i < MANY; i++)
        jobs[i] = &job;
    must(howdah_queue_push_batch(bus, "q", jobs, MANY, NULL, &err), &err);
    raw_exec(p->file, "INSERT INTO howdah_event_log (position, job_id, queue_id, attempts,"
                      " finished_at, failed) SELECT id, id, queue_id, 1, 1, 0 FROM howdah_jobs;"
                      "DELETE FROM howdah_jobs");
}

static void fill_dead_letters(const place *p)
{
    raw_exec(p->file,
             "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 600)"
             " INSERT INTO howdah_dead_letters (subscriber_id, event_id, global_sequence,"
             " error_message, retry_count, created_at, last_retry_at, stream, version, type,"
             " recorded_at, schema_version, revision, data)"
             " SELECT 's', randomblob(16), i, 'e', 1, 1, 1, 's', i, 'a.b', 1, 1, 1,"
             " CASE WHEN i % 100 = 0 THEN '\"' || hex(randomblob(400000)) || '\"'"
             " ELSE '1' END FROM n");
}

static void a_history_is_walked_without_a_snapshot(void **state)
{
    const place *p = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_queue_history_options o = HOWDAH_QUEUE_HISTORY_OPTIONS_INIT;
    howdah_bus *bus = open_migrated(p->url);
    look all = {.p = p, .step = 1};
    look back = {.p = p, .step = -1};
    look some = {.p = p, .step = 1};
    look stopped = {.p = p, .step = 1, .stop_at = 300};

    fill_history(bus, p);
    must(howdah_queue_history_walk(bus, "q", &o, on_job, &all, &err), &err);
    check(&all, MANY);
    o.backward = true;
    must(howdah_queue_history_walk(bus, "q", &o, on_job, &back, &err), &err);
    check(&back, MANY);
    o = (howdah_queue_history_options)HOWDAH_QUEUE_HISTORY_OPTIONS_INIT;
    o.after = 100;
    o.limit = 270;
    must(howdah_queue_history_walk(bus, "q", &o, on_job, &some, &err), &err);
    check(&some, 270);
    assert_i64_equal(some.last, 370);
    o.limit = 0;
    must(howdah_queue_history_walk(bus, "q", &o, on_job, &stopped, &err), &err);
    check(&stopped, 300);
    howdah_close(bus);
}

/* A page is bounded in bytes, too: six of them are of 800,000. */
static void dead_letters_are_walked_without_a_snapshot(void **state)
{
    const place *p = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_dead_letters_options o = HOWDAH_DEAD_LETTERS_OPTIONS_INIT;
    howdah_bus *bus = open_migrated(p->url);
    look all = {.p = p, .step = 1};
    look some = {.p = p, .step = 1};

    fill_dead_letters(p);
    must(howdah_dead_letters_walk(bus, &o, on_dead_letter, &all, &err), &err);
    check(&all, MANY);
    o.after_id = 99;
    o.limit = 300;
    must(howdah_dead_letters_walk(bus, &o, on_dead_letter, &some, &err), &err);
    check(&some, 300);
    assert_i64_equal(some.last, 399);
    howdah_close(bus);
}

#define HUNDREDS "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 600) "

static void fill_small_tables(const place *p)
{
    raw_exec(p->file,
             HUNDREDS "INSERT INTO howdah_subscriptions (subscriber_id, pattern, high, token,"
                      " created_at, updated_at) SELECT printf('s%03d', i), '>', 0, 1, 1, 1"
                      " FROM n");
    raw_exec(p->file, HUNDREDS "INSERT INTO howdah_skips (subscriber_id, first_sequence,"
                               " last_sequence, age_ms, reason, created_at)"
                               " SELECT 's', i, i, 1, 'r', 1 FROM n");
    raw_exec(p->file, HUNDREDS "INSERT INTO howdah_queues (name, created_at)"
                               " SELECT printf('q%03d', i), 1 FROM n");
    raw_exec(p->file, HUNDREDS "INSERT INTO howdah_bindings (queue_id, pattern,"
                               " subscriber_id, created_at) SELECT queue_id, printf('a.%03d', i),"
                               " printf('s%03d', i), 1 FROM n JOIN howdah_queues ON name = 'q001'");
    raw_exec(p->file, HUNDREDS "INSERT INTO howdah_events (stream, version, type, data)"
                               " SELECT printf('x-%03d', i), 1, printf('t.%03d', i), '1' FROM n");
}

static void all_other_walks_go_without_a_snapshot_as_well(void **state)
{
    const place *p = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_query_options o = HOWDAH_QUERY_OPTIONS_INIT;
    howdah_bus *bus = open_migrated(p->url);
    look looks[7];

    fill_small_tables(p);
    for (size_t i = 0; i < sizeof looks / sizeof *looks; i++)
        looks[i] = (look){.p = p};
    must(howdah_subscriptions_walk(bus, NULL, on_subscription, &looks[0], &err), &err);
    must(howdah_skips_walk(bus, NULL, false, on_skip, &looks[1], &err), &err);
    must(howdah_queues_walk(bus, NULL, on_queue, &looks[2], &err), &err);
    must(howdah_bindings_walk(bus, NULL, on_binding, &looks[3], &err), &err);
    must(howdah_types_walk(bus, &o, on_type, &looks[4], &err), &err);
    must(howdah_streams_walk(bus, &o, on_stream, &looks[5], &err), &err);
    o.pattern = "t.*";
    must(howdah_streams_walk(bus, &o, on_stream, &looks[6], &err), &err);
    for (size_t i = 0; i < sizeof looks / sizeof *looks; i++)
        check(&looks[i], MANY);
    howdah_close(bus);
}

/* ---------------------------------------------------------- a slow reader */

static int dawdle(void *ctx, const howdah_job *job)
{
    (void)job;
    if ((*(int64_t *)ctx)++ == 0)
        (void)usleep(50 * 1000);
    return 0;
}

static void a_walk_that_pauses_for_longer_than_the_timeout_goes_on(void **state)
{
    const place *p = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_queue_history_options o = HOWDAH_QUEUE_HISTORY_OPTIONS_INIT;
    howdah_bus *bus = open_migrated(p->url);
    int64_t seen = 0;

    fill_history(bus, p);
    howdah_close(bus);
    /* The pause is the thing that is tried. */
    bus = open_with(p->url, "statement_timeout", "10ms");
    must(howdah_queue_history_walk(bus, "q", &o, dawdle, &seen, &err), &err);
    assert_i64_equal(seen, MANY);
    howdah_close(bus);
}

/* ------------------------------------------------------ a moving target */

static int remove_behind(void *ctx, const howdah_job *job)
{
    look *l = ctx;

    if (l->seen++ == 0) /* rows of this page are held, those of the next are not */
        raw_exec(l->p->file, "DELETE FROM howdah_event_log WHERE position > 10");
    l->last = howdah_job_position(job);
    return 0;
}

static void what_goes_while_a_walk_is_under_way_is_seen_up_to_the_end_of_its_page(void **state)
{
    const place *p = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_queue_history_options o = HOWDAH_QUEUE_HISTORY_OPTIONS_INIT;
    howdah_bus *bus = open_migrated(p->url);
    look l = {.p = p};

    fill_history(bus, p);
    must(howdah_queue_history_walk(bus, "q", &o, remove_behind, &l, &err), &err);
    assert_i64_equal(l.seen, 256);
    assert_i64_equal(l.last, 256);
    howdah_close(bus);
}

/* ------------------------------------------------------- a large store */

typedef struct verdicts {
    int good;
    int not_checked;
    int bad;
    char checks[64]; /* those that were not done */
} verdicts;

static int on_finding(void *ctx, const howdah_finding *finding)
{
    verdicts *v = ctx;

    if (finding->severity == HOWDAH_BAD)
        v->bad++;
    else if (strncmp(finding->message, "not checked: ", 13) != 0)
        v->good++;
    else if (++v->not_checked > 0)
        (void)snprintf(v->checks + strlen(v->checks), sizeof v->checks - strlen(v->checks), "%s ",
                       finding->check);
    return 0;
}

/* Larger than what ten milliseconds, the shortest timeout there is, are enough for. */
static void what_does_not_end_in_time_is_not_checked_rather_than_bad(void **state)
{
    const place *p = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_settings *settings = NULL;
    howdah_bus *bus;
    verdicts doctor = {.good = 0};
    verdicts verify = {.good = 0};

    howdah_close(open_migrated(p->url));
    raw_exec(p->file,
             "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300000)"
             " INSERT INTO howdah_events (stream, version, type, data)"
             " SELECT 's', i, 'a.b', '{\"n\":' || i || '}' FROM n");
    must(howdah_settings_new(&settings, &err), &err);
    must(howdah_settings_set(settings, "statement_timeout", "10ms", &err), &err);
    must(howdah_doctor(p->url, settings, on_finding, &doctor, &err), &err);
    assert_int_equal(doctor.bad, 0);
    assert_string_equal(doctor.checks, "integrity ");
    assert_true(doctor.good >= 6);
    must(howdah_open(p->url, settings, &bus, &err), &err);
    must(howdah_verify(bus, on_finding, &verify, &err), &err);
    assert_int_equal(verify.bad, 0);
    assert_string_equal(verify.checks, "log ");
    assert_int_equal(verify.good, 2);
    howdah_close(bus);
    howdah_settings_free(settings);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(a_history_is_walked_without_a_snapshot),
        TEST(dead_letters_are_walked_without_a_snapshot),
        TEST(all_other_walks_go_without_a_snapshot_as_well),
        TEST(a_walk_that_pauses_for_longer_than_the_timeout_goes_on),
        TEST(what_goes_while_a_walk_is_under_way_is_seen_up_to_the_end_of_its_page),
        TEST(what_does_not_end_in_time_is_not_checked_rather_than_bad),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests_name("sqlite walks", tests, NULL, NULL);
}
