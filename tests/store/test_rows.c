/* test_rows.c - making, taking, releasing, resetting and removing a subscription. */
#include <stdio.h>

#include "base/clock.h"
#include "suite.h"

static void a_subscription_is_created_once_and_again_changes_only_its_pattern(void **state)
{
    ss *t = *state;
    hw_range outstanding[] = {{3, 5}, {9, 9}};
    bool created = false;
    row r;

    ok(t->subs->create(t->store, S("projection:orders"), &(hw_filter){.pattern = S("order.*")}, 12,
                       outstanding, 2, &created, &ss_error));
    assert_true(created);
    r = ss_load(t, "projection:orders");
    assert_string_equal(r.pattern, "order.*");
    assert_int_equal(r.row.high, 12);
    assert_string_equal(r.outstanding, "3-5,9-9");
    assert_string_equal(r.owner, "-");
    assert_string_equal(r.timeline, "");
    assert_string_equal(r.reason, "-");
    assert_int_equal(r.row.anchor.sequence, 0);
    assert_int_equal(r.row.status, HW_SUB_ACTIVE);
    assert_false(r.row.held);
    assert_int_equal(r.row.suspect_sequence, 0);
    assert_int_equal(r.row.dead_letters, 0);
    assert_int_equal(r.row.skips, 0);
    assert_true(r.row.created_at_us > 0);
    ok(t->subs->create(t->store, S("projection:orders"), &(hw_filter){.pattern = S("order.*")}, 99,
                       NULL, 0, &created, &ss_error));
    assert_false(created);
    ok(t->subs->create(t->store, S("projection:orders"), &HW_FILTER_ALL, 99, NULL, 0, NULL,
                       &ss_error));
    r = ss_load(t, "projection:orders");
    assert_string_equal(r.pattern, "-");
    assert_int_equal(r.row.high, 12);
    assert_string_equal(r.outstanding, "3-5,9-9");
}

static void a_row_that_is_not_there_is_not_found(void **state)
{
    ss *t = *state;
    row r = {.there = false};

    expect(t->subs->load(t->store, S("none"), ss_keep_row, &r, &ss_error), HOWDAH_NOT_FOUND);
    expect(ss_try_take(t->store, "none", "a", &r), HOWDAH_NOT_FOUND);
    expect(t->subs->remove(t->store, S("none"), &ss_error), HOWDAH_NOT_FOUND);
    expect(t->subs->reset(t->store, S("none"), 0, NULL, 0, &ss_error), HOWDAH_NOT_FOUND);
    expect(
        t->subs->set_status(t->store, SS_HOLD(S("none"), 0), HW_SUB_PAUSED, HW_STR_NULL, &ss_error),
        HOWDAH_NOT_FOUND);
    expect(t->subs->suspect(t->store, SS_HOLD(S("none"), 1), 1, 1, &ss_error), HOWDAH_LOST);
    assert_false(r.there);
}

static int join_names(void *ctx, const hw_sub_row *r)
{
    char *names = ctx;

    (void)strcat(names, r->subscriber_id.s);
    (void)strcat(names, " ");
    return strcmp(r->subscriber_id.s, "stop") == 0;
}

static void the_list_is_by_name_and_ends_when_the_callback_says_so(void **state)
{
    ss *t = *state;
    char names[256] = "";

    ok(t->subs->list(t->store, join_names, names, &ss_error));
    assert_string_equal(names, "");
    ss_create(t, "b");
    ss_create(t, "a");
    ss_create(t, "z");
    ok(t->subs->list(t->store, join_names, names, &ss_error));
    assert_string_equal(names, "a b z ");
    ss_create(t, "stop");
    names[0] = '\0';
    ok(t->subs->list(t->store, join_names, names, &ss_error));
    assert_string_equal(names, "a b stop ");
}

