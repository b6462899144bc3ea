/*
 * flaky_subscriptions.c - the part of the failing store that subscriptions need; see flaky.c.
 *
 *   I1  What would be done after the real commit (take()'s callback, news, ids) is not done when
 *       the operation is made to fail behind it.
 *   I2  A handler's transaction that is made to fail before its commit is rolled back, as a lost
 *       connection would.
 */
#include <string.h>

#include "base/mem.h"
#include "flaky_call.h"

#define SUB_FORWARD(c, op, ...)                                                                    \
    ((c)->status < 0                                                                               \
         ? (c)->status                                                                             \
         : hw_flaky_end((c), (c)->inner->ops->subs->op((c)->inner, __VA_ARGS__, (c)->reterr)))

/* -------------------------------------------------------------- the frontier */

static int flaky_holders(hw_store *store, int64_t *ret_drawn, hw_holder **ret_holders,
                         size_t *ret_n, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_READS, reterr);
    hw_holder *holders = NULL;
    int64_t drawn = 0;
    size_t n = 0;

    if (SUB_FORWARD(&c, holders, &drawn, &holders, &n) != HOWDAH_OK) {
        hw_free(holders);
        return c.status;
    }
    *ret_drawn = drawn;
    *ret_holders = holders;
    *ret_n = n;
    return c.status;
}

static int flaky_proven(hw_store *store, int64_t *ret_upto, hw_ranges *ret_holes,
                        howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_READS, reterr);
    int64_t upto = 0;

    if (SUB_FORWARD(&c, proven, &upto, ret_holes) >= 0)
        *ret_upto = upto;
    return c.status;
}

static int flaky_store_proven(hw_store *store, hw_str log, const hw_anchor *top, int64_t upto,
                              const hw_ranges *holes, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_WRITES, reterr);

    return SUB_FORWARD(&c, store_proven, log, top, upto, holes);
}

static int flaky_gaps(hw_store *store, int64_t first, int64_t last, hw_range_fn fn, void *ctx,
                      howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_READS, reterr);

    return SUB_FORWARD(&c, gaps, first, last, fn, ctx);
}

static int flaky_blockers(hw_store *store, hw_blocker_fn fn, void *ctx, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_READS, reterr);

    return SUB_FORWARD(&c, blockers, fn, ctx);
}

static int flaky_timeline(hw_store *store, char ret_text[HW_TIMELINE_SIZE], howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_READS, reterr);
    char text[HW_TIMELINE_SIZE] = "";

    if (SUB_FORWARD(&c, timeline, text) >= 0)
        memcpy(ret_text, text, sizeof text);
    return c.status;
}

static int flaky_verify(hw_store *store, const hw_anchor *anchor, int64_t high,
                        howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_READS, reterr);

    return SUB_FORWARD(&c, verify, anchor, high);
}

/* ------------------------------------------------------------------ the rows */

static int flaky_create(hw_store *store, hw_str subscriber_id, const hw_filter *filter,
                        int64_t high, const hw_range *outstanding, size_t outstanding_n,
                        bool *ret_created, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_WRITES, reterr);
    bool created = false;

    if (SUB_FORWARD(&c, create, subscriber_id, filter, high, outstanding, outstanding_n,
                    &created) >= 0 &&
        ret_created)
        *ret_created = created;
    return c.status;
}

static int flaky_load(hw_store *store, hw_str subscriber_id, hw_sub_row_fn fn, void *ctx,
                      howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_READS, reterr);

    return SUB_FORWARD(&c, load, subscriber_id, fn, ctx);
}

static int flaky_list(hw_store *store, hw_sub_row_fn fn, void *ctx, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_READS, reterr);

    return SUB_FORWARD(&c, list, fn, ctx);
}

static int ignore_row(void *ctx, const hw_sub_row *row)
{
    (void)ctx;
    (void)row;
    return 0;
}

static int flaky_take(hw_store *store, const hw_take *take, hw_sub_row_fn fn, void *ctx,
                      howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin_op(store, HW_FLAKY_WRITES, HW_FLAKY_OP_TAKE, reterr);

    return SUB_FORWARD(&c, take, take, c.mode == HW_FLAKY_AFTER ? ignore_row : fn, ctx);
}

static int flaky_release(hw_store *store, const hw_hold *hold, howdah_instance instance,
                         howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin_op(store, HW_FLAKY_WRITES, HW_FLAKY_OP_RELEASE, reterr);

    return SUB_FORWARD(&c, release, hold, instance);
}

