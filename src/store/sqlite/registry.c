/* registry.c - tokens and webhooks on SQLite. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "store/sqlite/sqlite.h"

#define DAY_US INT64_C(86400000000)

#define ADD_SQL                                                                                    \
    "INSERT INTO main.howdah_tokens AS t (name, hash, may, patterns, streams, queues, created_at)" \
    " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (name) DO UPDATE SET hash = excluded.hash,"  \
    " may = excluded.may, patterns = excluded.patterns, streams = excluded.streams,"               \
    " queues = excluded.queues, created_at = excluded.created_at, used_at = NULL,"                 \
    " revoked_at = NULL WHERE t.revoked_at IS NOT NULL"
/* after ?1, limit ?2 */
#define TOKENS_SQL                                                                                 \
    "SELECT name, hash, may, patterns, streams, queues, created_at, used_at, revoked_at"           \
    " FROM main.howdah_tokens WHERE name > ?1 ORDER BY name LIMIT ?2"
/* Of the next ones: ?1 the name, ?2 now. */
#define REVOKE_SQL                                                                                 \
    "UPDATE main.howdah_tokens SET revoked_at = coalesce(revoked_at, ?2) WHERE name = ?1"
#define USED_SQL "UPDATE main.howdah_tokens SET used_at = ?2 WHERE name = ?1 AND used_at IS NOT ?2"

#define SET_SQL                                                                                    \
    "INSERT INTO main.howdah_webhooks AS w (name, url, secret, subscriber_id, pattern, stream,"    \
    " start, max_retries, retry_delay_ms, max_retry_delay_ms, headers, timeout_ms, created_at,"    \
    " changed_at) VALUES (?1, ?2, ?3, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?14)"           \
    " ON CONFLICT (name) DO UPDATE SET url = excluded.url,"                                        \
    " secret = CASE WHEN ?4 THEN excluded.secret ELSE w.secret END,"                               \
    " subscriber_id = excluded.subscriber_id, pattern = excluded.pattern,"                         \
    " stream = excluded.stream, start = excluded.start, max_retries = excluded.max_retries,"       \
    " retry_delay_ms = excluded.retry_delay_ms,"                                                   \
    " max_retry_delay_ms = excluded.max_retry_delay_ms, headers = excluded.headers,"               \
    " timeout_ms = excluded.timeout_ms, changed_at = excluded.changed_at RETURNING secret = ?3"
#define TAKEN_SQL "SELECT 1 FROM main.howdah_webhooks WHERE subscriber_id = ?1 AND name <> ?2"
/* after ?1, limit ?2, ?3 the name or NULL */
#define WEBHOOKS_SQL                                                                               \
    "SELECT name, url, subscriber_id, pattern, stream, headers, start, timeout_ms, max_retries,"   \
    " retry_delay_ms, max_retry_delay_ms, enabled, reason, disabled_at, created_at, changed_at,"   \
    " tried_at, coalesce(last_status, -1), last_error FROM main.howdah_webhooks"                   \
    " WHERE name > ?1 AND (?3 IS NULL OR name = ?3) ORDER BY name LIMIT ?2"
#define SECRET_SQL "SELECT secret FROM main.howdah_webhooks WHERE name = ?1"
#define ENABLE_SQL                                                                                 \
    "UPDATE main.howdah_webhooks SET enabled = 1, reason = ?3, disabled_at = NULL WHERE name = ?1"
#define DISABLE_SQL                                                                                \
    "UPDATE main.howdah_webhooks SET enabled = 0, reason = ?3,"                                    \
    " disabled_at = coalesce(disabled_at, ?2) WHERE name = ?1"
#define REPORT_SQL                                                                                 \
    "UPDATE main.howdah_webhooks SET tried_at = ?2, last_error = ?3, last_status = ?4"             \
    " WHERE name = ?1"
#define REMOVE_SQL "DELETE FROM main.howdah_webhooks WHERE name = ?1"

static int none_of(const char *what, hw_str name, howdah_error *reterr)
{
    return hw_fail(reterr, HOWDAH_NOT_FOUND, "there is no %s \"%.*s\"", what, (int)name.len,
                   name.s);
}

/* ------------------------------------------------------------------- tokens */

