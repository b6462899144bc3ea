/* test_route.c - bindings, and events that become jobs together with the router's checkpoint. */
#include <stdio.h>

#include "flaky.h"
#include "jobs.h"

#define ROUTER "queue:q:order.*"

/* ---- what the tests are made of */

static hw_binding a_binding(const char *queue, const char *pattern, howdah_binding_key key,
                            const char *router)
{
    return (hw_binding){
        .queue = S(queue), .pattern = S(pattern), .key = key, .subscriber_id = S(router)};
}

static bool bind(const ss *t, const char *queue, const char *pattern, howdah_binding_key key,
                 const char *router)
{
    hw_binding b = a_binding(queue, pattern, key, router);
    bool made = false;

    ok(jobs_ops(t)->bind(t->store, &b, 0, NULL, 0, &made, &ss_error));
    return made;
}

/* Events "1" to "n" of stream s1, s2, s1 ... become the log; the last one, to be freed. */
static howdah_event *append_n(const ss *t, int n)
{
    howdah_event *last = NULL;

    for (int i = 1; i <= n; i++) {
        char json[16];

        (void)snprintf(json, sizeof json, "%d", i);
        hw_event_free(last);
        last = ss_append(t->store, i % 2 ? "s1" : "s2", "order.made", json);
    }
    return last;
}

static int route(hw_store *store, const hw_checkpoint *c, howdah_binding_key key, int64_t first,
                 size_t n)
{
    int64_t sequences[32];

    for (size_t i = 0; i < n; i++)
        sequences[i] = first + (int64_t)i;
    return store->ops->queue->route(store, c, S("q"), key, sequences, n, &ss_error);
}

typedef struct listed {
    char text[1024];
    int n;
} listed;

static int list(void *ctx, const hw_binding *b)
{
    listed *l = ctx;
    size_t len = strlen(l->text);

    assert_true(b->created_at_us > 0);
    (void)snprintf(l->text + len, sizeof l->text - len, "%s/%s/%d/%s/%lld/%lld/%d/%s ", b->queue.s,
                   b->pattern.s, (int)b->key, b->subscriber_id.s, (long long)b->high,
                   (long long)b->outstanding, (int)b->status, b->owner.s ? b->owner.s : "-");
    l->n++;
    return 0;
}

static listed list_bindings(const ss *t, const char *queue)
{
    listed l = {.n = 0};

    ok(jobs_ops(t)->bindings(t->store, S(queue), list, &l, &ss_error));
    return l;
}

/* ---- bindings */

static void a_binding_is_listed_with_the_place_of_its_router(void **state)
{
    ss *t = *state;
    const hw_range outstanding[] = {{3, 5}, {9, 9}};
    hw_binding b = a_binding("q", "order.*", HOWDAH_KEY_STREAM, ROUTER);
    bool made = false;

    ok(jobs_ops(t)->bind(t->store, &b, 12, outstanding, 2, &made, &ss_error));
    assert_true(made);
    assert_true(bind(t, "p", "user.>", HOWDAH_KEY_CORRELATION, "queue:p:user.>"));
    assert_true(bind(t, "q", ">", HOWDAH_KEY_NONE, "queue:q:>"));
    assert_string_equal(list_bindings(t, NULL).text,
                        "p/user.>/1/queue:p:user.>/0/0/0/- q/>/2/queue:q:>/0/0/0/- "
                        "q/order.*/0/queue:q:order.*/12/4/0/- ");
    assert_string_equal(list_bindings(t, "p").text, "p/user.>/1/queue:p:user.>/0/0/0/- ");
    assert_int_equal(list_bindings(t, "none").n, 0);
    assert_string_equal(ss_load(t, ROUTER).outstanding, "3-5,9-9");
    assert_string_equal(ss_load(t, ROUTER).pattern, "order.*");
    expect_counts(t, "0 0 0 0 0 0");
}

static void binding_twice_changes_nothing_and_another_key_is_a_conflict(void **state)
{
    ss *t = *state;
    hw_binding other = a_binding("q", "order.*", HOWDAH_KEY_NONE, ROUTER);
    bool made = true;

    assert_true(bind(t, "q", "order.*", HOWDAH_KEY_STREAM, ROUTER));
    assert_false(bind(t, "q", "order.*", HOWDAH_KEY_STREAM, ROUTER));
    expect(jobs_ops(t)->bind(t->store, &other, 7, NULL, 0, &made, &ss_error), HOWDAH_CONFLICT);
    assert_true(made);
    assert_string_equal(list_bindings(t, NULL).text, "q/order.*/0/queue:q:order.*/0/0/0/- ");
}

