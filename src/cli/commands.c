/*
 * commands.c - every command, option and help text, as tables.  Scripts rely on the names.
 */
#include "cli/commands.h"

#include <string.h>

#include <howdah/howdah.h>

const cli_option cli_global_options[] = {
    {"store", "URL", NULL,
     "sqlite:FILE or postgres://...; default: $HOWDAH_STORE, else sqlite:howdah.db", CLI_SECRET},
    {"schema", "NAME", NULL, "schema of the bus on PostgreSQL (default howdah)", 0},
    {"set", "KEY=VALUE", NULL, "any setting; howdah settings lists them", CLI_REPEATS},
    {"json", NULL, NULL, "JSON lines, as in a pipe", 0},
    {"quiet", NULL, NULL, "no progress and no notes; errors only", 0},
    {"help", NULL, NULL, "this text", 0},
    {"version", NULL, NULL, "the version", 0},
    CLI_OPTIONS_END};

#define PASS_STORE                                                                                 \
    {                                                                                              \
        "pass-store", NULL, NULL, "with --exec: pass HOWDAH_STORE on with its password", 0         \
    }
#define STORE_OF_COMMANDS                                                                          \
    "COMMAND gets HOWDAH_STORE without a password, unless --pass-store is given."

static const cli_option append_options[] = {
    {"expect", "any|none|exists|N", "any none exists",
     "what the stream must have: N as its last version, no event yet, some event", 0},
    {"id", "UUID", NULL, "the event's id; the same id is never stored twice", 0},
    {"header", "NAME=VALUE", NULL, "a header", CLI_REPEATS},
    {"correlation", "ID", NULL, "correlation id", 0},
    {"causation", "UUID", NULL, "id of the event that caused this one", 0},
    {"actor", "NAME", NULL, "who did it", 0},
    {"valid-time", "TIME", NULL, "when it was true, RFC 3339; default: when it is recorded", 0},
    {"schema-version", "N", NULL, "version of the payload's form (default 1)", 0},
    {"bytes", "CONTENT_TYPE", "application/octet-stream text/plain image/png",
     "the payload is bytes of this type, not JSON", 0},
    {"batch", NULL, NULL, "JSON lines on stdin, one event each", 0},
    {"tx-size", "N", NULL, "with --batch: at most N events in one transaction (default: all)", 0},
    {"id-space", "NAME", NULL,
     "with --batch: a line without an id gets one made of NAME, line number and line", 0},
    {"positions", NULL, NULL, "with --batch: print where each event is, not a summary", 0},
    {"dry-run", NULL, NULL, "with --batch: check every line, store nothing", 0},
    {"correct", "UUID", NULL, "correct this event: the next revision of its family", 0},
    {"reason", "TEXT", NULL, "with --correct: why; it is kept", 0},
    {"retract", NULL, NULL, "with --correct: it never happened", 0},
    {"expect-revision", "N", NULL, "with --correct: the newest revision that you know", 0},
    CLI_OPTIONS_END};

static const cli_option read_options[] = {
    {"stream", "NAME", NULL, "only this stream, in order of version", 0},
    {"from", "N", NULL, "first position: a version with --stream, else a global sequence", 0},
    {"to", "N", NULL, "last position", 0},
    {"since", "N", NULL, "positions after N", 0},
    {"backward", NULL, NULL, "newest first", 0},
    {"limit", "N", NULL, "at most N events", 0},
    {"pattern", "PATTERN", NULL, "types that match: 'order.*', '*.created', 'order.>'", 0},
    {"type", "TYPE", NULL, "only this type", 0},
    {"correlation", "ID", NULL, "only this correlation", 0},
    {"last", NULL, NULL, "the last event of --stream", 0},
    {"id", "UUID", NULL, "the event with this id", 0},
    {"known-at", "TIME", NULL, "as-of: what was known then, RFC 3339", 0},
    {"valid-at", "TIME", NULL, "as-of: facts whose valid time is not after this", 0},
    {"current", NULL, NULL, "as-of now: newest revisions, without what is retracted", 0},
    {"versions", "UUID", NULL, "every revision of this event, from any of their ids", 0},
    {"originals", NULL, NULL, "first revisions only", 0},
    {"causation", "UUID", NULL, "only what this event caused", 0},
    {"header", "NAME=VALUE", NULL, "only with this header", CLI_REPEATS},
    {"valid-from", "TIME", NULL, "valid at this time or later", 0},
    {"valid-before", "TIME", NULL, "valid before this time", 0},
    {"recorded-from", "TIME", NULL, "recorded at this time or later", 0},
    {"recorded-before", "TIME", NULL, "recorded before this time", 0},
    {"order", "ORDER", "sequence valid recorded", "sequence (default), or by time: valid, recorded",
     0},
    {"count", NULL, NULL, "print how many events", 0},
    {"stats", NULL, NULL, "print counts and times for each type", 0},
    {"streams", NULL, NULL, "print the streams they are in", 0},
    CLI_OPTIONS_END};

static const cli_option diff_options[] = {
    {"known-at", "TIME", NULL, "the earlier moment, RFC 3339; required", 0},
    {"to", "TIME", NULL, "the later moment (default: now)", 0},
    {"stream", "NAME", NULL, "only this stream", 0},
    {"type", "TYPE", NULL, "only this type", 0},
    {"pattern", "PATTERN", NULL, "types that match: 'order.*', '*.created', 'order.>'", 0},
    {"limit", "N", NULL, "at most N changes", 0},
    CLI_OPTIONS_END};

static const cli_option purge_options[] = {
    {"stream", "NAME", NULL, "every event of this stream, and its snapshots", 0},
    {"families", NULL, NULL, "with ids: every revision of these events", 0},
    {"reason", "TEXT", NULL, "why; it is kept", 0},
    {"actor", "NAME", NULL, "who; default: the database's user, or the system's", 0},
    {"yes", NULL, NULL, "do it; it cannot be undone", 0},
    CLI_OPTIONS_END};

static const cli_option snapshot_options[] = {
    {"version", "N", NULL, "get, state: at or below this version (default: the newest)", 0},
    {"keep", "N", NULL, "put: then keep only the newest N of the stream", 0},
    {"schema-version", "N", NULL, "put: version of the state's form (default 1)", 0},
    {"bytes", "CONTENT_TYPE", "application/octet-stream text/plain image/png",
     "put: the state is bytes of this type, not JSON", 0},
    {"upto", "N", NULL, "rm: only those up to this version", 0},
    {"yes", NULL, NULL, "rm: do it", 0},
    CLI_OPTIONS_END};

