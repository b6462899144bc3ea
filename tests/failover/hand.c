/*
 * hand.c - what the command cannot do: a handler that leaves its effect in the transaction of its
 * checkpoint, and a writer with expectations that lives long.
 *
 *     hand subscribe URL NAME KEY=VALUE...
 *
 * has the keys pattern, stream, from, instance, checkpoint, lease_ms, slow_ms, batch_size,
 * concurrency, batch and log, and prints a line for each call of its handler.  With log it adds a
 * line "id sequence 0" to that file instead, which members of a group share; and an event of a type
 * hold.X waits there until the file LOG.hold.X.go exists, once it has made the file LOG.hold.X.
 *
 *     hand append URL
 *
 * reads lines "STREAM TYPE EXPECT UUID", where EXPECT is a version, any, or none, appends an event
 * for each, and prints a line for each outcome.
 *
 * Lines are JSON.  The table effects (subscriber, event_id, stream, version) is there already.
 */
#include <fcntl.h>
#include <howdah/howdah_pg.h>
#include <howdah/howdah_sqlite.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static howdah_bus *bus;

static void on_term(int number)
{
    (void)number;
    howdah_interrupt(bus); /* NOLINT(bugprone-signal-handler,cert-sig30-c) */
}

static void on_log(void *ctx, int level, const char *message)
{
    (void)ctx;
    if (level >= HOWDAH_LOG_WARN)
        (void)fprintf(stderr, "%s\n", message);
}

static int failed(const char *what, const howdah_error *err)
{
    (void)fprintf(stderr, "hand: %s: %s: %s\n", what, howdah_status_name(err->status),
                  err->message);
    return howdah_status_exit_code(err->status);
}

/* ---- a subscriber */

#define SQL_EFFECT "INSERT INTO effects (subscriber, event_id, stream, version) VALUES "

static bool pg_effect(PGconn *conn, const char *const *values)
{
    PGresult *result =
        PQexecParams(conn, SQL_EFFECT "($1, $2, $3, $4)", 4, NULL, values, NULL, NULL, 0);
    bool ok = PQresultStatus(result) == PGRES_COMMAND_OK;

    PQclear(result);
    return ok;
}

static bool sqlite_effect(sqlite3 *db, const char *const *values)
{
    sqlite3_stmt *stmt = NULL;
    bool ok = sqlite3_prepare_v2(db, SQL_EFFECT "(?, ?, ?, ?)", -1, &stmt, NULL) == SQLITE_OK;

    for (int i = 0; ok && i < 4; i++)
        ok = sqlite3_bind_text(stmt, i + 1, values[i], -1, SQLITE_TRANSIENT) == SQLITE_OK;
    ok = ok && sqlite3_step(stmt) == SQLITE_DONE;
    (void)sqlite3_finalize(stmt);
    return ok;
}

typedef struct hand {
    howdah_subscribe_options o;
    int64_t slow_ms;
    const char *log;
    int log_fd;
} hand;

/* One write: lines of several processes do not mix. */
static void note(const hand *h, const char *id, int64_t sequence)
{
    char line[80];
    int n = snprintf(line, sizeof line, "%s %" PRId64 " 0\n", id, sequence);

    if (write(h->log_fd, line, (size_t)n) != n)
        abort();
}

static void hold(const hand *h, const char *type)
{
    char path[500];
    int fd;

    (void)snprintf(path, sizeof path, "%s.%s", h->log, type);
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0)
        abort();
    (void)close(fd);
    (void)snprintf(path, sizeof path, "%s.%s.go", h->log, type);
    while (access(path, F_OK) != 0)
        (void)usleep(2000);
}

/* The line is out before anything else happens: what was in hand is known, whatever becomes of it.
 */
