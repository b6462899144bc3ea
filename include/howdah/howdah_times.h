/*
 * howdah_times.h - ask about the two times: part of howdah.h, which includes it.
 *
 * Every event has two times.  The valid time says when it was true.  The user sets it: past,
 * future, or not at all, and then it is the recorded time.  The recorded time says since when the
 * log knows the event.  The database sets it, never the client.
 *
 * What you need, by what you want to do:
 *
 *   correct or retract      howdah_correct()
 *   read as of a time       howdah_query_open(), howdah_reader_next(), howdah_reader_knowledge()
 *   count, list             howdah_query_count(), howdah_types_walk(), howdah_streams_walk()
 *   compare two moments     howdah_diff()
 *   rebuild state quickly   howdah_snapshot_store(), howdah_state_open()
 *   read old payloads       howdah_upcast_register()
 *   erase for good          howdah_purge()
 *
 * Nothing is rewritten.  A correction is an event of its own: same stream, type, correlation and
 * causation, the next revision of the same family, a reason, and its own id, global sequence,
 * stream version and recorded time.  The family's id is the id of its first event.  A retraction
 * is a correction that says: this never happened.
 *
 *   - A family is one chain: revisions 1, 2, 3 ... without a gap or a fork, each recorded later
 * than the one before.  Of two corrections at once one is stored, the other gets CONFLICT.
 *   - As of (valid V, known K) means: of each family the revision that was known at K, without
 * those that were retracted by then, and of these the ones whose valid time is not after V.
 *   - The same question always has the same answer once the answer is final: no transaction is open
 *     that could still add to what was known at K.  An answer that is not final yet says so.
 *   - A purge erases payload and headers for good, and keeps who did it, when and why.
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
    const char *data;     /* JSON, or bytes with a content type; NULL: unchanged */
    size_t data_len;
    const char *content_type;  /* NULL: data is JSON */
    int64_t valid_time_us;     /* HOWDAH_NO_TIME: unchanged */
    bool retract;              /* it never happened; data and valid time must be left out */
    const char *headers;       /* a JSON object of strings; NULL: unchanged */
    const char *actor;         /* who corrects; NULL: not named */
    const char *id;            /* of the correction; NULL: a new one */
    int64_t schema_version;    /* of data; 0: unchanged */
    int64_t expected_revision; /* the newest one that the caller knows; 0: any */
} howdah_correction;

#define HOWDAH_CORRECTION_INIT                                                                     \
    {                                                                                              \
        sizeof(howdah_correction), NULL, NULL, NULL, 0, NULL, HOWDAH_NO_TIME, false, NULL, NULL,   \
            NULL, 0, 0                                                                             \
    }