static void the_token_grows_with_every_take_and_a_release_gives_the_row_free(void **state)
{
    ss *t = *state;
    int64_t first;
    int64_t second;
    row r;

    ss_create(t, "s");
    first = ss_take(t->store, "s", "host a");
    assert_true(first > 0);
    r = ss_load(t, "s");
    assert_int_equal(r.row.token, first);
    assert_string_equal(r.owner, "host a");
    assert_true(r.row.held);
    ok(t->subs->release(t->store, SS_HOLD(S("s"), first), HOWDAH_INSTANCE_COORDINATED, &ss_error));
    r = ss_load(t, "s");
    assert_string_equal(r.owner, "-");
    assert_false(r.row.held);
    assert_int_equal(r.row.token, first);
    second = ss_take(t->store, "s", "host b");
    assert_true(second > first);
}

static void of_two_handles_the_second_is_told_to_wait(void **state)
{
    ss *t = *state;
    hw_store *other = ss_open(t);
    int64_t token;
    row r;

    ss_create(t, "s");
    ss_create(t, "free");
    token = ss_take(t->store, "s", "first");
    expect(ss_try_take(other, "s", "second", &r), HOWDAH_END);
    assert_false(r.there);
    assert_int_equal(ss_load(t, "s").row.token, token);
    assert_true(ss_take(other, "free", "second") > 0);
    ok(t->subs->release(t->store, SS_HOLD(S("s"), token), HOWDAH_INSTANCE_COORDINATED, &ss_error));
    assert_true(ss_take(other, "s", "second") > token);
    other->ops->close(other);
}

/* After a take whose outcome it never heard, or a connection that broke. */
static void an_owner_takes_its_own_row_again_with_a_new_token(void **state)
{
    ss *t = *state;
    int64_t token;
    row r;

    ss_create(t, "s");
    token = ss_take(t->store, "s", "me");
    expect(ss_try_take(t->store, "s", "me", &r), HOWDAH_OK);
    assert_true(r.row.token > token);
    assert_string_equal(r.owner, "me");
}

static void the_row_handed_to_take_is_the_old_one_with_the_new_token(void **state)
{
    ss *t = *state;
    howdah_event *event = ss_append(t->store, "s", "a.b", NULL);
    hw_take take = {S("s"), HOWDAH_INSTANCE_SINGLE, S("second"), 0};
    hw_range outstanding[] = {{1, 1}};
    hw_checkpoint c;
    hw_sub_news news;
    row r = {.there = false};
    int64_t token;

    ss_create(t, "s");
    take.owner = S("first");
    ok(t->subs->take(t->store, &take, ss_keep_row, &r, &ss_error));
    assert_string_equal(r.owner, "-");
    token = r.row.token;
    c = ss_behind("s", token, event);
    c.high = 7;
    c.outstanding = outstanding;
    c.outstanding_n = 1;
    ok(t->subs->checkpoint(t->store, &c, 1, 0, &news, &ss_error));
    ok(t->subs->suspect(t->store, SS_HOLD(S("s"), token), 7, 2, &ss_error));
    take.owner = S("second");
    r.there = false;
    ok(t->subs->take(t->store, &take, ss_keep_row, &r, &ss_error));
    assert_true(r.row.token > token);
    assert_string_equal(r.owner, "first");
    assert_int_equal(r.row.high, 7);
    assert_string_equal(r.outstanding, "1-1");
    assert_int_equal(r.row.anchor.sequence, event->global_sequence);
    assert_memory_equal(r.row.anchor.id.b, event->id.b, sizeof event->id.b);
    assert_int_equal(r.row.suspect_sequence, 7);
    assert_int_equal(r.row.suspect_attempts, 2);
    assert_string_equal(ss_load(t, "s").owner, "second");
    hw_event_free(event);
}

static void a_lease_that_runs_out_is_taken_over_with_a_higher_token(void **state)
{
    ss *t = *state;
    hw_take take = {S("s"), HOWDAH_INSTANCE_LEASE, S("first"), 300};
    hw_store *other = ss_open(t);
    row r = {.there = false};
    int64_t token;
    int64_t since;
    int s;

    ss_create(t, "s");
    since = hw_clock_mono_ms();
    expect(t->subs->take(t->store, &take, ss_keep_row, &r, &ss_error), HOWDAH_OK);
    token = r.row.token;
    take.owner = S("second");
    r.there = false;
    while ((s = other->ops->subs->take(other, &take, ss_keep_row, &r, &ss_error)) == HOWDAH_END)
        hw_clock_sleep_ms(5);
    expect(s, HOWDAH_OK);
    assert_true(hw_clock_mono_ms() - since >= 290);
    assert_true(hw_clock_mono_ms() - since < 20000);
    assert_true(r.row.token > token);
    assert_string_equal(r.owner, "first");
    assert_false(r.row.held);
    other->ops->close(other);
}

