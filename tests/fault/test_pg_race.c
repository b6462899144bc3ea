/*
 * test_pg_race.c - the proof of the tail: writers of every kind for some seconds, sessions killed
 * at random, and followers that must see every committed event once, in stream order, and nothing
 * else.
 *
 * HOWDAH_RACE_SECONDS makes it longer.  Runs with a server of its own: it kills sessions, and
 * leaves prepared transactions behind on purpose.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "race_writers.h"

#define FOLLOWERS 2
#define SEEN_MAX (2 * 1024 * 1024)
#define PATIENCE_MS 60000 /* for a follower that sees nothing new, and should */

typedef struct sighting {
    int64_t sequence;
    int32_t stream;
    int32_t version;
} sighting;

/* Shared with its process. */
typedef struct follower {
    atomic_size_t n;
    atomic_int errors; /* calls that failed, and were repeated */
    sighting seen[SEEN_MAX];
} follower;

static follower *followers;

static void note(follower *f, const howdah_event *event)
{
    size_t n = atomic_load(&f->n);

    if (n == SEEN_MAX)
        return;
    f->seen[n] = (sighting){howdah_event_global_sequence(event),
                            race_stream_number(howdah_event_stream(event)),
                            (int32_t)howdah_event_version(event)};
    atomic_store(&f->n, n + 1);
}

/* The second one has rights on functions only, and small batches: most of its rounds are full. */
static howdah_bus *open_follower(const pgt *t, int me)
{
    char url[1200];

    (void)snprintf(url, sizeof url, "%s", pgt_url_with(t->url, "application_name=race-follower"));
    if (me == 0)
        return pgt_open_with(t, url, "poll_interval", "20ms");
    (void)snprintf(url, sizeof url,
                   "postgres://race_reader@/%s?host=%s&port=%s&application_name=race-follower",
                   PQdb(t->admin), PQhost(t->admin), PQport(t->admin));
    return pgt_open_with(t, url, "read_batch", "7");
}

static void be_follower(const pgt *t, int me)
{
    follower *f = &followers[me];
    howdah_tail_options o = HOWDAH_TAIL_OPTIONS_INIT;
    howdah_bus *bus = open_follower(t, me);
    howdah_tail *tail = NULL;

    o.since = 0;
    while (howdah_tail_open(bus, &o, &tail, NULL) < 0) {
    }
    while (!atomic_load(&race_all->done)) {
        const howdah_event *event = NULL;
        int s = howdah_tail_next(tail, 20, &event, NULL);

        if (s == HOWDAH_OK)
            note(f, event);
        else if (s < 0)
            (void)atomic_fetch_add(&f->errors, 1);
    }
    howdah_tail_close(tail);
    howdah_close(bus);
}

/* ---- the verdict */

static int by_sequence(const void *a, const void *b)
{
    const sighting *x = a;
    const sighting *y = b;

    return (x->sequence > y->sequence) - (x->sequence < y->sequence);
}

/* In the order of arrival every stream counts 1, 2, 3 ... */
static void check_stream_order(const follower *f, int me)
{
    int32_t last[RACE_STREAMS] = {0};

    for (size_t i = 0; i < atomic_load(&f->n); i++) {
        const sighting *s = &f->seen[i];

        assert_in_range(s->stream, 0, RACE_STREAMS - 1);
        if (s->version != last[s->stream] + 1)
            fail_msg("follower %d: stream s%d version %d behind %d", me, s->stream, s->version,
                     last[s->stream]);
        last[s->stream] = s->version;
    }
}

/* The same events as in the table, each once. */
static void check_complete(follower *f, int me, const PGresult *truth)
{
    size_t n = atomic_load(&f->n);
    size_t rows = (size_t)PQntuples(truth);

    qsort(f->seen, n, sizeof *f->seen, by_sequence);
    for (size_t i = 0; i < n || i < rows; i++) {
        int64_t is = i < n ? f->seen[i].sequence : INT64_MAX;
        int64_t wanted = i < rows ? strtoll(PQgetvalue(truth, (int)i, 0), NULL, 10) : INT64_MAX;

        if (is != wanted)
            fail_msg("follower %d: %s %lld (saw %zu events of %zu)", me,
                     is > wanted                              ? "missed"
                     : i > 0 && is == f->seen[i - 1].sequence ? "saw twice"
                                                              : "saw a phantom",
                     (long long)(is > wanted ? wanted : is), n, rows);
        assert_int_equal(f->seen[i].stream, race_stream_number(PQgetvalue(truth, (int)i, 1)));
        assert_int_equal(f->seen[i].version, strtol(PQgetvalue(truth, (int)i, 2), NULL, 10));
    }
}

/* As long as they come nearer: after a long race the slow one has a long way to go. */
static void wait_for_followers(size_t total)
{
    for (int i = 0; i < FOLLOWERS; i++) {
        const follower *f = &followers[i];
        size_t before = 0;

        for (int64_t until = pgt_now_ms() + PATIENCE_MS; atomic_load(&f->n) < total;) {
            if (atomic_load(&f->n) > before)
                until = pgt_now_ms() + PATIENCE_MS;
            else if (pgt_now_ms() > until)
                break;
            before = atomic_load(&f->n);
            (void)usleep(10000);
        }
    }
    (void)usleep(300000); /* for what should not come any more */
    atomic_store(&race_all->done, true);
}

static void followers_see_every_committed_event_once_and_in_stream_order(void **state)
{
    pgt *t = *state;
    pid_t pids[FOLLOWERS];
    PGresult *truth;

    for (int i = 0; i < FOLLOWERS; i++)
        pids[i] = race_start(t, i, be_follower);
    race_run(t, race_seconds(8), NULL, NULL);
    race_finish_prepared(t, t->admin, "0");
    truth =
        pgt_result(t, t->admin, "SELECT global_sequence, stream, version FROM {events} ORDER BY 1");
    wait_for_followers((size_t)PQntuples(truth));
    for (int i = 0; i < FOLLOWERS; i++)
        race_wait_for(pids[i]);
    print_message(
        "# %d events of %lld numbers, %d kills, %d and %d repeated calls\n", PQntuples(truth),
        (long long)pgt_number(t, t->admin, "SELECT last_value FROM {events_global_sequence_seq}"),
        atomic_load(&race_all->kills), atomic_load(&followers[0].errors),
        atomic_load(&followers[1].errors));
    assert_true(PQntuples(truth) > 1000);
    for (int i = 0; i < FOLLOWERS; i++) {
        check_stream_order(&followers[i], i);
        check_complete(&followers[i], i, truth);
    }
    PQclear(truth);
    race_check_writers(t);
}

static int race_setup(void **state)
{
    pgt *t;

    assert_int_equal(pgt_setup(state), 0);
    t = *state;
    race_open();
    followers = mmap(NULL, FOLLOWERS * sizeof *followers, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(followers != MAP_FAILED);
    pgt_run(t, t->admin, "CREATE ROLE race_reader LOGIN; GRANT {_read} TO race_reader");
    return 0;
}

static int race_teardown(void **state)
{
    pgt *t = *state;

    (void)munmap(followers, FOLLOWERS * sizeof *followers);
    race_close();
    race_finish_prepared(t, t->admin, "0");
    pgt_run(t, t->admin, "DROP ROLE race_reader");
    return pgt_teardown(state);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(followers_see_every_committed_event_once_and_in_stream_order,
                                    race_setup, race_teardown),
};

PGT_MAIN("pg race", tests)
