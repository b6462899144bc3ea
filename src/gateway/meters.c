/* meters.c - see meters.h. */
#include "gateway/meters.h"

#include <microhttpd.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "gateway/process.h"
#include "gateway/routes.h"
#include "gateway/server.h"
#include "gateway/stream.h"

/* Of an HTTP status by its first digit; 0: the client had gone before there was one. */
#define CLASSES_N 6
/* Statuses of the library are negative, and few. */
#define CODES_N 32

/* What is asked for in one breath takes about the same time. */
typedef enum group {
    GROUP_APPEND,
    GROUP_READ,
    GROUP_GROUPS,
    GROUP_QUEUES,
    GROUP_OPERATE,
    GROUP_WAIT,
    GROUP_OTHER,
    GROUPS_N
} group;

static const char *const group_names[GROUPS_N] = {"append",  "read", "groups", "queues",
                                                  "operate", "wait", "other"};

static const int64_t bounds_us[] = {1000,   2500,   5000,    10000,   25000,   50000,   100000,
                                    250000, 500000, 1000000, 2500000, 5000000, 10000000};
#define BOUNDS_N (sizeof bounds_us / sizeof *bounds_us)

static const int refusals[] = {408, 413, 429, 503};
#define REFUSALS_N (sizeof refusals / sizeof *refusals)

typedef atomic_int_least64_t counter;

typedef struct histogram {
    counter counts[BOUNDS_N + 1];
    counter sum_us;
} histogram;

struct gw_meters {
    counter meters[GW_METERS_N];
    counter problems[CODES_N];
    counter refused[REFUSALS_N];
    counter bytes_in;
    counter bytes_out;
    counter streams; /* now */
    histogram latency[GROUPS_N];
    counter *routes; /* CLASSES_N for each, and for what has none */
};

static void add(counter *c, int64_t n)
{
    atomic_fetch_add_explicit(c, n, memory_order_relaxed);
}

static int64_t value(const counter *c)
{
    return atomic_load_explicit(c, memory_order_relaxed);
}

gw_meters *gw_meters_new(void)
{
    gw_meters *m = hw_calloc(1, sizeof *m);

    if (!m)
        return NULL;
    m->routes = hw_calloc((gw_routes_n + 1) * CLASSES_N, sizeof *m->routes);
    if (m->routes)
        return m;
    hw_free(m);
    return NULL;
}

void gw_meters_free(gw_meters *m)
{
    if (!m)
        return;
    hw_free(m->routes);
    hw_free(m);
}

/* ------------------------------------------------------------------ counting */

void gw_meters_count(gw_meters *m, gw_meter meter, int64_t n)
{
    add(&m->meters[meter], n);
}

void gw_count(const gw_request *r, gw_meter meter, int64_t n)
{
    add(&r->gateway->meters->meters[meter], n);
}

void gw_meters_problem(gw_meters *m, const howdah_error *err)
{
    if (err->status < 0 && err->status > -CODES_N)
        add(&m->problems[-err->status], 1);
    if (err->flags & HOWDAH_OUTCOME_UNKNOWN)
        add(&m->meters[GW_METER_OUTCOMES_UNKNOWN], 1);
}

static group group_of(const gw_route *route)
{
    static const struct {
        const char *path;
        group group;
    } rows[] = {
        {"/v1/events", GROUP_READ},
        {"/v1/streams", GROUP_READ},
        {"/v1/diff", GROUP_READ},
        {"/v1/subscriptions/{name}/", GROUP_GROUPS},
        {"/v1/queues/{queue}/", GROUP_QUEUES},
        {"/v1/jobs", GROUP_QUEUES},
        {"/v1/", GROUP_OPERATE},
    };

    if (!route)
        return GROUP_OTHER;
    if (route->flags & GW_WAITS)
        return GROUP_WAIT;
    if (route->right == GW_ADMIN)
        return GROUP_OPERATE;
    if (strncmp(route->path, "/v1/events", 10) == 0 && (route->flags & GW_WRITES))
        return GROUP_APPEND;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strncmp(route->path, rows[i].path, strlen(rows[i].path)) == 0)
            return rows[i].group;
    return GROUP_OTHER;
}

