/* out.c - the only place that writes to stdout and stderr; see out.h. */
#include "cli/out/out.h"

#include <assert.h>
#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"
#include "cli/in/signals.h"
#include "face/fields.h"

#define WIDTH_DEFAULT 80u
#define HEIGHT_DEFAULT 24u
#define JSON_BYTES_MAX ((size_t)1024 * 1024 * 1024) /* above any thing with its payload */
#define JSON_ROOM_KEPT ((size_t)1024 * 1024)        /* for the next thing */

static bool environment_is(const char *name, const char *value)
{
    const char *text = getenv(name); /* NOLINT(concurrency-mt-unsafe): one thread */

    return text && strcmp(text, value) == 0;
}

/* NO_COLOR counts when it is not empty, as no-color.org says. */
static bool colours_wanted(void)
{
    const char *no = getenv("NO_COLOR"); /* NOLINT(concurrency-mt-unsafe): one thread */

    return !(no && *no) && !environment_is("TERM", "dumb");
}

/* What the environment asks for counts, also where that very locale is not installed. */
static bool utf8_wanted(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};

    if (setlocale(LC_CTYPE, "") && strcmp(nl_langinfo(CODESET), "UTF-8") == 0)
        return true;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *text = getenv(names[i]); /* NOLINT(concurrency-mt-unsafe): one thread */

        if (text && *text)
            return (strcasestr(text, "UTF-8") || strcasestr(text, "utf8")) &&
                   setlocale(LC_CTYPE, "C.UTF-8");
    }
    return false;
}

/* What is no number, or no size of a terminal, is ignored. */
static unsigned environment_number(const char *name, unsigned otherwise)
{
    const char *text = getenv(name); /* NOLINT(concurrency-mt-unsafe): one thread */
    int64_t value;

    return text && hw_parse_i64(text, 1, 10000, &value) ? (unsigned)value : otherwise;
}

/* COLUMNS and LINES only where the terminal does not know: shells export stale ones. */
static void look_at_size(cli_out *out)
{
    struct winsize size = {0, 0, 0, 0};

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0)
        size.ws_col = size.ws_row = 0;
    out->width = size.ws_col ? size.ws_col : environment_number("COLUMNS", WIDTH_DEFAULT);
    out->height = size.ws_row ? size.ws_row : environment_number("LINES", HEIGHT_DEFAULT);
}

static void into_room(void *ctx, const char *bytes, size_t n);

/* In a pipe the output is JSON: what programs read must not depend on a flag. */
void cli_out_init(cli_out *out, bool json)
{
    memset(out, 0, sizeof *out);
    out->terminal = isatty(STDOUT_FILENO) == 1;
    out->json = json || !out->terminal;
    out->colour = out->terminal && !out->json && colours_wanted();
    out->err_terminal = isatty(STDERR_FILENO) == 1;
    out->err_dumb = environment_is("TERM", "dumb");
    out->err_colour = out->err_terminal && colours_wanted();
    out->utf8 = utf8_wanted();
    out->json_text = (hw_buf)HW_BUF_INIT(JSON_BYTES_MAX);
    out->sanitizer =
        (cli_sanitizer){.utf8 = out->utf8, .json = out->json, .sink = into_room, .ctx = out};
    look_at_size(out);
    (void)setvbuf(stderr, NULL, _IOLBF, 0);
}

/* The first failed write is remembered, and nothing is written after it (I3). */
static void write_all(cli_out *out, const char *bytes, size_t n)
{
    while (n > 0 && !out->broken) {
        ssize_t done = write(STDOUT_FILENO, bytes, n);

        if (done >= 0) {
            bytes += done;
            n -= (size_t)done;
        } else if (errno != EINTR || cli_signal_caught()) {
            out->broken = errno;
        }
    }
}

/* Emptied before it is written: a failed write is not tried again. */
static void flush_room(cli_out *out)
{
    size_t n = out->len;

    out->len = 0;
    write_all(out, out->room, n);
}

/* A character that is not complete by now will not be. */
void cli_out_flush(cli_out *out)
{
    cli_sanitize_end(&out->sanitizer);
    flush_room(out);
}

void cli_out_done(cli_out *out)
{
    cli_out_flush(out);
    hw_buf_done(&out->json_text);
}

/* As it is. */
static void into_room(void *ctx, const char *bytes, size_t n)
{
    cli_out *out = ctx;

    assert(out->len <= sizeof out->room);
    if (n > sizeof out->room - out->len)
        flush_room(out);
    if (n > sizeof out->room) {
        write_all(out, bytes, n);
        return;
    }
    if (n > 0)
        memcpy(out->room + out->len, bytes, n);
    out->len += n;
}

/* I4: a terminal gets harmless text, a pipe every byte. */
void cli_out_put(cli_out *out, const void *bytes, size_t n)
{
    if (out->terminal)
        cli_sanitize_put(&out->sanitizer, bytes, n);
    else
        into_room(out, bytes, n);
}

void cli_out_puts(cli_out *out, const char *text)
{
    cli_out_put(out, text, strlen(text));
}

/* Allocates: the texts of others have no length that a fixed room would fit. */
void cli_out_printf(cli_out *out, const char *fmt, ...)
{
    char *text = NULL;
    va_list args;
    int n;

    va_start(args, fmt);
    n = vasprintf(&text, fmt, args);
    va_end(args);
    if (n < 0) {
        out->broken = ENOMEM;
        return;
    }
    cli_out_put(out, text, (size_t)n);
    free(text); /* vasprintf's, not the library's */
}

