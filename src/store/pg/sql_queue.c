/*
 * sql_queue.c - the statements of the work queue.
 *
 *   I1  What a queue does is written once, in the functions of sql/pg/functions/queue_*.sql, for
 *       the library and for everybody else: here they are only called.
 *   I2  Where a lost commit means no more than that a job runs again, the statement itself turns
 *       waiting for the disk off, for its own transaction only.
 */
#include "store/pg/pg.h"

static const Oid text_type[] = {HW_OID_TEXT};
static const Oid outlook_types[] = {HW_OID_TEXT, HW_OID_BOOL, HW_OID_INT4_ARRAY};
static const Oid int8_type[] = {HW_OID_INT8};
static const Oid push_types[] = {
    HW_OID_TEXT,       HW_OID_JSON_ARRAY, HW_OID_BYTEA_ARRAY,       HW_OID_TEXT_ARRAY,
    HW_OID_JSON_ARRAY, HW_OID_INT8_ARRAY, HW_OID_TIMESTAMPTZ_ARRAY, HW_OID_INT4_ARRAY,
    HW_OID_INT4_ARRAY, HW_OID_TEXT_ARRAY, HW_OID_TEXT_ARRAY,        HW_OID_TEXT_ARRAY,
    HW_OID_UUID_ARRAY};
static const Oid ack_types[] = {HW_OID_INT8_ARRAY, HW_OID_INT8_ARRAY, HW_OID_INT4_ARRAY,
                                HW_OID_TEXT_ARRAY, HW_OID_INT8_ARRAY, HW_OID_BOOL};
static const Oid claim_types[] = {
    HW_OID_TEXT,       HW_OID_INT4, HW_OID_TEXT,       HW_OID_INT8,
    HW_OID_BOOL,       HW_OID_BOOL, HW_OID_INT4_ARRAY, HW_OID_TIMESTAMPTZ_ARRAY,
    HW_OID_INT8_ARRAY, HW_OID_BOOL};
static const Oid exchange_types[] = {HW_OID_INT8_ARRAY, HW_OID_INT8_ARRAY,
                                     HW_OID_INT4_ARRAY, HW_OID_TEXT_ARRAY,
                                     HW_OID_INT8_ARRAY, HW_OID_BOOL,
                                     HW_OID_TEXT,       HW_OID_INT4,
                                     HW_OID_TEXT,       HW_OID_INT8,
                                     HW_OID_BOOL,       HW_OID_BOOL,
                                     HW_OID_INT4_ARRAY, HW_OID_TIMESTAMPTZ_ARRAY,
                                     HW_OID_INT8_ARRAY};
static const Oid exchange_one_types[] = {HW_OID_INT8,        HW_OID_INT8, HW_OID_BOOL, HW_OID_BOOL,
                                         HW_OID_TEXT,        HW_OID_TEXT, HW_OID_INT8, HW_OID_INT4,
                                         HW_OID_TIMESTAMPTZ, HW_OID_INT8};
static const Oid dead_letters_types[] = {HW_OID_TEXT, HW_OID_BOOL, HW_OID_INT8,
                                         HW_OID_INT8, HW_OID_INT8, HW_OID_INT4};
static const Oid mark_types[] = {HW_OID_INT8_ARRAY, HW_OID_TEXT, HW_OID_TEXT, HW_OID_TEXT};
static const Oid cancel_types[] = {HW_OID_INT8, HW_OID_TEXT};
static const Oid log_types[] = {HW_OID_TEXT, HW_OID_BOOL, HW_OID_INT8, HW_OID_INT8,
                                HW_OID_BOOL, HW_OID_BOOL, HW_OID_INT4};
static const Oid set_types[] = {HW_OID_TEXT, HW_OID_JSON};
static const Oid bind_types[] = {HW_OID_TEXT, HW_OID_TEXT, HW_OID_TEXT,
                                 HW_OID_TEXT, HW_OID_INT8, HW_OID_INT8_ARRAY};
static const Oid unbind_types[] = {HW_OID_TEXT, HW_OID_TEXT};

#define TYPES(array) (array), (int)(sizeof(array) / sizeof(array)[0])

/* I2: true, once per statement. */
#define WITHOUT_WAITING(parameter)                                                                 \
    "(SELECT CASE WHEN " parameter " THEN set_config('synchronous_commit', 'off', true)"           \
    " ELSE 'off' END) = 'off'"

#define DEAD_LETTER_FITS HW_PG_FITS("l", "$6")
#define LOGGED_FITS HW_PG_FITS("j", "$7")

