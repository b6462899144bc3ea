/* exec.c - see exec.h. */
#include "cli/exec.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"
#include "cli/signals.h"

#define TAIL_ROOM 8192u
#define LINES_KEPT 3
/* A command may leave a process behind that holds its stderr open: its own end is asked for too. */
#define LOOK_MS 50

typedef struct child {
    pid_t pid;
    int in;  /* our end of its stdin, -1: closed */
    int err; /* our end of its stderr, -1: closed */
    hw_str input;
    bool echo;
    bool ended;
    int status;
    size_t tail_n;
    char tail[TAIL_ROOM]; /* the last that it said */
} child;

static void shut(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

/* ------------------------------------------------------------------- start */

static int fail_start(const char *what, int number, howdah_error *reterr)
{
    return hw_fail(reterr, HOWDAH_FAILED, "cannot run the command: %s: %s", what,
                   strerrordesc_np(number));
}

static int spawn(child *c, char *command, int in, int err)
{
    char name[] = "sh";
    char option[] = "-c";
    char *const argv[] = {name, option, command, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t defaults;
    int rc = posix_spawn_file_actions_init(&actions);

    if (rc != 0)
        return rc;
    (void)sigemptyset(&defaults);
    (void)sigaddset(&defaults, SIGPIPE); /* we ignore it, the command need not */
    rc = posix_spawnattr_init(&attributes);
    if (rc == 0) {
        rc = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
        if (rc == 0)
            rc = posix_spawnattr_setsigdefault(&attributes, &defaults);
        if (rc == 0)
            rc = posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
        if (rc == 0)
            rc = posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO);
        if (rc == 0)
            rc = posix_spawn(&c->pid, "/bin/sh", &actions, &attributes, argv, environ);
        (void)posix_spawnattr_destroy(&attributes);
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    return rc;
}

static int start(child *c, const char *command, howdah_error *reterr)
{
    int in[2] = {-1, -1};
    int err[2] = {-1, -1};
    char *text;
    int rc;

    /* Standard descriptors are all open (main.c), so these are others. */
    if (pipe2(in, O_CLOEXEC) < 0)
        return fail_start("a pipe", errno, reterr);
    if (pipe2(err, O_CLOEXEC) < 0) {
        rc = errno;
        shut(&in[0]);
        shut(&in[1]);
        return fail_start("a pipe", rc, reterr);
    }
    (void)fcntl(in[1], F_SETFL, O_NONBLOCK);
    (void)fcntl(err[0], F_SETFL, O_NONBLOCK);
    text = hw_strdup(command); /* the vector of arguments is not const */
    rc = text ? spawn(c, text, in[0], err[1]) : ENOMEM;
    hw_free(text);
    shut(&in[0]);
    shut(&err[1]);
    c->in = in[1];
    c->err = err[0];
    if (rc == 0)
        return HOWDAH_OK;
    shut(&c->in);
    shut(&c->err);
    return fail_start("/bin/sh", rc, reterr);
}

/* --------------------------------------------------------------- while it runs */

static void feed(child *c)
{
    ssize_t n = write(c->in, c->input.s, c->input.len);

    if (n >= 0) {
        c->input.s += n;
        c->input.len -= (size_t)n;
    } else if (errno != EAGAIN && errno != EINTR) {
        c->input.len = 0; /* it does not want to know more */
    }
    if (c->input.len == 0)
        shut(&c->in);
}

static void keep(child *c, const char *bytes, size_t n)
{
    if (n > TAIL_ROOM - c->tail_n) { /* n is at most half of it */
        size_t dropped = c->tail_n - TAIL_ROOM / 2;

        memmove(c->tail, c->tail + dropped, c->tail_n - dropped);
        c->tail_n -= dropped;
    }
    memcpy(c->tail + c->tail_n, bytes, n);
    c->tail_n += n;
}

/* False when there is nothing more to hear now. */
static bool listen_to(child *c)
{
    char bytes[TAIL_ROOM / 2];
    ssize_t n = read(c->err, bytes, sizeof bytes);

    if (n > 0) {
        keep(c, bytes, (size_t)n);
        if (c->echo && write(STDERR_FILENO, bytes, (size_t)n) < 0)
            c->echo = false;
        return true;
    }
    if (n == 0 || (errno != EAGAIN && errno != EINTR))
        shut(&c->err);
    return false;
}

static void reap(child *c, int flags)
{
    pid_t pid;

    do
        pid = waitpid(c->pid, &c->status, flags);
    while (pid < 0 && errno == EINTR);
    c->ended = pid != 0;
}

static void attend(child *c)
{
    while (!c->ended) {
        struct pollfd fds[2] = {{.fd = c->in, .events = POLLOUT}, {.fd = c->err, .events = POLLIN}};

        if (c->in < 0 && c->err < 0) {
            reap(c, 0);
            break;
        }
        (void)poll(fds, 2, LOOK_MS);
        if (fds[0].revents)
            feed(c);
        if (fds[1].revents)
            (void)listen_to(c);
        else if (!fds[0].revents)
            reap(c, WNOHANG);
    }
    while (c->err >= 0 && listen_to(c))
        ;
}

/* ----------------------------------------------------------------- its words */

/* The start of the last lines, as many as fit. */
static size_t last_lines(const char *text, size_t n)
{
    size_t start = n;
    int lines = 0;

    while (start > 0 && n - (start - 1) <= CLI_EXEC_MESSAGE_MAX) {
        if (text[start - 1] == '\n' && ++lines == LINES_KEPT)
            break;
        start--;
    }
    /* A single line that is longer loses its front; not half a character. */
    while (start < n && ((unsigned char)text[start] & 0xc0u) == 0x80u)
        start++;
    return start;
}

static void copy_message(cli_exec_result *result, const char *text, size_t n)
{
    bool decodes = hw_utf8_valid(text, n);
    size_t at = 0;

    for (; at < n; at++) {
        unsigned char c = (unsigned char)text[at];

        if ((c < 0x20 && c != '\n') || c == 0x7f)
            result->message[at] = ' ';
        else
            result->message[at] = c >= 0x80 && !decodes ? '?' : (char)c;
    }
    result->message[at] = '\0';
}

static void say_end(const child *c, cli_exec_result *result)
{
    if (WIFSIGNALED(c->status))
        (void)snprintf(result->message, sizeof result->message,
                       "the command was ended by signal %d (%s)", WTERMSIG(c->status),
                       sigdescr_np(WTERMSIG(c->status)));
    else
        (void)snprintf(result->message, sizeof result->message,
                       "the command ended with exit code %d", WEXITSTATUS(c->status));
}

static void judge(const child *c, cli_exec_result *result)
{
    size_t n = c->tail_n;
    size_t start;

    result->message[0] = '\0';
    result->ok = WIFEXITED(c->status) && WEXITSTATUS(c->status) == 0;
    if (result->ok)
        return;
    while (n > 0 && strchr("\n\r\t ", c->tail[n - 1]))
        n--;
    start = last_lines(c->tail, n);
    if (start < n)
        copy_message(result, c->tail + start, n - start);
    else
        say_end(c, result);
}

int cli_exec(const char *command, hw_str input, bool echo, cli_exec_result *ret_result,
             howdah_error *reterr)
{
    child c = {.in = -1, .err = -1, .input = input, .echo = echo};
    int s = start(&c, command, reterr);

    if (s < 0)
        return s;
    cli_signals_child(c.pid);
    attend(&c);
    cli_signals_child(0);
    shut(&c.in);
    shut(&c.err);
    judge(&c, ret_result);
    return HOWDAH_OK;
}
