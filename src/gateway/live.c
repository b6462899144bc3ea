/*
 * live.c - GET /v1/events/live: the log as server-sent events.
 *
 * A client is behind, or live.  Behind, a worker reads for it from its place, a piece at a time, as
 * fast as it takes them; nothing is left open in between.  When there is nothing more, it joins the
 * ring of the relay (relay.h) where that misses nothing of what its place does not cover, and is
 * live: it is sent frames as they come.  Who falls out of the ring is behind again.
 *
 *   I1  What a client is sent has its place behind it, and its place is what has been put into the
 *       buffer that is being sent.  A client that comes back with the last id that it saw is sent
 *       all that came after that.
 *   I2  A client costs one buffer of at most a piece, however slow it is, and none while it
 *       sleeps.
 *   I3  Every 15 s there is something to be read: a comment, with the place, so that a client with
 *       a rare pattern does not go through all the rest again when it comes back.
 *   I4  Whoever sleeps is woken under the relay's lock, once.
 */
#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "gateway/access.h"
#include "gateway/frame.h"
#include "gateway/handlers.h"
#include "gateway/relay.h"
#include "gateway/server.h"
#include "gateway/stream.h"

#define PIECE_BYTES ((size_t)128 * 1024)
#define PIECE_EVENTS 500
#define PIECE_BYTES_MAX ((size_t)200 * 1024 * 1024)
#define BEAT_MS 14000
#define RETRY_MS 2000
/* How long somebody who is behind, and has read all there is, rests before the next look. */
#define REST_MS 100
#define AWAY_MS 1000 /* the same while the store is away */
/* Who can neither join nor read anything: the tail's first looks may only find out where it is. */
#define LOOK_MS 200
#define EVENT_STREAM "text/event-stream"

typedef struct live {
    gw_stream stream; /* the first member */
    gw_listener listener;
    const char *pattern; /* the request's */
    const char *wanted;  /* the stream */
    bool originals;
    bool is_live;
    bool ended;
    hw_buf piece;
    size_t sent;        /* of the piece */
    gw_spot *spot;      /* where it stands when the piece is sent; NULL: nowhere yet */
    int64_t since;      /* without a spot: events after this; HOWDAH_ABSENT: from now on */
    howdah_place *skip; /* what it had before it joined; NULL: nothing of the ring */
} live;

static live *live_of(gw_listener *listener)
{
    return (live *)((char *)listener - offsetof(live, listener));
}

static gw_relay *relay_of(const live *l)
{
    return l->stream.r->gateway->relay;
}

/* -------------------------------------------------------------- the live end */

static bool wants(gw_listener *listener, const gw_frame *frame)
{
    const live *l = live_of(listener);

    return (!l->wanted || strcmp(l->wanted, frame->stream) == 0) &&
           (!l->originals || frame->original) &&
           (!l->pattern || howdah_pattern_matches(l->pattern, frame->type)) &&
           !(l->skip && howdah_place_covers(l->skip, frame->sequence));
}

static void wake(gw_listener *listener)
{
    gw_stream_resume(&live_of(listener)->stream);
}

static void stand(live *l, gw_spot *spot)
{
    gw_spot_free(l->spot);
    l->spot = spot;
}

static void put_beat(live *l)
{
    hw_buf_printf(&l->piece, ": still here\nid: %s\n\n", l->spot->text);
}

/* Frames, or a beat.  The lock of the relay is held. */
static void fill_from_ring(live *l, int64_t now)
{
    const gw_frame *frame;
    gw_spot *spot = NULL;
    bool lost = false;

    while (l->piece.len < PIECE_BYTES &&
           (frame = gw_relay_next(relay_of(l), &l->listener, &lost))) {
        if (wants(&l->listener, frame))
            hw_buf_put(&l->piece, frame->text.s, frame->text.len);
        spot = frame->spot;
    }
    if (spot)
        stand(l, gw_spot_keep(spot));
    if (lost) {
        gw_relay_leave(relay_of(l), &l->listener);
        l->is_live = false;
    }
    if (l->piece.len == 0 && now - l->listener.sent_ms >= BEAT_MS)
        put_beat(l);
}

/* -------------------------------------------------------------------- behind */

