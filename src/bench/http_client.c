/*
 * http_client.c - see http_client.h.
 *
 *   I1  A connection has one request at a time, so what comes is the answer to it, and nothing is
 *       left when the answer is done.
 *   I2  Nothing is waited for longer than ANSWER_S, and no body is kept beyond BODY_BYTES_MAX.
 */
#include "bench/http_client.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"

#define ANSWER_S 60
#define BODY_BYTES_MAX ((size_t)256 * 1024 * 1024)
#define READ_BYTES ((size_t)64 * 1024)
/* What of a refusal goes into a message. */
#define REFUSAL_BYTES 300

/* ------------------------------------------------------------------ answers */

void bench_http_answer_init(bench_http_answer *a, bench_http_sink *sink, void *ctx)
{
    *a = (bench_http_answer){.sink = sink, .ctx = ctx};
}

/* "Name: value": the value, when the line has this name. */
static const char *value_of(const char *line, const char *name)
{
    size_t n = strlen(name);

    if (strncasecmp(line, name, n) != 0 || line[n] != ':')
        return NULL;
    return line + n + 1 + strspn(line + n + 1, " ");
}

/* After the empty line. */
static int end_head(bench_http_answer *a, howdah_error *reterr)
{
    if (a->http_status == 0)
        return hw_fail(reterr, HOWDAH_FAILED, "an answer without a status");
    if (a->http_status < 200)
        a->http_status = 0; /* 100 Continue: the answer itself comes now */
    else if (a->chunked)
        a->state = BENCH_HTTP_CHUNK_SIZE;
    else
        a->state = a->left > 0 ? BENCH_HTTP_LENGTH : BENCH_HTTP_DONE;
    return HOWDAH_OK;
}

static int take_head(bench_http_answer *a, howdah_error *reterr)
{
    const char *value;

    if (a->line_n == 0)
        return end_head(a, reterr);
    if (a->http_status == 0) {
        if (strncmp(a->line, "HTTP/1.1 ", 9) != 0)
            return hw_fail(reterr, HOWDAH_FAILED, "not an answer in HTTP/1.1");
        a->http_status = (int)strtol(a->line + 9, NULL, 10);
    } else if ((value = value_of(a->line, "Content-Length"))) {
        if (!hw_parse_i64(value, 0, INT64_MAX, &a->left))
            return hw_fail(reterr, HOWDAH_FAILED, "an answer of no known length");
    } else if ((value = value_of(a->line, "Transfer-Encoding"))) {
        a->chunked = strcasecmp(value, "chunked") == 0;
    }
    return HOWDAH_OK;
}

static int take_chunk_size(bench_http_answer *a, howdah_error *reterr)
{
    char *end;
    unsigned long long size = strtoull(a->line, &end, 16);

    if (end == a->line || size > BODY_BYTES_MAX)
        return hw_fail(reterr, HOWDAH_FAILED, "a chunk of no known length");
    a->left = (int64_t)size;
    a->state = size > 0 ? BENCH_HTTP_CHUNK : BENCH_HTTP_TRAILER;
    return HOWDAH_OK;
}

/* A line without its end. */
static int take_line(bench_http_answer *a, howdah_error *reterr)
{
    int s = HOWDAH_OK;

    assert(a->line_n < sizeof a->line);
    a->line[a->line_n] = '\0';
    if (a->state == BENCH_HTTP_HEAD)
        s = take_head(a, reterr);
    else if (a->state == BENCH_HTTP_CHUNK_SIZE)
        s = take_chunk_size(a, reterr);
    else if (a->state == BENCH_HTTP_CHUNK_END)
        a->state = BENCH_HTTP_CHUNK_SIZE;
    else if (a->line_n == 0)
        a->state = BENCH_HTTP_DONE; /* behind the last chunk */
    a->line_n = 0;
    return s;
}

static int take_line_bytes(bench_http_answer *a, const char *bytes, size_t n, size_t *ret_n,
                           howdah_error *reterr)
{
    const char *end = memchr(bytes, '\n', n);
    size_t length = end ? (size_t)(end - bytes) : n;
    size_t room = sizeof a->line - 1 - a->line_n;
    size_t kept = length < room ? length : room;

    memcpy(a->line + a->line_n, bytes, kept);
    a->line_n += kept;
    *ret_n = length + (end != NULL);
    if (!end)
        return HOWDAH_OK;
    if (a->line_n > 0 && a->line[a->line_n - 1] == '\r')
        a->line_n--;
    return take_line(a, reterr);
}

static size_t take_body_bytes(bench_http_answer *a, const char *bytes, size_t n)
{
    if ((int64_t)n > a->left)
        n = (size_t)a->left;
    a->sink(a->ctx, bytes, n);
    a->left -= (int64_t)n;
    if (a->left == 0)
        a->state = a->state == BENCH_HTTP_CHUNK ? BENCH_HTTP_CHUNK_END : BENCH_HTTP_DONE;
    return n;
}

int bench_http_answer_take(bench_http_answer *a, const char *bytes, size_t n, size_t *ret_n,
                           howdah_error *reterr)
{
    size_t at = 0;
    int s = HOWDAH_OK;

    while (s >= 0 && at < n && a->state != BENCH_HTTP_DONE) {
        size_t taken = 0;

        if (a->state == BENCH_HTTP_LENGTH || a->state == BENCH_HTTP_CHUNK)
            taken = take_body_bytes(a, bytes + at, n - at);
        else
            s = take_line_bytes(a, bytes + at, n - at, &taken, reterr);
        at += taken;
    }
    *ret_n = at;
    return s;
}

/* -------------------------------------------------------------- connections */

struct bench_http_client {
    int fd;
    char address[64];
    hw_buf request;
    hw_buf body;
    bench_http_answer answer;
    char bytes[READ_BYTES];
};

