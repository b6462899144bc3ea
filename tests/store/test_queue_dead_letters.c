/* test_queue_dead_letters.c - dead letters of jobs, alone and between those of subscriptions. */
#include <stdio.h>

#include "flaky.h"
#include "jobs.h"

/* A dead letter of a job that outlives its callback. */
typedef struct kept_dead_letter {
    howdah_dead_letter dead_letter; /* its texts are gone */
    char source[16];                /* "-": absent, and so below */
    char queue[64];
    char error[64];
    char reason[64];
    char resolved_by[64];
    char event_type[64];
    char event_stream[64];
    batch job; /* none: nothing is left of it */
} kept_dead_letter;

typedef struct pile {
    kept_dead_letter last;
    size_t n;
    size_t stop_after; /* 0: never */
    char ids[1024];    /* "1 2 3" */
} pile;

static void keep_text(char *out, size_t size, const char *text)
{
    (void)snprintf(out, size, "%s", text && text[0] ? text : "-");
}

static int keep_dead_letter(void *ctx, const howdah_dead_letter *dead_letter)
{
    pile *p = ctx;
    kept_dead_letter *k = &p->last;
    size_t len = strlen(p->ids);

    *k = (kept_dead_letter){.dead_letter = *dead_letter};
    (void)snprintf(p->ids + len, sizeof p->ids - len, "%s%lld", len > 0 ? " " : "",
                   (long long)dead_letter->id);
    keep_text(k->source, sizeof k->source, dead_letter->source);
    keep_text(k->queue, sizeof k->queue, dead_letter->queue);
    keep_text(k->error, sizeof k->error, dead_letter->error);
    keep_text(k->reason, sizeof k->reason, dead_letter->reason);
    keep_text(k->resolved_by, sizeof k->resolved_by, dead_letter->resolved_by);
    if (dead_letter->job) {
        (void)jobs_keep(&k->job, dead_letter->job);
        keep_text(k->event_type, sizeof k->event_type, dead_letter->job->event_type.s);
        keep_text(k->event_stream, sizeof k->event_stream, dead_letter->job->event_stream.s);
    }
    return ++p->n == p->stop_after;
}

static pile dead_letters(const ss *t, hw_dead_letter_query query)
{
    pile p = {.n = 0};

    ok(t->subs->dead_letters(t->store, &query, keep_dead_letter, &p, &ss_error));
    return p;
}

static const char *ids_of(const ss *t, hw_dead_letter_query query)
{
    static char ids[1024];
    pile p = dead_letters(t, query);

    (void)snprintf(ids, sizeof ids, "%s", p.ids);
    return ids;
}

static kept_dead_letter show(const ss *t, int64_t id)
{
    pile p = dead_letters(t, (hw_dead_letter_query){.id = id, .resolved = true});

    assert_int_equal(p.n, 1);
    assert_int_equal(p.last.dead_letter.id, id);
    return p.last;
}

static void expect_dead_letter(const ss *t, int64_t id, hw_dead_letter_state state,
                               int64_t attempts, int64_t redrives)
{
    kept_dead_letter k = show(t, id);

    assert_string_equal(k.dead_letter.state, hw_dead_letter_state_name(state));
    assert_int_equal(k.dead_letter.attempts, attempts);
    assert_int_equal(k.dead_letter.redrives, redrives);
    assert_int_equal(k.dead_letter.resolved,
                     state == HW_DEAD_LETTER_REDRIVEN || state == HW_DEAD_LETTER_DISCARDED);
}

/* A job of this queue that has failed; the id of its letter. */
static int64_t fail_job(const ss *t, const char *queue, hw_push job)
{
    int64_t id = push_to(t, queue, job);
    batch b = claim_from(t->store, queue, 1, LONG_MS);

    assert_int_equal(b.jobs[0].job.id, id);
    fail_for_good(t, &b.jobs[0], "x");
    return open_dead_letter(t, id);
}

