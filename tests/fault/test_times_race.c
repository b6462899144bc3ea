/*
 * test_times_race.c - many processes on two times: corrections of one family, and questions about
 * the past while slow transactions are under way.  The first argument is the kind of store: sqlite,
 * or pg (inside tools/with-pg).
 */
#include <howdah/howdah_pg.h>
#include <howdah/howdah_sqlite.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "base/clock.h"
#include "base/random.h"
#include "sqlite_help.h"
#include "test_pg_help.h"

#define WRITERS 16
#define EACH 12 /* corrections that each writer gets through */
#define SLOW_WRITERS 4
#define RACE_MS 6000
#define QUESTIONS_MAX 4000
#define ANSWER_MAX 64 /* facts of one stream that are compared */

static bool on_pg;
static howdah_error error = HOWDAH_ERROR_INIT;

/* Outlives those who write it. */
typedef struct board {
    atomic_bool done;
    atomic_int stored;
    atomic_int conflicts;
    atomic_int wrong;
    atomic_int by_revision[WRITERS * EACH + 2]; /* how often a writer was told that it has it */
} board;

typedef struct site {
    void *under; /* pgt or place */
    const howdah_settings *settings;
    const char *url;
    howdah_bus *bus;
    board *board;
    pid_t hands[WRITERS];
} site;

