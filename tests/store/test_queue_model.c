/*
 * test_queue_model.c - a queue beside a model of it, and with no memory.
 *
 * Random steps of workers and operators.  After each one the store has done what the model allows:
 *
 *   - a claim gives jobs that are ready, each under a token of its own, and of a key only the
 *     earliest that is live, while no other of it is leased and the key is not on hold;
 *   - claims until nothing comes give all such jobs;
 *   - every job is counted in the place where the model has it.
 *
 * On PostgreSQL also with workers who know the SQL functions only, in all isolation levels, and
 * with one whose transaction has an old snapshot when it ends its job.
 */
#include <libpq-fe.h>
#include <stdio.h>
#include <string.h>

#include "base/random.h"
#include "jobs.h"
#include "low_memory.h"

#define JOBS_MAX 2000
#define KEYS 4 /* the first stands for none */
#define STEPS 400

typedef enum place { READY, LEASED, COMPLETED, FAILED, PURGED, PLACES } place;

typedef struct model_job {
    int64_t id;
    int64_t token;
    int key;
    place place;
    bool holds; /* its key */
} model_job;

typedef struct model {
    const ss *t;
    const hw_queue_ops *q;
    bool hold_key;
    model_job jobs[JOBS_MAX]; /* by id */
    size_t n;
    int64_t token; /* the greatest so far */
    unsigned seed;
    PGconn *sql;             /* NULL: jobs are claimed and acked by the library */
    PGconn *old;             /* a session whose snapshot is from when it took up this job, */
    model_job *in_old_hands; /* NULL: none */
    int64_t old_token;
} model;

/* Other steps each time; HOWDAH_SEED repeats those of a run. */
static unsigned choose_seed(void)
{
    const char *text = getenv("HOWDAH_SEED");
    unsigned seed = text ? (unsigned)strtoul(text, NULL, 10) : hw_random_u32();

    print_message("# HOWDAH_SEED=%u\n", seed);
    return seed;
}

static unsigned pick(model *m, unsigned below)
{
    m->seed = m->seed * 1103515245u + 12345u;
    return (m->seed >> 8) % below;
}

static bool is_live(const model_job *job)
{
    return job->place == READY || job->place == LEASED;
}

static bool is_claimable(const model *m, const model_job *job)
{
    if (job->place != READY)
        return false;
    for (size_t i = 0; job->key > 0 && i < m->n; i++) {
        const model_job *other = &m->jobs[i];

        if (other->key == job->key && other != job &&
            (other->holds || other->place == LEASED || (is_live(other) && other->id < job->id)))
            return false;
    }
    return true;
}

static model_job *find(model *m, int64_t id)
{
    for (size_t i = 0; i < m->n; i++)
        if (m->jobs[i].id == id)
            return &m->jobs[i];
    fail_msg("job %lld is not known", (long long)id);
    return NULL;
}

/* A random job in this place, NULL when there is none. */
static model_job *any_in(model *m, place where)
{
    size_t start = m->n > 0 ? pick(m, (unsigned)m->n) : 0;

    for (size_t i = 0; i < m->n; i++) {
        model_job *job = &m->jobs[(start + i) % m->n];

        if (job->place == where)
            return job;
    }
    return NULL;
}

/* ---- steps */

static void step_push(model *m)
{
    static const char *const keys[KEYS] = {NULL, "a", "b", "c"};
    size_t n = 1 + pick(m, 4);
    hw_push jobs[4];
    howdah_pushed pushed[4];

    assert_true(m->n + n <= JOBS_MAX);
    for (size_t i = 0; i < n; i++) {
        int key = (int)pick(m, KEYS);

        jobs[i] = a_job("1");
        jobs[i].key = S(keys[key]);
        jobs[i].priority = (int32_t)pick(m, 3);
        jobs[i].max_attempts = 1000;
        m->jobs[m->n + i] = (model_job){.key = key};
    }
    ok(m->q->push(m->t->store, S("q"), jobs, n, pushed, &ss_error));
    for (size_t i = 0; i < n; i++)
        m->jobs[m->n + i].id = pushed[i].id;
    m->n += n;
}

static void hand_out(model *m, int64_t id, int64_t token)
{
    model_job *job = find(m, id);

    if (!is_claimable(m, job)) {
        PQfinish(m->old); /* it would be in the way of what comes behind */
        fail_msg("job %lld of key %d should not have come", (long long)job->id, job->key);
    }
    assert_true(token > m->token);
    job->place = LEASED;
    job->token = token;
}

/* ---- by the SQL functions */

