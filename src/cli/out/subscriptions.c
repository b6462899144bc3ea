/* subscriptions.c - see subscriptions.h. */
#include "cli/out/subscriptions.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "cli/out/show.h"

#define ROWS_HELD 1000 /* above any number that a person reads as a table */
#define HOLES_SHOWN 8  /* in a terminal */

const char *cli_sub_state(howdah_subscription_state state)
{
    static const char *const names[] = {
        [HOWDAH_SUBSCRIPTION_WAITING] = "waiting", [HOWDAH_SUBSCRIPTION_BEHIND] = "behind",
        [HOWDAH_SUBSCRIPTION_LIVE] = "live",       [HOWDAH_SUBSCRIPTION_PAUSED] = "paused",
        [HOWDAH_SUBSCRIPTION_HALTED] = "halted",
    };

    return (size_t)state < sizeof names / sizeof *names ? names[state] : "unknown";
}

/* -------------------------------------------------------------------- JSON */

void cli_json_member(cli_context *cli, const char *key, const char *text)
{
    cli_out_printf(&cli->out, ",\"%s\":", key);
    if (text && text[0])
        cli_json_text(cli, text);
    else
        cli_out_puts(&cli->out, "null");
}

void cli_json_time(cli_context *cli, const char *key, int64_t time_us)
{
    char text[HOWDAH_TIME_SIZE];

    howdah_time_format(time_us, text);
    cli_out_printf(&cli->out, ",\"%s\":\"%s\"", key, text);
}

void cli_sub_json(cli_context *cli, const howdah_subscription_info *info)
{
    cli_out *out = &cli->out;

    cli_out_puts(out, "{\"subscriber_id\":");
    cli_json_text(cli, info->subscriber_id);
    cli_out_printf(out, ",\"high\":%" PRId64 ",\"contiguous\":%" PRId64 ",\"holes\":[", info->high,
                   info->contiguous);
    for (size_t i = 0; i < info->holes_n; i++)
        cli_out_printf(out, "%s[%" PRId64 ",%" PRId64 "]", i > 0 ? "," : "", info->holes[2 * i],
                       info->holes[2 * i + 1]);
    cli_out_printf(out, "],\"head\":%" PRId64 ",\"lag\":%" PRId64, info->head, info->lag);
    cli_json_member(cli, "owner", info->owner);
    cli_out_printf(out, ",\"token\":%" PRId64 ",\"state\":\"%s\"", info->token,
                   cli_sub_state(info->state));
    cli_json_member(cli, "pattern", info->pattern);
    cli_json_time(cli, "updated_at", info->updated_at_us);
    cli_out_printf(out, ",\"dead_letters\":%" PRId64 ",\"skips\":%" PRId64, info->dead_letters,
                   info->skips);
    cli_json_member(cli, "reason", info->reason);
    cli_json_member(cli, "stream", info->stream);
    cli_out_printf(out, ",\"originals\":%s}", info->originals_only ? "true" : "false");
}

/* ---------------------------------------------------------------- terminal */

static void show_holes(cli_out *out, const howdah_subscription_info *info)
{
    char text[HOLES_SHOWN * 48];
    size_t len = 0;

    for (size_t i = 0; i < info->holes_n && i < HOLES_SHOWN; i++) {
        int64_t first = info->holes[2 * i];
        int64_t last = info->holes[2 * i + 1];

        len +=
            (size_t)snprintf(text + len, sizeof text - len, "%s%" PRId64, i > 0 ? ", " : "", first);
        if (last > first)
            len += (size_t)snprintf(text + len, sizeof text - len, " to %" PRId64, last);
    }
    if (info->holes_n > HOLES_SHOWN)
        (void)snprintf(text + len, sizeof text - len, ", ...");
    if (info->holes_n > 0)
        cli_show_text(out, "outstanding", hw_str_of(text));
}

void cli_sub_show(cli_context *cli, const howdah_subscription_info *info)
{
    cli_out *out = &cli->out;

    cli_show_text(out, "subscription", hw_str_of(info->subscriber_id));
    cli_show_text(out, "state", hw_str_of(cli_sub_state(info->state)));
    cli_show_text(out, "reason", hw_str_of(info->reason));
    cli_show_text(out, "pattern", hw_str_of(info->pattern ? info->pattern : "(all)"));
    cli_show_text(out, "stream", hw_str_of(info->stream));
    if (info->originals_only)
        cli_show_text(out, "revisions", HW_STR_LIT("originals only"));
    cli_show_number(out, "handled up to", info->high);
    cli_show_number(out, "contiguous", info->contiguous);
    show_holes(out, info);
    cli_show_number(out, "head", info->head);
    cli_show_number(out, "lag", info->lag);
    cli_show_text(out, "owner", hw_str_of(info->owner[0] ? info->owner : "(nobody)"));
    cli_show_number(out, "token", info->token);
    cli_show_number(out, "dead letters", info->dead_letters);
    if (info->skips > 0)
        cli_show_number(out, "skips", info->skips);
    cli_show_time(out, "updated at", info->updated_at_us);
}

void cli_subs_table_init(cli_table *table, cli_out *out)
{
    static const cli_column columns[] = {
        {"subscription", CLI_CYAN, false, false, 0},
        {"state", CLI_PLAIN, false, true, 0},
        {"at", CLI_PLAIN, true, true, 0},
        {"lag", CLI_PLAIN, true, true, 0},
        {"dead", CLI_PLAIN, true, true, 0},
        {"pattern", CLI_PLAIN, false, false, 0},
        {"owner", CLI_DIM, false, false, 0},
    };

    cli_table_init(table, out, columns, sizeof columns / sizeof *columns, ROWS_HELD);
}

void cli_subs_table_row(cli_table *table, const howdah_subscription_info *info)
{
    char at[24];
    char lag[24];
    char dead[24];
    char what[600];

    (void)snprintf(what, sizeof what, "%s%s%s%s", info->pattern ? info->pattern : "(all)",
                   info->stream ? " in " : "", info->stream ? info->stream : "",
                   info->originals_only ? ", originals" : "");
    (void)snprintf(at, sizeof at, "%" PRId64, info->high);
    (void)snprintf(lag, sizeof lag, "%" PRId64, info->lag);
    (void)snprintf(dead, sizeof dead, "%" PRId64, info->dead_letters);
    cli_table_row(table,
                  (hw_str[]){hw_str_of(info->subscriber_id), hw_str_of(cli_sub_state(info->state)),
                             hw_str_of(at), hw_str_of(lag), hw_str_of(dead), hw_str_of(what),
                             hw_str_of(info->owner[0] ? info->owner : "-")});
}

/* --------------------------------------------------------------- positions */

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
        return hw_fail_field(reterr, HOWDAH_INVALID, option,
                             "wanted start, end, or a sequence, 0 or more, not these %zu bytes",
                             strlen(text));
    }
    return HOWDAH_OK;
}