/* Its own tail, for as long as this piece takes. */
static int open_tail(const live *l, howdah_bus *bus, howdah_tail **ret_tail, howdah_error *reterr)
{
    howdah_tail_options o = HOWDAH_TAIL_OPTIONS_INIT;

    o.pattern = l->pattern;
    o.stream = l->wanted;
    o.originals_only = l->originals;
    if (l->spot)
        o.place = l->spot->text;
    else
        o.since = l->since;
    return howdah_tail_open(bus, &o, ret_tail, reterr);
}

static int stand_with(live *l, howdah_tail *tail, howdah_error *reterr)
{
    char place[HOWDAH_PLACE_SIZE];
    gw_spot *spot;
    int s = howdah_tail_place(tail, place, sizeof place, reterr);

    if (s < 0)
        return s;
    spot = gw_spot_new(place);
    if (!spot)
        return hw_fail_no_memory(reterr);
    stand(l, spot);
    return HOWDAH_OK;
}

/* A piece, with a place behind each event; HOWDAH_END: there is nothing more now. */
static int read_piece_from(live *l, howdah_tail *tail, int wait_ms, howdah_error *reterr)
{
    const howdah_event *event = NULL;
    int s = HOWDAH_OK;

    for (int n = 0; s == HOWDAH_OK && n < PIECE_EVENTS && l->piece.len < PIECE_BYTES; n++) {
        s = howdah_tail_next(tail, n == 0 ? wait_ms : 0, &event, reterr);
        if (s < 0)
            break;
        if (stand_with(l, tail, reterr) < 0)
            return HOWDAH_NO_MEMORY;
        if (s == HOWDAH_OK)
            s = gw_frame_put(&l->piece, event, l->spot->text, reterr);
    }
    return s;
}

/* Where the ring goes on from its place it is live.  The lock of the relay is held. */
static void try_to_join(live *l)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_place *place = NULL;

    if (howdah_place_new(l->spot->text, &place, &err) < 0)
        return;
    l->is_live = gw_relay_join(relay_of(l), &l->listener, place);
    if (l->is_live) {
        howdah_place_free(l->skip);
        l->skip = place;
    } else {
        howdah_place_free(place);
    }
}

static bool joins(live *l)
{
    gw_relay_lock(relay_of(l));
    try_to_join(l);
    gw_relay_unlock(relay_of(l));
    return l->is_live;
}

/* False: the store gave nothing for now. */
static bool catch_up(live *l, howdah_bus *bus, howdah_error *err)
{
    howdah_tail *tail = NULL;
    int s = open_tail(l, bus, &tail, err);

    if (s >= 0)
        s = read_piece_from(l, tail, 0, err);
    if (s == HOWDAH_END && !joins(l) && l->piece.len == 0) {
        s = read_piece_from(l, tail, LOOK_MS, err);
        if (s == HOWDAH_END)
            (void)joins(l);
    }
    howdah_tail_close(tail);
    return s == HOWDAH_OK || l->piece.len > 0 || l->is_live;
}

/* In a worker. */
static void run_live(gw_stream *stream, howdah_bus *bus, howdah_error *err)
{
    live *l = (live *)stream;
    int64_t now = hw_clock_mono_ms();
    bool more = bus && catch_up(l, bus, err);

    if (!more && l->spot && now - l->listener.sent_ms >= BEAT_MS)
        put_beat(l);
    if (!more && l->piece.len == 0 && !atomic_load(&stream->r->gateway->stopping) &&
        gw_access_still_may(stream->r)) {
        stream->r->look_ms = now + (bus ? REST_MS : AWAY_MS);
        stream->r->wait_until_ms = INT64_MAX;
        gw_waiting_park(stream->r->gateway->waiting, stream->r);
        return;
    }
    gw_stream_resume(stream);
}

/* -------------------------------------------------------------------- sending */

static void clear_piece(live *l)
{
    hw_buf_done(&l->piece); /* I2 */
    l->sent = 0;
}

/* Where to come back to. */
static void put_end(live *l)
{
    l->ended = true;
    if (l->spot)
        hw_buf_printf(&l->piece, ": this is the end\nid: %s\n\n", l->spot->text);
}

