/* test_flaky.c - failures before and after the real commit of what a subscription stores. */
#include "flaky.h"
#include "suite.h"

/* Nothing was stored, or all of it; and what the caller is told. */
typedef struct plan {
    hw_flaky_mode mode;
    bool stored;
    unsigned flags;
} plan;

static const plan plans[] = {
    {HW_FLAKY_BEFORE, false, HOWDAH_RETRYABLE},
    {HW_FLAKY_BEFORE_UNKNOWN, false, HOWDAH_OUTCOME_UNKNOWN},
    {HW_FLAKY_AFTER, true, HOWDAH_OUTCOME_UNKNOWN},
};

/* Over the store under test. */
static hw_store *open_flaky(const ss *t)
{
    hw_store *store = ss_open(t);

    ok(hw_flaky_open(store, &store, &ss_error));
    return store;
}

static void expect_failure(hw_store *flaky, int status, const plan *p)
{
    assert_int_equal(status, HOWDAH_UNAVAILABLE);
    assert_int_equal(ss_error.flags, p->flags);
    assert_false(hw_flaky_pending(flaky));
}

static void a_checkpoint_that_fails_is_stored_or_not(void **state)
{
    ss *t = *state;

    ss_create(t, "s");
    for (int i = 0; i < 3; i++) {
        hw_store *flaky = open_flaky(t);
        int64_t high = ss_load(t, "s").row.high;
        hw_sub_news news = {.status = HW_SUB_HALTED};
        hw_checkpoint c = ss_at("s", ss_take(t->store, "s", "a"), high + 1);

        hw_flaky_plan_op(flaky, HW_FLAKY_OP_CHECKPOINT, 1, plans[i].mode);
        ok(flaky->ops->subs->poll(flaky, &c, 1, 0, &news, &ss_error));
        news.status = HW_SUB_HALTED;
        expect_failure(flaky, flaky->ops->subs->checkpoint(flaky, &c, 1, 0, &news, &ss_error),
                       &plans[i]);
        assert_int_equal(news.status, HW_SUB_HALTED);
        assert_int_equal(ss_load(t, "s").row.high, high + plans[i].stored);
        ok(flaky->ops->subs->checkpoint(flaky, &c, 1, 0, &news, &ss_error));
        assert_false(news.lost);
        assert_int_equal(ss_load(t, "s").row.high, high + 1);
        ok(t->subs->release(t->store, SS_HOLD(S("s"), c.token), HOWDAH_INSTANCE_COORDINATED,
                            &ss_error));
        flaky->ops->close(flaky);
    }
}

static void a_dead_letter_that_fails_is_stored_with_its_checkpoint_or_not(void **state)
{
    ss *t = *state;
    int64_t token;

    ss_create(t, "s");
    token = ss_take(t->store, "s", "a");
    for (int i = 0; i < 3; i++) {
        hw_store *flaky = open_flaky(t);
        howdah_event *event = ss_append(t->store, "s", "a.b", NULL);
        hw_checkpoint c = ss_behind("s", token, event);
        int64_t id = -1;

        hw_flaky_plan_op(flaky, HW_FLAKY_OP_DEAD_LETTER, 1, plans[i].mode);
        expect_failure(flaky,
                       flaky->ops->subs->dead_letter(flaky, &c, event, S("e"), 1, &id, &ss_error),
                       &plans[i]);
        assert_int_equal(id, -1);
        assert_int_equal(ss_load(t, "s").row.dead_letters, i + plans[i].stored);
        assert_int_equal(ss_load(t, "s").row.high, i + plans[i].stored);
        ok(flaky->ops->subs->dead_letter(flaky, &c, event, S("e"), 1, &id, &ss_error));
        assert_int_equal(ss_load(t, "s").row.dead_letters, i + 1);
        hw_event_free(event);
        flaky->ops->close(flaky);
    }
}

