/* show.h - one thing alone in a terminal: a line a field, values aligned. */
#ifndef HW_CLI_OUT_SHOW_H
#define HW_CLI_OUT_SHOW_H

#include <stdint.h>

#include "base/str.h"
#include "cli/out/out.h"

/* Nothing for a field without a text.  The text is made harmless. */
void cli_show_text(cli_out *out, const char *name, hw_str text);
void cli_show_number(cli_out *out, const char *name, int64_t number);
/* Microseconds since 1970. */
void cli_show_time(cli_out *out, const char *name, int64_t time_us);

#endif
