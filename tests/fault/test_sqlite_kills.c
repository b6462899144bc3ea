/*
 * test_sqlite_kills.c - subscriptions on one file: processes that are killed, stopped, poisoned,
 * and the lease that moves between them.
 */
#include <howdah/howdah_sqlite.h>
#include <signal.h>

#include "base/clock.h"
#include "base/random.h"
#include "sqlite_help.h"
#include "subs_help.h"

static bool effect(const sh_stage *stage, const howdah_delivery *delivery, const sh_sight *sight)
{
    sqlite3 *db = howdah_delivery_sqlite(delivery);
    char sql[300];

    (void)stage;
    (void)snprintf(sql, sizeof sql,
                   "INSERT INTO effects (sequence, stream, version, subscriber)"
                   " VALUES (%lld, %d, %d, '%s')",
                   (long long)sight->sequence, sight->stream, sight->version,
                   howdah_delivery_subscriber(delivery));
    return db && sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK;
}

/* {events} is howdah_events, {effects} the handlers' own table. */
static int64_t number(const sh_stage *stage, const char *sql)
{
    const place *p = stage->ctx;
    char text[800];
    size_t len = 0;

    for (; *sql && len + 10 < sizeof text; sql++) {
        if (*sql == '{')
            len += (size_t)snprintf(text + len, sizeof text - len, "%s",
                                    strncmp(sql, "{effects}", 9) == 0 ? "" : "howdah_");
        else if (*sql != '}')
            text[len++] = *sql;
    }
    text[len] = '\0';
    return raw_number(p->file, text);
}

static sh_stage open_stage(const place *p)
{
    sh_stage stage = {.bus = open_migrated(p->url),
                      .ctx = p,
                      .lease_ms = 1000,
                      .take_over_ms = 2000,
                      .effect = effect,
                      .number = number};

    (void)snprintf(stage.url, sizeof stage.url, "%s", p->url);
    raw_exec(p->file,
             "CREATE TABLE effects (id INTEGER PRIMARY KEY AUTOINCREMENT, sequence, stream,"
             " version, subscriber)");
    return stage;
}

static void kill_9_at_each_point_leaves_a_legal_state(void **state)
{
    sh_stage stage = open_stage(*state);

    sh_case_kill_points(&stage);
    howdah_close(stage.bus);
}

static void a_poison_event_is_a_dead_letter_and_the_others_flow(void **state)
{
    sh_stage stage = open_stage(*state);

    sh_case_poison(&stage);
    howdah_close(stage.bus);
}

static void a_clean_end_stores_everything_and_the_next_begins_at_once(void **state)
{
    sh_stage stage = open_stage(*state);

    sh_case_clean_end(&stage);
    howdah_close(stage.bus);
}

static void a_killed_owners_lease_is_taken_over_in_two_seconds(void **state)
{
    sh_stage stage = open_stage(*state);

    sh_case_take_over(&stage);
    howdah_close(stage.bus);
}

static void an_owner_that_slept_through_its_lease_is_refused_and_steps_down(void **state)
{
    sh_stage stage = open_stage(*state);

    sh_case_zombie(&stage, HOWDAH_INSTANCE_LEASE);
    howdah_close(stage.bus);
}

/* ---- kill -9 around each COMMIT */

/*
 * The transactions of one life: the row is made, it is taken, then one for each of the six events,
 * the fourth of which is a dead letter.
 */
#define EVENTS 6
#define BEFORE_EVENTS 2

static int64_t effects_of(const sh_stage *stage, const char *subscriber_id, const char *what)
{
    char sql[200];

    (void)snprintf(sql, sizeof sql, "SELECT count(%s) FROM {effects} WHERE subscriber = '%s'", what,
                   subscriber_id);
    return number(stage, sql);
}

/* Of the first n events the fourth has none. */
static int64_t effects_upto(int64_t n)
{
    return n - (n >= 4);
}

static void wait_taken(const sh_stage *stage, const char *subscriber_id, int64_t token)
{
    int64_t until = hw_clock_mono_ms() + SH_PATIENCE_MS;

    while (sh_stored(stage, subscriber_id).token <= token) {
        assert_true(hw_clock_mono_ms() < until);
        (void)usleep(1000);
    }
}

