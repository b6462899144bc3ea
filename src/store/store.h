/*
 * store.h - the contract that every store keeps.
 *
 * A store holds one bus.  Its operations are semantic ("append this batch"), not SQL; each says
 * below what is atomic, in which order things come, which errors there are, and what is true when
 * the outcome is unknown.  Two engines (pg/, sqlite/) have the same file names, so that a diff of
 * two files is a diff of two engines; decorators (shim/) wrap any store.
 *
 *   I1  Input was checked (engine/rules.h) before it gets here; a store asserts, it does not judge.
 *   I2  An operation that fails has stored nothing, unless it says HOWDAH_OUTCOME_UNKNOWN.
 *   I3  OUTCOME_UNKNOWN is set exactly when the COMMIT (or the statement that commits by itself)
 *       may have been carried out and its answer did not arrive.  The state is then one of two:
 *       all of it stored, or nothing.  Sending the same ids again tells which.
 *   I4  A lost connection is not mended inside an operation that may have written; the next
 *       operation reconnects.  Operations that only read are repeated by the store itself.
 *   I5  Every wait ends: by an answer, by the deadline (TIMEOUT) or by an interrupt.
 */
#ifndef HW_STORE_STORE_H
#define HW_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <howdah/howdah.h>

#include "base/buf.h"
#include "engine/batch.h"
#include "engine/event.h"
#include "engine/ranges.h"
#include "store/config.h"
#include "store/groups.h"
#include "store/queue.h"
#include "store/registry.h"
#include "store/subscriptions.h"
#include "store/times.h"

typedef struct hw_store hw_store;
typedef struct hw_cursor hw_cursor;

/* ---- append */

typedef enum hw_append_outcome {
    HW_APPEND_STORED,         /* all events are durable; positions are filled */
    HW_APPEND_ID_TAKEN,       /* at least one id is stored already; nothing was stored now */
    HW_APPEND_VERSION_TAKEN,  /* a concurrent append to one of the streams won; nothing stored;
                                 expectations may still be met: look, then try again */
    HW_APPEND_UNEXPECTED,     /* a stream is at another version than expected; nothing stored */
    HW_APPEND_REVISION_TAKEN, /* a correction is not the next one of its family; nothing stored */
    HW_APPEND_NOT_COMBINED /* a combined batch (engine/round.h) that this store would judge as one
                              append; nothing stored: append its parts one by one */
} hw_append_outcome;

typedef struct hw_append_report {
    hw_append_outcome outcome;
    size_t stream_no;       /* UNEXPECTED: the stream, */
    int64_t actual_version; /* and the version it really has */
} hw_append_report;

/* How far an import has come; stored in the transaction of the batch. */
typedef struct hw_import_place {
    hw_str source;     /* the table's full name */
    hw_str created_at; /* the last row's order key, as the store's own text */
    hw_str id;
    int64_t rows;   /* taken so far, this batch included */
    int64_t before; /* without this batch: a store that has fewer is not the one of before */
} hw_import_place;

/* ---- read */

/* Filters are joined by AND; absent ones do not filter. */
typedef struct hw_query {
    hw_str stream;
    hw_str type;
    hw_str pattern; /* with a wildcard, unless there is a type as well: hw_pattern_to_type() */
    hw_str correlation_id;
    int64_t from;  /* first and last, included: versions when a stream is given, */
    int64_t to;    /* else global sequences.  0: open */
    int64_t limit; /* 0: all */
    bool backward;
    size_t batch;       /* events to fetch at once */
    const hw_uuid *ids; /* when set: the events with these ids, by sequence; nothing else filters */
    size_t ids_n;
    /*
     * When set: the events inside these sequence ranges (sorted, disjoint, the last may be open
     * with last = INT64_MAX), all read in one snapshot, at most limit.  Only type and pattern
     * filter.  A batch that is short because of its bytes is one snapshot, and what comes after it
     * is another one: a caller that needs one snapshot opens a new cursor.
     */
    const hw_range *ranges;
    size_t ranges_n;
    /*
     * With ranges: payload and headers only of events that one of these matches; the others come
     * without (howdah_event.no_payload).  n = 0: all come whole.
     */
    const hw_str *payload_of;
    size_t payload_of_n;
    /*
     * The pattern is believed to match little: find its types in the index, do not walk the log.
     * Without ranges the store goes by what each page shows from then on.
     */
    bool sparse;
    /*
     * With ranges, to save work: of other streams, and of versions before this one (which have
     * numbers before the first range), no row is needed.  A store may bring them all the same.
     */
    hw_str only_stream;
    int64_t only_from;
} hw_query;

