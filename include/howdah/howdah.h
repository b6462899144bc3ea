/*
 * howdah.h - publish events and read them.  The public headers are also the manual.
 *
 * howdah is an event log on PostgreSQL, or on an embedded SQLite file, with the same calls and the
 * same promises:
 *
 *   - an append that returned HOWDAH_OK is never lost;
 *   - a batch is stored whole or not at all, with consecutive versions;
 *   - an event id is stored once, however often it is sent;
 *   - an append whose COMMIT got no answer says so (HOWDAH_OUTCOME_UNKNOWN).  Append the same
 *     events again to find out.
 *
 * What you need, by what you want to do:
 *
 *   begin                   howdah_open(), howdah_migrate(), howdah_close()
 *   publish                 howdah_builder_new(), howdah_builder_set_...(), howdah_builder_build(),
 *                           howdah_append(), howdah_append_batch()
 *   publish from threads    howdah_publisher.h
 *   read                    howdah_reader_open(), howdah_reader_next(), howdah_event_...()
 *   follow                  howdah_tail_open(), howdah_tail_next(), howdah_tail_place()
 *   look after it           howdah_doctor(), howdah_verify(), howdah_facts_walk()
 *   subscribe               howdah_subscriptions.h
 *   share a subscription    howdah_groups.h
 *   share work              howdah_queue.h
 *   ask about the two times howdah_times.h
 *   tokens and webhooks     howdah_gateway.h
 *   in your own transaction howdah_pg.h, howdah_sqlite.h
 *
 * This header includes all parts but the last two.  Only howdah_pg.h needs libpq's header, and only
 * howdah_sqlite.h needs SQLite's; include them yourself.
 *
 * The shortest complete program:
 *
 *     howdah_error err = HOWDAH_ERROR_INIT;
 *     howdah_bus *bus = NULL;
 *     howdah_builder *b = NULL;
 *     howdah_event *event = NULL;
 *     howdah_position pos = HOWDAH_POSITION_INIT;
 *
 *     if (howdah_open("sqlite:orders.db", NULL, &bus, &err) < 0 ||
 *         howdah_migrate(bus, NULL, &err) < 0 ||
 *         howdah_builder_new(&b, &err) < 0)
 *         die(&err);
 *     howdah_builder_set_stream(b, "order-7");
 *     howdah_builder_set_type(b, "order.created");
 *     howdah_builder_set_json(b, "{\"total\":12}", 12);
 *     if (howdah_builder_build(b, &event, &err) < 0 ||
 *         howdah_append(bus, event, NULL, &pos, &err) < 0)
 *         die(&err);
 *     howdah_event_free(event);
 *     howdah_builder_free(b);
 *     howdah_close(bus);
 *
 * Conventions, true of every function here:
 *
 *   - Names are howdah_noun_verb: howdah_queue_push(), howdah_job_complete().  What the bus itself
 *     does is a plain verb: howdah_open(), howdah_append(), howdah_subscribe(), howdah_run().  A
 *     noun alone is a getter: howdah_event_type().  "_walk" calls a function for each of many;
 *     "_get" fetches one thing, or fills in a struct; "_name" is the text for an enum's value.
 *   - A function that can fail returns a status: HOWDAH_OK (0), HOWDAH_END (1, nothing more to
 *     read) or a negative howdah_status.  "s < 0" is the test.
 *   - "ret_..." outputs are written only on success.  "reterr" is written only on failure and may
 *     be NULL.
 *   - Text is UTF-8.  Lengths are in bytes.  Times are microseconds since 1970 UTC (..._us); a time
 *     that is absent is HOWDAH_NO_TIME.  Durations are milliseconds (..._ms).
 *   - One thread at a time uses a handle (bus, reader, builder); different handles are independent.
 *     A second thread that calls on a bus meanwhile gets MISUSE, and nothing happens.  A publisher
 *     is for any number of threads.
 *   - Only four functions start threads: howdah_runner_start(); howdah_worker_new() with
 *     threads > 0; howdah_worker_run() on a queue that has bindings; and howdah_publisher_new().
 *     howdah_runner_stop(), howdah_worker_free() and howdah_publisher_free() end them.
 *   - A handler may use the bus that called it; see howdah_subscriptions.h.
 *   - Structs begin with their size: start with the ..._INIT macro.  A struct of an older or newer
 *     header is fine; one without a size is MISUSE, and nothing happens (but a howdah_error without
 *     a size is only left alone).  Of an array, the first element's size counts for all:
 *     howdah_position p[3] = {HOWDAH_POSITION_INIT};
 *   - NULL where something is needed is MISUSE, or INVALID for a text that has rules.  Getters
 *     accept NULL and return that there is nothing.
 *   - What "_new" made is freed with "_free"; what "_open" opened is closed with "_close".  Both
 *     accept NULL.
 *   - Pointers returned by getters belong to their object.  Do not free them.
 *   - Each function exists since 0.1 unless its comment says otherwise.
 */