typedef int (*news_fn)(hw_store *store, const hw_checkpoint *checkpoints, size_t n,
                       int64_t lease_ms, hw_sub_news *ret_news, howdah_error *reterr);

/* Checkpoint and poll. */
static int ask_news(hw_flaky_call *c, news_fn ask, const hw_checkpoint *checkpoints, size_t n,
                    int64_t lease_ms, hw_sub_news *ret_news)
{
    hw_sub_news *news = ret_news;

    if (c->status < 0)
        return c->status;
    if (c->mode == HW_FLAKY_AFTER) {
        news = hw_calloc(n, sizeof *news);
        if (!news)
            return hw_fail_no_memory(c->reterr);
    }
    (void)hw_flaky_end(c, ask(c->inner, checkpoints, n, lease_ms, news, c->reterr));
    if (news != ret_news)
        hw_free(news);
    return c->status;
}

static int flaky_checkpoint(hw_store *store, const hw_checkpoint *checkpoints, size_t n,
                            int64_t lease_ms, hw_sub_news *ret_news, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin_op(store, HW_FLAKY_WRITES, HW_FLAKY_OP_CHECKPOINT, reterr);

    return ask_news(&c, c.inner->ops->subs->checkpoint, checkpoints, n, lease_ms, ret_news);
}

static int flaky_poll(hw_store *store, const hw_checkpoint *subs, size_t n, int64_t lease_ms,
                      hw_sub_news *ret_news, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_READS, reterr);

    return ask_news(&c, c.inner->ops->subs->poll, subs, n, lease_ms, ret_news);
}

static int flaky_suspect(hw_store *store, const hw_hold *hold, int64_t sequence, int64_t attempts,
                         howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_WRITES, reterr);

    return SUB_FORWARD(&c, suspect, hold, sequence, attempts);
}

static int flaky_set_status(hw_store *store, const hw_hold *hold, hw_sub_status status,
                            hw_str reason, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_WRITES, reterr);

    return SUB_FORWARD(&c, set_status, hold, status, reason);
}

static int flaky_reset(hw_store *store, hw_str subscriber_id, int64_t high,
                       const hw_range *outstanding, size_t outstanding_n, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_WRITES, reterr);

    return SUB_FORWARD(&c, reset, subscriber_id, high, outstanding, outstanding_n);
}

static int flaky_remove(hw_store *store, hw_str subscriber_id, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_WRITES, reterr);

    return SUB_FORWARD(&c, remove, subscriber_id);
}

/* ---------------------------------------------------- dead letters and skips */

static int flaky_dead_letter(hw_store *store, const hw_checkpoint *checkpoint,
                             const howdah_event *event, hw_str error, int64_t attempts,
                             int64_t *ret_id, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin_op(store, HW_FLAKY_WRITES, HW_FLAKY_OP_DEAD_LETTER, reterr);
    int64_t id = 0;

    if (SUB_FORWARD(&c, dead_letter, checkpoint, event, error, attempts, &id) >= 0 && ret_id)
        *ret_id = id;
    return c.status;
}

static int flaky_dead_letters(hw_store *store, const hw_dead_letter_query *query,
                              hw_dead_letter_fn fn, void *ctx, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_READS, reterr);

    return SUB_FORWARD(&c, dead_letters, query, fn, ctx);
}

static int flaky_dead_letters_set_state(hw_store *store, const int64_t *ids, size_t n,
                                        hw_str subscriber_id, hw_dead_letter_state state,
                                        hw_str reason, int64_t *ret_n, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_WRITES, reterr);
    int64_t marked = 0;

    if (SUB_FORWARD(&c, dead_letters_set_state, ids, n, subscriber_id, state, reason, &marked) >=
            0 &&
        ret_n)
        *ret_n = marked;
    return c.status;
}

static int flaky_redrive_end(hw_store *store, const hw_hold *hold, int64_t id,
                             hw_dead_letter_state state, hw_str error, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_WRITES, reterr);

    return SUB_FORWARD(&c, redrive_end, hold, id, state, error);
}

static int flaky_skip(hw_store *store, const hw_checkpoint *checkpoint, hw_range range,
                      int64_t age_ms, hw_str reason, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_WRITES, reterr);

    return SUB_FORWARD(&c, skip, checkpoint, range, age_ms, reason);
}

