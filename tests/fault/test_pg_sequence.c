/*
 * test_pg_sequence.c - the log's sequence below the log's numbers, as in a copy of the tables
 * without their sequences: nothing may be stored where subscriptions have been already, whoever
 * appends, and howdah migrate up repairs it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <howdah/howdah_pg.h>

#include "test_pg_help.h"

#define EVENTS 40
#define BEHIND "the log's sequence is lower than the numbers in use: "

/* ---- a copy */

static int on_event(void *ctx, const howdah_event *event, howdah_delivery *delivery)
{
    size_t *n = ctx;

    (void)event;
    (void)delivery;
    (*n)++;
    return HOWDAH_HANDLED;
}

/* Delivers what there is to a subscription; how many events that were. */
static size_t deliver(const pgt *t, const char *subscriber_id)
{
    howdah_subscribe_options o = HOWDAH_SUBSCRIBE_OPTIONS_INIT;
    howdah_subscription *sub = NULL;
    howdah_bus *bus = pgt_open(t, t->url);
    size_t n = 0;

    o.subscriber_id = subscriber_id;
    o.handler = on_event;
    o.ctx = &n;
    pgt_ok(howdah_subscribe(bus, &o, &sub, &pgt_error));
    pgt_ok(howdah_subscription_wait(sub, 60000, &pgt_error));
    howdah_close(bus);
    return n;
}

static void draw_in_vain(const pgt *t, int n)
{
    for (int i = 0; i < n; i++) {
        pgt_run(t, t->admin, "BEGIN");
        pgt_run(t, t->admin, "SELECT {append}('gone', 't')");
        pgt_run(t, t->admin, "ROLLBACK");
    }
}

static int64_t last_value(const pgt *t)
{
    return pgt_number(t, t->admin,
                      "SELECT CASE WHEN is_called THEN last_value ELSE 0 END"
                      " FROM {events_global_sequence_seq}");
}

/*
 * Events 1 to 3 and 24, the numbers in between drawn in vain; a subscription that has done all of
 * it; and the sequence at 3.
 */
static void make_copy(const pgt *t)
{
    for (int i = 0; i < 3; i++)
        (void)pgt_append(t->bus, "s");
    draw_in_vain(t, 20);
    assert_int_equal(pgt_append(t->bus, "s").global_sequence, 24);
    assert_int_equal(deliver(t, "p"), 4);
    for (int i = 0; i < 1000 &&
                    pgt_number(t, t->admin, "SELECT cardinality(outstanding) FROM {subscriptions}");
         i++)
        assert_int_equal(deliver(t, "p"), 0);
    pgt_run(t, t->admin, "SELECT setval('{events_global_sequence_seq}', 3)");
}

/* ---- calls that append, each in its own way */

typedef int (*append_fn)(const pgt *t, howdah_bus *bus, howdah_error *err);

static int append_single(const pgt *t, howdah_bus *bus, howdah_error *err)
{
    howdah_event *event = pgt_event("single");
    int s = howdah_append(bus, event, NULL, NULL, err);

    (void)t;
    howdah_event_free(event);
    return s;
}

static int append_many(howdah_bus *bus, size_t n, howdah_error *err)
{
    pgt_batch batch = pgt_batch_new("batch", n, 3);
    int s = howdah_append_batch(bus, PGT_EVENTS(&batch), batch.n, NULL, batch.positions, err);

    pgt_batch_free(&batch);
    return s;
}

static int append_batch(const pgt *t, howdah_bus *bus, howdah_error *err)
{
    (void)t;
    return append_many(bus, 5, err);
}

static int append_large_batch(const pgt *t, howdah_bus *bus, howdah_error *err)
{
    (void)t;
    return append_many(bus, 1500, err);
}

