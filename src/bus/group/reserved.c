/*
 * reserved.c - a group that this process has for itself: its members handle ranges of the log.
 *
 * Between processes a group's events are dealt by lane, which costs more than reading them.  As
 * long as one process is alone, and its handlers are quicker than the store, it reserves the group:
 * it takes ranges, its threads read pages of them, and streams are kept in order here.
 *
 *   I1  Who may handle what is the board's decision (engine/range_board.h), under the lock.
 *   I2  One thread at a time asks for the next range, and pages are announced in their order.  To
 *       the board a page is a range.
 *   I3  A thread has one lane of one page at a time.  How many events of a lane are done is written
 *       by that thread only, after each event.
 *   I4  The reservation ends when others want to take part, when an event fails, when there is
 *       nothing left, or when this process has to stop.  Nothing is begun from then on.  Events
 *       that have failed, or still run after a moment, become batches of their own: their threads
 *       say what became of them, as of any batch.
 *   I5  What is done is stored, also after an interrupt, or when the store was away.
 *   I6  Memory: at most PAGES pages, each of at most a batch of the store.
 *   I7  Nothing is begun when the lease may be over, counted from before it was asked for.
 *   I8  What is done is numbers of the log that was read.  Its server may be replaced by one that
 *       knows less, and gives the same numbers to other events.  So with each range the token
 *       changes, and a server that does not know the last one is told nothing.
 *   I9  At the head of a log that grows fast the reservation goes on: by lane, each batch would
 *       have a few events, and cost those who append more than the handlers are worth.  Between
 *       two short ranges there is a rest, some times as long as it took to get the last one.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log_hook.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/text.h"
#include "bus/group/group.h"
#include "bus/subscription/subscription.h"
#include "engine/range_board.h"

#define PAGES 10 /* more threads that read at once make a server slower */
#define NUMBERS 1000
#define NUMBERS_MAX 4000 /* where few events match */
#define PAGES_A_RANGE 4  /* asking for a range costs as much as reading a third of a page */
/* Handlers that take longer are the limit by themselves: lots are as good. */
#define QUICK_US 20
#define FULL_BATCHES 2
/* I9: events a second, counted over so long */
#define BUSY_RATE 4000
#define CALM_RATE 2000
#define RATE_MS 100
#define REST_SHARE 8
#define REST_MS_MIN 2
#define REST_MS_MAX 25
#define AGAIN_MS 1000
#define LARGE_AGAIN_MS 60000 /* after a page that did not fit into a batch */
#define PATIENCE_MS 100      /* I4 */
#define PAUSE_MS 2
#define HEAR_MS 100
#define LOOK_MS 5   /* whoever has nothing to do looks again: an event may take long */
#define SLOW_US 200 /* for a lane's part of a page */

typedef struct page {
    hw_group_batch batch;               /* its events */
    int64_t lot;                        /* it is the last of this range; 0: it is not the last */
    int64_t last;                       /* its last number */
    uint32_t *order;                    /* the events by lane */
    uint8_t *lane;                      /* of each event */
    size_t room;                        /* of both */
    uint32_t start[HW_BOARD_LANES + 1]; /* of each lane in order */
    atomic_uint done[HW_BOARD_LANES];   /* I3 */
} page;

struct hw_reserved {
    hw_shared *shared;
    pthread_mutex_t lock;
    pthread_cond_t more; /* something has changed */
    size_t waiting;      /* threads that wait for that */
    bool slow;           /* handlers take so long that the events of a page are better shared */
    int64_t token;       /* of the reservation (I8); 0: none */
    int64_t fresh;       /* of a range that was asked for, and the answer has not come; 0: none */
    int64_t asked_ms;    /* the last time that it was extended, or tried */
    atomic_llong leased_ms; /* before the last time that it was extended */
    int64_t not_before_ms;  /* of the next one */
    int64_t counted_ms;     /* since when events are counted (I9), */
    int64_t counted;        /* how many there were, */
    int64_t rate;           /* and so many a second, the last time */
    int64_t trip_us;        /* the last range and its pages took so long, */
    bool was_short;         /* and it had all there was */
    unsigned full;          /* batches in a row */
    hw_board board;
    page pages[HW_BOARD_RANGES];
    int64_t pages_n;      /* announced so far */
    hw_group_range range; /* what is left of the last one: its parts_n is 0 when nothing is */
    hw_slot *slots[HW_BOARD_LANES]; /* who has the lane */
    int64_t numbers;                /* of a page */
    int64_t acked;                  /* all ranges up to this lot are handled, */
    int64_t upto;                   /* and of the next one the numbers up to this one */
    bool taking;                    /* I2 */
    size_t reading;
    bool after_lots;    /* lots of before the reservation are left */
    bool at_head;       /* it ends because nothing is left, */
    bool was_large;     /* or because of events that are too large */
    atomic_bool ending; /* I4; read without the lock as well */
    atomic_uint ended;  /* reservations so far */
    size_t parked;      /* threads that wait for the end with an event in hand */
    bool has_ender;     /* a thread is about to store the end, */
    bool storing;       /* and has written down who is busy */
};

