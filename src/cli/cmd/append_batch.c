/*
 * append_batch.c - howdah append --batch: events from JSON lines.
 *
 *   I1  Events are stored in the order of their lines, a transaction at a time; a line that
 *       cannot be stored ends the run, and no line after it is stored.
 *   I2  Memory holds one transaction: without --tx-size at most what the library takes in one.
 *   I3  Lines that carry ids may be sent again: what is stored is counted, not stored twice.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/cmd/append.h"
#include "cli/in/lines.h"
#include "cli/in/signals.h"
#include "cli/out/progress.h"
#include "face/event_in.h"

#define LINE_EXTRA_BYTES ((size_t)128 * 1024) /* headers, names and field names of a line */

typedef struct batch {
    cli_context *cli;
    cli_lines lines;
    howdah_builder *builder;
    hw_buf scratch;
    size_t payload_max;
    const char *id_space;
    bool positions; /* print where each event is */
    cli_progress progress;
    howdah_append_options options;

    /* The transaction being collected. */
    size_t tx_size; /* events; 0: all lines are one transaction */
    howdah_event **events;
    int64_t *numbers; /* of their lines */
    howdah_position *places;
    size_t n;
    size_t room;
    size_t bytes;

    /* What is stored. */
    int64_t stored;
    int64_t already;
    int64_t first; /* lowest and highest sequence, HOWDAH_ABSENT at the start */
    int64_t last;
    int64_t stored_line; /* all lines up to this one are stored */
    bool without_ids;    /* some of those lines had no id: they cannot be sent again */
    bool uncertain;      /* a line of the present transaction has none */
} batch;

/* After a transaction, stored or not, nothing of it is held (I2). */
static void drop_events(batch *b)
{
    for (size_t i = 0; i < b->n; i++)
        howdah_event_free(b->events[i]);
    b->n = 0;
    b->bytes = 0;
    b->uncertain = false;
}

/* Also after batch_init() failed half way: what was not made is NULL. */
static void batch_done(batch *b)
{
    drop_events(b);
    hw_free(b->events);
    hw_free(b->numbers);
    hw_free(b->places);
    howdah_builder_free(b->builder);
    hw_buf_done(&b->scratch);
    cli_lines_done(&b->lines);
}

/* A payload may double in a JSON line, by escapes or base64, so a line may be twice as long. */
static int batch_init(batch *b, cli_context *cli, howdah_error *reterr)
{
    int64_t tx_size = 0;
    int s;

    memset(b, 0, sizeof *b);
    b->cli = cli;
    b->first = b->last = HOWDAH_ABSENT;
    b->options = (howdah_append_options)HOWDAH_APPEND_OPTIONS_INIT;
    s = cli_settings(cli, reterr);
    if (s < 0)
        return s;
    b->payload_max = cli_payload_max(cli);
    b->scratch = (hw_buf)HW_BUF_INIT(2 * b->payload_max + 2 * LINE_EXTRA_BYTES);
    cli_lines_init(&b->lines, STDIN_FILENO, 2 * b->payload_max + LINE_EXTRA_BYTES);
    b->id_space = cli_args_text(&cli->args, "id-space");
    b->positions = cli_args_has(&cli->args, "positions");
    s = cli_args_number(&cli->args, "tx-size", 1, HOWDAH_BATCH_EVENTS_MAX, &tx_size, reterr);
    b->tx_size = (size_t)tx_size;
    if (s == HOWDAH_OK && cli_args_text(&cli->args, "expect"))
        s = face_expect_parse(cli_args_text(&cli->args, "expect"), &b->options.expected_version,
                              reterr);
    if (s == HOWDAH_OK)
        s = howdah_builder_new(&b->builder, reterr);
    cli_progress_start(&b->progress, cli, "events");
    return s;
}

/* Blank lines are passed over, so that files can be grouped by hand. */
static bool is_blank(hw_str line)
{
    return strspn(line.s, " \t\r") == line.len;
}

