/*
 * subscribe.c - handle every order once, also when the program ends in between.
 *
 *     cc subscribe.c -o subscribe $(pkg-config --cflags --libs howdah)
 *     ./subscribe sqlite:orders.db            until Ctrl-C
 *     ./subscribe sqlite:orders.db once       until all that is there is handled
 */
#include <howdah/howdah.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static howdah_bus *bus;

static int failed(const char *what, const howdah_error *err)
{
    fprintf(stderr, "%s: %s: %s\n", what, howdah_status_name(err->status), err->message);
    return howdah_status_exit_code(err->status);
}

static void on_signal(int number)
{
    (void)number;
    howdah_interrupt(bus);
}

/*
 * Called at least once for each event, in order of its stream.  What fails is tried again later;
 * after the last try it becomes a dead letter: howdah dlq ls.
 */
static int on_order(void *ctx, const howdah_event *event, howdah_delivery *delivery)
{
    size_t len;
    const char *data = howdah_event_data(event, &len);

    (void)ctx;
    if (!strstr(data, "total"))
        return howdah_delivery_fail(delivery, "an order without a total");
    printf("%s version %lld: %.*s\n", howdah_event_stream(event),
           (long long)howdah_event_version(event), (int)len, data);
    return fflush(stdout) == 0 ? HOWDAH_HANDLED : HOWDAH_NOT_HANDLED;
}

int main(int argc, char **argv)
{
    const char *url = argc > 1 ? argv[1] : "sqlite:orders.db";
    int once = argc > 2 && strcmp(argv[2], "once") == 0;
    howdah_subscribe_options options = HOWDAH_SUBSCRIBE_OPTIONS_INIT;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_subscription *sub = NULL;
    struct sigaction action;
    int code = 0;
    int s;

    if (howdah_open(url, NULL, &bus, &err) < 0)
        return failed("open", &err);
    memset(&action, 0, sizeof(action));
    action.sa_handler = on_signal;
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);

    options.subscriber_id = "example:orders";
    options.pattern = "order.*";
    options.handler = on_order;
    options.retry_delay_ms = 100;
    if (howdah_subscribe(bus, &options, &sub, &err) < 0) {
        code = failed("subscribe", &err);
        goto out;
    }
    s = once ? howdah_subscription_wait(sub, 30000, &err) : howdah_run(bus, -1, &err);
    if (s < 0 && s != HOWDAH_INTERRUPTED)
        code = failed("run", &err);
    else if (once && s == HOWDAH_END)
        code = 1; /* not everything within the time */

    /* An interrupt ends the work; storing the place afterwards is wanted. */
    howdah_interrupt_clear(bus);
    if (howdah_unsubscribe(sub, &err) < 0)
        code = failed("unsubscribe", &err);
out:
    howdah_close(bus);
    return code;
}
