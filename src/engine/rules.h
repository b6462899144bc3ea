/*
 * rules.h - the one verdict on names, documents and numbers.
 *
 * Every face (C, command, and by sql/pg/functions/event_problem.sql the SQL functions) and every
 * store comes to the verdict that is written here.  A refusal names the field, the rule and the
 * value's length, never the value: it may be a secret, or a megabyte.
 */
#ifndef HW_ENGINE_RULES_H
#define HW_ENGINE_RULES_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "engine/event.h"

#define HW_NAME_MAX 255
#define HW_TYPE_SEGMENTS_MAX 32
#define HW_REASON_MAX 1000
#define HW_HEADERS_MAX (64 * 1024)
#define HW_PAYLOAD_DEFAULT (1024 * 1024)
#define HW_PAYLOAD_HARD_MAX (64 * 1024 * 1024)
#define HW_SCHEMA_NAME_MAX 48
#define HW_BODY_QUOTE "$howdah$" /* around the bodies of SQL functions, which name the schema */
#define HW_DELAY_MAX_MS (INT64_C(10) * 366 * 24 * 3600 * 1000)
#define HW_OUTCOME_TEXT_MAX (64 * 1024) /* a job's result, or its error */

int hw_rule_stream(hw_str stream, howdah_error *reterr);
int hw_rule_type(hw_str type, howdah_error *reterr);
/* Segments of a type or "*"; the last may be ">". */
int hw_rule_pattern(hw_str pattern, howdah_error *reterr);
/* Correlation id, actor: 1..255 bytes, UTF-8, no control characters.  field names it. */
int hw_rule_name(const char *field, hw_str name, howdah_error *reterr);
int hw_rule_reason(hw_str reason, howdah_error *reterr);
/* 3..255 printable ASCII bytes with a '/' inside. */
int hw_rule_content_type(hw_str content_type, howdah_error *reterr);
/* An object of strings, names 1..255 bytes without control characters, whole text <=
 * HW_HEADERS_MAX. */
int hw_rule_headers(hw_str headers, howdah_error *reterr);
int hw_rule_json(hw_str data, size_t bytes_max, howdah_error *reterr);
int hw_rule_bytes(size_t len, size_t bytes_max, howdah_error *reterr);
int hw_rule_valid_time(int64_t valid_time_us, howdah_error *reterr);
int hw_rule_schema_version(int64_t schema_version, howdah_error *reterr);
/* -2, -1, 0, or a version. */
int hw_rule_expected(int64_t expected_version, howdah_error *reterr);
/* A PostgreSQL schema name: 1..48 bytes, UTF-8, no control characters, not pg_... */
int hw_rule_schema_name(hw_str name, howdah_error *reterr);

/* Options that are numbers: the first one that is not min to max, in their unit. */
typedef struct hw_number_rule {
    const char *field;
    int64_t value;
    int64_t min;
    int64_t max;
    const char *unit; /* " ms", "" */
} hw_number_rule;

int hw_rule_numbers(const hw_number_rule *rules, size_t n, howdah_error *reterr);

/* data as JSON, or, with a content type, as bytes. */
int hw_rule_payload(hw_str data, hw_str content_type, size_t bytes_max, howdah_error *reterr);

/* ---- of jobs */

int hw_rule_queue(hw_str queue, howdah_error *reterr);
/* -32768 to 32767. */
int hw_rule_priority(int64_t priority, howdah_error *reterr);
/* 0 (the queue's) to 32767. */
int hw_rule_max_attempts(int64_t max_attempts, howdah_error *reterr);
/* Ten years at most.  field names it: a delay, a time until the next try. */
int hw_rule_delay(const char *field, int64_t delay_ms, howdah_error *reterr);
int hw_rule_run_at(int64_t run_at_us, howdah_error *reterr);

/* All of the above for one event. */
int hw_rule_event(const howdah_event *event, size_t payload_bytes_max, howdah_error *reterr);

#endif
