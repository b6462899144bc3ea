/*
 * queues.c - jobs: push, claim, verdicts; and looking after queues.
 *
 *   I1  A job belongs to whoever has its token, as everywhere: any session of ours may say how it
 *       went.
 *   I2  A claim that waits holds no session: it is tried again when something was pushed through
 *       this gateway, and after a fraction of a second for what others push.
 */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/json_write.h"
#include "base/mem.h"
#include "base/text.h"
#include "face/bindings.h"
#include "face/job_in.h"
#include "face/json_in.h"
#include "face/queues.h"
#include "gateway/fields_in.h"
#include "gateway/handlers.h"
#include "gateway/meters.h"
#include "gateway/parking.h"
#include "gateway/scope.h"
#include "gateway/server.h"

#define N(fields) (sizeof(fields) / sizeof *(fields))
#define WAIT_MAX_MS INT64_C(60000)
#define LOOK_MS 200
#define LOOK_MS_EACH 5
#define PAGE_DEFAULT 100
#define PAGE_MAX 1000
#define PAGE_BYTES ((size_t)4 * 1024 * 1024)

/* -------------------------------------------------------------------- push */

/* The jobs of one request. */
typedef struct pushing {
    face_job_in *in;
    const howdah_new_job **jobs;
    howdah_pushed *pushed;
    size_t n;
    size_t room;
    size_t payload_max;
    const gw_trace *trace; /* of a job that names none */
    bool many;
    bool lines;
} pushing;

static void pushing_done(pushing *p)
{
    for (size_t i = 0; i < p->n; i++)
        face_job_in_done(&p->in[i]);
    hw_free(p->in);
    hw_free(p->jobs);
    hw_free(p->pushed);
}

static int add_job(pushing *p, hw_str object, howdah_error *reterr)
{
    size_t room = p->room > 0 ? p->room * 2 : 16;
    face_job_in *in = p->in;

    if (p->n == HOWDAH_JOBS_MAX)
        return hw_fail(reterr, HOWDAH_LIMIT, "more than %d jobs", HOWDAH_JOBS_MAX);
    if (p->n == p->room) {
        in = hw_realloc(p->in, room * sizeof *in);
        if (!in)
            return hw_fail_no_memory(reterr);
        p->in = in;
        p->room = room;
    }
    face_job_in_init(&in[p->n], p->payload_max);
    p->n++;
    in += p->n - 1;
    if (face_job_in_parse(in, object, p->payload_max, reterr) < 0)
        return reterr->status;
    if (!gw_trace_wanted(p->trace, (hw_str){in->headers.data, in->headers.len}))
        return HOWDAH_OK;
    gw_trace_add(&in->headers, p->trace);
    in->job.headers = hw_buf_str(&in->headers);
    in->job.headers_len = in->headers.len;
    return hw_buf_check(&in->headers, reterr);
}

static int add_list(pushing *p, hw_str body, howdah_error *reterr)
{
    hw_str item;
    size_t pos = 0;
    int s = HOWDAH_OK;

    p->many = true;
    while (s >= 0 && hw_json_item(body.s, body.len, &pos, &item)) {
        s = add_job(p, item, reterr);
        if (s < 0)
            hw_error_at(reterr, p->n - 1);
    }
    if (s >= 0 && !hw_json_closes(body.s, body.len, pos))
        s = hw_fail(reterr, HOWDAH_INVALID, "not valid JSON: the list is not closed at byte %zu",
                    pos);
    return s;
}

static int add_lines(pushing *p, hw_str body, howdah_error *reterr)
{
    int s = HOWDAH_OK;

    p->many = true;
    p->lines = true;
    while (s >= 0 && body.len > 0) {
        const char *end = memchr(body.s, '\n', body.len);
        hw_str line = {body.s, end ? (size_t)(end - body.s) : body.len};
        size_t n = line.len + (end != NULL);

        if (line.len > 0 && line.s[line.len - 1] == '\r')
            line.len--;
        if (line.len > 0) {
            s = add_job(p, line, reterr);
            if (s < 0)
                hw_error_at(reterr, p->n - 1);
        }
        body = (hw_str){body.s + n, body.len - n};
    }
    return s;
}

