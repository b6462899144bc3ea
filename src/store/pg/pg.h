/*
 * pg.h - the inside of the PostgreSQL store.
 *
 *   I1  Every statement goes through exec.c (hw_pg_exec(), hw_pg_send(), hw_pg_pipeline(),
 *       hw_pg_pair()): it
 *       knows the deadline, the interrupt, lost connections and SQLSTATEs; nothing else calls
 *       libpq's query functions.
 *   I2  A statement counts as done only when the server is ready for the next one: in the
 *       extended protocol "INSERT 0 1" arrives before the transaction has committed.
 *   I3  Names of schemas and tables are quoted when the store is opened (sql.c); everything else
 *       is a parameter.
 *   I4  Only these are under way without being waited for: the next pages of one cursor
 *       (prefetch), or a ring of the bell.  Any other statement first takes those answers in; pages
 *       are left with their cursor.  A checkpoint may go behind the pages instead.
 *   I5  An operation starts on a session without an open transaction, or makes a new session: what
 *       is acknowledged must not depend on a COMMIT that somebody left out.
 */
#ifndef HW_STORE_PG_PG_H
#define HW_STORE_PG_PG_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "store/store.h"

/* The oldest server we speak to. */
#define HW_PG_VERSION_MIN 130000

enum hw_pg_oid {
    HW_OID_BOOL = 16,
    HW_OID_BYTEA = 17,
    HW_OID_INT8 = 20,
    HW_OID_INT4 = 23,
    HW_OID_TEXT = 25,
    HW_OID_JSON = 114,
    HW_OID_TIMESTAMPTZ = 1184,
    HW_OID_UUID = 2950,
    HW_OID_JSON_ARRAY = 199,
    HW_OID_BYTEA_ARRAY = 1001,
    HW_OID_INT4_ARRAY = 1007,
    HW_OID_TEXT_ARRAY = 1009,
    HW_OID_INT8_ARRAY = 1016,
    HW_OID_TIMESTAMPTZ_ARRAY = 1185,
    HW_OID_TID_ARRAY = 1010,
    HW_OID_UUID_ARRAY = 2951
};

