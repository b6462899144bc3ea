/*
 * test_reserved.c - handlers that are quicker than the store: on PostgreSQL their process reserves
 * the group and takes ranges of the log.  Whether it has, the admin's connection tells.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "conformance.h"

#define NAME "mails"
#define STREAMS 97
/* More than are dealt in lots before a process reserves; elsewhere there is nothing to reserve. */
#define EVENTS_MAX 15000
#define EVENTS (cf_is_pg() ? EVENTS_MAX : 3000)
#define BATCH 40

/* ---- helpers */

/* What handlers have seen. */
typedef struct seen {
    atomic_int times[EVENTS_MAX + 2]; /* of each event */
    atomic_llong last[STREAMS];       /* of each stream */
    atomic_int running[STREAMS];
    atomic_int n;
    atomic_int odd;        /* what must not happen, has: a line */
    atomic_llong fails;    /* this one does, */
    atomic_int fails_left; /* so often */
    atomic_llong slow;     /* this one takes until it is let go */
    int64_t slow_from;     /* or all from this one on */
    atomic_bool is_slow;
    atomic_bool go;
    atomic_int attempt_of_failed;
    const atomic_int *others; /* how far another subscription is, */
    int others_at_start;      /* was when this one began, */
    int others_at_end;        /* and was when this one had seen everything */
    int stop_at;              /* the runner is told to stop after so many */
    howdah_bus *bus;
} seen;

static seen *new_seen(const cf *c)
{
    seen *s = calloc(1, sizeof *s);

    assert_non_null(s);
    s->bus = c->bus;
    return s;
}

static void note(seen *s, const howdah_event *event)
{
    int64_t number = howdah_event_global_sequence(event);
    long stream = strtol(howdah_event_stream(event) + 1, NULL, 10);

    if (number < 1 || number > EVENTS + 1 || atomic_fetch_add(&s->times[number], 1) > 0 ||
        atomic_exchange(&s->last[stream], number) > number)
        atomic_store(&s->odd, __LINE__);
}

static int on_event(void *ctx, const howdah_event *event, howdah_delivery *delivery)
{
    seen *s = ctx;
    int64_t number = howdah_event_global_sequence(event);
    long stream = strtol(howdah_event_stream(event) + 1, NULL, 10);
    int result = HOWDAH_HANDLED;

    if (atomic_fetch_add(&s->running[stream], 1) > 0)
        atomic_store(&s->odd, __LINE__);
    if (number == atomic_load(&s->slow) || (s->slow_from > 0 && number >= s->slow_from)) {
        atomic_store(&s->is_slow, true);
        while (!atomic_load(&s->go))
            usleep(1000);
    }
    if (atomic_load(&s->is_slow) && !atomic_load(&s->go))
        usleep(5000); /* so that there is something left for who comes */
    if (number == atomic_load(&s->fails) && atomic_fetch_sub(&s->fails_left, 1) > 0) {
        atomic_store(&s->attempt_of_failed, howdah_delivery_attempt(delivery));
        result = howdah_delivery_fail(delivery, "no");
    } else {
        int n;

        note(s, event);
        n = atomic_fetch_add(&s->n, 1) + 1;
        if (n == 1 && s->others)
            s->others_at_start = atomic_load(s->others);
        if (n == EVENTS && s->others)
            s->others_at_end = atomic_load(s->others);
        if (n == s->stop_at)
            howdah_interrupt(s->bus);
    }
    atomic_fetch_sub(&s->running[stream], 1);
    return result;
}

static void append_all(howdah_bus *bus)
{
    const howdah_event *list[1000];
    howdah_builder *builder = NULL;

    cf_ok(howdah_builder_new(&builder, &cf_error));
    for (int done = 0; done < EVENTS; done += 1000) {
        for (int i = 0; i < 1000; i++) {
            char stream[16];
            howdah_event *event = NULL;

            (void)snprintf(stream, sizeof stream, "s%d", (done + i) % STREAMS);
            howdah_builder_set_stream(builder, stream);
            howdah_builder_set_type(builder, "t.x");
            cf_ok(howdah_builder_build(builder, &event, &cf_error));
            list[i] = event;
        }
        cf_ok(howdah_append_batch(bus, list, 1000, NULL, NULL, &cf_error));
        for (int i = 0; i < 1000; i++)
            howdah_event_free((howdah_event *)(uintptr_t)list[i]);
    }
    howdah_builder_free(builder);
}

