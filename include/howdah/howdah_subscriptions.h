/*
 * howdah_subscriptions.h - subscriptions and dead letters: part of howdah.h, which includes it.
 *
 * A subscription is a named, durable place in the log.  Its handler sees every
 * committed event that matches its pattern at least once, each stream in order,
 * also the events of transactions that commit late; nothing is ever skipped
 * because of time (unless gap_policy says so).  The name is a pool: all
 * processes that subscribe with it share one checkpoint, and one of them at a
 * time is the owner.
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
 * Handlers run inside howdah_service() and howdah_run(), in the caller's thread;
 * howdah_runner_start() moves them into threads.
 *
 * A handler may use its own bus as any other code does: append, read, push, claim ...  Those calls
 * go to a session of their own, opened when first needed, one for each handler that runs at the
 * same time.  With HOWDAH_CHECKPOINT_TRANSACTIONAL what it appends, corrects, pushes and completes
 * on its bus is part of its transaction; other writes are not, and on SQLite, where they would wait
 * for that very transaction, they are MISUSE.  What drives the bus (serving, subscribing, waiting
 * for a subscription, closing) is MISUSE in its handlers; howdah_interrupt() is the way to end it.
 * That lets the handler which runs finish: its calls go on, only its waits end.
 * A bus in memory has one session: it has no runner, and its handlers may not wait on it.
 */
#include <howdah/howdah.h> /* before the guard: the parts that follow need what is in this one */

#ifndef HOWDAH_HOWDAH_SUBSCRIPTIONS_H
#define HOWDAH_HOWDAH_SUBSCRIPTIONS_H

