/*
 * event_row.c - an event out of a row.
 *
 *   I1  Texts stay in the result: nothing is copied.
 *   I2  The bytes of a cell are followed by a NUL (event.h I1).  Of a column, libpq sees to that.
 *       In a record, what follows is the number of the next cell's type, highest byte first, and
 *       those that we know have small numbers.
 *   I3  The server's record is not believed: with other cells than expected the event is broken,
 *       never an ordinary one.
 */
#include <assert.h>
#include <endian.h>
#include <string.h>

#include "store/pg/columns.h"
#include "store/pg/pg.h"

#define OID_RECORD 2249

/* ---- cells, of columns and of a record */

static hw_str column_cell(const PGresult *r, int row, int column)
{
    int len = PQgetlength(r, row, column);

    if (len == 0 && PQgetisnull(r, row, column))
        return HW_STR_NULL;
    return (hw_str){PQgetvalue(r, row, column), (size_t)len};
}

static int32_t int4_at(const char *at)
{
    uint32_t raw;

    memcpy(&raw, at, sizeof raw);
    return (int32_t)be32toh(raw);
}

static int32_t int4_of(hw_str cell, int32_t otherwise)
{
    assert(!cell.s || cell.len == 4);
    return cell.s ? int4_at(cell.s) : otherwise;
}

static int64_t time_of(hw_str cell, int64_t otherwise)
{
    uint64_t raw;

    if (!cell.s)
        return otherwise;
    assert(cell.len == sizeof raw);
    memcpy(&raw, cell.s, sizeof raw);
    return hw_pg_time((int64_t)be64toh(raw));
}

static bool uuid_of(hw_str cell, hw_uuid *ret_uuid)
{
    if (!cell.s)
        return false;
    assert(cell.len == sizeof ret_uuid->b);
    memcpy(ret_uuid->b, cell.s, sizeof ret_uuid->b);
    return true;
}

static bool bool_of(hw_str cell)
{
    return cell.s && *cell.s;
}

/* What most events do not have. */
enum rest {
    BYTES,
    CONTENT_TYPE,
    ACTOR,
    VALID_TIME,
    FAMILY,
    REVISION,
    CORRECTS,
    REASON,
    SCHEMA_VERSION,
    RETRACTS,
    PURGED,
    REST_N
};

static const struct {
    int column;
    Oid oid;
    int size; /* of a value; 0: any */
} rest_cells[REST_N] = {
    [BYTES] = {HW_PG_EVENT_BYTES, HW_OID_BYTEA, 0},
    [CONTENT_TYPE] = {HW_PG_EVENT_CONTENT_TYPE, HW_OID_TEXT, 0},
    [ACTOR] = {HW_PG_EVENT_ACTOR, HW_OID_TEXT, 0},
    [VALID_TIME] = {HW_PG_EVENT_VALID_TIME, HW_OID_TIMESTAMPTZ, 8},
    [FAMILY] = {HW_PG_EVENT_FAMILY, HW_OID_UUID, 16},
    [REVISION] = {HW_PG_EVENT_REVISION, HW_OID_INT4, 4},
    [CORRECTS] = {HW_PG_EVENT_CORRECTS, HW_OID_UUID, 16},
    [REASON] = {HW_PG_EVENT_REASON, HW_OID_TEXT, 0},
    [SCHEMA_VERSION] = {HW_PG_EVENT_SCHEMA_VERSION, HW_OID_INT4, 4},
    [RETRACTS] = {HW_PG_EVENT_RETRACTS, HW_OID_BOOL, 1},
    [PURGED] = {HW_PG_EVENT_PURGED, HW_OID_BOOL, 1},
};

/* A record as the server sends it: how many cells, then of each its type, its length (-1: NULL) and
   its bytes.  False: it is something else (I3). */
