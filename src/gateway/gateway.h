/*
 * gateway.h - the bus over HTTP: what "howdah serve" starts and stops.
 *
 * The gateway sees only the public headers, src/base and src/face.  How it is built:
 *
 *     client ──▶ server.c ──▶ request.c ──▶ routes.c ──▶ a handler ──▶ request.c ──▶ client
 *                sockets,      one request:   one table:   in a worker    the answer
 *                limits,       parsed,        method,      of pool.c,
 *                deadlines     checked        right        with a bus
 *
 * What must stay true:
 *
 *   I1  The threads that speak HTTP never wait for the store.  A request that needs it is
 *       suspended, goes to the pool, and is resumed when its answer is there.
 *   I2  A handle of the library is used by one thread at a time: each worker has a bus of its own.
 *   I3  Everything that waits has a limit, in number and in bytes, and a deadline: connections,
 *       headers, bodies, requests that wait for a worker, streams.  Over it the client is told,
 *       and told when to come again.
 *   I4  What is acknowledged is stored.  An outcome that nobody knows is said to be unknown.
 *   I5  An answer is made of what the store said to this request.  Nothing is kept from one
 *       request for another but what may be old: a list of tokens, for a second or two.
 */
#ifndef HW_GATEWAY_GATEWAY_H
#define HW_GATEWAY_GATEWAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <howdah/howdah.h>

typedef struct gw_gateway gw_gateway;

typedef enum gw_log_format { GW_LOG_OFF = 0, GW_LOG_JSON = 1, GW_LOG_LOGFMT = 2 } gw_log_format;

typedef struct gw_options {
    const char *url; /* of the store */
    const howdah_settings *settings;
    const char *listen;  /* "127.0.0.1:4460", "[::1]:0", ":4460" */
    int listen_fd;       /* a socket that listens already; -1: none */
    int64_t sessions;    /* workers, each with a session of the store */
    int64_t connections; /* most at once */
    int64_t per_address; /* most from one address; 0: no limit of its own */
    int64_t streams;     /* most server-sent streams at once */
    int64_t body_max;    /* bytes of one body */
    int64_t request_ms;  /* how long the headers and the body of a request may take */
    int64_t idle_ms;     /* a connection without a request, or a client that does not read */
    int64_t drain_ms;    /* how long an end waits for what runs */
    bool read_only;
    bool require_token;   /* also when there are none */
    bool behind_proxy;    /* it speaks TLS, and says who the client is */
    const char *tls_cert; /* files; NULL: no TLS */
    const char *tls_key;
    const char *const *hosts; /* names that a Host may have, besides loopback's */
    size_t hosts_n;
    const char *const *cors; /* origins of pages that may ask */
    size_t cors_n;
    bool webhooks;            /* sends them */
    bool webhooks_private;    /* also to addresses that are not public */
    gw_log_format log_format; /* of the access log */
    /* A line of the access log, or a remark.  From any thread. */
    void (*log)(void *ctx, int level, const char *line);
    void *log_ctx;
} gw_options;

/* Listens when it returns.  Errors: INVALID (an option), UNAVAILABLE (the address is taken). */
int gw_start(const gw_options *options, gw_gateway **ret_gateway, howdah_error *reterr);
/* Reads tokens and certificate again; what cannot be read stays as it was, and the error says why.
 */
int gw_reload(gw_gateway *gateway, howdah_error *reterr);
/* Where it listens: "127.0.0.1:4460". */
const char *gw_address(const gw_gateway *gateway);
/*
 * Accepts nothing more, finishes what runs, ends streams with a place to resume, and frees
 * everything.  Requests that take longer than drain_ms are given up: their clients get 503.
 */
void gw_stop(gw_gateway *gateway);

#endif
