/* findings.c - see findings.h. */
#include "cli/out/findings.h"

#include "cli/out/fields.h"
#include "face/findings.h"

#define CHECK_WIDTH 12
#define INDENT (2 + 1 + CHECK_WIDTH + 1) /* of the text after mark and check */

/* Neither a table nor "show": sentences, broken between words under a mark in the margin. */
static void finding_text(cli_context *cli, const howdah_finding *finding)
{
    static const char *const marks[2][3] = {{"ok", "! ", "X "},
                                            {"\xe2\x9c\x93 ", "! ", "\xe2\x9c\x97 "}};
    static const cli_style styles[] = {CLI_GREEN, CLI_YELLOW, CLI_RED};
    cli_out *out = &cli->out;

    cli_out_style(out, styles[finding->severity]);
    cli_out_puts(out, marks[out->utf8][finding->severity]);
    cli_out_style(out, CLI_PLAIN);
    cli_out_printf(out, " %-*s ", CHECK_WIDTH, finding->check);
    cli_out_wrapped(out, finding->message, INDENT, out->width);
    if (finding->advice && finding->advice[0]) {
        cli_out_printf(out, "%*s%s ", INDENT, "", out->utf8 ? "\xe2\x86\x92 " : "->");
        cli_out_wrapped(out, finding->advice, INDENT + 3, out->width);
    }
}

int cli_on_finding(void *ctx, const howdah_finding *finding)
{
    cli_findings *v = ctx;

    v->bad += finding->severity == HOWDAH_BAD;
    v->warnings += finding->severity == HOWDAH_WARNING;
    if (v->cli->out.json)
        cli_entity_put(&v->cli->out, &face_finding, finding);
    else
        finding_text(v->cli, finding);
    cli_out_flush(&v->cli->out); /* a check can take seconds: show each as it is known */
    return 0;
}

/* Warnings do not change the exit code: what works is not broken. */
int cli_findings_end(const cli_findings *findings)
{
    if (!findings->cli->out.json)
        cli_out_printf(&findings->cli->out, "\n%d broken, %d to look at\n", findings->bad,
                       findings->warnings);
    return findings->bad > 0 ? 1 : 0;
}
