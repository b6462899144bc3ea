/* test_subscribe.c - subscriptions: delivery, checkpoints, failure, instances. */
#include <howdah/howdah_pg.h>
#include <howdah/howdah_sqlite.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/random.h"
#include "conformance.h"

/* What a handler saw, as "1 2 3"; and how it shall behave. */
typedef struct seen {
    char text[65536];
    size_t len;
    int64_t fail;     /* this number fails */
    int fail_times;   /* so often, -1: always */
    int64_t halt;     /* this number halts */
    int64_t put_back; /* this number is put back, and the bus interrupted */
    howdah_bus *bus;
    const char *effect; /* TRANSACTIONAL: the statement that each event causes */
    int dead;           /* dead letters heard of */
    int last_attempt;
    bool redrive;
} seen;

static int on_event(void *ctx, const howdah_event *event, howdah_delivery *delivery)
{
    seen *s = ctx;
    int64_t sequence = howdah_event_global_sequence(event);

    s->len += (size_t)snprintf(s->text + s->len, sizeof s->text - s->len, "%s%lld",
                               s->len ? " " : "", (long long)sequence);
    s->last_attempt = howdah_delivery_attempt(delivery);
    s->redrive = howdah_delivery_is_redrive(delivery);
    if (s->effect && howdah_delivery_pg(delivery))
        PQclear(PQexec(howdah_delivery_pg(delivery), s->effect));
    if (s->effect && howdah_delivery_sqlite(delivery))
        assert_int_equal(
            sqlite3_exec(howdah_delivery_sqlite(delivery), s->effect, NULL, NULL, NULL), SQLITE_OK);
    if (sequence == s->halt)
        return HOWDAH_HALT;
    if (sequence == s->put_back) {
        howdah_interrupt(s->bus);
        return HOWDAH_PUT_BACK;
    }
    if (sequence == s->fail && s->fail_times != 0) {
        s->fail_times--;
        return howdah_delivery_fail(delivery, "no stock");
    }
    return HOWDAH_HANDLED;
}

static void on_dead_letter(void *ctx, const howdah_event *event, const char *error, int attempts)
{
    seen *s = ctx;

    (void)event;
    assert_string_equal(error, "no stock");
    assert_true(attempts > 0);
    s->dead++;
}

static howdah_subscribe_options options(const char *id, seen *s)
{
    howdah_subscribe_options o = HOWDAH_SUBSCRIBE_OPTIONS_INIT;

    o.subscriber_id = id;
    o.handler = on_event;
    o.ctx = s;
    o.on_dead_letter = on_dead_letter;
    o.retry_delay_ms = 1;
    o.max_retry_delay_ms = 5;
    return o;
}

static howdah_subscription *subscribe(howdah_bus *bus, const howdah_subscribe_options *o)
{
    howdah_subscription *sub = NULL;

    cf_ok(howdah_subscribe(bus, o, &sub, &cf_error));
    return sub;
}

/* All that was visible is handled; then what the handler saw since the last call. */
static void forget(seen *s)
{
    s->text[0] = '\0';
    s->len = 0;
}

static const char *caught_up(howdah_subscription *sub, seen *s)
{
    static char text[65536];

    assert_int_equal(howdah_subscription_wait(sub, 60000, &cf_error), HOWDAH_OK);
    (void)snprintf(text, sizeof text, "%s", s->text);
    forget(s);
    return text;
}

static void append_n(howdah_bus *bus, const char *stream, const char *type, int n)
{
    for (int i = 0; i < n; i++)
        (void)cf_append(bus, stream, type, NULL);
}

/* ------------------------------------------------------------------ places */

static void a_new_subscription_sees_everything_from_the_start(void **state)
{
    cf *c = *state;
    seen s = {0};
    howdah_bus *bus = cf_open(c);
    howdah_subscribe_options o = options("p", &s);
    howdah_subscription *sub;

    append_n(c->bus, "a", "t", 3);
    sub = subscribe(bus, &o);
    assert_string_equal(caught_up(sub, &s), "1 2 3");
    append_n(c->bus, "b", "t", 2);
    assert_string_equal(caught_up(sub, &s), "4 5");
    howdah_close(bus);
}

static void a_subscription_starts_at_the_end_or_behind_a_number(void **state)
{
    cf *c = *state;
    seen end = {0};
    seen number = {0};
    howdah_bus *bus = cf_open(c);
    howdah_subscribe_options o = options("end", &end);
    howdah_subscription *a;
    howdah_subscription *b;

    append_n(c->bus, "a", "t", 4);
    o.start = HOWDAH_FROM_END;
    a = subscribe(bus, &o);
    o = options("number", &number);
    o.start = 3;
    b = subscribe(bus, &o);
    append_n(c->bus, "a", "t", 1);
    assert_string_equal(caught_up(a, &end), "5");
    assert_string_equal(caught_up(b, &number), "4 5");
    howdah_close(bus);
}

