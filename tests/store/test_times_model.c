/*
 * test_times_model.c - random histories beside a naive model of the rule "as of (V, K)".
 *
 * A history is events, corrections, retractions and purges in random order, with valid times in the
 * past, in the future, equal ones and none, over a few streams and types.  After every few steps
 * random questions are asked, with any filters, ranges, orders, directions, limits and page sizes,
 * and V and K at, right before and right behind the times that matter.  The model walks over all
 * events, family by family, and does as the rule says; store and model must agree event for event.
 */
#include <stdio.h>

#include "base/random.h"
#include "engine/pattern.h"
#include "times.h"

#define HISTORIES 8
#define STEPS 30
#define QUESTIONS 24 /* behind each step */
#define EVENTS_MAX 400
#define FAMILIES_MAX 6

static const char *const streams[] = {"a", "b", "s.1", "it's", "\xc3\xa4"};
static const char *const types[] = {"order.created", "order.paid", "order.item.added",
                                    "user.created", "order"};
static const char *const patterns[] = {"order.*",  "order.>",      "*.created",  ">",        "*",
                                       "*.item.>", "order.item.*", "order.paid", "nothing.*"};
static const char *const correlations[] = {NULL, "c1", "c2"};

/* Headers as they are stored, and the names and values that count. */
static const struct {
    const char *json;
    const char *pairs[4];
} headers[] = {
    {NULL, {NULL}},
    {NULL, {NULL}},
    {"{\"k\":\"v\"}", {"k", "v"}},
    {"{\"k\":\"v\",\"a.b\":\"1\"}", {"k", "v", "a.b", "1"}},
    {"{\"k\":\"v\",\"k\":\"w\"}", {"k", "w"}},
    {"{\"a\\\"b\":\"2\",\"$.k\":\"v\"}", {"a\"b", "2", "$.k", "v"}},
    {"{\"\\u006b\":\"\\u00e4\"}", {"k", "\xc3\xa4"}},
    {"{\"k\":\"\xc3\xa4\",\"it's [0]\":\"5\"}", {"k", "\xc3\xa4", "it's [0]", "5"}},
    {"{}", {NULL}},
};

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

typedef struct fact {
    howdah_event e; /* as it is stored; purged: as it was */
    unsigned headers_no;
    size_t family; /* the first one of it */
    char data[32];
} fact;

typedef struct model {
    ss *t;
    fact facts[EVENTS_MAX]; /* by sequence */
    size_t n;
    int64_t valid_base_us;
    unsigned number;
    uint64_t seed;
} model;

/* A lookup and what it borrows. */
typedef struct lookup {
    hw_times_query q;
    hw_uuid families[FAMILIES_MAX];
    hw_header_is headers[2];
} lookup;

