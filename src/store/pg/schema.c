/*
 * schema.c - creating and migrating the PostgreSQL schema.
 *
 *   I1  Each step is one transaction that begins with the migration lock and looks at what is
 *       applied only then: of two starters one migrates, the other waits and finds it done.
 *   I2  A step whose text differs from the one applied, or a step that we do not know, stops
 *       everything before anything is changed.
 *   I3  Functions and roles are one more step, number 0, applied again whenever their text
 *       changes, or a role of the bus exists that has no rights yet (somebody else had to create
 *       it); only a library that knows every applied step may do it.
 *   I4  When nothing is left to apply, the log's sequence is brought up to the numbers that are in
 *       use: a copy of the tables may have come without it.  It is never lowered.
 *   I5  A session learns with its first look whether its appends would get numbers that somebody
 *       counts as done already; then it appends nothing.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/log_hook.h"
#include "base/mem.h"
#include "store/migrations.h"
#include "store/pg/pg.h"

/*
 * A step may have to wait for a long transaction, or build an index on a large log:
 * statement_timeout does not apply.
 */
#define MIGRATE_TIMEOUT_MS (10 * 60 * 1000)
#define STEP_BYTES_MAX ((size_t)4 * 1024 * 1024)

/* Not a step: it has to be there before the first step can be recorded. */
static const char bookkeeping_sql[] =
    "CREATE TABLE IF NOT EXISTS @schema@.migrations (\n"
    "    number     integer PRIMARY KEY,\n"
    "    name       text NOT NULL,\n"
    "    hash       text NOT NULL,\n"
    "    applied_at timestamptz NOT NULL DEFAULT clock_timestamp(),\n"
    "    applied_by text NOT NULL DEFAULT current_user\n"
    ");\n";

/* The update is for step 0, which is applied again whenever its text changes (I3). */
static const char record_sql[] =
    "INSERT INTO @schema@.migrations (number, name, hash) VALUES ($1, $2, $3)"
    " ON CONFLICT (number) DO UPDATE SET hash = excluded.hash, applied_at = clock_timestamp(),"
    " applied_by = current_user";

/* Runs a text with names filled in; parameters are texts.  timeout_ms 0: that of any statement. */
static int run_within(hw_pg *pg, int64_t timeout_ms, const char *text, const char *const *values,
                      int n, PGresult **ret_result, howdah_error *reterr)
{
    hw_buf sql = HW_BUF_INIT(STEP_BYTES_MAX);
    hw_pg_call call = {.statement = -1, .text_result = true, .timeout_ms = timeout_ms};
    PGresult *result = NULL;
    int s = hw_pg_fill_names(text, pg->schema, &sql, reterr);

    assert(n <= HW_PG_PARAMS_MAX);
    if (s >= 0) {
        call.sql = hw_buf_str(&sql);
        for (int i = 0; i < n; i++) {
            call.values[i] = values[i];
            call.n++;
        }
        s = hw_pg_exec(pg, &call, &result, reterr);
    }
    hw_buf_done(&sql);
    if (s >= 0 && ret_result)
        *ret_result = result;
    else
        PQclear(result);
    return s;
}

/* A migration waits for others and rewrites tables: it may take its time. */
static int run_text(hw_pg *pg, const char *text, const char *const *values, int n,
                    PGresult **ret_result, howdah_error *reterr)
{
    return run_within(pg, MIGRATE_TIMEOUT_MS, text, values, n, ret_result, reterr);
}

/* The catalogue can be asked without any right on the schema.  table "": the schema itself. */
static int schema_exists(hw_pg *pg, const char *table, bool *ret_exists, howdah_error *reterr)
{
    const char *const values[] = {pg->schema, table};
    PGresult *result = NULL;
    int s = run_text(pg,
                     "SELECT count(*) FROM pg_namespace AS n LEFT JOIN pg_class AS c ON"
                     " c.relnamespace = n.oid AND c.relname = $2"
                     " WHERE n.nspname = $1 AND ($2 = '' OR c.oid IS NOT NULL)",
                     values, 2, &result, reterr);

    if (s >= 0)
        *ret_exists = strcmp(PQgetvalue(result, 0, 0), "0") != 0;
    PQclear(result);
    return s;
}

