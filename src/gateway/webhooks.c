/* webhooks.c - see webhooks.h. */
#include "gateway/webhooks.h"

#include <assert.h>
#include <inttypes.h>
#include <openssl/crypto.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/text.h"
#include "face/events.h"
#include "face/webhooks.h"
#include "gateway/server.h"
#include "gateway/session.h"
#include "gateway/webhook_request.h"

/* I5. */
#define HOOKS_MAX 10000
#define FLIGHTS_EACH 8
#define FLIGHTS_MAX 256
#define BYTES_MAX ((size_t)64 * 1024 * 1024)
#define EVENT_BYTES_MAX ((size_t)200 * 1024 * 1024)
#define FETCHES_MAX 64 /* in a row, before outcomes have their turn */
#define FRAMES_MAX 256
#define MEMBER_SIZE 128

#define REFRESH_MS 1000
#define LEASE_MORE_MS 10000 /* than the request may take */
#define LOOK_MIN_MS 50      /* what nobody tells of, a retry that is due or a lease that ended, */
#define LOOK_MAX_MS 2000    /* is looked for after pauses that grow */
#define LOOK_MS_EACH 5
#define FAILED_LOOK_MAX_MS 500
#define AWAY_MS 500
#define NO_USE_MS 30000 /* a store that will say the same again */
#define CONNECT_TIMEOUT "2s"
#define STATEMENT_TIMEOUT "10s"
#define REPORT_SOON_MS 1000
#define REPORT_MS 5000
#define SUBSCRIBE_AGAIN_MS 5000
#define END_LOOK_MS 100
#define SAY_MORE_MS 2000 /* at the end, after the last flight has landed */

typedef struct hook {
    struct hook *next;
    howdah_webhook_info info; /* its texts are this hook's own, in one block */
    char *texts;
    char secret[HOWDAH_WEBHOOK_SECRET_SIZE]; /* "": not asked for yet */
    bool seen;                               /* by the last refresh; not: it is of the past */
    bool subscribed;
    size_t flights_n;
    int64_t look_ms;
    int64_t pause_ms;
    /* The last outcome, and what the store was told of it. */
    int64_t http_status;
    char error[GW_POST_ERROR_SIZE];
    bool news;
    bool told;
    int64_t told_status;
    bool told_good;
    int64_t told_ms;
} hook;

typedef struct flight {
    gw_post post; /* the first member */
    struct flight *next;
    gw_webhooks *webhooks;
    hook *hook;
    char *subscriber;
    char *token;
    int64_t sequence;
    int64_t lease_until_ms;
    size_t bytes;
} flight;

struct gw_webhooks {
    gw_gateway *gateway;
    gw_posts *posts;
    howdah_settings *settings;
    char member[MEMBER_SIZE]; /* its name, for people */
    pthread_t thread;
    bool started;
    pthread_mutex_t lock;
    pthread_cond_t some;
    /* Under the lock. */
    flight *landed;
    bool woken; /* the relay has frames */
    bool poked;
    bool ending;
    bool over;
    int64_t until_ms;
    howdah_bus *bus; /* the thread's; changed under the lock: gw_webhooks_free() interrupts it */
    /* The relay's. */
    gw_listener listener;
    /* The thread's alone. */
    hook *hooks;
    hook *from; /* where the next round of fetches begins */
    size_t hooks_n;
    flight *unsaid; /* landed, and the store does not know */
    size_t flights_n;
    size_t bytes;
    int64_t refresh_ms;
    int64_t open_ms;
    bool away; /* was said in the log */
};

/* --------------------------------------------------------------------- store */

static void set_bus(gw_webhooks *w, howdah_bus *bus)
{
    (void)pthread_mutex_lock(&w->lock);
    w->bus = bus;
    (void)pthread_mutex_unlock(&w->lock);
}

/* What a session that failed would say next nobody knows: the next one is a new one. */
static void lose_store(gw_webhooks *w, const howdah_error *err)
{
    bool no_use = err->status == HOWDAH_DENIED || err->status == HOWDAH_SCHEMA;
    howdah_bus *bus = w->bus;

    set_bus(w, NULL);
    (void)howdah_close(bus);
    w->refresh_ms = 0; /* another server may know others */
    w->open_ms = hw_clock_mono_ms() + (no_use ? NO_USE_MS : AWAY_MS);
    if (!w->away)
        gw_log(w->gateway, HOWDAH_LOG_WARN, "webhooks: waiting for the store: %s", err->message);
    w->away = true;
}

