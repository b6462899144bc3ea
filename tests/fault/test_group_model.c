/*
 * test_group_model.c - thousands of steps of fetch, ack, nack, extend, release, reset, leases that
 * run out, and people who decide about dead letters, beside a naive model.  The first argument is
 * the kind of store: sqlite, or pg (inside tools/with-pg); HOWDAH_TEST_SEED is the first seed,
 * HOWDAH_TEST_STEPS how many steps.
 */
#include <signal.h>

#include "sqlite_help.h"
#include "test_pg_help.h"

#define NAME "group"
#define STREAMS 6
#define EVENTS_MAX 4000
#define HANDS 5
#define BATCH 5
#define LONG_MS 3600000

static bool on_pg;
static howdah_error error = HOWDAH_ERROR_INIT;

typedef enum fate { WAITS, HANDLED, DEAD, DISCARDED } fate;

typedef struct event {
    int stream;
    fate fate;
    bool redrive; /* a dead letter, and a person wants another try */
} event;

/* A batch that somebody has. */
typedef struct hand {
    howdah_batch *batch; /* NULL: none */
    bool expired;        /* its lease has run out: another one may have its events */
    int64_t done;        /* acked up to here */
    int64_t
        failed[STREAMS]; /* from this event of the stream on they have left the batch; 0: none */
} hand;

typedef struct model {
    void *under;
    howdah_bus *bus;
    howdah_member *member;      /* with a lease that lasts, */
    howdah_member *short_lived; /* and with one that does not */
    unsigned seed;
    int max_retries;
    howdah_on_fail on_fail;
    event events[EVENTS_MAX + 1];
    int64_t n;
    int64_t start; /* what is up to here does not concern it */
    hand hands[HANDS];
    int64_t fetched;
    int64_t lost;
    int64_t steps;
} model;

static unsigned roll(model *m, unsigned sides)
{
    return (unsigned)rand_r(&m->seed) % sides; /* NOLINT(cert-msc30-c,cert-msc50-c) */
}

static howdah_member *join(model *m, int64_t lease_ms)
{
    howdah_member_options o = HOWDAH_MEMBER_OPTIONS_INIT;
    howdah_member *member = NULL;

    o.subscriber_id = NAME;
    o.max_events = BATCH;
    o.lanes = 2;
    o.lease_ms = lease_ms;
    o.max_retries = m->max_retries;
    o.on_fail = m->on_fail;
    o.retry_delay_ms = 0;
    must(howdah_member_new(m->bus, &o, &member, &error), &error);
    return member;
}

static int setup_with(void **state, int max_retries, howdah_on_fail on_fail)
{
    model *m = calloc(1, sizeof *m);

    assert_non_null(m);
    m->max_retries = max_retries;
    m->on_fail = on_fail;
    assert_int_equal(on_pg ? pgt_setup(&m->under) : place_setup(&m->under), 0);
    m->bus = on_pg ? pgt_open(m->under, ((pgt *)m->under)->url)
                   : open_migrated(((place *)m->under)->url);
    m->member = join(m, LONG_MS);
    m->short_lived = join(m, 1);
    *state = m;
    return 0;
}

static int setup(void **state)
{
    return setup_with(state, 2, HOWDAH_FAIL_OPEN);
}

static int setup_without_retries(void **state)
{
    return setup_with(state, 0, HOWDAH_FAIL_OPEN);
}

static int setup_that_holds(void **state)
{
    return setup_with(state, 0, HOWDAH_FAIL_HOLD);
}

static int teardown(void **state)
{
    model *m = *state;

    for (int i = 0; i < HANDS; i++)
        howdah_batch_free(m->hands[i].batch);
    howdah_close(m->bus);
    assert_int_equal(on_pg ? pgt_teardown(&m->under) : place_teardown(&m->under), 0);
    free(m);
    return 0;
}

/* ---- what must be true */

