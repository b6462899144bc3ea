/* uuid.h - event ids. */
#ifndef HW_BASE_UUID_H
#define HW_BASE_UUID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct hw_uuid {
    uint8_t b[16];
} hw_uuid;

#define HW_UUID_TEXT 36

static inline bool hw_uuid_equal(const hw_uuid *a, const hw_uuid *b)
{
    return memcmp(a->b, b->b, sizeof a->b) == 0;
}

/*
 * RFC 9562 version 7: 48 bits of Unix milliseconds, then 74 bits that are random or a counter.
 * Two ids made by one thread one after the other are in byte order, also within a
 * millisecond and when the clock steps back.  false when the system has no randomness to give.
 */
bool hw_uuid_v7(hw_uuid *ret_uuid);

/* Version 8 from a SHA-256 of "space\0name": the same input gives the same id, for ever. */
bool hw_uuid_from_name(const char *space, const void *name, size_t len, hw_uuid *ret_uuid);

/* Exactly 36 characters 8-4-4-4-12, either case. */
bool hw_uuid_parse(const char *text, size_t len, hw_uuid *ret_uuid);
/* 36 characters, lower case, and a NUL. */
void hw_uuid_format(const hw_uuid *uuid, char ret_text[HW_UUID_TEXT + 1]);

#endif
