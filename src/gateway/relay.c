/* relay.c - see relay.h. */
#include "gateway/relay.h"

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
/* So long after somebody wanted to join there are frames, also when nobody listens. */
#define WANTED_MS 60000
/* And while nobody listens, and no request waits, it rests so long after what it has read: a busy
   log is then read in larger parts. */
#define UNHEARD_MS 20
#define BEAT_MS 15000 /* a client hears something at least so often */

struct gw_relay {
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
    int64_t wanted_until_ms; /* by somebody who has not joined */
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

static gw_frame *frame_at(gw_relay *relay, uint64_t number)
{
    return &relay->frames[number % FRAMES];
}

static void frame_done(gw_frame *frame)
{
    hw_free((char *)(uintptr_t)frame->text.s);
    hw_free((char *)(uintptr_t)frame->type);
    gw_spot_free(frame->spot);
    *frame = (gw_frame){0};
}

static void drop_first(gw_relay *relay)
{
    gw_frame *frame = frame_at(relay, relay->first);

    gw_spot_free(relay->start);
    relay->start = gw_spot_keep(frame->spot);
    relay->bytes -= frame->text.len;
    frame_done(frame);
    relay->first++;
}

/* I3.  Who was in it finds that its era is over, also when there is no memory for a new one. */
static int begin_era(gw_relay *relay, const char *place, howdah_error *reterr)
{
    while (relay->first < relay->end)
        drop_first(relay);
    gw_spot_free(relay->start);
    relay->start = gw_spot_new(place);
    relay->era++;
    return relay->start ? HOWDAH_OK : hw_fail_no_memory(reterr);
}

/* Takes the frame over. */
static void put_frame(gw_relay *relay, const gw_frame *frame)
{
    if (relay->end - relay->first == FRAMES)
        drop_first(relay);
    *frame_at(relay, relay->end++) = *frame;
    relay->bytes += frame->text.len;
    while (relay->bytes > RING_BYTES && relay->end - relay->first > 1)
        drop_first(relay);
}

/* ----------------------------------------------------------------- listeners */

static void wake_wanting(gw_relay *relay, uint64_t from)
{
    int64_t now = hw_clock_mono_ms();

    for (gw_listener *l = relay->listeners; l; l = l->next_listener) {
        bool wanted;

        if (!l->sleeps)
            continue; /* its thread may be at it: sent_ms is ours only while it sleeps */
        wanted = l->era != relay->era || l->next < relay->first || now - l->sent_ms >= BEAT_MS;
        for (uint64_t n = from; !wanted && n < relay->end; n++)
            wanted = l->wants(l, frame_at(relay, n));
        if (wanted) {
            l->sleeps = false;
            l->wake(l);
        }
    }
}

void gw_relay_lock(gw_relay *relay)
{
    (void)pthread_mutex_lock(&relay->lock);
}

void gw_relay_unlock(gw_relay *relay)
{
    (void)pthread_mutex_unlock(&relay->lock);
}

bool gw_relay_stands(const gw_relay *relay)
{
    return relay->start != NULL;
}

static void list(gw_relay *relay, gw_listener *l, uint64_t next)
{
    l->next = next;
    l->era = relay->era;
    if (l->listed)
        return;
    l->listed = true;
    l->next_listener = relay->listeners;
    relay->listeners = l;
    relay->listeners_n++;
}

static gw_spot *spot_before(gw_relay *relay, uint64_t number)
{
    return number == relay->first ? relay->start : frame_at(relay, number - 1)->spot;
}

void gw_relay_join_end(gw_relay *relay, gw_listener *listener, gw_spot **ret_spot)
{
    assert(gw_relay_stands(relay));
    *ret_spot = gw_spot_keep(spot_before(relay, relay->end));
    list(relay, listener, relay->end);
}

/* Whether somebody at this place misses nothing who begins with this frame. */
static bool fits(gw_relay *relay, const howdah_place *place, uint64_t number)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_place *before = NULL;
    bool includes;

    if (howdah_place_new(spot_before(relay, number)->text, &before, &err) < 0)
        return false;
    includes = howdah_place_includes(place, before);
    howdah_place_free(before);
    return includes;
}