/* ------------------------------------------------------------------- life */

int hw_reserved_new(hw_shared *shared, howdah_error *reterr)
{
    pthread_condattr_t monotonic;
    hw_reserved *v = hw_calloc(1, sizeof *v);

    if (!v)
        return hw_fail_no_memory(reterr);
    v->shared = shared;
    v->numbers = NUMBERS;
    (void)pthread_mutex_init(&v->lock, NULL);
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&v->more, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    shared->reserved = v;
    return HOWDAH_OK;
}

static void drop_page(page *r)
{
    if (r->batch.done)
        r->batch.done(&r->batch);
}

/* Nobody has an event of them any more. */
static void drop_all(hw_reserved *v)
{
    for (size_t i = 0; i < HW_BOARD_RANGES; i++)
        drop_page(&v->pages[i]);
    v->board = (hw_board){.n = 0};
    v->range.parts_n = 0;
    v->acked = 0;
    v->upto = 0;
}

void hw_reserved_free(hw_reserved *v)
{
    if (!v)
        return;
    assert(v->board.busy == 0);
    drop_all(v);
    for (size_t i = 0; i < HW_BOARD_RANGES; i++) {
        hw_free(v->pages[i].order);
        hw_free(v->pages[i].lane);
    }
    (void)pthread_cond_destroy(&v->more);
    (void)pthread_mutex_destroy(&v->lock);
    hw_free(v);
}

static void lock(hw_reserved *v)
{
    (void)pthread_mutex_lock(&v->lock);
}

static void unlock(hw_reserved *v)
{
    (void)pthread_mutex_unlock(&v->lock);
}

static void wait_ms(hw_reserved *v, int64_t ms)
{
    struct timespec until;

    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += ms * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    v->waiting++;
    (void)pthread_cond_timedwait(&v->more, &v->lock, &until);
    v->waiting--;
}

/* Waking a thread costs as much as some ten events: no more of them than have something to do. */
static void wake_one(hw_reserved *v)
{
    if (v->waiting > 0)
        (void)pthread_cond_signal(&v->more);
}

static void wake_all(hw_reserved *v)
{
    if (v->waiting > 0)
        (void)pthread_cond_broadcast(&v->more);
}

static hw_reservation reservation_of(const hw_reserved *v)
{
    const howdah_subscription *sub = v->shared->sub;

    return (hw_reservation){hw_str_of(sub->id), v->token, v->fresh, v->shared->process,
                            sub->options.lease_ms};
}

int64_t hw_reserved_token(hw_reserved *v)
{
    int64_t token;

    if (!v)
        return 0;
    lock(v);
    token = v->token;
    unlock(v);
    return token;
}

/* ---------------------------------------------------------------- reserving */

/* I4. */
static void begin_end(hw_reserved *v)
{
    atomic_store(&v->ending, true);
    (void)pthread_cond_broadcast(&v->more);
}

/* At random, so that nobody else has it, and it is known before the store has answered. */
static int64_t new_token(void)
{
    return (int64_t)(hw_random_u32() >> 8) << 24 | (hw_random_u32() >> 8) | 1;
}