/* A filtered read that finds fewer than one in so many numbers goes by the index of types. */
#define HW_SPARSE_BELOW 20

/* ---- schema */

typedef struct hw_step {
    int number;
    const char *name;
    const char *hash;
    const char *sql; /* with @schema@ and the other marks still in it */
} hw_step;

typedef int (*hw_step_fn)(void *ctx, const howdah_migration_info *step);
typedef void (*hw_note_fn)(void *ctx, const char *text);
typedef int (*hw_fact_fn)(void *ctx, const howdah_fact *fact);
typedef int (*hw_finding_fn)(void *ctx, const howdah_finding *finding);

/* ---- import */

/* Which column (or constant) each field comes from; absent: the field is not in the table. */
typedef enum hw_import_field {
    HW_IMPORT_ID,
    HW_IMPORT_STREAM,
    HW_IMPORT_TYPE,
    HW_IMPORT_DATA,
    HW_IMPORT_CREATED_AT,
    HW_IMPORT_HEADERS,
    HW_IMPORT_CORRELATION_ID,
    HW_IMPORT_CAUSATION_ID,
    HW_IMPORT_ACTOR,
    HW_IMPORT_SCHEMA_VERSION,
    HW_IMPORT_FIELDS
} hw_import_field;

typedef struct hw_import_source {
    hw_str schema; /* absent: the store's default */
    hw_str table;
    hw_str column[HW_IMPORT_FIELDS];   /* absent: see constant */
    hw_str constant[HW_IMPORT_FIELDS]; /* absent too: the field has its default */
} hw_import_source;

/* One row, every field as text; created_at also as a time.  Absent: SQL NULL or not mapped. */
typedef struct hw_import_row {
    hw_str field[HW_IMPORT_FIELDS];
    int64_t created_at_us;
} hw_import_row;

/* ---- the table of operations */

