/*
 * sized.h - structs that cross the border begin with their size, so that library and caller may be
 * of different ages.
 *
 *   I1  What a caller hands in may be shorter than ours, by the members that it does not know: they
 *       have their defaults.  It may be longer, and then what we do not know has to be 0: a member
 *       that is set and not understood is refused, never ignored.
 *   I2  What we fill in is never written beyond the size that the caller has set.
 *   I3  Of an array the first element's size is that of all of them: the others need not be set,
 *       and are set when we fill them in.
 *   I4  Members are only ever added at the end, and never into the padding after the last one:
 *       an older caller has left there what was on its stack.
 */
#ifndef HW_BASE_SIZED_H
#define HW_BASE_SIZED_H

#include <howdah/howdah.h>

/*
 * Copies what the caller gave over *own, which has the defaults and is "known" bytes long; NULL:
 * nothing.  MISUSE, naming the call, when its size is none, or when it sets what we do not know.
 */
int hw_sized_take(void *own, size_t known, const void *given, const char *call,
                  howdah_error *reterr);

/* Copies *own, "known" bytes, to the caller's struct.  MISUSE when that is NULL or has no size. */
int hw_sized_give(void *ret, const void *own, size_t known);

/* MISUSE, naming the call, when a struct, or the first of an array, has no size; NULL is fine. */
int hw_sized_check(const void *given, const char *call, howdah_error *reterr);

/* The same for one element of an array (I3), which was checked. */
int hw_sized_take_at(void *own, size_t known, const void *array, size_t index, const char *call,
                     howdah_error *reterr);
void hw_sized_give_at(void *array, size_t index, const void *own, size_t known);
/* Whether its elements are as long as ours: it can be used as it is. */
bool hw_sized_is_ours(const void *array, size_t known);

#endif