/* ------------------------------------------------------------ what is applied */

/* NULL: a later version of howdah has applied it.  Steps are numbered from 1 without gaps. */
static const hw_step *known_step(int number)
{
    if (number == 0)
        return &hw_pg_functions;
    assert(hw_pg_steps[hw_pg_steps_n - 1].number == (int)hw_pg_steps_n);
    return number > 0 && (size_t)number <= hw_pg_steps_n ? &hw_pg_steps[number - 1] : NULL;
}

/* I2.  Step 0 may differ: it is applied again (I3). */
static int check_applied(const PGresult *applied, howdah_error *reterr)
{
    for (int i = 0; i < PQntuples(applied); i++) {
        int number = (int)strtol(PQgetvalue(applied, i, 0), NULL, 10);
        const hw_step *step = known_step(number);
        int s;

        if (!step) {
            s = hw_fail(reterr, HOWDAH_SCHEMA,
                        "the schema is newer than this howdah: it has step %d (%s), this knows %zu",
                        number, PQgetvalue(applied, i, 1), hw_pg_steps_n);
            return hw_advise(reterr, s, "upgrade howdah on this machine");
        }
        if (number > 0 && strcmp(step->hash, PQgetvalue(applied, i, 2)) != 0) {
            s = hw_fail(reterr, HOWDAH_SCHEMA,
                        "step %d (%s) was applied with another text (hash %.12s, ours %.12s)",
                        number, step->name, PQgetvalue(applied, i, 2), step->hash);
            return hw_advise(reterr, s,
                             "somebody changed the schema or this build: nothing was done; compare "
                             "with howdah migrate print");
        }
    }
    return HOWDAH_OK;
}

/* With the same text; another text is check_applied()'s business, or makes step 0 due again. */
static bool is_applied(const PGresult *applied, const hw_step *step)
{
    for (int i = 0; i < PQntuples(applied); i++)
        if (strtol(PQgetvalue(applied, i, 0), NULL, 10) == step->number)
            return strcmp(PQgetvalue(applied, i, 2), step->hash) == 0;
    return false;
}

static int read_applied(hw_pg *pg, PGresult **ret_applied, howdah_error *reterr)
{
    return run_text(pg,
                    "SELECT number, name, hash,"
                    " (extract(epoch FROM applied_at) * 1000000)::bigint"
                    " FROM @schema@.migrations ORDER BY number",
                    NULL, 0, ret_applied, reterr);
}

/* ------------------------------------------------------------------ migrate */

/* The step and its record are one transaction, which the caller has begun (I1). */
static int apply(hw_pg *pg, const hw_step *step, howdah_error *reterr)
{
    char number[16];
    const char *const values[] = {number, step->name, step->hash};
    int s = run_text(pg, step->sql, NULL, 0, NULL, reterr);

    (void)snprintf(number, sizeof number, "%d", step->number);
    if (s >= 0)
        s = run_text(pg, record_sql, values, 3, NULL, reterr);
    if (s < 0)
        hw_error_prefix(reterr, "migration step %d (%s)", step->number, step->name);
    return s;
}

/* The next step that is not applied, functions last; NULL when all are. */
static const hw_step *next_step(const PGresult *applied)
{
    for (size_t i = 0; i < hw_pg_steps_n; i++)
        if (!is_applied(applied, &hw_pg_steps[i]))
            return &hw_pg_steps[i];
    return is_applied(applied, &hw_pg_functions) ? NULL : &hw_pg_functions;
}

