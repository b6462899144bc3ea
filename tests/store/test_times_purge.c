/* test_times_purge.c - snapshots, and what a purge leaves of an event. */
#include <stdio.h>

#include "flaky.h"
#include "jobs.h"
#include "low_memory.h"
#include "times.h"

#define DAY INT64_C(86400000000)
#define SECRET "hidden-7261e6"

/* ---- snapshots */

static howdah_snapshot a_snapshot(const char *stream, int64_t version, const char *data)
{
    return (howdah_snapshot){.size = sizeof(howdah_snapshot),
                             .stream = stream,
                             .version = version,
                             .data = data,
                             .data_len = strlen(data),
                             .schema_version = 1};
}

static void put_snapshot(const ss *t, howdah_snapshot snapshot, int64_t keep)
{
    ok(times_ops(t)->snapshot_put(t->store, &snapshot, keep, &ss_error));
}

/* "stream/version/data/content type/schema version" */
static int keep_snapshot(void *ctx, const howdah_snapshot *s)
{
    assert_int_equal(s->size, sizeof *s);
    assert_int_equal(s->data[s->data_len], '\0');
    assert_true(llabs(s->taken_at_us - hw_clock_wall_us()) < 60000000);
    (void)snprintf(ctx, 256, "%s/%lld/%s/%s/%lld", s->stream, (long long)s->version, s->data,
                   s->content_type ? s->content_type : "-", (long long)s->schema_version);
    return 0;
}

static const char *get_snapshot(const ss *t, const char *stream, int64_t version)
{
    static char text[256];
    int s;

    text[0] = '\0';
    s = times_ops(t)->snapshot_get(t->store, S(stream), version, keep_snapshot, text, &ss_error);
    expect(s, text[0] ? HOWDAH_OK : HOWDAH_END);
    return text;
}

static int list_snapshot(void *ctx, const howdah_snapshot *s)
{
    char *text = ctx;
    size_t len = strlen(text);

    assert_null(s->data);
    (void)snprintf(text + len, 256 - len, "%s%s/%lld/%zu", len > 0 ? " " : "", s->stream,
                   (long long)s->version, s->data_len);
    return strcmp(s->stream, "stop") == 0;
}

static const char *list_snapshots(const ss *t, const char *stream)
{
    static char text[256];

    text[0] = '\0';
    ok(times_ops(t)->snapshot_list(t->store, S(stream), list_snapshot, text, &ss_error));
    return text;
}

static void put_events(const ss *t, const char *stream, int n)
{
    for (int i = 0; i < n; i++) {
        howdah_event event = a_fact(stream, "t");

        times_put(t, &event);
    }
}

static void the_nearest_snapshot_at_or_below_a_version_is_found(void **state)
{
    ss *t = *state;
    howdah_snapshot bytes = {.stream = "s",
                             .version = 5,
                             .data = "a\0b",
                             .data_len = 3,
                             .content_type = "x/y",
                             .schema_version = 7};

    put_events(t, "s", 6);
    put_events(t, "r", 6);
    put_snapshot(t, a_snapshot("s", 2, "{\"n\": 2.0}"), 0);
    put_snapshot(t, bytes, 0);
    put_snapshot(t, a_snapshot("r", 4, "4"), 0);
    assert_string_equal(get_snapshot(t, "s", 0), "s/5/a/x/y/7");
    assert_string_equal(get_snapshot(t, "s", 6), "s/5/a/x/y/7");
    assert_string_equal(get_snapshot(t, "s", 5), "s/5/a/x/y/7");
    assert_string_equal(get_snapshot(t, "s", 4), "s/2/{\"n\": 2.0}/-/1");
    assert_string_equal(get_snapshot(t, "s", 2), "s/2/{\"n\": 2.0}/-/1");
    assert_string_equal(get_snapshot(t, "s", 1), "");
    assert_string_equal(get_snapshot(t, "q", 0), "");
    assert_string_equal(list_snapshots(t, NULL), "r/4/1 s/2/10 s/5/3");
    assert_string_equal(list_snapshots(t, "s"), "s/2/10 s/5/3");
    assert_string_equal(list_snapshots(t, "q"), "");
}

static void a_snapshot_takes_the_place_of_one_of_the_same_version(void **state)
{
    ss *t = *state;
    howdah_snapshot empty = {.stream = "s",
                             .version = 1,
                             .data = "",
                             .data_len = 0,
                             .content_type = "x/y",
                             .schema_version = 2};

    put_events(t, "s", 1);
    put_snapshot(t, a_snapshot("s", 1, "1"), 0);
    put_snapshot(t, empty, 0);
    assert_string_equal(get_snapshot(t, "s", 0), "s/1//x/y/2");
    put_snapshot(t, a_snapshot("s", 1, "3"), 0);
    assert_string_equal(get_snapshot(t, "s", 0), "s/1/3/-/1");
    assert_string_equal(list_snapshots(t, NULL), "s/1/1");
}

