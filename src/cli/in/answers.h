/*
 * answers.h - what a long-lived command writes: {"ack":N}, or {"nack":N,"error":"..."}, a line
 * each.
 */
#ifndef HW_CLI_IN_ANSWERS_H
#define HW_CLI_IN_ANSWERS_H

#include "cli/in/coprocess.h"

typedef struct cli_said {
    int64_t ack; /* 0: none */
    int64_t nack;
    bool final;        /* of a nack: not to be tried again */
    char error[501];   /* of a nack, "" without one */
    hw_str raw_result; /* of an ack: JSON, in the line; absent: none */
} cli_said;

/* It says nothing, and is passed over. */
bool cli_line_is_empty(hw_str line);
/* INVALID, with what a line has to look like. */
int cli_said_parse(hw_str line, cli_said *ret_said, howdah_error *reterr);

#endif
