/*
 * exec.c - every statement passes here: sent, waited for until a deadline, judged.
 *
 *   I1  All answers up to "ready for query" are taken before a statement counts as done (pg.h I2).
 *   I2  What a failure means for the caller is said by outcome.c, the lost COMMIT above all.
 *   I3  At the deadline the server is asked to cancel and gets CANCEL_GRACE_MS to answer; the
 *       answer decides.  Without one the connection is given up.  A server that does not even
 *       answer a ping is not asked: PQcancel() knows no deadline.  An interrupt cancels, too,
 *       once, but leaves INTERRUPT_GRACE_MS to what is nearly done: a request to cancel is a
 *       connection of its own, and some poolers (PgBouncer 1.18 to 1.20) can end when it crosses
 *       an answer.
 *   I4  A network can swallow everything and close nothing.  So when nothing was heard for
 *       SILENCE_MS, the server is pinged, long before a deadline; without an answer the connection
 *       is given up.  A statement that just takes its time is left alone.
 */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log_hook.h"
#include "base/mem.h"
#include "base/random.h"
#include "store/pg/pg.h"

#define CANCEL_GRACE_MS 2000
#define INTERRUPT_GRACE_MS 100
#define SILENCE_MS 5000
#define PING_KEYWORDS_MAX 64

/* ---- waiting */

typedef enum wake { WAKE_READY, WAKE_DEADLINE, WAKE_SILENCE, WAKE_INTERRUPT, WAKE_ERROR } wake;

/*
 * POLLIN is asked for even while sending: a server that cannot get rid of its answers stops
 * reading, and both sides would wait for each other.  A deadline can be a day away, so poll()
 * sleeps in slices that fit its int.
 */
static wake wait_socket(const hw_pg *pg, bool want_write, bool heed_interrupt, int64_t deadline_ms)
{
    int interrupt_fd = heed_interrupt && pg->interrupt ? pg->interrupt->fd : -1;

    for (;;) {
        struct pollfd p[2] = {
            {.fd = PQsocket(pg->conn), .events = (short)(POLLIN | (want_write ? POLLOUT : 0))},
            {.fd = interrupt_fd, .events = POLLIN}};
        int64_t left = deadline_ms - hw_clock_mono_ms();
        int n;

        if (left <= 0)
            return WAKE_DEADLINE;
        n = poll(p, 2, left > 60000 ? 60000 : (int)left);
        if (n < 0 && errno != EINTR)
            return WAKE_ERROR;
        if (n > 0 && p[1].revents)
            return WAKE_INTERRUPT;
        if (n > 0 && p[0].revents)
            return WAKE_READY;
    }
}

/*
 * The time is over and the answer to the cancel did not come, or nobody could be asked.  The
 * statement may still have been carried out (outcome.c I1).
 */
static int cancelled(hw_pg *pg, wake why, bool writes, howdah_error *reterr)
{
    int s = why == WAKE_INTERRUPT
                ? hw_fail(reterr, HOWDAH_INTERRUPTED, "interrupted")
                : hw_fail(reterr, HOWDAH_TIMEOUT, "PostgreSQL did not answer in time");

    if (writes)
        hw_pg_outcome_unknown(reterr);
    /* The caller's connection is left in the middle of an answer. */
    if (reterr && pg->caller_owned)
        reterr->flags |= HOWDAH_HANDLE_DEAD;
    hw_pg_disconnect(pg);
    return s;
}

/*
 * Asks the very server of our connection for a sign of life.  The address is the one that libpq
 * chose: the answer of another host in the URL's list would say nothing.  Two seconds are
 * libpq's least.
 */
