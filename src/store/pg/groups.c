/* groups.c - groups on PostgreSQL: what became of batches, and looking after groups.  How members
   take batches: group_fetch.c. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "store/pg/pg.h"

/* A statement whose only answer is one value. */
static int ask(hw_pg *pg, hw_pg_call *call, PGresult **ret_result, howdah_error *reterr)
{
    int s = hw_pg_ready(pg, reterr);

    return s < 0 ? s : hw_pg_exec(pg, call, ret_result, reterr);
}

/* ------------------------------------------------------- what became of them */

static int fail_stale(hw_str subscriber_id, howdah_error *reterr)
{
    return hw_fail(
        reterr, HOWDAH_LOST,
        "subscription %.*s: the lease of the batch is lost, another member has its events",
        (int)subscriber_id.len, subscriber_id.s);
}

static void call_of_batch(hw_pg_call *call, const hw_batch_ref *batch, int64_t number)
{
    hw_pg_param_str(call, batch->subscriber_id);
    hw_pg_param_str(call, batch->token);
    hw_pg_param_int8(call, number);
}

/* Functions that answer whether the token was good. */
static int check_answer(hw_pg *pg, const hw_pg_call *call, hw_str subscriber_id,
                        howdah_error *reterr)
{
    PGresult *result = NULL;
    int s = hw_pg_exec(pg, call, &result, reterr);

    if (s >= 0 && !hw_pg_get_bool(result, 0, 0))
        s = fail_stale(subscriber_id, reterr);
    PQclear(result);
    return s;
}

/* In a transaction that is not ours the commit is not ours, either; what is refused leaves it as it
   was. */
static int group_ack(hw_store *store, const hw_batch_ref *batch, int64_t upto, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_pg_call call = {.statement = HW_PG_GROUP_ACK, .writes = !pg->caller_owned};
    int s = hw_pg_ready(pg, reterr);
    bool inside = s >= 0 && pg->caller_owned && PQtransactionStatus(pg->conn) == PQTRANS_INTRANS;

    if (inside)
        s = hw_pg_command(pg, "SAVEPOINT howdah_ack", reterr);
    if (s < 0)
        return s;
    call_of_batch(&call, batch, upto);
    hw_pg_param_int8(&call, batch->acked);
    hw_pg_param_bool(&call, !pg->caller_owned);
    s = check_answer(pg, &call, batch->subscriber_id, reterr);
    if (inside && pg->conn)
        (void)hw_pg_command(pg,
                            s >= 0 ? "RELEASE SAVEPOINT howdah_ack"
                                   : "ROLLBACK TO SAVEPOINT howdah_ack;"
                                     "RELEASE SAVEPOINT howdah_ack",
                            NULL);
    return s;
}

static int group_extend(hw_store *store, const hw_batch_ref *batch, int64_t lease_ms,
                        howdah_error *reterr)
{
    hw_pg_call call = {.statement = HW_PG_GROUP_EXTEND, .writes = true};
    int s = hw_pg_ready((hw_pg *)store, reterr);

    if (s < 0)
        return s;
    call_of_batch(&call, batch, lease_ms);
    return check_answer((hw_pg *)store, &call, batch->subscriber_id, reterr);
}

int hw_pg_group_release(hw_store *store, const hw_batch_ref *batch, howdah_error *reterr)
{
    hw_pg_call call = {.statement = HW_PG_GROUP_RELEASE, .writes = true};
    int s = hw_pg_ready((hw_pg *)store, reterr);

    if (s < 0)
        return s;
    call_of_batch(&call, batch, 0);
    return check_answer((hw_pg *)store, &call, batch->subscriber_id, reterr);
}

/* False: a word that we do not know. */
static bool fate_of(hw_str word, hw_group_fate *ret_fate)
{
    static const char *const words[] = {"retry", "dead", "held", "halted", "waits"};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (hw_str_equal(word, hw_str_of(words[i]))) {
            *ret_fate = (hw_group_fate)i;
            return true;
        }
    return false;
}

static int group_nack(hw_store *store, const hw_batch_ref *batch, int64_t sequence, hw_str error,
                      int64_t after_ms, hw_group_fate *ret_fate, howdah_error *reterr)
{
    hw_pg_call call = {.statement = HW_PG_GROUP_NACK, .writes = true};
    PGresult *result = NULL;
    int s;

    call_of_batch(&call, batch, sequence);
    hw_pg_param_str(&call, error);
    if (after_ms >= 0)
        hw_pg_param_int8(&call, after_ms);
    else
        hw_pg_param_null(&call);
    hw_pg_param_int8(&call, batch->acked);
    s = ask((hw_pg *)store, &call, &result, reterr);
    if (s >= 0 && !fate_of(hw_pg_get_str(result, 0, 0), ret_fate))
        s = fail_stale(batch->subscriber_id, reterr);
    PQclear(result);
    return s;
}

/* As handler_tx.c: the ack goes in last, inside the transaction that begin() has begun. */
static int group_commit(hw_store *store, const hw_batch_ref *batch, int64_t upto,
                        howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_pg_call call = {.statement = HW_PG_GROUP_COMMIT};
    PGresult *result = NULL;
    int s = hw_pg_tx_check(pg, reterr);

    hw_pg_tx_leave(pg);
    call_of_batch(&call, batch, upto);
    hw_pg_param_int8(&call, batch->acked);
    if (s >= 0)
        s = hw_pg_exec(pg, &call, &result, reterr);
    if (s >= 0 && !hw_pg_get_bool(result, 0, 0))
        s = fail_stale(batch->subscriber_id, reterr);
    else if (s >= 0 && strcmp(PQgetvalue(result, 0, 1), "on") != 0) /* handler_tx.c I5 */
        s = hw_fail(reterr, HOWDAH_MISUSE,
                    "the handler has ended the transaction and begun another");
    PQclear(result);
    return hw_pg_tx_end(pg, s, reterr);
}