static void a_subscription_goes_on_where_it_was(void **state)
{
    cf *c = *state;
    seen s = {0};

    for (int round = 0; round < 3; round++) {
        howdah_bus *bus = cf_open(c);
        howdah_subscribe_options o = options("p", &s);
        char expected[32];

        o.checkpoint = (howdah_checkpoint_mode)(round % 2);
        append_n(c->bus, "a", "t", 2);
        (void)snprintf(expected, sizeof expected, "%d %d", 2 * round + 1, 2 * round + 2);
        assert_string_equal(caught_up(subscribe(bus, &o), &s), expected);
        howdah_close(bus);
    }
}

static void a_stored_place_wins_over_start(void **state)
{
    cf *c = *state;
    seen s = {0};
    howdah_bus *bus = cf_open(c);
    howdah_subscribe_options o = options("p", &s);

    append_n(c->bus, "a", "t", 2);
    (void)caught_up(subscribe(bus, &o), &s);
    howdah_close(bus);
    append_n(c->bus, "a", "t", 1);
    bus = cf_open(c);
    o.start = HOWDAH_FROM_END;
    assert_string_equal(caught_up(subscribe(bus, &o), &s), "3");
    howdah_close(bus);
}

static void a_second_handle_of_the_same_id_is_refused(void **state)
{
    cf *c = *state;
    seen s = {0};
    howdah_subscribe_options o = options("p", &s);
    howdah_subscription *sub = subscribe(c->bus, &o);
    howdah_subscription *other = NULL;
    howdah_error err = HOWDAH_ERROR_INIT;

    assert_int_equal(howdah_subscribe(c->bus, &o, &other, &err), HOWDAH_CONFLICT);
    assert_non_null(strstr(err.message, "\"p\" is subscribed on this bus already"));
    cf_ok(howdah_unsubscribe(sub, &cf_error));
    sub = subscribe(c->bus, &o);
    cf_ok(howdah_unsubscribe(sub, &cf_error));
}

static void bad_options_are_refused_by_field(void **state)
{
    cf *c = *state;
    seen s = {0};
    char long_id[300];
    const struct {
        const char *field;
        size_t member;
        int64_t value;
    } cases[] = {
        {"batch_size", offsetof(howdah_subscribe_options, batch_size), 0},
        {"max_retries", offsetof(howdah_subscribe_options, max_retries), -1},
        {"start", offsetof(howdah_subscribe_options, start), -2},
        {"lease", offsetof(howdah_subscribe_options, lease_ms), 1},
        {"gap_timeout", offsetof(howdah_subscribe_options, gap_timeout_ms), 0},
        {"catch_up_batch", offsetof(howdah_subscribe_options, catch_up_batch), 0},
        {"outstanding_max", offsetof(howdah_subscribe_options, outstanding_max), 0},
    };
    howdah_subscription *sub = NULL;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_subscribe_options o;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        o = options("p", &s);
        memcpy((char *)&o + cases[i].member, &cases[i].value, sizeof cases[i].value);
        assert_int_equal(howdah_subscribe(c->bus, &o, &sub, &err), HOWDAH_INVALID);
        assert_string_equal(err.field, cases[i].field);
    }
    o = options("p", &s);
    o.start = 1;
    assert_int_equal(howdah_subscribe(c->bus, &o, &sub, &err), HOWDAH_INVALID);
    assert_string_equal(err.field, "start");
    memset(long_id, 'x', 256);
    long_id[256] = '\0';
    o = options(long_id, &s);
    assert_int_equal(howdah_subscribe(c->bus, &o, &sub, &err), HOWDAH_INVALID);
    assert_string_equal(err.field, "subscriber_id");
    o = options("", &s);
    assert_int_equal(howdah_subscribe(c->bus, &o, &sub, &err), HOWDAH_INVALID);
    o = options(NULL, &s);
    assert_int_equal(howdah_subscribe(c->bus, &o, &sub, &err), HOWDAH_INVALID);
    assert_string_equal(err.field, "subscriber_id");
    o = options("p", &s);
    o.pattern = "a..b";
    assert_int_equal(howdah_subscribe(c->bus, &o, &sub, &err), HOWDAH_INVALID);
    o = options("p", &s);
    o.handler = NULL;
    assert_int_equal(howdah_subscribe(c->bus, &o, &sub, &err), HOWDAH_MISUSE);
    assert_int_equal(howdah_run(c->bus, 0, &err), HOWDAH_MISUSE);
}

/* ---------------------------------------------------------------- delivery */

