/*
 * schemas.c - see schemas.h.
 *
 * Written down here as rows of names and types: "name:type", with "!" behind what is needed and "?"
 * behind what may be null.  A type is one of JSON, "any", another schema ("#Event"), or a list
 * ("[]#Event").
 */
#include "gateway/schemas.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef struct row {
    const char *name;
    const char *fields; /* separated by single spaces; or one type in parentheses */
} row;

static const row rows[] = {
    {"Any", "(any)"},
    /* Server-sent events; what their data is: an event, or a batch. */
    {"EventStream", "(string)"},
    /* One object on each line. */
    {"Lines", "(string)"},
    {"Text", "(string)"},
    {"Health", "status:string! uptime_s:integer!"},
    {"Ready", "status:string! store:string! schema:string!"},
    {"Version", "name:string! version:string! api:string!"},
    {"Problem",
     "type:string! title:string! status:integer! detail:string! code:string! field:string "
     "advice:string actual_version:integer actual_revision:integer event_index:integer "
     "retryable:boolean! outcome_unknown:boolean! request_id:string!"},
    {"NewEvent",
     "stream:string! type:string! data:any data_base64:string? content_type:string? "
     "headers:object? id:string? correlation_id:string? causation_id:string? actor:string? "
     "valid_time:string? schema_version:integer? expect:any"},
    {"NewEvents", "(#NewEvent|[]#NewEvent)"},
    {"Position",
     "global_sequence:integer! id:string! stream:string! version:integer! revision:integer!"},
    {"Positions", "(#Position|[]#Position)"},
    {"Event", "global_sequence:integer! id:string! stream:string! version:integer! type:string! "
              "data:any content_type:string data_base64:string headers:object? "
              "correlation_id:string? causation_id:string? valid_time:string! recorded_at:string! "
              "family:string! revision:integer! corrects:string? reason:string? actor:string? "
              "schema_version:integer! retraction:boolean purged:boolean"},
    {"Events", "events:[]#Event! next:string? final:boolean asked_at:string?"},
    {"TracedEvent",
     "depth:integer! global_sequence:integer! id:string! stream:string! version:integer! "
     "type:string! data:any content_type:string data_base64:string headers:object? "
     "correlation_id:string? causation_id:string? valid_time:string! recorded_at:string! "
     "family:string! revision:integer! corrects:string? reason:string? actor:string? "
     "schema_version:integer! retraction:boolean purged:boolean"},
    {"Trace", "events:[]#TracedEvent!"},
    {"Snapshot", "stream:string! version:integer! data:any data_base64:string content_type:string? "
                 "bytes:integer! schema_version:integer! taken_at:string!"},
    {"State", "snapshot:#Snapshot? events:[]#Event!"},
    {"Snapshots", "snapshots:[]#Snapshot!"},
    {"QueueSettings", "(object)"},
    {"Cancel", "reason:string?"},
    {"JobAck", "id:integer! token:any! verdict:string text:string? after:any"},
    {"JobAcks", "acks:[]#JobAck!"},
    {"JobAcked", "id:integer! outcome:string!"},
    {"JobsAcked", "acks:[]#JobAcked!"},
    {"Change", "change:string! family:string! before:#Event? after:#Event? final:boolean!"},
    {"Changes", "changes:[]#Change! final:boolean! asked_at:string?"},
    {"Correction",
     "reason:string! data:any data_base64:string? content_type:string? headers:object? "
     "valid_time:string? retraction:boolean expect_revision:integer? schema_version:integer? "
     "actor:string? id:string?"},
    {"Purged",
     "events:integer! dead_letters:integer! snapshots:integer! jobs:integer! left:integer!"},
    {"NewSubscription",
     "pattern:string? stream:string? originals:boolean start:any key:string on_fail:string "
     "max_retries:integer retry_delay:any max_retry_delay:any ordering:string gap_policy:string "
     "gap_timeout:any lanes:integer"},
    {"Subscription",
     "subscriber_id:string! high:integer! contiguous:integer! holes:[][]integer! "
     "head:integer! lag:integer! lag_age_s:number? owner:string? token:integer! "
     "state:string! pattern:string? stream:string? originals:boolean! updated_at:string? "
     "dead_letters:integer! skips:integer! reason:string? instance:string! "
     "outstanding:integer members:[]object"},
    {"Subscriptions", "subscriptions:[]#Subscription!"},
    {"Fetch", "max:integer wait:any lease:any member:string?"},
    {"Batch", "token:string? attempt:integer? events:[]#Event!"},
    {"Ack", "token:string! upto:integer?"},
    {"Nack", "token:string! global_sequence:integer! error:string? retry_after:any"},
    {"Extend", "token:string! lease:any"},
    {"Acked", "ok:boolean!"},
    {"Pause", "reason:string?"},
    {"Reset", "to:any since:string?"},
    {"Nothing", "(object)"},
    {"Queue", "queue:string! pending:integer! processing:integer! scheduled:integer! "
              "oldest_age_s:number? paused:boolean! dead_letters:integer! completed:integer "
              "failed:integer purged:integer created_at:string settings:object"},
    {"Queues", "queues:[]#Queue!"},
    {"NewJob",
     "data:any data_base64:string? content_type:string? headers:object? delay:any run_at:string? "
     "priority:integer? max_attempts:integer? key:string? dedup:string? correlation_id:string? "
     "causation_id:string?"},
    {"NewJobs", "(#NewJob|[]#NewJob)"},
    {"PushedOne", "id:integer! queue:string!"},
    {"Pushed", "(#PushedOne|[]#PushedOne)"},
    {"Claim", "max:integer wait:any lease:any worker:string?"},
    {"Job", "id:integer! queue:string! status:string! attempts:integer! max_attempts:integer! "
            "priority:integer! token:integer? worker:string? key:string? dedup:string? "
            "correlation_id:string? causation_id:string? event_sequence:integer? type:string? "
            "stream:string? created_at:string! due_at:string? started_at:string? "
            "lease_until:string? finished_at:string? position:integer? suspect:boolean! "
            "error:string? result:string? data:any data_base64:string content_type:string? "
            "headers:object?"},
    {"Jobs", "jobs:[]#Job! last:integer?"},
    {"Complete", "token:any! result:string?"},
    {"Fail", "token:any! error:string?"},
    {"Retry", "token:any! error:string? after:any"},
    {"ExtendJob", "token:any! lease:any"},
    {"Release", "token:any!"},
    {"Verdict", "ok:boolean! outcome:string!"},
    {"Binding", "queue:string! pattern:string!"},
    {"Bindings", "bindings:[]#Binding!"},
    {"NewWebhook",
     "url:string! subscription:string pattern:string? stream:string? headers:object? start:any "
     "timeout:any max_retries:integer retry_delay:any max_retry_delay:any new_secret:boolean"},
    {"Webhook",
     "name:string! url:string! subscriber_id:string! pattern:string? stream:string? "
     "headers:object? start:string! timeout_ms:integer! max_retries:integer! "
     "retry_delay_ms:integer! max_retry_delay_ms:integer! enabled:boolean! reason:string? "
     "disabled_at:string? created_at:string! changed_at:string! tried_at:string? "
     "last_status:integer? last_error:string? state:string? lag:integer? dead_letters:integer? "
     "secret:string"},
    {"Webhooks", "webhooks:[]#Webhook!"},
    {"Tested", "ok:boolean! status:integer? error:string? duration_ms:integer!"},
    {"DeadLetter",
     "id:integer! source:string! queue:string subscriber_id:string job_id:integer "
     "event_id:string global_sequence:integer version:integer stream:string? type:string? "
     "error:string? attempts:integer! redrives:integer! state:string! reason:string? "
     "created_at:string! last_attempt_at:string? resolved_at:string? resolved_by:string? "
     "key:string? dedup:string? correlation_id:string? causation_id:string? "
     "event_sequence:integer? pushed_at:string data:any data_base64:string "
     "content_type:string? headers:object?"},
    {"DeadLetters", "dead_letters:[]#DeadLetter! last:integer?"},
    {"Redrive", "ids:[]integer subscription:string? queue:string?"},
    {"Discard", "ids:[]integer queue:string? reason:string!"},
    {"Count", "count:integer!"},
    {"Status", "(object)"},
    {"Finding", "severity:string! check:string! message:string! advice:string!"},
    {"Findings", "findings:[]#Finding! good:boolean!"},
};