#ifndef HOWDAH_HOWDAH_H
#define HOWDAH_HOWDAH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HOWDAH_VERSION_MAJOR 0
#define HOWDAH_VERSION_MINOR 1
#define HOWDAH_VERSION_PATCH 0
#define HOWDAH_VERSION_STRING "0.1.0"

#if defined(__GNUC__)
#define HOWDAH_API __attribute__((visibility("default")))
#define HOWDAH_MUST_CHECK __attribute__((warn_unused_result))
#else
#define HOWDAH_API
#define HOWDAH_MUST_CHECK
#endif

/* ------------------------------------------------------------------ errors */

/*
 * One list, many uses: X(name, value, exit code of the command, text).
 * Values never change.  New ones are added at the end.
 */
#define HOWDAH_STATUS_LIST(X)                                                                      \
    X(FAILED, -1, 1, "failed")                                                                     \
    X(NO_MEMORY, -2, 1, "out of memory")                                                           \
    X(MISUSE, -3, 2, "the call itself is wrong")                                                   \
    X(CONFLICT, -4, 3, "the stream is at another version than expected")                           \
    X(ID_REUSED, -5, 3, "the event id is stored with other content")                               \
    X(NOT_FOUND, -6, 4, "not found")                                                               \
    X(UNAVAILABLE, -7, 5, "the store cannot be reached")                                           \
    X(TIMEOUT, -8, 5, "the store did not answer in time")                                          \
    X(DENIED, -9, 5, "the store refuses this user")                                                \
    X(READ_ONLY, -10, 5, "the store does not accept writes")                                       \
    X(FULL, -11, 5, "the store has no room left")                                                  \
    X(CORRUPT, -12, 5, "the store is damaged")                                                     \
    X(INVALID, -13, 6, "invalid input")                                                            \
    X(LIMIT, -14, 6, "over a limit")                                                               \
    X(LOST, -15, 7, "the lease or leadership is lost")                                             \
    X(SCHEMA, -16, 8, "the schema is missing or of another version")                               \
    X(INTERRUPTED, -17, 130, "interrupted")

typedef enum howdah_status {
    HOWDAH_OK = 0,
    HOWDAH_END = 1,
#define HOWDAH_STATUS_ENUM(name, value, exit_code, text) HOWDAH_##name = (value),
    HOWDAH_STATUS_LIST(HOWDAH_STATUS_ENUM)
#undef HOWDAH_STATUS_ENUM
} howdah_status;

/* What to do next: flags of a howdah_error. */
#define HOWDAH_RETRYABLE 0x1u       /* the same call may succeed later; nothing was stored */
#define HOWDAH_HANDLE_DEAD 0x2u     /* close this handle; no further call on it can succeed */
#define HOWDAH_OUTCOME_UNKNOWN 0x4u /* COMMIT got no answer: repeat the same events */

/* "No value" of a number that cannot be negative: a sequence, a version, a count, a duration. */
#define HOWDAH_ABSENT INT64_C(-1)
/* "No value" of a time (..._us): an open end, or something that has not happened. */
#define HOWDAH_NO_TIME INT64_MIN

/* Caller-owned; start with HOWDAH_ERROR_INIT. */
typedef struct howdah_error {
    size_t size; /* sizeof(howdah_error): tells a later library how much this caller knows */
    int status;
    unsigned flags;
    int64_t actual_version;  /* CONFLICT: the version that the stream has, else HOWDAH_ABSENT */
    int64_t event_index;     /* of a batch: the event at fault, from 0, else HOWDAH_ABSENT */
    char sqlstate[6];        /* PostgreSQL's code, "" when there is none */
    char field[32];          /* INVALID and LIMIT: the field at fault, else "" */
    char message[512];       /* one sentence, no newline; what happened */
    char advice[256];        /* what to do about it, "" when there is nothing to say */
    int64_t actual_revision; /* CONFLICT of a correction: the family's newest one, else ABSENT */
} howdah_error;

#define HOWDAH_ERROR_INIT                                                                          \
    {                                                                                              \
        sizeof(howdah_error), 0, 0, HOWDAH_ABSENT, HOWDAH_ABSENT, "", "", "", "", HOWDAH_ABSENT    \
    }

/* The status's name ("CONFLICT") and what it means, in one line.  Never NULL. */
HOWDAH_API const char *howdah_status_name(int status);
HOWDAH_API const char *howdah_status_text(int status);

/* The exit code that the command uses for a status: 0 for OK and END. */
HOWDAH_API int howdah_status_exit_code(int status);

/* ----------------------------------------------------------- library-wide */

/*
 * The version of the library that is loaded, as HOWDAH_VERSION_STRING was when it was built.
 * howdah_version_check() says whether headers and library fit together: HOWDAH_OK or
 * HOWDAH_MISUSE.
 */
HOWDAH_API const char *howdah_version(void);

/*
 * Tells the allocator of the whole process (glibc's) to keep what is freed: up to 256 MB at the top
 * of the heap.  By default it gives memory back after every page of events that was read, and takes
 * it again for the next one, which costs about a third of the speed of reading.  For a program that
 * reads much: call it first in main().  The library never does it by itself; the command does.
 * Elsewhere than with glibc nothing happens.
 */