/* Roles that were created after the functions, seen by one who may grant (I3). */
static const char waiting_sql[] =
    "SELECT count(*) FROM pg_namespace AS n, pg_roles AS r WHERE n.nspname = $1"
    " AND r.rolname IN ($1 || '_publish', $1 || '_read', $1 || '_subscribe',"
    "  $1 || '_admin')"
    " AND NOT has_schema_privilege(r.oid, n.oid, 'USAGE')"
    " AND pg_has_role(n.nspowner, 'USAGE')";

/* I3: when all steps are applied, roles that others have created since make step 0 due again. */
static int choose_step(hw_pg *pg, const PGresult *applied, const hw_step **ret_step,
                       howdah_error *reterr)
{
    const char *const values[] = {pg->schema};
    const hw_step *step = next_step(applied);
    PGresult *result = NULL;
    int s = HOWDAH_OK;

    if (!step) {
        s = run_text(pg, waiting_sql, values, 1, &result, reterr);
        if (s >= 0 && strcmp(PQgetvalue(result, 0, 0), "0") != 0)
            step = &hw_pg_functions;
        PQclear(result);
    }
    if (s >= 0)
        *ret_step = step;
    return s;
}

/*
 * I1: the lock comes first, so that of two starters only one creates the schema.  It ends with
 * the transaction.
 */
static int lock_and_prepare(hw_pg *pg, howdah_error *reterr)
{
    bool exists = false;
    int s = run_text(pg,
                     "SELECT pg_advisory_xact_lock(hashtextextended('howdah migrate '"
                     " || @schema_text@, 0))",
                     NULL, 0, NULL, reterr);

    if (s >= 0)
        s = schema_exists(pg, "", &exists, reterr);
    /* CREATE SCHEMA IF NOT EXISTS would ask for a right that an existing schema makes needless. */
    if (s >= 0 && !exists)
        s = run_text(pg, "CREATE SCHEMA @schema@", NULL, 0, NULL, reterr);
    if (s >= 0)
        s = schema_exists(pg, "migrations", &exists, reterr);
    if (s >= 0 && !exists)
        s = run_text(pg, bookkeeping_sql, NULL, 0, NULL, reterr);
    return s;
}

/* To the log, and to the caller of migrate, who may be waiting for minutes. */
static void tell(const hw_pg *pg, const char *text)
{
    hw_log(HOWDAH_LOG_INFO, "%s", text);
    if (pg->note)
        pg->note(pg->note_ctx, text);
}

static void say(const hw_pg *pg, const hw_step *step)
{
    char text[200];

    (void)snprintf(text, sizeof text,
                   step->number ? "step %d (%s) applied" : "step %d (%s and roles) applied",
                   step->number, step->name);
    tell(pg, text);
}

/*
 * One transaction: the next step, if there is one.  A READ ONLY transaction takes the lock and
 * reads, but cannot apply: it fails when something is due, which is what a read-only caller
 * should hear.
 */
static int migrate_step(hw_pg *pg, bool *ret_done, howdah_error *reterr)
{
    PGresult *applied = NULL;
    const hw_step *step = NULL;
    int s = hw_pg_command(pg, pg->read_only ? "BEGIN READ ONLY" : "BEGIN", reterr);

    if (s < 0)
        return s;
    s = lock_and_prepare(pg, reterr);
    if (s >= 0)
        s = read_applied(pg, &applied, reterr);
    if (s >= 0)
        s = check_applied(applied, reterr);
    if (s >= 0)
        s = choose_step(pg, applied, &step, reterr);
    PQclear(applied);
    if (s >= 0) {
        *ret_done = step == NULL;
        if (step)
            s = apply(pg, step, reterr);
    }
    if (s < 0) {
        if (pg->conn)
            (void)hw_pg_command(pg, "ROLLBACK", NULL);
        hw_pg_abandon(pg);
        return s;
    }
    s = hw_pg_command(pg, "COMMIT", reterr);
    if (s < 0)
        hw_pg_abandon(pg);
    else if (step)
        say(pg, step);
    return s;
}

/* ----------------------------------------------------------------- the sequence */

