/*
 * show.c - see show.h.
 *
 * Labels take sixteen columns, which fits the longest of them.
 */
#include "cli/out/show.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include <howdah/howdah.h>

#include "base/buf.h"
#include "cli/out/table.h"

#define TEXT_BYTES_MAX ((size_t)512 * 1024 * 1024) /* above any payload */

/* In full, however long: a person asked for this one thing. */
void cli_show_text(cli_out *out, const char *name, hw_str text)
{
    hw_buf clean = HW_BUF_INIT(TEXT_BYTES_MAX);

    assert(name && name[0]);
    if (!text.s || text.len == 0)
        return;
    cli_text_clean(&clean, text, text.len, out->utf8);
    cli_out_style(out, CLI_BOLD);
    cli_out_printf(out, "%-16s", name);
    cli_out_style(out, CLI_PLAIN);
    cli_out_put(out, hw_buf_str(&clean), clean.len);
    cli_out_puts(out, "\n");
    hw_buf_done(&clean);
}

void cli_show_number(cli_out *out, const char *name, int64_t number)
{
    char text[24];

    (void)snprintf(text, sizeof text, "%" PRId64, number);
    cli_show_text(out, name, hw_str_of(text));
}

void cli_show_time(cli_out *out, const char *name, int64_t time_us)
{
    char text[HOWDAH_TIME_SIZE];

    howdah_time_format(time_us, text);
    cli_show_text(out, name, hw_str_of(text));
}
