/* job_json.c - a job as one line of JSON. */
#include "base/clock.h"
#include "base/json_write.h"
#include "bus/queue/job.h"

/* What a store leaves at 0 where there is none. */
static int64_t or_absent(int64_t time_us)
{
    return time_us == 0 ? HW_TIME_ABSENT : time_us;
}

/* These numbers begin with 1; a 0 means that there is none, and is left out. */
static int64_t positive(int64_t value)
{
    return value > 0 ? value : HOWDAH_ABSENT;
}

/* A job that was read without its payload has neither data nor headers in its line. */
static void put_job(hw_buf *out, const void *thing)
{
    const howdah_job *job = thing;
    const howdah_job *r = job;

    hw_buf_printf(out, "{\"id\":%lld", (long long)r->id);
    hw_json_write_text(out, "queue", r->queue);
    hw_json_write_text(out, "status", hw_str_of(howdah_job_state_name(howdah_job_state_get(job))));
    hw_json_write_number(out, "attempts", r->attempts);
    hw_json_write_number(out, "max_attempts", r->max_attempts);
    hw_buf_printf(out, ",\"priority\":%d", (int)r->priority); /* -1 is one, too */
    hw_json_write_number(out, "token", positive(r->token));
    hw_json_write_text(out, "worker", r->worker);
    hw_json_write_text(out, "key", r->key);
    hw_json_write_text(out, "dedup", r->dedup);
    hw_json_write_text(out, "correlation_id", r->correlation_id);
    hw_json_write_uuid(out, "causation_id", r->has_causation, &r->causation_id);
    hw_json_write_number(out, "event_sequence", positive(r->event_sequence));
    hw_json_write_text(out, "type", r->event_type);
    hw_json_write_text(out, "stream", r->event_stream);
    hw_json_write_time(out, "created_at", or_absent(r->created_at_us));
    hw_json_write_time(out, "due_at", or_absent(r->due_at_us));
    hw_json_write_time(out, "started_at", or_absent(r->started_at_us));
    hw_json_write_time(out, "lease_until", or_absent(r->lease_until_us));
    hw_json_write_time(out, "finished_at", or_absent(r->finished_at_us));
    hw_json_write_number(out, "position", positive(r->position));
    hw_buf_printf(out, ",\"suspect\":%s", r->suspect ? "true" : "false");
    hw_json_write_text(out, "error", r->error);
    hw_json_write_text(out, "result", r->result);
    if (r->data.s) {
        hw_json_write_payload(out, r->data, r->content_type);
        hw_buf_puts(out, ",\"headers\":");
        hw_json_write_line(out, r->headers.s ? r->headers : HW_STR_LIT("{}"));
    }
    hw_buf_putc(out, '}');
}

/* As snprintf(): the length that is needed; out NULL only asks for it. */
size_t howdah_job_json(const howdah_job *job, char *out, size_t room)
{
    return job ? hw_json_print(put_job, job, out, out ? room : 0) : 0;
}
