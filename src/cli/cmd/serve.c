/*
 * serve.c - howdah serve: the gateway, from the command line.
 *
 * Signals are taken by the main thread alone, with sigwait(): the gateway's threads never see one.
 * SIGTERM and SIGINT end it in order, a second one at once.  SIGHUP has tokens and certificate read
 * again.
 */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/cmd/serve.h"
#include "cli/in/signals.h"
#include "gateway/gateway.h"

#define NAMES_MAX 64 /* of hosts, and of origins */

typedef struct serving {
    cli_context *cli;
    pthread_mutex_t lock; /* stderr has one writer at a time */
    bool log;
    const char *hosts[NAMES_MAX];
    const char *origins[NAMES_MAX];
} serving;

static void on_log(void *ctx, int level, const char *line)
{
    serving *v = ctx;

    if (!v->log || level < HOWDAH_LOG_INFO)
        return;
    (void)pthread_mutex_lock(&v->lock);
    cli_err_printf(&v->cli->out, "%s\n", line);
    (void)pthread_mutex_unlock(&v->lock);
}

/* ------------------------------------------------------------------- options */

static int take_bytes(const cli_args *args, const char *name, int64_t *ret_bytes,
                      howdah_error *reterr)
{
    const char *text = cli_args_text(args, name);

    if (!text || (hw_parse_bytes(text, ret_bytes) && *ret_bytes >= 1024 &&
                  *ret_bytes <= INT64_C(256) * 1024 * 1024))
        return HOWDAH_OK;
    return hw_fail_field(reterr, HOWDAH_INVALID, name, "expected 1KiB to 256MiB");
}

static int take_timeout(const cli_args *args, const char *name, int64_t *ret_ms,
                        howdah_error *reterr)
{
    int s = cli_args_duration(args, name, ret_ms, reterr);

    if (s >= 0 && (*ret_ms < 1000 || *ret_ms > INT64_C(3600) * 1000))
        return hw_fail_field(reterr, HOWDAH_INVALID, name, "must be 1s to 1h");
    return s;
}

/* The choices of --access-log stand in the order of the enum. */
static int take_log(serving *v, gw_options *o, howdah_error *reterr)
{
    int choice = v->cli->out.err_terminal ? GW_LOG_LOGFMT : GW_LOG_JSON;
    int s = cli_args_choice(&v->cli->args, "access-log", &choice, reterr);

    o->log_format = (gw_log_format)choice;
    v->log = choice != GW_LOG_OFF;
    return s;
}

static int take_names(const cli_args *args, const char *option, const char *names[NAMES_MAX],
                      size_t *ret_n, howdah_error *reterr)
{
    const char *name;
    size_t pos = 0;

    while ((name = cli_args_next(args, option, &pos))) {
        if (*ret_n == NAMES_MAX)
            return hw_fail_field(reterr, HOWDAH_LIMIT, option, "is given more than %d times",
                                 NAMES_MAX);
        names[(*ret_n)++] = name;
    }
    return HOWDAH_OK;
}

/* "https://shop.example", as browsers send it: without a path, and never a star. */
static int check_origins(const gw_options *o, howdah_error *reterr)
{
    for (size_t i = 0; i < o->cors_n; i++) {
        const char *text = o->cors[i];
        size_t skip = strncmp(text, "https://", 8) == 0  ? 8
                      : strncmp(text, "http://", 7) == 0 ? 7
                                                         : 0;

        if (skip == 0 || !text[skip] || strpbrk(text + skip, "/*? \t\r\n"))
            return hw_fail_field(reterr, HOWDAH_INVALID, "cors",
                                 "expected an origin like https://shop.example");
    }
    return HOWDAH_OK;
}

