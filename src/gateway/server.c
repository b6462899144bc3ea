/*
 * server.c - sockets and limits: the only file that starts and stops libmicrohttpd.
 *
 *   I1  A connection that does nothing, or takes too long over a request's headers or body, is
 *       ended by the clock below, and not by what it sends: a byte now and then keeps no slot.
 *   I2  While it ends, the gateway answers what runs, and says on each connection that it closes.
 *       libmicrohttpd is stopped when no request is left.
 */
#include <arpa/inet.h>
#include <assert.h>
#include <inttypes.h>
#include <microhttpd.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "gateway/access.h"
#include "gateway/problem.h"
#include "gateway/routes.h"
#include "gateway/server.h"
#include "gateway/stream.h"

#define HTTP_THREADS 2
/* Of one connection: what libmicrohttpd has for a request's line and headers, and for the answer's.
   A stream keeps it as long as it is open. */
#define CONNECTION_BYTES ((size_t)8 * 1024)
/* Connections beyond the limit that are told so, and file descriptors that are not connections:
   libmicrohttpd's own, and some for each session of the store. */
#define OVER_MAX 64
#define OWN_FILES 64
#define SESSION_FILES 8
#define WAITING_MAX 10000
#define BACKLOG 512
#define GIVE_UP_MS 5000

/* --------------------------------------------------------------------- log */

void gw_log(const gw_gateway *gateway, int level, const char *fmt, ...)
{
    char line[2048];
    va_list args;

    if (!gateway->options.log)
        return;
    va_start(args, fmt);
    (void)vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    gateway->options.log(gateway->options.log_ctx, level, line);
}

size_t gw_payload_max(const gw_gateway *gateway)
{
    const char *text = howdah_settings_get(gateway->options.settings, "payload_bytes_max");
    int64_t bytes = 1024 * 1024;

    if (text)
        (void)hw_parse_bytes(text, &bytes);
    return (size_t)bytes;
}

/* What a client sent stands in it as a JSON string: no escape and no line break of theirs gets out.
 */
static void log_access(gw_gateway *g, const gw_request *r)
{
    const bool json = g->options.log_format == GW_LOG_JSON;
    double ms = (double)(hw_clock_mono_us() - r->begun_us) / 1000;
    hw_buf line = HW_BUF_INIT(65536);
    hw_buf url = HW_BUF_INIT(65536);
    char time[HW_TIME_TEXT + 1];
    char trace[GW_TRACE_ID_TEXT + 1];

    if (!g->options.log || g->options.log_format == GW_LOG_OFF)
        return;
    hw_time_format(hw_clock_wall_us(), time);
    if (hw_utf8_valid(r->url, strlen(r->url)))
        hw_json_put_string(&url, r->url, strlen(r->url));
    else
        hw_buf_puts(&url, json ? "null" : "-");
    hw_buf_printf(&line,
                  json ? "{\"time\":\"%s\",\"id\":\"%s\",\"client\":\"%s\",\"method\":\"%s\","
                         "\"url\":%s,\"status\":%d,"
                         "\"bytes_in\":%zu,\"ms\":%.3f"
                       : "time=%s id=%s client=%s method=%s url=%s status=%d bytes_in=%zu ms=%.3f",
                  time, r->id, r->client, r->method ? r->method : "?", hw_buf_str(&url),
                  r->answer.http_status, r->body.len, ms);
    if (r->trace.parent[0]) {
        gw_trace_id(&r->trace, trace);
        hw_buf_printf(&line, json ? ",\"trace_id\":\"%s\"" : " trace_id=%s", trace);
    }
    hw_buf_puts(&line, json ? "}" : "");
    if (!line.broken)
        g->options.log(g->options.log_ctx, HOWDAH_LOG_INFO, hw_buf_str(&line));
    hw_buf_done(&url);
    hw_buf_done(&line);
}

/* ---------------------------------------------------------------- requests */