static void a_subscription_of_the_same_name_is_not_taken_over(void **state)
{
    ss *t = *state;
    hw_binding b = a_binding("q", "order.*", HOWDAH_KEY_STREAM, ROUTER);

    (void)jobs_ops(t);
    ss_create(t, ROUTER);
    expect(jobs_ops(t)->bind(t->store, &b, 0, NULL, 0, NULL, &ss_error), HOWDAH_CONFLICT);
    assert_int_equal(list_bindings(t, NULL).n, 0);
}

static void unbind_takes_the_token_from_whoever_routes_and_leaves_the_jobs(void **state)
{
    ss *t = *state;
    howdah_event *last = append_n(t, 2);
    hw_checkpoint c;

    assert_true(bind(t, "q", "order.*", HOWDAH_KEY_NONE, ROUTER));
    c = ss_at(ROUTER, ss_take(t->store, ROUTER, "a"), 1);
    ok(route(t->store, &c, HOWDAH_KEY_NONE, 1, 1));
    ok(jobs_ops(t)->unbind(t->store, S("q"), S("order.*"), &ss_error));
    c = ss_behind(ROUTER, c.token, last);
    expect(route(t->store, &c, HOWDAH_KEY_NONE, 2, 1), HOWDAH_LOST);
    expect_counts(t, "1 0 0 0 0 0");
    assert_int_equal(ss_sql_number(t, "SELECT count(*) FROM {subscriptions}"), 0);
    expect(jobs_ops(t)->unbind(t->store, S("q"), S("order.*"), &ss_error), HOWDAH_NOT_FOUND);
    expect(jobs_ops(t)->unbind(t->store, S("none"), S("order.*"), &ss_error), HOWDAH_NOT_FOUND);
    /* Made anew, it is another one: the old token is not its. */
    assert_true(bind(t, "q", "order.*", HOWDAH_KEY_NONE, ROUTER));
    expect(route(t->store, &c, HOWDAH_KEY_NONE, 2, 1), HOWDAH_LOST);
    assert_true(ss_take(t->store, ROUTER, "b") > c.token);
    hw_event_free(last);
}

/* ---- route */

static void a_page_becomes_jobs_in_order_together_with_the_checkpoint(void **state)
{
    ss *t = *state;
    howdah_event *last = append_n(t, 4);
    hw_checkpoint c;
    batch b;

    assert_true(bind(t, "q", "order.*", HOWDAH_KEY_NONE, ROUTER));
    c = ss_behind(ROUTER, ss_take(t->store, ROUTER, "a"), last);
    ok(route(t->store, &c, HOWDAH_KEY_NONE, 1, 4));
    assert_int_equal(ss_load(t, ROUTER).row.high, 4);
    assert_int_equal(ss_load(t, ROUTER).row.anchor.sequence, 4);
    b = claim(t, 10);
    assert_string_equal(b.names, "1 2 3 4");
    for (int i = 0; i < 4; i++) {
        assert_int_equal(b.jobs[i].job.event_sequence, i + 1);
        assert_int_equal(b.jobs[i].job.priority, 0);
        assert_int_equal(b.jobs[i].job.attempts, 1);
        assert_int_equal(b.jobs[i].job.max_attempts, 5);
        assert_string_equal(b.jobs[i].key, "-");
        if (i > 0)
            assert_true(b.jobs[i].job.id > b.jobs[i - 1].job.id);
    }
    assert_true(b.jobs[3].job.has_causation);
    assert_memory_equal(b.jobs[3].job.causation_id.b, last->id.b, 16);
    hw_event_free(last);
}

static int look_at_event(void *ctx, const howdah_job *job)
{
    int *seen = ctx;

    assert_string_equal(job->event_type.s, "order.made");
    assert_string_equal(job->event_stream.s, "s1");
    assert_string_equal(job->key.s, "s1");
    assert_string_equal(job->data.s, "1");
    (*seen)++;
    return 0;
}

static void a_job_has_type_stream_and_payload_of_its_event_wherever_it_is(void **state)
{
    ss *t = *state;
    howdah_event *last = append_n(t, 1);
    howdah_queue_history_options options = {.status = HOWDAH_ABSENT, .payload = true};
    hw_checkpoint c;
    kept_job k;
    int seen = 0;

    assert_true(bind(t, "q", "order.*", HOWDAH_KEY_STREAM, ROUTER));
    c = ss_behind(ROUTER, ss_take(t->store, ROUTER, "a"), last);
    ok(route(t->store, &c, HOWDAH_KEY_STREAM, 1, 1));
    k = claim_one(t, "1");
    ok(jobs_ops(t)->job_load(t->store, k.job.id, look_at_event, &seen, &ss_error));
    complete(t, &k);
    ok(jobs_ops(t)->job_load(t->store, k.job.id, look_at_event, &seen, &ss_error));
    ok(jobs_ops(t)->log(t->store, S("q"), &options, look_at_event, &seen, &ss_error));
    assert_int_equal(seen, 3);
    /* Written once, in the log. */
    assert_int_equal(ss_sql_number(t, "SELECT count(*) FROM {job_data} WHERE data IS NOT NULL"), 0);
    hw_event_free(last);
}

