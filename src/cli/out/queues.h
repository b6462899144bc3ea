/* queues.h - queues and jobs on stdout: as JSON, as rows, as fields. */
#ifndef HW_CLI_OUT_QUEUES_H
#define HW_CLI_OUT_QUEUES_H

#include "cli/cli.h"
#include "cli/out/table.h"

/* One object, without a line break. */
void cli_queue_json(cli_context *cli, const howdah_queue_info *info);
/* All about one, a line a field. */
void cli_queue_show(cli_context *cli, const howdah_queue_info *info);
void cli_queues_table_init(cli_table *table, cli_out *out);
void cli_queues_table_row(cli_table *table, const howdah_queue_info *info);

/* The same of howdah_queue_summaries_walk(): without the counts of history. */
void cli_queue_summary_json(cli_context *cli, const howdah_queue_info *info);
void cli_queues_summary_init(cli_table *table, cli_out *out);
void cli_queues_summary_row(cli_table *table, const howdah_queue_info *info);

/* In a pipe one line of JSON, in a terminal a line a field.  NO_MEMORY. */
int cli_job_put(cli_context *cli, const howdah_job *job, howdah_error *reterr);
/* How it was pushed, a line a field: key, event, payload. */
void cli_job_show_pushed(cli_out *out, const howdah_job *job);
/* One line of JSON. */
int cli_job_json_line(cli_context *cli, const howdah_job *job, howdah_error *reterr);
void cli_jobs_table_init(cli_table *table, cli_out *out);
void cli_jobs_table_row(cli_table *table, const howdah_job *job);

#endif