static void list_request(gw_gateway *g, gw_request *r)
{
    (void)pthread_mutex_lock(&g->lock);
    r->next = g->requests;
    if (r->next)
        r->next->previous = r;
    g->requests = r;
    g->requests_n++;
    r->too_late = g->closed;
    (void)pthread_mutex_unlock(&g->lock);
}

static void unlist_request(gw_gateway *g, gw_request *r)
{
    (void)pthread_mutex_lock(&g->lock);
    if (r->previous)
        r->previous->next = r->next;
    else
        g->requests = r->next;
    if (r->next)
        r->next->previous = r->previous;
    (void)pthread_mutex_unlock(&g->lock);
}

/* Only now: what a request had may have needed the gateway to the end. */
static void count_down(gw_gateway *g)
{
    (void)pthread_mutex_lock(&g->lock);
    if (--g->requests_n == 0)
        (void)pthread_cond_broadcast(&g->quiet);
    (void)pthread_mutex_unlock(&g->lock);
}

/* -------------------------------------------------------------- connections */

/* Between two requests its time runs: a first line that comes byte by byte is one that does not
   come. */
typedef struct gw_connection {
    struct gw_connection *next;
    struct gw_connection *previous;
    int fd;
    bool over;            /* there were as many as may be when it came */
    atomic_llong idle_ms; /* since then it has had no request; 0: it has one */
} gw_connection;

static void list_connection(gw_gateway *g, gw_connection *c)
{
    (void)pthread_mutex_lock(&g->lock);
    c->next = g->connections;
    if (c->next)
        c->next->previous = c;
    g->connections = c;
    c->over = ++g->connections_n > (size_t)g->options.connections;
    (void)pthread_mutex_unlock(&g->lock);
}

static void unlist_connection(gw_gateway *g, gw_connection *c)
{
    (void)pthread_mutex_lock(&g->lock);
    if (c->previous)
        c->previous->next = c->next;
    else
        g->connections = c->next;
    if (c->next)
        c->next->previous = c->previous;
    g->connections_n--;
    (void)pthread_mutex_unlock(&g->lock);
}

static void on_connection(void *ctx, struct MHD_Connection *connection, void **socket_context,
                          enum MHD_ConnectionNotificationCode what)
{
    gw_gateway *g = ctx;
    gw_connection *c = *socket_context;
    const union MHD_ConnectionInfo *info;

    if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
        if (c)
            unlist_connection(g, c);
        hw_free(c);
        *socket_context = NULL;
        return;
    }
    info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    c = info ? hw_calloc(1, sizeof *c) : NULL;
    if (!c)
        return; /* its time is not watched, then; libmicrohttpd's own limit holds */
    c->fd = info->connect_fd;
    atomic_init(&c->idle_ms, hw_clock_mono_ms());
    *socket_context = c;
    list_connection(g, c);
}

static gw_connection *connection_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

    return info ? info->socket_context : NULL;
}

static void set_idle(struct MHD_Connection *connection, int64_t idle_ms)
{
    gw_connection *c = connection_of(connection);

    if (c)
        atomic_store(&c->idle_ms, idle_ms);
}

bool gw_is_over_limit(struct MHD_Connection *connection)
{
    const gw_connection *c = connection_of(connection);

    return c && c->over;
}

/* What libmicrohttpd cannot say in the middle of a body. */
static void tell_too_slow(const gw_gateway *g, const gw_request *r, int fd)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    hw_buf body = HW_BUF_INIT(4096);
    hw_buf text = HW_BUF_INIT(8192);

    (void)hw_fail(&err, HOWDAH_TIMEOUT, "the request came too slowly");
    err.flags |= HOWDAH_RETRYABLE;
    gw_problem_put(&body, &err, 408, r->id);
    hw_buf_printf(&text,
                  "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nX-Request-Id: %s\r\n"
                  "Content-Type: application/problem+json\r\nContent-Length: %zu\r\n\r\n%s",
                  r->id, body.len, hw_buf_str(&body));
    if (!g->tls && !text.broken)
        (void)send(fd, text.data, text.len, MSG_NOSIGNAL | MSG_DONTWAIT);
    hw_buf_done(&body);
    hw_buf_done(&text);
}

