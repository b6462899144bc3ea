/*
 * test_pg_group_cuts.c - members of a group whose connections end at any byte, also in the middle
 * of the two statements that ack a batch and take the next: what was acked never comes again, what
 * was not does, in order, and no call hangs.  Runs with a server of its own: it ends sessions.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <howdah/howdah_groups.h>

#include "base/random.h"
#include "cutproxy.h"
#include "test_pg_help.h"

#define EVENTS 1200
#define STREAMS 8
#define CUTS 24
#define LEASE_MS 300
#define LIMIT_MS 60000

typedef enum fate {
    UNSEEN,
    SEEN,
    MAYBE, /* nobody knows whether it is acked: it may come again */
    ACKED  /* the member was told so */
} fate;

typedef struct ledger {
    fate fates[EVENTS + 1];    /* by number */
    int64_t versions[STREAMS]; /* the highest that was seen */
    int seen;
    int repeated;
    int unknown;
} ledger;

static void take(ledger *l, const howdah_batch *batch)
{
    for (size_t i = 0; i < howdah_batch_size(batch); i++) {
        const howdah_event *event = howdah_batch_event(batch, i);
        int64_t number = howdah_event_global_sequence(event);
        int64_t *highest = &l->versions[atoi(howdah_event_stream(event) + strlen("s-"))];

        assert_in_range(number, 1, EVENTS);
        assert_int_not_equal(l->fates[number], ACKED);
        assert_true(howdah_event_version(event) <= *highest + 1);
        if (howdah_event_version(event) > *highest)
            *highest = howdah_event_version(event);
        l->repeated += l->fates[number] != UNSEEN;
        l->seen += l->fates[number] == UNSEEN;
        l->fates[number] = SEEN;
    }
}

/* Numbers of a batch outlive it: an exchange frees it. */
typedef struct numbers {
    int64_t n;
    int64_t of[EVENTS];
} numbers;

static numbers numbers_of(const howdah_batch *batch)
{
    numbers all = {0};

    for (size_t i = 0; i < howdah_batch_size(batch); i++)
        all.of[all.n++] = howdah_event_global_sequence(howdah_batch_event(batch, i));
    return all;
}

static void mark(ledger *l, const numbers *all, fate f)
{
    for (int64_t i = 0; i < all->n; i++)
        l->fates[all->of[i]] = f;
}

/* The exchange failed: the batch is the caller's, acked or not, and the ack can be repeated.  OK
   and LOST are its only answers, once there is a connection. */
static void ack_again(ledger *l, howdah_batch *batch)
{
    numbers all = numbers_of(batch);
    bool unknown = (pgt_error.flags & HOWDAH_OUTCOME_UNKNOWN) != 0;
    int64_t until = pgt_now_ms() + LIMIT_MS;
    int s;

    l->unknown += unknown;
    do {
        s = howdah_batch_ack(batch, &pgt_error);
        assert_true(s == HOWDAH_OK || s == HOWDAH_LOST || s == HOWDAH_UNAVAILABLE);
        unknown |= s == HOWDAH_UNAVAILABLE && (pgt_error.flags & HOWDAH_OUTCOME_UNKNOWN);
        assert_true(pgt_now_ms() < until);
    } while (s == HOWDAH_UNAVAILABLE);
    if (s == HOWDAH_OK || unknown)
        mark(l, &all, s == HOWDAH_OK ? ACKED : MAYBE);
    howdah_batch_free(batch);
}

/* One batch, or none: *batch is the one at hand before and after. */
static void step(ledger *l, howdah_member *member, howdah_batch **batch)
{
    howdah_batch *next = NULL;
    int s;

    if (!*batch) {
        s = howdah_member_fetch(member, 50, &next, &pgt_error);
    } else {
        numbers done = numbers_of(*batch);

        s = howdah_member_exchange(member, *batch, 50, &next, &pgt_error);
        if (s < 0)
            ack_again(l, *batch);
        else
            mark(l, &done, ACKED);
    }
    assert_true(s == HOWDAH_OK || s == HOWDAH_END || s == HOWDAH_UNAVAILABLE || s == HOWDAH_LOST);
    *batch = s == HOWDAH_OK ? next : NULL;
    if (*batch)
        take(l, *batch);
}

