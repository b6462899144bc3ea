/*
 * attempts.h - how often an address has come with a token that is not good.
 *
 *   I1  The table has a fixed size.  Whoever makes it forget an address needs others to do so.
 *   I2  Only those who fail are slowed down: a token that is good is never refused because of what
 *       others at the same address do.
 */
#ifndef HW_GATEWAY_ATTEMPTS_H
#define HW_GATEWAY_ATTEMPTS_H

#include <howdah/howdah.h>

#include "base/str.h"

typedef struct gw_attempts gw_attempts;

int gw_attempts_new(gw_attempts **ret_attempts, howdah_error *reterr);
void gw_attempts_free(gw_attempts *attempts);
/* One more.  Seconds to wait before the next one; 0: it may come at once. */
int gw_attempts_failed(gw_attempts *attempts, hw_str address);

#endif
