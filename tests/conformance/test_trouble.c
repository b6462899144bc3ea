/*
 * test_trouble.c - subscriptions when something comes at a bad moment: an operator, an interrupt, a
 * session that cannot be opened, a log with another history.
 */
#include <stdio.h>
#include <string.h>

#include "bus/bus.h"
#include "conformance.h"

typedef struct tale tale;

/* A handler that writes down what it sees and does what the test wants at one number. */
struct tale {
    char text[1024];
    int64_t at;
    int (*act)(tale *t, howdah_delivery *delivery);
    howdah_bus *bus;   /* the subscription's own */
    howdah_bus *other; /* somebody else's */
    const char *message;
};

static int on_event(void *ctx, const howdah_event *event, howdah_delivery *delivery)
{
    tale *t = ctx;
    size_t len = strlen(t->text);
    int64_t sequence = howdah_event_global_sequence(event);

    (void)snprintf(t->text + len, sizeof t->text - len, "%s%lld", len ? " " : "",
                   (long long)sequence);
    return t->act && sequence == t->at ? t->act(t, delivery) : HOWDAH_HANDLED;
}

static howdah_subscribe_options options(tale *t, howdah_checkpoint_mode mode)
{
    howdah_subscribe_options o = HOWDAH_SUBSCRIBE_OPTIONS_INIT;

    o.subscriber_id = "p";
    o.handler = on_event;
    o.ctx = t;
    o.checkpoint = mode;
    o.max_retries = 0;
    return o;
}

static howdah_subscription *subscribe(howdah_bus *bus, const howdah_subscribe_options *o)
{
    howdah_subscription *sub = NULL;

    cf_ok(howdah_subscribe(bus, o, &sub, &cf_error));
    return sub;
}

static void append_n(howdah_bus *bus, const char *type, int n)
{
    for (int i = 0; i < n; i++)
        (void)cf_append(bus, "s", type, NULL);
}

static void catch_up(howdah_subscription *sub)
{
    assert_int_equal(howdah_subscription_wait(sub, 60000, &cf_error), HOWDAH_OK);
}

/* ------------------------------------------------------------- dead letters */

static int fail_now(tale *t, howdah_delivery *delivery)
{
    return howdah_delivery_fail(delivery, t->message);
}

typedef struct dead_letter_seen {
    int64_t id;
    char state[16];
    char error[600];
    int64_t redrives;
} dead_letter_seen;

static int keep_dead_letter(void *ctx, const howdah_dead_letter *dead_letter)
{
    dead_letter_seen *l = ctx;

    l->id = dead_letter->id;
    l->redrives = dead_letter->redrives;
    (void)snprintf(l->state, sizeof l->state, "%s", dead_letter->state);
    (void)snprintf(l->error, sizeof l->error, "%s", dead_letter->error);
    return 0;
}

static dead_letter_seen the_dead_letter(howdah_bus *bus)
{
    howdah_dead_letters_options q = HOWDAH_DEAD_LETTERS_OPTIONS_INIT;
    dead_letter_seen l = {0};

    q.resolved = true;
    cf_ok(howdah_dead_letters_walk(bus, &q, keep_dead_letter, &l, &cf_error));
    return l;
}

/* Of 499 bytes and a character of two only the bytes fit into 500; what is no character is "?". */
static void a_message_is_cut_between_characters_and_mended(void **state)
{
    cf *c = *state;
    howdah_bus *bus = cf_open(c);
    char message[600];
    tale t = {.at = 1, .act = fail_now, .message = message};
    howdah_subscribe_options o = options(&t, HOWDAH_CHECKPOINT_SYNC);
    dead_letter_seen l;

    memset(message, 'x', sizeof message);
    message[0] = '\xff';
    memcpy(message + 499, "\xc3\xa9\xc3\xa9", 5);
    append_n(c->bus, "t", 1);
    catch_up(subscribe(bus, &o));
    l = the_dead_letter(c->bus);
    assert_string_equal(l.state, "dead");
    assert_int_equal(strlen(l.error), 499);
    assert_true(l.error[0] == '?' && l.error[1] == 'x' && l.error[498] == 'x');
    howdah_close(bus);
}

static int discard_it(tale *t, howdah_delivery *delivery)
{
    int64_t id = the_dead_letter(t->other).id;
    int64_t n = 0;

    if (!howdah_delivery_is_redrive(delivery))
        return howdah_delivery_fail(delivery, "no");
    cf_ok(howdah_dead_letters_discard(t->other, &id, 1, "enough", &n, &cf_error));
    assert_int_equal(n, 1);
    return HOWDAH_HANDLED;
}

