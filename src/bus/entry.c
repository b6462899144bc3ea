/* entry.c - who may use a bus now.  See entry.h. */
#include "bus/entry.h"

#include <assert.h>

#include "base/error.h"
#include "base/log_hook.h"
#include "base/mem.h"
#include "bus/bus.h"
#include "bus/queue/queue.h"
#include "bus/subscription/subscription.h"

static _Thread_local hw_handling *handling_now;

/*
 * A number of this thread's own, not 0: the address of a thread-local.  A pthread_t is opaque and
 * need not fit an atomic integer.
 */
static uintptr_t self(void)
{
    static _Thread_local char here;

    return (uintptr_t)&here;
}

void hw_use_init(hw_use *use)
{
    atomic_init(&use->holder, 0);
    atomic_init(&use->closing, NULL);
    (void)pthread_mutex_init(&use->lock, NULL);
}

/* -------------------------------------------------------------------- sides */

/*
 * A side borrows the settings and steps of its bus and has a session of its own (I3).  Its
 * interrupt is never raised, so that the calls of a handler are not interrupted (I7).
 */
static int open_side(howdah_bus *bus, howdah_bus **ret_side, howdah_error *reterr)
{
    static hw_interrupt never = {.fd = -1}; /* I7 */
    howdah_bus *side = hw_calloc(1, sizeof *side);
    int s;

    if (!side)
        return hw_fail_no_memory(reterr);
    assert(bus->open_store && !bus->side_of);
    s = bus->open_store(bus->open_ctx, &never, &side->store, reterr);
    if (s < 0) {
        hw_free(side);
        return s;
    }
    hw_use_init(&side->use);
    side->side_of = bus;
    side->interrupt = &never;
    side->payload_bytes_max = bus->payload_bytes_max;
    side->read_batch = bus->read_batch;
    side->poll_interval_ms = bus->poll_interval_ms;
    side->wakeup = bus->wakeup;
    *ret_side = side;
    return HOWDAH_OK;
}

/* Like close_bus(), for what a side has of its own. */
static void close_side(howdah_bus *side)
{
    howdah_error err = HOWDAH_ERROR_INIT;

    hw_use_close_waiting(&side->use);
    hw_use_done(&side->use);
    if (hw_service_close(side, &err) < 0)
        hw_log(HOWDAH_LOG_WARN, "closing a handler's session: %s", err.message);
    hw_queues_close(side);
    side->store->ops->close(side->store);
    hw_free(side);
}

/*
 * I3: the handler keeps it until it returns.  Sides are kept for later handlers, so there are
 * never more than handlers needed at once.
 */
static int take_side(hw_handling *handling, howdah_error *reterr)
{
    howdah_bus *bus = handling->bus;

    if (handling->side)
        return HOWDAH_OK;
    (void)pthread_mutex_lock(&bus->use.lock);
    handling->side = bus->use.sides;
    if (handling->side)
        bus->use.sides = handling->side->side_next;
    (void)pthread_mutex_unlock(&bus->use.lock);
    if (!handling->side) {
        int s = open_side(bus, &handling->side, reterr);

        if (s < 0)
            return s;
    }
    handling->side->upcasts = bus->upcasts; /* steps may have been registered since */
    return HOWDAH_OK;
}

/* Under the lock: handlers of several runner threads return at once. */
static void give_side_back(hw_handling *handling)
{
    howdah_bus *bus = handling->bus;

    assert(handling->side->side_of == bus);
    (void)pthread_mutex_lock(&bus->use.lock);
    handling->side->side_next = bus->use.sides;
    bus->use.sides = handling->side;
    (void)pthread_mutex_unlock(&bus->use.lock);
}

/* ----------------------------------------------------------------- handlers */

/* Handlers nest when one serves another bus: each thread has a stack of them. */
void hw_handling_begin(hw_handling *handling, howdah_bus *bus, hw_store *tx, const void *about)
{
    *handling = (hw_handling){.bus = bus, .tx = tx, .about = about, .outer = handling_now};
    handling_now = handling;
}

void hw_handling_end(hw_handling *handling)
{
    assert(handling_now == handling);
    handling_now = handling->outer;
    if (handling->side)
        give_side_back(handling);
}

/* The innermost handler of this bus on this thread's stack, if any. */
static hw_handling *handling_of(const howdah_bus *bus)
{
    hw_handling *handling = handling_now;

    while (handling && handling->bus != bus)
        handling = handling->outer;
    return handling;
}

hw_store *hw_handling_tx(const howdah_bus *bus)
{
    const hw_handling *handling = bus ? handling_of(bus) : NULL;

    return handling ? handling->tx : NULL;
}

/* Whether a handler of this subscription is on this thread's stack. */
bool hw_handling_is_about(const void *about)
{
    const hw_handling *handling = handling_now;

    while (handling && handling->about != about)
        handling = handling->outer;
    return handling != NULL;
}

/* ------------------------------------------------------------------ closing */

/* I6.  The whole list is taken at once: what is added meanwhile waits for the next call. */
void hw_use_close_waiting(hw_use *use)
{
    hw_closing *closing = atomic_exchange(&use->closing, NULL);

    while (closing) {
        hw_closing *next = closing->next;

        closing->close(closing);
        closing = next;
    }
}

