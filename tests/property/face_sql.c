/*
 * face_sql.c - the SQL functions, on a connection and in a schema of their own.
 *
 * One round trip asks about a whole chunk: two functions that only this test has take the cases as
 * arrays, catch what is raised for each, and hand back a line of text for each:
 *
 *   ok                  it may be stored (checked by event_problem(), not appended)
 *   UH006 field: why    refused; event_problem() and append_arrays() say the same
 *   CAST field: why     the text is no json, so that no function of ours was reached
 *   UH003 version       a conflict
 *   anything else       must not be
 */
#include <inttypes.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "property.h"
#include "sql_params.h"
#include "store/pg/pg.h"

/* What a timestamptz can hold, in microseconds since 1970: 4714 BC to 294276 AD. */
#define PG_TIME_MIN (INT64_C(-211813488000000000) + HW_PG_EPOCH_US)
#define PG_TIME_MAX (INT64_C(9223371331200000000) - 1)

struct sql_face {
    PGconn *conn;
    hw_buf check_sql, lines_sql, arrays_sql, batch_sql;
    sql_params params;
    bool asked_lines;
};

static const char wrappers[] =
    "CREATE FUNCTION @schema@.test_cases(ids uuid[], streams text[], types text[], datas text[],"
    " headerses text[], correlations text[], causations uuid[], actors text[],"
    " valid_times timestamptz[], schema_versions integer[], byteses bytea[], content_types text[],"
    " expected bigint[], alone boolean[]) RETURNS SETOF text LANGUAGE plpgsql AS $body$\n"
    "DECLARE\n"
    "  r record; d json; h json; verdict text; problem text; detail text;\n"
    "BEGIN\n"
    "  FOR r IN SELECT * FROM unnest(ids, streams, types, datas, headerses, correlations,"
    "    causations, actors, valid_times, schema_versions, byteses, content_types, expected, alone)"
    "    AS u(id, stream, type, data, headers, correlation, causation, actor, valid_time,"
    "         schema_version, bytes, content_type, expected, alone) LOOP\n"
    "    verdict := NULL; d := NULL; h := NULL;\n"
    "    BEGIN\n"
    "      d := r.data::json;\n"
    "    EXCEPTION WHEN invalid_text_representation THEN verdict := 'CAST data: ' || SQLERRM;\n"
    "    END;\n"
    "    IF r.headers IS NOT NULL AND verdict IS NULL THEN\n"
    "      BEGIN\n"
    "        h := r.headers::json;\n"
    "      EXCEPTION WHEN invalid_text_representation THEN verdict := 'CAST headers: ' || "
    "SQLERRM;\n"
    "      END;\n"
    "    END IF;\n"
    "    IF verdict IS NULL THEN\n"
    "      problem := @schema@.event_problem(r.stream, r.type, d, h, r.correlation, r.actor,"
    "        r.valid_time, r.schema_version, r.bytes, r.content_type, 4096);\n"
    "      IF problem IS NULL AND NOT r.alone AND r.expected >= -2 THEN\n"
    "        verdict := 'ok';\n"
    "      ELSE BEGIN\n"
    "        PERFORM @schema@.append_arrays(ARRAY[r.id], ARRAY[r.stream], ARRAY[r.type], ARRAY[d],"
    "          ARRAY[h], ARRAY[r.correlation], ARRAY[r.causation], ARRAY[r.actor],"
    "          ARRAY[r.valid_time], ARRAY[r.schema_version], ARRAY[r.bytes], ARRAY[r.content_type],"
    "          ARRAY[r.expected]);\n"
    "        verdict := 'stored, although event_problem() said: ' || coalesce(problem, "
    "'nothing');\n"
    "      EXCEPTION\n"
    "        WHEN SQLSTATE 'UH006' THEN\n"
    "          verdict := CASE WHEN problem IS NULL OR problem = SQLERRM THEN 'UH006 ' || SQLERRM"
    "            ELSE format('event_problem(): %s, append_arrays(): %s', problem, SQLERRM) END;\n"
    "        WHEN SQLSTATE 'UH003' THEN\n"
    "          GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;\n"
    "          verdict := 'UH003 ' || detail;\n"
    "        WHEN OTHERS THEN verdict := SQLSTATE || ' ' || SQLERRM;\n"
    "      END;\n"
    "      END IF;\n"
    "    END IF;\n"
    "    RETURN NEXT verdict;\n"
    "  END LOOP;\n"
    "END $body$;\n"
    "CREATE FUNCTION @schema@.test_lines(lines text[]) RETURNS SETOF text LANGUAGE plpgsql"
    " AS $body$\n"
    "DECLARE\n"
    "  line text; j json; verdict text; detail text;\n"
    "BEGIN\n"
    "  FOREACH line IN ARRAY lines LOOP\n"
    "    verdict := NULL;\n"
    "    BEGIN\n"
    "      j := ('[' || line || ']')::json;\n"
    "    EXCEPTION WHEN invalid_text_representation THEN verdict := 'CAST ' || SQLERRM;\n"
    "    END;\n"
    "    IF verdict IS NULL THEN BEGIN\n"
    "      PERFORM @schema@.append_batch(j);\n"
    "      RAISE EXCEPTION USING ERRCODE = 'UHXXX';\n"
    "    EXCEPTION\n"
    "      WHEN SQLSTATE 'UHXXX' THEN verdict := 'ok';\n"
    "      WHEN SQLSTATE 'UH006' THEN verdict := 'UH006 ' || SQLERRM;\n"
    "      WHEN SQLSTATE 'UH003' THEN\n"
    "        GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;\n"
    "        verdict := 'UH003 ' || detail;\n"
    "      WHEN OTHERS THEN verdict := SQLSTATE || ' ' || SQLERRM;\n"
    "    END;\n"
    "    END IF;\n"
    "    RETURN NEXT verdict;\n"
    "  END LOOP;\n"
    "END $body$;\n"
    "INSERT INTO @schema@.meta (key, value) VALUES ('payload_bytes_max', '4096')";

