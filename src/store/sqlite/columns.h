/*
 * columns.h - the columns of an event, listed once.
 *
 * Every statement that reads events gives these columns, in this order, and "purge" after them; the
 * enum says where each of them is, so that one function decodes them all (page.c).  A dead letter
 * keeps a copy of its event: the same columns, two of them under other names.
 *
 *   X(NAME, column, column of howdah_dead_letters)   comes with every row
 *   P(NAME, column, column of howdah_dead_letters)   the payload, which a lean read leaves out
 */
#ifndef HW_STORE_SQLITE_COLUMNS_H
#define HW_STORE_SQLITE_COLUMNS_H

/* clang-format off */
#define HW_SQLITE_EVENT(X, P)                                                                      \
    X(SEQUENCE, "global_sequence", "global_sequence")                                              \
    X(ID, "id", "event_id")                                                                        \
    X(STREAM, "stream", "stream")                                                                  \
    X(VERSION, "version", "version")                                                               \
    X(TYPE, "type", "type")                                                                        \
    X(RECORDED_AT, "recorded_at", "recorded_at")                                                   \
    X(VALID_TIME, "valid_time", "valid_time")                                                      \
    X(SCHEMA_VERSION, "schema_version", "schema_version")                                          \
    X(REVISION, "revision", "revision")                                                            \
    X(FAMILY, "family", "family")                                                                  \
    X(CORRECTS, "corrects", "corrects")                                                            \
    X(CAUSATION, "causation_id", "causation_id")                                                   \
    X(CORRELATION, "correlation_id", "correlation_id")                                             \
    X(ACTOR, "actor", "actor")                                                                     \
    X(CONTENT_TYPE, "content_type", "content_type")                                                \
    X(REASON, "reason", "event_reason")                                                            \
    X(RETRACTS, "retracts", "retracts")                                                            \
    P(HEADERS, "headers", "headers")                                                               \
    P(DATA, "data", "data")                                                                        \
    P(BYTES, "bytes", "bytes")

#define HW_SQLITE_COLUMN(NAME, column, copy) column ", "
#define HW_SQLITE_NO_COLUMN(NAME, column, copy) "NULL, "
#define HW_SQLITE_COPY(NAME, column, copy) copy ", "

/* Behind "SELECT ": of howdah_events, whole and lean, and of howdah_dead_letters. */
#define HW_SQLITE_EVENT_COLUMNS HW_SQLITE_EVENT(HW_SQLITE_COLUMN, HW_SQLITE_COLUMN) "purge"
#define HW_SQLITE_LEAN_COLUMNS HW_SQLITE_EVENT(HW_SQLITE_COLUMN, HW_SQLITE_NO_COLUMN) "purge"
#define HW_SQLITE_COPY_COLUMNS HW_SQLITE_EVENT(HW_SQLITE_COPY, HW_SQLITE_COPY) "purge"
/* clang-format on */

enum hw_sqlite_event_column {
#define HW_SQLITE_COLUMN_ENUM(NAME, column, copy) HW_SQLITE_COL_##NAME,
    HW_SQLITE_EVENT(HW_SQLITE_COLUMN_ENUM, HW_SQLITE_COLUMN_ENUM)
#undef HW_SQLITE_COLUMN_ENUM
        HW_SQLITE_COL_PURGE
};

#endif
