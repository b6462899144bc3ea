/*
 * server.h - the gateway's own state: what its modules share.
 *
 * The lock is for what is counted and listed here; it is held for moments only, and never while
 * something of the library or of libmicrohttpd is called that could wait.
 */
#ifndef HW_GATEWAY_SERVER_H
#define HW_GATEWAY_SERVER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "gateway/attempts.h"
#include "gateway/gateway.h"
#include "gateway/meters.h"
#include "gateway/pool.h"
#include "gateway/relay.h"
#include "gateway/request.h"
#include "gateway/routing.h"
#include "gateway/scrape.h"
#include "gateway/tls.h"
#include "gateway/tokens.h"
#include "gateway/waiting.h"
#include "gateway/webhooks.h"

/* Of all bodies and answers that are held at the same time. */
#define GW_HELD_BYTES_MAX ((size_t)256 * 1024 * 1024)

struct gw_gateway {
    gw_options options;
    char *url;
    char *listen;
    char address[128];
    struct MHD_Daemon *daemon;
    gw_pool *pool;
    gw_waiting *waiting;
    gw_relay *relay;
    _Atomic(howdah_publisher *) publisher; /* NULL: not opened yet */
    pthread_mutex_t publisher_lock;        /* held while it is opened */
    gw_meters *meters;
    gw_scrape *scrape;
    gw_tokens *tokens;
    gw_attempts *attempts;
    gw_tls *tls;           /* NULL: none */
    gw_webhooks *webhooks; /* NULL: it sends none */
    gw_routing *routing;   /* NULL: it only reads */
    pthread_mutex_t lock;
    pthread_cond_t quiet; /* no request is left */
    bool closed;          /* and none begins any more */
    gw_request *requests;
    size_t requests_n;
    struct hand_out *hand_outs; /* hand_out.c */
    struct gw_connection *connections;
    size_t connections_n;
    atomic_size_t held;    /* bytes of bodies */
    atomic_size_t streams; /* server-sent ones */
    atomic_bool stopping;
    int64_t started_us;
};

/* Of one event or job, by the settings. */
size_t gw_payload_max(const gw_gateway *gateway);

struct MHD_Connection;
/* Whether there were as many connections as may be when this one came. */
bool gw_is_over_limit(struct MHD_Connection *connection);

/* I1 of server.c: ends what takes too long.  Called by the clock, about once a second. */
void gw_sweep(gw_gateway *gateway);

void gw_log(const gw_gateway *gateway, int level, const char *fmt, ...) HW_PRINTF(3, 4);

#endif
