/* subscriptions.h - subscriptions on stdout: as JSON, as a row, as fields. */
#ifndef HW_CLI_OUT_SUBSCRIPTIONS_H
#define HW_CLI_OUT_SUBSCRIPTIONS_H

#include "cli/cli.h"
#include "cli/out/table.h"

/* "live", "behind", ... */
const char *cli_sub_state(howdah_subscription_state state);

/* One object, without a line break. */
void cli_sub_json(cli_context *cli, const howdah_subscription_info *info);
/* All about one, a line a field. */
void cli_sub_show(cli_context *cli, const howdah_subscription_info *info);

/* The table of a terminal. */
void cli_subs_table_init(cli_table *table, cli_out *out);
void cli_subs_table_row(cli_table *table, const howdah_subscription_info *info);

/* ",\"key\":" and the text, or null when it is empty. */
void cli_json_member(cli_context *cli, const char *key, const char *text);
void cli_json_time(cli_context *cli, const char *key, int64_t time_us);

/* start, end, or a sequence; leaves *ret_position alone when the option was not given. */
int cli_position(const cli_args *args, const char *option, int64_t *ret_position,
                 howdah_error *reterr);

#endif
