/*
 * read.c - events: pages of the log and of streams, questions about both times, one event.
 *
 *   I1  A page is bounded in events and in bytes, whatever the client asks for.  JSON gets one page
 *       and the address of the next; JSON lines get page after page, each read when the client has
 *       taken the one before.
 *   I2  A question about both times is answered for one moment, so its answer cannot be continued
 *       by another request: it comes whole, or is refused as too large.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/json_write.h"
#include "base/mem.h"
#include "face/events.h"
#include "gateway/handlers.h"
#include "gateway/stream.h"

#define PAGE_DEFAULT 100
#define PAGE_MAX 1000
#define PAGE_BYTES ((size_t)4 * 1024 * 1024)
#define PIECE_BYTES ((size_t)256 * 1024)
#define ANSWER_BYTES ((size_t)64 * 1024 * 1024)
#define LINES "application/x-ndjson"
#define LISTED(name) gw_arg_given(r, name)

/* ------------------------------------------------------------- what is asked */

/* A plain reading of the log or of a stream: its texts are the request's. */
typedef struct reading {
    howdah_reader_options options;
    int64_t left; /* events; HOWDAH_ABSENT: no limit */
    int64_t last; /* the position of the last one that was put; 0: none */
    bool nothing; /* the positions leave none */
} reading;

/* since, from and to are positions like any other; the library's 0 is "open". */
static int take_range(const gw_request *r, reading *q, howdah_error *reterr)
{
    int64_t since = 0;
    int64_t to = HOWDAH_ABSENT;
    int s = gw_arg_number(r, "from", 0, INT64_MAX, &q->options.from, reterr);

    if (s >= 0)
        s = gw_arg_number(r, "since", 0, INT64_MAX, &since, reterr);
    if (s >= 0)
        s = gw_arg_number(r, "to", 0, INT64_MAX, &to, reterr);
    if (s < 0)
        return s;
    if (LISTED("since") && LISTED("from"))
        return hw_fail_field(reterr, HOWDAH_INVALID, "since", "since and from exclude each other");
    if (LISTED("since")) {
        q->nothing = since == INT64_MAX;
        q->options.from = q->nothing ? since : since + 1;
    }
    if (to != HOWDAH_ABSENT) {
        q->nothing = q->nothing || to == 0 || to < q->options.from;
        q->options.to = to;
    }
    return HOWDAH_OK;
}

static int take_reading(const gw_request *r, const char *stream, bool lines, reading *q,
                        howdah_error *reterr)
{
    int64_t limit = lines ? HOWDAH_ABSENT : PAGE_DEFAULT;
    int s;

    *q = (reading){.options = HOWDAH_READER_OPTIONS_INIT};
    q->options.stream = stream;
    q->options.type = gw_arg_text(r, "type");
    q->options.pattern = gw_arg_text(r, "pattern");
    q->options.correlation_id = gw_arg_text(r, "correlation");
    s = gw_arg_flag(r, "backward", &q->options.backward, reterr);
    if (s >= 0)
        s = take_range(r, q, reterr);
    if (s >= 0)
        s = gw_arg_number(r, "limit", 0, lines ? INT64_MAX : PAGE_MAX, &limit, reterr);
    q->left = limit;
    return s;
}

/* ------------------------------------------------------------------- pages */

/* After the last one that was put; false: the positions leave nothing. */
static bool move_on(reading *q)
{
    if (q->options.backward) {
        q->options.to = q->last - 1;
        return q->last > 1 && q->options.to >= q->options.from;
    }
    if (q->last == INT64_MAX)
        return false;
    q->options.from = q->last + 1;
    return q->options.to == 0 || q->options.from <= q->options.to;
}

/* One page, of *ret_n events.  HOWDAH_OK: there may be more; HOWDAH_END: there is none at the
   moment. separator: between two of them; after: behind each. */