HOWDAH_API void howdah_malloc_tune(void);
HOWDAH_API int howdah_version_check(int header_major, int header_minor);
#define HOWDAH_VERSION_CHECK() howdah_version_check(HOWDAH_VERSION_MAJOR, HOWDAH_VERSION_MINOR)

/*
 * Hooks for memory and for the log, for the whole process.  Set them before the first other call:
 * setting them is not thread-safe.  A hook must not call the library.  NULL restores the default
 * (malloc; no log).  The library never writes to stdout or stderr and never exits the process.
 * Nothing that it logs contains a password.
 *
 * All three functions of an allocator are needed, and its size must be that of this library's
 * struct; otherwise MISUSE.
 */
typedef struct howdah_allocator {
    size_t size;
    void *(*alloc)(void *ctx, size_t bytes);
    void *(*realloc)(void *ctx, void *block, size_t bytes);
    void (*free)(void *ctx, void *block);
    void *ctx;
} howdah_allocator;

#define HOWDAH_ALLOCATOR_INIT                                                                      \
    {                                                                                              \
        sizeof(howdah_allocator), NULL, NULL, NULL, NULL                                           \
    }

enum { HOWDAH_LOG_DEBUG = 0, HOWDAH_LOG_INFO = 1, HOWDAH_LOG_WARN = 2, HOWDAH_LOG_ERROR = 3 };
typedef void (*howdah_log_fn)(void *ctx, int level, const char *message);

HOWDAH_API int howdah_allocator_set(const howdah_allocator *allocator);
HOWDAH_API void howdah_log_set(howdah_log_fn fn, void *ctx);

/* Frees text that the library allocated for the caller, where a comment says so. */
HOWDAH_API void howdah_free(void *block);

/* ---------------------------------------------------------------- settings */

/*
 * Settings of one bus.  A setting is a row: a key, an environment variable, a unit, a range, a
 * default and a help text.  The command and the manual are made from the same rows.  A key that
 * does not exist is INVALID, and the error names the nearest key.  So is a value out of range.
 */
typedef struct howdah_settings howdah_settings;

HOWDAH_API HOWDAH_MUST_CHECK int howdah_settings_new(howdah_settings **ret_settings,
                                                     howdah_error *reterr);
HOWDAH_API void howdah_settings_free(howdah_settings *settings);

/* Durations are written 250ms, 5s, 2m; sizes 512, 64KiB, 1MiB; booleans true, false. */
HOWDAH_API int howdah_settings_set(howdah_settings *settings, const char *key, const char *value,
                                   howdah_error *reterr);
/* Sets each setting that has a HOWDAH_... variable in the environment. */
HOWDAH_API int howdah_settings_load_environment(howdah_settings *settings, howdah_error *reterr);
/* The value as text, or NULL when the key does not exist. */
HOWDAH_API const char *howdah_settings_get(const howdah_settings *settings, const char *key);

typedef struct howdah_setting_info {
    size_t size;
    const char *key;
    const char *environment;
    const char *unit; /* "text", "duration", "bytes", "count", "boolean" */
    const char *range;
    const char *default_value;
    const char *help;
} howdah_setting_info;

#define HOWDAH_SETTING_INFO_INIT                                                                   \
    {                                                                                              \
        sizeof(howdah_setting_info), NULL, NULL, NULL, NULL, NULL, NULL                            \
    }

/* The index-th row; HOWDAH_END after the last. */
HOWDAH_API int howdah_settings_describe(size_t index, howdah_setting_info *ret_info);

/* --------------------------------------------------------------------- bus */

typedef struct howdah_bus howdah_bus;

/*
 * Opens a bus.
 *
 *   postgres://user@host1,host2/db   a libpq URL; also postgresql://
 *   host=... dbname=...              a libpq connection string
 *   sqlite:orders.db                 a file, created by howdah_migrate()
 *   sqlite::memory:                  private to this handle, for tests
 *
 * settings may be NULL (defaults) and may be freed after the call.  Opening connects, and fails on
 * a server that accepts no writes unless the setting read_only is on.  It does not look at the
 * schema: the first append or read does, and fails with HOWDAH_SCHEMA when the schema is missing
 * or of another version.
 *
 * When the connection is lost later, the next call connects again, with jittered back-off within
 * connect_timeout.  It waits equally long for a server that accepts no writes yet; after that
 * READ_ONLY is RETRYABLE.
 *
 * Errors: INVALID (url, setting), UNAVAILABLE, TIMEOUT, DENIED, READ_ONLY,
 * CORRUPT.  Free with howdah_close().
 */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_open(const char *url, const howdah_settings *settings,
                                             howdah_bus **ret_bus, howdah_error *reterr);
/*
 * Stops a runner, gives up the subscriptions and frees the bus.  MISUSE, and nothing is closed,
 * when a handler of the bus calls this, or while another thread is in a call on the bus.
 */
HOWDAH_API int howdah_close(howdah_bus *bus);

/* The URL that this bus was opened with.  Its password is masked. */
HOWDAH_API const char *howdah_bus_url(const howdah_bus *bus);

