/*
 * howdah_times.h - two times: part of howdah.h, which includes it.
 *
 * Every event has two times.  The valid time says when it was true.  It is the user's: past,
 * future, or left out, and then it is the recorded time.  The recorded time says since when the log
 * knows it.  It is the database's, never the client's.  Both are microseconds since 1970 UTC.
 *
 * Nothing is rewritten.  A correction is an event of its own: same stream, type, correlation and
 * causation, the next revision of the same family, a reason, and its own id, global sequence,
 * stream version and recorded time.  The family's id is the id of its first event.  A retraction is
 * a correction that says: this never happened.
 *
 *   - A family is one chain: revisions 1, 2, 3 ... without a hole or a fork, each recorded later
 *     than the one before.  Of two corrections at once one is stored, the other gets CONFLICT.
 *   - As of (valid V, known K) means: of each family the revision that was known at K, without
 *     those that are retracted then, and of these the ones whose valid time is not after V.
 *   - The same question has the same answer for ever once it is final: no transaction is open that
 *     could still add to what was known at K.  An answer that is not final yet says so.
 *   - A purge erases payload and headers for good, and leaves who, when and why.
 *
 *     howdah_correction c = HOWDAH_CORRECTION_INIT;
 *     c.event_id = id;                       any event of the family
 *     c.data = "{\"amount\":90}";
 *     c.data_len = strlen(c.data);
 *     c.reason = "typing error in invoice 7";
 *     if (howdah_correct(bus, &c, &position, &err) < 0)
 *         die(&err);
 *
 *     howdah_query_options q = HOWDAH_QUERY_OPTIONS_INIT;
 *     q.view = HOWDAH_VIEW_AS_OF;
 *     q.stream = "account-7";
 *     q.known_at_us = end_of_january;
 *     if (howdah_query_open(bus, &q, &reader, &err) < 0)
 *         die(&err);
 */
#ifndef HOWDAH_HOWDAH_TIMES_H
#define HOWDAH_HOWDAH_TIMES_H

#include <howdah/howdah.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------- corrections */

typedef struct howdah_correction {
    size_t size;
    const char *event_id; /* required: the id of any event of the family */
    const char *reason;   /* required: 1 to 1000 bytes */
    const char *data;     /* JSON, or bytes with a content type; NULL: as it is */
    size_t data_len;
    const char *content_type;  /* NULL: data is JSON */
    int64_t valid_time_us;     /* HOWDAH_NO_TIME: as it is */
    bool retract;              /* it never happened; data and valid time must be left out */
    const char *headers;       /* a JSON object of strings; NULL: as they are */
    const char *actor;         /* who corrects; NULL: nobody is named */
    const char *id;            /* of the correction; NULL: a new one */
    int64_t schema_version;    /* of data, 0: as it is */
    int64_t expected_revision; /* the newest one that the caller knows, 0: whichever it is */
} howdah_correction;

#define HOWDAH_CORRECTION_INIT                                                                     \
    {                                                                                              \
        sizeof(howdah_correction), NULL, NULL, NULL, 0, NULL, HOWDAH_NO_TIME, false, NULL, NULL,   \
            NULL, 0, 0                                                                             \
    }

/*
 * Appends the next revision of a family.  A family that is retracted is taken up again by a
 * correction with data.  A call that names its id can be repeated, as an append can: what is stored
 * already is answered with its position.
 *
 * Errors: NOT_FOUND (no event has this id), CONFLICT (error.actual_revision is the newest revision:
 * it is not the expected one, or somebody else corrected at the same time), INVALID and LIMIT
 * (nothing to correct, an empty reason, data for a retraction, no data for a family that is
 * retracted or purged, a retraction of one that is retracted), and those of howdah_append().
 */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_correct(howdah_bus *bus,
                                                const howdah_correction *correction,
                                                howdah_position *ret_position,
                                                howdah_error *reterr);

/* Whether this revision says that the fact never happened.  Its payload is the JSON null. */
HOWDAH_API bool howdah_event_is_retraction(const howdah_event *event);
/* Whether payload and headers were erased.  The payload is the JSON null, or no bytes. */
HOWDAH_API bool howdah_event_is_purged(const howdah_event *event);

/* ----------------------------------------------------------------- queries */

typedef enum howdah_view {
    HOWDAH_VIEW_LOG = 0,      /* every event, corrections and retractions as well */
    HOWDAH_VIEW_AS_OF = 1,    /* of each family one revision, see valid_at_us and known_at_us */
    HOWDAH_VIEW_ORIGINALS = 2 /* first revisions only */
} howdah_view;

