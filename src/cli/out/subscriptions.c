/* subscriptions.c - see subscriptions.h. */
#include "cli/out/subscriptions.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/text.h"

#define HOLES_SHOWN 8 /* in a terminal */

/* A state of a newer library is "unknown", not a wrong name. */
const char *cli_sub_state(howdah_subscription_state state)
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
static void get_state(const void *thing, cli_value *v)
{
    const howdah_subscription_info *info = thing;

    v->text = hw_str_of(cli_sub_state(info->state));
}

/* [[first,last],...]: the ranges below "high" that are not handled. */
static void get_holes(const void *thing, cli_value *v)
{
    const howdah_subscription_info *info = thing;

    hw_buf_putc(&v->room, '[');
    for (size_t i = 0; i < info->holes_n; i++)
        hw_buf_printf(&v->room, "%s[%" PRId64 ",%" PRId64 "]", i > 0 ? "," : "", info->holes[2 * i],
                      info->holes[2 * i + 1]);
    hw_buf_putc(&v->room, ']');
}

/* "3, 7 to 9": the first of the same ranges, for people. */
static void get_outstanding(const void *thing, cli_value *v)
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

static void get_revisions(const void *thing, cli_value *v)
{
    const howdah_subscription_info *info = thing;

    v->text = info->originals_only ? HW_STR_LIT("originals only") : HW_STR_NULL;
}

/* Which of the other ways it is run by is its process's to know. */
static void get_instance(const void *thing, cli_value *v)
{
    const howdah_subscription_info *info = thing;

    v->text = info->shared ? HW_STR_LIT("shared") : HW_STR_NULL;
}

/* How many numbers up to "high" are not handled. */
static void get_outstanding_n(const void *thing, cli_value *v)
{
    const howdah_subscription_info *info = thing;

    for (size_t i = 0; i < info->holes_n; i++)
        v->number += info->holes[2 * i + 1] - info->holes[2 * i] + 1;
}

static void get_members(const void *thing, cli_value *v)
{
    const cli_subscription_shown *shown = thing;

    v->left_out = !shown->info.shared;
    v->text = hw_str_of(shown->members);
}

static void get_members_n(const void *thing, cli_value *v)
{
    const cli_subscription_shown *shown = thing;

    v->absent = !shown->info.shared;
    v->number = (int64_t)shown->members_n;
}

static void get_lag_age(const void *thing, cli_value *v)
{
    const howdah_subscription_info *info = thing;

    v->absent = info->lag_age_ms == HOWDAH_ABSENT;
    v->number = info->lag_age_ms;
}

/* All that chooses its events, in one cell. */
static void get_choice(const void *thing, cli_value *v)
{
    const howdah_subscription_info *info = thing;

    hw_buf_printf(&v->room, "%s%s%s%s", info->pattern ? info->pattern : "(all)",
                  info->stream ? " in " : "", info->stream ? info->stream : "",
                  info->originals_only ? ", originals" : "");
}

#define AT(member) CLI_AT(howdah_subscription_info, member)

static const cli_field fields[] = {
    {"subscriber_id", CLI_TEXT, "subscription", .style = CLI_CYAN, AT(subscriber_id)},
    {"high", CLI_NUMBER, "handled up to", "at", AT(high)},
    {"contiguous", CLI_NUMBER, AT(contiguous)},
    {"holes", CLI_JSON, .get = get_holes},
    {"outstanding", CLI_NUMBER, .get = get_outstanding_n},
    {"outstanding_ranges", CLI_TEXT, "outstanding", .get = get_outstanding},
    {"instance", CLI_WORD, .get = get_instance},
    {"members", CLI_JSON, .get = get_members},
    {"members_n", CLI_NUMBER, "active members", .get = get_members_n},
    {"head", CLI_NUMBER, AT(head)},
    {"lag", CLI_NUMBER, AT(lag)},
    {"lag_age_s", CLI_AGE, "oldest left", .get = get_lag_age},
    {"owner", CLI_TEXT, .style = CLI_DIM, .none = "(nobody)", .blank = "-", AT(owner)},
    {"token", CLI_NUMBER, AT(token)},
    {"state", CLI_WORD, .get = get_state},
    {"pattern", CLI_TEXT, .none = "(all)", AT(pattern)},
    {"choice", CLI_TEXT, .head = "pattern", .get = get_choice},
    {"updated_at", CLI_TIME, "updated at", AT(updated_at_us)},
    {"dead_letters", CLI_NUMBER, "dead letters", "dead", AT(dead_letters)},
    {"skips", CLI_NUMBER, .zero = "", AT(skips)},
    {"reason", CLI_TEXT, AT(reason)},
    {"stream", CLI_TEXT, AT(stream)},
    {"originals", CLI_BOOL, AT(originals_only)},
    {"revisions", CLI_TEXT, .get = get_revisions},
    {.name = NULL},
};

const cli_entity cli_subscription = {
    fields,
    .json = "subscriber_id high contiguous holes head lag lag_age_s owner token state pattern "
            "updated_at dead_letters skips reason stream originals instance outstanding",
    .show =
        "subscriber_id state reason pattern stream revisions high contiguous outstanding_ranges "
        "head lag lag_age_s owner token dead_letters skips updated_at",
    .table = "subscriber_id state high lag dead_letters choice owner",
};

const cli_entity cli_subscription_with_members = {
    fields,
    .json = "subscriber_id high contiguous holes head lag lag_age_s owner token state pattern "
            "updated_at dead_letters skips reason stream originals instance outstanding members",
    .show =
        "subscriber_id state instance reason pattern stream revisions high contiguous "
        "outstanding_ranges head lag lag_age_s owner members_n token dead_letters skips updated_at",
};

#undef AT
#define AT(member) CLI_AT(howdah_member_info, member)

static const cli_field member_fields[] = {
    {"member", CLI_STRING, .style = CLI_CYAN, .blank = "(no name)", AT(member)},
    {"batches", CLI_NUMBER, AT(batches)},
    {"events", CLI_NUMBER, AT(events)},
    {"oldest_age_s", CLI_AGE, .head = "oldest", AT(oldest_age_ms)},
    {.name = NULL},
};

const cli_entity cli_member = {
    member_fields,
    .json = "member batches events oldest_age_s",
    .table = "member batches events oldest_age_s",
};

/* --------------------------------------------------------------- positions */

/* 0 is before the first event, so "N" always means after N. */
int cli_position(const cli_args *args, const char *option, int64_t *ret_position,
                 howdah_error *reterr)
{
    const char *text = cli_args_text(args, option);

    if (!text)
        return HOWDAH_OK;
    if (strcmp(text, "start") == 0) {
        *ret_position = HOWDAH_FROM_START;
    } else if (strcmp(text, "end") == 0) {
        *ret_position = HOWDAH_FROM_END;
    } else if (!hw_parse_i64(text, 0, INT64_MAX - 1, ret_position)) {
        return hw_fail_field(
            reterr, HOWDAH_INVALID, option,
            "expected start, end, or a sequence, 0 or more; got something else, %zu bytes long",
            strlen(text));
    }
    return HOWDAH_OK;
}
