/*
 * consume.c - members of groups that speak HTTP: fetch, ack, nack, extend.
 *
 *   I1  Who has which events is the store's to know.  A request names its batch by the token, and
 *       any session of ours will do; a client may change gateways between fetch and ack.
 *   I2  A fetch that waits holds no session: it is tried again when an event has come, and now and
 *       then for what nobody tells of (a retry that is due, a lease that has ended).
 */
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/json_write.h"
#include "face/events.h"
#include "face/subscriptions.h"
#include "gateway/fields_in.h"
#include "gateway/hand_out.h"
#include "gateway/handlers.h"
#include "gateway/meters.h"
#include "gateway/parking.h"
#include "gateway/scope.h"
#include "gateway/server.h"

#define DAY_MS (INT64_C(24) * 3600 * 1000)
#define WAIT_MAX_MS INT64_C(60000)
/* The more clients wait, the less often each of them looks without being told to. */
#define LOOK_MS 500
#define LOOK_MS_EACH 5
#define N(fields) (sizeof(fields) / sizeof *(fields))

/* --------------------------------------------------------------------- make */

int gw_subscription_put(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    howdah_member_options o = HOWDAH_MEMBER_OPTIONS_INIT;
    int64_t key = o.key;
    int64_t on_fail = o.on_fail;
    int64_t ordering = o.ordering;
    int64_t gap_policy = o.gap_policy;
    bool created = false;
    const gw_field fields[] = {
        {"pattern", GW_FIELD_TEXT, .text = &o.pattern},
        {"stream", GW_FIELD_TEXT, .text = &o.stream},
        {"originals", GW_FIELD_FLAG, .flag = &o.originals_only},
        {"start", GW_FIELD_PLACE, .number = &o.start},
        {"key", GW_FIELD_CHOICE, .number = &key, .choices = "stream none"},
        {"on_fail", GW_FIELD_CHOICE, .number = &on_fail, .choices = "open closed hold"},
        {"max_retries", GW_FIELD_NUMBER, .number = &o.max_retries, .max = 1000000},
        {"retry_delay", GW_FIELD_DURATION, .number = &o.retry_delay_ms},
        {"max_retry_delay", GW_FIELD_DURATION, .number = &o.max_retry_delay_ms},
        {"ordering", GW_FIELD_CHOICE, .number = &ordering, .choices = "ahead strict"},
        {"gap_policy", GW_FIELD_CHOICE, .number = &gap_policy, .choices = "proof timeout"},
        {"gap_timeout", GW_FIELD_DURATION, .number = &o.gap_timeout_ms},
        {"lanes", GW_FIELD_NUMBER, .number = &o.lanes, .min = 1, .max = 1024},
    };
    int s = gw_fields_take(r, fields, N(fields), reterr);

    o.subscriber_id = r->vars[0];
    o.key = (howdah_order_key)key;
    o.on_fail = (howdah_on_fail)on_fail;
    o.ordering = (howdah_ordering)ordering;
    o.gap_policy = (howdah_gap_policy)gap_policy;
    if (s >= 0)
        s = gw_scope_check_filter(r, NULL, o.pattern, o.stream, reterr);
    if (s >= 0)
        s = howdah_group_create(bus, &o, &created, reterr);
    if (s >= 0)
        s = gw_put_subscription(r, bus, reterr);
    if (s >= 0)
        r->answer.http_status = created ? 201 : 200;
    return s;
}

/* -------------------------------------------------------------------- fetch */

int gw_put_batch(const gw_request *r, hw_buf *out, const howdah_batch *batch, howdah_error *reterr)
{
    int s = HOWDAH_OK;

    if (!batch) {
        hw_buf_puts(out, "{\"token\":null,\"attempt\":null,\"events\":[]}\n");
        return HOWDAH_OK;
    }
    hw_buf_puts(out, "{\"token\":");
    hw_json_put_string(out, howdah_batch_token(batch), strlen(howdah_batch_token(batch)));
    hw_buf_printf(out, ",\"attempt\":%d,\"events\":[", howdah_batch_attempt(batch));
    for (size_t i = 0; s >= 0 && i < howdah_batch_size(batch); i++) {
        hw_buf_puts(out, i > 0 ? "," : "");
        s = face_event_json(howdah_batch_event(batch, i), out, reterr);
    }
    hw_buf_puts(out, "]}\n");
    gw_count(r, GW_METER_BATCHES_FETCHED, s >= 0);
    gw_count(r, GW_METER_EVENTS_FETCHED, s >= 0 ? (int64_t)howdah_batch_size(batch) : 0);
    return s;
}

static int64_t look_ms(const gw_request *r)
{
    return LOOK_MS + LOOK_MS_EACH * (int64_t)gw_waiting_count(r->gateway->waiting);
}

