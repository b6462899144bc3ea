/*
 * import.c - adopts the events of an existing table.
 *
 *   I1  Rows are taken in the order (created_at, id); that order becomes the global sequence.
 *   I2  A batch and the mark of its last row are one transaction: after a kill the next run
 *       goes on after the last row that is really stored.
 *   I3  The same row always gets the same event id, so that even a lost mark stores nothing twice.
 *   I4  Every row passes the same rules as an append.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/fault.h"
#include "base/mem.h"
#include "base/sized.h"
#include "base/text.h"
#include "bus/bus.h"
#include "engine/rules.h"

#define BATCH_DEFAULT 1000
#define BATCH_MAX 10000
/* A batch is cut here, so that rows with large payloads do not pile up in memory. */
#define BATCH_BYTES (32 * 1024 * 1024)
#define SOURCE_NAME_MAX 255

/* The field's name, and the column names that it usually has. */
typedef struct field_row {
    const char *name;
    bool needed;
    const char *usual[6];
} field_row;

static const field_row fields[HW_IMPORT_FIELDS] = {
    [HW_IMPORT_ID] = {"id", true, {"id", "event_id"}},
    [HW_IMPORT_STREAM] = {"stream", true, {"stream", "stream_id", "aggregate_id", "stream_name"}},
    [HW_IMPORT_TYPE] = {"type", true, {"type", "event_type", "name"}},
    [HW_IMPORT_DATA] = {"data", true, {"data", "payload", "event_data", "body"}},
    [HW_IMPORT_CREATED_AT] = {"created_at",
                              true,
                              {"created_at", "recorded_at", "occurred_at", "timestamp"}},
    [HW_IMPORT_HEADERS] = {"headers", false, {"headers", "metadata"}},
    [HW_IMPORT_CORRELATION_ID] = {"correlation_id", false, {"correlation_id"}},
    [HW_IMPORT_CAUSATION_ID] = {"causation_id", false, {"causation_id"}},
    [HW_IMPORT_ACTOR] = {"actor", false, {"actor", "actor_id"}},
    [HW_IMPORT_SCHEMA_VERSION] = {"schema_version", false, {"schema_version"}},
};

/*
 * One import on its way.  It is large, because of the events of a batch, and lives on the heap.
 */
typedef struct import_run {
    howdah_bus *bus;
    hw_store *store;
    hw_import_source source;
    char name[SOURCE_NAME_MAX + 1]; /* schema.table as given: the mark's key */
    char *table_copy;
    char *columns[HW_IMPORT_FIELDS]; /* found by their usual names */
    bool no_memory;
    bool met[HW_IMPORT_FIELDS]; /* the mapped column is really there */
    howdah_builder *builder;
    howdah_event *events[BATCH_MAX];
    size_t n;
    int64_t rows; /* taken by this and earlier runs */
    int64_t imported;
} import_run;

/* ------------------------------------------------------------ the mapping */

static int field_by_name(const char *name, size_t len)
{
    for (int i = 0; i < HW_IMPORT_FIELDS; i++)
        if (strlen(fields[i].name) == len && memcmp(fields[i].name, name, len) == 0)
            return i;
    return -1;
}

/* Order and mark come from id and created_at (I1, I2), so a constant is no use for these two. */
static int parse_map(import_run *run, const char *entry, howdah_error *reterr)
{
    const char *equals = strchr(entry, '=');
    bool constant = equals && equals > entry && equals[-1] == ':';
    size_t len = equals ? (size_t)(equals - entry) - (constant ? 1 : 0) : 0;
    int field = equals ? field_by_name(entry, len) : -1;

    if (field < 0 || !equals[1]) {
        int s =
            hw_fail_field(reterr, HOWDAH_INVALID, "map",
                          "wanted field=column or field:=constant, got %zu bytes", strlen(entry));
        return hw_advise(reterr, s,
                         "fields: id stream type data created_at headers correlation_id "
                         "causation_id actor schema_version");
    }
    if (constant && (field == HW_IMPORT_ID || field == HW_IMPORT_CREATED_AT))
        return hw_fail_field(reterr, HOWDAH_INVALID, "map",
                             "id and created_at give the order: they need a column");
    if (constant)
        run->source.constant[field] = hw_str_of(equals + 1);
    else
        run->source.column[field] = hw_str_of(equals + 1);
    return HOWDAH_OK;
}

