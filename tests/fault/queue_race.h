/*
 * queue_race.h - what a race of workers is made of: the processes that push and work, the notes
 * that they leave in memory which outlives them, and the verdict on these notes.
 *
 * A note gets its number before what it announces is sent, and after what it reports has come: of
 * two notes the one with the lower number is of something that was certainly not later.
 */
#ifndef HW_TESTS_FAULT_QUEUE_RACE_H
#define HW_TESTS_FAULT_QUEUE_RACE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>
#include <howdah/howdah.h>
#include <howdah/howdah_queue.h>

#define QR_QUEUE "race"
#define QR_WORKERS 8
#define QR_PUSHERS 2
#define QR_KEYS 40         /* of each pusher */
#define QR_IDS_MAX 1000000 /* ids begin at 1; slips as well */
#define QR_CRASHES_MAX 200
#define QR_NOTES_MAX 8000000 /* pages that are not written cost nothing */
#define QR_ABORT_ATTEMPTS 2  /* of a job that kills its worker */
#define QR_ATTEMPTS 1000     /* of all others: no chain of accidents is that long */

/* What a job is about; its data is [kind, slip]. */
enum { QR_DONE, QR_RETRY, QR_FAIL, QR_ABORT, QR_KINDS };

enum {
    QR_NOTHING,  /* a process was killed before it could write */
    QR_CLAIMED,  /* a claim has given it to us */
    QR_BEGUN,    /* the handler runs */
    QR_SENT,     /* the handler has ended, and what it said is about to be sent */
    QR_ACCEPTED, /* the store has taken it */
};

typedef struct qr_note {
    atomic_int kind; /* written last */
    int32_t attempt;
    int64_t id;
    int64_t token;
    int64_t started_us; /* by the database's clock */
    int64_t until_us;
    int64_t sent;     /* ACCEPTED: the number of the note that announced it; SENT: the verdict */
    int64_t noted_us; /* by the clock of this machine, which is the database's */
    int32_t key;      /* 0: none */
    bool final;       /* ACCEPTED: the job is over, */
    bool failed;      /* and has FAILED */
} qr_note;

/* A job in somebody's hands. */
typedef struct qr_hold {
    int64_t id;
    int64_t token;
    int64_t started_us;
    int64_t until_us;
    int32_t attempt;
    int32_t key; /* 0: none */
    long kind;
} qr_hold;

enum {
    QR_DRAWN = 1, /* sent, perhaps; nobody has heard what became of it */
    QR_STORED,    /* acknowledged */
    QR_REPEATED,  /* acknowledged: a job with its dedup key was there */
};

/* What the pushers know of a job.  Those of one push have numbers in a row. */
typedef struct qr_slip {
    atomic_int state; /* written last */
    int32_t kind;
    int32_t key;
    int32_t batch; /* the number of the first of its push */
    bool dedup;
    int64_t id; /* once it is STORED */
} qr_slip;

/* Shared by all processes. */
typedef struct qr_shared {
    atomic_bool done;             /* workers end */
    atomic_bool closing;          /* operators end */
    atomic_llong to_be;           /* pushed at most, */
    atomic_llong stored;          /* and at least */
    atomic_long left[QR_PUSHERS]; /* still to be pushed */
    atomic_llong last_id;         /* or about that */
    atomic_llong purged;
    atomic_llong cancelled;
    atomic_llong again; /* told to be tried at once */
    atomic_llong pauses;
    atomic_llong repeats;
    atomic_llong lost; /* acks that were refused */
    atomic_int odd;    /* something that must not be */
    atomic_llong notes_n;
    atomic_int slips_n;
    int crashes_n;
    int64_t crashes_us[QR_CRASHES_MAX]; /* the server was down then */
    qr_slip slips[QR_IDS_MAX];
    qr_note notes[QR_NOTES_MAX];
} qr_shared;

extern qr_shared *qr_all;

/* Where the race is run. */
typedef struct qr_arena {
    char url[1200];
    const howdah_settings *settings;
    const char *schema; /* NULL: not PostgreSQL */
    long jobs;
    long seconds;  /* in which they are pushed */
    bool operated; /* jobs are purged, cancelled, tried again meanwhile */
} qr_arena;

/* Retried while the store cannot be reached. */
howdah_bus *qr_open(const qr_arena *arena, const char *application);
/* Another try may go better. */
bool qr_is_temporary(const howdah_error *err);
/* Below n. */
unsigned qr_pick(unsigned n);
/* Some are killed where it matters most, by themselves, the nth time; see base/fault.h. */
void qr_choose_end(unsigned visits_max);
/* It should not have happened: says so, and counts it. */
void qr_odd(const char *what, int status, const howdah_error *err);

/* The number of the note. */
int64_t qr_note_down(int kind, const qr_hold *hold, int64_t sent, bool final, bool failed);
/* What is to become of it, after some time. */
howdah_verdict qr_work_on(const qr_hold *hold);

/* Bodies of processes; me is their number. */
void qr_be_pusher(const qr_arena *arena, int me);
void qr_be_worker(const qr_arena *arena, int me);
/* One that knows the SQL functions only; level 0 to 2: READ COMMITTED to SERIALIZABLE. */
void qr_be_sql_worker(const qr_arena *arena, int me, int level);
void qr_be_operator(const qr_arena *arena, int me);

/* After the race: asserts.  bus looks at the history. */
void qr_check(howdah_bus *bus, bool operated);

#endif
