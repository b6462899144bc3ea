/* test_queue_admin.c - queues, jobs and history in the hands of an operator. */
#include <stdlib.h>

#include "queue_help.h"

static void settings_of_a_queue_are_stored_and_what_is_not_named_stays(void **state)
{
    cf *c = *state;
    howdah_queue_options o = HOWDAH_QUEUE_OPTIONS_INIT;
    howdah_queue_info i;

    cf_ok(howdah_queue_configure(c->bus, "mail", NULL, &cf_error));
    i = q_info(c->bus, "mail");
    assert_false(i.paused);
    assert_int_equal(i.settings.abandon_after_ms, 300000);
    assert_int_equal(i.settings.max_attempts, 5);
    assert_int_equal(i.settings.backoff_initial_ms, 1000);
    assert_int_equal(i.settings.backoff_max_ms, 3600000);
    assert_int_equal(i.settings.backoff_jitter, 10);
    assert_int_equal(i.settings.concurrency, 0);
    assert_int_equal(i.settings.history_ms, 0);
    assert_int_equal(i.settings.hold_key, 0);
    assert_int_equal(i.oldest_age_ms, HOWDAH_ABSENT);
    cf_ok(howdah_queue_options_set(&o, "abandon_after", "30s", &cf_error));
    cf_ok(howdah_queue_options_set(&o, "max_attempts", "9", &cf_error));
    cf_ok(howdah_queue_options_set(&o, "history", "1h", &cf_error));
    cf_ok(howdah_queue_options_set(&o, "hold_key", "true", &cf_error));
    cf_ok(howdah_queue_configure(c->bus, "mail", &o, &cf_error));
    i = q_info(c->bus, "mail");
    assert_int_equal(i.settings.abandon_after_ms, 30000);
    assert_int_equal(i.settings.max_attempts, 9);
    assert_int_equal(i.settings.backoff_initial_ms, 1000);
    assert_int_equal(i.settings.history_ms, 3600000);
    assert_int_equal(i.settings.hold_key, 1);
}

/* Writes the other end of its range than the default is at; answers with the number it stands for.
 */
static int64_t set_to_other(howdah_queue_options *o, const howdah_queue_setting_info *info)
{
    const char *text = strcmp(info->unit, "duration") == 0  ? "90s"
                       : strcmp(info->unit, "boolean") == 0 ? "true"
                                                            : "77";

    cf_ok(howdah_queue_options_set(o, info->key, text, &cf_error));
    return howdah_queue_options_get(o, info->key);
}

static void every_setting_of_the_list_has_its_default_and_is_stored(void **state)
{
    cf *c = *state;
    howdah_queue_setting_info info = HOWDAH_QUEUE_SETTING_INFO_INIT;
    size_t n = 0;

    cf_ok(howdah_queue_configure(c->bus, "mail", NULL, &cf_error));
    for (; howdah_queue_settings_describe(n, &info) == HOWDAH_OK; n++) {
        howdah_queue_options o = HOWDAH_QUEUE_OPTIONS_INIT;
        howdah_queue_options before = q_info(c->bus, "mail").settings;
        howdah_queue_info summary;
        howdah_queue_options after;

        assert_int_equal(howdah_queue_options_get(&o, info.key), HOWDAH_ABSENT);
        cf_ok(howdah_queue_options_set(&o, info.key, info.default_value, &cf_error));
        assert_int_equal(howdah_queue_options_get(&before, info.key),
                         howdah_queue_options_get(&o, info.key));
        /* It changes, and no other does. */
        cf_ok(howdah_queue_options_set(&before, info.key, info.default_value, &cf_error));
        assert_int_not_equal(set_to_other(&before, &info), howdah_queue_options_get(&o, info.key));
        (void)set_to_other(&o, &info);
        cf_ok(howdah_queue_configure(c->bus, "mail", &o, &cf_error));
        after = q_info(c->bus, "mail").settings;
        assert_memory_equal(&after, &before, sizeof after);
        cf_ok(howdah_queue_summaries_walk(c->bus, q_keep_info, &summary, &cf_error));
        assert_memory_equal(&summary.settings, &before, sizeof before);
        assert_true(*info.member && *info.range && *info.help);
    }
    assert_int_equal(n, 8);
    assert_int_equal(howdah_queue_options_get(NULL, "max_attempts"), HOWDAH_ABSENT);
    assert_int_equal(howdah_queue_settings_describe(0, NULL), HOWDAH_MISUSE);
}

