/*
 * push_batch.c - howdah push QUEUE --batch: jobs from JSON lines.
 *
 *   I1  Jobs are pushed in the order of their lines, a transaction at a time; a line that cannot be
 *       pushed ends the run, and no line after its transaction is pushed.
 *   I2  Memory holds one transaction, of a bounded number of jobs and bytes.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/cmd/push.h"
#include "cli/in/lines.h"
#include "cli/out/progress.h"
#include "face/job_in.h"

#define LINE_EXTRA_BYTES ((size_t)256 * 1024) /* headers, names and field names of a line */
#define TX_SIZE_DEFAULT 1000
#define TX_BYTES_MAX ((size_t)64 * 1024 * 1024)

typedef struct batch {
    cli_context *cli;
    const char *queue;
    const howdah_new_job *defaults;
    cli_lines lines;
    cli_progress progress;
    size_t payload_max;
    /* The transaction being collected. */
    face_job_in *jobs;
    const howdah_new_job **list;
    howdah_pushed *pushed;
    size_t room;
    size_t n;
    size_t bytes;
    int64_t first_line; /* of it */
    /* What is stored. */
    int64_t stored;
    int64_t existed;
    int64_t stored_line;
} batch;

/* After a transaction nothing of it is held (I2). */
static void drop_jobs(batch *b)
{
    for (size_t i = 0; i < b->n; i++)
        face_job_in_done(&b->jobs[i]);
    b->n = 0;
    b->bytes = 0;
}

/* Also after batch_init() failed half way: what was not made is NULL. */
static void batch_done(batch *b)
{
    drop_jobs(b);
    hw_free(b->jobs);
    hw_free(b->list);
    hw_free(b->pushed);
    cli_lines_done(&b->lines);
}

/*
 * All the room of a transaction is made at the start: a job does not move, so pointers into it
 * hold.
 */
static int batch_init(batch *b, howdah_error *reterr)
{
    int64_t tx_size = TX_SIZE_DEFAULT;
    int s = cli_args_number(&b->cli->args, "tx-size", 1, HOWDAH_JOBS_MAX, &tx_size, reterr);

    b->payload_max = cli_payload_max(b->cli);
    cli_lines_init(&b->lines, STDIN_FILENO, 2 * b->payload_max + LINE_EXTRA_BYTES);
    cli_progress_start(&b->progress, b->cli, "jobs");
    b->room = (size_t)tx_size;
    b->jobs = hw_calloc(b->room, sizeof *b->jobs);
    b->list = hw_calloc(b->room, sizeof *b->list);
    b->pushed = hw_calloc(b->room, sizeof *b->pushed);
    if (s >= 0 && (!b->jobs || !b->list || !b->pushed))
        s = hw_fail_no_memory(reterr);
    if (s >= 0)
        b->pushed[0] = (howdah_pushed)HOWDAH_PUSHED_INIT;
    return s;
}

/* One transaction: either all its lines are pushed, or none. */
static int store(batch *b, howdah_error *reterr)
{
    int s;

    if (b->n == 0)
        return HOWDAH_OK;
    for (size_t i = 0; i < b->n; i++)
        b->list[i] = &b->jobs[i].job;
    s = howdah_queue_push_batch(b->cli->bus, b->queue, b->list, b->n, b->pushed, reterr);
    if (s < 0) {
        hw_error_prefix(reterr, "lines %lld to %lld", (long long)b->first_line,
                        (long long)b->lines.number);
        return s;
    }
    for (size_t i = 0; i < b->n; i++) {
        b->existed += b->pushed[i].existed;
        if (b->cli->out.json)
            cli_pushed_json(b->cli, b->queue, &b->pushed[i]);
    }
    cli_out_flush(&b->cli->out); /* said only of what is stored, and soon */
    b->stored += (int64_t)b->n;
    b->stored_line = b->lines.number;
    drop_jobs(b);
    return HOWDAH_OK;
}

/* The job counts as held before it is parsed, so that it is freed when parsing fails half way. */
static int take_line(batch *b, hw_str line, howdah_error *reterr)
{
    face_job_in *job = &b->jobs[b->n];
    int s;

    assert(b->n < b->room); /* a full transaction was stored */
    if (b->n == 0)
        b->first_line = b->lines.number;
    face_job_in_init(job, b->payload_max);
    job->advice = "howdah push --help lists the fields of a line";
    b->n++;
    face_job_in_inherit(job, b->defaults);
    s = face_job_in_parse(job, line, b->payload_max, reterr);
    if (s < 0) {
        hw_error_prefix(reterr, "line %lld", (long long)b->lines.number);
        return s;
    }
    b->bytes += job->job.data_len + job->job.headers_len;
    return b->n == b->room || b->bytes >= TX_BYTES_MAX ? store(b, reterr) : HOWDAH_OK;
}

/* Blank lines are passed over. */
static int store_all(batch *b, howdah_error *reterr)
{
    for (;;) {
        hw_str line;
        int s = cli_lines_next(&b->lines, &line, reterr);

        if (s == HOWDAH_END)
            return store(b, reterr);
        if (s == HOWDAH_OK && strspn(line.s, " \t\r") != line.len)
            s = take_line(b, line, reterr);
        if (s < 0)
            return s;
        cli_progress_update(&b->progress, b->stored + (int64_t)b->n, 0);
    }
}

/* After an error: up to which line a second run may leave the lines out. */
static void sum_up(const batch *b, int s, const howdah_error *err)
{
    char rate[CLI_COUNT_SIZE];

    if (s < 0) {
        cli_err_printf(&b->cli->out,
                       "howdah: %" PRId64 " jobs are pushed, up to line %" PRId64 "%s\n", b->stored,
                       b->stored_line,
                       err->flags & HOWDAH_OUTCOME_UNKNOWN ? "; those after it may be, too" : "");
    } else if (!b->cli->quiet) {
        cli_count_text(cli_progress_rate(&b->progress, b->stored), rate);
        cli_err_printf(&b->cli->out,
                       "%" PRId64 " jobs, %" PRId64 " of them existed already, %s/s\n", b->stored,
                       b->existed, rate);
    }
}

int cli_push_batch(cli_context *cli, const char *queue, const howdah_new_job *defaults,
                   howdah_error *reterr)
{
    batch b = {.cli = cli, .queue = queue, .defaults = defaults};
    int s = cli_settings(cli, reterr);

    if (s < 0)
        return s;
    s = batch_init(&b, reterr);
    if (s == HOWDAH_OK)
        s = cli_open(cli, reterr);
    if (s == HOWDAH_OK) {
        if (isatty(STDIN_FILENO) == 1)
            cli_note(cli, "reading JSON lines; Ctrl-D ends the input");
        s = store_all(&b, reterr);
        cli_progress_clear(&b.progress);
        sum_up(&b, s, reterr);
    }
    batch_done(&b);
    return s;
}