/* X(name): a prepared statement, its text and parameter types in sql.c. */
#define HW_PG_STATEMENTS(X)                                                                        \
    X(APPEND_NONE)                                                                                 \
    X(APPEND_ANY)                                                                                  \
    X(APPEND_NEXT)                                                                                 \
    X(APPEND_EXACT)                                                                                \
    X(APPEND_EXISTS)                                                                               \
    X(APPEND_BATCH)                                                                                \
    X(APPEND_FUNCTION)                                                                             \
    X(LOCK_STREAMS)                                                                                \
    X(IMPORT_PLACE)                                                                                \
    X(STREAM_VERSION)                                                                              \
    X(STREAM_VERSIONS)                                                                             \
    X(HEAD)                                                                                        \
    X(READ_STREAM)                                                                                 \
    X(READ_STREAM_BACK)                                                                            \
    X(READ_CORRELATION)                                                                            \
    X(READ_CORRELATION_BACK)                                                                       \
    X(READ_TYPE)                                                                                   \
    X(READ_TYPE_BACK)                                                                              \
    X(READ_SOME)                                                                                   \
    X(READ_SOME_BACK)                                                                              \
    X(READ_ALL)                                                                                    \
    X(READ_IDS)                                                                                    \
    X(READ_RANGES)                                                                                 \
    X(READ_RANGES_TYPE)                                                                            \
    X(READ_RANGES_STREAM)                                                                          \
    X(READ_SPARSE)                                                                                 \
    X(READ_SPARSE_BACK)                                                                            \
    X(FN_STREAM_VERSION)                                                                           \
    X(FN_HEAD)                                                                                     \
    X(FIRST_SINCE)                                                                                 \
    X(FN_READ)                                                                                     \
    X(FN_READ_IDS)                                                                                 \
    X(FN_READ_RANGES)                                                                              \
    X(TREE)                                                                                        \
    X(HOLDERS)                                                                                     \
    X(PROVEN)                                                                                      \
    X(STORE_PROVEN)                                                                                \
    X(STORED)                                                                                      \
    X(BLOCKERS)                                                                                    \
    X(HERE)                                                                                        \
    X(FN_HERE)                                                                                     \
    X(FN_STORED)                                                                                   \
    X(FN_PROVEN)                                                                                   \
    X(SUB_CREATE)                                                                                  \
    X(SUB_LIST)                                                                                    \
    X(SUB_STATE)                                                                                   \
    X(SUB_TAKE)                                                                                    \
    X(SUB_UNLOCK)                                                                                  \
    X(SUB_RELEASE)                                                                                 \
    X(SUB_CHECKPOINT)                                                                              \
    X(SUB_POLL)                                                                                    \
    X(SUB_RENEW)                                                                                   \
    X(SUB_SUSPECT)                                                                                 \
    X(SUB_STATUS)                                                                                  \
    X(SUB_RESET)                                                                                   \
    X(SUB_REMOVE)                                                                                  \
    X(SUB_MOVE)                                                                                    \
    X(DEAD_LETTER_PUT)                                                                             \
    X(DEAD_LETTER_LIST)                                                                            \
    X(DEAD_LETTER_LIST_OPEN)                                                                       \
    X(DEAD_LETTER_LIST_REDRIVES)                                                                   \
    X(DEAD_LETTER_MARK)                                                                            \
    X(DEAD_LETTER_SET_OPEN)                                                                        \
    X(DEAD_LETTER_SET_JOBS)                                                                        \
    X(REDRIVE_END)                                                                                 \
    X(SKIP_PUT)                                                                                    \
    X(SKIP_LIST)                                                                                   \
    X(SKIP_RESOLVE)                                                                                \
    X(BELL_ARM)                                                                                    \
    X(BELL_RING)                                                                                   \
    X(BELL_RING_INSIDE)                                                                            \
    X(BELL_CALL)                                                                                   \
    X(JOB_PUSH)                                                                                    \
    X(JOB_ACK)                                                                                     \
    X(JOB_CLAIM)                                                                                   \
    X(JOB_EXCHANGE)                                                                                \
    X(JOB_EXCHANGE_ONE)                                                                            \
    X(JOB_LOAD)                                                                                    \
    X(JOB_CANCEL)                                                                                  \
    X(JOB_RERUN)                                                                                   \
    X(JOB_LOG)                                                                                     \
    X(JOB_DEAD_LETTER_LIST)                                                                        \
    X(QUEUE_OUTLOOK)                                                                               \
    X(PUSH_HORIZON)                                                                                \
    X(QUEUE_TIDY)                                                                                  \
    X(QUEUE_SET)                                                                                   \
    X(QUEUE_STATES)                                                                                \
    X(QUEUE_SUMMARY)                                                                               \
    X(QUEUE_VERIFY)                                                                                \
    X(TIMES_VERIFY)                                                                                \
    X(QUEUE_PURGE)                                                                                 \
    X(QUEUE_BIND)                                                                                  \
    X(QUEUE_UNBIND)                                                                                \
    X(QUEUE_BINDINGS)                                                                              \
    X(QUEUE_ROUTE)                                                                                 \
    X(APPEND_CORRECTION)                                                                           \
    X(READ_SEQUENCES)                                                                              \
    X(FN_READ_SEQUENCES)                                                                           \
    X(QUERY_PAGE)                                                                                  \
    X(QUERY_KEYS)                                                                                  \
    X(QUERY_PIN)                                                                                   \
    X(QUERY_COUNT)                                                                                 \
    X(QUERY_TYPES)                                                                                 \
    X(QUERY_STREAMS)                                                                               \
    X(CLOCK)                                                                                       \
    X(KNOWLEDGE)                                                                                   \
    X(SNAPSHOT_PUT)                                                                                \
    X(SNAPSHOT_GET)                                                                                \
    X(SNAPSHOT_LIST)                                                                               \
    X(SNAPSHOT_REMOVE)                                                                             \
    X(PURGE)                                                                                       \
    X(PURGES)                                                                                      \
    X(GROUP_CREATE)                                                                                \
    X(GROUP_FILTER)                                                                                \
    X(GROUP_FETCH)                                                                                 \
    X(GROUP_FETCH_SMALL)                                                                           \
    X(GROUP_READ)                                                                                  \
    X(GROUP_READ_LOT)                                                                              \
    X(GROUP_MOVED)                                                                                 \
    X(GROUP_ACK)                                                                                   \
    X(GROUP_COMMIT)                                                                                \
    X(GROUP_NACK)                                                                                  \
    X(GROUP_EXTEND)                                                                                \
    X(GROUP_RELEASE)                                                                               \
    X(GROUP_SHORTEN)                                                                               \
    X(GROUP_RESERVE)                                                                               \
    X(GROUP_TAKE_RANGE)                                                                            \
    X(GROUP_RANGE)                                                                                 \
    X(GROUP_RANGE_TYPE)                                                                            \
    X(GROUP_RANGE_PATTERN)                                                                         \
    X(GROUP_RESERVE_EXTEND)                                                                        \
    X(GROUP_END_RANGES)                                                                            \
    X(GROUP_OUTLOOK)                                                                               \
    X(GROUP_MEMBERS)                                                                               \
    X(GROUP_UNSHARE)                                                                               \
    X(GROUP_REMOVE)                                                                                \
    X(TOKEN_ADD)                                                                                   \
    X(TOKEN_LIST)                                                                                  \
    X(TOKEN_REVOKE)                                                                                \
    X(TOKEN_USED)                                                                                  \
    X(WEBHOOK_SET)                                                                                 \
    X(WEBHOOK_LIST)                                                                                \
    X(WEBHOOK_SECRET)                                                                              \
    X(WEBHOOK_ENABLE)                                                                              \
    X(WEBHOOK_REPORT)                                                                              \
    X(WEBHOOK_REMOVE)

typedef enum hw_pg_statement {
#define HW_PG_STATEMENT_ENUM(name) HW_PG_##name,
    HW_PG_STATEMENTS(HW_PG_STATEMENT_ENUM)
#undef HW_PG_STATEMENT_ENUM
        HW_PG_STATEMENT_COUNT
} hw_pg_statement;

/* Whether the payload of a row is not larger than cap.  For what is read now and then; events have
   a cheaper test (sql.c). */
#define HW_PG_FITS(t, cap)                                                                         \
    "coalesce(pg_column_size(" t ".data) <= " cap " AND octet_length(" t ".data::text) <= " cap    \
    ", true) AND coalesce(octet_length(" t ".bytes) <= " cap                                       \
    ", true) AND coalesce(pg_column_size(" t ".headers) <= " cap ", true)"

/* The most parameters of any statement: a dead letter has 32. */
#define HW_PG_PARAMS_MAX 32

typedef struct hw_pg_cursor hw_pg_cursor;

/* What a session hears, and how a sleeper is woken (bell.c). */
typedef struct hw_pg_bell {
    bool listening;
    bool rung;       /* a notification that concerns us has arrived since the last wait */
    bool general;    /* events of every type are listened for */
    int64_t mask;    /* the bits that arming sets */
    char *types;     /* those listened for, each with its NUL, an empty one at the end */
    bool ringing;    /* a ring was sent, its answer is still to come */
    int64_t rung_ms; /* when we rang last */
    int epoll_fd;    /* -1: nobody has asked for a descriptor */
    int event_fd;    /* readable while rung */
    int socket;      /* the one that epoll_fd watches, -1: none */
} hw_pg_bell;