typedef enum howdah_order {
    HOWDAH_ORDER_SEQUENCE = 0, /* global sequence: the order of the log */
    HOWDAH_ORDER_VALID = 1,    /* valid time, then sequence */
    HOWDAH_ORDER_RECORDED = 2  /* recorded time, then sequence */
} howdah_order;

/* Filters are joined by AND; those left out do not filter. */
typedef struct howdah_query_options {
    size_t size;
    howdah_view view;
    /* AS_OF only.  Facts valid at this time: valid time not after it.  HOWDAH_NO_TIME: all. */
    int64_t valid_at_us;
    /* AS_OF only.  What was known then.  HOWDAH_NO_TIME: now.  A time in the future is INVALID. */
    int64_t known_at_us;
    const char *stream;
    const char *type;
    const char *pattern;
    const char *correlation_id;
    const char *causation_id;
    const char *family;         /* the id of any event of one family (NOT_FOUND without it) */
    const char *const *headers; /* name, value, name, value ...: each header equals its value */
    size_t headers_n;           /* pairs */
    /* Both times, from included, before excluded.  HOWDAH_NO_TIME: open. */
    int64_t valid_from_us;
    int64_t valid_before_us;
    int64_t recorded_from_us;
    int64_t recorded_before_us;
    howdah_order order;
    bool backward;
    int64_t limit; /* 0: no limit */
} howdah_query_options;

#define HOWDAH_QUERY_OPTIONS_INIT                                                                  \
    {                                                                                              \
        sizeof(howdah_query_options), HOWDAH_VIEW_LOG, HOWDAH_NO_TIME, HOWDAH_NO_TIME, NULL, NULL, \
            NULL, NULL, NULL, NULL, NULL, 0, HOWDAH_NO_TIME, HOWDAH_NO_TIME, HOWDAH_NO_TIME,       \
            HOWDAH_NO_TIME, HOWDAH_ORDER_SEQUENCE, false, 0                                        \
    }

/* Most pairs of headers in one query. */
#define HOWDAH_QUERY_HEADERS_MAX 16

/* What an answer is worth. */
typedef struct howdah_knowledge {
    size_t size;
    int64_t known_at_us; /* as asked for; HOWDAH_NO_TIME: the present, which goes on */
    int64_t asked_at_us; /* the database's clock when it was asked */
    bool final;          /* the same question will have the same answer for ever */
    char waits_for[128]; /* not final: who could still add to it, "" when that is not known */
} howdah_knowledge;

#define HOWDAH_KNOWLEDGE_INIT                                                                      \
    {                                                                                              \
        sizeof(howdah_knowledge), HOWDAH_NO_TIME, HOWDAH_NO_TIME, false, ""                        \
    }

/*
 * Reads what the options ask for, in pages by key, whatever the order: read with
 * howdah_reader_next(), end with howdah_reader_close().  An answer as of some time is of the moment
 * of this call, however long it is: a family that is corrected while it is read comes once, with
 * the revision that was known then.  Errors: INVALID (options, a time to know that lies in the
 * future), NOT_FOUND (family), and those of howdah_reader_open().
 */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_query_open(howdah_bus *bus,
                                                   const howdah_query_options *options,
                                                   howdah_reader **ret_reader,
                                                   howdah_error *reterr);
/* Of a reader of howdah_query_open(); it was found out before the first row was read. */
HOWDAH_API int howdah_reader_knowledge(const howdah_reader *reader,
                                       howdah_knowledge *ret_knowledge);

/* How many events the same options would read.  ret_knowledge may be NULL. */
HOWDAH_API int howdah_query_count(howdah_bus *bus, const howdah_query_options *options,
                                  int64_t *ret_count, howdah_knowledge *ret_knowledge,
                                  howdah_error *reterr);

typedef struct howdah_type_stats {
    size_t size;
    const char *type;    /* valid until fn returns */
    int64_t events;      /* all of the following count what the options let through */
    int64_t corrections; /* revisions above the first */
    int64_t retractions;
    int64_t streams; /* distinct ones */
    int64_t first_valid_us;
    int64_t last_valid_us;
    int64_t first_recorded_us;
    int64_t last_recorded_us;
} howdah_type_stats;

/* Per type, in order of their names.  fn's non-zero result ends the walk.  order, backward and
   limit of the options must be left alone. */
HOWDAH_API int howdah_types_walk(howdah_bus *bus, const howdah_query_options *options,
                                 int (*fn)(void *ctx, const howdah_type_stats *stats), void *ctx,
                                 howdah_error *reterr);
/* Distinct streams of what the options let through, in order of their names; limit counts. */
HOWDAH_API int howdah_streams_walk(howdah_bus *bus, const howdah_query_options *options,
                                   int (*fn)(void *ctx, const char *stream), void *ctx,
                                   howdah_error *reterr);