static bool answers_ping(PGconn *conn)
{
    PQconninfoOption *options = PQconninfo(conn);
    const char *keys[PING_KEYWORDS_MAX + 1] = {"host", "port", "connect_timeout"};
    const char *values[PING_KEYWORDS_MAX + 1] = {PQhost(conn), PQport(conn), "2"};
    int n = 3;
    bool alive;

    if (PQhostaddr(conn) && *PQhostaddr(conn)) {
        keys[n] = "hostaddr";
        values[n++] = PQhostaddr(conn);
    }
    for (const PQconninfoOption *o = options; o && o->keyword && n < PING_KEYWORDS_MAX; o++) {
        if (!o->val || strncmp(o->keyword, "host", 4) == 0 || strcmp(o->keyword, "port") == 0 ||
            strcmp(o->keyword, "connect_timeout") == 0 ||
            strcmp(o->keyword, "target_session_attrs") == 0)
            continue;
        keys[n] = o->keyword;
        values[n++] = o->val;
    }
    alive = PQpingParams(keys, values, 0) != PQPING_NO_RESPONSE;
    PQconninfoFree(options);
    return alive;
}

/*
 * I4.  The caller's connection is not pinged: how long it may be silent is the caller's to
 * decide.
 */
static wake wait_heard(const hw_pg *pg, bool want_write, bool heed_interrupt, int64_t deadline_ms)
{
    for (;;) {
        int64_t silent_ms = hw_clock_mono_ms() + SILENCE_MS;
        wake woke = wait_socket(pg, want_write, heed_interrupt,
                                silent_ms < deadline_ms ? silent_ms : deadline_ms);

        if (woke != WAKE_DEADLINE || silent_ms >= deadline_ms)
            return woke;
        if (!pg->caller_owned && !answers_ping(pg->conn))
            return WAKE_SILENCE;
    }
}

/* I4: neither the connection nor a ping got an answer. */
static int silenced(hw_pg *pg, bool writes, howdah_error *reterr)
{
    int s = hw_fail(reterr, HOWDAH_UNAVAILABLE,
                    "PostgreSQL has been silent for %d s, and does not answer a ping",
                    SILENCE_MS / 1000);

    hw_log(HOWDAH_LOG_WARN, "PostgreSQL is silent: the connection is given up");
    if (writes)
        hw_pg_outcome_unknown(reterr);
    hw_pg_disconnect(pg);
    return s;
}

/* I3.  False: no server is there to be asked, or it did not take the request. */
static bool ask_to_cancel(const hw_pg *pg)
{
    char why[256] = "the server does not answer";
    PGcancel *cancel = answers_ping(pg->conn) ? PQgetCancel(pg->conn) : NULL;
    bool asked = cancel && PQcancel(cancel, why, sizeof why);

    if (!asked)
        hw_log(HOWDAH_LOG_WARN, "could not cancel a statement: %s", why);
    PQfreeCancel(cancel);
    return asked;
}

/* A wait for one answer: what has been heard of meanwhile, and how long it may take. */
typedef struct answer {
    wake asked; /* why a cancel was sent; READY: none was */
    bool hurry; /* there was an interrupt: it stays readable, and is heeded once */
    int64_t until_ms;
    int64_t deadline_ms;
} answer;

/*
 * Waits for more of the answer.  INTERRUPT and DEADLINE mean that the statement has to be cancelled
 * now; an interrupt has had its grace by then (I3).
 */
static wake wait_more(const hw_pg *pg, bool unsent, answer *a)
{
    wake woke = wait_heard(pg, unsent, !a->hurry, a->until_ms);

    if (woke == WAKE_INTERRUPT) {
        int64_t grace_ms = hw_clock_mono_ms() + INTERRUPT_GRACE_MS;

        a->hurry = true;
        a->until_ms = grace_ms < a->deadline_ms ? grace_ms : a->deadline_ms;
        woke = wait_heard(pg, unsent, false, a->until_ms);
    }
    return woke == WAKE_DEADLINE && a->hurry ? WAKE_INTERRUPT : woke;
}

/*
 * Waits until libpq has a whole answer, or the statement's time is over (I3).  It cancels once;
 * what the server answers to that, be it success, decides.
 */
