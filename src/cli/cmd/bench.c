/*
 * bench.c - howdah bench: what to measure, and the place to do it in.
 *
 * The place is made by the migrations and removed on every way out.  Ctrl-C is one of them: while
 * a bus is watched (signals.h), a signal does not end the process but the measurement.
 */

#include <assert.h>
#include <signal.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/text.h"
#include "bench/asof.h"
#include "bench/contend.h"
#include "bench/group.h"
#include "bench/http.h"
#include "bench/http_gateway.h"
#include "bench/http_live.h"
#include "bench/load.h"
#include "bench/report.h"
#include "bench/run.h"
#include "bench/site.h"
#include "cli/in/signals.h"

#define CLIENTS_MAX 512
#define SECONDS_MAX 86400
#define SECONDS_DEFAULT 10
#define PAYLOAD_DEFAULT 200
#define BATCH_DEFAULT 1000
#define EVENTS_MAX 1000000000
#define JOBS_DEFAULT_MIN 10000
#define JOBS_DEFAULT_MAX 50000
#define QUEUE_BATCH_DEFAULT 100
#define EVENTS_DEFAULT 1000000
#define ASOF_EVENTS_STEP 1000
#define RATE_MAX 100000
#define RATE_DEFAULT 100
#define SUBSCRIPTIONS_MAX 1000
#define SUBSCRIPTIONS_DEFAULT 10
#define FANOUT_CLIENTS_DEFAULT 32
#define WRITERS_DEFAULT 8
#define CONTEND_SECONDS_DEFAULT 5
#define MEMBERS_DEFAULT 8
#define GROUP_STREAMS_DEFAULT 10000
#define HANDLER_US_MAX 900000
#define LISTENERS_MAX 20000 /* one address has no more ports than that */
#define HTTP_BATCH_DEFAULT 100
#define HTTP_EVENTS_DEFAULT 100000

static const char *const kind_names[] = {
    [BENCH_APPEND] = "append",   [BENCH_APPEND_BATCH] = "append-batch",
    [BENCH_READ] = "read",       [BENCH_DELIVER] = "deliver",
    [BENCH_LATENCY] = "latency", [BENCH_FANOUT] = "fanout",
    [BENCH_QUEUE] = "queue",     [BENCH_ASOF] = "asof",
    [BENCH_CONTEND] = "contend", [BENCH_GROUP_READ] = "group",
    [BENCH_LISTEN] = "http"};

/* http: what the work is otherwise, by how many, and what its size is set by. */
static const struct {
    bench_kind kind;
    int64_t clients;
    const char *size; /* the option */
} over_http[] = {
    [BENCH_OVER_APPEND] = {BENCH_APPEND, 64, ""},
    [BENCH_OVER_BATCH] = {BENCH_APPEND_BATCH, 4, "batch"},
    [BENCH_OVER_READ] = {BENCH_READ, 1, "events"},
    [BENCH_OVER_GROUP] = {BENCH_GROUP_READ, MEMBERS_DEFAULT, "batch events"},
    [BENCH_OVER_LIVE] = {BENCH_LISTEN, 1000, ""},
    [BENCH_OVER_IDLE] = {BENCH_LISTEN, 5000, ""},
};
#define OVERS (sizeof over_http / sizeof *over_http)

/* ---- the plan */

/* The words of the help are the kinds, so a wrong one is told them all. */
static int parse_kind(const cli_args *args, bench_plan *plan, howdah_error *reterr)
{
    int s = cli_args_words(args, 1, 1, reterr);

    if (s < 0)
        return s;
    for (size_t i = 0; i < sizeof kind_names / sizeof *kind_names; i++) {
        if (strcmp(args->words[1], kind_names[i]) == 0) {
            plan->kind = (bench_kind)i;
            plan->name = kind_names[i];
            return HOWDAH_OK;
        }
    }
    s = hw_fail(reterr, HOWDAH_MISUSE, "bench: cannot measure \"%.64s\"", args->words[1]);
    return hw_advise(reterr, s, "there are: %s", args->command->words);
}