static bool have_store(gw_webhooks *w)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *bus = NULL;

    if (w->bus)
        return true;
    if (hw_clock_mono_ms() < w->open_ms)
        return false;
    if (howdah_open(w->gateway->url, w->settings, &bus, &err) < 0) {
        lose_store(w, &err);
        return false;
    }
    set_bus(w, bus);
    return true;
}

static void say_why(char ret_text[GW_POST_ERROR_SIZE], const char *what, const howdah_error *err)
{
    char text[GW_POST_ERROR_SIZE + sizeof err->message];

    (void)snprintf(text, sizeof text, "%s: %s", what, err->message);
    hw_utf8_copy(ret_text, GW_POST_ERROR_SIZE, text);
}

/* Whether an error is the store's, and not about the one thing that was asked. */
static bool is_lost(const howdah_error *err)
{
    static const int of_store[] = {HOWDAH_UNAVAILABLE, HOWDAH_TIMEOUT,   HOWDAH_INTERRUPTED,
                                   HOWDAH_SCHEMA,      HOWDAH_READ_ONLY, HOWDAH_DENIED,
                                   HOWDAH_FULL,        HOWDAH_NO_MEMORY};

    for (size_t i = 0; i < sizeof of_store / sizeof *of_store; i++)
        if (err->status == of_store[i])
            return true;
    return (err->flags & (HOWDAH_HANDLE_DEAD | HOWDAH_OUTCOME_UNKNOWN)) != 0;
}

static void note_good_store(gw_webhooks *w)
{
    if (w->away)
        gw_log(w->gateway, HOWDAH_LOG_WARN, "webhooks: the store is there again");
    w->away = false;
}

/* --------------------------------------------------------------------- hooks */

static void free_hook(hook *h)
{
    OPENSSL_cleanse(h->secret, sizeof h->secret);
    hw_free(h->texts);
    hw_free(h);
}

static const char *copy_text(char **at, const char *text)
{
    char *copy = *at;
    size_t n = text ? strlen(text) + 1 : 0;

    if (!text)
        return NULL;
    memcpy(copy, text, n);
    *at += n;
    return copy;
}

static hook *new_hook(const howdah_webhook_info *info)
{
    const char *const texts[] = {info->name,    info->url,    info->subscriber_id,
                                 info->pattern, info->stream, info->headers};
    hook *h = hw_calloc(1, sizeof *h);
    size_t n = 1;
    char *at;

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        n += texts[i] ? strlen(texts[i]) + 1 : 0;
    if (!h || !(h->texts = at = hw_alloc(n))) {
        hw_free(h);
        return NULL;
    }
    h->info = *info;
    h->info.name = copy_text(&at, texts[0]);
    h->info.url = copy_text(&at, texts[1]);
    h->info.subscriber_id = copy_text(&at, texts[2]);
    h->info.pattern = copy_text(&at, texts[3]);
    h->info.stream = copy_text(&at, texts[4]);
    h->info.headers = copy_text(&at, texts[5]);
    h->info.reason = h->info.last_error = NULL;
    return h;
}

/* I3: one that was changed is another one. */
static hook *find_hook(const gw_webhooks *w, const howdah_webhook_info *info)
{
    for (hook *h = w->hooks; h; h = h->next)
        if (!h->seen && h->info.changed_at_us == info->changed_at_us &&
            strcmp(h->info.name, info->name) == 0)
            return h;
    return NULL;
}

static int on_listed(void *ctx, const howdah_webhook_info *info)
{
    gw_webhooks *w = ctx;
    hook *h = find_hook(w, info);

    if (!h) {
        if (w->hooks_n == HOOKS_MAX || !(h = new_hook(info)))
            return 0;
        h->next = w->hooks;
        w->hooks = h;
        w->hooks_n++;
    }
    if (info->enabled && !h->info.enabled)
        h->look_ms = h->pause_ms = 0;
    h->info.enabled = info->enabled;
    h->seen = true;
    return 0;
}

/* Those of the past stay while flights are under way for them; and no outcome is left to be said
   when this is called. */
static void sweep(gw_webhooks *w)
{
    hook **at = &w->hooks;

    w->from = NULL;
    while (*at) {
        hook *h = *at;

        if (h->seen || h->flights_n > 0) {
            at = &h->next;
            continue;
        }
        *at = h->next;
        w->hooks_n--;
        free_hook(h);
    }
}

