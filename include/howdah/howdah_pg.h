/*
 * howdah_pg.h - append, push and complete in your own PostgreSQL transaction.
 *
 *   append                 howdah_pg_append()
 *   correct                howdah_pg_correct()
 *   push jobs              howdah_pg_queue_push()
 *   complete a job         howdah_pg_job_complete()
 *   ack a batch            howdah_pg_batch_ack()
 *   write in a handler     howdah_delivery_pg()
 *
 * The connection and the transaction are yours.  The library sends its statements on the
 * connection, between yours; it neither begins nor commits.  The events exist if and only if your
 * transaction (or savepoint) commits.  PREPARE TRANSACTION works.
 *
 * howdah.h does not include this header: it needs libpq-fe.h.
 */
#ifndef HOWDAH_HOWDAH_PG_H
#define HOWDAH_HOWDAH_PG_H

#include <howdah/howdah.h>
#include <libpq-fe.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * As howdah_append_batch(), on conn.  schema NULL means "howdah".  conn must be idle or inside a
 * transaction, not in pipeline mode, with client encoding UTF8.
 *
 * Inside a transaction the call works in a savepoint of its own.  When it fails for a reason of its
 * own (CONFLICT, ID_REUSED, INVALID, LIMIT), the transaction is as it was before the call and can
 * continue.  A serialization failure or a lost connection is returned with its SQLSTATE: repeat the
 * transaction yourself.  On an idle connection the call is a transaction of its own.
 *
 * Positions are final only after you have committed.
 */
HOWDAH_API
HOWDAH_MUST_CHECK int howdah_pg_append(PGconn *conn, const char *schema,
                                       const howdah_event *const *events, size_t n,
                                       const howdah_append_options *options,
                                       howdah_position *ret_positions, howdah_error *reterr);

/* As howdah_correct(), on conn, under the same conditions. */
HOWDAH_API
HOWDAH_MUST_CHECK int howdah_pg_correct(PGconn *conn, const char *schema,
                                        const howdah_correction *correction,
                                        howdah_position *ret_position, howdah_error *reterr);

/*
 * As howdah_queue_push_batch() and howdah_job_complete(), on conn, under the same conditions: the
 * jobs exist, and the job is over, if and only if your transaction commits.  Completing a job in
 * the transaction of its effects makes both happen exactly once.  LOST means that the lease is no
 * longer yours: roll the effects back.
 */
HOWDAH_API
HOWDAH_MUST_CHECK int howdah_pg_queue_push(PGconn *conn, const char *schema, const char *queue,
                                           const howdah_new_job *const *jobs, size_t n,
                                           howdah_pushed *ret_pushed, howdah_error *reterr);
HOWDAH_API
HOWDAH_MUST_CHECK int howdah_pg_job_complete(PGconn *conn, const char *schema, int64_t id,
                                             int64_t token, const char *result,
                                             howdah_error *reterr);

/*
 * As howdah_batch_ack_upto() (upto 0: all of the batch), on conn, under the same conditions: in the
 * transaction of what the events have caused, each effect happens exactly once.  LOST means that
 * another member has, or had, the events: roll the effects back.  With upto, in several
 * transactions: when a fail-over or an older copy of the file loses one of them, the next call also
 * covers its events, whose effects are lost.
 */
HOWDAH_API
HOWDAH_MUST_CHECK int howdah_pg_batch_ack(PGconn *conn, const char *schema,
                                          const char *subscriber_id, const char *token,
                                          int64_t upto, howdah_error *reterr);

/*
 * In the handler of a HOWDAH_CHECKPOINT_TRANSACTIONAL subscription: the connection with the open
 * transaction that the checkpoint will be part of.  The handler must neither commit nor roll back.
 * NULL in every other case.
 */
HOWDAH_API PGconn *howdah_delivery_pg(const howdah_delivery *delivery);

#ifdef __cplusplus
}
#endif

#endif
