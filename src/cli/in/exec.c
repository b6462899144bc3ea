/* exec.c - see exec.h. */
#include "cli/in/exec.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "cli/in/signals.h"

#define LINES_KEPT 3
/* Between two looks at the time, at give_up() and, without its own descriptor, at its end. */
#define LOOK_MS 50
#define GRACE_MS 2000 /* from SIGTERM to SIGKILL */

typedef struct child {
    const cli_exec_options *options;
    pid_t pid;
    int in;  /* our end of its stdin, -1: closed */
    int out; /* our end of its stdout, -1: closed, or not ours to read */
    int err; /* our end of its stderr, -1: closed */
    int end; /* readable when it has ended; -1: it has to be asked for */
    hw_str input;
    bool echo;
    bool ended;
    int status;
    int lost;        /* errno: how it ended could not be learnt (I4) */
    int64_t end_ms;  /* when it is ended */
    int64_t kill_ms; /* and when without mercy; INT64_MAX: it was not told yet */
    bool timed_out;
    bool gave_up;
    cli_tail tail;
} child;

/* -1 afterwards, so that closing twice is harmless. */
static void shut(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

/* ------------------------------------------------------------------- start */

/* The command itself is not in the message: it may contain secrets. */
static int fail_start(const char *what, int number, howdah_error *reterr)
{
    return hw_fail(reterr, HOWDAH_FAILED, "cannot run the command: %s: %s", what,
                   strerrordesc_np(number));
}

/* Whether two entries of an environment have the same name. */
static bool names_the_same(const char *a, const char *b)
{
    size_t n = strcspn(a, "=");

    return strncmp(a, b, n) == 0 && b[n] == '=';
}

#define STORE "HOWDAH_STORE="

/*
 * HOWDAH_STORE for a command: which store this is it may want to know, and not knowing it would
 * lead it to another; the password it gets only when asked for.  *ret_entry NULL: as it is.
 */
static bool strip_store(char **ret_entry)
{
    const char *store = getenv("HOWDAH_STORE"); /* NOLINT(concurrency-mt-unsafe): only read */
    hw_buf entry = HW_BUF_INIT(SIZE_MAX);
    char *bare;

    if (!store)
        return true;
    bare = hw_url_strip(store);
    if (!bare)
        return false;
    hw_buf_puts(&entry, STORE);
    hw_buf_puts(&entry, bare);
    hw_free(bare);
    if (!entry.broken)
        *ret_entry = hw_buf_take(&entry);
    hw_buf_done(&entry);
    return *ret_entry != NULL;
}

/* Our environment with the caller's variables, and another store if not NULL; hw_free() it. */
static char **make_environment(const char *const *more, char *store)
{
    size_t n = 0;
    size_t more_n = 0;
    char **all;

    while (environ[n])
        n++;
    while (more && more[more_n])
        more_n++;
    all = hw_calloc(n + more_n + 2, sizeof *all);
    if (!all)
        return NULL;
    for (size_t i = n = 0; environ[i]; i++) {
        bool replaced = store && names_the_same(store, environ[i]);

        for (size_t k = 0; k < more_n && !replaced; k++)
            replaced = names_the_same(more[k], environ[i]);
        if (!replaced)
            all[n++] = environ[i];
    }
    if (more_n > 0)
        memcpy(all + n, more, more_n * sizeof *all); /* only read */
    all[n + more_n] = store;
    return all;
}

/* A process group of its own, so that ending the command ends what it started as well. */
static int spawn_with(const cli_exec_options *options, char *command,
                      const posix_spawn_file_actions_t *actions, pid_t *ret_pid)
{
    char name[] = "sh";
    char option[] = "-c";
    char *const argv[] = {name, option, command, NULL};
    char *store = NULL;
    char **environment = NULL;
    posix_spawnattr_t attributes;
    sigset_t defaults;
    int rc = ENOMEM;

    if (options->pass_store || strip_store(&store))
        environment = make_environment(options->environment, store);
    if (environment)
        rc = posix_spawnattr_init(&attributes);
    if (rc == 0) {
        (void)sigemptyset(&defaults);
        (void)sigaddset(&defaults, SIGPIPE); /* we ignore it, the command need not */
        rc = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
        if (rc == 0)
            rc = posix_spawnattr_setsigdefault(&attributes, &defaults);
        if (rc == 0)
            rc = posix_spawn(ret_pid, "/bin/sh", actions, &attributes, argv, environment);
        (void)posix_spawnattr_destroy(&attributes);
    }
    hw_free(environment);
    hw_free(store);
    return rc;
}

int cli_spawn(const cli_exec_options *options, int in, int out, int err, pid_t *ret_pid)
{
    posix_spawn_file_actions_t actions;
    char *command = hw_strdup(options->command); /* the vector of arguments is not const */
    int rc = command ? posix_spawn_file_actions_init(&actions) : ENOMEM;

    if (rc != 0) {
        hw_free(command);
        return rc;
    }
    rc = posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
    if (rc == 0 && out >= 0)
        rc = posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    if (rc == 0)
        rc = posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO);
    if (rc == 0)
        rc = spawn_with(options, command, &actions, ret_pid);
    (void)posix_spawn_file_actions_destroy(&actions);
    hw_free(command);
    return rc;
}

