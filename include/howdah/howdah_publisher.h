/*
 * howdah_publisher.h - many threads append through one handle: part of howdah.h, which includes it.
 *
 * A bus belongs to one thread at a time, and each append on it waits for the disk by itself.  A
 * *publisher* is for any number of threads at once.  What they append while the store is busy goes
 * out together in the next *round*: one statement, one commit, and each caller gets a verdict of
 * its own.  An append that meets an idle publisher goes at once; nothing waits for company.
 *
 *     howdah_publisher *publisher = NULL;
 *     howdah_position position = HOWDAH_POSITION_INIT;
 *
 *     if (howdah_publisher_new(url, NULL, NULL, &publisher, &err) < 0)
 *         die(&err);
 *     ... in any thread:
 *     if (howdah_publisher_append(publisher, &event, 1, NULL, &position, &err) < 0)
 *         ...
 *     ... when all threads are through:
 *     howdah_publisher_free(publisher);
 *
 * What holds for howdah_append_batch() holds here:
 *
 *   - HOWDAH_OK means that the COMMIT has returned.
 *   - The events of one call are stored all or none, with consecutive versions in each stream.
 *   - An event that is stored already is answered with its position.  If the same id is in two
 *     calls of one round, the second one is answered so.
 *   - What is wrong with one call (a conflict, an id that is used for something else, an event that
 *     is invalid or too large) is the error of that call.  Others do not notice.
 *   - Calls of one stream are decided in the order in which they came.  Of many that expect the
 *     same version of a stream exactly one is stored.  With one session that is the order of all.
 *   - While a transaction of somebody else is open that has appended to a stream, the calls of that
 *     stream wait for it.  Others do not, unless there is a pooler between the publisher and the
 *     server.
 *
 * A publisher is a session (or several) of its own.  It is never part of a transaction of the
 * caller's, nor of a handler's; on SQLite it waits for those to end, as any other writer.
 */
#include <howdah/howdah.h> /* before the guard: the other parts need what this one declares */

#ifndef HOWDAH_HOWDAH_PUBLISHER_H
#define HOWDAH_HOWDAH_PUBLISHER_H

#ifdef __cplusplus
extern "C" {
#endif

/* For any number of threads at once, except howdah_publisher_free(). */
typedef struct howdah_publisher howdah_publisher;

#define HOWDAH_PUBLISHER_SESSIONS_MAX 8

typedef struct howdah_publisher_options {
    size_t size;
    /*
     * 1: connections, each with a thread; 1 to HOWDAH_PUBLISHER_SESSIONS_MAX.  With several, rounds
     * overlap, but never two with events of the same stream: two are quicker where there are many
     * streams and many callers.  SQLite has one writer: there it is 1.
     */
    int64_t sessions;
    /*
     * The most that may be on its way at once, in events (10000) and in bytes of their payloads and
     * headers (64 MiB).  A call that would pass this is refused with UNAVAILABLE, RETRYABLE:
     * nothing of it is stored.  One that is larger all by itself gets LIMIT.
     */
    int64_t events_max;
    int64_t bytes_max;
    /*
     * 30000: how long a call may wait, 1 ms to 1 hour.  Over it the call fails with what keeps the
     * store from answering: UNAVAILABLE or TIMEOUT.  A statement that is under way then is
     * cancelled first, which can take some seconds more.
     */
    int64_t wait_ms;
    int64_t close_ms; /* 10000: how long howdah_publisher_free() goes on storing what waits */
} howdah_publisher_options;

#define HOWDAH_PUBLISHER_OPTIONS_INIT                                                              \
    {                                                                                              \
        sizeof(howdah_publisher_options), 1, 10000, 64 * 1024 * 1024, 30000, 10000                 \
    }

/*
 * Opens the store as howdah_open() does, once for each session, and starts a thread for each and
 * one that watches the time.  settings and options may be NULL, and may be freed after the call.
 *
 * Errors: INVALID (url, settings, an option out of range; sqlite::memory:, whose log nobody else
 * could read), those of howdah_open(), FAILED (no thread).  Free with howdah_publisher_free().
 */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_publisher_new(const char *url,
                                                      const howdah_settings *settings,
                                                      const howdah_publisher_options *options,
                                                      howdah_publisher **ret_publisher,
                                                      howdah_error *reterr);

/*
 * Ends the publisher.  It goes on storing what waits for at most close_ms; what is not stored by
 * then fails with UNAVAILABLE, and its callers are told before this function returns.  Calls of
 * howdah_publisher_append() that are under way in other threads return; no new call may begin.
 * Not from a callback of this publisher.
 */
HOWDAH_API void howdah_publisher_free(howdah_publisher *publisher);

/*
 * Appends n events, as howdah_append_batch() does, and waits until they are stored or refused.
 * ret_positions has room for n positions, the first with its size set, or is NULL.
 *
 * When the connection is lost before the answer to a COMMIT, the publisher connects again and
 * repeats the round, which stores nothing twice; the positions then say already_stored.  Only when
 * this does not succeed within wait_ms the calls of that round get HOWDAH_OUTCOME_UNKNOWN: repeat
 * the call with the same events to find out.
 *
 * Errors: those of howdah_append_batch(), and UNAVAILABLE, RETRYABLE when too much waits.
 */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_publisher_append(
    howdah_publisher *publisher, const howdah_event *const *events, size_t n,
    const howdah_append_options *options, howdah_position *ret_positions, howdah_error *reterr);

/* error is NULL when status is HOWDAH_OK, and otherwise valid during the call. */
typedef void (*howdah_published_fn)(void *ctx, int status, const howdah_error *error);

/*
 * The same without waiting: done is called once, from a thread of the publisher, when the events
 * are stored or refused.  By then ret_positions is filled, if they are stored.
 *
 * The array "events" is copied.  The events themselves and ret_positions are borrowed until done is
 * called, and may be freed in it.
 *
 * Callbacks of different calls can run at the same time.  While one runs, the rounds of its thread
 * wait: it should hand over and return.  It may call howdah_publisher_submit(), but neither
 * howdah_publisher_append() nor howdah_publisher_free().
 *
 * HOWDAH_OK: done will be called.  Otherwise it will not: MISUSE, INVALID, LIMIT, NO_MEMORY, and
 * UNAVAILABLE, RETRYABLE when too much waits.
 */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_publisher_submit(
    howdah_publisher *publisher, const howdah_event *const *events, size_t n,
    const howdah_append_options *options, howdah_position *ret_positions, howdah_published_fn done,
    void *ctx, howdah_error *reterr);

/* What a publisher has done and has to do; for a monitor. */
typedef struct howdah_publisher_counts {
    size_t size;
    int64_t waiting_events; /* accepted and not answered yet */
    int64_t waiting_bytes;
    int64_t rounds;  /* that were sent */
    int64_t calls;   /* that were accepted */
    int64_t refused; /* calls that were not, because too much was waiting */
} howdah_publisher_counts;

#define HOWDAH_PUBLISHER_COUNTS_INIT                                                               \
    {                                                                                              \
        sizeof(howdah_publisher_counts), 0, 0, 0, 0, 0                                             \
    }

HOWDAH_API int howdah_publisher_counts_get(const howdah_publisher *publisher,
                                           howdah_publisher_counts *ret_counts);

#ifdef __cplusplus
}
#endif

#endif