void gw_sweep(gw_gateway *g)
{
    int64_t now = hw_clock_mono_ms();

    (void)pthread_mutex_lock(&g->lock);
    for (gw_request *r = g->requests; r; r = r->next) {
        int64_t arrive_ms = atomic_load(&r->arrive_ms);
        const union MHD_ConnectionInfo *info;

        if (arrive_ms == 0 || now < arrive_ms)
            continue;
        atomic_store(&r->arrive_ms, 0);
        info = MHD_get_connection_info(r->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        if (!info)
            continue;
        tell_too_slow(g, r, info->connect_fd);
        (void)shutdown(info->connect_fd, SHUT_RDWR);
    }
    for (gw_connection *c = g->connections; c; c = c->next) {
        int64_t idle_ms = atomic_load(&c->idle_ms);

        if (idle_ms > 0 && now - idle_ms > g->options.idle_ms)
            (void)shutdown(c->fd, SHUT_RDWR);
    }
    (void)pthread_mutex_unlock(&g->lock);
}

/* The first line is read: a request begins. */
static void *on_uri(void *ctx, const char *uri, struct MHD_Connection *connection)
{
    gw_gateway *g = ctx;
    gw_request *r = gw_request_new(g, uri);

    if (r) {
        r->connection = connection;
        set_idle(connection, 0);
        list_request(g, r);
    }
    return r;
}

static void on_completed(void *ctx, struct MHD_Connection *connection, void **con_cls,
                         enum MHD_RequestTerminationCode how)
{
    gw_gateway *g = ctx;
    gw_request *r = *con_cls;

    (void)how;
    if (!r)
        return;
    *con_cls = NULL;
    set_idle(connection, hw_clock_mono_ms());
    if (r->answer.http_status != 0)
        log_access(g, r);
    gw_meters_request_ends(g->meters, r);
    unlist_request(g, r);
    gw_request_free(r);
    count_down(g);
}

/* ----------------------------------------------------------------- answers */

static struct MHD_Response *response_of(gw_request *r)
{
    static char nothing[1];
    size_t n = r->answer.body.len;
    struct MHD_Response *response;
    char *data;

    if (r->answer.stream)
        return gw_stream_response(r->answer.stream);
    r->bytes_out = (int64_t)n;
    if (n == 0)
        return MHD_create_response_from_buffer(0, nothing, MHD_RESPMEM_PERSISTENT);
    data = hw_buf_take(&r->answer.body);
    response = MHD_create_response_from_buffer_with_free_callback(n, data, hw_free);
    if (!response)
        hw_free(data);
    return response;
}

static void add_headers(gw_request *r, struct MHD_Response *response)
{
    const char *at = hw_buf_str(&r->answer.headers);
    const char *end = at + r->answer.headers.len;

    if (r->answer.content_type)
        (void)MHD_add_response_header(response, "Content-Type", r->answer.content_type);
    (void)MHD_add_response_header(response, "X-Request-Id", r->id);
    (void)MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    while (at < end) {
        const char *value = at + strlen(at) + 1;

        (void)MHD_add_response_header(response, at, value);
        at = value + strlen(value) + 1;
    }
    gw_access_headers(r, response);
    if (!MHD_get_response_header(response, "Cache-Control"))
        (void)MHD_add_response_header(response, "Cache-Control", "no-store");
    if (atomic_load(&r->gateway->stopping))
        (void)MHD_add_response_header(response, "Connection", "close");
}

static enum MHD_Result send_answer(gw_request *r)
{
    struct MHD_Response *response;
    enum MHD_Result result;

    assert(r->state == GW_ANSWERED && r->answer.http_status != 0);
    response = response_of(r);
    if (!response)
        return MHD_NO;
    add_headers(r, response);
    /* libmicrohttpd ends a body in chunks that HEAD does not have. */
    if (r->answer.stream && strcmp(r->method, "HEAD") == 0)
        (void)MHD_add_response_header(response, "Connection", "close");
    r->state = GW_SENDING;
    gw_meters_answer_begins(r->gateway->meters, r);
    result = MHD_queue_response(r->connection, (unsigned)r->answer.http_status, response);
    MHD_destroy_response(response);
    return result;
}

static bool has_body(const gw_request *r)
{
    const char *length = gw_header(r, "Content-Length");

    return gw_header(r, "Transfer-Encoding") || (length && strcmp(length, "0") != 0);
}

/* Called with the headers, then for each part of the body, then at its end, and after each resume.
 */
static enum MHD_Result on_access(void *ctx, struct MHD_Connection *connection, const char *url,
                                 const char *method, const char *version, const char *upload,
                                 size_t *upload_n, void **con_cls)
{
    gw_request *r = *con_cls;

    (void)ctx;
    (void)url;
    (void)version;
    if (!r)
        return MHD_NO;
    if (!r->method) {
        gw_request_begin(r, connection, method);
        /* Answered before its body came, a connection is closed; without a body it need not be. */
        return r->state == GW_ANSWERED && has_body(r) ? send_answer(r) : MHD_YES;
    }
    if (*upload_n > 0) {
        gw_request_take(r, upload, *upload_n);
        *upload_n = 0;
        return MHD_YES;
    }
    if (r->state == GW_ARRIVING && gw_request_run(r))
        return MHD_YES;
    return r->state == GW_ANSWERED ? send_answer(r) : MHD_YES;
}

/* The URL stays as it came: request.c decodes. */
static size_t keep_escapes(void *ctx, struct MHD_Connection *connection, char *text)
{
    (void)ctx;
    (void)connection;
    return strlen(text);
}

HW_PRINTF(2, 0) static void on_mhd_log(void *ctx, const char *fmt, va_list args)
{
    char line[512];

    (void)vsnprintf(line, sizeof line, fmt, args);
    line[strcspn(line, "\r\n")] = '\0';
    gw_log(ctx, HOWDAH_LOG_DEBUG, "%s", line);
}

/* ---------------------------------------------------------------- listening */

/* "127.0.0.1:4460", "[::1]:0", ":4460" (loopback). */
static int split_address(const char *listen, char host[64], char port[8], howdah_error *reterr)
{
    const char *colon = strrchr(listen, ':');
    const char *begin = listen;
    size_t n = colon ? (size_t)(colon - listen) : 0;
    int64_t number;
    int s;

    if (n >= 2 && begin[0] == '[' && begin[n - 1] == ']') {
        begin++;
        n -= 2;
    }
    if (!colon || n >= 64 || strlen(colon + 1) >= 8 ||
        !hw_parse_i64(colon + 1, 0, 65535, &number)) {
        s = hw_fail_field(reterr, HOWDAH_INVALID, "listen", "expected ADDRESS:PORT; got %zu bytes",
                          strlen(listen));
        return hw_advise(reterr, s, "like 127.0.0.1:4460, or :4460 for loopback");
    }
    (void)snprintf(host, 64, "%.*s", (int)n, n > 0 ? begin : "127.0.0.1");
    if (n == 0)
        (void)snprintf(host, 64, "127.0.0.1");
    (void)snprintf(port, 8, "%s", colon + 1);
    return HOWDAH_OK;
}

static bool is_loopback(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr) >> 24 ==
               127;
    return address->sa_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
}

