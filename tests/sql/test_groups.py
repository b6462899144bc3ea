#!/usr/bin/env python3
"""Groups: members that know nothing but the SQL functions share a subscription, each stream in order."""
import json
import random
import re
import subprocess
import sys

from bus import HOWDAH, Refused, command, run
from group_steps import LEVELS, ack, append, bus, drain, expire, fetch, fresh, holes, in_order, nack, subscribe
from session import sessions, until, wait_for_wait


def every_event_comes_once_and_each_stream_in_order():
    name = fresh()
    append(name, "abcdefg", 30)
    subscribe(name)
    for n in (7, 100):
        bus.sql("SELECT {}.subscription_reset('%s', 'start')" % name)
        assert in_order(drain(name, n)) == 210
    assert fetch(name) == []
    append(name, "az")
    assert sorted(drain(name)) == [("a", 31), ("z", 1)]
    assert bus.one("SELECT high = (SELECT max(global_sequence) FROM {}.events) FROM {}.group_places AS p"
                   " JOIN {}.groups USING (group_id) WHERE subscriber_id = '%s'" % name) == "t"


def members_work_at_the_same_time_and_never_on_the_same_stream():
    name = fresh()
    append(name, [str(i) for i in range(60)], 10)
    subscribe(name)
    got, out = [], {}
    dice = random.Random(7)
    with sessions(bus.url, 4) as members:
        while len(got) < 600:
            i = dice.randrange(4)
            if i in out:
                batch = out.pop(i)
                got += [(e.stream, e.version) for e in batch]
                assert ack(name, batch[0].token, session=members[i])
                continue
            batch = fetch(name, dice.choice((1, 5, 50)), members[i], ", 'member %d'" % i)
            if batch:
                out[i] = batch
                streams = [{e.stream for e in b} for b in out.values()]
                assert sum(map(len, streams)) == len(set().union(*streams)), streams
    assert in_order(got) == 600


def a_stale_token_changes_nothing_and_is_told():
    name = fresh()
    append(name, "a", 4)
    subscribe(name)
    old = fetch(name)
    expire(name)
    new = fetch(name)
    assert [e.sequence for e in new] == [old[0].sequence] and new[0].attempt == 2
    before = bus.sql("SELECT * FROM {}.group_lots")
    assert not ack(name, old[0].token)
    assert not ack(name, old[0].token, old[1].sequence)
    assert nack(name, old[0]) == "lost"
    assert bus.one("SELECT {}.nack('%s', '%s', %d)" % (name, old[0].token, old[0].sequence)) == "f"
    assert bus.one("SELECT {}.extend_lease('%s', '%s')" % (name, old[0].token)) == "f"
    assert bus.one("SELECT {}.release_batch('%s', '%s')" % (name, old[0].token)) == "f"
    assert bus.refuses("SELECT {}.fetch('%s', acked => '%s')" % (name, old[0].token), "UH007").message.startswith("the lease")
    assert bus.sql("SELECT * FROM {}.group_lots") == before
    assert ack(name, new[0].token)
    assert not ack(name, new[0].token)


def a_part_of_a_batch_is_acked_and_the_rest_stays_leased():
    name = fresh()
    append(name, "a", 5)
    subscribe(name)
    batch = fetch(name)
    assert ack(name, batch[0].token, batch[1].sequence)
    assert fetch(name) == []
    assert ack(name, batch[0].token, batch[1].sequence)
    expire(name)
    again = fetch(name)
    assert [e.version for e in again] == [3]
    assert ack(name, again[0].token)
    assert drain(name) == [("a", 4), ("a", 5)]


def an_ack_and_the_next_batch_are_one_call():
    name = fresh()
    append(name, "a", 5)
    subscribe(name)
    first = fetch(name, 2)
    second = fetch(name, 2, arguments=", acked => '%s'" % first[0].token)
    assert [e.version for e in first + second] == [1, 2, 3, 4]
    assert not ack(name, first[0].token)
    assert ack(name, second[0].token)
    assert drain(name) == [("a", 5)]


def a_batch_that_is_given_back_is_free_and_no_attempt_counts():
    name = fresh()
    append(name, "a", 3)
    subscribe(name)
    batch = fetch(name, 2)
    assert bus.one("SELECT {}.release_batch('%s', '%s')" % (name, batch[0].token)) == "t"
    again = fetch(name)
    assert [(e.version, e.attempt) for e in again] == [(1, 1), (2, 1), (3, 1)]
    assert bus.one("SELECT {}.extend_lease('%s', '%s', '1 hour')" % (name, again[0].token)) == "t"
    assert bus.sql("SELECT member, batches, events, oldest_age_s >= 0 FROM {}.group_members('%s')" % name) == [("", "1", "3", "t")]
    assert ack(name, again[0].token)
    assert bus.sql("SELECT * FROM {}.group_members('%s')" % name) == []


def an_ack_in_the_callers_transaction_is_undone_with_it():
    name = fresh()
    append(name, "a", 2)
    subscribe(name)
    with sessions(bus.url, 2) as (one, other):
        batch = fetch(name, session=one)
        one.sql("BEGIN")
        assert ack(name, batch[0].token, session=one)
        assert fetch(name, session=other) == []
        one.sql("ROLLBACK")
        assert ack(name, batch[0].token, session=one)
        assert fetch(name, session=other) == []


def a_lane_whose_member_is_slow_has_few_lots():
    name = fresh()
    append(name, "a")
    subscribe(name)
    slow = fetch(name)
    for _ in range(20):
        append(name, "a")
        assert fetch(name) == []
    assert bus.one("SELECT count(*) FROM {}.group_lots JOIN {}.groups USING (group_id) WHERE subscriber_id = '%s'" % name) == "2"
    assert ack(name, slow[0].token)
    assert drain(name, 7) == [("a", i) for i in range(2, 22)]


# ---- failures


