/* bench.c - howdah bench: a place for it. */
#include "cli/bench.h"

int cmd_bench(cli_context *cli, int argc, char **argv)
{
    howdah_error err = HOWDAH_ERROR_INIT;

    (void)argc;
    (void)argv;
    (void)hw_fail(&err, HOWDAH_FAILED, "bench: not built");
    return cli_fail(cli, &err);
}
