/*
 * test_queue_kills.c - processes of the work queue are killed where it matters: at every named
 * point, in the middle of a push, and with an effect in hand that is to happen exactly once.  The
 * first argument is the kind of store: sqlite, or pg (inside tools/with-pg).
 */
#include <howdah/howdah_pg.h>
#include <howdah/howdah_sqlite.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "base/random.h"
#include "sqlite_help.h"
#include "test_pg_help.h"

#define QUEUE "kills"
#define JOBS_MAX 4000
#define BATCH 5
#define LEASE_MS 400
#define PATIENCE_MS 60000
#define HANDS 4

static bool on_pg;
static howdah_error error = HOWDAH_ERROR_INIT;

/* Outlives those who write it. */
typedef struct board {
    atomic_bool done;
    atomic_int odd;
    atomic_int lost;
    atomic_int runs[JOBS_MAX]; /* by id */
} board;

typedef struct site {
    void *under; /* pgt or place */
    const howdah_settings *settings;
    const char *url;
    howdah_bus *bus;
    board *board;
    int pushed;
    pid_t hands[HANDS];
} site;

static int setup(void **state)
{
    site *p = calloc(1, sizeof *p);
    howdah_queue_options o = HOWDAH_QUEUE_OPTIONS_INIT;

    assert_non_null(p);
    assert_int_equal(on_pg ? pgt_setup(&p->under) : place_setup(&p->under), 0);
    p->url = on_pg ? ((pgt *)p->under)->url : ((place *)p->under)->url;
    p->settings = on_pg ? ((pgt *)p->under)->settings : NULL;
    p->bus = on_pg ? pgt_open(p->under, p->url) : open_migrated(p->url);
    p->board =
        mmap(NULL, sizeof *p->board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(p->board != MAP_FAILED);
    o.max_attempts = 1000;
    o.abandon_after_ms = LEASE_MS;
    must(howdah_queue_configure(p->bus, QUEUE, &o, &error), &error);
    *state = p;
    return 0;
}

static int teardown(void **state)
{
    site *p = *state;

    for (int i = 0; i < HANDS; i++)
        if (p->hands[i] > 0)
            (void)kill(p->hands[i], SIGKILL);
    while (waitpid(-1, NULL, 0) > 0)
        continue;
    howdah_close(p->bus);
    (void)munmap(p->board, sizeof *p->board);
    assert_int_equal(on_pg ? pgt_teardown(&p->under) : place_teardown(&p->under), 0);
    free(p);
    return 0;
}

/* ---- processes */

static howdah_bus *open_again(const site *p)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *bus = NULL;

    while (howdah_open(p->url, p->settings, &bus, &err) < 0)
        if (!(err.flags & HOWDAH_RETRYABLE))
            _exit(3);
    return bus;
}

/* It ends with its parent; its exit code is what life returns. */
static pid_t start(site *p, int (*life)(site *p, howdah_bus *bus), const char *failpoint)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (failpoint)
        (void)setenv("HOWDAH_FAILPOINT", failpoint, 1);
    _exit(life(p, open_again(p)));
}

/* Two of the five have a key. */
static int push_batch(site *p, howdah_bus *bus)
{
    howdah_new_job jobs[BATCH];
    const howdah_new_job *all[BATCH];
    howdah_pushed pushed[BATCH] = {HOWDAH_PUSHED_INIT};

    (void)p;
    for (size_t i = 0; i < BATCH; i++) {
        howdah_new_job plain = HOWDAH_NEW_JOB_INIT;

        jobs[i] = plain;
        jobs[i].key = i % 2 ? "k" : NULL;
        all[i] = &jobs[i];
    }
    return howdah_queue_push_batch(bus, QUEUE, all, BATCH, pushed, &error) < 0 ? 4 : 0;
}

static int push_dedup(site *p, howdah_bus *bus)
{
    howdah_new_job job = HOWDAH_NEW_JOB_INIT;

    (void)p;
    job.dedup = "once";
    return howdah_queue_push(bus, QUEUE, &job, NULL, &error) < 0 ? 4 : 0;
}

static void push(site *p)
{
    assert_int_equal(push_batch(p, p->bus), 0);
    p->pushed += BATCH;
}