static void only_as_many_snapshots_as_wanted_are_kept(void **state)
{
    ss *t = *state;

    put_events(t, "s", 9);
    put_events(t, "r", 9);
    put_snapshot(t, a_snapshot("r", 1, "1"), 1);
    for (int i = 1; i <= 9; i++)
        put_snapshot(t, a_snapshot("s", i, "1"), i < 6 ? 0 : 3);
    assert_string_equal(list_snapshots(t, NULL), "r/1/1 s/7/1 s/8/1 s/9/1");
    put_snapshot(t, a_snapshot("s", 8, "22"), 2);
    assert_string_equal(list_snapshots(t, NULL), "r/1/1 s/8/2 s/9/1");
    put_snapshot(t, a_snapshot("s", 9, "333"), 100);
    assert_string_equal(list_snapshots(t, NULL), "r/1/1 s/8/2 s/9/3");
}

static void a_snapshot_of_a_version_that_is_not_there_is_refused(void **state)
{
    ss *t = *state;
    howdah_snapshot ahead = a_snapshot("s", 3, "1");
    howdah_snapshot nowhere = a_snapshot("q", 1, "1");

    put_events(t, "s", 2);
    put_snapshot(t, a_snapshot("s", 1, "1"), 0);
    expect(times_ops(t)->snapshot_put(t->store, &ahead, 1, &ss_error), HOWDAH_NOT_FOUND);
    expect(times_ops(t)->snapshot_put(t->store, &nowhere, 1, &ss_error), HOWDAH_NOT_FOUND);
    assert_string_equal(list_snapshots(t, NULL), "s/1/1");
}

static void snapshots_are_removed_up_to_a_version(void **state)
{
    ss *t = *state;
    int64_t n = -1;

    put_events(t, "s", 4);
    put_events(t, "stop", 2);
    put_events(t, "z", 1);
    for (int i = 1; i <= 4; i++)
        put_snapshot(t, a_snapshot("s", i, "1"), 0);
    put_snapshot(t, a_snapshot("stop", 2, "1"), 0);
    put_snapshot(t, a_snapshot("z", 1, "1"), 0);
    ok(times_ops(t)->snapshot_remove(t->store, S("s"), 2, &n, &ss_error));
    assert_int_equal(n, 2);
    assert_string_equal(list_snapshots(t, NULL), "s/3/1 s/4/1 stop/2/1"); /* and was told to end */
    ok(times_ops(t)->snapshot_remove(t->store, S("s"), 0, &n, &ss_error));
    assert_int_equal(n, 2);
    ok(times_ops(t)->snapshot_remove(t->store, S("s"), 0, NULL, &ss_error));
    assert_string_equal(list_snapshots(t, NULL), "stop/2/1");
}

/* ---- purges: the events */

static howdah_event put_secret(const ss *t, const char *stream)
{
    howdah_event event = a_fact_at(stream, "order.made", 3 * DAY);

    event.data = S("{\"name\":\"" SECRET "\"}");
    event.headers = S("{\"who\":\"" SECRET "\"}");
    event.correlation_id = S("c");
    event.actor = S("me");
    times_put(t, &event);
    return event;
}

static bool is_erased(const ss *t, const hw_uuid *id)
{
    howdah_event *event = times_load(t, id);
    bool erased = event->purged;

    assert_int_equal(event->broken, false);
    if (erased) {
        assert_null(event->headers.s);
        assert_string_equal(event->data.s, event->content_type.s ? "" : "null");
    }
    hw_event_free(event);
    return erased;
}

static void a_purge_erases_payload_and_headers_and_leaves_the_rest(void **state)
{
    ss *t = *state;
    howdah_event events[3] = {put_secret(t, "s"), a_fact("s", "u"), put_secret(t, "s")};
    hw_uuid ids[2];
    howdah_event *left;
    howdah_purge_record record;

    events[1].data = S(SECRET);
    events[1].content_type = S("text/plain");
    times_put(t, &events[1]);
    ids[0] = events[0].id;
    ids[1] = events[1].id;
    record = purge_ids(t, ids, 2, false);
    assert_true(record.id > 0);
    assert_true(llabs(record.purged_at_us - hw_clock_wall_us()) < 60000000);
    assert_null(record.actor);
    assert_null(record.reason);
    assert_int_equal(record.events, 2);
    assert_int_equal(record.dead_letters, 0);
    assert_int_equal(record.snapshots, 0);
    assert_int_equal(record.jobs, 0);
    assert_int_equal(record.left, 0);
    assert_true(is_erased(t, &ids[0]));
    assert_true(is_erased(t, &ids[1]));
    assert_false(is_erased(t, &events[2].id));
    left = times_load(t, &ids[0]);
    assert_string_equal(left->stream.s, "s");
    assert_string_equal(left->type.s, "order.made");
    assert_string_equal(left->correlation_id.s, "c");
    assert_string_equal(left->actor.s, "me");
    assert_true(left->valid_time_us == 3 * DAY);
    assert_true(left->recorded_at_us == events[0].recorded_at_us);
    hw_event_free(left);
    left = times_load(t, &ids[1]);
    assert_string_equal(left->content_type.s, "text/plain");
    assert_int_equal(left->data.len, 0);
    hw_event_free(left);
}