static int put_page(howdah_bus *bus, reading *q, size_t bytes_max, const char *separator,
                    const char *after, hw_buf *out, int64_t *ret_n, howdah_error *reterr)
{
    howdah_reader_options o = q->options;
    howdah_reader *reader = NULL;
    const howdah_event *event = NULL;
    size_t begun = out->len;
    int64_t n = 0;
    int s;

    *ret_n = 0;
    o.limit = q->left == HOWDAH_ABSENT || q->left > PAGE_MAX ? PAGE_MAX : q->left;
    if (q->nothing || o.limit == 0)
        return HOWDAH_END;
    s = howdah_reader_open(bus, &o, &reader, reterr);
    while (s == HOWDAH_OK && n < o.limit && out->len - begun < bytes_max &&
           (s = howdah_reader_next(reader, &event, reterr)) == HOWDAH_OK) {
        hw_buf_puts(out, n > 0 ? separator : "");
        s = face_event_json(event, out, reterr);
        hw_buf_puts(out, after);
        q->last = o.stream ? howdah_event_version(event) : howdah_event_global_sequence(event);
        n++;
    }
    howdah_reader_close(reader);
    if (s < 0)
        return s;
    *ret_n = n;
    if (q->left != HOWDAH_ABSENT)
        q->left -= n;
    return s == HOWDAH_END || n == 0 || !move_on(q) ? HOWDAH_END : HOWDAH_OK;
}

/* ------------------------------------------------------------------- lines */

static int produce_lines(void *ctx, gw_request *r, howdah_bus *bus, hw_buf *out,
                         howdah_error *reterr)
{
    reading *q = ctx;
    int64_t n;
    int s = put_page(bus, q, PIECE_BYTES, "", "\n", out, &n, reterr);

    (void)r;
    return s == HOWDAH_OK && q->left == 0 ? HOWDAH_END : s;
}

static int answer_lines(gw_request *r, howdah_bus *bus, const reading *q, howdah_error *reterr)
{
    reading *own = hw_alloc(sizeof *own);

    if (!own)
        return hw_fail_no_memory(reterr);
    *own = *q; /* its texts live as long as the request */
    return gw_answer_pieces(r, bus, LINES, produce_lines, own, hw_free, reterr);
}

/* ------------------------------------------------------------------- a page */

static void put_escaped(hw_buf *out, const char *text)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;

        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
            strchr("-._~", c))
            hw_buf_putc(out, (char)c);
        else
            hw_buf_printf(out, "%%%02X", c);
    }
}

/* The same question, from where this page ended. */
static void put_next(hw_buf *out, const gw_request *r, const reading *q)
{
    size_t path_len = strcspn(r->url, "?");

    hw_buf_put(out, r->url, path_len);
    hw_buf_printf(out, "?%s=%" PRId64, q->options.backward ? "to" : "since",
                  q->options.backward ? q->options.to : q->last);
    for (size_t i = 0; i < r->args_n; i++) {
        const char *name = r->args[i].name;

        if (strcmp(name, q->options.backward ? "to" : "since") == 0 ||
            (!q->options.backward && strcmp(name, "from") == 0))
            continue;
        hw_buf_printf(out, "&%s=", name);
        put_escaped(out, r->args[i].value);
    }
}

/* "next" and the header Link say where to go on; null: here is the end for now. */
static int answer_page(gw_request *r, howdah_bus *bus, reading *q, howdah_error *reterr)
{
    hw_buf next = HW_BUF_INIT(32768);
    hw_buf *out = &r->answer.body;
    int64_t n = 0;
    int s;

    hw_buf_puts(out, "{\"events\":[");
    s = put_page(bus, q, PAGE_BYTES, ",", "", out, &n, reterr);
    if (s < 0)
        return s;
    hw_buf_puts(out, "]");
    if (s == HOWDAH_OK)
        put_next(&next, r, q);
    hw_json_write_text(out, "next", next.len > 0 ? hw_str_of(hw_buf_str(&next)) : HW_STR_NULL);
    hw_buf_puts(out, "}\n");
    if (next.len > 0)
        gw_answer_header(r, "Link", "<%s>; rel=\"next\"", hw_buf_str(&next));
    hw_buf_done(&next);
    gw_answer_json(r, 200);
    return HOWDAH_OK;
}

/* -------------------------------------------------------------- both times */

static const char *const query_args[] = {
    "valid_at",     "known_at",      "current",         "originals", "versions",  "valid_from",
    "valid_before", "recorded_from", "recorded_before", "order",     "causation", "header"};

static bool is_query(const gw_request *r)
{
    for (size_t i = 0; i < sizeof query_args / sizeof *query_args; i++)
        if (LISTED(query_args[i]))
            return true;
    return false;
}

