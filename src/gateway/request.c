/*
 * request.c - see request.h.
 */
#include "gateway/request.h"

#include <assert.h>
#include <inttypes.h>
#include <microhttpd.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "gateway/access.h"
#include "gateway/meters.h"
#include "gateway/parking.h"
#include "gateway/problem.h"
#include "gateway/routes.h"
#include "gateway/scope.h"
#include "gateway/server.h"
#include "gateway/stream.h"
#include "gateway/url.h"

#define ANSWER_BYTES_MAX ((size_t)160 * 1024 * 1024)
#define HEADERS_BYTES_MAX ((size_t)16 * 1024)
#define ANSWER_MS 30000 /* how long an answer may take to be found */
#define URL_BYTES_MAX ((size_t)8 * 1024)

/* -------------------------------------------------------------- what came */

const char *gw_header(const gw_request *r, const char *name)
{
    return MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, name);
}

static const gw_arg *find_arg(const gw_request *r, const char *name)
{
    for (size_t i = 0; i < r->args_n; i++)
        if (strcmp(r->args[i].name, name) == 0)
            return &r->args[i];
    return NULL;
}

const char *gw_arg_text(const gw_request *r, const char *name)
{
    const gw_arg *arg = find_arg(r, name);

    return arg ? arg->value : NULL;
}

bool gw_arg_given(const gw_request *r, const char *name)
{
    return find_arg(r, name) != NULL;
}

int gw_arg_number(const gw_request *r, const char *name, int64_t min, int64_t max,
                  int64_t *ret_value, howdah_error *reterr)
{
    const char *text = gw_arg_text(r, name);

    if (!text || hw_parse_i64(text, min, max, ret_value))
        return HOWDAH_OK;
    return hw_fail_field(reterr, HOWDAH_INVALID, name,
                         "expected a whole number, %" PRId64 " to %" PRId64 "; got %zu bytes", min,
                         max, strlen(text));
}

int gw_arg_time(const gw_request *r, const char *name, int64_t *ret_time_us, howdah_error *reterr)
{
    const char *text = gw_arg_text(r, name);

    if (!text || hw_time_parse(text, strlen(text), ret_time_us))
        return HOWDAH_OK;
    return hw_fail_field(reterr, HOWDAH_INVALID, name,
                         "not a time like 2026-01-31T09:30:00Z; got %zu bytes", strlen(text));
}

int gw_arg_duration(const gw_request *r, const char *name, int64_t *ret_ms, howdah_error *reterr)
{
    const char *text = gw_arg_text(r, name);

    if (!text || hw_duration_parse(text, ret_ms))
        return HOWDAH_OK;
    return hw_fail_field(reterr, HOWDAH_INVALID, name, "not a duration like 250ms, 5s or 2m");
}

int gw_arg_flag(const gw_request *r, const char *name, bool *ret_flag, howdah_error *reterr)
{
    const char *text = gw_arg_text(r, name);

    if (!text)
        return HOWDAH_OK;
    if (*text && strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
        return hw_fail_field(reterr, HOWDAH_INVALID, name, "expected true or false");
    *ret_flag = strcmp(text, "false") != 0; /* "?backward" alone is true */
    return HOWDAH_OK;
}

/* "application/json; charset=utf-8" begins with the type, and then ends or goes on with ';'. */
static bool type_is(const char *text, size_t len, const char *content_type)
{
    size_t n = strlen(content_type);

    while (len > 0 && *text == ' ') {
        text++;
        len--;
    }
    return len >= n && strncasecmp(text, content_type, n) == 0 &&
           (len == n || text[n] == ';' || text[n] == ' ');
}

bool gw_body_is(const gw_request *r, const char *content_type)
{
    const char *given = gw_header(r, "Content-Type");

    return given && type_is(given, strlen(given), content_type);
}

bool gw_accepts(const gw_request *r, const char *content_type)
{
    const char *accept = gw_header(r, "Accept");

    while (accept && *accept) {
        size_t len = strcspn(accept, ",");

        if (type_is(accept, len, content_type))
            return true;
        accept += len + (accept[len] == ',');
    }
    return false;
}

/* ------------------------------------------------------------------ answers */

void gw_answer_header(gw_request *r, const char *name, const char *fmt, ...)
{
    va_list args;

    hw_buf_put(&r->answer.headers, name, strlen(name) + 1);
    va_start(args, fmt);
    hw_buf_vprintf(&r->answer.headers, fmt, args);
    va_end(args);
    hw_buf_putc(&r->answer.headers, '\0');
}

void gw_answer_json(gw_request *r, int http_status)
{
    r->answer.http_status = http_status;
    r->answer.content_type = "application/json";
}

/* Nothing of what was begun goes out. */
void gw_answer_error(gw_request *r, const howdah_error *err)
{
    int http_status = r->refused > 0 ? r->refused : gw_problem_status(err);
    int after = r->retry_after > 0 ? r->retry_after : gw_problem_retry_after(err);

    gw_stream_free(r->answer.stream);
    r->answer.stream = NULL;
    hw_buf_clear(&r->answer.body);
    hw_buf_clear(&r->answer.headers);
    r->answer.http_status = http_status;
    r->answer.content_type = "application/problem+json";
    if (after > 0)
        gw_answer_header(r, "Retry-After", "%d", after);
    if (r->challenge)
        gw_answer_header(r, "WWW-Authenticate", "%s", r->challenge);
    gw_problem_put(&r->answer.body, err, http_status, r->id);
    gw_meters_problem(r->gateway->meters, err);
    r->state = GW_ANSWERED;
}

/* Of HTTP alone: there is no status of the library for it. */
static void refuse(gw_request *r, int http_status, int status, const char *advice, const char *fmt,
                   ...) HW_PRINTF(5, 6);

static void refuse(gw_request *r, int http_status, int status, const char *advice, const char *fmt,
                   ...)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    char text[256];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    (void)hw_fail(&err, status, "%s", text);
    (void)hw_advise(&err, status, "%s", advice);
    gw_answer_error(r, &err);
    hw_buf_clear(&r->answer.body);
    gw_problem_put(&r->answer.body, &err, http_status, r->id);
    r->answer.http_status = http_status;
}

