/*
 * metrics.c - see metrics.h.
 *
 * Subscriptions and queues are rows of numbers.  A table says for each family which of them it
 * prints, so that named rows, the sum of the others and the text are made in one way.
 *
 * The number of completed and failed jobs is not here: only counting the history gives it, and that
 * may be long.  The gateway counts what passes through it.
 */
#include "face/metrics.h"

#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/text.h"
#include "face/subscriptions.h"

/* A session that holds a number for less is at work; one that holds it for longer is in the way. */
#define BLOCKING_MS 5000
#define SESSION_TEXT 64
#define STATES_N 5

enum {
    S_LAG,
    S_LAG_MS,
    S_OUTSTANDING,
    S_DEAD,
    S_SKIPS,
    S_STATE, /* STATES_N of them */
    S_MEMBERS = S_STATE + STATES_N,
    S_LEASED,
    S_LEASED_MS,
    S_N
};

enum { Q_PENDING, Q_PROCESSING, Q_SCHEDULED, Q_OLDEST_MS, Q_DEAD, Q_PAUSED, Q_N };

#define NUMBERS_MAX 16
_Static_assert(S_N <= NUMBERS_MAX && Q_N <= NUMBERS_MAX, "a row holds the numbers of either");

typedef struct row {
    char *name;
    int64_t rank;
    bool shared;
    int64_t numbers[NUMBERS_MAX]; /* HOWDAH_ABSENT: none */
} row;

/* One family for each row: its numbers from "first" on, each with a label of its own. */
typedef struct series {
    face_metric metric;
    int first;
    int n;
    int decimals;
    bool largest;      /* of those that are counted together; otherwise their sum */
    const char *label; /* NULL: one number, no label */
    const char *const *values;
} series;

static const char *const states[STATES_N] = {
    [HOWDAH_SUBSCRIPTION_WAITING] = "waiting", [HOWDAH_SUBSCRIPTION_BEHIND] = "behind",
    [HOWDAH_SUBSCRIPTION_LIVE] = "live",       [HOWDAH_SUBSCRIPTION_PAUSED] = "paused",
    [HOWDAH_SUBSCRIPTION_HALTED] = "halted",
};

static const series subscription_series[] = {
    {{"howdah_subscription_lag_events", FACE_GAUGE, "Numbers of the log that it has not handled"},
     S_LAG,
     1,
     0,
     false,
     NULL,
     NULL},
    {{"howdah_subscription_lag_seconds", FACE_GAUGE,
      "Age of the oldest event that is left; 0: none"},
     S_LAG_MS,
     1,
     3,
     true,
     NULL,
     NULL},
    {{"howdah_subscription_outstanding_events", FACE_GAUGE,
      "Missing below its place, or waiting for a retry"},
     S_OUTSTANDING,
     1,
     0,
     false,
     NULL,
     NULL},
    {{"howdah_subscription_dead_letters", FACE_GAUGE,
      "Events that failed and that nobody has resolved"},
     S_DEAD,
     1,
     0,
     false,
     NULL,
     NULL},
    {{"howdah_subscription_skips", FACE_GAUGE, "Numbers given up by time that nobody has resolved"},
     S_SKIPS,
     1,
     0,
     false,
     NULL,
     NULL},
    {{"howdah_subscription_state", FACE_GAUGE, "1: it is in this state"},
     S_STATE,
     STATES_N,
     0,
     false,
     "state",
     states},
    {{"howdah_subscription_members", FACE_GAUGE, "Members that have events, of a group"},
     S_MEMBERS,
     1,
     0,
     false,
     NULL,
     NULL},
    {{"howdah_subscription_leased_events", FACE_GAUGE,
      "Events that members have and have not acked"},
     S_LEASED,
     1,
     0,
     false,
     NULL,
     NULL},
    {{"howdah_subscription_leased_age_seconds", FACE_GAUGE,
      "Age of the oldest batch that a member has"},
     S_LEASED_MS,
     1,
     3,
     true,
     NULL,
     NULL},
};

static const char *const job_states[] = {"pending", "processing", "scheduled"};