#define expect(m, condition, ...)                                                                  \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            print_message("step %lld: ", (long long)(m)->steps);                                   \
            fail_msg(__VA_ARGS__);                                                                 \
        }                                                                                          \
    } while (0)

static int64_t number_at(const howdah_batch *batch, size_t i)
{
    return howdah_event_global_sequence(howdah_batch_event(batch, i));
}

static bool is_to_come(const event *e)
{
    return e->fate == WAITS || e->redrive;
}

/* Nothing has to wait for it. */
static bool is_over(const model *m, const event *e)
{
    return !is_to_come(e) && (e->fate != DEAD || m->on_fail != HOWDAH_FAIL_HOLD);
}

/* Its stream has failed there, or before. */
static bool has_left(const model *m, const hand *h, int64_t number)
{
    int64_t failed = h->failed[m->events[number].stream];

    return failed > 0 && number >= failed;
}

/* Whether the hand may still have that event to itself. */
static bool holds(const model *m, const hand *h, int64_t number)
{
    if (!h->batch || h->expired || number <= h->done || has_left(m, h, number))
        return false;
    for (size_t i = 0; i < howdah_batch_size(h->batch); i++)
        if (number_at(h->batch, i) == number)
            return true;
    return false;
}

/* Nobody else has an event of that stream. */
static void check_alone(model *m, int stream)
{
    for (int k = 0; k < HANDS; k++)
        for (size_t i = 0; m->hands[k].batch && i < howdah_batch_size(m->hands[k].batch); i++) {
            int64_t number = number_at(m->hands[k].batch, i);

            expect(m,
                   m->events[number].stream != stream || !holds(m, &m->hands[k], number) ||
                       !is_to_come(&m->events[number]),
                   "stream %d is given out, and hand %d has %lld of it", stream, k,
                   (long long)number);
        }
}

/* All that is before it in its stream is out of the way, or comes before it in the same batch. */
static void check_order(model *m, const howdah_batch *batch, size_t at)
{
    int64_t number = number_at(batch, at);

    for (int64_t i = m->start + 1; i < number; i++) {
        bool before = m->events[i].stream != m->events[number].stream || is_over(m, &m->events[i]);

        for (size_t k = 0; k < at && !before; k++)
            before = number_at(batch, k) == i;
        expect(m, before, "%lld of stream %d comes before %lld", (long long)number,
               m->events[number].stream, (long long)i);
    }
}

static void check_batch(model *m, const howdah_batch *batch)
{
    for (size_t i = 0; i < howdah_batch_size(batch); i++) {
        int64_t number = number_at(batch, i);

        expect(m, number > m->start && number <= m->n, "%lld does not concern it",
               (long long)number);
        expect(m, is_to_come(&m->events[number]), "%lld is over", (long long)number);
        check_alone(m, m->events[number].stream);
        check_order(m, batch, i);
    }
}

/* HOWDAH_TEST_TRACE=1 tells what was done. */
static void trace(const model *m, const char *what, const howdah_batch *batch, int64_t number)
{
    if (!getenv("HOWDAH_TEST_TRACE"))
        return;
    print_message("# %lld %s %lld %s:", (long long)m->steps, what, (long long)number,
                  batch ? howdah_batch_token(batch) : "");
    for (size_t i = 0; i < howdah_batch_size(batch); i++)
        print_message(" %lld/%d", (long long)number_at(batch, i),
                      m->events[number_at(batch, i)].stream);
    print_message("\n");
}

/* ---- steps */

static void append(model *m)
{
    int n = 1 + (int)roll(m, roll(m, 8) == 0 ? 40 : 4); /* now and then several batches */

    for (int i = 0; i < n && m->n < EVENTS_MAX; i++) {
        char stream[8];
        int which = (int)roll(m, STREAMS);
        howdah_event *made;

        (void)snprintf(stream, sizeof stream, "s%d", which);
        made = make_event(stream, "t", "{}");
        must(howdah_append(m->bus, made, NULL, NULL, &error), &error);
        howdah_event_free(made);
        m->events[++m->n] = (event){.stream = which};
    }
}

