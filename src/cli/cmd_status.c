/* cmd_status.c - howdah status: facts about the bus. */
#include <string.h>

#include "base/str.h"
#include "cli/cli.h"

typedef struct printer {
    cli_context *cli;
    bool begun;
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

static int on_fact(void *ctx, const howdah_fact *fact)
{
    printer *p = ctx;

    if (p->cli->out.json) {
        fact_json(p, fact);
    } else {
        cli_out_style(&p->cli->out, CLI_BOLD);
        cli_out_printf(&p->cli->out, "%-22s", fact->key);
        cli_out_style(&p->cli->out, CLI_PLAIN);
        cli_out_printf(&p->cli->out, "%s\n", fact->value ? fact->value : "-");
    }
    p->begun = true;
    return 0;
}

int cmd_status(cli_context *cli, int argc, char **argv)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    printer p = {cli, false};
    int s = cli_args_words(&cli->args, 0, 0, &err);

    (void)argc;
    (void)argv;
    if (s == HOWDAH_OK)
        s = cli_open(cli, &err);
    if (s == HOWDAH_OK)
        s = howdah_status_walk(cli->bus, on_fact, &p, &err);
    if (p.begun && cli->out.json)
        cli_out_puts(&cli->out, "}\n");
    return s < 0 ? cli_fail(cli, &err) : 0;
}
