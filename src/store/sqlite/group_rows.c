/* group_rows.c - the rows of groups as structs, and back; see group.h. */
#include <assert.h>
#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/text.h"
#include "store/sqlite/group.h"

#define TEXTS_MAX 4096
#define STREAM_MAX 1024
#define TOKEN_NUMBER_MAX INT64_C(999999999999999999) /* 18 digits */

#define GROUP_SQL                                                                                  \
    "SELECT g.group_id, g.lanes, g.by_stream, g.max_retries, g.retry_delay_ms,"                    \
    " g.max_retry_delay_ms, g.on_fail, g.high, g.deal, g.boot, s.token = g.token, s.status,"       \
    " s.pattern, s.stream, s.originals, s.high, s.outstanding,"                                    \
    " EXISTS (SELECT 1 FROM main.howdah_group_retries r WHERE r.group_id = g.group_id)"            \
    " FROM main.howdah_groups g JOIN main.howdah_subscriptions s"                                  \
    " ON s.subscriber_id = g.subscriber_id WHERE g.subscriber_id = ?1"
enum {
    COL_ID,
    COL_LANES,
    COL_BY_STREAM,
    COL_MAX_RETRIES,
    COL_DELAY,
    COL_MAX_DELAY,
    COL_ON_FAIL,
    COL_HIGH,
    COL_DEAL,
    COL_BOOT,
    COL_IN_PLACE,
    COL_STATUS,
    COL_PATTERN,
    COL_STREAM,
    COL_ORIGINALS,
    COL_SUB_HIGH,
    COL_OUTSTANDING,
    COL_RETRIES
};

/* What a group does with the place of its subscription (0007_groups.sql, I5). */
typedef struct place {
    bool elsewhere;
    bool rebooted;
    int64_t high;
    hw_range *outstanding;
    size_t n;
} place;

/* -------------------------------------------------------------------- groups */

static howdah_on_fail on_fail_of(hw_str name)
{
    return hw_str_equal(name, HW_STR_LIT("hold"))     ? HOWDAH_FAIL_HOLD
           : hw_str_equal(name, HW_STR_LIT("closed")) ? HOWDAH_FAIL_CLOSED
                                                      : HOWDAH_FAIL_OPEN;
}

static hw_sub_status status_of(hw_str name)
{
    return hw_str_equal(name, HW_STR_LIT("paused"))   ? HW_SUB_PAUSED
           : hw_str_equal(name, HW_STR_LIT("halted")) ? HW_SUB_HALTED
                                                      : HW_SUB_ACTIVE;
}

/* Its own copy: the statement goes. */
static hw_str keep(hw_buf *texts, hw_str text)
{
    size_t at = texts->len;

    if (!text.s)
        return HW_STR_NULL;
    hw_buf_put(texts, text.s, text.len);
    hw_buf_putc(texts, '\0');
    return texts->broken ? HW_STR_NULL : (hw_str){texts->data + at, text.len};
}

static int take_group(hw_sqlite_group *g, sqlite3_stmt *stmt, place *p, howdah_error *reterr)
{
    hw_str pattern = hw_sqlite_borrow(stmt, COL_PATTERN);
    hw_str stream = hw_sqlite_borrow(stmt, COL_STREAM);

    g->id = sqlite3_column_int64(stmt, COL_ID);
    g->lanes = sqlite3_column_int64(stmt, COL_LANES);
    g->rules = (hw_group_rules){
        sqlite3_column_int(stmt, COL_BY_STREAM) != 0, sqlite3_column_int64(stmt, COL_MAX_RETRIES),
        sqlite3_column_int64(stmt, COL_DELAY), sqlite3_column_int64(stmt, COL_MAX_DELAY),
        on_fail_of(hw_sqlite_borrow(stmt, COL_ON_FAIL))};
    g->high = sqlite3_column_int64(stmt, COL_HIGH);
    g->deal = sqlite3_column_int64(stmt, COL_DEAL);
    g->status = status_of(hw_sqlite_borrow(stmt, COL_STATUS));
    g->retries = sqlite3_column_int(stmt, COL_RETRIES) != 0;
    g->in_place = sqlite3_column_int(stmt, COL_IN_PLACE) != 0;
    p->elsewhere = !g->in_place;
    p->rebooted = !hw_str_equal(hw_sqlite_borrow(stmt, COL_BOOT), hw_sqlite_boot(g->store));
    p->high = sqlite3_column_int64(stmt, COL_SUB_HIGH);
    /* Room for both first: a buffer that grows moves what was put before. */
    hw_buf_reserve(&g->texts, pattern.len + stream.len + 2);
    g->filter = (hw_filter){keep(&g->texts, pattern), keep(&g->texts, stream),
                            sqlite3_column_int(stmt, COL_ORIGINALS) != 0};
    if (hw_buf_check(&g->texts, reterr) < 0)
        return HOWDAH_NO_MEMORY;
    if (p->elsewhere && hw_sqlite_parse_outstanding(hw_sqlite_borrow(stmt, COL_OUTSTANDING),
                                                    &p->outstanding, &p->n) < 0)
        return hw_fail(reterr, HOWDAH_CORRUPT, "%s: the place of subscription %.*s is damaged",
                       g->store->name, (int)g->subscriber_id.len, g->subscriber_id.s);
    return HOWDAH_OK;
}

