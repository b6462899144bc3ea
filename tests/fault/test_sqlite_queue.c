/*
 * test_sqlite_queue.c - what moves a job, on a file system that fails its nth operation.
 *
 * For every operation and every n, until it gets through untouched:
 *
 *   - success means that it is stored, a failure without OUTCOME_UNKNOWN that it is not, all of it;
 *   - after that, on a healthy file system, the same operation succeeds;
 *   - every job is in one place, and integrity_check is ok.
 *
 * And who waits for the disk, and who need not; and processes that are killed.
 */
#include <signal.h>

#include "base/clock.h"
#include "base/random.h"
#include "sqlite_help.h"
#include "sqlite_vfs.h"
#include "store/sqlite/sqlite.h"
#undef skip /* of cmocka: it is a member of hw_sub_ops */

static howdah_error error = HOWDAH_ERROR_INIT;

#define QUEUE hw_str_of("q")

typedef struct scene {
    const place *p;
    hw_store *store;
    int64_t id;
    int64_t token;
} scene;

static hw_store *open_store(const place *p)
{
    hw_config config = {.url = p->url, .statement_timeout_ms = 10000, .busy_timeout_ms = 1000};
    hw_store *store = NULL;

    must(hw_store_open(&config, &store, &error), &error);
    return store;
}

/* ---------------------------------------------------------- the operations */

static int do_push(scene *s, hw_store *store)
{
    hw_push job = {.data = hw_str_of("1"),
                   .run_at_us = HW_TIME_ABSENT,
                   .max_attempts = 1,
                   .key = hw_str_of("k"),
                   .dedup = hw_str_of("d")};
    howdah_pushed pushed = {.id = 0};
    int status = store->ops->queue->push(store, QUEUE, &job, 1, &pushed, &error);

    if (status >= 0)
        s->id = pushed.id;
    return status;
}

static int keep_token(void *ctx, const howdah_job *job)
{
    *(int64_t *)ctx = job->token;
    return 0;
}

static int claim_for(scene *s, hw_store *store, int64_t lease_ms)
{
    hw_claim claim = {QUEUE, hw_str_of("w"), 10, lease_ms};
    hw_claim_report report;

    return store->ops->queue->exchange(store, NULL, 0, NULL, &claim, keep_token, &s->token, &report,
                                       &error);
}

static int do_claim(scene *s, hw_store *store)
{
    return claim_for(s, store, 60000);
}

static int ack(scene *s, hw_store *store, howdah_verdict verdict)
{
    hw_ack one = {s->id, s->token, verdict, hw_str_of("text"), 0};
    howdah_ack_outcome acked;

    return store->ops->queue->exchange(store, &one, 1, &acked, NULL, NULL, NULL, NULL, &error);
}

static int do_complete(scene *s, hw_store *store)
{
    return ack(s, store, HOWDAH_VERDICT_COMPLETE);
}

static int do_fail(scene *s, hw_store *store)
{
    return ack(s, store, HOWDAH_VERDICT_FAIL);
}

/* Its one attempt is used up: it fails, which is found out on the way. */
static int do_retry(scene *s, hw_store *store)
{
    return ack(s, store, HOWDAH_VERDICT_RETRY);
}

static int do_extend(scene *s, hw_store *store)
{
    return ack(s, store, HOWDAH_VERDICT_EXTEND);
}

static int do_cancel(scene *s, hw_store *store)
{
    int status = store->ops->queue->job_cancel(store, s->id, HW_STR_NULL, &error);

    return status == HOWDAH_CONFLICT ? HOWDAH_OK : status; /* it was done before */
}

static int do_revive(scene *s, hw_store *store)
{
    return store->ops->queue->job_rerun(store, s->id, &error);
}

static int do_purge(scene *s, hw_store *store)
{
    int64_t n;

    (void)s;
    return store->ops->queue->queue_purge(store, QUEUE, &n, &error);
}

/* What comes before it, and what tells whether it is stored: 1 or 0; else it is half of it. */
typedef struct operation {
    const char *name;
    int (*before[3])(scene *s, hw_store *store);
    int (*act)(scene *s, hw_store *store);
    const char *stored_sql;
} operation;

