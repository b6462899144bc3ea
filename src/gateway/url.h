/*
 * url.h - a URL as a request's variables and arguments.
 *
 * It is decoded here, not by libmicrohttpd: "/v1/streams/a%2Fb" is the stream "a/b", and a path
 * that was decoded before it was cut could not be told from two segments.
 *
 *   I1  A text is decoded once.  What is decoded is UTF-8, and has no NUL.
 *   I2  What does not fit the route is refused: a name that it does not list, or one given twice.
 */
#ifndef HW_GATEWAY_URL_H
#define HW_GATEWAY_URL_H

#include <howdah/howdah.h>

#include "base/str.h"
#include "gateway/request.h"

/* Fills texts, vars and args of a request whose route is known.  Errors: INVALID. */
int gw_url_decode(gw_request *r, hw_str query, const hw_str vars[GW_VARS_MAX],
                  howdah_error *reterr);
/* Whether the list, of words with single spaces between them, has this one. */
bool gw_word_is_listed(const char *list, const char *word);

#endif
