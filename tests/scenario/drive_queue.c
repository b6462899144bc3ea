/* drive_queue.c - the steps of queues: jobs by their tokens, settings and bindings. */
#include <inttypes.h>
#include <string.h>

#include "base/json.h"
#include "drive.h"
#include "face/bindings.h"
#include "face/queues.h"

/* ---------------------------------------------------------------------- push */

static int push(step *s, howdah_error *reterr)
{
    howdah_new_job job = HOWDAH_NEW_JOB_INIT;
    howdah_pushed pushed = HOWDAH_PUSHED_INIT;
    const char *queue = text_arg(s, "queue", NULL);
    int status = time_arg(s, "run_at", &job.run_at_us, reterr);

    if (status < 0)
        return status;
    job.data = text_arg(s, "data_text", &job.data_len);
    job.content_type = text_arg(s, "content_type", NULL);
    if (job.content_type)
        job.data = bytes_arg(s, "data_base64", &job.data_len);
    job.headers = raw_arg(s, "headers", &job.headers_len);
    job.delay_ms = duration_arg(s, "delay", 0);
    job.priority = number_arg(s, "priority", 0);
    job.max_attempts = number_arg(s, "max_attempts", 0);
    job.key = text_arg(s, "key", NULL);
    job.dedup = text_arg(s, "dedup", NULL);
    job.correlation_id = text_arg(s, "correlation_id", NULL);
    job.causation_id = text_arg(s, "causation_id", NULL);
    if (s->unsayable)
        return HOWDAH_OK;
    status = howdah_queue_push(s->bus, queue, &job, &pushed, reterr);
    if (status >= 0)
        face_pushed_json(s->out, queue, &pushed);
    return status;
}

/* --------------------------------------------------------------------- claim */

static int claim(step *s, howdah_error *reterr)
{
    howdah_claim_options o = HOWDAH_CLAIM_OPTIONS_INIT;
    howdah_jobs *jobs = NULL;
    int status;

    o.lease_ms = duration_arg(s, "lease", 0);
    o.worker = text_arg(s, "worker", NULL);
    status = howdah_queue_claim(s->bus, text_arg(s, "queue", NULL), number_arg(s, "max", 1), &o,
                                &jobs, reterr);
    hw_buf_puts(s->out, "{\"jobs\":[");
    for (size_t i = 0; status >= 0 && i < howdah_jobs_count(jobs); i++) {
        hw_buf_puts(s->out, i > 0 ? "," : "");
        status = face_job_json(howdah_jobs_at(jobs, i), s->out, reterr);
    }
    hw_buf_puts(s->out, "]}");
    howdah_jobs_free(jobs);
    return status;
}

static int say(step *s, int status, const char *outcome)
{
    hw_buf_printf(s->out, "{\"outcome\":\"%s\"}", outcome);
    return status;
}

static int complete(step *s, howdah_error *reterr)
{
    return say(s,
               howdah_job_complete(s->bus, number_arg(s, "id", 0), number_arg(s, "token", 0),
                                   text_arg(s, "result", NULL), reterr),
               "completed");
}

static int fail(step *s, howdah_error *reterr)
{
    return say(s,
               howdah_job_fail(s->bus, number_arg(s, "id", 0), number_arg(s, "token", 0),
                               text_arg(s, "error", NULL), reterr),
               "failed");
}

static int retry(step *s, howdah_error *reterr)
{
    int status = howdah_job_retry(s->bus, number_arg(s, "id", 0), number_arg(s, "token", 0),
                                  duration_arg(s, "after", HOWDAH_AFTER_BACKOFF),
                                  text_arg(s, "error", NULL), reterr);

    return say(s, status, status == HOWDAH_END ? "failed" : "retry");
}

static int extend_job(step *s, howdah_error *reterr)
{
    return say(s,
               howdah_job_extend(s->bus, number_arg(s, "id", 0), number_arg(s, "token", 0),
                                 duration_arg(s, "lease", 0), reterr),
               "extended");
}

static int release_job(step *s, howdah_error *reterr)
{
    return say(
        s, howdah_job_release(s->bus, number_arg(s, "id", 0), number_arg(s, "token", 0), reterr),
        "released");
}

/* ------------------------------------------------------------------- operate */

static int job(step *s, howdah_error *reterr)
{
    howdah_job *found = NULL;
    int status = howdah_job_get(s->bus, number_arg(s, "id", 0), &found, reterr);

    if (status >= 0)
        status = face_job_json(found, s->out, reterr);
    howdah_job_free(found);
    return status;
}

static int cancel(step *s, howdah_error *reterr)
{
    return howdah_job_cancel(s->bus, number_arg(s, "id", 0), text_arg(s, "reason", NULL), reterr);
}

