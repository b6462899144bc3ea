/* place.c - a place as a text, and back; see place.h. */
#include "engine/place.h"

#include <assert.h>
#include <string.h>

#include "base/digest.h"
#include "base/error.h"

#define VERSION 1
#define HASH_BITS 48
#define DIGITS 64
#define NUMBER_MAX 11 /* digits of INT64_MAX */
/* So many ranges always fit: each is two numbers and two dots. */
#define FIT 64
#define HEAD_MAX (2 + 3 * (NUMBER_MAX + 1) + HW_PLACE_ANCHORS * 2 * (NUMBER_MAX + 1))
_Static_assert(HEAD_MAX + FIT * 2 * (NUMBER_MAX + 1) + 1 <= HOWDAH_PLACE_SIZE,
               "a place of any log has a text");

static const char digits[DIGITS + 1] =
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";

void hw_place_done(howdah_place *place)
{
    hw_ranges_done(&place->outstanding);
    *place = (howdah_place)HW_PLACE_INIT;
}

uint64_t hw_place_hash(const void *bytes, size_t n)
{
    return hw_quick_bytes(0, bytes, n) >> (64 - HASH_BITS);
}

/* ------------------------------------------------------------------- reading */

/* What is left of a text; a number ends at a dot or at the end. */
typedef struct cursor {
    const char *at;
    const char *end;
} cursor;

static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'A' && c <= 'Z')
        return c - 'A' + 10;
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 36;
    return c == '-' ? 62 : c == '_' ? 63 : -1;
}

/* The next number, at most max, as we would write it (I2): no zero in front. */
static bool take(cursor *c, int64_t max, int64_t *ret_number)
{
    const char *first = c->at;
    int64_t number = 0;

    for (; c->at < c->end && *c->at != '.'; c->at++) {
        int digit = digit_of(*c->at);

        if (digit < 0 || number > (max - digit) / DIGITS || (c->at > first && *first == '0'))
            return false;
        number = number * DIGITS + digit;
    }
    if (c->at == first || number > max)
        return false;
    if (c->at < c->end && ++c->at == c->end) /* a dot, and nothing after it */
        return false;
    *ret_number = number;
    return true;
}

static bool take_hash(cursor *c, uint64_t *ret_hash)
{
    int64_t number;

    if (!take(c, (INT64_C(1) << HASH_BITS) - 1, &number))
        return false;
    *ret_hash = (uint64_t)number;
    return true;
}

static bool take_anchors(cursor *c, howdah_place *place)
{
    int64_t below = place->high;
    int64_t n;

    if (!take(c, HW_PLACE_ANCHORS, &n))
        return false;
    for (; place->anchors_n < (size_t)n; place->anchors_n++) {
        hw_place_anchor *anchor = &place->anchors[place->anchors_n];

        if (!take(c, below, &anchor->sequence) || anchor->sequence == 0 ||
            !take_hash(c, &anchor->hash))
            return false;
        below = anchor->sequence - 1;
    }
    return true;
}

/* *ret_fits: they are ranges within 1..high; if not, that is no failure. */
static int take_ranges(cursor *c, howdah_place *place, bool *ret_fits, howdah_error *reterr)
{
    int64_t free_from = 1; /* the next range begins here or later */

    while (c->at < c->end) {
        int64_t gap;
        int64_t more;
        int s;

        *ret_fits = take(c, place->high - free_from, &gap) && c->at < c->end &&
                    take(c, place->high - free_from - gap, &more);
        if (!*ret_fits)
            return HOWDAH_OK;
        s = hw_ranges_add(&place->outstanding, free_from + gap, free_from + gap + more, reterr);
        if (s < 0)
            return s;
        free_from += gap + more + 2;
    }
    return HOWDAH_OK;
}

static int refuse(hw_str text, const char *rule, howdah_error *reterr)
{
    return hw_fail_field(reterr, HOWDAH_INVALID, "place", "%s, got %zu bytes", rule, text.len);
}

