/* routes.c - see routes.h. */
#include "gateway/routes.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "gateway/handlers.h"

#define JSON "application/json"
#define EVENT_BODIES                                                                               \
    "application/json application/x-ndjson application/cloudevents+json "                          \
    "application/cloudevents-batch+json */*"
#define CHOICE "pattern type stream correlation causation header"
#define TIMES                                                                                      \
    " valid_at known_at current originals versions valid_from valid_before recorded_from "         \
    "recorded_before order"

const gw_route gw_routes[] = {
    {"GET", "/healthz", GW_ANYBODY, GW_NO_STORE, gw_healthz, NULL, NULL, "Health",
     "Whether the gateway's process answers"},
    {"GET", "/readyz", GW_ANYBODY, 0, gw_readyz, NULL, NULL, "Ready",
     "Whether the store can be reached and its schema fits"},
    {"GET", "/version", GW_ANYBODY, GW_NO_STORE, gw_version, NULL, NULL, "Version",
     "What answers, and its version"},
    {"GET", "/openapi.json", GW_ANYBODY, GW_NO_STORE, gw_openapi, NULL, NULL, "Any",
     "This interface as an OpenAPI document"},

    {"GET", "/metrics", GW_READ, GW_SUBMITS | GW_UNSURE, gw_metrics, NULL, NULL, "Text",
     "Numbers for a monitor: Prometheus text, or OpenMetrics for who accepts it"},

    {"POST", "/v1/events", GW_PUBLISH, GW_WRITES | GW_SUBMITS, gw_events_append, "expect",
     EVENT_BODIES, "NewEvents Positions", "Append one event, or many: all or none"},
    {"GET", "/v1/events", GW_READ, 0, gw_events_read, "since from to limit backward " CHOICE TIMES,
     NULL, "Events", "Read the log, or what was known and true at some time"},
    {"GET", "/v1/events/live", GW_READ, 0, gw_events_live, "since pattern stream originals place",
     NULL, "EventStream",
     "The log as server-sent events, from now, from a number, or from Last-Event-ID"},
    {"GET", "/v1/events/{id}", GW_READ, 0, gw_event_get, NULL, NULL, "Event", "One event"},
    {"GET", "/v1/events/{id}/trace", GW_READ, GW_WHOLE, gw_event_trace, NULL, NULL, "Trace",
     "What caused it, and all that it caused"},
    {"POST", "/v1/events/{id}/corrections", GW_PUBLISH, GW_WRITES, gw_event_correct, NULL, JSON,
     "Correction Position", "Correct or retract an event: the next revision of its family"},
    {"DELETE", "/v1/events/{id}", GW_ADMIN, GW_WRITES, gw_event_purge, "reason actor", NULL,
     "Purged", "Erase the payloads and headers of the event's family"},
    {"GET", "/v1/streams/{stream}", GW_READ, 0, gw_stream_read, "since from to limit backward",
     NULL, "Events", "The events of a stream, in order of version"},
    {"GET", "/v1/streams/{stream}/state", GW_READ, 0, gw_stream_state, "version", NULL, "State",
     "The nearest snapshot, and the events after it"},
    {"GET", "/v1/streams/{stream}/snapshots", GW_READ, 0, gw_snapshots, NULL, NULL, "Snapshots",
     "The snapshots of a stream, without their data"},
    {"PUT", "/v1/streams/{stream}/snapshots/{version}", GW_PUBLISH, GW_WRITES, gw_snapshot_put,
     "keep schema_version", "application/json */*", "Any Nothing",
     "Store the state of a stream at a version"},
    {"DELETE", "/v1/streams/{stream}/snapshots", GW_ADMIN, GW_WRITES, gw_snapshots_remove, "upto",
     NULL, "Count", "Remove snapshots"},
    {"GET", "/v1/diff", GW_READ, 0, gw_diff, "known_at to pattern type stream limit", NULL,
     "Changes", "How what was known changed between two moments"},

    {"PUT", "/v1/subscriptions/{name}", GW_SUBSCRIBE, GW_WRITES, gw_subscription_put, NULL, JSON,
     "NewSubscription Subscription", "Make a shared subscription, or leave it as it is"},
    {"POST", "/v1/subscriptions/{name}/fetch", GW_SUBSCRIBE, GW_WRITES | GW_WAITS,
     gw_subscription_fetch, NULL, JSON, "Fetch Batch", "Take a batch of events under a lease"},
    {"POST", "/v1/subscriptions/{name}/ack", GW_SUBSCRIBE, GW_WRITES, gw_subscription_ack, NULL,
     JSON, "Ack Acked", "A batch is handled, or its events up to one of them"},
    {"POST", "/v1/subscriptions/{name}/nack", GW_SUBSCRIBE, GW_WRITES, gw_subscription_nack, NULL,
     JSON, "Nack Acked", "An event of a batch has failed"},
    {"POST", "/v1/subscriptions/{name}/extend", GW_SUBSCRIBE, GW_WRITES, gw_subscription_extend,
     NULL, JSON, "Extend Acked", "A batch needs more time"},
    {"POST", "/v1/subscriptions/{name}/release", GW_SUBSCRIBE, GW_WRITES, gw_subscription_release,
     NULL, JSON, "Release Acked", "Give a batch back: the try does not count"},
    {"GET", "/v1/subscriptions/{name}/stream", GW_SUBSCRIBE, GW_WRITES, gw_subscription_stream,
     "max window lease member", NULL, "EventStream",
     "Batches as server-sent events, each under a lease; acks by POST"},
    {"GET", "/v1/subscriptions", GW_READ, 0, gw_subscriptions, NULL, NULL, "Subscriptions",
     "All subscriptions: where they are, and how far behind"},
    {"GET", "/v1/subscriptions/{name}", GW_READ, 0, gw_subscription_show, NULL, NULL,
     "Subscription", "One subscription, with the members that have batches"},
    {"DELETE", "/v1/subscriptions/{name}", GW_ADMIN, GW_WRITES, gw_subscription_remove, NULL, NULL,
     "Nothing", "Remove a subscription that nobody runs"},
    {"POST", "/v1/subscriptions/{name}/pause", GW_ADMIN, GW_WRITES, gw_subscription_pause, NULL,
     JSON, "Pause Subscription", "Pause it"},
    {"POST", "/v1/subscriptions/{name}/resume", GW_ADMIN, GW_WRITES, gw_subscription_resume, NULL,
     JSON, "Nothing Subscription", "Let it go on, also after a halt"},
    {"POST", "/v1/subscriptions/{name}/reset", GW_ADMIN, GW_WRITES, gw_subscription_reset, NULL,
     JSON, "Reset Subscription", "Move it to a position, or to a moment"},

    {"GET", "/v1/queues", GW_READ, 0, gw_queues, NULL, NULL, "Queues", "All queues"},
    {"GET", "/v1/queues/{queue}", GW_READ, 0, gw_queue_show, NULL, NULL, "Queue", "One queue"},
    {"PUT", "/v1/queues/{queue}", GW_ADMIN, GW_WRITES, gw_queue_configure, NULL, JSON,
     "QueueSettings Queue", "Make a queue, or change its settings"},
    {"DELETE", "/v1/queues/{queue}/jobs", GW_ADMIN, GW_WRITES, gw_queue_purge, NULL, NULL, "Count",
     "Remove every job that is not under way"},
    {"POST", "/v1/queues/{queue}/jobs", GW_PUBLISH, GW_WRITES, gw_queue_push, NULL,
     "application/json application/x-ndjson", "NewJobs Pushed", "Push one job, or many"},
    {"POST", "/v1/queues/{queue}/claim", GW_WORK, GW_WRITES | GW_WAITS, gw_queue_claim, NULL, JSON,
     "Claim Jobs", "Take jobs that are due, under a lease"},
    {"POST", "/v1/queues/{queue}/pause", GW_ADMIN, GW_WRITES, gw_queue_pause, NULL, JSON,
     "Nothing Queue", "Give out no jobs"},
    {"POST", "/v1/queues/{queue}/resume", GW_ADMIN, GW_WRITES, gw_queue_resume, NULL, JSON,
     "Nothing Queue", "Give out jobs again"},
    {"GET", "/v1/queues/{queue}/log", GW_READ, 0, gw_queue_log, "status limit backward since", NULL,
     "Jobs", "What became of its jobs, in the order of ending"},
    {"GET", "/v1/jobs/{id}", GW_READ, 0, gw_job_show, NULL, NULL, "Job", "One job"},
    {"POST", "/v1/jobs/{id}/complete", GW_WORK, GW_WRITES, gw_job_complete, NULL, JSON,
     "Complete Verdict", "It is done"},
    {"POST", "/v1/jobs/{id}/fail", GW_WORK, GW_WRITES, gw_job_fail, NULL, JSON, "Fail Verdict",
     "It has failed for good"},
    {"POST", "/v1/jobs/{id}/retry", GW_WORK, GW_WRITES, gw_job_retry, NULL, JSON, "Retry Verdict",
     "It has failed; try again later"},
    {"POST", "/v1/jobs/{id}/extend", GW_WORK, GW_WRITES, gw_job_extend, NULL, JSON,
     "ExtendJob Verdict", "It needs more time"},
    {"POST", "/v1/jobs/{id}/release", GW_WORK, GW_WRITES, gw_job_release, NULL, JSON,
     "Release Verdict", "It was not begun: somebody else may have it"},
    {"POST", "/v1/jobs/{id}/cancel", GW_ADMIN, GW_WRITES, gw_job_cancel, NULL, JSON, "Cancel Job",
     "Give up a job that is not under way"},
    {"POST", "/v1/jobs/{id}/rerun", GW_ADMIN, GW_WRITES, gw_job_rerun, NULL, JSON, "Nothing Job",
     "Let a job run now, or again"},
    {"POST", "/v1/jobs/ack", GW_WORK, GW_WRITES, gw_jobs_ack, NULL, JSON, "JobAcks JobsAcked",
     "How many jobs went, in one transaction"},
    {"GET", "/v1/bindings", GW_READ, 0, gw_bindings, NULL, NULL, "Bindings",
     "Which events become jobs of which queue"},
    {"PUT", "/v1/bindings/{queue}/{pattern}", GW_ADMIN, GW_WRITES, gw_binding_put, "start", JSON,
     "Nothing Binding", "Bind a pattern of events to a queue"},
    {"DELETE", "/v1/bindings/{queue}/{pattern}", GW_ADMIN, GW_WRITES, gw_binding_remove, NULL, NULL,
     "Nothing", "Unbind it"},

    {"GET", "/v1/webhooks", GW_ADMIN, 0, gw_webhooks_list, NULL, NULL, "Webhooks",
     "Whom the gateways tell of events"},
    {"GET", "/v1/webhooks/{name}", GW_ADMIN, 0, gw_webhook_show, NULL, NULL, "Webhook",
     "One webhook: what its last request came to, and how far behind it is"},
    {"PUT", "/v1/webhooks/{name}", GW_ADMIN, GW_WRITES, gw_webhook_put, NULL, JSON,
     "NewWebhook Webhook", "Make a webhook, or change it; a new secret is in the answer, once"},
    {"DELETE", "/v1/webhooks/{name}", GW_ADMIN, GW_WRITES, gw_webhook_remove, NULL, NULL, "Nothing",
     "Remove it; its subscription stays, with its place"},
    {"POST", "/v1/webhooks/{name}/enable", GW_ADMIN, GW_WRITES, gw_webhook_enable, NULL, JSON,
     "Nothing Webhook", "Send again, from where it was"},
    {"POST", "/v1/webhooks/{name}/disable", GW_ADMIN, GW_WRITES, gw_webhook_disable, NULL, JSON,
     "Pause Webhook", "Send nothing until it is enabled"},
    {"POST", "/v1/webhooks/{name}/test", GW_ADMIN, GW_WRITES, gw_webhook_test, NULL, JSON,
     "Nothing Tested", "Send an event of the type howdah.test now, and tell what came of it"},

    {"GET", "/v1/dead-letters", GW_READ, 0, gw_dead_letters,
     "subscription queue all limit backward after", NULL, "DeadLetters",
     "Events and jobs that nobody could handle"},
    {"GET", "/v1/dead-letters/{id}", GW_READ, 0, gw_dead_letter_show, NULL, NULL, "DeadLetter",
     "One of them"},
    {"POST", "/v1/dead-letters/redrive", GW_ADMIN, GW_WRITES, gw_dead_letters_redrive, NULL, JSON,
     "Redrive Count", "Try some of them again"},
    {"POST", "/v1/dead-letters/discard", GW_ADMIN, GW_WRITES, gw_dead_letters_discard, NULL, JSON,
     "Discard Count", "Give some of them up, with a reason"},
    {"GET", "/v1/status", GW_READ, GW_WHOLE, gw_status, NULL, NULL, "Status",
     "The bus at a glance: facts, subscriptions, queues"},
    {"GET", "/v1/verify", GW_ADMIN, GW_WHOLE, gw_verify, NULL, NULL, "Findings",
     "Whether what is stored is consistent"},
    {"GET", "/v1/doctor", GW_ADMIN, GW_WHOLE, gw_doctor, NULL, NULL, "Findings",
     "Whether server, schema, rights and settings are fit"},
};
const size_t gw_routes_n = sizeof gw_routes / sizeof *gw_routes;

