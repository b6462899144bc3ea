/*
 * read.c - read what matches a pattern, oldest first.
 *
 *     cc read.c -o read $(pkg-config --cflags --libs howdah)
 *     ./read sqlite:orders.db 'order.*'
 *
 * However long the log is, the reader holds two batches of it at most.
 */
#include <howdah/howdah.h>
#include <inttypes.h>
#include <stdio.h>

static int failed(const char *what, const howdah_error *err)
{
    fprintf(stderr, "%s: %s: %s\n", what, howdah_status_name(err->status), err->message);
    return howdah_status_exit_code(err->status);
}

static void show(const howdah_event *event)
{
    char when[HOWDAH_TIME_SIZE] = "";
    int64_t recorded_us;

    if (howdah_event_recorded_at(event, &recorded_us))
        howdah_time_format(recorded_us, when);
    printf("%" PRId64 " %s %s %" PRId64 " %s %s\n", howdah_event_global_sequence(event), when,
           howdah_event_stream(event), howdah_event_version(event), howdah_event_type(event),
           howdah_event_data(event, NULL));
}

int main(int argc, char **argv)
{
    const char *url = argc > 1 ? argv[1] : "sqlite:orders.db";
    howdah_reader_options options = HOWDAH_READER_OPTIONS_INIT;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *bus = NULL;
    howdah_reader *reader = NULL;
    const howdah_event *event = NULL;
    int code = 0;
    int s;

    options.pattern = argc > 2 ? argv[2] : NULL;
    if (howdah_open(url, NULL, &bus, &err) < 0)
        return failed("open", &err);
    if (howdah_reader_open(bus, &options, &reader, &err) < 0) {
        code = failed("read", &err);
        goto out;
    }
    /* The event is the reader's, until the next call. */
    while ((s = howdah_reader_next(reader, &event, &err)) == HOWDAH_OK)
        show(event);
    if (s < 0)
        code = failed("read", &err);

out:
    howdah_reader_close(reader);
    howdah_close(bus);
    return code;
}
