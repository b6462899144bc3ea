/* subscriptions.h - subscriptions on stdout: as JSON, as a row, as fields. */
#ifndef HW_CLI_OUT_SUBSCRIPTIONS_H
#define HW_CLI_OUT_SUBSCRIPTIONS_H

#include "cli/cli.h"
#include "cli/out/fields.h"

/* "live", "behind", ... */
const char *cli_sub_state(howdah_subscription_state state);

/* Of a howdah_subscription_info. */
extern const cli_entity cli_subscription;

/* With the members of a shared one, as JSON. */
typedef struct cli_subscription_shown {
    howdah_subscription_info info; /* first: its fields are the same */
    const char *members;
    size_t members_n;
} cli_subscription_shown;

/* Of a cli_subscription_shown. */
extern const cli_entity cli_subscription_with_members;
/* Of a howdah_member_info. */
extern const cli_entity cli_member;

/* start, end, or a sequence; leaves *ret_position alone when the option was not given. */
int cli_position(const cli_args *args, const char *option, int64_t *ret_position,
                 howdah_error *reterr);

#endif
