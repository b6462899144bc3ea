/*
 * sqlite.h - the inside of the SQLite store, shared by its files and nobody else.
 *
 *   I1  A connection belongs to one store.  It is opened late: before the file exists there is
 *       none, and only migrate creates the file.
 *   I2  Between two operations no statement is running and no transaction is open, except the
 *       caller's own on a borrowed handle, and a handler's (handler_tx.c).
 *   I3  wal_autocheckpoint is off on every connection of ours; the log is emptied only by
 *       checkpoint(TRUNCATE), which keeps writers out (see conn.c).
 *   I4  On a borrowed handle (hw_sqlite_wrap) nothing is configured: no pragma, no handler.
 */
#ifndef HW_STORE_SQLITE_SQLITE_H
#define HW_STORE_SQLITE_SQLITE_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/error.h"
#include "store/migrations.h"
#include "store/sqlite/columns.h"
#include "store/store.h"

/* Places for prepared statements that stay with the connection. */
typedef enum hw_sqlite_slot {
    HW_SLOT_BEGIN,
    HW_SLOT_COMMIT,
    HW_SLOT_ROLLBACK,
    HW_SLOT_SAVEPOINT,
    HW_SLOT_RELEASE,
    HW_SLOT_ROLLBACK_TO,
    HW_SLOT_COOKIE,
    HW_SLOT_LAST_RECORDED,
    HW_SLOT_STREAM_VERSION,
    HW_SLOT_INSERT_ONE,
    HW_SLOT_INSERT_MANY,
    HW_SLOT_INSERT_CORRECTION,
    HW_SLOT_FIND_ID,
    HW_SLOT_IMPORT_PLACE,
    HW_SLOT_HEAD,
    HW_SLOT_FIRST_SINCE,
    HW_SLOT_ID_AT,
    HW_SLOT_SUB_LOOK,
    HW_SLOT_SUB_CHECKPOINT,
    HW_SLOT_SUB_RENEW,
    HW_SLOT_BEGIN_READ,
    HW_SLOT_PAYLOAD,
    HW_SLOT_NEXT_TYPE,
    HW_SLOT_OF_TYPE,
    HW_SLOT_OF_TYPE_BACK,
    HW_SLOT_QUEUE_BY_NAME,
    HW_SLOT_QUEUE_BY_ID,
    HW_SLOT_COUNTER,
    HW_SLOT_LAST_JOB,
    HW_SLOT_LAST_PUSH,
    HW_SLOT_JOB_INSERT,
    HW_SLOT_JOB_DATA_INSERT,
    HW_SLOT_JOB_DEDUP,
    HW_SLOT_JOB_LOOK,
    HW_SLOT_JOB_LOG,
    HW_SLOT_JOB_DELETE,
    HW_SLOT_JOB_READY,
    HW_SLOT_JOB_EXTEND,
    HW_SLOT_JOB_CLAIM,
    HW_SLOT_JOB_LEVEL,
    HW_SLOT_JOB_DUE,
    HW_SLOT_JOB_LEASES,
    HW_SLOT_JOB_COUNT,
    HW_SLOT_JOB_EXPIRED,
    HW_SLOT_JOB_PURGED,
    HW_SLOT_KEY_LOOK,
    HW_SLOT_KEY_ASIDE,
    HW_SLOT_ROUTE_DATA,
    HW_SLOT_ROUTE,
    HW_SLOT_GROUP,
    HW_SLOT_GROUP_PLACE,
    HW_SLOT_GROUP_NEXT,
    HW_SLOT_GROUP_NEXT_OF_TYPE,
    HW_SLOT_GROUP_EVENT,
    HW_SLOT_GROUP_OUTLOOK,
    HW_SLOT_LOT_LAST,
    HW_SLOT_LOT_INSERT,
    HW_SLOT_LOT_STORE,
    HW_SLOT_LOT_STORE_LIST,
    HW_SLOT_LOT_DELETE,
    HW_SLOT_READ, /* the first of fourteen: seven ways, forward and backward (read.c) */
    HW_SLOT_COUNT = HW_SLOT_READ + 14
} hw_sqlite_slot;

/* What an operation is going to do with the connection. */
typedef enum hw_sqlite_need { HW_NEED_READ, HW_NEED_WRITE, HW_NEED_CREATE } hw_sqlite_need;

struct hw_sqlite_rows;    /* import.c: rows read ahead */
struct hw_sqlite_bell;    /* bell.c: what watches the file */
struct hw_sqlite_writers; /* writers.c: the line of writers */

/* What tells that a file was written. */
typedef struct hw_sqlite_state {
    uint64_t inode; /* 0: it is not there */
    int64_t size;
    int64_t changed_s;
    int64_t changed_ns;
} hw_sqlite_state;

/* Statements that are kept for the next question of the same shape. */
#define HW_SELECTS_KEPT 4

