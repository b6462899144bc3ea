/*
 * test_queue_race.c - the proof of the work queue: eight workers, by hand, by howdah_worker and, on
 * PostgreSQL, by the SQL functions in each isolation level, in processes that are killed (at random
 * and at named points), stopped for longer than their leases, and started again all the time; on
 * PostgreSQL their sessions are ended as well.  Jobs have keys, dedup keys, priorities, delays;
 * some fail, some want to be tried again, some kill whoever runs them.
 *
 * Afterwards: what was pushed is in the history, once; stale acknowledgements accepted 0; two live
 * owners of one job or key 0; jobs that ran more often than their attempts 0; jobs of a key out of
 * order 0.  See queue_race_check.c.
 *
 * "test_queue_race pg" inside tools/with-pg, "test_queue_race sqlite" anywhere.  HOWDAH_RACE_JOBS
 * and HOWDAH_RACE_SECONDS make it longer.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/random.h"
#include "queue_race.h"
#include "sqlite_help.h"
#include "test_pg_help.h"

#define PATIENCE_MS 60000
#define KILLS_MIN 5
#define STOPS_MIN 3
#define CRASHES_MIN 2
#define PG_ONLY 4 /* tests */

static bool on_pg;
static howdah_error error = HOWDAH_ERROR_INIT;

/* ---- where it is run */

typedef struct stage {
    qr_arena arena;
    void *under; /* pgt or place */
    howdah_bus *bus;
    pid_t pids[QR_WORKERS];
    int64_t stopped_until[QR_WORKERS]; /* 0: it runs */
    pid_t pushers[QR_PUSHERS];
    int kills;
    int stops;
    int sessions;
    int deaths; /* of those that a job killed, or a named point */
    int counted;
    pid_t meddler; /* an operator */
    int pushers_killed;
    int64_t crash_ms;       /* when the server is to crash next */
    int64_t crash_every_ms; /* 0: never */
} stage;

static long number_of(const char *name, long otherwise)
{
    const char *text = getenv(name);

    return text && *text ? strtol(text, NULL, 10) : otherwise;
}

static int stage_setup(void **state)
{
    stage *s = calloc(1, sizeof *s);

    assert_non_null(s);
    assert_int_equal(on_pg ? pgt_setup(&s->under) : place_setup(&s->under), 0);
    if (on_pg) {
        const pgt *t = s->under;

        (void)snprintf(s->arena.url, sizeof s->arena.url, "%s", t->url);
        s->arena.settings = t->settings;
        s->arena.schema = t->schema;
        s->bus = pgt_open(t, t->url);
    } else {
        const place *p = s->under;

        (void)snprintf(s->arena.url, sizeof s->arena.url, "%s", p->url);
        s->bus = open_migrated(p->url);
    }
    qr_all = mmap(NULL, sizeof *qr_all, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(qr_all != MAP_FAILED);
    *state = s;
    return 0;
}

static int stage_teardown(void **state)
{
    stage *s = *state;

    for (int i = 0; i < QR_WORKERS; i++)
        if (s->pids[i] > 0)
            (void)kill(s->pids[i], SIGKILL);
    for (int i = 0; i < QR_PUSHERS; i++)
        if (s->pushers[i] > 0)
            (void)kill(s->pushers[i], SIGKILL);
    if (s->meddler > 0)
        (void)kill(s->meddler, SIGKILL);
    while (waitpid(-1, NULL, 0) > 0)
        continue;
    howdah_close(s->bus);
    (void)munmap(qr_all, sizeof *qr_all);
    assert_int_equal(on_pg ? pgt_teardown(&s->under) : place_teardown(&s->under), 0);
    free(s);
    return 0;
}

/* A process; it ends with its parent. */
static pid_t start(const stage *s, int me, void (*be)(const qr_arena *arena, int me))
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        be(&s->arena, me);
        _exit(0);
    }
    return pid;
}