static hand *free_hand(model *m)
{
    for (int i = 0; i < HANDS; i++)
        if (!m->hands[i].batch)
            return &m->hands[i];
    return NULL;
}

/* Leases that ran out too often have made dead letters, too. */
static int on_dead_letter(void *ctx, const howdah_dead_letter *dead_letter)
{
    model *m = ctx;
    event *e = &m->events[howdah_event_global_sequence(dead_letter->event)];

    if (e->fate == WAITS)
        e->fate = DEAD;
    e->redrive = strcmp(dead_letter->state, "redrive") == 0;
    return 0;
}

static void learn_of_dead_letters(model *m)
{
    howdah_dead_letters_options o = HOWDAH_DEAD_LETTERS_OPTIONS_INIT;

    o.subscriber_id = NAME;
    must(howdah_dead_letters_walk(m->bus, &o, on_dead_letter, m, &error), &error);
}

static void take_in_hand(model *m, hand *h, howdah_batch *batch, bool short_lived)
{
    learn_of_dead_letters(m);
    if (!batch)
        return;
    trace(m, short_lived ? "fetch for a moment" : "fetch", batch, howdah_batch_attempt(batch));
    check_batch(m, batch);
    *h = (hand){.batch = batch, .expired = short_lived};
    m->fetched++;
    if (short_lived)
        (void)usleep(3000);
}

static void fetch(model *m, bool short_lived)
{
    hand *h = free_hand(m);
    howdah_batch *batch = NULL;

    if (!h)
        return;
    must(howdah_member_fetch(short_lived ? m->short_lived : m->member, 0, &batch, &error), &error);
    take_in_hand(m, h, batch, short_lived);
}

static hand *any_hand(model *m)
{
    hand *h = &m->hands[roll(m, HANDS)];

    return h->batch ? h : NULL;
}

static void drop(hand *h)
{
    howdah_batch_free(h->batch);
    *h = (hand){.batch = NULL};
}

/* LOST is only for who has let its lease run out, or was reset. */
static bool check_lost(model *m, hand *h, int s)
{
    if (s != HOWDAH_LOST) {
        must(s, &error);
        return false;
    }
    expect(m, h->expired, "a lease was lost that lasts");
    m->lost++;
    drop(h);
    return true;
}

static bool is_to_ack(const model *m, const hand *h, int64_t number)
{
    return number > h->done && !has_left(m, h, number) && is_to_come(&m->events[number]);
}

static void handled(event *e)
{
    e->fate = HANDLED;
    e->redrive = false;
}

static void ack(model *m, hand *h, bool all)
{
    size_t n = howdah_batch_size(h->batch);
    int64_t upto = number_at(h->batch, all ? n - 1 : roll(m, (unsigned)n));
    int s =
        all ? howdah_batch_ack(h->batch, &error) : howdah_batch_ack_upto(h->batch, upto, &error);

    trace(m, s == HOWDAH_LOST ? "lost ack" : "ack", h->batch, upto);
    if (check_lost(m, h, s))
        return;
    for (size_t i = 0; i < n && number_at(h->batch, i) <= upto; i++)
        if (is_to_ack(m, h, number_at(h->batch, i)))
            handled(&m->events[number_at(h->batch, i)]);
    h->done = upto > h->done ? upto : h->done;
    for (size_t i = 0; i < n; i++)
        if (number_at(h->batch, i) > h->done && !has_left(m, h, number_at(h->batch, i)))
            return;
    drop(h); /* nothing of it is left */
}