def a_failed_event_holds_up_only_its_stream():
    name = fresh()
    append(name, "ab", 4)
    subscribe(name, ", lanes => 1, retry_delay => '0'")
    batch = fetch(name, 4)
    assert nack(name, batch[0], "broken") == "retry"
    assert nack(name, batch[2]) == "waits"
    assert ack(name, batch[0].token)
    bus.sql("UPDATE {}.group_retries SET due = now() + interval '1 hour'")
    assert [(e.stream, e.version) for e in fetch(name, 4)] == [("b", 3), ("b", 4)]
    bus.sql("UPDATE {}.group_retries SET due = now()")
    retry = fetch(name, 4)
    assert [(e.stream, e.version, e.attempt) for e in retry] == [("a", 1, 2)]
    assert ack(name, retry[0].token)
    rest = fetch(name, 10)
    assert [(e.stream, e.version, e.attempt) for e in rest] == [("a", 2, 1), ("a", 3, 1), ("a", 4, 1)]
    assert nack(name, rest[1]) == "retry"
    assert [(e.version, e.attempt) for e in fetch(name, 10)] == [(3, 2)]


def after_the_last_retry_the_event_is_a_dead_letter_and_its_stream_goes_on():
    name = fresh()
    append(name, "a", 3)
    subscribe(name, ", max_retries => 1, retry_delay => '0'")
    batch = fetch(name)
    assert nack(name, batch[0], "first") == "retry"
    assert ack(name, batch[0].token)
    retry = fetch(name)
    assert nack(name, retry[0], "second") == "dead"
    assert bus.sql("SELECT state, retry_count, error_message, version FROM {}.dead_letters WHERE subscriber_id = '%s'" % name) == [
        ("dead", "2", "second", "1")]
    assert drain(name) == [("a", 2), ("a", 3)]
    bus.sql("UPDATE {}.dead_letters SET state = 'redrive' WHERE subscriber_id = '%s'" % name)
    redrive = fetch(name)
    assert [(e.version, e.attempt) for e in redrive] == [(1, 3)]
    assert nack(name, redrive[0], "third") == "dead"
    bus.sql("UPDATE {}.dead_letters SET state = 'redrive' WHERE subscriber_id = '%s'" % name)
    assert drain(name) == [("a", 1)]
    assert bus.sql("SELECT state, retry_count, redrives FROM {}.dead_letters WHERE subscriber_id = '%s'" % name) == [("redriven", "4", "2")]
    assert drain(name) == []


def a_held_stream_waits_for_a_person():
    for decision in ("redrive", "discarded"):
        name = fresh()
        append(name, "ab", 3)
        subscribe(name, ", max_retries => 0, on_fail => 'hold', lanes => 1")
        batch = fetch(name, 2)
        assert nack(name, batch[0]) == "held"
        assert ack(name, batch[0].token)
        got = drain(name)
        assert got == [("b", 2), ("b", 3)], got
        append(name, "ab")
        assert drain(name) == [("b", 4)]
        bus.sql("UPDATE {}.dead_letters SET state = '%s', resolved_at = CASE '%s' WHEN 'discarded' THEN now() END"
                " WHERE subscriber_id = '%s'" % (decision, decision, name))
        assert drain(name, 2) == ([("a", 1)] if decision == "redrive" else []) + [("a", 2), ("a", 3), ("a", 4)]
        append(name, "a")
        assert drain(name) == [("a", 5)]


def a_closed_group_halts_until_it_is_resumed():
    name = fresh()
    append(name, "ab", 2)
    subscribe(name, ", max_retries => 0, on_fail => 'closed', lanes => 1")
    batch = fetch(name)
    assert nack(name, batch[0], "stop") == "halted"
    assert bus.sql("SELECT status, reason LIKE '%%stop' FROM {}.subscriptions WHERE subscriber_id = '%s'" % name) == [("halted", "t")]
    assert fetch(name) == []
    assert ack(name, batch[0].token)
    bus.sql("SELECT {}.subscription_resume('%s')" % name)
    assert drain(name) == [("a", 1), ("a", 2)]


def events_of_a_member_that_vanished_are_tried_one_by_one():
    name = fresh()
    append(name, "a", 4)
    subscribe(name, ", max_retries => 1")
    fetch(name, 3)
    expire(name)
    assert [(e.version, e.attempt) for e in fetch(name)] == [(1, 2)]  # it kills its member again
    expire(name)
    second = fetch(name)
    assert [(e.version, e.attempt) for e in second] == [(2, 2)]
    assert ack(name, second[0].token)
    assert bus.sql("SELECT version, error_message FROM {}.dead_letters WHERE subscriber_id = '%s'" % name) == [
        ("1", "the lease ran out, after 2 tries")]
    third = fetch(name)
    assert [(e.version, e.attempt) for e in third] == [(3, 2)]
    assert ack(name, third[0].token)
    assert [(e.version, e.attempt) for e in fetch(name)] == [(4, 1)]


def a_retry_whose_member_vanished_counts():
    name = fresh()
    append(name, "a", 2)
    subscribe(name, ", max_retries => 2, retry_delay => '0'")
    batch = fetch(name)
    assert nack(name, batch[0]) == "retry"
    assert ack(name, batch[0].token)
    for attempt in (2, 3):
        assert [(e.version, e.attempt) for e in fetch(name)] == [(1, attempt)]
        expire(name)
    assert drain(name) == [("a", 2)]
    assert bus.one("SELECT retry_count FROM {}.dead_letters WHERE subscriber_id = '%s'" % name) == "3"


def without_a_key_a_failed_event_holds_nothing_up():
    name = fresh()
    append(name, "a", 4)
    subscribe(name, ", key => 'none', retry_delay => '0', lanes => 1")
    batch = fetch(name, 2)
    assert nack(name, batch[0], after="60000") == "retry"
    expire(name)
    assert [e.version for e in fetch(name)] == [2]
    expire(name)
    bus.sql("UPDATE {}.group_retries SET due = now()")
    assert sorted(drain(name)) == [("a", i) for i in (1, 2, 3, 4)]


# ---- late commits