static void several_subscriptions_have_places_of_their_own(void **state)
{
    cf *c = *state;
    seen all = {0};
    seen some = {0};
    seen one = {0};
    howdah_bus *bus = cf_open(c);
    howdah_subscribe_options o = options("all", &all);
    howdah_subscription *a = subscribe(bus, &o);
    howdah_subscription *b;
    howdah_subscription *d;

    o = options("some", &some);
    o.pattern = "order.*";
    b = subscribe(bus, &o);
    o = options("one", &one);
    o.pattern = "order.paid";
    d = subscribe(bus, &o);
    (void)cf_append(c->bus, "o", "order.created", NULL);
    (void)cf_append(c->bus, "o", "order.paid", NULL);
    (void)cf_append(c->bus, "o", "mail.sent", NULL);
    assert_string_equal(caught_up(a, &all), "1 2 3");
    assert_string_equal(caught_up(b, &some), "1 2");
    assert_string_equal(caught_up(d, &one), "2");
    (void)cf_append(c->bus, "o", "order.paid", NULL);
    (void)cf_append(c->bus, "o", "order.line.added", NULL);
    assert_string_equal(caught_up(a, &all), "4 5");
    assert_string_equal(caught_up(b, &some), "4");
    assert_string_equal(caught_up(d, &one), "4");
    howdah_close(bus);
}

static void a_long_log_is_caught_up_in_order_and_handed_over_to_live(void **state)
{
    cf *c = *state;
    howdah_bus *bus = cf_open(c);
    seen s = {0};
    howdah_subscribe_options o = options("p", &s);
    howdah_subscription *sub;
    char expected[65536];
    size_t len = 0;

    o.checkpoint = HOWDAH_CHECKPOINT_BATCHED;
    o.catch_up_batch = 7;
    for (int i = 0; i < 500; i++) {
        char stream[16];

        (void)snprintf(stream, sizeof stream, "s%d", i % 13);
        (void)cf_append(c->bus, stream, "t", NULL);
        len +=
            (size_t)snprintf(expected + len, sizeof expected - len, "%s%d", len ? " " : "", i + 1);
    }
    sub = subscribe(bus, &o);
    assert_string_equal(caught_up(sub, &s), expected);
    append_n(c->bus, "live", "t", 1);
    assert_string_equal(caught_up(sub, &s), "501");
    howdah_close(bus);
}

static void pass(howdah_bus *bus, int n)
{
    while (n-- > 0)
        cf_ok(howdah_service(bus, NULL, &cf_error));
}

/* While it catches up, an event comes before each pass; then each comes with the next pass or two,
   and does not wait until the log is quiet. */
static void a_subscription_goes_live_while_events_come(void **state)
{
    cf *c = *state;
    howdah_bus *bus = cf_open(c);
    seen s = {0};
    howdah_subscribe_options o = options("p", &s);

    append_n(c->bus, "a", "t", 100);
    (void)subscribe(bus, &o);
    for (int i = 0; i < 100; i++) {
        append_n(c->bus, "b", "t", 1);
        pass(bus, 1);
    }
    pass(bus, 3);
    for (int i = 201; i <= 220; i++) {
        char expected[16];

        forget(&s);
        append_n(c->bus, "c", "t", 1);
        pass(bus, 2);
        (void)snprintf(expected, sizeof expected, "%d", i);
        assert_string_equal(s.text, expected);
    }
    howdah_close(bus);
}

/* A store hands out fewer rows than asked for when they are large: the others are not gone. */
static void large_events_are_all_delivered(void **state)
{
    enum { LARGE = 60, BYTES = 120000 };
    cf *c = *state;
    seen all = {.fail = 3, .fail_times = 1};
    seen some = {0};
    howdah_bus *bus = cf_open(c);
    howdah_subscribe_options o = options("all", &all);
    howdah_subscription *subs[2];
    char expected[1024] = "";
    char *json = malloc(BYTES + 3);

    assert_non_null(json);
    memset(json, 'x', BYTES + 2);
    json[0] = json[BYTES + 1] = '"';
    json[BYTES + 2] = '\0';
    for (int i = 1; i <= LARGE; i++) {
        (void)cf_append(c->bus, "large", "large.one", json);
        (void)snprintf(expected + strlen(expected), sizeof expected - strlen(expected), "%s%d",
                       i > 1 ? " " : "", i);
    }
    free(json);
    o.catch_up_batch = 1000;
    subs[0] = subscribe(bus, &o);
    o = options("some", &some);
    o.pattern = "large.*";
    o.catch_up_batch = 1000;
    subs[1] = subscribe(bus, &o);
    assert_string_equal(caught_up(subs[1], &some), expected);
    /* 3 failed once: it came again, and all behind it, read by number. */
    assert_string_equal(caught_up(subs[0], &all) + strlen("1 2 3 "), expected + strlen("1 2 "));
    howdah_close(bus);
}

