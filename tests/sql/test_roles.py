#!/usr/bin/env python3
"""Role by operation: what each may do, and nothing else."""
import os
import sys

from bus import Bus, command, psql, run, url_of
from session import sessions

SCHEMA = "roles_%d" % os.getpid()
bus = Bus("roles", schema=SCHEMA)
DENIED = "42501"
ID = "0190a5c8-7b1e-7cc0-8000-000000000001"

# A login for each role, one with none, and some with two of them.
LOGINS = {"router": ["work", "subscribe"], "publish": ["publish"], "read": ["read"], "subscribe": ["subscribe"], "work": ["work"], "admin": ["admin"],
          "nobody": [], "both": ["publish", "read"]}

APPENDS = {
    "append": "SELECT FROM {}.append('s', 'a')",
    "append_batch": "SELECT FROM {}.append_batch('[{\"stream\":\"s\",\"type\":\"a\",\"valid_time\":"
                    "\"2026-01-31T09:30:00Z\"}]')",
    "append_arrays": "SELECT FROM {}.append_arrays(NULL, '{s}', '{a}', '{1}', NULL, NULL, NULL, NULL,"
                     " NULL, NULL, NULL, NULL, NULL)",
    "event_problem": "SELECT {}.event_problem('s', 'a', '[\"\\u0041\"]', '{\"a\":\"b\"}', 'c', 'd', NULL,"
                     " 1, NULL, NULL, 100)",
    "uuid_v7": "SELECT {}.uuid_v7()",
    "push_problem": "SELECT {}.push_problem('1', NULL, NULL, NULL, 0, NULL, 0, 0, NULL, NULL, NULL, 100)",
}
APPENDS.update({
    "append_correction": "SELECT FROM {}.append_correction('%s', NULL, '1', NULL, NULL, NULL, 1, NULL, NULL, 'r', false, false)" % ID,
    "correct": "SELECT FROM {}.append('s', 'a') AS a, {}.correct(a.event_id, '1', reason => 'r')",
    "retract": "SELECT FROM {}.append('s', 'a') AS a, {}.retract(a.event_id, 'r')",
    "snapshot_store": "SELECT {}.snapshot_store('s', 1, '{}')",
    "snapshot_remove": "SELECT {}.snapshot_remove('s')",
})
READS = {
    "read_stream": "SELECT FROM {}.read_stream('s')",
    "read_all": "SELECT FROM {}.read_all(pattern => 'a.*')",
    "read_events": "SELECT FROM {}.read_events('s', NULL, NULL, NULL, NULL, NULL, 1, false)",
    "read_ids": "SELECT FROM {}.read_ids(ARRAY['%s']::uuid[])" % ID,
    "read_ranges": "SELECT FROM {}.read_ranges('{1}', '{2}', 1)",
    "last_event": "SELECT FROM {}.last_event('s')",
    "by_correlation": "SELECT FROM {}.by_correlation('c')",
    "causation_tree": "SELECT FROM {}.causation_tree('%s')" % ID,
    "stream_version": "SELECT {}.stream_version('s')",
    "head": "SELECT {}.head()", "first_since": "SELECT {}.first_since(now())",
    "pattern_regex": "SELECT {}.pattern_regex('a.*')",
    "query_events": "SELECT FROM {}.query_events()",
    "query_pin": "SELECT {}.query_pin()",
    "query_page": "SELECT FROM {}.query_page(%s, 'sequence', false, 1, NULL, NULL)",
    "query_keys": "SELECT FROM {}.query_keys(%s, 'valid', false, 1, NULL, NULL)",
    "query_rows": "SELECT FROM {}.query_rows('{1}')",
    "query_count": "SELECT {}.query_count(%s)", "query_types": "SELECT FROM {}.query_types(%s)",
    "query_streams": "SELECT {}.query_streams(%s, NULL, 1)",
    "as_of": "SELECT FROM {}.as_of()", "current_events": "SELECT FROM {}.current_events('s')",
    "versions": "SELECT FROM {}.versions('%s')" % ID, "family_of": "SELECT {}.family_of('%s')" % ID,
    "diff": "SELECT FROM {}.diff('2020-01-01')", "type_stats": "SELECT FROM {}.type_stats()",
    "streams_of_type": "SELECT {}.streams_of_type('a')",
    "knowledge": "SELECT FROM {}.knowledge()", "knowledge_of": "SELECT FROM {}.knowledge_of('2020-01-01')",
    "snapshot_load": "SELECT FROM {}.snapshot_load('s')", "snapshot_list": "SELECT FROM {}.snapshot_list()",
    "times_findings": "SELECT FROM {}.times_findings()",
    "log_here": "SELECT FROM {}.log_here(1)", "log_stored": "SELECT FROM {}.log_stored(1, 2, 3)",
    "log_proven": "SELECT FROM {}.log_proven()",
}
QUERY = "ROW('as_of'%s)::{}.query" % (", NULL" * 16)
READS = {name: text.replace("%s", QUERY) for name, text in READS.items()}
BOTH = {"schema_version": "SELECT {}.schema_version()", "channel": "SELECT {}.channel('a.b')",
        "token_list": "SELECT FROM {}.token_list()", "token_used": "SELECT {}.token_used('t')"}
