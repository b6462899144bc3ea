/* migrate.c - howdah migrate: the schema's steps. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "cli/cmd/migrate.h"
#include "cli/out/table.h"

#define NOTES_BYTES_MAX ((size_t)1024 * 1024)
#define ROWS_HELD 100 /* more steps than there will be */

typedef struct up {
    cli_context *cli;
    hw_buf notes; /* JSON strings, joined by commas */
} up;

static void on_note(void *ctx, const char *text)
{
    up *u = ctx;

    if (u->notes.len > 0)
        hw_buf_putc(&u->notes, ',');
    hw_json_put_string(&u->notes, text, strlen(text));
    if (!u->cli->out.json)
        cli_out_printf(&u->cli->out, "%s\n", text);
}

static int count_applied(void *ctx, const howdah_migration_info *step)
{
    int *applied = ctx;

    if (step->applied_at_us != HOWDAH_NO_TIME)
        ++*applied;
    return 0;
}

static int say_done(up *u, howdah_error *reterr)
{
    cli_out *out = &u->cli->out;
    int applied = 0;
    int s = howdah_migrations_walk(u->cli->bus, count_applied, &applied, reterr);

    if (s < 0)
        return s;
    if (out->json) {
        cli_out_puts(out, "{\"store\":");
        cli_json_text(u->cli, howdah_bus_url(u->cli->bus));
        cli_out_printf(out, ",\"steps\":%d,\"notes\":[%s]}\n", applied, hw_buf_str(&u->notes));
    } else {
        cli_out_printf(out, "%s is ready (%d step%s)\n", howdah_bus_url(u->cli->bus), applied,
                       applied == 1 ? "" : "s");
    }
    return HOWDAH_OK;
}

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

static const char *step_state(const howdah_migration_info *step)
{
    if (step->unknown)
        return "unknown";
    if (step->changed)
        return "changed";
    return step->applied_at_us == HOWDAH_NO_TIME ? "pending" : "applied";
}

typedef struct listing {
    cli_context *cli;
    cli_table table;
} listing;

static void step_json(cli_context *cli, const howdah_migration_info *step, const char *applied_at)
{
    cli_out_printf(&cli->out, "{\"number\":%d,\"name\":", step->number);
    cli_json_text(cli, step->name);
    cli_out_puts(&cli->out, ",\"hash\":");
    cli_json_text(cli, step->hash ? step->hash : "");
    cli_out_printf(&cli->out, ",\"state\":\"%s\",\"applied_at\":", step_state(step));
    if (applied_at[0])
        cli_json_text(cli, applied_at);
    else
        cli_out_puts(&cli->out, "null");
    cli_out_puts(&cli->out, "}\n");
}

static int on_step(void *ctx, const howdah_migration_info *step)
{
    listing *l = ctx;
    char applied_at[HOWDAH_TIME_SIZE] = "";
    char number[16];
    char hash[13];

    if (step->applied_at_us != HOWDAH_NO_TIME)
        howdah_time_format(step->applied_at_us, applied_at);
    if (l->cli->out.json) {
        step_json(l->cli, step, applied_at);
        return 0;
    }
    (void)snprintf(number, sizeof number, "%d", step->number);
    (void)snprintf(hash, sizeof hash, "%.12s", step->hash ? step->hash : "");
    cli_table_row(&l->table,
                  (hw_str[]){hw_str_of(number), hw_str_of(step->name), hw_str_of(step_state(step)),
                             hw_str_of(applied_at), hw_str_of(hash)});
    return 0;
}

static int show_status(cli_context *cli, howdah_error *reterr)
{
    static const cli_column columns[] = {{"step", CLI_PLAIN, true, true, 0},
                                         {"name", CLI_CYAN, false, false, 0},
                                         {"state", CLI_PLAIN, false, true, 0},
                                         {"applied at", CLI_DIM, false, true, 0},
                                         {"hash", CLI_DIM, false, false, 0}};
    listing l = {.cli = cli};
    int s = cli_open(cli, reterr);

    cli_table_init(&l.table, &cli->out, columns, sizeof columns / sizeof *columns, ROWS_HELD);
    if (s == HOWDAH_OK)
        s = howdah_migrations_walk(cli->bus, on_step, &l, reterr);
    cli_table_flush(&l.table);
    cli_table_done(&l.table);
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
