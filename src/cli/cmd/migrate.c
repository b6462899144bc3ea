/*
 * migrate.c - howdah migrate: the schema's steps.
 *
 * init is "migrate up" under another name.  print opens no store: a DBA may run it where there is
 * none.
 */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "cli/cmd/migrate.h"
#include "cli/out/fields.h"

#define NOTES_BYTES_MAX ((size_t)1024 * 1024)

typedef struct up {
    cli_context *cli;
    hw_buf notes; /* JSON strings, joined by commas */
} up;

/*
 * In a terminal a note is shown as it comes, since a step can take minutes; JSON has them all at
 * the end.
 */
static void on_note(void *ctx, const char *text)
{
    up *u = ctx;

    if (u->notes.len > 0)
        hw_buf_putc(&u->notes, ',');
    hw_json_put_string(&u->notes, text, strlen(text));
    if (!u->cli->out.json)
        cli_out_printf(&u->cli->out, "%s\n", text);
}

/* Counted after the migration, so two that started at once tell the same number. */
static int count_applied(void *ctx, const howdah_migration_info *step)
{
    int *applied = ctx;

    if (step->applied_at_us != HOWDAH_NO_TIME)
        ++*applied;
    return 0;
}

/* The URL without its password: howdah_bus_url() has none. */
static int say_done(up *u, howdah_error *reterr)
{
    cli_out *out = &u->cli->out;
    int applied = 0;
    int s = howdah_migrations_walk(u->cli->bus, count_applied, &applied, reterr);

    if (s < 0)
        return s;
    if (out->json) {
        cli_out_puts(out, "{\"store\":");
        cli_json_text(out, howdah_bus_url(u->cli->bus));
        cli_out_printf(out, ",\"steps\":%d,\"notes\":[%s]}\n", applied, hw_buf_str(&u->notes));
    } else {
        cli_out_printf(out, "%s is ready (%d step%s)\n", howdah_bus_url(u->cli->bus), applied,
                       applied == 1 ? "" : "s");
    }
    return HOWDAH_OK;
}

/* "init" and "migrate up" are the same. */
int cli_migrate_up(cli_context *cli, howdah_error *reterr)
{
    up u = {cli, HW_BUF_INIT(NOTES_BYTES_MAX)};
    howdah_migrate_options options = HOWDAH_MIGRATE_OPTIONS_INIT;
    int s = cli_open(cli, reterr);

    options.note = on_note;
    options.note_ctx = &u;
    if (s == HOWDAH_OK)
        s = howdah_migrate(cli->bus, &options, reterr);
    if (s == HOWDAH_OK)
        s = say_done(&u, reterr);
    hw_buf_done(&u.notes);
    return s;
}

static void get_state(const void *thing, face_value *v)
{
    const howdah_migration_info *step = thing;

    if (step->unknown)
        v->text = HW_STR_LIT("unknown");
    else if (step->changed)
        v->text = HW_STR_LIT("changed");
    else if (step->applied_at_us == HOWDAH_NO_TIME)
        v->text = HW_STR_LIT("pending");
    else
        v->text = HW_STR_LIT("applied");
}

static void get_applied_at(const void *thing, face_value *v)
{
    const howdah_migration_info *step = thing;

    v->number = step->applied_at_us;
    v->absent = step->applied_at_us == HOWDAH_NO_TIME;
}

/* Enough of it to tell two apart in a table. */
static void get_short_hash(const void *thing, face_value *v)
{
    const howdah_migration_info *step = thing;

    (void)snprintf(v->small, sizeof v->small, "%.12s", step->hash ? step->hash : "");
    v->text = hw_str_of(v->small);
}

#define AT(member) FACE_AT(howdah_migration_info, member)

static const face_field fields[] = {
    {"number", FACE_NUMBER, .head = "step", AT(number)},
    {"name", FACE_STRING, .style = FACE_NAME, AT(name)},
    {"hash", FACE_STRING, AT(hash)},
    {"short_hash", FACE_TEXT, .head = "hash", .style = FACE_ASIDE, .get = get_short_hash},
    {"state", FACE_WORD, .get = get_state},
    {"applied_at", FACE_TIME, .head = "applied at", .style = FACE_ASIDE, .get = get_applied_at},
    {.name = NULL},
};

static const face_entity step_entity = {
    fields,
    .json = "number name hash state applied_at",
    .table = "number name state applied_at short_hash",
};

static int on_step(void *ctx, const howdah_migration_info *step)
{
    (void)cli_list_put(ctx, step);
    return 0; /* all of them: there are few */
}

static int show_status(cli_context *cli, howdah_error *reterr)
{
    cli_list list;
    int s = cli_open(cli, reterr);

    cli_list_begin(&list, cli, &step_entity);
    if (s == HOWDAH_OK)
        s = howdah_migrations_walk(cli->bus, on_step, &list, reterr);
    cli_list_end(&list, s, NULL);
    return s;
}

/* Plain SQL in a pipe as well: it is meant for psql. */
static int print_sql(cli_context *cli, howdah_error *reterr)
{
    char *sql = NULL;
    int s = cli_settings(cli, reterr);

    if (s == HOWDAH_OK)
        s = howdah_migrations_sql(cli_store(cli), cli->settings, &sql, reterr);
    if (s < 0)
        return s;
    cli_out_puts(&cli->out, sql);
    howdah_free(sql);
    return HOWDAH_OK;
}

/* Three verbs without options of their own, so no table of verbs. */
static int run(cli_context *cli, const char *verb, howdah_error *reterr)
{
    if (strcmp(verb, "status") == 0)
        return show_status(cli, reterr);
    if (strcmp(verb, "up") == 0)
        return cli_migrate_up(cli, reterr);
    if (strcmp(verb, "print") == 0)
        return print_sql(cli, reterr);
    return hw_advise(reterr, hw_fail(reterr, HOWDAH_MISUSE, "migrate: unknown verb %.64s", verb),
                     "usage: howdah migrate status|up|print");
}

int cmd_migrate(cli_context *cli, int argc, char **argv)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    int s = cli_args_words(&cli->args, 1, 1, &err);

    (void)argc;
    if (s == HOWDAH_OK)
        s = run(cli, argv[1], &err);
    return s < 0 ? cli_fail(cli, &err) : 0;
}