static int add(hw_sqlite *store, const hw_token *token, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_prepare(store, ADD_SQL, &stmt, reterr);

    if (s < 0)
        return s;
    hw_sqlite_bind_str(stmt, 1, token->name);
    (void)sqlite3_bind_blob64(stmt, 2, token->hash.s, token->hash.len, SQLITE_STATIC);
    (void)sqlite3_bind_int64(stmt, 3, token->may);
    hw_sqlite_bind_str(stmt, 4, token->patterns);
    hw_sqlite_bind_str(stmt, 5, token->streams);
    hw_sqlite_bind_str(stmt, 6, token->queues);
    (void)sqlite3_bind_int64(stmt, 7, hw_clock_wall_us());
    s = hw_sqlite_finish(store, stmt, "add a token", reterr);
    if (s < 0 || sqlite3_changes64(store->db) > 0)
        return s;
    s = hw_fail(reterr, HOWDAH_CONFLICT, "there is a token \"%.*s\" already", (int)token->name.len,
                token->name.s);
    return hw_advise(reterr, s, "revoke it first");
}

static int token_add(hw_store *base, const hw_token *token, howdah_error *reterr)
{
    hw_sqlite *store = (hw_sqlite *)base;
    int s = hw_sqlite_enter(store, true, reterr);

    return s < 0 ? s : hw_sqlite_leave(store, add(store, token, reterr), reterr);
}

typedef struct token_walk {
    hw_token_fn fn;
    void *ctx;
} token_walk;

static int hand_token(void *ctx, sqlite3_stmt *row, bool *ret_stop, howdah_error *reterr)
{
    const token_walk *w = ctx;
    const hw_token token = {
        .name = hw_sqlite_borrow(row, 0),
        .hash = hw_sqlite_borrow_value(row, 1),
        .may = sqlite3_column_int64(row, 2),
        .patterns = hw_sqlite_borrow(row, 3),
        .streams = hw_sqlite_borrow(row, 4),
        .queues = hw_sqlite_borrow(row, 5),
        .created_at_us = sqlite3_column_int64(row, 6),
        .used_at_us = hw_sqlite_time(row, 7),
        .revoked_at_us = hw_sqlite_time(row, 8),
    };

    if (!token.name.s || !token.hash.s || !token.patterns.s || !token.streams.s || !token.queues.s)
        return hw_fail_no_memory(reterr);
    *ret_stop = w->fn(w->ctx, &token) != 0;
    return HOWDAH_OK;
}

static int token_list(hw_store *base, hw_token_fn fn, void *ctx, howdah_error *reterr)
{
    token_walk w = {fn, ctx};
    const hw_sqlite_walk walk = {.sql = TOKENS_SQL,
                                 .doing = "read tokens",
                                 .keys = 1,
                                 .key_column = {0},
                                 .key_param = {1},
                                 .first = {{.bytes = HW_STR_LIT("")}},
                                 .limit_param = 2,
                                 .row = hand_token,
                                 .ctx = &w};

    return hw_sqlite_walk_rows((hw_sqlite *)base, &walk, reterr);
}

/* What an update of one row has: NULL is bound where a text is absent. */
typedef struct change {
    const char *sql;
    const char *doing;
    hw_str name;
    int64_t number; /* ?2 */
    bool has_text;
    hw_str text; /* ?3 */
    bool has_status;
    int64_t status; /* ?4; < 0: NULL */
} change;

static int run_change(hw_sqlite *store, const change *c, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_prepare(store, c->sql, &stmt, reterr);

    if (s < 0)
        return s;
    hw_sqlite_bind_str(stmt, 1, c->name);
    (void)sqlite3_bind_int64(stmt, 2, c->number);
    if (c->has_text)
        hw_sqlite_bind_str(stmt, 3, c->text);
    if (c->has_status && c->status >= 0)
        (void)sqlite3_bind_int64(stmt, 4, c->status);
    return hw_sqlite_finish(store, stmt, c->doing, reterr);
}

/* what: NULL when it does not matter whether there is such a row. */
static int change_row(hw_store *base, const change *c, const char *what, howdah_error *reterr)
{
    hw_sqlite *store = (hw_sqlite *)base;
    int s = hw_sqlite_enter(store, true, reterr);

    if (s < 0)
        return s;
    s = run_change(store, c, reterr);
    if (s >= 0 && what && sqlite3_changes64(store->db) == 0)
        s = none_of(what, c->name, reterr);
    return hw_sqlite_leave(store, s, reterr);
}

static int token_revoke(hw_store *base, hw_str name, howdah_error *reterr)
{
    const change c = {REVOKE_SQL, "revoke a token", name, hw_clock_wall_us(), .has_text = false};

    return change_row(base, &c, "token", reterr);
}

