/*
 * problem.c - see problem.h.
 *
 * One row for each status of the library: what HTTP calls it.  The name of the library's status is
 * the code, so that a client of any face branches on the same word.
 */
#include "gateway/problem.h"

#include <inttypes.h>
#include <string.h>

#include "base/json_write.h"

typedef struct row {
    int status; /* of the library */
    int http;
} row;

static const row rows[] = {
    {HOWDAH_FAILED, 500},      {HOWDAH_NO_MEMORY, 503},   {HOWDAH_MISUSE, 400},
    {HOWDAH_CONFLICT, 409},    {HOWDAH_ID_REUSED, 409},   {HOWDAH_NOT_FOUND, 404},
    {HOWDAH_UNAVAILABLE, 503}, {HOWDAH_TIMEOUT, 503},     {HOWDAH_DENIED, 502},
    {HOWDAH_READ_ONLY, 503},   {HOWDAH_FULL, 507},        {HOWDAH_CORRUPT, 500},
    {HOWDAH_INVALID, 400},     {HOWDAH_LIMIT, 413},       {HOWDAH_LOST, 409},
    {HOWDAH_SCHEMA, 503},      {HOWDAH_INTERRUPTED, 503},
};

/* A conflict with a version or revision that the client named is a failed precondition. */
int gw_problem_status(const howdah_error *err)
{
    if (err->flags & HOWDAH_OUTCOME_UNKNOWN)
        return 504;
    if (err->status == HOWDAH_CONFLICT &&
        (err->actual_version != HOWDAH_ABSENT || err->actual_revision != HOWDAH_ABSENT))
        return 412;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].status == err->status)
            return rows[i].http;
    return 500;
}

int gw_problem_retry_after(const howdah_error *err)
{
    int http = gw_problem_status(err);

    return http == 503 || http == 504 || (err->flags & HOWDAH_RETRYABLE) ? 1 : 0;
}

const char *gw_status_text(int http_status)
{
    static const struct {
        int status;
        const char *text;
    } texts[] = {
        {200, "OK"},
        {201, "Created"},
        {204, "No Content"},
        {304, "Not Modified"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {406, "Not Acceptable"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {411, "Length Required"},
        {412, "Precondition Failed"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {415, "Unsupported Media Type"},
        {421, "Misdirected Request"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {502, "Bad Gateway"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {507, "Insufficient Storage"},
    };

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i].status == http_status)
            return texts[i].text;
    return "Error";
}

/* "urn:howdah:problem:not-found" of NOT_FOUND. */
static void put_type(hw_buf *out, const char *code)
{
    hw_buf_puts(out, "{\"type\":\"urn:howdah:problem:");
    for (; *code; code++)
        hw_buf_putc(out, *code == '_' ? '-' : (char)(*code | 0x20));
    hw_buf_putc(out, '"');
}

void gw_problem_put(hw_buf *out, const howdah_error *err, int http_status, const char *request_id)
{
    const char *code = howdah_status_name(err->status);

    put_type(out, code);
    hw_json_write_text(out, "title", hw_str_of(gw_status_text(http_status)));
    hw_json_write_number(out, "status", http_status);
    hw_json_write_text(out, "detail", hw_str_of(err->message));
    hw_json_write_text(out, "code", hw_str_of(code));
    if (err->field[0])
        hw_json_write_text(out, "field", hw_str_of(err->field));
    if (err->advice[0])
        hw_json_write_text(out, "advice", hw_str_of(err->advice));
    if (err->status == HOWDAH_CONFLICT && err->actual_version != HOWDAH_ABSENT)
        hw_json_write_number(out, "actual_version", err->actual_version);
    if (err->status == HOWDAH_CONFLICT && err->actual_revision != HOWDAH_ABSENT)
        hw_json_write_number(out, "actual_revision", err->actual_revision);
    if (err->event_index != HOWDAH_ABSENT)
        hw_json_write_number(out, "event_index", err->event_index);
    hw_buf_printf(out, ",\"retryable\":%s,\"outcome_unknown\":%s",
                  err->flags & HOWDAH_RETRYABLE ? "true" : "false",
                  err->flags & HOWDAH_OUTCOME_UNKNOWN ? "true" : "false");
    hw_json_write_text(out, "request_id", hw_str_of(request_id));
    hw_buf_puts(out, "}\n");
}