static void the_info_tells_place_and_lag(void **state)
{
    cf *c = *state;
    seen s = {0};
    howdah_bus *bus = cf_open(c);
    howdah_subscribe_options o = options("p", &s);
    howdah_subscription *sub = subscribe(bus, &o);
    howdah_subscription_info info = HOWDAH_SUBSCRIPTION_INFO_INIT;

    howdah_subscription_info_get(sub, &info);
    assert_int_equal(info.state, HOWDAH_SUBSCRIPTION_WAITING);
    assert_true(info.updated_at_us == HOWDAH_NO_TIME);
    append_n(c->bus, "a", "t", 3);
    (void)caught_up(sub, &s);
    cf_ok(howdah_run(bus, 50, &cf_error));
    howdah_subscription_info_get(sub, &info);
    assert_int_equal(info.state, HOWDAH_SUBSCRIPTION_LIVE);
    assert_int_equal(info.high, 3);
    assert_int_equal(info.contiguous, 3);
    assert_int_equal(info.lag, 0);
    assert_int_equal(info.delivered, 3);
    assert_true(info.token > 0);
    assert_string_equal(info.subscriber_id, "p");
    howdah_close(bus);
}

/* ----------------------------------------------------------------- failure */

static void a_failed_event_is_tried_again_and_its_stream_waits(void **state)
{
    cf *c = *state;
    seen s = {.fail = 2, .fail_times = 2};
    howdah_bus *bus = cf_open(c);
    howdah_subscribe_options o = options("p", &s);
    howdah_subscription *sub;

    (void)cf_append(c->bus, "a", "t", NULL); /* 1 */
    (void)cf_append(c->bus, "b", "t", NULL); /* 2 fails twice */
    (void)cf_append(c->bus, "b", "t", NULL); /* 3 waits behind it */
    (void)cf_append(c->bus, "a", "t", NULL); /* 4 does not */
    o.retry_delay_ms = 30;
    o.max_retry_delay_ms = 30;
    sub = subscribe(bus, &o);
    assert_string_equal(caught_up(sub, &s), "1 2 4 2 2 3");
    assert_int_equal(s.last_attempt, 1);
    assert_int_equal(s.dead, 0);
    howdah_close(bus);
}

static int count_dead_letters(void *ctx, const howdah_dead_letter *dead_letter)
{
    assert_string_equal(dead_letter->error, "no stock");
    assert_string_equal(dead_letter->subscriber_id, "p");
    assert_non_null(dead_letter->event);
    ++*(int *)ctx;
    return 0;
}

static int dead_letters(const cf *c, bool resolved)
{
    howdah_bus *bus = cf_open(c);
    howdah_dead_letters_options o = HOWDAH_DEAD_LETTERS_OPTIONS_INIT;
    int n = 0;

    o.resolved = resolved;
    cf_ok(howdah_dead_letters_walk(bus, &o, count_dead_letters, &n, &cf_error));
    howdah_close(bus);
    return n;
}

static void after_the_last_try_the_event_is_a_dead_letter_and_delivery_goes_on(void **state)
{
    cf *c = *state;
    seen s = {.fail = 2, .fail_times = -1};
    howdah_bus *bus = cf_open(c);
    howdah_subscribe_options o = options("p", &s);
    howdah_subscription *sub;

    append_n(c->bus, "a", "t", 3);
    o.max_retries = 2;
    sub = subscribe(bus, &o);
    assert_string_equal(caught_up(sub, &s), "1 2 2 2 3");
    assert_int_equal(s.dead, 1);
    assert_int_equal(dead_letters(c, false), 1);
    howdah_close(bus);
    bus = cf_open(c);
    append_n(c->bus, "a", "t", 1);
    assert_string_equal(caught_up(subscribe(bus, &o), &s), "4");
    howdah_close(bus);
}

static int keep_id(void *ctx, const howdah_dead_letter *dead_letter)
{
    *(int64_t *)ctx = dead_letter->id;
    return 0;
}

static void a_dead_letter_is_redriven_by_the_owner_or_discarded(void **state)
{
    cf *c = *state;
    seen s = {.fail = 1, .fail_times = 2};
    howdah_bus *bus = cf_open(c);
    howdah_bus *boss = cf_open(c);
    howdah_subscribe_options o = options("p", &s);
    howdah_subscription *sub;
    int64_t id = 0;
    int64_t n = 0;

    append_n(c->bus, "a", "t", 1);
    o.max_retries = 0;
    sub = subscribe(bus, &o);
    assert_string_equal(caught_up(sub, &s), "1");
    cf_ok(howdah_dead_letters_walk(boss, NULL, keep_id, &id, &cf_error));
    assert_true(id > 0);
    /* The first redrive fails again, the second succeeds. */
    for (int i = 0; i < 2; i++) {
        cf_ok(howdah_dead_letters_redrive(boss, &id, 1, NULL, &n, &cf_error));
        assert_int_equal(n, 1);
        s.len = 0;
        s.text[0] = '\0';
        cf_run_until(bus, s.text, "1");
        assert_true(s.redrive);
        assert_int_equal(s.last_attempt, i + 2);
        assert_int_equal(dead_letters(c, false), 1 - i);
    }
    assert_int_equal(dead_letters(c, true), 1);
    cf_ok(howdah_dead_letters_redrive(boss, &id, 1, NULL, &n, &cf_error));
    assert_int_equal(n, 0);
    s = (seen){.fail = 2, .fail_times = -1};
    append_n(c->bus, "a", "t", 1);
    assert_string_equal(caught_up(sub, &s), "2");
    cf_ok(howdah_dead_letters_walk(boss, NULL, keep_id, &id, &cf_error));
    cf_ok(howdah_dead_letters_discard(boss, &id, 1, "a test order", &n, &cf_error));
    assert_int_equal(n, 1);
    assert_int_equal(dead_letters(c, false), 0);
    assert_int_equal(dead_letters(c, true), 2);
    howdah_close(boss);
    howdah_close(bus);
}