static int fail_no_group(hw_sqlite *store, hw_str subscriber_id, howdah_error *reterr)
{
    hw_sqlite_sub_look l;
    int s = hw_sqlite_look_at_sub(store, subscriber_id, NULL, &l, reterr);

    if (s < 0)
        return s;
    if (!l.there)
        return hw_fail(reterr, HOWDAH_NOT_FOUND, "there is no subscription %.*s",
                       (int)subscriber_id.len, subscriber_id.s);
    s = hw_fail(reterr, HOWDAH_CONFLICT, "the subscription %.*s is not shared",
                (int)subscriber_id.len, subscriber_id.s);
    return hw_advise(reterr, s, "a member that joins shares it, while no process runs it");
}

static int load(hw_sqlite_group *g, place *p, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_stmt(g->store, HW_SLOT_GROUP, GROUP_SQL, &stmt, reterr);

    if (s < 0)
        return s;
    hw_sqlite_bind_str(stmt, 1, g->subscriber_id);
    s = hw_sqlite_step(g->store, stmt, "look at a group", reterr);
    if (s == HOWDAH_OK)
        s = take_group(g, stmt, p, reterr);
    else if (s == HOWDAH_END)
        s = fail_no_group(g->store, g->subscriber_id, reterr);
    (void)sqlite3_reset(stmt);
    (void)sqlite3_clear_bindings(stmt);
    return s;
}

static void init(hw_sqlite_group *g, hw_sqlite *store, hw_str subscriber_id)
{
    *g = (hw_sqlite_group){.store = store,
                           .subscriber_id = subscriber_id,
                           .now_us = hw_clock_mono_us(),
                           .texts = HW_BUF_INIT(TEXTS_MAX)};
}

int hw_sqlite_group_peek(hw_sqlite_group *g, hw_sqlite *store, hw_str subscriber_id,
                         bool *ret_stale, howdah_error *reterr)
{
    place p = {.outstanding = NULL};
    int s;

    init(g, store, subscriber_id);
    s = load(g, &p, reterr);
    hw_free(p.outstanding);
    *ret_stale = p.rebooted || p.elsewhere;
    return s;
}

int hw_sqlite_group_load(hw_sqlite_group *g, hw_sqlite *store, hw_str subscriber_id,
                         howdah_error *reterr)
{
    bool stale;

    return hw_sqlite_group_peek(g, store, subscriber_id, &stale, reterr);
}

/* Of an earlier boot: no lease holds, and what was to be tried again is due. */
static int begin_boot(hw_sqlite_group *g, howdah_error *reterr)
{
    const int64_t id[] = {g->id, HW_NEVER_US};
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_once(
        g->store, "UPDATE main.howdah_group_lots SET until = 0 WHERE group_id = ?1", id, 1, reterr);

    if (s >= 0)
        s = hw_sqlite_once(g->store,
                           "UPDATE main.howdah_group_retries SET until = 0,"
                           " due = iif(due = ?2, due, 0) WHERE group_id = ?1",
                           id, 2, reterr);
    if (s >= 0)
        s = hw_sqlite_prepare(
            g->store, "UPDATE main.howdah_groups SET boot = ?2 WHERE group_id = ?1", &stmt, reterr);
    if (s < 0)
        return s;
    (void)sqlite3_bind_int64(stmt, 1, g->id);
    hw_sqlite_bind_str(stmt, 2, hw_sqlite_boot(g->store));
    return hw_sqlite_finish(g->store, stmt, "look at a group", reterr);
}

