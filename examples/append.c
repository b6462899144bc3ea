/*
 * append.c - append an event that must be the first of its stream.
 *
 *     cc append.c -o append $(pkg-config --cflags --libs howdah)
 *     ./append sqlite:orders.db order-7
 *
 * Run it twice: the second time the stream exists, and the append is refused.
 */
#include <howdah/howdah.h>
#include <inttypes.h>
#include <stdio.h>

static int failed(const char *what, const howdah_error *err)
{
    fprintf(stderr, "%s: %s: %s\n", what, howdah_status_name(err->status), err->message);
    if (err->status == HOWDAH_CONFLICT)
        fprintf(stderr, "the stream is at version %" PRId64 "\n", err->actual_version);
    return howdah_status_exit_code(err->status);
}

int main(int argc, char **argv)
{
    static const char payload[] = "{\"customer\":\"ada\",\"total\":12.50}";
    const char *url = argc > 1 ? argv[1] : "sqlite:orders.db";
    const char *stream = argc > 2 ? argv[2] : "order-7";
    howdah_append_options options = HOWDAH_APPEND_OPTIONS_INIT;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *bus = NULL;
    howdah_builder *builder = NULL;
    howdah_event *event = NULL;
    howdah_position position = HOWDAH_POSITION_INIT;
    int code = 0;

    if (howdah_open(url, NULL, &bus, &err) < 0)
        return failed("open", &err);
    if (howdah_migrate(bus, NULL, &err) < 0) {
        code = failed("migrate", &err);
        goto out;
    }

    /* Setters never fail: what breaks a rule is reported by build. */
    if (howdah_builder_new(&builder, &err) < 0) {
        code = failed("builder", &err);
        goto out;
    }
    howdah_builder_set_stream(builder, stream);
    howdah_builder_set_type(builder, "order.created");
    howdah_builder_set_json(builder, payload, sizeof(payload) - 1);
    howdah_builder_add_header(builder, "source", "example");
    howdah_builder_set_correlation(builder, "checkout-1");
    if (howdah_builder_build(builder, &event, &err) < 0) {
        code = failed("build", &err);
        goto out;
    }

    options.expected_version = HOWDAH_EXPECT_NONE;
    if (howdah_append(bus, event, &options, &position, &err) < 0) {
        code = failed("append", &err);
        goto out;
    }
    printf("%s is version %" PRId64 " of %s, number %" PRId64 " of the log\n", position.id,
           position.version, stream, position.global_sequence);

out:
    howdah_event_free(event);
    howdah_builder_free(builder);
    howdah_close(bus);
    return code;
}