static const series queue_series[] = {
    {{"howdah_queue_jobs", FACE_GAUGE, "Jobs that are not over, by state"},
     Q_PENDING,
     3,
     0,
     false,
     "state",
     job_states},
    {{"howdah_queue_oldest_age_seconds", FACE_GAUGE,
      "Since when the oldest pending job has been due; 0: none"},
     Q_OLDEST_MS,
     1,
     3,
     true,
     NULL,
     NULL},
    {{"howdah_queue_dead_letters", FACE_GAUGE, "Jobs that failed and that nobody has resolved"},
     Q_DEAD,
     1,
     0,
     false,
     NULL,
     NULL},
    {{"howdah_queue_paused", FACE_GAUGE, "1: the queue gives out no jobs"},
     Q_PAUSED,
     1,
     0,
     false,
     NULL,
     NULL},
};

/* The rows of one kind of thing. */
typedef struct board {
    const series *series;
    size_t series_n;
    const char *label;
    row *rows;
    size_t n;
    size_t room;
    row others;
    bool has_others;
    bool visible;
    int64_t seen;
    bool no_memory;
    int64_t until_ms;
} board;

struct face_metrics {
    char store[SESSION_TEXT];
    char server[SESSION_TEXT];
    char session[SESSION_TEXT]; /* that holds a number for long; "": none */
    int64_t schema_version;
    int64_t head;
    int64_t events;
    int64_t bytes;
    int64_t recorded_us;
    int64_t writers;
    int64_t oldest_ms;
    int64_t took_ms;
    board subscriptions;
    board queues;
};

/* -------------------------------------------------------------------- boards */

/* HOWDAH_ABSENT is no number: it adds nothing. */
static int64_t together(int64_t a, int64_t b, bool largest)
{
    if (a == HOWDAH_ABSENT || b == HOWDAH_ABSENT)
        return a == HOWDAH_ABSENT ? b : a;
    if (largest)
        return a > b ? a : b;
    return a > INT64_MAX - b ? INT64_MAX : a + b;
}

static void to_others(board *b, const row *one)
{
    for (size_t i = 0; i < b->series_n; i++) {
        const series *s = &b->series[i];

        for (int k = s->first; k < s->first + s->n; k++)
            b->others.numbers[k] = b->has_others
                                       ? together(b->others.numbers[k], one->numbers[k], s->largest)
                                       : one->numbers[k];
    }
    b->has_others = true;
}

/* The last of those that have least to do: the first by name stay. */
static size_t least(const board *b)
{
    size_t at = 0;

    for (size_t i = 1; i < b->n; i++)
        if (b->rows[i].rank <= b->rows[at].rank)
            at = i;
    return at;
}

static bool make_room(board *b)
{
    size_t room = b->room > 0 ? b->room * 2 : 16;
    row *rows;

    if (b->n < b->room)
        return true;
    rows = hw_realloc(b->rows, room * sizeof *rows);
    if (!rows)
        return false;
    b->rows = rows;
    b->room = room;
    return true;
}

/* I1.  A thing that has the name of the others is one of them: two series must not be the same. */
static void add(board *b, const char *name, const row *given)
{
    row one = *given;
    size_t at = 0;

    b->seen++;
    if (strcmp(name, FACE_METRICS_OTHERS) == 0) {
        to_others(b, &one);
        return;
    }
    if (b->n == FACE_METRICS_NAMED_MAX) {
        at = least(b);
        if (one.rank <= b->rows[at].rank) {
            to_others(b, &one);
            return;
        }
    }
    one.name = hw_strdup(name);
    if (!one.name || (b->n < FACE_METRICS_NAMED_MAX && !make_room(b))) {
        hw_free(one.name);
        b->no_memory = true;
        return;
    }
    if (b->n < FACE_METRICS_NAMED_MAX) {
        b->rows[b->n++] = one;
        return;
    }
    to_others(b, &b->rows[at]);
    hw_free(b->rows[at].name);
    memmove(&b->rows[at], &b->rows[at + 1], (b->n - at - 1) * sizeof one);
    b->rows[b->n - 1] = one;
}

static bool is_over(const board *b)
{
    return b->no_memory || hw_clock_mono_ms() > b->until_ms;
}

/* What a walk has come to: its end, or one that the board wanted. */
static int walked(board *b, int status, howdah_error *reterr)
{
    if (b->no_memory)
        return hw_fail_no_memory(reterr);
    if (status == HOWDAH_DENIED)
        return HOWDAH_OK; /* I3 */
    b->visible = true;
    if (status >= 0 && is_over(b))
        return hw_fail(reterr, HOWDAH_TIMEOUT, "the store took too long to tell its numbers");
    return status;
}

/* ------------------------------------------------------------------- collect */

