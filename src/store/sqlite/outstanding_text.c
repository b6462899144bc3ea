/* outstanding_text.c - the numbers that are outstanding to a subscription, as text: "3-5,9,12-20".
 */
#include <assert.h>
#include <inttypes.h>

#include "base/mem.h"
#include "store/sqlite/sqlite.h"

/* As the engine keeps them: ascending, and apart.  A checkpoint that breaks this would not be
   read again. */
static void put_outstanding(hw_buf *out, const hw_range *outstanding, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        assert(outstanding[i].first <= outstanding[i].last);
        assert(i == 0 || outstanding[i - 1].last < outstanding[i].first);
        hw_buf_printf(out, "%s%" PRId64, i > 0 ? "," : "", outstanding[i].first);
        if (outstanding[i].last > outstanding[i].first)
            hw_buf_printf(out, "-%" PRId64, outstanding[i].last);
    }
}

/* The text is in buf, which has to live until the statement was run. */
int hw_sqlite_bind_outstanding(sqlite3_stmt *stmt, int index, hw_buf *buf,
                               const hw_range *outstanding, size_t n, howdah_error *reterr)
{
    put_outstanding(buf, outstanding, n);
    hw_sqlite_bind_str(stmt, index, (hw_str){hw_buf_str(buf), buf->len});
    return hw_buf_check(buf, reterr);
}

/* A number of digits only, which moves *at after it.  False on anything else: the text is the
   database's, and may be damaged. */
static bool get_number(const char **at, int64_t *ret_number)
{
    int64_t number = 0;
    const char *p = *at;

    for (; *p >= '0' && *p <= '9'; p++)
        if (__builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, *p - '0', &number))
            return false;
    if (p == *at)
        return false;
    *at = p;
    *ret_number = number;
    return true;
}

/* "7" is one number, "3-5" three. */
static bool get_range(const char **at, hw_range *ret_range)
{
    if (!get_number(at, &ret_range->first))
        return false;
    ret_range->last = ret_range->first;
    if (**at != '-')
        return true;
    (*at)++;
    return get_number(at, &ret_range->last) && ret_range->first <= ret_range->last;
}

/* ranges has room for one more than there are commas.  Ranges that overlap or fall are damage. */
static bool get_outstanding(const char *text, hw_range *ranges, size_t *ret_n)
{
    size_t n = 0;

    while (*text) {
        if (n > 0 && *text++ != ',')
            return false;
        if (!get_range(&text, &ranges[n]) || (n > 0 && ranges[n].first <= ranges[n - 1].last))
            return false;
        n++;
    }
    *ret_n = n;
    return true;
}

static size_t count_commas(const char *text)
{
    size_t n = 0;

    for (; *text; text++)
        n += *text == ',';
    return n;
}

/* Errors are not reported here: the caller knows the subscription that they are about. */
int hw_sqlite_parse_outstanding(hw_str text, hw_range **ret_outstanding, size_t *ret_n)
{
    hw_range *outstanding;

    if (!text.s)
        return HOWDAH_CORRUPT;
    outstanding = hw_calloc(count_commas(text.s) + 1, sizeof *outstanding);
    if (!outstanding)
        return HOWDAH_NO_MEMORY;
    if (!get_outstanding(text.s, outstanding, ret_n)) {
        hw_free(outstanding);
        return HOWDAH_CORRUPT;
    }
    *ret_outstanding = outstanding;
    return HOWDAH_OK;
}