static void measure(histogram *h, int64_t us)
{
    size_t i = 0;

    while (i < BOUNDS_N && us > bounds_us[i])
        i++;
    add(&h->counts[i], 1);
    add(&h->sum_us, us);
}

/* How long a client takes to read its answer is not the gateway's doing, and a live stream has no
   end: what is measured is the time until the answer begins. */
void gw_meters_answer_begins(gw_meters *m, gw_request *r)
{
    measure(&m->latency[group_of(r->route)], hw_clock_mono_us() - r->begun_us);
    if (r->answer.stream)
        add(&m->streams, 1);
}

void gw_meters_request_ends(gw_meters *m, const gw_request *r)
{
    size_t route = r->route ? (size_t)(r->route - gw_routes) : gw_routes_n;
    int class = r->answer.http_status / 100;

    add(&m->routes[route * CLASSES_N + (size_t)(class < CLASSES_N ? class : 0)], 1);
    add(&m->bytes_in, (int64_t)r->body.len);
    add(&m->bytes_out, r->bytes_out);
    for (size_t i = 0; i < REFUSALS_N; i++)
        if (r->answer.http_status == refusals[i])
            add(&m->refused[i], 1);
    if (gw_stream_is_sending(r))
        add(&m->streams, -1);
}

/* ------------------------------------------------------------------ printing */

static void put_meters(hw_buf *out, face_metrics_form form, const gw_meters *m)
{
    static const face_metric metrics[GW_METERS_N] = {
#define METRIC(name, metric, help) {metric, FACE_COUNTER, help},
        GW_METER_LIST(METRIC)
#undef METRIC
    };

    for (size_t i = 0; i < GW_METERS_N; i++)
        face_metric_alone(out, form, &metrics[i], value(&m->meters[i]), 0);
}

/* Only what has happened: most routes are never answered in most ways. */
static void put_routes(hw_buf *out, face_metrics_form form, const gw_meters *m)
{
    static const face_metric requests = {"howdah_gateway_requests_total", FACE_COUNTER,
                                         "Requests that have ended"};
    static const char *const classes[CLASSES_N] = {"gone", "1xx", "2xx", "3xx", "4xx", "5xx"};

    face_metric_begin(out, form, &requests);
    for (size_t i = 0; i <= gw_routes_n; i++)
        for (size_t k = 0; k < CLASSES_N; k++) {
            const face_label labels[] = {{"method", i < gw_routes_n ? gw_routes[i].method : "any"},
                                         {"route", i < gw_routes_n ? gw_routes[i].path : "none"},
                                         {"class", classes[k]},
                                         {NULL, NULL}};
            int64_t n = value(&m->routes[i * CLASSES_N + k]);

            if (n > 0)
                face_metric_put(out, &requests, labels, n, 0);
        }
}

static void put_latency(hw_buf *out, face_metrics_form form, const gw_meters *m)
{
    static const face_metric latency = {"howdah_gateway_request_duration_seconds", FACE_HISTOGRAM,
                                        "Until the answer begins"};
    int64_t counts[BOUNDS_N + 1];

    face_metric_begin(out, form, &latency);
    for (size_t i = 0; i < GROUPS_N; i++) {
        for (size_t k = 0; k <= BOUNDS_N; k++)
            counts[k] = value(&m->latency[i].counts[k]);
        face_metric_histogram(out, &latency, (face_label){"group", group_names[i]}, bounds_us,
                              BOUNDS_N, counts, value(&m->latency[i].sum_us));
    }
}

/* All codes from the beginning: a number that appears with its first error is no rise. */
static void put_problems(hw_buf *out, face_metrics_form form, const gw_meters *m)
{
    static const face_metric problems = {"howdah_gateway_problems_total", FACE_COUNTER,
                                         "Problems answered, by their code"};
    static const int codes[] = {
#define CODE(name, value, exit_code, text) value,
        HOWDAH_STATUS_LIST(CODE)
#undef CODE
    };

    face_metric_begin(out, form, &problems);
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        const face_label labels[] = {{"code", howdah_status_name(codes[i])}, {NULL, NULL}};

        face_metric_put(out, &problems, labels, value(&m->problems[-codes[i]]), 0);
    }
}

