/* cutproxy.c - the proxy's process: one poll loop, a few connections. */
#include "cutproxy.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define WIRES_MAX 64
#define PIECE 65536

struct cutproxy_shared {
    atomic_int plans_taken;
    atomic_int fired;
    atomic_int accepted;
};

/* Bytes on their way; a socket that does not take them now takes them later. */
typedef struct bytes {
    char *data;
    size_t len;
    size_t room;
} bytes;

typedef struct wire {
    int client; /* -1: free */
    int server;
    bool withholding; /* the server's answer is being kept back */
    bool answered;    /* and it is complete */
    bytes to_client;
    bytes to_server;
} wire;

static struct {
    struct cutproxy_shared *shared;
    union {
        struct sockaddr any;
        struct sockaddr_un local;
        struct sockaddr_in tcp;
    } server;
    int listener;
    int commands;
    cutproxy_plan plan;
    wire wires[WIRES_MAX];
} proxy;

static void put(bytes *b, const char *data, size_t len)
{
    if (b->len + len > b->room) {
        b->room = (b->len + len) * 2;
        b->data = realloc(b->data, b->room);
        if (!b->data)
            _exit(3);
    }
    memcpy(b->data + b->len, data, len);
    b->len += len;
}

static void drop_wire(wire *w)
{
    if (w->client < 0)
        return;
    if (proxy.plan.reset) {
        struct linger now = {1, 0};

        (void)setsockopt(w->client, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    }
    (void)close(w->client);
    (void)close(w->server);
    free(w->to_client.data);
    free(w->to_server.data);
    *w = (wire){.client = -1, .server = -1};
}

/* The plan has come true: the wire breaks, and the next traffic passes. */
static void fire(wire *w)
{
    (void)atomic_fetch_add(&proxy.shared->fired, 1);
    drop_wire(w);
    proxy.plan = (cutproxy_plan){.how = CUTPROXY_PASS};
}

static bool write_out(int fd, bytes *b)
{
    while (b->len > 0) {
        ssize_t n = send(fd, b->data, b->len, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n < 0)
            return errno == EAGAIN || errno == EINTR;
        memmove(b->data, b->data + n, b->len - (size_t)n);
        b->len -= (size_t)n;
    }
    return true;
}

/* True when the answer, which starts with a whole message, has come to its ReadyForQuery. */
static bool is_ready(const bytes *answer)
{
    size_t at = 0;

    while (at + 5 <= answer->len) {
        const uint8_t *p = (const uint8_t *)answer->data + at;
        size_t len = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];

        if (at + 1 + len > answer->len)
            return false;
        if (p[0] == 'Z')
            return true;
        at += 1 + len;
    }
    return false;
}

static bool fits(const char *data, size_t len)
{
    const char *text = proxy.plan.text;

    return !*text || memmem(data, len, text, strlen(text) + proxy.plan.text_ends) != NULL;
}

/* What the client sent, under the plan in force. */
static void from_client(wire *w, const char *data, size_t len)
{
    cutproxy_how how = proxy.plan.how;

    if (how == CUTPROXY_CUT_REQUEST && fits(data, len)) {
        fire(w);
        return;
    }
    if ((how == CUTPROXY_CUT_ANSWER || how == CUTPROXY_HOLD_ANSWER) && fits(data, len))
        w->withholding = true;
    if (how == CUTPROXY_CUT_AFTER && proxy.plan.client_bytes > 0) {
        if (len >= proxy.plan.client_bytes) {
            put(&w->to_server, data, proxy.plan.client_bytes);
            (void)write_out(w->server, &w->to_server);
            fire(w);
            return;
        }
        proxy.plan.client_bytes -= len;
    }
    put(&w->to_server, data, len);
}

static void from_server(wire *w, const char *data, size_t len)
{
    if (proxy.plan.how == CUTPROXY_CUT_AFTER && proxy.plan.server_bytes > 0) {
        if (len >= proxy.plan.server_bytes) {
            put(&w->to_client, data, proxy.plan.server_bytes);
            (void)write_out(w->client, &w->to_client);
            fire(w);
            return;
        }
        proxy.plan.server_bytes -= len;
    }
    put(&w->to_client, data, len);
    if (!w->withholding || w->answered || !is_ready(&w->to_client))
        return;
    if (proxy.plan.how == CUTPROXY_CUT_ANSWER) {
        fire(w);
        return;
    }
    w->answered = true;
    (void)atomic_fetch_add(&proxy.shared->fired, 1);
}

