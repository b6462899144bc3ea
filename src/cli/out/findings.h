/* findings.h - what doctor and verify found, for people or for programs. */
#ifndef HW_CLI_OUT_FINDINGS_H
#define HW_CLI_OUT_FINDINGS_H

#include "cli/cli.h"

typedef struct cli_findings {
    cli_context *cli;
    int bad;
    int warnings;
} cli_findings;

/* ctx is a cli_findings. */
int cli_on_finding(void *ctx, const howdah_finding *finding);
/* The sum, in a terminal; the exit code. */
int cli_findings_end(const cli_findings *findings);

#endif
