/* test_times_knowledge.c - what an answer is worth: whether what was known can still grow. */
#include "store/sqlite/sqlite.h"
#include "times.h"

#define DAY INT64_C(86400000000)

static void what_was_known_before_the_last_event_is_final(void **state)
{
    ss *t = *state;
    howdah_event first = a_fact("s", "t");
    howdah_event second = a_fact("s", "t");
    howdah_knowledge k;

    times_put(t, &first);
    times_put(t, &second);
    k = times_knowledge(t, second.recorded_at_us - 1);
    assert_true(k.final);
    assert_string_equal(k.waits_for, "");
    assert_true(k.asked_at_us >= second.recorded_at_us);
    assert_true(llabs(k.asked_at_us - hw_clock_wall_us()) < 60000000);
}

static void what_was_known_a_moment_ago_is_final_when_nobody_writes(void **state)
{
    ss *t = *state;
    howdah_event event = a_fact("s", "t");
    howdah_knowledge k;

    assert_true(times_knowledge(t, hw_clock_wall_us() - 1000000).final);
    times_put(t, &event);
    do
        k = times_knowledge(t, event.recorded_at_us);
    while (k.asked_at_us <= event.recorded_at_us);
    assert_true(k.final);
}

static void the_future_is_not_final(void **state)
{
    ss *t = *state;
    howdah_event event = a_fact("s", "t");

    times_put(t, &event);
    assert_false(times_knowledge(t, event.recorded_at_us + DAY).final);
}

static void while_somebody_writes_the_present_is_not_final(void **state)
{
    ss *t = *state;
    hw_store *other = ss_open(t);
    howdah_event first = a_fact("s", "t");
    howdah_event second = a_fact("s", "t");
    howdah_knowledge k;
    int64_t began;

    (void)times_ops(t);
    times_put(t, &first);
    times_put(t, &second);
    ok(other->ops->subs->begin(other, HW_STR_NULL, &ss_error));
    assert_true(times_knowledge(t, first.recorded_at_us).final);
    began = hw_clock_mono_ms();
    k = times_knowledge(t, second.recorded_at_us);
    assert_false(k.final);
    assert_true(strlen(k.waits_for) > 0);
    assert_true(hw_clock_mono_ms() - began < 5000); /* it did not wait for the writer */
    other->ops->subs->rollback(other);
    assert_true(times_knowledge(t, second.recorded_at_us).final);
    other->ops->close(other);
}

static void a_reader_that_cannot_see_writers_says_so(void **state)
{
    ss *t = *state;
    hw_config config = t->config;
    hw_store *reader = NULL;
    howdah_event first = a_fact("s", "t");
    howdah_event second = a_fact("s", "t");
    howdah_knowledge k = HOWDAH_KNOWLEDGE_INIT;

    (void)times_ops(t);
    times_put(t, &first);
    times_put(t, &second);
    config.read_only = true;
    config.interrupt = NULL;
    ok(hw_store_open(&config, &reader, &ss_error));
    ok(reader->ops->times->knowledge(reader, first.recorded_at_us, &k, &ss_error));
    assert_true(k.final);
    ok(reader->ops->times->knowledge(reader, second.recorded_at_us, &k, &ss_error));
    assert_false(k.final);
    assert_non_null(strstr(k.waits_for, "read-only"));
    reader->ops->close(reader);
}

/* In the caller's own transaction, which may see an old picture, or be rolled back. */
static void inside_a_transaction_of_the_caller_nothing_is_final(void **state)
{
    ss *t = *state;
    hw_store *mine = NULL;
    sqlite3 *db = NULL;
    howdah_event first = a_fact("s", "t");
    howdah_event second = a_fact("s", "t");
    howdah_knowledge k = HOWDAH_KNOWLEDGE_INIT;
    hw_purge purge = {.stream = S("s"), .reason = S("r"), .actor = S("a")};
    howdah_purge_record record = HOWDAH_PURGE_RECORD_INIT;
    hw_times_query q = as_of(NOT, NOT);
    int64_t n = 0;

    (void)times_ops(t);
    times_put(t, &first);
    times_put(t, &second);
    assert_int_equal(sqlite3_open(t->url + strlen("sqlite:"), &db), SQLITE_OK);
    ok(hw_sqlite_wrap(db, &mine, &ss_error));
    ok(mine->ops->times->knowledge(mine, first.recorded_at_us, &k, &ss_error));
    assert_true(k.final);
    assert_int_equal(sqlite3_exec(db, "BEGIN", NULL, NULL, NULL), SQLITE_OK);
    ok(mine->ops->times->knowledge(mine, first.recorded_at_us, &k, &ss_error));
    assert_false(k.final);
    assert_non_null(strstr(k.waits_for, "transaction"));
    first = a_fact("s", "t");
    assert_int_equal(times_try(mine, &first), HW_APPEND_STORED);
    q.order = HOWDAH_ORDER_VALID;
    ok(mine->ops->times->count(mine, &q, &n, &ss_error));
    assert_int_equal(n, 3);
    ok(mine->ops->times->purge(mine, &purge, &record, &ss_error));
    assert_int_equal(record.events, 3);
    assert_false(sqlite3_get_autocommit(db)); /* it is still the caller's */
    assert_int_equal(sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    mine->ops->close(mine);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_int_equal(times_count(t, &q), 2);
    assert_int_equal(ss_sql_number(t, "SELECT count(*) FROM {purges}"), 0);
    assert_int_equal(ss_sql_number(t, "SELECT count(*) FROM {events} WHERE purge IS NOT NULL"), 0);
}

ss_group ss_times_knowledge_tests(void)
{
    static const struct CMUnitTest tests[] = {
        SS_TEST(what_was_known_before_the_last_event_is_final),
        SS_TEST(what_was_known_a_moment_ago_is_final_when_nobody_writes),
        SS_TEST(the_future_is_not_final),
        SS_TEST(while_somebody_writes_the_present_is_not_final),
        SS_TEST(a_reader_that_cannot_see_writers_says_so),
        SS_TEST(inside_a_transaction_of_the_caller_nothing_is_final),
    };
    ss_group group = SS_GROUP(tests);

    if (ss_is_pg()) /* the last are about a file */
        group.n -= 3;
    return group;
}
