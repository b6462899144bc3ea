/* purge.c - howdah purge: erasing payloads for good, and the list of who did it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "cli/out/show.h"
#include "cli/out/subscriptions.h"
#include "cli/out/table.h"
#include "cli/out/times.h"

#define ROWS_HELD 1000

/* ------------------------------------------------------------------ records */

static void record_json(cli_context *cli, const howdah_purge_record *r)
{
    cli_out *out = &cli->out;

    if (r->id > 0)
        cli_out_printf(out, "{\"id\":%" PRId64, r->id);
    else
        cli_out_puts(out, "{\"id\":null");
    if (r->id > 0)
        cli_json_time(cli, "purged_at", r->purged_at_us);
    else
        cli_out_puts(out, ",\"purged_at\":null");
    cli_json_member(cli, "actor", r->actor);
    cli_json_member(cli, "reason", r->reason);
    cli_json_member(cli, "stream", r->stream);
    cli_out_printf(out,
                   ",\"events\":%" PRId64 ",\"dead_letters\":%" PRId64 ",\"snapshots\":%" PRId64
                   ",\"jobs\":%" PRId64 ",\"left\":%" PRId64 "}\n",
                   r->events, r->dead_letters, r->snapshots, r->jobs, r->left);
}

static void record_show(cli_out *out, const howdah_purge_record *r)
{
    cli_show_number(out, "purge", r->id);
    cli_show_time(out, "purged at", r->purged_at_us);
    cli_show_text(out, "by", hw_str_of(r->actor));
    cli_show_text(out, "reason", hw_str_of(r->reason));
    cli_show_text(out, "stream", hw_str_of(r->stream));
    cli_show_number(out, "events erased", r->events);
    cli_show_number(out, "dead letters", r->dead_letters);
    cli_show_number(out, "snapshots", r->snapshots);
    cli_show_number(out, "jobs", r->jobs);
    cli_show_number(out, "revisions left", r->left);
}

typedef struct listing {
    cli_context *cli;
    cli_table table;
    int64_t only; /* this one; 0: all */
    int64_t n;
} listing;

static void record_row(cli_table *table, const howdah_purge_record *r)
{
    char id[24];
    char at[HOWDAH_TIME_SIZE];
    char events[CLI_COUNT_SIZE];
    char left[CLI_COUNT_SIZE];

    (void)snprintf(id, sizeof id, "%" PRId64, r->id);
    howdah_time_format(r->purged_at_us, at);
    at[10] = ' ';
    at[19] = '\0';
    cli_count_text(r->events, events);
    cli_count_text(r->left, left);
    cli_table_row(table, (hw_str[]){hw_str_of(id), hw_str_of(at), hw_str_of(r->actor),
                                    hw_str_of(r->stream ? r->stream : "(by id)"), hw_str_of(events),
                                    hw_str_of(left), hw_str_of(r->reason)});
}

static int on_record(void *ctx, const howdah_purge_record *record)
{
    listing *l = ctx;

    if (l->only > 0 && record->id != l->only)
        return 0;
    l->n++;
    if (l->cli->out.json)
        record_json(l->cli, record);
    else if (l->only > 0)
        record_show(&l->cli->out, record);
    else
        record_row(&l->table, record);
    return cli_out_alive(&l->cli->out) ? 0 : 1;
}