/* ---------------------------------------------------------------------- opening */

static void fill_names(const char *sql, const char *schema, hw_buf *out)
{
    *out = (hw_buf)HW_BUF_INIT(SIZE_MAX);
    if (hw_pg_fill_names(sql, schema, out, NULL) < 0)
        die("no memory");
}

static void must_run(PGconn *conn, const char *sql)
{
    PGresult *result = PQexec(conn, sql);
    ExecStatusType status = PQresultStatus(result);

    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        die("%s: %.200s", PQerrorMessage(conn), sql);
    PQclear(result);
}

sql_face *sql_open(const char *url, const char *schema)
{
    sql_face *s = calloc(1, sizeof *s);
    hw_buf setup;

    if (!s)
        die("no memory");
    s->conn = PQconnectdb(url);
    if (PQstatus(s->conn) != CONNECTION_OK)
        die("%s", PQerrorMessage(s->conn));
    fill_names(wrappers, schema, &setup);
    must_run(s->conn, hw_buf_str(&setup));
    hw_buf_done(&setup);
    fill_names("SELECT * FROM @schema@.test_cases($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11,"
               " $12, $13, $14)",
               schema, &s->check_sql);
    fill_names("SELECT * FROM @schema@.test_lines($1)", schema, &s->lines_sql);
    fill_names("SELECT count(*) FROM @schema@.append_arrays($1, $2, $3, $4, $5, $6, $7, $8, $9,"
               " $10, $11, $12, $13)",
               schema, &s->arrays_sql);
    fill_names("SELECT count(*) FROM @schema@.append_batch($1)", schema, &s->batch_sql);
    s->params.bytes.len_max = SIZE_MAX;
    return s;
}

void sql_close(sql_face *s)
{
    PQfinish(s->conn);
    hw_buf_done(&s->check_sql);
    hw_buf_done(&s->lines_sql);
    hw_buf_done(&s->arrays_sql);
    hw_buf_done(&s->batch_sql);
    hw_buf_done(&s->params.bytes);
    free(s->params.asked);
    free(s);
}

static void send_query(sql_face *s, const hw_buf *sql)
{
    const sql_params *p = &s->params;
    const char *values[SQL_PARAMS_MAX];
    int lengths[SQL_PARAMS_MAX];
    int formats[SQL_PARAMS_MAX];

    if (p->bytes.broken)
        die("no memory");
    for (int i = 0; i < p->n; i++) {
        size_t end = i + 1 < p->n ? p->start[i + 1] : p->bytes.len;

        values[i] = p->bytes.data + p->start[i];
        lengths[i] = (int)(end - p->start[i]);
        formats[i] = 1;
    }
    if (!PQsendQueryParams(s->conn, hw_buf_str(sql), p->n, p->type, values, lengths, formats, 0))
        die("%s", PQerrorMessage(s->conn));
}

/* --------------------------------------------------------------------- questions */

/* Room for questions about n cases; the caller says which. */
static sql_params *start_asking(sql_face *s, size_t n, bool lines)
{
    sql_params *p = &s->params;

    if (n > p->asked_room) {
        size_t *asked = realloc(p->asked, n * sizeof *asked);

        if (!asked)
            die("no memory");
        p->asked = asked;
        p->asked_room = n;
    }
    p->asked_n = 0;
    p->n = 0;
    hw_buf_clear(&p->bytes);
    s->asked_lines = lines;
    return p;
}