static PGconn *open_session(const ss *t)
{
    PGconn *conn = PQconnectdb(t->url);
    char *schema = PQescapeIdentifier(conn, t->schema, strlen(t->schema));
    char text[200];

    assert_non_null(schema);
    (void)snprintf(text, sizeof text, "SET search_path = %s", schema);
    PQfreemem(schema);
    PQclear(PQexec(conn, text));
    return conn;
}

/* Fails the test when the server refuses it, other than by asking for another try: then NULL. */
static PGresult *run_sql(PGconn *conn, const char *text)
{
    PGresult *r = PQexec(conn, text);
    const char *state = PQresultErrorField(r, PG_DIAG_SQLSTATE);

    if (state && strcmp(state, "40001") != 0)
        fail_msg("%s: %s", text, PQresultErrorMessage(r));
    if (!state)
        return r;
    PQclear(r);
    return NULL;
}

static PGresult *run_in_any_level(model *m, const char *text)
{
    static const char *const levels[] = {"read committed", "repeatable read", "serializable"};
    char set[80];
    PGresult *r;

    (void)snprintf(set, sizeof set, "SET default_transaction_isolation = '%s'", levels[pick(m, 3)]);
    PQclear(run_sql(m->sql, set));
    r = run_sql(m->sql, text);
    assert_non_null(r); /* nobody else is at work */
    return r;
}

static size_t claim_by_sql(model *m, int64_t n)
{
    char text[128];
    PGresult *r;
    int came;

    (void)snprintf(text, sizeof text, "SELECT id, token FROM claim('q', %lld, lease => '1 hour')",
                   (long long)n);
    r = run_in_any_level(m, text);
    came = PQntuples(r);
    for (int i = 0; i < came; i++)
        hand_out(m, strtoll(PQgetvalue(r, i, 0), NULL, 10), strtoll(PQgetvalue(r, i, 1), NULL, 10));
    if (came > 0)
        m->token = strtoll(PQgetvalue(r, 0, 1), NULL, 10);
    PQclear(r);
    return (size_t)came;
}

static void say_verdict(const model_job *job, int64_t token, howdah_verdict verdict, char text[128])
{
    static const char *const names[] = {"complete", "fail", "retry", "release", "extend"};

    (void)snprintf(text, 128, "SELECT %s(%lld, %lld%s)", names[verdict], (long long)job->id,
                   (long long)token, verdict == HOWDAH_VERDICT_RETRY ? ", '0'" : "");
}

static void ack_by_sql(model *m, const model_job *job, howdah_verdict verdict)
{
    for (int stale = 1; stale >= 0; stale--) {
        char text[128];
        PGresult *r;

        say_verdict(job, job->token - stale, verdict, text);
        r = run_in_any_level(m, text);
        assert_string_equal(PQgetvalue(r, 0, 0), stale ? "f" : "t");
        PQclear(r);
    }
}

/* Somebody takes a job up, and others go on; some steps later it is done, or it was too late. */
static void step_old_snapshot(model *m)
{
    model_job *job = m->in_old_hands;
    char text[128];
    PGresult *r;

    if (!job) {
        job = any_in(m, LEASED);
        if (!job)
            return;
        PQclear(run_sql(m->old, "BEGIN ISOLATION LEVEL REPEATABLE READ"));
        PQclear(run_sql(m->old, "SELECT FROM jobs"));
        m->in_old_hands = job;
        m->old_token = job->token;
        return;
    }
    m->in_old_hands = NULL;
    say_verdict(job, m->old_token, HOWDAH_VERDICT_COMPLETE, text);
    r = run_sql(m->old, text);
    if (r && *PQgetvalue(r, 0, 0) == 't') {
        assert_true(job->place == LEASED && job->token == m->old_token);
        job->place = COMPLETED;
    }
    PQclear(r);
    PQclear(run_sql(m->old, "COMMIT"));
}

/* ---- by any of them */

/* How many came. */
static size_t step_claim(model *m, int64_t n)
{
    batch b;

    if (m->sql)
        return claim_by_sql(m, n);
    b = claim(m->t, n);
    for (size_t i = 0; i < b.n; i++)
        hand_out(m, b.jobs[i].job.id, b.jobs[i].job.token);
    if (b.n > 0)
        m->token = b.jobs[0].job.token;
    return b.n;
}

static void step_claim_all(model *m)
{
    size_t claimable = 0;
    size_t claimed = 0;
    size_t n;

    for (size_t i = 0; i < m->n; i++)
        claimable += is_claimable(m, &m->jobs[i]);
    do {
        n = step_claim(m, 8);
        claimed += n;
    } while (n > 0);
    assert_int_equal(claimed, claimable);
}

