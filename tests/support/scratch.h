/* scratch.h - where the files of a test are. */
#ifndef HW_TEST_SCRATCH_H
#define HW_TEST_SCRATCH_H

#include <stdlib.h>
#include <string.h>

/* In memory, when the test run says so by TMPDIR; short enough for the name of a socket in it. */
static inline const char *scratch_parent(void)
{
    const char *dir = getenv("TMPDIR");

    return dir && *dir && strlen(dir) < 32 ? dir : "/tmp";
}

#endif
