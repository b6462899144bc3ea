/* bus.c - opening and closing a bus; interrupts. */
#include "bus/bus.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log_hook.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/text.h"
#include "bus/group/group.h"
#include "bus/log/upcast.h"
#include "bus/queue/queue.h"
#include "bus/subscription/subscription.h"

/*
 * All of a bus but its store.  Two eventfds: one for everything that the bus does, one for the
 * waits of its handlers, which end also when a runner or worker is stopped.
 */
static int new_bus(const howdah_settings *settings, howdah_bus **ret_bus, howdah_error *reterr)
{
    const char *wakeup = hw_settings_text(settings, HW_SETTING_wakeup);
    howdah_bus *bus = hw_calloc(1, sizeof *bus);

    if (!bus)
        return hw_fail_no_memory(reterr);
    bus->interrupt = hw_calloc(1, sizeof *bus->interrupt);
    if (!bus->interrupt) {
        hw_free(bus);
        return hw_fail_no_memory(reterr);
    }
    bus->interrupt->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    bus->waits.fd = bus->interrupt->fd < 0 ? -1 : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (bus->waits.fd < 0) {
        if (bus->interrupt->fd >= 0)
            (void)close(bus->interrupt->fd);
        hw_free(bus->interrupt);
        hw_free(bus);
        (void)hw_fail(reterr, HOWDAH_FAILED, "no file descriptor left for a bus: %s",
                      strerrordesc_np(errno));
        return HOWDAH_FAILED;
    }
    hw_use_init(&bus->use);
    bus->payload_bytes_max = (size_t)settings->value[HW_SETTING_payload_bytes_max];
    bus->read_batch = (size_t)settings->value[HW_SETTING_read_batch];
    bus->poll_interval_ms = settings->value[HW_SETTING_poll_interval];
    bus->wakeup = wakeup[0] == 'n'   ? HW_WAKEUP_NOTIFY
                  : wakeup[0] == 'p' ? HW_WAKEUP_POLL
                                     : HW_WAKEUP_AUTO;
    *ret_bus = bus;
    return HOWDAH_OK;
}

/* Borrows from url and settings: it lives for one call of hw_store_open(). */
static hw_config config_of(const char *url, const howdah_settings *settings,
                           const hw_interrupt *interrupt)
{
    return (hw_config){
        .url = url,
        .schema = hw_settings_text(settings, HW_SETTING_schema),
        .application_name = hw_settings_text(settings, HW_SETTING_application_name),
        .connect_timeout_ms = settings->value[HW_SETTING_connect_timeout],
        .statement_timeout_ms = settings->value[HW_SETTING_statement_timeout],
        .busy_timeout_ms = settings->value[HW_SETTING_busy_timeout],
        .read_only = settings->value[HW_SETTING_read_only] != 0,
        .allow_lossy = settings->value[HW_SETTING_allow_lossy] != 0,
        .interrupt = interrupt,
    };
}

/*
 * Opens the sessions of handlers' transactions, of runner threads and of sides. "again" tells the
 * store that a session with these settings has been there before.
 */
static int open_another(void *ctx, const hw_interrupt *interrupt, hw_store **ret_store,
                        howdah_error *reterr)
{
    const howdah_bus *bus = ctx;
    hw_config config = config_of(bus->url, bus->settings, interrupt);

    config.again = true;
    return hw_store_open(&config, ret_store, reterr);
}

/*
 * Copies what open_another() will need: the caller may free its settings after howdah_open().
 * The masked URL, the one that messages show, is made here once.
 */
static int keep_settings(howdah_bus *bus, const char *url, const howdah_settings *settings,
                         howdah_error *reterr)
{
    int s = howdah_settings_new(&bus->settings, reterr);

    for (size_t i = 0; s >= 0 && i < HW_SETTING_COUNT; i++) {
        if (settings->text[i] && !(bus->settings->text[i] = hw_strdup(settings->text[i])))
            s = hw_fail_no_memory(reterr);
        bus->settings->value[i] = settings->value[i];
    }
    bus->url = hw_strdup(url);
    bus->masked_url = hw_url_mask(url);
    if (s >= 0 && (!bus->url || !bus->masked_url))
        s = hw_fail_no_memory(reterr);
    bus->open_store = open_another;
    bus->open_ctx = bus;
    return s;
}