/*
 * Makes the call that runs on this bus, and every later one, return HOWDAH_INTERRUPTED soon.  Safe
 * in a signal handler and from another thread.  howdah_interrupt_clear() undoes it.
 */
HOWDAH_API void howdah_interrupt(howdah_bus *bus);
HOWDAH_API void howdah_interrupt_clear(howdah_bus *bus);

/* ------------------------------------------------------------------ schema */

typedef struct howdah_migrate_options {
    size_t size;
    /* Called for each step applied and for each remark ("role ... not created: ..."). */
    void (*note)(void *ctx, const char *text);
    void *note_ctx;
} howdah_migrate_options;

#define HOWDAH_MIGRATE_OPTIONS_INIT                                                                \
    {                                                                                              \
        sizeof(howdah_migrate_options), NULL, NULL                                                 \
    }

/*
 * Creates the schema or brings it to this library's version: one transaction a step, under a lock.
 * Of two processes that start at once one migrates and the other waits.  Running it again changes
 * nothing.  At the end it raises the log's sequence if that is lower than the numbers in use;
 * appends wait meanwhile.  Errors: SCHEMA when the stored schema is newer than this library, or the
 * text of a step differs from the text that was applied; then nothing is changed.
 */
HOWDAH_API int howdah_migrate(howdah_bus *bus, const howdah_migrate_options *options,
                              howdah_error *reterr);

typedef struct howdah_migration_info {
    size_t size;
    int number;
    const char *name;
    const char *hash;      /* SHA-256 of the step's text, hex */
    int64_t applied_at_us; /* HOWDAH_NO_TIME when it is not applied */
    bool changed;          /* applied with another text than this library's */
    bool unknown;          /* applied by a newer library */
} howdah_migration_info;

/*
 * Calls fn for each step that is known or applied, in order.  A non-zero result of fn ends the
 * walk.  A last step with number -1 and the name "sequence", not applied, means that
 * howdah_migrate() would raise the log's sequence.
 */
HOWDAH_API int howdah_migrations_walk(howdah_bus *bus,
                                      int (*fn)(void *ctx, const howdah_migration_info *step),
                                      void *ctx, howdah_error *reterr);

/*
 * The SQL that howdah_migrate() would run on an empty database, for a DBA.  The url only chooses
 * the dialect; nothing connects to it.  Free the text with howdah_free().
 */
HOWDAH_API int howdah_migrations_sql(const char *url, const howdah_settings *settings,
                                     char **ret_sql, howdah_error *reterr);

/* ------------------------------------------------------------------ events */

/*
 * An event never changes.  Free it with howdah_event_free().  The events that a reader returns
 * belong to the reader; howdah_event_copy() makes one that you keep.
 */
typedef struct howdah_event howdah_event;
typedef struct howdah_builder howdah_builder;

/*
 * A builder collects the fields of an event.  Setters copy what they are given.  A value that
 * breaks a rule is remembered, and howdah_builder_build() reports it.  A builder can build many
 * events; each gets an id of its own unless one was set.
 *
 *   stream         1..255 bytes, no control characters (required)
 *   type           1..255 bytes, segments [A-Za-z0-9_-]+ joined by dots, at most 32 (required)
 *   json           a JSON document, RFC 8259, depth <= 64, no NUL (also not as \u0000), no
 *                  unpaired surrogate.  Stored byte by byte as given.  Of duplicate keys the
 *                  last one counts.  Default {}
 *   bytes          anything, with a content type such as image/png
 *   header         a name (1..255 bytes) and a text value; all together at most 64 KiB
 *   id             default: a new UUIDv7
 *   correlation    1..255 bytes, no control characters
 *   causation      the id of the event that caused this one
 *   actor          1..255 bytes, no control characters
 *   valid_time     when it was true; default: the recorded time.  Years 1 to 9999
 *   schema_version of the payload, 1..2147483647, default 1
 *   expect         the version that the stream must have, see howdah_append_options
 *   global_sequence  absent unless set; append ignores it, because the store assigns it
 */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_builder_new(howdah_builder **ret_builder,
                                                    howdah_error *reterr);
/* A builder with every field of an event, global_sequence and version included. */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_builder_from_event(const howdah_event *event,
                                                           howdah_builder **ret_builder,
                                                           howdah_error *reterr);
HOWDAH_API void howdah_builder_free(howdah_builder *builder);
/* Forgets every field and any error, keeps the memory. */
HOWDAH_API void howdah_builder_reset(howdah_builder *builder);

HOWDAH_API void howdah_builder_set_stream(howdah_builder *builder, const char *stream);
HOWDAH_API void howdah_builder_set_type(howdah_builder *builder, const char *type);
HOWDAH_API void howdah_builder_set_json(howdah_builder *builder, const char *json, size_t len);
HOWDAH_API void howdah_builder_set_bytes(howdah_builder *builder, const void *bytes, size_t len,
                                         const char *content_type);
HOWDAH_API void howdah_builder_add_header(howdah_builder *builder, const char *name,
                                          const char *value);