typedef struct hw_sqlite {
    hw_store base;
    char *name;      /* as the user wrote it, for messages */
    char *path;      /* absolute; NULL for a memory store and a borrowed handle */
    char *directory; /* of the path */
    bool read_only;
    bool borrowed; /* the handle is the caller's */
    bool frozen;   /* opened as a file that nobody writes (read_only_file.c), */
    hw_sqlite_state as_opened;
    const hw_interrupt *interrupt;
    int64_t busy_timeout_ms;
    int64_t statement_timeout_ms;

    sqlite3 *db; /* NULL: not open */
    sqlite3_stmt *slots[HW_SLOT_COUNT];
    sqlite3_stmt
        *asked[HW_SELECTS_KEPT]; /* of questions over two times that are over, newest first */
    bool sick;             /* an error that a new connection may mend: reopen before the next use */
    bool schema_known;     /* the schema was good when the cookie was this: */
    int64_t schema_cookie; /* PRAGMA schema_version */
    bool writing;          /* inside a write transaction: not to be cancelled by time */
    bool savepoint;        /* that transaction is a savepoint in the caller's */
    bool timed_out;        /* the deadline ended the statement */
    int64_t deadline_ms;   /* of the running operation, monotonic */
    int64_t busy_since_ms; /* when the present wait for a lock began */
    int64_t in_line_since_ms; /* when BEGIN was asked for; 0: it is not being */
    bool checkpointing;       /* a wait now is a checkpoint's: keep it as short as this: */
    int64_t checkpoint_wait_ms;
    bool checkpoint_tried;       /* by this connection */
    bool impatient;              /* no wait at all: a lock that is not free is the answer */
    int wal_pages;               /* in the write-ahead log after our last commit */
    int checkpoint_at;           /* pages at which to try the next checkpoint */
    int checkpoint_spacing;      /* grows while readers are in the way */
    bool in_wal_mode;            /* known since a commit of ours went to the write-ahead log */
    bool unsynced;               /* synchronous is NORMAL now (conn.c, I5) */
    uint64_t session;            /* connections opened so far */
    char log[HW_TIMELINE_SIZE];  /* which one the open file is, "" before it was asked for */
    char boot[HW_BOOT_TEXT + 1]; /* the present one, "" before it was asked for */

    struct hw_sqlite_rows *import;
    struct hw_sqlite_bell *bell;       /* NULL: nobody listens */
    struct hw_sqlite_writers *writers; /* NULL: before the first write */
} hw_sqlite;

/*
 * A store over the caller's handle.  Appends work in a savepoint when a transaction is open, else
 * in a transaction of their own.  Closing the store leaves the handle open.  Nothing is configured
 * on it (I4); statements are prepared anew for each wrap.
 */
int hw_sqlite_wrap(sqlite3 *db, hw_store **ret_store, howdah_error *reterr);

/* ---- conn.c */

/* Makes the connection fit for use: opens or reopens it, starts the operation's deadline. */
int hw_sqlite_ready(hw_sqlite *store, hw_sqlite_need need, howdah_error *reterr);
/* Opens the file if it is there; HOWDAH_OK also when it is not (I1). */
int hw_sqlite_connect(hw_sqlite *store, bool create, howdah_error *reterr);
/* Finalizes the statements; closes the handle unless it is borrowed. */
void hw_sqlite_disconnect(hw_sqlite *store);

/* The one place that turns an SQLite result code into a status. */
int hw_sqlite_fail(hw_sqlite *store, int rc, const char *doing, howdah_error *reterr);

/* A statement of the cache, reset.  sql must be the same text for a slot every time. */
int hw_sqlite_stmt(hw_sqlite *store, hw_sqlite_slot slot, const char *sql, sqlite3_stmt **ret_stmt,
                   howdah_error *reterr);
/* HOWDAH_OK: a row.  HOWDAH_END: no more; the statement is reset.  Errors reset it as well. */
int hw_sqlite_step(hw_sqlite *store, sqlite3_stmt *stmt, const char *doing, howdah_error *reterr);
/* The first column of the first row, or otherwise when there is no row or it is NULL. */
int hw_sqlite_number(hw_sqlite *store, const char *sql, int64_t otherwise, int64_t *ret_value,
                     howdah_error *reterr);
int hw_sqlite_exec(hw_sqlite *store, const char *sql, const char *doing, howdah_error *reterr);

/* Where sorts and queues of statements go that may grow without bound; not in a transaction. */
void hw_sqlite_temp_in_file(hw_sqlite *store, bool in_file);

/* A write transaction, or a savepoint in the caller's. */
int hw_sqlite_begin(hw_sqlite *store, howdah_error *reterr);
/* One whose commit does not wait for the disk where that is safe (conn.c, I5). */
int hw_sqlite_begin_unsynced(hw_sqlite *store, howdah_error *reterr);
/* Ends it either way: on failure it is rolled back, or OUTCOME_UNKNOWN is set. */
int hw_sqlite_commit(hw_sqlite *store, howdah_error *reterr);
void hw_sqlite_rollback(hw_sqlite *store);

/* Statements between the two see the log as it was at one moment. */
int hw_sqlite_begin_read(hw_sqlite *store, howdah_error *reterr);
void hw_sqlite_end_read(hw_sqlite *store);
/* Between two of them: INTERRUPTED, or a new deadline. */
int hw_sqlite_go_on(hw_sqlite *store, howdah_error *reterr);

/* Connection and schema are good for an operation that reads. */
int hw_sqlite_ready_to_read(hw_sqlite *store, howdah_error *reterr);
/* Begins what moves a subscription: connection, write lock, schema. */
int hw_sqlite_enter(hw_sqlite *store, bool synced, howdah_error *reterr);
/* Ends it: commits when s is not negative, else rolls back.  The status of all. */
int hw_sqlite_leave(hw_sqlite *store, int s, howdah_error *reterr);

/* Empties the write-ahead log now, if nobody is in the way; not a caller's. */
void hw_sqlite_empty_log(hw_sqlite *store);

/* A statement for once; finalize it. */
int hw_sqlite_prepare(hw_sqlite *store, const char *sql, sqlite3_stmt **ret_stmt,
                      howdah_error *reterr);
/* Runs a statement that gives no rows, and finalizes it. */
int hw_sqlite_finish(hw_sqlite *store, sqlite3_stmt *stmt, const char *doing, howdah_error *reterr);

/* HOWDAH_INTERRUPTED when the bus is. */
int hw_sqlite_check_interrupt(hw_sqlite *store, howdah_error *reterr);

/* True when this SQLite can lose the log of concurrent checkpointers (the WAL-reset bug). */
bool hw_sqlite_has_wal_reset_bug(int version_number);

static inline void hw_sqlite_bind_str(sqlite3_stmt *stmt, int index, hw_str text)
{
    if (text.s)
        (void)sqlite3_bind_text64(stmt, index, text.s, text.len, SQLITE_STATIC, SQLITE_UTF8);
    else
        (void)sqlite3_bind_null(stmt, index);
}

