/*
 * subscription.h - the inside of subscriptions: the reader, a subscription, delivery.
 *
 * The pure part (what is outstanding, what comes next) is engine/delivery.h; the log's edge is
 * engine/frontier.h.  Here they meet the store and the handlers.
 *
 *   I1  The reader is the only one that knows holes.  It covers every number above "low": each one
 *       up to the frontier's high is visible, dead, or in a hole.
 *   I2  A subscription reads up to a frontier that was known before its statement, and takes the
 *       holes of that moment as its own: what is neither a row nor a hole then is dead, or does
 *       not match.  So a filtered read needs no numbers of events that do not concern it.
 *   I3  Every read of a subscription covers what is missing to it and what is above its high in
 *       one snapshot; a stream's earlier version never comes after a later one.
 *   I4  Pages of the reader are kept for a while (the window).  A subscription at the head takes
 *       them in turn; one that comes too late for a page reads for itself.
 *   I5  The work in hand and the delivery state belong to one thread at a time: to a worker from
 *       the moment that it is handed out until it is collected, else to the thread that serves the
 *       bus.  The pool's lock lies in between (pool.h I2).  No lock is held while a handler runs.
 *   I6  A lost token, a new session, or an answer that never came throw the delivery state away:
 *       it is loaded again from the store.
 *   I7  What a subscription knows was learnt from one log, and everything that it stores says from
 *       which, and which event it stands on.  The store compares (store/subscriptions.h I7); a
 *       refusal is a lost token (I6).
 */
#ifndef HW_BUS_SUBSCRIPTION_SUBSCRIPTION_H
#define HW_BUS_SUBSCRIPTION_SUBSCRIPTION_H

#include <pthread.h>
#include <stdatomic.h>

#include "bus/bus.h"
#include "bus/log/upcast.h"
#include "bus/pool.h"
#include "engine/delivery.h"
#include "engine/frontier.h"
#include "engine/hole_holders.h"
#include "engine/pause.h"
#include "engine/still_holes.h"
#include "store/store.h"

#define HW_WINDOW_PAGES 16
/* Rows that are read again in one delivery. */
#define HW_AGAIN_ROWS 100
/* The first page of a read: what a row weighs is not known yet. */
#define HW_ROWS_FIRST 64

/* Rows of one read, kept until nobody needs them. */
typedef struct hw_page {
    int refs;       /* counted by the serving thread only */
    int64_t number; /* of the window; 0: a subscription's own */
    hw_cursor *cursor;
    bool keeps_cursor; /* the cursor goes on after this page: it is not closed with it */
    const howdah_event *events;
    size_t n;
    bool full; /* there may be more */
    /* What was known of the log when the page was read; see hw_delivery_pass(). */
    int64_t upto;
    hw_anchor anchor; /* the last event that was seen at or below upto; 0: none */
    hw_hole *holes;
    size_t holes_n;
    hw_still *still;        /* those that stand still, at that moment; NULL: none, */
    uint64_t still_version; /* and the version that was the newest one then */
    int64_t joins; /* a subscription that is through with it goes on with this page of the window;
                      0: it reads on for itself */
} hw_page;

typedef struct hw_log_reader {
    bool started;
    uint64_t starts;  /* how often it has begun anew */
    uint64_t session; /* what it knows was learnt in this one */
    int64_t low;
    hw_anchor top; /* the event at the frontier's high */
    hw_frontier frontier;
    /* holes.c: */
    hw_holders holders;
    uint64_t judged_by; /* of its looks, the last one that holes were judged by */
    bool standby;       /* who holds the sequence cannot be told here */
    int64_t look_ms;    /* the last look at the holders */
    hw_still *still;    /* holes that nobody looks for; NULL: none */
    uint64_t versions;  /* of still, given out so far; not one comes back, */
    uint64_t told;      /* and the one that the window knows */
    hw_late late;
    int64_t freed_from;     /* of the last hw_holes_confirm() */
    int64_t read_upto;      /* the rows of this round tell what is missing up to here */
    int64_t drawn_before;   /* how many were, by the look before the rows of this round */
    int64_t probe_ms;       /* standby: not before this time its holes are looked into again */
    int64_t cover_ms;       /* since when what is below low waits for transactions to end; 0: not */
    int64_t proven;         /* up to here somebody has proven all, as was read when it started, */
    hw_ranges proven_holes; /* but for these */
    int64_t prove_ms;       /* when to write down next what is proven here, */
    int64_t proven_upto;    /* and what was last, */
    uint64_t proven_still;  /* with this version of still */
    hw_page *window[HW_WINDOW_PAGES];
    int64_t pages; /* read so far: the number of the newest */
    bool more;     /* the last round was full, or has to be done again */
    size_t rows;   /* to ask for next: few when payloads are large */
} hw_log_reader;