static void step_ack(model *m, howdah_verdict verdict, place where)
{
    model_job *job = any_in(m, LEASED);
    hw_ack acks[2];
    howdah_ack_outcome acked[2];

    if (!job)
        return;
    acks[0] = (hw_ack){job->id, job->token - 1, verdict, S("x"), 0};
    acks[1] = (hw_ack){job->id, job->token, verdict, S("x"), 0};
    if (m->sql) {
        ack_by_sql(m, job, verdict);
    } else {
        ok(m->q->exchange(m->t->store, acks, 2, acked, NULL, NULL, NULL, NULL, &ss_error));
        assert_int_equal(acked[0], HOWDAH_ACKED_LOST);
        assert_int_equal(acked[1], HOWDAH_ACKED_DONE);
    }
    job->place = where;
    job->holds = where == FAILED && m->hold_key && job->key > 0;
}

static void step_cancel(model *m)
{
    model_job *job = any_in(m, (place)pick(m, PLACES - 1));
    bool can = job && job->place == READY;

    if (!job)
        return;
    expect(m->q->job_cancel(m->t->store, job->id, HW_STR_NULL, &ss_error),
           can ? HOWDAH_OK : HOWDAH_CONFLICT);
    if (can)
        job->place = FAILED;
}

static void step_retry(model *m)
{
    model_job *job = any_in(m, pick(m, 2) ? FAILED : (place)pick(m, PLACES - 1));
    bool can = job && (job->place == READY || job->place == FAILED);

    if (!job)
        return;
    expect(m->q->job_rerun(m->t->store, job->id, &ss_error), can ? HOWDAH_OK : HOWDAH_CONFLICT);
    if (can) {
        job->place = READY;
        job->holds = false;
    }
}

static void step_purge(model *m)
{
    int64_t expected = 0;
    int64_t n = -1;

    for (size_t i = 0; i < m->n; i++)
        if (m->jobs[i].place == READY) {
            m->jobs[i].place = PURGED;
            expected++;
        }
    ok(m->q->queue_purge(m->t->store, S("q"), &n, &ss_error));
    assert_int_equal(n, expected);
}

static void step(model *m)
{
    switch (pick(m, 16)) {
    case 0:
    case 1:
    case 2:
        step_push(m);
        break;
    case 3:
    case 4:
    case 5:
        (void)step_claim(m, 1 + pick(m, 4));
        break;
    case 6:
        step_claim_all(m);
        break;
    case 7:
    case 8:
        step_ack(m, HOWDAH_VERDICT_COMPLETE, COMPLETED);
        break;
    case 9:
    case 10:
        step_ack(m, HOWDAH_VERDICT_FAIL, FAILED);
        break;
    case 11:
        step_ack(m, HOWDAH_VERDICT_RETRY, READY);
        break;
    case 12:
        step_ack(m, HOWDAH_VERDICT_RELEASE, READY);
        break;
    case 13:
        step_ack(m, HOWDAH_VERDICT_EXTEND, LEASED);
        break;
    case 14:
        step_cancel(m);
        break;
    default:
        step_retry(m);
    }
    if (pick(m, 100) == 0)
        step_purge(m);
    if (m->sql && pick(m, 4) == 0)
        step_old_snapshot(m);
}

static void compare(const model *m)
{
    howdah_queue_info found = load_queue(m->t, "q");
    int64_t counts[PLACES] = {0};

    for (size_t i = 0; i < m->n; i++)
        counts[m->jobs[i].place]++;
    assert_int_equal(found.pending + found.scheduled, counts[READY]);
    assert_int_equal(found.processing, counts[LEASED]);
    assert_int_equal(found.completed, counts[COMPLETED]);
    assert_int_equal(found.failed, counts[FAILED]);
    assert_int_equal(found.purged, counts[PURGED]);
}

static void run_model(const ss *t, bool hold_key, bool by_sql)
{
    model *m = calloc(1, sizeof *m);
    howdah_queue_options settings = keep_all();

    assert_non_null(m);
    m->t = t;
    m->q = jobs_ops(t);
    m->seed = choose_seed();
    m->hold_key = hold_key;
    if (by_sql) {
        m->sql = open_session(t);
        m->old = open_session(t);
    }
    settings.hold_key = hold_key;
    put_queue(t, "q", settings);
    for (int i = 0; i < STEPS; i++) {
        step(m);
        if (i % 5 == 0)
            compare(m);
    }
    step_claim_all(m);
    compare(m);
    PQfinish(m->sql);
    PQfinish(m->old);
    free(m);
}

