/*
 * status.c - howdah status: facts about the bus, its subscriptions and its queues.
 *
 * JSON comes from face/status.h.  Here is what a terminal shows: facts and sums, then two tables,
 * whose rows are held until then.
 */
#include "face/status.h"
#include "cli/cli.h"
#include "cli/out/fields.h"
#include "face/queues.h"
#include "face/subscriptions.h"

typedef struct printer {
    cli_out *out;
    cli_table subs;
    cli_table queues;
    face_status_sums sums;
} printer;

/* Wider than "show": the keys of facts are longer than labels. */
static void line(cli_out *out, const char *key, const char *value)
{
    cli_out_style(out, CLI_BOLD);
    cli_out_printf(out, "%-22s", key);
    cli_out_style(out, CLI_PLAIN);
    cli_out_printf(out, "%s\n", value);
}

static void on_fact(void *ctx, const howdah_fact *fact)
{
    printer *p = ctx;

    line(p->out, fact->key, fact->value ? fact->value : "-");
}

static void on_subscription(void *ctx, const howdah_subscription_info *info)
{
    printer *p = ctx;

    cli_fields_row(&p->subs, face_subscription.fields, face_subscription.table, info);
}

static void on_queue(void *ctx, const howdah_queue_info *info)
{
    printer *p = ctx;

    cli_fields_row(&p->queues, face_queue_summary.fields, face_queue_summary.table, info);
}

static void sum_text(printer *p, const char *name, int64_t sum)
{
    char count[CLI_COUNT_SIZE];

    cli_count_text(sum, count);
    line(p->out, name, count);
}

/* Skips are shown only when there are some: they mean that events may have been lost. */
static void sum_up(printer *p)
{
    const face_status_sums *sums = &p->sums;

    if (sums->subscriptions != HOWDAH_ABSENT || sums->queues != HOWDAH_ABSENT)
        sum_text(p, "dead_letters", sums->dead_letters);
    if (sums->skips > 0)
        sum_text(p, "skips", sums->skips);
    cli_out_puts(p->out, sums->subscriptions > 0 ? "\n" : "");
    cli_table_flush(&p->subs);
    cli_out_puts(p->out, sums->queues > 0 ? "\n" : "");
    cli_table_flush(&p->queues);
}

static int show(cli_context *cli, howdah_error *reterr)
{
    printer p = {.out = &cli->out};
    const face_status_look look = {on_fact, NULL, on_subscription, on_queue, &p, &p.sums};
    int s;

    cli_entity_table(&p.subs, &cli->out, &face_subscription);
    cli_entity_table(&p.queues, &cli->out, &face_queue_summary);
    s = face_status_walk(cli->bus, &look, reterr);
    if (s >= 0 && p.sums.facts > 0)
        sum_up(&p);
    cli_table_done(&p.subs);
    cli_table_done(&p.queues);
    return s;
}

typedef struct sender {
    cli_out *out;
    bool begun;
} sender;

/* The buffer is that of the output: it is printed, and empty again. */
static void send_json(void *ctx, hw_buf *json)
{
    sender *to = ctx;

    to->begun = true;
    cli_out_json_put(to->out);
    hw_buf_clear(json);
}

/* One object; without a fact there is none, and no line either. */
static int print(cli_context *cli, howdah_error *reterr)
{
    sender to = {.out = &cli->out};
    int s = face_status_json(cli->bus, cli_out_json(&cli->out), send_json, &to, reterr);

    cli_out_puts(&cli->out, to.begun ? "\n" : "");
    return s;
}

/* An error half way is told on stderr. */
int cmd_status(cli_context *cli, int argc, char **argv)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    int s = cli_args_words(&cli->args, 0, 0, &err);

    (void)argc;
    (void)argv;
    if (s == HOWDAH_OK)
        s = cli_open(cli, &err);
    if (s == HOWDAH_OK)
        s = cli->out.json ? print(cli, &err) : show(cli, &err);
    return s < 0 ? cli_fail(cli, &err) : 0;
}
