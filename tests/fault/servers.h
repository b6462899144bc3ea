/*
 * servers.h - a primary, its standbys, and what leads clients to one of them: fail-overs in a test.
 *
 * The primary is the server of tools/with-pg, so the test needs one of its own ('own': true); a
 * test that stops it has it started again by srv_primary_start() in its teardown.  Everything
 * lies in that server's directory and is gone with it; processes that were started here end with
 * the test's.  All of these assert.
 *
 *   srv_front *front = srv_front_new();             a socket that leads to the primary
 *   srv *standby = srv_standby_new("b");            follows the primary
 *   srv_pooler *pooler = srv_pooler_new(front->dir, 1);
 *   ...
 *   srv_cut_off(standby);                           what is written from now on is lost
 *   ...
 *   srv_primary_stop();
 *   srv_front_to(front, standby->dir);              still in recovery
 *   srv_promote(standby);
 */
#ifndef HW_TESTS_FAULT_SERVERS_H
#define HW_TESTS_FAULT_SERVERS_H

#include <stdbool.h>
#include <sys/types.h>

/* ---- the primary */

/* Where its socket is. */
const char *srv_primary_dir(void);
/* Of its socket, and of every other one: their directories differ. */
const char *srv_port(void);
/* As after a power failure: pg_ctl stop -m immediate. */
void srv_primary_stop(void);
/* If it is not running. */
void srv_primary_start(void);

/* ---- a standby: hot, streaming, asynchronous */

typedef struct srv {
    pid_t pid; /* 0: not running */
    bool cut_off;
    char dir[160]; /* data, log, and its socket */
    char url[400]; /* straight to it, as superuser */
} srv;

/* A copy of the running primary that follows it; it has all that was committed before the call. */
srv *srv_standby_new(const char *name);
/* Has it replayed what is committed on the primary now? Waits for it. */
void srv_catch_up(const srv *s);
/*
 * Gets no more from the primary, for ever.  Pausing its replay would not do: what it has received
 * it replays before it is promoted.
 */
void srv_cut_off(srv *s);
/* Replay stands still, so that readers of the standby see an old log; and goes on. */
void srv_pause_replay(const srv *s);
void srv_resume_replay(const srv *s);
/* When it returns, it takes writes, on a timeline of its own. */
void srv_promote(const srv *s);
/*
 * Until so many lines of its log have this text: "application_name=..." counts connections that it
 * let in, "in a read-only transaction" statements that it refused.
 */
void srv_wait_for_log(const srv *s, const char *text, int n);
/* At once, as a crash; and again, as what it was. */
void srv_stop(srv *s);
void srv_start(srv *s);
/* Stopped, and its files removed; NULL is nothing. */
void srv_free(srv *s);

/* ---- a front: one address that leads to one server after the other */

typedef struct srv_front {
    char dir[160];
    char url[400]; /* through it, as superuser */
} srv_front;

/* Leads to the primary at first.  Connections that there are stay where they are. */
srv_front *srv_front_new(void);
/* dir: of a server's socket; NULL: to nobody (no such socket). */
void srv_front_to(const srv_front *front, const char *dir);
void srv_front_free(srv_front *front);

/* ---- a PgBouncer in transaction mode */

typedef struct srv_pooler {
    pid_t pid;
    int pool;
    char dir[160];
    char url[400]; /* through it, as superuser */
} srv_pooler;

/* dir: of a server's socket, or of a front.  pool: sessions on the server at most. */
srv_pooler *srv_pooler_new(const char *dir, int pool);
/*
 * From now on to that server: the configuration is read again, idle sessions of the old one are
 * closed, busy ones after their transaction.  Clients notice nothing.
 */
void srv_pooler_to(const srv_pooler *p, const char *dir);
void srv_pooler_free(srv_pooler *p);

#endif
