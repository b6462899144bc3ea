/* queues.h - queues and jobs on stdout: as JSON, as rows, as fields. */
#ifndef HW_CLI_OUT_QUEUES_H
#define HW_CLI_OUT_QUEUES_H

#include "cli/cli.h"
#include "cli/out/fields.h"

/* Of a howdah_queue_info. */
extern const cli_entity cli_queue;
/* Of a howdah_queue_info from howdah_queue_summaries_walk(): without the counts of history. */
extern const cli_entity cli_queue_summary;
/* Of a howdah_job: how it was pushed, and the event that it was made of.  It has no table. */
extern const cli_entity cli_job_pushed;

/* In a pipe one line of JSON, in a terminal a line a field.  NO_MEMORY. */
int cli_job_put(cli_context *cli, const howdah_job *job, howdah_error *reterr);
/* One line of JSON. */
int cli_job_json_line(cli_context *cli, const howdah_job *job, howdah_error *reterr);
void cli_jobs_table_init(cli_table *table, cli_out *out);
void cli_jobs_table_row(cli_table *table, const howdah_job *job);

#endif
