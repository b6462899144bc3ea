/*
 * random.c - the system's randomness.
 *
 * Small requests are served from a block of the thread's own, so that one system call is enough
 * for many ids.
 *
 *   I1  A byte is given out once.  It is wiped from the block when it is handed out.
 *   I2  A child of fork() throws the block away, because its parent goes on to use the same bytes.
 *       Where fork() cannot be watched, nothing is kept in the block.
 */
#include "base/random.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"

#define BLOCK_BYTES 1024
#define SMALL_BYTES 64

static _Thread_local struct {
    uint8_t bytes[BLOCK_BYTES];
    size_t left; /* the last "left" bytes are unused */
} block;

static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
static int fork_watched;

/*
 * I2. Runs in the child, in the thread that forked. No other thread is there, and no other block.
 */
static void forget_block(void)
{
    block.left = 0;
}

static void watch_forks(void)
{
    fork_watched = pthread_atfork(NULL, NULL, forget_block) == 0;
}

/*
 * getrandom() may give less than asked for, and a signal may interrupt it before the first byte.
 */
static bool from_system(uint8_t *out, size_t n)
{
    while (n > 0) {
        ssize_t got = getrandom(out, n, 0);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        out += got;
        n -= (size_t)got;
    }
    return true;
}

bool hw_random_bytes(void *out, size_t n)
{
    uint8_t *from;

    if (n > SMALL_BYTES)
        return from_system(out, n);
    /* I2: without a watch on fork() no byte may wait in the block. */
    if (pthread_once(&fork_once, watch_forks) != 0 || !fork_watched)
        return from_system(out, n);
    if (block.left < n) {
        if (!from_system(block.bytes, sizeof block.bytes))
            return false;
        block.left = sizeof block.bytes;
    }
    assert(block.left >= n && block.left <= sizeof block.bytes);
    from = block.bytes + sizeof block.bytes - block.left;
    memcpy(out, from, n);
    /* I1 */
    memset(from, 0, n);
    block.left -= n;
    return true;
}

/* Only for jitter, where a poor number is better than an error; ids never come from here. */
uint32_t hw_random_u32(void)
{
    uint32_t v;
    uint64_t now;

    if (hw_random_bytes(&v, sizeof v))
        return v;
    now = (uint64_t)hw_clock_mono_us() * UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)(now >> 32);
}