#define KIND(kind) (1u << (kind))
#define WRITERS (KIND(BENCH_APPEND) | KIND(BENCH_APPEND_BATCH) | KIND(BENCH_FANOUT))
#define READERS (KIND(BENCH_READ) | KIND(BENCH_DELIVER))
#define GROUP KIND(BENCH_GROUP_READ)
#define HTTP KIND(BENCH_LISTEN)

/* An option that this kind of bench has no use for is refused, not ignored. */
static int refuse_useless(const cli_args *args, bench_kind kind, howdah_error *reterr)
{
    static const struct {
        const char *option;
        unsigned kinds;
    } rules[] = {
        {"batch", KIND(BENCH_APPEND_BATCH) | KIND(BENCH_QUEUE) | KIND(BENCH_ASOF) | GROUP | HTTP},
        {"of", KIND(BENCH_ASOF) | HTTP},
        {"workers", KIND(BENCH_QUEUE)},
        {"writers", KIND(BENCH_CONTEND)},
        {"jobs", KIND(BENCH_QUEUE)},
        {"keys", KIND(BENCH_QUEUE)},
        {"pin", KIND(BENCH_QUEUE) | GROUP},
        {"members", GROUP | KIND(BENCH_FANOUT) | KIND(BENCH_LATENCY)},
        {"through", GROUP},
        {"against", GROUP},
        {"handler-us", GROUP},
        {"events", READERS | KIND(BENCH_ASOF) | GROUP | HTTP},
        {"streams", WRITERS | GROUP},
        {"clients", WRITERS | READERS | KIND(BENCH_ASOF) | HTTP},
        {"combine", KIND(BENCH_APPEND)},
        {"rate", KIND(BENCH_LATENCY)},
        {"subscriptions", KIND(BENCH_FANOUT)},
        {"pattern-share", KIND(BENCH_DELIVER)},
        {"holes", KIND(BENCH_DELIVER)},
    };

    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (cli_args_has(args, rules[i].option) && !(rules[i].kinds & KIND(kind)))
            return hw_fail(reterr, HOWDAH_MISUSE, "bench %s has no --%s", args->words[1],
                           rules[i].option);
    }
    return HOWDAH_OK;
}

/*
 * Several options may set the same number: --clients, --workers and --writers are one count, each
 * for its kinds.
 */
static int parse_numbers(cli_context *cli, bench_plan *plan, howdah_error *reterr)
{
    const struct {
        const char *option;
        int64_t min;
        int64_t max;
        int64_t *value;
    } numbers[] = {
        {"streams", 1, BENCH_STREAMS_MAX, &plan->streams},
        {"clients", 1, plan->kind == BENCH_LISTEN ? LISTENERS_MAX : CLIENTS_MAX, &plan->clients},
        {"workers", 1, CLIENTS_MAX, &plan->clients},
        {"writers", 1, BENCH_WRITERS_MAX, &plan->clients},
        {"members", 1, CLIENTS_MAX,
         plan->kind == BENCH_GROUP_READ ? &plan->clients : &plan->members},
        {"handler-us", 0, HANDLER_US_MAX, &plan->handler_us},
        {"jobs", 1, EVENTS_MAX, &plan->jobs},
        {"keys", 1, EVENTS_MAX, &plan->keys},
        {"payload", BENCH_PAYLOAD_MIN, (int64_t)cli_payload_max(cli), &plan->payload},
        {"batch", 1, HOWDAH_BATCH_EVENTS_MAX, &plan->batch},
        {"events", 1, EVENTS_MAX, &plan->events},
        {"combine", 1, HOWDAH_PUBLISHER_SESSIONS_MAX, &plan->combine},
        {"rate", 1, RATE_MAX, &plan->rate},
        {"subscriptions", 1, SUBSCRIPTIONS_MAX, &plan->subscriptions},
        {"pattern-share", 1, EVENTS_MAX, &plan->pattern_share},
        {"holes", 1, EVENTS_MAX, &plan->holes},
    };
    int s = HOWDAH_OK;

    for (size_t i = 0; s >= 0 && i < sizeof numbers / sizeof *numbers; i++)
        s = cli_args_number(&cli->args, numbers[i].option, numbers[i].min, numbers[i].max,
                            numbers[i].value, reterr);
    return s;
}