static int run_ls(cli_context *cli, howdah_error *reterr)
{
    static const cli_column columns[] = {
        {"id", CLI_DIM, true, true, 0},         {"purged at (UTC)", CLI_DIM, false, true, 0},
        {"by", CLI_PLAIN, false, false, 0},     {"stream", CLI_PLAIN, false, false, 0},
        {"events", CLI_PLAIN, true, true, 0},   {"left", CLI_PLAIN, true, true, 0},
        {"reason", CLI_PLAIN, false, false, 0},
    };
    listing l = {.cli = cli};
    int s = cli_args_words(&cli->args, 1, 1, reterr);

    for (const cli_option *o = cli->args.command->options; s == HOWDAH_OK && o->name; o++)
        if (cli_args_has(&cli->args, o->name))
            s = hw_fail(reterr, HOWDAH_MISUSE, "purge ls does not take --%s", o->name);
    if (s == HOWDAH_OK)
        s = cli_open(cli, reterr);
    cli_table_init(&l.table, &cli->out, columns, sizeof columns / sizeof *columns, ROWS_HELD);
    if (s == HOWDAH_OK)
        s = howdah_purges_walk(cli->bus, on_record, &l, reterr);
    cli_table_flush(&l.table);
    cli_table_done(&l.table);
    if (s >= 0 && l.n == 0 && !cli->out.json)
        cli_note(cli, "nothing was ever purged");
    return s;
}

/* ------------------------------------------------------------ what would be */

typedef char uuid_text[HOWDAH_UUID_SIZE];

/* Whether the text is not among the first n; then it is the next. */
static bool add_once(uuid_text *seen, size_t n, const char *text)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(seen[i], text) == 0)
            return false;
    memcpy(seen[n], text, sizeof *seen);
    return true;
}

/* How many of the events of a question still have what a purge erases; ret_any: there are some. */
static int count_whole(cli_context *cli, const howdah_query_options *q, int64_t *count,
                       bool *ret_any, howdah_error *reterr)
{
    howdah_reader *reader = NULL;
    const howdah_event *event;
    int s = howdah_query_open(cli->bus, q, &reader, reterr);

    *ret_any = false;
    while (s == HOWDAH_OK && (s = howdah_reader_next(reader, &event, reterr)) == HOWDAH_OK) {
        *ret_any = true;
        *count += !howdah_event_is_purged(event);
    }
    howdah_reader_close(reader);
    return s < 0 ? s : HOWDAH_OK;
}

/* Distinct events, or, with families, the revisions of distinct families. */
static int count_named(cli_context *cli, const howdah_purge_options *o, int64_t *ret_count,
                       howdah_error *reterr)
{
    uuid_text *seen = hw_calloc(o->ids_n, sizeof *seen);
    size_t n = 0;
    int s = seen ? HOWDAH_OK : hw_fail_no_memory(reterr);

    for (size_t i = 0; s >= 0 && i < o->ids_n; i++) {
        howdah_query_options q = HOWDAH_QUERY_OPTIONS_INIT;
        howdah_event *event = NULL;
        uuid_text id;
        bool purged;
        bool any;

        s = howdah_event_get(cli->bus, o->ids[i], &event, reterr);
        if (s < 0)
            break;
        if (o->families)
            howdah_event_family(event, id);
        else
            howdah_event_id(event, id);
        purged = howdah_event_is_purged(event);
        howdah_event_free(event);
        if (!add_once(seen, n, id))
            continue;
        n++;
        q.family = id;
        if (o->families)
            s = count_whole(cli, &q, ret_count, &any, reterr);
        else
            *ret_count += !purged;
    }
    hw_free(seen);
    return s;
}

static int count_stream(cli_context *cli, const char *stream, int64_t *ret_count,
                        howdah_error *reterr)
{
    howdah_query_options q = HOWDAH_QUERY_OPTIONS_INIT;
    bool any;
    int s;

    q.stream = stream;
    s = count_whole(cli, &q, ret_count, &any, reterr);
    if (s >= 0 && !any)
        s = hw_fail(reterr, HOWDAH_NOT_FOUND, "the stream has no event");
    return s;
}

/* Without --yes: what it would do, and that it was not done. */
static int tell(cli_context *cli, const howdah_purge_options *o, howdah_error *reterr)
{
    int64_t n = 0;
    char count[CLI_COUNT_SIZE];
    int s = o->stream ? count_stream(cli, o->stream, &n, reterr) : count_named(cli, o, &n, reterr);

    if (s < 0)
        return s;
    if (n == 0)
        return hw_fail(reterr, HOWDAH_MISUSE,
                       "purge needs --yes: it would erase nothing, all of it was purged before");
    cli_count_text(n, count);
    s = hw_fail(reterr, HOWDAH_MISUSE,
                "purge needs --yes: it would erase payload and headers of %s event%s", count,
                n == 1 ? "" : "s");
    return hw_advise(reterr, s,
                     "it cannot be undone; dead letters, snapshots and waiting jobs made of them "
                     "go too; sequence, stream, type and times stay");
}

