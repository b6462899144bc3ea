/*
 * purge.c - howdah purge: erasing payloads for good, and the list of who did it.
 *
 * It cannot be undone, so without --yes it counts and tells, and does nothing.  What it did is
 * printed from the record in the store, not from what was asked for.
 */
#include <assert.h>
#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "cli/out/fields.h"

/* ------------------------------------------------------------------ records */

/* A purge that erased nothing is not recorded: it has no number and no time. */
static void get_id(const void *thing, face_value *v)
{
    const howdah_purge_record *r = thing;

    v->number = r->id;
    v->absent = r->id <= 0;
}

/* The time is the database's, taken when the purge was recorded. */
static void get_purged_at(const void *thing, face_value *v)
{
    const howdah_purge_record *r = thing;

    v->number = r->purged_at_us;
    v->absent = r->id <= 0;
}

#define AT(member) FACE_AT(howdah_purge_record, member)

static const face_field fields[] = {
    {"id", FACE_NUMBER, "purge", "id", .style = FACE_ASIDE, .get = get_id},
    {"purged_at", FACE_MOMENT, "purged at", "purged at (UTC)", .style = FACE_ASIDE,
     .get = get_purged_at},
    {"actor", FACE_TEXT, "by", AT(actor)},
    {"reason", FACE_TEXT, AT(reason)},
    {"stream", FACE_TEXT, .blank = "(by id)", AT(stream)},
    {"events", FACE_COUNT, "events erased", "events", AT(events)},
    {"dead_letters", FACE_COUNT, "dead letters", AT(dead_letters)},
    {"snapshots", FACE_COUNT, AT(snapshots)},
    {"jobs", FACE_COUNT, AT(jobs)},
    {"left", FACE_COUNT, "revisions left", "left", AT(left)},
    {.name = NULL},
};

/* The reason comes last in a table, where it gets the width that is left. */
static const face_entity purge_entity = {
    fields,
    .json = "id purged_at actor reason stream events dead_letters snapshots jobs left",
    .show = "id purged_at actor reason stream events dead_letters snapshots jobs left",
    .table = "id purged_at actor stream events left reason",
};

static int on_listed(void *ctx, const howdah_purge_record *record)
{
    return cli_list_put(ctx, record);
}

typedef struct wanted {
    cli_out *out;
    int64_t id;
} wanted;

/* The library lists all records; the answer to a purge is its own. */
static int on_wanted(void *ctx, const howdah_purge_record *record)
{
    const wanted *w = ctx;

    if (record->id == w->id)
        cli_entity_put(w->out, &purge_entity, record);
    return cli_out_alive(w->out) ? 0 : 1;
}

/* "ls" takes none of the options of a purge: with one it was probably meant as something else. */
static int run_ls(cli_context *cli, howdah_error *reterr)
{
    cli_list list;
    int s = cli_args_words(&cli->args, 1, 1, reterr);

    for (const cli_option *o = cli->args.command->options; s == HOWDAH_OK && o->name; o++)
        if (cli_args_has(&cli->args, o->name))
            s = hw_fail(reterr, HOWDAH_MISUSE, "purge ls does not take --%s", o->name);
    if (s == HOWDAH_OK)
        s = cli_open(cli, reterr);
    cli_list_begin(&list, cli, &purge_entity);
    if (s == HOWDAH_OK)
        s = howdah_purges_walk(cli->bus, on_listed, &list, reterr);
    cli_list_end(&list, s, "nothing has been purged");
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
    assert(strlen(text) == sizeof *seen - 1); /* a UUID */
    memcpy(seen[n], text, sizeof *seen);
    return true;
}

/* How many events of a query still have what a purge erases; ret_any: there are some. */
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

/* A stream that does not exist is told apart from one that has nothing left to erase. */
static int count_stream(cli_context *cli, const char *stream, int64_t *ret_count,
                        howdah_error *reterr)
{
    howdah_query_options q = HOWDAH_QUERY_OPTIONS_INIT;
    bool any;
    int s;

    q.stream = stream;
    s = count_whole(cli, &q, ret_count, &any, reterr);
    if (s >= 0 && !any)
        s = hw_fail(reterr, HOWDAH_NOT_FOUND, "the stream has no events");
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
        return hw_fail(
            reterr, HOWDAH_MISUSE,
            "purge needs --yes: it would erase nothing, because all of it was purged before");
    cli_count_text(n, count);
    s = hw_fail(reterr, HOWDAH_MISUSE,
                "purge needs --yes: it would erase payload and headers of %s event%s", count,
                n == 1 ? "" : "s");
    return hw_advise(reterr, s,
                     "it cannot be undone; dead letters, snapshots and waiting jobs made of them "
                     "go too; sequence, stream, type and times stay");
}

/* ------------------------------------------------------------------ purging */

/* Notes say where the bytes may still be: neither store can erase what has left it. */
static int answer(cli_context *cli, const howdah_purge_options *o, howdah_purge_record *record,
                  howdah_error *reterr)
{
    static const char in_sqlite[] =
        "it is overwritten in the file; copies and backups of the file keep it until they are "
        "deleted";
    static const char in_postgresql[] =
        "the next vacuum removes it from the database's files; backups and replication logs keep "
        "it until they are deleted";
    bool on_sqlite = strncasecmp(cli_store(cli), "sqlite:", 7) == 0;
    wanted w = {&cli->out, record->id};
    int s = HOWDAH_OK;

    if (record->id > 0) {
        s = howdah_purges_walk(cli->bus, on_wanted, &w, reterr);
    } else if (cli->out.json) {
        record->actor = o->actor;
        record->reason = o->reason;
        record->stream = o->stream;
        cli_entity_put(&cli->out, &purge_entity, record);
    }
    if (s < 0)
        return s;
    cli_out_flush(&cli->out);
    if (record->id == 0)
        cli_note(cli, "all of it was purged before; nothing was erased and nothing was recorded");
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

/* Ids or a stream, never both, and always a reason: it is all that is left of what was erased. */
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
        s = hw_fail(reterr, HOWDAH_MISUSE, "purge needs --stream or the ids of events");
    else if (o->stream && o->families)
        s = hw_fail(reterr, HOWDAH_MISUSE, "--families goes with ids: a stream is purged whole");
    else if (!o->reason)
        s = hw_fail(reterr, HOWDAH_MISUSE, "purge needs --reason");
    return s < 0 ? hw_advise(reterr, s, "usage: howdah %s", args->command->usage[0]) : s;
}

/* "ls" as the first word can be no id, since ids are UUIDs. */
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