static int take_order(const gw_request *r, howdah_query_options *o, howdah_error *reterr)
{
    static const char *const names[] = {"sequence", "valid", "recorded"};
    const char *given = gw_arg_text(r, "order");

    for (int i = 0; given && i < 3; i++)
        if (strcmp(given, names[i]) == 0) {
            o->order = (howdah_order)i;
            return HOWDAH_OK;
        }
    return given
               ? hw_fail_field(reterr, HOWDAH_INVALID, "order",
                               "expected sequence, valid or recorded; got %zu bytes", strlen(given))
               : HOWDAH_OK;
}

static int take_view(const gw_request *r, howdah_query_options *o, howdah_error *reterr)
{
    bool current = false;
    bool originals = false;
    int s = gw_arg_flag(r, "current", &current, reterr);

    if (s >= 0)
        s = gw_arg_flag(r, "originals", &originals, reterr);
    if (s < 0)
        return s;
    if (current && LISTED("known_at"))
        return hw_fail_field(reterr, HOWDAH_INVALID, "current",
                             "current and known_at exclude each other");
    if (originals && (current || LISTED("known_at") || LISTED("valid_at")))
        return hw_fail_field(reterr, HOWDAH_INVALID, "originals",
                             "originals and as-of exclude each other");
    if (current || LISTED("known_at") || LISTED("valid_at"))
        o->view = HOWDAH_VIEW_AS_OF;
    else if (originals)
        o->view = HOWDAH_VIEW_ORIGINALS;
    return HOWDAH_OK;
}

static int take_moments(const gw_request *r, howdah_query_options *o, howdah_error *reterr)
{
    const struct {
        const char *name;
        int64_t *time_us;
    } times[] = {
        {"valid_at", &o->valid_at_us},           {"known_at", &o->known_at_us},
        {"valid_from", &o->valid_from_us},       {"valid_before", &o->valid_before_us},
        {"recorded_from", &o->recorded_from_us}, {"recorded_before", &o->recorded_before_us},
    };

    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        int s = gw_arg_time(r, times[i].name, times[i].time_us, reterr);

        if (s < 0)
            return s;
    }
    return HOWDAH_OK;
}

/* header=NAME=VALUE, any number of times: pairs[] gets names (own copies) and values. */
static int take_headers(const gw_request *r, const char *pairs[2 * HOWDAH_QUERY_HEADERS_MAX],
                        size_t *ret_n, howdah_error *reterr)
{
    size_t n = 0;

    for (size_t i = 0; i < r->args_n; i++) {
        const char *value = r->args[i].value;
        const char *equals = strchr(value, '=');

        if (strcmp(r->args[i].name, "header") != 0)
            continue;
        if (!equals || equals == value)
            return hw_fail_field(reterr, HOWDAH_INVALID, "header", "expected NAME=VALUE");
        if (n == HOWDAH_QUERY_HEADERS_MAX)
            return hw_fail_field(reterr, HOWDAH_INVALID, "header", "more than %d",
                                 HOWDAH_QUERY_HEADERS_MAX);
        pairs[2 * n] = hw_strndup(value, (size_t)(equals - value));
        pairs[2 * n + 1] = equals + 1;
        if (!pairs[2 * n])
            return hw_fail_no_memory(reterr);
        *ret_n = ++n;
    }
    return HOWDAH_OK;
}

static int take_query(const gw_request *r, howdah_query_options *o, howdah_error *reterr)
{
    int64_t limit = HOWDAH_ABSENT;
    int s;

    o->stream = gw_arg_text(r, "stream");
    o->type = gw_arg_text(r, "type");
    o->pattern = gw_arg_text(r, "pattern");
    o->correlation_id = gw_arg_text(r, "correlation");
    o->causation_id = gw_arg_text(r, "causation");
    o->family = gw_arg_text(r, "versions");
    if (LISTED("from") || LISTED("to") || LISTED("since"))
        return hw_fail_field(reterr, HOWDAH_INVALID, "since",
                             "a question about times has no positions");
    s = take_view(r, o, reterr);
    if (s >= 0)
        s = take_moments(r, o, reterr);
    if (s >= 0)
        s = take_order(r, o, reterr);
    if (s >= 0)
        s = gw_arg_flag(r, "backward", &o->backward, reterr);
    if (s >= 0)
        s = gw_arg_number(r, "limit", 1, INT64_MAX, &limit, reterr);
    o->limit = limit == HOWDAH_ABSENT ? 0 : limit;
    return s;
}