/* A subscription's life.  Which moves there are is said by a table: see hw_sub_move(). */
typedef enum hw_sub_state {
    HW_STATE_OUT,         /* not the owner */
    HW_STATE_TAKEN,       /* the owner; its place is loaded, and nothing was read since */
    HW_STATE_CATCHING_UP, /* reads for itself */
    HW_STATE_LIVE,        /* takes the window's pages */
    HW_STATE_PAUSED,      /* by somebody, in the store */
    HW_STATE_HALTED,      /* the same, by somebody or by a failure */
    HW_STATE_ENDED        /* not the owner, and in this session there is no further try: its row is
                             gone or cannot be read, or another process runs it as well */
} hw_sub_state;

#define HW_STATES (HW_STATE_ENDED + 1)

/* What becomes of its events. */
typedef enum hw_sub_kind {
    HW_KIND_HANDLER,
    HW_KIND_ROUTER, /* they become jobs: see hw_route */
    HW_KIND_TAIL    /* howdah_tail_next() hands them out; it has no row */
} hw_sub_kind;

/* Where the jobs of a router go. */
typedef struct hw_route {
    char *queue;
    howdah_binding_key key;
    int64_t created_at_us; /* of the binding: another one of the same name is another router */
    bool bound;            /* while bindings are compared: it is still there */
} hw_route;

struct howdah_delivery {
    howdah_subscription *sub;
    int attempt;
    bool redrive;
    hw_store *tx; /* the handler's transaction, NULL: none */
    char message[501];
};

/* As whom it stores, and how long that holds.  Token and log stay as they are while a worker has
   the work: the serving thread asks for news with them. */
typedef struct hw_ownership {
    int64_t token;              /* of the last time that it was the owner; 0: it never was, or has
                                   given it up */
    char log[HW_TIMELINE_SIZE]; /* what it knows was learnt from this one (I7) */
    int64_t renewed_ms;         /* before the last renewal was sent */
    int64_t unreleased;         /* a token that an interrupt kept from being given up; 0: none */
} hw_ownership;

/* What is stored of it besides the delivery state. */
typedef struct hw_place {
    hw_anchor anchor;  /* the last event that was seen at or below d.high */
    hw_still *still;   /* what it owes besides, up to d.high; see holes.c */
    bool still_saved;  /* its row has the same: checkpoints need not bring it */
    size_t still_near; /* where in a page's set a number was looked for last */
    int64_t moves;     /* of its row: the place that it stores next follows that one */
} hw_place;

/* The event that may have ended the owner before (deliver.c I3). */
typedef struct hw_suspect {
    int64_t sequence; /* as it was loaded: begun so often by owners that died */
    int64_t attempts;
    int64_t named; /* the one that the row names now, which has to be cleared; 0: none */
} hw_suspect;

/* When to do what, in ms of the monotonic clock.  The serving thread's. */
typedef struct hw_schedule {
    int64_t take_ms;    /* when to try to become the owner next */
    int64_t poll_ms;    /* when the owner asks the store for news */
    int64_t rest_ms;    /* nothing could be read or accepted: it does not read before this time */
    int64_t trouble_ms; /* something could not be stored: no further work before this time */
    unsigned troubles;  /* in a row */
} hw_schedule;

/* How it reads the log.  The serving thread's. */
typedef struct hw_reading {
    uint64_t met_reader;  /* the start of the reader since which its place was looked at; 0: none */
    int64_t met_sequence; /* of its own stream, when it has one: an event of it that was read, */
    int64_t met_version;  /* and its version */
    int64_t next_page;    /* LIVE: the window's page to take next */
    hw_cursor *stream;    /* CATCHING_UP: pages in a row while there are no holes */
    int64_t stream_to;
    hw_anchor stream_top; /* the event there, if it is the last one of all */
    size_t rows;          /* to ask for next */
    bool sparse;          /* its last pages had few rows that match: the type's index finds them */
} hw_reading;

