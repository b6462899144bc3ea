/* process.h - what the process takes of its machine, under the names that all programs use. */
#ifndef HW_GATEWAY_PROCESS_H
#define HW_GATEWAY_PROCESS_H

#include <stdint.h>

#include "base/buf.h"
#include "face/metrics_text.h"

/* What the system does not tell has no line. */
void gw_process_print(hw_buf *out, face_metrics_form form, int64_t started_us);

#endif