static void a_lease_that_is_renewed_stays(void **state)
{
    ss *t = *state;
    hw_take take = {S("s"), HOWDAH_INSTANCE_LEASE, S("first"), 2000};
    hw_store *other = ss_open(t);
    int64_t until = hw_clock_mono_ms() + 3000;
    row r = {.there = false};
    hw_checkpoint c;

    ss_create(t, "s");
    expect(t->subs->take(t->store, &take, ss_keep_row, &r, &ss_error), HOWDAH_OK);
    c = ss_at("s", r.row.token, 0);
    take.owner = S("second");
    for (int i = 0; hw_clock_mono_ms() < until; i++) {
        hw_sub_news news;
        row none = {.there = false};

        expect(other->ops->subs->take(other, &take, ss_keep_row, &none, &ss_error), HOWDAH_END);
        if (i % 2 == 0)
            ok(t->subs->poll(t->store, &c, 1, 2000, &news, &ss_error));
        else
            ok(t->subs->checkpoint(t->store, &c, 1, 2000, &news, &ss_error));
        assert_false(news.lost);
        hw_clock_sleep_ms(50);
    }
    other->ops->close(other);
}

/* The token decides, not the clock. */
static void a_lease_that_ran_out_is_its_owners_until_somebody_takes_it(void **state)
{
    ss *t = *state;
    hw_take take = {S("s"), HOWDAH_INSTANCE_LEASE, S("first"), 50};
    row r = {.there = false};
    hw_sub_news news;
    hw_checkpoint c;

    ss_create(t, "s");
    expect(t->subs->take(t->store, &take, ss_keep_row, &r, &ss_error), HOWDAH_OK);
    while (ss_load(t, "s").row.held)
        hw_clock_sleep_ms(5);
    c = ss_at("s", r.row.token, 4);
    ok(t->subs->checkpoint(t->store, &c, 1, 60000, &news, &ss_error));
    assert_false(news.lost);
    assert_true(ss_load(t, "s").row.held);
    assert_int_equal(ss_load(t, "s").row.high, 4);
}

static void a_release_with_a_stale_token_changes_nothing_and_is_no_error(void **state)
{
    ss *t = *state;
    hw_store *other = ss_open(t);
    int64_t stale;
    int64_t token;

    ss_create(t, "s");
    stale = ss_take(other, "s", "first");
    ok(other->ops->subs->release(other, SS_HOLD(S("s"), stale), HOWDAH_INSTANCE_COORDINATED,
                                 &ss_error));
    token = ss_take(t->store, "s", "second");
    ok(other->ops->subs->release(other, SS_HOLD(S("s"), stale), HOWDAH_INSTANCE_COORDINATED,
                                 &ss_error));
    assert_int_equal(ss_load(t, "s").row.token, token);
    assert_string_equal(ss_load(t, "s").owner, "second");
    assert_true(ss_load(t, "s").row.held);
    other->ops->close(other);
}

static void a_suspect_is_named_and_cleared(void **state)
{
    ss *t = *state;
    int64_t token;
    row r;

    ss_create(t, "s");
    token = ss_take(t->store, "s", "a");
    ok(t->subs->suspect(t->store, SS_HOLD(S("s"), token), 42, 3, &ss_error));
    r = ss_load(t, "s");
    assert_int_equal(r.row.suspect_sequence, 42);
    assert_int_equal(r.row.suspect_attempts, 3);
    ok(t->subs->suspect(t->store, SS_HOLD(S("s"), token), 0, 0, &ss_error));
    r = ss_load(t, "s");
    assert_int_equal(r.row.suspect_sequence, 0);
    assert_int_equal(r.row.suspect_attempts, 0);
}

