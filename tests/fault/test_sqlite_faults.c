/*
 * test_sqlite_faults.c - every write, sync, open and truncate fails once, and from then on.
 *
 * A script of 20 operations runs over a file system that fails its nth operation; then the file is
 * looked at with a healthy one.  For every n, until the script gets
 * through untouched:
 *
 *   - the script does not crash;
 *   - what was acknowledged is there, where it was said to be;
 *   - a failure without OUTCOME_UNKNOWN has stored nothing, one with it all or nothing;
 *   - after a single fault, repeating the call with the same events succeeds;
 *   - integrity_check is ok, and appending everything again stores what is missing, nothing twice.
 *
 * Every other run is in a process of its own and ends without closing the bus, as a killed process
 * would.
 */
#include <sys/mman.h>

#include "sqlite_help.h"
#include "sqlite_vfs.h"

#define EVENTS_MAX 128
#define TRIES 4 /* of one operation after a single fault */

/* What happened to the events; shared with the script's process, where it has one. */
typedef struct record {
    char id[EVENTS_MAX][HOWDAH_UUID_SIZE];
    howdah_position position[EVENTS_MAX];
    bool acknowledged[EVENTS_MAX];
    bool refused[EVENTS_MAX]; /* said to be not stored, and not tried again */
    unsigned count;           /* operations of the plan's kinds */
    unsigned failed;          /* of them */
    char why[600];            /* the first thing that should not have happened */
} record;

typedef struct script {
    const place *p;
    record *r;
    howdah_bus *bus;
    howdah_event *events[EVENTS_MAX];
    size_t n;
    bool retry; /* a single fault: everything must work in the end */
    bool dead;  /* no bus: nothing more can be done */
} script;

/* The operations, in order.  Appends take the next events; streams are named by letters. */
typedef enum op_kind { OP_OPEN, OP_MIGRATE, OP_APPEND, OP_READ, OP_LAST, OP_CLOSE } op_kind;

typedef struct op {
    op_kind kind;
    const char *streams; /* OP_APPEND: one event for each dead letter */
    size_t payload;      /* bytes of each event's payload, 0: few */
} op;

static const op small_script[] = {
    {OP_OPEN, NULL, 0},      {OP_MIGRATE, NULL, 0}, {OP_APPEND, "a", 0},      {OP_APPEND, "b", 0},
    {OP_APPEND, "aaaaa", 0}, {OP_READ, NULL, 0},    {OP_APPEND, "abcabc", 0}, {OP_LAST, NULL, 0},
    {OP_APPEND, "c", 20000}, {OP_APPEND, "a", 0},   {OP_CLOSE, NULL, 0},      {OP_OPEN, NULL, 0},
    {OP_APPEND, "ab", 0},    {OP_READ, NULL, 0},    {OP_MIGRATE, NULL, 0},    {OP_APPEND, "d", 0},
    {OP_APPEND, "ddd", 0},   {OP_APPEND, "e", 0},   {OP_READ, NULL, 0},       {OP_APPEND, "a", 0},
};

/* Larger than SQLite's cache and than the distance between two checkpoints. */
static const op large_script[] = {
    {OP_OPEN, NULL, 0},     {OP_MIGRATE, NULL, 0},
    {OP_APPEND, "a", 0},    {OP_APPEND, "b", 0},
    {OP_APPEND, "aabb", 0}, {OP_READ, NULL, 0},
    {OP_APPEND, "c", 0},    {OP_APPEND, "llllllll", 600000},
    {OP_APPEND, "a", 0},    {OP_READ, NULL, 0},
    {OP_APPEND, "b", 0},    {OP_LAST, NULL, 0},
    {OP_APPEND, "cc", 0},   {OP_APPEND, "lcl", 0},
    {OP_APPEND, "d", 0},    {OP_CLOSE, NULL, 0},
    {OP_OPEN, NULL, 0},     {OP_APPEND, "a", 0},
    {OP_READ, NULL, 0},     {OP_APPEND, "b", 0},
};

#define OPS 20

_Static_assert(sizeof small_script / sizeof *small_script == OPS, "a script of 20 operations");
_Static_assert(sizeof large_script / sizeof *large_script == OPS, "a script of 20 operations");

static void complain(script *s, const char *what, int status, const howdah_error *err)
{
    if (!s->r->why[0])
        (void)snprintf(s->r->why, sizeof s->r->why, "%s: %s: %.400s", what,
                       howdah_status_name(status), err->message);
}

/* ------------------------------------------------------------- the script */

