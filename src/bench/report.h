/* report.h - the figures, for people or for programs. */
#ifndef HW_BENCH_REPORT_H
#define HW_BENCH_REPORT_H

#include "bench/run.h"

void bench_report(cli_context *cli, const bench_site *site, const bench_result *result);

#endif
