/*
 * wakeup.c - how a served bus sleeps.
 *
 * When the bell is armed, and how long pauses are, is engine/pause.h's matter.  While events come,
 * the log is looked at every fraction of a millisecond; once the bell is armed, it is looked at
 * once more.
 *
 * The mark of an armed bell can be gone without a ring: a writer that takes it away and rolls back,
 * or stays open, rings nobody.  So a reader that finds events that should have rung, after a look
 * that found none, arms again: a lost ring costs one pause, once.
 */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log_hook.h"
#include "base/random.h"
#include "bus/group/group.h"
#include "bus/subscription/subscription.h"
#include "engine/backoff.h"
#include "engine/pattern.h"

/* A look that is overdue waits for somebody who reads the edge; meanwhile the bus looks this
   often. */
#define REST_US 20000
#define STORE_BACKOFF_MAX_MS 5000

/* Looking is cheap while events come, and a short pause is a short delay. */
static const hw_pause_rules pause_rules = {
    .short_us_min = 250,
    .short_us_max = 1000,
    .armed_us = 2000,
    .armed_growth = 4,
    .rare_hold_off_us = HW_PAUSE_HOLD_OFF_US,
};

void hw_service_wait_init(hw_service *service)
{
    hw_pause_init(&service->pause, &pause_rules, 0);
}

/*
 * When this subscription has to be looked at, in ms of the monotonic clock.  While it has trouble
 * with the store, work that is due has to wait: only its lease and the end of the trouble count.
 */
static int64_t next_of(const howdah_subscription *sub, int64_t now)
{
    int64_t at = INT64_MAX;

    if (hw_sub_is_busy(sub)) /* its lease is renewed meanwhile */
        return hw_service_is_owned(sub) ? sub->schedule.poll_ms : INT64_MAX;
    if (hw_sub_state_of(sub) == HW_STATE_OUT)
        return sub->schedule.take_ms;
    if (hw_service_is_owned(sub))
        at = sub->schedule.poll_ms;
    if (now < sub->schedule.trouble_ms)
        return at < sub->schedule.trouble_ms ? at : sub->schedule.trouble_ms;
    if (hw_sub_is_active(sub)) {
        int64_t next = hw_delivery_next_ms(&sub->d);

        at = next < at ? next : at;
    }
    if (hw_sub_is_catching_up(sub))
        at = sub->schedule.rest_ms > now && sub->schedule.rest_ms < at ? sub->schedule.rest_ms
             : sub->schedule.rest_ms > now                             ? at
                                                                       : now;
    if (sub->redrives && hw_sub_is_active(sub))
        at = now;
    return at;
}

/* When the next thing is due that no bell tells. */
static int64_t next_due_us(howdah_bus *bus, int64_t now_us)
{
    const hw_service *service = bus->service;
    int64_t look_ms = hw_holes_next_ms(&service->reader);
    int64_t at = now_us + service->pause.pause_us;

    if (look_ms < at / 1000) /* one that is overdue waits for somebody who reads the edge */
        at = look_ms * 1000 > now_us ? look_ms * 1000 : now_us + REST_US;
    if (service->routes && service->routes_ms < at / 1000)
        at = service->routes_ms * 1000;
    for (const howdah_subscription *sub = service->subs; sub; sub = sub->next) {
        int64_t next = next_of(sub, now_us / 1000);

        if (next < at / 1000)
            at = next * 1000;
    }
    if (service->shared) {
        int64_t next = hw_shared_next_us(bus, now_us);

        at = next < at ? next : at;
    }
    return at;
}

/* True when the bell was armed just now: then the log has to be looked at once more before
   sleeping, because what committed before the mark was set rang nobody (loop.c I2). */
static bool arm(howdah_bus *bus, int64_t now_us)
{
    hw_service *service = bus->service;

    if (service->pause.armed || service->cannot_listen ||
        !hw_pause_is_quiet(&service->pause, now_us) || (!service->subs && hw_shared_is_awake(bus)))
        return false;
    if (hw_sub_ops_of(bus)->arm(bus->store, NULL) < 0)
        return false; /* the pauses find what the bell would have told */
    assert(!service->pause.armed);
    hw_pause_arm(&service->pause);
    service->in_vain = false;
    hw_shared_wake(bus);
    return true;
}

/* A ring uses the mark up, and is a sign that events come: pauses become short. */
static void woken(howdah_bus *bus)
{
    hw_pause_ring(&bus->service->pause);
    hw_pause_event(&bus->service->pause, hw_clock_mono_us(), false);
    hw_shared_wake(bus);
}

bool hw_service_hear(howdah_bus *bus)
{
    if (hw_sub_ops_of(bus)->wait(bus->store, 0, NULL) != HOWDAH_OK)
        return false; /* a session that is gone is the next pass's to tell */
    woken(bus);
    return true;
}

/* Whether an event of the newest page rings on a channel that is listened to.  Channels of exact
   types ring for their type alone. */
static bool should_have_rung(const howdah_bus *bus)
{
    const hw_page *page = hw_log_reader_page(&bus->service->reader, bus->service->reader.pages);

    for (const howdah_subscription *sub = bus->service->subs; page && sub; sub = sub->next) {
        hw_str pattern = hw_str_of(sub->pattern);

        if (page->n > 0 && !(sub->pattern && hw_pattern_is_exact(pattern)))
            return true;
        for (size_t i = 0; i < page->n; i++)
            if (hw_str_equal(page->events[i].type, pattern))
                return true;
    }
    return false;
}

