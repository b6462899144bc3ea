/*
 * queues.c - see queues.h.
 *
 * A queue is a public struct, so its fields are read at their offsets.  A job is opaque: a small
 * function gets each field.  A job's JSON is the library's; its fields serve "show", the table of
 * the log, and the part of a dead letter that tells how the job was pushed.
 */
#include "cli/out/queues.h"

#include <assert.h>

#include "base/mem.h"

/* ------------------------------------------------------------------- queues */

/* For people; JSON has "paused" instead. */
static void get_queue_state(const void *thing, cli_value *v)
{
    const howdah_queue_info *info = thing;

    v->text = hw_str_of(info->paused ? "paused" : "open");
}

/* A queue without a due job has no age. */
static void get_oldest(const void *thing, cli_value *v)
{
    const howdah_queue_info *info = thing;

    v->number = info->oldest_age_ms;
    v->absent = info->oldest_age_ms < 0;
}

#define AT(member) CLI_AT(howdah_queue_info, member)

/* One row for each setting of the list.  Its label is the key that "queue set" takes. */
#define KIND_DURATION CLI_DURATION
#define KIND_COUNT CLI_NUMBER
#define KIND_PERCENT CLI_NUMBER
#define KIND_BOOLEAN CLI_BOOL
/* What 0 is shown as; NULL: as any other value. */
#define ZERO_DURATION(zero) (sizeof(zero) > 1 ? "0s (" zero ")" : "0s")
#define ZERO_COUNT(zero) (sizeof(zero) > 1 ? "0 (" zero ")" : NULL)
#define ZERO_PERCENT(zero) NULL
#define ZERO_BOOLEAN(zero) NULL
#define SETTING_NAME(key, member, unit, min, max, def, range, at_zero, help) #member " "
#define SETTING_FIELD(key, member, unit, min, max, def, range, at_zero, help)                      \
    {#member, KIND_##unit, #key, .zero = ZERO_##unit(at_zero), AT(settings.member)},

static const cli_field queue_fields[] = {
    {"queue", CLI_TEXT, .style = CLI_CYAN, AT(queue)},
    {"state", CLI_WORD, .get = get_queue_state},
    {"pending", CLI_NUMBER, AT(pending)},
    {"processing", CLI_NUMBER, AT(processing)},
    {"scheduled", CLI_NUMBER, AT(scheduled)},
    {"completed", CLI_NUMBER, AT(completed)},
    {"failed", CLI_NUMBER, AT(failed)},
    {"oldest_age_s", CLI_AGE, "oldest", .style = CLI_DIM, .blank = "-", .get = get_oldest},
    {"paused", CLI_BOOL, AT(paused)},
    {"purged", CLI_NUMBER, .zero = "", AT(purged)},
    {"dead_letters", CLI_NUMBER, "dead letters", "dead", AT(dead_letters)},
    {"created_at", CLI_TIME, "created at", AT(created_at_us)},
    {"settings", CLI_OBJECT, .members = HOWDAH_QUEUE_SETTING_LIST(SETTING_NAME)},
    HOWDAH_QUEUE_SETTING_LIST(SETTING_FIELD){.name = NULL},
};

const cli_entity cli_queue = {
    queue_fields,
    .json = "queue pending processing scheduled completed failed oldest_age_s paused purged "
            "dead_letters created_at settings",
    .show = "queue state pending processing scheduled completed failed purged dead_letters "
            "oldest_age_s created_at " HOWDAH_QUEUE_SETTING_LIST(SETTING_NAME),
    .table = "queue state pending processing scheduled completed failed oldest_age_s",
};

const cli_entity cli_queue_summary = {
    queue_fields,
    .json = "queue pending processing scheduled oldest_age_s paused dead_letters",
    .table = "queue state pending processing scheduled dead_letters oldest_age_s",
};

/* --------------------------------------------------------------------- jobs */

/* A job is opaque: each of its fields comes from a function of the library. */
#define JOB_TEXT(name, function)                                                                   \
    static void get_##name(const void *thing, cli_value *v)                                        \
    {                                                                                              \
        v->text = hw_str_of(function(thing));                                                      \
    }
#define JOB_NUMBER(name, function)                                                                 \
    static void get_##name(const void *thing, cli_value *v)                                        \
    {                                                                                              \
        v->number = function(thing);                                                               \
    }
#define JOB_TIME(name, function)                                                                   \
    static void get_##name(const void *thing, cli_value *v)                                        \
    {                                                                                              \
        v->absent = !function(thing, &v->number);                                                  \
    }

JOB_NUMBER(id, howdah_job_id)
JOB_NUMBER(position, howdah_job_position)
JOB_NUMBER(attempts, howdah_job_attempt)
JOB_NUMBER(max_attempts, howdah_job_max_attempts)
JOB_NUMBER(priority, howdah_job_priority)
JOB_TEXT(queue, howdah_job_queue)
JOB_TEXT(worker, howdah_job_worker)
JOB_TEXT(key, howdah_job_key)
JOB_TEXT(dedup, howdah_job_dedup)
JOB_TEXT(correlation, howdah_job_correlation)
JOB_TEXT(stream, howdah_job_event_stream)
JOB_TEXT(type, howdah_job_event_type)
JOB_TEXT(error, howdah_job_error)
JOB_TEXT(result, howdah_job_result)
JOB_TEXT(any_content_type, howdah_job_content_type)
JOB_TIME(created_at, howdah_job_created_at)
JOB_TIME(due_at, howdah_job_due_at)
JOB_TIME(started_at, howdah_job_started_at)
JOB_TIME(lease_until, howdah_job_lease_until)
JOB_TIME(finished_at, howdah_job_finished_at)

static void get_status(const void *thing, cli_value *v)
{
    v->text = hw_str_of(howdah_job_state_name(howdah_job_state_get(thing)));
}

/* Only a job that says what caused it. */
static void get_causation(const void *thing, cli_value *v)
{
    if (howdah_job_causation(thing, v->small))
        v->text = hw_str_of(v->small);
}

/* Only a job that a binding made has an event. */
static void get_event_sequence(const void *thing, cli_value *v)
{
    v->number = howdah_job_event_sequence(thing);
    v->absent = v->number <= 0;
}

/* A job without the time of its push does not get a null for it. */
static void get_pushed_at(const void *thing, cli_value *v)
{
    v->left_out = !howdah_job_created_at(thing, &v->number);
}

/* One column for both: a job has either a result or an error. */
static void get_outcome(const void *thing, cli_value *v)
{
    bool completed = howdah_job_state_get(thing) == HOWDAH_JOB_COMPLETED;

    v->text = hw_str_of(completed ? howdah_job_result(thing) : howdah_job_error(thing));
}

/* Left out for bytes, which have "data_base64". */
static void get_data(const void *thing, cli_value *v)
{
    size_t len = 0;
    const char *data = howdah_job_data(thing, &len);

    cli_value_data(v, howdah_job_content_type(thing), data, len);
}

/* In JSON only beside data_base64: payloads of JSON need no type. */
static void get_content_type(const void *thing, cli_value *v)
{
    size_t len = 0;

    cli_value_content_type(v, howdah_job_content_type(thing), howdah_job_data(thing, &len));
}

static void get_base64(const void *thing, cli_value *v)
{
    size_t len = 0;
    const char *data = howdah_job_data(thing, &len);

    cli_value_base64(v, howdah_job_content_type(thing), data, len);
}

/* For people the payload as it is, of whatever type. */
static void get_payload(const void *thing, cli_value *v)
{
    v->text.s = howdah_job_data(thing, &v->text.len);
}

/* In JSON always an object, {} without headers. */
static void get_headers(const void *thing, cli_value *v)
{
    v->text.s = howdah_job_headers(thing, &v->text.len);
}

/* For people: no line when there are none. */
static void get_shown_headers(const void *thing, cli_value *v)
{
    size_t len = 0;
    const char *headers = howdah_job_headers(thing, &len);

    cli_value_headers(v, headers, len);
}

static const cli_field job_fields[] = {
    {"id", CLI_NUMBER, "job", .get = get_id},
    {"position", CLI_NUMBER, .style = CLI_DIM, .get = get_position},
    {"queue", CLI_TEXT, .get = get_queue},
    {"status", CLI_WORD, .get = get_status},
    {"attempts", CLI_NUMBER, .get = get_attempts},
    {"max_attempts", CLI_NUMBER, "max attempts", .get = get_max_attempts},
    {"priority", CLI_NUMBER, .get = get_priority},
    {"worker", CLI_TEXT, .get = get_worker},
    {"key", CLI_TEXT, .get = get_key},
    {"dedup", CLI_TEXT, .get = get_dedup},
    {"correlation_id", CLI_TEXT, "correlation", .get = get_correlation},
    {"causation_id", CLI_TEXT, "causation", .get = get_causation},
    {"event_sequence", CLI_NUMBER, "event", .get = get_event_sequence},
    {"stream", CLI_TEXT, .get = get_stream},
    {"type", CLI_TEXT, .get = get_type},
    {"pushed_at", CLI_TIME, "pushed at", .get = get_pushed_at},
    {"created_at", CLI_TIME, "created at", .get = get_created_at},
    {"due_at", CLI_TIME, "due at", .get = get_due_at},
    {"started_at", CLI_TIME, "started at", .get = get_started_at},
    {"lease_until", CLI_TIME, "lease until", .get = get_lease_until},
    {"finished_at", CLI_TIME, "finished at", .style = CLI_DIM, .get = get_finished_at},
    {"error", CLI_TEXT, .get = get_error},
    {"result", CLI_TEXT, .get = get_result},
    {"outcome", CLI_TEXT, .head = "error or result", .get = get_outcome},
    {"data", CLI_JSON, .get = get_data},
    {"content_type", CLI_TEXT, .get = get_content_type},
    {"data_base64", CLI_JSON, .get = get_base64},
    {"headers", CLI_JSON, .get = get_headers},
    {"shown_headers", CLI_TEXT, "headers", .get = get_shown_headers},
    {"shown_type", CLI_TEXT, "content type", .get = get_any_content_type},
    {"payload", CLI_TEXT, "data", .get = get_payload},
    {.name = NULL},
};

/* Its JSON is the library's: cli_job_json_line(). */
static const cli_entity whole_job = {
    job_fields,
    .show = "id queue status attempts max_attempts priority worker key dedup correlation_id "
            "causation_id event_sequence created_at due_at started_at lease_until finished_at "
            "error result shown_headers shown_type payload",
    .table = "position id status attempts finished_at outcome",
};

/* What a dead letter says about its job; the state of the job itself is not part of it. */
const cli_entity cli_job_pushed = {
    job_fields,
    .json = "key dedup correlation_id causation_id event_sequence stream type pushed_at data "
            "content_type data_base64 headers",
    .show = "priority key dedup correlation_id causation_id event_sequence type stream pushed_at "
            "shown_headers shown_type payload",
};

/* The library makes the JSON, so that the command and every other face print the same. */
int cli_job_json_line(cli_context *cli, const howdah_job *job, howdah_error *reterr)
{
    size_t len = howdah_job_json(job, NULL, 0);
    char *text = hw_alloc(len + 1);

    if (!text || len == 0) {
        hw_free(text);
        return hw_fail_no_memory(reterr);
    }
    (void)howdah_job_json(job, text, len + 1);
    assert(text[0] == '{' && text[len] == '\0');
    cli_out_put(&cli->out, text, len);
    cli_out_puts(&cli->out, "\n");
    hw_free(text);
    return HOWDAH_OK;
}

/* Only its JSON can fail, for want of memory. */
int cli_job_put(cli_context *cli, const howdah_job *job, howdah_error *reterr)
{
    if (cli->out.json)
        return cli_job_json_line(cli, job, reterr);
    cli_entity_show(&cli->out, &whole_job, job);
    return HOWDAH_OK;
}

/* The history of a queue, in the order in which jobs ended. */
void cli_jobs_table_init(cli_table *table, cli_out *out)
{
    cli_entity_table(table, out, &whole_job);
}

void cli_jobs_table_row(cli_table *table, const howdah_job *job)
{
    cli_fields_row(table, job_fields, whole_job.table, job);
}