static bool is_done(const ledger *l)
{
    for (int i = 1; i <= EVENTS; i++)
        if (l->fates[i] < MAYBE)
            return false;
    return true;
}

static howdah_member *open_member(howdah_bus *bus)
{
    howdah_member_options o = HOWDAH_MEMBER_OPTIONS_INIT;
    howdah_member *member = NULL;

    o.subscriber_id = "g";
    o.max_events = 7;
    o.lease_ms = LEASE_MS;
    o.max_retries = 1000000;
    o.retry_delay_ms = 1;
    o.max_retry_delay_ms = 5;
    pgt_ok(howdah_member_new(bus, &o, &member, &pgt_error));
    return member;
}

static void fill(const pgt *t)
{
    pgt_batch b = pgt_batch_new("s", EVENTS, STREAMS);

    pgt_ok(howdah_append_batch(t->bus, PGT_EVENTS(&b), b.n, NULL, NULL, &pgt_error));
    pgt_batch_free(&b);
}

static void a_connection_that_ends_at_any_byte_loses_nothing_and_repeats_nothing_acked(void **state)
{
    pgt *t = *state;
    ledger l = {0};
    cutproxy proxy;
    char path[300];
    char url[1200];
    howdah_bus *bus;
    howdah_member *member;
    howdah_batch *batch = NULL;
    int64_t until = pgt_now_ms() + LIMIT_MS;

    fill(t);
    (void)snprintf(path, sizeof path, "%s/.s.PGSQL.%s", PQhost(t->admin), PQport(t->admin));
    assert_true(cutproxy_start(&proxy, path));
    (void)snprintf(url, sizeof url, "postgres://%s@127.0.0.1:%d/%s", PQuser(t->admin), proxy.port,
                   PQdb(t->admin));
    bus = pgt_open(t, url);
    member = open_member(bus);
    for (int i = 0; i < CUTS && !is_done(&l); i++) {
        int fired = cutproxy_fired(&proxy);

        CUTPROXY(&proxy, .how = CUTPROXY_CUT_AFTER, .reset = i % 4 < 2,
                 .client_bytes = i % 2 ? 0 : 1 + hw_random_u32() % 1500,
                 .server_bytes = i % 2 ? 1 + hw_random_u32() % 4000 : 0);
        while (cutproxy_fired(&proxy) == fired && !is_done(&l)) {
            step(&l, member, &batch);
            assert_true(pgt_now_ms() < until);
        }
    }
    CUTPROXY(&proxy, .how = CUTPROXY_PASS);
    while (!is_done(&l)) {
        step(&l, member, &batch);
        assert_true(pgt_now_ms() < until);
    }
    howdah_batch_free(batch);
    print_message("# %d cuts, %d events repeated, %d outcomes unknown\n", cutproxy_fired(&proxy),
                  l.repeated, l.unknown);
    assert_int_equal(l.seen, EVENTS);
    assert_int_equal(cutproxy_fired(&proxy), CUTS);
    assert_int_equal(pgt_number(t, t->admin, "SELECT count(*) FROM {dead_letters}"), 0);
    howdah_member_free(member);
    howdah_close(bus);
    cutproxy_stop(&proxy);
}

/* ---- LOST */

typedef struct scene {
    howdah_bus *bus;
    howdah_member *member;
    howdah_batch *batch;
} scene;

static scene with_a_batch(const pgt *t)
{
    scene s = {.bus = pgt_open(t, t->url)};

    fill(t);
    s.member = open_member(s.bus);
    pgt_ok(howdah_member_fetch(s.member, LIMIT_MS, &s.batch, &pgt_error));
    assert_non_null(s.batch);
    return s;
}

static void end_scene(scene *s)
{
    howdah_batch_free(s->batch);
    howdah_member_free(s->member);
    howdah_close(s->bus);
}