/* Fills the piece; false: nothing is there, and it sleeps, or a worker has it. */
static bool fill(live *l)
{
    gw_request *r = l->stream.r;
    gw_relay *relay = relay_of(l);

    clear_piece(l);
    gw_relay_lock(relay);
    if (atomic_load(&r->gateway->stopping) || !gw_access_still_may(r))
        put_end(l);
    else if (l->is_live)
        fill_from_ring(l, hw_clock_mono_ms());
    if (l->piece.len == 0 && !l->ended) {
        gw_stream_suspend(&l->stream);
        l->listener.sleeps = l->is_live; /* I4 */
    }
    gw_relay_unlock(relay);
    if (l->piece.len > 0 || l->ended)
        return true;
    if (!l->is_live)
        gw_request_again(r);
    return false;
}

static ssize_t read_live(gw_stream *stream, char *out, size_t max)
{
    live *l = (live *)stream;
    size_t n;

    if (l->sent == l->piece.len && (l->ended || !fill(l)))
        return l->ended ? GW_STREAM_END : 0;
    if (l->piece.broken)
        return GW_STREAM_CUT;
    n = l->piece.len - l->sent;
    if (n == 0)
        return GW_STREAM_END; /* it ended before it stood anywhere */
    if (n > max)
        n = max;
    memcpy(out, l->piece.data + l->sent, n);
    l->sent += n;
    l->listener.sent_ms = hw_clock_mono_ms();
    return (ssize_t)n;
}

static void free_live(gw_stream *stream)
{
    live *l = (live *)stream;

    gw_relay_lock(relay_of(l));
    gw_relay_leave(relay_of(l), &l->listener);
    gw_relay_unlock(relay_of(l));
    atomic_fetch_sub(&stream->r->gateway->streams, 1);
    gw_spot_free(l->spot);
    howdah_place_free(l->skip);
    hw_buf_done(&l->piece);
    hw_free(l);
}

static const gw_stream_ops live_ops = {read_live, run_live, free_live};

/* ------------------------------------------------------------------- request */

/* Last-Event-ID, which a browser sends by itself, wins over what the URL said at first. */
static int take_place(live *l, howdah_error *reterr)
{
    const gw_request *r = l->stream.r;
    const char *id = gw_header(r, "Last-Event-ID");
    const char *text = id && *id ? id : gw_arg_text(r, "place");
    howdah_place *place = NULL;
    int s;

    l->since = HOWDAH_ABSENT;
    if (!text)
        return gw_arg_number(r, "since", 0, INT64_MAX, &l->since, reterr);
    s = howdah_place_new(text, &place, reterr);
    if (s < 0)
        return s;
    howdah_place_free(place);
    l->spot = gw_spot_new(text);
    return l->spot ? HOWDAH_OK : hw_fail_no_memory(reterr);
}

static int take_filters(live *l, howdah_error *reterr)
{
    const gw_request *r = l->stream.r;

    l->pattern = gw_arg_text(r, "pattern");
    l->wanted = gw_arg_text(r, "stream");
    return gw_arg_flag(r, "originals", &l->originals, reterr);
}

/* The first piece, whose errors (a bad filter) are the request's. */
static int begin(live *l, howdah_bus *bus, howdah_error *reterr)
{
    howdah_tail *tail = NULL;
    int s = open_tail(l, bus, &tail, reterr);

    if (s >= 0 && !l->spot)
        s = stand_with(l, tail, reterr);
    if (s >= 0)
        s = read_piece_from(l, tail, 0, reterr);
    howdah_tail_close(tail);
    if (s == HOWDAH_END)
        (void)joins(l);
    return s < 0 ? s : HOWDAH_OK;
}

int gw_events_live(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    live *l;
    int s;

    if (!gw_stream_may_open(r, reterr))
        return reterr->status;
    l = hw_calloc(1, sizeof *l);
    if (!l) {
        atomic_fetch_sub(&r->gateway->streams, 1);
        return hw_fail_no_memory(reterr);
    }
    l->stream = (gw_stream){&live_ops, r};
    l->listener = (gw_listener){.wants = wants, .wake = wake, .sent_ms = hw_clock_mono_ms()};
    l->piece = (hw_buf)HW_BUF_INIT(PIECE_BYTES_MAX);
    s = take_place(l, reterr);
    if (s >= 0)
        s = take_filters(l, reterr);
    hw_buf_printf(&l->piece, "retry: %d\n\n", RETRY_MS);
    if (s >= 0)
        s = begin(l, bus, reterr);
    if (s < 0) {
        free_live(&l->stream);
        return s;
    }
    gw_answer_stream(r, EVENT_STREAM, &l->stream);
    gw_answer_header(r, "X-Accel-Buffering", "no");
    return HOWDAH_OK;
}
