/*
 * work.c - howdah work: a worker whose handler runs a command.
 *
 *   I1  Exit code 0 is done, 75 (EX_TEMPFAIL) asks for another try, anything else is a failure.  A
 *       command that was ended because we leave is neither: its job is given back, uncounted.
 *   I2  Handlers run in threads, also with a concurrency of one: leases are extended meanwhile.
 *       What they share (the live line, notes) is guarded by one lock; nothing is run under it.
 *   I3  SIGTERM and Ctrl-C: nothing more is claimed, what was not begun is given back, commands
 *       that run may end within --drain; after that they are ended.
 *   I4  With --exec-lines each handler that runs has a command of its own, which stays: it gets a
 *       job as a line and answers with one.  One that ends, or is not heard of in time, is started
 *       anew for the next job.
 */
#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "base/clock.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/in/answers.h"
#include "cli/in/exec.h"
#include "cli/in/signals.h"
#include "cli/out/live.h"
#include "cli/out/table.h"

#define SLICE_MS 250 /* between two looks at the terminal */
#define CONCURRENCY_MAX CLI_CHILDREN_MAX
#define RESULT_BYTES_MAX ((size_t)64 * 1024)
#define INPUT_BYTES_MAX ((size_t)512 * 1024 * 1024) /* above any job the library can make */
#define DRAIN_MS 30000
#define KILLED_MS 10000 /* above the grace of exec.c */
#define LOOK_MS 20

typedef struct site {
    cli_context *cli;
    howdah_worker_options options;
    const char *exec;
    const char *lines;  /* a command that stays; NULL: exec */
    bool pass_store;    /* to the command, with its password */
    int64_t timeout_ms; /* of a command; 0: none */
    howdah_worker *worker;
    atomic_bool killing; /* commands are to end now */
    atomic_bool broken;  /* a command could not even be started: err says why */
    pthread_mutex_t lock;
    cli_coprocess *idle[CONCURRENCY_MAX]; /* I4: those that nobody has */
    size_t idle_n;
    cli_live live;
    howdah_error err;
} site;

/* ----------------------------------------------------------------- request */

/*
 * Ranges that the library checks as well are checked here first, so that an error names the
 * option.
 */
static int parse_request(const cli_args *args, site *w, howdah_error *reterr)
{
    howdah_worker_options *o = &w->options;
    int s = cli_args_words(args, 1, 1, reterr);

    *o = (howdah_worker_options)HOWDAH_WORKER_OPTIONS_INIT;
    o->threads = 1;
    o->drain_ms = DRAIN_MS;
    if (s < 0)
        return s;
    o->queue = args->words[1];
    o->until_empty = cli_args_has(args, "until-empty");
    w->exec = cli_args_text(args, "exec");
    w->pass_store = cli_args_has(args, "pass-store");
    w->lines = cli_args_text(args, "exec-lines");
    if (w->exec && w->lines)
        return hw_fail(reterr, HOWDAH_MISUSE, "--exec and --exec-lines exclude each other");
    if (w->lines ? !w->lines[0] : !w->exec || !w->exec[0])
        return hw_advise(
            reterr,
            hw_fail(reterr, HOWDAH_MISUSE, "work needs --exec COMMAND or --exec-lines COMMAND"),
            "usage: howdah %s", args->command->usage[0]);
    s = cli_args_number(args, "concurrency", 1, CONCURRENCY_MAX, &o->threads, reterr);
    o->batch = o->threads; /* jobs that take as long as a process does are not claimed early */
    if (s == HOWDAH_OK)
        s = cli_args_number(args, "batch", 1, HOWDAH_JOBS_MAX, &o->batch, reterr);
    if (s == HOWDAH_OK)
        s = cli_args_number(args, "max-attempts", 1, INT16_MAX, &o->max_attempts, reterr);
    if (s == HOWDAH_OK)
        s = cli_args_number(args, "max", 1, INT64_MAX, &o->max_jobs, reterr);
    if (s == HOWDAH_OK)
        s = cli_args_duration(args, "lease", &o->lease_ms, reterr);
    if (s == HOWDAH_OK)
        s = cli_args_duration(args, "drain", &o->drain_ms, reterr);
    if (s == HOWDAH_OK)
        s = cli_args_duration(args, "timeout", &w->timeout_ms, reterr);
    return s;
}

