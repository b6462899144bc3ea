/* handlers.h - what the routes do; each folder of the table has a file. */
#ifndef HW_GATEWAY_HANDLERS_H
#define HW_GATEWAY_HANDLERS_H

#include "gateway/routes.h"

/* health.c */
gw_handler gw_healthz;
gw_handler gw_readyz;
gw_handler gw_version;
/* scrape.c */
gw_handler gw_metrics;
/* openapi.c */
gw_handler gw_openapi;
/* append.c */
gw_handler gw_events_append;
/* live.c */
gw_handler gw_events_live;
/* correct.c */
gw_handler gw_event_correct;
gw_handler gw_event_purge;
/* read.c */
gw_handler gw_events_read;
gw_handler gw_stream_read;
gw_handler gw_event_get;
gw_handler gw_event_trace;
gw_handler gw_diff;
/* snapshots.c */
gw_handler gw_snapshots;
gw_handler gw_snapshot_put;
gw_handler gw_snapshots_remove;
gw_handler gw_stream_state;
/* consume.c */
gw_handler gw_subscription_put;
gw_handler gw_subscription_fetch;
gw_handler gw_subscription_ack;
gw_handler gw_subscription_nack;
gw_handler gw_subscription_extend;
gw_handler gw_subscription_release;
/* hand_out.c */
gw_handler gw_subscription_stream;
/* operate.c */
gw_handler gw_status;
gw_handler gw_subscriptions;
gw_handler gw_subscription_show;
gw_handler gw_subscription_remove;
gw_handler gw_subscription_pause;
gw_handler gw_subscription_resume;
gw_handler gw_subscription_reset;
gw_handler gw_dead_letters;
gw_handler gw_dead_letter_show;
gw_handler gw_dead_letters_redrive;
gw_handler gw_dead_letters_discard;
gw_handler gw_verify;
gw_handler gw_doctor;
/* hooks_admin.c */
gw_handler gw_webhooks_list;
gw_handler gw_webhook_show;
gw_handler gw_webhook_put;
gw_handler gw_webhook_remove;
gw_handler gw_webhook_enable;
gw_handler gw_webhook_disable;
gw_handler gw_webhook_test;
/* queues.c */
gw_handler gw_queues;
gw_handler gw_queue_show;
gw_handler gw_queue_configure;
gw_handler gw_queue_purge;
gw_handler gw_queue_push;
gw_handler gw_queue_claim;
gw_handler gw_queue_pause;
gw_handler gw_queue_resume;
gw_handler gw_queue_log;
gw_handler gw_job_show;
gw_handler gw_job_complete;
gw_handler gw_job_fail;
gw_handler gw_job_retry;
gw_handler gw_job_extend;
gw_handler gw_job_release;
gw_handler gw_job_cancel;
gw_handler gw_job_rerun;
gw_handler gw_jobs_ack;
gw_handler gw_bindings;
gw_handler gw_binding_put;
gw_handler gw_binding_remove;

#endif
