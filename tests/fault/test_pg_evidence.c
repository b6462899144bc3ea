/*
 * test_pg_evidence.c - the holders of numbers, the gaps between them, and whether a log is still
 * the one that a checkpoint was stored for.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "store/pg/pg.h"
#include "test_pg_help.h"

typedef struct sight {
    int64_t drawn;
    hw_holder *items;
    size_t n;
} sight;

static sight look(hw_store *store)
{
    sight o = {0};

    assert_int_equal(store->ops->subs->holders(store, &o.drawn, &o.items, &o.n, &pgt_error),
                     HOWDAH_OK);
    return o;
}

static size_t count(hw_store *store)
{
    sight o = look(store);

    hw_free(o.items);
    return o.n;
}

/* The only holder there is. */
static hw_holder only_one_at(hw_store *store, int line)
{
    sight o = look(store);
    hw_holder one;

    if (o.n != 1)
        fail_msg("line %d: %zu holders", line, o.n);
    one = o.items[0];
    hw_free(o.items);
    return one;
}

#define only_one(store) only_one_at((store), __LINE__)
#define only(store) (only_one(store).xid)

static void append(const pgt *t, PGconn *conn)
{
    pgt_run(t, conn, "SELECT {append}('s-' || pg_backend_pid(), 't')");
}

/* ---- holders */

static void whoever_drew_a_number_holds_it_until_the_end(void **state)
{
    pgt *t = *state;
    hw_store *store = pgt_store(t, NULL);
    PGconn *a = pgt_session(t->url);
    PGconn *b = pgt_session(t->url);
    uint64_t id;

    assert_int_equal(count(store), 0);
    pgt_run(t, a, "BEGIN");
    pgt_run(t, b, "BEGIN");
    pgt_run(t, b, "CREATE TABLE {unrelated} (n integer)"); /* a transaction id, but no number */
    assert_int_equal(count(store), 0);
    append(t, a);
    id = only(store);
    assert_int_equal(id, pgt_number(t, a, "SELECT pg_current_xact_id()::text"));
    append(t, b);
    assert_int_equal(count(store), 2);
    pgt_run(t, b, "ROLLBACK");
    assert_int_equal(only(store), id);
    pgt_run(t, a, "COMMIT");
    assert_int_equal(count(store), 0);
    PQfinish(a);
    PQfinish(b);
    pgt_store_close(store);
}

static void a_holder_keeps_its_name_under_savepoints(void **state)
{
    pgt *t = *state;
    hw_store *store = pgt_store(t, NULL);
    PGconn *a = pgt_session(t->url);
    uint64_t id;

    pgt_run(t, a, "BEGIN; SAVEPOINT x");
    append(t, a);
    id = only(store);
    assert_int_equal(id, pgt_number(t, a, "SELECT pg_current_xact_id()::text"));
    for (int i = 0; i < 70; i++) { /* more than a backend shows of its subtransactions */
        pgt_run(t, a, "SAVEPOINT s%d", i);
        append(t, a);
    }
    assert_int_equal(only(store), id);
    /* What the savepoint drew is undone, but the lock belongs to the whole transaction. */
    pgt_run(t, a, "ROLLBACK TO x");
    assert_int_equal(only(store), id);
    pgt_run(t, a, "COMMIT");
    assert_int_equal(count(store), 0);
    PQfinish(a);
    pgt_store_close(store);
}

static int keep_blocker(void *ctx, const hw_blocker *blocker)
{
    (void)snprintf(ctx, 200, "%s", blocker->name.s);
    assert_true(blocker->age_ms >= 0);
    return 0;
}

static int keep_writer(void *ctx, const howdah_fact *fact)
{
    if (strcmp(fact->key, "oldest_writer") == 0)
        (void)snprintf(ctx, 200, "%s", fact->value);
    return 0;
}

