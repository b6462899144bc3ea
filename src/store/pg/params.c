/* params.c - parameters and results in PostgreSQL's binary format. */
#include <assert.h>
#include <endian.h>
#include <string.h>

#include "store/pg/pg.h"

static void add(hw_pg_call *call, const char *value, size_t len, int format)
{
    assert(call->n < HW_PG_PARAMS_MAX);
    call->values[call->n] = value;
    call->lengths[call->n] = (int)len;
    call->formats[call->n] = format;
    call->n++;
}

/* In binary format a text is its bytes, so that no length is counted twice. */
void hw_pg_param_str(hw_pg_call *call, hw_str value)
{
    add(call, value.s, value.len, 1);
}

void hw_pg_param_bin(hw_pg_call *call, const void *bytes, size_t len)
{
    add(call, bytes, len, 1);
}

void hw_pg_param_null(hw_pg_call *call)
{
    add(call, NULL, 0, 1);
}

/* Header: dimensions, "has nulls", element type, then length and lower bound. */
void hw_pg_array_begin(hw_buf *out, Oid element, size_t n, hw_pg_array *ret_array)
{
    ret_array->start = out->len;
    ret_array->null_flag = out->len + 4;
    ret_array->element = element;
    hw_buf_put_u32(out, n > 0 ? 1 : 0);
    hw_buf_put_u32(out, 0);
    hw_buf_put_u32(out, element);
    if (n > 0) {
        hw_buf_put_u32(out, (uint32_t)n);
        hw_buf_put_u32(out, 1);
    }
}

void hw_pg_array_put(hw_buf *out, const void *bytes, size_t len)
{
    hw_buf_put_u32(out, (uint32_t)len);
    hw_buf_put(out, bytes, len);
}

void hw_pg_array_put_null(hw_buf *out, const hw_pg_array *array)
{
    hw_buf_put_u32(out, UINT32_MAX);
    if (!out->broken)
        out->data[array->null_flag + 3] = 1;
}

void hw_pg_array_put_int4(hw_buf *out, int32_t value)
{
    hw_buf_put_u32(out, 4);
    hw_buf_put_u32(out, (uint32_t)value);
}

void hw_pg_array_put_int8(hw_buf *out, int64_t value)
{
    hw_buf_put_u32(out, 8);
    hw_buf_put_u64(out, (uint64_t)value);
}

int64_t hw_pg_get_int8(const PGresult *result, int row, int column)
{
    uint64_t raw;

    assert(PQgetlength(result, row, column) == 8);
    memcpy(&raw, PQgetvalue(result, row, column), sizeof raw);
    return (int64_t)be64toh(raw);
}

int32_t hw_pg_get_int4(const PGresult *result, int row, int column)
{
    uint32_t raw;

    assert(PQgetlength(result, row, column) == 4);
    memcpy(&raw, PQgetvalue(result, row, column), sizeof raw);
    return (int32_t)be32toh(raw);
}