/* An event that subscription "s", whose token this is, could not handle; the id of its letter. */
static int64_t fail_event(const ss *t, int64_t token)
{
    howdah_event *event = ss_append(t->store, "st", "a.b", NULL);
    hw_checkpoint c = ss_behind("s", token, event);
    int64_t id = 0;

    ok(t->subs->dead_letter(t->store, &c, event, S("e"), 1, &id, &ss_error));
    hw_event_free(event);
    return id;
}

static int64_t mark(const ss *t, const int64_t *ids, size_t n, hw_dead_letter_state state)
{
    int64_t marked = -1;

    ok(t->subs->dead_letters_set_state(t->store, ids, n, HW_STR_NULL, state,
                                       state == HW_DEAD_LETTER_DISCARDED ? S("why") : HW_STR_NULL,
                                       &marked, &ss_error));
    return marked;
}

static int64_t mark_queue(const ss *t, const char *queue, hw_dead_letter_state state)
{
    int64_t marked = -1;

    ok(jobs_ops(t)->dead_letters_set_state(
        t->store, S(queue), state, state == HW_DEAD_LETTER_DISCARDED ? S("why") : HW_STR_NULL,
        &marked, &ss_error));
    return marked;
}

/* ---- listing */

static void a_dead_letter_of_a_job_has_its_error_and_what_was_pushed(void **state)
{
    ss *t = *state;
    hw_push job = a_keyed_job("{\"n\": 1.50}", "k");
    int64_t before_us = hw_clock_wall_us();
    int64_t id;
    kept_dead_letter k;
    kept_job c;

    (void)jobs_ops(t);
    job.dedup = S("d");
    job.correlation_id = S("c-1");
    job.headers = S("{\"h\":\"v\"}");
    job.priority = -3;
    job.max_attempts = 2;
    assert_true(hw_uuid_v7(&job.causation_id));
    job.has_causation = true;
    id = push(t, job);
    c = claim_one(t, "{\"n\": 1.50}");
    retry_after(t, &c, 0);
    c = claim_one(t, "{\"n\": 1.50}");
    assert_int_equal(ack(t, &c, HOWDAH_VERDICT_RETRY, "no answer", 0), HOWDAH_ACKED_FAILED);
    k = show(t, open_dead_letter(t, id));
    assert_string_equal(k.source, "queue");
    assert_string_equal(k.queue, "q");
    assert_string_equal(k.error, "no answer");
    assert_string_equal(k.reason, "-");
    assert_string_equal(k.resolved_by, "-");
    assert_null(k.dead_letter.subscriber_id);
    assert_null(k.dead_letter.event);
    assert_int_equal(k.dead_letter.job_id, id);
    assert_string_equal(k.dead_letter.state, hw_dead_letter_state_name(HW_DEAD_LETTER_DEAD));
    assert_int_equal(k.dead_letter.attempts, 2);
    assert_int_equal(k.dead_letter.redrives, 0);
    assert_true(llabs(k.dead_letter.created_at_us - before_us) < 60 * 1000000LL);
    assert_true(llabs(k.dead_letter.last_attempt_at_us - k.dead_letter.created_at_us) < 1000000);
    assert_true(!k.dead_letter.resolved && k.dead_letter.resolved_at_us == HOWDAH_NO_TIME);
    assert_int_equal(k.job.n, 1);
    c = k.job.jobs[0];
    assert_int_equal(c.job.id, id);
    assert_int_equal(c.job.state, HOWDAH_JOB_FAILED);
    assert_int_equal(c.job.attempts, 2);
    assert_int_equal(c.job.max_attempts, 2);
    assert_int_equal(c.job.priority, -3);
    assert_int_equal(c.job.token, 0);
    assert_int_equal(c.job.event_sequence, 0);
    assert_true(c.job.has_causation);
    assert_memory_equal(c.job.causation_id.b, job.causation_id.b, sizeof job.causation_id.b);
    assert_true(llabs(c.job.created_at_us - before_us) < 60 * 1000000LL);
    assert_string_equal(c.queue, "q");
    assert_string_equal(c.data, "{\"n\": 1.50}");
    assert_string_equal(c.content_type, "-");
    assert_string_equal(c.headers, "{\"h\":\"v\"}");
    assert_string_equal(c.key, "k");
    assert_string_equal(c.dedup, "d");
    assert_string_equal(c.correlation_id, "c-1");
    assert_string_equal(c.error, "no answer");
    assert_string_equal(k.event_type, "-");
}

