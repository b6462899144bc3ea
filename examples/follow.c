/*
 * follow.c - print every event as JSON, those that are there and those that come.
 *
 *     cc follow.c -o follow $(pkg-config --cflags --libs howdah)
 *     ./follow sqlite:orders.db            until Ctrl-C
 *     ./follow sqlite:orders.db 2000       until 2000 ms pass without an event
 */
#include <howdah/howdah.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static howdah_bus *bus;

static int failed(const char *what, const howdah_error *err)
{
    fprintf(stderr, "%s: %s: %s\n", what, howdah_status_name(err->status), err->message);
    return howdah_status_exit_code(err->status);
}

/* howdah_interrupt() is one of the few calls that are safe here. */
static void on_signal(int number)
{
    (void)number;
    howdah_interrupt(bus);
}

/* Asks for the length first, as one would with snprintf. */
static int print_json(const howdah_event *event)
{
    size_t room = howdah_event_json(event, NULL, 0) + 1;
    char *text = malloc(room);

    if (!text)
        return -1;
    (void)howdah_event_json(event, text, room);
    (void)puts(text);
    free(text);
    return fflush(stdout);
}

static int follow(howdah_tail *tail, int wait_ms, howdah_error *err)
{
    const howdah_event *event = NULL;
    int s;

    while ((s = howdah_tail_next(tail, wait_ms, &event, err)) == HOWDAH_OK)
        if (print_json(event) != 0)
            return HOWDAH_END; /* nobody reads our output any more */
    return s;
}

int main(int argc, char **argv)
{
    const char *url = argc > 1 ? argv[1] : "sqlite:orders.db";
    int wait_ms = argc > 2 ? (int)strtol(argv[2], NULL, 10) : -1;
    howdah_tail_options options = HOWDAH_TAIL_OPTIONS_INIT;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_tail *tail = NULL;
    struct sigaction action;
    int code = 0;
    int s;

    if (howdah_open(url, NULL, &bus, &err) < 0)
        return failed("open", &err);
    memset(&action, 0, sizeof(action));
    action.sa_handler = on_signal;
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);

    options.since = 0;
    if (howdah_tail_open(bus, &options, &tail, &err) < 0) {
        code = failed("follow", &err);
        goto out;
    }
    s = follow(tail, wait_ms, &err);
    if (s < 0 && s != HOWDAH_INTERRUPTED)
        code = failed("follow", &err);

out:
    howdah_tail_close(tail);
    howdah_close(bus);
    return code;
}