static howdah_subscription *subscribe(howdah_bus *bus, seen *s)
{
    howdah_subscribe_options o = HOWDAH_SUBSCRIBE_OPTIONS_INIT;
    howdah_subscription *sub = NULL;

    o.subscriber_id = NAME;
    o.handler = on_event;
    o.ctx = s;
    o.instance = HOWDAH_INSTANCE_SHARED;
    o.concurrency = 4;
    o.catch_up_batch = BATCH;
    o.retry_delay_ms = 1;
    cf_ok(howdah_subscribe(bus, &o, &sub, &cf_error));
    return sub;
}

/* Whether the group was ever reserved. */
static void check_reserved(const cf *c)
{
    if (cf_is_pg())
        assert_int_equal(cf_sql_number(c, "SELECT count(reserved_at) FROM {groups}"), 1);
}

static void wait_until(const seen *s, int n)
{
    int64_t until = hw_clock_mono_ms() + CF_PATIENCE_MS;

    while (atomic_load(&s->n) < n && hw_clock_mono_ms() < until)
        usleep(1000);
    assert_true(atomic_load(&s->n) >= n);
}

/* ---- alone */

static void quick_handlers_see_everything_once_and_streams_in_order(void **state)
{
    cf *c = *state;
    seen *s = new_seen(c);

    append_all(c->bus);
    (void)subscribe(c->bus, s);
    cf_ok(howdah_runner_start(c->bus, 4, &cf_error));
    wait_until(s, EVENTS);
    cf_ok(howdah_runner_stop(c->bus, &cf_error));
    check_reserved(c);
    assert_int_equal(s->n, EVENTS);
    assert_int_equal(s->odd, 0);
    free(s);
}

static void an_event_that_fails_is_tried_again_and_counted(void **state)
{
    cf *c = *state;
    seen *s = new_seen(c);

    append_all(c->bus);
    s->fails = EVENTS * 3 / 4;
    s->fails_left = 2;
    (void)subscribe(c->bus, s);
    cf_ok(howdah_runner_start(c->bus, 4, &cf_error));
    wait_until(s, EVENTS);
    cf_ok(howdah_runner_stop(c->bus, &cf_error));
    check_reserved(c);
    assert_int_equal(s->n, EVENTS);
    assert_int_equal(s->odd, 0);
    assert_int_equal(s->attempt_of_failed, 2);
    free(s);
}

static void what_is_done_when_it_stops_does_not_come_again(void **state)
{
    cf *c = *state;
    seen *s = new_seen(c);
    int before;

    append_all(c->bus);
    (void)subscribe(c->bus, s);
    s->stop_at = EVENTS * 2 / 3;
    cf_ok(howdah_runner_start(c->bus, 4, &cf_error));
    assert_int_equal(howdah_runner_wait(c->bus, CF_PATIENCE_MS, &cf_error), HOWDAH_INTERRUPTED);
    cf_ok(howdah_runner_stop(c->bus, &cf_error));
    check_reserved(c);
    before = s->n;
    assert_in_range(before, s->stop_at, EVENTS - 1);
    howdah_interrupt_clear(c->bus);
    cf_ok(howdah_runner_start(c->bus, 4, &cf_error));
    wait_until(s, EVENTS);
    cf_ok(howdah_runner_stop(c->bus, &cf_error));
    assert_int_equal(s->n, EVENTS);
    assert_int_equal(s->odd, 0);
    free(s);
}

/* A reservation outlives the head of the log for a moment, for the case that more comes; then the
   group is everybody's, and its handlers sleep. */
static void a_reservation_ends_when_the_log_is_quiet(void **state)
{
    cf *c = *state;
    seen *s = new_seen(c);
    howdah_bus *other = cf_open(c);
    int64_t until;

    append_all(c->bus);
    (void)subscribe(c->bus, s);
    cf_ok(howdah_runner_start(c->bus, 4, &cf_error));
    wait_until(s, EVENTS);
    until = hw_clock_mono_ms() + CF_PATIENCE_MS;
    while (cf_is_pg() && hw_clock_mono_ms() < until &&
           cf_sql_number(c, "SELECT count(*) FROM {groups} WHERE reserved <> 0") > 0)
        usleep(1000);
    check_reserved(c);
    if (cf_is_pg())
        assert_int_equal(cf_sql_number(c, "SELECT count(*) FROM {groups} WHERE reserved = 0"), 1);
    (void)cf_append(other, "s1", "t.x", NULL);
    wait_until(s, EVENTS + 1);
    cf_ok(howdah_runner_stop(c->bus, &cf_error));
    howdah_close(other);
    assert_int_equal(s->n, EVENTS + 1);
    assert_int_equal(s->odd, 0);
    free(s);
}

