/*
 * howdah_groups.h - share a subscription: part of howdah.h, which includes it.
 *
 * A shared subscription is a *group*: any number of members (threads, processes, machines, and
 * sessions that call the SQL functions) take its events at the same time.  Every event that matches
 * is handled at least once, by one member.  The events of one stream come in order, and one member
 * at a time has them; different streams go on at the same time.
 *
 * A member takes a *batch* under a lease, handles its events, and acks them.  Until the lease ends
 * nobody else has them.  When a member dies, its events come again when its lease ends.
 *
 *   take events             howdah_member_new(), howdah_member_fetch(), howdah_member_exchange()
 *   say what became of them howdah_batch_ack(), howdah_batch_ack_upto(), howdah_batch_nack()
 *   need more time, or none howdah_batch_extend(), howdah_batch_release()
 *   exactly once            howdah_pg_batch_ack(), howdah_sqlite_batch_ack()
 *   for members elsewhere   howdah_group_create(), howdah_group_fetch(), howdah_group_ack(), ...
 *   operate                 howdah_members_walk(), howdah_subscription_unshare(), and all that
 *                           howdah_subscriptions.h has for operators
 *
 *     howdah_member_options o = HOWDAH_MEMBER_OPTIONS_INIT;
 *     o.subscriber_id = "mails";
 *     if (howdah_member_new(bus, &o, &member, &err) < 0)
 *         die(&err);
 *     while (howdah_member_fetch(member, -1, &batch, &err) == HOWDAH_OK) {
 *         for (size_t i = 0; i < howdah_batch_size(batch); i++)
 *             send_mail(howdah_batch_event(batch, i));
 *         s = howdah_batch_ack(batch, &err);
 *         howdah_batch_free(batch);
 *     }
 *
 * The handler interface does the same by itself: howdah_subscribe() with HOWDAH_INSTANCE_SHARED.
 */
#include <howdah/howdah.h> /* before the guard: the other parts need what this one declares */

#ifndef HOWDAH_HOWDAH_GROUPS_H
#define HOWDAH_HOWDAH_GROUPS_H