static int wait_answer(hw_pg *pg, const hw_pg_call *call, int64_t deadline_ms, howdah_error *reterr)
{
    answer a = {WAKE_READY, false, deadline_ms, deadline_ms};

    assert(pg->conn);
    if (pg->stopped) /* by an earlier statement of the same pipeline */
        a = (answer){WAKE_INTERRUPT, true, hw_clock_mono_ms() + CANCEL_GRACE_MS, deadline_ms};
    while (PQisBusy(pg->conn)) {
        int unsent = PQflush(pg->conn);
        wake woke;

        if (unsent < 0)
            return hw_pg_lost(pg, true, call->writes, reterr);
        woke = wait_more(pg, unsent > 0, &a);
        if (woke == WAKE_READY) {
            if (!PQconsumeInput(pg->conn))
                return hw_pg_lost(pg, true, call->writes, reterr);
            continue;
        }
        if (woke == WAKE_SILENCE)
            return silenced(pg, call->writes, reterr);
        if (woke == WAKE_ERROR || a.asked != WAKE_READY)
            return cancelled(pg, a.asked != WAKE_READY ? a.asked : woke, call->writes, reterr);
        a.asked = woke;
        if (!ask_to_cancel(pg))
            return cancelled(pg, woke, call->writes, reterr);
        pg->stopped = woke == WAKE_INTERRUPT;
        a.hurry = true;
        a.until_ms = hw_clock_mono_ms() + CANCEL_GRACE_MS;
    }
    return HOWDAH_OK;
}

static int64_t deadline_of(const hw_pg *pg, const hw_pg_call *call)
{
    return hw_clock_mono_ms() + (call->timeout_ms ? call->timeout_ms : pg->statement_timeout_ms);
}

/* ---- sending */

/*
 * Nothing is prepared on the caller's connection, whose names are the caller's, nor behind a
 * pooler, where the next statement may meet another server connection.
 */
int hw_pg_prepare(hw_pg *pg, hw_pg_statement statement, howdah_error *reterr)
{
    hw_pg_call call = {.statement = -1};
    const Oid *types = NULL;
    PGresult *result = NULL;
    char *name = pg->names[statement];
    int n = hw_pg_statement_types(statement, &types);
    int s;

    assert((int)statement < HW_PG_STATEMENT_COUNT);
    if (pg->caller_owned || pg->unprepared || pg->prepared[statement])
        return HOWDAH_OK;
    /* A pooler that we did not notice may hand us a session with statements of others: the names
       are this connection's alone, so that ours are either there or not. */
    (void)snprintf(name, sizeof pg->names[0], "howdah_%08x_%d", pg->tag, (int)statement);
    if (!PQsendPrepare(pg->conn, name, pg->sql[statement], n, types))
        return hw_pg_lost(pg, false, false, reterr);
    s = hw_pg_collect(pg, &call, &result, reterr);
    PQclear(result);
    if (s >= 0)
        pg->prepared[statement] = true;
    return s;
}

/*
 * By name where it is prepared, with its text where it cannot be.  A text of our own without
 * parameters goes by the simple protocol, which alone takes several statements at once, but not
 * in a pipeline.
 */
static int send_now(hw_pg *pg, const hw_pg_call *call, howdah_error *reterr)
{
    int format = call->text_result ? 0 : 1;
    int sent;

    assert(call->statement < HW_PG_STATEMENT_COUNT);
    if (call->statement >= 0 && !pg->caller_owned && !pg->unprepared) {
        assert(pg->prepared[call->statement]);
        sent = PQsendQueryPrepared(pg->conn, pg->names[call->statement], call->n, call->values,
                                   call->lengths, call->formats, format);
    } else if (call->statement >= 0) {
        const Oid *types = NULL;

        (void)hw_pg_statement_types((hw_pg_statement)call->statement, &types);
        sent = PQsendQueryParams(pg->conn, pg->sql[call->statement], call->n, types, call->values,
                                 call->lengths, call->formats, format);
    } else if (call->n > 0 || PQpipelineStatus(pg->conn) == PQ_PIPELINE_ON) {
        sent = PQsendQueryParams(pg->conn, call->sql, call->n, call->types, call->values,
                                 call->lengths, call->formats, format);
    } else {
        sent = PQsendQuery(pg->conn, call->sql);
    }
    return sent ? HOWDAH_OK : hw_pg_lost(pg, false, call->writes, reterr);
}