/* 0007_groups.sql, I5. */
static int follow_subscription(hw_sqlite_group *g, const place *p, howdah_error *reterr)
{
    int s = hw_sqlite_group_place(g, p->high, p->outstanding, p->n, reterr);

    if (s < 0)
        return s;
    return hw_sqlite_once(g->store,
                          "UPDATE main.howdah_groups SET token = (SELECT s.token FROM"
                          " main.howdah_subscriptions s WHERE s.subscriber_id ="
                          " howdah_groups.subscriber_id) WHERE group_id = ?1",
                          &g->id, 1, reterr);
}

int hw_sqlite_group_enter(hw_sqlite_group *g, hw_sqlite *store, hw_str subscriber_id, bool synced,
                          howdah_error *reterr)
{
    place p = {.outstanding = NULL};
    int s;

    init(g, store, subscriber_id);
    s = hw_sqlite_enter(store, synced || store->borrowed, reterr);
    if (s < 0)
        return s;
    s = load(g, &p, reterr);
    if (s >= 0 && p.rebooted)
        s = begin_boot(g, reterr);
    if (s >= 0 && p.elsewhere)
        s = follow_subscription(g, &p, reterr);
    hw_free(p.outstanding);
    if (s < 0) {
        hw_sqlite_rollback(store);
        hw_sqlite_group_done(g);
    }
    return s;
}

int hw_sqlite_group_leave(hw_sqlite_group *g, int s, howdah_error *reterr)
{
    hw_sqlite_group_done(g);
    return hw_sqlite_leave(g->store, s, reterr);
}

void hw_sqlite_group_done(hw_sqlite_group *g)
{
    hw_buf_done(&g->texts);
}

/* -------------------------------------------------------------------- tokens */

int hw_sqlite_token_of(hw_str text, hw_sqlite_token *ret_token, howdah_error *reterr)
{
    char copy[HW_BATCH_TOKEN_SIZE] = "";
    char *hyphen = NULL;

    if (text.s && text.len < sizeof copy) {
        memcpy(copy, text.s, text.len);
        hyphen = strchr(copy, '-');
    }
    if (hyphen) {
        *hyphen = '\0';
        if ((copy[0] == 'l' || copy[0] == 'r') &&
            hw_parse_i64(copy + 1, 0, TOKEN_NUMBER_MAX, &ret_token->number) &&
            hw_parse_i64(hyphen + 1, 1, TOKEN_NUMBER_MAX, &ret_token->fence)) {
            ret_token->retry = copy[0] == 'r';
            return HOWDAH_OK;
        }
    }
    return hw_fail_field(reterr, HOWDAH_INVALID, "token",
                         "must be one that a fetch has given, in %zu bytes", text.len);
}

void hw_sqlite_put_token(char ret_text[HW_BATCH_TOKEN_SIZE], char kind, int64_t number,
                         int64_t fence)
{
    (void)snprintf(ret_text, HW_BATCH_TOKEN_SIZE, "%c%" PRId64 "-%" PRId64, kind, number, fence);
}

int64_t hw_sqlite_new_fence(void)
{
    uint64_t bits = 0;

    if (!hw_random_bytes(&bits, sizeof bits))
        bits = (uint64_t)hw_random_u32() << 32 | hw_random_u32();
    return 1 + (int64_t)(bits & 0xffffffffffffU);
}

int hw_sqlite_fail_stale(const hw_sqlite_group *g, howdah_error *reterr)
{
    return hw_fail(
        reterr, HOWDAH_LOST,
        "subscription %.*s: the lease of the batch is lost, another member has its events",
        (int)g->subscriber_id.len, g->subscriber_id.s);
}

/* ---------------------------------------------------------------------- lots */

#define LOT_COLUMNS                                                                                \
    "SELECT lot, lo, hi, upto, at, last, token, until, pos, taken, attempts, careful, events"      \
    " FROM main.howdah_group_lots f WHERE f.group_id = ?1 AND "
#define LOT_EVENTS 12

