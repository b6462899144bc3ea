/* scrape.c - see scrape.h. */
#include "gateway/scrape.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "face/metrics.h"
#include "gateway/handlers.h"
#include "gateway/meters.h"
#include "gateway/server.h"
#include "gateway/session.h"

#define KEEP_MS 1000
/* I2: of one question, and of all of them.  A monitor waits 10 s by default. */
#define CONNECT_TIMEOUT "2s"
#define STATEMENT_TIMEOUT "3s"
#define COLLECT_MS 4000
#define WAITING_MAX 1000

struct gw_scrape {
    gw_gateway *gateway;
    howdah_settings *settings;
    pthread_t thread;
    bool started;
    pthread_mutex_t lock;
    pthread_cond_t some;
    gw_request *first; /* those that wait for an answer */
    size_t n;
    bool ending;
    howdah_bus *bus; /* the thread's; changed under the lock: gw_scrape_interrupt() uses it */
    /* The thread's alone. */
    face_metrics *kept; /* NULL: the store could not be asked */
    int64_t kept_until_ms;
    bool away; /* was said in the log */
};

/* -------------------------------------------------------------------- the store */

static void set_bus(gw_scrape *scrape, howdah_bus *bus)
{
    (void)pthread_mutex_lock(&scrape->lock);
    scrape->bus = bus;
    (void)pthread_mutex_unlock(&scrape->lock);
}

static void close_bus(gw_scrape *scrape)
{
    howdah_bus *bus = scrape->bus;

    set_bus(scrape, NULL);
    (void)howdah_close(bus);
}

static int ask(gw_scrape *scrape, howdah_error *reterr)
{
    howdah_bus *bus = NULL;
    int s = HOWDAH_OK;

    if (!scrape->bus) {
        s = howdah_open(scrape->gateway->url, scrape->settings, &bus, reterr);
        if (s >= 0)
            set_bus(scrape, bus);
    }
    if (s >= 0)
        s = face_metrics_collect(scrape->bus, COLLECT_MS, &scrape->kept, reterr);
    return s;
}

/* A session that failed is not asked again: what it would say next nobody knows. */
static void collect(gw_scrape *scrape)
{
    howdah_error err = HOWDAH_ERROR_INIT;

    face_metrics_free(scrape->kept);
    scrape->kept = NULL;
    if (ask(scrape, &err) < 0) {
        if (scrape->bus)
            close_bus(scrape);
        if (!scrape->away)
            gw_log(scrape->gateway, HOWDAH_LOG_WARN, "metrics: the store cannot be asked: %s",
                   err.message);
    } else if (scrape->away) {
        gw_log(scrape->gateway, HOWDAH_LOG_WARN, "metrics: the store can be asked again");
    }
    scrape->away = scrape->kept == NULL;
    scrape->kept_until_ms = hw_clock_mono_ms() + KEEP_MS;
}

/* -------------------------------------------------------------------- answers */

static void answer(const gw_scrape *scrape, gw_request *r)
{
    face_metrics_form form = gw_accepts(r, "application/openmetrics-text")
                                 ? FACE_METRICS_OPENMETRICS
                                 : FACE_METRICS_PROMETHEUS;
    howdah_error err = HOWDAH_ERROR_INIT;

    face_metrics_print(&r->answer.body, form, r->unsure ? NULL : scrape->kept);
    gw_meters_print(&r->answer.body, form, r->gateway);
    face_metrics_end(&r->answer.body, form);
    r->answer.http_status = 200;
    r->answer.content_type = face_metrics_content_type(form);
    gw_answer_header(r, "Vary", "Accept");
    gw_request_done(r, HOWDAH_OK, &err);
}

/* Who comes while the store is asked gets the same answer: it is not older than the request by more
   than that. */
static void answer_all(gw_scrape *scrape)
{
    gw_request *r;

    (void)pthread_mutex_lock(&scrape->lock);
    r = scrape->first;
    scrape->first = NULL;
    scrape->n = 0;
    (void)pthread_mutex_unlock(&scrape->lock);
    while (r) {
        gw_request *next = r->parked;

        answer(scrape, r);
        r = next;
    }
}

static void *work(void *arg)
{
    gw_scrape *scrape = arg;
    bool ending;

    for (;;) {
        (void)pthread_mutex_lock(&scrape->lock);
        while (!scrape->first && !scrape->ending)
            (void)pthread_cond_wait(&scrape->some, &scrape->lock);
        ending = scrape->ending;
        (void)pthread_mutex_unlock(&scrape->lock);
        if (!ending && hw_clock_mono_ms() >= scrape->kept_until_ms)
            collect(scrape);
        answer_all(scrape);
        if (ending)
            break;
    }
    if (scrape->bus)
        close_bus(scrape);
    return NULL;
}

/* In the thread that speaks HTTP: it hands the request over, and waits for nothing. */
int gw_metrics(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    gw_scrape *scrape = r->gateway->scrape;
    bool fits;

    (void)bus;
    (void)pthread_mutex_lock(&scrape->lock);
    fits = !scrape->ending && scrape->n < WAITING_MAX;
    if (fits) {
        r->parked = scrape->first;
        scrape->first = r;
        scrape->n++;
        (void)pthread_cond_signal(&scrape->some);
    }
    (void)pthread_mutex_unlock(&scrape->lock);
    return fits ? GW_SUBMITTED
                : hw_fail(reterr, HOWDAH_UNAVAILABLE, "too many ask for metrics, or this ends");
}

/* --------------------------------------------------------------- begin and end */

int gw_scrape_new(struct gw_gateway *gateway, gw_scrape **ret_scrape, howdah_error *reterr)
{
    const gw_session_limits limits = {CONNECT_TIMEOUT, STATEMENT_TIMEOUT};
    gw_scrape *scrape = hw_calloc(1, sizeof *scrape);
    int s;

    if (!scrape)
        return hw_fail_no_memory(reterr);
    scrape->gateway = gateway;
    (void)pthread_mutex_init(&scrape->lock, NULL);
    (void)pthread_cond_init(&scrape->some, NULL);
    s = gw_session_settings(gateway, &limits, &scrape->settings, reterr);
    if (s >= 0 && pthread_create(&scrape->thread, NULL, work, scrape) != 0)
        s = hw_fail(reterr, HOWDAH_FAILED, "no thread could be started");
    scrape->started = s >= 0;
    if (s < 0) {
        gw_scrape_free(scrape);
        return s;
    }
    *ret_scrape = scrape;
    return HOWDAH_OK;
}

void gw_scrape_interrupt(gw_scrape *scrape)
{
    if (!scrape)
        return;
    (void)pthread_mutex_lock(&scrape->lock);
    if (scrape->bus)
        howdah_interrupt(scrape->bus);
    (void)pthread_mutex_unlock(&scrape->lock);
}

void gw_scrape_end(gw_scrape *scrape)
{
    if (!scrape)
        return;
    (void)pthread_mutex_lock(&scrape->lock);
    scrape->ending = true;
    (void)pthread_cond_signal(&scrape->some);
    (void)pthread_mutex_unlock(&scrape->lock);
    if (scrape->started)
        (void)pthread_join(scrape->thread, NULL);
    scrape->started = false;
}

void gw_scrape_free(gw_scrape *scrape)
{
    if (!scrape)
        return;
    gw_scrape_end(scrape);
    face_metrics_free(scrape->kept);
    howdah_settings_free(scrape->settings);
    (void)pthread_cond_destroy(&scrape->some);
    (void)pthread_mutex_destroy(&scrape->lock);
    hw_free(scrape);
}