static void purged_events_are_still_answers_but_not_by_their_headers(void **state)
{
    ss *t = *state;
    howdah_event event = put_secret(t, "s");
    hw_header_is is = {S("who"), S(SECRET)};
    hw_times_query q = as_of(NOT, NOT);

    q.headers = &is;
    q.headers_n = 1;
    assert_int_equal(times_count(t, &q), 1);
    (void)purge_ids(t, &event.id, 1, false);
    assert_int_equal(times_count(t, &q), 0);
    q.headers_n = 0;
    assert_string_equal(times_data(t, &q), "null");
}

static void the_revisions_of_a_family_are_purged_one_by_one_or_together(void **state)
{
    ss *t = *state;
    howdah_event first = put_secret(t, "s");
    howdah_event second = a_correction_of(&first);
    howdah_event third;
    howdah_event other = put_secret(t, "s");
    howdah_purge_record record;

    times_put(t, &second);
    third = a_correction_of(&second);
    times_put(t, &third);
    record = purge_ids(t, &second.id, 1, false);
    assert_int_equal(record.events, 1);
    assert_int_equal(record.left, 2);
    assert_false(is_erased(t, &first.id));
    record = purge_ids(t, &third.id, 1, true);
    assert_int_equal(record.events, 2);
    assert_int_equal(record.left, 0);
    assert_true(is_erased(t, &first.id));
    assert_true(is_erased(t, &second.id));
    assert_true(is_erased(t, &third.id));
    assert_false(is_erased(t, &other.id));
}

static void a_stream_is_purged_whole(void **state)
{
    ss *t = *state;
    howdah_event a = put_secret(t, "s");
    howdah_event b = put_secret(t, "s");
    howdah_event other = put_secret(t, "r");

    assert_int_equal(purge_stream(t, "s").events, 2);
    assert_true(is_erased(t, &a.id));
    assert_true(is_erased(t, &b.id));
    assert_false(is_erased(t, &other.id));
}

static void a_purge_of_what_is_not_there_erases_nothing(void **state)
{
    ss *t = *state;
    howdah_event event = put_secret(t, "s");
    hw_uuid ids[2] = {event.id};
    hw_purge by_id = {.ids = ids, .ids_n = 2, .reason = S("r"), .actor = S("a")};
    hw_purge by_stream = {.stream = S("q"), .reason = S("r"), .actor = S("a")};
    howdah_purge_record record = {.id = 77};

    assert_true(hw_uuid_v7(&ids[1]));
    expect(times_ops(t)->purge(t->store, &by_id, &record, &ss_error), HOWDAH_NOT_FOUND);
    expect(times_ops(t)->purge(t->store, &by_stream, &record, &ss_error), HOWDAH_NOT_FOUND);
    assert_int_equal(record.id, 77);
    assert_false(is_erased(t, &event.id));
    assert_int_equal(ss_sql_number(t, "SELECT count(*) FROM {purges}"), 0);
}

static int list_purge(void *ctx, const howdah_purge_record *r)
{
    char *text = ctx;
    size_t len = strlen(text);

    assert_true(llabs(r->purged_at_us - hw_clock_wall_us()) < 60000000);
    (void)snprintf(text + len, 512 - len, "%s %s %s %lld %lld %lld %lld %lld\n", r->actor,
                   r->reason, r->stream ? r->stream : "-", (long long)r->events,
                   (long long)r->dead_letters, (long long)r->snapshots, (long long)r->jobs,
                   (long long)r->left);
    return 0;
}

static void who_erased_what_and_why_is_kept_and_a_purge_of_nothing_is_not(void **state)
{
    ss *t = *state;
    howdah_event a = put_secret(t, "s");
    howdah_event b = put_secret(t, "s");
    hw_uuid both[2] = {a.id, b.id};
    howdah_event a2 = a_correction_of(&a);
    howdah_event a3;
    howdah_purge_record record;
    char text[512] = "";

    times_put(t, &a2);
    a3 = a_retraction_of(&a2);
    times_put(t, &a3);
    (void)purge_ids(t, &a.id, 1, false);
    record = purge_ids(t, &a.id, 1, false);
    assert_int_equal(record.id, 0);
    assert_int_equal(record.events, 0);
    assert_int_equal(record.left, 2);
    assert_int_equal(purge_ids(t, &a3.id, 1, true).events, 2);
    assert_int_equal(purge_ids(t, &a3.id, 1, false).left, 0);
    assert_int_equal(purge_ids(t, both, 2, false).events, 1);
    assert_int_equal(purge_stream(t, "s").id, 0);
    (void)put_secret(t, "s");
    assert_int_equal(purge_stream(t, "s").events, 1);
    ok(times_ops(t)->purges(t->store, list_purge, text, &ss_error));
    assert_string_equal(text, "clerk asked to be forgotten - 1 0 0 0 2\n"
                              "clerk asked to be forgotten - 2 0 0 0 0\n"
                              "clerk asked to be forgotten - 1 0 0 0 0\n"
                              "clerk asked to be forgotten s 1 0 0 0 0\n");
}