typedef enum hw_sub_work_kind {
    HW_WORK_NONE,
    HW_WORK_PAGE,        /* a page, its own or of the window */
    HW_WORK_ROWS_AGAIN,  /* a page of rows that were read again because they were due */
    HW_WORK_DEAD_LETTERS /* those that wait for another try; there is no page */
} hw_sub_work_kind;

/* How the work ended.  Each outweighs those before it: see hw_sub_work_end_as(). */
typedef enum hw_sub_work_end {
    HW_END_EARLY,   /* rows were left: an interrupt, or the store failed */
    HW_END_PASSED,  /* all was offered, and is accounted for */
    HW_END_WAITING, /* the engine accepts nothing further of this page */
    HW_END_HALT,    /* for sub->reason */
    HW_END_RELOAD   /* what is stored has to be loaded again (I6) */
} hw_sub_work_end;

/* The work in hand (I5). */
typedef struct hw_sub_work {
    bool handed_out; /* to a worker.  The serving thread's, whoever has the rest */
    hw_sub_work_kind kind;
    hw_page *page;
    size_t at;                    /* the row of the page that comes next */
    int64_t asked[HW_AGAIN_ROWS]; /* ROWS_AGAIN: these were asked for */
    size_t asked_n;
    hw_upcast_event upcast; /* the event in hand, as its handler sees it */
    int64_t delivered;      /* so many events, or tries of dead letters */
    hw_sub_work_end end;
    int failed; /* what ended it: a status < 0 that concerns the store, with error */
    howdah_error error;
    hw_sub_status told; /* what the store said in passing: if it is not ACTIVE, ask for more */
} hw_sub_work;

/* What the serving thread heard while a worker had the work, and has to heed later. */
typedef enum hw_heard {
    HW_HEARD_NOTHING,
    HW_HEARD_NEWS, /* to be asked for */
    HW_HEARD_LOST  /* the token or the session: load again (I6) */
} hw_heard;

/* A try of a dead letter whose end an interrupt kept from being stored. */
typedef struct hw_redrive_end {
    int64_t id; /* of the dead letter; 0: there is none */
    enum {
        HW_REDRIVE_HANDLED,
        HW_REDRIVE_FAILED,   /* with error */
        HW_REDRIVE_NOT_TRIED /* after all: it is asked for as before */
    } end;
    char error[501];
} hw_redrive_end;

struct howdah_subscription {
    howdah_bus *bus;
    howdah_subscription *next;
    hw_pool_item item; /* of the runner's pool */

    /* What it is: */
    hw_sub_kind kind;
    char *id;
    char *pattern;     /* NULL: all */
    char *stream_name; /* NULL: all */
    hw_filter filter;  /* these two, and whether corrections concern it */
    howdah_subscribe_options options;
    hw_route *route;          /* of a ROUTER */
    struct hw_shared *shared; /* SHARED: its members; such a one is in a list of its own */

    /* The serving thread's.  A handler may ask for the state at any time: it is atomic, and changed
       by hw_sub_move() alone. */
    _Atomic hw_sub_state state;
    hw_schedule schedule;
    hw_reading reading;
    hw_heard heard;
    int64_t alarmed_first; /* the hole that was reported last */

    /* Whoever has the work has these as well. */
    hw_sub_work work;
    hw_delivery d;
    hw_place place;
    hw_ownership ownership;
    hw_suspect suspect;
    bool redrives; /* dead letters wait for another try, as far as is known */
    hw_redrive_end unstored;
    char reason[256]; /* of a pause or a halt */
    int64_t head;     /* of the log, when a worker got the work: what its handler may know of it */
    int64_t delivered;
};

typedef struct hw_runner hw_runner;

/* All that a bus has because of its subscriptions. */
typedef struct hw_service {
    howdah_subscription *subs;
    howdah_subscription *shared; /* those with members instead of an owner: group/shared.c */
    hw_log_reader reader;
    hw_store *tx; /* the session for handlers' transactions; NULL: not needed yet */
    uint64_t session;
    char log[HW_TIMELINE_SIZE]; /* that session's */
    bool relisten;              /* what to listen to has changed */
    bool cannot_listen;         /* this session cannot hear the bell */
    bool in_vain;      /* the log was looked at since the bell was armed, and had nothing new */
    bool worked;       /* an event was delivered, or a page came: look again at once */
    hw_pause pause;    /* what arrives is the log's growth */
    unsigned failures; /* of the store, in a row */
    /* router.c: */
    bool routes;        /* bindings are served, */
    char *routes_queue; /* of this queue, NULL: of all */
    int64_t routes_ms;  /* when they are looked at next */
    hw_runner *runner;
    char owner[HW_SIGNATURE_SIZE];
} hw_service;