/* Touched by the one thread that has it. */
static int on_other_event(void *ctx, const howdah_event *event, howdah_delivery *delivery)
{
    (void)event;
    (void)delivery;
    (void)atomic_fetch_add((atomic_int *)ctx, 1);
    return HOWDAH_HANDLED;
}

/* With a single thread: it must not stay with whoever has much to do. */
static void a_group_with_much_to_do_leaves_its_threads_to_others(void **state)
{
    cf *c = *state;
    seen *s = new_seen(c);
    howdah_subscribe_options o = HOWDAH_SUBSCRIBE_OPTIONS_INIT;
    howdah_subscription *other = NULL;
    atomic_int others = 0;
    int64_t until;

    append_all(c->bus);
    (void)subscribe(c->bus, s);
    o.subscriber_id = "other";
    o.handler = on_other_event;
    o.ctx = &others;
    cf_ok(howdah_subscribe(c->bus, &o, &other, &cf_error));
    s->others = &others;
    cf_ok(howdah_runner_start(c->bus, 1, &cf_error));
    until = hw_clock_mono_ms() + CF_PATIENCE_MS;
    while (atomic_load(&others) < EVENTS && hw_clock_mono_ms() < until)
        usleep(1000);
    wait_until(s, EVENTS);
    assert_int_equal(others, EVENTS);
    assert_true(s->others_at_end > s->others_at_start); /* it did not wait for the whole group */
    cf_ok(howdah_runner_stop(c->bus, &cf_error));
    assert_int_equal(s->odd, 0);
    free(s);
}

/* ---- others come */

/* A member on a bus of its own takes all that it gets, until everything is handled. */
static int take_part(const cf *c, seen *s)
{
    howdah_member_options o = HOWDAH_MEMBER_OPTIONS_INIT;
    howdah_bus *bus = cf_open(c);
    howdah_member *member = NULL;
    int64_t until = hw_clock_mono_ms() + CF_PATIENCE_MS;
    int got = 0;

    o.subscriber_id = NAME;
    cf_ok(howdah_member_new(bus, &o, &member, &cf_error));
    while (atomic_load(&s->n) < EVENTS && hw_clock_mono_ms() < until) {
        howdah_batch *batch = NULL;
        int taken = howdah_member_fetch(member, 20, &batch, &cf_error);

        if (taken == HOWDAH_END)
            continue;
        cf_ok(taken);
        for (size_t i = 0; i < howdah_batch_size(batch); i++)
            note(s, howdah_batch_event(batch, i));
        got += (int)howdah_batch_size(batch);
        cf_ok(howdah_batch_ack(batch, &cf_error));
        (void)atomic_fetch_add(&s->n, (int)howdah_batch_size(batch));
        howdah_batch_free(batch);
        atomic_store(&s->go, true);
    }
    howdah_member_free(member);
    howdah_close(bus);
    return got;
}

/* all: each of the process's threads has an event that takes long; else one. */
static void let_one_come(cf *c, bool all)
{
    seen *s = new_seen(c);

    append_all(c->bus);
    (void)subscribe(c->bus, s);
    s->slow = EVENTS * 3 / 4; /* until the other one has got something */
    s->slow_from = all ? EVENTS * 3 / 4 : 0;
    cf_ok(howdah_runner_start(c->bus, 4, &cf_error));
    while (!atomic_load(&s->is_slow))
        usleep(1000);
    assert_true(take_part(c, s) > 0);
    wait_until(s, EVENTS);
    cf_ok(howdah_runner_stop(c->bus, &cf_error));
    check_reserved(c);
    assert_int_equal(s->n, EVENTS);
    assert_int_equal(s->odd, 0);
    free(s);
}

static void a_member_that_comes_gets_its_share(void **state)
{
    let_one_come(*state, false);
}

static void a_member_gets_its_share_while_all_handlers_of_another_process_take_long(void **state)
{
    let_one_come(*state, true);
}

static const struct CMUnitTest tests[] = {
    CF_SUB_TEST(quick_handlers_see_everything_once_and_streams_in_order),
    CF_SUB_TEST(an_event_that_fails_is_tried_again_and_counted),
    CF_SUB_TEST(what_is_done_when_it_stops_does_not_come_again),
    CF_SUB_TEST(a_reservation_ends_when_the_log_is_quiet),
    CF_SUB_TEST(a_group_with_much_to_do_leaves_its_threads_to_others),
    CF_SUB_TEST(a_member_that_comes_gets_its_share),
    CF_SUB_TEST(a_member_gets_its_share_while_all_handlers_of_another_process_take_long),
};

cf_group cf_reserved_tests(void)
{
    return CF_GROUP(tests);
}
