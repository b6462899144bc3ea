/* session.h - settings of the sessions that the gateway's own threads have. */
#ifndef HW_GATEWAY_SESSION_H
#define HW_GATEWAY_SESSION_H

#include <howdah/howdah.h>

struct gw_gateway;

/* Those of the gateway, but for these: nobody waits for as long as a request may. */
typedef struct gw_session_limits {
    const char *connect; /* "2s": also how long a locked file is waited for */
    const char *statement;
} gw_session_limits;

int gw_session_settings(const struct gw_gateway *gateway, const gw_session_limits *limits,
                        howdah_settings **ret_settings, howdah_error *reterr);

#endif
