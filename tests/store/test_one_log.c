/*
 * test_one_log.c - a place is stored only in the log that it was learnt from, and only when the
 * event that it stands on is there (store/subscriptions.h, I7).
 */
#include "suite.h"

#define ELSEWHERE S("another log")

typedef struct scene {
    howdah_event *event;
    hw_checkpoint place; /* behind the event */
    int64_t dead_letter; /* of the event, asked for again */
    int64_t high;        /* stored */
} scene;

/* A subscription that is behind its first event, which is a dead letter; a second one follows. */
static scene set_scene(const ss *t)
{
    howdah_event *first = ss_append(t->store, "s", "a.b", NULL);
    scene s = {.event = ss_append(t->store, "s", "a.b", NULL), .high = first->global_sequence};
    hw_checkpoint c;

    ss_create(t, "s");
    c = ss_behind("s", ss_take(t->store, "s", "a"), first);
    ok(t->subs->dead_letter(t->store, &c, first, S("e"), 3, &s.dead_letter, &ss_error));
    ok(t->subs->dead_letters_set_state(t->store, &s.dead_letter, 1, HW_STR_NULL,
                                       HW_DEAD_LETTER_REDRIVE, HW_STR_NULL, NULL, &ss_error));
    s.place = ss_behind("s", c.token, s.event);
    hw_event_free(first);
    return s;
}

static void expect_untouched(const ss *t, const scene *s)
{
    row r = ss_load(t, "s");

    assert_int_equal(r.row.high, s->high);
    assert_int_equal(r.row.anchor.sequence, s->high);
    assert_int_equal(r.row.suspect_sequence, 0);
    assert_int_equal(r.row.status, HW_SUB_ACTIVE);
    assert_string_equal(r.owner, "a");
    assert_int_equal(ss_sql_number(t, "SELECT count(*) FROM {dead_letters}"), 1);
    assert_int_equal(ss_sql_number(t, "SELECT count(*) FROM {dead_letters}"
                                      " WHERE state = 'redrive' AND retry_count = 3"),
                     1);
    assert_int_equal(ss_sql_number(t, "SELECT count(*) FROM {skips}"), 0);
    assert_int_equal(ss_sql_number(t, "SELECT count(*) FROM {jobs}"), 0);
}

/* Each operation that stores a place. */
static void expect_no_move(const ss *t, const scene *s, const hw_checkpoint *c)
{
    hw_store *worker = ss_open(t);
    int64_t sequence = s->event->global_sequence;
    hw_sub_news news = {.lost = false};
    int64_t id = -1;

    ok(t->subs->checkpoint(t->store, c, 1, 0, &news, &ss_error));
    assert_true(news.lost);
    expect_untouched(t, s);
    expect(t->subs->dead_letter(t->store, c, s->event, S("e"), 3, &id, &ss_error), HOWDAH_LOST);
    expect_untouched(t, s);
    expect(t->subs->skip(t->store, c, (hw_range){1, 1}, 5000, S("late"), &ss_error), HOWDAH_LOST);
    expect_untouched(t, s);
    expect(
        t->store->ops->queue->route(t->store, c, S("q"), HOWDAH_KEY_NONE, &sequence, 1, &ss_error),
        HOWDAH_LOST);
    expect_untouched(t, s);
    ok(worker->ops->subs->begin(worker, HW_STR_NULL, &ss_error));
    expect(worker->ops->subs->commit(worker, c, &ss_error), HOWDAH_LOST);
    expect_untouched(t, s);
    worker->ops->close(worker);
}

static void a_place_of_another_log_is_stored_by_no_move(void **state)
{
    ss *t = *state;
    scene s = set_scene(t);
    hw_checkpoint c = s.place;

    c.log = ELSEWHERE;
    expect_no_move(t, &s, &c);
    hw_event_free(s.event);
}

static void a_place_whose_event_is_another_one_is_stored_by_no_move(void **state)
{
    ss *t = *state;
    scene s = set_scene(t);
    hw_checkpoint c = s.place;

    c.anchor.id.b[3] ^= 1;
    expect_no_move(t, &s, &c);
    hw_event_free(s.event);
}

static void a_place_whose_event_is_not_there_is_stored_by_no_move(void **state)
{
    ss *t = *state;
    scene s = set_scene(t);
    hw_checkpoint c = s.place;

    c.high = c.anchor.sequence = s.event->global_sequence + 1;
    expect_no_move(t, &s, &c);
    hw_event_free(s.event);
}

/* A restored copy has the event, but an older row: what lies between was done in another life. */
static void a_place_that_follows_another_than_the_stored_one_is_stored_by_no_move(void **state)
{
    ss *t = *state;
    scene s = set_scene(t);
    int64_t moves = ss_load(t, "s").row.moves;
    hw_checkpoint c = s.place;

    assert_int_equal(moves, 1);
    c.follows = moves + 2;
    expect_no_move(t, &s, &c);
    c.follows = moves;
    expect_no_move(t, &s, &c);
    c.follows = moves + 1;
    ok(t->subs->checkpoint(t->store, &c, 1, 0, &(hw_sub_news){0}, &ss_error));
    assert_int_equal(ss_load(t, "s").row.high, s.place.high);
    assert_int_equal(ss_load(t, "s").row.moves, moves + 1);
    hw_event_free(s.event);
}