/* Acks all of it and takes the next one, in one call, which frees it. */
static void exchange(model *m, hand *h, bool short_lived)
{
    event *acked[BATCH];
    size_t n = 0;
    howdah_batch *next = NULL;
    int s;

    for (size_t i = 0; i < howdah_batch_size(h->batch); i++)
        if (is_to_ack(m, h, number_at(h->batch, i)))
            acked[n++] = &m->events[number_at(h->batch, i)];
    trace(m, "exchange", h->batch, (int64_t)n);
    s = howdah_member_exchange(short_lived ? m->short_lived : m->member, h->batch, 0, &next,
                               &error);
    if (check_lost(m, h, s))
        return;
    while (n > 0)
        handled(acked[--n]);
    *h = (hand){.batch = NULL};
    take_in_hand(m, h, next, short_lived);
}

static void nack(model *m, hand *h)
{
    int64_t number = number_at(h->batch, roll(m, (unsigned)howdah_batch_size(h->batch)));
    event *e = &m->events[number];
    bool again = howdah_batch_token(h->batch)[0] == 'r';
    int attempt = howdah_batch_attempt(h->batch);
    int s;

    if (number <= h->done || has_left(m, h, number))
        return;
    s = howdah_batch_nack(h->batch, number, "no", -1, &error);
    trace(m, s == HOWDAH_LOST ? "lost nack" : "nack", h->batch, number);
    if (check_lost(m, h, s))
        return;
    for (size_t i = 0; again && number_at(h->batch, i) < number; i++) {
        attempt = 1; /* of the next one in a batch that is tried again */
        if (number_at(h->batch, i) > h->done)
            handled(&m->events[number_at(h->batch, i)]);
    }
    if (attempt > m->max_retries)
        e->fate = DEAD;
    e->redrive = false;
    h->failed[e->stream] = number;
    if (again)
        drop(h);
}

static void release(model *m, hand *h)
{
    trace(m, "release", h->batch, 0);
    if (!check_lost(m, h, howdah_batch_release(h->batch, &error)))
        drop(h);
}

static void extend(model *m, hand *h)
{
    trace(m, "extend", h->batch, 0);
    if (!check_lost(m, h, howdah_batch_extend(h->batch, LONG_MS, &error)))
        h->expired = false;
}

/* Those of before would be taken for new ones. */
static int discard(void *ctx, const howdah_dead_letter *dead_letter)
{
    const model *m = ctx;
    int64_t n = 0;

    must(howdah_dead_letters_discard(m->bus, &dead_letter->id, 1, "a reset", &n, &error), &error);
    return 0;
}

static void reset(model *m)
{
    int64_t to = (int64_t)roll(m, (unsigned)m->n + 1);

    howdah_dead_letters_options o = HOWDAH_DEAD_LETTERS_OPTIONS_INIT;

    o.subscriber_id = NAME;
    must(howdah_dead_letters_walk(m->bus, &o, discard, m, &error), &error);
    must(howdah_subscription_reset(m->bus, NAME, to, &error), &error);
    trace(m, "reset", NULL, to);
    m->start = to;
    for (int64_t i = 1; i <= m->n; i++)
        m->events[i] = (event){.stream = m->events[i].stream};
    for (int i = 0; i < HANDS; i++)
        m->hands[i].expired = true; /* their batches are gone */
}

/* Those that a reset has taken away are only looked at: an ack that comes before the next fetch may
   still be taken for good (store/groups.h I2 speaks of events that were given out again). */
static void after_reset(model *m)
{
    for (int i = 0; i < HANDS; i++)
        drop(&m->hands[i]);
}

/* A person decides about dead letters, some of them. */
static int decide(void *ctx, const howdah_dead_letter *dead_letter)
{
    model *m = ctx;
    event *e = &m->events[howdah_event_global_sequence(dead_letter->event)];
    unsigned what = roll(m, 4);
    int64_t n = 0;

    if (what == 0) {
        must(howdah_dead_letters_discard(m->bus, &dead_letter->id, 1, "no", &n, &error), &error);
        *e = (event){.stream = e->stream, .fate = DISCARDED};
    } else if (what < 3) {
        must(howdah_dead_letters_redrive(m->bus, &dead_letter->id, 1, NULL, &n, &error), &error);
        e->redrive = true;
    }
    trace(m, what == 0 ? "discard" : "redrive", NULL, e - m->events);
    return 0;
}