/*
 * The next line that is not blank, as an event; HOWDAH_END after the last.  When it fails with
 * b->lines.number unchanged, no line was taken, and there is no way on.
 */
static int next_event(batch *b, howdah_event **ret_event, bool *ret_has_id, howdah_error *reterr)
{
    face_event_in line = {.payload_max = b->payload_max,
                          .id_space = b->id_space,
                          .correction_advice = "howdah append --correct makes one"};
    int s;

    do {
        s = cli_lines_next(&b->lines, &line.text, reterr);
    } while (s == HOWDAH_OK && is_blank(line.text));
    if (s != HOWDAH_OK)
        return s;
    line.number = b->lines.number;
    howdah_builder_reset(b->builder);
    s = face_event_in_parse(&line, b->builder, &b->scratch, reterr);
    if (s == HOWDAH_OK)
        s = howdah_builder_build(b->builder, ret_event, reterr);
    *ret_has_id = line.has_id;
    return s;
}

/* ---- one transaction */

/*
 * The three arrays grow together; one that failed to grow leaves the others usable, and room as it
 * was.
 */
static bool grow(batch *b)
{
    size_t room = b->room ? 2 * b->room : 1024;
    howdah_event **events = hw_realloc(b->events, room * sizeof *events);
    int64_t *numbers;
    howdah_position *places;

    if (events)
        b->events = events;
    numbers = hw_realloc(b->numbers, room * sizeof *numbers);
    if (numbers)
        b->numbers = numbers;
    places = hw_realloc(b->places, room * sizeof *places);
    if (places)
        b->places = places;
    if (!events || !numbers || !places)
        return false;
    b->places[0] = (howdah_position)HOWDAH_POSITION_INIT;
    b->room = room;
    return true;
}

/* Events that were stored before count as stored, and apart: a repeated run tells both numbers. */
static void count_place(batch *b, size_t i)
{
    const howdah_position *p = &b->places[i];

    assert(i < b->n && p->global_sequence > 0);
    b->stored++;
    b->already += p->already_stored;
    if (b->first == HOWDAH_ABSENT || p->global_sequence < b->first)
        b->first = p->global_sequence;
    if (p->global_sequence > b->last)
        b->last = p->global_sequence;
    if (b->positions)
        cli_position_json(b->cli, howdah_event_stream(b->events[i]), p);
}

/* The library names the event by its index in the transaction; people count lines. */
static void name_lines(const batch *b, howdah_error *err)
{
    int64_t at = b->n == 1 ? 0 : err->event_index;

    assert(b->n > 0);
    if (at >= 0 && (size_t)at < b->n)
        hw_error_prefix(err, "line %lld", (long long)b->numbers[at]);
    else
        hw_error_prefix(err, "lines %lld to %lld", (long long)b->numbers[0],
                        (long long)b->numbers[b->n - 1]);
}

/* One transaction: either all its lines are stored, or none. */
static int store(batch *b, howdah_error *reterr)
{
    int s;

    if (b->n == 0)
        return HOWDAH_OK;
    s = howdah_append_batch(b->cli->bus, (const howdah_event *const *)b->events, b->n, &b->options,
                            b->places, reterr);
    if (s < 0) {
        name_lines(b, reterr);
        return s;
    }
    for (size_t i = 0; i < b->n; i++)
        count_place(b, i);
    b->stored_line = b->numbers[b->n - 1];
    b->without_ids = b->without_ids || b->uncertain;
    drop_events(b);
    if (b->positions)
        cli_out_flush(&b->cli->out); /* said only of what is stored, and soon */
    return HOWDAH_OK;
}

/*
 * Without --tx-size all lines are one transaction, and that has a limit; the advice names the way
 * out.
 */
static int too_much(const batch *b, const char *what, howdah_error *reterr)
{
    int s = hw_fail(reterr, HOWDAH_LIMIT, "line %lld: more than %s in one transaction",
                    (long long)b->lines.number, what);

    return hw_advise(reterr, s, "--tx-size 10000 stores them in several transactions");
}