/* "5" or "0.2".  Tenths are for tests, which want to see every bench run, but not for long. */
static bool read_seconds(const char *text, int64_t *ret_ms)
{
    char digits[16];
    size_t length = strlen(text);
    bool tenths = length > 2 && text[length - 2] == '.';

    if (length >= sizeof digits || text[0] == '-')
        return false;
    memcpy(digits, text, length + 1);
    if (tenths)
        memmove(digits + length - 2, digits + length - 1, 2); /* without the dot it counts tenths */
    if (!hw_parse_i64(digits, 1, SECONDS_MAX * (tenths ? 10 : 1), ret_ms))
        return false;
    *ret_ms *= tenths ? 100 : 1000;
    return true;
}

static int parse_seconds(const cli_args *args, int64_t *ret_ms, howdah_error *reterr)
{
    const char *text = cli_args_text(args, "seconds");

    if (!text || read_seconds(text, ret_ms))
        return HOWDAH_OK;
    return hw_fail_field(reterr, HOWDAH_INVALID, "seconds",
                         "expected seconds, 0.1 to %d; got something else, %zu bytes long",
                         SECONDS_MAX, strlen(text));
}

static int parse_of(const cli_args *args, bench_plan *plan, howdah_error *reterr)
{
    const char *of = cli_args_text(args, "of");

    if (!of || plan->http)
        return HOWDAH_OK;
    for (size_t i = 0; bench_asof_names[i]; i++)
        if (strcmp(of, bench_asof_names[i]) == 0) {
            plan->of = (bench_of)i;
            return HOWDAH_OK;
        }
    return hw_fail(reterr, HOWDAH_MISUSE, "--of: must be stream, type, append or append-valid");
}

/* Which of the names an option has; the first one when it is not there. */
static int parse_name(const cli_args *args, const char *option, const char *const *names,
                      size_t *ret_i, howdah_error *reterr)
{
    const char *text = cli_args_text(args, option);

    *ret_i = 0;
    if (!text)
        return HOWDAH_OK;
    for (size_t i = 0; names[i]; i++)
        if (strcmp(text, names[i]) == 0) {
            *ret_i = i;
            return HOWDAH_OK;
        }
    return hw_fail(reterr, HOWDAH_MISUSE, "--%s: must be %s, %s or %s", option, names[0], names[1],
                   names[2]);
}

static int parse_group(const cli_args *args, bench_plan *plan, howdah_error *reterr)
{
    size_t through = 0;
    size_t against = 0;
    int s = parse_name(args, "through", bench_through_names, &through, reterr);

    if (s >= 0)
        s = parse_name(args, "against", bench_against_names, &against, reterr);
    plan->through = (bench_through)through;
    plan->against = (bench_against)against;
    if (s >= 0 && cli_args_has(args, "against") && !plan->ceiling)
        return hw_fail(reterr, HOWDAH_MISUSE, "bench group --against goes with --ceiling");
    return s;
}

/*
 * About a second of work for either side: enough to measure, and little enough for many slices.
 */
static int64_t jobs_for(int64_t batch)
{
    int64_t n = 1000 * batch;

    return n < JOBS_DEFAULT_MIN ? JOBS_DEFAULT_MIN : n > JOBS_DEFAULT_MAX ? JOBS_DEFAULT_MAX : n;
}

/* With --of, what is of no use to that work is refused; without it, each takes what it needs. */
static int refuse_useless_over(const cli_args *args, bench_over over, howdah_error *reterr)
{
    static const char *const sizes[] = {"batch", "events"};

    if (!cli_args_has(args, "of"))
        return HOWDAH_OK;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (cli_args_has(args, sizes[i]) && !strstr(over_http[over].size, sizes[i]))
            return hw_fail(reterr, HOWDAH_MISUSE, "bench http --of %s has no --%s",
                           bench_over_names[over], sizes[i]);
    if (cli_args_has(args, "ceiling") && over_http[over].kind == BENCH_LISTEN)
        return hw_fail(reterr, HOWDAH_MISUSE, "bench http --of %s has no --ceiling",
                       bench_over_names[over]);
    return HOWDAH_OK;
}