static int take_lot(sqlite3_stmt *stmt, hw_lot *lot, howdah_error *reterr)
{
    size_t bytes;
    const void *blob;

    *lot = (hw_lot){.number = sqlite3_column_int64(stmt, 0),
                    .lo = sqlite3_column_int64(stmt, 1),
                    .hi = sqlite3_column_int64(stmt, 2),
                    .upto = sqlite3_column_int64(stmt, 3),
                    .at = sqlite3_column_int64(stmt, 4),
                    .last = sqlite3_column_int64(stmt, 5),
                    .token = sqlite3_column_int64(stmt, 6),
                    .until_us = sqlite3_column_int64(stmt, 7),
                    .pos = sqlite3_column_int64(stmt, 8),
                    .taken = sqlite3_column_int64(stmt, 9),
                    .attempts = sqlite3_column_int64(stmt, 10),
                    .careful = sqlite3_column_int64(stmt, 11)};
    blob = sqlite3_column_blob(stmt, LOT_EVENTS);
    bytes = (size_t)sqlite3_column_bytes(stmt, LOT_EVENTS);
    lot->n = (int64_t)(bytes / sizeof *lot->events);
    lot->events = hw_alloc(bytes + sizeof *lot->events);
    if (!lot->events)
        return hw_fail_no_memory(reterr);
    for (size_t i = 0; i < (size_t)lot->n; i++) {
        uint64_t raw;

        memcpy(&raw, (const char *)blob + i * sizeof raw, sizeof raw);
        lot->events[i] = (int64_t)le64toh(raw);
    }
    return HOWDAH_OK;
}

void hw_sqlite_lot_done(hw_lot *lot)
{
    hw_free(lot->events);
    lot->events = NULL;
}

int hw_sqlite_load_lot(hw_sqlite_group *g, const char *where, int64_t parameter, hw_lot *ret_lot,
                       howdah_error *reterr)
{
    hw_buf sql = HW_BUF_INIT(1024);
    sqlite3_stmt *stmt = NULL;
    int s;

    *ret_lot = (hw_lot){.events = NULL};
    hw_buf_puts(&sql, LOT_COLUMNS);
    hw_buf_puts(&sql, where);
    s = hw_buf_check(&sql, reterr);
    if (s >= 0)
        s = hw_sqlite_prepare(g->store, hw_buf_str(&sql), &stmt, reterr);
    hw_buf_done(&sql);
    if (s < 0)
        return s;
    (void)sqlite3_bind_int64(stmt, 1, g->id);
    (void)sqlite3_bind_int64(stmt, 2, parameter);
    s = hw_sqlite_step(g->store, stmt, "look at a lot", reterr);
    if (s == HOWDAH_OK)
        s = take_lot(stmt, ret_lot, reterr);
    (void)sqlite3_finalize(stmt);
    return s;
}

/* The list as it is stored. */
static int put_list(const hw_lot *lot, hw_buf *out, howdah_error *reterr)
{
    for (int64_t i = 0; i < lot->n; i++) {
        uint64_t raw = htole64((uint64_t)lot->events[i]);

        hw_buf_put(out, (const char *)&raw, sizeof raw);
    }
    return hw_buf_check(out, reterr);
}

#define LIST_BYTES_MAX ((size_t)16 * 1024 * 1024)

/* Parameters 1 to 12 of what stores a lot; the list is in *list. */
static int bind_lot(hw_sqlite_group *g, sqlite3_stmt *stmt, const hw_lot *lot, hw_buf *list,
                    howdah_error *reterr)
{
    const int64_t numbers[] = {g->id,    lot->number, lot->hi,       lot->upto,
                               lot->at,  lot->last,   lot->token,    lot->until_us,
                               lot->pos, lot->taken,  lot->attempts, lot->careful};
    int s = put_list(lot, list, reterr);

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        (void)sqlite3_bind_int64(stmt, (int)i + 1, numbers[i]);
    (void)sqlite3_bind_blob64(stmt, 13, list->data ? list->data : "", list->len, SQLITE_STATIC);
    return s;
}

#define LOT_SET                                                                                    \
    "UPDATE main.howdah_group_lots SET hi = ?3, upto = ?4, at = ?5, last = ?6, token = ?7,"        \
    " until = ?8, pos = ?9, taken = ?10, attempts = ?11, careful = ?12,"                           \
    " taken_at = iif(?14 IS NULL, taken_at, ?15), member = coalesce(?14, member)"