static void bytes_of_a_job_come_back_with_its_dead_letter(void **state)
{
    ss *t = *state;
    hw_push job = a_job(NULL);
    kept_dead_letter k;

    (void)jobs_ops(t);
    job.data = (hw_str){"a\0b", 3};
    job.content_type = S("application/x");
    k = show(t, fail_job(t, "q", job));
    assert_int_equal(k.job.jobs[0].job.data.len, 3);
    assert_string_equal(k.job.jobs[0].data, "a");
    assert_string_equal(k.job.jobs[0].content_type, "application/x");
}

static void a_job_that_a_binding_made_tells_its_event(void **state)
{
    ss *t = *state;
    howdah_event *event = ss_append(t->store, "order-7", "order.created", "{\"n\":7}");
    hw_binding binding = {.queue = S("q"), .pattern = S("order.*"), .subscriber_id = S("r")};
    bool made = false;
    hw_checkpoint c;
    kept_dead_letter k;
    batch b;

    ok(jobs_ops(t)->bind(t->store, &binding, 0, NULL, 0, &made, &ss_error));
    c = ss_behind("r", ss_take(t->store, "r", "o"), event);
    ok(jobs_ops(t)->route(t->store, &c, S("q"), HOWDAH_KEY_STREAM, &event->global_sequence, 1,
                          &ss_error));
    b = claim(t, 1);
    fail_for_good(t, &b.jobs[0], "x");
    k = show(t, open_dead_letter(t, b.jobs[0].job.id));
    assert_int_equal(k.job.jobs[0].job.event_sequence, event->global_sequence);
    assert_string_equal(k.job.jobs[0].data, "{\"n\":7}");
    assert_string_equal(k.job.jobs[0].key, "order-7");
    assert_string_equal(k.event_type, "order.created");
    assert_string_equal(k.event_stream, "order-7");
    hw_event_free(event);
}

static void dead_letters_of_both_are_listed_by_id_and_chosen_by_whose_they_are(void **state)
{
    ss *t = *state;
    int64_t token;
    int64_t id;

    (void)jobs_ops(t);
    ss_create(t, "s");
    token = ss_take(t->store, "s", "o");
    assert_int_equal(fail_job(t, "q", a_job("1")), 1);
    assert_int_equal(fail_event(t, token), 2);
    assert_int_equal(fail_job(t, "other", a_job("2")), 3);
    assert_int_equal(fail_event(t, token), 4);
    assert_int_equal(fail_job(t, "q", a_job("3")), 5);
    assert_string_equal(ids_of(t, (hw_dead_letter_query){.id = 0}), "1 2 3 4 5");
    assert_string_equal(ids_of(t, (hw_dead_letter_query){.subscriber_id = S("s")}), "2 4");
    assert_string_equal(ids_of(t, (hw_dead_letter_query){.queue = S("q")}), "1 5");
    assert_string_equal(ids_of(t, (hw_dead_letter_query){.queue = S("nobody")}), "");
    assert_string_equal(ids_of(t, (hw_dead_letter_query){.id = 3}), "3");
    assert_string_equal(ids_of(t, (hw_dead_letter_query){.id = 3, .queue = S("q")}), "");
    assert_string_equal(ids_of(t, (hw_dead_letter_query){.limit = 3}), "1 2 3");
    assert_string_equal(ids_of(t, (hw_dead_letter_query){.after_id = 2, .limit = 2}), "3 4");
    assert_string_equal(ids_of(t, (hw_dead_letter_query){.after_id = 1, .queue = S("q")}), "5");
    assert_string_equal(ids_of(t, (hw_dead_letter_query){.after_id = 5}), "");
    assert_int_equal(mark(t, (int64_t[]){1, 4}, 2, HW_DEAD_LETTER_DISCARDED), 2);
    assert_string_equal(ids_of(t, (hw_dead_letter_query){.id = 0}), "2 3 5");
    assert_string_equal(ids_of(t, (hw_dead_letter_query){.queue = S("q")}), "5");
    assert_string_equal(ids_of(t, (hw_dead_letter_query){.resolved = true}), "1 2 3 4 5");
    assert_string_equal(ids_of(t, (hw_dead_letter_query){.queue = S("q"), .resolved = true}),
                        "1 5");
    id = 3;
    assert_int_equal(mark(t, &id, 1, HW_DEAD_LETTER_REDRIVE), 1);
    assert_string_equal(ids_of(t, (hw_dead_letter_query){.redrives = true}), "");
    assert_string_equal(ids_of(t, (hw_dead_letter_query){.queue = S("other")}), "3");
}