static void put_knowledge(hw_buf *out, const howdah_knowledge *k)
{
    hw_buf_printf(out, ",\"final\":%s", k->final ? "true" : "false");
    hw_json_write_time(out, "asked_at", k->asked_at_us);
    if (k->waits_for[0])
        hw_json_write_text(out, "waits_for", hw_str_of(k->waits_for));
}

static int put_answer(gw_request *r, howdah_reader *reader, bool lines, howdah_error *reterr)
{
    const howdah_event *event = NULL;
    hw_buf *out = &r->answer.body;
    bool first = true;
    int s;

    while ((s = howdah_reader_next(reader, &event, reterr)) == HOWDAH_OK) {
        hw_buf_puts(out, first || lines ? "" : ",");
        s = face_event_json(event, out, reterr);
        hw_buf_puts(out, lines ? "\n" : "");
        first = false;
        if (s < 0)
            return s;
        if (out->len > ANSWER_BYTES) { /* I2 */
            s = hw_fail(reterr, HOWDAH_LIMIT, "the answer is over %zu bytes", ANSWER_BYTES);
            return hw_advise(reterr, s, "narrow it by stream, type or limit");
        }
    }
    return s < 0 ? s : HOWDAH_OK;
}

static int answer_query(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    howdah_query_options o = HOWDAH_QUERY_OPTIONS_INIT;
    howdah_knowledge k = HOWDAH_KNOWLEDGE_INIT;
    const char *pairs[2 * HOWDAH_QUERY_HEADERS_MAX] = {NULL};
    howdah_reader *reader = NULL;
    bool lines = gw_accepts(r, LINES);
    int s = take_headers(r, pairs, &o.headers_n, reterr);

    o.headers = pairs;
    if (s >= 0)
        s = take_query(r, &o, reterr);
    if (s >= 0)
        s = howdah_query_open(bus, &o, &reader, reterr);
    if (s >= 0)
        (void)howdah_reader_knowledge(reader, &k);
    hw_buf_puts(&r->answer.body, lines ? "" : "{\"events\":[");
    if (s >= 0)
        s = put_answer(r, reader, lines, reterr);
    howdah_reader_close(reader);
    for (size_t i = 0; i < o.headers_n; i++)
        hw_free((char *)(uintptr_t)pairs[2 * i]);
    if (s < 0)
        return s;
    gw_answer_json(r, 200);
    gw_answer_header(r, "X-Howdah-Final", "%s", k.final ? "true" : "false");
    if (lines) {
        r->answer.content_type = LINES;
        return HOWDAH_OK;
    }
    hw_buf_puts(&r->answer.body, "]");
    put_knowledge(&r->answer.body, &k);
    hw_buf_puts(&r->answer.body, ",\"next\":null}\n");
    return HOWDAH_OK;
}

/* ----------------------------------------------------------------- handlers */

static int read_plain(gw_request *r, howdah_bus *bus, const char *stream, howdah_error *reterr)
{
    bool lines = gw_accepts(r, LINES);
    reading q;
    int s = take_reading(r, stream, lines, &q, reterr);

    if (s < 0)
        return s;
    return lines ? answer_lines(r, bus, &q, reterr) : answer_page(r, bus, &q, reterr);
}

int gw_events_read(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    return is_query(r) ? answer_query(r, bus, reterr)
                       : read_plain(r, bus, gw_arg_text(r, "stream"), reterr);
}

int gw_stream_read(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    return read_plain(r, bus, r->vars[0], reterr);
}