def what_commits_late_is_delivered_and_what_was_rolled_back_is_not_waited_for():
    for prepared in (False, True):
        name = fresh()
        subscribe(name)
        with sessions(bus.url, 3) as (late, never, member):
            late.sql("BEGIN; SELECT {}.append('%s:late', '%s.made'); SELECT {}.append('%s:a', '%s.made')" % ((name,) * 4))
            never.sql("BEGIN; SELECT {}.append('%s:never', '%s.made')" % (name, name))
            append(name, "b", 3)
            assert drain(name, session=member) == [("b", 1), ("b", 2), ("b", 3)]
            assert holes() >= 1
            if prepared:
                late.sql("PREPARE TRANSACTION '%s'" % name)
            never.sql("ROLLBACK")
            append(name, "b", 2)
            assert drain(name, session=member) == [("b", 4), ("b", 5)]
            late.sql("COMMIT PREPARED '%s'" % name if prepared else "COMMIT")
            append(name, "ac")
            got = []
            until(lambda: got.extend(drain(name, session=member)) or len(got) >= 4, "all of it")
            assert sorted(got) == [("a", 1), ("a", 2), ("c", 1), ("late", 1)]
            assert got.index(("a", 1)) < got.index(("a", 2))
            until(lambda: fetch(name, session=member) == [] and holes() == 0, "no hole is left")


def an_idle_appender_does_not_keep_numbers_alive_that_were_drawn_after_it():
    name = fresh()
    subscribe(name)
    with sessions(bus.url, 2) as (idle, other):
        idle.sql("BEGIN; SELECT {}.append('%s:idle', '%s.made')" % (name, name))
        for _ in range(2):  # by the second look it has executed nothing since the first
            bus.sql("SELECT {}.log_look(0)")
        for _ in range(20):
            other.sql("BEGIN; SELECT {}.append('%s:x', '%s.made'); ROLLBACK" % (name, name))
            append(name, "b")
            drain(name)
        until(lambda: fetch(name) == [] and holes() == 1, "one hole is left")
        idle.sql("COMMIT")
        assert drain(name) == [("idle", 1)]
        until(lambda: fetch(name) == [] and holes() == 0, "no hole is left")


def strict_order_waits_for_a_missing_number():
    name = fresh()
    subscribe(name, ", ordering => 'strict'")
    with sessions(bus.url, 1) as (late,):
        late.sql("BEGIN; SELECT {}.append('%s:late', '%s.made')" % (name, name))
        append(name, "b")
        for _ in range(3):
            bus.sql("SELECT {}.log_look(0)")
            assert fetch(name) == []
        late.sql("COMMIT")
        bus.sql("SELECT {}.log_look(0)")
        got = [(e.stream, e.version) for e in fetch(name)] + [(e.stream, e.version) for e in fetch(name)]
        assert sorted(got) == [("b", 1), ("late", 1)]


def a_gap_timeout_gives_a_number_up_and_records_it():
    name = fresh()
    subscribe(name, ", gap_policy => 'timeout', gap_timeout => '1 ms'")
    with sessions(bus.url, 1) as (late,):
        late.sql("BEGIN; SELECT {}.append('%s:late', '%s.made')" % (name, name))
        append(name, "b")
        assert drain(name) == [("b", 1)]
        until(lambda: fetch(name) == [] and holes() == 0, "the number is given up")
        assert bus.one("SELECT last_sequence - first_sequence FROM {}.skips WHERE subscriber_id = '%s'" % name) == "0"
        late.sql("COMMIT")
        append(name, "b")
        assert drain(name) == [("b", 2)]


def nothing_is_lost_in_any_isolation_level():
    for level in LEVELS:
        name = fresh()
        subscribe(name)
        got = []
        dice = random.Random(level)
        with sessions(bus.url, 4) as (*writers, member):
            open_ones = {}
            written = 0
            for step in range(120):
                i = dice.randrange(3)
                if i in open_ones and dice.random() < 0.6:
                    writers[i].sql(open_ones.pop(i))
                elif i not in open_ones:
                    rolls_back = dice.random() < 0.3
                    writers[i].sql("BEGIN; SELECT {}.append('%s:%d', '%s.made')" % (name, i, name))
                    open_ones[i] = "ROLLBACK" if rolls_back else "COMMIT"
                    written += not rolls_back
                try:
                    member.sql("BEGIN ISOLATION LEVEL " + level)
                    batch = fetch(name, 5, member)
                    if batch:
                        assert ack(name, batch[0].token, session=member)
                    member.sql("COMMIT")
                    got += [(e.stream, e.version) for e in batch]
                except Refused as refused:
                    assert refused.state == "40001", refused
                    member.sql("ROLLBACK")
            for i, end in open_ones.items():
                writers[i].sql(end)
            until(lambda: got.extend(drain(name)) or len(got) >= written, "%s: all of it" % level)
        assert in_order(got) == written
        until(lambda: fetch(name) == [] and holes() == 0, "no hole is left")


# ---- rows that move


def a_table_that_is_written_anew_loses_and_repeats_nothing():
    name = fresh()
    append(name, "a", 10)
    subscribe(name)
    batch = fetch(name, 3)
    assert ack(name, batch[0].token)
    out = fetch(name, 3)
    bus.sql("VACUUM FULL {}.events")
    assert ack(name, out[0].token)
    assert drain(name, 3) == [("a", i) for i in range(7, 11)]


def in_no_order_a_table_that_is_written_anew_gives_nothing_twice():
    name = fresh()
    append(name, [str(i) for i in range(40)], 5)
    subscribe(name, ", key => 'none'")
    out = fetch(name, 5)
    bus.sql("VACUUM FULL {}.events")
    while batch := fetch(name):  # all of it is out at once
        out += batch
    assert len(out) == 200 and len({e.sequence for e in out}) == 200, len(out)