static int flaky_skips(hw_store *store, hw_str subscriber_id, bool resolved, hw_skip_fn fn,
                       void *ctx, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_READS, reterr);

    return SUB_FORWARD(&c, skips, subscriber_id, resolved, fn, ctx);
}

static int flaky_skip_resolve(hw_store *store, int64_t id, hw_str resolution, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_WRITES, reterr);

    return SUB_FORWARD(&c, skip_resolve, id, resolution);
}

/* --------------------------------------------------- the handler's transaction */

/* Nothing is stored by it: as a read, it has failed, and is not open. */
static int flaky_tx_begin(hw_store *store, hw_str log, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_READS, reterr);
    int s;

    if (c.status < 0)
        return c.status;
    s = c.inner->ops->subs->begin(c.inner, log, reterr);
    if (hw_flaky_end(&c, s) < 0 && s >= 0)
        c.inner->ops->subs->rollback(c.inner);
    return c.status;
}

static void *flaky_tx_handle(hw_store *store)
{
    hw_store *inner = hw_flaky_inner(store);

    return inner->ops->subs->handle(inner);
}

static int flaky_tx_commit(hw_store *store, const hw_checkpoint *checkpoint, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin_op(store, HW_FLAKY_WRITES, HW_FLAKY_OP_TX_COMMIT, reterr);

    if (c.status < 0)
        c.inner->ops->subs->rollback(c.inner); /* I2 */
    return SUB_FORWARD(&c, commit, checkpoint);
}

static void flaky_tx_rollback(hw_store *store)
{
    hw_store *inner = hw_flaky_inner(store);

    inner->ops->subs->rollback(inner);
}

/* -------------------------------------------------------------------- the bell */

static int flaky_session(hw_store *store, uint64_t *ret_session, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_READS, reterr);
    uint64_t session = 0;

    if (SUB_FORWARD(&c, session, &session) >= 0)
        *ret_session = session;
    return c.status;
}

static int flaky_confirm(hw_store *store, const hw_anchor *top, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_READS, reterr);

    return SUB_FORWARD(&c, confirm, top);
}

static int flaky_listen(hw_store *store, bool general, const hw_str *types, size_t types_n,
                        howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_READS, reterr);

    return SUB_FORWARD(&c, listen, general, types, types_n);
}

static int flaky_arm(hw_store *store, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_READS, reterr);

    if (c.status < 0)
        return c.status;
    return hw_flaky_end(&c, c.inner->ops->subs->arm(c.inner, reterr));
}

static int flaky_ring(hw_store *store, const hw_str *types, size_t types_n, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_READS, reterr);

    return SUB_FORWARD(&c, ring, types, types_n);
}

static int flaky_wait(hw_store *store, int64_t ms, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_READS, reterr);

    return SUB_FORWARD(&c, wait, ms);
}

static int flaky_fd(hw_store *store)
{
    hw_store *inner = hw_flaky_inner(store);

    return inner->ops->subs->fd(inner);
}

const hw_sub_ops hw_flaky_sub_ops = {
    .holders = flaky_holders,
    .proven = flaky_proven,
    .store_proven = flaky_store_proven,
    .gaps = flaky_gaps,
    .blockers = flaky_blockers,
    .timeline = flaky_timeline,
    .verify = flaky_verify,
    .create = flaky_create,
    .load = flaky_load,
    .list = flaky_list,
    .take = flaky_take,
    .release = flaky_release,
    .checkpoint = flaky_checkpoint,
    .poll = flaky_poll,
    .suspect = flaky_suspect,
    .set_status = flaky_set_status,
    .reset = flaky_reset,
    .remove = flaky_remove,
    .dead_letter = flaky_dead_letter,
    .dead_letters = flaky_dead_letters,
    .dead_letters_set_state = flaky_dead_letters_set_state,
    .redrive_end = flaky_redrive_end,
    .skip = flaky_skip,
    .skips = flaky_skips,
    .skip_resolve = flaky_skip_resolve,
    .begin = flaky_tx_begin,
    .handle = flaky_tx_handle,
    .commit = flaky_tx_commit,
    .rollback = flaky_tx_rollback,
    .session = flaky_session,
    .confirm = flaky_confirm,
    .listen = flaky_listen,
    .arm = flaky_arm,
    .ring = flaky_ring,
    .wait = flaky_wait,
    .fd = flaky_fd,
};
