/*
 * meters.h - what the gateway counts about itself.
 *
 *   I1  Counting takes no lock: each number is an atomic of its own, and a reader may see one that
 *       is a moment older than another.
 *   I2  A request is counted when it ends, by what was answered: no handler has to think of it.  A
 *       handler counts only what its answer does not tell: how many events, how many jobs.
 *   I3  The labels are the table's routes, methods, classes and codes.  Nothing that a client sends
 *       becomes one.
 */
#ifndef HW_GATEWAY_METERS_H
#define HW_GATEWAY_METERS_H

#include <stdint.h>

#include <howdah/howdah.h>

#include "base/buf.h"
#include "face/metrics_text.h"

typedef struct gw_meters gw_meters;
struct gw_gateway;
struct gw_request;

/* X(NAME, name of the metric, help) */
#define GW_METER_LIST(X)                                                                           \
    X(APPENDS, "howdah_gateway_appends_total", "Requests that stored events")                      \
    X(EVENTS_APPENDED, "howdah_gateway_events_appended_total",                                     \
      "Events that these requests stored, repeated ones included")                                 \
    X(BATCHES_FETCHED, "howdah_gateway_batches_fetched_total", "Batches given to members")         \
    X(EVENTS_FETCHED, "howdah_gateway_events_fetched_total", "Events in these batches")            \
    X(ACKS, "howdah_gateway_acks_total", "Batches, or parts of them, that members have handled")   \
    X(NACKS, "howdah_gateway_nacks_total", "Events that members could not handle")                 \
    X(JOBS_PUSHED, "howdah_gateway_jobs_pushed_total", "Jobs pushed, those that existed included") \
    X(JOBS_CLAIMED, "howdah_gateway_jobs_claimed_total", "Jobs given to workers")                  \
    X(JOBS_COMPLETED, "howdah_gateway_jobs_completed_total", "Jobs that workers completed")        \
    X(JOBS_FAILED, "howdah_gateway_jobs_failed_total",                                             \
      "Jobs that workers gave up, or that had no attempt left")                                    \
    X(JOBS_RETRIED, "howdah_gateway_jobs_retried_total", "Jobs that workers want to try again")    \
    X(JOBS_RELEASED, "howdah_gateway_jobs_released_total", "Jobs that workers gave back")          \
    X(JOBS_EXTENDED, "howdah_gateway_jobs_extended_total", "Leases that workers made longer")      \
    X(WEBHOOKS_SENT, "howdah_gateway_webhooks_sent_total", "Events that endpoints have taken")     \
    X(WEBHOOKS_FAILED, "howdah_gateway_webhooks_failed_total",                                     \
      "Requests to endpoints that came to nothing")                                                \
    X(WEBHOOKS_DISABLED, "howdah_gateway_webhooks_disabled_total",                                 \
      "Webhooks that were disabled because their endpoint said so")                                \
    X(OUTCOMES_UNKNOWN, "howdah_gateway_outcomes_unknown_total",                                   \
      "Requests of which nobody knows whether they were stored")

typedef enum gw_meter {
#define GW_METER_ENUM(name, metric, help) GW_METER_##name,
    GW_METER_LIST(GW_METER_ENUM)
#undef GW_METER_ENUM
        GW_METERS_N
} gw_meter;

/* NULL without memory. */
gw_meters *gw_meters_new(void);
void gw_meters_free(gw_meters *meters);

/* From a handler. */
void gw_count(const struct gw_request *r, gw_meter meter, int64_t n);
/* From where there is no request. */
void gw_meters_count(gw_meters *meters, gw_meter meter, int64_t n);
/* A problem is what the client gets. */
void gw_meters_problem(gw_meters *meters, const howdah_error *err);
/* The first byte of the answer can be sent; and nothing more will be. */
void gw_meters_answer_begins(gw_meters *meters, struct gw_request *r);
void gw_meters_request_ends(gw_meters *meters, const struct gw_request *r);

/* All of it, with what the gateway and its process are now. */
void gw_meters_print(hw_buf *out, face_metrics_form form, struct gw_gateway *gateway);

#endif