/* All sides are back by now: no handler runs while a bus is closed. */
void hw_use_done(hw_use *use)
{
    while (use->sides) {
        howdah_bus *side = use->sides;

        use->sides = side->side_next;
        close_side(side);
    }
    (void)pthread_mutex_destroy(&use->lock);
}

/*
 * I6.  If another thread is inside, the list takes it, without a lock: closing may come from any
 * thread at any time.
 */
void hw_close_soon(howdah_bus *bus, hw_closing *closing)
{
    HW_ENTRY(entry);

    if (hw_enter(&entry, &bus, HW_ITSELF, "closing", NULL) >= 0 && !closing->works) {
        closing->close(closing);
        return;
    }
    closing->next = atomic_load(&bus->use.closing);
    while (!atomic_compare_exchange_weak(&bus->use.closing, &closing->next, closing)) {
    }
}

void hw_closing_works(hw_closing *closing, bool works)
{
    closing->works = works;
}

/* ----------------------------------------------------------------- entering */

static int refuse(howdah_error *reterr, const char *call, const char *why, const char *advice)
{
    int s = hw_fail(reterr, HOWDAH_MISUSE, "%s: %s", call, why);

    return hw_advise(reterr, s, "%s", advice);
}

/*
 * I1: one more call of the thread that is inside, or the first one.  Only the thread that is
 * inside can have stored its own number, so the relaxed read cannot err; depth belongs to the
 * holder.
 */
static bool take(hw_use *use)
{
    uintptr_t nobody = 0;

    if (atomic_load_explicit(&use->holder, memory_order_relaxed) != self() &&
        !atomic_compare_exchange_strong_explicit(&use->holder, &nobody, self(),
                                                 memory_order_acquire, memory_order_relaxed))
        return false;
    use->depth++;
    return true;
}

/* Release: the next thread that enters sees all that this one did. */
void hw_leave(hw_entry *entry)
{
    hw_use *use = entry->bus ? &entry->bus->use : NULL;

    assert(!use || use->depth > 0);
    if (use && --use->depth == 0)
        atomic_store_explicit(&use->holder, 0, memory_order_release);
    entry->bus = NULL;
}

/* Takes first and asks afterwards: only the thread that is inside may look at service and depth. */
static int enter_itself(hw_entry *entry, howdah_bus *bus, unsigned what, const char *call,
                        howdah_error *reterr)
{
    if (!take(&bus->use))
        return refuse(reterr, call, "another thread is in a call on this bus",
                      "a bus is for one thread at a time: open one for each");
    entry->bus = bus;
    if (bus->service && bus->service->runner && !(what & HW_ENDS)) { /* I2 */
        hw_leave(entry);
        return refuse(reterr, call, "the bus belongs to its runner",
                      "use it in a handler, open another one, or stop the runner first");
    }
    if ((what & HW_DRIVES) && bus->use.depth > 1) { /* I3 */
        hw_leave(entry);
        return refuse(reterr, call, "it was called inside another call on the same bus",
                      "do it when that call has returned");
    }
    if (bus->use.depth == 1 && !(what & HW_ENDS) &&
        atomic_load_explicit(&bus->use.closing, memory_order_relaxed))
        hw_use_close_waiting(&bus->use);
    return HOWDAH_OK;
}

/*
 * The call of a handler on its own bus (I3, I4, I5).  What drives the bus is refused; what
 * belongs to the handle itself stays there; everything else goes to a side if there can be one.
 */
static int enter_inside(hw_entry *entry, hw_handling *handling, howdah_bus **bus, unsigned what,
                        const char *call, howdah_error *reterr)
{
    howdah_bus *own = handling->bus;
    int s;

    if (what & HW_DRIVES)
        return refuse(reterr, call, "it was called by a handler of the same bus",
                      "do it outside of the handler; howdah_interrupt() ends what runs");
    if ((what & HW_WRITES) && handling->tx && handling->tx->one_writer)
        return refuse(reterr, call, "it would wait for the transaction of the handler that calls",
                      "do it outside of the handler, or in one without a transaction");
    if ((what & HW_ITSELF) && !(what & HW_WAITS))
        return enter_itself(entry, own, what, call, reterr);
    if (own->open_store && !(what & HW_ITSELF)) {
        s = take_side(handling, reterr);
        if (s >= 0)
            *bus = handling->side;
        return s < 0 ? s : enter_itself(entry, *bus, what, call, reterr);
    }
    if ((what & HW_WAITS) || atomic_load(&own->use.holder) != self()) /* I5 */
        return refuse(reterr, call, "this bus has one session only, which is in use",
                      "open a bus on a file for a handler that does this");
    return enter_itself(entry, own, what, call, reterr);
}

/*
 * A call that is not made by a handler of this bus goes straight to it, even from a handler of
 * another.
 */
int hw_enter(hw_entry *entry, howdah_bus **bus, unsigned what, const char *call,
             howdah_error *reterr)
{
    hw_handling *handling;

    if (!*bus)
        return hw_fail(reterr, HOWDAH_MISUSE, "%s: the bus is NULL", call);
    handling = handling_of(*bus);
    return handling ? enter_inside(entry, handling, bus, what, call, reterr)
                    : enter_itself(entry, *bus, what, call, reterr);
}
