/* test_queue_dead_letters.c - dead letters of jobs, and of both, in the hands of an operator. */
#include "queue_help.h"

/* "id:state:attempts:redrives", of all that a walk gives. */
typedef struct seen {
    char text[512];
    size_t n;
    size_t stop_after; /* 0: never */
} seen;

static int on_dead_letter(void *ctx, const howdah_dead_letter *dead_letter)
{
    seen *s = ctx;
    size_t len = strlen(s->text);

    assert_int_equal(dead_letter->size, sizeof *dead_letter);
    (void)snprintf(s->text + len, sizeof s->text - len, "%s%lld:%s:%lld:%lld", len ? " " : "",
                   (long long)dead_letter->id, dead_letter->state, (long long)dead_letter->attempts,
                   (long long)dead_letter->redrives);
    return ++s->n == s->stop_after;
}

static const char *dead_letters(howdah_bus *bus, const char *queue, bool resolved)
{
    static seen s;
    howdah_dead_letters_options o = HOWDAH_DEAD_LETTERS_OPTIONS_INIT;

    s = (seen){.n = 0};
    o.queue = queue;
    o.resolved = resolved;
    cf_ok(howdah_dead_letters_walk(bus, &o, on_dead_letter, &s, &cf_error));
    return s.text;
}

static void fail_next(howdah_bus *bus, const char *queue, const char *error)
{
    q_ref ref = q_claim_one(bus, queue, 0);

    cf_ok(howdah_job_fail(bus, ref.id, ref.token, error, &cf_error));
}

static void complete_next(howdah_bus *bus, const char *queue)
{
    q_ref ref = q_claim_one(bus, queue, 0);

    cf_ok(howdah_job_complete(bus, ref.id, ref.token, NULL, &cf_error));
}

static int check_dead_letter(void *ctx, const howdah_dead_letter *dead_letter)
{
    const int64_t *job_id = ctx;
    size_t len = 0;

    assert_int_equal(dead_letter->id, 1);
    assert_string_equal(dead_letter->source, "queue");
    assert_null(dead_letter->subscriber_id);
    assert_null(dead_letter->event);
    assert_text(dead_letter->queue, "mail");
    assert_int_equal(dead_letter->job_id, *job_id);
    assert_string_equal(dead_letter->error, "no answer");
    assert_string_equal(dead_letter->state, "dead");
    assert_string_equal(dead_letter->reason, "");
    assert_string_equal(dead_letter->resolved_by, "");
    assert_false(dead_letter->resolved);
    assert_true(dead_letter->created_at_us > 0 && dead_letter->last_attempt_at_us > 0);
    assert_true(dead_letter->resolved_at_us == HOWDAH_NO_TIME);
    assert_non_null(dead_letter->job);
    assert_int_equal(howdah_job_id(dead_letter->job), *job_id);
    assert_int_equal(howdah_job_state_get(dead_letter->job), HOWDAH_JOB_FAILED);
    assert_text(howdah_job_data(dead_letter->job, &len), "{\"to\": \"ann\"}");
    assert_int_equal(len, 13);
    assert_text(howdah_job_key(dead_letter->job), "k");
    assert_text(howdah_job_correlation(dead_letter->job), "c-1");
    assert_text(howdah_job_headers(dead_letter->job, NULL), "{\"h\":\"v\"}");
    assert_int_equal(howdah_job_event_sequence(dead_letter->job), 0);
    assert_null(howdah_job_event_type(dead_letter->job));
    return 0;
}

static void a_dead_letter_of_a_job_tells_the_queue_the_job_and_its_payload(void **state)
{
    cf *c = *state;
    howdah_new_job job = HOWDAH_NEW_JOB_INIT;
    int64_t id;

    job.data = "{\"to\": \"ann\"}";
    job.data_len = strlen(job.data);
    job.headers = "{\"h\":\"v\"}";
    job.headers_len = strlen(job.headers);
    job.key = "k";
    job.correlation_id = "c-1";
    id = q_push_job(c->bus, "mail", &job);
    fail_next(c->bus, "mail", "no answer");
    cf_ok(howdah_dead_letters_walk(c->bus, NULL, check_dead_letter, &id, &cf_error));
    assert_string_equal(dead_letters(c->bus, NULL, false), "1:dead:1:0");
}