static int import_rows(const pgt *t, howdah_bus *bus, howdah_error *err)
{
    static const char *const map[] = {"stream=who", "type=what"};
    howdah_import_options o = HOWDAH_IMPORT_OPTIONS_INIT;

    pgt_run(t, t->admin,
            "CREATE TABLE IF NOT EXISTS public.sequence_old AS SELECT n AS id, 's' AS who,"
            " 'old' AS what, '{}'::json AS data, now() AS created_at FROM generate_series(1, 3) n");
    o.table = "public.sequence_old";
    o.map = map;
    o.map_n = 2;
    return howdah_import(bus, &o, NULL, err);
}

static int correct_first(const pgt *t, howdah_bus *bus, howdah_error *err)
{
    howdah_correction c = HOWDAH_CORRECTION_INIT;
    char id[64];

    (void)snprintf(id, sizeof id, "%s",
                   pgt_text(t, t->admin, "SELECT id FROM {events} WHERE global_sequence = 1"));
    c.event_id = id;
    c.data = "1";
    c.data_len = 1;
    c.reason = "r";
    return howdah_correct(bus, &c, NULL, err);
}

/* Inside the caller's own transaction, which goes on afterwards. */
static int append_inside(const pgt *t, howdah_bus *bus, howdah_error *err)
{
    PGconn *conn = pgt_session(t->url);
    howdah_event *event = pgt_event("inside");
    const howdah_event *events[] = {event};
    int s;

    (void)bus;
    pgt_run(t, conn, "BEGIN");
    s = howdah_pg_append(conn, t->schema, events, 1, NULL, NULL, err);
    pgt_run(t, conn, "SELECT 1");
    pgt_run(t, conn, "COMMIT");
    howdah_event_free(event);
    PQfinish(conn);
    return s;
}

static const append_fn appends[] = {append_single, append_batch,  append_large_batch,
                                    import_rows,   correct_first, append_inside};

#define CORRECT_SQL                                                                                \
    "SELECT {correct}((SELECT id FROM {events} WHERE global_sequence = 1), '1', reason => 'r')"

static const char *const append_sql[] = {
    "SELECT {append}('sql', 't')",
    "SELECT {append_batch}('[{\"stream\":\"sql\",\"type\":\"t\"}]')",
    "SELECT {append_arrays}(NULL, '{sql,sql}', '{a,b}', '{1,2}', NULL, NULL, NULL, NULL, NULL, "
    "NULL,"
    " NULL, NULL, NULL)",
    CORRECT_SQL,
    "SELECT {retract}((SELECT id FROM {events} WHERE global_sequence = 1), 'r')",
};

static void assert_loud(int s, const howdah_error *err)
{
    assert_int_equal(s, HOWDAH_SCHEMA);
    assert_int_equal(err->flags, 0);
    assert_non_null(strstr(err->message, BEHIND));
    assert_non_null(strstr(err->advice, "howdah migrate up"));
}

/* Whoever appends from now on is told, and nothing is stored. */
static void assert_everybody_is_told(const pgt *t, howdah_bus *bus)
{
    int64_t before = pgt_count(t);

    for (size_t i = 0; i < sizeof appends / sizeof appends[0]; i++) {
        howdah_error err = HOWDAH_ERROR_INIT;

        assert_loud(appends[i](t, bus, &err), &err);
    }
    assert_int_equal(pgt_count(t), before);
}

static void assert_sql_is_told(const pgt *t)
{
    int64_t before = pgt_count(t);

    for (size_t i = 0; i < sizeof append_sql / sizeof append_sql[0]; i++)
        assert_string_equal(pgt_state(t, t->admin, "%s", append_sql[i]), "UH008");
    assert_int_equal(pgt_count(t), before);
}

/* ---- notes of a migration */

typedef struct notes {
    int n;
    char text[200];
} notes;

static void on_note(void *ctx, const char *text)
{
    notes *all = ctx;

    all->n++;
    (void)snprintf(all->text, sizeof all->text, "%s", text);
}

static notes migrate(howdah_bus *bus)
{
    howdah_migrate_options o = HOWDAH_MIGRATE_OPTIONS_INIT;
    notes all = {0, ""};

    o.note = on_note;
    o.note_ctx = &all;
    pgt_ok(howdah_migrate(bus, &o, &pgt_error));
    return all;
}

