/*
 * uuid.c - event ids.
 *
 * Version 7 here is: 48 bits of milliseconds, 42 bits of counter (12 before the variant, 30
 * after it), 32 bits of fresh randomness in every id.
 *
 *   I1  (milliseconds, counter) of a thread only grows: within a millisecond, and while the clock
 *       is behind what it once said, the counter goes up; it starts anew at a random value with
 *       its top bit clear, so that it can go up 2^41 times before it borrows a millisecond.
 *   I2  A child of fork() does not go on with its parent's counter: it starts a new millisecond.
 */
#include "base/uuid.h"

#include <assert.h>
#include <pthread.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/digest.h"
#include "base/random.h"

#define COUNTER_BITS 42
#define COUNTER_MAX ((UINT64_C(1) << COUNTER_BITS) - 1)

static _Thread_local struct {
    uint64_t ms;
    uint64_t counter;
    bool forked;
} last;

static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
static bool fork_watched;

/* Runs in the child, in the thread that forked: the only one there. */
static void note_fork(void)
{
    last.forked = true;
}

static void watch_forks(void)
{
    fork_watched = pthread_atfork(NULL, NULL, note_fork) == 0;
}

/*
 * The random start keeps threads and processes apart that work in the same millisecond.  If the
 * system has no randomness, nothing changes: the next call tries again.
 */
static bool start_millisecond(uint64_t ms)
{
    uint64_t seed;

    if (!hw_random_bytes(&seed, sizeof seed))
        return false;
    last.ms = ms;
    last.counter = seed & (COUNTER_MAX >> 1);
    last.forked = false;
    return true;
}

/* I1, I2. */
static bool advance(uint64_t now_ms)
{
    if (now_ms > last.ms)
        return start_millisecond(now_ms);
    if (last.forked || last.counter == COUNTER_MAX)
        return start_millisecond(last.ms + 1);
    assert(last.counter < COUNTER_MAX);
    last.counter++;
    return true;
}

/* A clock before 1970 counts as 0: ids then differ by their counter and their random part. */
bool hw_uuid_v7(hw_uuid *ret_uuid)
{
    int64_t now_us = hw_clock_wall_us();
    uint64_t now_ms = now_us > 0 ? (uint64_t)now_us / 1000 : 0;
    uint8_t *b = ret_uuid->b;
    uint8_t tail[4];

    if (pthread_once(&fork_once, watch_forks) != 0 || !fork_watched)
        last.forked = true; /* not watched: as if each id were the first after a fork */
    if (!hw_random_bytes(tail, sizeof tail) || !advance(now_ms))
        return false;
    for (int i = 0; i < 6; i++)
        b[i] = (uint8_t)(last.ms >> (40 - 8 * i));
    b[6] = (uint8_t)(0x70 | (last.counter >> 38));
    b[7] = (uint8_t)(last.counter >> 30);
    b[8] = (uint8_t)(0x80 | ((last.counter >> 24) & 0x3F));
    b[9] = (uint8_t)(last.counter >> 16);
    b[10] = (uint8_t)(last.counter >> 8);
    b[11] = (uint8_t)last.counter;
    memcpy(b + 12, tail, sizeof tail);
    return true;
}

/*
 * An import relies on it: the same line of the same source gets the same id when it is run again,
 * so that nothing is stored twice.  The NUL between space and name keeps "ab" + "c" from "a" +
 * "bc".
 */
bool hw_uuid_from_name(const char *space, const void *name, size_t len, hw_uuid *ret_uuid)
{
    uint8_t digest[HW_SHA256_BYTES];
    hw_buf input = HW_BUF_INIT(SIZE_MAX);
    bool done;

    hw_buf_put(&input, space, strlen(space) + 1);
    hw_buf_put(&input, name, len);
    done = hw_buf_check(&input, NULL) == HOWDAH_OK && hw_sha256(input.data, input.len, digest);
    hw_buf_done(&input);
    if (!done)
        return false;
    memcpy(ret_uuid->b, digest, sizeof ret_uuid->b);
    ret_uuid->b[6] = (uint8_t)((ret_uuid->b[6] & 0x0F) | 0x80);
    ret_uuid->b[8] = (uint8_t)((ret_uuid->b[8] & 0x3F) | 0x80);
    return true;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

static bool dash_before_byte(size_t i)
{
    return i == 4 || i == 6 || i == 8 || i == 10;
}

/* Versions and variants are not checked: ids from other systems are accepted as they are. */
bool hw_uuid_parse(const char *text, size_t len, hw_uuid *ret_uuid)
{
    hw_uuid uuid;
    const char *p = text;

    if (len != HW_UUID_TEXT)
        return false;
    for (size_t i = 0; i < sizeof uuid.b; i++, p += 2) {
        int high;
        int low;

        if (dash_before_byte(i) && *p++ != '-')
            return false;
        high = hex_value(p[0]);
        low = hex_value(p[1]);
        if (high < 0 || low < 0)
            return false;
        uuid.b[i] = (uint8_t)(high << 4 | low);
    }
    *ret_uuid = uuid;
    return true;
}

void hw_uuid_format(const hw_uuid *uuid, char ret_text[HW_UUID_TEXT + 1])
{
    static const char digits[] = "0123456789abcdef";
    char *p = ret_text;

    for (size_t i = 0; i < sizeof uuid->b; i++) {
        if (dash_before_byte(i))
            *p++ = '-';
        *p++ = digits[uuid->b[i] >> 4];
        *p++ = digits[uuid->b[i] & 0x0F];
    }
    *p = '\0';
}