static int on_job(void *ctx, const howdah_job *job, howdah_work *work)
{
    site *p = ctx;

    (void)work;
    if (howdah_job_id(job) < JOBS_MAX)
        (void)atomic_fetch_add(&p->board->runs[howdah_job_id(job)], 1);
    return HOWDAH_WORK_DONE;
}

static int work(site *p, howdah_bus *bus, int64_t threads)
{
    howdah_worker_options o = HOWDAH_WORKER_OPTIONS_INIT;
    howdah_worker *worker = NULL;

    o.queue = QUEUE;
    o.handler = on_job;
    o.ctx = p;
    o.threads = threads;
    o.batch = 3;
    o.ack_delay_ms = 1;
    o.until_empty = true;
    if (howdah_worker_new(bus, &o, &worker, &error) < 0 ||
        howdah_worker_run(worker, PATIENCE_MS, &error) != HOWDAH_END)
        return 5;
    howdah_worker_free(worker);
    howdah_close(bus);
    return 0;
}

static int work_alone(site *p, howdah_bus *bus)
{
    return work(p, bus, 0);
}

static int work_in_threads(site *p, howdah_bus *bus)
{
    return work(p, bus, 2);
}

/* ---- what is stored */

static int keep_info(void *ctx, const howdah_queue_info *info)
{
    *(howdah_queue_info *)ctx = *info;
    return 0;
}

static howdah_queue_info counts(const site *p)
{
    howdah_queue_info info = {.size = sizeof info};
    int s;

    do /* the server may have been away */
        s = howdah_queues_walk(p->bus, QUEUE, keep_info, &info, &error);
    while (s < 0 && (error.flags & HOWDAH_RETRYABLE));
    must(s, &error);
    return info;
}

static int on_finding(void *ctx, const howdah_finding *finding)
{
    (void)ctx;
    if (finding->severity != HOWDAH_GOOD)
        fail_msg("%s", finding->message);
    return 0;
}

/* All that was pushed is somewhere, once. */
static void expect_all(const site *p)
{
    howdah_queue_info info = counts(p);

    assert_i64_equal(info.pending + info.processing + info.scheduled + info.completed, p->pushed);
    assert_i64_equal(info.failed + info.purged, 0);
    must(howdah_verify(p->bus, on_finding, NULL, &error), &error);
}

typedef struct tally {
    const site *site;
    int64_t jobs;
    int64_t again; /* runs after the first */
} tally;

static int count_runs(void *ctx, const howdah_job *job)
{
    tally *t = ctx;
    int runs = atomic_load(&t->site->board->runs[howdah_job_id(job)]);

    if (runs < 1 || runs > howdah_job_attempt(job))
        fail_msg("job %lld ran %d times in %lld attempts", (long long)howdah_job_id(job), runs,
                 (long long)howdah_job_attempt(job));
    t->jobs++;
    t->again += runs - 1;
    return 0;
}

/* ---- the named points */

/* Those of workers and queues, as this store has them. */
static const char *const points[] = {
    "worker.before_exchange", "worker.after_exchange",      "worker.before_handler",
    "worker.after_handler",   "sqlite.queue_before_commit", "sqlite.queue_after_commit",
};
#define POINTS (sizeof points / sizeof points[0])
#define POINTS_PG 4

static void kill_at(site *p, const char *point, int visit, int (*life)(site *p, howdah_bus *bus))
{
    char failpoint[64];

    (void)snprintf(failpoint, sizeof failpoint, "%s:kill@%d", point, visit);
    push(p);
    assert_int_equal(child_result(start(p, life, failpoint)), 1000 + SIGKILL);
    expect_all(p);
}

static void a_worker_killed_at_each_point_loses_nothing(void **state)
{
    site *p = *state;
    tally t = {.site = p};
    int kills = 0;

    for (size_t i = 0; i < (on_pg ? POINTS_PG : POINTS); i++)
        for (int visit = 1; visit <= 4; visit++) {
            kill_at(p, points[i], visit, work_alone);
            kill_at(p, points[i], visit, work_in_threads);
            kills += 2;
        }
    assert_int_equal(child_result(start(p, work_in_threads, NULL)), 0);
    expect_all(p);
    assert_i64_equal(counts(p).completed, p->pushed);
    must(howdah_queue_history_walk(p->bus, QUEUE, NULL, count_runs, &t, &error), &error);
    assert_i64_equal(t.jobs, p->pushed);
    print_message("# %d jobs, %d kills, %lld runs again\n", p->pushed, kills, (long long)t.again);
    /* A kill costs what was in hand, and no more. */
    assert_true(t.again <= 3LL * kills);
}

