/* import.c - reading a foreign table of the same database in the order (created_at, id). */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "store/pg/pg.h"

/* More than the longest text needs: a dozen names of 63 bytes, with every quote doubled. */
#define SQL_BYTES_MAX 16384

/* A table without a schema has the one that find_schema() found. */
static void put_table(hw_buf *sql, const hw_pg *pg, const hw_import_source *source)
{
    if (source->schema.s || pg->import_schema[0]) {
        hw_pg_quote_ident(sql, source->schema.s ? source->schema.s : pg->import_schema);
        hw_buf_putc(sql, '.');
    }
    hw_pg_quote_ident(sql, source->table.s);
}

/* The table as one parameter for to_regclass(): quoted names in a text. */
static int table_param(const hw_pg *pg, const hw_import_source *source, hw_buf *name,
                       howdah_error *reterr)
{
    put_table(name, pg, source);
    return hw_buf_check(name, reterr);
}

/*
 * An unqualified name is looked up as a user would, not in our own search path; only this one
 * transaction sees theirs.  Nothing is found: the schema stays empty, and so does what is asked
 * next.
 */
static int find_schema(hw_pg *pg, const hw_import_source *source, howdah_error *reterr)
{
    hw_buf name = HW_BUF_INIT(2048);
    hw_pg_call call = {.statement = -1,
                       .sql = "SELECT n.nspname FROM pg_catalog.pg_class AS c JOIN"
                              " pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace"
                              " WHERE c.oid = pg_catalog.to_regclass($1)",
                       .text_result = true,
                       .n = 1};
    PGresult *result = NULL;
    int s;
    int back;

    pg->import_schema[0] = '\0';
    if (source->schema.s)
        return HOWDAH_OK;
    s = table_param(pg, source, &name, reterr);
    if (s >= 0)
        s = hw_pg_command(pg, "BEGIN; SET LOCAL search_path TO DEFAULT", reterr);
    if (s >= 0) {
        call.values[0] = hw_buf_str(&name);
        s = hw_pg_exec(pg, &call, &result, reterr);
        back = pg->conn ? hw_pg_command(pg, "ROLLBACK", s < 0 ? NULL : reterr) : HOWDAH_OK;
        s = s < 0 ? s : back;
    }
    hw_pg_abandon(pg);
    if (s >= 0 && PQntuples(result) == 1)
        (void)snprintf(pg->import_schema, sizeof pg->import_schema, "%s", PQgetvalue(result, 0, 0));
    PQclear(result);
    hw_buf_done(&name);
    return s;
}

/*
 * A table without columns cannot be imported either, so no row means that there is no such
 * table.
 */
int hw_pg_import_columns(hw_store *store, hw_import_source *source,
                         int (*fn)(void *ctx, const char *column), void *ctx, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_buf name = HW_BUF_INIT(2048);
    hw_pg_call call = {.statement = -1,
                       .sql = "SELECT a.attname FROM pg_attribute AS a WHERE a.attrelid ="
                              " to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped"
                              " ORDER BY a.attnum",
                       .text_result = true,
                       .n = 1};
    PGresult *result = NULL;
    int s = hw_pg_ready(pg, reterr);

    if (s >= 0)
        s = find_schema(pg, source, reterr);
    if (s >= 0 && !source->schema.s && pg->import_schema[0])
        source->schema = hw_str_of(pg->import_schema);
    if (s >= 0)
        s = table_param(pg, source, &name, reterr);
    call.values[0] = hw_buf_str(&name);
    if (s >= 0)
        s = hw_pg_query(pg, &call, &result, reterr);
    hw_buf_done(&name);
    if (s >= 0 && PQntuples(result) == 0)
        s = hw_advise(reterr, hw_fail(reterr, HOWDAH_NOT_FOUND, "there is no such table"),
                      "give it as SCHEMA.TABLE, in this database");
    for (int i = 0; s >= 0 && i < PQntuples(result); i++)
        if (fn(ctx, PQgetvalue(result, i, 0)) != 0)
            break;
    PQclear(result);
    return s;
}