static void fail_closed_halts_until_it_is_resumed(void **state)
{
    cf *c = *state;
    seen s = {.fail = 2, .fail_times = -1};
    howdah_bus *bus = cf_open(c);
    howdah_subscribe_options o = options("p", &s);
    howdah_subscription *sub;
    howdah_subscription_info info = HOWDAH_SUBSCRIPTION_INFO_INIT;

    append_n(c->bus, "a", "t", 3);
    o.max_retries = 1;
    o.on_fail = HOWDAH_FAIL_CLOSED;
    sub = subscribe(bus, &o);
    cf_ok(howdah_run(bus, CF_PATIENCE_MS, &cf_error));
    assert_string_equal(s.text, "1 2 2");
    howdah_subscription_info_get(sub, &info);
    assert_int_equal(info.state, HOWDAH_SUBSCRIPTION_HALTED);
    assert_string_equal(info.reason, "no stock");
    assert_int_equal(dead_letters(c, false), 0);
    s.fail = 0;
    s.len = 0;
    cf_ok(howdah_subscription_resume(c->bus, "p", &cf_error));
    cf_ok(howdah_run(bus, 50, &cf_error)); /* everything is halted: it returns at once */
    assert_string_equal(caught_up(sub, &s), "2 3");
    howdah_close(bus);
}

static void what_a_handler_puts_back_stays_outstanding_and_no_try_is_counted(void **state)
{
    cf *c = *state;
    seen s = {.put_back = 2};
    howdah_bus *bus = cf_open(c);
    howdah_subscribe_options o = options("p", &s);
    howdah_subscription *sub;

    append_n(c->bus, "a", "t", 3);
    o.max_retries = 0;
    s.bus = bus;
    sub = subscribe(bus, &o);
    assert_int_equal(howdah_run(bus, CF_PATIENCE_MS, &cf_error), HOWDAH_INTERRUPTED);
    assert_string_equal(s.text, "1 2");
    s.put_back = 0;
    howdah_interrupt_clear(bus);
    assert_string_equal(caught_up(sub, &s), "1 2 2 3");
    assert_int_equal(s.last_attempt, 1);
    assert_int_equal(s.dead, 0);
    howdah_close(bus);
}

static void a_handler_can_halt_its_subscription(void **state)
{
    cf *c = *state;
    seen s = {.halt = 2};
    howdah_bus *bus = cf_open(c);
    howdah_subscribe_options o = options("p", &s);
    howdah_subscription_info info = HOWDAH_SUBSCRIPTION_INFO_INIT;
    howdah_subscription *sub;

    append_n(c->bus, "a", "t", 3);
    sub = subscribe(bus, &o);
    cf_ok(howdah_run(bus, CF_PATIENCE_MS, &cf_error));
    assert_string_equal(s.text, "1 2");
    howdah_subscription_info_get(sub, &info);
    assert_int_equal(info.state, HOWDAH_SUBSCRIPTION_HALTED);
    assert_int_equal(info.contiguous, 1);
    howdah_close(bus);
}

static void an_event_that_cannot_be_decoded_is_a_dead_letter(void **state)
{
    cf *c = *state;
    seen s = {0};
    howdah_bus *bus = cf_open(c);
    howdah_subscribe_options o = options("p", &s);

    append_n(c->bus, "a", "t", 1);
    cf_sql(c, cf_is_pg() ? "INSERT INTO {events} (stream, version, type) VALUES ('raw', 1, 't')"
                         : "PRAGMA ignore_check_constraints = on;"
                           " INSERT INTO {events} (id, stream, version, type, recorded_at) VALUES"
                           " (randomblob(16), 'raw', 1, 't', 0)");
    append_n(c->bus, "a", "t", 1);
    o.on_dead_letter = NULL;
    assert_string_equal(caught_up(subscribe(bus, &o), &s), "1 3");
    assert_int_equal(cf_sql_number(c, "SELECT count(*) FROM {dead_letters}"), 1);
    howdah_close(bus);
}

/* ------------------------------------------------------------ transactions */

