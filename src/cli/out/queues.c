/* queues.c - see queues.h. */
#include "cli/out/queues.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cli/out/show.h"
#include "cli/out/subscriptions.h"

#define ROWS_HELD 1000 /* above any number that a person reads as a table */
#define COUNTS_MAX 5   /* of a queue in one row */

/* ------------------------------------------------------------------- queues */

static void age_json(cli_out *out, int64_t ms)
{
    if (ms < 0)
        cli_out_puts(out, ",\"oldest_age_s\":null");
    else
        cli_out_printf(out, ",\"oldest_age_s\":%" PRId64 ".%03d", ms / 1000, (int)(ms % 1000));
}

static void settings_json(cli_out *out, const howdah_queue_options *settings)
{
    howdah_queue_setting_info info = HOWDAH_QUEUE_SETTING_INFO_INIT;

    cli_out_puts(out, ",\"settings\":");
    for (size_t i = 0; howdah_queue_settings_describe(i, &info) == HOWDAH_OK; i++) {
        int64_t value = howdah_queue_options_get(settings, info.key);

        cli_out_printf(out, "%s\"%s\":", i ? "," : "{", info.member);
        if (strcmp(info.unit, "boolean") == 0)
            cli_out_puts(out, value ? "true" : "false");
        else
            cli_out_printf(out, "%" PRId64, value);
    }
    cli_out_puts(out, "}");
}

void cli_queue_json(cli_context *cli, const howdah_queue_info *info)
{
    cli_out *out = &cli->out;

    cli_out_puts(out, "{\"queue\":");
    cli_json_text(cli, info->queue);
    cli_out_printf(out,
                   ",\"pending\":%" PRId64 ",\"processing\":%" PRId64 ",\"scheduled\":%" PRId64
                   ",\"completed\":%" PRId64 ",\"failed\":%" PRId64,
                   info->pending, info->processing, info->scheduled, info->completed, info->failed);
    age_json(out, info->oldest_age_ms);
    cli_out_printf(out, ",\"paused\":%s,\"purged\":%" PRId64 ",\"dead_letters\":%" PRId64,
                   info->paused ? "true" : "false", info->purged, info->dead_letters);
    cli_json_time(cli, "created_at", info->created_at_us);
    settings_json(out, &info->settings);
    cli_out_puts(out, "}");
}

void cli_queue_summary_json(cli_context *cli, const howdah_queue_info *info)
{
    cli_out *out = &cli->out;

    cli_out_puts(out, "{\"queue\":");
    cli_json_text(cli, info->queue);
    cli_out_printf(out,
                   ",\"pending\":%" PRId64 ",\"processing\":%" PRId64 ",\"scheduled\":%" PRId64,
                   info->pending, info->processing, info->scheduled);
    age_json(out, info->oldest_age_ms);
    cli_out_printf(out, ",\"paused\":%s,\"dead_letters\":%" PRId64 "}",
                   info->paused ? "true" : "false", info->dead_letters);
}

/* 90 ms, 1.5 s, 3 m, 2 h. */
static void duration_text(int64_t ms, char *out, size_t room)
{
    if (ms < 1000)
        (void)snprintf(out, room, "%" PRId64 " ms", ms);
    else if (ms < 60000)
        (void)snprintf(out, room, "%" PRId64 ".%d s", ms / 1000, (int)(ms % 1000 / 100));
    else if (ms < 3600000)
        (void)snprintf(out, room, "%" PRId64 " m", ms / 60000);
    else
        (void)snprintf(out, room, "%" PRId64 " h", ms / 3600000);
}

static void show_age(cli_out *out, const char *name, int64_t ms)
{
    char text[32];

    duration_text(ms, text, sizeof text);
    cli_show_text(out, name, hw_str_of(text));
}

/* To the millisecond: 90s, 1500ms. */
static void exact_duration_text(int64_t ms, char *out, size_t room)
{
    static const struct {
        int64_t ms;
        const char *name;
    } units[] = {{3600000, "h"}, {60000, "m"}, {1000, "s"}, {1, "ms"}};
    size_t i = ms == 0 ? 2 : 0;

    while (ms % units[i].ms != 0)
        i++;
    (void)snprintf(out, room, "%" PRId64 "%s", ms / units[i].ms, units[i].name);
}

/* As "queue set" takes it, and what 0 means. */
static void show_setting(cli_out *out, const howdah_queue_setting_info *info, int64_t value)
{
    char text[32];
    char line[96];

    if (strcmp(info->unit, "duration") == 0)
        exact_duration_text(value, text, sizeof text);
    else if (strcmp(info->unit, "boolean") == 0)
        (void)snprintf(text, sizeof text, "%s", value ? "true" : "false");
    else
        (void)snprintf(text, sizeof text, "%" PRId64, value);
    if (value == 0 && *info->zero)
        (void)snprintf(line, sizeof line, "%s (%s)", text, info->zero);
    else
        (void)snprintf(line, sizeof line, "%s", text);
    cli_show_text(out, info->key, hw_str_of(line));
}

