/*
 * http_gateway.c - see http_gateway.h.
 *
 *   I1  The gateway is this very program, and has this process's settings, all of them, by its
 *       environment: there a password stands where others do not see it.
 *   I2  Between fork() and exec the child calls nothing that could need a lock.
 *   I3  It is in a process group of its own: Ctrl-C in a terminal is for the bench, which ends it.
 */
#include "bench/http_gateway.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "bench/meter.h"
#include "cli/in/signals.h"

#define START_MS 60000
#define STOP_MS 30000
#define TICK_MS 10
#define LINE_SIZE 512
/* Connections besides those of the clients. */
#define CONNECTIONS_MORE 64

struct bench_gateway {
    pid_t pid;
    char address[64];
};

/* -------------------------------------------------------------- environment */

/* A list of "NAME=value", each of its own; the last one is NULL. */
typedef struct variables {
    char **list;
    size_t n;
} variables;

static void variables_done(variables *v)
{
    for (size_t i = 0; v->list && i < v->n; i++)
        hw_free(v->list[i]);
    hw_free(v->list);
}

static int add_variable(variables *v, const char *name, const char *value, howdah_error *reterr)
{
    char **list = hw_realloc(v->list, (v->n + 2) * sizeof *list);
    size_t size = strlen(name) + strlen(value) + 2;

    if (!list)
        return hw_fail_no_memory(reterr);
    v->list = list;
    list[v->n] = hw_alloc(size);
    if (!list[v->n])
        return hw_fail_no_memory(reterr);
    (void)snprintf(list[v->n], size, "%s=%s", name, value);
    list[++v->n] = NULL;
    return HOWDAH_OK;
}

/* Ours are those that are left out: the settings say all of them, --set included. */
static int inherit(variables *v, howdah_error *reterr)
{
    int s = HOWDAH_OK;

    for (char **at = environ; s >= 0 && *at; at++) {
        const char *equals = strchr(*at, '=');
        char name[256];

        if (!equals || (size_t)(equals - *at) >= sizeof name || strncmp(*at, "HOWDAH_", 7) == 0)
            continue;
        (void)snprintf(name, sizeof name, "%.*s", (int)(equals - *at), *at);
        s = add_variable(v, name, equals + 1, reterr);
    }
    return s;
}

/* I1. */
static int make_environment(const bench_site *site, variables *v, howdah_error *reterr)
{
    howdah_setting_info info = HOWDAH_SETTING_INFO_INIT;
    int s = inherit(v, reterr);

    for (size_t i = 0; s >= 0 && howdah_settings_describe(i, &info) == HOWDAH_OK; i++) {
        const char *value = howdah_settings_get(site->settings, info.key);

        if (value && *value)
            s = add_variable(v, info.environment, value, reterr);
    }
    return s < 0 ? s : add_variable(v, "HOWDAH_STORE", site->url, reterr);
}

/* ------------------------------------------------------------------ the child */

/* As many files as this user may have, here and, by inheritance, there. */
static void raise_file_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* I2, I3.  All signals are blocked until here. */
static void become(int out, pid_t parent, const char *const *arguments, char *const *environment)
{
    sigset_t none;
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);

    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(1); /* it has ended before it could be seen */
    (void)setpgid(0, 0);
    (void)signal(SIGINT, SIG_DFL);
    (void)signal(SIGTERM, SIG_DFL);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    if (dup2(nothing, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0)
        (void)execve("/proc/self/exe", (char *const *)(uintptr_t)arguments, environment);
    _exit(127);
}

static int spawn(bench_gateway *g, const bench_site *site, const variables *environment, int out,
                 howdah_error *reterr)
{
    char connections[32];
    char streams[32];
    const char *const arguments[] = {"howdah", "serve",         "--listen",  "127.0.0.1:0",
                                     "--json", "--access-log",  "off",       "--streams",
                                     streams,  "--connections", connections, NULL};
    pid_t parent = getpid();
    sigset_t all;
    sigset_t before;

    (void)snprintf(streams, sizeof streams, "%lld", (long long)site->plan->clients);
    (void)snprintf(connections, sizeof connections, "%lld",
                   (long long)site->plan->clients + CONNECTIONS_MORE);
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_BLOCK, &all, &before);
    g->pid = fork();
    if (g->pid == 0)
        become(out, parent, arguments, environment->list);
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    return g->pid < 0 ? hw_fail(reterr, HOWDAH_FAILED, "cannot start a process: %m") : HOWDAH_OK;
}

/* ------------------------------------------------------------ its first line */