static void effect_and_checkpoint_are_one_transaction(void **state)
{
    cf *c = *state;
    char table[64];
    char effect[128];
    seen s = {.fail = 2, .fail_times = 1};
    howdah_bus *bus = cf_open_admin(c);
    howdah_subscribe_options o = options("p", &s);
    char sql[128];

    (void)snprintf(table, sizeof table, "effects_%d_%08x", (int)getpid(), hw_random_u32());
    (void)snprintf(sql, sizeof sql, "CREATE TABLE %s (n bigint)", table);
    cf_sql(c, sql);
    (void)snprintf(effect, sizeof effect, "INSERT INTO %s VALUES (1)", table);
    s.effect = effect;
    append_n(c->bus, "a", "t", 3);
    o.checkpoint = HOWDAH_CHECKPOINT_TRANSACTIONAL;
    assert_string_equal(caught_up(subscribe(bus, &o), &s), "1 2 2 3");
    (void)snprintf(sql, sizeof sql, "SELECT count(*) FROM %s", table);
    assert_int_equal(cf_sql_number(c, sql), 3);
    howdah_close(bus);
    (void)snprintf(sql, sizeof sql, "DROP TABLE %s", table);
    cf_sql(c, sql);
}

/* --------------------------------------------------------------- instances */

static void one_instance_owns_and_the_other_takes_over(void **state)
{
    cf *c = *state;
    seen first = {0};
    seen second = {0};
    howdah_bus *a = cf_open(c);
    howdah_bus *b = cf_open(c);
    howdah_subscribe_options o = options("p", &first);
    howdah_subscription *one = subscribe(a, &o);
    howdah_subscription *two;
    howdah_subscription_info info = HOWDAH_SUBSCRIPTION_INFO_INIT;
    int64_t token;

    o.ctx = &second;
    two = subscribe(b, &o);
    append_n(c->bus, "s", "t", 2);
    assert_string_equal(caught_up(one, &first), "1 2");
    cf_ok(howdah_run(b, 100, &cf_error));
    assert_string_equal(second.text, "");
    howdah_subscription_info_get(two, &info);
    assert_int_equal(info.state, HOWDAH_SUBSCRIPTION_WAITING);
    howdah_subscription_info_get(one, &info);
    token = info.token;
    howdah_close(a);
    append_n(c->bus, "s", "t", 1);
    assert_string_equal(caught_up(two, &second), "3");
    howdah_subscription_info_get(two, &info);
    assert_true(info.token > token);
    howdah_close(b);
}

static void a_reset_makes_the_owner_start_anew(void **state)
{
    cf *c = *state;
    seen s = {0};
    howdah_bus *bus = cf_open(c);
    howdah_subscribe_options o = options("p", &s);
    howdah_subscription *sub = subscribe(bus, &o);
    howdah_error err = HOWDAH_ERROR_INIT;

    append_n(c->bus, "s", "t", 3);
    (void)caught_up(sub, &s);
    cf_ok(howdah_subscription_reset(c->bus, "p", 1, &cf_error));
    cf_run_until(bus, s.text, "2 3");
    assert_int_equal(howdah_subscription_reset(c->bus, "p", 4, &err), HOWDAH_INVALID);
    assert_string_equal(err.field, "to");
    assert_int_equal(howdah_subscription_reset(c->bus, "nobody", 0, &err), HOWDAH_NOT_FOUND);
    howdah_close(bus);
}

/* Without a lock nothing keeps a second one out; but they do not take it from each other for ever.
 */
static void of_two_without_a_lock_the_later_one_goes_on(void **state)
{
    cf *c = *state;
    seen s1 = {0};
    seen s2 = {0};
    howdah_bus *first = cf_open(c);
    howdah_bus *second = cf_open(c);
    howdah_subscribe_options o = options("p", &s1);
    howdah_subscription *sub1;
    howdah_subscription *sub2;
    howdah_subscription_info info = HOWDAH_SUBSCRIPTION_INFO_INIT;

    o.instance = HOWDAH_INSTANCE_SINGLE;
    sub1 = subscribe(first, &o);
    append_n(c->bus, "s", "t", 2);
    assert_string_equal(caught_up(sub1, &s1), "1 2");
    cf_ok(howdah_subscription_reset(c->bus, "p", 1, &cf_error)); /* no rival: it goes on */
    cf_run_until(first, s1.text, "2");
    forget(&s1);
    o.ctx = &s2;
    sub2 = subscribe(second, &o);
    append_n(c->bus, "s", "t", 1);
    assert_string_equal(caught_up(sub2, &s2), "3");
    cf_ok(howdah_run(first, CF_PATIENCE_MS, &cf_error)); /* until it finds out */
    howdah_subscription_info_get(sub1, &info);
    assert_int_equal(info.state, HOWDAH_SUBSCRIPTION_HALTED);
    assert_non_null(strstr(info.reason, "instance=single is for one process"));
    forget(&s1);
    append_n(c->bus, "s", "t", 1);
    assert_string_equal(caught_up(sub2, &s2), "4");
    cf_ok(howdah_run(first, 300, &cf_error));
    assert_string_equal(s1.text, "");
    howdah_close(first);
    append_n(c->bus, "s", "t", 1);
    assert_string_equal(caught_up(sub2, &s2), "5");
    howdah_close(second);
}

