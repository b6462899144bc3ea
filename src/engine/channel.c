/* channel.c - the names under which the bell rings. */
#include "engine/channel.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/digest.h"

#define NAME_MAX_BYTES (HW_CHANNEL_SIZE - 1)
#define TAIL_BYTES 9               /* "_" and eight digits */
#define WHOLE_MAX (255 + 255 + 16) /* more than a schema and a type have with what joins them */
#define TYPE_BITS 62               /* beside bit 0; a sequence is never negative */

/* Both names have passed their rules, so they fit. */
static size_t put(char *out, size_t at, const char *bytes, size_t len)
{
    assert(at + len <= WHOLE_MAX);
    memcpy(out + at, bytes, len);
    return at + len;
}

/*
 * The digest is taken before dots become underscores: two long types that differ only in a dot
 * and an underscore get different channels. channel() in SQL does the same, and the two must
 * agree to the byte.
 */
bool hw_channel_name(hw_str schema, hw_str type, char ret_name[HW_CHANNEL_SIZE])
{
    char whole[WHOLE_MAX];
    uint8_t digest[HW_MD5_BYTES] = {0};
    size_t prefix;
    size_t len = put(whole, 0, schema.s, schema.len);

    prefix = len = put(whole, len, "_events", 7);
    if (type.s) {
        len = put(whole, len, "_", 1);
        len = put(whole, len, type.s, type.len);
    }
    if (len > NAME_MAX_BYTES && !hw_md5(whole, len, digest))
        return false;
    for (size_t i = prefix; i < len; i++)
        if (whole[i] == '.')
            whole[i] = '_';
    if (len <= NAME_MAX_BYTES) {
        memcpy(ret_name, whole, len);
        ret_name[len] = '\0';
        return true;
    }
    memcpy(ret_name, whole, NAME_MAX_BYTES - TAIL_BYTES);
    (void)snprintf(ret_name + NAME_MAX_BYTES - TAIL_BYTES, TAIL_BYTES + 1, "_%02x%02x%02x%02x",
                   digest[0], digest[1], digest[2], digest[3]);
    return true;
}

/* Never cut: HW_SCHEMA_NAME_MAX leaves room for the ending. */
void hw_channel_control(hw_str schema, char ret_name[HW_CHANNEL_SIZE])
{
    assert(schema.len + 8 < HW_CHANNEL_SIZE);
    memcpy(ret_name, schema.s, schema.len);
    memcpy(ret_name + schema.len, "_control", 9);
}

/* Bit 0 is for those that wait for any event; the other bits are shared by the types. */
int64_t hw_channel_bit(hw_str type)
{
    uint8_t digest[HW_MD5_BYTES] = {0};

    _Static_assert(1 + TYPE_BITS <= 63, "a mark is never negative");
    if (!type.s)
        return 1;
    /* Without MD5 we do not know which one it is: all of them, then. */
    return hw_md5(type.s, type.len, digest) ? INT64_C(1) << (1 + digest[0] % TYPE_BITS)
                                            : INT64_MAX - 1;
}