def whoever_nacks_an_event_while_another_goes_on_keeps_its_stream_waiting():
    name = fresh()
    append(name, "ab", 6)
    subscribe(name, ", lanes => 1, retry_delay => '1 hour'")
    batch = fetch(name, 4)
    with sessions(bus.url, 3) as (observer, nacking, going_on):
        nacking.sql("BEGIN")
        assert nack(name, batch[0], session=nacking) == "retry"
        going_on.start("SELECT split_part(stream, ':', 2), version FROM {}.fetch('%s', 4, acked => '%s')" % (name, batch[0].token))
        wait_for_wait(observer, going_on, nacking)
        nacking.sql("COMMIT")
        assert going_on.end() == [("b", "3"), ("b", "4")]
    assert bus.one("SELECT count(*) FROM {}.group_retries WHERE stream = '%s:a'" % name) == "1"


def a_purged_event_is_delivered_as_purged():
    name = fresh()
    append(name, "ab", 5)
    subscribe(name, ", lanes => 1")
    batch = fetch(name, 2)
    bus.sql("SELECT {}.purge_events(stream => '%s:a', reason => 'r')" % name)
    assert ack(name, batch[0].token)
    rows = bus.sql("SELECT split_part(stream, ':', 2), version, purged FROM {}.fetch('%s')" % name)
    assert rows == [(s, str(v), "t" if s == "a" else "f") for v in (2, 3, 4, 5) for s in "ab"], rows


# ---- looking after it


def patterns_streams_and_originals_are_filters():
    name = fresh()
    bus.sql("SELECT {}.append('%s:' || (i %% 2), '%s.' || (CASE i %% 3 WHEN 0 THEN 'x' WHEN 1 THEN 'y.z' ELSE 'w' END))"
            " FROM generate_series(1, 60) AS i" % (name, name))
    bus.sql("SELECT {}.correct(e.id, '1', reason => 'r') FROM {}.events AS e WHERE stream = '%s:1' LIMIT 1" % name)
    for i, (arguments, where) in enumerate((
            ("pattern => '%s.x'" % name, "type = '%s.x'" % name),
            ("pattern => '%s.*'" % name, "type ~ '^%s[.][^.]+$'" % name),
            ("pattern => '%s.>'" % name, "type ~ '^%s[.]'" % name),
            ("stream => '%s:1'" % name, "stream = '%s:1'" % name),
            ("stream => '%s:1', originals => true" % name, "stream = '%s:1' AND revision = 1" % name),
            ("pattern => '%s.x', stream => '%s:1'" % (name, name), "type = '%s.x' AND stream = '%s:1'" % (name, name)))):
        group = "%s-%d" % (name, i)
        bus.sql("SELECT {}.subscribe('%s', %s)" % (group, arguments))
        got = []
        while batch := fetch(group):
            got += [e.sequence for e in batch]
            assert ack(group, batch[0].token)
        assert sorted(got) == [int(n) for n in bus.column(
            "SELECT global_sequence FROM {}.events WHERE %s ORDER BY 1" % where)], arguments


def a_group_starts_where_it_is_told_and_is_paused_reset_and_removed():
    name = fresh()
    append(name, "a", 5)
    end = int(bus.one("SELECT max(global_sequence) FROM {}.events"))
    subscribe(name, ", start => '%d'" % (end - 2))
    assert bus.one("SELECT {}.subscribe('%s')" % name) == "f"
    batch = fetch(name)
    assert [e.version for e in batch] == [4, 5]
    bus.refuses("SELECT {}.subscription_remove('%s')" % name, "UH003", "members have batches")
    bus.refuses("SELECT {}.subscription_reset('%s', '%d')" % (name, end + 1), "UH006", "^start: is beyond the log's head")
    bus.refuses("SELECT {}.subscribe('%s', start => '%d')" % (fresh(), end + 1), "UH006", "^start: is beyond the log's head")
    bus.sql("SELECT {}.subscription_reset('%s', 'end')" % name)
    assert not ack(name, batch[0].token)
    append(name, "a")
    bus.sql("SELECT {}.subscription_pause('%s', 'tea')" % name)
    assert fetch(name) == []
    bus.sql("SELECT {}.subscription_resume('%s')" % name)
    assert drain(name) == [("a", 6)]
    bus.sql("SELECT {}.subscription_remove('%s')" % name)
    bus.refuses_all(("SELECT * FROM {}.fetch('%s')" % name, "UH004", "there is no subscription"),
                    ("SELECT {}.subscription_pause('%s')" % name, "UH004", None))


def a_group_is_reset_to_a_moment_and_nothing_of_it_is_left_out():
    name = fresh()
    subscribe(name, ", start => 'end'")
    append(name, "a", 2)
    with sessions(bus.url, 1) as (late,):
        late.sql("BEGIN; SELECT {}.append('%s:late', '%s.made')" % (name, name))
        append(name, "a", 1)
        moment = bus.one("SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')")
        append(name, "a", 2)
        drain(name)
        bus.sql("SELECT {}.subscription_reset('%s', '%s')" % (name, moment))
        assert drain(name) == [("a", 4), ("a", 5)]
        late.sql("COMMIT")  # it was open when the place was chosen
    got = []
    until(lambda: got.extend(drain(name)) or got, "the late one")
    assert got == [("late", 1)]
    bus.sql("SELECT {}.subscription_reset('%s', '9000-01-01T00:00:00+02:00')" % name)
    assert drain(name) == []
    bus.sql("SELECT {}.subscription_reset('%s', '2001-01-01 00:00:00Z')" % name)
    assert in_order(drain(name)) == 6
    bus.refuses("SELECT {}.subscription_reset('%s', '2001-01-01')" % name, "UH006", "^start: ")


def a_subscription_of_one_process_becomes_shared_where_it_is():
    name = fresh()
    append(name, "a", 4)
    words = ("subscribe", name, "--pattern", name + ".made", "--max", "2")
    assert len(command(*words, url=bus.url).splitlines()) == 2
    with sessions(bus.url, 1) as (runs,):
        runs.sql("SELECT pg_advisory_lock(('x' || substr(md5('%s'), 1, 8))::bit(32)::int,"
                 " ('x' || substr(md5('%s'), 9, 8))::bit(32)::int)" % (name, name))
        bus.refuses("SELECT {}.subscribe('%s')" % name, "UH003", "a process runs the subscription")
    until(lambda: bus.one("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2") == "0", "it has ended")
    assert bus.one("SELECT {}.subscribe('%s')" % name) == "f"
    assert drain(name) == [("a", 3), ("a", 4)]
    command("sub", "reset", name, "--to", "0", url=bus.url)
    assert drain(name) == [("a", 1), ("a", 2), ("a", 3), ("a", 4)]
    try:
        command(*words, url=bus.url)
        raise RuntimeError("a process has it as well")
    except AssertionError as refused:
        assert "the subscription %s is shared" % name in str(refused), refused