static void a_holder_keeps_its_name_when_it_is_prepared(void **state)
{
    pgt *t = *state;
    hw_store *store = pgt_store(t, NULL);
    PGconn *a = pgt_session(t->url);
    char name[200] = "";
    char expected[200];
    uint64_t id;

    pgt_run(t, a, "SET application_name = 'billing'; BEGIN; SAVEPOINT x");
    append(t, a);
    pgt_run(t, a, "SAVEPOINT y");
    append(t, a);
    id = only(store);
    pgt_ok(store->ops->subs->blockers(store, keep_blocker, name, &pgt_error));
    (void)snprintf(expected, sizeof expected, "pid %d (billing)", PQbackendPID(a));
    assert_string_equal(name, expected);
    pgt_run(t, a, "PREPARE TRANSACTION 'own %s'", t->schema);
    assert_int_equal(only(store), id);
    PQfinish(a);
    pgt_wait_for(t, t->admin, 0,
                 "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'billing'");
    assert_int_equal(only(store), id);
    pgt_ok(store->ops->subs->blockers(store, keep_blocker, name, &pgt_error));
    (void)snprintf(expected, sizeof expected, "prepared own %s", t->schema);
    assert_string_equal(name, expected);
    name[0] = '\0';
    pgt_ok(store->ops->status(store, keep_writer, name, &pgt_error));
    assert_string_equal(name, expected);
    pgt_run(t, t->admin, "COMMIT PREPARED 'own %s'", t->schema);
    assert_int_equal(count(store), 0);
    pgt_store_close(store);
}

/* Draws a number by hand in a transaction without an id; nextval() itself asks for one once in 32
   numbers only. */
static void draw_without_id(const pgt *t, PGconn *conn)
{
    for (int i = 0; i < 3; i++) {
        pgt_run(t, conn, "BEGIN");
        pgt_run(t, conn, "SELECT nextval('{events_global_sequence_seq}')");
        if (strcmp(pgt_text(t, conn, "SELECT pg_current_xact_id_if_assigned()"), "NULL") == 0)
            return;
        pgt_run(t, conn, "ROLLBACK");
    }
    fail_msg("every number came with an id");
}

static void a_holder_without_a_transaction_id_is_known_by_its_virtual_one(void **state)
{
    pgt *t = *state;
    hw_store *store = pgt_store(t, NULL);
    PGconn *a = pgt_session(t->url);
    hw_holder before;
    hw_holder after;

    draw_without_id(t, a);
    before = only_one(store);
    assert_int_equal(before.xid, 0);
    assert_true(before.virtual_id != 0);
    pgt_run(t, a, "SELECT pg_current_xact_id()");
    after = only_one(store);
    assert_true(after.virtual_id == before.virtual_id);
    assert_true(after.xid != 0);
    pgt_run(t, a, "COMMIT");
    assert_int_equal(count(store), 0);
    draw_without_id(t, a);
    assert_true(only_one(store).virtual_id != before.virtual_id);
    pgt_run(t, a, "COMMIT");
    PQfinish(a);
    pgt_store_close(store);
}

static void who_does_nothing_shows_since_when(void **state)
{
    pgt *t = *state;
    hw_store *store = pgt_store(t, NULL);
    PGconn *a = pgt_session(t->url);
    uint64_t idle;

    pgt_run(t, a, "BEGIN");
    append(t, a);
    idle = only_one(store).idle;
    assert_true(idle > 1);
    assert_true(only_one(store).idle == idle);
    append(t, a);
    assert_true(only_one(store).idle > idle);
    assert_int_equal(PQsendQuery(a, "SELECT pg_sleep(60)"), 1);
    pgt_wait_for(t, t->admin, 1,
                 "SELECT count(*) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(60)'"
                 " AND state = 'active'");
    assert_int_equal(only_one(store).idle, 0); /* busy: who knows what it draws */
    pgt_run(t, t->admin, "SELECT pg_terminate_backend(%d)", PQbackendPID(a));
    PQfinish(a);
    while (count(store) > 0)
        (void)usleep(2000);
    a = pgt_session(t->url);
    pgt_run(t, a, "BEGIN");
    append(t, a);
    pgt_run(t, a, "PREPARE TRANSACTION 'idle %s'", t->schema);
    assert_int_equal(only_one(store).idle, 1);
    pgt_run(t, t->admin, "ROLLBACK PREPARED 'idle %s'", t->schema);
    PQfinish(a);
    pgt_store_close(store);
}

