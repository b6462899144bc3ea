/* push.h - what the forms of "howdah push" share. */
#ifndef HW_CLI_CMD_PUSH_H
#define HW_CLI_CMD_PUSH_H

#include "cli/cli.h"

/* {"id":12,"queue":"mail"} and a line end. */
void cli_pushed_json(cli_context *cli, const char *queue, const howdah_pushed *pushed);

/* howdah push QUEUE --batch: a status. */
int cli_push_batch(cli_context *cli, const char *queue, const howdah_new_job *defaults,
                   howdah_error *reterr);

#endif
