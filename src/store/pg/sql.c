/*
 * sql.c - the texts of all prepared statements, and the names that are filled into them.
 *
 * Reads have a fixed set of parameters, so that one piece of code fills them all:
 *   $1 stream  $2 first  $3 last  $4 limit  $5 type  $6 regular expression  $7 correlation id
 *   $8 cap: the size up to which an event comes with its payload
 * Each path is an index scan in the wanted order; the filters that its index does not know are
 * applied to what it finds.
 */
#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "store/pg/columns.h"
#include "store/pg/pg.h"

/* clang-format off */
#define COLUMNS HW_PG_EVENT_COLUMNS(HW_PG_COLUMN, HW_PG_COLUMN, ) HW_PG_PURGED
#define CAPPED_COLUMNS(cap) HW_PG_CAPPED_COLUMNS(cap)
/* What a function gives. */
#define READ_FUNCTION(call, cap) "SELECT " CAPPED_COLUMNS(cap) "purged FROM @schema@." call

/* clang-format on */

/* Corrections have further columns and a function of their own (append_correction()). */
#define INSERT_INTO                                                                                \
    "INSERT INTO @schema@.events (id, stream, version, type, data, headers, correlation_id,"       \
    " causation_id, actor, valid_time, schema_version, bytes, content_type) "

/* $1 id $2 stream, the version, then these; $13 expected version */
#define INSERTED "$3, $4, $5, $6, $7, $8, $9, $10, $11, $12"

/* With the bell's mark, as it was before the commit: whether somebody sleeps (bell.c).  NULL means
   that nobody ever did.  A SELECT of last_value would cost twice as much. */
#define RETURNING                                                                                  \
    " RETURNING global_sequence, version, recorded_at,"                                            \
    " pg_sequence_last_value(@bell_text@::regclass)"

/* Not max(): while the log is small that would be planned as a walk over the whole stream, and a
   plan is kept. */
#define LAST_OF(stream)                                                                            \
    "(SELECT l.version FROM @schema@.events AS l WHERE l.stream = " stream                         \
    " ORDER BY l.version DESC LIMIT 1)"
#define LAST_VERSION LAST_OF("$2")

#define READ_ROWS(where, order)                                                                    \
    "SELECT " HW_PG_TERSE_COLUMNS("$8") " FROM @schema@.events WHERE " where " ORDER BY " order    \
                                        " LIMIT $4"
#define READ_PATH(path, order)                                                                     \
    READ_ROWS(path " AND ($5::text IS NULL OR type = $5) AND ($6::text IS NULL OR type ~ $6)"      \
                   " AND ($7::text IS NULL OR correlation_id = $7)",                               \
              order)

#define BY_STREAM "stream = $1 AND version BETWEEN $2 AND $3"
#define BY_SEQUENCE "global_sequence BETWEEN $2 AND $3"
/*
 * As a range of rows, ordered by both columns, so that only the index on both can serve it: with
 * "type = $5 ... ORDER BY global_sequence" the planner may walk the whole log for a rare type.
 */
#define BY_TYPE "(type, global_sequence) >= ($5, $2) AND (type, global_sequence) <= ($5, $3)"
#define BY_CORRELATION                                                                             \
    "correlation_id IS NOT NULL AND (correlation_id, global_sequence) >= ($7, $2)"                 \
    " AND (correlation_id, global_sequence) <= ($7, $3)"

/*
 * Reads of ranges.  An event comes whole, or without payload and headers: because nobody wants them
 * (false), or because it is too large (NULL).  Which of them is found out once, inside, where the
 * LIMIT keeps the planner from copying the question.
 */
#define IF_WHOLE(table, NAME, column, copy, oid)                                                   \
    "CASE WHEN " table ".whole THEN " table "." column " END, "
#define WHOLE_OR_BARE HW_PG_EVENT_COLUMNS(HW_PG_COLUMN_OF, IF_WHOLE, "e") "e.purged, e.whole"
#define AND_WHOLE(cap)                                                                             \
    COLUMNS ", CASE WHEN NOT ($6::text IS NULL OR type ~ $6) THEN false"                           \
            " WHEN " HW_PG_FITS_DATA(cap) " OR " HW_PG_FITS_BYTES(                                 \
                cap) " OR data IS NULL AND bytes IS NULL"                                          \
                     " THEN true END AS whole"