static inline void hw_sqlite_bind_uuid(sqlite3_stmt *stmt, int index, const hw_uuid *uuid)
{
    (void)sqlite3_bind_blob(stmt, index, uuid->b, sizeof uuid->b, SQLITE_STATIC);
}

/* A column's time; NULL is no time. */
static inline int64_t hw_sqlite_time(sqlite3_stmt *stmt, int column)
{
    return sqlite3_column_type(stmt, column) == SQLITE_NULL ? HW_TIME_ABSENT
                                                            : sqlite3_column_int64(stmt, column);
}

/* A column's text, the statement's until its next step; absent for NULL and without memory. */
static inline hw_str hw_sqlite_borrow(sqlite3_stmt *stmt, int column)
{
    const char *text = (const char *)sqlite3_column_text(stmt, column);

    return text ? (hw_str){text, (size_t)sqlite3_column_bytes(stmt, column)} : HW_STR_NULL;
}

/* A value of a statement. */
typedef struct hw_sqlite_value {
    hw_str bytes; /* absent: the number */
    bool is_blob;
    int64_t number;
} hw_sqlite_value;

/* ---- buffered_rows.c: rows that were read, apart from the statement that read them */

#define HW_SQLITE_HELD_ROWS 256 /* to ask for at once */
#define HW_SQLITE_WALK_KEYS 2

struct hw_sqlite_row;

/* Zeroed it is empty. */
typedef struct hw_sqlite_held {
    sqlite3_stmt *carrier; /* what a held row is handed over in */
    struct hw_sqlite_row *rows;
    int columns;
    size_t n;
    size_t at;  /* the next to hand over */
    bool cut;   /* there may be more of the statement */
    bool whole; /* set before: all of it, however much that is */
} hw_sqlite_held;

/* Reads the statement, all of it or a page full, and resets it. */
int hw_sqlite_hold(hw_sqlite_held *held, hw_sqlite *store, sqlite3_stmt *stmt, const char *doing,
                   howdah_error *reterr);
/* *ret_row is on the next row, until the next call.  HOWDAH_END: all were handed over. */
int hw_sqlite_held_next(hw_sqlite_held *held, hw_sqlite *store, sqlite3_stmt **ret_row,
                        howdah_error *reterr);
void hw_sqlite_held_done(hw_sqlite_held *held);

/* A walk over rows in the order of a key, page by page. */
typedef struct hw_sqlite_walk {
    const char *sql;
    const char *doing;
    int keys;
    int key_column[HW_SQLITE_WALK_KEYS];
    int key_param[HW_SQLITE_WALK_KEYS];         /* what a page begins after, */
    hw_sqlite_value first[HW_SQLITE_WALK_KEYS]; /* and the first one */
    int limit_param;
    int64_t limit;                               /* 0: all rows */
    void (*bind)(void *ctx, sqlite3_stmt *stmt); /* other parameters; may be NULL */
    /* A row; the statement is not to be stepped. */
    int (*row)(void *ctx, sqlite3_stmt *row, bool *ret_stop, howdah_error *reterr);
    void *ctx;
} hw_sqlite_walk;

int hw_sqlite_walk_rows(hw_sqlite *store, const hw_sqlite_walk *walk, howdah_error *reterr);

/* ---- read_only_file.c */

/* Whether it can only be read as a file that nobody writes; remembers how it is. */
bool hw_sqlite_is_frozen(hw_sqlite *store);
/* It was opened so, and somebody has written it since. */
bool hw_sqlite_has_thawed(const hw_sqlite *store);
void hw_sqlite_put_frozen_uri(hw_buf *out, const char *path);
/* Says why a file that may be read cannot be, if that is so; else leaves the error as it is. */
int hw_sqlite_explain_unread(const hw_sqlite *store, int s, howdah_error *reterr);

/* ---- writers.c */

/* Draws a number, and waits until it is next or those in front do not get on.  Cannot fail. */
void hw_sqlite_writers_enter(hw_sqlite *store);
/* After the end of the transaction; without a number in hand nothing happens. */
void hw_sqlite_writers_leave(hw_sqlite *store);

void hw_sqlite_writers_close(hw_sqlite *store);

/* ---- schema.c */

/* HOWDAH_SCHEMA unless every step of this library, and no other, is applied.  Cached. */
int hw_sqlite_check_schema(hw_sqlite *store, howdah_error *reterr);
/* How many steps are applied; 0 without a schema. */
int hw_sqlite_schema_version(hw_sqlite *store, int64_t *ret_version, howdah_error *reterr);
int hw_sqlite_migrate(hw_store *base, hw_note_fn note, void *note_ctx, howdah_error *reterr);
int hw_sqlite_migrate_status(hw_store *base, hw_step_fn fn, void *ctx, howdah_error *reterr);

/* ---- append.c */

int hw_sqlite_append(hw_store *base, const hw_batch *batch, const hw_import_place *mark,
                     howdah_position *ret_positions, hw_append_report *report,
                     howdah_error *reterr);
int hw_sqlite_stream_versions(hw_store *base, const hw_str *streams, size_t n,
                              int64_t *ret_versions, howdah_error *reterr);

/* ---- page.c: rows of the log as events */

/* Events in hand.  Zeroed, but for the first two, it is empty. */
typedef struct hw_sqlite_page {
    hw_sqlite *store;
    size_t most; /* events that it is to hold */
    howdah_event *events;
    size_t events_room; /* grows up to most */
    size_t n;
    char *block; /* their strings */
    size_t block_used;
    size_t block_room;
} hw_sqlite_page;

/* Where headers and payload come from. */
typedef enum hw_sqlite_payload {
    HW_PAYLOAD_HERE,  /* the row has them */
    HW_PAYLOAD_FETCH, /* by another statement */
    HW_PAYLOAD_NONE   /* the event stays bare */
} hw_sqlite_payload;

