/*
 * clock.c - the only place that asks for the time; and times and durations as text.
 *
 * Dates are the proleptic Gregorian calendar, reckoned in whole days with the year starting in
 * March, so that the leap day is the last of its year and no table of months is needed.
 */
#include "base/clock.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define US_PER_S INT64_C(1000000)
/* How exactly name_boot_by_time() tells two boots apart. */
#define BOOT_GRAIN_S 600
#define S_PER_DAY INT64_C(86400)
#define DAYS_PER_ERA 146097 /* 400 years */
#define DAYS_TO_1970 719468 /* from 0000-03-01 */

static int64_t read_clock_us(clockid_t id)
{
    struct timespec t = {0, 0};

    /* Cannot fail: the ids are valid and so is the address. */
    (void)clock_gettime(id, &t);
    return (int64_t)t.tv_sec * US_PER_S + t.tv_nsec / 1000;
}

int64_t hw_clock_wall_us(void)
{
    return read_clock_us(CLOCK_REALTIME);
}

/*
 * BOOTTIME and not MONOTONIC: a lease runs out while the machine sleeps, so our waits must go on
 * too.
 */
int64_t hw_clock_mono_us(void)
{
    return read_clock_us(CLOCK_BOOTTIME);
}

/* That the processor was given to others for a while is no wait: an involuntary switch. */
hw_clock_work hw_clock_work_begin(void)
{
    struct rusage used = {.ru_nvcsw = 0};

    (void)getrusage(RUSAGE_THREAD, &used);
    return (hw_clock_work){.wall_us = hw_clock_mono_us(),
                           .processor_us = read_clock_us(CLOCK_THREAD_CPUTIME_ID),
                           .waits = used.ru_nvcsw};
}

int64_t hw_clock_work_us(const hw_clock_work *begun)
{
    hw_clock_work now = hw_clock_work_begin();

    return now.waits == begun->waits ? now.processor_us - begun->processor_us
                                     : now.wall_us - begun->wall_us;
}

int64_t hw_clock_mono_ms(void)
{
    return hw_clock_mono_us() / 1000;
}

/* Saturates, so that callers can pass a user's timeout without a check of their own. */
int64_t hw_clock_end_ms(int64_t for_ms)
{
    int64_t now = hw_clock_mono_ms();

    return for_ms < 0 || for_ms > INT64_MAX - now ? INT64_MAX : now + for_ms;
}

/*
 * The wall clock less the time since boot gives when the machine was booted.  Rounded to ten
 * minutes, because the two clocks drift apart a little; setting the wall clock changes it.
 */
static void name_boot_by_time(char ret_text[HW_BOOT_TEXT + 1])
{
    int64_t booted_us = read_clock_us(CLOCK_REALTIME) - read_clock_us(CLOCK_BOOTTIME);
    int64_t grain_us = BOOT_GRAIN_S * US_PER_S;

    (void)snprintf(ret_text, HW_BOOT_TEXT + 1, "about %lld",
                   (long long)((booted_us + grain_us / 2) / grain_us * BOOT_GRAIN_S));
}

/* The file is a parameter so that a test can name one that is missing. */
void hw_clock_boot_by(const char *path, char ret_text[HW_BOOT_TEXT + 1])
{
    FILE *file = fopen(path, "re");

    if (!file || fscanf(file, "%36s", ret_text) != 1)
        name_boot_by_time(ret_text);
    if (file)
        (void)fclose(file);
}

void hw_clock_boot(char ret_text[HW_BOOT_TEXT + 1])
{
    hw_clock_boot_by("/proc/sys/kernel/random/boot_id", ret_text);
}

/* ------------------------------------------------------------------ calendar */

typedef struct civil {
    int year;
    int month;
    int day;
} civil;

/*
 * Days since 1970-01-01.  With March as month 0, (153 * month + 2) / 5 is the number of days
 * before a month: the lengths 31 30 31 30 31 repeat from March and from August on.  An era is 400
 * years.
 */