static int take_jobs(gw_request *r, pushing *p, howdah_error *reterr)
{
    hw_str body = {hw_buf_str(&r->body), r->body.len};

    if (gw_body_is(r, "application/x-ndjson"))
        return add_lines(p, body, reterr);
    if (hw_json_kind(body.s, body.len) == 'a')
        return add_list(p, body, reterr);
    return add_job(p, body.len > 0 ? body : HW_STR_LIT("{}"), reterr);
}

static int push_all(pushing *p, howdah_bus *bus, const char *queue, howdah_error *reterr)
{
    p->jobs = hw_calloc(p->n, sizeof *p->jobs);
    p->pushed = hw_calloc(p->n, sizeof *p->pushed);
    if (!p->jobs || !p->pushed)
        return hw_fail_no_memory(reterr);
    for (size_t i = 0; i < p->n; i++)
        p->jobs[i] = &p->in[i].job;
    p->pushed[0].size = sizeof *p->pushed;
    return howdah_queue_push_batch(bus, queue, p->jobs, p->n, p->pushed, reterr);
}

static void put_pushed(gw_request *r, const pushing *p)
{
    hw_buf *out = &r->answer.body;
    bool list = p->many && !p->lines;

    hw_buf_puts(out, list ? "[" : "");
    for (size_t i = 0; i < p->n; i++) {
        hw_buf_puts(out, i == 0 ? "" : p->lines ? "\n" : ",");
        face_pushed_json(out, r->vars[0], &p->pushed[i]);
    }
    hw_buf_puts(out, list ? "]\n" : "\n");
    gw_answer_json(r, p->n > 0 ? 201 : 200);
    if (p->lines)
        r->answer.content_type = "application/x-ndjson";
}

int gw_queue_push(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    pushing p = {.payload_max = gw_payload_max(r->gateway), .trace = &r->trace};
    int s = take_jobs(r, &p, reterr);

    if (s >= 0 && p.n > 0)
        s = push_all(&p, bus, r->vars[0], reterr);
    if (s >= 0) {
        put_pushed(r, &p);
        gw_count(r, GW_METER_JOBS_PUSHED, (int64_t)p.n);
        gw_waiting_wake(r->gateway->waiting);
    }
    pushing_done(&p);
    return s;
}

/* -------------------------------------------------------------------- claim */

static int put_jobs(hw_buf *out, const howdah_jobs *jobs, howdah_error *reterr)
{
    int s = HOWDAH_OK;

    hw_buf_puts(out, "{\"jobs\":[");
    for (size_t i = 0; s >= 0 && i < howdah_jobs_count(jobs); i++) {
        hw_buf_puts(out, i > 0 ? "," : "");
        s = face_job_json(howdah_jobs_at(jobs, i), out, reterr);
    }
    hw_buf_puts(out, "]}\n");
    return s;
}

static int64_t look_ms(const gw_request *r)
{
    return LOOK_MS + LOOK_MS_EACH * (int64_t)gw_waiting_count(r->gateway->waiting);
}

int gw_queue_claim(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    howdah_claim_options o = HOWDAH_CLAIM_OPTIONS_INIT;
    int64_t most = 1;
    int64_t wait_ms = 0;
    const gw_field fields[] = {
        {"max", GW_FIELD_NUMBER, .number = &most, .min = 1, .max = HOWDAH_JOBS_MAX},
        {"wait", GW_FIELD_DURATION, .number = &wait_ms},
        {"lease", GW_FIELD_DURATION, .number = &o.lease_ms},
        {"worker", GW_FIELD_TEXT, .text = &o.worker},
    };
    howdah_jobs *jobs = NULL;
    int s = gw_fields_take(r, fields, N(fields), reterr);

    if (s >= 0 && wait_ms > WAIT_MAX_MS)
        s = hw_fail_field(reterr, HOWDAH_INVALID, "wait", "must be at most 60s");
    if (s >= 0 && gw_client_is_gone(r))
        s = hw_fail(reterr, HOWDAH_INTERRUPTED, "the client has gone");
    if (s >= 0)
        s = howdah_queue_claim(bus, r->vars[0], most, &o, &jobs, reterr);
    if (s == HOWDAH_END && gw_parking_wanted(r, wait_ms, look_ms(r)))
        return GW_AGAIN;
    if (s >= 0)
        s = put_jobs(&r->answer.body, jobs, reterr);
    gw_count(r, GW_METER_JOBS_CLAIMED, s >= 0 ? (int64_t)howdah_jobs_count(jobs) : 0);
    howdah_jobs_free(jobs);
    gw_answer_json(r, 200);
    return s;
}

