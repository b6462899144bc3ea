#!/usr/bin/env python3
"""What init makes: the same every time, the same as "migrate print" gives to a DBA, safe to dump."""
import os
import re
import shutil
import subprocess
import sys

from bus import Bus, command, psql, run, Skip


def dump_program():
    """The server's own, or another that is not older."""
    own = os.path.join(os.environ.get("HOWDAH_TEST_PG_BIN", ""), "pg_dump")
    if os.access(own, os.X_OK):
        return own
    other = shutil.which("pg_dump")
    if other:
        said = subprocess.run([other, "--version"], capture_output=True, text=True, check=True).stdout
        if int(re.search(r"[0-9]+", said).group()) >= int(os.environ["HOWDAH_TEST_PG_MAJOR"]):
            return other
    raise Skip("no pg_dump for this server")


def pg_dump(url, *options):
    """The dump, without what differs from one to the next."""
    program = dump_program()
    done = subprocess.run([program, "-d", url, *options], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return re.sub(r"^(--.*|\\(un)?restrict .*|)\n", "", done.stdout, flags=re.M)


def schema_of(bus):
    return pg_dump(bus.url, "--schema-only")


def content_of(bus):
    """Everything that is stored, table by table."""
    tables = bus.column("SELECT table_name FROM information_schema.tables WHERE table_schema = '%s'"
                        " AND table_type = 'BASE TABLE' ORDER BY 1" % bus.schema)
    assert "events" in tables and "meta" in tables, tables
    return {name: bus.sql('SELECT t::text FROM {}.%s AS t ORDER BY 1' % name) for name in tables}


def fill(bus):
    bus.sql("SELECT FROM {}.append('a', 'x.y', '{\"b\":1.10,\"a\":18446744073709551616}',"
            " headers => '{\"h\" : \"v\"}', correlation_id => 'flow', actor => 'me',"
            " valid_time => '2020-01-01T00:00:00.000001Z', schema_version => 3);"
            " SELECT FROM {}.append('a', 'x.y', NULL, bytes => '\\x00ff', content_type => 'a/b');"
            " SELECT FROM {}.append('b', 'z');"
            " BEGIN; SELECT FROM {}.append('b', 'lost'); ROLLBACK;"
            " SELECT FROM {}.append('b', 'z', expected_version => 1);"
            " INSERT INTO {}.subscriptions (subscriber_id, pattern, high, outstanding, token, anchor_sequence,"
            "  anchor_id, owner, status, reason) SELECT 'saga', 'x.*', 5, '{2,3,5,5}',"
            "  nextval('{}.subscriptions_token_seq'), global_sequence, id, 'me', 'halted', 'why'"
            "  FROM {}.events LIMIT 1;"
            " INSERT INTO {}.dead_letters (subscriber_id, event_id, global_sequence, error_message, version,"
            "  recorded_at, revision, schema_version, stream, type, data) SELECT 'saga', id, global_sequence,"
            "  'no', version, recorded_at, revision, schema_version, stream, type, data FROM {}.events LIMIT 1;"
            " INSERT INTO {}.skips (subscriber_id, first_sequence, last_sequence, age_ms, reason)"
            "  VALUES ('saga', 1, 2, 3, 'r');"
            " SELECT FROM {}.events AS e, {}.correct(e.id, '{}', reason => 'r') WHERE e.stream = 'a' AND e.version = 1;"
            " SELECT {}.snapshot_store('a', 3, '{}');"
            " SELECT FROM {}.events AS e, {}.purge_events(ids => ARRAY[e.id], reason => 'r') WHERE e.stream = 'b'"
            "  AND e.version = 1")


# ---- functions


bus = Bus("catalogue")


def every_function_has_a_fixed_search_path():
    rows = bus.sql("SELECT p.oid::regprocedure, p.proconfig FROM pg_proc AS p WHERE pronamespace ="
                   " 'howdah'::regnamespace")
    assert len(rows) > 20, rows
    for name, settings in rows:
        assert settings and 'search_path=pg_catalog, pg_temp' in settings, (name, settings)


def who_forbids_a_plan_forbids_its_compilation():
    """A forbidden plan that is used all the same looks so dear that the server would compile it each time."""
    rows = bus.sql("SELECT proname, 'jit=off' = ANY (proconfig) FROM pg_proc WHERE pronamespace ="
                   " 'howdah'::regnamespace AND array_to_string(proconfig, ' ') LIKE '%enable_%' ORDER BY 1")
    assert len(rows) > 5 and {forbidden for _, forbidden in rows} == {"t"}, rows


def exactly_the_functions_that_touch_tables_run_as_their_owner():
    rows = bus.sql(r"""SELECT p.proname, p.prosecdef,
                       p.prosrc ~ '"?howdah"?\.(events|all_events|meta|migrations|imports|bell|queues|proven)\M'
                       OR p.proname IN ('ring_inside', 'append', 'append_batch', 'read_stream', 'read_all', 'last_event',
                                        'by_correlation', 'push', 'push_batch', 'publish', 'claim', 'poll',
                                        'ack_jobs', 'complete', 'fail', 'retry', 'release', 'extend', 'finalize',
                                        'job_cancel', 'job_rerun', 'queue_bind',
                                        'query_keys', 'query_count', 'query_types', 'query_rows', 'query_events', 'as_of',
                                        'current_events', 'versions', 'type_stats', 'streams_of_type', 'knowledge',
                                        'knowledge_of', 'library_payload_max', 'retract', 'snapshot_load',
                                        'snapshot_list', 'snapshot_remove', 'purge_records', 'fetch', 'group_fetch', 'group_reserve', 'group_take_range', 'group_has_range', 'group_reserve_extend', 'group_end_ranges', 'group_moved', 'group_nack', 'group_stands', 'group_tids', 'group_members', 'group_outlook', 'group_progress', 'shorten_batch',
                                        'ack', 'nack', 'extend_lease', 'release_batch', 'subscribe', 'unshare', 'subscription_arm', 'subscription_pause',
                                        'subscription_resume', 'subscription_reset', 'subscription_remove',
                                        'token_add', 'token_list', 'token_revoke', 'token_used', 'webhook_enable', 'webhook_list',
                                        'webhook_remove', 'webhook_report', 'webhook_secret', 'webhook_set')
                       FROM pg_proc AS p WHERE pronamespace = 'howdah'::regnamespace
                       AND p.proname <> 'ring_for_raw_inserts' -- the owner's own
                       -- What only functions call, which run as the owner themselves.
                       AND p.proname <> ALL ('{attempts_of,check_sequence,group_of,log_look,log_alive,group_deal,group_mend,group_remake,group_resolve_holes,group_next,group_retry_on,group_dead_letter,group_fail,group_wake_dead_letters,group_take_retry,group_await_deal,group_lot_tids,group_lot_without,group_without_stuck,group_take,group_take_new,group_idle,group_ranges_end,group_ranges_expired,group_late,group_deal_range,group_drop,group_outstanding,group_spent,group_adopt,group_lot_ack,group_retry_ack,group_token_parts,group_ack,group_place,log_end,start_place,subscribe_problem,subscription_is_free,subscription_set_status,purge_lots,claim_free,claim_suspect,complete_plain,find_suspect,leased_jobs,next_levels,purged_note,remove_history,tidy_up,end_jobs,end_lease,free_keys,give_back,log_completed,promote_keys,purge_jobs,purge_take,'
                                             'queue_of,requeue_jobs,ring_queue,wake_keys}')""")
    wrong = [row for row in rows if row[1] != row[2]]
    assert wrong == [], wrong
    assert {row[0] for row in rows if row[1] == "f"} == {
        "bell_bit", "calling_role", "channel", "check_known_at", "contradiction", "escape_problem", "event_problem", "headers_problem", "json_problem",
        "member_problem", "members_problem", "name_problem", "pattern_prefix", "pattern_regex", "pattern_type",
        "push_horizon", "push_problem", "query_conditions", "query_is_narrow", "query_source", "time_of", "uuid_v7"}, rows


def public_has_no_right_on_anything():
    assert bus.sql("SELECT p.oid::regprocedure FROM pg_proc AS p WHERE pronamespace ="
                   " 'howdah'::regnamespace AND has_function_privilege('public', p.oid, 'EXECUTE')") == []
    assert bus.sql("SELECT relname FROM pg_class WHERE relnamespace = 'howdah'::regnamespace AND relkind"
                   " IN ('r', 'v', 'S') AND CASE relkind WHEN 'S' THEN has_sequence_privilege('public',"
                   " oid, 'USAGE, SELECT, UPDATE') ELSE has_table_privilege('public', oid, 'SELECT, INSERT,"
                   " UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER') END") == []
    assert bus.one("SELECT has_schema_privilege('public', 'howdah', 'USAGE, CREATE')") == "f"


def every_function_tells_its_volatility():
    volatile = bus.column("SELECT proname FROM pg_proc WHERE pronamespace = 'howdah'::regnamespace AND"
                          " provolatile = 'v' ORDER BY 1")
    assert volatile == ["ack", "ack_jobs", "append", "append_arrays", "append_batch", "append_correction", "check_known_at", "check_sequence",
                        "claim", "claim_free", "claim_jobs", "claim_suspect", "complete", "complete",
                        "complete_plain", "correct", "end_jobs", "end_lease", "exchange_one", "extend",
                        "extend_lease", "fail", "fetch", "finalize", "find_suspect", "free_keys", "give_back",
                        "group_ack", "group_adopt", "group_await_deal", "group_dead_letter", "group_deal", "group_deal_range", "group_drop", "group_end_ranges", "group_fail", "group_fetch", "group_idle",
                        "group_lot_ack", "group_lot_without", "group_members", "group_mend", "group_moved", "group_nack", "group_outlook", "group_place", "group_progress",
                        "group_ranges_end", "group_ranges_expired", "group_remake", "group_reserve", "group_reserve_extend", "group_resolve_holes", "group_retry_ack", "group_retry_on", "group_spent", "group_stands",
                        "group_take", "group_take_new", "group_take_range", "group_take_retry", "group_wake_dead_letters",
                        "group_without_stuck", "job_cancel", "job_dead_letters_set_state", "job_rerun", "knowledge",
                        "knowledge_of", "lag_age_s", "log_completed", "log_end", "log_here", "log_look", "nack", "poll",
                        "promote_keys", "publish", "purge_events", "purge_jobs", "purge_lots", "purge_of",
                        "purge_take", "purged_note", "push", "push_arrays", "push_batch", "query_pin", "queue_arm",
                        "queue_bind", "queue_of", "queue_purge", "queue_set", "queue_tidy", "queue_unbind", "release",
                        "release_batch", "remove_history", "requeue_jobs", "retract", "retry", "ring",
                        "ring_for_events", "ring_for_raw_inserts", "ring_inside", "ring_queue", "route_events",
                        "shorten_batch", "snapshot_remove", "snapshot_store", "start_place", "subscribe", "subscription_arm",
                        "subscription_is_free", "subscription_pause", "subscription_remove", "subscription_reset",
                        "subscription_resume", "subscription_set_status", "tidy_up", "token_add", "token_revoke",
                        "token_used", "unshare", "uuid_v7", "wake_keys", "webhook_enable", "webhook_remove",
                        "webhook_report", "webhook_set"], volatile


# ---- the schema


def init_twice_changes_nothing():
    fill(bus)
    before = schema_of(bus), content_of(bus)
    command("init", "--quiet", url=bus.url)
    command("migrate", "up", "--quiet", url=bus.url)
    assert (schema_of(bus), content_of(bus)) == before


def print_gives_a_dba_what_init_makes():
    by_hand = Bus("catalogue_print", init=False)
    psql(by_hand.url, command("migrate", "print", url=by_hand.url))
    assert schema_of(by_hand) == schema_of(bus)
    fresh = Bus("catalogue_init")
    for table in ("migrations", "meta"):
        columns = "number, name, hash" if table == "migrations" else "key"
        query = "SELECT %s FROM {}.%s ORDER BY 1" % (columns, table)
        assert by_hand.sql(query) == fresh.sql(query)
    # The command finds nothing left to do, and works.
    command("init", "--quiet", url=by_hand.url)
    assert schema_of(by_hand) == schema_of(fresh)
    command("append", "--quiet", "s", "a.b", "{}", url=by_hand.url)
    assert by_hand.column("SELECT type FROM {}.read_all()") == ["a.b"]


def print_names_the_schema_that_was_asked_for_however_odd():
    odd = 'o"d d\'s\\ \u00e9'
    by_hand = Bus("catalogue_odd_print", init=False)
    psql(by_hand.url, command("migrate", "print", url=by_hand.url, HOWDAH_SCHEMA=odd))
    by_init = Bus("catalogue_odd_init", schema=odd)
    assert schema_of(by_hand) == schema_of(by_init)
    command("append", "--quiet", "s", "a.b", "{}", url=by_hand.url, HOWDAH_SCHEMA=odd)
    for role in ("publish", "read", "subscribe", "work", "admin"):
        for database in (by_hand, by_init):
            psql(database.url, 'DROP OWNED BY "%s_%s"' % (odd.replace('"', '""'), role))
        psql(by_hand.url, 'DROP ROLE "%s_%s"' % (odd.replace('"', '""'), role))


def two_buses_in_one_database_do_not_know_each_other():
    command("init", "--quiet", url=bus.url, HOWDAH_SCHEMA="second_bus")
    psql(bus.url, "SELECT FROM second_bus.append('only-here', 'a')")
    assert psql(bus.url, "SELECT second_bus.stream_version('only-here'),"
                         " howdah.stream_version('only-here')") == [("1", "0")]
    assert psql(bus.url, "SELECT a.value <> b.value FROM howdah.meta AS a JOIN second_bus.meta AS b"
                         " USING (key) WHERE key = 'bus_id'") == [("t",)]
    psql(bus.url, "SET client_min_messages = warning; DROP SCHEMA second_bus CASCADE;"
                  " DROP ROLE second_bus_publish, second_bus_read,"
                  " second_bus_subscribe, second_bus_work, second_bus_admin")


# ---- dump and restore


def restore(name, dump):
    other = Bus(name, init=False)
    psql(other.url, dump)
    return other


def dump_and_restore_keep_everything():
    source = Bus("catalogue_source")
    fill(source)
    other = restore("catalogue_restored", pg_dump(source.url))
    assert content_of(other) == content_of(source)
    assert schema_of(other) == schema_of(source)


def a_restored_bus_goes_on_where_the_other_was():
    source = Bus("catalogue_goes_on")
    fill(source)
    highest = int(source.one("SELECT last_value FROM {}.events_global_sequence_seq"))
    token = int(source.one("SELECT token FROM {}.subscriptions"))
    other = restore("catalogue_went_on", pg_dump(source.url))
    command("init", "--quiet", url=other.url)
    command("append", "--quiet", "--expect", "2", "b", "after", "{}", url=other.url)
    rows = other.sql("SELECT global_sequence, version FROM {}.last_event('b')")
    assert rows == [(str(highest + 1), "3")], rows
    assert other.one("SELECT count(*) FROM {}.read_all()") == "6"
    # So do subscriptions: where they were, and their next token is higher than any before.
    assert other.sql("SELECT high, outstanding, status FROM {}.subscriptions") == [("5", "{2,3,5,5}", "halted")]
    assert int(other.one("SELECT nextval('{}.subscriptions_token_seq')")) > token
    assert other.one("INSERT INTO {}.dead_letters (subscriber_id, event_id, global_sequence, version, recorded_at,"
                     " revision, schema_version, stream, type) VALUES ('saga', gen_random_uuid(), 1, 1, now(), 1, 1,"
                     " 's', 't') RETURNING id") == "2"


if __name__ == "__main__":
    sys.exit(run([
        every_function_has_a_fixed_search_path, who_forbids_a_plan_forbids_its_compilation,
        exactly_the_functions_that_touch_tables_run_as_their_owner, public_has_no_right_on_anything,
        every_function_tells_its_volatility, init_twice_changes_nothing,
        print_gives_a_dba_what_init_makes, print_names_the_schema_that_was_asked_for_however_odd,
        two_buses_in_one_database_do_not_know_each_other, dump_and_restore_keep_everything,
        a_restored_bus_goes_on_where_the_other_was]))