/* ---------------------------------------------------------------- one job */

typedef struct run {
    site *w;
    const howdah_work *work;
} run;

/*
 * Also when the lease is lost: another worker has the job, and two results would be one too many.
 */
static bool give_up(void *ctx)
{
    const run *r = ctx;

    return atomic_load(&r->w->killing) || howdah_work_is_lost(r->work);
}

/* Under the lock: notes of several threads do not run into each other or into the live line. */
static void remark(site *w, const howdah_job *job, const char *message)
{
    (void)pthread_mutex_lock(&w->lock);
    cli_live_clear(&w->live);
    cli_note(w->cli, "job %" PRId64 ", attempt %" PRId64 ": %s", howdah_job_id(job),
             howdah_job_attempt(job), message);
    (void)pthread_mutex_unlock(&w->lock);
}

/* Not the job's fault: the whole command ends, and the job is given back. */
static int end_broken(site *w, const howdah_error *err)
{
    (void)pthread_mutex_lock(&w->lock);
    if (!atomic_exchange(&w->broken, true))
        w->err = *err;
    (void)pthread_mutex_unlock(&w->lock);
    howdah_interrupt(w->cli->bus);
    return HOWDAH_WORK_RELEASE;
}

/* The job as howdah job show prints it, and a line end for commands that read lines. */
static int put_input(const howdah_job *job, hw_buf *input, howdah_error *reterr)
{
    size_t len = howdah_job_json(job, NULL, 0);

    if (!hw_buf_reserve(input, len + 2))
        return hw_buf_check(input, reterr);
    input->len = howdah_job_json(job, input->data, len + 1);
    hw_buf_putc(input, '\n');
    return hw_buf_check(input, reterr);
}

typedef struct variables {
    char id[48];
    char queue[288];
    char attempt[48];
    char max_attempts[48];
    const char *list[5];
} variables;

/* For commands that do not parse JSON. */
static void name_variables(const howdah_job *job, variables *v)
{
    (void)snprintf(v->id, sizeof v->id, "HOWDAH_JOB_ID=%" PRId64, howdah_job_id(job));
    (void)snprintf(v->queue, sizeof v->queue, "HOWDAH_QUEUE=%s", howdah_job_queue(job));
    (void)snprintf(v->attempt, sizeof v->attempt, "HOWDAH_ATTEMPT=%" PRId64,
                   howdah_job_attempt(job));
    (void)snprintf(v->max_attempts, sizeof v->max_attempts, "HOWDAH_MAX_ATTEMPTS=%" PRId64,
                   howdah_job_max_attempts(job));
    assert(strlen(howdah_job_queue(job)) < sizeof v->queue - sizeof "HOWDAH_QUEUE=");
    v->list[0] = v->id;
    v->list[1] = v->queue;
    v->list[2] = v->attempt;
    v->list[3] = v->max_attempts;
    v->list[4] = NULL;
}

/* A NUL would end the text; the line end that echo adds is not part of the result. */
static const char *result_of(hw_buf *output)
{
    for (size_t i = 0; i < output->len; i++)
        if (output->data[i] == '\0')
            output->data[i] = '?';
    while (output->len > 0 && strchr("\r\n", output->data[output->len - 1]))
        output->data[--output->len] = '\0';
    return output->len > 0 ? output->data : NULL;
}

/* I1 */
static int judge(site *w, const howdah_job *job, howdah_work *work, const cli_exec_result *result,
                 hw_buf *output)
{
    if (result->ok)
        return howdah_work_complete(work, result_of(output));
    if (result->gave_up)
        return HOWDAH_WORK_RELEASE;
    remark(w, job, result->message);
    if (result->exit_code == EX_TEMPFAIL)
        return howdah_work_retry(work, HOWDAH_AFTER_BACKOFF, result->message);
    return howdah_work_fail(work, result->message);
}

/*
 * Runs in a thread of the library, several at once: w is shared, everything else is on its stack.
 */
