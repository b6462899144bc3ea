/*
 * race_writers.h - what a race is made of: sixteen writers of every kind (the library, the caller's
 * own transactions, SQL functions, raw inserts; with rollbacks, savepoints, two phases and long
 * thoughts) and one who kills sessions whose application_name begins with "race".
 */
#ifndef HW_TESTS_FAULT_RACE_WRITERS_H
#define HW_TESTS_FAULT_RACE_WRITERS_H

#include <stdatomic.h>
#include <sys/types.h>

#include "test_pg_help.h"

#define RACE_WRITERS 16
#define RACE_SHARED_STREAMS 90
#define RACE_OWN_STREAMS 100 /* the first of the writers' own streams */
#define RACE_STREAMS (RACE_OWN_STREAMS + RACE_WRITERS)

/* Shared by all processes. */
typedef struct race {
    atomic_bool stop;                        /* the writers */
    atomic_bool no_more;                     /* the killer */
    atomic_bool done;                        /* the readers, too */
    atomic_llong acknowledged[RACE_WRITERS]; /* appends of the library to the writer's own stream */
    atomic_int kills;
    atomic_int odd;    /* an append failed in a way that says neither "again" nor "unknown" */
    unsigned pause_us; /* writers rest between two works, at most so long; and do less */
} race;

extern race *race_all;

void race_open(void);
void race_close(void);

/* The stream's number is in its name. */
int race_stream_number(const char *name);

void race_be_writer(const pgt *t, int me);
void race_be_killer(const pgt *t, int me);
/* What was prepared and forgotten is committed, or taken back. */
void race_finish_prepared(const pgt *t, PGconn *conn, const char *older_than);

/* A process; it ends with its parent.  SIGTERM waits until be() lets it come. */
pid_t race_start(const pgt *t, int me, void (*be)(const pgt *t, int me));
void race_let_term(bool let);
/* It has ended, and well. */
void race_wait_for(pid_t pid);

/* HOWDAH_RACE_SECONDS, or otherwise. */
long race_seconds(long otherwise);
/*
 * Writers and killer for so long; meanwhile() is called again and again, and may take its time.  On
 * a slow machine the race goes on until it says true: enough has happened.
 */
void race_run(const pgt *t, long seconds, bool (*meanwhile)(const pgt *t, void *ctx), void *ctx);
/* What was acknowledged is there, once; nothing failed oddly. */
void race_check_writers(const pgt *t);

#endif
