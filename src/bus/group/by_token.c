/*
 * by_token.c - members that are elsewhere: calls about a group, and about a batch by its token.
 *
 *   I1  Nothing is kept here from one call to the next, so any bus of the same store will do: a
 *       service between members and the store answers each with whatever session is free.
 */
#include "base/error.h"
#include "base/sized.h"
#include "base/text.h"
#include "bus/group/group.h"
#include "engine/rules.h"

#define DAY_MS (INT64_C(24) * 3600 * 1000)
#define ERROR_MAX 500

static int check_lease(int64_t lease_ms, howdah_error *reterr)
{
    if (lease_ms >= 1 && lease_ms <= DAY_MS)
        return HOWDAH_OK;
    return hw_fail_field(reterr, HOWDAH_INVALID, "lease", "must be 1 ms to 24 hours, not %lld ms",
                         (long long)lease_ms);
}

/* What all calls about a batch begin with; *ret_ref names it. */
static int enter(hw_entry *entry, howdah_bus **bus, const char *subscriber_id, const char *token,
                 const char *call, hw_batch_ref *ret_ref, howdah_error *reterr)
{
    int s = hw_enter(entry, bus, HW_WRITES, call, reterr);

    if (s < 0)
        return s;
    if (!token)
        return hw_fail_field(reterr, HOWDAH_INVALID, "token", "must not be NULL");
    s = hw_rule_name("subscriber_id", hw_str_of(subscriber_id), reterr);
    if (s >= 0)
        s = hw_groups_of(*bus, call, reterr);
    *ret_ref = (hw_batch_ref){hw_str_of(subscriber_id), hw_str_of(token), 0};
    return s;
}

int howdah_group_create(howdah_bus *bus, const howdah_member_options *options, bool *ret_created,
                        howdah_error *reterr)
{
    HW_ENTRY(entry);
    howdah_member_options own = HOWDAH_MEMBER_OPTIONS_INIT;
    bool created = false;
    int s = hw_enter(&entry, &bus, HW_WRITES, "howdah_group_create", reterr);

    if (s < 0)
        return s;
    if (!options)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_group_create: an argument is NULL");
    s = hw_sized_take(&own, sizeof own, options, "howdah_group_create", reterr);
    if (s >= 0)
        s = hw_member_check(&own, reterr);
    if (s >= 0)
        s = hw_group_join(bus, &own, &created, reterr);
    if (s >= 0 && ret_created)
        *ret_created = created;
    return s;
}

int howdah_group_fetch(howdah_bus *bus, const char *subscriber_id, const char *member,
                       int64_t max_events, int64_t lease_ms, howdah_batch **ret_batch,
                       howdah_error *reterr)
{
    HW_ENTRY(entry);
    howdah_member one = {.options = HOWDAH_MEMBER_OPTIONS_INIT};
    hw_group_take take = {
        hw_str_of(subscriber_id), max_events, hw_str_of(member), lease_ms, HW_STR_NULL, NULL, 0};
    hw_group_outlook outlook = {.status = HW_SUB_ACTIVE, .due_ms = -1};
    hw_group_batch held = {.n = 0};
    int s = hw_enter(&entry, &bus, HW_WRITES, "howdah_group_fetch", reterr);

    if (s < 0)
        return s;
    if (!ret_batch)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_group_fetch: an argument is NULL");
    one.bus = bus;
    one.options.subscriber_id = subscriber_id;
    one.options.member = member;
    one.options.max_events = max_events;
    one.options.lease_ms = lease_ms;
    s = hw_member_check(&one.options, reterr);
    if (s >= 0)
        s = hw_groups_of(bus, "howdah_group_fetch", reterr);
    do {
        if (s >= 0)
            s = hw_group_ops_of(bus)->fetch(bus->store, &take, &held, &outlook, reterr);
        if (s != HOWDAH_OK)
            return s;
        s = hw_batch_new(&one, &held, ret_batch, reterr);
    } while (s == HOWDAH_END); /* nothing of it was left */
    return s;
}

int howdah_group_ack(howdah_bus *bus, const char *subscriber_id, const char *token, int64_t upto,
                     howdah_error *reterr)
{
    HW_ENTRY(entry);
    hw_batch_ref ref;
    int s = enter(&entry, &bus, subscriber_id, token, "howdah_group_ack", &ref, reterr);

    if (s >= 0 && upto < 0)
        return hw_fail_field(reterr, HOWDAH_INVALID, "upto", "must be a sequence, 0 or more");
    return s < 0 ? s
                 : hw_group_ops_of(bus)->ack(bus->store, &ref, upto > 0 ? upto : INT64_MAX, reterr);
}

int howdah_group_nack(howdah_bus *bus, const char *subscriber_id, const char *token,
                      int64_t global_sequence, const char *error, int64_t retry_after_ms,
                      howdah_error *reterr)
{
    HW_ENTRY(entry);
    char text[ERROR_MAX + 1];
    hw_group_fate fate;
    hw_batch_ref ref;
    int s = enter(&entry, &bus, subscriber_id, token, "howdah_group_nack", &ref, reterr);

    if (s >= 0 && retry_after_ms != -1)
        s = hw_rule_delay("retry_after", retry_after_ms, reterr);
    if (s < 0)
        return s;
    hw_utf8_copy(text, sizeof text, error ? error : "");
    return hw_group_ops_of(bus)->nack(bus->store, &ref, global_sequence, hw_str_of(text),
                                      retry_after_ms, &fate, reterr);
}

int howdah_group_extend(howdah_bus *bus, const char *subscriber_id, const char *token,
                        int64_t lease_ms, howdah_error *reterr)
{
    HW_ENTRY(entry);
    hw_batch_ref ref;
    int s = enter(&entry, &bus, subscriber_id, token, "howdah_group_extend", &ref, reterr);

    if (s >= 0)
        s = check_lease(lease_ms, reterr);
    return s < 0 ? s : hw_group_ops_of(bus)->extend(bus->store, &ref, lease_ms, reterr);
}

int howdah_group_release(howdah_bus *bus, const char *subscriber_id, const char *token,
                         howdah_error *reterr)
{
    HW_ENTRY(entry);
    hw_batch_ref ref;
    int s = enter(&entry, &bus, subscriber_id, token, "howdah_group_release", &ref, reterr);

    return s < 0 ? s : hw_group_ops_of(bus)->release(bus->store, &ref, reterr);
}