#define ROWS(table) "(SELECT count(*) FROM howdah_" table ")"
#define FAILED                                                                                     \
    "SELECT ((SELECT count(*) FROM howdah_event_log WHERE failed) + " ROWS(                        \
        "job_dead_letters") " + " ROWS("key_holds") " + (SELECT count(*) = 0 FROM howdah_jobs)) "  \
                                                    "/ 4.0"

static const operation operations[] = {
    {"push", {NULL}, do_push, "SELECT (" ROWS("jobs") " + " ROWS("job_data") ") / 2.0"},
    {"claim",
     {do_push},
     do_claim,
     "SELECT ((SELECT value FROM howdah_counters WHERE name = 'token')"
     " + (SELECT attempts FROM howdah_jobs)) / 2.0"},
    {"complete",
     {do_push, do_claim},
     do_complete,
     "SELECT (" ROWS("event_log") " + 1 - " ROWS("jobs") ") / 2.0"},
    {"fail", {do_push, do_claim}, do_fail, FAILED},
    {"retry", {do_push, do_claim}, do_retry, FAILED},
    {"cancel", {do_push}, do_cancel, "SELECT (" ROWS("event_log") " + 1 - " ROWS("jobs") ") / 2.0"},
    {"revive",
     {do_push, do_claim, do_fail},
     do_revive,
     "SELECT (" ROWS("jobs") " + 1 - " ROWS("event_log") " + 1 - " ROWS(
         "key_holds") " + (SELECT state = 'redrive' FROM howdah_job_dead_letters)) / 4.0"},
    {"purge",
     {do_push},
     do_purge,
     "SELECT (1 - " ROWS("jobs") " + 1 - " ROWS("job_data") " + purged) / 3.0 FROM howdah_queues"},
};
enum { OPERATIONS = sizeof operations / sizeof operations[0] };

static scene begin(const place *p)
{
    howdah_queue_options settings = HOWDAH_QUEUE_OPTIONS_INIT;
    scene s = {.p = p};

    settings.hold_key = 1;
    empty_directory(p->dir);
    s.store = open_store(p);
    must(s.store->ops->migrate(s.store, NULL, NULL, &error), &error);
    must(s.store->ops->queue->queue_put(s.store, QUEUE, &settings, &error), &error);
    return s;
}

/* --------------------------------------------------------------- the sweep */

static bool is_stored(const place *p, const operation *o)
{
    char text[64];

    raw_text(p->file, o->stored_sql, text, sizeof text);
    if (strcmp(text, "0.0") != 0 && strcmp(text, "1.0") != 0)
        fail_msg("%s: half of it is stored: %s", o->name, text);
    return text[0] == '1';
}

static void expect_sound(const place *p)
{
    char verdict[64];

    raw_text(p->file, "PRAGMA integrity_check", verdict, sizeof verdict);
    assert_string_equal(verdict, "ok");
    raw_text(p->file,
             "SELECT count(*) FROM howdah_job_data d"
             " WHERE (SELECT count(*) FROM howdah_jobs j WHERE j.id = d.id)"
             " + (SELECT count(*) FROM howdah_event_log l WHERE l.job_id = d.id) <> 1",
             verdict, sizeof verdict);
    assert_string_equal(verdict, "0");
}

/* One run; false when there was nothing left to fail. */
static bool run(const place *p, const operation *o, fault_plan plan)
{
    scene s = begin(p);
    bool unknown;
    bool stored;
    unsigned failed;
    int status;

    for (int i = 0; i < 3 && o->before[i]; i++)
        must(o->before[i](&s, s.store), &error);
    fault_vfs_arm(plan);
    status = o->act(&s, s.store);
    failed = fault_vfs_failed();
    fault_vfs_disarm();
    unknown = status < 0 && (error.flags & HOWDAH_OUTCOME_UNKNOWN);
    stored = is_stored(p, o);
    if (!unknown && stored != (status >= 0))
        fail_msg("%s: kinds %u, nth %u: said %s (%s), stored %d", o->name, plan.kinds, plan.nth,
                 howdah_status_name(status), status < 0 ? error.message : "", stored);
    must(o->act(&s, s.store), &error);
    assert_true(is_stored(p, o));
    s.store->ops->close(s.store);
    expect_sound(p);
    return failed > 0;
}

