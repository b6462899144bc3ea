/* settle.c - how jobs went: verdicts by (id, token), one or many. */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "bus/job.h"
#include "bus/queue.h"
#include "engine/rules.h"

static int check(const howdah_settlement *one, howdah_error *reterr)
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
    return hw_fail_field(reterr, HOWDAH_INVALID, "verdict", "there is none of number %d",
                         (int)one->verdict);
}

static int take(const howdah_settlement *one, hw_settle *settle, char **ret_copy,
                howdah_error *reterr)
{
    static const hw_verdict verdicts[] = {
        [HOWDAH_VERDICT_COMPLETE] = HW_VERDICT_COMPLETE,
        [HOWDAH_VERDICT_FAIL] = HW_VERDICT_FAIL,
        [HOWDAH_VERDICT_RETRY] = HW_VERDICT_RETRY,
        [HOWDAH_VERDICT_RELEASE] = HW_VERDICT_RELEASE,
        [HOWDAH_VERDICT_EXTEND] = HW_VERDICT_EXTEND,
    };
    int s = check(one, reterr);

    if (s < 0)
        return s;
    *settle = (hw_settle){
        .id = one->id,
        .token = one->token,
        .verdict = verdicts[one->verdict],
        .after_ms = one->after_ms == HOWDAH_AFTER_BACKOFF ? HW_AFTER_BACKOFF : one->after_ms,
    };
    return hw_job_text(one->text, &settle->text, ret_copy, reterr);
}

static howdah_settled outcome_of(hw_settled settled)
{
    static const howdah_settled outcomes[] = {
        [HW_SETTLED_LOST] = HOWDAH_SETTLED_LOST,
        [HW_SETTLED_DONE] = HOWDAH_SETTLED_DONE,
        [HW_SETTLED_FAILED] = HOWDAH_SETTLED_FAILED,
    };

    return outcomes[settled];
}

static int settle_all(hw_store *store, howdah_settlement *settlements, size_t n, hw_settle *settles,
                      hw_settled *settled, char **copies, howdah_error *reterr)
{
    int s = HOWDAH_OK;

    for (size_t i = 0; s >= 0 && i < n; i++) {
        s = take(&settlements[i], &settles[i], &copies[i], reterr);
        if (s < 0)
            hw_error_at(reterr, i);
    }
    if (s >= 0)
        s = store->ops->queue->turn(store, settles, n, settled, NULL, NULL, NULL, NULL, reterr);
    for (size_t i = 0; s >= 0 && i < n; i++)
        settlements[i].outcome = outcome_of(settled[i]);
    return s;
}

int hw_settle_on(hw_store *store, howdah_settlement *settlements, size_t n, howdah_error *reterr)
{
    hw_settle *settles;
    hw_settled *settled;
    char **copies;
    int s;

    if (n > HOWDAH_JOBS_MAX)
        return hw_fail_field(reterr, HOWDAH_LIMIT, "settlements", "at most %d at once, got %zu",
                             HOWDAH_JOBS_MAX, n);
    if (n == 0)
        return HOWDAH_OK;
    settles = hw_calloc(n, sizeof *settles);
    settled = hw_calloc(n, sizeof *settled);
    copies = hw_calloc(n, sizeof *copies);
    s = settles && settled && copies
            ? settle_all(store, settlements, n, settles, settled, copies, reterr)
            : hw_fail_no_memory(reterr);
    for (size_t i = 0; copies && i < n; i++)
        hw_free(copies[i]);
    hw_free(settles);
    hw_free(settled);
    hw_free(copies);
    return s;
}

int hw_settle_one(hw_store *store, const howdah_settlement *settlement, howdah_error *reterr)
{
    howdah_settlement one = *settlement;
    int s = hw_settle_on(store, &one, 1, reterr);

    if (s < 0)
        return s;
    if (one.outcome == HOWDAH_SETTLED_FAILED)
        return HOWDAH_END;
    if (one.outcome == HOWDAH_SETTLED_DONE)
        return HOWDAH_OK;
    s = hw_fail(reterr, HOWDAH_LOST, "job %lld is not leased under token %lld", (long long)one.id,
                (long long)one.token);
    return hw_advise(reterr, s, "its lease ran out, or it was settled before; nothing was changed");
}

/* ----------------------------------------------------------------- the calls */

int howdah_settle(howdah_bus *bus, howdah_settlement *settlements, size_t n, howdah_error *reterr)
{
    HW_ENTRY(entry);
    int s = hw_enter(&entry, &bus, HW_WRITES, "howdah_settle", reterr);

    if (s < 0)
        return s;
    if (n > 0 && !settlements)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_settle: settlements is NULL");
    s = hw_queues_of(bus, "howdah_settle", NULL, reterr);
    return s < 0 ? s : hw_settle_on(bus->store, settlements, n, reterr);
}

static int settle_by(howdah_bus *bus, const char *call, const howdah_settlement *settlement,
                     howdah_error *reterr)
{
    HW_ENTRY(entry);
    int s = hw_enter(&entry, &bus, HW_WRITES, call, reterr);

    if (s >= 0)
        s = hw_queues_of(bus, call, NULL, reterr);
    return s < 0 ? s : hw_settle_one(bus->store, settlement, reterr);
}

int howdah_complete(howdah_bus *bus, int64_t id, int64_t token, const char *result,
                    howdah_error *reterr)
{
    const howdah_settlement one = {
        .id = id, .token = token, .verdict = HOWDAH_VERDICT_COMPLETE, .text = result};
    hw_store *tx = hw_handling_tx(bus);

    return tx ? hw_join_complete(bus, tx, &one, reterr)
              : settle_by(bus, "howdah_complete", &one, reterr);
}

int howdah_fail(howdah_bus *bus, int64_t id, int64_t token, const char *error, howdah_error *reterr)
{
    return settle_by(bus, "howdah_fail",
                     &(howdah_settlement){
                         .id = id, .token = token, .verdict = HOWDAH_VERDICT_FAIL, .text = error},
                     reterr);
}

int howdah_retry(howdah_bus *bus, int64_t id, int64_t token, int64_t after_ms, const char *error,
                 howdah_error *reterr)
{
    return settle_by(bus, "howdah_retry",
                     &(howdah_settlement){.id = id,
                                          .token = token,
                                          .verdict = HOWDAH_VERDICT_RETRY,
                                          .text = error,
                                          .after_ms = after_ms},
                     reterr);
}

int howdah_release(howdah_bus *bus, int64_t id, int64_t token, howdah_error *reterr)
{
    return settle_by(
        bus, "howdah_release",
        &(howdah_settlement){.id = id, .token = token, .verdict = HOWDAH_VERDICT_RELEASE}, reterr);
}

int howdah_extend(howdah_bus *bus, int64_t id, int64_t token, int64_t lease_ms,
                  howdah_error *reterr)
{
    return settle_by(
        bus, "howdah_extend",
        &(howdah_settlement){
            .id = id, .token = token, .verdict = HOWDAH_VERDICT_EXTEND, .after_ms = lease_ms},
        reterr);
}
