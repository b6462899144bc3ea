/*
 * sql_groups.c - the statements of groups.
 *
 *   I1  What a group does is written once, in the functions of sql/pg/functions/group_*.sql, for
 *       the library and for everybody else: here they are only called.
 *   I2  Where a lost commit means no more than that events are handed out again, the statement
 *       itself turns waiting for the disk off, for its own transaction only.
 */
#include "store/pg/columns.h"
#include "store/pg/pg.h"

static const Oid text_type[] = {HW_OID_TEXT};
/* $1 subscriber $2 pattern $3 stream $4 start $5 originals $6 key $7 on_fail $8 max_retries $9, $10
   delays $11 ordering $12 gap policy $13 gap timeout $14 lanes */
static const Oid create_types[] = {HW_OID_TEXT, HW_OID_TEXT, HW_OID_TEXT, HW_OID_TEXT, HW_OID_BOOL,
                                   HW_OID_TEXT, HW_OID_TEXT, HW_OID_INT4, HW_OID_INT8, HW_OID_INT8,
                                   HW_OID_TEXT, HW_OID_TEXT, HW_OID_INT8, HW_OID_INT4};
/* $1 subscriber $2 at most $3 member $4 lease $5 acked $6 process $7 fence */
static const Oid fetch_types[] = {HW_OID_TEXT, HW_OID_INT4, HW_OID_TEXT, HW_OID_INT8,
                                  HW_OID_TEXT, HW_OID_INT8, HW_OID_INT8};
/* The same, but $7 cap */
static const Oid small_types[] = {HW_OID_TEXT, HW_OID_INT4, HW_OID_TEXT, HW_OID_INT8,
                                  HW_OID_TEXT, HW_OID_INT8, HW_OID_INT4};
/* $1 places $2 cap */
static const Oid read_types[] = {HW_OID_TID_ARRAY, HW_OID_INT4};
/* $1 subscriber $2 fence $3 rows $4 cap */
static const Oid read_lot_types[] = {HW_OID_TEXT, HW_OID_INT8, HW_OID_INT4, HW_OID_INT4};
/* $1 subscriber $2 token $3 up to, or milliseconds $4 acked already $5 without waiting for the disk
 */
static const Oid ack_types[] = {HW_OID_TEXT, HW_OID_TEXT, HW_OID_INT8, HW_OID_INT8, HW_OID_BOOL};
static const Oid moved_types[] = {HW_OID_TEXT, HW_OID_TEXT, HW_OID_TID_ARRAY, HW_OID_INT8,
                                  HW_OID_INT8};
static const Oid batch_types[] = {HW_OID_TEXT, HW_OID_TEXT, HW_OID_INT8};
static const Oid nack_types[] = {HW_OID_TEXT, HW_OID_TEXT, HW_OID_INT8,
                                 HW_OID_TEXT, HW_OID_INT8, HW_OID_INT8};

/* $1 subscriber $2 member $3 process $4 token $5 lease */
static const Oid reserve_types[] = {HW_OID_TEXT, HW_OID_TEXT, HW_OID_INT8, HW_OID_INT8,
                                    HW_OID_INT8};
/* $1 subscriber $2 token $3 next token $4 acked $5 numbers $6 lease */
static const Oid range_types[] = {HW_OID_TEXT, HW_OID_INT8, HW_OID_INT8,
                                  HW_OID_INT8, HW_OID_INT4, HW_OID_INT8};
/* $1, $2 first and last number $3 cap $4 subscriber $5 lot $6 token $7 type or pattern */
static const Oid range_read_types[] = {HW_OID_INT8, HW_OID_INT8, HW_OID_INT4, HW_OID_TEXT,
                                       HW_OID_INT8, HW_OID_INT8, HW_OID_TEXT};