/*
 * Appends the next revision of a family.  A correction with data restores a family that is
 * retracted.  A call that names its id can be repeated, as an append can: it returns the position
 * of what is stored already.
 *
 * Errors: NOT_FOUND (no event has this id); CONFLICT (the newest revision, error.actual_revision,
 * is not the expected one, or another correction was stored at the same time); INVALID and LIMIT
 * (nothing to correct, an empty reason, data for a retraction, no data for a family that is
 * retracted or purged, a retraction of a family that is retracted); and those of howdah_append().
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

/* All filters that are set must match. */
typedef struct howdah_query_options {
    size_t size;
    howdah_view view;
    /* AS_OF only: events whose valid time is not after this.  HOWDAH_NO_TIME: all. */
    int64_t valid_at_us;
    /* AS_OF only: what was known then.  HOWDAH_NO_TIME: now.  A time in the future is INVALID. */
    int64_t known_at_us;
    const char *stream;
    const char *type;
    const char *pattern;
    const char *correlation_id;
    const char *causation_id;
    const char *family;         /* the id of any event of one family (NOT_FOUND without it) */
    const char *const *headers; /* name, value, name, value ...: each header equals its value */
    size_t headers_n;           /* pairs */
    /* Ranges of both times: "from" is included, "before" is not.  HOWDAH_NO_TIME: open. */
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

/* What an answer rests on. */
typedef struct howdah_knowledge {
    size_t size;
    int64_t known_at_us; /* as in the options; HOWDAH_NO_TIME: now */
    int64_t asked_at_us; /* the database's clock when the question was asked */
    bool final;          /* the same question will always have the same answer */
    char waits_for[128]; /* not final: who could still add to it, "" when that is not known */
} howdah_knowledge;

#define HOWDAH_KNOWLEDGE_INIT                                                                      \
    {                                                                                              \
        sizeof(howdah_knowledge), HOWDAH_NO_TIME, HOWDAH_NO_TIME, false, ""                        \
    }

/*
 * Reads what the options ask for, page by page, in any order: read with howdah_reader_next(), end
 * with howdah_reader_close().  An answer as of some time is of the moment of this call, however
 * long it is: a family that is corrected while it is read comes once, with the revision that was
 * known then.  Errors: INVALID (options, known_at_us in the future), NOT_FOUND (family), and those
 * of howdah_reader_open().
 */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_query_open(howdah_bus *bus,
                                                   const howdah_query_options *options,
                                                   howdah_reader **ret_reader,
                                                   howdah_error *reterr);
/* For a reader of howdah_query_open().  It was determined before the first row was read. */
HOWDAH_API int howdah_reader_knowledge(const howdah_reader *reader,
                                       howdah_knowledge *ret_knowledge);

/* How many events the same options would read.  ret_knowledge may be NULL. */
HOWDAH_API int howdah_query_count(howdah_bus *bus, const howdah_query_options *options,
                                  int64_t *ret_count, howdah_knowledge *ret_knowledge,
                                  howdah_error *reterr);

typedef struct howdah_type_stats {
    size_t size;
    const char *type;    /* valid until fn returns */
    int64_t events;      /* this and the following count only what matches the options */
    int64_t corrections; /* revisions above the first */
    int64_t retractions;
    int64_t streams; /* distinct ones */
    int64_t first_valid_us;
    int64_t last_valid_us;
    int64_t first_recorded_us;
    int64_t last_recorded_us;
} howdah_type_stats;

/* Per type, in order of name.  A non-zero result of fn ends the walk.  order, backward and limit of
   the options must not be set. */
HOWDAH_API int howdah_types_walk(howdah_bus *bus, const howdah_query_options *options,
                                 int (*fn)(void *ctx, const howdah_type_stats *stats), void *ctx,
                                 howdah_error *reterr);
/* The distinct streams of the events that match, in order of name; limit is of streams. */
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
 * How the known facts changed between two moments: one change for each family that differs, in the
 * order of the sequence of "after", which is the newest revision.  before is NULL for ADDED.  A
 * family that was added and retracted in between is not a change.  Events are valid until fn
 * returns.  A non-zero result of fn ends the walk.  ret_knowledge is about the later moment and may
 * be NULL.
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
    int64_t version;  /* of the last event that it includes; the stream must have that version */
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
 * Stores a snapshot; it replaces one of the same version.  keep > 0: afterwards only the newest
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
/* By stream and version; stream NULL: all.  Without their data: data is NULL, data_len is set. */
HOWDAH_API int howdah_snapshots_walk(howdah_bus *bus, const char *stream,
                                     int (*fn)(void *ctx, const howdah_snapshot *snapshot),
                                     void *ctx, howdah_error *reterr);
/* Removes those of a stream up to a version (0: all); ret_removed may be NULL. */
HOWDAH_API int howdah_snapshots_remove(howdah_bus *bus, const char *stream, int64_t upto,
                                       int64_t *ret_removed, howdah_error *reterr);
/*
 * The state of a stream at a version (0: the newest): the nearest snapshot at or below it, NULL
 * when there is none, and a reader of the events after it, up to the version.
 */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_state_open(howdah_bus *bus, const char *stream,
                                                   int64_t version, howdah_snapshot **ret_snapshot,
                                                   howdah_reader **ret_reader,
                                                   howdah_error *reterr);

/* --------------------------------------------------------------- upcasting */

/*
 * Upcasts the payload of an old event to the next schema version.  The function reads the event and
 * sets the new payload with howdah_upcast_set_json() or howdah_upcast_set_bytes(), which copy it.
 * It returns HOWDAH_OK, or anything else when it cannot; howdah_upcast_fail() says why.
 */
typedef struct howdah_upcast howdah_upcast;
typedef int (*howdah_upcast_fn)(void *ctx, const howdah_event *event, howdah_upcast *upcast);

HOWDAH_API void howdah_upcast_set_json(howdah_upcast *upcast, const char *json, size_t len);
HOWDAH_API void howdah_upcast_set_bytes(howdah_upcast *upcast, const void *bytes, size_t len,
                                        const char *content_type);
/* Keeps the first 500 bytes; returns HOWDAH_FAILED. */
HOWDAH_API int howdah_upcast_fail(howdah_upcast *upcast, const char *message);

/*
 * From now on every event of this type and this schema version that any call reads on this bus is
 * upcast to the next version, and so on up to the newest version that can be reached.  Purged
 * events and retractions are not upcast.  When a step fails, or is missing (a later step is
 * registered, this one is not), the read fails with INVALID, which names type and version.  In a
 * subscription the event becomes a dead letter, or halts the subscription when it fails closed.
 * What is stored never changes: the dead letter's copy is the event as it is stored.
 *
 * Register before the first read or subscription of the bus.  A runner's threads may call fn at the
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

/* May be called from any thread, once the steps are registered. */
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
    const char *actor;    /* texts are valid until fn returns; howdah_purge() does not set them */
    const char *reason;
    const char *stream;   /* NULL: by ids */
    int64_t events;       /* erased by this purge; those that were purged before do not count */
    int64_t dead_letters; /* erased and discarded */
    int64_t snapshots;    /* removed */
    int64_t jobs; /* that bindings made of these events: waiting ones are cancelled, results and
                     errors of ended ones are erased */
    int64_t left; /* revisions of the same families that still have a payload */
} howdah_purge_record;

#define HOWDAH_PURGE_RECORD_INIT                                                                   \
    {                                                                                              \
        sizeof(howdah_purge_record), 0, HOWDAH_NO_TIME, NULL, NULL, NULL, 0, 0, 0, 0, 0            \
    }

/*
 * Erases payload and headers of events, and what was derived from them, in one transaction with the
 * record of the purge.  It cannot be undone.  Running processes may still hold what they have read.
 * The server's own files lose it with the next vacuum, backups when they are deleted.
 *
 * Errors: NOT_FOUND (the stream has no event, or an id is not stored; nothing is erased), INVALID.
 * Purging what is purged already is not an error and leaves no record (id 0).
 */
HOWDAH_API int howdah_purge(howdah_bus *bus, const howdah_purge_options *options,
                            howdah_purge_record *ret_record, howdah_error *reterr);
/* All purges, in order. */
HOWDAH_API int howdah_purges_walk(howdah_bus *bus,
                                  int (*fn)(void *ctx, const howdah_purge_record *record),
                                  void *ctx, howdah_error *reterr);

#ifdef __cplusplus
}
#endif

#endif
