/* pg.h - what the parts of a bench on PostgreSQL share. */
#ifndef HW_BENCH_PG_H
#define HW_BENCH_PG_H

#include <libpq-fe.h>

#include "bench/site.h"

/* ---- pg.c */

/* asof: behind the name of the ceiling's table: that of one which knows one time only. */
#define BENCH_PG_ONE_TIME "_one"

/* What the result, or (NULL) the connection, says. */
int bench_pg_fail(const PGconn *conn, const PGresult *result, howdah_error *reterr);
/* Ends the result. */
int bench_pg_expect(const PGconn *conn, PGresult *result, ExecStatusType wanted,
                    howdah_error *reterr);
/*
 * The session has the durability that ours has: synchronous_commit is never off, unless the user
 * allows it (then both sides have what the server has).
 */
int bench_pg_connect(const bench_site *site, PGconn **ret_conn, howdah_error *reterr);

/* Every column that howdah_reader_next() brings: both sides move the same bytes. */
#define BENCH_PG_COLUMNS_READ                                                                      \
    "global_sequence, id, stream, version, type, data, bytes, content_type, headers,"              \
    " correlation_id, causation_id, actor, valid_time, recorded_at, family, revision, corrects,"   \
    " reason, schema_version"

/* ---- pg_ceilings.c */

int bench_pg_open_client(const bench_site *site, unsigned number, bench_client **ret_client,
                         howdah_error *reterr);

/* ---- pg_queue.c */

int bench_pg_make_queue(PGconn *conn, const bench_site *site, howdah_error *reterr);
int bench_pg_open_bare(const bench_site *site, unsigned number, bench_client **ret_client,
                       howdah_error *reterr);

/* ---- pg_group.c */

int bench_pg_open_range_reader(const bench_site *site, unsigned number, bench_client **ret_client,
                               howdah_error *reterr);
int bench_pg_open_sql_member(const bench_site *site, unsigned number, bench_client **ret_client,
                             howdah_error *reterr);

/* ---- pg_listener.c */

int bench_pg_open_subscribers(const bench_site *site, bench_subscribers **ret_subscribers,
                              howdah_error *reterr);

#endif