static void set_queue(const stage *s, int64_t max_attempts)
{
    howdah_queue_options o = HOWDAH_QUEUE_OPTIONS_INIT;

    o.max_attempts = max_attempts;
    o.backoff_initial_ms = 10;
    o.backoff_max_ms = 100;
    must(howdah_queue_configure(s->bus, QR_QUEUE, &o, &error), &error);
}

static int keep_info(void *ctx, const howdah_queue_info *info)
{
    *(howdah_queue_info *)ctx = *info;
    return 0;
}

static howdah_queue_info counts(const stage *s)
{
    howdah_queue_info info = {.size = sizeof info};
    int status;

    do /* the server may have been away */
        status = howdah_queues_walk(s->bus, QR_QUEUE, keep_info, &info, &error);
    while (status < 0 && qr_is_temporary(&error));
    must(status, &error);
    return info;
}

static int64_t left_in(const howdah_queue_info *info)
{
    return info->pending + info->processing + info->scheduled;
}

/* ---- what befalls the workers */

/* Nobody ends but by a kill: ours, that of a job, or at a named point. */
static void reap(stage *s, int i, int status)
{
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
        fail_msg("worker %d ended by itself: %x", i, (unsigned)status);
    s->stopped_until[i] = 0;
    s->pids[i] = start(s, i, qr_be_worker);
}

static void look_after_workers(stage *s)
{
    for (int i = 0; i < QR_WORKERS; i++) {
        int status = 0;

        if (waitpid(s->pids[i], &status, WNOHANG) == s->pids[i]) {
            s->deaths++;
            reap(s, i, status);
        }
        if (s->stopped_until[i] > 0 && pgt_now_ms() > s->stopped_until[i]) {
            (void)kill(s->pids[i], SIGCONT);
            s->stopped_until[i] = 0;
        }
    }
}

static void kill_worker(stage *s, int i)
{
    int status = 0;

    (void)kill(s->pids[i], SIGKILL);
    assert_int_equal(waitpid(s->pids[i], &status, 0), s->pids[i]);
    s->kills++;
    reap(s, i, status);
}

/* Some shortly, some for longer than any lease. */
static void stop_worker(stage *s, int i)
{
    if (s->stopped_until[i] > 0)
        return;
    (void)kill(s->pids[i], SIGSTOP);
    s->stopped_until[i] = pgt_now_ms() + 100 + hw_random_u32() % 1400;
    s->stops++;
}

static void end_session(stage *s)
{
    const pgt *t = s->under;

    s->sessions += (int)pgt_number(t, t->admin,
                                   "SELECT count(pg_terminate_backend(pid)) FROM (SELECT pid FROM"
                                   " pg_stat_activity WHERE application_name = 'race'"
                                   " ORDER BY random() LIMIT 1) AS victim");
}

static void crash(const stage *s)
{
    pgt_ctl("stop -m immediate");
    assert_true(qr_all->crashes_n < QR_CRASHES_MAX);
    qr_all->crashes_us[qr_all->crashes_n++] = hw_clock_wall_us();
    pgt_ctl("start");
    pgt_reconnect(s->under);
}

/* Shortly after it has written slips: it is sending. */
static void kill_pusher(stage *s)
{
    int i = (int)(hw_random_u32() % QR_PUSHERS);
    long left = atomic_load(&qr_all->left[i]);

    if (s->pushers[i] == 0)
        return;
    for (int wait = 0; wait < 200 && atomic_load(&qr_all->left[i]) == left; wait++)
        (void)usleep(100);
    (void)usleep(hw_random_u32() % 2500);
    (void)kill(s->pushers[i], SIGKILL);
    (void)waitpid(s->pushers[i], NULL, 0);
    s->pushers_killed++;
    s->pushers[i] = start(s, i, qr_be_pusher);
}

/* At every moment every job is somewhere. */
static void check_counts(stage *s)
{
    int64_t least = atomic_load(&qr_all->stored);
    howdah_queue_info info = counts(s);
    int64_t most = atomic_load(&qr_all->to_be);
    int64_t sum = left_in(&info) + info.completed + info.failed + info.purged;

    if (sum < least || sum > most)
        fail_msg("%lld jobs in all, pushed %lld to %lld", (long long)sum, (long long)least,
                 (long long)most);
    s->counted++;
}