/* ----------------------------------------------------------------- verdicts */

static int job_id(const gw_request *r, int64_t *ret_id, howdah_error *reterr)
{
    if (hw_parse_i64(r->vars[0], 1, INT64_MAX, ret_id))
        return HOWDAH_OK;
    return hw_fail_field(reterr, HOWDAH_INVALID, "id", "expected a job's number");
}

/* What all verdicts have: the job, its token, a text, a duration. */
typedef struct verdict {
    int64_t id;
    int64_t token;
    const char *text;
    int64_t ms;
} verdict;

static int take_verdict(gw_request *r, const char *text, const char *duration, verdict *v,
                        howdah_error *reterr)
{
    gw_field fields[3] = {{"token", GW_FIELD_NUMBER, .number = &v->token, .max = INT64_MAX}};
    size_t n = 1;
    int s;

    if (text)
        fields[n++] = (gw_field){text, GW_FIELD_TEXT, .text = &v->text};
    if (duration)
        fields[n++] = (gw_field){duration, GW_FIELD_DURATION, .number = &v->ms};
    s = job_id(r, &v->id, reterr);
    if (s >= 0)
        s = gw_fields_take(r, fields, n, reterr);
    if (s >= 0 && v->token == 0)
        s = hw_fail_field(reterr, HOWDAH_INVALID, "token", "is needed: the claim's");
    return s;
}

static int say(gw_request *r, int status, gw_meter meter, const char *outcome)
{
    if (status < 0)
        return status;
    gw_count(r, meter, 1);
    hw_buf_printf(&r->answer.body, "{\"ok\":true,\"outcome\":\"%s\"}\n", outcome);
    gw_answer_json(r, 200);
    return HOWDAH_OK;
}

int gw_job_complete(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    verdict v = {0};
    int s = take_verdict(r, "result", NULL, &v, reterr);

    if (s >= 0)
        s = howdah_job_complete(bus, v.id, v.token, v.text, reterr);
    return say(r, s, GW_METER_JOBS_COMPLETED, "completed");
}

int gw_job_fail(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    verdict v = {0};
    int s = take_verdict(r, "error", NULL, &v, reterr);

    if (s >= 0)
        s = howdah_job_fail(bus, v.id, v.token, v.text, reterr);
    return say(r, s, GW_METER_JOBS_FAILED, "failed");
}

/* Without an attempt left it has failed instead. */
int gw_job_retry(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    verdict v = {.ms = HOWDAH_AFTER_BACKOFF};
    int s = take_verdict(r, "error", "after", &v, reterr);

    if (s >= 0)
        s = howdah_job_retry(bus, v.id, v.token, v.ms, v.text, reterr);
    if (s == HOWDAH_END)
        return say(r, s, GW_METER_JOBS_FAILED, "failed");
    return say(r, s, GW_METER_JOBS_RETRIED, "retry");
}

int gw_job_extend(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    verdict v = {0};
    int s = take_verdict(r, NULL, "lease", &v, reterr);

    if (s >= 0)
        s = howdah_job_extend(bus, v.id, v.token, v.ms, reterr);
    return say(r, s, GW_METER_JOBS_EXTENDED, "extended");
}

int gw_job_release(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    verdict v = {0};
    int s = take_verdict(r, NULL, NULL, &v, reterr);

    if (s >= 0)
        s = howdah_job_release(bus, v.id, v.token, reterr);
    if (s >= 0)
        gw_waiting_wake(r->gateway->waiting);
    return say(r, s, GW_METER_JOBS_RELEASED, "released");
}

static int show_job(gw_request *r, howdah_bus *bus, int64_t id, howdah_error *reterr)
{
    howdah_job *job = NULL;
    int s = howdah_job_get(bus, id, &job, reterr);

    if (s >= 0)
        s = face_job_json(job, &r->answer.body, reterr);
    hw_buf_putc(&r->answer.body, '\n');
    howdah_job_free(job);
    gw_answer_json(r, 200);
    return s;
}

