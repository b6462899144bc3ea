/* feed.c - see feed.h. */
#include "gateway/feed.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "gateway/frame.h"
#include "gateway/server.h"

#define FRAMES 4096 /* a power of two */
#define RING_BYTES ((size_t)16 * 1024 * 1024)
#define FRAME_BYTES_MAX ((size_t)200 * 1024 * 1024)
#define LOOK_MS 500  /* a call of the tail waits so long, */
#define PAUSE_MS 200 /* and after an error nobody asks for so long */
#define BATCH 256    /* frames that go into the ring together, */
#define BATCH_BYTES ((size_t)1024 * 1024)
#define BEAT_MS 15000 /* a client hears something at least so often */

struct gw_feed {
    struct gw_gateway *gateway;
    pthread_t thread;
    bool started;
    atomic_bool ending;
    /* The thread's own. */
    howdah_bus *bus;
    howdah_tail *tail;
    int64_t returns;
    char last[HOWDAH_PLACE_SIZE]; /* "": it has not stood anywhere */
    /* Under the lock. */
    pthread_mutex_t lock;
    gw_frame frames[FRAMES];
    uint64_t first; /* the oldest frame's number, */
    uint64_t end;   /* and the one after the newest */
    uint64_t era;   /* grows when the ring is emptied */
    size_t bytes;
    gw_spot *start; /* before the oldest frame; NULL: it has not stood anywhere */
    gw_listener *listeners;
    size_t listeners_n;
};

/* --------------------------------------------------------------------- spots */

gw_spot *gw_spot_new(const char *text)
{
    gw_spot *spot = hw_alloc(sizeof *spot);

    if (!spot)
        return NULL;
    atomic_init(&spot->refs, 1);
    (void)snprintf(spot->text, sizeof spot->text, "%s", text);
    return spot;
}

gw_spot *gw_spot_keep(gw_spot *spot)
{
    if (spot)
        atomic_fetch_add(&spot->refs, 1);
    return spot;
}

void gw_spot_free(gw_spot *spot)
{
    if (spot && atomic_fetch_sub(&spot->refs, 1) == 1)
        hw_free(spot);
}

/* ---------------------------------------------------------------------- ring */

static gw_frame *frame_at(gw_feed *feed, uint64_t number)
{
    return &feed->frames[number % FRAMES];
}

static void frame_done(gw_frame *frame)
{
    hw_free((char *)(uintptr_t)frame->text.s);
    hw_free((char *)(uintptr_t)frame->type);
    gw_spot_free(frame->spot);
    *frame = (gw_frame){0};
}

static void drop_first(gw_feed *feed)
{
    gw_frame *frame = frame_at(feed, feed->first);

    gw_spot_free(feed->start);
    feed->start = gw_spot_keep(frame->spot);
    feed->bytes -= frame->text.len;
    frame_done(frame);
    feed->first++;
}

/* I3.  Who was in it finds that its era is over, also when there is no memory for a new one. */
static int begin_era(gw_feed *feed, const char *place, howdah_error *reterr)
{
    while (feed->first < feed->end)
        drop_first(feed);
    gw_spot_free(feed->start);
    feed->start = gw_spot_new(place);
    feed->era++;
    return feed->start ? HOWDAH_OK : hw_fail_no_memory(reterr);
}

/* Takes the frame over. */
static void put_frame(gw_feed *feed, const gw_frame *frame)
{
    if (feed->end - feed->first == FRAMES)
        drop_first(feed);
    *frame_at(feed, feed->end++) = *frame;
    feed->bytes += frame->text.len;
    while (feed->bytes > RING_BYTES && feed->end - feed->first > 1)
        drop_first(feed);
}

/* ----------------------------------------------------------------- listeners */

static void wake_wanting(gw_feed *feed, uint64_t from)
{
    int64_t now = hw_clock_mono_ms();

    for (gw_listener *l = feed->listeners; l; l = l->next_listener) {
        bool wanted = l->era != feed->era || l->next < feed->first || now - l->sent_ms >= BEAT_MS;

        if (!l->sleeps)
            continue;
        for (uint64_t n = from; !wanted && n < feed->end; n++)
            wanted = l->wants(l, frame_at(feed, n));
        if (wanted) {
            l->sleeps = false;
            l->wake(l);
        }
    }
}

void gw_feed_lock(gw_feed *feed)
{
    (void)pthread_mutex_lock(&feed->lock);
}

void gw_feed_unlock(gw_feed *feed)
{
    (void)pthread_mutex_unlock(&feed->lock);
}

bool gw_feed_stands(const gw_feed *feed)
{
    return feed->start != NULL;
}

