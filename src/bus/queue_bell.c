/*
 * queue_bell.c - how whoever waits for jobs sleeps.
 *
 *   I1  Listen, arm, look once more, sleep: what is pushed in between has rung, or is seen.
 *   I2  A bell that is not heard costs a pause, never a job: no sleep is longer than the poll
 *       interval, or than the time until the next job is due.
 *   I3  A session has one list of what it listens to.  On a bus with subscriptions these listen
 *       anew after us, and we after them.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "bus/queue.h"
#include "bus/subscription.h"
#include "engine/rules.h"

#define FIRST_PAUSE_MS 1
#define NAME_BYTES_MAX (sizeof HW_QUEUE_BELL + HW_NAME_MAX)

static bool listens(const howdah_bus *bus, const char *queue, uint64_t session)
{
    const hw_queues *q = bus->queues;

    return q->listens_to && strcmp(q->listens_to, queue) == 0 && q->session == session &&
           !(bus->service && bus->service->subs); /* I3 */
}

static int listen_to(howdah_bus *bus, const char *queue)
{
    hw_buf name = HW_BUF_INIT(NAME_BYTES_MAX);
    hw_str type;
    int s;

    hw_buf_puts(&name, HW_QUEUE_BELL);
    hw_buf_puts(&name, queue);
    type = (hw_str){hw_buf_str(&name), name.len};
    s = name.broken ? HOWDAH_END : hw_sub_ops_of(bus)->listen(bus->store, false, &type, 1, NULL);
    hw_buf_done(&name);
    if (bus->service) {
        bus->service->relisten = true;
        bus->service->armed = false;
    }
    return s;
}

/* False when this session hears nothing. */
static bool is_listening(howdah_bus *bus, const char *queue)
{
    hw_queues *q = bus->queues;
    uint64_t session = 0;

    if (bus->wakeup == HW_WAKEUP_POLL || !hw_sub_ops_of(bus) ||
        hw_sub_ops_of(bus)->session(bus->store, &session, NULL) < 0)
        return false;
    if (listens(bus, queue, session))
        return !q->deaf;
    hw_free(q->listens_to);
    q->listens_to = hw_strdup(queue);
    q->session = session;
    q->armed = false;
    q->deaf = listen_to(bus, queue) != HOWDAH_OK;
    return !q->deaf;
}

void hw_queue_bell_heard(hw_queues *queues)
{
    queues->pause_ms = FIRST_PAUSE_MS;
}

bool hw_queue_bell_arm(howdah_bus *bus, const char *queue)
{
    hw_queues *q = bus->queues;

    if (!is_listening(bus, queue)) {
        q->armed = false;
        return false;
    }
    if (q->armed)
        return false;
    q->armed = hw_sub_ops_of(bus)->arm(bus->store, NULL) >= 0;
    return q->armed;
}

int64_t hw_queue_bell_pause(const howdah_bus *bus, int64_t next_due_ms)
{
    const hw_queues *q = bus->queues;
    int64_t ms = q->armed ? bus->poll_interval_ms : q->pause_ms;

    /* Due, and yet not to be had: a key, or a limit; so not more often than the pauses. */
    if (next_due_ms >= 0 && next_due_ms < ms)
        ms = next_due_ms > q->pause_ms ? next_due_ms : q->pause_ms;
    return ms < bus->poll_interval_ms ? ms : bus->poll_interval_ms;
}

static void grow_pause(const howdah_bus *bus)
{
    hw_queues *q = bus->queues;

    q->pause_ms = q->pause_ms * 2 < bus->poll_interval_ms ? q->pause_ms * 2 : bus->poll_interval_ms;
}

static void hear(howdah_bus *bus)
{
    hw_queues *q = bus->queues;

    if (q->deaf || !q->listens_to)
        return;
    /* A session that is gone is the next claim's to tell. */
    if (hw_sub_ops_of(bus)->wait(bus->store, 0, NULL) == HOWDAH_OK) {
        q->armed = false;
        q->pause_ms = FIRST_PAUSE_MS;
    }
}

int hw_queue_bell_sleep(howdah_bus *bus, int64_t ms, int extra_fd, howdah_error *reterr)
{
    const hw_queues *q = bus->queues;
    bool was_armed = q->armed;
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    struct pollfd fds[3] = {
        {.fd = bus->interrupt.fd, .events = POLLIN},
        {.fd = q->deaf || !q->listens_to ? -1 : hw_sub_ops_of(bus)->fd(bus->store),
         .events = POLLIN},
        {.fd = extra_fd, .events = POLLIN},
    };

    hear(bus); /* what came with the answer to a statement makes no descriptor readable */
    if (was_armed && !q->armed)
        return HOWDAH_OK;
    if (ppoll(fds, 3, &time, NULL) < 0 && errno != EINTR)
        return hw_fail(reterr, HOWDAH_FAILED, "waiting for jobs: %s", strerrordesc_np(errno));
    if (hw_interrupted(&bus->interrupt))
        return hw_fail(reterr, HOWDAH_INTERRUPTED, "interrupted");
    grow_pause(bus);
    if (fds[1].revents)
        hear(bus);
    return was_armed && !q->armed ? HOWDAH_OK : HOWDAH_END;
}
