/* routing.c - see routing.h. */
#include "gateway/routing.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "gateway/server.h"

#define LOOK_MS 1000  /* a call of the library works for so long, */
#define PAUSE_MS 500  /* and after it had nothing, or an error, it rests */
#define TICK_MS 50    /* an end is noticed within this time */
#define AWAY_MS 10000 /* after an error that does not pass by itself */

struct gw_routing {
    gw_gateway *gateway;
    pthread_t thread;
    bool started;
    atomic_bool ending;
    pthread_mutex_t lock;
    howdah_bus *bus; /* under the lock: the end interrupts it */
    char told[512];  /* the last error that was logged */
};

static void set_bus(gw_routing *r, howdah_bus *bus)
{
    (void)pthread_mutex_lock(&r->lock);
    r->bus = bus;
    if (bus && atomic_load(&r->ending))
        howdah_interrupt(bus);
    (void)pthread_mutex_unlock(&r->lock);
}

static int open_bus(gw_routing *r, howdah_error *reterr)
{
    howdah_bus *bus = NULL;
    int s = howdah_open(r->gateway->url, r->gateway->options.settings, &bus, reterr);

    if (s >= 0)
        s = howdah_bindings_serve(bus, NULL, reterr);
    if (s >= 0)
        set_bus(r, bus);
    else if (bus)
        (void)howdah_close(bus);
    return s;
}

static void close_bus(gw_routing *r)
{
    howdah_bus *bus = r->bus;

    set_bus(r, NULL);
    if (bus)
        (void)howdah_close(bus);
}

static void rest(const gw_routing *r, int64_t ms)
{
    for (; ms > 0 && !atomic_load(&r->ending); ms -= TICK_MS)
        hw_clock_sleep_ms(TICK_MS);
}

/* Each error is told of once: a store that stays away is no news. */
static void tell(gw_routing *r, const howdah_error *err)
{
    if (strcmp(r->told, err->message) == 0)
        return;
    (void)snprintf(r->told, sizeof r->told, "%s", err->message);
    gw_log(r->gateway, HOWDAH_LOG_DEBUG, "bindings are not routed: %s", err->message);
}

static void *run(void *arg)
{
    gw_routing *r = arg;

    while (!atomic_load(&r->ending)) {
        howdah_error err = HOWDAH_ERROR_INIT;
        int64_t begun = hw_clock_mono_ms();
        int s = r->bus ? HOWDAH_OK : open_bus(r, &err);

        if (s >= 0)
            s = howdah_run(r->bus, LOOK_MS, &err);
        if (s < 0 && s != HOWDAH_INTERRUPTED) {
            tell(r, &err);
            close_bus(r);
            rest(r, err.flags & HOWDAH_RETRYABLE ? PAUSE_MS : AWAY_MS);
        } else if (hw_clock_mono_ms() - begun < LOOK_MS / 2) {
            rest(r, PAUSE_MS); /* there is no binding */
        }
    }
    close_bus(r);
    return NULL;
}

int gw_routing_new(struct gw_gateway *gateway, gw_routing **ret_routing, howdah_error *reterr)
{
    gw_routing *r = hw_calloc(1, sizeof *r);

    if (!r)
        return hw_fail_no_memory(reterr);
    r->gateway = gateway;
    (void)pthread_mutex_init(&r->lock, NULL);
    if (pthread_create(&r->thread, NULL, run, r) != 0) {
        gw_routing_free(r);
        return hw_fail(reterr, HOWDAH_FAILED, "no thread could be started");
    }
    r->started = true;
    *ret_routing = r;
    return HOWDAH_OK;
}

void gw_routing_free(gw_routing *r)
{
    if (!r)
        return;
    atomic_store(&r->ending, true);
    (void)pthread_mutex_lock(&r->lock);
    if (r->bus)
        howdah_interrupt(r->bus);
    (void)pthread_mutex_unlock(&r->lock);
    if (r->started)
        (void)pthread_join(r->thread, NULL);
    (void)pthread_mutex_destroy(&r->lock);
    hw_free(r);
}
