/*
 * checkpoint.c - moving subscriptions on PostgreSQL.
 *
 *   I1  A checkpoint names its token; with another one nothing is moved.  Under the same token high
 *       never goes back: an earlier checkpoint that comes late says nothing new and is not stored,
 *       a letter or a skip that comes with one is refused.
 *   I2  Any number of subscriptions are moved by one statement, and a lost one does not keep the
 *       others back.
 *   I3  Its commit does not wait for the disk: the log of the server is one prefix, so a checkpoint
 *       that survived a crash had its events survive, too.
 */
#include <assert.h>
#include <string.h>

#include "store/pg/pg.h"

static const char *const status_names[] = {
    [HW_SUB_ACTIVE] = "active", [HW_SUB_PAUSED] = "paused", [HW_SUB_HALTED] = "halted"};

hw_sub_status hw_pg_sub_status_of(hw_str name)
{
    for (int i = HW_SUB_ACTIVE; i < HW_SUB_HALTED; i++)
        if (hw_str_equal(name, hw_str_of(status_names[i])))
            return (hw_sub_status)i;
    return HW_SUB_HALTED;
}

hw_str hw_pg_sub_status_name(hw_sub_status status)
{
    return hw_str_of(status_names[status]);
}

void hw_pg_put_owed(hw_buf *out, const hw_range *owed, size_t n)
{
    hw_pg_array array;

    hw_pg_array_begin(out, HW_OID_INT8, 2 * n, &array);
    for (size_t i = 0; i < n; i++) {
        hw_pg_array_put_int8(out, owed[i].first);
        hw_pg_array_put_int8(out, owed[i].last);
    }
}

int hw_pg_ready_to_move(hw_pg *pg, howdah_error *reterr)
{
    int s = hw_pg_ready(pg, reterr);

    if (s >= 0 && !pg->timeline[0]) {
        char text[HW_TIMELINE_SIZE];

        s = hw_pg_timeline(&pg->base, text, reterr);
    }
    return s;
}

int hw_pg_param_checkpoint(hw_pg *pg, hw_pg_call *call, const hw_checkpoint *checkpoint,
                           hw_buf *out, howdah_error *reterr)
{
    int s;

    hw_buf_clear(out);
    hw_pg_put_owed(out, checkpoint->owed, checkpoint->owed_n);
    s = hw_buf_check(out, reterr);
    if (s < 0)
        return s;
    hw_pg_param_str(call, checkpoint->subscriber_id);
    hw_pg_param_int8(call, checkpoint->token);
    hw_pg_param_int8(call, checkpoint->high);
    hw_pg_param_bin(call, out->data, out->len);
    hw_pg_param_int8(call, checkpoint->anchor.sequence);
    hw_pg_param_uuid(call, checkpoint->anchor.sequence > 0, &checkpoint->anchor.id);
    hw_pg_param_str(call, hw_str_of(pg->timeline));
    return HOWDAH_OK;
}

int hw_pg_why_not_moved(hw_pg *pg, const hw_checkpoint *checkpoint, howdah_error *reterr)
{
    hw_pg_call call = {.statement = HW_PG_SUB_STATE};
    PGresult *result = NULL;
    bool ours;
    int64_t high = 0;
    int s;

    hw_pg_param_str(&call, checkpoint->subscriber_id);
    s = hw_pg_exec(pg, &call, &result, reterr);
    if (s < 0)
        return s;
    ours = PQntuples(result) == 1 && hw_pg_get_int8(result, 0, 0) == checkpoint->token;
    if (ours)
        high = hw_pg_get_int8(result, 0, 1);
    PQclear(result);
    if (ours && high > checkpoint->high)
        return hw_fail(reterr, HOWDAH_MISUSE, "a checkpoint at %lld would go back from %lld",
                       (long long)checkpoint->high, (long long)high);
    return hw_fail(reterr, HOWDAH_LOST, "the subscription has another owner, or is gone");
}

static void put_names_and_tokens(hw_pg_arrays *a, const hw_checkpoint *c, size_t n)
{
    hw_pg_array array;

    hw_pg_arrays_begin(a, HW_OID_TEXT, n, &array);
    for (size_t i = 0; i < n; i++)
        hw_pg_array_put(a->out, c[i].subscriber_id.s, c[i].subscriber_id.len);
    hw_pg_arrays_begin(a, HW_OID_INT8, n, &array);
    for (size_t i = 0; i < n; i++)
        hw_pg_array_put_int8(a->out, c[i].token);
}

