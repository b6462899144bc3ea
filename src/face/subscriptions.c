/* subscriptions.c - see subscriptions.h. */
#include "face/subscriptions.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#define HOLES_SHOWN 8 /* in a terminal */

/* A state of a newer library is "unknown", not a wrong name. */
const char *face_subscription_state(howdah_subscription_state state)
{
    static const char *const names[] = {
        [HOWDAH_SUBSCRIPTION_WAITING] = "waiting", [HOWDAH_SUBSCRIPTION_BEHIND] = "behind",
        [HOWDAH_SUBSCRIPTION_LIVE] = "live",       [HOWDAH_SUBSCRIPTION_PAUSED] = "paused",
        [HOWDAH_SUBSCRIPTION_HALTED] = "halted",
    };

    return (size_t)state < sizeof names / sizeof *names ? names[state] : "unknown";
}

/* ------------------------------------------------------------------- fields */

/* As a word, in JSON as well. */
static void get_state(const void *thing, face_value *v)
{
    const howdah_subscription_info *info = thing;

    v->text = hw_str_of(face_subscription_state(info->state));
}

/* [[first,last],...]: the ranges below "high" that are not handled. */
static void get_holes(const void *thing, face_value *v)
{
    const howdah_subscription_info *info = thing;

    hw_buf_putc(&v->room, '[');
    for (size_t i = 0; i < info->holes_n; i++)
        hw_buf_printf(&v->room, "%s[%" PRId64 ",%" PRId64 "]", i > 0 ? "," : "", info->holes[2 * i],
                      info->holes[2 * i + 1]);
    hw_buf_putc(&v->room, ']');
}

/* "3, 7 to 9": the first of the same ranges, for people. */
static void get_outstanding(const void *thing, face_value *v)
{
    const howdah_subscription_info *info = thing;

    for (size_t i = 0; i < info->holes_n && i < HOLES_SHOWN; i++) {
        int64_t first = info->holes[2 * i];
        int64_t last = info->holes[2 * i + 1];

        assert(first <= last);
        hw_buf_printf(&v->room, "%s%" PRId64, i > 0 ? ", " : "", first);
        if (last > first)
            hw_buf_printf(&v->room, " to %" PRId64, last);
    }
    if (info->holes_n > HOLES_SHOWN)
        hw_buf_puts(&v->room, ", ...");
}

static void get_revisions(const void *thing, face_value *v)
{
    const howdah_subscription_info *info = thing;

    v->text = info->originals_only ? HW_STR_LIT("originals only") : HW_STR_NULL;
}

/* Which of the other ways it is run by is its process's to know. */
static void get_instance(const void *thing, face_value *v)
{
    const howdah_subscription_info *info = thing;

    v->text = info->shared ? HW_STR_LIT("shared") : HW_STR_NULL;
}

/* How many numbers up to "high" are not handled. */
static void get_outstanding_n(const void *thing, face_value *v)
{
    const howdah_subscription_info *info = thing;

    for (size_t i = 0; i < info->holes_n; i++)
        v->number += info->holes[2 * i + 1] - info->holes[2 * i] + 1;
}

static void get_members(const void *thing, face_value *v)
{
    const face_subscription_shown *shown = thing;

    v->left_out = !shown->info.shared;
    v->text = hw_str_of(shown->members);
}

static void get_members_n(const void *thing, face_value *v)
{
    const face_subscription_shown *shown = thing;

    v->absent = !shown->info.shared;
    v->number = (int64_t)shown->members_n;
}

static void get_lag_age(const void *thing, face_value *v)
{
    const howdah_subscription_info *info = thing;

    v->absent = info->lag_age_ms == HOWDAH_ABSENT;
    v->number = info->lag_age_ms;
}

/* All that chooses its events, in one cell. */
static void get_choice(const void *thing, face_value *v)
{
    const howdah_subscription_info *info = thing;

    hw_buf_printf(&v->room, "%s%s%s%s", info->pattern ? info->pattern : "(all)",
                  info->stream ? " in " : "", info->stream ? info->stream : "",
                  info->originals_only ? ", originals" : "");
}

#define AT(member) FACE_AT(howdah_subscription_info, member)

