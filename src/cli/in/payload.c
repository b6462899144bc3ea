/* payload.c - see payload.h. */
#include "cli/in/payload.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "cli/in/lines.h"

#define READ_CHUNK ((size_t)64 * 1024)

/* Reads to the end, or one byte beyond the limit: what is too large is never held whole. */
static int read_capped(int fd, size_t limit, hw_buf *out, howdah_error *reterr)
{
    for (;;) {
        size_t want = limit + 1 - out->len;
        int64_t got;

        assert(out->len <= limit);
        if (want > READ_CHUNK)
            want = READ_CHUNK;
        if (!hw_buf_reserve(out, want))
            return hw_buf_check(out, reterr);
        got = cli_read_some(fd, out->data + out->len, want, reterr);
        if (got < 0)
            return (int)got;
        out->len += (size_t)got;
        out->data[out->len] = '\0';
        if (out->len > limit)
            return hw_fail_field(reterr, HOWDAH_LIMIT, "data", "more than the limit of %zu bytes",
                                 limit);
        if (got == 0)
            return HOWDAH_OK;
    }
}

/* A file that cannot be read is invalid input, not a failure of the store. */
static int read_file(const char *path, size_t limit, hw_buf *out, howdah_error *reterr)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    int s;

    if (fd < 0)
        return hw_fail_field(reterr, HOWDAH_INVALID, "data", "cannot open %.200s: %s", path,
                             strerror(errno));
    s = read_capped(fd, limit, out, reterr);
    (void)close(fd);
    if (s == HOWDAH_FAILED) /* a directory, say */
        s = hw_fail_field(reterr, HOWDAH_INVALID, "data", "cannot read %.200s", path);
    return s;
}

/* The line end that an editor or echo adds to the document is not part of it. */
static void trim_end(hw_buf *text)
{
    while (text->len > 0 && strchr(" \t\r\n", text->data[text->len - 1]))
        text->data[--text->len] = '\0';
}

void cli_payload_init(hw_buf *room, size_t limit)
{
    *room = (hw_buf)HW_BUF_INIT(limit + 2 * READ_CHUNK);
}

/* The word itself is used where it is; only files and stdin need the room. */
int cli_payload_read(const char *word, bool bytes, size_t limit, hw_buf *room, hw_str *ret_data,
                     howdah_error *reterr)
{
    int s;

    if (strcmp(word, "-") == 0)
        s = read_capped(STDIN_FILENO, limit, room, reterr);
    else if (word[0] == '@')
        s = read_file(word + 1, limit, room, reterr);
    else {
        *ret_data = hw_str_of(word);
        return HOWDAH_OK;
    }
    if (s < 0)
        return s;
    if (!bytes)
        trim_end(room);
    *ret_data = (hw_str){hw_buf_str(room), room->len};
    return HOWDAH_OK;
}