/* I9.  After a pause in which nothing was counted the rate is low. */
static void count(hw_reserved *v, size_t n)
{
    int64_t ms = hw_clock_mono_ms() - v->counted_ms;

    v->counted += (int64_t)n;
    if (ms < RATE_MS && v->counted < BUSY_RATE * RATE_MS / 1000)
        return;
    v->rate = v->counted * 1000 / (ms > 0 ? ms : 1);
    v->counted = 0;
    v->counted_ms += ms;
}

void hw_reserved_consider(hw_reserved *v, hw_store *io, size_t n, int64_t event_us)
{
    const hw_reserve_ops *ops = io->ops->groups->reservations;
    const howdah_subscription *sub = v->shared->sub;
    const hw_group_take as = {.subscriber_id = hw_str_of(sub->id),
                              .member = hw_str_of(v->shared->member),
                              .lease_ms = sub->options.lease_ms,
                              .process = v->shared->process};
    int64_t now = hw_clock_mono_ms();
    int64_t token = new_token();
    bool full = (int64_t)n * 2 >= sub->options.catch_up_batch;
    bool quick = event_us < QUICK_US;
    bool wanted;
    int s;

    lock(v);
    count(v, n);
    if (full && quick)
        v->full++;
    else if (v->full > 0)
        v->full--; /* the end of a lot, perhaps */
    wanted = (v->full >= FULL_BATCHES || (quick && v->rate >= BUSY_RATE)) && v->token == 0 &&
             v->board.busy == 0 && !v->taking && now >= v->not_before_ms;
    v->taking = v->taking || wanted;
    unlock(v);
    if (!wanted)
        return;
    s = ops->reserve(io, &as, token, NULL);
    lock(v);
    v->taking = false;
    v->not_before_ms = now + AGAIN_MS;
    v->full = 0;
    if (s != HOWDAH_END) {
        drop_all(v);
        v->token = token;
        v->asked_ms = now;
        atomic_store(&v->leased_ms, now);
        v->fresh = 0;
        v->after_lots = true;
    }
    if (s < 0)
        begin_end(v); /* who knows: if it is not ours, the end will be told */
    unlock(v);
}

/* The store has given it to others, or to nobody. */
static void forget(hw_reserved *v)
{
    v->token = 0;
    v->not_before_ms = hw_clock_mono_ms() + (v->at_head     ? 0
                                             : v->was_large ? LARGE_AGAIN_MS
                                                            : AGAIN_MS);
    v->at_head = v->was_large = false;
    atomic_fetch_add(&v->ended, 1); /* before: some thread may have overslept the end */
    atomic_store(&v->ending, false);
    if (v->board.busy == 0)
        drop_all(v);
    (void)pthread_cond_broadcast(&v->more);
}

/* ------------------------------------------------------------------- reading */

static int make_room(page *r, howdah_error *reterr)
{
    size_t n = r->batch.n;

    if (n <= r->room)
        return HOWDAH_OK;
    hw_free(r->order);
    hw_free(r->lane);
    r->room = 0;
    r->order = hw_calloc(n, sizeof *r->order);
    r->lane = hw_calloc(n, sizeof *r->lane);
    if (!r->order || !r->lane)
        return hw_fail_no_memory(reterr);
    r->room = n;
    return HOWDAH_OK;
}

static int sort_by_lane(page *r, howdah_error *reterr)
{
    uint32_t next[HW_BOARD_LANES];
    int s = make_room(r, reterr);

    if (s < 0)
        return s;
    memset(r->start, 0, sizeof r->start);
    for (size_t i = 0; i < r->batch.n; i++) {
        r->lane[i] = (uint8_t)hw_group_lane(r->batch.events[i].stream, HW_BOARD_LANES);
        r->start[r->lane[i] + 1]++;
    }
    for (size_t lane = 0; lane < HW_BOARD_LANES; lane++) {
        r->start[lane + 1] += r->start[lane];
        next[lane] = r->start[lane];
        atomic_store_explicit(&r->done[lane], 0, memory_order_relaxed);
    }
    for (size_t i = 0; i < r->batch.n; i++)
        r->order[next[r->lane[i]]++] = (uint32_t)i;
    return HOWDAH_OK;
}

static uint64_t lanes_of(const page *r)
{
    uint64_t lanes = 0;

    for (size_t lane = 0; lane < HW_BOARD_LANES; lane++)
        if (r->start[lane + 1] > r->start[lane])
            lanes |= UINT64_C(1) << lane;
    return lanes;
}