static void harass(stage *s)
{
    int i = (int)(hw_random_u32() % QR_WORKERS);

    look_after_workers(s);
    if (s->crash_every_ms > 0 && pgt_now_ms() > s->crash_ms) {
        crash(s);
        s->crash_ms = pgt_now_ms() + s->crash_every_ms;
    }
    switch (hw_random_u32() % 10) {
    case 0:
    case 1:
        kill_worker(s, i);
        break;
    case 2:
    case 3:
    case 4:
        stop_worker(s, i);
        break;
    case 5:
    case 6:
        if (on_pg)
            end_session(s);
        break;
    case 7:
    case 8:
        if (!s->arena.operated) /* what is purged is known only if all pushes are */
            kill_pusher(s);
        break;
    default:
        check_counts(s);
    }
}

static bool is_pushed(stage *s)
{
    bool all = true;

    for (int i = 0; i < QR_PUSHERS; i++) {
        int status = 0;

        if (s->pushers[i] > 0 && waitpid(s->pushers[i], &status, WNOHANG) == s->pushers[i]) {
            s->pushers[i] = 0;
            if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) { /* at a named point */
                s->pushers_killed++;
                s->pushers[i] = start(s, i, qr_be_pusher);
            } else {
                assert_int_equal(status, 0);
            }
        }
        all = all && s->pushers[i] == 0;
    }
    return all;
}

/* As long as something ends now and then. */
static void wait_until_empty(stage *s)
{
    howdah_queue_info info = counts(s);
    int64_t before = -1;

    for (int64_t until = 0; left_in(&info) > 0; info = counts(s)) {
        if (info.completed + info.failed != before)
            until = pgt_now_ms() + PATIENCE_MS;
        else if (pgt_now_ms() > until)
            fail_msg("%lld pending, %lld processing, %lld scheduled: nothing moves",
                     (long long)info.pending, (long long)info.processing,
                     (long long)info.scheduled);
        before = info.completed + info.failed;
        look_after_workers(s);
        (void)usleep(20000);
    }
    assert_i64_equal(info.purged, atomic_load(&qr_all->purged));
}

/* Some meet their named point on the way out. */
static void dismiss_workers(stage *s)
{
    atomic_store(&qr_all->done, true);
    for (int i = 0; i < QR_WORKERS; i++) {
        int result;

        (void)kill(s->pids[i], SIGCONT);
        result = child_result(s->pids[i]);
        s->pids[i] = 0;
        if (result != 1000 + SIGKILL)
            assert_int_equal(result, 0);
    }
}

static bool is_operated_enough(void)
{
    return atomic_load(&qr_all->purged) > 0 && atomic_load(&qr_all->cancelled) > 0 &&
           atomic_load(&qr_all->again) > 0 && atomic_load(&qr_all->pauses) > 0;
}

static bool is_harassed_enough(const stage *s)
{
    return s->kills >= KILLS_MIN && s->stops >= STOPS_MIN && s->counted > 0 &&
           (s->arena.operated ? is_operated_enough() : s->pushers_killed >= KILLS_MIN) &&
           (s->crash_every_ms == 0 || qr_all->crashes_n >= CRASHES_MIN);
}

/* Operators end before the last job does: what they send on its way again has to end, too. */
static void dismiss_operator(stage *s)
{
    if (s->meddler == 0)
        return;
    atomic_store(&qr_all->closing, true);
    for (int i = 0; i < QR_WORKERS; i++) /* one that is stopped may hold what they wait for */
        (void)kill(s->pids[i], SIGCONT);
    assert_int_equal(child_result(s->meddler), 0);
    s->meddler = 0;
    print_message("# purged %lld, cancelled %lld, tried again %lld, paused %lld times\n",
                  (long long)atomic_load(&qr_all->purged),
                  (long long)atomic_load(&qr_all->cancelled),
                  (long long)atomic_load(&qr_all->again), (long long)atomic_load(&qr_all->pauses));
}