static const cli_option follow_options[] = {
    {"pattern", "PATTERN", NULL, "types that match: 'order.*', '*.created', 'order.>'", 0},
    {"stream", "NAME", NULL, "only this stream", 0},
    {"originals", NULL, NULL, "first revisions only, no corrections", 0},
    {"since", "N", NULL, "start after this global sequence (default: from now on)", 0},
    {"place", "PLACE", NULL, "go on from the place of the last line seen, with the same filters",
     0},
    {"places", NULL, NULL, "add the place after each event to its line of JSON", 0},
    {"max", "N", NULL, "leave after N events", 0},
    {"timeout", "DURATION", NULL, "leave after this time: 250ms, 5s, 2m", 0},
    CLI_OPTIONS_END};

/* The choices are in the order of the library's values: subscribe.c relies on it. */
static const cli_option subscribe_options[] = {
    {"pattern", "PATTERN", NULL,
     "types that match; default: what it was subscribed with, all for a new one", 0},
    {"stream", "NAME", NULL, "only this stream; '' for all of them again", 0},
    {"originals", NULL, NULL, "first revisions only, no corrections", 0},
    {"all-revisions", NULL, NULL, "corrections as well, after --originals", 0},
    {"from", "start|end|N", "start end",
     "where a new one begins: N means after sequence N (default start)", 0},
    {"exec", "COMMAND", NULL, "run sh -c COMMAND for each event; exit code 0: handled", 0},
    PASS_STORE,
    {"until-caught-up", NULL, NULL, "leave when nothing is left", 0},
    {"max", "N", NULL, "leave after N events, dead letters included", 0},
    {"timeout", "DURATION", NULL, "leave after this time: 250ms, 5s, 2m", 0},
    {"max-retries", "N", NULL, "tries after the first one (default 3)", 0},
    {"retry-delay", "DURATION", NULL, "before the second try (default 1s), doubling", 0},
    {"max-retry-delay", "DURATION", NULL, "up to this (default 60s)", 0},
    {"on-fail", "open|closed|hold", "open closed hold",
     "after the last try: store a dead letter and go on (open, default), or halt (closed), or, "
     "with "
     "--shared, let its stream wait until the dead letter is redriven or discarded (hold)",
     0},
    {"checkpoint", "sync|batched", "sync batched",
     "store the place after every event (sync, default), or every --batch-size", 0},
    {"batch-size", "N", NULL, "with batched: after N events (default 100)", 0},
    {"max-delay", "DURATION", NULL, "with batched: at the latest after this (default 1s)", 0},
    {"instance", "MODE", "coordinated single lease",
     "who may run it: coordinated (default): one process at a time, others stand by; lease: the "
     "same with a lease, for transaction poolers; single: no lock, there is only one process",
     0},
    {"lease", "DURATION", NULL,
     "how long an owner that does not respond keeps it (default 10s); longer than COMMAND takes",
     0},
    {"ordering", "ahead|strict", "ahead strict",
     "go on past a number that is not committed yet (ahead, default), or wait for it", 0},
    {"gap-policy", "proof|timeout", "proof timeout",
     "give up a missing number on proof that it cannot appear (default), or by time", 0},
    {"gap-timeout", "DURATION", NULL,
     "with timeout: after this long (default 5s); with proof it is only reported then", 0},
    {"batch", "N", NULL,
     "events in one read while it catches up, or that a member takes (default 100)", 0},
    {"shared", NULL, NULL,
     "be a member of a group: any number of processes take events of it at a time", 0},
    {"exec-lines", "COMMAND", NULL,
     "with --shared: one long-lived COMMAND per member; events as JSON lines on its stdin, "
     "{\"ack\":N} or {\"nack\":N,\"error\":\"...\"} lines back",
     0},
    {"concurrency", "N", NULL, "with --shared: so many members in this process (default 1)", 0},
    {"key", "stream|none", "stream none",
     "with --shared: events of one stream in order (stream, default), or in no order", 0},
    CLI_OPTIONS_END};

static const cli_option sub_options[] = {
    {"to", "start|end|N|TIME", "start end",
     "reset: where to; N means after sequence N, TIME what was recorded then or later", 0},
    {"reason", "TEXT", NULL, "pause, resolve: why; it is kept", 0},
    {"timeout", "DURATION", NULL, "wait: at most this long (default: no limit)", 0},
    {"all", NULL, NULL, "skips: include those that are resolved", 0},
    CLI_OPTIONS_END};

static const cli_option dlq_options[] = {
    {"sub", "NAME", NULL, "only those of this subscription", 0},
    {"queue", "NAME", NULL, "only those of this queue's jobs", 0},
    {"all-states", NULL, NULL, "ls: include those that are resolved", 0},
    {"limit", "N", NULL, "ls: at most N, oldest first", 0},
    {"all", NULL, NULL, "redrive, discard: all that are open", 0},
    {"reason", "TEXT", NULL, "discard: why; it is kept", 0},
    CLI_OPTIONS_END};

static const cli_option push_options[] = {
    {"delay", "DURATION", NULL, "due after this time: 250ms, 5s, 2m (default: at once)", 0},
    {"run-at", "TIME", NULL, "due at this time, RFC 3339", 0},
    {"priority", "N", NULL, "lower comes first, -32768 to 32767 (default 0)", 0},
    {"key", "KEY", NULL, "jobs of one key run one at a time, in the order of their push", 0},
    {"dedup", "KEY", NULL, "while a job with this key has not ended, a push gives its id", 0},
    {"max-attempts", "N", NULL, "after this many the job fails (default: the queue's)", 0},
    {"header", "NAME=VALUE", NULL, "a header", CLI_REPEATS},
    {"correlation", "ID", NULL, "correlation id", 0},
    {"causation", "UUID", NULL, "id of the event that caused it", 0},
    {"bytes", "CONTENT_TYPE", "application/octet-stream text/plain image/png",
     "the payload is bytes of this type, not JSON", 0},
    {"batch", NULL, NULL, "JSON lines on stdin, one job each", 0},
    {"tx-size", "N", NULL, "with --batch: at most N jobs in one transaction (default 1000)", 0},
    CLI_OPTIONS_END};