/* ---- cases */

static void forty_appends_to_a_copy_are_refused_and_after_migrate_up_stored_and_delivered(
    void **state)
{
    const pgt *t = *state;
    howdah_bus *bus;

    make_copy(t);
    bus = pgt_open(t, t->url);
    for (int i = 0; i < EVENTS; i++) {
        howdah_error err = HOWDAH_ERROR_INIT;

        assert_loud(append_single(t, bus, &err), &err);
        assert_string_equal(err.message, BEHIND "it is at 3, and numbers up to 24 are done");
    }
    assert_int_equal(pgt_count(t), 4);
    assert_int_equal(last_value(t), 3);
    assert_string_equal(migrate(t->bus).text, "sequence raised from 3 to 24");
    for (int i = 0; i < EVENTS; i++) /* the same session goes on */
        assert_int_equal(pgt_append(bus, "s").global_sequence, 25 + i);
    assert_int_equal(deliver(t, "p"), EVENTS);
    howdah_close(bus);
}

static void every_face_refuses_numbers_that_are_done(void **state)
{
    const pgt *t = *state;
    howdah_bus *bus;

    make_copy(t);
    bus = pgt_open(t, t->url);
    assert_everybody_is_told(t, bus);
    assert_sql_is_told(t);
    assert_int_equal(last_value(t), 3);
    howdah_close(bus);
    pgt_run(t, t->admin, "DROP TABLE public.sequence_old");
}

static void a_copy_whose_numbers_all_are_events_collides_loudly_on_every_face(void **state)
{
    const pgt *t = *state;
    howdah_bus *bus = pgt_open(t, t->url);

    for (int i = 0; i < 3000; i += 1000)
        assert_int_equal(append_many(t->bus, 1000, &pgt_error), HOWDAH_OK);
    assert_true(deliver(t, "p") == 3000);
    (void)pgt_append(bus, "s"); /* its session looked while all was well */
    pgt_run(t, t->admin, "SELECT setval('{events_global_sequence_seq}', 3)");
    assert_everybody_is_told(t, bus);
    assert_sql_is_told(t);
    assert_string_equal(pgt_text(t, t->admin, "SELECT {sequence_problem}() IS NULL"), "t");
    assert_non_null(strstr(migrate(t->bus).text, "to 3001"));
    assert_int_equal(pgt_append(bus, "s").global_sequence, 3002);
    howdah_close(bus);
    pgt_run(t, t->admin, "DROP TABLE public.sequence_old");
}

/* A number that is not drawn yet is not done. */
static void a_row_above_the_sequence_harms_no_append_until_its_number_is_drawn(void **state)
{
    const pgt *t = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *bus;

    (void)pgt_append(t->bus, "s");
    assert_int_equal(deliver(t, "p"), 1);
    pgt_run(t, t->admin,
            "INSERT INTO {events} (global_sequence, stream, version, type, data)"
            " VALUES (10, 'raw', 1, 't', '{}')");
    bus = pgt_open(t, t->url);
    for (int i = 2; i < 6; i++)
        assert_int_equal(pgt_append(bus, "s").global_sequence, i);
    for (int i = 6; i < 10; i++)
        assert_string_equal(pgt_state(t, t->admin, "SELECT {append}('sql', 't')"), "00000");
    assert_loud(append_single(t, bus, &err), &err);
    assert_string_equal(err.sqlstate, "23505");
    pgt_run(t, t->admin, "SELECT setval('{events_global_sequence_seq}', 9)");
    assert_string_equal(pgt_state(t, t->admin, "SELECT {append}('sql', 't')"), "UH008");
    pgt_run(t, t->admin, "SELECT setval('{events_global_sequence_seq}', 9)");
    assert_string_equal(migrate(t->bus).text, "sequence raised from 9 to 10");
    assert_int_equal(pgt_append(bus, "s").global_sequence, 11);
    howdah_close(bus);
}