static void kill_at_commit(const sh_stage *stage, bool after, int visit)
{
    sh_board *board = sh_board_new();
    sh_hand hand = {.stage = stage, .board = board};
    int done = visit - BEFORE_EVENTS - !after; /* events that are stored when it dies */
    char times[EVENTS + 1] = "111111";
    char point[64];
    char id[64];
    sh_place at;
    pid_t pid;

    (void)snprintf(point, sizeof point, "sqlite.sub_%s_commit:kill@%d", after ? "after" : "before",
                   visit);
    (void)snprintf(id, sizeof id, "kill:%s:%d", after ? "after" : "before", visit);
    hand.o = sh_options(stage, id, HOWDAH_CHECKPOINT_TRANSACTIONAL);
    hand.o.instance = HOWDAH_INSTANCE_SINGLE; /* no lease to renew, none to wait for */
    hand.o.max_retries = 0;
    hand.failpoint = point;
    assert_int_equal(sh_result(sh_start(&hand)), 1000 + SIGKILL);
    at = sh_stored(stage, id);
    assert_int_equal(at.contiguous, visit == 1 && !after ? -1 : done > 0 ? done : 0);
    assert_int_equal(effects_of(stage, id, "*"), done > 0 ? effects_upto(done) : 0);
    assert_int_equal(at.dead_letters, done >= 4);
    hand.failpoint = NULL;
    pid = sh_start(&hand);
    wait_taken(stage, id, at.token);
    sh_wait_stored(stage, id, EVENTS);
    sh_end(pid);
    /* Begun again is only what was not committed; done is everything once. */
    if (!after && done >= 0)
        times[done]++;
    assert_string_equal(sh_times(board, EVENTS), times);
    assert_int_equal(sh_disorder(board), 0);
    assert_int_equal(effects_of(stage, id, "*"), effects_upto(EVENTS));
    assert_int_equal(effects_of(stage, id, "DISTINCT sequence"), effects_upto(EVENTS));
    assert_int_equal(sh_stored(stage, id).dead_letters, 1);
    sh_board_free(board);
}

static void kill_9_before_and_after_each_commit_repeats_no_effect_and_loses_none(void **state)
{
    sh_stage stage = open_stage(*state);

    for (int i = 1; i <= EVENTS; i++)
        assert_int_equal(sh_append(&stage, i % 2 ? "s1" : "s2", i == 4 ? "fail" : "plain"), i);
    for (int visit = 1; visit <= BEFORE_EVENTS + EVENTS; visit++) {
        kill_at_commit(&stage, false, visit);
        kill_at_commit(&stage, true, visit);
    }
    howdah_close(stage.bus);
}

/* ---- all at once */

#define WRITERS 3
#define RACE_MS 3000

static void write_events(const sh_stage *stage, int me, sh_board *stop)
{
    howdah_bus *bus = open_bus(stage->url);
    char stream[8];

    (void)snprintf(stream, sizeof stream, "s%d", me);
    while (atomic_load(&stop->n) == 0) {
        howdah_event *event = make_event(stream, hw_random_u32() % 3 ? "work" : "other", "1");

        if (howdah_append(bus, event, NULL, NULL, NULL) < 0)
            _exit(4);
        howdah_event_free(event);
        (void)usleep(hw_random_u32() % 20000);
    }
    howdah_close(bus);
    _exit(0);
}

static const char *const race_ids[] = {"race:tx", "race:sync", "race:filtered"};

static pid_t start_racer(const sh_stage *stage, sh_board **boards, int i)
{
    sh_hand hand = {.stage = stage, .board = boards[i / 2], .who = i};

    hand.o = sh_options(stage, race_ids[i / 2],
                        i / 2 == 0 ? HOWDAH_CHECKPOINT_TRANSACTIONAL : HOWDAH_CHECKPOINT_SYNC);
    hand.o.pattern = i / 2 == 2 ? "work" : NULL;
    return sh_start(&hand);
}

/* Everything that concerns it at least once, nothing else; and each stream in order. */
static void check_sights(const place *p, const sh_board *board, int64_t events, bool filtered,
                         size_t again_max)
{
    size_t n = atomic_load(&board->n);
    int32_t *times = calloc((size_t)events + 1, sizeof *times);
    int32_t last[SH_STREAMS] = {0};
    size_t wanted = 0;

    assert_non_null(times);
    for (size_t i = 0; i < n; i++) {
        const sh_sight *s = &board->seen[i];

        assert_in_range(s->sequence, 1, events);
        if (times[s->sequence]++ > 0)
            continue;
        assert_true(s->version > last[s->stream]);
        last[s->stream] = s->version;
    }
    for (int64_t k = 1; k <= events; k++) {
        char sql[128];
        bool mine;

        (void)snprintf(sql, sizeof sql,
                       "SELECT type = 'work' FROM howdah_events WHERE global_sequence = %lld",
                       (long long)k);
        mine = !filtered || raw_number(p->file, sql) == 1;
        assert_int_equal(times[k] > 0, mine);
        wanted += mine;
    }
    assert_in_range(n, wanted, wanted + again_max);
    free(times);
}

