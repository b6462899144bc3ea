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

int hw_sized_check(const void *given, const char *call, howdah_error *reterr)
{
    if (!given || is_size(size_of(given)))
        return HOWDAH_OK;
    return hw_fail(reterr, HOWDAH_MISUSE,
                   "%s: a struct's size is %zu: start with its ..._INIT macro", call,
                   size_of(given));
}

bool hw_sized_is_ours(const void *array, size_t known)
{
    return size_of(array) == known;
}

/* I1.  size is the caller's.  *own stays as it is when the caller's struct is refused; its size is
   always our own. */
static int take(void *own, size_t known, const void *given, size_t size, const char *call,
                howdah_error *reterr)
{
    assert(is_size(known));
    if (size > known && !is_zero((const unsigned char *)given + known, size - known))
        return hw_fail(reterr, HOWDAH_MISUSE,
                       "%s: an option is set that this library does not know", call);
    memcpy(own, given, size < known ? size : known);
    memcpy(own, &known, sizeof known);
    return HOWDAH_OK;
}

int hw_sized_take(void *own, size_t known, const void *given, const char *call,
                  howdah_error *reterr)
{
    int s = hw_sized_check(given, call, reterr);

    return s < 0 || !given ? s : take(own, known, given, size_of(given), call, reterr);
}

int hw_sized_take_at(void *own, size_t known, const void *array, size_t index, const char *call,
                     howdah_error *reterr)
{
    size_t size = size_of(array);

    return take(own, known, (const char *)array + index * size, size, call, reterr);
}

/* I2.  The caller's size stays: it says how much of the struct the caller has. */
static void give(void *ret, size_t size, const void *own, size_t known)
{
    memcpy(ret, own, size < known ? size : known);
    memcpy(ret, &size, sizeof size);
}

int hw_sized_give(void *ret, const void *own, size_t known)
{
    if (!ret || !is_size(size_of(ret)))
        return HOWDAH_MISUSE;
    give(ret, size_of(ret), own, known);
    return HOWDAH_OK;
}

void hw_sized_give_at(void *array, size_t index, const void *own, size_t known)
{
    size_t size = size_of(array);

    give((char *)array + index * size, size, own, known);
}