/* ------------------------------------------------------------- looking after */

static hw_str start_text(int64_t start, char room[24])
{
    if (start == HOWDAH_FROM_START || start == HOWDAH_FROM_END)
        return start == HOWDAH_FROM_START ? HW_STR_LIT("start") : HW_STR_LIT("end");
    (void)snprintf(room, 24, "%lld", (long long)start);
    return hw_str_of(room);
}

static int subscribe(hw_pg *pg, const howdah_member_options *o, bool *ret_created,
                     howdah_error *reterr)
{
    static const char *const on_fail[] = {"open", "closed", "hold"};
    hw_pg_call call = {.statement = HW_PG_GROUP_CREATE, .writes = true};
    PGresult *result = NULL;
    char room[24];
    int s;

    assert((size_t)o->on_fail < sizeof on_fail / sizeof *on_fail);
    hw_pg_param_str(&call, hw_str_of(o->subscriber_id));
    hw_pg_param_str(&call, hw_str_of(o->pattern));
    hw_pg_param_str(&call, hw_str_of(o->stream));
    hw_pg_param_str(&call, start_text(o->start, room));
    hw_pg_param_bool(&call, o->originals_only);
    hw_pg_param_str(&call, hw_str_of(o->key == HOWDAH_ORDER_BY_STREAM ? "stream" : "none"));
    hw_pg_param_str(&call, hw_str_of(on_fail[o->on_fail]));
    hw_pg_param_int4(&call, (int32_t)o->max_retries);
    hw_pg_param_int8(&call, o->retry_delay_ms);
    hw_pg_param_int8(&call, o->max_retry_delay_ms);
    hw_pg_param_str(&call, hw_str_of(o->ordering == HOWDAH_ORDERING_STRICT ? "strict" : "ahead"));
    hw_pg_param_str(&call, hw_str_of(o->gap_policy == HOWDAH_GAP_TIMEOUT ? "timeout" : "proof"));
    hw_pg_param_int8(&call, o->gap_timeout_ms);
    hw_pg_param_int4(&call, (int32_t)o->lanes);
    s = ask(pg, &call, &result, reterr);
    if (s >= 0)
        *ret_created = hw_pg_get_bool(result, 0, 0);
    PQclear(result);
    return s;
}

static int group_create(hw_store *store, const howdah_member_options *options, bool *ret_created,
                        void (*fn)(void *ctx, const hw_filter *filter), void *ctx,
                        howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_pg_call call = {.statement = HW_PG_GROUP_FILTER};
    PGresult *result = NULL;
    int s = subscribe(pg, options, ret_created, reterr);

    if (s < 0)
        return s;
    hw_pg_param_str(&call, hw_str_of(options->subscriber_id));
    s = hw_pg_query(pg, &call, &result, reterr);
    if (s >= 0 && PQntuples(result) == 1) {
        const hw_filter filter = {hw_pg_get_str(result, 0, 0), hw_pg_get_str(result, 0, 1),
                                  hw_pg_get_bool(result, 0, 2)};

        fn(ctx, &filter);
    }
    PQclear(result);
    return s;
}

static int group_members(hw_store *store, hw_str subscriber_id, hw_member_fn fn, void *ctx,
                         howdah_error *reterr)
{
    hw_pg_call call = {.statement = HW_PG_GROUP_MEMBERS};
    PGresult *result = NULL;
    int s = hw_pg_ready((hw_pg *)store, reterr);

    if (s < 0)
        return s;
    hw_pg_param_str(&call, subscriber_id);
    s = hw_pg_query((hw_pg *)store, &call, &result, reterr);
    for (int i = 0; s >= 0 && i < PQntuples(result); i++) {
        howdah_member_info info = HOWDAH_MEMBER_INFO_INIT;

        info.member = hw_pg_text(result, i, 0);
        info.batches = hw_pg_get_int8(result, i, 1);
        info.events = hw_pg_get_int8(result, i, 2);
        info.oldest_age_ms = hw_pg_get_int8(result, i, 3);
        if (fn(ctx, &info) != 0)
            break;
    }
    PQclear(result);
    return s;
}

static int run_about(hw_store *store, hw_pg_statement statement, hw_str subscriber_id,
                     howdah_error *reterr)
{
    hw_pg_call call = {.statement = (int)statement, .writes = true};
    PGresult *result = NULL;
    int s;

    hw_pg_param_str(&call, subscriber_id);
    s = ask((hw_pg *)store, &call, &result, reterr);
    PQclear(result);
    return s;
}

static int group_unshare(hw_store *store, hw_str subscriber_id, howdah_error *reterr)
{
    return run_about(store, HW_PG_GROUP_UNSHARE, subscriber_id, reterr);
}

static int group_remove(hw_store *store, hw_str subscriber_id, howdah_error *reterr)
{
    return run_about(store, HW_PG_GROUP_REMOVE, subscriber_id, reterr);
}

const hw_group_ops hw_pg_group_ops = {
    .create = group_create,
    .fetch = hw_pg_group_fetch,
    .ack = group_ack,
    .nack = group_nack,
    .extend = group_extend,
    .release = hw_pg_group_release,
    .commit = group_commit,
    .members = group_members,
    .reservations = &hw_pg_reserve_ops,
    .unshare = group_unshare,
    .remove = group_remove,
};
