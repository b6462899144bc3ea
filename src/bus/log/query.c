/*
 * query.c - queries over two times, counts, types and streams.
 *
 *   I1  Options are judged here, once for all stores; no query contradicts itself.
 *   I2  What an answer is worth is found out before its first row is read: see store/times.h.
 */
#include "bus/log/query.h"

#include <assert.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/sized.h"
#include "engine/pattern.h"
#include "engine/rules.h"

/* A test's store may have one time only; both engines have two. */
int hw_times_check(const howdah_bus *bus, const char *call, howdah_error *reterr)
{
    if (!bus->store->ops->times)
        return hw_fail(reterr, HOWDAH_MISUSE, "%s: this store does not have two times", call);
    return HOWDAH_OK;
}

/* ---------------------------------------------------------------- knowledge */

/*
 * The future is judged by the database's clock, which gives the recorded times; ours may be off.
 */
int hw_knowledge_ask(howdah_bus *bus, const char *field, int64_t known_at_us,
                     howdah_knowledge *ret_knowledge, howdah_error *reterr)
{
    howdah_knowledge knowledge = HOWDAH_KNOWLEDGE_INIT;
    int s;

    assert(bus->store->ops->times); /* hw_times_check() */
    if (known_at_us < HW_TIME_MIN_US || known_at_us > HW_TIME_MAX_US)
        return hw_fail_field(reterr, HOWDAH_INVALID, field, "must be within the years 1 to 9999");
    s = bus->store->ops->times->knowledge(bus->store, known_at_us, &knowledge, reterr);
    if (s < 0)
        return s;
    if (known_at_us > knowledge.asked_at_us) {
        s = hw_fail_field(reterr, HOWDAH_INVALID, field,
                          "is in the future, by the database's clock");
        return hw_advise(reterr, s, "leave it out to ask for what is known now");
    }
    *ret_knowledge = knowledge;
    return HOWDAH_OK;
}

void hw_knowledge_give(const howdah_knowledge *knowledge, howdah_knowledge *ret_knowledge)
{
    if (ret_knowledge)
        (void)hw_sized_give(ret_knowledge, knowledge, sizeof *knowledge);
}

int howdah_reader_knowledge(const howdah_reader *reader, howdah_knowledge *ret_knowledge)
{
    return reader ? hw_sized_give(ret_knowledge, &reader->knowledge, sizeof reader->knowledge)
                  : HOWDAH_MISUSE;
}

/* ------------------------------------------------------------------ options */

/* A pattern without a wildcard becomes a type here: stores count on it. */
static int take_names(const howdah_query_options *o, hw_times_query *q, howdah_error *reterr)
{
    int s = HOWDAH_OK;

    q->stream = hw_str_of(o->stream);
    q->type = hw_str_of(o->type);
    q->pattern = hw_str_of(o->pattern);
    q->correlation_id = hw_str_of(o->correlation_id);
    if (q->stream.s)
        s = hw_rule_stream(q->stream, reterr);
    if (s >= 0 && q->type.s)
        s = hw_rule_type(q->type, reterr);
    if (s >= 0 && q->pattern.s)
        s = hw_rule_pattern(q->pattern, reterr);
    if (s >= 0 && q->correlation_id.s)
        s = hw_rule_name("correlation_id", q->correlation_id, reterr);
    if (s >= 0 && o->causation_id) {
        q->has_causation = true;
        s = hw_parse_uuid("causation_id", o->causation_id, &q->causation_id, reterr);
    }
    hw_pattern_to_type(&q->type, &q->pattern);
    return s;
}

/* NO_TIME is "not given", and fine. */
static int check_time(const char *field, int64_t time_us, howdah_error *reterr)
{
    if (time_us != HOWDAH_NO_TIME && (time_us < HW_TIME_MIN_US || time_us > HW_TIME_MAX_US))
        return hw_fail_field(reterr, HOWDAH_INVALID, field, "must be within the years 1 to 9999");
    return HOWDAH_OK;
}

