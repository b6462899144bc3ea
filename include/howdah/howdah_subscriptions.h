/*
 * howdah_subscriptions.h - subscribe to events: part of howdah.h, which includes it.
 *
 * A subscription is a named, durable position in the log.  Its handler sees every committed event
 * that matches its pattern at least once, each stream in order, also the events of transactions
 * that commit late.  No event is ever skipped because of time (unless gap_policy says so).  All
 * processes that subscribe with the same name share one checkpoint, and one of them at a time is
 * the owner.
 *
 * What you need, by what you want to do:
 *
 *   subscribe               howdah_subscribe(), howdah_unsubscribe()
 *   run in this thread      howdah_run()
 *   run in threads          howdah_runner_start(), howdah_runner_stop()
 *   run in your event loop  howdah_fd(), howdah_timeout_ms(), howdah_service()
 *   catch up, for a test    howdah_subscription_wait()
 *   operate                 howdah_subscriptions_walk(), howdah_subscription_pause(), _resume(),
 *                           _reset(), _reset_since(), _remove()
 *   repair failures         howdah_dead_letters_walk(), _redrive(), _discard(); howdah_skips_walk()
 *
 *     static int on_event(void *ctx, const howdah_event *event, howdah_delivery *delivery)
 *     {
 *         return save(ctx, event) ? HOWDAH_HANDLED : howdah_delivery_fail(delivery, "no room");
 *     }
 *
 *     howdah_subscribe_options o = HOWDAH_SUBSCRIBE_OPTIONS_INIT;
 *     o.subscriber_id = "projection:orders";
 *     o.pattern = "order.*";
 *     o.handler = on_event;
 *     if (howdah_subscribe(bus, &o, &sub, &err) < 0 || howdah_run(bus, -1, &err) < 0)
 *         die(&err);
 *
 * Handlers run inside howdah_service(), howdah_run() and howdah_subscription_wait(), in the
 * caller's thread.  howdah_runner_start() runs them in threads.
 *
 * A handler may use its own bus like any other code: append, read, push, claim ...  Those calls
 * use a session of their own, opened when first needed, one for each handler that runs at the same
 * time.  With HOWDAH_CHECKPOINT_TRANSACTIONAL, what the handler appends, corrects, pushes and
 * completes on its bus is part of its transaction.  Other writes are not; on SQLite they would
 * wait for that very transaction, and are MISUSE.  A handler must not drive its bus: serving,
 * subscribing, waiting for a subscription and closing are MISUSE.  To end the bus's work a handler
 * calls howdah_interrupt().  The running handler can still finish: its calls succeed, only its
 * waits end.  A bus in memory has one session: it has no runner, and its handlers may not wait on
 * it.
 */
#include <howdah/howdah.h> /* before the guard: the other parts need what this one declares */

#ifndef HOWDAH_HOWDAH_SUBSCRIPTIONS_H
#define HOWDAH_HOWDAH_SUBSCRIPTIONS_H