static int on_job(void *ctx, const howdah_job *job, howdah_work *work)
{
    site *w = ctx;
    run r = {w, work};
    hw_buf input = HW_BUF_INIT(INPUT_BYTES_MAX);
    hw_buf output = HW_BUF_INIT(RESULT_BYTES_MAX);
    cli_exec_result result = {.ok = false};
    howdah_error err = HOWDAH_ERROR_INIT;
    variables v;
    int verdict;
    int s;

    if (atomic_load(&w->broken))
        return HOWDAH_WORK_RELEASE;
    name_variables(job, &v);
    s = put_input(job, &input, &err);
    if (s == HOWDAH_OK)
        s = cli_exec(&(cli_exec_options){.command = w->exec,
                                         .input = {hw_buf_str(&input), input.len},
                                         .echo = !w->cli->quiet,
                                         .pass_store = w->pass_store,
                                         .environment = v.list,
                                         .output = &output,
                                         .timeout_ms = w->timeout_ms,
                                         .give_up = give_up,
                                         .ctx = &r},
                     &result, &err);
    verdict = s < 0 ? end_broken(w, &err) : judge(w, job, work, &result, &output);
    hw_buf_done(&input);
    hw_buf_done(&output);
    return verdict;
}

/* ------------------------------------------------- commands that stay (I4) */

/* One that nobody has, or a new one. */
static int get_command(site *w, cli_coprocess **ret_command, howdah_error *reterr)
{
    cli_coprocess *command = NULL;

    (void)pthread_mutex_lock(&w->lock);
    if (w->idle_n > 0)
        command = w->idle[--w->idle_n];
    (void)pthread_mutex_unlock(&w->lock);
    *ret_command = command;
    return command ? HOWDAH_OK
                   : cli_coprocess_start(&(cli_exec_options){.command = w->lines,
                                                             .echo = !w->cli->quiet,
                                                             .pass_store = w->pass_store},
                                         ret_command, reterr);
}

static void put_command(site *w, cli_coprocess *command)
{
    (void)pthread_mutex_lock(&w->lock);
    assert(w->idle_n < CONCURRENCY_MAX);
    w->idle[w->idle_n++] = command;
    (void)pthread_mutex_unlock(&w->lock);
}

static void end_commands(site *w)
{
    char why[CLI_EXEC_MESSAGE_MAX + 1];

    while (w->idle_n > 0)
        cli_coprocess_end(w->idle[--w->idle_n], why);
}

/* A text as it is, anything else as JSON. */
static int complete(howdah_work *work, hw_str raw)
{
    hw_buf text = HW_BUF_INIT(RESULT_BYTES_MAX);
    int verdict;

    if (!raw.s)
        return howdah_work_complete(work, NULL);
    if (hw_json_kind(raw.s, raw.len) == 's')
        hw_json_unescape(raw.s + 1, raw.len - 2, &text);
    else
        hw_buf_put(&text, raw.s, raw.len);
    verdict = howdah_work_complete(work, text.broken ? NULL : hw_buf_str(&text));
    hw_buf_done(&text);
    return verdict;
}

static int judge_said(site *w, const howdah_job *job, howdah_work *work, const cli_said *said)
{
    if (said->ack > 0)
        return complete(work, said->raw_result);
    remark(w, job, said->error);
    return said->final ? howdah_work_fail(work, said->error)
                       : howdah_work_retry(work, HOWDAH_AFTER_BACKOFF, said->error);
}

/* What a command that is not asked again is told, and what becomes of its job. */
static int drop_command(site *w, const howdah_job *job, howdah_work *work, cli_coprocess *command,
                        bool gave_up, bool late)
{
    char why[CLI_EXEC_MESSAGE_MAX + 1];

    cli_coprocess_end(command, why);
    if (gave_up)
        return HOWDAH_WORK_RELEASE;
    if (late)
        (void)snprintf(why, sizeof why, "the command took longer than %lld ms",
                       (long long)w->timeout_ms);
    remark(w, job, why);
    return howdah_work_retry(work, HOWDAH_AFTER_BACKOFF, why);
}

