/*
 * times.h - the part of the store's contract that the two times need.
 *
 *   I1  A family is a chain: its revisions are 1, 2, 3 ... without hole or fork (a unique key), and
 *       each is recorded later than the one before, by a microsecond at least, whatever the clock
 *       does.  So "the revision known at K" is the last one recorded at or before K, and a
 *       revision is current at K exactly when it was recorded by K and the next one was not.
 *   I2  Stream, type, correlation and causation are the same in all revisions of a family: a filter
 *       on them may be applied before or after the revision is chosen.  A filter on anything else
 *       (valid time, headers) looks at the revision that was chosen.
 *   I3  knowledge() comes before the first row: a transaction that could add to what was known at K
 *       was open then, or has committed, and every later statement sees it.
 *   I4  A page is asked for by the key after which it begins (the order's time, then the sequence),
 *       never by a count of rows.  Rows do not change, except by a purge; new ones have new keys.
 *   I5  A purge and its record are one transaction.  What it has erased is in no table any more.
 *   I6  An answer as of some time is of one moment, that of query_open(), however many pages it
 *       has: a correction that is committed between two of them removes no family and brings
 *       none twice.  Where nothing can be added any more, or each family is asked for once,
 *       nothing has to be done for that.
 */
#ifndef HW_STORE_TIMES_H
#define HW_STORE_TIMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <howdah/howdah.h>

#include "base/str.h"
#include "base/uuid.h"

struct hw_store;
struct hw_cursor;

/* from is included, before is not; HW_TIME_ABSENT: open. */
typedef struct hw_time_span {
    int64_t from;
    int64_t before;
} hw_time_span;

typedef struct hw_header_is {
    hw_str name;
    hw_str value;
} hw_header_is;

/*
 * Filters are joined by AND; absent ones do not filter.  A store copies what it keeps.  A read of
 * the log (hw_query) is another question: it names places, ids and ranges of one snapshot, has no
 * view and no order, and is a statement that is prepared once.  One struct would be two halves that
 * exclude each other; both give the same kind of cursor.
 */
typedef struct hw_times_query {
    howdah_view view;
    bool retractions; /* AS_OF: families that are retracted come as well, with that revision */
    int64_t valid_at; /* AS_OF; HW_TIME_ABSENT: any */
    int64_t known_at; /* AS_OF; HW_TIME_ABSENT: all that is committed */
    bool unpinned;    /* AS_OF: the caller does not need I6 */
    hw_str stream;
    hw_str type;
    hw_str pattern; /* as in hw_query */
    hw_str correlation_id;
    bool has_causation;
    hw_uuid causation_id;
    const hw_uuid *families; /* only these; NULL: all */
    size_t families_n;
    const hw_header_is *headers;
    size_t headers_n;
    hw_time_span valid;
    hw_time_span recorded;
    howdah_order order;
    bool backward;
    int64_t limit; /* 0: all */
    size_t batch;  /* events to fetch at once */
} hw_times_query;

/* No filter, no limit, in the order of the log. */
#define HW_TIMES_QUERY_INIT                                                                        \
    {                                                                                              \
        .valid_at = HW_TIME_ABSENT, .known_at = HW_TIME_ABSENT,                                    \
        .valid = {HW_TIME_ABSENT, HW_TIME_ABSENT}, .recorded = {                                   \
            HW_TIME_ABSENT,                                                                        \
            HW_TIME_ABSENT                                                                         \
        }                                                                                          \
    }

/* Texts live as long as the callback. */
typedef int (*hw_type_stats_fn)(void *ctx, const howdah_type_stats *stats);
typedef int (*hw_stream_fn)(void *ctx, hw_str stream);

typedef int (*hw_snapshot_fn)(void *ctx, const howdah_snapshot *snapshot);

/* What howdah_purge_options says, its ids parsed. */
typedef struct hw_purge {
    hw_str stream; /* a whole stream, or */
    const hw_uuid *ids;
    size_t ids_n;
    bool families;
    hw_str reason;
    hw_str actor; /* absent: the database's user, or the process's */
} hw_purge;

typedef int (*hw_purge_fn)(void *ctx, const howdah_purge_record *record);

/* Something that verify() found: so many of this. */
typedef int (*hw_flaw_fn)(void *ctx, hw_str what, int64_t n);

typedef struct hw_times_ops {
    /*
     * I3.  The store's clock, and whether what was known at known_at (not absent) can still grow.
     * A known_at at or after the clock's time is not final.  Whether it may be asked for at all is
     * for the bus to judge.
     */
    int (*knowledge)(struct hw_store *store, int64_t known_at, howdah_knowledge *ret_knowledge,
                     howdah_error *reterr);

    /* As read_open() of store.h, whose read_next() and read_close() are for these cursors, too. */
    int (*query_open)(struct hw_store *store, const hw_times_query *query,
                      struct hw_cursor **ret_cursor, howdah_error *reterr);

    /* order and backward do not matter; limit 0. */
    int (*count)(struct hw_store *store, const hw_times_query *query, int64_t *ret_count,
                 howdah_error *reterr);
    /* Types in the order of their bytes. */
    int (*types)(struct hw_store *store, const hw_times_query *query, hw_type_stats_fn fn,
                 void *ctx, howdah_error *reterr);
    /* Distinct streams after "after" (absent: from the first), in the order of their bytes, at most
       limit (> 0). */
    int (*streams)(struct hw_store *store, const hw_times_query *query, hw_str after, int64_t limit,
                   hw_stream_fn fn, void *ctx, howdah_error *reterr);

    /*
     * Snapshots.  put: NOT_FOUND without the version in the log; keep > 0 removes older ones in the
     * same transaction.  get: the nearest at or below version (0: the newest), HOWDAH_END without
     * one; what fn gets lives as long as the call of fn.  list: by stream and version, without
     * data.
     */
    int (*snapshot_put)(struct hw_store *store, const howdah_snapshot *snapshot, int64_t keep,
                        howdah_error *reterr);
    int (*snapshot_get)(struct hw_store *store, hw_str stream, int64_t version, hw_snapshot_fn fn,
                        void *ctx, howdah_error *reterr);
    int (*snapshot_list)(struct hw_store *store, hw_str stream, hw_snapshot_fn fn, void *ctx,
                         howdah_error *reterr);
    int (*snapshot_remove)(struct hw_store *store, hw_str stream, int64_t upto,
                           int64_t *ret_removed, howdah_error *reterr);

    /* I5.  The record's texts are not set.  NOT_FOUND: see howdah_purge(). */
    int (*purge)(struct hw_store *store, const hw_purge *purge, howdah_purge_record *ret_record,
                 howdah_error *reterr);
    int (*purges)(struct hw_store *store, hw_purge_fn fn, void *ctx, howdah_error *reterr);

    /* I1, I2, I5 on a live store, and whether streams have all their versions; one moment. */
    int (*verify)(struct hw_store *store, hw_flaw_fn fn, void *ctx, howdah_error *reterr);
} hw_times_ops;

#endif
