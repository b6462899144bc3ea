/*
 * flaky_queue.c - the part of the failing store that the queue needs; see flaky.c.
 *
 *   I1  What would be done after the real commit (jobs handed over, verdicts, reports, ids) is not
 *       done when the operation is made to fail behind it.
 */
#include "base/mem.h"
#include "flaky_call.h"

#define QUEUE_FORWARD(c, op, ...)                                                                  \
    ((c)->status < 0                                                                               \
         ? (c)->status                                                                             \
         : hw_flaky_end((c), (c)->inner->ops->queue->op((c)->inner, __VA_ARGS__, (c)->reterr)))

/* ------------------------------------------------------------------- workers */

static int flaky_push(hw_store *store, hw_str queue, const hw_push *jobs, size_t n,
                      howdah_pushed *ret_pushed, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin_op(store, HW_FLAKY_WRITES, HW_FLAKY_OP_PUSH, reterr);
    howdah_pushed *pushed = ret_pushed;

    if (c.mode == HW_FLAKY_AFTER) {
        pushed = hw_calloc(n, sizeof *pushed);
        if (!pushed)
            return hw_fail_no_memory(reterr);
    }
    (void)QUEUE_FORWARD(&c, push, queue, jobs, n, pushed);
    if (pushed != ret_pushed)
        hw_free(pushed);
    return c.status;
}

static int ignore_job(void *ctx, const howdah_job *job)
{
    (void)ctx;
    (void)job;
    return 0;
}

static int flaky_exchange(hw_store *store, const hw_ack *acks, size_t n,
                          howdah_ack_outcome *ret_acked, const hw_claim *claim, hw_job_fn fn,
                          void *ctx, hw_claim_report *ret_report, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin_op(store, HW_FLAKY_WRITES, HW_FLAKY_OP_EXCHANGE, reterr);
    howdah_ack_outcome *acked = ret_acked;
    hw_claim_report report = {.next_due_ms = -1};

    if (c.mode == HW_FLAKY_AFTER) {
        acked = hw_calloc(n + 1, sizeof *acked);
        if (!acked)
            return hw_fail_no_memory(reterr);
    }
    if (QUEUE_FORWARD(&c, exchange, acks, n, acked, claim,
                      c.mode == HW_FLAKY_AFTER ? ignore_job : fn, ctx, &report) >= 0 &&
        ret_report)
        *ret_report = report;
    if (acked != ret_acked)
        hw_free(acked);
    return c.status;
}

static int flaky_maintain(hw_store *store, hw_str queue, bool *ret_more, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_WRITES, reterr);
    bool more = false;

    if (QUEUE_FORWARD(&c, maintain, queue, &more) >= 0)
        *ret_more = more;
    return c.status;
}

/* ----------------------------------------------------------------- operators */

static int flaky_queue_put(hw_store *store, hw_str queue, const howdah_queue_options *settings,
                           howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_WRITES, reterr);

    return QUEUE_FORWARD(&c, queue_put, queue, settings);
}

static int flaky_queue_pause(hw_store *store, hw_str queue, bool paused, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_WRITES, reterr);

    return QUEUE_FORWARD(&c, queue_pause, queue, paused);
}

static int flaky_queue_load(hw_store *store, hw_str queue, hw_queue_fn fn, void *ctx,
                            howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_READS, reterr);

    return QUEUE_FORWARD(&c, queue_load, queue, fn, ctx);
}

static int flaky_queue_list(hw_store *store, hw_queue_fn fn, void *ctx, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_READS, reterr);

    return QUEUE_FORWARD(&c, queue_list, fn, ctx);
}

static int flaky_queue_summary(hw_store *store, hw_queue_fn fn, void *ctx, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_READS, reterr);

    return QUEUE_FORWARD(&c, queue_summary, fn, ctx);
}

static int flaky_queue_purge(hw_store *store, hw_str queue, int64_t *ret_n, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_WRITES, reterr);
    int64_t n = 0;

    if (QUEUE_FORWARD(&c, queue_purge, queue, &n) >= 0 && ret_n)
        *ret_n = n;
    return c.status;
}

static int flaky_job_load(hw_store *store, int64_t id, hw_job_fn fn, void *ctx,
                          howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_READS, reterr);

    return QUEUE_FORWARD(&c, job_load, id, fn, ctx);
}

static int flaky_job_cancel(hw_store *store, int64_t id, hw_str reason, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_WRITES, reterr);

    return QUEUE_FORWARD(&c, job_cancel, id, reason);
}

static int flaky_job_rerun(hw_store *store, int64_t id, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_WRITES, reterr);

    return QUEUE_FORWARD(&c, job_rerun, id);
}

static int flaky_log(hw_store *store, hw_str queue, const howdah_queue_history_options *options,
                     hw_job_fn fn, void *ctx, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_READS, reterr);

    return QUEUE_FORWARD(&c, log, queue, options, fn, ctx);
}

static int flaky_dead_letters_set_state(hw_store *store, hw_str queue, hw_dead_letter_state state,
                                        hw_str reason, int64_t *ret_n, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_WRITES, reterr);
    int64_t marked = 0;

    if (QUEUE_FORWARD(&c, dead_letters_set_state, queue, state, reason, &marked) >= 0 && ret_n)
        *ret_n = marked;
    return c.status;
}

/* ------------------------------------------------------------------ bindings */

static int flaky_bind(hw_store *store, const hw_binding *binding, int64_t high,
                      const hw_range *outstanding, size_t outstanding_n, bool *ret_made,
                      howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_WRITES, reterr);
    bool made = false;

    if (QUEUE_FORWARD(&c, bind, binding, high, outstanding, outstanding_n, &made) >= 0 && ret_made)
        *ret_made = made;
    return c.status;
}

static int flaky_verify(hw_store *store, hw_wrong_fn fn, void *ctx, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_READS, reterr);

    return QUEUE_FORWARD(&c, verify, fn, ctx);
}

static int flaky_unbind(hw_store *store, hw_str queue, hw_str pattern, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_WRITES, reterr);

    return QUEUE_FORWARD(&c, unbind, queue, pattern);
}

static int flaky_bindings(hw_store *store, hw_str queue, hw_binding_fn fn, void *ctx,
                          howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_READS, reterr);

    return QUEUE_FORWARD(&c, bindings, queue, fn, ctx);
}

static int flaky_route(hw_store *store, const hw_checkpoint *checkpoint, hw_str queue,
                       howdah_binding_key key, const int64_t *sequences, size_t n,
                       howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin_op(store, HW_FLAKY_WRITES, HW_FLAKY_OP_ROUTE, reterr);

    return QUEUE_FORWARD(&c, route, checkpoint, queue, key, sequences, n);
}

const hw_queue_ops hw_flaky_queue_ops = {
    .push = flaky_push,
    .exchange = flaky_exchange,
    .maintain = flaky_maintain,
    .queue_put = flaky_queue_put,
    .queue_pause = flaky_queue_pause,
    .queue_load = flaky_queue_load,
    .queue_list = flaky_queue_list,
    .queue_summary = flaky_queue_summary,
    .queue_purge = flaky_queue_purge,
    .job_load = flaky_job_load,
    .job_cancel = flaky_job_cancel,
    .job_rerun = flaky_job_rerun,
    .log = flaky_log,
    .dead_letters_set_state = flaky_dead_letters_set_state,
    .bind = flaky_bind,
    .unbind = flaky_unbind,
    .verify = flaky_verify,
    .bindings = flaky_bindings,
    .route = flaky_route,
};