/* All headers at once, as a JSON object whose values are strings. */
HOWDAH_API void howdah_builder_set_headers_json(howdah_builder *builder, const char *json,
                                                size_t len);
HOWDAH_API void howdah_builder_set_id(howdah_builder *builder, const char *uuid);
HOWDAH_API void howdah_builder_set_correlation(howdah_builder *builder, const char *correlation_id);
HOWDAH_API void howdah_builder_set_causation(howdah_builder *builder, const char *uuid);
HOWDAH_API void howdah_builder_set_actor(howdah_builder *builder, const char *actor);
HOWDAH_API void howdah_builder_set_valid_time(howdah_builder *builder, int64_t valid_time_us);
HOWDAH_API void howdah_builder_set_schema_version(howdah_builder *builder, int64_t schema_version);
HOWDAH_API void howdah_builder_set_expect(howdah_builder *builder, int64_t expected_version);
HOWDAH_API void howdah_builder_set_global_sequence(howdah_builder *builder,
                                                   int64_t global_sequence);

/* Errors: INVALID or LIMIT (error.field names it), NO_MEMORY. */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_builder_build(const howdah_builder *builder,
                                                      howdah_event **ret_event,
                                                      howdah_error *reterr);

HOWDAH_API HOWDAH_MUST_CHECK int howdah_event_copy(const howdah_event *event,
                                                   howdah_event **ret_event, howdah_error *reterr);
HOWDAH_API void howdah_event_free(howdah_event *event);

/*
 * The same event with another payload; every other field stays, global_sequence included.
 * narrow: the payload becomes the value of one top-level member, byte by byte (NOT_FOUND without
 * it).  widen: the payload becomes {"member": payload}.  Both need a JSON payload (INVALID
 * otherwise).  The result is a new event: free it.
 */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_event_narrow(const howdah_event *event, const char *member,
                                                     howdah_event **ret_event,
                                                     howdah_error *reterr);
HOWDAH_API HOWDAH_MUST_CHECK int howdah_event_widen(const howdah_event *event, const char *member,
                                                    howdah_event **ret_event, howdah_error *reterr);

/* HOWDAH_ABSENT for an event that was built, unless its builder had them. */
HOWDAH_API int64_t howdah_event_global_sequence(const howdah_event *event);
HOWDAH_API int64_t howdah_event_version(const howdah_event *event);
/* 36 characters, lower case. */
#define HOWDAH_UUID_SIZE 37
HOWDAH_API void howdah_event_id(const howdah_event *event, char ret_uuid[HOWDAH_UUID_SIZE]);
HOWDAH_API const char *howdah_event_stream(const howdah_event *event);
HOWDAH_API const char *howdah_event_type(const howdah_event *event);
/* The payload: JSON text (content type NULL) or bytes.  A NUL follows the *ret_len bytes. */
HOWDAH_API const char *howdah_event_data(const howdah_event *event, size_t *ret_len);
HOWDAH_API const char *howdah_event_content_type(const howdah_event *event);
/* A JSON object, "{}" when there are none. */
HOWDAH_API const char *howdah_event_headers(const howdah_event *event, size_t *ret_len);
/* NULL when absent. */
HOWDAH_API const char *howdah_event_correlation(const howdah_event *event);
HOWDAH_API const char *howdah_event_actor(const howdah_event *event);
HOWDAH_API const char *howdah_event_reason(const howdah_event *event);
/* false, and an empty string, when absent. */
HOWDAH_API bool howdah_event_causation(const howdah_event *event, char ret_uuid[HOWDAH_UUID_SIZE]);
HOWDAH_API bool howdah_event_corrects(const howdah_event *event, char ret_uuid[HOWDAH_UUID_SIZE]);
/* The family of an event that corrects nothing is the event's own id. */
HOWDAH_API void howdah_event_family(const howdah_event *event, char ret_uuid[HOWDAH_UUID_SIZE]);
HOWDAH_API int howdah_event_revision(const howdah_event *event);
HOWDAH_API int howdah_event_schema_version(const howdah_event *event);
/* false when the event has none yet: it is not stored, and nobody set the valid time. */
HOWDAH_API bool howdah_event_valid_time(const howdah_event *event, int64_t *ret_us);
HOWDAH_API bool howdah_event_recorded_at(const howdah_event *event, int64_t *ret_us);

/*
 * The event as one JSON object, in the field order and spelling of "howdah read --json".
 * A bytes payload becomes "data_base64" and "content_type" instead of "data".
 * Works like snprintf: writes at most room bytes, NUL included, and returns the length of the whole
 * text without the NUL.
 */
HOWDAH_API size_t howdah_event_json(const howdah_event *event, char *out, size_t room);

/*
 * RFC 3339, six decimals, UTC: 2026-01-31T09:30:00.000000Z (needs HOWDAH_TIME_SIZE bytes),
 * and back (any offset).  Errors of parse: INVALID.
 */