static void list(gw_feed *feed, gw_listener *l, uint64_t next)
{
    l->next = next;
    l->era = feed->era;
    if (l->listed)
        return;
    l->listed = true;
    l->next_listener = feed->listeners;
    feed->listeners = l;
    feed->listeners_n++;
}

static gw_spot *spot_before(gw_feed *feed, uint64_t number)
{
    return number == feed->first ? feed->start : frame_at(feed, number - 1)->spot;
}

void gw_feed_join_end(gw_feed *feed, gw_listener *listener, gw_spot **ret_spot)
{
    assert(gw_feed_stands(feed));
    *ret_spot = gw_spot_keep(spot_before(feed, feed->end));
    list(feed, listener, feed->end);
}

/* Whether somebody at this place misses nothing who begins with this frame. */
static bool fits(gw_feed *feed, const howdah_place *place, uint64_t number)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_place *before = NULL;
    bool includes;

    if (howdah_place_new(spot_before(feed, number)->text, &before, &err) < 0)
        return false;
    includes = howdah_place_includes(place, before);
    howdah_place_free(before);
    return includes;
}

/* What the feed has seen only grows: where one frame fits, all before it do. */
bool gw_feed_join(gw_feed *feed, gw_listener *listener, const howdah_place *place)
{
    uint64_t low = feed->first;
    uint64_t high = feed->end;

    if (!gw_feed_stands(feed) || !fits(feed, place, low))
        return false;
    while (low < high) {
        uint64_t middle = low + (high - low + 1) / 2;

        if (fits(feed, place, middle))
            low = middle;
        else
            high = middle - 1;
    }
    list(feed, listener, low);
    return true;
}

const gw_frame *gw_feed_next(gw_feed *feed, gw_listener *listener, bool *ret_lost)
{
    *ret_lost = listener->era != feed->era || listener->next < feed->first;
    if (*ret_lost || listener->next == feed->end)
        return NULL;
    return frame_at(feed, listener->next++);
}

void gw_feed_leave(gw_feed *feed, gw_listener *listener)
{
    gw_listener **at = &feed->listeners;

    if (!listener->listed)
        return;
    while (*at != listener)
        at = &(*at)->next_listener;
    *at = listener->next_listener;
    listener->listed = false;
    feed->listeners_n--;
}

size_t gw_feed_listeners(const gw_feed *feed)
{
    return feed->listeners_n;
}

/* ----------------------------------------------------------------- the thread */

static void close_tail(gw_feed *feed)
{
    howdah_tail_close(feed->tail);
    feed->tail = NULL;
}

static int keep_place(gw_feed *feed, howdah_error *reterr)
{
    return howdah_tail_place(feed->tail, feed->last, sizeof feed->last, reterr);
}

/* I4: where it stood, or, the first time, at the end of the log. */
static int open_tail(gw_feed *feed, howdah_error *reterr)
{
    howdah_tail_options o = HOWDAH_TAIL_OPTIONS_INIT;
    bool first = feed->last[0] == '\0';
    int s = HOWDAH_OK;

    if (!feed->bus)
        s = howdah_open(feed->gateway->url, feed->gateway->options.settings, &feed->bus, reterr);
    o.place = first ? NULL : feed->last;
    if (s >= 0)
        s = howdah_tail_open(feed->bus, &o, &feed->tail, reterr);
    if (s >= 0)
        s = keep_place(feed, reterr);
    if (s < 0)
        return s;
    gw_feed_lock(feed);
    if (first || howdah_tail_returns(feed->tail) > 0)
        s = begin_era(feed, feed->last, reterr);
    feed->returns = howdah_tail_returns(feed->tail);
    wake_wanting(feed, feed->end);
    gw_feed_unlock(feed);
    return s;
}

static char *copy_of(hw_buf *text)
{
    char *copy = text->broken ? NULL : hw_strndup(hw_buf_str(text), text->len);

    hw_buf_clear(text);
    return copy;
}

/* An event, with the place after it.  type and stream are one block. */
static int make_frame(gw_feed *feed, const howdah_event *event, hw_buf *text, gw_frame *ret_frame,
                      howdah_error *reterr)
{
    const char *type = howdah_event_type(event);
    const char *stream = howdah_event_stream(event);
    size_t type_n = strlen(type) + 1;
    char *names = hw_alloc(type_n + strlen(stream) + 1);
    int s = keep_place(feed, reterr);

    *ret_frame = (gw_frame){.sequence = howdah_event_global_sequence(event),
                            .type = names,
                            .stream = names ? names + type_n : NULL,
                            .original = howdah_event_revision(event) <= 1,
                            .spot = gw_spot_new(feed->last)};
    if (s >= 0)
        s = gw_frame_put(text, event, feed->last, reterr);
    ret_frame->text.len = text->len;
    ret_frame->text.s = copy_of(text);
    if (s >= 0 && (!names || !ret_frame->spot || !ret_frame->text.s))
        s = hw_fail_no_memory(reterr);
    if (s < 0) {
        frame_done(ret_frame);
        return s;
    }
    memcpy(names, type, type_n);
    memcpy(names + type_n, stream, strlen(stream) + 1);
    return HOWDAH_OK;
}