static void a_status_is_set_by_an_operator_or_by_the_owner_and_is_news(void **state)
{
    ss *t = *state;
    hw_sub_news news;
    hw_checkpoint c;
    int64_t token;
    row r;

    ss_create(t, "s");
    token = ss_take(t->store, "s", "a");
    c = ss_at("s", token, 0);
    ok(t->subs->poll(t->store, &c, 1, 0, &news, &ss_error));
    assert_false(news.lost);
    assert_int_equal(news.status, HW_SUB_ACTIVE);
    assert_false(news.redrives);
    ok(t->subs->set_status(t->store, SS_HOLD(S("s"), 0), HW_SUB_PAUSED, S("lunch"), &ss_error));
    ok(t->subs->poll(t->store, &c, 1, 0, &news, &ss_error));
    assert_false(news.lost);
    assert_int_equal(news.status, HW_SUB_PAUSED);
    assert_string_equal(ss_load(t, "s").reason, "lunch");
    ok(t->subs->set_status(t->store, SS_HOLD(S("s"), token), HW_SUB_HALTED, S("poison"),
                           &ss_error));
    ok(t->subs->checkpoint(t->store, &c, 1, 0, &news, &ss_error));
    assert_int_equal(news.status, HW_SUB_HALTED);
    ok(t->subs->set_status(t->store, SS_HOLD(S("s"), 0), HW_SUB_ACTIVE, HW_STR_NULL, &ss_error));
    r = ss_load(t, "s");
    assert_int_equal(r.row.status, HW_SUB_ACTIVE);
    assert_string_equal(r.reason, "-");
    (void)ss_make_stale(t, "s");
    expect(
        t->subs->set_status(t->store, SS_HOLD(S("s"), token), HW_SUB_HALTED, S("late"), &ss_error),
        HOWDAH_LOST);
    assert_int_equal(ss_load(t, "s").row.status, HW_SUB_ACTIVE);
}

static void a_reset_moves_the_row_and_its_owner_has_lost_it(void **state)
{
    ss *t = *state;
    howdah_event *event = ss_append(t->store, "s", "a.b", NULL);
    hw_range outstanding[] = {{2, 3}};
    hw_sub_news news;
    hw_checkpoint c;
    int64_t token;
    row r;

    ss_create(t, "s");
    token = ss_take(t->store, "s", "a");
    c = ss_behind("s", token, event);
    c.high = 50;
    ok(t->subs->checkpoint(t->store, &c, 1, 0, &news, &ss_error));
    ok(t->subs->suspect(t->store, SS_HOLD(S("s"), token), 9, 1, &ss_error));
    ok(t->subs->reset(t->store, S("s"), 5, outstanding, 1, &ss_error));
    r = ss_load(t, "s");
    assert_true(r.row.token > token);
    assert_int_equal(r.row.high, 5);
    assert_string_equal(r.outstanding, "2-3");
    assert_int_equal(r.row.anchor.sequence, 0);
    ok(t->subs->poll(t->store, &c, 1, 0, &news, &ss_error));
    assert_true(news.lost);
    ok(t->subs->checkpoint(t->store, &c, 1, 0, &news, &ss_error));
    assert_true(news.lost);
    assert_int_equal(ss_load(t, "s").row.high, 5);
    /* The owner lets go of what it had, and starts anew. */
    ok(t->subs->release(t->store, SS_HOLD(S("s"), token), HOWDAH_INSTANCE_COORDINATED, &ss_error));
    assert_true(ss_take(t->store, "s", "a") > r.row.token);
    hw_event_free(event);
}