static void show_settings(cli_out *out, const howdah_queue_options *settings)
{
    howdah_queue_setting_info info = HOWDAH_QUEUE_SETTING_INFO_INIT;

    for (size_t i = 0; howdah_queue_settings_describe(i, &info) == HOWDAH_OK; i++)
        show_setting(out, &info, howdah_queue_options_get(settings, info.key));
}

void cli_queue_show(cli_context *cli, const howdah_queue_info *info)
{
    cli_out *out = &cli->out;

    cli_show_text(out, "queue", hw_str_of(info->queue));
    cli_show_text(out, "state", hw_str_of(info->paused ? "paused" : "open"));
    cli_show_number(out, "pending", info->pending);
    cli_show_number(out, "processing", info->processing);
    cli_show_number(out, "scheduled", info->scheduled);
    cli_show_number(out, "completed", info->completed);
    cli_show_number(out, "failed", info->failed);
    if (info->purged > 0)
        cli_show_number(out, "purged", info->purged);
    cli_show_number(out, "dead letters", info->dead_letters);
    if (info->oldest_age_ms >= 0)
        show_age(out, "oldest", info->oldest_age_ms);
    cli_show_time(out, "created at", info->created_at_us);
    show_settings(out, &info->settings);
}

void cli_queues_table_init(cli_table *table, cli_out *out)
{
    static const cli_column columns[] = {
        {"queue", CLI_CYAN, false, false, 0},    {"state", CLI_PLAIN, false, true, 0},
        {"pending", CLI_PLAIN, true, true, 0},   {"processing", CLI_PLAIN, true, true, 0},
        {"scheduled", CLI_PLAIN, true, true, 0}, {"completed", CLI_PLAIN, true, true, 0},
        {"failed", CLI_PLAIN, true, true, 0},    {"oldest", CLI_DIM, true, true, 0},
    };

    cli_table_init(table, out, columns, sizeof columns / sizeof *columns, ROWS_HELD);
}

/* A row: the name, open or paused, counts, the age of what is due longest. */
static void put_row(cli_table *table, const howdah_queue_info *info, const int64_t *counts,
                    size_t n)
{
    char numbers[COUNTS_MAX][24];
    char age[32] = "-";
    hw_str cells[COUNTS_MAX + 3] = {hw_str_of(info->queue),
                                    hw_str_of(info->paused ? "paused" : "open")};

    for (size_t i = 0; i < n; i++) {
        (void)snprintf(numbers[i], sizeof numbers[i], "%" PRId64, counts[i]);
        cells[2 + i] = hw_str_of(numbers[i]);
    }
    if (info->oldest_age_ms >= 0)
        duration_text(info->oldest_age_ms, age, sizeof age);
    cells[2 + n] = hw_str_of(age);
    cli_table_row(table, cells);
}

void cli_queues_table_row(cli_table *table, const howdah_queue_info *info)
{
    const int64_t counts[] = {info->pending, info->processing, info->scheduled, info->completed,
                              info->failed};

    put_row(table, info, counts, sizeof counts / sizeof *counts);
}

void cli_queues_summary_init(cli_table *table, cli_out *out)
{
    static const cli_column columns[] = {
        {"queue", CLI_CYAN, false, false, 0},    {"state", CLI_PLAIN, false, true, 0},
        {"pending", CLI_PLAIN, true, true, 0},   {"processing", CLI_PLAIN, true, true, 0},
        {"scheduled", CLI_PLAIN, true, true, 0}, {"dead", CLI_PLAIN, true, true, 0},
        {"oldest", CLI_DIM, true, true, 0},
    };

    cli_table_init(table, out, columns, sizeof columns / sizeof *columns, ROWS_HELD);
}

void cli_queues_summary_row(cli_table *table, const howdah_queue_info *info)
{
    const int64_t counts[] = {info->pending, info->processing, info->scheduled, info->dead_letters};

    put_row(table, info, counts, sizeof counts / sizeof *counts);
}

/* --------------------------------------------------------------------- jobs */

int cli_job_json_line(cli_context *cli, const howdah_job *job, howdah_error *reterr)
{
    size_t len = howdah_job_json(job, NULL, 0);
    char *text = hw_alloc(len + 1);

    if (!text || len == 0) {
        hw_free(text);
        return hw_fail_no_memory(reterr);
    }
    (void)howdah_job_json(job, text, len + 1);
    cli_out_put(&cli->out, text, len);
    cli_out_puts(&cli->out, "\n");
    hw_free(text);
    return HOWDAH_OK;
}