/* A claimed job as queue_exchange.c decodes it. */
#define CLAIMED                                                                                    \
    "c.id, c.token, c.attempts::bigint, c.max_attempts::bigint, c.priority::int, c.suspect,"       \
    " c.due_at, c.created_at, c.started_at, c.lease_until, c.key, c.dedup, c.correlation_id,"      \
    " c.causation_id, c.event_sequence, c.content_type, c.headers, c.data, c.bytes,"               \
    " c.event_type, c.event_stream, c.level, c.xid, c.horizon, c.begun_at"

/* Each setting of a queue as a bigint, whatever its column is. */
#define AS_NUMBER_DURATION(member) "q." member "::bigint"
#define AS_NUMBER_COUNT(member) "q." member "::bigint"
#define AS_NUMBER_PERCENT(member) "q." member "::bigint"
#define AS_NUMBER_BOOLEAN(member) "q." member "::int::bigint"
#define SETTING(key, member, unit, min, max, def, range, zero, help) ", " AS_NUMBER_##unit(#member)
#define QUEUE_COLUMNS                                                                              \
    "SELECT q.name, q.paused" HOWDAH_QUEUE_SETTING_LIST(                                           \
        SETTING) ", q.created_at, q.pending, q.processing, q.scheduled, q.completed, q.failed,"    \
                 " q.purged, q.oldest_age_ms, q.dead_letters"

/* A parameter of queue_set(), and the number or nothing that it is given. */
#define FROM_NUMBER_DURATION(member) "c." member
#define FROM_NUMBER_COUNT(member) "c." member
#define FROM_NUMBER_PERCENT(member) "c." member
#define FROM_NUMBER_BOOLEAN(member) "c." member " <> 0"
#define CHANGE(key, member, unit, min, max, def, range, zero, help)                                \
    ", " #member " => " FROM_NUMBER_##unit(#member)
#define CHANGE_COLUMN(key, member, unit, min, max, def, range, zero, help) ", " #member " bigint"