/* "12.345" in thousandths; below 0 is 0: clocks differ by a little. */
static int64_t thousandths(const char *text)
{
    const char *point = strchr(text, '.');
    char whole[32];
    int64_t seconds = 0;
    int64_t rest = 0;
    int64_t unit = 100;
    size_t n = point ? (size_t)(point - text) : strlen(text);

    if (*text == '-' || n >= sizeof whole)
        return 0;
    memcpy(whole, text, n);
    whole[n] = '\0';
    if (!hw_parse_i64(whole, 0, INT64_MAX / 1000 - 1, &seconds))
        return 0;
    for (const char *c = point ? point + 1 : ""; *c >= '0' && *c <= '9'; c++, unit /= 10)
        rest += (*c - '0') * unit;
    return seconds * 1000 + rest;
}

/* What others have named themselves: what is printable, and no more of it than has room. */
static void take_text(char out[SESSION_TEXT], const char *text)
{
    size_t n = 0;

    for (; *text && n < SESSION_TEXT - 1; text++)
        out[n++] = *text >= 0x20 && *text < 0x7f ? *text : '?';
    out[n] = '\0';
}

static int on_fact(void *ctx, const howdah_fact *fact)
{
    face_metrics *m = ctx;
    const struct {
        const char *key;
        int64_t *number;
    } numbers[] = {{"schema_version", &m->schema_version},
                   {"head", &m->head},
                   {"events", &m->events},
                   {"bytes", &m->bytes},
                   {"open_writers", &m->writers}};

    if (!fact->value)
        return 0;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(fact->key, numbers[i].key) == 0)
            (void)hw_parse_i64(fact->value, 0, INT64_MAX, numbers[i].number);
    if (strcmp(fact->key, "store") == 0)
        take_text(m->store, fact->value);
    else if (strcmp(fact->key, "server") == 0)
        take_text(m->server, fact->value);
    else if (strcmp(fact->key, "oldest_writer") == 0)
        take_text(m->session, fact->value);
    else if (strcmp(fact->key, "oldest_writer_age_s") == 0)
        m->oldest_ms = thousandths(fact->value);
    else if (strcmp(fact->key, "last_recorded_at") == 0)
        (void)hw_time_parse(fact->value, strlen(fact->value), &m->recorded_us);
    return 0;
}

static int64_t outstanding(const howdah_subscription_info *info)
{
    int64_t n = 0;

    for (size_t i = 0; i < info->holes_n; i++)
        n = together(n, info->holes[2 * i + 1] - info->holes[2 * i] + 1, false);
    return n;
}

static int on_subscription(void *ctx, const howdah_subscription_info *info)
{
    board *b = ctx;
    row one = {.rank = info->lag, .shared = info->shared};

    one.numbers[S_LAG] = info->lag;
    one.numbers[S_LAG_MS] = info->lag_age_ms > 0 ? info->lag_age_ms : 0;
    one.numbers[S_OUTSTANDING] = outstanding(info);
    one.numbers[S_DEAD] = info->dead_letters;
    one.numbers[S_SKIPS] = info->skips;
    for (int i = 0; i < STATES_N; i++)
        one.numbers[S_STATE + i] = (int)info->state == i;
    for (int i = S_MEMBERS; i < S_N; i++)
        one.numbers[i] = HOWDAH_ABSENT;
    add(b, info->subscriber_id, &one);
    return is_over(b);
}

static int on_queue(void *ctx, const howdah_queue_info *info)
{
    board *b = ctx;
    row one = {
        .rank = together(together(info->pending, info->processing, false), info->scheduled, false)};

    one.numbers[Q_PENDING] = info->pending;
    one.numbers[Q_PROCESSING] = info->processing;
    one.numbers[Q_SCHEDULED] = info->scheduled;
    one.numbers[Q_OLDEST_MS] = info->oldest_age_ms > 0 ? info->oldest_age_ms : 0;
    one.numbers[Q_DEAD] = info->dead_letters;
    one.numbers[Q_PAUSED] = info->paused;
    add(b, info->queue, &one);
    return is_over(b);
}

static int on_member(void *ctx, const howdah_member_info *info)
{
    row *one = ctx;

    one->numbers[S_MEMBERS]++;
    one->numbers[S_LEASED] = together(one->numbers[S_LEASED], info->events, false);
    one->numbers[S_LEASED_MS] = together(one->numbers[S_LEASED_MS], info->oldest_age_ms, true);
    return 0;
}

/* The group that is furthest behind of those that were not asked yet; NULL: none is left. */
static row *next_group(board *b)
{
    row *next = NULL;

    for (size_t i = 0; i < b->n; i++) {
        row *one = &b->rows[i];

        if (one->shared && one->numbers[S_MEMBERS] == HOWDAH_ABSENT &&
            (!next || one->rank > next->rank))
            next = one;
    }
    return next;
}