/* From is part of the span, before is not. */
static int take_span(const char *from_field, int64_t from, const char *before_field, int64_t before,
                     hw_time_span *ret_span, howdah_error *reterr)
{
    int s = check_time(from_field, from, reterr);

    if (s >= 0)
        s = check_time(before_field, before, reterr);
    if (s >= 0 && from != HOWDAH_NO_TIME && before != HOWDAH_NO_TIME && before < from)
        s = hw_fail_field(reterr, HOWDAH_INVALID, before_field, "is before %s", from_field);
    if (s >= 0)
        *ret_span = (hw_time_span){from, before};
    return s;
}

/* known_at is checked by hw_knowledge_ask(), with the database's clock. */
static int take_times(const howdah_query_options *o, hw_times_query *q, howdah_error *reterr)
{
    int s = take_span("valid_from", o->valid_from_us, "valid_before", o->valid_before_us, &q->valid,
                      reterr);

    if (s >= 0)
        s = take_span("recorded_from", o->recorded_from_us, "recorded_before",
                      o->recorded_before_us, &q->recorded, reterr);
    if (s >= 0 && o->view != HOWDAH_VIEW_AS_OF &&
        (o->valid_at_us != HOWDAH_NO_TIME || o->known_at_us != HOWDAH_NO_TIME))
        s = hw_fail_field(reterr, HOWDAH_INVALID,
                          o->valid_at_us != HOWDAH_NO_TIME ? "valid_at" : "known_at",
                          "needs the view AS_OF");
    if (s >= 0)
        s = check_time("valid_at", o->valid_at_us, reterr);
    q->valid_at = o->valid_at_us;
    q->known_at = o->known_at_us;
    return s;
}

/* headers is a list of names and values in turn: 2 * headers_n texts. */
static int take_headers(const howdah_query_options *o, hw_query_call *q, howdah_error *reterr)
{
    if (o->headers_n > HOWDAH_QUERY_HEADERS_MAX)
        return hw_fail_field(reterr, HOWDAH_LIMIT, "headers", "at most %d in a query, got %zu",
                             HOWDAH_QUERY_HEADERS_MAX, o->headers_n);
    if (o->headers_n > 0 && !o->headers)
        return hw_fail(reterr, HOWDAH_MISUSE, "a query's headers are NULL");
    for (size_t i = 0; i < o->headers_n; i++) {
        hw_header_is *h = &q->headers[i];
        int s;

        *h = (hw_header_is){hw_str_of(o->headers[2 * i]), hw_str_of(o->headers[2 * i + 1])};
        if (!h->name.s || !h->value.s)
            return hw_fail(reterr, HOWDAH_MISUSE, "a query's header is NULL");
        s = hw_rule_name("header", h->name, reterr);
        if (s < 0)
            return s;
    }
    q->query.headers = q->headers;
    q->query.headers_n = o->headers_n;
    return HOWDAH_OK;
}

/*
 * The family of the event that is named.  Any event of it will do, so the caller need not know
 * which one was first.
 */
static int take_family(howdah_bus *bus, const howdah_query_options *o, hw_query_call *q,
                       howdah_error *reterr)
{
    hw_store *store = bus->store;
    hw_cursor *cursor = NULL;
    const howdah_event *events = NULL;
    size_t n = 0;
    hw_uuid id;
    int s;

    if (!o->family)
        return HOWDAH_OK;
    s = hw_parse_uuid("id", o->family, &id, reterr);
    if (s >= 0)
        s = store->ops->read_open(store, &(hw_query){.ids = &id, .ids_n = 1, .batch = 1}, &cursor,
                                  reterr);
    if (s < 0)
        return s;
    s = store->ops->read_next(cursor, &events, &n, reterr);
    if (s == HOWDAH_OK)
        q->family = events[0].has_family ? events[0].family : events[0].id;
    else if (s == HOWDAH_END)
        s = hw_fail(reterr, HOWDAH_NOT_FOUND, "no event has this id");
    store->ops->read_close(cursor);
    q->query.families = &q->family;
    q->query.families_n = 1;
    return s;
}