int gw_job_show(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    int64_t id;
    int s = job_id(r, &id, reterr);

    return s < 0 ? s : show_job(r, bus, id, reterr);
}

int gw_job_cancel(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    const char *reason = NULL;
    const gw_field fields[] = {{"reason", GW_FIELD_TEXT, .text = &reason}};
    int64_t id;
    int s = job_id(r, &id, reterr);

    if (s >= 0)
        s = gw_fields_take(r, fields, N(fields), reterr);
    if (s >= 0)
        s = howdah_job_cancel(bus, id, reason, reterr);
    return s < 0 ? s : show_job(r, bus, id, reterr);
}

int gw_job_rerun(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    int64_t id;
    int s = job_id(r, &id, reterr);

    if (s >= 0)
        s = howdah_job_rerun(bus, id, reterr);
    gw_waiting_wake(r->gateway->waiting);
    return s < 0 ? s : show_job(r, bus, id, reterr);
}

/* ---------------------------------------------------------- many at a time */

static const char verdicts[] = "complete fail retry release extend";

/* One of the list; its texts live as long as the request. */
static int take_ack(gw_request *r, hw_str object, char **at, howdah_job_ack *ack,
                    howdah_error *reterr)
{
    int64_t how = HOWDAH_VERDICT_COMPLETE;
    int64_t after = INT64_MIN;
    const gw_field fields[] = {
        {"id", GW_FIELD_NUMBER, .number = &ack->id, .min = 1, .max = INT64_MAX},
        {"token", GW_FIELD_NUMBER, .number = &ack->token, .min = 1, .max = INT64_MAX},
        {"verdict", GW_FIELD_CHOICE, .number = &how, .choices = verdicts},
        {"text", GW_FIELD_TEXT, .text = &ack->text},
        {"after", GW_FIELD_DURATION, .number = &after},
    };
    int s = gw_object_take(object, fields, N(fields), at, reterr);

    (void)r;
    if (s < 0)
        return s;
    if (ack->id == 0 || ack->token == 0)
        return hw_fail_field(reterr, HOWDAH_INVALID, ack->id == 0 ? "id" : "token", "is needed");
    ack->verdict = (howdah_verdict)how;
    if (after != INT64_MIN)
        ack->after_ms = after;
    else
        ack->after_ms = how == HOWDAH_VERDICT_RETRY ? HOWDAH_AFTER_BACKOFF : 0;
    return HOWDAH_OK;
}

static int take_acks(gw_request *r, hw_str list, howdah_job_ack *acks, size_t *ret_n,
                     howdah_error *reterr)
{
    char *at = r->fields + r->body.len + 1; /* behind the texts of the body itself */
    hw_str item;
    size_t pos = 0;
    size_t n = 0;
    int s = HOWDAH_OK;

    while (s >= 0 && hw_json_item(list.s, list.len, &pos, &item)) {
        if (n == HOWDAH_JOBS_MAX)
            return hw_fail(reterr, HOWDAH_LIMIT, "more than %d jobs", HOWDAH_JOBS_MAX);
        acks[n] = (howdah_job_ack)HOWDAH_JOB_ACK_INIT;
        s = take_ack(r, item, &at, &acks[n], reterr);
        if (s < 0)
            hw_error_at(reterr, n);
        n++;
    }
    *ret_n = n;
    return s;
}

static void put_acked(hw_buf *out, const howdah_job_ack *acks, size_t n)
{
    static const char *const outcomes[] = {[HOWDAH_ACKED_LOST] = "lost",
                                           [HOWDAH_ACKED_DONE] = "done",
                                           [HOWDAH_ACKED_FAILED] = "failed"};

    hw_buf_puts(out, "{\"acks\":[");
    for (size_t i = 0; i < n; i++)
        hw_buf_printf(out, "%s{\"id\":%" PRId64 ",\"outcome\":\"%s\"}", i > 0 ? "," : "",
                      acks[i].id, outcomes[acks[i].outcome]);
    hw_buf_puts(out, "]}\n");
}