static void race(stage *s)
{
    int64_t began = pgt_now_ms();
    int64_t give_up;

    s->arena.jobs = number_of("HOWDAH_RACE_JOBS", 1000);
    s->arena.seconds = number_of("HOWDAH_RACE_SECONDS", 2);
    give_up = began + s->arena.seconds * 1000 * 4 + 2LL * PATIENCE_MS;
    s->crash_ms = began + 700;
    set_queue(s, QR_ATTEMPTS);
    for (int i = 0; i < QR_WORKERS; i++)
        s->pids[i] = start(s, i, qr_be_worker);
    for (int i = 0; i < QR_PUSHERS; i++) {
        atomic_store(&qr_all->left[i], s->arena.jobs / QR_PUSHERS);
        s->pushers[i] = start(s, i, qr_be_pusher);
    }
    if (s->arena.operated)
        s->meddler = start(s, 0, qr_be_operator);
    while (!is_pushed(s) || !is_harassed_enough(s)) {
        (void)usleep(10000 + hw_random_u32() % 60000);
        harass(s);
        if (pgt_now_ms() > give_up)
            fail_msg("%lld jobs are pushed, and no more", (long long)atomic_load(&qr_all->stored));
        if (is_pushed(s) && !is_harassed_enough(s))
            for (int i = 0; i < QR_PUSHERS; i++) { /* some more, until all has befallen them */
                atomic_store(&qr_all->left[i], 100);
                s->pushers[i] = start(s, i, qr_be_pusher);
            }
    }
    dismiss_operator(s);
    wait_until_empty(s);
    (void)usleep(700000); /* for late ones, whose leases are over */
    dismiss_workers(s);
    print_message("# %lld s; killed %d workers and %d pushers, stopped %d, %d died of a job or at a"
                  " named point, %d sessions ended, %d crashes of the server\n",
                  (long long)(pgt_now_ms() - began) / 1000, s->kills, s->pushers_killed, s->stops,
                  s->deaths, s->sessions, qr_all->crashes_n);
    qr_check(s->bus, s->arena.operated);
    assert_int_equal(atomic_load(&qr_all->odd), 0);
}

static void every_job_ends_once_in_order_by_its_owner(void **state)
{
    race(*state);
}

static void what_operators_do_meanwhile_loses_nothing_and_wakes_no_stale_owner(void **state)
{
    stage *s = *state;

    s->arena.operated = true;
    race(s);
}

/* Rarely enough that jobs end in between, also in a long race. */
static void a_server_that_crashes_loses_no_push_and_no_failure(void **state)
{
    stage *s = *state;

    s->crash_every_ms = number_of("HOWDAH_RACE_SECONDS", 2) > 20 ? 15000 : 1000;
    race(s);
}

/* ---- one thing at a time */

static int64_t push(const stage *s, const char *data, int64_t delay_ms)
{
    howdah_new_job job = HOWDAH_NEW_JOB_INIT;
    howdah_pushed pushed = HOWDAH_PUSHED_INIT;

    job.data = data;
    job.data_len = strlen(data);
    job.delay_ms = delay_ms;
    must(howdah_queue_push(s->bus, QR_QUEUE, &job, &pushed, &error), &error);
    return pushed.id;
}

static howdah_jobs *claim_one(const stage *s, int64_t lease_ms)
{
    howdah_claim_options o = HOWDAH_CLAIM_OPTIONS_INIT;
    howdah_jobs *jobs = NULL;

    o.lease_ms = lease_ms;
    if (howdah_queue_claim_wait(s->bus, QR_QUEUE, 1, PATIENCE_MS, &o, &jobs, &error) != HOWDAH_OK)
        fail_msg("nothing to claim");
    return jobs;
}

