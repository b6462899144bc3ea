/*
 * flaky_groups.c - the part of the failing store that groups need; see flaky.c.
 *
 *   I1  A batch that was taken, though the operation is made to fail behind it, is freed here: the
 *       store has leased it, and the member never hears of it.
 */
#include "flaky_call.h"

#define GROUP_FORWARD(c, op, ...)                                                                  \
    ((c)->status < 0                                                                               \
         ? (c)->status                                                                             \
         : hw_flaky_end((c), (c)->inner->ops->groups->op((c)->inner, __VA_ARGS__, (c)->reterr)))

static int flaky_create(hw_store *store, const howdah_member_options *options, bool *ret_created,
                        void (*fn)(void *ctx, const hw_filter *filter), void *ctx,
                        howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_WRITES, reterr);
    bool created = false;

    if (GROUP_FORWARD(&c, create, options, &created, fn, ctx) >= 0)
        *ret_created = created;
    return c.status;
}

static int flaky_fetch(hw_store *store, const hw_group_take *take, hw_group_batch *ret_batch,
                       hw_group_outlook *ret_outlook, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_WRITES, reterr);
    hw_group_batch batch = {.n = 0};
    int s = GROUP_FORWARD(&c, fetch, take, &batch, ret_outlook);

    if (s == HOWDAH_OK)
        *ret_batch = batch;
    else if (batch.done) /* I1 */
        batch.done(&batch);
    return s;
}

static int flaky_ack(hw_store *store, const hw_batch_ref *batch, int64_t upto, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_WRITES, reterr);

    return GROUP_FORWARD(&c, ack, batch, upto);
}

static int flaky_nack(hw_store *store, const hw_batch_ref *batch, int64_t sequence, hw_str error,
                      int64_t after_ms, hw_group_fate *ret_fate, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_WRITES, reterr);
    hw_group_fate fate = HW_FATE_RETRY;

    if (GROUP_FORWARD(&c, nack, batch, sequence, error, after_ms, &fate) >= 0)
        *ret_fate = fate;
    return c.status;
}

static int flaky_extend(hw_store *store, const hw_batch_ref *batch, int64_t lease_ms,
                        howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_WRITES, reterr);

    return GROUP_FORWARD(&c, extend, batch, lease_ms);
}

static int flaky_release(hw_store *store, const hw_batch_ref *batch, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_WRITES, reterr);

    return GROUP_FORWARD(&c, release, batch);
}

static int flaky_commit(hw_store *store, const hw_batch_ref *batch, int64_t upto,
                        howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_WRITES, reterr);

    return GROUP_FORWARD(&c, commit, batch, upto);
}

static int flaky_members(hw_store *store, hw_str subscriber_id, hw_member_fn fn, void *ctx,
                         howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_READS, reterr);

    return GROUP_FORWARD(&c, members, subscriber_id, fn, ctx);
}

static int flaky_unshare(hw_store *store, hw_str subscriber_id, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_WRITES, reterr);

    return GROUP_FORWARD(&c, unshare, subscriber_id);
}

static int flaky_remove(hw_store *store, hw_str subscriber_id, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_WRITES, reterr);

    return GROUP_FORWARD(&c, remove, subscriber_id);
}

const hw_group_ops hw_flaky_group_ops = {
    .create = flaky_create,
    .fetch = flaky_fetch,
    .ack = flaky_ack,
    .nack = flaky_nack,
    .extend = flaky_extend,
    .release = flaky_release,
    .commit = flaky_commit,
    .members = flaky_members,
    .unshare = flaky_unshare,
    .remove = flaky_remove,
};
