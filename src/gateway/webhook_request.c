/* webhook_request.c - see webhook_request.h. */
#include "gateway/webhook_request.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "gateway/trace_context.h"
#include "gateway/webhook_rules.h"

/* The endpoint's own headers were judged when they were set; what no line can have is left out. */
static int add_own(gw_post *post, hw_str headers, howdah_error *reterr)
{
    hw_str name;
    hw_str value;
    size_t pos = 0;
    int s = HOWDAH_OK;

    while (s >= 0 && headers.s && hw_json_member(headers.s, headers.len, &pos, &name, &value)) {
        hw_buf texts = HW_BUF_INIT(headers.len * 2 + 2);
        size_t at;

        if (hw_json_kind(value.s, value.len) != 's')
            continue;
        hw_json_unescape(name.s, name.len, &texts);
        hw_buf_putc(&texts, '\0');
        at = texts.len;
        hw_json_unescape(value.s + 1, value.len - 2, &texts);
        s = hw_buf_check(&texts, reterr);
        if (s >= 0)
            s = gw_post_header(post, hw_buf_str(&texts), hw_buf_str(&texts) + at, reterr);
        hw_buf_done(&texts);
    }
    return s;
}

static int add_trace(gw_post *post, hw_str event_headers, howdah_error *reterr)
{
    gw_trace trace;
    int s;

    if (!gw_trace_of(event_headers, &trace))
        return HOWDAH_OK;
    s = gw_post_header(post, "traceparent", trace.parent, reterr);
    if (s >= 0 && trace.state[0])
        s = gw_post_header(post, "tracestate", trace.state, reterr);
    return s;
}

int gw_webhook_prepare(gw_post *post, const gw_webhook_request *request, howdah_error *reterr)
{
    int64_t now_s = hw_clock_wall_us() / 1000000;
    hw_str body = {hw_buf_str(&post->body), post->body.len};
    char signature[GW_SIGNATURE_SIZE];
    char time[24];
    int s = gw_webhook_sign(request->secret, request->id, now_s, body, signature, reterr);

    (void)snprintf(time, sizeof time, "%" PRId64, now_s);
    if (s >= 0)
        s = gw_post_header(post, "Content-Type", "application/json", reterr);
    if (s >= 0)
        s = gw_post_header(post, "webhook-id", request->id, reterr);
    if (s >= 0)
        s = gw_post_header(post, "webhook-timestamp", time, reterr);
    if (s >= 0)
        s = gw_post_header(post, "webhook-signature", signature, reterr);
    if (s >= 0)
        s = add_trace(post, request->event_headers, reterr);
    return s < 0 ? s : add_own(post, hw_str_of(request->headers), reterr);
}