typedef struct numbers {
    int64_t drawn;
    int64_t used; /* the highest that is stored, or done for somebody */
} numbers;

/*
 * The function looks at the log, at subscriptions and at what is proven: any of them may count
 * a number as done.
 */
static int read_numbers(hw_pg *pg, numbers *ret_numbers, howdah_error *reterr)
{
    PGresult *result = NULL;
    int s = run_text(pg, "SELECT drawn, greatest(stored, done) FROM @schema@.log_numbers()", NULL,
                     0, &result, reterr);

    if (s >= 0) {
        ret_numbers->drawn = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
        ret_numbers->used = strtoll(PQgetvalue(result, 0, 1), NULL, 10);
    }
    PQclear(result);
    return s;
}

/*
 * A transaction that draws a number inserts a row with it and holds a lock on the table for that.
 * So nobody draws while we hold ours, and those who did before have ended: their events count.
 * The numbers are read again under the lock, because the first look was without it.
 */
static int raise_in_transaction(hw_pg *pg, numbers *ret_before, howdah_error *reterr)
{
    char text[24];
    const char *const values[] = {text};
    int s = lock_and_prepare(pg, reterr);

    if (s >= 0)
        s = run_text(pg, "LOCK TABLE @schema@.events IN SHARE ROW EXCLUSIVE MODE", NULL, 0, NULL,
                     reterr);
    if (s >= 0)
        s = read_numbers(pg, ret_before, reterr);
    if (s < 0 || ret_before->used <= ret_before->drawn)
        return s;
    (void)snprintf(text, sizeof text, "%lld", (long long)ret_before->used);
    return run_text(pg, "SELECT setval(@sequence_text@::regclass, $1::bigint)", values, 1, NULL,
                    reterr);
}

/*
 * I4.  Looks without a lock first: nearly always there is nothing to raise, and appends must
 * not wait.
 */
static int raise_sequence(hw_pg *pg, howdah_error *reterr)
{
    numbers n = {0, 0};
    char text[120];
    int s;

    /* A role that may not look has no right to repair either. */
    if (pg->read_only || read_numbers(pg, &n, NULL) < 0 || n.used <= n.drawn)
        return HOWDAH_OK;
    s = hw_pg_command(pg, "BEGIN", reterr);
    if (s < 0)
        return s;
    s = raise_in_transaction(pg, &n, reterr);
    if (s < 0) {
        hw_error_prefix(
            reterr, "the log's sequence is lower than the numbers in use, and cannot be raised");
        if (pg->conn)
            (void)hw_pg_command(pg, "ROLLBACK", NULL);
        hw_pg_abandon(pg);
        return s;
    }
    s = hw_pg_command(pg, "COMMIT", reterr);
    if (s < 0) {
        hw_pg_abandon(pg);
        return s;
    }
    if (n.used > n.drawn) {
        (void)snprintf(text, sizeof text, "sequence raised from %lld to %lld", (long long)n.drawn,
                       (long long)n.used);
        tell(pg, text);
    }
    return HOWDAH_OK;
}

/*
 * A session without a check of the schema, which need not be there yet.  Afterwards it is
 * checked again: rights and functions may be new.
 */
int hw_pg_migrate(hw_store *store, hw_note_fn note, void *note_ctx, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    bool done = false;
    int s = hw_pg_session(pg, reterr);

    pg->note = note;
    pg->note_ctx = note_ctx;
    while (s >= 0 && !done)
        s = migrate_step(pg, &done, reterr);
    if (s >= 0)
        s = raise_sequence(pg, reterr);
    pg->note = NULL;
    pg->schema_checked = false;
    return s;
}

/* ------------------------------------------------------------------- status */

