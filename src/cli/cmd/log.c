/*
 * log.c - howdah log: the jobs of a queue that have ended.
 *
 * Positions are those of the history: a script goes on with --after the last one that it has seen.
 */
#include <assert.h>

#include "cli/out/fields.h"
#include "cli/out/jobs.h"
#include "face/queues.h"

typedef struct listing {
    cli_context *cli;
    cli_table table;
    size_t n;
    int s; /* of the last job: it could not be printed */
    howdah_error *reterr;
} listing;

/* A job that cannot be printed ends the walk; its error is kept for the end. */
static int on_logged(void *ctx, const howdah_job *job)
{
    listing *l = ctx;

    l->n++;
    if (l->cli->out.json)
        l->s = cli_job_json_line(l->cli, job, l->reterr);
    else
        cli_fields_row(&l->table, face_job.fields, face_job.table, job);
    return l->s < 0 || !cli_out_alive(&l->cli->out);
}

/* The choices of --status are in the order of states[]. */
static int parse(const cli_args *args, howdah_queue_history_options *o, howdah_error *reterr)
{
    static const howdah_job_state states[] = {HOWDAH_JOB_COMPLETED, HOWDAH_JOB_FAILED};
    int place = -1;
    int s = cli_args_words(args, 1, 1, reterr);

    if (s == HOWDAH_OK)
        s = cli_args_choice(args, "status", &place, reterr);
    if (s == HOWDAH_OK)
        s = cli_args_number(args, "limit", 1, INT64_MAX, &o->limit, reterr);
    if (s == HOWDAH_OK)
        s = cli_args_number(args, "after", 0, INT64_MAX, &o->after, reterr);
    assert(place < (int)(sizeof states / sizeof *states));
    if (place >= 0)
        o->status = states[place];
    o->backward = cli_args_has(args, "backward");
    o->payload = cli_args_has(args, "payload");
    return s;
}

/* Without --status: "no job"; with it: "no such job".  The others may well exist. */
static int run(cli_context *cli, howdah_error *reterr)
{
    howdah_queue_history_options o = HOWDAH_QUEUE_HISTORY_OPTIONS_INIT;
    listing l = {.cli = cli, .reterr = reterr};
    int s = parse(&cli->args, &o, reterr);

    if (s == HOWDAH_OK)
        s = cli_open(cli, reterr);
    if (s < 0)
        return s;
    cli_entity_table(&l.table, &cli->out, &face_job); /* in the order in which they ended */
    s = howdah_queue_history_walk(cli->bus, cli->args.words[1], &o, on_logged, &l, reterr);
    cli_table_flush(&l.table);
    cli_table_done(&l.table);
    if (s >= 0 && l.s >= 0 && l.n == 0 && !cli->out.json)
        cli_note(cli, "no %sjob of %s has ended", o.status == HOWDAH_ABSENT ? "" : "such ",
                 cli->args.words[1]);
    return s < 0 ? s : l.s;
}

int cmd_log(cli_context *cli, int argc, char **argv)
{
    howdah_error err = HOWDAH_ERROR_INIT;

    (void)argc;
    (void)argv;
    return run(cli, &err) < 0 ? cli_fail(cli, &err) : 0;
}