/* What the relay has seen only grows: where one frame fits, all before it do. */
bool gw_relay_join(gw_relay *relay, gw_listener *listener, const howdah_place *place)
{
    uint64_t low = relay->first;
    uint64_t high = relay->end;

    relay->wanted_until_ms = hw_clock_mono_ms() + WANTED_MS;
    if (!gw_relay_stands(relay) || !fits(relay, place, low))
        return false;
    while (low < high) {
        uint64_t middle = low + (high - low + 1) / 2;

        if (fits(relay, place, middle))
            low = middle;
        else
            high = middle - 1;
    }
    list(relay, listener, low);
    return true;
}

const gw_frame *gw_relay_next(gw_relay *relay, gw_listener *listener, bool *ret_lost)
{
    *ret_lost = listener->era != relay->era || listener->next < relay->first;
    if (*ret_lost || listener->next == relay->end)
        return NULL;
    return frame_at(relay, listener->next++);
}

void gw_relay_leave(gw_relay *relay, gw_listener *listener)
{
    gw_listener **at = &relay->listeners;

    if (!listener->listed)
        return;
    while (*at != listener)
        at = &(*at)->next_listener;
    *at = listener->next_listener;
    listener->listed = false;
    relay->listeners_n--;
}

size_t gw_relay_listeners(const gw_relay *relay)
{
    return relay->listeners_n;
}

/* ----------------------------------------------------------------- the thread */

static void close_tail(gw_relay *relay)
{
    howdah_tail_close(relay->tail);
    relay->tail = NULL;
}

static int keep_place(gw_relay *relay, howdah_error *reterr)
{
    return howdah_tail_place(relay->tail, relay->last, sizeof relay->last, reterr);
}

/* I4: where it stood, or, the first time, at the end of the log. */
static int open_tail(gw_relay *relay, howdah_error *reterr)
{
    howdah_tail_options o = HOWDAH_TAIL_OPTIONS_INIT;
    bool first = relay->last[0] == '\0';
    int s = HOWDAH_OK;

    if (!relay->bus)
        s = howdah_open(relay->gateway->url, relay->gateway->options.settings, &relay->bus, reterr);
    o.place = first ? NULL : relay->last;
    if (s >= 0)
        s = howdah_tail_open(relay->bus, &o, &relay->tail, reterr);
    if (s >= 0)
        s = keep_place(relay, reterr);
    if (s < 0)
        return s;
    gw_relay_lock(relay);
    if (first || howdah_tail_returns(relay->tail) > 0)
        s = begin_era(relay, relay->last, reterr);
    relay->returns = howdah_tail_returns(relay->tail);
    wake_wanting(relay, relay->end);
    gw_relay_unlock(relay);
    return s;
}

static char *copy_of(hw_buf *text)
{
    char *copy = text->broken ? NULL : hw_strndup(hw_buf_str(text), text->len);

    hw_buf_clear(text);
    return copy;
}