const gw_arg_row gw_arg_rows[] = {
    {"after", "integer", "those after this id"},
    {"actor", "string", "who does it"},
    {"all", "boolean", "resolved ones as well"},
    {"backward", "boolean", "newest first"},
    {"causation", "string", "only what this event caused"},
    {"correlation", "string", "only this correlation"},
    {"current", "boolean", "as-of now: newest revisions, without what is retracted"},
    {"expect", "string", "what the stream must have: any, none, exists, or its last version"},
    {"from", "integer", "first position: a version of a stream, else a global sequence"},
    {"header", "string", "only with this header: NAME=VALUE; may be repeated"},
    {"keep", "integer", "how many of the newest snapshots are left"},
    {"known_at", "string", "as-of: what was known then, RFC 3339"},
    {"lease", "string", "how long a batch is its member's: 30s"},
    {"limit", "integer", "at most so many"},
    {"max", "integer", "most events of a batch"},
    {"member", "string", "a name for people"},
    {"order", "string", "sequence, valid or recorded"},
    {"originals", "boolean", "first revisions only"},
    {"pattern", "string", "types that match: order.*, *.created, order.>"},
    {"place", "string", "where a stream was: the id of one of its events"},
    {"queue", "string", "only of this queue"},
    {"reason", "string", "why; it is kept"},
    {"recorded_before", "string", "recorded before this time"},
    {"recorded_from", "string", "recorded at this time or later"},
    {"schema_version", "integer", "of the data"},
    {"since", "integer", "positions after this one"},
    {"start", "string", "start, end, or a sequence"},
    {"status", "string", "completed or failed"},
    {"stream", "string", "only this stream"},
    {"subscription", "string", "only of this subscription"},
    {"to", "string", "last position; of a diff: the later moment"},
    {"type", "string", "only this type"},
    {"upto", "integer", "up to this version; 0: all"},
    {"valid_at", "string", "as-of: facts whose valid time is not after this"},
    {"valid_before", "string", "valid before this time"},
    {"valid_from", "string", "valid at this time or later"},
    {"version", "integer", "of the stream; without it: the newest"},
    {"versions", "string", "every revision of this event, from any of their ids"},
    {"window", "integer", "most batches that nobody has acked yet"},
};
const size_t gw_arg_rows_n = sizeof gw_arg_rows / sizeof *gw_arg_rows;