/* Enums come from the caller: any number is possible. */
static int take_rest(const howdah_query_options *o, hw_times_query *q, howdah_error *reterr)
{
    if (o->view < HOWDAH_VIEW_LOG || o->view > HOWDAH_VIEW_ORIGINALS)
        return hw_fail_field(reterr, HOWDAH_INVALID, "view", "%d is not a view", (int)o->view);
    if (o->order < HOWDAH_ORDER_SEQUENCE || o->order > HOWDAH_ORDER_RECORDED)
        return hw_fail_field(reterr, HOWDAH_INVALID, "order", "%d is not an order", (int)o->order);
    if (o->limit < 0)
        return hw_fail_field(reterr, HOWDAH_INVALID, "limit", "must be 0 or more");
    q->view = o->view;
    q->order = o->order;
    q->backward = o->backward;
    q->limit = o->limit;
    return HOWDAH_OK;
}

/*
 * The order matters (I2): what is known is asked for before any event is read, so that nothing
 * can be added later to what the answer calls final. unpinned: where knowledge is final, pages
 * need no pin to be of one moment.
 */
int hw_query_call_make(howdah_bus *bus, const howdah_query_options *options, const char *call,
                       hw_query_call *ret_call, howdah_error *reterr)
{
    howdah_query_options own = HOWDAH_QUERY_OPTIONS_INIT;
    const howdah_query_options *o = &own;
    hw_query_call *q = ret_call;
    int s = hw_times_check(bus, call, reterr);

    if (s >= 0)
        s = hw_sized_take(&own, sizeof own, options, call, reterr);
    if (s < 0)
        return s;
    *q = (hw_query_call){.query = HW_TIMES_QUERY_INIT, .knowledge = HOWDAH_KNOWLEDGE_INIT};
    s = take_rest(o, &q->query, reterr);
    if (s >= 0)
        s = take_names(o, &q->query, reterr);
    if (s >= 0)
        s = take_times(o, &q->query, reterr);
    if (s >= 0)
        s = take_headers(o, q, reterr);
    if (s >= 0 && o->known_at_us != HOWDAH_NO_TIME)
        s = hw_knowledge_ask(bus, "known_at", o->known_at_us, &q->knowledge, reterr);
    q->query.unpinned = o->known_at_us != HOWDAH_NO_TIME && q->knowledge.final;
    return s < 0 ? s : take_family(bus, o, q, reterr);
}

/* ---------------------------------------------------------------- questions */

/* What the answer is worth stays with the reader, for howdah_reader_knowledge(). */
int howdah_query_open(howdah_bus *bus, const howdah_query_options *options,
                      howdah_reader **ret_reader, howdah_error *reterr)
{
    HW_ENTRY(entry);
    hw_query_call q;
    howdah_reader *reader = NULL;
    int s = hw_enter(&entry, &bus, HW_READS, "howdah_query_open", reterr);

    if (s < 0)
        return s;
    if (!ret_reader)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_query_open: an argument is NULL");
    s = hw_query_call_make(bus, options, "howdah_query_open", &q, reterr);
    if (s >= 0)
        s = hw_reader_open_times(bus, &q.query, &reader, reterr);
    if (s < 0)
        return s;
    reader->knowledge = q.knowledge;
    *ret_reader = reader;
    return HOWDAH_OK;
}

/* The limit is applied to the number afterwards: a store counts the whole answer. */
int howdah_query_count(howdah_bus *bus, const howdah_query_options *options, int64_t *ret_count,
                       howdah_knowledge *ret_knowledge, howdah_error *reterr)
{
    HW_ENTRY(entry);
    hw_query_call q;
    int64_t limit;
    int64_t count = 0;
    int s = hw_enter(&entry, &bus, HW_READS, "howdah_query_count", reterr);

    if (s < 0)
        return s;
    if (!ret_count)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_query_count: an argument is NULL");
    s = hw_sized_check(ret_knowledge, "howdah_query_count", reterr);
    if (s >= 0)
        s = hw_query_call_make(bus, options, "howdah_query_count", &q, reterr);
    if (s < 0)
        return s;
    limit = q.query.limit;
    q.query.limit = 0;
    s = bus->store->ops->times->count(bus->store, &q.query, &count, reterr);
    if (s < 0)
        return s;
    *ret_count = limit > 0 && limit < count ? limit : count;
    hw_knowledge_give(&q.knowledge, ret_knowledge);
    return HOWDAH_OK;
}

