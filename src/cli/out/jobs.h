/* jobs.h - jobs on stdout: as JSON, as rows, as fields. */
#ifndef HW_CLI_OUT_JOBS_H
#define HW_CLI_OUT_JOBS_H

#include "cli/cli.h"

/* In a pipe one line of JSON, in a terminal a line a field.  NO_MEMORY. */
int cli_job_put(cli_context *cli, const howdah_job *job, howdah_error *reterr);
/* One line of JSON. */
int cli_job_json_line(cli_context *cli, const howdah_job *job, howdah_error *reterr);

#endif