/*
 * What is still under way is taken in first (pg.h I4): the next answer on the connection has to
 * be that of this statement.
 */
int hw_pg_send(hw_pg *pg, const hw_pg_call *call, howdah_error *reterr)
{
    int s;

    hw_pg_drain_reply(pg);
    assert(!pg->in_flight && !pg->bell.ringing);
    if (hw_interrupted(pg->interrupt))
        return hw_fail(reterr, HOWDAH_INTERRUPTED, "interrupted");
    if (!pg->conn) {
        s = hw_fail(reterr, HOWDAH_UNAVAILABLE, "not connected");
        return s;
    }
    /* The server refuses it elsewhere; behind a pooler its sessions are not ours to set. */
    if (call->writes && pg->read_only && pg->pooled)
        return hw_fail(reterr, HOWDAH_READ_ONLY, "read_only is set: nothing can be written");
    pg->stopped = false;
    s = call->statement >= 0 ? hw_pg_prepare(pg, (hw_pg_statement)call->statement, reterr)
                             : HOWDAH_OK;
    if (s >= 0)
        s = send_now(pg, call, reterr);
    if (s >= 0 && PQflush(pg->conn) < 0)
        return hw_pg_lost(pg, true, call->writes, reterr);
    return s;
}

/*
 * What goes behind pages is sent in pipeline mode, each statement with a sync of its own, so that
 * the error of one is not that of the next.  The first of them begins the pipeline;
 * hw_pg_collect() ends it with the last answer.
 */
int hw_pg_send_behind(hw_pg *pg, const hw_pg_call *call, howdah_error *reterr)
{
    int s = HOWDAH_OK;

    assert(call->statement >= 0);
    if (hw_interrupted(pg->interrupt))
        return hw_fail(reterr, HOWDAH_INTERRUPTED, "interrupted");
    if (!pg->conn)
        return hw_fail(reterr, HOWDAH_UNAVAILABLE, "not connected");
    if (pg->under_way == 0) {
        hw_pg_drain_reply(pg);
        pg->stopped = false;
        s = pg->conn ? hw_pg_prepare(pg, (hw_pg_statement)call->statement, reterr)
                     : hw_fail(reterr, HOWDAH_UNAVAILABLE, "not connected");
        if (s >= 0 && !PQenterPipelineMode(pg->conn))
            s = hw_pg_lost(pg, false, call->writes, reterr);
    }
    if (s >= 0)
        s = send_now(pg, call, reterr);
    if (s >= 0 && !PQpipelineSync(pg->conn))
        s = hw_pg_lost(pg, true, call->writes, reterr);
    if (s >= 0)
        pg->under_way++;
    return s;
}

static bool is_good(const PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);

    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
}

/*
 * Whether the answer is complete: libpq has no further result, or, of one that was sent behind
 * another, the sync has come.  There the end of each statement's results is told, too.
 */
static bool is_answered(const hw_pg *pg, const PGresult *next)
{
    if (pg->under_way == 0 || PQstatus(pg->conn) == CONNECTION_BAD)
        return !next;
    return next && PQresultStatus(next) == PGRES_PIPELINE_SYNC;
}

/* After the last answer the connection is an ordinary one again; false: it is none any more. */
static bool end_answer(hw_pg *pg, PGresult *sync)
{
    PQclear(sync);
    if (pg->under_way > 0 && --pg->under_way == 0 && !PQexitPipelineMode(pg->conn))
        return false;
    return PQstatus(pg->conn) == CONNECTION_OK;
}

/*
 * I1: reads until the answer is complete, which is when the server is ready again.  The bell is
 * asked on the way out, because notifications arrive with answers.
 */