static void tell_address(gw_gateway *g, int fd)
{
    struct sockaddr_storage address = {0};
    socklen_t n = sizeof address;
    char host[64] = "?";
    char port[8] = "?";

    if (getsockname(fd, (struct sockaddr *)&address, &n) == 0)
        (void)getnameinfo((struct sockaddr *)&address, n, host, sizeof host, port, sizeof port,
                          NI_NUMERICHOST | NI_NUMERICSERV);
    (void)snprintf(g->address, sizeof g->address, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host,
                   port);
}

static int open_socket(gw_gateway *g, int *ret_fd, howdah_error *reterr)
{
    const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
                                   .ai_socktype = SOCK_STREAM};
    struct addrinfo *info = NULL;
    char host[64];
    char port[8];
    int one = 1;
    int fd;
    int s = split_address(g->listen, host, port, reterr);

    if (s < 0)
        return s;
    if (getaddrinfo(host, port, &hints, &info) != 0)
        return hw_fail_field(reterr, HOWDAH_INVALID, "listen", "not a numeric address");
    fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (fd < 0 || bind(fd, info->ai_addr, info->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0) {
        s = hw_fail(reterr, HOWDAH_UNAVAILABLE, "cannot listen on %s: %m", g->listen);
        if (fd >= 0)
            (void)close(fd);
        freeaddrinfo(info);
        return hw_advise(reterr, s,
                         "another program may have it; --listen 127.0.0.1:0 takes a free port");
    }
    freeaddrinfo(info);
    *ret_fd = fd;
    return HOWDAH_OK;
}