static void a_dead_letter_discarded_while_it_is_tried_again_stops_nobody(void **state)
{
    cf *c = *state;
    howdah_bus *bus = cf_open(c);
    tale t = {.at = 1, .act = discard_it, .other = c->bus};
    howdah_subscribe_options o = options(&t, HOWDAH_CHECKPOINT_SYNC);
    howdah_subscription *sub = subscribe(bus, &o);
    int64_t n = 0;

    append_n(c->bus, "t", 1);
    catch_up(sub);
    cf_ok(howdah_dead_letters_redrive(c->bus, NULL, 0, "p", &n, &cf_error));
    assert_int_equal(n, 1);
    cf_run_until(bus, t.text, "1 1");
    assert_string_equal(the_dead_letter(c->bus).state, "discarded");
    append_n(c->bus, "t", 1);
    catch_up(sub);
    assert_string_equal(t.text, "1 1 2");
    howdah_close(bus);
}

static int interrupt_it(tale *t, howdah_delivery *delivery)
{
    if (!howdah_delivery_is_redrive(delivery))
        return howdah_delivery_fail(delivery, "no");
    howdah_interrupt(t->bus);
    return t->message ? HOWDAH_PUT_BACK : HOWDAH_HANDLED;
}

/* Its effect is done: the dead letter must say so.  Put back, the request must stay. */
static void what_a_redriven_handler_did_is_stored_in_spite_of_an_interrupt(void **state)
{
    cf *c = *state;

    for (int put_back = 1; put_back >= 0; put_back--) {
        howdah_bus *bus = cf_open(c);
        tale t = {.at = 1, .act = interrupt_it, .bus = bus, .message = put_back ? "" : NULL};
        howdah_subscribe_options o = options(&t, HOWDAH_CHECKPOINT_SYNC);
        howdah_error err = HOWDAH_ERROR_INIT;
        howdah_subscription *sub = subscribe(bus, &o);

        if (put_back) {
            int64_t n = 0;

            append_n(c->bus, "t", 1);
            catch_up(sub);
            cf_ok(howdah_dead_letters_redrive(c->bus, NULL, 0, "p", &n, &cf_error));
            assert_int_equal(n, 1);
        }
        assert_int_equal(howdah_run(bus, CF_PATIENCE_MS, &err), HOWDAH_INTERRUPTED);
        howdah_close(bus);
        assert_string_equal(the_dead_letter(c->bus).state, put_back ? "redrive" : "redriven");
    }
}

/* -------------------------------------------------------------- an operator */

static int pause_it(tale *t, howdah_delivery *delivery)
{
    (void)delivery;
    cf_ok(howdah_subscription_pause(t->other, "p", "lunch", &cf_error));
    return HOWDAH_HANDLED;
}

static void a_pause_is_heard_between_two_events(void **state)
{
    cf *c = *state;
    howdah_bus *bus = cf_open(c);
    tale t = {.at = 2, .act = pause_it, .other = c->bus};
    howdah_subscribe_options o = options(&t, HOWDAH_CHECKPOINT_SYNC);
    howdah_subscription *sub;

    append_n(c->bus, "t", 5);
    sub = subscribe(bus, &o);
    cf_run_until_state(bus, sub, HOWDAH_SUBSCRIPTION_PAUSED);
    cf_ok(howdah_run(bus, 300, &cf_error));
    assert_string_equal(t.text, "1 2");
    cf_ok(howdah_subscription_resume(c->bus, "p", &cf_error));
    cf_run_until(bus, t.text, "1 2 3 4 5");
    howdah_close(bus);
}

static void a_resumed_subscription_looks_at_its_place_first(void **state)
{
    cf *c = *state;
    howdah_bus *bus = cf_open(c);
    tale t = {0};
    howdah_subscribe_options o = options(&t, HOWDAH_CHECKPOINT_SYNC);
    howdah_subscription *sub = subscribe(bus, &o);

    append_n(c->bus, "t", 2);
    catch_up(sub);
    cf_ok(howdah_subscription_pause(c->bus, "p", NULL, &cf_error));
    cf_run_until_state(bus, sub, HOWDAH_SUBSCRIPTION_PAUSED);
    cf_sql(c, cf_is_pg() ? "UPDATE {events} SET id = gen_random_uuid() WHERE global_sequence = 2"
                         : "UPDATE {events} SET id = randomblob(16) WHERE global_sequence = 2");
    append_n(c->bus, "t", 1);
    cf_ok(howdah_subscription_resume(c->bus, "p", &cf_error));
    cf_run_until_state(bus, sub, HOWDAH_SUBSCRIPTION_HALTED);
    assert_string_equal(t.text, "1 2");
    howdah_close(bus);
}

