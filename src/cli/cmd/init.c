/* init.c - howdah init: create the schema or bring it up to date. */
#include "cli/cmd/migrate.h"

int cmd_init(cli_context *cli, int argc, char **argv)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    int s = cli_args_words(&cli->args, 0, 0, &err);

    (void)argc;
    (void)argv;
    if (s == HOWDAH_OK)
        s = cli_migrate_up(cli, &err);
    return s < 0 ? cli_fail(cli, &err) : 0;
}