LOOKS = {"sequence_problem": "SELECT {}.sequence_problem()", "log_numbers": "SELECT FROM {}.log_numbers()"}
RINGS = {"ring": "SELECT {}.ring('{a.b}')"}
APPENDS["ring_inside"] = "SELECT {}.ring_inside('{a.b}')"
PUSHES = {
    "push": "SELECT {}.push('q', key => 'k', dedup => 'd')",
    "push_batch": "SELECT {}.push_batch('q', ARRAY['1']::json[])",
    "push_arrays": "SELECT FROM {}.push_arrays('q', ARRAY['1']::json[], NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,"
                   " NULL, NULL, NULL)",
    "publish": "SELECT {}.publish('q', '1')",
}
WORKS = {
    "claim": "SELECT FROM {}.claim('q', 10, lease => '1 ms')",
    "claim_jobs": "SELECT FROM {}.claim_jobs('q', 1, 'w', 1, true, true, NULL, NULL, NULL)",
    "poll": "SELECT FROM {}.poll('q')",
    "ack_jobs": "SELECT {}.ack_jobs('{1,2}', '{1,1}', '{1,2}', NULL, NULL)",
    "exchange_one": "SELECT {}.exchange_one(1, 1, true, false, 'q', 'w', 1, 1, '-infinity', 0)",
    "complete": "SELECT {}.complete(1, 1), {}.complete('{1}'::bigint[], '{1}')",
    "fail": "SELECT {}.fail(1, 1)", "retry": "SELECT {}.retry(1, 1)", "release": "SELECT {}.release(1, 1)",
    "extend": "SELECT {}.extend(1, 1)", "finalize": "SELECT {}.finalize(1, true)",
    "queue_outlook": "SELECT FROM {}.queue_outlook('q')", "push_horizon": "SELECT {}.push_horizon()",
    "queue_states": "SELECT FROM {}.queue_states()", "queue_summary": "SELECT FROM {}.queue_summary()",
    "queue_tidy": "SELECT {}.queue_tidy('q')", "queue_findings": "SELECT FROM {}.queue_findings()", "queue_history": "SELECT FROM {}.queue_history('q')",
    "job_states": "SELECT FROM {}.job_states(1)", "job_dead_letter_states": "SELECT FROM {}.job_dead_letter_states()",
    "queue_bindings": "SELECT FROM {}.queue_bindings()", "queue_arm": "SELECT {}.queue_arm('q')",
    "head": "SELECT {}.head()", "first_since": "SELECT {}.first_since(now())",
}
# It takes both the rights of a worker and those of a reader of the log.
SHARES = {
    "subscribe": "SELECT {}.subscribe('g', start => 'end')",
    "group_fetch": "SELECT {}.group_fetch('g', 1, 'm', '1 second', NULL)", "fetch": "SELECT FROM {}.fetch('g')",
    "group_reserve": "SELECT FROM {}.group_reserve('g', 'm', 1, 5, 1000)",
    "group_take_range": "SELECT FROM {}.group_take_range('g', 1, 2, NULL, 10, 1000)",
    "group_has_range": "SELECT {}.group_has_range('g', 1, 1) LIMIT 0",
    "group_reserve_extend": "SELECT {}.group_reserve_extend('g', 1, 1000)",
    "group_end_ranges": "SELECT FROM {}.group_end_ranges('g', 1, 0, 0, 0, 0, '{}', '{}', 1000)",
    "group_members": "SELECT FROM {}.group_members('g')", "group_outlook": "SELECT FROM {}.group_outlook('g')",
    "group_progress": "SELECT FROM {}.group_progress('g')", "lag_age_s": "SELECT {}.lag_age_s(0)",
    "shorten_batch": "SELECT {}.shorten_batch('g', 'l1-1', 1)",
    "group_stands": "SELECT {}.group_stands('g', 'l1-1', 1)",
    "group_moved": "SELECT {}.group_moved('g', ROW('l1-1', 1, '{}', 1, 1, false, 0, false)::{}.group_batch)",
    "group_tids": "SELECT {}.group_tids('g', 1, 1)",
    "ack": "SELECT {}.ack('g', 'l1-1')", "group_nack": "SELECT {}.group_nack('g', 'l1-1', 1, 'e', NULL)",
    "nack": "SELECT {}.nack('g', 'l1-1', 1)", "extend_lease": "SELECT {}.extend_lease('g', 'l1-1')",
    "release_batch": "SELECT {}.release_batch('g', 'l1-1')",
    "subscription_arm": "SELECT {}.subscription_arm('g')",
    "subscription_pause": "SELECT {}.subscription_pause('g')", "subscription_resume": "SELECT {}.subscription_resume('g')",
    "subscription_reset": "SELECT {}.subscription_reset('g', 'end')",
    "unshare": "SELECT {}.unshare('g')", "subscribe again": "SELECT {}.subscribe('g')",
    "subscription_remove": "SELECT {}.subscription_remove('g')",
}
ROUTES = {"route_events": "SELECT {}.route_events('q', 'stream', '{1}')"}
MANAGES = {
    "queue_set": "SELECT {}.queue_set('q', history_ms => 1)", "job_cancel": "SELECT {}.job_cancel(1)",
    "job_rerun": "SELECT {}.job_rerun(1)", "queue_purge": "SELECT {}.queue_purge('q')",
    "job_dead_letters_set_state": "SELECT {}.job_dead_letters_set_state('{1}', NULL, 'discarded', 'x')",
    "queue_bind": "SELECT {}.queue_bind('q', 'a.>', 'stream', 'queue:q:a.>', 0, '{}')",
    "queue_unbind": "SELECT {}.queue_unbind('q', 'a.>')",
    "purge_events": "SELECT FROM {}.append('p', 'a'), {}.purge_events('p', reason => 'r')",
    "purge_records": "SELECT FROM {}.purge_records()",
    "token_add": "SELECT {}.token_add('t', sha256('x'), 1)", "token_revoke": "SELECT {}.token_revoke('t')",
    "webhook_set": "SELECT {}.webhook_set('w', 'http://h', 's', false, 'webhook.w', NULL, NULL, 0, 1, 1, 1, NULL, 100)",
    "webhook_list": "SELECT FROM {}.webhook_list()", "webhook_secret": "SELECT {}.webhook_secret('w')",
    "webhook_enable": "SELECT {}.webhook_enable('w', false)",
    "webhook_report": "SELECT {}.webhook_report('w', 200, NULL)", "webhook_remove": "SELECT {}.webhook_remove('w')",
}
# The library's statements, as far as rights go.
SUBSCRIBES = {
    "select": "SELECT FROM {}.events", "select meta": "SELECT FROM {}.meta",
    "look at the sequence": "SELECT last_value FROM {}.events_global_sequence_seq",
    "create a subscription": "INSERT INTO {}.subscriptions (subscriber_id, high) VALUES ('x', 0)"
                             " ON CONFLICT DO NOTHING",
    "take a subscription": "UPDATE {}.subscriptions SET token = nextval('{}.subscriptions_token_seq')",
    "look at subscriptions": "SELECT FROM {}.subscriptions FOR SHARE",
    "remove a subscription": "DELETE FROM {}.subscriptions",
    "put a dead letter": "INSERT INTO {}.dead_letters (subscriber_id, event_id, global_sequence, version,"
                         " recorded_at, revision, schema_version, stream, type) VALUES ('x',"
                         " gen_random_uuid(), 1, 1, now(), 1, 1, 's', 't')",
    "look at dead letters": "SELECT FROM {}.dead_letters",
    "mark dead letters": "UPDATE {}.dead_letters SET state = 'redrive'",
    "skip": "INSERT INTO {}.skips (subscriber_id, first_sequence, last_sequence, age_ms, reason)"
            " VALUES ('x', 1, 2, 3, 'r')",
    "arm the bell": "SELECT setval('{}.bell', last_value | 1) FROM {}.bell",
    "purge_of": "SELECT {}.purge_of(1)",
}
# Nobody but the owner; every one of them would do harm, or tell what only functions may tell.
OWNER = {
    "select the view": "SELECT FROM {}.all_events", "select migrations": "SELECT FROM {}.migrations",
    "select imports": "SELECT FROM {}.imports",
    "insert": "INSERT INTO {}.events (stream, version, type, data) VALUES ('s', 99, 'a', '{}')",
    "update": "UPDATE {}.events SET actor = 'x'", "delete": "DELETE FROM {}.events",
    "truncate": "TRUNCATE {}.events", "update meta": "UPDATE {}.meta SET value = '1'",
    "draw a number": "SELECT nextval('{}.events_global_sequence_seq')",
    "set the sequence": "SELECT setval('{}.events_global_sequence_seq', 1)",
    "create in the schema": "CREATE TABLE {}.t (x integer)",
    "replace a function": "CREATE OR REPLACE FUNCTION {}.head() RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint'",
    "drop": "DROP TABLE {}.events", "lock": "DO $$ BEGIN LOCK TABLE {}.events; END $$",
    "add a trigger": "CREATE TRIGGER t BEFORE INSERT ON {}.events FOR EACH ROW EXECUTE FUNCTION"
                     " suppress_redundant_updates_trigger()",
    "lower a token": "SELECT setval('{}.subscriptions_token_seq', 1)",
    "truncate subscriptions": "TRUNCATE {}.subscriptions", "truncate dead letters": "TRUNCATE {}.dead_letters",
    "ring_for_raw_inserts": "SELECT {}.ring_for_raw_inserts(false)",
    "check a bit": "SELECT {}.bell_bit('a')",
    "select ended jobs": "SELECT FROM {}.ended_jobs", "look at jobs": "SELECT FROM {}.jobs", "look at payloads": "SELECT FROM {}.job_data",
    "look at leases": "SELECT FROM {}.leases", "look at bindings": "SELECT FROM {}.bindings", "look at the history": "SELECT FROM {}.event_log",
    "end_jobs": "SELECT {}.end_jobs('{}')", "requeue_jobs": "SELECT {}.requeue_jobs('{}')",
    "wake_keys": "SELECT {}.wake_keys(1, 1)", "tidy_up": "SELECT {}.tidy_up('q', 1)",
    "remove_history": "SELECT {}.remove_history(1, 1, 1)", "leased_jobs": "SELECT {}.leased_jobs(1)",
    "next_levels": "SELECT {}.next_levels(1, now(), 0, 1, 1, NULL, NULL, NULL)",
    "find_suspect": "SELECT {}.find_suspect(1, now())", "purged_note": "SELECT {}.purged_note(1)",
    "end_lease": "SELECT {}.end_lease(NULL)",
    "log_completed": "SELECT {}.log_completed(1, now(), 'w', '{1}', '{1}')",
    "claim_suspect": "SELECT {}.claim_suspect(1, '(0,1)')", "complete_plain": "SELECT {}.complete_plain('{1}', '{1}')", "free_keys": "SELECT {}.free_keys(1, '{1}', '{1}')", "promote_keys": "SELECT {}.promote_keys(1, '{1}')", "give_back": "SELECT {}.give_back(1, 1)",
    "claim_free": "SELECT {}.claim_free(1, 1, '{}', '{}', '{}', now())", "queue_of": "SELECT {}.queue_of('x')",
    "attempts_of": "SELECT {}.attempts_of(1, 1)", "ring_queue": "SELECT {}.ring_queue(1)",
    "query_conditions": "SELECT {}.query_conditions(NULL)", "query_source": "SELECT {}.query_source(NULL)",
    "query_is_narrow": "SELECT {}.query_is_narrow(NULL)", "check_known_at": "SELECT {}.check_known_at(now())",
    "pattern_prefix": "SELECT {}.pattern_prefix('a.*')", "pattern_type": "SELECT {}.pattern_type('a')", "payload_max": "SELECT {}.payload_max()",
    "library_payload_max": "SELECT {}.library_payload_max()", "purge_jobs": "SELECT {}.purge_jobs('{1}', 'r', 'a')",
    "purge_take": "SELECT {}.purge_take('{1}', '{1}')", "check_sequence": "SELECT {}.check_sequence(false)",
    "look at snapshots": "SELECT FROM {}.snapshots", "look at purges": "SELECT FROM {}.purges",
    "group_of": "SELECT {}.group_of('g')",
    "log_look": "SELECT {}.log_look(0)",
    "log_alive": "SELECT {}.log_alive(1, 1, 1, '{}', '{}')",
    "group_deal": "SELECT {}.group_deal(NULL, 1)",
    "group_mend": "SELECT {}.group_mend(NULL)",
    "group_remake": "SELECT {}.group_remake(NULL)",
    "group_resolve_holes": "SELECT {}.group_resolve_holes(NULL, '{}', 1, '{}', '{}')",
    "group_next": "SELECT {}.group_next(NULL, 's', 1, 1, 1)",
    "group_retry_on": "SELECT {}.group_retry_on(NULL, NULL, 1)",
    "group_dead_letter": "SELECT {}.group_dead_letter(NULL, 1, 'w', 1)",
    "group_fail": "SELECT {}.group_fail(NULL, 1, 's', 1, 1, 'w', 1, NULL)",
    "group_wake_dead_letters": "SELECT {}.group_wake_dead_letters(NULL)",
    "group_take_retry": "SELECT {}.group_take_retry(NULL, 1, 'm', 1, 1)",
    "group_await_deal": "SELECT {}.group_await_deal(NULL)",
    "group_lot_tids": "SELECT {}.group_lot_tids(NULL, NULL)",
    "group_without_stuck": "SELECT {}.group_without_stuck(NULL, NULL, '{}')",
    "group_take": "SELECT {}.group_take(NULL, 1, 'm', 1, 1, true)", "group_take_new": "SELECT {}.group_take_new(NULL, 1, 'm', 1, 1, true)", "group_idle": "SELECT {}.group_idle('g')",
    "group_ranges_end": "SELECT FROM {}.group_ranges_end(NULL, '{}', '{}', 1, false)",
    "group_ranges_expired": "SELECT {}.group_ranges_expired(NULL, 1, NULL)",
    "group_late": "SELECT FROM {}.group_late(NULL, 1, 1, 1)",
    "group_deal_range": "SELECT FROM {}.group_deal_range(NULL, 'm', 1, 1)",
    "group_drop": "SELECT {}.group_drop(NULL)", "group_outstanding": "SELECT {}.group_outstanding(NULL)",
    "group_spent": "SELECT {}.group_spent(NULL, NULL, 1)",
    "group_adopt": "SELECT {}.group_adopt(NULL)",
    "group_lot_ack": "SELECT {}.group_lot_ack(NULL, 1, 1, 1)",
    "group_lot_without": "SELECT {}.group_lot_without(NULL, NULL, 1, 's')",
    "group_retry_ack": "SELECT {}.group_retry_ack(NULL, 1, 1, 1)",
    "group_token_parts": "SELECT {}.group_token_parts('l1-1')",
    "group_ack": "SELECT {}.group_ack(NULL, 'l1-1', 1)",
    "group_place": "SELECT {}.group_place(NULL, 1, '{}')",
    "log_end": "SELECT {}.log_end()",
    "start_place": "SELECT {}.start_place('end')",
    "subscribe_problem": "SELECT {}.subscribe_problem('s', NULL, NULL, 'stream', 'open', 1, '0', '0', 'ahead', 'proof', '1 s', 1)",
    "subscription_is_free": "SELECT {}.subscription_is_free(NULL)",
    "subscription_set_status": "SELECT {}.subscription_set_status('g', 'active', NULL)",
    "purge_lots": "SELECT {}.purge_lots('{}', '{}')",
    "look at groups": "SELECT FROM {}.groups", "look at lots": "SELECT FROM {}.group_lots",
    "check members": "SELECT {}.members_problem('{}')", "check a time": "SELECT {}.time_of('x')",
}