/*
 * Ranges are ascending, so their rows are, too: by the number of the range, which unnest() gives
 * out in order, and within it.  So only the rows of one range at a time need sorting, and the
 * reading ends with the limit.
 */
#define READ_RANGES(path, order, cap)                                                              \
    "SELECT " WHOLE_OR_BARE " FROM unnest($1, $2) WITH ORDINALITY AS r(first, last, n),"           \
    " LATERAL (SELECT " AND_WHOLE(cap) " FROM @schema@.events WHERE " path                         \
                                       " AND ($5::text IS NULL OR type ~ $5) ORDER BY " order      \
                                       " LIMIT $3) AS e"                                           \
                                       " ORDER BY r.n, e.global_sequence LIMIT $3"

/*
 * Few events match: the types that do are found one by one in the index (from each the next), then
 * their numbers in the same index, then the rows.
 */
#define READ_SPARSE(direction)                                                                     \
    "WITH RECURSIVE t AS ("                                                                        \
    " (SELECT e.type::text COLLATE \"C\" AS type FROM @schema@.events AS e WHERE e.type >= $4"     \
    "  AND e.type < $7 ORDER BY e.type LIMIT 1)"                                                   \
    " UNION ALL SELECT x.type FROM t, LATERAL (SELECT e.type::text COLLATE \"C\" AS type"          \
    "  FROM @schema@.events AS e WHERE e.type > t.type AND e.type < $7"                            \
    "  ORDER BY e.type LIMIT 1) AS x)"                                                             \
    " SELECT " WHOLE_OR_BARE " FROM (SELECT s.seq FROM t, unnest($1, $2) AS r(first, last),"       \
    "  LATERAL (SELECT e.global_sequence AS seq FROM @schema@.events AS e"                         \
    "   WHERE (e.type, e.global_sequence) >= (t.type, r.first)"                                    \
    "   AND (e.type, e.global_sequence) <= (t.type, r.last)"                                       \
    "   ORDER BY e.type " direction ", e.global_sequence " direction " LIMIT $3) AS s"             \
    "  WHERE t.type ~ $5 ORDER BY s.seq " direction " LIMIT $3) AS k,"                             \
    " LATERAL (SELECT " AND_WHOLE("$8") " FROM @schema@.events WHERE global_sequence = k.seq"      \
                                        "  LIMIT 1) AS e ORDER BY k.seq " direction

static const Oid append_types[] = {HW_OID_UUID,        HW_OID_TEXT, HW_OID_TEXT,  HW_OID_JSON,
                                   HW_OID_JSON,        HW_OID_TEXT, HW_OID_UUID,  HW_OID_TEXT,
                                   HW_OID_TIMESTAMPTZ, HW_OID_INT4, HW_OID_BYTEA, HW_OID_TEXT,
                                   HW_OID_INT8};
/* $1..$12 the same as arrays, $13 stream number, $14 nth, $15 stream names, $16 expectations */
static const Oid batch_types[] = {
    HW_OID_UUID_ARRAY,        HW_OID_TEXT_ARRAY, HW_OID_TEXT_ARRAY,  HW_OID_JSON_ARRAY,
    HW_OID_JSON_ARRAY,        HW_OID_TEXT_ARRAY, HW_OID_UUID_ARRAY,  HW_OID_TEXT_ARRAY,
    HW_OID_TIMESTAMPTZ_ARRAY, HW_OID_INT4_ARRAY, HW_OID_BYTEA_ARRAY, HW_OID_TEXT_ARRAY,
    HW_OID_INT4_ARRAY,        HW_OID_INT4_ARRAY, HW_OID_TEXT_ARRAY,  HW_OID_INT8_ARRAY};