static hw_filter filter_of(const hw_reserved *v)
{
    const howdah_subscribe_options *o = &v->shared->sub->options;

    return (hw_filter){hw_str_of(o->pattern), hw_str_of(o->stream), o->originals_only};
}

/* HOWDAH_END: it does not fit into a batch (I6). */
static int read_page(const hw_reserved *v, hw_store *io, const hw_group_range *part, page *r,
                     howdah_error *reterr)
{
    const hw_reservation of = {hw_str_of(v->shared->sub->id), part->token, 0, 0, 0};
    hw_filter filter = filter_of(v);
    int s = io->ops->groups->reservations->read(io, &of, part, &filter, &r->batch, reterr);

    return s == HOWDAH_OK ? sort_by_lane(r, reterr) : s;
}

static void adapt(hw_reserved *v, size_t n)
{
    if ((int64_t)n * 4 < v->numbers && v->numbers < NUMBERS_MAX)
        v->numbers *= 2;
    else if (n > NUMBERS && v->numbers > NUMBERS)
        v->numbers /= 2;
}

/* The pages that are through, in their order. */
static void pop(hw_reserved *v)
{
    size_t at;

    while (hw_board_pop(&v->board, &at)) {
        if (v->pages[at].lot > 0)
            v->acked = v->pages[at].lot;
        v->upto = v->pages[at].lot > 0 ? 0 : v->pages[at].last;
        drop_page(&v->pages[at]);
        wake_one(v); /* another one can be read */
    }
}

/* The next numbers of the range; one that has gaps is a page by itself. */
static hw_group_range cut_page(hw_reserved *v)
{
    hw_group_range part = v->range;
    hw_range *left = &v->range.parts[0];

    if (v->range.parts_n > 1 || left->last - left->first < v->numbers) {
        v->range.parts_n = 0;
        return part;
    }
    part.parts[0].last = left->first + v->numbers - 1;
    left->first += v->numbers;
    return part;
}

/* The next page.  The lock is held, but not while it is read. */
static int read_next(hw_reserved *v, hw_store *io, howdah_error *reterr)
{
    const hw_group_range part = cut_page(v);
    size_t at = hw_board_announce(&v->board, ++v->pages_n);
    int64_t start_us = hw_clock_mono_us();
    page *r = &v->pages[at];
    int s;

    r->lot = v->range.parts_n == 0 ? v->range.lot : 0;
    r->last = part.parts[part.parts_n - 1].last;
    v->reading++;
    unlock(v);
    s = read_page(v, io, &part, r, reterr);
    lock(v);
    v->reading--;
    v->trip_us += hw_clock_mono_us() - start_us;
    if (s == HOWDAH_OK) {
        count(v, r->batch.n);
        adapt(v, r->batch.n);
        hw_board_read(&v->board, at, lanes_of(r));
        pop(v); /* it may be empty */
        if (v->slow)
            wake_all(v);
    } else {
        v->was_large = s == HOWDAH_END;
        begin_end(v); /* it stays unread, and is given back */
    }
    return s < 0 && s != HOWDAH_LOST ? s : HOWDAH_OK;
}

static int64_t numbers_of(const hw_group_range *range)
{
    int64_t n = 0;

    for (size_t i = 0; i < range->parts_n; i++)
        n += range->parts[i].last - range->parts[i].first + 1;
    return n;
}

/* I9.  The lock is held, but not while it sleeps; v->taking is set. */
static void rest(hw_reserved *v)
{
    int64_t now = hw_clock_mono_ms();
    int64_t ms = v->trip_us * REST_SHARE / 1000;
    int64_t until = now + (ms < REST_MS_MIN ? REST_MS_MIN : ms > REST_MS_MAX ? REST_MS_MAX : ms);

    for (; now < until && !atomic_load(&v->ending); now = hw_clock_mono_ms())
        wait_ms(v, until - now);
}