static void kill_somebody(const sh_stage *stage, sh_board **boards, pid_t racers[6])
{
    int victim = (int)(hw_random_u32() % 6);

    (void)usleep(100000 + hw_random_u32() % 200000);
    if (hw_random_u32() % 4 == 0) {
        assert_int_equal(kill(racers[victim], SIGSTOP), 0);
        (void)usleep(1200000); /* longer than the lease */
        assert_int_equal(kill(racers[victim], SIGCONT), 0);
        (void)usleep(50000);
    }
    sh_kill(racers[victim]);
    racers[victim] = start_racer(stage, boards, victim);
}

static void writers_and_kills_lose_nothing_and_repeat_no_effect(void **state)
{
    const place *p = *state;
    sh_stage stage = open_stage(p);
    sh_board *boards[3] = {sh_board_new(), sh_board_new(), sh_board_new()};
    sh_board *stop = sh_board_new();
    pid_t writers[WRITERS];
    pid_t racers[6];
    int64_t until;
    int64_t events;
    size_t kills = 0;

    for (int i = 0; i < 6; i++)
        racers[i] = start_racer(&stage, boards, i);
    for (int i = 0; i < WRITERS; i++) {
        writers[i] = fork();
        assert_true(writers[i] >= 0);
        if (writers[i] == 0)
            write_events(&stage, i, stop);
    }
    for (until = hw_clock_mono_ms() + RACE_MS; hw_clock_mono_ms() < until || kills < 4; kills++)
        kill_somebody(&stage, boards, racers);
    for (until += SH_PATIENCE_MS; hw_clock_mono_ms() < until;) { /* a slow disk */
        if (raw_number(p->file, "SELECT count(*) FROM howdah_events") > 100)
            break;
        (void)usleep(10000);
    }
    (void)atomic_fetch_add(&stop->n, 1);
    for (int i = 0; i < WRITERS; i++)
        assert_int_equal(sh_result(writers[i]), 0);
    events = raw_number(p->file, "SELECT count(*) FROM howdah_events");
    for (int i = 0; i < 3; i++)
        sh_wait_stored(&stage, race_ids[i], events);
    for (int i = 0; i < 6; i++)
        sh_end(racers[i]);
    print_message("# %lld events, %zu kills, seen %zu, %zu and %zu times\n", (long long)events,
                  kills, atomic_load(&boards[0]->n), atomic_load(&boards[1]->n),
                  atomic_load(&boards[2]->n));
    assert_true(kills >= 4);
    assert_true(events > 100);
    for (int i = 0; i < 3; i++) {
        check_sights(p, boards[i], events, i == 2, 2 * kills);
        sh_board_free(boards[i]);
    }
    assert_i64_equal(raw_number(p->file, "SELECT count(*) FROM effects"), events);
    assert_i64_equal(raw_number(p->file, "SELECT count(DISTINCT sequence) FROM effects"), events);
    assert_i64_equal(raw_number(p->file, "SELECT count(*) FROM (SELECT version, lag(version, 1, 0)"
                                         " OVER (PARTITION BY stream ORDER BY id) AS before"
                                         " FROM effects) WHERE version <> before + 1"),
                     0);
    assert_i64_equal(raw_number(p->file, "SELECT count(*) FROM howdah_dead_letters"), 0);
    sh_board_free(stop);
    howdah_close(stage.bus);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(kill_9_at_each_point_leaves_a_legal_state),
        TEST(kill_9_before_and_after_each_commit_repeats_no_effect_and_loses_none),
        TEST(a_poison_event_is_a_dead_letter_and_the_others_flow),
        TEST(a_clean_end_stores_everything_and_the_next_begins_at_once),
        TEST(a_killed_owners_lease_is_taken_over_in_two_seconds),
        TEST(an_owner_that_slept_through_its_lease_is_refused_and_steps_down),
        TEST(writers_and_kills_lose_nothing_and_repeat_no_effect),
    };

    return cmocka_run_group_tests_name("sqlite subs", tests, NULL, NULL);
}