READS.update(LOOKS)
APPENDS.update(LOOKS)
ALLOWED = {"publish": {**APPENDS, **BOTH, **RINGS, **PUSHES}, "read": {**READS, **BOTH},
           "subscribe": {**READS, **BOTH, **RINGS, **SUBSCRIBES, **SHARES},
           "work": {**BOTH, **RINGS, **PUSHES, **WORKS},
           "router": {**READS, **BOTH, **RINGS, **SUBSCRIBES, **SHARES, **PUSHES, **WORKS, **ROUTES},
           "admin": {**APPENDS, **READS, **BOTH, **RINGS, **SUBSCRIBES, **SHARES, **PUSHES, **WORKS, **ROUTES, **MANAGES},
           "both": {**APPENDS, **READS, **BOTH, **RINGS, **PUSHES}, "nobody": {}}
EVERYTHING = {**APPENDS, **READS, **BOTH, **RINGS, **SUBSCRIBES, **SHARES, **PUSHES, **WORKS, **ROUTES, **MANAGES, **OWNER}


def login(kind):
    return "%s_%s_login" % (SCHEMA, kind)


def make_logins():
    for kind, roles in LOGINS.items():
        psql(bus.url, "CREATE ROLE %s LOGIN" % login(kind) +
             "".join("; GRANT %s_%s TO %s" % (SCHEMA, role, login(kind)) for role in roles))


