/* mem.c - allocation through the caller's hook. */
#include "base/mem.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void *default_alloc(void *ctx, size_t bytes)
{
    (void)ctx;
    return malloc(bytes);
}

static void *default_realloc(void *ctx, void *block, size_t bytes)
{
    (void)ctx;
    return realloc(block, bytes);
}

static void default_free(void *ctx, void *block)
{
    (void)ctx;
    free(block);
}

static const howdah_allocator default_hooks = {
    sizeof(howdah_allocator), default_alloc, default_realloc, default_free, NULL,
};

/* Not synchronised, like the log hook: set before the first other call. */
static howdah_allocator hooks = {
    sizeof(howdah_allocator), default_alloc, default_realloc, default_free, NULL,
};

int hw_mem_set_allocator(const howdah_allocator *allocator)
{
    if (!allocator) {
        hooks = default_hooks;
        return HOWDAH_OK;
    }
    /* A caller of another version may mean fields that are unknown here: refused, not ignored. */
    if (allocator->size != sizeof *allocator)
        return HOWDAH_MISUSE;
    if (!allocator->alloc || !allocator->realloc || !allocator->free)
        return HOWDAH_MISUSE;
    hooks = *allocator;
    return HOWDAH_OK;
}

/*
 * Zero bytes are asked for as one, because malloc(0) may return NULL and NULL means "no memory".
 */
void *hw_alloc(size_t bytes)
{
    return hooks.alloc(hooks.ctx, bytes ? bytes : 1);
}

/* The hook has no calloc() of its own; the product is checked here. */
void *hw_calloc(size_t n, size_t size)
{
    void *block;

    if (size != 0 && n > SIZE_MAX / size)
        return NULL;
    block = hw_alloc(n * size);
    if (block)
        memset(block, 0, n * size);
    return block;
}

/*
 * A hook need not know realloc(NULL), nor realloc(block, 0), which C leaves to the
 * implementation.
 */
void *hw_realloc(void *block, size_t bytes)
{
    if (!block)
        return hw_alloc(bytes);
    return hooks.realloc(hooks.ctx, block, bytes ? bytes : 1);
}

void hw_free(void *block)
{
    if (block)
        hooks.free(hooks.ctx, block);
}

char *hw_strdup(const char *text)
{
    return hw_strndup(text, strlen(text));
}

/* text may be NULL when len is 0; memcpy() must not see it then. */
char *hw_strndup(const char *text, size_t len)
{
    char *copy;

    if (len == SIZE_MAX)
        return NULL;
    copy = hw_alloc(len + 1);
    if (!copy)
        return NULL;
    if (len > 0)
        memcpy(copy, text, len);
    copy[len] = '\0';
    return copy;
}
