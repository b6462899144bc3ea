/*
 * job.c - howdah job: one job, wherever it is.
 *
 * Its id is unique over all queues, so no queue is named.
 */
#include <inttypes.h>

#include "cli/in/verbs.h"
#include "cli/out/jobs.h"

/* conflict: what to do about a job that is in the wrong state. */
static int advise(int s, const char *conflict, howdah_error *reterr)
{
    if (s == HOWDAH_NOT_FOUND)
        return hw_advise(reterr, s, "howdah log QUEUE lists jobs that have ended");
    return s == HOWDAH_CONFLICT ? hw_advise(reterr, s, "%s", conflict) : s;
}

/* A job is found wherever it is: waiting, under way, or in the history. */
static int show_job(cli_context *cli, int64_t id, howdah_error *reterr)
{
    howdah_job *job = NULL;
    int s = advise(howdah_job_get(cli->bus, id, &job, reterr), "", reterr);

    if (s == HOWDAH_OK)
        s = cli_job_put(cli, job, reterr);
    howdah_job_free(job);
    return s;
}

/* By id alone: the library looks where the job is. */
static int run_show(cli_context *cli, int words_n, char **words, howdah_error *reterr)
{
    int64_t id = 0;
    int s = cli_word_id(words[0], &id, reterr);

    (void)words_n;
    if (s == HOWDAH_OK)
        s = cli_open(cli, reterr);
    return s < 0 ? s : show_job(cli, id, reterr);
}

/* In a pipe the job as it is now, in a terminal a sentence. */
static int answer(cli_context *cli, int64_t id, const char *sentence, howdah_error *reterr)
{
    if (cli->out.json)
        return show_job(cli, id, reterr);
    cli_out_printf(&cli->out, "job %" PRId64 " %s\n", id, sentence);
    return HOWDAH_OK;
}

/* "retry" in the command is "rerun" in the library, where a retry is what a handler asks for. */
static int run_rerun(cli_context *cli, int words_n, char **words, howdah_error *reterr)
{
    int64_t id = 0;
    int s = cli_word_id(words[0], &id, reterr);

    (void)words_n;
    if (s == HOWDAH_OK)
        s = cli_open(cli, reterr);
    if (s == HOWDAH_OK)
        s = advise(howdah_job_rerun(cli->bus, id, reterr),
                   "only a job that waits or has failed can be tried again; howdah push makes "
                   "a new one",
                   reterr);
    return s < 0 ? s : answer(cli, id, "is due now", reterr);
}

/* Only a job that nobody works on: a command that runs cannot be called back. */
static int run_cancel(cli_context *cli, int words_n, char **words, howdah_error *reterr)
{
    int64_t id = 0;
    int s = cli_word_id(words[0], &id, reterr);

    (void)words_n;
    if (s == HOWDAH_OK)
        s = cli_open(cli, reterr);
    if (s == HOWDAH_OK)
        s = advise(howdah_job_cancel(cli->bus, id, cli_args_text(&cli->args, "reason"), reterr),
                   "only a job that waits can be cancelled; howdah job show prints its status",
                   reterr);
    return s < 0 ? s : answer(cli, id, "is cancelled", reterr);
}

int cmd_job(cli_context *cli, int argc, char **argv)
{
    static const cli_verb verbs[] = {
        {"show", "job show ID", "", 1, 1, run_show},
        {"retry", "job retry ID", "", 1, 1, run_rerun},
        {"cancel", "job cancel ID [--reason TEXT]", "reason", 1, 1, run_cancel},
        {NULL, NULL, NULL, 0, 0, NULL},
    };

    (void)argc;
    (void)argv;
    return cli_verbs_run(cli, verbs);
}