/* It says why it does not start on stderr, which is ours, too. */
static int read_line(int in, char line[LINE_SIZE], howdah_error *reterr)
{
    int64_t until_ms = hw_clock_end_ms(START_MS);
    size_t n = 0;

    while (n + 1 < LINE_SIZE && !memchr(line, '\n', n)) {
        struct pollfd p = {.fd = in, .events = POLLIN};
        ssize_t got = 0;

        if (cli_signal_caught())
            return hw_fail(reterr, HOWDAH_INTERRUPTED, "interrupted");
        if (hw_clock_mono_ms() > until_ms)
            return hw_fail(reterr, HOWDAH_TIMEOUT, "the gateway does not start");
        if (poll(&p, 1, TICK_MS) <= 0)
            continue;
        got = read(in, line + n, LINE_SIZE - 1 - n);
        if (got == 0)
            return hw_fail(reterr, HOWDAH_FAILED, "the gateway ended before it had begun");
        n += got > 0 ? (size_t)got : 0;
    }
    line[n] = '\0';
    return HOWDAH_OK;
}

static int await_address(bench_gateway *g, int in, howdah_error *reterr)
{
    static const char before[] = "\"listening\":\"";
    char line[LINE_SIZE] = "";
    const char *at;
    size_t n;
    int s = read_line(in, line, reterr);

    if (s < 0)
        return s;
    at = strstr(line, before);
    at = at ? at + strlen(before) : "";
    n = strcspn(at, "\"");
    if (n == 0 || n >= sizeof g->address)
        return hw_fail(reterr, HOWDAH_FAILED, "the gateway does not say where it listens");
    (void)snprintf(g->address, sizeof g->address, "%.*s", (int)n, at);
    return HOWDAH_OK;
}

/* -------------------------------------------------------------- begin and end */

int bench_gateway_start(const bench_site *site, bench_gateway **ret_gateway, howdah_error *reterr)
{
    bench_gateway *g = hw_calloc(1, sizeof *g);
    variables environment = {NULL, 0};
    int ends[2] = {-1, -1};
    int s;

    if (!g)
        return hw_fail_no_memory(reterr);
    raise_file_limit();
    s = make_environment(site, &environment, reterr);
    if (s >= 0 && pipe2(ends, O_CLOEXEC) < 0)
        s = hw_fail(reterr, HOWDAH_FAILED, "cannot make a pipe: %m");
    if (s >= 0)
        s = spawn(g, site, &environment, ends[1], reterr);
    if (ends[1] >= 0)
        (void)close(ends[1]);
    if (s >= 0)
        s = await_address(g, ends[0], reterr);
    if (ends[0] >= 0)
        (void)close(ends[0]);
    variables_done(&environment);
    if (s < 0) {
        (void)bench_gateway_stop(g, NULL);
        return s;
    }
    *ret_gateway = g;
    return HOWDAH_OK;
}

/* False: it still runs after that time. */
static bool await_end(pid_t pid, int64_t for_ms, int *ret_status)
{
    int64_t until_ms = hw_clock_end_ms(for_ms);

    while (waitpid(pid, ret_status, WNOHANG) == 0) {
        if (hw_clock_mono_ms() > until_ms)
            return false;
        hw_clock_sleep_ms(TICK_MS);
    }
    return true;
}

int bench_gateway_stop(bench_gateway *g, howdah_error *reterr)
{
    int status = 0;
    bool in_time = true;

    if (!g)
        return HOWDAH_OK;
    if (g->pid > 0) {
        (void)kill(g->pid, SIGTERM);
        in_time = await_end(g->pid, STOP_MS, &status);
        if (!in_time) {
            (void)kill(g->pid, SIGKILL);
            (void)waitpid(g->pid, &status, 0);
        }
    }
    hw_free(g);
    if (!in_time)
        return hw_fail(reterr, HOWDAH_FAILED, "the gateway did not end within %d s",
                       STOP_MS / 1000);
    if (WIFSIGNALED(status))
        return hw_fail(reterr, HOWDAH_FAILED, "the gateway ended by signal %d", WTERMSIG(status));
    if (WEXITSTATUS(status) != 0)
        return hw_fail(reterr, HOWDAH_FAILED, "the gateway ended with exit code %d",
                       WEXITSTATUS(status));
    return HOWDAH_OK;
}

/* ------------------------------------------------------------------- figures */

const char *bench_gateway_address(const bench_gateway *g)
{
    return g->address;
}

int64_t bench_gateway_cpu_us(const bench_gateway *g)
{
    struct timespec used;
    clockid_t clock;

    if (clock_getcpuclockid(g->pid, &clock) != 0 || clock_gettime(clock, &used) < 0)
        return 0;
    return (int64_t)used.tv_sec * 1000000 + used.tv_nsec / 1000;
}

int64_t bench_gateway_memory(const bench_gateway *g)
{
    return bench_memory_of(g->pid);
}