/* The next range.  The lock is held, but not while the store is asked (I2). */
static int take(hw_reserved *v, hw_store *io, howdah_error *reterr)
{
    hw_reservation reservation;
    hw_group_range taken = {.parts_n = 0};
    int64_t numbers = v->numbers * PAGES_A_RANGE;
    int64_t now;
    int64_t start_us;
    int64_t acked;
    int s;

    assert(v->range.parts_n == 0);

    v->taking = true;
    if (v->was_short)
        rest(v);
    if (atomic_load(&v->ending)) {
        v->taking = false;
        return HOWDAH_OK;
    }
    now = hw_clock_mono_ms();
    start_us = hw_clock_mono_us();
    acked = v->acked;
    v->fresh = new_token();
    reservation = reservation_of(v);
    unlock(v);
    s = io->ops->groups->reservations->take(io, &reservation, acked, numbers, &taken, reterr);
    lock(v);
    v->taking = false;
    v->trip_us = hw_clock_mono_us() - start_us;
    if (s < 0) { /* when it is lost, the end will be told so */
        begin_end(v);
        return s == HOWDAH_LOST ? HOWDAH_OK : s;
    }
    if (taken.lot != 0)
        v->token = v->fresh;
    v->fresh = 0;
    v->asked_ms = now;
    atomic_store(&v->leased_ms, now);
    v->after_lots = taken.state == HW_RANGE_WAIT;
    v->at_head = taken.state == HW_RANGE_NONE && v->board.n == 0;
    v->was_short = v->at_head || (taken.state == HW_RANGE_TAKEN && numbers_of(&taken) < numbers);
    count(v, 0);
    if (taken.state == HW_RANGE_TAKEN) {
        v->range = taken;
        wake_all(v);
    } else if (taken.state == HW_RANGE_OVER || (v->at_head && v->rate < CALM_RATE)) {
        begin_end(v);
    } else if (!v->at_head) {
        wait_ms(v, PAUSE_MS);
    }
    return HOWDAH_OK;
}

/* ------------------------------------------------------------------ handling */

/* In its newest form; the message says why not. */
static int handle(hw_slot *slot, const howdah_event *event, howdah_delivery *delivery)
{
    const howdah_subscription *sub = slot->shared->sub;
    const howdah_event *seen = event;
    howdah_error err = HOWDAH_ERROR_INIT;
    int s = HOWDAH_OK;

    if (event->broken)
        (void)hw_fail(&err, s = HOWDAH_INVALID, "the stored event cannot be decoded");
    else
        s = hw_upcast(sub->bus->upcasts, event, &slot->upcast, &seen, &err);
    if (s < 0) {
        hw_utf8_copy(delivery->message, sizeof delivery->message, err.message);
        return s == HOWDAH_INVALID ? HOWDAH_NOT_HANDLED : HOWDAH_PUT_BACK;
    }
    delivery->sub = slot->shared->sub;
    delivery->attempt = 1;
    delivery->redrive = false;
    delivery->tx = NULL;
    s = hw_slot_call(slot, seen, delivery);
    return s == HOWDAH_HANDLED || s == HOWDAH_HALT || s == HOWDAH_PUT_BACK ? s : HOWDAH_NOT_HANDLED;
}

/* What a thread has in hand. */
typedef struct part {
    hw_board_part at;
    unsigned ended;            /* before this reservation */
    const howdah_event *event; /* the last one that was begun */
    int result;
    howdah_delivery delivery;
} part;

/* Whether another event may be begun: not after the end, nor when the lease may be over (I7). */
static bool may_begin(const hw_reserved *v, const part *p)
{
    return !atomic_load(&v->ending) && atomic_load(&v->ended) == p->ended &&
           hw_clock_mono_ms() - atomic_load(&v->leased_ms) < v->shared->sub->options.lease_ms;
}

/* Without the lock.  Until the lane has no more, one has failed, or nothing may be begun (I4). */
static void run_part(hw_reserved *v, hw_slot *slot, part *p)
{
    const hw_filter filter = filter_of(v);
    bool filtered = !hw_filter_equal(&filter, &HW_FILTER_ALL);
    page *r = &v->pages[p->at.range];
    uint32_t at = r->start[p->at.lane] + atomic_load(&r->done[p->at.lane]);

    p->result = HOWDAH_HANDLED;
    for (; at < r->start[p->at.lane + 1] && may_begin(v, p); at++) {
        p->event = &r->batch.events[r->order[at]];
        if (!filtered || hw_filter_lets(&filter, p->event))
            p->result = handle(slot, p->event, &p->delivery);
        if (p->result != HOWDAH_HANDLED)
            return;
        atomic_fetch_add_explicit(&r->done[p->at.lane], 1, memory_order_release);
    }
}

