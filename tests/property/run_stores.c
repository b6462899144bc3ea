/* run_stores.c - the three buses of a run: opened, read back, thrown away. */
#include <inttypes.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "runner.h"

/* ------------------------------------------------------------------ reading back */

static void stray(runner *r, const store *s, const howdah_event *event)
{
    char id[HOWDAH_UUID_SIZE];

    howdah_event_id(event, id);
    (void)printf("# %s: event %s must not be there\n", s->name, id);
    r->found->strays++;
}

static void lose(runner *r, const store *s, uint64_t number, const char *what)
{
    (void)printf("# case %" PRIu64 " of seed %" PRIu64 ": comes back from %s with another %s\n",
                 number, r->o->seed, s->name, what);
    runner_note(r, number);
    r->found->losses++;
}

static void check_event(runner *r, const store *s, const howdah_event *event)
{
    candidate *c = &r->candidates[0];
    char id[HOWDAH_UUID_SIZE];
    const record *m;
    const char *what;
    uint64_t number;
    unsigned k;

    howdah_event_id(event, id);
    if (!candidate_of_id(id, &number, &k) || number < r->o->first ||
        number - r->o->first >= r->o->cases) {
        stray(r, s, event);
        return;
    }
    m = &r->records[number - r->o->first];
    if (k > 0 ? k > m->before : !(m->flags & IN_STORE)) {
        stray(r, s, event);
        return;
    }
    if (k > 0)
        return;
    candidate_make(c, r->o->seed, number);
    what = differs_from_case(event, c, s == &r->stores[SQL] && (m->flags & BY_LINE));
    if (what)
        lose(r, s, number, what);
}

/* Each id is in a store once, so that count and content are all there is to check. */
void runner_read_back(runner *r, store *s)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_reader *reader = NULL;
    const howdah_event *event = NULL;
    int64_t n = 0;
    int status = howdah_reader_open_since(s->bus, 0, &reader, &err);

    while (status >= 0 && (status = howdah_reader_next(reader, &event, &err)) == HOWDAH_OK) {
        check_event(r, s, event);
        n++;
    }
    if (status < 0)
        die("%s: %s", s->name, err.message);
    howdah_reader_close(reader);
    if (n != s->stored) {
        (void)printf("# %s has %" PRId64 " events, should have %" PRId64 "\n", s->name, n,
                     s->stored);
        if (n < s->stored)
            r->found->losses++;
        else
            r->found->strays++;
    }
}

/* ------------------------------------------------------------- opening, closing */

static void open_bus(store *s, const char *name, const char *url, const char *schema)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_settings *settings = NULL;

    s->name = name;
    if (howdah_settings_new(&settings, &err) < 0 ||
        howdah_settings_set(settings, "payload_bytes_max", "4096", &err) < 0 ||
        (schema && howdah_settings_set(settings, "schema", schema, &err) < 0) ||
        howdah_open(url, settings, &s->bus, &err) < 0 || howdah_migrate(s->bus, NULL, &err) < 0)
        die("%s: %s", name, err.message);
    howdah_settings_free(settings);
}

void runner_open(runner *r)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    char url[128];

    (void)snprintf(r->dir, sizeof r->dir, "/tmp/howdah-property.XXXXXX");
    if (!mkdtemp(r->dir))
        die("no directory in /tmp");
    (void)snprintf(url, sizeof url, "sqlite:%s/bus.db", r->dir);
    for (int i = 0; i < 2; i++)
        (void)snprintf(r->schema[i], sizeof r->schema[i], "property_%d_%c", (int)getpid(), "ab"[i]);
    open_bus(&r->stores[SQLITE], "sqlite", url, NULL);
    open_bus(&r->stores[PG], "pg", r->o->pg_url, r->schema[0]);
    open_bus(&r->stores[SQL], "sql", r->o->pg_url, r->schema[1]);
    r->sql = sql_open(r->o->pg_url, r->schema[1]);
    r->command = command_open(r->o->command);
    if (howdah_builder_new(&r->builder, &err) < 0)
        die("%s", err.message);
    r->records = calloc(r->o->cases, sizeof *r->records);
    if (!r->records)
        die("no memory");
}

void runner_tamper(const runner *r)
{
    PGconn *conn = PQconnectdb(r->o->pg_url);
    char id[HOWDAH_UUID_SIZE];
    char sql[512];
    PGresult *result;

    candidate_id(r->o->tamper_case, 0, id);
    (void)snprintf(sql, sizeof sql,
                   "UPDATE %s.events SET data = '{\"total\": 0}' WHERE id = '%s';"
                   " INSERT INTO %s.events (stream, version, type, data)"
                   " VALUES ('nobody', 1, 'never', '{}')",
                   r->schema[0], id, r->schema[0]);
    result = PQexec(conn, sql);
    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        die("%s", PQerrorMessage(conn));
    PQclear(result);
    PQfinish(conn);
}

static void drop_schemas(const runner *r)
{
    PGconn *conn = PQconnectdb(r->o->pg_url);
    char sql[512];

    for (int i = 0; i < 2; i++) {
        const char *name = r->schema[i];

        (void)snprintf(sql, sizeof sql,
                       "SET client_min_messages = warning; DROP SCHEMA %s CASCADE;"
                       " DROP ROLE %s_publish, %s_read, %s_subscribe, %s_admin",
                       name, name, name, name, name);
        PQclear(PQexec(conn, sql));
    }
    PQfinish(conn);
}

void runner_close(runner *r)
{
    char command[128];

    for (int s = 0; s < STORES; s++)
        howdah_close(r->stores[s].bus);
    sql_close(r->sql);
    command_close(r->command);
    howdah_builder_free(r->builder);
    for (size_t i = 0; i < CHUNK; i++) {
        candidate_done(&r->candidates[i]);
        hw_buf_done(&r->lines[i]);
    }
    free(r->records);
    drop_schemas(r);
    (void)snprintf(command, sizeof command, "rm -rf '%s'", r->dir);
    if (system(command) != 0) /* NOLINT(cert-env33-c): a path of our own */
        die("%s", command);
}