static void numbers_that_a_subscription_is_outstanding_are_not_done(void **state)
{
    const pgt *t = *state;

    for (int i = 0; i < 3; i++)
        (void)pgt_append(t->bus, "s");
    pgt_run(t, t->admin,
            "INSERT INTO {subscriptions} (subscriber_id, high, outstanding) VALUES ('p', 9, "
            "'{2,2,4,9}')");
    assert_string_equal(pgt_text(t, t->admin, "SELECT {sequence_problem}()"), "NULL");
    pgt_run(t, t->admin, "UPDATE {subscriptions} SET outstanding = '{2,4,6,9}'");
    assert_string_equal(pgt_text(t, t->admin, "SELECT {sequence_problem}()"),
                        BEHIND "it is at 3, and numbers up to 9 are done");
    /* 5 is an event: then only 4 and 6 to 9 are to come, and they are outstanding. */
    pgt_run(t, t->admin,
            "INSERT INTO {events} (global_sequence, stream, version, type, data)"
            " VALUES (5, 'raw', 1, 't', '{}')");
    assert_string_equal(pgt_text(t, t->admin, "SELECT {sequence_problem}()"), "NULL");
    /* An outstanding number that is an event counts once. */
    pgt_run(t, t->admin, "UPDATE {subscriptions} SET outstanding = '{5,9}'");
    assert_string_not_equal(pgt_text(t, t->admin, "SELECT {sequence_problem}()"), "NULL");
    /* What stands still is outstanding, too. */
    pgt_run(t, t->admin, "UPDATE {subscriptions} SET outstanding = '{6,6}', still = '{4,4,7,9}'");
    assert_string_equal(pgt_text(t, t->admin, "SELECT {sequence_problem}()"), "NULL");
}

static void a_sequence_that_never_gave_a_number_is_behind_too(void **state)
{
    const pgt *t = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *bus;

    pgt_run(t, t->admin, "INSERT INTO {subscriptions} (subscriber_id, high) VALUES ('p', 1)");
    bus = pgt_open(t, t->url);
    assert_loud(append_single(t, bus, &err), &err);
    assert_string_equal(pgt_state(t, t->admin, "%s", append_sql[0]), "UH008");
    assert_string_equal(migrate(t->bus).text, "sequence raised from 0 to 1");
    assert_int_equal(pgt_append(bus, "s").global_sequence, 2);
    howdah_close(bus);
}

static void migrating_never_lowers_and_says_nothing_when_all_is_well(void **state)
{
    const pgt *t = *state;

    make_copy(t);
    assert_int_equal(migrate(t->bus).n, 1);
    assert_int_equal(migrate(t->bus).n, 0);
    draw_in_vain(t, 5);
    assert_int_equal(migrate(t->bus).n, 0);
    assert_int_equal(last_value(t), 29);
}

/* The repair waits for those who have drawn a number. */
static void an_append_under_way_ends_before_the_sequence_is_raised(void **state)
{
    const pgt *t = *state;
    PGconn *writer = pgt_session(t->url);
    int status = -1;
    int64_t number;
    pid_t pid;

    (void)pgt_append(t->bus, "s");
    pgt_run(t, t->admin,
            "INSERT INTO {events} (global_sequence, stream, version, type, data)"
            " VALUES (10, 'raw', 1, 't', '{}')");
    pgt_run(t, writer, "BEGIN");
    number = pgt_number(t, writer, "SELECT global_sequence FROM {append}('w', 't')");
    assert_int_equal(number, 2);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        howdah_bus *bus = pgt_open(t, t->url);

        _exit(strcmp(migrate(bus).text, "sequence raised from 12 to 15") == 0 ? 0 : 1);
    }
    pgt_wait_for(t, t->admin, 1,
                 "SELECT count(*) FROM pg_locks WHERE relation = '{events}'::regclass"
                 " AND mode = 'ShareRowExclusiveLock' AND NOT granted");
    /* What it stores counts, and so does what it draws. */
    pgt_run(t, writer,
            "INSERT INTO {events} (global_sequence, stream, version, type, data)"
            " VALUES (15, 'raw', 2, 't', '{}')");
    pgt_run(t, writer, "SELECT setval('{events_global_sequence_seq}', 12)");
    pgt_run(t, writer, "COMMIT");
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    PQfinish(writer);
    assert_int_equal(last_value(t), 15);
}