/* The row becomes the next event of the page.  HOWDAH_END: it does not fit, it begins the next. */
int hw_sqlite_page_take(hw_sqlite_page *page, sqlite3_stmt *stmt, hw_sqlite_payload how,
                        howdah_error *reterr);
/*
 * An event of the columns of columns.h from "first" on, but for its payload and headers.  Texts are
 * borrowed until the next step.  NULL, or the name of something that breaks the schema.
 */
const char *hw_sqlite_borrow_event(sqlite3_stmt *stmt, int first, howdah_event *event);
void hw_sqlite_page_clear(hw_sqlite_page *page);
void hw_sqlite_page_done(hw_sqlite_page *page);

/* The first member of every cursor: of reads of the log (read.c) and of queries over two times
   (query.c). */
typedef struct hw_sqlite_cursor hw_sqlite_cursor;
struct hw_sqlite_cursor {
    hw_cursor base;
    hw_sqlite_page page; /* the batch */
    int64_t left;        /* events still wanted */
    bool over;           /* nothing comes after the page */
    /* Adds to the page until it has so many, or is full by bytes.  An error loses nothing that was
       added: it can be called again. */
    int (*fill)(hw_sqlite_cursor *cursor, size_t want, howdah_error *reterr);
    void (*done)(hw_sqlite_cursor *cursor); /* frees what it has beside these */
};

/* A zeroed cursor of this size, but for these; NULL: no memory.  batch and limit 0: none. */
hw_sqlite_cursor *hw_sqlite_cursor_new(size_t size, hw_store *store, size_t batch, int64_t limit);
/* read_next and read_close of either kind. */
int hw_sqlite_read_next(hw_cursor *base, const howdah_event **ret_events, size_t *ret_n,
                        howdah_error *reterr);
void hw_sqlite_read_close(hw_cursor *base);
/* Borrowed from the statement until its next step; absent for NULL. */
hw_str hw_sqlite_borrow_value(sqlite3_stmt *stmt, int column);
/* false when the column is there but is no UUID; then it is not present. */
bool hw_sqlite_take_uuid(sqlite3_stmt *stmt, int column, hw_uuid *ret_uuid, bool *ret_present);

/* ---- read.c */

/* The sequence of the event with this id, 0 when it is not stored. */
int hw_sqlite_find(hw_sqlite *store, const hw_uuid *id, int64_t *ret_sequence,
                   howdah_error *reterr);

/* As head, on a connection that is ready. */
int hw_sqlite_read_head(hw_sqlite *store, int64_t *ret_head, howdah_error *reterr);

int hw_sqlite_read_open(hw_store *base, const hw_query *query, hw_cursor **ret_cursor,
                        howdah_error *reterr);
int hw_sqlite_tree(hw_store *base, const hw_uuid *id, hw_uuid **ret_ids, int **ret_depths,
                   size_t *ret_n, howdah_error *reterr);
int hw_sqlite_head(hw_store *base, int64_t *ret_head, howdah_error *reterr);
int hw_sqlite_first_since(hw_store *base, int64_t time_us, int64_t *ret_sequence,
                          howdah_error *reterr);

/* ---- sparse_read.c */

/*
 * The first numbers (backward: the last, falling), at most want, of the range whose type matches
 * the pattern; sequences has room for twice as many.  HOWDAH_END: there are too many types, walk
 * the log instead.
 */
int hw_sqlite_gather(hw_sqlite *store, hw_str pattern, hw_range range, bool backward, size_t want,
                     int64_t *sequences, size_t *ret_n, howdah_error *reterr);

/* ---- hole_evidence.c: what is known of missing numbers, and whether the log is still the same */

int hw_sqlite_holders(hw_store *base, int64_t *ret_drawn, hw_holder **ret_holders, size_t *ret_n,
                      howdah_error *reterr);
int hw_sqlite_proven(hw_store *base, int64_t *ret_upto, hw_ranges *ret_holes, howdah_error *reterr);
int hw_sqlite_store_proven(hw_store *base, hw_str log, const hw_anchor *top, int64_t upto,
                           const hw_ranges *holes, howdah_error *reterr);
int hw_sqlite_gaps(hw_store *base, int64_t first, int64_t last, hw_range_fn fn, void *ctx,
                   howdah_error *reterr);
int hw_sqlite_blockers(hw_store *base, hw_blocker_fn fn, void *ctx, howdah_error *reterr);
int hw_sqlite_timeline(hw_store *base, char ret_text[HW_TIMELINE_SIZE], howdah_error *reterr);
int hw_sqlite_verify(hw_store *base, const hw_anchor *anchor, int64_t high, howdah_error *reterr);
int hw_sqlite_confirm(hw_store *base, const hw_anchor *top, howdah_error *reterr);
/* NOT_FOUND when the log does not hold the anchor's event; sequence 0 is always there. */
int hw_sqlite_stands_on(hw_sqlite *store, const hw_anchor *anchor, howdah_error *reterr);
/* LOST when the open file is not this log; an absent or empty one is any. */
int hw_sqlite_is_log(hw_sqlite *store, hw_str log, howdah_error *reterr);

/* ---- outstanding_text.c */

#define HW_OUTSTANDING_BYTES_MAX (64 * 1024 * 1024)

/* Binds the ranges as text, which lies in buf. */
int hw_sqlite_bind_outstanding(sqlite3_stmt *stmt, int index, hw_buf *buf,
                               const hw_range *outstanding, size_t n, howdah_error *reterr);
/* The ranges of a text, freed by the caller.  CORRUPT or NO_MEMORY, not reported yet. */
int hw_sqlite_parse_outstanding(hw_str text, hw_range **ret_outstanding, size_t *ret_n);

/* ---- subscriptions.c */

/* What a row is compared with. */
typedef struct hw_sqlite_sub_about {
    const hw_filter *filter; /* NULL: it is not */
    hw_str owner;
} hw_sqlite_sub_about;