static bool read_record(hw_str record, hw_str cells[REST_N])
{
    const char *at = record.s;
    const char *end = record.s + record.len;

    if (record.len < 4 || int4_at(at) != REST_N)
        return false;
    at += 4;
    for (int i = 0; i < REST_N; i++) {
        int32_t len;

        if (end - at < 8 || (Oid)int4_at(at) != rest_cells[i].oid)
            return false;
        len = int4_at(at + 4);
        at += 8;
        cells[i] = HW_STR_NULL;
        if (len == -1)
            continue;
        if (len < 0 || len > end - at || (rest_cells[i].size && rest_cells[i].size != len))
            return false;
        cells[i] = (hw_str){at, (size_t)len};
        at += len;
    }
    return at == end;
}

/* ---- the event */

static void take_rest(const hw_str cells[REST_N], howdah_event *e)
{
    e->content_type = cells[CONTENT_TYPE];
    e->broken = !e->data.s && !cells[BYTES].s;
    if (e->content_type.s)
        e->data = cells[BYTES];
    e->actor = cells[ACTOR];
    e->valid_time_us = time_of(cells[VALID_TIME], e->recorded_at_us);
    e->has_family = uuid_of(cells[FAMILY], &e->family) && !hw_uuid_equal(&e->family, &e->id);
    e->revision = int4_of(cells[REVISION], 1);
    e->has_corrects = uuid_of(cells[CORRECTS], &e->corrects);
    e->reason = cells[REASON];
    e->schema_version = int4_of(cells[SCHEMA_VERSION], 1);
    e->retracts = bool_of(cells[RETRACTS]);
    e->purged = bool_of(cells[PURGED]);
}

static void decode_rest(const PGresult *r, int row, int column, howdah_event *e)
{
    hw_str record = column_cell(r, row, column);
    hw_str cells[REST_N];

    if (record.s && read_record(record, cells)) {
        take_rest(cells, e);
        return;
    }
    e->broken = record.s || !e->data.s;
    e->valid_time_us = e->recorded_at_us;
    e->revision = e->schema_version = 1;
    if (record.s)
        e->data = HW_STR_NULL;
}

static void decode_columns(const PGresult *r, int row, int column, howdah_event *e)
{
    hw_str cells[REST_N];

    for (int i = 0; i < REST_N; i++)
        cells[i] = column_cell(r, row, column + rest_cells[i].column);
    take_rest(cells, e);
}

void hw_pg_decode_event(const PGresult *r, int row, int column, howdah_event *e)
{
    bool terse = PQftype(r, column + HW_PG_TERSE_REST) == OID_RECORD;
    int later = column + (terse ? HW_PG_TERSE_HEADERS : HW_PG_EVENT_HEADERS);

    memset(e, 0, sizeof *e);
    e->global_sequence = hw_pg_get_int8(r, row, column + HW_PG_EVENT_GLOBAL_SEQUENCE);
    (void)uuid_of(column_cell(r, row, column + HW_PG_EVENT_ID), &e->id);
    e->stream = column_cell(r, row, column + HW_PG_EVENT_STREAM);
    e->version = hw_pg_get_int8(r, row, column + HW_PG_EVENT_VERSION);
    e->expected_version = HOWDAH_EXPECT_ANY;
    e->type = column_cell(r, row, column + HW_PG_EVENT_TYPE);
    e->data = column_cell(r, row, column + HW_PG_EVENT_DATA);
    e->headers = column_cell(r, row, later++);
    e->correlation_id = column_cell(r, row, later++);
    e->has_causation = uuid_of(column_cell(r, row, later++), &e->causation_id);
    e->recorded_at_us = time_of(
        column_cell(r, row, terse ? later : column + HW_PG_EVENT_RECORDED_AT), HW_TIME_ABSENT);
    if (terse)
        decode_rest(r, row, column + HW_PG_TERSE_REST, e);
    else
        decode_columns(r, row, column, e);
    if (!e->data.s) /* a raw INSERT gave no payload, or not the one that its content type names */
        e->data = e->content_type.s ? HW_STR_LIT("") : HW_STR_LIT("null");
}