def a_group_becomes_a_subscription_of_one_process_where_it_is():
    """What is in lots, behind a failed event, or missing is delivered; what was handled is not."""
    name = fresh()
    append(name, "abc", 4)
    subscribe(name, ", lanes => 1")
    with sessions(bus.url, 1) as (late,):
        late.sql("BEGIN; SELECT {}.append('%s:late', '%s.made')" % (name, name))
        append(name, "c")
        batch = fetch(name, 5)
        assert nack(name, batch[0], after="3600000") == "retry"
        bus.refuses("SELECT {}.unshare('%s')" % name, "UH003", "members have batches")
        assert ack(name, batch[0].token)
        bus.sql("SELECT {}.unshare('%s')" % name)
        bus.refuses("SELECT {}.fetch('%s')" % name, "UH003", "is not shared")
        late.sql("COMMIT")
    out = command("subscribe", name, "--pattern", name + ".made", "--until-caught-up", "--json", url=bus.url)
    got = [(event["stream"].split(":")[1], event["version"]) for event in map(json.loads, out.splitlines())]
    assert sorted(got) == sorted([("a", i) for i in (1, 2, 3, 4)] + [("b", 3), ("b", 4)] + [("c", i) for i in (2, 3, 4, 5)]
                                 + [("late", 1)]), got
    assert [v for s, v in got if s == "a"] == [1, 2, 3, 4]


def members_in_other_isolation_levels_are_told_to_try_again():
    for level in LEVELS[1:]:
        name = fresh()
        append(name, "ab", 3)
        subscribe(name)
        with sessions(bus.url, 2) as (old, other):
            old.sql("BEGIN ISOLATION LEVEL %s; SELECT count(*) FROM {}.events" % level)
            assert fetch(name, session=other)
            try:
                assert fetch(name, session=old) == []
                raise AssertionError("not refused")
            except Refused as refused:
                assert refused.state == "40001", refused
            old.sql("ROLLBACK")


def who_finds_nothing_waits_a_moment_for_whoever_deals():
    name = fresh()
    append(name, "ab", 3)
    subscribe(name)
    with sessions(bus.url, 3) as (dealer, member, observer):
        dealer.sql("BEGIN")
        assert fetch(name, 1, session=dealer)

        def has_waited():
            member.start("SELECT count(*) FROM {}.fetch('%s')" % name)
            waits = any(observer.one("SELECT '%s' = ANY (pg_blocking_pids(%s))" % (dealer.pid, member.pid)) == "t" for _ in range(30))
            assert member.end() == [("0",)]
            return waits
        until(has_waited, "a member waits for the dealer, and goes on without it")
        dealer.sql("ROLLBACK")
        assert in_order(drain(name, session=member)) == 6


def what_comes_does_not_depend_on_how_the_server_plans():
    settings = bus.column("SELECT name FROM pg_settings WHERE name LIKE 'enable%' AND vartype = 'bool' ORDER BY 1")
    assert len(settings) > 15, settings
    for off in [[name] for name in settings] + [settings]:
        name = fresh()
        bus.sql("SELECT {}.subscribe('%s', start => 'end', lanes => 4)" % name)
        bus.sql("SELECT {}.subscribe('%s-some', pattern => '%s.*', lanes => 4)" % (name, name))
        append(name, ["s%d" % i for i in range(40)], 15)
        with sessions(bus.url, 1) as (member,):
            member.sql("; ".join("SET %s = off" % setting for setting in off))
            for group in (name, name + "-some"):
                assert in_order(drain(group, 60, session=member)) == 600, (off, group)


def an_event_that_is_younger_than_the_statement_that_takes_it_comes():
    name = fresh()
    subscribe(name)
    taking = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%%group_fetch%%' AND pid <> pg_backend_pid() AND %s"
    with sessions(bus.url, 2) as (stranger, writer):
        member = subprocess.Popen([HOWDAH, "--store", bus.url, "subscribe", name, "--shared", "--batch", "10", "--max", "1",
                                   "--timeout", "20s", "--lease", "1h", "--pattern", name + ".made"], stdout=subprocess.PIPE, text=True)
        until(lambda: bus.one(taking % "true") != "0", "the member has looked")
        # The next look waits for the group's row, because the places in its lots are worthless, and deals after that.
        stranger.sql("BEGIN; SELECT FROM {}.groups WHERE subscriber_id = '%s' FOR UPDATE" % name)
        bus.sql("UPDATE {}.group_marks SET group_id = group_id")
        until(lambda: bus.one(taking % ("'%s' = ANY (pg_blocking_pids(pid))" % stranger.pid)) != "0", "the member waits")
        writer.sql("SELECT {}.append('%s:a', '%s.made')" % (name, name))
        stranger.sql("COMMIT")
        said, _ = member.communicate(timeout=60)
        assert [json.loads(line)["stream"] for line in said.splitlines()] == [name + ":a"], said


def a_stranger_with_the_lock_that_members_wait_for_keeps_nothing_from_them():
    name = fresh()
    append(name, "abcdefgh", 3)
    subscribe(name)
    with sessions(bus.url, 2) as (stranger, dealer):
        stranger.sql("SELECT pg_advisory_lock('{}.groups'::regclass::oid::integer, group_id) FROM {}.groups WHERE subscriber_id = '%s'" % name)
        dealer.sql("BEGIN")
        first = fetch(name, 1, session=dealer)
        assert fetch(name) == [], "the dealer has not committed"
        dealer.sql("COMMIT")
        assert ack(name, first[0].token)
        assert in_order([(e.stream, e.version) for e in first] + drain(name)) == 24