static inline const hw_sub_ops *hw_sub_ops_of(const howdah_bus *bus)
{
    return bus->store->ops->subs;
}

static inline hw_hold hw_hold_of(const howdah_subscription *sub)
{
    return (hw_hold){hw_str_of(sub->id), sub->ownership.token, hw_str_of(sub->ownership.log)};
}

static inline void hw_place_stored(howdah_subscription *sub)
{
    sub->place.still_saved = true;
    sub->place.moves++;
}

static inline hw_sub_state hw_sub_state_of(const howdah_subscription *sub)
{
    return atomic_load_explicit(&sub->state, memory_order_relaxed);
}

/* Reads for itself. */
static inline bool hw_sub_is_catching_up(const howdah_subscription *sub)
{
    hw_sub_state state = hw_sub_state_of(sub);

    return state == HW_STATE_TAKEN || state == HW_STATE_CATCHING_UP;
}

static inline bool hw_sub_is_live(const howdah_subscription *sub)
{
    return hw_sub_state_of(sub) == HW_STATE_LIVE;
}

/* It is to get events. */
static inline bool hw_sub_is_active(const howdah_subscription *sub)
{
    return hw_sub_is_catching_up(sub) || hw_sub_is_live(sub);
}

/* For the serving thread: a worker has the work, or what it left is not collected yet. */
static inline bool hw_sub_is_busy(const howdah_subscription *sub)
{
    return sub->work.handed_out;
}

/* Seen, and not above what counts as passed: the place stands on it. */
static inline void hw_stand_on(howdah_subscription *sub, const hw_anchor *seen)
{
    if (seen->sequence > sub->place.anchor.sequence && seen->sequence <= sub->d.high)
        sub->place.anchor = *seen;
}

/* Not to be offered: it stands still for the page, whatever its read has found (holes.c, I3). */
static inline bool hw_stands_still(howdah_subscription *sub, int64_t sequence)
{
    const hw_still *still = sub->work.page->still;

    return still && hw_ranges_has_near(&still->ranges, sequence, &sub->place.still_near);
}

/* ---- state.c: its life, and who has its work */

/* Whether there is such a move: from one state to another one. */
bool hw_sub_may_move(hw_sub_state from, hw_sub_state to);
/* The only way to another state. */
void hw_sub_move(howdah_subscription *sub, hw_sub_state to);
/* LIVE, from this page of the window on. */
void hw_sub_go_live(howdah_subscription *sub, int64_t next_page);
/* Reads for itself from now on, but not before rest_ms. */
void hw_sub_catch_up(howdah_subscription *sub, int64_t rest_ms);
/* There is something to do; the page becomes the work's, NULL: of dead letters. */
void hw_sub_work_begin(howdah_subscription *sub, hw_sub_work_kind kind, hw_page *page);
/* From the serving thread to a worker, and back. */
void hw_sub_work_hand_out(howdah_subscription *sub);
void hw_sub_work_collect(howdah_subscription *sub);
/* How it ended, unless something graver is known. */
void hw_sub_work_end_as(howdah_subscription *sub, hw_sub_work_end end);
/* It is over: ready for the next. */
void hw_sub_work_clear(howdah_subscription *sub);

/* ---- reader.c */

void hw_log_reader_init(hw_log_reader *reader);
void hw_log_reader_done(howdah_bus *bus);
/* Forgets everything: a new session, or nobody needs it. */
void hw_log_reader_reset(howdah_bus *bus);
/*
 * UNAVAILABLE when the session is another one than at the beginning of the pass: whoever had to
 * connect anew, or was led elsewhere, met a log of which nothing that is known here need be true (a
 * standby that took over, a server that lost its last moments).
 */
int hw_log_reader_check_session(howdah_bus *bus, howdah_error *reterr);
/* Reads once: evidence, rows, verdict.  A page with rows, or with news of holes, enters the window.
 */
int hw_log_reader_round(howdah_bus *bus, bool *ret_news, howdah_error *reterr);
/* The window's page of that number; NULL when it is gone. */
hw_page *hw_log_reader_page(const hw_log_reader *reader, int64_t number);
void hw_page_drop(howdah_bus *bus, hw_page *page);
/* The position "end" for a new or reset subscription: high and what may still appear below it.
   The reader starts anew for it. */