/* ------------------------------------------------------------------- the end */

/* What is written down for the store (I4). */
typedef struct account {
    hw_group_end end;
    int64_t *done;
    int64_t busy[HW_BOARD_LANES];
    hw_slot *slots[HW_BOARD_LANES]; /* of those that are busy */
} account;

/* The event that a busy lane is at; 0: it has none left. */
static int64_t event_in_hand(const hw_reserved *v, unsigned lane)
{
    for (size_t i = 0; i < v->board.n; i++) {
        size_t at = (v->board.first + i) % HW_BOARD_RANGES;
        const page *r = &v->pages[at];
        uint32_t next = r->start[lane] + atomic_load(&r->done[lane]);

        if (v->board.ranges[at].read && (v->board.ranges[at].todo >> lane & 1))
            return next < r->start[lane + 1] ? r->batch.events[r->order[next]].global_sequence : 0;
    }
    return 0;
}

static void count_done(const hw_reserved *v, account *a)
{
    for (size_t i = 0; i < v->board.n; i++) {
        size_t at = (v->board.first + i) % HW_BOARD_RANGES;
        const page *r = &v->pages[at];

        for (unsigned lane = 0; v->board.ranges[at].read && lane < HW_BOARD_LANES; lane++)
            for (uint32_t k = 0; k < atomic_load(&r->done[lane]); k++)
                a->done[a->end.done_n++] =
                    r->batch.events[r->order[r->start[lane] + k]].global_sequence;
    }
}

static int write_down(hw_reserved *v, account *a, howdah_error *reterr)
{
    size_t events = 1;

    for (size_t i = 0; i < HW_BOARD_RANGES; i++)
        events += v->pages[i].batch.n;
    *a = (account){.done = hw_calloc(events, sizeof *a->done)};
    if (!a->done)
        return hw_fail_no_memory(reterr);
    for (unsigned lane = 0; lane < HW_BOARD_LANES; lane++) {
        int64_t sequence = v->board.busy >> lane & 1 ? event_in_hand(v, lane) : 0;

        if (sequence == 0)
            continue;
        a->slots[a->end.busy_n] = v->slots[lane];
        a->slots[a->end.busy_n]->declared = sequence;
        a->busy[a->end.busy_n++] = sequence;
    }
    count_done(v, a); /* after those that are busy: one that ends meanwhile may be in both lists */
    a->end.acked = v->acked;
    a->end.upto = v->upto;
    a->end.done = a->done;
    a->end.busy = a->busy;
    return HOWDAH_OK;
}

static void on_token(void *ctx, int64_t sequence, const char *token)
{
    const account *a = ctx;

    for (size_t i = 0; i < a->end.busy_n; i++)
        if (a->busy[i] == sequence)
            hw_slot_hold(a->slots[i], token, hw_clock_mono_ms());
}

/* I5: again and again while the store is away, as long as it is still ours. */
static int store_end(const hw_reserved *v, hw_slot *slot, hw_store *io, account *a,
                     howdah_error *reterr)
{
    const hw_reservation reservation = reservation_of(v);
    int64_t until = hw_clock_end_ms(reservation.lease_ms);
    int s;

    for (;;) {
        howdah_error err = HOWDAH_ERROR_INIT;

        HW_FAULT_POINT("group.before_end");
        s = io->ops->groups->reservations->end(io, &reservation, &a->end, on_token, a, &err);
        HW_FAULT_POINT("group.after_end");
        hw_error_copy(reterr, &err);
        if (s >= 0 || s == HOWDAH_LOST || !hw_service_passes(s, &err) || !slot ||
            hw_slot_is_to_end(slot) || hw_clock_mono_ms() > until)
            return s;
        (void)hw_sleep(slot->shared->sub->bus->interrupt, PATIENCE_MS, NULL);
    }
}