/* An error about one of them is that one's, and is shown with it. */
static int subscribe(gw_webhooks *w, hook *h, howdah_error *reterr)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    int s = HOWDAH_OK;

    if (!h->secret[0])
        s = howdah_webhook_secret(w->bus, h->info.name, h->secret, &err);
    if (s >= 0)
        s = face_webhook_subscribe(w->bus, &h->info, &err);
    h->subscribed = s >= 0;
    if (s >= 0)
        return HOWDAH_OK;
    if (is_lost(&err)) {
        hw_error_copy(reterr, &err);
        return s;
    }
    h->look_ms = hw_clock_mono_ms() + SUBSCRIBE_AGAIN_MS;
    h->http_status = HOWDAH_ABSENT;
    say_why(h->error, "its subscription cannot be used", &err);
    h->news = true;
    return HOWDAH_OK;
}

static int refresh(gw_webhooks *w, howdah_error *reterr)
{
    int s;

    for (hook *h = w->hooks; h; h = h->next)
        h->seen = false;
    s = howdah_webhooks_walk(w->bus, NULL, on_listed, w, reterr);
    if (s < 0) {
        for (hook *h = w->hooks; h; h = h->next)
            h->seen = true; /* nobody knows: what was there is there */
        return s;
    }
    sweep(w);
    w->refresh_ms = hw_clock_mono_ms() + REFRESH_MS + (int64_t)w->hooks_n;
    note_good_store(w);
    return s;
}

/* ------------------------------------------------------------------- outcomes */

static void free_flight(flight *f)
{
    gw_post_clear(&f->post);
    hw_free(f->subscriber);
    hw_free(f->token);
    hw_free(f);
}

/* In the thread of the posts. */
static void on_done(gw_post *post)
{
    flight *f = (flight *)post;
    gw_webhooks *w = f->webhooks;

    (void)pthread_mutex_lock(&w->lock);
    f->next = w->landed;
    w->landed = f;
    (void)pthread_cond_signal(&w->some);
    (void)pthread_mutex_unlock(&w->lock);
}

static bool is_good(const gw_post *post)
{
    return post->error[0] == '\0';
}

static void note_outcome(gw_webhooks *w, hook *h, const gw_post *post)
{
    bool was_good = h->error[0] == '\0';
    bool good = is_good(post);

    gw_meters_count(w->gateway->meters, good ? GW_METER_WEBHOOKS_SENT : GW_METER_WEBHOOKS_FAILED,
                    1);
    if (!good && was_good)
        gw_log(w->gateway, HOWDAH_LOG_WARN, "webhook %s: %s", h->info.name, post->error);
    if (good && !was_good)
        gw_log(w->gateway, HOWDAH_LOG_WARN, "webhook %s: taken again", h->info.name);
    h->http_status = post->http_status;
    (void)snprintf(h->error, sizeof h->error, "%s", post->error);
    h->news = true;
}

/* What it held is free for the next; an outcome is counted once, however often it is said. */
static void land(gw_webhooks *w, flight *f)
{
    hook *h = f->hook;

    assert(h->flights_n > 0 && w->flights_n > 0);
    h->flights_n--;
    w->flights_n--;
    w->bytes -= f->bytes;
    h->pause_ms = 0;
    h->look_ms = f->post.given_up ? hw_clock_mono_ms() + AWAY_MS : 0;
    gw_post_clear(&f->post);
    if (!f->post.given_up)
        note_outcome(w, h, &f->post);
    if (f->post.http_status == 410)
        h->info.enabled = false;
}

typedef struct current {
    int64_t changed_at_us;
    bool enabled;
} current;

static int on_current(void *ctx, const howdah_webhook_info *info)
{
    *(current *)ctx = (current){info->changed_at_us, info->enabled};
    return 0;
}