static howdah_event *script_event(char stream, size_t payload)
{
    char name[2] = {stream, '\0'};
    size_t len = payload > 16 ? payload : 16;
    char *json = malloc(len + 1);
    howdah_event *event;

    if (!json)
        abort();
    (void)memset(json, 'p', len);
    json[0] = '"';
    json[len - 1] = '"';
    json[len] = '\0';
    event = make_event(name, "script.ran", json);
    free(json);
    return event;
}

/* How many of the events are stored; looked up with the faults off. */
static int64_t count_stored(const script *s, size_t first, size_t n)
{
    char sql[EVENTS_MAX * 48 + 128] = "SELECT count(*) FROM howdah_events WHERE id IN (";

    if (raw_number(s->p->file, "SELECT count(*) FROM sqlite_master WHERE name = 'howdah_events'") ==
        0)
        return 0;
    for (size_t i = first; i < first + n; i++) {
        char hex[40];
        size_t len = 0;

        for (const char *c = s->r->id[i]; *c; c++)
            if (*c != '-')
                hex[len++] = *c;
        hex[len] = '\0';
        (void)snprintf(sql + strlen(sql), sizeof sql - strlen(sql), "%sx'%s'", i > first ? "," : "",
                       hex);
    }
    (void)strcat(sql, ")");
    return raw_number(s->p->file, sql);
}

/* Only after a single fault: then looking is not disturbed, and does not use up a fault. */
static void check_claim(script *s, size_t first, size_t n, int status, const howdah_error *err)
{
    int64_t stored;

    if (!s->retry || status >= 0)
        return;
    stored = count_stored(s, first, n);
    if (err->flags & HOWDAH_OUTCOME_UNKNOWN) {
        if (stored != 0 && stored != (int64_t)n)
            complain(s, "stored in part", status, err);
        if (err->flags & HOWDAH_RETRYABLE)
            complain(s, "retryable says that nothing was stored, unknown that it may be", status,
                     err);
    } else if (stored != 0) {
        complain(s, "said to be not stored, but is", status, err);
    } else if (!(err->flags & HOWDAH_RETRYABLE)) {
        complain(s, "neither retryable nor unknown", status, err);
    }
}

static void run_append(script *s, const op *o)
{
    howdah_position positions[EVENTS_MAX] = {HOWDAH_POSITION_INIT};
    size_t n = strlen(o->streams);
    size_t first = s->n;
    bool unknown = false;
    int status = HOWDAH_FAILED;

    for (size_t i = 0; i < n; i++) {
        s->events[s->n] = script_event(o->streams[i], o->payload);
        howdah_event_id(s->events[s->n], s->r->id[s->n]);
        s->n++;
    }
    for (int try = 0; status < 0 && try < (s->retry ? TRIES : 1); try++) {
        howdah_error err = HOWDAH_ERROR_INIT;

        status = howdah_append_batch(s->bus, (const howdah_event *const *)s->events + first, n,
                                     NULL, positions, &err);
        unknown = unknown || (err.flags & HOWDAH_OUTCOME_UNKNOWN);
        check_claim(s, first, n, status, &err);
        if (status < 0 && try == TRIES - 1)
            complain(s, "append does not settle", status, &err);
        if (status == HOWDAH_CONFLICT || status == HOWDAH_ID_REUSED || status == HOWDAH_CORRUPT)
            complain(s, "append", status, &err);
    }
    for (size_t i = first; i < first + n; i++) {
        s->r->acknowledged[i] = status >= 0;
        s->r->refused[i] = status < 0 && !unknown;
        if (status >= 0)
            s->r->position[i] = positions[i - first];
    }
}

/* A read gives everything that was acknowledged, or an error. */
static int read_all(script *s, howdah_error *err)
{
    howdah_reader *reader = NULL;
    const howdah_event *event = NULL;
    size_t acknowledged = 0;
    size_t seen = 0;
    int status = howdah_reader_open(s->bus, NULL, &reader, err);

    while (status == HOWDAH_OK) {
        status = howdah_reader_next(reader, &event, err);
        seen += status == HOWDAH_OK;
    }
    howdah_reader_close(reader);
    for (size_t i = 0; i < s->n; i++)
        acknowledged += s->r->acknowledged[i];
    if (status >= 0 && seen < acknowledged)
        complain(s, "a read misses acknowledged events", status, err);
    return status;
}