#define HOWDAH_TIME_SIZE 28
HOWDAH_API void howdah_time_format(int64_t time_us, char ret_text[HOWDAH_TIME_SIZE]);
HOWDAH_API int howdah_time_parse(const char *text, int64_t *ret_time_us, howdah_error *reterr);

/* ------------------------------------------------------------------ append */

#define HOWDAH_EXPECT_ANY INT64_C(-1)    /* no expectation */
#define HOWDAH_EXPECT_EXISTS INT64_C(-2) /* the stream has at least one event */
#define HOWDAH_EXPECT_NONE INT64_C(0)    /* the stream has no event; N > 0: its last version is N */

/* Where an event is. */
typedef struct howdah_position {
    size_t size; /* of an array, the first element's size counts */
    int64_t global_sequence;
    int64_t version;
    int64_t recorded_at_us;
    int32_t revision;
    int32_t already_stored; /* 1: this id was there before this call, with the same content */
    char id[HOWDAH_UUID_SIZE];
} howdah_position;

#define HOWDAH_POSITION_INIT                                                                       \
    {                                                                                              \
        sizeof(howdah_position), HOWDAH_ABSENT, HOWDAH_ABSENT, HOWDAH_NO_TIME, 0, 0, ""            \
    }

typedef struct howdah_append_options {
    size_t size;
    /*
     * For the first event of each stream in the call, unless that event has an
     * expectation of its own.  An exact N > 0 needs all events on one stream.
     */
    int64_t expected_version;
} howdah_append_options;

#define HOWDAH_APPEND_OPTIONS_INIT                                                                 \
    {                                                                                              \
        sizeof(howdah_append_options), HOWDAH_EXPECT_ANY                                           \
    }

/* Most events of one batch, and most bytes of their payloads together. */
#define HOWDAH_BATCH_EVENTS_MAX 100000
#define HOWDAH_BATCH_BYTES_MAX (256 * 1024 * 1024)

/*
 * Appends one event, or many at once: all or none, in the order given, with consecutive versions in
 * each stream.  A batch may have events of several streams.  When the call returns HOWDAH_OK the
 * events are durable.
 *
 * When an id is already stored with the same stream, type, payload, headers, correlation,
 * causation, actor, valid time and schema version, the call returns its stored position and does
 * not store it again; the expectation is not checked for it.  With other content the call fails
 * with ID_REUSED.
 *
 * ret_positions has room for n positions, the first with its size set, or is NULL.
 *
 * Errors: CONFLICT (error.actual_version), ID_REUSED, INVALID (the same id twice in the batch,
 * expectations that contradict each other), LIMIT, SCHEMA, DENIED, READ_ONLY, FULL, UNAVAILABLE,
 * TIMEOUT.  Then nothing is stored.  The exception is the flag HOWDAH_OUTCOME_UNKNOWN: the events
 * may be stored.  Repeat the call with the same events to find out.
 */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_append(howdah_bus *bus, const howdah_event *event,
                                               const howdah_append_options *options,
                                               howdah_position *ret_position, howdah_error *reterr);
HOWDAH_API HOWDAH_MUST_CHECK int howdah_append_batch(howdah_bus *bus,
                                                     const howdah_event *const *events, size_t n,
                                                     const howdah_append_options *options,
                                                     howdah_position *ret_positions,
                                                     howdah_error *reterr);

/* -------------------------------------------------------------------- read */

typedef struct howdah_reader_options {
    size_t size;
    const char *stream;         /* only this stream */
    const char *type;           /* only this exact type */
    const char *pattern;        /* only types that match: "order.*", "*.created", "order.>" */
    const char *correlation_id; /* only this correlation */
    /*
     * First and last position, both included: versions when a stream is given,
     * else global sequences.  0 means open.
     */
    int64_t from;
    int64_t to;
    int64_t limit; /* most events, 0 = no limit */
    bool backward; /* newest first */
} howdah_reader_options;

#define HOWDAH_READER_OPTIONS_INIT                                                                 \
    {                                                                                              \
        sizeof(howdah_reader_options), NULL, NULL, NULL, NULL, 0, 0, 0, false                      \
    }

typedef struct howdah_reader howdah_reader;

/*
 * Reads events in order of version (when a stream is given) or of global sequence.  A reader
 * fetches batches of read_batch events and holds at most two of them, however long the log is.  It
 * sees what is committed when it fetches a batch.  An event whose transaction commits late can
 * appear below the position that the reader has reached; the reader misses it, a tail does not
 * (see below).
 *
 * The bus may be used for other calls while a reader is open.  Close readers before the bus.
 * Errors: INVALID, SCHEMA, DENIED, UNAVAILABLE, TIMEOUT.  After an error of howdah_reader_next()
 * the reader can only be closed.
 */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_reader_open(howdah_bus *bus,
                                                    const howdah_reader_options *options,
                                                    howdah_reader **ret_reader,
                                                    howdah_error *reterr);

/* All events after the sequence "since"; 0 reads everything. */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_reader_open_since(howdah_bus *bus, int64_t since,
                                                          howdah_reader **ret_reader,
                                                          howdah_error *reterr);

