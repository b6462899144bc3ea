/*
 * checker.h - what must hold, whatever happens; told of every event of a run as it comes.
 *
 *   C1  Only committed events that match are delivered.
 *   C2  Streams are in order, and nothing is left out: an event is delivered when every earlier one
 *       of its stream is settled (handled, or a dead letter, or skipped on the record).  Within one
 *       stint of an owner (one token) a stream goes on where it was: the same event again, if it
 * has not been handled, or the next.  STRICT: all of it holds for the whole log. C3  With
 * transactions, no effect exists twice. C4  A stored checkpoint never leads: each number up to high
 * that it does not owe is settled, does not match, or never appears.  A number in flight may still
 * appear. C5  When all is well again, every committed event that matches is settled, in finite
 * time, and the checkpoint gets to the end of the log and owes nothing.
 *   C6  Where nothing fails, an event is settled soon after its commit, whatever other transactions
 *       do: one that is open for minutes delays its own events only.
 */
#ifndef HW_TESTS_SIM_CHECKER_H
#define HW_TESTS_SIM_CHECKER_H

#include "fake.h"

enum { CHECK_PROCESSES = 2 };

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
    uint8_t effects[WORLD_NUMBERS];
    bool letter[WORLD_NUMBERS];
    bool skipped[WORLD_NUMBERS];
    bool exempt[WORLD_NUMBERS]; /* it began behind them */
    int64_t delivered_high;     /* the highest number delivered so far */
    check_stint stints[CHECK_PROCESSES];
} check_sub;

typedef struct checker {
    const world *world;
    const fake *server;
    check_sub subs[FAKE_SUBS];
    bool violated;
    char what[256]; /* the first violation */
} checker;

void checker_init(checker *c, const world *w, const fake *f);
/* What kind of subscription number sub will be. */
void checker_expect(checker *c, int sub, bool transactional, bool strict);

void checker_created(checker *c, int sub, bool from_end);
void checker_delivered(checker *c, int sub, int process, int64_t token, int64_t number,
                       bool redrive);
void checker_handled(checker *c, int sub, int process, int64_t token, int64_t number);
void checker_effect(checker *c, int sub, int64_t number);
void checker_letter(checker *c, int sub, int64_t number);
void checker_skipped(checker *c, int sub, hw_range range);
void checker_stored(checker *c, int sub);
void checker_violate(checker *c, int sub, int64_t number, const char *what);

/* C5: the first number that is committed, matches and is not settled; 0: none. */
int64_t checker_unsettled(const checker *c, int sub);
/* C6: violated when one that was visible for so long is not settled. */
void checker_soon(checker *c, int sub, int64_t within_us);
/* C5: the stored checkpoint is at the end of the log. */
bool checker_is_at_end(const checker *c, int sub);

#endif
