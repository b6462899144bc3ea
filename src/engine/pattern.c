/*
 * pattern.c - which event types a pattern means.
 *
 * Both texts are walked once, segment by segment: no backtracking, because "*" takes exactly one
 * segment and ">" can only be the last.
 */
#include "engine/pattern.h"

static bool is_wild(hw_str segment, char wild)
{
    return segment.len == 1 && segment.s[0] == wild;
}

/* Cuts the first segment off; false when there is none left (rest->s == NULL). */
static bool next_segment(hw_str *rest, hw_str *ret_segment)
{
    const char *dot;

    if (!rest->s)
        return false;
    dot = memchr(rest->s, '.', rest->len);
    if (!dot) {
        *ret_segment = *rest;
        *rest = HW_STR_NULL;
        return true;
    }
    *ret_segment = (hw_str){rest->s, (size_t)(dot - rest->s)};
    *rest = (hw_str){dot + 1, rest->len - ret_segment->len - 1};
    return true;
}

/*
 * rest.s is NULL only after the last segment, so "order." with an empty last segment is not
 * "order".
 */
bool hw_pattern_matches(hw_str pattern, hw_str type)
{
    hw_str wanted;
    hw_str segment;

    if (!pattern.s)
        return true;
    while (next_segment(&pattern, &wanted)) {
        if (!next_segment(&type, &segment))
            return false;
        if (!pattern.s && is_wild(wanted, '>'))
            return true;
        if (!is_wild(wanted, '*') && !hw_str_equal(wanted, segment))
            return false;
    }
    return !type.s;
}

/* Its prefix is all of it: there is no wildcard. */
bool hw_pattern_is_exact(hw_str pattern)
{
    return pattern.s && hw_pattern_prefix(pattern).len == pattern.len;
}

void hw_pattern_to_type(hw_str *type, hw_str *pattern)
{
    if (type->s || !hw_pattern_is_exact(*pattern))
        return;
    *type = *pattern;
    *pattern = HW_STR_NULL;
}

/*
 * Of the characters that mean something in a regular expression types hold only the dot.  It is
 * written as [.], which needs no backslash and so survives every kind of quoting.
 */
void hw_pattern_regex(hw_str pattern, hw_buf *out)
{
    hw_str segment;
    bool first = true;

    if (!pattern.s) {
        hw_buf_puts(out, "^.+$");
        return;
    }
    hw_buf_putc(out, '^');
    while (next_segment(&pattern, &segment)) {
        if (!first)
            hw_buf_puts(out, "[.]");
        if (is_wild(segment, '*'))
            hw_buf_puts(out, "[^.]+");
        else if (is_wild(segment, '>'))
            hw_buf_puts(out, ".+");
        else
            hw_buf_put(out, segment.s, segment.len);
        first = false;
    }
    hw_buf_putc(out, '$');
}

/* Cut at a whole segment, so that an index on types can be searched from the prefix on. */
hw_str hw_pattern_prefix(hw_str pattern)
{
    hw_str rest = pattern;
    hw_str segment;

    while (next_segment(&rest, &segment)) {
        if (is_wild(segment, '*') || is_wild(segment, '>'))
            return (hw_str){pattern.s, (size_t)(segment.s - pattern.s)};
    }
    return pattern;
}