#ifdef __cplusplus
extern "C" {
#endif

typedef struct howdah_subscription howdah_subscription;
typedef struct howdah_delivery howdah_delivery;

/* What a handler returns. */
#define HOWDAH_HANDLED 0     /* done: the checkpoint may move past this event */
#define HOWDAH_NOT_HANDLED 1 /* failed: tried again later, and at last a dead letter */
/* Stop this subscription until it is resumed.  The event stays outstanding. */
#define HOWDAH_HALT 2
/* Not started: the event stays outstanding, and no try is counted.  For a handler that is about to
   stop; without howdah_interrupt() the event comes again at once. */
#define HOWDAH_PUT_BACK 3

typedef int (*howdah_handler)(void *ctx, const howdah_event *event, howdah_delivery *delivery);

/* About the event that the handler was called with; valid until the handler returns. */
HOWDAH_API const char *howdah_delivery_subscriber(const howdah_delivery *delivery);
/* 1 for the first try. */
HOWDAH_API int howdah_delivery_attempt(const howdah_delivery *delivery);
/* True when this is another try of a dead letter, which an operator asked for. */
HOWDAH_API bool howdah_delivery_is_redrive(const howdah_delivery *delivery);
/* Says why the event failed; the first 500 bytes are kept.  Returns HOWDAH_NOT_HANDLED. */
HOWDAH_API int howdah_delivery_fail(howdah_delivery *delivery, const char *message);

typedef enum howdah_instance {
    HOWDAH_INSTANCE_COORDINATED =
        0,                      /* one owner, by its session's lock; by a lease with a pooler */
    HOWDAH_INSTANCE_SINGLE = 1, /* the user promises that only one process runs: no locks */
    HOWDAH_INSTANCE_LEASE = 2,  /* one owner, by a lease: for transaction poolers */
    HOWDAH_INSTANCE_SHARED = 3  /* no owner: a group, see howdah_groups.h */
} howdah_instance;

typedef enum howdah_checkpoint_mode {
    HOWDAH_CHECKPOINT_SYNC = 0,    /* after every event */
    HOWDAH_CHECKPOINT_BATCHED = 1, /* after batch_size events, max_delay_ms, and at the end */
    /* In the handler's transaction (howdah_delivery_pg(), howdah_delivery_sqlite()): effect and
       checkpoint commit together, and each event's effect exists exactly once. */
    HOWDAH_CHECKPOINT_TRANSACTIONAL = 2
} howdah_checkpoint_mode;

typedef enum howdah_ordering {
    HOWDAH_ORDERING_AHEAD = 0, /* continues after a missing number; delivers it when it appears */
    HOWDAH_ORDERING_STRICT = 1 /* waits for a missing number: one total order */
} howdah_ordering;

typedef enum howdah_gap_policy {
    HOWDAH_GAP_PROOF = 0,  /* gives up a missing number only when it can no longer appear */
    HOWDAH_GAP_TIMEOUT = 1 /* or after gap_timeout_ms: may miss a slow commit; each is recorded */
} howdah_gap_policy;

typedef enum howdah_on_fail {
    HOWDAH_FAIL_OPEN = 0,   /* after max_retries: a dead letter, then the next event */
    HOWDAH_FAIL_CLOSED = 1, /* after max_retries: halt until resumed */
    /* Of a shared subscription: a dead letter, and the later events of its stream wait until it is
       redriven or discarded. */
    HOWDAH_FAIL_HOLD = 2
} howdah_on_fail;

/* Of a shared subscription. */
typedef enum howdah_order_key {
    HOWDAH_ORDER_BY_STREAM = 0, /* events of one stream in order, one batch of it at a time */
    HOWDAH_ORDER_NONE = 1       /* in no order */
} howdah_order_key;

/* Where a new subscription begins; or any N: events after N. */
#define HOWDAH_FROM_START INT64_C(0)
#define HOWDAH_FROM_END INT64_C(-1)

typedef struct howdah_subscribe_options {
    size_t size;
    const char *subscriber_id; /* required, 1 to 255 bytes; one handle per bus and id */
    const char *pattern;       /* NULL: all */
    int64_t start;             /* HOWDAH_FROM_START; only for a new subscription */
    howdah_handler handler;    /* required */
    void *ctx;
    /* Called after a dead letter was stored; may be NULL. */
    void (*on_dead_letter)(void *ctx, const howdah_event *event, const char *error, int attempts);
    howdah_instance instance;
    howdah_checkpoint_mode checkpoint;
    int64_t batch_size;         /* BATCHED: 100 */
    int64_t max_delay_ms;       /* BATCHED: 1000 */
    int64_t max_retries;        /* 3: tries after the first one */
    int64_t retry_delay_ms;     /* 1000: before the second try; doubled each time, +- a tenth */
    int64_t max_retry_delay_ms; /* 60000: the longest */
    howdah_on_fail on_fail;
    howdah_ordering ordering;
    howdah_gap_policy gap_policy;
    int64_t gap_timeout_ms;  /* 5000; with PROOF the age at which a missing number is reported */
    int64_t catch_up_batch;  /* 100: events of one read while it catches up */
    int64_t outstanding_max; /* 4096: most ranges of outstanding numbers; at this bound it waits */
    int64_t lease_ms;        /* 10000; renewed after a third of it */
    const char *stream;      /* only this stream; NULL: all.  Joined with the pattern by AND */
    bool originals_only;     /* no corrections: first revisions only */
    /* SHARED: catch_up_batch is the size of a batch, and checkpoints are acks. */
    int64_t concurrency;  /* 1: so many handlers at a time, in a runner with as many threads */
    howdah_order_key key; /* HOWDAH_ORDER_BY_STREAM */
} howdah_subscribe_options;

#define HOWDAH_SUBSCRIBE_OPTIONS_INIT                                                              \
    {                                                                                              \
        sizeof(howdah_subscribe_options), NULL, NULL, HOWDAH_FROM_START, NULL, NULL, NULL,         \
            HOWDAH_INSTANCE_COORDINATED, HOWDAH_CHECKPOINT_SYNC, 100, 1000, 3, 1000, 60000,        \
            HOWDAH_FAIL_OPEN, HOWDAH_ORDERING_AHEAD, HOWDAH_GAP_PROOF, 5000, 100, 4096, 10000,     \
            NULL, false, 1, HOWDAH_ORDER_BY_STREAM                                                 \
    }

/*
 * Registers the subscription, and stores it if it is new.  Delivers nothing yet.  A second handle
 * with the same id on one bus is CONFLICT.  Other errors: INVALID (options), SCHEMA, DENIED.
 */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_subscribe(howdah_bus *bus,
                                                  const howdah_subscribe_options *options,
                                                  howdah_subscription **ret_subscription,
                                                  howdah_error *reterr);
/*
 * Stores the checkpoint, gives up the ownership and frees the handle, also when it fails.  An
 * error says what could not be stored; those events are delivered again.  howdah_close() does this
 * for all subscriptions that are left.  Do not call it from the subscription's own handler.
 */
HOWDAH_API int howdah_unsubscribe(howdah_subscription *subscription, howdah_error *reterr);

typedef enum howdah_subscription_state {
    HOWDAH_SUBSCRIPTION_WAITING = 0, /* another process owns it, or the store was not asked yet */
    HOWDAH_SUBSCRIPTION_BEHIND = 1,  /* catching up */
    HOWDAH_SUBSCRIPTION_LIVE = 2,    /* at the head */
    HOWDAH_SUBSCRIPTION_PAUSED = 3,
    HOWDAH_SUBSCRIPTION_HALTED = 4 /* by its handler, by FAIL_CLOSED, or because the checkpoint
                                      does not fit the log: see reason */
} howdah_subscription_state;

/* The state of a subscription. */
typedef struct howdah_subscription_info {
    size_t size;
    const char *subscriber_id; /* texts are borrowed: valid until the next call on the bus, or, in
                                  howdah_subscriptions_walk(), until fn returns */
    const char *pattern;       /* NULL: all */
    howdah_subscription_state state;
    const char *reason; /* of a pause or halt, "" else */
    const char *owner;  /* "": nobody */
    int64_t token;
    int64_t high;          /* handled up to this number, except the holes */
    int64_t contiguous;    /* handled up to this number, without exception */
    const int64_t *holes;  /* first, last, first, last, ... */
    size_t holes_n;        /* ranges */
    int64_t head;          /* the log's last visible number */
    int64_t lag;           /* how many numbers are above high or outstanding */
    int64_t delivered;     /* by this handle, each try counted; 0 in a walk */
    int64_t dead_letters;  /* open ones; only in a walk */
    int64_t skips;         /* open ones; only in a walk */
    int64_t updated_at_us; /* only in a walk, otherwise HOWDAH_NO_TIME.  Of a shared one: when an
                              operator changed it; its members' progress does not count */
    const char *stream;    /* NULL: all */
    bool originals_only;
    bool shared;        /* members of a group take its events, and nobody owns it */
    int64_t lag_age_ms; /* only in a walk: since when the oldest event that is left has been in the
                           log, by the store's clock, whether or not it matches; HOWDAH_ABSENT: none
                           is left */
} howdah_subscription_info;

#define HOWDAH_SUBSCRIPTION_INFO_INIT                                                              \
    {                                                                                              \
        sizeof(howdah_subscription_info), NULL, NULL, HOWDAH_SUBSCRIPTION_WAITING, NULL, NULL, 0,  \
            0, 0, NULL, 0, 0, 0, 0, 0, 0, HOWDAH_NO_TIME, NULL, false, false, HOWDAH_ABSENT        \
    }

/* MISUSE while a runner serves the bus, except in the subscription's own handler. */
HOWDAH_API int howdah_subscription_info_get(const howdah_subscription *subscription,
                                            howdah_subscription_info *ret_info);

/* ---- run the handlers */

/*
 * Does what is due now, and waits only for the store and the handlers: takes ownership, reads,
 * delivers, retries, stores checkpoints.  Returns errors of the store; nothing is lost, and the
 * next call continues.  What concerns only one subscription is in its state instead.  ret_worked
 * may be NULL: whether an event was delivered.
 */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_service(howdah_bus *bus, bool *ret_worked,
                                                howdah_error *reterr);
/* For your own loop: call howdah_service() when fd (-1: none) is readable, or after timeout_ms. */
HOWDAH_API int howdah_fd(howdah_bus *bus);
HOWDAH_API int howdah_timeout_ms(howdah_bus *bus);
/*
 * Serves until the time is over (-1: no limit), howdah_interrupt(), or no subscription is left that
 * could continue.  When the store cannot be reached it tries again, with growing pauses.
 * HOWDAH_OK, INTERRUPTED, or an error that waiting does not cure.
 */
HOWDAH_API int howdah_run(howdah_bus *bus, int64_t for_ms, howdah_error *reterr);
/*
 * Serves until the subscription has handled everything that was visible when this was called:
 * HOWDAH_OK, or HOWDAH_END when the time is over.
 */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_subscription_wait(howdah_subscription *subscription,
                                                          int64_t for_ms, howdah_error *reterr);

/*
 * Runs the bus in threads: one serves it, and "threads" more (1 to 256) call the handlers.  Each
 * subscription is in one thread at a time; a slow handler delays only its own subscription.  Until
 * howdah_runner_stop() the bus belongs to the runner: calls on it from elsewhere than its handlers
 * are MISUSE, except howdah_interrupt(), howdah_runner_wait() and howdah_close().  stop waits for
 * the handlers that run and starts no others, stores checkpoints and gives up the ownerships.  A
 * runner that ends earlier, by an interrupt or by an error that waiting does not cure, does the
 * same; stop has to be called nevertheless.
 */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_runner_start(howdah_bus *bus, int threads,
                                                     howdah_error *reterr);
HOWDAH_API int howdah_runner_stop(howdah_bus *bus, howdah_error *reterr);
/*
 * Waits until the runner has ended, at most for_ms (-1: no limit).  HOWDAH_END: it still runs.
 * Otherwise INTERRUPTED, or the error that ended it.  While a thread waits here, stop is MISUSE.
 */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_runner_wait(howdah_bus *bus, int64_t for_ms,
                                                    howdah_error *reterr);

/* ---- operate by name: from any process, also when no process runs the subscription */

/* All stored subscriptions in order of name (id NULL), or one (NOT_FOUND).  A non-zero result of fn
   ends it. */
HOWDAH_API int howdah_subscriptions_walk(howdah_bus *bus, const char *subscriber_id,
                                         int (*fn)(void *ctx, const howdah_subscription_info *info),
                                         void *ctx, howdah_error *reterr);
/* The owner notices within a second.  resume also restarts a halted subscription.  NOT_FOUND. */
HOWDAH_API int howdah_subscription_pause(howdah_bus *bus, const char *subscriber_id,
                                         const char *reason, howdah_error *reterr);
HOWDAH_API int howdah_subscription_resume(howdah_bus *bus, const char *subscriber_id,
                                          howdah_error *reterr);
/*
 * Moves it to a position: HOWDAH_FROM_START, HOWDAH_FROM_END (events of transactions that are open
 * now are still delivered), or N.  This also repairs a checkpoint that does not fit the log.
 */
HOWDAH_API int howdah_subscription_reset(howdah_bus *bus, const char *subscriber_id, int64_t to,
                                         howdah_error *reterr);
/*
 * To a moment, in microseconds since 1970: all events that were recorded then or later come, and
 * those of transactions that are open now.  Where moments of recording do not grow with the
 * numbers, some that were recorded before come as well.
 */
HOWDAH_API int howdah_subscription_reset_since(howdah_bus *bus, const char *subscriber_id,
                                               int64_t time_us, howdah_error *reterr);
/* CONFLICT while a process owns it. */
HOWDAH_API int howdah_subscription_remove(howdah_bus *bus, const char *subscriber_id,
                                          howdah_error *reterr);

/* Numbers that HOWDAH_GAP_TIMEOUT gave up. */
typedef struct howdah_skip {
    size_t size;
    int64_t id;
    const char *subscriber_id;
    int64_t first;
    int64_t last;
    int64_t age_ms;
    const char *reason;
    int64_t created_at_us;
    const char *resolution; /* "" while it is open */
    int64_t resolved_at_us; /* HOWDAH_NO_TIME while it is open */
} howdah_skip;
HOWDAH_API int howdah_skips_walk(howdah_bus *bus, const char *subscriber_id, bool resolved,
                                 int (*fn)(void *ctx, const howdah_skip *skip), void *ctx,
                                 howdah_error *reterr);
HOWDAH_API int howdah_skip_resolve(howdah_bus *bus, int64_t id, const char *resolution,
                                   howdah_error *reterr);

/* ---- dead letters, of subscriptions and of jobs: their ids are of one series */

typedef struct howdah_dead_letter {
    size_t size;
    int64_t id;
    const char *source;        /* "sub" or "queue" */
    const char *subscriber_id; /* NULL: it is of a job */
    const howdah_event *event; /* a copy, kept also when the log loses the event; NULL: of a job */
    const char *error;
    int64_t attempts;  /* all, including those of redrives that are over */
    int64_t redrives;  /* how many are over */
    const char *state; /* "dead", "redrive" (asked for), "redriven" (handled), "discarded" */
    const char *reason;
    int64_t created_at_us;
    int64_t last_attempt_at_us;
    bool resolved;
    int64_t resolved_at_us; /* HOWDAH_NO_TIME while it is open */
    const char *resolved_by;
    /* Of a job; otherwise NULL and 0.  howdah_job_get() says where the job is. */
    const char *queue;
    int64_t job_id;
    const struct howdah_job *job; /* as it was pushed; NULL: its history was removed */
} howdah_dead_letter;

typedef struct howdah_dead_letters_options {
    size_t size;
    const char *subscriber_id; /* NULL: all */
    int64_t id;                /* 0: any */
    int64_t after_id;          /* for paging */
    int64_t limit;             /* 0: all */
    bool resolved;             /* also the resolved ones */
    const char *queue;         /* only those of this queue's jobs; NULL: all */
} howdah_dead_letters_options;

#define HOWDAH_DEAD_LETTERS_OPTIONS_INIT                                                           \
    {                                                                                              \
        sizeof(howdah_dead_letters_options), NULL, 0, 0, 0, false, NULL                            \
    }

/*
 * In the order of their ids.  Texts, event and job are valid until fn returns.  A non-zero result
 * of fn ends the walk.
 *
 * All walks (this one, and those of subscriptions, skips, queues, history, bindings, snapshots,
 * purges and streams) read page by page, in the order of their key.  No statement and no database
 * snapshot is open while fn runs, so fn may take its time.  A row that exists all the time is seen
 * once.  A row that comes, goes or changes meanwhile is seen as its page found it, or not at all.
 */
HOWDAH_API int howdah_dead_letters_walk(howdah_bus *bus, const howdah_dead_letters_options *options,
                                        int (*fn)(void *ctx, const howdah_dead_letter *dead_letter),
                                        void *ctx, howdah_error *reterr);
/*
 * Asks for another try: the subscription's owner runs its handler again; the job is pending again
 * with all its attempts (unless another job has its dedup key: then it is not counted).  For the
 * dead letters with these ids; with n 0 for all open dead letters of a subscription, or, when that
 * is NULL too, for all open ones, those of jobs included.  For those of one queue see
 * howdah_queue_dead_letters_redrive().  ret_n: how many.
 */
HOWDAH_API int howdah_dead_letters_redrive(howdah_bus *bus, const int64_t *ids, size_t n,
                                           const char *subscriber_id, int64_t *ret_n,
                                           howdah_error *reterr);
/* Resolves them without another try, and keeps the reason.  A key that such a job holds is freed.
 */
HOWDAH_API int howdah_dead_letters_discard(howdah_bus *bus, const int64_t *ids, size_t n,
                                           const char *reason, int64_t *ret_n,
                                           howdah_error *reterr);

#ifdef __cplusplus
}
#endif

#endif