static void dead_letters_are_walked_by_queue_and_page_by_page(void **state)
{
    cf *c = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_dead_letters_options o = HOWDAH_DEAD_LETTERS_OPTIONS_INIT;
    seen s = {.n = 0};

    for (int i = 0; i < 4; i++) {
        (void)q_push(c->bus, i % 2 ? "b" : "a", NULL);
        fail_next(c->bus, i % 2 ? "b" : "a", "x");
    }
    assert_string_equal(dead_letters(c->bus, "a", false), "1:dead:1:0 3:dead:1:0");
    assert_string_equal(dead_letters(c->bus, "b", false), "2:dead:1:0 4:dead:1:0");
    assert_string_equal(dead_letters(c->bus, "nobody", false), "");
    o.after_id = 1;
    o.limit = 2;
    cf_ok(howdah_dead_letters_walk(c->bus, &o, on_dead_letter, &s, &cf_error));
    assert_string_equal(s.text, "2:dead:1:0 3:dead:1:0");
    o.id = 4;
    s = (seen){.n = 0};
    cf_ok(howdah_dead_letters_walk(c->bus, &o, on_dead_letter, &s, &cf_error));
    assert_string_equal(s.text, "4:dead:1:0");
    s = (seen){.stop_after = 1};
    cf_ok(howdah_dead_letters_walk(c->bus, NULL, on_dead_letter, &s, &cf_error));
    assert_string_equal(s.text, "1:dead:1:0");
    o.queue = "a";
    o.subscriber_id = "s";
    assert_int_equal(howdah_dead_letters_walk(c->bus, &o, on_dead_letter, &s, &err),
                     HOWDAH_INVALID);
    assert_string_equal(err.message,
                        "queue: a dead letter is of a subscription or of a queue, not of both");
    o.subscriber_id = NULL;
    o.queue = "";
    assert_int_equal(howdah_dead_letters_walk(c->bus, &o, on_dead_letter, &s, &err),
                     HOWDAH_INVALID);
}

static void a_redriven_dead_letter_follows_its_job_to_the_end(void **state)
{
    cf *c = *state;
    int64_t id = 1;
    int64_t n = 0;

    (void)q_push(c->bus, "mail", NULL);
    fail_next(c->bus, "mail", "x");
    cf_ok(howdah_dead_letters_redrive(c->bus, &id, 1, NULL, &n, &cf_error));
    assert_int_equal(n, 1);
    assert_string_equal(dead_letters(c->bus, "mail", false), "1:redrive:1:0");
    assert_string_equal(q_counts(c->bus, "mail"), "1 0 0 0 0");
    fail_next(c->bus, "mail", "y");
    assert_string_equal(dead_letters(c->bus, "mail", false), "1:dead:2:1");
    cf_ok(howdah_dead_letters_redrive(c->bus, &id, 1, NULL, &n, &cf_error));
    complete_next(c->bus, "mail");
    assert_string_equal(dead_letters(c->bus, "mail", false), "");
    assert_string_equal(dead_letters(c->bus, "mail", true), "1:redriven:3:2");
    assert_int_equal(q_info(c->bus, "mail").dead_letters, 0);
    cf_ok(howdah_dead_letters_redrive(c->bus, &id, 1, NULL, &n, &cf_error));
    assert_int_equal(n, 0);
}

static void all_dead_letters_of_a_queue_are_redriven_or_discarded(void **state)
{
    cf *c = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    int64_t n = 0;

    for (int i = 0; i < 3; i++) {
        (void)q_push(c->bus, i < 2 ? "a" : "b", NULL);
        fail_next(c->bus, i < 2 ? "a" : "b", "x");
    }
    cf_ok(howdah_queue_dead_letters_redrive(c->bus, "a", &n, &cf_error));
    assert_int_equal(n, 2);
    assert_string_equal(dead_letters(c->bus, NULL, true), "1:redrive:1:0 2:redrive:1:0 3:dead:1:0");
    assert_string_equal(q_counts(c->bus, "a"), "2 0 0 0 0");
    cf_ok(howdah_queue_dead_letters_discard(c->bus, "b", "a test", &n, &cf_error));
    assert_int_equal(n, 1);
    assert_string_equal(dead_letters(c->bus, NULL, true),
                        "1:redrive:1:0 2:redrive:1:0 3:discarded:1:0");
    cf_ok(howdah_queue_dead_letters_discard(c->bus, "b", "a test", NULL, &cf_error));
    assert_int_equal(howdah_queue_dead_letters_redrive(c->bus, "c", &n, &err), HOWDAH_NOT_FOUND);
    assert_int_equal(howdah_queue_dead_letters_discard(c->bus, "a", "", &n, &err), HOWDAH_INVALID);
    assert_int_equal(howdah_queue_dead_letters_discard(c->bus, "a", NULL, &n, &err),
                     HOWDAH_INVALID);
    assert_int_equal(howdah_queue_dead_letters_redrive(c->bus, "", &n, &err), HOWDAH_INVALID);
    assert_int_equal(howdah_queue_dead_letters_redrive(NULL, "a", &n, &err), HOWDAH_MISUSE);
}