static void sweep(const place *p, unsigned kinds, fault_error how)
{
    for (size_t i = 0; i < OPERATIONS; i++)
        for (int forever = 0; forever < 2; forever++) {
            fault_plan plan = {kinds, 1, forever != 0, how};

            while (run(p, &operations[i], plan))
                plan.nth++;
        }
}

static void a_failing_write_stores_all_or_nothing_and_says_which(void **state)
{
    sweep(*state, FAULT_WRITE, FAULT_IOERR);
    sweep(*state, FAULT_WRITE, FAULT_FULL);
    sweep(*state, FAULT_WRITE, FAULT_TORN);
}

static void a_failing_sync_stores_all_or_nothing_and_says_which(void **state)
{
    sweep(*state, FAULT_SYNC, FAULT_IOERR);
}

static void a_failing_shared_index_stores_all_or_nothing_and_says_which(void **state)
{
    sweep(*state, FAULT_SHM, FAULT_IOERR);
}

/* ---------------------------------------------------------------- the disk */

/* How often an operation waits for the disk. */
static unsigned syncs_of(scene *s, int (*act)(scene *s, hw_store *store))
{
    unsigned n;

    fault_vfs_arm((fault_plan){FAULT_SYNC, 0, false, FAULT_IOERR});
    must(act(s, s->store), &error);
    n = fault_vfs_count();
    fault_vfs_disarm();
    return n;
}

static void claims_and_completions_do_not_wait_for_the_disk(void **state)
{
    scene s = begin(*state);

    for (int i = 0; i < 3; i++) {
        assert_true(syncs_of(&s, do_push) > 0);
        assert_int_equal(syncs_of(&s, do_claim), 0);
        assert_int_equal(syncs_of(&s, do_extend), 0);
        assert_int_equal(syncs_of(&s, do_complete), 0);
    }
    s.store->ops->close(s.store);
}

static void what_fails_waits_for_the_disk_however_it_is_found_out(void **state)
{
    scene s = begin(*state);

    must(do_push(&s, s.store), &error);
    must(do_claim(&s, s.store), &error);
    assert_true(syncs_of(&s, do_fail) > 0);
    assert_true(syncs_of(&s, do_revive) > 0);
    must(do_claim(&s, s.store), &error);
    assert_true(syncs_of(&s, do_retry) > 0);
    assert_true(syncs_of(&s, do_revive) > 0);
    must(claim_for(&s, s.store, 1), &error);
    hw_clock_sleep_ms(5);
    assert_true(syncs_of(&s, do_claim) > 0);
    assert_int_equal(raw_number(s.p->file, "SELECT count(*) FROM howdah_event_log WHERE failed"),
                     1);
    assert_int_equal(raw_number(s.p->file, "SELECT redrives FROM howdah_job_dead_letters"), 2);
    assert_int_equal(syncs_of(&s, do_claim), 0);
    s.store->ops->close(s.store);
}

/* --------------------------------------------------- the caller's transaction */

static void raw(sqlite3 *db, const char *sql)
{
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
}

/* Acts on the caller's handle, inside the caller's transaction, which ends in this way. */
static void act_within(scene *s, sqlite3 *db, int (*act)(scene *s, hw_store *store),
                       const char *end)
{
    hw_store *wrapped = NULL;
    sqlite3_int64 rowid;

    raw(db, "BEGIN; INSERT INTO effects VALUES (1)");
    rowid = sqlite3_last_insert_rowid(db);
    must(hw_sqlite_wrap(db, &wrapped, &error), &error);
    must(act(s, wrapped), &error);
    wrapped->ops->close(wrapped);
    assert_false(sqlite3_get_autocommit(db));
    assert_int_equal(sqlite3_last_insert_rowid(db), rowid);
    raw(db, end);
}

