/* subscriptions.h - subscriptions on stdout: as JSON, as a row, as fields. */
#ifndef HW_CLI_OUT_SUBSCRIPTIONS_H
#define HW_CLI_OUT_SUBSCRIPTIONS_H

#include "cli/cli.h"
#include "cli/out/fields.h"

/* "live", "behind", ... */
const char *cli_sub_state(howdah_subscription_state state);

/* Of a howdah_subscription_info. */
extern const cli_entity cli_subscription;

/* start, end, or a sequence; leaves *ret_position alone when the option was not given. */
int cli_position(const cli_args *args, const char *option, int64_t *ret_position,
                 howdah_error *reterr);

#endif
