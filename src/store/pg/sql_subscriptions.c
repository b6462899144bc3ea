/*
 * sql_subscriptions.c - the statements of subscriptions, dead letters, the evidence and the bell.
 *
 *   I1  What moves a subscription is one statement: the check of the token, the checkpoint and what
 *       belongs to it (a dead letter, a skip) are stored together or not at all.
 *   I2  Where a lost commit does no harm (a checkpoint comes again, a mark is a hint), the
 *       statement itself turns waiting for the disk off, for its own transaction only.
 *   I3  A range of rows ordered by both columns of an index can be served by that index only:
 *       plans do not depend on statistics (see conn.c I4).
 *   I4  The log that a subscription's owner knows, and the event that its place stands on, are
 *       compared by the statement itself: between a question and a move the server can change.
 *       @log@ is which log this is: cluster and timeline (sql.c).
 */
#include "store/pg/columns.h"
#include "store/pg/pg.h"

/* Macros inside the texts would be spread like stairs. */
/* clang-format off */
#define SUBS "@schema@.subscriptions"
#define DEAD_LETTERS "@schema@.dead_letters"

/* I2: always true; set_config() runs once per statement, and ends with the transaction. */
#define WITHOUT_WAITING "(SELECT set_config('synchronous_commit', 'off', true)) = 'off'"
/* For statements that may store what later ones leave as it is (what stands still, holes): a crash
   must not take that back, so only those that do not store it skip the wait for the disk. */
#define WITHOUT_WAITING_IF(condition)                                                              \
    "(SELECT CASE WHEN " condition " THEN set_config('synchronous_commit', 'off', true)"           \
    "  ELSE '' END) IS NOT NULL"

#define TOP "9223372036854775807"
/* I3: the rows of table d that belong to one subscriber. */
#define OF(id)                                                                                     \
    "(d.subscriber_id, d.id) >= (" id ", 0) AND (d.subscriber_id, d.id) <= (" id ", " TOP ")"

/* Whether dead letters of the subscription wait for another try. */
#define REDRIVES(id)                                                                               \
    "coalesce((SELECT true FROM " DEAD_LETTERS " AS d WHERE d.state = 'redrive' AND " OF(id)            \
    " ORDER BY d.subscriber_id, d.id LIMIT 1), false)"

/*
 * The lock of a subscription: two int4 from the MD5 of its name, as pg_locks shows them (classid,
 * objid).  Locks belong to the whole database, so another schema than the default one, which
 * could have a subscription of the same name, is part of what is hashed: schema, NUL, name.
 */
#define LOCK_HASH(id)                                                                              \
    "md5(CASE WHEN @schema_text@ = 'howdah' THEN convert_to(" id ", 'UTF8') ELSE"                  \
    " convert_to(@schema_text@, 'UTF8') || decode('00', 'hex') || convert_to(" id ", 'UTF8') END)"
#define LOCK_KEYS(hash)                                                                            \
    "('x' || substr(" hash ", 1, 8))::bit(32)::int4, ('x' || substr(" hash                         \
    ", 9, 8))::bit(32)::int4"
#define LOCKS_HELD                                                                                 \
    "(SELECT l.classid, l.objid FROM pg_locks AS l WHERE l.locktype = 'advisory'"                  \
    " AND l.objsubid = 2 AND l.granted AND l.database ="                                           \
    " (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database()))"
#define IS_LOCKED(hash)                                                                            \
    "(('x' || substr(" hash ", 1, 8))::bit(32)::int4::oid,"                                        \
    " ('x' || substr(" hash ", 9, 8))::bit(32)::int4::oid) IN " LOCKS_HELD

/* A row as subscriptions.c decodes it; from s, but for the token, the owner and the time before. */
#define IS_SHARED "s.lease_until IS NOT DISTINCT FROM 'infinity'"
#define ROW_AT(high, outstanding, token, owner, updated_at, held, lag_age_ms)                                            \
    "s.subscriber_id, s.pattern, " high ", " outstanding ", s.anchor_sequence, s.anchor_id, s.timeline,"      \
    " " token ", " owner ", " held ", s.status, s.reason, s.suspect_sequence,"                     \
    " s.suspect_attempts, s.created_at, " updated_at ","                                           \
    " (SELECT count(*) FROM " DEAD_LETTERS " AS d WHERE d.resolved_at IS NULL"                          \
    "  AND " OF("s.subscriber_id") "),"                                                            \
    " (SELECT count(*) FROM @schema@.skips AS d WHERE d.resolved_at IS NULL"                       \
    "  AND " OF("s.subscriber_id") "), s.stream, s.originals, s.still, s.moves, " IS_SHARED \
    ", " lag_age_ms
#define ROW(token, owner, updated_at, held)                                                        \
    ROW_AT("s.high", "s.outstanding", token, owner, updated_at, held, "NULL::bigint")