/* HOWDAH_OK and an event that is valid until the next call on this reader, or HOWDAH_END. */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_reader_next(howdah_reader *reader,
                                                    const howdah_event **ret_event,
                                                    howdah_error *reterr);
HOWDAH_API void howdah_reader_close(howdah_reader *reader);

/* One event by its id, and the last event of a stream.  NOT_FOUND without one.  Free the result. */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_event_get(howdah_bus *bus, const char *uuid,
                                                  howdah_event **ret_event, howdah_error *reterr);
HOWDAH_API HOWDAH_MUST_CHECK int howdah_event_get_last(howdah_bus *bus, const char *stream,
                                                       howdah_event **ret_event,
                                                       howdah_error *reterr);

/*
 * The causation tree around an event: its causes up to the root, the event itself, and everything
 * that it caused, directly or not.  Ancestors come first (root first, depth < 0), then the event
 * (depth 0), then the descendants, each after its cause.  At most HOWDAH_CAUSATION_MAX events,
 * each shown once.  A cause that is not stored, or a circle, ends the walk.  A non-zero result of
 * fn ends it early.  NOT_FOUND without the event.
 */
#define HOWDAH_CAUSATION_MAX 10000
HOWDAH_API int howdah_causation_walk(howdah_bus *bus, const char *uuid,
                                     int (*fn)(void *ctx, int depth, const howdah_event *event),
                                     void *ctx, howdah_error *reterr);

/*
 * Whether a pattern means a type: "*" stands for exactly one segment, a trailing ">" for one or
 * more.  false, too, when one of them breaks its rule.  NULL as the pattern means every type.
 */
HOWDAH_API bool howdah_pattern_matches(const char *pattern, const char *type);

/* ---------------------------------------------------------------- follow */

/*
 * A live tail without a checkpoint: events in the order of their sequence, as they become visible.
 * The tail remembers a number that is missing below a visible one, and delivers its event when its
 * transaction commits.  It forgets the number only when no transaction is left that could still use
 * it.  The events of one stream always come in order.
 *
 * When the log is replaced by one that knows less (a fail-over, a restore), the tail goes back to
 * the last event that both have, and hands out all that follows in the log that is there now, under
 * whatever numbers.  It says so through the log hook, and counts it: howdah_tail_returns().
 */
typedef struct howdah_tail howdah_tail;

typedef struct howdah_tail_options {
    size_t size;
    const char *pattern; /* NULL: all */
    int64_t since;       /* events after this sequence; HOWDAH_ABSENT: from now on */
    const char *stream;  /* only this stream, NULL: all */
    const char *place;   /* go on from there: see howdah_tail_place(); not with since */
    bool originals_only; /* no corrections: first revisions only */
} howdah_tail_options;

#define HOWDAH_TAIL_OPTIONS_INIT                                                                   \
    {                                                                                              \
        sizeof(howdah_tail_options), NULL, HOWDAH_ABSENT, NULL, NULL, false                        \
    }

/* Errors: INVALID (pattern, stream, since, place), SCHEMA, UNAVAILABLE, TIMEOUT, DENIED. */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_tail_open(howdah_bus *bus,
                                                  const howdah_tail_options *options,
                                                  howdah_tail **ret_tail, howdah_error *reterr);
/*
 * Waits at most wait_ms (-1: no limit) for the next event.  HOWDAH_OK and an event that is valid
 * until the next call on this tail, or HOWDAH_END when the time is over.  After an error the next
 * call goes on with the event that could not be handed out.
 */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_tail_next(howdah_tail *tail, int wait_ms,
                                                  const howdah_event **ret_event,
                                                  howdah_error *reterr);

/*
 * Where the tail stands, as a text of [A-Za-z0-9._-]: fit for the id of a server-sent event, a
 * header or a URL.  It says that all events that the tail has handed out so far are handled, the
 * last one included; which numbers below are outstanding, because they may still appear; and which
 * log that is.  Between two calls of howdah_tail_next() it stays the same.
 *
 * A tail that is opened with it, later and by any process, with the same filters, hands out what
 * the first one had not: also what commits late, below events that were handed out.  When more is
 * outstanding than fits into the text, some events come again.  If the log was replaced since, it
 * goes back as a tail does; then howdah_tail_returns() is 1.
 *
 * The text ends with NUL; room has to be HOWDAH_PLACE_SIZE or more (else MISUSE).  Its form may
 * change: a later version of the library reads the older ones.  Treat one that comes from a client
 * like any input: it cannot do harm, but it can ask for the log from its beginning.
 */
#define HOWDAH_PLACE_SIZE 2048
HOWDAH_API int howdah_tail_place(howdah_tail *tail, char *ret_place, size_t room,
                                 howdah_error *reterr);
/*
 * How often the tail has gone back because the log was replaced, the opening included.  From then
 * on numbers can be those of other events: places that were taken before say nothing about the
 * events that come now, until a tail has been opened with them.
 */
HOWDAH_API int64_t howdah_tail_returns(const howdah_tail *tail);
HOWDAH_API void howdah_tail_close(howdah_tail *tail);

