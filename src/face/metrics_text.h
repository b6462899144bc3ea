/*
 * metrics_text.h - numbers as monitors read them: OpenMetrics, and the older text of Prometheus.
 *
 *   I1  A family is begun once, and all of its lines follow: both forms want that.
 *   I2  A label's value is escaped, whatever it holds.  How many values there can be is for who
 *       writes them to bound.
 */
#ifndef HW_FACE_METRICS_TEXT_H
#define HW_FACE_METRICS_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

typedef enum face_metrics_form {
    FACE_METRICS_PROMETHEUS = 0,
    FACE_METRICS_OPENMETRICS = 1
} face_metrics_form;

typedef enum face_metric_type {
    FACE_GAUGE,
    FACE_COUNTER, /* its name ends in _total */
    FACE_INFO,    /* its name ends in _info, its value is 1, what it says is in its labels */
    FACE_HISTOGRAM
} face_metric_type;

typedef struct face_metric {
    const char *name;
    face_metric_type type;
    const char *help; /* one line, no backslash */
} face_metric;

/* A name and its value, as a list that ends with a NULL name. */
typedef struct face_label {
    const char *name;
    const char *value;
} face_label;

const char *face_metrics_content_type(face_metrics_form form);

/* HELP and TYPE. */
void face_metric_begin(hw_buf *out, face_metrics_form form, const face_metric *metric);
/* One line; the value is value / 10^decimals (0 to 9).  labels may be NULL. */
void face_metric_put(hw_buf *out, const face_metric *metric, const face_label *labels,
                     int64_t value, int decimals);
/* A family of one line without labels; HOWDAH_ABSENT: without that line. */
void face_metric_alone(hw_buf *out, face_metrics_form form, const face_metric *metric,
                       int64_t value, int decimals);
/*
 * A histogram of seconds for one label: counts has one entry for each bound, and one for what is
 * above the last.
 */
void face_metric_histogram(hw_buf *out, const face_metric *metric, face_label label,
                           const int64_t *bounds_us, size_t bounds_n, const int64_t *counts,
                           int64_t sum_us);
/* What comes after the last family. */
void face_metrics_end(hw_buf *out, face_metrics_form form);

#endif