/* $1..$12 the same as arrays, $13 an expectation per event */
static const Oid function_types[] = {
    HW_OID_UUID_ARRAY,        HW_OID_TEXT_ARRAY, HW_OID_TEXT_ARRAY,  HW_OID_JSON_ARRAY,
    HW_OID_JSON_ARRAY,        HW_OID_TEXT_ARRAY, HW_OID_UUID_ARRAY,  HW_OID_TEXT_ARRAY,
    HW_OID_TIMESTAMPTZ_ARRAY, HW_OID_INT4_ARRAY, HW_OID_BYTEA_ARRAY, HW_OID_TEXT_ARRAY,
    HW_OID_INT8_ARRAY};
static const Oid read_types[] = {HW_OID_TEXT, HW_OID_INT8, HW_OID_INT8, HW_OID_INT8,
                                 HW_OID_TEXT, HW_OID_TEXT, HW_OID_TEXT, HW_OID_INT4};
static const Oid fn_read_types[] = {HW_OID_TEXT, HW_OID_INT8, HW_OID_INT8, HW_OID_INT8, HW_OID_TEXT,
                                    HW_OID_TEXT, HW_OID_TEXT, HW_OID_TEXT, HW_OID_INT4};
static const Oid text_type[] = {HW_OID_TEXT};
static const Oid texts_type[] = {HW_OID_TEXT_ARRAY};
static const Oid uuid_type[] = {HW_OID_UUID};
static const Oid ids_types[] = {HW_OID_UUID_ARRAY, HW_OID_INT4};
static const Oid time_types[] = {HW_OID_TIMESTAMPTZ};
static const Oid sequences_types[] = {HW_OID_INT8_ARRAY, HW_OID_INT4};
static const Oid page_types[] = {HW_PG_TIMES_QUERY_TYPES, HW_OID_TEXT, HW_OID_BOOL, HW_OID_INT8,
                                 HW_OID_TIMESTAMPTZ,      HW_OID_INT8, HW_OID_INT4};
/* $1 firsts $2 lasts $3 limit $4 type $5 regular expression $6 that of the types that come whole
   $7 cap */
static const Oid range_types[] = {HW_OID_INT8_ARRAY, HW_OID_INT8_ARRAY, HW_OID_INT8, HW_OID_TEXT,
                                  HW_OID_TEXT,       HW_OID_TEXT,       HW_OID_INT4};
/* $4 the first type that can match; $7 the first after those that can; $8 cap */
static const Oid sparse_types[] = {HW_OID_INT8_ARRAY, HW_OID_INT8_ARRAY, HW_OID_INT8, HW_OID_TEXT,
                                   HW_OID_TEXT,       HW_OID_TEXT,       HW_OID_TEXT, HW_OID_INT4};
/* The same up to $6; $7 stream $8 the first version of it that is wanted $9 cap */
static const Oid stream_range_types[] = {HW_OID_INT8_ARRAY, HW_OID_INT8_ARRAY, HW_OID_INT8,
                                         HW_OID_TEXT,       HW_OID_TEXT,       HW_OID_TEXT,
                                         HW_OID_TEXT,       HW_OID_INT8,       HW_OID_INT4};
/* The same up to $5; $6 cap */
static const Oid fn_range_types[] = {HW_OID_INT8_ARRAY, HW_OID_INT8_ARRAY, HW_OID_INT8,
                                     HW_OID_TEXT,       HW_OID_TEXT,       HW_OID_INT4};
static const Oid mark_types[] = {HW_OID_TEXT, HW_OID_TEXT, HW_OID_TEXT, HW_OID_INT8, HW_OID_INT8};

#define TYPES(array) (array), (int)(sizeof(array) / sizeof(array)[0])