/*
 * Beyond loopback there are people whom nobody knows.  The list may be missing, when the store is
 * away: then tokens are in force until it is there.
 */
static int check_listening(const gw_gateway *g, int fd, const gw_token_list *list,
                           howdah_error *reterr)
{
    struct sockaddr_storage address = {0};
    socklen_t n = sizeof address;
    int s;

    if (getsockname(fd, (struct sockaddr *)&address, &n) == 0 &&
        (address.ss_family == AF_UNIX || is_loopback((const struct sockaddr *)&address)))
        return HOWDAH_OK;
    if (!g->options.tls_cert && !g->options.behind_proxy) {
        s = hw_fail_field(reterr, HOWDAH_INVALID, "listen",
                          "beyond loopback tokens would be sent in the clear");
        return hw_advise(reterr, s,
                         "give --tls-cert FILE --tls-key FILE, or --behind-proxy when a "
                         "proxy speaks TLS; or listen on 127.0.0.1");
    }
    if (list && gw_token_list_count(list) == 0) {
        s = hw_fail_field(reterr, HOWDAH_INVALID, "listen",
                          "beyond loopback everybody needs a token, and there is none");
        return hw_advise(reterr, s,
                         "run: howdah serve token add NAME --may RIGHTS; or listen on "
                         "127.0.0.1");
    }
    return HOWDAH_OK;
}

static int listen_somewhere(gw_gateway *g, int *ret_fd, howdah_error *reterr)
{
    gw_token_list *list;
    int fd = g->options.listen_fd;
    int s = fd >= 0 ? HOWDAH_OK : open_socket(g, &fd, reterr);

    if (s < 0)
        return s;
    list = gw_tokens_hold(g->tokens);
    s = check_listening(g, fd, list, reterr);
    gw_token_list_release(list);
    if (s < 0)
        (void)close(fd);
    else
        *ret_fd = fd;
    return s;
}

static int start_daemon(gw_gateway *g, howdah_error *reterr)
{
    const struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_CERT_CALLBACK, 0, gw_tls_callback()},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)GW_TLS_PRIORITIES},
        {MHD_OPTION_END, 0, NULL}};
    struct MHD_Daemon *daemon;
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
    int fd = -1;
    int s = listen_somewhere(g, &fd, reterr);

    if (s < 0)
        return s;
    tell_address(g, fd);
    daemon = MHD_start_daemon(
        g->tls ? flags | MHD_USE_TLS : flags, 0, NULL, NULL, on_access, g, MHD_OPTION_LISTEN_SOCKET,
        fd, MHD_OPTION_EXTERNAL_LOGGER, on_mhd_log, g, MHD_OPTION_URI_LOG_CALLBACK, on_uri, g,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, g, MHD_OPTION_NOTIFY_CONNECTION, on_connection,
        g, MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, NULL, MHD_OPTION_THREAD_POOL_SIZE,
        (unsigned)HTTP_THREADS, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)g->options.connections + OVER_MAX, MHD_OPTION_PER_IP_CONNECTION_LIMIT,
        (unsigned)g->options.per_address, MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_BYTES,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)((g->options.idle_ms + 999) / 1000),
        MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_ARRAY, g->tls ? tls : tls + 2, MHD_OPTION_END);
    (void)pthread_mutex_lock(&g->lock);
    g->daemon = daemon; /* its threads may answer already */
    (void)pthread_mutex_unlock(&g->lock);
    if (daemon)
        return HOWDAH_OK;
    (void)close(fd);
    return hw_fail(reterr, HOWDAH_FAILED, "the HTTP server could not be started on %s", g->address);
}