def a_member_that_sleeps_is_woken_by_an_append():
    for pattern, channel in (("%s.made", "howdah_events_%s_made"), ("%s.*", "howdah_events")):
        name = fresh()
        bus.sql("SELECT {}.subscribe('%s', pattern => '%s')" % (name, pattern % name))
        with sessions(bus.url, 2) as (member, writer):
            assert member.one("SELECT {}.subscription_arm('%s')" % name) == channel.replace("%s", name)
            member.sql('LISTEN "%s"' % channel.replace("%s", name))
            assert fetch(name, session=member) == []
            writer.sql("SET howdah.ring = on; SELECT {}.append('%s:a', '%s.made')" % (name, name))
            until(lambda: any("Asynchronous notification" in row[0] for row in member.sql("SELECT 1")), "a notification")
            assert [(e.stream, e.version) for e in fetch(name, session=member)] == [("a", 1)]


def the_end_of_the_log_is_the_frontier_with_its_holes():
    name = fresh()
    with sessions(bus.url, 1) as (late,):
        late.sql("BEGIN; SELECT {}.append('%s:late', '%s.made')" % (name, name))
        append(name, "b")
        subscribe(name, ", start => 'end'")
        assert fetch(name) == []
        late.sql("COMMIT")
        assert drain(name) == [("late", 1)]


def the_age_of_what_is_left_is_that_of_its_oldest_event():
    name = fresh()
    for _ in range(3):
        append(name, "a")
        bus.sql("SELECT pg_sleep(0.02)")
    one, two, high = (int(n) for n in bus.column("SELECT global_sequence FROM {}.events WHERE stream = '%s:a' ORDER BY 1" % name))
    top = int(bus.one("SELECT max(global_sequence) FROM {}.events"))
    assert bus.one("SELECT {}.lag_age_s(%d)" % top) is None
    assert bus.one("SELECT {}.lag_age_s(%d, '{%d,%d}')" % (top + 9, top + 1, top + 2)) is None  # no event is there
    for arguments, oldest in (("%d" % (one - 1), 1), ("%d" % two, 3), ("%d, '{%d,%d}'" % (high, two, two), 2),
                              ("%d, '{%d,%d}', '{%d,%d}'" % (high, high, high, one, one), 1)):
        found = bus.column("WITH a AS MATERIALIZED (SELECT clock_timestamp() AS before,"
                           " {}.lag_age_s(%s) * interval '1 second' AS age, clock_timestamp() AS after)"
                           " SELECT e.version FROM {}.events AS e, a WHERE e.stream = '%s:a' AND e.recorded_at"
                           " BETWEEN a.before - a.age - interval '1 ms' AND a.after - a.age + interval '1 ms'" % (arguments, name))
        assert str(oldest) in found, (arguments, found)


def the_age_of_what_is_left_costs_no_scan():
    name = fresh()
    bus.sql("SELECT count({}.append('%s:' || i, '%s.made')) FROM generate_series(1, 3000) AS i" % (name, name))
    last = int(bus.one("SELECT max(global_sequence) FROM {}.events"))
    plan = [row[0] for row in bus.sql("SELECT {}.lag_age_s(0); EXPLAIN (ANALYZE, BUFFERS, TIMING OFF)"
                                      " SELECT {}.lag_age_s(%d, '{%d,%d}')" % (last, last, last))]
    pages = sum(int(n) for line in plan for n in re.findall(r"(?:hit|read)=(\d+)", line) if "Planning" not in line)
    assert pages < 40, plan


def a_sequence_below_a_groups_place_is_told():
    name = fresh()
    append(name, "a", 3)
    subscribe(name)
    drain(name)
    last = bus.one("SELECT last_value FROM {}.events_global_sequence_seq")
    assert bus.one("SELECT {}.sequence_problem()") is None
    bus.sql("DELETE FROM {}.events WHERE stream LIKE '%s:%%'; SELECT setval('{}.events_global_sequence_seq', %s - 3);"
            "UPDATE {}.proven SET upto = 0" % (name, last))
    assert bus.one("SELECT {}.sequence_problem()").endswith("it is at %d, and numbers up to %s are done" % (int(last) - 3, last))
    bus.sql("SELECT setval('{}.events_global_sequence_seq', %s)" % last)
    assert bus.one("SELECT {}.sequence_problem()") is None


def bad_input_is_refused_with_field_rule_and_length():
    name = fresh()
    subscribe(name)
    s = "SELECT {}.subscribe('x'%s)"
    bus.refuses_all(
        ("SELECT {}.subscribe('')", "UH006", "^subscriber_id: must have 1 to 255 bytes, in 0 bytes$"),
        ("SELECT {}.subscribe(repeat('x', 256))", "UH006", "in 256 bytes$"),
        ("SELECT {}.subscribe(E'a\\nb')", "UH006", "^subscriber_id: must not contain control characters, in 3 bytes$"),
        (s % ", pattern => 'a..b'", "UH006", "^pattern: "),
        (s % ", start => 'then'", "UH006", "^start: must be start, end, a number, or a moment like 2026-01-31T09:30:00Z, in 4 bytes$"),
        (s % ", key => 'x'", "UH006", "^key: must be stream or none$"),
        (s % ", on_fail => 'x'", "UH006", "^on_fail: "),
        (s % ", ordering => 'x'", "UH006", "^ordering: "),
        (s % ", gap_policy => 'x'", "UH006", "^gap_policy: "),
        (s % ", max_retries => -1", "UH006", "^max_retries: "),
        (s % ", retry_delay => '-1 s'", "UH006", "^retry_delay: "),
        (s % ", lanes => 3", "UH006", "^lanes: must be a power of two, 1 to 1024$"),
        ("SELECT {}.fetch('%s', 0)" % name, "UH006", "^max_count: must be 1 to 10000$"),
        ("SELECT {}.fetch('%s', lease => '0')" % name, "UH006", "^lease: "),
        ("SELECT {}.fetch('%s', member => repeat('x', 256))" % name, "UH006", "^member: .* in 256 bytes$"),
        ("SELECT {}.ack('%s', 'x')" % name, "UH006", "^token: .* in 1 bytes$"),
        ("SELECT {}.ack('%s', NULL)" % name, "UH006", "^token: "),
        ("SELECT {}.fetch('%s', acked => 'l1-0')" % name, "UH006", "^token: .* in 4 bytes$"),  # of lots that nobody has
        ("SELECT {}.fetch(NULL)", "UH006", "^subscriber_id: must have 1 to 255 bytes, in 0 bytes$"),
        ("SELECT {}.ack('nobody', 'l1-1')", "UH004", "^there is no subscription nobody$"))
    assert bus.one("SELECT count(*) FROM {}.subscriptions WHERE subscriber_id = 'x'") == "0"


