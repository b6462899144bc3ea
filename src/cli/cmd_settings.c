/* cmd_settings.c - howdah settings: the table of settings, with the values in force. */
#include "base/str.h"
#include "cli/cli.h"
#include "cli/table.h"

#define ROWS_HELD 200 /* more settings than there will be */

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

static void list(cli_context *cli)
{
    static const cli_column columns[] = {
        {"setting", CLI_CYAN, false, true, 0},
        {"value", CLI_BOLD, false, true, 0},
        {"default", CLI_DIM, false, true, 0},
        {"range", CLI_DIM, false, false, 0},
        {"help (environment: HOWDAH_...)", CLI_PLAIN, false, false, 0}};
    howdah_setting_info info = HOWDAH_SETTING_INFO_INIT;
    cli_table table;

    cli_table_init(&table, &cli->out, columns, sizeof columns / sizeof *columns, ROWS_HELD);
    for (size_t i = 0; howdah_settings_describe(i, &info) == HOWDAH_OK; i++) {
        const char *value = howdah_settings_get(cli->settings, info.key);

        if (cli->out.json)
            setting_json(cli, &info, value);
        else
            cli_table_row(&table, (hw_str[]){hw_str_of(info.key), hw_str_of(value ? value : ""),
                                             hw_str_of(info.default_value), hw_str_of(info.range),
                                             hw_str_of(info.help)});
    }
    cli_table_flush(&table);
    cli_table_done(&table);
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