int hw_pg_collect(hw_pg *pg, const hw_pg_call *call, PGresult **ret_result, howdah_error *reterr)
{
    int64_t deadline_ms = deadline_of(pg, call);
    PGresult *kept = NULL;
    bool failed = false;
    bool alive;
    int s;

    for (;;) {
        PGresult *next;

        s = wait_answer(pg, call, deadline_ms, reterr);
        if (s < 0) {
            PQclear(kept);
            return s;
        }
        next = PQgetResult(pg->conn);
        if (is_answered(pg, next)) {
            alive = end_answer(pg, next);
            break;
        }
        if (!next)
            continue;
        /* Of several results the last counts, but an error counts more. */
        if (failed) {
            PQclear(next);
            continue;
        }
        failed = !is_good(next);
        PQclear(kept);
        kept = next;
    }
    pg->used_ms = hw_clock_mono_ms();
    if (pg->bell.listening)
        hw_pg_bell_hear(pg);
    if (!kept)
        return hw_pg_lost(pg, true, call->writes, reterr);
    if (failed) {
        s = hw_pg_fail_result(pg, kept, call->writes, reterr);
        PQclear(kept);
        return s;
    }
    /* The result came, "ready for query" did not: whether it was committed is not known. */
    if (!alive) {
        PQclear(kept);
        return hw_pg_lost(pg, true, call->writes, reterr);
    }
    *ret_result = kept;
    return HOWDAH_OK;
}

/*
 * 26000: there is no statement of that name; 42P05: there is one already.  The server says so
 * before it runs anything, so the caller may repeat the call.
 */
bool hw_pg_go_unprepared(hw_pg *pg, const howdah_error *err)
{
    if (pg->unprepared || pg->caller_owned ||
        (strcmp(err->sqlstate, "26000") != 0 && strcmp(err->sqlstate, "42P05") != 0))
        return false;
    hw_log(HOWDAH_LOG_WARN, "a pooler does not keep prepared statements: going on without them");
    pg->unprepared = true;
    return true;
}

/* Calls itself at most once: a connection goes unprepared only once. */
int hw_pg_exec(hw_pg *pg, const hw_pg_call *call, PGresult **ret_result, howdah_error *reterr)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    int s = hw_pg_send(pg, call, &err);

    if (s >= 0)
        s = hw_pg_collect(pg, call, ret_result, &err);
    if (s < 0 && call->statement >= 0 && hw_pg_go_unprepared(pg, &err))
        return hw_pg_exec(pg, call, ret_result, reterr);
    if (s < 0)
        hw_error_copy(reterr, &err);
    return s;
}

int hw_pg_command(hw_pg *pg, const char *sql, howdah_error *reterr)
{
    hw_pg_call call = {.statement = -1, .sql = sql};
    PGresult *result = NULL;
    int s = hw_pg_exec(pg, &call, &result, reterr);

    PQclear(result);
    return s;
}

/*
 * Only for what does not write: it may run twice.  READ_ONLY counts as a lost connection when
 * hw_pg_fail_result() has dropped it, because a pooler led us to a server that was demoted.
 */
int hw_pg_query(hw_pg *pg, const hw_pg_call *call, PGresult **ret_result, howdah_error *reterr)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    int s = hw_pg_exec(pg, call, ret_result, &err);

    if ((s == HOWDAH_UNAVAILABLE || s == HOWDAH_READ_ONLY) && !pg->conn && !pg->caller_owned) {
        s = hw_pg_ready(pg, &err);
        if (s >= 0)
            s = hw_pg_exec(pg, call, ret_result, &err);
    }
    if (s < 0)
        hw_error_copy(reterr, &err);
    return s;
}

/* ---- pipeline */

/*
 * No COMMIT is ever part of a pipeline, so what is lost in here has not happened: outcomes are
 * known.  make() fails only when there is no memory.
 */
static int pipeline_send(hw_pg *pg, int (*make)(void *ctx, size_t i, hw_pg_call *call), void *ctx,
                         size_t n, howdah_error *reterr)
{
    int64_t deadline_ms = hw_clock_mono_ms() + pg->statement_timeout_ms;

    for (size_t i = 0; i < n; i++) {
        hw_pg_call call = {.statement = -1};
        int s = make(ctx, i, &call);

        if (s < 0)
            return hw_fail_no_memory(reterr);
        s = send_now(pg, &call, reterr);
        if (s < 0)
            return s;
        /* Sent on its way at once, so that a large batch does not pile up here; what the server
           answers meanwhile is taken in, so that neither side waits for the other. */
        for (int unsent = PQflush(pg->conn); unsent != 0; unsent = PQflush(pg->conn)) {
            wake woke = unsent < 0 ? WAKE_ERROR : wait_heard(pg, true, true, deadline_ms);

            if (woke == WAKE_SILENCE)
                return silenced(pg, false, reterr);
            if (woke == WAKE_DEADLINE || woke == WAKE_INTERRUPT)
                return cancelled(pg, woke, false, reterr);
            if (woke == WAKE_ERROR || !PQconsumeInput(pg->conn))
                return hw_pg_lost(pg, true, false, reterr);
        }
    }
    return HOWDAH_OK;
}