/* ------------------------------------------------------------ begin and end */

/* A Unix socket and loopback are this machine's own; all others are asked for tokens always. */
static bool is_reachable(const gw_gateway *g)
{
    hw_str host = {g->listen,
                   strrchr(g->listen, ':') ? (size_t)(strrchr(g->listen, ':') - g->listen) : 0};
    struct sockaddr_storage address = {0};
    socklen_t n = sizeof address;

    if (g->options.listen_fd >= 0)
        return getsockname(g->options.listen_fd, (struct sockaddr *)&address, &n) < 0 ||
               (address.ss_family != AF_UNIX && !is_loopback((struct sockaddr *)&address));
    return host.len > 0 && !gw_host_is_loopback(g->listen) && !hw_str_equal(host, hw_str_of("::1"));
}

static int prepare_access(gw_gateway *g, howdah_error *reterr)
{
    const gw_tokens_options tokens = {g->url, g->options.settings,
                                      g->options.require_token || is_reachable(g)};
    int s = gw_attempts_new(&g->attempts, reterr);

    if (s >= 0 && g->options.tls_cert)
        s = gw_tls_new(g->options.tls_cert, g->options.tls_key, &g->tls, reterr);
    return s < 0 ? s : gw_tokens_new(&tokens, &g->tokens, reterr);
}

int gw_reload(gw_gateway *g, howdah_error *reterr)
{
    gw_tokens_reload(g->tokens);
    return g->tls ? gw_tls_reload(g->tls, reterr) : HOWDAH_OK;
}

/* The store's sessions must not be without a file descriptor because clients have them all. */
static void fit_to_files(gw_gateway *g)
{
    const int64_t own = OWN_FILES + OVER_MAX + SESSION_FILES * g->options.sessions;
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return;
    if (files.rlim_cur < files.rlim_max &&
        files.rlim_cur < (rlim_t)(g->options.connections + own)) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
        (void)getrlimit(RLIMIT_NOFILE, &files);
    }
    if (files.rlim_cur >= (rlim_t)(g->options.connections + own))
        return;
    g->options.connections =
        (int64_t)files.rlim_cur > own + 10 ? (int64_t)files.rlim_cur - own : 10;
    gw_log(g, HOWDAH_LOG_WARN,
           "this process may open %" PRId64 " files: at most %" PRId64 " connections are taken",
           (int64_t)files.rlim_cur, g->options.connections);
}

static int start(gw_gateway *g, const gw_options *options, howdah_error *reterr)
{
    gw_pool_options pool;
    int s;

    g->options = *options;
    g->url = hw_strdup(options->url);
    g->listen = hw_strdup(options->listen ? options->listen : "127.0.0.1:4460");
    g->meters = gw_meters_new();
    if (!g->url || !g->listen || !g->meters)
        return hw_fail_no_memory(reterr);
    g->started_us = hw_clock_wall_us();
    fit_to_files(g);
    pool = (gw_pool_options){g->url, options->settings, (size_t)options->sessions, WAITING_MAX};
    s = gw_pool_new(&pool, &g->pool, reterr);
    if (s >= 0)
        s = gw_waiting_new(g, &g->waiting, reterr);
    if (s >= 0)
        s = gw_relay_new(g, &g->relay, reterr);
    if (s >= 0)
        s = gw_scrape_new(g, &g->scrape, reterr);
    if (s >= 0)
        s = prepare_access(g, reterr);
    if (s >= 0 && options->webhooks && !options->read_only)
        s = gw_webhooks_new(g, &g->webhooks, reterr);
    if (s >= 0 && !options->read_only)
        s = gw_routing_new(g, &g->routing, reterr);
    return s < 0 ? s : start_daemon(g, reterr);
}

