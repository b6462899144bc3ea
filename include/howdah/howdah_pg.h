/*
 * howdah_pg.h - append, push and complete inside the caller's own PostgreSQL transaction.
 *
 * The connection and the transaction are the caller's: the library sends its
 * statements on it, between the caller's, and neither begins nor commits.  The
 * events exist when, and only when, the caller's transaction (or savepoint)
 * commits.  PREPARE TRANSACTION works.
 */
#ifndef HOWDAH_HOWDAH_PG_H
#define HOWDAH_HOWDAH_PG_H

#include <howdah/howdah.h>
#include <libpq-fe.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * As howdah_append_batch(), on conn.  schema NULL means "howdah".  conn must be
 * idle or inside a transaction, not in pipeline mode, with client encoding UTF8.
 *
 * Inside a transaction the call works in a savepoint of its own: when it fails
 * for a reason of its own (CONFLICT, ID_REUSED, INVALID, LIMIT), the transaction
 * is as it was before the call and can go on.  A serialization failure or a lost
 * connection is handed up with its SQLSTATE: the transaction is the caller's to
 * repeat.  On an idle connection the call is a transaction of its own.
 *
 * Positions are final only once the caller has committed.
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
 * As howdah_queue_push_batch() and howdah_job_complete(), on conn, under the same conditions: jobs
 * exist, and a job is over, when and only when the caller's transaction commits.  Completing a job
 * in the transaction of its effects makes both happen exactly once: LOST means that the lease is
 * another's, and the effects have to be rolled back.
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
 * Inside the handler of a HOWDAH_CHECKPOINT_TRANSACTIONAL subscription: the connection whose open
 * transaction the checkpoint will be part of.  The handler neither commits nor rolls back.  NULL in
 * every other case.
 */
HOWDAH_API PGconn *howdah_delivery_pg(const howdah_delivery *delivery);

#ifdef __cplusplus
}
#endif

#endif
