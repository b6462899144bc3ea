/* test_checkpoint.c - storing how far a subscription is, and refusing who does not own it. */
#include <inttypes.h>
#include <stdio.h>

#include "suite.h"

static void a_checkpoint_is_stored_whole(void **state)
{
    ss *t = *state;
    howdah_event *event = ss_append(t->store, "s", "a.b", NULL);
    hw_range outstanding[] = {{2, 2}, {7, 8}};
    char timeline[HW_TIMELINE_SIZE];
    hw_sub_news news;
    hw_checkpoint c;
    row r;

    ss_create(t, "s");
    c = ss_behind("s", ss_take(t->store, "s", "a"), event);
    c.high = 9;
    c.outstanding = outstanding;
    c.outstanding_n = 2;
    ok(t->subs->checkpoint(t->store, &c, 1, 0, &news, &ss_error));
    assert_false(news.lost);
    ok(t->subs->timeline(t->store, timeline, &ss_error));
    r = ss_load(t, "s");
    assert_int_equal(r.row.high, 9);
    assert_string_equal(r.outstanding, "2-2,7-8");
    assert_int_equal(r.row.anchor.sequence, event->global_sequence);
    assert_memory_equal(r.row.anchor.id.b, event->id.b, sizeof event->id.b);
    assert_string_equal(r.timeline, timeline);
    assert_true(r.row.updated_at_us >= r.row.created_at_us);
    hw_event_free(event);
}

static void of_many_checkpoints_a_lost_one_does_not_keep_the_others_back(void **state)
{
    enum { N = 20 };
    ss *t = *state;
    hw_checkpoint c[N];
    hw_sub_news news[N];
    char names[N][16];

    for (int i = 0; i < N; i++) {
        (void)snprintf(names[i], sizeof names[i], "s%02d", i);
        ss_create(t, names[i]);
        c[i] = ss_at(names[i], ss_take(t->store, names[i], "a"), 10 + i);
    }
    (void)ss_make_stale(t, names[7]);
    c[12].subscriber_id = S("gone");
    ok(t->subs->set_status(t->store, SS_HOLD(S(names[3]), 0), HW_SUB_PAUSED, HW_STR_NULL,
                           &ss_error));
    ok(t->subs->checkpoint(t->store, c, N, 0, news, &ss_error));
    for (int i = 0; i < N; i++) {
        bool lost = i == 7 || i == 12;

        assert_int_equal(news[i].lost, lost);
        if (!lost)
            assert_int_equal(news[i].status, i == 3 ? HW_SUB_PAUSED : HW_SUB_ACTIVE);
        assert_int_equal(ss_load(t, names[i]).row.high, lost ? 0 : 10 + i);
    }
    ok(t->subs->poll(t->store, c, N, 60000, news, &ss_error));
    for (int i = 0; i < N; i++)
        assert_int_equal(news[i].lost, i == 7 || i == 12);
    ok(t->subs->checkpoint(t->store, c, 0, 0, news, &ss_error));
    ok(t->subs->poll(t->store, c, 0, 0, news, &ss_error));
}

static void high_never_goes_back_under_one_token(void **state)
{
    ss *t = *state;
    hw_range outstanding[] = {{4, 4}};
    hw_sub_news news;
    hw_checkpoint c;
    int64_t token;
    row r;

    ss_create(t, "s");
    token = ss_take(t->store, "s", "a");
    c = ss_at("s", token, 10);
    c.outstanding = outstanding;
    c.outstanding_n = 1;
    ok(t->subs->checkpoint(t->store, &c, 1, 0, &news, &ss_error));
    c = ss_at("s", token, 5);
    (void)t->subs->checkpoint(t->store, &c, 1, 0, &news, &ss_error);
    r = ss_load(t, "s");
    assert_int_equal(r.row.high, 10);
    assert_string_equal(r.outstanding, "4-4");
    /* The same high with less outstanding is progress. */
    c = ss_at("s", token, 10);
    ok(t->subs->checkpoint(t->store, &c, 1, 0, &news, &ss_error));
    assert_string_equal(ss_load(t, "s").outstanding, "");
}

static int compare_outstanding(void *ctx, const hw_sub_row *r)
{
    const hw_checkpoint *c = ctx;

    assert_int_equal(r->outstanding_n, c->outstanding_n);
    for (size_t i = 0; i < c->outstanding_n; i++) {
        assert_true(r->outstanding[i].first == c->outstanding[i].first);
        assert_true(r->outstanding[i].last == c->outstanding[i].last);
    }
    assert_true(r->high == c->high);
    return 0;
}

