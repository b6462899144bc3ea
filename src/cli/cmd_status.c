/* cmd_status.c - howdah status: facts about the bus, and its subscriptions. */
#include <inttypes.h>
#include <string.h>

#include "base/str.h"
#include "cli/cli.h"
#include "cli/subs.h"

typedef struct printer {
    cli_context *cli;
    bool begun;
    cli_table table; /* of the subscriptions */
    int64_t subscriptions;
    int64_t dead_letters;
    int64_t skips;
} printer;

static void fact_json(printer *p, const howdah_fact *fact)
{
    cli_out_puts(&p->cli->out, p->begun ? "," : "{");
    cli_json_text(p->cli, fact->key);
    cli_out_puts(&p->cli->out, ":");
    if (!fact->value)
        cli_out_puts(&p->cli->out, "null");
    else if (fact->number)
        cli_out_puts(&p->cli->out, fact->value);
    else
        cli_json_text(p->cli, fact->value);
}

static void line(cli_out *out, const char *key, const char *value)
{
    cli_out_style(out, CLI_BOLD);
    cli_out_printf(out, "%-22s", key);
    cli_out_style(out, CLI_PLAIN);
    cli_out_printf(out, "%s\n", value);
}

static int on_fact(void *ctx, const howdah_fact *fact)
{
    printer *p = ctx;

    if (p->cli->out.json)
        fact_json(p, fact);
    else
        line(&p->cli->out, fact->key, fact->value ? fact->value : "-");
    p->begun = true;
    return 0;
}

static int on_subscription(void *ctx, const howdah_subscription_info *info)
{
    printer *p = ctx;

    if (p->cli->out.json) {
        cli_out_puts(&p->cli->out, p->subscriptions > 0 ? "," : "");
        cli_sub_json(p->cli, info);
    } else {
        cli_subs_table_row(&p->table, info);
    }
    p->subscriptions++;
    p->dead_letters += info->dead_letters;
    p->skips += info->skips;
    return 0;
}

static void sums_json(printer *p, bool known)
{
    if (known)
        cli_out_printf(&p->cli->out, "],\"dead_letters\":%" PRId64 ",\"skips\":%" PRId64,
                       p->dead_letters, p->skips);
    else
        cli_out_puts(&p->cli->out, "],\"dead_letters\":null,\"skips\":null");
}

static void sums_text(printer *p)
{
    cli_out *out = &p->cli->out;
    char count[CLI_COUNT_SIZE];

    cli_count_text(p->dead_letters, count);
    line(out, "dead_letters", count);
    if (p->skips > 0) {
        cli_count_text(p->skips, count);
        line(out, "skips", count);
    }
    if (p->subscriptions > 0)
        cli_out_puts(out, "\n");
    cli_table_flush(&p->table);
}

/* The rows of subscriptions may be closed to somebody who may read the log: that is no failure. */
static int print_subscriptions(printer *p, howdah_error *reterr)
{
    cli_out *out = &p->cli->out;
    howdah_error err = HOWDAH_ERROR_INIT;
    int s;

    if (out->json)
        cli_out_puts(out, ",\"subscriptions\":[");
    s = howdah_subscriptions_walk(p->cli->bus, NULL, on_subscription, p, &err);
    if (out->json)
        sums_json(p, s >= 0);
    else if (s >= 0)
        sums_text(p);
    if (s >= 0 || s == HOWDAH_DENIED)
        return HOWDAH_OK;
    hw_error_copy(reterr, &err);
    return s;
}

int cmd_status(cli_context *cli, int argc, char **argv)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    printer p = {.cli = cli};
    int s = cli_args_words(&cli->args, 0, 0, &err);

    (void)argc;
    (void)argv;
    cli_subs_table_init(&p.table, &cli->out);
    if (s == HOWDAH_OK)
        s = cli_open(cli, &err);
    if (s == HOWDAH_OK)
        s = howdah_status_walk(cli->bus, on_fact, &p, &err);
    if (s >= 0 && p.begun)
        s = print_subscriptions(&p, &err);
    if (p.begun && cli->out.json)
        cli_out_puts(&cli->out, "}\n");
    cli_table_done(&p.table);
    return s < 0 ? cli_fail(cli, &err) : 0;
}