/* What is there now, in one go: listeners are woken once for all of it. */
static int take_batch(gw_feed *feed, hw_buf *text, howdah_error *reterr)
{
    gw_frame batch[BATCH];
    const howdah_event *event = NULL;
    size_t bytes = 0;
    size_t n = 0;
    int made = HOWDAH_OK;
    int s = howdah_tail_next(feed->tail, LOOK_MS, &event, reterr);

    while (s == HOWDAH_OK) {
        s = made = make_frame(feed, event, text, &batch[n], reterr);
        if (s < 0)
            break;
        bytes += batch[n++].text.len;
        if (n == BATCH || bytes > BATCH_BYTES || howdah_tail_returns(feed->tail) != feed->returns)
            break;
        s = howdah_tail_next(feed->tail, 0, &event, reterr);
    }
    gw_feed_lock(feed);
    /* I3; and an event for which there was no memory goes to nobody by way of the ring either. */
    if (howdah_tail_returns(feed->tail) != feed->returns || made < 0) {
        feed->returns = howdah_tail_returns(feed->tail);
        (void)begin_era(feed, feed->last, NULL);
        while (n > 0)
            frame_done(&batch[--n]);
    }
    for (size_t i = 0; i < n; i++)
        put_frame(feed, &batch[i]);
    wake_wanting(feed, feed->end - (n < FRAMES ? n : FRAMES));
    gw_feed_unlock(feed);
    if (n > 0)
        gw_waiting_wake(feed->gateway->waiting);
    return s;
}

/* An error that a new session might not have; the place is kept. */
static void recover(gw_feed *feed, const howdah_error *err)
{
    gw_log(feed->gateway, HOWDAH_LOG_DEBUG, "the feed waits for the store: %s", err->message);
    close_tail(feed);
    if (feed->bus && (err->flags & HOWDAH_HANDLE_DEAD || err->status != HOWDAH_UNAVAILABLE)) {
        (void)howdah_close(feed->bus);
        feed->bus = NULL;
    }
    gw_feed_lock(feed);
    wake_wanting(feed, feed->end); /* beats go on */
    gw_feed_unlock(feed);
    hw_clock_sleep_ms(PAUSE_MS);
}

static void *run(void *arg)
{
    gw_feed *feed = arg;
    hw_buf text = HW_BUF_INIT(FRAME_BYTES_MAX);

    while (!atomic_load(&feed->ending)) {
        howdah_error err = HOWDAH_ERROR_INIT;
        int s = feed->tail ? HOWDAH_OK : open_tail(feed, &err);

        if (s >= 0)
            s = take_batch(feed, &text, &err);
        if (s < 0)
            recover(feed, &err);
    }
    close_tail(feed);
    if (feed->bus)
        (void)howdah_close(feed->bus);
    hw_buf_done(&text);
    return NULL;
}

int gw_feed_new(struct gw_gateway *gateway, gw_feed **ret_feed, howdah_error *reterr)
{
    gw_feed *feed = hw_calloc(1, sizeof *feed);

    if (!feed)
        return hw_fail_no_memory(reterr);
    feed->gateway = gateway;
    (void)pthread_mutex_init(&feed->lock, NULL);
    if (pthread_create(&feed->thread, NULL, run, feed) != 0) {
        gw_feed_free(feed);
        return hw_fail(reterr, HOWDAH_FAILED, "no thread could be started");
    }
    feed->started = true;
    *ret_feed = feed;
    return HOWDAH_OK;
}

void gw_feed_end(gw_feed *feed)
{
    gw_feed_lock(feed);
    for (gw_listener *l = feed->listeners; l; l = l->next_listener)
        if (l->sleeps) {
            l->sleeps = false;
            l->wake(l);
        }
    gw_feed_unlock(feed);
}

void gw_feed_free(gw_feed *feed)
{
    if (!feed)
        return;
    atomic_store(&feed->ending, true);
    if (feed->started)
        (void)pthread_join(feed->thread, NULL);
    while (feed->first < feed->end)
        drop_first(feed);
    gw_spot_free(feed->start);
    (void)pthread_mutex_destroy(&feed->lock);
    hw_free(feed);
}
