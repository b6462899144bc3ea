/*
 * test_pg_failover.c - the primary is lost and a standby takes its place: what a process remembers
 * of the one must not be held against the other, and one that is not promoted yet is waited for.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "servers.h"
#include "test_pg_help.h"

typedef struct failover {
    pgt *t;
    srv *standby;
    srv_front *front;
    srv_pooler *pooler;
} failover;

static int failover_setup(void **state)
{
    failover *f = calloc(1, sizeof *f);
    void *inner = NULL;

    assert_non_null(f);
    *state = f;
    (void)pgt_setup(&inner);
    f->t = inner;
    f->front = srv_front_new();
    f->standby = srv_standby_new("standby");
    return 0;
}

static int failover_teardown(void **state)
{
    failover *f = *state;
    void *inner = f->t;

    srv_pooler_free(f->pooler);
    srv_free(f->standby);
    srv_front_free(f->front);
    srv_primary_start();
    pgt_reconnect(f->t);
    free(f);
    return pgt_teardown(&inner);
}

static int append_at(howdah_bus *bus, const char *stream, int64_t expected,
                     howdah_position *position, howdah_error *err)
{
    howdah_append_options o = HOWDAH_APPEND_OPTIONS_INIT;
    howdah_event *event = pgt_event(stream);
    int s;

    o.expected_version = expected;
    s = howdah_append(bus, event, &o, position, err);
    howdah_event_free(event);
    return s;
}

/* ---- through a pooler, which hides it */

static void versions_stay_consecutive_when_a_pooler_moves_to_a_server_that_lacks_the_last(
    void **state)
{
    failover *f = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_position position = {0};
    howdah_bus *bus;

    f->pooler = srv_pooler_new(srv_primary_dir(), 1);
    bus = pgt_open(f->t, f->pooler->url);
    (void)pgt_append(bus, "s");
    (void)pgt_append(bus, "s");
    srv_catch_up(f->standby);
    srv_cut_off(f->standby);
    assert_int_equal(pgt_append(bus, "s").version, 3);
    srv_primary_stop();
    srv_promote(f->standby);
    srv_pooler_to(f->pooler, f->standby->dir);
    assert_int_equal(append_at(bus, "s", 3, &position, &err), HOWDAH_CONFLICT);
    assert_int_equal(err.actual_version, 2);
    assert_int_equal(pgt_append(bus, "s").version, 3);
    howdah_close(bus);
}

#define FAILOVER_TEST(name) cmocka_unit_test_setup_teardown(name, failover_setup, failover_teardown)

static const struct CMUnitTest tests[] = {
    FAILOVER_TEST(versions_stay_consecutive_when_a_pooler_moves_to_a_server_that_lacks_the_last),
};

PGT_MAIN("pg failover", tests)