static const cli_option work_options[] = {
    {"exec", "COMMAND", NULL,
     "run sh -c COMMAND for each job; exit code 0: done, 75: try again, else: failed", 0},
    {"exec-lines", "COMMAND", NULL,
     "instead of --exec: long-lived COMMANDs, one for each job that runs; jobs as JSON lines on "
     "stdin, {\"ack\":ID} or {\"nack\":ID,\"error\":\"...\"} lines back",
     0},
    PASS_STORE,
    {"concurrency", "N", NULL, "commands that run at once (default 1)", 0},
    {"batch", "N", NULL, "jobs in hand at most, running ones included (default: as many as run)",
     0},
    {"lease", "DURATION", NULL,
     "how long a worker that does not respond keeps a job (default: the queue's)", 0},
    {"max-attempts", "N", NULL, "give up a job at this attempt (default: the job's)", 0},
    {"timeout", "DURATION", NULL, "stop a command that takes longer; its job fails", 0},
    {"until-empty", NULL, NULL, "leave when nothing is left to do", 0},
    {"max", "N", NULL, "leave after N jobs", 0},
    {"drain", "DURATION", NULL, "how long commands may go on once it is told to end (default 30s)",
     0},
    CLI_OPTIONS_END};

static const cli_option queue_options[] = {
    {"yes", NULL, NULL, "purge: do it; it cannot be undone", 0}, CLI_OPTIONS_END};

static const cli_option job_options[] = {{"reason", "TEXT", NULL, "cancel: why; it is kept", 0},
                                         CLI_OPTIONS_END};

/* The choices are in the order that log.c relies on. */
static const cli_option log_options[] = {
    {"status", "completed|failed", "completed failed", "only these", 0},
    {"limit", "N", NULL, "at most N jobs", 0},
    {"after", "N", NULL, "positions after N (with --backward: before)", 0},
    {"backward", NULL, NULL, "newest first", 0},
    {"payload", NULL, NULL, "with data and headers", 0},
    CLI_OPTIONS_END};

/* The choices are in the order of the library's values: bind.c relies on it. */
static const cli_option bind_options[] = {
    {"key", "stream|correlation|none", "stream correlation none",
     "what orders the jobs: those of one stream (default), or of one correlation id, run one at a "
     "time, in order",
     0},
    {"from", "beginning|end|N", "beginning end",
     "where a new one begins: N means after sequence N (default beginning)", 0},
    {"replay", "beginning|end|N", "beginning end",
     "of one that exists: move it back or forward to this place", 0},
    CLI_OPTIONS_END};

/* The choices of access-log stand in the order of gw_log_format. */
static const cli_option serve_options[] = {
    {"listen", "ADDRESS:PORT", NULL,
     "where to listen (default 127.0.0.1:4460); port 0 takes a free one", 0},
    {"read-only", NULL, NULL, "refuse everything that changes something", 0},
    {"sessions", "N", NULL, "sessions of the store (default 4)", 0},
    {"connections", "N", NULL, "most connections at once (default 10000)", 0},
    {"streams", "N", NULL, "most streams of events at once (default 10000)", 0},
    {"per-address", "N", NULL, "most connections of one address (default 0: no limit)", 0},
    {"body-max", "BYTES", NULL, "largest body of a request (default 16MiB)", 0},
    {"request-timeout", "DURATION", NULL,
     "how long the headers and the body of a request may take (default 30s)", 0},
    {"idle-timeout", "DURATION", NULL,
     "how long a connection may be without a request, or a client not read (default 75s)", 0},
    {"drain", "DURATION", NULL, "how long an end waits for what runs (default 10s)", 0},
    {"no-webhooks", NULL, NULL, "send nothing to webhooks", 0},
    {"webhooks-private", NULL, NULL,
     "webhooks may lead to addresses that are not public: loopback, private, link-local", 0},
    {"access-log", "off|json|logfmt", "off json logfmt",
     "a line for each request on stderr (default logfmt in a terminal, else json)", 0},
    {"tls-cert", "FILE", NULL, "certificates, PEM: its own first; SIGHUP reads it again", 0},
    {"tls-key", "FILE", NULL, "their key, PEM", 0},
    {"behind-proxy", NULL, NULL, "a proxy speaks TLS, and says who the client is", 0},
    {"require-token", NULL, NULL, "ask for a token, also when there are none", 0},
    {"host", "NAME", NULL, "a name that requests without a token may use, besides localhost",
     CLI_REPEATS},
    {"cors", "ORIGIN", NULL, "pages of this origin may ask", CLI_REPEATS},
    {"may", "RIGHTS", NULL, "token add: some of read,publish,subscribe,work,admin", 0},
    {"pattern", "PATTERN", NULL, "token add: only these types", CLI_REPEATS},
    {"stream", "NAME", NULL, "token add: only this stream; with * at the end: those that begin so",
     CLI_REPEATS},
    {"queue", "NAME", NULL, "token add: only this queue; likewise", CLI_REPEATS},
    CLI_OPTIONS_END};

static const cli_option webhook_options[] = {
    {"url", "URL", NULL, "set: where events are sent, http:// or https://", 0},
    {"pattern", "PATTERN", NULL, "set: only types that match: 'order.*' (default: all)", 0},
    {"stream", "NAME", NULL, "set: only this stream", 0},
    {"header", "NAME=VALUE", NULL, "set: a header of each request; its value is not shown again",
     CLI_REPEATS},
    {"start", "start|end|N", "start end", "set: of a new one, after which event (default end)", 0},
    {"timeout", "DURATION", NULL, "set: of one request (default 10s)", 0},
    {"max-retries", "N", NULL, "set: tries after the first one (default 10)", 0},
    {"retry-delay", "DURATION", NULL, "set: before the second try, then doubled (default 5s)", 0},
    {"max-retry-delay", "DURATION", NULL, "set: the longest (default 1h)", 0},
    {"subscription", "NAME", NULL, "set: its subscription (default webhook.NAME)", 0},
    {"new-secret", NULL, NULL, "set: another secret for one that exists", 0},
    {"reason", "TEXT", NULL, "disable: why; it is kept", 0},
    CLI_OPTIONS_END};

/* The choices of format stand in the order of face_metrics_form. */
static const cli_option metrics_options[] = {
    {"format", "prometheus|openmetrics", "prometheus openmetrics",
     "the text's form (default prometheus)", 0},
    {"output", "FILE", NULL, "into this file, which is whole at every moment", 0},
    CLI_OPTIONS_END};

static const cli_option import_options[] = {
    {"table", "SCHEMA.TABLE", NULL, "the table to take events from", 0},
    {"map", "FIELD=COLUMN", NULL, "which column holds a field; FIELD:=TEXT gives a constant",
     CLI_REPEATS},
    {"batch", "N", NULL, "rows in one transaction (default 1000)", 0},
    CLI_OPTIONS_END};