static void a_purged_family_can_be_corrected_by_who_knows_that_it_is(void **state)
{
    ss *t = *state;
    howdah_event first = put_secret(t, "s");
    howdah_event second;
    hw_times_query q = as_of(NOT, NOT);

    (void)purge_ids(t, &first.id, 1, true);
    second = a_correction_of(&first);
    assert_int_equal(times_try(t->store, &second), HW_APPEND_REVISION_TAKEN);
    second.purged = true;
    second.data = S("2");
    second.headers = HW_STR_NULL;
    times_put(t, &second);
    assert_false(is_erased(t, &second.id));
    assert_string_equal(times_data(t, &q), "2");
}

/* ---- purges: what was derived */

typedef struct kept_dead_letter {
    int n;
    hw_dead_letter_state state;
    bool purged;
    bool resolved;
    char data[64];
    char headers[64];
    char error[160];
    char reason[64];
    char by[64];
} kept_dead_letter;

static int keep_dead_letter(void *ctx, const howdah_dead_letter *dead_letter)
{
    kept_dead_letter *k = ctx;

    k->n++;
    assert_true(hw_dead_letter_state_of(hw_str_of(dead_letter->state), &k->state));
    k->resolved = dead_letter->resolved;
    if (dead_letter->event) {
        k->purged = dead_letter->event->purged;
        (void)snprintf(k->data, sizeof k->data, "%s", dead_letter->event->data.s);
        (void)snprintf(k->headers, sizeof k->headers, "%s",
                       dead_letter->event->headers.s ? dead_letter->event->headers.s : "-");
    }
    (void)snprintf(k->error, sizeof k->error, "%s", dead_letter->error);
    (void)snprintf(k->reason, sizeof k->reason, "%s",
                   dead_letter->reason[0] ? dead_letter->reason : "-");
    (void)snprintf(k->by, sizeof k->by, "%s",
                   dead_letter->resolved_by[0] ? dead_letter->resolved_by : "-");
    return 0;
}

static kept_dead_letter load_dead_letter(const ss *t, int64_t id)
{
    hw_dead_letter_query query = {.id = id, .resolved = true};
    kept_dead_letter k = {.n = 0};

    ok(t->subs->dead_letters(t->store, &query, keep_dead_letter, &k, &ss_error));
    assert_int_equal(k.n, 1);
    return k;
}

static int64_t put_dead_letter(const ss *t, int64_t token, const howdah_event *event,
                               const char *error)
{
    hw_checkpoint c = ss_behind("sub", token, event);
    int64_t id = 0;

    ok(t->subs->dead_letter(t->store, &c, event, S(error), 2, &id, &ss_error));
    return id;
}

static void dead_letters_of_purged_events_are_erased_and_discarded(void **state)
{
    ss *t = *state;
    howdah_event events[3] = {put_secret(t, "s"), put_secret(t, "s"), put_secret(t, "r")};
    int64_t ids[3];
    int64_t token;
    kept_dead_letter k;

    (void)times_ops(t);
    ss_create(t, "sub");
    token = ss_take(t->store, "sub", "me");
    for (int i = 0; i < 3; i++)
        ids[i] = put_dead_letter(t, token, &events[i], "cannot handle " SECRET);
    ok(t->subs->dead_letters_set_state(t->store, &ids[1], 1, HW_STR_NULL, HW_DEAD_LETTER_DISCARDED,
                                       S("mine"), NULL, &ss_error));
    assert_int_equal(purge_stream(t, "s").dead_letters, 2);
    k = load_dead_letter(t, ids[0]);
    assert_true(k.purged && k.resolved);
    assert_int_equal(k.state, HW_DEAD_LETTER_DISCARDED);
    assert_string_equal(k.data, "null");
    assert_string_equal(k.headers, "-");
    assert_string_equal(k.error, "");
    assert_string_equal(k.reason, "asked to be forgotten");
    assert_string_equal(k.by, "clerk");
    k = load_dead_letter(t, ids[1]);
    assert_true(k.purged);
    assert_string_equal(k.data, "null");
    assert_string_equal(k.error, "");
    assert_string_equal(k.reason, "mine");
    assert_string_not_equal(k.by, "clerk");
    k = load_dead_letter(t, ids[2]);
    assert_false(k.purged || k.resolved);
    assert_string_equal(k.error, "cannot handle " SECRET);
    assert_non_null(strstr(k.data, SECRET));
}