/*
 * Takes the answers of all n statements and of the sync.  Only the first error is reported: the
 * server skips the statements after it, and their results say no more than that.
 */
static int pipeline_collect(hw_pg *pg, size_t n, PGresult **results, howdah_error *reterr)
{
    hw_pg_call call = {.statement = -1};
    int first = HOWDAH_OK;
    size_t i = 0;

    for (bool synced = false; !synced;) {
        PGresult *result;
        int s = wait_answer(pg, &call, deadline_of(pg, &call), first < 0 ? NULL : reterr);

        if (s < 0)
            return first < 0 ? first : s;
        result = PQgetResult(pg->conn);
        if (!result) {
            /* libpq has nothing but ends left when it has given the connection up. */
            if (PQstatus(pg->conn) == CONNECTION_BAD)
                return first < 0 ? first : hw_pg_lost(pg, true, false, reterr);
            i++; /* the end of one statement's results */
            continue;
        }
        synced = PQresultStatus(result) == PGRES_PIPELINE_SYNC;
        if (!synced && is_good(result) && i < n) {
            PQclear(results[i]);
            results[i] = result;
            continue;
        }
        if (!synced && first == HOWDAH_OK && PQresultStatus(result) == PGRES_FATAL_ERROR) {
            first = hw_pg_fail_result(pg, result, false, reterr);
            if (!pg->conn) {
                PQclear(result);
                return first;
            }
        }
        PQclear(result);
    }
    return first;
}

/*
 * Whatever happens, the connection is out of pipeline mode afterwards, or gone: the next
 * statement may need the simple protocol.
 */
int hw_pg_pipeline(hw_pg *pg, int (*make)(void *ctx, size_t i, hw_pg_call *call), void *ctx,
                   size_t n, PGresult **results, howdah_error *reterr)
{
    int s;

    hw_pg_drain_reply(pg);
    if (hw_interrupted(pg->interrupt))
        return hw_fail(reterr, HOWDAH_INTERRUPTED, "interrupted");
    assert(!pg->in_flight && !pg->bell.ringing);
    pg->stopped = false;
    if (!PQenterPipelineMode(pg->conn))
        return hw_pg_lost(pg, false, false, reterr);
    s = pipeline_send(pg, make, ctx, n, reterr);
    /* Without memory for the next statement, those before it are on their way and get answers. */
    if (s >= 0 || s == HOWDAH_NO_MEMORY) {
        int collected = PQpipelineSync(pg->conn)
                            ? pipeline_collect(pg, n, results, s < 0 ? NULL : reterr)
                            : hw_pg_lost(pg, true, false, s < 0 ? NULL : reterr);

        s = s < 0 ? s : collected;
    }
    if (pg->conn && !PQexitPipelineMode(pg->conn)) {
        if (s >= 0)
            return hw_pg_lost(pg, true, false, reterr);
        hw_pg_disconnect(pg);
    }
    return s;
}

/* ---- pairs */

/* What is under way of a pair. */
typedef struct pair {
    const hw_pg_call *calls;
    PGresult **results;
    PGresult *bad; /* the first error: whatever comes after it says no more */
    int bad_i;     /* of this statement */
    int n;         /* answers so far */
    int syncs;     /* that are still to come */
} pair;

