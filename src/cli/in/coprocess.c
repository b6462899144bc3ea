/* coprocess.c - see coprocess.h. */
#include "cli/in/coprocess.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cli/in/signals.h"

#define INPUT_MAX ((size_t)512 * 1024 * 1024) /* above any batch the library can make */
#define GRACE_MS 5000                         /* to end by itself after its input has ended, */
#define KILL_MS 2000                          /* and after SIGTERM */
#define LOOK_MS 10

struct cli_coprocess {
    pid_t pid;
    int in;  /* our end of its stdin, -1: closed */
    int out; /* our end of its stdout, -1: closed */
    int err; /* our end of its stderr, -1: closed */
    bool echo;
    cli_tail tail;
    hw_buf input;
    size_t sent; /* of it */
    hw_buf output;
    size_t taken; /* of it, by answers */
    bool closing; /* its stdin is closed when all is sent */
    bool long_line;
};

static void shut(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

static void free_process(cli_coprocess *p)
{
    shut(&p->in);
    shut(&p->out);
    shut(&p->err);
    hw_buf_done(&p->input);
    hw_buf_done(&p->output);
    hw_free(p);
}

static int open_and_spawn(cli_coprocess *p, const cli_exec_options *options)
{
    int in[2] = {-1, -1};
    int out[2] = {-1, -1};
    int err[2] = {-1, -1};
    int rc = 0;

    if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0 || pipe2(err, O_CLOEXEC) < 0)
        rc = errno;
    if (rc == 0)
        rc = cli_spawn(options, in[0], out[1], err[1], &p->pid);
    p->in = in[1];
    p->out = out[0];
    p->err = err[0];
    (void)fcntl(p->in, F_SETFL, O_NONBLOCK);
    (void)fcntl(p->out, F_SETFL, O_NONBLOCK);
    (void)fcntl(p->err, F_SETFL, O_NONBLOCK);
    shut(&in[0]);
    shut(&out[1]);
    shut(&err[1]);
    return rc;
}

int cli_coprocess_start(const cli_exec_options *options, cli_coprocess **ret_process,
                        howdah_error *reterr)
{
    cli_coprocess *p = hw_calloc(1, sizeof *p);
    int rc;

    if (!p)
        return hw_fail_no_memory(reterr);
    *p = (cli_coprocess){.in = -1,
                         .out = -1,
                         .err = -1,
                         .echo = options->echo,
                         .input = HW_BUF_INIT(INPUT_MAX),
                         .output = HW_BUF_INIT(2 * CLI_ANSWER_MAX)};
    rc = open_and_spawn(p, options);
    if (rc != 0) {
        free_process(p);
        return hw_fail(reterr, HOWDAH_FAILED, "cannot run the command: %s", strerrordesc_np(rc));
    }
    cli_signals_child(p->pid);
    *ret_process = p;
    return HOWDAH_OK;
}

int cli_coprocess_send(cli_coprocess *p, hw_str text, howdah_error *reterr)
{
    if (p->sent == p->input.len) {
        hw_buf_clear(&p->input);
        p->sent = 0;
    }
    hw_buf_put(&p->input, text.s, text.len);
    return hw_buf_check(&p->input, reterr);
}

void cli_coprocess_close_input(cli_coprocess *p)
{
    p->closing = true;
    if (p->sent == p->input.len)
        shut(&p->in);
}

/* One that reads no more gets no more: its end, or its answers, tell the rest. */
static void write_some(cli_coprocess *p)
{
    ssize_t n = write(p->in, p->input.data + p->sent, p->input.len - p->sent);

    if (n > 0)
        p->sent += (size_t)n;
    else if (n < 0 && errno != EAGAIN && errno != EINTR)
        p->sent = p->input.len;
    if (p->sent == p->input.len && p->closing)
        shut(&p->in);
}

/* I3. */
static void hear(cli_coprocess *p)
{
    char bytes[16384];
    ssize_t n = read(p->out, bytes, sizeof bytes);

    if (n > 0 && p->taken > 0 && p->taken == p->output.len) {
        hw_buf_clear(&p->output);
        p->taken = 0;
    }
    if (n > 0)
        hw_buf_put(&p->output, bytes, (size_t)n);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR) || p->output.broken)
        shut(&p->out);
}