static int on_event(void *ctx, const howdah_event *event, howdah_delivery *delivery)
{
    const hand *h = ctx;
    char id[HOWDAH_UUID_SIZE];
    char version[24];
    const char *values[] = {howdah_delivery_subscriber(delivery), id, howdah_event_stream(event),
                            version};
    PGconn *conn = howdah_delivery_pg(delivery);
    sqlite3 *db = howdah_delivery_sqlite(delivery);

    howdah_event_id(event, id);
    (void)snprintf(version, sizeof version, "%" PRId64, howdah_event_version(event));
    if (h->log) {
        note(h, id, howdah_event_global_sequence(event));
        if (strncmp(howdah_event_type(event), "hold.", 5) == 0)
            hold(h, howdah_event_type(event));
    } else {
        (void)printf("{\"id\":\"%s\",\"global_sequence\":%" PRId64
                     ",\"stream\":\"%s\",\"version\":%s,\"type\":\"%s\",\"attempt\":%d}\n",
                     id, howdah_event_global_sequence(event), values[2], version,
                     howdah_event_type(event), howdah_delivery_attempt(delivery));
        (void)fflush(stdout);
    }
    if ((conn && !pg_effect(conn, values)) || (db && !sqlite_effect(db, values)))
        return howdah_delivery_fail(delivery, "the effect failed");
    if (h->slow_ms > 0)
        (void)usleep((useconds_t)h->slow_ms * 1000);
    return HOWDAH_HANDLED;
}

static int64_t number_of(const char *text)
{
    return strtoll(text, NULL, 10);
}

/* The place of a word in a list, -1: not there. */
static int place_of(const char *word, const char *const *words, int n)
{
    for (int i = 0; i < n; i++)
        if (strcmp(word, words[i]) == 0)
            return i;
    return -1;
}

static bool set_option(hand *h, char *text)
{
    static const char *const keys[] = {"pattern",     "stream",   "from",    "instance",
                                       "checkpoint",  "lease_ms", "slow_ms", "batch_size",
                                       "concurrency", "batch",    "log"};
    static const char *const instances[] = {"coordinated", "single", "lease", "shared"};
    static const char *const modes[] = {"sync", "batched", "transactional"};
    char *value = strchr(text, '=');

    if (!value)
        return false;
    *value++ = '\0';
    switch (place_of(text, keys, 11)) {
    case 0:
        h->o.pattern = value;
        return true;
    case 1:
        h->o.stream = value;
        return true;
    case 2:
        h->o.start = strcmp(value, "end") == 0     ? HOWDAH_FROM_END
                     : strcmp(value, "start") == 0 ? HOWDAH_FROM_START
                                                   : number_of(value);
        return true;
    case 3:
        h->o.instance = (howdah_instance)place_of(value, instances, 4);
        return true;
    case 4:
        h->o.checkpoint = (howdah_checkpoint_mode)place_of(value, modes, 3);
        return true;
    case 5:
        h->o.lease_ms = number_of(value);
        return true;
    case 6:
        h->slow_ms = number_of(value);
        return true;
    case 7:
        h->o.batch_size = number_of(value);
        return true;
    case 8:
        h->o.concurrency = number_of(value);
        return true;
    case 9:
        h->o.catch_up_batch = number_of(value);
        return true;
    case 10:
        h->log = value;
        h->log_fd = open(value, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        return h->log_fd >= 0;
    default:
        return false;
    }
}

/* Until the signal. */
static int run(const hand *h, howdah_error *reterr)
{
    int s;
    int end;

    if (h->o.concurrency <= 1)
        return howdah_run(bus, -1, reterr);
    s = howdah_runner_start(bus, (int)h->o.concurrency, reterr);
    if (s >= 0)
        s = howdah_runner_wait(bus, -1, reterr);
    end = howdah_runner_stop(bus, s < 0 && s != HOWDAH_INTERRUPTED ? NULL : reterr);
    return s < 0 && s != HOWDAH_INTERRUPTED ? s : end;
}

static int subscribe(const char *name, char **options, int n)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_subscription *sub = NULL;
    howdah_subscription_info info = HOWDAH_SUBSCRIPTION_INFO_INIT;
    hand h = {HOWDAH_SUBSCRIBE_OPTIONS_INIT, 0, NULL, -1};
    int s;

    h.o.subscriber_id = name;
    h.o.handler = on_event;
    h.o.ctx = &h;
    h.o.retry_delay_ms = 20;
    h.o.max_retry_delay_ms = 200;
    h.o.max_retries = 1000; /* an error of the store is never the event's fault here */
    for (int i = 0; i < n; i++)
        if (!set_option(&h, options[i])) {
            (void)fprintf(stderr, "hand: what is %s?\n", options[i]);
            return 2;
        }
    if (howdah_subscribe(bus, &h.o, &sub, &err) < 0)
        return failed("subscribe", &err);
    (void)signal(SIGTERM, on_term);
    s = run(&h, &err);
    if (s < 0 && s != HOWDAH_INTERRUPTED)
        return failed("run", &err);
    howdah_subscription_info_get(sub, &info);
    if (info.state == HOWDAH_SUBSCRIPTION_HALTED) {
        (void)fprintf(stderr, "hand: %s is halted: %s\n", name, info.reason);
        return 1;
    }
    return 0;
}