void cli_out_wrapped(cli_out *out, const char *text, unsigned indent, unsigned width)
{
    size_t at = indent;
    size_t blanks = 0; /* outstanding: they are dropped where the line breaks */

    while (*text) {
        size_t word = strcspn(text, " \n");

        if (word > 0 && at > indent && at + blanks + word > width) {
            cli_out_printf(out, "\n%*s", (int)indent, "");
            at = indent;
            blanks = 0;
        }
        if (word > 0) {
            cli_out_printf(out, "%*s%.*s", (int)blanks, "", (int)word, text);
            at += blanks + word;
            blanks = 0;
        }
        text += word;
        if (*text == '\n') {
            cli_out_puts(out, "\n");
            at = 0;
        }
        blanks += *text == ' ';
        text += *text != '\0';
    }
    cli_out_puts(out, "\n");
}

/* Only one thing at a time is made: whoever takes the buffer also prints it. */
hw_buf *cli_out_json(cli_out *out)
{
    hw_buf_clear(&out->json_text);
    return &out->json_text;
}

/* Half a thing would be read as a whole one, so it is not written at all. */
void cli_out_json_put(cli_out *out)
{
    hw_buf *text = &out->json_text;

    if (text->broken == HOWDAH_OK)
        cli_out_put(out, hw_buf_str(text), text->len);
    else if (!out->broken)
        out->broken = text->broken == HOWDAH_LIMIT ? EFBIG : ENOMEM;
    if (text->room > JSON_ROOM_KEPT)
        hw_buf_done(text);
}

/* What is not UTF-8 is no JSON string; the unreadable bytes become "?". */
void cli_json_text(cli_out *out, const char *text)
{
    face_json_text(cli_out_json(out), text);
    cli_out_json_put(out);
}

static const char *style_code(cli_style style)
{
    static const char *const codes[] = {
        [CLI_PLAIN] = "\033[0m", [CLI_BOLD] = "\033[1m",   [CLI_DIM] = "\033[2m",
        [CLI_RED] = "\033[31m",  [CLI_GREEN] = "\033[32m", [CLI_YELLOW] = "\033[33m",
        [CLI_CYAN] = "\033[36m",
    };
    assert((size_t)style < sizeof codes / sizeof *codes);
    return codes[style];
}

/* Past the filter, which would take the escape away (I2). */
void cli_out_style(cli_out *out, cli_style style)
{
    const char *code = style_code(style);

    if (!out->colour)
        return;
    cli_sanitize_end(&out->sanitizer);
    into_room(out, code, strlen(code));
}

static void into_stderr(void *ctx, const char *bytes, size_t n)
{
    (void)ctx;
    (void)fwrite(bytes, 1, n, stderr);
}

/* A whole message under one lock, so that lines of several threads stay apart. */
void cli_err_vprintf(const cli_out *out, const char *fmt, va_list args)
{
    cli_sanitizer h = {.utf8 = out->utf8, .sink = into_stderr};
    char *text = NULL;
    int n;

    if (!out->err_terminal) {
        (void)vfprintf(stderr, fmt, args);
        return;
    }
    n = vasprintf(&text, fmt, args);
    if (n < 0) { /* no memory: what it is about, without what others wrote */
        (void)fputs("out of memory\n", stderr);
        return;
    }
    flockfile(stderr);
    cli_sanitize_put(&h, text, (size_t)n);
    cli_sanitize_end(&h);
    funlockfile(stderr);
    free(text); /* vasprintf's, not the library's */
}

void cli_err_printf(const cli_out *out, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    cli_err_vprintf(out, fmt, args);
    va_end(args);
}

void cli_err_style(const cli_out *out, cli_style style)
{
    if (out->err_colour)
        (void)fputs(style_code(style), stderr);
}

/* To the start of the line, and erase to its end. */
void cli_err_rewind(const cli_out *out)
{
    if (out->err_terminal && !out->err_dumb)
        (void)fputs("\r\033[K", stderr);
    cli_err_flush(out);
}

void cli_err_flush(const cli_out *out)
{
    (void)out;
    (void)fflush(stderr);
}

/* Cheap: for loops that print. */
bool cli_out_alive(const cli_out *out)
{
    return !out->broken;
}

bool cli_out_wanted(cli_out *out)
{
    struct pollfd p = {.fd = STDOUT_FILENO, .events = 0};

    /* The write end of a pipe reports POLLERR as soon as the last reader has closed it. */
    if (!out->broken && poll(&p, 1, 0) == 1 && (p.revents & POLLERR))
        out->broken = EPIPE;
    return !out->broken;
}

/* Commas also in other locales: the output of a command does not change with them. */
void cli_count_text(long long count, char ret_text[CLI_COUNT_SIZE])
{
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%lld", count);
    size_t at = 0;

    for (int i = 0; i < n; i++) {
        ret_text[at++] = digits[i];
        if (digits[i] != '-' && (n - 1 - i) % 3 == 0 && i != n - 1)
            ret_text[at++] = ',';
    }
    assert(at < CLI_COUNT_SIZE);
    ret_text[at] = '\0';
}