/* ----------------------------------------------------------------- its life */

static bool run_job(gw_job *job, howdah_bus *bus, howdah_error *err);

gw_request *gw_request_new(struct gw_gateway *gateway, const char *url)
{
    gw_request *r = hw_calloc(1, sizeof *r);
    hw_uuid uuid;

    if (!r)
        return NULL;
    r->gateway = gateway;
    r->begun_us = hw_clock_mono_us();
    atomic_init(&r->arrive_ms, hw_clock_mono_ms() + gateway->options.request_ms);
    r->url = hw_strdup(url);
    r->body = (hw_buf)HW_BUF_INIT((size_t)gateway->options.body_max + 1);
    r->answer.body = (hw_buf)HW_BUF_INIT(ANSWER_BYTES_MAX);
    r->answer.headers = (hw_buf)HW_BUF_INIT(HEADERS_BYTES_MAX);
    r->job.run = run_job;
    if (!r->url || !hw_uuid_v7(&uuid)) {
        gw_request_free(r);
        return NULL;
    }
    hw_uuid_format(&uuid, r->id);
    return r;
}

void gw_request_free(gw_request *r)
{
    if (!r)
        return;
    if (r->body.room > 0)
        atomic_fetch_sub(&r->gateway->held, r->body.room);
    gw_access_done(r);
    gw_stream_free(r->answer.stream);
    hw_buf_done(&r->answer.body);
    hw_buf_done(&r->answer.headers);
    hw_buf_done(&r->body);
    hw_free(r->fields);
    hw_free(r->texts);
    hw_free(r->url);
    hw_free(r);
}