static void a_lease_that_ran_out_is_claimed_again_and_counted(void **state)
{
    stage *s = *state;
    int64_t id = push(s, "0", 0);
    howdah_jobs *first = claim_one(s, 300);
    howdah_jobs *second = claim_one(s, 60000);
    const howdah_job *a = howdah_jobs_at(first, 0);
    const howdah_job *b = howdah_jobs_at(second, 0);
    howdah_job *over = NULL;
    int64_t until = 0;
    int64_t started = 0;
    int64_t kept = 0;

    assert_i64_equal(howdah_job_id(b), id);
    assert_i64_equal(howdah_job_attempt(a), 1);
    assert_i64_equal(howdah_job_attempt(b), 2);
    assert_true(howdah_job_token(b) > howdah_job_token(a));
    assert_true(!howdah_job_is_suspect(a) && howdah_job_is_suspect(b));
    assert_true(howdah_job_lease_until(a, &until) && howdah_job_started_at(b, &started));
    assert_true(started >= until);
    assert_status(howdah_job_complete(s->bus, id, howdah_job_token(a), NULL, &error), HOWDAH_LOST);
    assert_status(howdah_job_extend(s->bus, id, howdah_job_token(a), 0, &error), HOWDAH_LOST);
    assert_status(howdah_job_retry(s->bus, id, howdah_job_token(a), 0, NULL, &error), HOWDAH_LOST);
    assert_status(howdah_job_complete(s->bus, id, howdah_job_token(b), NULL, &error), HOWDAH_OK);
    must(howdah_job_get(s->bus, id, &over, &error), &error);
    assert_int_equal(howdah_job_state_get(over), HOWDAH_JOB_COMPLETED);
    assert_i64_equal(howdah_job_attempt(over), 2);
    assert_true(howdah_job_started_at(over, &kept));
    assert_i64_equal(kept, started);
    howdah_job_free(over);
    howdah_jobs_free(first);
    howdah_jobs_free(second);
}

static int die_of_it(void *ctx, const howdah_job *job, howdah_work *work)
{
    (void)ctx;
    (void)work;
    if (strcmp(howdah_job_data(job, NULL), "3") == 0) /* QR_ABORT */
        (void)kill(getpid(), SIGKILL);
    return HOWDAH_WORK_DONE;
}

static void work_until_empty(const qr_arena *arena, int me)
{
    howdah_worker_options o = HOWDAH_WORKER_OPTIONS_INIT;
    howdah_bus *bus = qr_open(arena, "worker");
    howdah_worker *worker = NULL;

    (void)me;
    o.queue = QR_QUEUE;
    o.handler = die_of_it;
    o.lease_ms = 1000;
    o.until_empty = true;
    if (howdah_worker_new(bus, &o, &worker, &error) < 0 ||
        howdah_worker_run(worker, PATIENCE_MS, &error) != HOWDAH_END)
        qr_odd("worker", error.status, &error);
    howdah_worker_free(worker);
    howdah_close(bus);
}

static void a_job_that_kills_its_worker_fails_and_takes_nobody_with_it(void **state)
{
    stage *s = *state;
    int64_t ids[10];
    int deaths = 0;

    set_queue(s, 3);
    for (size_t i = 0; i < 10; i++)
        ids[i] = push(s, i == 4 ? "3" : "0", 0);
    for (int result = -1; result != 0; deaths += result != 0) {
        result = child_result(start(s, 0, work_until_empty));
        if (deaths > 20 || (result != 0 && result != 1000 + SIGKILL))
            fail_msg("worker %d ended with %d", deaths, result);
    }
    assert_int_equal(atomic_load(&qr_all->odd), 0);
    assert_int_equal(deaths, 3);
    for (size_t i = 0; i < 10; i++) {
        howdah_job *job = NULL;

        must(howdah_job_get(s->bus, ids[i], &job, &error), &error);
        assert_int_equal(howdah_job_state_get(job),
                         i == 4 ? HOWDAH_JOB_FAILED : HOWDAH_JOB_COMPLETED);
        if (i == 4)
            assert_i64_equal(howdah_job_attempt(job), 3);
        howdah_job_free(job);
    }
}

/* ---- a client whose clock is wrong */

static int64_t wrong_by_s;

