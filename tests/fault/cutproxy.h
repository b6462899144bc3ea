/*
 * cutproxy.h - a network that fails on command, between libpq and a PostgreSQL server.
 *
 * A process of its own listens on 127.0.0.1 and passes every connection on to the server's Unix
 * socket.  A plan makes the next traffic that fits it fail in a chosen way, once; then the proxy
 * passes again (but for those that swallow, which stay until the next plan).
 *
 *   PASS        everything passes
 *   CUT_REQUEST what the client sends is dropped, both sides are closed: the server saw nothing
 *   CUT_ANSWER  what the client sends reaches the server; its answer up to ReadyForQuery is taken
 *               and thrown away, both sides are closed: the server has done it, nobody knows
 *   HOLD_ANSWER as CUT_ANSWER, but the answer waits in the proxy until the next plan
 *   CUT_AFTER   so many bytes more from the client, or from the server, then both are closed
 *   CUT_NOW     every connection is closed at once
 *   BLACKHOLE   nothing moves, nothing is closed, new connections are accepted and not answered
 *   DEAF        the same for what the client sends only: the server gets nothing
 *   MUTE        the same for what the server sends only: the client gets nothing
 *   LINK_DOWN   not even TCP answers: whatever the ends send is not acknowledged, new connections
 *               are not made; for a proxy that was started with the server's port
 *
 * A text makes CUT_REQUEST, CUT_ANSWER and HOLD_ANSWER wait for a request that contains it.
 */
#ifndef HW_TESTS_FAULT_CUTPROXY_H
#define HW_TESTS_FAULT_CUTPROXY_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

typedef enum cutproxy_how {
    CUTPROXY_PASS,
    CUTPROXY_CUT_REQUEST,
    CUTPROXY_CUT_ANSWER,
    CUTPROXY_HOLD_ANSWER,
    CUTPROXY_CUT_AFTER,
    CUTPROXY_CUT_NOW,
    CUTPROXY_BLACKHOLE,
    CUTPROXY_IGNORES,
    CUTPROXY_MUTE,
    CUTPROXY_LINK_DOWN
} cutproxy_how;

typedef struct cutproxy_plan {
    cutproxy_how how;
    bool reset;          /* close the client's side with RST instead of FIN */
    char text[24];       /* "": any request */
    bool text_ends;      /* and nothing follows it: "COMMIT" is not "READ COMMITTED" */
    size_t client_bytes; /* CUT_AFTER: 0 does not count */
    size_t server_bytes;
} cutproxy_plan;

typedef struct cutproxy {
    pid_t pid;
    int port;
    int commands; /* the writing end of a pipe */
    struct cutproxy_shared *shared;
} cutproxy;

/* Listens before it returns.  socket_path is the server's ".s.PGSQL.5432".  false: see errno. */
bool cutproxy_start(cutproxy *p, const char *socket_path);
/* The same to a server on 127.0.0.1. */
bool cutproxy_start_tcp(cutproxy *p, int server_port);
void cutproxy_stop(cutproxy *p);

/* In force when it returns. */
void cutproxy_plan_next(cutproxy *p, const cutproxy_plan *plan);
#define CUTPROXY(p, ...) cutproxy_plan_next((p), &(cutproxy_plan){__VA_ARGS__})

/* Plans that came true (an answer held counts when it is there), and connections taken so far. */
int cutproxy_fired(const cutproxy *p);
int cutproxy_accepted(const cutproxy *p);

#endif