int gw_start(const gw_options *options, gw_gateway **ret_gateway, howdah_error *reterr)
{
    gw_gateway *g = hw_calloc(1, sizeof *g);
    int s;

    if (!g)
        return hw_fail_no_memory(reterr);
    (void)pthread_mutex_init(&g->lock, NULL);
    (void)pthread_mutex_init(&g->publisher_lock, NULL);
    (void)pthread_cond_init(&g->quiet, NULL);
    s = start(g, options, reterr);
    if (s < 0) {
        gw_stop(g);
        return s;
    }
    *ret_gateway = g;
    return HOWDAH_OK;
}

const char *gw_address(const gw_gateway *gateway)
{
    return gateway->address;
}

/* I2.  Until no request is left, or the time is over (false).  From then on none begins:
   connections that are open may send more, and get an answer that needs nothing of ours. */
static bool drain(gw_gateway *g, int64_t for_ms)
{
    struct timespec until;

    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += for_ms / 1000;
    until.tv_nsec += for_ms % 1000 * 1000000;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_nsec -= 1000000000L;
        until.tv_sec++;
    }
    (void)pthread_mutex_lock(&g->lock);
    while (g->requests_n > 0 && pthread_cond_timedwait(&g->quiet, &g->lock, &until) == 0)
        ;
    g->closed = g->requests_n == 0;
    (void)pthread_mutex_unlock(&g->lock);
    return g->closed;
}

/* What does not end by itself: sockets are shut, calls of the store are interrupted. */
static void give_up(gw_gateway *g)
{
    gw_pool_interrupt(g->pool);
    gw_scrape_interrupt(g->scrape);
    (void)pthread_mutex_lock(&g->lock);
    for (gw_request *r = g->requests; r; r = r->next) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(r->connection, MHD_CONNECTION_INFO_CONNECTION_FD);

        if (info && info->connect_fd >= 0)
            (void)shutdown(info->connect_fd, SHUT_RDWR);
    }
    (void)pthread_mutex_unlock(&g->lock);
}

void gw_stop(gw_gateway *g)
{
    int fd = -1;

    if (!g)
        return;
    atomic_store(&g->stopping, true);
    gw_webhooks_end(g->webhooks, hw_clock_mono_ms() + g->options.drain_ms);
    if (g->daemon) {
        fd = MHD_quiesce_daemon(g->daemon);
        /* Nobody is let in any more.  It is closed at the end: libmicrohttpd still knows it.  A
           socket that was passed to us is its owner's. */
        if (fd >= 0 && g->options.listen_fd < 0)
            (void)shutdown(fd, SHUT_RDWR);
        gw_waiting_end(g->waiting);
        gw_relay_end(g->relay);
        if (!drain(g, g->options.drain_ms)) {
            give_up(g);
            if (!drain(g, GIVE_UP_MS)) {
                gw_log(g, HOWDAH_LOG_ERROR,
                       "a call of the store does not end; this process has to");
                return; /* whatever it needs stays */
            }
        }
        MHD_stop_daemon(g->daemon);
        if (fd >= 0)
            (void)close(fd);
    }
    gw_webhooks_free(g->webhooks);
    gw_routing_free(g->routing);
    howdah_publisher_free(atomic_load(&g->publisher));
    gw_relay_free(g->relay);
    gw_scrape_end(g->scrape);
    gw_waiting_free(g->waiting);
    gw_pool_free(g->pool);
    (void)pthread_mutex_destroy(&g->publisher_lock);
    gw_scrape_free(g->scrape);
    gw_meters_free(g->meters);
    gw_tokens_free(g->tokens);
    gw_attempts_free(g->attempts);
    gw_tls_free(g->tls);
    (void)pthread_cond_destroy(&g->quiet);
    (void)pthread_mutex_destroy(&g->lock);
    hw_free(g->url);
    hw_free(g->listen);
    hw_free(g);
}