/* The library's clock_gettime() is this one: it is linked before that of the system. */
int clock_gettime(clockid_t clock_id, struct timespec *tp)
{
    int result = (int)syscall(SYS_clock_gettime, clock_id, tp);

    if (clock_id == CLOCK_REALTIME)
        tp->tv_sec += (time_t)wrong_by_s;
    return result;
}

static void work_an_hour_off(const stage *s, int64_t off_s)
{
    const pgt *t = s->under;
    howdah_claim_options o = HOWDAH_CLAIM_OPTIONS_INIT;
    howdah_jobs *jobs = NULL;
    howdah_jobs *more = NULL;
    const howdah_job *job;
    int64_t later;
    int64_t id;
    int64_t us;

    o.lease_ms = 600000;
    wrong_by_s = off_s;
    assert_true(llabs((int64_t)time(NULL) + off_s - hw_clock_wall_us() / 1000000) < 60);
    later = push(s, "0", 1800000);
    id = push(s, "0", 0);
    must(howdah_queue_claim(s->bus, QR_QUEUE, 10, &o, &jobs, &error), &error);
    assert_int_equal(howdah_jobs_count(jobs), 1);
    job = howdah_jobs_at(jobs, 0);
    assert_i64_equal(howdah_job_id(job), id);
    assert_true(howdah_job_lease_until(job, &us));
    us -= pgt_number(t, t->admin, "SELECT extract(epoch FROM clock_timestamp())::bigint * 1000000");
    assert_true(us > 300000000LL && us < 601000000LL);
    wrong_by_s = -off_s;
    assert_status(howdah_queue_claim(s->bus, QR_QUEUE, 10, &o, &more, &error), HOWDAH_END);
    must(howdah_job_extend(s->bus, id, howdah_job_token(job), 0, &error), &error);
    must(howdah_job_complete(s->bus, id, howdah_job_token(job), NULL, &error), &error);
    must(howdah_job_cancel(s->bus, later, NULL, &error), &error);
    howdah_jobs_free(jobs);
    wrong_by_s = 0;
}

static void the_clock_of_the_client_does_not_matter(void **state)
{
    stage *s = *state;

    work_an_hour_off(s, 3600);
    work_an_hour_off(s, -3600);
}

/* ---- a server that crashes */

/* What was not waited for is in memory only, until the writer of the log wakes up. */
static void write_late(const stage *s, bool late)
{
    const pgt *t = s->under;

    pgt_run(t, t->admin, "ALTER SYSTEM %s wal_writer_delay%s", late ? "SET" : "RESET",
            late ? " = '10s'" : "");
    pgt_run(t, t->admin, "SELECT pg_reload_conf()");
    (void)usleep(400000);
}

static void expect_job(const stage *s, int64_t id, howdah_job_state state, int64_t attempts)
{
    howdah_job *job = NULL;

    must(howdah_job_get(s->bus, id, &job, &error), &error);
    assert_int_equal(howdah_job_state_get(job), state);
    assert_i64_equal(howdah_job_attempt(job), attempts);
    howdah_job_free(job);
}

static int64_t wal_bytes(const stage *s, const char *function)
{
    const pgt *t = s->under;

    return pgt_number(t, t->admin, "SELECT pg_wal_lsn_diff(%s(), '0/0')::bigint", function);
}

#define WAL_PAGE 8192

/*
 * The first fails, the second completes, the third stays leased.  True when nothing after the
 * failure is on the disk, and nobody is about to write it: the server does so early when its log
 * gets to the end of a page.
 */
static bool end_two_of_three(const stage *s, const int64_t *ids, howdah_jobs **jobs)
{
    int64_t durable;

    jobs[0] = claim_one(s, 60000);
    must(
        howdah_job_fail(s->bus, ids[0], howdah_job_token(howdah_jobs_at(jobs[0], 0)), "no", &error),
        &error);
    durable = wal_bytes(s, "pg_current_wal_insert_lsn");
    jobs[1] = claim_one(s, 60000);
    must(howdah_job_complete(s->bus, ids[1], howdah_job_token(howdah_jobs_at(jobs[1], 0)), NULL,
                             &error),
         &error);
    jobs[2] = claim_one(s, 60000);
    for (size_t i = 0; i < 3; i++)
        assert_i64_equal(howdah_job_id(howdah_jobs_at(jobs[i], 0)), ids[i]);
    return wal_bytes(s, "pg_current_wal_insert_lsn") / WAL_PAGE == durable / WAL_PAGE &&
           wal_bytes(s, "pg_current_wal_flush_lsn") <= durable;
}

