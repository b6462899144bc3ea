/* log_hook.c - the library speaks through the caller's hook and nowhere else. */
#include "base/log_hook.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

#define LINE_MAX_BYTES 1024

static howdah_log_fn hook;
static void *hook_ctx;

/* Not synchronised: howdah.h asks for it before the first other call. */
void hw_log_set(howdah_log_fn fn, void *ctx)
{
    hook = fn;
    hook_ctx = ctx;
}

/* Without a hook nothing is formatted, so a log line costs nothing where nobody listens. */
void hw_log(int level, const char *fmt, ...)
{
    char line[LINE_MAX_BYTES + 8]; /* beyond the maximum, so that the cut sees whole characters */
    va_list args;
    int n;

    if (!hook)
        return;
    va_start(args, fmt);
    n = vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    if (n < 0)
        return;
    line[hw_utf8_cut(line, strlen(line), LINE_MAX_BYTES - 1)] = '\0';
    hook(hook_ctx, level, line);
}