/* A point that somebody adds is to be added here.  The router's are in test_route_kills.c. */
static void all_points_of_the_queue_are_known(void **state)
{
    FILE *found;
    char name[100];
    size_t n = 0;

    (void)state;
    found = popen("cat '" SOURCE_ROOT /* NOLINT(cert-env33-c) */
                  "'/src/bus/queue/*.c '" SOURCE_ROOT "'/src/bus/queue/worker/*.c '" SOURCE_ROOT
                  "'/src/store/pg/queue*.c '" SOURCE_ROOT "'/src/store/sqlite/queue*.c"
                  " 2>/dev/null | sed -n 's/.*HW_FAULT_POINT(\"\\(.*\\)\").*/\\1/p' | grep -v "
                  "'^route[.]' | sort -u",
                  "r");
    assert_non_null(found);
    for (; fgets(name, sizeof name, found); n++) {
        bool known = false;

        name[strcspn(name, "\n")] = '\0';
        for (size_t i = 0; i < POINTS; i++)
            known = known || strcmp(points[i], name) == 0;
        if (!known)
            fail_msg("no worker is killed at %s", name);
    }
    (void)pclose(found);
    assert_int_equal(n, POINTS);
}

static void a_push_killed_before_its_commit_is_absent_and_after_it_whole(void **state)
{
    site *p = *state;

    for (int round = 0; round < 3; round++) {
        assert_int_equal(child_result(start(p, push_batch, "sqlite.queue_before_commit:kill")),
                         1000 + SIGKILL);
        expect_all(p);
        assert_int_equal(child_result(start(p, push_batch, "sqlite.queue_after_commit:kill")),
                         1000 + SIGKILL);
        p->pushed += BATCH;
        expect_all(p);
    }
    /* With a dedup key whoever does not know asks again. */
    assert_int_equal(child_result(start(p, push_dedup, "sqlite.queue_after_commit:kill")),
                     1000 + SIGKILL);
    assert_int_equal(push_dedup(p, p->bus), 0);
    p->pushed++;
    expect_all(p);
    assert_int_equal(child_result(start(p, work_alone, NULL)), 0);
    assert_i64_equal(counts(p).completed, p->pushed);
}

/* ---- effects, exactly once */

typedef struct book {
    PGconn *conn;
    sqlite3 *db;
    const char *schema;
} book;

static bool run(const book *b, const char *sql)
{
    PGresult *result;
    bool ok;

    if (b->db)
        return sqlite3_exec(b->db, sql, NULL, NULL, NULL) == SQLITE_OK;
    result = PQexec(b->conn, sql);
    ok = PQresultStatus(result) == PGRES_COMMAND_OK;
    PQclear(result);
    return ok;
}

/* The effect and the end of the job in one transaction; what fails is rolled back. */
static void book_one(const site *p, const book *b, const howdah_job *job)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    int64_t id = howdah_job_id(job);
    char sql[100];
    int s = HOWDAH_UNAVAILABLE;

    (void)atomic_fetch_add(&p->board->runs[id], 1);
    (void)snprintf(sql, sizeof sql, "INSERT INTO effects VALUES (%lld)", (long long)id);
    if (hw_random_u32() % 30 == 0)
        (void)usleep(500000); /* longer than the lease */
    if (run(b, b->db ? "BEGIN IMMEDIATE" : "BEGIN") && run(b, sql)) {
        (void)usleep(hw_random_u32() % 3000);
        s = b->db
                ? howdah_sqlite_job_complete(b->db, id, howdah_job_token(job), NULL, &err)
                : howdah_pg_job_complete(b->conn, b->schema, id, howdah_job_token(job), NULL, &err);
        (void)usleep(hw_random_u32() % 3000);
    }
    (void)atomic_fetch_add(&p->board->lost, s == HOWDAH_LOST);
    if (s < 0 || !run(b, "COMMIT"))
        (void)run(b, "ROLLBACK");
}

