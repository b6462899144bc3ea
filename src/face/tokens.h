/* tokens.h - tokens of gateways, as JSON, a row or fields: never their secrets. */
#ifndef HW_FACE_TOKENS_H
#define HW_FACE_TOKENS_H

#include <howdah/howdah.h>

#include "face/fields.h"

/* Of a howdah_token_info. */
extern const face_entity face_token;

/* The words of rights, in the order of their bits. */
#define FACE_RIGHTS "read publish subscribe work admin"
/* "read,publish" to a sum of HOWDAH_MAY_...  Errors: INVALID. */
int face_rights_parse(const char *text, int64_t *ret_may, howdah_error *reterr);

#endif