static const hw_pg_statement_row statements[HW_PG_STATEMENT_COUNT] = {
    [HW_PG_APPEND_NONE] = {INSERT_INTO "VALUES ($1, $2, 1, " INSERTED ")" RETURNING, append_types,
                           12},
    [HW_PG_APPEND_ANY] = {INSERT_INTO "VALUES ($1, $2, coalesce(" LAST_VERSION ", 0) + 1, " INSERTED
                                      ")" RETURNING,
                          append_types, 12},
    [HW_PG_APPEND_NEXT] = {INSERT_INTO "VALUES ($1, $2, $13 + 1, " INSERTED ")" RETURNING,
                           append_types, 13},
    /* The event before is where the row comes from: without it there is nothing to insert, and
       that the next one is free is for the unique key to say. */
    [HW_PG_APPEND_EXACT] = {INSERT_INTO "SELECT $1, $2, e.version + 1, " INSERTED
                                        " FROM @schema@.events AS e WHERE e.stream = $2"
                                        " AND e.version = $13" RETURNING,
                            append_types, 13},
    [HW_PG_APPEND_EXISTS] = {INSERT_INTO "SELECT $1, $2, m.last + 1, " INSERTED
                                         " FROM (SELECT " LAST_VERSION
                                         " AS last) AS m WHERE m.last IS NOT NULL" RETURNING,
                             append_types, 12},
    [HW_PG_APPEND_BATCH] =
        {"WITH s AS MATERIALIZED ("
         " SELECT array_agg(coalesce(m.last, 0) ORDER BY s.n) AS base,"
         "  bool_and(s.expected = -1 OR (s.expected = -2 AND m.last > 0)"
         "   OR s.expected = coalesce(m.last, 0)) AS met"
         " FROM unnest($15, $16) WITH ORDINALITY AS s(name, expected, n)"
         " CROSS JOIN LATERAL (SELECT " LAST_OF(
             "s.name") " AS last) AS m) " INSERT_INTO "SELECT i.id, i.stream, (SELECT base FROM "
                       "s)[i.stream_no] + i.nth, i.type, i.data,"
                       " i.headers, i.correlation_id, i.causation_id, i.actor, i.valid_time, "
                       "i.schema_version,"
                       " i.bytes, i.content_type"
                       " FROM (SELECT unnest($1) AS id, unnest($2) AS stream, unnest($3) AS type,"
                       "  unnest($4) AS data, unnest($5) AS headers, unnest($6) AS correlation_id,"
                       "  unnest($7) AS causation_id, unnest($8) AS actor, unnest($9) AS "
                       "valid_time,"
                       "  unnest($10) AS schema_version, unnest($11) AS bytes, unnest($12) AS "
                       "content_type,"
                       "  unnest($13) AS stream_no, unnest($14) AS nth) AS i"
                       " WHERE (SELECT met FROM s)" RETURNING,
         TYPES(batch_types)},
    [HW_PG_APPEND_FUNCTION] =
        {"SELECT global_sequence, version, recorded_at, already_stored FROM"
         " @schema@.append_arrays($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
         TYPES(function_types)},
    /* In one order for everybody, so that two batches cannot wait for each other.  Streams share
       512 locks of the bus: one each would use up the server's table of locks.  The same key is in
       append_arrays.sql. */
    [HW_PG_LOCK_STREAMS] =
        {"SELECT count(pg_advisory_xact_lock(k.key)) FROM (SELECT DISTINCT"
         " (hashtextextended('howdah streams ' || @schema_text@, 0) & -512)"
         "  | (hashtextextended(s.name, 0) & 511) AS key FROM unnest($1) AS s(name)"
         " ORDER BY 1) AS k",
         TYPES(texts_type)},
    [HW_PG_IMPORT_PLACE] =
        {"INSERT INTO @schema@.imports AS i (source, created_at, id, rows)"
         " SELECT $1, $2, $3, $4 WHERE $5 = 0"
         "  OR EXISTS (SELECT FROM @schema@.imports AS b WHERE b.source = $1 AND b.rows >= $5)"
         " ON CONFLICT (source) DO UPDATE SET created_at = excluded.created_at, id = excluded.id,"
         " rows = excluded.rows, updated_at = clock_timestamp()",
         TYPES(mark_types)},
    [HW_PG_STREAM_VERSION] = {"SELECT coalesce(" LAST_OF("$1") ", 0)", TYPES(text_type)},
    [HW_PG_STREAM_VERSIONS] = {"SELECT coalesce(" LAST_OF(
                                   "s.name") ", 0) FROM unnest($1) WITH ORDINALITY AS s(name, n)"
                                             " ORDER BY s.n",
                               TYPES(texts_type)},
    [HW_PG_HEAD] = {"SELECT coalesce(max(global_sequence), 0) FROM @schema@.events", NULL, 0},
    [HW_PG_READ_STREAM] = {READ_PATH(BY_STREAM, "version"), TYPES(read_types)},
    [HW_PG_READ_STREAM_BACK] = {READ_PATH(BY_STREAM, "version DESC"), TYPES(read_types)},
    [HW_PG_READ_CORRELATION] = {READ_PATH(BY_CORRELATION, "correlation_id, global_sequence"),
                                TYPES(read_types)},
    [HW_PG_READ_CORRELATION_BACK] = {READ_PATH(BY_CORRELATION,
                                               "correlation_id DESC, global_sequence DESC"),
                                     TYPES(read_types)},
    [HW_PG_READ_TYPE] = {READ_PATH(BY_TYPE, "type, global_sequence"), TYPES(read_types)},
    [HW_PG_READ_TYPE_BACK] = {READ_PATH(BY_TYPE, "type DESC, global_sequence DESC"),
                              TYPES(read_types)},
    [HW_PG_READ_SOME] = {READ_PATH(BY_SEQUENCE, "global_sequence"), TYPES(read_types)},
    [HW_PG_READ_SOME_BACK] = {READ_PATH(BY_SEQUENCE, "global_sequence DESC"), TYPES(read_types)},
    /* Without a filter: the whole log is read most often, and each question costs. */
    [HW_PG_READ_ALL] = {READ_ROWS(BY_SEQUENCE, "global_sequence"), TYPES(read_types)},
    /* One lookup for each id: "id = ANY ($1) ORDER BY global_sequence" would walk the whole log,
       which has that order, rather than sort what it finds. */
    [HW_PG_READ_IDS] =
        {"SELECT e.* FROM unnest($1) AS u(one), LATERAL (SELECT " HW_PG_TERSE_COLUMNS(
             "$2") " FROM @schema@.events WHERE id = u.one LIMIT 1) AS e"
                   " ORDER BY e.global_sequence",
         TYPES(ids_types)},
    [HW_PG_READ_RANGES] = {READ_RANGES("global_sequence BETWEEN r.first AND r.last"
                                       " AND $4::text IS NULL",
                                       "global_sequence", "$7"),
                           TYPES(range_types)},
    [HW_PG_READ_RANGES_TYPE] = {READ_RANGES("(type, global_sequence) >= ($4, r.first)"
                                            " AND (type, global_sequence) <= ($4, r.last)",
                                            "type, global_sequence", "$7"),
                                TYPES(range_types)},
    /* The versions of a stream have ascending numbers. */
    [HW_PG_READ_RANGES_STREAM] = {READ_RANGES("(stream, version) >= ($7, $8)"
                                              " AND (stream, version) <= ($7, 9223372036854775807)"
                                              " AND global_sequence BETWEEN r.first AND r.last"
                                              " AND ($4::text IS NULL OR type = $4)",
                                              "stream, version", "$9"),
                                  TYPES(stream_range_types)},
    [HW_PG_READ_SPARSE] = {READ_SPARSE(""), TYPES(sparse_types)},
    [HW_PG_READ_SPARSE_BACK] = {READ_SPARSE("DESC"), TYPES(sparse_types)},
    [HW_PG_FN_STREAM_VERSION] = {"SELECT @schema@.stream_version($1)", TYPES(text_type)},
    [HW_PG_FN_HEAD] = {"SELECT @schema@.head()", NULL, 0},
    [HW_PG_FIRST_SINCE] = {"SELECT @schema@.first_since($1)", time_types, 1},
    /* $6 is the pattern here; $8 "true" for backward */
    [HW_PG_FN_READ] = {READ_FUNCTION("read_events($1, $5, $6, $7, $2, $3, $4, $8::boolean)", "$9"),
                       TYPES(fn_read_types)},
    [HW_PG_FN_READ_IDS] = {READ_FUNCTION("read_ids($1)", "$2"), TYPES(ids_types)},
    [HW_PG_FN_READ_RANGES] = {READ_FUNCTION("read_ranges($1, $2, $3, $4, $5)", "$6"),
                              TYPES(fn_range_types)},
    /* In the order given, which unnest() keeps. */
    [HW_PG_READ_SEQUENCES] =
        {"SELECT e.* FROM unnest($1) WITH ORDINALITY AS k(sequence, n),"
         " LATERAL (SELECT " HW_PG_TERSE_COLUMNS(
             "$2") " FROM @schema@.events"
                   "  WHERE global_sequence = k.sequence LIMIT 1) AS e ORDER BY k.n",
         TYPES(sequences_types)},
    [HW_PG_FN_READ_SEQUENCES] = {READ_FUNCTION("query_rows($1)", "$2"), TYPES(sequences_types)},
    /* One page function for everybody: see query.sql. */
    [HW_PG_QUERY_PAGE] = {READ_FUNCTION("query_page(" HW_PG_TIMES_QUERY_ROW
                                        ", $18, $19, $20, $21, $22)",
                                        "$23"),
                          TYPES(page_types)},
    [HW_PG_TREE] = {"SELECT depth, event_id FROM @schema@.causation_tree($1)", TYPES(uuid_type)},
};

