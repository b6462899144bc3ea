/* member.c - members of a group, and how they take batches; see group.h. */
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log_hook.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/sized.h"
#include "bus/group/group.h"
#include "bus/subscription/subscription.h"
#include "engine/backoff.h"
#include "engine/rules.h"

#define DAY_MS (INT64_C(24) * 3600 * 1000)
#define LANES_MAX 1024
#define STORE_BACKOFF_MS 50
#define STORE_BACKOFF_MAX_MS 5000

int hw_groups_of(howdah_bus *bus, const char *call, howdah_error *reterr)
{
    if (!bus->store->ops->groups)
        return hw_fail(reterr, HOWDAH_MISUSE, "%s: this store has no groups", call);
    if (bus->groups)
        return HOWDAH_OK;
    bus->groups = hw_calloc(1, sizeof *bus->groups);
    if (!bus->groups)
        return hw_fail_no_memory(reterr);
    hw_group_bell_init(bus->groups);
    return HOWDAH_OK;
}

static void free_member(howdah_member *member)
{
    hw_free(member->texts);
    hw_free(member);
}

void hw_groups_close(howdah_bus *bus)
{
    howdah_member *member = bus->groups ? bus->groups->members : NULL;

    while (member) {
        howdah_member *next = member->next;

        free_member(member);
        member = next;
    }
    hw_free(bus->groups);
    bus->groups = NULL;
}

/* ------------------------------------------------------------------- options */

static int check_numbers(const howdah_member_options *o, howdah_error *reterr)
{
    const hw_number_rule rules[] = {
        {"max_events", o->max_events, 1, HOWDAH_BATCH_MAX, ""},
        {"lease", o->lease_ms, 1, DAY_MS, " ms"},
        {"start", o->start, HOWDAH_FROM_END, INT64_C(999999999999999999), ""},
        {"key", (int64_t)o->key, HOWDAH_ORDER_BY_STREAM, HOWDAH_ORDER_NONE, ""},
        {"on_fail", (int64_t)o->on_fail, HOWDAH_FAIL_OPEN, HOWDAH_FAIL_HOLD, ""},
        {"max_retries", o->max_retries, 0, 1000000, ""},
        {"retry_delay", o->retry_delay_ms, 0, DAY_MS, " ms"},
        {"max_retry_delay", o->max_retry_delay_ms, 0, DAY_MS, " ms"},
        {"ordering", (int64_t)o->ordering, HOWDAH_ORDERING_AHEAD, HOWDAH_ORDERING_STRICT, ""},
        {"gap_policy", (int64_t)o->gap_policy, HOWDAH_GAP_PROOF, HOWDAH_GAP_TIMEOUT, ""},
        {"gap_timeout", o->gap_timeout_ms, 1, DAY_MS, " ms"},
        {"lanes", o->lanes, 1, LANES_MAX, ""},
    };
    int s = hw_rule_numbers(rules, sizeof rules / sizeof *rules, reterr);

    if (s >= 0 && (o->lanes & (o->lanes - 1)) != 0)
        return hw_fail_field(reterr, HOWDAH_INVALID, "lanes", "must be a power of two, not %lld",
                             (long long)o->lanes);
    return s;
}

int hw_member_check(const howdah_member_options *o, howdah_error *reterr)
{
    int s = hw_rule_name("subscriber_id", hw_str_of(o->subscriber_id), reterr);

    if (s >= 0 && o->member)
        s = hw_rule_name("member", hw_str_of(o->member), reterr);
    if (s >= 0 && o->pattern)
        s = hw_rule_pattern(hw_str_of(o->pattern), reterr);
    if (s >= 0 && o->stream)
        s = hw_rule_stream(hw_str_of(o->stream), reterr);
    return s < 0 ? s : check_numbers(o, reterr);
}

/* One block for its texts: the caller's need not live on. */
static int keep_texts(howdah_member *member, const char *signature, howdah_error *reterr)
{
    howdah_member_options *o = &member->options;
    const char **const texts[] = {&o->subscriber_id, &o->member, &o->pattern, &o->stream};
    size_t bytes = 1;
    char *at;

    if (!o->member)
        o->member = signature;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        bytes += *texts[i] ? strlen(*texts[i]) + 1 : 0;
    member->texts = at = hw_alloc(bytes);
    if (!at)
        return hw_fail_no_memory(reterr);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (!*texts[i])
            continue;
        *texts[i] = strcpy(at, *texts[i]); /* NOLINT(clang-analyzer-security.insecureAPI.strcpy) */
        at += strlen(at) + 1;
    }
    return HOWDAH_OK;
}