/* $1 subscriber $2 token $3 lease */
static const Oid extend_types[] = {HW_OID_TEXT, HW_OID_INT8, HW_OID_INT8};
/* $1 subscriber $2 token $3 next token $4 process $5 acked $6 up to $7 done $8 busy $9 lease */
static const Oid end_types[] = {HW_OID_TEXT,       HW_OID_INT8,       HW_OID_INT8,
                                HW_OID_INT8,       HW_OID_INT8,       HW_OID_INT8,
                                HW_OID_INT8_ARRAY, HW_OID_INT8_ARRAY, HW_OID_INT8};

#define TYPES(array) (array), (int)(sizeof(array) / sizeof(array)[0])
#define MS(parameter) parameter " * interval '1 millisecond'"

/* The events of a range, if the server knows it: asked once, before any row. */
#define RANGE_ROWS                                                                                 \
    "SELECT " HW_PG_TERSE_COLUMNS("$3") " FROM @schema@.events"                                    \
                                        " WHERE (SELECT @schema@.group_has_range($4, $5, $6))"     \
                                        " AND global_sequence BETWEEN $1 AND $2"

/* Unless the server has forgotten what was acked of the batch. */
#define IF_KNOWN(acked, call, otherwise)                                                           \
    "CASE WHEN " acked " = 0 OR @schema@.group_stands($1, $2, " acked ") THEN " call               \
    " ELSE " otherwise " END"

/* I2: true, once per statement. */
#define WITHOUT_WAITING "(SELECT set_config('synchronous_commit', 'off', true)) = 'off'"
#define WITHOUT_WAITING_IF(parameter)                                                              \
    "(SELECT CASE WHEN " parameter " THEN set_config('synchronous_commit', 'off', true)"           \
    " ELSE 'off' END) = 'off'"