static void outstanding_ranges_go_round(void **state)
{
    enum { MANY = 1000 };
    static hw_range many[MANY];
    static const hw_range large[] = {{1, 1},
                                     {INT64_C(4611686018427387904), INT64_C(4611686018427387905)},
                                     {INT64_MAX - 3, INT64_MAX - 2}};
    ss *t = *state;
    hw_checkpoint c;
    hw_sub_news news;

    for (int i = 0; i < MANY; i++)
        many[i] = (hw_range){i * 10 + 1, i * 10 + 1 + i % 5};
    ss_create(t, "s");
    c = ss_at("s", ss_take(t->store, "s", "a"), 20000);
    for (int round = 0; round < 4; round++) {
        const hw_range *outstanding[] = {NULL, many + 7, many, large};
        const size_t n[] = {0, 1, MANY, 3};

        c.outstanding = outstanding[round];
        c.outstanding_n = n[round];
        if (round == 3)
            c.high = INT64_MAX - 1;
        ok(t->subs->checkpoint(t->store, &c, 1, 0, &news, &ss_error));
        assert_false(news.lost);
        ok(t->subs->load(t->store, S("s"), compare_outstanding, &c, &ss_error));
    }
    ok(t->subs->reset(t->store, S("s"), 20000, many, MANY, &ss_error));
    c = ss_at("s", 0, 20000);
    c.outstanding = many;
    c.outstanding_n = MANY;
    ok(t->subs->load(t->store, S("s"), compare_outstanding, &c, &ss_error));
    ok(t->subs->create(t->store, S("made"), &HW_FILTER_ALL, 20000, many, MANY, NULL, &ss_error));
    ok(t->subs->load(t->store, S("made"), compare_outstanding, &c, &ss_error));
}

/* Whether a row is as it was when it was made, but for token and owner. */
static void expect_untouched(const ss *t)
{
    row r = ss_load(t, "s");

    assert_int_equal(r.row.high, 0);
    assert_string_equal(r.outstanding, "");
    assert_int_equal(r.row.anchor.sequence, 0);
    assert_int_equal(r.row.suspect_sequence, 0);
    assert_int_equal(r.row.dead_letters, 0);
    assert_int_equal(r.row.skips, 0);
    assert_int_equal(ss_sql_number(t, "SELECT count(*) FROM {dead_letters}"), 0);
    assert_int_equal(ss_sql_number(t, "SELECT count(*) FROM {skips}"), 0);
}

static void a_stale_token_is_refused_and_stores_nothing(void **state)
{
    ss *t = *state;
    howdah_event *event = ss_append(t->store, "s", "a.b", NULL);
    hw_store *worker = ss_open(t);
    hw_sub_news news = {.lost = false};
    hw_checkpoint c;
    int64_t id = -1;

    ss_create(t, "s");
    c = ss_behind("s", ss_take(t->store, "s", "a"), event);
    (void)ss_make_stale(t, "s");
    ok(t->subs->checkpoint(t->store, &c, 1, 0, &news, &ss_error));
    assert_true(news.lost);
    expect_untouched(t);
    expect(t->subs->dead_letter(t->store, &c, event, S("e"), 3, &id, &ss_error), HOWDAH_LOST);
    assert_int_equal(id, -1);
    expect_untouched(t);
    expect(t->subs->skip(t->store, &c, (hw_range){1, 1}, 5000, S("late"), &ss_error), HOWDAH_LOST);
    expect_untouched(t);
    expect(t->subs->suspect(t->store, SS_HOLD(S("s"), c.token), 1, 1, &ss_error), HOWDAH_LOST);
    expect_untouched(t);
    ok(worker->ops->subs->begin(worker, HW_STR_NULL, &ss_error));
    expect(worker->ops->subs->commit(worker, &c, &ss_error), HOWDAH_LOST);
    expect_untouched(t);
    assert_string_equal(ss_load(t, "s").owner, "usurper");
    worker->ops->close(worker);
    hw_event_free(event);
}

static void a_stale_token_acks_no_dead_letter(void **state)
{
    ss *t = *state;
    howdah_event *event = ss_append(t->store, "s", "a.b", NULL);
    hw_checkpoint c;
    int64_t id = 0;
    int64_t n = 0;

    ss_create(t, "s");
    c = ss_behind("s", ss_take(t->store, "s", "a"), event);
    ok(t->subs->dead_letter(t->store, &c, event, S("e"), 3, &id, &ss_error));
    ok(t->subs->dead_letters_set_state(t->store, &id, 1, HW_STR_NULL, HW_DEAD_LETTER_REDRIVE,
                                       HW_STR_NULL, &n, &ss_error));
    assert_int_equal(n, 1);
    (void)ss_make_stale(t, "s");
    expect(t->subs->redrive_end(t->store, SS_HOLD(S("s"), c.token), id, HW_DEAD_LETTER_REDRIVEN,
                                HW_STR_NULL, &ss_error),
           HOWDAH_LOST);
    assert_int_equal(ss_sql_number(t, "SELECT count(*) FROM {dead_letters}"
                                      " WHERE resolved_at IS NULL AND retry_count = 3"),
                     1);
    hw_event_free(event);
}

ss_group ss_checkpoint_tests(void)
{
    static const struct CMUnitTest tests[] = {
        SS_TEST(a_checkpoint_is_stored_whole),
        SS_TEST(of_many_checkpoints_a_lost_one_does_not_keep_the_others_back),
        SS_TEST(high_never_goes_back_under_one_token),
        SS_TEST(outstanding_ranges_go_round),
        SS_TEST(a_stale_token_is_refused_and_stores_nothing),
        SS_TEST(a_stale_token_acks_no_dead_letter),
    };
    return SS_GROUP(tests);
}
