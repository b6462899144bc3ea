/*
 * verify.c - whether what is stored holds together.
 *
 *   I1  It only reads, and may be run at any time beside everything else.
 *   I2  Each check is of one moment; two checks may see different ones.
 */
#include <stdio.h>

#include "base/error.h"
#include "base/mem.h"
#include "bus/bus.h"
#include "bus/queue/queue.h"
#include "bus/subscription/subscription.h"

typedef struct verification {
    howdah_bus *bus;
    int (*fn)(void *ctx, const howdah_finding *finding);
    void *ctx;
    int64_t looked_at;
    int64_t wrong;
    bool stop; /* fn asked to stop */
} verification;

/* Once the caller has enough, checks that are under way end at their next row. */
static void find(verification *v, howdah_severity severity, const char *check, const char *message,
                 const char *advice)
{
    howdah_finding finding = {sizeof finding, severity, check, message, advice};

    v->stop |= v->fn(v->ctx, &finding) != 0;
}

/*
 * What became of a check.  A large store is not a bad one: a check that does not end in time says
 * so, and the others go on.
 */
static int end_check(verification *v, const char *check, int s, const howdah_error *err,
                     howdah_error *reterr)
{
    char message[600];

    if (s != HOWDAH_TIMEOUT) {
        if (s < 0)
            hw_error_copy(reterr, err);
        return s;
    }
    (void)snprintf(message, sizeof message, "not checked: %s", err->message);
    find(v, HOWDAH_WARNING, check, message,
         "give it more time: howdah verify --set statement_timeout=1h");
    return HOWDAH_OK;
}

/* ---- jobs */

static int on_wrong(void *ctx, hw_str queue, hw_str what, int64_t n)
{
    verification *v = ctx;
    char message[600];

    v->wrong++;
    (void)snprintf(message, sizeof message, "queue %.*s: %lld %.*s", (int)queue.len, queue.s,
                   (long long)n, (int)what.len, what.s);
    find(v, HOWDAH_BAD, "jobs", message,
         "somebody changed the tables by hand, or this is a bug: keep a copy, and report it");
    return v->stop;
}

/* Counted only to tell how many jobs were looked at. */
static int on_queue(void *ctx, const howdah_queue_info *row)
{
    verification *v = ctx;

    v->looked_at += row->pending + row->processing + row->scheduled + row->completed + row->failed;
    return 0;
}

/* The count is taken before the check, at another moment (I2): it is only for the message. */
static int verify_jobs(verification *v, howdah_error *reterr)
{
    const hw_queue_ops *ops = hw_queue_ops_of(v->bus);
    char message[80];
    int s;

    v->wrong = v->looked_at = 0;
    s = ops->queue_list(v->bus->store, on_queue, v, reterr);
    if (s >= 0)
        s = ops->verify(v->bus->store, on_wrong, v, reterr);
    if (s < 0 || v->wrong > 0)
        return s;
    (void)snprintf(message, sizeof message, "each of %lld is in one place",
                   (long long)v->looked_at);
    find(v, HOWDAH_GOOD, "jobs", message, "");
    return HOWDAH_OK;
}

/* ---- checkpoints */

typedef struct place {
    char name[256];
    hw_anchor anchor;
    int64_t high;
} place;

typedef struct places {
    place *list;
    size_t n;
    size_t room;
    bool full; /* no memory for the next */
} places;

/*
 * Copied, because the list is read to its end before a place is checked: a check is a statement
 * of its own on the same session.
 */
static int on_subscription(void *ctx, const hw_sub_row *row)
{
    places *p = ctx;

    if (p->n == p->room) {
        size_t room = p->room ? 2 * p->room : 16;
        place *list = hw_realloc(p->list, room * sizeof *list);

        if (!list) {
            p->full = true;
            return 1;
        }
        p->list = list;
        p->room = room;
    }
    p->list[p->n] = (place){.anchor = row->anchor, .high = row->high};
    (void)snprintf(p->list[p->n].name, sizeof p->list[p->n].name, "%.*s",
                   (int)row->subscriber_id.len, row->subscriber_id.s);
    p->n++;
    return 0;
}

