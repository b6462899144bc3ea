/* fake_read.c - sessions and reads of the simulated store; see fake.h. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "engine/pattern.h"
#include "fake.h"

/* ----------------------------------------------------------------------- sessions */

void fake_init(fake *f, world *w)
{
    memset(f, 0, offsetof(fake, sessions));
    f->world = w;
    f->sessions_n = 0;
    f->armed = false;
}

int64_t fake_clock_us(const fake *f)
{
    return f->world->now_us;
}

bool fake_session_alive(const fake *f, uint64_t session)
{
    const fake_session *s = &f->sessions[session % FAKE_SESSIONS];

    return session > 0 && s->alive && f->world->now_us < s->ends_us;
}

static int connect(fake_store *store, howdah_error *reterr)
{
    fake *f = store->client->server;

    if (f->world->now_us < f->world->down_until_us)
        return hw_fail(reterr, HOWDAH_UNAVAILABLE, "the server is down");
    store->log[0] = '\0';
    store->drawn = 0;
    fake_forget(store);
    return HOWDAH_OK;
}

void fake_forget(fake_store *store)
{
    fake *f = store->client->server;

    store->session = ++f->sessions_n;
    f->sessions[store->session % FAKE_SESSIONS] =
        (fake_session){.alive = true, .ends_us = INT64_MAX};
}

void fake_meet(fake_store *store, int64_t drawn)
{
    const char *log = fake_log(store->client->server);

    if (store->log[0] && (strcmp(log, store->log) != 0 || drawn < store->drawn))
        fake_forget(store);
    (void)snprintf(store->log, sizeof store->log, "%s", log);
    store->drawn = drawn;
}

void fake_cut(fake_store *store, int64_t linger_us)
{
    fake *f = store->client->server;

    if (store->session > 0)
        f->sessions[store->session % FAKE_SESSIONS].ends_us = f->world->now_us + linger_us;
    store->session = 0;
    store->in_transaction = false;
}

static int fail_cut(howdah_error *reterr)
{
    return hw_fail(reterr, HOWDAH_UNAVAILABLE, "the connection is lost");
}

/* A few sessions of lost clients live on for seconds, most end at once. */
static int64_t linger(fake *f)
{
    return dice_roll(&f->world->dice, 4) == 0 ? dice_between(&f->world->dice, 0, 8000000) : 0;
}

int fake_enter(fake_store *store, fake_op op, howdah_error *reterr)
{
    fake_client *client = store->client;
    fake *f = client->server;
    fake_verdict verdict = FAKE_GO;

    if (!client->dead && f->hooks.before)
        verdict = f->hooks.before(f->hooks.ctx, store, op);
    if (client->dead && verdict == FAKE_GO) {
        fake_cut(store, linger(f));
        return fail_cut(reterr);
    }
    store->cut_after = verdict == FAKE_FAIL_AFTER;
    store->late = verdict == FAKE_LATE;
    if (store->session > 0 && !fake_session_alive(f, store->session)) {
        bool lost_transaction = store->in_transaction;

        fake_cut(store, 0);
        /* Half of the stores mend what only reads, behind the caller's back. */
        if (op != FAKE_READ || lost_transaction || dice_roll(&f->world->dice, 2) == 0)
            return fail_cut(reterr);
    }
    if (verdict == FAKE_FAIL_BEFORE) {
        fake_cut(store, linger(f));
        return fail_cut(reterr);
    }
    if (store->session == 0 && connect(store, reterr) < 0)
        return HOWDAH_UNAVAILABLE;
    if (verdict == FAKE_REFUSE) {
        store->in_transaction = false;
        return hw_fail(reterr, HOWDAH_TIMEOUT, "the statement took too long");
    }
    return HOWDAH_OK;
}

int fake_leave(fake_store *store, fake_op op, int s, howdah_error *reterr)
{
    if (!store->cut_after)
        return s;
    store->cut_after = false;
    fake_cut(store, linger(store->client->server));
    (void)fail_cut(reterr);
    if (reterr && (op == FAKE_WRITE || op == FAKE_COMMIT))
        reterr->flags |= HOWDAH_OUTCOME_UNKNOWN;
    return HOWDAH_UNAVAILABLE;
}

static void close_store(hw_store *base)
{
    fake_store *store = (fake_store *)base;

    fake_cut(store, store->client->dead ? linger(store->client->server) : 0);
    hw_free(store);
}

/* -------------------------------------------------------------------------- events */