int hw_log_reader_end(howdah_bus *bus, int64_t *ret_high, hw_ranges *ret_outstanding,
                      howdah_error *reterr);
/* The events with the numbers of these anchors, ascending: those that are there take the first
   places, with their ids. */
int hw_log_reader_events_at(howdah_bus *bus, hw_anchor *anchors, size_t n, size_t *ret_n,
                            howdah_error *reterr);
/* The last event up to a number, 0: of all; sequence 0: there is none. */
int hw_log_reader_last(howdah_bus *bus, int64_t upto, hw_anchor *ret_last, howdah_error *reterr);
/* One page that the subscription reads for itself; *ret_page NULL: nothing to read; HOWDAH_END: not
   yet. */
int hw_log_reader_read_own(howdah_subscription *sub, hw_page **ret_page, howdah_error *reterr);
/* The rows that sub->work.asked names, read again. */
int hw_log_reader_read_again(howdah_subscription *sub, hw_page **ret_page, howdah_error *reterr);

/* ---- holes.c: which numbers may still appear */

/* Starts the reader, or extends what it covers down to low; HOWDAH_END: not yet, try again soon. */
int hw_holes_cover(howdah_bus *bus, int64_t low, howdah_error *reterr);
/* Before rows are read: a look at the holders, when it is time for one, and then what may still
   appear. */
int hw_holes_look(howdah_bus *bus, bool *ret_looked, hw_ranges *ret_alive, howdah_error *reterr);
/* What stands still is looked after now, whenever that was due. */
int hw_holes_refresh(howdah_bus *bus, howdah_error *reterr);
/* After rows were read: whether nothing that stands still can be among what they do not show. */
int hw_holes_confirm(howdah_bus *bus, bool *ret_sound, howdah_error *reterr);
/* After the verdict: holes that stay stand still from now on. */
int hw_holes_put_aside(howdah_bus *bus, howdah_error *reterr);
/* Writes down what is proven, now and then. */
int hw_holes_store_proven(howdah_bus *bus, howdah_error *reterr);
/* Before a page is offered: the subscription's share of what stands still becomes the page's; what
   left it and is visible is outstanding.  HOWDAH_END: that would take a look at the store. */
int hw_holes_adopt(howdah_subscription *sub, const hw_page *page, bool may_ask,
                   howdah_error *reterr);
/* When the next look is due, in ms of the monotonic clock; INT64_MAX: never. */
int64_t hw_holes_next_ms(const hw_log_reader *reader);
/* The first number above this one that stands still; INT64_MAX: none. */
int64_t hw_holes_first_still(const hw_log_reader *reader, int64_t above);

/* ---- deliver.c */

/*
 * Brings the work in hand through the handler until that is done or something stands in the way.
 * io is the store handle for its writes, tx the one for handlers' transactions (NULL unless
 * TRANSACTIONAL).  How it went is left in sub->work.
 */
void hw_deliver_run(howdah_subscription *sub, hw_store *io, hw_store *tx);
/* Fills a checkpoint from the delivery state; outstanding is the caller's scratch. */
int hw_deliver_checkpoint(const howdah_subscription *sub, hw_ranges *outstanding,
                          hw_checkpoint *ret, howdah_error *reterr);

/* ---- router.c */

/* Makes jobs of sub->work.page, as hw_deliver_run() does with a handler. */
void hw_route_run(howdah_subscription *sub, hw_store *io);
void hw_route_free(hw_route *route);
/* CONFLICT when the subscription is a binding's router, which is not for others to run or remove.
 */
int hw_route_refuse(howdah_bus *bus, const char *subscriber_id, howdah_error *reterr);
/* Bindings that came become subscriptions of this bus, those that went are let go. */
int hw_route_refresh(howdah_bus *bus, howdah_error *reterr);

/* ---- subscribe.c */

/* A subscription that is in no list yet; its row is the caller's affair. */
int hw_subscription_new(howdah_bus *bus, const howdah_subscribe_options *options,
                        howdah_subscription **ret_sub, howdah_error *reterr);