static void who_had_a_purged_event_in_hand_leaves_no_copy_of_it(void **state)
{
    ss *t = *state;
    howdah_event event = put_secret(t, "s");
    kept_dead_letter k;
    int64_t token;

    (void)times_ops(t);
    ss_create(t, "sub");
    token = ss_take(t->store, "sub", "me");
    (void)purge_ids(t, &event.id, 1, false);
    k = load_dead_letter(t, put_dead_letter(t, token, &event, "cannot handle " SECRET));
    assert_true(k.purged);
    assert_int_equal(k.state, HW_DEAD_LETTER_DEAD);
    assert_string_equal(k.data, "null");
    assert_string_equal(k.headers, "-");
    assert_null(strstr(k.error, SECRET));
}

static void snapshots_that_may_hold_a_purged_event_are_removed(void **state)
{
    ss *t = *state;
    howdah_event second;

    put_events(t, "s", 1);
    second = put_secret(t, "s");
    put_events(t, "s", 2);
    put_events(t, "r", 4);
    for (int i = 1; i <= 4; i++) {
        put_snapshot(t, a_snapshot("s", i, "1"), 0);
        put_snapshot(t, a_snapshot("r", i, "1"), 0);
    }
    assert_int_equal(purge_ids(t, &second.id, 1, false).snapshots, 3);
    assert_string_equal(list_snapshots(t, NULL), "r/1/1 r/2/1 r/3/1 r/4/1 s/1/1");
    assert_int_equal(purge_stream(t, "s").snapshots, 1);
}

/* A job of queue "q" for each event, without keys; the ids are 1, 2, 3 ... */
static void route_all(const ss *t, const howdah_event *events, size_t n)
{
    hw_binding b = {.queue = S("q"),
                    .pattern = S("order.*"),
                    .key = HOWDAH_KEY_NONE,
                    .subscriber_id = S("router")};
    int64_t sequences[16];
    hw_checkpoint c;
    bool made = false;

    ok(jobs_ops(t)->bind(t->store, &b, 0, NULL, 0, &made, &ss_error));
    for (size_t i = 0; i < n; i++)
        sequences[i] = events[i].global_sequence;
    c = ss_behind("router", ss_take(t->store, "router", "me"), &events[n - 1]);
    ok(jobs_ops(t)->route(t->store, &c, S("q"), HOWDAH_KEY_NONE, sequences, n, &ss_error));
}

static void jobs_made_of_purged_events_are_cancelled_and_their_texts_erased(void **state)
{
    ss *t = *state;
    howdah_event events[6];
    kept_job leased;
    kept_job job;
    batch b;
    int64_t own;
    int64_t dead_letter;
    howdah_purge_record record;
    kept_dead_letter k;

    (void)times_ops(t);
    for (int i = 0; i < 6; i++)
        events[i] = put_secret(t, i == 5 ? "r" : "s");
    route_all(t, events, 6);
    b = claim(t, 3);
    assert_int_equal(b.n, 3);
    assert_int_equal(ack(t, &b.jobs[0], HOWDAH_VERDICT_COMPLETE, "\"" SECRET "\"", 0),
                     HOWDAH_ACKED_DONE);
    fail_for_good(t, &b.jobs[1], "no " SECRET);
    leased = b.jobs[2];
    dead_letter = open_dead_letter(t, b.jobs[1].job.id);
    assert_true(dead_letter > 0);
    own = push(t, a_job("\"" SECRET "\""));
    record = purge_stream(t, "s");
    assert_int_equal(record.events, 5);
    assert_int_equal(record.jobs, 4);         /* two waiting, two ended */
    assert_int_equal(record.dead_letters, 1); /* that of the failed job */
    /* completed and failed stay what they are; of those waiting, the one of stream r, and ours */
    expect_counts(t, "2 1 0 1 3 0");
    job = load_job(t, b.jobs[0].job.id);
    assert_int_equal(job.job.state, HOWDAH_JOB_COMPLETED);
    assert_string_equal(job.result, "-");
    assert_string_equal(job.data, "null");
    job = load_job(t, b.jobs[1].job.id);
    assert_int_equal(job.job.state, HOWDAH_JOB_FAILED);
    assert_string_equal(job.error, "-");
    k = load_dead_letter(t, dead_letter);
    assert_true(k.resolved);
    assert_int_equal(k.state, HW_DEAD_LETTER_DISCARDED);
    assert_string_equal(k.error, "");
    assert_string_equal(k.by, "clerk");
    /* a job in a worker's hands goes on */
    expect_state(t, leased.job.id, HOWDAH_JOB_PROCESSING);
    complete(t, &leased);
    expect_state(t, own, HOWDAH_JOB_PENDING);
    b = claim(t, 10);
    assert_int_equal(b.n, 2);
}

