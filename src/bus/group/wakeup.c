/* wakeup.c - how a member that has nothing to do waits; see group.h I2. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "bus/group/group.h"
#include "bus/queue/queue.h"
#include "bus/subscription/subscription.h"
#include "engine/pattern.h"

/* As of subscriptions: looking is cheap while events come. */
static const hw_pause_rules pause_rules = {
    .short_us_min = 500,
    .short_us_max = 1000,
    .armed_us = 2000,
    .armed_growth = 4,
    .rare_hold_off_us = 0,
};

void hw_group_bell_init(hw_groups *groups)
{
    hw_pause_init(&groups->pause, &pause_rules, HW_PAUSE_GAP_US_MAX);
    groups->due_ms = -1;
}

void hw_group_bell_lost(howdah_bus *bus)
{
    if (!bus->groups)
        return;
    bus->groups->listener = NULL;
    bus->groups->pause.armed = false;
}

/* A session has one list of what it listens for: the others of this bus listen anew afterwards. */
static int listen_for(howdah_member *member)
{
    howdah_bus *bus = member->bus;
    hw_str pattern = hw_str_of(member->options.pattern);
    bool exact = pattern.s && hw_pattern_is_exact(pattern);

    if (bus->service) {
        bus->service->relisten = true;
        bus->service->pause.armed = false;
    }
    if (bus->queues)
        bus->queues->listens = false;
    return bus->store->ops->subs->listen(bus->store, !exact, &pattern, exact ? 1 : 0, NULL);
}

/* Listens if it does not yet.  False: this session hears nothing. */
static bool is_listening(howdah_member *member)
{
    howdah_bus *bus = member->bus;
    hw_groups *g = bus->groups;
    uint64_t session = 0;

    if (bus->wakeup == HW_WAKEUP_POLL ||
        bus->store->ops->subs->session(bus->store, &session, NULL) < 0)
        return false;
    if (g->listener == member && g->session == session)
        return !g->cannot_listen;
    g->listener = member;
    g->session = session;
    g->pause.armed = false;
    g->cannot_listen = listen_for(member) != HOWDAH_OK;
    return !g->cannot_listen;
}

bool hw_group_bell_arm(howdah_member *member)
{
    hw_pause *pause = &member->bus->groups->pause;

    if ((!pause->armed && !hw_pause_is_quiet(pause, hw_clock_mono_us())) || !is_listening(member)) {
        pause->armed = false;
        return false;
    }
    if (pause->armed || member->bus->store->ops->subs->arm(member->bus->store, NULL) < 0)
        return false;
    hw_pause_arm(pause);
    return true;
}

/* A ring that has come is taken note of, without waiting for one. */
static bool hear(howdah_bus *bus)
{
    hw_groups *g = bus->groups;

    if (!g->listener || g->cannot_listen ||
        bus->store->ops->subs->wait(bus->store, 0, NULL) != HOWDAH_OK)
        return false;
    hw_pause_ring(&g->pause);
    return true;
}

/* A mark that is gone without a ring costs one pause: what is found while it seemed armed arms it
   again. */
void hw_group_bell_heard(howdah_bus *bus)
{
    hw_pause *pause = &bus->groups->pause;

    if (pause->armed) {
        (void)hear(bus);
        pause->armed = false;
    }
    hw_pause_event(pause, hw_clock_mono_us(), true);
}

static int64_t pause_us(const howdah_bus *bus)
{
    const hw_groups *g = bus->groups;
    int64_t most = bus->poll_interval_ms * 1000;
    int64_t us = g->pause.pause_us < most ? g->pause.pause_us : most;

    return g->due_ms >= 0 && g->due_ms * 1000 < us && g->due_ms > 0 ? g->due_ms * 1000 : us;
}

int hw_group_bell_sleep(howdah_bus *bus, int64_t ms, howdah_error *reterr)
{
    hw_groups *g = bus->groups;
    int64_t us = pause_us(bus);
    struct timespec time;
    struct pollfd fds[2] = {
        {.fd = hw_bus_waits_for(bus)->fd, .events = POLLIN},
        {.fd = -1, .events = POLLIN},
    };

    if (hear(bus))
        return HOWDAH_OK;
    if (g->listener && !g->cannot_listen)
        fds[1].fd = bus->store->ops->subs->fd(bus->store);
    if (us / 1000 >= ms)
        us = ms * 1000;
    time = (struct timespec){us / 1000000, us % 1000000 * 1000};
    if (ppoll(fds, 2, &time, NULL) < 0 && errno != EINTR)
        return hw_fail(reterr, HOWDAH_FAILED, "waiting for events: %s", strerrordesc_np(errno));
    if (fds[0].revents || hw_interrupted(hw_bus_waits_for(bus)))
        return hw_fail(reterr, HOWDAH_INTERRUPTED, "interrupted");
    hw_pause_grow(&g->pause, hw_clock_mono_us(), bus->poll_interval_ms * 1000);
    if (fds[1].revents)
        (void)hear(bus);
    return HOWDAH_OK;
}

int64_t hw_group_bell_timeout_ms(howdah_bus *bus)
{
    int64_t us = hear(bus) ? 0 : pause_us(bus);

    hw_pause_grow(&bus->groups->pause, hw_clock_mono_us(), bus->poll_interval_ms * 1000);
    return (us + 999) / 1000;
}
