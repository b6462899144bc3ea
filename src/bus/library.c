/* library.c - what belongs to the whole library: version, hooks. */
#include <howdah/howdah.h>
#include <malloc.h>

#include "base/log_hook.h"
#include "base/mem.h"
#include "engine/pattern.h"
#include "engine/rules.h"

/* The thresholds are fixed ones from now on: glibc would move them by what is freed. */
void howdah_malloc_tune(void)
{
#ifdef __GLIBC__
    (void)mallopt(M_TRIM_THRESHOLD, 256 * 1024 * 1024);
    (void)mallopt(M_MMAP_THRESHOLD, 32 * 1024 * 1024);
    (void)mallopt(M_TOP_PAD, 4 * 1024 * 1024);
#endif
}

const char *howdah_version(void)
{
    return HOWDAH_VERSION_STRING;
}

/* Before 1.0 a minor version may break the interface; from 1.0 on only a major one. */
int howdah_version_check(int header_major, int header_minor)
{
    if (header_major != HOWDAH_VERSION_MAJOR)
        return HOWDAH_MISUSE;
    if (header_major == 0 ? header_minor != HOWDAH_VERSION_MINOR
                          : header_minor > HOWDAH_VERSION_MINOR)
        return HOWDAH_MISUSE;
    return HOWDAH_OK;
}

int howdah_allocator_set(const howdah_allocator *allocator)
{
    return hw_mem_set_allocator(allocator);
}

void howdah_log_set(howdah_log_fn fn, void *ctx)
{
    hw_log_set(fn, ctx);
}

bool howdah_pattern_matches(const char *pattern, const char *type)
{
    if (hw_rule_type(hw_str_of(type), NULL) < 0 ||
        (pattern && hw_rule_pattern(hw_str_of(pattern), NULL) < 0))
        return false;
    return hw_pattern_matches(hw_str_of(pattern), hw_str_of(type));
}

void howdah_free(void *block)
{
    hw_free(block);
}