static void put_type(hw_buf *out, const char *type, size_t len, bool null)
{
    if (len > 2 && strncmp(type, "[]", 2) == 0) {
        hw_buf_puts(out, "{\"type\":\"array\",\"items\":");
        put_type(out, type + 2, len - 2, false);
        hw_buf_putc(out, '}');
    } else if (type[0] == '#') {
        hw_buf_printf(out,
                      null ? "{\"anyOf\":[{\"$ref\":\"#/components/schemas/%.*s\"},"
                             "{\"type\":\"null\"}]}"
                           : "{\"$ref\":\"#/components/schemas/%.*s\"}",
                      (int)len - 1, type + 1);
    } else if (len == 3 && strncmp(type, "any", 3) == 0) {
        hw_buf_puts(out, "{}");
    } else if (null) {
        hw_buf_printf(out, "{\"type\":[\"%.*s\",\"null\"]}", (int)len, type);
    } else {
        hw_buf_printf(out, "{\"type\":\"%.*s\"}", (int)len, type);
    }
}

/* "(A|B)": one of them. */
static void put_alternatives(hw_buf *out, const char *types)
{
    size_t len = strcspn(types, "|)");
    bool several = types[len] == '|';

    hw_buf_puts(out, several ? "{\"oneOf\":[" : "");
    for (;;) {
        put_type(out, types, len, false);
        if (types[len] != '|')
            break;
        hw_buf_putc(out, ',');
        types += len + 1;
        len = strcspn(types, "|)");
    }
    hw_buf_puts(out, several ? "]}" : "");
}

static void put_fields(hw_buf *out, const char *fields)
{
    hw_buf needed = HW_BUF_INIT(4096);
    const char *at = fields;
    bool first = true;

    hw_buf_puts(out, "{\"type\":\"object\",\"properties\":{");
    while (*at) {
        size_t len = strcspn(at, " ");
        size_t name = strcspn(at, ":");
        char mark = at[len - 1];
        size_t type = len - name - 1 - (mark == '!' || mark == '?');

        hw_buf_printf(out, "%s\"%.*s\":", first ? "" : ",", (int)name, at);
        first = false;
        put_type(out, at + name + 1, type, mark == '?');
        if (mark == '!')
            hw_buf_printf(&needed, "%s\"%.*s\"", needed.len > 0 ? "," : "", (int)name, at);
        at += len + (at[len] == ' ');
    }
    hw_buf_putc(out, '}');
    if (needed.len > 0)
        hw_buf_printf(out, ",\"required\":[%s]", hw_buf_str(&needed));
    hw_buf_putc(out, '}');
    hw_buf_done(&needed);
}

void gw_schemas_put(hw_buf *out)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        hw_buf_printf(out, "%s\"%s\":", i > 0 ? "," : "", rows[i].name);
        if (rows[i].fields[0] == '(')
            put_alternatives(out, rows[i].fields + 1);
        else
            put_fields(out, rows[i].fields);
    }
}