typedef struct hw_pg {
    hw_store base;
    PGconn *conn;      /* NULL: not connected */
    bool caller_owned; /* the caller's connection: not closed, not reconfigured, nothing prepared */
    bool was_open;     /* there has been a connection: losing it is worth some patience */
    bool several;      /* hosts to choose from */
    bool recovery;     /* the server is a standby */
    bool pooled;       /* a pooler in between: the session is not ours to keep anything in */
    bool may_ring;     /* this role has the right to ring the bell */
    bool rings;        /* this session rings after the commit of its own appends (bell.c) */
    bool in_handler;   /* between begin and commit the transaction is a handler's */
    uint64_t session;  /* counts connections; 0: none yet */
    int backend_pid;   /* as the server says it */
    char log[HW_TIMELINE_SIZE]; /* which one this session speaks to, "" until asked for, */
    int64_t drawn;              /* and the highest of its numbers known to be drawn */
    bool log_is_bus;            /* the server does not say which cluster it is (sql.c) */
    char **locks;               /* names of the subscriptions whose lock this session holds */
    size_t locks_n;
    size_t locks_room;
    hw_pg_bell bell;
    bool ended;      /* the server has said that it ends this session */
    bool stopped;    /* a cancel was sent because of an interrupt: its answer says INTERRUPTED */
    int64_t used_ms; /* when the last answer came */
    bool unprepared; /* a pooler in between does not keep prepared statements */
    unsigned tag;    /* of this connection's prepared statements */
    bool schema_checked;
    bool direct_append; /* rights on the table; otherwise through the functions */
    bool direct_read;
    bool direct_state;          /* rights on what is known of the log's numbers */
    char sequence_problem[200]; /* why nothing may be appended, "" when nothing is wrong */
    bool prepared[HW_PG_STATEMENT_COUNT];
    char names[HW_PG_STATEMENT_COUNT][32]; /* of those that are prepared */
    struct hw_pg_known *known;             /* NULL: nothing; see known_versions.c */
    struct hw_pg_floors *floors;           /* NULL: none; see queue_floors.c */
    int64_t final_us;                 /* what was known by then is final; 0: nothing is known */
    char *sql[HW_PG_STATEMENT_COUNT]; /* names filled in */
    hw_pg_cursor *in_flight;          /* I4: whose pages are under way */
    size_t under_way;                 /* statements sent behind each other, not answered yet */
    int64_t ahead_after_ms;           /* until then no page is asked for ahead (read.c I6) */
    size_t range_rows;                /* that fit a page of ranges, by the last one; 0: any */
    int64_t event_bytes;              /* of members' events, by the last ones; 0: not known */
    unsigned found_nothing;           /* so many fetches of members in a row */
    int64_t claim_rows;               /* that a claim asks for at most, by the last one; 0: any */
    hw_buf params;                    /* scratch for binary parameters */
    PGresult *import_rows;            /* the last import page */
    void *import_row_array;
    char import_schema[64]; /* of a table given without one, "" else */
    hw_note_fn note;
    void *note_ctx;
    char constraint[64]; /* the constraint that the last failed statement met, or "" */

    char *url;
    char *schema;
    char *application_name;
    int64_t connect_timeout_ms;
    int64_t statement_timeout_ms;
    int64_t lock_timeout_ms; /* 0: none */
    bool read_only;
    bool allow_lossy;
    const hw_interrupt *interrupt;
} hw_pg;

/* One statement with its parameters; values point at memory that lives until it was sent. */
typedef struct hw_pg_call {
    int statement;   /* hw_pg_statement, or -1: sql */
    const char *sql; /* a text for the simple protocol when there are no parameters */
    bool writes;     /* commits by itself: a lost connection leaves the outcome unknown */
    bool text_result;
    int n;
    Oid types[HW_PG_PARAMS_MAX]; /* for sql with parameters */
    const char *values[HW_PG_PARAMS_MAX];
    int lengths[HW_PG_PARAMS_MAX];
    int formats[HW_PG_PARAMS_MAX];
    uint64_t numbers[HW_PG_PARAMS_MAX]; /* where hw_pg_param_int8() and the like put theirs */
    int64_t timeout_ms;                 /* 0: the setting */
} hw_pg_call;

/* ---- conn.c: the session */

int hw_pg_connect(hw_pg *pg, howdah_error *reterr);
void hw_pg_disconnect(hw_pg *pg);
/* A session that is there, idle, and that nobody has hung up; connects if need be (I4, I5). */
int hw_pg_session(hw_pg *pg, howdah_error *reterr);
/* The session, and the schema checked once per connection. */
int hw_pg_ready(hw_pg *pg, howdah_error *reterr);

/* After a failure: a transaction that is still open ends with its session (I5). */
void hw_pg_abandon(hw_pg *pg);

/* ---- exec.c: statements; see there for deadlines */

int hw_pg_exec(hw_pg *pg, const hw_pg_call *call, PGresult **ret_result, howdah_error *reterr);
/* A text without parameters whose result does not matter. */
int hw_pg_command(hw_pg *pg, const char *sql, howdah_error *reterr);
/* As exec; a read that found the connection lost is repeated once on a new one. */
int hw_pg_query(hw_pg *pg, const hw_pg_call *call, PGresult **ret_result, howdah_error *reterr);

/* Sends without waiting; the answer is taken by hw_pg_collect(). */
int hw_pg_send(hw_pg *pg, const hw_pg_call *call, howdah_error *reterr);
/* As send, behind whatever is under way; answers are collected in the order of sending. */
int hw_pg_send_behind(hw_pg *pg, const hw_pg_call *call, howdah_error *reterr);
int hw_pg_collect(hw_pg *pg, const hw_pg_call *call, PGresult **ret_result, howdah_error *reterr);

/*
 * After an error: a pooler gave us another server connection, and our statements are not there.
 * True once: from then on statements travel with their text; nothing was done, repeat it.
 */
