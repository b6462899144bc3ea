/*
 * test_pg_floors.c - where claims start: never behind a job that may still turn up, and not so far
 * before it that an old transaction slows them down.
 */
#include <howdah/howdah_queue.h>
#include <stdio.h>
#include <time.h>

#include "test_pg_help.h"

#define BATCH 10

static void pause_ms(int ms)
{
    (void)nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000L}, NULL);
}

static void push(const pgt *t, int n)
{
    pgt_run(t, t->admin,
            "SELECT count(*) FROM {push_batch}('q', array_fill('\"plain\"'::json, ARRAY[%d]))", n);
}

/* Claims n at most and completes them; the data of the first, or "". */
static const char *take(const pgt *t, int64_t n)
{
    static char first[64];
    howdah_jobs *jobs = NULL;
    size_t len = 0;

    pgt_ok(howdah_queue_claim(t->bus, "q", n, NULL, &jobs, &pgt_error));
    first[0] = '\0';
    for (size_t i = 0; i < howdah_jobs_count(jobs); i++) {
        const howdah_job *job = howdah_jobs_at(jobs, i);

        if (i == 0)
            (void)snprintf(first, sizeof first, "%s", (const char *)howdah_job_data(job, &len));
        pgt_ok(howdah_job_complete(t->bus, howdah_job_id(job), howdah_job_token(job), NULL,
                                   &pgt_error));
    }
    howdah_jobs_free(jobs);
    return first;
}

/* Long enough for floors to rise as far as they may. */
static void take_for_a_while(const pgt *t)
{
    for (int i = 0; i < 10; i++) {
        assert_string_equal(take(t, BATCH), "\"plain\"");
        pause_ms(20);
    }
}

static void a_job_of_a_transaction_that_commits_late_is_next(void **state)
{
    const pgt *t = *state;
    PGconn *late = pgt_session(t->url);

    push(t, 1);
    pgt_run(t, late, "BEGIN; SELECT {push}('q', '\"late\"')");
    push(t, 20 * BATCH);
    take_for_a_while(t);
    pgt_run(t, late, "COMMIT");
    assert_string_equal(take(t, 1), "\"late\"");
    assert_string_equal(take(t, 1), "\"plain\"");
    PQfinish(late);
}

static void a_prepared_transaction_counts_as_an_open_one(void **state)
{
    const pgt *t = *state;
    PGconn *late = pgt_session(t->url);

    if (pgt_number(t, t->admin, "SELECT current_setting('max_prepared_transactions')::int") == 0)
        fail_msg("the server must allow prepared transactions");
    push(t, 1);
    pgt_run(t, late, "BEGIN; SELECT {push}('q', '\"late\"'); PREPARE TRANSACTION 'floors'");
    PQfinish(late);
    push(t, 20 * BATCH);
    take_for_a_while(t);
    pgt_run(t, t->admin, "COMMIT PREPARED 'floors'");
    assert_string_equal(take(t, 1), "\"late\"");
}

static void an_old_transaction_counts_once_it_has_pushed(void **state)
{
    const pgt *t = *state;
    PGconn *old = pgt_session(t->url);
    int64_t its = pgt_number(t, old, "BEGIN; SELECT pg_current_xact_id()::text::bigint");

    push(t, 1);
    assert_true(pgt_number(t, t->admin, "SELECT {push_horizon}()") > its);
    pgt_run(t, old, "SELECT {push}('q', '\"late\"')");
    assert_int_equal(pgt_number(t, t->admin, "SELECT {push_horizon}()"), its);
    pgt_run(t, old, "ROLLBACK");
    assert_true(pgt_number(t, t->admin, "SELECT {push_horizon}()") > its);
    PQfinish(old);
}

static void what_an_old_transaction_pushes_at_last_is_found_in_its_turn(void **state)
{
    const pgt *t = *state;
    PGconn *old = pgt_session(t->url);

    pgt_run(t, old, "BEGIN; SELECT pg_current_xact_id()");
    push(t, 20 * BATCH);
    take_for_a_while(t);
    pgt_run(t, old, "SELECT {push}('q', '\"late\"'); COMMIT");
    for (int i = 0; i < 10; i++)
        assert_string_equal(take(t, BATCH), "\"plain\"");
    assert_string_equal(take(t, 1), "\"late\"");
    PQfinish(old);
}

/* Entries of the index that scans have met so far. */
static int64_t entries_met(const pgt *t)
{
    pause_ms(1200); /* sessions tell about once a second */
    pgt_run(t, t->admin, "SELECT pg_stat_clear_snapshot()");
    return pgt_number(t, t->admin,
                      "SELECT idx_tup_read FROM pg_stat_all_indexes"
                      " WHERE indexrelid = '{jobs_claim_idx}'::regclass");
}

static void an_old_transaction_that_writes_elsewhere_does_not_slow_claims_down(void **state)
{
    const pgt *t = *state;
    PGconn *old = pgt_session(t->url);
    int64_t met;

    pgt_run(t, old, "BEGIN; SELECT pg_current_xact_id()");
    push(t, 3000);
    (void)take(t, 1);
    met = entries_met(t);
    for (int i = 0; i < 280; i++) {
        assert_string_equal(take(t, BATCH), "\"plain\"");
        if (i % 20 == 0)
            pause_ms(60);
    }
    (void)take(t, 1);
    met = entries_met(t) - met;
    /* From the first job on each time, it would be 400,000. */
    assert_in_range(met, 2800, 80000);
    pgt_run(t, old, "ROLLBACK");
    PQfinish(old);
}

static const struct CMUnitTest tests[] = {
    PGT_TEST(a_job_of_a_transaction_that_commits_late_is_next),
    PGT_TEST(a_prepared_transaction_counts_as_an_open_one),
    PGT_TEST(an_old_transaction_counts_once_it_has_pushed),
    PGT_TEST(what_an_old_transaction_pushes_at_last_is_found_in_its_turn),
    PGT_TEST(an_old_transaction_that_writes_elsewhere_does_not_slow_claims_down),
};

PGT_MAIN("floors", tests)
