/* params.c - parameters and results in PostgreSQL's binary format. */
#include <assert.h>
#include <endian.h>
#include <string.h>

#include "base/clock.h"
#include "store/pg/pg.h"

/* values points at memory of the caller's: it has to stay until the call was sent (pg.h). */
static void add(hw_pg_call *call, const char *value, size_t len, int format)
{
    assert(call->n < HW_PG_PARAMS_MAX && len <= INT32_MAX);
    call->values[call->n] = value;
    call->lengths[call->n] = (int)len;
    call->formats[call->n] = format;
    call->n++;
}

/*
 * In binary format a text is its bytes, so that no length is counted twice.  An absent one is
 * NULL.
 */
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

/* The number is put next to the pointer to it, so a call with numbers must not be moved. */
static void add_number(hw_pg_call *call, uint64_t number, size_t len)
{
    assert(call->n < HW_PG_PARAMS_MAX);
    call->numbers[call->n] = number;
    add(call, (const char *)&call->numbers[call->n], len, 1);
}

void hw_pg_param_int8(hw_pg_call *call, int64_t value)
{
    add_number(call, htobe64((uint64_t)value), 8);
}

/* The four bytes come first in the slot: what is sent is the slot's beginning. */
void hw_pg_param_int4(hw_pg_call *call, int32_t value)
{
    uint32_t raw = htobe32((uint32_t)value);
    uint64_t number = 0;

    memcpy(&number, &raw, sizeof raw);
    add_number(call, number, 4);
}

void hw_pg_param_bool(hw_pg_call *call, bool value)
{
    uint64_t number = 0;

    *(uint8_t *)&number = value;
    add_number(call, number, 1);
}

void hw_pg_param_time(hw_pg_call *call, int64_t time_us)
{
    if (time_us == HW_TIME_ABSENT)
        hw_pg_param_null(call);
    else
        hw_pg_param_int8(call, time_us - HW_PG_EPOCH_US);
}

void hw_pg_param_uuid(hw_pg_call *call, bool has, const hw_uuid *uuid)
{
    if (has)
        hw_pg_param_bin(call, uuid->b, sizeof uuid->b);
    else
        hw_pg_param_null(call);
}

/*
 * Header: dimensions, "has nulls", element type, then length and lower bound.  An array without
 * elements has no dimension, and so no length.  n elements have to follow.
 */
void hw_pg_array_begin(hw_buf *out, Oid element, size_t n, hw_pg_array *ret_array)
{
    assert(n <= INT32_MAX);
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
    assert(len <= INT32_MAX); /* UINT32_MAX would be a NULL */
    hw_buf_put_u32(out, (uint32_t)len);
    hw_buf_put(out, bytes, len);
}

/*
 * The header's flag is set afterwards: whether there is a NULL is not known when the array
 * begins.
 */
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

/*
 * Our statements say the type of each column; another length is a mistake in ours, not in the
 * data, and would be there in the first row as well: to ask about each would be felt.
 */
int64_t hw_pg_get_int8(const PGresult *result, int row, int column)
{
    uint64_t raw;

    assert(row > 0 || PQgetlength(result, row, column) == 8);
    memcpy(&raw, PQgetvalue(result, row, column), sizeof raw);
    return (int64_t)be64toh(raw);
}

int64_t hw_pg_get_int8_or(const PGresult *result, int row, int column, int64_t otherwise)
{
    return PQgetisnull(result, row, column) ? otherwise : hw_pg_get_int8(result, row, column);
}

int32_t hw_pg_get_int4(const PGresult *result, int row, int column)
{
    uint32_t raw;

    assert(row > 0 || PQgetlength(result, row, column) == 4);
    memcpy(&raw, PQgetvalue(result, row, column), sizeof raw);
    return (int32_t)be32toh(raw);
}

bool hw_pg_get_bool(const PGresult *result, int row, int column)
{
    return !PQgetisnull(result, row, column) && *PQgetvalue(result, row, column) != 0;
}