/* Standard descriptors are all open (main.c), so these are others. */
static int open_pipes(child *c, int theirs[3])
{
    int pipes[3][2] = {{-1, -1}, {-1, -1}, {-1, -1}};
    int rc = pipe2(pipes[0], O_CLOEXEC) < 0 ? errno : 0;

    if (rc == 0 && c->options->output)
        rc = pipe2(pipes[1], O_CLOEXEC) < 0 ? errno : 0;
    if (rc == 0)
        rc = pipe2(pipes[2], O_CLOEXEC) < 0 ? errno : 0;
    c->in = pipes[0][1];
    c->out = pipes[1][0];
    c->err = pipes[2][0];
    theirs[0] = pipes[0][0];
    theirs[1] = pipes[1][1];
    theirs[2] = pipes[2][1];
    (void)fcntl(c->in, F_SETFL, O_NONBLOCK);
    (void)fcntl(c->out, F_SETFL, O_NONBLOCK);
    (void)fcntl(c->err, F_SETFL, O_NONBLOCK);
    return rc;
}

/* Those of the child were closed once it had them. */
static void shut_ours(child *c)
{
    shut(&c->in);
    shut(&c->out);
    shut(&c->err);
    shut(&c->end);
}

/* Our copies of the child's ends are closed at once: else we would never see their end. */
static int start(child *c, howdah_error *reterr)
{
    int theirs[3] = {-1, -1, -1};
    int rc = open_pipes(c, theirs);
    const char *what = rc == 0 ? "/bin/sh" : "a pipe";

    if (rc == 0)
        rc = cli_spawn(c->options, theirs[0], theirs[1], theirs[2], &c->pid);
    for (int i = 0; i < 3; i++)
        shut(&theirs[i]);
    if (rc == 0)
        return HOWDAH_OK;
    shut_ours(c);
    return fail_start(what, rc, reterr);
}

/* --------------------------------------------------------------- while it runs */

/* Not blocking: a command that reads nothing must not stop us from hearing it. */
static void write_input(child *c)
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

/* The last bytes, in room of a fixed size: a command may print for hours. */
void cli_tail_keep(cli_tail *tail, const char *bytes, size_t n)
{
    assert(n <= CLI_TAIL_ROOM / 2 && tail->n <= CLI_TAIL_ROOM);
    if (n > CLI_TAIL_ROOM - tail->n) {
        size_t dropped = tail->n - CLI_TAIL_ROOM / 2;

        memmove(tail->text, tail->text + dropped, tail->n - dropped);
        tail->n -= dropped;
    }
    memcpy(tail->text + tail->n, bytes, n);
    tail->n += n;
}

/* What does not fit any more is read all the same: nobody waits for us (I1). */
static void keep_output(child *c, const char *bytes, size_t n)
{
    hw_buf *out = c->options->output;
    size_t left = out->len_max - out->len;

    assert(out->len <= out->len_max);
    hw_buf_put(out, bytes, n < left ? n : left);
}

/* False when there is nothing more to hear now. */
static bool listen_to(child *c, int *fd)
{
    char bytes[CLI_TAIL_ROOM / 2];
    ssize_t n = read(*fd, bytes, sizeof bytes);

    if (n > 0 && fd == &c->out) {
        keep_output(c, bytes, (size_t)n);
        return true;
    }
    if (n > 0) {
        cli_tail_keep(&c->tail, bytes, (size_t)n);
        if (c->echo && write(STDERR_FILENO, bytes, (size_t)n) < 0)
            c->echo = false;
        return true;
    }
    if (n == 0 || (errno != EAGAIN && errno != EINTR))
        shut(fd);
    return false;
}

/* From now on its number may belong to another process, so nothing is sent to it any more. */
static void reap(child *c)
{
    pid_t pid;

    assert(!c->ended);
    do
        pid = waitpid(c->pid, &c->status, 0);
    while (pid < 0 && errno == EINTR);
    c->lost = pid < 0 ? errno : 0;
    c->ended = true;
}

/* Whether its shell has gone; it is not reaped by that, and its group's number is not given away.
 */
static bool is_gone(const child *c)
{
    siginfo_t info = {.si_pid = 0};
    int rc;

    do
        rc = waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOHANG | WNOWAIT);
    while (rc < 0 && errno == EINTR);
    return rc < 0 || info.si_pid != 0;
}

/*
 * A shell that was told to end may leave other processes of its group running.  They get their
 * time as well while they hold our pipes; those that do not cannot be seen any more (I2).
 */
static void see_whether_it_ended(child *c)
{
    bool told = c->kill_ms != INT64_MAX;

    if (!is_gone(c))
        return;
    if (told && (c->out >= 0 || c->err >= 0) && hw_clock_mono_ms() < c->kill_ms) {
        shut(&c->end); /* it has told all that it can */
        return;
    }
    if (told)
        (void)kill(-c->pid, SIGKILL);
    reap(c);
}

