/*
 * completion.c - howdah completion: scripts made from the tables, so they cannot drift.
 *
 * Each shell gets the same: commands, their verbs, their options, and the choices of an option.
 */
#include <string.h>

#include "cli/cli.h"

/* Options of a later version are left out. */
static void option_words(cli_out *out, const cli_option *table)
{
    for (; table && table->name; table++)
        if (!(table->flags & CLI_LATER))
            cli_out_printf(out, " --%s", table->name);
}

static void command_words(cli_out *out)
{
    for (const cli_command *c = cli_commands; c->name; c++)
        cli_out_printf(out, "%s%s", c == cli_commands ? "" : " ", c->name);
}

/* Whether an earlier command had an option of the same name and choices. */
static bool choices_seen(const cli_command *command, const cli_option *option)
{
    for (const cli_command *c = cli_commands; c != command; c++)
        for (const cli_option *o = c->options; o && o->name; o++)
            if (o->choices && strcmp(o->name, option->name) == 0)
                return true;
    return false;
}

/* ---- bash */

/*
 * bash looks at the option before the cursor only, whatever the command, so each name comes once.
 */
static void bash_choices(cli_out *out)
{
    for (const cli_command *c = cli_commands; c->name; c++)
        for (const cli_option *o = c->options; o && o->name; o++)
            if (o->choices && !choices_seen(c, o))
                cli_out_printf(out,
                               "    --%s) COMPREPLY=($(compgen -W '%s' -- \"$cur\")); return ;;\n",
                               o->name, o->choices);
}

/* Options with a value: the word after them is no command. */
static void bash_value_options(cli_out *out, const cli_option *table)
{
    for (; table && table->name; table++)
        if (table->value && !(table->flags & CLI_LATER))
            cli_out_printf(out, "|--%s", table->name);
}

/* "help" completes the names of commands. */
static void bash_commands(cli_out *out)
{
    for (const cli_command *c = cli_commands; c->name; c++) {
        cli_out_printf(out, "    %s) options='", c->name);
        option_words(out, c->options);
        cli_out_puts(out, "'; words='");
        if (strcmp(c->name, "help") == 0)
            command_words(out);
        else
            cli_out_puts(out, c->words ? c->words : "");
        cli_out_puts(out, "' ;;\n");
    }
}

static void bash(cli_out *out)
{
    cli_out_puts(out, "# bash completion for howdah: eval \"$(howdah completion bash)\"\n"
                      "_howdah() {\n"
                      "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
                      "  local command='' options='' words='' i\n"
                      "  case $prev in\n");
    bash_choices(out);
    cli_out_puts(out, "    --store) COMPREPLY=($(compgen -W 'sqlite: postgres://' -- \"$cur\"));"
                      " return ;;\n"
                      "  esac\n"
                      "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
                      "    case ${COMP_WORDS[i]} in\n"
                      "      --none");
    bash_value_options(out, cli_global_options);
    cli_out_puts(out, ") i=$((i + 1)) ;;\n"
                      "      -*) ;;\n"
                      "      *) command=${COMP_WORDS[i]}; break ;;\n"
                      "    esac\n"
                      "  done\n"
                      "  case $command in\n"
                      "    '') words='");
    command_words(out);
    cli_out_puts(out, "' ;;\n");
    bash_commands(out);
    cli_out_puts(out, "  esac\n  options=\"$options");
    option_words(out, cli_global_options);
    cli_out_puts(out, "\"\n"
                      "  case $cur in\n"
                      "    -*) COMPREPLY=($(compgen -W \"$options\" -- \"$cur\")) ;;\n"
                      "    @*) COMPREPLY=($(compgen -f -P @ -- \"${cur#@}\")) ;;\n"
                      "    *) COMPREPLY=($(compgen -W \"$words\" -- \"$cur\")) ;;\n"
                      "  esac\n"
                      "}\n"
                      "complete -o default -F _howdah howdah\n");
}

/* ---- zsh and fish: a text inside single quotes */

static void quoted(cli_out *out, const char *text, bool zsh)
{
    for (; *text; text++) {
        if (*text == '\'')
            cli_out_puts(out, zsh ? "'\\''" : "\\'");
        else if (zsh && strchr("[]:", *text))
            cli_out_printf(out, "\\%c", *text);
        else
            cli_out_put(out, text, 1);
    }
}

