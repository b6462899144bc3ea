/* jobs.c - see jobs.h. */
#include "cli/out/jobs.h"

#include "cli/out/fields.h"
#include "face/queues.h"

/* Only for want of memory it fails; then the command ends with that. */
int cli_job_json_line(cli_context *cli, const howdah_job *job, howdah_error *reterr)
{
    int s = face_job_json(job, cli_out_json(&cli->out), reterr);

    if (s < 0)
        return s;
    cli_out_json_put(&cli->out);
    cli_out_puts(&cli->out, "\n");
    return HOWDAH_OK;
}

int cli_job_put(cli_context *cli, const howdah_job *job, howdah_error *reterr)
{
    if (cli->out.json)
        return cli_job_json_line(cli, job, reterr);
    cli_entity_show(&cli->out, &face_job, job);
    return HOWDAH_OK;
}