bool hw_pg_go_unprepared(hw_pg *pg, const howdah_error *err);

/* Prepares a statement on this connection, once. */
int hw_pg_prepare(hw_pg *pg, hw_pg_statement statement, howdah_error *reterr);

/*
 * Several statements, prepared before, in one round trip.  make fills the i-th call; results[i] is
 * set for those carried out.  The first error ends it.  The statements run in whatever transaction
 * is open, and are aborted together.
 */
int hw_pg_pipeline(hw_pg *pg, int (*make)(void *ctx, size_t i, hw_pg_call *call), void *ctx,
                   size_t n, PGresult **results, howdah_error *reterr);

/*
 * Two statements of ours in one round trip, a write and a read of what it has written.  Each is a
 * transaction of its own.  After an error results[0] is there if the write was carried out.  If it
 * is not, and the connection was lost, its outcome is unknown.
 */
int hw_pg_pair(hw_pg *pg, const hw_pg_call calls[2], PGresult *results[2], howdah_error *reterr);

/*
 * hw_pg_query() for what is read about the log: behind a pooler the same server that answers tells
 * which log it has (hw_pg_meet()), as two statements may go to two servers.
 */
int hw_pg_query_log(hw_pg *pg, const hw_pg_call *call, PGresult **ret_result, howdah_error *reterr);

/* ---- outcome.c: what a failure means for the caller */

/* Nobody knows whether it was stored (a lost COMMIT). */
void hw_pg_outcome_unknown(howdah_error *reterr);
/* The connection is gone: reported, and given up.  sent: a statement was on its way. */
int hw_pg_lost(hw_pg *pg, bool sent, bool writes, howdah_error *reterr);
/* Status, flags and advice for a failed result. */
int hw_pg_fail_result(hw_pg *pg, const PGresult *result, bool writes, howdah_error *reterr);

/* ---- errors.c */

/* The howdah_status of a SQLSTATE; the table is tested. */
int hw_pg_status_of(const char *sqlstate);
/* Advice for a SQLSTATE, "" when there is none. */
const char *hw_pg_advice_for(const char *sqlstate);

/* ---- params.c: binary parameters, written into pg->params */

typedef struct hw_pg_array {
    size_t start; /* offset of the array in the buffer */
    size_t null_flag;
    Oid element;
} hw_pg_array;

void hw_pg_array_begin(hw_buf *out, Oid element, size_t n, hw_pg_array *ret_array);
void hw_pg_array_put(hw_buf *out, const void *bytes, size_t len);
void hw_pg_array_put_null(hw_buf *out, const hw_pg_array *array);
void hw_pg_array_put_int4(hw_buf *out, int32_t value);
void hw_pg_array_put_int8(hw_buf *out, int64_t value);

/* Several arrays of one call, one after the other in a scratch buffer. */
typedef struct hw_pg_arrays {
    hw_buf *out;
    size_t start[HW_PG_PARAMS_MAX];
    int n;
} hw_pg_arrays;

void hw_pg_arrays_begin(hw_pg_arrays *arrays, Oid element, size_t n, hw_pg_array *ret_array);
/* NULL in the place of an array. */
void hw_pg_arrays_skip(hw_pg_arrays *arrays);
/* The next parameters of the call, when all arrays are there and the buffer has been checked. */
void hw_pg_param_arrays(hw_pg_call *call, const hw_pg_arrays *arrays);

/* Microseconds between 1970 and 2000: PostgreSQL counts from there. */
#define HW_PG_EPOCH_US INT64_C(946684800000000)

/* A text (or absent: NULL) and a fixed-size binary parameter. */
void hw_pg_param_str(hw_pg_call *call, hw_str value);
void hw_pg_param_bin(hw_pg_call *call, const void *bytes, size_t len);
void hw_pg_param_null(hw_pg_call *call);
/* Kept inside the call, which must stay where it is until it was sent. */
void hw_pg_param_int8(hw_pg_call *call, int64_t value);
void hw_pg_param_int4(hw_pg_call *call, int32_t value);
void hw_pg_param_bool(hw_pg_call *call, bool value);
void hw_pg_param_time(hw_pg_call *call, int64_t time_us); /* HW_TIME_ABSENT: NULL */
void hw_pg_param_uuid(hw_pg_call *call, bool has, const hw_uuid *uuid);

int64_t hw_pg_get_int8(const PGresult *result, int row, int column);
int64_t hw_pg_get_int8_or(const PGresult *result, int row, int column, int64_t otherwise);
int32_t hw_pg_get_int4(const PGresult *result, int row, int column);
bool hw_pg_get_bool(const PGresult *result, int row, int column); /* NULL: false */
hw_str hw_pg_get_str(const PGresult *result, int row, int column);
/* An array of int8, and how many there are; NULL has none.  False: something else is in it. */
bool hw_pg_get_int8s(const PGresult *result, int row, int column, const char **ret_array,
                     size_t *ret_n);
int64_t hw_pg_int8_at(const char *array, size_t i);
bool hw_pg_get_uuid(const PGresult *result, int row, int column, hw_uuid *ret_uuid);
/* Inside our years; HW_TIME_ABSENT for NULL. */
int64_t hw_pg_time(int64_t t); /* of the server's microseconds */
int64_t hw_pg_get_time(const PGresult *result, int row, int column);

/* ---- sql.c */

typedef struct hw_pg_statement_row {
    const char *sql;
    const Oid *types;
    int types_n;
} hw_pg_statement_row;

/* Those of subscriptions, sql_subscriptions.c; without a text: in sql.c. */
extern const hw_pg_statement_row hw_pg_sub_statements[HW_PG_STATEMENT_COUNT];
/* Those of the work queue, sql_queue.c; likewise. */
extern const hw_pg_statement_row hw_pg_queue_statements[HW_PG_STATEMENT_COUNT];
/* Those of the two times, sql_times.c; likewise. */
extern const hw_pg_statement_row hw_pg_times_statements[HW_PG_STATEMENT_COUNT];

