/*
 * push.c - howdah push: jobs into a queue.
 *
 * The options fill one howdah_new_job.  For a single job that is the job; with --batch it has what
 * a line leaves out.
 */
#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/cmd/push.h"
#include "cli/in/payload.h"
#include "face/queues.h"

#define HEADERS_ROOM ((size_t)128 * 1024)

void cli_pushed_json(cli_context *cli, const char *queue, const howdah_pushed *pushed)
{
    face_pushed_json(cli_out_json(&cli->out), queue, pushed);
    cli_out_json_put(&cli->out);
    cli_out_puts(&cli->out, "\n");
}

/*
 * A delay counts from the push, a time is absolute: both at once would contradict each
 * other.
 */
static int take_times(const cli_args *args, howdah_new_job *job, howdah_error *reterr)
{
    const char *run_at = cli_args_text(args, "run-at");
    int s = cli_args_duration(args, "delay", &job->delay_ms, reterr);

    if (s == HOWDAH_OK && run_at && cli_args_has(args, "delay"))
        s = hw_fail(reterr, HOWDAH_MISUSE, "--delay and --run-at exclude each other");
    if (s == HOWDAH_OK && run_at && !hw_time_parse(run_at, strlen(run_at), &job->run_at_us))
        s = hw_fail_field(
            reterr, HOWDAH_INVALID, "run-at",
            "expected a time, like 2026-01-31T09:30:00Z; got something else, %zu bytes long",
            strlen(run_at));
    return s;
}

/* A JSON object is built member by member; take_headers() closes it. */
static int add_header(hw_buf *headers, const char *pair, howdah_error *reterr)
{
    const char *equals = strchr(pair, '=');

    if (!equals)
        return hw_fail(reterr, HOWDAH_MISUSE, "--header needs NAME=VALUE");
    if (!hw_utf8_valid(pair, strlen(pair)))
        return hw_fail_field(reterr, HOWDAH_INVALID, "headers", "name and value must be UTF-8");
    hw_buf_putc(headers, headers->len ? ',' : '{');
    hw_json_put_string(headers, pair, (size_t)(equals - pair));
    hw_buf_putc(headers, ':');
    hw_json_put_string(headers, equals + 1, strlen(equals + 1));
    return HOWDAH_OK;
}

/* Without headers job->headers stays NULL, which means none. */
static int take_headers(const cli_args *args, howdah_new_job *job, hw_buf *headers,
                        howdah_error *reterr)
{
    const char *pair;
    size_t pos = 0;
    int s = HOWDAH_OK;

    while (s == HOWDAH_OK && (pair = cli_args_next(args, "header", &pos)))
        s = add_header(headers, pair, reterr);
    if (s < 0 || headers->len == 0)
        return s;
    assert(headers->data[0] == '{');
    hw_buf_putc(headers, '}');
    if (headers->broken == HOWDAH_LIMIT)
        return hw_fail_field(reterr, HOWDAH_INVALID, "headers", "must be at most 65536 bytes");
    job->headers = hw_buf_str(headers);
    job->headers_len = headers->len;
    return hw_buf_check(headers, reterr);
}

/* Everything but the payload. */
static int take_options(const cli_args *args, howdah_new_job *job, hw_buf *headers,
                        howdah_error *reterr)
{
    int s = take_times(args, job, reterr);

    if (s == HOWDAH_OK)
        s = cli_args_number(args, "priority", INT16_MIN, INT16_MAX, &job->priority, reterr);
    if (s == HOWDAH_OK)
        s = cli_args_number(args, "max-attempts", 0, INT16_MAX, &job->max_attempts, reterr);
    job->key = cli_args_text(args, "key");
    job->dedup = cli_args_text(args, "dedup");
    job->correlation_id = cli_args_text(args, "correlation");
    job->causation_id = cli_args_text(args, "causation");
    return s < 0 ? s : take_headers(args, job, headers, reterr);
}

/* A job that was there already is no failure: that is what --dedup is for. */
static void say_pushed(cli_context *cli, const char *queue, const howdah_pushed *pushed)
{
    if (cli->out.json)
        cli_pushed_json(cli, queue, pushed);
    else
        cli_out_printf(&cli->out, "%s job %" PRId64 "%s\n", queue, pushed->id,
                       pushed->existed ? ", which was there already" : "");
}

/* The payload is read before the store is opened: a slow stdin holds no connection. */
static int push_one(cli_context *cli, const char *queue, const char *word, howdah_new_job *job,
                    howdah_error *reterr)
{
    hw_buf room;
    hw_str data = HW_STR_NULL;
    howdah_pushed pushed = HOWDAH_PUSHED_INIT;
    int s = cli_settings(cli, reterr);

    if (s < 0)
        return s;
    job->content_type = cli_args_text(&cli->args, "bytes");
    if (job->content_type && !word)
        return hw_fail(reterr, HOWDAH_MISUSE, "--bytes needs a payload: -, @FILE or the bytes");
    cli_payload_init(&room, cli_payload_max(cli));
    if (word)
        s = cli_payload_read(word, job->content_type != NULL, cli_payload_max(cli), &room, &data,
                             reterr);
    job->data = data.s;
    job->data_len = data.len;
    if (s == HOWDAH_OK)
        s = cli_open(cli, reterr);
    if (s == HOWDAH_OK)
        s = howdah_queue_push(cli->bus, queue, job, &pushed, reterr);
    if (s == HOWDAH_OK)
        say_pushed(cli, queue, &pushed);
    else if (s < 0 && reterr->flags & HOWDAH_OUTCOME_UNKNOWN)
        (void)hw_advise(reterr, s,
                        "it may have been pushed; a --dedup key makes it safe to repeat");
    hw_buf_done(&room);
    return s;
}

/* Headers live as long as the job that points to them; cmd_push() frees them. */
static int run(cli_context *cli, char **argv, hw_buf *headers, howdah_error *reterr)
{
    howdah_new_job job = HOWDAH_NEW_JOB_INIT;
    bool batch = cli_args_has(&cli->args, "batch");
    int s = cli_args_words(&cli->args, 1, batch ? 1 : 2, reterr);

    if (s == HOWDAH_OK && batch && cli_args_has(&cli->args, "bytes"))
        s = hw_fail(reterr, HOWDAH_MISUSE,
                    "--bytes has no meaning with --batch: data_base64 and content_type are fields "
                    "of each line");
    if (s == HOWDAH_OK && !batch && cli_args_has(&cli->args, "tx-size"))
        s = hw_fail(reterr, HOWDAH_MISUSE, "--tx-size needs --batch");
    if (s == HOWDAH_OK)
        s = take_options(&cli->args, &job, headers, reterr);
    if (s < 0)
        return s;
    return batch ? cli_push_batch(cli, argv[1], &job, reterr)
                 : push_one(cli, argv[1], argv[2], &job, reterr);
}

int cmd_push(cli_context *cli, int argc, char **argv)
{
    hw_buf headers = HW_BUF_INIT(HEADERS_ROOM);
    howdah_error err = HOWDAH_ERROR_INIT;
    int s = run(cli, argv, &headers, &err);

    (void)argc;
    hw_buf_done(&headers);
    return s < 0 ? cli_fail(cli, &err) : 0;
}