static void a_paused_subscription_delivers_nothing_until_it_is_resumed(void **state)
{
    cf *c = *state;
    seen s = {0};
    howdah_bus *bus = cf_open(c);
    howdah_subscribe_options o = options("p", &s);
    howdah_subscription *sub = subscribe(bus, &o);
    howdah_subscription_info info = HOWDAH_SUBSCRIPTION_INFO_INIT;

    append_n(c->bus, "s", "t", 1);
    (void)caught_up(sub, &s);
    cf_ok(howdah_subscription_pause(c->bus, "p", "maintenance", &cf_error));
    cf_run_until_state(bus, sub, HOWDAH_SUBSCRIPTION_PAUSED);
    append_n(c->bus, "s", "t", 1);
    cf_ok(howdah_run(bus, 200, &cf_error));
    assert_string_equal(s.text, "");
    howdah_subscription_info_get(sub, &info);
    assert_int_equal(info.state, HOWDAH_SUBSCRIPTION_PAUSED);
    cf_ok(howdah_subscription_resume(c->bus, "p", &cf_error));
    assert_string_equal(caught_up(sub, &s), "2");
    howdah_close(bus);
}

static int keep_info(void *ctx, const howdah_subscription_info *info)
{
    *(howdah_subscription_info *)ctx = *info;
    return 0;
}

static void subscriptions_are_listed_and_removed(void **state)
{
    cf *c = *state;
    seen s = {0};
    howdah_bus *bus = cf_open(c);
    howdah_subscribe_options o = options("p", &s);
    howdah_subscription_info info = HOWDAH_SUBSCRIPTION_INFO_INIT;
    howdah_error err = HOWDAH_ERROR_INIT;

    o.pattern = "a.*";
    append_n(c->bus, "s", "a.b", 2);
    (void)caught_up(subscribe(bus, &o), &s);
    assert_int_equal(howdah_subscription_remove(c->bus, "p", &err), HOWDAH_CONFLICT);
    howdah_close(bus);
    cf_ok(howdah_subscriptions_walk(c->bus, "p", keep_info, &info, &cf_error));
    assert_int_equal(info.high, 2);
    assert_int_equal(info.lag, 0);
    assert_int_equal(info.head, 2);
    assert_int_equal(info.state, HOWDAH_SUBSCRIPTION_WAITING);
    cf_ok(howdah_subscription_remove(c->bus, "p", &cf_error));
    assert_int_equal(howdah_subscriptions_walk(c->bus, "p", keep_info, &info, &err),
                     HOWDAH_NOT_FOUND);
    assert_int_equal(howdah_subscription_remove(c->bus, "p", &err), HOWDAH_NOT_FOUND);
}

static void a_checkpoint_of_another_log_stops_loudly(void **state)
{
    cf *c = *state;
    seen s = {0};
    howdah_bus *bus = cf_open(c);
    howdah_subscribe_options o = options("p", &s);
    howdah_subscription *sub;
    howdah_subscription_info info = HOWDAH_SUBSCRIPTION_INFO_INIT;

    append_n(c->bus, "s", "t", 3);
    (void)caught_up(subscribe(bus, &o), &s);
    howdah_close(bus);
    cf_sql(c, cf_is_pg() ? "UPDATE {events} SET id = gen_random_uuid() WHERE global_sequence = 3"
                         : "UPDATE {events} SET id = randomblob(16) WHERE global_sequence = 3");
    bus = cf_open(c);
    sub = subscribe(bus, &o);
    cf_ok(howdah_run(bus, CF_PATIENCE_MS, &cf_error));
    howdah_subscription_info_get(sub, &info);
    assert_int_equal(info.state, HOWDAH_SUBSCRIPTION_HALTED);
    assert_non_null(strstr(info.reason, "; howdah sub reset p --to N, then sub resume"));
    assert_string_equal(s.text, "");
    cf_ok(howdah_subscription_reset(c->bus, "p", 2, &cf_error));
    cf_ok(howdah_subscription_resume(c->bus, "p", &cf_error));
    assert_string_equal(caught_up(sub, &s), "3");
    howdah_close(bus);
}

/* ------------------------------------------------------------------ runner */

