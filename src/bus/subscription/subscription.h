/*
 * subscription.h - the inside of subscriptions: the reader, a subscription, a turn.
 *
 * The pure part (what is outstanding, what comes next) is engine/delivery.h; the log's edge is
 * engine/frontier.h.  Here they meet the store and the handlers.
 *
 *   I1  The reader is the only one that knows holes.  It covers every number above "low": each one
 * up to the frontier's high is visible, dead, or in a hole. I2  A subscription reads up to a
 * frontier that was known before its statement, and takes the holes of that moment as its own: what
 * is neither a row nor a hole then is dead, or does not match.  So a filtered read needs no numbers
 * of events that do not concern it. I3  Every read of a subscription covers what is missing to it
 * and what is above its high in one snapshot; a stream's earlier version is never behind a later
 * one. I4  Pages of the reader are kept for a while (the window).  A subscription at the head takes
 * them in turn; one that comes too late for a page reads for itself. I5  A subscription's delivery
 * state belongs to one thread at a time: to a worker from the push of a turn until it says back,
 * else to whoever serves the bus.  No lock is held while a handler runs. I6  A lost token, a new
 * session, or an answer that never came throw the delivery state away: it is loaded again from the
 * store. I7  What a subscription knows was learnt from one log, and whatever it stores says from
 * which, and which event it stands on.  The store compares (store/subscriptions.h I7); a refusal is
 * a lost token (I6).
 */
#ifndef HW_BUS_SUBSCRIPTION_SUBSCRIPTION_H
#define HW_BUS_SUBSCRIPTION_SUBSCRIPTION_H

#include <pthread.h>
#include <stdatomic.h>

#include "bus/bus.h"
#include "bus/log/upcast.h"
#include "engine/delivery.h"
#include "engine/frontier.h"
#include "engine/holders.h"
#include "engine/still.h"
#include "store/store.h"

#define HW_WINDOW_PAGES 16
/* Rows that are read again in one turn. */
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

typedef enum hw_sub_phase {
    HW_PHASE_OUT,    /* not the owner */
    HW_PHASE_BEHIND, /* reads for itself */
    HW_PHASE_HEAD,   /* takes the window's pages */
    HW_PHASE_PAUSED,
    HW_PHASE_HALTED
} hw_sub_phase;