static int fail_event(void *ctx, const howdah_event *event, howdah_delivery *delivery)
{
    (void)ctx;
    (void)event;
    return howdah_delivery_fail(delivery, "no");
}

/* All that is in the log becomes a dead letter of "p". */
static void fail_events(const cf *c)
{
    howdah_bus *bus = cf_open(c);
    howdah_subscribe_options o = HOWDAH_SUBSCRIBE_OPTIONS_INIT;
    howdah_subscription *sub = NULL;

    o.subscriber_id = "p";
    o.handler = fail_event;
    o.max_retries = 0;
    cf_ok(howdah_subscribe(bus, &o, &sub, &cf_error));
    assert_int_equal(howdah_subscription_wait(sub, 60000, &cf_error), HOWDAH_OK);
    howdah_close(bus);
}

static void all_dead_letters_are_those_of_subscriptions_and_of_jobs(void **state)
{
    cf *c = *state;
    int64_t ids[] = {1, 2};
    int64_t n = 0;

    (void)cf_append(c->bus, "s", "a.b", NULL);
    fail_events(c);
    (void)q_push(c->bus, "mail", NULL);
    fail_next(c->bus, "mail", "x");
    assert_string_equal(dead_letters(c->bus, NULL, false), "1:dead:1:0 2:dead:1:0");
    assert_string_equal(dead_letters(c->bus, "mail", false), "2:dead:1:0");
    cf_ok(howdah_dead_letters_redrive(c->bus, NULL, 0, "p", &n, &cf_error));
    assert_int_equal(n, 1);
    assert_string_equal(dead_letters(c->bus, NULL, false), "1:redrive:1:0 2:dead:1:0");
    cf_ok(howdah_dead_letters_redrive(c->bus, NULL, 0, NULL, &n, &cf_error));
    assert_int_equal(n, 2);
    assert_string_equal(dead_letters(c->bus, NULL, false), "1:redrive:1:0 2:redrive:1:0");
    cf_ok(howdah_dead_letters_discard(c->bus, ids, 2, "a test", &n, &cf_error));
    assert_int_equal(n, 2);
    assert_string_equal(dead_letters(c->bus, NULL, true), "1:discarded:1:0 2:discarded:1:0");
}

static void a_discarded_dead_letter_gives_the_key_back_that_its_job_held(void **state)
{
    cf *c = *state;
    howdah_queue_options o = HOWDAH_QUEUE_OPTIONS_INIT;
    howdah_new_job job = HOWDAH_NEW_JOB_INIT;
    int64_t id = 1;

    o.hold_key = 1;
    cf_ok(howdah_queue_configure(c->bus, "mail", &o, &cf_error));
    job.key = "k";
    (void)q_push_job(c->bus, "mail", &job);
    (void)q_push_job(c->bus, "mail", &job);
    fail_next(c->bus, "mail", "x");
    assert_string_equal(q_counts(c->bus, "mail"), "0 0 1 0 1");
    cf_ok(howdah_dead_letters_discard(c->bus, &id, 1, "a test", NULL, &cf_error));
    assert_string_equal(q_counts(c->bus, "mail"), "1 0 0 0 1");
    complete_next(c->bus, "mail");
}

cf_group cf_queue_dead_letters_tests(void)
{
    static const struct CMUnitTest tests[] = {
        CF_QUEUE_TEST(a_dead_letter_of_a_job_tells_the_queue_the_job_and_its_payload),
        CF_QUEUE_TEST(dead_letters_are_walked_by_queue_and_page_by_page),
        CF_QUEUE_TEST(a_redriven_dead_letter_follows_its_job_to_the_end),
        CF_QUEUE_TEST(all_dead_letters_of_a_queue_are_redriven_or_discarded),
        CF_QUEUE_TEST(all_dead_letters_are_those_of_subscriptions_and_of_jobs),
        CF_QUEUE_TEST(a_discarded_dead_letter_gives_the_key_back_that_its_job_held),
    };

    return CF_GROUP(tests);
}
