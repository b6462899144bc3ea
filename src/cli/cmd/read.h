/*
 * read.h - what "howdah read" is asked for, as one struct.
 *
 * Positions and single events are read from the log as it stands.  Every other option makes it a
 * query about the two times, which has no positions.
 */
#ifndef HW_CLI_CMD_READ_H
#define HW_CLI_CMD_READ_H

#include "cli/cli.h"
#include "cli/out/times.h"

typedef enum cli_read_form {
    CLI_READ_EVENTS,
    CLI_READ_ONE, /* --id, --last */
    CLI_READ_COUNT,
    CLI_READ_TYPES,
    CLI_READ_STREAMS
} cli_read_form;

typedef struct cli_read {
    cli_read_form form;
    bool is_query;              /* about the two times */
    howdah_query_options query; /* what to choose; when it is not: only what a read has, too */
    int64_t from;               /* positions, 0: open; only when it is no query */
    int64_t to;
    const char *id;    /* of one event; NULL: the last of the stream */
    bool nothing;      /* a range or a limit that leaves no event */
    cli_pairs headers; /* of the query */
} cli_read;

/* Errors: MISUSE, INVALID, LIMIT.  cli_read_done() is due in any case. */
int cli_read_parse(const cli_args *args, cli_read *ret_read, howdah_error *reterr);
void cli_read_done(cli_read *read);

#endif
