/*
 * fake.h - a store over the simulated world: all of hw_store_ops and hw_sub_ops that subscriptions
 * use, in memory.
 *
 *   I1  Each operation is one statement in one snapshot, or one transaction.  Before it a hook lets
 *       the world go on, and may cut the connection: before the operation, after it, or so that a
 *       commit happens later, if at all.
 *   I2  What a session holds (locks, LISTEN, an open transaction) ends with it; a session whose
 *       client is gone may live on for a while.
 *   I3  A checkpoint alone is not durable at once: a crash of the server takes it back, unless
 *       something durable was committed after it.
 *   I4  Behind a pooler a handle keeps its session when the server under it is replaced or crashes,
 *       unless a transaction was open.  As with PostgreSQL (store/pg/hole_evidence.c) only an
 * answer can tell that the log is another one: by its name, by fewer numbers drawn than before, or
 * by an event that is not there.  Then the session's number is another one.
 */
#ifndef HW_TESTS_SIM_FAKE_H
#define HW_TESTS_SIM_FAKE_H

#include "store/store.h"
#include "world.h"

enum {
    FAKE_SUBS = 3,
    FAKE_OUTSTANDING = WORLD_NUMBERS / 2,
    FAKE_DEAD_LETTERS = 1024,
    FAKE_SKIPS = 2048,
    FAKE_SESSIONS = 4096
};

typedef struct fake fake;
typedef struct fake_store fake_store;

/* A process; it has a session for the bus, and another one for its handlers' transactions. */
typedef struct fake_client {
    fake *server;
    int number;
    bool dead;       /* nothing gets through any more */
    int64_t bell_us; /* when the bell is heard; 0: nobody has rung since it was last */
} fake_client;

typedef enum fake_op {
    FAKE_READ,   /* changes nothing: may be repeated in a new session by the store itself */
    FAKE_ASK,    /* changes nothing, is not repeated */
    FAKE_WRITE,  /* */
    FAKE_COMMIT, /* of a handler's transaction */
} fake_op;

typedef enum fake_verdict {
    FAKE_GO,
    FAKE_REFUSE,      /* the statement is cancelled, the session lives on */
    FAKE_FAIL_BEFORE, /* the connection is cut before */
    FAKE_FAIL_AFTER,  /* the connection is cut after: the answer is lost */
    FAKE_LATE         /* COMMIT: it is decided later whether it happened */
} fake_verdict;

typedef struct fake_sub {
    char id[32];
    char pattern[32];
    bool has_pattern;
    int64_t high;
    hw_range outstanding[FAKE_OUTSTANDING];
    hw_range still[FAKE_OUTSTANDING];
    size_t outstanding_n;
    size_t still_n;
    int64_t moves;
    hw_anchor anchor;
    char timeline[HW_TIMELINE_SIZE];
    int64_t token;
    char owner[128];
    bool owned;
    uint64_t lock; /* the session that has it, 0: none */
    int64_t lease_until_us;
    hw_sub_status status;
    char reason[256];
    int64_t suspect_sequence;
    int64_t suspect_attempts;
} fake_sub;

typedef struct fake_dead_row {
    int64_t id;
    int sub;
    int64_t sequence;
    int64_t attempts;
    int64_t redrives;
    hw_dead_letter_state state;
    bool resolved;
    char error[96];
} fake_dead_row;

typedef struct fake_skip {
    int sub;
    hw_range range;
    int64_t age_ms;
    bool resolved;
} fake_skip;

/* What a handler's transaction wants to do when it commits. */
typedef struct fake_work {
    int64_t effect;             /* the event whose effect it is, 0: none */
    uint32_t effect_life;       /* that it was drawn in */
    int64_t dead_letter;        /* a dead letter that it settles, 0: none */
    hw_dead_letter_state state; /* to this */
} fake_work;

/* A commit whose session lost its client: it holds the row until it is decided. */
typedef struct fake_late {
    bool open;
    fake_work work;
    int64_t token;
    int64_t high;
    hw_range outstanding[FAKE_OUTSTANDING];
    size_t outstanding_n;
    hw_range still[FAKE_OUTSTANDING];
    size_t still_n;
    bool keeps_still;
    hw_anchor anchor;
} fake_late;

typedef struct fake_proven {
    int64_t upto;
    hw_range holes[FAKE_OUTSTANDING];
    size_t holes_n;
} fake_proven;

typedef struct fake_hooks {
    void *ctx;
    fake_verdict (*before)(void *ctx, fake_store *store, fake_op op);
    /* Something happened to subscription number sub. */
    void (*created)(void *ctx, int sub);
    void (*stored)(void *ctx, int sub);
    void (*effect)(void *ctx, int sub, int64_t sequence, uint32_t life);
    void (*dead_letter)(void *ctx, int sub, int64_t sequence, uint32_t life);
    void (*skipped)(void *ctx, int sub, hw_range range);
    void (*wrong)(void *ctx, int sub, const char *what); /* a promise to the store is broken */
} fake_hooks;

typedef struct fake_session {
    bool alive;
    bool listens;
    bool in_transaction;
    int64_t ends_us; /* its client is gone: it ends then; INT64_MAX: it is not */
} fake_session;