/* What decides whether a row may be moved, and what its owner is told. */
typedef struct hw_sqlite_sub_look {
    bool there;
    int64_t token;
    int64_t high;
    hw_sub_status status;
    bool redrives;
    bool leased;
    int64_t lease_left_us; /* of a lease of this boot; else 0 */
    bool same_filter;      /* as that of the question */
    bool same_owner;
    bool same_log; /* as that of its last checkpoint */
    int64_t moves;
    bool shared; /* members of a group take its events */
} hw_sqlite_sub_look;

/* a may be NULL.  HOWDAH_OK without the row, too: l->there. */
int hw_sqlite_look_at_sub(hw_sqlite *store, hw_str subscriber_id, const hw_sqlite_sub_about *a,
                          hw_sqlite_sub_look *l, howdah_error *reterr);
int hw_sqlite_fail_lost(hw_str subscriber_id, int64_t token, howdah_error *reterr);
/* The machine's present boot.  No process outlives it: asked for once. */
hw_str hw_sqlite_boot(hw_sqlite *store);
/* When a lease that starts now ends, by the clock of time since boot. */
int64_t hw_sqlite_lease_until_us(int64_t lease_ms);
/* Between enter and leave: HOWDAH_OK, or LOST when the row has another token or is gone. */
int hw_sqlite_check_hold(hw_sqlite *store, const hw_hold *hold, howdah_error *reterr);
/* Between enter and leave: a new row; and its end, whoever owns it. */
int hw_sqlite_insert_sub(hw_sqlite *store, hw_str subscriber_id, const hw_filter *filter,
                         int64_t high, const hw_range *outstanding, size_t outstanding_n,
                         howdah_error *reterr);
int hw_sqlite_drop_sub(hw_sqlite *store, hw_str subscriber_id, howdah_error *reterr);
/* Between enter and leave: see hw_sub_ops. */
int hw_sqlite_reset_sub(hw_sqlite *store, hw_str subscriber_id, int64_t high,
                        const hw_range *outstanding, size_t outstanding_n, howdah_error *reterr);
int hw_sqlite_update_status(hw_sqlite *store, hw_str subscriber_id, hw_sub_status status,
                            hw_str reason, howdah_error *reterr);
int hw_sqlite_create(hw_store *base, hw_str subscriber_id, const hw_filter *filter, int64_t high,
                     const hw_range *outstanding, size_t outstanding_n, bool *ret_created,
                     howdah_error *reterr);
int hw_sqlite_load(hw_store *base, hw_str subscriber_id, hw_sub_row_fn fn, void *ctx,
                   howdah_error *reterr);
int hw_sqlite_list(hw_store *base, hw_sub_row_fn fn, void *ctx, howdah_error *reterr);
int hw_sqlite_take(hw_store *base, const hw_take *take, hw_sub_row_fn fn, void *ctx,
                   howdah_error *reterr);
int hw_sqlite_release(hw_store *base, const hw_hold *hold, howdah_instance instance,
                      howdah_error *reterr);
int hw_sqlite_suspect(hw_store *base, const hw_hold *hold, int64_t sequence, int64_t attempts,
                      howdah_error *reterr);
int hw_sqlite_set_status(hw_store *base, const hw_hold *hold, hw_sub_status status, hw_str reason,
                         howdah_error *reterr);
int hw_sqlite_reset(hw_store *base, hw_str subscriber_id, int64_t high, const hw_range *outstanding,
                    size_t outstanding_n, howdah_error *reterr);
int hw_sqlite_remove(hw_store *base, hw_str subscriber_id, howdah_error *reterr);

/* ---- checkpoint.c */

/* Between enter and leave: stores the checkpoint whole.  LOST; FAILED when it would lower high. */
int hw_sqlite_put_checkpoint(hw_sqlite *store, const hw_checkpoint *checkpoint,
                             howdah_error *reterr);
int hw_sqlite_checkpoint(hw_store *base, const hw_checkpoint *checkpoints, size_t n,
                         int64_t lease_ms, hw_sub_news *ret_news, howdah_error *reterr);
int hw_sqlite_poll(hw_store *base, const hw_checkpoint *subs, size_t n, int64_t lease_ms,
                   hw_sub_news *ret_news, howdah_error *reterr);

/* ---- dead_letters.c */

/* Between enter and leave: a new one, or the one that the event has already, opened again. */
int hw_sqlite_insert_dead_letter(hw_sqlite *store, hw_str subscriber_id, const howdah_event *event,
                                 hw_str error, int64_t attempts, int64_t *ret_id,
                                 howdah_error *reterr);
int hw_sqlite_dead_letter(hw_store *base, const hw_checkpoint *checkpoint,
                          const howdah_event *event, hw_str error, int64_t attempts,
                          int64_t *ret_id, howdah_error *reterr);
int hw_sqlite_dead_letters(hw_store *base, const hw_dead_letter_query *query, hw_dead_letter_fn fn,
                           void *ctx, howdah_error *reterr);
int hw_sqlite_dead_letters_set_state(hw_store *base, const int64_t *ids, size_t n,
                                     hw_str subscriber_id, hw_dead_letter_state state,
                                     hw_str reason, int64_t *ret_n, howdah_error *reterr);
int hw_sqlite_redrive_end(hw_store *base, const hw_hold *hold, int64_t id,
                          hw_dead_letter_state state, hw_str error, howdah_error *reterr);
int hw_sqlite_skip(hw_store *base, const hw_checkpoint *checkpoint, hw_range range, int64_t age_ms,
                   hw_str reason, howdah_error *reterr);
int hw_sqlite_skips(hw_store *base, hw_str subscriber_id, bool resolved, hw_skip_fn fn, void *ctx,
                    howdah_error *reterr);
int hw_sqlite_skip_resolve(hw_store *base, int64_t id, hw_str resolution, howdah_error *reterr);