/* A group that has gone, or is shared no more, has no members. */
static int collect_members(howdah_bus *bus, board *b, howdah_error *reterr)
{
    row *one;

    for (int i = 0; i < FACE_METRICS_GROUPS_MAX && (one = next_group(b)); i++) {
        int s;

        if (is_over(b))
            return walked(b, HOWDAH_OK, reterr);
        for (int k = S_MEMBERS; k < S_N; k++)
            one->numbers[k] = 0;
        s = howdah_members_walk(bus, one->name, on_member, one, reterr);
        if (s == HOWDAH_DENIED)
            return HOWDAH_OK;
        if (s < 0 && s != HOWDAH_NOT_FOUND && s != HOWDAH_CONFLICT)
            return s;
    }
    return HOWDAH_OK;
}

static int collect(howdah_bus *bus, face_metrics *m, howdah_error *reterr)
{
    int s = howdah_facts_walk(bus, on_fact, m, reterr);

    if (s >= 0)
        s = walked(&m->subscriptions,
                   howdah_subscriptions_walk(bus, NULL, on_subscription, &m->subscriptions, reterr),
                   reterr);
    if (s >= 0 && m->subscriptions.visible)
        s = collect_members(bus, &m->subscriptions, reterr);
    if (s >= 0)
        s = walked(&m->queues, howdah_queue_summaries_walk(bus, on_queue, &m->queues, reterr),
                   reterr);
    return s;
}

#define N(list) (sizeof(list) / sizeof *(list))

int face_metrics_collect(howdah_bus *bus, int64_t for_ms, face_metrics **ret_metrics,
                         howdah_error *reterr)
{
    face_metrics *m = hw_calloc(1, sizeof *m);
    int64_t begun_ms = hw_clock_mono_ms();
    int64_t until_ms = hw_clock_end_ms(for_ms);
    howdah_error err = HOWDAH_ERROR_INIT;
    int s;

    if (!m)
        return hw_fail_no_memory(reterr);
    m->schema_version = m->head = m->events = m->bytes = HOWDAH_ABSENT;
    m->writers = HOWDAH_ABSENT;
    m->recorded_us = HOWDAH_NO_TIME;
    m->subscriptions = (board){.series = subscription_series,
                               .series_n = N(subscription_series),
                               .label = "subscription",
                               .until_ms = until_ms};
    m->queues = (board){.series = queue_series,
                        .series_n = N(queue_series),
                        .label = "queue",
                        .until_ms = until_ms};
    s = collect(bus, m, &err); /* a walk that was denied has left an error that is none */
    if (s < 0) {
        face_metrics_free(m);
        hw_error_copy(reterr, &err);
        return s;
    }
    m->took_ms = hw_clock_mono_ms() - begun_ms;
    *ret_metrics = m;
    return HOWDAH_OK;
}

static void board_done(board *b)
{
    for (size_t i = 0; i < b->n; i++)
        hw_free(b->rows[i].name);
    hw_free(b->rows);
}

void face_metrics_free(face_metrics *m)
{
    if (!m)
        return;
    board_done(&m->subscriptions);
    board_done(&m->queues);
    hw_free(m);
}

/* --------------------------------------------------------------------- print */

static void put_row(hw_buf *out, const board *b, const series *s, const char *name, const row *one)
{
    for (int i = 0; i < s->n; i++) {
        const face_label labels[] = {
            {b->label, name}, {s->label, s->label ? s->values[i] : NULL}, {NULL, NULL}};

        if (one->numbers[s->first + i] != HOWDAH_ABSENT)
            face_metric_put(out, &s->metric, labels, one->numbers[s->first + i], s->decimals);
    }
}

static void put_board(hw_buf *out, face_metrics_form form, const board *b)
{
    for (size_t i = 0; i < b->series_n; i++) {
        face_metric_begin(out, form, &b->series[i].metric);
        for (size_t k = 0; k < b->n; k++)
            put_row(out, b, &b->series[i], b->rows[k].name, &b->rows[k]);
        if (b->has_others)
            put_row(out, b, &b->series[i], FACE_METRICS_OTHERS, &b->others);
    }
}

static void put_info(hw_buf *out, face_metrics_form form, const face_metric *metric,
                     const face_label *labels)
{
    face_metric_begin(out, form, metric);
    if (labels)
        face_metric_put(out, metric, labels, 1, 0);
}