static void a_job_in_hand_whose_event_is_purged_completes_or_ends_marked(void **state)
{
    static const howdah_verdict verdicts[] = {HOWDAH_VERDICT_COMPLETE, HOWDAH_VERDICT_FAIL,
                                              HOWDAH_VERDICT_RETRY, HOWDAH_VERDICT_RELEASE,
                                              HOWDAH_VERDICT_EXTEND};
    static const howdah_ack_outcome outcomes[] = {HOWDAH_ACKED_DONE, HOWDAH_ACKED_DONE,
                                                  HOWDAH_ACKED_FAILED, HOWDAH_ACKED_FAILED,
                                                  HOWDAH_ACKED_DONE};
    ss *t = *state;
    howdah_event events[5];
    bool more = false;
    batch b;

    (void)times_ops(t);
    for (int i = 0; i < 5; i++)
        events[i] = put_secret(t, "s");
    route_all(t, events, 5);
    b = claim(t, 5);
    assert_int_equal(b.n, 5);
    assert_int_equal(purge_stream(t, "s").jobs, 0);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(ack(t, &b.jobs[i], verdicts[i], SECRET, 1), outcomes[i]);
    wait_ms(20);
    ok(jobs_ops(t)->maintain(t->store, S("q"), &more, &ss_error));
    expect_state(t, b.jobs[0].job.id, HOWDAH_JOB_COMPLETED);
    for (size_t i = 1; i < 5; i++) {
        kept_job job = load_job(t, b.jobs[i].job.id);

        assert_int_equal(job.job.state, HOWDAH_JOB_FAILED);
        assert_string_equal(job.error, "cancelled: purged: asked to be forgotten");
        assert_int_equal(open_dead_letter(t, job.job.id), 0);
        expect(jobs_ops(t)->job_rerun(t->store, job.job.id, &ss_error), HOWDAH_CONFLICT);
        assert_non_null(strstr(ss_error.message, "its event was purged"));
    }
    assert_int_equal(claim(t, 10).n, 0);
    expect_counts(t, "0 0 0 1 4 0");
}

static void a_dead_letter_is_discarded_although_its_job_is_being_tried_again(void **state)
{
    ss *t = *state;
    howdah_event event;
    kept_job job;
    int64_t dead_letter;
    kept_dead_letter k;

    (void)times_ops(t);
    event = put_secret(t, "s");
    route_all(t, &event, 1);
    job = claim(t, 1).jobs[0];
    fail_for_good(t, &job, "no " SECRET);
    dead_letter = open_dead_letter(t, job.job.id);
    ok(jobs_ops(t)->job_rerun(t->store, job.job.id, &ss_error));
    job = claim(t, 1).jobs[0];
    assert_int_equal(purge_stream(t, "s").dead_letters, 1);
    complete(t, &job);
    k = load_dead_letter(t, dead_letter);
    assert_int_equal(k.state, HW_DEAD_LETTER_DISCARDED);
    assert_string_equal(k.error, "");
    assert_string_equal(k.by, "clerk");
    expect_state(t, job.job.id, HOWDAH_JOB_COMPLETED);
}

/* ---- the file */

static bool file_has(const ss *t, const char *suffix, const char *text)
{
    char path[1100];
    char *all = NULL;
    long size;
    bool has;
    FILE *f;

    (void)snprintf(path, sizeof path, "%s%s", t->url + strlen("sqlite:"), suffix);
    f = fopen(path, "rb");
    if (!f)
        return false;
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    size = ftell(f);
    assert_int_equal(fseek(f, 0, SEEK_SET), 0);
    all = malloc((size_t)size + 1);
    assert_non_null(all);
    assert_int_equal(fread(all, 1, (size_t)size, f), size);
    has = memmem(all, (size_t)size, text, strlen(text)) != NULL;
    free(all);
    (void)fclose(f);
    return has;
}

/* Short and long payloads: those of a page, and those that have pages of their own. */
static void nothing_of_a_purged_event_stays_in_the_file_or_its_log(void **state)
{
    ss *t = *state;
    char *large = malloc(20001);
    howdah_event event = a_fact("s", "t");
    int64_t token;

    (void)times_ops(t);
    assert_non_null(large);
    memset(large, 'x', 20000);
    memcpy(large, "\"", 1);
    memcpy(large + 19000, SECRET, strlen(SECRET));
    memcpy(large + 19999, "\"", 2);
    event.data = S(large);
    times_put(t, &event);
    ss_create(t, "sub");
    token = ss_take(t->store, "sub", "me");
    (void)put_dead_letter(t, token, &event, "no " SECRET);
    for (int i = 0; i < 30; i++)
        (void)put_secret(t, "s");
    put_snapshot(t, a_snapshot("s", 3, "\"" SECRET "\""), 0);
    assert_true(file_has(t, "", SECRET) || file_has(t, "-wal", SECRET));
    assert_int_equal(purge_stream(t, "s").events, 31);
    assert_false(file_has(t, "", SECRET));
    assert_false(file_has(t, "-wal", SECRET));
    free(large);
}

/* ---- failures */

