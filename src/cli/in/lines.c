/* lines.c - see lines.h. */
#include "cli/in/lines.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "cli/in/signals.h"

#define CHUNK ((size_t)256 * 1024)

void cli_lines_init(cli_lines *lines, int fd, size_t line_max)
{
    memset(lines, 0, sizeof *lines);
    lines->fd = fd;
    lines->line_max = line_max;
    lines->buf = (hw_buf)HW_BUF_INIT(line_max + 2 * CHUNK);
}

void cli_lines_done(cli_lines *lines)
{
    hw_buf_done(&lines->buf);
}

/* A signal that is not for us to end by does not disturb the reading. */
int64_t cli_read_some(int fd, char *room, size_t n, howdah_error *reterr)
{
    for (;;) {
        ssize_t got = read(fd, room, n);

        if (got >= 0)
            return got;
        if (errno != EINTR)
            return hw_fail(reterr, HOWDAH_FAILED, "cannot read the input: %s", strerror(errno));
        if (cli_signal_caught())
            return hw_fail(reterr, HOWDAH_INTERRUPTED, "interrupted while reading the input");
    }
}

/* Moves what is left to the front and reads more after it. */
static int fill(cli_lines *l, howdah_error *reterr)
{
    size_t left = l->buf.len - l->start;
    int64_t got;

    assert(l->start <= l->scanned && l->scanned <= l->buf.len);
    if (l->start > 0) {
        memmove(l->buf.data, l->buf.data + l->start, left);
        l->buf.len = left;
        l->scanned -= l->start;
        l->start = 0;
    }
    if (!hw_buf_reserve(&l->buf, CHUNK))
        return hw_buf_check(&l->buf, reterr);
    got = cli_read_some(l->fd, l->buf.data + l->buf.len, CHUNK, reterr);
    if (got < 0)
        return (int)got;
    l->buf.len += (size_t)got;
    l->end = got == 0;
    return HOWDAH_OK;
}

/* The line stays in the buffer; it is valid until the next call. */
static void hand_out(cli_lines *l, size_t end, hw_str *ret_line)
{
    assert(end >= l->start && end <= l->buf.len);
    l->buf.data[end] = '\0'; /* over the line end, or in the place kept for a NUL */
    *ret_line = (hw_str){l->buf.data + l->start, end - l->start};
    l->start = end < l->buf.len ? end + 1 : end;
    l->scanned = l->start;
    l->number++;
}

/* The number of the line that would have come next. */
static int too_long(const cli_lines *l, howdah_error *reterr)
{
    return hw_fail(reterr, HOWDAH_LIMIT, "line %lld: longer than %zu bytes",
                   (long long)l->number + 1, l->line_max);
}

/* Bytes are searched once: scanned remembers how far.  A last line without a line end counts. */
int cli_lines_next(cli_lines *lines, hw_str *ret_line, howdah_error *reterr)
{
    for (;;) {
        size_t unseen = lines->buf.len - lines->scanned;
        const char *from = unseen ? lines->buf.data + lines->scanned : NULL;
        const char *newline = unseen ? memchr(from, '\n', unseen) : NULL;
        size_t end = newline ? (size_t)(newline - lines->buf.data) : lines->buf.len;
        int s;

        if (end - lines->start > lines->line_max)
            return too_long(lines, reterr);
        if (newline || (lines->end && end > lines->start)) {
            hand_out(lines, end, ret_line);
            return HOWDAH_OK;
        }
        if (lines->end)
            return HOWDAH_END;
        lines->scanned = lines->buf.len;
        s = fill(lines, reterr);
        if (s < 0)
            return s;
    }
}
