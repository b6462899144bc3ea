/* subs_cases.c - kills, poison, clean ends and take-overs that both stores must bear. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "subs_help.h"

/* Effects of a subscription: rows in all, events with one, and rows that came too early. */
static void check_effects(const sh_stage *stage, const char *subscriber_id, int64_t events)
{
    char sql[400];

    (void)snprintf(sql, sizeof sql, "SELECT count(*) FROM {effects} WHERE subscriber = '%s'",
                   subscriber_id);
    assert_int_equal(stage->number(stage, sql), events);
    (void)snprintf(sql, sizeof sql,
                   "SELECT count(DISTINCT sequence) FROM {effects} WHERE subscriber = '%s'",
                   subscriber_id);
    assert_int_equal(stage->number(stage, sql), events);
    (void)snprintf(sql, sizeof sql,
                   "SELECT count(*) FROM {effects} a JOIN {effects} b ON a.subscriber ="
                   " b.subscriber AND a.stream = b.stream AND a.version < b.version AND a.id > b.id"
                   " WHERE a.subscriber = '%s'",
                   subscriber_id);
    assert_int_equal(stage->number(stage, sql), 0);
}

/* ---- kill -9 at each named point */

typedef struct kill_case {
    howdah_checkpoint_mode mode;
    const char *failpoint;
    const char *times; /* of the events 1 to 6 in both lives together */
} kill_case;

/* Event 4 fails and is a dead letter at once.  Before its turn come three others. */
static const kill_case kill_cases[] = {
    {HOWDAH_CHECKPOINT_SYNC, "sub.before_handler:kill@3", "111111"},
    {HOWDAH_CHECKPOINT_SYNC, "sub.after_handler:kill@3", "112111"},
    {HOWDAH_CHECKPOINT_SYNC, "sub.before_checkpoint:kill@3", "112111"},
    {HOWDAH_CHECKPOINT_SYNC, "sub.after_checkpoint:kill@3", "111111"},
    {HOWDAH_CHECKPOINT_SYNC, "sub.before_dead_letter:kill", "111211"},
    {HOWDAH_CHECKPOINT_SYNC, "sub.after_dead_letter:kill", "111111"},
    {HOWDAH_CHECKPOINT_BATCHED, "sub.before_handler:kill@2", "211111"},
    {HOWDAH_CHECKPOINT_BATCHED, "sub.after_handler:kill@3", "112111"},
    {HOWDAH_CHECKPOINT_BATCHED, "sub.before_checkpoint:kill@1", "221111"},
    {HOWDAH_CHECKPOINT_BATCHED, "sub.after_checkpoint:kill@1", "111111"},
    {HOWDAH_CHECKPOINT_BATCHED, "sub.before_dead_letter:kill", "112211"},
    {HOWDAH_CHECKPOINT_BATCHED, "sub.after_dead_letter:kill", "111111"},
    {HOWDAH_CHECKPOINT_TRANSACTIONAL, "sub.before_handler:kill@3", "111111"},
    {HOWDAH_CHECKPOINT_TRANSACTIONAL, "sub.after_handler:kill@3", "112111"},
    {HOWDAH_CHECKPOINT_TRANSACTIONAL, "sub.before_commit:kill@3", "112111"},
    {HOWDAH_CHECKPOINT_TRANSACTIONAL, "sub.after_commit:kill@3", "111111"},
    {HOWDAH_CHECKPOINT_TRANSACTIONAL, "sub.before_dead_letter:kill", "111211"},
    {HOWDAH_CHECKPOINT_TRANSACTIONAL, "sub.after_dead_letter:kill", "111111"},
};

#define KILL_CASES (sizeof kill_cases / sizeof kill_cases[0])

static sh_hand hand_of_case(const sh_stage *stage, size_t i, char id[64], sh_board *board)
{
    sh_hand hand = {.stage = stage, .board = board};

    (void)snprintf(id, 64, "kill:%zu:%s", i, kill_cases[i].failpoint);
    hand.o = sh_options(stage, id, kill_cases[i].mode);
    hand.o.batch_size = 2;
    hand.o.max_delay_ms = 60000;
    hand.o.max_retries = 0;
    return hand;
}

