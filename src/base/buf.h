/*
 * buf.h - a byte buffer that grows up to a maximum chosen by its owner.
 *
 * A failed write (no memory, over the maximum) makes the buffer "broken": later
 * writes do nothing and hw_buf_check() reports it, so that a writer checks once
 * at the end.  The content is NUL-terminated at all times.
 */
#ifndef HW_BASE_BUF_H
#define HW_BASE_BUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

typedef struct hw_buf {
    char *data; /* NULL until the first write */
    size_t len;
    size_t room;
    size_t len_max;
    int broken; /* HOWDAH_OK, HOWDAH_NO_MEMORY or HOWDAH_LIMIT */
} hw_buf;

#define HW_BUF_INIT(max)                                                                           \
    {                                                                                              \
        NULL, 0, 0, (max), HOWDAH_OK                                                               \
    }

void hw_buf_done(hw_buf *b);
/* Empties, keeps the memory, mends a broken buffer. */
void hw_buf_clear(hw_buf *b);
/* Room for n more bytes without another allocation; false (and broken) when it cannot be. */
bool hw_buf_reserve(hw_buf *b, size_t n);
void hw_buf_put(hw_buf *b, const void *bytes, size_t n);
void hw_buf_puts(hw_buf *b, const char *text);
void hw_buf_putc(hw_buf *b, char c);
void hw_buf_printf(hw_buf *b, const char *fmt, ...) HW_PRINTF(2, 3);
void hw_buf_vprintf(hw_buf *b, const char *fmt, va_list args) HW_PRINTF(2, 0);
/* Big-endian, as the PostgreSQL protocol wants them. */
void hw_buf_put_u16(hw_buf *b, uint16_t v);
void hw_buf_put_u32(hw_buf *b, uint32_t v);
void hw_buf_put_u64(hw_buf *b, uint64_t v);
/* HOWDAH_OK, or the error of the first write that failed. */
int hw_buf_check(const hw_buf *b, howdah_error *reterr);
/* Hands the text over (never NULL when not broken; free with hw_free) and empties the buffer. */
char *hw_buf_take(hw_buf *b);
const char *hw_buf_str(const hw_buf *b); /* "" when empty */

#endif