static void put_positions(hw_pg_arrays *a, const hw_checkpoint *c, size_t n)
{
    hw_pg_array array;

    hw_pg_arrays_begin(a, HW_OID_INT8, n, &array);
    for (size_t i = 0; i < n; i++)
        hw_pg_array_put_int8(a->out, c[i].high);
    hw_pg_arrays_begin(a, HW_OID_INT8, n, &array);
    for (size_t i = 0; i < n; i++)
        hw_pg_array_put_int8(a->out, c[i].anchor.sequence);
    hw_pg_arrays_begin(a, HW_OID_UUID, n, &array);
    for (size_t i = 0; i < n; i++) {
        if (c[i].anchor.sequence > 0)
            hw_pg_array_put(a->out, c[i].anchor.id.b, sizeof c[i].anchor.id.b);
        else
            hw_pg_array_put_null(a->out, &array);
    }
}

/* All that is owed in one array, and which elements of it (from 1) are whose. */
static void put_all_owed(hw_pg_arrays *a, const hw_checkpoint *c, size_t n)
{
    hw_pg_array array;
    size_t all = 0;

    hw_pg_arrays_begin(a, HW_OID_INT4, n, &array);
    for (size_t i = 0; i < n; all += 2 * c[i].owed_n, i++)
        hw_pg_array_put_int4(a->out, (int32_t)(all + 1));
    all = 0;
    hw_pg_arrays_begin(a, HW_OID_INT4, n, &array);
    for (size_t i = 0; i < n; i++)
        hw_pg_array_put_int4(a->out, (int32_t)(all += 2 * c[i].owed_n));
    hw_pg_arrays_begin(a, HW_OID_INT8, all, &array);
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < c[i].owed_n; k++) {
            hw_pg_array_put_int8(a->out, c[i].owed[k].first);
            hw_pg_array_put_int8(a->out, c[i].owed[k].last);
        }
    }
}

/* One row for each that is not lost: its number (from 1), status, redrives. */
static void take_news(const PGresult *result, size_t n, hw_sub_news *news)
{
    for (size_t i = 0; i < n; i++)
        news[i] = (hw_sub_news){.lost = true};
    for (int row = 0; row < PQntuples(result); row++) {
        int64_t i = hw_pg_get_int8(result, row, 0) - 1;

        assert(i >= 0 && (size_t)i < n);
        news[i] = (hw_sub_news){.status = hw_pg_sub_status_of(hw_pg_get_str(result, row, 1)),
                                .redrives = hw_pg_get_bool(result, row, 2)};
    }
}

static int ask(hw_pg *pg, const hw_pg_call *call, size_t n, hw_sub_news *ret_news,
               howdah_error *reterr)
{
    PGresult *result = NULL;
    int s = hw_pg_exec(pg, call, &result, reterr);

    if (s >= 0)
        take_news(result, n, ret_news);
    PQclear(result);
    return s;
}

int hw_pg_checkpoint(hw_store *store, const hw_checkpoint *checkpoints, size_t n, int64_t lease_ms,
                     hw_sub_news *ret_news, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_pg_call call = {.statement = HW_PG_SUB_CHECKPOINT, .writes = true};
    hw_pg_arrays a = {.out = &pg->params};
    int s = hw_pg_ready_to_move(pg, reterr);

    if (s < 0 || n == 0)
        return s;
    hw_buf_clear(a.out);
    put_names_and_tokens(&a, checkpoints, n);
    put_positions(&a, checkpoints, n);
    put_all_owed(&a, checkpoints, n);
    s = hw_buf_check(a.out, reterr);
    if (s < 0)
        return s;
    hw_pg_param_arrays(&call, &a);
    hw_pg_param_str(&call, hw_str_of(pg->timeline));
    hw_pg_param_int8(&call, lease_ms);
    s = ask(pg, &call, n, ret_news, reterr);
    /* One that was not moved is lost, or late (I1): whoever still has its token hears the news. */
    for (size_t i = 0; s >= 0 && i < n; i++)
        if (ret_news[i].lost)
            return hw_pg_poll(store, checkpoints, n, lease_ms, ret_news, reterr);
    return s;
}

int hw_pg_poll(hw_store *store, const hw_checkpoint *subs, size_t n, int64_t lease_ms,
               hw_sub_news *ret_news, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_pg_call call = {.statement = lease_ms > 0 ? HW_PG_SUB_RENEW : HW_PG_SUB_POLL};
    hw_pg_arrays a = {.out = &pg->params};
    int s = hw_pg_ready(pg, reterr);

    if (s < 0 || n == 0)
        return s;
    hw_buf_clear(a.out);
    put_names_and_tokens(&a, subs, n);
    s = hw_buf_check(a.out, reterr);
    if (s < 0)
        return s;
    hw_pg_param_arrays(&call, &a);
    if (lease_ms > 0)
        hw_pg_param_int8(&call, lease_ms);
    return ask(pg, &call, n, ret_news, reterr);
}
