/*
 * pattern.h - which event types a pattern means.
 *
 * Types and patterns are segments joined by dots.  "*" stands for exactly one whole segment,
 * wherever it is; a trailing ">" for one or more further segments; anything else for itself,
 * case-sensitively.  "order.*" matches order.created, not order, orders.created, order.a.b.
 */
#ifndef HW_ENGINE_PATTERN_H
#define HW_ENGINE_PATTERN_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/str.h"

/* Both have passed their rule.  An absent pattern matches every type. */
bool hw_pattern_matches(hw_str pattern, hw_str type);

/* True when the pattern can match one type only. */
bool hw_pattern_is_exact(hw_str pattern);

/*
 * A pattern without a wildcard is a type, and types have an index: where only such a pattern is
 * asked for it becomes the type.  Whoever makes a query calls this; stores count on it.
 */
void hw_pattern_to_type(hw_str *type, hw_str *pattern);

/* The pattern as a POSIX regular expression, anchored, for the store to filter with. */
void hw_pattern_regex(hw_str pattern, hw_buf *out);

/* The literal text, dot included, that every matching type starts with: "order." for "order.*". */
hw_str hw_pattern_prefix(hw_str pattern);

#endif