/* The work, with which the rest of the plan is read as if it were the bench of that work. */
static void plan_http(bench_plan *plan, bench_over over)
{
    plan->http = true;
    plan->over = over;
    plan->kind = over_http[over].kind;
}

/* Defaults first, then the options, then what they must be together.  over: of http. */
static int parse_plan(cli_context *cli, bench_over over, bench_plan *plan, howdah_error *reterr)
{
    const cli_args *args = &cli->args;
    int s = parse_kind(args, plan, reterr);

    if (s >= 0)
        s = refuse_useless(args, plan->kind, reterr);
    if (s >= 0 && plan->kind == BENCH_LISTEN) {
        plan_http(plan, over);
        s = refuse_useless_over(args, over, reterr);
    }
    if (s < 0)
        return s;
    plan->ceiling = cli_args_has(args, "ceiling") && plan->kind != BENCH_LISTEN;
    if (plan->ceiling && cli_args_has(args, "pin"))
        return hw_fail(reterr, HOWDAH_MISUSE, "bench %s --pin has no --ceiling", plan->name);
    plan->clients = plan->http                       ? over_http[over].clients
                    : plan->kind == BENCH_FANOUT     ? FANOUT_CLIENTS_DEFAULT
                    : plan->kind == BENCH_CONTEND    ? WRITERS_DEFAULT
                    : plan->kind == BENCH_GROUP_READ ? MEMBERS_DEFAULT
                                                     : 1;
    plan->ms = 1000 * (plan->kind == BENCH_CONTEND ? CONTEND_SECONDS_DEFAULT : SECONDS_DEFAULT);
    plan->payload = PAYLOAD_DEFAULT;
    /* latency: the version alone tells which event it is */
    plan->streams = plan->kind == BENCH_LATENCY      ? 1
                    : plan->kind == BENCH_GROUP_READ ? GROUP_STREAMS_DEFAULT
                                                     : BENCH_STREAMS_DEFAULT;
    plan->batch = plan->http && strstr(over_http[over].size, "batch") ? HTTP_BATCH_DEFAULT
                  : plan->kind == BENCH_APPEND_BATCH || plan->kind == BENCH_GROUP_READ
                      ? BATCH_DEFAULT
                  : plan->kind == BENCH_QUEUE ? QUEUE_BATCH_DEFAULT
                  : plan->kind == BENCH_ASOF  ? QUEUE_BATCH_DEFAULT
                                              : 1;
    plan->jobs = 0;
    plan->keys = 0;
    plan->members = 0;
    plan->combine = 0;
    plan->pin = cli_args_has(args, "pin");
    plan->events = plan->http ? HTTP_EVENTS_DEFAULT : EVENTS_DEFAULT;
    plan->rate = RATE_DEFAULT;
    plan->subscriptions = plan->kind == BENCH_FANOUT ? SUBSCRIPTIONS_DEFAULT : 1;
    s = parse_numbers(cli, plan, reterr);
    if (plan->http && !strstr(over_http[over].size, "batch"))
        plan->batch = 1; /* another work's */
    if (s >= 0)
        s = parse_seconds(args, &plan->ms, reterr);
    if (s >= 0)
        s = parse_of(args, plan, reterr);
    if (s >= 0)
        s = parse_group(args, plan, reterr);
    if (s < 0)
        return s;
    if (plan->kind == BENCH_ASOF && plan->events % ASOF_EVENTS_STEP != 0)
        return hw_fail_field(reterr, HOWDAH_INVALID, "events", "must be a multiple of %d",
                             ASOF_EVENTS_STEP);
    if (plan->jobs == 0)
        plan->jobs = jobs_for(plan->batch);
    if (plan->batch * plan->payload > HOWDAH_BATCH_BYTES_MAX)
        return hw_fail_field(reterr, HOWDAH_LIMIT, "batch", "its payloads would pass %d bytes",
                             HOWDAH_BATCH_BYTES_MAX);
    if (plan->kind == BENCH_QUEUE && plan->batch > HOWDAH_JOBS_MAX)
        return hw_fail_field(reterr, HOWDAH_LIMIT, "batch", "at most %d jobs", HOWDAH_JOBS_MAX);
    if (plan->holes > plan->events || (plan->holes > 0 && plan->pattern_share > 0))
        return hw_fail_field(reterr, HOWDAH_INVALID, "holes",
                             "must not be above --events, and does not go with --pattern-share");
    if (plan->pattern_share > plan->events)
        return hw_fail_field(reterr, HOWDAH_INVALID, "pattern-share",
                             "no event of %lld would have the type", (long long)plan->events);
    return HOWDAH_OK;
}