void fake_event(const world *w, int64_t sequence, howdah_event *ret_event)
{
    const world_number *number = &w->numbers[sequence];

    hw_event_init(ret_event);
    ret_event->global_sequence = sequence;
    ret_event->version = number->version;
    ret_event->recorded_at_us = sequence;
    memcpy(ret_event->id.b, &sequence, sizeof sequence);
    memcpy(ret_event->id.b + sizeof sequence, &w->numbers[sequence].life, sizeof(uint32_t));
    ret_event->stream = hw_str_of(world_stream_names[number->stream]);
    ret_event->type = hw_str_of(world_type_names[number->type]);
    ret_event->data = HW_STR_LIT("{}");
}

uint32_t fake_life(const howdah_event *event)
{
    uint32_t life;

    memcpy(&life, event->id.b + sizeof(int64_t), sizeof life);
    return life;
}

bool fake_stands_on(const world *w, const hw_anchor *anchor)
{
    howdah_event event;

    if (anchor->sequence == 0)
        return true;
    if (!world_is_visible(w, anchor->sequence))
        return false;
    fake_event(w, anchor->sequence, &event);
    return hw_uuid_equal(&event.id, &anchor->id);
}

/* --------------------------------------------------------------------------- reads */

typedef struct fake_cursor {
    hw_cursor base;
    hw_query query;
    int64_t next;         /* the number to go on with */
    int64_t left;         /* rows that may still come; INT64_MAX: all */
    howdah_event *events; /* of the page */
    size_t room;
    size_t n;  /* ranges: all rows */
    size_t at; /* ranges: those before have been handed out */
    bool read; /* ranges: they have been read */
    hw_range ranges[];
} fake_cursor;

static int read_open(hw_store *base, const hw_query *query, hw_cursor **ret_cursor,
                     howdah_error *reterr)
{
    fake_store *store = (fake_store *)base;
    fake_cursor *cursor;
    int s = fake_enter(store, FAKE_READ, reterr);

    if (s >= 0)
        s = fake_leave(store, FAKE_READ, s, reterr);
    if (s < 0)
        return s;
    cursor = hw_calloc(1, sizeof *cursor + query->ranges_n * sizeof *query->ranges);
    if (!cursor)
        return hw_fail_no_memory(reterr);
    cursor->base.store = base;
    cursor->query = *query;
    if (query->ranges_n > 0)
        memcpy(cursor->ranges, query->ranges, query->ranges_n * sizeof *query->ranges);
    for (size_t i = 1; i < query->ranges_n; i++)
        assert(query->ranges[i - 1].last < query->ranges[i].first);
    cursor->next = query->backward ? (query->to ? query->to : WORLD_NUMBERS - 1) : query->from;
    cursor->left = query->limit ? query->limit : INT64_MAX;
    *ret_cursor = &cursor->base;
    return HOWDAH_OK;
}

static bool is_wanted(const fake_cursor *cursor, const world *w, int64_t n)
{
    const hw_query *q = &cursor->query;
    hw_str type;

    if (w->numbers[n].state != NUMBER_VISIBLE)
        return false;
    if (!q->type.s && !q->pattern.s)
        return true;
    type = hw_str_of(world_type_names[w->numbers[n].type]);
    return (!q->type.s || hw_str_equal(q->type, type)) &&
           (!q->pattern.s || hw_pattern_matches(q->pattern, type));
}

static bool is_bare(const fake_cursor *cursor, const howdah_event *event)
{
    const hw_query *q = &cursor->query;

    for (size_t i = 0; i < q->payload_of_n; i++) {
        if (hw_pattern_matches(q->payload_of[i], event->type))
            return false;
    }
    return q->payload_of_n > 0;
}

static bool add_row(fake_cursor *cursor, const world *w, int64_t n)
{
    howdah_event *event;

    if (cursor->n == cursor->room) {
        size_t room = cursor->room ? cursor->room * 2 : 16;
        howdah_event *events = hw_realloc(cursor->events, room * sizeof *events);

        if (!events)
            return false;
        cursor->events = events;
        cursor->room = room;
    }
    event = &cursor->events[cursor->n++];
    fake_event(w, n, event);
    if (is_bare(cursor, event)) {
        event->no_payload = true;
        event->data = HW_STR_NULL;
    }
    cursor->left--;
    return true;
}

static int64_t end_of(const world *w, int64_t last)
{
    return last == 0 || last > w->visible_high ? w->visible_high : last;
}

/* All rows of the ranges in one snapshot. */
static bool read_ranges(fake_cursor *cursor, world *w)
{
    for (size_t i = 0; i < cursor->query.ranges_n; i++) {
        /* Planted: what is above is looked at later than the holes are. */
        if (w->bug == WORLD_BUG_TWO_SNAPSHOTS && i > 0 && i + 1 == cursor->query.ranges_n) {
            for (int step = 0; step < 8; step++) {
                w->now_us += 1000;
                (void)writers_step(w);
            }
        }
        for (int64_t n = cursor->ranges[i].first; n <= end_of(w, cursor->ranges[i].last); n++) {
            if (cursor->left == 0)
                return true;
            if (is_wanted(cursor, w, n) && !add_row(cursor, w, n))
                return false;
        }
    }
    return true;
}