def drop_logins():
    for kind in LOGINS:
        psql(bus.url, "DROP OWNED BY %s; DROP ROLE %s" % (login(kind), login(kind)))
    for role in ("publish", "read", "subscribe", "work", "admin"):
        psql(bus.url, "DROP OWNED BY %s_%s; DROP ROLE %s_%s" % (SCHEMA, role, SCHEMA, role))


def as_login(kind):
    """The same bus, seen by another login."""
    other = object.__new__(Bus)
    other.url, other.schema = url_of(bus.database, user=login(kind)), SCHEMA
    return other


def check(kind):
    allowed = ALLOWED[kind]
    session = as_login(kind)
    session.sql(";\n".join(list(allowed.values()) + ["SELECT 1"]))
    session.refuses_all(*((statement, DENIED, None) for name, statement in EVERYTHING.items()
                          if name not in allowed))


# What the rows above do not call by its own name, and the roles that may.
CALLED_BY_OTHERS = {**{name: {"publish", "admin"} for name in ("json_problem", "escape_problem", "name_problem",
                                                               "headers_problem")},
                    **{name: set() for name in ("members_problem", "member_problem", "time_of", "bell_bit", "contradiction",
                                                "ring_for_events", "calling_role")}}
ROLES = ("publish", "read", "subscribe", "work", "admin")
# Right on the function; it looks for the other one itself.
GRANTED = {"route_events": {"work", "admin"}}
SUBSCRIBERS = ("subscribe", "admin")
# Every table, view and sequence, and who may do what with it beside its owner.
ROWS = "SELECT INSERT UPDATE DELETE"
RELATIONS = {
    "events": "SELECT", "meta": "SELECT", "subscriptions": ROWS, "dead_letters": ROWS, "skips": ROWS,
    "proven": "SELECT UPDATE", "events_global_sequence_seq": "SELECT", "subscriptions_token_seq": "USAGE",
    "bell": "SELECT UPDATE",
    **{name: "" for name in ("all_events", "migrations", "imports", "dead_letters_id_seq", "skips_id_seq", "queues",
                             "removed_jobs", "claim_locks", "polled_jobs", "job_data", "jobs", "jobs_id_seq", "leases", "leases_token_seq",
                             "key_holders", "dedups", "history", "event_log", "ended_jobs", "job_dead_letters", "bindings",
                             "snapshots", "purges", "purges_id_seq", "queues_queue_id_seq", "history_position_seq",
                             "dead_lettered_jobs", "groups", "groups_group_id_seq", "group_marks", "group_places", "group_lots",
                             "group_holes", "group_retries", "group_retries_retry_seq", "looks", "tokens",
                             "webhooks")},
}