static void a_callback_ends_the_listing(void **state)
{
    ss *t = *state;
    hw_dead_letter_query all = {.id = 0};
    pile p = {.stop_after = 2};

    (void)jobs_ops(t);
    for (int i = 0; i < 3; i++)
        (void)fail_job(t, "q", a_job("1"));
    ok(t->subs->dead_letters(t->store, &all, keep_dead_letter, &p, &ss_error));
    assert_string_equal(p.ids, "1 2");
}

/* More than any page of a store. */
static void many_dead_letters_of_both_are_listed_once_each_in_order(void **state)
{
    enum { ROUNDS = 130 };
    ss *t = *state;
    int64_t token;
    int64_t after = 0;
    int n = 0;

    (void)jobs_ops(t);
    ss_create(t, "s");
    token = ss_take(t->store, "s", "o");
    for (int i = 0; i < ROUNDS; i++) {
        (void)fail_job(t, "q", a_job("1"));
        if (i % 2 == 0)
            (void)fail_event(t, token);
    }
    for (;;) {
        hw_dead_letter_query query = {.after_id = after, .limit = 120};
        pile p = dead_letters(t, query);
        char wanted[1024] = "";

        if (p.n == 0)
            break;
        for (size_t i = 0; i < p.n; i++)
            (void)snprintf(wanted + strlen(wanted), sizeof wanted - strlen(wanted), "%s%lld",
                           i > 0 ? " " : "", (long long)after + (long long)i + 1);
        assert_string_equal(p.ids, wanted);
        after = p.last.dead_letter.id;
        n += (int)p.n;
    }
    assert_int_equal(n, ROUNDS + ROUNDS / 2);
    assert_int_equal(dead_letters(t, (hw_dead_letter_query){.limit = 0}).n, ROUNDS + ROUNDS / 2);
}

static void a_dead_letter_outlives_its_job(void **state)
{
    ss *t = *state;
    howdah_queue_options settings = keep_all();
    bool more = false;
    kept_dead_letter k;
    int64_t id;

    settings.history_ms = 1;
    (void)jobs_ops(t);
    put_queue(t, "q", settings);
    id = fail_job(t, "q", a_job("1"));
    wait_ms(5);
    ok(jobs_ops(t)->maintain(t->store, S("q"), &more, &ss_error));
    assert_int_equal(show(t, id).job.n, 1);
    assert_int_equal(mark(t, &id, 1, HW_DEAD_LETTER_DISCARDED), 1);
    ok(jobs_ops(t)->maintain(t->store, S("q"), &more, &ss_error));
    k = show(t, id);
    assert_int_equal(k.job.n, 0);
    assert_null(k.dead_letter.job);
    assert_true(k.dead_letter.job_id > 0);
    assert_string_equal(k.queue, "q");
    assert_string_equal(k.error, "x");
    assert_string_equal(k.reason, "why");
}

/* ---- another try */

