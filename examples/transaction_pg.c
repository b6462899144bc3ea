/*
 * transaction_pg.c - a row of our own and an event, in one PostgreSQL transaction.
 *
 *     cc transaction_pg.c -o transaction_pg $(pkg-config --cflags --libs howdah libpq)
 *     ./transaction_pg postgres://localhost/shop
 *
 * Either both are there afterwards, or neither is.  The connection is ours: the library sends its
 * statements between BEGIN and COMMIT, and leaves both to us.
 */
#include <howdah/howdah_pg.h>
#include <inttypes.h>
#include <stdio.h>

static int failed(const char *what, const howdah_error *err)
{
    fprintf(stderr, "%s: %s: %s\n", what, howdah_status_name(err->status), err->message);
    return howdah_status_exit_code(err->status);
}

static int run(PGconn *conn, const char *sql)
{
    PGresult *result = PQexec(conn, sql);
    ExecStatusType status = PQresultStatus(result);

    PQclear(result);
    if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK)
        return 0;
    fprintf(stderr, "%s: %s", sql, PQerrorMessage(conn));
    return -1;
}

/* The log's tables, and one of our own. */
static int prepare(const char *url, PGconn *conn)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *bus = NULL;
    int s;

    if (howdah_open(url, NULL, &bus, &err) < 0)
        return failed("open", &err);
    s = howdah_migrate(bus, NULL, &err);
    howdah_close(bus);
    if (s < 0)
        return failed("migrate", &err);
    return run(conn, "SET client_min_messages = warning") ||
           run(conn, "CREATE TABLE IF NOT EXISTS example_orders (total numeric NOT NULL)");
}

static int build(howdah_event **ret_event, howdah_error *err)
{
    howdah_builder *builder = NULL;
    int s = howdah_builder_new(&builder, err);

    if (s < 0)
        return s;
    howdah_builder_set_stream(builder, "order-8");
    howdah_builder_set_type(builder, "order.created");
    howdah_builder_set_json(builder, "{\"total\":12.50}", 15);
    s = howdah_builder_build(builder, ret_event, err);
    howdah_builder_free(builder);
    return s;
}

int main(int argc, char **argv)
{
    const char *url = argc > 1 ? argv[1] : "postgres://localhost/postgres";
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_event *event = NULL;
    const howdah_event *events[1];
    howdah_position position = HOWDAH_POSITION_INIT;
    int code = 1;
    PGconn *conn = PQconnectdb(url);

    if (PQstatus(conn) != CONNECTION_OK) {
        fprintf(stderr, "%s", PQerrorMessage(conn));
        goto out;
    }
    if (prepare(url, conn) != 0)
        goto out;
    if (build(&event, &err) < 0) {
        code = failed("build", &err);
        goto out;
    }

    if (run(conn, "BEGIN") != 0 || run(conn, "INSERT INTO example_orders VALUES (12.50)") != 0)
        goto out;
    events[0] = event;
    if (howdah_pg_append(conn, NULL, events, 1, NULL, &position, &err) < 0) {
        code = failed("append", &err);
        (void)run(conn, "ROLLBACK");
        goto out;
    }
    if (run(conn, "COMMIT") != 0)
        goto out;
    printf("order stored, event %s is version %" PRId64 "\n", position.id, position.version);
    code = 0;

out:
    howdah_event_free(event);
    PQfinish(conn);
    return code;
}
