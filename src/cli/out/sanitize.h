/*
 * sanitize.h - what others wrote, on its way to a terminal.
 *
 * Names, payloads, errors, transaction ids, texts of the server and of files: their author must
 * not be able to steer the reader's terminal.
 *
 *   I1  What comes out is well-formed UTF-8 (ASCII without utf8), of harmless characters and line
 *       feeds only: no other control, C0 or C1, nothing that turns or hides the writing.
 *   I2  It does not depend on how the text is cut: a character may come in pieces.
 *   I3  With json, JSON that goes in comes out as equal JSON: what is not harmless is escaped.
 */
#ifndef HW_CLI_OUT_SANITIZE_H
#define HW_CLI_OUT_SANITIZE_H

#include <stdbool.h>
#include <stddef.h>

typedef void cli_sink(void *ctx, const char *bytes, size_t n);

typedef struct cli_sanitizer {
    bool utf8; /* the terminal shows it */
    bool json;
    bool one_line; /* line feeds become spaces, too */
    cli_sink *sink;
    void *ctx;
    size_t held_n; /* bytes of a character that is not complete yet */
    char held[4];
} cli_sanitizer;

void cli_sanitize_put(cli_sanitizer *h, const char *bytes, size_t n);
/* The text is over: a character that is not complete will not be. */
void cli_sanitize_end(cli_sanitizer *h);

/* Whether a character does nothing but show itself; line feeds and tabs are not harmless. */
bool cli_point_sanitize(unsigned point, bool utf8);
/* Decodes one character of well-formed UTF-8; returns its bytes. */
size_t cli_point_decode(const char *s, unsigned *ret_point);

#endif