int gw_subscription_fetch(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    const char *member = NULL;
    int64_t most = 100;
    int64_t wait_ms = 0;
    int64_t lease_ms = 30000;
    const gw_field fields[] = {
        {"max", GW_FIELD_NUMBER, .number = &most, .min = 1, .max = HOWDAH_BATCH_MAX},
        {"wait", GW_FIELD_DURATION, .number = &wait_ms},
        {"lease", GW_FIELD_DURATION, .number = &lease_ms},
        {"member", GW_FIELD_TEXT, .text = &member},
    };
    howdah_batch *batch = NULL;
    int s = gw_fields_take(r, fields, N(fields), reterr);

    if (s >= 0 && wait_ms > WAIT_MAX_MS)
        s = hw_fail_field(reterr, HOWDAH_INVALID, "wait", "must be at most 60s");
    if (s >= 0 && gw_client_is_gone(r))
        s = hw_fail(reterr, HOWDAH_INTERRUPTED, "the client has gone");
    if (s >= 0)
        s = howdah_group_fetch(bus, r->vars[0], member ? member : r->id, most, lease_ms, &batch,
                               reterr);
    if (s == HOWDAH_END && gw_parking_wanted(r, wait_ms, look_ms(r)))
        return GW_AGAIN;
    if (s >= 0)
        s = gw_put_batch(r, &r->answer.body, batch, reterr);
    howdah_batch_free(batch);
    gw_answer_json(r, 200);
    return s;
}

/* ------------------------------------------------------ what became of them */

static int done(gw_request *r, int status)
{
    if (status < 0)
        return status;
    hw_buf_puts(&r->answer.body, "{\"ok\":true}\n");
    gw_answer_json(r, 200);
    return HOWDAH_OK;
}

static int need(const char *name, const char *value, howdah_error *reterr)
{
    return value ? HOWDAH_OK : hw_fail_field(reterr, HOWDAH_INVALID, name, "is needed");
}

int gw_subscription_ack(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    const char *token = NULL;
    int64_t upto = 0;
    const gw_field fields[] = {
        {"token", GW_FIELD_TEXT, .text = &token},
        {"upto", GW_FIELD_NUMBER, .number = &upto, .min = 1, .max = INT64_MAX},
    };
    int s = gw_fields_take(r, fields, N(fields), reterr);

    if (s >= 0)
        s = need("token", token, reterr);
    if (s >= 0)
        s = howdah_group_ack(bus, r->vars[0], token, upto, reterr);
    if (s >= 0 && upto == 0)
        gw_hand_out_spoken_for(r->gateway, token);
    gw_count(r, GW_METER_ACKS, s >= 0);
    return done(r, s);
}

int gw_subscription_nack(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    const char *token = NULL;
    const char *error = NULL;
    int64_t sequence = 0;
    int64_t after_ms = -1;
    const gw_field fields[] = {
        {"token", GW_FIELD_TEXT, .text = &token},
        {"global_sequence", GW_FIELD_NUMBER, .number = &sequence, .min = 1, .max = INT64_MAX},
        {"error", GW_FIELD_TEXT, .text = &error},
        {"retry_after", GW_FIELD_DURATION, .number = &after_ms},
    };
    int s = gw_fields_take(r, fields, N(fields), reterr);

    if (s >= 0)
        s = need("token", token, reterr);
    if (s >= 0)
        s = need("global_sequence", sequence > 0 ? "" : NULL, reterr);
    if (s >= 0)
        s = howdah_group_nack(bus, r->vars[0], token, sequence, error, after_ms, reterr);
    gw_count(r, GW_METER_NACKS, s >= 0);
    return done(r, s);
}

int gw_subscription_release(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    const char *token = NULL;
    const gw_field fields[] = {{"token", GW_FIELD_TEXT, .text = &token}};
    int s = gw_fields_take(r, fields, N(fields), reterr);

    if (s >= 0)
        s = need("token", token, reterr);
    if (s >= 0)
        s = howdah_group_release(bus, r->vars[0], token, reterr);
    if (s >= 0)
        gw_hand_out_spoken_for(r->gateway, token);
    return done(r, s);
}

int gw_subscription_extend(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    const char *token = NULL;
    int64_t lease_ms = 30000;
    const gw_field fields[] = {
        {"token", GW_FIELD_TEXT, .text = &token},
        {"lease", GW_FIELD_DURATION, .number = &lease_ms},
    };
    int s = gw_fields_take(r, fields, N(fields), reterr);

    if (s >= 0)
        s = need("token", token, reterr);
    if (s >= 0)
        s = howdah_group_extend(bus, r->vars[0], token, lease_ms, reterr);
    return done(r, s);
}
