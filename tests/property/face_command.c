/*
 * face_command.c - one process of "howdah append --batch --dry-run", fed while it answers.
 *
 * It answers when its buffer is full, so lines are written and answers are read in one poll loop:
 * neither side can wait for the other for ever.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/json.h"
#include "property.h"

#define READ_CHUNK 65536
#define EXIT_REFUSED 6

typedef struct answer {
    uint8_t outcome;
    uint8_t field;
} answer;

struct command_face {
    pid_t pid;
    int to, from; /* -1: closed */
    hw_buf pending;
    answer *answers;
    size_t answers_n, answers_room;
    size_t sent;
    bool any_refused;
};

/* ---------------------------------------------------------------------- process */

static _Noreturn void become_command(const char *path, int in, int out)
{
    if (dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0)
        _exit(126);
    (void)setenv("HOWDAH_PAYLOAD_BYTES_MAX", "4096", 1);
    (void)execl(path, path, "append", "--batch", "--dry-run", "--json", "--quiet", (char *)NULL);
    _exit(127);
}

command_face *command_open(const char *path)
{
    command_face *s = calloc(1, sizeof *s);
    int to[2];
    int from[2];

    if (!s || pipe2(to, O_CLOEXEC) < 0 || pipe2(from, O_CLOEXEC) < 0)
        die("no pipe");
    (void)signal(SIGPIPE, SIG_IGN);
    s->pid = fork();
    if (s->pid < 0)
        die("no process");
    if (s->pid == 0)
        become_command(path, to[0], from[1]);
    (void)close(to[0]);
    (void)close(from[1]);
    s->to = to[1];
    s->from = from[0];
    if (fcntl(s->to, F_SETFL, O_NONBLOCK) < 0)
        die("no pipe");
    s->pending = (hw_buf)HW_BUF_INIT(SIZE_MAX);
    return s;
}

void command_close(command_face *s)
{
    hw_buf_done(&s->pending);
    free(s->answers);
    free(s);
}

/* ---------------------------------------------------------------------- answers */

static answer parse(const char *line, size_t len)
{
    answer a = {BROKEN, F_NONE};
    hw_str key;
    hw_str value;
    size_t pos = 0;

    if (!hw_json_valid(line, len, HW_JSON_DEPTH_MAX, NULL))
        return a;
    while (hw_json_member(line, len, &pos, &key, &value)) {
        if (hw_json_key_is(key, "ok"))
            a.outcome = value.s[0] == 't' ? STORED : REFUSED;
        else if (hw_json_key_is(key, "field") && value.s[0] == '"')
            a.field = (uint8_t)field_of((hw_str){value.s + 1, value.len - 2});
    }
    return a;
}

static void keep(command_face *s, answer a)
{
    if (s->answers_n == s->answers_room) {
        size_t room = s->answers_room ? 2 * s->answers_room : 4096;
        answer *answers = realloc(s->answers, room * sizeof *answers);

        if (!answers)
            die("no memory");
        s->answers = answers;
        s->answers_room = room;
    }
    s->any_refused = s->any_refused || a.outcome == REFUSED;
    s->answers[s->answers_n++] = a;
}

/* Takes the whole lines out of what came so far. */
static void take_lines(command_face *s)
{
    size_t done = 0;

    for (;;) {
        const char *from = hw_buf_str(&s->pending) + done;
        const char *end = memchr(from, '\n', s->pending.len - done);

        if (!end)
            break;
        keep(s, parse(from, (size_t)(end - from)));
        done += (size_t)(end - from) + 1;
    }
    if (done > 0) {
        memmove(s->pending.data, s->pending.data + done, s->pending.len - done);
        s->pending.len -= done;
    }
}

/* False at the end of its output. */
static bool read_some(command_face *s)
{
    ssize_t got;

    if (!hw_buf_reserve(&s->pending, READ_CHUNK))
        die("no memory");
    got = read(s->from, s->pending.data + s->pending.len, READ_CHUNK);
    if (got < 0 && errno == EINTR)
        return true;
    if (got <= 0)
        return false;
    s->pending.len += (size_t)got;
    take_lines(s);
    return true;
}

/* ----------------------------------------------------------------------- sending */

static void write_all(command_face *s, const char *bytes, size_t n)
{
    while (n > 0) {
        struct pollfd fds[2] = {{.fd = s->to, .events = POLLOUT},
                                {.fd = s->from, .events = POLLIN}};
        ssize_t written;

        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            die("poll: %s", strerror(errno));
        if ((fds[1].revents & (POLLIN | POLLHUP)) && !read_some(s))
            die("the command ended before its input did, after %zu answers", s->answers_n);
        if (!(fds[0].revents & (POLLOUT | POLLERR)))
            continue;
        written = write(s->to, bytes, n);
        if (written < 0 && errno != EAGAIN && errno != EINTR)
            die("the command does not read: %s", strerror(errno));
        if (written > 0) {
            bytes += written;
            n -= (size_t)written;
        }
    }
}

void command_send(command_face *s, const hw_buf *line)
{
    write_all(s, line->data, line->len);
    write_all(s, "\n", 1);
    s->sent++;
}

void command_finish(command_face *s)
{
    int status = 0;
    int wanted;

    (void)close(s->to);
    while (read_some(s))
        continue;
    (void)close(s->from);
    if (waitpid(s->pid, &status, 0) != s->pid)
        die("waitpid: %s", strerror(errno));
    wanted = s->any_refused ? EXIT_REFUSED : 0;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != wanted)
        die("the command ended with status 0x%x instead of exit code %d", (unsigned)status, wanted);
    if (s->answers_n != s->sent)
        die("%zu lines, %zu answers of the command", s->sent, s->answers_n);
}

verdict command_verdict(const command_face *s, size_t line)
{
    answer a = s->answers[line];

    return (verdict){.outcome = (outcome)a.outcome, .field = (field)a.field, .unordered = true};
}