static void a_redriven_dead_letter_is_resolved_when_its_job_completes(void **state)
{
    ss *t = *state;
    int64_t id = fail_job(t, "q", a_job("1"));
    kept_dead_letter k;
    kept_job job;

    assert_int_equal(mark(t, &id, 1, HW_DEAD_LETTER_REDRIVE), 1);
    expect_dead_letter(t, id, HW_DEAD_LETTER_REDRIVE, 1, 0);
    assert_int_equal(show(t, id).job.jobs[0].job.state, HOWDAH_JOB_PENDING);
    expect_counts(t, "1 0 0 0 0 0");
    assert_int_equal(load_queue(t, "q").dead_letters, 1);
    job = claim_one(t, "1");
    assert_int_equal(job.job.attempts, 1);
    retry_after(t, &job, 0);
    job = claim_one(t, "1");
    expect_dead_letter(t, id, HW_DEAD_LETTER_REDRIVE, 1, 0);
    complete(t, &job);
    expect_dead_letter(t, id, HW_DEAD_LETTER_REDRIVEN, 3, 1);
    k = show(t, id);
    assert_string_equal(k.resolved_by, "w");
    assert_string_equal(k.error, "x");
    assert_true(k.dead_letter.last_attempt_at_us == k.dead_letter.resolved_at_us);
    assert_int_equal(k.job.jobs[0].job.state, HOWDAH_JOB_COMPLETED);
    assert_int_equal(load_queue(t, "q").dead_letters, 0);
    expect_counts(t, "0 0 0 1 0 0");
    assert_int_equal(mark(t, &id, 1, HW_DEAD_LETTER_REDRIVE), 0);
    assert_int_equal(mark(t, &id, 1, HW_DEAD_LETTER_DISCARDED), 0);
}

static void a_redriven_dead_letter_is_dead_again_when_its_job_fails_again(void **state)
{
    ss *t = *state;
    int64_t id = fail_job(t, "q", a_job("1"));

    for (int i = 1; i <= 2; i++) {
        kept_job job;

        assert_int_equal(mark(t, &id, 1, HW_DEAD_LETTER_REDRIVE), 1);
        job = claim_one(t, "1");
        retry_after(t, &job, 0);
        job = claim_one(t, "1");
        fail_for_good(t, &job, i == 1 ? "again" : "and again");
        expect_dead_letter(t, id, HW_DEAD_LETTER_DEAD, 1 + 2 * i, i);
        assert_string_equal(show(t, id).error, i == 1 ? "again" : "and again");
        assert_int_equal(open_dead_letter(t, job.job.id), id);
    }
    expect_counts(t, "0 0 0 0 1 0");
}

static void a_redriven_job_that_its_worker_abandons_keeps_its_dead_letter(void **state)
{
    ss *t = *state;
    int64_t id = fail_job(t, "q", a_job("1"));
    bool more = false;
    kept_job job;

    assert_int_equal(mark(t, &id, 1, HW_DEAD_LETTER_REDRIVE), 1);
    assert_int_equal(claim_from(t->store, "q", 1, SHORT_MS).n, 1);
    wait_ms(SHORT_MS + 10);
    ok(jobs_ops(t)->maintain(t->store, S("q"), &more, &ss_error));
    expect_dead_letter(t, id, HW_DEAD_LETTER_REDRIVE, 1, 0);
    job = claim_one(t, "1");
    complete(t, &job);
    expect_dead_letter(t, id, HW_DEAD_LETTER_REDRIVEN, 3, 1);
}

/* Those beside it are acked as if it were not there. */
static void a_redriven_job_completes_in_one_lease_with_others(void **state)
{
    ss *t = *state;
    int64_t id = fail_job(t, "q", a_job("1"));
    hw_ack all[3] = {{.id = 0}};
    howdah_ack_outcome acked[3];
    batch b;

    (void)push(t, a_job("2"));
    (void)push(t, a_job("3"));
    assert_int_equal(mark(t, &id, 1, HW_DEAD_LETTER_REDRIVE), 1);
    b = claim(t, 3);
    assert_int_equal(b.n, 3);
    for (int i = 0; i < 3; i++)
        all[i] = (hw_ack){.id = b.jobs[i].job.id, .token = b.jobs[i].job.token};
    ok(jobs_ops(t)->exchange(t->store, all, 3, acked, NULL, NULL, NULL, NULL, &ss_error));
    for (int i = 0; i < 3; i++)
        assert_int_equal(acked[i], HOWDAH_ACKED_DONE);
    expect_dead_letter(t, id, HW_DEAD_LETTER_REDRIVEN, 2, 1);
    expect_counts(t, "0 0 0 3 0 0");
    assert_int_equal(ss_sql_number(t, "SELECT count(*) FROM {job_dead_letters}"), 1);
}