/*
 * Called for each column of the table: fills fields that are not mapped by their usual names.
 * The first column of the table that fits is taken.  The names live in the store's result, so
 * they are copied; without memory the walk ends.
 */
static int meet_column(void *ctx, const char *column)
{
    import_run *run = ctx;

    for (int i = 0; i < HW_IMPORT_FIELDS; i++) {
        if (run->source.column[i].s && strcmp(run->source.column[i].s, column) == 0)
            run->met[i] = true;
        if (run->source.column[i].s || run->source.constant[i].s)
            continue;
        for (size_t k = 0; k < 6 && fields[i].usual[k]; k++)
            if (!run->columns[i] && strcmp(fields[i].usual[k], column) == 0) {
                run->columns[i] = hw_strdup(column);
                run->no_memory = run->no_memory || !run->columns[i];
            }
    }
    return run->no_memory;
}

/*
 * import_columns() fills in the schema where the caller left it out, so the name is complete
 * here.
 */
static int resolve(import_run *run, howdah_error *reterr)
{
    int s = run->store->ops->import_columns(run->store, &run->source, meet_column, run, reterr);

    /* One table has one name, however it was spelled: the mark and the ids depend on it. */
    if (s >= 0 && run->source.schema.s)
        (void)snprintf(run->name, sizeof run->name, "%s.%s", run->source.schema.s,
                       run->source.table.s);

    if (s >= 0 && run->no_memory)
        return hw_fail_no_memory(reterr);

    for (int i = 0; s >= 0 && i < HW_IMPORT_FIELDS; i++) {
        if (run->source.column[i].s && !run->met[i])
            return hw_fail_field(reterr, HOWDAH_INVALID, "map",
                                 "the table has no such column for the field %s", fields[i].name);
        if (run->columns[i])
            run->source.column[i] = hw_str_of(run->columns[i]);
        if (fields[i].needed && !run->source.column[i].s && !run->source.constant[i].s) {
            s = hw_fail_field(reterr, HOWDAH_INVALID, "map",
                              "no column of the table looks like the field %s", fields[i].name);
            return hw_advise(reterr, s, "say which: --map %s=COLUMN", fields[i].name);
        }
    }
    return s;
}

/* "schema.table" or "table". */
static int parse_table(import_run *run, const char *table, howdah_error *reterr)
{
    size_t len = strlen(table);
    char *dot;

    if (len == 0 || len > SOURCE_NAME_MAX || !hw_utf8_valid(table, len))
        return hw_fail_field(reterr, HOWDAH_INVALID, "table", "must be 1 to %d bytes, got %zu",
                             SOURCE_NAME_MAX, len);
    memcpy(run->name, table, len + 1);
    run->table_copy = hw_strdup(table);
    if (!run->table_copy)
        return hw_fail_no_memory(reterr);
    dot = strchr(run->table_copy, '.');
    if (dot) {
        *dot = '\0';
        run->source.schema = hw_str_of(run->table_copy);
    }
    run->source.table = hw_str_of(dot ? dot + 1 : run->table_copy);
    return HOWDAH_OK;
}

/* ---------------------------------------------------------------- one row */

/* An id that is no UUID becomes one, always the same (I3). */
static int row_uuid(const import_run *run, hw_str text, char ret_uuid[HW_UUID_TEXT + 1],
                    howdah_error *reterr)
{
    hw_uuid uuid;

    if (!hw_uuid_parse(text.s, text.len, &uuid) &&
        !hw_uuid_from_name(run->name, text.s, text.len, &uuid))
        return hw_fail(reterr, HOWDAH_FAILED, "SHA-256 is not available");
    hw_uuid_format(&uuid, ret_uuid);
    return HOWDAH_OK;
}

/*
 * A causation that is no UUID is turned into one by the same rule as ids, so it still refers to
 * its event.
 */