const hw_pg_statement_row hw_pg_group_statements[HW_PG_STATEMENT_COUNT] = {
    [HW_PG_GROUP_CREATE] = {"SELECT @schema@.subscribe($1, $2, $3, $4, $5, $6, $7, $8, " MS(
                                "$9") ", " MS("$10") ", $11, $12, " MS("$13") ", $14)",
                            TYPES(create_types)},
    [HW_PG_GROUP_FILTER] = {"SELECT s.pattern, s.stream, s.originals FROM @schema@.subscriptions AS"
                            " s WHERE s.subscriber_id = $1",
                            TYPES(text_type)},
    [HW_PG_GROUP_FETCH] = {"SELECT b.token, b.attempt, b.tids, b.lo, b.hi, b.n, b.follows"
                           " FROM @schema@.group_fetch($1, $2, $3, " MS(
                               "$4") ", $5, $6, $7) AS b"
                                     " WHERE " WITHOUT_WAITING,
                           TYPES(fetch_types)},
    /* OFFSET: else it would be joined with what comes first, and the places were not looked up. */
    [HW_PG_GROUP_FETCH_SMALL] = {"SELECT b.token, b.attempt, b.n, b.lo, b.hi, e.*"
                                 " FROM @schema@.group_fetch($1, $2, $3, " MS(
                                     "$4") ", $5, $6) AS b"
                                           " LEFT JOIN LATERAL (SELECT " HW_PG_TERSE_COLUMNS(
                                               "$7") " FROM @schema@.events WHERE ctid = ANY "
                                                     "(b.tids) OFFSET 0) AS e ON true"
                                                     " WHERE " WITHOUT_WAITING,
                                 TYPES(small_types)},
    /* They come in the order of their places, which is nearly that of their numbers: sorted here,
       each row would be copied once more. */
    [HW_PG_GROUP_READ] = {"SELECT " HW_PG_TERSE_COLUMNS(
                              "$2") " FROM @schema@.events WHERE ctid = ANY ($1)",
                          TYPES(read_types)},
    [HW_PG_GROUP_READ_LOT] =
        {"SELECT " HW_PG_TERSE_COLUMNS(
             "$4") " FROM @schema@.events"
                   " WHERE ctid = ANY ((SELECT @schema@.group_tids($1, $2, $3))::tid[])",
         TYPES(read_lot_types)},
    [HW_PG_GROUP_MOVED] = {"SELECT @schema@.group_moved($1,"
                           " ROW($2, 1, $3, $4, $5, false, 0, false)::@schema@.group_batch)",
                           TYPES(moved_types)},
    [HW_PG_GROUP_ACK] = {"SELECT " IF_KNOWN("$4", "@schema@.ack($1, $2, $3)",
                                            "false") " WHERE " WITHOUT_WAITING_IF("$5"),
                         TYPES(ack_types)},
    [HW_PG_GROUP_COMMIT] = {"SELECT " IF_KNOWN("$4", "@schema@.ack($1, $2, $3)",
                                               "false") ", current_setting('howdah.ring', true)",
                            ack_types, 4},
    [HW_PG_GROUP_NACK] = {"SELECT " IF_KNOWN("$6", "@schema@.group_nack($1, $2, $3, $4, $5)",
                                             "'lost'"),
                          TYPES(nack_types)},
    [HW_PG_GROUP_EXTEND] = {"SELECT @schema@.extend_lease($1, $2, " MS("$3") ") WHERE"
                                                                             " " WITHOUT_WAITING,
                            TYPES(batch_types)},
    [HW_PG_GROUP_RELEASE] = {"SELECT @schema@.release_batch($1, $2) WHERE $3 >= 0",
                             TYPES(batch_types)},
    [HW_PG_GROUP_SHORTEN] = {"SELECT @schema@.shorten_batch($1, $2, $3)", TYPES(batch_types)},
    [HW_PG_GROUP_RESERVE] = {"SELECT @schema@.group_reserve($1, $2, $3, $4, $5)",
                             TYPES(reserve_types)},
    [HW_PG_GROUP_TAKE_RANGE] = {"SELECT r.state, r.lot, r.lo, r.hi, r.gaps FROM"
                                " @schema@.group_take_range($1, $2, $3, $4, $5, $6) AS r"
                                " WHERE " WITHOUT_WAITING,
                                TYPES(range_types)},
    [HW_PG_GROUP_RANGE] = {RANGE_ROWS " ORDER BY global_sequence", range_read_types, 6},
    [HW_PG_GROUP_RANGE_TYPE] = {RANGE_ROWS " AND type = $7 ORDER BY type, global_sequence",
                                TYPES(range_read_types)},
    /* The regular expression is made once, not for each row. */
    [HW_PG_GROUP_RANGE_PATTERN] = {RANGE_ROWS " AND type ~ (SELECT @schema@.pattern_regex($7))"
                                              " ORDER BY global_sequence",
                                   TYPES(range_read_types)},
    [HW_PG_GROUP_RESERVE_EXTEND] = {"SELECT @schema@.group_reserve_extend($1, $2, $3) WHERE"
                                    " " WITHOUT_WAITING,
                                    TYPES(extend_types)},
    [HW_PG_GROUP_END_RANGES] =
        {"SELECT e.sequence, e.batch_token FROM"
         " @schema@.group_end_ranges($1, $2, $3, $4, $5, $6, $7, $8, $9) AS e",
         TYPES(end_types)},
    [HW_PG_GROUP_OUTLOOK] = {"SELECT o.status, o.due_ms FROM @schema@.group_outlook($1) AS o",
                             TYPES(text_type)},
    [HW_PG_GROUP_MEMBERS] =
        {"SELECT m.member, m.batches, m.events,"
         " (m.oldest_age_s * 1000)::bigint FROM @schema@.group_members($1) AS m",
         TYPES(text_type)},
    [HW_PG_GROUP_UNSHARE] = {"SELECT @schema@.unshare($1)", TYPES(text_type)},
    [HW_PG_GROUP_REMOVE] = {"SELECT @schema@.subscription_remove($1)", TYPES(text_type)},
};
