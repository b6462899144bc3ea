/*
 * follow.c - howdah follow: events as they appear, without a checkpoint.
 *
 * Nothing is stored, so several can follow.  One that ends loses its place, unless whoever reads
 * its lines keeps it for the next one (--places, --place).
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "cli/out/events.h"

/* A reader of our pipe that went away is noticed within this time, also when nothing happens. */
#define LOOK_MS 2000
/* What an event may wait for others to be written with. */
#define FLUSH_MS 10
/* Between two looks for a store that is away. */
#define PAUSE_MS 200

typedef struct request {
    howdah_tail_options options;
    int64_t max;        /* HOWDAH_ABSENT: no end */
    int64_t timeout_ms; /* HOWDAH_ABSENT: no end */
    bool places;        /* with each event, where the tail stands after it */
} request;

static int parse_request(const cli_args *args, request *r, howdah_error *reterr)
{
    int s;

    *r = (request){HOWDAH_TAIL_OPTIONS_INIT, HOWDAH_ABSENT, HOWDAH_ABSENT, false};
    r->options.pattern = cli_args_text(args, "pattern");
    r->options.stream = cli_args_text(args, "stream");
    r->options.originals_only = cli_args_has(args, "originals");
    r->options.place = cli_args_text(args, "place");
    r->places = cli_args_has(args, "places");
    s = cli_args_words(args, 0, 0, reterr);
    if (s == HOWDAH_OK)
        s = cli_args_number(args, "since", 0, INT64_MAX, &r->options.since, reterr);
    if (s == HOWDAH_OK)
        s = cli_args_number(args, "max", 0, INT64_MAX, &r->max, reterr);
    if (s == HOWDAH_OK)
        s = cli_args_duration(args, "timeout", &r->timeout_ms, reterr);
    return s;
}

typedef struct notes {
    cli_context *cli;
    char last[512];
} notes;

/* A store that stays away is told of with each try: once will do. */
static void on_log(void *ctx, int level, const char *message)
{
    notes *n = ctx;

    if (level < HOWDAH_LOG_WARN || strncmp(n->last, message, sizeof n->last - 1) == 0)
        return;
    (void)snprintf(n->last, sizeof n->last, "%s", message);
    cli_note(n->cli, "%s", message);
}

/* A store that is away for a while is waited for, as a subscription does. */
static bool retries_after(notes *n, const howdah_error *err, bool *told)
{
    struct timespec pause = {0, PAUSE_MS * 1000000};

    if (!(err->flags & HOWDAH_RETRYABLE))
        return false;
    if (!*told && !strstr(n->last, err->message))
        cli_note(n->cli, "waiting for the store: %s", err->message);
    *told = true;
    (void)nanosleep(&pause, NULL); /* a signal ends it */
    return true;
}

/* How long to wait for the next event: not beyond the end, and not too long in one go. */
static int wait_ms(int64_t end_ms)
{
    int64_t left;

    if (end_ms == HOWDAH_ABSENT)
        return LOOK_MS;
    left = end_ms - hw_clock_mono_ms();
    if (left < 0)
        return 0;
    return left < LOOK_MS ? (int)left : LOOK_MS;
}

/* A timeout that would overflow the clock is none. */
static int64_t end_of(int64_t timeout_ms)
{
    int64_t now_ms = hw_clock_mono_ms();

    if (timeout_ms == HOWDAH_ABSENT || timeout_ms > INT64_MAX - now_ms)
        return HOWDAH_ABSENT;
    return now_ms + timeout_ms;
}

/* With its place, as one more field of its line: it is made of letters that JSON leaves alone. */
static int put_event(howdah_tail *tail, const request *r, cli_events *events,
                     const howdah_event *event, howdah_error *reterr)
{
    char field[HOWDAH_PLACE_SIZE + 16];
    char place[HOWDAH_PLACE_SIZE];
    int s = HOWDAH_OK;

    if (!r->places)
        return cli_events_put(events, event, reterr);
    s = howdah_tail_place(tail, place, sizeof place, reterr);
    if (s < 0)
        return s;
    (void)snprintf(field, sizeof field, ",\"place\":\"%s\"", place);
    events->tail = field;
    s = cli_events_put(events, event, reterr);
    events->tail = "";
    return s;
}

/*
 * An event that comes alone is written at once.  In a burst one write serves many: what is held
 * back goes out after FLUSH_MS, and in any case before waiting.
 */
static int follow(notes *n, howdah_tail *tail, const request *r, cli_events *events,
                  howdah_error *reterr)
{
    int64_t end_ms = end_of(r->timeout_ms);
    int64_t flushed_ms = 0;
    bool held = false;
    bool told = false;

    while ((r->max == HOWDAH_ABSENT || events->count < r->max) &&
           (held || cli_out_wanted(&n->cli->out))) {
        const howdah_event *event = NULL;
        howdah_error err = HOWDAH_ERROR_INIT;
        int s = howdah_tail_next(tail, held ? 0 : wait_ms(end_ms), &event, &err);
        int64_t now_ms = hw_clock_mono_ms();

        if (s < 0) {
            cli_events_flush(events);
            held = false;
            if ((end_ms != HOWDAH_ABSENT && now_ms >= end_ms) || !retries_after(n, &err, &told)) {
                hw_error_copy(reterr, &err);
                return s;
            }
            continue;
        }
        told = false;
        if (s == HOWDAH_OK)
            s = put_event(tail, r, events, event, reterr);
        if (s < 0)
            return s;
        held = s == HOWDAH_OK && now_ms - flushed_ms < FLUSH_MS;
        if (!held) {
            cli_events_flush(events);
            flushed_ms = now_ms;
        }
        if (end_ms != HOWDAH_ABSENT && now_ms >= end_ms)
            break;
    }
    return HOWDAH_OK;
}

int cmd_follow(cli_context *cli, int argc, char **argv)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_tail *tail = NULL;
    cli_events events;
    notes n = {.cli = cli};
    request r;
    int s;

    (void)argc;
    (void)argv;
    s = parse_request(&cli->args, &r, &err);
    if (s == HOWDAH_OK)
        s = cli_open(cli, &err);
    if (s == HOWDAH_OK)
        s = howdah_tail_open(cli->bus, &r.options, &tail, &err);
    if (s < 0)
        return cli_fail(cli, &err);
    if (!cli->out.json && cli->out.err_terminal)
        cli_note(cli, "following %s; Ctrl-C ends it", howdah_bus_url(cli->bus));
    cli_events_init(&events, &cli->out, true);
    howdah_log_set(on_log, &n); /* of opening howdah doctor tells */
    s = follow(&n, tail, &r, &events, &err);
    howdah_log_set(NULL, NULL);
    howdah_tail_close(tail);
    cli_events_done(&events);
    return s < 0 ? cli_fail(cli, &err) : 0;
}