def every_function_is_for_the_roles_of_its_row():
    """As the catalogue has it; a function without a row fails, whoever may call it."""
    found = bus.sql("SELECT p.oid::regprocedure, p.proname, coalesce(string_agg(CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE r.rolname END, ' '), '') "
                    "FROM pg_proc AS p LEFT JOIN LATERAL aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) AS a "
                    "ON a.grantee <> p.proowner LEFT JOIN pg_roles AS r ON r.oid = a.grantee "
                    "WHERE p.pronamespace = '%s'::regnamespace GROUP BY 1, 2" % SCHEMA)
    wrong = []
    for signature, name, granted in found:
        assert name in EVERYTHING or name in CALLED_BY_OTHERS, "no row for %s" % signature
        wanted = GRANTED.get(name, CALLED_BY_OTHERS.get(name)) if name in GRANTED or name in CALLED_BY_OTHERS \
            else {role for role in ROLES if name in ALLOWED[role]}
        if set(granted.split()) != {SCHEMA + "_" + role for role in wanted}:
            wrong.append((signature, granted, wanted))
    assert not wrong, wrong
    assert not (set(CALLED_BY_OTHERS) | set(GRANTED)) - {name for _, name, _ in found}


def every_relation_is_for_the_roles_of_its_row():
    """Tables, views and sequences, columns included."""
    found = bus.column("SELECT relname FROM pg_class WHERE relnamespace = '%s'::regnamespace AND relkind IN ('r','v','m','S','p','f')" % SCHEMA)
    assert set(found) == set(RELATIONS), set(found) ^ set(RELATIONS)
    granted = bus.sql("SELECT c.relname, coalesce(r.rolname, 'PUBLIC'), string_agg(a.privilege_type, ' ' ORDER BY a.privilege_type) "
                      "FROM pg_class AS c, aclexplode(coalesce(c.relacl, acldefault(CASE c.relkind WHEN 'S' THEN 's' ELSE 'r' END::\"char\", c.relowner))) AS a "
                      "LEFT JOIN pg_roles AS r ON r.oid = a.grantee WHERE c.relnamespace = '%s'::regnamespace "
                      "AND a.grantee <> c.relowner GROUP BY 1, 2 ORDER BY 1, 2" % SCHEMA)
    wanted = [(name, "%s_%s" % (SCHEMA, role), " ".join(sorted(rights.split())))
              for name, rights in RELATIONS.items() if rights for role in SUBSCRIBERS]
    assert sorted(granted) == sorted(wanted), set(granted) ^ set(wanted)
    assert bus.one("SELECT count(*) FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid "
                   "WHERE c.relnamespace = '%s'::regnamespace AND a.attacl IS NOT NULL" % SCHEMA) == "0"


