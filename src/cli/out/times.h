/* times.h - what the commands about two times share. */
#ifndef HW_CLI_OUT_TIMES_H
#define HW_CLI_OUT_TIMES_H

#include "base/buf.h"
#include "base/str.h"
#include "cli/cli.h"

/* "2026-01-31T09:30:00Z": as howdah_time_format(), without a fraction that is zero. */
void cli_time_text(int64_t time_us, char ret_text[HOWDAH_TIME_SIZE]);

/* Says on stderr that an answer is not final, and who it waits for; nothing when it is. */
void cli_knowledge_note(cli_context *cli, const howdah_knowledge *knowledge);

/* --header NAME=VALUE ... as the library's pairs: name, value, name, value ... */
typedef struct cli_pairs {
    const char *texts[2 * HOWDAH_QUERY_HEADERS_MAX];
    char *names[HOWDAH_QUERY_HEADERS_MAX]; /* owned; the values are argv's */
    size_t n;                              /* pairs */
} cli_pairs;

/* Errors: MISUSE (no "="), LIMIT. */
int cli_pairs_take(const cli_args *args, cli_pairs *pairs, howdah_error *reterr);
void cli_pairs_done(cli_pairs *pairs);

/* --header NAME=VALUE ... as a JSON object of strings.  Errors: MISUSE, INVALID. */
int cli_headers_json(const cli_args *args, hw_buf *out, howdah_error *reterr);

/* ---- facts in a terminal: a label in a column of its own, the text cut to the width */

void cli_fact(cli_out *out, const char *label, cli_style style, hw_str text);
/* As above, but broken between words instead of cut. */
void cli_fact_whole(cli_out *out, const char *label, cli_style style, hw_str text);
void cli_fact_time(cli_out *out, const char *label, int64_t time_us);

/* What a revision changed, a fact a line; before NULL: all that it says. */
void cli_changes(cli_out *out, const howdah_event *before, const howdah_event *after);

/* ---- the revisions of one family in a terminal */

typedef struct cli_history {
    cli_out *out;
    bool backward;
    bool open;          /* the heading is printed */
    howdah_event *held; /* the one before, or, backward, the one after; NULL: none */
} cli_history;

/* Revisions come in order, or, backward, in the reverse order. */
int cli_history_put(cli_history *history, const howdah_event *event, howdah_error *reterr);
/* Prints the one that is held, and frees it. */
void cli_history_end(cli_history *history);

#endif
