/*
 * buf.c - a byte buffer that grows up to a maximum chosen by its owner.
 *
 *   I1  data == NULL, or data[len] == 0 and len < room.
 *   I2  len <= len_max.  The NUL does not count.
 *   I3  Once broken, content and memory stay as they were.
 */
#include "base/buf.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

#define ROOM_FIRST 64

void hw_buf_done(hw_buf *b)
{
    hw_free(b->data);
    b->data = NULL;
    b->len = 0;
    b->room = 0;
    b->broken = HOWDAH_OK;
}

void hw_buf_clear(hw_buf *b)
{
    b->len = 0;
    b->broken = HOWDAH_OK;
    if (b->data)
        b->data[0] = '\0';
}

/*
 * Doubles, so that n small writes cost O(n) in all, but takes no more than len_max can ever need:
 * an owner with a small maximum gets a small block.  On failure only "broken" changes (I3).
 */
static bool grow(hw_buf *b, size_t need)
{
    size_t room = b->room ? b->room : ROOM_FIRST;
    char *data;

    assert(need > b->room);
    while (room < need)
        room = room > SIZE_MAX / 2 ? SIZE_MAX : room * 2;
    if (b->len_max < SIZE_MAX && room > b->len_max + 1)
        room = b->len_max + 1;
    assert(room >= need); /* reserve() refused what len_max cannot hold */
    data = hw_realloc(b->data, room);
    if (!data) {
        b->broken = HOWDAH_NO_MEMORY;
        return false;
    }
    b->data = data;
    b->room = room;
    b->data[b->len] = '\0';
    return true;
}

/*
 * All writes go through here, so a broken buffer stays broken and its content stays as it was
 * (I3).  The second test is for owners without a maximum: the byte for the NUL must not overflow.
 */
bool hw_buf_reserve(hw_buf *b, size_t n)
{
    if (b->broken != HOWDAH_OK)
        return false;
    assert(b->len <= b->len_max);
    if (n > b->len_max - b->len || n > SIZE_MAX - 1 - b->len) {
        b->broken = HOWDAH_LIMIT;
        return false;
    }
    return b->room > b->len + n || grow(b, b->len + n + 1);
}

/* bytes may be NULL when n is 0; memcpy() must not see it then. */
void hw_buf_put(hw_buf *b, const void *bytes, size_t n)
{
    if (!hw_buf_reserve(b, n))
        return;
    if (n > 0)
        memcpy(b->data + b->len, bytes, n);
    b->len += n;
    assert(b->len < b->room && b->len <= b->len_max); /* I1, I2 */
    b->data[b->len] = '\0';
}

void hw_buf_puts(hw_buf *b, const char *text)
{
    hw_buf_put(b, text, strlen(text));
}

void hw_buf_putc(hw_buf *b, char c)
{
    hw_buf_put(b, &c, 1);
}

void hw_buf_printf(hw_buf *b, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    hw_buf_vprintf(b, fmt, args);
    va_end(args);
}

/*
 * Formats straight into the free room, which is enough most of the time, and only when it is not,
 * makes room and formats again.  The first try may leave a cut text after len; the last line takes
 * it away again when the buffer broke.
 */
void hw_buf_vprintf(hw_buf *b, const char *fmt, va_list args)
{
    va_list again;
    int n;

    if (!hw_buf_reserve(b, 0))
        return;
    va_copy(again, args);
    n = vsnprintf(b->data + b->len, b->room - b->len, fmt, args);
    if (n < 0)
        b->broken = errno == ENOMEM ? HOWDAH_NO_MEMORY : HOWDAH_LIMIT;
    else if ((size_t)n >= b->room - b->len && hw_buf_reserve(b, (size_t)n))
        n = vsnprintf(b->data + b->len, b->room - b->len, fmt, again);
    va_end(again);
    if (b->broken == HOWDAH_OK && n >= 0)
        b->len += (size_t)n;
    b->data[b->len] = '\0';
}

void hw_buf_put_u16(hw_buf *b, uint16_t v)
{
    const uint8_t bytes[2] = {(uint8_t)(v >> 8), (uint8_t)v};

    hw_buf_put(b, bytes, sizeof bytes);
}

void hw_buf_put_u32(hw_buf *b, uint32_t v)
{
    const uint8_t bytes[4] = {(uint8_t)(v >> 24), (uint8_t)(v >> 16), (uint8_t)(v >> 8),
                              (uint8_t)v};

    hw_buf_put(b, bytes, sizeof bytes);
}

void hw_buf_put_u64(hw_buf *b, uint64_t v)
{
    uint8_t bytes[8];

    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(v >> (56 - 8 * i));
    hw_buf_put(b, bytes, sizeof bytes);
}

/*
 * The status of the first failure, so that a writer with many puts needs only one check at the
 * end.
 */
int hw_buf_check(const hw_buf *b, howdah_error *reterr)
{
    if (b->broken == HOWDAH_OK)
        return HOWDAH_OK;
    if (b->broken == HOWDAH_NO_MEMORY)
        return hw_fail_no_memory(reterr);
    return hw_fail(reterr, b->broken, "buffer would pass %zu bytes", b->len_max);
}

char *hw_buf_take(hw_buf *b)
{
    char *text;

    /* An empty buffer may have no memory yet, and "" needs one byte. */
    if (!hw_buf_reserve(b, 0))
        return NULL;
    text = b->data;
    b->data = NULL;
    b->len = 0;
    b->room = 0;
    return text;
}

const char *hw_buf_str(const hw_buf *b)
{
    return b->data ? b->data : "";
}
