/*
 * status.c - howdah status: facts about the bus, its subscriptions and its queues.
 *
 * Meant to be run every few seconds: it takes the summary of queues, which does not count history.
 */
#include <inttypes.h>
#include <string.h>

#include "base/str.h"
#include "cli/cli.h"
#include "cli/out/queues.h"
#include "cli/out/subscriptions.h"

typedef struct printer {
    cli_context *cli;
    bool begun;
    cli_table subs;
    cli_table queues;
    int64_t subs_n;       /* HOWDAH_ABSENT: closed to us, */
    int64_t queues_n;     /* as these */
    int64_t dead_letters; /* of what is open to us */
    int64_t skips;
} printer;

/*
 * Not from a table of fields: which facts there are is the store's to say, and their keys are its
 * own.
 */
static void fact_json(printer *p, const howdah_fact *fact)
{
    cli_out_puts(&p->cli->out, p->begun ? "," : "{");
    cli_json_text(&p->cli->out, fact->key);
    cli_out_puts(&p->cli->out, ":");
    if (!fact->value)
        cli_out_puts(&p->cli->out, "null");
    else if (fact->number)
        cli_out_puts(&p->cli->out, fact->value);
    else
        cli_json_text(&p->cli->out, fact->value);
}

/* Wider than "show": the keys of facts are longer than labels. */
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

/* Rows are held until the facts and sums are printed: the tables come last in a terminal. */
static int on_subscription(void *ctx, const howdah_subscription_info *info)
{
    printer *p = ctx;

    if (p->cli->out.json) {
        cli_out_puts(&p->cli->out, p->subs_n > 0 ? "," : "");
        cli_entity_json(&p->cli->out, &cli_subscription, info, "");
    } else {
        cli_fields_row(&p->subs, cli_subscription.fields, cli_subscription.table, info);
    }
    p->subs_n++;
    p->dead_letters += info->dead_letters;
    p->skips += info->skips;
    return 0;
}

static int on_queue(void *ctx, const howdah_queue_info *info)
{
    printer *p = ctx;

    if (p->cli->out.json) {
        cli_out_puts(&p->cli->out, p->queues_n > 0 ? "," : "");
        cli_entity_json(&p->cli->out, &cli_queue_summary, info, "");
    } else {
        cli_fields_row(&p->queues, cli_queue_summary.fields, cli_queue_summary.table, info);
    }
    p->queues_n++;
    p->dead_letters += info->dead_letters;
    return 0;
}

/* What is closed to somebody who may read the log is left out: that is no failure. */
static int look(printer *p, howdah_error *reterr)
{
    cli_out *out = &p->cli->out;
    int s;

    cli_out_puts(out, out->json ? ",\"subscriptions\":[" : "");
    s = howdah_subscriptions_walk(p->cli->bus, NULL, on_subscription, p, reterr);
    if (s == HOWDAH_DENIED)
        p->subs_n = HOWDAH_ABSENT;
    else if (s < 0)
        return s;
    cli_out_puts(out, out->json ? "],\"queues\":[" : "");
    s = howdah_queue_summaries_walk(p->cli->bus, on_queue, p, reterr);
    if (s == HOWDAH_DENIED)
        p->queues_n = HOWDAH_ABSENT;
    else if (s < 0)
        return s;
    cli_out_puts(out, out->json ? "]" : "");
    return HOWDAH_OK;
}

/* null where this user may not see what would be summed. */
static void sum_json(printer *p, const char *name, bool known, int64_t sum)
{
    if (known)
        cli_out_printf(&p->cli->out, ",\"%s\":%" PRId64, name, sum);
    else
        cli_out_printf(&p->cli->out, ",\"%s\":null", name);
}

static void sum_text(printer *p, const char *name, int64_t sum)
{
    char count[CLI_COUNT_SIZE];

    cli_count_text(sum, count);
    line(&p->cli->out, name, count);
}

/* Skips are shown only when there are some: they mean that events may have been lost. */
static void sum_up(printer *p)
{
    bool subs = p->subs_n != HOWDAH_ABSENT;
    bool queues = p->queues_n != HOWDAH_ABSENT;
    cli_out *out = &p->cli->out;

    if (out->json) {
        sum_json(p, "dead_letters", subs || queues, p->dead_letters);
        sum_json(p, "skips", subs, p->skips);
        return;
    }
    if (subs || queues)
        sum_text(p, "dead_letters", p->dead_letters);
    if (p->skips > 0)
        sum_text(p, "skips", p->skips);
    cli_out_puts(out, p->subs_n > 0 ? "\n" : "");
    cli_table_flush(&p->subs);
    cli_out_puts(out, p->queues_n > 0 ? "\n" : "");
    cli_table_flush(&p->queues);
}

/* One object of facts, subscriptions, queues and sums; an error half way is told on stderr. */
int cmd_status(cli_context *cli, int argc, char **argv)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    printer p = {.cli = cli};
    int s = cli_args_words(&cli->args, 0, 0, &err);

    (void)argc;
    (void)argv;
    cli_entity_table(&p.subs, &cli->out, &cli_subscription);
    cli_entity_table(&p.queues, &cli->out, &cli_queue_summary);
    if (s == HOWDAH_OK)
        s = cli_open(cli, &err);
    if (s == HOWDAH_OK)
        s = howdah_facts_walk(cli->bus, on_fact, &p, &err);
    if (s >= 0 && p.begun)
        s = look(&p, &err);
    if (s >= 0 && p.begun)
        sum_up(&p);
    if (p.begun && cli->out.json)
        cli_out_puts(&cli->out, "}\n");
    cli_table_done(&p.subs);
    cli_table_done(&p.queues);
    return s < 0 ? cli_fail(cli, &err) : 0;
}
