/*
 * schema.c - creates and migrates the schema, and knows whether it is ours.
 *
 *   I1  A step, its row in howdah_migrations and the bus's identity are one transaction.
 *   I2  The verdict on what is applied is taken inside that transaction, under the write lock:
 *       of two that start at once, one applies the step and the other finds it applied.
 *   I3  A step with another text, or one that this library does not know, stops everything before
 *       anything is changed.
 */
#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/log_hook.h"
#include "base/random.h"
#include "base/uuid.h"
#include "engine/backoff.h"
#include "store/sqlite/sqlite.h"

/* "HWDH"; only in a file that is ours alone. */
#define APPLICATION_ID_SQL "PRAGMA main.application_id = 1213678664"

#define HAS_TABLE_SQL                                                                              \
    "SELECT count(*) FROM main.sqlite_master WHERE type = 'table' AND name = 'howdah_migrations'"
#define APPLIED_SQL                                                                                \
    "SELECT number, name, hash, applied_at FROM main.howdah_migrations ORDER BY number"

/* ---------------------------------------------------------------- verdicts */

/* As this library knows it; not applied, as far as is known. */
static howdah_migration_info known_step(size_t index)
{
    const hw_step *step = &hw_sqlite_steps[index];

    return (howdah_migration_info){sizeof(howdah_migration_info),
                                   step->number,
                                   step->name,
                                   step->hash,
                                   HOWDAH_NO_TIME,
                                   false,
                                   false};
}

/* Never NULL, also when there is no memory. */
static const char *column_text(sqlite3_stmt *stmt, int column)
{
    const char *text = (const char *)sqlite3_column_text(stmt, column);

    return text ? text : "";
}

/* Merges what is applied (the rows of stmt; NULL: nothing) with what this library knows, by
   number.  Both are ascending. */
static int walk_rows(hw_sqlite *store, sqlite3_stmt *stmt, hw_step_fn fn, void *ctx,
                     howdah_error *reterr)
{
    size_t known = 0;
    bool stop = false;
    int s = HOWDAH_END;

    while (stmt && !stop && (s = hw_sqlite_step(store, stmt, "read the schema", reterr)) == 0) {
        int number = sqlite3_column_int(stmt, 0);
        howdah_migration_info step = {sizeof step, number, NULL, NULL, HOWDAH_NO_TIME, false, true};

        for (; !stop && known < hw_sqlite_steps_n && hw_sqlite_steps[known].number < number;
             known++) {
            howdah_migration_info missing = known_step(known);
            stop = fn(ctx, &missing) != 0;
        }
        step.name = column_text(stmt, 1);
        step.hash = column_text(stmt, 2);
        if (known < hw_sqlite_steps_n && hw_sqlite_steps[known].number == number) {
            step.unknown = false;
            step.changed = strcmp(step.hash, hw_sqlite_steps[known].hash) != 0;
            known++;
        }
        step.applied_at_us = sqlite3_column_int64(stmt, 3);
        stop = stop || fn(ctx, &step) != 0;
    }
    if (s < 0)
        return s;
    for (; !stop && known < hw_sqlite_steps_n; known++) {
        howdah_migration_info missing = known_step(known);
        stop = fn(ctx, &missing) != 0;
    }
    return HOWDAH_OK;
}

/* A file without the table has no steps: that is how a new one, or somebody else's, looks. */
static int walk(hw_sqlite *store, hw_step_fn fn, void *ctx, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int64_t tables = 0;
    int s = hw_sqlite_number(store, HAS_TABLE_SQL, 0, &tables, reterr);

    if (s >= 0 && tables > 0) {
        int rc = sqlite3_prepare_v2(store->db, APPLIED_SQL, -1, &stmt, NULL);

        if (rc != SQLITE_OK)
            s = hw_sqlite_fail(store, rc, "read the schema", reterr);
    }
    if (s >= 0)
        s = walk_rows(store, stmt, fn, ctx, reterr);
    (void)sqlite3_finalize(stmt);
    return s;
}

/* What is wrong with the schema, as a fold over the steps. */
typedef struct verdict {
    int64_t applied;
    int missing; /* the number of the first missing step, 0: none */
    int changed; /* likewise */
    int unknown;
    char name[64]; /* of the step that is changed or unknown */
} verdict;

