/* ack.c - how jobs went: verdicts by (id, token), one or many. */
#include <assert.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/sized.h"
#include "bus/queue/job.h"
#include "bus/queue/queue.h"
#include "engine/rules.h"

/* Tokens begin with 1: a 0 is a field that was left out, and is told from a token that is too
   old. */
static int check(const howdah_job_ack *one, howdah_error *reterr)
{
    if (one->id < 1)
        return hw_fail_field(reterr, HOWDAH_INVALID, "id", "must be 1 or more");
    if (one->token < 1)
        return hw_fail_field(reterr, HOWDAH_INVALID, "token", "must be 1 or more");
    switch (one->verdict) {
    case HOWDAH_VERDICT_RETRY:
        return one->after_ms == HOWDAH_AFTER_BACKOFF
                   ? HOWDAH_OK
                   : hw_rule_delay("after", one->after_ms, reterr);
    case HOWDAH_VERDICT_EXTEND:
        return hw_rule_delay("lease", one->after_ms, reterr);
    case HOWDAH_VERDICT_COMPLETE:
    case HOWDAH_VERDICT_FAIL:
    case HOWDAH_VERDICT_RELEASE:
        return HOWDAH_OK;
    }
    return hw_fail_field(reterr, HOWDAH_INVALID, "verdict", "there is no verdict %d",
                         (int)one->verdict);
}

/* The text is cut to what the store keeps; *ret_copy is set when that took a copy. */
static int take(const howdah_job_ack *one, hw_ack *ret, char **ret_copy, howdah_error *reterr)
{
    int s = check(one, reterr);

    if (s < 0)
        return s;
    *ret = (hw_ack){
        .id = one->id,
        .token = one->token,
        .verdict = one->verdict,
        .after_ms = one->after_ms,
    };
    return hw_job_text(one->text, &ret->text, ret_copy, reterr);
}

/* All are checked before any is sent.  Outcomes are filled in only on success: until then the
   caller's array is as it was. */
static int ack_all(hw_store *store, howdah_job_ack *acks, size_t n, hw_ack *asked,
                   howdah_ack_outcome *acked, char **copies, howdah_error *reterr)
{
    int s = HOWDAH_OK;

    assert(n > 0 && n <= HOWDAH_JOBS_MAX && store->ops->queue);
    for (size_t i = 0; s >= 0 && i < n; i++) {
        s = take(&acks[i], &asked[i], &copies[i], reterr);
        if (s < 0)
            hw_error_at(reterr, i);
    }
    if (s >= 0)
        s = store->ops->queue->exchange(store, asked, n, acked, NULL, NULL, NULL, NULL, reterr);
    for (size_t i = 0; s >= 0 && i < n; i++)
        acks[i].outcome = acked[i];
    return s;
}

static int fail_too_many(size_t n, howdah_error *reterr)
{
    return hw_fail_field(reterr, HOWDAH_LIMIT, "acks", "at most %d at once, got %zu",
                         HOWDAH_JOBS_MAX, n);
}

/* Also for a caller's own transaction, which brings its own store.  One acked job that was lost
   does not keep the others from being acked: each has an outcome of its own. */
int hw_ack_on(hw_store *store, howdah_job_ack *acks, size_t n, howdah_error *reterr)
{
    hw_ack *asked;
    howdah_ack_outcome *acked;
    char **copies;
    int s;

    if (n > HOWDAH_JOBS_MAX)
        return fail_too_many(n, reterr);
    if (n == 0)
        return HOWDAH_OK;
    asked = hw_calloc(n, sizeof *asked);
    acked = hw_calloc(n, sizeof *acked);
    copies = hw_calloc(n, sizeof *copies);
    s = asked && acked && copies ? ack_all(store, acks, n, asked, acked, copies, reterr)
                                 : hw_fail_no_memory(reterr);
    for (size_t i = 0; copies && i < n; i++)
        hw_free(copies[i]);
    hw_free(asked);
    hw_free(acked);
    hw_free(copies);
    return s;
}

/* HOWDAH_END: a retry that was the last attempt, so the job has failed. */
int hw_ack_one(hw_store *store, const howdah_job_ack *ack, howdah_error *reterr)
{
    howdah_job_ack one = *ack;
    int s = hw_ack_on(store, &one, 1, reterr);

    if (s < 0)
        return s;
    if (one.outcome == HOWDAH_ACKED_FAILED)
        return HOWDAH_END;
    if (one.outcome == HOWDAH_ACKED_DONE)
        return HOWDAH_OK;
    s = hw_fail(reterr, HOWDAH_LOST, "job %lld is not leased under token %lld", (long long)one.id,
                (long long)one.token);
    return hw_advise(reterr, s, "its lease ran out, or it was acked before; nothing was changed");
}