/* -------------------------------------------------------------------- diff */

typedef enum howdah_change {
    HOWDAH_CHANGE_ADDED = 0,     /* not known before */
    HOWDAH_CHANGE_CORRECTED = 1, /* known with other content */
    HOWDAH_CHANGE_RETRACTED = 2, /* known then, retracted now */
    HOWDAH_CHANGE_RESTORED = 3   /* retracted then, a fact now */
} howdah_change;

/* The change's name: "added", "corrected", "retracted", "restored". */
HOWDAH_API const char *howdah_change_name(howdah_change change);

typedef struct howdah_diff_options {
    size_t size;
    int64_t known_at_us; /* required: the earlier moment */
    int64_t to_us;       /* the later one; HOWDAH_NO_TIME: now */
    const char *stream;
    const char *type;
    const char *pattern;
    int64_t limit; /* 0: no limit */
} howdah_diff_options;

#define HOWDAH_DIFF_OPTIONS_INIT                                                                   \
    {                                                                                              \
        sizeof(howdah_diff_options), HOWDAH_NO_TIME, HOWDAH_NO_TIME, NULL, NULL, NULL, 0           \
    }

/*
 * What our knowledge has become between two moments: a change for each family that is not as it
 * was, in the order of the sequences of "after", which is the newest revision.  before is NULL for
 * ADDED.  What was added and retracted in between is no change.  Events are valid until fn returns;
 * its non-zero result ends the walk.  ret_knowledge is about the later moment and may be NULL.
 */
HOWDAH_API int howdah_diff(howdah_bus *bus, const howdah_diff_options *options,
                           int (*fn)(void *ctx, howdah_change change, const howdah_event *before,
                                     const howdah_event *after),
                           void *ctx, howdah_knowledge *ret_knowledge, howdah_error *reterr);

/* --------------------------------------------------------------- snapshots */

/*
 * The state of a stream at one of its versions, as the user has computed it: one for each (stream,
 * version), kept until it is replaced, removed, or pushed out by newer ones.
 */
typedef struct howdah_snapshot {
    size_t size;
    const char *stream;
    int64_t version;  /* of the last event that is in it; the stream must have it */
    const char *data; /* JSON, or bytes with a content type */
    size_t data_len;
    const char *content_type; /* NULL: data is JSON */
    int64_t schema_version;   /* of data, 1 to 2147483647 */
    int64_t taken_at_us;      /* the database's clock; ignored when it is stored */
} howdah_snapshot;

#define HOWDAH_SNAPSHOT_INIT                                                                       \
    {                                                                                              \
        sizeof(howdah_snapshot), NULL, 0, NULL, 0, NULL, 1, HOWDAH_NO_TIME                         \
    }

/*
 * Stores a snapshot, in place of one of the same version.  keep > 0: afterwards only the newest
 * "keep" ones of the stream are left.  Errors: NOT_FOUND (the stream has no such version), INVALID,
 * LIMIT.
 */
HOWDAH_API int howdah_snapshot_store(howdah_bus *bus, const howdah_snapshot *snapshot, int64_t keep,
                                     howdah_error *reterr);
/* The nearest one at or below a version (0: the newest).  NOT_FOUND without one. */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_snapshot_load(howdah_bus *bus, const char *stream,
                                                      int64_t version,
                                                      howdah_snapshot **ret_snapshot,
                                                      howdah_error *reterr);
HOWDAH_API void howdah_snapshot_free(howdah_snapshot *snapshot);
/* By stream and version; stream NULL: all.  Without their data (data NULL, data_len as it is). */
HOWDAH_API int howdah_snapshots_walk(howdah_bus *bus, const char *stream,
                                     int (*fn)(void *ctx, const howdah_snapshot *snapshot),
                                     void *ctx, howdah_error *reterr);
/* Removes those of a stream up to a version (0: all); ret_removed may be NULL. */
HOWDAH_API int howdah_snapshots_remove(howdah_bus *bus, const char *stream, int64_t upto,
                                       int64_t *ret_removed, howdah_error *reterr);
/*
 * The state of a stream at a version (0: the newest): the nearest snapshot, NULL when there is
 * none, and a reader of the events behind it, up to the version.
 */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_state_open(howdah_bus *bus, const char *stream,
                                                   int64_t version, howdah_snapshot **ret_snapshot,
                                                   howdah_reader **ret_reader,
                                                   howdah_error *reterr);

/* --------------------------------------------------------------- upcasting */

/*
 * Upcasts the payload of an old event to the next schema version.  It looks at the event and hands
 * the new payload over with howdah_upcast_set_json() or howdah_upcast_set_bytes(), which copy it.
 * Returns HOWDAH_OK, or anything else when it cannot; howdah_upcast_fail() says why.
 */