def the_schema_itself_is_to_be_used_by_the_roles_and_by_nobody_else():
    granted = bus.sql("SELECT coalesce(r.rolname, 'PUBLIC'), a.privilege_type FROM pg_namespace AS n, "
                      "aclexplode(n.nspacl) AS a LEFT JOIN pg_roles AS r ON r.oid = a.grantee "
                      "WHERE n.nspname = '%s' AND a.grantee <> n.nspowner" % SCHEMA)
    assert sorted(granted) == sorted((SCHEMA + "_" + role, "USAGE") for role in ROLES), granted


def a_worker_cannot_read_the_log_by_making_jobs_of_it():
    """Neither as its login nor in the role that a session of more rights has chosen."""
    bus.sql("SELECT {}.append('secret', 'a', '{\"key\":1}')")
    number = bus.one("SELECT {}.head()")
    route = "SELECT {}.route_events('stolen', 'stream', '{%s}')" % number
    as_login("work").refuses(route, DENIED, "must be allowed to read")
    bus.refuses("SET ROLE %s_work; %s" % (SCHEMA, route), DENIED, "must be allowed to read")
    assert bus.one("SELECT count(*) FROM {}.job_data AS d JOIN {}.queues AS q USING (queue_id) WHERE q.name = 'stolen'") == "0"
    assert as_login("router").one(route) == "1"
    assert as_login("router").one("SELECT data->>'key' FROM {}.claim('stolen')") == "1"