/* Where events are rare the bell is armed at once: the next pass is the look that has to follow. */
void hw_service_heard(howdah_bus *bus, bool arrived)
{
    hw_service *service = bus->service;
    int64_t now_us = hw_clock_mono_us();

    if (arrived && service->pause.armed && service->in_vain && should_have_rung(bus)) {
        (void)hw_service_hear(bus); /* a ring that came along is not heard again later */
        service->pause.armed = false;
    }
    hw_pause_event(&service->pause, now_us, arrived);
    if (arrived)
        (void)arm(bus, now_us);
}

/* If the bell seemed armed, its mark may be gone: it is armed anew. */
void hw_service_found(howdah_bus *bus)
{
    hw_pause *pause = &bus->service->pause;

    if (pause->armed) {
        (void)hw_service_hear(bus); /* a ring that came along is not heard again later */
        pause->armed = false;
    }
    hw_pause_event(pause, hw_clock_mono_us(), true);
}

/* A sleep without news makes the next one longer, up to poll_interval. */
static void grow_pause(howdah_bus *bus, int64_t now_us)
{
    hw_pause_grow(&bus->service->pause, now_us, bus->poll_interval_ms * 1000);
}

/* A notification that came along with the answer to a statement makes no descriptor readable, so
   the store is asked before the descriptors are waited for. */
int hw_service_wait(howdah_bus *bus, int64_t at_most_ms, int extra_fd, howdah_error *reterr)
{
    int64_t now_us = hw_clock_mono_us();
    int64_t us;
    struct timespec time;
    struct pollfd fds[3];
    int s;

    if (arm(bus, now_us))
        return HOWDAH_OK;
    us = next_due_us(bus, now_us) - now_us;
    if (us / 1000 >= at_most_ms)
        us = at_most_ms * 1000;
    s = hw_sub_ops_of(bus)->wait(bus->store, 0, reterr);
    if (s == HOWDAH_OK)
        woken(bus);
    if (s != HOWDAH_END || us <= 0)
        return s < 0 ? s : HOWDAH_OK;
    fds[0] = (struct pollfd){.fd = hw_bus_waits_for(bus)->fd, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = hw_sub_ops_of(bus)->fd(bus->store), .events = POLLIN};
    fds[2] = (struct pollfd){.fd = extra_fd, .events = POLLIN};
    time = (struct timespec){us / 1000000, us % 1000000 * 1000};
    if (ppoll(fds, 3, &time, NULL) < 0 && errno != EINTR)
        return hw_fail(reterr, HOWDAH_FAILED, "waiting for events: %s", strerrordesc_np(errno));
    if (fds[0].revents)
        return hw_fail(reterr, HOWDAH_INTERRUPTED, "interrupted");
    grow_pause(bus, hw_clock_mono_us());
    if (!fds[1].revents)
        return HOWDAH_OK;
    s = hw_sub_ops_of(bus)->wait(bus->store, 0, reterr);
    if (s == HOWDAH_OK)
        woken(bus);
    return s < 0 ? s : HOWDAH_OK;
}

/* Errors after which a later pass may succeed. */
bool hw_service_passes(int status, const howdah_error *err)
{
    /* RETRYABLE: also READ_ONLY, of a server that is about to be promoted (pg/conn.c I1).  LIMIT:
       more holes than are kept; they close when the transactions that made them end. */
    return status == HOWDAH_UNAVAILABLE || status == HOWDAH_TIMEOUT || status == HOWDAH_FULL ||
           status == HOWDAH_LIMIT || (err->flags & HOWDAH_RETRYABLE) != 0;
}

bool hw_service_retries_after(howdah_bus *bus, int status, const howdah_error *err)
{
    hw_service *service = bus->service;

    if (!hw_service_passes(status, err))
        return false;
    hw_log(HOWDAH_LOG_WARN, "subscriptions wait for %s: %s",
           status == HOWDAH_LIMIT ? "transactions to end" : "the store", err->message);
    (void)hw_sleep(
        hw_bus_waits_for(bus),
        hw_backoff_ms(50, STORE_BACKOFF_MAX_MS, service->failures++, 20, hw_random_u32()), NULL);
    return true;
}

/* For a caller with an event loop of its own.  It can change when the store connects anew. */
int howdah_fd(howdah_bus *bus)
{
    HW_ENTRY(entry);

    if (hw_enter(&entry, &bus, HW_DRIVES, "howdah_fd", NULL) < 0 || !(bus->service || bus->groups))
        return -1;
    return hw_sub_ops_of(bus)->fd(bus->store);
}

/* With howdah_fd() for a caller's own loop: what howdah_run() would sleep now.  The pause grows
   with each question, because the caller sleeps between two. */
int howdah_timeout_ms(howdah_bus *bus)
{
    HW_ENTRY(entry);
    int64_t now_us = hw_clock_mono_us();
    int64_t us;

    if (hw_enter(&entry, &bus, HW_DRIVES, "howdah_timeout_ms", NULL) < 0)
        return -1;
    if (!bus->service)
        return bus->groups ? (int)hw_group_bell_timeout_ms(bus) : -1;
    if (bus->service->worked || hw_service_hear(bus) || arm(bus, now_us))
        return 0;
    us = next_due_us(bus, now_us) - now_us;
    grow_pause(bus, now_us);
    if (bus->groups) {
        int64_t members_us = hw_group_bell_timeout_ms(bus) * 1000;

        us = members_us < us ? members_us : us;
    }
    return us > 0 ? (int)((us + 999) / 1000) : 0;
}