static int set_ids(import_run *run, const hw_import_row *row, howdah_error *reterr)
{
    char uuid[HW_UUID_TEXT + 1];
    hw_str causation = row->field[HW_IMPORT_CAUSATION_ID];
    int s;

    if (!row->field[HW_IMPORT_ID].s)
        return hw_fail_field(reterr, HOWDAH_INVALID, "id", "is NULL");
    s = row_uuid(run, row->field[HW_IMPORT_ID], uuid, reterr);
    if (s < 0)
        return s;
    howdah_builder_set_id(run->builder, uuid);
    if (!causation.s || !causation.len)
        return HOWDAH_OK;
    s = row_uuid(run, causation, uuid, reterr);
    if (s >= 0)
        howdah_builder_set_causation(run->builder, uuid);
    return s;
}

/* created_at becomes the valid time: the recorded time is when howdah stored the event. */
static int build_row(import_run *run, const hw_import_row *row, howdah_event **ret_event,
                     howdah_error *reterr)
{
    howdah_builder *b = run->builder;
    hw_str data = row->field[HW_IMPORT_DATA];
    hw_str headers = row->field[HW_IMPORT_HEADERS];
    hw_str version = row->field[HW_IMPORT_SCHEMA_VERSION];
    int64_t schema_version = 1;
    int s;

    howdah_builder_reset(b);
    s = set_ids(run, row, reterr);
    if (s < 0)
        return s;
    howdah_builder_set_stream(b, row->field[HW_IMPORT_STREAM].s);
    howdah_builder_set_type(b, row->field[HW_IMPORT_TYPE].s);
    howdah_builder_set_json(b, data.s ? data.s : "null", data.s ? data.len : 4);
    howdah_builder_set_headers_json(b, headers.s, headers.len);
    howdah_builder_set_correlation(b, row->field[HW_IMPORT_CORRELATION_ID].s);
    howdah_builder_set_actor(b, row->field[HW_IMPORT_ACTOR].s);
    howdah_builder_set_valid_time(b, row->created_at_us);
    if (version.s && !hw_parse_i64(version.s, 1, INT32_MAX, &schema_version))
        return hw_fail_field(reterr, HOWDAH_INVALID, "schema_version",
                             "must be a number from 1 to 2147483647");
    howdah_builder_set_schema_version(b, schema_version);
    s = howdah_builder_build(b, ret_event, reterr);
    return s;
}

/* -------------------------------------------------------------- the batch */

/* Also after a failure half-way: run->n counts what was built. */
static void forget_events(import_run *run)
{
    for (size_t i = 0; i < run->n; i++)
        hw_event_free(run->events[i]);
    run->n = 0;
}

/*
 * The batch ends early when its payloads grow large; at least one row is taken, so that it goes
 * on.
 */
static int build_rows(import_run *run, const hw_import_row *rows, size_t n, size_t *ret_taken,
                      howdah_error *reterr)
{
    size_t bytes = 0;
    size_t i = 0;

    assert(run->n == 0);
    for (; i < n && (i == 0 || bytes < BATCH_BYTES); i++) {
        int s = build_row(run, &rows[i], &run->events[run->n], reterr);

        if (s < 0) {
            hw_str id = rows[i].field[HW_IMPORT_ID];
            hw_error_prefix(reterr, "row with id %.64s", id.s ? id.s : "NULL");
            return s;
        }
        bytes += run->events[run->n]->data.len;
        run->n++;
    }
    *ret_taken = i;
    return HOWDAH_OK;
}

/* Takes up to n rows after the mark; *ret_end when there are none. */
static int import_batch(import_run *run, size_t n, hw_buf *place_text, hw_import_place *place,
                        bool *ret_end, howdah_error *reterr)
{
    const hw_import_row *rows = NULL;
    size_t rows_n = 0;
    size_t taken = 0;
    int s = run->store->ops->import_rows(
        run->store, &run->source, place->created_at.s ? place : NULL, n, &rows, &rows_n, reterr);

    *ret_end = s >= 0 && rows_n == 0;
    if (s < 0 || rows_n == 0)
        return s;
    s = build_rows(run, rows, rows_n, &taken, reterr);
    if (s >= 0) {
        const hw_import_row *last = &rows[taken - 1]; /* build_rows() takes at least one */
        hw_import_place next = {.source = hw_str_of(run->name),
                                .created_at = last->field[HW_IMPORT_CREATED_AT],
                                .id = last->field[HW_IMPORT_ID],
                                .rows = run->rows + (int64_t)taken,
                                .before = run->rows};

        assert(taken > 0 && taken <= rows_n && run->n == taken);
        s = hw_append_to(run->store, run->bus->interrupt, run->bus->payload_bytes_max,
                         (const howdah_event *const *)run->events, run->n, NULL, &next, NULL,
                         reterr);
        HW_FAULT_POINT("import.batch_committed");
        /* The rows' texts die with the next statement: the mark keeps its own. */
        hw_buf_clear(place_text);
        hw_buf_put(place_text, next.created_at.s, next.created_at.len + 1);
        hw_buf_put(place_text, next.id.s, next.id.len + 1);
        *place = (hw_import_place){.source = next.source,
                                   .created_at = {place_text->data, next.created_at.len},
                                   .id = {place_text->data + next.created_at.len + 1, next.id.len},
                                   .rows = next.rows};
        if (s >= 0) {
            run->rows = next.rows;
            run->imported += (int64_t)taken;
            s = hw_buf_check(place_text, reterr);
        }
    }
    forget_events(run);
    return s;
}