#ifdef __cplusplus
extern "C" {
#endif

typedef struct howdah_subscription howdah_subscription;
typedef struct howdah_delivery howdah_delivery;

/* What a handler returns. */
#define HOWDAH_HANDLED 0     /* done: the checkpoint may move past it */
#define HOWDAH_NOT_HANDLED 1 /* failed: tried again later, then a dead letter */
#define HOWDAH_HALT                                                                                \
    2 /* stop this subscription until it is resumed; the event stays outstanding                   \
       */
#define HOWDAH_PUT_BACK                                                                            \
    3 /* not begun: it stays outstanding, no try is counted.  For a handler that is                \
         about to stop; without howdah_interrupt() it comes again at once */

typedef int (*howdah_handler)(void *ctx, const howdah_event *event, howdah_delivery *delivery);

/* About the event in hand; valid until the handler returns. */
HOWDAH_API const char *howdah_delivery_subscriber(const howdah_delivery *delivery);
/* 1 for the first try. */
HOWDAH_API int howdah_delivery_attempt(const howdah_delivery *delivery);
/* True when an operator asked for another try of a dead letter. */
HOWDAH_API bool howdah_delivery_is_redrive(const howdah_delivery *delivery);
/* Says why; the first 500 bytes are kept.  Returns HOWDAH_NOT_HANDLED. */
HOWDAH_API int howdah_delivery_fail(howdah_delivery *delivery, const char *message);

typedef enum howdah_instance {
    HOWDAH_INSTANCE_COORDINATED = 0, /* one owner, by its session's lock; behind a pooler a lease */
    HOWDAH_INSTANCE_SINGLE = 1,      /* there is only one process, says the user: no locks */
    HOWDAH_INSTANCE_LEASE = 2        /* one owner, by a lease: for transaction poolers */
} howdah_instance;

typedef enum howdah_checkpoint_mode {
    HOWDAH_CHECKPOINT_SYNC = 0,    /* after every event */
    HOWDAH_CHECKPOINT_BATCHED = 1, /* after batch_size events, max_delay_ms, and at the end */
    /* In the transaction that the handler gets (howdah_delivery_pg(), howdah_delivery_sqlite()):
       effect and checkpoint commit together, each event's effect exists exactly once. */
    HOWDAH_CHECKPOINT_TRANSACTIONAL = 2
} howdah_checkpoint_mode;

typedef enum howdah_ordering {
    HOWDAH_ORDERING_AHEAD = 0, /* goes on past a missing number, comes back when it appears */
    HOWDAH_ORDERING_STRICT = 1 /* waits for it: one total order */
} howdah_ordering;

typedef enum howdah_gap_policy {
    HOWDAH_GAP_PROOF = 0,  /* a missing number is given up only when it cannot appear any more */
    HOWDAH_GAP_TIMEOUT = 1 /* or after gap_timeout_ms: may lose a slow commit; each is recorded */
} howdah_gap_policy;

typedef enum howdah_on_fail {
    HOWDAH_FAIL_OPEN = 0,  /* after max_retries: a dead letter, and on */
    HOWDAH_FAIL_CLOSED = 1 /* after max_retries: halt until resumed */
} howdah_on_fail;

/* Where a subscription that does not exist yet begins; or any N: events after N. */
#define HOWDAH_FROM_START INT64_C(0)
#define HOWDAH_FROM_END INT64_C(-1)

typedef struct howdah_subscribe_options {
    size_t size;
    const char *subscriber_id; /* required, 1 to 255 bytes; one handle per bus and id */
    const char *pattern;       /* NULL: all */
    int64_t start;             /* HOWDAH_FROM_START; only for a new subscription */
    howdah_handler handler;    /* required */
    void *ctx;
    /* After a dead letter was stored; may be NULL. */
    void (*on_dead_letter)(void *ctx, const howdah_event *event, const char *error, int attempts);
    howdah_instance instance;
    howdah_checkpoint_mode checkpoint;
    int64_t batch_size;         /* BATCHED: 100 */
    int64_t max_delay_ms;       /* BATCHED: 1000 */
    int64_t max_retries;        /* 3: tries after the first one */
    int64_t retry_delay_ms;     /* 1000, doubling, spread by a tenth, */
    int64_t max_retry_delay_ms; /* up to 60000 */
    howdah_on_fail on_fail;
    howdah_ordering ordering;
    howdah_gap_policy gap_policy;
    int64_t gap_timeout_ms;  /* 5000; with PROOF a missing number of this age is only reported */
    int64_t catch_up_batch;  /* 100: events that one read takes while it is behind */
    int64_t outstanding_max; /* 4096: ranges of numbers outstanding; at the bound it waits */
    int64_t lease_ms;        /* 10000, renewed at a third */
    const char *stream;      /* only this stream; NULL: all.  Joined with the pattern by AND */
    bool originals_only;     /* no corrections: first revisions only */
} howdah_subscribe_options;

#define HOWDAH_SUBSCRIBE_OPTIONS_INIT                                                              \
    {                                                                                              \
        sizeof(howdah_subscribe_options), NULL, NULL, HOWDAH_FROM_START, NULL, NULL, NULL,         \
            HOWDAH_INSTANCE_COORDINATED, HOWDAH_CHECKPOINT_SYNC, 100, 1000, 3, 1000, 60000,        \
            HOWDAH_FAIL_OPEN, HOWDAH_ORDERING_AHEAD, HOWDAH_GAP_PROOF, 5000, 100, 4096, 10000,     \
            NULL, false                                                                            \
    }

/*
 * Registers the subscription, and stores it if it is new; delivers nothing yet.  A second handle
 * of the same id on one bus is CONFLICT.  Errors also: INVALID (options), SCHEMA, DENIED.
 */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_subscribe(howdah_bus *bus,
                                                  const howdah_subscribe_options *options,
                                                  howdah_subscription **ret_subscription,
                                                  howdah_error *reterr);
/*
 * Stores the checkpoint, gives the ownership up and frees the handle, whatever it returns; an
 * error says what could not be stored (it is delivered again then).  howdah_close() does it for
 * all that are left.  Not from inside its own handler.
 */
HOWDAH_API int howdah_unsubscribe(howdah_subscription *subscription, howdah_error *reterr);

typedef enum howdah_subscription_state {
    HOWDAH_SUBSCRIPTION_WAITING = 0, /* somebody else owns it, or nobody could be asked yet */
    HOWDAH_SUBSCRIPTION_BEHIND = 1,  /* catching up */
    HOWDAH_SUBSCRIPTION_LIVE = 2,    /* at the head */
    HOWDAH_SUBSCRIPTION_PAUSED = 3,
    HOWDAH_SUBSCRIPTION_HALTED = 4 /* by its handler, by FAIL_CLOSED, or because the log does not
                                      fit its checkpoint: see reason */
} howdah_subscription_state;

/* Where it stands; grows with later versions, so size first. */
typedef struct howdah_subscription_info {
    size_t size;
    const char *subscriber_id; /* texts are borrowed: valid until the next call on the bus, or, in
                                  howdah_subscriptions_walk(), until fn returns */
    const char *pattern;       /* NULL: all */
    howdah_subscription_state state;
    const char *reason; /* of a pause or halt, "" else */
    const char *owner;  /* "" : nobody */
    int64_t token;
    int64_t high;          /* handled up to here, but for the holes */
    int64_t contiguous;    /* the number below the lowest one outstanding */
    const int64_t *holes;  /* first, last, first, last, ... */
    size_t holes_n;        /* ranges */
    int64_t head;          /* the log's last visible number */
    int64_t lag;           /* numbers above high, and those outstanding */
    int64_t delivered;     /* by this handle, tries included; 0 in a walk */
    int64_t dead_letters;  /* open ones; only in a walk */
    int64_t skips;         /* open ones; only in a walk */
    int64_t updated_at_us; /* only in a walk, otherwise HOWDAH_NO_TIME */
    const char *stream;    /* NULL: all */
    bool originals_only;
} howdah_subscription_info;

#define HOWDAH_SUBSCRIPTION_INFO_INIT                                                              \
    {                                                                                              \
        sizeof(howdah_subscription_info), NULL, NULL, HOWDAH_SUBSCRIPTION_WAITING, NULL, NULL, 0,  \
            0, 0, NULL, 0, 0, 0, 0, 0, 0, HOWDAH_NO_TIME, NULL, false                              \
    }

/* MISUSE while a runner serves the bus, except of a subscription in its own handler. */
HOWDAH_API int howdah_subscription_info_get(const howdah_subscription *subscription,
                                            howdah_subscription_info *ret_info);

/* ---- driving */

/*
 * Does what is due now without waiting for anything but the store and the handlers: takes
 * ownership, reads, delivers, retries, stores checkpoints.  Errors of the store are returned
 * (the next call goes on: nothing is lost); what concerns one subscription only is its state.
 * ret_worked, may be NULL: whether an event was delivered.
 */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_service(howdah_bus *bus, bool *ret_worked,
                                                howdah_error *reterr);
/* For one's own loop: call howdah_service() when fd is readable (-1: none) or after the time. */
HOWDAH_API int howdah_fd(howdah_bus *bus);
HOWDAH_API int howdah_timeout_ms(howdah_bus *bus);
/*
 * Serves until the time is over (-1: for ever), howdah_interrupt(), or no subscription is left
 * that could go on.  A store that cannot be reached is waited for, with growing pauses.
 * HOWDAH_OK, INTERRUPTED, or an error that waiting does not mend.
 */
HOWDAH_API int howdah_run(howdah_bus *bus, int64_t for_ms, howdah_error *reterr);
/*
 * Serves until the subscription has handled everything that was visible when this was called:
 * HOWDAH_OK, or HOWDAH_END when the time is over.
 */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_subscription_wait(howdah_subscription *subscription,
                                                          int64_t for_ms, howdah_error *reterr);

/*
 * Runs the bus in threads: one serves it, and "threads" more call the handlers.  Each
 * subscription is in one thread at a time; a slow handler delays only its own.  Until
 * howdah_runner_stop() the bus belongs to the runner: others than its handlers get MISUSE, but for
 * howdah_interrupt(), howdah_runner_wait() and howdah_close().  stop waits for the handlers that
 * run and begins no other, stores checkpoints and gives the ownerships up.  A runner that ends
 * before, by an interrupt or by an error that waiting does not mend, does the same on its way out;
 * stop has to be called all the same.
 */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_runner_start(howdah_bus *bus, int threads,
                                                     howdah_error *reterr);
HOWDAH_API int howdah_runner_stop(howdah_bus *bus, howdah_error *reterr);
/*
 * Waits until the runner has ended by itself, or for_ms are over (-1: for ever).  HOWDAH_END: it
 * still runs; INTERRUPTED, or the error that ended it.  While somebody waits, stop is MISUSE.
 */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_runner_wait(howdah_bus *bus, int64_t for_ms,
                                                    howdah_error *reterr);

/* ---- by name: from any process, also when nobody runs it */

/* All stored subscriptions by name (id NULL), or one (NOT_FOUND).  fn's non-zero result ends it. */
HOWDAH_API int howdah_subscriptions_walk(howdah_bus *bus, const char *subscriber_id,
                                         int (*fn)(void *ctx, const howdah_subscription_info *info),
                                         void *ctx, howdah_error *reterr);
/* The owner hears of it within a second.  resume also releases a halted one.  NOT_FOUND. */
HOWDAH_API int howdah_subscription_pause(howdah_bus *bus, const char *subscriber_id,
                                         const char *reason, howdah_error *reterr);
HOWDAH_API int howdah_subscription_resume(howdah_bus *bus, const char *subscriber_id,
                                          howdah_error *reterr);
/*
 * Puts it at a position: HOWDAH_FROM_START, HOWDAH_FROM_END (what is in flight now is still
 * delivered), or N.  This is also the repair of a checkpoint that does not fit the log.
 */
HOWDAH_API int howdah_subscription_reset(howdah_bus *bus, const char *subscriber_id, int64_t to,
                                         howdah_error *reterr);
/* CONFLICT while somebody owns it. */
HOWDAH_API int howdah_subscription_remove(howdah_bus *bus, const char *subscriber_id,
                                          howdah_error *reterr);

/* Numbers that gap_policy=timeout gave up. */
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
} howdah_skip;
HOWDAH_API int howdah_skips_walk(howdah_bus *bus, const char *subscriber_id, bool resolved,
                                 int (*fn)(void *ctx, const howdah_skip *skip), void *ctx,
                                 howdah_error *reterr);