/* Each point is a subscription of its own on one log: all die together, and live again. */
void sh_case_kill_points(const sh_stage *stage)
{
    sh_board *boards[KILL_CASES];
    pid_t pids[KILL_CASES];
    char ids[KILL_CASES][64];

    for (int i = 1; i <= 6; i++)
        assert_int_equal(sh_append(stage, i % 2 ? "s1" : "s2", i == 4 ? "fail" : "plain"), i);
    for (size_t i = 0; i < KILL_CASES; i++) {
        sh_hand hand;

        boards[i] = sh_board_new();
        hand = hand_of_case(stage, i, ids[i], boards[i]);
        hand.failpoint = kill_cases[i].failpoint;
        pids[i] = sh_start(&hand);
    }
    for (size_t i = 0; i < KILL_CASES; i++) {
        int result = sh_result(pids[i]);

        if (result != 1000 + SIGKILL)
            fail_msg("%s: ended with %d", ids[i], result);
        assert_true(sh_stored(stage, ids[i]).contiguous < 6);
    }
    for (size_t i = 0; i < KILL_CASES; i++) {
        sh_hand hand = hand_of_case(stage, i, ids[i], boards[i]);

        pids[i] = sh_start(&hand);
    }
    for (size_t i = 0; i < KILL_CASES; i++) {
        sh_wait_stored(stage, ids[i], 6 - (kill_cases[i].mode == HOWDAH_CHECKPOINT_BATCHED));
        if (kill_cases[i].mode == HOWDAH_CHECKPOINT_BATCHED)
            sh_wait_seen(boards[i], 6, SH_PATIENCE_MS);
        sh_end(pids[i]);
        assert_int_equal(sh_stored(stage, ids[i]).contiguous, 6);
        if (strcmp(sh_times(boards[i], 6), kill_cases[i].times) != 0)
            fail_msg("%s: seen %s, not %s", ids[i], sh_times(boards[i], 6), kill_cases[i].times);
        assert_int_equal(sh_disorder(boards[i]), 0);
        assert_int_equal(sh_stored(stage, ids[i]).dead_letters, 1);
        if (kill_cases[i].mode == HOWDAH_CHECKPOINT_TRANSACTIONAL)
            check_effects(stage, ids[i], 5);
        sh_board_free(boards[i]);
    }
}

/* ---- poison */

typedef struct keep_dead_letter {
    int n;
    int64_t attempts;
    int64_t sequence;
    char error[200];
} keep_dead_letter;

static int on_dead_letter(void *ctx, const howdah_dead_letter *dead_letter)
{
    keep_dead_letter *k = ctx;

    k->n++;
    k->attempts = dead_letter->attempts;
    k->sequence = howdah_event_global_sequence(dead_letter->event);
    (void)snprintf(k->error, sizeof k->error, "%s", dead_letter->error);
    return 0;
}

/* Started again whenever it dies; how often it died. */
static int keep_alive(const sh_hand *hand, int64_t upto, int fate)
{
    int deaths = 0;

    for (; deaths < 20; deaths++) {
        pid_t pid = sh_start(hand);
        int64_t until = hw_clock_mono_ms() + SH_PATIENCE_MS;
        int result = -1;

        while (sh_stored(hand->stage, hand->o.subscriber_id).contiguous < upto) {
            if (kill(pid, 0) == 0 && hw_clock_mono_ms() < until) {
                int status = 0;

                (void)usleep(2000);
                if (waitpid(pid, &status, WNOHANG) == 0)
                    continue;
                result = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
            }
            break;
        }
        if (result < 0) {
            sh_end(pid);
            return deaths;
        }
        assert_int_equal(result, fate);
    }
    return deaths;
}