/* The six tables are disjoint: each statement has its text in exactly one of them. */
static const hw_pg_statement_row *row_of(int statement)
{
    assert(statement >= 0 && statement < HW_PG_STATEMENT_COUNT);
    return statements[statement].sql               ? &statements[statement]
           : hw_pg_sub_statements[statement].sql   ? &hw_pg_sub_statements[statement]
           : hw_pg_queue_statements[statement].sql ? &hw_pg_queue_statements[statement]
           : hw_pg_group_statements[statement].sql ? &hw_pg_group_statements[statement]
           : hw_pg_times_statements[statement].sql ? &hw_pg_times_statements[statement]
                                                   : &hw_pg_registry_statements[statement];
}

int hw_pg_statement_types(hw_pg_statement statement, const Oid **ret_types)
{
    *ret_types = row_of((int)statement)->types;
    return row_of((int)statement)->types_n;
}

/* As the server's quote_ident() and quote_literal() do it: the quote doubled. */
static void put_quoted(hw_buf *out, const char *text, char quote)
{
    hw_buf_putc(out, quote);
    for (; *text; text++) {
        if (*text == quote)
            hw_buf_putc(out, quote);
        hw_buf_putc(out, *text);
    }
    hw_buf_putc(out, quote);
}

void hw_pg_quote_ident(hw_buf *out, const char *name)
{
    put_quoted(out, name, '"');
}

