/* bench_report.h - the figures, for people or for programs. */
#ifndef HW_CLI_BENCH_REPORT_H
#define HW_CLI_BENCH_REPORT_H

#include "cli/bench_run.h"

void bench_report(cli_context *cli, const bench_site *site, const bench_result *result);

#endif