static uint64_t choose_seed(void)
{
    const char *text = getenv("HOWDAH_SEED");
    uint64_t seed = text ? strtoull(text, NULL, 10) : hw_random_u32();

    print_message("# HOWDAH_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

static unsigned pick(model *m, size_t below)
{
    m->seed = m->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)((m->seed >> 33) % below);
}

static bool one_in(model *m, unsigned n)
{
    return pick(m, n) == 0;
}

/* ---- the model's own view of an event */

static bool is_current(const model *m, const fact *f, int64_t known_at)
{
    if (known_at != NOT && f->e.recorded_at_us > known_at)
        return false;
    for (size_t i = 0; i < m->n; i++) {
        const fact *other = &m->facts[i];

        if (other->family == f->family && other->e.revision > f->e.revision &&
            (known_at == NOT || other->e.recorded_at_us <= known_at))
            return false;
    }
    return true;
}

static bool in_span(hw_time_span span, int64_t time)
{
    return (span.from == NOT || time >= span.from) && (span.before == NOT || time < span.before);
}

static bool has_header(const fact *f, const hw_header_is *wanted)
{
    const char *const *pairs = headers[f->headers_no].pairs;

    for (size_t i = 0; !f->e.purged && i < 4 && pairs[i]; i += 2)
        if (hw_str_equal(S(pairs[i]), wanted->name))
            return hw_str_equal(S(pairs[i + 1]), wanted->value);
    return false;
}

/* By hand, so as not to trust what the stores use: segments are few. */
static bool type_matches(const char *pattern, const char *type)
{
    while (*pattern) {
        size_t p = strcspn(pattern, ".");
        size_t n = strcspn(type, ".");

        if (n == 0)
            return false;
        if (*pattern == '>' && p == 1)
            return true;
        if (!(*pattern == '*' && p == 1) && (p != n || memcmp(pattern, type, n) != 0))
            return false;
        if ((pattern[p] == '.') != (type[n] == '.'))
            return false;
        pattern += p + (pattern[p] == '.');
        type += n + (type[n] == '.');
    }
    return !*type;
}

static bool in_families(const model *m, const hw_times_query *q, const fact *f)
{
    const hw_uuid *family = &m->facts[f->family].e.id;

    for (size_t i = 0; i < q->families_n; i++)
        if (memcmp(q->families[i].b, family->b, sizeof family->b) == 0)
            return true;
    return !q->families;
}

static bool answers(const model *m, const hw_times_query *q, const fact *f)
{
    const howdah_event *e = &f->e;

    if (q->view == HOWDAH_VIEW_ORIGINALS && e->revision != 1)
        return false;
    if (q->view == HOWDAH_VIEW_AS_OF &&
        (!is_current(m, f, q->known_at) || (e->retracts && !q->retractions) ||
         (q->valid_at != NOT && e->valid_time_us > q->valid_at)))
        return false;
    for (size_t i = 0; i < q->headers_n; i++)
        if (!has_header(f, &q->headers[i]))
            return false;
    return (!q->stream.s || hw_str_equal(q->stream, e->stream)) &&
           (!q->type.s || hw_str_equal(q->type, e->type)) &&
           (!q->pattern.s || type_matches(q->pattern.s, e->type.s)) &&
           (!q->correlation_id.s || hw_str_equal(q->correlation_id, e->correlation_id)) &&
           (!q->has_causation || (e->has_causation && memcmp(q->causation_id.b, e->causation_id.b,
                                                             sizeof e->causation_id.b) == 0)) &&
           in_families(m, q, f) && in_span(q->valid, e->valid_time_us) &&
           in_span(q->recorded, e->recorded_at_us);
}

static int64_t order_time(const hw_times_query *q, const fact *f)
{
    return q->order == HOWDAH_ORDER_VALID      ? f->e.valid_time_us
           : q->order == HOWDAH_ORDER_RECORDED ? f->e.recorded_at_us
                                               : 0;
}

static bool comes_before(const hw_times_query *q, const fact *a, const fact *b)
{
    int64_t x = order_time(q, a);
    int64_t y = order_time(q, b);
    bool before = x != y ? x < y : a->e.global_sequence < b->e.global_sequence;

    return before != q->backward;
}

/* The answer, in order; how many. */
static size_t answer(const model *m, const hw_times_query *q, const fact **ret_facts)
{
    size_t n = 0;

    for (size_t i = 0; i < m->n; i++) {
        size_t at = n;

        if (!answers(m, q, &m->facts[i]))
            continue;
        for (; at > 0 && comes_before(q, &m->facts[i], ret_facts[at - 1]); at--)
            ret_facts[at] = ret_facts[at - 1];
        ret_facts[at] = &m->facts[i];
        n++;
    }
    return q->limit > 0 && n > (size_t)q->limit ? (size_t)q->limit : n;
}

/* ---- steps */

static int64_t pick_valid_time(model *m)
{
    switch (pick(m, 4)) {
    case 0:
    case 1:
        return NOT;
    case 2:
        return m->valid_base_us + (int64_t)pick(m, 5) * 1000;
    default:
        return m->n > 0 ? m->facts[pick(m, m->n)].e.recorded_at_us + (int64_t)pick(m, 3) - 1 : 1000;
    }
}

/* Payload, headers and valid time. */
static void fill_in(model *m, fact *f)
{
    f->headers_no = pick(m, COUNT(headers));
    f->e.headers = S(headers[f->headers_no].json);
    f->e.valid_time_us = pick_valid_time(m);
    f->e.content_type = one_in(m, 5) ? S("text/plain") : HW_STR_NULL;
    (void)snprintf(f->data, sizeof f->data, "%u", ++m->number);
    f->e.data = S(f->data);
}

static void step_append(model *m)
{
    size_t n = 1 + pick(m, 3);
    howdah_event events[3];

    for (size_t i = 0; i < n; i++) {
        fact *f = &m->facts[m->n + i];

        *f = (fact){.family = m->n + i,
                    .e = a_fact(streams[pick(m, COUNT(streams))], types[pick(m, COUNT(types))])};
        fill_in(m, f);
        f->e.correlation_id = S(correlations[pick(m, COUNT(correlations))]);
        f->e.has_causation = m->n > 0 && one_in(m, 2);
        if (f->e.has_causation)
            f->e.causation_id = m->facts[pick(m, m->n < 3 ? m->n : 3)].e.id;
        events[i] = f->e;
    }
    times_put_all(m->t, events, n);
    for (size_t i = 0; i < n; i++) {
        m->facts[m->n + i].e = events[i];
        m->facts[m->n + i].e.data = S(m->facts[m->n + i].data);
    }
    m->n += n;
}

static fact *newest_of(model *m, const fact *one)
{
    fact *newest = NULL;

    for (size_t i = 0; i < m->n; i++)
        if (m->facts[i].family == one->family)
            newest = &m->facts[i];
    return newest;
}

/* A correction of a revision that is not the newest is refused, one that is stored is known. */
static void try_in_vain(model *m, const fact *last)
{
    const fact *first = &m->facts[last->family];
    howdah_event late = a_correction_of(&first->e);
    howdah_event again = last->e;

    if (first == last)
        return;
    assert_int_equal(times_try(m->t->store, &late), HW_APPEND_REVISION_TAKEN);
    assert_int_equal(times_try(m->t->store, &again), HW_APPEND_ID_TAKEN);
}

static void step_correct(model *m)
{
    fact *last;
    fact *f = &m->facts[m->n];

    if (m->n == 0)
        return;
    last = newest_of(m, &m->facts[pick(m, m->n)]);
    *f = (fact){.family = last->family, .headers_no = last->headers_no};
    if (one_in(m, 4)) {
        f->e = a_retraction_of(&last->e);
        (void)snprintf(f->data, sizeof f->data, "null");
        if (last->e.purged) {
            f->headers_no = 0;
            f->e.headers = HW_STR_NULL;
        }
    } else {
        f->e = a_correction_of(&last->e);
        fill_in(m, f);
    }
    f->e.purged = last->e.purged; /* what it corrects, as it was read */
    times_put(m->t, &f->e);
    f->e.purged = false;
    f->e.data = S(f->data);
    assert_true(f->e.recorded_at_us > last->e.recorded_at_us);
    m->n++;
    if (one_in(m, 3))
        try_in_vain(m, f);
}

static void step_purge(model *m)
{
    const fact *one;
    bool families = one_in(m, 2);
    bool stream = one_in(m, 6);
    howdah_purge_record record;
    int64_t erased = 0;

    if (m->n == 0)
        return;
    one = &m->facts[pick(m, m->n)];
    record =
        stream ? purge_stream(m->t, one->e.stream.s) : purge_ids(m->t, &one->e.id, 1, families);
    for (size_t i = 0; i < m->n; i++) {
        fact *f = &m->facts[i];

        if (!(stream     ? hw_str_equal(f->e.stream, one->e.stream)
              : families ? f->family == one->family
                         : f == one))
            continue;
        erased += !f->e.purged;
        f->e.purged = true;
    }
    assert_int_equal(record.events, erased);
    assert_int_equal(record.id > 0, erased > 0);
}

static void step(model *m)
{
    unsigned what = pick(m, 20);

    if (what < 9)
        step_append(m);
    else if (what < 19)
        step_correct(m);
    else
        step_purge(m);
}

/* ---- questions */

/* A time that matters, or one right beside it. */
static int64_t pick_time(model *m)
{
    const fact *f = &m->facts[pick(m, m->n)];
    int64_t time = one_in(m, 2) ? f->e.recorded_at_us : f->e.valid_time_us;

    return time + (int64_t)pick(m, 3) - 1;
}

static int64_t perhaps_a_time(model *m, unsigned one_in_n)
{
    return one_in(m, one_in_n) ? pick_time(m) : NOT;
}

static void pick_families(model *m, lookup *q)
{
    q->q.families = q->families;
    q->q.families_n = one_in(m, 10) ? 0 : 1 + pick(m, FAMILIES_MAX);
    for (size_t i = 0; i < q->q.families_n; i++) {
        q->families[i] = m->facts[m->facts[pick(m, m->n)].family].e.id;
        if (one_in(m, 8))
            assert_true(hw_uuid_v7(&q->families[i]));
    }
}

static void pick_headers(model *m, lookup *q)
{
    q->q.headers = q->headers;
    q->q.headers_n = 1 + pick(m, 2);
    for (size_t i = 0; i < q->q.headers_n; i++) {
        const char *const *pairs = headers[2 + pick(m, COUNT(headers) - 3)].pairs;
        size_t pair = pairs[2] ? 2 * pick(m, 2) : 0;

        q->headers[i] = (hw_header_is){S(pairs[pair]), S(pairs[pair + 1])};
    }
}

static void pick_filters(model *m, lookup *q)
{
    if (one_in(m, 4))
        q->q.stream = S(streams[pick(m, COUNT(streams))]);
    if (one_in(m, 6))
        q->q.type = S(types[pick(m, COUNT(types))]);
    if (one_in(m, 4))
        q->q.pattern = S(patterns[pick(m, COUNT(patterns))]);
    hw_pattern_to_type(&q->q.type, &q->q.pattern);
    if (one_in(m, 6))
        q->q.correlation_id = S(correlations[1 + pick(m, 2)]);
    q->q.has_causation = one_in(m, 8);
    if (q->q.has_causation)
        q->q.causation_id = m->facts[pick(m, m->n < 3 ? m->n : 3)].e.id;
    if (one_in(m, 6))
        pick_families(m, q);
    if (one_in(m, 6))
        pick_headers(m, q);
    q->q.valid = (hw_time_span){perhaps_a_time(m, 6), perhaps_a_time(m, 6)};
    q->q.recorded = (hw_time_span){perhaps_a_time(m, 6), perhaps_a_time(m, 6)};
}

static void pick_query(model *m, lookup *q)
{
    unsigned view = pick(m, 6);

    *q = (lookup){.q = HW_TIMES_QUERY_INIT};
    if (view < 4) {
        q->q.view = HOWDAH_VIEW_AS_OF;
        q->q.retractions = one_in(m, 4);
        q->q.valid_at = perhaps_a_time(m, 2);
        q->q.known_at = one_in(m, 4) ? NOT : pick_time(m);
    } else if (view == 4) {
        q->q.view = HOWDAH_VIEW_ORIGINALS;
    }
    pick_filters(m, q);
    q->q.order = (howdah_order)pick(m, 3);
    q->q.backward = one_in(m, 2);
    q->q.limit = one_in(m, 3) ? 1 + (int64_t)pick(m, 8) : 0;
    q->q.batch = one_in(m, 3) ? 100 : 1 + pick(m, 6);
}

static void describe(const hw_times_query *q)
{
    print_message(
        "# view %d retractions %d V %lld K %lld stream %s type %s pattern %s "
        "correlation %s causation %d families %zu%s headers %zu valid %lld..%lld "
        "recorded %lld..%lld order %d backward %d limit %lld batch %zu\n",
        (int)q->view, q->retractions, (long long)q->valid_at, (long long)q->known_at,
        q->stream.s ? q->stream.s : "-", q->type.s ? q->type.s : "-",
        q->pattern.s ? q->pattern.s : "-", q->correlation_id.s ? q->correlation_id.s : "-",
        q->has_causation, q->families_n, q->families ? "" : " (all)", q->headers_n,
        (long long)q->valid.from, (long long)q->valid.before, (long long)q->recorded.from,
        (long long)q->recorded.before, (int)q->order, q->backward, (long long)q->limit, q->batch);
}

static bool same_text(hw_str a, hw_str b)
{
    return hw_str_equal(a, b);
}

static bool same_id(bool has_a, const hw_uuid *a, bool has_b, const hw_uuid *b)
{
    return has_a == has_b && (!has_a || memcmp(a->b, b->b, sizeof a->b) == 0);
}

/* The event whole, as the model has it. */
static bool is_same(const fact *f, const howdah_event *e)
{
    const howdah_event *w = &f->e;
    hw_str data = !w->purged ? w->data : w->content_type.s ? HW_STR_LIT("") : HW_STR_LIT("null");

    return e->global_sequence == w->global_sequence && e->version == w->version &&
           e->recorded_at_us == w->recorded_at_us && e->valid_time_us == w->valid_time_us &&
           e->revision == w->revision && e->retracts == w->retracts && e->purged == w->purged &&
           same_id(true, &e->id, true, &w->id) &&
           same_id(e->has_family, &e->family, w->has_family, &w->family) &&
           same_id(e->has_corrects, &e->corrects, w->has_corrects, &w->corrects) &&
           same_id(e->has_causation, &e->causation_id, w->has_causation, &w->causation_id) &&
           same_text(e->stream, w->stream) && same_text(e->type, w->type) &&
           same_text(e->correlation_id, w->correlation_id) && same_text(e->reason, w->reason) &&
           same_text(e->content_type, w->content_type) && same_text(e->data, data) &&
           same_text(e->headers, w->purged ? HW_STR_NULL : w->headers);
}

static void wrong(const hw_times_query *q, const char *what, int64_t expected, int64_t actual)
{
    describe(q);
    fail_msg("%s: %lld instead of %lld", what, (long long)actual, (long long)expected);
}

static void check_events(const model *m, const hw_times_query *q)
{
    const hw_times_ops *ops = times_ops(m->t);
    const fact *expected[EVENTS_MAX];
    const howdah_event *events = NULL;
    hw_cursor *cursor = NULL;
    size_t total = answer(m, q, expected);
    size_t n = 0;
    size_t at = 0;
    int s;

    ok(ops->query_open(m->t->store, q, &cursor, &ss_error));
    while ((s = cursor->store->ops->read_next(cursor, &events, &n, &ss_error)) == HOWDAH_OK) {
        if (n == 0 || n > q->batch)
            wrong(q, "a page's size", (int64_t)q->batch, (int64_t)n);
        for (size_t i = 0; i < n; i++, at++) {
            if (at >= total)
                wrong(q, "one too many, number", 0, events[i].global_sequence);
            if (!is_same(expected[at], &events[i]))
                wrong(q, "the event", expected[at]->e.global_sequence, events[i].global_sequence);
        }
    }
    expect(s, HOWDAH_END);
    cursor->store->ops->read_close(cursor);
    if (at != total)
        wrong(q, "how many", (int64_t)total, (int64_t)at);
}

/* ---- what is counted */

static int64_t less(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t more(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* What the model says of one type. */
static howdah_type_stats stats_of(const fact *const *facts, size_t n, const char *type)
{
    howdah_type_stats s = {.type = type,
                           .first_valid_us = INT64_MAX,
                           .first_recorded_us = INT64_MAX,
                           .last_valid_us = INT64_MIN,
                           .last_recorded_us = INT64_MIN};

    for (size_t i = 0; i < n; i++) {
        const howdah_event *e = &facts[i]->e;
        bool is_new = true;

        if (strcmp(e->type.s, type) != 0)
            continue;
        for (size_t k = 0; k < i; k++)
            is_new = is_new && !(strcmp(facts[k]->e.type.s, type) == 0 &&
                                 hw_str_equal(facts[k]->e.stream, e->stream));
        s.events++;
        s.corrections += e->revision > 1;
        s.retractions += e->retracts;
        s.streams += is_new;
        s.first_valid_us = less(s.first_valid_us, e->valid_time_us);
        s.last_valid_us = more(s.last_valid_us, e->valid_time_us);
        s.first_recorded_us = less(s.first_recorded_us, e->recorded_at_us);
        s.last_recorded_us = more(s.last_recorded_us, e->recorded_at_us);
    }
    return s;
}

typedef struct stats_check {
    const hw_times_query *q;
    const fact *const *facts;
    size_t n;
    int64_t events;
    char last[64];
} stats_check;

static int check_stats(void *ctx, const howdah_type_stats *stats)
{
    stats_check *c = ctx;
    howdah_type_stats w = stats_of(c->facts, c->n, stats->type);

    if (strcmp(stats->type, c->last) <= 0 || stats->events != w.events ||
        stats->corrections != w.corrections || stats->retractions != w.retractions ||
        stats->streams != w.streams || stats->first_valid_us != w.first_valid_us ||
        stats->last_valid_us != w.last_valid_us ||
        stats->first_recorded_us != w.first_recorded_us ||
        stats->last_recorded_us != w.last_recorded_us)
        wrong(c->q, stats->type, w.events, stats->events);
    (void)snprintf(c->last, sizeof c->last, "%s", stats->type);
    c->events += stats->events;
    return 0;
}

typedef struct stream_check {
    char names[1024]; /* each behind a newline */
    int64_t n;
} stream_check;

static int add_stream(void *ctx, hw_str stream)
{
    stream_check *c = ctx;
    size_t len = strlen(c->names);

    (void)snprintf(c->names + len, sizeof c->names - len, "\n%.*s", (int)stream.len, stream.s);
    c->n++;
    return 0;
}

/* The model's streams behind this one, in the order of their bytes. */
static void streams_of(const fact *const *facts, size_t n, const char *after, int64_t limit,
                       stream_check *c)
{
    const char *last = after ? after : "";

    while (c->n < limit) {
        const char *next = NULL;

        for (size_t i = 0; i < n; i++) {
            const char *stream = facts[i]->e.stream.s;

            if (strcmp(stream, last) > 0 && (!next || strcmp(stream, next) < 0))
                next = stream;
        }
        if (!next)
            break;
        (void)add_stream(c, S(next));
        last = next;
    }
}

static void check_counts(model *m, const hw_times_query *q)
{
    const hw_times_ops *ops = times_ops(m->t);
    const fact *facts[EVENTS_MAX];
    hw_times_query all = *q;
    size_t n;
    stats_check stats;
    stream_check wanted = {.n = 0};
    stream_check got = {.n = 0};
    const char *after = one_in(m, 2) ? NULL : streams[pick(m, COUNT(streams))];
    int64_t limit = 1 + (int64_t)pick(m, 6);

    all.limit = 0;
    n = answer(m, &all, facts);
    if (times_count(m->t, &all) != (int64_t)n)
        wrong(&all, "count", (int64_t)n, times_count(m->t, &all));
    stats = (stats_check){.q = &all, .facts = facts, .n = n};
    ok(ops->types(m->t->store, &all, check_stats, &stats, &ss_error));
    if (stats.events != (int64_t)n)
        wrong(&all, "events of all types", (int64_t)n, stats.events);
    streams_of(facts, n, after, limit, &wanted);
    ok(ops->streams(m->t->store, &all, S(after), limit, add_stream, &got, &ss_error));
    if (strcmp(wanted.names, got.names) != 0) {
        print_message("# after %s limit %lld:%s\n# instead of%s\n", after ? after : "-",
                      (long long)limit, got.names, wanted.names);
        wrong(&all, "streams", wanted.n, got.n);
    }
}

/* ---- running it */

static void run_history(model *m)
{
    m->n = 0;
    m->valid_base_us = hw_clock_wall_us() - 10000000;
    for (int i = 0; i < STEPS; i++) {
        step(m);
        for (int k = 0; m->n > 0 && k < QUESTIONS; k++) {
            lookup q;

            pick_query(m, &q);
            check_events(m, &q.q);
            if (k % 4 == 0)
                check_counts(m, &q.q);
        }
    }
}

static void random_histories_answer_as_the_model_does(void **state)
{
    model *m = calloc(1, sizeof *m);
    int histories = HISTORIES;

    assert_non_null(m);
    (void)times_ops(*state);
    if (getenv("HOWDAH_HISTORIES"))
        histories = atoi(getenv("HOWDAH_HISTORIES"));
    m->seed = choose_seed();
    for (int i = 0; i < histories; i++) {
        void *bus = NULL;

        (void)ss_setup(&bus);
        m->t = bus;
        run_history(m);
        (void)ss_teardown(&bus);
    }
    free(m);
}

ss_group ss_times_model_tests(void)
{
    static const struct CMUnitTest tests[] = {
        SS_TEST(random_histories_answer_as_the_model_does),
    };
    return SS_GROUP(tests);
}