/* Those of groups, sql_groups.c; likewise. */
extern const hw_pg_statement_row hw_pg_group_statements[HW_PG_STATEMENT_COUNT];
/* Those of the registry, registry.c; likewise. */
extern const hw_pg_statement_row hw_pg_registry_statements[HW_PG_STATEMENT_COUNT];

/* A query as its functions take it, $1 to $17, and the types of these. */
#define HW_PG_TIMES_QUERY_ROW                                                                      \
    "ROW($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)::@schema@"    \
    ".query"
#define HW_PG_TIMES_QUERY_TYPES                                                                    \
    HW_OID_TEXT, HW_OID_BOOL, HW_OID_TIMESTAMPTZ, HW_OID_TIMESTAMPTZ, HW_OID_TEXT, HW_OID_TEXT,    \
        HW_OID_TEXT, HW_OID_TEXT, HW_OID_UUID, HW_OID_UUID_ARRAY, HW_OID_TEXT_ARRAY,               \
        HW_OID_TEXT_ARRAY, HW_OID_TIMESTAMPTZ, HW_OID_TIMESTAMPTZ, HW_OID_TIMESTAMPTZ,             \
        HW_OID_TIMESTAMPTZ, HW_OID_INT8_ARRAY

/* Replaces @schema@ and the other marks; errors: NO_MEMORY. */
int hw_pg_fill_names(const char *text, const char *schema, hw_buf *out, howdah_error *reterr);
int hw_pg_fill_statements(hw_pg *pg, howdah_error *reterr);
/* Parameter types of a prepared statement; returns their number. */
int hw_pg_statement_types(hw_pg_statement statement, const Oid **ret_types);
/* "name" with quotes doubled, appended. */
void hw_pg_quote_ident(hw_buf *out, const char *name);

/* ---- known_versions.c: versions that this session knows to be stored */

bool hw_pg_is_known(hw_pg *pg, hw_str stream, int64_t version);
/* version is committed; on the caller's connection nothing is remembered. */
void hw_pg_know(hw_pg *pg, hw_str stream, int64_t version);
void hw_pg_know_nothing(hw_pg *pg);

/* ---- the operations */

int hw_pg_append(hw_store *store, const hw_batch *batch, const hw_import_place *mark,
                 howdah_position *ret_positions, hw_append_report *report, howdah_error *reterr);
int hw_pg_stream_versions(hw_store *store, const hw_str *streams, size_t n, int64_t *ret_versions,
                          howdah_error *reterr);
int hw_pg_read_open(hw_store *store, const hw_query *query, hw_cursor **ret_cursor,
                    howdah_error *reterr);
int hw_pg_read_next(hw_cursor *cursor, const howdah_event **ret_events, size_t *ret_n,
                    howdah_error *reterr);
void hw_pg_read_close(hw_cursor *cursor);
/* Takes the pages in flight in, so that the connection is free (I4). */
void hw_pg_drain_reply(hw_pg *pg);
/* As hw_pg_exec(), but pages in flight stay there, and get another one. */
int hw_pg_exec_behind(hw_pg *pg, const hw_pg_call *call, PGresult **ret_result,
                      howdah_error *reterr);
/* Gives the pages in flight up: their connection is gone, their cursor will ask again. */
void hw_pg_forget(hw_pg *pg);
/* The columns of an event, the first of them given; texts point into the result. */
void hw_pg_decode_event(const PGresult *r, int row, int column, howdah_event *e);
int hw_pg_tree(hw_store *store, const hw_uuid *id, hw_uuid **ret_ids, int **ret_depths,
               size_t *ret_n, howdah_error *reterr);
int hw_pg_head(hw_store *store, int64_t *ret_head, howdah_error *reterr);
int hw_pg_first_since(hw_store *store, int64_t time_us, int64_t *ret_sequence,
                      howdah_error *reterr);
int hw_pg_migrate(hw_store *store, hw_note_fn note, void *note_ctx, howdah_error *reterr);
int hw_pg_migrate_status(hw_store *store, hw_step_fn fn, void *ctx, howdah_error *reterr);
int hw_pg_check_schema(hw_pg *pg, howdah_error *reterr);
/* Before an append: SCHEMA when it would get a number that is done already, see schema.c I5. */
int hw_pg_check_sequence(hw_pg *pg, howdah_error *reterr);
int hw_pg_import_columns(hw_store *store, hw_import_source *source,
                         int (*fn)(void *ctx, const char *column), void *ctx, howdah_error *reterr);
int hw_pg_import_place(hw_store *store, hw_str source, hw_buf *ret_buf, hw_import_place *ret_place,
                       howdah_error *reterr);
int hw_pg_import_rows(hw_store *store, const hw_import_source *source, const hw_import_place *after,
                      size_t n, const hw_import_row **ret_rows, size_t *ret_n,
                      howdah_error *reterr);
int hw_pg_import_total(hw_store *store, const hw_import_source *source, int64_t *ret_total,
                       howdah_error *reterr);
int hw_pg_numbers(hw_store *store, hw_finding_fn fn, void *ctx, howdah_error *reterr);
int hw_pg_status(hw_store *store, hw_fact_fn fn, void *ctx, howdah_error *reterr);
int hw_pg_doctor(hw_store *store, hw_finding_fn fn, void *ctx, howdah_error *reterr);

/* ---- subscriptions.c, checkpoint.c, dead_letters.c, hole_evidence.c, handler_tx.c, bell.c: see
 * subscriptions.h */

extern const hw_sub_ops hw_pg_sub_ops;

int hw_pg_checkpoint(hw_store *store, const hw_checkpoint *checkpoints, size_t n, int64_t lease_ms,
                     hw_sub_news *ret_news, howdah_error *reterr);
