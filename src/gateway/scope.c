/* scope.c - see scope.h. */
#include "gateway/scope.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "base/text.h"
#include "gateway/routes.h"

/* ------------------------------------------------------------------ inclusion */

/* The next segment; at moves behind its dot.  Without one: s is NULL. */
static hw_str next_segment(const char **at)
{
    const char *begin = *at;
    size_t n;

    if (!begin)
        return HW_STR_NULL;
    n = strcspn(begin, ".");
    *at = begin[n] == '.' ? begin + n + 1 : NULL;
    return (hw_str){begin, n};
}

static bool is(hw_str segment, char c)
{
    return segment.len == 1 && segment.s[0] == c;
}

bool gw_pattern_inside(const char *pattern, const char *outer)
{
    for (;;) {
        hw_str inner = next_segment(&pattern);
        hw_str limit = next_segment(&outer);

        if (!inner.s || !limit.s)
            return !inner.s && !limit.s;
        if (is(limit, '>') && !outer) /* one more segment at least, which there is */
            return true;
        if (is(inner, '>') && !pattern)
            return false;
        if (!is(limit, '*') && (is(inner, '*') || !hw_str_equal(inner, limit)))
            return false;
    }
}

bool gw_name_inside(const char *name, const char *outer)
{
    size_t n = strlen(outer);

    if (n > 0 && outer[n - 1] == '*')
        return strncmp(name, outer, n - 1) == 0;
    return strcmp(name, outer) == 0;
}

typedef bool inside_fn(const char *text, const char *outer);

/* An empty list limits nothing; what is not named could be anything. */
static bool inside_any(const char *text, const char *const *list, size_t n, inside_fn *inside)
{
    for (size_t i = 0; text && *text && i < n; i++)
        if (inside(text, list[i]))
            return true;
    return n == 0;
}

/* --------------------------------------------------------------------- truths */

bool gw_scope_is_limited(const gw_request *r)
{
    const gw_token *t = r->token;

    return t && t->patterns_n + t->streams_n + t->queues_n > 0;
}

bool gw_scope_has_queue(const gw_request *r, const char *queue)
{
    const gw_token *t = r->token;

    return !t || inside_any(queue, t->queues, t->queues_n, gw_name_inside);
}

/* A type has no wildcards: it is a pattern that matches itself. */
bool gw_scope_has_type(const gw_request *r, const char *type, const char *stream)
{
    return gw_scope_has_filter(r, type, NULL, stream);
}

bool gw_scope_has_event(const gw_request *r, const howdah_event *event)
{
    return gw_scope_has_type(r, howdah_event_type(event), howdah_event_stream(event));
}

bool gw_scope_has_filter(const gw_request *r, const char *type, const char *pattern,
                         const char *stream)
{
    const gw_token *t = r->token;

    if (!t)
        return true;
    return (inside_any(type, t->patterns, t->patterns_n, gw_pattern_inside) ||
            inside_any(pattern, t->patterns, t->patterns_n, gw_pattern_inside)) &&
           inside_any(stream, t->streams, t->streams_n, gw_name_inside);
}

bool gw_scope_has_dead_letter(const gw_request *r, const howdah_dead_letter *dl)
{
    return dl->event ? gw_scope_has_event(r, dl->event) : gw_scope_has_queue(r, dl->queue);
}

/* -------------------------------------------------------------------- errors */

static int out_of_scope(gw_request *r, const char *field, const char *what, howdah_error *reterr)
{
    int s =
        hw_fail_field(reterr, HOWDAH_DENIED, field, "%s is outside of this token's scope", what);

    r->refused = 403;
    return hw_advise(reterr, s, "narrow the request, or use a token with another --%s", field);
}

int gw_scope_check_queue(gw_request *r, const char *queue, howdah_error *reterr)
{
    return gw_scope_has_queue(r, queue) ? HOWDAH_OK : out_of_scope(r, "queue", "the queue", reterr);
}

int gw_scope_check_filter(gw_request *r, const char *type, const char *pattern, const char *stream,
                          howdah_error *reterr)
{
    const gw_token *t = r->token;

    if (gw_scope_has_filter(r, type, pattern, stream))
        return HOWDAH_OK;
    if (!inside_any(stream, t->streams, t->streams_n, gw_name_inside))
        return out_of_scope(r, "stream", stream ? "the stream" : "what is on all streams", reterr);
    return out_of_scope(r, "pattern", type || pattern ? "the type or pattern" : "every type",
                        reterr);
}

int gw_scope_check_event(gw_request *r, const howdah_event *event, howdah_error *reterr)
{
    return gw_scope_check_filter(r, howdah_event_type(event), NULL, howdah_event_stream(event),
                                 reterr);
}

typedef struct finding {
    gw_request *r;
    howdah_error *reterr;
    int status;
} finding;

static int on_subscription(void *ctx, const howdah_subscription_info *info)
{
    finding *f = ctx;

    f->status = gw_scope_check_filter(f->r, NULL, info->pattern, info->stream, f->reterr);
    return 1;
}

int gw_scope_check_subscription(gw_request *r, howdah_bus *bus, const char *name,
                                howdah_error *reterr)
{
    finding f = {r, reterr, HOWDAH_OK};
    int s = HOWDAH_OK;

    if (r->token && r->token->patterns_n + r->token->streams_n > 0)
        s = howdah_subscriptions_walk(bus, name, on_subscription, &f, reterr);
    return f.status < 0 ? f.status : s;
}

