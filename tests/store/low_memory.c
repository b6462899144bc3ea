#include "low_memory.h"

#include "suite.h"

long poor_left;
bool poor_failed;

static bool is_poor(void)
{
    return poor_left >= 0 && poor_left-- == 0;
}

static void *poor_alloc(void *ctx, size_t bytes)
{
    (void)ctx;
    return is_poor() ? NULL : malloc(bytes);
}

static void *poor_realloc(void *ctx, void *block, size_t bytes)
{
    (void)ctx;
    return is_poor() ? NULL : realloc(block, bytes);
}

static void plain_free(void *ctx, void *block)
{
    (void)ctx;
    free(block);
}

const howdah_allocator poor_hooks = {sizeof poor_hooks, poor_alloc, poor_realloc, plain_free, NULL};

bool fine(int status)
{
    if (status < 0) {
        poor_failed = true;
        if (status != HOWDAH_NO_MEMORY)
            fail_msg("%s instead of NO_MEMORY: %s", howdah_status_name(status), ss_error.message);
    }
    return status >= 0;
}