/* Typed parameters hold UUIDs, times and numbers only if they are some. */
static bool can_be_typed(const sql_case *one)
{
    const candidate *c = one->c;
    uint32_t ids = BIT(F_ID) | BIT(F_CAUSATION);
    int64_t us;

    return !c->line_only && !one->j->cannot_be_sql && !(one->j->faults & ids) &&
           candidate_time(c, &us) && us >= PG_TIME_MIN && us <= PG_TIME_MAX &&
           c->schema_version >= INT32_MIN && c->schema_version <= INT32_MAX;
}

void sql_ask(sql_face *s, const sql_case *cases, size_t n)
{
    sql_params *p = start_asking(s, n, false);

    for (size_t i = 0; i < n; i++)
        if (can_be_typed(&cases[i]))
            p->asked[p->asked_n++] = i;
    sql_put_columns(p, cases, true);
    sql_put_alone(p, cases);
    send_query(s, &s->check_sql);
}

void sql_ask_lines(sql_face *s, const sql_case *cases, size_t n)
{
    sql_params *p = start_asking(s, n, true);

    for (size_t i = 0; i < n; i++)
        if (cases[i].line && !cases[i].j->cannot_be_sql)
            p->asked[p->asked_n++] = i;
    sql_put_lines(p, cases);
    send_query(s, &s->lines_sql);
}

/* "event 1: " is in front of what a batch says. */
static field field_in(const char *message)
{
    size_t skip = strncmp(message, "event ", 6) == 0 ? 6 + strspn(message + 6, "0123456789") : 0;

    if (skip > 6 && strncmp(message + skip, ": ", 2) == 0)
        message += skip + 2;
    return field_of((hw_str){message, strcspn(message, ":")});
}

static verdict verdict_of(const char *answer)
{
    verdict v = {.outcome = BROKEN, .field = F_NONE};

    if (strcmp(answer, "ok") == 0) {
        v.outcome = STORED;
    } else if (strncmp(answer, "UH006 ", 6) == 0 || strncmp(answer, "CAST ", 5) == 0) {
        v.outcome = REFUSED;
        v.field = field_in(strchr(answer, ' ') + 1);
        v.unordered = *answer == 'C';
    } else if (strncmp(answer, "UH003 ", 6) == 0) {
        v.outcome = CONFLICT;
        v.actual = strtoll(answer + 6, NULL, 10);
    }
    (void)snprintf(v.text, sizeof v.text, "%.180s", answer);
    return v;
}

void sql_answers(sql_face *s, sql_case *cases, size_t n)
{
    PGresult *result = PQgetResult(s->conn);
    face f = s->asked_lines ? FACE_LINES : FACE_SQL;

    if (PQresultStatus(result) != PGRES_TUPLES_OK)
        die("%s", PQerrorMessage(s->conn));
    if ((size_t)PQntuples(result) != s->params.asked_n)
        die("asked about %zu cases, %d answers", s->params.asked_n, PQntuples(result));
    for (size_t k = 0; k < s->params.asked_n; k++) {
        if (s->params.asked[k] < n)
            cases[s->params.asked[k]].j->by[f] = verdict_of(PQgetvalue(result, (int)k, 0));
    }
    PQclear(result);
    while ((result = PQgetResult(s->conn)))
        PQclear(result);
}

/* ----------------------------------------------------------------------- storing */

static bool store_some(sql_face *s, const sql_case *cases, size_t n, bool by_lines,
                       verdict *ret_verdict)
{
    sql_params *p = start_asking(s, n, by_lines);
    PGresult *result;
    bool stored;

    for (size_t i = 0; i < n; i++)
        p->asked[p->asked_n++] = i;
    if (by_lines)
        sql_put_document(p, cases);
    else
        sql_put_columns(p, cases, false);
    send_query(s, by_lines ? &s->batch_sql : &s->arrays_sql);
    result = PQgetResult(s->conn);
    stored = PQresultStatus(result) == PGRES_TUPLES_OK &&
             strtoull(PQgetvalue(result, 0, 0), NULL, 10) == n;
    if (!stored) {
        *ret_verdict = (verdict){.outcome = BROKEN};
        (void)snprintf(ret_verdict->text, sizeof ret_verdict->text, "%s: %.150s",
                       by_lines ? "append_batch" : "append_arrays", PQresultErrorMessage(result));
    }
    PQclear(result);
    while ((result = PQgetResult(s->conn)))
        PQclear(result);
    return stored;
}

size_t sql_store(sql_face *s, const sql_case *cases, size_t n, bool by_lines, verdict *ret_verdict)
{
    if (n == 0 || store_some(s, cases, n, by_lines, ret_verdict))
        return n;
    for (size_t i = 0; i < n; i++)
        if (!store_some(s, cases + i, 1, by_lines, ret_verdict))
            return i;
    return 0;
}