typedef struct hw_store_ops {
    const char *name; /* "postgresql", "sqlite" */

    void (*close)(hw_store *store);

    /*
     * Stores the batch in one transaction: all or none, versions consecutive from each stream's
     * present one.  The check of the expectations is part of that transaction.  ret_positions has
     * batch->n entries.  HOWDAH_OK with report->outcome, or an error (I2, I3).  place may be NULL;
     * otherwise it is stored in the same transaction.
     *
     * A correction (has_corrects) comes alone.  It is stored only as the next revision after the
     * event it corrects, recorded later than that one (times.h I1): otherwise REVISION_TAKEN.
     * Its flag "purged" says whether that one was purged when it was read: if that has changed,
     * what it took over from it must not be stored, and the answer is REVISION_TAKEN as well.
     */
    int (*append)(hw_store *store, const hw_batch *batch, const hw_import_place *place,
                  howdah_position *ret_positions, hw_append_report *report, howdah_error *reterr);

    /* The version of each stream's last event, 0 when it has none; not all of one moment. */
    int (*stream_versions)(hw_store *store, const hw_str *streams, size_t n, int64_t *ret_versions,
                           howdah_error *reterr);

    /*
     * Events in order of version (stream given) or sequence, in batches of query->batch.  The
     * query is copied.  next: HOWDAH_OK and n > 0 events that are valid until the next call on
     * this cursor, or HOWDAH_END.  A batch may be short of query->batch: then more says whether
     * it was the last.  Other operations may run on the store between two calls.
     */
    int (*read_open)(hw_store *store, const hw_query *query, hw_cursor **ret_cursor,
                     howdah_error *reterr);
    int (*read_next)(hw_cursor *cursor, const howdah_event **ret_events, size_t *ret_n,
                     howdah_error *reterr);
    void (*read_close)(hw_cursor *cursor);

    /*
     * The ids of the event's causes (root first), its own, and those of its effects (each after
     * its cause), with depth; see howdah_causation_walk().  Arrays are the caller's, freed with
     * hw_free().
     */
    int (*tree)(hw_store *store, const hw_uuid *id, hw_uuid **ret_ids, int **ret_depths,
                size_t *ret_n, howdah_error *reterr);

    /* The highest visible sequence, 0 when the log is empty. */
    int (*head)(hw_store *store, int64_t *ret_head, howdah_error *reterr);
    /* The first event that was recorded at this moment or after it; 0: none. */
    int (*first_since)(hw_store *store, int64_t time_us, int64_t *ret_sequence,
                       howdah_error *reterr);

    /* Schema: see howdah_migrate() and howdah_migrations_walk(). */
    int (*migrate)(hw_store *store, hw_note_fn note, void *note_ctx, howdah_error *reterr);
    int (*migrate_status)(hw_store *store, hw_step_fn fn, void *ctx, howdah_error *reterr);

    /*
     * Import.  columns: calls fn for each column name of the table (NOT_FOUND without the table),
     * and fills source->schema in where the store found it (text of the store's own).
     * place: where the last import of this source stopped (HOWDAH_END when there was none; texts
     * freed by the caller through ret_buf).  rows: the next n rows after the place in the order
     * (created_at, id); rows are valid until the next import call on the store.
     * total: an estimate of the rows in the table.
     */
    int (*import_columns)(hw_store *store, hw_import_source *source,
                          int (*fn)(void *ctx, const char *column), void *ctx,
                          howdah_error *reterr);
    int (*import_place)(hw_store *store, hw_str source, hw_buf *ret_buf, hw_import_place *ret_place,
                        howdah_error *reterr);
    int (*import_rows)(hw_store *store, const hw_import_source *source,
                       const hw_import_place *after, size_t n, const hw_import_row **ret_rows,
                       size_t *ret_n, howdah_error *reterr);
    int (*import_total)(hw_store *store, const hw_import_source *source, int64_t *ret_total,
                        howdah_error *reterr);

    /*
     * Whether the next events get numbers that are free, and that nobody counts as done already:
     * one finding, or none where the store cannot give out any other.
     */
    int (*numbers)(hw_store *store, hw_finding_fn fn, void *ctx, howdah_error *reterr);

    int (*status)(hw_store *store, hw_fact_fn fn, void *ctx, howdah_error *reterr);
    int (*doctor)(hw_store *store, hw_finding_fn fn, void *ctx, howdah_error *reterr);

    const hw_sub_ops *subs;          /* subscriptions, dead letters, the bell */
    const hw_group_ops *groups;      /* subscriptions that members share */
    const hw_queue_ops *queue;       /* the work queue */
    const hw_times_ops *times;       /* corrections' queries, snapshots, purges */
    const hw_registry_ops *registry; /* of gateways */
} hw_store_ops;

/* The first member of every store and cursor. */
struct hw_store {
    const hw_store_ops *ops;
    bool one_writer; /* a writer keeps all others from writing until it commits */
    bool alone;      /* in memory: another session would be another log */
};
struct hw_cursor {
    hw_store *store;
    bool more; /* the batch is short but not the last: too many bytes, or much to look through */
};

/* Chooses the engine by the URL's scheme.  The config is copied. */
int hw_store_open(const hw_config *config, hw_store **ret_store, howdah_error *reterr);

/* The migration SQL of the URL's engine; see howdah_migrations_sql(). */
int hw_store_print(const hw_config *config, char **ret_sql, howdah_error *reterr);

/* The engines; hw_store_open() is the way in. */
int hw_pg_open(const hw_config *config, hw_store **ret_store, howdah_error *reterr);
int hw_pg_print(const hw_config *config, hw_buf *out, howdah_error *reterr);
int hw_sqlite_open(const hw_config *config, hw_store **ret_store, howdah_error *reterr);
int hw_sqlite_print(const hw_config *config, hw_buf *out, howdah_error *reterr);

#endif