static int rerun(step *s, howdah_error *reterr)
{
    return howdah_job_rerun(s->bus, number_arg(s, "id", 0), reterr);
}

/* The settings are texts, as on every face. */
static int queue_set(step *s, howdah_error *reterr)
{
    howdah_queue_options o = HOWDAH_QUEUE_OPTIONS_INIT;
    howdah_queue_setting_info info = HOWDAH_QUEUE_SETTING_INFO_INIT;
    int status = HOWDAH_OK;

    for (size_t i = 0; status >= 0 && howdah_queue_settings_describe(i, &info) == HOWDAH_OK; i++) {
        const char *value = text_arg(s, info.key, NULL);

        if (value)
            status = howdah_queue_options_set(&o, info.key, value, reterr);
    }
    if (status >= 0)
        status = howdah_queue_configure(s->bus, text_arg(s, "queue", NULL), &o, reterr);
    return status;
}

static int pause_queue(step *s, howdah_error *reterr)
{
    return howdah_queue_pause(s->bus, text_arg(s, "queue", NULL), reterr);
}

static int resume_queue(step *s, howdah_error *reterr)
{
    return howdah_queue_resume(s->bus, text_arg(s, "queue", NULL), reterr);
}

static int purge_queue(step *s, howdah_error *reterr)
{
    int64_t n = 0;
    int status = howdah_queue_purge(s->bus, text_arg(s, "queue", NULL), &n, reterr);

    hw_buf_printf(s->out, "{\"count\":%" PRId64 "}", n);
    return status;
}

static int on_queue(void *ctx, const howdah_queue_info *info)
{
    face_entity_json(((step *)ctx)->out, &face_queue, info, "");
    return 0;
}

static int show_queue(step *s, howdah_error *reterr)
{
    return howdah_queues_walk(s->bus, text_arg(s, "queue", NULL), on_queue, s, reterr);
}

static int on_job(void *ctx, const howdah_job *ended)
{
    step *s = ctx;
    howdah_error err = HOWDAH_ERROR_INIT;

    if (s->out->data[s->out->len - 1] != '[')
        hw_buf_puts(s->out, ",");
    return face_job_json(ended, s->out, &err);
}

static int history(step *s, howdah_error *reterr)
{
    howdah_queue_history_options o = HOWDAH_QUEUE_HISTORY_OPTIONS_INIT;
    int status;

    hw_buf_puts(s->out, "{\"jobs\":[");
    status = howdah_queue_history_walk(s->bus, text_arg(s, "queue", NULL), &o, on_job, s, reterr);
    hw_buf_puts(s->out, "]}");
    return status;
}

/* ------------------------------------------------------------------ bindings */

static int bind_it(step *s, howdah_error *reterr)
{
    howdah_bind_options o = HOWDAH_BIND_OPTIONS_INIT;
    const char *key = text_arg(s, "key", NULL);

    for (int i = HOWDAH_KEY_STREAM; key && i <= HOWDAH_KEY_NONE; i++)
        if (strcmp(key, howdah_binding_key_name((howdah_binding_key)i)) == 0)
            o.key = (howdah_binding_key)i;
    return howdah_queue_bind(s->bus, text_arg(s, "queue", NULL), text_arg(s, "pattern", NULL), &o,
                             reterr);
}

static int unbind(step *s, howdah_error *reterr)
{
    return howdah_queue_unbind(s->bus, text_arg(s, "queue", NULL), text_arg(s, "pattern", NULL),
                               reterr);
}

static int on_binding(void *ctx, const howdah_binding_info *info)
{
    step *s = ctx;

    if (s->out->data[s->out->len - 1] != '[')
        hw_buf_puts(s->out, ",");
    face_entity_json(s->out, &face_binding, info, "");
    return 0;
}

static int bindings(step *s, howdah_error *reterr)
{
    int status;

    hw_buf_puts(s->out, "{\"bindings\":[");
    status = howdah_bindings_walk(s->bus, text_arg(s, "queue", NULL), on_binding, s, reterr);
    hw_buf_puts(s->out, "]}");
    return status;
}

const action queue_actions[] = {{"push", push},
                                {"claim", claim},
                                {"complete", complete},
                                {"fail", fail},
                                {"retry", retry},
                                {"extend_job", extend_job},
                                {"release_job", release_job},
                                {"job", job},
                                {"cancel", cancel},
                                {"rerun", rerun},
                                {"queue_set", queue_set},
                                {"pause_queue", pause_queue},
                                {"resume_queue", resume_queue},
                                {"purge_queue", purge_queue},
                                {"show_queue", show_queue},
                                {"history", history},
                                {"bind", bind_it},
                                {"unbind", unbind},
                                {"bindings", bindings},
                                {NULL, NULL}};
