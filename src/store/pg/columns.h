/*
 * columns.h - the columns of an event, listed once.
 *
 * A statement that reads events gives these columns, in this order, and "purged" after them; the
 * enum says where each of them is.  Those that read much give them tersely: what most events do not
 * have is one column, "rest", which is NULL then.  One function decodes both (event_row.c).  A dead
 * letter keeps a copy of its event: the same columns, two of them under other names.
 *
 *   X(arg, NAME, column, column of dead_letters, type of a parameter)   is given as it is
 *   P(arg, NAME, column, column of dead_letters, type of a parameter)   the payload, which is left
 *                                                                       out where it is too large
 */
#ifndef HW_STORE_PG_COLUMNS_H
#define HW_STORE_PG_COLUMNS_H

/* clang-format off */
#define HW_PG_EVENT_COLUMNS(X, P, arg)                                                             \
    X(arg, GLOBAL_SEQUENCE, "global_sequence", "global_sequence", HW_OID_INT8)                     \
    X(arg, ID, "id", "event_id", HW_OID_UUID)                                                      \
    X(arg, STREAM, "stream", "stream", HW_OID_TEXT)                                                \
    X(arg, VERSION, "version", "version", HW_OID_INT8)                                             \
    X(arg, TYPE, "type", "type", HW_OID_TEXT)                                                      \
    P(arg, DATA, "data", "data", HW_OID_JSON)                                                      \
    P(arg, BYTES, "bytes", "bytes", HW_OID_BYTEA)                                                  \
    X(arg, CONTENT_TYPE, "content_type", "content_type", HW_OID_TEXT)                              \
    P(arg, HEADERS, "headers", "headers", HW_OID_JSON)                                             \
    X(arg, CORRELATION_ID, "correlation_id", "correlation_id", HW_OID_TEXT)                        \
    X(arg, CAUSATION_ID, "causation_id", "causation_id", HW_OID_UUID)                              \
    X(arg, ACTOR, "actor", "actor", HW_OID_TEXT)                                                   \
    X(arg, VALID_TIME, "valid_time", "valid_time", HW_OID_TIMESTAMPTZ)                             \
    X(arg, RECORDED_AT, "recorded_at", "recorded_at", HW_OID_TIMESTAMPTZ)                          \
    X(arg, FAMILY, "family", "family", HW_OID_UUID)                                                \
    X(arg, REVISION, "revision", "revision", HW_OID_INT4)                                          \
    X(arg, CORRECTS, "corrects", "corrects", HW_OID_UUID)                                          \
    X(arg, REASON, "reason", "event_reason", HW_OID_TEXT)                                          \
    X(arg, SCHEMA_VERSION, "schema_version", "schema_version", HW_OID_INT4)                        \
    X(arg, RETRACTS, "retracts", "retracts", HW_OID_BOOL)

/* The list as text, each column with its comma: what comes after it ends it. */
#define HW_PG_COLUMN(arg, NAME, column, copy, oid) column ", "
#define HW_PG_COLUMN_OF(table, NAME, column, copy, oid) table "." column ", "
#define HW_PG_COPY_COLUMN(arg, NAME, column, copy, oid) copy ", "
#define HW_PG_COLUMN_OID(arg, NAME, column, copy, oid) oid,

/* Of most events nothing is sent for it: NULL is read as false. */
#define HW_PG_PURGED "CASE WHEN purge IS NOT NULL THEN true END AS purged"

/* The types of all of them as parameters; the last is "purged". */
#define HW_PG_EVENT_OIDS HW_PG_EVENT_COLUMNS(HW_PG_COLUMN_OID, HW_PG_COLUMN_OID, ) HW_OID_BOOL
/*
 * A page is bounded in bytes: an event of more than "cap" comes without payload and headers.  Sizes
 * are those of what is stored, which costs next to nothing; a text may be compressed, 100 to 1, so
 * one that is not small is measured.  Most events are small and without headers, so that is asked
 * first: each further question is 1 % of a read.
 */