/*
 * A place that was read, to be compared: for who has one tail for many clients, and decides for
 * each of them and each event.  It needs no bus; several threads may ask one place at once.
 * It is about numbers, and so about one log: see howdah_tail_returns().
 */
typedef struct howdah_place howdah_place;

/* Errors: INVALID (place), NO_MEMORY. */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_place_new(const char *text, howdah_place **ret_place,
                                                  howdah_error *reterr);
HOWDAH_API void howdah_place_free(howdah_place *place);
/* Whether the event with this number was handed out before the place, if the filter let it. */
HOWDAH_API bool howdah_place_covers(const howdah_place *place, int64_t sequence);
/*
 * Whether place covers every number that other does, and both were taken in one log: who stands at
 * place misses nothing of a tail that stands at other.
 */
HOWDAH_API bool howdah_place_includes(const howdah_place *place, const howdah_place *other);

/* ------------------------------------------------------------------ import */

/*
 * Takes events from a table of the same database that has no global sequence, in the order
 * (created_at, id), and numbers them.  map says which column holds which field:
 * "stream=aggregate_id", or a constant: "type:=order.imported".  Fields: id, stream, type, data,
 * created_at (all needed; when not mapped, found by their usual names), headers, correlation_id,
 * causation_id, actor, schema_version.  created_at becomes the valid time.  An id that is not a
 * UUID is turned into one: the same id always into the same UUID.
 *
 * Works in batches.  Each batch is one transaction that also stores how far the import is.  An
 * import that was killed continues there when it is run again.  Run again after its end, it takes
 * only rows after the last one.  A row that breaks a rule ends it with INVALID, which names the
 * row; the batches before it stay.
 */
typedef struct howdah_import_options {
    size_t size;
    const char *table; /* "schema.table" or "table" */
    const char *const *map;
    size_t map_n;
    int64_t batch; /* rows in one transaction, 0: 1000 */
    /* Called after each batch; total is an estimate.  Non-zero ends the import (INTERRUPTED). */
    int (*progress)(void *ctx, int64_t done, int64_t total);
    void *progress_ctx;
} howdah_import_options;

#define HOWDAH_IMPORT_OPTIONS_INIT                                                                 \
    {                                                                                              \
        sizeof(howdah_import_options), NULL, NULL, 0, 0, NULL, NULL                                \
    }

HOWDAH_API int howdah_import(howdah_bus *bus, const howdah_import_options *options,
                             int64_t *ret_imported, howdah_error *reterr);

/* --------------------------------------------------------- status, doctor */

/* A fact about the bus.  The key is stable.  The value is text; number: it is a JSON number. */
typedef struct howdah_fact {
    size_t size;
    const char *key;
    const char *value;
    bool number;
} howdah_fact;

/*
 * Facts for people and monitors: store, server, bus, schema_version, events,
 * head, last_recorded_at, bytes, open_writers (transactions that hold a number
 * and have not ended), oldest_writer_age_s, oldest_writer.
 */
HOWDAH_API int howdah_facts_walk(howdah_bus *bus, int (*fn)(void *ctx, const howdah_fact *fact),
                                 void *ctx, howdah_error *reterr);

typedef enum howdah_severity {
    HOWDAH_GOOD = 0,
    HOWDAH_WARNING = 1,
    HOWDAH_BAD = 2
} howdah_severity;

typedef struct howdah_finding {
    size_t size;
    howdah_severity severity;
    const char *check;   /* "durability", "schema", ... */
    const char *message; /* what was found */
    const char *advice;  /* what to do, "" when all is well */
} howdah_finding;

/*
 * Checks server, schema, privileges, pooler, durability settings and clocks.  The url need not be
 * reachable: that is a finding too.  Returns HOWDAH_OK when every check ran, whatever it found.  A
 * check that does not end within statement_timeout is a WARNING, "not checked: ...": a large store
 * is not a bad one.
 */
HOWDAH_API int howdah_doctor(const char *url, const howdah_settings *settings,
                             int (*fn)(void *ctx, const howdah_finding *finding), void *ctx,
                             howdah_error *reterr);

/*
 * Checks that what is stored is consistent, on a live store: every job that was pushed is in
 * exactly one place, keys and dedup keys belong to jobs that exist, subscriptions are at a
 * position that the log has, streams have all their versions, families are chains, purged events
 * have no payload.  Only reads.  HOWDAH_OK when every check ran, whatever it found.  A non-zero
 * result of fn ends it.  A check that does not end within statement_timeout is a WARNING, as
 * above.
 */
HOWDAH_API int howdah_verify(howdah_bus *bus, int (*fn)(void *ctx, const howdah_finding *finding),
                             void *ctx, howdah_error *reterr);

#ifdef __cplusplus
}
#endif

/* The other parts of this interface: publisher, subscriptions, groups, the work queue, two times.
 */
#include <howdah/howdah_publisher.h>

#include <howdah/howdah_subscriptions.h>

#include <howdah/howdah_gateway.h>
#include <howdah/howdah_groups.h>

#include <howdah/howdah_queue.h>
#include <howdah/howdah_times.h>

#endif
