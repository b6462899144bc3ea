/*
 * bindings.c - bindings on PostgreSQL, and the router's page.
 *
 *   I1  A page of events becomes jobs by the statement that moves the router's checkpoint: both, or
 *       neither.
 *   I2  Numbers travel to the server, and nothing else of an event.
 *   I3  Its commit does not wait for the disk (see checkpoint.c, I3): the events it follows do not
 *       depend on it, and what a crash undoes is routed anew.
 */
#include <assert.h>
#include <string.h>

#include "store/pg/pg.h"

#define SEQUENCES_BYTES_MAX (HOWDAH_JOBS_MAX * 16 + 64)

static const char *const key_names[] = {[HOWDAH_KEY_STREAM] = "stream",
                                        [HOWDAH_KEY_CORRELATION] = "correlation",
                                        [HOWDAH_KEY_NONE] = "none"};

static howdah_binding_key key_of(hw_str name)
{
    for (int i = HOWDAH_KEY_STREAM; i < HOWDAH_KEY_NONE; i++)
        if (hw_str_equal(name, hw_str_of(key_names[i])))
            return (howdah_binding_key)i;
    return HOWDAH_KEY_NONE;
}

/* ----------------------------------------------------------------- bindings */

/* What queue_bind() answers. */
static int hear_answer(const hw_binding *binding, hw_str answer, bool *ret_made,
                       howdah_error *reterr)
{
    if (hw_str_equal(answer, hw_str_of("other key")))
        return hw_fail(reterr, HOWDAH_CONFLICT,
                       "%.*s is bound to queue %.*s with another key: unbind it first",
                       (int)binding->pattern.len, binding->pattern.s, (int)binding->queue.len,
                       binding->queue.s);
    if (hw_str_equal(answer, hw_str_of("taken")))
        return hw_fail(reterr, HOWDAH_CONFLICT,
                       "subscription %.*s exists and does not belong to a binding",
                       (int)binding->subscriber_id.len, binding->subscriber_id.s);
    if (ret_made)
        *ret_made = hw_str_equal(answer, hw_str_of("made"));
    return HOWDAH_OK;
}

int hw_pg_queue_bind(hw_store *store, const hw_binding *binding, int64_t high,
                     const hw_range *outstanding, size_t outstanding_n, bool *ret_made,
                     howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_pg_call call = {.statement = HW_PG_QUEUE_BIND, .writes = true};
    PGresult *result = NULL;
    int s = hw_pg_ready(pg, reterr);

    if (s < 0)
        return s;
    hw_buf_clear(&pg->params);
    hw_pg_put_outstanding(&pg->params, outstanding, outstanding_n);
    s = hw_buf_check(&pg->params, reterr);
    if (s < 0)
        return s;
    hw_pg_param_str(&call, binding->queue);
    hw_pg_param_str(&call, binding->pattern);
    hw_pg_param_str(&call, hw_str_of(key_names[binding->key]));
    hw_pg_param_str(&call, binding->subscriber_id);
    hw_pg_param_int8(&call, high);
    hw_pg_param_bin(&call, pg->params.data, pg->params.len);
    s = hw_pg_exec(pg, &call, &result, reterr);
    if (s >= 0)
        s = hear_answer(binding, hw_pg_get_str(result, 0, 0), ret_made, reterr);
    PQclear(result);
    return s;
}

int hw_pg_queue_unbind(hw_store *store, hw_str queue, hw_str pattern, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_pg_call call = {.statement = HW_PG_QUEUE_UNBIND, .writes = true};
    PGresult *result = NULL;
    int s = hw_pg_ready(pg, reterr);

    if (s < 0)
        return s;
    hw_pg_param_str(&call, queue);
    hw_pg_param_str(&call, pattern);
    s = hw_pg_exec(pg, &call, &result, reterr);
    if (s >= 0 && !hw_pg_get_bool(result, 0, 0))
        s = hw_fail(reterr, HOWDAH_NOT_FOUND, "%.*s is not bound to queue %.*s", (int)pattern.len,
                    pattern.s, (int)queue.len, queue.s);
    PQclear(result);
    return s;
}

int hw_pg_queue_bindings(hw_store *store, hw_str queue, hw_binding_fn fn, void *ctx,
                         howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_pg_call call = {.statement = HW_PG_QUEUE_BINDINGS};
    PGresult *r = NULL;
    int s = hw_pg_ready(pg, reterr);

    if (s < 0)
        return s;
    hw_pg_param_str(&call, queue);
    s = hw_pg_query(pg, &call, &r, reterr);
    for (int i = 0; s >= 0 && i < PQntuples(r); i++) {
        hw_binding binding = {
            .queue = hw_pg_get_str(r, i, 0),
            .pattern = hw_pg_get_str(r, i, 1),
            .key = key_of(hw_pg_get_str(r, i, 2)),
            .subscriber_id = hw_pg_get_str(r, i, 3),
            .created_at_us = hw_pg_get_time(r, i, 4),
            .high = hw_pg_get_int8(r, i, 5),
            .outstanding = hw_pg_get_int8(r, i, 6),
            .status = hw_pg_sub_status_of(hw_pg_get_str(r, i, 7)),
            .reason = hw_pg_get_str(r, i, 8),
            .owner = hw_pg_get_str(r, i, 9),
        };

        if (fn(ctx, &binding) != 0)
            break;
    }
    PQclear(r);
    return s;
}

/* -------------------------------------------------------------------- route */

static int send_page(hw_pg *pg, const hw_pg_call *call, const hw_checkpoint *checkpoint,
                     howdah_error *reterr)
{
    PGresult *result = NULL;
    bool moved = false;
    int s = hw_pg_exec(pg, call, &result, reterr);

    if (s >= 0)
        moved = PQntuples(result) == 1;
    PQclear(result);
    return s < 0 || moved ? s : hw_pg_why_not_moved(pg, checkpoint, reterr);
}

int hw_pg_route(hw_store *store, const hw_checkpoint *checkpoint, hw_str queue,
                howdah_binding_key key, const int64_t *sequences, size_t n, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_pg_call call = {.statement = HW_PG_QUEUE_ROUTE, .writes = true};
    hw_buf numbers = HW_BUF_INIT(SEQUENCES_BYTES_MAX);
    hw_pg_array array;
    int s = hw_pg_ready_to_move(pg, reterr);

    assert(n <= HOWDAH_JOBS_MAX);
    if (s >= 0)
        s = hw_pg_param_checkpoint(pg, &call, checkpoint, &pg->params, reterr);
    if (s < 0)
        return s;
    hw_pg_array_begin(&numbers, HW_OID_INT8, n, &array);
    for (size_t i = 0; i < n; i++)
        hw_pg_array_put_int8(&numbers, sequences[i]);
    s = hw_buf_check(&numbers, reterr);
    if (s >= 0) {
        hw_pg_param_str(&call, queue);
        hw_pg_param_str(&call, hw_str_of(key_names[key]));
        hw_pg_param_bin(&call, numbers.data, numbers.len);
        s = send_page(pg, &call, checkpoint, reterr);
    }
    hw_buf_done(&numbers);
    return s;
}