/* 410: only the webhook that was asked is gone, and not one that has taken its name (I3). */
static int disable(gw_webhooks *w, const flight *f, howdah_error *reterr)
{
    const hook *h = f->hook;
    howdah_error err = HOWDAH_ERROR_INIT;
    current now = {0, false};
    int s = howdah_webhooks_walk(w->bus, h->info.name, on_current, &now, &err);

    if (s >= 0 && (!now.enabled || now.changed_at_us != h->info.changed_at_us))
        return HOWDAH_OK;
    if (s >= 0)
        s = howdah_webhook_report(w->bus, h->info.name, f->post.http_status, f->post.error, &err);
    if (s >= 0)
        s = howdah_webhook_disable(w->bus, h->info.name, "the endpoint said 410 Gone", &err);
    if (s >= 0) {
        gw_meters_count(w->gateway->meters, GW_METER_WEBHOOKS_DISABLED, 1);
        gw_log(w->gateway, HOWDAH_LOG_WARN, "webhook %s is disabled: its endpoint said 410 Gone",
               h->info.name);
    }
    if (s < 0 && s != HOWDAH_NOT_FOUND) {
        hw_error_copy(reterr, &err);
        return s;
    }
    return HOWDAH_OK;
}

static int tell_store(gw_webhooks *w, const flight *f, howdah_error *reterr)
{
    const gw_post *post = &f->post;
    int s = HOWDAH_OK;

    if (is_good(post))
        return howdah_group_ack(w->bus, f->subscriber, f->token, 0, reterr);
    if (post->http_status == 410)
        s = disable(w, f, reterr);
    if (s < 0)
        return s;
    if (post->http_status == 410 || post->given_up)
        return howdah_group_release(w->bus, f->subscriber, f->token, reterr);
    return howdah_group_nack(w->bus, f->subscriber, f->token, f->sequence, post->error,
                             post->retry_after_ms, reterr);
}

/* LOST: the lease is over, and somebody else has the event.  I4. */
static int say_all(gw_webhooks *w, howdah_error *reterr)
{
    while (w->unsaid) {
        flight *f = w->unsaid;
        howdah_error err = HOWDAH_ERROR_INIT;
        bool late = hw_clock_mono_ms() > f->lease_until_ms;
        int s = late ? HOWDAH_LOST : tell_store(w, f, &err);

        if (s < 0 && !late && is_lost(&err)) {
            hw_error_copy(reterr, &err);
            return s;
        }
        if (s < 0)
            gw_log(w->gateway, HOWDAH_LOG_DEBUG, "webhook %s: event %" PRId64 " comes again: %s",
                   f->hook->info.name, f->sequence, late ? "its lease is over" : err.message);
        w->unsaid = f->next;
        free_flight(f);
    }
    return HOWDAH_OK;
}

/* At once when it has changed, and else now and then. */
static int report(gw_webhooks *w, hook *h, howdah_error *reterr)
{
    int64_t now = hw_clock_mono_ms();
    bool good = h->error[0] == '\0';
    bool same = h->told && h->told_good == good && h->told_status == h->http_status;
    int s;

    if (!h->news || !h->seen || (h->told && now < h->told_ms + (same ? REPORT_MS : REPORT_SOON_MS)))
        return HOWDAH_OK;
    s = howdah_webhook_report(w->bus, h->info.name, h->http_status, good ? NULL : h->error, reterr);
    if (s < 0 && is_lost(reterr))
        return s;
    h->news = false;
    h->told = true;
    h->told_good = good;
    h->told_status = h->http_status;
    h->told_ms = now;
    return HOWDAH_OK;
}

/* ---------------------------------------------------------------------- fetch */

static int prepare(flight *f, const howdah_event *event, howdah_error *reterr)
{
    char id[HOWDAH_UUID_SIZE];
    gw_webhook_request request = {f->hook->secret, id, f->hook->info.headers, HW_STR_NULL};
    size_t len = 0;
    const char *headers = howdah_event_headers(event, &len);
    int s;

    howdah_event_id(event, id);
    if (headers)
        request.event_headers = (hw_str){headers, len};
    f->post.body = (hw_buf)HW_BUF_INIT(EVENT_BYTES_MAX);
    s = face_event_json(event, &f->post.body, reterr);
    return s < 0 ? s : gw_webhook_prepare(&f->post, &request, reterr);
}