/* Points into the result, which libpq ends with a NUL. */
hw_str hw_pg_get_str(const PGresult *result, int row, int column)
{
    if (PQgetisnull(result, row, column))
        return HW_STR_NULL;
    return (hw_str){PQgetvalue(result, row, column), (size_t)PQgetlength(result, row, column)};
}

/* ret_uuid is untouched when there is none. */
bool hw_pg_get_uuid(const PGresult *result, int row, int column, hw_uuid *ret_uuid)
{
    if (PQgetisnull(result, row, column))
        return false;
    assert(row > 0 || PQgetlength(result, row, column) == (int)sizeof ret_uuid->b);
    memcpy(ret_uuid->b, PQgetvalue(result, row, column), sizeof ret_uuid->b);
    return true;
}

#define ARRAY_HEADER 20 /* bytes of a one-dimensional array before its elements */
#define ARRAY_EMPTY 12
#define ELEMENT 12 /* an int8 and its length */

/*
 * The array is not decoded, only measured: elements without NULLs have one size, so its length
 * tells their number.  Anything else is refused.
 */
bool hw_pg_get_int8s(const PGresult *result, int row, int column, const char **ret_array,
                     size_t *ret_n)
{
    size_t len = (size_t)PQgetlength(result, row, column);

    *ret_array = PQgetvalue(result, row, column);
    *ret_n = len < ARRAY_HEADER ? 0 : (len - ARRAY_HEADER) / ELEMENT;
    return len == 0 || len == ARRAY_EMPTY || len == ARRAY_HEADER + *ret_n * ELEMENT;
}

int64_t hw_pg_int8_at(const char *array, size_t i)
{
    uint64_t raw;

    memcpy(&raw, array + ARRAY_HEADER + i * ELEMENT + 4, sizeof raw);
    return (int64_t)be64toh(raw);
}

/* PostgreSQL's infinities are outside our years; the nearest time inside stands for them. */
int64_t hw_pg_time(int64_t t)
{
    if (t <= HW_TIME_MIN_US - HW_PG_EPOCH_US)
        return HW_TIME_MIN_US;
    if (t >= HW_TIME_MAX_US - HW_PG_EPOCH_US)
        return HW_TIME_MAX_US;
    return t + HW_PG_EPOCH_US;
}

int64_t hw_pg_get_time(const PGresult *result, int row, int column)
{
    if (PQgetisnull(result, row, column))
        return HW_TIME_ABSENT;
    return hw_pg_time(hw_pg_get_int8(result, row, column));
}

/* ------------------------------------------------------------ many arrays */

/*
 * An array ends where the next one starts, so each is begun only after the one before is
 * complete.
 */
void hw_pg_arrays_begin(hw_pg_arrays *arrays, Oid element, size_t n, hw_pg_array *ret_array)
{
    assert(arrays->n < HW_PG_PARAMS_MAX);
    hw_pg_array_begin(arrays->out, element, n, ret_array);
    arrays->start[arrays->n++] = ret_array->start;
}

void hw_pg_arrays_skip(hw_pg_arrays *arrays)
{
    assert(arrays->n < HW_PG_PARAMS_MAX);
    arrays->start[arrays->n++] = arrays->out->len;
}

/*
 * The buffer may have moved while it grew: addresses are taken here.  No bytes at all: it was
 * skipped.
 */
void hw_pg_param_arrays(hw_pg_call *call, const hw_pg_arrays *arrays)
{
    assert(!arrays->out->broken);
    for (int i = 0; i < arrays->n; i++) {
        size_t start = arrays->start[i];
        size_t end = i + 1 < arrays->n ? arrays->start[i + 1] : arrays->out->len;

        if (end == start)
            hw_pg_param_null(call);
        else
            hw_pg_param_bin(call, arrays->out->data + start, end - start);
    }
}