/* A count for each type, so order and limit would mean nothing: they are refused, not ignored. */
int howdah_types_walk(howdah_bus *bus, const howdah_query_options *options,
                      int (*fn)(void *ctx, const howdah_type_stats *stats), void *ctx,
                      howdah_error *reterr)
{
    HW_ENTRY(entry);
    hw_query_call q;
    int s = hw_enter(&entry, &bus, HW_READS, "howdah_types_walk", reterr);

    if (s < 0)
        return s;
    if (!fn)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_types_walk: an argument is NULL");
    s = hw_query_call_make(bus, options, "howdah_types_walk", &q, reterr);
    if (s >= 0 && (q.query.limit > 0 || q.query.backward || q.query.order != HOWDAH_ORDER_SEQUENCE))
        s = hw_fail(reterr, HOWDAH_MISUSE, "howdah_types_walk: types have no order and no limit");
    return s < 0 ? s : bus->store->ops->times->types(bus->store, &q.query, fn, ctx, reterr);
}

/* ------------------------------------------------------------------ streams */

#define STREAMS_A_PAGE 1000

typedef struct stream_walk {
    int (*fn)(void *ctx, const char *stream);
    void *ctx;
    hw_buf last; /* the one handed out last: the key of the next page */
    int64_t n;
    bool stop;
} stream_walk;

/*
 * The name is copied before the caller sees it: it is the key of the next page, and the row is
 * gone by then.
 */
static int on_stream(void *ctx, hw_str stream)
{
    stream_walk *w = ctx;

    hw_buf_clear(&w->last);
    hw_buf_put(&w->last, stream.s, stream.len);
    w->n++;
    w->stop = w->fn(w->ctx, stream.s) != 0;
    return w->stop;
}

/* In pages by name, so that a bus with millions of streams is walked with little memory. */
int howdah_streams_walk(howdah_bus *bus, const howdah_query_options *options,
                        int (*fn)(void *ctx, const char *stream), void *ctx, howdah_error *reterr)
{
    HW_ENTRY(entry);
    stream_walk w = {.fn = fn, .ctx = ctx, .last = HW_BUF_INIT(HW_NAME_MAX + 1)};
    hw_query_call q;
    int64_t left;
    int64_t page = STREAMS_A_PAGE;
    int s = hw_enter(&entry, &bus, HW_READS, "howdah_streams_walk", reterr);

    if (s < 0)
        return s;
    if (!fn)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_streams_walk: an argument is NULL");
    s = hw_query_call_make(bus, options, "howdah_streams_walk", &q, reterr);
    if (s >= 0 && (q.query.backward || q.query.order != HOWDAH_ORDER_SEQUENCE))
        s = hw_fail(reterr, HOWDAH_MISUSE, "howdah_streams_walk: streams are ordered by name");
    if (s < 0)
        return s;
    left = q.query.limit > 0 ? q.query.limit : INT64_MAX;
    q.query.limit = 0;
    while (s >= 0 && left > 0 && !w.stop) {
        hw_str after = w.last.len > 0 ? (hw_str){hw_buf_str(&w.last), w.last.len} : HW_STR_NULL;

        page = left < STREAMS_A_PAGE ? left : STREAMS_A_PAGE;
        w.n = 0;
        s = bus->store->ops->times->streams(bus->store, &q.query, after, page, on_stream, &w,
                                            reterr);
        if (s >= 0)
            s = hw_buf_check(&w.last, reterr);
        left -= w.n;
        if (w.n < page)
            break;
    }
    hw_buf_done(&w.last);
    return s < 0 ? s : HOWDAH_OK;
}