/* A string literal that means the same whatever standard_conforming_strings says. */
static void put_literal(hw_buf *out, const char *text)
{
    if (strchr(text, '\\')) {
        hw_buf_puts(out, " E'");
        for (; *text; text++) {
            if (*text == '\\' || *text == '\'')
                hw_buf_putc(out, *text);
            hw_buf_putc(out, *text);
        }
        hw_buf_putc(out, '\'');
        return;
    }
    put_quoted(out, text, '\'');
}

/* The regclass text of a table or sequence: a quoted name inside a literal. */
static void put_relation(hw_buf *out, const char *schema, const char *relation)
{
    hw_buf name = HW_BUF_INIT(1024);

    hw_pg_quote_ident(&name, schema);
    hw_buf_putc(&name, '.');
    hw_buf_puts(&name, relation);
    if (name.broken)
        out->broken = name.broken;
    else
        put_literal(out, hw_buf_str(&name));
    hw_buf_done(&name);
}

/* Puts what a mark stands for; returns how many bytes of the text the mark takes, 0: it is no mark
   of ours.  "@schema@" is the only one that becomes a name; the others become literals. */
static size_t put_name(hw_buf *out, const char *at, const char *schema)
{
    static const struct {
        const char *mark;
        const char *relation; /* NULL: the schema itself */
    } names[] = {{"@schema@", NULL},
                 {"@schema_text@", NULL},
                 {"@sequence_text@", "events_global_sequence_seq"},
                 {"@bell_text@", "bell"},
                 {"@token_text@", "subscriptions_token_seq"},
                 {"@dead_letter_text@", "dead_letters_id_seq"},
                 {"@job_text@", "jobs_id_seq"},
                 {"@jobs_text@", "jobs"},
                 {"@groups_text@", "groups"},
                 {"@job_data_text@", "job_data"},
                 {"@events_text@", "events"},
                 {"@lease_text@", "leases_token_seq"},
                 {"@purge_text@", "purges_id_seq"}};

    assert(*at == '@');
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        size_t len = strlen(names[i].mark);

        if (strncmp(at, names[i].mark, len) != 0)
            continue;
        if (names[i].relation)
            put_relation(out, schema, names[i].relation);
        else if (i == 0)
            hw_pg_quote_ident(out, schema);
        else
            put_literal(out, schema);
        return len;
    }
    return 0;
}