static const cli_option bench_options[] = {
    {"clients", "N", NULL, "appenders at once; http: clients of the gateway", 0},
    {"seconds", "N", NULL, "how long; 0.1 or more", 0},
    {"payload", "BYTES", NULL, "size of a payload", 0},
    {"streams", "N", NULL, "streams of each appender, taken in turn (default 10; group: 10000)", 0},
    {"events", "N", NULL,
     "how many events (default 1000000, http 100000; asof: a multiple of 1000)", 0},
    {"batch", "N", NULL, "events in one append, or what a worker or member takes at once", 0},
    {"workers", "N", NULL, "queue: how many at once (default 1)", 0},
    {"writers", "N", NULL, "contend: processes that append (default 8)", 0},
    {"jobs", "N", NULL,
     "queue: pushed, then drained, again and again (default: 1000 batches, 10000 to 50000)", 0},
    {"keys", "N", NULL, "queue: the jobs have N ordering keys, in turn (default: none)", 0},
    {"members", "N", NULL,
     "group: how many at once (default 8); fanout, latency: those who listen are a group of so "
     "many",
     0},
    {"through", "members|handlers|sql", "members handlers sql",
     "group: members with a connection each (the default), handlers in the threads of one bus, or, "
     "on PostgreSQL, the SQL functions",
     0},
    {"against", "read|delete|queue", "read delete queue",
     "group: what --ceiling is: connections that only read (the default), one DELETE ... SKIP "
     "LOCKED for each batch of another table, or a queue that is bound to the log",
     0},
    {"handler-us", "N", NULL, "group: an event takes so many microseconds (default 0)", 0},
    {"pin", NULL, NULL, "queue, group: the rate while an old snapshot is held open", 0},
    {"combine", "N", NULL, "append: all clients through one publisher, with N sessions", 0},
    {"rate", "N", NULL, "latency: appends a second (default 100)", 0},
    {"subscriptions", "N", NULL, "fanout: how many are live (default 10)", 0},
    {"pattern-share", "N", NULL,
     "deliver: also to a filtered subscription, whose type one in N events has", 0},
    {"holes", "N", NULL,
     "deliver: with N burnt numbers between the events, under an appender that stays open", 0},
    {"of", "WHAT", "stream type append append-valid batch read group live idle",
     "asof: stream (the default), type, or, on PostgreSQL, append and append-valid; http: append, "
     "batch, read, group, live or idle (default: all, in turn)",
     0},
    {"ceiling", NULL, NULL, "measure what the store can do at most in the same run", 0},
    CLI_OPTIONS_END};

static const char bench_about[] =
    "append, append-batch and read: how many events a second.  deliver: a whole log to a new "
    "subscription.  latency: from the call of an append to the handler, at a given rate.  "
    "fanout: appends while subscriptions are live.  queue: how fast workers drain a queue.  group: "
    "how fast members that share a subscription bring a log to its end.  http: what the way over a "
    "gateway costs, which is started for it.  asof: "
    "what two times cost.  contend: processes that append without a pause: whether each gets its "
    "share, how long they wait, and how a subscription next to them does; exit code 1 when an "
    "append failed.  Every run uses a bus of its own, which is removed at the end.  --ceiling "
    "compares with the plainest statements that do the same, fanout with a bus that nobody "
    "listens to, contend with one writer alone, and http with the library, or, for single appends, "
    "with the store.";

static const char serve_about[] =
    "JSON over HTTP/1.1: append, read, share subscriptions and work, look after them.  GET "
    "/openapi.json describes all of it.\n\n"
    "Without a token everybody on this machine may do everything, so it listens on loopback only, "
    "and takes no requests of other pages that a browser shows.  Once there is one, every request "
    "needs one.  Any other address needs tokens and TLS (or --behind-proxy).  token add prints a "
    "token once; only its hash is stored.  A token with --pattern, --stream or --queue sees and "
    "does nothing else.\n\n"
    "A file that does not exist yet is made.  A store that is away for a while is waited for: "
    "requests are answered with 503 meanwhile, and /readyz says what is missing.  SIGTERM ends it "
    "in order: it accepts nothing more, and finishes what runs.";

static const char webhook_about[] =
    "A webhook is a shared subscription whose events the gateways (howdah serve) send to an "
    "address, each as a POST with its JSON, signed as Standard Webhooks says.  2xx is an ack; "
    "anything else is tried again by the subscription's schedule, and after the last try is a dead "
    "letter (howdah dlq).  410 disables the webhook.\n\n"
    "set makes one, or changes it as a whole, and prints the secret of a new one: it is not shown "
    "again.  Filter, start and retries belong to the subscription: one that exists stays as it is. "
    " rm leaves the subscription with its place (howdah sub rm).";

static const char status_about[] =
    "Cheap enough to run every few seconds: for queues it counts the jobs that wait or are under "
    "way, not their history; howdah queue ls counts that too.  dead_letters counts those that "
    "nobody has resolved, of subscriptions and queues.  What this user may not see is left out, or "
    "null.";

static const char metrics_about[] =
    "The log, holes and who keeps them open, each subscription's lag and state, each queue's jobs "
    "and the age of the oldest: the same as GET /metrics of a gateway, without what only a gateway "
    "knows.  At most 500 subscriptions and 500 queues have lines of their own, those with the most "
    "to do; the others are summed up as \"(other)\".  With --output the file is replaced as a "
    "whole, "
    "and when the store cannot be asked it says howdah_up 0, and the exit code why.";

static const char verify_about[] =
    "Checks a live store, without blocking anyone: whether every job that was pushed is in exactly "
    "one place, keys and dedup keys belong to jobs that exist, subscriptions are at a place that "
    "the log has, streams have all their versions, corrections follow each other, and purged "
    "events have no payload; on SQLite also whether every event is there, and as it was stored.  "
    "What workers are about to repair does not count as wrong.  Exit code 1 when something is "
    "wrong.";

static const char append_about[] =
    "The payload is JSON, stored exactly as given; - reads it from stdin, @FILE from a file; "
    "without one it is {}.  The answer is the event's position.\n\n"
    "A line of --batch has stream and type, and may have data (any JSON) or data_base64 and "
    "content_type, headers, id, correlation_id, causation_id, actor, valid_time, "
    "schema_version, expect.  What howdah read prints is accepted as well, so "
    "howdah read | howdah append --batch copies a log without corrections and purges.  All lines "
    "are one transaction of at most 100,000 events; more need --tx-size.  Lines with an id can be "
    "sent again: what is stored already is not stored twice, so a run that was cut off can be "
    "repeated.\n\n"
    "--correct appends the next revision of an event, named by any id of its family; nothing is "
    "rewritten.  Data, --header and --valid-time that are left out stay as they are in the newest "
    "revision; --header replaces all headers.  Exit code 3 when somebody else has corrected it, or "
    "it is not at --expect-revision; the message names its revision.";