/* ---- who reports it */

static int on_step(void *ctx, const howdah_migration_info *step)
{
    bool *pending = ctx;

    if (strcmp(step->name, "sequence") == 0)
        *pending = step->applied_at_us == HOWDAH_NO_TIME;
    return 0;
}

static bool is_pending(howdah_bus *bus)
{
    bool pending = false;

    pgt_ok(howdah_migrations_walk(bus, on_step, &pending, &pgt_error));
    return pending;
}

typedef struct found {
    howdah_severity severity;
    char message[300];
    char advice[200];
} found;

static int on_finding(void *ctx, const howdah_finding *finding)
{
    found *f = ctx;

    if (strcmp(finding->check, "numbers") != 0)
        return 0;
    f->severity = finding->severity;
    (void)snprintf(f->message, sizeof f->message, "%s", finding->message);
    (void)snprintf(f->advice, sizeof f->advice, "%s", finding->advice);
    return 0;
}

static void assert_found(const pgt *t, howdah_severity severity, const char *message)
{
    howdah_bus *bus = pgt_open(t, t->url);
    found doctor = {.message = ""};
    found verify = {.message = ""};

    pgt_ok(howdah_doctor(t->url, t->settings, on_finding, &doctor, &pgt_error));
    pgt_ok(howdah_verify(bus, on_finding, &verify, &pgt_error));
    assert_int_equal(doctor.severity, severity);
    assert_int_equal(verify.severity, severity);
    assert_string_equal(doctor.message, message);
    assert_string_equal(verify.message, message);
    assert_int_equal(strstr(doctor.advice, "howdah migrate up") != NULL, severity != HOWDAH_GOOD);
    assert_int_equal(is_pending(bus), severity != HOWDAH_GOOD);
    howdah_close(bus);
}

static void doctor_verify_and_migrate_status_tell_both_forms_and_the_repair(void **state)
{
    const pgt *t = *state;

    make_copy(t);
    assert_found(t, HOWDAH_BAD, BEHIND "it is at 3, and numbers up to 24 are done");
    (void)migrate(t->bus);
    assert_found(t, HOWDAH_GOOD, "the numbers in use reach 24, and the log's sequence 24");
    pgt_run(t, t->admin,
            "INSERT INTO {events} (global_sequence, stream, version, type, data)"
            " VALUES (30, 'raw', 1, 't', '{}')");
    assert_found(t, HOWDAH_WARNING,
                 "number 30 is in use, and the log's sequence is at 24: appends will collide when "
                 "it gets there");
    (void)migrate(t->bus);
    assert_found(t, HOWDAH_GOOD, "the numbers in use reach 30, and the log's sequence 30");
}

static const struct CMUnitTest tests[] = {
    PGT_TEST(forty_appends_to_a_copy_are_refused_and_after_migrate_up_stored_and_delivered),
    PGT_TEST(every_face_refuses_numbers_that_are_done),
    PGT_TEST(a_copy_whose_numbers_all_are_events_collides_loudly_on_every_face),
    PGT_TEST(a_row_above_the_sequence_harms_no_append_until_its_number_is_drawn),
    PGT_TEST(numbers_that_a_subscription_is_outstanding_are_not_done),
    PGT_TEST(a_sequence_that_never_gave_a_number_is_behind_too),
    PGT_TEST(migrating_never_lowers_and_says_nothing_when_all_is_well),
    PGT_TEST(an_append_under_way_ends_before_the_sequence_is_raised),
    PGT_TEST(doctor_verify_and_migrate_status_tell_both_forms_and_the_repair),
};

PGT_MAIN("pg sequence", tests)
