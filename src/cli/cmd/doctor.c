/* doctor.c - howdah doctor: findings, and what to do about them. */
#include "cli/out/findings.h"

int cmd_doctor(cli_context *cli, int argc, char **argv)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    cli_findings findings = {cli, 0, 0};
    int s = cli_args_words(&cli->args, 0, 0, &err);

    (void)argc;
    (void)argv;
    if (s == HOWDAH_OK)
        s = cli_settings(cli, &err);
    if (s == HOWDAH_OK)
        s = howdah_doctor(cli_store(cli), cli->settings, cli_on_finding, &findings, &err);
    return s < 0 ? cli_fail(cli, &err) : cli_findings_end(&findings);
}
