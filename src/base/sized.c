/* sized.c - structs that begin with their size.  See sized.h. */
#include "base/sized.h"

#include <assert.h>
#include <string.h>

#include "base/error.h"

#define BYTES_MAX 4096 /* a larger value is no size but a struct that nobody initialised */

/* By memcpy(): the struct's type is not known here. */
static size_t size_of(const void *given)
{
    size_t size;

    memcpy(&size, given, sizeof size);
    return size;
}

/* Whole members only: all of these structs are aligned like their first member, the size. */
static bool is_size(size_t size)
{
    return size > sizeof size && size <= BYTES_MAX && size % sizeof size == 0;
}

static bool is_zero(const unsigned char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] != 0)
            return false;
    }
    return true;
}

/* I1.  *own stays as it is when the caller's struct is refused; its size is always our own. */
int hw_sized_take(void *own, size_t known, const void *given, const char *call,
                  howdah_error *reterr)
{
    size_t size;

    assert(is_size(known));
    if (!given)
        return HOWDAH_OK;
    size = size_of(given);
    if (!is_size(size))
        return hw_fail(reterr, HOWDAH_MISUSE,
                       "%s: a struct's size is %zu: start with its ..._INIT macro", call, size);
    if (size > known && !is_zero((const unsigned char *)given + known, size - known))
        return hw_fail(reterr, HOWDAH_MISUSE,
                       "%s: an option is set that this library does not know", call);
    memcpy(own, given, size < known ? size : known);
    memcpy(own, &known, sizeof known);
    return HOWDAH_OK;
}

/* I2.  The caller's size is not written: it says how much of the struct the caller has. */
int hw_sized_give(void *ret, const void *own, size_t known)
{
    size_t size;

    if (!ret || !is_size(size_of(ret)))
        return HOWDAH_MISUSE;
    size = size_of(ret);
    memcpy((char *)ret + sizeof size, (const char *)own + sizeof size,
           (size < known ? size : known) - sizeof size);
    return HOWDAH_OK;
}
