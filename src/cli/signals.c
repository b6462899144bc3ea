/* signals.c - see signals.h. */
#include "cli/signals.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

/* A signal handler has no other way to its bus. */
static _Atomic(howdah_bus *) watched_bus;
static volatile sig_atomic_t caught;

static void on_signal(int number)
{
    int saved = errno;
    howdah_bus *bus = atomic_load(&watched_bus);

    caught = number;
    if (!bus)
        _exit(128 + number);
    howdah_interrupt(bus);
    errno = saved;
}

static void catch (int number)
{
    struct sigaction action;

    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    /* No SA_RESTART: a read or write that waits must come back. */
    action.sa_flags = (int)SA_RESETHAND;
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(number, &action, NULL);
}

void cli_signals_init(void)
{
    struct sigaction before;

    catch (SIGINT);
    catch (SIGTERM);
    /* nohup asked for it to be ignored. */
    if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        catch (SIGHUP);
    /* A closed pipe is seen as EPIPE by the write. */
    (void)signal(SIGPIPE, SIG_IGN);
}

void cli_signals_watch(howdah_bus *bus)
{
    atomic_store(&watched_bus, bus);
}

int cli_signal_caught(void)
{
    return caught;
}