/* Who may, besides tokens. */
static int take_access(serving *v, gw_options *o, howdah_error *reterr)
{
    const cli_args *args = &v->cli->args;
    int s = take_names(args, "host", v->hosts, &o->hosts_n, reterr);

    o->hosts = v->hosts;
    o->cors = v->origins;
    o->require_token = cli_args_has(args, "require-token");
    o->behind_proxy = cli_args_has(args, "behind-proxy");
    o->tls_cert = cli_args_text(args, "tls-cert");
    o->tls_key = cli_args_text(args, "tls-key");
    if (s >= 0)
        s = take_names(args, "cors", v->origins, &o->cors_n, reterr);
    if (s >= 0)
        s = check_origins(o, reterr);
    if (s >= 0 && !o->tls_cert != !o->tls_key)
        s = hw_fail(reterr, HOWDAH_MISUSE, "--tls-cert and --tls-key need each other");
    if (s >= 0)
        s = cli_listen_fd(&o->listen_fd, reterr);
    if (s >= 0 && o->listen_fd >= 0 && o->listen)
        s = hw_fail(reterr, HOWDAH_MISUSE, "a socket was passed (LISTEN_FDS), and --listen given");
    return s;
}

static int check_no_token_options(const cli_args *args, howdah_error *reterr)
{
    static const char *const names[] = {"may", "pattern", "stream", "queue"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (cli_args_has(args, names[i]) || cli_args_text(args, names[i]))
            return hw_advise(reterr,
                             hw_fail(reterr, HOWDAH_MISUSE, "serve does not take --%s", names[i]),
                             "usage: howdah serve token add NAME --may RIGHTS");
    return HOWDAH_OK;
}

static int take_options(serving *v, gw_options *o, howdah_error *reterr)
{
    const cli_args *args = &v->cli->args;
    int s = cli_args_words(args, 0, 0, reterr);

    if (s >= 0)
        s = check_no_token_options(args, reterr);
    *o = (gw_options){.listen = cli_args_text(args, "listen"),
                      .listen_fd = -1,
                      .sessions = 4,
                      .connections = 10000,
                      .streams = 10000,
                      .body_max = INT64_C(16) * 1024 * 1024,
                      .request_ms = 30000,
                      .idle_ms = 75000,
                      .drain_ms = 10000,
                      .read_only = cli_args_has(args, "read-only"),
                      .webhooks = !cli_args_has(args, "no-webhooks"),
                      .webhooks_private = cli_args_has(args, "webhooks-private"),
                      .log = on_log,
                      .log_ctx = v};
    if (s >= 0)
        s = cli_args_number(args, "sessions", 1, 64, &o->sessions, reterr);
    if (s >= 0)
        s = cli_args_number(args, "connections", 10, 100000, &o->connections, reterr);
    if (s >= 0)
        s = cli_args_number(args, "streams", 1, 100000, &o->streams, reterr);
    if (s >= 0)
        s = cli_args_number(args, "per-address", 0, 100000, &o->per_address, reterr);
    if (s >= 0)
        s = take_bytes(args, "body-max", &o->body_max, reterr);
    if (s >= 0)
        s = cli_args_duration(args, "drain", &o->drain_ms, reterr);
    if (s >= 0)
        s = take_access(v, o, reterr);
    if (s >= 0)
        s = take_timeout(args, "request-timeout", &o->request_ms, reterr);
    if (s >= 0)
        s = take_timeout(args, "idle-timeout", &o->idle_ms, reterr);
    return s < 0 ? s : take_log(v, o, reterr);
}

/* --------------------------------------------------------------------- store */

static int on_step(void *ctx, const howdah_migration_info *step)
{
    bool *missing = ctx;

    *missing = *missing || step->applied_at_us == HOWDAH_NO_TIME;
    return 0;
}

/* A file that is not there yet is made: there is nobody else to do it.  A server's schema is not:
   who starts a gateway need not be who owns the database. */
static int look_at_store(cli_context *cli, howdah_error *reterr)
{
    bool missing = false;
    bool file = strncmp(cli_store(cli), "sqlite:", 7) == 0;
    int s = cli_open(cli, reterr);

    if (s >= 0)
        s = howdah_migrations_walk(cli->bus, on_step, &missing, reterr);
    if (s >= 0 && missing && file) {
        s = howdah_migrate(cli->bus, NULL, reterr);
        if (s >= 0)
            cli_note(cli, "made the schema in %s", cli_store(cli));
    } else if (s >= 0 && missing) {
        s = hw_fail(reterr, HOWDAH_SCHEMA, "the schema is missing or of an older version");
        (void)hw_advise(reterr, s, "run: howdah init");
    }
    cli_signals_watch(NULL);
    (void)howdah_close(cli->bus);
    cli->bus = NULL;
    return s;
}

/* One that is away for the moment is waited for by every request. */
static int check_store(cli_context *cli, howdah_error *reterr)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    int s;

    if (strcmp(cli_store(cli), "sqlite::memory:") == 0)
        return hw_advise(reterr,
                         hw_fail(reterr, HOWDAH_INVALID, "a store in memory has one session"),
                         "serve a file: --store sqlite:howdah.db");
    s = look_at_store(cli, &err);
    if (s == HOWDAH_UNAVAILABLE || s == HOWDAH_TIMEOUT) {
        cli_note(cli, "the store cannot be reached yet: %s", err.message);
        return HOWDAH_OK;
    }
    if (s < 0)
        hw_error_copy(reterr, &err);
    return s;
}