/*
 * Also for a bus that was only half opened.  The order: threads first, then what readers and
 * handlers left to be closed, then the subscriptions, which still need the store.
 */
static void close_bus(howdah_bus *bus)
{
    howdah_error err = HOWDAH_ERROR_INIT;

    if (hw_runner_end(bus, &err) < 0)
        hw_log(HOWDAH_LOG_WARN, "closing the bus: %s", err.message);
    hw_use_close_waiting(&bus->use);
    if (hw_service_close(bus, &err) < 0)
        hw_log(HOWDAH_LOG_WARN, "closing the bus: %s", err.message);
    hw_use_done(&bus->use);
    hw_queues_close(bus);
    hw_groups_close(bus);
    if (bus->store)
        bus->store->ops->close(bus->store);
    hw_upcasts_free(bus->upcasts);
    (void)close(bus->interrupt->fd);
    (void)close(bus->waits.fd);
    hw_free(bus->interrupt);
    hw_free(bus->masked_url);
    hw_free(bus->url);
    howdah_settings_free(bus->settings);
    hw_free(bus);
}

/* Closes what was opened when a later step fails: the caller gets a whole bus or none. */
int hw_bus_open(const char *url, const howdah_settings *settings, const hw_bus_limits *limits,
                howdah_bus **ret_bus, howdah_error *reterr)
{
    howdah_settings defaults;
    howdah_bus *bus = NULL;
    hw_config config;
    int s;

    if (!settings) {
        hw_settings_init(&defaults);
        settings = &defaults;
    }
    s = new_bus(settings, &bus, reterr);
    if (s < 0)
        return s;
    s = keep_settings(bus, url, settings, reterr);
    config = config_of(url, settings, bus->interrupt);
    if (limits) {
        config.lock_timeout_ms = limits->lock_timeout_ms;
        if (limits->connect_timeout_ms < config.connect_timeout_ms)
            config.connect_timeout_ms = limits->connect_timeout_ms;
    }
    if (s >= 0)
        s = hw_store_open(&config, &bus->store, reterr);
    if (s < 0) {
        close_bus(bus);
        return s;
    }
    assert(bus->store && bus->interrupt);
    if (bus->store->alone)
        bus->open_store = NULL;
    *ret_bus = bus;
    return HOWDAH_OK;
}

int howdah_open(const char *url, const howdah_settings *settings, howdah_bus **ret_bus,
                howdah_error *reterr)
{
    if (!url || !ret_bus)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_open: an argument is NULL");
    return hw_bus_open(url, settings, NULL, ret_bus, reterr);
}

/*
 * For tests: a bus over a store that the caller made, without a second session.  On success the
 * bus owns the store.
 */
int hw_bus_over(hw_store *store, const howdah_settings *settings, howdah_bus **ret_bus,
                howdah_error *reterr)
{
    howdah_settings defaults;
    howdah_bus *bus = NULL;
    int s;

    hw_settings_init(&defaults);
    s = new_bus(settings ? settings : &defaults, &bus, reterr);
    if (s < 0)
        return s;
    bus->store = store;
    *ret_bus = bus;
    return HOWDAH_OK;
}

/*
 * Refused while another thread or a handler is inside: the bus stays as it was and may be closed
 * later.  There is no error to fill, so the log tells why.
 */
int howdah_close(howdah_bus *bus)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    hw_entry entry = {NULL}; /* not left: what would have to be is gone */
    int s;

    if (!bus)
        return HOWDAH_OK;
    s = hw_enter(&entry, &bus, HW_DRIVES | HW_ENDS, "howdah_close", &err);
    if (s < 0) {
        hw_log(HOWDAH_LOG_ERROR, "%s", err.message);
        return s;
    }
    close_bus(bus);
    return HOWDAH_OK;
}

const char *howdah_bus_url(const howdah_bus *bus)
{
    return bus && bus->masked_url ? bus->masked_url : "";
}

/*
 * The flag is for loops, the descriptor for poll().  The flag is set first, so that a loop that
 * is woken sees it.
 */
static void raise_interrupt(hw_interrupt *interrupt)
{
    uint64_t one = 1;

    atomic_store(&interrupt->raised, true);
    if (interrupt->fd >= 0 && write(interrupt->fd, &one, sizeof one) < 0) {
        /* EAGAIN: the counter is full, so it is readable, which is all we want. */
    }
}