/* Both texts go into ret_buf, each with its NUL; addresses are taken when it no longer moves. */
int hw_pg_import_place(hw_store *store, hw_str source, hw_buf *ret_buf, hw_import_place *ret_place,
                       howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_buf sql = HW_BUF_INIT(SQL_BYTES_MAX);
    hw_pg_call call = {.statement = -1, .text_result = true, .n = 1, .values = {source.s}};
    PGresult *result = NULL;
    int s = hw_pg_fill_names("SELECT created_at, id, rows FROM @schema@.imports WHERE source = $1",
                             pg->schema, &sql, reterr);

    if (s >= 0) {
        call.sql = hw_buf_str(&sql);
        s = hw_pg_query(pg, &call, &result, reterr);
    }
    hw_buf_done(&sql);
    if (s >= 0 && PQntuples(result) == 0)
        s = HOWDAH_END;
    if (s == HOWDAH_OK) {
        size_t created_len = (size_t)PQgetlength(result, 0, 0);
        size_t id_len = (size_t)PQgetlength(result, 0, 1);

        hw_buf_clear(ret_buf);
        hw_buf_put(ret_buf, PQgetvalue(result, 0, 0), created_len + 1);
        hw_buf_put(ret_buf, PQgetvalue(result, 0, 1), id_len + 1);
        s = hw_buf_check(ret_buf, reterr);
        if (s >= 0) {
            ret_place->source = source;
            ret_place->created_at = (hw_str){ret_buf->data, created_len};
            ret_place->id = (hw_str){ret_buf->data + created_len + 1, id_len};
            ret_place->rows = strtoll(PQgetvalue(result, 0, 2), NULL, 10);
        }
    }
    PQclear(result);
    return s;
}

/* One output column per field: the column as text, a parameter for a constant, or NULL. */
static void put_field(hw_buf *sql, const hw_import_source *source, int field, hw_pg_call *call)
{
    if (source->column[field].s) {
        hw_buf_puts(sql, "t.");
        hw_pg_quote_ident(sql, source->column[field].s);
        hw_buf_puts(sql, "::text");
    } else if (source->constant[field].s) {
        assert(call->n < HW_PG_PARAMS_MAX);
        call->values[call->n] = source->constant[field].s;
        call->types[call->n] = HW_OID_TEXT;
        call->n++;
        hw_buf_printf(sql, "$%d::text", call->n);
    } else {
        hw_buf_puts(sql, "NULL::text");
    }
    hw_buf_puts(sql, ", ");
}

/*
 * The place's texts are compared in the columns' own types: an untyped parameter goes through the
 * type's input function, so that the order is the column's, and its index can be used.
 */
static void put_rows_query(hw_buf *sql, const hw_pg *pg, const hw_import_source *source,
                           const hw_import_place *after, size_t n, hw_pg_call *call)
{
    const char *created = source->column[HW_IMPORT_CREATED_AT].s;
    const char *id = source->column[HW_IMPORT_ID].s;

    assert(created && id);
    hw_buf_puts(sql, "SELECT ");
    for (int i = 0; i < HW_IMPORT_FIELDS; i++)
        put_field(sql, source, i, call);
    hw_buf_puts(sql, "(extract(epoch FROM t.");
    hw_pg_quote_ident(sql, created);
    hw_buf_puts(sql, "::timestamptz) * 1000000)::bigint::text FROM ");
    put_table(sql, pg, source);
    hw_buf_puts(sql, " AS t");
    if (after) {
        hw_buf_puts(sql, " WHERE (t.");
        hw_pg_quote_ident(sql, created);
        hw_buf_puts(sql, ", t.");
        hw_pg_quote_ident(sql, id);
        /* Untyped parameters take the type of the column they are compared with. */
        hw_buf_printf(sql, ") > ($%d, $%d)", call->n + 1, call->n + 2);
        call->values[call->n++] = after->created_at.s;
        call->values[call->n++] = after->id.s;
    }
    hw_buf_puts(sql, " ORDER BY t.");
    hw_pg_quote_ident(sql, created);
    hw_buf_puts(sql, ", t.");
    hw_pg_quote_ident(sql, id);
    hw_buf_printf(sql, " LIMIT %zu", n);
}

/*
 * A row without created_at or id has no place in the order, and no comparison finds it: it is
 * looked for when nothing else is left, so that it is refused and not passed over.
 */
static int refuse_nulls(hw_pg *pg, const hw_import_source *source, howdah_error *reterr)
{
    hw_buf sql = HW_BUF_INIT(SQL_BYTES_MAX);
    hw_pg_call call = {.statement = -1, .text_result = true, .timeout_ms = INT64_C(600000)};
    PGresult *result = NULL;
    int s;

    assert(source->column[HW_IMPORT_ID].s && source->column[HW_IMPORT_CREATED_AT].s);
    hw_buf_puts(&sql, "SELECT t.");
    hw_pg_quote_ident(&sql, source->column[HW_IMPORT_ID].s);
    hw_buf_puts(&sql, "::text FROM ");
    put_table(&sql, pg, source);
    hw_buf_puts(&sql, " AS t WHERE t.");
    hw_pg_quote_ident(&sql, source->column[HW_IMPORT_CREATED_AT].s);
    hw_buf_puts(&sql, " IS NULL OR t.");
    hw_pg_quote_ident(&sql, source->column[HW_IMPORT_ID].s);
    hw_buf_puts(&sql, " IS NULL LIMIT 1");
    s = hw_buf_check(&sql, reterr);
    if (s >= 0) {
        call.sql = hw_buf_str(&sql);
        s = hw_pg_query(pg, &call, &result, reterr);
    }
    hw_buf_done(&sql);
    if (s >= 0 && PQntuples(result) > 0)
        s = PQgetisnull(result, 0, 0)
                ? hw_fail_field(reterr, HOWDAH_INVALID, "id", "a row has none (NULL)")
                : hw_fail_field(reterr, HOWDAH_INVALID, "created_at",
                                "is NULL in the row with id %.64s", PQgetvalue(result, 0, 0));
    PQclear(result);
    return s;
}