/* step NULL: the database knows it, we do not.  row -1: it is not applied. */
static void report_step(const hw_step *step, const PGresult *applied, int row,
                        howdah_migration_info *info)
{
    assert(step || row >= 0);
    *info = (howdah_migration_info){.size = sizeof *info, .applied_at_us = HOWDAH_NO_TIME};
    if (step) {
        info->number = step->number;
        info->name = step->name;
        info->hash = step->hash;
    } else {
        info->number = (int)strtol(PQgetvalue(applied, row, 0), NULL, 10);
        info->name = PQgetvalue(applied, row, 1);
        info->hash = PQgetvalue(applied, row, 2);
        info->unknown = true;
    }
    if (row >= 0) {
        info->applied_at_us = strtoll(PQgetvalue(applied, row, 3), NULL, 10);
        info->changed = step && strcmp(step->hash, PQgetvalue(applied, row, 2)) != 0;
    }
}

static int find_row(const PGresult *applied, int number)
{
    for (int i = 0; i < PQntuples(applied); i++)
        if (strtol(PQgetvalue(applied, i, 0), NULL, 10) == number)
            return i;
    return -1;
}

/* Our steps in their order, functions last; then those that only the database knows. */
static void walk_steps(const PGresult *applied, hw_step_fn fn, void *ctx)
{
    howdah_migration_info info;

    for (size_t i = 0; i <= hw_pg_steps_n; i++) {
        const hw_step *step = i < hw_pg_steps_n ? &hw_pg_steps[i] : &hw_pg_functions;

        report_step(step, applied, find_row(applied, step->number), &info);
        if (fn(ctx, &info) != 0)
            return;
    }
    for (int i = 0; i < PQntuples(applied); i++) {
        if (known_step((int)strtol(PQgetvalue(applied, i, 0), NULL, 10)))
            continue;
        report_step(NULL, applied, i, &info);
        if (fn(ctx, &info) != 0)
            return;
    }
}

/* I4: what migrating would do besides.  A role that may not ask is not told. */
static void report_sequence(hw_pg *pg, hw_step_fn fn, void *ctx)
{
    const howdah_migration_info info = {.size = sizeof info,
                                        .number = -1,
                                        .name = "sequence",
                                        .hash = "",
                                        .applied_at_us = HOWDAH_NO_TIME};
    numbers n = {0, 0};

    if (read_numbers(pg, &n, NULL) >= 0 && n.used > n.drawn)
        (void)fn(ctx, &info);
}

/*
 * Needs no schema, and works on one that this version does not fit: it is how that is found
 * out.
 */
int hw_pg_migrate_status(hw_store *store, hw_step_fn fn, void *ctx, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    PGresult *applied = NULL;
    bool exists = false;
    int s = hw_pg_session(pg, reterr);

    if (s >= 0)
        s = schema_exists(pg, "migrations", &exists, reterr);
    if (s >= 0 && exists)
        s = read_applied(pg, &applied, reterr);
    if (s >= 0)
        walk_steps(applied, fn, ctx);
    if (s >= 0 && applied && is_applied(applied, &hw_pg_functions))
        report_sequence(pg, fn, ctx);
    PQclear(applied);
    return s;
}

/* -------------------------------------------------------- once per connection */

/*
 * Asks whether the bus is there and what we may do.  Without rights on the tables the SQL functions
 * do the work; the choice is made once per connection.  Names are looked up one by one, in what the
 * server has in memory: planning a join of catalogues takes a new session six times as long.  In a
 * schema that we may not use that would be an error, so there the prefix, and all else, is NULL.
 */