#define LOT_WHERE " WHERE group_id = ?1 AND lot = ?2"

int hw_sqlite_store_lot(hw_sqlite_group *g, const hw_lot *lot, hw_str member, bool with_list,
                        howdah_error *reterr)
{
    hw_buf list = HW_BUF_INIT(LIST_BYTES_MAX);
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_stmt(g->store, with_list ? HW_SLOT_LOT_STORE_LIST : HW_SLOT_LOT_STORE,
                           with_list ? LOT_SET ", events = ?13" LOT_WHERE : LOT_SET LOT_WHERE,
                           &stmt, reterr);

    if (s < 0)
        return s;
    s = bind_lot(g, stmt, lot, &list, reterr);
    hw_sqlite_bind_str(stmt, 14, member);
    (void)sqlite3_bind_int64(stmt, 15, g->now_us);
    if (s >= 0)
        s = hw_sqlite_step(g->store, stmt, "store a lot", reterr);
    (void)sqlite3_clear_bindings(stmt);
    hw_buf_done(&list);
    return s < 0 ? s : HOWDAH_OK;
}

int hw_sqlite_insert_lot(hw_sqlite_group *g, const hw_lot *lot, howdah_error *reterr)
{
    hw_buf list = HW_BUF_INIT(LIST_BYTES_MAX);
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_stmt(g->store, HW_SLOT_LOT_INSERT,
                           "INSERT INTO main.howdah_group_lots (group_id, lot, lane, lo, hi, upto,"
                           " at, last, token, until, pos, taken, attempts, careful, events) VALUES"
                           " (?1, ?2, ?14, ?15, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
                           &stmt, reterr);

    if (s < 0)
        return s;
    s = bind_lot(g, stmt, lot, &list, reterr);
    (void)sqlite3_bind_int64(stmt, 14, lot->number % g->lanes);
    (void)sqlite3_bind_int64(stmt, 15, lot->lo);
    if (s >= 0)
        s = hw_sqlite_step(g->store, stmt, "make a lot", reterr);
    (void)sqlite3_clear_bindings(stmt);
    hw_buf_done(&list);
    return s < 0 ? s : HOWDAH_OK;
}

int hw_sqlite_delete_lot(hw_sqlite_group *g, int64_t number, howdah_error *reterr)
{
    const int64_t key[] = {g->id, number};

    return hw_sqlite_run_numbers(g->store, HW_SLOT_LOT_DELETE,
                                 "DELETE FROM main.howdah_group_lots" LOT_WHERE, key, 2, reterr);
}

/* ------------------------------------------------------------------- retries */

#define RETRY_COLUMNS                                                                              \
    "SELECT retry, stream, sequence, upto, last, dead_letter, token, due, until, attempts, taken"  \
    " FROM main.howdah_group_retries k WHERE k.group_id = ?1 AND "

static int take_retry(sqlite3_stmt *stmt, hw_sqlite_retry *r, howdah_error *reterr)
{
    hw_str stream = hw_sqlite_borrow(stmt, 1);

    *r = (hw_sqlite_retry){.retry = sqlite3_column_int64(stmt, 0),
                           .sequence = sqlite3_column_int64(stmt, 2),
                           .upto = sqlite3_column_int64(stmt, 3),
                           .last = sqlite3_column_int64(stmt, 4),
                           .dead_letter = sqlite3_column_int64(stmt, 5),
                           .token = sqlite3_column_int64(stmt, 6),
                           .due_us = sqlite3_column_int64(stmt, 7),
                           .until_us = sqlite3_column_int64(stmt, 8),
                           .attempts = sqlite3_column_int64(stmt, 9),
                           .taken = sqlite3_column_int64(stmt, 10),
                           .text = HW_BUF_INIT(STREAM_MAX)};
    r->stream = keep(&r->text, stream);
    return hw_buf_check(&r->text, reterr);
}