static void a_purge_that_got_no_answer_is_done_once(void **state)
{
    ss *t = *state;
    hw_store *flaky = NULL;
    howdah_event event = put_secret(t, "s");
    hw_purge purge = {.ids = &event.id, .ids_n = 1, .reason = S("r"), .actor = S("a")};
    howdah_purge_record record = {.id = 77};
    howdah_error err = HOWDAH_ERROR_INIT;

    (void)times_ops(t);
    ok(hw_flaky_open(ss_open(t), &flaky, &ss_error));
    hw_flaky_plan_op(flaky, HW_FLAKY_OP_PURGE, 1, HW_FLAKY_BEFORE);
    expect(flaky->ops->times->purge(flaky, &purge, &record, &err), HOWDAH_UNAVAILABLE);
    assert_false(is_erased(t, &event.id));
    hw_flaky_plan_op(flaky, HW_FLAKY_OP_PURGE, 1, HW_FLAKY_AFTER);
    expect(flaky->ops->times->purge(flaky, &purge, &record, &err), HOWDAH_UNAVAILABLE);
    assert_true((err.flags & HOWDAH_OUTCOME_UNKNOWN) != 0);
    assert_int_equal(record.id, 77);
    assert_true(is_erased(t, &event.id));
    ok(flaky->ops->times->purge(flaky, &purge, &record, &ss_error));
    assert_int_equal(record.id, 0);
    assert_int_equal(ss_sql_number(t, "SELECT count(*) FROM {purges}"), 1);
    flaky->ops->close(flaky);
}

static int ignore_type(void *ctx, const howdah_type_stats *stats)
{
    (void)ctx;
    (void)stats;
    return 0;
}

static int ignore_stream(void *ctx, hw_str stream)
{
    (void)ctx;
    (void)stream;
    return 0;
}

static int ignore_purge(void *ctx, const howdah_purge_record *record)
{
    (void)ctx;
    (void)record;
    return 0;
}

/* All of them once, with outputs that are untouched or filled; how many have failed. */
static int run_each(hw_store *store, const howdah_event *event)
{
    const hw_times_ops *ops = store->ops->times;
    hw_times_query q = all_events();
    howdah_snapshot snapshot = a_snapshot("s", 1, "1");
    hw_purge purge = {.ids = &event->id, .ids_n = 1, .reason = S("r"), .actor = S("a")};
    const howdah_event *events = NULL;
    hw_cursor *cursor = NULL;
    howdah_knowledge k = {.asked_at_us = -1};
    howdah_purge_record record = {.id = -1};
    int64_t number = -1;
    size_t n = 0;
    char text[512] = "";
    int failures = 0;

    failures += ops->knowledge(store, 0, &k, &ss_error) < 0;
    assert_int_equal(k.asked_at_us == -1, failures == 1);
    failures += ops->count(store, &q, &number, &ss_error) < 0;
    if (ops->query_open(store, &q, &cursor, &ss_error) < 0) {
        assert_null(cursor);
        failures++;
    } else {
        failures += cursor->store->ops->read_next(cursor, &events, &n, &ss_error) < 0;
        cursor->store->ops->read_close(cursor);
    }
    failures += ops->types(store, &q, ignore_type, NULL, &ss_error) < 0;
    failures += ops->streams(store, &q, HW_STR_NULL, 9, ignore_stream, NULL, &ss_error) < 0;
    failures += ops->snapshot_put(store, &snapshot, 0, &ss_error) < 0;
    failures += ops->snapshot_get(store, S("s"), 0, keep_snapshot, text, &ss_error) < 0;
    text[0] = '\0';
    failures += ops->snapshot_list(store, HW_STR_NULL, list_snapshot, text, &ss_error) < 0;
    failures += ops->snapshot_remove(store, S("s"), 0, &number, &ss_error) < 0;
    failures += ops->purge(store, &purge, &record, &ss_error) < 0;
    failures += ops->purges(store, ignore_purge, NULL, &ss_error) < 0;
    return failures;
}

static void each_operation_can_be_made_to_fail_alone(void **state)
{
    ss *t = *state;
    hw_store *flaky = NULL;
    howdah_event event = put_secret(t, "s");
    unsigned operations;

    (void)times_ops(t);
    ok(hw_flaky_open(ss_open(t), &flaky, &ss_error));
    assert_int_equal(run_each(flaky, &event), 0);
    operations = hw_flaky_count(flaky);
    assert_int_equal(operations, 12);
    for (unsigned i = 1; i <= operations; i++) {
        hw_flaky_plan(flaky, i, HW_FLAKY_BEFORE);
        assert_int_equal(run_each(flaky, &event), 1);
        hw_flaky_plan(flaky, i, HW_FLAKY_AFTER);
        assert_int_equal(run_each(flaky, &event), 1);
        assert_false(hw_flaky_pending(flaky));
    }
    flaky->ops->close(flaky);
}