static const char rights_sql[] =
    "SELECT n.prefix IS NOT NULL,"
    " coalesce(has_table_privilege(r.events, 'SELECT'), false),"
    " coalesce(has_table_privilege(r.events, 'INSERT') AND has_table_privilege(r.events, 'SELECT')"
    "  AND has_sequence_privilege(r.numbers, 'USAGE')"
    "  AND has_sequence_privilege(to_regclass(n.prefix || 'bell'), 'SELECT'), false),"
    " r.events IS NOT NULL,"
    " coalesce(has_function_privilege(to_regprocedure(n.prefix || 'schema_version()'), 'EXECUTE'),"
    "  false),"
    " coalesce(has_function_privilege(to_regprocedure(n.prefix || 'ring(text[])'), 'EXECUTE')"
    "  AND has_function_privilege(to_regprocedure(n.prefix || 'ring_inside(text[])'), 'EXECUTE'),"
    "  false),"
    " coalesce(has_function_privilege(to_regprocedure(n.prefix || 'sequence_problem()'), "
    "'EXECUTE'),"
    "  false),"
    " coalesce(has_table_privilege(r.events, 'SELECT')"
    "  AND has_sequence_privilege(r.numbers, 'SELECT')"
    "  AND has_table_privilege(to_regclass(n.prefix || 'proven'), 'SELECT'), false)"
    " FROM (SELECT CASE WHEN has_schema_privilege(oid, 'USAGE')"
    "   THEN quote_ident(nspname) || '.' END AS prefix"
    "  FROM pg_namespace WHERE nspname = $1 OFFSET 0) AS n,"
    " LATERAL (SELECT to_regclass(n.prefix || 'events') AS events,"
    "   to_regclass(n.prefix || 'events_global_sequence_seq') AS numbers OFFSET 0) AS r";

static bool is_true(const PGresult *result, int column)
{
    return strcmp(PQgetvalue(result, 0, column), "t") == 0;
}

static int schema_missing(const hw_pg *pg, howdah_error *reterr)
{
    int s = hw_fail(reterr, HOWDAH_SCHEMA, "there is no bus in the schema %s of this database",
                    pg->schema);
    return hw_advise(reterr, s, "run: howdah init (with the same --store and --schema)");
}

/* I5: whether the sequence is sound is asked in the same round trip, where the role may ask. */
static int check_version(hw_pg *pg, bool may_ask, howdah_error *reterr)
{
    PGresult *result = NULL;
    long version = 0;
    int s = run_within(pg, 0,
                       may_ask ? "SELECT @schema@.schema_version(), @schema@.sequence_problem()"
                               : "SELECT @schema@.schema_version(), NULL",
                       NULL, 0, &result, reterr);

    if (s >= 0) {
        version = strtol(PQgetvalue(result, 0, 0), NULL, 10);
        (void)snprintf(pg->sequence_problem, sizeof pg->sequence_problem, "%s",
                       PQgetvalue(result, 0, 1));
    }
    PQclear(result);
    if (s < 0)
        return s;
    if (version < (long)hw_pg_steps_n)
        return hw_advise(reterr,
                         hw_fail(reterr, HOWDAH_SCHEMA,
                                 "the schema is at step %ld, this howdah needs %zu", version,
                                 hw_pg_steps_n),
                         "run: howdah migrate up");
    if (version > (long)hw_pg_steps_n)
        return hw_advise(reterr,
                         hw_fail(reterr, HOWDAH_SCHEMA,
                                 "the schema is at step %ld, newer than this howdah (%zu)", version,
                                 hw_pg_steps_n),
                         "upgrade howdah on this machine");
    return HOWDAH_OK;
}

/*
 * Who rings for this session's appends: we do, after the commit; or append_arrays() does, which
 * does not tell us the bell's mark.  A session that is not ours is left as it is.
 */
static int choose_ringer(hw_pg *pg, howdah_error *reterr)
{
    if (pg->caller_owned || pg->pooled || pg->read_only)
        return HOWDAH_OK;
    pg->rings = pg->direct_append && pg->may_ring;
    return hw_pg_command(pg,
                         pg->rings ? "SET howdah.ring = 'off'; SET howdah.ring_queues = 'on'"
                                   : "SET howdah.ring = 'on'; SET howdah.ring_queues = 'on'",
                         reterr);
}

/*
 * The columns are those of rights_sql.  A table that is there without the function is a matter
 * of rights; without both there is no bus.
 */