def members_that_looked_in_and_streams_that_were_seen_leave_nothing_behind():
    name = fresh()
    subscribe(name, ", start => 'end'")
    tables = bus.column("SELECT tablename FROM pg_tables WHERE schemaname = 'howdah' AND (tablename LIKE 'group%'"
                        " OR tablename IN ('subscriptions', 'looks', 'dead_letters', 'skips')) ORDER BY 1")
    assert {"groups", "group_holes", "group_lots", "group_marks", "group_places", "group_retries"} < set(tables), tables
    counting = "SELECT %s" % ", ".join("(SELECT count(*) FROM {}.%s)" % table for table in tables)
    empty = drain(name) or bus.sql(counting)
    # 50,000 streams with an event each, and 10,000 members of which each takes five events and is not seen again.
    bus.sql("SELECT count({}.append('%s:' || i, '%s.made')) FROM generate_series(1, 50000) AS i" % (name, name))
    bus.sql("""DO $$
        DECLARE last text; taken bigint; n bigint := 0;
        BEGIN
            FOR i IN 1 .. 30000 LOOP
                SELECT min(f.token), count(*) INTO last, taken FROM {}.fetch('%s', 5, 'member ' || i, acked => last) AS f;
                n := n + taken;
                EXIT WHEN n = 50000 AND taken = 0;
                IF i %% 100 = 0 THEN
                    COMMIT;
                END IF;
            END LOOP;
            IF n <> 50000 THEN
                RAISE 'only %%', n;
            END IF;
        END $$""" % name)
    assert drain(name) == []
    assert bus.sql("SELECT * FROM {}.group_members('%s')" % name) == []
    assert bus.sql(counting) == empty
    bus.sql("; ".join("VACUUM {}.%s" % table for table in tables))
    size = int(bus.one("SELECT sum(pg_total_relation_size('howdah.' || t)) FROM unnest('{%s}'::text[]) AS t" % ",".join(tables)))
    assert size < 20000000, size


def who_may_only_read_takes_nothing_and_may_look():
    name = fresh()
    append(name, "ab", 3)
    subscribe(name)
    batch = fetch(name, 2)
    token, number = batch[0].token, batch[0].sequence
    append(name, "c", 3)
    state = ["SELECT * FROM {}.%s" % table for table in ("group_lots", "group_places", "group_retries", "group_holes", "groups", "subscriptions")]
    before = [bus.sql(table) for table in state]
    with sessions(bus.url, 1) as (member,):
        for change in ("fetch('%s')", "fetch('%s', acked => '{token}')", "ack('%s', '{token}')", "ack('%s', '{token}', {number})",
                       "nack('%s', '{token}', {number})", "extend_lease('%s', '{token}')", "release_batch('%s', '{token}')", "subscription_pause('%s')", "subscription_reset('%s', 'start')",
                       "subscription_remove('%s')", "subscribe('%s-2')"):
            member.sql("BEGIN READ ONLY")
            try:
                member.sql("SELECT FROM {}." + (change % name).format(token=token, number=number))
                raise RuntimeError("not refused: " + change)
            except Refused as refused:
                assert refused.state == "25006", (change, refused)
            member.sql("ROLLBACK")
        member.sql("BEGIN READ ONLY")
        assert [row[:3] for row in member.sql("SELECT * FROM {}.group_members('%s')" % name)] == [("", "1", "2")]
        assert member.sql("SELECT status, due_ms BETWEEN 1 AND 30000 FROM {}.group_outlook('%s')" % name) == [("active", "t")]
        member.sql("COMMIT")
    assert [bus.sql(table) for table in state] == before
    assert ack(name, token)
    assert in_order([(e.stream, e.version) for e in batch] + drain(name)) == 9
    assert bus.sql("SELECT status, due_ms IS NULL FROM {}.group_outlook('%s')" % name) == [("active", "t")] # nothing is left


def an_event_of_another_batch_cannot_be_failed():
    name = fresh()
    append(name, "ab")
    subscribe(name)
    one, other = fetch(name), fetch(name)
    bus.refuses("SELECT {}.nack('%s', '%s', %d)" % (name, one[0].token, other[0].sequence), "UH006", "is not in the batch")


# ---- the short way: a few new events, and nothing else to do

def deals(name):
    return int(bus.one("SELECT max(p.deal) FROM {}.group_places AS p JOIN {}.groups USING (group_id) WHERE subscriber_id = '%s'" % name))


def where_it_stands(name):
    """Whether all of the log is dealt, and how many lots are left."""
    return bus.sql("SELECT p.high = (SELECT max(global_sequence) FROM {}.events),"
                   " (SELECT count(*) FROM {}.group_lots AS l WHERE l.group_id = p.group_id)"
                   " FROM {}.group_places AS p JOIN {}.groups USING (group_id) WHERE subscriber_id = '%s'" % name)[0]


def a_few_new_events_are_dealt_at_once_and_others_get_the_other_lanes():
    name = fresh()
    append(name, "a")
    subscribe(name)
    assert len(drain(name)) == 1
    for count in (1, 2, 8):
        append(name, [str(i) for i in range(count)], 1)
        before = deals(name)
        out = []
        while batch := fetch(name):
            out.append(batch)
        assert deals(name) == before + 1
        assert sorted(int(e.stream) for batch in out for e in batch) == list(range(count))
        assert [batch[0].attempt for batch in out] == [1] * len(out)
        assert where_it_stands(name) == ("t", str(len(out)))
        assert all(ack(name, batch[0].token) for batch in out)
        assert where_it_stands(name) == ("t", "0")
    assert holes() == 0