static void a_dead_letter_that_is_tried_again_is_counted_and_left_alone(void **state)
{
    ss *t = *state;
    int64_t id = fail_job(t, "q", a_job("1"));
    kept_job job;

    for (int i = 0; i < 2; i++)
        assert_int_equal(mark(t, &id, 1, HW_DEAD_LETTER_REDRIVE), 1);
    expect_counts(t, "1 0 0 0 0 0");
    job = claim_one(t, "1");
    assert_int_equal(mark(t, &id, 1, HW_DEAD_LETTER_REDRIVE), 1);
    assert_int_equal(mark_queue(t, "q", HW_DEAD_LETTER_REDRIVE), 1);
    complete(t, &job);
    expect_dead_letter(t, id, HW_DEAD_LETTER_REDRIVEN, 2, 1);
    expect_counts(t, "0 0 0 1 0 0");
}

static void a_dead_letter_that_is_discarded_while_its_job_is_tried_stays_so(void **state)
{
    ss *t = *state;
    int64_t id = fail_job(t, "q", a_job("1"));
    kept_job job;

    assert_int_equal(mark(t, &id, 1, HW_DEAD_LETTER_REDRIVE), 1);
    job = claim_one(t, "1");
    assert_int_equal(mark(t, &id, 1, HW_DEAD_LETTER_DISCARDED), 1);
    complete(t, &job);
    expect_dead_letter(t, id, HW_DEAD_LETTER_DISCARDED, 1, 0);
    expect_counts(t, "0 0 0 1 0 0");
}

static void a_job_that_is_retried_by_its_id_takes_its_dead_letter_along(void **state)
{
    ss *t = *state;
    int64_t id = fail_job(t, "q", a_job("1"));
    kept_job job;

    ok(jobs_ops(t)->job_rerun(t->store, show(t, id).dead_letter.job_id, &ss_error));
    expect_dead_letter(t, id, HW_DEAD_LETTER_REDRIVE, 1, 0);
    job = claim_one(t, "1");
    complete(t, &job);
    expect_dead_letter(t, id, HW_DEAD_LETTER_REDRIVEN, 2, 1);
}

static void a_redriven_job_that_is_cancelled_or_purged_discards_its_dead_letter(void **state)
{
    ss *t = *state;
    int64_t ids[2];
    int64_t n = 0;
    kept_dead_letter k;

    for (int i = 0; i < 2; i++)
        ids[i] = fail_job(t, "q", a_job("1"));
    assert_int_equal(mark(t, ids, 2, HW_DEAD_LETTER_REDRIVE), 2);
    ok(jobs_ops(t)->job_cancel(t->store, show(t, ids[0]).dead_letter.job_id, S("enough"),
                               &ss_error));
    expect_dead_letter(t, ids[0], HW_DEAD_LETTER_DISCARDED, 1, 0);
    assert_string_equal(show(t, ids[0]).reason, "cancelled: enough");
    expect_dead_letter(t, ids[1], HW_DEAD_LETTER_REDRIVE, 1, 0);
    ok(jobs_ops(t)->queue_purge(t->store, S("q"), &n, &ss_error));
    assert_int_equal(n, 1);
    expect_dead_letter(t, ids[1], HW_DEAD_LETTER_DISCARDED, 1, 0);
    k = show(t, ids[1]);
    assert_string_equal(k.reason, "purged");
    assert_int_equal(k.job.n, 0);
    assert_int_equal(load_queue(t, "q").dead_letters, 0);
    expect_counts(t, "0 0 0 0 1 1");
}

/* ---- all of them */