static int check_rights(hw_pg *pg, const PGresult *rights, howdah_error *reterr)
{
    int s;

    if (PQntuples(rights) == 0)
        return schema_missing(pg, reterr);
    if (!is_true(rights, 0) || (is_true(rights, 3) && !is_true(rights, 4)))
        return hw_advise(
            reterr, hw_fail(reterr, HOWDAH_DENIED, "no right on the schema %s", pg->schema),
            "let its owner run: GRANT %s_publish, %s_read TO your_user", pg->schema, pg->schema);
    if (!is_true(rights, 3) || !is_true(rights, 4))
        return schema_missing(pg, reterr);
    pg->direct_read = is_true(rights, 1);
    pg->direct_append = is_true(rights, 2);
    pg->direct_state = is_true(rights, 7);
    pg->may_ring = is_true(rights, 5);
    /* I5; an older set of functions lacks it, and some roles append nothing. */
    s = check_version(pg, is_true(rights, 6) && !pg->read_only, reterr);
    return s < 0 ? s : choose_ringer(pg, reterr);
}

/* Once per connection: hw_pg_disconnect() clears schema_checked. */
int hw_pg_check_schema(hw_pg *pg, howdah_error *reterr)
{
    const char *const values[] = {pg->schema};
    PGresult *rights = NULL;
    int s = run_within(pg, 0, rights_sql, values, 1, &rights, reterr);

    if (s >= 0)
        s = check_rights(pg, rights, reterr);
    PQclear(rights);
    if (s >= 0)
        pg->schema_checked = true;
    return s;
}

/* I5.  Costs nothing while all is well: the session has asked once. */
int hw_pg_check_sequence(hw_pg *pg, howdah_error *reterr)
{
    PGresult *result = NULL;
    int s;

    if (!pg->sequence_problem[0])
        return HOWDAH_OK;
    /* It may have been repaired meanwhile. */
    s = run_within(pg, 0, "SELECT @schema@.sequence_problem()", NULL, 0, &result, reterr);
    if (s >= 0)
        (void)snprintf(pg->sequence_problem, sizeof pg->sequence_problem, "%s",
                       PQgetvalue(result, 0, 0));
    PQclear(result);
    if (s < 0 || !pg->sequence_problem[0])
        return s;
    return hw_advise(reterr, hw_fail(reterr, HOWDAH_SCHEMA, "%s", pg->sequence_problem),
                     "nothing was stored; run: howdah migrate up");
}

/* -------------------------------------------------------------------- print */

/* For a DBA who runs it with psql: the same texts that migrate runs, and their records. */
static void print_step(const hw_config *config, const hw_step *step, hw_buf *out)
{
    hw_buf_printf(out, "\n-- step %d: %s\nBEGIN;\n", step->number, step->name);
    (void)hw_pg_fill_names(step->sql, config->schema, out, NULL);
    hw_buf_puts(out, "\nINSERT INTO ");
    hw_pg_quote_ident(out, config->schema);
    hw_buf_printf(out,
                  ".migrations (number, name, hash) VALUES (%d, '%s', '%s')\n"
                  "    ON CONFLICT (number) DO UPDATE SET hash = excluded.hash,"
                  " applied_at = clock_timestamp();\nCOMMIT;\n",
                  step->number, step->name, step->hash);
}

int hw_pg_print(const hw_config *config, hw_buf *out, howdah_error *reterr)
{
    hw_buf_puts(out, "-- howdah " HOWDAH_VERSION_STRING ": what \"howdah init\" runs on an empty "
                     "database.  Run it with psql as the role that shall own the bus.\n"
                     "\\set ON_ERROR_STOP on\nCREATE SCHEMA ");
    hw_pg_quote_ident(out, config->schema);
    hw_buf_puts(out, ";\n");
    (void)hw_pg_fill_names(bookkeeping_sql, config->schema, out, NULL);
    for (size_t i = 0; i < hw_pg_steps_n; i++)
        print_step(config, &hw_pg_steps[i], out);
    print_step(config, &hw_pg_functions, out);
    return hw_buf_check(out, reterr);
}
