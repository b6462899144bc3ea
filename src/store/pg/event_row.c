/*
 * event_row.c - an event out of a row.
 */
#include <string.h>

#include "store/pg/columns.h"
#include "store/pg/pg.h"

/*
 * One decoder for all statements that give events: they have the columns of columns.h in that
 * order.  Texts stay in the result.
 */
void hw_pg_decode_event(const PGresult *r, int row, int column, howdah_event *e)
{
    memset(e, 0, sizeof *e);
    e->global_sequence = hw_pg_get_int8(r, row, column + HW_PG_EVENT_GLOBAL_SEQUENCE);
    e->version = hw_pg_get_int8(r, row, column + HW_PG_EVENT_VERSION);
    e->expected_version = HOWDAH_EXPECT_ANY;
    (void)hw_pg_get_uuid(r, row, column + HW_PG_EVENT_ID, &e->id);
    e->stream = hw_pg_get_str(r, row, column + HW_PG_EVENT_STREAM);
    e->type = hw_pg_get_str(r, row, column + HW_PG_EVENT_TYPE);
    e->content_type = hw_pg_get_str(r, row, column + HW_PG_EVENT_CONTENT_TYPE);
    e->data =
        hw_pg_get_str(r, row, column + (e->content_type.s ? HW_PG_EVENT_BYTES : HW_PG_EVENT_DATA));
    if (!e->data.s) { /* a raw INSERT gave no payload, or not the one that its content type names */
        e->broken = PQgetisnull(r, row, column + HW_PG_EVENT_DATA) &&
                    PQgetisnull(r, row, column + HW_PG_EVENT_BYTES);
        e->data = e->content_type.s ? HW_STR_LIT("") : HW_STR_LIT("null");
    }
    e->headers = hw_pg_get_str(r, row, column + HW_PG_EVENT_HEADERS);
    e->correlation_id = hw_pg_get_str(r, row, column + HW_PG_EVENT_CORRELATION_ID);
    e->has_causation = hw_pg_get_uuid(r, row, column + HW_PG_EVENT_CAUSATION_ID, &e->causation_id);
    e->actor = hw_pg_get_str(r, row, column + HW_PG_EVENT_ACTOR);
    e->recorded_at_us = hw_pg_get_time(r, row, column + HW_PG_EVENT_RECORDED_AT);
    e->valid_time_us = hw_pg_get_time(r, row, column + HW_PG_EVENT_VALID_TIME);
    if (e->valid_time_us == HW_TIME_ABSENT)
        e->valid_time_us = e->recorded_at_us;
    e->has_family = hw_pg_get_uuid(r, row, column + HW_PG_EVENT_FAMILY, &e->family) &&
                    !hw_uuid_equal(&e->family, &e->id);
    e->revision = hw_pg_get_int4(r, row, column + HW_PG_EVENT_REVISION);
    e->has_corrects = hw_pg_get_uuid(r, row, column + HW_PG_EVENT_CORRECTS, &e->corrects);
    e->reason = hw_pg_get_str(r, row, column + HW_PG_EVENT_REASON);
    e->schema_version = hw_pg_get_int4(r, row, column + HW_PG_EVENT_SCHEMA_VERSION);
    e->retracts = hw_pg_get_bool(r, row, column + HW_PG_EVENT_RETRACTS);
    e->purged = hw_pg_get_bool(r, row, column + HW_PG_EVENT_PURGED);
}