/* clang-format on */

/* Of the sequence itself, not of the log: numbers that nobody has committed yet count as drawn. */
#define LOG_AND_DRAWN                                                                              \
    "(SELECT @log@ AS log, " DRAWN " AS drawn FROM @schema@.events_global_sequence_seq AS q) AS x"

/* Tokens never repeat: not when a row was removed and made anew (the sequence goes on), nor when
   the sequence was lost in a copy of the tables (the row's own token goes on). */
#define NEXT_TOKEN "greatest(s.token + 1, nextval(@token_text@::regclass))"

/* By the server's clock as it is now, not as it was when the transaction began. */
#define LEASE(ms) "clock_timestamp() + " ms " * interval '1 millisecond'"

/* I4: this is the log that its owner knows, or it does not care which. */
#define IS_LOG(log) "(" log " = '' OR " log " = @log@)"
/* Not EXISTS: while the log is small, the planner would make a hash of the whole log for it, each
   time, and for as long as the plan is kept. */
#define STANDS_ON(sequence, id)                                                                    \
    "(" sequence " = 0 OR (SELECT e.id FROM @schema@.events AS e WHERE e.global_sequence"          \
    " = " sequence ") = " id ")"
/* Under one token and in one log a place does not go back. */
#define GOES_ON(high, log) "(s.high <= " high " OR s.timeline <> " log ")"
/* The place that is stored is the one that this one was worked out from; 0: do not ask. */
#define FOLLOWS(place) "(" place " = 0 OR s.moves + 1 = " place ")"
/* A fresh sequence has last_value 1 before anything was drawn. */
#define DRAWN "CASE WHEN q.is_called THEN q.last_value ELSE 0 END"

/* $1 subscriber $2 token $3 high $4 outstanding $5 anchor_sequence $6 anchor_id $7 log $8 still,
   NULL: as it is; then it is not written again, wherever it lies */
#define MOVE                                                                                       \
    "UPDATE " SUBS " AS s SET high = $3, outstanding = $4, anchor_sequence = $5, anchor_id = $6,"  \
    " timeline = $7, still = coalesce($8, s.still), moves = s.moves + 1,"                          \
    " updated_at = clock_timestamp() WHERE s.subscriber_id = $1 AND s.token = $2"                  \
    " AND " GOES_ON("$3", "$7") " AND " FOLLOWS("$9") " AND " IS_LOG("$7") " AND " STANDS_ON("$5", \
                                                                                             "$6")

/* Those who own a subscription, or wait for it, are told to look. */
#define CALL "pg_notify(@schema_text@ || '_control', '')"

/* The copy of an event in a dead letter, bounded like a page of events (dead_letters.c I3). */
#define IF_IT_FITS(cap, NAME, column, copy, oid)                                                   \
    "CASE WHEN " HW_PG_FITS("d", cap) " THEN d." copy " END, "
#define AS_IT_IS(cap, NAME, column, copy, oid) "d." copy ", "
#define DEAD_LETTER_COLUMNS(cap)                                                                   \
    "d.id, d.source, d.subscriber_id, d.error_message, d.retry_count, d.redrives, d.created_at,"   \
    " d.last_retry_at, d.state, d.reason, d.resolved_at, d.resolved_by, " HW_PG_EVENT_COLUMNS(     \
        AS_IT_IS, IF_IT_FITS, cap) "d.purge IS NOT NULL, " HW_PG_FITS("d", cap)

/* What becomes of a dead letter that an operator marks: $3 state $4 reason. */
#define MARKED                                                                                     \
    "state = $3, reason = CASE WHEN $3 = 'discarded' THEN $4 END,"                                 \
    " resolved_at = CASE WHEN $3 = 'discarded' THEN clock_timestamp() END,"                        \
    " resolved_by = CASE WHEN $3 = 'discarded' THEN session_user::text END"

/* A holder's top-level transaction is its oldest; 64 bits, counted from the snapshot's next. */
#define FULL_XID                                                                                   \
    "n.next + (l.transactionid::text::bigint - n.next % 4294967296 + 6442450944) % 4294967296"     \
    " - 2147483648"

/* hole_evidence.c: who drew a number of this bus's log, in this database, and has not ended. */
#define HOLDS_NUMBERS                                                                              \
    "l.locktype = 'relation' AND l.mode = 'RowExclusiveLock' AND l.granted"                        \
    " AND l.relation = @sequence_text@::regclass AND l.database ="                                 \
    " (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())"

static const Oid text_type[] = {HW_OID_TEXT};
static const Oid texts_type[] = {HW_OID_TEXT_ARRAY};
static const Oid int8_type[] = {HW_OID_INT8};
static const Oid stored_types[] = {HW_OID_INT8, HW_OID_INT8, HW_OID_INT8};
static const Oid create_types[] = {HW_OID_TEXT,       HW_OID_TEXT, HW_OID_INT8,
                                   HW_OID_INT8_ARRAY, HW_OID_TEXT, HW_OID_BOOL};