static void poison_one(const sh_stage *stage, const char *id, howdah_checkpoint_mode mode,
                       const char *type, int fate)
{
    howdah_dead_letters_options lo = HOWDAH_DEAD_LETTERS_OPTIONS_INIT;
    sh_board *board = sh_board_new();
    sh_hand hand = {.stage = stage, .board = board, .o = sh_options(stage, id, mode)};
    int64_t before = stage->number(stage, "SELECT coalesce(max(global_sequence), 0) FROM {events}");
    keep_dead_letter dead_letter = {0};
    size_t poisoned = 0;
    int64_t poison;
    int64_t last;

    hand.o.start = before;
    hand.o.max_retries = 1;
    (void)sh_append(stage, "s1", "plain");
    poison = sh_append(stage, "s2", type);
    (void)sh_append(stage, "s2", "plain");
    (void)sh_append(stage, "s1", "plain");
    last = sh_append(stage, "s3", "plain");
    /* The first death cannot be laid at its door; then it is named before each of its tries. */
    assert_int_equal(keep_alive(&hand, last, fate), 1 + 2);
    for (size_t i = 0; i < atomic_load(&board->n); i++)
        poisoned += board->seen[i].sequence == poison;
    assert_int_equal(poisoned, 3);
    assert_int_equal(atomic_load(&board->ended), 4); /* all others, once */
    lo.subscriber_id = id;
    assert_true(howdah_dead_letters_walk(stage->bus, &lo, on_dead_letter, &dead_letter, NULL) >= 0);
    assert_int_equal(dead_letter.n, 1);
    assert_int_equal(dead_letter.sequence, poison);
    assert_int_equal(dead_letter.attempts, 2);
    assert_string_equal(dead_letter.error, "its handler was begun 2 times and never ended");
    if (mode == HOWDAH_CHECKPOINT_TRANSACTIONAL)
        check_effects(stage, id, 4);
    sh_board_free(board);
}

void sh_case_poison(const sh_stage *stage)
{
    poison_one(stage, "poison:sync", HOWDAH_CHECKPOINT_SYNC, "exit", 9);
    poison_one(stage, "poison:tx", HOWDAH_CHECKPOINT_TRANSACTIONAL, "poison", 1000 + SIGKILL);
}

/* ---- clean ends, take-overs */

void sh_case_clean_end(const sh_stage *stage)
{
    sh_board *board = sh_board_new();
    sh_hand hand = {.stage = stage, .board = board};
    pid_t pid;

    hand.o = sh_options(stage, "clean", HOWDAH_CHECKPOINT_BATCHED);
    hand.o.batch_size = 1000;
    hand.o.max_delay_ms = 60000;
    hand.o.lease_ms = 60000; /* nobody waits for it */
    for (int i = 0; i < 5; i++)
        (void)sh_append(stage, "s1", "plain");
    pid = sh_start(&hand);
    sh_wait_seen(board, 5, SH_PATIENCE_MS);
    assert_int_equal(sh_stored(stage, "clean").contiguous, 0);
    sh_end(pid);
    assert_int_equal(sh_stored(stage, "clean").contiguous, 5);
    assert_false(sh_stored(stage, "clean").owned);
    (void)sh_append(stage, "s1", "plain");
    pid = sh_start(&hand);
    sh_wait_seen(board, 6, 30000); /* the lease would have lasted a minute */
    sh_end(pid);
    for (int i = 0; i < 3; i++)
        sh_end(sh_start(&hand)); /* however early it is told */
    assert_string_equal(sh_times(board, 6), "111111");
    sh_board_free(board);
}

/* Kills in a row: whoever owns it is killed, the other goes on; once at least within the time
 * promised. */