HOWDAH_API int howdah_skip_resolve(howdah_bus *bus, int64_t id, const char *resolution,
                                   howdah_error *reterr);

/* ---- dead letters, of subscriptions and of jobs: one number names one of either */

typedef struct howdah_dead_letter {
    size_t size;
    int64_t id;
    const char *source;        /* "sub" or "queue" */
    const char *subscriber_id; /* NULL: of a job */
    const howdah_event *event; /* the copy: stays when the log forgets it; NULL: of a job */
    const char *error;
    int64_t attempts;  /* in all, those of redrives that are over included */
    int64_t redrives;  /* that are over */
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
    const struct howdah_job *job; /* as it was pushed; NULL: its history is gone, its id is left */
} howdah_dead_letter;

typedef struct howdah_dead_letters_options {
    size_t size;
    const char *subscriber_id; /* NULL: all */
    int64_t id;                /* 0: any */
    int64_t after_id;          /* for paging */
    int64_t limit;             /* 0: all */
    bool resolved;             /* with the resolved ones */
    const char *queue;         /* only those of its jobs; NULL: all */
} howdah_dead_letters_options;

#define HOWDAH_DEAD_LETTERS_OPTIONS_INIT                                                           \
    {                                                                                              \
        sizeof(howdah_dead_letters_options), NULL, 0, 0, 0, false, NULL                            \
    }