static int keep_books(site *p, howdah_bus *bus)
{
    const pgt *t = p->under;
    book b = {.schema = on_pg ? t->schema : NULL};

    if (on_pg)
        b.conn = PQconnectdb(p->url);
    else if (sqlite3_open(((place *)p->under)->file, &b.db) != SQLITE_OK ||
             sqlite3_busy_timeout(b.db, 10000) != SQLITE_OK)
        return 6;
    while (!atomic_load(&p->board->done)) {
        howdah_error err = HOWDAH_ERROR_INIT;
        howdah_jobs *jobs = NULL;
        int s = howdah_queue_claim_wait(bus, QUEUE, 4, 100, NULL, &jobs, &err);

        if (b.conn && PQstatus(b.conn) != CONNECTION_OK)
            PQreset(b.conn);
        for (size_t i = 0; s == HOWDAH_OK && i < howdah_jobs_count(jobs); i++)
            book_one(p, &b, howdah_jobs_at(jobs, i));
        howdah_jobs_free(jobs);
        if (s < 0 && !(err.flags & (HOWDAH_RETRYABLE | HOWDAH_OUTCOME_UNKNOWN)))
            return 7;
    }
    return 0;
}

static int64_t number(const site *p, const char *sql)
{
    const pgt *t = p->under;

    return on_pg ? pgt_number(t, t->admin, "%s", sql) : raw_number(((place *)p->under)->file, sql);
}

static void kill_hand(site *p, int i, bool pause)
{
    if (pause) {
        (void)kill(p->hands[i], SIGSTOP);
        (void)usleep((LEASE_MS + 100) * 1000);
        (void)kill(p->hands[i], SIGCONT);
        return;
    }
    (void)kill(p->hands[i], SIGKILL);
    assert_int_equal(child_result(p->hands[i]), 1000 + SIGKILL);
    p->hands[i] = start(p, keep_books, NULL);
}

static void an_effect_in_the_transaction_of_its_end_happens_once(void **state)
{
    site *p = *state;
    int64_t until = pgt_now_ms() + PATIENCE_MS;
    int kills = 0;

    if (on_pg)
        pgt_run(p->under, ((pgt *)p->under)->admin, "CREATE TABLE effects (id bigint)");
    else
        raw_exec(((place *)p->under)->file, "CREATE TABLE effects (id)");
    for (int i = 0; i < 60; i++)
        push(p);
    for (int i = 0; i < HANDS; i++)
        p->hands[i] = start(p, keep_books, NULL);
    for (; counts(p).completed < p->pushed; kills++) {
        assert_true(pgt_now_ms() < until);
        (void)usleep(hw_random_u32() % 100000);
        kill_hand(p, (int)(hw_random_u32() % HANDS), kills % 5 == 4);
        if (on_pg && kills == 7) {
            pgt_ctl("stop -m immediate");
            pgt_ctl("start");
            pgt_reconnect(p->under);
        }
    }
    atomic_store(&p->board->done, true);
    for (int i = 0; i < HANDS; i++)
        assert_int_equal(child_result(p->hands[i]), 0);
    print_message("# %d jobs, %d kills and stops, %d refused\n", p->pushed, kills,
                  atomic_load(&p->board->lost));
    expect_all(p);
    assert_true(kills >= 8);
    assert_i64_equal(number(p, "SELECT count(*) FROM effects"), p->pushed);
    assert_i64_equal(number(p, "SELECT count(DISTINCT id) FROM effects"), p->pushed);
    if (on_pg)
        pgt_run(p->under, ((pgt *)p->under)->admin, "DROP TABLE effects");
}

#define SITED(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(all_points_of_the_queue_are_known),
    SITED(a_worker_killed_at_each_point_loses_nothing),
    SITED(an_effect_in_the_transaction_of_its_end_happens_once),
    /* Not on PostgreSQL: there the commit is the server's. */
    SITED(a_push_killed_before_its_commit_is_absent_and_after_it_whole),
};

int main(int argc, char **argv)
{
    if (argc < 2 || (strcmp(argv[1], "pg") != 0 && strcmp(argv[1], "sqlite") != 0)) {
        (void)fprintf(stderr, "usage: %s pg|sqlite [TEST...]\n", argv[0]);
        return 2;
    }
    on_pg = strcmp(argv[1], "pg") == 0;
    return pgt_main(argc - 1, argv + 1, "queue kills", tests,
                    sizeof tests / sizeof tests[0] - (on_pg ? 1 : 0));
}