static void jobs_of_one_stream_wait_for_each_other_and_other_streams_go_on(void **state)
{
    ss *t = *state;
    howdah_event *last = append_n(t, 4);
    hw_checkpoint c;
    batch b;

    assert_true(bind(t, "q", "order.*", HOWDAH_KEY_STREAM, ROUTER));
    c = ss_behind(ROUTER, ss_take(t->store, ROUTER, "a"), last);
    ok(route(t->store, &c, HOWDAH_KEY_STREAM, 1, 4));
    b = claim(t, 10);
    assert_string_equal(b.names, "1 2");
    assert_string_equal(b.jobs[0].key, "s1");
    assert_string_equal(b.jobs[1].key, "s2");
    assert_int_equal(claim(t, 10).n, 0);
    retry_after(t, &b.jobs[0], LONG_MS); /* a poison job of s1 */
    complete(t, &b.jobs[1]);
    assert_string_equal(claim(t, 10).names, "4");
    hw_event_free(last);
}

static void the_key_is_what_the_binding_says(void **state)
{
    ss *t = *state;
    hw_checkpoint c;
    batch b;

    (void)jobs_ops(t);
    hw_event_free(append_n(t, 2));
    ss_sql(t, "UPDATE {events} SET correlation_id = 'c-7' WHERE global_sequence = 1");
    assert_true(bind(t, "q", "order.*", HOWDAH_KEY_CORRELATION, ROUTER));
    c = ss_at(ROUTER, ss_take(t->store, ROUTER, "a"), 2);
    ok(route(t->store, &c, HOWDAH_KEY_CORRELATION, 1, 2));
    b = claim(t, 10);
    assert_string_equal(b.names, "1 2");
    assert_string_equal(b.jobs[0].key, "c-7");
    assert_string_equal(b.jobs[0].correlation_id, "c-7");
    assert_string_equal(b.jobs[1].key, "-");
    assert_string_equal(b.jobs[1].correlation_id, "-");
}

static void a_stale_token_stores_neither_jobs_nor_checkpoint(void **state)
{
    ss *t = *state;
    howdah_event *last = append_n(t, 2);
    hw_checkpoint c;

    assert_true(bind(t, "q", "order.*", HOWDAH_KEY_STREAM, ROUTER));
    c = ss_behind(ROUTER, ss_take(t->store, ROUTER, "a"), last);
    (void)ss_make_stale(t, ROUTER);
    expect(route(t->store, &c, HOWDAH_KEY_STREAM, 1, 2), HOWDAH_LOST);
    expect_counts(t, "0 0 0 0 0 0");
    assert_int_equal(ss_load(t, ROUTER).row.high, 0);
    hw_event_free(last);
}

static void a_page_that_goes_back_stores_nothing(void **state)
{
    ss *t = *state;
    hw_checkpoint c;

    (void)jobs_ops(t);
    hw_event_free(append_n(t, 2));
    assert_true(bind(t, "q", "order.*", HOWDAH_KEY_NONE, ROUTER));
    c = ss_at(ROUTER, ss_take(t->store, ROUTER, "a"), 2);
    ok(route(t->store, &c, HOWDAH_KEY_NONE, 1, 2));
    c.high = 1;
    assert_true(route(t->store, &c, HOWDAH_KEY_NONE, 1, 1) < 0);
    expect_counts(t, "2 0 0 0 0 0");
    assert_int_equal(ss_load(t, ROUTER).row.high, 2);
}

static void an_event_that_is_gone_makes_no_job(void **state)
{
    ss *t = *state;
    hw_checkpoint c;

    (void)jobs_ops(t);
    hw_event_free(append_n(t, 3));
    ss_sql(t, "DELETE FROM {events} WHERE global_sequence = 2");
    assert_true(bind(t, "q", "order.*", HOWDAH_KEY_STREAM, ROUTER));
    c = ss_at(ROUTER, ss_take(t->store, ROUTER, "a"), 3);
    ok(route(t->store, &c, HOWDAH_KEY_STREAM, 1, 3));
    expect_counts(t, "1 0 1 0 0 0");
    assert_int_equal(ss_sql_number(t, "SELECT count(*) FROM {job_data}"), 2);
    assert_string_equal(claim_one(t, "1").key, "s1");
}