/* Only the first of each kind is kept: it is the one that the message names. */
static int judge(void *ctx, const howdah_migration_info *step)
{
    verdict *v = ctx;

    if (step->applied_at_us == HOWDAH_NO_TIME) {
        v->missing = v->missing ? v->missing : step->number;
        return 0;
    }
    v->applied++;
    if (!v->changed && !v->unknown && (step->changed || step->unknown)) {
        if (step->changed)
            v->changed = step->number;
        else
            v->unknown = step->number;
        (void)strncpy(v->name, step->name, sizeof v->name - 1);
    }
    return 0;
}

static int take_verdict(hw_sqlite *store, verdict *v, howdah_error *reterr)
{
    *v = (verdict){0};
    return walk(store, judge, v, reterr);
}

/* I3.  Checked before missing steps: a newer schema has none missing that we could apply. */
static int refuse_not_ours(const hw_sqlite *store, const verdict *v, howdah_error *reterr)
{
    int s;

    if (v->changed) {
        s = hw_fail(reterr, HOWDAH_SCHEMA,
                    "%s: step %d (%s) was applied with another text than this library has",
                    store->name, v->changed, v->name);
        return hw_advise(reterr, s, "the file was made by another build: use that one");
    }
    if (v->unknown) {
        s = hw_fail(reterr, HOWDAH_SCHEMA,
                    "%s: step %d (%s) is newer than this library, which knows %zu", store->name,
                    v->unknown, v->name, hw_sqlite_steps_n);
        return hw_advise(reterr, s, "upgrade howdah on this machine");
    }
    return HOWDAH_OK;
}

/* What to do differs: a file without any step was never a bus, one with some is an older one. */
static int refuse_missing(const hw_sqlite *store, const verdict *v, howdah_error *reterr)
{
    int s;

    if (!v->missing)
        return HOWDAH_OK;
    if (v->applied == 0) {
        s = hw_fail(reterr, HOWDAH_SCHEMA, "%s: there is no howdah schema in it", store->name);
        return hw_advise(reterr, s, "run: howdah init");
    }
    s = hw_fail(reterr, HOWDAH_SCHEMA, "%s: step %d of the schema is not applied", store->name,
                v->missing);
    return hw_advise(reterr, s, "run: howdah migrate up");
}

/* Asked by every operation, so it has to be cheap: SQLite's own counter of schema changes tells
   whether the last verdict still holds. */
int hw_sqlite_check_schema(hw_sqlite *store, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int64_t cookie;
    verdict v;
    int s = hw_sqlite_stmt(store, HW_SLOT_COOKIE, "PRAGMA main.schema_version", &stmt, reterr);

    if (s >= 0)
        s = hw_sqlite_step(store, stmt, "read the schema", reterr);
    if (s < 0)
        return s;
    cookie = sqlite3_column_int64(stmt, 0);
    (void)sqlite3_reset(stmt);
    if (store->schema_known && store->schema_cookie == cookie)
        return HOWDAH_OK;
    s = take_verdict(store, &v, reterr);
    if (s >= 0)
        s = refuse_not_ours(store, &v, reterr);
    if (s >= 0)
        s = refuse_missing(store, &v, reterr);
    if (s < 0)
        return s;
    store->schema_known = true;
    store->schema_cookie = cookie;
    return HOWDAH_OK;
}

int hw_sqlite_schema_version(hw_sqlite *store, int64_t *ret_version, howdah_error *reterr)
{
    verdict v;
    int s = take_verdict(store, &v, reterr);

    if (s >= 0)
        *ret_version = v.applied;
    return s;
}

/* Shows steps that are changed or unknown, too, instead of refusing them. */
int hw_sqlite_migrate_status(hw_store *base, hw_step_fn fn, void *ctx, howdah_error *reterr)
{
    hw_sqlite *store = (hw_sqlite *)base;
    howdah_error err = HOWDAH_ERROR_INIT;
    int s = hw_sqlite_ready(store, HW_NEED_READ, &err);

    /* Without a file nothing is applied; that is an answer, not an error. */
    if (s == HOWDAH_SCHEMA)
        return walk_rows(store, NULL, fn, ctx, reterr);
    if (s < 0) {
        hw_error_copy(reterr, &err);
        return s;
    }
    return walk(store, fn, ctx, reterr);
}

/* ----------------------------------------------------------------- migrate */

/* One try.  HOWDAH_END: somebody is in the way.  A file system without shared memory keeps its
   journal mode, and the log still works: that is only logged. */