static void the_limits_of_every_setting_are_accepted_and_what_is_beyond_is_not(void **state)
{
    cf *c = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    const howdah_queue_options absent = HOWDAH_QUEUE_OPTIONS_INIT;

#define LIMITS(key, member, unit, min, max, def, range, zero, help)                                \
    do {                                                                                           \
        howdah_queue_options o = absent;                                                           \
                                                                                                   \
        o.member = (min);                                                                          \
        cf_ok(howdah_queue_configure(c->bus, "mail", &o, &cf_error));                              \
        assert_int_equal(q_info(c->bus, "mail").settings.member, (min));                           \
        o.member = (max);                                                                          \
        cf_ok(howdah_queue_configure(c->bus, "mail", &o, &cf_error));                              \
        assert_int_equal(q_info(c->bus, "mail").settings.member, (max));                           \
        o.member = (int64_t)(max) + 1;                                                             \
        assert_int_equal(howdah_queue_configure(c->bus, "mail", &o, &err), HOWDAH_INVALID);        \
        o.member = -2;                                                                             \
        assert_int_equal(howdah_queue_configure(c->bus, "mail", &o, &err), HOWDAH_INVALID);        \
        assert_int_equal(q_info(c->bus, "mail").settings.member, (max));                           \
    } while (0);
    HOWDAH_QUEUE_SETTING_LIST(LIMITS)
#undef LIMITS
}

static void a_setting_that_is_none_is_refused(void **state)
{
    cf *c = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_queue_options o = HOWDAH_QUEUE_OPTIONS_INIT;

    assert_int_equal(howdah_queue_options_set(&o, "max_attemps", "9", &err), HOWDAH_INVALID);
    assert_string_equal(err.message, "setting: a queue has no setting of that name (11 bytes); the "
                                     "nearest is max_attempts");
    assert_int_equal(howdah_queue_options_set(&o, "max_attempts", "0", &err), HOWDAH_INVALID);
    assert_string_equal(err.message, "max_attempts: 1 bytes given, wanted 1 to 32767");
    assert_int_equal(howdah_queue_options_set(&o, "abandon_after", "5", &err), HOWDAH_INVALID);
    assert_string_equal(
        err.message,
        "abandon_after: 1 bytes given, wanted 100ms to 10 years, like 250ms, 5s, 2m or 1h");
    assert_int_equal(howdah_queue_options_set(&o, "hold_key", "yes", &err), HOWDAH_INVALID);
    o.backoff_jitter = 101;
    assert_int_equal(howdah_queue_configure(c->bus, "mail", &o, &err), HOWDAH_INVALID);
    assert_string_equal(err.message, "backoff_jitter: out of range: wanted 0 to 100 percent");
    assert_int_equal(howdah_queues_walk(c->bus, "mail", q_keep_info, NULL, &err), HOWDAH_NOT_FOUND);
}

static void a_paused_queue_takes_jobs_and_gives_none(void **state)
{
    cf *c = *state;
    howdah_error err = HOWDAH_ERROR_INIT;

    assert_int_equal(howdah_queue_pause(c->bus, "mail", &err), HOWDAH_NOT_FOUND);
    (void)q_push(c->bus, "mail", "{}");
    cf_ok(howdah_queue_pause(c->bus, "mail", &cf_error));
    assert_true(q_info(c->bus, "mail").paused);
    (void)q_push(c->bus, "mail", "{}");
    assert_null(q_claim(c->bus, "mail", 10, 0));
    assert_string_equal(q_counts(c->bus, "mail"), "2 0 0 0 0");
    cf_ok(howdah_queue_resume(c->bus, "mail", &cf_error));
    assert_false(q_info(c->bus, "mail").paused);
    (void)q_claim_one(c->bus, "mail", 0);
    assert_int_equal(howdah_queue_resume(c->bus, "nobody", &err), HOWDAH_NOT_FOUND);
}