/* For one that exists, start changes nothing; not even when the log does not reach it. */
static void where_to_start_is_for_those_who_begin(void **state)
{
    cf *c = *state;
    howdah_bus *bus = cf_open(c);
    tale t = {0};
    howdah_subscribe_options o = options(&t, HOWDAH_CHECKPOINT_SYNC);
    howdah_subscription *sub = NULL;
    howdah_error err = HOWDAH_ERROR_INIT;

    append_n(c->bus, "t", 1);
    catch_up(subscribe(bus, &o));
    howdah_close(bus);
    bus = cf_open(c);
    o.start = 1000;
    sub = subscribe(bus, &o);
    append_n(c->bus, "t", 1);
    catch_up(sub);
    assert_string_equal(t.text, "1 2");
    o.subscriber_id = "new";
    assert_int_equal(howdah_subscribe(bus, &o, &sub, &err), HOWDAH_INVALID);
    howdah_close(bus);
}

/* ----------------------------------------------------------- another history */

/*
 * The last that it has seen is 1; 2 and 3 were missing, and dead.  A standby that had not got them
 * takes over and gives their numbers out again: now they are there.
 */
static void after_a_fail_over_a_filtered_subscription_goes_back_to_its_anchor(void **state)
{
    cf *c = *state;
    howdah_bus *bus = cf_open(c);
    tale t = {0};
    howdah_subscribe_options o = options(&t, HOWDAH_CHECKPOINT_SYNC);

    o.pattern = "a.*";
    append_n(c->bus, "a.x", 1);
    append_n(c->bus, "b", 2);
    catch_up(subscribe(bus, &o));
    howdah_close(bus);
    cf_sql(c, "UPDATE {events} SET type = 'a.y' WHERE global_sequence = 2");
    bus = cf_open(c);
    catch_up(subscribe(bus, &o));
    assert_string_equal(t.text, "1"); /* here nothing tells of it */
    howdah_close(bus);
    cf_sql(c, "UPDATE {subscriptions} SET timeline = 'another', high = 3, anchor_sequence = 1,"
              " anchor_id = (SELECT id FROM {events} WHERE global_sequence = 1)");
    bus = cf_open(c);
    catch_up(subscribe(bus, &o));
    assert_string_equal(t.text, "1 2");
    howdah_close(bus);
}

/* ------------------------------------------------------------ a second session */

static int no_session(void *ctx, const hw_interrupt *interrupt, hw_store **ret_store,
                      howdah_error *reterr)
{
    (void)ctx;
    (void)interrupt;
    (void)ret_store;
    return hw_fail(reterr, HOWDAH_UNAVAILABLE, "too many clients");
}

static void events_wait_for_the_session_that_their_handler_needs(void **state)
{
    cf *c = *state;
    howdah_bus *bus = cf_open(c);
    tale t = {0};
    howdah_subscribe_options o = options(&t, HOWDAH_CHECKPOINT_TRANSACTIONAL);
    howdah_subscription *sub = subscribe(bus, &o);
    hw_open_fn open_store = bus->open_store;

    catch_up(sub);
    bus->open_store = no_session;
    append_n(c->bus, "t", 1);
    cf_ok(howdah_run(bus, 200, &cf_error));
    assert_string_equal(t.text, "");
    bus->open_store = open_store;
    append_n(c->bus, "t", 1);
    catch_up(sub);
    assert_string_equal(t.text, "1 2");
    howdah_close(bus);
}

static const struct CMUnitTest tests[] = {
    CF_SUB_TEST(a_message_is_cut_between_characters_and_mended),
    CF_SUB_TEST(a_dead_letter_discarded_while_it_is_tried_again_stops_nobody),
    CF_SUB_TEST(what_a_redriven_handler_did_is_stored_in_spite_of_an_interrupt),
    CF_SUB_TEST(a_pause_is_heard_between_two_events),
    CF_SUB_TEST(a_resumed_subscription_looks_at_its_place_first),
    CF_SUB_TEST(where_to_start_is_for_those_who_begin),
    CF_SUB_TEST(after_a_fail_over_a_filtered_subscription_goes_back_to_its_anchor),
    CF_SUB_TEST(events_wait_for_the_session_that_their_handler_needs),
};

cf_group cf_trouble_tests(void)
{
    return CF_GROUP(tests);
}