/* The length is looked at first: it bounds all that follows (I1). */
int hw_place_parse(hw_str text, howdah_place *place, howdah_error *reterr)
{
    howdah_place taken = HW_PLACE_INIT;
    cursor c = {text.s, text.s + text.len};
    int64_t version = 0;
    bool fits;
    int s = HOWDAH_OK;

    if (text.len == 0 || text.len >= HOWDAH_PLACE_SIZE)
        return hw_fail_field(reterr, HOWDAH_INVALID, "place", "must be 1 to %d bytes, got %zu",
                             HOWDAH_PLACE_SIZE - 1, text.len);
    fits = take(&c, INT64_MAX, &version);
    if (fits && version != VERSION && c.at < c.end)
        return refuse(text, "is of another version than this library's", reterr);
    fits = fits && take(&c, INT64_MAX - 2, &taken.high) && take_hash(&c, &taken.log) &&
           take_anchors(&c, &taken);
    if (fits)
        s = take_ranges(&c, &taken, &fits, reterr);
    if (s >= 0 && !fits)
        s = refuse(text, "must be a text that howdah_tail_place() has made", reterr);
    if (s < 0) {
        hw_place_done(&taken);
        return s;
    }
    hw_ranges_done(&place->outstanding);
    *place = taken;
    return HOWDAH_OK;
}

/* ------------------------------------------------------------------- writing */

/* Its digits, and before it a dot. */
static char *put(char *at, uint64_t number)
{
    char text[NUMBER_MAX];
    size_t n = 0;

    do {
        text[n++] = digits[number % DIGITS];
        number /= DIGITS;
    } while (number > 0);
    *at++ = '.';
    while (n > 0)
        *at++ = text[--n];
    return at;
}

/* NULL: there is no room for all of them. */
static char *put_ranges(char *at, const char *end, const hw_ranges *set)
{
    int64_t free_from = 1;

    for (size_t i = 0; i < set->n; i++) {
        const hw_range *range = &set->items[i];

        if (end - at <= 2 * (NUMBER_MAX + 1))
            return NULL;
        at = put(at, (uint64_t)(range->first - free_from));
        at = put(at, (uint64_t)(range->last - range->first));
        free_from = range->last + 2;
    }
    return at;
}

size_t hw_place_write(howdah_place *place, char ret_text[HOWDAH_PLACE_SIZE])
{
    char *at = ret_text;
    char *end = NULL;

    *at++ = digits[VERSION];
    at = put(at, (uint64_t)place->high);
    at = put(at, place->log);
    at = put(at, place->anchors_n);
    for (size_t i = 0; i < place->anchors_n; i++) {
        at = put(at, (uint64_t)place->anchors[i].sequence);
        at = put(at, place->anchors[i].hash);
    }
    assert(at - ret_text <= HEAD_MAX);
    for (size_t most = place->outstanding.n; !end; most /= 2) {
        if (most < place->outstanding.n)
            place->outstanding.n = hw_place_join(place->outstanding.items, &place->outstanding,
                                                 most < FIT ? FIT : most);
        end = put_ranges(at, ret_text + HOWDAH_PLACE_SIZE, &place->outstanding);
    }
    *end = '\0';
    return (size_t)(end - ret_text);
}

/* How many digits a gap has, to base 2. */
static unsigned width_of(int64_t gap)
{
    unsigned width = 0;

    for (; gap > 0; gap >>= 1)
        width++;
    return width;
}

static unsigned gap_after(const hw_ranges *set, size_t i)
{
    return width_of(set->items[i + 1].first - set->items[i].last - 1);
}

/* The widest gaps stay, as many as there may be: the narrowest kind of those that stay perhaps not
   all.  Each range is read before its place in out, which is never behind it, is written. */
size_t hw_place_join(hw_range *out, const hw_ranges *set, size_t most)
{
    size_t gaps[65] = {0};
    size_t stay = most - 1; /* of all, and later of the narrowest kind */
    unsigned narrowest = 64;
    size_t n = 0;

    assert(most > 0);
    for (size_t i = 0; i + 1 < set->n; i++)
        gaps[gap_after(set, i)]++;
    for (; narrowest > 0 && gaps[narrowest] <= stay; narrowest--)
        stay -= gaps[narrowest];
    for (size_t i = 0; i < set->n; i++) {
        unsigned width = i > 0 ? gap_after(set, i - 1) : 64;
        hw_range range = set->items[i];
        bool stays = i == 0 || width > narrowest || (width == narrowest && stay > 0);

        if (i > 0 && stays && width == narrowest)
            stay--;
        if (stays)
            out[n++] = range;
        else
            out[n - 1].last = range.last;
    }
    assert(n <= most);
    return n;
}
