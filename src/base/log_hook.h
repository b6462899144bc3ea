/* log_hook.h - the library speaks through the caller's hook and nowhere else. */
#ifndef HW_BASE_LOG_HOOK_H
#define HW_BASE_LOG_HOOK_H

#include <howdah/howdah.h>

#include "base/error.h"

void hw_log(int level, const char *fmt, ...) HW_PRINTF(2, 3);
void hw_log_set(howdah_log_fn fn, void *ctx);

#endif