/* From here on the event is this flight's, and whatever becomes of it is said to the store. */
static int fly(gw_webhooks *w, hook *h, const howdah_batch *batch, int64_t lease_until_ms,
               howdah_error *reterr)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    const howdah_event *event = howdah_batch_event(batch, 0);
    flight *f = hw_calloc(1, sizeof *f);
    char *subscriber = hw_strdup(h->info.subscriber_id);
    char *token = hw_strdup(howdah_batch_token(batch));

    if (!f || !subscriber || !token) {
        hw_free(f);
        hw_free(subscriber);
        hw_free(token);
        return hw_fail_no_memory(reterr);
    }
    *f = (flight){.post = {.url = h->info.url, .timeout_ms = h->info.timeout_ms, .done = on_done},
                  .webhooks = w,
                  .hook = h,
                  .subscriber = subscriber,
                  .token = token,
                  .sequence = howdah_event_global_sequence(event),
                  .lease_until_ms = lease_until_ms};
    (void)prepare(f, event, &err);
    f->bytes = f->post.body.room;
    h->flights_n++;
    w->flights_n++;
    w->bytes += f->bytes;
    /* I2: what was long on its way from the store is given back. */
    if (err.status >= 0 && hw_clock_mono_ms() + h->info.timeout_ms < lease_until_ms &&
        gw_posts_put(w->posts, &f->post))
        return HOWDAH_OK;
    f->post.http_status = HOWDAH_ABSENT;
    f->post.retry_after_ms = -1;
    f->post.given_up = err.status >= 0 || err.status == HOWDAH_NO_MEMORY;
    say_why(f->post.error, "it cannot be sent", &err);
    on_done(&f->post);
    return HOWDAH_OK;
}

/* Longer and longer while there is nothing; more hooks look less often. */
static void pause_looks(const gw_webhooks *w, hook *h)
{
    int64_t most = h->error[0] ? FAILED_LOOK_MAX_MS : LOOK_MAX_MS;

    most += (int64_t)w->hooks_n * LOOK_MS_EACH;
    h->pause_ms = h->pause_ms > 0 ? h->pause_ms * 2 : LOOK_MIN_MS;
    if (h->pause_ms > most)
        h->pause_ms = most;
    h->look_ms = hw_clock_mono_ms() + h->pause_ms;
}

static int fetch(gw_webhooks *w, hook *h, howdah_error *reterr)
{
    int64_t lease_ms = h->info.timeout_ms + LEASE_MORE_MS;
    int64_t until_ms = hw_clock_mono_ms() + lease_ms;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_batch *batch = NULL;
    int s = HOWDAH_OK;

    if (!h->subscribed)
        return subscribe(w, h, reterr);
    s = howdah_group_fetch(w->bus, h->info.subscriber_id, w->member, 1, lease_ms, &batch, &err);
    if (s == HOWDAH_OK) {
        s = howdah_batch_size(batch) > 0 ? fly(w, h, batch, until_ms, reterr) : HOWDAH_OK;
        howdah_batch_free(batch);
        return s;
    }
    if (s < 0 && is_lost(&err)) {
        hw_error_copy(reterr, &err);
        return s;
    }
    h->subscribed = s >= 0; /* somebody removed it, or made it another's: made again, or refused */
    pause_looks(w, h);
    return HOWDAH_OK;
}

static bool wants_more(const gw_webhooks *w, const hook *h, int64_t now)
{
    return h->seen && h->info.enabled && now >= h->look_ms && h->flights_n < FLIGHTS_EACH &&
           w->flights_n < FLIGHTS_MAX && w->bytes < BYTES_MAX;
}

/* One of each in turn, so that a busy one keeps nobody waiting. */
static int fetch_some(gw_webhooks *w, bool *ret_more, howdah_error *reterr)
{
    int s = HOWDAH_OK;
    size_t fetches = 0;

    *ret_more = false;
    for (size_t i = 0; s >= 0 && i < w->hooks_n && fetches < FETCHES_MAX; i++) {
        hook *h = w->from ? w->from : w->hooks;

        w->from = h->next;
        if (!wants_more(w, h, hw_clock_mono_ms()))
            continue;
        s = fetch(w, h, reterr);
        fetches++;
        *ret_more = *ret_more || wants_more(w, h, hw_clock_mono_ms());
    }
    *ret_more = *ret_more || fetches == FETCHES_MAX;
    return s;
}

/* ---------------------------------------------------------------------- wakes */

static bool on_frame(gw_listener *listener, const gw_frame *frame)
{
    (void)listener;
    (void)frame;
    return true;
}

static void wake(gw_webhooks *w, bool *why)
{
    (void)pthread_mutex_lock(&w->lock);
    *why = true;
    (void)pthread_cond_signal(&w->some);
    (void)pthread_mutex_unlock(&w->lock);
}

static void on_wake(gw_listener *listener)
{
    gw_webhooks *w = (gw_webhooks *)((char *)listener - offsetof(gw_webhooks, listener));

    wake(w, &w->woken);
}