static int token_used(hw_store *base, hw_str name, howdah_error *reterr)
{
    int64_t now = hw_clock_wall_us();
    const change c = {USED_SQL, "keep a token's day", name, now - now % DAY_US, .has_text = false};

    return change_row(base, &c, NULL, reterr);
}

/* ----------------------------------------------------------------- webhooks */

/* The name of another one may not be in the way. */
static int check_taken(hw_sqlite *store, const howdah_webhook_options *o, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_prepare(store, TAKEN_SQL, &stmt, reterr);

    if (s < 0)
        return s;
    hw_sqlite_bind_str(stmt, 1, hw_str_of(o->subscriber_id));
    hw_sqlite_bind_str(stmt, 2, hw_str_of(o->name));
    s = hw_sqlite_step(store, stmt, "look at webhooks", reterr);
    (void)sqlite3_finalize(stmt);
    if (s == HOWDAH_OK)
        s = hw_fail(reterr, HOWDAH_CONFLICT, "another webhook has the subscription \"%s\"",
                    o->subscriber_id);
    return s < 0 ? s : HOWDAH_OK;
}

static int set(hw_sqlite *store, const howdah_webhook_options *o, hw_str secret, bool *ret_stored,
               howdah_error *reterr)
{
    const int64_t numbers[] = {o->start, o->max_retries, o->retry_delay_ms, o->max_retry_delay_ms};
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_prepare(store, SET_SQL, &stmt, reterr);

    if (s < 0)
        return s;
    hw_sqlite_bind_str(stmt, 1, hw_str_of(o->name));
    hw_sqlite_bind_str(stmt, 2, hw_str_of(o->url));
    hw_sqlite_bind_str(stmt, 3, secret);
    (void)sqlite3_bind_int(stmt, 4, o->new_secret);
    hw_sqlite_bind_str(stmt, 5, hw_str_of(o->subscriber_id));
    hw_sqlite_bind_str(stmt, 6, hw_str_of(o->pattern));
    hw_sqlite_bind_str(stmt, 7, hw_str_of(o->stream));
    for (int i = 0; i < 4; i++)
        (void)sqlite3_bind_int64(stmt, 8 + i, numbers[i]);
    hw_sqlite_bind_str(stmt, 12, hw_str_of(o->headers));
    (void)sqlite3_bind_int64(stmt, 13, o->timeout_ms);
    (void)sqlite3_bind_int64(stmt, 14, hw_clock_wall_us());
    s = hw_sqlite_step(store, stmt, "set a webhook", reterr);
    if (s >= 0)
        *ret_stored = sqlite3_column_int(stmt, 0) != 0;
    (void)sqlite3_finalize(stmt);
    return s;
}

static int webhook_set(hw_store *base, const howdah_webhook_options *o, hw_str secret,
                       bool *ret_stored, howdah_error *reterr)
{
    hw_sqlite *store = (hw_sqlite *)base;
    int s = hw_sqlite_enter(store, true, reterr);

    if (s < 0)
        return s;
    s = check_taken(store, o, reterr);
    if (s >= 0)
        s = set(store, o, secret, ret_stored, reterr);
    return hw_sqlite_leave(store, s, reterr);
}

typedef struct webhook_walk {
    hw_str name;
    hw_webhook_fn fn;
    void *ctx;
    bool any;
} webhook_walk;

static void bind_name(void *ctx, sqlite3_stmt *stmt)
{
    hw_sqlite_bind_str(stmt, 3, ((webhook_walk *)ctx)->name);
}

static int hand_webhook(void *ctx, sqlite3_stmt *row, bool *ret_stop, howdah_error *reterr)
{
    webhook_walk *w = ctx;
    const howdah_webhook_info info = {
        .size = sizeof info,
        .name = hw_sqlite_borrow(row, 0).s,
        .url = hw_sqlite_borrow(row, 1).s,
        .subscriber_id = hw_sqlite_borrow(row, 2).s,
        .pattern = hw_sqlite_borrow(row, 3).s,
        .stream = hw_sqlite_borrow(row, 4).s,
        .headers = hw_sqlite_borrow(row, 5).s,
        .start = sqlite3_column_int64(row, 6),
        .timeout_ms = sqlite3_column_int64(row, 7),
        .max_retries = sqlite3_column_int64(row, 8),
        .retry_delay_ms = sqlite3_column_int64(row, 9),
        .max_retry_delay_ms = sqlite3_column_int64(row, 10),
        .enabled = sqlite3_column_int(row, 11) != 0,
        .reason = hw_sqlite_borrow(row, 12).s,
        .disabled_at_us = hw_sqlite_time(row, 13),
        .created_at_us = sqlite3_column_int64(row, 14),
        .changed_at_us = sqlite3_column_int64(row, 15),
        .tried_at_us = hw_sqlite_time(row, 16),
        .last_status = sqlite3_column_int64(row, 17),
        .last_error = hw_sqlite_borrow(row, 18).s,
    };

    if (!info.name || !info.url || !info.subscriber_id)
        return hw_fail_no_memory(reterr);
    w->any = true;
    *ret_stop = w->fn(w->ctx, &info) != 0;
    return HOWDAH_OK;
}

