/*
 * exactly_once_pg.c - book payments, each exactly once, whatever dies in between.
 *
 *     cc exactly_once_pg.c -o exactly_once_pg $(pkg-config --cflags --libs howdah libpq)
 *     ./exactly_once_pg postgres://localhost/shop push 100     a payment of 100
 *     ./exactly_once_pg postgres://localhost/shop crash        dies with the booking in hand
 *     ./exactly_once_pg postgres://localhost/shop              books what is there
 *
 * A job runs at least once.  Here its effect and its end are one transaction, so that either both
 * are there or neither is: a crash undoes the booking, and the next worker makes it.  A worker that
 * was too slow is told by LOST that another has the job now, and takes its booking back.
 */
#include <howdah/howdah_pg.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int failed(const char *what, const howdah_error *err)
{
    fprintf(stderr, "%s: %s: %s\n", what, howdah_status_name(err->status), err->message);
    return howdah_status_exit_code(err->status);
}

/* 0, or -1 and a message; amount is $1 of the statement, NULL: it has none. */
static int run(PGconn *conn, const char *sql, const char *amount)
{
    PGresult *result = PQexecParams(conn, sql, amount ? 1 : 0, NULL, &amount, NULL, NULL, 0);
    int ok = PQresultStatus(result) == PGRES_COMMAND_OK;

    PQclear(result);
    if (!ok)
        fprintf(stderr, "%s: %s", sql, PQerrorMessage(conn));
    return ok ? 0 : -1;
}

/* The booking and the end of its job, or neither. */
static int book(PGconn *conn, const howdah_job *job, int crash)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    const char *amount = howdah_job_data(job, NULL);
    int s;

    if (run(conn, "BEGIN", NULL) != 0 ||
        run(conn, "INSERT INTO example_bookings VALUES ($1)", amount) != 0)
        return -1;
    if (crash)
        _exit(1);
    s = howdah_pg_job_complete(conn, NULL, howdah_job_id(job), howdah_job_token(job), "booked",
                               &err);
    if (s == HOWDAH_LOST)
        return run(conn, "ROLLBACK", NULL); /* another worker books it */
    if (s < 0)
        return failed("complete", &err);
    if (run(conn, "COMMIT", NULL) != 0)
        return -1;
    printf("booked %s in attempt %" PRId64 "\n", amount, howdah_job_attempt(job));
    return 0;
}

/* Until three seconds have brought no job: longer than the lease of a worker that died. */
static int book_all(howdah_bus *bus, PGconn *conn, int crash)
{
    howdah_claim_options options = HOWDAH_CLAIM_OPTIONS_INIT;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_jobs *jobs = NULL;
    int code = 0;
    int s;

    options.lease_ms = 1000;
    while (code == 0 && (s = howdah_queue_claim_wait(bus, "payments", 10, 3000, &options, &jobs,
                                                     &err)) != HOWDAH_END) {
        if (s < 0)
            return failed("claim", &err);
        for (size_t i = 0; code == 0 && i < howdah_jobs_count(jobs); i++)
            code = book(conn, howdah_jobs_at(jobs, i), crash);
        howdah_jobs_free(jobs);
    }
    return code;
}

static int push(howdah_bus *bus, const char *amount)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_new_job job = HOWDAH_NEW_JOB_INIT;

    job.data = amount;
    job.data_len = strlen(amount);
    return howdah_queue_push(bus, "payments", &job, NULL, &err) < 0 ? failed("push", &err) : 0;
}

int main(int argc, char **argv)
{
    const char *url = argc > 1 ? argv[1] : "postgres://localhost/postgres";
    const char *verb = argc > 2 ? argv[2] : "";
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *bus = NULL;
    PGconn *conn = PQconnectdb(url);
    int code = 1;

    if (PQstatus(conn) != CONNECTION_OK)
        fprintf(stderr, "%s", PQerrorMessage(conn));
    else if (howdah_open(url, NULL, &bus, &err) < 0)
        code = failed("open", &err);
    else if (howdah_migrate(bus, NULL, &err) < 0)
        code = failed("migrate", &err);
    else if (run(conn, "SET client_min_messages = warning", NULL) == 0 &&
             run(conn, "CREATE TABLE IF NOT EXISTS example_bookings (amount numeric)", NULL) == 0)
        code = strcmp(verb, "push") == 0 && argc > 3
                   ? push(bus, argv[3])
                   : book_all(bus, conn, strcmp(verb, "crash") == 0);
    howdah_close(bus);
    PQfinish(conn);
    return code == 0 ? 0 : 1;
}
