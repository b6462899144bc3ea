/* test_tx.c - a handler's effects and the checkpoint in one transaction. */
#include <libpq-fe.h>
#include <sqlite3.h>
#include <stdio.h>

#include "suite.h"

/* The table of a caller, beside the bus. */
static void make_table(const ss *t)
{
    ss_sql(t, "CREATE TABLE {effects} (sequence BIGINT NOT NULL PRIMARY KEY)");
}

static int64_t effects(const ss *t)
{
    return ss_sql_number(t, "SELECT count(*) FROM {effects}");
}

/* What a handler does with the transaction it is given. */
static void insert_effect(const ss *t, hw_store *worker, int64_t sequence)
{
    void *handle = worker->ops->subs->handle(worker);
    char sql[256];

    assert_non_null(handle);
    if (ss_is_pg()) {
        char *schema = PQescapeIdentifier(handle, t->schema, strlen(t->schema));
        PGresult *result;

        (void)snprintf(sql, sizeof sql, "INSERT INTO %s.effects VALUES (%lld)", schema,
                       (long long)sequence);
        result = PQexec(handle, sql);
        assert_int_equal(PQresultStatus(result), PGRES_COMMAND_OK);
        PQclear(result);
        PQfreemem(schema);
        return;
    }
    (void)snprintf(sql, sizeof sql, "INSERT INTO howdah_effects VALUES (%lld)",
                   (long long)sequence);
    assert_int_equal(sqlite3_exec(handle, sql, NULL, NULL, NULL), SQLITE_OK);
}

static void effect_and_checkpoint_are_committed_together(void **state)
{
    ss *t = *state;
    hw_store *worker = ss_open(t);
    int64_t token;
    row r;

    make_table(t);
    ss_create(t, "s");
    token = ss_take(t->store, "s", "a");
    for (int i = 0; i < 5; i++) {
        howdah_event *event = ss_append(t->store, "s", "a.b", NULL);
        hw_checkpoint c = ss_behind("s", token, event);

        ok(worker->ops->subs->begin(worker, HW_STR_NULL, &ss_error));
        insert_effect(t, worker, event->global_sequence);
        assert_int_equal(effects(t), i);
        assert_int_equal(ss_load(t, "s").row.high, i);
        ok(worker->ops->subs->commit(worker, &c, &ss_error));
        assert_int_equal(effects(t), i + 1);
        r = ss_load(t, "s");
        assert_int_equal(r.row.high, event->global_sequence);
        assert_memory_equal(r.row.anchor.id.b, event->id.b, sizeof event->id.b);
        hw_event_free(event);
    }
    worker->ops->close(worker);
}

static void a_rollback_leaves_neither(void **state)
{
    ss *t = *state;
    howdah_event *event = ss_append(t->store, "s", "a.b", NULL);
    hw_store *worker = ss_open(t);
    hw_checkpoint c;

    make_table(t);
    ss_create(t, "s");
    c = ss_behind("s", ss_take(t->store, "s", "a"), event);
    ok(worker->ops->subs->begin(worker, HW_STR_NULL, &ss_error));
    insert_effect(t, worker, 1);
    worker->ops->subs->rollback(worker);
    assert_int_equal(effects(t), 0);
    assert_int_equal(ss_load(t, "s").row.high, 0);
    /* The handle is as good as new. */
    ok(worker->ops->subs->begin(worker, HW_STR_NULL, &ss_error));
    insert_effect(t, worker, 2);
    ok(worker->ops->subs->commit(worker, &c, &ss_error));
    assert_int_equal(effects(t), 1);
    worker->ops->subs->rollback(worker);
    worker->ops->close(worker);
    hw_event_free(event);
}

static void a_stale_owners_effect_is_rolled_back(void **state)
{
    ss *t = *state;
    howdah_event *event = ss_append(t->store, "s", "a.b", NULL);
    hw_store *worker = ss_open(t);
    hw_checkpoint c;

    make_table(t);
    ss_create(t, "s");
    c = ss_behind("s", ss_take(t->store, "s", "a"), event);
    (void)ss_make_stale(t, "s");
    ok(worker->ops->subs->begin(worker, HW_STR_NULL, &ss_error));
    insert_effect(t, worker, 1);
    expect(worker->ops->subs->commit(worker, &c, &ss_error), HOWDAH_LOST);
    assert_int_equal(effects(t), 0);
    assert_int_equal(ss_load(t, "s").row.high, 0);
    worker->ops->close(worker);
    hw_event_free(event);
}

/* Closing in the middle is what a process that dies does. */
static void a_handle_that_is_closed_leaves_nothing(void **state)
{
    ss *t = *state;
    hw_store *worker = ss_open(t);

    make_table(t);
    ok(worker->ops->subs->begin(worker, HW_STR_NULL, &ss_error));
    insert_effect(t, worker, 1);
    worker->ops->close(worker);
    assert_int_equal(effects(t), 0);
}

static void a_handler_that_ends_the_transaction_itself_is_found_out(void **state)
{
    ss *t = *state;
    howdah_event *event = ss_append(t->store, "s", "a.b", NULL);
    hw_store *worker = ss_open(t);
    hw_checkpoint c;
    void *handle;

    make_table(t);
    ss_create(t, "s");
    c = ss_behind("s", ss_take(t->store, "s", "a"), event);
    ok(worker->ops->subs->begin(worker, HW_STR_NULL, &ss_error));
    insert_effect(t, worker, 1);
    handle = worker->ops->subs->handle(worker);
    if (ss_is_pg())
        PQclear(PQexec(handle, "ROLLBACK"));
    else
        assert_int_equal(sqlite3_exec(handle, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    assert_true(worker->ops->subs->commit(worker, &c, &ss_error) < 0);
    assert_int_equal(ss_load(t, "s").row.high, 0);
    ok(worker->ops->subs->begin(worker, HW_STR_NULL, &ss_error));
    ok(worker->ops->subs->commit(worker, &c, &ss_error));
    assert_int_equal(ss_load(t, "s").row.high, 1);
    worker->ops->close(worker);
    hw_event_free(event);
}

ss_group ss_tx_tests(void)
{
    static const struct CMUnitTest tests[] = {
        SS_TEST(effect_and_checkpoint_are_committed_together),
        SS_TEST(a_rollback_leaves_neither),
        SS_TEST(a_stale_owners_effect_is_rolled_back),
        SS_TEST(a_handle_that_is_closed_leaves_nothing),
        SS_TEST(a_handler_that_ends_the_transaction_itself_is_found_out),
    };
    return SS_GROUP(tests);
}