/* The lock is held, but not while the store is asked.  slot NULL: in the serving thread. */
static int end(hw_reserved *v, hw_slot *slot, hw_store *io, howdah_error *reterr)
{
    int64_t until = hw_clock_mono_ms() + PATIENCE_MS;
    howdah_error err = HOWDAH_ERROR_INIT;
    account a;
    int s;

    v->has_ender = true;
    while ((size_t)__builtin_popcountll(v->board.busy) > v->parked && hw_clock_mono_ms() < until)
        wait_ms(v, PAUSE_MS);
    while (v->taking || v->reading > 0)
        wait_ms(v, PAUSE_MS);
    s = write_down(v, &a, &err);
    if (s >= 0) {
        v->storing = true;
        unlock(v);
        s = store_end(v, slot, io, &a, &err);
        lock(v);
        v->storing = false;
        hw_free(a.done);
    }
    v->has_ender = false;
    if (s == HOWDAH_LOST)
        hw_log(HOWDAH_LOG_WARN, "%s", err.message);
    if (s >= 0 || s == HOWDAH_LOST)
        forget(v);
    (void)pthread_cond_broadcast(&v->more);
    if (s >= 0 || s == HOWDAH_LOST)
        return HOWDAH_OK;
    hw_error_copy(reterr, &err);
    return s;
}

/* Ends it, or waits until another thread has.  It may be that neither can be done now. */
static void see_to_end(hw_reserved *v, hw_slot *slot, hw_store *io)
{
    unsigned ended = atomic_load(&v->ended);

    while (v->token != 0 && atomic_load(&v->ended) == ended) {
        howdah_error err = HOWDAH_ERROR_INIT;
        int s;

        if (v->has_ender) {
            wait_ms(v, PATIENCE_MS);
            continue;
        }
        s = end(v, slot, io, &err);
        if (s >= 0)
            continue;
        slot->failed = s;
        hw_error_copy(&slot->error, &err);
        return;
    }
}

/* I4: the thread says what became of an event that is a batch of its own. */
static void end_batch_of_one(hw_slot *slot, hw_store *io, const part *p)
{
    const hw_batch_ref ref = {hw_str_of(slot->shared->sub->id), hw_str_of(slot->token), 0};
    const hw_group_ops *ops = io->ops->groups;
    bool begun = p->event && p->event->global_sequence == slot->declared;
    howdah_error err = HOWDAH_ERROR_INIT;
    hw_group_fate fate = HW_FATE_RETRY;
    bool failed = begun && p->result == HOWDAH_NOT_HANDLED;
    int64_t done = failed || (begun && p->result == HOWDAH_HANDLED) ? INT64_MAX : 0;
    int s = HOWDAH_OK;

    if (failed)
        s = ops->nack(io, &ref, slot->declared, hw_str_of(p->delivery.message), -1, &fate, &err);
    if (s >= 0) /* one that has failed is not in the batch any more */
        s = done > 0 ? ops->ack(io, &ref, done, &err) : ops->release(io, &ref, &err);
    else
        done = 0;
    if (s >= 0)
        hw_slot_tell(slot, p->event, fate, p->delivery.message, 1);
    else
        hw_slot_leave(slot, slot->token, done, s, &err);
    hw_slot_hold(slot, "", 0);
}

/* ----------------------------------------------------------------- a thread */

/* The part is over; the lock is held. */
static void finish(hw_reserved *v, hw_slot *slot, hw_store *io, const part *p)
{
    const page *r = &v->pages[p->at.range];
    uint32_t lane_n = r->start[p->at.lane + 1] - r->start[p->at.lane];

    if (p->result == HOWDAH_HALT) { /* before anybody else can have the event */
        unlock(v);
        hw_slot_halt(slot, io, p->delivery.message);
        lock(v);
    }
    if (v->token != 0 && (p->result != HOWDAH_HANDLED || !may_begin(v, p)))
        begin_end(v);
    if (p->result != HOWDAH_HANDLED || v->storing) {
        v->parked++;
        see_to_end(v, slot, io);
        v->parked--;
    }
    if (slot->token[0]) {
        unlock(v);
        end_batch_of_one(slot, io, p);
        lock(v);
    }
    slot->declared = 0;
    v->slots[p->at.lane] = NULL;
    hw_board_finish(&v->board, p->at, atomic_load(&r->done[p->at.lane]) == lane_n);
    if (v->token != 0)
        pop(v);
    else if (v->board.busy == 0)
        drop_all(v); /* this was the last that had an event */
}

