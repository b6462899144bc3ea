/*
 * howdah_sqlite.h - append, push and complete inside the caller's own SQLite transaction.
 *
 * The log lives in the caller's database file beside the caller's tables (its
 * tables are named howdah_...).  The events exist when, and only when, the
 * caller's transaction commits.
 */
#ifndef HOWDAH_HOWDAH_SQLITE_H
#define HOWDAH_HOWDAH_SQLITE_H

#include <howdah/howdah.h>
#include <sqlite3.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * As howdah_append_batch(), on db.  Works in a savepoint of its own, so that a
 * call that is refused leaves the caller's transaction as it was (FULL and I/O
 * errors make SQLite roll all of it back); without an open transaction it is one
 * of its own.  Begin yours with BEGIN IMMEDIATE: a read
 * transaction that turns into a write can fail with SQLITE_BUSY (UNAVAILABLE,
 * RETRYABLE).  For durable events the caller's connection needs journal mode WAL
 * or a rollback journal, and PRAGMA synchronous = FULL.  With WAL set PRAGMA
 * wal_autocheckpoint = 0 as well, unless SQLite is 3.51.3 or later: the automatic
 * checkpoints of older ones can damage a file that several processes write (the
 * WAL-reset bug).  A bus that has the file open empties the log; a program without
 * one runs PRAGMA wal_checkpoint(TRUNCATE) at times, when nobody else writes.
 */
HOWDAH_API
HOWDAH_MUST_CHECK int howdah_sqlite_append(sqlite3 *db, const howdah_event *const *events, size_t n,
                                           const howdah_append_options *options,
                                           howdah_position *ret_positions, howdah_error *reterr);

/* As howdah_correct(), on db, under the same conditions. */
HOWDAH_API
HOWDAH_MUST_CHECK int howdah_sqlite_correct(sqlite3 *db, const howdah_correction *correction,
                                            howdah_position *ret_position, howdah_error *reterr);

/*
 * As howdah_queue_push_batch() and howdah_job_complete(), on db, under the same conditions: jobs
 * exist, and a job is over, when and only when the caller's transaction commits.  Completing a job
 * in the transaction of its effects makes both happen exactly once: LOST means that the lease is
 * another's, and the effects have to be rolled back.
 */
HOWDAH_API
HOWDAH_MUST_CHECK int howdah_sqlite_queue_push(sqlite3 *db, const char *queue,
                                               const howdah_new_job *const *jobs, size_t n,
                                               howdah_pushed *ret_pushed, howdah_error *reterr);
HOWDAH_API
HOWDAH_MUST_CHECK int howdah_sqlite_job_complete(sqlite3 *db, int64_t id, int64_t token,
                                                 const char *result, howdah_error *reterr);

/*
 * Inside the handler of a HOWDAH_CHECKPOINT_TRANSACTIONAL subscription: the connection whose open
 * transaction the checkpoint will be part of.  The handler neither commits nor rolls back.  NULL in
 * every other case.
 */
HOWDAH_API sqlite3 *howdah_delivery_sqlite(const howdah_delivery *delivery);

#ifdef __cplusplus
}
#endif

#endif
