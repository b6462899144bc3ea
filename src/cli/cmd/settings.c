/* settings.c - howdah settings: the table of settings, with the values in force. */
#include <string.h>

#include "cli/cli.h"

static void setting_json(cli_context *cli, const howdah_setting_info *info, const char *value)
{
    const char *const pairs[][2] = {
        {"key", info->key},   {"value", value},       {"default", info->default_value},
        {"unit", info->unit}, {"range", info->range}, {"environment", info->environment},
        {"help", info->help},
    };

    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        cli_out_printf(&cli->out, "%s\"%s\":", i ? "," : "{", pairs[i][0]);
        cli_json_text(cli, pairs[i][1] ? pairs[i][1] : "");
    }
    cli_out_puts(&cli->out, "}\n");
}

/* Two lines a setting: a table would have to cut the help texts. */
static void setting_text(cli_context *cli, const howdah_setting_info *info, const char *value)
{
    cli_out *out = &cli->out;

    cli_out_style(out, CLI_CYAN);
    cli_out_puts(out, info->key);
    cli_out_style(out, CLI_PLAIN);
    cli_out_puts(out, " = ");
    cli_out_style(out, CLI_BOLD);
    cli_out_puts(out, value);
    cli_out_style(out, CLI_PLAIN);
    if (strcmp(value, info->default_value) != 0)
        cli_out_printf(out, "  (default %s)", info->default_value);
    cli_out_printf(out, "\n    %s\n", info->help);
    cli_out_style(out, CLI_DIM);
    cli_out_printf(out, "    %s, %s; %s", info->unit, info->range, info->environment);
    cli_out_style(out, CLI_PLAIN);
    cli_out_puts(out, "\n");
}

static void list(cli_context *cli)
{
    howdah_setting_info info = HOWDAH_SETTING_INFO_INIT;

    for (size_t i = 0; howdah_settings_describe(i, &info) == HOWDAH_OK; i++) {
        const char *value = howdah_settings_get(cli->settings, info.key);

        if (cli->out.json)
            setting_json(cli, &info, value);
        else
            setting_text(cli, &info, value ? value : "");
    }
}

int cmd_settings(cli_context *cli, int argc, char **argv)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    int s = cli_args_words(&cli->args, 0, 0, &err);

    (void)argc;
    (void)argv;
    if (s == HOWDAH_OK)
        s = cli_settings(cli, &err);
    if (s < 0)
        return cli_fail(cli, &err);
    list(cli);
    return 0;
}