def a_token_is_shown_to_administrators_only():
    job = bus.one("SELECT {}.push('tokens')")
    token = as_login("work").one("SELECT token FROM {}.claim('tokens')")
    look = "SELECT state, token FROM {}.job_states(%s)" % job
    assert as_login("work").sql(look) == [("processing", None)]
    assert as_login("router").sql(look) == [("processing", None)]
    assert bus.sql("SET ROLE %s_work; %s" % (SCHEMA, look)) == [("processing", None)]
    assert as_login("admin").sql(look) == bus.sql(look) == [("processing", token)]
    assert as_login("work").one("SELECT {}.complete(%s, %s)" % (job, token)) == "t"


def a_login_without_any_right_that_holds_the_lock_of_a_subscription_keeps_no_lease_from_it():
    """Anybody who can connect can hold an advisory lock; a lease is a row, which takes the right to write it."""
    key = "md5(convert_to('%s', 'UTF8') || '\\x00' || convert_to('%%s', 'UTF8'))" % SCHEMA
    lock = "SELECT pg_advisory_lock(" + ", ".join("('x' || substr(%s, %d, 8))::bit(32)::int" % (key, at)
                                                  for at in (1, 9)) + ")"
    url = as_login("router").url
    with sessions(as_login("nobody").url, 1) as (intruder,):
        for name in ("elected", "leased"):
            intruder.sql(lock.replace("%s", name))
        words = ("subscribe", "--until-caught-up", "--timeout", "500ms")
        command(*words, "leased", "--instance", "lease", url=url, HOWDAH_SCHEMA=SCHEMA)
        assert bus.one("SELECT high FROM {}.subscriptions WHERE subscriber_id = 'leased'") == bus.one("SELECT {}.head()")
        command(*words, "elected", url=url, HOWDAH_SCHEMA=SCHEMA)
        assert bus.one("SELECT high FROM {}.subscriptions WHERE subscriber_id = 'elected'") == "0"
    command("subscribe", "--until-caught-up", "elected", url=url, HOWDAH_SCHEMA=SCHEMA)
    assert bus.one("SELECT high FROM {}.subscriptions WHERE subscriber_id = 'elected'") == bus.one("SELECT {}.head()")