static void ask_everything(const ss *t, hw_times_query *q)
{
    const hw_times_ops *ops = t->store->ops->times;
    const howdah_event *events = NULL;
    hw_cursor *cursor = NULL;
    int64_t count = 0;
    size_t n = 0;
    int s = HOWDAH_END;

    if (fine(ops->query_open(t->store, q, &cursor, &ss_error))) {
        while (fine(s = cursor->store->ops->read_next(cursor, &events, &n, &ss_error)) &&
               s == HOWDAH_OK)
            ;
        cursor->store->ops->read_close(cursor);
    }
    (void)fine(ops->count(t->store, q, &count, &ss_error));
    (void)fine(ops->types(t->store, q, ignore_type, NULL, &ss_error));
    (void)fine(ops->streams(t->store, q, HW_STR_NULL, 10, ignore_stream, NULL, &ss_error));
}

static void run_script(const ss *t, const howdah_event *event)
{
    const hw_times_ops *ops = t->store->ops->times;
    hw_purge purge = {.ids = &event->id, .ids_n = 1, .reason = S("r"), .actor = S("a")};
    hw_header_is is = {S("who"), S(SECRET)};
    howdah_knowledge k;
    howdah_purge_record record;
    howdah_snapshot snapshot = a_snapshot(event->stream.s, 1, "1");
    char text[512] = "";

    for (int order = 0; order < 3; order++) {
        hw_times_query q = as_of(NOT, NOT);

        q.order = (howdah_order)order;
        q.stream = event->stream;
        q.pattern = S("order.*");
        q.headers = &is;
        q.headers_n = 1;
        q.families = order == 2 ? &event->id : NULL;
        q.families_n = order == 2;
        q.batch = 2;
        ask_everything(t, &q);
    }
    (void)fine(ops->knowledge(t->store, event->recorded_at_us, &k, &ss_error));
    (void)fine(ops->snapshot_put(t->store, &snapshot, 1, &ss_error));
    (void)fine(ops->snapshot_get(t->store, event->stream, 0, keep_snapshot, text, &ss_error));
    text[0] = '\0';
    (void)fine(ops->snapshot_list(t->store, event->stream, list_snapshot, text, &ss_error));
    (void)fine(ops->purge(t->store, &purge, &record, &ss_error));
    (void)fine(ops->purges(t->store, ignore_purge, NULL, &ss_error));
}

static void an_allocation_that_fails_is_said_and_erases_no_half(void **state)
{
    ss *t = *state;
    long n = 0;

    (void)times_ops(t);
    poor_left = -1;
    assert_int_equal(howdah_allocator_set(&poor_hooks), HOWDAH_OK);
    do {
        howdah_event event;
        char stream[32];

        (void)snprintf(stream, sizeof stream, "s%ld", n);
        event = put_secret(t, stream);
        (void)put_secret(t, stream);
        poor_failed = false;
        poor_left = n++;
        run_script(t, &event);
        poor_left = -1;
        (void)is_erased(t, &event.id);
        assert_true(n < 1000);
    } while (poor_failed);
    assert_true(n > 1);
    assert_int_equal(howdah_allocator_set(NULL), HOWDAH_OK);
}

ss_group ss_times_purge_tests(void)
{
    static const struct CMUnitTest tests[] = {
        SS_TEST(the_nearest_snapshot_at_or_below_a_version_is_found),
        SS_TEST(a_snapshot_takes_the_place_of_one_of_the_same_version),
        SS_TEST(only_as_many_snapshots_as_wanted_are_kept),
        SS_TEST(a_snapshot_of_a_version_that_is_not_there_is_refused),
        SS_TEST(snapshots_are_removed_up_to_a_version),
        SS_TEST(a_purge_erases_payload_and_headers_and_leaves_the_rest),
        SS_TEST(purged_events_are_still_answers_but_not_by_their_headers),
        SS_TEST(the_revisions_of_a_family_are_purged_one_by_one_or_together),
        SS_TEST(a_stream_is_purged_whole),
        SS_TEST(a_purge_of_what_is_not_there_erases_nothing),
        SS_TEST(who_erased_what_and_why_is_kept_and_a_purge_of_nothing_is_not),
        SS_TEST(a_purged_family_can_be_corrected_by_who_knows_that_it_is),
        SS_TEST(dead_letters_of_purged_events_are_erased_and_discarded),
        SS_TEST(who_had_a_purged_event_in_hand_leaves_no_copy_of_it),
        SS_TEST(snapshots_that_may_hold_a_purged_event_are_removed),
        SS_TEST(jobs_made_of_purged_events_are_cancelled_and_their_texts_erased),
        SS_TEST(a_job_in_hand_whose_event_is_purged_completes_or_ends_marked),
        SS_TEST(a_dead_letter_is_discarded_although_its_job_is_being_tried_again),
        SS_TEST(a_purge_that_got_no_answer_is_done_once),
        SS_TEST(each_operation_can_be_made_to_fail_alone),
        SS_TEST(an_allocation_that_fails_is_said_and_erases_no_half),
        SS_TEST(nothing_of_a_purged_event_stays_in_the_file_or_its_log),
    };
    ss_group group = SS_GROUP(tests);

    if (ss_is_pg()) /* the last are about a file */
        group.n -= 1;
    return group;
}
