/* session.c - see session.h. */
#include "gateway/session.h"

#include <stddef.h>

#include "gateway/server.h"

static int take_all(howdah_settings *to, const howdah_settings *from, howdah_error *reterr)
{
    howdah_setting_info info = HOWDAH_SETTING_INFO_INIT;
    int s = HOWDAH_OK;

    for (size_t i = 0; s >= 0 && howdah_settings_describe(i, &info) == HOWDAH_OK; i++) {
        const char *value = howdah_settings_get(from, info.key);

        if (value)
            s = howdah_settings_set(to, info.key, value, reterr);
    }
    return s;
}

int gw_session_settings(const struct gw_gateway *gateway, const gw_session_limits *limits,
                        howdah_settings **ret_settings, howdah_error *reterr)
{
    howdah_settings *settings = NULL;
    int s = howdah_settings_new(&settings, reterr);

    if (s >= 0)
        s = take_all(settings, gateway->options.settings, reterr);
    if (s >= 0)
        s = howdah_settings_set(settings, "connect_timeout", limits->connect, reterr);
    if (s >= 0)
        s = howdah_settings_set(settings, "busy_timeout", limits->connect, reterr);
    if (s >= 0)
        s = howdah_settings_set(settings, "statement_timeout", limits->statement, reterr);
    if (s < 0)
        howdah_settings_free(settings);
    else
        *ret_settings = settings;
    return s;
}
