/*
 * world.h - a database server with writers, as far as subscriptions can tell: numbers,
 * transactions, snapshots, locks, sessions, crashes.  No I/O; time and chance are its own.
 *
 *   I1  A number is drawn once, whatever becomes of its transaction.  After a crash the sequence
 *       goes on above all that was drawn, up to 32 numbers higher.
 *   I2  A row is visible when its transaction has committed; what a transaction did after a
 *       savepoint it rolled back to is dead at once.
 *   I3  Version v + 1 of a stream is stored by a transaction that saw v committed, or stored it
 *       itself; its number is drawn after that.  Who meets another's uncommitted version waits for
 *       that transaction to end, with its number already drawn.
 *   I4  A transaction that has drawn a number holds the sequence's lock until it has ended, through
 *       PREPARE and crashes; rows are visible before the lock is gone.
 *   I5  A transaction id is given out before the first number is drawn, unless ids are lazy.
 *   I6  The server may be replaced by an older copy of itself (a standby that lagged, a restore).
 *       What the copy does not have is gone, what ran in it is rolled back, what was prepared stays
 *       so.  Numbers, ids of transactions and versions that were given out since come again, for
 *       other events: "life" tells these apart from those that are gone.
 *
 * Transactions are in slots; a slot is free again when its transaction has ended and its lock is
 * gone.  What is left of them is in the numbers.
 */
#ifndef HW_TESTS_SIM_WORLD_H
#define HW_TESTS_SIM_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dice.h"
#include "engine/hole_holders.h"

enum {
    WORLD_NUMBERS = 2048, /* 1 to WORLD_NUMBERS - 1 */
    WORLD_TXNS = 24,
    WORLD_WRITERS = 5,
    WORLD_STREAMS = 6,
    WORLD_TYPES = 4,
    WORLD_SAVEPOINTS = 3,
    WORLD_NOBODY = -1
};

extern const char *const world_stream_names[WORLD_STREAMS];
extern const char *const world_type_names[WORLD_TYPES];

/* Mistakes that the world can make on purpose; a run must find each of them (planted.c). */
typedef enum world_bug {
    WORLD_BUG_NONE,
    WORLD_BUG_DRAWN_UNKNOWN,     /* T45: numbers that were not drawn yet count as drawn */
    WORLD_BUG_IDLE_LIES,         /* who draws numbers seems to do nothing */
    WORLD_BUG_PROVEN_TOO_HIGH,   /* more counts as settled than was proven */
    WORLD_BUG_PREPARED_UNSEEN,   /* holders() does not see prepared transactions */
    WORLD_BUG_UNLOCKS_FIRST,     /* the lock is gone before the rows are visible */
    WORLD_BUG_TOKEN_UNCHECKED,   /* a checkpoint of an old owner is taken */
    WORLD_BUG_TWO_SNAPSHOTS,     /* a read of ranges is not one snapshot */
    WORLD_BUG_DEAD_LETTER_ALONE, /* a dead letter's checkpoint is stored, the dead letter is lost */
    WORLD_BUG_COMMIT_FORGETS,    /* a handler's transaction commits without its checkpoint */
    WORLD_BUG_LOG_UNCHECKED,     /* a place is taken into a log that it was not learnt from */
    WORLD_BUG_POOLER_HIDES,      /* confirm() does not ask which log this is */
    WORLD_BUG_LOG_KEPT,          /* begin() takes the log that it has met once for the one there */
    WORLD_BUG_ORDER_BY_XID       /* a page's rows are in the order of (transaction id, number) */
} world_bug;

typedef enum number_state {
    NUMBER_NONE, /* not drawn, or jumped over by a crash */
    NUMBER_IN_FLIGHT,
    NUMBER_DEAD,
    NUMBER_VISIBLE
} number_state;

typedef struct world_number {
    uint8_t state;
    bool stored; /* in flight: its row is there */
    int8_t stream;
    int8_t type;
    int8_t depth; /* of the savepoint that it was drawn under */
    int32_t version;
    int32_t before; /* the number drawn before by the same transaction, 0: none */
    int32_t order;  /* when it became visible, counted, */
    int64_t at_us;  /* and by the clock */
    uint64_t xid;   /* visible: whose it is */
    uint32_t life;  /* the one that it was drawn in */
} world_number;

typedef enum txn_state {
    TXN_FREE,
    TXN_RUNNING,
    TXN_PREPARED,
    TXN_COMMITTING, /* planted: its lock is gone, its rows are not visible yet */
    TXN_ENDED       /* its lock is still there */
} txn_state;