/* ---- handler_tx.c */

int hw_sqlite_tx_begin(hw_store *base, hw_str log, howdah_error *reterr);
/* MISUSE when the handler's transaction is not open any more. */
int hw_sqlite_tx_check(hw_sqlite *store, howdah_error *reterr);
void *hw_sqlite_tx_handle(hw_store *base);
int hw_sqlite_tx_commit(hw_store *base, const hw_checkpoint *checkpoint, howdah_error *reterr);
void hw_sqlite_tx_rollback(hw_store *base);

/* ---- bell.c */

int hw_sqlite_session(hw_store *base, uint64_t *ret_session, howdah_error *reterr);
int hw_sqlite_listen(hw_store *base, bool general, const hw_str *types, size_t types_n,
                     howdah_error *reterr);
int hw_sqlite_arm(hw_store *base, howdah_error *reterr);
int hw_sqlite_ring(hw_store *base, const hw_str *types, size_t types_n, howdah_error *reterr);
int hw_sqlite_wait(hw_store *base, int64_t ms, howdah_error *reterr);
int hw_sqlite_fd(hw_store *base);
void hw_sqlite_bell_free(struct hw_sqlite_bell *bell);

/* ---- queue_rows.c: what the files of the queue share; see 0003_queue.sql */

/* A queue as a transaction found it. */
typedef struct hw_sqlite_queue {
    int64_t id; /* 0: none */
    bool paused;
    howdah_queue_options settings;
} hw_sqlite_queue;

/* What happens to jobs in one transaction. */
typedef struct hw_sqlite_jobs {
    hw_sqlite *store;
    int64_t now_us;
    hw_sqlite_queue queue; /* the one that was looked at last */
    hw_buf key;            /* of the job that was looked at last */
    bool failed;           /* a job is FAILED now: the commit has to wait for the disk */
    bool readied;          /* a job can be claimed that could not before */
    int64_t last_rowid;    /* of a caller's handle, where our inserts leave no trace */
} hw_sqlite_jobs;

#define HW_SQLITE_KEY_MAX (64 * 1024)

/* A live job as it was looked at; its key lies in the jobs' buffer. */
typedef struct hw_sqlite_live {
    int64_t id;
    int64_t queue_id;
    int64_t attempts;
    int64_t max_attempts; /* 0: the queue's */
    int64_t token;        /* 0: not leased */
    int64_t lease_ms;
    int64_t dead_letter; /* that it is tried again for, 0: none */
    bool keyed;
} hw_sqlite_live;

/* Begins a transaction about jobs: connection, write lock, schema, time. */
int hw_sqlite_jobs_enter(hw_sqlite_jobs *jobs, hw_sqlite *store, bool synced, howdah_error *reterr);
/* Ends it as hw_sqlite_leave() does, and rings when something can be claimed. */
int hw_sqlite_jobs_leave(hw_sqlite_jobs *jobs, int s, howdah_error *reterr);

/* Runs a statement of the cache that gives no rows, with these numbers as its parameters. */
int hw_sqlite_run_numbers(hw_sqlite *store, hw_sqlite_slot slot, const char *sql,
                          const int64_t *numbers, int n, howdah_error *reterr);
/* The same for a statement for once. */
int hw_sqlite_once(hw_sqlite *store, const char *sql, const int64_t *numbers, int n,
                   howdah_error *reterr);
/* Draws n numbers of a counter; the first of them. */
int hw_sqlite_draw(hw_sqlite *store, const char *counter, int64_t n, int64_t *ret_first,
                   howdah_error *reterr);
/* So many milliseconds from now, not beyond the end of time. */
int64_t hw_sqlite_later_us(int64_t now_us, int64_t ms);

/* The settings of a queue, from this column of the statement's row on. */
void hw_sqlite_take_settings(sqlite3_stmt *stmt, int first, howdah_queue_options *ret_settings);
/* Looks at a queue: jobs->queue.  HOWDAH_END when there is none. */
int hw_sqlite_find_queue(hw_sqlite_jobs *jobs, hw_str name, howdah_error *reterr);
int hw_sqlite_load_queue(hw_sqlite_jobs *jobs, int64_t queue_id, howdah_error *reterr);
int hw_sqlite_no_queue(hw_str name, howdah_error *reterr);
/* The same, but makes it when there is none. */
int hw_sqlite_make_queue(hw_sqlite_jobs *jobs, hw_str name, howdah_error *reterr);
/* HOWDAH_END when no such job is live. */
int hw_sqlite_look_at_job(hw_sqlite_jobs *jobs, int64_t id, hw_sqlite_live *ret_live,
                          howdah_error *reterr);

/* A job that a binding made has the payload of its event, e. */
#define HW_SQLITE_JOIN_EVENT                                                                       \
    " LEFT JOIN main.howdah_events e ON e.global_sequence = d.event_sequence"
#define HW_SQLITE_OF_JOB(column) "iif(d.event_sequence IS NULL, d." column ", e." column ")"
/* How many columns hw_sqlite_take_job() reads. */
#define HW_SQLITE_JOB_COLUMNS 28
/* What hw_sqlite_take_job() reads: after "SELECT ", of d, howdah_job_data. */
#define HW_SQLITE_DATA_COLUMNS(headers, data, bytes)                                               \
    " d.created_at, d.priority, d.event_sequence, d.causation_id, d.key, d.dedup,"                 \
    " d.correlation_id, " HW_SQLITE_OF_JOB("content_type") ", " headers ", " data ", " bytes       \
                                                           ", e.type, e.stream"
