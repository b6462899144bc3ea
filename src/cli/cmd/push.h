/* push.h - what the forms of "howdah push" share. */
#ifndef HW_CLI_CMD_PUSH_H
#define HW_CLI_CMD_PUSH_H

#include "base/buf.h"
#include "base/str.h"
#include "cli/cli.h"

/* A job with the memory of its texts. */
typedef struct cli_job {
    howdah_new_job job;
    hw_buf data;
    hw_buf headers;
    hw_buf names; /* key, dedup, ... one after the other */
} cli_job;

void cli_job_init(cli_job *job, size_t payload_max);
void cli_job_done(cli_job *job);
/* Fields of "from", as if this job had been given them: texts stay from's. */
void cli_job_inherit(cli_job *job, const howdah_new_job *from);

/*
 * Fills a job from a JSON line: data or data_base64 and content_type, headers, delay, run_at,
 * priority, max_attempts, key, dedup, correlation_id, causation_id.  What it does not name stays.
 * Errors: INVALID, LIMIT, with the field's name.
 */
int cli_job_parse(cli_job *job, hw_str line, size_t payload_max, howdah_error *reterr);

/* {"id":12,"queue":"mail"} and a line end. */
void cli_pushed_json(cli_context *cli, const char *queue, const howdah_pushed *pushed);

/* howdah push QUEUE --batch: a status. */
int cli_push_batch(cli_context *cli, const char *queue, const howdah_new_job *defaults,
                   howdah_error *reterr);

#endif