static int setup(void **state)
{
    site *p = calloc(1, sizeof *p);

    assert_non_null(p);
    assert_int_equal(on_pg ? pgt_setup(&p->under) : place_setup(&p->under), 0);
    p->url = on_pg ? ((pgt *)p->under)->url : ((place *)p->under)->url;
    p->settings = on_pg ? ((pgt *)p->under)->settings : NULL;
    p->bus = on_pg ? pgt_open(p->under, p->url) : open_migrated(p->url);
    p->board =
        mmap(NULL, sizeof *p->board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(p->board != MAP_FAILED);
    *state = p;
    return 0;
}

static int teardown(void **state)
{
    site *p = *state;

    for (int i = 0; i < WRITERS; i++)
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

static pid_t start(site *p, void (*work)(site *p, int number), int number)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    work(p, number);
    _exit(0);
}

static void wait_for(site *p, int n)
{
    for (int i = 0; i < n; i++) {
        int status = 0;

        assert_int_equal(waitpid(p->hands[i], &status, 0), p->hands[i]);
        p->hands[i] = 0;
        assert_int_equal(status, 0);
    }
}

static void append_fact(howdah_bus *bus, const char *stream, char ret_id[HOWDAH_UUID_SIZE])
{
    howdah_builder *b = NULL;
    howdah_event *event = NULL;
    howdah_position position = HOWDAH_POSITION_INIT;

    must(howdah_builder_new(&b, &error), &error);
    howdah_builder_set_stream(b, stream);
    howdah_builder_set_type(b, "fact");
    must(howdah_builder_build(b, &event, &error), &error);
    must(howdah_append(bus, event, NULL, &position, &error), &error);
    memcpy(ret_id, position.id, HOWDAH_UUID_SIZE);
    howdah_event_free(event);
    howdah_builder_free(b);
}

static howdah_correction correction_of(const char *id)
{
    howdah_correction c = HOWDAH_CORRECTION_INIT;

    c.event_id = id;
    c.reason = "a race";
    c.data = "{}";
    c.data_len = 2;
    return c;
}

/* -------------------------------------------------------------- one family */

static char family_id[HOWDAH_UUID_SIZE];

/* Half of the writers say which revision they know, the others take whichever it is. */
static void correct_many(site *p, int number)
{
    howdah_bus *bus = NULL;
    int64_t known = 1;

    if (howdah_open(p->url, p->settings, &bus, &error) < 0)
        _exit(3);
    for (int done = 0; done < EACH;) {
        howdah_correction c = correction_of(family_id);
        howdah_position position = HOWDAH_POSITION_INIT;
        int s;

        c.expected_revision = number % 2 ? known : 0;
        s = howdah_correct(bus, &c, &position, &error);
        if (s == HOWDAH_CONFLICT) {
            atomic_fetch_add(&p->board->conflicts, 1);
            if (error.actual_revision < known)
                atomic_fetch_add(&p->board->wrong, 1);
            known = error.actual_revision;
            continue;
        }
        if (s < 0) {
            (void)fprintf(stderr, "# writer %d: %s %s\n", number, howdah_status_name(s),
                          error.message);
            _exit(4);
        }
        done++;
        known = position.revision;
        if (known < 2 || known > WRITERS * EACH + 1)
            _exit(5);
        atomic_fetch_add(&p->board->by_revision[known], 1);
        atomic_fetch_add(&p->board->stored, 1);
    }
    howdah_close(bus);
}

static void sixteen_writers_of_one_family_make_one_chain(void **state)
{
    site *p = *state;
    howdah_query_options q = HOWDAH_QUERY_OPTIONS_INIT;
    howdah_reader *reader = NULL;
    const howdah_event *event = NULL;
    char before[HOWDAH_UUID_SIZE] = "";
    int64_t recorded = INT64_MIN;
    int revision = 0;

    append_fact(p->bus, "chain", family_id);
    for (int i = 0; i < WRITERS; i++)
        p->hands[i] = start(p, correct_many, i);
    wait_for(p, WRITERS);
    assert_int_equal(atomic_load(&p->board->stored), WRITERS * EACH);
    assert_int_equal(atomic_load(&p->board->wrong), 0);
    assert_true(atomic_load(&p->board->conflicts) > 0);
    for (int i = 2; i <= WRITERS * EACH + 1; i++)
        assert_int_equal(atomic_load(&p->board->by_revision[i]), 1);
    q.family = family_id;
    must(howdah_query_open(p->bus, &q, &reader, &error), &error);
    while (howdah_reader_next(reader, &event, &error) == HOWDAH_OK) {
        char corrects[HOWDAH_UUID_SIZE];
        int64_t at = 0;

        assert_int_equal(howdah_event_revision(event), ++revision);
        assert_int_equal(howdah_event_version(event), revision);
        assert_int_equal(howdah_event_corrects(event, corrects), revision > 1);
        assert_string_equal(corrects, before);
        howdah_event_id(event, before);
        assert_true(howdah_event_recorded_at(event, &at));
        assert_true(at > recorded);
        recorded = at;
    }
    howdah_reader_close(reader);
    assert_int_equal(revision, WRITERS * EACH + 1);
    (void)fprintf(stderr, "# %d corrections, %d conflicts\n", atomic_load(&p->board->stored),
                  atomic_load(&p->board->conflicts));
}

/* ------------------------------------------------------------ repeatability */

#define FACTS 8

static char facts[FACTS][HOWDAH_UUID_SIZE];

static void sleep_some(unsigned most_ms)
{
    (void)usleep(hw_random_u32() % (most_ms * 1000));
}

/* In a transaction of its own that stays open for a while, and is rolled back now and then. */
static void correct_slowly_pg(const site *p)
{
    const pgt *t = p->under;
    PGconn *conn = PQconnectdb(p->url);

    while (!atomic_load(&p->board->done)) {
        howdah_correction c = correction_of(facts[hw_random_u32() % FACTS]);

        PQclear(PQexec(conn, "BEGIN"));
        sleep_some(30);
        if (howdah_pg_correct(conn, t->schema, &c, NULL, &error) >= 0)
            atomic_fetch_add(&p->board->stored, 1);
        sleep_some(120);
        PQclear(PQexec(conn, hw_random_u32() % 5 ? "COMMIT" : "ROLLBACK"));
        sleep_some(20);
    }
    PQfinish(conn);
}

static void correct_slowly_sqlite(const site *p)
{
    const place *here = p->under;
    sqlite3 *db = NULL;

    if (sqlite3_open(here->file, &db) != SQLITE_OK)
        _exit(3);
    (void)sqlite3_busy_timeout(db, 10000);
    while (!atomic_load(&p->board->done)) {
        howdah_correction c = correction_of(facts[hw_random_u32() % FACTS]);

        if (sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK)
            continue;
        sleep_some(10);
        if (howdah_sqlite_correct(db, &c, NULL, &error) >= 0)
            atomic_fetch_add(&p->board->stored, 1);
        sleep_some(40);
        (void)sqlite3_exec(db, hw_random_u32() % 5 ? "COMMIT" : "ROLLBACK", NULL, NULL, NULL);
        sleep_some(40);
    }
    (void)sqlite3_close(db);
}

static void correct_slowly(site *p, int number)
{
    (void)number;
    if (on_pg)
        correct_slowly_pg(p);
    else
        correct_slowly_sqlite(p);
}

typedef struct lookup {
    int64_t known_at;
    bool final;
    int n;
    int64_t sequence[ANSWER_MAX];
} lookup;

static void ask(const site *p, lookup *q)
{
    howdah_query_options o = HOWDAH_QUERY_OPTIONS_INIT;
    howdah_knowledge k = HOWDAH_KNOWLEDGE_INIT;
    howdah_reader *reader = NULL;
    const howdah_event *event = NULL;
    int s;

    o.view = HOWDAH_VIEW_AS_OF;
    o.known_at_us = q->known_at;
    o.type = "fact";
    must(howdah_query_open(p->bus, &o, &reader, &error), &error);
    howdah_reader_knowledge(reader, &k);
    q->final = k.final;
    q->n = 0;
    while ((s = howdah_reader_next(reader, &event, &error)) == HOWDAH_OK) {
        assert_true(q->n < ANSWER_MAX);
        q->sequence[q->n++] = howdah_event_global_sequence(event);
    }
    assert_int_equal(s, HOWDAH_END);
    howdah_reader_close(reader);
}

static bool is_same(const lookup *a, const lookup *b)
{
    return a->n == b->n && memcmp(a->sequence, b->sequence, (size_t)a->n * sizeof(int64_t)) == 0;
}

static void an_answer_that_is_final_is_the_same_for_ever(void **state)
{
    site *p = *state;
    lookup *asked = calloc(QUESTIONS_MAX, sizeof *asked);
    int64_t until = hw_clock_mono_ms() + RACE_MS;
    int n = 0;
    int final = 0;
    int changed = 0;

    assert_non_null(asked);
    for (int i = 0; i < FACTS; i++)
        append_fact(p->bus, "facts", facts[i]);
    for (int i = 0; i < SLOW_WRITERS; i++)
        p->hands[i] = start(p, correct_slowly, i);
    while (n < QUESTIONS_MAX && hw_clock_mono_ms() < until) {
        asked[n].known_at = hw_clock_wall_us() - 1 - hw_random_u32() % 200000;
        ask(p, &asked[n++]);
        (void)usleep(2000);
    }
    atomic_store(&p->board->done, true);
    wait_for(p, SLOW_WRITERS);
    for (int i = 0; i < n; i++) {
        lookup again = {.known_at = asked[i].known_at};

        ask(p, &again);
        assert_true(again.final);
        final += asked[i].final;
        if (is_same(&asked[i], &again))
            continue;
        changed++;
        if (asked[i].final)
            fail_msg("lookup %d of %d, known at %lld, was final and has changed", i, n,
                     (long long)asked[i].known_at);
    }
    (void)fprintf(stderr, "# %d questions, %d final, %d of the others have changed, %d writes\n", n,
                  final, changed, atomic_load(&p->board->stored));
    assert_true(atomic_load(&p->board->stored) > 20);
    assert_true(final > 0);
    assert_true(changed > 0); /* otherwise nothing was tried */
    free(asked);
}

/* ------------------------------------------------------------------- purges */

#define PURGES 12
#define MOVERS 4
#define PATIENCE_MS 30000

/* Corrects the valid time again and again, so that the payload is taken over each time, until there
   is none to take over. */
static void move_until_purged(site *p, int number)
{
    howdah_bus *bus = NULL;
    int64_t valid = number;
    int64_t until = hw_clock_mono_ms() + PATIENCE_MS;
    int s;

    if (howdah_open(p->url, p->settings, &bus, &error) < 0)
        _exit(3);
    do {
        howdah_correction c = correction_of(family_id);

        c.data = NULL;
        c.data_len = 0;
        c.valid_time_us = valid += MOVERS;
        s = howdah_correct(bus, &c, NULL, &error);
        atomic_fetch_add(&p->board->stored, s >= 0);
    } while ((s >= 0 || s == HOWDAH_CONFLICT) && hw_clock_mono_ms() < until);
    if (s != HOWDAH_INVALID || strcmp(error.field, "data") != 0) {
        (void)fprintf(stderr, "# mover %d: %s %s\n", number, howdah_status_name(s), error.message);
        _exit(4);
    }
    howdah_close(bus);
}

static void append_secret(howdah_bus *bus, char ret_id[HOWDAH_UUID_SIZE])
{
    howdah_builder *b = NULL;
    howdah_event *event = NULL;
    howdah_position position = HOWDAH_POSITION_INIT;

    must(howdah_builder_new(&b, &error), &error);
    howdah_builder_set_stream(b, "secrets");
    howdah_builder_set_type(b, "secret");
    howdah_builder_set_json(b, "{\"secret\":1}", 12);
    howdah_builder_add_header(b, "secret", "1");
    must(howdah_builder_build(b, &event, &error), &error);
    must(howdah_append(bus, event, NULL, &position, &error), &error);
    memcpy(ret_id, position.id, HOWDAH_UUID_SIZE);
    howdah_event_free(event);
    howdah_builder_free(b);
}

static void a_correction_never_brings_a_purged_payload_back(void **state)
{
    site *p = *state;
    const char *ids[] = {family_id};

    for (int round = 0; round < PURGES; round++) {
        howdah_purge_options purge = HOWDAH_PURGE_OPTIONS_INIT;
        howdah_query_options q = HOWDAH_QUERY_OPTIONS_INIT;
        howdah_reader *reader = NULL;
        const howdah_event *event = NULL;
        int stored = atomic_load(&p->board->stored);

        append_secret(p->bus, family_id);
        for (int i = 0; i < MOVERS; i++)
            p->hands[i] = start(p, move_until_purged, i);
        while (atomic_load(&p->board->stored) < stored + 5)
            (void)usleep(500);
        purge.ids = ids;
        purge.ids_n = 1;
        purge.families = true;
        purge.reason = "a race";
        must(howdah_purge(p->bus, &purge, NULL, &error), &error);
        wait_for(p, MOVERS);
        q.family = family_id;
        must(howdah_query_open(p->bus, &q, &reader, &error), &error);
        while (howdah_reader_next(reader, &event, &error) == HOWDAH_OK) {
            assert_string_equal(howdah_event_data(event, NULL), "null");
            assert_string_equal(howdah_event_headers(event, NULL), "{}");
        }
        howdah_reader_close(reader);
    }
    (void)fprintf(stderr, "# %d purges among %d corrections\n", PURGES,
                  atomic_load(&p->board->stored));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(sixteen_writers_of_one_family_make_one_chain, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(an_answer_that_is_final_is_the_same_for_ever, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_correction_never_brings_a_purged_payload_back, setup,
                                        teardown),
    };

    on_pg = argc > 1 && strcmp(argv[1], "pg") == 0;
    return cmocka_run_group_tests_name(on_pg ? "times race on pg" : "times race on sqlite", tests,
                                       NULL, NULL);
}
