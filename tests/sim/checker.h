/*
 * checker.h - what must hold, whatever happens; told of every event of a run as it comes.
 *
 *   C1  Only committed events that match are delivered.  One that went with a log that was replaced
 *       may still come in a pass that had begun before, and in no later one.
 *   C2  Streams are in order, and nothing is left out: an event is delivered when every earlier one
 *       of its stream is settled (handled, or a dead letter, or skipped on the record).  Within one
 *       stint of an owner (one token) a stream goes on where it was: the same event again, if it
 *       has not been handled, or the next.  STRICT: all of it holds for the whole log.
 *   C3  With transactions, no effect exists twice, and none of an event that is not in the log.
 *   C4  A stored checkpoint never leads: each number up to high that it does not owe is settled,
 *       does not match, or never appears.  A number in flight may still appear.  Its place stands
 * on an event of the log. C5  When all is well again, every committed event that matches is
 * settled, in finite time, and the checkpoint gets to the end of the log and owes nothing. C6 Where
 * nothing fails, an event is settled soon after its commit, whatever other transactions do: one
 * that is open for minutes delays its own events only.
 *
 * When the log is replaced by an older copy, all of it holds for the log that is there now.  What
 * is in the same database goes back with it: effects of transactions, dead letters, skips.  What
 * else a handler did stays done, for the events that are still there.  Order is judged anew.
 *
 * A copy that calls itself by the same name, behind a pooler, under an owner whose last event it
 * has, cannot be told from the log before (store/subscriptions.h I7).  From then on only what I7
 * promises is judged: C1 as far as it goes, and that each place stored stands on an event of the
 * log.
 */
#ifndef HW_TESTS_SIM_CHECKER_H
#define HW_TESTS_SIM_CHECKER_H

#include "fake.h"

enum { CHECK_PROCESSES = 2, CHECK_LOST = 4 * WORLD_NUMBERS };

/* An event that was committed in a log that is gone. */
typedef struct check_lost {
    int32_t number;
    uint32_t life;
    int8_t type;
} check_lost;

typedef struct check_stint {
    int64_t token;
    int32_t version[WORLD_STREAMS]; /* delivered last, 0: none yet */
    bool handled[WORLD_STREAMS];    /* and handled */
    int64_t number;                 /* STRICT: delivered last, of any stream */
} check_stint;

typedef struct check_sub {
    bool transactional;
    bool strict;
    uint8_t handled[WORLD_NUMBERS]; /* how often, at most 255 */
    bool recent[WORLD_NUMBERS];     /* and in this life of the log */
    uint8_t effects[WORLD_NUMBERS];
    bool dead_letter[WORLD_NUMBERS];
    bool skipped[WORLD_NUMBERS];
    bool exempt[WORLD_NUMBERS]; /* it began behind them */
    int64_t delivered_high;     /* the highest number delivered so far */
    check_stint stints[CHECK_PROCESSES];
} check_sub;

typedef struct checker {
    const world *world;
    const fake *server;
    check_sub subs[FAKE_SUBS];
    uint32_t pass_life[CHECK_PROCESSES]; /* of the log when its pass began */
    check_lost lost[CHECK_LOST];
    int lost_n;
    bool weak; /* since the log was replaced, behind a pooler, by one that says it is the same */
    bool violated;
    char what[256]; /* the first violation */
} checker;

void checker_init(checker *c, const world *w, const fake *f);
/* What kind of subscription number sub will be. */
void checker_expect(checker *c, int sub, bool transactional, bool strict);

void checker_created(checker *c, int sub, bool from_end);
/* A pass of the process begins. */
void checker_pass(checker *c, int process);
/* life: that the event's number was drawn in, as its id tells. */
void checker_delivered(checker *c, int sub, int process, int64_t token, int64_t number,
                       uint32_t life, bool redrive);
void checker_handled(checker *c, int sub, int process, int64_t token, int64_t number,
                     uint32_t life);
void checker_effect(checker *c, int sub, int64_t number, uint32_t life);
void checker_dead_letter(checker *c, int sub, int64_t number, uint32_t life);
void checker_skipped(checker *c, int sub, hw_range range);
void checker_stored(checker *c, int sub);
/* The log is about to be replaced by an image of the world; then is the checker of that moment. */
void checker_replace(checker *c, const checker *then, const world *image);
void checker_violate(checker *c, int sub, int64_t number, const char *what);
/* The same for what is not promised when weak. */
void checker_suspect(checker *c, int sub, int64_t number, const char *what);

/* C5: the first number that is committed, matches and is not settled; 0: none. */
int64_t checker_unfinished(const checker *c, int sub);
/* C6: violated when one that was visible for so long is not settled. */
void checker_soon(checker *c, int sub, int64_t within_us);
/* C5: the stored checkpoint is at the end of the log. */
bool checker_is_at_end(const checker *c, int sub);

#endif