/* Texts stay in import_rows, the page; the store owns both until the next import call. */
static int decode_rows(hw_pg *pg, size_t n, howdah_error *reterr)
{
    hw_import_row *rows = hw_calloc(n + 1, sizeof *rows);

    if (!rows)
        return hw_fail_no_memory(reterr);
    hw_free(pg->import_row_array);
    pg->import_row_array = rows;
    for (size_t i = 0; i < n; i++) {
        int row = (int)i;

        for (int f = 0; f < HW_IMPORT_FIELDS; f++)
            if (!PQgetisnull(pg->import_rows, row, f))
                rows[i].field[f] = (hw_str){PQgetvalue(pg->import_rows, row, f),
                                            (size_t)PQgetlength(pg->import_rows, row, f)};
        if (PQgetisnull(pg->import_rows, row, HW_IMPORT_FIELDS))
            return hw_fail_field(reterr, HOWDAH_INVALID, "created_at",
                                 "is NULL in the row with id %.64s",
                                 PQgetvalue(pg->import_rows, row, HW_IMPORT_ID));
        rows[i].created_at_us =
            strtoll(PQgetvalue(pg->import_rows, row, HW_IMPORT_FIELDS), NULL, 10);
    }
    return HOWDAH_OK;
}

/* Ten minutes: without an index on (created_at, id) each page is a scan of the whole table. */
int hw_pg_import_rows(hw_store *store, const hw_import_source *source, const hw_import_place *after,
                      size_t n, const hw_import_row **ret_rows, size_t *ret_n, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_buf sql = HW_BUF_INIT(SQL_BYTES_MAX);
    hw_pg_call call = {.statement = -1, .text_result = true, .timeout_ms = INT64_C(600000)};
    int s;

    PQclear(pg->import_rows);
    pg->import_rows = NULL;
    put_rows_query(&sql, pg, source, after, n, &call);
    s = hw_buf_check(&sql, reterr);
    if (s >= 0) {
        call.sql = hw_buf_str(&sql);
        s = hw_pg_query(pg, &call, &pg->import_rows, reterr);
    }
    hw_buf_done(&sql);
    if (s >= 0) {
        *ret_n = (size_t)PQntuples(pg->import_rows);
        s = *ret_n == 0 && after ? refuse_nulls(pg, source, reterr)
                                 : decode_rows(pg, *ret_n, reterr);
    }
    if (s >= 0)
        *ret_rows = pg->import_row_array;
    return s;
}

/* The planner's estimate for a large table, a count for a small one. */
int hw_pg_import_total(hw_store *store, const hw_import_source *source, int64_t *ret_total,
                       howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_buf name = HW_BUF_INIT(2048);
    hw_buf sql = HW_BUF_INIT(SQL_BYTES_MAX);
    hw_pg_call call = {.statement = -1, .text_result = true, .n = 1};
    PGresult *result = NULL;
    int s = table_param(pg, source, &name, reterr);

    hw_buf_puts(&sql, "SELECT CASE WHEN c.reltuples > 1000000 THEN c.reltuples::bigint"
                      " ELSE (SELECT count(*) FROM ");
    put_table(&sql, pg, source);
    hw_buf_puts(&sql, ") END FROM pg_class AS c WHERE c.oid = to_regclass($1)");
    if (s >= 0)
        s = hw_buf_check(&sql, reterr);
    call.sql = hw_buf_str(&sql);
    call.values[0] = hw_buf_str(&name);
    if (s >= 0)
        s = hw_pg_query(pg, &call, &result, reterr);
    if (s >= 0)
        *ret_total = PQntuples(result) ? strtoll(PQgetvalue(result, 0, 0), NULL, 10) : 0;
    PQclear(result);
    hw_buf_done(&name);
    hw_buf_done(&sql);
    return s;
}