static void in_the_callers_transaction_all_is_done_or_undone_with_it(void **state)
{
    scene s = begin(*state);
    sqlite3 *db = NULL;

    raw_exec(s.p->file, "CREATE TABLE effects (n)");
    assert_int_equal(sqlite3_open(s.p->file, &db), SQLITE_OK);
    act_within(&s, db, do_push, "ROLLBACK");
    assert_int_equal(raw_number(s.p->file, "SELECT count(*) FROM howdah_job_data"), 0);
    act_within(&s, db, do_push, "COMMIT");
    assert_int_equal(raw_number(s.p->file, "SELECT count(*) FROM howdah_jobs"), 1);
    must(do_claim(&s, s.store), &error);
    act_within(&s, db, do_complete, "ROLLBACK");
    assert_int_equal(raw_number(s.p->file, "SELECT count(*) FROM howdah_event_log"), 0);
    act_within(&s, db, do_complete, "COMMIT");
    assert_int_equal(raw_number(s.p->file, "SELECT count(*) FROM howdah_event_log"), 1);
    assert_int_equal(raw_number(s.p->file, "SELECT count(*) FROM effects"), 2);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    s.store->ops->close(s.store);
    expect_sound(s.p);
}

static void a_push_in_the_callers_transaction_wakes_who_sleeps_at_its_commit(void **state)
{
    scene s = begin(*state);
    const hw_sub_ops *subs = s.store->ops->subs;
    hw_store *wrapped = NULL;
    sqlite3 *db = NULL;

    assert_int_equal(sqlite3_open(s.p->file, &db), SQLITE_OK);
    assert_int_equal(subs->listen(s.store, true, NULL, 0, &error), HOWDAH_OK);
    raw(db, "BEGIN");
    must(hw_sqlite_wrap(db, &wrapped, &error), &error);
    must(do_push(&s, wrapped), &error);
    wrapped->ops->close(wrapped);
    must(subs->arm(s.store, &error), &error);
    assert_int_equal(subs->wait(s.store, 20, &error), HOWDAH_END);
    raw(db, "COMMIT");
    assert_int_equal(subs->wait(s.store, 10000, &error), HOWDAH_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    s.store->ops->close(s.store);
}

/* -------------------------------------------------------------------- kills */

/* The operation in a process of its own, which is killed there: before or behind the commit. */
static void run_killed(const place *p, const operation *o, const char *failpoint, bool behind)
{
    scene s = begin(p);
    pid_t pid;

    for (int i = 0; i < 3 && o->before[i]; i++)
        must(o->before[i](&s, s.store), &error);
    s.store->ops->close(s.store);
    pid = fork();
    if (pid == 0) {
        s.store = open_store(p);
        (void)setenv("HOWDAH_FAILPOINT", failpoint, 1);
        _exit(o->act(&s, s.store) < 0);
    }
    assert_int_equal(child_result(pid), 1000 + SIGKILL);
    if (is_stored(p, o) != behind)
        fail_msg("%s: killed at %s", o->name, failpoint);
    expect_sound(p);
    s.store = open_store(p);
    must(o->act(&s, s.store), &error);
    s.store->ops->close(s.store);
    assert_true(is_stored(p, o));
    expect_sound(p);
}

static void kill_9_before_and_after_each_commit_stores_nothing_or_all(void **state)
{
    for (size_t i = 0; i < OPERATIONS; i++) {
        run_killed(*state, &operations[i], "sqlite.queue_before_commit:kill", false);
        run_killed(*state, &operations[i], "sqlite.queue_after_commit:kill", true);
    }
}

#define WORKERS 3
#define JOBS 400
#define WORK_KEYS 12
#define KILLS 25
#define WORK_LEASE_MS 100

typedef struct hands {
    hw_ack acks[8];
    size_t n;
} hands;

static int take_in_hand(void *ctx, const howdah_job *job)
{
    hands *h = ctx;

    h->acks[h->n++] = (hw_ack){job->id, job->token, HOWDAH_VERDICT_COMPLETE, HW_STR_NULL, 0};
    return 0;
}

/* Works until nothing comes, and nothing is going to. */
static int work(const place *p)
{
    hw_store *store = open_store(p);
    hw_claim claim = {QUEUE, hw_str_of("w"), 8, WORK_LEASE_MS};
    hw_claim_report report = {.next_due_ms = 0};
    hands h = {.n = 0};
    int status = HOWDAH_OK;

    while (status >= 0 && (h.n > 0 || report.next_due_ms >= 0)) {
        howdah_ack_outcome acked[8];
        hands now = h;

        h.n = 0;
        status = store->ops->queue->exchange(store, now.acks, now.n, acked, &claim, take_in_hand,
                                             &h, &report, &error);
        if (h.n == 0 && report.next_due_ms > 0)
            hw_clock_sleep_ms(report.next_due_ms < 10 ? report.next_due_ms : 10);
        if (h.n > 0)
            hw_clock_sleep_ms(1);
    }
    store->ops->close(store);
    return status < 0;
}

static pid_t hire(const place *p)
{
    pid_t pid = fork();

    if (pid == 0)
        _exit(work(p));
    return pid;
}

static void push_work(const scene *s)
{
    static char keys[JOBS][8];
    static hw_push jobs[JOBS];
    static howdah_pushed pushed[JOBS];

    for (int i = 0; i < JOBS; i++) {
        (void)snprintf(keys[i], sizeof keys[i], "%d", i % WORK_KEYS);
        jobs[i] = (hw_push){.data = hw_str_of("1"),
                            .run_at_us = HW_TIME_ABSENT,
                            .max_attempts = 1000,
                            .key = i % 3 ? hw_str_of(keys[i]) : HW_STR_NULL};
    }
    must(s->store->ops->queue->push(s->store, QUEUE, jobs, JOBS, pushed, &error), &error);
}

static void workers_that_are_killed_lose_no_job_and_keep_the_order_of_keys(void **state)
{
    const place *p = *state;
    scene s = begin(p);
    pid_t pids[WORKERS];

    push_work(&s);
    s.store->ops->close(s.store);
    for (int i = 0; i < WORKERS; i++)
        pids[i] = hire(p);
    for (int i = 0; i < KILLS; i++) {
        int who = (int)(hw_random_u32() % WORKERS);

        hw_clock_sleep_ms(5 + hw_random_u32() % 20);
        (void)kill(pids[who], SIGKILL);
        (void)child_result(pids[who]);
        pids[who] = hire(p);
    }
    for (int i = 0; i < WORKERS; i++)
        assert_int_equal(child_result(pids[i]), 0);
    assert_int_equal(raw_number(p->file, "SELECT count(*) FROM howdah_event_log WHERE NOT failed"),
                     JOBS);
    assert_int_equal(raw_number(p->file, "SELECT count(*) FROM (SELECT l.job_id - lag(l.job_id)"
                                         " OVER (PARTITION BY d.key ORDER BY l.position) AS step"
                                         " FROM howdah_event_log l"
                                         " JOIN howdah_job_data d ON d.id = l.job_id"
                                         " WHERE d.key IS NOT NULL) WHERE step < 0"),
                     0);
    expect_sound(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_failing_write_stores_all_or_nothing_and_says_which),
        TEST(a_failing_sync_stores_all_or_nothing_and_says_which),
        TEST(a_failing_shared_index_stores_all_or_nothing_and_says_which),
        TEST(claims_and_completions_do_not_wait_for_the_disk),
        TEST(what_fails_waits_for_the_disk_however_it_is_found_out),
        TEST(in_the_callers_transaction_all_is_done_or_undone_with_it),
        TEST(a_push_in_the_callers_transaction_wakes_who_sleeps_at_its_commit),
        TEST(kill_9_before_and_after_each_commit_stores_nothing_or_all),
        TEST(workers_that_are_killed_lose_no_job_and_keep_the_order_of_keys),
    };

    if (!fault_vfs_install())
        return 2;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
