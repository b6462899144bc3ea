/* signals.c - see signals.h. */
#include "cli/in/signals.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

/* A signal handler has no other way to its bus. */
static _Atomic(howdah_bus *) watched_bus;
static volatile sig_atomic_t caught;
static volatile sig_atomic_t is_service;
static volatile sig_atomic_t in_hurry;
static volatile unsigned grace_s;                 /* 0: a second signal kills */
static _Atomic(pid_t) children[CLI_CHILDREN_MAX]; /* 0: nobody */

static void end_children(int number)
{
    for (size_t i = 0; i < CLI_CHILDREN_MAX; i++) {
        pid_t group = atomic_load(&children[i]);

        if (group > 0)
            (void)kill(-group, number);
    }
}

/* The user does not want to wait any longer: the commands that we run end as well. */
static void die_of(int number)
{
    end_children(number);
    (void)signal(number, SIG_DFL);
    (void)raise(number); /* delivered when the handler returns */
}

/* The time of a second signal is over. */
static void on_alarm(int number)
{
    (void)number;
    end_children(SIGKILL);
    (void)signal(caught, SIG_DFL);
    (void)raise(caught);
}

/* As a shell reports it, but for a service that was asked to end and did. */
int cli_signals_exit_code(void)
{
    return is_service && caught == SIGTERM ? 0 : 128 + caught;
}

/* The first signal asks for an orderly end; a second one does not wait for it. */
static void on_signal(int number)
{
    int saved = errno;
    howdah_bus *bus = atomic_load(&watched_bus);

    if (caught && (!grace_s || in_hurry)) {
        die_of(number);
        return;
    }
    if (caught) {
        in_hurry = 1;
        end_children(SIGKILL);
        (void)alarm(grace_s);
        return;
    }
    caught = number;
    if (!bus)
        _exit(cli_signals_exit_code());
    howdah_interrupt(bus);
    errno = saved;
}

static void catch (int number)
{
    struct sigaction action;

    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    action.sa_flags = 0; /* no SA_RESTART: a read or write that waits must come back */
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(number, &action, NULL);
}

/* A signal that our parent has blocked would never reach us, nor our commands. */
static void unblock(void)
{
    sigset_t all;

    (void)sigfillset(&all);
    (void)sigprocmask(SIG_UNBLOCK, &all, NULL);
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
    /* Some supervisors ignore it, and we inherit that: how our commands ended would be lost. */
    (void)signal(SIGCHLD, SIG_DFL);
    unblock();
}

void cli_signals_watch(howdah_bus *bus)
{
    atomic_store(&watched_bus, bus);
}

/* The first place that holds "was" holds "is" from now on. */
static void change_place(pid_t was, pid_t is)
{
    for (size_t i = 0; i < CLI_CHILDREN_MAX; i++) {
        pid_t expected = was;

        if (atomic_compare_exchange_strong(&children[i], &expected, is))
            return;
    }
}

void cli_signals_child(pid_t group)
{
    change_place(0, group);
}

void cli_signals_child_gone(pid_t group)
{
    change_place(group, 0);
}

int cli_signal_caught(void)
{
    return caught;
}

void cli_signals_grace(unsigned seconds)
{
    struct sigaction action;

    memset(&action, 0, sizeof action);
    action.sa_handler = on_alarm;
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGALRM, &action, NULL);
    grace_s = seconds;
}

bool cli_signals_hurry(void)
{
    return in_hurry != 0;
}

void cli_signals_service(void)
{
    is_service = 1;
}