/* Of j, howdah_jobs; name and max_attempts are those of the queue. */
#define HW_SQLITE_LIVE_COLUMNS(name, max_attempts)                                                 \
    " j.id, " name ", j.attempts, coalesce(nullif(j.max_attempts, 0), " max_attempts "),"          \
    " CASE j.aside WHEN 0 THEN j.due_at END, j.started_at, j.worker, j.suspect, j.token,"          \
    " j.lease_until, j.error, 0, NULL, 0, NULL," HW_SQLITE_DATA_COLUMNS(                           \
        HW_SQLITE_OF_JOB("headers"), HW_SQLITE_OF_JOB("data"), HW_SQLITE_OF_JOB("bytes"))

/* The row of the statement as a job; its texts lie in *ret_texts, freed by the caller. */
int hw_sqlite_take_job(const hw_sqlite *store, sqlite3_stmt *stmt, int64_t now_us,
                       howdah_job *ret_job, char **ret_texts, size_t *ret_bytes,
                       howdah_error *reterr);

/* ---- queue_ack.c */

int hw_sqlite_ack_job(hw_sqlite_jobs *jobs, const hw_ack *ack, howdah_ack_outcome *ret_acked,
                      howdah_error *reterr);
/* Gives leases back that ran out, at most max; how many. */
int hw_sqlite_give_back(hw_sqlite_jobs *jobs, int64_t max, int64_t *ret_n, howdah_error *reterr);
/* Moves a live job to the history as FAILED, without a dead letter; the next of its key goes on. */
int hw_sqlite_cancel_live(hw_sqlite_jobs *jobs, const hw_sqlite_live *live, hw_str error,
                          howdah_error *reterr);
/* Chooses who of a key is first (0003_queue.sql, I3). */
int hw_sqlite_pass_key(hw_sqlite_jobs *jobs, int64_t queue_id, hw_str key, howdah_error *reterr);
/* The job's key, if it holds one, is free. */
int hw_sqlite_end_hold(hw_sqlite_jobs *jobs, int64_t job_id, howdah_error *reterr);

/* ---- queue_push.c, queue_exchange.c */

int hw_sqlite_push(hw_store *base, hw_str queue, const hw_push *list, size_t n,
                   howdah_pushed *ret_pushed, howdah_error *reterr);
int hw_sqlite_exchange(hw_store *base, const hw_ack *acks, size_t n, howdah_ack_outcome *ret_acked,
                       const hw_claim *claim, hw_job_fn fn, void *ctx, hw_claim_report *ret_report,
                       howdah_error *reterr);

/* ---- queue_admin.c */

extern const hw_queue_ops hw_sqlite_queue_ops;

/*
 * Inside a transaction: a FAILED job is ready again, with the dead letter that it may have.
 * HOWDAH_END when it is not in the history; CONFLICT, and nothing is changed, when it has
 * completed, or when another job has its dedup key.
 */
int hw_sqlite_revive(hw_sqlite_jobs *jobs, int64_t id, howdah_error *reterr);

/* ---- queue_read.c, queue_verify.c */

int hw_sqlite_queue_load(hw_store *base, hw_str queue, hw_queue_fn fn, void *ctx,
                         howdah_error *reterr);
int hw_sqlite_queue_verify(hw_store *base, hw_wrong_fn fn, void *ctx, howdah_error *reterr);
int hw_sqlite_queue_list(hw_store *base, hw_queue_fn fn, void *ctx, howdah_error *reterr);
int hw_sqlite_queue_summary(hw_store *base, hw_queue_fn fn, void *ctx, howdah_error *reterr);
int hw_sqlite_job_load(hw_store *base, int64_t id, hw_job_fn fn, void *ctx, howdah_error *reterr);
int hw_sqlite_queue_log(hw_store *base, hw_str queue, const howdah_queue_history_options *options,
                        hw_job_fn fn, void *ctx, howdah_error *reterr);

/* ---- queue_dead_letters.c: those of jobs */

#define HW_SQLITE_BY_OPERATOR "operator"

/* A walk over dead letters of jobs by id.  Finalized by the caller. */
int hw_sqlite_job_dead_letters(hw_sqlite *store, const hw_dead_letter_query *query,
                               sqlite3_stmt **ret_stmt, howdah_error *reterr);
int64_t hw_sqlite_job_dead_letter_id(sqlite3_stmt *stmt);
/* Borrowed from the statement until its next step; "" for NULL. */
const char *hw_sqlite_text(sqlite3_stmt *stmt, int column);
/* Hands its row over; *ret_stop is fn's result. */
int hw_sqlite_hand_job_dead_letter(hw_sqlite *store, sqlite3_stmt *stmt, hw_dead_letter_fn fn,
                                   void *ctx, bool *ret_stop, howdah_error *reterr);
/*
 * Inside a transaction: REDRIVE or DISCARDED for the open dead letter of a job with this id (0: for
 * all of them); adds to *n how many.  See dead_letters_set_state() in store/queue.h.
 */
int hw_sqlite_set_job_dead_letters(hw_sqlite *store, int64_t id, hw_dead_letter_state state,
                                   hw_str reason, int64_t *n, howdah_error *reterr);
int hw_sqlite_job_dead_letters_set_state(hw_store *base, hw_str queue, hw_dead_letter_state state,
                                         hw_str reason, int64_t *ret_n, howdah_error *reterr);
/* The job, which is in the history already, was tried again for this letter. */
int hw_sqlite_dead_letter_redriven(hw_sqlite_jobs *jobs, const hw_sqlite_live *live,
                                   howdah_error *reterr);
int hw_sqlite_dead_letter_cancelled(hw_sqlite_jobs *jobs, const hw_sqlite_live *live, hw_str reason,
                                    howdah_error *reterr);

/* ---- bindings.c */

int hw_sqlite_queue_bind(hw_store *base, const hw_binding *binding, int64_t high,
                         const hw_range *outstanding, size_t outstanding_n, bool *ret_made,
                         howdah_error *reterr);
int hw_sqlite_queue_unbind(hw_store *base, hw_str queue, hw_str pattern, howdah_error *reterr);
int hw_sqlite_queue_bindings(hw_store *base, hw_str queue, hw_binding_fn fn, void *ctx,
                             howdah_error *reterr);
