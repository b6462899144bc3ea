/* str.h - a borrowed run of bytes.  s == NULL means "absent"; otherwise s[len] is NUL. */
#ifndef HW_BASE_STR_H
#define HW_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

typedef struct hw_str {
    const char *s;
    size_t len;
} hw_str;

#define HW_STR_NULL ((hw_str){NULL, 0})
#define HW_STR_LIT(text) ((hw_str){(text), sizeof(text) - 1})

static inline hw_str hw_str_of(const char *text)
{
    return text ? (hw_str){text, strlen(text)} : HW_STR_NULL;
}

/* Absent equals absent only. */
static inline bool hw_str_equal(hw_str a, hw_str b)
{
    if (!a.s || !b.s)
        return a.s == b.s;
    return a.len == b.len && memcmp(a.s, b.s, a.len) == 0;
}

#endif