int gw_jobs_ack(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    const char *list = NULL;
    size_t len = 0;
    const gw_field fields[] = {{"acks", GW_FIELD_RAW, .text = &list, .length = &len}};
    howdah_job_ack *acks = NULL;
    size_t n = 0;
    int s = gw_fields_take(r, fields, N(fields), reterr);

    if (s >= 0 && (!list || hw_json_kind(list, len) != 'a'))
        s = hw_fail_field(reterr, HOWDAH_INVALID, "acks", "expected a list");
    if (s >= 0 && !(acks = hw_calloc(HOWDAH_JOBS_MAX, sizeof *acks)))
        s = hw_fail_no_memory(reterr);
    if (s >= 0)
        s = take_acks(r, (hw_str){list, len}, acks, &n, reterr);
    if (s >= 0 && n > 0)
        s = howdah_jobs_ack(bus, acks, n, reterr);
    if (s >= 0) {
        put_acked(&r->answer.body, acks, n);
        gw_answer_json(r, 200);
        gw_waiting_wake(r->gateway->waiting);
    }
    hw_free(acks);
    return s;
}

/* ------------------------------------------------------------------- queues */

typedef struct listing {
    hw_buf *out;
    howdah_error *err;
    int64_t n;
    int64_t last;
    int64_t limit;
    int status;
    const gw_request *r;
} listing;

static int on_queue(void *ctx, const howdah_queue_info *info)
{
    listing *l = ctx;

    if (!gw_scope_has_queue(l->r, info->queue))
        return 0;
    hw_buf_puts(l->out, l->n++ > 0 ? "," : "");
    face_entity_json(l->out, &face_queue_summary, info, "");
    return 0;
}

int gw_queues(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    listing l = {.out = &r->answer.body, .err = reterr, .r = r};
    int s;

    hw_buf_puts(l.out, "{\"queues\":[");
    s = howdah_queue_summaries_walk(bus, on_queue, &l, reterr);
    hw_buf_puts(l.out, "]}\n");
    gw_answer_json(r, 200);
    return s;
}

static int on_one_queue(void *ctx, const howdah_queue_info *info)
{
    face_entity_json(ctx, &face_queue, info, "");
    return 0;
}

int gw_queue_show(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    int s = howdah_queues_walk(bus, r->vars[0], on_one_queue, &r->answer.body, reterr);

    hw_buf_putc(&r->answer.body, '\n');
    gw_answer_json(r, 200);
    return s;
}

/* Each setting by its key, as "howdah queue set" takes it; a number may be a number. */
static int take_setting(hw_str key, hw_str value, howdah_queue_options *o, howdah_error *reterr)
{
    hw_buf name = HW_BUF_INIT(256);
    hw_buf text = HW_BUF_INIT(256);
    int s;

    hw_json_unescape(key.s, key.len, &name);
    if (hw_json_kind(value.s, value.len) == 's')
        hw_json_unescape(value.s + 1, value.len - 2, &text);
    else
        hw_buf_put(&text, value.s, value.len);
    s = hw_buf_check(&name, reterr);
    if (s >= 0)
        s = hw_buf_check(&text, reterr);
    if (s >= 0)
        s = howdah_queue_options_set(o, hw_buf_str(&name), hw_buf_str(&text), reterr);
    hw_buf_done(&name);
    hw_buf_done(&text);
    return s;
}

int gw_queue_configure(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    howdah_queue_options o = HOWDAH_QUEUE_OPTIONS_INIT;
    hw_str body = {hw_buf_str(&r->body), r->body.len};
    hw_str key;
    hw_str value;
    size_t pos = 0;
    int s = body.len > 0 ? face_object_check(body, reterr) : HOWDAH_OK;

    while (s >= 0 && body.len > 0 && hw_json_member(body.s, body.len, &pos, &key, &value))
        s = take_setting(key, value, &o, reterr);
    if (s >= 0)
        s = howdah_queue_configure(bus, r->vars[0], &o, reterr);
    return s < 0 ? s : gw_queue_show(r, bus, reterr);
}

int gw_queue_purge(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    int64_t n = 0;
    int s = howdah_queue_purge(bus, r->vars[0], &n, reterr);

    hw_buf_printf(&r->answer.body, "{\"count\":%" PRId64 "}\n", n);
    gw_answer_json(r, 200);
    return s;
}

int gw_queue_pause(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    int s = howdah_queue_pause(bus, r->vars[0], reterr);

    return s < 0 ? s : gw_queue_show(r, bus, reterr);
}