static void a_limit_of_concurrency_holds_over_all_claims(void **state)
{
    cf *c = *state;
    howdah_queue_options o = HOWDAH_QUEUE_OPTIONS_INIT;
    howdah_jobs *jobs;

    o.concurrency = 2;
    cf_ok(howdah_queue_configure(c->bus, "mail", &o, &cf_error));
    q_push_many(c->bus, "mail", 3);
    jobs = q_claim(c->bus, "mail", 10, 0);
    assert_int_equal(howdah_jobs_count(jobs), 2);
    assert_null(q_claim(c->bus, "mail", 10, 0));
    cf_ok(howdah_job_complete(c->bus, howdah_job_id(howdah_jobs_at(jobs, 0)),
                              howdah_job_token(howdah_jobs_at(jobs, 0)), NULL, &cf_error));
    howdah_jobs_free(jobs);
    (void)q_claim_one(c->bus, "mail", 0);
    assert_string_equal(q_counts(c->bus, "mail"), "0 2 0 1 0");
}

static void purge_removes_what_is_not_under_way_and_counts_it(void **state)
{
    cf *c = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_new_job job = HOWDAH_NEW_JOB_INIT;
    int64_t n = 0;
    q_ref ref;

    q_push_many(c->bus, "mail", 3);
    job.delay_ms = 60000;
    (void)q_push_job(c->bus, "mail", &job);
    ref = q_claim_one(c->bus, "mail", 0);
    cf_ok(howdah_queue_purge(c->bus, "mail", &n, &cf_error));
    assert_int_equal(n, 3);
    assert_string_equal(q_counts(c->bus, "mail"), "0 1 0 0 0");
    assert_int_equal(q_info(c->bus, "mail").purged, 3);
    cf_ok(howdah_job_complete(c->bus, ref.id, ref.token, NULL, &cf_error));
    assert_int_equal(howdah_queue_purge(c->bus, "nobody", &n, &err), HOWDAH_NOT_FOUND);
}

static int collect_names(void *ctx, const howdah_queue_info *info)
{
    char *names = ctx;

    (void)snprintf(names + strlen(names), 200 - strlen(names), "%s:%lld ", info->queue,
                   (long long)info->pending);
    return 0;
}

static void queues_are_walked_by_name(void **state)
{
    cf *c = *state;
    char names[200] = "";

    q_push_many(c->bus, "mail", 2);
    q_push_many(c->bus, "audit", 1);
    cf_ok(howdah_queues_walk(c->bus, NULL, collect_names, names, &cf_error));
    assert_string_equal(names, "audit:1 mail:2 ");
    assert_true(q_info(c->bus, "mail").oldest_age_ms >= 0);
}

static int collect_summaries(void *ctx, const howdah_queue_info *info)
{
    assert_int_equal(info->completed, HOWDAH_ABSENT);
    assert_int_equal(info->failed, HOWDAH_ABSENT);
    return collect_names(ctx, info);
}

static void a_summary_at_queues_counts_no_history(void **state)
{
    cf *c = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    char names[200] = "";
    q_ref ref;

    q_push_many(c->bus, "mail", 2);
    q_push_many(c->bus, "audit", 1);
    ref = q_claim_one(c->bus, "mail", 0);
    cf_ok(howdah_job_complete(c->bus, ref.id, ref.token, NULL, &cf_error));
    cf_ok(howdah_queue_summaries_walk(c->bus, collect_summaries, names, &cf_error));
    assert_string_equal(names, "audit:1 mail:1 ");
    assert_int_equal(howdah_queue_summaries_walk(c->bus, NULL, NULL, &err), HOWDAH_MISUSE);
}