/* ---- the site */

/*
 * The same settings for the bus that nobody listens to, but for its place.  On SQLite the place
 * is the ceiling's file, which fanout does not use otherwise.
 */
static int make_quiet(bench_site *site, howdah_error *reterr)
{
    howdah_setting_info info = {.size = sizeof info};
    hw_buf text = HW_BUF_INIT(65536);
    bool sqlite = site->backend == &bench_backend_sqlite;
    int s = howdah_settings_new(&site->quiet_settings, reterr);

    for (size_t i = 0; s >= 0 && howdah_settings_describe(i, &info) == HOWDAH_OK; i++)
        s = howdah_settings_set(site->quiet_settings, info.key,
                                howdah_settings_get(site->settings, info.key), reterr);
    hw_buf_puts(&text, sqlite ? "sqlite:" : site->place);
    hw_buf_puts(&text, sqlite ? site->ceiling : BENCH_QUIET);
    if (s >= 0)
        s = hw_buf_check(&text, reterr);
    if (s >= 0 && !sqlite)
        s = howdah_settings_set(site->quiet_settings, "schema", hw_buf_str(&text), reterr);
    if (s >= 0) {
        site->quiet_url = hw_strdup(sqlite ? hw_buf_str(&text) : site->url);
        s = site->quiet_url ? HOWDAH_OK : hw_fail_no_memory(reterr);
    }
    hw_buf_done(&text);
    return s;
}

/* On a bus that is closed again at once: nobody may listen to it, not even the command. */
static int migrate_quiet(const bench_site *site, howdah_error *reterr)
{
    howdah_bus *bus = NULL;
    int s = howdah_open(site->quiet_url, site->quiet_settings, &bus, reterr);

    if (s >= 0)
        s = howdah_migrate(bus, NULL, reterr);
    howdah_close(bus);
    return s;
}

/*
 * What the store cannot do is refused before anything is made.  From the moment that the bus is
 * watched a signal ends the measurement and not the process.
 */
static int site_open(cli_context *cli, bench_site *site, const bench_plan *plan,
                     howdah_error *reterr)
{
    const char *url = cli_store(cli);
    int s;

    site->backend = strncasecmp(url, "sqlite:", 7) == 0 ? &bench_backend_sqlite : &bench_backend_pg;
    site->plan = plan;
    site->settings = cli->settings;
    if (plan->pin && !site->backend->pin)
        return hw_fail(reterr, HOWDAH_MISUSE, "bench %s --pin needs PostgreSQL", plan->name);
    if (plan->holes > 0 && !site->backend->fill_with_holes)
        return hw_fail(reterr, HOWDAH_MISUSE, "bench deliver --holes needs PostgreSQL");
    if ((plan->kind == BENCH_QUEUE || plan->kind == BENCH_GROUP_READ) && plan->ceiling &&
        !plan->http && site->backend == &bench_backend_sqlite)
        return hw_fail(reterr, HOWDAH_MISUSE, "bench %s --ceiling needs PostgreSQL", plan->name);
    if (plan->through == BENCH_THROUGH_SQL && site->backend == &bench_backend_sqlite)
        return hw_fail(reterr, HOWDAH_MISUSE, "bench group --through sql needs PostgreSQL");
    if (bench_of_appends(plan) && site->backend == &bench_backend_sqlite)
        return hw_fail(reterr, HOWDAH_MISUSE, "bench asof --of %s needs PostgreSQL",
                       bench_asof_names[plan->of]);
    s = site->backend->name_site(site, url, reterr);
    /* On SQLite the schema means nothing. */
    if (s >= 0 && site->backend == &bench_backend_pg)
        s = howdah_settings_set(cli->settings, "schema", site->place, reterr);
    if (s >= 0 && plan->kind == BENCH_FANOUT)
        s = make_quiet(site, reterr);
    if (s >= 0)
        s = howdah_open(site->url, cli->settings, &cli->bus, reterr);
    if (s >= 0)
        cli_signals_watch(cli->bus);
    return s;
}