def what_was_refused_changed_nothing():
    rows = bus.sql("SELECT count(*), count(actor), max(version) FROM {}.events")
    assert rows == [("22", "0", "21")], rows


def the_command_works_for_a_login_that_may_only_work():
    """Also beside a binding, whose events it may not read: others route them."""
    for queue in ("alone", "bound"):
        if queue == "bound":
            command("--schema", SCHEMA, "bind", queue, "a.*", url=bus.url)
        command("--schema", SCHEMA, "push", queue, '{"n":1}', url=as_login("work").url)
        command("--schema", SCHEMA, "work", queue, "--exec", "true", "--until-empty", url=as_login("work").url)
        assert bus.sql("SELECT pending, completed FROM {}.queue_states('%s')" % queue) == [("0", "1")]
    assert '"queue":"bound"' in command("--schema", SCHEMA, "bindings", url=as_login("work").url)


def the_library_appends_and_reads_for_logins_without_rights_on_tables():
    command("append", "--quiet", "lib", "a.b", '{"x":1}', url=as_login("both").url, HOWDAH_SCHEMA=SCHEMA)
    text = command("read", "--json", "--stream", "lib", url=as_login("read").url, HOWDAH_SCHEMA=SCHEMA)
    assert '"data":{"x":1}' in text, text


if __name__ == "__main__":
    make_logins()
    try:
        code = run([("%s may do its part and nothing else" % kind, lambda kind=kind: check(kind))
                    for kind in LOGINS] +
                   [every_function_is_for_the_roles_of_its_row, every_relation_is_for_the_roles_of_its_row,
                    the_schema_itself_is_to_be_used_by_the_roles_and_by_nobody_else, what_was_refused_changed_nothing,
                    a_worker_cannot_read_the_log_by_making_jobs_of_it, a_token_is_shown_to_administrators_only,
                    a_login_without_any_right_that_holds_the_lock_of_a_subscription_keeps_no_lease_from_it,
                    the_library_appends_and_reads_for_logins_without_rights_on_tables,
                    the_command_works_for_a_login_that_may_only_work])
    finally:
        drop_logins()
    sys.exit(code)
