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

#define QR_QUEUE "race"
#define QR_WORKERS 8
#define QR_PUSHERS 2
#define QR_KEYS 40           /* of each pusher */
#define QR_IDS_MAX 1000000   /* ids begin at 1 */
#define QR_NOTES_MAX 8000000 /* pages that are not written cost nothing */
#define QR_ABORT_ATTEMPTS 2  /* of a job that kills its worker */
#define QR_ATTEMPTS 1000     /* of all others: no chain of accidents is that long */

/* What a job is about; its data is the number. */
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
    int64_t sent; /* ACCEPTED: the number of the note that announced it */
    int32_t key;  /* 0: none */
    bool final;   /* ACCEPTED: the job is over */
} qr_note;

/* What the pushers know of a job. */
typedef struct qr_pushed {
    atomic_bool stored;
    int32_t kind;
    int32_t key;
} qr_pushed;

/* Shared by all processes. */
typedef struct qr_shared {
    atomic_bool done;    /* workers end */
    atomic_llong to_be;  /* pushed at most, */
    atomic_llong stored; /* and at least */
    atomic_llong repeats;
    atomic_llong lost; /* settlements that were refused */
    atomic_int odd;    /* something that must not be */
    atomic_llong notes_n;
    qr_pushed pushed[QR_IDS_MAX];
    qr_note notes[QR_NOTES_MAX];
} qr_shared;

extern qr_shared *qr_all;

/* Where the race is run. */
typedef struct qr_arena {
    char url[1200];
    const howdah_settings *settings;
    long jobs;
    long seconds; /* in which they are pushed */
} qr_arena;

/* Retried while the store cannot be reached. */
howdah_bus *qr_open(const qr_arena *arena, const char *application);
/* It should not have happened: says so, and counts it. */
void qr_odd(const char *what, int status, const howdah_error *err);

/* Bodies of processes; me is their number. */
void qr_be_pusher(const qr_arena *arena, int me);
void qr_be_worker(const qr_arena *arena, int me);

/* After the race: asserts.  bus looks at the history. */
void qr_check(howdah_bus *bus);

#endif