static int webhook_list(hw_store *base, hw_str name, hw_webhook_fn fn, void *ctx,
                        howdah_error *reterr)
{
    webhook_walk w = {name, fn, ctx, false};
    const hw_sqlite_walk walk = {.sql = WEBHOOKS_SQL,
                                 .doing = "read webhooks",
                                 .keys = 1,
                                 .key_column = {0},
                                 .key_param = {1},
                                 .first = {{.bytes = HW_STR_LIT("")}},
                                 .limit_param = 2,
                                 .bind = bind_name,
                                 .row = hand_webhook,
                                 .ctx = &w};
    int s = hw_sqlite_walk_rows((hw_sqlite *)base, &walk, reterr);

    return s >= 0 && name.s && !w.any ? none_of("webhook", name, reterr) : s;
}

static int webhook_secret(hw_store *base, hw_str name, char *ret_secret, howdah_error *reterr)
{
    hw_sqlite *store = (hw_sqlite *)base;
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_ready_to_read(store, reterr);

    if (s >= 0)
        s = hw_sqlite_prepare(store, SECRET_SQL, &stmt, reterr);
    if (s < 0)
        return s;
    hw_sqlite_bind_str(stmt, 1, name);
    s = hw_sqlite_step(store, stmt, "read a webhook", reterr);
    if (s == HOWDAH_OK)
        (void)snprintf(ret_secret, HOWDAH_WEBHOOK_SECRET_SIZE, "%s",
                       hw_sqlite_borrow(stmt, 0).s ? hw_sqlite_borrow(stmt, 0).s : "");
    (void)sqlite3_finalize(stmt);
    return s == HOWDAH_END ? none_of("webhook", name, reterr) : s;
}

static int webhook_enable(hw_store *base, hw_str name, bool enabled, hw_str reason,
                          howdah_error *reterr)
{
    const change c = {enabled ? ENABLE_SQL : DISABLE_SQL,
                      "enable a webhook",
                      name,
                      hw_clock_wall_us(),
                      .has_text = true,
                      .text = enabled ? HW_STR_NULL : reason};

    return change_row(base, &c, "webhook", reterr);
}

static int webhook_report(hw_store *base, hw_str name, int64_t http_status, hw_str error,
                          howdah_error *reterr)
{
    const change c = {REPORT_SQL,         "keep what a webhook said", name,
                      hw_clock_wall_us(), .has_text = true,           .text = error,
                      .has_status = true, .status = http_status};

    return change_row(base, &c, "webhook", reterr);
}

static int remove_row(hw_sqlite *store, hw_str name, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_prepare(store, REMOVE_SQL, &stmt, reterr);

    if (s < 0)
        return s;
    hw_sqlite_bind_str(stmt, 1, name);
    s = hw_sqlite_finish(store, stmt, "remove a webhook", reterr);
    return s >= 0 && sqlite3_changes64(store->db) == 0 ? none_of("webhook", name, reterr) : s;
}

static int webhook_remove(hw_store *base, hw_str name, howdah_error *reterr)
{
    hw_sqlite *store = (hw_sqlite *)base;
    int s = hw_sqlite_enter(store, true, reterr);

    return s < 0 ? s : hw_sqlite_leave(store, remove_row(store, name, reterr), reterr);
}

const hw_registry_ops hw_sqlite_registry_ops = {
    .token_add = token_add,
    .token_list = token_list,
    .token_revoke = token_revoke,
    .token_used = token_used,
    .webhook_set = webhook_set,
    .webhook_list = webhook_list,
    .webhook_secret = webhook_secret,
    .webhook_enable = webhook_enable,
    .webhook_report = webhook_report,
    .webhook_remove = webhook_remove,
};
