/*
 * test_group_live.c - a group at the head of the log, while many append at once and numbers become
 * visible in any order: through handlers in the threads of one process, which reserves the group,
 * and through members with batches of all sizes.  The first argument is the kind of store: sqlite,
 * or pg (inside tools/with-pg).
 */
#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "sqlite_help.h"
#include "test_pg_help.h"

#define NAME "group"
#define WRITERS 8
#define STREAMS 10 /* of each writer */
#define MEMBERS 8
#define ROUNDS 3
#define PATIENCE_MS 60000

static bool on_pg;
static int events_a_round = 1250; /* of each writer */

typedef struct site {
    void *under; /* pgt or place */
    const howdah_settings *settings;
    const char *url;
    howdah_bus *bus;
    /* What the threads have done; asserted by the test's own. */
    atomic_llong handled;
    atomic_llong odd; /* not the next one of its stream */
    atomic_llong failed;
    atomic_llong reached[WRITERS * STREAMS];
    atomic_bool stop;
} site;

typedef struct hand {
    site *site;
    int number;
    pthread_t thread;
} hand;

static int setup(void **state)
{
    site *p = calloc(1, sizeof *p);

    assert_non_null(p);
    assert_int_equal(on_pg ? pgt_setup(&p->under) : place_setup(&p->under), 0);
    p->url = on_pg ? ((pgt *)p->under)->url : ((place *)p->under)->url;
    p->settings = on_pg ? ((pgt *)p->under)->settings : NULL;
    p->bus = on_pg ? pgt_open(p->under, p->url) : open_migrated(p->url);
    *state = p;
    return 0;
}

static int teardown(void **state)
{
    site *p = *state;

    howdah_close(p->bus);
    assert_int_equal(on_pg ? pgt_teardown(&p->under) : place_teardown(&p->under), 0);
    free(p);
    return 0;
}

/* Each event of a stream comes once, after the one before it. */
static void meet(site *p, const howdah_event *event)
{
    long stream = strtol(howdah_event_stream(event) + 1, NULL, 10);
    long long before = atomic_exchange(&p->reached[stream], howdah_event_version(event));

    if (howdah_event_version(event) != before + 1)
        atomic_fetch_add(&p->odd, 1);
    atomic_fetch_add(&p->handled, 1);
}

/* ---- who appends */

static void *write_events(void *arg)
{
    hand *h = arg;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *bus = NULL;
    int s = howdah_open(h->site->url, h->site->settings, &bus, &err);

    for (int i = 0; s >= 0 && i < events_a_round; i++) {
        char stream[16];
        howdah_event *event;

        (void)snprintf(stream, sizeof stream, "s%d", h->number * STREAMS + i % STREAMS);
        event = make_event(stream, "t.x", "{}");
        do {
            s = howdah_append(bus, event, NULL, NULL, &err);
        } while (s < 0 && (err.flags & HOWDAH_RETRYABLE));
        howdah_event_free(event);
    }
    if (s < 0)
        atomic_fetch_add(&h->site->failed, 1);
    howdah_close(bus);
    return NULL;
}

static void append_round(site *p)
{
    hand hands[WRITERS];

    for (int i = 0; i < WRITERS; i++) {
        hands[i] = (hand){.site = p, .number = i};
        assert_int_equal(pthread_create(&hands[i].thread, NULL, write_events, &hands[i]), 0);
    }
    for (int i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_join(hands[i].thread, NULL), 0);
    assert_int_equal(atomic_load(&p->failed), 0);
}

/* Everything that was appended so far is handled, and nothing twice. */
static void expect_all(site *p, int rounds)
{
    int64_t wanted = (int64_t)rounds * WRITERS * events_a_round;
    int64_t until = hw_clock_mono_ms() + PATIENCE_MS;

    while (atomic_load(&p->handled) < wanted && hw_clock_mono_ms() < until)
        (void)usleep(1000);
    assert_int_equal(atomic_load(&p->handled), wanted);
    assert_int_equal(atomic_load(&p->odd), 0);
    assert_int_equal(atomic_load(&p->failed), 0);
}

/* ---- through handlers */

static int on_event(void *ctx, const howdah_event *event, howdah_delivery *delivery)
{
    (void)delivery;
    meet(ctx, event);
    return HOWDAH_HANDLED;
}

static void handlers_at_the_head_of_the_log_get_every_event_once_and_in_order(void **state)
{
    site *p = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_subscribe_options options = HOWDAH_SUBSCRIBE_OPTIONS_INIT;
    howdah_subscription *sub = NULL;

    options.subscriber_id = NAME;
    options.instance = HOWDAH_INSTANCE_SHARED;
    options.concurrency = MEMBERS;
    options.handler = on_event;
    options.ctx = p;
    must(howdah_subscribe(p->bus, &options, &sub, &err), &err);
    must(howdah_runner_start(p->bus, MEMBERS, &err), &err);
    for (int round = 1; round <= ROUNDS; round++) {
        append_round(p);
        expect_all(p, round);
    }
    must(howdah_runner_stop(p->bus, &err), &err);
}

/* ---- through members */

static void *be_a_member(void *arg)
{
    static const int64_t sizes[MEMBERS] = {1, 3, 7, 20, 50, 100, 400, 1000};
    hand *h = arg;
    site *p = h->site;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_member_options options = HOWDAH_MEMBER_OPTIONS_INIT;
    howdah_member *member = NULL;
    howdah_batch *batch = NULL;
    howdah_bus *bus = NULL;
    int s = howdah_open(p->url, p->settings, &bus, &err);

    options.subscriber_id = NAME;
    options.max_events = sizes[h->number];
    if (s >= 0)
        s = howdah_member_new(bus, &options, &member, &err);
    while (s >= 0 && (batch || !atomic_load(&p->stop))) {
        howdah_batch *next = NULL;

        s = batch ? howdah_member_exchange(member, batch, 20, &next, &err)
                  : howdah_member_fetch(member, 20, &next, &err);
        batch = next;
        for (size_t i = 0; s >= 0 && i < howdah_batch_size(batch); i++)
            meet(p, howdah_batch_event(batch, i));
    }
    if (s < 0)
        atomic_fetch_add(&p->failed, 1);
    howdah_batch_free(batch);
    howdah_member_free(member);
    howdah_close(bus);
    return NULL;
}

static void members_at_the_head_of_the_log_get_every_event_once_and_in_order(void **state)
{
    site *p = *state;
    hand hands[MEMBERS];

    for (int i = 0; i < MEMBERS; i++) {
        hands[i] = (hand){.site = p, .number = i};
        assert_int_equal(pthread_create(&hands[i].thread, NULL, be_a_member, &hands[i]), 0);
    }
    for (int round = 1; round <= ROUNDS; round++) {
        append_round(p);
        expect_all(p, round);
    }
    atomic_store(&p->stop, true);
    for (int i = 0; i < MEMBERS; i++)
        assert_int_equal(pthread_join(hands[i].thread, NULL), 0);
    assert_int_equal(atomic_load(&p->failed), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            handlers_at_the_head_of_the_log_get_every_event_once_and_in_order, setup, teardown),
        cmocka_unit_test_setup_teardown(
            members_at_the_head_of_the_log_get_every_event_once_and_in_order, setup, teardown),
    };
    on_pg = argc > 1 && strcmp(argv[1], "pg") == 0;
    if (!on_pg)
        events_a_round = 60; /* each is a transaction that waits for its turn */
    return cmocka_run_group_tests_name("group live", tests, NULL, NULL);
}