static const char read_about[] =
    "Prints events in order of version (with --stream) or of global sequence.  In a pipe each "
    "is one line of JSON; in a terminal a row of a table, its payload cut to the width, after "
    "\"(rev 2)\" when it is a correction.  "
    "A pattern is segments joined by dots: * stands for exactly one, a last > for one or more.\n\n"
    "--known-at, --valid-at and --current read as of a moment: the revision of each event that was "
    "known then, without what was retracted.  With --known-at each line ends with \"final\": true "
    "when no open transaction can still add to the answer; otherwise a message names the one it "
    "waits for.  --count says so for an empty answer, too.  Times are RFC 3339 with an offset: "
    "2026-01-31T09:30:00Z.";

static const char diff_about[] =
    "What changed in our knowledge between two moments: a line for each event that is not as it "
    "was.  \"change\" is added, corrected, retracted or restored; before and after have the event. "
    " "
    "What was both added and retracted in between is no change.  In a terminal + ~ - and ^ mark "
    "them, with the members that changed.";

static const char purge_about[] =
    "Erases payload and headers of events, and what was made of them: dead letters, snapshots of "
    "the stream, and jobs of bindings, in one transaction with a record of who, when and why.  "
    "Sequence, stream, type, times and reasons stay, so that nothing else breaks.  Without --yes "
    "it says how many events it would erase, with exit code 2.  The answer is the record; left "
    "counts revisions of the same events that kept their payload.  ls lists all records.\n\n"
    "Running processes may still hold what they have read.  On PostgreSQL the next vacuum removes "
    "it from the data files; WAL and backups keep it until they are deleted.  In a SQLite file it "
    "is overwritten.";

static const char snapshot_about[] =
    "The state of a stream at one of its versions, as you computed it, so that you do not have to "
    "read every event again.  put replaces a snapshot of the same version.  get prints the nearest "
    "one at or below a version.  state prints {\"snapshot\":...}, null without one, and then the "
    "events after it.  A purge of the stream removes its snapshots.";

static const char import_about[] =
    "Takes events from a table of the same database, in the order (created_at, id).  Fields: "
    "id, stream, type, data, created_at (found by their usual names when not mapped), headers, "
    "correlation_id, causation_id, actor, schema_version.  It can be killed and run again: it "
    "continues after the last row it took.";

static const char subscribe_about[] =
    "A named, durable place in the log: run it again and it continues where it was.  Every "
    "committed event that matches is handled at least once, each stream in order.  Without "
    "--exec each event is printed as howdah follow does, and counts as handled once its line is "
    "written.  With --exec the event's JSON is on COMMAND's stdin and its id, type, stream, "
    "sequence, try and subscriber in HOWDAH_EVENT_ID, HOWDAH_EVENT_TYPE, HOWDAH_STREAM, "
    "HOWDAH_SEQUENCE, HOWDAH_ATTEMPT and HOWDAH_SUBSCRIBER; the last lines of its stderr are the "
    "error when it fails.  " STORE_OF_COMMANDS "\n\n"
    "Ctrl-C and SIGTERM end it after the command that is running; the place is stored and another "
    "process can take over at once.  SIGTERM gives exit code 0.  A halted subscription ends it "
    "with exit code 1.  While another process owns the subscription this one stands by; with "
    "--until-caught-up it also leaves when the owner has handled everything.  --max 0 only makes "
    "the subscription.\n\n"
    "With --shared the name is a group: every process that runs it, and every SQL session that "
    "calls fetch(), takes other events; each stream in order, one member at a time.  A member's "
    "events come again when its lease has ended.  Options that describe the group count when it is "
    "made; howdah sub unshare makes it one of a single process again.  With --exec-lines "
    "{\"ack\":N} "
    "says that all events that COMMAND has got up to N are handled, but for those that a nack has "
    "named.  When COMMAND ends with events in hand, the first that it did not answer for has "
    "failed, "
    "and it is started again.";

static const char sub_about[] =
    "ls and show print where subscriptions are; state is live, behind, paused, halted, or waiting "
    "(nobody owns it now).  reset moves one, even while it runs.  pause stops it until resume, "
    "which also releases a halted one.  rm refuses with exit code 3 while a process owns it, or "
    "members have batches of it; dead letters stay.  show lists the members of a shared one that "
    "have batches; unshare makes it one of a single process again, where it is.  wait returns when "
    "everything that was in the log when it started is handled "
    "and stored; exit code 1 when the time is up or the subscription is halted.  skips lists the "
    "numbers that --gap-policy timeout gave up.";

static const char dlq_about[] =
    "A dead letter is an event that a subscription could not handle, even on its last try, with "
    "the "
    "error and a copy of the event; or a job that has failed.  redrive asks the subscription's "
    "owner, the present or the next one, to try again, or makes the job pending again with all "
    "its attempts: the dead letter is resolved when that succeeds.  discard resolves it without "
    "another try, and frees a key that the job holds.  redrive --all takes the dead letters of "
    "subscriptions and of jobs, unless --sub or --queue says whose.  Naming one that does not "
    "exist or is resolved gives exit code 4; the others are marked all the same.  A job whose "
    "dedup key another job has also gives exit code 4, and stays as it is.";

static const char push_about[] =
    "The payload is JSON, stored exactly as given; - reads it from stdin, @FILE from a file; "
    "without one it is {}.  The queue is made if it does not exist.  The answer is the job's id; "
    "\"existed\" "
    "says that a job with the same --dedup key was there, and nothing was stored.\n\n"
    "A line of --batch is an object: data (any JSON) or data_base64 and content_type, headers, "
    "delay, run_at, priority, max_attempts, key, dedup, correlation_id, causation_id.  The "
    "options give what a line leaves out.";