static void a_row_in_use_is_not_removed(void **state)
{
    ss *t = *state;
    hw_store *other = ss_open(t);
    int64_t token;
    row r = {.there = false};

    ss_create(t, "s");
    token = ss_take(t->store, "s", "a");
    expect(other->ops->subs->remove(other, S("s"), &ss_error), HOWDAH_CONFLICT);
    assert_int_equal(ss_load(t, "s").row.token, token);
    ok(t->subs->release(t->store, SS_HOLD(S("s"), token), HOWDAH_INSTANCE_COORDINATED, &ss_error));
    ok(other->ops->subs->remove(other, S("s"), &ss_error));
    expect(t->subs->load(t->store, S("s"), ss_keep_row, &r, &ss_error), HOWDAH_NOT_FOUND);
    other->ops->close(other);
}

/* An owner that slept through all of it must not fit the new row. */
static void a_row_that_is_made_again_does_not_repeat_its_tokens(void **state)
{
    ss *t = *state;
    hw_sub_news news;
    hw_checkpoint c;
    int64_t token;

    ss_create(t, "s");
    ss_create(t, "other");
    token = ss_take(t->store, "s", "a");
    ok(t->subs->release(t->store, SS_HOLD(S("s"), token), HOWDAH_INSTANCE_COORDINATED, &ss_error));
    ok(t->subs->remove(t->store, S("s"), &ss_error));
    c = ss_at("s", token, 100);
    ok(t->subs->checkpoint(t->store, &c, 1, 0, &news, &ss_error));
    assert_true(news.lost);
    ok(t->subs->remove(t->store, S("other"), &ss_error));
    ss_create(t, "s");
    assert_true(ss_take(t->store, "s", "b") > token);
    ok(t->subs->checkpoint(t->store, &c, 1, 0, &news, &ss_error));
    assert_true(news.lost);
    assert_int_equal(ss_load(t, "s").row.high, 0);
}

/* Names of 255 bytes, with what SQL and formats find special. */
static void any_name_goes_round(void **state)
{
    static const char *const names[] = {"it's", "a\"b", "%s%n", "über:ñ", "x y", "\\x41", "{a,b}"};
    ss *t = *state;
    char longest[256];

    (void)memset(longest, 'n', 255);
    longest[255] = '\0';
    ss_create(t, longest);
    assert_true(ss_take(t->store, longest, longest) > 0);
    assert_string_equal(ss_load(t, longest).owner, longest);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        hw_checkpoint c;
        hw_sub_news news;

        ss_create(t, names[i]);
        c = ss_at(names[i], ss_take(t->store, names[i], names[i]), 3);
        ok(t->subs->checkpoint(t->store, &c, 1, 0, &news, &ss_error));
        assert_false(news.lost);
        assert_int_equal(ss_load(t, names[i]).row.high, 3);
        assert_string_equal(ss_load(t, names[i]).owner, names[i]);
    }
}

ss_group ss_row_tests(void)
{
    static const struct CMUnitTest tests[] = {
        SS_TEST(a_subscription_is_created_once_and_again_changes_only_its_pattern),
        SS_TEST(a_row_that_is_not_there_is_not_found),
        SS_TEST(the_list_is_by_name_and_ends_when_the_callback_says_so),
        SS_TEST(the_token_grows_with_every_take_and_a_release_gives_the_row_free),
        SS_TEST(of_two_handles_the_second_is_told_to_wait),
        SS_TEST(an_owner_takes_its_own_row_again_with_a_new_token),
        SS_TEST(the_row_handed_to_take_is_the_old_one_with_the_new_token),
        SS_TEST(a_lease_that_runs_out_is_taken_over_with_a_higher_token),
        SS_TEST(a_lease_that_is_renewed_stays),
        SS_TEST(a_lease_that_ran_out_is_its_owners_until_somebody_takes_it),
        SS_TEST(a_release_with_a_stale_token_changes_nothing_and_is_no_error),
        SS_TEST(a_suspect_is_named_and_cleared),
        SS_TEST(a_status_is_set_by_an_operator_or_by_the_owner_and_is_news),
        SS_TEST(a_reset_moves_the_row_and_its_owner_has_lost_it),
        SS_TEST(a_row_in_use_is_not_removed),
        SS_TEST(a_row_that_is_made_again_does_not_repeat_its_tokens),
        SS_TEST(any_name_goes_round),
    };
    return SS_GROUP(tests);
}