int hw_sqlite_load_retry(hw_sqlite_group *g, const char *where, const hw_sqlite_value *parameter,
                         hw_sqlite_retry *ret_retry, howdah_error *reterr)
{
    hw_buf sql = HW_BUF_INIT(1024);
    sqlite3_stmt *stmt = NULL;
    int s;

    *ret_retry = (hw_sqlite_retry){.text = HW_BUF_INIT(STREAM_MAX)};
    hw_buf_puts(&sql, RETRY_COLUMNS);
    hw_buf_puts(&sql, where);
    s = hw_buf_check(&sql, reterr);
    if (s >= 0)
        s = hw_sqlite_prepare(g->store, hw_buf_str(&sql), &stmt, reterr);
    hw_buf_done(&sql);
    if (s < 0)
        return s;
    (void)sqlite3_bind_int64(stmt, 1, g->id);
    if (parameter->bytes.s)
        hw_sqlite_bind_str(stmt, 2, parameter->bytes);
    else
        (void)sqlite3_bind_int64(stmt, 2, parameter->number);
    s = hw_sqlite_step(g->store, stmt, "look at a retry", reterr);
    if (s == HOWDAH_OK)
        s = take_retry(stmt, ret_retry, reterr);
    (void)sqlite3_finalize(stmt);
    return s;
}

void hw_sqlite_retry_done(hw_sqlite_retry *r)
{
    hw_buf_done(&r->text);
}

static void bind_id_if(sqlite3_stmt *stmt, int index, int64_t id)
{
    if (id > 0)
        (void)sqlite3_bind_int64(stmt, index, id);
    else
        (void)sqlite3_bind_null(stmt, index);
}

/* Parameters 2 to 13, and 15. */
static void bind_retry(hw_sqlite_group *g, sqlite3_stmt *stmt, const hw_sqlite_retry *r,
                       hw_str member, hw_str error)
{
    (void)sqlite3_bind_int64(stmt, 2, r->sequence);
    (void)sqlite3_bind_int64(stmt, 3, r->upto);
    (void)sqlite3_bind_int64(stmt, 4, r->last);
    bind_id_if(stmt, 5, r->dead_letter);
    (void)sqlite3_bind_int64(stmt, 6, r->token);
    (void)sqlite3_bind_int64(stmt, 7, r->due_us);
    (void)sqlite3_bind_int64(stmt, 8, r->until_us);
    (void)sqlite3_bind_int64(stmt, 9, r->attempts);
    (void)sqlite3_bind_int64(stmt, 10, r->taken);
    (void)sqlite3_bind_int64(stmt, 11, g->now_us);
    hw_sqlite_bind_str(stmt, 12, member);
    hw_sqlite_bind_str(stmt, 13, error);
}

int hw_sqlite_store_retry(hw_sqlite_group *g, const hw_sqlite_retry *r, hw_str member, hw_str error,
                          howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_prepare(
        g->store,
        "UPDATE main.howdah_group_retries SET sequence = ?2, upto = ?3, last = ?4,"
        " dead_letter = ?5, token = ?6, due = ?7, until = ?8, attempts = ?9, taken = ?10,"
        " taken_at = iif(?12 IS NULL, taken_at, ?11), member = ?12, error = coalesce(?13, error)"
        " WHERE retry = ?1",
        &stmt, reterr);

    if (s < 0)
        return s;
    (void)sqlite3_bind_int64(stmt, 1, r->retry);
    bind_retry(g, stmt, r, member, error);
    return hw_sqlite_finish(g->store, stmt, "store a retry", reterr);
}

int hw_sqlite_insert_retry(hw_sqlite_group *g, const hw_sqlite_retry *r, hw_str error,
                           howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_prepare(
        g->store,
        "INSERT INTO main.howdah_group_retries (group_id, sequence, upto, last, dead_letter, token,"
        " due, until, attempts, taken, taken_at, member, error, stream)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
        &stmt, reterr);

    if (s < 0)
        return s;
    (void)sqlite3_bind_int64(stmt, 1, g->id);
    bind_retry(g, stmt, r, HW_STR_NULL, error);
    hw_sqlite_bind_str(stmt, 14, r->stream);
    g->retries = true;
    return hw_sqlite_finish(g->store, stmt, "make a retry", reterr);
}

int hw_sqlite_delete_retry(hw_sqlite_group *g, int64_t retry, howdah_error *reterr)
{
    return hw_sqlite_once(g->store, "DELETE FROM main.howdah_group_retries WHERE retry = ?1",
                          &retry, 1, reterr);
}