/* Reading an eventfd takes its count to 0: it is silent again. */
static void lower_interrupt(hw_interrupt *interrupt)
{
    uint64_t count;

    atomic_store(&interrupt->raised, false);
    if (interrupt->fd >= 0 && read(interrupt->fd, &count, sizeof count) < 0) {
        /* EAGAIN: it was not interrupted. */
    }
}

/* Lock-free flags and write(2), so that a signal handler may call it. */
void howdah_interrupt(howdah_bus *bus)
{
    int saved = errno;

    if (!bus)
        return;
    raise_interrupt(bus->interrupt);
    raise_interrupt(&bus->waits);
    errno = saved;
}

/* Not on a side: its interrupt is one that all sides share and that is never raised. */
void howdah_interrupt_clear(howdah_bus *bus)
{
    if (!bus || bus->side_of)
        return;
    lower_interrupt(bus->interrupt);
    lower_interrupt(&bus->waits);
}

/* An interrupt that was raised meanwhile stays raised. */
void hw_waits_end(howdah_bus *bus, bool end)
{
    if (end)
        raise_interrupt(&bus->waits);
    else if (!hw_interrupted(bus->interrupt))
        lower_interrupt(&bus->waits);
}

/*
 * Names this process to people who ask who holds a subscription or a job.  The random part tells
 * apart two buses of one process, and a process from a later one with its number.
 */
void hw_bus_sign(char ret_text[HW_SIGNATURE_SIZE])
{
    char host[64] = "";

    if (gethostname(host, sizeof host - 1) != 0)
        host[0] = '\0';
    (void)snprintf(ret_text, HW_SIGNATURE_SIZE, "%.60s/%ld/%08x", host, (long)getpid(),
                   (unsigned)hw_random_u32());
}

/* poll() may end early by a signal (EINTR), so the time left is computed again each round. */
int hw_sleep(const hw_interrupt *interrupt, int64_t ms, howdah_error *reterr)
{
    int64_t until = hw_clock_mono_ms() + ms;

    for (;;) {
        struct pollfd p = {.fd = interrupt ? interrupt->fd : -1, .events = POLLIN};
        int64_t left = until - hw_clock_mono_ms();
        int n = poll(&p, 1, left > 0 ? (int)left : 0);

        if (n > 0)
            return hw_fail(reterr, HOWDAH_INTERRUPTED, "interrupted");
        if (n == 0 && left <= 0)
            return HOWDAH_OK;
    }
}

/* ------------------------------------------------------- without a handle */

int howdah_migrations_sql(const char *url, const howdah_settings *settings, char **ret_sql,
                          howdah_error *reterr)
{
    howdah_settings defaults;
    hw_config config;

    if (!url || !ret_sql)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_migrations_sql: an argument is NULL");
    hw_settings_init(&defaults);
    config = config_of(url, settings ? settings : &defaults, NULL);
    return hw_store_print(&config, ret_sql, reterr);
}

/*
 * Opens a store of its own, outside of any bus: the doctor must work where howdah_open() fails.
 */
int howdah_doctor(const char *url, const howdah_settings *settings,
                  int (*fn)(void *ctx, const howdah_finding *finding), void *ctx,
                  howdah_error *reterr)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_settings defaults;
    hw_config config;
    hw_store *store = NULL;
    int s;

    if (!url || !fn)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_doctor: an argument is NULL");
    hw_settings_init(&defaults);
    config = config_of(url, settings ? settings : &defaults, NULL);
    /* The doctor looks at sick stores too: what open would refuse is a finding here. */
    config.read_only = true;
    config.allow_lossy = true;
    s = hw_store_open(&config, &store, &err);
    assert(s < 0 || store);
    if (s == HOWDAH_INVALID || s == HOWDAH_NO_MEMORY) {
        hw_error_copy(reterr, &err);
        return s;
    }
    if (s < 0) {
        howdah_finding finding = {sizeof finding, HOWDAH_BAD, "connection", err.message,
                                  err.advice};
        (void)fn(ctx, &finding);
        return HOWDAH_OK;
    }
    s = store->ops->doctor(store, fn, ctx, reterr);
    store->ops->close(store);
    return s;
}