int gw_queue_resume(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    int s = howdah_queue_resume(bus, r->vars[0], reterr);

    gw_waiting_wake(r->gateway->waiting);
    return s < 0 ? s : gw_queue_show(r, bus, reterr);
}

static int on_logged(void *ctx, const howdah_job *job)
{
    listing *l = ctx;

    hw_buf_puts(l->out, l->n++ > 0 ? "," : "");
    l->status = face_job_json(job, l->out, l->err);
    l->last = howdah_job_position(job);
    return l->status < 0 || l->out->len > PAGE_BYTES;
}

static int take_status(const gw_request *r, int64_t *ret_status, howdah_error *reterr)
{
    const char *status = gw_arg_text(r, "status");

    if (!status)
        return HOWDAH_OK;
    if (strcmp(status, "completed") == 0)
        *ret_status = HOWDAH_JOB_COMPLETED;
    else if (strcmp(status, "failed") == 0)
        *ret_status = HOWDAH_JOB_FAILED;
    else
        return hw_fail_field(reterr, HOWDAH_INVALID, "status", "expected completed or failed");
    return HOWDAH_OK;
}

int gw_queue_log(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    howdah_queue_history_options o = HOWDAH_QUEUE_HISTORY_OPTIONS_INIT;
    listing l = {.out = &r->answer.body, .err = reterr, .r = r};
    int s = take_status(r, &o.status, reterr);

    o.limit = PAGE_DEFAULT;
    if (s >= 0)
        s = gw_arg_number(r, "limit", 1, PAGE_MAX, &o.limit, reterr);
    if (s >= 0)
        s = gw_arg_number(r, "since", 0, INT64_MAX, &o.after, reterr);
    if (s >= 0)
        s = gw_arg_flag(r, "backward", &o.backward, reterr);
    hw_buf_puts(l.out, "{\"jobs\":[");
    if (s >= 0)
        s = howdah_queue_history_walk(bus, r->vars[0], &o, on_logged, &l, reterr);
    hw_buf_puts(l.out, "]");
    hw_json_write_number(l.out, "last", l.n > 0 ? l.last : HOWDAH_ABSENT);
    hw_buf_puts(l.out, "}\n");
    gw_answer_json(r, 200);
    return l.status < 0 ? l.status : s;
}

/* ----------------------------------------------------------------- bindings */

static int on_binding(void *ctx, const howdah_binding_info *info)
{
    listing *l = ctx;

    if (!gw_scope_has_queue(l->r, info->queue) ||
        !gw_scope_has_filter(l->r, NULL, info->pattern, NULL))
        return 0;
    hw_buf_puts(l->out, l->n++ > 0 ? "," : "");
    face_entity_json(l->out, &face_binding, info, "");
    return 0;
}

int gw_bindings(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    listing l = {.out = &r->answer.body, .err = reterr, .r = r};
    int s;

    hw_buf_puts(l.out, "{\"bindings\":[");
    s = howdah_bindings_walk(bus, NULL, on_binding, &l, reterr);
    hw_buf_puts(l.out, "]}\n");
    gw_answer_json(r, 200);
    return s;
}

static int put_binding(gw_request *r, bool created)
{
    hw_buf *out = &r->answer.body;

    hw_buf_puts(out, "{\"queue\":");
    face_json_text(out, r->vars[0]);
    hw_buf_puts(out, ",\"pattern\":");
    face_json_text(out, r->vars[1]);
    hw_buf_puts(out, "}\n");
    gw_answer_json(r, created ? 201 : 200);
    return HOWDAH_OK;
}

int gw_binding_put(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    howdah_bind_options o = HOWDAH_BIND_OPTIONS_INIT;
    int64_t key = o.key;
    const gw_field fields[] = {
        {"key", GW_FIELD_CHOICE, .number = &key, .choices = "stream correlation none"},
        {"start", GW_FIELD_PLACE, .number = &o.start},
    };
    int s = gw_fields_take(r, fields, N(fields), reterr);

    o.key = (howdah_binding_key)key;
    if (s >= 0)
        s = howdah_queue_bind(bus, r->vars[0], r->vars[1], &o, reterr);
    return s < 0 ? s : put_binding(r, s == HOWDAH_OK);
}

int gw_binding_remove(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    int s = howdah_queue_unbind(bus, r->vars[0], r->vars[1], reterr);

    r->answer.http_status = 204;
    return s;
}