static void all_without_a_name_are_those_of_subscriptions_and_of_jobs(void **state)
{
    ss *t = *state;
    int64_t n = 0;
    int64_t token;

    (void)jobs_ops(t);
    ss_create(t, "s");
    token = ss_take(t->store, "s", "o");
    (void)fail_job(t, "q", a_job("1"));
    (void)fail_event(t, token);
    (void)fail_job(t, "other", a_job("2"));
    ok(t->subs->dead_letters_set_state(t->store, NULL, 0, S("s"), HW_DEAD_LETTER_REDRIVE,
                                       HW_STR_NULL, &n, &ss_error));
    assert_int_equal(n, 1);
    expect_dead_letter(t, 1, HW_DEAD_LETTER_DEAD, 1, 0);
    expect_dead_letter(t, 3, HW_DEAD_LETTER_DEAD, 1, 0);
    assert_int_equal(mark(t, NULL, 0, HW_DEAD_LETTER_REDRIVE), 3);
    expect_dead_letter(t, 1, HW_DEAD_LETTER_REDRIVE, 1, 0);
    expect_dead_letter(t, 3, HW_DEAD_LETTER_REDRIVE, 1, 0);
    expect_counts(t, "1 0 0 0 0 0");
    assert_int_equal(mark(t, NULL, 0, HW_DEAD_LETTER_DISCARDED), 3);
    assert_string_equal(ids_of(t, (hw_dead_letter_query){.id = 0}), "");
    assert_int_equal(mark(t, NULL, 0, HW_DEAD_LETTER_REDRIVE), 0);
}

static void all_of_a_queue_are_tried_again_and_no_others(void **state)
{
    ss *t = *state;
    int64_t n = -1;
    int64_t id;

    for (int i = 0; i < 3; i++)
        (void)fail_job(t, "q", a_job("1"));
    (void)fail_job(t, "other", a_job("2"));
    ss_create(t, "s");
    (void)fail_event(t, ss_take(t->store, "s", "o"));
    id = 2;
    assert_int_equal(mark(t, &id, 1, HW_DEAD_LETTER_DISCARDED), 1);
    assert_int_equal(mark_queue(t, "q", HW_DEAD_LETTER_REDRIVE), 2);
    expect_dead_letter(t, 1, HW_DEAD_LETTER_REDRIVE, 1, 0);
    expect_dead_letter(t, 2, HW_DEAD_LETTER_DISCARDED, 1, 0);
    expect_dead_letter(t, 3, HW_DEAD_LETTER_REDRIVE, 1, 0);
    expect_dead_letter(t, 4, HW_DEAD_LETTER_DEAD, 1, 0);
    expect_dead_letter(t, 5, HW_DEAD_LETTER_DEAD, 1, 0);
    expect_counts(t, "2 0 0 0 1 0");
    expect(jobs_ops(t)->dead_letters_set_state(t->store, S("nobody"), HW_DEAD_LETTER_REDRIVE,
                                               HW_STR_NULL, &n, &ss_error),
           HOWDAH_NOT_FOUND);
    assert_int_equal(n, -1);
}

static void all_of_a_queue_are_discarded_and_their_keys_are_free(void **state)
{
    ss *t = *state;
    howdah_queue_options settings = keep_all();

    settings.hold_key = 1;
    (void)jobs_ops(t);
    put_queue(t, "q", settings);
    for (int i = 0; i < 2; i++)
        (void)fail_job(t, "q", a_keyed_job("1", i == 0 ? "k" : "l"));
    (void)push(t, a_keyed_job("2", "k"));
    (void)push(t, a_keyed_job("3", "l"));
    assert_int_equal(claim(t, 10).n, 0);
    assert_int_equal(mark_queue(t, "q", HW_DEAD_LETTER_DISCARDED), 2);
    assert_string_equal(show(t, 1).reason, "why");
    assert_string_equal(claim(t, 10).names, "2 3");
    assert_int_equal(mark_queue(t, "q", HW_DEAD_LETTER_DISCARDED), 0);
}

static void a_job_whose_dedup_key_is_taken_is_left_out(void **state)
{
    ss *t = *state;
    hw_push job = a_job("1");
    int64_t ids[2];

    (void)jobs_ops(t);
    job.dedup = S("d");
    ids[0] = fail_job(t, "q", job);
    ids[1] = fail_job(t, "q", a_job("2"));
    (void)push_to(t, "q", job);
    assert_int_equal(mark(t, ids, 2, HW_DEAD_LETTER_REDRIVE), 1);
    expect_dead_letter(t, ids[0], HW_DEAD_LETTER_DEAD, 1, 0);
    expect_dead_letter(t, ids[1], HW_DEAD_LETTER_REDRIVE, 1, 0);
    assert_int_equal(mark_queue(t, "q", HW_DEAD_LETTER_REDRIVE), 1);
    assert_int_equal(mark(t, NULL, 0, HW_DEAD_LETTER_REDRIVE), 1);
    expect_dead_letter(t, ids[0], HW_DEAD_LETTER_DEAD, 1, 0);
    expect_counts(t, "2 0 0 0 1 0");
    assert_int_equal(mark(t, ids, 1, HW_DEAD_LETTER_DISCARDED), 1);
}