/* Ends it where that is due: asked first, then made to. */
static void see_to_its_end(child *c)
{
    int64_t now = hw_clock_mono_ms();

    if (c->kill_ms == INT64_MAX) {
        c->gave_up = c->options->give_up && c->options->give_up(c->options->ctx);
        c->timed_out = !c->gave_up && now >= c->end_ms;
        if (!c->gave_up && !c->timed_out)
            return;
        c->kill_ms = now + GRACE_MS;
        (void)kill(-c->pid, SIGTERM);
    } else if (now >= c->kill_ms) {
        (void)kill(-c->pid, SIGKILL);
    }
}

/* Looks every LOOK_MS even when nothing happens, for the time and for give_up(). */
static void attend(child *c)
{
    while (!c->ended) {
        struct pollfd fds[4] = {{.fd = c->in, .events = POLLOUT},
                                {.fd = c->out, .events = POLLIN},
                                {.fd = c->err, .events = POLLIN},
                                {.fd = c->end, .events = POLLIN}};
        int n = poll(fds, 4, LOOK_MS);

        if (fds[0].revents)
            write_input(c);
        if (fds[1].revents)
            (void)listen_to(c, &c->out);
        if (fds[2].revents)
            (void)listen_to(c, &c->err);
        if (fds[3].revents || n <= 0 || c->kill_ms != INT64_MAX)
            see_whether_it_ended(c);
        if (!c->ended)
            see_to_its_end(c);
    }
    while (c->out >= 0 && listen_to(c, &c->out))
        ;
    while (c->err >= 0 && listen_to(c, &c->err))
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

/* One harmless text: it is stored as an error, and shown in terminals. */
static void copy_message(char message[CLI_EXEC_MESSAGE_MAX + 1], const char *text, size_t n)
{
    bool decodes = hw_utf8_valid(text, n);
    size_t at = 0;

    assert(n <= CLI_EXEC_MESSAGE_MAX);
    for (; at < n; at++) {
        unsigned char c = (unsigned char)text[at];

        if ((c < 0x20 && c != '\n') || c == 0x7f)
            message[at] = ' ';
        else
            message[at] = c >= 0x80 && !decodes ? '?' : (char)c;
    }
    message[at] = '\0';
}

bool cli_tail_message(const cli_tail *tail, char message[CLI_EXEC_MESSAGE_MAX + 1])
{
    size_t n = tail->n;
    size_t start;

    while (n > 0 && strchr("\n\r\t ", tail->text[n - 1]))
        n--;
    start = last_lines(tail->text, n);
    if (start < n)
        copy_message(message, tail->text + start, n - start);
    return start < n;
}

/* When the command itself said nothing. */
static void say_end(const child *c, cli_exec_result *result)
{
    if (c->timed_out)
        (void)snprintf(result->message, sizeof result->message,
                       "the command took longer than %lld ms", (long long)c->options->timeout_ms);
    else if (c->lost)
        (void)snprintf(result->message, sizeof result->message,
                       "cannot tell how the command ended: %s", strerrordesc_np(c->lost));
    else if (WIFSIGNALED(c->status))
        (void)snprintf(result->message, sizeof result->message,
                       "the command was ended by signal %d (%s)", WTERMSIG(c->status),
                       sigdescr_np(WTERMSIG(c->status)));
    else
        (void)snprintf(result->message, sizeof result->message,
                       "the command ended with exit code %d", WEXITSTATUS(c->status));
}

/* What it wrote to stderr explains a failure best; its exit code is what is left without. */
static void judge(const child *c, cli_exec_result *result)
{
    *result = (cli_exec_result){.gave_up = c->gave_up,
                                .timed_out = c->timed_out,
                                .exit_code =
                                    !c->lost && WIFEXITED(c->status) ? WEXITSTATUS(c->status) : -1};
    result->ok = result->exit_code == 0;
    if (result->ok)
        return;
    if (c->timed_out || c->lost || !cli_tail_message(&c->tail, result->message))
        say_end(c, result);
}

int cli_exec(const cli_exec_options *options, cli_exec_result *ret_result, howdah_error *reterr)
{
    child c = {.options = options,
               .in = -1,
               .out = -1,
               .err = -1,
               .end = -1,
               .input = options->input,
               .echo = options->echo,
               .end_ms = INT64_MAX,
               .kill_ms = INT64_MAX};
    int s = start(&c, reterr);

    if (s < 0)
        return s;
    if (options->timeout_ms > 0 && options->timeout_ms < INT64_MAX - hw_clock_mono_ms())
        c.end_ms = hw_clock_mono_ms() + options->timeout_ms;
    c.end = (int)syscall(SYS_pidfd_open, c.pid, 0);
    cli_signals_child(c.pid);
    attend(&c);
    cli_signals_child_gone(c.pid);
    shut_ours(&c);
    judge(&c, ret_result);
    return HOWDAH_OK;
}
