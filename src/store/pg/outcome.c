/*
 * outcome.c - what a statement that failed, or a connection that was lost, means for the caller.
 *
 *   I1  A lost COMMIT: when a statement that commits by itself was sent, and its answer did not
 *       come, nobody knows whether it was carried out.  The error has HOWDAH_OUTCOME_UNKNOWN, and
 *       the same call, with the same event ids, resolves it.  Before it was sent nothing happened,
 *       and the error does not say so.
 *   I2  With a SQLSTATE nothing was stored, unless the server ended the session with it.
 *   I3  Whoever reports a lost connection also lets go of it.  A caller's own connection is not
 *       ours to close: its handle is dead instead.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/pg/pg.h"

/* I1.  In place of whatever flags there are: neither "retry" nor "nothing happened" is true. */
void hw_pg_outcome_unknown(howdah_error *reterr)
{
    if (!reterr)
        return;
    reterr->flags = HOWDAH_OUTCOME_UNKNOWN;
    (void)hw_advise(
        reterr, reterr->status,
        "it may be stored or not: repeat the call with the same event ids or dedup keys, "
        "which store nothing twice; without them, look first");
}

/*
 * The message is copied before the PGconn that holds it is freed.  hw_pg_disconnect() leaves
 * the caller's connection alone, so the caller is told that this handle is dead.
 */
int hw_pg_lost(hw_pg *pg, bool sent, bool writes, howdah_error *reterr)
{
    char why[256];
    int s;

    /* Without one, it was given up for what was sent before this statement. */
    (void)snprintf(why, sizeof why, "%s", pg->conn ? PQerrorMessage(pg->conn) : "");
    why[strcspn(why, "\n")] = '\0';
    s = hw_fail(reterr, HOWDAH_UNAVAILABLE, "the connection to PostgreSQL is lost: %s",
                why[0] ? why : "no reason given");
    if (sent && writes)
        hw_pg_outcome_unknown(reterr);
    if (reterr && pg->caller_owned)
        reterr->flags |= HOWDAH_HANDLE_DEAD;
    hw_pg_disconnect(pg);
    return s;
}

/* The first line of the server's message; the detail line is for logs. */
static void copy_message(const PGresult *result, char *out, size_t room)
{
    const char *primary = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    const char *text = primary ? primary : PQresultErrorMessage(result);

    (void)snprintf(out, room, "%s", text ? text : "");
    out[strcspn(out, "\n")] = '\0';
}

/*
 * Our own functions say "rule", "field: rule" or, in a batch, "event 3: field: rule": field and
 * event go into the error's own members.
 */
static void fail_by_function(const char *message, int status, howdah_error *reterr)
{
    const char *rule = message;
    const char *colon;
    char *end = NULL;
    unsigned long event = 0;

    (void)hw_fail(reterr, status, "%s", message);
    if (strncmp(message, "event ", 6) == 0) {
        event = strtoul(message + 6, &end, 10);
        if (event > 0 && strncmp(end, ": ", 2) == 0) {
            hw_error_at(reterr, event - 1);
            rule = end + 2;
        }
    }
    colon = strchr(rule, ':');
    if (reterr && status == HOWDAH_INVALID && colon && strcspn(rule, " ") > (size_t)(colon - rule))
        (void)snprintf(reterr->field, sizeof reterr->field, "%.*s", (int)(colon - rule), rule);
}

/*
 * A session that took writes takes none any more: a pooler has led it to a server that is not
 * promoted yet.  The next one finds out, and waits for it.  What a handler has made of its own
 * transaction is the handler's business.
 */
static bool is_demoted(const hw_pg *pg, const char *sqlstate)
{
    return strcmp(sqlstate, "25006") == 0 && pg->was_open && !pg->read_only && !pg->caller_owned &&
           !pg->in_handler;
}

/*
 * A schema that was dropped and made anew, say from a dump, has other types, and a statement that
 * was prepared before is refused from then on, before anything of it is done.  What else this
 * session knows is not about that schema either.
 */
static bool is_outdated(const hw_pg *pg, const PGresult *result, const char *sqlstate)
{
    const char *by = PQresultErrorField(result, PG_DIAG_SOURCE_FUNCTION);

    return strcmp(sqlstate, "0A000") == 0 && by && strcmp(by, "RevalidateCachedQuery") == 0 &&
           !pg->caller_owned;
}

/*
 * Every failed statement ends here.  A result without a SQLSTATE was made by libpq: the
 * connection broke.  With a SQLSTATE nothing was done, unless the server ended the session with
 * it: then a statement that commits by itself has an unknown outcome (I1).
 */
int hw_pg_fail_result(hw_pg *pg, const PGresult *result, bool writes, howdah_error *reterr)
{
    const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *detail = PQresultErrorField(result, PG_DIAG_MESSAGE_DETAIL);
    const char *hint = PQresultErrorField(result, PG_DIAG_MESSAGE_HINT);
    const char *constraint = PQresultErrorField(result, PG_DIAG_CONSTRAINT_NAME);
    char message[400];
    int status;

    if (!sqlstate)
        return hw_pg_lost(pg, true, writes, reterr);
    if (is_outdated(pg, result, sqlstate)) {
        hw_pg_disconnect(pg);
        return hw_fail(reterr, HOWDAH_UNAVAILABLE, "the schema was changed during this session");
    }
    status = hw_pg_status_of(sqlstate);
    if (pg->stopped && strcmp(sqlstate, "57014") == 0)
        status = HOWDAH_INTERRUPTED;
    (void)snprintf(pg->constraint, sizeof pg->constraint, "%s", constraint ? constraint : "");
    copy_message(result, message, sizeof message);
    if (strncmp(sqlstate, "UH", 2) == 0)
        fail_by_function(message, status, reterr);
    else if (status == HOWDAH_INTERRUPTED)
        (void)hw_fail(reterr, status, "interrupted");
    else
        (void)hw_fail(reterr, status, "PostgreSQL: %s", message);
    if (reterr) {
        (void)snprintf(reterr->sqlstate, sizeof reterr->sqlstate, "%s", sqlstate);
        if (status == HOWDAH_CONFLICT && detail)
            reterr->actual_version = strtoll(detail, NULL, 10);
        if (hw_pg_advice_for(sqlstate)[0] && status != HOWDAH_INTERRUPTED)
            (void)hw_advise(reterr, status, "%s", hw_pg_advice_for(sqlstate));
        else if (strcmp(sqlstate, "UH003") == 0 && hint && strncmp(hint, "SELECT ", 7) != 0)
            (void)hw_advise(reterr, status, "%s", hint); /* what is not said in SQL */
        /* FATAL: the server ended the session, perhaps in the middle of the commit. */
        if (PQstatus(pg->conn) == CONNECTION_BAD && writes)
            hw_pg_outcome_unknown(reterr);
    }
    if (is_demoted(pg, sqlstate)) {
        if (reterr)
            reterr->flags |= HOWDAH_RETRYABLE;
        hw_pg_disconnect(pg);
    } else if (PQstatus(pg->conn) == CONNECTION_BAD) {
        hw_pg_disconnect(pg);
    }
    return status;
}