static void random_steps_agree_with_the_model(void **state)
{
    run_model(*state, false, false);
}

static void random_steps_agree_with_the_model_when_keys_are_held(void **state)
{
    run_model(*state, true, false);
}

static void random_steps_of_workers_in_sql_agree_with_the_model(void **state)
{
    run_model(*state, false, ss_is_pg());
}

static void random_steps_of_workers_in_sql_agree_with_the_model_when_keys_are_held(void **state)
{
    run_model(*state, true, ss_is_pg());
}

/* ---- memory */

static int ignore_queue(void *ctx, const howdah_queue_info *queue)
{
    (void)ctx;
    (void)queue;
    return 0;
}

/* All that is done to a queue; under a key of its own, since a failure may leave it leased. */
static void run_script(const ss *t, const char *key)
{
    const hw_queue_ops *q = t->store->ops->queue;
    hw_claim ask = {.queue = S("q"), .worker = S("w"), .n = 20, .lease_ms = LONG_MS};
    howdah_queue_history_options options = {.status = HOWDAH_ABSENT, .limit = 20, .payload = true};
    hw_push jobs[2] = {a_keyed_job("1", key), a_keyed_job("2", key)};
    howdah_pushed pushed[2];
    batch b = {.n = 0};
    hw_ack acks[20];
    howdah_ack_outcome acked[20];
    hw_claim_report report;
    bool more;

    if (!fine(q->push(t->store, S("q"), jobs, 2, pushed, &ss_error)) ||
        !fine(q->exchange(t->store, NULL, 0, NULL, &ask, jobs_keep, &b, &report, &ss_error)))
        return;
    for (size_t i = 0; i < b.n; i++)
        acks[i] = (hw_ack){b.jobs[i].job.id, b.jobs[i].job.token, HOWDAH_VERDICT_FAIL, S("x"), 0};
    (void)fine(q->exchange(t->store, acks, b.n, acked, NULL, NULL, NULL, NULL, &ss_error));
    for (size_t i = 0; i < b.n; i++) {
        int s = q->job_rerun(t->store, b.jobs[i].job.id, &ss_error);

        /* When the ack has failed it is leased. */
        if ((s == HOWDAH_CONFLICT && poor_failed) || !fine(s))
            continue;
        (void)fine(q->job_cancel(t->store, b.jobs[i].job.id, S("why"), &ss_error));
    }
    b.n = 0;
    (void)fine(q->job_load(t->store, pushed[0].id, jobs_keep, &b, &ss_error));
    b.n = 0;
    (void)fine(q->log(t->store, S("q"), &options, jobs_keep, &b, &ss_error));
    (void)fine(q->queue_load(t->store, S("q"), ignore_queue, NULL, &ss_error));
    (void)fine(q->queue_list(t->store, ignore_queue, NULL, &ss_error));
    (void)fine(q->queue_summary(t->store, ignore_queue, NULL, &ss_error));
    (void)fine(q->maintain(t->store, S("q"), &more, &ss_error));
    (void)fine(q->queue_purge(t->store, S("q"), NULL, &ss_error));
}

static void an_allocation_that_fails_is_said_and_loses_no_job(void **state)
{
    ss *t = *state;
    howdah_queue_info found;
    int64_t pushed;
    long n = 0;

    put_queue(t, "q", keep_all());
    assert_int_equal(howdah_allocator_set(&poor_hooks), HOWDAH_OK);
    do {
        char key[32];

        (void)snprintf(key, sizeof key, "k%ld", n);
        poor_failed = false;
        poor_left = n++;
        run_script(t, key);
        poor_left = -1;
        assert_true(n < 1000);
    } while (poor_failed);
    assert_true(n > 1);
    assert_int_equal(howdah_allocator_set(NULL), HOWDAH_OK);
    found = load_queue(t, "q");
    pushed = found.pending + found.processing + found.scheduled + found.completed + found.failed +
             found.purged;
    assert_true(pushed % 2 == 0 && pushed > 0);
}

ss_group ss_queue_model_tests(void)
{
    static const struct CMUnitTest tests[] = {
        SS_TEST(random_steps_agree_with_the_model),
        SS_TEST(random_steps_agree_with_the_model_when_keys_are_held),
        SS_TEST(random_steps_of_workers_in_sql_agree_with_the_model),
        SS_TEST(random_steps_of_workers_in_sql_agree_with_the_model_when_keys_are_held),
        SS_TEST(an_allocation_that_fails_is_said_and_loses_no_job),
    };
    return SS_GROUP(tests);
}
