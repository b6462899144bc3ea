/* problem.h - errors as clients see them: RFC 9457, with the classes and codes of the library. */
#ifndef HW_GATEWAY_PROBLEM_H
#define HW_GATEWAY_PROBLEM_H

#include <howdah/howdah.h>

#include "base/buf.h"

/* The status of HTTP for an error of the library. */
int gw_problem_status(const howdah_error *err);
/* Seconds after which it makes sense to come again; 0: it does not by itself. */
int gw_problem_retry_after(const howdah_error *err);
/* One JSON object. */
void gw_problem_put(hw_buf *out, const howdah_error *err, int http_status, const char *request_id);
/* "Conflict", "Not Found" ...: what a status of HTTP is called. */
const char *gw_status_text(int http_status);

#endif