/* What it has to tell others about its tables makes its end long: rows first, then locks. */
static void whoever_shows_its_rows_holds_no_number_any_more(void **state)
{
    pgt *t = *state;
    hw_store *store = pgt_store(t, NULL);
    PGconn *conn = pgt_session(t->url);

    for (int round = 1; round <= 10; round++) {
        pgt_run(t, conn, "BEGIN");
        append(t, conn);
        pgt_run(t, conn,
                "DO $$ BEGIN FOR i IN 1..200 LOOP CREATE TABLE {of_slow} (a int PRIMARY KEY);"
                " DROP TABLE {of_slow}; END LOOP; END $$");
        assert_int_equal(count(store), 1);
        assert_int_equal(PQsendQuery(conn, "COMMIT"), 1);
        while (pgt_count(t) < round)
            continue;
        assert_int_equal(count(store), 0);
        PQclear(PQgetResult(conn));
        assert_null(PQgetResult(conn));
    }
    pgt_store_close(store);
    PQfinish(conn);
}

static void the_numbers_of_another_bus_are_not_ours(void **state)
{
    pgt *t = *state;
    hw_store *store = pgt_store(t, NULL);
    PGconn *a = pgt_session(t->url);
    pgt other = *t;

    (void)snprintf(other.schema, sizeof other.schema, "other %d", (int)getpid());
    other.settings = pgt_settings(&other, "schema", other.schema);
    other.bus = pgt_open(&other, other.url);
    pgt_ok(howdah_migrate(other.bus, NULL, &pgt_error));
    pgt_run(&other, a, "BEGIN");
    append(&other, a);
    assert_int_equal(count(store), 0);
    pgt_run(&other, a,
            "ROLLBACK; DROP SCHEMA {schema} CASCADE;"
            " DROP ROLE {_publish}, {_read}, {_subscribe}, {_work}, {_admin}");
    howdah_close(other.bus);
    howdah_settings_free(other.settings);
    PQfinish(a);
    pgt_store_close(store);
}

/* ---- the proof: what was given up never appears */

#define WRITERS 8
#define RACE_MS 3000
#define NUMBERS_MAX 400000
#define PAGE 1000

typedef enum fate { UNKNOWN, MISSING, SEEN, RESOLVED } fate;

typedef struct race {
    hw_store *store;
    fate fate[NUMBERS_MAX];
    int64_t high;
    hw_holders holders;
    int64_t resolved;
    int64_t late;       /* filled after they were seen missing */
    int64_t below_open; /* given up while an older transaction was open */
} race;

static void write_once(const pgt *t, PGconn *conn, int me, int i, unsigned *seed)
{
    unsigned dice = (unsigned)rand_r(seed) % 12; /* NOLINT(cert-msc30-c,cert-msc50-c) */
    int events = 1 + (int)(rand_r(seed) % 3);    /* NOLINT(cert-msc30-c,cert-msc50-c) */

    pgt_run(t, conn, "BEGIN");
    for (int k = 0; k < events; k++) {
        pgt_run(t, conn, "SAVEPOINT a");
        pgt_run(t, conn, "SELECT {append}('w%d-' || pg_backend_pid(), 't')", me);
        if (dice == 0)
            pgt_run(t, conn, "ROLLBACK TO a");
        if (dice > 6)
            (void)usleep((useconds_t)(rand_r(seed) % 4000)); /* NOLINT */
    }
    if (dice < 3 || dice > 9) {
        pgt_run(t, conn, dice == 1 ? "ROLLBACK" : "COMMIT");
        return;
    }
    if (dice == 3)
        (void)usleep(20000);
    pgt_run(t, conn, "PREPARE TRANSACTION 'w %s %d %d'", t->schema, me, i);
    if (dice > 6)
        (void)usleep((useconds_t)(rand_r(seed) % 4000)); /* NOLINT */
    pgt_run(t, conn, "%s PREPARED 'w %s %d %d'", dice == 4 ? "ROLLBACK" : "COMMIT", t->schema, me,
            i);
}

static pid_t start_writer(const pgt *t, int me)
{
    pid_t pid = fork();
    int64_t until = pgt_now_ms() + RACE_MS;
    unsigned seed = (unsigned)me + 1;
    PGconn *conn;

    if (pid != 0)
        return pid;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    conn = pgt_session(t->url);
    for (int i = 0; pgt_now_ms() < until; i++)
        write_once(t, conn, me, i, &seed);
    PQfinish(conn);
    _exit(0);
}