/*
 * By id.  Texts, event and job are valid until fn returns; fn's non-zero result ends it.
 *
 * Walks that call back (this one, and those of subscriptions, skips, queues, history, bindings,
 * snapshots, purges and streams) read page by page, in the order of their key: no statement and no
 * snapshot is open while fn runs, so fn may take its time.  What is there all the time is seen
 * once; what comes, goes or changes meanwhile is seen as its page found it, or not at all.
 */
HOWDAH_API int howdah_dead_letters_walk(howdah_bus *bus, const howdah_dead_letters_options *options,
                                        int (*fn)(void *ctx, const howdah_dead_letter *dead_letter),
                                        void *ctx, howdah_error *reterr);
/*
 * Asks for another try: the subscription's owner runs its handler again, the job is pending again
 * with all its attempts (not when another one has its dedup key: it is not counted).  Of ids, or
 * (n 0) of all open dead letters of a subscription; NULL: of all open dead letters, those of jobs
 * included. For those of one queue see howdah_queue_dead_letters_redrive().  ret_n: how many.
 */
HOWDAH_API int howdah_dead_letters_redrive(howdah_bus *bus, const int64_t *ids, size_t n,
                                           const char *subscriber_id, int64_t *ret_n,
                                           howdah_error *reterr);
/* Resolves them without another try; the reason is kept.  A key that a job holds is free. */
HOWDAH_API int howdah_dead_letters_discard(howdah_bus *bus, const int64_t *ids, size_t n,
                                           const char *reason, int64_t *ret_n,
                                           howdah_error *reterr);

#ifdef __cplusplus
}
#endif

#endif