/* ----------------------------------------------------------------- the calls */

/* Of a caller whose entries are longer or shorter than ours. */
static int ack_of_another_age(hw_store *store, void *acks, size_t n, howdah_error *reterr)
{
    howdah_job_ack *own;
    int s = HOWDAH_OK;

    if (n > HOWDAH_JOBS_MAX)
        return fail_too_many(n, reterr);
    own = hw_calloc(n, sizeof *own);
    if (!own)
        return hw_fail_no_memory(reterr);
    for (size_t i = 0; s >= 0 && i < n; i++) {
        own[i] = (howdah_job_ack)HOWDAH_JOB_ACK_INIT;
        s = hw_sized_take_at(&own[i], sizeof own[i], acks, i, "howdah_jobs_ack", reterr);
        if (s < 0)
            hw_error_at(reterr, i);
    }
    if (s >= 0)
        s = hw_ack_on(store, own, n, reterr);
    for (size_t i = 0; s >= 0 && i < n; i++)
        hw_sized_give_at(acks, i, &own[i], sizeof own[i]);
    hw_free(own);
    return s;
}

/* Many verdicts in one round trip.  Those that were lost are told by their outcomes, not by an
   error. */
int howdah_jobs_ack(howdah_bus *bus, howdah_job_ack *acks, size_t n, howdah_error *reterr)
{
    HW_ENTRY(entry);
    int s = hw_enter(&entry, &bus, HW_WRITES, "howdah_jobs_ack", reterr);

    if (s < 0)
        return s;
    if (n > 0 && !acks)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_jobs_ack: acks is NULL");
    s = hw_queues_of(bus, "howdah_jobs_ack", NULL, reterr);
    if (s >= 0 && n > 0)
        s = hw_sized_check(acks, "howdah_jobs_ack", reterr);
    if (s < 0 || n == 0)
        return s;
    return hw_sized_is_ours(acks, sizeof *acks) ? hw_ack_on(bus->store, acks, n, reterr)
                                                : ack_of_another_age(bus->store, acks, n, reterr);
}

/* call is the name that errors mention: several public functions come this way. */
static int ack_by(howdah_bus *bus, const char *call, const howdah_job_ack *ack,
                  howdah_error *reterr)
{
    HW_ENTRY(entry);
    int s = hw_enter(&entry, &bus, HW_WRITES, call, reterr);

    if (s >= 0)
        s = hw_queues_of(bus, call, NULL, reterr);
    return s < 0 ? s : hw_ack_one(bus->store, ack, reterr);
}

/* Inside a transactional handler the completion is part of its transaction, as a push is. */
int howdah_job_complete(howdah_bus *bus, int64_t id, int64_t token, const char *result,
                        howdah_error *reterr)
{
    const howdah_job_ack one = {
        .id = id, .token = token, .verdict = HOWDAH_VERDICT_COMPLETE, .text = result};
    hw_store *tx = hw_handling_tx(bus);

    return tx ? hw_join_complete(bus, tx, &one, reterr)
              : ack_by(bus, "howdah_job_complete", &one, reterr);
}

int howdah_job_fail(howdah_bus *bus, int64_t id, int64_t token, const char *error,
                    howdah_error *reterr)
{
    return ack_by(
        bus, "howdah_job_fail",
        &(howdah_job_ack){.id = id, .token = token, .verdict = HOWDAH_VERDICT_FAIL, .text = error},
        reterr);
}

int howdah_job_retry(howdah_bus *bus, int64_t id, int64_t token, int64_t after_ms,
                     const char *error, howdah_error *reterr)
{
    return ack_by(bus, "howdah_job_retry",
                  &(howdah_job_ack){.id = id,
                                    .token = token,
                                    .verdict = HOWDAH_VERDICT_RETRY,
                                    .text = error,
                                    .after_ms = after_ms},
                  reterr);
}

int howdah_job_release(howdah_bus *bus, int64_t id, int64_t token, howdah_error *reterr)
{
    return ack_by(bus, "howdah_job_release",
                  &(howdah_job_ack){.id = id, .token = token, .verdict = HOWDAH_VERDICT_RELEASE},
                  reterr);
}

int howdah_job_extend(howdah_bus *bus, int64_t id, int64_t token, int64_t lease_ms,
                      howdah_error *reterr)
{
    return ack_by(
        bus, "howdah_job_extend",
        &(howdah_job_ack){
            .id = id, .token = token, .verdict = HOWDAH_VERDICT_EXTEND, .after_ms = lease_ms},
        reterr);
}