/* In the form of _arguments: name, help, and what the value may be. */
static void zsh_option(cli_out *out, const cli_option *option)
{
    if (option->flags & CLI_LATER)
        return;
    cli_out_printf(out, " \\\n        '%s--%s%s[", option->flags & CLI_REPEATS ? "*" : "",
                   option->name, option->value ? "=" : "");
    quoted(out, option->help, true);
    cli_out_puts(out, "]");
    if (option->value) {
        cli_out_puts(out, ":");
        quoted(out, option->value, true);
        cli_out_puts(out, ":");
        if (option->choices)
            cli_out_printf(out, "(%s)", option->choices);
    }
    cli_out_puts(out, "'");
}

static void zsh_command(cli_out *out, const cli_command *command)
{
    cli_out_printf(out, "    %s)\n      _arguments", command->name);
    for (const cli_option *o = command->options; o && o->name; o++)
        zsh_option(out, o);
    for (const cli_option *o = cli_global_options; o->name; o++)
        if (!cli_option_is_hidden(command, o))
            zsh_option(out, o);
    cli_out_puts(out, " \\\n        '*:word:(");
    if (strcmp(command->name, "help") == 0)
        command_words(out);
    else
        cli_out_puts(out, command->words ? command->words : "");
    cli_out_puts(out, ")' ;;\n");
}

static void zsh(cli_out *out)
{
    cli_out_puts(out, "#compdef howdah\n"
                      "# zsh completion for howdah: save as _howdah in a directory of $fpath\n"
                      "_howdah() {\n"
                      "  local -a commands\n"
                      "  commands=(\n");
    for (const cli_command *c = cli_commands; c->name; c++) {
        cli_out_printf(out, "    '%s:", c->name);
        quoted(out, c->summary, true);
        cli_out_puts(out, "'\n");
    }
    cli_out_puts(out, "  )\n"
                      "  if (( CURRENT == 2 )); then\n"
                      "    _describe command commands\n"
                      "    return\n"
                      "  fi\n"
                      "  local command=${words[2]}\n"
                      "  shift words\n"
                      "  (( CURRENT-- ))\n"
                      "  case $command in\n");
    for (const cli_command *c = cli_commands; c->name; c++)
        zsh_command(out, c);
    cli_out_puts(out, "  esac\n}\n_howdah \"$@\"\n");
}

/* One "complete" line an option, under the condition that its command was typed. */
static void fish_option(cli_out *out, const char *condition, const cli_option *option)
{
    if (option->flags & CLI_LATER)
        return;
    cli_out_puts(out, "complete -c howdah");
    if (condition)
        cli_out_printf(out, " -n '__fish_seen_subcommand_from %s'", condition);
    cli_out_printf(out, " -l %s%s", option->name, option->value ? " -x" : "");
    if (option->choices)
        cli_out_printf(out, " -a '%s'", option->choices);
    cli_out_puts(out, " -d '");
    quoted(out, option->help, false);
    cli_out_puts(out, "'\n");
}

static void fish_command(cli_out *out, const cli_command *command)
{
    cli_out_printf(out, "complete -c howdah -n __fish_use_subcommand -f -a %s -d '", command->name);
    quoted(out, command->summary, false);
    cli_out_puts(out, "'\n");
    if (command->words)
        cli_out_printf(out, "complete -c howdah -n '__fish_seen_subcommand_from %s' -f -a '%s'\n",
                       command->name, command->words);
    for (const cli_option *o = command->options; o && o->name; o++)
        fish_option(out, command->name, o);
}

static void fish(cli_out *out)
{
    cli_out_puts(out, "# fish completion for howdah: save as completions/howdah.fish\n");
    for (const cli_option *o = cli_global_options; o->name; o++)
        fish_option(out, NULL, o);
    for (const cli_command *c = cli_commands; c->name; c++)
        fish_command(out, c);
}

/* It needs no store: a shell runs it at every start. */
int cmd_completion(cli_context *cli, int argc, char **argv)
{
    static const struct {
        const char *shell;
        void (*print)(cli_out *out);
    } shells[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};
    howdah_error err = HOWDAH_ERROR_INIT;

    (void)argc;
    if (cli_args_words(&cli->args, 1, 1, &err) < 0)
        return cli_fail(cli, &err);
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++)
        if (strcmp(argv[1], shells[i].shell) == 0) {
            shells[i].print(&cli->out);
            return 0;
        }
    (void)hw_fail(&err, HOWDAH_MISUSE, "completion: unknown shell %.64s", argv[1]);
    (void)hw_advise(&err, HOWDAH_MISUSE, "there are bash, zsh and fish");
    return cli_fail(cli, &err);
}