def of_a_few_new_events_a_member_takes_as_many_as_it_wants():
    name = fresh()
    subscribe(name)
    append(name, "a", 5)
    first = fetch(name, 2)
    assert [e.version for e in first] == [1, 2] and fetch(name, 2) == []
    rest = fetch(name, 2, arguments=", acked => '%s'" % first[0].token)
    assert [e.version for e in rest] == [3, 4]
    expire(name)
    assert [(e.version, e.attempt) for e in fetch(name, 2)] == [(3, 2)]


def a_few_new_events_of_other_types_are_passed_over():
    name = fresh()
    append(name, "a")
    subscribe(name)
    assert len(drain(name)) == 1
    for types in (["other"] * 3, ["other", "made", "other"], ["made", "other"]):
        for n, kind in enumerate(types):
            bus.sql("SELECT {}.append('%s:%s', '%s.%s')" % (name, "s", name, kind))
        before = deals(name)
        assert len(drain(name)) == types.count("made")
        assert deals(name) == before + 1 and where_it_stands(name) == ("t", "0")


def a_number_that_is_missing_among_a_few_new_events_comes_late():
    name = fresh()
    subscribe(name)
    with sessions(bus.url, 1) as [late]:
        late.sql("BEGIN")
        late.sql("SELECT {}.append('%s:late', '%s.made')" % (name, name))
        append(name, "ab")
        assert sorted(e[0] for e in drain(name)) == ["a", "b"]
        append(name, "c")
        assert drain(name) == [("c", 1)]
        late.sql("COMMIT")
        assert drain(name) == [("late", 1)]
    assert drain(name) == [] and where_it_stands(name) == ("t", "0")


def of_members_that_see_the_same_few_events_one_gets_them_at_every_isolation_level():
    for level in LEVELS:
        name = fresh()
        subscribe(name)
        append(name, "a")
        with sessions(bus.url, 2) as [one, two]:
            for member in (one, two):
                member.sql("BEGIN ISOLATION LEVEL %s" % level)
                assert member.one("SELECT count(*) > 0 FROM {}.events") == "t"
            assert len(fetch(name, session=one)) == 1
            assert fetch(name, session=two) == [] # the first one deals
            one.sql("COMMIT")
            try:
                assert fetch(name, session=two) == [] and level == "READ COMMITTED"
            except Refused as refused:
                assert refused.state == "40001" and level != "READ COMMITTED", refused
            two.sql("ROLLBACK")
        assert fetch(name) == []
        expire(name)
        assert [e.attempt for e in fetch(name)] == [2]


if __name__ == "__main__":
    sys.exit(run([
        every_event_comes_once_and_each_stream_in_order,
        members_work_at_the_same_time_and_never_on_the_same_stream,
        a_stale_token_changes_nothing_and_is_told,
        a_part_of_a_batch_is_acked_and_the_rest_stays_leased,
        an_ack_and_the_next_batch_are_one_call,
        a_batch_that_is_given_back_is_free_and_no_attempt_counts,
        an_ack_in_the_callers_transaction_is_undone_with_it,
        a_lane_whose_member_is_slow_has_few_lots,
        a_failed_event_holds_up_only_its_stream,
        after_the_last_retry_the_event_is_a_dead_letter_and_its_stream_goes_on,
        a_held_stream_waits_for_a_person,
        a_closed_group_halts_until_it_is_resumed,
        events_of_a_member_that_vanished_are_tried_one_by_one,
        a_retry_whose_member_vanished_counts,
        without_a_key_a_failed_event_holds_nothing_up,
        what_commits_late_is_delivered_and_what_was_rolled_back_is_not_waited_for,
        an_idle_appender_does_not_keep_numbers_alive_that_were_drawn_after_it,
        strict_order_waits_for_a_missing_number,
        a_gap_timeout_gives_a_number_up_and_records_it,
        nothing_is_lost_in_any_isolation_level,
        a_table_that_is_written_anew_loses_and_repeats_nothing,
        in_no_order_a_table_that_is_written_anew_gives_nothing_twice,
        whoever_nacks_an_event_while_another_goes_on_keeps_its_stream_waiting,
        a_purged_event_is_delivered_as_purged,
        patterns_streams_and_originals_are_filters,
        a_group_starts_where_it_is_told_and_is_paused_reset_and_removed,
        a_group_is_reset_to_a_moment_and_nothing_of_it_is_left_out,
        a_subscription_of_one_process_becomes_shared_where_it_is,
        a_group_becomes_a_subscription_of_one_process_where_it_is,
        members_in_other_isolation_levels_are_told_to_try_again,
        who_finds_nothing_waits_a_moment_for_whoever_deals,
        a_stranger_with_the_lock_that_members_wait_for_keeps_nothing_from_them,
        what_comes_does_not_depend_on_how_the_server_plans,
        an_event_that_is_younger_than_the_statement_that_takes_it_comes,
        a_member_that_sleeps_is_woken_by_an_append,
        the_end_of_the_log_is_the_frontier_with_its_holes,
        the_age_of_what_is_left_is_that_of_its_oldest_event,
        the_age_of_what_is_left_costs_no_scan,
        a_sequence_below_a_groups_place_is_told,
        bad_input_is_refused_with_field_rule_and_length,
        members_that_looked_in_and_streams_that_were_seen_leave_nothing_behind,
        who_may_only_read_takes_nothing_and_may_look,
        an_event_of_another_batch_cannot_be_failed,
        a_few_new_events_are_dealt_at_once_and_others_get_the_other_lanes,
        of_a_few_new_events_a_member_takes_as_many_as_it_wants,
        a_few_new_events_of_other_types_are_passed_over,
        a_number_that_is_missing_among_a_few_new_events_comes_late,
        of_members_that_see_the_same_few_events_one_gets_them_at_every_isolation_level]))