static const Oid list_types[] = {HW_OID_TEXT, HW_OID_TEXT, HW_OID_INT8};
static const Oid take_types[] = {HW_OID_TEXT, HW_OID_TEXT, HW_OID_INT4, HW_OID_INT8, HW_OID_BOOL};
static const Oid release_types[] = {HW_OID_TEXT, HW_OID_INT8, HW_OID_TEXT};
static const Oid checkpoint_types[] = {
    HW_OID_TEXT_ARRAY, HW_OID_INT8_ARRAY, HW_OID_INT8_ARRAY, HW_OID_INT8_ARRAY, HW_OID_UUID_ARRAY,
    HW_OID_INT4_ARRAY, HW_OID_INT4_ARRAY, HW_OID_INT8_ARRAY, HW_OID_TEXT_ARRAY, HW_OID_INT4_ARRAY,
    HW_OID_INT4_ARRAY, HW_OID_INT8_ARRAY, HW_OID_INT8_ARRAY, HW_OID_INT8};
static const Oid poll_types[] = {HW_OID_TEXT_ARRAY, HW_OID_INT8_ARRAY, HW_OID_TEXT_ARRAY,
                                 HW_OID_INT8};
static const Oid suspect_types[] = {HW_OID_TEXT, HW_OID_INT8, HW_OID_TEXT, HW_OID_INT8,
                                    HW_OID_INT8};
static const Oid status_types[] = {HW_OID_TEXT, HW_OID_INT8, HW_OID_TEXT, HW_OID_TEXT, HW_OID_TEXT};
static const Oid reset_types[] = {HW_OID_TEXT, HW_OID_INT8, HW_OID_INT8_ARRAY};
/* $1..$9 of MOVE, then: of a dead letter $10 error $11 attempts and the event, of a skip and of a
   route their own */
static const Oid move_types[] = {HW_OID_TEXT, HW_OID_INT8, HW_OID_INT8, HW_OID_INT8_ARRAY,
                                 HW_OID_INT8, HW_OID_UUID, HW_OID_TEXT, HW_OID_INT8_ARRAY,
                                 HW_OID_INT8, HW_OID_TEXT, HW_OID_INT8, HW_PG_EVENT_OIDS};
static const Oid skip_types[] = {HW_OID_TEXT, HW_OID_INT8, HW_OID_INT8, HW_OID_INT8_ARRAY,
                                 HW_OID_INT8, HW_OID_UUID, HW_OID_TEXT, HW_OID_INT8_ARRAY,
                                 HW_OID_INT8, HW_OID_INT8, HW_OID_INT8, HW_OID_INT8,
                                 HW_OID_TEXT};
static const Oid route_types[] = {HW_OID_TEXT, HW_OID_INT8, HW_OID_INT8, HW_OID_INT8_ARRAY,
                                  HW_OID_INT8, HW_OID_UUID, HW_OID_TEXT, HW_OID_INT8_ARRAY,
                                  HW_OID_INT8, HW_OID_TEXT, HW_OID_TEXT, HW_OID_INT8_ARRAY};
static const Oid dead_letters_types[] = {HW_OID_TEXT, HW_OID_INT8, HW_OID_INT8, HW_OID_INT8,
                                         HW_OID_BOOL, HW_OID_BOOL, HW_OID_INT4};
static const Oid own_dead_letters_types[] = {HW_OID_TEXT, HW_OID_INT8, HW_OID_INT8, HW_OID_INT8,
                                             HW_OID_INT4};
static const Oid mark_types[] = {HW_OID_INT8_ARRAY, HW_OID_TEXT, HW_OID_TEXT, HW_OID_TEXT};
static const Oid ack_types[] = {HW_OID_TEXT, HW_OID_INT8, HW_OID_TEXT,
                                HW_OID_INT8, HW_OID_TEXT, HW_OID_TEXT};
static const Oid skips_types[] = {HW_OID_TEXT, HW_OID_BOOL, HW_OID_INT8, HW_OID_INT8};
static const Oid ack_upto_types[] = {HW_OID_INT8, HW_OID_INT8_ARRAY, HW_OID_TEXT, HW_OID_INT8,
                                     HW_OID_UUID};
static const Oid resolve_types[] = {HW_OID_INT8, HW_OID_TEXT};

#define TYPES(array) (array), (int)(sizeof(array) / sizeof(array)[0])