#define HW_PG_FITS_HEADERS(cap) "(headers IS NULL OR pg_column_size(headers) <= " cap ")"
#define HW_PG_IS_SMALL "headers IS NULL AND pg_column_size(data) <= 512"
#define HW_PG_FITS_DATA(cap)                                                                             \
    "pg_column_size(data) <= " cap " AND octet_length(data::text) <= " cap                         \
    " AND " HW_PG_FITS_HEADERS(cap)
#define HW_PG_FITS_BYTES(cap)                                                                            \
    "bytes IS NOT NULL AND octet_length(bytes) <= " cap " AND " HW_PG_FITS_HEADERS(cap)

/* The name of a payload's column is that of its rule; "AS" because a function gives them, too. */
#define HW_PG_CAPPED_DATA(cap)                                                                           \
    "CASE WHEN " HW_PG_IS_SMALL " THEN data WHEN " HW_PG_FITS_DATA(cap) " THEN data END AS data, "
#define HW_PG_CAPPED_BYTES(cap) "CASE WHEN " HW_PG_FITS_BYTES(cap) " THEN bytes END AS bytes, "
#define HW_PG_CAPPED_HEADERS(cap)                                                                        \
    "CASE WHEN headers IS NOT NULL AND pg_column_size(headers) <= " cap " THEN headers END"        \
    " AS headers, "
#define HW_PG_CAPPED(cap, NAME, column, copy, oid) HW_PG_CAPPED_##NAME(cap)
#define HW_PG_CAPPED_COLUMNS(cap) HW_PG_EVENT_COLUMNS(HW_PG_COLUMN, HW_PG_CAPPED, cap)

/*
 * A column costs the server, libpq and us about the same whether it is NULL or not: of half of them,
 * and without a value, that was a fifth of a read.  For rows of the table, not of a view that fills
 * in what is absent.
 */
#define HW_PG_REST(cap)                                                                            \
    "CASE WHEN bytes IS NULL AND content_type IS NULL AND actor IS NULL AND valid_time IS NULL"    \
    " AND family IS NULL AND revision = 1 AND corrects IS NULL AND reason IS NULL"                 \
    " AND schema_version = 1 AND retracts IS NULL AND purge IS NULL THEN NULL"                     \
    " ELSE ROW(CASE WHEN " HW_PG_FITS_BYTES(cap) " THEN bytes END, content_type, actor,"           \
    " valid_time, family, revision, corrects, reason, schema_version, coalesce(retracts, false),"  \
    " purge IS NOT NULL) END AS rest"
#define HW_PG_TERSE_COLUMNS(cap)                                                                   \
    "global_sequence, id, stream, version, type, " HW_PG_CAPPED_DATA(cap) HW_PG_REST(cap) ", "     \
    HW_PG_CAPPED_HEADERS(cap) "correlation_id, causation_id, recorded_at"
/* clang-format on */

enum hw_pg_event_column {
#define HW_PG_COLUMN_ENUM(arg, NAME, column, copy, oid) HW_PG_EVENT_##NAME,
    HW_PG_EVENT_COLUMNS(HW_PG_COLUMN_ENUM, HW_PG_COLUMN_ENUM, )
#undef HW_PG_COLUMN_ENUM
        HW_PG_EVENT_PURGED,
    HW_PG_EVENT_COLUMNS_N
};

/* The same of HW_PG_TERSE_COLUMNS; up to the payload they are where they always are. */
enum hw_pg_terse_column {
    HW_PG_TERSE_REST = HW_PG_EVENT_DATA + 1,
    HW_PG_TERSE_HEADERS,
    HW_PG_TERSE_CORRELATION_ID,
    HW_PG_TERSE_CAUSATION_ID,
    HW_PG_TERSE_RECORDED_AT
};

#endif