/* -------------------------------------------------------------------- by id */

static int find_event(gw_request *r, howdah_bus *bus, const char *id, howdah_error *reterr)
{
    howdah_event *event = NULL;
    int s;

    if (!r->token || r->token->patterns_n + r->token->streams_n == 0)
        return HOWDAH_OK;
    s = howdah_event_get(bus, id, &event, reterr);
    if (s >= 0 && !gw_scope_has_event(r, event))
        s = hw_fail(reterr, HOWDAH_NOT_FOUND, "there is no event with this id");
    howdah_event_free(event);
    return s;
}

static int find_job(gw_request *r, howdah_bus *bus, int64_t id, howdah_error *reterr)
{
    howdah_job *job = NULL;
    int s;

    if (!r->token || r->token->queues_n == 0)
        return HOWDAH_OK;
    s = howdah_job_get(bus, id, &job, reterr);
    if (s >= 0 && !gw_scope_has_queue(r, howdah_job_queue(job)))
        s = hw_fail(reterr, HOWDAH_NOT_FOUND, "there is no job %" PRId64, id);
    howdah_job_free(job);
    return s;
}

static int on_dead_letter(void *ctx, const howdah_dead_letter *dl)
{
    finding *f = ctx;

    f->status = gw_scope_has_dead_letter(f->r, dl) ? HOWDAH_OK : HOWDAH_NOT_FOUND;
    return 1;
}

int gw_scope_find_dead_letter(gw_request *r, howdah_bus *bus, int64_t id, howdah_error *reterr)
{
    howdah_dead_letters_options o = HOWDAH_DEAD_LETTERS_OPTIONS_INIT;
    finding f = {r, reterr, HOWDAH_NOT_FOUND};
    int s;

    if (!gw_scope_is_limited(r))
        return HOWDAH_OK;
    o.id = id;
    o.resolved = true;
    s = howdah_dead_letters_walk(bus, &o, on_dead_letter, &f, reterr);
    if (s >= 0 && f.status < 0)
        s = hw_fail(reterr, HOWDAH_NOT_FOUND, "there is no dead letter %" PRId64, id);
    return s;
}

/* ------------------------------------------------------------------- routes */

/* Filters of arguments, and of a stream in the path. */
static int check_arguments(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    const char *stream = strstr(r->route->path, "{stream}") ? r->vars[0] : gw_arg_text(r, "stream");

    (void)bus;
    if (strcmp(r->route->method, "POST") == 0)
        return HOWDAH_OK; /* events of a body: its handler */
    return gw_scope_check_filter(r, gw_arg_text(r, "type"), gw_arg_text(r, "pattern"), stream,
                                 reterr);
}

static int check_event_id(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    return find_event(r, bus, r->vars[0], reterr);
}

/* A new one is judged by what its body says. */
static int check_subscription_name(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    if (strcmp(r->route->method, "PUT") == 0)
        return HOWDAH_OK;
    return gw_scope_check_subscription(r, bus, r->vars[0], reterr);
}

static int check_queue_name(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    (void)bus;
    return gw_scope_check_queue(r, r->vars[0], reterr);
}

static int check_binding(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    int s = check_queue_name(r, bus, reterr);

    return s < 0 ? s : gw_scope_check_filter(r, NULL, r->vars[1], NULL, reterr);
}

/* What is no number is the handler's to refuse. */
static int check_job_id(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    int64_t id;

    return hw_parse_i64(r->vars[0], 1, INT64_MAX, &id) ? find_job(r, bus, id, reterr) : HOWDAH_OK;
}

static int check_dead_letter_id(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    int64_t id;

    if (!hw_parse_i64(r->vars[0], 1, INT64_MAX, &id))
        return HOWDAH_OK;
    return gw_scope_find_dead_letter(r, bus, id, reterr);
}

/* Lists leave out what is out of scope, and what a body names is checked when it was read. */
static int check_nothing(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    (void)r;
    (void)bus;
    (void)reterr;
    return HOWDAH_OK;
}

typedef struct rule {
    const char *path; /* of a route, or its beginning up to a slash */
    int (*check)(gw_request *r, howdah_bus *bus, howdah_error *reterr);
} rule;

/* The first that fits counts. */
static const rule rules[] = {
    {"/v1/events/{id}", check_event_id},
    {"/v1/events", check_arguments},
    {"/v1/streams/{stream}", check_arguments},
    {"/v1/diff", check_arguments},
    {"/v1/subscriptions/{name}", check_subscription_name},
    {"/v1/subscriptions", check_nothing},
    {"/v1/queues/{queue}", check_queue_name},
    {"/v1/queues", check_nothing},
    {"/v1/jobs/{id}", check_job_id},
    {"/v1/bindings/{queue}/{pattern}", check_binding},
    {"/v1/bindings", check_nothing},
    {"/v1/dead-letters/{id}", check_dead_letter_id},
    {"/v1/dead-letters", check_nothing},
};

int gw_scope_check_route(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    const char *path = r->route->path;
    int s;

    if (!gw_scope_is_limited(r))
        return HOWDAH_OK;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        size_t n = strlen(rules[i].path);

        if (strncmp(path, rules[i].path, n) == 0 && (path[n] == '\0' || path[n] == '/'))
            return rules[i].check(r, bus, reterr);
    }
    s = hw_fail(reterr, HOWDAH_DENIED, "this is not for a token that is limited");
    r->refused = 403;
    return s;
}