/* NULL: whatever it was. */
static void look_now(gw_webhooks *w, const gw_frame *frame)
{
    for (hook *h = w->hooks; h; h = h->next) {
        if (frame && ((h->info.pattern && !howdah_pattern_matches(h->info.pattern, frame->type)) ||
                      (h->info.stream && strcmp(h->info.stream, frame->stream) != 0)))
            continue;
        h->look_ms = h->pause_ms = 0;
    }
}

/* The relay says early what the looks would find later: it may miss something, and they do not. */
static void take_frames(gw_webhooks *w)
{
    gw_relay *relay = w->gateway->relay;
    const gw_frame *frame = NULL;
    gw_spot *spot = NULL;
    bool lost = false;
    size_t n = 0;

    gw_relay_lock(relay);
    if (!gw_relay_stands(relay)) {
        gw_relay_unlock(relay);
        return;
    }
    lost = !w->listener.listed;
    while (!lost && n++ < FRAMES_MAX && (frame = gw_relay_next(relay, &w->listener, &lost)))
        look_now(w, frame);
    if (lost || n > FRAMES_MAX) {
        gw_relay_join_end(relay, &w->listener, &spot);
        look_now(w, NULL);
    }
    w->listener.sent_ms = hw_clock_mono_ms();
    w->listener.sleeps = true;
    gw_relay_unlock(relay);
    gw_spot_free(spot);
}

static void leave_relay(gw_webhooks *w)
{
    gw_relay_lock(w->gateway->relay);
    gw_relay_leave(w->gateway->relay, &w->listener);
    w->listener.sleeps = false;
    gw_relay_unlock(w->gateway->relay);
}

/* ---------------------------------------------------------------- the thread */

/* What it was woken for. */
typedef struct waking {
    bool woken;
    bool poked;
    bool ending;
    int64_t until_ms;
} waking;

static int64_t next_ms(const gw_webhooks *w)
{
    int64_t next = w->refresh_ms;

    if (!w->bus)
        return w->open_ms;
    if (w->ending)
        return hw_clock_mono_ms() + END_LOOK_MS;
    for (const hook *h = w->hooks; h; h = h->next)
        if (h->seen && h->info.enabled && h->flights_n < FLIGHTS_EACH && h->look_ms < next)
            next = h->look_ms;
    return w->flights_n < FLIGHTS_MAX && w->bytes < BYTES_MAX ? next : w->refresh_ms;
}

static bool has_news(const gw_webhooks *w)
{
    return w->landed || w->woken || w->poked || (w->ending && w->flights_n == 0 && !w->unsaid);
}

static void wait_until(gw_webhooks *w, int64_t until_ms)
{
    struct timespec until;
    int64_t for_ms = until_ms - hw_clock_mono_ms();

    if (for_ms <= 0)
        return;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += for_ms / 1000;
    until.tv_nsec += for_ms % 1000 * 1000000;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_nsec -= 1000000000L;
        until.tv_sec++;
    }
    while (!has_news(w) && pthread_cond_timedwait(&w->some, &w->lock, &until) == 0)
        ;
}

/* Sleeps until there is something to do, and takes it. */
static waking rest(gw_webhooks *w, bool more)
{
    waking what;
    flight *landed;

    (void)pthread_mutex_lock(&w->lock);
    if (!more && !has_news(w))
        wait_until(w, next_ms(w));
    landed = w->landed;
    w->landed = NULL;
    what = (waking){w->woken, w->poked, w->ending, w->until_ms};
    w->woken = w->poked = false;
    (void)pthread_mutex_unlock(&w->lock);
    while (landed) {
        flight *next = landed->next;

        land(w, landed);
        landed->next = w->unsaid;
        w->unsaid = landed;
        landed = next;
    }
    return what;
}

static int look_after(gw_webhooks *w, const waking *what, bool *ret_more, howdah_error *reterr)
{
    int s = say_all(w, reterr);

    if (s >= 0 && !what->ending && (what->poked || hw_clock_mono_ms() >= w->refresh_ms)) {
        s = refresh(w, reterr);
        if (!w->listener.listed)
            take_frames(w);
    }
    if (s >= 0 && !what->ending)
        s = fetch_some(w, ret_more, reterr);
    for (hook *h = w->hooks; s >= 0 && h; h = h->next)
        s = report(w, h, reterr);
    return s;
}

