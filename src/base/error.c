/*
 * error.c - statuses as text, and how an error is filled.
 *
 *   I1  Nothing is written beyond reterr->size bytes: the struct may belong to an older caller.
 *   I2  An error is built aside and copied last, so that its old message may be an argument of the
 *       new one.
 *   I3  Texts are one line, NUL-terminated, cut between characters.
 */
#include "base/error.h"

#include <assert.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

typedef struct status_row {
    int status;
    int exit_code;
    const char *name;
    const char *text;
} status_row;

static const status_row status_rows[] = {{HOWDAH_OK, 0, "OK", "done"},
                                         {HOWDAH_END, 0, "END", "nothing more to read"},
#define STATUS_ROW(name, value, exit_code, text) {(value), (exit_code), #name, (text)},
                                         HOWDAH_STATUS_LIST(STATUS_ROW)
#undef STATUS_ROW
};

/*
 * A status from a newer library than the caller's header is possible, so there is always an
 * answer.
 */
static const status_row *find_status(int status)
{
    static const status_row unknown = {0, 1, "UNKNOWN", "a status this library does not know"};

    for (size_t i = 0; i < sizeof status_rows / sizeof status_rows[0]; i++) {
        if (status_rows[i].status == status)
            return &status_rows[i];
    }
    return &unknown;
}

const char *howdah_status_name(int status)
{
    return find_status(status)->name;
}

const char *howdah_status_text(int status)
{
    return find_status(status)->text;
}

int howdah_status_exit_code(int status)
{
    return find_status(status)->exit_code;
}

/* Puts text at out + at, cut to what fits (I3); returns the new length. */
static size_t put_text(char *out, size_t room, size_t at, const char *text)
{
    size_t n;

    assert(at < room);
    n = hw_utf8_cut(text, strlen(text), room - 1 - at);

    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];

        out[at + i] = (c < 0x20 || c == 0x7F) ? ' ' : text[i];
    }
    out[at + n] = '\0';
    return at + n;
}

/*
 * The formatted text may be longer than any field.  The scratch is a little larger than the
 * largest one, so that put_text() still sees that there was more and cuts between characters
 * (I3).
 */
typedef struct scratch {
    char text[sizeof(((howdah_error *)NULL)->message) + 8];
} scratch;

static HW_PRINTF(2, 0) void format(scratch *out, const char *fmt, va_list args)
{
    if (vsnprintf(out->text, sizeof out->text, fmt, args) < 0)
        out->text[0] = '\0';
}

/* Only as much as the caller's struct has (I1); what it does not have reads as 0. */
static void load(howdah_error *err, const howdah_error *from)
{
    size_t n = from->size < sizeof *err ? from->size : sizeof *err;

    memset(err, 0, sizeof *err);
    if (n > 0)
        memcpy(err, from, n);
}

/*
 * The caller's size stays what it was (I1).  A struct of an older age may end inside a text, which
 * then needs a NUL of its own.
 */
static void store(const howdah_error *err, howdah_error *reterr)
{
    size_t size = reterr->size;

    if (size >= sizeof *err) {
        *reterr = *err;
        reterr->size = size;
        return;
    }
    if (size < sizeof reterr->size)
        return;
    memcpy(reterr, err, size);
    reterr->size = size;
    if (size > offsetof(howdah_error, sqlstate))
        ((char *)reterr)[size - 1] = '\0';
}

/*
 * Builds the whole error aside, because field and message may point into *reterr (I2).  Whether a
 * retry can help follows from the status alone for these; other flags are added where they are
 * known.
 */
static void fill(howdah_error *reterr, int status, const char *field, const char *message)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    size_t at = 0;

    err.status = status;
    if (status == HOWDAH_NO_MEMORY || status == HOWDAH_UNAVAILABLE || status == HOWDAH_TIMEOUT ||
        status == HOWDAH_FULL)
        err.flags = HOWDAH_RETRYABLE;
    if (field) {
        (void)put_text(err.field, sizeof err.field, 0, field);
        at = put_text(err.message, sizeof err.message, at, field);
        at = put_text(err.message, sizeof err.message, at, ": ");
    }
    (void)put_text(err.message, sizeof err.message, at, message);
    store(&err, reterr);
}

int hw_fail(howdah_error *reterr, int status, const char *fmt, ...)
{
    scratch text;
    va_list args;

    assert(status < 0);
    if (!reterr)
        return status;
    va_start(args, fmt);
    format(&text, fmt, args);
    va_end(args);
    fill(reterr, status, NULL, text.text);
    return status;
}

int hw_fail_field(howdah_error *reterr, int status, const char *field, const char *fmt, ...)
{
    scratch text;
    va_list args;

    assert(status < 0);
    if (!reterr)
        return status;
    va_start(args, fmt);
    format(&text, fmt, args);
    va_end(args);
    fill(reterr, status, field, text.text);
    return status;
}

/*
 * Keeps status and message: an error is reported once, and its advice may be known a layer
 * higher.
 */
int hw_advise(howdah_error *reterr, int status, const char *fmt, ...)
{
    howdah_error err;
    scratch text;
    va_list args;

    if (!reterr)
        return status;
    va_start(args, fmt);
    format(&text, fmt, args);
    va_end(args);
    load(&err, reterr);
    (void)put_text(err.advice, sizeof err.advice, 0, text.text);
    store(&err, reterr);
    return status;
}

/*
 * The message is read from a copy: the old text must survive until the new one is complete (I2).
 */
void hw_error_prefix(howdah_error *reterr, const char *fmt, ...)
{
    howdah_error err;
    howdah_error old;
    scratch text;
    va_list args;
    size_t at;

    if (!reterr)
        return;
    va_start(args, fmt);
    format(&text, fmt, args);
    va_end(args);
    load(&old, reterr);
    err = old;
    at = put_text(err.message, sizeof err.message, 0, text.text);
    at = put_text(err.message, sizeof err.message, at, ": ");
    (void)put_text(err.message, sizeof err.message, at, old.message);
    store(&err, reterr);
}

void hw_error_copy(howdah_error *reterr, const howdah_error *err)
{
    if (reterr)
        store(err, reterr);
}

/*
 * Writes the member in place, so it must lie within the caller's struct (I1); sqlstate comes
 * next.
 */
void hw_error_at(howdah_error *reterr, size_t event_index)
{
    if (reterr && reterr->size >= offsetof(howdah_error, sqlstate))
        reterr->event_index = (int64_t)event_index;
}

/* Writes the member in place, so it must lie within the caller's struct (I1). */
void hw_error_flag(howdah_error *reterr, unsigned flag)
{
    if (reterr && reterr->size >= offsetof(howdah_error, actual_version))
        reterr->flags |= flag;
}