/* False at the end of file or an error. */
static bool pump(wire *w, int fd, void (*take)(wire *w, const char *data, size_t len))
{
    static char piece[PIECE];
    ssize_t n = recv(fd, piece, sizeof piece, MSG_DONTWAIT);

    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    if (n > 0)
        take(w, piece, (size_t)n);
    return n > 0;
}

static int dial_server(void)
{
    bool local = proxy.server.any.sa_family == AF_UNIX;
    int fd = socket(proxy.server.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0 && connect(fd, &proxy.server.any,
                           local ? sizeof proxy.server.local : sizeof proxy.server.tcp) < 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

static void take_connection(void)
{
    int one = 1;
    int client = accept4(proxy.listener, NULL, NULL, SOCK_CLOEXEC);
    wire *w = NULL;

    if (client < 0)
        return;
    for (int i = 0; i < WIRES_MAX && !w; i++)
        if (proxy.wires[i].client < 0)
            w = &proxy.wires[i];
    if (w)
        w->server = dial_server();
    if (!w || w->server < 0) {
        (void)close(client);
        return;
    }
    (void)setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    w->client = client;
    (void)atomic_fetch_add(&proxy.shared->accepted, 1);
}

/* A filter that keeps no byte of a packet makes the kernel drop it before TCP sees it. */
static void swallow_packets(int fd, bool swallow)
{
    struct sock_filter none = BPF_STMT(BPF_RET | BPF_K, 0);
    struct sock_fprog program = {1, &none};

    if (fd < 0)
        return;
    if (!swallow)
        (void)setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &program, sizeof program);
    else if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) < 0)
        _exit(4);
}

static void set_link(bool down)
{
    swallow_packets(proxy.listener, down);
    for (int i = 0; i < WIRES_MAX; i++) {
        swallow_packets(proxy.wires[i].client, down);
        swallow_packets(proxy.wires[i].server, down);
    }
}

static void take_plan(void)
{
    bool was_down = proxy.plan.how == CUTPROXY_LINK_DOWN;

    if (read(proxy.commands, &proxy.plan, sizeof proxy.plan) != (ssize_t)sizeof proxy.plan)
        _exit(0); /* the test has ended */
    for (int i = 0; i < WIRES_MAX; i++)
        proxy.wires[i].withholding = proxy.wires[i].answered = false;
    if (was_down != (proxy.plan.how == CUTPROXY_LINK_DOWN))
        set_link(!was_down);
    if (proxy.plan.how == CUTPROXY_CUT_NOW) {
        for (int i = 0; i < WIRES_MAX; i++)
            drop_wire(&proxy.wires[i]);
        proxy.plan.how = CUTPROXY_PASS;
        (void)atomic_fetch_add(&proxy.shared->fired, 1);
    }
    (void)atomic_fetch_add(&proxy.shared->plans_taken, 1);
}

static void serve_wire(wire *w, short from_client_ready, short from_server_ready)
{
    if (from_client_ready & (POLLIN | POLLHUP | POLLERR) && !pump(w, w->client, from_client)) {
        drop_wire(w);
        return;
    }
    if (w->client < 0)
        return;
    if (from_server_ready & (POLLIN | POLLHUP | POLLERR) && !pump(w, w->server, from_server)) {
        if (!w->withholding)
            (void)write_out(w->client, &w->to_client);
        drop_wire(w);
        return;
    }
    if (w->client < 0)
        return;
    if (!write_out(w->server, &w->to_server) ||
        (!w->withholding && !write_out(w->client, &w->to_client)))
        drop_wire(w);
}