/* What a subscription does instead of calling a handler: it makes jobs of its events. */
typedef struct hw_route {
    char *queue;
    hw_route_key key;
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

struct howdah_subscription {
    howdah_bus *bus;
    howdah_subscription *next;
    howdah_subscription *queue_next; /* of the runner */
    char *id;
    char *pattern;     /* NULL: all */
    char *stream_name; /* NULL: all */
    hw_filter filter;  /* these two, and whether corrections concern it */
    howdah_subscribe_options options;
    hw_route *route; /* NULL: it has a handler */
    bool tail;       /* it has no row, and howdah_tail_next() brings its pages */
    hw_sub_phase phase;
    char reason[256];

    hw_delivery d;
    hw_still *still;     /* what it owes besides, up to d.high; see holes.c */
    bool still_saved;    /* its row has the same */
    size_t still_near;   /* where in a page's set a number was looked for last */
    int64_t moves;       /* of its row: the place that it stores next follows that one */
    bool fresh;          /* loaded, and nothing read since */
    uint64_t met_reader; /* the start of the reader since which its place was looked at; 0: none */
    int64_t token;
    char log[HW_TIMELINE_SIZE]; /* what it knows was learnt from this one (I7) */
    int64_t unreleased;         /* a token that an interrupt kept from being given up; 0: none */
    hw_anchor anchor;           /* the last event that was seen at or below d.high */
    int64_t suspect_sequence;   /* from the store: begun so often by owners that died */
    int64_t suspect_attempts;
    bool suspect_stored; /* the row names a suspect: it has to be cleared */

    int64_t take_ms;    /* when to try to become the owner next */
    int64_t poll_ms;    /* when the owner asks the store for news */
    int64_t renewed_ms; /* before the last renewal was sent */
    bool redrives;      /* dead letters wait for another try */
    bool sparse;
    int64_t met_sequence; /* of its own stream, when it has one: an event of it that was read, */
    int64_t met_version;  /* and its version */
    int64_t next_page;    /* HEAD: the window's page to take next */
    hw_cursor *stream;    /* BEHIND: pages in a row while there are no holes */
    int64_t stream_to;
    hw_anchor stream_top; /* the event there, if it is the last one of all */
    size_t rows;          /* to ask for next */
    int64_t rest_ms;      /* BEHIND, but nothing could be read or accepted: not before this time */
    int64_t trouble_ms;   /* a turn could not store something: no further one before this time */
    unsigned troubles;    /* in a row */
    int64_t head; /* of the log, when its turn began: what a handler in a thread may know of it */
    int64_t delivered;
    int64_t alarmed_first; /* the hole that was reported last */

    /* A turn: the page in work.  Belongs to a worker from busy until back; busy itself is the
       serving thread's, which clears it when it has collected what the turn left. */
    bool busy;
    atomic_bool back;
    hw_page *page;
    size_t at;
    bool passed;  /* the whole page was offered and accounted for */
    bool waiting; /* the engine accepts nothing further of this page */
    bool again;   /* the page holds rows read again because they were due: */
    int64_t asked[HW_AGAIN_ROWS];
    size_t asked_n;
    hw_upcast_event upcast; /* the event in hand, as its handler sees it */
    int failed; /* what ended the turn: a status < 0 that concerns the store, with error */
    howdah_error error;
    bool reload;   /* I6 */
    bool stale;    /* the same, said by the serving thread while the worker had it */
    bool ask_soon; /* the store has news of it: to be asked for when the turn is over, */
    bool heard;    /* heard by the serving thread while a worker had it */
    bool worked;
    bool halt;
    bool redriving; /* the turn is for dead letters, not for a page */
    /* A try of a dead letter whose end an interrupt kept from being stored; 0: none. */
    int64_t unstored;
    bool unstored_handled;
    bool unstored_ask; /* it had no try after all: asked for as before */
    char unstored_error[501];
};

typedef struct hw_runner hw_runner;

/* All that a bus has because of its subscriptions. */
typedef struct hw_service {
    howdah_subscription *subs;
    hw_log_reader reader;
    hw_store *tx; /* the session for handlers' transactions; NULL: not needed yet */
    uint64_t session;
    char log[HW_TIMELINE_SIZE]; /* that session's */
    bool relisten;              /* what to listen to has changed */
    bool cannot_listen;         /* this session cannot hear the bell */
    bool armed;
    bool in_vain; /* the log was looked at since then, and had nothing new */
    bool worked;  /* an event was delivered, or a page came: look again at once */
    /* wakeup.c: */
    int64_t event_us;   /* the last time that something was delivered or heard */
    int64_t arrival_us; /* the last time that the log had grown, */
    int64_t gap_us;     /* and how long that takes lately */
    int64_t pause_us;   /* between two looks */
    unsigned failures;  /* of the store, in a row */
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
    return (hw_hold){hw_str_of(sub->id), sub->token, hw_str_of(sub->log)};
}

static inline void hw_place_stored(howdah_subscription *sub)
{
    sub->still_saved = true;
    sub->moves++;
}

/* Seen, and not above what counts as passed: the place stands on it. */
static inline void hw_stand_on(howdah_subscription *sub, const hw_anchor *seen)
{
    if (seen->sequence > sub->anchor.sequence && seen->sequence <= sub->d.high)
        sub->anchor = *seen;
}

/* Not to be offered: it stands still for the page, whatever its read has found (holes.c, I3). */
static inline bool hw_stands_still(howdah_subscription *sub, int64_t sequence)
{
    const hw_still *still = sub->page->still;

    return still && hw_ranges_has_near(&still->ranges, sequence, &sub->still_near);
}

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
/* One page that the subscription reads for itself; *ret_page NULL: nothing to read; HOWDAH_END: not
   yet. */
int hw_log_reader_read_own(howdah_subscription *sub, hw_page **ret_page, howdah_error *reterr);
/* The rows that sub->asked names, read again. */
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
 * Brings sub->page, or with sub->redriving the dead letters that wait for another try, through the
 * handler until that is done or something stands in the way.  io is the store handle for its
 * writes, tx the one for handlers' transactions (NULL unless TRANSACTIONAL).  Everything that went
 * wrong is left in sub->failed, reload and halt.
 */
void hw_deliver_run(howdah_subscription *sub, hw_store *io, hw_store *tx);
/* Fills a checkpoint from the delivery state; outstanding is the caller's scratch. */
int hw_deliver_checkpoint(const howdah_subscription *sub, hw_ranges *outstanding,
                          hw_checkpoint *ret, howdah_error *reterr);

/* ---- router.c */

/* Makes jobs of sub->page, as hw_deliver_run() does with a handler. */
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

/* The turn's own members, ready for the next. */
void hw_service_clear_delivery(howdah_subscription *sub);
/* Forgets what was read and not handled. */
void hw_service_drop_page(howdah_subscription *sub);
bool hw_service_is_owned(const howdah_subscription *sub);
/* Tries to become the owner; HOWDAH_OK whether it did or not. */
int hw_service_take(howdah_subscription *sub, howdah_error *reterr);
/* Gives the session's lock back; the state is not stored. */
void hw_service_unlock(howdah_subscription *sub);
/* Forgets the state; the ownership is tried again at take_ms. */
void hw_service_step_down(howdah_subscription *sub, int64_t take_ms);
/* Reads for itself from now on; begin: and nothing is known of its rows yet. */
void hw_service_go_behind(howdah_subscription *sub);
void hw_service_begin(howdah_subscription *sub);
/* Halted, for sub->reason, in the store too. */
void hw_service_stop(howdah_subscription *sub);
/* Due checkpoints are stored, and the store asked for news; only when is_news_due. */
bool hw_service_is_news_due(const howdah_bus *bus);
int hw_service_exchange_news(howdah_bus *bus, howdah_error *reterr);
/* Stores what is unsaved and gives the ownership up. */
int hw_service_let_go(howdah_subscription *sub, howdah_error *reterr);

/* ---- wakeup.c */

/* Something was delivered; arrived: the log had grown. */
void hw_service_heard(howdah_bus *bus, bool arrived);
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
/* Turns that workers have brought back become phases; the first error is returned. */
int hw_service_collect(howdah_bus *bus, howdah_error *reterr);
/* Asks for the session; in a new one nothing of the old is true (loop.c I1). */
int hw_service_meet(howdah_bus *bus, howdah_error *reterr);
/* The next page of a tail, if there is one: sub->page. */
int hw_service_bring(howdah_subscription *sub, howdah_error *reterr);
/* One pass over all that is due; for howdah_service() and the runner. */
int hw_service_pass(howdah_bus *bus, bool *ret_worked, howdah_error *reterr);

/* ---- runner.c */

/* Hands the subscription's page to a worker. */
void hw_runner_push(hw_runner *runner, howdah_subscription *sub);
/* Whether the handlers that run are to be the last ones; for their threads. */
bool hw_runner_is_stopping(const howdah_bus *bus);
/* Stops the threads, if there is a runner. */
int hw_runner_end(howdah_bus *bus, howdah_error *reterr);

#endif
