/* fault.c - named points where a test can kill the process. */
#include "base/fault.h"

#ifdef HOWDAH_FAULT_POINTS

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"

#define ACTION ":kill"

/* Whether spec ("name:kill" or "name:kill@3") means this point, and at which visit. */
static bool spec_means(const char *spec, const char *name, int64_t *ret_visit)
{
    size_t len = strlen(name);
    const char *rest;

    if (strncmp(spec, name, len) != 0 || strncmp(spec + len, ACTION, strlen(ACTION)) != 0)
        return false;
    rest = spec + len + strlen(ACTION);
    *ret_visit = 1;
    return *rest == '\0' || (*rest == '@' && hw_parse_i64(rest + 1, 1, INT64_MAX, ret_visit));
}

/*
 * SIGKILL and not abort(): no handler runs and no buffer is written on the way out.  One counter
 * is enough for all points, because the environment names only one of them.
 */
void hw_fault_point(const char *name)
{
    static atomic_llong visits;
    const char *spec = getenv("HOWDAH_FAILPOINT");
    int64_t visit;

    if (!spec || !spec_means(spec, name, &visit))
        return;
    if (atomic_fetch_add(&visits, 1) + 1 == visit)
        (void)kill(getpid(), SIGKILL);
}

#else

/* ISO C wants a translation unit to declare something. */
typedef int hw_fault_points_are_compiled_away;

#endif