static void serve(void)
{
    for (;;) {
        struct pollfd p[2 + 2 * WIRES_MAX];
        cutproxy_how how = proxy.plan.how;
        bool dark = how == CUTPROXY_BLACKHOLE || how == CUTPROXY_LINK_DOWN;
        bool ignores = dark || how == CUTPROXY_IGNORES;
        bool mute = dark || how == CUTPROXY_MUTE;

        p[0] = (struct pollfd){.fd = proxy.commands, .events = POLLIN};
        p[1] = (struct pollfd){.fd = proxy.listener, .events = POLLIN};
        for (int i = 0; i < WIRES_MAX; i++) {
            const wire *w = &proxy.wires[i];
            short more_client = w->to_client.len > 0 && !w->withholding ? POLLOUT : 0;
            short more_server = w->to_server.len > 0 ? POLLOUT : 0;

            /* Whose words are swallowed is not asked, not even for room: what waits can wait. */
            p[2 + 2 * i] = (struct pollfd){.fd = ignores ? -1 : w->client,
                                           .events = (short)(POLLIN | more_client)};
            p[3 + 2 * i] = (struct pollfd){.fd = mute ? -1 : w->server,
                                           .events = (short)(POLLIN | more_server)};
        }
        if (poll(p, sizeof p / sizeof p[0], -1) < 0)
            continue;
        if (p[0].revents) {
            take_plan();
            continue; /* what poll said is about the plan before */
        }
        for (int i = 0; i < WIRES_MAX; i++)
            if (p[2 + 2 * i].revents || p[3 + 2 * i].revents)
                serve_wire(&proxy.wires[i], p[2 + 2 * i].revents, p[3 + 2 * i].revents);
        if (p[1].revents)
            take_connection();
    }
}

/* A descriptor of the parent that lives on here would keep its connections open. */
static void close_others(void)
{
    for (int fd = 3; fd < 1024; fd++)
        if (fd != proxy.listener && fd != proxy.commands)
            (void)close(fd);
}

static int listen_somewhere(int *ret_port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (const struct sockaddr *)&at, sizeof at) < 0 || listen(fd, 64) < 0 ||
        getsockname(fd, (struct sockaddr *)&at, &len) < 0)
        return -1;
    *ret_port = ntohs(at.sin_port);
    return fd;
}

static void forget_all(void)
{
    memset(&proxy, 0, sizeof proxy);
    for (int i = 0; i < WIRES_MAX; i++)
        proxy.wires[i].client = proxy.wires[i].server = -1;
}

static bool start(cutproxy *p)
{
    int ends[2];

    proxy.listener = listen_somewhere(&p->port);
    p->shared =
        mmap(NULL, sizeof *p->shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (proxy.listener < 0 || p->shared == MAP_FAILED || pipe2(ends, O_CLOEXEC) < 0)
        return false;
    proxy.shared = p->shared;
    proxy.commands = ends[0];
    p->commands = ends[1];
    p->pid = fork();
    if (p->pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        close_others();
        serve();
    }
    (void)close(proxy.listener);
    (void)close(ends[0]);
    return p->pid > 0;
}

bool cutproxy_start(cutproxy *p, const char *socket_path)
{
    forget_all();
    proxy.server.local.sun_family = AF_UNIX;
    if (strlen(socket_path) >= sizeof proxy.server.local.sun_path)
        return false;
    (void)strcpy(proxy.server.local.sun_path, socket_path);
    return start(p);
}

bool cutproxy_start_tcp(cutproxy *p, int server_port)
{
    forget_all();
    proxy.server.tcp = (struct sockaddr_in){.sin_family = AF_INET,
                                            .sin_port = htons((uint16_t)server_port),
                                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    return start(p);
}

void cutproxy_stop(cutproxy *p)
{
    if (p->pid <= 0)
        return;
    (void)kill(p->pid, SIGKILL);
    (void)waitpid(p->pid, NULL, 0);
    (void)close(p->commands);
    (void)munmap(p->shared, sizeof *p->shared);
    p->pid = 0;
}

void cutproxy_plan_next(cutproxy *p, const cutproxy_plan *plan)
{
    int before = atomic_load(&p->shared->plans_taken);

    if (write(p->commands, plan, sizeof *plan) != (ssize_t)sizeof *plan)
        abort();
    while (atomic_load(&p->shared->plans_taken) == before)
        (void)usleep(100);
}

int cutproxy_fired(const cutproxy *p)
{
    return atomic_load(&p->shared->fired);
}

int cutproxy_accepted(const cutproxy *p)
{
    return atomic_load(&p->shared->accepted);
}