static void the_same_place_of_this_log_is_stored(void **state)
{
    ss *t = *state;
    char log[HW_TIMELINE_SIZE];
    scene s = set_scene(t);
    hw_sub_news news = {.lost = true};
    hw_checkpoint c = s.place;

    ok(t->subs->timeline(t->store, log, &ss_error));
    c.log = S(log);
    ok(t->subs->checkpoint(t->store, &c, 1, 0, &news, &ss_error));
    assert_false(news.lost);
    assert_int_equal(ss_load(t, "s").row.high, s.event->global_sequence);
    assert_string_equal(ss_load(t, "s").timeline, log);
    hw_event_free(s.event);
}

static void whatever_an_owner_says_of_another_log_changes_nothing(void **state)
{
    ss *t = *state;
    scene s = set_scene(t);
    hw_hold hold = {S("s"), s.place.token, ELSEWHERE};
    hw_checkpoint c = s.place;
    hw_sub_news news = {.lost = false};

    c.log = ELSEWHERE;
    ok(t->subs->poll(t->store, &c, 1, 60000, &news, &ss_error));
    assert_true(news.lost);
    expect(t->subs->suspect(t->store, &hold, 1, 1, &ss_error), HOWDAH_LOST);
    expect(t->subs->set_status(t->store, &hold, HW_SUB_HALTED, S("x"), &ss_error), HOWDAH_LOST);
    expect(t->subs->redrive_end(t->store, &hold, s.dead_letter, HW_DEAD_LETTER_REDRIVEN,
                                HW_STR_NULL, &ss_error),
           HOWDAH_LOST);
    ok(t->subs->release(t->store, &hold, HOWDAH_INSTANCE_SINGLE, &ss_error));
    expect_untouched(t, &s);
    hw_event_free(s.event);
}

static void a_handlers_transaction_is_not_begun_in_another_log(void **state)
{
    ss *t = *state;
    hw_store *worker = ss_open(t);
    char log[HW_TIMELINE_SIZE];

    expect(worker->ops->subs->begin(worker, ELSEWHERE, &ss_error), HOWDAH_LOST);
    ok(t->subs->timeline(t->store, log, &ss_error));
    ok(worker->ops->subs->begin(worker, S(log), &ss_error));
    worker->ops->subs->rollback(worker);
    worker->ops->close(worker);
}

static void whoever_takes_a_subscription_hears_which_log_it_is(void **state)
{
    ss *t = *state;
    char log[HW_TIMELINE_SIZE];
    row r;

    ss_create(t, "s");
    ok(t->subs->timeline(t->store, log, &ss_error));
    expect(ss_try_take(t->store, "s", "a", &r), HOWDAH_OK);
    assert_string_equal(r.log, log);
    assert_string_equal(r.timeline, "");
}

static void a_place_goes_back_only_when_the_one_before_is_of_another_log(void **state)
{
    ss *t = *state;
    scene s = set_scene(t);
    hw_sub_news news = {.lost = true};
    hw_checkpoint c = s.place;

    ok(t->subs->checkpoint(t->store, &c, 1, 0, &news, &ss_error));
    c.high = 0;
    c.anchor = (hw_anchor){.sequence = 0};
    ok(t->subs->checkpoint(t->store, &c, 1, 0, &news, &ss_error));
    assert_false(news.lost);
    assert_int_equal(ss_load(t, "s").row.high, s.place.high);
    ss_sql(t, "UPDATE {subscriptions} SET timeline = 'another log'");
    ok(t->subs->checkpoint(t->store, &c, 1, 0, &news, &ss_error));
    assert_false(news.lost);
    assert_int_equal(ss_load(t, "s").row.high, 0);
    hw_event_free(s.event);
}

ss_group ss_one_log_tests(void)
{
    static const struct CMUnitTest tests[] = {
        SS_TEST(a_place_of_another_log_is_stored_by_no_move),
        SS_TEST(a_place_whose_event_is_another_one_is_stored_by_no_move),
        SS_TEST(a_place_whose_event_is_not_there_is_stored_by_no_move),
        SS_TEST(a_place_that_follows_another_than_the_stored_one_is_stored_by_no_move),
        SS_TEST(the_same_place_of_this_log_is_stored),
        SS_TEST(whatever_an_owner_says_of_another_log_changes_nothing),
        SS_TEST(a_handlers_transaction_is_not_begun_in_another_log),
        SS_TEST(whoever_takes_a_subscription_hears_which_log_it_is),
        SS_TEST(a_place_goes_back_only_when_the_one_before_is_of_another_log),
    };
    return SS_GROUP(tests);
}
