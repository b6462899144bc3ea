/* metrics_text.c - see metrics_text.h. */
#include "face/metrics_text.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include <howdah/howdah.h>

const char *face_metrics_content_type(face_metrics_form form)
{
    return form == FACE_METRICS_OPENMETRICS
               ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
               : "text/plain; version=0.0.4; charset=utf-8";
}

/* OpenMetrics names a family without what its type adds to each line. */
static size_t family_length(face_metrics_form form, const face_metric *metric)
{
    static const char *const endings[] = {
        [FACE_GAUGE] = "", [FACE_COUNTER] = "_total", [FACE_INFO] = "_info", [FACE_HISTOGRAM] = ""};
    size_t name = strlen(metric->name);
    size_t ending = strlen(endings[metric->type]);

    assert(name > ending && strcmp(metric->name + name - ending, endings[metric->type]) == 0);
    return form == FACE_METRICS_OPENMETRICS ? name - ending : name;
}

static const char *type_name(face_metrics_form form, face_metric_type type)
{
    static const char *const names[] = {[FACE_GAUGE] = "gauge",
                                        [FACE_COUNTER] = "counter",
                                        [FACE_INFO] = "info",
                                        [FACE_HISTOGRAM] = "histogram"};

    return type == FACE_INFO && form == FACE_METRICS_PROMETHEUS ? "gauge" : names[type];
}

void face_metric_begin(hw_buf *out, face_metrics_form form, const face_metric *metric)
{
    int n = (int)family_length(form, metric);

    hw_buf_printf(out, "# HELP %.*s %s\n", n, metric->name, metric->help);
    hw_buf_printf(out, "# TYPE %.*s %s\n", n, metric->name, type_name(form, metric->type));
}

/* I2. */
static void put_escaped(hw_buf *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '\n') {
            hw_buf_puts(out, "\\n");
            continue;
        }
        if (*text == '"' || *text == '\\')
            hw_buf_putc(out, '\\');
        hw_buf_putc(out, *text);
    }
}

static void put_label(hw_buf *out, char before, const char *name, const char *value)
{
    hw_buf_putc(out, before);
    hw_buf_printf(out, "%s=\"", name);
    put_escaped(out, value);
    hw_buf_putc(out, '"');
}

/* Digits only: a locale may have another decimal point. */
static void put_value(hw_buf *out, int64_t value, int decimals)
{
    uint64_t magnitude = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    uint64_t unit = 1;

    assert(decimals >= 0 && decimals <= 9);
    for (int i = 0; i < decimals; i++)
        unit *= 10;
    hw_buf_printf(out, "%s%" PRIu64, value < 0 ? "-" : "", magnitude / unit);
    if (decimals > 0)
        hw_buf_printf(out, ".%0*" PRIu64, decimals, magnitude % unit);
}

void face_metric_put(hw_buf *out, const face_metric *metric, const face_label *labels,
                     int64_t value, int decimals)
{
    char before = '{';

    hw_buf_puts(out, metric->name);
    for (; labels && labels->name; labels++, before = ',')
        put_label(out, before, labels->name, labels->value);
    hw_buf_puts(out, before == ',' ? "} " : " ");
    put_value(out, value, decimals);
    hw_buf_putc(out, '\n');
}

void face_metric_alone(hw_buf *out, face_metrics_form form, const face_metric *metric,
                       int64_t value, int decimals)
{
    face_metric_begin(out, form, metric);
    if (value != HOWDAH_ABSENT)
        face_metric_put(out, metric, NULL, value, decimals);
}

static void put_bucket(hw_buf *out, const face_metric *metric, face_label label, const char *bound,
                       int64_t count)
{
    hw_buf_printf(out, "%s_bucket", metric->name);
    put_label(out, '{', label.name, label.value);
    hw_buf_printf(out, ",le=\"%s\"} %" PRId64 "\n", bound, count);
}

/* "0.0025" and not "0.002500": the same text wherever the bound stands; "1.0", as both forms
   write a whole number. */
static void bound_text(int64_t bound_us, hw_buf *out)
{
    hw_buf_clear(out);
    put_value(out, bound_us, 6);
    while (out->len > 2 && out->data[out->len - 1] == '0' && out->data[out->len - 2] != '.')
        out->data[--out->len] = '\0';
}

void face_metric_histogram(hw_buf *out, const face_metric *metric, face_label label,
                           const int64_t *bounds_us, size_t bounds_n, const int64_t *counts,
                           int64_t sum_us)
{
    hw_buf bound = HW_BUF_INIT(64);
    int64_t n = 0;

    for (size_t i = 0; i < bounds_n; i++) {
        n += counts[i];
        bound_text(bounds_us[i], &bound);
        put_bucket(out, metric, label, hw_buf_str(&bound), n);
    }
    n += counts[bounds_n];
    put_bucket(out, metric, label, "+Inf", n);
    hw_buf_printf(out, "%s_sum", metric->name);
    put_label(out, '{', label.name, label.value);
    hw_buf_puts(out, "} ");
    put_value(out, sum_us, 6);
    hw_buf_printf(out, "\n%s_count", metric->name);
    put_label(out, '{', label.name, label.value);
    hw_buf_printf(out, "} %" PRId64 "\n", n);
    hw_buf_done(&bound);
}

void face_metrics_end(hw_buf *out, face_metrics_form form)
{
    if (form == FACE_METRICS_OPENMETRICS)
        hw_buf_puts(out, "# EOF\n");
}