int hw_sqlite_route(hw_store *base, const hw_checkpoint *checkpoint, hw_str queue,
                    howdah_binding_key key, const int64_t *sequences, size_t n,
                    howdah_error *reterr);

/* ---- group_admin.c; what the files of groups share is in group.h */

extern const hw_group_ops hw_sqlite_group_ops;

/* The place of a group as that of any subscription, instead of the row's that is given; the row's
   stays if a reset has put it there and no member has followed.  Ranges are freed with hw_free().
 */
int hw_sqlite_group_place_of(hw_sqlite *store, hw_str subscriber_id, int64_t *ret_high,
                             hw_range **ret_outstanding, size_t *ret_n, howdah_error *reterr);

/* ---- times_query_sql.c: questions about the two times as statements */

#define HW_SQLITE_SELECT_VALUES 64

/* A statement and what is bound to it, in the order of its question marks. */
typedef struct hw_sqlite_select {
    hw_buf sql;
    hw_sqlite_value values[HW_SQLITE_SELECT_VALUES]; /* borrowed */
    int n;
} hw_sqlite_select;

/* Whose index leads to the rows. */
typedef enum hw_sqlite_lead {
    HW_LEAD_NONE,
    HW_LEAD_TYPE,
    HW_LEAD_CAUSATION,
    HW_LEAD_CORRELATION,
    HW_LEAD_STREAM,
    HW_LEAD_FAMILIES
} hw_sqlite_lead;

void hw_sqlite_select_init(hw_sqlite_select *ask);
void hw_sqlite_select_done(hw_sqlite_select *ask);
void hw_sqlite_select_add(hw_sqlite_select *ask, const char *sql);
void hw_sqlite_select_number(hw_sqlite_select *ask, int64_t number);
void hw_sqlite_select_text(hw_sqlite_select *ask, hw_str text);
hw_sqlite_lead hw_sqlite_select_lead(const hw_times_query *query);
/*
 * "FROM ... WHERE ..." with every filter.  walk: the rows are taken in the order of the log.  head:
 * as of some time, what has a higher number does not count; 0: all does.
 */
void hw_sqlite_select_from(hw_sqlite_select *ask, const hw_times_query *query, hw_sqlite_lead lead,
                           bool walk, int64_t head);
/* A pattern is only narrowed down by the statement: each row is to be asked about. */
bool hw_sqlite_select_matches(const hw_times_query *query, sqlite3_stmt *stmt, int type_column);
/* The statement with its values, which must outlive it; end it with hw_sqlite_select_over(). */
int hw_sqlite_select_prepare(hw_sqlite *store, const hw_sqlite_select *ask, sqlite3_stmt **ret_stmt,
                             howdah_error *reterr);
/* Instead of finalizing it: the next question may be the same but for its values. */
void hw_sqlite_select_over(hw_sqlite *store, sqlite3_stmt *stmt);

/* ---- times.c */

extern const hw_times_ops hw_sqlite_times_ops;

/* ---- registry.c */

extern const hw_registry_ops hw_sqlite_registry_ops;

/* ---- query.c */

int hw_sqlite_query_open(hw_store *base, const hw_times_query *query, hw_cursor **ret_cursor,
                         howdah_error *reterr);

/* ---- snapshots.c */

int hw_sqlite_snapshot_put(hw_store *base, const howdah_snapshot *snapshot, int64_t keep,
                           howdah_error *reterr);
int hw_sqlite_snapshot_get(hw_store *base, hw_str stream, int64_t version, hw_snapshot_fn fn,
                           void *ctx, howdah_error *reterr);
int hw_sqlite_snapshot_list(hw_store *base, hw_str stream, hw_snapshot_fn fn, void *ctx,
                            howdah_error *reterr);
int hw_sqlite_snapshot_remove(hw_store *base, hw_str stream, int64_t upto, int64_t *ret_removed,
                              howdah_error *reterr);

/* ---- purge.c */

int hw_sqlite_purge(hw_store *base, const hw_purge *purge, howdah_purge_record *ret_record,
                    howdah_error *reterr);
int hw_sqlite_purges(hw_store *base, hw_purge_fn fn, void *ctx, howdah_error *reterr);
int hw_sqlite_times_verify(hw_store *base, hw_flaw_fn fn, void *ctx, howdah_error *reterr);

/* ---- row_digest.c: whether an event is still the one that was stored */

/* For the column digest of its row. */
int64_t hw_sqlite_event_digest(const howdah_event *e, int64_t version, int64_t recorded_at_us);
/* How many events of those that have a digest have another content. */
int hw_sqlite_count_changed(hw_sqlite *store, int64_t *ret_changed, howdah_error *reterr);

/* ---- import.c */

int hw_sqlite_import_columns(hw_store *base, hw_import_source *source,
                             int (*fn)(void *ctx, const char *column), void *ctx,
                             howdah_error *reterr);
int hw_sqlite_import_place(hw_store *base, hw_str source, hw_buf *ret_buf,
                           hw_import_place *ret_place, howdah_error *reterr);
int hw_sqlite_import_rows(hw_store *base, const hw_import_source *source,
                          const hw_import_place *after, size_t n, const hw_import_row **ret_rows,
                          size_t *ret_n, howdah_error *reterr);
int hw_sqlite_import_total(hw_store *base, const hw_import_source *source, int64_t *ret_total,
                           howdah_error *reterr);
void hw_sqlite_import_free(struct hw_sqlite_rows *rows);

/* ---- status.c */

int hw_sqlite_numbers(hw_store *base, hw_finding_fn fn, void *ctx, howdah_error *reterr);
int hw_sqlite_status(hw_store *base, hw_fact_fn fn, void *ctx, howdah_error *reterr);
int hw_sqlite_doctor(hw_store *base, hw_finding_fn fn, void *ctx, howdah_error *reterr);

#endif
