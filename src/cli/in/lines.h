/* lines.h - lines of a descriptor, each with a maximum, in bounded memory. */
#ifndef HW_CLI_IN_LINES_H
#define HW_CLI_IN_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"

typedef struct cli_lines {
    int fd;
    size_t line_max;
    int64_t number; /* of the line handed out last, from 1 */
    bool end;       /* of the input */
    size_t start;   /* of what was not handed out yet */
    size_t scanned; /* up to here it holds no line end */
    hw_buf buf;
} cli_lines;

void cli_lines_init(cli_lines *lines, int fd, size_t line_max);
void cli_lines_done(cli_lines *lines);

/*
 * The next line without its end, valid until the next call; HOWDAH_END after the last.  Its s[len]
 * is NUL.  Errors: LIMIT (a line over the maximum, told before it is read whole), INTERRUPTED,
 * FAILED.
 */
int cli_lines_next(cli_lines *lines, hw_str *ret_line, howdah_error *reterr);

/*
 * One read(2) that comes back for signals: bytes read, 0 at the end, or a negative status.
 */
int64_t cli_read_some(int fd, char *room, size_t n, howdah_error *reterr);

#endif