/* NOT_FOUND is a finding; any other failure ends the check. */
static int verify_place(verification *v, const place *p, howdah_error *reterr)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    char message[900];
    int s = hw_sub_ops_of(v->bus)->verify(v->bus->store, &p->anchor, p->high, &err);

    if (s == HOWDAH_NOT_FOUND) {
        v->wrong++;
        (void)snprintf(message, sizeof message, "%s: %s", p->name, err.message);
        find(v, HOWDAH_BAD, "checkpoints", message,
             "the log was replaced, or restored to an earlier state: howdah sub reset");
        return HOWDAH_OK;
    }
    if (s < 0)
        hw_error_copy(reterr, &err);
    return s;
}

static int verify_places(verification *v, howdah_error *reterr)
{
    places p = {NULL, 0, 0, false};
    char message[80];
    int s = hw_sub_ops_of(v->bus)->list(v->bus->store, on_subscription, &p, reterr);

    if (s >= 0 && p.full)
        s = hw_fail_no_memory(reterr);
    v->wrong = 0;
    for (size_t i = 0; s >= 0 && i < p.n && !v->stop; i++)
        s = verify_place(v, &p.list[i], reterr);
    hw_free(p.list);
    if (s < 0 || v->wrong > 0)
        return s;
    (void)snprintf(message, sizeof message, "%zu fit the log", p.n);
    find(v, HOWDAH_GOOD, "checkpoints", message, "");
    return HOWDAH_OK;
}

/* ---- the log */

static int on_flaw(void *ctx, hw_str what, int64_t n)
{
    verification *v = ctx;
    char message[200];

    v->wrong++;
    (void)snprintf(message, sizeof message, "%lld %.*s", (long long)n, (int)what.len, what.s);
    find(v, HOWDAH_BAD, "log", message,
         "somebody changed the tables by hand, or this is a bug: keep a copy, and report it");
    return v->stop;
}

/* Streams without holes in their versions, families without holes in their revisions. */
static int verify_log(verification *v, howdah_error *reterr)
{
    int s;

    v->wrong = 0;
    s = v->bus->store->ops->times->verify(v->bus->store, on_flaw, v, reterr);
    if (s >= 0 && v->wrong == 0)
        find(v, HOWDAH_GOOD, "log", "streams and families are whole", "");
    return s;
}

/* The store words these findings itself: what a number means differs between the engines. */
static int on_numbers(void *ctx, const howdah_finding *finding)
{
    verification *v = ctx;

    find(v, finding->severity, finding->check, finding->message, finding->advice);
    return v->stop;
}

static int verify_numbers(verification *v, howdah_error *reterr)
{
    return v->bus->store->ops->numbers(v->bus->store, on_numbers, v, reterr);
}

/* Each check stands alone: one that does not end in time keeps no other from running. */
int howdah_verify(howdah_bus *bus, int (*fn)(void *ctx, const howdah_finding *finding), void *ctx,
                  howdah_error *reterr)
{
    static const struct {
        const char *name;
        int (*run)(verification *v, howdah_error *reterr);
    } checks[] = {{"checkpoints", verify_places},
                  {"jobs", verify_jobs},
                  {"numbers", verify_numbers},
                  {"log", verify_log}};
    HW_ENTRY(entry);
    verification v = {.fn = fn, .ctx = ctx};
    int s = hw_enter(&entry, &bus, HW_READS, "howdah_verify", reterr);

    if (s < 0)
        return s;
    if (!fn)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_verify: an argument is NULL");
    v.bus = bus;
    for (size_t i = 0; s >= 0 && !v.stop && i < sizeof checks / sizeof *checks; i++) {
        howdah_error err = HOWDAH_ERROR_INIT;

        s = end_check(&v, checks[i].name, checks[i].run(&v, &err), &err, reterr);
    }
    return s < 0 ? s : HOWDAH_OK;
}
