/* main.c - parse, dispatch, close, and the exit code. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/cmd/help.h"
#include "cli/in/signals.h"

/*
 * A descriptor 0, 1 or 2 that came closed would be given to the next open(), and a message would
 * then be written into the database.  Fill the places so that using them fails instead.
 */
static void hold_standard_descriptors(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            (void)open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

/* --version and --help work without a store, and with a library of another version. */
static int dispatch(cli_context *cli)
{
    const cli_command *command = cli->args.command;
    howdah_error err = HOWDAH_ERROR_INIT;

    if (cli_args_has_global(&cli->args, "version")) {
        cli_out_printf(&cli->out, "howdah %s\n", howdah_version());
        return 0;
    }
    if (cli_args_has(&cli->args, "help") || !command) {
        if (command)
            cli_help_command(&cli->out, command);
        else
            cli_help_overview(&cli->out);
        return 0;
    }
    if (HOWDAH_VERSION_CHECK() < 0) {
        (void)hw_fail(&err, HOWDAH_FAILED, "the library has version %s, this command has %s",
                      howdah_version(), HOWDAH_VERSION_STRING);
        return cli_fail(cli, &err);
    }
    return command->run(cli, cli->args.words_n, cli->args.words);
}

/* The bus and what is left to print.  Output that cannot be written is a failure, a closed pipe
 * is not. */
static int finish(cli_context *cli, int exit_code)
{
    cli_signals_watch(NULL);
    howdah_close(cli->bus);
    howdah_settings_free(cli->settings);
    cli_args_done(&cli->args);
    cli_out_done(&cli->out);
    if (exit_code == 0 && !cli_out_alive(&cli->out) && cli->out.broken != EPIPE) {
        if (cli_signal_caught())
            return 128 + cli_signal_caught();
        cli_err_printf(&cli->out, "howdah: cannot write the output: %s\n",
                       strerror(cli->out.broken));
        return 1;
    }
    return exit_code;
}

int main(int argc, char **argv)
{
    static cli_context cli;
    howdah_error err = HOWDAH_ERROR_INIT;
    int s;

    howdah_malloc_tune();
    hold_standard_descriptors();
    cli_signals_init();
    s = cli_args_parse(&cli.args, argc, argv, &err);
    cli_out_init(&cli.out, s == HOWDAH_OK && cli_args_has(&cli.args, "json"));
    if (s < 0)
        return finish(&cli, cli_fail(&cli, &err));
    cli.quiet = cli_args_has(&cli.args, "quiet");
    return finish(&cli, dispatch(&cli));
}
