/* test_race.c - many processes on one bus. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conformance.h"

#define WRITERS 8

typedef struct tally {
    int won[WRITERS];
    int lost[WRITERS];
    int odd[WRITERS]; /* anything but success and conflict */
} tally;

typedef void (*writer)(const cf *c, howdah_bus *bus, int me, tally *t);

/* Runs a writer in processes of its own, each with a handle of its own. */
static void run_writers(const cf *c, int n, writer fn, tally *t)
{
    pid_t pids[WRITERS];

    for (int i = 0; i < n; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0) {
            howdah_bus *bus = cf_open(c);

            fn(c, bus, i, t);
            howdah_close(bus);
            _exit(0);
        }
    }
    for (int i = 0; i < n; i++) {
        int status = 0;

        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

static tally *shared_tally(void)
{
    tally *t = mmap(NULL, sizeof *t, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    assert_true(t != MAP_FAILED);
    return t;
}

#define VERSIONS_MOST 1250 /* 8 writers: 10,000 appends that conflict */

/* Every loser of the function writes to the server's log: fewer of them will do. */
static int64_t versions(void)
{
    return cf_is_owner() ? VERSIONS_MOST : 200;
}

static void fight(const cf *c, howdah_bus *bus, int me, tally *t)
{
    (void)c;
    for (int64_t v = 0; v < versions(); v++) {
        howdah_append_options o = HOWDAH_APPEND_OPTIONS_INIT;
        howdah_error err = HOWDAH_ERROR_INIT;
        howdah_event *event = cf_event("arena", "blow", NULL);
        howdah_position p = HOWDAH_POSITION_INIT;
        int s;

        o.expected_version = v;
        s = howdah_append(bus, event, &o, &p, &err);
        if (s == HOWDAH_OK && p.version == v + 1)
            t->won[me]++;
        else if (s == HOWDAH_CONFLICT && err.actual_version > v)
            t->lost[me]++;
        else
            t->odd[me]++;
        howdah_event_free(event);
    }
}

static void of_ten_thousand_conflicting_appends_exactly_one_wins_each_version(void **state)
{
    cf *c = *state;
    tally *t = shared_tally();
    howdah_reader_options o = HOWDAH_READER_OPTIONS_INIT;
    howdah_reader *reader = NULL;
    const howdah_event *event = NULL;
    int won = 0;
    int lost = 0;
    int64_t version = 0;

    run_writers(c, WRITERS, fight, t);
    for (int i = 0; i < WRITERS; i++) {
        assert_int_equal(t->odd[i], 0);
        won += t->won[i];
        lost += t->lost[i];
    }
    assert_int_equal(won, versions());
    assert_int_equal(lost, versions() * (WRITERS - 1));
    o.stream = "arena";
    cf_ok(howdah_reader_open(c->bus, &o, &reader, &cf_error));
    while (howdah_reader_next(reader, &event, &cf_error) == HOWDAH_OK)
        assert_int_equal(howdah_event_version(event), ++version);
    assert_int_equal(version, versions());
    howdah_reader_close(reader);
    (void)munmap(t, sizeof *t);
}

static void crowd(const cf *c, howdah_bus *bus, int me, tally *t)
{
    (void)c;
    for (int i = 0; i < 100; i++) {
        howdah_event *event = cf_event("crowded", "t", NULL);
        howdah_position p = HOWDAH_POSITION_INIT;

        if (howdah_append(bus, event, NULL, &p, NULL) == HOWDAH_OK)
            t->won[me]++;
        howdah_event_free(event);
    }
}

static void writers_without_expectation_share_a_stream_without_a_gap(void **state)
{
    cf *c = *state;
    tally *t = shared_tally();
    howdah_event *last = NULL;

    run_writers(c, WRITERS, crowd, t);
    for (int i = 0; i < WRITERS; i++)
        assert_int_equal(t->won[i], 100);
    cf_ok(howdah_event_get_last(c->bus, "crowded", &last, &cf_error));
    assert_int_equal(howdah_event_version(last), WRITERS * 100);
    howdah_event_free(last);
    assert_int_equal(cf_count(c->bus), WRITERS * 100);
    (void)munmap(t, sizeof *t);
}

/* Everybody sends the same event: it is stored once, and everybody hears the same position. */
static void echo(const cf *c, howdah_bus *bus, int me, tally *t)
{
    (void)c;
    for (int i = 0; i < 50; i++) {
        howdah_builder *b = NULL;
        howdah_event *event = NULL;
        howdah_position p = HOWDAH_POSITION_INIT;
        char id[HOWDAH_UUID_SIZE];

        (void)snprintf(id, sizeof id, "00000000-0000-7000-8000-%012d", i);
        cf_ok(howdah_builder_new(&b, &cf_error));
        howdah_builder_set_stream(b, "echo");
        howdah_builder_set_type(b, "t");
        howdah_builder_set_id(b, id);
        cf_ok(howdah_builder_build(b, &event, &cf_error));
        if (howdah_append(bus, event, NULL, &p, NULL) != HOWDAH_OK)
            t->odd[me]++;
        else if (!p.already_stored)
            t->won[me]++;
        howdah_event_free(event);
        howdah_builder_free(b);
    }
}

static void the_same_event_from_everybody_is_stored_once(void **state)
{
    cf *c = *state;
    tally *t = shared_tally();
    int won = 0;

    run_writers(c, WRITERS, echo, t);
    for (int i = 0; i < WRITERS; i++) {
        assert_int_equal(t->odd[i], 0);
        won += t->won[i];
    }
    assert_int_equal(won, 50);
    assert_int_equal(cf_count(c->bus), 50);
    (void)munmap(t, sizeof *t);
}

/* The function meets the streams as they come: the server sees after a second that they wait for
 * each other, and the batch is repeated. */
static int crossings(void)
{
    return cf_is_owner() ? 50 : 3;
}

/* Two batches that name the same streams in opposite order must not wait for each other. */
static void cross(const cf *c, howdah_bus *bus, int me, tally *t)
{
    (void)c;
    for (int i = 0; i < crossings(); i++) {
        howdah_event *events[2];

        events[me % 2] = cf_event("left", "t", NULL);
        events[1 - me % 2] = cf_event("right", "t", NULL);
        if (howdah_append_batch(bus, (const howdah_event *const *)events, 2, NULL, NULL, NULL) ==
            HOWDAH_OK)
            t->won[me]++;
        howdah_event_free(events[0]);
        howdah_event_free(events[1]);
    }
}

static void batches_on_the_same_streams_in_opposite_order_all_succeed(void **state)
{
    cf *c = *state;
    tally *t = shared_tally();

    run_writers(c, 4, cross, t);
    for (int i = 0; i < 4; i++)
        assert_int_equal(t->won[i], crossings());
    assert_int_equal(cf_count(c->bus), 8LL * crossings());
    (void)munmap(t, sizeof *t);
}

cf_group cf_race_tests(void)
{
    static const struct CMUnitTest tests[] = {
        CF_TEST(of_ten_thousand_conflicting_appends_exactly_one_wins_each_version),
        CF_TEST(writers_without_expectation_share_a_stream_without_a_gap),
        CF_TEST(the_same_event_from_everybody_is_stored_once),
        CF_TEST(batches_on_the_same_streams_in_opposite_order_all_succeed),
    };
    return CF_GROUP(tests);
}