static int run_once(script *s, const op *o, howdah_error *err)
{
    howdah_event *event = NULL;
    int status = HOWDAH_OK;

    switch (o->kind) {
    case OP_OPEN:
        return s->bus ? HOWDAH_OK : howdah_open(s->p->url, NULL, &s->bus, err);
    case OP_MIGRATE:
        return howdah_migrate(s->bus, NULL, err);
    case OP_READ:
        return read_all(s, err);
    case OP_LAST:
        status = howdah_event_get_last(s->bus, "a", &event, err);
        howdah_event_free(event);
        return status == HOWDAH_NOT_FOUND ? HOWDAH_OK : status;
    case OP_CLOSE:
        howdah_close(s->bus);
        s->bus = NULL;
        return HOWDAH_OK;
    case OP_APPEND:
        break;
    }
    return status;
}

static void run_op(script *s, const op *o)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    int status = HOWDAH_FAILED;

    if (!s->bus && o->kind != OP_OPEN)
        return;
    if (o->kind == OP_APPEND) {
        run_append(s, o);
        return;
    }
    for (int try = 0; status < 0 && try < (s->retry ? TRIES : 1); try++)
        status = run_once(s, o, &err);
    if (s->retry && status < 0)
        complain(s, "does not settle", status, &err);
}

static void run_script(const place *p, const op *ops, record *r, fault_plan plan, bool close)
{
    script s = {.p = p, .r = r, .retry = !plan.forever};

    fault_vfs_arm(plan);
    for (size_t i = 0; i < OPS; i++)
        run_op(&s, &ops[i]);
    if (close)
        howdah_close(s.bus);
    r->count = fault_vfs_count();
    r->failed = fault_vfs_failed();
    fault_vfs_disarm();
    /* What was to be stored is left for the check, by its stream and id. */
    for (size_t i = 0; i < s.n; i++)
        howdah_event_free(s.events[i]);
}

/* -------------------------------------------------------------- the check */

static howdah_event *rebuild(char stream, size_t payload, const char *id)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_event *event = script_event(stream, payload);
    howdah_builder *b = NULL;
    howdah_event *same = NULL;

    must(howdah_builder_from_event(event, &b, &err), &err);
    howdah_builder_set_id(b, id);
    must(howdah_builder_build(b, &same, &err), &err);
    howdah_builder_free(b);
    howdah_event_free(event);
    return same;
}

/* A killed process's log is recovered: what was refused must not rise from it. */
static void check_claims(howdah_bus *bus, const record *r)
{
    for (size_t i = 0; i < EVENTS_MAX; i++) {
        howdah_error err = HOWDAH_ERROR_INIT;
        howdah_event *event = NULL;

        if (r->refused[i])
            assert_status(howdah_event_get(bus, r->id[i], &event, &err), HOWDAH_NOT_FOUND);
        if (!r->acknowledged[i])
            continue;
        must(howdah_event_get(bus, r->id[i], &event, &err), &err);
        assert_i64_equal(howdah_event_global_sequence(event), r->position[i].global_sequence);
        assert_i64_equal(howdah_event_version(event), r->position[i].version);
        howdah_event_free(event);
    }
}

/* Appends every event of the script again, one by one: each is there in the end, once. */
static void append_again(howdah_bus *bus, const op *ops, const record *r)
{
    size_t i = 0;

    for (size_t k = 0; k < OPS; k++)
        for (const char *c = ops[k].streams; c && *c; c++) {
            howdah_error err = HOWDAH_ERROR_INIT;
            howdah_position position = HOWDAH_POSITION_INIT;
            howdah_event *event;

            if (r->id[i][0]) {
                event = rebuild(*c, ops[k].payload, r->id[i]);
                must(howdah_append(bus, event, NULL, &position, &err), &err);
                if (r->acknowledged[i])
                    assert_int_equal(position.already_stored, 1);
                howdah_event_free(event);
                i++;
            }
        }
    assert_i64_equal(count_read(bus, NULL), (int64_t)i);
}

static void check_file(const place *p, const op *ops, const record *r)
{
    howdah_bus *bus;
    char verdict[128];

    if (r->why[0])
        fail_msg("%s", r->why);
    raw_text(p->file, "PRAGMA integrity_check", verdict, sizeof verdict);
    assert_string_equal(verdict, "ok");
    bus = open_migrated(p->url);
    check_claims(bus, r);
    append_again(bus, ops, r);
    howdah_close(bus);
    raw_text(p->file, "PRAGMA integrity_check", verdict, sizeof verdict);
    assert_string_equal(verdict, "ok");
    assert_i64_equal(raw_number(p->file, "SELECT count(*) FROM (SELECT max(version) - count(*) AS d"
                                         " FROM howdah_events GROUP BY stream) WHERE d <> 0"),
                     0);
}

/* -------------------------------------------------------------- the sweep */