int hw_pg_poll(hw_store *store, const hw_checkpoint *subs, size_t n, int64_t lease_ms,
               hw_sub_news *ret_news, howdah_error *reterr);
hw_sub_status hw_pg_sub_status_of(hw_str name);
hw_str hw_pg_sub_status_name(hw_sub_status status);
/* Ranges as one array: first, last, first, last ... */
void hw_pg_put_outstanding(hw_buf *out, const hw_range *outstanding, size_t n);
/* The parameters of SUB_MOVE, $1 to $9, with which other statements begin, too.  The ranges are
   written to out, which has to live until the call was sent. */
int hw_pg_param_checkpoint(hw_pg *pg, hw_pg_call *call, const hw_checkpoint *checkpoint,
                           hw_buf *out, howdah_error *reterr);
/* Ready, and the log known. */
int hw_pg_ready_to_move(hw_pg *pg, howdah_error *reterr);
/* An answer came from this log, which has given out so many numbers.  If it is another than the
   one before, or has gone back, the session counts as a new one. */
void hw_pg_meet(hw_pg *pg, hw_str log, int64_t drawn);
/* $1 to $3 of what an owner asks for: its hold. */
void hw_pg_param_hold(hw_pg_call *call, const hw_hold *hold);
/* Why a checkpoint was not stored: LOST, or MISUSE when it would have gone back. */
int hw_pg_why_not_moved(hw_pg *pg, const hw_checkpoint *checkpoint, howdah_error *reterr);

/* A statement without parameters that answers with one number. */
int hw_pg_query_int8(hw_pg *pg, hw_pg_statement statement, int64_t *ret_value,
                     howdah_error *reterr);
int hw_pg_holders(hw_store *store, int64_t *ret_drawn, hw_holder **ret_holders, size_t *ret_n,
                  howdah_error *reterr);
int hw_pg_proven(hw_store *store, int64_t *ret_upto, hw_ranges *ret_holes, howdah_error *reterr);
int hw_pg_store_proven(hw_store *store, hw_str log, const hw_anchor *top, int64_t upto,
                       const hw_ranges *holes, howdah_error *reterr);
/* Ranges in an array, ascending and disjoint up to a number; freed with hw_free().  CORRUPT. */
int hw_pg_get_ranges(const PGresult *r, int row, int column, int64_t upto, hw_range **ret_ranges,
                     size_t *ret_n, howdah_error *reterr);
int hw_pg_gaps(hw_store *store, int64_t first, int64_t last, hw_range_fn fn, void *ctx,
               howdah_error *reterr);
int hw_pg_blockers(hw_store *store, hw_blocker_fn fn, void *ctx, howdah_error *reterr);
int hw_pg_timeline(hw_store *store, char ret_text[HW_TIMELINE_SIZE], howdah_error *reterr);
int hw_pg_verify(hw_store *store, const hw_anchor *anchor, int64_t high, howdah_error *reterr);
int hw_pg_confirm(hw_store *store, const hw_anchor *top, howdah_error *reterr);

int hw_pg_dead_letter(hw_store *store, const hw_checkpoint *checkpoint, const howdah_event *event,
                      hw_str error, int64_t attempts, int64_t *ret_id, howdah_error *reterr);
int hw_pg_dead_letters(hw_store *store, const hw_dead_letter_query *query, hw_dead_letter_fn fn,
                       void *ctx, howdah_error *reterr);
int hw_pg_dead_letters_set_state(hw_store *store, const int64_t *ids, size_t n,
                                 hw_str subscriber_id, hw_dead_letter_state state, hw_str reason,
                                 int64_t *ret_n, howdah_error *reterr);
int hw_pg_redrive_end(hw_store *store, const hw_hold *hold, int64_t id, hw_dead_letter_state state,
                      hw_str error, howdah_error *reterr);
int hw_pg_skip(hw_store *store, const hw_checkpoint *checkpoint, hw_range range, int64_t age_ms,
               hw_str reason, howdah_error *reterr);
int hw_pg_skips(hw_store *store, hw_str subscriber_id, bool resolved, hw_skip_fn fn, void *ctx,
                howdah_error *reterr);
int hw_pg_skip_resolve(hw_store *store, int64_t id, hw_str resolution, howdah_error *reterr);

int hw_pg_begin(hw_store *store, hw_str log, howdah_error *reterr);
/* The end of a handler's transaction, for what goes in last: whether it is still open, our own use
   of the connection, and its commit (s >= 0) or rollback. */
int hw_pg_tx_check(hw_pg *pg, howdah_error *reterr);
void hw_pg_tx_leave(hw_pg *pg);
int hw_pg_tx_end(hw_pg *pg, int s, howdah_error *reterr);
void *hw_pg_handle(hw_store *store);
int hw_pg_commit(hw_store *store, const hw_checkpoint *checkpoint, howdah_error *reterr);
void hw_pg_rollback(hw_store *store);

int hw_pg_session_number(hw_store *store, uint64_t *ret_session, howdah_error *reterr);
int hw_pg_listen(hw_store *store, bool general, const hw_str *types, size_t types_n,
                 howdah_error *reterr);
int hw_pg_arm(hw_store *store, howdah_error *reterr);
int hw_pg_ring(hw_store *store, const hw_str *types, size_t types_n, howdah_error *reterr);
int hw_pg_wait(hw_store *store, int64_t ms, howdah_error *reterr);
int hw_pg_fd(hw_store *store);
void hw_pg_bell_init(hw_pg *pg);
void hw_pg_bell_done(hw_pg *pg);
/* The connection is gone: nothing is listened to, nothing under way. */
void hw_pg_bell_forget(hw_pg *pg);
/* Takes what has been notified; after every statement of a session that listens. */
void hw_pg_bell_hear(hw_pg *pg);
/* Takes the answer of a ring that was sent without waiting. */
void hw_pg_bell_drain_reply(hw_pg *pg);
/* After an append, committed or in the caller's transaction: rings, if the mark says that somebody
   sleeps for one of its types. */