void hw_subscription_free(howdah_subscription *sub);
/* Lets it go, takes it out of the bus's list and frees it. */
int hw_unsubscribe(howdah_subscription *subscription, howdah_error *reterr);
/* The place that a start means: a number, or the end with what may still appear below it. */
int hw_subscription_start(howdah_bus *bus, int64_t start, int64_t *ret_high,
                          hw_ranges *ret_outstanding, howdah_error *reterr);

/* ---- ownership.c */

/* Forgets what was read and not handled. */
void hw_service_drop_page(howdah_subscription *sub);
bool hw_service_is_owned(const howdah_subscription *sub);
/* Tries to become the owner; HOWDAH_OK whether it did or not. */
int hw_service_take(howdah_subscription *sub, howdah_error *reterr);
/* Gives the session's lock back; the state is not stored. */
void hw_service_unlock(howdah_subscription *sub);
/* Forgets the state; the ownership is tried again at take_ms. */
void hw_service_step_down(howdah_subscription *sub, int64_t take_ms);
/* It is loaded, and reads on from there; nothing is known of its rows yet. */
void hw_service_begin(howdah_subscription *sub);
/* Halted, for sub->reason, in the store too. */
void hw_service_stop(howdah_subscription *sub);
/* Due checkpoints are stored, and the store asked for news; only when is_news_due. */
bool hw_service_is_news_due(const howdah_bus *bus);
int hw_service_exchange_news(howdah_bus *bus, howdah_error *reterr);
/* Stores what is unsaved and gives the ownership up. */
int hw_service_let_go(howdah_subscription *sub, howdah_error *reterr);

/* ---- wakeup.c */

/* Before the first look. */
void hw_service_wait_init(hw_service *service);
/* Something was delivered; arrived: the log had grown. */
void hw_service_heard(howdah_bus *bus, bool arrived);
/* Members of a group have found and handled something. */
void hw_service_found(howdah_bus *bus);
/* Waits for the bell, a worker (extra_fd, -1: none), an interrupt, or the time of the next thing.
 */
int hw_service_wait(howdah_bus *bus, int64_t at_most_ms, int extra_fd, howdah_error *reterr);
/* Without waiting: whether the bell has rung; then the log has to be looked at. */
bool hw_service_hear(howdah_bus *bus);
/* Whether a later pass may succeed. */
bool hw_service_passes(int status, const howdah_error *err);
/* The same; then it waits a little, growing. */
bool hw_service_retries_after(howdah_bus *bus, int status, const howdah_error *err);

/* ---- loop.c */

/* The bus's service, made when first needed. */
int hw_service_of(howdah_bus *bus, hw_service **ret_service, howdah_error *reterr);
/* Lets everything go and frees it; the first error is reported. */
int hw_service_close(howdah_bus *bus, howdah_error *reterr);
/* Whether there is anybody to be served. */
bool hw_service_is_subscribed(const howdah_bus *bus);
/* The session in which handlers' transactions run, where there is no runner: service->tx. */
int hw_service_second_session(howdah_bus *bus, howdah_error *reterr);
/* What workers have given back becomes states; the first error is returned. */
int hw_service_collect(howdah_bus *bus, howdah_error *reterr);
/* Asks for the session; in a new one nothing of the old is true (loop.c I1). */
int hw_service_meet(howdah_bus *bus, howdah_error *reterr);
/* The next page of a tail, if there is one: sub->work.page. */
int hw_service_bring(howdah_subscription *sub, howdah_error *reterr);
/* One pass over all that is due; for howdah_service() and the runner. */
int hw_service_pass(howdah_bus *bus, bool *ret_worked, howdah_error *reterr);

/* ---- runner.c */

/* Hands the subscription's work to a worker, */
void hw_runner_push(hw_runner *runner, howdah_subscription *sub);
/* or a member's turn, */
void hw_runner_push_item(hw_runner *runner, hw_pool_item *item);
/* and takes back what workers are through with: a list of such subscriptions. */
hw_pool_item *hw_runner_take_done(hw_runner *runner);
/* From a worker: the serving thread has something new to see to. */
void hw_runner_wake(const howdah_bus *bus);
/* Whether the handlers that run are to be the last ones; for their threads. */
bool hw_runner_is_stopping(const howdah_bus *bus);
/* Whether work waits for a thread that is not this shared subscription's. */
bool hw_runner_is_wanted(const howdah_bus *bus, const struct hw_shared *shared);
/* Stops the threads, if there is a runner. */
int hw_runner_end(howdah_bus *bus, howdah_error *reterr);

#endif