static void a_job_is_shown_wherever_it_is(void **state)
{
    cf *c = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_new_job new_job = HOWDAH_NEW_JOB_INIT;
    howdah_job *job = NULL;
    int64_t id = q_push(c->bus, "mail", "{\"n\": 1}");
    int64_t later;
    char json[2048];
    q_ref ref;

    job = q_show(c->bus, id);
    assert_int_equal(howdah_job_state_get(job), HOWDAH_JOB_PENDING);
    assert_int_equal(howdah_job_token(job), 0);
    assert_int_equal(howdah_job_attempt(job), 0);
    assert_false(howdah_job_started_at(job, NULL));
    assert_true(howdah_job_json(job, json, sizeof json) < sizeof json);
    assert_non_null(strstr(json, "\"queue\":\"mail\",\"status\":\"pending\",\"attempts\":0,"
                                 "\"max_attempts\":5,\"priority\":0,\"token\":null"));
    assert_non_null(strstr(json, ",\"data\":{\"n\": 1},\"headers\":{}}"));
    howdah_job_free(job);
    ref = q_claim_one(c->bus, "mail", 0);
    job = q_show(c->bus, id);
    assert_int_equal(howdah_job_state_get(job), HOWDAH_JOB_PROCESSING);
    assert_int_equal(howdah_job_token(job), ref.token);
    assert_non_null(howdah_job_worker(job));
    howdah_job_free(job);
    new_job.delay_ms = 60000;
    later = q_push_job(c->bus, "mail", &new_job);
    job = q_show(c->bus, later);
    assert_int_equal(howdah_job_state_get(job), HOWDAH_JOB_SCHEDULED);
    howdah_job_free(job);
    assert_int_equal(howdah_job_get(c->bus, 4711, &job, &err), HOWDAH_NOT_FOUND);
    assert_int_equal(howdah_job_get(c->bus, 0, &job, &err), HOWDAH_INVALID);
}

static void cancel_ends_a_job_that_waits_and_no_other(void **state)
{
    cf *c = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    int64_t first = q_push(c->bus, "mail", "{}");
    int64_t second = q_push(c->bus, "mail", "{}");
    q_ref ref = q_claim_one(c->bus, "mail", 0);
    howdah_job *job;

    assert_int_equal(ref.id, first);
    assert_int_equal(howdah_job_cancel(c->bus, first, NULL, &err), HOWDAH_CONFLICT);
    cf_ok(howdah_job_cancel(c->bus, second, "not wanted any more", &cf_error));
    job = q_show(c->bus, second);
    assert_int_equal(howdah_job_state_get(job), HOWDAH_JOB_FAILED);
    assert_text(howdah_job_error(job), "cancelled: not wanted any more");
    howdah_job_free(job);
    assert_int_equal(q_info(c->bus, "mail").dead_letters, 0);
    assert_int_equal(howdah_job_cancel(c->bus, second, NULL, &err), HOWDAH_CONFLICT);
    assert_int_equal(howdah_job_cancel(c->bus, 4711, NULL, &err), HOWDAH_NOT_FOUND);
    cf_ok(howdah_job_complete(c->bus, first, ref.token, NULL, &cf_error));
    assert_int_equal(howdah_job_rerun(c->bus, first, &err), HOWDAH_CONFLICT);
    assert_int_equal(howdah_job_rerun(c->bus, 4711, &err), HOWDAH_NOT_FOUND);
    cf_ok(howdah_job_rerun(c->bus, second, &cf_error));
    assert_int_equal(q_claim_one(c->bus, "mail", 0).id, second);
}

typedef struct logged {
    char ids[256];
    int64_t last; /* position */
    int64_t stop; /* after so many, 0: never */
    int64_t n;
    bool payload;
} logged;

static int on_logged(void *ctx, const howdah_job *job)
{
    logged *l = ctx;

    (void)snprintf(l->ids + strlen(l->ids), sizeof l->ids - strlen(l->ids), "%s%lld",
                   l->ids[0] ? " " : "", (long long)howdah_job_id(job));
    l->last = howdah_job_position(job);
    l->payload = howdah_job_data(job, NULL) != NULL;
    return ++l->n == l->stop;
}

