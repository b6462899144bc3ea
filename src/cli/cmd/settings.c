/*
 * settings.c - howdah settings: the table of settings, with the values in force.
 *
 * In force means after the environment, --schema and --set; no store is opened.
 */
#include <string.h>

#include "cli/cli.h"
#include "cli/out/fields.h"

typedef struct setting {
    howdah_setting_info info;
    const char *value; /* in force; NULL: not set */
} setting;

#define AT(member) FACE_AT(setting, member)

static const face_field fields[] = {
    {"key", FACE_STRING, AT(info.key)},
    {"value", FACE_STRING, AT(value)},
    {"default", FACE_STRING, AT(info.default_value)},
    {"unit", FACE_STRING, AT(info.unit)},
    {"range", FACE_STRING, AT(info.range)},
    {"environment", FACE_STRING, AT(info.environment)},
    {"help", FACE_STRING, AT(info.help)},
    {.name = NULL},
};

static const face_entity setting_entity = {
    fields,
    .json = "key value default unit range environment help",
};

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

/* In the order of the library's table. */
static void list(cli_context *cli)
{
    setting one = {.info = HOWDAH_SETTING_INFO_INIT};

    for (size_t i = 0; howdah_settings_describe(i, &one.info) == HOWDAH_OK; i++) {
        one.value = howdah_settings_get(cli->settings, one.info.key);
        if (cli->out.json)
            cli_entity_put(&cli->out, &setting_entity, &one);
        else
            setting_text(cli, &one.info, one.value ? one.value : "");
    }
}

/* Works without a store, so that a wrong setting can be found before the first use. */
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