/* An event, with the place after it.  type and stream are one block. */
static int make_frame(gw_relay *relay, const howdah_event *event, hw_buf *text, gw_frame *ret_frame,
                      howdah_error *reterr)
{
    const char *type = howdah_event_type(event);
    const char *stream = howdah_event_stream(event);
    size_t type_n = strlen(type) + 1;
    char *names = hw_alloc(type_n + strlen(stream) + 1);
    int s = keep_place(relay, reterr);

    *ret_frame = (gw_frame){.sequence = howdah_event_global_sequence(event),
                            .type = names,
                            .stream = names ? names + type_n : NULL,
                            .original = howdah_event_revision(event) <= 1,
                            .spot = gw_spot_new(relay->last)};
    if (s >= 0)
        s = gw_frame_put(text, event, relay->last, reterr);
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

static bool is_heard(gw_relay *relay)
{
    bool heard;

    gw_relay_lock(relay);
    heard = relay->listeners || hw_clock_mono_ms() < relay->wanted_until_ms;
    gw_relay_unlock(relay);
    return heard;
}

/* What is there now, in one go: listeners are woken once for all of it.  Who has joined since it
   was asked whether somebody is there falls out of the ring, and reads for himself. */
static int take_batch(gw_relay *relay, hw_buf *text, howdah_error *reterr)
{
    gw_frame batch[BATCH];
    const howdah_event *event = NULL;
    size_t bytes = 0;
    size_t frames = 0;
    size_t n = 0;
    int made = HOWDAH_OK;
    int s = howdah_tail_next(relay->tail, LOOK_MS, &event, reterr);
    bool heard = is_heard(relay);

    while (s == HOWDAH_OK) {
        if (heard)
            s = made = make_frame(relay, event, text, &batch[frames], reterr);
        if (s < 0)
            break;
        n++;
        bytes += heard ? batch[frames++].text.len : 0;
        if (n == BATCH || bytes > BATCH_BYTES || howdah_tail_returns(relay->tail) != relay->returns)
            break;
        s = howdah_tail_next(relay->tail, 0, &event, reterr);
    }
    if (!heard && n > 0 && keep_place(relay, reterr) < 0)
        s = made = reterr->status; /* it is gone back to the last place */
    gw_relay_lock(relay);
    /* I3; and an event for which there was no memory goes to nobody by way of the ring either. */
    if (howdah_tail_returns(relay->tail) != relay->returns || made < 0 || n > frames) {
        relay->returns = howdah_tail_returns(relay->tail);
        (void)begin_era(relay, relay->last, NULL);
        while (frames > 0)
            frame_done(&batch[--frames]);
    }
    for (size_t i = 0; i < frames; i++)
        put_frame(relay, &batch[i]);
    wake_wanting(relay, relay->end - frames);
    gw_relay_unlock(relay);
    if (n > 0)
        gw_waiting_wake(relay->gateway->waiting);
    if (!heard && n > 0 && s == HOWDAH_END && gw_waiting_count(relay->gateway->waiting) == 0)
        hw_clock_sleep_ms(UNHEARD_MS);
    return s;
}

/* An error that a new session might not have; the place is kept. */
static void recover(gw_relay *relay, const howdah_error *err)
{
    gw_log(relay->gateway, HOWDAH_LOG_DEBUG, "the relay waits for the store: %s", err->message);
    close_tail(relay);
    if (relay->bus && (err->flags & HOWDAH_HANDLE_DEAD || err->status != HOWDAH_UNAVAILABLE)) {
        (void)howdah_close(relay->bus);
        relay->bus = NULL;
    }
    gw_relay_lock(relay);
    wake_wanting(relay, relay->end); /* beats go on */
    gw_relay_unlock(relay);
    hw_clock_sleep_ms(PAUSE_MS);
}

static void *run(void *arg)
{
    gw_relay *relay = arg;
    hw_buf text = HW_BUF_INIT(FRAME_BYTES_MAX);

    while (!atomic_load(&relay->ending)) {
        howdah_error err = HOWDAH_ERROR_INIT;
        int s = relay->tail ? HOWDAH_OK : open_tail(relay, &err);

        if (s >= 0)
            s = take_batch(relay, &text, &err);
        if (s < 0)
            recover(relay, &err);
    }
    close_tail(relay);
    if (relay->bus)
        (void)howdah_close(relay->bus);
    hw_buf_done(&text);
    return NULL;
}

int gw_relay_new(struct gw_gateway *gateway, gw_relay **ret_relay, howdah_error *reterr)
{
    gw_relay *relay = hw_calloc(1, sizeof *relay);

    if (!relay)
        return hw_fail_no_memory(reterr);
    relay->gateway = gateway;
    (void)pthread_mutex_init(&relay->lock, NULL);
    if (pthread_create(&relay->thread, NULL, run, relay) != 0) {
        gw_relay_free(relay);
        return hw_fail(reterr, HOWDAH_FAILED, "no thread could be started");
    }
    relay->started = true;
    *ret_relay = relay;
    return HOWDAH_OK;
}

void gw_relay_end(gw_relay *relay)
{
    gw_relay_lock(relay);
    for (gw_listener *l = relay->listeners; l; l = l->next_listener)
        if (l->sleeps) {
            l->sleeps = false;
            l->wake(l);
        }
    gw_relay_unlock(relay);
}

void gw_relay_free(gw_relay *relay)
{
    if (!relay)
        return;
    atomic_store(&relay->ending, true);
    if (relay->started)
        (void)pthread_join(relay->thread, NULL);
    while (relay->first < relay->end)
        drop_first(relay);
    gw_spot_free(relay->start);
    (void)pthread_mutex_destroy(&relay->lock);
    hw_free(relay);
}
