/* payload.h - the payload of an event or a job: a word, "-" for stdin, "@FILE" for a file. */
#ifndef HW_CLI_IN_PAYLOAD_H
#define HW_CLI_IN_PAYLOAD_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"

/* room with enough space for a payload of limit bytes; hw_buf_done() frees it. */
void cli_payload_init(hw_buf *room, size_t limit);
/*
 * The payload that word means; what was read lies in room.  Unless it is bytes, the line end that
 * an editor or echo adds to the document is not part of it.  Errors: LIMIT, told before it is
 * read whole, INVALID (the file), INTERRUPTED.
 */
int cli_payload_read(const char *word, bool bytes, size_t limit, hw_buf *room, hw_str *ret_data,
                     howdah_error *reterr);

#endif