static const face_field fields[] = {
    {"subscriber_id", FACE_TEXT, "subscription", .style = FACE_NAME, AT(subscriber_id)},
    {"high", FACE_NUMBER, "handled up to", "at", AT(high)},
    {"contiguous", FACE_NUMBER, AT(contiguous)},
    {"holes", FACE_JSON, .get = get_holes},
    {"outstanding", FACE_NUMBER, .get = get_outstanding_n},
    {"outstanding_ranges", FACE_TEXT, "outstanding", .get = get_outstanding},
    {"instance", FACE_WORD, .get = get_instance},
    {"members", FACE_JSON, .get = get_members},
    {"members_n", FACE_NUMBER, "active members", .get = get_members_n},
    {"head", FACE_NUMBER, AT(head)},
    {"lag", FACE_NUMBER, AT(lag)},
    {"lag_age_s", FACE_AGE, "oldest left", .get = get_lag_age},
    {"owner", FACE_TEXT, .style = FACE_ASIDE, .none = "(nobody)", .blank = "-", AT(owner)},
    {"token", FACE_NUMBER, AT(token)},
    {"state", FACE_WORD, .get = get_state},
    {"pattern", FACE_TEXT, .none = "(all)", AT(pattern)},
    {"choice", FACE_TEXT, .head = "pattern", .get = get_choice},
    {"updated_at", FACE_TIME, "updated at", AT(updated_at_us)},
    {"dead_letters", FACE_NUMBER, "dead letters", "dead", AT(dead_letters)},
    {"skips", FACE_NUMBER, .zero = "", AT(skips)},
    {"reason", FACE_TEXT, AT(reason)},
    {"stream", FACE_TEXT, AT(stream)},
    {"originals", FACE_BOOL, AT(originals_only)},
    {"revisions", FACE_TEXT, .get = get_revisions},
    {.name = NULL},
};

const face_entity face_subscription = {
    fields,
    .json = "subscriber_id high contiguous holes head lag lag_age_s owner token state pattern "
            "updated_at dead_letters skips reason stream originals instance outstanding",
    .show =
        "subscriber_id state reason pattern stream revisions high contiguous outstanding_ranges "
        "head lag lag_age_s owner token dead_letters skips updated_at",
    .table = "subscriber_id state high lag dead_letters choice owner",
};

const face_entity face_subscription_with_members = {
    fields,
    .json = "subscriber_id high contiguous holes head lag lag_age_s owner token state pattern "
            "updated_at dead_letters skips reason stream originals instance outstanding members",
    .show =
        "subscriber_id state instance reason pattern stream revisions high contiguous "
        "outstanding_ranges head lag lag_age_s owner members_n token dead_letters skips updated_at",
};

#undef AT
#define AT(member) FACE_AT(howdah_member_info, member)

static const face_field member_fields[] = {
    {"member", FACE_STRING, .style = FACE_NAME, .blank = "(no name)", AT(member)},
    {"batches", FACE_NUMBER, AT(batches)},
    {"events", FACE_NUMBER, AT(events)},
    {"oldest_age_s", FACE_AGE, .head = "oldest", AT(oldest_age_ms)},
    {.name = NULL},
};

const face_entity face_member = {
    member_fields,
    .json = "member batches events oldest_age_s",
    .table = "member batches events oldest_age_s",
};

/* In the order in which they come. */
void face_members_add(face_members *members, const howdah_member_info *info)
{
    hw_buf_putc(&members->json, members->n++ > 0 ? ',' : '[');
    face_entity_json(&members->json, &face_member, info, "");
}

void face_members_end(face_members *members)
{
    hw_buf_puts(&members->json, members->n > 0 ? "]" : "[]");
}

void face_members_done(face_members *members)
{
    hw_buf_done(&members->json);
    members->n = 0;
}

/* -------------------------------------------------------------------- skips */

/* "7-9": the numbers that were passed over, in one cell. */
static void get_numbers(const void *thing, face_value *v)
{
    const howdah_skip *skip = thing;

    assert(skip->first <= skip->last);
    (void)snprintf(v->small, sizeof v->small, "%" PRId64 "-%" PRId64, skip->first, skip->last);
    v->text = hw_str_of(v->small);
}

/* In milliseconds also for people: what matters is how it compares with --gap-timeout. */
static void get_missing_for(const void *thing, face_value *v)
{
    const howdah_skip *skip = thing;

    (void)snprintf(v->small, sizeof v->small, "%" PRId64 " ms", skip->age_ms);
    v->text = hw_str_of(v->small);
}

#undef AT
#define AT(member) FACE_AT(howdah_skip, member)

static const face_field skip_fields[] = {
    {"id", FACE_NUMBER, .style = FACE_ASIDE, AT(id)},
    {"subscriber_id", FACE_TEXT, .head = "subscription", .style = FACE_NAME, AT(subscriber_id)},
    {"first", FACE_NUMBER, AT(first)},
    {"last", FACE_NUMBER, AT(last)},
    {"numbers", FACE_WORD, .right = true, .get = get_numbers},
    {"age_ms", FACE_NUMBER, AT(age_ms)},
    {"missing_for", FACE_WORD, .head = "missing for", .right = true, .get = get_missing_for},
    {"reason", FACE_TEXT, AT(reason)},
    {"created_at", FACE_TIME, AT(created_at_us)},
    {"resolution", FACE_TEXT, .blank = "(open)", AT(resolution)},
    {.name = NULL},
};

const face_entity face_skip = {
    skip_fields,
    .json = "id subscriber_id first last age_ms reason created_at resolution",
    .table = "id subscriber_id numbers missing_for reason resolution",
};