static const char work_about[] =
    "Takes jobs of a queue under a lease and runs COMMAND for each: the job's JSON is on its "
    "stdin, its id, queue and attempt in HOWDAH_JOB_ID, HOWDAH_QUEUE, HOWDAH_ATTEMPT and "
    "HOWDAH_MAX_ATTEMPTS.  What it prints is kept as the result (64 KiB at most), the last lines "
    "of its stderr are the error when it fails.  " STORE_OF_COMMANDS
    "  Exit code 75 (EX_TEMPFAIL) sends the job back for "
    "another try after the queue's back-off.  Leases are extended while a command runs; when a "
    "worker dies, others take its jobs once their leases run out.\n\n"
    "Ctrl-C and SIGTERM end it after the commands that are running; jobs that were not begun are "
    "given back at once.  SIGTERM gives exit code 0.  --until-empty waits for tries that this "
    "worker asked for, not for jobs that were pushed for later.\n\n"
    "With --exec-lines a command gets one job at a time as a line, and answers with a line: "
    "{\"ack\":ID,\"result\":...} for done, {\"nack\":ID,\"error\":\"...\"} for another try, and "
    "with "
    "\"final\":true for failed.  A command that ends without an answer, or takes longer than "
    "--timeout, costs its job a try and is started again.";

#define QUEUE_SETTING_HELP(key, member, unit, min, max, def, range, zero, help)                    \
    "  " #key " (" def "): " help "\n"

static const char queue_about[] =
    "ls and show count the jobs of queues: pending (due), processing (under a lease), scheduled "
    "(due later, or waiting for another job of their key), completed and failed.  set makes a "
    "queue or changes it:\n\n" HOWDAH_QUEUE_SETTING_LIST(
        QUEUE_SETTING_HELP) "\nA paused queue accepts jobs and hands out none.  purge removes "
                            "every job that is not under way.";

static const char job_about[] =
    "show prints a job, even one that has ended.  retry makes a waiting job due now, and a failed "
    "one pending again with all its attempts.  cancel ends a waiting job.  Exit code 3 when the "
    "job is under way or has ended.";

static const char log_about[] =
    "The history of a queue: jobs that have completed or failed, in the order in which they ended, "
    "with attempts, times, worker, error and result.";

static const char bind_about[] =
    "Every event that matches becomes a job of the queue, exactly once, in the order of the log; "
    "a stream's jobs run one at a time, in order, and do not delay other streams.  The job has "
    "the event's data and headers, its type and stream, and names it as its cause.  howdah work "
    "QUEUE does the rest: each of its processes can route the events, and one at a time does.\n\n"
    "Binding again changes nothing; another --key gives exit code 3: unbind first.  --replay N "
    "makes jobs of the events after N, whether they became jobs before or not.";