static void a_take_that_fails_calls_nobody(void **state)
{
    ss *t = *state;

    for (int i = 0; i < 3; i++) {
        hw_store *flaky = open_flaky(t);
        hw_take take = {S("s"), HOWDAH_INSTANCE_SINGLE, S("a"), 0};
        row r = {.there = false};
        int64_t token;

        ss_create(t, "s");
        token = ss_load(t, "s").row.token;
        hw_flaky_plan_op(flaky, HW_FLAKY_OP_TAKE, 1, plans[i].mode);
        expect_failure(flaky, flaky->ops->subs->take(flaky, &take, ss_keep_row, &r, &ss_error),
                       &plans[i]);
        assert_false(r.there);
        assert_int_equal(ss_load(t, "s").row.token > token, plans[i].stored);
        ok(flaky->ops->subs->take(flaky, &take, ss_keep_row, &r, &ss_error));
        assert_true(r.row.token > token);
        flaky->ops->close(flaky);
    }
}

static void a_release_that_fails_is_done_or_not(void **state)
{
    ss *t = *state;

    ss_create(t, "s");
    for (int i = 0; i < 3; i++) {
        hw_store *flaky = open_flaky(t);
        int64_t token = ss_take(flaky, "s", "a");

        hw_flaky_plan_op(flaky, HW_FLAKY_OP_RELEASE, 1, plans[i].mode);
        expect_failure(flaky,
                       flaky->ops->subs->release(flaky, SS_HOLD(S("s"), token),
                                                 HOWDAH_INSTANCE_COORDINATED, &ss_error),
                       &plans[i]);
        assert_int_equal(ss_load(t, "s").row.held, !plans[i].stored);
        ok(flaky->ops->subs->release(flaky, SS_HOLD(S("s"), token), HOWDAH_INSTANCE_COORDINATED,
                                     &ss_error));
        assert_false(ss_load(t, "s").row.held);
        flaky->ops->close(flaky);
    }
}

static void a_handlers_commit_that_fails_is_done_or_rolled_back(void **state)
{
    ss *t = *state;
    int64_t token;

    ss_create(t, "s");
    token = ss_take(t->store, "s", "a");
    for (int i = 0; i < 3; i++) {
        hw_store *flaky = open_flaky(t);
        hw_checkpoint c = ss_at("s", token, i + 1);

        hw_flaky_plan_op(flaky, HW_FLAKY_OP_TX_COMMIT, 1, plans[i].mode);
        ok(flaky->ops->subs->begin(flaky, HW_STR_NULL, &ss_error));
        assert_non_null(flaky->ops->subs->handle(flaky));
        expect_failure(flaky, flaky->ops->subs->commit(flaky, &c, &ss_error), &plans[i]);
        assert_int_equal(ss_load(t, "s").row.high, i + plans[i].stored);
        ok(flaky->ops->subs->begin(flaky, HW_STR_NULL, &ss_error));
        ok(flaky->ops->subs->commit(flaky, &c, &ss_error));
        assert_int_equal(ss_load(t, "s").row.high, i + 1);
        flaky->ops->close(flaky);
    }
}

/* A plan by number, as for every other operation. */
static void a_transaction_whose_begin_fails_is_not_open(void **state)
{
    ss *t = *state;
    hw_store *flaky = open_flaky(t);
    hw_checkpoint c;

    ss_create(t, "s");
    c = ss_at("s", ss_take(t->store, "s", "a"), 1);
    for (int i = 0; i < 3; i++) {
        hw_flaky_plan(flaky, 1, plans[i].mode);
        assert_int_equal(flaky->ops->subs->begin(flaky, HW_STR_NULL, &ss_error),
                         HOWDAH_UNAVAILABLE);
        assert_int_equal(ss_error.flags, HOWDAH_RETRYABLE);
    }
    ok(flaky->ops->subs->begin(flaky, HW_STR_NULL, &ss_error));
    ok(flaky->ops->subs->commit(flaky, &c, &ss_error));
    flaky->ops->close(flaky);
}

ss_group ss_flaky_tests(void)
{
    static const struct CMUnitTest tests[] = {
        SS_TEST(a_checkpoint_that_fails_is_stored_or_not),
        SS_TEST(a_dead_letter_that_fails_is_stored_with_its_checkpoint_or_not),
        SS_TEST(a_take_that_fails_calls_nobody),
        SS_TEST(a_release_that_fails_is_done_or_not),
        SS_TEST(a_handlers_commit_that_fails_is_done_or_rolled_back),
        SS_TEST(a_transaction_whose_begin_fails_is_not_open),
    };
    return SS_GROUP(tests);
}