void hw_pg_bell_after(hw_pg *pg, int64_t mark, const howdah_event *const *events, size_t n);
/* Wakes those who own or wait for a subscription; in the session's next transaction of its own. */
int hw_pg_bell_call(hw_pg *pg, howdah_error *reterr);

/* ---- queue_push.c, queue_exchange.c: see queue.h */

int hw_pg_push(hw_store *store, hw_str queue, const hw_push *jobs, size_t n,
               howdah_pushed *ret_pushed, howdah_error *reterr);
int hw_pg_exchange(hw_store *store, const hw_ack *acks, size_t n, howdah_ack_outcome *ret_acked,
                   const hw_claim *claim, hw_job_fn fn, void *ctx, hw_claim_report *ret_report,
                   howdah_error *reterr);

/* ---- queue_admin.c */

extern const hw_queue_ops hw_pg_queue_ops;

/* ---- registry.c */

extern const hw_registry_ops hw_pg_registry_ops;

/* ---- groups.c */

int hw_pg_group_release(hw_store *store, const hw_batch_ref *batch, howdah_error *reterr);

/* ---- group_fetch.c */

int hw_pg_group_fetch(hw_store *store, const hw_group_take *take, hw_group_batch *ret_batch,
                      hw_group_outlook *ret_outlook, howdah_error *reterr);

extern const hw_group_ops hw_pg_group_ops;
extern const hw_reserve_ops hw_pg_reserve_ops;
/* How large a row may be when n are asked for. */
int32_t hw_pg_batch_cap(int64_t n);
/* The rows become a batch, which owns them.  END: one of them came without its payload, because it
   is too large. */
int hw_pg_batch_of(PGresult *rows, hw_group_batch *ret_batch, howdah_error *reterr);

/* ---- queue_read.c, queue_verify.c: see queue.h */

int hw_pg_no_such_queue(hw_str queue, howdah_error *reterr);
int hw_pg_no_such_job(int64_t id, howdah_error *reterr);

/* What a job was pushed with: every statement that gives jobs lists these columns in this order. */
enum hw_pg_pushed_column {
    HW_PG_PUSHED_KEY,
    HW_PG_PUSHED_DEDUP,
    HW_PG_PUSHED_CORRELATION_ID,
    HW_PG_PUSHED_CAUSATION_ID,
    HW_PG_PUSHED_EVENT_SEQUENCE,
    HW_PG_PUSHED_CONTENT_TYPE,
    HW_PG_PUSHED_HEADERS,
    HW_PG_PUSHED_DATA,
    HW_PG_PUSHED_BYTES,
    HW_PG_PUSHED_N
};

/* From the column "first" on; the stream of its event comes after the event's type. */
void hw_pg_get_pushed(const PGresult *r, int row, int first, int event_type, howdah_job *job);
int hw_pg_queue_load(hw_store *store, hw_str queue, hw_queue_fn fn, void *ctx,
                     howdah_error *reterr);
int hw_pg_queue_list(hw_store *store, hw_queue_fn fn, void *ctx, howdah_error *reterr);
int hw_pg_queue_summary(hw_store *store, hw_queue_fn fn, void *ctx, howdah_error *reterr);
int hw_pg_job_load(hw_store *store, int64_t id, hw_job_fn fn, void *ctx, howdah_error *reterr);
int hw_pg_queue_log(hw_store *store, hw_str queue, const howdah_queue_history_options *options,
                    hw_job_fn fn, void *ctx, howdah_error *reterr);
int hw_pg_queue_verify(hw_store *store, hw_wrong_fn fn, void *ctx, howdah_error *reterr);

/* ---- queue_dead_letters.c: those of jobs */

/* The query's page after an id, of at most limit. */
void hw_pg_call_of_job_dead_letters(const hw_dead_letter_query *query, int64_t after, int64_t limit,
                                    int32_t cap, hw_pg_call *ret_call);
/* A row of it, whose first column is the dead letter's id. */
int hw_pg_hand_job_dead_letter(const PGresult *r, int row, hw_dead_letter_fn fn, void *ctx);
hw_dead_letter_state hw_pg_dead_letter_state(hw_str name);
/* "" for NULL. */
const char *hw_pg_text(const PGresult *r, int row, int column);
int hw_pg_job_dead_letters_set_state(hw_store *store, hw_str queue, hw_dead_letter_state state,
                                     hw_str reason, int64_t *ret_n, howdah_error *reterr);

/* ---- bindings.c */

int hw_pg_queue_bind(hw_store *store, const hw_binding *binding, int64_t high,
                     const hw_range *outstanding, size_t outstanding_n, bool *ret_made,
                     howdah_error *reterr);
int hw_pg_queue_unbind(hw_store *store, hw_str queue, hw_str pattern, howdah_error *reterr);
int hw_pg_queue_bindings(hw_store *store, hw_str queue, hw_binding_fn fn, void *ctx,
                         howdah_error *reterr);
int hw_pg_route(hw_store *store, const hw_checkpoint *checkpoint, hw_str queue,
                howdah_binding_key key, const int64_t *sequences, size_t n, howdah_error *reterr);

/* ---- queue_floors.c: where a claim starts, so that it does not walk what is gone */

typedef struct hw_pg_floor {
    int32_t level;
    int64_t due_us;
    int64_t id;
} hw_pg_floor;

/* The last job that a claim took of a level, and what its transaction saw. */
typedef struct hw_pg_passed {
    int32_t level;
    int64_t due_us;
    int64_t id;
    int64_t xid;
    int64_t horizon;
    int64_t begun_at_us;
} hw_pg_passed;

#define HW_PG_FLOORS_MAX 32 /* levels of one queue */