#ifdef __cplusplus
extern "C" {
#endif

typedef struct howdah_member howdah_member;
typedef struct howdah_batch howdah_batch;

#define HOWDAH_BATCH_MAX 10000 /* events */

typedef struct howdah_member_options {
    size_t size;
    const char *subscriber_id; /* required, 1 to 255 bytes */
    const char *member;        /* a name for people, up to 255 bytes; NULL: host and process */
    int64_t max_events;        /* 100: of a batch, 1 to HOWDAH_BATCH_MAX */
    int64_t lease_ms;          /* 30000: 1 ms to 24 hours */
    /* What follows is for a new group; one that exists stays as it is.  A filter that is not the
       group's is CONFLICT. */
    const char *pattern;        /* NULL: all */
    const char *stream;         /* only this stream; NULL: all */
    bool originals_only;        /* no corrections: first revisions only */
    int64_t start;              /* HOWDAH_FROM_START, HOWDAH_FROM_END, or N: events after N */
    howdah_order_key key;       /* HOWDAH_ORDER_BY_STREAM */
    howdah_on_fail on_fail;     /* HOWDAH_FAIL_OPEN */
    int64_t max_retries;        /* 3: tries after the first one */
    int64_t retry_delay_ms;     /* 1000: before the second try; doubled each time, +- a tenth */
    int64_t max_retry_delay_ms; /* 60000: the longest */
    howdah_ordering ordering;   /* HOWDAH_ORDERING_AHEAD */
    howdah_gap_policy gap_policy;
    int64_t gap_timeout_ms; /* 5000 */
    int64_t lanes;          /* 16: how many batches can be out at once; a power of two up to 1024 */
} howdah_member_options;

#define HOWDAH_MEMBER_OPTIONS_INIT                                                                 \
    {                                                                                              \
        sizeof(howdah_member_options), NULL, NULL, 100, 30000, NULL, NULL, false,                  \
            HOWDAH_FROM_START, HOWDAH_ORDER_BY_STREAM, HOWDAH_FAIL_OPEN, 3, 1000, 60000,           \
            HOWDAH_ORDERING_AHEAD, HOWDAH_GAP_PROOF, 5000, 16                                      \
    }

/*
 * Joins a group; makes it first if there is none.  A subscription that no process runs becomes
 * shared, and continues at its place.  CONFLICT while a process runs it, or when the group has
 * another filter.  A bus can have several members.
 */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_member_new(howdah_bus *bus,
                                                   const howdah_member_options *options,
                                                   howdah_member **ret_member,
                                                   howdah_error *reterr);
/* Batches that it has taken stay its own: ack, release or free them. */
HOWDAH_API void howdah_member_free(howdah_member *member);

/*
 * Takes the next batch.  HOWDAH_END when there was nothing to take for wait_ms (0: only looks; -1:
 * waits until there is something, or howdah_interrupt()).  A paused or halted subscription gives
 * nothing out.
 *
 * For your own event loop: when howdah_member_fetch() with wait_ms 0 has returned HOWDAH_END, call
 * it again when howdah_fd() is readable, or after howdah_timeout_ms().
 */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_member_fetch(howdah_member *member, int64_t wait_ms,
                                                     howdah_batch **ret_batch,
                                                     howdah_error *reterr);

/*
 * As howdah_batch_ack(done) and howdah_member_fetch(), in one round trip: done is acked and freed
 * when this returns HOWDAH_OK or HOWDAH_END.  Any error leaves it to you, acked or not: with
 * HOWDAH_OUTCOME_UNKNOWN nobody knows; else call this, or howdah_batch_ack(), once more, which does
 * nothing if it is acked.  LOST: it was not acked, and nothing was taken.
 *
 * On PostgreSQL small batches that follow each other share the memory of what was read with the
 * first one, up to 1,000 events or 8 MiB: it is free when the last of them is.
 */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_member_exchange(howdah_member *member, howdah_batch *done,
                                                        int64_t wait_ms, howdah_batch **ret_batch,
                                                        howdah_error *reterr);

/* ---- a batch */

HOWDAH_API size_t howdah_batch_size(const howdah_batch *batch);
/* In the order of their numbers; valid until the batch is freed.  NULL: there is none. */
HOWDAH_API const howdah_event *howdah_batch_event(const howdah_batch *batch, size_t i);
/* Names it, for the calls in your own transaction.  Valid until it is freed. */
HOWDAH_API const char *howdah_batch_token(const howdah_batch *batch);
/* 1 for events that nobody has tried before; more when a lease ran out or an event failed. */
HOWDAH_API int howdah_batch_attempt(const howdah_batch *batch);

/*
 * All of its events are handled, or those up to a number: then the others stay leased.  An event
 * for which nack was called, and the later ones of its stream, come again nevertheless.  LOST: the
 * lease ended, and another member has, or had, the events; nothing was changed.
 */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_batch_ack(howdah_batch *batch, howdah_error *reterr);
HOWDAH_API HOWDAH_MUST_CHECK int howdah_batch_ack_upto(howdah_batch *batch, int64_t global_sequence,
                                                       howdah_error *reterr);
/*
 * An event has failed.  It is tried again after retry_after_ms (-1: by the group's schedule), and
 * the later events of its stream wait for it: leave out those that are in this batch.  After the
 * last try on_fail decides.  The other events are not concerned: ack them.  (Of a batch that is
 * tried again, which is of one stream, what comes before the event is handled, and the batch is
 * over: what else is said of it changes nothing.) error may be NULL; its first 500 bytes are kept.
 * INVALID when the event is not in the batch; LOST.
 */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_batch_nack(howdah_batch *batch, int64_t global_sequence,
                                                   const char *error, int64_t retry_after_ms,
                                                   howdah_error *reterr);
/* It is yours for lease_ms from now (0: as long as the member's options say).  LOST. */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_batch_extend(howdah_batch *batch, int64_t lease_ms,
                                                     howdah_error *reterr);
/* What is not acked is free again at once, and the try does not count.  LOST. */
HOWDAH_API int howdah_batch_release(howdah_batch *batch, howdah_error *reterr);
/* Frees the memory, before the bus is closed.  What was neither acked nor released comes again when
   the lease ends. */
HOWDAH_API void howdah_batch_free(howdah_batch *batch);

/* ---- for members that are elsewhere: a service between them and the store */

/*
 * The same without a member and without a batch in memory: a batch is named by its token, and any
 * bus of the same store will do.  Nothing waits.
 *
 * howdah_group_create() makes the group if there is none, as howdah_member_new() does; max_events,
 * lease_ms and member of the options do not matter.  howdah_group_fetch() is NOT_FOUND without the
 * group, and HOWDAH_END when there is nothing to take now.  member may be NULL.  Its batch can be
 * acked with howdah_batch_ack() and freed, or only freed: then its lease goes on, and whoever has
 * the token speaks for it.  upto: the last event that is handled; 0: all.
 */
HOWDAH_API int howdah_group_create(howdah_bus *bus, const howdah_member_options *options,
                                   bool *ret_created, howdah_error *reterr);
HOWDAH_API HOWDAH_MUST_CHECK int howdah_group_fetch(howdah_bus *bus, const char *subscriber_id,
                                                    const char *member, int64_t max_events,
                                                    int64_t lease_ms, howdah_batch **ret_batch,
                                                    howdah_error *reterr);
HOWDAH_API HOWDAH_MUST_CHECK int howdah_group_ack(howdah_bus *bus, const char *subscriber_id,
                                                  const char *token, int64_t upto,
                                                  howdah_error *reterr);
HOWDAH_API HOWDAH_MUST_CHECK int howdah_group_nack(howdah_bus *bus, const char *subscriber_id,
                                                   const char *token, int64_t global_sequence,
                                                   const char *error, int64_t retry_after_ms,
                                                   howdah_error *reterr);
HOWDAH_API HOWDAH_MUST_CHECK int howdah_group_extend(howdah_bus *bus, const char *subscriber_id,
                                                     const char *token, int64_t lease_ms,
                                                     howdah_error *reterr);
HOWDAH_API HOWDAH_MUST_CHECK int howdah_group_release(howdah_bus *bus, const char *subscriber_id,
                                                      const char *token, howdah_error *reterr);

/* ---- operate */

/* A member that has batches. */
typedef struct howdah_member_info {
    size_t size;
    const char *member; /* "": it has no name */
    int64_t batches;
    int64_t events;        /* in them, and not acked */
    int64_t oldest_age_ms; /* since it took the oldest of them */
} howdah_member_info;

#define HOWDAH_MEMBER_INFO_INIT                                                                    \
    {                                                                                              \
        sizeof(howdah_member_info), NULL, 0, 0, 0                                                  \
    }

/* The members that have batches, by name.  NOT_FOUND; CONFLICT: the subscription is not shared. */
HOWDAH_API int howdah_members_walk(howdah_bus *bus, const char *subscriber_id,
                                   int (*fn)(void *ctx, const howdah_member_info *info), void *ctx,
                                   howdah_error *reterr);
/*
 * A shared subscription becomes one of a single process, and continues at its place.  CONFLICT
 * while members have batches, or when it is not shared.
 */
HOWDAH_API int howdah_subscription_unshare(howdah_bus *bus, const char *subscriber_id,
                                           howdah_error *reterr);

#ifdef __cplusplus
}
#endif

#endif