static int64_t days_from_civil(civil date)
{
    int64_t year = date.month <= 2 ? date.year - 1 : date.year;
    int64_t era = (year >= 0 ? year : year - 399) / 400;
    int64_t year_of_era = year - era * 400;
    int64_t month = (date.month + 9) % 12; /* March is 0 */
    int64_t day_of_year = (153 * month + 2) / 5 + date.day - 1;
    int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;

    return era * DAYS_PER_ERA + day_of_era - DAYS_TO_1970;
}

/*
 * The inverse of days_from_civil().  The divisors are the days of 4, 100 and 400 years without the
 * leap day at their end (a century has none), so that this last day still counts to its span.
 */
static civil civil_from_days(int64_t days)
{
    int64_t shifted = days + DAYS_TO_1970;
    int64_t era = (shifted >= 0 ? shifted : shifted - (DAYS_PER_ERA - 1)) / DAYS_PER_ERA;
    int64_t day_of_era = shifted - era * DAYS_PER_ERA;
    int64_t year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t month = (5 * day_of_year + 2) / 153;
    civil date;

    date.day = (int)(day_of_year - (153 * month + 2) / 5 + 1);
    date.month = (int)(month < 10 ? month + 3 : month - 9);
    date.year = (int)(year_of_era + era * 400 + (date.month <= 2 ? 1 : 0));
    assert(date.month >= 1 && date.month <= 12 && date.day >= 1 && date.day <= 31);
    return date;
}

static int days_in_month(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

    assert(month >= 1 && month <= 12);
    return month == 2 && leap ? 29 : days[month - 1];
}

/* --------------------------------------------------------------- reading text */

typedef struct text_cursor {
    const char *p;
    const char *end;
} text_cursor;

/*
 * Exactly n digits with a value in [min, max]. On false nothing is consumed and nothing is set.
 */
static bool take_digits(text_cursor *at, int n, int min, int max, int *ret_value)
{
    int value = 0;

    if (at->end - at->p < n)
        return false;
    for (int i = 0; i < n; i++) {
        char c = at->p[i];

        if (c < '0' || c > '9')
            return false;
        value = value * 10 + (c - '0');
    }
    if (value < min || value > max)
        return false;
    at->p += n;
    *ret_value = value;
    return true;
}

/* One of two characters, which may be the same. */
static bool take_char(text_cursor *at, char one, char other)
{
    if (at->p == at->end || (*at->p != one && *at->p != other))
        return false;
    at->p++;
    return true;
}

static bool take_date(text_cursor *at, civil *ret_date)
{
    civil d;

    if (!take_digits(at, 4, 1, 9999, &d.year) || !take_char(at, '-', '-') ||
        !take_digits(at, 2, 1, 12, &d.month) || !take_char(at, '-', '-') ||
        !take_digits(at, 2, 1, 31, &d.day) || d.day > days_in_month(d.year, d.month))
        return false;
    *ret_date = d;
    return true;
}

static bool take_time_of_day(text_cursor *at, int64_t *ret_s)
{
    int hour;
    int minute;
    int second;

    if (!take_digits(at, 2, 0, 23, &hour) || !take_char(at, ':', ':') ||
        !take_digits(at, 2, 0, 59, &minute) || !take_char(at, ':', ':') ||
        !take_digits(at, 2, 0, 59, &second))
        return false;
    *ret_s = ((int64_t)hour * 60 + minute) * 60 + second;
    return true;
}

/*
 * ".5" to ".123456789", or nothing.  Digits below a microsecond are cut off and not rounded:
 * rounding 23:59:59.9999999 would carry into the next day.
 */
static bool take_fraction(text_cursor *at, int64_t *ret_us)
{
    int64_t us = 0;
    int digits = 0;

    *ret_us = 0;
    if (!take_char(at, '.', '.'))
        return true;
    for (; at->p < at->end && *at->p >= '0' && *at->p <= '9'; at->p++, digits++) {
        if (digits < 6)
            us = us * 10 + (*at->p - '0');
    }
    if (digits == 0 || digits > 9)
        return false;
    for (int i = digits; i < 6; i++)
        us *= 10;
    *ret_us = us;
    return true;
}

