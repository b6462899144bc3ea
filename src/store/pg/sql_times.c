/*
 * sql_times.c - the statements of corrections, queries, snapshots and purges.
 *
 * What they do is written once, in sql/pg/functions, for the library and for everybody else; the
 * statements here only call it.  Those that give events are in sql.c, where the columns are.
 */
#include "store/pg/pg.h"

static const Oid correction_types[] = {HW_OID_UUID, HW_OID_UUID,        HW_OID_JSON, HW_OID_JSON,
                                       HW_OID_TEXT, HW_OID_TIMESTAMPTZ, HW_OID_INT4, HW_OID_BYTEA,
                                       HW_OID_TEXT, HW_OID_TEXT,        HW_OID_BOOL, HW_OID_BOOL};
static const Oid query_types[] = {HW_PG_TIMES_QUERY_TYPES};
static const Oid keys_types[] = {HW_PG_TIMES_QUERY_TYPES, HW_OID_TEXT, HW_OID_BOOL, HW_OID_INT8,
                                 HW_OID_TIMESTAMPTZ,      HW_OID_INT8};
static const Oid streams_types[] = {HW_PG_TIMES_QUERY_TYPES, HW_OID_TEXT, HW_OID_INT8};
static const Oid time_type[] = {HW_OID_TIMESTAMPTZ};
static const Oid put_types[] = {HW_OID_TEXT, HW_OID_INT8,  HW_OID_JSON, HW_OID_INT4,
                                HW_OID_INT8, HW_OID_BYTEA, HW_OID_TEXT};
static const Oid get_types[] = {HW_OID_TEXT, HW_OID_INT8};
static const Oid list_types[] = {HW_OID_TEXT, HW_OID_TEXT, HW_OID_INT8, HW_OID_INT8};
static const Oid purge_types[] = {HW_OID_TEXT, HW_OID_UUID_ARRAY, HW_OID_BOOL, HW_OID_TEXT,
                                  HW_OID_TEXT};
static const Oid purges_types[] = {HW_OID_INT8, HW_OID_INT8};

#define TYPES(array) (array), (int)(sizeof(array) / sizeof(array)[0])

/* clang-format off */
const hw_pg_statement_row hw_pg_times_statements[HW_PG_STATEMENT_COUNT] = {
    /* The columns of other appends, and two more. */
    [HW_PG_APPEND_CORRECTION] = {"SELECT c.global_sequence, c.version, c.recorded_at, c.mark,"
                                 " c.revision, c.already_stored FROM @schema@.append_correction("
                                 "$1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) AS c",
                                 TYPES(correction_types)},
    [HW_PG_QUERY_KEYS] = {"SELECT k.at, k.global_sequence FROM @schema@.query_keys(" HW_PG_TIMES_QUERY_ROW
                          ", $18, $19, $20, $21, $22) AS k",
                          TYPES(keys_types)},
    [HW_PG_QUERY_PIN] = {"SELECT @schema@.query_pin()", NULL, 0},
    [HW_PG_TIMES_VERIFY] = {"SELECT f.what, f.n FROM @schema@.times_findings() AS f", NULL, 0},
    [HW_PG_QUERY_COUNT] = {"SELECT @schema@.query_count(" HW_PG_TIMES_QUERY_ROW ")", TYPES(query_types)},
    [HW_PG_QUERY_TYPES] = {"SELECT t.type, t.events, t.corrections, t.retractions, t.streams,"
                           " t.first_valid, t.last_valid, t.first_recorded, t.last_recorded"
                           " FROM @schema@.query_types(" HW_PG_TIMES_QUERY_ROW ") AS t",
                           TYPES(query_types)},
    [HW_PG_QUERY_STREAMS] = {"SELECT s FROM @schema@.query_streams(" HW_PG_TIMES_QUERY_ROW
                             ", $18, $19) AS s",
                             TYPES(streams_types)},
    /* The columns of the next one, where the answer is known. */
    [HW_PG_CLOCK] = {"SELECT clock_timestamp(), true, NULL::text", NULL, 0},
    [HW_PG_KNOWLEDGE] = {"SELECT k.asked_at, k.final, k.waits_for FROM @schema@.knowledge_of($1)"
                         " AS k",
                         TYPES(time_type)},
    [HW_PG_SNAPSHOT_PUT] = {"SELECT @schema@.snapshot_store($1, $2, $3, $4, $5, $6, $7)",
                            TYPES(put_types)},
    [HW_PG_SNAPSHOT_GET] = {"SELECT s.of_stream, s.of_version, s.content_type, s.schema_version,"
                            " s.taken_at, s.data, s.bytes FROM @schema@.snapshot_load($1, $2) AS s",
                            TYPES(get_types)},
    [HW_PG_SNAPSHOT_LIST] = {"SELECT s.of_stream, s.of_version, s.content_type, s.schema_version,"
                             " s.taken_at, s.data_bytes"
                             " FROM @schema@.snapshot_list($1, $2, $3, $4) AS s",
                             TYPES(list_types)},
    [HW_PG_SNAPSHOT_REMOVE] = {"SELECT @schema@.snapshot_remove($1, $2)", TYPES(get_types)},
    [HW_PG_PURGE] = {"SELECT p.id, p.purged_at, p.events, p.dead_letters, p.snapshots, p.jobs,"
                     " p.remaining FROM @schema@.purge_events($1, $2, $3, $4, $5) AS p",
                     TYPES(purge_types)},
    [HW_PG_PURGES] = {"SELECT p.id, p.purged_at, p.events, p.dead_letters, p.snapshots, p.jobs,"
                      " p.remaining, p.actor, p.reason, p.stream"
                      " FROM @schema@.purge_records($1, $2) AS p",
                      TYPES(purges_types)},
};
/* clang-format on */