const cli_command cli_commands[] = {
    {.name = "init",
     .group = "Set up",
     .summary = "create the schema or migrate it",
     .usage = {"init"},
     .about = "Safe to run again, and safe when two start at once.",
     .examples = {"howdah init", "howdah init --store postgres://app@db/shop --schema orders"},
     .run = cmd_init},
    {.name = "migrate",
     .group = "Set up",
     .summary = "show, apply or print the steps of the schema",
     .usage = {"migrate status", "migrate up", "migrate print"},
     .about = "up also raises the log's sequence when it is lower than the numbers in the log, as "
              "in a copy of the tables without their sequences.  print writes the SQL for a DBA; "
              "it needs no connection.",
     .words = "status up print",
     .examples = {"howdah migrate status", "howdah migrate print --store postgres: > howdah.sql"},
     .run = cmd_migrate},
    {.name = "import",
     .group = "Set up",
     .summary = "adopt the events of an existing table",
     .usage = {"import --table SCHEMA.TABLE [--map FIELD=COLUMN]... [--batch N]"},
     .about = import_about,
     .options = import_options,
     .examples = {"howdah import --table public.order_events --map stream=aggregate_id",
                  "howdah import --table audit --map type:=audit.entry --map data=body"},
     .run = cmd_import},
    {.name = "append",
     .group = "Events",
     .summary = "append one event, or many from JSON lines",
     .usage = {"append STREAM TYPE [JSON | - | @FILE] [OPTIONS]",
               "append --correct UUID --reason TEXT [STREAM TYPE] [JSON | - | @FILE]",
               "append --correct UUID --reason TEXT --retract", "append --batch [OPTIONS]"},
     .about = append_about,
     .options = append_options,
     .examples =
         {"howdah append order-1 order.created '{\"total\":12}' --expect none",
          "howdah append scan-7 scan.stored @scan.png --bytes image/png",
          "howdah append --batch --tx-size 10000 < events.jsonl",
          "howdah read | howdah append --batch --store sqlite:copy.db",
          "howdah append account-7 payment.made '{}' --valid-time 2026-01-05T00:00:00Z",
          "howdah append --correct \"$ID\" --actor eve --reason 'typing error' '{\"total\":21}'",
          "howdah append --correct \"$ID\" --actor eve --reason 'booked twice' --retract",
          "howdah append --correct \"$ID\" --expect-revision 2 --reason typo '{\"n\":2}'"},
     .run = cmd_append},
    {.name = "read",
     .group = "Events",
     .summary = "print events",
     .usage = {"read [OPTIONS]", "read --stream NAME --last", "read --id UUID",
               "read --known-at TIME [--valid-at TIME] [OPTIONS]", "read --versions UUID",
               "read --count | --stats | --streams [OPTIONS]"},
     .about = read_about,
     .options = read_options,
     .examples = {"howdah read --stream order-1", "howdah read --pattern 'order.*' --limit 10",
                  "howdah read --backward --limit 1 --json | jq .data",
                  "howdah read --stream account-7 --known-at 2026-01-31T23:59:59Z",
                  "howdah read --versions 0198a1b2-0000-7000-8000-0000000000aa",
                  "howdah read --current --order valid --header region=eu"},
     .run = cmd_read},
    {.name = "diff",
     .group = "Events",
     .summary = "print what changed in our knowledge between two moments",
     .usage = {"diff --known-at TIME [--to TIME] [OPTIONS]"},
     .about = diff_about,
     .options = diff_options,
     .examples = {"howdah diff --known-at 2026-01-31T23:59:59Z",
                  "howdah diff --known-at 2026-01-31T23:59:59Z --to 2026-02-28T23:59:59Z --stream "
                  "account-7"},
     .run = cmd_diff},
    {.name = "follow",
     .group = "Events",
     .summary = "print events as they appear",
     .usage = {"follow [--pattern P] [--stream S] [--since N] [--max N] [OPTIONS]"},
     .about = "A live tail without a checkpoint.  Ctrl-C ends it.  With --places each line of JSON "
              "says where it stands; with --place another run goes on after that line, and misses "
              "nothing that commits late.",
     .options = follow_options,
     .examples = {"howdah follow", "howdah follow --pattern 'order.>' --since 0 --max 100",
                  "howdah follow --stream order-7 --since 0 --places"},
     .run = cmd_follow},
    {.name = "trace",
     .group = "Events",
     .summary = "print the causation tree around an event",
     .usage = {"trace EVENT_ID"},
     .about = "Its causes up to the root, itself, and all that it caused.  In a pipe each line has "
              "\"depth\": below 0 for causes, 0 for the event, above 0 for what it caused.",
     .examples = {"howdah trace 0198a1b2-0000-7000-8000-0000000000aa"},
     .run = cmd_trace},
    {.name = "snapshot",
     .group = "Events",
     .summary = "keep the state of a stream at one of its versions",
     .usage = {"snapshot ls [STREAM]", "snapshot put STREAM VERSION JSON|-|@FILE [--keep N]",
               "snapshot get STREAM [--version N]", "snapshot rm STREAM [--upto N] --yes",
               "snapshot state STREAM [--version N]"},
     .about = snapshot_about,
     .words = "ls put get rm state",
     .options = snapshot_options,
     .examples = {"howdah snapshot put account-7 1000 '{\"balance\":12}' --keep 3",
                  "howdah snapshot get account-7 --version 800", "howdah snapshot state account-7",
                  "howdah snapshot rm account-7 --upto 500 --yes"},
     .run = cmd_snapshot},
    {.name = "purge",
     .group = "Events",
     .summary = "erase payloads for good, and keep who, when and why",
     .usage = {"purge UUID... [--families] --reason TEXT [--actor NAME] --yes",
               "purge --stream NAME --reason TEXT [--actor NAME] --yes", "purge ls"},
     .about = purge_about,
     .words = "ls",
     .options = purge_options,
     .examples = {"howdah purge --stream customer-7 --reason 'request 4711' --actor eve --yes",
                  "howdah purge \"$ID\" --families --reason 'request 4711' --actor eve --yes",
                  "howdah purge ls"},
     .run = cmd_purge},
    {.name = "subscribe",
     .group = "Subscriptions",
     .summary = "handle every event once it is committed, durably",
     .usage = {"subscribe NAME [--pattern P] [--stream S] [--exec COMMAND] [OPTIONS]"},
     .about = subscribe_about,
     .options = subscribe_options,
     .examples = {"howdah subscribe audit --until-caught-up >> audit.jsonl",
                  "howdah subscribe mail --pattern 'order.*' --from end --exec ./send-mail",
                  "howdah subscribe sums --exec 'jq .data.total >> sums' --max-retries 5",
                  "howdah subscribe ledger --stream account-7 --originals --until-caught-up",
                  "howdah subscribe later --from end --max 0",
                  "howdah subscribe mail --shared --concurrency 4 --exec ./send-mail",
                  "howdah subscribe sums --shared --batch 500 --exec-lines ./sums.py"},
     .run = cmd_subscribe},
    {.name = "sub",
     .group = "Subscriptions",
     .summary = "list, show, move, pause and remove subscriptions",
     .usage = {"sub ls", "sub show NAME", "sub reset NAME --to start|end|N|TIME",
               "sub pause NAME [--reason TEXT]", "sub resume|rm|unshare NAME",
               "sub wait NAME [--timeout D]", "sub skips [NAME] [--all]",
               "sub resolve ID --reason TEXT"},
     .about = sub_about,
     .words = "ls show reset pause resume rm unshare wait skips resolve",
     .options = sub_options,
     .examples = {"howdah sub ls", "howdah sub show mail --json | jq .lag",
                  "howdah sub reset mail --to start", "howdah sub wait mail --timeout 30s"},
     .run = cmd_sub},
    {.name = "dlq",
     .group = "Subscriptions",
     .summary = "list dead letters, try them again or discard them",
     .usage = {"dlq ls [--sub NAME | --queue NAME] [--all-states] [--limit N]", "dlq show ID",
               "dlq redrive ID... | --all [--sub NAME | --queue NAME]",
               "dlq discard ID... | --all --queue NAME --reason TEXT"},
     .about = dlq_about,
     .words = "ls show redrive discard",
     .options = dlq_options,
     .examples = {"howdah dlq ls --sub mail", "howdah dlq redrive --all --queue mail",
                  "howdah dlq discard 7 --reason 'a test order'"},
     .run = cmd_dlq},
    {.name = "push",
     .group = "Queues",
     .summary = "push a job, or many from JSON lines",
     .usage = {"push QUEUE [JSON | - | @FILE] [OPTIONS]", "push QUEUE --batch [OPTIONS]"},
     .about = push_about,
     .options = push_options,
     .examples = {"howdah push mail '{\"to\":\"ann\"}'",
                  "howdah push mail '{\"to\":\"ann\"}' --delay 5m --dedup welcome-ann",
                  "howdah push invoices @order.json --key customer-7 --priority -5",
                  "howdah push mail --batch < jobs.jsonl"},
     .run = cmd_push},
    {.name = "work",
     .group = "Queues",
     .summary = "run a command for each job of a queue",
     .usage = {"work QUEUE --exec COMMAND [OPTIONS]", "work QUEUE --exec-lines COMMAND [OPTIONS]"},
     .about = work_about,
     .options = work_options,
     .examples = {"howdah work mail --exec ./send-mail --concurrency 8",
                  "howdah work mail --exec 'jq -r .data.to | xargs notify' --until-empty",
                  "howdah work mail --exec-lines ./mailer.py --concurrency 4",
                  "howdah work video --exec ./encode --lease 10m --timeout 1h"},
     .run = cmd_work},
    {.name = "queue",
     .group = "Queues",
     .summary = "list, show, set, pause and purge queues",
     .usage = {"queue ls", "queue show QUEUE", "queue set QUEUE [KEY=VALUE]...",
               "queue pause|resume QUEUE", "queue purge QUEUE --yes"},
     .about = queue_about,
     .words = "ls show set pause resume purge",
     .options = queue_options,
     .examples = {"howdah queue ls", "howdah queue show mail --json | jq .pending",
                  "howdah queue set mail max_attempts=10 abandon_after=30s"},
     .run = cmd_queue},
    {.name = "job",
     .group = "Queues",
     .summary = "show a job, try it again or cancel it",
     .usage = {"job show|retry ID", "job cancel ID [--reason TEXT]"},
     .about = job_about,
     .words = "show retry cancel",
     .options = job_options,
     .examples = {"howdah job show 12", "howdah job cancel 12 --reason 'not wanted any more'"},
     .run = cmd_job},
    {.name = "log",
     .group = "Queues",
     .summary = "print the jobs of a queue that have ended",
     .usage = {"log QUEUE [--status completed|failed] [--limit N] [OPTIONS]"},
     .about = log_about,
     .options = log_options,
     .examples = {"howdah log mail --backward --limit 10",
                  "howdah log mail --status failed --json | jq .error"},
     .run = cmd_log},
    {.name = "bind",
     .group = "Queues",
     .summary = "make a job of every event that matches a pattern",
     .usage = {"bind QUEUE PATTERN [--key K] [--from beginning|end|N]",
               "bind QUEUE PATTERN --replay beginning|end|N"},
     .about = bind_about,
     .options = bind_options,
     .examples = {"howdah bind mail 'order.*'", "howdah bind audit '>' --key none --from end",
                  "howdah bind mail 'order.*' --replay 1000"},
     .run = cmd_bind},
    {.name = "unbind",
     .group = "Queues",
     .summary = "make no more jobs of a pattern's events",
     .usage = {"unbind QUEUE PATTERN"},
     .about = "Jobs that were made stay.  Exit code 4 when it is not bound.",
     .examples = {"howdah unbind mail 'order.*'"},
     .run = cmd_unbind},
    {.name = "bindings",
     .group = "Queues",
     .summary = "list which events become jobs of which queue",
     .usage = {"bindings [QUEUE]"},
     .about = "lag says how many numbers of the log the binding still has to look at; state and "
              "owner are those of the binding's own subscription, which subscriber_id names.",
     .examples = {"howdah bindings", "howdah bindings mail --json | jq .lag"},
     .run = cmd_bindings},
    {.name = "serve",
     .group = "Maintenance",
     .summary = "serve the bus over HTTP",
     .usage = {"serve [OPTIONS]", "serve token add NAME --may RIGHTS [SCOPES]", "serve token ls",
               "serve token rm NAME"},
     .words = "token",
     .about = serve_about,
     .options = serve_options,
     .examples = {"howdah serve", "howdah serve --listen 127.0.0.1:8080 --read-only",
                  "howdah serve --store postgres://app@db/shop --sessions 8",
                  "howdah serve token add shop --may publish,read --pattern 'order.*'",
                  "howdah serve --listen 0.0.0.0:443 --tls-cert cert.pem --tls-key key.pem"},
     .run = cmd_serve},
    {.name = "webhook",
     .group = "Maintenance",
     .summary = "list, set, enable, disable and remove webhooks",
     .usage = {"webhook ls", "webhook show NAME", "webhook set NAME --url URL [OPTIONS]",
               "webhook enable NAME", "webhook disable NAME [--reason TEXT]", "webhook rm NAME"},
     .about = webhook_about,
     .words = "ls show set enable disable rm",
     .options = webhook_options,
     .examples = {"howdah webhook set shop --url https://shop.example/hook --pattern 'order.*'",
                  "howdah webhook ls", "howdah webhook show shop --json | jq .lag",
                  "howdah webhook enable shop"},
     .run = cmd_webhook},
    {.name = "status",
     .group = "Maintenance",
     .summary = "print facts about the bus, its subscriptions and queues",
     .usage = {"status"},
     .about = status_about,
     .examples = {"howdah status", "howdah status --json | jq .head",
                  "howdah status --json | jq '.queues[] | select(.oldest_age_s > 60)'"},
     .run = cmd_status},
    {.name = "metrics",
     .group = "Maintenance",
     .summary = "print numbers for a monitor, as Prometheus reads them",
     .usage = {"metrics [--format prometheus|openmetrics] [--output FILE]"},
     .about = metrics_about,
     .options = metrics_options,
     .examples = {"howdah metrics",
                  "howdah metrics --output /var/lib/prometheus/node-exporter/howdah.prom",
                  "howdah metrics | grep '^howdah_subscription_lag_seconds'"},
     .run = cmd_metrics},
    {.name = "doctor",
     .group = "Maintenance",
     .summary = "check server, schema, privileges and durability",
     .usage = {"doctor"},
     .about = "Says what to do about each finding.  Exit code 1 when something is broken.",
     .examples = {"howdah doctor", "howdah doctor --store postgres://app@db/shop"},
     .run = cmd_doctor},
    {.name = "verify",
     .group = "Maintenance",
     .summary = "check that what is stored is consistent",
     .usage = {"verify"},
     .about = verify_about,
     .examples = {"howdah verify",
                  "howdah verify --json | jq -r 'select(.severity == \"bad\").message'"},
     .run = cmd_verify},
    {.name = "bench",
     .group = "Maintenance",
     .summary = "measure appends, reads and deliveries against their ceiling",
     .usage = {"bench append|append-batch|read|deliver [OPTIONS]",
               "bench latency|fanout|queue|group|http|asof|contend [OPTIONS]"},
     .words = "append append-batch read deliver latency fanout queue group http asof contend",
     .about = bench_about,
     .options = bench_options,
     .examples = {"howdah bench append --clients 8 --seconds 5 --ceiling",
                  "howdah bench append --combine 1 --clients 64 --ceiling",
                  "howdah bench latency --rate 1000 --ceiling",
                  "howdah bench asof --of type --events 100000",
                  "howdah bench group --members 8 --batch 100 --ceiling",
                  "howdah bench http --of append --ceiling",
                  "howdah bench contend --writers 8 --seconds 5"},
     .run = cmd_bench},
    {.name = "settings",
     .group = "Help",
     .summary = "list the settings, their variables and defaults",
     .usage = {"settings"},
     .examples = {"howdah settings", "howdah read --set read_batch=5000"},
     .run = cmd_settings},
    {.name = "completion",
     .group = "Help",
     .summary = "print the completion script of a shell",
     .usage = {"completion bash|zsh|fish"},
     .words = "bash zsh fish",
     .examples = {"eval \"$(howdah completion bash)\"",
                  "howdah completion fish > ~/.config/fish/completions/howdah.fish"},
     .run = cmd_completion},
    {.name = "help",
     .group = "Help",
     .summary = "explain a command",
     .usage = {"help [COMMAND]"},
     .examples = {"howdah help append"},
     .run = cmd_help},
    {.name = NULL}};

const cli_command *cli_command_find(const char *name)
{
    for (const cli_command *c = cli_commands; c->name; c++)
        if (strcmp(c->name, name) == 0)
            return c;
    return NULL;
}

bool cli_command_is_later(const char *name)
{
    static const char *const later[] = {"top"};

    for (size_t i = 0; i < sizeof later / sizeof *later; i++)
        if (strcmp(later[i], name) == 0)
            return true;
    return false;
}