static void bytes_of_an_event_are_the_bytes_of_its_job(void **state)
{
    ss *t = *state;
    hw_checkpoint c;
    kept_job k;

    (void)jobs_ops(t);
    hw_event_free(append_n(t, 1));
    ss_sql(t, ss_is_pg() ? "UPDATE {events} SET data = NULL, bytes = '\\x6162', content_type ="
                           " 'text/plain', headers = '{\"h\":\"x\"}'"
                         : "UPDATE {events} SET data = NULL, bytes = x'6162', content_type ="
                           " 'text/plain', headers = '{\"h\":\"x\"}'");
    assert_true(bind(t, "q", "order.*", HOWDAH_KEY_NONE, ROUTER));
    c = ss_at(ROUTER, ss_take(t->store, ROUTER, "a"), 1);
    ok(route(t->store, &c, HOWDAH_KEY_NONE, 1, 1));
    k = claim_one(t, "ab");
    assert_string_equal(k.content_type, "text/plain");
    assert_string_equal(k.headers, "{\"h\":\"x\"}");
}

static void a_failed_job_of_an_event_is_tried_again_with_its_payload(void **state)
{
    ss *t = *state;
    hw_checkpoint c;
    kept_job k;

    (void)jobs_ops(t);
    hw_event_free(append_n(t, 1));
    assert_true(bind(t, "q", "order.*", HOWDAH_KEY_STREAM, ROUTER));
    c = ss_at(ROUTER, ss_take(t->store, ROUTER, "a"), 1);
    ok(route(t->store, &c, HOWDAH_KEY_STREAM, 1, 1));
    k = claim_one(t, "1");
    fail_for_good(t, &k, "no");
    ok(jobs_ops(t)->job_rerun(t->store, k.job.id, &ss_error));
    assert_string_equal(claim_one(t, "1").key, "s1");
}

static void a_page_that_fails_is_stored_whole_or_not_at_all(void **state)
{
    static const struct {
        hw_flaky_mode mode;
        bool stored;
    } plans[] = {
        {HW_FLAKY_BEFORE, false}, {HW_FLAKY_BEFORE_UNKNOWN, false}, {HW_FLAKY_AFTER, true}};
    ss *t = *state;
    int64_t token;

    (void)jobs_ops(t);
    hw_event_free(append_n(t, 6));
    assert_true(bind(t, "q", "order.*", HOWDAH_KEY_NONE, ROUTER));
    token = ss_take(t->store, ROUTER, "a");
    for (int i = 0; i < 3; i++) {
        hw_store *flaky = ss_open(t);
        hw_checkpoint c = ss_at(ROUTER, token, 2 * i + 2);
        int64_t stored;

        ok(hw_flaky_open(flaky, &flaky, &ss_error));
        hw_flaky_plan_op(flaky, HW_FLAKY_OP_ROUTE, 1, plans[i].mode);
        expect(route(flaky, &c, HOWDAH_KEY_NONE, 2 * i + 1, 2), HOWDAH_UNAVAILABLE);
        assert_false(hw_flaky_pending(flaky));
        stored = plans[i].stored ? 2 * i + 2 : 2 * i;
        assert_int_equal(load_queue(t, "q").pending, stored);
        assert_int_equal(ss_load(t, ROUTER).row.high, stored);
        if (!plans[i].stored)
            ok(route(flaky, &c, HOWDAH_KEY_NONE, 2 * i + 1, 2));
        flaky->ops->close(flaky);
    }
    assert_string_equal(claim(t, 10).names, "1 2 3 4 5 6");
}

ss_group ss_route_tests(void)
{
    static const struct CMUnitTest tests[] = {
        SS_TEST(a_binding_is_listed_with_the_place_of_its_router),
        SS_TEST(binding_twice_changes_nothing_and_another_key_is_a_conflict),
        SS_TEST(a_subscription_of_the_same_name_is_not_taken_over),
        SS_TEST(unbind_takes_the_token_from_whoever_routes_and_leaves_the_jobs),
        SS_TEST(a_page_becomes_jobs_in_order_together_with_the_checkpoint),
        SS_TEST(a_job_has_type_stream_and_payload_of_its_event_wherever_it_is),
        SS_TEST(jobs_of_one_stream_wait_for_each_other_and_other_streams_go_on),
        SS_TEST(the_key_is_what_the_binding_says),
        SS_TEST(a_stale_token_stores_neither_jobs_nor_checkpoint),
        SS_TEST(a_page_that_goes_back_stores_nothing),
        SS_TEST(an_event_that_is_gone_makes_no_job),
        SS_TEST(bytes_of_an_event_are_the_bytes_of_its_job),
        SS_TEST(a_failed_job_of_an_event_is_tried_again_with_its_payload),
        SS_TEST(a_page_that_fails_is_stored_whole_or_not_at_all),
    };

    return SS_GROUP(tests);
}