/* Floors of the queue to start after, by level; none: the whole queue is to be walked now. */
size_t hw_pg_floors_get(hw_pg *pg, hw_str name, hw_pg_floor ret_floors[HW_PG_FLOORS_MAX]);
void hw_pg_floors_pass(hw_pg *pg, hw_str name, const hw_pg_passed *passed);
/* Whether floors wait for a transaction that stays open; the oldest that may still push. */
bool hw_pg_floors_are_stuck(hw_pg *pg, hw_str name);
void hw_pg_floors_rise(hw_pg *pg, hw_str name, int64_t horizon, int64_t took_us);
/* A whole walk took so long: the next one has to wait accordingly. */
void hw_pg_floors_walked(hw_pg *pg, hw_str name, int64_t took_us);
/* Whether a claim that came back short with floors should walk the whole queue at once. */
bool hw_pg_floors_may_walk(hw_pg *pg, hw_str name);
/* True about once a second: a claim also gives leases back that ran out. */
bool hw_pg_floors_may_tidy(hw_pg *pg, hw_str name);
void hw_pg_floors_tidied(hw_pg *pg, hw_str name, int64_t took_us);
/* True some times a second: a claim also looks for priorities that it has no floor for. */
bool hw_pg_floors_may_look(hw_pg *pg, hw_str name);
void hw_pg_floors_looked(hw_pg *pg, hw_str name);
/* Whether to ask when the next lease ends; what was found (-1: there is none); what is known. */
bool hw_pg_floors_may_see_leases(hw_pg *pg, hw_str name);
void hw_pg_floors_saw_leases(hw_pg *pg, hw_str name, int64_t ends_in_ms, int64_t took_us);
int64_t hw_pg_floors_lease_ms(hw_pg *pg, hw_str name);
/* The only floor of a queue that exchange_one() may know; and that it does not, for a second. */
bool hw_pg_floors_one(hw_pg *pg, hw_str name, hw_pg_floor *ret_floor);
void hw_pg_floors_are_not_for_one(hw_pg *pg, hw_str name);
void hw_pg_floors_forget(hw_pg *pg);

/* ---- times.c, times_verify.c, query.c, snapshots.c, purge.c: see times.h */

extern const hw_times_ops hw_pg_times_ops;

int hw_pg_query_open(hw_store *store, const hw_times_query *query, hw_cursor **ret_cursor,
                     howdah_error *reterr);

/* A query that a cursor of read.c goes through, page by page. */
typedef struct hw_pg_times_query hw_pg_times_query;

/* Copies the query, and what it points at. */
int hw_pg_times_query_new(const hw_times_query *query, hw_pg_times_query **ret_query,
                          howdah_error *reterr);
void hw_pg_times_query_free(hw_pg_times_query *query);
/* times.h I6: all pages are of the log as it is now, whatever is stored before the last of them. */
int hw_pg_times_query_pin(hw_pg_times_query *query, hw_store *store, howdah_error *reterr);
/* The parameters that every statement about a query begins with. */
void hw_pg_param_query(hw_pg_call *call, const hw_pg_times_query *query);
/* Whether the next page can be asked for without asking for its keys first. */
bool hw_pg_times_query_has_page(const hw_pg_times_query *query);
/* Asks for keys, if the next page needs some; HOWDAH_END: there are none. */
int hw_pg_times_query_find(hw_pg_times_query *query, hw_pg *pg, int64_t left, howdah_error *reterr);
/* The next page of at most rows; returns how many it asks for. */
size_t hw_pg_times_query_call(hw_pg_times_query *query, bool direct, size_t rows, hw_pg_call *call);
/* The page has come, n rows up to last; true: it was the last one. */
bool hw_pg_times_query_advance(hw_pg_times_query *query, size_t asked, size_t n, int64_t last);

int hw_pg_snapshot_put(hw_store *store, const howdah_snapshot *snapshot, int64_t keep,
                       howdah_error *reterr);
int hw_pg_snapshot_get(hw_store *store, hw_str stream, int64_t version, hw_snapshot_fn fn,
                       void *ctx, howdah_error *reterr);
int hw_pg_snapshot_list(hw_store *store, hw_str stream, hw_snapshot_fn fn, void *ctx,
                        howdah_error *reterr);
int hw_pg_snapshot_remove(hw_store *store, hw_str stream, int64_t upto, int64_t *ret_removed,
                          howdah_error *reterr);
int hw_pg_purge(hw_store *store, const hw_purge *purge, howdah_purge_record *ret_record,
                howdah_error *reterr);
int hw_pg_purges(hw_store *store, hw_purge_fn fn, void *ctx, howdah_error *reterr);
int hw_pg_times_verify(hw_store *store, hw_flaw_fn fn, void *ctx, howdah_error *reterr);

/* ---- queue_exchange_one.c: one job is done, the next one please */

typedef enum hw_pg_one {
    HW_PG_ONE_NOTHING, /* not a case for it: nothing was done */
    HW_PG_ONE_ACKED,   /* the job is completed, the next one is not for it to claim, */
    HW_PG_ONE_EMPTY,   /* or there is none on this level, */
    HW_PG_ONE_CLAIMED, /* or it was handed over */
} hw_pg_one;

/*
 * Only for a job that is COMPLETED with nothing to say, and for the claim of one.  look: it is not
 * for it to claim if something more urgent is due.
 */
int hw_pg_exchange_one(hw_pg *pg, const hw_ack *ack, const hw_claim *claim,
                       const hw_pg_floor *floor, bool look, hw_job_fn fn, void *ctx,
                       hw_claim_report *report, hw_pg_one *ret_done, howdah_error *reterr);

/* A store over the caller's connection, for howdah_pg.h. */
int hw_pg_wrap(PGconn *conn, const char *schema, hw_store **ret_store, howdah_error *reterr);

#endif
