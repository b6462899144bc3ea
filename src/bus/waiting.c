/*
 * waiting.c - how a served bus sleeps.
 *
 * After an event the log is looked at every millisecond or two: under steady traffic nobody has to
 * be woken.  After HOLD_OFF_MS of silence the bell is armed, the log looked at once more, and the
 * pauses grow: whatever the bell does not tell, a pause finds.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "bus/subscription.h"
#include "engine/backoff.h"

#define REST_MS 20
#define HOLD_OFF_MS 50
#define STORE_BACKOFF_MAX_MS 5000

static const hw_sub_ops *ops_of(const howdah_bus *bus)
{
    return bus->store->ops->subs;
}

static int64_t next_of(const howdah_subscription *sub, int64_t now)
{
    int64_t at = INT64_MAX;

    if (atomic_load(&sub->busy))
        return INT64_MAX;
    if (sub->phase == HW_PHASE_OUT)
        return sub->take_ms;
    if (hw_service_is_owned(sub))
        at = sub->poll_ms;
    if (now < sub->trouble_ms)
        return at < sub->trouble_ms ? at : sub->trouble_ms;
    if (sub->phase == HW_PHASE_BEHIND || sub->phase == HW_PHASE_HEAD) {
        int64_t next = hw_delivery_next_ms(&sub->d);

        at = next < at ? next : at;
    }
    if (sub->phase == HW_PHASE_BEHIND)
        at = sub->rest_ms > now && sub->rest_ms < at ? sub->rest_ms : sub->rest_ms > now ? at : now;
    if (sub->redrives && (sub->phase == HW_PHASE_BEHIND || sub->phase == HW_PHASE_HEAD))
        at = now;
    return at;
}

/* When the next thing is due that no bell tells. */
static int64_t next_due(const howdah_bus *bus, int64_t now)
{
    const hw_service *service = bus->service;
    int64_t at = now + service->pause_ms;

    if (service->feed.frontier.holes_n > 0 && at > now + REST_MS)
        at = now + REST_MS;
    for (const howdah_subscription *sub = service->subs; sub; sub = sub->next) {
        int64_t next = next_of(sub, now);

        at = next < at ? next : at;
    }
    return at;
}

/* True when the log has to be looked at once more before sleeping. */
static bool arm(howdah_bus *bus, int64_t now)
{
    hw_service *service = bus->service;

    if (service->armed || service->deaf || now - service->event_ms < HOLD_OFF_MS)
        return false;
    if (ops_of(bus)->arm(bus->store, NULL) < 0)
        return false; /* the pauses find what the bell would have told */
    service->armed = true;
    service->pause_ms = 1;
    return true;
}

static void grow_pause(howdah_bus *bus, int64_t now)
{
    hw_service *service = bus->service;

    if (now - service->event_ms < HOLD_OFF_MS)
        service->pause_ms = service->pause_ms < 2 ? service->pause_ms + 1 : 2;
    else if (service->pause_ms * 2 < bus->poll_interval_ms)
        service->pause_ms *= 2;
    else
        service->pause_ms = bus->poll_interval_ms;
}

static void woken(hw_service *service)
{
    service->armed = false;
    service->pause_ms = 1;
    service->event_ms = hw_clock_mono_ms();
}

int hw_service_wait(howdah_bus *bus, int64_t at_most_ms, int extra_fd, howdah_error *reterr)
{
    hw_service *service = bus->service;
    int64_t now = hw_clock_mono_ms();
    int64_t ms;
    struct pollfd fds[3];
    int s;

    if (arm(bus, now))
        return HOWDAH_OK;
    ms = next_due(bus, now) - now;
    ms = ms < at_most_ms ? ms : at_most_ms;
    s = ops_of(bus)->wait(bus->store, 0, reterr);
    if (s == HOWDAH_OK)
        woken(service);
    if (s != HOWDAH_END || ms <= 0)
        return s < 0 ? s : HOWDAH_OK;
    fds[0] = (struct pollfd){.fd = bus->interrupt.fd, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = ops_of(bus)->fd(bus->store), .events = POLLIN};
    fds[2] = (struct pollfd){.fd = extra_fd, .events = POLLIN};
    if (poll(fds, 3, (int)ms) < 0 && errno != EINTR)
        return hw_fail(reterr, HOWDAH_FAILED, "waiting for events: %s", strerrordesc_np(errno));
    if (fds[0].revents)
        return hw_fail(reterr, HOWDAH_INTERRUPTED, "interrupted");
    grow_pause(bus, hw_clock_mono_ms());
    if (!fds[1].revents)
        return HOWDAH_OK;
    s = ops_of(bus)->wait(bus->store, 0, reterr);
    if (s == HOWDAH_OK)
        woken(service);
    return s < 0 ? s : HOWDAH_OK;
}

bool hw_service_bears(howdah_bus *bus, int status, const howdah_error *err)
{
    bool passing = status == HOWDAH_UNAVAILABLE || status == HOWDAH_TIMEOUT ||
                   status == HOWDAH_FULL || (err->flags & HOWDAH_RETRYABLE) != 0;
    hw_service *service = bus->service;

    if (!passing)
        return false;
    hw_log(HOWDAH_LOG_WARN, "subscriptions wait for the store: %s", err->message);
    (void)hw_sleep(
        &bus->interrupt,
        hw_backoff_ms(50, STORE_BACKOFF_MAX_MS, service->failures++, 20, hw_random_u32()), NULL);
    return true;
}

int howdah_fd(howdah_bus *bus)
{
    return bus && bus->service ? ops_of(bus)->fd(bus->store) : -1;
}

int howdah_timeout_ms(howdah_bus *bus)
{
    int64_t now = hw_clock_mono_ms();
    int64_t ms;

    if (!bus || !bus->service)
        return -1;
    if (arm(bus, now))
        return 0;
    ms = next_due(bus, now) - now;
    if (!bus->service->worked)
        grow_pause(bus, now);
    return ms > 0 ? (int)ms : 0;
}