/* Those that are in hand now are not asked about: whoever has them would not know. */
static void meddle(model *m)
{
    howdah_dead_letters_options o = HOWDAH_DEAD_LETTERS_OPTIONS_INIT;

    for (int64_t i = m->start + 1; i <= m->n; i++)
        if (m->events[i].redrive)
            return;
    o.subscriber_id = NAME;
    must(howdah_dead_letters_walk(m->bus, &o, decide, m, &error), &error);
}

static void step(model *m)
{
    hand *h = any_hand(m);
    unsigned what = roll(m, 100);

    m->steps++;
    if (what < 25)
        append(m);
    else if (what < 60)
        fetch(m, what >= 55);
    else if (what == 60 && m->n > 0) {
        reset(m);
        after_reset(m);
    } else if (what == 61 && m->on_fail == HOWDAH_FAIL_HOLD)
        meddle(m);
    else if (!h)
        return;
    else if (what < 67)
        exchange(m, h, what == 66);
    else if (what < 75)
        ack(m, h, true);
    else if (what < 82)
        ack(m, h, false);
    else if (what < 92)
        nack(m, h);
    else if (what < 96)
        release(m, h);
    else
        extend(m, h);
}

static bool any_is_held(const model *m)
{
    for (int64_t i = m->start + 1; i <= m->n; i++)
        if (m->events[i].fate == DEAD && !is_over(m, &m->events[i]))
            return true;
    return false;
}

/* Everything that is left comes, and nothing else. */
static void drain(model *m)
{
    for (int i = 0; i < HANDS; i++)
        if (m->hands[i].batch)
            ack(m, &m->hands[i], true);
    for (;;) {
        hand *h = &m->hands[0];

        fetch(m, false);
        if (h->batch)
            ack(m, h, true);
        else if (!any_is_held(m))
            break;
        else
            meddle(m);
    }
    for (int64_t i = m->start + 1; i <= m->n; i++)
        expect(m, m->events[i].fate != WAITS, "%lld of stream %d was never given out", (long long)i,
               m->events[i].stream);
}

static void members_get_what_a_naive_model_says(void **state)
{
    model *m = *state;
    const char *seed = getenv("HOWDAH_TEST_SEED");
    const char *steps = getenv("HOWDAH_TEST_STEPS");
    long n = steps ? strtol(steps, NULL, 10) : 3000;

    m->seed = seed ? (unsigned)strtoul(seed, NULL, 10) : 1;
    while (n-- > 0 && m->n < EVENTS_MAX - 4)
        step(m);
    drain(m);
    print_message("# %lld events, %lld batches, %lld of them lost\n", (long long)m->n,
                  (long long)m->fetched, (long long)m->lost);
    assert_true(m->fetched > 100);
}

static void an_event_that_failed_first_and_for_good_stays_a_dead_letter(void **state)
{
    members_get_what_a_naive_model_says(state);
}

static void a_stream_waits_at_each_of_its_dead_letters(void **state)
{
    members_get_what_a_naive_model_says(state);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(members_get_what_a_naive_model_says, setup, teardown),
        cmocka_unit_test_setup_teardown(an_event_that_failed_first_and_for_good_stays_a_dead_letter,
                                        setup_without_retries, teardown),
        cmocka_unit_test_setup_teardown(a_stream_waits_at_each_of_its_dead_letters,
                                        setup_that_holds, teardown),
    };

    on_pg = argc > 1 && strcmp(argv[1], "pg") == 0;
    return cmocka_run_group_tests_name("group model", tests, NULL, NULL);
}