/* Frees the names; the place itself is removed by site_remove(). */
static void site_done(bench_site *site)
{
    howdah_settings_free(site->quiet_settings);
    hw_free(site->quiet_url);
    hw_free(site->url);
    hw_free(site->place);
    hw_free(site->ceiling);
}

/*
 * A signal that comes now must not find an unwatched bus, which would end the process before all is
 * removed: it has to wait.
 */
static int site_remove(cli_context *cli, const bench_site *site, howdah_error *reterr)
{
    sigset_t all;
    sigset_t before;
    int s;

    (void)sigfillset(&all);
    (void)sigprocmask(SIG_BLOCK, &all, &before);
    cli_signals_watch(NULL);
    howdah_close(cli->bus);
    cli->bus = NULL;
    s = site->backend->remove(site, reterr);
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    return s;
}

/* What was found out, by kind. */
typedef struct figures {
    bench_result result;
    bench_contention contention; /* contend */
    bench_listening listening;   /* http: live and idle */
} figures;

/* With a gateway, which ends before the site is removed, whatever happened. */
static int run_http(cli_context *cli, bench_site *site, figures *found, howdah_error *reterr)
{
    howdah_error ending = HOWDAH_ERROR_INIT;
    int s = bench_gateway_start(site, &site->gateway, reterr);
    int ended;

    if (s >= 0)
        s = site->plan->kind == BENCH_LISTEN
                ? bench_http_listen(cli, site, &found->listening, reterr)
                : bench_run(cli, site, &found->result, reterr);
    ended = bench_gateway_stop(site->gateway, &ending);
    site->gateway = NULL;
    if (ended < 0 && s >= 0)
        *reterr = ending;
    else if (ended < 0)
        cli_note(cli, "%s", ending.message);
    return s < 0 ? s : ended;
}

/* With one publisher for all clients, if that was asked for. */
static int run(cli_context *cli, bench_site *site, bench_result *result, howdah_error *reterr)
{
    howdah_publisher_options options = HOWDAH_PUBLISHER_OPTIONS_INIT;
    int s = HOWDAH_OK;

    options.sessions = site->plan->combine;
    if (options.sessions > 0)
        s = howdah_publisher_new(site->url, site->settings, &options, &site->publisher, reterr);
    if (s >= 0)
        s = bench_run(cli, site, result, reterr);
    howdah_publisher_free(site->publisher);
    site->publisher = NULL;
    return s;
}

/*
 * Prepares the place as the kind needs it, and measures.  Reads get a log that is filled and at
 * rest.
 */
