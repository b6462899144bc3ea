/* test_schema.c - creating, migrating and checking the schema. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conformance.h"

static void the_schema_is_created_once_and_again_does_nothing(void **state)
{
    cf *c = *state;
    howdah_bus *bus = cf_open_admin(c);

    cf_ok(howdah_migrate(bus, NULL, &cf_error));
    (void)cf_append(bus, "s", "t", NULL);
    cf_ok(howdah_migrate(bus, NULL, &cf_error));
    assert_int_equal(cf_count(bus), 1);
    howdah_close(bus);
}

static void the_global_sequence_is_a_column_with_a_default(void **state)
{
    cf *c = *state;

    cf_sql(c, "INSERT INTO {events} (stream, version, type, data) VALUES ('r', 1, 't', '{}')");
    assert_int_equal(cf_sql_number(c, "SELECT global_sequence FROM {events}"), 1);
    assert_int_equal(cf_append(c->bus, "r", "t", NULL).version, 2);
}

static int count_step(void *ctx, const howdah_migration_info *step)
{
    int *counts = ctx;

    counts[step->applied_at_us != HOWDAH_NO_TIME]++;
    assert_int_equal(strlen(step->hash), 64);
    assert_false(step->changed);
    assert_false(step->unknown);
    return 0;
}

static void the_status_tells_which_steps_are_applied(void **state)
{
    cf *c = *state;
    howdah_bus *bus = cf_open_admin(c);
    int counts[2] = {0, 0};
    int known;

    cf_ok(howdah_migrations_walk(bus, count_step, counts, &cf_error));
    assert_int_equal(counts[1], 0);
    known = counts[0];
    assert_true(known >= 1);
    cf_ok(howdah_migrate(bus, NULL, &cf_error));
    counts[0] = counts[1] = 0;
    cf_ok(howdah_migrations_walk(bus, count_step, counts, &cf_error));
    assert_int_equal(counts[0], 0);
    assert_int_equal(counts[1], known);
    howdah_close(bus);
}

static void expect_schema_error(int status, const howdah_error *err)
{
    assert_int_equal(status, HOWDAH_SCHEMA);
    assert_int_equal(howdah_status_exit_code(status), 8);
    assert_non_null(strstr(err->advice, "howdah init"));
}

static void without_a_schema_every_call_says_howdah_init(void **state)
{
    cf *c = *state;
    howdah_bus *bus = cf_open_admin(c);
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_event *event = cf_event("s", "t", NULL);
    howdah_reader *reader = NULL;
    howdah_tail *tail = NULL;
    howdah_event *back = NULL;
    howdah_position p = HOWDAH_POSITION_INIT;

    expect_schema_error(howdah_append(bus, event, NULL, &p, &err), &err);
    expect_schema_error(howdah_reader_open_since(bus, 0, &reader, &err), &err);
    expect_schema_error(howdah_event_get_last(bus, "s", &back, &err), &err);
    expect_schema_error(howdah_tail_open(bus, NULL, &tail, &err), &err);
    cf_ok(howdah_migrate(bus, NULL, &cf_error));
    cf_ok(howdah_append(bus, event, NULL, &p, &cf_error));
    howdah_event_free(event);
    howdah_close(bus);
}

static void a_changed_step_is_refused_and_nothing_is_done(void **state)
{
    cf *c = *state;
    howdah_bus *bus = cf_open_admin(c);
    howdah_error err = HOWDAH_ERROR_INIT;
    int s;

    cf_sql(c, "UPDATE {migrations} SET hash = 'xx' WHERE number = 1");
    s = howdah_migrate(bus, NULL, &err);
    assert_int_equal(s, HOWDAH_SCHEMA);
    assert_non_null(strstr(err.message, "step 1"));
    howdah_close(bus);
}

static void a_newer_schema_is_refused(void **state)
{
    cf *c = *state;
    howdah_bus *bus = cf_open_admin(c);
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_event *event = cf_event("s", "t", NULL);
    howdah_position p = HOWDAH_POSITION_INIT;

    cf_sql(c, cf_is_pg() ? "INSERT INTO {migrations} (number, name, hash) VALUES (99, 'later', 'y')"
                         : "INSERT INTO {migrations} (number, name, hash, applied_at)"
                           " VALUES (99, 'later', 'y', 0)");
    assert_int_equal(howdah_migrate(bus, NULL, &err), HOWDAH_SCHEMA);
    assert_non_null(strstr(err.message, "99"));
    howdah_close(bus);
    bus = cf_open(c);
    assert_int_equal(howdah_append(bus, event, NULL, &p, &err), HOWDAH_SCHEMA);
    assert_non_null(strstr(err.advice, "upgrade"));
    howdah_close(bus);
    howdah_event_free(event);
}

static int migrate_in_child(const cf *c)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *bus = NULL;

    if (howdah_open(c->admin_url, c->settings, &bus, &err) < 0)
        return 2;
    return howdah_migrate(bus, NULL, &err) < 0 ? 3 : 0;
}

static void of_several_starters_one_migrates_and_the_others_wait(void **state)
{
    enum { STARTERS = 6 };
    cf *c = *state;
    pid_t pids[STARTERS];
    howdah_bus *bus;
    int counts[2] = {0, 0};

    for (int i = 0; i < STARTERS; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0)
            _exit(migrate_in_child(c));
    }
    for (int i = 0; i < STARTERS; i++) {
        int status = 0;

        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    bus = cf_open_admin(c);
    cf_ok(howdah_migrations_walk(bus, count_step, counts, &cf_error));
    assert_int_equal(counts[0], 0);
    (void)cf_append(bus, "s", "t", NULL);
    howdah_close(bus);
}

static void the_printed_sql_has_every_name_filled_in(void **state)
{
    cf *c = *state;
    char *sql = NULL;

    cf_ok(howdah_migrations_sql(c->admin_url, c->settings, &sql, &cf_error));
    assert_non_null(strstr(sql, "CREATE TABLE"));
    assert_null(strstr(sql, "@schema@"));
    howdah_free(sql);
}

static int find_fact(void *ctx, const howdah_fact *fact)
{
    char *text = ctx;

    if (strcmp(fact->key, "events") == 0 || strcmp(fact->key, "head") == 0) {
        (void)strcat(text, fact->key);
        (void)strcat(text, "=");
        (void)strcat(text, fact->value);
        (void)strcat(text, " ");
        assert_true(fact->number);
    }
    return 0;
}

static void the_status_has_events_and_head(void **state)
{
    cf *c = *state;
    char text[256] = "";

    for (int i = 0; i < 3; i++)
        (void)cf_append(c->bus, "s", "t", NULL);
    cf_ok(howdah_facts_walk(c->bus, find_fact, text, &cf_error));
    assert_string_equal(text, cf_is_owner() ? "events=3 head=3 " : "head=3 ");
}

static int worst_verdict(void *ctx, const howdah_finding *finding)
{
    int *worst = ctx;

    assert_true(strlen(finding->check) > 0);
    assert_true(strlen(finding->message) > 0);
    if (finding->severity != HOWDAH_GOOD)
        assert_true(strlen(finding->advice) > 0);
    if ((int)finding->severity > *worst && strcmp(finding->check, "durability") != 0)
        *worst = (int)finding->severity;
    return 0;
}

static void the_doctor_finds_a_healthy_bus_healthy_and_a_missing_one_ill(void **state)
{
    cf *c = *state;
    int worst = 0;

    cf_ok(howdah_doctor(c->url, c->settings, worst_verdict, &worst, &cf_error));
    assert_true(worst < HOWDAH_BAD);
    cf_ok(howdah_doctor("postgres://127.0.0.1:1/x?connect_timeout=2", c->settings, worst_verdict,
                        &worst, &cf_error));
    assert_int_equal(worst, HOWDAH_BAD);
}

cf_group cf_schema_tests(void)
{
    static const struct CMUnitTest tests[] = {
        CF_TEST_BARE(the_schema_is_created_once_and_again_does_nothing),
        CF_TEST(the_global_sequence_is_a_column_with_a_default),
        CF_TEST_BARE(the_status_tells_which_steps_are_applied),
        CF_TEST_BARE(without_a_schema_every_call_says_howdah_init),
        CF_TEST(a_changed_step_is_refused_and_nothing_is_done),
        CF_TEST(a_newer_schema_is_refused),
        CF_TEST_BARE(of_several_starters_one_migrates_and_the_others_wait),
        CF_TEST_BARE(the_printed_sql_has_every_name_filled_in),
        CF_TEST(the_status_has_events_and_head),
        CF_TEST(the_doctor_finds_a_healthy_bus_healthy_and_a_missing_one_ill),
    };
    return CF_GROUP(tests);
}