void sh_case_take_over(const sh_stage *stage)
{
    sh_board *board = sh_board_new();
    sh_hand hand = {.stage = stage, .board = board};
    pid_t pids[2];
    int64_t token = 0;
    int64_t quickest = INT64_MAX;
    int64_t slowest = 0;

    hand.o = sh_options(stage, "take", HOWDAH_CHECKPOINT_TRANSACTIONAL);
    (void)sh_append(stage, "s1", "plain");
    for (int i = 0; i < 2; i++) {
        hand.who = i;
        pids[i] = sh_start(&hand);
        sh_wait_seen(board, 1, SH_PATIENCE_MS); /* the first one is the owner */
    }
    for (int round = 0; round < 3; round++) {
        size_t n = atomic_load(&board->n);
        int owner = board->seen[n - 1].who;
        int64_t killed;
        int64_t took;

        sh_wait_stored(stage, "take", round + 1);
        assert_true(sh_stored(stage, "take").token > token);
        token = sh_stored(stage, "take").token;
        (void)usleep(50000);
        sh_kill(pids[owner]);
        killed = hw_clock_mono_ms();
        (void)sh_append(stage, "s1", "plain");
        sh_wait_seen(board, n + 1, SH_PATIENCE_MS);
        took = board->seen[n].at_ms - killed;
        slowest = took > slowest ? took : slowest;
        quickest = took < quickest ? took : quickest;
        assert_int_equal(board->seen[n].who, 1 - owner);
        hand.who = owner;
        pids[owner] = sh_start(&hand);
        (void)usleep(100000);
    }
    sh_wait_stored(stage, "take", 4);
    for (int i = 0; i < 2; i++)
        sh_end(pids[i]);
    print_message("# take-overs took %lld to %lld ms\n", (long long)quickest, (long long)slowest);
    assert_true(quickest <= stage->take_over_ms); /* another one may have met a busy machine */
    assert_string_equal(sh_times(board, 4), "1111");
    check_effects(stage, "take", 4);
    sh_board_free(board);
}

/* F3: who sleeps through its lease finds out that it is not the owner any more. */
void sh_case_zombie(const sh_stage *stage, howdah_instance instance)
{
    sh_board *board = sh_board_new();
    sh_hand hand = {.stage = stage, .board = board};
    sh_place before;
    pid_t first;
    pid_t second;

    hand.o = sh_options(stage, "zombie", HOWDAH_CHECKPOINT_SYNC);
    hand.o.instance = instance;
    hand.o.lease_ms = 2 * stage->lease_ms; /* the second one keeps it, on a busy machine too */
    (void)sh_append(stage, "s1", "plain");
    (void)sh_append(stage, "s1", "slow");
    first = sh_start(&hand);
    sh_wait_seen(board, 2, SH_PATIENCE_MS);
    assert_int_equal(kill(first, SIGSTOP), 0); /* in the handler of 2 */
    before = sh_stored(stage, "zombie");
    assert_int_equal(before.contiguous, 1);
    hand.who = 1;
    second = sh_start(&hand);
    sh_wait_seen(board, 3, SH_PATIENCE_MS);
    assert_int_equal(board->seen[2].who, 1);
    (void)sh_append(stage, "s1", "plain");
    sh_wait_stored(stage, "zombie", 3);
    assert_true(sh_stored(stage, "zombie").token > before.token);
    assert_int_equal(kill(first, SIGCONT), 0); /* it stores what it did: refused */
    (void)usleep(700000);
    for (int i = 0; i < 3; i++)
        (void)sh_append(stage, "s1", "plain");
    sh_wait_stored(stage, "zombie", 6);
    (void)usleep(100000);
    /* 2 was begun by both; everything else has been done once, and by the new owner. */
    assert_string_equal(sh_times(board, 6), "121111");
    for (size_t i = 2; i < atomic_load(&board->n); i++)
        assert_int_equal(board->seen[i].who, 1);
    assert_int_equal(sh_disorder(board), 0);
    /* It has stepped down and stands by. */
    sh_kill(second);
    (void)sh_append(stage, "s1", "plain");
    sh_wait_seen(board, 8, SH_PATIENCE_MS);
    assert_int_equal(board->seen[7].who, 0);
    sh_end(first);
    sh_board_free(board);
}