/* Waits for the answer to this job. */
static int hear(site *w, const howdah_job *job, howdah_work *work, cli_coprocess *command)
{
    run r = {w, work};
    int64_t end_ms = w->timeout_ms > 0 ? hw_clock_mono_ms() + w->timeout_ms : INT64_MAX;

    for (;;) {
        howdah_error err = HOWDAH_ERROR_INIT;
        cli_said said;
        hw_str line;
        cli_answer got = cli_coprocess_answer(command, LOOK_MS, &line);
        bool late = hw_clock_mono_ms() >= end_ms;
        int s;

        if (got == CLI_ANSWER_LINE && cli_line_is_empty(line))
            got = CLI_ANSWER_NONE;
        if (got == CLI_ANSWER_ENDED || give_up(&r) || (got == CLI_ANSWER_NONE && late))
            return drop_command(w, job, work, command, give_up(&r), late);
        if (got == CLI_ANSWER_NONE)
            continue;
        s = cli_said_parse(line, &said, &err);
        if (s >= 0 && said.ack != howdah_job_id(job) && said.nack != howdah_job_id(job))
            s = hw_fail(&err, HOWDAH_INVALID,
                        "the command answered for job %" PRId64 ", which it does not have",
                        said.ack > 0 ? said.ack : said.nack);
        if (s < 0) {
            (void)drop_command(w, job, work, command, true, false);
            return end_broken(w, &err);
        }
        s = judge_said(w, job, work, &said);
        put_command(w, command);
        return s;
    }
}

static int on_job_by_line(void *ctx, const howdah_job *job, howdah_work *work)
{
    site *w = ctx;
    hw_buf input = HW_BUF_INIT(INPUT_BYTES_MAX);
    howdah_error err = HOWDAH_ERROR_INIT;
    cli_coprocess *command = NULL;
    int s;

    if (atomic_load(&w->broken))
        return HOWDAH_WORK_RELEASE;
    s = put_input(job, &input, &err);
    if (s >= 0)
        s = get_command(w, &command, &err);
    if (s >= 0)
        s = cli_coprocess_send(command, (hw_str){hw_buf_str(&input), input.len}, &err);
    hw_buf_done(&input);
    return s < 0 ? end_broken(w, &err) : hear(w, job, work, command);
}

/* ------------------------------------------------------------------ working */

static void on_log(void *ctx, int level, const char *message)
{
    site *w = ctx;

    /* ERROR: a binding is halted, and no event becomes a job any more. */
    if (level < HOWDAH_LOG_WARN)
        return;
    (void)pthread_mutex_lock(&w->lock);
    cli_live_clear(&w->live);
    cli_note(w->cli, "%s", message);
    (void)pthread_mutex_unlock(&w->lock);
}

/* Taken from the library's counts, not counted here: handlers run in many threads. */
static void update_live(site *w)
{
    howdah_worker_info i = HOWDAH_WORKER_INFO_INIT;
    char text[512];
    char done[CLI_COUNT_SIZE];
    char rate[CLI_COUNT_SIZE];

    howdah_worker_info_get(w->worker, &i);
    (void)pthread_mutex_lock(&w->lock);
    if (cli_live_due(&w->live, i.completed + i.failed)) {
        cli_count_text(i.completed, done);
        cli_count_text(w->live.rate, rate);
        (void)snprintf(text, sizeof text,
                       "%.*s  %s%s done  %" PRId64 " failed  %" PRId64 " retried  %" PRId64
                       " running  %s/s",
                       (int)cli_text_fit(w->options.queue, w->cli->out.width / 3), w->options.queue,
                       i.paused ? "paused  " : "", done, i.failed, i.retried, i.running, rate);
        cli_live_draw(&w->live, text);
    }
    (void)pthread_mutex_unlock(&w->lock);
}

/* In slices only when there is a live line to draw; else one call until it ends. */
static int work(site *w, howdah_error *reterr)
{
    int s;

    do {
        s = howdah_worker_run(w->worker, w->live.wanted ? SLICE_MS : -1, reterr);
        update_live(w);
    } while (s == HOWDAH_OK);
    return s < 0 ? s : HOWDAH_OK;
}

/* After the commands were told to end, which they do, soon: their jobs are given back. */
static int stop_killed(site *w, howdah_error *reterr)
{
    int64_t until_ms = hw_clock_mono_ms() + KILLED_MS;
    int s = HOWDAH_TIMEOUT;

    while (s == HOWDAH_TIMEOUT && hw_clock_mono_ms() < until_ms) {
        hw_clock_sleep_ms(LOOK_MS);
        s = howdah_worker_stop(w->worker, reterr);
    }
    return s;
}

