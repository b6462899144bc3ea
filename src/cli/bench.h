/* bench.h - howdah bench. */
#ifndef HW_CLI_BENCH_H
#define HW_CLI_BENCH_H

#include "cli/cli.h"

int cmd_bench(cli_context *cli, int argc, char **argv);

#endif
