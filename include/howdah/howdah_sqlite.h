/*
 * howdah_sqlite.h - append, push and complete in your own SQLite transaction.
 *
 *   append                 howdah_sqlite_append()
 *   correct                howdah_sqlite_correct()
 *   push jobs              howdah_sqlite_queue_push()
 *   complete a job         howdah_sqlite_job_complete()
 *   ack a batch            howdah_sqlite_batch_ack()
 *   write in a handler     howdah_delivery_sqlite()
 *
 * The log is in your database file, next to your tables; its own tables are named howdah_...  The
 * events exist if and only if your transaction commits.
 *
 * howdah.h does not include this header: it needs sqlite3.h.
 */
#ifndef HOWDAH_HOWDAH_SQLITE_H
#define HOWDAH_HOWDAH_SQLITE_H

#include <howdah/howdah.h>
#include <sqlite3.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * As howdah_append_batch(), on db.  Works in a savepoint of its own: a call that is refused leaves
 * your transaction as it was (but FULL and I/O errors make SQLite roll all of it back).  Without
 * an open transaction the call is one of its own.  Begin yours with BEGIN IMMEDIATE: a read
 * transaction that turns into a write can fail with SQLITE_BUSY (UNAVAILABLE, RETRYABLE).
 *
 * For durable events your connection needs journal mode WAL or a rollback journal, and PRAGMA
 * synchronous = FULL.  With WAL also set PRAGMA wal_autocheckpoint = 0, unless SQLite is 3.51.3 or
 * later: the automatic checkpoints of older versions can damage a file that several processes write
 * (the WAL-reset bug).  A bus that has the file open then empties the write-ahead log.  A program
 * without a bus runs PRAGMA wal_checkpoint(TRUNCATE) at times, when no other process writes.
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
 * As howdah_queue_push_batch() and howdah_job_complete(), on db, under the same conditions: the
 * jobs exist, and the job is over, if and only if your transaction commits.  Completing a job in
 * the transaction of its effects makes both happen exactly once.  LOST means that the lease is no
 * longer yours: roll the effects back.
 */
HOWDAH_API
HOWDAH_MUST_CHECK int howdah_sqlite_queue_push(sqlite3 *db, const char *queue,
                                               const howdah_new_job *const *jobs, size_t n,
                                               howdah_pushed *ret_pushed, howdah_error *reterr);
HOWDAH_API
HOWDAH_MUST_CHECK int howdah_sqlite_job_complete(sqlite3 *db, int64_t id, int64_t token,
                                                 const char *result, howdah_error *reterr);

/*
 * As howdah_batch_ack_upto() (upto 0: all of the batch), on db, under the same conditions: in the
 * transaction of what the events have caused, each effect happens exactly once.  LOST means that
 * another member has, or had, the events: roll the effects back.  With upto, in several
 * transactions: when a fail-over or an older copy of the file loses one of them, the next call also
 * covers its events, whose effects are lost.
 */
HOWDAH_API
HOWDAH_MUST_CHECK int howdah_sqlite_batch_ack(sqlite3 *db, const char *subscriber_id,
                                              const char *token, int64_t upto,
                                              howdah_error *reterr);

/*
 * In the handler of a HOWDAH_CHECKPOINT_TRANSACTIONAL subscription: the connection with the open
 * transaction that the checkpoint will be part of.  The handler must neither commit nor roll back.
 * NULL in every other case.
 */
HOWDAH_API sqlite3 *howdah_delivery_sqlite(const howdah_delivery *delivery);

#ifdef __cplusplus
}
#endif

#endif