/* I3; however it ended, what was done is stored.  s is how it ended. */
static int stop(site *w, int s, howdah_error *reterr)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    int stopped;

    assert(w->worker);
    howdah_interrupt_clear(w->cli->bus);
    stopped = howdah_worker_stop(w->worker, &err);
    if (stopped == HOWDAH_TIMEOUT) {
        atomic_store(&w->killing, true);
        stopped = stop_killed(w, &err);
    }
    if (stopped < 0 && (s >= 0 || s == HOWDAH_INTERRUPTED)) {
        *reterr = err;
        return stopped;
    }
    return s;
}

/* --until-empty would wait for ever for a queue that hands out nothing. */
static int check_paused(const site *w, const howdah_worker_info *info, howdah_error *reterr)
{
    int s;

    if (!w->options.until_empty || !info->paused)
        return HOWDAH_OK;
    s = hw_fail(reterr, HOWDAH_FAILED, "queue %s is paused", w->options.queue);
    return hw_advise(reterr, s, "howdah queue resume %.100s", w->options.queue);
}

/* The counts of the whole run, once, at its end. */
static void sum_up(site *w, const howdah_worker_info *i)
{
    cli_out *out = &w->cli->out;

    if (out->json) {
        cli_out_puts(out, "{\"queue\":");
        cli_json_text(out, w->options.queue);
        cli_out_printf(out,
                       ",\"completed\":%" PRId64 ",\"failed\":%" PRId64 ",\"retried\":%" PRId64
                       ",\"released\":%" PRId64 ",\"lost\":%" PRId64 "}\n",
                       i->completed, i->failed, i->retried, i->released, i->lost);
    } else {
        cli_out_printf(out,
                       "%s: %" PRId64 " done, %" PRId64 " failed, %" PRId64
                       " sent back for another "
                       "try\n",
                       w->options.queue, i->completed, i->failed, i->retried);
        if (i->failed > 0)
            cli_note(w->cli, "howdah log %s --status failed shows why", w->options.queue);
    }
}

/* A summary also after a failure, when jobs were claimed: they were worked on. */
static int run_worker(site *w, howdah_error *reterr)
{
    howdah_worker_info info = HOWDAH_WORKER_INFO_INIT;
    int s = howdah_worker_new(w->cli->bus, &w->options, &w->worker, reterr);

    if (s < 0)
        return s;
    if (w->cli->out.err_terminal && !w->cli->out.json)
        cli_note(w->cli, "working on %s of %s; Ctrl-C ends it", w->options.queue,
                 howdah_bus_url(w->cli->bus));
    s = stop(w, work(w, reterr), reterr);
    howdah_worker_info_get(w->worker, &info);
    howdah_worker_free(w->worker);
    cli_live_clear(&w->live);
    if (s >= 0 || s == HOWDAH_INTERRUPTED || info.claimed > 0)
        sum_up(w, &info);
    if (atomic_load(&w->broken)) {
        *reterr = w->err;
        return w->err.status;
    }
    /* SIGTERM is how a service is asked to end, and it did; Ctrl-C is told as everywhere. */
    if (s == HOWDAH_INTERRUPTED && cli_signal_caught() == SIGTERM)
        return HOWDAH_OK;
    return s < 0 ? s : check_paused(w, &info, reterr);
}

int cmd_work(cli_context *cli, int argc, char **argv)
{
    static site w;
    howdah_error err = HOWDAH_ERROR_INIT;
    int s;

    (void)argc;
    (void)argv;
    cli_signals_service();
    w = (site){.cli = cli, .err = HOWDAH_ERROR_INIT};
    s = parse_request(&cli->args, &w, &err);
    if (s == HOWDAH_OK)
        s = cli_open(cli, &err);
    if (s < 0)
        return cli_fail(cli, &err);
    (void)pthread_mutex_init(&w.lock, NULL);
    w.options.handler = w.lines ? on_job_by_line : on_job;
    w.options.ctx = &w;
    cli_live_start(&w.live, cli);
    howdah_log_set(on_log, &w); /* of opening howdah doctor tells */
    s = run_worker(&w, &err);
    end_commands(&w);
    howdah_log_set(NULL, NULL);
    (void)pthread_mutex_destroy(&w.lock);
    return s < 0 ? cli_fail(cli, &err) : 0;
}
