/* bus.h - the inside of a bus handle. */
#ifndef HW_BUS_BUS_H
#define HW_BUS_BUS_H

#include <howdah/howdah.h>

#include "bus/entry.h"
#include "bus/settings.h"
#include "store/store.h"

/* One more session of the same bus; interrupt may be NULL. */
typedef int (*hw_open_fn)(void *ctx, const hw_interrupt *interrupt, hw_store **ret_store,
                          howdah_error *reterr);

struct hw_service;
struct hw_queues;
struct hw_groups;

struct howdah_bus {
    hw_store *store;
    hw_use use;              /* who is inside: entry.h */
    hw_interrupt *interrupt; /* of a side: never raised, see hw_bus_waits_for() */
    hw_interrupt waits;      /* raised with it, and when a runner or worker is stopped */
    size_t payload_bytes_max;
    size_t read_batch;
    int64_t poll_interval_ms;
    enum { HW_WAKEUP_AUTO, HW_WAKEUP_NOTIFY, HW_WAKEUP_POLL } wakeup;
    char *masked_url;
    howdah_settings *settings; /* with url: for further sessions; NULL over a store given */
    char *url;
    hw_open_fn open_store; /* NULL: there is one session only */
    void *open_ctx;
    struct hw_service *service;   /* subscriptions; NULL before the first */
    struct hw_queues *queues;     /* the work queue; NULL before its first use */
    struct hw_groups *groups;     /* members of groups; NULL before the first */
    struct hw_upcasts *upcasts;   /* NULL: no step is registered */
    struct howdah_bus *side_of;   /* NULL: it is no side */
    struct howdah_bus *side_next; /* of the sides that nobody has */
};

/* What ends a wait.  A handler that runs finishes what it does, but it does not wait any longer. */
static inline const hw_interrupt *hw_bus_waits_for(const howdah_bus *bus)
{
    return bus->side_of ? &bus->side_of->waits : bus->interrupt;
}

/* Ends the waits of handlers, now and from now on, or lets them wait again. */
void hw_waits_end(howdah_bus *bus, bool end);

/* What a session may wait for, beyond what is set; NULL: as set. */
typedef struct hw_bus_limits {
    int64_t lock_timeout_ms;    /* see hw_config */
    int64_t connect_timeout_ms; /* less, if less is set */
} hw_bus_limits;

/* As howdah_open(). */
int hw_bus_open(const char *url, const howdah_settings *settings, const hw_bus_limits *limits,
                howdah_bus **ret_bus, howdah_error *reterr);

/* A bus over a store that exists already (a shim, a caller's connection); takes it over. */
int hw_bus_over(hw_store *store, const howdah_settings *settings, howdah_bus **ret_bus,
                howdah_error *reterr);

/* Host, process and a random number: how a handle signs what it owns, for people. */
#define HW_SIGNATURE_SIZE 96
void hw_bus_sign(char ret_text[HW_SIGNATURE_SIZE]);

/* Sleeps up to ms, less when interrupted: HOWDAH_OK or HOWDAH_INTERRUPTED. */
int hw_sleep(const hw_interrupt *interrupt, int64_t ms, howdah_error *reterr);

/* The whole of append over any store: checks, plans, recognises repeated ids, retries lost races.
 */
int hw_append_to(hw_store *store, const hw_interrupt *interrupt, size_t payload_bytes_max,
                 const howdah_event *const *events, size_t n, const howdah_append_options *options,
                 const hw_import_place *mark, howdah_position *ret_positions, howdah_error *reterr);

/* The parts of it that a publisher uses by itself: what is judged without the store, */
int hw_append_check(const howdah_event *const *events, size_t n, int64_t expected, bool correction,
                    size_t payload_bytes_max, const howdah_position *ret_positions,
                    howdah_error *reterr);
/* whether a stored event with the id of this one, the index-th of its call, is this one, */
int hw_append_match(const howdah_event *event, size_t index, const howdah_event *stored,
                    howdah_position *ret_position, howdah_error *reterr);
/* and how positions, which get the ids, are handed to the caller (NULL: not). */
void hw_append_give(const howdah_event *const *events, size_t n, howdah_position *positions,
                    howdah_position *ret_positions);

/*
 * A correction whose record is ready, as the next revision of its family: CONFLICT when there is a
 * newer one by now, which is for the caller to look up.
 */
int hw_append_correction(hw_store *store, const hw_interrupt *interrupt, size_t payload_bytes_max,
                         const howdah_event *event, howdah_position *ret_position,
                         howdah_error *reterr);

/*
 * In the transaction of the handler that calls (entry.h I4); each works in a savepoint of its own,
 * so that what is refused leaves the transaction as it was.
 */
int hw_join_append(const howdah_bus *bus, hw_store *tx, const howdah_event *const *events, size_t n,
                   const howdah_append_options *options, howdah_position *ret_positions,
                   howdah_error *reterr);
int hw_join_correct(const howdah_bus *bus, hw_store *tx, const howdah_correction *correction,
                    howdah_position *ret_position, howdah_error *reterr);
int hw_join_push(const howdah_bus *bus, hw_store *tx, const char *queue,
                 const howdah_new_job *const *jobs, size_t n, howdah_pushed *ret_pushed,
                 howdah_error *reterr);
int hw_join_complete(const howdah_bus *bus, hw_store *tx, const howdah_job_ack *ack,
                     howdah_error *reterr);

/* The whole of a correction over any store. */
int hw_correct_on(hw_store *store, const hw_interrupt *interrupt, size_t payload_bytes_max,
                  const howdah_correction *correction, howdah_position *ret_position,
                  howdah_error *reterr);

#endif