static record *shared_record(void)
{
    void *memory =
        mmap(NULL, sizeof(record), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    assert_true(memory != MAP_FAILED);
    return memory;
}

/* As a process that is killed: the bus stays open, and goes with the process. */
static void run_and_vanish(const place *p, const op *ops, record *r, fault_plan plan)
{
    pid_t pid = fork();

    if (pid == 0) {
        run_script(p, ops, r, plan, false);
        _exit(0);
    }
    assert_int_equal(child_result(pid), 0);
}

/* One run; false when the plan found nothing left to fail. */
static bool run_plan(const place *p, const op *ops, record *r, fault_plan plan)
{
    empty_directory(p->dir);
    (void)memset(r, 0, sizeof *r);
    if (plan.nth % 2 == 0)
        run_script(p, ops, r, plan, true);
    else
        run_and_vanish(p, ops, r, plan);
    check_file(p, ops, r);
    return r->failed > 0;
}

#ifdef __SANITIZE_ADDRESS__
#define SPARSE_PERCENT 60 /* four times as slow: more distance; the other build has all of them */
#else
#define SPARSE_PERCENT 0
#endif

/*
 * Where the next fault goes.  Scripts have hundreds or thousands of writes, so the distance grows
 * with n; HOWDAH_TEST_EVERY=1 takes every one of them.
 */
static unsigned next_nth(unsigned nth, unsigned percent)
{
    return nth + 1 + (getenv("HOWDAH_TEST_EVERY") ? 0 : nth * (percent + SPARSE_PERCENT) / 100);
}

static void sweep(const place *p, const op *ops, unsigned kinds, unsigned percent)
{
    static const fault_error errors[] = {FAULT_IOERR, FAULT_FULL, FAULT_TORN};
    record *r = shared_record();

    for (int forever = 0; forever < 2; forever++)
        for (size_t e = 0; e < sizeof errors / sizeof *errors; e++) {
            fault_plan plan = {kinds, 1, forever != 0, errors[e]};
            unsigned runs = 1;

            if (errors[e] != FAULT_IOERR && !(kinds & FAULT_WRITE))
                continue; /* only a write tells them apart */
            while (run_plan(p, ops, r, plan)) {
                plan.nth = next_nth(plan.nth, percent);
                runs++;
            }
            assert_true(runs > 1);
        }
    (void)munmap(r, sizeof *r);
}

static void a_script_without_faults_stores_everything(void **state)
{
    const place *p = *state;
    record *r = shared_record();

    assert_false(run_plan(p, small_script, r, (fault_plan){FAULT_ANY, 0, false, FAULT_IOERR}));
    assert_true(r->count > 100);
    for (size_t i = 0; r->id[i][0]; i++)
        assert_true(r->acknowledged[i]);
    assert_false(run_plan(p, large_script, r, (fault_plan){FAULT_ANY, 0, false, FAULT_IOERR}));
    assert_true(r->count > 2000);
    (void)munmap(r, sizeof *r);
}

static void a_failing_write_loses_nothing_acknowledged(void **state)
{
    sweep(*state, small_script, FAULT_WRITE, 15);
}

static void a_failing_sync_loses_nothing_acknowledged(void **state)
{
    sweep(*state, small_script, FAULT_SYNC, 0);
}

static void a_failing_open_loses_nothing_acknowledged(void **state)
{
    sweep(*state, small_script, FAULT_OPEN, 0);
}

static void a_failing_truncate_loses_nothing_acknowledged(void **state)
{
    sweep(*state, large_script, FAULT_TRUNCATE, 0);
}

static void a_failing_shared_index_loses_nothing_acknowledged(void **state)
{
    sweep(*state, small_script, FAULT_SHM, 0);
}

static void a_failing_checkpoint_loses_nothing_acknowledged(void **state)
{
    sweep(*state, large_script, FAULT_SYNC, 20);
}

static void a_failing_write_in_large_batches_loses_nothing_acknowledged(void **state)
{
    sweep(*state, large_script, FAULT_WRITE, 100);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(a_script_without_faults_stores_everything),
        TEST(a_failing_write_loses_nothing_acknowledged),
        TEST(a_failing_sync_loses_nothing_acknowledged),
        TEST(a_failing_open_loses_nothing_acknowledged),
        TEST(a_failing_truncate_loses_nothing_acknowledged),
        TEST(a_failing_shared_index_loses_nothing_acknowledged),
        TEST(a_failing_checkpoint_loses_nothing_acknowledged),
        TEST(a_failing_write_in_large_batches_loses_nothing_acknowledged),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    if (!fault_vfs_install())
        return 1;
    return cmocka_run_group_tests_name("sqlite faults", tests, NULL, NULL);
}