/* clang-format off */
const hw_pg_statement_row hw_pg_queue_statements[HW_PG_STATEMENT_COUNT] = {
    [HW_PG_JOB_PUSH] = {"SELECT p.id, p.existed FROM @schema@.push_arrays($1, $2, $3, $4, $5, $6,"
                        " $7, $8, $9, $10, $11, $12, $13) AS p",
                        TYPES(push_types)},
    /* One digit for each: howdah_ack_outcome. */
    [HW_PG_JOB_ACK] = {"SELECT array_to_string(@schema@.ack_jobs($1, $2, $3, $4, $5), '')"
                          " WHERE " WITHOUT_WAITING("$6"),
                          TYPES(ack_types)},
    [HW_PG_JOB_CLAIM] = {"SELECT NULL::text, " CLAIMED
                         " FROM @schema@.claim_jobs($1, $2, $3, $4, $5, $6, $7, $8, $9) AS c"
                         " WHERE " WITHOUT_WAITING("$10"),
                         TYPES(claim_types)},
    /* The claim takes something of the ack, so that it comes second. */
    [HW_PG_JOB_EXCHANGE] = {"SELECT CASE WHEN coalesce(c.nth, 1) = 1"
                        " THEN array_to_string(s.outcomes, '') END, " CLAIMED
                        " FROM @schema@.ack_jobs($1, $2, $3, $4, $5) AS s(outcomes)"
                        " LEFT JOIN LATERAL @schema@.claim_jobs($7,"
                        "  $8 + 0 * cardinality(s.outcomes), $9, $10, $11, $12, $13, $14, $15)"
                        "  WITH ORDINALITY AS c (id, token, attempts, max_attempts, priority,"
                        "   suspect, due_at, created_at, started_at, lease_until, key, dedup,"
                        "   correlation_id, causation_id, event_sequence, content_type, headers,"
                        "   data, bytes, event_type, event_stream, level, xid, horizon, begun_at, nth)"
                        " ON true"
                        " WHERE " WITHOUT_WAITING("$6"),
                        TYPES(exchange_types)},
    /* One value, not columns: the server needs no node of a plan for it. */
    [HW_PG_JOB_EXCHANGE_ONE] = {"SELECT @schema@.exchange_one($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
                            TYPES(exchange_one_types)},
    [HW_PG_JOB_LOAD] = {"SELECT j.job_id, j.state, j.queue, j.token, j.priority::int,"
                        " j.attempts::bigint, j.max_attempts::bigint, j.suspect, j.created_at,"
                        " j.due_at, j.started_at, j.lease_until, j.worker, j.key, j.dedup,"
                        " j.correlation_id, j.causation_id, j.event_sequence, j.content_type,"
                        " j.headers, j.data, j.bytes, j.position, j.finished_at, j.error, j.result,"
                        " j.event_type, j.event_stream FROM @schema@.job_states($1) AS j",
                        TYPES(int8_type)},
    [HW_PG_JOB_CANCEL] = {"SELECT @schema@.job_cancel($1, $2)", TYPES(cancel_types)},
    [HW_PG_JOB_RERUN] = {"SELECT @schema@.job_rerun($1)", TYPES(int8_type)},
    /* The same columns as those of JOB_LOAD, and whether the payload is not too large ($7). */
    [HW_PG_JOB_LOG] = {"SELECT j.job_id, CASE WHEN j.failed THEN 'failed' ELSE 'completed' END,"
                       " $1::text, NULL::bigint, j.priority::int, j.attempts::bigint,"
                       " j.max_attempts::bigint, false, j.created_at, NULL::timestamptz,"
                       " j.started_at, NULL::timestamptz, j.worker, j.key, j.dedup,"
                       " j.correlation_id, j.causation_id, j.event_sequence, j.content_type,"
                       " CASE WHEN " LOGGED_FITS " AND $6 THEN j.headers END,"
                       " CASE WHEN " LOGGED_FITS " AND $6 THEN j.data END,"
                       " CASE WHEN " LOGGED_FITS " AND $6 THEN j.bytes END, j.position,"
                       " j.finished_at, j.error, j.result, j.event_type, j.event_stream,"
                       " NOT $6 OR " LOGGED_FITS
                       " FROM @schema@.queue_history($1, $2, $3, $4, $5) AS j",
                       TYPES(log_types)},
    /* $1 queue $2 with resolved ones $3 after id $4 last id $5 limit */
    [HW_PG_JOB_DEAD_LETTER_LIST] = {"SELECT l.id, l.queue, l.job_id, l.state, l.error, l.attempts,"
                               " l.redrives, l.reason, l.created_at, l.last_attempt_at,"
                               " l.resolved_at, l.resolved_by, l.kept, l.priority::int,"
                               " l.max_attempts::bigint, l.pushed_at, l.key, l.dedup,"
                               " l.correlation_id, l.causation_id, l.event_sequence,"
                               " l.content_type, CASE WHEN " DEAD_LETTER_FITS " THEN l.headers END,"
                               " CASE WHEN " DEAD_LETTER_FITS " THEN l.data END,"
                               " CASE WHEN " DEAD_LETTER_FITS " THEN l.bytes END, l.event_type,"
                               " l.event_stream, " DEAD_LETTER_FITS
                               " FROM @schema@.job_dead_letter_states($1, $2, $3, $4, $5) AS l",
                               TYPES(dead_letters_types)},
    /* $1 ids, NULL: all $2 queue, NULL: any $3 state $4 reason */
    [HW_PG_DEAD_LETTER_SET_JOBS] = {"SELECT @schema@.job_dead_letters_set_state($1, $2, $3, $4)",
                                TYPES(mark_types)},
    [HW_PG_QUEUE_OUTLOOK] = {"SELECT o.paused, o.next_ms, o.lease_ms, o.queue_id"
                             " FROM @schema@.queue_outlook($1, $2, $3) AS o",
                             TYPES(outlook_types)},
    [HW_PG_PUSH_HORIZON] = {"SELECT @schema@.push_horizon()", NULL, 0},
    [HW_PG_QUEUE_TIDY] = {"SELECT @schema@.queue_tidy($1)", TYPES(text_type)},
    /* $1 the queue $2 an object: what changes */
    [HW_PG_QUEUE_SET] = {"SELECT @schema@.queue_set($1, paused => c.paused"
                         HOWDAH_QUEUE_SETTING_LIST(CHANGE)
                         ") FROM json_to_record($2) AS c (paused boolean"
                         HOWDAH_QUEUE_SETTING_LIST(CHANGE_COLUMN) ")",
                         TYPES(set_types)},
    [HW_PG_QUEUE_STATES] = {QUEUE_COLUMNS " FROM @schema@.queue_states($1) AS q", TYPES(text_type)},
    [HW_PG_QUEUE_SUMMARY] = {QUEUE_COLUMNS " FROM @schema@.queue_summary() AS q", NULL, 0},
    [HW_PG_QUEUE_VERIFY] = {"SELECT f.queue, f.what, f.n FROM @schema@.queue_findings() AS f", NULL, 0},
    [HW_PG_QUEUE_PURGE] = {"SELECT @schema@.queue_purge($1)", TYPES(text_type)},
    [HW_PG_QUEUE_BIND] = {"SELECT @schema@.queue_bind($1, $2, $3, $4, $5, $6)", TYPES(bind_types)},
    [HW_PG_QUEUE_UNBIND] = {"SELECT @schema@.queue_unbind($1, $2)", TYPES(unbind_types)},
    [HW_PG_QUEUE_BINDINGS] = {"SELECT b.name, b.pattern, b.key_from, b.subscriber_id, b.created_at,"
                              " b.high, b.outstanding, b.status, b.reason, b.owner"
                              " FROM @schema@.queue_bindings($1) AS b",
                              TYPES(text_type)},
};
/* clang-format on */