static void take_answer(pair *p, PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);

    if (status == PGRES_PIPELINE_SYNC) {
        p->syncs--;
    } else if (is_good(result) && p->n < 2) {
        p->results[p->n++] = result;
        return;
    } else if (!p->bad) {
        p->bad = result;
        p->bad_i = p->n++;
        return;
    } else {
        p->n++;
    }
    PQclear(result);
}

/* As hw_pg_collect(): all that comes is taken in before an error is judged, because what follows it
   may be the end of the connection. */
static int collect_pair(hw_pg *pg, pair *p, howdah_error *reterr)
{
    int64_t deadline_ms = deadline_of(pg, &p->calls[0]);

    while (p->syncs > 0) {
        /* What was committed is known when the first answer and its sync are there. */
        hw_pg_call call = {.statement = -1, .writes = p->calls[0].writes && p->syncs == 2};
        PGresult *result;
        int s = wait_answer(pg, &call, deadline_ms, reterr);

        if (s < 0)
            return s;
        result = PQgetResult(pg->conn);
        if (result)
            take_answer(p, result);
        else if (PQstatus(pg->conn) == CONNECTION_BAD)
            return hw_pg_lost(pg, true, call.writes, reterr);
    }
    return p->bad ? hw_pg_fail_result(pg, p->bad, p->bad_i == 0 && p->calls[0].writes, reterr)
                  : HOWDAH_OK;
}

static int send_pair(hw_pg *pg, const hw_pg_call calls[2], howdah_error *reterr)
{
    for (int i = 0; i < 2; i++) {
        int s = send_now(pg, &calls[i], reterr);

        if (s < 0 && i > 0 && calls[0].writes) /* which is on its way */
            hw_pg_outcome_unknown(reterr);
        if (s < 0)
            return s;
        if (!PQpipelineSync(pg->conn))
            return hw_pg_lost(pg, true, calls[0].writes, reterr);
    }
    return HOWDAH_OK;
}

static int try_pair(hw_pg *pg, const hw_pg_call calls[2], PGresult *results[2],
                    howdah_error *reterr)
{
    pair p = {.calls = calls, .results = results, .syncs = 2};
    int s = HOWDAH_OK;

    hw_pg_drain_reply(pg);
    if (hw_interrupted(pg->interrupt))
        return hw_fail(reterr, HOWDAH_INTERRUPTED, "interrupted");
    assert(!pg->in_flight && !pg->bell.ringing && !pg->pooled);
    pg->stopped = false;
    for (int i = 0; s >= 0 && i < 2; i++)
        s = hw_pg_prepare(pg, (hw_pg_statement)calls[i].statement, reterr);
    if (s < 0)
        return s;
    if (!PQenterPipelineMode(pg->conn))
        return hw_pg_lost(pg, false, false, reterr);
    s = send_pair(pg, calls, reterr);
    if (s >= 0)
        s = collect_pair(pg, &p, reterr);
    PQclear(p.bad);
    if (s < 0 && p.syncs == 2) { /* its commit was not answered (pg.h I2) */
        PQclear(results[0]);
        results[0] = NULL;
    }
    if (pg->conn && !PQexitPipelineMode(pg->conn)) {
        if (s >= 0)
            return hw_pg_lost(pg, true, calls[0].writes, reterr);
        hw_pg_disconnect(pg);
    }
    pg->used_ms = hw_clock_mono_ms();
    if (pg->conn && pg->bell.listening)
        hw_pg_bell_hear(pg);
    return s;
}

/* As hw_pg_exec(): calls itself at most once, when nothing was done. */
int hw_pg_pair(hw_pg *pg, const hw_pg_call calls[2], PGresult *results[2], howdah_error *reterr)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    int s;

    results[0] = results[1] = NULL;
    s = try_pair(pg, calls, results, &err);
    if (s >= 0)
        return s;
    PQclear(results[1]);
    results[1] = NULL;
    if (pg->conn && hw_pg_go_unprepared(pg, &err)) {
        /* The first one was carried out: only the second one is to be asked again. */
        return results[0] ? hw_pg_exec(pg, &calls[1], &results[1], reterr)
                          : hw_pg_pair(pg, calls, results, reterr);
    }
    hw_error_copy(reterr, &err);
    return s;
}