/* pg.h I3.  An @ that begins no mark of ours stays as it is. */
int hw_pg_fill_names(const char *text, const char *schema, hw_buf *out, howdah_error *reterr)
{
    for (const char *at = strchr(text, '@'); at; at = strchr(text, '@')) {
        size_t len;

        hw_buf_put(out, text, (size_t)(at - text));
        len = put_name(out, at, schema);
        if (len == 0)
            hw_buf_putc(out, '@');
        text = at + (len > 0 ? len : 1);
    }
    hw_buf_puts(out, text);
    return hw_buf_check(out, reterr);
}

#define STATEMENT_BYTES_MAX 65536

/*
 * Which log this is: the cluster, which a copy of the data alone does not share, and the timeline,
 * of which a promoted standby begins a new one.  Where a server does not say which cluster it is,
 * the bus's own id has to do.  On a standby the name ends with "?": the holders of numbers cannot
 * be seen there.
 */
#define TIMELINE                                                                                   \
    "CASE WHEN pg_is_in_recovery() THEN (SELECT c.timeline_id::text || '?'"                        \
    " FROM pg_control_checkpoint() AS c) ELSE ('x' || "                                            \
    "left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int4::text END"
#define LOG_MARK "@log@"
static const char log_by_cluster[] =
    "(SELECT s.system_identifier::text || '/' || " TIMELINE " FROM pg_control_system() AS s)";
static const char log_by_bus[] =
    "(SELECT m.value || '/' || CASE WHEN pg_is_in_recovery() THEN '?' ELSE " TIMELINE " END"
    " FROM @schema@.meta AS m WHERE m.key = 'bus_id')";

/* Before names are filled in: what @log@ stands for contains @schema@. */
static void put_with_log(hw_buf *out, const char *text, const char *log)
{
    for (const char *at = strstr(text, LOG_MARK); at; at = strstr(text, LOG_MARK)) {
        hw_buf_put(out, text, (size_t)(at - text));
        hw_buf_puts(out, log);
        text = at + strlen(LOG_MARK);
    }
    hw_buf_puts(out, text);
}

/* When the store is opened, and again when a server names its log in another way (conn.c). */
int hw_pg_fill_statements(hw_pg *pg, howdah_error *reterr)
{
    hw_buf raw = HW_BUF_INIT(STATEMENT_BYTES_MAX);
    int s = HOWDAH_OK;

    for (int i = 0; s >= 0 && i < HW_PG_STATEMENT_COUNT; i++) {
        hw_buf text = HW_BUF_INIT(STATEMENT_BYTES_MAX);

        hw_buf_clear(&raw);
        assert(row_of(i)->sql);
        put_with_log(&raw, row_of(i)->sql, pg->log_is_bus ? log_by_bus : log_by_cluster);
        s = hw_buf_check(&raw, reterr);
        if (s >= 0)
            s = hw_pg_fill_names(hw_buf_str(&raw), pg->schema, &text, reterr);
        if (s >= 0) {
            hw_free(pg->sql[i]);
            pg->sql[i] = hw_buf_take(&text);
        }
        hw_buf_done(&text);
    }
    hw_buf_done(&raw);
    return s;
}