struct fake {
    world *world;
    fake_hooks hooks;
    bool sees_idle; /* who does nothing can be told */
    bool pooled;    /* I4 */
    fake_proven proven;
    fake_proven durable_proven;
    fake_sub subs[FAKE_SUBS];
    fake_sub durable[FAKE_SUBS]; /* I3 */
    bool dirty;
    int subs_n;
    fake_late late[FAKE_SUBS];
    fake_dead_row dead_letters[FAKE_DEAD_LETTERS];
    int dead_letters_n;
    fake_skip skips[FAKE_SKIPS];
    int skips_n;
    fake_session sessions[FAKE_SESSIONS];
    uint64_t sessions_n; /* the last number given */
    bool armed;
};

struct fake_store {
    hw_store base;
    fake_client *client;
    uint64_t session;           /* 0: not connected */
    char log[HW_TIMELINE_SIZE]; /* that it has met, "": none yet */
    int64_t drawn;              /* there */
    bool cut_after;             /* of the operation at hand */
    bool late;
    bool in_transaction;
    fake_work work;
};

void fake_init(fake *f, world *w);
/* A session's handle; close it by its operations. */
hw_store *fake_open(fake_client *client);

/* The client's end of the connection is gone; the server hears of it after a while. */
void fake_cut(fake_store *store, int64_t linger_us);
/* All sessions end; what was not durable may be lost. */
void fake_crash(fake *f, bool lose_tail);
/* The rows of an older copy, image, take the place of f's; the world has been replaced already. */
void fake_replace(fake *f, const fake *image);
/* What fake_replace() needs of f. */
void fake_save(fake *image, const fake *f);
/* All that is stored now stays. */
void fake_sync(fake *f);
/* Decides the late commit on a row, if there is one. */
void fake_prove_late(fake *f, int sub);
/* The number of the subscription, WORLD_NOBODY without. */
int fake_find(const fake *f, hw_str id);
bool fake_matches(const fake_sub *sub, const world *w, int64_t sequence);
bool fake_is_outstanding(const fake_sub *sub, int64_t sequence);
/* The effect of the event in the open transaction of a handler. */
void fake_effect(hw_store *tx, int64_t sequence, uint32_t life);
/* The life that the event's number was drawn in. */
uint32_t fake_life(const howdah_event *event);
/* The event is in the log (sequence 0: there is none to be). */
bool fake_stands_on(const world *w, const hw_anchor *anchor);
/* Whether the bell reaches its session. */
bool fake_listens(const hw_store *base);
bool fake_session_alive(const fake *f, uint64_t session);

/* ---- between the files of the fake */

int fake_enter(fake_store *store, fake_op op, howdah_error *reterr);
/* After the operation: its own result, or the one of a lost answer. */
int fake_leave(fake_store *store, fake_op op, int s, howdah_error *reterr);
/* The event of a visible number; texts are constants. */
void fake_event(const world *w, int64_t sequence, howdah_event *ret_event);
int64_t fake_clock_us(const fake *f);

/* Which log this is. */
const char *fake_log(const fake *f);
/* I4: the answer to a question came from this log, with so many numbers drawn. */
void fake_meet(fake_store *store, int64_t drawn);
/* Nothing that the handle has learnt is true any more. */
void fake_forget(fake_store *store);

extern const hw_sub_ops fake_sub_ops;
/* of fake_dead_letters.c */
int fake_dead_letter(hw_store *base, const hw_checkpoint *checkpoint, const howdah_event *event,
                     hw_str error, int64_t attempts, int64_t *ret_id, howdah_error *reterr);
int fake_dead_letters(hw_store *base, const hw_dead_letter_query *query, hw_dead_letter_fn fn,
                      void *ctx, howdah_error *reterr);
int fake_dead_letters_set_state(hw_store *base, const int64_t *ids, size_t n, hw_str subscriber_id,
                                hw_dead_letter_state state, hw_str reason, int64_t *ret_n,
                                howdah_error *reterr);
int fake_redrive_end(hw_store *base, const hw_hold *hold, int64_t id, hw_dead_letter_state state,
                     hw_str error, howdah_error *reterr);
int fake_do_skip(hw_store *base, const hw_checkpoint *checkpoint, hw_range range, int64_t age_ms,
                 hw_str reason, howdah_error *reterr);
int fake_skips(hw_store *base, hw_str subscriber_id, bool resolved, hw_skip_fn fn, void *ctx,
               howdah_error *reterr);
int fake_skip_resolve(hw_store *base, int64_t id, hw_str resolution, howdah_error *reterr);
int fake_begin(hw_store *base, hw_str log, howdah_error *reterr);
void *fake_handle(hw_store *base);
int fake_commit(hw_store *base, const hw_checkpoint *checkpoint, howdah_error *reterr);
void fake_rollback(hw_store *base);
/* of fake_subs.c: token and log are right (WORLD_NOBODY: they are not, or there is no such row). */
int fake_row(fake *f, const hw_hold *hold);
/* The same, and the event that the checkpoint stands on is there. */
int fake_place(fake *f, const hw_checkpoint *checkpoint);
int fake_lost(hw_str id, howdah_error *reterr);
/* The row takes the checkpoint over. */
void fake_put(fake *f, int sub, const hw_checkpoint *checkpoint);

#endif