static void see(race *r, int64_t n)
{
    assert_in_range(n, 1, NUMBERS_MAX - 1);
    if (r->fate[n] == RESOLVED)
        fail_msg("number %lld was given up, and appeared", (long long)n);
    r->late += r->fate[n] == MISSING;
    r->fate[n] = SEEN;
    for (; r->high < n; r->high++)
        if (r->high + 1 < n && r->fate[r->high + 1] == UNKNOWN)
            r->fate[r->high + 1] = MISSING;
}

/* Evidence, then rows, then verdict. */
static void go_round(race *r)
{
    sight o = look(r->store);
    int64_t high = r->high;
    hw_range ranges[2000];
    size_t n = 0;
    hw_cursor *cursor = NULL;
    const howdah_event *events = NULL;
    size_t got = 0;

    pgt_ok(hw_holders_look(&r->holders, o.drawn, o.items, o.n, &pgt_error));
    hw_free(o.items);
    for (int64_t i = 1; i <= high; i++) {
        if (r->fate[i] != MISSING)
            continue;
        if (n > 0 && ranges[n - 1].last == i - 1)
            ranges[n - 1].last = i;
        else
            ranges[n++] = (hw_range){i, i};
        assert_true(n < 1999);
    }
    ranges[n++] = (hw_range){high + 1, INT64_MAX};
    pgt_ok(r->store->ops->read_open(r->store,
                                    &(hw_query){.ranges = ranges, .ranges_n = n, .batch = PAGE},
                                    &cursor, &pgt_error));
    pgt_ok(r->store->ops->read_next(cursor, &events, &got, &pgt_error));
    for (size_t i = 0; i < got; i++)
        see(r, events[i].global_sequence);
    if (got > 0 && (got == PAGE || cursor->more)) /* what is behind the last row was not read */
        high = 0;
    r->store->ops->read_close(cursor);
    for (int64_t i = 1; i <= high; i++) {
        if (r->fate[i] == MISSING && !hw_ranges_has(&r->holders.alive, i)) {
            r->fate[i] = RESOLVED;
            r->resolved++;
            r->below_open += r->holders.n > 0;
        }
    }
}

static void a_number_that_the_holders_prove_dead_never_appears(void **state)
{
    pgt *t = *state;
    race *r = calloc(1, sizeof *r);
    pid_t writers[WRITERS];
    int64_t until = pgt_now_ms() + RACE_MS;
    int64_t missing = 0;
    PGresult *rows;

    assert_non_null(r);
    hw_holders_init(&r->holders);
    for (int i = 0; i < WRITERS; i++)
        writers[i] = start_writer(t, i);
    r->store = pgt_store(t, NULL);
    while (pgt_now_ms() < until)
        go_round(r);
    for (int i = 0; i < WRITERS; i++) {
        int status = 0;

        assert_int_equal(waitpid(writers[i], &status, 0), writers[i]);
        assert_int_equal(status, 0);
    }
    for (int64_t before = -1; before < r->high;) {
        before = r->high;
        go_round(r);
    }
    for (int i = 0; i < 3; i++)
        go_round(r);
    for (int64_t i = 1; i <= r->high; i++)
        missing += r->fate[i] == MISSING;
    assert_int_equal(missing, 0); /* nobody is left, so everything is proven */
    rows = pgt_result(t, t->admin, "SELECT global_sequence FROM {events}");
    for (int i = 0; i < PQntuples(rows); i++)
        assert_int_equal(r->fate[strtoll(PQgetvalue(rows, i, 0), NULL, 10)], SEEN);
    print_message(
        "# %d events, %lld late, %lld given up, %lld of them beside open ones, %llu looks\n",
        PQntuples(rows), (long long)r->late, (long long)r->resolved, (long long)r->below_open,
        (unsigned long long)r->holders.looks);
    assert_true(PQntuples(rows) > 100 && r->late > 0 && r->resolved > 0 && r->below_open > 0);
    hw_holders_done(&r->holders);
    PQclear(rows);
    pgt_store_close(r->store);
    free(r);
}