/* ---- a writer */

static int append_one(char *stream, char *type, const char *expect, const char *id)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_append_options o = HOWDAH_APPEND_OPTIONS_INIT;
    howdah_position position = HOWDAH_POSITION_INIT;
    howdah_builder *builder = NULL;
    howdah_event *event = NULL;
    char data[100];
    int s = howdah_builder_new(&builder, &err);

    (void)snprintf(data, sizeof data, "{\"u\":\"%s\"}", id);
    if (strcmp(expect, "any") != 0)
        o.expected_version = strcmp(expect, "none") == 0 ? HOWDAH_EXPECT_NONE : number_of(expect);
    if (s >= 0) {
        howdah_builder_set_stream(builder, stream);
        howdah_builder_set_type(builder, type);
        howdah_builder_set_id(builder, id);
        howdah_builder_set_json(builder, data, strlen(data));
        s = howdah_builder_build(builder, &event, &err);
    }
    if (s >= 0)
        s = howdah_append(bus, event, &o, &position, &err);
    howdah_event_free(event);
    howdah_builder_free(builder);
    (void)printf("{\"id\":\"%s\",\"status\":\"%s\",\"unknown\":%s,\"retryable\":%s,"
                 "\"global_sequence\":%" PRId64 ",\"version\":%" PRId64 ",\"actual\":%" PRId64
                 "}\n",
                 id, howdah_status_name(s), err.flags & HOWDAH_OUTCOME_UNKNOWN ? "true" : "false",
                 err.flags & HOWDAH_RETRYABLE ? "true" : "false", position.global_sequence,
                 position.version, s == HOWDAH_CONFLICT ? err.actual_version : -1);
    (void)fflush(stdout);
    if (s < 0)
        (void)fprintf(stderr, "hand: %s\n", err.message);
    return s;
}

static int append_all(void)
{
    char stream[64];
    char type[64];
    char expect[32];
    char id[64];

    /* NOLINTNEXTLINE(cert-err34-c): words only */
    while (scanf("%63s %63s %31s %63s", stream, type, expect, id) == 4)
        (void)append_one(stream, type, expect, id);
    return 0;
}

int main(int argc, char **argv)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    int code = 2;

    if (argc < 3) {
        (void)fprintf(stderr, "usage: hand subscribe URL NAME KEY=VALUE... | hand append URL\n");
        return 2;
    }
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    howdah_log_set(on_log, NULL);
    if (howdah_open(argv[2], NULL, &bus, &err) < 0)
        return failed("open", &err);
    if (strcmp(argv[1], "append") == 0)
        code = append_all();
    else if (argc > 3)
        code = subscribe(argv[3], argv + 4, argc - 4);
    howdah_close(bus);
    return code;
}