const char *gw_right_name(gw_right right)
{
    static const char *const names[] = {
        [GW_ANYBODY] = "anybody",     [GW_READ] = "read", [GW_PUBLISH] = "publish",
        [GW_SUBSCRIBE] = "subscribe", [GW_WORK] = "work", [GW_ADMIN] = "admin"};

    return names[right];
}

/* ------------------------------------------------------------------- finding */

/* The next segment, without the slash before it. */
static hw_str next_segment(hw_str *path)
{
    const char *begin = path->s + 1;
    const char *slash;
    hw_str segment;

    assert(path->len > 0 && path->s[0] == '/');
    slash = memchr(begin, '/', path->len - 1);
    segment = (hw_str){begin, slash ? (size_t)(slash - begin) : path->len - 1};
    *path = (hw_str){begin + segment.len, path->len - 1 - segment.len};
    return segment;
}

/* A variable takes one segment, and not an empty one. */
static bool matches(const char *template, hw_str path, hw_str ret_vars[GW_VARS_MAX])
{
    hw_str pattern = hw_str_of(template);
    size_t n = 0;

    while (pattern.len > 0 && path.len > 0) {
        hw_str wanted = next_segment(&pattern);
        hw_str given = next_segment(&path);

        if (wanted.s[0] != '{') {
            if (!hw_str_equal(wanted, given))
                return false;
            continue;
        }
        assert(n < GW_VARS_MAX);
        if (given.len == 0)
            return false;
        ret_vars[n++] = given;
    }
    return pattern.len == 0 && path.len == 0;
}

/* Of two that match, the one that is written out stands first in the table, or has fewer variables:
   "/v1/dead-letters/redrive" takes another method than "/v1/dead-letters/{id}". */
const gw_route *gw_route_find(const char *method, hw_str path, hw_str ret_vars[GW_VARS_MAX],
                              char ret_allowed[GW_ALLOWED_SIZE])
{
    size_t n = 0;

    ret_allowed[0] = '\0';
    if (path.len == 0 || path.s[0] != '/')
        return NULL;
    for (size_t i = 0; i < gw_routes_n; i++) {
        hw_str vars[GW_VARS_MAX] = {HW_STR_NULL, HW_STR_NULL};

        if (!matches(gw_routes[i].path, path, vars))
            continue;
        if (strcmp(gw_routes[i].method, method) == 0) {
            memcpy(ret_vars, vars, sizeof vars);
            return &gw_routes[i];
        }
        if (n < GW_ALLOWED_SIZE && !strstr(ret_allowed, gw_routes[i].method))
            n += (size_t)snprintf(ret_allowed + n, GW_ALLOWED_SIZE - n, "%s%s", n > 0 ? ", " : "",
                                  gw_routes[i].method);
    }
    return NULL;
}