static void a_runner_delivers_in_threads_and_flushes_when_it_stops(void **state)
{
    cf *c = *state;
    seen a = {0};
    seen b = {0};
    howdah_bus *bus = cf_open(c);
    howdah_subscribe_options o = options("a", &a);
    howdah_subscription_info info = HOWDAH_SUBSCRIPTION_INFO_INIT;

    o.checkpoint = HOWDAH_CHECKPOINT_BATCHED;
    o.max_delay_ms = 60000;
    (void)subscribe(bus, &o);
    o.subscriber_id = "b";
    o.ctx = &b;
    (void)subscribe(bus, &o);
    append_n(c->bus, "s", "t", 5);
    cf_ok(howdah_runner_start(bus, 2, &cf_error));
    append_n(c->bus, "s", "t", 5);
    for (int i = 0; i < 200; i++) {
        struct timespec pause = {0, 20000000};

        (void)nanosleep(&pause, NULL);
        if (i > 10 && cf_count(c->bus) == 10)
            break;
    }
    cf_ok(howdah_runner_stop(bus, &cf_error));
    assert_string_equal(a.text, "1 2 3 4 5 6 7 8 9 10");
    assert_string_equal(b.text, "1 2 3 4 5 6 7 8 9 10");
    cf_ok(howdah_subscriptions_walk(c->bus, "a", keep_info, &info, &cf_error));
    assert_int_equal(info.high, 10);
    howdah_close(bus);
}

static void the_reason_of_a_pause_is_in_the_info_of_who_runs_it(void **state)
{
    cf *c = *state;
    howdah_subscription_info info = HOWDAH_SUBSCRIPTION_INFO_INIT;
    howdah_bus *other = cf_open(c);
    seen s = {0};
    howdah_subscribe_options o = options("p", &s);
    howdah_subscription *sub = subscribe(c->bus, &o);

    cf_ok(howdah_subscription_wait(sub, CF_PATIENCE_MS, &cf_error));
    cf_ok(howdah_subscription_pause(other, "p", "the printer is out of paper", &cf_error));
    cf_run_until_state(c->bus, sub, HOWDAH_SUBSCRIPTION_PAUSED);
    assert_int_equal(howdah_subscription_info_get(sub, &info), HOWDAH_OK);
    assert_string_equal(info.reason, "the printer is out of paper");
    cf_ok(howdah_subscription_resume(other, "p", &cf_error));
    cf_run_until_state(c->bus, sub, HOWDAH_SUBSCRIPTION_LIVE);
    assert_int_equal(howdah_subscription_info_get(sub, &info), HOWDAH_OK);
    assert_string_equal(info.reason, "");
    howdah_close(other);
}

static const struct CMUnitTest tests[] = {
    CF_SUB_TEST(the_reason_of_a_pause_is_in_the_info_of_who_runs_it),
    CF_SUB_TEST(a_new_subscription_sees_everything_from_the_start),
    CF_SUB_TEST(a_subscription_starts_at_the_end_or_behind_a_number),
    CF_SUB_TEST(a_subscription_goes_on_where_it_was),
    CF_SUB_TEST(a_stored_place_wins_over_start),
    CF_SUB_TEST(a_second_handle_of_the_same_id_is_refused),
    CF_SUB_TEST(bad_options_are_refused_by_field),
    CF_SUB_TEST(several_subscriptions_have_places_of_their_own),
    CF_SUB_TEST(a_long_log_is_caught_up_in_order_and_handed_over_to_live),
    CF_SUB_TEST(a_subscription_goes_live_while_events_come),
    CF_SUB_TEST(large_events_are_all_delivered),
    CF_SUB_TEST(the_info_tells_place_and_lag),
    CF_SUB_TEST(a_failed_event_is_tried_again_and_its_stream_waits),
    CF_SUB_TEST(after_the_last_try_the_event_is_a_dead_letter_and_delivery_goes_on),
    CF_SUB_TEST(a_dead_letter_is_redriven_by_the_owner_or_discarded),
    CF_SUB_TEST(fail_closed_halts_until_it_is_resumed),
    CF_SUB_TEST(what_a_handler_puts_back_stays_outstanding_and_no_try_is_counted),
    CF_SUB_TEST(a_handler_can_halt_its_subscription),
    CF_SUB_TEST(an_event_that_cannot_be_decoded_is_a_dead_letter),
    CF_SUB_TEST(effect_and_checkpoint_are_one_transaction),
    CF_SUB_TEST(one_instance_owns_and_the_other_takes_over),
    CF_SUB_TEST(a_reset_makes_the_owner_start_anew),
    CF_SUB_TEST(of_two_without_a_lock_the_later_one_goes_on),
    CF_SUB_TEST(a_paused_subscription_delivers_nothing_until_it_is_resumed),
    CF_SUB_TEST(subscriptions_are_listed_and_removed),
    CF_SUB_TEST(a_checkpoint_of_another_log_stops_loudly),
    CF_SUB_TEST(a_runner_delivers_in_threads_and_flushes_when_it_stops),
};

cf_group cf_subscribe_tests(void)
{
    return CF_GROUP(tests);
}