static void run_claimed(hw_reserved *v, hw_slot *slot, hw_store *io, hw_board_part at)
{
    int64_t start_us = hw_clock_mono_us();
    part p; /* its message is long: not cleared for every part */

    p.at = at;
    p.ended = atomic_load(&v->ended);
    p.event = NULL;
    p.delivery.message[0] = '\0';
    v->slots[at.lane] = slot;
    unlock(v);
    if (!slot->found)
        hw_shared_spread(slot->shared);
    slot->found = true;
    run_part(v, slot, &p);
    lock(v);
    v->slow = hw_clock_mono_us() - start_us > SLOW_US;
    finish(v, slot, io, &p);
}

/*
 * Extends the reservation when so much time has passed, and hears whether it has to end; else
 * whoever comes would wait as long as an event may take.  The lock is held, but not while the store
 * is asked.
 */
static void hear(hw_reserved *v, hw_store *store, int64_t after_ms)
{
    const hw_reservation reservation = reservation_of(v);
    int64_t now = hw_clock_mono_ms();
    bool over = false;
    int s;

    if (v->token == 0 || v->has_ender || v->taking || now - v->asked_ms < after_ms)
        return;
    v->asked_ms = now; /* one thread asks */
    unlock(v);
    s = store->ops->groups->reservations->extend(store, &reservation, &over, NULL);
    lock(v);
    if (v->token != reservation.token || v->taking) /* the token may be another one by now (I8) */
        return;
    if (s >= 0)
        atomic_store(&v->leased_ms, now);
    if (over || s == HOWDAH_LOST)
        begin_end(v);
}

/* Nothing to handle: the next page or range, or a moment's rest.  False: the thread has to go. */
static bool fetch_or_rest(hw_reserved *v, hw_slot *slot, hw_store *io)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    int s;

    /* Not before it has done something itself: others may always have something to do. */
    if (slot->found && hw_runner_is_wanted(v->shared->sub->bus, v->shared))
        return false;
    if (v->board.n >= PAGES || (v->taking && v->range.parts_n == 0)) {
        wait_ms(v, LOOK_MS);
        hear(v, io, HEAR_MS);
        return true;
    }
    s = v->range.parts_n > 0 ? read_next(v, io, &err) : take(v, io, &err);
    if (s >= 0)
        return !v->after_lots;
    slot->failed = s;
    hw_error_copy(&slot->error, &err);
    return true; /* to end it */
}

void hw_reserved_run(hw_slot *slot, hw_store *io)
{
    hw_reserved *v = slot->shared->reserved;
    bool goes_on = true;

    lock(v);
    while (goes_on && v->token != 0) {
        hw_board_part at;

        if (hw_slot_is_to_end(slot) && !atomic_load(&v->ending))
            begin_end(v);
        if (atomic_load(&v->ending)) {
            see_to_end(v, slot, io);
            goes_on = false;
        } else if (hw_board_claim(&v->board, &at)) {
            run_claimed(v, slot, io, at);
            goes_on = slot->failed >= 0;
        } else {
            goes_on = fetch_or_rest(v, slot, io);
        }
    }
    unlock(v);
}

/* -------------------------------------------------------- the serving thread */

/* Where all threads have events in hand, nobody else hears whether others want to take part. */
void hw_reserved_extend(hw_reserved *v, hw_store *store)
{
    howdah_error err = HOWDAH_ERROR_INIT;

    lock(v);
    hear(v, store, HEAR_MS);
    if (v->token != 0 && atomic_load(&v->ending) && !v->has_ender && end(v, NULL, store, &err) < 0)
        hw_log(HOWDAH_LOG_WARN, "subscription %s: %s", v->shared->sub->id, err.message);
    unlock(v);
}

int hw_reserved_let_go(hw_reserved *v, hw_store *store, howdah_error *reterr)
{
    int s = HOWDAH_OK;

    lock(v);
    if (v->token != 0 && v->board.busy == 0)
        s = end(v, NULL, store, reterr);
    unlock(v);
    return s;
}