/* ------------------------------------------------------------------ purging */

static int answer(cli_context *cli, const howdah_purge_options *o, howdah_purge_record *record,
                  howdah_error *reterr)
{
    static const char in_sqlite[] =
        "it is overwritten in the file; copies and backups of the file keep it until they are "
        "thrown away";
    static const char in_postgresql[] =
        "the database's files let go of it with the next vacuum; backups and replication logs keep "
        "it until they are thrown away";
    bool on_sqlite = strncasecmp(cli_store(cli), "sqlite:", 7) == 0;
    listing l = {.cli = cli, .only = record->id};
    int s = HOWDAH_OK;

    if (record->id > 0) {
        s = howdah_purges_walk(cli->bus, on_record, &l, reterr);
    } else if (cli->out.json) {
        record->actor = o->actor;
        record->reason = o->reason;
        record->stream = o->stream;
        record_json(cli, record);
    }
    if (s < 0)
        return s;
    cli_out_flush(&cli->out);
    if (record->id == 0)
        cli_note(cli, "all of it was purged before; nothing was erased, and nothing is recorded");
    else
        cli_note(cli, "%s", on_sqlite ? in_sqlite : in_postgresql);
    if (record->left > 0)
        cli_note(cli,
                 "%" PRId64 " revision%s of the same event%s still %s a payload; --families "
                 "erases those too",
                 record->left, record->left == 1 ? "" : "s", o->ids_n == 1 ? "" : "s",
                 record->left == 1 ? "has" : "have");
    return HOWDAH_OK;
}

static int parse(const cli_args *args, howdah_purge_options *o, howdah_error *reterr)
{
    int s = HOWDAH_OK;

    o->stream = cli_args_text(args, "stream");
    o->ids = (const char *const *)args->words + 1;
    o->ids_n = (size_t)args->words_n - 1;
    o->families = cli_args_has(args, "families");
    o->reason = cli_args_text(args, "reason");
    o->actor = cli_args_text(args, "actor");
    if (!o->stream == (o->ids_n == 0))
        s = hw_fail(reterr, HOWDAH_MISUSE, "purge: wanted --stream or the ids of events");
    else if (o->stream && o->families)
        s = hw_fail(reterr, HOWDAH_MISUSE, "--families goes with ids: a stream is purged whole");
    else if (!o->reason)
        s = hw_fail(reterr, HOWDAH_MISUSE, "purge needs --reason");
    return s < 0 ? hw_advise(reterr, s, "usage: howdah %s", args->command->usage[0]) : s;
}

static int run(cli_context *cli, howdah_error *reterr)
{
    howdah_purge_options o = HOWDAH_PURGE_OPTIONS_INIT;
    howdah_purge_record record = HOWDAH_PURGE_RECORD_INIT;
    int s;

    if (cli->args.words_n > 1 && strcmp(cli->args.words[1], "ls") == 0)
        return run_ls(cli, reterr);
    s = parse(&cli->args, &o, reterr);
    if (s == HOWDAH_OK)
        s = cli_open(cli, reterr);
    if (s == HOWDAH_OK && !cli_args_has(&cli->args, "yes"))
        s = tell(cli, &o, reterr);
    if (s == HOWDAH_OK)
        s = howdah_purge(cli->bus, &o, &record, reterr);
    return s < 0 ? s : answer(cli, &o, &record, reterr);
}

int cmd_purge(cli_context *cli, int argc, char **argv)
{
    howdah_error err = HOWDAH_ERROR_INIT;

    (void)argc;
    (void)argv;
    return run(cli, &err) < 0 ? cli_fail(cli, &err) : 0;
}