static int measure(cli_context *cli, bench_site *site, figures *found, howdah_error *reterr)
{
    const bench_plan *plan = site->plan;
    void *appender = NULL;
    int s = howdah_migrate(cli->bus, NULL, reterr);

    assert(plan->clients > 0 && plan->ms > 0 && plan->batch > 0);

    if (s >= 0 && plan->kind == BENCH_ASOF) {
        s = bench_asof_prepare(cli, site, reterr);
    } else if (s >= 0 && (bench_is_whole(plan) || plan->kind == BENCH_GROUP_READ)) {
        s = plan->holes > 0 ? site->backend->fill_with_holes(site, &appender, reterr)
                            : bench_ours_fill(cli, site, reterr);
        if (s >= 0)
            s = site->backend->quiesce(site, reterr);
        if (s >= 0 && plan->kind == BENCH_GROUP_READ)
            s = bench_group_prepare(cli, reterr);
        if (s >= 0 && plan->against == BENCH_AGAINST_DELETE)
            s = site->backend->make_ceiling(site, reterr);
    } else if (s >= 0 && plan->ceiling) {
        s = plan->kind == BENCH_FANOUT ? migrate_quiet(site, reterr)
                                       : site->backend->make_ceiling(site, reterr);
    }
    if (s >= 0)
        s = plan->http ? run_http(cli, site, found, reterr)
                       : run(cli, site, &found->result, reterr);
    if (appender)
        site->backend->unpin(appender);
    return s;
}

/* Processes instead of clients; an append that failed is a failure of the bench. */
static int contend(cli_context *cli, const bench_site *site, bench_contention *result,
                   howdah_error *reterr)
{
    int s = howdah_migrate(cli->bus, NULL, reterr);

    return s < 0 ? s : bench_contend(cli, site, result, reterr);
}

/* After the report: the figures are of use even then. */
static int judge_contention(const bench_contention *result, howdah_error *reterr)
{
    if (result->failures == 0)
        return HOWDAH_OK;
    return hw_fail(reterr, HOWDAH_FAILED, "%lld appends failed, the first one: %s",
                   (long long)result->failures, result->first_failure);
}

/*
 * The place is removed before anything is printed, so that a closed pipe leaves nothing behind.
 * The error of the measurement goes before one of removing, which is then only a note.
 */
static int bench(cli_context *cli, const bench_plan *plan, howdah_error *reterr)
{
    howdah_error removing = HOWDAH_ERROR_INIT;
    bench_site site = {.plan = plan};
    figures found;
    bool contending = plan->kind == BENCH_CONTEND;
    int s = site_open(cli, &site, plan, reterr);

    if (s >= 0) {
        int removed;

        s = contending ? contend(cli, &site, &found.contention, reterr)
                       : measure(cli, &site, &found, reterr);
        removed = site_remove(cli, &site, &removing);
        if (s >= 0 && contending) {
            bench_contend_report(cli, &site, &found.contention);
            s = judge_contention(&found.contention, reterr);
        } else if (s >= 0 && plan->kind == BENCH_LISTEN) {
            bench_http_listen_report(cli, &site, &found.listening);
        } else if (s >= 0) {
            bench_report(cli, &site, &found.result);
        }
        if (s >= 0 && removed < 0)
            *reterr = removing;
        else if (removed < 0)
            cli_note(cli, "%s", removing.message);
        s = s < 0 ? s : removed;
    }
    site_done(&site);
    return s;
}

static bool is_http(const cli_args *args)
{
    return args->words_n > 1 && strcmp(args->words[1], kind_names[BENCH_LISTEN]) == 0;
}

/* http without --of is all of it in turn, each in a place of its own, with a line each. */
static int bench_all(cli_context *cli, howdah_error *reterr)
{
    const char *of = cli_args_text(&cli->args, "of");
    size_t n = is_http(&cli->args) ? OVERS : 1;
    bool any = false;
    int s = HOWDAH_OK;

    for (size_t i = 0; s >= 0 && i < n; i++) {
        bench_plan plan = {.kind = BENCH_APPEND};

        if (n > 1 && of && strcmp(of, bench_over_names[i]) != 0)
            continue;
        any = true;
        s = parse_plan(cli, (bench_over)i, &plan, reterr);
        if (s >= 0)
            s = bench(cli, &plan, reterr);
    }
    if (s >= 0 && !any)
        s = hw_fail(reterr, HOWDAH_MISUSE,
                    "--of: must be append, batch, read, group, live or idle");
    return s;
}

int cmd_bench(cli_context *cli, int argc, char **argv)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    int s = cli_settings(cli, &err);

    (void)argc;
    (void)argv;
    if (s >= 0)
        s = bench_all(cli, &err);
    return s < 0 ? cli_fail(cli, &err) : 0;
}