/* ------------------------------------------------------------------- joining */

typedef struct joining {
    const howdah_member_options *options;
    bool fits;
} joining;

static void on_filter(void *ctx, const hw_filter *filter)
{
    joining *j = ctx;
    const hw_filter own = {hw_str_of(j->options->pattern), hw_str_of(j->options->stream),
                           j->options->originals_only};

    j->fits = hw_filter_equal(filter, &own);
}

/* The store cannot tell: a session's own lock keeps it from nothing. */
static int check_own(const howdah_bus *bus, const char *subscriber_id, howdah_error *reterr)
{
    int s;

    for (const howdah_subscription *sub = bus->service ? bus->service->subs : NULL; sub;
         sub = sub->next)
        if (sub->id && strcmp(sub->id, subscriber_id) == 0) {
            s = hw_fail(reterr, HOWDAH_CONFLICT, "this bus runs the subscription %s",
                        subscriber_id);
            return hw_advise(reterr, s, "unsubscribe first");
        }
    return HOWDAH_OK;
}

int hw_group_join(howdah_bus *bus, const howdah_member_options *o, bool *ret_created,
                  howdah_error *reterr)
{
    joining j = {o, true};
    int s = hw_groups_of(bus, "sharing a subscription", reterr);

    if (s >= 0)
        s = check_own(bus, o->subscriber_id, reterr);
    if (s >= 0)
        s = hw_group_ops_of(bus)->create(bus->store, o, ret_created, on_filter, &j, reterr);
    if (s < 0 || j.fits)
        return s;
    s = hw_fail(reterr, HOWDAH_CONFLICT, "the subscription %s is shared with another filter",
                o->subscriber_id);
    return hw_advise(reterr, s,
                     "join with its pattern and stream (howdah sub show), or use another name");
}

int howdah_member_new(howdah_bus *bus, const howdah_member_options *options,
                      howdah_member **ret_member, howdah_error *reterr)
{
    HW_ENTRY(entry);
    howdah_member_options own = HOWDAH_MEMBER_OPTIONS_INIT;
    char signature[HW_SIGNATURE_SIZE];
    howdah_member *member;
    bool created = false;
    int s = hw_enter(&entry, &bus, HW_DRIVES, "howdah_member_new", reterr);

    if (s < 0)
        return s;
    if (!options || !ret_member)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_member_new: an argument is NULL");
    s = hw_groups_of(bus, "howdah_member_new", reterr);
    if (s >= 0)
        s = hw_sized_take(&own, sizeof own, options, "howdah_member_new", reterr);
    if (s >= 0)
        s = hw_member_check(&own, reterr);
    if (s >= 0)
        s = hw_group_join(bus, &own, &created, reterr);
    if (s < 0)
        return s;
    member = hw_calloc(1, sizeof *member);
    if (!member)
        return hw_fail_no_memory(reterr);
    *member = (howdah_member){.bus = bus, .options = own, .next = bus->groups->members};
    hw_bus_sign(signature);
    s = keep_texts(member, signature, reterr);
    if (s < 0) {
        free_member(member);
        return s;
    }
    bus->groups->members = member;
    *ret_member = member;
    return HOWDAH_OK;
}

void howdah_member_free(howdah_member *member)
{
    HW_ENTRY(entry);
    howdah_bus *bus = member ? member->bus : NULL;
    howdah_error err = HOWDAH_ERROR_INIT;

    if (!member)
        return;
    if (hw_enter(&entry, &bus, HW_DRIVES, "howdah_member_free", &err) < 0) {
        hw_log(HOWDAH_LOG_ERROR, "%s", err.message);
        return;
    }
    for (howdah_member **at = &bus->groups->members; *at; at = &(*at)->next)
        if (*at == member) {
            *at = member->next;
            break;
        }
    if (bus->groups->listener == member)
        hw_group_bell_lost(bus);
    free_member(member);
}

/* ------------------------------------------------------------------ fetching */

/* One look.  HOWDAH_END: there is nothing.  done, when there is one, is acked by it, and over then,
   whatever becomes of the rest. */
