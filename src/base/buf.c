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

/* Doubles, so that n puts cost O(n), but never beyond what len_max can need. */
static bool grow(hw_buf *b, size_t need)
{
    size_t room = b->room ? b->room : ROOM_FIRST;
    char *data;

    while (room < need)
        room = room > SIZE_MAX / 2 ? SIZE_MAX : room * 2;
    if (b->len_max < SIZE_MAX && room > b->len_max + 1)
        room = b->len_max + 1;
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

void hw_buf_put(hw_buf *b, const void *bytes, size_t n)
{
    if (!hw_buf_reserve(b, n))
        return;
    if (n > 0)
        memcpy(b->data + b->len, bytes, n);
    b->len += n;
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

    /* An empty buffer may have no memory yet; "" needs one byte. */
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