static bool read_forward(fake_cursor *cursor, const world *w)
{
    int64_t end = end_of(w, cursor->query.to);

    cursor->n = 0;
    for (; cursor->next <= end; cursor->next++) {
        if (cursor->left == 0 || cursor->n == cursor->query.batch)
            return true;
        if (cursor->next > 0 && is_wanted(cursor, w, cursor->next) &&
            !add_row(cursor, w, cursor->next))
            return false;
    }
    return true;
}

static bool read_backward(fake_cursor *cursor, const world *w)
{
    cursor->n = 0;
    for (; cursor->next >= cursor->query.from && cursor->next > 0; cursor->next--) {
        if (cursor->left == 0 || cursor->n == cursor->query.batch)
            return true;
        if (is_wanted(cursor, w, cursor->next) && !add_row(cursor, w, cursor->next))
            return false;
    }
    return true;
}

/* Planted; the rows are in the order of their numbers. */
static void sort_by_xid(const world *w, howdah_event *events, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        howdah_event event = events[i];
        uint64_t xid = w->numbers[event.global_sequence].xid;
        size_t at = i;

        for (; at > 0 && w->numbers[events[at - 1].global_sequence].xid > xid; at--)
            events[at] = events[at - 1];
        events[at] = event;
    }
}

static int next_of_ranges(fake_cursor *cursor, const howdah_event **ret_events, size_t *ret_n)
{
    size_t n = cursor->n - cursor->at;

    if (n == 0)
        return HOWDAH_END;
    if (n > cursor->query.batch)
        n = cursor->query.batch;
    *ret_events = cursor->events + cursor->at;
    *ret_n = n;
    cursor->at += n;
    return HOWDAH_OK;
}

static int read_next(hw_cursor *base, const howdah_event **ret_events, size_t *ret_n,
                     howdah_error *reterr)
{
    fake_cursor *cursor = (fake_cursor *)base;
    fake_store *store = (fake_store *)base->store;
    world *w = store->client->server->world;
    bool ranges = cursor->query.ranges_n > 0;
    bool ok = true;
    int s = HOWDAH_OK;

    assert(!cursor->query.stream.s && cursor->query.ids_n == 0);
    if (ranges && cursor->read)
        return next_of_ranges(cursor, ret_events, ret_n);
    s = fake_enter(store, FAKE_READ, reterr);
    if (s < 0)
        return s;
    if (ranges)
        ok = read_ranges(cursor, w);
    else
        ok = cursor->query.backward ? read_backward(cursor, w) : read_forward(cursor, w);
    cursor->read = true;
    if (!ok)
        return hw_fail_no_memory(reterr);
    if (w->bug == WORLD_BUG_ORDER_BY_XID)
        sort_by_xid(w, cursor->events, cursor->n);
    world_note(w, 20, cursor->n);
    s = fake_leave(store, FAKE_READ, HOWDAH_OK, reterr);
    if (s < 0)
        return s;
    if (ranges)
        return next_of_ranges(cursor, ret_events, ret_n);
    *ret_events = cursor->events;
    *ret_n = cursor->n;
    return cursor->n > 0 ? HOWDAH_OK : HOWDAH_END;
}

static void read_close(hw_cursor *base)
{
    fake_cursor *cursor = (fake_cursor *)base;

    if (!cursor)
        return;
    hw_free(cursor->events);
    hw_free(cursor);
}

/* ------------------------------------------------------------------------ the rest */

static int append(hw_store *base, const hw_batch *batch, const hw_import_place *place,
                  howdah_position *ret_positions, hw_append_report *report, howdah_error *reterr)
{
    (void)base, (void)batch, (void)place, (void)ret_positions, (void)report;
    return hw_fail(reterr, HOWDAH_READ_ONLY, "the writers of this world are its own");
}

static int head(hw_store *base, int64_t *ret_head, howdah_error *reterr)
{
    fake_store *store = (fake_store *)base;
    int s = fake_enter(store, FAKE_READ, reterr);

    if (s < 0)
        return s;
    *ret_head = store->client->server->world->visible_high;
    return fake_leave(store, FAKE_READ, HOWDAH_OK, reterr);
}

static const hw_store_ops ops = {
    .name = "simulated",
    .close = close_store,
    .append = append,
    .read_open = read_open,
    .read_next = read_next,
    .read_close = read_close,
    .head = head,
    .subs = &fake_sub_ops,
};

hw_store *fake_open(fake_client *client)
{
    fake_store *store = hw_calloc(1, sizeof *store);

    if (!store)
        return NULL;
    store->base.ops = &ops;
    store->client = client;
    return &store->base;
}