static logged log_of(howdah_bus *bus, const howdah_queue_history_options *o, int64_t stop)
{
    logged l = {.stop = stop};

    cf_ok(howdah_queue_history_walk(bus, "mail", o, on_logged, &l, &cf_error));
    return l;
}

static void the_history_is_in_the_order_of_ending(void **state)
{
    cf *c = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_queue_history_options o = HOWDAH_QUEUE_HISTORY_OPTIONS_INIT;
    howdah_jobs *jobs;
    const int order[] = {2, 0, 1};
    char ids[3][24];
    char wanted[128];
    logged l;

    q_push_many(c->bus, "mail", 3);
    jobs = q_claim(c->bus, "mail", 3, 0);
    for (int i = 0; i < 3; i++) {
        const howdah_job *job = howdah_jobs_at(jobs, (size_t)order[i]);

        (void)snprintf(ids[i], sizeof ids[i], "%lld", (long long)howdah_job_id(job));
        cf_ok(i == 1 ? howdah_job_fail(c->bus, howdah_job_id(job), howdah_job_token(job), "x",
                                       &cf_error)
                     : howdah_job_complete(c->bus, howdah_job_id(job), howdah_job_token(job), NULL,
                                           &cf_error));
    }
    howdah_jobs_free(jobs);
    (void)snprintf(wanted, sizeof wanted, "%s %s %s", ids[0], ids[1], ids[2]);
    l = log_of(c->bus, NULL, 0);
    assert_string_equal(l.ids, wanted);
    assert_false(l.payload);
    (void)snprintf(wanted, sizeof wanted, "%s %s %s", ids[2], ids[1], ids[0]);
    o.backward = true;
    o.payload = true;
    l = log_of(c->bus, &o, 0);
    assert_string_equal(l.ids, wanted);
    assert_true(l.payload);
    o.backward = false;
    o.status = HOWDAH_JOB_FAILED;
    assert_string_equal(log_of(c->bus, &o, 0).ids, ids[1]);
    o.status = HOWDAH_JOB_COMPLETED;
    o.limit = 1;
    l = log_of(c->bus, &o, 0);
    assert_string_equal(l.ids, ids[0]);
    o.after = l.last;
    assert_string_equal(log_of(c->bus, &o, 0).ids, ids[2]);
    assert_string_equal(log_of(c->bus, NULL, 1).ids, ids[0]);
    o.status = HOWDAH_JOB_PENDING;
    assert_int_equal(howdah_queue_history_walk(c->bus, "mail", &o, on_logged, &l, &err),
                     HOWDAH_INVALID);
    assert_string_equal(err.message, "status: must be completed or failed");
}

cf_group cf_queue_admin_tests(void)
{
    static const struct CMUnitTest tests[] = {
        CF_QUEUE_TEST(settings_of_a_queue_are_stored_and_what_is_not_named_stays),
        CF_QUEUE_TEST(every_setting_of_the_list_has_its_default_and_is_stored),
        CF_QUEUE_TEST(the_limits_of_every_setting_are_accepted_and_what_is_beyond_is_not),
        CF_QUEUE_TEST(a_setting_that_is_none_is_refused),
        CF_QUEUE_TEST(a_paused_queue_takes_jobs_and_gives_none),
        CF_QUEUE_TEST(a_limit_of_concurrency_holds_over_all_claims),
        CF_QUEUE_TEST(purge_removes_what_is_not_under_way_and_counts_it),
        CF_QUEUE_TEST(queues_are_walked_by_name),
        CF_QUEUE_TEST(a_summary_at_queues_counts_no_history),
        CF_QUEUE_TEST(a_job_is_shown_wherever_it_is),
        CF_QUEUE_TEST(cancel_ends_a_job_that_waits_and_no_other),
        CF_QUEUE_TEST(the_history_is_in_the_order_of_ending),
    };

    return CF_GROUP(tests);
}