static void put_refusals(hw_buf *out, face_metrics_form form, const gw_meters *m)
{
    static const face_metric refused = {"howdah_gateway_refused_total", FACE_COUNTER,
                                        "Requests over a limit, by HTTP status"};
    char status[8];

    face_metric_begin(out, form, &refused);
    for (size_t i = 0; i < REFUSALS_N; i++) {
        const face_label labels[] = {{"status", status}, {NULL, NULL}};

        (void)snprintf(status, sizeof status, "%d", refusals[i]);
        face_metric_put(out, &refused, labels, value(&m->refused[i]), 0);
    }
}

/* The first scrape may come before the one who starts the daemon has it. */
static int64_t connections(gw_gateway *g)
{
    const union MHD_DaemonInfo *info = NULL;
    struct MHD_Daemon *daemon;

    (void)pthread_mutex_lock(&g->lock);
    daemon = g->daemon;
    (void)pthread_mutex_unlock(&g->lock);
    if (daemon)
        info = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_CURRENT_CONNECTIONS);
    return info ? (int64_t)info->num_connections : HOWDAH_ABSENT;
}

static int64_t requests(gw_gateway *g)
{
    size_t n;

    (void)pthread_mutex_lock(&g->lock);
    n = g->requests_n;
    (void)pthread_mutex_unlock(&g->lock);
    return (int64_t)n;
}

static void put_now(hw_buf *out, face_metrics_form form, gw_gateway *g)
{
    gw_pool_info pool;

    gw_pool_info_get(g->pool, &pool);
    const struct {
        face_metric metric;
        int64_t value;
    } rows[] = {
        {{"howdah_gateway_connections", FACE_GAUGE, "Connections now"}, connections(g)},
        {{"howdah_gateway_connections_limit", FACE_GAUGE, "Most connections at once"},
         g->options.connections},
        {{"howdah_gateway_requests_active", FACE_GAUGE, "Requests now, this one included"},
         requests(g)},
        {{"howdah_gateway_streams", FACE_GAUGE, "Answers that are sent piece by piece now"},
         value(&g->meters->streams)},
        {{"howdah_gateway_requests_parked", FACE_GAUGE, "Requests that wait for something to come"},
         (int64_t)gw_waiting_count(g->waiting)},
        {{"howdah_gateway_requests_waiting", FACE_GAUGE, "Requests that wait for a session"},
         (int64_t)pool.waiting},
        {{"howdah_gateway_workers", FACE_GAUGE, "Most sessions of the store at once"},
         (int64_t)pool.workers},
        {{"howdah_gateway_workers_busy", FACE_GAUGE, "Sessions of the store that are at work"},
         (int64_t)pool.busy},
        {{"howdah_gateway_sessions", FACE_GAUGE, "Sessions of the store that are open"},
         (int64_t)pool.sessions},
        {{"howdah_gateway_held_bytes", FACE_GAUGE, "Memory that bodies of requests have"},
         (int64_t)atomic_load(&g->held)},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        face_metric_alone(out, form, &rows[i].metric, rows[i].value, 0);
}

void gw_meters_print(hw_buf *out, face_metrics_form form, gw_gateway *g)
{
    static const face_metric in = {"howdah_gateway_received_bytes_total", FACE_COUNTER,
                                   "Bytes of the bodies of requests"};
    static const face_metric sent = {"howdah_gateway_sent_bytes_total", FACE_COUNTER,
                                     "Bytes of the bodies of answers"};

    put_routes(out, form, g->meters);
    put_latency(out, form, g->meters);
    put_problems(out, form, g->meters);
    put_refusals(out, form, g->meters);
    face_metric_alone(out, form, &in, value(&g->meters->bytes_in), 0);
    face_metric_alone(out, form, &sent, value(&g->meters->bytes_out), 0);
    put_meters(out, form, g->meters);
    put_now(out, form, g);
    gw_process_print(out, form, g->started_us);
}