/* A request goes out at once: it is always complete. */
static int set_options(int fd)
{
    const struct timeval limit = {.tv_sec = ANSWER_S};
    int one = 1;

    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) < 0)
        return -1;
    return setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

int bench_http_dial(const char *address, int *ret_fd, howdah_error *reterr)
{
    struct sockaddr_in to = {.sin_family = AF_INET};
    const char *colon = strrchr(address, ':');
    char host[64];
    int64_t port = 0;
    int fd;

    (void)snprintf(host, sizeof host, "%.*s", colon ? (int)(colon - address) : 0, address);
    if (!colon || inet_pton(AF_INET, host, &to.sin_addr) != 1 ||
        !hw_parse_i64(colon + 1, 1, 65535, &port))
        return hw_fail(reterr, HOWDAH_FAILED, "not the address of a gateway: %s", address);
    to.sin_port = htons((uint16_t)port);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || set_options(fd) < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) < 0) {
        int s = hw_fail(reterr, HOWDAH_UNAVAILABLE, "cannot connect to the gateway: %m");

        if (fd >= 0)
            (void)close(fd);
        return s;
    }
    *ret_fd = fd;
    return HOWDAH_OK;
}

int bench_http_open(const char *address, bench_http_client **ret_client, howdah_error *reterr)
{
    bench_http_client *c = hw_calloc(1, sizeof *c);
    int s;

    if (!c)
        return hw_fail_no_memory(reterr);
    c->fd = -1;
    c->request = (hw_buf)HW_BUF_INIT(BODY_BYTES_MAX);
    c->body = (hw_buf)HW_BUF_INIT(BODY_BYTES_MAX);
    (void)snprintf(c->address, sizeof c->address, "%s", address);
    s = bench_http_dial(address, &c->fd, reterr);
    if (s < 0) {
        bench_http_close(c);
        return s;
    }
    *ret_client = c;
    return HOWDAH_OK;
}

void bench_http_close(bench_http_client *c)
{
    if (!c)
        return;
    if (c->fd >= 0)
        (void)close(c->fd);
    hw_buf_done(&c->request);
    hw_buf_done(&c->body);
    hw_free(c);
}

void bench_http_interrupt(bench_http_client *c)
{
    (void)shutdown(c->fd, SHUT_RDWR);
}

static int fail_io(const char *doing, howdah_error *reterr)
{
    if (errno == EAGAIN || errno == EWOULDBLOCK)
        return hw_fail(reterr, HOWDAH_TIMEOUT, "the gateway has not answered for %d s", ANSWER_S);
    return hw_fail(reterr, HOWDAH_FAILED, "%s the gateway failed: %m", doing);
}

static int send_all(bench_http_client *c, howdah_error *reterr)
{
    size_t sent = 0;

    while (sent < c->request.len) {
        ssize_t n = send(c->fd, c->request.data + sent, c->request.len - sent, MSG_NOSIGNAL);

        if (n < 0 && errno != EINTR)
            return fail_io("writing to", reterr);
        sent += n > 0 ? (size_t)n : 0;
    }
    return HOWDAH_OK;
}

static int receive(bench_http_client *c, howdah_error *reterr)
{
    int s = HOWDAH_OK;

    while (s >= 0 && c->answer.state != BENCH_HTTP_DONE) {
        ssize_t n = recv(c->fd, c->bytes, sizeof c->bytes, 0);
        size_t taken = 0;

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail_io("reading from", reterr);
        if (n == 0)
            return hw_fail(reterr, HOWDAH_FAILED, "the gateway has closed the connection");
        s = bench_http_answer_take(&c->answer, c->bytes, (size_t)n, &taken, reterr);
        if (s >= 0 && taken < (size_t)n)
            return hw_fail(reterr, HOWDAH_FAILED, "more came than the answer"); /* I1 */
    }
    return s;
}

static void keep_body(void *ctx, const char *bytes, size_t n)
{
    hw_buf_put(&((bench_http_client *)ctx)->body, bytes, n);
}

/* A refusal's own words are what somebody who looks for the cause wants to see. */
static int judge(const bench_http_client *c, const char *method, const char *path,
                 howdah_error *reterr)
{
    hw_str body = bench_http_body(c);
    int n = (int)(body.len < REFUSAL_BYTES ? body.len : REFUSAL_BYTES);
    int s = hw_buf_check(&c->body, reterr);

    if (s < 0 || c->answer.http_status / 100 == 2)
        return s;
    return hw_fail(reterr, HOWDAH_FAILED, "%s %s: %d %.*s", method, path, c->answer.http_status, n,
                   body.s);
}

int bench_http_ask(bench_http_client *c, const char *method, const char *path, const char *headers,
                   hw_str body, bench_http_sink *sink, void *ctx, howdah_error *reterr)
{
    int s;

    hw_buf_clear(&c->request);
    hw_buf_clear(&c->body);
    bench_http_answer_init(&c->answer, sink ? sink : keep_body, sink ? ctx : c);
    hw_buf_printf(&c->request, "%s %s HTTP/1.1\r\nHost: %s\r\n%s", method, path, c->address,
                  headers);
    if (body.s)
        hw_buf_printf(&c->request, "Content-Length: %zu\r\n", body.len);
    hw_buf_puts(&c->request, "\r\n");
    if (body.s)
        hw_buf_put(&c->request, body.s, body.len);
    s = hw_buf_check(&c->request, reterr);
    if (s >= 0)
        s = send_all(c, reterr);
    if (s >= 0)
        s = receive(c, reterr);
    return s < 0 ? s : judge(c, method, path, reterr);
}

hw_str bench_http_body(const bench_http_client *c)
{
    return (hw_str){hw_buf_str(&c->body), c->body.len};
}