/* ---- gaps */

static int put_gap(void *ctx, hw_range range)
{
    char *text = ctx;

    (void)sprintf(text + strlen(text), "%lld-%lld ", (long long)range.first, (long long)range.last);
    return 0;
}

static const char *gaps(hw_store *store, int64_t first, int64_t last)
{
    static char text[4096];

    text[0] = '\0';
    pgt_ok(store->ops->subs->gaps(store, first, last, put_gap, text, &pgt_error));
    return text;
}

static void gaps_are_what_has_no_row(void **state)
{
    pgt *t = *state;
    hw_store *store = pgt_store(t, NULL);

    assert_string_equal(gaps(store, 1, 10), "1-10 ");
    assert_string_equal(gaps(store, 5, 4), "");
    pgt_run(t, t->admin,
            "INSERT INTO {events} (global_sequence, stream, version, type)"
            " SELECT n, 's', n, 't' FROM generate_series(3, 200010) AS n"
            " WHERE n NOT IN (7, 8, 50003, 100002, 100003, 150002)");
    assert_string_equal(gaps(store, 1, 200010), "1-2 7-8 50003-50003 100002-100003 150002-150002 ");
    assert_string_equal(gaps(store, 3, 6), "");
    assert_string_equal(gaps(store, 7, 7), "7-7 ");
    assert_string_equal(gaps(store, 200000, 200020), "200011-200020 ");
    assert_string_equal(gaps(store, 8, 9), "8-8 ");
    pgt_store_close(store);
}

/* ---- the log's past */

static void an_anchor_tells_another_log(void **state)
{
    pgt *t = *state;
    hw_store *store = pgt_store(t, NULL);
    const hw_sub_ops *subs = store->ops->subs;
    hw_anchor anchor = {.sequence = 0};
    char timeline[HW_TIMELINE_SIZE];
    char again[HW_TIMELINE_SIZE];

    pgt_ok(subs->verify(store, &anchor, 0, &pgt_error));
    assert_int_equal(subs->verify(store, &anchor, 1, &pgt_error), HOWDAH_NOT_FOUND);
    assert_non_null(strstr(pgt_error.message, "ahead of the log"));
    anchor.sequence = pgt_append(t->bus, "s").global_sequence;
    assert_int_equal(subs->verify(store, &anchor, 1, &pgt_error), HOWDAH_NOT_FOUND);
    assert_non_null(strstr(pgt_error.message, "another event is at the anchor's position"));
    assert_true(hw_uuid_parse(pgt_text(t, t->admin, "SELECT id FROM {events}"), 36, &anchor.id));
    pgt_ok(subs->verify(store, &anchor, 1, &pgt_error));
    pgt_run(t, t->admin, "DELETE FROM {events}");
    assert_int_equal(subs->verify(store, &anchor, 1, &pgt_error), HOWDAH_NOT_FOUND);
    assert_non_null(strstr(pgt_error.message, "the anchor's event is gone"));
    pgt_ok(subs->timeline(store, timeline, &pgt_error));
    assert_non_null(strchr(timeline, '/'));
    hw_pg_disconnect((hw_pg *)store);
    pgt_ok(subs->timeline(store, again, &pgt_error));
    assert_string_equal(timeline, again);
    pgt_store_close(store);
}

static const struct CMUnitTest tests[] = {
    PGT_TEST(whoever_drew_a_number_holds_it_until_the_end),
    PGT_TEST(a_holder_keeps_its_name_under_savepoints),
    PGT_TEST(a_holder_keeps_its_name_when_it_is_prepared),
    PGT_TEST(a_holder_without_a_transaction_id_is_known_by_its_virtual_one),
    PGT_TEST(who_does_nothing_shows_since_when),
    PGT_TEST(whoever_shows_its_rows_holds_no_number_any_more),
    PGT_TEST(the_numbers_of_another_bus_are_not_ours),
    PGT_TEST(a_number_that_the_holders_prove_dead_never_appears),
    PGT_TEST(gaps_are_what_has_no_row),
    PGT_TEST(an_anchor_tells_another_log),
};

PGT_MAIN("pg evidence", tests)