static void a_mark_that_fails_is_done_or_not_and_can_be_repeated(void **state)
{
    static const hw_flaky_mode modes[] = {HW_FLAKY_BEFORE, HW_FLAKY_BEFORE_UNKNOWN, HW_FLAKY_AFTER};
    ss *t = *state;

    for (int i = 0; i < 3; i++) {
        int64_t id = fail_job(t, "q", a_job("1"));
        hw_store *flaky = ss_open(t);
        int64_t n = -1;
        kept_job job;

        ok(hw_flaky_open(flaky, &flaky, &ss_error));
        hw_flaky_plan(flaky, 1, modes[i]);
        expect(flaky->ops->queue->dead_letters_set_state(flaky, S("q"), HW_DEAD_LETTER_REDRIVE,
                                                         HW_STR_NULL, &n, &ss_error),
               HOWDAH_UNAVAILABLE);
        assert_int_equal(n, -1);
        expect_dead_letter(
            t, id, modes[i] == HW_FLAKY_AFTER ? HW_DEAD_LETTER_REDRIVE : HW_DEAD_LETTER_DEAD, 1, 0);
        ok(flaky->ops->queue->dead_letters_set_state(flaky, S("q"), HW_DEAD_LETTER_REDRIVE,
                                                     HW_STR_NULL, &n, &ss_error));
        assert_int_equal(n, 1);
        expect_dead_letter(t, id, HW_DEAD_LETTER_REDRIVE, 1, 0);
        flaky->ops->close(flaky);
        job = claim_one(t, "1");
        complete(t, &job);
    }
    expect_counts(t, "0 0 0 3 0 0");
}

ss_group ss_queue_dead_letter_tests(void)
{
    static const struct CMUnitTest tests[] = {
        SS_TEST(a_dead_letter_of_a_job_has_its_error_and_what_was_pushed),
        SS_TEST(bytes_of_a_job_come_back_with_its_dead_letter),
        SS_TEST(a_job_that_a_binding_made_tells_its_event),
        SS_TEST(dead_letters_of_both_are_listed_by_id_and_chosen_by_whose_they_are),
        SS_TEST(a_callback_ends_the_listing),
        SS_TEST(many_dead_letters_of_both_are_listed_once_each_in_order),
        SS_TEST(a_dead_letter_outlives_its_job),
        SS_TEST(a_redriven_dead_letter_is_resolved_when_its_job_completes),
        SS_TEST(a_redriven_dead_letter_is_dead_again_when_its_job_fails_again),
        SS_TEST(a_redriven_job_that_its_worker_abandons_keeps_its_dead_letter),
        SS_TEST(a_redriven_job_completes_in_one_lease_with_others),
        SS_TEST(a_dead_letter_that_is_tried_again_is_counted_and_left_alone),
        SS_TEST(a_dead_letter_that_is_discarded_while_its_job_is_tried_stays_so),
        SS_TEST(a_job_that_is_retried_by_its_id_takes_its_dead_letter_along),
        SS_TEST(a_redriven_job_that_is_cancelled_or_purged_discards_its_dead_letter),
        SS_TEST(all_without_a_name_are_those_of_subscriptions_and_of_jobs),
        SS_TEST(all_of_a_queue_are_tried_again_and_no_others),
        SS_TEST(all_of_a_queue_are_discarded_and_their_keys_are_free),
        SS_TEST(a_job_whose_dedup_key_is_taken_is_left_out),
        SS_TEST(a_mark_that_fails_is_done_or_not_and_can_be_repeated),
    };

    return SS_GROUP(tests);
}