static int look(howdah_member *member, howdah_batch *done, howdah_batch **ret_batch,
                howdah_error *reterr)
{
    howdah_bus *bus = member->bus;
    const howdah_member_options *o = &member->options;
    hw_group_take take = {.subscriber_id = hw_str_of(o->subscriber_id),
                          .max_events = o->max_events,
                          .member = hw_str_of(o->member),
                          .lease_ms = o->lease_ms};
    hw_group_outlook outlook = {.status = HW_SUB_ACTIVE, .due_ms = -1};
    hw_group_batch held = {.n = 0};
    int s;

    do {
        bool acks = done && !done->over;

        take.acked = acks ? hw_str_of(done->held.token) : HW_STR_NULL;
        take.prior = acks && done->bus == bus ? &done->held : NULL;
        s = hw_group_ops_of(bus)->fetch(bus->store, &take, &held, &outlook, reterr);
        if (acks && (s >= 0 || outlook.acked))
            done->over = true;
        if (s == HOWDAH_OK)
            s = hw_batch_new(member, &held, ret_batch, reterr);
        else
            break;
    } while (s == HOWDAH_END); /* nothing of it was left */
    bus->groups->due_ms = outlook.due_ms;
    if (s == HOWDAH_OK)
        hw_group_bell_heard(bus);
    return s;
}

/* True: the store may be able to do it later; then some time has passed. */
static bool retries_after(howdah_bus *bus, int status, const howdah_error *err, unsigned failures,
                          int64_t left_ms)
{
    int64_t ms =
        hw_backoff_ms(STORE_BACKOFF_MS, STORE_BACKOFF_MAX_MS, failures, 20, hw_random_u32());

    if (!hw_service_passes(status, err) || left_ms <= 0)
        return false;
    hw_log(HOWDAH_LOG_WARN, "a member waits for the store: %s", err->message);
    return hw_sleep(hw_bus_waits_for(bus), ms < left_ms ? ms : left_ms, NULL) == HOWDAH_OK;
}

/* A try before this one may have acked it: then the token is stale because of that. */
static int fail_unknown(const howdah_error *first, howdah_error *reterr)
{
    hw_error_copy(reterr, first);
    return first->status;
}

/* Until something is there, or the time is over (HOWDAH_END). */
static int take_next(howdah_member *member, howdah_batch *done, int64_t wait_ms,
                     howdah_batch **ret_batch, howdah_error *reterr)
{
    howdah_bus *bus = member->bus;
    int64_t until = hw_clock_end_ms(wait_ms);
    howdah_error first = HOWDAH_ERROR_INIT; /* after which nobody knows whether done is acked */
    unsigned failures = 0;
    int s;

    for (;;) {
        howdah_error err = HOWDAH_ERROR_INIT;
        int64_t left;

        if (hw_interrupted(hw_bus_waits_for(bus)))
            return hw_fail(reterr, HOWDAH_INTERRUPTED, "interrupted");
        s = look(member, done, ret_batch, &err);
        left = until - hw_clock_mono_ms();
        if (s == HOWDAH_OK)
            return s;
        if (s == HOWDAH_LOST && first.status < 0)
            return fail_unknown(&first, reterr);
        if (s < 0 && done && !done->over && (err.flags & HOWDAH_OUTCOME_UNKNOWN))
            first = err;
        if (s < 0 && !retries_after(bus, s, &err, failures++, left)) {
            hw_error_copy(reterr, &err);
            return s;
        }
        /* Armed even by who does not wait: its loop sleeps on howdah_fd(). */
        if (s == HOWDAH_END && !hw_group_bell_arm(member)) {
            if (left <= 0)
                return HOWDAH_END;
            s = hw_group_bell_sleep(bus, left, reterr);
            if (s < 0)
                return s;
        }
    }
}

/* done NULL: nothing is acked.  It is the caller's after an error, and else freed. */
static int exchange(howdah_member *member, howdah_batch *done, int64_t wait_ms,
                    howdah_batch **ret_batch, const char *call, howdah_error *reterr)
{
    HW_ENTRY(entry);
    howdah_bus *bus = member ? member->bus : NULL;
    int s;

    if (!member || !ret_batch)
        return hw_fail(reterr, HOWDAH_MISUSE, "%s: an argument is NULL", call);
    s = hw_enter(&entry, &bus, HW_ITSELF | HW_WRITES | HW_WAITS, call, reterr);
    if (s >= 0)
        s = take_next(member, done, wait_ms, ret_batch, reterr);
    if (s >= 0)
        howdah_batch_free(done);
    return s;
}

int howdah_member_fetch(howdah_member *member, int64_t wait_ms, howdah_batch **ret_batch,
                        howdah_error *reterr)
{
    return exchange(member, NULL, wait_ms, ret_batch, "howdah_member_fetch", reterr);
}

int howdah_member_exchange(howdah_member *member, howdah_batch *done, int64_t wait_ms,
                           howdah_batch **ret_batch, howdah_error *reterr)
{
    if (!done)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_member_exchange: the batch is NULL");
    return exchange(member, done, wait_ms, ret_batch, "howdah_member_exchange", reterr);
}