/* Macros inside the texts would be spread like stairs. */
/* clang-format off */
const hw_pg_statement_row hw_pg_sub_statements[HW_PG_STATEMENT_COUNT] = {
    /* ---- the evidence */
    /* Only holders of the sequence; the id of each is its oldest, that of the top level.  A prepared
       transaction has no process and does nothing any more; of the others their state tells
       whether they are idle, where we may see it.  A transaction shows its rows before it gives
       its locks back: one that has ended for this statement's snapshot is no holder. */
    [HW_PG_HOLDERS] =
        {"WITH n AS MATERIALIZED"
         " (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS next),"
         " h AS MATERIALIZED (SELECT l.virtualtransaction AS name, max(l.pid) AS pid,"
         "  min(" FULL_XID ") FILTER (WHERE l.locktype = 'transactionid') AS xid"
         "  FROM pg_locks AS l, n WHERE (" HOLDS_NUMBERS ") OR (l.mode = 'ExclusiveLock'"
         "   AND l.granted AND l.locktype = 'transactionid')"
         "  GROUP BY l.virtualtransaction HAVING bool_or(l.locktype = 'relation'))"
         " SELECT h.name, h.xid, CASE WHEN h.pid IS NULL THEN 1 ELSE"
         "  (SELECT (extract(epoch FROM a.state_change) * 1000000)::bigint"
         "   FROM pg_stat_get_activity(h.pid) AS a WHERE a.state = 'idle in transaction') END"
         " FROM h WHERE h.xid IS NULL"
         "  OR NOT pg_visible_in_snapshot(h.xid::text::xid8, pg_current_snapshot())",
         NULL, 0},
    [HW_PG_PROVEN] = {"SELECT k.upto, k.holes FROM @schema@.proven AS k", NULL, 0},
    /* $1 upto $2 holes, NULL: as they are $3 log $4, $5 the event at the top */
    [HW_PG_STORE_PROVEN] = {"UPDATE @schema@.proven AS k SET upto = $1, holes = coalesce($2, k.holes),"
                      " updated_at = clock_timestamp() WHERE k.upto <= $1 AND " IS_LOG("$3")
                      " AND " STANDS_ON("$4", "$5") " AND " WITHOUT_WAITING_IF("$2 IS NULL"),
                      TYPES(ack_upto_types)},
    /* As one array: a row for each would take four times as long.  The subquery's order stays. */
    [HW_PG_STORED] = {"SELECT array_agg(e.seq) FROM (SELECT global_sequence AS seq"
                      "  FROM @schema@.events WHERE global_sequence BETWEEN $1 AND $2"
                      "  ORDER BY global_sequence LIMIT $3) AS e",
                      TYPES(stored_types)},
    /* For people: names and ages of those that HOLDERS means, but for ourselves. */
    [HW_PG_BLOCKERS] =
        {"WITH l AS MATERIALIZED (SELECT * FROM pg_locks)"
         " SELECT b.name, (extract(epoch FROM clock_timestamp() - b.since) * 1000)::bigint,"
         "  b.query FROM (SELECT DISTINCT ON (l.virtualtransaction)"
         "   coalesce('pid ' || l.pid || coalesce(' (' || nullif(a.application_name, '') || ')',"
         "    ''), 'prepared ' || p.gid, 'unknown') AS name,"
         "   coalesce(a.xact_start, p.prepared, clock_timestamp()) AS since,"
         "   nullif(a.query, '<insufficient privilege>') AS query"
         "  FROM l LEFT JOIN pg_stat_activity AS a ON a.pid = l.pid"
         "  LEFT JOIN LATERAL (SELECT p.gid, p.prepared FROM pg_prepared_xacts AS p"
         "   JOIN l AS x ON x.transactionid = p.transaction AND x.locktype = 'transactionid'"
         "    AND x.granted WHERE x.virtualtransaction = l.virtualtransaction LIMIT 1) AS p"
         "   ON l.pid IS NULL WHERE " HOLDS_NUMBERS " AND l.pid IS DISTINCT FROM pg_backend_pid()"
         "  ORDER BY l.virtualtransaction) AS b ORDER BY b.since",
         NULL, 0},
    /* $1 a number: its event's id, NULL when there is none */
    [HW_PG_HERE] = {"SELECT @log@, " DRAWN ","
                    " (SELECT e.id FROM @schema@.events AS e WHERE e.global_sequence = $1)"
                    " FROM @schema@.events_global_sequence_seq AS q",
                    TYPES(int8_type)},

    /* The same for a role without rights on the tables. */
    [HW_PG_FN_HERE] = {"SELECT h.log, h.drawn, h.id FROM @schema@.log_here($1) AS h",
                       TYPES(int8_type)},
    [HW_PG_FN_STORED] = {"SELECT @schema@.log_stored($1, $2, $3)", TYPES(stored_types)},
    [HW_PG_FN_PROVEN] = {"SELECT k.upto, k.holes FROM @schema@.log_proven() AS k", NULL, 0},

    /* ---- the rows */
    /* A filter that is the same is not written again: each start of a program comes here. */
    [HW_PG_SUB_CREATE] =
        {"WITH i AS (INSERT INTO " SUBS " (subscriber_id, pattern, high, outstanding, stream,"
         "  originals)"
         "  VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (subscriber_id) DO NOTHING RETURNING 1),"
         " u AS (UPDATE " SUBS " AS s SET pattern = $2, stream = $5, originals = $6,"
         "   updated_at = clock_timestamp() WHERE s.subscriber_id = $1"
         "  AND (s.pattern, s.stream, s.originals) IS DISTINCT FROM ($2, $5, $6)"
         "  AND NOT " IS_SHARED ")"
         " SELECT EXISTS (SELECT FROM i)",
         TYPES(create_types)},
    /* The place of a shared one is its group's. */
    [HW_PG_SUB_LIST] = {"SELECT " ROW_AT("coalesce(p.high, s.high)",
                                         "coalesce(p.outstanding, s.outstanding)", "s.token",
                                         "s.owner", "s.updated_at",
                                         "coalesce(s.lease_until > clock_timestamp(), false) OR"
                                         " " IS_LOCKED("k.hash"),
                                         "(@schema@.lag_age_s(coalesce(p.high, s.high),"
                                         " coalesce(p.outstanding, s.outstanding), s.still)"
                                         " * 1000)::bigint") " FROM " SUBS " AS s"
                        ", LATERAL @schema@.group_progress(CASE WHEN " IS_SHARED
                        "  THEN s.subscriber_id END) AS p, LATERAL"
                        " (SELECT " LOCK_HASH("s.subscriber_id") " AS hash) AS k"
                        " WHERE s.subscriber_id >= $1"
                        " AND ($2::text IS NULL OR s.subscriber_id <= $2)"
                        " ORDER BY s.subscriber_id LIMIT $3",
                        TYPES(list_types)},
    [HW_PG_SUB_STATE] = {"SELECT s.token, s.high, @log@, s.timeline FROM " SUBS " AS s"
                         " WHERE s.subscriber_id = $1",
                         TYPES(text_type)},
    /*
     * $1 subscriber $2 owner $3 instance: 0 coordinated, 1 single, 2 lease $4 lease_ms $5 whether
     * this session has the lock already.  The lock comes first; the row is taken as it is then
     * (FOR UPDATE finds its newest version), or not at all when somebody is changing it.
     */
    [HW_PG_SUB_TAKE] =
        {"WITH k AS MATERIALIZED (SELECT " LOCK_HASH("$1") " AS hash),"
         " g AS MATERIALIZED (SELECT CASE WHEN $3 <> 0 OR $5 THEN true"
         "  ELSE pg_try_advisory_lock(" LOCK_KEYS("k.hash") ") END AS got FROM k),"
         " o AS (SELECT s.subscriber_id, s.owner, s.lease_until, s.updated_at FROM " SUBS " AS s"
         "  WHERE s.subscriber_id = $1 AND (SELECT g.got FROM g) AND NOT " IS_SHARED
         "  AND ($3 = 1 OR s.owner IS NULL"
         "   OR s.owner = $2 OR s.lease_until < clock_timestamp() OR s.lease_until IS NULL AND"
         "   ($3 = 0 OR NOT (SELECT " IS_LOCKED("k.hash") " FROM k)))"
         "  FOR UPDATE SKIP LOCKED),"
         " u AS (UPDATE " SUBS " AS s SET token = " NEXT_TOKEN ", owner = $2,"
         "  lease_until = CASE WHEN $3 = 2 THEN " LEASE("$4") " END,"
         "  updated_at = clock_timestamp()"
         "  FROM o WHERE s.subscriber_id = o.subscriber_id"
         "  RETURNING s.*, o.owner AS owner_before, o.updated_at AS updated_before,"
         "   coalesce(o.lease_until > clock_timestamp(), false) AS held_before)"
         " SELECT g.got, EXISTS (SELECT FROM " SUBS " AS e WHERE e.subscriber_id = $1),"
         "  pg_backend_pid(), @log@, " ROW("s.token", "s.owner_before", "s.updated_before",
                                    "s.held_before") " FROM g LEFT JOIN u AS s ON true",
         TYPES(take_types)},
    /* The very expression of SUB_TAKE, or another lock would be given up. */
    [HW_PG_SUB_UNLOCK] = {"SELECT pg_advisory_unlock(" LOCK_KEYS("k.hash") ")"
                          " FROM (SELECT " LOCK_HASH("$1") " AS hash) AS k",
                          TYPES(text_type)},
    [HW_PG_SUB_RELEASE] = {"UPDATE " SUBS " AS s SET owner = NULL, lease_until = NULL,"
                           " updated_at = clock_timestamp()"
                           " WHERE s.subscriber_id = $1 AND s.token = $2 AND " IS_LOG("$3")
                           " AND " WITHOUT_WAITING,
                           TYPES(release_types)},
    /*
     * $1 subscribers $2 tokens $3 highs $4 anchor sequences $5 anchor ids $6, $7 which elements of
     * $8 are outstanding for each $9 logs $10, $11 which elements of $12 stand still, NULL: as they are
     * $13 which places they follow $14 lease_ms.  One row for each that was moved.
     */
    [HW_PG_SUB_CHECKPOINT] =
        {"UPDATE " SUBS " AS s SET high = i.high, outstanding = ($8)[i.outstanding_from:i.outstanding_to],"
         " anchor_sequence = i.anchor_sequence, anchor_id = i.anchor_id, timeline = i.log,"
         " still = CASE WHEN i.still_from IS NULL THEN s.still"
         "  ELSE ($12)[i.still_from:i.still_to] END,"
         " moves = s.moves + 1,"
         " updated_at = clock_timestamp(), lease_until = CASE WHEN $14 > 0 AND"
         "  s.lease_until IS NOT NULL THEN " LEASE("$14") " ELSE s.lease_until END"
         " FROM unnest($1, $2, $3, $4, $5, $6, $7, $9, $10, $11, $13) WITH ORDINALITY AS i(id,"
         "  token, high, anchor_sequence, anchor_id, outstanding_from, outstanding_to, log, still_from, still_to,"
         "  follows, n)"
         " WHERE s.subscriber_id = i.id AND s.token = i.token AND " GOES_ON("i.high", "i.log")
         " AND " IS_LOG("i.log") " AND " STANDS_ON("i.anchor_sequence", "i.anchor_id")
         " AND " FOLLOWS("i.follows")
         " AND " WITHOUT_WAITING_IF("array_remove($10, NULL) = '{}'")
         " RETURNING i.n, s.status, " REDRIVES("s.subscriber_id"),
         TYPES(checkpoint_types)},
    /* $1 subscribers $2 tokens $3 logs $4 lease_ms.  One row at least, which says what log it is;
       further ones have a number: that of one that is not lost. */
    [HW_PG_SUB_POLL] = {"SELECT i.n, s.status, " REDRIVES("s.subscriber_id") ", x.log, x.drawn, s.high"
                        " FROM " LOG_AND_DRAWN " LEFT JOIN (unnest($1, $2, $3) WITH ORDINALITY"
                        " AS i(id, token, log, n) JOIN " SUBS " AS s"
                        " ON s.subscriber_id = i.id AND s.token = i.token)"
                        " ON i.log = '' OR i.log = x.log",
                        poll_types, 3},
    [HW_PG_SUB_RENEW] = {"WITH i AS (SELECT * FROM"
                         "  unnest($1, $2, $3) WITH ORDINALITY AS i(id, token, log, n)"
                         "  WHERE " IS_LOG("i.log") "),"
                         " u AS (UPDATE " SUBS " AS s SET lease_until = " LEASE("$4") " FROM i"
                         "  WHERE s.subscriber_id = i.id AND s.token = i.token"
                         "  AND s.lease_until IS NOT NULL AND " WITHOUT_WAITING ")"
                         " SELECT i.n, s.status, " REDRIVES("s.subscriber_id") ", x.log, x.drawn, s.high"
                         " FROM " LOG_AND_DRAWN " LEFT JOIN (i JOIN " SUBS
                         " AS s ON s.subscriber_id = i.id AND s.token = i.token) ON true",
                         TYPES(poll_types)},
    [HW_PG_SUB_SUSPECT] = {"UPDATE " SUBS " AS s SET suspect_sequence = $4, suspect_attempts = $5,"
                           " updated_at = clock_timestamp() WHERE s.subscriber_id = $1"
                           " AND s.token = $2 AND " IS_LOG("$3") " AND " WITHOUT_WAITING
                           " RETURNING 1",
                           TYPES(suspect_types)},
    /* $2 token, 0: no matter who owns it */
    [HW_PG_SUB_STATUS] = {"UPDATE " SUBS " AS s SET status = $4, reason = $5,"
                          " updated_at = clock_timestamp() WHERE s.subscriber_id = $1"
                          " AND ($2 = 0 OR s.token = $2) AND " IS_LOG("$3") " RETURNING " CALL,
                          TYPES(status_types)},
    /* A new token, and no owner: what the old owner stores from now on is refused. */
    /* A shared one stays shared: its members see by the token that they have to follow. */
    [HW_PG_SUB_RESET] = {"UPDATE " SUBS " AS s SET high = $2, outstanding = $3, still = '{}',"
                         " anchor_sequence = 0,"
                         " anchor_id = NULL, timeline = '', token = " NEXT_TOKEN ","
                         " owner = CASE WHEN " IS_SHARED " THEN s.owner END,"
                         " lease_until = CASE WHEN " IS_SHARED " THEN s.lease_until END,"
                         " suspect_sequence = 0, suspect_attempts = 0,"
                         " updated_at = clock_timestamp() WHERE s.subscriber_id = $1"
                         " RETURNING " CALL,
                         TYPES(reset_types)},
    /* The lock is tried and held to the end of the statement: a coordinated owner has it. */
    [HW_PG_SUB_REMOVE] =
        {"WITH k AS MATERIALIZED (SELECT " LOCK_HASH("$1") " AS hash),"
         " g AS MATERIALIZED (SELECT pg_try_advisory_xact_lock(" LOCK_KEYS("k.hash")
         ") AS got FROM k),"
         " r AS (DELETE FROM " SUBS " AS s WHERE s.subscriber_id = $1 AND (SELECT g.got FROM g)"
         "  AND (s.lease_until IS NULL OR s.lease_until < clock_timestamp())"
         "  RETURNING s.subscriber_id),"
         " x AS (DELETE FROM @schema@.skips AS d USING r WHERE d.subscriber_id = r.subscriber_id)"
         " SELECT EXISTS (SELECT FROM r), EXISTS (SELECT FROM " SUBS " AS e"
         "  WHERE e.subscriber_id = $1)",
         TYPES(text_type)},
    /* The last statement of the handler's transaction: the setting was made when it began. */
    [HW_PG_SUB_MOVE] = {MOVE " RETURNING current_setting('howdah.ring', true)", move_types, 9},

    /* ---- dead letters and skips */
    /* The event may have been purged since it was read: then its payload is not kept, nor an error
       that can quote it.  $32: it was known to be purged when it was read. */
    [HW_PG_DEAD_LETTER_PUT] =
        {"WITH m AS (" MOVE " RETURNING s.subscriber_id),"
         " p AS MATERIALIZED (SELECT @schema@.purge_of($12) AS purge)"
         " INSERT INTO " DEAD_LETTERS " AS d (subscriber_id, error_message, retry_count, created_at,"
         "  last_retry_at, " HW_PG_EVENT_COLUMNS(HW_PG_COPY_COLUMN, HW_PG_COPY_COLUMN, ) "purge)"
         " SELECT m.subscriber_id, CASE WHEN p.purge IS NULL OR $32 THEN $10 END, $11, t.now, t.now,"
         "  $12, $13, $14, $15, $16, CASE WHEN p.purge IS NULL THEN $17 WHEN $19 IS NULL THEN 'null' END,"
         "  CASE WHEN p.purge IS NULL THEN $18 WHEN $19 IS NOT NULL THEN '' END,"
         "  $19, CASE WHEN p.purge IS NULL THEN $20 END, $21, $22, $23, $24, $25, $26, $27, $28,"
         "  $29, $30, CASE WHEN $31 THEN true END, p.purge"
         " FROM m, p, (SELECT clock_timestamp() AS now) AS t"
         " ON CONFLICT (subscriber_id, event_id) DO UPDATE SET state = 'dead',"
         "  error_message = excluded.error_message, retry_count = excluded.retry_count,"
         "  last_retry_at = excluded.last_retry_at, reason = NULL, resolved_at = NULL,"
         "  resolved_by = NULL"
         " RETURNING d.id",
         TYPES(move_types)},
    /* $1 subscriber $2 last id $3 after id $4 limit $5 with resolved ones $6 only redrives $7 cap */
    [HW_PG_DEAD_LETTER_LIST] = {"SELECT " DEAD_LETTER_COLUMNS("$7") " FROM " DEAD_LETTERS " AS d"
                           " WHERE d.id > $3 AND d.id <= $2"
                           " AND ($1::text IS NULL OR d.subscriber_id = $1)"
                           " AND ($5 OR d.resolved_at IS NULL)"
                           " AND (NOT $6 OR d.state = 'redrive') ORDER BY d.id LIMIT $4",
                           TYPES(dead_letters_types)},
    /* $5 cap */
    [HW_PG_DEAD_LETTER_LIST_OPEN] = {"SELECT " DEAD_LETTER_COLUMNS("$5") " FROM " DEAD_LETTERS " AS d"
                                " WHERE d.resolved_at IS NULL"
                                " AND (d.subscriber_id, d.id) > ($1, $3)"
                                " AND (d.subscriber_id, d.id) <= ($1, $2)"
                                " ORDER BY d.subscriber_id, d.id LIMIT $4",
                                TYPES(own_dead_letters_types)},
    [HW_PG_DEAD_LETTER_LIST_REDRIVES] = {"SELECT " DEAD_LETTER_COLUMNS("$5") " FROM " DEAD_LETTERS " AS d"
                                    " WHERE d.state = 'redrive'"
                                    " AND (d.subscriber_id, d.id) > ($1, $3)"
                                    " AND (d.subscriber_id, d.id) <= ($1, $2)"
                                    " ORDER BY d.subscriber_id, d.id LIMIT $4",
                                    TYPES(own_dead_letters_types)},
    /* $1 ids $2 subscriber, NULL: any $3 state $4 reason */
    [HW_PG_DEAD_LETTER_MARK] = {"WITH u AS (UPDATE " DEAD_LETTERS " AS d SET " MARKED
                           " WHERE d.id = ANY ($1) AND d.resolved_at IS NULL"
                           "  AND ($2::text IS NULL OR d.subscriber_id = $2) RETURNING 1)"
                           " SELECT count(*), " CALL " FROM u",
                           TYPES(mark_types)},
    [HW_PG_DEAD_LETTER_SET_OPEN] = {"WITH u AS (UPDATE " DEAD_LETTERS " AS d SET " MARKED
                                " WHERE d.resolved_at IS NULL AND $1::bigint[] IS NULL"
                                "  AND ($2::text IS NULL OR d.subscriber_id = $2) RETURNING 1)"
                                " SELECT count(*), " CALL " FROM u",
                                TYPES(mark_types)},
    /* FOR SHARE: a takeover waits for this statement, or this statement sees its token. */
    [HW_PG_REDRIVE_END] =
        {"WITH o AS (SELECT s.subscriber_id, s.owner FROM " SUBS " AS s"
         "  WHERE s.subscriber_id = $1 AND s.token = $2 AND " IS_LOG("$3") " FOR SHARE),"
         " u AS (UPDATE " DEAD_LETTERS " AS d SET state = $5,"
         "  error_message = coalesce($6, d.error_message),"
         "  retry_count = d.retry_count + (d.state = 'redrive')::int,"
         "  redrives = d.redrives + (d.state = 'redrive')::int, last_retry_at = clock_timestamp(),"
         "  resolved_at = CASE WHEN $5 = 'redriven' THEN clock_timestamp() END,"
         "  resolved_by = CASE WHEN $5 = 'redriven' THEN o.owner END"
         "  FROM o WHERE d.id = $4 AND d.subscriber_id = o.subscriber_id"
         "  AND d.resolved_at IS NULL RETURNING 1)"
         " SELECT EXISTS (SELECT FROM o), EXISTS (SELECT FROM u)",
         TYPES(ack_types)},
    [HW_PG_SKIP_PUT] = {"WITH m AS (" MOVE " RETURNING s.subscriber_id)"
                        " INSERT INTO @schema@.skips (subscriber_id, first_sequence,"
                        "  last_sequence, age_ms, reason)"
                        " SELECT m.subscriber_id, $10, $11, $12, $13 FROM m RETURNING id",
                        TYPES(skip_types)},
    /* Jobs come into being only if the checkpoint was moved. */
    [HW_PG_QUEUE_ROUTE] = {"WITH m AS (" MOVE " AND " WITHOUT_WAITING_IF("$8 IS NULL")
                           " RETURNING s.subscriber_id)"
                           " SELECT @schema@.route_events($10, $11, $12) FROM m",
                           TYPES(route_types)},
    [HW_PG_SKIP_LIST] = {"SELECT d.id, d.subscriber_id, d.first_sequence, d.last_sequence,"
                         " d.age_ms, d.reason, d.created_at, d.resolved_at, d.resolution"
                         " FROM @schema@.skips AS d WHERE d.id > $3"
                         " AND ($1::text IS NULL OR d.subscriber_id = $1)"
                         " AND ($2 OR d.resolved_at IS NULL) ORDER BY d.id LIMIT $4",
                         TYPES(skips_types)},
    [HW_PG_SKIP_RESOLVE] = {"UPDATE @schema@.skips AS d SET resolved_at = clock_timestamp(),"
                            " resolution = $2 WHERE d.id = $1 AND d.resolved_at IS NULL"
                            " RETURNING 1",
                            TYPES(resolve_types)},

    /* ---- the bell */
    /* Only when a bit is missing: setval() is written to the WAL. */
    [HW_PG_BELL_ARM] = {"SELECT CASE WHEN (b.last_value & $1) <> $1"
                        "  THEN setval(@bell_text@::regclass, b.last_value | $1) END"
                        " FROM @schema@.bell AS b WHERE " WITHOUT_WAITING,
                        TYPES(int8_type)},
    [HW_PG_BELL_RING] = {"SELECT @schema@.ring($1) WHERE " WITHOUT_WAITING, TYPES(texts_type)},
    [HW_PG_BELL_RING_INSIDE] = {"SELECT @schema@.ring_inside($1)", TYPES(texts_type)},
    [HW_PG_BELL_CALL] = {"SELECT " CALL, NULL, 0},
};
/* clang-format on */