static void *work(void *arg)
{
    gw_webhooks *w = arg;
    waking what = {0};
    bool more = false;

    for (;;) {
        howdah_error err = HOWDAH_ERROR_INIT;

        what = rest(w, more);
        more = false;
        if (what.ending &&
            ((w->flights_n == 0 && !w->unsaid) || hw_clock_mono_ms() > what.until_ms + SAY_MORE_MS))
            break;
        if (what.woken) /* with a store or without: nobody wakes who has not looked */
            take_frames(w);
        if (have_store(w) && look_after(w, &what, &more, &err) < 0)
            lose_store(w, &err);
    }
    leave_relay(w);
    (void)pthread_mutex_lock(&w->lock);
    w->over = true;
    (void)pthread_cond_broadcast(&w->some);
    (void)pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* ------------------------------------------------------------- begin and end */

void gw_webhooks_poke(gw_webhooks *w)
{
    if (w)
        wake(w, &w->poked);
}

bool gw_webhooks_post(gw_webhooks *w, gw_post *post)
{
    return w && gw_posts_put(w->posts, post);
}

static void name_member(gw_webhooks *w)
{
    char host[64] = "?";

    (void)gethostname(host, sizeof host - 1);
    (void)snprintf(w->member, sizeof w->member, "gateway %s:%d", host, (int)getpid());
}

int gw_webhooks_new(struct gw_gateway *gateway, gw_webhooks **ret_webhooks, howdah_error *reterr)
{
    const gw_session_limits limits = {CONNECT_TIMEOUT, STATEMENT_TIMEOUT};
    gw_webhooks *w = hw_calloc(1, sizeof *w);
    pthread_condattr_t monotonic;
    int s;

    if (!w)
        return hw_fail_no_memory(reterr);
    w->gateway = gateway;
    w->listener = (gw_listener){.wants = on_frame, .wake = on_wake};
    (void)pthread_mutex_init(&w->lock, NULL);
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&w->some, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    name_member(w);
    s = gw_session_settings(gateway, &limits, &w->settings, reterr);
    if (s >= 0)
        s = gw_posts_new(gateway->options.webhooks_private, &w->posts, reterr);
    if (s >= 0 && pthread_create(&w->thread, NULL, work, w) != 0)
        s = hw_fail(reterr, HOWDAH_FAILED, "no thread could be started");
    if (s < 0) {
        gw_webhooks_free(w);
        return s;
    }
    w->started = true;
    *ret_webhooks = w;
    return HOWDAH_OK;
}

void gw_webhooks_end(gw_webhooks *w, int64_t until_ms)
{
    if (!w)
        return;
    (void)pthread_mutex_lock(&w->lock);
    w->ending = true;
    w->until_ms = until_ms;
    (void)pthread_cond_signal(&w->some);
    (void)pthread_mutex_unlock(&w->lock);
    gw_posts_end(w->posts, until_ms);
}

/* A call of the store that takes too long is interrupted: what it was about comes again. */
static void join(gw_webhooks *w)
{
    struct timespec until;

    (void)pthread_mutex_lock(&w->lock);
    while (!w->over) {
        int64_t left_ms = w->until_ms + SAY_MORE_MS - hw_clock_mono_ms();

        if (left_ms <= 0) {
            if (w->bus)
                howdah_interrupt(w->bus);
            left_ms = 100;
        }
        (void)clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += left_ms / 1000 + 1;
        (void)pthread_cond_timedwait(&w->some, &w->lock, &until);
    }
    (void)pthread_mutex_unlock(&w->lock);
    (void)pthread_join(w->thread, NULL);
}

void gw_webhooks_free(gw_webhooks *w)
{
    if (!w)
        return;
    if (w->started)
        join(w);
    gw_posts_free(w->posts); /* nothing lands after this */
    for (flight *f = w->landed, *next; f; f = next) {
        next = f->next;
        free_flight(f);
    }
    for (flight *f = w->unsaid, *next; f; f = next) {
        next = f->next;
        free_flight(f);
    }
    for (hook *h = w->hooks, *next; h; h = next) {
        next = h->next;
        free_hook(h);
    }
    if (w->bus)
        (void)howdah_close(w->bus);
    howdah_settings_free(w->settings);
    (void)pthread_cond_destroy(&w->some);
    (void)pthread_mutex_destroy(&w->lock);
    hw_free(w);
}
