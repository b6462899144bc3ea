/*
 * out.h - what goes to stdout, and what kind of place stdout and stderr are.
 *
 *   I1  stdout carries results only; messages, remarks and progress go to stderr.
 *   I2  Escape sequences are written to a terminal only, and not with NO_COLOR or TERM=dumb.
 *   I3  After a failed write nothing more is written; code that prints in a loop asks
 *       cli_out_alive() and stops.  A closed pipe is a reader who has seen enough, not an error.
 *   I4  What reaches a terminal is harmless (sanitize.h), but for the styles and the rewinding that
 *       are written here; a pipe or a file gets every byte as it is.  Nobody else in the command
 *       writes to stdout or stderr, but for the commands that it runs.
 */
#ifndef HW_CLI_OUT_OUT_H
#define HW_CLI_OUT_OUT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/error.h"
#include "cli/out/sanitize.h"

#define CLI_OUT_ROOM 65536u

typedef struct cli_out {
    bool json;       /* JSON lines, because of --json or because stdout is no terminal */
    bool colour;     /* on stdout */
    bool utf8;       /* the user's locale can show it */
    bool terminal;   /* stdout is one */
    unsigned width;  /* of the terminal */
    unsigned height; /* of the terminal */
    bool err_terminal;
    bool err_dumb; /* cannot take back what was written */
    bool err_colour;
    int broken;              /* 0, or errno of the write that failed */
    cli_sanitizer sanitizer; /* for stdout, when it is a terminal */
    hw_buf json_text;        /* being made */
    size_t len;
    char room[CLI_OUT_ROOM];
} cli_out;

typedef enum cli_style {
    CLI_PLAIN,
    CLI_BOLD,
    CLI_DIM,
    CLI_RED,
    CLI_GREEN,
    CLI_YELLOW,
    CLI_CYAN
} cli_style;

/* Looks at the descriptors and the environment. */
void cli_out_init(cli_out *out, bool json);

void cli_out_put(cli_out *out, const void *bytes, size_t n);
void cli_out_puts(cli_out *out, const char *text);
void cli_out_printf(cli_out *out, const char *fmt, ...) HW_PRINTF(2, 3);
/*
 * Text that starts in column "indent", broken between words so that no line is wider than width,
 * each further line indented as well; ends the line.  A line break in the text starts a paragraph,
 * without indent.
 */
void cli_out_wrapped(cli_out *out, const char *text, unsigned indent, unsigned width);
/*
 * A text of JSON that a face makes (face/fields.h): the buffer for it, empty, and then what is in
 * it on stdout.  One that could not be made whole counts as a failed write (I3).
 */
hw_buf *cli_out_json(cli_out *out);
void cli_out_json_put(cli_out *out);
/* Text as a JSON string. */
void cli_json_text(cli_out *out, const char *text);
/* Starts a style; CLI_PLAIN ends it.  Nothing without colours. */
void cli_out_style(cli_out *out, cli_style style);
/* Writes out all that was put. */
void cli_out_flush(cli_out *out);
/* The same at the end, and frees what it has. */
void cli_out_done(cli_out *out);

/* The same on stderr, which is written line by line; whole lines also of several threads. */
void cli_err_printf(const cli_out *out, const char *fmt, ...) HW_PRINTF(2, 3);
void cli_err_vprintf(const cli_out *out, const char *fmt, va_list args) HW_PRINTF(2, 0);
void cli_err_style(const cli_out *out, cli_style style);
/* Takes away the line that was written last, and was not ended. */
void cli_err_rewind(const cli_out *out);
/* Writes out a line that is not ended yet. */
void cli_err_flush(const cli_out *out);

/* False once a write has failed. */
bool cli_out_alive(const cli_out *out);
/* As above, and also false when the reader of a pipe is gone although nothing was written yet. */
bool cli_out_wanted(cli_out *out);

/* 1234567 as 1,234,567; room for 27 bytes. */
#define CLI_COUNT_SIZE 28
void cli_count_text(long long count, char ret_text[CLI_COUNT_SIZE]);

#endif