/* The table's own text, or NULL for a method that nobody knows. */
static const char *known_method(const char *method)
{
    static const char *const names[] = {"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], method) == 0)
            return names[i];
    return NULL;
}

/* False, and answered: there is no such route. */
static bool find_route(gw_request *r, hw_str path, hw_str vars[GW_VARS_MAX])
{
    char allowed[GW_ALLOWED_SIZE];
    const char *method = strcmp(r->method, "HEAD") == 0 ? "GET" : r->method;

    r->route = gw_route_find(method, path, vars, allowed);
    if (r->route)
        return true;
    if (!*allowed) {
        refuse(r, 404, HOWDAH_NOT_FOUND, "GET /openapi.json lists all paths", "no such path");
        return false;
    }
    refuse(r, 405, HOWDAH_MISUSE, "", "this path takes %s", allowed);
    gw_answer_header(r, "Allow", "%s", allowed);
    return false;
}

/* Of a length that is given.  A body that comes in chunks is measured while it comes. */
static bool check_length(gw_request *r)
{
    const char *length = gw_header(r, "Content-Length");
    int64_t n = 0;

    if (length && !hw_parse_i64(length, 0, INT64_MAX, &n)) {
        refuse(r, 400, HOWDAH_INVALID, "", "Content-Length is not a number");
        return false;
    }
    if (n > r->gateway->options.body_max) {
        refuse(r, 413, HOWDAH_LIMIT, "send it in parts",
               "a body of %" PRId64 " bytes, the limit is %" PRId64, n,
               r->gateway->options.body_max);
        return false;
    }
    if (atomic_load(&r->gateway->held) > GW_HELD_BYTES_MAX) {
        refuse(r, 503, HOWDAH_UNAVAILABLE, "", "too much is being sent at the moment");
        return false;
    }
    return true;
}

/* What a browser sends as a form, or as plain text, from any page to any address: never taken. */
static bool check_type(gw_request *r)
{
    const char *types = r->route->body;

    if (!types || gw_word_is_listed(types, "*/*"))
        return true;
    while (*types) {
        char type[64];
        size_t len = strcspn(types, " ");

        assert(len < sizeof type);
        memcpy(type, types, len);
        type[len] = '\0';
        if (gw_body_is(r, type))
            return true;
        types += len + (types[len] == ' ');
    }
    /* A request without a body needs no type. */
    if (!gw_header(r, "Content-Type") && !gw_header(r, "Transfer-Encoding") &&
        (!gw_header(r, "Content-Length") || strcmp(gw_header(r, "Content-Length"), "0") == 0))
        return true;
    refuse(r, 415, HOWDAH_INVALID, "set the header Content-Type", "expected a body of the type %s",
           r->route->body);
    return false;
}

static bool decode_url(gw_request *r, hw_str query, const hw_str vars[GW_VARS_MAX])
{
    howdah_error err = HOWDAH_ERROR_INIT;
    int s = gw_url_decode(r, query, vars, &err);

    if (s < 0)
        gw_answer_error(r, &err);
    return s >= 0;
}

void gw_request_begin(gw_request *r, struct MHD_Connection *connection, const char *method)
{
    const char *mark = strchr(r->url, '?');
    hw_str path = {r->url, mark ? (size_t)(mark - r->url) : strlen(r->url)};
    hw_str query = hw_str_of(mark ? mark + 1 : "");
    hw_str vars[GW_VARS_MAX] = {HW_STR_NULL, HW_STR_NULL};
    howdah_error err = HOWDAH_ERROR_INIT;

    r->connection = connection;
    r->method = known_method(method);
    (void)gw_trace_take(&r->trace, gw_header(r, "traceparent"), gw_header(r, "tracestate"));
    if (!r->method) {
        r->method = "GET";
        refuse(r, 405, HOWDAH_MISUSE, "", "no such method");
        return;
    }
    if (gw_is_over_limit(connection)) {
        refuse(r, 503, HOWDAH_UNAVAILABLE, "", "as many connections are open as may be at once");
        gw_answer_header(r, "Connection", "close");
        return;
    }
    if (r->too_late) {
        refuse(r, 503, HOWDAH_UNAVAILABLE, "", "the gateway is being stopped");
        gw_answer_header(r, "Connection", "close");
        return;
    }
    if (strlen(r->url) > URL_BYTES_MAX) {
        refuse(r, 414, HOWDAH_LIMIT, "", "the URL has %zu bytes, the limit is %zu", strlen(r->url),
               URL_BYTES_MAX);
        return;
    }
    if (gw_access_check_shape(r, &err) < 0) {
        refuse(r, err.status == HOWDAH_DENIED ? 403 : 400, err.status, err.advice, "%s",
               err.message);
        return;
    }
    if (gw_access_preflight(r, path) || !find_route(r, path, vars))
        return;
    if (gw_access_check_right(r, &err) < 0) {
        gw_answer_error(r, &err);
        return;
    }
    if (!check_length(r) || !check_type(r))
        return;
    if (r->gateway->options.read_only && (r->route->flags & GW_WRITES)) {
        refuse(r, 403, HOWDAH_READ_ONLY, "", "this gateway only reads");
        return;
    }
    (void)decode_url(r, query, vars);
}

void gw_request_take(gw_request *r, const char *bytes, size_t n)
{
    size_t before = r->body.room;

    if (r->state != GW_ARRIVING || r->body_too_large)
        return;
    r->body_too_large = r->body.len + n > (size_t)r->gateway->options.body_max;
    if (!r->body_too_large)
        hw_buf_put(&r->body, bytes, n);
    atomic_fetch_add(&r->gateway->held, r->body.room - before);
}

bool gw_client_is_gone(const gw_request *r)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(r->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    /* Not recv(): a reset connection has an error, and one with TLS a last message before its end.
     */
    struct pollfd end = {.fd = info ? info->connect_fd : -1, .events = POLLRDHUP};

    return poll(&end, 1, 0) > 0 && (end.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

bool gw_parking_wanted(gw_request *r, int64_t wait_ms, int64_t look_ms)
{
    int64_t now = hw_clock_mono_ms();

    if (r->wait_until_ms == 0)
        r->wait_until_ms = now + wait_ms;
    r->look_ms = now + look_ms;
    return !r->last_try && now < r->wait_until_ms && !atomic_load(&r->gateway->stopping);
}

/* ------------------------------------------------------------------ working */

/* What the handler said becomes the answer, or its error does. */
static void conclude(gw_request *r, int status, const howdah_error *err)
{
    howdah_error own = HOWDAH_ERROR_INIT;

    if (status >= 0 && hw_buf_check(&r->answer.body, &own) < 0)
        status = own.status;
    if (status < 0)
        gw_answer_error(r, own.status < 0 ? &own : err);
    r->state = GW_ANSWERED;
}

/* From here on the thread that speaks HTTP has it. */
static void resume(gw_request *r)
{
    MHD_resume_connection(r->connection);
}

static bool run_job(gw_job *job, howdah_bus *bus, howdah_error *err)
{
    gw_request *r = (gw_request *)((char *)job - offsetof(gw_request, job));
    bool good;
    int s = err->status;

    if (gw_stream_is_sending(r)) {
        if (bus && gw_access_make_sure(r, bus, err) < 0)
            bus = NULL;
        r->answer.stream->ops->run(r->answer.stream, bus, err);
        return !(err->flags & HOWDAH_HANDLE_DEAD);
    }
    r->wakes = gw_waiting_wakes(r->gateway->waiting);
    if (bus)
        s = gw_access_make_sure(r, bus, err);
    if (bus && s >= 0)
        s = gw_scope_check_route(r, bus, err);
    if (bus && s >= 0)
        s = r->route->handler(r, bus, err);
    good = !(s < 0 && (err->flags & HOWDAH_HANDLE_DEAD));
    if (s == GW_SUBMITTED)
        return true;
    if (s == GW_AGAIN && !r->last_try) {
        gw_waiting_park(r->gateway->waiting, r);
        return good;
    }
    gw_request_done(r, s, err);
    return good;
}

/* No worker will have it: it is answered as if one had said so. */
static void refuse_busy(gw_request *r)
{
    howdah_error err = HOWDAH_ERROR_INIT;

    (void)hw_fail(&err, HOWDAH_UNAVAILABLE, "too many requests wait for the store");
    (void)run_job(&r->job, NULL, &err);
}

/* Suspended first: a worker may be done before this returns. */
static void give_to_worker(gw_request *r)
{
    r->job.until_ms = hw_clock_mono_ms() + ANSWER_MS;
    if (!gw_pool_put(r->gateway->pool, &r->job))
        refuse_busy(r);
}

void gw_request_done(gw_request *r, int status, const howdah_error *err)
{
    conclude(r, status, err);
    resume(r);
}

static void submit(gw_request *r)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    bool answers = !r->unsure || ((r->route->flags & GW_UNSURE) && gw_access_is_local(r->gateway));
    int s = answers ? gw_scope_check_route(r, NULL, &err) : GW_AGAIN;

    if (s == HOWDAH_OK)
        s = r->route->handler(r, NULL, &err);
    if (s == GW_SUBMITTED)
        return;
    if (s == GW_AGAIN)
        give_to_worker(r);
    else
        gw_request_done(r, s, &err);
}

bool gw_request_run(gw_request *r)
{
    howdah_error err = HOWDAH_ERROR_INIT;

    assert(r->state == GW_ARRIVING);
    atomic_store(&r->arrive_ms, 0);
    if (r->body_too_large) {
        refuse(r, 413, HOWDAH_LIMIT, "send it in parts",
               "the body is over the limit of %" PRId64 " bytes", r->gateway->options.body_max);
        return false;
    }
    if (hw_buf_check(&r->body, &err) < 0) {
        gw_answer_error(r, &err);
        return false;
    }
    if (!(r->route->flags & GW_NO_STORE)) {
        r->state = GW_WORKING;
        MHD_suspend_connection(r->connection);
        if (r->route->flags & GW_SUBMITS)
            submit(r);
        else
            give_to_worker(r);
        return true;
    }
    conclude(r, r->route->handler(r, NULL, &err), &err);
    return false;
}

void gw_request_again(gw_request *r)
{
    give_to_worker(r);
}