typedef struct world_txn {
    txn_state state;
    uint64_t virtual_id;
    uint32_t steps;   /* statements that it has executed */
    uint64_t xid;     /* 0: none yet */
    uint64_t top_xid; /* the highest one of its own and its savepoints' */
    bool locks;       /* the sequence */
    int depth;        /* of savepoints */
    int32_t last;     /* number drawn last, 0: none */
    int waits_for;    /* the stream whose holder must end first, or WORLD_NOBODY */
    int64_t since_us;
} world_txn;

typedef struct world_stream {
    int32_t version; /* committed */
    int holder;      /* the transaction with versions above, or WORLD_NOBODY */
} world_stream;

/* A client that writes; see writers.c. */
typedef struct world_writer {
    int txn;
    int64_t wake_us;
    int batch; /* numbers that its statement still has to draw */
    int batch_stream;
} world_writer;

typedef struct world world;
typedef void (*world_commit_fn)(void *ctx, int32_t first_order);

struct world {
    sim_dice dice;
    world_bug bug;
    int64_t now_us;
    /* the log */
    world_number numbers[WORLD_NUMBERS];
    int32_t drawn;  /* the last number given out */
    int32_t logged; /* the sequence is safe up to here: a crash goes on above */
    int32_t orders; /* rows that became visible so far */
    int32_t visible_high;
    world_stream streams[WORLD_STREAMS];
    /* version -> number, of the committed ones */
    int32_t by_version[WORLD_STREAMS][WORLD_NUMBERS / 4];
    uint32_t timeline; /* of this history, as the server itself tells it */
    /* transactions */
    uint64_t next_xid;
    uint64_t next_virtual;
    world_txn txns[WORLD_TXNS];
    /* the writers */
    world_writer writers[WORLD_WRITERS]; /* the last of what an image stands for */
    int writers_n;
    bool lazy_ids;  /* the id comes with the row, not with the number, as when a client draws it */
    int32_t burst;  /* one writer burns about so many numbers at once, 0: none does */
    int32_t bursts; /* so far */
    bool sleeper;   /* one writer stays open for minutes */
    bool prepares;  /* many transactions are prepared, and so outlive a crash */
    int32_t numbers_max; /* no new transaction is begun when so many are drawn */
    int64_t patience_us; /* the longest sleep of a writer inside a transaction */
    bool healing;        /* writers only end what they have begun */
    int64_t down_until_us;
    uint32_t restarts;
    uint32_t life;      /* counts the histories of this log: one more when it was replaced */
    uint32_t timelines; /* given out so far */
    uint64_t trace;     /* a hash of all that has happened */
    world_commit_fn on_commit;
    void *on_commit_ctx;
};

void world_init(world *w, uint64_t seed);
/* Mixes something that happened into the trace. */
void world_note(world *w, uint64_t a, uint64_t b);

/* ---- transactions, one statement each; for writers and tests */

/* A slot, or WORLD_NOBODY when all are taken. */
int world_begin(world *w);
void world_assign_xid(world *w, int txn);
/*
 * Draws a number and stores a row.  When another transaction holds the stream the number is drawn
 * and the transaction waits (waits_for) until that one has ended; false when that would be a
 * deadlock, or when no number is left: roll back.
 */
bool world_insert(world *w, int txn, int stream, int type);
/* The stream's holder has ended: the row is stored, or false when the version is taken now. */
bool world_resume(world *w, int txn);
void world_savepoint(world *w, int txn);
void world_rollback_to(world *w, int txn);
void world_release(world *w, int txn);
void world_prepare(world *w, int txn);
/* Rows become visible; the lock stays until world_unlock(). */
void world_commit(world *w, int txn);
void world_rollback(world *w, int txn);
void world_unlock(world *w, int txn);
/* The server stops and starts: what runs is rolled back, what is prepared stays. */
void world_crash(world *w);
/*
 * I6: image is a copy of w at an earlier moment.  told: the server says that this is another line
 * of its history, as a standby that was promoted does; a copy that was only started again does not.
 */
void world_replace(world *w, const world *image, bool told);

/* ---- what a session can ask, each in one snapshot */

bool world_is_visible(const world *w, int64_t number);
/* Who holds the sequence's lock: room for WORLD_TXNS; returns how many. */
size_t world_holders(const world *w, bool sees_idle, hw_holder *out);

/* ---- the writers */

void writers_init(world *w);
/* One statement of one writer that is awake; false when all are asleep. */
bool writers_step(world *w);
/* When the next one wakes; INT64_MAX: never. */
int64_t writers_next_us(const world *w);
/* Every transaction ends, one way or the other. */
void writers_heal(world *w);
/* Nothing is open. */
bool writers_are_idle(const world *w);

#endif
