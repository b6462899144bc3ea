/*
 * help.c - howdah help: the tables of commands.c as text for people.
 *
 * Nothing about a command is written here, so help and parser cannot disagree.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/cmd/help.h"

#define NAME_WIDTH 12
#define OPTION_WIDTH 26 /* the longest: --expect any|none|exists|N */
#define LINE_WIDTH 80u

/* Bold in a terminal, plain in a pipe. */
static void heading(cli_out *out, const char *text)
{
    cli_out_style(out, CLI_BOLD);
    cli_out_puts(out, text);
    cli_out_style(out, CLI_PLAIN);
    cli_out_puts(out, "\n");
}

/* Commands of a group stand together in the table. */
static void command_list(cli_out *out)
{
    const char *group = "";

    for (const cli_command *c = cli_commands; c->name; c++) {
        if (strcmp(group, c->group) != 0) {
            group = c->group;
            cli_out_puts(out, "\n");
            heading(out, group);
        }
        cli_out_printf(out, "  %-*s %s\n", NAME_WIDTH, c->name, c->summary);
    }
}

/* Three commands to try come last, where the prompt is. */
void cli_help_overview(cli_out *out)
{
    cli_out_puts(out, "howdah: an event log that rides on PostgreSQL or SQLite\n\n"
                      "Usage: howdah COMMAND [OPTIONS]\n");
    command_list(out);
    cli_out_puts(out, "\n");
    heading(out, "Try");
    cli_out_puts(out, "  howdah init\n"
                      "  howdah append order-1 order.created '{\"total\":12}'\n"
                      "  howdah read --stream order-1\n"
                      "\nThe store is --store or $HOWDAH_STORE, else the file howdah.db here.\n"
                      "howdah help COMMAND explains a command.\n");
}

/* Options of a later version are parsed, to be refused by name, and not shown. */
static void option_line(cli_out *out, const cli_option *option)
{
    char left[64];
    char text[256];

    if (option->flags & CLI_LATER)
        return;
    (void)snprintf(left, sizeof left, "--%s%s%s", option->name, option->value ? " " : "",
                   option->value ? option->value : "");
    (void)snprintf(text, sizeof text, "%s%s", option->help,
                   option->flags & CLI_REPEATS ? " (may be repeated)" : "");
    assert(strlen(text) < sizeof text - 1); /* not cut */
    cli_out_printf(out, "  %-*s ", OPTION_WIDTH, left);
    cli_out_wrapped(out, text, OPTION_WIDTH + 3, LINE_WIDTH);
}

/* Without those that the command has an option of the same name for. */
static void global_list(cli_out *out, const cli_command *command)
{
    cli_out_puts(out, "\n");
    heading(out, "Options of every command");
    for (const cli_option *o = cli_global_options; o->name; o++)
        if (!cli_option_is_hidden(command, o))
            option_line(out, o);
}

/* A command without options of its own has no such section. */
static void option_list(cli_out *out, const char *title, const cli_option *table)
{
    if (!table)
        return;
    cli_out_puts(out, "\n");
    heading(out, title);
    for (; table->name; table++)
        option_line(out, table);
}

/* At 80 columns also in a wider terminal: text in long lines is hard to read. */
void cli_help_command(cli_out *out, const cli_command *command)
{
    cli_out_printf(out, "howdah %s: %s\n\n", command->name, command->summary);
    heading(out, "Usage");
    for (size_t i = 0; i < CLI_LINES_MAX && command->usage[i]; i++)
        cli_out_printf(out, "  howdah %s\n", command->usage[i]);
    if (command->about) {
        cli_out_puts(out, "\n");
        cli_out_wrapped(out, command->about, 0, LINE_WIDTH);
    }
    option_list(out, "Options", command->options);
    global_list(out, command);
    cli_out_puts(out, "\n");
    heading(out, "Examples");
    for (size_t i = 0; i < CLI_LINES_MAX && command->examples[i]; i++)
        cli_out_printf(out, "  %s\n", command->examples[i]);
}

int cmd_help(cli_context *cli, int argc, char **argv)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    const cli_command *command;

    if (cli_args_words(&cli->args, 0, 1, &err) < 0)
        return cli_fail(cli, &err);
    if (argc < 2) {
        cli_help_overview(&cli->out);
        return 0;
    }
    command = cli_command_find(argv[1]);
    if (!command) {
        (void)cli_command_unknown(argv[1], &err);
        return cli_fail(cli, &err);
    }
    cli_help_command(&cli->out, command);
    return 0;
}