/* Takes the event over, and stores the transaction when it is full. */
static int admit(batch *b, howdah_event *event, bool has_id, howdah_error *reterr)
{
    size_t data;
    size_t headers;
    int s = HOWDAH_OK;

    (void)howdah_event_data(event, &data);
    (void)howdah_event_headers(event, &headers);
    if (b->n > 0 && b->bytes + data + headers > HOWDAH_BATCH_BYTES_MAX)
        s = b->tx_size ? store(b, reterr) : too_much(b, "256 MiB", reterr);
    if (s == HOWDAH_OK && b->n == HOWDAH_BATCH_EVENTS_MAX)
        s = too_much(b, "100000 events", reterr);
    if (s == HOWDAH_OK && b->n == b->room && !grow(b))
        s = hw_fail_no_memory(reterr);
    if (s < 0) {
        howdah_event_free(event);
        return s;
    }
    assert(b->n < b->room);
    b->events[b->n] = event;
    b->numbers[b->n++] = b->lines.number;
    b->bytes += data + headers;
    b->uncertain = b->uncertain || !has_id;
    return b->tx_size && b->n >= b->tx_size ? store(b, reterr) : HOWDAH_OK;
}

/* The line number is put before an error of the line itself; store() names its lines on its own. */
static int store_all(batch *b, howdah_error *reterr)
{
    for (;;) {
        howdah_event *event = NULL;
        int64_t before = b->lines.number;
        bool has_id;
        int s = next_event(b, &event, &has_id, reterr);

        if (s == HOWDAH_END)
            return store(b, reterr);
        if (s < 0 && b->lines.number != before)
            hw_error_prefix(reterr, "line %lld", (long long)b->lines.number);
        if (s == HOWDAH_OK)
            s = admit(b, event, has_id, reterr);
        if (s < 0)
            return s;
        cli_progress_update(&b->progress, b->stored + (int64_t)b->n, 0);
    }
}

/* ---- what the user is told */

/* null when no line was stored. */
static void sequence_json(cli_out *out, const char *key, int64_t sequence)
{
    if (sequence == HOWDAH_ABSENT)
        cli_out_printf(out, ",\"%s\":null", key);
    else
        cli_out_printf(out, ",\"%s\":%" PRId64, key, sequence);
}

/*
 * The summary goes to stdout for programs and to stderr for people; with --positions stdout has
 * lines already.
 */
static void sum_up(batch *b)
{
    cli_out *out = &b->cli->out;
    char rate[CLI_COUNT_SIZE];

    cli_count_text(cli_progress_rate(&b->progress, b->stored), rate);
    if (out->json && !b->positions) {
        cli_out_printf(out, "{\"events\":%" PRId64 ",\"already_stored\":%" PRId64, b->stored,
                       b->already);
        sequence_json(out, "first", b->first);
        sequence_json(out, "last", b->last);
        cli_out_puts(out, "}\n");
    }
    cli_out_flush(out);
    if (!b->cli->quiet)
        cli_err_printf(&b->cli->out, "%" PRId64 " events, %" PRId64 " already stored, %s/s\n",
                       b->stored, b->already, rate);
}

/* After an error: what is stored, and how to go on. */
static void say_how_to_go_on(const batch *b, const howdah_error *err)
{
    const char *how = b->without_ids
                          ? "not all of these lines have an id: leave them out of the next run"
                          : "run it again to continue";

    if (err->flags & HOWDAH_OUTCOME_UNKNOWN)
        how = b->without_ids || b->uncertain
                  ? "check which lines are stored before you run it again"
                  : "run it again to make sure and to continue";
    if (b->stored == 0 && !(err->flags & HOWDAH_OUTCOME_UNKNOWN))
        cli_err_printf(&b->cli->out, "howdah: nothing was stored\n");
    else
        cli_err_printf(&b->cli->out,
                       "howdah: %" PRId64 " events are stored, up to line %" PRId64 "; %s\n",
                       b->stored, b->stored_line, how);
}