typedef struct howdah_upcast howdah_upcast;
typedef int (*howdah_upcast_fn)(void *ctx, const howdah_event *event, howdah_upcast *upcast);

HOWDAH_API void howdah_upcast_set_json(howdah_upcast *upcast, const char *json, size_t len);
HOWDAH_API void howdah_upcast_set_bytes(howdah_upcast *upcast, const void *bytes, size_t len,
                                        const char *content_type);
/* Keeps the first 500 bytes; returns HOWDAH_FAILED. */
HOWDAH_API int howdah_upcast_fail(howdah_upcast *upcast, const char *message);

/*
 * From now on every event of this type that is read on this bus, by whatever call, and that is of
 * this schema version, is upcast to the next one, and so on up to the newest version that can be
 * reached.  Purged events and retractions are not lifted.  An event for which a step is missing (a
 * later step is registered, this one is not), or fails, is an error of the read (INVALID, naming
 * type and version); in a subscription it becomes a dead letter, or halts it when it fails closed.
 * What is stored is never changed: the dead letter's copy is the event as it is stored.
 *
 * Register before the first read or subscription of the bus.  A runner's threads call fn at the
 * same time.  CONFLICT when this step is registered already.
 */
HOWDAH_API int howdah_upcast_register(howdah_bus *bus, const char *type, int64_t schema_version,
                                      howdah_upcast_fn fn, void *ctx, howdah_error *reterr);

typedef struct howdah_upcast_counts {
    size_t size;
    int64_t upcast;  /* events */
    int64_t steps;   /* calls that succeeded */
    int64_t missing; /* events for which a step was missing */
    int64_t failed;  /* events for which a step failed */
} howdah_upcast_counts;

#define HOWDAH_UPCAST_COUNTS_INIT                                                                  \
    {                                                                                              \
        sizeof(howdah_upcast_counts), 0, 0, 0, 0                                                   \
    }

/* From any thread, once the steps are registered. */
HOWDAH_API int howdah_upcast_counts_get(const howdah_bus *bus, howdah_upcast_counts *ret_counts);

/* ------------------------------------------------------------------- purge */

typedef struct howdah_purge_options {
    size_t size;
    const char *stream;     /* a whole stream, or */
    const char *const *ids; /* these events */
    size_t ids_n;
    bool families;      /* with ids: every revision of their families */
    const char *reason; /* required: 1 to 1000 bytes */
    const char *actor;  /* who; NULL: the database's user, or the system's */
} howdah_purge_options;

#define HOWDAH_PURGE_OPTIONS_INIT                                                                  \
    {                                                                                              \
        sizeof(howdah_purge_options), NULL, NULL, 0, false, NULL, NULL                             \
    }

/* Most ids of one purge. */
#define HOWDAH_PURGE_IDS_MAX 10000

/* One purge, as it is kept. */
typedef struct howdah_purge_record {
    size_t size;
    int64_t id;
    int64_t purged_at_us; /* HOWDAH_NO_TIME when nothing was left to purge */
    const char *actor;    /* texts are valid until fn returns, or in howdah_purge() not set */
    const char *reason;
    const char *stream;   /* NULL: by ids */
    int64_t events;       /* erased by it; those that were purged before do not count */
    int64_t dead_letters; /* dead letters, erased and discarded */
    int64_t snapshots;    /* removed */
    int64_t jobs; /* made of these events by bindings: those waiting are cancelled, the results
                     and errors of those ended are erased */
    int64_t left; /* revisions of the same families that still have a payload */
} howdah_purge_record;

#define HOWDAH_PURGE_RECORD_INIT                                                                   \
    {                                                                                              \
        sizeof(howdah_purge_record), 0, HOWDAH_NO_TIME, NULL, NULL, NULL, 0, 0, 0, 0, 0            \
    }

/*
 * Erases payload and headers of events, in one transaction with its record, and what was derived
 * from them.  It cannot be undone.  Processes that run may hold what they have read; the server's
 * own files let go of it with the next vacuum, backups when they are thrown away.
 *
 * Errors: NOT_FOUND (the stream has no event, an id is not stored: nothing is erased), INVALID.
 * Purging what is purged already is no error and keeps no record (id 0).
 */
HOWDAH_API int howdah_purge(howdah_bus *bus, const howdah_purge_options *options,
                            howdah_purge_record *ret_record, howdah_error *reterr);
/* All that were made, in order. */
HOWDAH_API int howdah_purges_walk(howdah_bus *bus,
                                  int (*fn)(void *ctx, const howdah_purge_record *record),
                                  void *ctx, howdah_error *reterr);

#ifdef __cplusplus
}
#endif

#endif