/* Whatever is said about it, nothing changes. */
static void is_lost(const pgt *t, scene *s)
{
    howdah_batch *next = NULL;
    int64_t number = howdah_event_global_sequence(howdah_batch_event(s->batch, 0));

    assert_int_equal(howdah_member_exchange(s->member, s->batch, 0, &next, &pgt_error),
                     HOWDAH_LOST);
    assert_null(next);
    assert_int_equal(pgt_error.flags & HOWDAH_OUTCOME_UNKNOWN, 0);
    assert_int_equal(howdah_batch_ack(s->batch, &pgt_error), HOWDAH_LOST);
    assert_int_equal(howdah_batch_nack(s->batch, number, "no", -1, &pgt_error), HOWDAH_LOST);
    assert_int_equal(howdah_batch_extend(s->batch, 0, &pgt_error), HOWDAH_LOST);
    assert_int_equal(pgt_number(t, t->admin, "SELECT count(*) FROM {dead_letters}"), 0);
    end_scene(s);
}

static void a_batch_whose_lease_ended_and_that_another_has_is_lost(void **state)
{
    pgt *t = *state;
    scene s = with_a_batch(t);
    howdah_bus *bus = pgt_open(t, t->url);
    howdah_member *other = open_member(bus);
    int64_t number = howdah_event_global_sequence(howdah_batch_event(s.batch, 0));
    bool has_it = false;

    while (!has_it) {
        howdah_batch *batch = NULL;

        pgt_ok(howdah_member_fetch(other, LIMIT_MS, &batch, &pgt_error));
        for (size_t i = 0; i < howdah_batch_size(batch); i++)
            has_it |= howdah_event_global_sequence(howdah_batch_event(batch, i)) == number;
        pgt_ok(howdah_batch_ack(batch, &pgt_error));
        howdah_batch_free(batch);
    }
    is_lost(t, &s);
    howdah_member_free(other);
    howdah_close(bus);
}

/* The reset is carried out by the next who fetches; its events come again, from the first on. */
static void a_batch_from_before_a_reset_is_lost_to_who_fetches(void **state)
{
    pgt *t = *state;
    scene s = with_a_batch(t);
    howdah_batch *next = NULL;

    pgt_ok(howdah_subscription_reset(t->bus, "g", 0, &pgt_error));
    assert_int_equal(howdah_member_exchange(s.member, s.batch, 0, &next, &pgt_error), HOWDAH_LOST);
    assert_null(next);
    assert_int_equal(pgt_error.flags & HOWDAH_OUTCOME_UNKNOWN, 0);
    pgt_ok(howdah_member_fetch(s.member, LIMIT_MS, &next, &pgt_error));
    assert_int_equal(howdah_event_version(howdah_batch_event(next, 0)), 1);
    assert_int_equal(howdah_batch_attempt(next), 1);
    howdah_batch_free(next);
    end_scene(&s);
}

static void a_session_that_is_ended_between_two_calls_costs_no_batch(void **state)
{
    pgt *t = *state;
    ledger l = {0};
    howdah_bus *bus = pgt_open(t, t->url);
    howdah_member *member = open_member(bus);
    howdah_batch *batch = NULL;
    int64_t until = pgt_now_ms() + LIMIT_MS;
    int n = 0;

    fill(t);
    while (!is_done(&l)) {
        step(&l, member, &batch);
        if (n++ % 10 == 0)
            (void)pgt_number(t, t->admin,
                             "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                             " WHERE datname = current_database() AND pid <> pg_backend_pid()");
        assert_true(pgt_now_ms() < until);
    }
    assert_int_equal(l.seen, EVENTS);
    howdah_batch_free(batch);
    howdah_member_free(member);
    howdah_close(bus);
}

static const struct CMUnitTest tests[] = {
    PGT_TEST(a_connection_that_ends_at_any_byte_loses_nothing_and_repeats_nothing_acked),
    PGT_TEST(a_batch_whose_lease_ended_and_that_another_has_is_lost),
    PGT_TEST(a_batch_from_before_a_reset_is_lost_to_who_fetches),
    PGT_TEST(a_session_that_is_ended_between_two_calls_costs_no_batch),
};

PGT_MAIN("pg group cuts", tests)