/* False: there is nothing more now. */
static bool hear_errors(cli_coprocess *p)
{
    char bytes[CLI_TAIL_ROOM / 2];
    ssize_t n = p->err >= 0 ? read(p->err, bytes, sizeof bytes) : -1;

    if (n > 0) {
        cli_tail_keep(&p->tail, bytes, (size_t)n);
        if (p->echo && write(STDERR_FILENO, bytes, (size_t)n) < 0)
            p->echo = false;
        return true;
    }
    if (n == 0 || (errno != EAGAIN && errno != EINTR))
        shut(&p->err);
    return false;
}

/* A line that is whole; what was taken before it is dropped now and then. */
static bool take_line(cli_coprocess *p, hw_str *ret_line)
{
    char *at = p->output.data ? p->output.data + p->taken : NULL;
    size_t left = p->output.len - p->taken;
    char *end = at ? memchr(at, '\n', left) : NULL;

    if (end) {
        *ret_line = (hw_str){at, (size_t)(end - at)};
        p->taken += ret_line->len + 1;
        return true;
    }
    if (at && p->taken > 0 && left > 0) {
        memmove(p->output.data, at, left);
        p->output.len = left;
        p->taken = 0;
    }
    if (left > CLI_ANSWER_MAX) {
        p->long_line = true;
        shut(&p->out);
    }
    return false;
}

cli_answer cli_coprocess_answer(cli_coprocess *p, int ms, hw_str *ret_line)
{
    int64_t until = hw_clock_mono_ms() + ms;

    for (;;) {
        struct pollfd fds[3] = {
            {.fd = p->sent < p->input.len ? p->in : -1, .events = POLLOUT},
            {.fd = p->out, .events = POLLIN},
            {.fd = p->err, .events = POLLIN},
        };
        int64_t left = until - hw_clock_mono_ms();

        if (take_line(p, ret_line))
            return CLI_ANSWER_LINE;
        if (p->out < 0)
            return CLI_ANSWER_ENDED;
        if (poll(fds, 3, left > 0 ? (int)left : 0) <= 0 && left <= 0)
            return CLI_ANSWER_NONE;
        if (fds[0].revents)
            write_some(p);
        if (fds[1].revents)
            hear(p);
        if (fds[2].revents)
            (void)hear_errors(p);
    }
}

/* ------------------------------------------------------------------- its end */

/* Whether it is gone within the time.  Its stderr is heard meanwhile, or it might never end. */
static bool wait_for(cli_coprocess *p, int64_t ms, int *ret_status)
{
    int64_t until = hw_clock_mono_ms() + ms;

    for (;;) {
        pid_t pid = waitpid(p->pid, ret_status, WNOHANG);

        while (hear_errors(p))
            ;
        if (pid == p->pid || (pid < 0 && errno != EINTR))
            return true;
        if (hw_clock_mono_ms() >= until)
            return false;
        hw_clock_sleep_ms(LOOK_MS);
    }
}

void cli_coprocess_end(cli_coprocess *p, char message[CLI_EXEC_MESSAGE_MAX + 1])
{
    int status = 0;
    const bool is_silent = p->out < 0;
    bool ended_by_us;
    bool gone;

    shut(&p->in);
    gone = wait_for(p, cli_signals_hurry() ? 0 : GRACE_MS, &status);
    ended_by_us = !gone;
    if (!gone) {
        (void)kill(-p->pid, SIGTERM);
        gone = wait_for(p, cli_signals_hurry() ? 0 : KILL_MS, &status);
    }
    (void)kill(-p->pid, SIGKILL); /* what it has left */
    if (!gone)
        (void)wait_for(p, KILL_MS, &status);
    cli_signals_child_gone(p->pid);
    while (hear_errors(p))
        ;
    if (p->long_line)
        (void)snprintf(message, CLI_EXEC_MESSAGE_MAX,
                       "the command wrote a line of more than 1 MiB");
    else if (ended_by_us && is_silent)
        (void)snprintf(message, CLI_EXEC_MESSAGE_MAX,
                       "the command closed its output, and had to be ended");
    else if (cli_tail_message(&p->tail, message))
        ;
    else if (WIFSIGNALED(status))
        (void)snprintf(message, CLI_EXEC_MESSAGE_MAX, "the command was ended by signal %d (%s)",
                       WTERMSIG(status), sigdescr_np(WTERMSIG(status)));
    else
        (void)snprintf(message, CLI_EXEC_MESSAGE_MAX, "the command ended with exit code %d",
                       WEXITSTATUS(status));
    free_process(p);
}