/* The total is only for the progress report; rows that arrive meanwhile are imported, too. */
static int import_all(import_run *run, const howdah_import_options *o, howdah_error *reterr)
{
    hw_buf place_text = HW_BUF_INIT((size_t)1024 * 1024);
    hw_import_place place = {.source = hw_str_of(run->name)};
    int64_t total = 0;
    bool end = false;
    int s = run->store->ops->import_place(run->store, place.source, &place_text, &place, reterr);

    if (s == HOWDAH_END)
        s = HOWDAH_OK;
    run->rows = place.rows;
    if (s >= 0)
        s = run->store->ops->import_total(run->store, &run->source, &total, reterr);
    while (s >= 0 && !end) {
        s = import_batch(run, o->batch ? (size_t)o->batch : BATCH_DEFAULT, &place_text, &place,
                         &end, reterr);
        if (s >= 0 && o->progress && o->progress(o->progress_ctx, run->rows, total) != 0)
            s = hw_fail(reterr, HOWDAH_INTERRUPTED,
                        "import stopped after %lld rows; run it again "
                        "to go on",
                        (long long)run->rows);
    }
    hw_buf_done(&place_text);
    return s < 0 ? s : HOWDAH_OK;
}

/* A batch of 0 is the default. */
static int check_options(const howdah_import_options *o, howdah_error *reterr)
{
    if (!o->table)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_import: options.table is NULL");
    if (o->batch < 0 || o->batch > BATCH_MAX)
        return hw_fail_field(reterr, HOWDAH_INVALID, "batch", "must be 1 to %d", BATCH_MAX);
    return HOWDAH_OK;
}

/* One exit for everything that was allocated, whatever failed. */
int howdah_import(howdah_bus *bus, const howdah_import_options *options, int64_t *ret_imported,
                  howdah_error *reterr)
{
    HW_ENTRY(entry);
    howdah_import_options own = HOWDAH_IMPORT_OPTIONS_INIT;
    import_run *run;
    int s = hw_enter(&entry, &bus, HW_WRITES, "howdah_import", reterr);

    if (s < 0)
        return s;
    if (!options)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_import: an argument is NULL");
    s = hw_sized_take(&own, sizeof own, options, "howdah_import", reterr);
    options = &own;
    if (s >= 0)
        s = check_options(options, reterr);
    if (s < 0)
        return s;
    run = hw_calloc(1, sizeof *run);
    if (!run)
        return hw_fail_no_memory(reterr);
    run->bus = bus;
    run->store = bus->store;
    s = howdah_builder_new(&run->builder, reterr);
    if (s >= 0)
        s = parse_table(run, options->table, reterr);
    for (size_t i = 0; s >= 0 && i < options->map_n; i++)
        s = parse_map(run, options->map[i], reterr);
    if (s >= 0)
        s = resolve(run, reterr);
    if (s >= 0)
        s = import_all(run, options, reterr);
    if (s >= 0 && ret_imported)
        *ret_imported = run->imported;
    forget_events(run);
    for (int i = 0; i < HW_IMPORT_FIELDS; i++)
        hw_free(run->columns[i]);
    howdah_builder_free(run->builder);
    hw_free(run->table_copy);
    hw_free(run);
    return s;
}