/* --------------------------------------------------------------------- serve */

static void block_signals(sigset_t *ret_set)
{
    (void)sigemptyset(ret_set);
    (void)sigaddset(ret_set, SIGTERM);
    (void)sigaddset(ret_set, SIGINT);
    (void)sigaddset(ret_set, SIGHUP);
    (void)pthread_sigmask(SIG_BLOCK, ret_set, NULL);
}

/* What cannot be read stays as it was. */
static void reload(serving *v, gw_gateway *gateway)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    char state[64];

    (void)snprintf(state, sizeof state, "RELOADING=1\nMONOTONIC_USEC=%" PRId64, hw_clock_mono_us());
    cli_notify(state);
    if (gw_reload(gateway, &err) < 0) {
        (void)pthread_mutex_lock(&v->lock);
        cli_note(v->cli, "the certificate of before stays: %s", err.message);
        (void)pthread_mutex_unlock(&v->lock);
    }
    cli_notify("READY=1");
}

/* A second signal does not wait for anything. */
static int wait_for_end(serving *v, gw_gateway *gateway, const sigset_t *set)
{
    int number = 0;

    for (;;) {
        (void)sigwait(set, &number);
        if (number != SIGHUP)
            break;
        reload(v, gateway);
    }
    cli_notify("STOPPING=1");
    (void)signal(number, SIG_DFL);
    (void)pthread_sigmask(SIG_UNBLOCK, set, NULL);
    return number;
}

static void tell(cli_context *cli, const gw_gateway *gateway, bool tls)
{
    const char *scheme = tls ? "https" : "http";

    if (cli->out.json)
        cli_out_printf(&cli->out, "{\"listening\":\"%s\",\"url\":\"%s://%s\"}\n",
                       gw_address(gateway), scheme, gw_address(gateway));
    else
        cli_out_printf(&cli->out, "howdah serves %s on %s://%s; Ctrl-C ends it\n", cli_store(cli),
                       scheme, gw_address(gateway));
    cli_out_flush(&cli->out);
}

static int run(serving *v, howdah_error *reterr)
{
    gw_gateway *gateway = NULL;
    gw_options o;
    sigset_t set;
    int s = take_options(v, &o, reterr);

    if (s >= 0)
        s = cli_settings(v->cli, reterr);
    if (s >= 0)
        s = check_store(v->cli, reterr);
    if (s < 0)
        return s;
    o.url = cli_store(v->cli);
    o.settings = v->cli->settings;
    block_signals(&set);
    s = gw_start(&o, &gateway, reterr);
    if (s < 0)
        return s;
    tell(v->cli, gateway, o.tls_cert != NULL);
    cli_notify("READY=1");
    (void)wait_for_end(v, gateway, &set);
    gw_stop(gateway);
    return HOWDAH_OK;
}

int cmd_serve(cli_context *cli, int argc, char **argv)
{
    serving v = {.cli = cli, .lock = PTHREAD_MUTEX_INITIALIZER};
    howdah_error err = HOWDAH_ERROR_INIT;

    if (argc > 1 && strcmp(argv[1], "token") == 0)
        return cmd_serve_token(cli, argc - 2, argv + 2);
    return run(&v, &err) < 0 ? cli_fail(cli, &err) : 0;
}
