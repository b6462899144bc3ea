/* open.c - the PostgreSQL store's table of operations; opening and closing. */
#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "engine/rules.h"
#include "store/pg/pg.h"

#define PARAMS_BYTES_MAX ((size_t)1024 * 1024 * 1024 - 1) /* what one message can carry */

/*
 * Takes a store that is only half built, too.  The answer of a ring under way is taken first,
 * so that the ring is not lost with the connection.  The caller's connection stays open.
 */
static void close_pg(hw_store *store)
{
    hw_pg *pg = (hw_pg *)store;

    if (!pg)
        return;
    hw_pg_bell_drain_reply(pg);
    hw_pg_disconnect(pg);
    hw_pg_bell_done(pg);
    hw_free(pg->locks);
    for (int i = 0; i < HW_PG_STATEMENT_COUNT; i++)
        hw_free(pg->sql[i]);
    hw_buf_done(&pg->params);
    PQclear(pg->import_rows);
    hw_free(pg->import_row_array);
    hw_free(pg->url);
    hw_free(pg->schema);
    hw_free(pg->application_name);
    hw_free(pg);
}

static const hw_store_ops operations = {
    .name = "postgresql",
    .close = close_pg,
    .append = hw_pg_append,
    .stream_versions = hw_pg_stream_versions,
    .read_open = hw_pg_read_open,
    .read_next = hw_pg_read_next,
    .read_close = hw_pg_read_close,
    .tree = hw_pg_tree,
    .head = hw_pg_head,
    .first_since = hw_pg_first_since,
    .migrate = hw_pg_migrate,
    .migrate_status = hw_pg_migrate_status,
    .import_columns = hw_pg_import_columns,
    .import_place = hw_pg_import_place,
    .import_rows = hw_pg_import_rows,
    .import_total = hw_pg_import_total,
    .numbers = hw_pg_numbers,
    .status = hw_pg_status,
    .doctor = hw_pg_doctor,
    .subs = &hw_pg_sub_ops,
    .groups = &hw_pg_group_ops,
    .queue = &hw_pg_queue_ops,
    .times = &hw_pg_times_ops,
    .registry = &hw_pg_registry_ops,
};

/*
 * What both ways in share.  Texts of statements are made here, before anybody connects (pg.h
 * I3).
 */
static int new_pg(const char *url, const char *schema, const char *application_name, hw_pg **ret_pg,
                  howdah_error *reterr)
{
    hw_pg *pg = hw_calloc(1, sizeof *pg);
    int s;

    if (!pg)
        return hw_fail_no_memory(reterr);
    pg->base.ops = &operations;
    hw_pg_bell_init(pg);
    pg->params = (hw_buf)HW_BUF_INIT(PARAMS_BYTES_MAX);
    pg->url = hw_strdup(url);
    pg->schema = hw_strdup(schema);
    pg->application_name = hw_strdup(application_name);
    s = pg->url && pg->schema && pg->application_name ? hw_pg_fill_statements(pg, reterr)
                                                      : hw_fail_no_memory(reterr);
    if (s < 0) {
        close_pg(&pg->base);
        return s;
    }
    *ret_pg = pg;
    return HOWDAH_OK;
}

/*
 * Connects at once, so that a wrong URL is told when the bus is opened; the schema is checked
 * by the first operation, because migrating has to be possible without one.
 */
int hw_pg_open(const hw_config *config, hw_store **ret_store, howdah_error *reterr)
{
    hw_pg *pg = NULL;
    int s = new_pg(config->url, config->schema, config->application_name, &pg, reterr);

    if (s < 0)
        return s;
    pg->connect_timeout_ms = config->connect_timeout_ms;
    pg->statement_timeout_ms = config->statement_timeout_ms;
    pg->lock_timeout_ms = config->lock_timeout_ms;
    pg->read_only = config->read_only;
    pg->was_open = config->again;
    pg->allow_lossy = config->allow_lossy;
    pg->interrupt = config->interrupt;
    assert(!pg->conn && !pg->caller_owned);
    s = hw_pg_connect(pg, reterr);
    if (s < 0) {
        close_pg(&pg->base);
        return s;
    }
    *ret_store = &pg->base;
    return HOWDAH_OK;
}

/*
 * The caller's connection is used as it is and left as it was: nothing is set or prepared on
 * it.  A transaction that has failed would refuse everything, so it is refused here, with a
 * reason.
 */
int hw_pg_wrap(PGconn *conn, const char *schema, hw_store **ret_store, howdah_error *reterr)
{
    const char *encoding = PQparameterStatus(conn, "client_encoding");
    PGTransactionStatusType status = PQtransactionStatus(conn);
    hw_pg *pg = NULL;
    int s;

    if (PQstatus(conn) != CONNECTION_OK || status == PQTRANS_UNKNOWN)
        return hw_fail(reterr, HOWDAH_UNAVAILABLE, "the connection given is not open");
    if (status == PQTRANS_ACTIVE || PQpipelineStatus(conn) != PQ_PIPELINE_OFF)
        return hw_fail(reterr, HOWDAH_MISUSE, "the connection given is busy or in pipeline mode");
    if (status == PQTRANS_INERROR)
        return hw_fail(reterr, HOWDAH_MISUSE,
                       "the transaction has failed already: roll back before appending");
    if (!encoding || strcmp(encoding, "UTF8") != 0)
        return hw_fail(reterr, HOWDAH_MISUSE, "the connection's client encoding is not UTF8");
    s = hw_rule_schema_name(hw_str_of(schema), reterr);
    if (s >= 0)
        s = new_pg("", schema, "", &pg, reterr);
    if (s < 0)
        return s;
    pg->conn = conn;
    pg->caller_owned = true;
    pg->statement_timeout_ms = INT64_C(86400000); /* time is the caller's business */
    s = hw_pg_check_schema(pg, reterr);
    if (s < 0) {
        close_pg(&pg->base);
        return s;
    }
    *ret_store = &pg->base;
    return HOWDAH_OK;
}
