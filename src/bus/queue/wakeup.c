/*
 * wakeup.c - how a worker, or a claim that waits, sleeps.
 *
 *   I1  Listen, arm, look once more, sleep: what is pushed in between has rung, or is seen.
 *   I2  A bell that is not heard costs a pause, never a job: no sleep is longer than the poll
 *       interval, or than the time until the next job is due.
 *   I3  While jobs come fast, the queue is looked at every millisecond and the bell is not
 *       armed: a push does not pay for a notification that nobody needs.  Where they are rare,
 *       or none came for a while, it is armed as soon as there is nothing to do
 *       (engine/pause.h).
 *   I4  A push that takes the mark away and rolls back, or stays open, rings nobody.  So a
 *       worker that finds jobs while it believes itself armed arms again: a lost ring costs
 *       one pause, once.
 *   I5  A session has one list of what it listens to.  On a bus with subscriptions these listen
 *       anew after us, and we after them.
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "bus/group/group.h"
#include "bus/queue/queue.h"
#include "bus/subscription/subscription.h"

/* Pauses are whole milliseconds. */
static const hw_pause_rules pause_rules = {
    .short_us_min = 1000,
    .short_us_max = 1000,
    .armed_us = 1000,
    .armed_growth = 2,
    .rare_hold_off_us = 0,
};

/* Whether the session still listens to this queue: a new session listens to nothing, and
   subscriptions of the same bus may have replaced the list. */
static bool listens(const howdah_bus *bus, int64_t queue_id, uint64_t session)
{
    const hw_queues *q = bus->queues;

    return q->listens && q->listens_to == queue_id && q->session == session &&
           !(bus->service && bus->service->subs); /* I5 */
}

/*
 * The bell of a queue is the channel of a type of that name.  Subscriptions of the bus have to
 * listen anew afterwards (I5).  Queue 0 is one that does not exist yet: then the general channel.
 */
static int listen_to(howdah_bus *bus, int64_t queue_id)
{
    char name[32];
    hw_str type;

    (void)snprintf(name, sizeof name, "queue.%" PRId64, queue_id);
    type = hw_str_of(name);
    if (bus->service) {
        bus->service->relisten = true;
        bus->service->pause.armed = false;
    }
    hw_group_bell_lost(bus);
    return hw_sub_ops_of(bus)->listen(bus->store, queue_id == 0, &type, queue_id == 0 ? 0 : 1,
                                      NULL);
}

/* Listens if it does not yet.  False: this session hears nothing, and only the pauses find jobs. */
static bool is_listening(howdah_bus *bus, int64_t queue_id)
{
    hw_queues *q = bus->queues;
    uint64_t session = 0;

    if (bus->wakeup == HW_WAKEUP_POLL || !hw_sub_ops_of(bus) ||
        hw_sub_ops_of(bus)->session(bus->store, &session, NULL) < 0)
        return false;
    if (listens(bus, queue_id, session))
        return !q->cannot_listen;
    q->listens = true;
    q->listens_to = queue_id;
    q->session = session;
    q->pause.armed = false;
    q->cannot_listen = listen_to(bus, queue_id) != HOWDAH_OK;
    return !q->cannot_listen;
}

void hw_queue_bell_init(hw_queues *queues)
{
    hw_pause_init(&queues->pause, &pause_rules, HW_PAUSE_GAP_US_MAX);
}

/* True: the bell was armed just now, and the queue has to be looked at once more (I1). */
bool hw_queue_bell_arm(howdah_bus *bus, int64_t queue_id)
{
    hw_pause *pause = &bus->queues->pause;

    if ((!pause->armed && !hw_pause_is_quiet(pause, hw_clock_mono_us())) || /* I3 */
        !is_listening(bus, queue_id)) {
        pause->armed = false;
        return false;
    }
    if (pause->armed || hw_sub_ops_of(bus)->arm(bus->store, NULL) < 0)
        return false;
    hw_pause_arm(pause);
    return true;
}

int64_t hw_queue_bell_pause(const howdah_bus *bus, int64_t next_due_ms)
{
    const hw_pause *pause = &bus->queues->pause;
    int64_t pause_ms = pause->pause_us / 1000;
    int64_t ms = pause->armed ? bus->poll_interval_ms : pause_ms;

    /* Due, and yet not to be had: a key, or a limit; so not more often than the pauses. */
    if (next_due_ms == 0)
        ms = pause_ms;
    else if (next_due_ms > 0 && next_due_ms < ms)
        ms = next_due_ms;
    return ms < bus->poll_interval_ms ? ms : bus->poll_interval_ms;
}

/* A ring that has come is taken note of, without waiting for one. */
static void hear(howdah_bus *bus)
{
    hw_queues *q = bus->queues;

    if (q->cannot_listen || !q->listens)
        return;
    /* A session that is gone is the next claim's to tell. */
    if (hw_sub_ops_of(bus)->wait(bus->store, 0, NULL) == HOWDAH_OK)
        hw_pause_ring(&q->pause);
}

/* Jobs were found. */
void hw_queue_bell_heard(howdah_bus *bus)
{
    hw_pause *pause = &bus->queues->pause;
    int64_t now_us = hw_clock_mono_us();

    if (pause->armed) { /* I4; a ring that came along is not heard again later */
        hear(bus);
        pause->armed = false;
    }
    hw_pause_event(pause, now_us, true);
}

/*
 * HOWDAH_OK: the bell rang; HOWDAH_END: it did not, or the time is over, or extra_fd is readable.
 */
int hw_queue_bell_sleep(howdah_bus *bus, int64_t ms, int extra_fd, howdah_error *reterr)
{
    const hw_queues *q = bus->queues;
    bool was_armed = q->pause.armed;
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    struct pollfd fds[3] = {
        {.fd = hw_bus_waits_for(bus)->fd, .events = POLLIN},
        {.fd = q->cannot_listen || !q->listens ? -1 : hw_sub_ops_of(bus)->fd(bus->store),
         .events = POLLIN},
        {.fd = extra_fd, .events = POLLIN},
    };

    assert(ms >= 0);
    hear(bus); /* what came with the answer to a statement makes no descriptor readable */
    if (was_armed && !q->pause.armed)
        return HOWDAH_OK;
    if (ppoll(fds, 3, &time, NULL) < 0 && errno != EINTR)
        return hw_fail(reterr, HOWDAH_FAILED, "waiting for jobs: %s", strerrordesc_np(errno));
    if (hw_interrupted(hw_bus_waits_for(bus)))
        return hw_fail(reterr, HOWDAH_INTERRUPTED, "interrupted");
    hw_pause_grow(&bus->queues->pause, hw_clock_mono_us(), bus->poll_interval_ms * 1000);
    if (fds[1].revents)
        hear(bus);
    return was_armed && !q->pause.armed ? HOWDAH_OK : HOWDAH_END;
}