/* The build, which is known without a store. */
static void put_build(hw_buf *out, face_metrics_form form, bool up)
{
    static const face_metric is_up = {"howdah_up", FACE_GAUGE,
                                      "1: the store answered; 0: it could not be asked"};
    static const face_metric build = {"howdah_build_info", FACE_INFO, "What prints these numbers"};
    const face_label labels[] = {{"version", howdah_version()}, {NULL, NULL}};

    face_metric_alone(out, form, &is_up, up, 0);
    put_info(out, form, &build, labels);
}

static void put_store(hw_buf *out, face_metrics_form form, const face_metrics *m)
{
    static const face_metric store = {"howdah_store_info", FACE_INFO, "The store"};
    static const face_metric visible = {"howdah_visible", FACE_GAUGE,
                                        "0: closed to this user, and so without numbers"};
    static const face_metric schema = {"howdah_schema_version", FACE_GAUGE,
                                       "The last step of the schema"};
    static const face_metric took = {"howdah_collect_seconds", FACE_GAUGE,
                                     "How long the store took to tell these numbers"};
    const face_label labels[] = {{"store", m->store}, {"server", m->server}, {NULL, NULL}};
    const face_label parts[][2] = {{{"part", "subscriptions"}, {NULL, NULL}},
                                   {{"part", "queues"}, {NULL, NULL}}};

    put_info(out, form, &store, labels);
    face_metric_alone(out, form, &schema, m->schema_version, 0);
    face_metric_begin(out, form, &visible);
    face_metric_put(out, &visible, parts[0], m->subscriptions.visible, 0);
    face_metric_put(out, &visible, parts[1], m->queues.visible, 0);
    face_metric_alone(out, form, &took, m->took_ms, 3);
}

static void put_log(hw_buf *out, face_metrics_form form, const face_metrics *m)
{
    static const face_metric head = {"howdah_log_head", FACE_GAUGE,
                                     "The last visible number of the log"};
    static const face_metric events = {"howdah_log_events", FACE_GAUGE,
                                       "Events in the log; of many an estimate"};
    static const face_metric bytes = {"howdah_log_size_bytes", FACE_GAUGE,
                                      "What the log takes on the disk"};
    static const face_metric recorded = {"howdah_log_last_recorded_timestamp_seconds", FACE_GAUGE,
                                         "When the last event was recorded"};
    static const face_metric writers = {"howdah_log_open_writers", FACE_GAUGE,
                                        "Transactions that hold numbers of the log"};
    static const face_metric oldest = {"howdah_log_oldest_writer_age_seconds", FACE_GAUGE,
                                       "Age of the oldest of them; 0: none"};
    static const face_metric session = {"howdah_log_blocking_session_info", FACE_INFO,
                                        "It, when it is older than 5 seconds"};
    const face_label labels[] = {{"session", m->session}, {NULL, NULL}};
    bool blocks = m->session[0] && m->oldest_ms >= BLOCKING_MS;

    face_metric_alone(out, form, &head, m->head, 0);
    face_metric_alone(out, form, &events, m->events, 0);
    face_metric_alone(out, form, &bytes, m->bytes, 0);
    face_metric_alone(out, form, &recorded,
                      m->recorded_us == HOWDAH_NO_TIME ? HOWDAH_ABSENT : m->recorded_us, 6);
    face_metric_alone(out, form, &writers, m->writers, 0);
    face_metric_alone(out, form, &oldest,
                      m->writers == HOWDAH_ABSENT ? HOWDAH_ABSENT : m->oldest_ms, 3);
    put_info(out, form, &session, blocks ? labels : NULL);
}

void face_metrics_print(hw_buf *out, face_metrics_form form, const face_metrics *m)
{
    static const face_metric subscriptions = {"howdah_subscriptions", FACE_GAUGE, "Subscriptions"};
    static const face_metric queues = {"howdah_queues", FACE_GAUGE, "Queues"};

    put_build(out, form, m != NULL);
    if (!m)
        return;
    put_store(out, form, m);
    put_log(out, form, m);
    face_metric_alone(out, form, &subscriptions,
                      m->subscriptions.visible ? m->subscriptions.seen : HOWDAH_ABSENT, 0);
    put_board(out, form, &m->subscriptions);
    face_metric_alone(out, form, &queues, m->queues.visible ? m->queues.seen : HOWDAH_ABSENT, 0);
    put_board(out, form, &m->queues);
}