static int try_wal(hw_sqlite *store, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(store->db, "PRAGMA main.journal_mode = WAL", -1, &stmt, NULL);
    int s = HOWDAH_OK;

    if (rc == SQLITE_OK)
        rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW) {
        const char *mode = column_text(stmt, 0);

        if (strcmp(mode, "wal") != 0 && strcmp(mode, "memory") != 0)
            hw_log(HOWDAH_LOG_WARN, "%s: there is no write-ahead log: the journal mode is %s",
                   store->name, mode);
    } else if ((rc & 0xff) == SQLITE_BUSY || (rc & 0xff) == SQLITE_LOCKED) {
        s = HOWDAH_END;
    } else {
        s = hw_sqlite_fail(store, rc, "set journal mode", reterr);
    }
    (void)sqlite3_finalize(stmt);
    return s;
}

/* The change needs the file for itself, and SQLite does not wait for that.  So we do, up to
   busy_timeout. */
static int use_wal(hw_sqlite *store, howdah_error *reterr)
{
    int64_t until = hw_clock_mono_ms() + store->busy_timeout_ms;

    for (unsigned attempt = 0;; attempt++) {
        int s = try_wal(store, reterr);

        if (s != HOWDAH_END)
            return s;
        if (hw_clock_mono_ms() >= until)
            return hw_sqlite_fail(store, SQLITE_BUSY, "set journal mode", reterr);
        s = hw_sqlite_check_interrupt(store, reterr);
        if (s < 0)
            return s;
        (void)sqlite3_sleep((int)hw_backoff_ms(1, 50, attempt, 50, hw_random_u32()));
    }
}

/* Runs a statement whose values are bound, and frees it. */
static int finish(hw_sqlite *store, sqlite3_stmt *stmt, howdah_error *reterr)
{
    int s = hw_sqlite_step(store, stmt, "migrate", reterr);

    (void)sqlite3_finalize(stmt);
    return s < 0 ? s : HOWDAH_OK;
}

static int prepare(hw_sqlite *store, const char *sql, sqlite3_stmt **ret_stmt, howdah_error *reterr)
{
    int rc = sqlite3_prepare_v2(store->db, sql, -1, ret_stmt, NULL);

    return rc == SQLITE_OK ? HOWDAH_OK : hw_sqlite_fail(store, rc, "migrate", reterr);
}

static int record_step(hw_sqlite *store, const hw_step *step, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s =
        prepare(store, "INSERT INTO main.howdah_migrations VALUES (?1, ?2, ?3, ?4)", &stmt, reterr);

    if (s < 0)
        return s;
    (void)sqlite3_bind_int(stmt, 1, step->number);
    hw_sqlite_bind_str(stmt, 2, hw_str_of(step->name));
    hw_sqlite_bind_str(stmt, 3, hw_str_of(step->hash));
    (void)sqlite3_bind_int64(stmt, 4, hw_clock_wall_us());
    return finish(store, stmt, reterr);
}

/* Gives the bus its identity, once: IGNORE keeps one that is there. */
static int record_identity(hw_sqlite *store, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    hw_uuid id;
    char id_text[HW_UUID_TEXT + 1];
    char time_text[HW_TIME_TEXT + 1];
    int s;

    if (!hw_uuid_v7(&id))
        return hw_fail(reterr, HOWDAH_FAILED, "the system gives no random bytes for an id");
    s = prepare(store,
                "INSERT OR IGNORE INTO main.howdah_meta VALUES ('bus_id', ?1), ('created_at', ?2)",
                &stmt, reterr);
    if (s < 0)
        return s;
    hw_uuid_format(&id, id_text);
    hw_time_format(hw_clock_wall_us(), time_text);
    hw_sqlite_bind_str(stmt, 1, hw_str_of(id_text));
    hw_sqlite_bind_str(stmt, 2, hw_str_of(time_text));
    return finish(store, stmt, reterr);
}

/* A file that holds nothing else is marked as ours, for file(1) and the like.  In a file with the
   caller's tables the mark is theirs to choose. */
static int mark_file(hw_sqlite *store, howdah_error *reterr)
{
    int64_t objects = 0;
    int64_t id = 0;
    int s = hw_sqlite_number(store, "SELECT count(*) FROM main.sqlite_master", 0, &objects, reterr);

    if (s >= 0)
        s = hw_sqlite_number(store, "PRAGMA main.application_id", 0, &id, reterr);
    if (s < 0 || objects > 0 || id != 0)
        return s;
    return hw_sqlite_exec(store, APPLICATION_ID_SQL, "migrate", reterr);
}