/* An event never changes, but for being purged: that is a part of its tag. */
int gw_event_get(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    const char *known = gw_header(r, "If-None-Match");
    howdah_event *event = NULL;
    char id[HOWDAH_UUID_SIZE];
    char tag[HOWDAH_UUID_SIZE + 16];
    int s = howdah_event_get(bus, r->vars[0], &event, reterr);

    if (s < 0)
        return s;
    howdah_event_id(event, id);
    (void)snprintf(tag, sizeof tag, "\"%s%s\"", id, howdah_event_is_purged(event) ? "-purged" : "");
    gw_answer_header(r, "ETag", "%s", tag);
    gw_answer_header(r, "Cache-Control", "no-cache"); /* ask again: it may have been purged */
    if (known && strstr(known, tag)) {
        r->answer.http_status = 304;
    } else {
        s = face_event_json(event, &r->answer.body, reterr);
        hw_buf_putc(&r->answer.body, '\n');
        gw_answer_json(r, 200);
    }
    howdah_event_free(event);
    return s;
}

typedef struct walk {
    hw_buf *out;
    howdah_error *err;
    int64_t n;
    int status;
    howdah_knowledge knowledge; /* of a diff: it is there before the first change */
} walk;

/* Too much is an error, not a part of the answer. */
static int check_room(walk *w)
{
    if (w->status >= 0 && w->out->len > ANSWER_BYTES)
        w->status = hw_fail(w->err, HOWDAH_LIMIT, "the answer is over %zu bytes", ANSWER_BYTES);
    return w->status < 0;
}

static int on_caused(void *ctx, int depth, const howdah_event *event)
{
    walk *w = ctx;

    hw_buf_puts(w->out, w->n++ > 0 ? "," : "");
    w->status = face_trace_json(depth, event, w->out, w->err);
    return check_room(w);
}

int gw_event_trace(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    walk w = {&r->answer.body, reterr, 0, HOWDAH_OK, HOWDAH_KNOWLEDGE_INIT};
    int s;

    hw_buf_puts(w.out, "{\"events\":[");
    s = howdah_causation_walk(bus, r->vars[0], on_caused, &w, reterr);
    hw_buf_puts(w.out, "]}\n");
    gw_answer_json(r, 200);
    return w.status < 0 ? w.status : s;
}

static int on_change(void *ctx, howdah_change change, const howdah_event *before,
                     const howdah_event *after)
{
    walk *w = ctx;

    hw_buf_puts(w->out, w->n++ > 0 ? "," : "");
    w->status = face_change_json(change, before, after, w->knowledge.final, w->out, w->err);
    return check_room(w);
}

/* Asked for before the first change, each of which says it; what is final then stays so. */
static int ask_knowledge(howdah_bus *bus, const howdah_diff_options *diff, walk *w,
                         howdah_error *reterr)
{
    howdah_query_options o = HOWDAH_QUERY_OPTIONS_INIT;
    howdah_reader *reader = NULL;
    int s;

    if (diff->to_us == HOWDAH_NO_TIME)
        return HOWDAH_OK;
    o.view = HOWDAH_VIEW_AS_OF;
    o.known_at_us = diff->to_us;
    o.limit = 1;
    s = howdah_query_open(bus, &o, &reader, reterr);
    if (s >= 0)
        (void)howdah_reader_knowledge(reader, &w->knowledge);
    howdah_reader_close(reader);
    return s;
}

int gw_diff(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    howdah_diff_options o = HOWDAH_DIFF_OPTIONS_INIT;
    walk w = {&r->answer.body, reterr, 0, HOWDAH_OK, HOWDAH_KNOWLEDGE_INIT};
    int s = gw_arg_time(r, "known_at", &o.known_at_us, reterr);

    o.stream = gw_arg_text(r, "stream");
    o.type = gw_arg_text(r, "type");
    o.pattern = gw_arg_text(r, "pattern");
    if (s >= 0 && !LISTED("known_at"))
        s = hw_fail_field(reterr, HOWDAH_INVALID, "known_at", "is needed: the earlier moment");
    if (s >= 0)
        s = gw_arg_time(r, "to", &o.to_us, reterr);
    if (s >= 0)
        s = gw_arg_number(r, "limit", 1, INT64_MAX, &o.limit, reterr);
    hw_buf_puts(w.out, "{\"changes\":[");
    if (s >= 0)
        s = ask_knowledge(bus, &o, &w, reterr);
    if (s >= 0)
        s = howdah_diff(bus, &o, on_change, &w, NULL, reterr);
    hw_buf_puts(w.out, "]");
    put_knowledge(w.out, &w.knowledge);
    hw_buf_puts(w.out, "}\n");
    gw_answer_json(r, 200);
    return w.status < 0 ? w.status : s;
}