/* A person who types the lines is told how to end them. */
static int run(batch *b, howdah_error *reterr)
{
    int s = cli_open(b->cli, reterr);

    if (s < 0)
        return s;
    if (isatty(STDIN_FILENO) == 1)
        cli_note(b->cli, "reading JSON lines; Ctrl-D ends the input");
    return store_all(b, reterr);
}

/* ---- --dry-run */

/* In a terminal only bad lines: thousands of good ones would hide them. */
static void verdict(batch *b, const howdah_error *err)
{
    cli_out *out = &b->cli->out;
    long long number = (long long)b->lines.number;

    if (!out->json) {
        if (err)
            cli_out_printf(out, "line %lld: %s\n", number, err->message);
        return;
    }
    cli_out_printf(out, "{\"line\":%lld,\"ok\":%s", number, err ? "false" : "true");
    if (err) {
        cli_out_puts(out, ",\"field\":");
        if (err->field[0])
            cli_json_text(out, err->field);
        else
            cli_out_puts(out, "null");
        cli_out_puts(out, ",\"error\":");
        cli_json_text(out, err->message);
    }
    cli_out_puts(out, "}\n");
}

/* Checks every line; a line that cannot even be read ends it.  The exit code. */
static int check_all(batch *b)
{
    int64_t bad = 0;
    int64_t good = 0;

    for (;;) {
        howdah_error err = HOWDAH_ERROR_INIT;
        howdah_event *event = NULL;
        int64_t before = b->lines.number;
        bool has_id;
        int s = next_event(b, &event, &has_id, &err);

        if (s == HOWDAH_END)
            break;
        if (s < 0 && b->lines.number == before)
            return cli_fail(b->cli, &err);
        verdict(b, s < 0 ? &err : NULL);
        bad += s < 0;
        good += s == HOWDAH_OK;
        howdah_event_free(event);
        cli_progress_update(&b->progress, good + bad, 0);
    }
    cli_progress_clear(&b->progress);
    cli_out_flush(&b->cli->out);
    if (!b->cli->quiet)
        cli_err_printf(&b->cli->out, "%" PRId64 " lines are good, %" PRId64 " are not\n", good,
                       bad);
    return bad ? howdah_status_exit_code(HOWDAH_INVALID) : 0;
}

/* ---- the command */

/* An option that is a field of each line would be ignored, or be a surprise for every line. */
static int check_usage(const cli_args *args, howdah_error *reterr)
{
    static const char *const single[] = {"id",    "header",     "correlation",    "causation",
                                         "actor", "valid-time", "schema-version", "bytes"};

    for (size_t i = 0; i < sizeof single / sizeof *single; i++)
        if (cli_args_has(args, single[i]))
            return hw_fail(reterr, HOWDAH_MISUSE,
                           "--%s has no meaning with --batch: it is a field "
                           "of each line",
                           single[i]);
    if (cli_args_has(args, "expect") && cli_args_has(args, "tx-size"))
        return hw_fail(reterr, HOWDAH_MISUSE,
                       "--expect is about one transaction, but --tx-size makes several");
    return cli_args_words(args, 0, 0, reterr);
}

int cli_append_batch(cli_context *cli)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    batch b;
    int exit_code = 0;
    int s = check_usage(&cli->args, &err);

    if (s < 0)
        return cli_fail(cli, &err);
    s = batch_init(&b, cli, &err);
    if (s == HOWDAH_OK && cli_args_has(&cli->args, "dry-run")) {
        exit_code = check_all(&b);
    } else if (s == HOWDAH_OK && (s = run(&b, &err)) == HOWDAH_OK) {
        cli_progress_clear(&b.progress);
        sum_up(&b);
    }
    if (s < 0) {
        cli_progress_clear(&b.progress);
        exit_code = cli_fail(cli, &err);
        if (cli->bus)
            say_how_to_go_on(&b, &err);
    }
    batch_done(&b);
    return exit_code;
}
