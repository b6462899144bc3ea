/*
 * checker.h - what must hold of a group, whatever happens; told of every step of a run as it comes.
 *
 *   G1  Nothing is lost: when all is well again, every event that concerns the group is handled, or
 *       a dead letter, or was resolved by a person.  What does not concern it never comes.
 *   G2  Streams are in order: an event is given out when every earlier one of its stream is over,
 *       or comes before it in the same batch.
 *   G3  One holder: no event, and with the key by stream no stream, is in two batches whose leases
 *       both run.
 *   G4  A token is stale from the moment when its events are given out again, or when nothing of
 *       its batch is left.  Whoever names it is told so, and changes nothing.  While a lease runs
 *       its token is good.
 *   G5  A try is counted before it begins, and against the event that was tried: a batch says how
 *       often.  What was out when a lease ran out comes one by one; where nothing is retried, each
 *       of several that were out together has its one try then.  After the last try there is a dead
 *       letter, or the group halts; not before.  A retry comes when it is due.
 *   G6  Whoever has to wait for a person waits: a stream that is held, a group that is paused or
 *       halted.
 *   G7  What was acked, or is a dead letter that nobody wants to have tried again, never comes
 *       again, unless the group is reset; also when an earlier event of its stream fails later.
 */
#ifndef HW_TESTS_SIM_GROUPS_CHECKER_H
#define HW_TESTS_SIM_GROUPS_CHECKER_H

#include <stdbool.h>
#include <stdint.h>

#include <howdah/howdah.h>

enum { CHECK_EVENTS = 256, CHECK_BATCHES = 1024, CHECK_BATCH_EVENTS = 16, CHECK_WHAT = 160 };

typedef struct check_rules {
    bool by_stream;
    int max_retries;
    int64_t retry_delay_ms;
    int64_t max_retry_delay_ms;
    howdah_on_fail on_fail;
} check_rules;

typedef enum check_state {
    CHECK_WAITS,
    CHECK_HANDLED,
    CHECK_DEAD,
    CHECK_RESOLVED /* a dead letter that a person has discarded */
} check_state;

typedef struct check_event {
    int stream;
    bool concerns;
    check_state state;
    bool redrive;    /* a person has asked for another try */
    bool suspect;    /* it was out when a lease ran out (G5) */
    bool condemned;  /* its last try has failed just now */
    int lot_tries;   /* leases of it in batches of lots; those given back do not count */
    int retry_tries; /* the same since it is tried by itself */
    int64_t due_us;  /* not before */
} check_event;

typedef struct check_batch {
    bool retry; /* of events that are tried again */
    bool redrive;
    bool over;     /* nothing of it is left, or it was given back */
    bool stale;    /* G4 */
    bool doubtful; /* it may be stale: a lease ran out, and something ended that is not told of */
    int attempt;
    int64_t until_us;
    int n;
    int64_t events[CHECK_BATCH_EVENTS];
    bool out[CHECK_BATCH_EVENTS]; /* acked, or failed, or gone with one that has failed */
} check_batch;

typedef struct group_checker {
    check_rules rules;
    check_event events[CHECK_EVENTS + 1]; /* by number */
    int64_t n;
    int64_t start; /* up to here they do not concern it */
    check_batch batches[CHECK_BATCHES];
    int batches_n;
    int first; /* all batches before it are over or stale */
    bool paused;
    bool halted;
    bool halts; /* it must be halted by now */
    bool violated;
    char what[CHECK_WHAT]; /* the first violation */
} group_checker;

/* What a fetch has given. */
typedef struct check_gift {
    bool retry;
    int attempt;
    int64_t until_us;
    int n;
    int64_t events[CHECK_BATCH_EVENTS];
} check_gift;

void checker_init(group_checker *c, const check_rules *rules, int64_t start);
void checker_appended(group_checker *c, int stream, bool concerns);

/* Returns the number of the batch; -1: there are no more. */
int checker_given(group_checker *c, int64_t now_us, const check_gift *gift);
/* A handler begins, and its member believes in its lease. */
void checker_begun(group_checker *c, int64_t now_us, int batch, int64_t number);

/* What the library has said to those who named a token: HOWDAH_OK, or HOWDAH_LOST. */
void checker_acked(group_checker *c, int64_t now_us, int batch, int64_t upto, int verdict);
/* after_ms < 0: by the schedule. */
void checker_nacked(group_checker *c, int64_t now_us, int batch, int64_t number, int64_t after_ms,
                    int verdict);
void checker_extended(group_checker *c, int64_t now_us, int batch, int64_t until_us, int verdict);
void checker_released(group_checker *c, int64_t now_us, int batch, int verdict);
/* One that was refused has written something. */
void checker_refused_wrote(group_checker *c, int batch);

/* What was found in the store after each operation: first each dead letter, then its status. */
void checker_dead_letter(group_checker *c, int64_t now_us, int64_t number);
void checker_status(group_checker *c, int64_t now_us, bool halted);

/* What people do. */
void checker_paused(group_checker *c, bool paused);
void checker_redrive(group_checker *c, int64_t number);
void checker_discarded(group_checker *c, int64_t number);
void checker_reset(group_checker *c, int64_t to);
/* The machine starts anew: no lease runs, and what is to be tried again is due. */
void checker_rebooted(group_checker *c, int64_t now_us);

/* G3, for all that is out now. */
void checker_step(group_checker *c, int64_t now_us);
/* G1: the first event that is not over; 0: none. */
int64_t checker_unfinished(const group_checker *c);
void checker_violate(group_checker *c, int64_t number, const char *what);

#endif