/* The first step also gives the file its mark and the bus its identity. */
static int run_step(hw_sqlite *store, const hw_step *step, howdah_error *reterr)
{
    int rc;
    int s = step->number == 1 ? mark_file(store, reterr) : HOWDAH_OK;

    if (s < 0)
        return s;
    rc = sqlite3_exec(store->db, step->sql, NULL, NULL, NULL);
    if ((rc & 0xff) == SQLITE_ERROR)
        return hw_fail(reterr, HOWDAH_SCHEMA, "step %d (%s) cannot be applied to %s: %s",
                       step->number, step->name, store->name, sqlite3_errmsg(store->db));
    if (rc != SQLITE_OK)
        return hw_sqlite_fail(store, rc, "migrate", reterr);
    s = record_step(store, step, reterr);
    if (s >= 0 && step->number == 1)
        s = record_identity(store, reterr);
    return s;
}

/* I1, I2.  *ret_applied: it was this call that applied it.  Someone else may have done so since
   the first look. */
static int apply_step(hw_sqlite *store, const hw_step *step, bool *ret_applied,
                      howdah_error *reterr)
{
    verdict v;
    int s = hw_sqlite_begin(store, reterr);

    *ret_applied = false;
    if (s < 0)
        return s;
    s = take_verdict(store, &v, reterr);
    if (s >= 0)
        s = refuse_not_ours(store, &v, reterr);
    if (s >= 0 && v.missing == step->number) {
        s = run_step(store, step, reterr);
        *ret_applied = true;
    }
    if (s >= 0 && *ret_applied)
        return hw_sqlite_commit(store, reterr);
    hw_sqlite_rollback(store);
    return s;
}

/* The journal mode is changed before the first step: it cannot be inside a transaction. */
int hw_sqlite_migrate(hw_store *base, hw_note_fn note, void *note_ctx, howdah_error *reterr)
{
    hw_sqlite *store = (hw_sqlite *)base;
    verdict v = {0};
    int s = hw_sqlite_ready(store, HW_NEED_CREATE, reterr);

    if (s >= 0)
        s = take_verdict(store, &v, reterr);
    if (s >= 0)
        s = refuse_not_ours(store, &v, reterr);
    if (s >= 0)
        s = use_wal(store, reterr);
    for (size_t i = 0; s >= 0 && v.missing && i < hw_sqlite_steps_n; i++) {
        const hw_step *step = &hw_sqlite_steps[i];
        bool applied = false;

        if (step->number < v.missing)
            continue;
        s = apply_step(store, step, &applied, reterr);
        if (s >= 0 && applied && note) {
            char text[128];

            (void)sqlite3_snprintf(sizeof text, text, "step %d (%s) applied", step->number,
                                   step->name);
            note(note_ctx, text);
        }
    }
    return s < 0 ? s : HOWDAH_OK;
}

/* ------------------------------------------------------------------- print */

/* The time in microseconds and a random UUID, as SQLite can make them without this library. */
#define NOW_US_SQL "strftime('%s', 'now') * 1000000 + substr(strftime('%f', 'now'), 4) * 1000"
#define RANDOM_HEX(bytes) "lower(hex(randomblob(" #bytes ")))"
/* clang-format off */
#define IDENTITY_SQL                                                                               \
    "INSERT INTO howdah_meta VALUES ('bus_id', " RANDOM_HEX(4) " || '-' || " RANDOM_HEX(2) "\n"    \
    "    || '-4' || substr(" RANDOM_HEX(2) ", 2) || '-8' || substr(" RANDOM_HEX(2) ", 2)\n"        \
    "    || '-' || " RANDOM_HEX(6) "),\n"                                                          \
    "    ('created_at', strftime('%Y-%m-%dT%H:%M:%f', 'now') || '000Z');\n"
/* clang-format on */

/* For those who apply SQL by hand: the same steps, with the rows that migrate would write. */
int hw_sqlite_print(const hw_config *config, hw_buf *out, howdah_error *reterr)
{
    (void)config;
    hw_buf_puts(out, "-- The schema of a howdah bus in SQLite.  Run with: sqlite3 FILE < THIS\n"
                     "PRAGMA journal_mode = WAL;\n");
    for (size_t i = 0; i < hw_sqlite_steps_n; i++) {
        const hw_step *step = &hw_sqlite_steps[i];

        hw_buf_puts(out, "\nBEGIN IMMEDIATE;\n\n");
        hw_buf_puts(out, step->sql);
        hw_buf_printf(out, "\nINSERT INTO howdah_migrations VALUES (%d, '%s',\n    '%s',\n    ",
                      step->number, step->name, step->hash);
        hw_buf_puts(out, NOW_US_SQL ");\n");
        if (step->number == 1)
            hw_buf_puts(out, IDENTITY_SQL);
        hw_buf_puts(out, "COMMIT;\n");
    }
    return hw_buf_check(out, reterr);
}