/* RFC 3339 requires an offset: a time without one means something else on every machine. */
static bool take_offset(text_cursor *at, int64_t *ret_s)
{
    int hour;
    int minute;
    bool west;

    *ret_s = 0;
    if (take_char(at, 'Z', 'z'))
        return true;
    west = at->p < at->end && *at->p == '-';
    if (!take_char(at, '+', '-') || !take_digits(at, 2, 0, 23, &hour) || !take_char(at, ':', ':') ||
        !take_digits(at, 2, 0, 59, &minute))
        return false;
    *ret_s = ((int64_t)hour * 60 + minute) * (west ? -60 : 60);
    return true;
}

/* All or nothing: *ret_us is set only when the whole text is a time within the range. */
bool hw_time_parse(const char *text, size_t len, int64_t *ret_us)
{
    text_cursor at = {text, text + len};
    civil date;
    int64_t day_s;
    int64_t fraction_us;
    int64_t offset_s;
    int64_t us;

    if (!take_date(&at, &date) || !take_char(&at, 'T', 't') || !take_time_of_day(&at, &day_s) ||
        !take_fraction(&at, &fraction_us) || !take_offset(&at, &offset_s) || at.p != at.end)
        return false;
    us = (days_from_civil(date) * S_PER_DAY + day_s - offset_s) * US_PER_S + fraction_us;
    /* An offset can carry the first and the last day out of the range. */
    if (us < HW_TIME_MIN_US || us > HW_TIME_MAX_US)
        return false;
    *ret_us = us;
    return true;
}

/* --------------------------------------------------------------- writing text */

/* Fixed width with leading zeros; value has at most n digits. */
static char *put_digits(char *out, int n, int64_t value)
{
    for (int i = n - 1; i >= 0; i--) {
        out[i] = (char)('0' + value % 10);
        value /= 10;
    }
    assert(value == 0);
    return out + n;
}

void hw_time_format(int64_t time_us, char ret_text[HW_TIME_TEXT + 1])
{
    char *p = ret_text;
    int64_t day_us;
    int64_t days;
    civil date;

    /* The buffer holds four digits of year; a time from outside the range becomes its end. */
    if (time_us < HW_TIME_MIN_US)
        time_us = HW_TIME_MIN_US;
    if (time_us > HW_TIME_MAX_US)
        time_us = HW_TIME_MAX_US;
    days = time_us / (S_PER_DAY * US_PER_S);
    day_us = time_us % (S_PER_DAY * US_PER_S);
    if (day_us < 0) {
        day_us += S_PER_DAY * US_PER_S;
        days--;
    }
    date = civil_from_days(days);
    p = put_digits(p, 4, date.year);
    *p++ = '-';
    p = put_digits(p, 2, date.month);
    *p++ = '-';
    p = put_digits(p, 2, date.day);
    *p++ = 'T';
    p = put_digits(p, 2, day_us / (3600 * US_PER_S));
    *p++ = ':';
    p = put_digits(p, 2, day_us / (60 * US_PER_S) % 60);
    *p++ = ':';
    p = put_digits(p, 2, day_us / US_PER_S % 60);
    *p++ = '.';
    p = put_digits(p, 6, day_us % US_PER_S);
    *p++ = 'Z';
    assert(p == ret_text + HW_TIME_TEXT);
    *p = '\0';
}

/*
 * Whole numbers of one unit only: "1h30m" and "1.5s" are refused, and so is a number without a
 * unit.
 */
bool hw_duration_parse(const char *text, int64_t *ret_ms)
{
    static const struct {
        const char *name;
        int64_t ms;
    } units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}};
    const char *p = text;
    int64_t value = 0;

    for (; *p >= '0' && *p <= '9'; p++) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, *p - '0', &value))
            return false;
    }
    if (p == text)
        return false;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(p, units[i].name) != 0)
            continue;
        if (__builtin_mul_overflow(value, units[i].ms, &value))
            return false;
        *ret_ms = value;
        return true;
    }
    return false;
}

void hw_clock_sleep_ms(int64_t ms)
{
    struct timespec t = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000L};

    (void)nanosleep(&t, NULL);
}
