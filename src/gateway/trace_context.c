/* trace_context.c - see trace_context.h; the grammar is https://www.w3.org/TR/trace-context/. */
#include "gateway/trace_context.h"

#include <assert.h>
#include <string.h>

#include "base/json.h"

#define MEMBERS_MAX 32
#define HEADERS_MAX ((size_t)64 * 1024) /* of an event, or a job */

/* Lower-case hex digits, not all of them 0. */
static bool is_id(const char *text, size_t n)
{
    bool some = false;

    for (size_t i = 0; i < n; i++) {
        if (!((text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f')))
            return false;
        some = some || text[i] != '0';
    }
    return some;
}

static bool is_hex(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!((text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f')))
            return false;
    return true;
}

/* 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01 */
static bool is_parent(const char *text)
{
    return strlen(text) == GW_TRACE_PARENT_TEXT && memcmp(text, "00-", 3) == 0 &&
           is_id(text + 3, 32) && text[35] == '-' && is_id(text + 36, 16) && text[52] == '-' &&
           is_hex(text + 53, 2);
}

/* One of its members: key=value. */
static bool is_member(const char *text, size_t n)
{
    const char *equals = memchr(text, '=', n);
    size_t key = equals ? (size_t)(equals - text) : 0;

    if (key == 0 || key > 241 || n - key - 1 == 0 || n - key - 1 > 256)
        return false;
    for (size_t i = 0; i < key; i++)
        if (!((text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'z') ||
              (i > 0 && strchr("_-*/@", text[i]))))
            return false;
    for (size_t i = key + 1; i < n; i++)
        if (text[i] < 0x20 || text[i] > 0x7e || text[i] == '=')
            return false;
    return true;
}

/* A list with commas; empty members and spaces around them are allowed. */
static bool is_state(const char *text)
{
    size_t n = 0;

    if (strlen(text) > GW_TRACE_STATE_MAX)
        return false;
    for (;;) {
        size_t len = strcspn(text, ",");
        const char *begin = text;
        size_t rest = len;

        while (rest > 0 && (*begin == ' ' || *begin == '\t')) {
            begin++;
            rest--;
        }
        while (rest > 0 && (begin[rest - 1] == ' ' || begin[rest - 1] == '\t'))
            rest--;
        if (rest > 0 && (++n > MEMBERS_MAX || !is_member(begin, rest)))
            return false;
        if (text[len] == '\0')
            return n > 0;
        text += len + 1;
    }
}

bool gw_trace_take(gw_trace *trace, const char *traceparent, const char *tracestate)
{
    *trace = (gw_trace){.parent = ""};
    if (!traceparent || !is_parent(traceparent))
        return false;
    memcpy(trace->parent, traceparent, GW_TRACE_PARENT_TEXT + 1);
    if (tracestate && is_state(tracestate))
        memcpy(trace->state, tracestate, strlen(tracestate) + 1);
    return true;
}

void gw_trace_id(const gw_trace *trace, char ret_id[GW_TRACE_ID_TEXT + 1])
{
    assert(trace->parent[0]);
    memcpy(ret_id, trace->parent + 3, GW_TRACE_ID_TEXT);
    ret_id[GW_TRACE_ID_TEXT] = '\0';
}

/* The raw value of a member; absent without one. */
static hw_str find(hw_str headers, const char *name)
{
    hw_str key;
    hw_str value;
    size_t pos = 0;

    while (hw_json_member(headers.s, headers.len, &pos, &key, &value))
        if (hw_json_key_is(key, name))
            return value;
    return HW_STR_NULL;
}

bool gw_trace_wanted(const gw_trace *trace, hw_str headers)
{
    if (!trace->parent[0] || headers.len > HEADERS_MAX - GW_TRACE_BYTES_MAX)
        return false;
    return !headers.s || !find(headers, "traceparent").s;
}

/* The text of a member of a trace; "" for what cannot be one. */
static void member_text(hw_str headers, const char *name, char *out, size_t room)
{
    hw_buf text = HW_BUF_INIT(room);
    hw_str value = find(headers, name);

    out[0] = '\0';
    if (value.s && hw_json_kind(value.s, value.len) == 's')
        hw_json_unescape(value.s + 1, value.len - 2, &text);
    if (text.broken == HOWDAH_OK && text.len < room)
        memcpy(out, hw_buf_str(&text), text.len + 1);
    hw_buf_done(&text);
}

bool gw_trace_of(hw_str headers, gw_trace *trace)
{
    char parent[GW_TRACE_PARENT_TEXT + 2] = "";
    char state[GW_TRACE_STATE_MAX + 2] = "";

    *trace = (gw_trace){.parent = ""};
    if (!headers.s)
        return false;
    member_text(headers, "traceparent", parent, sizeof parent);
    member_text(headers, "tracestate", state, sizeof state);
    return gw_trace_take(trace, parent, state);
}

void gw_trace_add(hw_buf *headers, const gw_trace *trace)
{
    hw_str key;
    hw_str value;
    size_t pos = 0;
    bool empty;

    assert(trace->parent[0]);
    if (headers->len == 0)
        hw_buf_puts(headers, "{}");
    if (headers->broken || hw_json_kind(headers->data, headers->len) != 'o')
        return; /* no object: whoever takes the headers refuses them */
    empty = !hw_json_member(headers->data, headers->len, &pos, &key, &value);
    while (headers->data[headers->len - 1] != '}') /* white space behind it */
        headers->len--;
    headers->len--;
    hw_buf_printf(headers, "%s\"traceparent\":\"%s\"", empty ? "" : ",", trace->parent);
    if (trace->state[0]) {
        hw_buf_puts(headers, ",\"tracestate\":");
        hw_json_put_string(headers, trace->state, strlen(trace->state));
    }
    hw_buf_putc(headers, '}');
}
