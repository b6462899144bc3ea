/*
 * two_times.c - correct an event, and ask what was known before.
 *
 *     cc two_times.c -o two_times $(pkg-config --cflags --libs howdah)
 *     ./two_times sqlite:accounts.db account-7
 *
 * A payment of 100 was booked; it was 90.  The correction is an event of its own, so both answers
 * stay: what we know now, and what we knew when the first report was written.
 */
#include <howdah/howdah.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int failed(const char *what, const howdah_error *err)
{
    fprintf(stderr, "%s: %s: %s\n", what, howdah_status_name(err->status), err->message);
    return howdah_status_exit_code(err->status);
}

static int append(howdah_bus *bus, const char *stream, const char *json, howdah_position *position,
                  howdah_error *err)
{
    howdah_builder *builder = NULL;
    howdah_event *event = NULL;
    int64_t when_us = 0;
    int s = howdah_builder_new(&builder, err);

    if (s >= 0)
        s = howdah_time_parse("2026-01-05T00:00:00Z", &when_us, err);
    if (s >= 0) {
        howdah_builder_set_stream(builder, stream);
        howdah_builder_set_type(builder, "payment.made");
        howdah_builder_set_json(builder, json, strlen(json));
        howdah_builder_set_valid_time(builder, when_us); /* when it was true */
        s = howdah_builder_build(builder, &event, err);
    }
    if (s >= 0)
        s = howdah_append(bus, event, NULL, position, err);
    howdah_event_free(event);
    howdah_builder_free(builder);
    return s;
}

static int correct(howdah_bus *bus, const char *id, const char *json, howdah_error *err)
{
    howdah_correction correction = HOWDAH_CORRECTION_INIT;
    howdah_position position = HOWDAH_POSITION_INIT;
    int s;

    correction.event_id = id;
    correction.data = json;
    correction.data_len = strlen(json);
    correction.reason = "typing error in the invoice";
    correction.expected_revision = 1; /* somebody else's correction would be a CONFLICT */
    s = howdah_correct(bus, &correction, &position, err);
    if (s >= 0)
        printf("revision %" PRId32 " is number %" PRId64 " of the log\n", position.revision,
               position.global_sequence);
    return s;
}

/* What was known of the stream at a time; HOWDAH_NO_TIME: what is known now. */
static int report(howdah_bus *bus, const char *stream, int64_t known_at_us, howdah_error *err)
{
    howdah_query_options options = HOWDAH_QUERY_OPTIONS_INIT;
    howdah_knowledge knowledge = HOWDAH_KNOWLEDGE_INIT;
    howdah_reader *reader = NULL;
    const howdah_event *event;
    int s;

    options.view = HOWDAH_VIEW_AS_OF;
    options.stream = stream;
    options.known_at_us = known_at_us;
    s = howdah_query_open(bus, &options, &reader, err);
    if (s < 0)
        return s;
    howdah_reader_knowledge(reader, &knowledge);
    while ((s = howdah_reader_next(reader, &event, err)) == HOWDAH_OK) {
        size_t len;
        const char *data = howdah_event_data(event, &len);

        printf("%s: %.*s, revision %d%s\n", known_at_us == HOWDAH_NO_TIME ? "now" : "then",
               (int)len, data, howdah_event_revision(event), knowledge.final ? ", for ever" : "");
    }
    howdah_reader_close(reader);
    return s < 0 ? s : HOWDAH_OK;
}

static int on_change(void *ctx, howdah_change change, const howdah_event *before,
                     const howdah_event *after)
{
    (void)ctx;
    printf("%s in revision %d: %s\n", howdah_change_name(change), howdah_event_revision(after),
           before ? howdah_event_reason(after) : "new");
    return 0;
}

int main(int argc, char **argv)
{
    const char *url = argc > 1 ? argv[1] : "sqlite:accounts.db";
    const char *stream = argc > 2 ? argv[2] : "account-7";
    howdah_diff_options options = HOWDAH_DIFF_OPTIONS_INIT;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *bus = NULL;
    howdah_position position = HOWDAH_POSITION_INIT;
    int code = 0;

    if (howdah_open(url, NULL, &bus, &err) < 0)
        return failed("open", &err);
    if (howdah_migrate(bus, NULL, &err) < 0)
        code = failed("migrate", &err);
    else if (append(bus, stream, "{\"amount\":100}", &position, &err) < 0)
        code = failed("append", &err);
    else if (correct(bus, position.id, "{\"amount\":90}", &err) < 0)
        code = failed("correct", &err);
    else if (report(bus, stream, position.recorded_at_us, &err) < 0 ||
             report(bus, stream, HOWDAH_NO_TIME, &err) < 0)
        code = failed("report", &err);
    if (code == 0) {
        options.known_at_us = position.recorded_at_us;
        options.stream = stream;
        if (howdah_diff(bus, &options, on_change, NULL, NULL, &err) < 0)
            code = failed("diff", &err);
    }
    howdah_close(bus);
    return code;
}
