/* sql_params.c - cases as the binary arrays that the SQL functions take. */
#include "sql_params.h"
#include "base/uuid.h"
#include "store/pg/pg.h"

static void start(sql_params *p, Oid type)
{
    p->start[p->n] = p->bytes.len;
    p->type[p->n++] = type;
}

typedef void (*put_fn)(hw_buf *out, const hw_pg_array *array, const candidate *c);

static void put_text(hw_buf *out, const hw_pg_array *array, const text *t)
{
    if (t->has)
        hw_pg_array_put(out, hw_buf_str(&t->buf), t->buf.len);
    else
        hw_pg_array_put_null(out, array);
}

static void put_uuid(hw_buf *out, const hw_pg_array *array, const text *t)
{
    hw_uuid uuid;

    if (t->has && hw_uuid_parse(hw_buf_str(&t->buf), t->buf.len, &uuid))
        hw_pg_array_put(out, uuid.b, sizeof uuid.b);
    else
        hw_pg_array_put_null(out, array);
}

static void put_id(hw_buf *out, const hw_pg_array *array, const candidate *c)
{
    put_uuid(out, array, &c->id);
}

static void put_stream(hw_buf *out, const hw_pg_array *array, const candidate *c)
{
    put_text(out, array, &c->stream);
}

static void put_type(hw_buf *out, const hw_pg_array *array, const candidate *c)
{
    put_text(out, array, &c->type);
}

static void put_data(hw_buf *out, const hw_pg_array *array, const candidate *c)
{
    if (c->content_type.has)
        hw_pg_array_put_null(out, array);
    else
        put_text(out, array, &c->data);
}

static void put_headers(hw_buf *out, const hw_pg_array *array, const candidate *c)
{
    put_text(out, array, &c->headers);
}

static void put_correlation(hw_buf *out, const hw_pg_array *array, const candidate *c)
{
    put_text(out, array, &c->correlation);
}

static void put_causation(hw_buf *out, const hw_pg_array *array, const candidate *c)
{
    put_uuid(out, array, &c->causation);
}

static void put_actor(hw_buf *out, const hw_pg_array *array, const candidate *c)
{
    put_text(out, array, &c->actor);
}

static void put_valid_time(hw_buf *out, const hw_pg_array *array, const candidate *c)
{
    int64_t us;

    if ((c->valid_time.has || c->has_valid_time_us) && candidate_time(c, &us))
        hw_pg_array_put_int8(out, us - HW_PG_EPOCH_US);
    else
        hw_pg_array_put_null(out, array);
}

static void put_schema_version(hw_buf *out, const hw_pg_array *array, const candidate *c)
{
    (void)array;
    hw_pg_array_put_int4(out, c->has_schema_version ? (int32_t)c->schema_version : 1);
}

static void put_bytes(hw_buf *out, const hw_pg_array *array, const candidate *c)
{
    if (c->content_type.has)
        hw_pg_array_put(out, hw_buf_str(&c->data.buf), c->data.buf.len);
    else
        hw_pg_array_put_null(out, array);
}

static void put_content_type(hw_buf *out, const hw_pg_array *array, const candidate *c)
{
    put_text(out, array, &c->content_type);
}

static void put_expected(hw_buf *out, const hw_pg_array *array, const candidate *c)
{
    (void)array;
    hw_pg_array_put_int8(out, c->expects ? c->expected : HOWDAH_EXPECT_ANY);
}

static const struct {
    Oid element, array;
    put_fn put;
} columns[COLUMNS_N] = {{HW_OID_UUID, HW_OID_UUID_ARRAY, put_id},
                        {HW_OID_TEXT, HW_OID_TEXT_ARRAY, put_stream},
                        {HW_OID_TEXT, HW_OID_TEXT_ARRAY, put_type},
                        {HW_OID_JSON, HW_OID_JSON_ARRAY, put_data},
                        {HW_OID_JSON, HW_OID_JSON_ARRAY, put_headers},
                        {HW_OID_TEXT, HW_OID_TEXT_ARRAY, put_correlation},
                        {HW_OID_UUID, HW_OID_UUID_ARRAY, put_causation},
                        {HW_OID_TEXT, HW_OID_TEXT_ARRAY, put_actor},
                        {HW_OID_TIMESTAMPTZ, HW_OID_TIMESTAMPTZ_ARRAY, put_valid_time},
                        {HW_OID_INT4, HW_OID_INT4_ARRAY, put_schema_version},
                        {HW_OID_BYTEA, HW_OID_BYTEA_ARRAY, put_bytes},
                        {HW_OID_TEXT, HW_OID_TEXT_ARRAY, put_content_type},
                        {HW_OID_INT8, HW_OID_INT8_ARRAY, put_expected}};

/* Documents are texts where they may be no JSON. */
void sql_put_columns(sql_params *p, const sql_case *cases, bool documents_as_text)
{
    for (int i = 0; i < COLUMNS_N; i++) {
        bool as_text = documents_as_text && columns[i].element == HW_OID_JSON;
        hw_pg_array array;

        start(p, as_text ? HW_OID_TEXT_ARRAY : columns[i].array);
        hw_pg_array_begin(&p->bytes, as_text ? HW_OID_TEXT : columns[i].element, p->asked_n,
                          &array);
        for (size_t k = 0; k < p->asked_n; k++)
            columns[i].put(&p->bytes, &array, cases[p->asked[k]].c);
    }
}

#define BOOL_OID 16
#define BOOL_ARRAY_OID 1000

void sql_put_alone(sql_params *p, const sql_case *cases)
{
    hw_pg_array array;

    start(p, BOOL_ARRAY_OID);
    hw_pg_array_begin(&p->bytes, BOOL_OID, p->asked_n, &array);
    for (size_t k = 0; k < p->asked_n; k++)
        hw_pg_array_put(&p->bytes, cases[p->asked[k]].alone ? "\1" : "\0", 1);
}

void sql_put_lines(sql_params *p, const sql_case *cases)
{
    hw_pg_array array;

    start(p, HW_OID_TEXT_ARRAY);
    hw_pg_array_begin(&p->bytes, HW_OID_TEXT, p->asked_n, &array);
    for (size_t k = 0; k < p->asked_n; k++)
        hw_pg_array_put(&p->bytes, hw_buf_str(cases[p->asked[k]].line),
                        cases[p->asked[k]].line->len);
}

void sql_put_document(sql_params *p, const sql_case *cases)
{
    start(p, HW_OID_JSON);
    hw_buf_putc(&p->bytes, '[');
    for (size_t k = 0; k < p->asked_n; k++) {
        if (k > 0)
            hw_buf_putc(&p->bytes, ',');
        hw_buf_put(&p->bytes, hw_buf_str(cases[p->asked[k]].line), cases[p->asked[k]].line->len);
    }
    hw_buf_putc(&p->bytes, ']');
}
