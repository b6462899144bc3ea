/* verify.c - howdah verify: whether what is stored holds together. */
#include "cli/out/findings.h"

int cmd_verify(cli_context *cli, int argc, char **argv)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    cli_findings findings = {cli, 0, 0};
    int s = cli_args_words(&cli->args, 0, 0, &err);

    (void)argc;
    (void)argv;
    if (s == HOWDAH_OK)
        s = cli_open(cli, &err);
    if (s == HOWDAH_OK)
        s = howdah_verify(cli->bus, cli_on_finding, &findings, &err);
    return s < 0 ? cli_fail(cli, &err) : cli_findings_end(&findings);
}