static void a_crash_undoes_a_claim_and_an_end_but_no_push_and_no_failure(void **state)
{
    stage *s = *state;
    int64_t ids[3];
    howdah_jobs *jobs[3];
    bool unwritten = false;

    write_late(s, true);
    for (int attempt = 0; !unwritten; attempt++) {
        assert_true(attempt < 50);
        for (size_t i = 0; i < 3; i++)
            ids[i] = push(s, "0", 0);
        unwritten = end_two_of_three(s, ids, jobs);
        if (!unwritten)
            must(howdah_job_complete(s->bus, ids[2], howdah_job_token(howdah_jobs_at(jobs[2], 0)),
                                     NULL, &error),
                 &error);
        for (size_t i = 0; i < 3; i++)
            howdah_jobs_free(jobs[i]);
    }
    crash(s);
    expect_job(s, ids[0], HOWDAH_JOB_FAILED, 1);
    expect_job(s, ids[1], HOWDAH_JOB_PENDING, 0);
    expect_job(s, ids[2], HOWDAH_JOB_PENDING, 0);
    write_late(s, false);
}

/* A sequence that is drawn from without waiting for the disk goes back with a crash. */
static void a_token_from_before_a_crash_is_not_given_to_another(void **state)
{
    stage *s = *state;
    const pgt *t = s->under;
    int64_t id = push(s, "0", 0);
    howdah_jobs *first;
    howdah_jobs *second;
    int64_t stale;

    write_late(s, true);
    pgt_run(t, t->admin, "CHECKPOINT");
    first = claim_one(s, 60000);
    stale = howdah_job_token(howdah_jobs_at(first, 0));
    crash(s);
    expect_job(s, id, HOWDAH_JOB_PENDING, 0);
    second = claim_one(s, 60000);
    assert_i64_equal(howdah_job_id(howdah_jobs_at(second, 0)), id);
    assert_true(howdah_job_token(howdah_jobs_at(second, 0)) != stale);
    assert_status(howdah_job_complete(s->bus, id, stale, NULL, &error), HOWDAH_LOST);
    expect_job(s, id, HOWDAH_JOB_PROCESSING, 1);
    write_late(s, false);
    howdah_jobs_free(first);
    howdah_jobs_free(second);
}

#define STAGED(name) cmocka_unit_test_setup_teardown(name, stage_setup, stage_teardown)

static const struct CMUnitTest tests[] = {
    STAGED(a_lease_that_ran_out_is_claimed_again_and_counted),
    STAGED(a_job_that_kills_its_worker_fails_and_takes_nobody_with_it),
    STAGED(every_job_ends_once_in_order_by_its_owner),
    STAGED(what_operators_do_meanwhile_loses_nothing_and_wakes_no_stale_owner),
    /* Not on SQLite: there the client is the database, the last PG_ONLY. */
    STAGED(the_clock_of_the_client_does_not_matter),
    STAGED(a_crash_undoes_a_claim_and_an_end_but_no_push_and_no_failure),
    STAGED(a_token_from_before_a_crash_is_not_given_to_another),
    STAGED(a_server_that_crashes_loses_no_push_and_no_failure),
};

int main(int argc, char **argv)
{
    if (argc < 2 || (strcmp(argv[1], "pg") != 0 && strcmp(argv[1], "sqlite") != 0)) {
        (void)fprintf(stderr, "usage: %s pg|sqlite [TEST...]\n", argv[0]);
        return 2;
    }
    on_pg = strcmp(argv[1], "pg") == 0;
    return pgt_main(argc - 1, argv + 1, "queue race", tests,
                    sizeof tests / sizeof tests[0] - (on_pg ? 0 : PG_ONLY));
}