static void show_time(cli_out *out, const char *name, const howdah_job *job,
                      bool (*get)(const howdah_job *job, int64_t *ret_us))
{
    int64_t time_us = 0;

    if (get(job, &time_us))
        cli_show_time(out, name, time_us);
}

static void show_payload(cli_out *out, const howdah_job *job)
{
    size_t len = 0;
    const char *text = howdah_job_headers(job, &len);

    if (len > 2) /* more than {} */
        cli_show_text(out, "headers", (hw_str){text, len});
    cli_show_text(out, "content type", hw_str_of(howdah_job_content_type(job)));
    text = howdah_job_data(job, &len);
    cli_show_text(out, "data", (hw_str){text, len});
}

static void show_names(cli_out *out, const howdah_job *job)
{
    char uuid[HOWDAH_UUID_SIZE];

    cli_show_text(out, "key", hw_str_of(howdah_job_key(job)));
    cli_show_text(out, "dedup", hw_str_of(howdah_job_dedup(job)));
    cli_show_text(out, "correlation", hw_str_of(howdah_job_correlation(job)));
    if (howdah_job_causation(job, uuid))
        cli_show_text(out, "causation", hw_str_of(uuid));
    if (howdah_job_event_sequence(job) > 0)
        cli_show_number(out, "event", howdah_job_event_sequence(job));
}

void cli_job_show_pushed(cli_out *out, const howdah_job *job)
{
    cli_show_number(out, "priority", howdah_job_priority(job));
    show_names(out, job);
    cli_show_text(out, "type", hw_str_of(howdah_job_event_type(job)));
    cli_show_text(out, "stream", hw_str_of(howdah_job_event_stream(job)));
    show_time(out, "pushed at", job, howdah_job_created_at);
    show_payload(out, job);
}

static void show_job(cli_out *out, const howdah_job *job)
{
    cli_show_number(out, "job", howdah_job_id(job));
    cli_show_text(out, "queue", hw_str_of(howdah_job_queue(job)));
    cli_show_text(out, "status", hw_str_of(howdah_job_state_name(howdah_job_get_state(job))));
    cli_show_number(out, "attempts", howdah_job_attempt(job));
    cli_show_number(out, "max attempts", howdah_job_max_attempts(job));
    cli_show_number(out, "priority", howdah_job_priority(job));
    cli_show_text(out, "worker", hw_str_of(howdah_job_worker(job)));
    show_names(out, job);
    show_time(out, "created at", job, howdah_job_created_at);
    show_time(out, "due at", job, howdah_job_due_at);
    show_time(out, "started at", job, howdah_job_started_at);
    show_time(out, "lease until", job, howdah_job_lease_until);
    show_time(out, "finished at", job, howdah_job_finished_at);
    cli_show_text(out, "error", hw_str_of(howdah_job_error(job)));
    cli_show_text(out, "result", hw_str_of(howdah_job_result(job)));
    show_payload(out, job);
}

int cli_job_put(cli_context *cli, const howdah_job *job, howdah_error *reterr)
{
    if (cli->out.json)
        return cli_job_json_line(cli, job, reterr);
    show_job(&cli->out, job);
    return HOWDAH_OK;
}

void cli_jobs_table_init(cli_table *table, cli_out *out)
{
    static const cli_column columns[] = {
        {"position", CLI_DIM, true, true, 0},     {"job", CLI_PLAIN, true, true, 0},
        {"status", CLI_PLAIN, false, true, 0},    {"attempts", CLI_PLAIN, true, true, 0},
        {"finished at", CLI_DIM, false, true, 0}, {"error or result", CLI_PLAIN, false, false, 0},
    };

    cli_table_init(table, out, columns, sizeof columns / sizeof *columns, ROWS_HELD);
}

void cli_jobs_table_row(cli_table *table, const howdah_job *job)
{
    char position[24];
    char id[24];
    char attempts[24];
    char finished[HOWDAH_TIME_SIZE] = "";
    const char *words = howdah_job_error(job);
    int64_t time_us = 0;

    (void)snprintf(position, sizeof position, "%" PRId64, howdah_job_position(job));
    (void)snprintf(id, sizeof id, "%" PRId64, howdah_job_id(job));
    (void)snprintf(attempts, sizeof attempts, "%" PRId64, howdah_job_attempt(job));
    if (howdah_job_finished_at(job, &time_us))
        howdah_time_format(time_us, finished);
    if (howdah_job_get_state(job) == HOWDAH_JOB_COMPLETED)
        words = howdah_job_result(job);
    cli_table_row(table, (hw_str[]){hw_str_of(position), hw_str_of(id),
                                    hw_str_of(howdah_job_state_name(howdah_job_get_state(job))),
                                    hw_str_of(attempts), hw_str_of(finished),
                                    hw_str_of(words ? words : "")});
}
